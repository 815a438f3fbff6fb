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
# # Exercises: encoder and decoder layers
#
# Six blanks: the feed-forward network, layer normalisation, dropout, the two placements of the norm, and a stack of layers with bugs to find (§3.1, §3.3 and §5.4
# of the paper).
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
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from exercises.checks.layers import check, given

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · Feed-forward
#
# ★☆☆ · 5 minutes · §3.3
#
# The same small network is applied to each position. It widens the vector, applies a ReLU, and narrows the vector again:
# $\max(0, x W_1 + b_1) W_2 + b_2$.
#
# <details><summary>Hint</summary>
#
# ```text
# x times the first matrix, plus its bias   (batch, length, d_ff)
# negative values become 0
# times the second matrix, plus its bias    (batch, length, d_model)
# ```
# </details>
# <details><summary>Help: <code>max() received an invalid combination of arguments</code></summary>
#
# `torch.max` compares two tensors. Other functions compare a tensor with a number, and one exists for just this purpose.
# </details>
# <details><summary>Help: <code>Boolean value of Tensor with more than one value is ambiguous</code></summary>
#
# Python's `max` compares whole objects. `torch.relu` and `clamp` work entry by entry.
# </details>


# %% tags=["answer"]
# answer: feed_forward
def feed_forward(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    """The position-wise feed-forward network.

    x: (batch, length, d_model)
    w_1, b_1: (d_model, d_ff), (d_ff,)
    w_2, b_2: (d_ff, d_model), (d_model,)
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    return (x @ w_1 + b_1).relu() @ w_2 + b_2
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("feed_forward", feed_forward)

# %% [markdown]
# ## 2 · Layer norm
#
# ★★☆ · 10 minutes · §3.1
#
# For each vector separately: subtract its mean, divide by its standard deviation, then apply a learned gain $\gamma$ and a learned bias $\beta$ to
# each dimension:
#
# $$\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \cdot \gamma + \beta$$
#
# The variance $\sigma^2$ is the mean of the squares of $x - \mu$: their sum, divided by d_model and not by d_model - 1. (The mean of $x^2$ minus $\mu^2$ is the same in theory, but in float32 most of its digits are lost.) PyTorch's own
# layer norm is not allowed, because that is what you are writing.
#
# <details><summary>Hint</summary>
#
# ```text
# mean over the last axis, which must stay as an axis of length one
# variance the same way, with the divisor d_model
# ε belongs under the root
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 1</code></summary>
#
# The mean has lost the last axis, so it lines up with another one. Keep that axis, with length one.
# </details>


# %% tags=["answer"]
# answer: layer_norm
def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Normalise each vector, then scale and shift its dimensions.

    x: (..., d_model)
    gain, bias: (d_model,)
    returns: (..., d_model)
    """
    ### BEGIN SOLUTION
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / (variance + eps).sqrt() * gain + bias
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("layer_norm", layer_norm)

# %% [markdown]
# ## 3 · Dropout
#
# ★★☆ · 5 minutes · §5.4
#
# In training, each value is set to 0 with probability `rate`, and the others are scaled up so that the expected value stays the same.
# Here the random numbers are an argument: `draw` contains a number between 0 and 1 for each value, and a value is dropped if its number is **below**
# the rate. At inference time nothing happens. PyTorch's own dropout is not allowed, because it draws its own random numbers.
#
# <details><summary>Hint</summary>
#
# ```text
# not in training: x as it is
# which values stay?                      bool, the shape of x
# a fraction of 1 - rate of them stays: divide by it
# ```
# </details>
# <details><summary>Help: <code>Boolean value of Tensor with more than one value is ambiguous</code></summary>
#
# `if` needs a single bool, but `draw < rate` has one for each value. Multiply by it, or use `torch.where`.
# </details>


# %% tags=["answer"]
# answer: dropout
def dropout(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    """Return x with dropout.

    x, draw: the same shape
    rate: at least 0, below 1
    returns: the shape of x
    """
    ### BEGIN SOLUTION
    return x * (draw >= rate) / (1 - rate) if training else x
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("dropout", dropout)

# %% [markdown]
# ## 4 · Post-norm
#
# ★☆☆ · 5 minutes · §3.1
#
# The paper's placement: the sublayer's output is added to x, and the **sum** is normalised. `sublayer` and `norm` are functions from
# vectors to vectors.
#
# <details><summary>Hint</summary>
#
# ```text
# first the sublayer, then the sum, then the norm
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for +: 'Tensor' and 'function'</code></summary>
#
# `sublayer` is a function: call it.
# </details>


# %% tags=["answer"]
# answer: post_norm
def post_norm(x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the output of a residual connection whose sum is normalised.

    x: (batch, length, d_model)
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    return norm(x + sublayer(x))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("post_norm", post_norm)

# %% [markdown]
# ## 5 · Pre-norm
#
# ★☆☆ · 5 minutes
#
# The placement in most later models: only the sublayer's **input** is normalised. From the first layer to the last, x itself is only ever added to.
#
# <details><summary>Hint</summary>
#
# ```text
# first the norm, then the sublayer, then the sum with the original x
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for +: 'Tensor' and 'function'</code></summary>
#
# `sublayer` is a function: call it.
# </details>


# %% tags=["answer"]
# answer: pre_norm
def pre_norm(x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the output of a residual connection whose sublayer gets a normalised input.

    x: (batch, length, d_model)
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    return x + sublayer(norm(x))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("pre_norm", pre_norm)

# %% [markdown]
# What is the residual connection good for? Here ten vectors go through a stack of attention layers with random weights, and after each layer we compute how
# alike the positions are: the mean cosine of the angle between two of them, which is 1 if they all point the same way. Functions that
# begin with `given` are your own once their checks show ✓, and the course's until then.

# %%
from functools import partial

d_model, length = 64, 10
generator = torch.Generator().manual_seed(0)
weights = torch.randn(8, 3, d_model, d_model, generator=generator) / d_model**0.5


def norm(x: Tensor) -> Tensor:
    return given.layer_norm(x, torch.ones(d_model), torch.zeros(d_model), 1e-5)


def alike(x: Tensor) -> float:
    x = x / x.norm(dim=-1, keepdim=True)
    return ((x @ x.mT).sum().item() - length) / (length * (length - 1))


def attention(weight: Tensor, x: Tensor) -> Tensor:
    query, key, value = x @ weight[:, None]
    return (query @ key.mT / d_model**0.5).softmax(dim=-1) @ value


plain = post = pre = norm(torch.randn(1, length, d_model, generator=generator))
print("layers   none   post-norm   pre-norm")
for number, weight in enumerate(weights, 1):
    sublayer = partial(attention, weight)
    plain = norm(sublayer(plain))
    post = given.post_norm(post, sublayer, norm)
    pre = given.pre_norm(pre, sublayer, norm)
    print(f"{number:4}  {alike(plain):7.2f}  {alike(post):8.2f}  {alike(pre):10.2f}")

# %% [markdown]
# In the first column, without any residual connection, the positions can hardly be told apart after a few layers, because each layer replaces every vector by an average. With a residual connection
# each position keeps its own vector and only adds the average to it, so the differences last much longer. They last longest with pre-norm: x itself is never normalised, so it grows, and what a layer adds weighs less and less.

# %% [markdown]
# ## 6 · Find the bugs
#
# ★★☆ · 15 minutes · §3.1
#
# A stack of pre-norm encoder layers. It runs, and the shapes are right, but it has **three bugs**, each in a different line. Delete the line that says *not done yet*, repair the code, and run the check after each repair: it counts the bugs that are left.
#
# The functions in `layers` can be anything, and that makes bugs easy to find: call `encoder` with functions so simple that you know the result. Let a sublayer return 0 everywhere, a norm double what it gets, and the final norm change nothing. The hint suggests three experiments.
#
# <details><summary>Hint</summary>
#
# ```text
# all sublayers return 0, all norms double, the final norm changes nothing: what should the stack do with x?
# two layers in one call, or the first alone and then the second alone on its result: is it the same?
# one layer; replace its four functions one at a time: does the result change each time?
# ```
# </details>
# <details><summary>Help: <code>cannot access local variable 'normed' where it is not associated with a value</code></summary>
#
# A line uses `normed` before any line has computed it. Each sublayer reads vectors that have just been normalised.
# </details>


# %% tags=["answer"]
# answer: encoder
def encoder(
    x: Tensor, layers: Sequence[tuple[Callable[[Tensor], Tensor], ...]], final_norm: Callable[[Tensor], Tensor]
) -> Tensor:
    """A stack of pre-norm encoder layers.

    x: (batch, length, d_model)
    layers: for each layer its first norm, its attention, its second norm and its feed-forward network
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    output = x
    for norm_1, attention, norm_2, feed_forward in layers:
        normed = norm_1(output)  # not of x: the second layer reads what the first one returns
        output = output + attention(normed)  # output goes on unchanged; normed is only what attention reads
        normed = norm_2(output)  # with a norm of its own
        output = output + feed_forward(normed)
    return final_norm(output)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("encoder", encoder)

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade layers` in a terminal
# does the same.
#
# Then open [`transformer/layers.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/layers.py): an encoder layer has two of these residual connections, a decoder layer three.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
