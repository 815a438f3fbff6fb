# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Evaluation: BLEU, chrF and significance
#
# **You will be able to**
#
# - compute BLEU with pencil and paper, and say what each of its parts is there for;
# - read a score's signature, and explain why one model has half a dozen BLEUs;
# - compute chrF and METEOR by hand, and know when they disagree with BLEU;
# - tell a gain from luck with a bootstrap of your own;
# - name the mistakes that none of these numbers sees.
#
# **About 45 minutes.** It builds on Python alone. [Training](11_training.ipynb) shows where the translations come from; here we
# make our own, with mistakes that we know, and train nothing.

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
import logging
import math
import random
import re
from collections import Counter
from itertools import pairwise

import numpy as np

from transformer.evaluation.metrics import bleu
from transformer.plots.style import Picture, Row, SourceCode

# %% [markdown]
# ## The question
#
# *The girl turned off the television because it was late.* Somebody has translated it into German, and that is our **reference**. Now three
# machines hand in theirs. The first puts the reason in front, the second takes other words for *turn off* and *because*; both are
# perfect German. The third has a *nicht* too much: the girl did **not** turn it off.
#
# Here is what the measure says that the paper reports (§6.1) and that machine translation has lived by for twenty years. More is better.

# %%
reference = "Das Mädchen hat den Fernseher ausgemacht, weil es spät war."
right_1 = "Weil es spät war, machte das Mädchen den Fernseher aus."
right_2 = "Das Mädchen schaltete den Fernseher aus, denn es war spät."
wrong = "Das Mädchen hat den Fernseher nicht ausgemacht, weil es spät war."
for text in (right_1, right_2, wrong):
    print(f"{bleu([text], [reference]).value:5.1f}  {text}")

# %%
worst_of_the_right = min(bleu([t], [reference]).value for t in (right_1, right_2))
assert bleu([wrong], [reference]).value > 4 * worst_of_the_right

# %% [markdown]
# The only wrong one wins, and by far. A sentence has many good translations, and only one of them has been written down. Whoever compares with it
# measures **likeness**, not truth.
#
# And yet almost every result in this field is such a number. Over thousands of sentences the bad luck of a good wording strikes all systems about equally, and
# what remains does say something. So we need to know **what exactly it counts, how far to trust it, and what it will never see**.

# %% [markdown]
# ## By hand
#
# One tiny pair, in English so that everybody can follow. The hypothesis, as a machine's translation is called, stutters and then loses its thread:

# %%
reference = "the dog left the milk because it was sour".split()
hypothesis = "the dog left the milk the milk sour".split()

# %% [markdown]
# **Step 1: how many of its words are right?** A word is right if the reference has it.

# %%
found = [word for word in hypothesis if word in reference]
print(f"{len(found)} of {len(hypothesis)}")

# %% [markdown]
# All of them. That is not what we meant: the reference has two *the*, the hypothesis has three. So each word of the reference may be used **once**. This is
# called clipping. In Python it is the `&` of two counters, which keeps the smaller count.

# %%
right = Counter(hypothesis) & Counter(reference)
print(f"{right.total()} of {len(hypothesis)}")
assert right["the"] == 2 and right["milk"] == 1

# %% [markdown]
# Without clipping, `the the the` would be a perfect translation of nearly everything.
#
# **Step 2: is the order right?** Words alone do not say. So BLEU also counts pairs of neighbours, triples and fours: **n-grams**, for $n$ from 1 to 4,
# each clipped in the same way.


# %%
def ngrams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def matched(hypothesis, reference, n):
    right = ngrams(hypothesis, n) & ngrams(reference, n)
    return right.total(), max(len(hypothesis) - n + 1, 0)


for n in (1, 2, 3, 4):
    print("n = {}: {} of {}".format(n, *matched(hypothesis, reference, n)))

# %% [markdown]
# Here they all are. A filled bar counts, a cross is not in the reference, and **!** is there but used up: the third *the*, the second *milk*, the
# second *the milk*.

# %% tags=["hide-input"]
from transformer.plots.ngram_matches import bleu_explorer, ngram_matches

Picture(
    ngram_matches(hypothesis, reference),
    alt=(
        "Below the eight words of the hypothesis lie its n-grams as bars, in four "
        "groups. 6 of 8 words are filled, 4 of 7 pairs, 3 of 6 triples and 2 of 5 "
        "fours. The third the, the second milk and the second pair the milk are "
        "marked as used up; the n-grams that run across the stutter are crossed."
    ),
)

# %% [markdown]
# One wrong word breaks up to four fours, so long n-grams are lost quickly. That makes them a strict test of fluency, and it is why a few mistakes cost BLEU so much.
#
# **Step 3: one number of four.** The four shares, called **precisions**, are multiplied, and the fourth root is taken: their geometric mean.

# %%
precisions = [6 / 8, 4 / 7, 3 / 6, 2 / 5]
mean = math.prod(precisions) ** (1 / 4)
print(f"{mean:.3f}")

# %% [markdown]
# Why not the ordinary mean? Because the precisions shrink from $n$ to $n$, and in a sum the large ones would drown the small ones. In a product it is the
# *ratio* that counts. Lose half of your fours or half of your words: it costs the same.


# %%
def lose_half_of(n):
    shares = [p / 2 if i == n else p for i, p in enumerate(precisions, 1)]
    return math.prod(shares) ** (1 / 4), sum(shares) / 4


for n in (1, 4):
    print(
        "half of n = {}: geometric {:.3f}, ordinary {:.3f}".format(
            n, *lose_half_of(n)
        )
    )
assert math.isclose(lose_half_of(1)[0], lose_half_of(4)[0])

# %% [markdown]
# The price: if one precision is zero, all is zero.
#
# **Step 4: nothing left out?** Precision asks whether what was said is right. It does not ask whether everything was said: `the dog left the` has four perfect
# precisions. So whoever is shorter than the reference pays a **brevity penalty**, with $c$ words in the candidate (the hypothesis) and $r$ in the reference:
#
# $$ \mathrm{BP} = e^{\,1 - r/c} \quad \text{if } c < r, \quad \text{else } 1 $$

# %%
short = "the dog left the".split()
print([matched(short, reference, n) for n in (1, 2, 3, 4)])

brevity = math.exp(1 - len(reference) / len(hypothesis))
by_hand = 100 * brevity * mean
print(f"BP {brevity:.3f}   BLEU {by_hand:.2f}")

# %% [markdown]
# Too long is not punished here: a superfluous word finds no match left, and the precisions have paid for it. That is all there is to BLEU {cite}`papineni2002`:
#
# $$ \mathrm{BLEU} = 100 \cdot \mathrm{BP} \cdot (p_1\, p_2\, p_3\, p_4)^{1/4} $$
#
# The package says the same:

# %%
score = bleu([" ".join(hypothesis)], [" ".join(reference)])
assert math.isclose(score.value, by_hand)
print(score)

# %% [markdown]
# What stands behind the number is its signature. We come to it.

# %% [markdown]
# ## The picture
#
# **Build a hypothesis yourself.** It has three parts; choose what stands in each. Words run downwards now, and each n-gram is a bar beside its words. Try this:
#
# - Repair the stutter, then the end. Which of the two repairs brings more?
# - Leave the end out. All four precisions are perfect; what holds BLEU down?
# - Scramble the end. Every word is right, and BLEU falls all the same.

# %% tags=["hide-input"]
bleu_explorer(
    [
        ["the dog left", "the dog the dog left", "a dog left"],
        ["the milk", "the milk the milk", "milk"],
        ["because it was sour", "sour", "because sour was it", ""],
    ],
    start=(0, 1, 1),
    reference=" ".join(reference),
    description=(
        "A hypothesis of three parts, each with a menu. Its words stand in a "
        "column, its 1- to 4-grams as bars beside them: filled if the reference "
        "has them, crossed if not, with an exclamation mark if clipped. Bars below "
        "show the four precisions, the brevity penalty and BLEU. With the first "
        "choice in every menu all is filled and BLEU is 1."
    ),
)

# %% [markdown]
# The brevity penalty as a curve. A tenth too short costs about a tenth. At half the length nearly two thirds are gone.

# %%
ratios = np.linspace(0.3, 1.4, 111)
penalty = np.exp(np.minimum(0, 1 - 1 / ratios))
for ratio in (0.9, 0.5):
    print(f"length ratio {ratio}: BP {math.exp(1 - 1 / ratio):.2f}")

# %% tags=["hide-input"]
from transformer.plots.curves import curves

Picture(
    curves(
        ratios,
        {"BP": penalty},
        "hypothesis / reference, in words",
        "Brevity penalty",
    ),
    alt=(
        "The brevity penalty against the ratio of the lengths. It climbs from "
        "0.1 at three tenths of the length to 1 at equal length, ever less "
        "steeply, and stays at 1 for longer hypotheses."
    ),
)

# %% [markdown]
# ## The code
#
# A test set has thousands of sentences and gets **one** BLEU. The order of things matters here: first all counts are **summed** over the sentences, then the precisions
# and the penalty are computed, once. From a sentence we keep ten numbers.


# %%
def words_of(line):
    return re.findall(r"\w+|[^\w\s]", line)  # words and punctuation


def counts_of(hypothesis, reference):
    h, r = words_of(hypothesis), words_of(reference)
    right, all_of_them = zip(*(matched(h, r, n) for n in (1, 2, 3, 4)), strict=True)
    return [len(h), len(r), *right, *all_of_them]


def bleu_of(counts):
    """(…, 10) → (…)"""
    c, r = counts[..., 0], counts[..., 1]
    precisions = counts[..., 2:6] / counts[..., 6:]
    brevity = np.exp(np.minimum(0, 1 - r / c))
    return 100 * brevity * np.exp(np.log(precisions).mean(axis=-1))


# %% [markdown]
# Now we need a test set, and systems to judge. The references are those of the corpus that the course carries in its pocket. As systems we take the references themselves
# and **plant mistakes by rule**. So we know what nobody knows in real life: which system is better, and in what. The *dropper* loses a word now and then, the *swapper*
# exchanges two neighbours.

# %%
from transformer.data.corpora import sentence_pairs

references = [german for _, german in sentence_pairs("pocket", "test")]


def dropper(rate, seed, lines=references):
    dice = random.Random(seed)
    return [
        " ".join(word for word in line.split() if dice.random() >= rate)
        for line in lines
    ]


# %%
def swapper(rate, seed):
    dice, found = random.Random(seed), []
    for line in references:
        words = line.split()
        for i in range(len(words) - 1):
            if dice.random() < rate:
                words[i], words[i + 1] = words[i + 1], words[i]
        found.append(" ".join(words))
    return found


drops, swaps = dropper(0.08, seed=0), swapper(0.08, seed=0)
for line in (references[14], drops[14], swaps[14]):
    print(line)

# %% [markdown]
# Ten numbers a sentence, summed, one BLEU; and sacreBLEU, which the package asks, gives the same:


# %%
def table_of(hypotheses):
    pairs = zip(hypotheses, references, strict=True)
    return np.array([counts_of(h, r) for h, r in pairs])  # (sentences, 10)


for name, system in {"dropper": drops, "swapper": swaps}.items():
    by_hand = bleu_of(table_of(system).sum(axis=0))
    assert math.isclose(by_hand, bleu(system, references).value)
    print(f"{name}  {by_hand:.2f}")
SourceCode(bleu)

# %% [markdown]
# ### Why not the mean over the sentences?
#
# Two sentences, one perfect, one with a wrong verb in the middle. The second has no four right, so its own BLEU is **zero**: as bad as an empty line.

# %%
pairs = [
    ("Ein kluger Mann liest ein altes Buch.",) * 2,
    ("Der Hund trinkt die Milch.", "Der Hund mag die Milch."),
]
each = np.array([counts_of(*pair) for pair in pairs])
with np.errstate(divide="ignore"):
    alone = bleu_of(each)
together = bleu_of(each.sum(axis=0))
print("alone", alone.round(1), " summed first", together.round(1))
assert alone[1] == 0 and together > alone.mean()

# %% [markdown]
# A zero is nonsense, so for single sentences one **smooths**: something small stands in for the zero, and which something is a convention. The mean also gives a sentence of
# three words as much say as one of thirty. Corpus BLEU and the mean of sentence BLEUs are two measures. They can even disagree on
# who is better, as you will see below.

# %% [markdown]
# ## What a signature says
#
# The formula leaves open what a *word* is. Is `„Haus“,` one word, or four? Are `Die` and `die` the same? sacreBLEU {cite}`post2018` settles this by two rules. It takes plain,
# untouched text and does the splitting itself. And it prints what it did:

# %%
meaning = {
    "nrefs": "references for each sentence",
    "case": "mixed: capitals count; lc: all is made lower case first",
    "eff": "yes: an n without any n-grams is left out (short sentences)",
    "tok": "the rule by which text is split into words",
    "smooth": "what stands in for a zero; here it plays no part",
    "version": "of sacreBLEU",
}
signature = bleu(drops, references).signature
fields = dict(field.split(":") for field in signature.split("|"))
assert fields.keys() == meaning.keys()
for name, value in fields.items():
    print(f"{name:8}{value:7}{meaning[name]}")

# %% [markdown]
# Two scores of one test set may be compared if their signatures are equal. If there is no signature, they may not. It also pays to know what it does **not** say: beam size, length
# penalty, averaged checkpoints. The paper names them (§6.1), and so should you.
#
# How much is in it? We let our sentences look a bit more like a newspaper's, with quotation marks, hyphens and a *Dr.*, and take a system that drops words and forgets
# capitals.


# %%
def printed(i, line):
    before = ("Die US-Zeitung: „", "Dr. Weber sagt: „", "")[i % 3]
    return f"{before}{line}“" if before else line


dice = random.Random(0)
news = [printed(i, line) for i, line in enumerate(references)]
system = [
    " ".join(w.lower() if dice.random() < 0.04 else w for w in line.split())
    for line in dropper(0.06, seed=1, lines=news)
]

# %%
from transformer.evaluation.metrics import score_table, score_translations

found = score_translations(system, news, "de")
print(score_table([found]))

# %% tags=["hide-input"]
from transformer.plots import style

with style.in_style():
    figure, axes = style.new_figure(3.8, 2.0)
    bleus = [score for score in found if score.name.startswith("BLEU")][::-1]
    names, values = [s.name for s in bleus], [s.value for s in bleus]
    axes.hlines(names, 80, values, color=style.PLAIN, linewidth=1)
    axes.plot(values, names, "o", color=style.OUTPUT)
    for name, value in zip(names, values, strict=True):
        axes.annotate(
            f"{value:.1f}",
            (value, name),
            (6, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_xlim(82, max(values) + 1)
    axes.set_ylim(-0.6, 4.5)
    axes.set_title("One system, one set of translations", loc="left")
Picture(
    figure,
    alt=(
        "Five BLEUs of the same translations as points on a line. Cased 13a is "
        "the lowest, lower-cased intl the highest; cased intl and the paper's "
        "lie together between them. From lowest to highest it is several points."
    ),
)

# %%
value = {score.name: score.value for score in found}
assert value["BLEU"] < value["BLEU intl"] < value["BLEU lc"] < value["BLEU intl lc"]
print(f"from lowest to highest: {value['BLEU intl lc'] - value['BLEU']:.1f} BLEU")

# %% [markdown]
# The same thousand lines of text. Lower case forgives the capitals. And `13a` knows only the punctuation of ASCII: to it `„Das` is one word, which is lost as a whole if *Das* is. `intl`
# splits all punctuation and keeps the hit on the quotation mark.

# %%
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_intl import TokenizerV14International

line = "„Das ist die S-Bahn.“"
for split in (Tokenizer13a(), TokenizerV14International()):
    print(f"{split.signature():5}", split(line).split(" "))
assert Tokenizer13a()(line).split()[0] == "„Das"

# %% [markdown]
# ### The paper's own measure
#
# The paper gives its 27.3 and 28.4 (§6.1, Table 2) without saying what was counted as a word. The authors' program has a script that does it: tokenise the way Moses does,
# then **split words at hyphens**, and put a mark where the hyphen was. The field calls it *compound splitting*, though it does not touch a real German compound.

# %%
from transformer.evaluation.metrics import paper_bleu, split_at_hyphens

one, other = "die S-Bahn hält heute".split(), "die S-Bahn fährt heute".split()
print(split_at_hyphens(one))
print(split_at_hyphens(["Straßenbahn"]))

# %% [markdown]
# One right word becomes three, and with it come two pairs and a triple, all right as well. By hand, before and after:

# %%
sides = [[one, other], [split_at_hyphens(side).split() for side in (one, other)]]
for h, r in sides:
    print("   ".join("{} of {}".format(*matched(h, r, n)) for n in (1, 2, 3, 4)))

by_hand = 100 * math.prod([5 / 6, 3 / 5, 2 / 4, 1 / 3]) ** (1 / 4)
assert math.isclose(paper_bleu([one], [other], "de").value, by_hand)
print(f"split: {by_hand:.1f}; as it was: 0, for want of a three")

# %% [markdown]
# In our picture the paper's measure and `intl` lie together. No wonder: `intl` splits at hyphens, too, and leaves the hyphen as a word of its own. On real text they part again:
# Moses keeps abbreviations whole, and the references that the authors took had been tokenised by somebody else.

# %%
split_by_intl = bleu([" ".join(one)], [" ".join(other)], tokenize="intl")
assert math.isclose(split_by_intl.value, by_hand)

# %% [markdown]
# Now the numbers of the real world, on newstest2014. For one checkpoint of the authors' program, a base model trained much longer than the paper's, all three measures have been
# [published](https://github.com/tensorflow/tensor2tensor/issues/317); and also for a base model that somebody [rebuilt](https://github.com/sgrvinod/a-PyTorch-Tutorial-to-Transformers) and trained for the paper's 100,000 steps:

# %%
published = {  # 13a, intl, split at hyphens
    "trained long": (27.52, 28.33, 29.02),
    "rebuilt": (25.1, 25.9, 26.49),
}
gaps = [split - plain for plain, _, split in published.values()]
for (name, three_ways), gap in zip(published.items(), gaps, strict=True):
    print(f"{name:13}", *three_ways, f" the paper's way gives {gap:.1f} more")
low, high = 27.3 - max(gaps), 27.3 - min(gaps)
print(f"the paper's 27.3 would be {low:.1f} to {high:.1f} in 13a")
print(f"27.3 is {27.3 - 25.1:.1f} above 25.1, and {27.3 - 26.49:.1f} above 26.49")

# %% [markdown]
# So 26.5 and 25.1 are **one model**, read off two rulers. And 27.3 is not 2.2 above it but 0.8, because 27.3 was read off the longer ruler. Who trains the base model, sees 25.1 and
# despairs of the missing two points is much closer than that.
#
# To compare with this paper and its time, use the paper's measure. For everything else use `13a`, cased, with its signature.

# %% [markdown]
# ## chrF: when nearly right should count
#
# German glues words together and bends their endings. To BLEU a word with a wrong ending is a wrong word. Look at two translations of *A clever grandfather forgives
# some old friends*. The first has the wrong case in three words; the second forgives seven yellow cars.

# %%
from transformer.evaluation.metrics import chrf

reference = "Ein kluger Großvater verzeiht einigen alten Freunden."
endings = "Ein kluger Großvater verzeiht einige alte Freunde."
cars = "Ein kluger Großvater verzeiht sieben gelbe Autos."
for text in (endings, cars):
    b, c = bleu([text], [reference]).value, chrf([text], [reference]).value
    print(f"BLEU {b:.1f}   chrF {c:.1f}   {text}")
assert bleu([endings], [reference]).value == bleu([cars], [reference]).value

# %% [markdown]
# BLEU cannot tell them apart. **chrF** {cite}`popovic2015` counts n-grams of *characters*, from 1 to 6, and drops the spaces first. By hand on one word, the plural that came
# out as a singular:

# %%
hypothesis, reference = "Museumsbank", "Museumsbänke"  # museum bench, benches
precision, recall = [], []
for n in range(1, 7):
    right = (ngrams(hypothesis, n) & ngrams(reference, n)).total()
    precision.append(right / (len(hypothesis) - n + 1))
    recall.append(right / (len(reference) - n + 1))
    shares = f"precision {precision[-1]:.2f}   recall {recall[-1]:.2f}"
    print(f"n = {n}: {right} right   {shares}")

# %% [markdown]
# There is no brevity penalty, because chrF asks both questions directly: what share of the hypothesis is right (precision), and what share of the reference is there
# (recall)? Both are averaged over $n$, the ordinary way, and combined with recall counting twice as much, $\beta = 2$:
#
# $$ \mathrm{chrF}_\beta = 100 \cdot \frac{(1 + \beta^2)\, P R}{\beta^2 P + R} $$

# %%
P, R = np.mean(precision), np.mean(recall)
by_hand = 100 * (1 + 2**2) * P * R / (2**2 * P + R)
assert math.isclose(by_hand, chrf([hypothesis], [reference]).value)
print(f"chrF {by_hand:.1f}; BLEU: one wrong word, 0")

# %% [markdown]
# It needs no tokeniser, so there is much less to quarrel about. Its own blind spot sits in the same place: as spaces are dropped, it cannot see a
# compound that was torn apart, which in German is a spelling mistake.

# %%
assert (
    chrf(["Das Kranken haus ist neu."], ["Das Krankenhaus ist neu."]).value == 100
)

# %% [markdown]
# ## METEOR: match first, then ask about order
#
# METEOR {cite}`banerjee2005` takes the two questions apart. First it pairs words: the same word, else one of the same **stem**, else a synonym where it has a
# dictionary of them. Then it counts in how many **chunks** the pairs come, a chunk being a run that has the same order on both sides. Our pair says *the little dogs sleep
# in the house today*; the hypothesis begins with *today*, which is fine, loses the article, and so bends *little* differently:

# %%
from nltk.stem import SnowballStemmer

stem = SnowballStemmer("german").stem
hypothesis = "heute schlafen kleine Hunde im Haus".split()
reference = "die kleinen Hunde schlafen heute im Haus".split()
stems = [stem(word.lower()) for word in reference]
places = [stems.index(stem(word.lower())) for word in hypothesis]
print(stem("kleine"), stem("kleinen"), places)

# %% [markdown]
# All six words have their partner; *kleine* finds *kleinen* by its stem. `places` says where each partner stands. Wherever it does not go on by one, a new chunk begins.

# %%
m = len(places)
chunks = 1 + sum(after != before + 1 for before, after in pairwise(places))
P, R = m / len(hypothesis), m / len(reference)
F = 10 * P * R / (R + 9 * P)  # recall counts nine times
penalty = 0.5 * (chunks / m) ** 3
by_hand = 100 * F * (1 - penalty)
print(f"{m} pairs in {chunks} chunks   F {F:.3f}   penalty {penalty:.3f}")
print(f"METEOR {by_hand:.1f}")

# %%
from transformer.evaluation.metrics import meteor, moses_tokenize

score = meteor([hypothesis], [reference], "de")
assert math.isclose(score.value, by_hand)
sentence = bleu([" ".join(hypothesis)], [" ".join(reference)])
print(f"METEOR {score.value:.1f}   BLEU {sentence.value:.1f}")
print(score.signature)

# %% [markdown]
# BLEU sees a wreck, METEOR a translation with its furniture moved, which is nearer to the truth. It costs a stemmer for each language and a dictionary. Programs
# that call themselves METEOR differ in stems, synonyms and weights, so this score needs its signature more than any. And a test set's METEOR *is* a mean over sentences.
#
# ### Who is better, dropper or swapper?


# %%
def three(system):
    words = [
        [moses_tokenize(line, "de") for line in side]
        for side in (system, references)
    ]
    by_words = meteor(*words, "de").value
    return bleu(system, references).value, chrf(system, references).value, by_words


results = {"dropper": three(drops), "swapper": three(swaps)}
for name, result in results.items():
    print("{}   BLEU {:.1f}   chrF {:.1f}   METEOR {:.1f}".format(name, *result))
better = [d > s for d, s in zip(*results.values(), strict=True)]
assert better == [True, False, False]

# %% [markdown]
# BLEU takes the dropper; chrF and METEOR take the swapper. None of them is wrong: order is dear to BLEU, and completeness to the other two. A metric is an opinion, written down very
# exactly. If yours is to be believed, choose it **before** you see the results.

# %% [markdown]
# ## Better, or lucky?
#
# Two new runs are each 0.6 BLEU better than the first one. Are they? Here we know. `again` is the *same* dropper with another seed of its dice: no better, only lucky. `mended` is
# `first` with a few of its mistakes repaired and nothing else changed: truly better.

# %%
systems = {
    "first": dropper(0.08, seed=1),
    "again": dropper(0.08, seed=4),
    "mended": dropper(0.076, seed=1),  # the same dice, a slightly lower bar
}
tables = {name: table_of(system) for name, system in systems.items()}
whole = {name: bleu_of(table.sum(axis=0)) for name, table in tables.items()}
for name, score in whole.items():
    print(f"{name:7}{score:.2f}   {score - whole['first']:+.2f}")
assert abs(whole["again"] - whole["mended"]) < 0.1

# %% [markdown]
# Had the test set consisted of other sentences, the numbers would be others. We have no other sentences. But we can act as if: **draw a thousand sentences out of our
# thousand, with repetition**, so that some come twice and some not at all, and score that. Do it a thousand times. This is the *bootstrap*, and it is *paired* when both systems are
# scored on the same draws {cite}`koehn2004`. Thanks to the ten numbers a sentence, a draw is a sum.

# %%
n = len(references)
draws = np.random.default_rng(12345).choice(n, size=(1000, n))
often = np.stack([np.bincount(draw, minlength=n) for draw in draws])  # (draws, n)
bleus = {name: bleu_of(often @ table) for name, table in tables.items()}
gain = {name: bleus[name] - bleus["first"] for name in ("again", "mended")}
print(f"first alone spreads ± {bleus['first'].std():.2f}")
for name, g in gain.items():
    wins = f"{name:7}wins {np.mean(g > 0):4.0%} of the draws"
    print(f"{wins}, gain {g.mean():.2f} ± {g.std():.2f}")

# %% tags=["hide-input"]
with style.in_style():
    left, above = style.new_figure(3.5, 2.4)
    right, below = style.new_figure(3.5, 2.4)
    looks = {
        "first": (style.PLAIN, "-"),
        "again": (style.WRONG, "--"),
        "mended": (style.VALUE, "-"),
    }
    bins = {above: np.linspace(81, 86.5, 45), below: np.linspace(-2.5, 3.5, 61)}
    for axes, lines in ((above, bleus), (below, gain)):
        for name, values in lines.items():
            colour, dashes = looks[name]
            weights = np.full(len(values), 0.1)
            axes.hist(
                values, bins[axes], weights=weights, histtype="step",
                color=colour, linestyle=dashes, linewidth=1.6, label=name,
            )  # fmt: skip
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.legend(fontsize=9, loc="upper left", borderaxespad=0)
        axes.set_ylim(top=1.3 * axes.get_ylim()[1])
    below.axvline(0, color=style.INK, linewidth=1, linestyle=":")
    above.set_title("BLEU over 1,000 draws", loc="left")
    below.set_title("Gain over first, same draws", loc="left")
Row(
    Picture(
        left,
        alt=(
            "Three histograms of BLEU over a thousand draws, one for each system. "
            "They are equally wide and overlap almost entirely; again and mended "
            "lie a little to the right of first."
        ),
    ),
    Picture(
        right,
        alt=(
            "Two histograms of the gain over first on the same draws. That of "
            "again is wide and straddles zero; that of mended is a narrow peak at "
            "about 0.6, wholly to the right of zero."
        ),
    ),
)

# %% [markdown]
# In the first picture nobody could tell `again` from `mended`, or be sure about either. In the second one look will do. `mended` stumbles over the same sentences as `first`, so what a hard draw does to one it does to the other, and in
# the difference it cancels. That is what pairing buys. `again` makes its mistakes elsewhere, and there is nothing to cancel. Real systems lie in between: they share what is difficult.

# %%
assert gain["mended"].min() > 0 > gain["again"].min()
assert gain["mended"].std() < bleus["first"].std() / 4 < gain["again"].std() / 4

# %% [markdown]
# How large a gain is chance alone good for? Shift the histogram so that its middle is zero, as if the two systems were equals, and count how often it still reaches
# beyond the gain that we saw. That share is **p**. sacreBLEU does just that, with the differences taken as absolute values first, and the package asks sacreBLEU:

# %%
from transformer.evaluation.metrics import paired_bootstrap

for name, g in gain.items():
    seen = abs(whole[name] - whole["first"])
    chance = abs(g) - abs(g).mean()
    p = (np.sum(chance > seen) + 1) / (
        len(g) + 1
    )  # + 1: what we saw is a draw, too
    result = paired_bootstrap(systems["first"], systems[name], references)[0]
    assert math.isclose(p, result.p_value)
    print(f"{name:7}gain {result.second - result.first:+.2f}   p = {p:.3f}")

# %% [markdown]
# The same gain twice, and two verdicts. Usually one believes a p below 0.05. Read three warnings into it.
#
# **It is about sentences, not seeds.** Would the gain survive other sentences of this kind? That is all p is asked. Two trainings of one recipe are two different systems, and with enough
# sentences p will rightly say so; that the *recipe* is better does not follow. Train several.
#
# **Small p is not large gain.** `mended` is certain, and hardly anybody would notice the difference in reading.
#
# **A test set sees only so much.** We take a system that is clearly better, cut the test set into parts, and score each on its own:

# %%
better = table_of(dropper(0.07, seed=2))


def gains_of_parts(size):
    found = []
    for start in range(0, n, size):
        part = slice(start, start + size)
        one, other = (
            bleu_of(t[part].sum(axis=0)) for t in (tables["first"], better)
        )
        found.append(other - one)
    return np.array(found)


# %%
for size in (50, 200, 500):
    g = gains_of_parts(size)
    lost = f"{np.sum(g < 0)} of {len(g)} lost"
    print(f"parts of {size:3}: gain from {g.min():4.1f} to {g.max():3.1f}, {lost}")
few, many = gains_of_parts(50), gains_of_parts(500)
assert few.min() < 0 < many.min() and few.max() > 2 * many.max()

# %% [markdown]
# On fifty sentences the better system may lose, or seem to gain far more than it does. Chance shrinks with the root of the number of sentences: half the noise takes four times
# the sentences.

# %% [markdown]
# ## What BLEU does not see
#
# Back to where we began. Each line below has a reference, a **harmless** translation, in which nothing is lost, and a **harmful** one:
#
# - *I am not coming back because Anna lives there*, and the harmful one has lost its *nicht*, the *not*;
# - *The doctor opened the window for Anna yesterday*, and she has become Peter;
# - *On Monday the dog bit the old man*, and man and dog have changed places. It is fluent, and it is nonsense.
#
# All three scores, for all three pairs, the harmless one first:

# %%
cases = [
    "Ich komme nicht zurück, weil Anna dort wohnt."
    "|Da Anna dort wohnt, kehre ich nicht zurück."
    "|Ich komme zurück, weil Anna dort wohnt.",
    "Der Arzt hat Anna gestern das Fenster geöffnet."
    "|Gestern machte der Arzt Anna das Fenster auf."
    "|Der Arzt hat Peter gestern das Fenster geöffnet.",
    "Am Montag hat der Hund den alten Mann gebissen."
    "|Der alte Mann wurde am Montag vom Hund gebissen."
    "|Am Montag hat der alte Mann den Hund gebissen.",
]


# %%
def all_three(text, reference):
    words = [[moses_tokenize(line, "de")] for line in (text, reference)]
    b, c = bleu([text], [reference]), chrf([text], [reference])
    return b.value, c.value, meteor(*words, "de").value


for case in cases:
    reference, harmless, harmful = case.split("|")
    good, bad = all_three(harmless, reference), all_three(harmful, reference)
    assert all(np.greater(bad, good))
    for numbers, text in ((good, harmless), (bad, harmful)):
        print("BLEU {:.0f}  chrF {:.0f}  METEOR {:.0f}  ".format(*numbers), text)

# %% [markdown]
# Nine comparisons, nine wrong. To all three metrics a word is a word, whether the meaning hangs on it or not.
#
# "But over a whole test set it evens out"? For mistakes that strike at random, yes. Not for a habit. Here is a system that translates everything perfectly and **never says no**: it leaves
# out every *nicht* and makes *ein* (a) of every *kein* (no). And one that gets every sentence right and forgets the full stop.


# %%
def never_no(line):
    line = re.sub(r" nicht\b", "", line)
    return re.sub(r"\b([Kk])ein", lambda k: "Ein" if k[1] == "K" else "ein", line)


liar = [never_no(line) for line in references]
sloppy = [line.rstrip(".?") for line in references]
turned = sum(a != b for a, b in zip(liar, references, strict=True))
print(f"{turned} of {n} sentences say the opposite")
print(f"never says no    {bleu(liar, references).value:.1f}")
print(f"no full stop     {bleu(sloppy, references).value:.1f}")
assert bleu(liar, references).value > bleu(sloppy, references).value + 5

# %% [markdown]
# Look at the translations. Every time, some dozens, and those with negations, numbers and names first. Where it matters, ask people. Metrics that are themselves trained
# networks, such as COMET {cite}`rei2020`, agree better with people, and bring along their own model, version and taste: the signature grows, it does not go away.

# %% [markdown]
# ## What goes wrong in practice
#
# **Fault 1: one side has been processed, the other has not.** Lower-cased output against a raw reference, or output as the Moses tokeniser leaves it:

# %%
lowered = [line.lower() for line in system]
spaced = [" ".join(moses_tokenize(line, "de")) for line in system]
print(f"as it should be     {value['BLEU']:.1f}")
print(f"lower-cased output  {bleu(lowered, news).value:.1f}")

logger, heard = logging.getLogger("sacrebleu"), []
logger.addFilter(lambda record: heard.append(record.getMessage()))  # and be quiet
tokenised = bleu(spaced, news).value
print(f"tokenised output    {tokenised:.1f}")
both = bleu(spaced, [" ".join(moses_tokenize(line, "de")) for line in news]).value
print(f"both tokenised      {both:.1f}")
print("sacreBLEU:", heard[0])
logger.filters.clear()

# %%
assert bleu(lowered, news).value < value["BLEU"] / 2
assert tokenised < value["BLEU"] - 5 and both > value["BLEU"]
commas = [line.replace(",", " ,") for line in system]
assert math.isclose(bleu(commas, news).value, value["BLEU"]), (
    "13a splits it off anyway"
)

# %% [markdown]
# German nouns begin with a capital letter, so lower case destroys most n-grams. Tokenised output falls because of its quotation marks. With both sides tokenised the score *rises*, which
# is the more dangerous mistake, since nobody looks for the cause of a good result. sacreBLEU does notice. Not every space hurts: `13a` splits a comma from its word in
# any case, so a space before it changes nothing.
#
# **Fault 2: split twice.** Splitting already split text at hyphens splits the marks, and each gives away more words for free. The same happens if you score the model's
# subword **pieces** and forget to join them. Here we cut words into fours:

# %%
words = [[moses_tokenize(line, "de") for line in side] for side in (system, news)]
twice = [[split_at_hyphens(line).split() for line in side] for side in words]
print(split_at_hyphens(split_at_hyphens(["US-Zeitung"]).split()))
split_twice = paper_bleu(*twice, "de").value
print(f"split once {value['BLEU paper']:.2f}   twice {split_twice:.2f}")

pieces = [
    [re.sub(r"(\w{4})(?=\w)", r"\1 ", line) for line in side]
    for side in (system, news)
]
print(f"words {value['BLEU']:.1f}   pieces {bleu(*pieces).value:.1f}")
assert split_twice > value["BLEU paper"]
assert bleu(*pieces).value > value["BLEU"] + 2

# %% [markdown]
# **Fault 3: one line off.** Some characters end a line for one program and not for another. Python's `splitlines` breaks at U+2028, an invisible character that real corpora contain. Put one
# of them behind the fourth reference, and from there on every line is compared with its neighbour:

# %%
text = "\n".join([*references[:3], references[3] + "\u2028", *references[4:]])
lines = text.splitlines()
print(len(lines), "lines by splitlines,", len(text.split("\n")), "by split at \\n")
shifted = bleu(drops, lines[:n]).value
print(f"BLEU {shifted:.2f} in place of {bleu(drops, references).value:.2f}")
assert shifted < 2

try:
    bleu(drops, lines)
except ValueError as error:
    print("the package:", error)

# %% [markdown]
# A BLEU near nothing is rarely a bad model. Look at the first lines of both files side by side, then at the last. And never let `zip` cut the longer one off in silence.
#
# **Fault 4: the mean of sentence BLEUs.** One system makes mistakes in short sentences only, the other, fewer, in long ones. Who is better?

# %%
length = [len(line.split()) for line in references]
in_short, in_long = dropper(0.12, seed=1), dropper(0.06, seed=2)
rows = list(zip(references, length, in_short, in_long, strict=True))
in_short = [h if long <= 7 else line for line, long, h, _ in rows]
in_long = [h if long >= 9 else line for line, long, _, h in rows]

# %%
from sacrebleu.metrics.bleu import BLEU

single = BLEU(effective_order=True)  # sacreBLEU's way for single sentences
averages, wholes = [], []
for system in (in_short, in_long):
    each = [
        single.sentence_score(h, [r]).score
        for h, r in zip(system, references, strict=True)
    ]
    averages.append(np.mean(each))
    wholes.append(bleu(system, references).value)

# %%
print("                      short   long")
print("mean of the sentences {:5.1f}  {:5.1f}".format(*averages))
print("corpus BLEU           {:5.1f}  {:5.1f}".format(*wholes))
assert averages[0] < averages[1] and wholes[0] > wholes[1]

# %% [markdown]
# **Fault 5: choosing on the test set.** Thirty checkpoints, all **equally good**: the same dropper, thirty seeds. We choose the best by its BLEU on one half of the test set and ask how good it
# is on the other half, which had no say. Four rounds of that:


# %%
def halves(seed):
    table = table_of(dropper(0.08, seed))
    return bleu_of(table[: n // 2].sum(axis=0)), bleu_of(
        table[n // 2 :].sum(axis=0)
    )


rounds = np.array([[halves(100 * k + i) for i in range(30)] for k in (1, 2, 3, 4)])
best = rounds[:, :, 0].argmax(axis=1)
winners = rounds[range(4), best]  # (rounds, halves)
above = winners - rounds.mean(axis=1)
for promised, kept in above:
    print(f"the best promises {promised:+.1f} over the mean and keeps {kept:+.1f}")
assert above[:, 0].min() > 1.5 and abs(above[:, 1].mean()) < 0.5

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(3.4, 3.0)
    chosen_on, unseen = rounds.reshape(-1, 2).T
    axes.plot(chosen_on, unseen, "o", color=style.PLAIN, markersize=4)
    axes.plot(*winners.T, "o", color=style.WRONG, markersize=8, label="chosen")
    axes.axhline(
        unseen.mean(), color=style.INK, linewidth=1, linestyle=":", label="mean"
    )
    axes.set_xlabel("BLEU where it was chosen")
    axes.set_title("BLEU on the other half", loc="left")
    axes.set_ylim(top=unseen.max() + 1.5)
    axes.legend(fontsize=9, loc="upper left", ncols=2)
    axes.grid(True)
Picture(
    figure,
    alt=(
        "A hundred and twenty equally good checkpoints as points: BLEU on the half "
        "where one is chosen to the right, on the other half upwards. There is no "
        "trend. The four chosen ones lie far to the right, and upwards on either "
        "side of the mean."
    ),
)

# %% [markdown]
# The winners were lucky, and luck does not carry over: what they keep is as often below the mean as above it. Checkpoints, beam size, length penalty: all are chosen on the **validation** set (the paper does so with the last two, §6.1). The test
# set is opened once.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. The reference is `it was sour`, the hypothesis `sour sour sour`. How many of its words count?**
#
# <details><summary>A. 3 of 3</summary>
#
# No. That is without clipping: each *sour* is found, but the reference has only one to give.
#
# </details>
# <details><summary>B. 1 of 3</summary>
#
# **Right.** The count is clipped to how often the reference has the word, and divided by the words of the hypothesis.
#
# </details>
# <details><summary>C. 1 of 1</summary>
#
# No. Clipping concerns the numerator only. The superfluous words stay in the denominator, and so they cost.
#
# </details>
# <details><summary>D. None, for want of a right pair</summary>
#
# No. Words and pairs are counted separately. It is the geometric mean that later makes the whole zero.
#
# </details>
#
# **2. A paper reports BLEU 28.1, your model has 27.4 with `tok:13a`. The paper gives no signature. What do you know?**
#
# <details><summary>A. That your model is worse by 0.7</summary>
#
# No. The same translations have scored several points apart on this page, by tokenisation and case alone.
#
# </details>
# <details><summary>B. That the two are equal, as 0.7 is within the noise</summary>
#
# No. Whether it is noise, a test on both systems' translations would say. You have only one of them, and two rulers.
#
# </details>
# <details><summary>C. Nothing, until you score their translations or in their way</summary>
#
# **Right.** The translations are best: then you may choose the metric, and bootstrap the difference, too.
#
# </details>
# <details><summary>D. That 13a is too strict, and you should report lower case</summary>
#
# No. A ruler chosen because it reads higher is how the field got into this.
#
# </details>
#
# **3. Two systems differ by 0.5 BLEU with p = 0.01. What may you conclude?**
#
# <details><summary>A. That these two systems differ, beyond the luck of which sentences were in the test set</summary>
#
# **Right.** That, for this test set's kind of sentence and for this metric, and no more.
#
# </details>
# <details><summary>B. That people will prefer the second</summary>
#
# No. A significant difference in likeness to the references is still one in likeness.
#
# </details>
# <details><summary>C. That the second's training recipe is better</summary>
#
# No. One seed of each was tested. Another seed may turn it round; p knows nothing of seeds.
#
# </details>
# <details><summary>D. That the gain is 0.5 with a probability of 99 %</summary>
#
# No. p is how often chance makes a *larger* difference if there is none. It is no probability of any particular gain.
#
# </details>
#
# **4. Can BLEU rise when the translation gets worse?**
#
# <details><summary>Answer</summary>
#
# Yes. Take a right one in other words and replace it by the reference with its *nicht* left out. More subtly: a system that is too short gains from padding its output with
# anything, as long as the brevity penalty falls faster than the precisions do.
#
# </details>
#
# **5. Why do the precisions of a test set not become zero, while those of a sentence often do?**
#
# <details><summary>Answer</summary>
#
# Because the counts are summed first. Among thousands of sentences some have right fours, so no sum is zero. A single sentence may well have none, and then something has to be
# done about the logarithm of zero: smoothing.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Six blanks: n-grams and their clipped matches, the brevity penalty, BLEU of a test set, chrF, and the bootstrap. Each has a check that says what is wrong,
# and a hint.
#
# - In Colab:
#   [13_evaluation](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/13_evaluation.ipynb).
#   On GitHub: [13_evaluation.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/13_evaluation.ipynb).
# - On your machine, open `exercises/13_evaluation.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade evaluation
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And four experiments:
#
# - **Two references.** Write BLEU for several references: an n-gram may be used as often as the reference that has it most often allows, and $r$ is the length of the reference that is
#   closest. Check yourself against `BLEU().corpus_score(hypotheses, [references_1, references_2])`.
# - **The smallest gain.** How close may the rates of two droppers with different seeds be before p rises above 0.05? And with the same seed? Then use a quarter of the sentences.
# - **Cheat.** Take a dropper with a rate of 0.3 and add a full stop to each of its lines, then a second, then a third. When is its BLEU highest, and why there? What does chrF say?
# - **Your own models.** Score two trained models and compare them, as one command:
#
# ```bash
# transformer evaluate runs/pocket                     # all seven scores, with signatures
# transformer evaluate runs/pocket runs/wide           # and whether the second is better
# transformer evaluate runs/pocket --beam-size 1       # what does beam search bring?
# ```

# %% [markdown]
# ## Going further
#
# - **BLEU:** {cite}`papineni2002` is short and readable. §2.1 has clipping, §2.2 the brevity penalty, and the later sections ask people.
# - **Signatures:** {cite}`post2018` counts the ways in which papers computed BLEU, and how far they lie apart.
# - **The paper's results** are in §6.1 of {cite}`vaswani2017`. How they were scored, one of its authors tells in an
#   [issue of Tensor2Tensor](https://github.com/tensorflow/tensor2tensor/issues/61).
# - **Significance:** {cite}`koehn2004`, with the paired bootstrap. He counts the draws that each side wins, the first of our two counts.
# - **How well metrics agree with people**, and how single outliers feign it: {cite}`mathur2020`. That the references are half the problem: {cite}`freitag2020`.
