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
# # Exercises: the full model
#
# Five blanks: the two stacks, the output layer, initialisation, and what the model costs in parameters and memory (§3.1 and §3.4 of the paper).
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
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from exercises.checks.full_model import check, given

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · Two stacks
#
# ★★☆ · 10 minutes · §3.1
#
# The source goes through all encoder layers, one after the other. The output of the **last** one is the memory. Then the target goes through
# the decoder layers, **every** one of which also reads the memory.
#
# <details><summary>Hint</summary>
#
# ```text
# the source through each encoder layer in turn: the memory
# the target through each decoder layer in turn, each given the memory as well
# ```
# </details>
# <details><summary>Help: <code>'list' object is not callable</code></summary>
#
# `encoder` is a list of layers. Call the layers in it, one by one.
# </details>


# %% tags=["answer"]
# answer: stacks
def stacks(
    source: Tensor,
    target: Tensor,
    encoder: Sequence[Callable[[Tensor], Tensor]],
    decoder: Sequence[Callable[[Tensor, Tensor], Tensor]],
) -> Tensor:
    """Apply the layers of encoder and decoder.

    source, target: (batch, length, d_model), embeddings plus positions
    encoder: its layers; call each with the vectors
    decoder: its layers; call each with the vectors and the memory, in this order
    returns: the output of the last decoder layer, (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    memory = source
    for encoder_layer in encoder:
        memory = encoder_layer(memory)
    for decoder_layer in decoder:
        target = decoder_layer(target, memory)
    return target
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("stacks", stacks)

# %% [markdown]
# ## 2 · The output layer
#
# ★☆☆ · 5 minutes · §3.4
#
# Compute the logits of the next token. With tied weights, the logit of a token is the dot product of the decoder's output with the token's own row of
# the embedding matrix. Return logits, not probabilities.
#
# <details><summary>Hint</summary>
#
# ```text
# states                       (batch, length, d_model)
# the matrix, transposed       (d_model, vocab_size)
# ```
# </details>
# <details><summary>Help: <code>mat1 and mat2 shapes cannot be multiplied (1x2 and 3x2)</code></summary>
#
# Each row of the matrix belongs to a token. To multiply all states by all tokens, the tokens must be columns.
# </details>


# %% tags=["answer"]
# answer: unembed
def unembed(states: Tensor, embedding: Tensor) -> Tensor:
    """The logits of all tokens at each position.

    states: (batch, length, d_model)
    embedding: (vocab_size, d_model)
    returns: (batch, length, vocab_size)
    """
    ### BEGIN SOLUTION
    return states @ embedding.T
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("unembed", unembed)

# %% [markdown]
# ## 3 · Xavier initialisation
#
# ★☆☆ · 5 minutes
#
# The variance of a sum of $n$ independent terms is $n$ times the variance of one term. A linear layer sums over its inputs in the forward pass, and over its
# outputs in the backward pass. Xavier's rule is a compromise: take the **mean** of the number of inputs and the number of outputs. The variance of the weights
# is 1 divided by this mean. What is their standard deviation?
#
# <details><summary>Hint</summary>
#
# ```text
# the mean of the two numbers
# 1 divided by it is the variance
# its square root is the standard deviation
# ```
# </details>
# <details><summary>Help: <code>must be real number, not tuple</code></summary>
#
# `math.sqrt` takes one number: compute it first.
# </details>


# %% tags=["answer"]
# answer: xavier_deviation
def xavier_deviation(n_in: int, n_out: int) -> float:
    """The standard deviation of a linear layer's weights before training."""
    ### BEGIN SOLUTION
    return math.sqrt(2 / (n_in + n_out))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("xavier_deviation", xavier_deviation)

# %% [markdown]
# ## 4 · Every parameter
#
# ★★☆ · 10 minutes · §3
#
# Count the parameters of a whole model, with post-norm and **one** matrix for source, target and output. (The chapter has this
# formula, too: work it out again without looking.)
#
# - an attention layer has four linear layers from d to d; a feed-forward network has two, one from d to f and one
#   from f to d; all of them have biases;
# - a layer norm has a gain and a bias for each of d features;
# - an encoder layer has one attention layer, a feed-forward network and two norms; a decoder layer has two attention layers, a feed-forward
#   network and three norms;
# - there are n layers on each side; the output layer has no bias; sinusoidal positions are not learned.
#
# <details><summary>Hint</summary>
#
# ```text
# how many numbers are in the matrix of a linear layer, and how many in its bias?
# one layer of each side first: its attention layers, its feed-forward network, its norms
# n of both, and the embedding matrix once
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for ^: 'float' and 'int'</code></summary>
#
# In Python, `^` isn't a power but a bitwise operation: `2 ^ 3` is 1. A power is written `**`.
# </details>


# %% tags=["answer"]
# answer: count_parameters
def count_parameters(d: int, f: int, n: int, v: int) -> int:
    """The number of parameters of a model.

    d, f, n, v: d_model, d_ff, layers on each side, vocabulary size
    """
    ### BEGIN SOLUTION
    attention = 4 * (d * d + d)
    feed_forward = (d * f + f) + (f * d + d)
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return n * (encoder_layer + decoder_layer) + v * d
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("count_parameters", count_parameters)

# %% [markdown]
# ## 5 · Memory
#
# ★☆☆ · 5 minutes · §5.3
#
# In training with float32, each parameter comes with a gradient and Adam's two moving averages, all of the same size. At inference, none of these is
# needed, and half precision is enough. Not counting activations, how many bytes does a model need in training, and how many at inference?
#
# <details><summary>Hint</summary>
#
# ```text
# training: four numbers of 32 bits for each parameter
# inference: one number of 16 bits for each parameter
# ```
# </details>
# <details><summary>Help: <code>it returns one value, but should return 2: training, inference</code></summary>
#
# A function returns two results as `return training, inference`.
# </details>


# %% tags=["answer"]
# answer: memory
def memory(parameters: int) -> tuple[int, int]:
    """The bytes that a model takes in training and at inference.

    returns: training in float32 with Adam; inference in float16
    """
    ### BEGIN SOLUTION
    return (4 + 4 + 8) * parameters, 2 * parameters
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("memory", memory)

# %% [markdown]
# With these two functions you can tell what the paper's base and big models cost before anybody trains them. Functions that begin with `given` are your own
# once their checks show ✓, and the course's until then.

# %%
for name, d, f in (("base", 512, 2048), ("big", 1024, 4096)):
    n_parameters = given.count_parameters(d, f, 6, 37_000)
    embedding = 37_000 * d / n_parameters
    training, inference = given.memory(n_parameters)
    print(f"{name:4}  {n_parameters / 1e6:6.1f} million parameters")
    print(f"        {embedding:5.0%} of them in the embedding matrix")
    print(f"        {training / 1e9:5.2f} GB to train it")
    print(f"        {inference / 1e9:5.2f} GB to use it")

# %% [markdown]
# The big model's vectors are twice as wide. That doubles the embedding matrix, but it makes every matrix in the layers four times as large, so the embedding's share falls. Compare also
# the last two lines of each model: training needs several times as much memory as inference, and the activations come on top.

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade full_model` in a terminal
# does the same.
#
# Then read [`transformer/model.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/model.py), and run `transformer parameters base` to count the parameters of the paper's model.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
