# ---
# jupyter:
#   accelerator: GPU
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
# # Training
#
# The figure shows the training loss over the first 120 steps of six runs of the same small translation model. Only one of them has no bug. **Two runs look equally healthy, although one of these two is worthless. What is wrong with the other four?** Decide before you read on; the answers are near the end of this chapter.

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
    print("The course is installed. Now run all cells in order, folded ones too.")
    print("To keep your changes, choose File > Save a copy in Drive.")
    book = "https://transformer-course.github.io/transformer-course"
    print(f"With all figures: {book}/chapters/11_training.html")

# %% tags=["hide-input"]
import json
from pathlib import Path

import torch
from matplotlib.figure import Figure

from transformer.data.tokenizer import UNK
from transformer.plots import style
from transformer.plots.style import Captioned, Picture, SourceCode
from transformer.plots.training_curves import training_curves
from transformer.schedule import learning_rate as package_learning_rate
from transformer.training.objective import batch_loss as package_batch_loss

torch.set_printoptions(precision=2, sci_mode=False)

# Mean losses of steps 1 to 5, 6 to 10 and so on. The section "What goes wrong in
# practice" trains the six runs again.
# fmt: off
curves = {
    "A": [7.43, 6.70, 6.56, 6.19, 6.13, 6.22, 5.90, 5.91, 6.09, 6.14, 6.04, 6.07,
          6.30, 6.04, 5.83, 5.94, 6.12, 6.14, 5.96, 5.85, 5.82, 6.01, 5.87, 5.91],
    "B": [5.26, 3.95, 3.41, 2.55, 1.96, 1.39, 0.93, 0.60, 0.42, 0.35, 0.25, 0.23,
          0.28, 0.20, 0.16, 0.11, 0.13, 0.12, 0.12, 0.12, 0.09, 0.10, 0.06, 0.08],
    "C": [8.44, 7.99, 7.59, 7.11, 6.63, 6.26, 5.70, 5.52, 5.77, 5.71, 5.49, 5.60,
          5.82, 5.48, 5.31, 5.39, 5.58, 5.58, 5.13, 5.05, 5.01, 5.20, 5.16, 5.05],
    "D": [8.43, 7.99, 7.60, 7.10, 6.61, 6.27, 5.71, 5.63, 5.91, 5.91, 5.73, 5.77,
          5.99, 5.69, 5.43, 5.58, 5.77, 5.77, 5.49, 5.30, 5.27, 5.55, 5.47, 5.42],
    "E": [8.43, 8.00, 7.59, 7.12, 6.64, 6.27, 5.71, 5.53, 5.77, 5.73, 5.52, 5.63,
          5.85, 5.54, 5.27, 5.40, 5.59, 5.61, 5.21, 5.14, 5.10, 5.31, 5.23, 5.14],
    "F": [8.63, 8.67, 8.69, 8.67, 8.69, 8.67, 8.65, 8.66, 8.63, 8.62, 8.59, 8.67,
          8.61, 8.61, 8.55, 8.55, 8.62, 8.59, 8.58, 8.51, 8.51, 8.57, 8.52, 8.57],
}
# fmt: on


def draw_runs(curves, healthy=None, frequencies=None):
    middles = range(3, 121, 5)  # of the five steps that each point stands for
    with style.in_style():
        figure = Figure(figsize=(4.6, 5), layout="constrained")
        panels = figure.subplots(3, 2, sharex=True).flat
        for axes, (name, curve) in zip(panels, curves.items(), strict=True):
            if healthy is not None:
                axes.plot(middles, healthy, color=style.PLAIN, linewidth=1.5)
            if frequencies and name == "A":
                axes.axhline(frequencies, color=style.WRONG, linestyle="--")
            axes.plot(middles, curve, color=style.QUERY, linewidth=1.5)
            axes.set_title(name, loc="left", weight="bold")
            bottom, ticks = (
                (0, [0, 3, 6, 9]) if name in "BF" else (4.7, [5, 6, 7, 8, 9])
            )
            axes.set(ylim=(bottom, 9.3), yticks=ticks, xticks=[1, 40, 80, 120])
            axes.grid(True)
        figure.supxlabel("training step", fontsize=11)
        figure.supylabel("loss per token", fontsize=11)
    return figure


Picture(
    draw_runs(curves),
    alt=(
        "Six training losses over 120 steps. B starts near 5, all others between 7 and "
        "9. A falls quickly at first, but then stays on a plateau near 6. B falls almost "
        "to 0. C falls to about 5.1. D follows C at first, but ends near 5.4. E falls to "
        "about 5.2 and looks like C. F stays almost where it began."
    ),
    caption=(
        "Training losses of six runs of the same model, as means over five steps. Most "
        "bugs show in the curve, but one buggy run looks healthy. The axes of B and F "
        "begin at 0."
    ),
)

# %% [markdown]
# By the end you will be able to write a ten-line training step that matches the package's, explain what Adam, warm-up, clipping, gradient accumulation and weight averaging are for, and diagnose a run from its loss curve. **About 45 minutes**, including a few minutes of training. The chapter builds on [Encoder and decoder layers](06_layers.ipynb), [Data and batching](09_data_and_batching.ipynb) and [Label smoothing](10_label_smoothing.ipynb).

# %% tags=["hide-input", "imports"]
import math
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from textwrap import fill

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import transformer
from transformer.data.batching import Batches, Sequences, collate, token_batches
from transformer.data.corpora import sentence_pairs
from transformer.data.prepare import prepare
from transformer.data.tokenizer import PAD
from transformer.device import choose_device
from transformer.model import Transformer
from transformer.recipes import RECIPES
from transformer.training.distributed import DistributedContext
from transformer.training.trainer import Trainer
from transformer.training.validation import validate
from transformer.translator import Translator

# %% [markdown]
# ## The first loss
#
# The six runs train a small Transformer: two layers in the encoder and two in the decoder, $d_\text{model} = 64$, post-norm as in the paper, no dropout. We train it on the pocket corpus from [Data and batching](09_data_and_batching.ipynb). A **recipe** holds the package's ready-made settings for a model, its data and its training; we use `pocket`. In the setup below, `batches` is a list of batches with up to 250 target tokens each:

# %%
recipe = RECIPES["pocket"]
data = prepare(recipe.data, recipe.model.vocab_size)
tokenizer = data.tokenizer
sources, targets = data.tokens("train")
plan = token_batches(sources, targets, 250, seed=0)[:250]
batches = [collate(sources, targets, indices) for indices in plan]

# %% [markdown]
# `new_model` returns the small model and its optimiser, always with the same initial weights:

# %%
small = replace(recipe.model, d_model=64, d_ff=256, norm="post")


def new_model(**settings):
    torch.manual_seed(0)
    model = Transformer(replace(small, **settings))
    betas = (0.9, 0.98)
    adam = torch.optim.Adam(model.parameters(), betas=betas, eps=1e-9, fused=True)
    return model, adam


# %% [markdown]
# The **loss** is the mean of $-\ln p$ over all predictions, where $p$ is the probability of the correct token. `batch_loss` returns the sum over all non-padding tokens, which we divide by the number of these tokens. For now we leave out [label smoothing](10_label_smoothing.ipynb).


# %%
def batch_loss(model, batch, smoothing):
    logits = model(batch.source, batch.decoder_input)
    return F.cross_entropy(
        logits.flatten(0, 1),  # a row for each target position
        batch.labels.flatten(),
        ignore_index=PAD,
        reduction="sum",
        label_smoothing=smoothing,
    )


# %%
model, adam = new_model()
batch = batches[0]
loss = batch_loss(model, batch, smoothing=0.0) / batch.n_tokens
print(f"loss of the untrained model {loss:.2f}")
print(f"guessing, ln {small.vocab_size:<14} {math.log(small.vocab_size):.2f}")

# %% tags=["remove-cell"]
assert 0.1 < loss - math.log(small.vocab_size) < 0.8
for smoothing in (0.0, 0.1):
    expected = package_batch_loss(model, batch, smoothing)
    assert_close(
        batch_loss(model, batch, smoothing), expected, atol=0.01, rtol=1e-5
    )
assert small.n_layers == 2 and small.dropout == 0 and small.norm == "post"
assert all(part.n_tokens <= 250 for part in batches)

# %% [markdown]
# Check the first loss before every training run. A model that gave all $V$ tokens the same probability would have a loss of $\ln V$. Ours is a little worse because its random logits are not all equal, as you saw in [The full model](07_full_model.ipynb). A first loss far below $\ln V$ is suspicious: either the loss is divided by the wrong number, or there is a **leak**, that is, the model sees the answer. There are two common leaks, and only one shows up at once. If the decoder input isn't shifted, the loss is low from the start, because with tied embeddings a shallow untrained model tends to predict its own input. If the causal mask is missing, the first loss is normal, because the model has yet to learn to use what it shouldn't see.
#
# Here is one step of the six runs. `schedule` sets the learning rate, and clipping limits the gradient; both are explained below. The package provides the paper's schedule, `package_learning_rate`, and `package_batch_loss`, a faster form of `batch_loss`.


# %%
def schedule(step):
    rate = package_learning_rate(step, small.d_model, warmup_steps=40)
    return 0.2 * rate  # "How high a peak" below shows how to choose the 0.2


def run_step(model, adam, batch, step, rate, zero_grad, max_norm):
    adam.param_groups[0]["lr"] = rate(step)
    loss = package_batch_loss(model, batch, smoothing=0.0) / batch.n_tokens
    if zero_grad:
        adam.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    adam.step()
    return loss.item(), norm.item()


# %% [markdown]
# The *healthy run* takes 120 steps with a warm-up of 40 and clipping at 1. The other five start from the same weights and get the same batches, but each changes one argument of `short_run`.


# %%
def short_run(
    change=lambda batch: batch,
    n_steps=120,
    rate=schedule,
    zero_grad=True,
    max_norm=1.0,
):
    model, adam = new_model()
    steps = [
        run_step(model, adam, change(batch), step, rate, zero_grad, max_norm)
        for step, batch in enumerate(batches[:n_steps], 1)
    ]
    losses, norms = zip(*steps, strict=True)
    return losses, norms, model, adam


# %%
losses, gradient_norms, healthy_model, healthy_adam = short_run()
print(f"first loss {losses[0]:.2f}, last {losses[-1]:.2f}")

# %% [markdown]
# ## Adam
#
# **Gradient descent** moves each weight a little against its gradient $g$: $w \leftarrow w - \eta\, g$, with the **learning rate** $\eta$. If the gradient comes from a random batch, as here, this is **stochastic gradient descent (SGD)**. It has two problems: such a gradient is only a noisy estimate, and one learning rate has to suit all weights, although some have much larger gradients than others.
#
# **Adam** ([Kingma and Ba, 2015](https://arxiv.org/abs/1412.6980)), the paper's optimiser (§5.3), addresses both. For each weight it stores two *exponential moving averages*, in which older steps count less and less: $m$, the **momentum**, averages the gradient, and $v$ its square. (Together they need twice the memory of the weights.)
#
# $$ \begin{aligned} m &\leftarrow \beta_1 m + (1 - \beta_1)\, g \\ v &\leftarrow \beta_2 v + (1 - \beta_2)\, g^2 \\ w &\leftarrow w - \eta\, \frac{\hat m}{\sqrt{\hat v} + \varepsilon} \end{aligned} $$
#
# In $m$, much of the noise averages out. The root of $v$ measures the recent size of the gradient, and dividing by it makes the step size nearly independent of the gradient's size. The paper sets $\beta_1 = 0.9$, which averages over about the last ten steps; $\beta_2 = 0.98$, about the last fifty; and $\varepsilon = 10^{-9}$ (not that of label smoothing), which prevents a division by zero.
#
# The hats denote **bias correction**. Both averages start at 0, so they are too small at first; dividing by $1 - \beta_1^t$ or $1 - \beta_2^t$ at step $t$ compensates for this. By hand, for a single weight, $\eta = 0.1$ and a first gradient of 2:
#
# - $m = 0.1 \cdot 2 = 0.2$, corrected $\hat m = 0.2 / (1 - 0.9) = 2$;
# - $v = 0.02 \cdot 2^2 = 0.08$, corrected $\hat v = 0.08 / (1 - 0.98) = 4$;
# - so the step is $0.1 \cdot 2 / \sqrt 4 = 0.1$, exactly the learning rate.
#
# With a first gradient of 0.002 the step would be 0.1 as well. **Adam's first step moves nearly every weight by the full learning rate, however small its gradient.** In code, for a list of weights:


# %%
def adam_step(weights, moments, step, lr):
    beta1, beta2, eps = 0.9, 0.98, 1e-9
    for weight, (m, v) in zip(weights, moments, strict=True):
        m.mul_(beta1).add_(weight.grad, alpha=1 - beta1)
        v.mul_(beta2).add_(weight.grad**2, alpha=1 - beta2)
        m_hat = m / (1 - beta1**step)
        v_hat = v / (1 - beta2**step)
        weight.data -= lr * m_hat / (v_hat.sqrt() + eps)


# %% [markdown]
# Five of our steps lead to the same weights as five of PyTorch's Adam:

# %%
torch.manual_seed(0)
ours, theirs = nn.Linear(8, 4), nn.Linear(8, 4)
theirs.load_state_dict(ours.state_dict())
pytorch_adam = torch.optim.Adam(
    theirs.parameters(), 0.01, betas=(0.9, 0.98), eps=1e-9
)
moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in ours.parameters()]
for step in range(1, 6):
    x = torch.randn(16, 8)
    for layer in (ours, theirs):
        layer.zero_grad()
        layer(x).square().mean().backward()
    adam_step(list(ours.parameters()), moments, step, lr=0.01)
    pytorch_adam.step()
assert_close(ours.weight, theirs.weight)
print("the same weights as PyTorch's Adam")

# %% [markdown]
# Most models today use **AdamW** ([Loshchilov and Hutter, 2019](https://arxiv.org/abs/1711.05101)), which also shrinks every weight a little in each step, independently of its gradient. This is **weight decay**, a form of regularisation.
#
# Across a whole model, the division by $\sqrt{\hat v}$ makes all steps about equally large. In the figure, each symbol is one weight tensor of the healthy run; both axes show a root mean square. With plain gradient descent, all symbols would lie on a diagonal such as the dashed one. Look at Adam's first step (blue): whatever the gradient, the step is the full learning rate or nearly so.


# %% tags=["hide-input"]
def gradient_and_step_sizes(model, adam, step):
    """Root mean squares for each tensor: of its gradient, and of its step / learning rate."""
    sizes = []
    for weight in model.parameters():
        m_hat = adam.state[weight]["exp_avg"] / (1 - 0.9**step)
        v_hat = adam.state[weight]["exp_avg_sq"] / (1 - 0.98**step)
        # not where the gradient was always 0, as behind inactive ReLUs
        used = v_hat > 0
        moved = m_hat[used] / (v_hat[used].sqrt() + 1e-9)
        sizes.append([v_hat[used].mean().sqrt(), moved.square().mean().sqrt()])
    return torch.tensor(sizes).T


_, _, first_model, first_adam = short_run(n_steps=1)
first = gradient_and_step_sizes(first_model, first_adam, step=1)
later = gradient_and_step_sizes(healthy_model, healthy_adam, step=120)
with style.in_style():
    figure, axes = style.new_figure(4.6, 3.2)
    axes.loglog(*first, "o", color=style.QUERY, markersize=5, label="Adam, step 1")
    axes.loglog(*later, "^", color=style.KEY, markersize=5, label="Adam, step 120")
    line = torch.tensor([later[0].min(), later[0].max()])
    label = "gradient descent"
    axes.loglog(line, line / line[1], "--", color=style.PLAIN, label=label)
    axes.set_ylim(0.01, 1.6)
    axes.set_xlabel("recent gradients (root mean square)")
    axes.set_title("Step divided by the learning rate", loc="left")
    axes.grid(True)
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=2)
Picture(
    figure,
    alt=(
        "Scatter plot with logarithmic axes: for each weight tensor of the model, the "
        "size of its gradients and of its step. In Adam's first step all tensors are "
        "on a flat line, at 1 or just below. At step 120 the gradients span more than "
        "an order of magnitude, and the steps lie in a flat band from 0.1 to about "
        "0.3. A dashed diagonal shows gradient descent."
    ),
    caption=(
        "Gradient and step size of each weight tensor of the healthy run. Adam's "
        "steps don't grow with the gradients, as those of gradient descent do."
    ),
)

# %% tags=["remove-cell"]
spread = later[0].max() / later[0].min()
assert spread > 25 and (first[1] > 0.8).all()
assert later[1].min() > 0.08 and later[1].max() < 0.5
assert later[1].max() / later[1].min() < spread / 5
slope = torch.cov(later.log())[0, 1] / later[0].log().var()
assert abs(slope) < 0.25  # level
named = list(first_model.named_parameters())
lower = [
    name for (name, _), size in zip(named, first[1], strict=True) if size < 0.9
]
assert len(lower) == 6 and all(
    name.endswith("query_key_value.bias") for name in lower
)
biases = [bias for name, bias in named if name.endswith("query_key_value.bias")]
of_keys = torch.cat([first_adam.state[b]["exp_avg"].chunk(3)[1] for b in biases])
assert len(of_keys) == 6 * small.d_model and of_keys.abs().max() < 1e-9
torch.manual_seed(0)  # gradients that are nothing but noise
mean, square, noise_steps = torch.zeros(5000), torch.zeros(5000), []
for _ in range(400):
    noise = torch.randn(5000)
    mean, square = 0.9 * mean + 0.1 * noise, 0.98 * square + 0.02 * noise**2
assert 0.2 < (mean / square.sqrt()).square().mean().sqrt() < 0.27

# %% [markdown]
# At step 120 (orange), the gradients differ widely in size, but the steps still form a flat band. They are now smaller than the learning rate, because the gradients of different batches disagree: they largely cancel in $m$, but not in $v$, where all squares are positive. So Adam takes large steps where the gradients of many batches agree, and small ones where they contradict each other.
#
# <details><summary>Why are six blue symbols a little lower, and how small are the orange steps?</summary>
#
# The six blue symbols just below 1 are bias vectors, each made up of the biases of the queries, keys and values. The part for the keys hardly moves: a number added to all scores of a query doesn't change the softmax, so its gradient is zero up to rounding errors, which are smaller than $\varepsilon$.
#
# If gradients were nothing but noise, the typical step would be about a quarter of the learning rate ($\sqrt{0.1 / 1.9} \approx 0.23$, from the averaging in $m$). Most of the orange steps are no larger than that.
#
# </details>

# %% [markdown]
# Is Adam worth it? The folded cell repeats the healthy run with SGD, which gets a momentum of 0.9, the same warm-up and clipping, and three different peaks of the learning rate:


# %% tags=["hide-input"]
def sgd_run(peak):
    model, _ = new_model()
    sgd = torch.optim.SGD(model.parameters(), momentum=0.9)

    def rate(step):
        return peak * schedule(step) / schedule(40)

    steps = [
        run_step(model, sgd, batch, step, rate, zero_grad=True, max_norm=1.0)
        for step, batch in enumerate(batches[:120], 1)
    ]
    return sum(loss for loss, _ in steps[-20:]) / 20


by_sgd = {peak: sgd_run(peak) for peak in (0.1, 0.3, 1.0)}
print("mean loss of the last 20 steps")
print(f"Adam            {sum(losses[-20:]) / 20:.2f}")
for peak, loss in by_sgd.items():
    print(f"SGD, peak {peak}   {loss:.2f}")

# %% tags=["remove-cell"]
assert min(by_sgd, key=by_sgd.get) == 0.3  # the best peak is in the middle
assert min(by_sgd.values()) > sum(losses[-20:]) / 20 + 0.25

# %% [markdown]
# Even with the best of these peaks, and with two other seeds, SGD stays clearly behind Adam.
#
# ## Warm-up and the learning-rate schedule
#
# In [Encoder and decoder layers](06_layers.ipynb), a post-norm model without warm-up learned nothing at the highest learning rate: after a few steps, all positions had nearly the same vector, and the model never recovered. Now you know why the first steps did so much damage: they move nearly every weight by the full learning rate, in a direction estimated from a single batch or a few.
#
# So the learning rate starts near zero and rises linearly for `warmup_steps` steps, the **warm-up**, while $m$ and $v$ become better estimates. After the warm-up, whose best length is found by trial, the learning rate falls with the inverse square root of the step. The paper gives no reason for this; a plausible one is that large steps do harm near a good solution. The factor $d_\text{model}^{-1/2}$ gives wider models a lower learning rate. Here is the formula (§5.3, equation 3):
#
# $$ \begin{aligned} \eta = d_\text{model}^{-1/2} \cdot \min\big( & \text{step}^{-1/2}, \\ & \text{step} \cdot \text{warmup}^{-3/2}\big) \end{aligned} $$
#
# Both terms are equal at the end of the warm-up, where $\eta$ has its peak of $1 / \sqrt{d_\text{model} \cdot \text{warmup}}$. For the base model, with 4,000 warm-up steps, this is $1 / \sqrt{512 \cdot 4000} \approx 0.0007$. In code, with a factor that we need below:


# %%
def learning_rate(step, d_model, warmup_steps, factor=1.0):
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


# %% [markdown]
# **Set the schedule yourself.** Halve the warm-up: the peak comes twice as early and is $\sqrt 2$ times as high. Then go back and halve $d_\text{model}$: the peak is again $\sqrt 2$ times as high, at the same step.
#
# <div class="widget" data-widget="schedule">
#
# *This figure is interactive in the [online book](https://transformer-course.github.io/transformer-course/chapters/11_training.html) (with JavaScript) and in the notebook (run the next cell). Its initial state:*
#
# The learning rate of the paper's base model, $d_\text{model}$ 512 and a warm-up of 4,000:
#
# | step | learning rate | |
# |---|---|---|
# | 1 | 1.75 · 10⁻⁷ | the first step |
# | 2,000 | 3.49 · 10⁻⁴ | half of the warm-up |
# | 4,000 | 6.99 · 10⁻⁴ | the peak |
# | 16,000 | 3.49 · 10⁻⁴ | 4 × warm-up: half the peak |
# | 100,000 | 1.40 · 10⁻⁴ | base model's last step |
#
# </div>

# %% tags=["remove-cell"]
for step in (1, 39, 40, 41, 1000):
    assert math.isclose(learning_rate(step, 64, 40, 0.2), schedule(step))
peak = learning_rate(4000, 512, 4000)
assert math.isclose(peak, 1 / math.sqrt(512 * 4000)) and 0.00069 < peak < 0.0007
assert math.isclose(learning_rate(2000, 512, 2000), peak * math.sqrt(2))
assert math.isclose(learning_rate(4000, 256, 4000), peak * math.sqrt(2))
for step, rate in (
    (1, 1.75e-7),
    (2000, 3.49e-4),
    (4000, 6.99e-4),
    (100_000, 1.4e-4),
):
    assert abs(learning_rate(step, 512, 4000) / rate - 1) < 0.01
assert math.isclose(learning_rate(16_000, 512, 4000), peak / 2)

# %% [markdown]
# In many later models the learning rate falls along half a cosine wave (**cosine decay**). Nearly all schedules have a warm-up, though pre-norm models manage with a short one.
#
# ### How high a peak, and does it need a warm-up?
#
# The best peak differs from model to model, so our recipes multiply the formula by a factor. To find it, try a few peaks in short runs, each about three times as high as the one before. Here we try three, with the healthy run's in the middle, each with the warm-up and without it (then the learning rate stays at its peak until step 40).


# %%
def scaled(peak, warm_up):
    return lambda step: peak * schedule(step if warm_up else max(step, 40))


sweep = {(True, 1): losses}  # the healthy run
for warm_up in (False, True):
    for peak in (1 / 3, 1, 3):
        if (warm_up, peak) not in sweep:
            rate = scaled(peak, warm_up)
            sweep[warm_up, peak] = short_run(rate=rate)[0]

# %%
final = {key: sum(run[-20:]) / 20 for key, run in sweep.items()}
print("mean loss of the last 20 steps")
print("peak, × healthy   1/3     1     3")
for warm_up, name in ((False, "no warm-up"), (True, "warm-up")):
    row = (final[warm_up, peak] for peak in (1 / 3, 1, 3))
    print(f"{name:14}", *(f"{loss:6.2f}" for loss in row), sep="")

# %% tags=["remove-cell"]
assert abs(final[False, 1] - final[True, 1]) < 0.08  # no difference
assert 0.04 < final[True, 1 / 3] - final[False, 1 / 3] < 0.2  # costs a little
assert final[False, 3] > final[True, 3] + 0.5 and 5.7 < final[False, 3] < 6.1
assert min(final, key=final.get)[1] == 1
assert final[True, 1] < final[True, 3] < final[True, 1] + 0.2

# %% [markdown]
# At the lowest peak, the warm-up only costs time, and at the healthy run's peak it makes hardly any difference. At three times that peak, it decides: with it the run is nearly as good as the healthy one, and without it the loss gets stuck. Another seed gave the same result. So **a warm-up makes higher learning rates possible**, and a good learning rate easier to find.
#
# Choose the best peak, or one a little below the highest that stays stable. If a healthy loss *rises* later in a long run, the learning rate is the first suspect. If you change the batch size, tune the factor again; a common first guess is to scale the learning rate with the square root of the batch size.
#
# ## Gradient clipping
#
# Now and then a batch has an unusually large gradient, and the step taken with it could undo many others. We can tell by the **gradient norm**, the length of the vector of all gradients of the model. The figure shows it for the healthy run, and for the same run with a damaged batch at step 50, in which all target tokens are `<unk>`:


# %% tags=["hide-input"]
def damaged(batch):
    """The same batch, with <unk> in place of all words of the translations."""
    is_word = batch.labels != PAD
    labels = batch.labels.masked_fill(is_word, UNK)
    decoder_input = batch.decoder_input.clone()
    decoder_input[:, 1:] = labels[:, :-1]  # after <bos>
    return replace(batch, decoder_input=decoder_input, labels=labels)


def damage_step_50(batch):
    return damaged(batch) if batch is batches[49] else batch


damaged_losses, damaged_norms, *_ = short_run(damage_step_50, n_steps=80)
with style.in_style():
    figure, axes = style.new_figure(4.8, 2.8)
    for norms, colour, label in (
        (damaged_norms, style.WRONG, "damaged batch"),
        (gradient_norms[:80], style.QUERY, "healthy"),
    ):
        axes.semilogy(range(1, 81), norms, color=colour, linewidth=1.5, label=label)
    axes.axhline(1, color=style.PLAIN, linestyle="--", label="limit")
    axes.set_yticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
    axes.minorticks_off()
    axes.set_xlabel("training step")
    axes.set_title("Gradient norm before clipping", loc="left")
    axes.grid(True)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=3, fontsize=10
    )
Picture(
    figure,
    alt=(
        "Gradient norms over 80 training steps, on a logarithmic axis. The healthy "
        "run starts near 3 and is then mostly between 0.5 and 2. The other run is the "
        "same until step 50, where its norm jumps to about 10. A dashed line marks the "
        "limit of 1."
    ),
    caption=(
        "Gradient norms of the healthy run, and of the same run with a damaged batch "
        "at step 50, whose gradient is far larger than usual."
    ),
)

# %% tags=["remove-cell"]
assert damaged_norms[49] > 5 * torch.tensor(gradient_norms).median()
assert damaged_norms[49] > 2 * max(gradient_norms)
assert 7 < damaged_norms[49] < 14
for before, other in zip(gradient_norms[:49], damaged_norms[:49], strict=True):
    assert math.isclose(before, other, rel_tol=1e-3)
ratios = torch.tensor(damaged_norms[54:]) / torch.tensor(gradient_norms[54:80])
assert ratios.log().abs().mean() < 0.3 and ratios.max() < 2.5
assert gradient_norms[49] < 3 and max(gradient_norms) < 8
assert sum(norm > 1 for norm in gradient_norms) > 40

# %% [markdown]
# Such a jump may come from an odd batch, as here, or from a place where the loss is steep. Adam's step isn't proportional to the gradient. But for about ten steps the outlier dominates $m$, so these steps go mostly in its direction, and for about fifty steps it inflates $v$, which makes the later steps too small.
#
# If the gradient norm exceeds a limit, **gradient clipping** scales the gradient down to that limit. All tensors are multiplied by the same factor, so the direction stays the same:


# %%
def clip_gradients(weights, max_norm):
    norm = sum(weight.grad.square().sum() for weight in weights).sqrt()
    if norm > max_norm:
        for weight in weights:
            weight.grad *= max_norm / norm


# %% tags=["remove-cell"]
clipped, _ = new_model()
# 100 times the loss, so that the gradient is far above the limit
(100 * batch_loss(clipped, batch, smoothing=0.0) / batch.n_tokens).backward()
by_pytorch = deepcopy(clipped)
pairs = list(zip(clipped.parameters(), by_pytorch.parameters(), strict=True))
for weight, other in pairs:
    other.grad = weight.grad.clone()
clip_gradients(list(clipped.parameters()), max_norm=1.0)
nn.utils.clip_grad_norm_(by_pytorch.parameters(), max_norm=1.0)
for weight, other in pairs:
    assert_close(weight.grad, other.grad)

# %% [markdown]
# PyTorch's `clip_grad_norm_` does the same. The paper doesn't mention clipping, but most recipes for language models have it. Both runs in the figure are clipped at 1. Here are their losses after the damaged batch, and those of the same two runs without clipping:

# %% tags=["hide-input"]
unclipped = [
    short_run(change, n_steps=60, max_norm=math.inf)[0]
    for change in (lambda batch: batch, damage_step_50)
]
after = slice(50, 60)
print("mean loss of steps 51 to 60  healthy  damaged")
for name, (healthy_losses, other_losses) in (
    ("clipped at 1", (losses, damaged_losses)),
    ("not clipped", unclipped),
):
    means = (sum(run[after]) / 10 for run in (healthy_losses, other_losses))
    print("{:27}  {:7.2f}  {:7.2f}".format(name, *means))

# %% tags=["remove-cell"]
costs = [
    sum(bad[after]) / 10 - sum(good[after]) / 10
    for good, bad in ((losses, damaged_losses), unclipped)
]
assert abs(costs[0]) < 0.04 and costs[0] + 0.03 < costs[1] < 0.2
assert 0.02 < (sum(unclipped[0][after]) - sum(losses[after])) / 10 < 0.15

# %% [markdown]
# With clipping, the damaged batch leaves hardly a trace. Without it, the batch raises the losses a little, with two other seeds as well. So clipping is cheap insurance here, not a rescue. A limit of 1 also clips many ordinary gradients, which even helps the healthy run a little.
#
# ## Gradient accumulation
#
# The base model's batches have about 25,000 source and 25,000 target tokens (§5.1), too many for a small GPU. But the gradient of a sum is the sum of the gradients, and PyTorch's `backward` *adds* to the gradients that are already there. So in **gradient accumulation**, you run a large batch in small parts, called *micro-batches*, and take one step at the end. There is one trap: the parts differ in their number of tokens, so the mean of their mean losses would be wrong. Divide each part's summed loss by the number of tokens in *all* parts:


# %%
def gradient(parts, divisors):
    fresh_model, _ = new_model()
    for part, divisor in zip(parts, divisors, strict=True):
        (batch_loss(fresh_model, part, smoothing=0.0) / divisor).backward()
    return fresh_model.unembedding.weight.grad


# %%
whole = collate(sources, targets, range(60))
parts = [
    collate(sources, targets, sentences) for sentences in (range(10), range(10, 60))
]
expected = gradient([whole], [whole.n_tokens])
assert_close(gradient(parts, [whole.n_tokens] * 2), expected)
# the mean of two means: each part divided by its own count, and by 2
mean_of_means = gradient(parts, [2 * part.n_tokens for part in parts])
error = (mean_of_means - expected).norm() / expected.norm()
print("tokens in the parts:", [part.n_tokens for part in parts])
print(f"error of the mean of means: {error:.0%} (of the norm)")

# %% [markdown]
# Training on several GPUs works the same way. In **data parallelism**, each GPU computes the gradients of its part of the batch, and an **all-reduce** adds them up ([chapter 16](16_gpu_performance.ipynb)).
#
# ## The training step
#
# Here is the whole step in ten lines. `config` holds the settings; `micro_batches` is a list of one or more. Call `model.train()` before training and `model.eval()` before validating or generating: the mode decides whether dropout is active.


# %%
def train_step(model, adam, micro_batches, step, config):
    factor, warmup = config.learning_rate_factor, config.warmup_steps
    rate = learning_rate(step, model.config.d_model, warmup, factor)
    adam.param_groups[0]["lr"] = rate
    adam.zero_grad()
    n_tokens = sum(batch.n_tokens for batch in micro_batches)
    for batch in micro_batches:
        loss = batch_loss(model, batch, config.label_smoothing)
        (loss / n_tokens).backward()
    nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
    adam.step()


# %% [markdown]
# The package's `Trainer` takes the same steps. After ten steps of two batches each, the logits of both models agree up to rounding:

# %%
settings = replace(recipe.training, gradient_accumulation_steps=2, warmup_steps=50)
# One process on the CPU, without half precision.
cpu = choose_device("cpu", precision="fp32")
package = Trainer(small, settings, data, cpu, DistributedContext())
our_model = deepcopy(package.model)
our_adam = torch.optim.Adam(our_model.parameters(), betas=(0.9, 0.98), eps=1e-9)
loader = Batches(
    sources,
    targets,
    settings.batch_tokens // 2,
    settings.seed,
    gradient_accumulation_steps=2,
)

# %%
for step in range(1, 11):
    train_step(our_model, our_adam, [next(loader), next(loader)], step, settings)
    package.step()
our_logits = our_model(batch.source, batch.decoder_input)
package_logits = package.model(batch.source, batch.decoder_input)
assert_close(our_logits, package_logits, atol=1e-3, rtol=1e-3)
print("the same logits as the package's Trainer")

# %% tags=["remove-cell"]
start = Trainer(small, settings, data, cpu, DistributedContext()).model
moved = start(batch.source, batch.decoder_input) - our_logits
assert moved.abs().mean() > 0.1  # the comparison means something

# %% [markdown]
# The package's own step does a few more things:

# %% tags=["hide-cell"]
SourceCode(Trainer.step, Trainer._backward)

# %% [markdown]
# <details><summary>What the package's step does in addition</summary>
#
# - **Several processes.** On several GPUs, each process runs this code on its own batches. `all_reduce` adds up their token counts, and the loss is divided by the total. PyTorch averages the gradients over the processes, only once per step thanks to `_gradient_sync`, and the factor `world_size` turns this mean into a sum.
# - **Mixed precision.** `autocast` runs matrix products in 16 bits. In float16, small gradients would become zero, so `scaler` multiplies the loss by a large number before the backward pass, and `unscale_` divides the gradients by it before they are clipped. This is **loss scaling**. In other precisions it does nothing.
# - **Skipped steps.** `step_if_finite` changes no weight if the gradient contains infinity or NaN, so a single bad batch can't ruin the model. Then `scaler.update()` lowers a scale that was too large.
# - **Bookkeeping.** The loops over `optimizers` are there because a recipe can have two: the speedrun under *Exercises* uses Muon as well as Adam. `totals` sums losses on the GPU, because reading a number from it would make the program wait. `_average` keeps the mean of the weights of the last steps, which we come to below. `prefetcher` loads batches in the background, `training_module` is the model together with its loss, and `stop_requested` lets a run end cleanly. The gradients are cleared at the end of a step instead of at the beginning.
#
# [Making it fast on a GPU](16_gpu_performance.ipynb) explains the first two.
#
# </details>
#
# ## The first test: overfit a single batch
#
# Before any long run, train on a few sentences and nothing else. A correct model memorises them. Turn off label smoothing and dropout, since both keep the loss above zero. If the loss gets stuck, you have found a bug or a badly wrong learning rate within seconds.

# %%
eight = collate(sources, targets, range(8))
memoriser, memoriser_adam = new_model()
memorising = replace(settings, label_smoothing=0.0)
for step in range(1, 61):
    train_step(memoriser, memoriser_adam, [eight], step, memorising)
    if step in (1, 20, 40, 60):
        loss = batch_loss(memoriser, eight, smoothing=0.0) / eight.n_tokens
        print(f"step {step:3}   loss {loss:.3f}")

# %% tags=["remove-cell"]
assert loss < 0.1

# %% [markdown]
# ## A real run
#
# Now we train the pocket recipe's model for a fifth of the recipe's 6,000 steps. It has $d_\text{model} = 128$ and is pre-norm, which is easier to train. At some steps we **validate**: on sentences that aren't in the training data, we measure the loss without label smoothing and, for 50 of them, [BLEU](13_evaluation.ipynb), a score from 0 to 100 for how well translations match references. The model also translates *The old woman does not open the window*, which in this corpus is *Die alte Frau macht das Fenster nicht auf*.
#
# Does the model use its source at all? We compute the loss on 100 validation pairs with the right sources, and again with each target paired with another sentence's source. If the model really translates, swapping must make its loss much worse.


# %%
@torch.no_grad()
def mean_loss(model, batch):
    batch = batch.to(model.unembedding.weight.device)
    return batch_loss(model, batch, smoothing=0.0).item() / batch.n_tokens


def swap_sources(batch):
    return replace(batch, source=batch.source.roll(1, dims=0))


unseen = collate(*data.tokens("valid"), range(100))
swapped = swap_sources(unseen)


# %% [markdown]
# During the last 300 steps, `add_to_mean` keeps the mean of the weights, which we need in the next section.


# %%
def add_to_mean(mean, model, n):
    """Update `mean`, the mean of n - 1 models, with the n-th, `model`."""
    with torch.no_grad():
        for average, weight in zip(
            mean.parameters(), model.parameters(), strict=True
        ):
            average += (weight - average) / n


# %% [markdown]
# `choose_device` takes a GPU if there is one; then your numbers will differ a little from those below.

# %%
config = replace(
    recipe.training, steps=1200, average_steps=0, validation_sentences=50
)
trainer = Trainer(recipe.model, config, data, choose_device(), DistributedContext())
averaged = deepcopy(trainer.model)
print("training on:", trainer.device.type, trainer.device.precision)

# %%
sentence = "The old woman does not open the window."
metrics = []
print("step   BLEU   right  swapped")
for step in range(1, config.steps + 1):
    trainer.step()
    if step > 900:
        add_to_mean(averaged, trainer.model, step - 900)
    if step in (100, 200, 400, 700, 1200):
        right, wrong = (mean_loss(trainer.model, b) for b in (unseen, swapped))
        metrics.append(trainer.validate() | {"right": right, "swapped": wrong})
        bleu = metrics[-1]["valid_bleu"]
        (translation,) = trainer.translator.greedy_search([sentence])
        print(f"{step:4}   {bleu:4.1f}   {right:5.2f}  {wrong:7.2f}")
        print(f"       {translation[:41]}")

# %% [markdown]
# At first the two losses are nearly the same: the model learns which tokens are frequent and which follow each other, and for that it needs no source. Then the losses separate, and the translation begins to follow the source. The swapped loss even rises: the better the model reads its source, the more confidently it predicts the wrong sentence. **In the charts below, tap a step, or point at it, to read its numbers.**
#
# The training curve lies above the validation curve for two reasons. Each of its points averages all steps since the previous point, and it shows the label-smoothed loss, which here can't fall below 0.61 ([chapter 10](10_label_smoothing.ipynb)). So compare the shapes of the curves, not their heights.

# %% tags=["hide-input"]
Captioned(
    training_curves(
        [
            {k: v for k, v in row.items() if k not in {"right", "swapped"}}
            for row in metrics
        ],
        description=(
            "Two charts over the training steps. The training and validation losses "
            "fall steeply and then ever more slowly. BLEU on validation sentences "
            "stays near zero at first and then climbs. Pointing at a step shows its "
            "numbers."
        ),
    ),
    "Loss and BLEU during training: the loss falls from the start, but BLEU rises "
    "only once the model begins to translate.",
)

# %% tags=["remove-cell"]
by_step = {row["step"]: row for row in metrics}
assert all(row["train_loss"] > row["valid_loss"] for row in metrics)
share = config.label_smoothing / recipe.model.vocab_size
assert (recipe.training.batch_tokens, recipe.training.warmup_steps) == (250, 400)
assert (recipe.training.learning_rate_factor, recipe.training.steps) == (0.6, 6000)
correct_mass = 1 - config.label_smoothing + share
others = (recipe.model.vocab_size - 1) * share * math.log(share)
assert f"{-correct_mass * math.log(correct_mass) - others:.2f}" == "0.61"
assert by_step[200]["valid_bleu"] < 5 and by_step[1200]["valid_bleu"] > 25
ratios = {step: row["swapped"] / row["right"] for step, row in by_step.items()}
assert ratios[100] < 1.1 and ratios[400] > 1.4 and ratios[1200] > 4
assert by_step[1200]["swapped"] > by_step[100]["swapped"] + 0.5
assert by_step[200]["valid_loss"] < by_step[100]["valid_loss"] - 0.5

# %% [markdown]
# Here are translations of three test sentences. Each contains a combination, such as a certain verb with a certain object, that never occurs in training, so memorising isn't enough. The word order is mostly right, but some words or forms are wrong or missing. The lines *longer* are by `pocket-small`, a model of the same size that comes with the course. It was trained for 48,000 steps, on five times as many sentences of the same grammar.

# %%
tests = list(sentence_pairs("pocket", "test"))[:3]
english, german = zip(*tests, strict=True)
lines = {
    "English": english,
    "our model": trainer.translator.greedy_search(english),
    "longer": transformer.load("pocket-small").greedy_search(english),
    "reference": german,
}
for texts in zip(*lines.values(), strict=True):
    for name, text in zip(lines, texts, strict=True):
        print(fill(f"{name:10}{text}", 48, subsequent_indent=" " * 10))
    print()

# %% tags=["remove-cell"]
longer = RECIPES["pocket-small"]
assert longer.model == recipe.model and longer.training.steps == 48_000
assert lines["longer"] == list(german)

# %% [markdown]
# ## Averaging weights
#
# Each step is computed from a single batch, so the weights wander around a good solution, and their mean is usually closer to it than the weights of a single step. For its base models, the paper averages the last five **checkpoints** (weights saved during training), and for its big models the last twenty (§6.1). A common alternative is an **exponential moving average (EMA)** of the weights. What do we gain by averaging our last 300 steps? This time we translate 400 sentences, because 50 are too few to compare two models.

# %%
more_sentences = replace(config, validation_sentences=400)
bleu = {}
for name, candidate in (("last weights", trainer.model), ("average", averaged)):
    result = validate(
        Translator(candidate, tokenizer, trainer.device), data, more_sentences
    )
    loss, bleu[name] = result["valid_loss"], result["valid_bleu"]
    print(f"{name:12}   validation loss {loss:.3f}   BLEU {bleu[name]:.1f}")

# %% tags=["remove-cell"]
assert loss < 0.9 * by_step[1200]["valid_loss"]
assert bleu["average"] > bleu["last weights"] + 2

# %% [markdown]
# Loss and BLEU both improve, and all it costs is memory for a second copy of the weights. The gain is largest when the learning rate is still high at the end, as in our short run; lowering the learning rate would remove much of the same noise.
#
# ## Overfitting and early stopping
#
# What happens with too little data? We train the small model on only 800 pairs for about eleven passes, once without **dropout** (§5.4) and once with it. To make it learn quickly, we use pre-norm and a higher learning rate. `seen` holds 100 of the 800 pairs, `unseen` 100 validation pairs; both losses are measured without dropout.


# %%
few = [Sequences.pack([side[i] for i in range(800)]) for side in (sources, targets)]
seen = collate(*few, range(100))


def run_on_few(dropout):
    learner, learner_adam = new_model(norm="pre", dropout=dropout)
    settings = replace(memorising, warmup_steps=100, learning_rate_factor=0.6)
    rows = []
    for step, part in enumerate(islice(Batches(*few, 250, seed=0), 360), 1):
        train_step(learner, learner_adam, [part], step, settings)
        if step % 20 == 0:
            learner.eval()  # no dropout
            losses = mean_loss(learner, seen), mean_loss(learner, unseen)
            rows.append((step, *losses))
            learner.train()
    return rows


# %%
overfitting = {dropout: run_on_few(dropout) for dropout in (0.0, 0.2)}
for dropout, rows in overfitting.items():
    step, _, lowest = min(rows, key=lambda row: row[2])
    print(f"dropout {dropout}, validation loss:")
    print(f"  lowest {lowest:.2f} (step {step}), last {rows[-1][2]:.2f}")

# %% [markdown]
# Compare the solid lines (validation) with the dotted ones (training):

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(4.8, 3)
    for (dropout, rows), colour in zip(
        overfitting.items(), (style.WRONG, style.QUERY), strict=True
    ):
        steps, training, validation = zip(*rows, strict=True)
        name = f"dropout {dropout}" if dropout else "no dropout"
        axes.plot(steps, validation, color=colour, label=f"{name}, validation")
        axes.plot(steps, training, ":", color=colour, label=f"{name}, training")
        best = validation.index(min(validation))
        axes.plot(steps[best], validation[best], "o", color=colour)
    axes.set_ylim(0, 9)
    axes.set_xlabel("training step")
    axes.set_title("Loss per token", loc="left")
    axes.grid(True)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=9)
Picture(
    figure,
    alt=(
        "Training and validation loss on 800 pairs, without dropout and with. "
        "Without dropout, the training loss falls almost to zero; the validation loss "
        "has its minimum, a dot, and then rises. With dropout, the training "
        "loss falls more slowly, and the validation loss becomes lower and doesn't "
        "rise much."
    ),
    caption=(
        "Overfitting on a small data set: without dropout, the training loss "
        "(dotted) nearly vanishes while the validation loss (solid) rises again "
        "after its minimum. The dots mark the minima."
    ),
)

# %% tags=["remove-cell"]
plain, dropped = (
    [validation for _, _, validation in overfitting[dropout]]
    for dropout in (0.0, 0.2)
)
assert min(plain) < plain[-1] - 0.4 and plain.index(min(plain)) < len(plain) - 5
assert min(dropped) < min(plain) - 0.03 and dropped[-1] < min(dropped) + 0.3
assert overfitting[0.0][-1][1] < 0.2
passes = islice(Batches(*few, 250, seed=0), 360)
assert 10 < sum(len(part.labels) for part in passes) / 800 < 11.5

# %% [markdown]
# Without dropout, the validation loss reaches a minimum and then *rises*: memorising the 800 pairs makes the model worse on other sentences. This is **overfitting**, and only validation data reveals it. Dropout makes memorising harder, because each step trains a different random part of the network. With it, the minimum here is a little lower, and the loss hardly rises afterwards. But the best remedy is more data.
#
# **Early stopping** ends the training soon after the minimum, and keeps the weights from there. The package saves a checkpoint at each new minimum, and translates with the last of these. (With `--training.patience 5`, `transformer train` stops after five validations without a lower loss.) Choosing a checkpoint on the validation set makes its score there optimistic, which is why there is a separate test set.

# %% [markdown]
# ## What goes wrong in practice
#
# Back to the six curves at the top. What do you think is wrong in A, B, D and F? The folded cell below trains the six runs again, in about a minute on a CPU.


# %% tags=["hide-input"]
def no_shift(batch):
    return replace(batch, decoder_input=batch.labels)


def no_warmup(step):
    return 0.2 * package_learning_rate(step, small.d_model, warmup_steps=1)


runs = {
    "A": short_run(rate=no_warmup)[0],
    "B": short_run(no_shift)[0],
    "C": losses,
    "D": short_run(zero_grad=False)[0],
    "E": short_run(swap_sources)[0],
    "F": short_run(rate=lambda step: schedule(step) / 1000)[0],
}
trained_again = {
    name: torch.tensor(run).unflatten(0, (-1, 5)).mean(1)
    for name, run in runs.items()
}
every_label = collate(sources, targets, range(len(targets))).labels
every_label = every_label[every_label != PAD]
counts = torch.bincount(every_label, minlength=small.vocab_size).float()
labels = torch.cat([part.labels[part.labels != PAD] for part in batches[:120]])
frequencies = F.cross_entropy(counts.log().expand(len(labels), -1), labels).item()
Picture(
    draw_runs(trained_again, trained_again["C"], frequencies),
    alt=(
        "The training losses of the six runs again, each with run C in grey behind it. "
        "A falls faster than C at first, but then stays near a dashed line below 6 while "
        "C keeps falling. B falls almost to 0. D leaves C after about 40 steps and stays "
        "above it. E covers C almost everywhere. F stays almost where it began."
    ),
    caption=(
        "The six runs again, with the healthy run, C, in grey. The dashed line in A is "
        "the loss of a model that knows only how frequent each token is."
    ),
)

# %% [markdown]
# **C is healthy, and E only looks so.** Each of the other five has a bug:
#
# | curve | what you see | the bug | look for |
# |---|---|---|---|
# | A | falls at once, then stays near 6, at or just above the dashed line | `warmup_steps` is 1: in the paper's formula, this not only skips the warm-up, but also starts with a peak 6.3 times as high | warm-up and learning rate; do all positions have the same vector, as in [chapter 6](06_layers.ipynb)? |
# | B | falls almost to 0 | the decoder input isn't shifted, so the decoder reads the token that it has to predict | a leak: the shift of the labels, the causal mask |
# | D | leaves the healthy curve after about 40 steps and stays above it | `zero_grad` is missing, so each new gradient is added to the earlier ones, as clipping has left them | a missing `zero_grad` |
# | E | looks like C | sources and translations don't belong together, as when one of the two files lacks a line | this curve doesn't show it: see below |
# | F | stays almost where it began | the learning rate is 1,000 times too low | the schedule; whether the optimiser was given the model's parameters |
#
# `runs` has the losses of each run:

# %%
for name, run in runs.items():
    print(f"run {name}: mean loss of the last 20 steps {sum(run[-20:]) / 20:.2f}")

# %% [markdown]
# Two other seeds gave the same symptoms. Without such a check, don't interpret small differences between runs.
#
# The lowest curve, B, belongs to a worthless model: it copies the next token from its input, but at inference time that token isn't there. **A loss that falls suspiciously fast is a leak until proven otherwise.** The causality test from [Masking](04_masking.ipynb) doesn't find this one, because the mask is correct: the leak is in the data.
#
# Run A has the healthy run's learning rate from step 40 on, yet it remains on its plateau: the damage was done in the first steps, which were even larger than in the run above that got stuck without a warm-up.
#
# And run E? So far, C and E have mostly learned things that need no source, so wrong sources do little harm *yet*. We train both again, now for 250 steps with our own `train_step`, and compare right and swapped sources:

# %%
as_in_c = replace(memorising, warmup_steps=40, learning_rate_factor=0.2)
right_run, wrong_run = new_model(), new_model()  # C and E
for step in range(1, 251):
    part = batches[step - 1]
    train_step(*right_run, [part], step, as_in_c)
    train_step(*wrong_run, [swap_sources(part)], step, as_in_c)
    if step in (120, 250):
        for name, (net, _) in (("C", right_run), ("E", wrong_run)):
            right, wrong = (mean_loss(net, b) for b in (unseen, swapped))
            print(f"step {step}, {name}: right {right:.2f}, swapped {wrong:.2f}")

# %% tags=["remove-cell"]
ends = {name: sum(run[-20:]) / 20 for name, run in runs.items()}
assert ends["B"] < 0.2 and ends["F"] > 8.4 and runs["B"][0] < runs["C"][0] - 2.5
assert abs(ends["E"] - ends["C"]) < 0.2
assert ends["D"] > ends["C"] + 0.2 and ends["A"] > ends["C"] + 0.6
assert 4.9 < ends["C"] < 5.3 and 5.25 < ends["D"] < 5.6 and 5.7 < ends["A"] < 6.1
early = slice(10, 20)
assert sum(runs["A"][early]) < sum(runs["C"][early]) - 5
d_minus_c = torch.tensor(runs["D"]) - torch.tensor(runs["C"])
assert d_minus_c[:30].abs().mean() < 0.1 < 0.2 < d_minus_c[60:].mean()
for name, curve in curves.items():  # the figure at the top shows the same runs
    again = trained_again[name]
    assert_close(again, torch.tensor(curve), atol=0.4, rtol=0)
    assert (again - torch.tensor(curve)).abs().mean() < 0.15
check_model, check_adam = new_model()  # short_run and train_step do the same
for step, part in enumerate(batches[:5], 1):
    first_losses = batch_loss(check_model, part, smoothing=0.0) / part.n_tokens
    assert_close(first_losses.item(), losses[step - 1], atol=1e-3, rtol=1e-3)
    train_step(check_model, check_adam, [part], step, as_in_c)
assert abs(frequencies - 5.85) < 0.1 and abs(ends["A"] - frequencies) < 0.15
assert 6 < no_warmup(1) / max(map(schedule, range(1, 121))) < 6.5
assert math.isclose(no_warmup(40), schedule(40))
right_c, swapped_c = (mean_loss(right_run[0], part) for part in (unseen, swapped))
right_e, swapped_e = (mean_loss(wrong_run[0], part) for part in (unseen, swapped))
assert swapped_c - right_c > 0.4 and abs(swapped_e - right_e) < 0.15
assert right_e > right_c + 0.1

# %% [markdown]
# At step 120 the healthy model has just begun to use its source, so swapping costs it a little. At step 250 it costs much more, and E falls behind. That alone wouldn't tell you why, but the swap does: E's loss is almost the same with right and swapped sources, so the model ignores them.
#
# Two more habits help. Log the gradient norm and the learning rate alongside the loss, to see which changed first. And remember `model.eval()`: if you forget it, the validation loss is too high. If you forget `model.train()` after validating, the rest of the run has no dropout.
#
# **Play with the model you have trained.** In a live notebook, the next cell translates your sentences and can switch off heads. In the book, the [live translator](../book/live.md) does so with the course's models.

# %% tags=["skip-execution"]
from transformer.interactive import live_translator

translator = Translator(averaged.cpu().eval(), tokenizer, cpu)
live_translator(translator, [english for english, _ in tests])

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. Your vocabulary has 1,000 tokens, and the first batch has a loss of 2.1. What do you do?**
#
# <details><summary>A. Continue: the lower, the better</summary>
#
# No. Unless it sees the answer, an untrained model can't do much better than ln 1000 ≈ 6.9.
#
# </details>
# <details><summary>B. Look for a leak</summary>
#
# **Right.** The first suspect is the shift of the labels: with tied embeddings, a shallow untrained model tends to copy its input. If the shift is right, check what the loss is divided by. A missing causal mask hardly shows before the first step, because an untrained model can't use it.
#
# </details>
# <details><summary>C. Lower the learning rate</summary>
#
# No. The first loss is computed before the first step, so the learning rate can't have influenced it.
#
# </details>
# <details><summary>D. Increase label smoothing</summary>
#
# No. Smoothing changes the loss a little, but it neither causes nor cures a loss far below guessing.
#
# </details>
#
# **2. Suppose all gradients were ten times as large, from the first step to the last. What happens to Adam's steps?**
#
# <details><summary>A. They become ten times as large</summary>
#
# No. That is what plain gradient descent would do.
#
# </details>
# <details><summary>B. They become √10 times as large</summary>
#
# No. The mean of the gradients and the root of their mean square both grow by the factor 10.
#
# </details>
# <details><summary>C. They practically stay the same</summary>
#
# **Right.** The factor cancels in $\hat m / \sqrt{\hat v}$, except for the tiny $\varepsilon$. That's why the scale of the loss matters so little to Adam. (With clipping, it does matter how the scale compares with the limit.)
#
# </details>
# <details><summary>D. They become ten times smaller</summary>
#
# No. The division by $\sqrt{\hat v}$ makes them ten times smaller, but $\hat m$ makes them ten times larger.
#
# </details>
#
# **3. Two GPUs have batches of 900 and 100 tokens. Each divides its loss by its own count, and then the gradients are averaged. What is wrong?**
#
# <details><summary>A. Nothing: the mean of two means is the mean of all</summary>
#
# No. This is true only if both means are over the same number of tokens.
#
# </details>
# <details><summary>B. A token of the small batch gets nine times the weight of one of the large batch</summary>
#
# **Right.** It counts 1/100 instead of 1/900. Sum first, then divide once by the total number of tokens.
#
# </details>
# <details><summary>C. The gradients are twice as large as they should be</summary>
#
# No. Their scale is about right. It's the weighting of the sentences that is wrong, and that is harder to notice.
#
# </details>
# <details><summary>D. The two GPUs end up with different weights</summary>
#
# No. Both take the same averaged gradient, so their weights stay the same. It's just the wrong gradient.
#
# </details>
#
# **4. Your model has memorised a single batch: its loss is almost zero. What have you shown, and what haven't you?**
#
# <details><summary>Answer</summary>
#
# You have shown that gradients reach the weights, that the labels can be predicted and that the optimiser takes steps. You haven't shown that the model learns to translate. A model whose decoder input isn't shifted, such as that of run B, easily passes this test.
#
# </details>
#
# **5. The training loss is 0.9 and falling; the validation loss was 2.1 and is now 2.4. What do you do?**
#
# <details><summary>Answer</summary>
#
# The model is overfitting. Keep the checkpoint with the lowest validation loss, and stop. Then train again with more data, dropout or a smaller model. But first make sure that both losses are computed alike: with label smoothing and dropout, a training loss can even be *higher* than the validation loss.
#
# </details>
#
# ## Exercises
#
# Seven blanks: the learning rate, the loss of a batch, gradient accumulation, clipping, a step of Adam, the average of checkpoints, and a training loop in which you find three bugs. Each has a check that tells you what is wrong, and a hint.
#
# - In Colab, where the last cell grades your answers:
#   [11_training](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/11_training.ipynb).
#   On GitHub: [11_training.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/11_training.ipynb).
# - On your machine, open `exercises/11_training.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade training
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Some experiments, one command each</summary>
#
# `transformer train` takes the same steps as this chapter, and keeps everything in a **run folder**: settings, metrics and checkpoints. If you interrupt it, the same command resumes it.
#
# ```bash
# # the whole recipe
# transformer train pocket
#
# # post-norm, as in the paper
# transformer train pocket --run runs/post --model.norm post
#
# # post-norm without warm-up, but with the same peak
# transformer train pocket --run runs/cold --model.norm post \
#     --training.warmup-steps 1 --training.learning-rate-factor 0.03
#
# # from German to English
# transformer train pocket --run runs/de --data.direction de-en
#
# # four translations of a sentence, with their scores
# transformer translate runs/pocket \
#     "The old woman does not open the window." --n-best 4
# ```
#
# Compare the runs' `metrics.jsonl` files. Which direction is easier, and why might that be? With `multi30k` instead of `pocket`, the same commands train a translator for captions of photographs.
#
# </details>
# <details><summary>A speedrun: how soon can a model translate real captions?</summary>
#
# With the recipe `multi30k-speedrun`, training takes less than seven minutes on two cores of an AMD EPYC:
#
# ```bash
# transformer train multi30k-speedrun
# transformer evaluate runs/multi30k-speedrun
# ```
#
# The speedrun takes a tenth of the steps of the recipe `multi30k`, which needs two hours on one core. It also has a smaller vocabulary, three layers instead of four, a shorter warm-up with a lower learning-rate factor, and no dropout, because dropout didn't help in a run that sees each sentence only four times. And it uses **Muon** ([Jordan et al., 2024](https://kellerjordan.github.io/posts/muon/)) for the weight matrices of the layers. Muon orthogonalises the momentum of each weight matrix: it sets all singular values to about the same size, so that no direction dominates the step. Embeddings, biases and norms stay with Adam. The page [Experiments](../book/experiments.md) shows the scores, and which changes helped, and has rules by which you can enter a faster one. Don't carry these settings over to a long run: there, dropout pays off.
#
# </details>

# %% tags=["remove-cell"]
results = Path("../book/results/captions-speedrun.json")
if results.exists():  # not in Colab
    speedruns = [
        row
        for row in json.loads(results.read_text("utf-8"))["rows"]
        if row["label"] in ("speedrun-1", "speedrun-2", "speedrun-3")
    ]
    assert len(speedruns) == 3 and all(6 < row["minutes"] < 7 for row in speedruns)
    for row in speedruns:
        assert row["test_sets"][-1]["scores"][0]["value"] > 33

# %% [markdown]
# ## Going further
#
# - **In the paper:** batches in §5.1, optimiser and schedule in §5.3, regularisation in §5.4, averaging in §6.1.
# - **Warm-up:** [Xiong et al. (2020)](https://arxiv.org/abs/2002.04745) and [Liu et al. (2020)](https://aclanthology.org/2020.emnlp-main.463/) on why post-norm needs it. [Popel and Bojar (2018)](https://arxiv.org/abs/1804.00247) give advice on warm-up, batch size and averaging.
# - **Clipping:** [Pascanu et al. (2013)](https://arxiv.org/abs/1211.5063), for recurrent networks, where gradients explode.
# - **Debugging:** Andrej Karpathy's [A Recipe for Training Neural Networks](https://karpathy.github.io/2019/04/25/recipe/) describes what to check, and in which order.
# - **Next:** [Decoding](12_decoding.ipynb). Our model predicts the next token, but how do you get a good *sentence* out of it?
