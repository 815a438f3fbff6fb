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
# # Exercises: subword tokenization
#
# Six blanks: counting pairs, learning merges with them, segmenting words, and decoding (§5.1 of the paper).
#
# **First run the two code cells below**; in Colab, choose *File → Save a copy in Drive* before that. Then write your code where a cell says *not done yet*, and run the check below it. The
# [first notebook](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb) explains the rest: hints, *Help*, and the rules for answers.

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
from itertools import pairwise

from exercises.checks.subword_tokenization import check, given

# %% [markdown]
# ## 1 · Count pairs
#
# ★☆☆ · 5 minutes
#
# Each word of the text is a list of symbols, at first its characters. How often does each pair of adjacent symbols occur in the text? A
# word that occurs three times counts three times. Pairs don't cross word boundaries.
#
# <details><summary>Hint</summary>
#
# ```text
# for each word and its count
#     for each symbol and the one after it
#         add the word's count to the count of the pair
# ```
# </details>
# <details><summary>Help: <code>unhashable type: 'list'</code></summary>
#
# The keys of a dict must be immutable, and a list isn't. Use a tuple: `(first, second)`.
# </details>


# %% tags=["answer"]
# answer: count_pairs
def count_pairs(words: list[list[str]], counts: list[int]) -> dict[tuple[str, str], int]:
    """How often each pair of adjacent symbols occurs.

    words: each word once, as a list of its symbols
    counts: how often each of them occurs in the text
    returns: pair → count; only pairs that occur
    """
    ### BEGIN SOLUTION
    found: dict[tuple[str, str], int] = {}
    for symbols, count in zip(words, counts, strict=True):
        for pair in pairwise(symbols):
            found[pair] = found.get(pair, 0) + count
    return found
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("count_pairs", count_pairs)

# %% [markdown]
# ## 2 · The best pair
#
# ★★☆ · 10 minutes
#
# The most frequent pair is merged next. Often several pairs are equally frequent, and the result must not depend on the order in
# which they were counted. Among these pairs, take the one with the **shortest** merged symbol, and among equally long symbols the one that comes
# **first by code points**, as Python compares strings. No two pairs here have the same merged symbol.
#
# <details><summary>Hint</summary>
#
# ```text
# min of the pairs, by a key of three parts:
#     minus the count, the length of the merged symbol, the merged symbol
# ```
# </details>
# <details><summary>Help: <code>bad operand type for unary -: 'tuple'</code></summary>
#
# Iterating over a dict gives its keys, here the pairs. The counts are its values.
# </details>


# %% tags=["answer"]
# answer: best_pair
def best_pair(pairs: dict[tuple[str, str], int]) -> tuple[str, str]:
    """The pair to merge next.

    pairs: pair → count; at least one
    """
    ### BEGIN SOLUTION
    return min(pairs, key=lambda pair: (-pairs[pair], len("".join(pair)), "".join(pair)))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("best_pair", best_pair)

# %% [markdown]
# ## 3 · Merge
#
# ★★☆ · 10 minutes
#
# Merge all occurrences of the pair in a word, from left to right. A symbol can be merged only once: `a a a` with the
# pair `a a` becomes `aa a`.
#
# <details><summary>Hint</summary>
#
# ```text
# go through the symbols with an index
#     if the pair is here: append both as one symbol, advance by two
#     else: append the one symbol, advance by one
# the last symbol has no right neighbour
# ```
# </details>
# <details><summary>Help: <code>list index out of range</code></summary>
#
# The last symbol has no right neighbour: check that there is one first. Or do you delete symbols while a `for` loop goes through
# `range(len(symbols))`? The list becomes shorter, but the range doesn't. Build a new list instead.
# </details>


# %% tags=["answer"]
# answer: merge_pair
def merge_pair(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    """The word's symbols, with all occurrences of the pair merged."""
    ### BEGIN SOLUTION
    merged: list[str] = []
    i = 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            merged.append("".join(pair))
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("merge_pair", merge_pair)

# %% [markdown]
# ## 4 · Learn
#
# ★★★ · 15 minutes · §5.1
#
# Now put it together: split every word into characters (as it is, without adding the mark ▁), count the pairs, merge the best one in all words, and repeat until there are
# enough merges or no pairs left. `given.count_pairs`, `given.best_pair` and `given.merge_pair` are your own functions once their checks
# show ✓, and the course's until then.
#
# <details><summary>Hint</summary>
#
# ```text
# while there are too few merges
#     count the pairs in the words as they are NOW; if there are none, stop
#     find the best pair and add it to the merges
#     merge that pair in every word
# ```
# </details>
# <details><summary>Help: <code>min() iterable argument is empty</code> (or <code>min() arg is an empty sequence</code>)</summary>
#
# When every word has become a single symbol, there are no pairs left. Stop then.
# </details>


# %% tags=["answer"]
# answer: learn
def learn(text: dict[str, int], n_merges: int) -> list[tuple[str, str]]:
    """The merges of a text, in order.

    text: word → how often it occurs; split the words as they are, without adding the mark ▁
    returns: at most n_merges pairs, each a tuple
    """
    ### BEGIN SOLUTION
    words, counts = [list(word) for word in text], list(text.values())
    merges: list[tuple[str, str]] = []
    while len(merges) < n_merges and (pairs := given.count_pairs(words, counts)):
        merges.append(given.best_pair(pairs))
        words = [given.merge_pair(symbols, merges[-1]) for symbols in words]
    return merges
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("learn", learn)

# %% [markdown]
# ## 5 · Segment
#
# ★★☆ · 10 minutes
#
# Split a word, perhaps one that isn't in the training text, into characters, and then apply the merges **in the order in which they
# were learned**. Characters that no merge contains stay as they are.
#
# <details><summary>Hint</summary>
#
# ```text
# the word as a list of characters
# for each merge, from the first to the last: apply it
# ```
# </details>
# <details><summary>Help: <code>unhashable type: 'list'</code></summary>
#
# You look up a pair in a dict or a set, and your pair is a list, which can't be a key. Make it a tuple, like the pairs in `merges`.
# </details>


# %% tags=["answer"]
# answer: segment
def segment(word: str, merges: list[tuple[str, str]]) -> list[str]:
    """The symbols of a word.

    merges: in the order of learning
    """
    ### BEGIN SOLUTION
    symbols = list(word)
    for pair in merges:
        symbols = given.merge_pair(symbols, pair)
    return symbols
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("segment", segment)

# %% [markdown]
# ## 6 · Decode
#
# ★☆☆ · 5 minutes
#
# Each word starts with the mark `▁` (a character of its own, not an underscore), so that the text can be reconstructed without guessing where its spaces were. Convert symbols
# to text: each mark becomes a space, except one at the very beginning, which is removed.
#
# <details><summary>Hint</summary>
#
# ```text
# all symbols in one string
# each mark becomes a space
# remove the one at the start
# ```
# </details>
# <details><summary>Help: <code>sequence item 0: expected str instance, list found</code></summary>
#
# `symbols` is already a list of strings: join it as it is.
# </details>


# %% tags=["answer"]
# answer: decode
def decode(symbols: list[str]) -> str:
    """The text that consists of these symbols."""
    ### BEGIN SOLUTION
    return "".join(symbols).replace("▁", " ").removeprefix(" ")
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("decode", decode)

# %% [markdown]
# Now use it on real words. We learn merges from the 500 most frequent German words in two thousand sentences of the pocket corpus, and split a frequent word and a compound
# that isn't in the corpus at all. Functions that begin with `given` are your own once their checks show ✓, and the course's until then.

# %%
from collections import Counter

from transformer.data import pocket

pairs = pocket.pairs("train", 2000)
counts = Counter(word for pair in pairs for word in pair.target_words)
merges = given.learn(dict(counts.most_common(500)), 200)
for word in ("nicht", "Handschuhfach"):
    print(f"{word} occurs {counts[word]} times")
    for n in (0, 10, 200):
        print(f"{n:5} merges:", *given.segment(word, merges[:n]))

# %% [markdown]
# The frequent word has become a single symbol. The unseen one hasn't, but it isn't unknown either: it consists of pieces that other words have, too, and of single characters where there is no such piece. With more text and more merges, the pieces become longer.

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade subword_tokenization` in a terminal
# does the same.
#
# Then read [`transformer/data/bpe.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/data/bpe.py). It learns the same merges, but updates only the counts that have changed, so a real text takes only seconds.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
