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
# # Exercises: data and batching
#
# Six blanks on the way from two text files to the tensors that a model reads: filters for sentence pairs, the three tensors of a batch, the share of
# padding, batches with a budget, how to continue after an interruption, and code with bugs to find (§3.1 and §5.1 of the paper).
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
from collections.abc import Callable
from zlib import crc32

import torch
from torch import Tensor

from exercises.checks.data_and_batching import ENGLISH, GERMAN, check, given
from transformer.data.tokenizer import BOS, EOS, PAD  # 1, 2 and 0

SentencePair = tuple[str, str]  # a sentence and its translation

# %% [markdown]
# ## 1 · Filters for sentence pairs
#
# ★★☆ · 15 minutes · §5.1
#
# Text from the web is noisy, and the paper does not mention how it was cleaned. Drop a pair if one of the following is true, and keep all others, unchanged and in their original order. Words are separated by whitespace.
#
# 1. One side has no words.
# 2. One side has more than `max_words` words.
# 3. The longer side has more than `max_ratio` times as many words as the shorter one.
# 4. Both sides have the same words in the same order.
# 5. Exactly the same pair was kept before: both strings are equal, including whitespace.
#
# (The package has three more filters: for characters garbled by a wrong encoding, for very short pairs, and for other languages.)
#
# <details><summary>Hint</summary>
#
# ```text
# for each pair:
#     split both sides into words; count those of the shorter and of the longer side
#     if one of the five is true, continue with the next pair
#     keep the pair, and remember that you did
# ```
#
# If you divide in the third rule, make sure never to divide by zero.
# </details>
# <details><summary>Help: <code>'tuple' object has no attribute 'split'</code></summary>
#
# A pair consists of two sentences. Unpack it first: `for source, target in pairs`.
# </details>
# <details><summary>Help: <code>unhashable type: 'list'</code></summary>
#
# The elements of a set must be immutable. A list of words isn't, but a tuple of two strings is.
# </details>


# %% tags=["answer"]
# answer: clean_pairs
def clean_pairs(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    """Drop pairs that are useless or harmful for training.

    pairs: source and target sentences
    max_ratio: 1 or more
    returns: the pairs that are kept, unchanged and in their original order
    """
    ### BEGIN SOLUTION
    kept: list[SentencePair] = []
    seen: set[SentencePair] = set()
    for source, target in pairs:
        source_words, target_words = source.split(), target.split()
        shorter, longer = sorted([len(source_words), len(target_words)])
        fits = shorter > 0 and longer <= max_words and longer <= max_ratio * shorter
        is_new = (source, target) not in seen
        if fits and is_new and source_words != target_words:
            kept.append((source, target))
            seen.add((source, target))
    return kept
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("clean_pairs", clean_pairs)

# %% [markdown]
# ## 2 · The three tensors of a batch
#
# ★★☆ · 15 minutes · §3.1
#
# Now the sentences are lists of ids, of different lengths and without special tokens. Build the three tensors that training needs:
#
# | tensor | its rows |
# |---|---|
# | `source` | the source, then `EOS` |
# | `decoder_input` | `BOS`, then the target |
# | `labels` | the target, then `EOS`: the tokens to predict |
#
# Pad each row at its end with `PAD`, to the length of the longest row in the same tensor. Add nothing else: no `BOS` to the source, and no `EOS` to the decoder's
# input.
#
# <details><summary>Hint</summary>
#
# ```text
# a helper function: pads rows of ids to the longest one, and returns a tensor
# three times: add the special token to each row, then pad
# ```
# </details>
# <details><summary>Help: <code>expected sequence of length 2 at dim 1 (got 4)</code></summary>
#
# A tensor is rectangular, but your rows have different lengths. Pad them before you turn them into a tensor.
# </details>
# <details><summary>Help: <code>it returns one value, but should return 3: source, decoder_input, labels</code></summary>
#
# A function returns three values with `return source, decoder_input, labels`.
# </details>


# %% tags=["answer"]
# answer: training_batch
def training_batch(sources: list[list[int]], targets: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Build the input of the encoder, the input of the decoder, and the labels.

    sources, targets: the ids of each sentence, at least one
    returns: source (batch, longest source + 1), decoder_input and labels
        (batch, longest target + 1), all int64
    """

    ### BEGIN SOLUTION
    def padded(rows: list[list[int]]) -> Tensor:
        width = max(len(row) for row in rows)
        return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])

    source = padded([[*row, EOS] for row in sources])
    decoder_input = padded([[BOS, *row] for row in targets])
    labels = padded([[*row, EOS] for row in targets])
    return source, decoder_input, labels
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("training_batch", training_batch)

# %% [markdown]
# ## 3 · The share of padding
#
# ★☆☆ · 5 minutes
#
# The model processes every position of a batch, padding included. A batch has one row for each of its sentences, and all rows are as long as its longest
# sentence. Of all positions in all batches, what share is padding?
#
# <details><summary>Hint</summary>
#
# ```text
# positions of a batch: its number of sentences · the length of its longest sentence
# (all positions - all tokens) / all positions
# ```
# </details>
# <details><summary>Help: <code>list indices must be integers or slices, not list</code></summary>
#
# A batch is a list of indices, and a list accepts only one index at a time: `[lengths[i] for i in batch]`.
# </details>


# %% tags=["answer"]
# answer: padding_share
def padding_share(lengths: list[int], batches: list[list[int]]) -> float:
    """Compute the share of padding, between 0 and 1.

    lengths: number of tokens of each sentence
    batches: the indices of the sentences in each batch; sentence i has lengths[i]
        tokens, and each sentence is in one batch
    """
    ### BEGIN SOLUTION
    positions = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    return 1 - sum(lengths) / positions
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("padding_share", padding_share)

# %% [markdown]
# ## 4 · Batches with a budget
#
# ★★★ · 20 minutes · §5.1
#
# A batch should fit into memory, so it gets a budget: it may have at most `budget` positions, **padding included**. Sort the sentences by length, shortest first; sentences of equal length keep their
# order. Go through them in this order. Add each sentence to the current batch if the batch, with that sentence in it, is still within the budget. If not, the
# sentence starts the next batch, even if it is longer than the whole budget.
#
# (The course's own package counts the tokens of a batch without its padding, as the paper does, and has a second limit for the positions.)
#
# <details><summary>Hint</summary>
#
# ```text
# sort the indices of the sentences by length
# for each of them:
#     with this sentence, how many rows would the batch have, and how long would they be?
#     if these are too many positions, and the batch isn't empty: start a new batch
#     add the index to the batch
# don't forget the last batch
# ```
# </details>
# <details><summary>Help: <code>cannot unpack non-iterable int object</code></summary>
#
# `sorted(lengths)` contains only the lengths, not which sentences they belong to. Sort the indices `range(len(lengths))` instead, with a `key`.
# </details>


# %% tags=["answer"]
# answer: batches_by_tokens
def batches_by_tokens(lengths: list[int], budget: int) -> list[list[int]]:
    """Group sentences of similar length into batches.

    lengths: number of tokens of each sentence; there is at least one sentence
    budget: maximum number of positions in a batch, padding included
    returns: the indices of the sentences in each batch, shortest first; sentence i
        has lengths[i] tokens
    """
    ### BEGIN SOLUTION
    batches: list[list[int]] = []
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        positions = (len(batch) + 1) * lengths[i]  # the new sentence is the longest
        if batch and positions > budget:
            batches.append(batch)
            batch = []
        batch.append(i)
    return [*batches, batch]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("batches_by_tokens", batches_by_tokens)

# %% [markdown]
# How much padding does this save? We batch two thousand sentences of the pocket corpus with a budget of 600 positions: first in the order of the corpus, with as many sentences
# per batch as would fit if all were as long as the longest, and then by length. `given.batches_by_tokens` is your own function once its check shows ✓, and the course's until then.

# %%
from transformer.data import pocket

words = [len(pair.target_words) for pair in pocket.pairs("train", 2000)]
rows = 600 // max(words)
as_they_come = [list(range(i, min(i + rows, 2000))) for i in range(0, 2000, rows)]
by_length = given.batches_by_tokens(words, 600)
{
    name: f"{len(batches)} batches, {given.padding_share(words, batches):.1%} padding"
    for name, batches in (("as they come", as_they_come), ("by length", by_length))
}

# %% [markdown]
# ## 5 · Resume after an interruption
#
# ★★☆ · 15 minutes
#
# The batches are reshuffled for each epoch, and their order depends only on the number of the epoch: `order(3)` always returns the same list of batch numbers. So a checkpoint needs just two
# numbers: the epoch, and how many of its batches have been used. Return the batches that come next, including those of the following epochs if necessary.
#
# <details><summary>Hint</summary>
#
# ```text
# repeat count times:
#     while this epoch has no batches left: go to the start of the next epoch
#     take one batch
# ```
#
# Or: take what is left of this epoch, append whole epochs until there are enough batches, and cut off the rest.
# </details>
# <details><summary>Help: <code>'function' object is not subscriptable</code></summary>
#
# `order` is a function. Call it: `order(epoch)` returns a list.
# </details>
# <details><summary>Help: <code>'int' object is not iterable</code></summary>
#
# `+=` appends all elements of another list. To add a single batch, use `append`.
# </details>


# %% tags=["answer"]
# answer: read_on
def read_on(order: Callable[[int], list[int]], epoch: int, step: int, count: int) -> list[int]:
    """Return the next batches after an interruption.

    order: epoch → the numbers of its batches, in order; there is at least one,
        and epochs can have different numbers of batches
    epoch, step: where to continue; step batches of this epoch have been used,
        possibly all of them
    returns: the next count batches
    """
    ### BEGIN SOLUTION
    batches = order(epoch)[step:]
    while len(batches) < count:
        epoch += 1
        batches = [*batches, *order(epoch)]
    return batches[:count]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("read_on", read_on)

# %% [markdown]
# ## 6 · Find the bugs
#
# ★★★ · 20 minutes
#
# A parallel corpus usually comes in two files without a validation set. The code below makes training and validation data from the lines of the two files. It should do three things:
#
# - Remove whitespace, such as line breaks, from both ends of each line.
# - Drop a pair if one of its sides is empty.
# - Choose validation data by a **hash** of the source, a number that `crc32` computes from its characters. All translations of a sentence then get into the same set, whatever else is in the corpus. With `every=20`, about one sentence in twenty becomes validation data.
#
# The code has **three bugs**, and none of them raises an error. Training on its result doesn't fail either: the model becomes worse, or its validation score too good. Delete
# the line that says *not done yet*, repair the code, and run the check after each repair: it counts the bugs that are left. Each bug is in a different line, and changing that line is enough.
#
# `ENGLISH` and `GERMAN`, in the next cell, are the lines of two small files. You can try your code on them, or on your own lists:
#
# ```python
# train, valid = split_corpus(ENGLISH, GERMAN, every=2)
# ```
#
# <details><summary>Hint</summary>
#
# ```text
# read the training and the validation data pair by pair: is each a sentence and its translation?
# print one pair with repr: are there characters that you don't see otherwise?
# collect the sources of both sets, also with every=4: do they have any in common? should they?
# ```
# </details>
# <details><summary>Help: <code>not enough values to unpack (expected 2, got 0)</code></summary>
#
# An empty list of pairs was unpacked with `zip(*pairs)`. If all pairs of a small corpus are dropped, nothing is left to unpack. You don't need this: the code has the pairs already.
# </details>

# %%
for english, german in zip(ENGLISH, GERMAN, strict=True):
    print(repr(english).ljust(18), repr(german))


# %% tags=["answer"]
# answer: split_corpus
def split_corpus(
    source_lines: list[str], target_lines: list[str], every: int
) -> tuple[list[SentencePair], list[SentencePair]]:
    """Make training and validation data from the lines of two files.

    source_lines, target_lines: line i of one file is the translation of line i of the
        other, and both have the same number of lines
    every: one source sentence in this many, on average, becomes validation data
    returns: the pairs of the training data, and those of the validation data, both
        in their original order
    """
    ### BEGIN SOLUTION
    sources = [line.strip() for line in source_lines]
    targets = [line.strip() for line in target_lines]  # all whitespace, also the \r of Windows
    pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if s and t]  # empty lines go in pairs
    is_valid = [crc32(s.encode()) % every == 0 for s, t in pairs]  # the source alone decides
    train = [pair for pair, held_out in zip(pairs, is_valid, strict=True) if not held_out]
    valid = [pair for pair, held_out in zip(pairs, is_valid, strict=True) if held_out]
    return train, valid
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("split_corpus", split_corpus)

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade data_and_batching` in a terminal
# does the same.
#
# Then open [`transformer/data/cleaning.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/data/cleaning.py) and [`transformer/data/batching.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/data/batching.py), which do the same for millions of pairs.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
