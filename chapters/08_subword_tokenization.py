# %% [markdown]
# # Subword tokenization and byte-pair encoding
#
# *Das Handschuhfach klemmt:* the glove compartment is stuck. German glues words together, and a *Handschuhfach* is a compartment (*Fach*) for gloves (*Handschuh*, literally "hand-shoe"). You may never have seen this word, and it doesn't occur in the 8,000 sentence pairs of this chapter either. The figure cuts the sentence into words, characters and subwords. **In which of the three is a part of it lost?** And how can a program find such subwords, in two languages at once?

# %% tags=["setup", "hide-cell"]
# @title Setup: in Colab, run this cell first
# In Colab, this cell installs the course from the repository and branch that the
# notebook was opened from. Colab's torch and numpy are kept. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import os
    import re
    import subprocess
    from contextlib import suppress
    from importlib.metadata import version
    from urllib.parse import unquote
    from urllib.request import urlopen

    source = ""  # or choose: "git+https://github.com/OWNER/REPOSITORY@BRANCH"
    opened = "git+https://github.com/transformer-course/transformer-course@main"
    with suppress(Exception):  # Colab's server has the notebook's GitHub address
        server = "http://{COLAB_JUPYTER_IP}:{KMP_TARGET_PORT}".format(**os.environ)
        sessions = urlopen(f"{server}/api/sessions", timeout=5).read().decode()
        page = r"github\.com/([^/]+/[^/]+)/blob/(\S+?)/\w+/\d\d_"
        repository, branch = re.search(page, unquote(sessions)).groups()
        opened = f"git+https://github.com/{repository}@{branch}"
    source = source or opened
    print(f"Installing the course from {source}.")
    print("This takes a while. For a fork or branch, set `source` in this cell.")
    keep = [f"{name}=={version(name)}" for name in ("numpy", "torch")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-color", *keep]
    pip += [f"transformer-course[colab] @ {source}"]
    process = subprocess.run(pip, capture_output=True, text=True)
    if process.returncode:
        message = "(?im)^ *((fatal|error): (?!subprocess).+)"
        error = re.search(message, process.stderr)
        reason = error[1] if error else process.stderr[-500:] or "pip failed"
        raise SystemExit(f"Cannot install the course from {source}: {reason}")
    print("The course is installed. Now run all cells in order, folded ones too.")
    print("To keep your changes, choose File > Save a copy in Drive.")
    book = "https://transformer-course.github.io/transformer-course"
    print(f"With all figures: {book}/chapters/08_subword_tokenization.html")

# %% tags=["hide-input"]
from transformer.data import pocket
from transformer.data.bpe import split_words
from transformer.data.pocket.grammar import lexicon
from transformer.data.tokenizer import UNK, Tokenizer
from transformer.models import MODELS_FOLDER
from transformer.plots import bpe_merges as plots
from transformer.plots.curves import curves
from transformer.plots.model_map import model_map
from transformer.plots.style import Captioned, Picture, Row, SourceCode

captions = Tokenizer.load(MODELS_FOLDER / "multi30k" / "tokenizer.model")
german_words = {
    word
    for pair in pocket.pairs("train", 8000)
    for word in split_words(pair.target)
}
stuck = "Das Handschuhfach klemmt."
stuck_words = split_words(stuck)
Picture(
    plots.segmentations(
        {
            "words": stuck_words,
            "characters": list("".join(stuck_words)),
            "subwords": captions.pieces(captions.encode(stuck)),
        },
        unknown=[word for word in stuck_words if word not in german_words],
    ),
    alt=(
        "Das Handschuhfach klemmt, segmented in three ways. Words: four tokens with the "
        "full stop, two of them unknown. Characters: 26 tokens. Subwords: eight tokens, among them "
        "Handschuh, f and ach, none unknown."
    ),
    caption=(
        "One sentence in words, characters and subwords. Words that don't occur in "
        "8,000 sentence pairs become <unk>, and characters make the sentence long. "
        "The subwords are those of chapter 1's translator of image captions."
    ),
)

# %% tags=["remove-cell"]
assert captions.pieces(captions.encode(stuck))[:4] == [
    "▁Das",
    "▁Handschuh",
    "f",
    "ach",
]
assert [word in german_words for word in stuck_words] == [True, False, False, True]

# %% [markdown]
# By the end you will be able to learn a subword vocabulary with pencil and paper, segment unseen words, explain how BPE, WordPiece, Unigram and byte-level BPE differ, and choose the size of a vocabulary. **About 40 minutes.** The chapter builds on the embedding matrix of [The full model](07_full_model.ipynb).

# %% tags=["hide-input"]
Picture(
    model_map("source tokens", "target tokens"),
    alt=(
        "The map of the Transformer, with encoder and decoder side by side. "
        "Highlighted are the inputs at the bottom: the source tokens below the "
        "encoder, and the target tokens below the decoder."
    ),
    caption=(
        "This chapter is about the highlighted inputs: text goes in, and tokens come "
        "out, each of which has an embedding. The probabilities at the top are for "
        "tokens of the same vocabulary."
    ),
)

# %% tags=["hide-input", "imports"]
import io
import math
import textwrap
from collections import Counter
from itertools import pairwise

import sentencepiece

from transformer.data import pocket
from transformer.data.bpe import learn, segment, split_words
from transformer.data.tokenizer import EOS, Tokenizer
from transformer.models import MODELS_FOLDER

# %% [markdown]
# ## Why not words or characters?
#
# A Transformer has one embedding per **token**. It can only read tokens that have an embedding, and only generate tokens that have one. The list of these tokens is its **vocabulary**. Which strings should be in it?
#
# **Words** are the obvious choice, as in the first row of the first figure. But a word that isn't in the vocabulary becomes `<unk>`, and its meaning is lost. How often does that happen? The course comes with the **pocket corpus**, English–German sentence pairs generated by a small program (see [the next chapter](09_data_and_batching.ipynb)). We measure how many words of new text are unknown to a vocabulary that contains every word of the first 500, 1,000, … pairs. The function `split_words` cuts a sentence into words and punctuation marks, with the mark ▁ where a word starts: `▁Das`, `▁Handschuhfach`, `▁klemmt`, `.`

# %%
train = [(pair.source, pair.target) for pair in pocket.pairs("train", 8000)]
test = [(pair.source, pair.target) for pair in pocket.pairs("test", 500)]
languages = "English", "German"


def count_words(pairs, side):
    """How often each word occurs in one language: side 0 or 1 of the pairs."""
    return Counter(word for pair in pairs for word in split_words(pair[side]))


def unknown_words(known, side):
    """The percentage of the test's words that are not known."""
    counts = count_words(test, side)
    n_unknown = sum(n for word, n in counts.items() if word not in known)
    return 100 * n_unknown / counts.total()


# %%
n_pairs = [500, 1000, 2000, 4000, 8000]
unknown = {"English": [], "German": []}
for n in n_pairs:
    for side, language in enumerate(languages):
        known = count_words(train[:n], side)
        unknown[language].append(unknown_words(known, side))

# %% [markdown]
# Compare the two languages at the right end, after 8,000 pairs:

# %% tags=["hide-input"]
Picture(
    curves(
        n_pairs,
        unknown,
        "sentence pairs read",
        "Unknown words in new text (%)",
        log2_x=True,
    ),
    alt=(
        "Unknown words in percent against 500 to 8000 sentence pairs read. The "
        "English curve falls to nearly zero. The German one starts higher, "
        "flattens out, and ends well above it."
    ),
    caption=(
        "Percentage of unknown words in new text: it falls as more text is read, "
        "but stays higher in German than in English."
    ),
)

# %% [markdown]
# More text helps in English, but not enough in German. The words that remain unknown are mostly compounds:

# %%
known = count_words(train, 1)
unseen = [word for word in count_words(test, 1) if word not in known]
print(textwrap.fill(" ".join(word.removeprefix("▁") for word in unseen[:8]), 48))

# %% tags=["remove-cell"]
from transformer.data.pocket.sampler import modifiers_of, split_of_combination

modifiers = tuple("▁" + m.german for m in lexicon().modifiers.values())
assert sum(w.startswith(modifiers) for w in unseen) > 0.8 * len(unseen)
assert unknown["German"][-1] > 5 * unknown["English"][-1]
reserved = {
    f"▁{modifier.german}{form.lower()}{ending}"
    for noun in lexicon().nouns.values()
    for modifier in modifiers_of(noun)
    if split_of_combination(("compound", modifier.english, noun.english)) == "test"
    for form in (noun.german, noun.german_oblique, noun.german_plural)
    for ending in ("", "n")
}
n_unknown = {word: n for word, n in count_words(test, 1).items() if word in unseen}
n_reserved = sum(n for word, n in n_unknown.items() if word in reserved)
assert 0.5 < n_reserved / sum(n_unknown.values()) < 0.7

# %% [markdown]
# Our corpus exaggerates: more than half of the unknown German words are compounds that its generator reserves for test sentences, and without them, the German curve would end less than half as high. But real text never runs out of new words either: the longer it is, the more different words it contains.
#
# There is a second problem: most words of a language are rare. By **Zipf's law**, the $n$-th most frequent word occurs roughly $1/n$ times as often as the most frequent one. An embedding can learn what its word means only where the word occurs, so most embeddings would learn very little.
#
# **Characters** solve both problems: in a language with an alphabet, a hundred of them are enough to write nearly everything. But a single letter means next to nothing, so the lowest layers would first have to combine letters into words. Sequences also become long, which is expensive: inference needs one step per token, and the number of attention weights grows with the square of the length. On our test sentences, the price is:

# %%
text = [line for pair in test for line in pair]
n_words = sum(len(split_words(line)) for line in text)
n_characters = sum(map(len, text))
ratio = n_characters / n_words
print(f"{ratio:.1f} times as long as with words,")
print(f"{ratio**2:.0f} times as many attention weights")

# %% [markdown]
# Some models pay this price and read single bytes ([Xue et al., 2022](https://aclanthology.org/2022.tacl-1.17/)).
#
# **Subwords** are the compromise: frequent words are tokens of their own, rare words are composed of several, and single characters make sure that hardly anything is unknown. The question is how to find them.
#
# ## Byte-pair encoding by hand
#
# **Byte-pair encoding** (BPE) starts with characters and repeats one step: *merge the pair of adjacent symbols that occurs most often into a new symbol.* [Gage (1994)](https://dl.acm.org/doi/10.5555/177910.177914) invented it for data compression, with pairs of *bytes*. [Sennrich et al. (2016a)](https://aclanthology.org/P16-1162/) applied it to translation. They merge characters instead of bytes, only within words, and use the characters and the merged symbols as the vocabulary.
#
# Splitting the text into words first is called **pre-tokenization**. It keeps strings such as *of the* or *dog.* from using up entries of the vocabulary. It also makes learning fast, because the algorithm needs only a table of the distinct words and their counts.
#
# Our text consists of four different words, which occur two to five times each. The mark ▁ shows where a word starts; it is a symbol like any other.

# %%
frequency = {"▁tea": 5, "▁teapot": 2, "▁pot": 3, "▁seat": 2}
spelling = {word: list(word) for word in frequency}


def count_pairs(spelling, frequency):
    counts = Counter()
    for word, symbols in spelling.items():
        for pair in pairwise(symbols):
            counts[pair] += frequency[word]
    return counts


# %%
def in_order(counts):
    """The pairs, beginning with the one to merge next."""

    def order(pair):
        symbol = "".join(pair)
        return -counts[pair], len(symbol), symbol

    return sorted(counts, key=order)


# %%
counts = count_pairs(spelling, frequency)
for left, right in in_order(counts)[:4]:
    print(f"{left}+{right}: {counts[left, right]}", end="   ")

# %% [markdown]
# *e* and *a* are neighbours 5 times in *tea*, twice in *teapot* and twice in *seat*, 9 times in all. No other pair is as frequent, so the first new symbol is `ea`. The next two pairs in the list are tied at 7. Ties need a rule, or two programs would learn different vocabularies. Among tied pairs, our `order` puts the one with the shorter merged symbol first. If their lengths are equal too, Unicode order decides. Now we merge six times:


# %%
def merge(symbols, pair):
    merged = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return merged


# %%
for step in range(1, 7):
    counts = count_pairs(spelling, frequency)
    pair = in_order(counts)[0]
    spelling = {word: merge(spelling[word], pair) for word in spelling}
    print(f"{step}. {'+'.join(pair):6} {counts[pair]}×")
print(*(" ".join(symbols) for symbols in spelling.values()), sep="   ")

# %% tags=["remove-cell"]
four_words = [word for word, n in frequency.items() for _ in range(n)]
tea = learn(four_words, 6)
assert "".join(pair) == tea[-1].symbol and counts[pair] == tea[-1].count
assert [m.symbol for m in tea] == ["ea", "▁t", "▁tea", "ot", "pot", "▁pot"]
assert spelling["▁teapot"] == ["▁tea", "pot"]

# %% [markdown]
# Check line 2 by hand. Before the first merge, `t+e` was next in the list. But now the pair no longer exists, because each of these *e*'s is part of `ea`. In its place, `t+ea` occurs 7 times, and `▁+t` wins this tie because `▁t` is shorter. Then look at the last line: *tea* and *pot* have become single symbols, and **the teapot is split exactly where its two parts meet**. The algorithm doesn't know what a compound is. Counting was enough, because the parts are frequent words.
#
# No word contains the symbols `▁t` and `ot` any more. They were only steps on the way, but they stay in the vocabulary.
#
# **Try your own words.** Before each press of the button, explain why the top pair is merged next:
#
# <div class="widget" data-widget="merges">
#
# *This figure is interactive in the [online book](https://transformer-course.github.io/transformer-course/chapters/08_subword_tokenization.html) (with JavaScript) and in the notebook (run the next cell). Its initial state:*
#
# The most frequent pairs of our four words. The first one is merged:
#
# | pair | count |
# |---|---|
# | e + a | 9 |
# | t + e | 7 |
# | ▁ + t | 7 |
# | o + t | 5 |
#
# </div>
#
# ### Segmenting an unseen word
#
# The word *teapots* isn't in our text. To segment it, split it into characters and apply the merges **in the order in which they were learned**. The figure shows this as a tree: characters at the bottom, one level per merge, and the remaining symbols in pink.

# %% tags=["hide-input"]
four_words = [word for word, n in frequency.items() for _ in range(n)]
Picture(
    plots.merge_tree("▁teapots", learn(four_words, 6)),
    alt=(
        "The characters of teapots at the bottom. Merge 1 joins e and a, merge 2 "
        "the mark and t, merge 3 both to tea; merge 4 joins o and t, merge 5 p "
        "and ot. Three symbols remain: tea with its mark, pot, and s."
    ),
    caption=(
        "BPE segments a word that it has not seen, from characters upwards. The "
        "symbols in pink, “▁tea”, “pot” and “s”, remain."
    ),
)

# %% [markdown]
# The last merge, `▁pot`, isn't in the tree, because it includes the mark ▁ and this *pot* has none. A *pot* at the start of a word and a *pot* inside a word are different strings to BPE, so they get different embeddings. So do *pot* and *Pot*.
#
# In the worst case, none of the merges applies and a word is spelled out. So frequent words are one token, rare ones several, and no word is unknown if all its characters are in the vocabulary.
#
# ## BPE in the package
#
# The package's `learn` is our loop, made faster: it counts all pairs once and then updates only the words that a merge has changed. Its `segment` looks at the pairs that a word contains, finds the one that was merged earliest in learning, merges it, and repeats this until no pair can be merged:

# %% tags=["remove-input"]
SourceCode(segment)

# %% [markdown]
# Here is a larger vocabulary: 4,000 tokens, learned from 4,000 sentence pairs, English and German together. Four are the special tokens `<pad>`, `<bos>`, `<eos>` and `<unk>`. The rest are the characters that occur in the text and one symbol per merge.

# %%
lines = [line for pair in train[:4000] for line in pair]
words = [word for line in lines for word in split_words(line)]
characters = set("".join(words))
merges = learn(words, 4000 - 4 - len(characters))
ranks = {merge.pair: merge.rank for merge in merges}
print(f"4 + {len(characters)} characters + {len(merges)} merges = 4000")

# %% [markdown]
# **Move the slider** to apply fewer or more merges to six words. Each step of the slider is a merge that changes one of them, and the line above the words shows which of the 3,935 merges it is. Point at a symbol, or tap it, to see its two parts and their count. Do the three German compounds end up in pieces that mean something? The section *Where German compounds are split* asks this about more words.

# %% tags=["hide-input"]
shown = "Frühlingskleid Wintermantel Schultisch yesterday kitchen Berlin"
Captioned(
    plots.merge_explorer(
        [f"▁{word}" for word in shown.split()],
        merges,
        description=(
            "Six words as rows of boxes, a box for each symbol: Frühlingskleid, "
            "Wintermantel, Schultisch, yesterday, kitchen, Berlin. A slider runs "
            "through the merges that change one of them. At the left end every box "
            "is a character; further right boxes grow together, until yesterday, "
            "kitchen and Berlin are one box each and the others two or three. "
            "Pointing at a box shows the two parts it was made of and their count."
        ),
    ),
    (
        "Six words during BPE training: with each merge, boxes join, until "
        "frequent words are a single symbol and rare ones a few."
    ),
)

# %% [markdown]
# ### The same as SentencePiece
#
# Real projects use a library such as SentencePiece ([Kudo and Richardson, 2018](https://aclanthology.org/D18-2012/)), and so does this course: its `Tokenizer` is a thin layer around SentencePiece's BPE. If our algorithm is right, it must learn the same merges from the same text, in the same order, and segment every sentence in the same way:

# %%
tokenizer = Tokenizer.train(lines, vocab_size=4000)
# After the four special tokens, ids number the merges in order.
symbols = tokenizer.pieces(range(4, 4 + len(merges)))
assert symbols == [merge.symbol for merge in merges]
for line in text:
    subwords = tokenizer.pieces(tokenizer.encode(line))
    assert subwords == [s for w in split_words(line) for s in segment(w, ranks)]
print(f"{len(merges)} merges and {len(text)} sentences: equal")

# %% [markdown]
# The model never sees these strings, only the tokens' **ids**, their indices in the vocabulary. Text, tokens, ids, and back to text:

# %%
example = test[0][1]
ids = tokenizer.encode(example)
print(textwrap.fill(example, 48))
print(textwrap.fill(" ".join(tokenizer.pieces(ids)), 48))
print(textwrap.fill(" ".join(map(str, ids)), 48))
print(textwrap.fill(tokenizer.decode(ids), 48))

# %% [markdown]
# Decoding is easy: join the tokens, replace each ▁ with a space and drop the leading one. Two other libraries that you will meet are OpenAI's [tiktoken](https://github.com/openai/tiktoken) and Hugging Face's [tokenizers](https://huggingface.co/docs/tokenizers), which can segment text with all the algorithms in this chapter.
#
# <details><summary>What both programs have to agree on</summary>
#
# To learn the same merges, two programs need the same conventions: where a word is marked, how ties are broken, and pre-tokenization. SentencePiece has no separate pre-tokenization step: it replaces each space with ▁ and works on the whole sentence. But its default settings forbid tokens that contain a space in the middle or that join letters with punctuation. The effect is the same as splitting with `split_words` first.
#
# </details>
#
# ### Where German compounds are split
#
# Is every compound split between its parts, like the teapot? The figure shows seven compounds as BPE segments them with our 4,000 tokens. Green lines mark the boundaries between parts at which BPE splits, and orange marks those that it misses.

# %% tags=["hide-input"]
compounds = [
    ("▁Keller", "fenster"), ("▁Theater", "tür"), ("▁Frühlings", "kleid"),
    ("▁Schul", "tisch"), ("▁Schul", "buch"), ("▁Geburtstags", "lieder"),
    ("▁Hand", "schuh", "fach"),
]  # fmt: skip
segmented = {"".join(parts): segment("".join(parts), ranks) for parts in compounds}
described = "; ".join(
    f"{word[1:]} is split {' | '.join(symbols)}"
    for word, symbols in segmented.items()
)
Picture(
    plots.morpheme_boundaries(segmented, compounds),
    alt="Seven compounds, their segments, and where their parts meet. "
    + described.replace("▁", ""),
    caption=(
        "German compounds as BPE segments them: it splits most between their parts "
        "(green lines), but misses some boundaries (orange marks)."
    ),
)

# %% [markdown]
# How often does BPE split a compound at the boundary, and how often would the same number of cuts in random places do so? How often does it split there and nowhere else, so that both parts stay whole? This function counts all three, given the first part of each compound:


# %%
def compound_splits(first_parts, segment_word):
    """The fractions of compounds split at the boundary, by chance, only there."""
    at_boundary = by_chance = only_there = 0
    for word, first in first_parts.items():
        symbols = segment_word(word)
        starts = ["".join(symbols[:n]) for n in range(1, len(symbols))]
        at_boundary += first in starts
        by_chance += len(starts) / (len(word) - 1)
        only_there += [first] == starts
    sums = at_boundary, by_chance, only_there
    return [total / len(first_parts) for total in sums]


# %% [markdown]
# We apply it to all compounds in our test sentences that don't occur in the training text. The second row is the caption translator's tokenizer, which was learned from real text:

# %% tags=["hide-input"]
nouns = {
    form.lower()
    for noun in lexicon().nouns.values()
    for form in (noun.german, noun.german_oblique, noun.german_plural)
}
known_parts = tuple("▁" + m.german for m in lexicon().modifiers.values())
first_part = {}  # of each new compound
for word in count_words(test, 1).keys() - set(words):
    for first in filter(word.startswith, known_parts):
        rest = word.removeprefix(first)
        if rest in nouns or rest.removesuffix("n") in nouns:
            first_part[word] = first
splits_of = {
    "BPE": compound_splits(first_part, lambda word: segment(word, ranks)),
    "captions": compound_splits(
        first_part, lambda word: captions.pieces(captions.encode(word[1:]))
    ),
}
print(f"{len(first_part)} new compounds, split")
print("         at the boundary  by chance  only there")
for name, (at_boundary, by_chance, only_there) in splits_of.items():
    print(f"{name:8} {at_boundary:15.0%} {by_chance:10.0%} {only_there:11.0%}")

# %% tags=["remove-cell"]
at_boundary, by_chance, only_there = splits_of["BPE"]
assert at_boundary > 0.8 and by_chance < 0.2 and 0.4 < only_there < 0.6
at_boundary, by_chance, only_there = splits_of["captions"]
assert 0.75 < at_boundary < 0.9 and by_chance < 0.25 and only_there < 0.1
assert len(set(first_part.values())) < 30
for word, expected in {
    "▁Frühlingskleid": "▁Frühling sk leid",
    "▁Schultisch": "▁Sch ult isch",
    "▁Schulbuch": "▁Schul buch",
}.items():
    assert segment(word, ranks) == expected.split()

# %% [markdown]
# Most are split at the boundary, far more often than by chance. But our corpus makes this easy: its compounds begin with one of a few dozen frequent words. The tokenizer learned from real text also finds most boundaries, but nearly always cuts up a part as well. BPE only counts, and if a frequent string such as *sk* lies across the boundary, BPE merges it. So in the figure, *Frühlingskleid*, a spring dress, becomes *Frühling* + *sk* + *leid*, and *Leid* means "sorrow". *Schultisch*, a school desk, is split in the wrong places, although *Schulbuch*, a school book, is split correctly.
#
# ## Other subword algorithms
#
# Three other algorithms are common:
#
# - **WordPiece** (BERT; [Schuster and Nakajima, 2012](https://doi.org/10.1109/ICASSP.2012.6289079)) also merges pairs, but picks the pair that makes the training text most probable. Google never published its training code. Tutorials usually describe it by a simple score, $\text{count}(ab)\,/\,(\text{count}(a)\,\text{count}(b))$: how frequent a pair is relative to its two parts. (Hugging Face's library learns a WordPiece vocabulary with BPE's merges.) WordPiece doesn't use the merges for segmentation. Instead it repeatedly takes the **longest** matching token, from left to right. BERT's mark is the reverse of ▁: the prefix `##` shows that a token *continues* a word, as in `tea ##pot ##s`. The paper uses word-pieces ([Wu et al., 2016](https://arxiv.org/abs/1609.08144)) for English–French (§5.1).
# - **Unigram** (T5; [Kudo, 2018](https://aclanthology.org/P18-1007/)) works the other way round. It starts with a large vocabulary of frequent strings, estimates a probability for each, and removes those without which the text is hardly less probable. A word gets the segmentation with the highest product of probabilities.
# - **Byte-level BPE** (GPT-2; [Radford et al., 2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf)) is BPE on bytes instead of characters. UTF-8, the usual encoding of text, stores a character in one to four bytes: *u* as 117, *ü* as 195 and 188, € as 226, 130 and 172. So the first 256 tokens, one for each byte, can encode any text, and a token may be part of a character. GPT-4 and Llama 3 use it too.
#
# With the tutorials' score, the very first merge of our four words is a different one:

# %%
counts = count_pairs({word: list(word) for word in frequency}, frequency)
single = Counter()
for word, n in frequency.items():
    for symbol in word:
        single[symbol] += n


def wordpiece_score(pair):
    a, b = pair
    return counts[pair] / (single[a] * single[b])


print("BPE:      ", "+".join(in_order(counts)[0]))
print("the score:", "+".join(max(counts, key=wordpiece_score)))

# %% tags=["remove-cell"]
assert max(counts, key=wordpiece_score) == ("p", "o")
in_utf_8 = [list(character.encode("utf-8")) for character in "uü€"]
assert in_utf_8 == [[117], [195, 188], [226, 130, 172]]
n_symbols = sum(single.values())
likelihood_gains = {
    pair: n * math.log(n_symbols * wordpiece_score(pair))
    for pair, n in counts.items()
}
assert max(likelihood_gains, key=likelihood_gains.get) == ("e", "a")

# %% [markdown]
# Every *e* is followed by *a*, and every *p* by *o*. So in both pairs the left symbol always predicts the right one, and the score prefers the one whose parts are rarer: $5/(5 \cdot 5) = 0.20$ against $9/(9 \cdot 9) = 0.11$. The criterion of the original paper also counts how often a pair occurs. By that, *e+a* wins here, as in BPE.
#
# Now we segment two compounds in four ways, each with 2,000 tokens learned from the same text. For byte-level BPE, we don't even need a new program: we write each byte as a character and call `learn` again. We don't train WordPiece, but apply its segmentation, longest token first, to BPE's vocabulary.


# %%
def longest_first(word, vocabulary):
    tokens = []
    while word:
        n = max(n for n in range(1, len(word) + 1) if word[:n] in vocabulary)
        tokens.append(word[:n])
        word = word[n:]
    return tokens


def as_bytes(text):
    """Each byte of the UTF-8 code as a character."""
    return text.encode("utf-8").decode("latin-1")


# %%
def bpe_ranks(size):
    """The merges of a BPE vocabulary of this size."""
    n_merges = size - 4 - len(characters)
    return {merge.pair: merge.rank for merge in merges[:n_merges]}


def train_unigram(size):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="unigram",
        vocab_size=size, character_coverage=1.0, num_threads=1, minloglevel=2,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


# %%
bpe, unigram = bpe_ranks(2000), train_unigram(2000)
bpe_vocabulary = characters | {a + b for a, b in bpe}
byte_merges = learn((as_bytes(word) for word in words), 2000 - 256)
byte_bpe = {merge.pair: merge.rank for merge in byte_merges}

# %% [markdown]
# The words mean "cellar window" and "spring dress". Which rows are split exactly between *Keller* and *fenster*, and between *Frühlings* and *kleid*?

# %% tags=["hide-input"]
pictures = []
for word in ("Kellerfenster", "Frühlingskleid"):
    rows = {
        "BPE": segment("▁" + word, bpe),
        "longest first": longest_first("▁" + word, bpe_vocabulary),
        "Unigram": unigram.encode(word, out_type=str),
        "byte-level BPE": [
            token.encode("latin-1").decode("utf-8", errors="replace")
            for token in segment(as_bytes("▁" + word), byte_bpe)
        ],
    }
    described = "; ".join(f"{name}: {' | '.join(s)}" for name, s in rows.items())
    pictures.append(
        Picture(
            plots.segmentations(rows),
            alt=f"{word}, segmented in four ways. " + described.replace("▁", ""),
        )
    )
Row(
    *pictures,
    caption=(
        "Two compounds segmented by three algorithms, and by WordPiece's matching "
        "(longest first) on BPE's vocabulary. Only Unigram splits both exactly "
        "between their parts."
    ),
)

# %% tags=["remove-cell"]
assert unigram.encode("Kellerfenster", out_type=str) == ["▁Keller", "fenster"]
assert unigram.encode("Frühlingskleid", out_type=str) == ["▁Frühlings", "kleid"]
assert longest_first("▁Kellerfenster", bpe_vocabulary) != segment(
    "▁Kellerfenster", bpe
)

# %% [markdown]
# On these two words, only Unigram finds the two parts of the compound. Does it do so on all new compounds? The table has the three columns from above, now for 2,000 tokens instead of 4,000, plus the number of tokens that are never used in the training text:

# %% tags=["hide-input"]
used_by_bpe = {symbol for word in set(words) for symbol in segment(word, bpe)}
used_by_unigram = {i for line in lines for i in unigram.encode(line)}
compared = {
    "BPE": (
        *compound_splits(first_part, lambda word: segment(word, bpe)),
        2000 - 4 - len(used_by_bpe),  # without the four special tokens
    ),
    "Unigram": (
        *compound_splits(
            first_part, lambda word: unigram.encode(word[1:], out_type=str)
        ),
        2000 - 3 - len(used_by_unigram),  # SentencePiece itself has three
    ),
}
print("         boundary  by chance  only there  unused")
for name, (at_boundary, by_chance, only_there, unused) in compared.items():
    print(
        f"{name:8} {at_boundary:8.0%} {by_chance:10.0%} {only_there:11.0%} {unused:7}"
    )

# %% tags=["remove-cell"]
in_bpe, in_unigram = compared["BPE"], compared["Unigram"]
assert 0.85 < in_bpe[0] <= in_unigram[0]
assert max(in_bpe[1], in_unigram[1]) < 0.4
assert in_bpe[2] == 0 < in_unigram[2] and in_bpe[3] > 20 * in_unigram[3]
assert 0.25 < in_unigram[2] < 0.35 and in_bpe[3] > 200, "hundreds"

# %% [markdown]
# Both nearly always split at the boundary, far more often than by chance. But with only 2,000 tokens, BPE leaves both parts whole in none of the compounds, whereas Unigram does so in almost a third. The last column suggests why. BPE keeps every symbol that it merged on the way, such as `▁t` and `ot` above, and hundreds of its 2,000 tokens are never used. Unigram removes tokens that the text hardly needs, so it has room for more whole words and parts of words. On real text, in English and Japanese, [Bostrom and Durrett (2020)](https://aclanthology.org/2020.findings-emnlp.414/) also find that BPE wastes entries and that Unigram's tokens are closer to the parts of words. Whether translations get better is less clear, so we stay with BPE, the paper's choice for English–German.
#
# ### Unknown characters
#
# No word is unknown to BPE, but a *character* may be: our corpus has no *Ł* and no €. Without precautions they become `<unk>`, which SentencePiece decodes as ⁇. Byte-level BPE doesn't have this problem. SentencePiece, which Llama 2 uses, has an option with the same effect, `byte_fallback`. It reserves 256 tokens of the vocabulary for the bytes, and uses them for characters that the vocabulary doesn't contain.

# %%
with_bytes = Tokenizer.train(lines, vocab_size=4000, byte_fallback=True)
for name, version in (("without", tokenizer), ("with", with_bytes)):
    print(f"{name} byte fallback:")
    for string in ("Łukasz", "€"):
        ids = version.encode(string)
        pieces = " ".join(version.pieces(ids))
        print(f"  {string} → {pieces} → {version.decode(ids)}")

# %% tags=["remove-cell"]
assert UNK in tokenizer.encode("€") and UNK in tokenizer.encode("Łukasz")
assert with_bytes.decode(with_bytes.encode("Łukasz €")) == "Łukasz €"
euro = segment(as_bytes("€"), byte_bpe)
assert len(euro) == 3, "each token is a third of a character"
assert tokenizer.normalize("nai\u0308ve") == "naïve", (
    "NFKC joins, and keeps accents"
)

# %% [markdown]
# `<0xE2>` is the byte 226, written in base 16: each of these three tokens is a third of a €. Now no character becomes `<unk>`, but whether the model understands it is another question: it can't learn the meaning of bytes that never occur in its training text.
#
# ## One vocabulary for two languages
#
# The paper learns *one* vocabulary from English and German text together (§5.1). One good reason is [weight tying](07_full_model.ipynb): a shared matrix makes sense only if row 17 is the same token everywhere. But do the languages have anything in common? The last line of the output lists the ten most frequent shared tokens:

# %%
in_language = [
    Counter(i for pair in train[:4000] for i in tokenizer.encode(pair[side]))
    for side in (0, 1)
]
shared = in_language[0].keys() & in_language[1].keys()
for language, uses in zip(languages, in_language, strict=True):
    fraction = sum(uses[i] for i in shared) / uses.total()
    print(f"{len(shared)} shared tokens are {fraction:.0%} of the {language} text")
frequent = sorted(shared, key=lambda i: -min(uses[i] for uses in in_language))
print(textwrap.fill(" ".join(tokenizer.pieces(frequent[:10])), 48))

# %% tags=["remove-cell"]
names = set(tokenizer.pieces(list(shared)))
assert {"▁Berlin", "▁warm", "▁modern", "▁hat", "▁plant"} <= names

# %% [markdown]
# The languages share a little: punctuation, names, single letters and fragments, and a few words. Some words mean the same in both languages, like *warm* and *modern*. Others only look the same: a German *hat* is a form of "to have", and *plant* means "(he) plans". These share an embedding, and the layers above have to tell them apart by context.
#
# The second reason for a joint vocabulary is **names**. A translator usually copies them, and copying is easier if both sides split them alike. With one vocabulary, the same string is always split in the same way, whereas with one per language, the two sides often split a name differently. The output shows three names, split with the English vocabulary on the left and with the German one on the right. Our English text doesn't even contain a capital *K*:

# %%
english = Tokenizer.train([source for source, _ in train[:4000]], vocab_size=1000)
german = Tokenizer.train([target for _, target in train[:4000]], vocab_size=1000)
for name in ("Hemingway", "Kathmandu", "Beethoven"):
    in_english = " ".join(english.pieces(english.encode(name)))
    in_german = " ".join(german.pieces(german.encode(name)))
    print(f"{in_english:20}   {in_german}")

# %% tags=["remove-cell"]
for name in ("Hemingway", "Kathmandu"):
    assert english.pieces(english.encode(name)) != german.pieces(
        german.encode(name)
    )

# %% [markdown]
# ## How large should the vocabulary be?
#
# You have to choose the size yourself. For sizes from 250 to 8,000 tokens, the table shows the **fertility**, which is the number of tokens per word of new text (here, punctuation marks count as words), and the percentage of **rare** tokens, which occur fewer than ten times in the training text. The last column is for comparison: the percentage of words that would be unknown to a **word-level vocabulary** of the same size, made of the most frequent words.

# %%
n_tokens, rare = [], []
sizes = [250, 500, 1000, 2000, 4000, 8000]
frequent_words = [word for word, _ in Counter(words).most_common()]
print("size   fertility     rare   unknown words")
for size in sizes:
    bpe_tokenizer = Tokenizer.train(lines, size)
    uses = Counter(i for ids in bpe_tokenizer.encode_all(lines) for i in ids)
    n_tokens.append(sum(map(len, bpe_tokenizer.encode_all(text))) / n_words)
    rare.append(100 * sum(uses[i] < 10 for i in range(4, size)) / size)
    most_frequent = set(frequent_words[:size])
    lost = (unknown_words(most_frequent, 0) + unknown_words(most_frequent, 1)) / 2
    print(f"{size:4} {n_tokens[-1]:11.2f} {rare[-1]:8.0f}% {lost:15.1f}%")

# %% tags=["remove-cell"]
assert all(a > b for a, b in pairwise(n_tokens)) and n_tokens[-1] < 1.1
assert all(a < b for a, b in pairwise(rare[1:])) and rare[-1] > 80
assert max(rare[:2]) < 10 and rare[2] < 17
learned = learn(words, 8000)
assert 4800 < 4 + len(characters) + len(learned) < 5000, "no pair is left"
learned_ranks = {merge.pair: merge.rank for merge in learned}
in_parts = [w for w in set(words) if len(segment(w, learned_ranks)) > 1]
assert 0 < len(in_parts) < 50 and all(len(word) > 15 for word in in_parts)
in_text = characters | {merge.symbol for merge in learned}
filled = [i for i in range(4, 8000) if bpe_tokenizer.pieces([i])[0] not in in_text]
assert len(filled) > 3000 and not any(uses[i] for i in filled), "never used"
assert 0.5 < lost < 1.5 and len(frequent_words) < 4000
few = set(frequent_words[:1000])
assert 17 < sum(unknown_words(few, side) for side in (0, 1)) / 2 < 20
assert 1.7 < n_tokens[2] < 1.85
assert 2800 < len(frequent_words) < 3000, "about 3,000 different words"
few_tokens = Tokenizer.train(lines, 250)
uses = Counter(i for ids in few_tokens.encode_all(lines) for i in ids)
assert sum(uses[i] >= 100 for i in range(4, 250)) < 0.95 * 246

# %% [markdown]
# A word-level vocabulary of 1,000 tokens loses almost a fifth of the words. BPE loses none, and needs about 1.8 tokens per word. With 4,000 tokens, a word-level vocabulary loses few words, and BPE needs hardly more than one token per word, because our training text contains only about 3,000 different words. Real text contains far more.
#
# A small vocabulary means long sequences. A large one means a large embedding matrix, most of whose rows learn from few examples or none. Long before 8,000 tokens, no pair is left to merge, because every word of the training text is a single token, except for a few longer than SentencePiece allows. SentencePiece fills the remaining entries with strings that it never uses on this text. So the amount of text sets the limit: the more you have, the larger the vocabulary may be. [Gowda and May (2020)](https://aclanthology.org/2020.findings-emnlp.352/) recommend the largest one in which at least 95 % of the tokens occur 100 times or more. By this rule, even 250 tokens are too many for our text.
#
# In the end, you have to compare translations. [Our experiments](../book/experiments.md) compare vocabulary sizes on real text, the image captions of chapter 1. In three short training runs with 2,000, 4,000 and 8,000 tokens, each doubling clearly raised [BLEU](13_evaluation.ipynb), the usual measure of translation quality. But at the end of full training runs, 8,000 instead of 4,000 tokens, with somewhat fewer steps, hardly changed the score from English to German, and slightly lowered it in the other direction. So train the models that you compare for as long as your final one.
#
# For 4.5 million sentence pairs, the paper uses about 37,000 tokens (§5.1). GPT-2 has 50,257 and Llama 3 about 128,000 ([Grattafiori et al., 2024](https://arxiv.org/abs/2407.21783)). Fertility is usually higher in languages that are rare in the tokenizer's training text ([Rust et al., 2021](https://aclanthology.org/2021.acl-long.243/)), so the same text takes more tokens there. And a model reads tokens, not letters: it sees *Frühlingskleid* as the ids of three tokens, and nothing in an id shows which letters the token has. This is one reason why language models struggle to count the letters of a word.
#
# ## BPE dropout
#
# BPE splits a word in the same way every time, so nothing shows the model that two tokens share letters, such as *▁pot* and *pot*. **Subword regularisation** therefore trains the model on many segmentations of the same word. [Kudo (2018)](https://aclanthology.org/P18-1007/) samples them from Unigram, and **BPE dropout** ([Provilkov et al., 2020](https://aclanthology.org/2020.acl-main.170/)) does the same for BPE: while encoding the training text, it skips each merge with a certain probability, here 0.1. At inference no merge is skipped. BPE dropout counters overfitting, and its authors report the largest gains with little data. But it may need longer training: in a [short run](../book/experiments.md) on the captions, the model trained with it was far behind the same model trained without it. Here are the most frequent segmentations of one word. Building it takes eleven merges, so more than half of its copies are split in an unusual way. The first segmentation in the list is the usual one:

# %%
copies = ["Wintermantel"] * 1000
encoded = tokenizer.encode_all(copies, dropout=0.1)
splits = Counter(" ".join(tokenizer.pieces(ids)) for ids in encoded)
print(f"{len(splits)} different ways:")
for split, n in splits.most_common(5):
    print(f"{n:5}  {split}")

# %% tags=["remove-cell"]
assert len(splits) > 5
((usual, n_usual),) = splits.most_common(1)
assert usual.split() == tokenizer.pieces(tokenizer.encode("Wintermantel"))
assert 350 < n_usual < 490
merges_made = len("▁Wintermantel") - len(usual.split())
assert merges_made == 11, "each joins two symbols"
assert all(split.replace(" ", "") == "▁Wintermantel" for split in splits)

# %% [markdown]
# ## What goes wrong in practice
#
# None of these mistakes raises an error.
#
# **Comparing losses between vocabularies.** Two equally good models have about the same total loss for a sentence, but with a larger vocabulary it is spread over fewer tokens. So the loss *per token* is higher, and so is the perplexity, $e$ to the power of that loss. In the three short runs on the captions, the smallest vocabulary had the lowest validation loss per token, and the lowest BLEU. Compare translations, or the total loss, converted to bits and divided by the number of characters or bytes of the text: **bits per character** and **bits per byte**.
#
# **The wrong vocabulary.** Suppose we train one vocabulary on each half of the text. Both have 2,000 tokens, so any id is valid in both, and nothing fails. But a model with the wrong one reads nonsense. The vocabulary is part of the model, so store them together.

# %%
first = Tokenizer.train(lines[:4000], vocab_size=2000)
second = Tokenizer.train(lines[4000:], vocab_size=2000)
print(textwrap.fill(example, 48), end="\n\n")
print(textwrap.fill(second.decode(first.encode(example)), 48))

# %% [markdown]
# **Decoding token by token.** A program that shows a translation while it is being generated may decode each id separately. Then the spaces are lost, because SentencePiece removes the ▁ at the start of a text, and characters that consist of several bytes are broken. Decode all ids so far instead.

# %%
ids = with_bytes.encode("Tea for one €, please!")
print("".join(with_bytes.decode([i]) for i in ids))
print(with_bytes.decode(ids))

# %% [markdown]
# **Special tokens in the text.** The package adds the ids of `<bos>` and `<eos>` after tokenization. If a user *types* `<eos>`, it has to stay text, or anybody could end a sentence early. SentencePiece makes sure of this, but not every library does. The tokenizer of the model on the start page has no tokens for the two brackets, so byte fallback writes them as bytes:

# %%
everyday = Tokenizer.load(MODELS_FOLDER / "everyday" / "tokenizer.model")
typed = everyday.encode("What is <eos>?")
print(*everyday.pieces(typed))
assert EOS not in typed

# %% tags=["remove-cell"]
for original in ("½ liter", "five ﬁsh", "two  spaces"):
    assert with_bytes.decode(with_bytes.encode(original)) != original
assert with_bytes.normalize("½") == "1\u20442"
assert second.decode(first.encode(example)) != example

# %% [markdown]
# <details><summary>Three more: the wrong algorithm, normalisation, and test text in the training text</summary>
#
# **Segmenting with the wrong algorithm.** Someone reimplements your tokenizer from the list of tokens alone, and writes `longest_first`. It looks right on most words. For a few others, the model gets tokens in combinations that it may never have seen.
#
# **Normalisation changes the text.** The tokenizer applies **NFKC**, a Unicode normalisation that replaces ligatures and fractions with simpler characters, and it turns several spaces into one. That is good for the model. But never pass the *reference*, the human translation that you score against, through the tokenizer, or you would score against a different text.
#
# **Test text in the training text of the tokenizer.** Learning a vocabulary needs no translations, so it seems harmless to include the test sentences. But then their rare words get tokens of their own, and they are cut into fewer and longer tokens than genuinely new text would be. The score may be a little too good.
#
# </details>

# %% tags=["remove-cell"]
token_list = characters | {merge.symbol for merge in merges}
tested = count_words(test, 0) + count_words(test, 1)
different = [w for w in tested if longest_first(w, token_list) != segment(w, ranks)]
assert round(100 * len(different) / len(tested)) == 4
clean = Tokenizer.train(lines + [s for p in train[4000:4500] for s in p], 2500)
leaked = Tokenizer.train(lines + text, 2500)
lengths = [sum(map(len, t.encode_all(text))) for t in (clean, leaked)]
assert lengths[1] < 0.98 * lengths[0]

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. Only two merges have been learned: `b+c`, and then `a+b`. How is *abc* segmented?**
#
# <details><summary>A. ab c, because BPE goes from left to right</summary>
#
# No. Left to right is only the order in which several occurrences of *one* pair are merged. Between pairs, the one that was learned earlier goes first.
#
# </details>
# <details><summary>B. a bc</summary>
#
# **Right.** `b+c` was learned earlier. After that, there is no `b` left that `a` could be merged with.
#
# </details>
# <details><summary>C. abc, a single token</summary>
#
# No. That would need a merge that results in abc, such as `a+bc`, and none was learned.
#
# </details>
# <details><summary>D. It depends on how often abc occurs</summary>
#
# No. Counts matter while learning. Segmenting only uses the order of the merges.
#
# </details>
#
# **2. You double our vocabulary from 2,000 to 4,000 tokens without adding text. What happens to the share of its tokens that are rare in the text?**
#
# <details><summary>A. It falls, because sequences are shorter</summary>
#
# No. Shorter sequences mean that fewer occurrences are shared among more tokens.
#
# </details>
# <details><summary>B. It stays the same</summary>
#
# No. The most frequent pairs were merged first, so the pairs that are merged now are rarer than those before.
#
# </details>
# <details><summary>C. It grows</summary>
#
# **Right.** The table above shows it. Later merges never have a higher count than earlier ones, and each occurrence of the new token removes one occurrence of each of its parts.
#
# </details>
# <details><summary>D. There are none, because every token was learned from the text</summary>
#
# No. Twelve occurrences can be enough to become a token, and a later merge may absorb all twelve, as `▁t+ea` absorbed every `▁t`.
#
# </details>
#
# **3. A BPE vocabulary without byte fallback meets *naïve*, and has no *ï*. What does the model read?**
#
# <details><summary>A. <code>&lt;unk&gt;</code> for the whole word</summary>
#
# No. That is what a word-level vocabulary does. Here, the rest of the word still has tokens.
#
# </details>
# <details><summary>B. Nothing, because an error is raised</summary>
#
# No. Encoding accepts any text. That is why you should look for `<unk>` yourself.
#
# </details>
# <details><summary>C. The tokens of <i>naive</i></summary>
#
# No. SentencePiece's normalisation keeps accents. BERT's uncased tokenizer does strip them.
#
# </details>
# <details><summary>D. The tokens of <i>na</i> and <i>ve</i>, with <code>&lt;unk&gt;</code> between them</summary>
#
# **Right.** Only the unknown character is lost.
#
# </details>
#
# **4. Which algorithms can segment a word without knowing in which order their tokens were learned?**
#
# <details><summary>A. BPE, because its tokens are unique</summary>
#
# No. BPE applies merges in the order of learning. Without it, you can only guess: in the figure in *Other subword algorithms*, *longest first* splits *Kellerfenster* differently from BPE, although both use the same tokens.
#
# </details>
# <details><summary>B. WordPiece and Unigram</summary>
#
# **Right.** WordPiece takes the longest matching token from left to right, so the list of tokens is enough. Unigram compares the probabilities of its tokens.
#
# </details>
# <details><summary>C. Byte-level BPE, because it starts with bytes</summary>
#
# No. It differs from BPE only in its first symbols. The merges still have an order.
#
# </details>
# <details><summary>D. None of them</summary>
#
# No. Two of the four don't use merges for segmenting. Which ones?
#
# </details>
#
# **5. *Wachstube* is a guardroom (*Wach* + *Stube*) or a tube of wax (*Wachs* + *Tube*). What does BPE do?**
#
# <details><summary>Answer</summary>
#
# The same in both cases, because its segmentation depends only on the letters. It may split at one of the two boundaries, at both or at neither. Finding the right meaning from the context is up to the encoder, as with every ambiguous word. If the training text contains the word, BPE dropout shows the model several of its segmentations, perhaps both of the right ones.
#
# </details>
#
# **6. With pencil and paper: after the six merges of *tea*, *teapot*, *pot* and *seat*, which pair is merged seventh?**
#
# <details><summary>Answer</summary>
#
# The words are now *▁tea*, *▁tea pot*, *▁pot* and *▁ s ea t*. Four pairs are tied at 2: `▁+s`, `s+ea`, `ea+t` and `▁tea+pot`. The shortest new symbol has two characters: `▁s`.
#
# </details>

# %% tags=["remove-cell"]
assert learn(four_words, 7)[6].symbol == "▁s"

# %% [markdown]
# ## Exercises
#
# Six blanks, from counting pairs through learning merges and segmenting words to decoding. Each has a check that tells you what is wrong, and a hint.
#
# - In your browser, with nothing to install: [Exercises: subword tokenization](../book/exercises/08_subword_tokenization.md).
# - In Colab, where the last cell grades your answers:
#   [08_subword_tokenization](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/08_subword_tokenization.ipynb).
#   On GitHub: [08_subword_tokenization.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/08_subword_tokenization.ipynb).
# - On your machine, open `exercises/08_subword_tokenization.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade subword_tokenization
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Four experiments to try</summary>
#
# 1. **Change the tie rule** in `in_order`: the longer symbol first. How many of the first 200 merges change?
# 2. **Train with WordPiece's score:** write the loop of BPE with `wordpiece_score`, on the words of 100 sentences. Which strange tokens does it learn first, and why do most programs require a minimum count?
# 3. **Convert everything to lower case** before learning. How many more tokens do the languages share, and what can no longer be decoded?
# 4. **Train models** with the usual vocabulary, with a smaller and a larger one, and with BPE dropout and four segmentations of each pair. Compare their BLEU and the time per step:
#
# ```bash
# transformer train pocket
# transformer train pocket --run runs/v1000 --model.vocab-size 1000
# transformer train pocket --run runs/v8000 --model.vocab-size 8000
# transformer train pocket --run runs/drop  --data.bpe-dropout 0.1 --data.segmentations 4
# ```
#
# </details>

# %% [markdown]
# ## Going further
#
# - **In the paper:** the vocabulary is in §5.1, and the matrix that both languages share in §3.4.
# - **BPE for words:** [Sennrich et al. (2016a)](https://aclanthology.org/P16-1162/), also on what a joint vocabulary does for names.
# - **SentencePiece:** [Kudo and Richardson (2018)](https://aclanthology.org/D18-2012/) explain why it treats the space as a character.
# - **Unigram and BPE compared:** [Kudo (2018)](https://aclanthology.org/P18-1007/), [Bostrom and Durrett (2020)](https://aclanthology.org/2020.findings-emnlp.414/).
# - **Next:** [Data and batching](09_data_and_batching.ipynb) turns these ids into batches.
