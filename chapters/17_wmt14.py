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
# # Training the full model on WMT14
#
# In 2017, the paper's base model was trained on eight P100 GPUs in twelve hours (§5.2), and scored 27.3 BLEU on the test set newstest2014 (Table 2). **How long would your GPU take, and what would it cost?** Move the sliders to find out. We haven't trained it at full size: what this page says about that comes from the paper, from the runs of others, and from short measurements.

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
    print(f"With all figures: {book}/chapters/17_wmt14.html")

# %% tags=["hide-input"]
import io
import json
import re
import statistics
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout
from textwrap import fill, wrap

import numpy as np
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from transformer.bench.report import step_table
from transformer.cli import main
from transformer.data import pocket
from transformer.data.batching import Batches
from transformer.plots import style
from transformer.plots.roofline import GPUS
from transformer.plots.style import Captioned, Picture
from transformer.plots.training_cost import training_cost
from transformer.plots.training_curves import training_curves
from transformer.recipes import RECIPES
from transformer.training.optimizer import build_optimizers

warnings.filterwarnings("ignore", "IProgress")  # about progress bars


def rule_of_thumb(recipe):
    """FLOP of a whole training run: 6 per parameter and target token."""
    target_tokens = recipe.training.steps * recipe.training.batch_tokens
    return 6 * recipe.model.n_parameters * target_tokens


flop = {name: rule_of_thumb(RECIPES[f"wmt14-{name}"]) for name in ("base", "big")}
# assumed prices in euros per GPU-hour, roughly what clouds charge
prices = {
    "T4": 0.40,
    "L4": 0.70,
    "V100": 0.80,
    "RTX 4090": 0.50,
    "A100": 1.50,
    "H100": 2.50,
}
Captioned(
    training_cost(
        flop,
        {name: gpu.teraflops for name, gpu in GPUS.items()},
        prices,
        {"base": 12.0, "big": 84.0},
        "the paper's 8 P100",
        description=(
            "Hours of training on a logarithmic scale, a dot for each of six GPUs, "
            "from the T4, which takes longest, to the H100. A menu chooses the base "
            "or the big model; sliders set the utilisation, the number of GPUs and "
            "a factor for all prices. A dotted line marks the hours that the paper "
            "reports."
        ),
    ),
    "Estimated hours and price of training the paper's model on each of six kinds of "
    "GPU. We assume that an hour costs from €0.40 (T4) to €2.50 (H100). "
    "The dotted line is the time reported in the paper.",
)

# %% [markdown]
# The chart uses each GPU's peak speed in 16 bits, from its data sheet. The [utilisation](16_gpu_performance.ipynb) (model FLOPs utilisation, MFU) is the share of this peak that a training run reaches; you'll see below why we start with 15%, and how much it may differ from GPU to GPU. Look up today's prices, and correct ours with the slider. (In reality, more GPUs raise the price a little, because they have to exchange gradients.)
#
# This page shows the commands that train the full model, and runs each of them on a tiny one, which takes about a minute on a CPU.
#
# By the end you will be able to estimate the time, price and energy of a training run before you pay for it, to start, watch and resume the training of the paper's model, and to judge its score. **About 45 minutes.** The chapter builds on all earlier ones, above all [Training](11_training.ipynb) and [Evaluation](13_evaluation.ipynb).

# %% tags=["hide-input", "imports"]
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from tabulate import tabulate
from torch.utils.flop_counter import FlopCounterMode

from transformer.checkpoint import read_json, step_checkpoints
from transformer.config import PRESETS, TrainingConfig
from transformer.data.batching import Sequences, collate
from transformer.data.corpora import corpus_manifests
from transformer.data.prepare import prepare
from transformer.data.tokenizer import Tokenizer
from transformer.device import Device, choose_device
from transformer.evaluation.metrics import bleu
from transformer.inspection import count_flops
from transformer.model import Transformer
from transformer.plots.roofline import GPUS
from transformer.recipes import RECIPES
from transformer.training.memory import estimate_memory
from transformer.training.objective import batch_loss
from transformer.training.run_folder import read_metrics
from transformer.training.validation import validate
from transformer.translator import Translator

# %% [markdown]
# ## The recipe
#
# The recipe `wmt14-base` is the sum of chapters 1 to 13, plus mixed precision from chapter 16. Settings in bold deviate from the paper, or the paper doesn't mention them ([all deviations](../book/deviations.md), with reasons):
#
# | setting | the paper | `wmt14-base` | chapter |
# |---|---|---|---|
# | layers on each side | 6 | 6 | [6](06_layers.ipynb) |
# | `d_model`, `d_ff`, heads | 512, 2,048, 8 | 512, 2,048, 8 | [7](07_full_model.ipynb) |
# | layer norm | after the addition (§3.1) | after the addition | [6](06_layers.ipynb) |
# | vocabulary, shared | about 37,000 (§5.1) | 37,000 | [8](08_subword_tokenization.ipynb) |
# | sentence pairs | 4.5 million (§5.1) | **the same, cleaned** | [9](09_data_and_batching.ipynb) |
# | target tokens per step | about 25,000 (§5.1) | at most 25,000 | [9](09_data_and_batching.ipynb) |
# | steps | 100,000 (§5.2) | 100,000 | |
# | optimiser | Adam: β₁ = 0.9, β₂ = 0.98, ε = 10⁻⁹ (§5.3) | the same | [11](11_training.ipynb) |
# | warm-up | 4,000 steps (§5.3) | 4,000 steps | [11](11_training.ipynb) |
# | peak learning rate | 0.0007, by the formula (§5.3) | 0.0007 | [11](11_training.ipynb) |
# | dropout | 0.1 (§5.4) | 0.1 | [6](06_layers.ipynb) |
# | label smoothing | 0.1 (§5.4) | 0.1 | [10](10_label_smoothing.ipynb) |
# | gradient clipping | not mentioned | **norm at most 1** | [11](11_training.ipynb) |
# | precision | not mentioned | **mixed, on a GPU** | [16](16_gpu_performance.ipynb) |
# | checkpoints | every 10 minutes (§6.1), about 1,500 steps | **every 1,000 steps** | |
# | averaged | the last 5 (§6.1) | the last 5 | below |
# | beam size, length penalty α | 4, 0.6 (§6.1) | 4, 0.6 | [12](12_decoding.ipynb) |
#
# `wmt14-big` has twice the width, twice the `d_ff` and twice the heads, a dropout of 0.3, 300,000 steps, and 20 checkpoints to average.

# %% tags=["remove-cell"]
for name in ("base", "big"):
    model, training = (
        RECIPES[f"wmt14-{name}"].model,
        RECIPES[f"wmt14-{name}"].training,
    )
    factor = 1 if name == "base" else 2
    shape = (model.d_model, model.d_ff, model.n_heads)
    assert shape == (512 * factor, 2048 * factor, 8 * factor)
    assert (model.n_layers, model.norm, model.vocab_size) == (6, "post", 37_000)
    assert model.tie_embeddings == "all" and model.dropout == (
        0.1 if factor == 1 else 0.3
    )
    assert training.steps == (100_000 if factor == 1 else 300_000)
    assert (training.batch_tokens, training.warmup_steps) == (25_000, 4000)
    assert (training.optimizer, training.learning_rate_factor) == ("adam", 1)
    assert (training.label_smoothing, training.max_grad_norm) == (0.1, 1)
    assert training.checkpoint_every == 1000 and training.average_steps == 0
    assert training.keep_checkpoints == (5 if factor == 1 else 20)
assert round((512 * 4000) ** -0.5, 4) == 0.0007 and round(600 / 0.4) == 1500
adam = build_optimizers(torch.nn.Linear(2, 2), "adam", choose_device("cpu"))
assert "betas: (0.9, 0.98)" in str(adam) and "eps: 1e-09" in str(adam)

# %% [markdown]
# **These settings have worked for others at full size:** [three runs on four A40 GPUs](https://github.com/WangZesen/Reproduce-Transformer/tree/f0eb74b17ccfe8485c083c86485d075a28bccbb6) also used Adam with this warm-up and peak rate, and a post-norm model. **So don't shorten the warm-up.** When we did, because we had only minutes on a GPU, the base model learned little with Adam.
#
# <details><summary>What we have trained with post-norm layers and short or long warm-ups</summary>
#
# | model | optimiser | warm-up steps | peak rate | steps | BLEU on captions |
# |---|---|---:|---:|---:|---:|
# | base, on an H200 | Adam | 500 | 0.0009 | 1,043 | 0.25 |
# | base, on an H200 | Adam | 500 | 0.0005 | 600 | 2.7 |
# | base, on an H200 | Muon | 500 | 0.0009 | 1,004 | 34.6 |
# | small, on a CPU | Adam | 125 | 0.0079 | 2,000 | 0.0 |
# | small, on a CPU | Adam | 125 | 0.0028 | 2,000 | 2.2 |
# | small, on a CPU | Adam | 1,000 | 0.0028 | 2,000 | 10.2 |
# | small, on a CPU | Adam | 1,000 | 0.0028 | 8,000 | 35.1 |
# | small, on a CPU | Adam | 4,000 | 0.0014 | 8,000 | 38.2 and 38.8 (two seeds) |
#
# The base models learned from 225,000 pairs: captions, everyday sentences and a little of WMT14 (logs of our [third](https://github.com/transformer-course/transformer-course/blob/main/book/results/gpu/third-run.md) and [fourth](https://github.com/transformer-course/transformer-course/blob/main/book/results/gpu/fourth-run.md) session on a GPU). On newstest2014, the one with Muon scored 4.2, presumably because it had seen hardly any news. The small models have six post-norm layers and learned from captions only ([Experiments](../book/experiments.md)); compare only rows with the same number of steps. [Xiong et al. (2020)](https://arxiv.org/abs/2002.04745) also found that post-norm models need a long warm-up or a low rate. If you only have minutes, use Muon.
#
# The model of the A40 runs is PyTorch's `nn.Transformer`, which is post-norm by default. Later versions of that repository are pre-norm.
#
# </details>

# %% tags=["remove-cell"]
stored = Path("../book/results/gpu")
if stored.exists():  # not in Colab
    text = (stored.parent / "paper-layout.json").read_text("utf-8")
    reached = [
        row["test_sets"][-1]["scores"][0] for row in json.loads(text)["rows"]
    ]
    assert [(s["name"], round(s["value"], 1)) for s in reached] == [
        ("BLEU", 10.2),
        ("BLEU", 0.0),
        ("BLEU", 2.2),
    ]
    rates = [(128 * steps) ** -0.5 for steps in (125, 1000, 4000)]
    assert [f"{rate:.4f}" for rate in rates] == ["0.0079", "0.0028", "0.0014"]
    rates = [factor * (512 * 500) ** -0.5 for factor in (0.45, 0.25)]
    assert [f"{rate:.4f}" for rate in rates] == ["0.0009", "0.0005"]
    text = (stored.parent / "paper-warmup.json").read_text("utf-8")
    long_runs = json.loads(text)["rows"]
    assert [
        (run["step"], f"{run['test_sets'][-1]['scores'][0]['value']:.1f}")
        for run in long_runs
    ] == [(8000, "38.2"), (8000, "38.8"), (8000, "35.1")]
    text = (stored / "real-text.json").read_text("utf-8")
    real_text = {
        (run["optimizer"], run["residual_stream"]): run
        for run in json.loads(text)["results"]
    }
    scored = {
        key: [
            f"{test_set['scores'][0]['value']:.1f}" for test_set in run["test_sets"]
        ]
        for key, run in real_text.items()
    }  # newstest2014, captions, everyday
    assert scored["muon", "bf16"][:2] == ["4.2", "34.6"]
    assert real_text["adam", "fp32"]["test_sets"][1]["scores"][0]["value"] == 0.25
    steps_taken = [real_text[key]["steps"] for key in scored]
    assert steps_taken == [1043, 1099, 1004]
    text = (stored / "fourth-run.md").read_text("utf-8")
    assert "a factor of 0.25), so a highest rate of 0.0005" in " ".join(
        text.split()
    )
    assert "and 2.7 after 600 with Adam and float32" in " ".join(text.split())

# %% [markdown]
# ## What will it cost?
#
# ### How much arithmetic is it?
#
# Nearly all the arithmetic is in matrix products. In a linear layer, each weight takes one multiplication and one addition per token, which is 2 floating-point operations (**FLOP**). The backward pass needs two more such products, for the gradients of the input and of the weights. Together, that is **6 FLOP per weight and token**, and PyTorch's own counter agrees:

# %%
layer = torch.nn.Linear(3, 2, bias=False)
x = torch.randn(1, 3, requires_grad=True)  # one token
with FlopCounterMode(display=False) as counter:
    layer(x).sum().backward()
print(f"{layer.weight.numel()} weights, {counter.get_total_flops()} FLOP")

# %% tags=["remove-cell"]
assert counter.get_total_flops() == 6 * layer.weight.numel()

# %% [markdown]
# Which weight matrices is a token's vector multiplied by? With $d$ for `d_model`, $f$ for `d_ff`, $N$ layers and a vocabulary of $V$ tokens:
#
# - For a **source** token, each encoder layer has $4d^2$ weights in self-attention and $2df$ in the feed-forward network. Each decoder layer also computes a key and a value from it for cross-attention, with $2d^2$ weights.
# - For a **target** token, each decoder layer has $4d^2$ weights in self-attention, $2d^2$ in cross-attention for the query and the output, and $2df$ in the feed-forward network. At the end, its logits take $Vd$.
#
# Embedding a token is only a lookup; biases and layer norms are negligible. The scores and weighted sums of attention involve no trained weights, but comparing a query with $n$ keys and averaging $n$ values takes as much work as a matrix with $2 \cdot n \cdot d$ weights. Scores that the causal mask hides count, too, as in the counter below.


# %%
def training_flop(model, n, m, pairs=1):
    """FLOP of training on sentence pairs of n source and m target tokens."""
    d, f, N = model.d_model, model.d_ff, model.n_layers
    source = N * (6 * d * d + 2 * d * f)
    target = source + model.vocab_size * d
    attention = 2 * N * d * (n * n + m * m + m * n)  # encoder, decoder, cross
    return 6 * pairs * (n * source + m * target + attention)


# %% [markdown]
# The package can count operations as they run. Its count and our formula agree:

# %%
small = replace(PRESETS["base"], d_model=64, d_ff=256, n_layers=2, vocab_size=1000)
small_model = Transformer(small)
source = torch.randint(4, 1000, (2, 7))  # two sentences of 7 tokens
target = torch.randint(4, 1000, (2, 5))  # and their translations, 5 tokens each
with count_flops(small_model) as counter:
    small_model(source, target).sum().backward()
counted = counter.get_total_flops()
print(f"counted {counted:,}, formula {training_flop(small, 7, 5, pairs=2):,}")
assert counted == training_flop(small, 7, 5, pairs=2)

# %% [markdown]
# One source token and one target token together pass through every weight once. The embedding table counts once, as the output layer's matrix. So if both sides have about the same number of tokens, there is a simple rule of thumb: **6 × parameters × target tokens.** The paper's training takes 100,000 steps of about 25,000 target tokens (§5.1, §5.2). With sentences of 30 tokens, that is:

# %%
base = PRESETS["base"]
steps, batch_tokens = 100_000, 25_000
rule_of_thumb_flop = 6 * base.n_parameters * steps * batch_tokens
exact = training_flop(base, 30, 30, pairs=steps * batch_tokens / 30)
print(f"parameters    {base.n_parameters:,}")
print(f"rule of thumb {rule_of_thumb_flop:.3g} FLOP")
print(f"exact         {exact:.3g} FLOP, {exact / 3.3e18:.0%} of Table 2")

# %% tags=["remove-cell"]
assert flop["base"] == rule_of_thumb_flop
assert math.isclose(exact, rule_of_thumb_flop, rel_tol=0.02)
assert round(exact / 3.3e18, 2) == 0.29

# %% [markdown]
# The paper's Table 2 reports $3.3 \cdot 10^{18}$ FLOP, because it counts differently: it multiplies the 12 hours by the number of GPUs and the speed that the authors assume for a P100, 9.5 TFLOP/s (footnote 5). Our count is 29% of that, so the GPUs reached about 29% of the assumed speed. (That speed is for 32-bit numbers, so don't compare the 29% with the utilisations below, which are shares of 16-bit peaks.)
#
# <details><summary>The rule of thumb for language models</summary>
#
# In a language model, every token passes through every weight, which makes it 6 × parameters × tokens, the $C \approx 6ND$ of the *scaling laws* of [Kaplan et al. (2020)](https://arxiv.org/abs/2001.08361).
#
# </details>
#
# The figure shows where the operations are spent. The work of the last bar, *scores and weighted sums*, grows with the square of the length, but at 30 tokens it hardly counts.

# %% tags=["hide-input"]
d, f, N, V, n = base.d_model, base.d_ff, base.n_layers, base.vocab_size, 30
parts = {
    "output layer (logits)": (V * d, style.OUTPUT),
    "feed-forward, encoder": (2 * N * d * f, style.KEY),
    "feed-forward, decoder": (2 * N * d * f, style.QUERY),
    "self-attention weights, enc.": (4 * N * d * d, style.KEY),
    "self-attention weights, dec.": (4 * N * d * d, style.QUERY),
    "cross-attention weights": (4 * N * d * d, style.VALUE),
    "scores and weighted sums": (2 * N * d * 3 * n, style.PLAIN),
}
total = sum(cost for cost, _ in parts.values())
assert math.isclose(6 * n * total, training_flop(base, n, n))
with style.in_style():
    figure, axes = style.new_figure(4.6, 2.6)
    for row, (cost, colour) in enumerate(parts.values()):
        axes.barh(row, 100 * cost / total, color=colour, height=0.65)
        axes.text(100 * cost / total + 0.7, row, f"{cost / total:.0%}", va="center")
    axes.set_yticks(range(len(parts)), list(parts))
    axes.invert_yaxis()
    axes.set_xlim(0, 37)
    axes.set_xlabel("% of the operations")
    axes.set_title("Base model, sentences of 30 tokens", loc="left")
Picture(
    figure,
    alt=(
        "Bars of the share of operations by part. The output layer is the longest, 30 "
        "per cent; the feed-forward networks of encoder and decoder have 20 each; the "
        "weight matrices of each of the three kinds of attention have 10; the scores "
        "and weighted sums of all attention layers together have 1 per cent."
    ),
    caption=(
        "Where the base model's operations go: the output layer and the feed-forward "
        "networks take most of them, and attention scores hardly count."
    ),
)

# %% [markdown]
# ### From operations to hours, euros and kilowatt-hours
#
# The time follows from the operations and the peak speed of a GPU, in FLOP per second:
#
# $$ \text{seconds} = \frac{\text{FLOP}}{\text{peak} \cdot \text{utilisation} \cdot \text{GPUs}} $$
#
# For the price, multiply this time by the number of GPUs and the price of a GPU-hour. The only unknown is the utilisation. Here are published runs for which we know hours, hardware and tokens: the [three runs of the base model on four A40s](https://github.com/WangZesen/Reproduce-Transformer/tree/f0eb74b17ccfe8485c083c86485d075a28bccbb6), and one of [the big model on eight A100s](https://github.com/FlagOpen/FlagPerf/tree/99a6e4e8b5263566793ab6efa9783735f09fc4ca/training/nvidia/transformer-pytorch):

# %%
# model, target tokens, hours, GPUs, peak in TFLOP/s (from the data sheet)
published = [
    ("base", 112_760 * 25_000, 5.21, 4, 149.7),  # steps, tokens per step
    # 312,422 tokens a second for 4,122 seconds:
    ("big", 312_422 * 4122, 4122 / 3600, 8, 312),
]
for name, tokens, hours, gpus, peak in published:
    needed = 6 * PRESETS[name].n_parameters * tokens
    possible = hours * 3600 * gpus * peak * 1e12
    print(
        f"{name:4} {needed:.2g} FLOP, {hours:.1f} h, {gpus} GPUs: "
        f"{needed / possible:.0%} utilised"
    )

# %% tags=["remove-cell"]
base_share, big_share = (
    6 * PRESETS[name].n_parameters * tokens / (hours * 3600 * gpus * peak * 1e12)
    for name, tokens, hours, gpus, peak in published
)
assert 0.08 < base_share < 0.15 < big_share < 0.2
big_training = RECIPES["wmt14-big"].training
assert 5.7 < big_training.steps * big_training.batch_tokens / published[1][1] < 5.95
for hours, table_2 in ((12, 3.3e18), (84, 2.3e19)):  # base, big
    assert math.isclose(8 * 9.5e12 * 3600 * hours, table_2, rel_tol=0.02)

# %% [markdown]
# Our 15% lies between the two. On an H200, we measured more, though only in short runs on random sentences ([measurements](../book/speed.md)):
#
# | GPUs | base model | big model |
# |---|---|---|
# | eight P100, the paper (§5.2) | 12 hours | 84 hours |
# | four A40, 112,760 steps | 5.2 hours | |
# | one H200, at the speed of our short runs | 1.0 hours, 26% utilised | 6.4 hours, 42% utilised |
#
# <details><summary>How the H200 was measured</summary>
#
# The base model reached 684,000 target tokens a second over 20 consecutive steps. The big model's 324,000 are from `transformer bench`, which waited for the GPU after each step. Measured that way, the base model reached 516,000 tokens a second, which would be 1.3 hours. The hours leave out validation and checkpoints.
#
# </details>
#
# Why haven't we trained the full model, then? We have had a GPU only for four sessions of fifteen minutes.

# %% tags=["remove-cell"]
stored = Path("../book/results/gpu")
if stored.exists():  # not in Colab
    files = {
        f.stem: json.loads(f.read_text("utf-8")) for f in stored.glob("*.json")
    }
    bench = {
        name: files[f"{name}-compiled"]["results"]["benchmarks"][0]
        for name in ("base", "big")
    }
    flop_per_token = {  # counts padding
        name: record["flops"] / record["target_tokens"]
        for name, record in bench.items()
    }
    ours, _, products_alone = (i["speeds"] for i in bench["big"]["implementations"])
    measured_peak = max(products_alone) * flop_per_token["big"]
    speeds = {
        "base": files["ladder"]["results"][-1]["target_tokens_per_second"],
        "big": statistics.median(ours),
    }
    # An H200 has more and faster memory than an H100, but the same peak.
    data_sheet = GPUS["H100"].teraflops * 1e12
    rows = []
    for name, speed in speeds.items():
        training = RECIPES[f"wmt14-{name}"].training
        hours = training.steps * training.batch_tokens / speed / 3600
        real_tokens = bench[name]["source_tokens"] + bench[name]["target_tokens"]
        real = (
            real_tokens / bench[name]["padded_tokens"]
        )  # the share without padding
        achieved = speed * flop_per_token[name]
        utilisation = achieved * real / data_sheet
        row = [f"{round(speed, -3):,.0f}", f"{hours:.1f}", f"{utilisation:.0%}"]
        rows.append([name, *row])
    assert rows == [
        ["base", "684,000", "1.0", "26%"],
        ["big", "324,000", "6.4", "42%"],
    ]
    assert round(measured_peak / 1e12, -1) == 760 and data_sheet == 989e12
    for record in bench.values():
        real = record["source_tokens"] + record["target_tokens"]
        assert 0.02 < 1 - real / record["padded_tokens"] < 0.031
    in_bench = statistics.median(bench["base"]["implementations"][0]["speeds"])
    assert round(in_bench, -3) == 516_000
    assert round(100_000 * 25_000 / in_bench / 3600, 1) == 1.3
    text = step_table(bench["base"])
    for cells in (
        "time per step | 48.4 ms",
        "padding | 3.0%",
        "work per second | 204 TFLOP/s",
        "measured peak | 769 TFLOP/s",
        "share of measured peak | 26.5%",
        "whole training | 1.34 hours",
    ):  # shown in Measure before you start
        assert re.search(cells.replace(" | ", " *[|] *").replace(".", "[.]"), text)
    assert round(100 * 204 * 0.97 / 989) == 20
    assert all("H200" in files[name]["gpu"] for name in ("ladder", "big-compiled"))

# %% [markdown]
# What about other GPUs? `costs` estimates the hours, the energy and the rent. The energy is the time multiplied by the GPU's maximum power and by an assumed overhead for the rest of the machine and its cooling. (`prices`, `flop` and `rule_of_thumb` come from the first figure's code.)


# %%
def costs(flop, gpu, watts=0, euros_per_hour=0, gpus=1, utilisation=0.15):
    """Hours, kWh and rent in euros."""
    hours = flop / (GPUS[gpu].teraflops * 1e12 * utilisation * gpus * 3600)
    kwh = hours * gpus * watts * 1.5 / 1000  # 1.5: the assumed overhead
    return [hours, kwh, hours * gpus * euros_per_hour]


# %% [markdown]
# Is the utilisation the same on all GPUs? [Chapter 16](16_gpu_performance.ipynb) estimated it for a compiled layer, from 43% on an L4 to 71% on a V100. So we compute the price of the base model twice: with 15% for all, and in proportion to these estimates, with 15% for the H100:

# %%
estimates = [62, 43, 71, 67, 69, 52]  # %, of chapter 16
watts = [70, 72, 300, 450, 400, 700]
rents = {}
print("          at 15% for all     in proportion")
print("GPU       hours  kWh  rent   share   rent")
for gpu, estimate, power in zip(GPUS, estimates, watts, strict=True):
    hours, kwh, rent = costs(flop["base"], gpu, power, prices[gpu])
    share = 0.15 * estimate / estimates[-1]
    rents[gpu] = rent, costs(flop["base"], gpu, 0, prices[gpu], 1, share)[2]
    print(f"{gpu:9} {hours:5.1f}  {kwh:3.1f}  {rent:4.1f}", end="")
    print(f"   {share:5.0%}  {rents[gpu][1]:5.1f}")

# %% tags=["remove-cell"]
hours_on = {gpu: costs(flop["base"], gpu)[0] for gpu in GPUS}
assert [round(hours_on[gpu]) for gpu in ("T4", "A100", "H100")] == [27, 6, 2]
cheapest = ["H100", "RTX 4090"]
for column in (0, 1):
    by_rent = sorted(rents, key=lambda gpu: rents[gpu][column])
    assert sorted(by_rent[:2]) == cheapest and by_rent[0] == cheapest[column]
    assert rents[by_rent[2]][column] > 1.3 * rents[by_rent[1]][column]
assert max(prices, key=prices.get) == "H100" and min(prices, key=prices.get) == "T4"
assert [f"{rents['H100'][0]:.1f}", f"{rents['H100'][1]:.1f}"] == ["4.4", "4.4"]
assert [f"{rents['RTX 4090'][i]:.1f}" for i in (0, 1)] == ["5.3", "4.1"]
assert round(flop["big"] / flop["base"]) == 10
assert round(costs(flop["base"], "T4", utilisation=0.1)[0]) == 40

# %% [markdown]
# **At 15%, one H100 does in under two hours, for less than five euros, what took the paper's eight P100 twelve hours.** It needs about 2 kWh; by the same formula, the eight P100 (250 to 300 W each) needed about 40.
#
# **With these prices, the H100 and the RTX 4090 are the cheapest either way, and the T4, with the lowest price per hour, isn't.** What decides is the price per hour divided by the speed that you really get, so measure before you rent for long. The big model takes ten times as much of everything.
#
# You also need 1.7 GB of downloads, about 45 minutes on a CPU to prepare the text, and disk space: 0.6 GB for the prepared text, and 2.5 GB for the base model's run, or 21 GB for the big one's.

# %% [markdown]
# ## Choose a first recipe and a GPU
#
# Begin with a small recipe, so that mistakes don't cost days. The table counts parameters and target tokens in millions (M), and the hours on a T4 at 15%:

# %%
rows = []
for name in ("wmt14-mini", "multi30k", "iwslt17", "wmt14-base", "wmt14-big"):
    model, training = RECIPES[name].model, RECIPES[name].training
    tokens = training.steps * training.batch_tokens
    hours = costs(rule_of_thumb(RECIPES[name]), "T4")[0]
    time_on_t4 = f"{hours:.0f}" if hours >= 1 else "< 1"
    rows.append([name, model.n_parameters / 1e6, tokens / 1e6, time_on_t4])
header = ["recipe", "M params", "M tokens", "T4 hours"]
print(tabulate(rows, header, floatfmt=",.1f", colalign=["left"] + ["right"] * 3))

# %% [markdown]
# `wmt14-mini` needs no GPU: on one CPU core, with 25,000 sentence pairs, it took 10 minutes and scored 0.3 BLEU on newstest2014 ([Experiments](../book/experiments.md)). As a translator it's useless, but it shows that every step works.
#
# **`multi30k` is a good next step**, because you can compare your score with ours: after about two hours on one CPU core, three seeds scored 39.4 to 39.6 BLEU on captions. (We haven't trained `iwslt17` yet.)
#
# ```bash
# transformer train multi30k      # downloads and prepares the corpus first
# transformer evaluate runs/multi30k
# ```
#
# By the package's estimate, `wmt14-base` needs about 12 GB of memory in 16 bits, and `wmt14-big` about 24 GB. So a T4 (16 GB) has room for the base model, and an A100 or H100 for both. If a batch doesn't fit, `transformer train` notices before the first step and splits it.
#
# In Colab, a T4 is free, but a session lasts [at most 12 hours](https://research.google.com/colaboratory/faq.html), and often less, so 27 hours take three sessions or more; *The session ends*, below, shows how to continue. **The 27 hours rest on an assumption:** we have no measurement on a T4, which has no bfloat16, so it trains in float16 with loss scaling. At 10% it would be 40 hours. Run `transformer bench` first.

# %% tags=["remove-cell"]
stored = Path("../book/results/multi30k.json")
if stored.exists():  # not in Colab
    seeds = [
        (row["minutes"], run["scores"][0]["value"])
        for row in json.loads(stored.read_text("utf-8"))["rows"]
        if row["label"] in ("multi30k", "multi30k-seed-2", "multi30k-seed-3")
        for run in row["test_sets"]
        if (run["split"], run["beam_size"]) == ("test", 4)
    ]
    assert len(seeds) == 3 and all(110 < minutes < 130 for minutes, _ in seeds)
    assert {round(score, 1) for _, score in seeds} <= {39.4, 39.5, 39.6}

# %% [markdown]
# ## The commands
#
# Five commands lead from the corpus to translations:

# %% tags=["hide-input"]
commands = [
    ("prepare", "downloads, verifies, cleans,\ntokenizes", "token ids"),
    ("train", "the model; resumes after\nan interruption", "checkpoints"),
    ("average", "the mean of the weights of\nthe last checkpoints", "averaged checkpoint"),
    ("evaluate", "beam search on the test set; saves\nscores with signatures", "averaged checkpoint"),
    ("translate", "your own sentences", ""),
]  # fmt: skip
with style.in_style():
    figure, axes = style.new_figure(3.9, 3.9)
    box = {
        "boxstyle": "round,pad=0.35",
        "facecolor": "none",
        "edgecolor": style.INK,
    }
    for row, (name, does, leaves) in enumerate(commands):
        axes.text(0, -row, name, ha="center", va="center", bbox=box)
        axes.text(0.62, -row, does, va="center", fontsize=10)
        if row < len(commands) - 1:
            arrow = {"arrowstyle": "-|>", "color": style.INK}
            axes.annotate("", (0, -row - 0.76), (0, -row - 0.24), arrowprops=arrow)
            axes.text(
                0.12, -row - 0.5, leaves, va="center", fontsize=9, style="italic"
            )
    axes.set_xlim(-0.55, 2.5)
    axes.set_ylim(-4.4, 0.4)
    axes.axis("off")
Picture(
    figure,
    alt=(
        "Five boxes from top to bottom: prepare, train, average, evaluate, translate. "
        "Beside each is what it does. Arrows show what the next one uses: token ids, "
        "checkpoints, and for evaluate and translate the averaged checkpoint."
    ),
    caption=(
        "From corpus to translations: five commands in the order in which you run "
        "them. In italics: what the next one reads from disk."
    ),
)

# %% [markdown]
# Below, each command for `wmt14-base` comes first. Then we run the same one with a tiny version of `wmt14-mini`, on short sentences from the pocket corpus. The folded cell defines the options that make it so small, `$SMALL`, and `shell`, which runs a line as your terminal would. It also moves this session to a temporary folder, so **restart the session before you train something of your own.**

# %% tags=["hide-input"]
os.chdir(tempfile.mkdtemp())
os.environ["TRANSFORMER_DATA"] = "data"  # instead of your cache folder
splits = {}
for split, count in {"train": 10_000, "valid": 600, "test": 600}.items():
    pairs = [(p.source, p.target) for p in pocket.pairs(split, count)]
    short = [pair for pair in pairs if max(len(t.split()) for t in pair) <= 6]
    for language, lines in zip(("en", "de"), zip(*short, strict=True), strict=True):
        Path(f"{split}.{language}").write_text("\n".join(lines) + "\n")
    splits[split] = [{"en": f"{split}.en", "de": f"{split}.de"}]
manifest = {"languages": ["en", "de"], "splits": splits}
Path("short.json").write_text(json.dumps(manifest))  # our corpus

os.environ["SMALL"] = (
    "--data.corpus short.json --model.vocab-size 1000 --model.d-model 64 "
    "--model.d-ff 256 --model.n-layers 2 --model.dropout 0 "
    "--training.steps 300 --training.batch-tokens 500 --training.warmup-steps 100 "
    "--training.checkpoint-every 10 "
    "--training.validate-every 60 --training.validation-sentences 30"
)
torch.set_num_threads(1)  # so that the same sums are added in the same order
os.environ["OMP_NUM_THREADS"] = "1"
printed = []  # the lines of the latest command


def shell(line, exit_code=0, only=""):
    """Run a `transformer` command and print its output, or only some lines of it."""
    print("\n    ".join(wrap(f"$ {line}", 86)))
    # As in a new process: an earlier command on a GPU has turned it off.
    torch.backends.cuda.enable_flash_sdp(True)
    output, status = io.StringIO(), 0
    with redirect_stdout(output), redirect_stderr(output):
        try:
            main(shlex.split(os.path.expandvars(line))[1:])
        except SystemExit as end:
            status = end.code
    text = output.getvalue().replace(os.environ["SMALL"], "$SMALL")
    lines = text.replace(f"{Path.cwd()}/", "").split("\n")
    printed[:] = [line for line in lines if "\r" not in line]  # no progress bars
    wrapped = [  # except tables
        t if "  " in t else fill(t, 90, subsequent_indent="    ")
        for t in printed
        if only in t
    ]
    print("\n".join(wrapped).strip("\n"))
    assert status == exit_code


# %% [markdown]
# ### Prepare
#
# ```bash
# transformer prepare wmt14-base
# ```
#
# This downloads WMT14, cleans it with the filters of [chapter 9](09_data_and_batching.ipynb), trains a tokenizer on what remains, and stores token ids. The same with the tiny recipe:

# %%
shell("transformer prepare wmt14-mini $SMALL")

# %% [markdown]
# <details><summary>How we estimated its time and disk space at full size, and what the filters drop from real text</summary>
#
# We prepared 35,000 similar pairs. They took 22 seconds of CPU time on an AMD EPYC, and 130 bytes of disk space for each pair that was kept. WMT14 has 4.5 million pairs. The filters dropped 2.8%, most often because one side had more than twice as many words as the other.
#
# </details>

# %% [markdown]
# ### Measure before you start
#
# ```bash
# transformer bench wmt14-base
# ```
#
# This takes a few training steps on your machine and estimates the hours of the whole run. (In Colab, put `!` in front.) On an H200, compiled and with random sentences, it estimated 1.34 hours.
#
# <details><summary>The rows of its table, and the utilisation</summary>
#
# | measure | value |
# |---|---|
# | time per step | 48.4 ms |
# | padding | 3.0% |
# | work per second | 204 TFLOP/s |
# | measured peak | 769 TFLOP/s |
# | share of measured peak | 26.5% |
# | **whole training** | 1.34 hours |
#
# The utilisation is the work per second without the padding, divided by the data sheet's peak: 204 × 0.97 / 989 = 20%. That is less than the 26% above, partly because `bench` waits for the GPU after each step. The *share of measured peak* counts padding as work, and compares with large matrix products alone.
#
# </details>
#
# ### Train
#
# ```bash
# transformer train wmt14-base
# ```
#
# This saves checkpoints and the values of the training curves, and shows its progress every 50 steps. The tiny run:

# %% tags=["wrap-output"]
shell("transformer train wmt14-mini $SMALL --device cpu")
run = Path("runs/wmt14-mini")

# %% [markdown]
# A line of progress shows the training loss (with label smoothing), the learning rate, target tokens per second, and the remaining time (*ETA*). A validation reports a loss without label smoothing, and the BLEU of a few sentences, translated by greedy search, which shows only whether the model improves.
#
# All of it is kept in the **run folder**, `run` in the code, with the settings, the tokenizer and the checkpoints. `transformer curves` plots the losses. Point at a step to see its numbers:

# %% tags=["hide-input"]
Captioned(
    training_curves(
        read_metrics(run),
        description=(
            "Two charts over the training steps. The training and validation losses "
            "fall. BLEU on validation sentences climbs from near zero. Pointing at a "
            "step shows its numbers."
        ),
    ),
    "Training curves of the run: both losses fall, and BLEU on validation sentences "
    "climbs from near zero.",
)

# %% [markdown]
# <details><summary>How much disk space does a run folder need?</summary>
#
# Each checkpoint contains the weights, 4 bytes each, and the one with the lowest validation loss is kept separately, as `best`. The two newest also contain the *training state*: Adam's two averages (8 bytes per weight), the state of the random number generators, and the position in the data. For `wmt14-base`, which keeps five, that makes 2.5 GB; for `wmt14-big`, which keeps twenty, 21 GB.
#
# </details>


# %% tags=["remove-cell"]
def run_folder_bytes(n_parameters, keep=5):
    """Weights of the checkpoints and of the best one, and the state of two."""
    return 4 * n_parameters * (keep + 1) + 8 * n_parameters * 2


recipe = read_json(run / "recipe.json")
n_parameters = replace(base, **recipe["model"]).n_parameters
found = sum(path.stat().st_size for path in run.glob("*.safetensors"))
for name, keep, gigabytes in (("base", 5, 2.5), ("big", 20, 21)):
    size = run_folder_bytes(PRESETS[name].n_parameters, keep)
    assert math.isclose(size / 1e9, gigabytes, rel_tol=0.02), size
    assert RECIPES[f"wmt14-{name}"].training.keep_checkpoints == keep
assert math.isclose(found, run_folder_bytes(n_parameters), rel_tol=0.02)

# %% [markdown]
# Is a full-size run going well?
#
# - **The first loss** should be about 11 (`--training.log-every 1` prints it). Equal probabilities would give $\ln 37{,}000 \approx 10.5$; an untrained model's random logits add about 0.5.
# - **In between**, both losses should fall steadily; a plateau from the start is a bad sign (see *The score is too low*). We have no curve at full size, but the page of the [A40 runs](https://github.com/WangZesen/Reproduce-Transformer/tree/f0eb74b17ccfe8485c083c86485d075a28bccbb6) plots loss and BLEU by epoch (about 5,600 steps). That validation loss includes label smoothing, unlike ours, so compare its shape, and BLEU.
# - **At the end**, the paper reports 25.8 BLEU on the validation set, newstest2013, and a perplexity of 4.92 (Table 3), so a loss of $\ln 4.92 = 1.59$. A loss per token depends on the tokenizer, so yours may differ.
#
# ### Average, evaluate, translate
#
# ```bash
# transformer average runs/wmt14-base
# transformer evaluate runs/wmt14-base
# transformer translate runs/wmt14-base "The old woman is not here."
# ```
#
# As the paper does for its base model (§6.1), `average` takes the last five checkpoints; for the big model, add `--last 20`. In the tiny run they are 10 steps apart:

# %% tags=["wrap-output"]
shell(f"transformer average {run}")

# %% [markdown]
# Here are the validation losses of the five checkpoints and of their average:

# %%
data_config = replace(RECIPES["wmt14-mini"].data, corpus="short.json")
data = prepare(data_config, vocab_size=1000)
device = choose_device("cpu")
# The loss covers all validation pairs. BLEU isn't needed: one sentence is enough.
settings = TrainingConfig(batch_tokens=2000, validation_sentences=1)
losses = {}
for name in [*step_checkpoints(run), "averaged"]:
    translator = Translator.load(run, device, name)
    losses[name] = validate(translator, data, settings)["valid_loss"]
    print(f"{name:13} {losses[name]:.3f}")

# %% [markdown]
# The average is better than each of the five. (At full size it should gain less, because the final learning rate is about fifty times lower; for converged models, [Gao et al. (2022)](https://aclanthology.org/2022.findings-aacl.18/) found a small but robust gain in BLEU.) To see why, move all weights in a straight line from one checkpoint to the next, and a little beyond both. The figure shows the validation loss on this line:

# %% tags=["hide-input"]
ends = [
    parameters_to_vector(Translator.load(run, device, name).model.parameters())
    for name in step_checkpoints(run)[-2:]
]
walker = Translator.load(run, device)
line = np.linspace(-0.5, 1.5, 9)
heights = []
for t in line:
    point = (1 - t) * ends[0] + t * ends[1]
    vector_to_parameters(point.detach(), walker.model.parameters())
    heights.append(validate(walker, data, settings)["valid_loss"])
assert 45 < (64 * 300) ** -0.5 / (512 * 100_000) ** -0.5 < 55  # learning rates
assert losses["averaged"] < min(losses[name] for name in step_checkpoints(run))
assert min(heights[3:6]) < min(heights[2], heights[6])  # lower than at the ends
assert losses["averaged"] < min(heights)
with style.in_style():
    figure, axes = style.new_figure(3.9, 2.6)
    axes.plot(line, heights, "-o", color=style.QUERY, markersize=4)
    labels = [str(int(name[5:])) for name in step_checkpoints(run)[-2:]]
    for at in (2, 6):
        label = "the two checkpoints" if at == 2 else None
        axes.plot(
            line[at], heights[at], "o", color=style.WRONG, markersize=9, label=label
        )
    mean = losses["averaged"]
    axes.axhline(mean, color=style.VALUE, linestyle="--", label="average of five")
    ticks = [f"step\n{labels[0]}", "half-\nway", f"step\n{labels[1]}"]
    axes.set_xticks([0, 0.5, 1], ticks)
    axes.set_title("Validation loss on the line", loc="left")
    axes.grid(True)
    axes.legend(loc="upper center", fontsize=10)
Picture(
    figure,
    alt=(
        "The loss along a straight line through two checkpoints is a valley. It is "
        "lowest between them and higher at both. A dashed line, the average of five "
        "checkpoints, is lower still."
    ),
    caption=(
        "Validation loss on the line through two checkpoints (orange): it is lowest "
        "between them, and the average of five checkpoints is lower still."
    ),
)

# %% [markdown]
# The loss is higher at both checkpoints than between them, as if the weights moved about randomly around the bottom of a **valley**. Averaging removes most of the random part, and five checkpoints remove more of it than two.
#
# `evaluate` translates the test set with the averaged weights and the paper's beam search, and prints seven scores:

# %%
shell(f"transformer evaluate {run} --device cpu")

# %% [markdown]
# The first row, BLEU with its signature, is the score to report. These sentences are short and easy, so the score tells you nothing about newstest2014. With `wmt14-base`, the first line must mention 3,003 sentences. The translations are kept beside the scores, so anyone can compute the score again:


# %% tags=["wrap-output"]
def lines_of(path):
    """The lines of a text file. (str.splitlines also splits at rarer characters.)"""
    return Path(path).read_text("utf-8").removesuffix("\n").split("\n")


scores = read_json(run / "test.scores.json")
translations = lines_of(run / "test.hypotheses.txt")
again = bleu(translations, lines_of(run / "test.references.txt"))
print(again)
assert scores["scores"][0]["value"] == again.value

# %% tags=["remove-cell"]
assert again.value > read_metrics(run)[-1]["valid_bleu"] + 3
assert 4_500_000 / len(data.tokens("train")[0]) > 1000
assert 200 < base.n_parameters / n_parameters < 220

# %% [markdown]
# Finally, `translate` translates sentences of your own:

# %% tags=["wrap-output"]
shell(f"transformer translate {run} 'The old woman is not here.' --device cpu")

# %% [markdown]
# After 300 small steps, the output is German, but not yet a good translation.
#
# ## Which score to expect
#
# These scores on newstest2014 have been published for base models ([more](../book/results.md), under *Published results*). Compare your *BLEU* only with the column sacreBLEU, and your *BLEU paper* only with the last one:
#
# | system | steps | sacreBLEU | as in the paper |
# |---|---:|---:|---:|
# | the paper (Table 2), averaged | 100,000 | | 27.3 |
# | [a tutorial's run](https://github.com/sgrvinod/a-PyTorch-Tutorial-to-Transformers) on an RTX 2080 Ti, pre-norm, averaged | 100,000 | 25.1 | 26.5 |
# | Joey NMT v2.1 | | 24.4 | |
# | Tensor2Tensor's released model | 3.8 million | 27.5 | 29.0 |
#
# The last column is 1.4 or 1.5 points higher than sacreBLEU, because it is computed in another way. In sacreBLEU, the paper's model would get **roughly 26**, from 25.8 to 26.6 ([Evaluation](13_evaluation.ipynb) explains why). The A40 runs report 27.6 (± 0.2) without averaging, but computed in a third way, so don't compare either of your scores with that.
#
# If your sacreBLEU score is clearly below 25, something may be wrong, though one of the published models has 24.4. It is unlikely to be the architecture, which the package's tests compare with PyTorch's; the next section begins with likelier causes.

# %% tags=["remove-cell"]
assert round(math.log(37_000), 1) == 10.5 and round(math.log(4.92), 2) == 1.59
torch.manual_seed(0)
new_model = Transformer(RECIPES["wmt14-base"].model).eval()
with torch.no_grad():
    new_logits = new_model(*torch.randint(4, 37_000, (2, 4, 25)))
assert 0.9 < new_logits.var() < 1.1
# the mean loss over all labels
assert 10.95 < (new_logits.logsumexp(-1) - new_logits.mean(-1)).mean() < 11.05
del new_model, new_logits
assert RECIPES["wmt14-base"].training.warmup_steps == 4000
stored = Path("../book/results/published.json")
if stored.exists():  # not in Colab
    systems = json.loads(stored.read_text("utf-8"))["systems"]
    scores_of = {}
    for system in systems:
        if (
            system["test_set"] == "newstest2014 en-de"
            and "big" not in system["system"]
        ):
            by_measure = scores_of.setdefault(system["author"], {})
            by_measure[system["compare"]["score"]] = round(system["score"], 1)
    assert scores_of["Vaswani et al."] == {"BLEU paper": 27.3}
    for author, plain, paper in (
        ("sgrvinod", 25.1, 26.5),
        ("Tensor2Tensor project", 27.5, 29.0),
    ):
        found = scores_of[author]
        assert (found["BLEU"], found["BLEU paper"]) == (plain, paper)
        assert round(paper - plain, 1) in (1.4, 1.5)
    assert scores_of["Joey NMT project"] == {"BLEU": 24.4}
assert 5600 < 112_760 / 20 < 5650  # their config: 20 epochs

# %% [markdown]
# ## What goes wrong in practice
#
# You can skip most of this until something fails, except *The session ends* and *Several GPUs* (for question 3, and blanks 4 and 5 of the exercises).
#
# ### The score is too low
#
# “The loss is fine” means that the training and validation losses fell smoothly and haven't risen again. The causes that are cheapest to check come first:
#
# | you see | suspect first | where to look |
# |---|---|---|
# | one or two points below 27.3, the loss is fine | 1. scores computed in different ways | the signatures, and the row *BLEU paper* |
# | | 2. another version of the test set: `wmt14` instead of `wmt14/full` (see [Evaluation](13_evaluation.ipynb)) | the number of sentences, 3,003 |
# | | 3. straight quotation marks where the reference has „ and “, if *BLEU paper* is as high as expected | `test.hypotheses.txt` |
# | | 4. no averaging, or greedy search | `diagnose`: *checkpoints averaged*, *beam size* |
# | near zero, the loss is fine | the test set: lines that don't correspond, or source and target exchanged | the first and last lines of `test.hypotheses.txt` and `test.references.txt` |
# | much less, the loss is fine | the text: extra spaces, lower case, subwords that weren't joined | the same two files |
# | much less, and translations stop early | the length penalty, or sources longer than `max_length`, which are truncated | `diagnose`: *length ratio*, *truncated* |
# | much less, and a higher loss | fewer tokens per step than you think | `diagnose`: *target tokens per step* |
#
# <details><summary>Four more signs, in the score, during training or in the text</summary>
#
# | you see | suspect first | where to look |
# |---|---|---|
# | about a point below what you expect, all else is fine | a dropout, label smoothing or learning-rate factor other than 0.1, 0.1 and 1 (§5.3, §5.4; without dropout, the paper's base model lost 1.2 points: Table 3, rows D) | `recipe.json` |
# | English words in the German | untranslated copies in the training data | the table that `prepare` prints |
# | a loss that stays on a plateau from the start | post-norm without enough warm-up | [chapter 6](06_layers.ipynb) |
# | infinite gradients, skipped steps | float16 on an old GPU. A few at the start are normal: loss scaling is searching for its factor | `log.jsonl` |
#
# </details>
#
# The function `diagnose` reads these values from the run folder. The length ratio is the number of words in the translations, divided by that in the references.


# %%
def diagnose(run):
    row, scores = read_metrics(run)[-1], read_json(run / "test.scores.json")
    hypotheses, references = (
        Path(run / f"test.{kind}.txt").read_text("utf-8").split()
        for kind in ("hypotheses", "references")
    )
    return {
        "target tokens per step": round(row["target_tokens"] / row["step"]),
        "length ratio": round(len(hypotheses) / len(references), 2),
        **{kind: scores["test_set"][kind] for kind in ("empty", "truncated")},
        "checkpoints averaged": len(scores["model"]["averaged"] or []),
        "beam size": scores["settings"]["beam_size"],
    }


# %%
for what, value in diagnose(run).items():
    print(f"{what:24} {value}")

# %% tags=["remove-cell"]
found = diagnose(run)
assert 450 < found["target tokens per step"] <= 500
assert found["empty"] == found["truncated"] == 0 and found["length ratio"] < 0.95
assert found["checkpoints averaged"] == 5 and found["beam size"] == 4

# %% [markdown]
# In our tiny run, only the length ratio is off; at full size, it should be very close to 1.
#
# ### The session ends
#
# Colab may end a session at any time, and the cheapest cloud GPUs (*spot* or *preemptible* ones) can be reclaimed. On Ctrl-C, or if the cloud sends the signal SIGTERM as a warning, `train` saves a checkpoint and stops. A process that is killed without warning can't save anything. To see what that costs, we train the tiny model twice for 60 steps: once without interruption, and once in a separate process, which we **kill** as soon as its checkpoint for step 30 exists.

# %% tags=["wrap-output"]
short_run = "transformer train wmt14-mini $SMALL --training.steps 60 --device cpu"
shell(f"{short_run} --run runs/uninterrupted", only="step 60/60")

# %%
command = os.path.expandvars(f"{short_run} --run runs/interrupted")
arguments = [sys.executable, "-m", "transformer.cli", *shlex.split(command)[1:]]
child = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
interrupted, uninterrupted = Path("runs/interrupted"), Path("runs/uninterrupted")
while not (interrupted / "step-0000030.json").exists():
    assert child.poll() is None, "it ended before it could be killed"
    time.sleep(0.02)
child.send_signal(signal.SIGKILL)
child.wait()
last = step_checkpoints(interrupted)[-1]
progress = read_json(interrupted / f"{last}.json")["progress"]
print({key: progress[key] for key in ("step", "epoch", "batch_index")})

# %% [markdown]
# The checkpoint records where the run was. To resume, run **the same command again**:

# %% tags=["wrap-output"]
shell(f"{short_run} --run runs/interrupted", only="resuming")

# %% [markdown]
# Did we lose anything? We compare the **checksums**, short numbers that depend on every byte of a file, of all weights and training states of the two runs:


# %%
def checksums(run):
    found = {}
    for name in [*step_checkpoints(run), "best"]:
        description = read_json(run / f"{name}.json")
        found[name] = description["weights"], description.get("state")
    return found


assert checksums(uninterrupted) == checksums(interrupted)
print(f"equal: all {len(checksums(interrupted))} checkpoints")

# %% [markdown]
# The two runs ended with the same files, **bit for bit**. This holds on a CPU; on a GPU, some kernels add numbers in whatever order they arrive (*atomic additions*), so even two uninterrupted runs may differ, unless you forbid such kernels with `torch.use_deterministic_algorithms(True)`. Killing a run costs only the steps since the last checkpoint. With one every 1,000 steps, at 15% utilisation, you lose at most:

# %%
interval = RECIPES["wmt14-base"].training.checkpoint_every / steps
for gpu in ("T4", "A100"):
    hours = interval * costs(flop["base"], gpu, watts=0)[0]
    print(f"{gpu:5} {60 * hours:.0f} minutes")

# %% [markdown]
# **In Colab**, the disk disappears with the session, so put the run folder and the data on your Google Drive. In every session, run only this notebook's first cell and then these lines, and the training continues:
#
# ```text
# from google.colab import drive
#
# drive.mount("/content/drive")
# %env TRANSFORMER_DATA=/content/drive/MyDrive/wmt14
# !transformer train wmt14-base --run /content/drive/MyDrive/runs/wmt14-base
# ```
#
# Empty the Drive's bin from time to time: deleted checkpoints still count towards your storage, and all 100 with their training states take 76 GB, far more than the 15 GB of a free account.

# %% tags=["remove-cell"]
assert round(100 * 12 * base.n_parameters / 1e9) == 76
assert round(0.1 * costs(flop["base"], "T4", watts=0)[0], 1) == 2.7

# %% [markdown]
# ### A batch doesn't fit into memory
#
# Here is the estimate from [chapter 16](16_gpu_performance.ipynb) in bfloat16, without and with gradient accumulation or activation checkpointing, which save memory without changing the batch:

# %%
gpu = Device(torch.device("cuda"), torch.bfloat16)  # only a description
settings = {
    "as it is": {},
    "accumulation in 2 parts": {"gradient_accumulation_steps": 2},
    "accumulation in 4 parts": {"gradient_accumulation_steps": 4},
    "activation checkpointing": {"activation_checkpointing": True},
}
rows = []
for label, change in settings.items():
    sizes = []
    for recipe in (RECIPES["wmt14-base"], RECIPES["wmt14-big"]):
        training = replace(recipe.training, **change)
        sizes.append(estimate_memory(recipe.model, training, gpu).total / 1e9)
    rows.append([label, *sizes])
print(tabulate(rows, ["setting", "base, GB", "big, GB"], floatfmt=".1f"))

# %% tags=["remove-cell"]
for column, size in ((1, 8), (2, 16)):
    assert rows[0][column] > size
    assert 1.05 * rows[1][column] + 0.5 < size
assert 1.05 * rows[0][1] + 0.5 < 16 and 1.05 * rows[0][2] + 0.5 < 40
assert [round(1.05 * size + 0.5) for size in rows[0][1:]] == [12, 24]

# %% [markdown]
# Add about 5% for *fragmentation*, gaps between the allocated blocks, and 0.5 GB for the CUDA context. So use `--training.gradient-accumulation-steps 2` for `wmt14-base` on a GPU with 8 GB, and for `wmt14-big` on a T4.
#
# ### Several GPUs
#
# On several GPUs in one machine, start `train` with `torchrun`; everything else stays as it is. (We haven't measured this yet. If you stop it, `torchrun` adds a traceback that you can ignore.)
#
# ```bash
# torchrun --nproc-per-node 8 -m -- \
#     transformer.cli train wmt14-base
# ```
#
# There is one process for each GPU, and its number is its **rank**. Each batch is divided into one part per rank: `batch_tokens` counts the target tokens of a *step*, on all GPUs together. All ranks compute the same shuffled list of parts, and with four ranks each takes every fourth one, so together they use every sentence pair once per epoch.
#
# If you resume on two GPUs instead of one, keep all settings: each GPU then processes half of every batch. If you doubled the batch, the package would refuse, because that changes the run: the learning-rate schedule counts steps (§5.3).

# %% tags=["remove-cell"]
sources, targets = data.tokens("train")
# A part has up to 125 target tokens, so a step has up to 500, as on one GPU.
ranks = [Batches(sources, targets, 125, 1, rank, world_size=4) for rank in range(4)]
used = np.concatenate([pairs for batches in ranks for pairs in batches.plan])
assert sorted(used) == list(range(len(sources)))

# %% tags=["remove-cell"]
resume = f"{short_run} --run runs/interrupted"
shell(f"{resume} --training.batch-tokens 1000", exit_code=2)
assert any("--training.batch-tokens: 500, now 1000" in line for line in printed)

# %% tags=["remove-cell"]
tokens = data.tokens("train")
two_gpus = [Batches(*tokens, 250, seed=1, rank=r, world_size=2) for r in (0, 1)]
accumulating = Batches(*tokens, 250, seed=1, gradient_accumulation_steps=2)
for _ in range(10):
    on_two_gpus = [next(gpu).labels for gpu in two_gpus]
    accumulated = [next(accumulating).labels, next(accumulating).labels]
    assert all(map(torch.equal, on_two_gpus, accumulated))

# %% tags=["remove-cell"]
text = Path("train.de").read_text()
Path("train.de").write_text(text.replace("\n", " Und so weiter.\n", 40))
shell(resume, exit_code=2)
Path("train.de").write_text(text)
assert any("started with another text" in line for line in printed)

# %% [markdown]
# ### An error message
#
# Once you have removed the cause, the same command resumes from the last checkpoint.
#
# <details><summary>What four messages mean, and what to do</summary>
#
# | the message says that | cause | what to do |
# |---|---|---|
# | the run was started with other settings | an option that changes the run | restore it, or choose another folder with `--run` |
# | the run was started with another text | the files of the corpus have changed | restore them, or choose another folder |
# | no space is left on the device | the disk is full | free some space. (The last checkpoint is complete: a file gets its name only after all of it has been written.) |
# | a file has the wrong checksum | the download is incomplete, or the file has changed on the server | the message says where to get it, and its right checksum |
#
# </details>
#
# Why does `train` refuse to resume if the text has changed? A tokenizer trained on another text gives the tokens other ids, and the model knows tokens only by their ids. Without this check there would be no error, only a bad loss. How bad? Our averaged model gets the same validation sentences, encoded by its own tokenizer and by one that was trained on half of the text:

# %%
texts = {name: lines_of(f"{name}.de") for name in ("train", "valid")}
english = {name: lines_of(f"{name}.en") for name in ("train", "valid")}
half = len(texts["train"]) // 2
other = Tokenizer.train(english["train"][:half] + texts["train"][:half], 1000)
tiny = Translator.load(run, device)
loss_with = {}
for name, tokenizer in {"its own": tiny.tokenizer, "another": other}.items():
    sides = [tokenizer.encode_all(side["valid"]) for side in (english, texts)]
    packed = [Sequences.pack(side) for side in sides]
    batch = collate(*packed, range(len(sides[0])))
    with torch.no_grad():
        loss = batch_loss(tiny.model, batch, smoothing=0.0) / batch.n_tokens
    loss_with[name] = loss.item()
    print(f"{name:8} loss {loss:.2f}")
print(f"guessing, ln 1000: {math.log(1000):.2f}")

# %% tags=["remove-cell"]
assert loss_with["another"] > math.log(1000) > loss_with["its own"]

# %% [markdown]
# **Worse than guessing**, because the model is confident and wrong.

# %% tags=["remove-cell"]
known = corpus_manifests()["wmt14"]["files"].values()
assert 1.6e9 < sum(file.get("size", 0) for file in known) < 1.7e9
ids = 1_928_696 + 1_958_436 + 2 * 272_224  # of 34,012 pairs
assert round(ids / 34_012) == 130 and 0.55 < 130 * 4.5e6 / 1e9 < 0.65
assert 44 < 22 * 4.5e6 / 35_000 / 60 < 49
assert 8 + 41 + 227 + 2 + 407 + 4 + 123 + 169 == 981 and round(98.1 / 35, 1) == 2.8

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You double `d_model` and `d_ff`, and keep the number of layers and the vocabulary. The work per token becomes about …**
#
# <details><summary>A. twice as much</summary>
#
# No. That's true of the output layer alone, $Vd$, which contains $d$ once.
#
# </details>
# <details><summary>B. the same, because the heads share the width</summary>
#
# No. The number of heads doesn't change the work, but you made all matrices larger.
#
# </details>
# <details><summary>C. eight times as much</summary>
#
# No. Both sides of a matrix double, so a layer's work becomes four times as much, and the output layer's only twice as much.
#
# </details>
# <details><summary>D. more than three times as much</summary>
#
# **Right.** The layers cost $6d^2 + 2df$, which becomes four times as much, and the output layer twice as much. The big model's matrices are larger by exactly these factors.
#
# </details>
#
# **2. Instead of one A100 you rent four, each at the same price per hour. What happens to the time and the price?**
#
# <details><summary>A. A quarter of the time, four times the price</summary>
#
# No. Four GPUs for a quarter of the time cost the same as one for the whole time.
#
# </details>
# <details><summary>B. The same time, because 100,000 steps remain 100,000 steps</summary>
#
# No. The number of steps stays, but four GPUs share the work of each.
#
# </details>
# <details><summary>C. At best, a quarter of the time at the same price</summary>
#
# **Right.** At best, because each GPU has smaller batches and has to wait for the others' gradients. The utilisation falls somewhat, and the price rises accordingly.
#
# </details>
# <details><summary>D. A quarter of the time, and a better model, because it sees four times the data</summary>
#
# No. `batch_tokens` is the number of tokens on all GPUs together. If a program gives each GPU a full batch, it's a different run, with a schedule that no longer fits.
#
# </details>
#
# **3. A run is killed at step 51,700, with a checkpoint every 1,000 steps. You resume it. How will the model at step 100,000 differ from that of a run without interruption?**
#
# <details><summary>A. On a CPU, not at all; on a GPU, no more than two uninterrupted runs differ from each other</summary>
#
# **Right.** The checkpoint contains the weights, Adam's averages, the random state and the position in the data. *The session ends*, above, shows that the result is the same, bit for bit.
#
# </details>
# <details><summary>B. It has seen the sentences of 700 steps twice</summary>
#
# No. The process that saw them is gone, with its weights. The new one continues from the weights of step 51,000, at that position in the data.
#
# </details>
# <details><summary>C. It lacks 700 steps</summary>
#
# No. They are repeated, from step 51,000 on, with the same result.
#
# </details>
# <details><summary>D. A little, because Adam has to warm up again</summary>
#
# No. It would have to if its averages weren't saved. They are, two for each weight; that's why the state is twice as large as the weights.
#
# </details>
#
# **4. sacreBLEU gives your base model 25.7, with averaging and a beam size of 4. What do you report?**
#
# <details><summary>A. That you are 1.6 points below the paper</summary>
#
# No. The two scores were computed in different ways, and for other models that alone makes a difference of 0.7 to 1.5 points.
#
# </details>
# <details><summary>B. Nothing yet: you train with other seeds until it is 27.3</summary>
#
# No. Trying until the test set shows the score you want is selection on the test set, and not a fair result (see [Evaluation](13_evaluation.ipynb)).
#
# </details>
# <details><summary>C. The higher one of BLEU and BLEU paper</summary>
#
# No. Then nobody would know what to compare it with.
#
# </details>
# <details><summary>D. 25.7 with its signature, and beside it "BLEU paper" for the comparison with 27.3</summary>
#
# **Right.** The first is for everybody who comes after you, the second for the comparison with 2017.
#
# </details>
#
# **5. Why is it good to average the weights of five checkpoints of *one* run, but useless to average those of five *runs* with different seeds?**
#
# <details><summary>Answer</summary>
#
# Five checkpoints of one run are in the same valley of the loss, and on the line between them the loss stays low, as you saw. Five runs end in five different valleys (which this chapter doesn't show): if two hidden units change places together with their weights, the model computes the same function, so there's no reason for unit 7 of one run to do the same as unit 7 of another. What you can average over runs is their *predictions*.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Fill in six blanks: the arithmetic of a run; its hours, energy and rent; test sentences in the training data; the checkpoint to resume from; the sentences that are left in the epoch; and whether two scores may be compared. Each has a hint, and a check that tells you which mistake you made. Nothing is trained in this notebook.
#
# - In your browser, with nothing to install: [Exercises: training the full model on WMT14](../book/exercises/17_wmt14.md).
# - In Colab, where the last cell grades your answers:
#   [17_wmt14](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/17_wmt14.ipynb).
#   On GitHub: [17_wmt14.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/17_wmt14.ipynb).
# - On your machine, open `exercises/17_wmt14.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade wmt14
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Six experiments; the first three take minutes</summary>
#
# - **Damage a checkpoint.** Cut some bytes off the newest `step-*-state-*.safetensors` of an unfinished run, and resume. What does it print, and is the result still the same, bit for bit?
# - **How many checkpoints should you average, and how far apart?** Train the tiny model with `--training.keep-checkpoints 10`, and compare `transformer average` with `--last 2`, 5 and 10 by their validation losses. Then try `--training.checkpoint-every 30`. Is the average of five still better than the last one?
# - **Your own corpus.** Take a thousand sentence pairs in two files, and go through every step with `--data.corpus yours.en,yours.de` and a smaller vocabulary. What does `prepare` drop?
# - **One step up.** Train `wmt14-mini` unchanged, with the download of News Commentary (80 MB) and the test sets. Estimate first how long it will take.
# - **The real thing.** Train `wmt14-base`. Before you start, write down the hours that the formula predicts from the *work per second* of `transformer bench`, less its *padding*, and compare afterwards.
# - **A speedrun**, like [modded-nanogpt](https://github.com/KellerJordan/modded-nanogpt) for language models. How fast can you reach the paper's quality? Train only on WMT14, from scratch, choose your settings on newstest2013, and use newstest2014 once per seed, at the end. The goal: a mean sacreBLEU score of at least 26 over three seeds, our estimate of the paper's score.
#
# </details>
#
# ## Going further
#
# - **In the paper:** data and batches in §5.1, hardware and hours in §5.2, averaging, beam search and training cost in §6.1 and Table 2, sizes in Table 3. We list our [deviations](../book/deviations.md).
# - **Advice on training:** [Popel and Bojar (2018)](https://arxiv.org/abs/1804.00247) on batch size, warm-up, number of GPUs and averaging.
# - **Next:** the [capstone](https://github.com/transformer-course/transformer-course/blob/main/exercises/18_capstone.ipynb): fill in eight blanks, and you have a whole translator of your own.
