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
# # Exercises: training
#
# Seven blanks: the parts of a training step, averaging checkpoints (§5.3 and §6.1 of the paper), and a training loop with bugs for you to find. Each is a few lines.
# Many mistakes here raise no error: the loss still falls, just not as far.
#
# **First run the two code cells below**; in Colab, choose *File → Save a copy in Drive* before that. Then write your code where a cell says *not done yet*, and run the check below it. The
# [first notebook](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb) explains the rest: hints, *Help*, and the rules for answers.
#
# - A model is trained through the loss of blank 2, so it has to be differentiable: use tensor operations only. A detour through Python
#   numbers, lists or arrays stops the gradients, and its check compares gradients, too. Nothing has to flow back through the others.
# - At the end, your functions train a small model.

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
from torch import Tensor, nn

from exercises.checks.training import check, given

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · The learning rate
#
# ★☆☆ · 5 minutes · §5.3
#
# The learning rate rises linearly during the warm-up, and then falls with the inverse square root of the step:
#
# $$\eta = d_\text{model}^{-1/2} \cdot \min(\text{step}^{-1/2},\ \text{step} \cdot \text{warmup}^{-3/2})$$
#
# <details><summary>Hint</summary>
#
# ```text
# 1 divided by a square root is the power -0.5
# both terms are equal at step = warmup_steps; before that, the second one is smaller
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for ^: 'int' and 'float'</code></summary>
#
# In Python, `^` is an operation on bits. A power is written `**`.
# </details>


# %% tags=["answer"]
# answer: learning_rate
def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """The learning rate of a step.

    step: the step about to be taken, counted from 1
    """
    ### BEGIN SOLUTION
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("learning_rate", learning_rate)

# %% [markdown]
# ## 2 · The loss of a batch
#
# ★☆☆ · 5 minutes
#
# At each position the model outputs a logit for every token of the vocabulary, and one token is correct: the label. The loss of a
# position is $-\ln p$ of that token. The loss of a batch is the mean over all positions of all sentences whose label is a **real**
# token: the model shouldn't learn to predict padding.
#
# These are blanks 1 and 5 of the notebook on label smoothing in a single function, for a whole batch and without smoothing. The check
# tries large logits, too.
#
# <details><summary>Hint</summary>
#
# ```text
# logits → log-probabilities over the vocabulary       (batch, length, vocab_size)
# at each position, that of the expected token         (batch, length)
# keep the positions where expected isn't pad_id; negate; mean
# or: PyTorch's cross_entropy does all this, if you tell it which id to ignore
# ```
# </details>
# <details><summary>Help: <code>Expected target size [1, 3], got [1, 4]</code></summary>
#
# `cross_entropy` expects the vocabulary in the second dimension. Here it is the last: swap the two, or flatten the others to
# (batch · length, vocab_size).
# </details>
# <details><summary>Help: <code>Index tensor must have the same number of dimensions as input tensor</code></summary>
#
# `gather` selects along one dimension, and the index needs this dimension as well, with size 1. So does the result.
# </details>


# %% tags=["answer"]
# answer: batch_loss
def batch_loss(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    """The mean of -ln p over the real tokens of a batch.

    logits: (batch, length, vocab_size)
    expected: (batch, length), int64; pad_id where a sentence has ended
    returns: a tensor with a single number, of shape ()
    """
    ### BEGIN SOLUTION
    log_probs = logits.log_softmax(dim=-1)
    losses = -log_probs.gather(-1, expected[:, :, None])[:, :, 0]  # (batch, length)
    return losses[expected != pad_id].mean()
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("batch_loss", batch_loss)

# %% [markdown]
# ## 3 · Gradient accumulation
#
# ★★★ · 20 minutes
#
# A batch that doesn't fit into memory is processed in parts. PyTorch helps: each `backward()` **adds** to the existing gradients.
# The result should be exactly the gradient of the whole batch. The trap is that the parts have different numbers of real tokens.
# The logits of all parts must never be in memory at the same time, and the check tests that.
#
# The model here is one matrix: the logits of a part are `states @ weight.T`. You may use `F.cross_entropy`.
#
# <details><summary>Hint</summary>
#
# ```text
# a tensor that needs a gradient: weight = weight.detach().requires_grad_()
# n: the number of real tokens in all parts
# for each part:
#     the sum of its losses over the real tokens (reduction="sum", and an id to ignore)
#     divide by n, and call backward
# weight.grad
# ```
# </details>
# <details><summary>Help: <code>element 0 of tensors does not require grad and does not have a grad_fn</code></summary>
#
# PyTorch doesn't record what is computed from a plain tensor. Make one that needs a gradient: `weight.detach().requires_grad_()`.
# </details>
# <details><summary>Help: <code>Trying to backward through the graph a second time</code></summary>
#
# You add up the losses of the parts and call `backward` on the sum after each part, so it goes through the first part twice. Call
# it on each part's own loss: the gradients add up by themselves.
# </details>


# %% tags=["answer"]
# answer: accumulated_gradient
def accumulated_gradient(weight: Tensor, parts: list[tuple[Tensor, Tensor]], pad_id: int) -> Tensor:
    """The gradient of the mean loss over the real tokens of all parts.

    weight: (vocab_size, d_model), without a gradient so far
    parts: for each part, its states, (tokens, d_model), and the expected tokens, (tokens,), int64
    returns: (vocab_size, d_model)
    """
    ### BEGIN SOLUTION
    weight = weight.detach().requires_grad_()  # a tensor of our own, which shares the numbers
    n_tokens = sum((expected != pad_id).sum() for _, expected in parts)
    for states, expected in parts:
        loss = F.cross_entropy(states @ weight.T, expected, ignore_index=pad_id, reduction="sum")
        (loss / n_tokens).backward()
    return weight.grad
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("accumulated_gradient", accumulated_gradient)

# %% [markdown]
# ## 4 · Clipping
#
# ★★☆ · 10 minutes
#
# A single batch can have a gradient so large that one step ruins the model. To prevent this, a gradient whose norm is larger than `max_norm` is
# scaled down to that norm; its **direction stays the same**. All tensors of the model together form one long vector with one norm: the root of the sum of all squares.
#
# The paper doesn't mention clipping, but most recipes have it. PyTorch has a function for it; here you write it yourself.
#
# <details><summary>Hint</summary>
#
# ```text
# add up the squares of all numbers of all tensors; take the root
# if it is at most max_norm, return the gradients unchanged
# otherwise multiply every tensor by the same factor, so that the norm becomes max_norm
# ```
# </details>
# <details><summary>Help: <code>stack expects each tensor to be equal size</code></summary>
#
# The gradients have different shapes, so they can't be stacked. Compute a number for each: the sum of its squares.
# </details>
# <details><summary>Help: <code>division by zero</code></summary>
#
# If all gradients are 0, their norm is 0, too, and there is nothing to scale.
# </details>


# %% tags=["answer"]
# answer: clip_by_norm
def clip_by_norm(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    """Gradients that together are no longer than max_norm.

    gradients: tensors of any shapes
    returns: tensors of the same shapes, in the same order
    """
    ### BEGIN SOLUTION
    norm = sum(float(gradient.square().sum()) for gradient in gradients) ** 0.5
    if norm <= max_norm:
        return gradients
    return [gradient * (max_norm / norm) for gradient in gradients]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("clip_by_norm", clip_by_norm)

# %% [markdown]
# ## 5 · A step of Adam
#
# ★★★ · 20 minutes · §5.3
#
# Adam keeps two moving averages for each weight: $m$ of its gradient $g$, and $v$ of the square of $g$.
#
# $$m \leftarrow \beta_1 m + (1 - \beta_1)\, g \qquad v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2$$
#
# Both start at zero, so they are too small at first. The **bias correction** makes up for that. At step $t$, counted from 1, the update is
#
# $$\hat m = \frac{m}{1 - \beta_1^t} \qquad \hat v = \frac{v}{1 - \beta_2^t} \qquad
# \text{weight} \leftarrow \text{weight} - \eta \cdot \frac{\hat m}{\sqrt{\hat v} + \epsilon}$$
#
# The paper's settings differ from the libraries' defaults: $\beta_1 = 0.9$, $\beta_2 = 0.98$, $\epsilon = 10^{-9}$. Return the new
# weight, and $m$ and $v$ **without** the correction, for the next step. The learning rate $\eta$ is called `rate`.
#
# <details><summary>Hint</summary>
#
# ```text
# new m, new v                     (all tensors have the shape of weight)
# correct them, but give the results other names
# new weight: a step against the gradient
# ```
# </details>
# <details><summary>Help: <code>it returns one value, but should return 3: weight, m, v</code></summary>
#
# A function returns three results as `return weight, m, v`.
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for ^: 'float' and 'int'</code></summary>
#
# In Python, `^` is an operation on bits. A power is written `**`.
# </details>


# %% tags=["answer"]
# answer: adam_step
def adam_step(
    weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of Adam, with the paper's settings.

    weight, gradient, m, v: all of one shape
    step: counted from 1
    rate: the learning rate of this step
    returns: the new weight, m and v
    """
    ### BEGIN SOLUTION
    m = 0.9 * m + 0.1 * gradient
    v = 0.98 * v + 0.02 * gradient**2
    m_hat = m / (1 - 0.9**step)
    v_hat = v / (1 - 0.98**step)
    return weight - rate * m_hat / (v_hat.sqrt() + 1e-9), m, v
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("adam_step", adam_step)

# %% [markdown]
# ## 6 · The average of checkpoints
#
# ★☆☆ · 10 minutes · §6.1
#
# The paper doesn't translate with the last weights of a training run but with the average of several checkpoints; for a base model, the last five.
# Checkpoints are scattered around a good solution, and their mean is closer to it than most of them are.
#
# A checkpoint is a dict from the name of a weight to its tensor. All have the same names and shapes.
#
# <details><summary>Hint</summary>
#
# ```text
# for each name: the tensors of all checkpoints, stacked     (checkpoints, …)
# the mean over that first dimension
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for +: 'int' and 'dict'</code></summary>
#
# Dicts can't be added. Go through the names, and add up the tensors of each name.
# </details>
# <details><summary>Help: <code>mean() received an invalid combination of arguments - got (list, dim=int)</code></summary>
#
# `torch.mean` takes a single tensor, and you have a list. `torch.stack` turns the list into one tensor.
# </details>


# %% tags=["answer"]
# answer: average_checkpoints
def average_checkpoints(checkpoints: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight.

    checkpoints: name → tensor, one dict each; at least one
    returns: the same names and shapes
    """
    ### BEGIN SOLUTION
    names = checkpoints[0].keys()
    return {name: torch.stack([weights[name] for weights in checkpoints]).mean(dim=0) for name in names}
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("average_checkpoints", average_checkpoints)

# %% [markdown]
# ## 7 · Find the bugs
#
# ★★★ · 20 minutes
#
# The function below trains a model and computes the validation loss after each epoch. It runs without an error, and in the example below the loss falls, yet it has **three bugs**. Delete the line that says
# *not done yet*, repair the code, and run the check after each repair: it counts the bugs that are left. To repair a bug, it's enough to change or move one line.
#
# A falling loss doesn't reveal these bugs. What does are small experiments whose result you know beforehand: call the function in a cell of your own, and see whether it does what it must. The hint suggests three
# experiments. A call may look like this:
#
# ```python
# torch.manual_seed(0)  # the same weights and the same batch every time
# model = nn.Linear(4, 5)
# batch = torch.randn(8, 4), torch.randint(5, (8,))
# print(train_and_validate(model, [[batch, batch], [batch]], batch, learning_rate=0.5, max_norm=0.1))
# ```
#
# The call changes the model, so make a new one for each call. You can compare its weights before and after.
#
# <details><summary>Hint</summary>
#
# ```text
# a model without dropout, trained on two batches, in one epoch or in two epochs of one batch each: what should be the same?
# dropout with probability 1 in front of a linear layer: what is the layer's input in training, and what can its weight learn?
# a single step with a learning rate of 1 and a small max_norm: how far can the weights move, all of them together?
# ```
# </details>
# <details><summary>Help: <code>Trying to backward through the graph a second time</code></summary>
#
# You call `backward` twice on the same loss. If you have copied the line to another place, delete it in the old one.
# </details>
# <details><summary>Help: <code>cannot access local variable 'loss' where it is not associated with a value</code> or <code>local variable 'loss' referenced before assignment</code></summary>
#
# A line uses `loss` before the line that computes it. It has to come after that.
# </details>


# %% tags=["answer"]
# answer: train_and_validate
def train_and_validate(
    model: nn.Module,
    epochs: list[list[tuple[Tensor, Tensor]]],
    validation: tuple[Tensor, Tensor],
    learning_rate: float,
    max_norm: float,
) -> list[float]:
    """Train with SGD and clipping; return the validation loss after each epoch.

    model: states, (tokens, d_model) → logits, (tokens, vocab_size); in training or evaluation mode
    epochs: for each epoch, its batches: states, (tokens, d_model), and the expected tokens, (tokens,), int64
    validation: a batch of the same form
    """
    ### BEGIN SOLUTION
    optimizer = torch.optim.SGD(model.parameters(), learning_rate)
    losses = []
    for batches in epochs:
        model.train()  # in every epoch, because validation switches dropout off
        for states, expected in batches:
            optimizer.zero_grad()  # at every step, because backward adds to the gradients that are there
            loss = F.cross_entropy(model(states), expected)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # before backward, there is nothing to clip
            optimizer.step()
        model.eval()
        with torch.no_grad():
            states, expected = validation
            losses.append(F.cross_entropy(model(states), expected).item())
    return losses
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("train_and_validate", train_and_validate)

# %% [markdown]
# ## A training step
#
# There is nothing to fill in here: your functions are put together to train a model. (If a blank isn't done yet, the course's function is
# used instead.) The model is tiny: it predicts the next word of a sentence from the previous word alone, with an embedding and a matrix
# that turns it into logits.

# %% tags=["nbval-skip"]
from transformer.data import pocket

PAD, BOS, EOS = 0, 1, 2
sentences = [pair.source_words for pair in pocket.pairs("train", 2000)]
words = ["<pad>", "<bos>", "<eos>", *sorted({word for sentence in sentences for word in sentence})]
number = {word: i for i, word in enumerate(words)}
longest = max(map(len, sentences))
data = torch.tensor(
    [[BOS, *(number[word] for word in s), EOS, *[PAD] * (longest - len(s))] for s in sentences]
)  # (sentences, longest + 2)

D_MODEL, WARMUP_STEPS, MAX_NORM = 32, 50, 0.3


def loss_of(weights: dict[str, Tensor], batch: Tensor) -> Tensor:
    """The loss of a model that sees only the previous word."""
    logits = weights["embedding"][batch[:, :-1]] @ weights["output"]
    return given.batch_loss(logits, batch[:, 1:], PAD)


torch.manual_seed(0)
weights = {
    "embedding": torch.randn(len(words), D_MODEL),
    "output": torch.randn(D_MODEL, len(words)) / D_MODEL**0.5,
}
moments = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in weights.items()}
checkpoints = []
print("step   learning rate   norm    loss")
for step in range(1, 301):
    batch = data[torch.randint(len(data), (64,))]
    tracked = {name: w.clone().requires_grad_() for name, w in weights.items()}
    loss = loss_of(tracked, batch)
    gradients = torch.autograd.grad(loss, list(tracked.values()))
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    clipped = given.clip_by_norm(list(gradients), MAX_NORM)
    rate = given.learning_rate(step, D_MODEL, WARMUP_STEPS)
    for (name, weight), gradient in zip(weights.items(), clipped, strict=True):
        m, v = moments[name]
        weights[name], m, v = given.adam_step(weight, gradient, m, v, step, rate)
        moments[name] = m, v
    if step == 1 or step % 25 == 0:
        print(f"{step:4}      {rate:.4f}       {norm:.2f}   {loss:6.3f}")
    if step > 200 and step % 20 == 0:
        checkpoints.append(dict(weights))

# %% [markdown]
# Watch the learning rate rise during the warm-up and fall afterwards. The loss begins near $\ln$ of the vocabulary's size: the model has to guess. It falls
# fastest around the peak, and then hardly any more, since the previous word says only so much about the next one. The norm is that of
# the gradient before it is clipped.
#
# What has the model learned? The next cell prints the words that it expects after some others. Then it compares the last weights with the
# average of the last checkpoints, on sentences that the model hasn't seen. The loss is higher there, because the model has partly memorised
# those it was trained on.

# %% tags=["nbval-skip"]
for word in ("<bos>", "because", "old"):
    logits = weights["embedding"][number[word]] @ weights["output"]
    print(f"after {word:8}", *(words[i] for i in logits.topk(4).indices))

others = [p.source_words for p in pocket.pairs("train", 2500)[2000:]]
unseen = torch.tensor(
    [
        [BOS, *(number[word] for word in s), EOS, *[PAD] * (longest - len(s))]
        for s in others
        if len(s) <= longest and number.keys() >= set(s)
    ]
)
average = given.average_checkpoints(checkpoints)
print(f"last weights                {loss_of(weights, unseen):.3f}")
print(f"average of {len(checkpoints)} checkpoints    {loss_of(average, unseen):.3f}")

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade training` in a terminal
# does the same.
#
# Then read `Trainer.step` in [`transformer/training/trainer.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/training/trainer.py). It uses PyTorch's Adam and PyTorch's clipping, which do what you
# have just written.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
