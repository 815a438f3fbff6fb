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
# # Exercises: positional encoding
#
# Five blanks: the frequencies, the sinusoidal encoding, the shift that is a rotation, rotary positions, and the input of the
# first layer (§3.4 and §3.5 of the paper).
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
import math

import torch
from torch import Tensor

from exercises.checks.positional_encoding import check, given

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · Frequencies
#
# ★☆☆ · 5 minutes · §3.5
#
# Each pair of dimensions is a clock hand: one holds the sine of its angle, the other the cosine. From one position to the next,
# hand $i$ turns by $10000^{-2i/d_\text{model}}$ radians. The first hand is the fastest: it turns by one radian.
#
# <details><summary>Hint</summary>
#
# ```text
# i runs over the pairs: 0, 1, … d_model / 2 - 1
# 10000 to the power of -2i / d_model, for all of them at once
# ```
# </details>
# <details><summary>Help: <code>expected Tensor as element 0 in argument 0, but got float</code></summary>
#
# `torch.stack` joins tensors, not numbers. `torch.tensor` turns a list of numbers into a tensor. Better still, compute with a
# tensor that contains every i.
# </details>


# %% tags=["answer"]
# answer: frequencies
def frequencies(d_model: int) -> Tensor:
    """Return the angle, in radians, by which each clock hand turns from one position to the next.

    d_model: even
    returns: (d_model / 2,), float32
    """
    ### BEGIN SOLUTION
    return 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("frequencies", frequencies)

# %% [markdown]
# ## 2 · Sinusoidal encoding
#
# ★★☆ · 10 minutes · §3.5
#
# At position pos, each hand has the angle pos · frequency. Dimension $2i$ is the sine of hand $i$'s angle, dimension $2i+1$ the
# cosine of the **same** angle. `given.frequencies` is your own function once its check shows ✓, and the course's until then.
#
# <details><summary>Hint</summary>
#
# ```text
# angle[pos, i] = pos · frequency[i]      (length, d_model / 2)
# sines and cosines beside each other     (length, d_model / 2, 2)
# join the last two axes                  (length, d_model)
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0</code></summary>
#
# Positions and frequencies are both vectors. To multiply each position by each frequency, give the positions a second axis of length one.
# </details>


# %% tags=["answer"]
# answer: sinusoidal_encoding
def sinusoidal_encoding(length: int, d_model: int) -> Tensor:
    """Return the vector of each position, starting with position 0.

    returns: (length, d_model), float32
    """
    ### BEGIN SOLUTION
    angle = torch.arange(length)[:, None] * given.frequencies(d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("sinusoidal_encoding", sinusoidal_encoding)

# %% [markdown]
# ## 3 · The shift
#
# ★★★ · 20 minutes · §3.5
#
# The authors chose sinusoids because moving by a fixed offset is the same linear map everywhere. Show that it is: you are given the encodings of some
# positions, but not the positions. Compute the encodings of the positions $k$ later, as sums of the given numbers, each multiplied by a
# number that depends only on $k$ and the pair. (The check also tries vectors that aren't encodings: a linear map applies to
# those as well.) You may use `given.frequencies`. For an angle $a$ and a step $b$:
#
# $$\sin(a + b) = \sin a \cos b + \cos a \sin b, \qquad \cos(a + b) = \cos a \cos b - \sin a \sin b.$$
#
# <details><summary>Hint</summary>
#
# ```text
# b = k · frequency, one for each pair
# old sines: every second dimension from 0; old cosines: every second from 1
# new sines and new cosines by the two formulas, from the OLD ones
# put them next to each other again
# ```
# </details>
# <details><summary>Help: <code>'int' object has no attribute 'cos'</code></summary>
#
# `k` is one number, but each pair of dimensions has its own step: k times its frequency. These steps are a tensor, which has a cosine.
# </details>


# %% tags=["answer"]
# answer: shift
def shift(encoding: Tensor, k: int) -> Tensor:
    """Return the encodings of the positions k later.

    encoding: (n, d_model), of any n positions
    k: may be negative
    returns: (n, d_model)
    """
    ### BEGIN SOLUTION
    b = k * given.frequencies(encoding.size(-1))
    sin, cos = encoding[:, 0::2], encoding[:, 1::2]
    return torch.stack([sin * b.cos() + cos * b.sin(), cos * b.cos() - sin * b.sin()], dim=-1).flatten(1)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("shift", shift)

# %% [markdown]
# ## 4 · Rotary positional encoding (RoPE)
#
# ★★☆ · 15 minutes
#
# Rotary positions aren't added to anything. They rotate each pair of dimensions of a query or key by the angle of its position, so the dot product of
# a query and a key depends on their offset. Rotating $(x, y)$ by $a$ gives
# $(x \cos a - y \sin a,\ x \sin a + y \cos a)$. The frequencies are those of blank 1, with $d_\text{head}$ in place of
# $d_\text{model}$: `given.frequencies(d_head)`. In the code, $d_\text{head}$ is the size of the last axis of `x`.
#
# <details><summary>Hint</summary>
#
# ```text
# angle[pos, i] = pos · frequency[i]      (length, d_head / 2)
# x: dimensions 0, 2, 4, …   y: dimensions 1, 3, 5, …
# rotate, and put the two next to each other again
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 1</code></summary>
#
# There is one angle for each pair, so there are half as many angles as dimensions. Separate the even and the odd dimensions first.
# </details>


# %% tags=["answer"]
# answer: rotate
def rotate(x: Tensor) -> Tensor:
    """Rotate each pair of neighbouring dimensions by the angle of its position.

    x: queries or keys, (..., length, d_head); positions count from 0
    returns: (..., length, d_head)
    """
    ### BEGIN SOLUTION
    angle = torch.arange(x.size(-2))[:, None] * given.frequencies(x.size(-1))
    even, odd = x[..., 0::2], x[..., 1::2]
    rotated = even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()
    return torch.stack(rotated, dim=-1).flatten(-2)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("rotate", rotate)

# %% [markdown]
# ## 5 · The input of the first layer
#
# ★☆☆ · 5 minutes · §3.4
#
# Look up the embedding of each token, multiply it by $\sqrt{d_\text{model}}$, and add the vector of its position. The positional
# encoding has enough rows for the longest sentence, so take only as many as you need.
#
# <details><summary>Hint</summary>
#
# ```text
# table[ids]                              (batch, length, d_model)
# times the root of d_model
# plus the first `length` rows of encoding
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1</code></summary>
#
# The positional encoding is longer than the sentences of this batch: take its first rows only.
# </details>


# %% tags=["answer"]
# answer: embed
def embed(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    """Return the embeddings, scaled, plus the positional encoding.

    ids: (batch, length), int64
    table: (vocab_size, d_model), the embedding of each token
    encoding: (max_length, d_model), a vector for each position
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    return table[ids] * math.sqrt(table.size(1)) + encoding[: ids.size(1)]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("embed", embed)

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade positional_encoding` in a terminal
# does the same.
#
# Then open [`transformer/positions.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/positions.py), where you will find your first two blanks and the fourth. The fifth is `embed` in
# [`transformer/model.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/model.py). Only the chapter needs the shift.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
