# %% [markdown]
# # Subword tokenization and byte-pair encoding
#
# *Das Handschuhfach klemmt:* the glove compartment is stuck. German glues words together, and a *Handschuhfach* is a compartment (*Fach*) for gloves (*Handschuh*, literally "hand-shoe"). You may never have seen this word, and the translator of [chapter 1](01_translation.ipynb) certainly hasn't: neither *Handschuhfach* nor *klemmt* occurs in the 29,000 pairs of captions that it learned from. The figure cuts the sentence into words, characters and subwords. **In which of the three is a part of it lost?** And how can a program find such subwords, in two languages at once?

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
import json
from pathlib import Path

from transformer.data.bpe import split_words
from transformer.data.pocket.grammar import lexicon
from transformer.data.tokenizer import UNK, Tokenizer
from transformer.models import MODELS_FOLDER
from transformer.plots import bpe_merges as plots
from transformer.plots.curves import curves
from transformer.plots.model_map import model_map
from transformer.plots.style import Captioned, Picture, Row, SourceCode

captions = Tokenizer.load(MODELS_FOLDER / "multi30k" / "tokenizer.model")
stuck = "Das Handschuhfach klemmt."
stuck_words = split_words(stuck)
Picture(
    plots.segmentations(
        {
            "words": stuck_words,
            "characters": list("".join(stuck_words)),
            "subwords": captions.pieces(captions.encode(stuck)),
        },
        unknown=["▁Handschuhfach", "▁klemmt"],
    ),
    alt=(
        "Das Handschuhfach klemmt, segmented in three ways. Words: four tokens with the "
        "full stop, two of them unknown. Characters: 26 tokens. Subwords: eight tokens, among them "
        "Handschuh, f and ach, none unknown."
    ),
    caption=(
        "One sentence in words, characters and subwords. Words that don't occur in "
        "chapter 1's captions become <unk>, and characters make the sentence long. "
        "The subwords were learned from the same captions."
    ),
)

# %% tags=["remove-cell"]
assert captions.pieces(captions.encode(stuck))[:4] == [
    "▁Das",
    "▁Handschuh",
    "f",
    "ach",
]
assert stuck_words == ["▁Das", "▁Handschuhfach", "▁klemmt", "."]
stored = Path("../book/results/vocabulary-sizes.json")
if stored.exists():  # not in Colab
    on_captions = json.loads(stored.read_text("utf-8"))
    n_uses = on_captions["words_of_first_figure"]
    assert on_captions["pairs"] == 29000 and list(n_uses) == stuck_words
    assert [n_uses[word] > 0 for word in stuck_words] == [True, False, False, True]

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
import re
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
# **Words** are the obvious choice. But a word that isn't in the vocabulary becomes `<unk>`, and its meaning is lost. How often does that happen? The course comes with the **pocket corpus**, English–German sentence pairs generated by a small program (see [the next chapter](09_data_and_batching.ipynb)). We measure how many words of new text are unknown to a vocabulary that contains every word of the first 500, 1,000, … pairs. The function `split_words` cuts a sentence into words and punctuation marks, with the mark ▁ where a word starts: `▁Das`, `▁Handschuhfach`, `▁klemmt`, `.`

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
# Our corpus exaggerates: more than half of the unknown German words are compounds that its generator reserves for test sentences. But real text never runs out of new words either.
#
# There is a second problem: most words of a language are rare. More than half of the different German words in chapter 1's captions occur only once. By **Zipf's law**, the $n$-th most frequent word occurs roughly $1/n$ times as often as the most frequent one. An embedding learns what its word means only where the word occurs, so most would learn very little.
#
# **Characters** solve both problems: in a language with an alphabet, a hundred of them are enough to write nearly everything. But a single letter means next to nothing, so the lowest layers would have to combine letters into words. Sequences also become long: inference needs one step per token, and the number of attention weights grows with the square of the length. On our test sentences, the price is:

# %%
text = [line for pair in test for line in pair]
n_words = sum(len(split_words(line)) for line in text)
n_characters = sum(map(len, text))
ratio = n_characters / n_words
print(f"{ratio:.1f} times as long as with words,")
print(f"{ratio**2:.0f} times as many attention weights")

# %% [markdown]
# Some models pay about this price, for example by reading bytes ([Xue et al., 2022](https://aclanthology.org/2022.tacl-1.17/)).
#
# **Subwords** are the compromise: frequent words are tokens of their own, rare words are composed of several, and single characters make sure that hardly anything is unknown. How do we find them?
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
# *e* and *a* are neighbours 5 times in *tea*, twice in *teapot* and twice in *seat*, 9 times in all. No other pair is as frequent, so the first new symbol is `ea`. The next two pairs in the list are tied at 7. Ties need a rule, or two programs would learn different vocabularies: our `order` puts the shorter merged symbol first, and if the lengths are equal too, Unicode order decides. Now we merge six times:


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
# No word contains the symbols `▁t` or `ot` any more. They were only steps on the way, but they stay in the vocabulary.
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
# In the worst case, no merge applies and a word is spelled out. So no word is unknown if all its characters are in the vocabulary.
#
# ## BPE in the package
#
# The package's `learn` is our loop, made faster. Its `segment` merges the pair that was learned earliest of those in the word, and repeats this until no pair can be merged:

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
# **Move the slider** to apply fewer or more merges to six words. The line above them shows which of the 3,935 merges came last. Point at a symbol, or tap it, to see its two parts and their count. Do the three German compounds end up in pieces that mean something?

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
# Real projects use a library, and so does this course: its `Tokenizer` is a thin layer around the BPE of SentencePiece ([Kudo and Richardson, 2018](https://aclanthology.org/D18-2012/)). If our algorithm is right, it must learn the same merges in the same order, and segment every sentence in the same way:

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
# Decoding is easy: join the tokens, replace each ▁ with a space and drop the leading one. Two other popular libraries are OpenAI's [tiktoken](https://github.com/openai/tiktoken) and Hugging Face's [tokenizers](https://huggingface.co/docs/tokenizers), which offers all the algorithms in this chapter.
#
# <details><summary>What both programs have to agree on</summary>
#
# To learn the same merges, two programs need the same conventions: where a word is marked, how ties are broken, and pre-tokenization. SentencePiece has no separate pre-tokenization step: it replaces each space with ▁ and works on the whole sentence. But its default settings forbid tokens that contain a space in the middle or that join letters with punctuation. The effect is the same as splitting with `split_words` first.
#
# </details>
#
# ### Where German compounds are split
#
# Is every compound split between its parts, like the teapot? In the figure, BPE with our 4,000 tokens splits at the boundaries with green lines, and misses those with orange marks.

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

# %% tags=["remove-cell"]
for word, expected in {
    "▁Frühlingskleid": "▁Frühling sk leid",
    "▁Schultisch": "▁Sch ult isch",
    "▁Schulbuch": "▁Schul buch",
}.items():
    assert segment(word, ranks) == expected.split()

# %% [markdown]
# BPE only counts, and if a frequent string such as *sk* lies across the boundary, BPE merges it. So *Frühlingskleid*, a spring dress, becomes *Frühling* + *sk* + *leid*, and *Leid* means "sorrow". *Schultisch*, a school desk, is split in the wrong places, although *Schulbuch*, a school book, is split correctly. And where BPE does find the boundary, it may also cut the parts themselves, as in *H* + *and* + *schuh* + *f* + *ach*.
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
# The languages share a little: punctuation, names, single letters and fragments, and a few words. Some words mean the same in both languages, like *warm* and *modern*. Others only look the same: a German *hat* is a form of "to have", and *plant* means "(he) plans". These share an embedding, which has to serve both meanings. The layers above don't confuse them, because the encoder reads only one of the languages and the decoder only the other.
#
# The second reason for a joint vocabulary is **names**. A translator usually copies them, and copying is easier if both sides split them alike. With one vocabulary they always do. Here are three names split with an English vocabulary (left) and with a German one (right). Our English text doesn't even contain a capital *K*:

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
# Two numbers help you to choose a size. Both need only text, no training:
#
# - **Fertility** is the number of tokens per word of new text (here, punctuation marks count as words). It determines how long sequences are.
# - The share of **frequent tokens**, say with 100 or more occurrences in the training text. The embedding of a rare token learns little and still takes up memory.
#
# We compute both for our corpus, and the share of rare tokens, with fewer than ten occurrences:


# %%
def measure(size):
    tokenizer = Tokenizer.train(lines, size)
    n_tokens = sum(map(len, tokenizer.encode_all(text)))
    uses = Counter(i for ids in tokenizer.encode_all(lines) for i in ids)
    counts = [uses[i] for i in range(4, size)]  # without special tokens
    frequent = sum(n >= 100 for n in counts) / len(counts)
    rare = sum(n < 10 for n in counts) / len(counts)
    return n_tokens / n_words, frequent, rare


# %%
print("size   fertility   frequent   rare")
measured = {size: measure(size) for size in (500, 1000, 2000, 4000)}
for size, (fertility, frequent, rare) in measured.items():
    print(f"{size:4} {fertility:11.2f} {frequent:10.0%} {rare:6.0%}")

# %% tags=["remove-cell"]
fertilities, frequents, rares = zip(*measured.values(), strict=True)
for values in (fertilities, frequents):
    assert all(a > b for a, b in pairwise(values))
assert all(a < b for a, b in pairwise(rares)) and rares[-1] > 2 * rares[-2]
assert len(set(words)) < 3000 and fertilities[-1] < 1.1
if stored.exists():
    in_table = [
        (
            *(f"{fertility:.2f}" for fertility in r["fertility"]),
            f"{r['frequent']:.0%}",
            f"{r['unknown_words']:.0%}",
        )
        for r in on_captions["rows"]
    ]
    assert [r["size"] for r in on_captions["rows"]] == [
        500 * 2**i for i in range(7)
    ]
    assert in_table == [
        ("1.94", "2.21", "90%", "24%"),
        ("1.58", "1.79", "88%", "17%"),
        ("1.34", "1.52", "83%", "11%"),
        ("1.17", "1.30", "34%", "7%"),
        ("1.08", "1.17", "13%", "5%"),
        ("1.04", "1.09", "5%", "3%"),
        ("1.02", "1.06", "2%", "2%"),
    ], in_table
    assert on_captions["rows"][0]["frequent"] < 0.95

    def bleu_of(experiment):
        """Label → direction and BLEU of greedy and beam search."""
        rows = json.loads(stored.with_name(f"{experiment}.json").read_text("utf-8"))
        return {
            row["label"]: [t["scores"][0]["value"] for t in row["test_sets"]]
            for row in rows["rows"]
        }

    short, whole = bleu_of("captions"), bleu_of("multi30k")
    labels = ("vocabulary 2,000", "baseline", "vocabulary 8,000")
    assert [round(short[label][-1], 1) for label in labels] == [30.6, 33.6, 35.7]
    seeds = [whole[f"vocabulary-4000{seed}"] for seed in ("", "-seed-2", "-seed-3")]
    assert 0.5 < max(s[1] for s in seeds) - min(s[1] for s in seeds) < 0.6
    ahead = []
    for search in (0, 1):
        mean = sum(scores[search] for scores in seeds) / 3
        ahead.append(whole["dropout-0.15"][search] - mean)
        small = whole["vocabulary-4000-de-en"][search]
        ahead.append(whole["dropout-0.15-de-en"][search] - small)
    assert (round(min(ahead), 1), round(max(ahead), 1)) == (-0.5, 0.4)

# %% [markdown]
# Our corpus has fewer than 3,000 different words, so we turn to real text: chapter 1's captions, with 29,000 pairs for learning and 1,000 others for measuring. For comparison, “unknown words” is the share that a **word-level vocabulary** of the same size would lose. The last column is [BLEU](13_evaluation.ipynb), the usual measure of translation quality, after one [short training run](../book/experiments.md) each, from English to German:
#
# | tokens | fertility, English / German | frequent tokens | unknown words | BLEU |
# |---:|:---:|---:|---:|---:|
# | 500 | 1.94 / 2.21 | 90% | 24% | |
# | 1,000 | 1.58 / 1.79 | 88% | 17% | |
# | 2,000 | 1.34 / 1.52 | 83% | 11% | 30.6 |
# | 4,000 | 1.17 / 1.30 | 34% | 7% | 33.6 |
# | 8,000 | 1.08 / 1.17 | 13% | 5% | 35.7 |
# | 16,000 | 1.04 / 1.09 | 5% | 3% | |
# | 32,000 | 1.02 / 1.06 | 2% | 2% | |
#
# From top to bottom, every doubling shortens sentences, first by a lot and from 8,000 tokens on hardly at all. Meanwhile the share of frequent tokens collapses. So sensible sizes for this text lie between about 2,000 and 8,000. **The more text, the larger the vocabulary may be**, because more of its tokens are frequent.
#
# A rule of thumb is stricter: [Gowda and May (2020)](https://aclanthology.org/2020.findings-emnlp.352/) recommend the largest vocabulary in which at least 95% of the tokens occur 100 times or more. Here, that would be fewer than 500, but the short runs clearly prefer 8,000, the largest size that we trained. Does this advantage last? In [complete runs](../book/experiments.md), hardly: models with 8,000 tokens, trained for fewer steps, are within half a point of those with 4,000, and runs that differ only in their seeds are up to half a point apart as well. Compare your candidates by their translations, after training as long as for your final model, and with several seeds if they are close.
#
# For 4.5 million sentence pairs, the paper uses about 37,000 tokens (§5.1). GPT-2 has 50,257 and Llama 3 about 128,000 ([Grattafiori et al., 2024](https://arxiv.org/abs/2407.21783)). Fertility is usually higher in languages that are rare in the tokenizer's training text ([Rust et al., 2021](https://aclanthology.org/2021.acl-long.243/)), so the same text costs more there.
#
# ## Other subword algorithms
#
# The four algorithms that you will meet differ in what they start from, how they learn, and how they segment:
#
# | | starts from | learns by | segments by | marks |
# |---|---|---|---|---|
# | **BPE** (the paper, Llama 2) | characters | merging the most frequent pair | merges, in the order of learning | `▁` starts a word (SentencePiece) |
# | **Byte-level BPE** (GPT-2, Llama 3) | bytes | the same | the same | `Ġ` is the space before a word |
# | **WordPiece** (BERT) | characters | merging the pair that makes the text most probable | longest match, from left to right | `##` continues a word |
# | **Unigram** (T5) | many frequent strings | removing tokens that the text hardly needs | the most probable split | `▁` starts a word |
#
# ### WordPiece
#
# **WordPiece** ([Schuster and Nakajima, 2012](https://doi.org/10.1109/ICASSP.2012.6289079)) assumes that tokens follow each other independently, each with its relative frequency as its probability, and merges the pair that raises the probability of the training text most. Merging *ab* raises its logarithm by about $n_{ab} \ln (N n_{ab} / (n_a n_b))$, with $n$ for counts and $N$ for the number of symbols. The code that learned BERT's vocabulary was never published, and many tutorials use a simpler score, $n_{ab} / (n_a n_b)$. The two can disagree:

# %%
counts = count_pairs({word: list(word) for word in frequency}, frequency)
single = Counter()
for word, n in frequency.items():
    for symbol in word:
        single[symbol] += n

print("pair  count  score  gain")
for a, b in (("e", "a"), ("p", "o")):
    score = counts[a, b] / (single[a] * single[b])
    gain = counts[a, b] * math.log(single.total() * score)
    print(f"{a}+{b} {counts[a, b]:6} {score:7.2f} {gain:5.1f}")

# %% tags=["remove-cell"]
scores = {(a, b): n / (single[a] * single[b]) for (a, b), n in counts.items()}
gains = {
    pair: n * math.log(single.total() * scores[pair]) for pair, n in counts.items()
}
assert max(scores, key=scores.get) == ("p", "o")
assert max(gains, key=gains.get) == ("e", "a")

# %% [markdown]
# The score prefers *p+o*, because its parts are rarer. The gain also counts how often the pair occurs, so *e+a* wins, as in BPE. For segmentation, WordPiece doesn't use the merges. It repeatedly takes the **longest** token that matches, from left to right, as in `tea ##pot ##s`.
#
# ### Unigram
#
# **Unigram** ([Kudo, 2018](https://aclanthology.org/P18-1007/)) works the other way round. It starts with many frequent strings, estimates a probability for each, and removes those without which the text is hardly less probable. A word gets the split whose tokens have the highest product of probabilities. Here are the three best splits of *Frühlingskleid*, with 2,000 tokens:


# %%
def train_unigram(size):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="unigram",
        vocab_size=size, character_coverage=1.0, num_threads=1, minloglevel=2,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


# %%
unigram = train_unigram(2000)
for ids in unigram.nbest_encode("Frühlingskleid", nbest_size=3):
    probabilities = [math.exp(unigram.get_score(i)) for i in ids]
    split = " ".join(unigram.id_to_piece(i) for i in ids)
    print(f"{math.prod(probabilities):.0e}  {split}")

# %% tags=["remove-cell"]
splits = unigram.nbest_encode("Frühlingskleid", nbest_size=3, out_type=str)
assert splits[0] == ["▁Frühlings", "kleid"]
assert splits[1] == ["▁Frühling", "s", "kleid"]

# %% [markdown]
# Every token contributes a factor far below 1, so splits into few tokens win, unless these are very rare. To find the best split without listing all of them, the **Viterbi algorithm** goes from left to right and keeps only the best split of each prefix.
#
# ### Byte-level BPE and pre-tokenization in GPT
#
# **Byte-level BPE** (GPT-2; [Radford et al., 2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf)) is BPE on bytes instead of characters. UTF-8, the usual encoding of text, stores a character in one to four bytes: *u* as 117, *ü* as 195 and 188, € as 226, 130 and 172. So 256 tokens can encode any text, and a token may be part of a character.
#
# Before BPE, GPT-2 cuts the text with a regular expression into contractions such as `'s`, and runs of letters, of digits or of other characters, with the space before them. No token crosses these cuts. GPT-4 and Llama 3 also cut numbers after every three digits. Here are both rules, simplified:

# %%
gpt2 = r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\w\s]|_)+|\s+"
print(re.findall(gpt2, "It's 12345 teapots!"))
print(re.findall(r"\d{1,3}", "12345"))

# %% tags=["remove-cell"]
assert re.findall(gpt2, "It's 12345 teapots!") == [
    "It",
    "'s",
    " 12345",
    " teapots",
    "!",
]
assert re.findall(r"\d{1,3}", "12345") == ["123", "45"]
assert chr(256 + ord(" ")) == "Ġ"
in_utf_8 = [list(character.encode("utf-8")) for character in "uü€"]
assert in_utf_8 == [[117], [195, 188], [226, 130, 172]]

# %% [markdown]
# GPT-2's vocabulary file writes each byte as a visible character, the space as Ġ. So libraries show a word after a space as `Ġteapots`, where SentencePiece has `▁teapots`. Whatever the algorithm, a model reads tokens, not letters: nothing in an id shows how its token is spelled. This is one reason why language models struggle to count the letters of a word.
#
# ### Which one finds the parts of compounds?
#
# We segment two compounds in four ways, each with 2,000 tokens learned from the same text. For byte-level BPE, we write each byte as a character and call `learn` again. Instead of training WordPiece, we apply its segmentation, longest token first, to BPE's vocabulary.


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
n_merges = 2000 - 4 - len(characters)
bpe = {merge.pair: merge.rank for merge in merges[:n_merges]}
bpe_vocabulary = characters | {a + b for a, b in bpe}
byte_merges = learn((as_bytes(word) for word in words), 2000 - 256)
byte_bpe = {merge.pair: merge.rank for merge in byte_merges}

# %% [markdown]
# The words are *Keller* + *fenster* (cellar window) and *Frühlings* + *kleid* (spring dress). Which rows are split exactly between the two parts?

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
# Is Unigram better on other compounds too? The table has these columns, for all new compounds in our test sentences:
#
# - **boundary:** how often a cut falls between the two parts;
# - **chance:** how often the same number of random cuts would;
# - **only:** how often the boundary is the only cut, so that both parts stay whole;
# - **unused:** the number of tokens that the training text never uses.
#
# The last row is chapter 1's tokenizer, learned from real text (which isn't loaded here, so its last column is empty).


# %% tags=["hide-input"]
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
segment_with = {
    ("BPE", 2000): lambda word: segment(word, bpe),
    ("BPE", 4000): lambda word: segment(word, ranks),
    ("Unigram", 2000): lambda word: unigram.encode(word[1:], out_type=str),
    ("captions", 8000): lambda word: captions.pieces(captions.encode(word[1:])),
}
used = {
    ("BPE", 2000): {s for word in set(words) for s in segment(word, bpe)},
    ("BPE", 4000): {s for word in set(words) for s in segment(word, ranks)},
    ("Unigram", 2000): {i for line in lines for i in unigram.encode(line)},
}
n_special = {"BPE": 4, "Unigram": 3}  # SentencePiece itself has three
print(f"{len(first_part)} new compounds, split at")
print("        tokens  boundary  chance    only  unused")
compared = {}
for (name, size), segment_word in segment_with.items():
    split = compound_splits(first_part, segment_word)
    unused = ""
    if name in n_special:
        unused = size - n_special[name] - len(used[name, size])
    compared[name, size] = (*split, unused)
    at_boundary, by_chance, only_there = split
    print(
        f"{name:8}{size:6,}{at_boundary:10.0%}{by_chance:8.0%}{only_there:8.0%}{unused:8}"
    )

# %% tags=["remove-cell"]
in_bpe, in_unigram = compared["BPE", 2000], compared["Unigram", 2000]
larger, real = compared["BPE", 4000], compared["captions", 8000]
assert 0.85 < in_bpe[0] <= in_unigram[0] and larger[0] > 0.85
assert max(split[1] for split in compared.values()) < 0.4
assert min(split[0] for split in compared.values()) > 0.75
assert in_bpe[2] == 0 < in_unigram[2] and in_bpe[3] > 20 * in_unigram[3]
assert 0.25 < in_unigram[2] < 0.35 and in_bpe[3] > 200, "hundreds"
assert 0.4 < larger[2] < 0.6 and real[2] < 0.1
assert len(captions) == 8000 and len("▁Frühlingskleid") == 15
assert len(set(first_part.values())) < 30

# %% [markdown]
# All four split most compounds at the boundary, far more often than by chance. (Our corpus makes this easy: its compounds begin with one of a few dozen frequent words.) But with 2,000 tokens, BPE leaves both parts whole in none of them, Unigram in almost a third. The last column suggests why: BPE keeps every symbol that it merged on the way, such as `▁t` and `ot` above, whereas Unigram removes what the text hardly needs and so has room for more whole words. On real text, [Bostrom and Durrett (2020)](https://aclanthology.org/2020.findings-emnlp.414/) find the same in English and Japanese. Whether translations get better is less clear, so we stay with BPE, the paper's choice for English–German.
#
# ### Unknown characters
#
# For BPE on characters, a *character* can still be unknown: our corpus has no *Ł* and no €. They become `<unk>`, which SentencePiece decodes as ⁇. Byte-level BPE doesn't have this problem. SentencePiece has a remedy, `byte_fallback`, which Llama 2 uses: it reserves 256 tokens for the bytes, and writes unknown characters with them:

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
# `<0xE2>` is the byte 226, written in base 16: each of these three tokens is a third of a €. Now nothing becomes `<unk>`, but a model can't learn the meaning of bytes that never occur in its training text.
#
# ## BPE dropout
#
# *Optional: no later chapter builds on this section.*
#
# BPE splits a word in the same way every time, so nothing in the input shows the model that two tokens share letters, such as *▁pot* and *pot*. **Subword regularisation** trains it on many segmentations of the same word, which [Kudo (2018)](https://aclanthology.org/P18-1007/) samples from Unigram. **BPE dropout** ([Provilkov et al., 2020](https://aclanthology.org/2020.acl-main.170/)) does the same for BPE: while encoding the training text, it skips each merge with a certain probability, here 0.1. At inference no merge is skipped. Its authors report the largest gains with little data. But it may need longer training: in a single [short run](../book/experiments.md) on the captions, it was far behind.
#
# Here are the most frequent segmentations of *Wintermantel*, first the usual one. It takes eleven merges, and the probability that none of them is skipped is $0.9^{11}$, or 31%. Even more of our 1,000 copies have it, because some reach it by another route:

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
assert round(0.9**11, 2) == 0.31
assert all(split.replace(" ", "") == "▁Wintermantel" for split in splits)

# %% [markdown]
# ## What goes wrong in practice
#
# None of these mistakes raises an error.
#
# **Comparing losses between vocabularies.** Two equally good models have about the same total loss for a sentence, but with a larger vocabulary it is spread over fewer tokens. So the loss *per token* is higher, and so is the perplexity, $e$ to the power of that loss. Of the three short runs in the table above, the one with the smallest vocabulary had the lowest validation loss per token, and the lowest BLEU. Compare translations, or the total loss, converted to bits and divided by the number of characters or bytes of the text: **bits per character** and **bits per byte**.
#
# **The wrong vocabulary.** Suppose we train one vocabulary on each half of the text. Both have 2,000 tokens, so any id is valid in both, and nothing fails. But a model with the wrong one reads nonsense. The vocabulary is part of the model, so store them together.

# %%
first = Tokenizer.train(lines[:4000], vocab_size=2000)
second = Tokenizer.train(lines[4000:], vocab_size=2000)
print(textwrap.fill(example, 48), end="\n\n")
print(textwrap.fill(second.decode(first.encode(example)), 48))

# %% [markdown]
# **Decoding token by token.** A program that shows a translation while it is being generated may decode each id separately. Then the spaces are lost, because SentencePiece removes the ▁ at the start of a text, and characters that consist of several bytes are broken. Decode all ids so far instead, and hold back a � at the end until its character is complete.

# %%
ids = with_bytes.encode("Tea for one €, please!")
print("".join(with_bytes.decode([i]) for i in ids))
print(with_bytes.decode(ids))

# %% [markdown]
# **Normalisation changes the text.** The tokenizer applies **NFKC**, a Unicode normalisation that replaces ligatures and fractions with simpler characters, and it turns several spaces into one. Never pass the *reference*, the human translation that you score against, through the tokenizer, or you would score against a different text.

# %% tags=["remove-cell"]
for original in ("½ liter", "five ﬁsh", "two  spaces"):
    assert with_bytes.decode(with_bytes.encode(original)) != original
assert with_bytes.normalize("½") == "1\u20442"
assert second.decode(first.encode(example)) != example
everyday = Tokenizer.load(MODELS_FOLDER / "everyday" / "tokenizer.model")
typed = everyday.encode("What is <eos>?")
assert EOS not in typed and "<0x3C>" in everyday.pieces(typed)

# %% [markdown]
# <details><summary>Three more: the wrong algorithm, special tokens, and test text in the training text</summary>
#
# **Segmenting with the wrong algorithm.** Someone reimplements your tokenizer from the list of tokens alone, and writes `longest_first`. It looks right on most words. For a few others, the model gets tokens in combinations that it may never have seen.
#
# **Special tokens in the text.** The package adds the ids of `<bos>` and `<eos>` after tokenization. If a user *types* `<eos>`, it has to stay text, or anybody could end a sentence early. SentencePiece makes sure of this, but not every library does.
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
# **Right.** The first table in *How large should the vocabulary be?* shows it. Later merges never have a higher count than earlier ones, and each occurrence of the new token removes one occurrence of each of its parts.
#
# </details>
# <details><summary>D. There are none, because every token was learned from the text</summary>
#
# No. Three occurrences were enough for the last of our merges, and a later merge may absorb all occurrences of a token, as `▁t+ea` absorbed every `▁t`.
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
# No. BPE applies merges in the order of learning. Without it, you can only guess: in the figure with the two compounds, *longest first* splits *Kellerfenster* differently from BPE, although both use the same tokens.
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
assert learn(four_words, 7)[6].symbol == "▁s" and merges[-1].count == 3

# %% [markdown]
# ## Exercises
#
# Fill in six blanks, from counting pairs through learning merges and segmenting words to decoding. Each has a check that tells you what is wrong, and a hint.
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
# 2. **Train with WordPiece's score:** write the loop of BPE with the score of the section *WordPiece*, on the words of 100 sentences. Which strange tokens does it learn first, and why do most programs require a minimum count?
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
