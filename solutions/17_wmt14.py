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
# # Exercises: training the full model on WMT14
#
# Six blanks: how much arithmetic a run takes, and what it costs; test sentences in the training data; resuming after a crash, from the right
# checkpoint and at the right sentence; and whether two scores are comparable (§5.1, §5.2 and §6.1 of the paper). Nothing is
# trained here: this is what has to be right before and after.
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
from exercises.checks.wmt14 import check, given

OVERHEAD = 1.5  # the power of a whole machine with its cooling, relative to that of its GPUs

# %% [markdown]
# ## 1 · How much arithmetic?
#
# ★★★ · 30 minutes · §3
#
# In training, each weight costs **6 FLOP** for every token that it is applied to: a multiplication and an addition in the forward
# pass, and twice that in the backward pass. Count them for one sentence pair of `n` source and `m` target tokens. With $d$ for `d_model` and $f$ for `d_ff`:
#
# - Each kind of attention has four matrices of $d \times d$: for queries, keys, values and the output. In cross-attention, queries and
#   output belong to the target tokens, but keys and values are computed from the **encoder's** output.
# - The feed-forward network has one matrix of $d \times f$ and one of $f \times d$.
# - The output layer computes `vocab_size` logits at each position of the decoder. Looking up an embedding costs nothing.
# - Attention itself has no weights, but in every layer each query is compared with $k$ keys, and their $k$ values are averaged. For
#   **each** query, this is as much work as $2 \cdot k \cdot d$ weights. The decoder's mask saves nothing: all scores are computed, and
#   then half of them are hidden.
#
# Leave out biases and layer normalisation. The check compares your result with the operations that the package counts in a running model.
#
# <details><summary>Hint</summary>
#
# ```text
# weights applied to each source token: in n_layers encoder layers, and the keys and values of n_layers decoder layers
# weights applied to each target token: the rest of the decoder layers, and the output layer
# attention: n queries and n keys in the encoder, m and m in the decoder, m queries and n keys between them
# 6 times (n times the first, m times the second, and the work of attention in all layers)
# ```
# </details>
# <details><summary>Help: <code>NameError: name 'd' is not defined</code></summary>
#
# The formulas' $d$ and $f$ are the arguments `d_model` and `d_ff`. Give them shorter names with `d, f = d_model, d_ff`. And write a
# square as `d * d` or `d**2`: in Python, `d^2` is an operation on bits.
# </details>


# %% tags=["answer"]
# answer: training_flop
def training_flop(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    """Count the floating-point operations of training on one sentence pair.

    n_layers: the number of encoder layers, and of decoder layers
    n, m: the number of source tokens and of target tokens
    """
    ### BEGIN SOLUTION
    d, f = d_model, d_ff
    source = n_layers * (6 * d * d + 2 * d * f)
    target = source + vocab_size * d
    attention = 2 * n_layers * d * (n * n + m * m + m * n)
    return 6 * (n * source + m * target + attention)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("training_flop", training_flop)

# %% [markdown]
# ## 2 · Hours, kilowatt-hours and euros
#
# ★☆☆ · 10 minutes
#
# How long a run takes depends on how much of the GPUs' peak it reaches, the utilisation:
#
# $$ \text{seconds} = \frac{\text{FLOP}}{\text{peak} \cdot \text{utilisation} \cdot \text{GPUs}} $$
#
# The peak in a data sheet is in TFLOP/s, and one TFLOP is $10^{12}$ FLOP. Energy is power times time, for all GPUs together and times
# `OVERHEAD` (1.5, already defined), because the rest of the machine and its cooling need power, too. You rent all GPUs for the whole time, and the rent
# includes the electricity.
#
# <details><summary>Hint</summary>
#
# ```text
# seconds by the formula, with the peak in FLOP per second; an hour has 3,600 seconds
# hours times the watts of all GPUs times OVERHEAD are watt-hours; 1,000 of them are a kilowatt-hour
# hours times GPUs are GPU-hours
# ```
# </details>
# <details><summary>Help: <code>it returns one value, but should return 3: hours, kwh, euros</code></summary>
#
# A function returns three results as `return hours, kwh, euros`.
# </details>


# %% tags=["answer"]
# answer: run_costs
def run_costs(
    flop: float, teraflops: float, utilisation: float, gpus: int, watts: float, euros_per_gpu_hour: float
) -> tuple[float, float, float]:
    """Estimate what a training run costs.

    flop: the operations of the whole run
    teraflops: the peak of one GPU, in TFLOP/s
    utilisation: the share of the peak that is reached, from 0 to 1
    watts: the power of one GPU
    returns: hours, energy in kWh, rent in euros
    """
    ### BEGIN SOLUTION
    hours = flop / (teraflops * 10**12 * utilisation * gpus) / 3600
    kwh = hours * gpus * watts * OVERHEAD / 1000
    return hours, kwh, hours * gpus * euros_per_gpu_hour
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("run_costs", run_costs)

# %% [markdown]
# ## 3 · Test sentences in the training data
#
# ★★☆ · 15 minutes
#
# Part of the training data was collected from the web. If a sentence of the test set is in it, the model may have memorised the
# translation, and the score no longer shows how well it translates. So compare the two before you train.
#
# Drop a training pair if its source is the **source** of a test pair, **or** if its target is the **target** of one. Two sentences are
# the same if they have the same words in the same order. Whitespace, and upper and lower case, don't matter; punctuation does, because it
# belongs to the words. Return the other pairs with their texts exactly as they were.
#
# The training data has millions of pairs, and the test set 3,003. So look each sentence up in a `set` rather than in a list: a set is much
# faster, because looking something up takes the same time however many sentences it contains. (The check can't tell the two apart, because it
# tries only a few sentences.)
#
# <details><summary>Hint</summary>
#
# ```text
# a helper function: text → the same string for all texts that count as the same
#     (lower case; split into words; joined again by single spaces)
# a set of the test sources, and one of the test targets, all in this form
# keep a pair if neither of its sides, in this form, is in its set
# ```
# </details>
# <details><summary>Help: <code>unhashable type: 'list'</code></summary>
#
# The entries of a set can't change later, so they can't be lists. Join the words to a string, or make a tuple of them.
# </details>


# %% tags=["answer"]
# answer: without_test_sentences
def without_test_sentences(pairs: list[tuple[str, str]], test_pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Remove the overlap with the test set from the training data.

    pairs: (source, target) of the training data
    test_pairs: (source, target) of the test set
    returns: the pairs to train on, in the same order
    """

    ### BEGIN SOLUTION
    def normalised(text: str) -> str:
        return " ".join(text.lower().split())

    sources = {normalised(source) for source, _ in test_pairs}
    targets = {normalised(target) for _, target in test_pairs}
    return [(s, t) for s, t in pairs if normalised(s) not in sources and normalised(t) not in targets]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("without_test_sentences", without_test_sentences)

# %% [markdown]
# ## 4 · The checkpoint to resume from
#
# ★★☆ · 10 minutes
#
# A run was killed, perhaps in the middle of writing a checkpoint, and the disk may have lost a file, too. For each checkpoint, there is a record of
# the files that it needs, with their checksums. A checkpoint is complete if **all** its files are on the disk, with the
# **right** checksums. Return the step of the newest complete checkpoint, which is the one with the largest step, or None if there is none.
#
# <details><summary>Hint</summary>
#
# ```text
# go through the checkpoints: is each of its files on the disk, with the same checksum?
# a dict's method get returns None for a missing file, which equals no checksum
# of the steps that remain, the largest; max has an argument for the case that there are none
# ```
# </details>
# <details><summary>Help: <code>KeyError: 'state-3000'</code></summary>
#
# This file isn't on the disk. Don't take it out of the dict with square brackets before you know that it is there.
# </details>
# <details><summary>Help: <code>max() iterable argument is empty</code> or <code>max() arg is an empty sequence</code></summary>
#
# No checkpoint is complete. `max` takes an argument `default`: what to return in that case.
# </details>


# %% tags=["answer"]
# answer: newest_complete
def newest_complete(checkpoints: dict[int, dict[str, str]], on_disk: dict[str, str]) -> int | None:
    """Find the checkpoint from which a killed run should resume.

    checkpoints: step → the files that its checkpoint needs: name → checksum
    on_disk: the files that exist: name → checksum of the content
    returns: the step, or None
    """
    ### BEGIN SOLUTION
    complete = [
        step
        for step, files in checkpoints.items()
        if all(on_disk.get(name) == checksum for name, checksum in files.items())
    ]
    return max(complete, default=None)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("newest_complete", newest_complete)

# %% [markdown]
# ## 5 · Where to continue
#
# ★★☆ · 15 minutes
#
# All ranks compute the same shuffled plan of an epoch: a list of parts, each with the indices of some sentence pairs. Of `world_size`
# ranks, each takes every `world_size`-th part: rank 0 takes the parts 0, `world_size`, 2 · `world_size`, …; rank 1 takes the parts 1,
# `world_size` + 1, 2 · `world_size` + 1, … In a step, each rank processes `accumulation` of its own parts, one after the other (gradient accumulation).
#
# The run was killed. According to its checkpoint, `step` steps of this epoch are done. Return the parts that are left for one rank. In the
# end, every part should have been used exactly once, before the crash or after it.
#
# <details><summary>Hint</summary>
#
# ```text
# first the parts that belong to this rank: a slice can have a stride
# then: how many of these has it used already?
# ```
# </details>
# <details><summary>Help: <code>slice indices must be integers or None or have an __index__ method</code></summary>
#
# `/` returns a float. You need no division here; where you do, `//` returns an integer.
# </details>


# %% tags=["answer"]
# answer: parts_left
def parts_left(plan: list[list[int]], step: int, rank: int, world_size: int, accumulation: int) -> list[list[int]]:
    """Return the parts that one rank still has to process in this epoch.

    plan: the parts of all ranks; their number is a multiple of world_size · accumulation
    step: the number of steps of this epoch that are done
    rank: from 0 to world_size - 1
    returns: parts of the plan, in order
    """
    ### BEGIN SOLUTION
    own = plan[rank::world_size]
    return own[step * accumulation :]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("parts_left", parts_left)

# %% [markdown]
# ## 6 · Can these scores be compared?
#
# ★★☆ · 15 minutes
#
# A sacreBLEU score has a signature, such as `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0`: settings with their names and
# values. Two scores can be compared if all settings are equal. The `version` isn't a setting, so leave it out.
#
# Return the settings that differ, each with a pair of values, as a tuple or a list. Where a signature lacks a setting, its value is None. The order of the
# settings doesn't matter.
#
# <details><summary>Hint</summary>
#
# ```text
# split a signature at |, and each field at the colon: name and value
# a dict of these for each of the two signatures
# go through all names that are in either of them, except version
# the dict's method get returns None for what is missing
# ```
# </details>
# <details><summary>Help: <code>not enough values to unpack (expected 2, got 1)</code></summary>
#
# You split something that contains no colon. Split at `|` first, then each field at its colon.
# </details>
# <details><summary>Help: <code>KeyError: 'tok'</code></summary>
#
# One of the two signatures doesn't have this setting: it belongs to another metric.
# </details>


# %% tags=["answer"]
# answer: different_settings
def different_settings(signature: str, other: str) -> dict[str, tuple[str | None, str | None]]:
    """Compare the signatures of two scores.

    returns: name of a setting → (its value in signature, its value in other), if these differ
    """
    ### BEGIN SOLUTION
    first, second = (dict(field.split(":") for field in text.split("|")) for text in (signature, other))
    names = {*first, *second} - {"version"}
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("different_settings", different_settings)

# %% [markdown]
# ## Estimate your own run
#
# `given.training_flop` and `given.run_costs` are your own functions once their checks show ✓, and the course's until then. This cell estimates the
# training of the paper's base model: 100,000 steps of about 25,000 target tokens (§5.1, §5.2), in sentences of 30 tokens. Put in your GPU,
# and the price that you would pay for it. The utilisation of 15% is the chapter's estimate.

# %% tags=["nbval-skip"]
sentence_pairs = 100_000 * 25_000 / 30
flop = sentence_pairs * given.training_flop(512, 2048, 6, 37_000, n=30, m=30)
hours, kwh, euros = given.run_costs(flop, teraflops=312, utilisation=0.15, gpus=1, watts=400, euros_per_gpu_hour=1.0)
print(f"{flop:.2g} FLOP: {hours:.1f} hours, {kwh:.1f} kWh, {euros:.2f} euros")

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade wmt14` in a terminal
# does the same.
#
# Then read `_start_or_resume` in [`transformer/training/loop.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/training/loop.py) and `Batches` in [`transformer/data/batching.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/data/batching.py). They do what you have
# just written in 4 and 5; the first also tells the user which checkpoints are damaged.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
