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
# Six blanks: the cross-entropy of a token, the smoothed target, the smoothed loss, its gradient, the loss of a batch with padding, and code with bugs to
# find (§5.4 of the paper).
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
import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.checks.label_smoothing import check, given

torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## 1 · Cross-entropy
#
# ★★☆ · 10 minutes
#
# The model outputs a logit $z_j$ for each token of the vocabulary. The softmax turns the logits into probabilities, and the loss is $-\ln p$ of
# the correct token. Expressed in logits it is
#
# $$\ln \sum_j e^{z_j} - z_\text{target}.$$
#
# Logits can be large, and $e^{1000}$ is infinite in every dtype. Compute the logarithm of the sum in a way that avoids this.
# PyTorch's own losses, such as `cross_entropy` and `nll_loss`, and `torch.distributions` are not allowed, because that is what you are writing.
#
# <details><summary>Hint</summary>
#
# ```text
# PyTorch has a stable function for the logarithm of a sum of exponentials
# take the logit of the target from each row: with gather, or by indexing with rows and targets
# ```
# </details>
# <details><summary>Help: <code>gather(): Expected dtype int32/int64 for index</code></summary>
#
# The index must contain integers: the target ids with an additional last axis of length one, not the logits.
# </details>
# <details><summary>Help: <code>Index tensor must have the same number of dimensions as input tensor</code></summary>
#
# `gather` needs an index with as many axes as the logits. Give the targets a second axis of length one, and remove it from the
# result.
# </details>


# %% tags=["answer"]
# answer: cross_entropy
def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Compute the cross-entropy of each token.

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
# The hard target is one for the correct token and zero for all others. To smooth it, take $\varepsilon$ from the correct token, and distribute it evenly over all tokens of the vocabulary, including that one.
#
# <details><summary>Hint</summary>
#
# ```text
# a tensor with ε / V everywhere        (tokens, vocab_size)
# add 1 - ε at the correct token
# ```
# </details>
# <details><summary>Help: <code>one_hot(): argument 'input' (position 1) must be Tensor, not int</code></summary>
#
# The first argument of `one_hot` is the tensor of all targets, the second the number of classes.
# </details>


# %% tags=["answer"]
# answer: smoothed_target
def smoothed_target(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    """Return the target distribution of each token.

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
# ## 3 · The smoothed loss
#
# ★★☆ · 10 minutes · §5.4
#
# The cross-entropy with a target distribution $q$ is $-\sum_j q_j \ln p_j$. `given.smoothed_target` is your own
# function once its check shows ✓, and the course's until then. As before, logits can be large, and PyTorch's own losses are not allowed: `cross_entropy` has an argument for smoothing,
# but here you write it yourself.
#
# <details><summary>Hint</summary>
#
# ```text
# ln p: PyTorch has a stable function for the logarithm of a softmax
# multiply by q, sum over the vocabulary, change the sign
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (2) must match the size of tensor b (4) at non-singleton dimension 1</code></summary>
#
# Target ids are not a distribution. Turn them into one first, as in blank 2.
# </details>


# %% tags=["answer"]
# answer: smoothed_loss
def smoothed_loss(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """Compute the smoothed loss of each token.

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
# How does the loss of a token change if one of its logits changes? The chapter has the answer; try to find it again without looking, with pencil and paper: what is the derivative of
# $\ln \sum_j e^{z_j} - \sum_j q_j z_j$ with respect to $z_j$? Then write the result as code, without autograd. Logits may be large.
#
# <details><summary>Hint</summary>
#
# ```text
# the derivative of the logarithm of the sum is something you know well: a probability
# the derivative of the other sum is the factor of z_j
# ```
# </details>
# <details><summary>Help: <code>element 0 of tensors does not require grad and does not have a grad_fn</code></summary>
#
# That is autograd. Here you do its work: the result is a formula in `logits` and `q`.
# </details>


# %% tags=["answer"]
# answer: gradient
def gradient(logits: Tensor, q: Tensor) -> Tensor:
    """Compute the gradient of each token's loss with respect to its logits.

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
# A batch contains padding, and the model shouldn't learn to predict it. Compute the mean of the losses over all **real** tokens of the batch, with equal
# weights. The loss of a batch without any real token is 0, and still a tensor that is computed from `losses`.
#
# <details><summary>Hint</summary>
#
# ```text
# which targets are real?
# the sum of their losses, divided by their number
# never divide by less than one
# ```
# </details>
# <details><summary>Help: <code>'bool' object has no attribute 'sum'</code></summary>
#
# `is not` compares two objects as a whole, and returns a single truth value. `!=` compares element by element.
# </details>


# %% tags=["answer"]
# answer: mean_loss
def mean_loss(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    """Compute the mean loss of the real tokens.

    losses: (batch, length), float; at every position, including padding
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
# What does smoothing change? In a vocabulary of ten tokens, let the right token's logit exceed the others by more and more, and compute its loss without smoothing (ε = 0) and with ε = 0.1. Functions that
# begin with `given` are your own once their checks show ✓, and the course's until then.

# %%
print("probability   ε = 0   ε = 0.1   slope of both")
for gap in (0.0, 2.0, 4.0, 6.0, 8.0, 12.0):
    logits = torch.tensor([[gap] + [0.0] * 9])
    target = torch.tensor([0])
    losses, slopes = [], []
    for smoothing in (0.0, 0.1):
        q = given.smoothed_target(target, 10, smoothing)
        losses.append(given.smoothed_loss(logits, target, smoothing).item())
        slopes.append(given.gradient(logits, q)[0, 0].item())
    p = logits.softmax(dim=-1)[0, 0].item()
    print(f"{p:9.4f}  {losses[0]:8.3f}  {losses[1]:7.3f}  {slopes[0]:8.2f} {slopes[1]:7.2f}")

# %% [markdown]
# Each row is a more confident prediction than the one above. Without smoothing, more confidence is always rewarded, however little. With smoothing, the loss has a minimum, and beyond it rises again: a
# model that is too sure is penalised. The last two columns are your gradient for the right token's logit. Where it is negative, a step of training raises the logit; where it is positive, it lowers it.

# %% [markdown]
# ## 6 · Find the bugs
#
# ★★☆ · 15 minutes
#
# In your own projects, you will use PyTorch's loss, and your mistakes will be in the code around it. The function below computes the loss of a batch from the logits of the decoder. It runs without
# an error and returns a plausible number, but it has **three bugs**. Delete the line that says *not done yet*, repair the code, and run the check after each repair: it counts the bugs that are left. Each bug is in a different line, and changing that line is enough.
#
# `F.cross_entropy` expects logits of the shape (batch, vocab_size, length): the vocabulary comes second. With `reduction="none"` it returns the loss at each position.
#
# Look for the bugs by experiments with a known result. Three of these are easy here. A prediction that is certain and right should cost nothing. The mean shouldn't depend on the order of the
# positions. And if all logits are equal, every token's loss is $\ln V$, where $V$ is the size of the vocabulary.
#
# <details><summary>Hint</summary>
#
# ```text
# one sentence of one token, a logit of 100 for the correct token, no smoothing: the loss?
# a sentence without padding, reversed in the logits and in the target: the same loss?
# all logits 0, with and without padding: the logarithm of the vocabulary size?
# ```
# </details>
# <details><summary>Help: <code>Expected target size [2, 7], got [2, 5]</code></summary>
#
# `F.cross_entropy` takes the second axis of its first argument for the vocabulary. Print the shape: the length must come last.
# </details>


# %% tags=["answer"]
# answer: loss_from_logits
def loss_from_logits(logits: Tensor, target: Tensor, pad_id: int, smoothing: float) -> Tensor:
    """Compute the mean loss of the real tokens from the logits of a batch.

    logits: (batch, length, vocab_size), float
    target: (batch, length), int64; at least one token is real
    smoothing: ε
    returns: a scalar tensor
    """
    ### BEGIN SOLUTION
    scores = logits.transpose(1, 2)  # (batch, vocab_size, length); reshape would mix the positions
    losses = F.cross_entropy(
        scores, target, reduction="none", label_smoothing=smoothing
    )  # from logits, not probabilities
    real = target != pad_id  # (batch, length)
    return (losses * real).sum() / real.sum()  # the mean over real tokens alone
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("loss_from_logits", loss_from_logits)

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade label_smoothing` in a terminal
# does the same.
#
# Then open [`transformer/loss.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/loss.py): its first function is what you have written in blanks 3 and 5, and the second one computes the same without ever storing all logits.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
