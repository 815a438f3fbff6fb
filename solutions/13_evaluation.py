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
# # Exercises: evaluation
#
# Six blanks: BLEU from counting n-grams to the score of a test set, then chrF, and a test of whether a gain is just luck. The paper reports its
# results in BLEU (§6.1, Table 2) without explaining it. Here, sentences are lists of words; the chapter discusses how text is split into words.
# You write the metrics yourself: the checks accept no function of sacreBLEU, NLTK or `transformer.evaluation`.
#
# **First run the two code cells below**; in Colab, choose *File → Save a copy in Drive* before that. Then write your code where a cell says *not done yet*, and run the check below it. The
# [first notebook](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb) explains the rest: hints, *Help*, and the rules for answers.
#
# At the end, your functions compare greedy search with beam search.

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
    print("The course is installed: go on with the next cell.")

# %%
import math
from collections import Counter

from exercises.checks.evaluation import check, given

# %% [markdown]
# ## 1 · Counting n-grams
#
# ★☆☆ · 5 minutes
#
# An n-gram is a run of `n` neighbouring words. *the dog left* has three 1-grams, two 2-grams and one 3-gram. N-grams overlap.
#
# Count how often each n-gram occurs in a text of several sentences. An n-gram never extends from one sentence into the next. Return a dict, or a `Counter`,
# whose keys are **tuples** of words.
#
# <details><summary>Hint</summary>
#
# ```text
# go through the sentences; within a sentence:
#     an n-gram starts at each word that is followed by at least n - 1 others: how many are there?
#     take n words from there, as a tuple
# count equal tuples, those of all sentences together
# ```
# </details>
# <details><summary>Help: <code>unhashable type: 'list'</code></summary>
#
# The keys of a dict must be immutable, and a list isn't. Turn the slice into a tuple. If it is one already: does it contain words, or whole sentences?
# </details>


# %% tags=["answer"]
# answer: ngram_counts
def ngram_counts(sentences: list[list[str]], n: int) -> dict[tuple[str, ...], int]:
    """How often each n-gram occurs in a text.

    sentences: the words of each sentence
    n: 1 or more
    returns: n-gram, a tuple of n words → count; empty if all sentences are too short
    """
    ### BEGIN SOLUTION
    return Counter(tuple(words[i : i + n]) for words in sentences for i in range(len(words) - n + 1))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("ngram_counts", ngram_counts)

# %% [markdown]
# ## 2 · Clipped matches
#
# ★★☆ · 10 minutes
#
# How many n-grams of a translation, called the hypothesis, are right? An n-gram is right if one of the references contains it, but each n-gram of a
# reference can be used **only once**. Otherwise, *the the the* would be a perfect translation of almost anything.
#
# The references are translations of the same sentence by different people. For each n-gram, the reference that has it **most often** decides how often the hypothesis may use it. So *the dog saw the
# cat* and *the dog saw a cat* together allow two *the*, not three, and one *a*.
#
# Return two numbers: the matches, and the number of n-grams in the hypothesis. `given.ngram_counts` is your own function once the
# check above shows ✓, and the course's until then. It takes a list of sentences, which may have a single entry.
#
# <details><summary>Hint</summary>
#
# ```text
# count the n-grams of the hypothesis, and those of each reference on its own
# allowed: for each n-gram, the largest of its counts in the references
# matches: for each n-gram of the hypothesis, the smaller of its count and of what is allowed; add them up
# total: add up the counts of the hypothesis
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for &: 'dict' and 'dict'</code></summary>
#
# `&` takes the smaller counts of two `Counter`s, but your `ngram_counts` returns plain dicts. Wrap them in `Counter(…)`.
# </details>
# <details><summary>Help: <code>unhashable type: 'list'</code></summary>
#
# A sentence is where a word should be. `ngram_counts` takes a list of sentences, and each of the references is one sentence.
# </details>
# <details><summary>Help: <code>it returns one value, but should return 2: matches, total</code></summary>
#
# Don't divide yet. Return both numbers, as `return matches, total`, so that they can be added up over many sentences.
# </details>


# %% tags=["answer"]
# answer: clipped_matches
def clipped_matches(hypothesis: list[str], references: list[list[str]], n: int) -> tuple[int, int]:
    """The numerator and the denominator of an n-gram precision.

    hypothesis: the words of a translation
    references: the words of each reference; at least one
    returns: matches, of the hypothesis's n-grams; and total, how many it has, 0 if it is too short
    """
    ### BEGIN SOLUTION
    counts, allowed = Counter(given.ngram_counts([hypothesis], n)), Counter()
    for reference in references:
        allowed |= given.ngram_counts([reference], n)
    return sum((counts & allowed).values()), sum(counts.values())
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("clipped_matches", clipped_matches)

# %% [markdown]
# ## 3 · Brevity penalty
#
# ★☆☆ · 5 minutes
#
# Precision doesn't notice missing words, so BLEU penalises hypotheses with fewer words than the reference. With $c$ words in the
# hypothesis (the *candidate*) and $r$ in the reference:
#
# $$\mathrm{BP} = \begin{cases} e^{\,1 - r/c} & \text{if } c < r \\ 1 & \text{otherwise} \end{cases}$$
#
# An empty hypothesis gets 0.
#
# <details><summary>Hint</summary>
#
# ```text
# the formula is for c < r; first deal with the two cases it does not cover
# ```
# </details>
# <details><summary>Help: <code>division by zero</code></summary>
#
# $c$ may be 0. As $c$ goes to 0, the fraction goes to infinity, the exponent to minus infinity, and the penalty to 0.
# </details>
# <details><summary>Help: <code>name 'e' is not defined</code></summary>
#
# `math.exp` computes powers of $e$.
# </details>


# %% tags=["answer"]
# answer: brevity_penalty
def brevity_penalty(c: int, r: int) -> float:
    """The brevity penalty, from 0 to 1.

    c: words of the hypothesis, 0 or more
    r: words of the reference, 1 or more
    """
    ### BEGIN SOLUTION
    if c == 0:
        return 0.0
    return math.exp(1 - r / c) if c < r else 1.0
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("brevity_penalty", brevity_penalty)

# %% [markdown]
# ## 4 · BLEU of a test set
#
# ★★★ · 20 minutes · §6.1
#
# BLEU combines four precisions $p_1 \ldots p_4$, one for each length of n-gram, with the brevity penalty:
#
# $$\mathrm{BLEU} = 100 \cdot \mathrm{BP} \cdot (p_1\, p_2\, p_3\, p_4)^{1/4}$$
#
# A test set has many sentences, but **one** BLEU. It is not the mean of the sentences' scores: each $p_n$ is a single fraction for the
# whole test set, and so is $r/c$. If one of the precisions is zero, or there are no n-grams to divide by, BLEU is 0.
#
# Here each sentence has one reference. You may use `given.clipped_matches` and `given.brevity_penalty`.
#
# <details><summary>Hint</summary>
#
# ```text
# for each n from 1 to 4:
#     add up the matches, and the totals, over all pairs of sentences
#     p_n: the sum of matches divided by the sum of totals
# multiply the four, take the fourth root
# c: all words of all hypotheses; r: all words of all references
# ```
# </details>
# <details><summary>Help: <code>math domain error</code></summary>
#
# 0 has no logarithm. If a precision is 0, return 0 before you take logarithms, or do without logarithms.
# </details>
# <details><summary>Help: <code>division by zero</code></summary>
#
# Sentences of one word have no 2-grams. If there is nothing to divide by, BLEU is 0.
# </details>


# %% tags=["answer"]
# answer: corpus_bleu
def corpus_bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """BLEU of a test set, one reference each, without smoothing: from 0 to 100.

    hypotheses: the words of each translation
    references: the words of each reference, in the same order
    """
    ### BEGIN SOLUTION
    product = 1.0
    for n in (1, 2, 3, 4):
        counts = [given.clipped_matches(h, [r], n) for h, r in zip(hypotheses, references, strict=True)]
        matches, total = (sum(column) for column in zip(*counts, strict=True))
        if matches == 0:
            return 0.0
        product *= matches / total
    brevity = given.brevity_penalty(sum(map(len, hypotheses)), sum(map(len, references)))
    return 100 * brevity * product ** (1 / 4)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("corpus_bleu", corpus_bleu)

# %% [markdown]
# ## 5 · chrF
#
# ★★☆ · 15 minutes
#
# To BLEU, a word with a wrong ending is simply wrong. chrF therefore counts n-grams of **characters**, for $n$ from 1 to 6, without
# spaces. It measures what fraction of the hypothesis's n-grams is right (precision), and what fraction of the reference's n-grams was found (recall).
# $P$ and $R$ are their arithmetic means over $n$. Then, with $\beta = 2$:
#
# $$\mathrm{chrF} = 100 \cdot \frac{(1 + \beta^2)\, P R}{\beta^2 P + R}$$
#
# If one of the two texts has no n-grams of some length $n$, that $n$ is left out of the means. If nothing matches, chrF is 0.
#
# `given.ngram_counts` and `given.clipped_matches` work for lists of characters as well as for lists of words.
#
# <details><summary>Hint</summary>
#
# ```text
# remove all spaces; list(text) is a list of characters
# find out up to which n both texts have n-grams
# for each of these n, collect a precision and a recall: they share the matches, but what is each divided by?
# average the precisions, and average the recalls
# the formula comes last, and only once; what would it do if nothing matches?
# ```
# </details>
# <details><summary>Help: <code>float division by zero</code> or <code>division by zero</code></summary>
#
# If nothing matches, $P$ and $R$ are 0, and so is the denominator. Or is the error in a precision or a recall? A text of two
# characters has no 3-grams: leave out each $n$ that is longer than one of the two texts.
# </details>


# %% tags=["answer"]
# answer: chrf
def chrf(hypothesis: str, reference: str) -> float:
    """chrF2 of one sentence, from 0 to 100.

    hypothesis, reference: texts, each with at least one character other than a space
    """
    ### BEGIN SOLUTION
    hypothesis_characters, reference_characters = list(hypothesis.replace(" ", "")), list(reference.replace(" ", ""))
    precisions, recalls = [], []
    for n in range(1, min(6, len(hypothesis_characters), len(reference_characters)) + 1):
        matches, total = given.clipped_matches(hypothesis_characters, [reference_characters], n)
        precisions.append(matches / total)
        recalls.append(matches / (len(reference_characters) - n + 1))
    P, R = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * 5 * P * R / (4 * P + R) if P else 0.0
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("chrf", chrf)

# %% [markdown]
# ## 6 · Paired bootstrap: better, or lucky?
#
# ★★☆ · 15 minutes
#
# With other test sentences, the scores would be different. The **paired bootstrap** simulates this: it draws
# sentences from the test set with replacement, scores both systems on the same draw, and repeats that many times. How often does
# the second system win?
#
# To keep it short, the score is just the precision $p_1$. For each sentence you get two numbers, the matches and the total, as in
# blank 2. A draw is scored like a test set: add up both over its sentences, then divide. A tie is not a win.
#
# <details><summary>Hint</summary>
#
# ```text
# go through the draws, and score both systems on the sentences of each
# a sentence that was drawn twice counts twice
# one score for the whole draw: what do you have to add up before you divide?
# compare the two scores, count the wins, and turn the count into a fraction
# ```
# </details>
# <details><summary>Help: <code>list indices must be integers or slices, not list</code></summary>
#
# A draw is a list of indices. Take its sentences one by one: `[first[i] for i in draw]`.
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for +: 'int' and 'tuple'</code></summary>
#
# `sum` adds numbers, and a sentence is a pair of them. Add up the matches and the totals separately.
# </details>


# %% tags=["answer"]
# answer: share_of_wins
def share_of_wins(first: list[tuple[int, int]], second: list[tuple[int, int]], draws: list[list[int]]) -> float:
    """The fraction of draws in which the second system has the higher precision.

    first, second: matches and total of each sentence, for two systems
    draws: the indices of the sentences in each draw
    returns: from 0 to 1
    """
    ### BEGIN SOLUTION
    wins = 0
    for draw in draws:
        scores = []
        for counts in (first, second):
            matches, totals = zip(*(counts[i] for i in draw), strict=True)
            scores.append(sum(matches) / sum(totals))
        wins += scores[1] > scores[0]
    return wins / len(draws)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("share_of_wins", share_of_wins)

# %% [markdown]
# ## Is beam search better?
#
# There is nothing to fill in here. The course's model `everyday` has learned to translate everyday sentences. Here it gets a hundred
# sentences of a kind that it wasn't trained on, once with greedy search and once with beam search, and your functions score both. (If a blank isn't
# done yet, the course's function is used instead.)

# %% tags=["nbval-skip"]
import random
import re

import transformer
from transformer.data import pocket

translator = transformer.load("everyday", device="cpu")
pairs = pocket.pairs("test", 100)
sources = [pair.source for pair in pairs]
translations = {
    "greedy": translator.greedy_search(sources),
    "beam": [hypotheses[0].text for hypotheses in translator.beam_search(sources)],
}


def split(text: str) -> list[str]:
    """Words and punctuation marks."""
    return re.findall(r"\w+|[^\w\s]", text)


references = [split(pair.target) for pair in pairs]
print("search    BLEU    mean chrF")
for search, texts in translations.items():
    bleu = given.corpus_bleu([split(text) for text in texts], references)
    chrfs = [given.chrf(text, pair.target) for text, pair in zip(texts, pairs, strict=True)]
    print(f"{search:8}  {bleu:.1f}      {sum(chrfs) / len(chrfs):.1f}")

# %% [markdown]
# Both scores prefer the same search. chrF is the higher one: where a word has a wrong ending, most of its characters still match.
#
# Is the gain just luck? The next cell runs the paired bootstrap, first for the first few sentences, then for more and more of them.

# %% tags=["nbval-skip"]
greedy, beam = (
    [given.clipped_matches(split(text), [reference], 1) for text, reference in zip(texts, references, strict=True)]
    for texts in translations.values()
)
generator = random.Random(0)
print("sentences    draws that beam search wins")
for n in (5, 10, 25, 50, 100):
    draws = [generator.choices(range(n), k=n) for _ in range(1000)]
    print(f"{n:6}       {given.share_of_wins(greedy[:n], beam[:n], draws):.3f}")

# %% [markdown]
# The first few sentences would have misled you: on their own, they favour greedy search. With enough sentences, beam search wins nearly every
# draw, so its gain is unlikely to be luck.

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade evaluation` in a terminal
# does the same.
#
# Then open [`transformer/evaluation/metrics.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/evaluation/metrics.py). It calls sacreBLEU, so that everybody gets the same numbers from the same text; now you know
# what it computes.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
