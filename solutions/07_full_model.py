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
# Five blanks: the two stacks, the way back to words, how a matrix begins, and what it all costs (§3.1 and §3.4 of the paper).
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
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from exercises.checks.full_model import check

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · Two stacks
#
# ★★☆ · 10 minutes · §3.1
#
# The source goes through all encoder layers, one after the other. What comes out of the **last** one is the memory, and **every** decoder
# layer looks at it, while the target goes through them.
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
    """Source and target through the model's layers.

    source, target: (batch, length, d_model), words and places already added
    encoder: its layers; each makes vectors of vectors
    decoder: its layers; each makes vectors of vectors and the memory, in this order
    returns: what the last decoder layer says
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
# ## 2 · Back to words
#
# ★☆☆ · 5 minutes · §3.4
#
# How well does each word of the vocabulary fit as the next? The score is the dot product of the decoder's vector with the word's own row in the
# embedding matrix. Asked are the scores, not yet probabilities.
#
# <details><summary>Hint</summary>
#
# ```text
# states                       (batch, length, d_model)
# the matrix, turned           (d_model, vocab_size)
# ```
# </details>
# <details><summary>Help: <code>mat1 and mat2 shapes cannot be multiplied (1x2 and 3x2)</code></summary>
#
# The matrix has its words in rows. For a product of all states with all words they must be columns.
# </details>


# %% tags=["answer"]
# answer: unembed
def unembed(states: Tensor, embedding: Tensor) -> Tensor:
    """The scores of all words at each position.

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
# ## 3 · Xavier's rule
#
# ★☆☆ · 5 minutes
#
# A sum of $n$ products of independent numbers has $n$ times their variance. A linear layer sums over its inputs on the way forward, and over its
# outputs on the way back. Xavier's rule keeps both near one: the weights' variance is one over the **mean** of the two numbers. With
# which standard deviation does a weight begin?
#
# <details><summary>Hint</summary>
#
# ```text
# the mean of the two numbers
# one over it is the variance
# asked is the deviation
# ```
# </details>
# <details><summary>Help: <code>must be real number, not tuple</code></summary>
#
# `math.sqrt` takes one number: compute it first.
# </details>


# %% tags=["answer"]
# answer: xavier_deviation
def xavier_deviation(n_in: int, n_out: int) -> float:
    """The standard deviation of a linear layer's weights at the start."""
    ### BEGIN SOLUTION
    return math.sqrt(2 / (n_in + n_out))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("xavier_deviation", xavier_deviation)

# %% [markdown]
# ## 4 · Every parameter
#
# ★★★ · 20 minutes · §3
#
# Count the parameters of a whole model, with post-norm and **one** matrix for source, target and output:
#
# - an attention has four linear layers from d to d; a feed-forward one from d to f and one from f to d; each with biases;
# - a norm has a factor and a shift for each of d features;
# - an encoder layer has an attention, a feed-forward and two norms; a decoder layer has two attentions, a feed-forward and three norms;
# - there are n layers on each side; the way back to words has no bias; sinusoids are not learned.
#
# <details><summary>Hint</summary>
#
# ```text
# attention: four times (d · d + d)
# feed-forward: (d · f + f) + (f · d + d)
# norm: 2 · d
# n · (encoder layer + decoder layer) + v · d
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for ^: 'float' and 'int'</code></summary>
#
# In Python `^` is not the power, not even of whole numbers: there it gives something, and something else. The power is `**`.
# </details>


# %% tags=["answer"]
# answer: count_parameters
def count_parameters(d: int, f: int, n: int, v: int) -> int:
    """How many numbers a model learns.

    d, f, n, v: d_model, d_ff, layers on each side, words
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
# While a model is trained in float32, each parameter has its gradient beside it, and Adam keeps two means for it, all of the same size. When it is
# only used, none of this is there, and half precision will do. How many bytes, without activations?
#
# <details><summary>Hint</summary>
#
# ```text
# training: four numbers of 32 bits for each parameter
# use: one number of 16 bits
# ```
# </details>
# <details><summary>Help: <code>it returns one thing, and should return 2: training, use</code></summary>
#
# A function returns two results as `return training, use`.
# </details>


# %% tags=["answer"]
# answer: memory
def memory(parameters: int) -> tuple[int, int]:
    """The bytes that a model takes in training, and those that it takes in use.

    returns: training in float32 with Adam; use in float16
    """
    ### BEGIN SOLUTION
    return (4 + 4 + 8) * parameters, 2 * parameters
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("memory", memory)

# %% [markdown]
# ## Done?
#
# Save the notebook, and have it graded: by the cell below, or in a terminal by `python -m exercises grade full_model`.
#
# Then open `transformer/model.py`, and let `transformer parameters base` count the paper's model.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
