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
# # Exercises: attention
#
# Six blanks, from dot products to multi-head attention (§3.2 of the paper). Together they are the core of
# `transformer/attention.py`.
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

from exercises.checks.attention import check, given
from transformer.attention import attention

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · Scores
#
# ★☆☆ · 5 minutes · §3.2.1
#
# The dot product measures how well a key matches a query. Its size grows with the number of dimensions, so the paper divides it by $\sqrt{d_k}$:
#
# $$\frac{Q K^\top}{\sqrt{d_k}}$$
#
# Any number of axes, such as batch and heads, may come before the last two. Your code should handle them all. (What PyTorch
# calls a dimension, `dim`, is called an axis in these notebooks. The dimensions of a vector are its entries.)
#
# <details><summary>Hint</summary>
#
# ```text
# swap the last two axes of key           (…, d_k, n_key)
# multiply: query by that                 (…, n_query, n_key)
# divide by the square root of d_k, which is the length of the last axis of query
# ```
# </details>
# <details><summary>Help: <code>mat1 and mat2 shapes cannot be multiplied (2x4 and 3x4)</code></summary>
#
# In a matrix product the inner dimensions must be equal. Both matrices have one vector per row, so one of them has to be transposed.
# </details>
# <details><summary>Help: <code>sqrt(): argument 'input' (position 1) must be Tensor, not int</code></summary>
#
# `torch.sqrt` is for tensors. The size of an axis is a Python number, and the module `math` has a square root for those.
# </details>


# %% tags=["answer"]
# answer: attention_scores
def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """Scaled dot products of all queries with all keys.

    query: (..., n_query, d_k)
    key: (..., n_key, d_k)
    returns: (..., n_query, n_key)
    """
    ### BEGIN SOLUTION
    return query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("attention_scores", attention_scores)

# %% [markdown]
# ## 2 · Softmax
#
# ★☆☆ · 10 minutes · §3.2.1
#
# Turn each row of scores into positive weights that sum to one:
#
# $$\mathrm{softmax}(s)_j = \frac{e^{s_j}}{\sum_k e^{s_k}}$$
#
# Use `exp`, not PyTorch's own softmax. Be careful with large scores: $e^{1000}$ does not fit into a float, although the weights
# themselves are always between 0 and 1.
#
# <details><summary>Hint</summary>
#
# ```text
# subtracting the same number from all scores of a row does not change the softmax
# choose that number for each row so that no exponent is above 0
# exponentiate; divide each row by its sum
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1</code></summary>
#
# A sum or a maximum over the last axis removes that axis: (2, 3) becomes (2,), which does not broadcast to (2, 3). You need
# (2, 1): see `keepdim` in the documentation of `torch.sum`.
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for -: 'Tensor' and 'torch.return_types.max'</code></summary>
#
# When given an axis, `max` returns two things: the maxima and their indices. `amax` returns only the maxima.
# </details>


# %% tags=["answer"]
# answer: softmax
def softmax(scores: Tensor) -> Tensor:
    """Weights over the last axis.

    scores: (..., n)
    returns: (..., n), each row sums to one
    """
    ### BEGIN SOLUTION
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("softmax", softmax)

# %% [markdown]
# ## 3 · Scaled dot-product attention
#
# ★★☆ · 10 minutes · §3.2.1, equation (1)
#
# Each query is compared with all keys. Its output is the average of the values, weighted by how well their keys match:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# Return the output and the weights. You may use `given.attention_scores` and `given.softmax`: these are your own functions once
# their checks show ✓, and those of the course until then. The package's `attention`, which blank 6 uses, is not allowed here, and neither is PyTorch's
# `F.scaled_dot_product_attention`: both are this very function.
#
# <details><summary>Hint</summary>
#
# ```text
# scores                                  (…, n_query, n_key)
# weights: softmax of each query's scores (…, n_query, n_key)
# output: weights times value             (…, n_query, d_v)
# ```
# </details>
# <details><summary>Help: <code>it returns one value, but should return 2: output, weights</code></summary>
#
# A function returns two results as `return output, weights`.
# </details>


# %% tags=["answer"]
# answer: scaled_dot_product_attention
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs and attention weights of all queries.

    query: (..., n_query, d_k)
    key: (..., n_key, d_k)
    value: (..., n_key, d_v)
    returns: output (..., n_query, d_v) and weights (..., n_query, n_key)
    """
    ### BEGIN SOLUTION
    weights = given.softmax(given.attention_scores(query, key))
    return weights @ value, weights
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("scaled_dot_product_attention", scaled_dot_product_attention)

# %% [markdown]
# ## 4 · Split into heads
#
# ★☆☆ · 5 minutes · §3.2.2
#
# Blanks 4 to 6 belong to the next chapter, *Multi-head attention*: do them after reading it.
#
# Multi-head attention splits each vector into `n_heads` parts of $d_{head} = d_{model} / n_{heads}$ numbers, one for each
# head. The first head gets the first $d_{head}$ numbers of every vector. Attention works on the last two axes,
# so these have to be (length, d_head). The chapter uses `unflatten`: close it, and write yours with `reshape`.
#
# <details><summary>Hint</summary>
#
# ```text
# split the last axis in two:   (batch, length, heads, d_head)
# swap two axes:              (batch, heads, length, d_head)
# ```
# </details>
# <details><summary>Help: <code>shape '[1, 2, 2, 2]' is invalid for input of size 12</code></summary>
#
# The product of the four sizes must be the number of elements. One of yours is wrong: compare
# $d_{head}$ with `x.size(-1)` divided by `n_heads`.
# </details>
# <details><summary>Help: <code>failed to unpack the object at pos 4 with error "type must be tuple of ints,but got float"</code></summary>
#
# `/` returns a float even if there is no remainder. Sizes are integers: use `//`.
# </details>


# %% tags=["answer"]
# answer: split_heads
def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Split vectors into heads.

    x: (batch, length, d_model)
    returns: (batch, n_heads, length, d_model / n_heads)
    """
    ### BEGIN SOLUTION
    batch, length, d_model = x.shape
    return x.reshape(batch, length, n_heads, d_model // n_heads).transpose(1, 2)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("split_heads", split_heads)

# %% [markdown]
# ## 5 · Join the heads
#
# ★☆☆ · 5 minutes · §3.2.2
#
# The inverse: concatenate the outputs of the heads, head 0 first, so that each position has one vector again.
#
# <details><summary>Hint</summary>
#
# ```text
# undo what split_heads did, last step first:
# swap two axes               (batch, length, heads, d_head)
# merge the last two          (batch, length, d_model)
# ```
# </details>
# <details><summary>Help: <code>view size is not compatible with input tensor's size and stride</code></summary>
#
# `transpose` does not move anything in memory, and `view` can merge axes only if their elements are contiguous there.
# `reshape` copies if it has to.
# </details>


# %% tags=["answer"]
# answer: join_heads
def join_heads(heads: Tensor) -> Tensor:
    """Concatenate the heads' vectors.

    heads: (batch, n_heads, length, d_head)
    returns: (batch, length, n_heads * d_head)
    """
    ### BEGIN SOLUTION
    batch, n_heads, length, d_head = heads.shape
    return heads.transpose(1, 2).reshape(batch, length, n_heads * d_head)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("join_heads", join_heads)

# %% [markdown]
# ## 6 · Multi-head attention
#
# ★★★ · 15 minutes · §3.2.2
#
# Queries come from `x`, keys and values from `memory`. In self-attention, `memory` is `x` itself; in the decoder's
# cross-attention, it is the encoder's output. Each is multiplied by its matrix, all heads work in parallel, and
# the last matrix combines their outputs:
#
# $$\mathrm{Concat}(\mathrm{head}_1, \ldots, \mathrm{head}_h)\, W^O, \quad
# \mathrm{head}_i = \mathrm{Attention}(x W^Q_i, \mathrm{memory}\, W^K_i, \mathrm{memory}\, W^V_i)$$
#
# `w_query`, `w_key` and `w_value` contain the matrices of all heads side by side, so a single product computes all heads. The
# package's `attention(query, key, value)` is imported above and returns outputs and weights. You may also use
# `given.split_heads` and `given.join_heads`.
#
# <details><summary>Hint</summary>
#
# ```text
# query, key, value: project, then split into heads      (batch, heads, …, d_head)
# attend: one call for all heads; keep the output         (batch, heads, n_query, d_head)
# join the heads                                          (batch, n_query, d_model)
# project once more
# ```
# </details>
# <details><summary>Help: <code>'tuple' object has no attribute 'transpose'</code></summary>
#
# `attention` returns two things, output and weights. Take the first.
# </details>
# <details><summary>Help: <code>not enough values to unpack (expected 4, got 3)</code></summary>
#
# `join_heads` was given vectors that are not split into heads.
# </details>


# %% tags=["answer"]
# answer: multi_head_attention
def multi_head_attention(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    """Attend from x to memory with several heads.

    x: (batch, n_query, d_model)
    memory: (batch, n_key, d_model)
    w_query, w_key, w_value, w_output: (d_model, d_model)
    returns: (batch, n_query, d_model)
    """
    ### BEGIN SOLUTION
    query = given.split_heads(x @ w_query, n_heads)
    key = given.split_heads(memory @ w_key, n_heads)
    value = given.split_heads(memory @ w_value, n_heads)
    heads, _ = attention(query, key, value)
    return given.join_heads(heads) @ w_output
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("multi_head_attention", multi_head_attention)

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade attention` in a terminal
# does the same.
#
# Then open [`transformer/attention.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/attention.py). Its function `attention` is your third blank, and `MultiHeadAttention` your last three. Both
# also accept masks, the topic of chapter 4.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
