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
# # Exercises: making it fast on a GPU
#
# Seven blanks: what limits a matrix product, the online softmax, FlashAttention's inner loop, mixed precision, loss scaling, the gradient of several GPUs, and code with bugs to find. Each is a few lines,
# and none of them needs a GPU.
#
# **First run the two code cells below**; in Colab, choose *File → Save a copy in Drive* before that. Then write your code where a cell says *not done yet*, and run the check below it. The
# [first notebook](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb) explains the rest: hints, *Help*, and the rules for answers.
#
# - Don't modify the inputs of your functions: the checks notice. Gradients should flow through your attention: its check compares them, too.
# - At the end, your function shows which products of the paper's model are limited by memory.

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
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises.checks.gpu_performance import check, given

torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## 1 · Compute-bound or memory-bound?
#
# ★★☆ · 15 minutes
#
# A linear layer multiplies its input, (n_tokens, n_in), by its weight, (n_in, n_out). All numbers, including those of the result, have **16 bits**. The two matrices are
# read once, and the result is written once. How many floating-point operations does that take, and how many bytes are moved? Multiplications and
# additions both count, `n_in` of each for every number of the result.
#
# Return three results:
#
# - the arithmetic intensity, in FLOP per byte,
# - the shortest possible time in seconds, if arithmetic and memory traffic happen at the same time,
# - whether the product is compute-bound (True) or memory-bound (False) on this chip: **compute-bound** means that its arithmetic takes longer than its memory traffic,
#   memory-bound that it is the other way round. (If both take equally long, it is neither; the check doesn't test that.)
#
# <details><summary>Hint</summary>
#
# ```text
# each number of the result is a sum of n_in products: n_in multiplications and as many additions
# bytes: the size of three matrices, times two bytes
# one time for the arithmetic, one for the memory; the longer one decides
# ```
# </details>
# <details><summary>Help: <code>it returns one value, but should return 3: intensity, seconds, compute_bound</code></summary>
#
# A function returns three results as `return intensity, seconds, compute_bound`.
# </details>
# <details><summary>Help: <code>compute_bound is a str, but should be a bool</code></summary>
#
# Return True or False. A comparison such as `a > b` is one of the two already.
# </details>


# %% tags=["answer"]
# answer: roofline
def roofline(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> tuple[float, float, bool]:
    """What limits the matrix product of a linear layer.

    flop_rate: the chip's peak, in FLOP per second
    byte_rate: its memory bandwidth, in bytes per second
    returns: intensity, seconds, compute_bound
    """
    ### BEGIN SOLUTION
    flop = 2 * n_tokens * n_in * n_out
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    arithmetic, traffic = flop / flop_rate, n_bytes / byte_rate
    return flop / n_bytes, max(arithmetic, traffic), arithmetic > traffic
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("roofline", roofline)

# %% [markdown]
# ## 2 · The online softmax
#
# ★★☆ · 15 minutes
#
# A softmax needs the largest score of a row, and the sum of the exponentials relative to it, $\sum_j e^{s_j - \max}$. The **online softmax** computes both block by block, and needs each block of
# scores only once. Write the step that takes one more block into account.
#
# If the new block raises the maximum, the sum so far is relative to the wrong one, and has to be corrected. Before the first block, the maximum is $-\infty$ and the sum is 0. A masked score is $-\infty$, too, but
# the first block of each row has at least one that isn't. A later block may be masked completely. The check tries large scores, too.
#
# <details><summary>Hint</summary>
#
# ```text
# the new maximum: the larger one of the old maximum and the block's      (rows,)
# by which factor do exponentials shrink if the maximum rises from a to b?  e^(s - b) = e^(s - a) · …
# the new sum: the old one times that factor, plus the block's exponentials relative to the new maximum
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1</code></summary>
#
# There is one maximum for each row. To subtract it from all scores of its row, it needs a second axis of length one.
# </details>
# <details><summary>Help: <code>maximum(): argument 'other' (position 2) must be Tensor, not torch.return_types.max</code></summary>
#
# `scores.max(dim=-1)` returns two things, the values and where they are. `amax` returns only the values.
# </details>


# %% tags=["answer"]
# answer: update_softmax
def update_softmax(maximum: Tensor, total: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Take one more block of scores into account.

    maximum: (rows,), the largest score of each row so far
    total: (rows,), the sum of the exponentials so far, relative to maximum
    scores: (rows, block)
    returns: the new maximum and the new total
    """
    ### BEGIN SOLUTION
    new_maximum = torch.maximum(maximum, scores.amax(dim=-1))
    correction = (maximum - new_maximum).exp()
    exponentials = (scores - new_maximum[:, None]).exp()
    return new_maximum, total * correction + exponentials.sum(dim=-1)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("update_softmax", update_softmax)

# %% [markdown]
# ## 3 · FlashAttention's inner loop
#
# ★★★ · 30 minutes
#
# Now include the values, and something that the chapter's function doesn't have. A query's weights sum to one, so a head that needs nothing must still put its weight somewhere, often on a token that adds little: an attention sink
# (chapter 14). Some models, such as gpt-oss, have a sink that isn't a token. Each query gets one extra score, a learned number $b$, which has no key and no value. It takes part in the softmax, so the
# weights of the keys sum to less than one, and a head can attend to nothing at all. With $s = QK^\top / \sqrt{d_k}$, the output of a query is
#
# $$\frac{\sum_j e^{s_j}\, v_j}{e^b + \sum_j e^{s_j}}.$$
#
# Go through keys and values block by block, without ever storing all scores of a query. Besides the maximum and the sum of the exponentials, keep the **weighted sum of the values**, with the exponentials as weights. It is relative to the maximum, too. At
# the very end, divide it by the sum of the exponentials.
#
# In the code, $b$ is called `sink`. The check rejects PyTorch's own attention, and code that stores the scores of more than one block at once, whether in one table or in a list of blocks. The last block may be shorter than the others. The inputs include large scores and a large `sink`, positive or negative.
#
# <details><summary>Hint</summary>
#
# ```text
# three running results: maximum and total, (…, n_query, 1), and the weighted sum, (…, n_query, d_k)
# what do they begin with, if the sink is the first score, and its value is zero? then no block needs a special case
# `split` cuts a tensor into blocks of a given size along a given axis
# each block: its scores, (…, n_query, block), and then the step of blank 2, for two sums instead of one
# ```
# </details>
# <details><summary>Help: <code>mat1 and mat2 shapes cannot be multiplied (3x2 and 4x2)</code></summary>
#
# The product of queries and keys needs the transpose of the keys: `k.mT`.
# </details>
# <details><summary>Help: <code>The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 1</code></summary>
#
# `amax` and `sum` remove the axis along which they work. With `keepdim=True` it stays, with length one, so that each query has its own maximum and sum.
# </details>


# %% tags=["answer"]
# answer: blockwise_attention
def blockwise_attention(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    """The output of attention with a sink, computed block by block.

    query: (..., n_query, d_k), with any number of axes before these two
    key, value: (..., n_key, d_k)
    block: the largest number of keys to process at a time
    sink: one more score of each query, without a value
    returns: (..., n_query, d_k)
    """
    ### BEGIN SOLUTION
    maximum = torch.full_like(query[..., :1], sink)  # (..., n_query, 1)
    total, weighted = torch.ones_like(maximum), torch.zeros_like(query)
    for k, v in zip(key.split(block, dim=-2), value.split(block, dim=-2), strict=True):
        scores = query @ k.mT / math.sqrt(query.size(-1))  # (..., n_query, block)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        exponentials = (scores - new_maximum).exp()
        total = total * correction + exponentials.sum(dim=-1, keepdim=True)
        weighted = weighted * correction + exponentials @ v
        maximum = new_maximum
    return weighted / total
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("blockwise_attention", blockwise_attention)

# %% [markdown]
# ## 4 · Mixed precision
#
# ★★☆ · 10 minutes
#
# In bfloat16, 1 + 0.001 is 1, so a weight of 1 never moves if its steps are that small. In mixed precision the weight therefore stays in **float32**. Only the forward and backward passes run in bfloat16, with a copy of the weight.
#
# Train a weight with plain gradient descent: in each step, subtract the learning rate times the gradient. `gradient_of` runs both passes. It takes the weight in bfloat16, and returns the gradient in bfloat16.
# Everything else is computed in float32.
#
# <details><summary>Hint</summary>
#
# ```text
# `steps` times:
#     the gradient, at a bfloat16 copy of the weight as it is now
#     that gradient in float32, before anything is computed with it
#     the step, in float32
# ```
# </details>
# <details><summary>Help: <code>both passes run in bfloat16, but the weight is in float32</code></summary>
#
# Pass a copy: `weight.bfloat16()` makes one, and leaves the weight as it is.
# </details>


# %% tags=["answer"]
# answer: mixed_precision
def mixed_precision(
    weight: Tensor, gradient_of: Callable[[Tensor], Tensor], learning_rate: float, steps: int
) -> Tensor:
    """Some steps of gradient descent in mixed precision.

    weight: any shape, float32
    gradient_of: weight in bfloat16 → gradient in bfloat16, of the same shape
    returns: the weight after these steps, float32
    """
    ### BEGIN SOLUTION
    for _ in range(steps):
        gradient = gradient_of(weight.bfloat16())
        weight = weight - learning_rate * gradient.float()
    return weight
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("mixed_precision", mixed_precision)

# %% [markdown]
# ## 5 · Loss scaling
#
# ★★☆ · 15 minutes
#
# float16 has a smaller range than bfloat16, and small gradients would become 0. So the loss is multiplied by a large **scale** before the backward pass. The gradient is then larger by this factor, and may overflow: some of its numbers become infinite or
# NaN. Write the rest of the training step, with a scale that adapts itself like that of PyTorch's `GradScaler`:
#
# - **Overflow.** If any number of the gradient is infinite or NaN, leave the weight as it is, halve the scale, and count the good steps from 0 again.
# - **Otherwise**, convert the gradient to float32, divide it by the scale, and subtract the learning rate times the result from the weight. That was a good step. After `growth_interval` good steps in a row,
#   double the scale, and count from 0 again.
#
# Return the weight, the scale for the next step, and the number of good steps.
#
# <details><summary>Hint</summary>
#
# ```text
# isfinite() is True where a number is neither infinite nor NaN
# there are three cases, with three results each: an overflow, a good step, and one that doubles the scale
# the gradient was made with the old scale, and this step is one of the good ones
# ```
# </details>
# <details><summary>Help: <code>Boolean value of Tensor with more than one value is ambiguous</code></summary>
#
# `if` needs a single truth value. `.all()` and `.any()` reduce a tensor to one.
# </details>
# <details><summary>Help: <code>it returns one value, but should return 3: weight, scale, good_steps</code></summary>
#
# A function returns three results as `return weight, scale, good_steps`.
# </details>


# %% tags=["answer"]
# answer: loss_scaling_step
def loss_scaling_step(
    weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good_steps: int, growth_interval: int
) -> tuple[Tensor, float, int]:
    """A step of gradient descent with loss scaling.

    weight: any shape, float32
    gradient: the same shape, float16; of the loss times scale
    good_steps: since the scale changed
    returns: the new weight, scale and good_steps
    """
    ### BEGIN SOLUTION
    if not gradient.isfinite().all():
        return weight, scale / 2, 0
    weight = weight - learning_rate * (gradient.float() / scale)
    if good_steps + 1 == growth_interval:
        return weight, scale * 2, 0
    return weight, scale, good_steps + 1
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("loss_scaling_step", loss_scaling_step)

# %% [markdown]
# ## 6 · The gradient of several GPUs
#
# ★★☆ · 10 minutes
#
# A step's batch is divided among several GPUs, and each GPU divides its share into several smaller batches, which it processes one after another. For each of them you have the gradient of the **mean** loss over its
# tokens, and the number of these tokens.
#
# Return what a single, very large GPU would have computed: the gradient of the mean loss over all tokens of the step.
#
# <details><summary>Hint</summary>
#
# ```text
# a mean times its number of tokens is a sum
# sums may be added: over the batches of a GPU, and over the GPUs
# divide once, by all tokens together
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for +: 'int' and 'list'</code></summary>
#
# The lists are nested: a list of GPUs, each with a list of batches. Use two loops, one inside the other.
# </details>


# %% tags=["answer"]
# answer: step_gradient
def step_gradient(gradients: list[list[Tensor]], n_tokens: list[list[int]]) -> Tensor:
    """The gradient of the mean loss over all tokens.

    gradients: for each GPU a list (they may differ in length): for each of its batches, the gradient of the mean loss
    n_tokens: nested in the same way: each batch's number of tokens. If it is 0, so is its gradient
    returns: a tensor of the same shape as each gradient
    """
    ### BEGIN SOLUTION
    total, all_tokens = 0, 0
    for gpu_gradients, gpu_tokens in zip(gradients, n_tokens, strict=True):
        for gradient, n in zip(gpu_gradients, gpu_tokens, strict=True):
            total = total + n * gradient
            all_tokens += n
    return total / all_tokens
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("step_gradient", step_gradient)

# %% [markdown]
# ## 7 · Find the bugs
#
# ★★★ · 20 minutes
#
# The function below trains a model in float16, with PyTorch's own `GradScaler`. Each step has several batches, whose gradients are added up (**gradient accumulation**). The loss to be minimised is the mean over all tokens of the step, and the gradient of the whole step is clipped to the norm `max_norm`.
# The code runs without an error, and on most data the loss falls, but it has **three bugs**. Delete the line that says *not done yet*, repair the code, and run the check after each repair: it counts the bugs that are left.
#
# `scaler.scale` multiplies the loss by the scale, and `scaler.unscale_` divides the gradients by it. `scaler.update` adapts the scale for the next step, as your fifth blank does.
#
# Small experiments reveal the bugs, if you know their result beforehand. The hint suggests three. A call may look like this (float16 works on a CPU, too, only slowly):
#
# ```python
# torch.manual_seed(0)  # the same weights and the same examples every time
# model = nn.Linear(4, 5)
# batch = states, expected = torch.randn(8, 4), torch.randint(5, (8,))
# two_steps = [[batch], [batch]]  # each has a single batch
# print(train_with_loss_scaling(model, two_steps, learning_rate=0.5, max_norm=100.0, scale=1.0))
# ```
#
# The call changes the model, so make a new one for each call.
#
# <details><summary>Hint</summary>
#
# ```text
# two steps with all examples in one batch, and two with the same examples in two batches of different sizes: the same losses?
# a small max_norm, with a scale of 1 and with a scale of 1024: the same losses, apart from rounding?
# two steps on the same batch with a scale so large that the gradients become infinite, 2.0**40: what should the second loss be?
# ```
# </details>
# <details><summary>Help: <code>unscale_() has already been called on this optimizer since the last update()</code></summary>
#
# The gradients of a step are unscaled once, after those of all its batches have been added up. And each step ends with `scaler.update()`.
# </details>
# <details><summary>Help: <code>unscale_() is being called after step()</code> or <code>step() has already been called since the last update()</code></summary>
#
# In each step of training, `scaler.step` is called once, after the loop over the batches, and `scaler.update` comes after it. Is the update missing, or too early?
# </details>
# <details><summary>Help: <code>Attempted unscale_ but _scale is None</code></summary>
#
# Nothing has been scaled yet. Unscale the gradients after the backward passes.
# </details>
# <details><summary>Help: <code>No inf checks were recorded prior to update</code></summary>
#
# The scaler looks for infinite gradients in `scaler.unscale_`, or at the latest in `scaler.step`. One of them has to come before `scaler.update`.
# </details>


# %% tags=["answer"]
# answer: train_with_loss_scaling
def train_with_loss_scaling(
    model: nn.Module,
    steps: list[list[tuple[Tensor, Tensor]]],
    learning_rate: float,
    max_norm: float,
    scale: float,
) -> list[float]:
    """Train in float16 with SGD, gradient accumulation, loss scaling and clipping; return the loss of each step.

    model: states, (tokens, d_model) → logits, (tokens, vocab_size)
    steps: for each step, its batches: states, (tokens, d_model), and the expected tokens, (tokens,), int64
    scale: of the loss in the first step
    returns: for each step, the mean loss of its tokens, before the weights change
    """
    ### BEGIN SOLUTION
    optimizer = torch.optim.SGD(model.parameters(), learning_rate)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    losses = []
    for batches in steps:
        optimizer.zero_grad()
        step_loss = 0.0
        n_tokens = sum(len(expected) for _, expected in batches)  # batches differ in size
        for states, expected in batches:
            with torch.autocast("cpu", torch.float16):
                loss = F.cross_entropy(model(states), expected, reduction="sum") / n_tokens
            scaler.scale(loss).backward()
            step_loss += loss.item()
        scaler.unscale_(optimizer)  # max_norm is a norm of the true gradients
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)  # skips the step if a gradient is infinite or NaN
        scaler.update()
        losses.append(step_loss)
    return losses
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("train_with_loss_scaling", train_with_loss_scaling)

# %% [markdown]
# ## Which matrix products of the base model are memory-bound?
#
# There is nothing to fill in here. Your function finds out what limits the matrix products of the base model: *c* stands for compute-bound, *m* for memory-bound. (If the blank isn't done yet, the course's function is used instead.)

# %% tags=["nbval-skip"]
from transformer.plots.roofline import GPUS

layers = {"Q, K, V": (512, 1536), "output": (512, 512), "feed-forward in": (512, 2048), "logits": (512, 37_000)}
for n_tokens in (1, 64, 1024, 16_384):
    print(
        f"\n{n_tokens:,} token{'s' if n_tokens > 1 else ' '}       FLOP/byte   "
        + "  ".join(f"{name:>5}" for name in ("T4", "A100", "H100"))
    )
    for name, (n_in, n_out) in layers.items():
        limits = [
            given.roofline(n_tokens, n_in, n_out, GPUS[gpu].teraflops * 1e12, GPUS[gpu].bandwidth * 1e9)
            for gpu in ("T4", "A100", "H100")
        ]
        marks = "  ".join(f"{'c' if compute_bound else 'm':>5}" for _, _, compute_bound in limits)
        print(f"{name:16} {limits[0][0]:9.0f}   {marks}")

# %% [markdown]
# The first table shows what decoding one sentence, token by token, is like: a product does one multiplication and one addition for each weight that it reads, and every GPU waits for its memory. Only large batches make good use of its arithmetic units.

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade gpu_performance` in a terminal
# does the same.
#
# Then read `Trainer.step` and `Trainer._backward` in [`transformer/training/trainer.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/training/trainer.py). They do what you have just repaired (`step_if_finite` skips a step, as `scaler.step` does, but without waiting for the GPU), and divide by the tokens of all batches
# on all GPUs, as your sixth blank does.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
