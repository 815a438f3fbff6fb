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
# **You will be able to**
#
# - go from an empty disk to a score on newstest2014 with a handful of commands, and say what each of them leaves behind;
# - compute with a pencil what the paper's models cost in hours and in money, on your GPU, before you rent it;
# - lose a session in the middle of a run, and prove that you lost nothing but minutes;
# - read the score that comes out, and know where to look first when it is too low.
#
# **About 45 minutes.** It builds on all chapters before it, most of all on [The full model](07_full_model.ipynb), [Training your first
# model](11_training.ipynb) and [Evaluation](13_evaluation.ipynb).

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
import json
import math
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer.plots import style
from transformer.plots.style import Picture, SourceCode

# %% [markdown]
# ## The question
#
# The paper's authors had eight GPUs for twelve hours, and then a base model that scores 27.3 on newstest2014 (§5.2, §6.1). You have, say, one GPU, which
# belongs to somebody else, who takes it back without asking.
#
# All the parts are on the table by now. What is left are the questions of whoever pays: **how long will it take and what will it cost, what happens when the
# machine is taken away, and how do I know at the end that I have arrived?**
#
# One thing in advance, so that nobody is misled. This page cannot train that model while you read, and does not act as if. It does three other things. It
# **computes** what the training costs. It **walks the whole way with the real commands**, on a corpus so small that a minute is enough. And it **breaks** that
# small run in the ways in which long ones break. Only the steps marked *full size* need a network and a GPU. No figure here was measured on a GPU; what was
# measured, and on what, stands on the page of [results](../book/results.md).

# %% [markdown]
# ## By hand
#
# How much arithmetic does it take to train a translator? Nearly all of it is matrix products, and those can be counted.
#
# **One weight, one token.** A vector goes through a matrix. Each weight is multiplied once and added once: 2 floating-point operations (FLOP). Going back, each
# weight takes part in two more products: one hands the gradient on to the vector below, one makes the gradient of the weight itself. That is 4 more: **6 FLOP
# for each weight and each token that passes it.**

# %%
layer = torch.nn.Linear(3, 2, bias=False)
x = torch.randn(1, 3, requires_grad=True)  # one token
with FlopCounterMode(display=False) as counter:
    layer(x).sum().backward()
print(f"{layer.weight.numel()} weights, {counter.get_total_flops()} FLOP")
assert counter.get_total_flops() == 6 * layer.weight.numel()

# %% [markdown]
# **Which weights does a token pass?** With $d$ for `d_model`, $f$ for `d_ff`, $N$ layers and $V$ pieces:
#
# - A **source** token passes each encoder layer: an attention, $4d^2$, and a feed-forward, $2df$. And it is made into a key and a value for each decoder
#   layer's cross-attention: $2d^2$.
# - A **target** token passes each decoder layer: an attention, $4d^2$; the query and the output of the second one, $2d^2$; a feed-forward, $2df$. At the end it
#   is compared with all pieces: $Vd$.
#
# Looking a word up costs nothing, and biases and norms are too few to matter. It so happens that a layer costs both sides the same, $6d^2 + 2df$.


# %%
def weights_passed(model):
    """A source token's and a target token's."""
    d, f = model.d_model, model.d_ff
    layers = model.n_layers * (6 * d * d + 2 * d * f)
    return layers, layers + model.vocab_size * d


from transformer.config import PRESETS

base = PRESETS["base"]
source, target = weights_passed(base)
print(f"{source / 1e6:.1f} + {target / 1e6:.1f} million weights")
print(
    f"{6 * (source + target) / 1e6:.0f} million FLOP for a source and a target token"
)

# %% [markdown]
# Add the two up and you get, but for biases and norms, the number of parameters of the whole model. There is nothing else in it. So the rule of thumb: **6 ×
# parameters for each target token**, if the source is about as long as the target. (Of language models you may know "6 × parameters × tokens". There every
# token passes everything. Here each passes its half only, and so the tokens of one side are counted, not of both.)

# %%
from transformer.model import Transformer

parameters = {}
for name in ("base", "big"):
    with torch.device("meta"):  # shapes without memory
        model = Transformer(PRESETS[name])
    parameters[name] = sum(p.numel() for p in model.parameters())
print(f"{parameters['base']:,} parameters")
assert math.isclose(source + target, parameters["base"], rel_tol=0.002)

# %% [markdown]
# **And attention itself?** Its weights are not learned, so they are missing above. A query is compared with $n$ keys, and $n$ values are blended: $2nd$
# multiplications, and as many additions. That is as if it passed $2nd$ weights, once a layer in the encoder, and twice in the decoder. For a whole sentence
# pair of $n$ source and $m$ target tokens:


# %%
def work(model, n, m, pairs=1):
    """FLOP of training on sentence pairs of n source and m target tokens."""
    source, target = weights_passed(model)
    looks = n * n + m * m + m * n  # encoder, decoder, across
    attention = 2 * model.n_layers * model.d_model * looks
    return 6 * pairs * (n * source + m * target + attention)


n = 30
extra = work(base, n, n) / (6 * n * (source + target)) - 1
print(f"sentences of {n} tokens: attention's looks add {extra:.1%}")
as_much = (source + target) / (2 * base.n_layers * base.d_model * 3)
print(f"they cost as much as all the rest at {as_much:,.0f} tokens")
assert extra < 0.01 and as_much > 3000

# %% [markdown]
# The famous quadratic cost is a rounding error here. It is real, and it begins to hurt at texts of thousands of tokens; a sentence does not notice.

# %% tags=["hide-input"]
d, f, N, V = base.d_model, base.d_ff, base.n_layers, base.vocab_size
shares = {
    "feed-forward, encoder": (2 * N * d * f, style.KEY),
    "feed-forward, decoder": (2 * N * d * f, style.QUERY),
    "which word? (output)": (V * d, style.OUTPUT),
    "projections, encoder": (4 * N * d * d, style.KEY),
    "projections, decoder": (4 * N * d * d, style.QUERY),
    "projections, across": (4 * N * d * d, style.VALUE),
    "attention's looks": (2 * N * d * 3 * n, style.PLAIN),
}
whole = sum(cost for cost, _ in shares.values())
assert math.isclose(6 * n * whole, work(base, n, n))
with style.in_style():
    figure, axes = style.new_figure(3.9, 2.5)
    for row, (cost, colour) in enumerate(shares.values()):
        axes.barh(row, 100 * cost / whole, color=colour, height=0.65)
        axes.text(100 * cost / whole + 0.7, row, f"{cost / whole:.0%}", va="center")
    axes.set_yticks(range(len(shares)), list(shares))
    axes.invert_yaxis()
    axes.set_xlim(0, 37)
    axes.set_xlabel("% of the work")
    axes.set_title("Base model, 30 tokens a sentence", loc="left")
Picture(
    figure,
    alt=(
        "Bars of the work by part. The output's comparison with all pieces of the "
        "vocabulary is the longest, 30 percent; the feed-forwards of encoder and "
        "decoder have 20 each; each of the three kinds of attention has 10 for its "
        "projections, and all looks together 1 percent."
    ),
)

# %% [markdown]
# **The whole training.** 100,000 steps of 25,000 target tokens each (§5.1, §5.2), and about as many source tokens:


# %%
def whole_training(recipe):
    tokens = recipe.training.steps * recipe.training.batch_tokens
    return tokens / 30 * work(recipe.model, 30, 30)  # as sentences of 30 tokens


from transformer.recipes import RECIPES

total = {name: whole_training(RECIPES[f"wmt14-{name}"]) for name in ("base", "big")}
for name, flop in total.items():
    print(f"{name:5} {flop:.2e} FLOP")

# %% [markdown]
# **From work to time.** A GPU's data sheet tells how many FLOP it makes in a second at its very best, its *peak*. No training reaches that: there is memory to
# be read, there are small products, and Adam. It reaches some *share* of it.
#
# $$ \text{time} = \frac{\text{work}}{\text{peak} \times \text{share} \times \text{GPUs}} $$
#
# and the price is the time, times the GPUs, times what one costs an hour.
#
# **Is the method any good?** Try it on the one case that is published. Eight P100 took twelve hours for the base model and three and a half days for the big
# one (§5.2). The paper takes 9.5 TFLOP/s for what a P100 sustains in single precision (§6.1, a footnote). Solve for the share of that:

# %%
P100, reported = 9.5e12, {"base": 12.0, "big": 3.5 * 24}  # FLOP/s; hours
table_2 = {"base": 3.3e18, "big": 2.3e19}  # the paper's "training cost"
for name, took in reported.items():
    could = 8 * P100 * 3600 * took
    print(
        f"{name:5} {total[name] / could:.0%} of the {could:.1e} FLOP they could do"
    )
    assert math.isclose(could, table_2[name], rel_tol=0.02)
    assert 0.2 < total[name] / could < 0.5

# %% [markdown]
# Plausible shares, and the larger one belongs to the model with the larger matrices, as it should.
#
# The numbers on the right are, to two digits, the *training cost* in the paper's Table 2; the cell asserts it. The paper says how it got them (§6.1): hours ×
# GPUs × what a GPU sustains. So Table 2 does not tell what the model **needs**, but what its GPUs **could have done** meanwhile. For the base model that is
# more than three times as much. Before you hold your own count against somebody's table, ask which of the two it has.

# %%
assert table_2["base"] > 3 * total["base"]

# %% [markdown]
# ## The picture
#
# The peaks are from the makers' data sheets, for dense products of 16-bit matrices (bfloat16 where the GPU has it, float16 on T4 and V100). They are promises,
# not measurements. **Set the share, the number of GPUs, and what you pay for an hour.** Which share is realistic? Start with 30 %, about what the authors had,
# and try how bad it may get. Then measure yours: `transformer bench wmt14-base` makes twenty real steps and reports the *work per second*; divide that by the data sheet's peak. (Its own "share of the peak" is of the large products that it measures on the same machine, and so a larger one.)

# %%
from transformer.plots.roofline import GPUS

peaks = {name: gpu.teraflops for name, gpu in GPUS.items()}
peaks  # TFLOP/s

# %% tags=["hide-input"]
from transformer.plots.training_cost import training_cost

training_cost(
    total,
    peaks,
    reported,
    "the paper",
    description=(
        "Hours of training on a logarithmic scale, a dot for each of six GPUs, from "
        "the T4, which takes longest, to the H100. A menu chooses the base or the big "
        "model; sliders set the share of the peak, the number of GPUs and the price "
        "of an hour. A dotted line marks the hours that the paper reports."
    ),
)

# %% [markdown]
# Three things to try. Take more GPUs: the time falls, and **the price stays**. Two GPUs for one hour cost what one costs for two, as long as the share does not
# fall. (It does fall somewhat, since they wait for each other's gradients.) Then halve the share: time and price double. It is worth an hour to find out why a
# share is low, before you look for a cheaper offer.
#
# And read down the column at one and the same share: the H100 is fifteen times as fast as the T4. In truth it will be less, as the same model reaches a
# **smaller share on a faster GPU**. Its matrices stay as narrow as they are, the products are over sooner, and what lies between them takes as long as ever. A
# peak is only of use to whoever can keep it busy.
#
# The same as two lines, for your own numbers:


# %%
def hours(flop, tflops, share, gpus=1):
    return flop / (tflops * 1e12 * share * gpus) / 3600


one, eight = (hours(total["base"], peaks["A100"], 0.3, n) for n in (1, 8))
price = 1.50  # for a GPU and an hour, in your own money: write your own
assert round(peaks["H100"] / peaks["T4"]) == 15
print(f"A100 at 30 %: {one:.1f} hours for {one * price:.2f}")
print(f"eight of them: {60 * eight:.0f} minutes for {8 * eight * price:.2f}")
assert math.isclose(one * price, 8 * eight * price)

# %% [markdown]
# ## The code
#
# ### The recipes
#
# Before you spend a day of GPU on "the paper's base model", look whether it is the paper's. The package's recipes, and then all that Table 3 and §5 say of
# them:

# %%
from tabulate import tabulate

columns = "wmt14-mini", "wmt14-base", "wmt14-big"
shown = {
    "model": ["n_layers", "d_model", "d_ff", "n_heads", "dropout", "norm"],
    "training": ["steps", "batch_tokens", "warmup_steps", "label_smoothing"],
}
rows = [
    [field, *(getattr(getattr(RECIPES[name], part), field) for name in columns)]
    for part, fields in shown.items()
    for field in fields
]
print(tabulate(rows, ["", *columns], intfmt=","))

# %%
table_3 = {  # N, d_model, d_ff, h, dropout, steps; parameters in millions
    "base": (6, 512, 2048, 8, 0.1, 100_000, 65),
    "big": (6, 1024, 4096, 16, 0.3, 300_000, 213),
}
for name, (*sizes, millions) in table_3.items():
    m, t = RECIPES[f"wmt14-{name}"].model, RECIPES[f"wmt14-{name}"].training
    ours = [m.n_layers, m.d_model, m.d_ff, m.n_heads, m.dropout, t.steps]
    assert ours == sizes, name
    assert (t.warmup_steps, t.label_smoothing, t.batch_tokens) == (
        4000,
        0.1,
        25_000,
    )
    print(f"{name:5} {parameters[name] / 1e6:.1f} million, Table 3: {millions}")
    assert abs(parameters[name] / 1e6 / millions - 1) < 0.05

# %% [markdown]
# All equal but the number of parameters, which Table 3 has a little larger for the base model and a little smaller for the big one. "About 37,000" pieces
# (§5.1) leave some room, but no other number would explain both. What else differs from the paper, and why, is listed under
# [deviations](../book/deviations.md).
#
# ### Does it fit into the GPU's memory?
#
# A training step keeps four things in memory: the **weights**, their **gradients**, the **optimiser's state** (Adam's two moments), and the **activations**,
# which the forward pass saves for the backward pass. The first three depend only on the model. In float32 they take 16 bytes per parameter. The activations
# grow with the batch, and usually need the most. Here is what one encoder layer saves for each position in mixed precision: 2 bytes for each number around
# matrix products, 4 in the residual connection, and 1 in a dropout mask.

# %%
d, d_ff = PRESETS["base"].d_model, PRESETS["base"].d_ff
sublayer = (2 + 1 + 4) * d  # its input, the dropout mask, the residual sum
self_attention = sublayer + 2 * 4 * d  # queries, keys, values, joined heads
feed_forward = sublayer + 2 * d_ff  # the hidden layer
print(f"{self_attention + feed_forward:,} bytes per position and layer")

# %% [markdown]
# `memory_budget` adds this up for all layers, the loss and the parameters; `transformer train` prints the result when training starts. Two settings save
# memory, and neither changes the effective batch size. With **gradient accumulation**, a step runs several smaller batches one after another and adds up their
# gradients. With **activation checkpointing**, each layer saves only its input, and the backward pass computes the rest a second time {cite}`chen2016`.

# %%
from transformer.device import Device
from transformer.training.memory import memory_budget

gpu = Device(torch.device("cuda"), torch.bfloat16)  # described, not used
settings = (
    {},
    {"gradient_accumulation_steps": 2},
    {"gradient_accumulation_steps": 4},
    {"activation_checkpointing": True},
)

# %%
rows = []
for setting in settings:
    row = [str(setting) if setting else "as it is"]
    for recipe in (RECIPES["wmt14-base"], RECIPES["wmt14-big"]):
        budget = memory_budget(
            recipe.model, replace(recipe.training, **setting), gpu
        )
        row.append(budget.total / 1e9)
    rows.append(row)
print(tabulate(rows, ["setting", "base, GB", "big, GB"], floatfmt=".1f"))

# %% [markdown]
# So `--training.gradient-accumulation-steps 2` is enough for the base model on a GPU with 8 GB, and for the big model on one with 16 GB. That leaves room for
# what isn't counted: half a gigabyte for CUDA itself, and a fifth more for padding and for gaps between tensors. On a CPU, the prediction is within 10 % of the
# measured memory in every configuration that the tests try. It hasn't been measured on a GPU yet. If a batch doesn't fit there, the trainer notices before
# the first step and splits it.

# %% tags=["hide-cell"]
for column, size in ((1, 8), (2, 16)):
    assert rows[0][column] > size
    assert 1.2 * rows[1][column] + 0.5 < size

# %% [markdown]
# ### The way
#
# Five commands. Each reads what the one before has left on disk, so that any of them can run on another day and on another machine.

# %% tags=["hide-input"]
steps = [
    (
        "prepare",
        "downloads, checks,\ncleans, learns pieces",
        "the token store",
        style.KEY,
    ),
    (
        "train",
        "100,000 steps; goes on\nwhere it was broken off",
        "step-0100000",
        style.QUERY,
    ),
    ("average", "the mean of the\nlast five checkpoints", "averaged", style.VALUE),
    (
        "evaluate",
        "beam 4, α 0.6; seven\nscores with signatures",
        "test.scores.json",
        style.OUTPUT,
    ),
    ("translate", "your own sentences", "text", style.PLAIN),
]
with style.in_style():
    figure, axes = style.new_figure(3.8, 3.9)
    for row, (name, does, leaves, colour) in enumerate(steps):
        box = {"boxstyle": "round,pad=0.35", "facecolor": "none", "linewidth": 2}
        axes.text(
            0,
            -row,
            name,
            ha="center",
            va="center",
            bbox=box | {"edgecolor": colour},
        )
        axes.text(0.62, -row, does, va="center", fontsize=10)
        if row < len(steps) - 1:
            arrow = {"arrowstyle": "-|>", "color": style.INK}
            axes.annotate("", (0, -row - 0.76), (0, -row - 0.24), arrowprops=arrow)
            axes.text(
                0.12, -row - 0.5, leaves, va="center", fontsize=9, style="italic"
            )
    axes.set_xlim(-0.55, 2.3)
    axes.set_ylim(-4.4, 0.4)
    axes.axis("off")
Picture(
    figure,
    alt=(
        "Five boxes from top to bottom: prepare, train, average, evaluate, translate. "
        "Beside each stands what it does, beside each arrow what it leaves: the token "
        "store, the last checkpoint, the averaged checkpoint, the file of scores."
    ),
)

# %% [markdown]
# **Full size**, the whole way is this. The second line measures how fast your machine makes real steps and foretells the hours, before you commit to them.
#
# ```bash
# transformer prepare wmt14-base
# transformer bench wmt14-base
# transformer train wmt14-base
# transformer average runs/wmt14-base
# transformer evaluate runs/wmt14-base
# transformer translate runs/wmt14-base "The way is long."
# ```
#
# With several GPUs in one machine only the third line changes. `torchrun` starts a process for each, and they share every step between them:
#
# ```bash
# torchrun --nproc-per-node 8 -m -- transformer.cli train wmt14-base
# ```
#
# GPUs in several machines work together in the same way if the machines share a file system: every process reads the prepared data and the run folder.
#
# Now we walk it. The recipe `wmt14-mini` is the same way with a small model on the smallest part of WMT14. That too is a download, so we put a **corpus of our
# own** in its place: short sentences of the pocket corpus, written to files as you would write yours, and a manifest that says which file is what.

# %%
from transformer.data import pocket

os.chdir(tempfile.mkdtemp())
os.environ["TRANSFORMER_DATA"] = "data"  # instead of your cache folder
parts = {}
for split, count in {"train": 10_000, "valid": 600, "test": 600}.items():
    pairs = [(p.source, p.target) for p in pocket.pairs(split, count)]
    short = [pair for pair in pairs if max(len(t.split()) for t in pair) <= 6]
    for language, lines in zip(("en", "de"), zip(*short, strict=True), strict=True):
        Path(f"{split}.{language}").write_text("\n".join(lines) + "\n")
    parts[split] = [{"en": f"{split}.en", "de": f"{split}.de"}]
manifest = {"languages": ["en", "de"], "splits": parts}
Path("short.json").write_text(json.dumps(manifest))

# %%
for split, (files,) in parts.items():
    english, german = (
        Path(file).read_text().split("\n") for file in files.values()
    )
    print(f"{split:6}{len(english) - 1:5} pairs: {english[0]} | {german[0]}")

# %% [markdown]
# Every setting of a recipe can be changed on the command line. We change what makes it fit into a minute, and keep that in a variable of the shell, since every
# command that concerns this data has to say the same. `shell` does what your shell does with such a line. It calls the very function behind the command, prints
# what comes out, and leaves out the moving bars and the way to this folder.

# %%
import io
import shlex
from contextlib import redirect_stderr, redirect_stdout

from transformer.cli import main

os.environ["SMALL"] = (
    "--data.corpus short.json --model.vocab-size 1000 --model.d-model 64 "
    "--model.d-ff 256 --model.n-layers 2 --model.dropout 0 "
    "--training.steps 300 --training.batch-tokens 500 --training.warmup-steps 100 "
    "--training.checkpoint-every 10 "
    "--training.validate-every 60 --training.validation-sentences 30"
)


# %%
def shell(line, expected=0):
    print(f"$ {line}")
    said, status = io.StringIO(), 0
    with redirect_stdout(said), redirect_stderr(said):
        try:
            main(shlex.split(os.path.expandvars(line))[1:])
        except SystemExit as end:
            status = end.code
    told = said.getvalue().replace(f"{os.getcwd()}/", "").split("\n")
    lines = [text for text in told if "\r" not in text]
    print("\n".join(lines).strip("\n"))
    assert status == expected
    return lines


# %% [markdown]
# ### Prepare

# %%
said = shell("transformer prepare wmt14-mini $SMALL")

# %% [markdown]
# What is left out is counted, with an example: WMT14's crawled part has pairs that are empty, or many times longer on one side, and whoever cleans without
# looking finds out from the score. The pieces are learned from what remains, and the text is stored as their numbers. That is done **once**: every later
# command finds it there, as long as nothing has changed that shapes it. In `ids` all pieces of a side stand in a row, 2 bytes each, and `ends` says where each
# sentence ends.


# %%
def stored():
    return {p.name: p.stat().st_mtime_ns for p in Path("data/prepared").glob("*/*")}


before = stored()
print(*sorted(before), sep="\n")

# %% [markdown]
# **Full size**, this is where the network is needed. The package knows each archive's addresses and checksum, and takes nothing for it that has other bytes:

# %%
from transformer.data.corpora import downloadable_corpora

wmt14 = downloadable_corpora()["wmt14"]
print("base URLs:", *wmt14["base_urls"], sep="\n  ")
for name, file in wmt14["files"].items():
    size = f"{file['size'] / 1e6:4.0f} MB" if "size" in file else " " * 7
    print(f"{name:33}{size}  {file['digest'][:18]}…")
known = sum(file.get("size", 0) for file in wmt14["files"].values())
print(f"in all {known / 1e9:.1f} GB, and the two that hold dev and test sets")

# %% [markdown]
# With the data there, we can settle a debt: is the pencil's formula right? The package counts the FLOP of a model as they run, with `count_flops`. Two batches of our
# data, its count and ours:

# %%
from transformer.data.batching import Batches
from transformer.data.prepare import PreparedData
from transformer.device import choose_device
from transformer.inspection import count_flops
from transformer.training.trainer import batch_loss

(store,) = Path("data/prepared").glob("short-*")
data, cpu = PreparedData(store), choose_device("cpu")
small = replace(
    RECIPES["wmt14-mini"].model, vocab_size=1000, d_model=64, d_ff=256, n_layers=2
)
small_model = Transformer(small)

# %%
batches, pencil = Batches(*data.tokens("train"), batch_tokens=500, seed=1), 0
with count_flops(small_model) as counter:
    for batch in (next(batches), next(batches)):
        (pairs, n), (_, m) = batch.source.shape, batch.labels.shape
        pencil += work(small, n, m, pairs)
        batch_loss(small_model, batch, smoothing=0.1).backward()
counted = counter.get_total_flops()
print(f"counted {counted:,.0f}, by hand {pencil:,.0f}")
assert math.isclose(counted, pencil)

# %% [markdown]
# To the last operation. (Padding is in both counts: the GPU multiplies it too. The sum for the whole training leaves it out, one of the reasons why a share that is reckoned from hours never reaches 100 %.)
#
# ### Checksums, the token store and ranks
#
# Three details of the data pipeline matter only at this scale.
#
# **Checksums.** Servers disappear, downloads break off, and a file may be corrected years after it was published. Then your numbers are no longer comparable with the paper's, and no error tells you. A checksum is a short number that is computed from every byte of a file. Change one letter, and it is a different number.
# The package gives a download its name only if the checksum is right, so it can try several servers and doesn't have to trust any of them. Here a folder plays the server:

# %%
import hashlib
import warnings

from transformer.data.download import RemoteFile, fetch
from transformer.errors import UserError

warnings.filterwarnings("ignore", "IProgress")  # about progress bars
original = b"Resumption of the session\n"
digest = "sha256:" + hashlib.sha256(original).hexdigest()
file, server = RemoteFile("session.en", urls=(), digest=digest), Path("server")
server.mkdir()

# %%
for content in (original.lower(), original):
    (server / file.name).write_bytes(content)
    print(hashlib.sha256(content).hexdigest()[:24], content.decode().strip())
    try:
        print("fetched:", fetch(file, Path("cache"), mirror="server").name)
    except UserError as error:
        print("refused:", "wrong checksum" in str(error))
        assert not Path("cache/session.en").exists()

# %% [markdown]
# **The token store.** All sentences of a side lie in one array, two bytes per token, because 37,000 ids fit into 16 bits. The array is **memory-mapped**: opening it reads nothing, the operating system loads the parts that are used, and all processes on a machine share one copy. The name of the
# folder ends with a digest of all settings that shape the data. If you change one, `prepare` makes another folder, and an old one can't be mistaken for it:

# %%
from transformer.data.prepare import prepared_folder

sources, targets = data.tokens("train")
print(sources.ids.dtype, type(sources.ids.base).__name__)
config = replace(RECIPES["wmt14-mini"].data, corpus="short.json")
longer = replace(config, max_length=100)
names = [prepared_folder(setting, 1000).name for setting in (config, longer)]
print(*names)
assert names[0] == store.name != names[1]
assert isinstance(sources.ids.base, np.memmap)

# %% [markdown]
# **Ranks.** With several GPUs there is one process for each, and its number is called its **rank**. In each epoch, all ranks compute the same shuffled list of batches, and of four ranks each takes every fourth. All must have the same number of steps, because they exchange gradients in every step and would wait for a rank that has
# finished. So if the number of batches isn't a multiple of four, the largest ones are halved. Every pair is used exactly once:

# %%
ranks = [Batches(sources, targets, 500, 1, rank, world_size=4) for rank in range(4)]
for batches in ranks:
    tokens = [int((targets.lengths()[b] + 1).sum()) for b in batches.plan[:4]]
    print(
        f"rank {batches.rank}: {len(batches.plan)} steps, target tokens {tokens} …"
    )
used = np.concatenate([pairs for batches in ranks for pairs in batches.plan])
assert len({len(batches.plan) for batches in ranks}) == 1
assert sorted(used) == list(range(len(sources)))

# %% [markdown]
# ### Train
#
# We name the CPU and give it one thread. Then the same command makes the same sums in the same order, and gives the same numbers to the last bit, which we
# shall need. Leave `--device` out, and the fastest device there is will be taken.

# %%
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # the same in a process that we start

# %%
said = shell("transformer train wmt14-mini --run runs/whole --device cpu $SMALL")
assert stored() == before  # nothing was prepared anew

# %%
whole = Path("runs/whole")
for path in sorted(whole.iterdir()):
    if not path.name.startswith("."):
        print(f"{path.stat().st_size / 1e3:8.1f} kB  {path.name}")

# %% [markdown]
# That is a **run folder**, and all there is to a run: its settings, its vocabulary, what was measured (`metrics`), when and on what machine it ran
# (`sessions`), the best checkpoint by validation loss, and the last ones. **Point at a step:**

# %% tags=["hide-input"]
from transformer.plots.training_curves import training_curves
from transformer.training.run_folder import read_metrics

training_curves(
    read_metrics(whole),
    description=(
        "Two charts over the training steps. The training and validation losses fall. "
        "BLEU on validation sentences climbs from near zero. Pointing at a step shows "
        "its numbers."
    ),
)

# %% [markdown]
# A checkpoint has two halves. The weights are what translates: 4 bytes each. The *state* is what only the training needs: Adam's two moments, 8 bytes a weight,
# the random numbers' state, and the place in the data. Only the two newest keep theirs.


# %%
def room(weights, keep=5):
    """Bytes that a run folder takes: checkpoints, two states, and the best."""
    return 4 * weights * (keep + 1) + 8 * weights * 2


small_weights = sum(p.numel() for p in small_model.parameters())
found = sum(path.stat().st_size for path in whole.glob("*.safetensors"))
print(f"here: by the formula {room(small_weights):,} bytes, found {found:,}")
assert math.isclose(found, room(small_weights), rel_tol=0.02)
for name in total:
    print(f"{name:5} {room(parameters[name]) / 1e9:.1f} GB")

# %% [markdown]
# While a new checkpoint is written, the oldest is still there, and the mean will come on top. So leave room for two more.
#
# ### When the session ends
#
# Colab ends a session when it likes, and a cheap GPU is cheap because it may be taken away. If the program is told (Ctrl-C, or the SIGTERM that some clouds
# send first), it saves and leaves by itself. If it is not, there is nothing that it could do. That is the case to try. The same command, in a process of its
# own; when its checkpoint of step 150 is there, we let it run on for a moment, and then **kill it** in the middle of whatever it does.

# %%
import signal
import subprocess

command = "train wmt14-mini --run runs/killed --device cpu $SMALL"
arguments = shlex.split(os.path.expandvars(command))
child = subprocess.Popen(
    [sys.executable, "-m", "transformer.cli", *arguments],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)

# %%
killed = Path("runs/killed")
while not (killed / "step-0000150.json").exists():
    assert child.poll() is None, "it ended before it could be killed"
    time.sleep(0.02)
time.sleep(0.2)
child.send_signal(signal.SIGKILL)
assert child.wait() == -signal.SIGKILL

# %%
from transformer.checkpoint import read_json, step_checkpoints

last = step_checkpoints(killed)[-1]
print("it left", ", ".join(step_checkpoints(killed)))
print(json.dumps(read_json(killed / f"{last}.json")["progress"], indent=1))
assert last < step_checkpoints(whole)[-1]

# %% [markdown]
# What stands there is the place in the run, to the batch. To go on, say **the same command again**:

# %%
said = shell("transformer train wmt14-mini --run runs/killed --device cpu $SMALL")

# %% [markdown]
# Now the proof. One run went through, the other died. Compare all that they left: every checkpoint's weights, Adam's moments and the random state, by their
# checksums, and every number of the metrics but the minutes.


# %%
def left_by(run):
    found = {}
    for name in [*step_checkpoints(run), "best"]:
        described = read_json(run / f"{name}.json")
        found[name] = described["weights"], described.get("state")
    rows = [
        {k: v for k, v in row.items() if k != "minutes"}
        for row in read_metrics(run)
    ]
    return found, rows


# %%
assert left_by(whole) == left_by(killed)
print(
    *(f"{n}  {w['sha256'][:24]}…" for n, (w, _) in left_by(whole)[0].items()),
    sep="\n",
)

# %% [markdown]
# **Bit for bit.** Not "about as good": the same files. (The promise is for the CPU. On a GPU some sums are made in whatever order they come, and there even two
# runs that nobody disturbed may differ.)
#
# What did the kill cost? The steps since the last checkpoint: half an interval, on average. How many minutes an interval is, the formula tells:

# %%
every = RECIPES["wmt14-base"].training.checkpoint_every
steps = RECIPES["wmt14-base"].training.steps
for gpu in ("T4", "A100"):
    minutes = 60 * hours(total["base"], peaks[gpu], share=0.3) * every / steps
    print(f"{gpu:5} {every:,} steps take {minutes:.1f} minutes at 30 % of the peak")

# %% [markdown]
# **In Colab** the disk dies with the session, so the run folder has to lie elsewhere, and so does the prepared data. A Drive will do:
#
# ```text
# from google.colab import drive
#
# drive.mount("/content/drive")
# %env TRANSFORMER_DATA=/content/drive/MyDrive/wmt14
# !transformer train wmt14-base --run /content/drive/MyDrive/runs/wmt14-base
# ```
#
# In the next session you say just the same again. (How fast a Drive is read, we have not measured. `transformer bench` has a line for what *data loading* takes
# of a step; if that is much, copy the prepared folder to the local disk first.)
#
# But do a sum beforehand. The run keeps five checkpoints and deletes the others. What is deleted on a Drive goes to its **bin**, and counts until you empty
# that:

# %%
saved = steps // every * 12 * parameters["base"]  # weights and state
print(
    f"{steps // every} checkpoints, {saved / 1e9:.0f} GB in the course of the run"
)
fewer = saved * every / 10_000
print(f"with --training.checkpoint-every 10000: {fewer / 1e9:.0f} GB")
assert saved > 20 * room(parameters["base"])

# %% [markdown]
# ### Average
#
# The paper does not translate with the last checkpoint. It takes the **mean of the weights** of the last five, written ten minutes apart (§6.1). At about 0.4
# seconds a step (§5.2) that is one every 1,500 steps. (Of the big model it takes the last twenty. The recipe `wmt14-big` keeps so many: `transformer average runs/wmt14-big --last 20`.)

# %%
said = shell("transformer average runs/whole")

# %% [markdown]
# Averaging *weights* should give pause. The mean of two networks is in general rubbish. Here it works, as they are one network at five moments, all in one
# valley of the loss. Does it help? The validation loss of each, and of the mean:

# %%
from transformer.config import TrainingConfig
from transformer.training.trainer import validate
from transformer.translator import Translator

setting = TrainingConfig(batch_tokens=2000, validation_sentences=1)
losses = {}
for name in [*step_checkpoints(whole), "averaged"]:
    translator = Translator.load(whole, cpu, name)
    losses[name] = validate(translator, data, setting)["valid_loss"]
    print(f"{name:13} {losses[name]:.3f}")
assert losses["averaged"] < min(losses[name] for name in step_checkpoints(whole))

# %% [markdown]
# The mean beats all five that it is made of. Why? Walk on a straight line from one of the last checkpoints to another, and on beyond it, and measure the loss
# on the way:

# %%
from torch.nn.utils import parameters_to_vector, vector_to_parameters

ends = [
    parameters_to_vector(Translator.load(whole, cpu, name).model.parameters())
    for name in step_checkpoints(whole)[-2:]
]
walker = Translator.load(whole, cpu)
way = np.linspace(-0.5, 1.5, 9)
heights = []
for t in way:
    place = (1 - t) * ends[0] + t * ends[1]
    vector_to_parameters(place.detach(), walker.model.parameters())
    heights.append(validate(walker, data, setting)["valid_loss"])
assert min(heights[3:6]) < min(heights[2], heights[6])  # lower than at both ends
assert losses["averaged"] < min(heights)

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(3.7, 2.6)
    axes.plot(way, heights, "-o", color=style.QUERY, markersize=4)
    names = [
        name.removeprefix("step-0000") for name in step_checkpoints(whole)[-2:]
    ]
    for at in (2, 6):
        axes.plot(way[at], heights[at], "o", color=style.WRONG, markersize=9)
    mean = losses["averaged"]
    axes.axhline(mean, color=style.VALUE, linestyle="--", label="mean of five")
    labels = [f"step\n{names[0]}", "half-\nway", f"step\n{names[1]}"]
    axes.set_xticks([0, 0.5, 1], labels)
    axes.set_title("Validation loss on the line between", loc="left")
    axes.grid(True)
    axes.legend(loc="upper center", fontsize=10)
Picture(
    figure,
    alt=(
        "The loss along a straight line through two checkpoints is a valley. The two "
        "checkpoints stand on its opposite slopes, the lowest point lies between them. "
        "A dashed line, the mean of five checkpoints, lies lower still."
    ),
)

# %% [markdown]
# The two stand on **opposite slopes**. Each step follows the gradient of one batch, and with a rate that never becomes zero (§5.3) the weights go on swinging
# across the valley and never rest on its floor. The mean does. It does what a lower rate at the end would do, afterwards and for free. The lower the rate has
# become, the less there is to take out: do not expect the gain of a short run from a long one.
#
# ### Evaluate
#
# `evaluate` takes the averaged checkpoint, if there is one and the training did not go on since. It translates the test set with the paper's beam (4, α = 0.6) and prints seven scores.

# %%
said = shell("transformer evaluate runs/whole --device cpu")

# %% [markdown]
# **Full size**, the same line translates newstest2014, which the package calls the test set of `wmt14`; the first line of the output should then say 3003
# sentences. Everything that the scores depend on is kept beside them:

# %%
kept = read_json(whole / "test.scores.json")
print("averaged:", ", ".join(kept["model"]["averaged"]))
print("settings:", kept["settings"])
assert kept["model"]["averaged"] == step_checkpoints(whole)
assert (
    kept["settings"]["beam_size"] == 4 and kept["settings"]["length_penalty"] == 0.6
)

# %% [markdown]
# So that nobody has to believe you, translations and references lie there too, as plain text. Whoever scores them gets your number:

# %%
from transformer.evaluation.metrics import bleu


def lines_of(path):
    """Not by splitlines, which sees line ends where there are none."""
    return Path(path).read_text("utf-8").removesuffix("\n").split("\n")


translations = lines_of(whole / "test.hypotheses.txt")
again = bleu(translations, lines_of(whole / "test.references.txt"))
print(again)
assert kept["scores"][0]["value"] == again.value

# %% [markdown]
# ### Translate

# %%
said = shell(
    "transformer translate runs/whole 'The old woman is not here.' --n-best 3"
)

# %% [markdown]
# A small model after 300 small steps: it is German, and hardly a translation. The way is the paper's. The quality takes steps that are fifty times as large,
# and 100,000 of them.
#
# ### What to read
#
# Behind the five commands stands little code. Averaging is this, whole:

# %%
from transformer.checkpoint import average_checkpoints

SourceCode(average_checkpoints)

# %% [markdown]
# `recipes.py` holds the settings, `training.py` the run and `trainer.py` the step, `checkpoint.py` what is on disk, `assessment.py` the evaluation, `cli.py`
# the commands.

# %% [markdown]
# ## How to read your score
#
# Sooner or later there is a number, and the paper's next to it. **27.3** is the base model on newstest2014 from English to German, after averaging, with beam 4
# and α = 0.6; counted on tokenised text, cased, with words split at hyphens (§6.1, and [Evaluation](13_evaluation.ipynb) for the last two, which the paper does
# not say). Your line to compare it with is **BLEU paper**. The line that you report is **BLEU**, by sacreBLEU, with its signature.
#
# How far are the two apart? Where others published both for one model ([results](../book/results.md) has the sources):

# %%
both = {  # sacreBLEU 13a; tokenised and split at hyphens
    "Tensor2Tensor, base, trained long": (27.52, 29.02),
    "fairseq, big, WMT16 data": (28.6, 29.29),
}
gaps = [split - plain for plain, split in both.values()]
for (name, (plain, split)), gap in zip(both.items(), gaps, strict=True):
    print(f"{name:34} {plain:.2f}  {split:.2f}  {gap:+.2f}")
print(
    f"so 27.3 may be {27.3 - max(gaps):.1f} to {27.3 - min(gaps):.1f} by sacreBLEU"
)

# %% [markdown]
# If you see something in that range, you have arrived. Do not expect the digit: another seed gives another model, and [Evaluation](13_evaluation.ipynb) shows
# how far chance alone reaches.
#
# And with **five points less**? Then something is wrong, and it is hardly ever the architecture. In the order of what it costs to look:
#
# | you see | suspect first, and look at |
# |---|---|
# | two less, the loss is fine | two rulers: the signature, and the line *BLEU paper* |
# | a little less, everywhere | not averaged, or greedy: `averaged` and `beam_size` in `test.scores.json` |
# | near zero, the loss is fine | lines that are one off, or the wrong direction: the first and the last lines of both `.txt` files |
# | five less, the loss is fine | the text on its way out, with spaces, lower case or pieces not joined: would you print it? |
# | five less, translations end early | the length penalty, or sources cut: the ratio of the lengths, and the lines above the table of scores |
# | five less, and a higher loss | fewer tokens a step than you think: `target_tokens` over `step` in `metrics.jsonl` |
# | English in the German | crawled pairs that were never translated: what `prepare` left out, and what it did not |
# | a loss that stays on a plateau | too steep a start for post-norm: the warm-up and the factor of the rate |
#
# Most of this is in the run folder, so let the machine look:


# %%
def first_aid(run):
    row, scores = read_metrics(run)[-1], read_json(run / "test.scores.json")
    words = [
        sum(len(line.split()) for line in lines_of(run / f"test.{of}.txt"))
        for of in ("hypotheses", "references")
    ]
    return {
        "target tokens a step": round(row["target_tokens"] / row["step"]),
        "length of output / reference": round(words[0] / words[1], 2),
        "sentences empty, truncated": [
            scores["test_set"][key] for key in ("empty", "truncated")
        ],
        "checkpoints averaged": len(scores["model"]["averaged"] or []),
        "beam_size": scores["settings"]["beam_size"],
    }


# %%
found = first_aid(whole)
for what, value in found.items():
    print(f"{what:30} {value}")
assert 450 < found["target tokens a step"] <= 500
assert found["sentences empty, truncated"] == [0, 0]
assert found["length of output / reference"] < 0.95

# %% [markdown]
# Tokens, checkpoints and beam are as they should be. The length is not: the fifth row. Our model stops too early, which is what a model does that has not
# learned enough yet; its loss says so, too. In a run of full size that line should say very nearly 1.

# %% [markdown]
# ## What goes wrong in practice
#
# A long run meets all of these sooner or later. Each is caught here in the act, on the small run.
#
# **Fault 1: a download that broke off.** We lay the first half of an archive where a mirror would have it. Nothing is unpacked, nothing is half there; the
# message has the checksum, so that you can get the file by hand.

# %%
Path("mirror").mkdir()
Path("mirror/training-parallel-nc-v9.tgz").write_bytes(b"the first half")
said = shell("transformer prepare wmt14-mini --mirror mirror", expected=2)
assert any("wrong checksum" in line for line in said)

# %% [markdown]
# **Fault 2: the disk is full.** We cannot fill yours, so we let the write of one checkpoint fail as a full disk makes it fail. The run says from where it will
# go on. Files are written beside the old ones and renamed, so at no moment is there only half a checkpoint.

# %%
from unittest.mock import patch

from transformer import checkpoint

usual = checkpoint.write_atomically


def full_disk(path, content):  # in place of the usual writing
    if path.name.startswith("step-0000030"):
        raise OSError(28, "No space left on device")
    usual(path, content)


# %%
resume = "transformer train wmt14-mini --run runs/full --device cpu $SMALL"
with patch.object(checkpoint, "write_atomically", full_disk):
    said = shell(resume, expected=2)
assert step_checkpoints(Path("runs/full"))[-1] == "step-0000020"

# %% [markdown]
# **Fault 3: another number of GPUs, another batch.** The new machine has two GPUs instead of one, so somebody doubles the batch. The run refuses, as it would
# no longer be that run:

# %%
said = shell(f"{resume} --training.batch-tokens 1000", expected=2)
assert any("--training.batch-tokens: 500, now 1000" in line for line in said)

# %% [markdown]
# And rightly. Warm-up, decay and 100,000 steps are all counted in *steps* (§5.3), so a step must stay the same size. In this package `batch_tokens` is what
# **all** processes take together in a step. Start it on two GPUs, and each gets half; start it on one where 25,000 do not fit into memory, and the step is made
# of several batches that are added up (on a GPU it finds that out by itself; elsewhere say `--training.gradient-accumulation-steps 2`). The sentences of a step do not change:

# %%
tokens = data.tokens("train")
two_gpus = [Batches(*tokens, 250, seed=1, rank=r, world_size=2) for r in (0, 1)]
accumulating = Batches(*tokens, 250, seed=1, gradient_accumulation_steps=2)
for _ in range(10):  # ten steps
    shared = [next(gpu).labels for gpu in two_gpus]
    added_up = [next(accumulating).labels for _ in range(2)]
    assert all(map(torch.equal, shared, added_up))
print(
    sum(int((part != 0).sum()) for part in shared), "target tokens in the last step"
)

# %% [markdown]
# **Fault 4: another vocabulary.** Somebody adds three words to forty lines of the training text, and the rest is the same. But pieces are learned from the
# text, their numbers move, and a model knows its words by number only. Prepared anew, the data no longer fits the run, and the run says so:

# %%
text = Path("train.de").read_text()
Path("train.de").write_text(text.replace("\n", " Und so weiter.\n", 40))
said = shell(resume, expected=2)
Path("train.de").write_text(text)
assert any("started with another vocabulary" in line for line in said)

# %% [markdown]
# Without that check nothing would raise an error. The shapes fit; only the loss is bad. How bad? Let our model read the same sentences in pieces that were
# learned from the first half of the text:

# %%
from transformer.data.batching import Sequences, collate
from transformer.data.tokenizer import Tokenizer
from transformer.training.trainer import batch_loss

languages = ("en", "de")
train = [lines_of(f"train.{language}") for language in languages]
half = [line for side in train for line in side[: len(side) // 2]]
another = Tokenizer.train(half, 1000)
ours, theirs = (one.pieces(range(1000)) for one in (data.tokenizer, another))
same = sum(map(str.__eq__, ours, theirs))
print(f"{same} of 1000 pieces have kept their number")

# %%
translator = Translator.load(whole, cpu)
found = {}
for name, tokenizer in {"its own": data.tokenizer, "another": another}.items():
    texts = [lines_of(f"valid.{language}") for language in languages]
    sides = [Sequences.pack(tokenizer.encode_all(side)) for side in texts]
    batch = collate(*sides, range(len(texts[0])))
    with torch.no_grad():
        loss = batch_loss(translator.model, batch, smoothing=0.0) / batch.n_tokens
    found[name] = loss.item()
    print(f"{name:8} loss {loss:.2f}")
print(f"knowing nothing: {math.log(1000):.2f}")
assert found["another"] > math.log(1000) > found["its own"]

# %% [markdown]
# **Worse than knowing nothing.** Whoever is sure, and wrong, pays more than whoever shrugs.
#
# **Fault 5: two scores, two signatures.** "We got a bit more than the paper" is told quickly. Here are two scores of **the same** translations, and the test to
# apply before any comparison:

# %%
lines = {score["name"]: score for score in kept["scores"]}
for name in ("BLEU", "chrF2"):
    print(f"{lines[name]['value']:.2f}  {lines[name]['signature']}")


def may_be_compared(one, other):
    return one["signature"] == other["signature"]


assert may_be_compared(lines["BLEU"], {"signature": again.signature})
assert not may_be_compared(lines["BLEU"], lines["BLEU lc"])
assert not may_be_compared(lines["BLEU"], lines["BLEU paper"])

# %% [markdown]
# And this although here *BLEU* and *BLEU paper* are the same number, since no word of our corpus has a hyphen. That two rulers agree once does not make them
# one. On news text they do not.

# %%
assert not any("-" in line for line in lines_of("test.de"))
assert math.isclose(lines["BLEU"]["value"], lines["BLEU paper"]["value"])

# %% [markdown]
# **Fault 6: infinity on an old GPU.** T4 and V100 have no bfloat16, so `auto` takes float16 there. Its largest number is 65,504, and what is smaller than about
# $3 \cdot 10^{-8}$ becomes zero. Gradients are small, so the loss is multiplied by a large factor first and the gradient divided by it afterwards. If the
# factor is too large, something overflows. Then the step is skipped and the factor halved:

# %%
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18)
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(7):
    loss = (weight.half() * 2).sum()
    scaler.scale(loss).backward()  # the gradient 2 × the factor, in float16
    before, factor = weight.item(), scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    did = "made" if weight.item() < before else "skipped"
    print(f"factor {factor:9,.0f}   {did}")

half = torch.tensor([65_504.0, 70_000.0, 2.9e-8]).half()
assert half.isfinite().tolist() == [True, False, True] and half[2] == 0
assert weight.item() < 1, "in the end it did make steps"

# %% [markdown]
# So a few skipped steps at the start are no fault but the search for that factor. `train` gives up only after thirty in a row, and advises a lower rate. On a
# GPU that has bfloat16, whose range is that of float32, there is nothing to search for.

# %%
from transformer.training.trainer import MAX_SKIPPED_STEPS

assert MAX_SKIPPED_STEPS == 30
assert torch.finfo(torch.bfloat16).max > 1e38 > torch.finfo(torch.float16).max

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You double `d_model` and `d_ff` and leave layers and vocabulary as they are. The work for a token becomes about …**
#
# <details><summary>A. twice as much</summary>
#
# No. That is true of the output matrix alone, $Vd$, in which $d$ occurs once.
#
# </details>
# <details><summary>B. more than three times as much</summary>
#
# **Right.** Layers are products of two widths, $6d^2 + 2df$, and become four times as large; the output matrix twice. The big model is just this change.
#
# </details>
# <details><summary>C. eight times as much</summary>
#
# No. A matrix has two sides. For eight you would need a third width that doubles, such as the number of layers.
#
# </details>
# <details><summary>D. as much as before, since heads share the width</summary>
#
# No. The number of heads does not change the work, but you did not change the heads: you made all matrices wider.
#
# </details>
#
# **2. Instead of one A100 you rent four, at the same price each. What happens to time and price?**
#
# <details><summary>A. A quarter of the time, four times the price</summary>
#
# No. Four GPUs for a quarter of the time are paid for as long as one for the whole.
#
# </details>
# <details><summary>B. The same time, as 100,000 steps remain 100,000 steps</summary>
#
# No. There are as many steps, but each is shared by four.
#
# </details>
# <details><summary>C. At best a quarter of the time, at the same price</summary>
#
# **Right.** At best: each has smaller batches now and they wait for each other's gradients, so the share of the peak falls somewhat, and the price rises by as
# much.
#
# </details>
# <details><summary>D. A quarter of the time, and a better model, as it sees four times the data</summary>
#
# No. `batch_tokens` is what all of them take together. Where a program gives each GPU the full batch, you get another training, with a schedule that no longer
# fits.
#
# </details>
#
# **3. A session dies at step 51,700, with checkpoints every 1,000 steps. You resume. How does the model at step 100,000 differ from one that was never
# disturbed?**
#
# <details><summary>A. It lacks 700 steps</summary>
#
# No. They are made again, from step 51,000 on, and come out the same.
#
# </details>
# <details><summary>B. It has seen the sentences of those 700 steps twice</summary>
#
# No. The process that saw them is dead, and its weights with it. The one that went on starts from the weights of step 51,000, at that place in the data.
#
# </details>
# <details><summary>C. On the CPU not at all; on a GPU as two undisturbed runs may differ</summary>
#
# **Right.** Weights, moments, random state and place in the data are all in the checkpoint. You saw it above, bit for bit.
#
# </details>
# <details><summary>D. A little, as Adam has to warm up again</summary>
#
# No. It would, if the moments were not saved. That is why the state is twice as large as the weights.
#
# </details>
#
# **4. Your sacreBLEU says 25.7 for the base model, averaged, beam 4. What do you report?**
#
# <details><summary>A. That you are 1.6 below the paper</summary>
#
# No. That reads one number off one ruler and the other off another. The two rulers alone lie about that far apart, as the cell above shows.
#
# </details>
# <details><summary>B. 25.7 with its signature, and beside it "BLEU paper" to compare with 27.3</summary>
#
# **Right.** The first for those who come after you, the second for the comparison with 2017.
#
# </details>
# <details><summary>C. The higher of the two, since the paper did so as well</summary>
#
# No. Then nobody knows what to compare it with. It is how the confusion began.
#
# </details>
# <details><summary>D. Nothing yet: you train again until it says 27.3</summary>
#
# No. Trying until the test set says the right thing is choosing on the test set, as in [Evaluation](13_evaluation.ipynb).
#
# </details>
#
# **5. Why is the mean of five checkpoints of *one* run good, and the mean of five *runs* rubbish?**
#
# <details><summary>Answer</summary>
#
# Five moments of one run lie in one valley, and the line between them stays low, as you saw. Five runs lie in five valleys. Their hidden features mean
# different things at the same place, and could be permuted without any change in what the model does. The mean of two such permutations does something else
# altogether. What can be averaged over runs is their *predictions*.
#
# </details>

# %% [markdown]
# ## Exercises
#
# No blanks here, but five experiments. The first three take minutes.
#
# - **Damage it.** Cut some bytes off the newest `step-*-state-*.safetensors` of a broken run and resume. What does it say, and is the result still bit for bit
#   the same?
# - **How many to average, and how far apart?** Give our run `--training.keep-checkpoints 10` and compare `transformer average` with `--last 2`, 5 and 10 by their
#   validation loss. Then take `--training.checkpoint-every 30`. Is the mean of five still better than the last? Think of where it lies while the loss is still
#   falling.
# - **Your own corpus.** Take a thousand pairs of yours, two files with a sentence a line, and go the way with `--data.corpus yours.en,yours.de` and a smaller
#   vocabulary (it says how large one may be). What does `prepare` leave out?
# - **The small way, for real.** `wmt14-mini` downloads News Commentary and the official test sets. It is the same path, with the same test set as the paper's.
#   Foretell its hours first.
# - **The way.** `wmt14-base`, all of it. Write down beforehand what this page's formula foretells for your GPU, with the *work per second*
#   that `transformer bench` measured for peak times share, and compare.

# %% [markdown]
# ## Going further
#
# - **What the paper did:** data and batches in §5.1, hardware and hours in §5.2, averaging, beam and the cost in FLOP in §6.1 and Table 2, sizes in Table 3 of
#   {cite}`vaswani2017`.
# - **The two rulers**, and why papers disagree by whole points about one model: {cite}`post2018`.
# - **Faster with the same model:** 16 bits and much larger batches, with the schedule that goes with them, in {cite}`ott2018`.
# - **A test set only sees so much:** {cite}`koehn2004`, before you claim to have beaten anybody.
