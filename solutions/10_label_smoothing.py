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
# # Exercises: label smoothing
#
# Five blanks: the loss of a token, the target that leaves a little for the others, the loss against it, its gradient, and the
# loss of a batch with padding (§5.4 of the paper).
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
import torch
from torch import Tensor

from exercises.checks.label_smoothing import check, given

torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## 1 · Cross-entropy
#
# ★★☆ · 10 minutes
#
# The model gives a score $z_j$ for each token of the vocabulary. The softmax makes probabilities of them, and the loss is $-\ln p$ of
# the token that should have come. Written in scores it is
#
# $$\ln \sum_j e^{z_j} - z_\text{target}.$$
#
# Scores may be large: $e^{1000}$ is infinite in every dtype. Have the logarithm of the sum computed so that this does no harm.
#
# <details><summary>Hint</summary>
#
# ```text
# PyTorch knows the logarithm of a sum of exponentials, in one stable function
# from each row take the score of its target: gather, or index with rows and targets
# ```
# </details>
# <details><summary>Help: <code>gather(): Expected dtype int32/int64 for index</code></summary>
#
# The index must hold whole numbers: the target ids, with an axis of length one behind, not the scores.
# </details>
# <details><summary>Help: <code>Index tensor must have the same number of dimensions as input tensor</code></summary>
#
# `gather` wants an index with as many axes as the scores. Give the targets a second axis of length one, and take it away from the
# result.
# </details>


# %% tags=["answer"]
# answer: cross_entropy
def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """The loss of each token.

    logits: (tokens, vocab_size), float
    target: (tokens,), int64
    returns: (tokens,)
    """
    ### BEGIN SOLUTION
    return logits.logsumexp(dim=-1) - logits.gather(-1, target[:, None])[:, 0]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("cross_entropy", cross_entropy)

# %% [markdown]
# ## 2 · The smoothed target
#
# ★☆☆ · 5 minutes · §5.4
#
# In place of a one at the right token and zeros elsewhere: take $\varepsilon$ away from the one, and give every token of the
# vocabulary the same share of it. The right token gets its share back as well.
#
# <details><summary>Hint</summary>
#
# ```text
# a table that holds ε / V everywhere        (tokens, vocab_size)
# at the right token, 1 - ε on top
# ```
# </details>
# <details><summary>Help: <code>one_hot(): argument 'input' (position 1) must be Tensor, not int</code></summary>
#
# `one_hot` takes the tensor of all targets first, and then how many classes there are.
# </details>


# %% tags=["answer"]
# answer: smoothed_target
def smoothed_target(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    """The distribution that the model is asked for.

    target: (tokens,), int64
    smoothing: ε
    returns: (tokens, vocab_size), float32; each row sums to one
    """
    ### BEGIN SOLUTION
    q = torch.full((len(target), vocab_size), smoothing / vocab_size)
    q[torch.arange(len(target)), target] += 1 - smoothing
    return q
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("smoothed_target", smoothed_target)

# %% [markdown]
# ## 3 · The loss against it
#
# ★★☆ · 10 minutes · §5.4
#
# The cross-entropy with a target $q$ that has more than one token: $-\sum_j q_j \ln p_j$. `given.smoothed_target` is your own
# function once its check says ✓, and the course's until then. As before, scores may be large.
#
# <details><summary>Hint</summary>
#
# ```text
# ln p: PyTorch has the logarithm of a softmax as one stable function
# times q, summed over the vocabulary, with a minus
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (2) must match the size of tensor b (4) at non-singleton dimension 1</code></summary>
#
# Target ids are not a distribution. Make one of them first: that was the last exercise.
# </details>


# %% tags=["answer"]
# answer: smoothed_loss
def smoothed_loss(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The smoothed loss of each token.

    logits: (tokens, vocab_size), float
    target: (tokens,), int64
    returns: (tokens,)
    """
    ### BEGIN SOLUTION
    q = given.smoothed_target(target, logits.size(1), smoothing)
    return -(q * logits.log_softmax(dim=-1)).sum(dim=-1)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("smoothed_loss", smoothed_loss)

# %% [markdown]
# ## 4 · Its gradient
#
# ★★☆ · 15 minutes
#
# How does the loss of a token change when one of its scores does? With pencil and paper: the derivative of
# $\ln \sum_j e^{z_j} - \sum_j q_j z_j$ with respect to $z_j$. Write down what comes out, without autograd.
#
# <details><summary>Hint</summary>
#
# ```text
# the derivative of the logarithm of the sum is something you know well: a probability
# the derivative of the other sum is what stands beside z_j
# ```
# </details>
# <details><summary>Help: <code>element 0 of tensors does not require grad and does not have a grad_fn</code></summary>
#
# That is autograd. Here you do what it would do: the result is a formula of `logits` and `q`.
# </details>


# %% tags=["answer"]
# answer: gradient
def gradient(logits: Tensor, q: Tensor) -> Tensor:
    """The derivative of each token's loss in its scores.

    logits: (tokens, vocab_size), float
    q: (tokens, vocab_size); each row sums to one
    returns: (tokens, vocab_size)
    """
    ### BEGIN SOLUTION
    return logits.softmax(dim=-1) - q
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("gradient", gradient)

# %% [markdown]
# ## 5 · The loss of a batch
#
# ★☆☆ · 5 minutes
#
# A batch has padding, and nobody shall learn to predict it. Take the mean of the losses over all **real** tokens of the batch, each
# weighing the same. A batch without any real token has the loss 0.
#
# <details><summary>Hint</summary>
#
# ```text
# which targets are real?
# the sum of their losses, over how many they are
# never divide by less than one
# ```
# </details>
# <details><summary>Help: <code>'bool' object has no attribute 'sum'</code></summary>
#
# `is not` compares two objects as a whole, and gives one truth. `!=` compares number by number.
# </details>


# %% tags=["answer"]
# answer: mean_loss
def mean_loss(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    """The mean loss of the real tokens.

    losses: (batch, length), float; of every place, padding too
    target: (batch, length), int64
    returns: a scalar tensor
    """
    ### BEGIN SOLUTION
    real = target != pad_id
    return (losses * real).sum() / real.sum().clamp(min=1)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("mean_loss", mean_loss)

# %% [markdown]
# ## Done?
#
# Save the notebook, and have it graded: by the cell below, or in a terminal by `python -m exercises grade label_smoothing`.
#
# Then open `transformer/loss.py`: its first function is what you have just written, its second one never has all the scores at once.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
