# %% [markdown]
# # Subword tokenization and byte-pair encoding
#
# **You will be able to**
#
# - say, with measurements, why a translator reads neither words nor characters;
# - learn a vocabulary by byte-pair encoding with pencil and paper, and split a word that nobody has seen;
# - prove that your merges are the package's, and that the package's are SentencePiece's;
# - choose a vocabulary's size knowing what it costs, and recognise five mistakes that raise no error.
#
# **About 40 minutes.** It builds on Python and a little counting. What length costs is from [Attention](02_attention.ipynb).

# %% tags=["setup", "hide-cell"]
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
    print(f"Installing {source}. To use a fork or branch, set `source` above.")
    keep = [f"{name}=={version(name)}" for name in ("numpy", "torch")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-color", *keep]
    pip += [f"transformer-course[colab] @ {source}"]
    process = subprocess.run(pip, capture_output=True, text=True)
    if process.returncode:
        message = "(?im)^ *((fatal|error): (?!subprocess).+)"
        error = re.search(message, process.stderr)
        reason = error[1] if error else "pip failed"
        raise SystemExit(f"Cannot install the course from {source}: {reason}")

# %%
import random
from collections import Counter
from itertools import pairwise

import torch

from transformer.data import pocket
from transformer.data.bpe import split_words
from transformer.plots.style import Picture, Row, SourceCode

# %% [markdown]
# ## The question
#
# > Das **Handschuhfach** klemmt.
#
# You may never have met the word. But if you know *Hand*, *Schuh* and *Fach*, a hand, a shoe and a compartment, you are nearly there: a
# hand-shoe is a glove, and the glove compartment is stuck.
#
# A Transformer begins with a table: a row of numbers for each **token** that it knows (§3.4). It can only read what has a row, and
# only write what has a row. If tokens are words, *Handschuhfach* has none, and the sentence has a hole just where it matters. So
# **which strings should have a row?** And who finds them, in two languages at once, when nobody has the time to write a list?

# %% [markdown]
# ## Why not words
#
# German glues nouns together whenever it likes. So let us count how many words of new text are unknown, depending on how much text was
# read before. The course's embedded corpus makes as much of both languages as we ask for.

# %%
languages = "English", "German"
train = [(p.source, p.target) for p in pocket.pairs("train", 8000)]
test = [(p.source, p.target) for p in pocket.pairs("test", 500)]


def count_words(pairs, side):
    return Counter(word for pair in pairs for word in split_words(pair[side]))


# %%
sizes = [500, 1000, 2000, 4000, 8000]
unknown = {language: [] for language in languages}
for side, language in enumerate(languages):
    tested = count_words(test, side)
    for size in sizes:
        read = count_words(train[:size], side)
        missing = sum(n for word, n in tested.items() if word not in read)
        unknown[language].append(100 * missing / tested.total())
    print(language, [f"{percent:.2f}%" for percent in unknown[language]])

# %% tags=["hide-input"]
from transformer.plots.curves import curves

Picture(
    curves(
        sizes,
        unknown,
        "sentence pairs read before",
        "Unknown words in new text, percent",
        log2_x=True,
    ),
    alt=(
        "Unknown words in percent against 500 to 8000 sentence pairs read. The "
        "English curve falls to nearly zero. The German one starts higher, "
        "flattens out, and ends well above it."
    ),
)

# %% [markdown]
# More text cures English. It does not cure German. What is it that German still does not know?

# %%
from transformer.data.pocket.grammar import lexicon

read = count_words(train, 1)
new = [word for word in count_words(test, 1) if word not in read]
firsts = ["▁" + modifier.german for modifier in lexicon().modifiers.values()]
compounds = [word for word in new if word.startswith(tuple(firsts))]
print(f"{len(compounds)} of {len(new)} unknown words are compounds:")
print(" ".join(compounds[:12]).replace("▁", ""))
assert len(compounds) > 0.8 * len(new)
assert unknown["German"][-1] > 5 * unknown["English"][-1]

# %% [markdown]
# Compounds, most of them. English writes the same thing in two words that it knows. (To be fair: every test sentence of this corpus
# was made to contain a combination that training lacks, so real text has fewer such words in a sentence. But it has them for ever.)
#
# Sentences from outside the corpus fare worse, of course. Three written by hand:

# %%
sentences = (
    "Das Handschuhfach klemmt.",
    "Die Straßenbahnhaltestelle liegt hinter dem Krankenhaus.",
    "Ohne Krankenversicherungskarte keine Behandlung.",
)
for sentence in sentences:
    words = split_words(sentence)
    print(*(word if word in read else f"[{word}]" for word in words))

# %% [markdown]
# There is a second trouble, and it does not go away with more text either. A few words make up most of what is said, and most of a language's
# words are hardly ever said; that is Zipf's law. Even a small grammar shows something of it:

# %%
for side, language in enumerate(languages):
    words = count_words(train[:4000], side)
    top = sum(n for _, n in words.most_common(100)) / words.total()
    rare = sum(n < 10 for n in words.values()) / len(words)
    print(f"{language}: {len(words)} words; the top 100 make up {top:.0%}")
    print(f"   of the text; {rare:.0%} occur fewer than ten times")

# %% [markdown]
# Each word would have a row in the table, and a row is learned from the places where its word occurs. Fewer than ten places are very few.

# %% [markdown]
# ## Why not characters
#
# Characters know no unknown words. But look what becomes of the length, and of the attention weights, of which there is one for each pair
# of positions ($n^2$):

# %%
text = [sentence for pair in test for sentence in pair]
n_words = sum(len(split_words(sentence)) for sentence in text) / len(text)
n_characters = sum(len(sentence) for sentence in text) / len(text)
times = n_characters / n_words
print(f"a sentence: {n_words:.1f} words, {n_characters:.1f} characters")
print(f"{times:.1f} times as long, {times**2:.0f} times as many weights")

# %% [markdown]
# The other layers pay per position, and writing a translation takes a step per position. And for that price a position says next to
# nothing: what *t* means depends on its neighbours, so the first layers are busy spelling. It can be done, and has been {cite}`xue2022`. It is
# dear.
#
# So we want something in between: short pieces that can spell anything, and long ones for what is frequent. The text itself can tell
# us which.

# %% [markdown]
# ## By hand
#
# **Byte-pair encoding** {cite}`sennrich2016` begins with characters and does one thing again and again: *the two symbols that stand side by
# side most often become one symbol.* We need four words and how often each occurs. The mark ▁ says that a word starts here; it is a
# symbol like any other.

# %%
frequency = {"▁tea": 5, "▁teapot": 2, "▁pot": 3, "▁seat": 2}
spelled = {word: list(word) for word in frequency}


def count_pairs(spelled, frequency):
    counts = Counter()
    for word, symbols in spelled.items():
        for pair in pairwise(symbols):
            counts[pair] += frequency[word]
    return counts


counts = count_pairs(spelled, frequency)
print(*(f"{a}+{b} {n}" for (a, b), n in counts.most_common()), sep="   ")

# %% [markdown]
# *e* and *a* are neighbours 5 times in *tea*, 2 times in *teapot* and 2 times in *seat*: 9. No pair has more, so `ea` is our first piece.
#
# Then come `t+e` and `▁+t` with 7 each. A **tie** has to be broken by a rule, or two programs learn two vocabularies. Ours: **the shorter symbol
# first, then the one that comes first by code points.** For a tie between `o+t` and `p+o` that means `ot`.


# %%
def order(counts):
    def key(pair):
        return -counts[pair], len("".join(pair)), "".join(pair)

    return sorted(counts, key=key)


def join(symbols, pair):
    symbols, i = list(symbols), 0
    while i < len(symbols) - 1:
        if (symbols[i], symbols[i + 1]) == pair:
            symbols[i : i + 2] = ["".join(pair)]
        i += 1
    return symbols


# %% [markdown]
# Six merges. Each line is a count of all pairs anew, the four leading ones in order; the first of them is merged before the next line.

# %%
learned = []
for step in range(6):
    counts = count_pairs(spelled, frequency)
    leading = order(counts)[:4]
    learned.append((leading[0], counts[leading[0]]))
    spelled = {word: join(spelled[word], leading[0]) for word in spelled}
    print(step + 1, *(f"{f'{a}+{b}':>6} {counts[a, b]}" for a, b in leading))
for symbols in spelled.values():
    print(*symbols)

# %% [markdown]
# Check line 2 with a pencil. `t+e` counted 7 in line 1 and has vanished, because every *e* behind a *t* is now in `ea`. Merging a pair
# changes the counts of its neighbours, and of nothing else.
#
# Look at what came out. *Tea* and *pot* are pieces, and **the teapot has come apart in the middle**, at the very seam. Nobody said what a
# compound is. Counting was enough, because its parts are words too.
#
# And two pieces were only scaffolding: `▁t` and `ot` were made on the way up, and no word uses them any more. They keep their rows.

# %%
pieces = {"".join(pair) for pair, _ in learned}
used = {symbol for symbols in spelled.values() for symbol in symbols}
assert pieces - used == {"▁t", "ot"}
assert spelled["▁teapot"] == ["▁tea", "pot"]

# %% [markdown]
# The package has a module for this. Same words, same six merges, same counts:

# %%
from transformer.data.bpe import learn, segment

merges = learn(Counter(frequency).elements(), 6)
assert [(merge.pair, merge.count) for merge in merges] == learned
print(*(merge.symbol for merge in merges))

# %% [markdown]
# **In the book, use words of your own.** Go on merge by merge, and guess the next pair before you press. Which word comes apart at a seam that you would have chosen?
#
# <div class="widget" data-widget="merges">
#
# *With JavaScript, there is an interactive figure here. This is how it begins.*
#
# The first pairs of our four words, the first of which is merged:
#
# | pair | how often |
# |---|---|
# | e + a | 9 |
# | t + e | 7 |
# | ▁ + t | 7 |
# | o + t | 5 |
#
# </div>

# %% [markdown]
# ### A word that nobody has seen
#
# *Teapots* is not among our words. To split it, spell it, and **replay the merges in the order in which they were learned**:

# %%
symbols = list("▁teapots")
print("   ", *symbols)
for merge in merges:
    symbols = join(symbols, merge.pair)
    print(f"{merge.symbol:>3}", *symbols)

# %% [markdown]
# The sixth, `▁pot`, finds nothing: this *pot* has no mark in front of it. To BPE a *pot* that starts a word and a *pot* inside one are
# two different strings. Keep this in mind for German, where capital letters drive the same wedge between *Tür* and *Haustür*.

# %%
ranks = {merge.pair: merge.rank for merge in merges}
assert symbols == segment("▁teapots", ranks) == ["▁tea", "pot", "s"]
print(segment("▁seats", ranks), segment("▁spot", ranks), segment("▁poet", ranks))

# %% [markdown]
# The worst that can happen to a word is to be spelled. That is the whole promise: frequent words are one piece, rare words are several,
# and none is unknown.

# %% [markdown]
# ## The picture
#
# The same replay as a tree. Characters stand at the bottom; each level is a merge, with its number and how often its pair stood in the text
# when it was learned. What is framed in pink remains.

# %% tags=["hide-input"]
from transformer.plots import bpe_merges as plots

Picture(
    plots.merge_tree("▁teapots", merges),
    alt=(
        "The characters of teapots at the bottom. Merge 1 joins e and a, merge 2 "
        "the mark and t, merge 3 both to tea; merge 4 joins o and t, merge 5 p "
        "and ot. Three pieces remain: tea with its mark, pot, and s."
    ),
)

# %% [markdown]
# Now a vocabulary that one could train with: 4,000 pieces, learned from 4,000 sentence pairs, both languages together. Look at the counts on the
# right. They can only fall, and the last merges are of pairs that stand in the whole text a handful of times.

# %%
SIZE, SPECIAL = 4000, 4  # <pad>, <bos>, <eos>, <unk>
lines = [sentence for pair in train[:4000] for sentence in pair]
words = [word for line in lines for word in split_words(line)]
characters = {*"".join(words)}
merges = learn(words, SIZE - SPECIAL - len(characters))
ranks = {merge.pair: merge.rank for merge in merges}
print(f"{SPECIAL} special + {len(characters)} characters + {len(merges)} merges")
for merge in merges[0], merges[9], merges[99], merges[999], merges[-1]:
    print(f"{merge.rank + 1:5}  {' + '.join(merge.pair):14} {merge.count:6}×")

# %% tags=["hide-input"]
Picture(
    plots.merge_tree("▁Frühlingskleid", merges),
    alt=(
        "The merges of Frühlingskleid, from single characters up to three pieces: "
        "Frühling with its mark, then sk, then leid. The seam between Frühlings "
        "and kleid lies inside sk."
    ),
)

# %% [markdown]
# A spring dress, *Frühlings* + *kleid*. BPE read it as *spring*, *sk*, *leid*, and *Leid* is sorrow. We come back to that.
#
# **Move the slider.** It stops at each merge that changes one of the six words, and fills what has just grown together. Point at a piece, or
# tap it, to read what it was made of and how often those two stood side by side.

# %% tags=["hide-input"]
shown = "Frühlingskleid Wintermantel Schultisch yesterday kitchen Berlin"
plots.merge_explorer(
    [f"▁{word}" for word in shown.split()],
    merges,
    description=(
        "Six words as rows of boxes, a box for each piece: Frühlingskleid, "
        "Wintermantel, Schultisch, yesterday, kitchen, Berlin. A slider "
        "runs through the merges that change one of them. At the left end every "
        "box is a character; further right boxes grow together, until yesterday, "
        "kitchen and Berlin are one box each and the others two or three. "
        "Pointing at a box shows the two parts it was made of and their count."
    ),
)

# %% [markdown]
# ## The code
#
# Our loop counts every pair of every word again before each merge. The package remembers which words hold which pair, and recounts
# only the words that a merge changes:

# %%
SourceCode(learn)

# %% [markdown]
# The same merges? Our loop against the package's, on two hundred sentences. We also count how many words a merge changes, to see what the
# remembering saves:

# %%
frequency = count_words(train[:200], 1)
spelled, learned, changed = {word: list(word) for word in frequency}, [], 0
for _ in range(200):
    counts = count_pairs(spelled, frequency)
    best = order(counts)[0]
    learned.append((best, counts[best]))
    merged = {word: join(symbols, best) for word, symbols in spelled.items()}
    changed += sum(merged[word] != spelled[word] for word in merged)
    spelled = merged
theirs = learn(frequency.elements(), 200)
assert [(merge.pair, merge.count) for merge in theirs] == learned
print(f"equal; a merge changed {changed / 200:.0f} of {len(frequency)} words")

# %% [markdown]
# Splitting is shorter. Instead of replaying thousands of merges, most of which find nothing, it looks at the word's own neighbours and
# takes the earliest:

# %%
SourceCode(segment)

# %%
for word in list(dict.fromkeys(words))[:300]:
    symbols = list(word)
    for merge in merges:
        if merge.symbol in word:
            symbols = join(symbols, merge.pair)
    assert symbols == segment(word, ranks)
print("300 words: replaying all merges splits them in the same way")

# %% [markdown]
# ## The same as SentencePiece
#
# Real runs use SentencePiece {cite}`kudo2018`, whose BPE is written in C++. A from-scratch version that *resembles* it would teach you
# the idea. One that **equals** it can be checked. Here is a vocabulary of the same size on the same text, by the package's `Tokenizer`. Its ids
# begin with the four special tokens; then come the merges in their order, and last the characters.

# %%
from transformer.data.bpe import encode
from transformer.data.tokenizer import UNK, Tokenizer

tokenizer = Tokenizer.train(lines, SIZE)
pieces = tokenizer.pieces(range(SIZE))
print(pieces[:8], pieces[-3:])
assert pieces[SPECIAL : -len(characters)] == [merge.symbol for merge in merges]
assert characters == {*pieces[-len(characters) :]}
for sentence in {*lines, *text}:
    ids = tokenizer.encode(sentence)
    assert tokenizer.pieces(ids) == encode(sentence, ranks)
print(f"{len(merges)} merges, {len({*lines, *text})} sentences: equal")

# %% [markdown]
# Not one merge and not one piece differs. For that, every convention has to agree, and these are the ones that differ between programs:
#
# - **Where a word is marked.** Here in front, ▁. In {cite}`sennrich2016` at the end.
# - **What no merge may cross.** Not a space; not the border between letters and the rest, so a full stop does not stick to its word. (To a number
#   it does, as you see below.)
# - **Ties.** Length, then code points.
# - **The longest piece.** 16 characters.
# - **What the text was before.** The tokenizer normalises it first (NFKC, single spaces). See below what that does.

# %%
sentence = "The spring dress wasn't cheap: 4.50."
print(*split_words(sentence), sep=" | ")
assert all(tokenizer.decode(tokenizer.encode(s)) == s for s in text)

# %% [markdown]
# Because the space has become part of the pieces, joining them gives the text back. Nothing else has to be remembered.

# %% [markdown]
# ## German compounds: where the seams fall
#
# The teapot came apart where a human would cut it. Was that luck? The corpus knows what its compounds are made of, so we can count. We
# take all compounds of the test sentences that the training text does not have, and ask whether a cut falls on the seam.

# %%
nouns = {
    form.lower()
    for noun in lexicon().nouns.values()
    for form in (noun.german, noun.german_oblique, noun.german_plural)
}


def parts(word):
    """The first part and the noun of a compound, or nothing."""
    for first in filter(word.startswith, firsts):
        rest = word.removeprefix(first)
        if rest in nouns or rest.removesuffix("n") in nouns:
            return first, rest


# %%
known = set(words)
new = {w: parts(w) for w in count_words(test, 1) if w not in known and parts(w)}


def hits(n_merges):
    few = {merge.pair: merge.rank for merge in merges[:n_merges]}
    on_seam = by_chance = 0
    for word, (first, _) in new.items():
        pieces = segment(word, few)
        on_seam += any(first == "".join(pieces[:n]) for n in range(len(pieces)))
        by_chance += (len(pieces) - 1) / (len(word) - 1)
    return 100 * on_seam / len(new), 100 * by_chance / len(new)


# %% [markdown]
# A word in many pieces has cuts everywhere, and one of them will be on the seam by luck. So beside the hits stands what luck alone would
# hit: cuts over places to cut.

# %%
at = [250, 500, 1000, 2000, len(merges)]
on_seam, by_chance = zip(*(hits(n) for n in at), strict=True)
print(len(new), "compounds")
for n, hit, luck in zip(at, on_seam, by_chance, strict=True):
    print(f"{n:5} merges   seam cut in {hit:3.0f}%   by luck {luck:3.0f}%")
assert on_seam[-1] > 80 and by_chance[-1] < 20

# %% tags=["hide-input"]
compounds = [
    ("▁Keller", "fenster"), ("▁Theater", "tür"), ("▁Frühlings", "kleid"),
    ("▁Schul", "tisch"), ("▁Schul", "buch"), ("▁Geburtstags", "lieder"),
    ("▁Hand", "schuh", "fach"),
]  # fmt: skip
cut = {"".join(c): segment("".join(c), ranks) for c in compounds}
Picture(
    plots.morpheme_boundaries(cut, compounds),
    alt="Seven compounds in their pieces, and where their parts meet. "
    + "; ".join(f"{w[1:]} is cut {' | '.join(p)}" for w, p in cut.items()).replace(
        "▁", ""
    ),
)

# %% [markdown]
# Seven compounds, picked by hand. Green lines are seams that were cut, red ends are seams that were missed.
#
# Far better than luck, and still no grammar. *Kellerfenster* is perfect. *Frühlingskleid*, a spring dress, is *spring* + *sk* + *sorrow*, and
# its plural ends in *leider*, which means *unfortunately*. *Schultisch*, a school desk, loses its seam in *ult*, although *Schulbuch*, a school book, keeps
# it. BPE knows nothing but counts: where a frequent string lies across the seam, it wins. And this corpus is kind to us. Its words are few, so
# the parts are frequent. *Handschuhfach*, whose parts it hardly knows, is half spelled.

# %%
for word, pieces in {
    "▁Frühlingskleid": "▁Frühling sk leid",
    "▁Frühlingskleider": "▁Frühling sk leider",
    "▁Schultisch": "▁Sch ult isch",
    "▁Schulbuch": "▁Schul buch",
}.items():
    assert segment(word, ranks) == pieces.split()

# %% [markdown]
# **The wedge.** Inside a compound the part begins with a small letter and has no mark; as a word of its own it begins with a capital and has one. They are two strings,
# so they have two rows, and each must learn on its own what a door is:

# %%
doors = "Die Tür der Theatertür ist keine Tür."
ids = tokenizer.encode(doors)
print(tokenizer.pieces(ids))
front, inside = (tokenizer.pieces(range(SIZE)).index(p) for p in ("▁Tür", "tür"))
assert front in ids and inside in ids and front != inside

# %% [markdown]
# ## Characters that nobody has seen
#
# Unknown words are gone. Unknown *characters* are not: the pocket corpus has no *Ł*. Without help, each run of unknown characters becomes the
# token `<unk>`, and what it was is lost. With `byte_fallback=True` the vocabulary spends 256 pieces on the bytes, and spells in UTF-8
# what it has no character for.

# %%
with_bytes = Tokenizer.train(lines, SIZE, byte_fallback=True)
for strange in ("Łukasz", "café", "жук", "☕"):
    for t in (tokenizer, with_bytes):
        ids = t.encode(strange)
        print(f"{t.decode(ids):9}", *t.pieces(ids))
    assert UNK in tokenizer.encode(strange) and with_bytes.decode(ids) == strange

# %% [markdown]
# With bytes no character becomes `<unk>`, whatever comes in. The price: 256 rows, and a language in a foreign script at several tokens a character.
# When no byte is ever seen in training, the rows stay as random as they began; then the text survives, but not the sense.

# %% [markdown]
# ## One vocabulary for two languages
#
# The paper learns **one** vocabulary from both languages together (§5.1). How much do they share? We count which pieces each language uses.

# %%
uses = [
    Counter(id for pair in train[:4000] for id in tokenizer.encode(pair[side]))
    for side in (0, 1)
]
both = uses[0].keys() & uses[1].keys()
all_used = uses[0].keys() | uses[1].keys()
print(f"{len(both)} of the {len(all_used)} pieces in use are in both languages")
for language, n in zip(languages, uses, strict=True):
    share = sum(n[id] for id in both) / n.total()
    print(f"   they make up {share:.0%} of the {language} text")
often = sorted(both, key=lambda id: -min(uses[0][id], uses[1][id]))
print(*tokenizer.pieces(often[:60]))

# %% [markdown]
# Not much, and a fifth of the text all the same: punctuation, names, and a few words. Some mean the same, *Berlin*, *warm*, *modern*, *Museum*. Others only
# look it. An English *hat* is worn, a German *hat* has; an English *war* is fought, a German *war* was. These share a row and must share it
# in peace. The layers above tell them apart, by their neighbours.

# %%
shared = set(tokenizer.pieces(both))
same_meaning = {"▁Berlin", "▁warm", "▁modern", "▁Museum"}
assert same_meaning <= shared
another_meaning = {"▁hat", "▁war", "▁will", "▁am"}
assert another_meaning <= shared

# %% [markdown]
# So why share? Two reasons.
#
# **Names split alike.** A translator mostly copies names. Copying is easy when both sides spell them in the same pieces. With a
# vocabulary for each language, a name may be cut in two ways, or a letter may even be missing on one side:

# %%
english, german = (
    Tokenizer.train(half, SIZE // 4) for half in zip(*train[:4000], strict=True)
)
names = "Fatima Hemingway Toronto Beethoven Garibaldi Kathmandu Nakamura Sanchez"
alike = 0
for name in names.split():
    one, other = (t.pieces(t.encode(name)) for t in (english, german))
    alike += one == other
    print(f"{' '.join(one):26} {' '.join(other)}")
print(f"split alike: {alike} of {len(names.split())}; with one vocabulary: all")
assert alike < len(names.split())

# %% [markdown]
# **Tying needs it.** The paper uses a single matrix in three places: embedding of the source, embedding of the target, and the layer before
# the softmax (§3.4). That only makes sense if row 17 is the same string everywhere. What it saves in the base model, counted without
# allocating a single number:

# %%
from transformer.config import ModelConfig
from transformer.model import Transformer


def count_parameters(tie_embeddings):
    with torch.device("meta"):
        model = Transformer(ModelConfig(tie_embeddings=tie_embeddings))
    return sum(p.numel() for p in model.parameters())


base = ModelConfig()
table = base.vocab_size * base.d_model
one, three = count_parameters("all"), count_parameters("none")
print(f"one table {table / 1e6:.1f} million, {table / one:.0%} of the base model")
print(f"base model {one / 1e6:.1f} million, with three tables {three / 1e6:.1f}")
assert three - one == 2 * table

# %% [markdown]
# ## How large?
#
# The size of the vocabulary is the one number you have to choose. **Small:** long sequences. **Large:** a large table, whose last rows are
# for strings that hardly occur. Here is all of it, from vocabularies between 125 and 8,000 pieces. Pieces per word are measured on the test
# sentences; the table's parameters, in millions, are those at the base model's width. A *rare* piece is used at fewer than ten places of the training text, an *unused* one at
# none.

# %%
vocabularies = [125, 250, 500, 1000, 2000, 4000, 8000]
per_word, rare, idle = {language: [] for language in languages}, [], []
for size in vocabularies:
    t = Tokenizer.train(lines, size)
    for side, language in enumerate(languages):
        n = sum(len(ids) for ids in t.encode_all(pair[side] for pair in test))
        per_word[language].append(n / count_words(test, side).total())
    uses = Counter(id for ids in t.encode_all(lines) for id in ids)
    idle.append(size - SPECIAL - len(uses))
    rare.append(100 * sum(uses[id] < 10 for id in range(SPECIAL, size)) / size)

# %%
print("pieces   en   de  rare unused million")
for i, size in enumerate(vocabularies):
    en, de = (per_word[language][i] for language in languages)
    millions = size * base.d_model / 1e6
    row = f"{size:6} {en:4.2f} {de:4.2f} {rare[i]:4.0f}% {idle[i]:6}"
    print(row, f"{millions:7.2f}")
assert all(a > b for a, b in pairwise(per_word["German"]))
assert all(a < b for a, b in pairwise(rare[2:]))

# %% tags=["hide-input"]
Row(
    Picture(
        curves(
            vocabularies,
            per_word,
            "pieces in the vocabulary",
            "Pieces per word of new text",
            log2_x=True,
        ),
        alt=(
            "Pieces per word against a vocabulary of 125 to 8000 pieces. Both "
            "languages fall steeply from about four and flatten out towards one; "
            "German lies above English."
        ),
    ),
    Picture(
        curves(
            vocabularies,
            {"fewer than 10 uses": rare},
            "pieces in the vocabulary",
            "Rare pieces, percent",
            log2_x=True,
        ),
        alt=(
            "The share of pieces that fewer than ten places in the training text "
            "use. It is below a fifth up to 1000 pieces and then rises steeply, "
            "to over four fifths at 8000."
        ),
    ),
)

# %% [markdown]
# The first doublings shorten the text the most, the last hardly at all. The table doubles every time. And the right-hand curve is the one that tutorials leave
# out. **A row that is used ten times is hardly trained**, and the unused ones are scaffolding, like `▁t` and `ot` above: they take part in the
# softmax and are never the answer. So the text sets the limit, and the more of it you have, the larger the vocabulary may be. {cite}`gowda2020` measured this
# for translation.
#
# **And 37,000?** The paper has 4.5 million sentence pairs and a vocabulary of about 37,000 (§5.1). It does not say why. Here is a guess. Public
# copies of that corpus are called `bpe.32000`, after a round number of *merges*. To the merges come the characters of a web-sized text, many of them
# twice, because that kind of BPE marks the end of a word. So an odd vocabulary may well be a round number of merges plus an alphabet. Ours was
# counted the other way round:

# %%
assert SPECIAL + len(characters) + len(merges) == SIZE
print(f"{SIZE} pieces are {len(merges)} merges and {len(characters)} characters")

# %% [markdown]
# ## One word, many splittings
#
# BPE is too reliable. It cuts *Wintermantel* in the same way every time, so the model never learns that the pieces have an inside. **BPE dropout**
# {cite}`provilkov2020` leaves merges out at random while the training text is encoded. Whole words fall apart sometimes, and their
# parts get trained too. At translation time nothing is left out.

# %%
texts = ["Wintermantel"] * 1000
usual = tokenizer.pieces(tokenizer.encode(texts[0]))
splits = Counter(
    " ".join(tokenizer.pieces(ids))
    for ids in tokenizer.encode_all(texts, dropout=0.1)
)
print(
    f"{len(splits)} different ways, the usual one {splits[' '.join(usual)]} times"
)
for split, n in splits.most_common(6):
    print(f"{n:5}  {split}")
assert all(split.replace(" ", "") == "▁Wintermantel" for split in splits)

# %% [markdown]
# Each of them decodes to the same word. What does *left out* mean, exactly? Those who proposed it say: at each step, look at all merges that are possible now,
# forget each with probability $p$, and take the earliest of the others. What was forgotten has a new chance at the next step. That is
# `segment` with a coin:


# %%
def drop_each_step(word, dropout):
    symbols = list(word)
    while known := [
        pair
        for pair in pairwise(symbols)
        if pair in ranks and random.random() >= dropout
    ]:
        symbols = join(symbols, min(known, key=ranks.get))
    return symbols


# %% [markdown]
# SentencePiece asks each pair of neighbours **once**: what is forgotten stays forgotten, until one of the two grows. It also keeps pieces, not
# pairs, so any two neighbours that spell a piece may become it.

# %%
rank_of = {merge.symbol: merge.rank for merge in merges}


# %%
def drop_once(word, dropout):
    symbols, forgotten = list(zip(word, range(len(word)), strict=True)), set()
    while possible := [
        (rank_of[a[0] + b[0]], i)
        for i, (a, b) in enumerate(pairwise(symbols))
        if a[0] + b[0] in rank_of and (a, b) not in forgotten
    ]:
        _, i = min(possible)
        (a, place), (b, _) = symbols[i : i + 2]
        if random.random() < dropout:
            forgotten.add((symbols[i], symbols[i + 1]))
        else:
            symbols[i : i + 2] = [(a + b, place)]
    return [symbol for symbol, _ in symbols]


# %% [markdown]
# Two rules, one name. How much do they differ? The mean number of pieces of *Wintermantel*, a thousand times each:

# %%
random.seed(0)
rates = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
means = {"new chances": [], "each pair once": [], "the package": []}
for rate in rates:
    forms = (
        [drop_each_step("▁Wintermantel", rate) for _ in texts],
        [drop_once("▁Wintermantel", rate) for _ in texts],
        tokenizer.encode_all(texts, dropout=rate),
    )
    for name, form in zip(means, forms, strict=True):
        means[name].append(sum(map(len, form)) / len(texts))

# %%
again, once, package = means.values()
for rate, *three in zip(rates, again, once, package, strict=True):
    print(f"dropout {rate}   " + "   ".join(f"{mean:5.2f}" for mean in three))
assert again[0] == once[0] == package[0] == len(usual)
assert all(abs(a - b) < 0.35 for a, b in zip(once, package, strict=True))
assert all(a + 0.3 < b for a, b in zip(again[1:4], package[1:4], strict=True))

# %% tags=["hide-input"]
Picture(
    curves(rates, means, "dropout", "Mean pieces of Wintermantel"),
    alt=(
        "Mean number of pieces against dropout from 0 to 0.6. All three curves "
        "start at the usual splitting and rise. The package's and that of each "
        "pair once lie on each other; with new chances it rises more slowly."
    ),
)

# %% [markdown]
# Our second function is what the package does. With new chances, the same 0.1 splits much less. So when you read of a dropout of 0.1, ask which
# of the two it was: **the same number is another strength in another program.**

# %% [markdown]
# ## What goes wrong in practice
#
# Five mistakes. None raises an error; each costs points, or a day.
#
# **The text that comes back is not the text that went in.** The tokenizer normalises: ligatures, fractions, dots and odd spaces become something
# plainer. Good for the model. But a *reference* translation must not be sent through it before scoring, or you score against another text.

# %%
for typed in ("½ liter", "five ﬁsh", "wait…", "two  spaces\tand a tab"):
    back = with_bytes.decode(with_bytes.encode(typed))
    print(f"{typed!r:26} → {back!r}")
    assert back != typed and back == with_bytes.normalize(typed)

# %% [markdown]
# **Two vocabularies of the same size.** Train one on the first half of the text and one on the second. Both have 2,000 pieces, so every id of the
# one is an id of the other. Load the wrong file, and a model reads fluent nonsense without a murmur. The vocabulary is part of the model:
# keep them in one place.

# %%
mine, yours = (Tokenizer.train(half, 2000) for half in (lines[:4000], lines[4000:]))
sentence = train[0][1]
print(sentence)
print(yours.decode(mine.encode(sentence)))
assert mine.decode(mine.encode(sentence)) == sentence
same = sum(
    a == b
    for a, b in zip(
        mine.pieces(range(2000)), yours.pieces(range(2000)), strict=True
    )
)
print(f"{same} of 2000 ids mean the same")

# %% [markdown]
# **Decoding piece by piece.** A program that shows a translation while it is being written decodes each id alone. The mark at the start of a text is
# dropped as the start of a text, each time: the spaces are gone. And a character in bytes that is cut in the middle is no character. Decode everything so
# far, always, and show what is new.

# %%
ids = with_bytes.encode(test[0][1])
print("".join(with_bytes.decode([id]) for id in ids))
print(with_bytes.decode(ids))
coffee = with_bytes.encode("☕")
print([with_bytes.decode(coffee[:n]) for n in range(1, len(coffee) + 1)])
assert "\ufffd" in with_bytes.decode(coffee[:-1])

# %% [markdown]
# **Taking the longest piece that fits.** Somebody needs a tokenizer in another language, has only the list of pieces, and writes: cut off the longest
# piece, repeat. It looks right on the words that you try. It is not BPE.


# %%
def longest_first(word, pieces):
    cut = []
    while word:
        n = next(n for n in range(len(word), 0, -1) if word[:n] in pieces)
        cut.append(word[:n])
        word = word[n:]
    return cut


pieces = set(tokenizer.pieces(range(SPECIAL, SIZE)))
tested = count_words(test, 0) + count_words(test, 1)
splits = {w: (segment(w, ranks), longest_first(w, pieces)) for w in tested}
other = {word: s for word, s in splits.items() if s[0] != s[1]}
print(f"{len(other)} of {len(tested)} words differ")
for right, wrong in list(other.values())[:4]:
    print(f"   {' '.join(right):22} {' '.join(wrong)}")

# %% [markdown]
# Its cuts are not worse. They are *others* than those the model was trained on, and that is enough.
#
# **The test text in the vocabulary.** Learning pieces needs no translations, so it feels harmless to learn them from everything at hand. But
# then the test's own new words become pieces. We let one vocabulary learn from 500 test pairs, and another from 500 other pairs in their place:

# %%
honest = Tokenizer.train([*lines[:4000], *lines[4000:5000]], 2500)
leaked = Tokenizer.train([*lines[:4000], *text], 2500)
lengths = []
for name, t in (("honest", honest), ("leaked", leaked)):
    on_test, on_new = (
        sum(map(len, t.encode_all(x))) for x in (text, lines[5000:6000])
    )
    lengths.append(on_test)
    print(f"{name}: test {on_test} pieces, other new text {on_new}")
assert lengths[1] < 0.98 * lengths[0]

# %% [markdown]
# The test got shorter, and other new text did not: what was gained is gained on the test only.
#
# And a last warning. **A loss per token cannot be compared between vocabularies.** Who cuts text into fewer, longer tokens has a
# higher loss per token for the very same model of the text. Compare BLEU on plain text, or the loss per character.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. Three symbols stand in a word, `a`, `b`, `c`. Both `a+b` and `b+c` have been learned, `b+c` earlier. How is *abc* split?**
#
# <details><summary>A. ab c, because splitting goes from left to right</summary>
#
# No. Left to right is only the order in which *one* pair is merged wherever it stands. Between pairs, the earlier learned one goes first.
#
# </details>
# <details><summary>B. a bc</summary>
#
# **Right.** `b+c` was learned earlier. After it there is no `b` left for `a` to join.
#
# </details>
# <details><summary>C. abc, one piece</summary>
#
# No. That needs a merge that makes abc, such as `a+bc`. None was learned here.
#
# </details>
# <details><summary>D. It depends on how often abc occurs</summary>
#
# No. Counts decide while learning. Splitting only knows the order of the merges.
#
# </details>
#
# **2. You double the vocabulary and keep the text. What happens to the rows of the table that are hardly trained?**
#
# <details><summary>A. Their share falls, because sequences are shorter</summary>
#
# No. Shorter sequences mean fewer tokens to share among more rows.
#
# </details>
# <details><summary>B. Their share stays the same</summary>
#
# No. The new pieces are made of the rarest pairs so far, since the frequent ones were merged first.
#
# </details>
# <details><summary>C. Their share grows</summary>
#
# **Right.** Each merge has a lower count than the one before, and each use of a new piece takes one away from its parts.
#
# </details>
# <details><summary>D. There are none: every piece was learned from the text</summary>
#
# No. Being merged 12 times is enough to become a piece, and a later merge may take all 12 away again: scaffolding.
#
# </details>
#
# **3. A vocabulary without bytes meets *naïve*, and has no *ï*. What does the model read?**
#
# <details><summary>A. <code>&lt;unk&gt;</code> for the whole word</summary>
#
# No. That is what a vocabulary of words does. Here the rest of the word is still spelled.
#
# </details>
# <details><summary>B. An error is raised</summary>
#
# No. Encoding takes any text. That is why you have to look for `<unk>` yourself.
#
# </details>
# <details><summary>C. The pieces of <i>naive</i></summary>
#
# No. Normalisation keeps accents: ï is a letter of its own to it.
#
# </details>
# <details><summary>D. The pieces of <i>na</i> and <i>ve</i>, with <code>&lt;unk&gt;</code> between them</summary>
#
# **Right.** Only the run of unknown characters is lost.
#
# </details>
#
# **4. Why can't an English and a German table be tied (§3.4) if each has its own 37,000 pieces?**
#
# <details><summary>A. Because row 17 would be two different strings</summary>
#
# **Right.** One vector would have to mean both, wherever they stand.
#
# </details>
# <details><summary>B. Because their shapes differ</summary>
#
# No. Both are 37,000 × 512. That is the danger: it would run.
#
# </details>
# <details><summary>C. Because German needs more pieces than English</summary>
#
# No. Both could be given the same number, and were.
#
# </details>
# <details><summary>D. Because gradients from two languages cancel each other</summary>
#
# No. In a shared vocabulary they meet in the same rows too, and it works.
#
# </details>
#
# **5. *Wachstube* is a guardroom (*Wach* + *Stube*) or a tube of wax (*Wachs* + *Tube*). What does BPE do, and who decides?**
#
# <details><summary>Answer</summary>
#
# It does the same both times: the split is a function of the letters alone. Perhaps it hits one of the seams, perhaps none. Who decides is the
# encoder, from the other words of the sentence, as with every ambiguous word. BPE dropout would at least let it see both splittings.
#
# </details>
#
# **6. With pencil and paper: after the six merges of *tea*, *teapot*, *pot*, *seat*, which pair is merged seventh?**
#
# <details><summary>Answer</summary>
#
# Left are *▁tea*, *▁tea pot*, *▁pot* and *▁ s ea t*. Four pairs are tied at 2: `▁+s`, `s+ea`, `ea+t`, `▁tea+pot`. The shortest symbol has two characters: `▁s`. The
# teapot stays in two pieces until the last of them.
#
# </details>

# %% [markdown]
# The answer to question 6, from the package:

# %%
tea = Counter({"▁tea": 5, "▁teapot": 2, "▁pot": 3, "▁seat": 2})
print(*(merge.symbol for merge in learn(tea.elements(), 99)[6:]))

# %% [markdown]
# ## Exercises
#
# Six blanks: byte-pair encoding from counting pairs to a whole learner, and there and back again. Each has a check that says what is wrong, and a hint.
#
# - In Colab:
#   [08_subword_tokenization](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/08_subword_tokenization.ipynb).
#   On GitHub: [08_subword_tokenization.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/08_subword_tokenization.ipynb).
# - On your machine, open `exercises/08_subword_tokenization.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade subword_tokenization
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And four experiments.
#
# 1. **Change the tie rule** in `order`: the longer symbol first. How many of the first 200 merges differ, and how many words are split otherwise?
#    What does that tell you about two programs that both say "BPE"?
# 2. **Use `drop_each_step` on all words of the test** and compare the share of words that stay whole with the package's at 0.1. Which rate with new
#    chances is as strong as the package's 0.1?
# 3. **Lower-case everything** before learning. How many pieces do English and German share then, and what can no longer be decoded?
# 4. **Train with it.** Compare the BLEU of three runs, and the time of a step, which grows with the table:
#
# ```bash
# transformer train pocket --run runs/v1000 --model.vocab-size 1000
# transformer train pocket --run runs/v8000 --model.vocab-size 8000
# transformer train pocket --run runs/drop  --data.bpe-dropout 0.1 --data.segmentations 4
# ```

# %% [markdown]
# ## Going further
#
# - **In the paper:** the vocabulary is in §5.1, the shared matrix in §3.4 of {cite}`vaswani2017`.
# - **Where BPE for words comes from**, and what one vocabulary for both languages does to names: {cite}`sennrich2016`.
# - **The tokenizer of real runs**, and why it treats the space as a character: {cite}`kudo2018`.
# - **Dropping merges** in training: {cite}`provilkov2020`.
# - **How large a vocabulary should be**, judged by how often its rarest pieces are seen: {cite}`gowda2020`.
# - **Why the output matrix may be the embedding:** {cite}`press2017`.
# - **No vocabulary at all**, only bytes, and what that costs: {cite}`xue2022`.
