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
# A person has translated the German sentence *Das Mädchen machte den Fernseher aus, weil es spät war* into English. Such a translation is called the **reference**. The figure shows it above three translations that a machine might produce. Exactly one of the three is wrong. The green blocks over a word show how well its surroundings match the reference. Look at *late* in A: the three words *it was late* are also in the reference, so *late* has three green blocks. A word with all four belongs to four words in a row that the reference has, too. **Which of the three gets the highest BLEU, the score that the paper reports?**

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
    print(f"With all figures: {book}/chapters/13_evaluation.html")

# %% tags=["hide-input"]
from itertools import pairwise

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
        "was late.' Over each word is a stack of four blocks. A: 'Because it was late, the "
        "girl switched the TV off.' and C: 'As it was late, the girl turned the TV off.' "
        "have at most three green ones. B: 'The girl turned off the TV because it was not "
        "late.' has four over all words except not and late."
    ),
    caption=(
        "What BLEU sees of three translations: the more green blocks over a word, the "
        "longer the run around it that also occurs in the reference. Punctuation marks "
        "count as words but have no blocks (late in B matches with its full stop), and "
        "Because doesn't match because."
    ),
)

# %% [markdown]
# `translations` and `tv_reference` hold the sentences of the figure, and `bleu` is a function of the package:

# %%
for label, text in translations.items():
    print(f"{label}  BLEU {bleu([text], [tv_reference]).value:4.1f}")

# %% tags=["remove-cell"]
tv_scores = {
    k: bleu([text], [tv_reference]).value for k, text in translations.items()
}
assert tv_scores["B"] > 2 * max(tv_scores["A"], tv_scores["C"])
assert max(tv_scores["A"], tv_scores["C"]) < 20
for run, text in (("it was late", "A"), ("late.", "B")):
    assert run in translations[text] and run in tv_reference
assert "because it was late" not in translations["A"]

# %% [markdown]
# The wrong one wins, by far. B says the opposite of the original, but its wording is closest to the reference, which is only one of many correct translations. BLEU measures **similarity to a reference**, not correctness.
#
# Still, nearly every result in this field is such a number, including the paper's 27.3 and 28.4 (Table 2). Over thousands of sentences, two versions of one system are lucky with the reference's wording about equally often. So BLEU is useful for comparing *closely related* systems. For unrelated ones it's a poor guide, as you'll see in *Better, or just lucky?*
#
# By the end you will be able to compute BLEU and chrF by hand, score a trained model, read the signature of a score, test whether a gain is significant, and name the errors that these scores can't see. **About 45 minutes.** The chapter assumes a little Python and a few terms from earlier chapters, such as *subword*, *checkpoint* and *beam size*.

# %% tags=["hide-input", "imports"]
import logging
import math
import random
import re
from collections import Counter

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from transformer.evaluation.metrics import bleu, moses_tokenize

# %% [markdown]
# ## BLEU by hand
#
# A machine's translation is also called the **hypothesis**. Here is one that repeats itself and leaves something out:

# %%
reference = "the dog left the milk because it was sour".split()
hypothesis = "the dog left the milk the milk sour".split()

# %% [markdown]
# **Step 1: how many words are correct?** Let's call a word correct if the reference contains it:

# %%
correct = [word for word in hypothesis if word in reference]
print(f"{len(correct)} of {len(hypothesis)}")

# %% [markdown]
# All of them, which can't be right: the hypothesis has *the* three times and *milk* twice, but the reference only twice and once. So the count of each word is **clipped** to its count in the reference. In Python, `&` between two counters does that:

# %%
matched = Counter(hypothesis) & Counter(reference)
print(f"{matched.total()} of {len(hypothesis)}")

# %% [markdown]
# **Step 2: are the words in the right order?** BLEU also counts pairs of neighbouring words, and runs of three and four words. Together with the single words, they are called **n-grams**: unigrams, bigrams, trigrams and 4-grams. All counts are clipped in the same way. The fraction of the hypothesis's n-grams that match is the **precision** $p_n$.


# %%
def ngrams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def count_matches(hypothesis, reference, n):
    matched = ngrams(hypothesis, n) & ngrams(reference, n)
    return matched.total(), max(len(hypothesis) - n + 1, 0)


for n in (1, 2, 3, 4):
    print("n = {}: {} of {}".format(n, *count_matches(hypothesis, reference, n)))

# %% [markdown]
# In the figure, each bar is an n-gram of the hypothesis. Filled bars are matched, **×** means that the reference doesn't have this n-gram, and **!** that it was clipped. The jump from *milk* back to *the* alone breaks one bigram, two trigrams and three 4-grams.

# %% tags=["hide-input"]
from transformer.plots.ngram_matches import bleu_explorer, ngram_matches

Picture(
    ngram_matches(hypothesis, reference),
    alt=(
        "Below the eight words of the hypothesis are its n-grams as bars, in four "
        "groups. 6 of 8 words are filled, 4 of 7 pairs, 3 of 6 triples and 2 of 5 "
        "4-grams. The third the, the second milk and the second pair the milk are "
        "marked as clipped; longer n-grams after the repetition don't match."
    ),
    caption=(
        "The n-grams of a hypothesis. Filled bars are matched with the reference; the "
        "longer the n-grams, the fewer match."
    ),
)

# %% [markdown]
# **Step 3: combine the four precisions.** BLEU takes their **geometric mean**: it multiplies them and takes the fourth root. Why not the ordinary mean? There the smallest precision counts least, usually $p_4$, the one that depends most on word order. In the geometric mean, all count equally: halving any of the four lowers it by 16%. The drawback is that a single zero makes the whole score zero. In practice, zeros are therefore replaced with small numbers. That is why A and C, which share no 4-gram with the reference, still got a score.

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
# A translation that is 10% too short loses about a tenth of its score, and one of half the length nearly two thirds. Being too long needs no penalty, because extra words already lower the precisions. And that, apart from replaced zeros, is all of BLEU ([Papineni et al., 2002](https://aclanthology.org/P02-1040/)):
#
# $$ \mathrm{BLEU} = 100 \cdot \mathrm{BP} \cdot (p_1\, p_2\, p_3\, p_4)^{1/4} $$
#
# The package computes the same number. It comes with a *signature*, which we explain below:

# %% tags=["wrap-output"]
brevity_penalty = math.exp(1 - len(reference) / len(hypothesis))
by_hand = 100 * brevity_penalty * geometric_mean
score = bleu([" ".join(hypothesis)], [" ".join(reference)])
assert math.isclose(score.value, by_hand)
print(score)

# %% [markdown]
# **Now build a hypothesis yourself.** Choose each of its three parts from a menu:
#
# - Repair the repetition with the second menu. The precisions rise, but BLEU hardly does, because the hypothesis has become shorter.
# - Leave the end out, too. Now all four precisions are perfect, but BLEU falls.
# - Choose the scrambled end. Every word is correct, yet BLEU isn't 100.

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

# %% tags=["remove-cell"]
for n, percent in (
    (1, 17),
    (4, 9),
):  # what halving a precision costs in the two means
    assert round(100 * precisions[n - 1] / 2 / sum(precisions)) == percent
assert round(100 * (1 - 0.5 ** (1 / 4))) == 16
assert 0.88 < math.exp(1 - 1 / 0.9) < 0.91 and 0.34 < math.exp(1 - 1 / 0.5) < 0.4
short = "the dog left the".split()
assert all(len(set(count_matches(short, reference, n))) == 1 for n in (1, 2, 3, 4))
for n in (2, 3, 4):  # the n-grams across the jump from the fifth word to the sixth
    jumps = ngrams(hypothesis[6 - n : 4 + n], n)
    assert jumps.total() == n - 1 and not jumps & ngrams(reference, n)
tries = (
    "the dog left the milk sour",
    "the dog left the milk",
    "the dog left the milk because sour was it",
)
repaired, no_end, scrambled = (
    bleu([text], [" ".join(reference)]).value for text in tries
)
assert by_hand < repaired < by_hand + 1 and no_end < repaired and scrambled < 100
assert all(
    len(set(count_matches(tries[1].split(), reference, n))) == 1
    for n in (1, 2, 3, 4)
)
assert Counter(tries[2].split()) == Counter(reference)

# %% [markdown]
# ## BLEU of a test set
#
# A test set has thousands of sentences and gets **one** BLEU, called **corpus BLEU**. First the counts are *summed* over all sentences, then the four precisions and the brevity penalty are computed once. So ten numbers per sentence are enough: two lengths, and matches and totals for each $n$. We keep them, because later we'll need the BLEU of a thousand random samples of a test set, and each will be just a sum.


# %%
def tokenize(line):
    # words, and punctuation marks: enough for these sentences, not for all English
    return re.findall(r"[\w'-]+|[^\w\s]", line)


def bleu_counts(hypothesis, reference):
    h, r = tokenize(hypothesis), tokenize(reference)
    matches, totals = zip(
        *(count_matches(h, r, n) for n in (1, 2, 3, 4)), strict=True
    )
    # 0: c, 1: r, 2 to 5: matches for n = 1 to 4, 6 to 9: totals
    return [len(h), len(r), *matches, *totals]


# %% tags=["remove-cell"]
matching_4grams = {
    label: count_matches(tokenize(text), tokenize(tv_reference), 4)[0]
    for label, text in translations.items()
}
assert matching_4grams["A"] == matching_4grams["C"] == 0 < matching_4grams["B"]
words, right = tokenize(translations["A"]), tokenize(tv_reference)
smoothed = [a / b for a, b in (count_matches(words, right, n) for n in (1, 2, 3))]
smoothed.append(0.5 / (len(words) - 3))  # the first zero becomes a half
assert len(words) > len(right) and math.isclose(
    100 * math.prod(smoothed) ** 0.25, tv_scores["A"]
)


# %%
def bleu_from_counts(counts):  # (..., 10), summed; zeros aren't replaced
    c, r = counts[..., 0], counts[..., 1]
    precisions = counts[..., 2:6] / counts[..., 6:]
    brevity_penalty = np.exp(np.minimum(0, 1 - r / c))
    return 100 * brevity_penalty * np.exp(np.log(precisions).mean(axis=-1))


# %% [markdown]
# Our references are the 1,000 English sentences of the pocket corpus's test set. Our "systems" are the references with planted errors, so that we know exactly what is wrong with each. One drops words now and then, and the other swaps neighbouring words.

# %%
from transformer.data.corpora import sentence_pairs

references = [english for english, _ in sentence_pairs("pocket", "test")]


def drop_words(lines, rate, seed):
    rng = random.Random(seed)
    return [
        " ".join(word for word in line.split() if rng.random() >= rate)
        for line in lines
    ]


# %%
def swap_words(lines, rate, seed):
    rng, swapped = random.Random(seed), []
    for line in lines:
        words = line.split()
        for i in range(len(words) - 1):
            if rng.random() < rate:
                words[i], words[i + 1] = words[i + 1], words[i]
        swapped.append(" ".join(words))
    return swapped


dropped = drop_words(references, 0.08, seed=0)
swapped = swap_words(references, 0.08, seed=0)
print("reference:", references[17])
print("dropped:", dropped[17])
print("swapped:", swapped[17])

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
# Why not simply average the BLEU of the sentences? Take two short translations, one perfect and one with a wrong word in the middle. That word leaves the second without a matching 4-gram, so its own BLEU (if zeros aren't replaced) is zero, like that of an empty translation:

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
# For single sentences BLEU is therefore **smoothed**. sacreBLEU's default, `exp`, counts the first zero among $p_1$ to $p_4$ as half a match, the next as a quarter, and so on. Even then, the mean of sentence BLEUs isn't corpus BLEU: it weights short and long sentences equally, and may therefore rank two systems differently. Papers report corpus BLEU.

# %% tags=["remove-cell"]
assert min(bleu(system, references).value for system in (dropped, swapped)) > 80
lengths = [len(line.split()) for line in references]
errors_1, errors_2 = (
    drop_words(references, rate, seed) for rate, seed in ((0.12, 1), (0.06, 2))
)
short_errors = [  # 12% of the words of short sentences are missing
    h if length <= 7 else r
    for h, r, length in zip(errors_1, references, lengths, strict=True)
]
long_errors = [  # 6% of the words of long ones
    h if length >= 9 else r
    for h, r, length in zip(errors_2, references, lengths, strict=True)
]
single = BLEU(effective_order=True)  # sacreBLEU's settings for single sentences
averages, corpus = [], []
for system in (short_errors, long_errors):
    both = zip(system, references, strict=True)
    averages.append(np.mean([single.sentence_score(h, [r]).score for h, r in both]))
    corpus.append(bleu(system, references).value)
assert averages[0] < averages[1] and corpus[0] > corpus[1]

# %% [markdown]
# ## More than one reference
#
# BLEU was designed for several references. An n-gram may be matched as often as it occurs in the reference that has it most often, and $r$ is the reference length closest to $c$. Let's add two references for the opening sentence. sacreBLEU's own class, `BLEU`, takes one list of lines for each reference:

# %%
three_references = [
    tv_reference,
    "Because it was late, the girl switched off the TV.",
    "Since it was late, the girl turned the TV off.",
]
for label, text in translations.items():
    score = BLEU().corpus_score([text], [[line] for line in three_references])
    one = bleu([text], [tv_reference]).value
    print(f"{label}  1 reference {one:4.1f}   3 references {score.score:4.1f}")


# %% tags=["remove-cell"]
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


three_scores = {}
for label, text in translations.items():
    score = BLEU().corpus_score([text], [[line] for line in three_references])
    three_scores[label] = score.score
    assert math.isclose(score.score, sentence_bleu(text, three_references))
assert min(three_scores, key=three_scores.get) == "B"

# %% [markdown]
# Both correct translations overtake the wrong one. But references are expensive, so most test sets, the paper's included, have only one. And since each reference can add matches, **scores with one and with three references can't be compared.**
#
# ## Reading a signature
#
# What is a *word*? Is the text `“house”,` one, or four? Are `The` and `the` the same? [Post (2018)](https://aclanthology.org/W18-6319/) measured differences of up to 1.8 BLEU between common conventions, and wrote sacreBLEU to end this. It takes plain text, splits it into words itself, and records what it did in a **signature**:

# %%
print(bleu(dropped, references).signature)

# %% [markdown]
# | field | meaning |
# |---|---|
# | `nrefs` | the number of references for each sentence |
# | `case` | `mixed`: capitals count; `lc`: everything is lower-cased first |
# | `eff` | `yes`: n-grams that a short sentence can't have don't count |
# | `tok` | the tokenizer that splits text into words |
# | `smooth` | how zero matches are smoothed |
# | `version` | the version of sacreBLEU |
#
# Scores can be compared if their signatures are equal apart from the version, the test set is the same, and the output is plain, **detokenized** text: ordinary writing, in which punctuation marks aren't split from the words. A signature doesn't contain the beam size or the length penalty, so report these as well, as the paper does (§6.1).
#
# <details><summary>A trap: the paper's test set, newstest2014, has two versions</summary>
#
# sacreBLEU's `wmt14` is the filtered set of the official evaluation, with 2,737 sentences. Papers use all 3,003, which are called `wmt14/full`:
#
# ```bash
# sacrebleu -t wmt14/full -l en-de -i out.de -m bleu chrf
# ```
#
# </details>
#
# How much do the conventions matter? We give our references quotation marks and hyphens, as in news. The system drops words and forgets capitals:


# %%
def newspaper(i, line):
    opening = ("The co-founder said: “", "Mr. Weber said: “", "")[i % 3]
    return f"{opening}{line}”" if opening else line


rng = random.Random(0)
news = [newspaper(i, line) for i, line in enumerate(references)]
news_system = [
    " ".join(w.lower() if rng.random() < 0.04 else w for w in line.split())
    for line in drop_words(news, 0.06, seed=1)
]

# %% [markdown]
# Here are five variants of BLEU, all for *the same translations*:

# %%
from transformer.evaluation.metrics import score_translations

all_scores = score_translations(news_system, news, "en")
for score in all_scores:
    if score.name.startswith("BLEU"):
        print(f"{score.value:.1f} {score.name} ({score.explanation})")

# %% tags=["remove-cell"]
value = {score.name: score.value for score in all_scores}
assert value["BLEU"] < value["BLEU intl"] < value["BLEU lc"] < value["BLEU intl lc"]
assert abs(value["BLEU paper"] - value["BLEU intl"]) < 0.3
assert 1.7 < value["BLEU intl lc"] - value["BLEU"] < 2.3

from sacrebleu.dataset import DATASETS

for name, archive in (("wmt14", "test-filtered"), ("wmt14/full", "test-full")):
    test_set = DATASETS[name]
    assert "en-de" in test_set.langpairs and archive in test_set.data[0]

# %% [markdown]
# The highest is two points above the lowest. `lc` forgives the capitals. The two tokenizers disagree about punctuation: `13a`, the default, splits off only ASCII punctuation marks, while `intl` knows those of all languages and also splits at hyphens.

# %%
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_intl import TokenizerV14International

for tokenizer in (Tokenizer13a(), TokenizerV14International()):
    print(
        f"{tokenizer.signature():5}", tokenizer("The co-founder said: “It works.”")
    )

# %% tags=["remove-cell"]
assert Tokenizer13a()("“It works.”").split()[0] == "“It"
assert Tokenizer13a()('"It works."').split()[:2] == ['"', "It"]
assert TokenizerV14International()("“It").split() == ["“", "It"]

# %% [markdown]
# To `13a`, `“It` is one word. With a straight mark, `"` and `It` are two, and neither matches. So even a perfect translation loses a lot if its quotation marks are straight; with `intl`, only the marks themselves don't match, which still costs 17.5 points:

# %%
straight = [line.replace("“", '"').replace("”", '"') for line in news]
for name in ("13a", "intl"):
    print(f"{name:5} {bleu(straight, news, tokenize=name).value:.1f}")

# %% tags=["remove-cell"]
assert round(100 - bleu(straight, news, tokenize="intl").value, 1) == 17.5

# %% [markdown]
# ### How the paper's BLEU was computed
#
# The paper doesn't say. From what has become known since, three steps probably raised the score: tokenize both texts with the tokenizer of **Moses**, the standard toolkit for statistical machine translation; split words at hyphens; and replace all quotation marks with straight ones. The package's `paper_bleu` does the same. The translations behind the 27.3 aren't public, but three other models have been scored in both ways, or nearly. The paper's way gave 0.7 to 1.5 points more than sacreBLEU. So **the paper's 27.3 is roughly 26 in sacreBLEU**: 25.8 to 25.9 if its authors took all three steps, and up to 26.6 if they left the quotation marks alone. Use *BLEU paper* only to compare with this paper and others scored in the same way.
#
# <details><summary>Three models scored in both ways, and how the three steps are known</summary>
#
# Scores on newstest2014 (sources on the [results](../book/results.md) page):
#
# | model | sacreBLEU, `13a` | the paper's way | difference |
# |---|---|---|---|
# | Tensor2Tensor, base, 3.8 million steps | 27.52 | 29.02 | 1.50 |
# | a-PyTorch-Tutorial-to-Transformers, base, 100,000 steps | 25.1 | 26.49 | 1.39 |
# | fairseq, big ([Ott et al., 2018](https://aclanthology.org/W18-6301/)); split at hyphens, but no straight quotation marks mentioned | 28.6 | 29.29 | 0.69 |
#
# [One of the authors](https://github.com/tensorflow/tensor2tensor/issues/61) has explained the computation, and there is a script, `get_ende_bleu.sh`. The script tokenizes and then splits words at hyphens (often called *compound splitting*): `co-founder` becomes `co ##AT##-##AT## founder`. If the word is correct, it now earns three matching words, two bigrams and a trigram instead of one word. A [user](https://github.com/tensorflow/tensor2tensor/issues/317) later reported a third step, which isn't in the script: straight quotation marks, but only in the reference. `paper_bleu` straightens those of the translation as well, so that either kind matches.
#
# </details>

# %% tags=["remove-cell"]
import json
from pathlib import Path

published = {
    "Tensor2Tensor": (27.52, 29.02),
    "a-PyTorch-Tutorial": (25.1, 26.49),
    "fairseq, big": (28.6, 29.29),
}
gaps = [round(paper - sacre, 2) for sacre, paper in published.values()]
assert gaps == [1.5, 1.39, 0.69]
assert [round(27.3 - gap, 1) for gap in gaps] == [25.8, 25.9, 26.6]
stored = Path("../book/results/published.json")
if stored.exists():  # not in Colab
    rows = json.loads(stored.read_text("utf-8"))["systems"]
    for name, pair in published.items():
        found = {row["score"] for row in rows if row["system"].startswith(name)}
        assert set(pair) <= found

from transformer.evaluation.metrics import paper_bleu, split_at_hyphens

moses_news = [
    [moses_tokenize(line, "en") for line in side] for side in (news_system, news)
]
split_once = BLEU(tokenize="none", force=True).corpus_score(
    [" ".join(words) for words in moses_news[0]],
    [[" ".join(words) for words in moses_news[1]]],
)
score = paper_bleu(*moses_news, "en")
assert split_at_hyphens(["co-founder"]) == "co ##AT##-##AT## founder"
assert value["BLEU"] < split_once.score < score.value == value["BLEU paper"]
moses_straight = [
    [moses_tokenize(line, "en") for line in side] for side in (straight, news)
]
assert math.isclose(paper_bleu(*moses_straight, "en").value, 100)

# %% [markdown]
# ## chrF: partial credit for nearly correct words
#
# To BLEU, a word with a wrong ending is simply wrong. The reference below means *A clever grandfather forgives some old friends*. The first translation has wrong endings in three words. In the second, he forgives seven yellow cars:

# %%
from transformer.evaluation.metrics import chrf

grandfather = "Ein kluger Großvater verzeiht einigen alten Freunden."
wrong_endings = "Ein kluger Großvater verzeiht einige alte Freunde."
yellow_cars = "Ein kluger Großvater verzeiht sieben gelben Autos."
for text in (wrong_endings, yellow_cars):
    b, c = bleu([text], [grandfather]).value, chrf([text], [grandfather]).value
    print(f"{text}\n  BLEU {b:.1f}, chrF {c:.1f}")

# %% tags=["remove-cell"]
assert (
    bleu([wrong_endings], [grandfather]).value
    == bleu([yellow_cars], [grandfather]).value
)

# %% [markdown]
# BLEU can't tell them apart. **chrF** ([Popović, 2015](https://aclanthology.org/W15-3049/)) removes the spaces and counts n-grams of *characters*, from 1 to 6. Instead of a brevity penalty it has **recall** $R$, the fraction of the reference's n-grams that are in the hypothesis. Precision $P$ and recall are averaged over $n$ and combined, with recall counting $\beta$ times as much. [Popović (2016)](https://aclanthology.org/W16-2341/) found $\beta = 2$ best, which sacreBLEU uses and prints as *chrF2*:
#
# $$ \mathrm{chrF}_\beta = 100 \cdot \frac{(1 + \beta^2)\, P R}{\beta^2 P + R} $$
#
# By hand for one word, *Museumsbank* (museum bench), where the reference has *Museumsbänke* (museum benches). Each row has the matches, out of the n-grams of the hypothesis and out of those of the reference:

# %%
word, right = "Museumsbank", "Museumsbänke"
char_precisions, char_recalls = [], []
for n in range(1, 7):
    matches = (ngrams(word, n) & ngrams(right, n)).total()
    in_word, in_right = len(word) - n + 1, len(right) - n + 1
    print(f"n = {n}: {matches} of {in_word:2}, {matches} of {in_right:2}")
    char_precisions.append(matches / in_word)
    char_recalls.append(matches / in_right)
P, R = np.mean(char_precisions), np.mean(char_recalls)
chrf_by_hand = 100 * (1 + 2**2) * P * R / (2**2 * P + R)
assert math.isclose(chrf_by_hand, chrf([word], [right]).value)
print(f"P {P:.3f}, R {R:.3f}: chrF {chrf_by_hand:.1f}")

# %% [markdown]
# For a test set, chrF sums the counts of all sentences first, as BLEU does. It needs no tokenizer, so there is less to disagree about. But it ignores spaces: *every day* and *everyday* are the same to it. Its variant [chrF++](https://aclanthology.org/W17-4770/) also counts single words and word pairs.

# %% tags=["remove-cell"]
assert math.isclose(chrf(["every day"], ["everyday"]).value, 100)
for_each_n = []
for n in range(1, 7):
    sums = np.zeros(3)
    for h, r in zip(dropped, references, strict=True):
        h, r = (ngrams(line.replace(" ", ""), n) for line in (h, r))
        sums += (h & r).total(), h.total(), r.total()
    for_each_n.append((sums[0] / sums[1], sums[0] / sums[2]))
p, r = np.mean(for_each_n, axis=0)
assert math.isclose(100 * 5 * p * r / (4 * p + r), chrf(dropped, references).value)

# %% [markdown]
# So which is better, `dropped` or `swapped`?

# %%
for name, system in (("dropped", dropped), ("swapped", swapped)):
    b, c = bleu(system, references).value, chrf(system, references).value
    print(f"{name}   BLEU {b:.1f}   chrF {c:.1f}")

# %% tags=["remove-cell"]
assert bleu(dropped, references).value > bleu(swapped, references).value
assert chrf(dropped, references).value < chrf(swapped, references).value

# %% [markdown]
# The metrics disagree, and neither is wrong: each swap breaks several word n-grams, which is what BLEU counts, and each missing word lowers recall, which chrF weighs most. Choose your metric *before* you see the results.
#
# ### METEOR: match words first, then look at their order
#
# *Optional: no later chapter builds on this section.*
#
# METEOR ([Banerjee and Lavie, 2005](https://aclanthology.org/W05-0909/)) pairs each word with the same word, one with the same **stem** (*sleep* and *sleeping*), or a synonym if there is a dictionary. Its score is high if most words are paired, and in few **chunks**, runs of words in the same order on both sides. Here there are three:

# %% tags=["hide-input"]
sleep = "today the small dogs sleep in the house".split()
sleeping = "the small dogs are sleeping in the house today".split()
partners = [8, 0, 1, 2, 4, 5, 6, 7]  # the position of each word's partner
with style.in_style():
    figure, axes = style.new_figure(4.9, 1.5)
    axes.set_position((0, 0, 1, 1))
    axes.axis("off")
    axes.set(xlim=(-0.6, 8.6), ylim=(-0.35, 1.35))
    colours = [style.QUERY] + 3 * [style.WRONG] + 4 * [style.VALUE]
    for i, word in enumerate(sleep):
        axes.text(i * 8 / 7, 1.1, word, ha="center", fontsize=10)
        line = [i * 8 / 7, partners[i]]
        axes.plot(line, [1.03, 0.17], color=colours[i], linewidth=2.5)
    for i, word in enumerate(sleeping):
        axes.text(i, -0.1, word, ha="center", fontsize=10)
Picture(
    figure,
    alt=(
        "The hypothesis 'today the small dogs sleep in the house' above the reference "
        "'the small dogs are sleeping in the house today', with lines between matching "
        "words in three colours. One line leads from today, the first word, to today, "
        "the last. Three lines connect the small dogs, four sleep in the house. The "
        "word are has no partner."
    ),
    caption=(
        "METEOR's alignment of a hypothesis (above) with its reference (below). Each "
        "colour is a chunk, a run of words in the same order."
    ),
)

# %% [markdown]
# With `sleep` as the hypothesis and `sleeping` as the reference, METEOR by hand is:

# %%
from transformer.evaluation.metrics import meteor

matched, chunks = 8, 3
P, R = matched / len(sleep), matched / len(sleeping)
mean = 10 * P * R / (9 * P + R)  # as in chrF, with beta = 3
meteor_by_hand = 100 * mean * (1 - 0.5 * (chunks / matched) ** 3)
assert math.isclose(meteor_by_hand, meteor([sleep], [sleeping], "en").value)
b = bleu([" ".join(sleep)], [" ".join(sleeping)]).value
print(f"METEOR {meteor_by_hand:.1f}, BLEU {b:.1f}")

# %% tags=["remove-cell"]
assert matched == len(partners)
assert chunks == 1 + sum(
    after != before + 1 for before, after in pairwise(partners)
)
one_dog = "today the small dog sleeps in the house".split()
assert math.isclose(meteor([one_dog], [sleeping], "en").value, meteor_by_hand)

# %% [markdown]
# METEOR forgives the different word order and tense. But the stemmer also hides errors: with *the small dog sleeps*, METEOR is the same.

# %% [markdown]
# ## Scoring a trained model
#
# Now a real system. `everyday-de-en`, one of the course's models, translates everyday German into English. We translate 500 sentences of a phrase book, from the part that was kept out of training, by greedy search and by beam search ([chapter 12](12_decoding.ipynb)):

# %%
import transformer

pairs = list(sentence_pairs("phrasebook", "test", "de-en"))[:500]
german, english = zip(*pairs, strict=True)
translator = transformer.load("everyday-de-en", device="cpu", precision="fp32")
greedy = translator.greedy_search(german)
best = translator.beam_search(german, beam_size=4)
beam = [translation.text for (translation,) in best]

# %% tags=["wrap-output"]
for name, system in (("greedy search", greedy), ("beam of 4", beam)):
    b, c = bleu(system, english), chrf(system, english)
    print(f"{name:13}  BLEU {b.value:.1f}   chrF {c.value:.1f}")
print(b.signature, c.signature, sep="\n")

# %% tags=["remove-cell"]
learned_from = {
    source for source, _ in sentence_pairs("phrasebook", "train", "de-en")
}
assert not learned_from & set(german)
real = [bleu(system, english).value for system in (greedy, beam)]
assert 2 < real[1] - real[0] < 4 and 69 < real[1] < 73
assert chrf(beam, english).value > chrf(greedy, english).value + 1
from transformer.models import find_model

card = json.loads((find_model("everyday-de-en") / "scores.json").read_text("utf-8"))
on_card = {
    row["split"]: next(s["value"] for s in row["scores"] if s["name"] == "BLEU")
    for row in card["test_sets"]
    if row["beam_size"] == 4
}
assert (
    round(on_card["test_tatoeba"]) == 52 and round(on_card["test_multi30k"]) == 41
)

# %% [markdown]
# Both metrics prefer beam search. Could that be luck? We'll test that below. But first: what do such numbers mean?
#
# ### What does a BLEU of 27 mean?
#
# Not much by itself. It isn't a percentage of correct words or sentences. The same model has a BLEU of 52 on sentences from Tatoeba and of 41 on captions of photographs, as its [card](https://github.com/transformer-course/transformer-course/blob/main/transformer/models/everyday-de-en/CARD.md) reports. The phrase book is easy for it, because other sentences of the same book were in its training data. The paper's 27.3 is for long sentences from newspapers. Scores are also lower for languages with many word forms, and even *human* translations score far below 100, because people choose different words. So compare scores only on the same test set, in the same direction.
#
# ## What string metrics can't see
#
# BLEU and chrF are **string metrics**: they compare words and characters, not meanings. Here are four translations by beam search, each below its reference, from the lowest BLEU to the highest. Before you read on: which of them are right?

# %%
for source in (
    "Das geht dich nichts an.",
    "Im Urlaub haben wir Wale beobachtet.",
    "Der Priester hat alle drei Kinder getauft.",
    "Düngen Sie die Rosen im Frühjahr.",
):
    i = german.index(source)
    b, c = (f([beam[i]], [english[i]]).value for f in (bleu, chrf))
    print(f"{english[i]}\n  {beam[i]}\n  BLEU {b:.0f}, chrF {c:.0f}")

# %% tags=["remove-cell"]
ranked = [
    (
        "Das geht dich nichts an.",
        "That is none of your business.",
        "That doesn't concern you.",
    ),
    (
        "Im Urlaub haben wir Wale beobachtet.",
        "We went whale watching on holiday.",
        "We watched whales on holiday.",
    ),
    (
        "Der Priester hat alle drei Kinder getauft.",
        "The priest baptised all three children.",
        "The priest bought all three children.",
    ),
    (
        "Düngen Sie die Rosen im Frühjahr.",
        "Fertilise the roses in spring.",
        "Think the roses in spring.",
    ),
]
for source, reference_text, translation in ranked:
    i = german.index(source)
    assert (english[i], beam[i]) == (reference_text, translation)
for metric in (bleu, chrf):
    ranks = [metric([t], [r]).value for _, r, t in ranked]
    assert max(ranks[:2]) < min(ranks[2:])
assert round(bleu([ranked[1][2]], [ranked[1][1]]).value) == 27

# %% [markdown]
# The first two are right, one of them with a BLEU of 27, and the last two are absurd: the model seems to have read *gekauft* (bought) and *Denken Sie* (think). Both metrics prefer the absurd ones, whose wording is nearly that of the reference. We picked these four, so they show only that this can happen, not how often.
#
# Over a whole test set, such misjudgements may cancel, but not if a system makes the same kind of error again and again. Take one that translates perfectly, except that it loses every negation. Compare it with one that makes a harmless error in every sentence: it forgets the full stop or question mark.


# %%
def drop_negation(line):
    for words, instead in (
        ("cannot ", "can "),
        (" not ", " "),
        (" never ", " always "),
        (" no ", " a "),
        ("No ", "A "),
    ):
        line = line.replace(words, instead)
    return line


# %%
no_negation = [drop_negation(line) for line in references]
no_end_mark = [line.rstrip(".?") for line in references]
changed = sum(a != b for a, b in zip(no_negation, references, strict=True))
print(f"{changed} of {len(references):,} sentences now mean something else")
print(f"no negation   BLEU {bleu(no_negation, references).value:.1f}")
print(f"no end mark   BLEU {bleu(no_end_mark, references).value:.1f}")

# %% tags=["remove-cell"]
liar, sloppy = (bleu(s, references).value for s in (no_negation, no_end_mark))
assert 4.5 < liar - sloppy < 5.5 and changed == 165
assert all(a != b for a, b in zip(no_end_mark, references, strict=True))
same_sentences = [  # in one sentence, a missing negation costs more BLEU
    no_mark if liar_says != r else r
    for no_mark, liar_says, r in zip(
        no_end_mark, no_negation, references, strict=True
    )
]
assert bleu(same_sentences, references).value > liar + 2

# %% [markdown]
# Every sixth sentence is wrong, and BLEU is still 95.4. The harmless system scores about five and a half points lower, because BLEU counts how many words differ, not how much they matter. So read a few dozen translations every time, starting with negations, numbers and names. And where it matters, have people judge them.
#
# <details><summary>How people judge translations</summary>
#
# In **direct assessment**, they rate each translation from 0 to 100. In **MQM** ([Freitag et al., 2021](https://aclanthology.org/2021.tacl-1.87/)), experts mark every error with its type and severity. Metrics are themselves judged by how well they correlate with such judgements.
#
# </details>

# %% [markdown]
# ## Better, or just lucky?
#
# Would beam search also win on other sentences? Let's first develop a test with systems for which we know the answer. `baseline` drops 8% of the words. Two others score about 0.6 BLEU higher. `reseeded` follows the same rule with another seed, so it is *not* better. `improved` has the seed of `baseline` but drops 7.6%, all of them words that `baseline` drops, too: it *is* better.

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
for line, shorter in zip(systems["improved"], systems["baseline"], strict=True):
    assert not Counter(shorter.split()) - Counter(line.split())
for name in ("reseeded", "improved"):
    assert 0.5 < whole[name] - whole["baseline"] < 0.8

# %% [markdown]
# We can't collect a thousand other test sets, so we let our 1,000 sentences stand for all sentences of their kind: **draw 1,000 of them with replacement**, so that some occur several times and others not at all, score the systems on this sample, and repeat that a thousand times. This is the **bootstrap**, and it is *paired* when all systems are scored on the same samples ([Koehn, 2004](https://aclanthology.org/W04-3250/)).

# %%
n_sentences = len(references)
samples = np.random.default_rng(12345).choice(n_sentences, size=(1000, n_sentences))
times_drawn = np.stack(
    [np.bincount(sample, minlength=n_sentences) for sample in samples]
)
bleus = {name: bleu_from_counts(times_drawn @ t) for name, t in tables.items()}
old = bleus["baseline"]
gains = {name: bleus[name] - old for name in ("reseeded", "improved")}
print(f"baseline  BLEU {old.mean():.2f} ± {old.std():.2f}")
for name, gain in gains.items():
    wins = f"wins in {np.mean(gain > 0):4.0%}"
    print(f"{name}  gain {gain.mean():.2f} ± {gain.std():.2f}, {wins}")

# %% [markdown]
# The number after ± is the standard deviation over the samples; a 95% confidence interval reaches about twice as far to either side. Here are all scores and gains:

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
            "They are about equally wide. Those of reseeded and improved almost "
            "coincide; that of baseline overlaps with them, about 0.6 to their left."
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
        "gain of 'improved' is clearly positive, while that of 'reseeded' straddles zero."
    ),
)

# %% [markdown]
# In the first figure you can't tell `reseeded` from `improved`. In the second, `improved` is better in every sample. It fails on the same sentences as `baseline`, so a difficult sample lowers both scores, and the effect cancels in the difference. `reseeded` makes its errors elsewhere, so nothing cancels.

# %% tags=["remove-cell"]
assert gains["improved"].min() > 0 > gains["reseeded"].min()
assert gains["improved"].std() < old.std() / 4 < gains["reseeded"].std() / 4

# %% [markdown]
# The usual summary is the **p-value**: if the two systems were equally good, how often would chance alone produce a difference at least as large as ours, in either direction? The gains of equally good systems scatter around zero. We assume that they scatter as widely as ours do, so we shift ours until their mean is zero. Then we count how many are at least as far from zero as the observed gain. The + 1 in the code counts the observed gain as one of the samples. The figure shows both steps:


# %%
def p_value(gains, observed):
    by_chance = gains - gains.mean()
    as_large = np.abs(by_chance) >= abs(observed)
    return (as_large.sum() + 1) / (len(gains) + 1)


# %% tags=["hide-input"]
with style.in_style():
    panels = []
    for name, gain in gains.items():
        drawing, axes = style.new_figure(3.5, 2.2)
        shifted_gains, bins = gain - gain.mean(), np.linspace(-2.5, 2.5, 51)
        observed = whole[name] - whole["baseline"]
        far = np.abs(shifted_gains) >= observed
        axes.hist(
            [shifted_gains[far], shifted_gains[~far]], bins, stacked=True,
            color=[style.WRONG, style.PLAIN],
        )  # fmt: skip
        for edge in (-observed, observed):
            axes.axvline(edge, color=style.INK, linewidth=1, linestyle=":")
        axes.set_xlim(-2.6, 2.6)
        axes.set_title(f"{name}, shifted to zero", loc="left")
        axes.set_xlabel("gain in BLEU")
        axes.set_ylabel("samples")
        panels.append(drawing)
Row(
    Picture(
        panels[0],
        alt=(
            "Histogram of the gains of reseeded, shifted to a mean of zero, with dotted "
            "lines at plus and minus 0.6. About half of the samples are outside the lines."
        ),
    ),
    Picture(
        panels[1],
        alt=(
            "The same for improved: a narrow peak at zero, and no sample outside the "
            "dotted lines at plus and minus 0.6."
        ),
    ),
    caption=(
        "What chance would do if the systems were equally good. p is the share of samples "
        "at least as far from zero as the observed gain (dotted lines), in orange."
    ),
)

# %% [markdown]
# sacreBLEU's `--paired-bs`, which the package calls, defines p differently:

# %%
from transformer.evaluation.metrics import paired_bootstrap

p_values = {}
for name, gain in gains.items():
    observed = whole[name] - whole["baseline"]
    ours = p_value(gain, observed)
    result = paired_bootstrap(systems["baseline"], systems[name], references)[0]
    p_values[name] = ours, result.p_value
    print(f"{name}  {observed:+.2f}   p = {ours:.3f}", end="   ")
    print(f"sacreBLEU: {result.p_value:.3f}")

# %% tags=["remove-cell"]
far = np.abs(gains["reseeded"] - gains["reseeded"].mean()) >= 0.6
assert 0.45 < far.mean() < 0.6 and p_values["improved"] == (1 / 1001, 1 / 1001)
assert np.abs(gains["reseeded"]).std() < 0.9 * gains["reseeded"].std()
ours, theirs = p_values["reseeded"]
assert 0.05 < theirs < ours / 2.5
for name, gain in gains.items():  # sacreBLEU's definition, on our samples
    size = np.abs(gain) - np.abs(gain).mean()
    larger = size > abs(whole[name] - whole["baseline"])
    assert math.isclose((larger.sum() + 1) / (len(gain) + 1), p_values[name][1])

# %% [markdown]
# Nearly the same gain, but opposite verdicts: by convention, a difference is called **significant** if p is below 0.05. (With 1,000 samples, p can't be smaller than 0.001.)
#
# For `reseeded`, sacreBLEU's p is only a third of ours, so **say which tool you used**.
#
# <details><summary>Why sacreBLEU's p is smaller</summary>
#
# sacreBLEU takes the absolute value of each sample's gain, subtracts the mean of these values, and counts how many of the results exceed the observed gain. So it counts one tail instead of two, and if the gains straddle zero, as those of `reseeded` do, their absolute values also scatter less.
#
# </details>
#
# And beam search against greedy search?

# %%
for result in paired_bootstrap(greedy, beam, english):
    print(f"{result.metric:5}  p = {result.p_value:.3f}")

# %% [markdown]
# Even if our definition made them three times as large, as it did for reseeded, both would be far below 0.05. How many sentences does it take to see that? We cut the test set into parts and compute the gain on each:

# %%
for size in (50, 100, 250):
    differences = []
    for start in range(0, 500, size):
        part = slice(start, start + size)
        new, old = (bleu(s[part], english[part]).value for s in (beam, greedy))
        differences.append(new - old)
    low, high = min(differences), max(differences)
    print(f"parts of {size:3}: gains from {low:4.1f} to {high:3.1f}")

# %% tags=["remove-cell"]
assert all(r.p_value < 0.015 for r in paired_bootstrap(greedy, beam, english))
first = [bleu(s[:100], english[:100]).value for s in (greedy, beam)]
assert first[0] > first[1] and low > 1  # greedy search wins on the first hundred

# %% [markdown]
# On the first hundred sentences, greedy search wins; only with 250 does every part agree. **A small test set can't detect small differences:** to halve the noise, you need four times as many sentences.
#
# Keep three more limits in mind:
#
# - **The test is about sentences, not seeds.** It asks whether the gain of one trained system over another would survive on other sentences of this kind. To compare two *recipes*, train each with several seeds, and compare the difference of the means with the spread between seeds.
# - **A small p is not a large gain.** `improved` is certainly better, but it drops 7.6% of the words instead of 8%. Would people notice? [Kocmi et al. (2024)](https://aclanthology.org/2024.acl-long.110/) compared the scores of 6,530 pairs of systems with human judgements. If a system was ahead by about 0.65 BLEU, as ours is, people agreed in fewer than 60% of the pairs (a coin: 50%). For 80%, it took 2.3 BLEU.
# - **BLEU is for related systems.** In the same study, people agreed with a gain in BLEU far more often if one system was a new version of the other than if the two were unrelated. So a paper's BLEU, even with the same signature, says little about whether its system is better than yours.

# %% [markdown]
# ## Learned metrics: COMET
#
# To BLEU, *TV* is as different from *television* as *late* is from *early*. **COMET** ([Rei et al., 2020](https://aclanthology.org/2020.emnlp-main.213/)) is a neural network that reads the *source*, the hypothesis and the reference, and is trained to score translations as people do.
#
# <details><summary>How COMET works</summary>
#
# 1. A multilingual Transformer encoder, XLM-R, turns the source, the hypothesis and the reference into one vector each. Pre-training on a hundred languages ([chapter 15](15_transformer_family.ipynb)) tends to give similar vectors to sentences with similar meanings.
# 2. The vectors, with their products and differences, go into a feed-forward network, which outputs a single number.
# 3. The network is trained on translations that people have rated, to predict the ratings.
#
# </details>
#
# Learned metrics agree better with expert ratings than BLEU and chrF do. WMT, the field's yearly competition, titled its report of 2022 [*Results of WMT22 Metrics Shared Task: Stop Using BLEU – Neural Metrics Are Better and More Robust*](https://aclanthology.org/2022.wmt-1.2/).
#
# But COMET doesn't say why a score is low, it is less reliable on languages that it wasn't trained on, and learned metrics have blind spots of their own: earlier versions of COMET weren't sensitive enough to wrong numbers and names ([Amrhein and Sennrich, 2022](https://arxiv.org/abs/2202.05148)), and other learned metrics, such as BLEURT, to negations ([Anschütz et al., 2023](https://arxiv.org/abs/2307.13989)). So does COMET notice the extra *not* in translation B? **We haven't tried**, because its model is a download of about 2 GB.
#
# <details><summary>How to find out</summary>
#
# Write A, B and C into `translations.en`, one per line, and the source and the reference three times each into `source.de` and `references.en`. Then, after `pip install unbabel-comet`:
#
# ```bash
# comet-score -s source.de -t translations.en -r references.en --model Unbabel/wmt22-comet-da
# ```
#
# </details>
#
# <details><summary>Without references, and with large language models</summary>
#
# **Quality estimation** needs no references: a model such as [CometKiwi](https://aclanthology.org/2022.wmt-1.60/) predicts the rating from the source and the translation alone. You can also ask a large language model to rate translations ([Kocmi and Federmann, 2023](https://aclanthology.org/2023.eamt-1.19/)). But such judges are biased towards longer answers, towards those in a certain position, and perhaps towards their own ([Zheng et al., 2023](https://arxiv.org/abs/2306.05685)).
#
# </details>
#
# **What to report today:** COMET with the name of its model and the version of the software, because scores of different versions can't be compared ([Zouhar et al., 2024](https://arxiv.org/abs/2408.15366)); chrF and BLEU with their signatures, for comparison with earlier versions of your system; and a significance test. If a metric has filtered your training data or chosen among your translations, judge by another one. Publish the translations, too.

# %% [markdown]
# ## What goes wrong in practice
#
# **Output and references are preprocessed differently.** We take the system with quotation marks from above and lower-case or tokenize its output, but not the references. In the last row, both are tokenized:

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
# If both sides are tokenized, the score *rises*, which is worse, because nobody investigates a good result. sacreBLEU warns when a text looks tokenized. We have silenced the warning here, but you shouldn't.
#
# **Scoring subwords.** If you forget to join subwords, the score rises: a 4-gram spans fewer words, so an error breaks a smaller share of the n-grams. Here all words are cut into pieces of four characters:


# %%
def in_pieces(line):
    return " ".join(
        word[i : i + 4] for word in line.split() for i in range(0, len(word), 4)
    )


pieces = [[in_pieces(line) for line in side] for side in (news_system, news)]
print(
    f"words {bleu(news_system, news).value:.1f}   pieces {bleu(*pieces).value:.1f}"
)

# %% tags=["remove-cell"]
assert bleu(*pieces).value > value["BLEU"] + 2

# %% [markdown]
# **One line off.** Python's `splitlines` also splits at U+2028, an invisible character that real corpora contain. With one of them, every later translation is compared with its neighbour's reference:

# %%
text = "\n".join([*references[:3], references[3] + "\u2028", *references[4:]])
lines, unharmed = text.splitlines(), text.split("\n")
print(f"{len(lines):,} lines by splitlines, {len(unharmed):,} by split")
shifted = bleu(dropped, lines[:n_sentences]).value
print(f"BLEU {shifted:.1f} instead of {bleu(dropped, references).value:.1f}")

# %% tags=["remove-cell"]
assert shifted < 3

# %% [markdown]
# A BLEU close to zero is rarely due to a bad model. Compare the first lines of both files, then the last, and use `zip(…, strict=True)`.
#
# **Choosing on the test set.** We simulate thirty *equally good* checkpoints: the same rule with thirty seeds. We choose the one with the highest BLEU on one half of the test set, look at its BLEU on the other half, and do all this four times:


# %%
def bleu_of_halves(seed):
    table = counts_table(drop_words(references, 0.08, seed))
    halves = table[: n_sentences // 2], table[n_sentences // 2 :]
    return [bleu_from_counts(half.sum(axis=0)) for half in halves]


rounds = np.array(
    [[bleu_of_halves(100 * k + i) for i in range(30)] for k in (1, 2, 3, 4)]
)  # (rounds, checkpoints, halves)
chosen = np.array(
    [checkpoints[checkpoints[:, 0].argmax()] for checkpoints in rounds]
)  # (rounds, halves)
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
too_short = [" ".join(line.split()[:-2]) for line in references]  # question 4
nonsense = [line + " blah" for line in too_short]
assert bleu(nonsense, references).value > bleu(too_short, references).value + 0.2
tv, *others = (  # question 6
    f"The girl turned off the {x}." for x in ("TV", "television", "toaster")
)
assert bleu(others[:1], [tv]).value == bleu(others[1:], [tv]).value
assert chrf(others[:1], [tv]).value < chrf(others[1:], [tv]).value
above = chosen - rounds.mean(axis=1)
assert above[:, 0].min() > 1.5 and abs(above[:, 1].mean()) < 0.1
assert above[:, 1].min() < 0 < above[:, 1].max()

# %% [markdown]
# The chosen ones were only lucky. (Checkpoints of one training run make similar errors, so luck plays a smaller part there.) So choose checkpoints, beam size and length penalty on the **validation** set, as the paper does for the last two (§6.1), and touch the test set only once.
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
# No. In this chapter, just changing the tokenizer and ignoring case raised the score of the same translations by two points.
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
# **Right.** Their translations would be best: then you could choose the metric, and also bootstrap the difference.
#
# </details>
#
# **3. Two systems differ by 0.5 BLEU with p = 0.01. What may you conclude?**
#
# <details><summary>A. The difference is unlikely to be due to the choice of test sentences</summary>
#
# **Right.** But that is all, and only for sentences like these and for this metric.
#
# </details>
# <details><summary>B. People will prefer the second system</summary>
#
# No. BLEU measures similarity to the references. A significant difference in similarity is still only a difference in similarity.
#
# </details>
# <details><summary>C. The second system's training recipe is better</summary>
#
# No. You have tested one seed of each. Another seed may reverse the result, and p doesn't account for that.
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
# Yes. Replace a correct translation in different words by the reference without its *not*. Or take only the first ten words of perfect translations of twenty, and append a word of nonsense to each: the brevity penalty's factor rises by 20%, and the geometric mean of the precisions falls by only 11%.
#
# </details>
#
# **5. Why are the precisions of a test set hardly ever zero, while those of a sentence often are?**
#
# <details><summary>Answer</summary>
#
# Because the counts are summed first. Among thousands of sentences, some have matching 4-grams, so the sum isn't zero. A single sentence may well have none, and then the zero has to be smoothed.
#
# </details>
#
# **6. The reference contains *TV*, and two systems write *television* and *toaster*. Which metric can prefer the right one?**
#
# <details><summary>A. BLEU</summary>
#
# No. Neither word is in the reference, so both are equally wrong.
#
# </details>
# <details><summary>B. chrF</summary>
#
# No. Neither word has a character in common with *TV* (capitals count), and since *television* is longer, chrF even prefers the sentence with *toaster*.
#
# </details>
# <details><summary>C. METEOR with a stemmer, but without a dictionary</summary>
#
# No. The two words don't have the same stem. Only a dictionary of synonyms could link them.
#
# </details>
# <details><summary>D. COMET</summary>
#
# **Right.** It can, because its network compares representations of meaning. Whether it does is a question for an experiment.
#
# </details>
#
# ## Exercises
#
# Six blanks: n-grams, clipped matches, the brevity penalty, BLEU of a test set, chrF, and the bootstrap. Each has a check that tells you what is wrong, and a hint.
#
# - In your browser, with nothing to install: [Exercises: evaluation](../book/exercises/13_evaluation.md).
# - In Colab, where the last cell grades your answers:
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
# <details><summary>Three experiments to try</summary>
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
# 3. Score translations A, B and C, and the four of *What string metrics can't see*, with COMET. Does it rank the right ones higher?
#
# </details>
#
# ## Going further
#
# - **BLEU:** [Papineni et al. (2002)](https://aclanthology.org/P02-1040/) is short and readable.
# - **How well metrics agree with people:** [Mathur et al. (2020)](https://aclanthology.org/2020.acl-main.448/) show how a few outliers make metrics look better than they are.
# - **Next:** [What attention heads do](14_attention_heads.ipynb): what do the heads of a trained model do?
