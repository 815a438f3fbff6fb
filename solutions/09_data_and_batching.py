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
# Five blanks, on the way from two files of text to the numbers that a model reads: which pairs to keep, three rows of ids for each pair, how much of a
# batch is padding, batches of equal size, and how to go on after an interruption (§3.1 and §5.1 of the paper).
#
# - Write your code where a cell says *not done yet*, run the cell, and run the check below it. The check says ✓, or what is
#   wrong.
# - The blanks do not depend on each other: leave one open and go on.
# - Stuck? Unfold the hint. An error you do not understand? Its message may be under *Help*.
# - Only the cells that begin with `# answer:` are graded, so helpers of your own belong there too.

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
from collections.abc import Callable

import torch
from torch import Tensor

from exercises.checks.data_and_batching import check, given
from transformer.data.tokenizer import BOS, EOS, PAD  # 1, 2 and 0

SentencePair = tuple[str, str]  # a sentence and its translation

# %% [markdown]
# ## 1 · Which pairs to keep
#
# ★★☆ · 15 minutes · §5.1
#
# The text is dirty, and the paper does not say how it was cleaned. Keep a pair, as it is and in its place, unless one of these holds. A word is whatever
# stands between white space.
#
# 1. A side has no word.
# 2. A side has more than `max_words` words.
# 3. The longer side has more than `max_ratio` times the words of the shorter one.
# 4. Both sides have the same words in the same order.
# 5. The very same pair was kept before: both strings are equal, white space and all.
#
# (The package has two rules more: for characters that a wrong encoding destroyed, and for the very short.)
#
# <details><summary>Hint</summary>
#
# ```text
# for each pair:
#     the words of both sides; how many the shorter and the longer one has
#     go on to the next pair if one of the five holds
#     keep it, and remember that you did
# ```
#
# Does the third rule divide? Then see to it that it never meets a side without a word.
# </details>
# <details><summary>Help: <code>'tuple' object has no attribute 'split'</code></summary>
#
# A pair is two sentences. Take it apart first: `for source, target in pairs`.
# </details>
# <details><summary>Help: <code>unhashable type: 'list'</code></summary>
#
# A set holds what cannot change, and a list of words can. A pair of strings is a tuple of strings, and may go in.
# </details>


# %% tags=["answer"]
# answer: clean_pairs
def clean_pairs(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    """Leave out what teaches nothing or something wrong.

    pairs: source and target sentences
    max_ratio: 1 or more
    returns: the pairs that are kept, unchanged and in their order
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
# ## 2 · Three rows for each pair
#
# ★★☆ · 15 minutes · §3.1
#
# The sentences are lists of ids now, all of different lengths and without any mark. Make the three rectangles that training needs:
#
# | | its rows |
# |---|---|
# | `source` | the source, `EOS` |
# | `decoder_input` | `BOS`, the target: what the decoder reads |
# | `labels` | the target, `EOS`: what it should predict |
#
# Each row is filled up with `PAD` at its end, to the longest row of its own rectangle. Nothing else is added: no `BOS` for the source, and no `EOS` in what
# the decoder reads.
#
# <details><summary>Hint</summary>
#
# ```text
# a helper: rows of ids → a tensor, each row followed by as much padding as it lacks
# mark the rows first, then fill them up; three times
# ```
# </details>
# <details><summary>Help: <code>expected sequence of length 2 at dim 1 (got 4)</code></summary>
#
# A tensor is a rectangle, and your rows have different lengths. Fill them up before you make a tensor of them.
# </details>
# <details><summary>Help: <code>it returns one thing, and should return 3: source, decoder_input, labels</code></summary>
#
# A function returns three results as `return source, decoder_input, labels`.
# </details>


# %% tags=["answer"]
# answer: training_batch
def training_batch(sources: list[list[int]], targets: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """What the encoder reads, what the decoder reads, and what it should say.

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
# ## 3 · What padding costs
#
# ★☆☆ · 5 minutes
#
# The machine computes every cell of the rectangle, empty or not. A batch has a row for each of its sentences, and each row has as many cells as its longest
# sentence has tokens. Of all the cells of all batches, which share is padding?
#
# <details><summary>Hint</summary>
#
# ```text
# cells of a batch: its number of sentences · the length of its longest
# all cells less all tokens, divided by all cells
# ```
# </details>
# <details><summary>Help: <code>list indices must be integers or slices, not list</code></summary>
#
# A batch is a list of numbers, and a list can be asked for one entry at a time: `[lengths[i] for i in batch]`.
# </details>


# %% tags=["answer"]
# answer: padding_share
def padding_share(lengths: list[int], batches: list[list[int]]) -> float:
    """The share of padding, between 0 and 1.

    lengths: tokens of each sentence
    batches: the numbers of the sentences in each batch; sentence i has lengths[i]
        tokens, and each is in one batch
    """
    ### BEGIN SOLUTION
    cells = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    return 1 - sum(lengths) / cells
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("padding_share", padding_share)

# %% [markdown]
# ## 4 · Batches of equal size
#
# ★★★ · 20 minutes · §5.1
#
# Sort the sentences from short to long; equally long ones stay in their order. Then put one after the other into a batch, as long as its rectangle, **padding
# included**, has at most `budget` cells. Where the next one no longer fits, the next batch begins with it. A sentence that is longer than the budget has a
# batch of its own.
#
# (The package counts the tokens and not the padding, and bounds that in another way. What the memory has to hold is the rectangle.)
#
# <details><summary>Hint</summary>
#
# ```text
# numbers of the sentences, sorted by length
# for each of them:
#     how many rows would the batch have with it, and how wide would each be?
#     too many cells, and something in the batch: put the batch aside, begin another
#     add the number to the batch
# at the end one batch is still open
# ```
# </details>
# <details><summary>Help: <code>cannot unpack non-iterable int object</code></summary>
#
# `sorted(lengths)` has lengths only, and no longer says which sentence each of them was. Sort the numbers `range(len(lengths))`, with a `key`.
# </details>


# %% tags=["answer"]
# answer: batches_by_tokens
def batches_by_tokens(lengths: list[int], budget: int) -> list[list[int]]:
    """Put sentences of similar length together.

    lengths: tokens of each sentence, at least one
    budget: cells that a batch may have, padding included
    returns: batches from short to long, each the numbers of its sentences; sentence i
        has lengths[i] tokens
    """
    ### BEGIN SOLUTION
    batches: list[list[int]] = []
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        cells = (len(batch) + 1) * lengths[i]  # the newcomer is the longest
        if batch and cells > budget:
            batches.append(batch)
            batch = []
        batch.append(i)
    return [*batches, batch]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("batches_by_tokens", batches_by_tokens)

# %% [markdown]
# What is it worth? Two thousand sentences of the course's own corpus and a budget of 600 cells: first as they come, so many to a batch that the longest
# would fit, and then by length. `given.batches_by_tokens` is your own function once its check says ✓, and the course's until then.

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
# ## 5 · Go on where you were
#
# ★★☆ · 15 minutes
#
# The batches are shuffled, in each epoch anew, and the epoch's number tells the order: `order(3)` is always the same. So two numbers are all that a checkpoint
# has to know: the epoch, and how many of its batches have been read. Read on from there, into the next epochs where there is need.
#
# <details><summary>Hint</summary>
#
# ```text
# count times:
#     while nothing is left of this epoch: on to the next, and to its first batch
#     read one
# ```
#
# Or: what is left of this epoch, then whole epochs until there are enough; then cut.
# </details>
# <details><summary>Help: <code>'function' object is not subscriptable</code></summary>
#
# `order` is a function. Call it, as in `order(epoch)`: what it returns is a list.
# </details>
# <details><summary>Help: <code>'int' object is not iterable</code></summary>
#
# `+=` joins a list to a list. For a single batch there is `append`.
# </details>


# %% tags=["answer"]
# answer: read_on
def read_on(order: Callable[[int], list[int]], epoch: int, step: int, count: int) -> list[int]:
    """The next batches after an interruption.

    order: for each epoch the numbers of its batches, in the order in which they are
        read; at least one, and not always equally many
    epoch, step: where to go on; step batches of this epoch have been read,
        perhaps all of them
    returns: the numbers of the next count batches
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
# ## Done?
#
# Save the notebook, and have it graded: by the cell below, or in a terminal by `python -m exercises grade data_and_batching`.
#
# Then open `transformer/data/cleaning.py` and `transformer/data/batching.py`: there the same is done for millions of pairs.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
