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
# A person has translated the German sentence *Das Mädchen machte den Fernseher aus, weil es spät war* into English. Such a translation is called the **reference**. The figure shows it above three translations as machines might write them. Exactly one of the three is wrong. **Which of the three gets the highest BLEU, the score that the paper reports?** A word's green bar is as high as the longest run of words (up to four) that contains it and also occurs in the reference.

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

# %% tags=["hide-input"]
import logging
import math
import random
import re
from collections import Counter
from itertools import pairwise

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from transformer.evaluation.metrics import bleu
from transformer.plots import style
from transformer.plots.matched_runs import matched_runs
from transformer.plots.style import Captioned, Picture, Row

tv_reference = "The girl turned off the TV because it was late."
translations = {
    "A": "Because it was late, the girl switched the TV off.",
    "B": "The girl turned off the TV because it was not late.",
    "C": "As it was late, the girl turned the TV off.",
}
Picture(
    matched_runs(translations, tv_reference),
    alt=(
        "Three translations below the reference, 'The girl turned off the TV because it "
        "was late.' A: 'Because it was late, the girl switched the TV off.' and C: 'As it "
        "was late, the girl turned the TV off.' have low green bars, for runs of at most "
        "three words. B: 'The girl turned off the TV because it was not late.' has the "
        "highest bars over all words but not and late."
    ),
    caption=(
        "What BLEU sees of three translations: a high bar marks a word in a long run "
        "that also occurs in the reference."
    ),
)

# %%
for label, text in translations.items():
    print(f"{label}  BLEU {bleu([text], [tv_reference]).value:4.1f}")

# %% tags=["remove-cell"]
scores = {k: bleu([text], [tv_reference]).value for k, text in translations.items()}
assert scores["B"] > 2 * max(scores["A"], scores["C"])

# %% [markdown]
# The wrong one wins, by far. B says that it was *not* late, and yet it gets the highest score, because a sentence has many good translations and only one of them has been written down. BLEU measures **similarity to a reference**, not correctness.
#
# Still, nearly every result in this field is such a number, the paper's 27.3 and 28.4 (Table 2) included. Over thousands of sentences, random differences in wording average out. So BLEU is useful for comparing *similar* systems, as long as you know what it counts.
#
# By the end you will be able to compute BLEU, chrF and METEOR by hand, read the signature of a score, test whether a gain is significant, and name the errors that these scores can't see. **About 45 minutes.** The chapter assumes a little Python; a few terms, such as *subword*, *checkpoint* and *beam size*, are explained in earlier chapters.
#
# ## BLEU by hand
#
# A machine's translation is also called the **hypothesis**. Here is one that repeats itself and leaves something out:

# %%
reference = "the dog left the milk because it was sour".split()
hypothesis = "the dog left the milk the milk sour".split()

# %% [markdown]
# **Step 1: how many words are correct?** Let's call a word correct if the reference contains it, and count:

# %%
correct = [word for word in hypothesis if word in reference]
print(f"{len(correct)} of {len(hypothesis)}")

# %% [markdown]
# All of them, which can't be right: the hypothesis has *the* three times and *milk* twice, the reference only twice and once. So the count of each word is **clipped** to its count in the reference. In Python, `&` between two counters does that:

# %%
matched = Counter(hypothesis) & Counter(reference)
print(f"{matched.total()} of {len(hypothesis)}")

# %% [markdown]
# **Step 2: are the words in the right order?** BLEU also counts pairs of neighbouring words, and runs of three and four words. They are called **n-grams** (unigrams, bigrams, trigrams and 4-grams), and their counts are clipped in the same way. The fraction of the hypothesis's n-grams that match is the **precision** $p_n$.


# %%
def ngrams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def count_matches(hypothesis, reference, n):
    matched = ngrams(hypothesis, n) & ngrams(reference, n)
    return matched.total(), max(len(hypothesis) - n + 1, 0)


for n in (1, 2, 3, 4):
    print("n = {}: {} of {}".format(n, *count_matches(hypothesis, reference, n)))

# %% [markdown]
# In the figure, each bar is an n-gram of the hypothesis. Filled bars match, **×** means that the reference doesn't have this n-gram, and **!** that it was clipped. Look at the jump from *milk* back to *the*: this single place breaks one bigram, two trigrams and three 4-grams.

# %% tags=["hide-input"]
from transformer.plots.ngram_matches import bleu_explorer, ngram_matches

Picture(
    ngram_matches(hypothesis, reference),
    alt=(
        "Below the eight words of the hypothesis are its n-grams as bars, in four "
        "groups. 6 of 8 words are filled, 4 of 7 pairs, 3 of 6 triples and 2 of 5 "
        "4-grams. The third the, the second milk and the second pair the milk are "
        "marked as clipped; other n-grams after the repetition don't match."
    ),
    caption=(
        "The n-grams of a hypothesis. Filled bars also occur in the reference; the "
        "longer the n-grams, the fewer match."
    ),
)

# %% [markdown]
# **Step 3: combine the four precisions.** BLEU takes their **geometric mean**: it multiplies them and takes the fourth root. In an ordinary mean, the large precisions of unigrams and bigrams would dominate. With a geometric mean, only relative changes matter: halving $p_4$ costs as much as halving $p_1$. The drawback is that a single zero makes the whole score zero. (sacreBLEU replaces such a zero by a small number. So at the start of this chapter, even the translations without a matching 4-gram got a score.)

# %%
precisions = [6 / 8, 4 / 7, 3 / 6, 2 / 5]
geometric_mean = math.prod(precisions) ** (1 / 4)
print(f"{geometric_mean:.3f}")

# %% [markdown]
# **Step 4: is anything missing?** The hypothesis *the dog left the* has four perfect precisions, although more than half of the sentence is missing. So BLEU has a **brevity penalty** for hypotheses that are shorter than the reference. With $c$ words in the hypothesis (the *candidate*) and $r$ in the reference it is
#
# $$
# \mathrm{BP} = \begin{cases} e^{\,1 - r/c} & \text{if } c < r, \\ 1 & \text{otherwise.} \end{cases}
# $$
#
# There is no penalty for being too long, because extra words already lower the precisions. And that, apart from replaced zeros, is all of BLEU ([Papineni et al., 2002](https://aclanthology.org/P02-1040/)):
#
# $$ \mathrm{BLEU} = 100 \cdot \mathrm{BP} \cdot (p_1\, p_2\, p_3\, p_4)^{1/4} $$
#
# Our number and the package's are equal:

# %%
brevity_penalty = math.exp(1 - len(reference) / len(hypothesis))
by_hand = 100 * brevity_penalty * geometric_mean
score = bleu([" ".join(hypothesis)], [" ".join(reference)])
assert math.isclose(score.value, by_hand)
print(score)

# %% [markdown]
# The string after the number is its *signature*, explained below.
#
# **Now build a hypothesis yourself.** It has three parts; choose each from a menu. Try this:
#
# - Repair the repetition, then the end. Which of the two repairs gains more?
# - Leave the end out. All four precisions are perfect, so what keeps BLEU down?
# - Scramble the end. Every word is correct, and yet BLEU falls.

# %% tags=["hide-input"]
Captioned(
    bleu_explorer(
        [
            ["the dog left", "the dog the dog left", "a dog left"],
            ["the milk", "the milk the milk", "milk"],
            ["because it was sour", "sour", "because sour was it", ""],
        ],
        start=(0, 1, 1),
        reference=" ".join(reference),
        description=(
            "A hypothesis of three parts, each with a menu. Its words are in a "
            "column, its 1- to 4-grams as bars beside them: filled if the reference "
            "has them, crossed if not, with an exclamation mark if clipped. Bars "
            "below show the four precisions, the brevity penalty and BLEU. With the "
            "first choice in every menu all is filled and BLEU is 100."
        ),
    ),
    "The n-grams of the chosen hypothesis, filled if they match, with the four "
    "precisions and the brevity penalty that make up its BLEU.",
)

# %% [markdown]
# Here is the brevity penalty for other lengths. A translation that is 10% too short loses about a tenth of its score, and one of half the length nearly two thirds.

# %% tags=["hide-input"]
from transformer.plots.curves import curves

ratios = np.linspace(0.3, 1.4, 111)
penalty = np.exp(np.minimum(0, 1 - 1 / ratios))
Picture(
    curves(
        ratios,
        {"BP": penalty},
        "length of hypothesis / length of reference",
        "Brevity penalty",
    ),
    alt=(
        "The brevity penalty against the ratio of the lengths. It rises from 0.1 at "
        "a ratio of 0.3 to 1 at equal lengths, most steeply around one half, and stays "
        "at 1 for longer hypotheses."
    ),
    caption=(
        "The brevity penalty falls quickly for hypotheses shorter than the "
        "reference. Longer ones are not penalised."
    ),
)

# %% tags=["remove-cell"]
assert 0.88 < math.exp(1 - 1 / 0.9) < 0.91 and 0.34 < math.exp(1 - 1 / 0.5) < 0.4
short = "the dog left the".split()
assert all(len(set(count_matches(short, reference, n))) == 1 for n in (1, 2, 3, 4))
for n in (2, 3, 4):  # the n-grams across the jump from the fifth word to the sixth
    jumps = ngrams(hypothesis[6 - n : 4 + n], n)
    assert jumps.total() == n - 1 and not jumps & ngrams(reference, n)

# %% [markdown]
# ## BLEU of a test set
#
# A test set has thousands of sentences and gets **one** BLEU, called **corpus BLEU**. First the counts are *summed* over all sentences, then the four precisions and the brevity penalty are computed once. So ten numbers per sentence are enough: two lengths, and matches and totals for each $n$.


# %%
def tokenize(line):
    return re.findall(r"[\w'-]+|[^\w\s]", line)  # words, and punctuation marks


def bleu_counts(hypothesis, reference):
    h, r = tokenize(hypothesis), tokenize(reference)
    matches, totals = zip(
        *(count_matches(h, r, n) for n in (1, 2, 3, 4)), strict=True
    )
    return [len(h), len(r), *matches, *totals]


# %% tags=["remove-cell"]
matching_4grams = {
    label: count_matches(tokenize(text), tokenize(tv_reference), 4)[0]
    for label, text in translations.items()
}
assert matching_4grams["A"] == matching_4grams["C"] == 0 < matching_4grams["B"]


# %%
def bleu_from_counts(counts):  # (..., 10)
    c, r = counts[..., 0], counts[..., 1]
    precisions = counts[..., 2:6] / counts[..., 6:]
    brevity_penalty = np.exp(np.minimum(0, 1 - r / c))
    return 100 * brevity_penalty * np.exp(np.log(precisions).mean(axis=-1))


# %% [markdown]
# Now we need translations to score. Our references are the 1,000 English sentences of the pocket corpus's test set. As "systems", we take the references themselves and plant errors in them, so that we know exactly what is wrong with each system. One system drops words now and then. The other, in a folded cell, swaps neighbouring words.

# %%
from transformer.data.corpora import sentence_pairs

references = [english for english, _ in sentence_pairs("pocket", "test")]


def drop_words(lines, rate, seed):
    rng = random.Random(seed)
    return [
        " ".join(word for word in line.split() if rng.random() >= rate)
        for line in lines
    ]


# %% tags=["hide-input"]
def swap_words(lines, rate, seed):
    rng, swapped = random.Random(seed), []
    for line in lines:
        words = line.split()
        for i in range(len(words) - 1):
            if rng.random() < rate:
                words[i], words[i + 1] = words[i + 1], words[i]
        swapped.append(" ".join(words))
    return swapped


dropped, swapped = (
    drop_words(references, 0.08, seed=0),
    swap_words(references, 0.08, seed=0),
)
print("reference", references[17])
print("dropped  ", dropped[17])
print("swapped  ", swapped[17])

# %% [markdown]
# The package computes BLEU with [sacreBLEU](https://github.com/mjpost/sacrebleu), the field's standard tool. Summing our ten counts gives the same score:


# %%
def counts_table(system):
    pairs = zip(system, references, strict=True)
    return np.array([bleu_counts(h, r) for h, r in pairs])  # (sentences, 10)


for name, system in (("dropped", dropped), ("swapped", swapped)):
    by_hand = bleu_from_counts(counts_table(system).sum(axis=0))
    assert math.isclose(by_hand, bleu(system, references).value)
    print(f"{name}  {by_hand:.2f}")

# %% [markdown]
# Why not simply average the BLEU of the sentences? Take two short translations: one is perfect, the other has one wrong word in the middle. That leaves it without a single matching 4-gram, so its own BLEU, without sacreBLEU's small number, is zero, as if it were empty:

# %%
pairs = [
    ("A clever man reads an old book.", "A clever man reads an old book."),
    ("The dog likes the milk.", "The dog drinks the milk."),
]
counts = np.array([bleu_counts(*pair) for pair in pairs])
with np.errstate(divide="ignore"):
    print("each sentence  {:.1f}  {:.1f}".format(*bleu_from_counts(counts)))
print(f"corpus BLEU     {bleu_from_counts(counts.sum(axis=0)):.1f}")

# %% [markdown]
# For single sentences BLEU is therefore **smoothed**: a small number replaces each zero, and there are several conventions for it. With or without it, corpus BLEU and the mean of sentence BLEUs are different metrics.
#
# ## More than one reference
#
# If a sentence has many good translations, why not collect several references? BLEU was designed for that. An n-gram may be matched as often as it occurs in the reference that has it most often (`|` between two counters takes the larger count), and for $r$ BLEU takes the reference length that is closest to $c$.


# %%
def sentence_bleu(hypothesis, references):
    hypothesis, *references = map(tokenize, [hypothesis, *references])
    product = 1
    for n in (1, 2, 3, 4):
        allowed = Counter()
        for reference in references:
            allowed |= ngrams(reference, n)
        matched = ngrams(hypothesis, n) & allowed
        product *= matched.total() / (len(hypothesis) - n + 1)
    c = len(hypothesis)
    r = min(map(len, references), key=lambda length: (abs(length - c), length))
    return 100 * math.exp(min(0, 1 - r / c)) * product ** (1 / 4)


# %% [markdown]
# Let's add two references for the sentence from the beginning and score its three translations again, with sacreBLEU's own class, `BLEU`. It takes one list of lines for each reference:

# %%
three_references = [
    tv_reference,
    "Because it was late, the girl switched off the TV.",
    "Since it was late, the girl turned the TV off.",
]
for label, text in translations.items():
    score = BLEU().corpus_score([text], [[line] for line in three_references])
    assert math.isclose(score.score, sentence_bleu(text, three_references))
    one = bleu([text], [tv_reference]).value
    print(f"{label}  1 reference {one:4.1f}   3 references {score.score:4.1f}")

# %% [markdown]
# The wrong translation stays where it was, and both correct ones overtake it. But references are expensive, so most test sets, the paper's included, have only one. And because more references can only add matches, **scores with one and with three references can't be compared.**
#
# ## Reading a signature
#
# The formula doesn't say what a *word* is. Is `“house”,` one word, or four, with the two quotation marks and the comma? Are `The` and `the` the same? [Post (2018)](https://aclanthology.org/W18-6319/) measured differences of up to 1.8 BLEU between common conventions, and wrote sacreBLEU to put an end to this. It takes plain text, splits it into words itself, and records what it did in a **signature**:

# %%
print(bleu(dropped, references).signature)

# %% [markdown]
# | field | meaning |
# |---|---|
# | `nrefs` | the number of references for each sentence |
# | `case` | `mixed`: capitals count; `lc`: everything is lower-cased first |
# | `eff` | `yes`: values of $n$ larger than the number of tokens are left out (for single sentences) |
# | `tok` | the tokenizer that splits text into words |
# | `smooth` | what replaces a zero |
# | `version` | of sacreBLEU |
#
# Scores can be compared if the signatures and the test set's version are equal, and the output is plain, detokenized text. A signature doesn't say how the translations were made (beam size, length penalty, averaged checkpoints), so report that as well, as the paper does (§6.1).
#
# The paper's test set, newstest2014, is a well-known trap: sacreBLEU's `wmt14` is the filtered set of the official evaluation. Papers use all 3,003 sentences, which are called `wmt14/full`:
#
# ```bash
# sacrebleu -t wmt14/full -l en-de -i out.de -m bleu chrf
# ```
#
# How much do the conventions in a signature matter? We make our sentences look a bit more like news, with quotation marks and hyphens, and let a system drop words and forget capitals. The figure shows five variants of BLEU, all for *the same translations*:


# %% tags=["remove-cell"]
from sacrebleu.dataset import DATASETS

for name, archive in (("wmt14", "test-filtered"), ("wmt14/full", "test-full")):
    test_set = DATASETS[name]
    assert "en-de" in test_set.langpairs and archive in test_set.data[0]


# %% tags=["hide-cell"]
def newspaper(i, line):
    opening = ("The co-founder said: “", "Mr. Weber said: “", "")[i % 3]
    return f"{opening}{line}”" if opening else line


rng = random.Random(0)
news = [newspaper(i, line) for i, line in enumerate(references)]
news_system = [
    " ".join(w.lower() if rng.random() < 0.04 else w for w in line.split())
    for line in drop_words(news, 0.06, seed=1)
]

# %%
from transformer.evaluation.metrics import score_translations

scores = score_translations(news_system, news, "en")

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(3.8, 2.0)
    variants = [score for score in scores if score.name.startswith("BLEU")][::-1]
    names, values = [s.name for s in variants], [s.value for s in variants]
    axes.plot(values, names, "o", color=style.OUTPUT)
    for name, value in zip(names, values, strict=True):
        axes.annotate(
            f"{value:.1f}",
            (value, name),
            (6, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_xlim(right=max(values) + 0.6)
    axes.set_ylim(-0.6, 4.5)
    axes.set_xlabel("BLEU")
    axes.set_title("One system, one set of translations", loc="left")
    axes.grid(True, axis="x")
Picture(
    figure,
    alt=(
        "Five variants of BLEU for the same translations, as points. Cased "
        "BLEU with 13a is the lowest, lower-cased intl the highest, about two points "
        "above. Cased intl and the paper's BLEU are close together between them."
    ),
    caption=(
        "Five variants of BLEU give the same translations different scores, because "
        "they treat capitals, punctuation and hyphens differently."
    ),
)

# %% tags=["remove-cell"]
value = {score.name: score.value for score in scores}
assert value["BLEU"] < value["BLEU intl"] < value["BLEU lc"] < value["BLEU intl lc"]
assert abs(value["BLEU paper"] - value["BLEU intl"]) < 0.3
assert 1.7 < value["BLEU intl lc"] - value["BLEU"] < 2.3

# %% [markdown]
# The highest is two points above the lowest. Ignoring case (`lc`) forgives the capitals. And the two tokenizers disagree about punctuation: `13a`, the default, only splits off ASCII punctuation marks, while `intl` knows those of all languages and also splits at hyphens.

# %%
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_intl import TokenizerV14International

for tokenizer in (Tokenizer13a(), TokenizerV14International()):
    print(
        f"{tokenizer.signature():5}", tokenizer("The co-founder said: “It works.”")
    )

# %% tags=["remove-cell"]
assert Tokenizer13a()("“It works.”").split()[0] == "“It"

# %% [markdown]
# To `13a`, `“It` is one word, which doesn't match `It`. So even a perfect translation loses a lot if it uses straight quotation marks:

# %%
straight = [line.replace("“", '"').replace("”", '"') for line in news]
for name in ("13a", "intl"):
    print(f"{name:5} {bleu(straight, news, tokenize=name).value:.1f}")

# %% [markdown]
# ### How the paper's BLEU was computed
#
# The paper doesn't say, but [one of its authors](https://github.com/tensorflow/tensor2tensor/issues/61) has explained it since, and there is a script, `get_ende_bleu.sh`. Both texts are tokenized with the tokenizer of Moses, the standard toolkit for statistical machine translation, and then words are **split at hyphens** (often called *compound splitting*). A [user](https://github.com/tensorflow/tensor2tensor/issues/317) later reported a third step, which isn't in the script: in the reference, all quotation marks are **replaced by straight ones**. Here is the second step:

# %%
from transformer.evaluation.metrics import paper_bleu, split_at_hyphens

print(split_at_hyphens("the co-founder smiles".split()))

# %% [markdown]
# One word has become three (the script writes the hyphen as `##AT##-##AT##`), and if it is correct, it now brings three matching words, two bigrams and a trigram. The package's `paper_bleu` takes all three steps, except that it replaces the quotation marks in *both* texts, so that a translation with the reference's original marks isn't penalised. The translation with straight quotation marks is perfect again:

# %%
from transformer.evaluation.metrics import moses_tokenize

words = [[moses_tokenize(line, "en") for line in side] for side in (straight, news)]
score = paper_bleu(*words, "en")
print(f"{score.name} {score.value:.2f}", score.signature, sep="\n")

# %% tags=["remove-cell"]
assert math.isclose(score.value, 100)

# %% [markdown]
# So what would the paper's 27.3 be in sacreBLEU? Its translations aren't public, but two other base models have been scored on the same test set, newstest2014, in both ways (the sources are on the [results](../book/results.md) page):

# %%
published = {  # sacreBLEU with 13a, the paper's way
    "Tensor2Tensor, 3.8 million steps": (27.52, 29.02),
    "a-PyTorch-Tutorial-to-Transformers, 100,000 steps": (25.1, 26.49),
}
gaps = [paper - sacre for sacre, paper in published.values()]
for name, gap in zip(published, gaps, strict=True):
    print(f"{gap:.2f} more in the paper's way: {name}")
print(
    f"27.3 is about {27.3 - max(gaps):.1f} to {27.3 - min(gaps):.1f} in sacreBLEU"
)

# %% tags=["remove-cell"]
import json
from pathlib import Path

assert f"{27.3 - max(gaps):.1f} to {27.3 - min(gaps):.1f}" == "25.8 to 25.9"
below = [round(27.3 - gap - 25.1, 1) for gap in gaps]
assert (min(below), max(below)) == (0.7, 0.8) and round(27.3 - 25.1, 1) == 2.2
stored = Path("../book/results/published.json")
if stored.exists():  # not in Colab
    found = {
        name: {
            row["score"]
            for row in json.loads(stored.read_text("utf-8"))["systems"]
            if row["system"].startswith(name)
        }
        for name in ("Tensor2Tensor", "a-PyTorch-Tutorial")
    }
    for name, pair in zip(found, published.values(), strict=True):
        assert set(pair) <= found[name]

# %% [markdown]
# So if you get 25.1, you are 0.7 to 0.8 below the paper, not 2.2. About half of the difference comes from the hyphens: for the big model of fairseq, Facebook's toolkit, words were split at hyphens, but the reference kept its quotation marks, and it got 29.29, against 28.6 in sacreBLEU.
#
# Use *BLEU paper* to compare with this paper and those of its time, and sacreBLEU's default for everything else.
#
# ## chrF: partial credit for nearly correct words
#
# To BLEU, a word with a wrong ending is simply wrong. This is hard on languages with many word forms, such as German. The reference below means *A clever grandfather forgives some old friends*. The first translation has wrong endings in three words. In the second, he forgives seven yellow cars:

# %%
from transformer.evaluation.metrics import chrf

reference = "Ein kluger Großvater verzeiht einigen alten Freunden."
wrong_endings = "Ein kluger Großvater verzeiht einige alte Freunde."
yellow_cars = "Ein kluger Großvater verzeiht sieben gelbe Autos."
for text in (wrong_endings, yellow_cars):
    b, c = bleu([text], [reference]).value, chrf([text], [reference]).value
    print(f"BLEU {b:.1f}   chrF {c:.1f}   {text}")

# %% tags=["remove-cell"]
assert (
    bleu([wrong_endings], [reference]).value
    == bleu([yellow_cars], [reference]).value
)

# %% [markdown]
# BLEU can't tell them apart. **chrF** ([Popović, 2015](https://aclanthology.org/W15-3049/)) removes the spaces and counts n-grams of *characters*, from 1 to 6. Instead of a brevity penalty it has **recall** $R$, the fraction of the reference's n-grams that are in the hypothesis. Precision $P$ and recall are averaged over $n$ and combined, with recall counting $\beta$ times as much; the paper recommends $\beta = 3$, sacreBLEU uses 2:
#
# $$ \mathrm{chrF}_\beta = 100 \cdot \frac{(1 + \beta^2)\, P R}{\beta^2 P + R} $$
#
# By hand for one word, *Museumsbank* (museum bench), where the reference has *Museumsbänke* (museum benches):

# %%
hypothesis, reference = "Museumsbank", "Museumsbänke"
precisions, recalls = [], []
for n in range(1, 7):
    matched = (ngrams(hypothesis, n) & ngrams(reference, n)).total()
    precisions.append(matched / (len(hypothesis) - n + 1))
    recalls.append(matched / (len(reference) - n + 1))
P, R = np.mean(precisions), np.mean(recalls)
by_hand = 100 * (1 + 2**2) * P * R / (2**2 * P + R)
assert math.isclose(by_hand, chrf([hypothesis], [reference]).value)
print(f"chrF {by_hand:.1f}   (BLEU of a single wrong word: 0)")

# %% [markdown]
# For a test set, the counts of all sentences are summed first, as in BLEU. A variant, **chrF++** ([Popović, 2017](https://aclanthology.org/W17-4770/)), adds words and word pairs to the characters (`--chrf-word-order 2` in sacreBLEU).
#
# chrF needs no tokenizer, so there is less to disagree about. But it ignores spaces: *his every day shoes* and *his everyday shoes* are the same to it.
#
# ## METEOR: match words first, then look at their order
#
# METEOR ([Banerjee and Lavie, 2005](https://aclanthology.org/W05-0909/)) first aligns the two sentences: each word is paired with the same word, or with one that has the same **stem** (*sleeps* and *sleeping* have the stem *sleep*), or with a synonym if there is a dictionary. Then it counts **chunks**, runs of words that are consecutive and in the same order on both sides. The figure shows an alignment with three chunks:

# %% tags=["remove-cell"]
assert math.isclose(
    chrf(["his every day shoes"], ["his everyday shoes"]).value, 100
)
for_each_n = []
for n in range(1, 7):
    sums = np.zeros(3)
    for h, r in zip(dropped, references, strict=True):
        h, r = (ngrams(line.replace(" ", ""), n) for line in (h, r))
        sums += (h & r).total(), h.total(), r.total()
    for_each_n.append((sums[0] / sums[1], sums[0] / sums[2]))
P, R = np.mean(for_each_n, axis=0)
assert math.isclose(100 * 5 * P * R / (4 * P + R), chrf(dropped, references).value)

# %%
hypothesis = "today the small dog sleeps in the house".split()
reference = "the small dogs are sleeping in the house today".split()
partners = [8, 0, 1, 2, 4, 5, 6, 7]  # the position of each word's partner

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(5.2, 1.5)
    axes.set_position((0, 0, 1, 1))
    axes.axis("off")
    axes.set(xlim=(-0.6, 8.6), ylim=(-0.35, 1.35))
    colours = [style.QUERY] + 3 * [style.WRONG] + 4 * [style.VALUE]
    for i, word in enumerate(hypothesis):
        axes.text(i * 8 / 7, 1.1, word, ha="center", fontsize=10)
        line = [i * 8 / 7, partners[i]]
        axes.plot(line, [1.03, 0.17], color=colours[i], linewidth=2.5)
    for i, word in enumerate(reference):
        axes.text(i, -0.1, word, ha="center", fontsize=10)
Picture(
    figure,
    alt=(
        "The hypothesis 'today the small dog sleeps in the house' above the reference "
        "'the small dogs are sleeping in the house today', with lines between matching "
        "words in three colours. One line leads from today, the first word, to today, "
        "the last. Three lines connect the small dog, four sleeps in the house. The "
        "word are has no partner."
    ),
    caption=(
        "METEOR's alignment of a hypothesis (above) with its reference (below). Each "
        "colour is a chunk, a run of words in the same order."
    ),
)

# %% [markdown]
# METEOR combines precision and recall of the words as chrF does, with $\beta = 3$ instead of 2, and lowers the result if there are many chunks. The folded cell has the arithmetic. Compare the result with BLEU:

# %% tags=["hide-cell"]
# All eight words of the hypothesis have a partner; the reference has nine words.
matched = len(partners)
# A new chunk begins where a word's partner isn't right after that of the word before.
chunks = 1 + sum(after != before + 1 for before, after in pairwise(partners))
P, R = matched / len(hypothesis), matched / len(reference)
F = (1 + 3**2) * P * R / (3**2 * P + R)
penalty = 0.5 * (chunks / matched) ** 3
by_hand = 100 * F * (1 - penalty)
print(f"{chunks} chunks   F {F:.3f}   penalty {penalty:.3f}   METEOR {by_hand:.1f}")

# %%
from transformer.evaluation.metrics import meteor

score = meteor([hypothesis], [reference], "en").value
assert math.isclose(by_hand, score)
one_bleu = bleu([" ".join(hypothesis)], [" ".join(reference)]).value
print(f"METEOR {score:.1f}   BLEU {one_bleu:.1f}")

# %% [markdown]
# BLEU is harsh on this translation, and METEOR is closer to what a person would say. But implementations differ in their stemmers and dictionaries, so METEOR needs its signature even more than BLEU. Here, the METEOR of a test set is the mean over its sentences.

# %% tags=["remove-cell"]
words = [[moses_tokenize(line, "en") for line in s] for s in (swapped, references)]
each = [meteor([h], [r], "en").value for h, r in zip(*words, strict=True)]
assert math.isclose(np.mean(each), meteor(*words, "en").value)

# %% [markdown]
# So which of our two systems is better, the one that drops words or the one that swaps them?


# %%
def three_metrics(system, references):
    words = [
        [moses_tokenize(x, "en") for x in side] for side in (system, references)
    ]
    return (
        bleu(system, references).value,
        chrf(system, references).value,
        meteor(*words, "en").value,
    )


# %%
results = {
    "dropped": three_metrics(dropped, references),
    "swapped": three_metrics(swapped, references),
}
for name, values in results.items():
    print("{}   BLEU {:.1f}   chrF {:.1f}   METEOR {:.1f}".format(name, *values))

# %% tags=["remove-cell"]
better = [d > s for d, s in zip(*results.values(), strict=True)]
assert better == [True, False, False]

# %% [markdown]
# BLEU prefers the system that drops words, chrF and METEOR the one that swaps them. None of them is wrong. Here BLEU punishes the swaps more, because each one breaks several n-grams; chrF and METEOR weight recall, so they punish the missing words more. So choose your metric *before* you see the results.
#
# ## Learned metrics: COMET
#
# The metrics so far compare strings (METEOR knows synonyms only if it has a dictionary). To BLEU, *TV* is as different from *television* as *late* from *early*. **COMET** ([Rei et al., 2020](https://aclanthology.org/2020.emnlp-main.213/)) is a neural network that has been trained to score translations as people do:
#
# 1. A multilingual Transformer encoder, XLM-R, turns the *source*, the hypothesis and the reference into one vector each. It was pre-trained on text in a hundred languages ([chapter 15](15_transformer_family.ipynb) explains how), so sentences with similar meanings tend to have similar vectors.
# 2. The vectors, with products and differences between them, go into a feed-forward network, which outputs a single number.
# 3. The network is trained on translations that people have rated, to predict the ratings.
#
# WMT, the field's yearly competition, also compares metrics. Learned ones agree better with expert ratings than BLEU and chrF do; the report of 2022 is titled [*Stop Using BLEU*](https://aclanthology.org/2022.wmt-1.2/).
#
# COMET's weaknesses are those of any neural network: nobody can say exactly why a score is low, and it is less reliable on languages and errors that it wasn't trained on. Because its model is a download of about 2 GB, this book shows no COMET scores. After `pip install unbabel-comet` you can compute your own:
#
# ```bash
# comet-score -s source.en -t translations.de -r references.de --model Unbabel/wmt22-comet-da
# ```
#
# Without references, there is **quality estimation**: a model such as [CometKiwi](https://aclanthology.org/2022.wmt-1.60/) predicts the rating from the source and the translation alone. You can also ask a large language model to rate translations ([Kocmi and Federmann, 2023](https://aclanthology.org/2023.eamt-1.19/)). But such judges are biased towards longer answers, towards those in a certain position, and perhaps towards their own ([Zheng et al., 2023](https://arxiv.org/abs/2306.05685)).
#
# | metric | compares | needs |
# |---|---|---|
# | BLEU | runs of 1 to 4 words | a tokenizer |
# | chrF | runs of 1 to 6 characters | nothing |
# | METEOR | words, stems and synonyms, then their order | a stemmer, a dictionary |
# | COMET | meanings, as a network represents them | a large model, better on a GPU |
#
# **What to report today:** COMET with the name of its model; chrF and BLEU with their signatures, so that your numbers can be compared with older ones; and a significance test. Publish the translations, too.

# %% [markdown]
# ## Better, or just lucky?
#
# Suppose you have trained two new systems, and both score about 0.6 BLEU higher than your old one. Are they really better? Here we know the answer, because we make them ourselves. The old system, `baseline`, drops 8% of the words. `reseeded` follows the same rule with another seed, so it is *not* better. `improved` has the seed of `baseline` but drops only 7.6%, so it *is* better.

# %%
systems = {
    "baseline": drop_words(references, 0.08, seed=1),
    "reseeded": drop_words(references, 0.08, seed=2),
    "improved": drop_words(references, 0.076, seed=1),
}
tables = {name: counts_table(system) for name, system in systems.items()}
whole = {
    name: bleu_from_counts(table.sum(axis=0)) for name, table in tables.items()
}
for name, score in whole.items():
    print(f"{name}  {score:.2f}   {score - whole['baseline']:+.2f}")

# %% tags=["remove-cell"]
assert abs(whole["reseeded"] - whole["improved"]) < 0.12
for name in ("reseeded", "improved"):
    assert 0.5 < whole[name] - whole["baseline"] < 0.8

# %% [markdown]
# With other test sentences the scores would be different. We have no others, but we can simulate them: **draw 1,000 sentences from our 1,000 with replacement**, so that some occur several times and others not at all, and score the systems on this sample. Repeat that a thousand times. This is the **bootstrap**, and it is *paired* when all systems are scored on the same samples ([Koehn, 2004](https://aclanthology.org/W04-3250/)). Thanks to the ten counts per sentence, a sample is just a sum.

# %%
n = len(references)
samples = np.random.default_rng(12345).choice(n, size=(1000, n))
times_drawn = np.stack([np.bincount(sample, minlength=n) for sample in samples])
bleus = {name: bleu_from_counts(times_drawn @ t) for name, t in tables.items()}
old = bleus["baseline"]
gains = {name: bleus[name] - old for name in ("reseeded", "improved")}
print(f"baseline  BLEU {old.mean():.2f} ± {old.std():.2f}")
for name, gain in gains.items():
    wins = f"wins in {np.mean(gain > 0):4.0%} of the samples"
    print(f"{name}  gain {gain.mean():.2f} ± {gain.std():.2f}, {wins}")

# %% [markdown]
# The first figure shows the BLEU of the three systems over the samples, the second the gains over `baseline` on the same samples:

# %% tags=["hide-input"]
with style.in_style():
    left, above = style.new_figure(3.5, 2.4)
    right, below = style.new_figure(3.5, 2.4)
    looks = {
        "baseline": (style.PLAIN, "-"),
        "reseeded": (style.WRONG, "--"),
        "improved": (style.VALUE, "-"),
    }
    bins = {above: np.linspace(80, 86, 45), below: np.linspace(-2.5, 3.5, 61)}
    for axes, lines in ((above, bleus), (below, gains)):
        for name, values in lines.items():
            colour, dashes = looks[name]
            axes.hist(
                values, bins[axes], histtype="step",
                color=colour, linestyle=dashes, linewidth=1.6, label=name,
            )  # fmt: skip
        axes.set_ylabel("samples")
        axes.legend(fontsize=9, loc="upper left", borderaxespad=0)
        axes.set_ylim(top=1.3 * axes.get_ylim()[1])
    below.axvline(0, color=style.INK, linewidth=1, linestyle=":")
    above.set_title("BLEU over 1,000 samples", loc="left")
    below.set_title("Gain over baseline, same samples", loc="left")
Row(
    Picture(
        left,
        alt=(
            "Three histograms of BLEU over a thousand samples, one for each system. "
            "They are equally wide and overlap almost entirely; reseeded and "
            "improved are a little to the right of baseline."
        ),
    ),
    Picture(
        right,
        alt=(
            "Two histograms of the gain over baseline on the same samples. That of "
            "reseeded is wide and straddles zero; that of improved is a narrow peak "
            "at about 0.6, wholly to the right of zero."
        ),
    ),
    caption=(
        "BLEU and gain in BLEU over bootstrap samples. The scores overlap, but the "
        "gain of 'improved' is clearly positive, that of 'reseeded' straddles zero."
    ),
)

# %% [markdown]
# In the first figure you can't tell `reseeded` from `improved`. In the second, one look is enough: `improved` is better in every sample. It fails on the same sentences as `baseline`, so a difficult sample lowers both scores, and the effect cancels in the difference. `reseeded` makes its errors elsewhere, so nothing cancels.

# %% tags=["remove-cell"]
assert gains["improved"].min() > 0 > gains["reseeded"].min()
assert gains["improved"].std() < old.std() / 4 < gains["reseeded"].std() / 4

# %% [markdown]
# The usual summary is the **p-value**: if the two systems were equally good, how often would chance alone produce a gain at least as large as ours? Shift the bootstrap gains so that their mean is zero, and count how many still exceed the observed gain (a one-sided test). sacreBLEU's `--paired-bs` computes it slightly differently and gives smaller values if some gains are negative, so say which tool you used. If p is close to 0.05, also run `--paired-ar` (approximate randomization).
#
# <details><summary>What sacreBLEU does differently, and why we add 1</summary>
#
# sacreBLEU takes the absolute values of the gains first, and only then subtracts the mean of those. If some gains are negative, as for `reseeded`, their absolute values lie closer together than the gains themselves. So fewer of them exceed the observed gain, and p is smaller. The + 1 in the code below counts the observed gain itself.
#
# </details>

# %%
from transformer.evaluation.metrics import paired_bootstrap


def p_value(gains, observed):
    by_chance = gains - gains.mean()
    return (np.sum(by_chance > observed) + 1) / (len(gains) + 1)


for name, gain in gains.items():
    observed = abs(whole[name] - whole["baseline"])
    p, theirs = p_value(gain, observed), p_value(abs(gain), observed)
    result = paired_bootstrap(systems["baseline"], systems[name], references)[0]
    assert math.isclose(theirs, result.p_value)
    difference = result.second - result.first
    print(f"{name}  {difference:+.2f}   p = {p:.3f}   (sacreBLEU: {theirs:.3f})")

# %% [markdown]
# Nearly the same gain, but opposite verdicts. By convention, a difference is called **significant** if p is below 0.05. Keep three limits in mind:
#
# - **It is about sentences, not seeds.** The test asks whether the gain would survive on other sentences of this kind. It compares two trained systems, not two *recipes*: another seed gives another system. To show that a recipe is better, train each with several seeds and compare the means.
# - **A small p is not a large gain.** `improved` is certainly better, but hardly any reader would notice.
# - **A small test set can't detect small differences.** Here is another system, clearly better than `baseline` on the whole test set. We cut the set into parts and compute the gain on each part:


# %% tags=["hide-input"]
def gains_of_parts(better, size):
    gains = []
    for start in range(0, n, size):
        part = slice(start, start + size)
        old, new = (
            bleu_from_counts(table[part].sum(axis=0))
            for table in (tables["baseline"], better)
        )
        gains.append(new - old)
    return np.array(gains)


better = counts_table(drop_words(references, 0.07, seed=2))
for size in (50, 200, 500):
    g = gains_of_parts(better, size)
    negative = f"{np.sum(g < 0)} of {len(g)} negative"
    print(
        f"{size:3} sentences: gains from {g.min():4.1f} to {g.max():3.1f}, {negative}"
    )

# %% tags=["remove-cell"]
few, many = gains_of_parts(better, 50), gains_of_parts(better, 500)
assert few.min() < 0 < many.min() and few.max() > 2 * many.max()
gain, observed = gains["reseeded"], whole["reseeded"] - whole["baseline"]
assert 0.05 < p_value(abs(gain), observed) < p_value(gain, observed)
gain, observed = gains["improved"], whole["improved"] - whole["baseline"]
assert p_value(abs(gain), observed) == p_value(gain, observed) < 0.05

# %% [markdown]
# On fifty sentences the better system may lose, or seem to gain far more than it really does. The noise shrinks with the square root of the number of sentences: to halve it, you need four times as many.
#
# ## What string metrics can't see
#
# Back to the beginning. The folded cell has three references, each with a *harmless* translation, in which nothing is lost, and a *harmful* one: *not* is missing, a name is wrong, or man and dog have changed places. Compare their scores:

# %% tags=["hide-cell"]
cases = [  # reference, harmless translation, harmful translation
    (
        "I'm not coming back because Anna lives there.",
        "Anna lives there, so I won't return.",
        "I'm coming back because Anna lives there.",
    ),
    (
        "Yesterday the doctor opened the door for Anna.",
        "The door was opened for Anna by the doctor yesterday.",
        "Yesterday the doctor opened the door for Peter.",
    ),
    (
        "On Monday the dog bit the old man.",
        "The old man was bitten by the dog on Monday.",
        "On Monday the old man bit the dog.",
    ),
]

# %%
for reference, harmless, harmful in cases:
    print(reference)
    for kind, text in (("harmless", harmless), ("harmful ", harmful)):
        scores = three_metrics([text], [reference])
        print(f"  {kind}  {text}")
        print("    BLEU {:.0f}  chrF {:.0f}  METEOR {:.0f}".format(*scores))

# %% tags=["remove-cell"]
for reference, harmless, harmful in cases:
    good, bad = (three_metrics([text], [reference]) for text in (harmless, harmful))
    assert all(np.greater(bad, good))

# %% [markdown]
# Nine comparisons, and all nine come out wrong. To these metrics a word is a word, no matter how much the meaning depends on it.
#
# Does it even out over a whole test set? Random errors do; systematic ones don't. Take a system that translates everything perfectly, except that it drops every *not*, including the one in *cannot*, and turns *no* into *a* and *never* into *always*. And take one whose only error is that it forgets the full stop or question mark at the end.


# %%
def drop_negation(line):
    line = line.replace("cannot ", "can ").replace(" not ", " ")
    line = line.replace(" never ", " always ")
    return re.sub(r"\b([Nn])o ", lambda no: "A " if no[1] == "N" else "a ", line)


no_negation = [drop_negation(line) for line in references]
no_end_mark = [line.rstrip(".?") for line in references]
changed = sum(a != b for a, b in zip(no_negation, references, strict=True))
print(f"{changed} of {n:,} sentences now mean something else")
print(f"no negation   BLEU {bleu(no_negation, references).value:.1f}")
print(f"no end mark   BLEU {bleu(no_end_mark, references).value:.1f}")

# %% tags=["remove-cell"]
liar, sloppy = (bleu(s, references).value for s in (no_negation, no_end_mark))
assert liar > sloppy + 5

# %% [markdown]
# So read a few dozen translations every time, starting with negations, numbers and names. And where it matters, have people judge them: by **direct assessment**, where they rate each translation from 0 to 100, or by **MQM** ([Freitag et al., 2021](https://aclanthology.org/2021.tacl-1.87/)), where experts mark every error with its type and severity. Metrics are themselves judged by how well they correlate with such judgements.
#
# ## What goes wrong in practice
#
# **Only one side is preprocessed.** We score our news-like system's output as it is, lower-cased, and tokenized by Moses. The references stay unprocessed, except in the last row, where they are tokenized, too:

# %%
logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # it warns, see below
lowered = [line.lower() for line in news_system]
tokenized, tokenized_news = (
    [" ".join(moses_tokenize(line, "en")) for line in side]
    for side in (news_system, news)
)
print(f"as it should be     {bleu(news_system, news).value:.1f}")
print(f"lower-cased output  {bleu(lowered, news).value:.1f}")
print(f"tokenized output    {bleu(tokenized, news).value:.1f}")
print(f"both tokenized      {bleu(tokenized, tokenized_news).value:.1f}")

# %% tags=["remove-cell"]
assert bleu(lowered, news).value < value["BLEU"] - 15
assert bleu(tokenized, news).value < value["BLEU"] - 5
assert bleu(tokenized, tokenized_news).value > value["BLEU"]

# %% [markdown]
# The tokenized output loses because its quotation marks are words of their own. If both sides are tokenized, the score *rises*, and that is more dangerous, because nobody investigates a good result. sacreBLEU warns when a text looks tokenized. (We have silenced it here. Don't.)
#
# **Scoring subwords.** A 4-gram of pieces spans fewer words than a 4-gram of words, and a half-correct word still earns matches. So if you forget to join subwords, the score rises. Here all words are cut into pieces of four letters:

# %%
pieces = [
    [re.sub(r"(\w{4})(?=\w)", r"\1 ", line) for line in side]
    for side in (news_system, news)
]
print(
    f"words {bleu(news_system, news).value:.1f}   pieces {bleu(*pieces).value:.1f}"
)

# %% tags=["remove-cell"]
assert bleu(*pieces).value > value["BLEU"] + 2

# %% [markdown]
# **One line off.** Python's `splitlines` also splits at U+2028, an invisible character that real corpora contain. With one of them in the fourth reference, every later translation is compared with its neighbour's reference:

# %%
text = "\n".join([*references[:3], references[3] + "\u2028", *references[4:]])
lines, unharmed = text.splitlines(), text.split("\n")
print(f"{len(lines):,} lines by splitlines, {len(unharmed):,} by split")
shifted = bleu(dropped, lines[:n]).value
print(f"BLEU {shifted:.1f} instead of {bleu(dropped, references).value:.1f}")

# %% tags=["remove-cell"]
assert shifted < 3

# %% [markdown]
# A BLEU close to zero is rarely due to a bad model. Compare the first lines of both files, and then the last. And use `zip(…, strict=True)`, so that the longer list isn't cut off silently.
#
# **Averaging sentence BLEUs.** One system drops 12% of the words in short sentences, the other 6% of the words in long ones, and elsewhere both are perfect. Which is better?

# %% tags=["hide-input"]
lengths = [len(line.split()) for line in references]
errors_1, errors_2 = (
    drop_words(references, rate, seed) for rate, seed in ((0.12, 1), (0.06, 2))
)
short_errors = [
    h if length <= 7 else r
    for h, r, length in zip(errors_1, references, lengths, strict=True)
]
long_errors = [
    h if length >= 9 else r
    for h, r, length in zip(errors_2, references, lengths, strict=True)
]
single = BLEU(effective_order=True)  # sacreBLEU's settings for single sentences
averages, corpus = [], []
for system in (short_errors, long_errors):
    pairs = zip(system, references, strict=True)
    averages.append(
        np.mean([single.sentence_score(h, [r]).score for h, r in pairs])
    )
    corpus.append(bleu(system, references).value)
print("errors in sentences that are   short   long")
print("mean of sentence BLEUs         {:5.1f}  {:5.1f}".format(*averages))
print("corpus BLEU                    {:5.1f}  {:5.1f}".format(*corpus))

# %% tags=["remove-cell"]
assert averages[0] < averages[1] and corpus[0] > corpus[1]
left = [len(" ".join(s).split()) for s in (short_errors, long_errors)]
assert [sum(lengths) - words for words in left] == [269, 371]

# %% [markdown]
# The mean prefers the second system, because a missing word hurts a short sentence most. Corpus BLEU counts words, and the second system misses more of them: 371 against 269. Papers report corpus BLEU.
#
# **Choosing on the test set.** Imagine thirty checkpoints that are *equally good*. Ours are simulated: the same rule with thirty seeds. We choose the one with the highest BLEU on one half of the test set, and look at its BLEU on the other half. We do this four times; the figure shows all 4 · 30 checkpoints, and marks the chosen ones:


# %%
def bleu_of_halves(seed):
    table = counts_table(drop_words(references, 0.08, seed))
    halves = table[: n // 2], table[n // 2 :]
    return [bleu_from_counts(half.sum(axis=0)) for half in halves]


rounds = np.array(
    [[bleu_of_halves(100 * k + i) for i in range(30)] for k in (1, 2, 3, 4)]
)  # (rounds, checkpoints, halves)
chosen = rounds[range(4), rounds[:, :, 0].argmax(axis=1)]  # (rounds, halves)
for promised, kept in chosen - rounds.mean(axis=1):
    print(f"chosen with {promised:+.1f} over the mean; other half: {kept:+.1f}")

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(3.6, 3.0)
    chosen_on, unseen = rounds.reshape(-1, 2).T
    axes.plot(chosen_on, unseen, "o", color=style.PLAIN, markersize=4)
    axes.plot(*chosen.T, "o", color=style.WRONG, markersize=8, label="chosen")
    axes.axhline(
        unseen.mean(), color=style.INK, linewidth=1, linestyle=":", label="mean"
    )
    axes.set_xlabel("BLEU on the half used for choosing")
    axes.set_title("BLEU on the other half", loc="left")
    axes.set_ylim(top=unseen.max() + 1.5)
    axes.legend(fontsize=9, loc="upper left", ncols=2)
    axes.grid(True)
Picture(
    figure,
    alt=(
        "A hundred and twenty equally good checkpoints as points: BLEU on the half "
        "used for choosing on the horizontal axis, on the other half on the vertical. "
        "There is no trend. The four chosen ones are far to the right, and vertically "
        "on either side of the mean."
    ),
    caption=(
        "Equally good checkpoints on two halves of a test set. The best on one half "
        "(orange) are, on average, no better on the other."
    ),
)

# %% tags=["remove-cell"]
above = chosen - rounds.mean(axis=1)
assert above[:, 0].min() > 1.5 and abs(above[:, 1].mean()) < 0.1
assert above[:, 1].min() < 0 < above[:, 1].max()

# %% [markdown]
# The chosen ones were lucky, and luck doesn't carry over: on the other half, they are on average no better than the rest. So choose checkpoints, beam size and length penalty on the **validation** set (the paper does so for the last two, §6.1), and touch the test set only once.
#
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. The reference is `it was sour`, the hypothesis `sour sour sour`. What is its unigram precision $p_1$?**
#
# <details><summary>A. 3/3</summary>
#
# No. That is without clipping: each *sour* is in the reference, but only one of them can be matched.
#
# </details>
# <details><summary>B. 1/3</summary>
#
# **Right.** The count is clipped to how often the reference has the word, and divided by the number of words in the hypothesis.
#
# </details>
# <details><summary>C. 1/1</summary>
#
# No. Clipping only affects the numerator. The extra words stay in the denominator, and that's how they are penalised.
#
# </details>
# <details><summary>D. 0, because no bigram matches</summary>
#
# No. Each $p_n$ is computed separately. It's the geometric mean that makes the *score* zero later.
#
# </details>
#
# **2. A paper reports BLEU 28.1 without a signature, and your model has 27.4 with `tok:13a`. What do you know?**
#
# <details><summary>A. Your model is worse by 0.7</summary>
#
# No. In this chapter, the tokenizer and the treatment of capitals alone changed the score of the same translations by two points.
#
# </details>
# <details><summary>B. The two are equal, because 0.7 is within the noise</summary>
#
# No. To find out whether it's noise, you would need a test on both systems' translations, and you have only one of them.
#
# </details>
# <details><summary>C. The 13a tokenizer is too strict, so you should report lower-cased BLEU</summary>
#
# No. Choosing a metric because it gives higher numbers is how the field got into this trouble.
#
# </details>
# <details><summary>D. Nothing, until you score their translations or compute BLEU their way</summary>
#
# **Right.** Their translations are best: then you can choose the metric, and also bootstrap the difference.
#
# </details>
#
# **3. Two systems differ by 0.5 BLEU with p = 0.01. What may you conclude?**
#
# <details><summary>A. The difference is unlikely to be due to the choice of test sentences</summary>
#
# **Right.** That is all: for sentences like those of this test set, and for this metric.
#
# </details>
# <details><summary>B. People will prefer the second system</summary>
#
# No. BLEU measures similarity to the references. A significant difference in similarity is still only a difference in similarity.
#
# </details>
# <details><summary>C. The second system's training recipe is better</summary>
#
# No. You have tested one seed of each. Another seed may reverse the result, and p knows nothing about seeds.
#
# </details>
# <details><summary>D. The true gain is 0.5 with a probability of 99%</summary>
#
# No. p is how often chance would produce such a difference between *equal* systems. It isn't the probability of any particular gain.
#
# </details>
#
# **4. Can BLEU rise when a translation gets worse?**
#
# <details><summary>Answer</summary>
#
# Yes. Replace a correct translation in different words by the reference without its *not*. Or, less obviously, take a system whose translations are too short and append anything to them: as long as the brevity penalty improves faster than the precisions fall, BLEU rises.
#
# </details>
#
# **5. Why are the precisions of a test set hardly ever zero, while those of a sentence often are?**
#
# <details><summary>Answer</summary>
#
# Because the counts are summed first. Among thousands of sentences, some have matching 4-grams, so the sum isn't zero. A single sentence may well have none, and then something has to be done about the zero: smoothing.
#
# </details>
#
# ## Exercises
#
# Six blanks: n-grams, clipped matches, the brevity penalty, BLEU of a test set, chrF, and the bootstrap. Each has a check that tells you what is wrong, and a hint.
#
# - In your browser, with nothing to install: [Exercises: evaluation](../book/exercises/13_evaluation.md).
# - In Colab:
#   [13_evaluation](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/13_evaluation.ipynb).
#   On GitHub: [13_evaluation.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/13_evaluation.ipynb).
# - On your machine, open `exercises/13_evaluation.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade evaluation
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Two experiments to try</summary>
#
# 1. Write corpus BLEU for several references, and compare it with `BLEU().corpus_score(hypotheses, [references_1, references_2])`.
# 2. Score and compare two models that you have trained:
#
# ```bash
# transformer evaluate runs/pocket                     # five BLEUs, chrF and METEOR, with signatures
# transformer evaluate runs/pocket runs/post           # and is the second one better?
# transformer evaluate runs/pocket --beam-size 1       # what does beam search gain?
# ```
#
# </details>
#
# ## Going further
#
# - **BLEU:** [Papineni et al. (2002)](https://aclanthology.org/P02-1040/) is short and readable.
# - **How well metrics agree with people:** [Mathur et al. (2020)](https://aclanthology.org/2020.acl-main.448/) show how single outliers make metrics look better than they are.
# - **Next:** [Attention heads](14_attention_heads.ipynb): what do the heads of a trained model do?
