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
# # Making it fast on a GPU
#
# With plain PyTorch code, an H200 GPU takes 262 ms for a training step of the paper's base model. After four changes it takes 36.5 ms, with a third of the memory. The figure adds one change per row. **Why does one of them save almost three quarters of the time, another half of the memory, and another hardly anything?**

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
    print(f"With all figures: {book}/chapters/16_gpu_performance.html")

# %% tags=["hide-input"]
import json
import os
import statistics
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from tabulate import tabulate
from torch.nn.attention import SDPBackend, sdpa_kernel

from transformer.device import Device, choose_device
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.plots import style
from transformer.plots.boxes import draw_arrow
from transformer.plots.curves import curves
from transformer.plots.roofline import (
    GPUS,
    Operation,
    arithmetic_intensity,
    attainable_teraflops,
    operation_times,
    ridge_point,
    roofline,
)
from transformer.plots.style import Captioned, Picture
from transformer.training.memory import estimate_memory

torch.set_printoptions(precision=4, sci_mode=False)
os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # a quiet profiler

# Each row adds a change: label, milliseconds per step, peak memory in GB
ladder = [
    ("plain, float32", 262.4, 30.2),
    ("+ fused attention", 258.2, 29.7),
    ("+ loss in chunks", 261.9, 14.9),
    ("+ mixed precision", 70.4, 10.1),
    ("+ torch.compile", 36.5, 10.6),
]
labels, *columns = zip(*ladder, strict=True)
with style.in_style():
    figure = Figure(figsize=(5, 2.3), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    titles = ("time per step (ms)", "peak memory (GB)")
    for axes, title, values, colour in zip(
        panels, titles, columns, (style.QUERY, style.KEY), strict=True
    ):
        bars = axes.barh(labels, values, color=colour, height=0.7)
        axes.bar_label(bars, [f"{value:.1f}" for value in values], padding=3)
        axes.set(xlim=(0, 1.3 * max(values)), xticks=[])
        axes.set_title(title, loc="left")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    panels[0].invert_yaxis()
Picture(
    figure,
    alt=(
        "Two bar charts with five rows: plain float32, then one more change in each. "
        "Time per step: 262.4 milliseconds, 258.2 with fused attention, 261.9 with the "
        "loss in chunks, 70.4 with mixed precision, 36.5 with torch.compile. Peak "
        "memory: 30.2, 29.7, 14.9, 10.1 and 10.6 gigabytes."
    ),
    caption=(
        "Measured on an H200: time and memory of a training step of the base model. "
        "Each row keeps the changes above it and adds one."
    ),
)

# %% tags=["remove-cell"]
if Path("../book/results/gpu/ladder.json").exists():  # not in Colab
    stored = json.loads(Path("../book/results/gpu/ladder.json").read_text("utf-8"))
    assert "NVIDIA H200 in bf16" in stored["device"]
    assert [
        (
            round(row["milliseconds_per_step"], 1),
            round(row["peak_memory"] / 1e9, 1),
        )
        for row in stored["results"]
    ] == list(zip(*columns, strict=True))
times, sizes = columns
assert 0.7 < 1 - times[3] / times[2] < 0.75 and 0.49 < sizes[2] / sizes[1] < 0.51
assert round(times[0] / times[-1]) == 7 and 0.3 < sizes[-1] / sizes[0] < 0.36

# %% [markdown]
# The batches have 25,000 target tokens, as in the paper, in random sentences ([log](https://github.com/transformer-course/transformer-course/blob/main/book/results/gpu/third-run.md)). The first two sections explain what a GPU waits for, the next ones explain the changes, and *All together* comes back to this figure.
#
# By the end you will be able to predict whether an operation is limited by arithmetic or by memory, compute attention the way FlashAttention does, train in 16 bits, budget the memory of a training run, and time code without fooling yourself. **About 45 minutes**, and you don't need a GPU. The chapter builds on [Attention](02_attention.ipynb), [The full model](07_full_model.ipynb) and [Training](11_training.ipynb).

# %% tags=["hide-input", "imports"]
import math
import time
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from transformer.attention import attention, fused_attention
from transformer.config import ModelConfig
from transformer.data.batching import Sequences, collate
from transformer.device import choose_device
from transformer.layers import EncoderLayer
from transformer.model import Transformer
from transformer.plots.roofline import GPUS
from transformer.recipes import RECIPES
from transformer.training.memory import peak_memory
from transformer.training.objective import batch_loss

# %%
device = choose_device()  # a GPU, if there is one
hardware = "CPU" if device.type == "cpu" else "GPU"
dtype = str(device.autocast_dtype or torch.float32).removeprefix("torch.")
print(f"This chapter runs on a {hardware} in {dtype}.")

# %% [markdown]
# ## Kernels and launches
#
# For an operation such as `torch.exp(x)`, PyTorch sends the GPU a command to run a **kernel**, a small program that thousands of GPU threads execute at once. This **launch**, with the work that Python and PyTorch do before it, takes the CPU several microseconds, however much the kernel has to do. The CPU doesn't wait for the result, so whichever is slower, CPU or GPU, sets the pace. Suppose that each launch takes 5 µs:


# %%
def timeline(kernel_time, n=6, launch_time=5.0):
    """Start and end of n kernels on the GPU, in microseconds."""
    times, gpu_free = [], 0.0
    for i in range(1, n + 1):
        # when it is launched, and the GPU is free
        start = max(i * launch_time, gpu_free)
        gpu_free = start + kernel_time
        times.append((start, gpu_free))
    return times


# %% [markdown]
# Look for the gaps on the GPU:

# %% tags=["hide-input"]
with style.in_style():
    figure = Figure(figsize=(5, 1.9), layout="constrained")
    for axes, kernel_time in zip(
        figure.subplots(1, 2, sharey=True), (2, 8), strict=True
    ):
        for i, (start, end) in enumerate(timeline(kernel_time)):
            edges = {"edgecolor": style.INK, "linewidth": 1}
            axes.broken_barh(
                [(5 * i, 5)], (1.1, 0.8), facecolor=style.PLAIN, **edges
            )
            axes.broken_barh(
                [(start, end - start)], (0.1, 0.8), facecolor=style.VALUE, **edges
            )
        axes.set(
            yticks=[0.5, 1.5],
            yticklabels=["kernels\n(GPU)", "launches\n(CPU)"],
            xlim=(0, 54),
        )
        axes.set_title(f"kernels of {kernel_time} µs", loc="left")
        axes.set_xlabel("time (µs)")
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
Picture(
    figure,
    alt=(
        "Two timelines of six launches on the CPU and six kernels on the GPU. With "
        "kernels of 2 microseconds, the GPU is idle between any two of them. With "
        "kernels of 8 microseconds, it is busy from the first to the last, and the "
        "CPU runs ahead."
    ),
    caption=(
        "Launches by the CPU and kernels on the GPU over time. Short kernels leave "
        "gaps in which the GPU waits; long kernels keep it busy."
    ),
)

# %% tags=["remove-cell"]
short, long = timeline(2), timeline(8)
assert all(b[0] > a[1] for a, b in pairwise(short))
assert all(b[0] == a[1] for a, b in pairwise(long))

# %% [markdown]
# On the left, the program is **launch-bound**: the GPU waits for the CPU, and a faster GPU wouldn't help. A forward and a backward pass take roughly one launch for each operation that doesn't only create a view or reserve memory. We count these on PyTorch's *meta* device, where tensors have no data:


# %%
class OperationCounter(TorchDispatchMode):
    count = 0

    # PyTorch calls this in place of each operation
    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        no_kernel = ("aten::_unsafe_view", "aten::empty_like")
        if not operation.is_view and operation.name() not in no_kernel:
            self.count += 1
        return operation(*args, **(kwargs or {}))


# %%
base = ModelConfig()  # the paper's base model
with torch.device("meta"):
    model, ids = Transformer(base), torch.ones(1000, 25, dtype=torch.long)
with OperationCounter() as counter:
    model(ids, ids).sum().backward()
print(f"{counter.count:,} operations in a forward and backward pass")

# %% tags=["remove-cell"]
assert 1000 < counter.count < 1100

# %% [markdown]
# A thousand launches of 5 µs take 5 ms. A step with the paper's batch takes 70 ms on an H200 before compilation, so training isn't launch-bound. With a hundredth of that batch, it would be. There are three remedies: larger batches make each kernel run longer, fusion (explained below) needs fewer kernels, and **CUDA graphs** record a sequence of launches and [replay it with a single one](https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/) (in PyTorch: `torch.compile(model, mode="reduce-overhead")`).
#
# On a CPU, operations have a fixed cost, too. We measure the **throughput** of a forward and a backward pass of a small translation model, in target tokens per second:

# %%
config = replace(RECIPES["multi30k"].model, dropout=0.0, n_layers=2)
model = Transformer(config).to(device.torch_device)
rng = np.random.default_rng(0)  # 128 random sentences of 15 tokens:
equal = Sequences.pack(rng.integers(4, config.vocab_size, (128, 15)))


def forward_backward(batch):
    with device.autocast():  # 16 bits on a GPU, see Mixed precision
        batch_loss(model, batch, smoothing=0.1).backward()
    model.zero_grad()


# %% [markdown]
# Three habits make such a measurement reliable:
#
# - **Warm up:** don't count the first calls, which load libraries, allocate memory and perhaps compile.
# - **Synchronise:** wait until the GPU has finished before you read the clock.
# - **Repeat, and take the shortest time:** other programs can only make your code slower. To compare variants, measure them in turn, so that a slow moment affects them all. (`torch.utils.benchmark.Timer` warms up and synchronises for you.)


# %%
# thread_time stops while other programs run, but also while we wait for a GPU
clock = time.thread_time if hardware == "CPU" else time.perf_counter


def timed(work):
    device.synchronize()
    start = clock()
    work()
    device.synchronize()
    return clock() - start


def best_seconds(work, tries=20):
    work()  # warm up
    return min(timed(work) for _ in range(tries))


# %%
torch.manual_seed(0)
counts = [1, 2, 4, 8, 16, 32, 64]  # sentences in a batch
batches = [collate(equal, equal, range(n)).to(device.torch_device) for n in counts]
for batch in batches:
    forward_backward(batch)  # warm up
rounds = [
    [timed(lambda b=b: forward_backward(b)) for b in batches] for _ in range(12)
]
best = [min(times) for times in zip(*rounds, strict=True)]

# %% tags=["hide-input"]
tokens = [16 * n for n in counts]
assert tokens == [b.n_tokens for b in batches]
thousands = [n / t / 1000 for n, t in zip(tokens, best, strict=True)]
fastest = max(range(len(counts)), key=thousands.__getitem__)
figure = curves(
    tokens,
    {f"on this {hardware}": thousands},
    "target tokens in the batch",
    "Throughput (1,000 target tokens per second)",
    log2_x=True,
)
for times in rounds:
    dots = [n / t / 1000 for n, t in zip(tokens, times, strict=True)]
    figure.axes[0].plot(
        tokens, dots, ".", color=style.PLAIN, markersize=4, zorder=1
    )
Picture(
    figure,
    alt=(
        "Throughput against the number of target tokens in the batch, a dot for each "
        "of twelve rounds and a line through the fastest. The line begins at "
        f"{thousands[0]:.1f} thousand tokens per second for a batch of 16 tokens; its "
        f"highest point is {thousands[fastest]:.1f} thousand at {tokens[fastest]:,}."
    ),
    caption=(
        f"Throughput by batch size, measured on this {hardware}: a dot for each of "
        "twelve rounds, and a line through the fastest."
    ),
)

# %% [markdown]
# On an idle CPU, the line rises, because larger batches spread the fixed costs over more tokens, and then flattens: the chip is *saturated*, that is, fully busy. A GPU needs far larger batches for that. For training, use the largest batch that fits and trains well. A service also has to weigh throughput against **latency**, the time from a request to its answer, since a larger batch takes longer.

# %% [markdown]
# ## Compute-bound or memory-bound?
#
# A kernel reads its inputs from the GPU's memory, computes, and writes its results back there. That memory, 80 GB of **HBM** (high-bandwidth memory) on an H100, isn't on the chip that computes, so moving data takes time. The chip's own memory, **SRAM**, is about ten times as fast, but each of an A100's 108 **streaming multiprocessors**, the units that compute, has only 192 KB of it ([Dao et al., 2022](https://arxiv.org/abs/2205.14135), §2.1). Its contents are lost when the kernel ends.
#
# Suppose that a kernel needs $f$ floating-point operations (FLOP; a TFLOP is $10^{12}$) and moves $b$ bytes, on a chip that computes $F$ FLOP and moves $B$ bytes a second. Both can happen at the same time, so it takes at least this many seconds:
#
# $$ t \ge \max\left(\frac{f}{F},\ \frac{b}{B}\right) $$
#
# If the first term is larger, the kernel is **compute-bound**; otherwise it is **memory-bound**. Take a slow chip that computes 100 FLOP and moves 10 bytes a second. Each number takes 4 bytes.
#
# - **Adding two vectors of 1,000 numbers** takes 1,000 FLOP, or 10 seconds. But it reads two vectors and writes one: 12,000 bytes, or 1,200 seconds. It is memory-bound.
# - **Multiplying two 100 × 100 matrices** takes 100 multiplications and 100 additions for each of 10,000 results: 2,000,000 FLOP, or 20,000 seconds. Moving three matrices, 120,000 bytes, takes 12,000 seconds. It is compute-bound.
#
# What matters is the ratio $f / b$, the **arithmetic intensity**: $1/12$ FLOP per byte for the addition, and $2n^3 / 12n^2 = n / 6$ for $n \times n$ matrices, because each number that is read is used $n$ times. The chip has such a ratio, too: $F / B = 10$. Operations with a lower intensity are memory-bound.


# %%
def least_seconds(flop, n_bytes, flop_rate, byte_rate):
    return max(flop / flop_rate, n_bytes / byte_rate)


addition = least_seconds(1000, 3 * 4000, 100, 10)
product = least_seconds(2 * 100**3, 3 * 40_000, 100, 10)
print(f"addition {addition:,.0f} s, product {product:,.0f} s")

# %% tags=["remove-cell"]
assert (addition, product) == (1200, 20_000)

# %% [markdown]
# How fast is the machine that ran this chapter? A large float32 matrix product gives $F$, and a large addition $B$. By the formula, an $n \times n$ product is compute-bound if $n / 6 > F / B$:

# %%
n = 1024 if device.type == "cpu" else 8192
matrix = torch.randn(n, n, device=device.torch_device)
vector, result = torch.randn(2, 2**25, device=device.torch_device)
F_rate = 2 * n**3 / best_seconds(lambda: matrix @ matrix)
add_seconds = best_seconds(lambda: torch.add(vector, 1, out=result))
B_rate = 2 * vector.nbytes / add_seconds  # one vector is read, one written
print(f"F = {F_rate / 1e9:.0f} GFLOP/s, B = {B_rate / 1e9:.1f} GB/s")
print(f"F / B = {F_rate / B_rate:.1f} FLOP per byte")
print(f"n / 6 = F / B for n = {6 * F_rate / B_rate:.0f}")

# %% tags=["remove-cell"]
assert F_rate / B_rate > 1 / 12 * 2  # so an addition is memory-bound here, too

# %% [markdown]
# So adding large vectors is memory-bound here, too. And products of small matrices, say 4 × 4?

# %%
tiny = torch.randn(4, 4, device=device.torch_device)
formula = least_seconds(2 * 4**3, 3 * tiny.nbytes, F_rate, B_rate)
measured = best_seconds(lambda: [tiny @ tiny for _ in range(1000)]) / 1000
print(f"formula {formula * 1e9:.0f} ns, measured {measured * 1e9:,.0f} ns")

# %% tags=["remove-cell"]
assert measured > 10 * formula

# %% [markdown]
# The formula is only a lower bound, useful for large tensors: here, most of the time is the fixed cost of the call.
#
# ### The roofline
#
# For a GPU we take $F$ and $B$ from its data sheet. $F$ is its *peak*, the FLOP/s of its **tensor cores**, units that do nothing but multiply matrices, for 16-bit numbers. (Take the *dense* peak, not that “with sparsity”.) An H200, as in the first figure, is an H100 with more and faster memory: it has the same $F$ and a larger $B$. The **roofline** ([Williams et al., 2009](https://doi.org/10.1145/1498765.1498785)) shows the highest possible FLOP/s at each arithmetic intensity. It rises up to $f / b = F / B$ and is flat from there on.
#
# Everything but matrix products runs on ordinary units. On an H100 these compute 67 instead of 989 TFLOP/s, so their roof is lower, and becomes flat at 20 instead of 295 FLOP per byte. The dots are operations of an encoder layer of the base model in 16 bits, for $2^{14}$ tokens in sentences of 25.

# %% tags=["hide-input"]
# All operations of an encoder layer, for each token, with activations in 16 bits.
# FLOP: floating-point operations; traffic: bytes read and written.
d_model, d_ff, n_heads, length = 512, 2048, 8, 25
n_scores = n_heads * length  # attention scores per token


def matrix_product(name, n_in, n_out):
    return Operation(name, 2 * n_in * n_out, 2 * (n_in + n_out), 2 * n_in * n_out)


def elementwise(name, flop, numbers, **option):
    return Operation(name, flop, 2 * numbers, **option)


def add_and_norm(n):
    apart, joined = {"unless": "compiled"}, {"only": "compiled"}
    return [  # dropout also writes a byte for each number: whether it was dropped
        elementwise(f"dropout {n}", d_model, 2.5 * d_model, **apart),
        elementwise(f"residual {n}", d_model, 3 * d_model, **apart),
        elementwise(f"layer norm {n}", 8 * d_model, 2 * d_model, **apart),
        elementwise(f"dropout … norm {n}", 10 * d_model, 3.5 * d_model, **joined),
    ]


flop, moved = 2 * length * d_model, 2 * (2 * d_model + n_scores)
encoder_operations = [
    matrix_product("Q, K, V", d_model, 3 * d_model),
    Operation("scores", flop, moved, unless="fused"),
    elementwise("mask, softmax", 6 * n_scores, 4 * n_scores, unless="fused"),
    Operation("weights × values", flop, moved, unless="fused"),
    Operation("fused attention", 2 * flop, 2 * 4 * d_model, only="fused"),
    matrix_product("output", d_model, d_model),
    *add_and_norm(1),
    matrix_product("feed-forward in", d_model, d_ff),
    elementwise("ReLU", d_ff, 2 * d_ff),
    matrix_product("feed-forward out", d_ff, d_model),
    *add_and_norm(2),
]


def operations(*options):
    """The layer's operations with these options on."""
    return [
        o
        for o in encoder_operations
        if o.unless not in options and (not o.only or o.only in options)
    ]


by_name = {o.name: o for o in encoder_operations}
shown = {
    "residual 1": "residual",
    "mask, softmax": "softmax",
    "layer norm 1": "layer norm",
    "scores": "Q·K",
    "Q, K, V": "Q, K, V",
}
figure = roofline(
    {name: GPUS[name] for name in ("H100", "A100")},
    [replace(by_name[o], name=name) for o, name in shown.items()],
    2**14,
)
ordinary = 67  # TFLOP/s in float32, from the H100's data sheet
ridge = 1000 * ordinary / GPUS["H100"].bandwidth
with style.in_style():
    axes = figure.axes[0]
    axes.plot([ridge, 3000], [ordinary] * 2, color=style.WRONG, linewidth=1.2)
    axes.text(
        3000, 0.85 * ordinary, "ordinary units", va="top", ha="right", fontsize=10
    )
Picture(
    figure,
    alt=(
        "Rooflines of the H100 and A100: each rises and is flat from an intensity "
        "between 150 and 300 FLOP per byte on. A lower roof for the H100's ordinary "
        "units is flat from 20 on. On the H100's roofline, from left to right: "
        "residual, softmax, layer norm and Q·K lie on the rising part, below a "
        "twenty-fifth of the peak; only the product that computes the queries, keys "
        "and values reaches the flat part."
    ),
    caption=(
        "Rooflines of two GPUs, from their data sheets. Operations on the rising "
        "part (orange) are limited by memory; only the one on the flat part (blue) can "
        "reach the peak. Operations that aren't matrix products have the lower roof."
    ),
)

# %% tags=["remove-cell"]
h100 = GPUS["H100"]
for o in ("residual 1", "mask, softmax", "layer norm 1", "scores"):
    assert arithmetic_intensity(by_name[o], 2**14) < ridge_point(h100) / 25
assert arithmetic_intensity(by_name["Q, K, V"], 2**14) > ridge_point(h100)
ratios = {name: ridge_point(gpu) for name, gpu in GPUS.items()}
assert 150 < ratios["A100"] < 155 and 290 < ratios["H100"] < 300
for name, intensity in {
    "Q, K, V": 375,
    "feed-forward in": 400,
    "output": 252,
}.items():
    assert round(arithmetic_intensity(by_name[name], 2**14)) == intensity
assert arithmetic_intensity(by_name["feed-forward out"], 2**14) > ridge_point(h100)
assert round(ridge_point(h100)) == 295 and round(ridge) == 20
for o in encoder_operations:  # the ordinary units limit none of them, nor GELU
    products = ("scores", "weights × values", "fused attention")
    assert o.weights or o.name in products or arithmetic_intensity(o, 1) < ridge / 9
assert 10 * arithmetic_intensity(by_name["ReLU"], 1) == 2.5 < ridge / 7

# %% [markdown]
# Of the five dots, only *Q, K, V*, the matrix product that computes queries, keys and values, can reach the peak. Even *Q·K*, attention's product of queries and keys, is memory-bound: in a sentence of 25 tokens, each query is used for only 25 scores. If every operation is as fast as its roofline allows, the layer's time is divided like this:


# %% tags=["hide-input"]
def estimated_time(operation, gpu, tokens=2**14):
    """Seconds, if each tensor is read from the GPU's memory and written to it."""
    intensity = arithmetic_intensity(operation, tokens)
    return operation.flop * tokens / (attainable_teraflops(gpu, intensity) * 1e12)


def group(operation):
    return "large matrix products" if operation.weights else "everything else"


shares = {}
for o in operations():
    for row, amount in enumerate((o.flop, estimated_time(o, GPUS["H100"]))):
        shares.setdefault(group(o), [0, 0])[row] += amount
totals = [sum(column) for column in zip(*shares.values(), strict=True)]
with style.in_style():
    figure, axes = style.new_figure(4.8, 1.7)
    left = [0.0, 0.0]
    for (name, amounts), colour in zip(
        shares.items(), (style.VALUE, style.PLAIN), strict=True
    ):
        percent = [100 * a / t for a, t in zip(amounts, totals, strict=True)]
        bars = axes.barh(
            ["arithmetic", "time"], percent, left=left, color=colour, label=name
        )
        text = [f"{p:.0f}%" if p > 5 else "" for p in percent]
        axes.bar_label(
            bars, text, label_type="center", color="white", weight="bold"
        )
        left = [a + p for a, p in zip(left, percent, strict=True)]
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xticks=[])
    axes.spines[:].set_visible(False)
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(-0.03, -0.02),
        ncols=2,
        fontsize=10,
        columnspacing=1,
        handlelength=1,
    )
Picture(
    figure,
    alt=(
        "Two stacked bars. The layer's arithmetic: 99% large matrix products. Its "
        "time on an H100: 42% large matrix products and 58% everything else."
    ),
    caption=(
        "Estimated for an H100: an encoder layer's forward pass. Everything except "
        "products with a weight matrix (grey) needs little arithmetic, yet takes most "
        "of the time."
    ),
)

# %% tags=["remove-cell"]
flops, estimates = zip(*shares.values(), strict=True)
assert 0.985 < flops[0] / totals[0] < 0.995 and estimates[0] / totals[1] < 0.45
assert [round(100 * s / totals[1]) for s in estimates] == [42, 58]

# %% [markdown]
# By this estimate, which assumes that every tensor goes through HBM, **the GPU waits for its memory more than half of the time.** That's why 16-bit numbers and fusion help: they move fewer bytes.

# %% tags=["remove-cell"]
with torch.device("meta"):
    encoder_layer = EncoderLayer(replace(base, attention="explicit"))
    x = torch.empty(1000, length, d_model)
with FlopCounterMode(display=False) as counter:
    encoder_layer(x, None)
inside = ("scores", "weights × values")
ours = sum(o.flop for o in operations() if o.weights or o.name in inside)
counted = counter.get_total_flops() / (1000 * length)
assert counted == ours

# %% [markdown]
# PyTorch can count the FLOP of a step with the paper's batch, 25,000 tokens on each side (§5.1). At a GPU's peak, 100,000 steps would take:

# %%
with torch.device("meta"):
    model_on_meta = Transformer(replace(base, attention="explicit"))
with FlopCounterMode(display=False) as counter:
    model_on_meta(ids, ids).sum().backward()
step_flop = counter.get_total_flops()
print(f"{step_flop / 1e12:.1f} TFLOP per step")
for name, gpu in GPUS.items():
    hours = 100_000 * step_flop / (gpu.teraflops * 1e12) / 3600
    print(f"{name:9} {hours:4.1f} hours for 100,000 steps")

# %% tags=["remove-cell"]
paper = step_flop / 0.4 / 8 / 1e12  # TFLOP/s of each P100
assert 2.9 < paper < 3.1 and 0.3 < paper / 9.5 < 0.35  # 9.5: footnote 5
assert round(0.52 * 3 / 4, 4) == 0.39

# %% [markdown]
# No real run gets near these times. The share of the data sheet's peak that a run reaches is its **utilisation**, or **MFU** (model FLOPs utilisation). It counts only the FLOP that the model needs: no padding, and nothing twice. Don't confuse it with `GPU-Util` in `nvidia-smi`, the share of time in which at least one kernel was running: that can be 100% when the MFU is 5%.
#
# <details><summary>The utilisation of Megatron-LM, and of the Transformer paper's GPUs</summary>
#
# On A100s, Megatron-LM reached a utilisation of 39% ([Narayanan et al., 2021](https://arxiv.org/abs/2104.04473)). Its authors report 52%, but that counts a second forward pass, which is a quarter of all FLOP and saves memory (*activation checkpointing*, see below). If such recomputation is counted, the result is called **HFU**, hardware FLOPs utilisation.
#
# In the paper, a step took 0.4 seconds on eight P100 GPUs (§5.2). So each computed about 3 TFLOP/s, a third of what the authors assume it can sustain (footnote 5). (The [next chapter](17_wmt14.ipynb) computes 29% from the 12 hours of the whole training, which is a little more than 100,000 such steps take.)
#
# </details>

# %% [markdown]
# ## Mixed precision
#
# Storing each number in half as many bytes halves the time of a memory-bound operation. And tensor cores are far faster than ordinary units are in float32: 312 instead of 19.5 TFLOP/s in an A100's data sheet. The price is range or precision. A floating-point number is stored as a **fraction**, also called *mantissa*, which holds its digits, and an **exponent**, which gives the position of the point:

# %% tags=["hide-input"]
formats = {
    "float32": (8, 23),
    "TF32": (8, 10),
    "bfloat16": (8, 7),
    "float16": (5, 10),
}
with style.in_style():
    figure, axes = style.new_figure(5, 1.7)
    colours = (style.PLAIN, style.KEY, style.QUERY)
    for y, bits in enumerate(formats.values()):
        fields = [
            colour
            for colour, n in zip(colours, (1, *bits), strict=True)
            for _ in range(n)
        ]
        for x_bit, colour in enumerate(fields):
            axes.broken_barh(
                [(x_bit, 0.85)], (y + 0.15, 0.7), color=colour, linewidth=0
            )
    axes.set_yticks([y + 0.5 for y in range(4)], list(formats))
    axes.invert_yaxis()
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    names = ("sign", "exponent: range", "fraction: precision")
    axes.legend(
        [Patch(color=colour) for colour in colours],
        names,
        loc="upper center",
        ncols=3,
        bbox_to_anchor=(0.45, 0),
        fontsize=10,
    )
Picture(
    figure,
    alt=(
        "The bits of four formats. float32: a sign, 8 bits of exponent, 23 of "
        "fraction. TF32: 1, 8 and 10. bfloat16: 1, 8 and 7. float16: 1, 5 and 10."
    ),
    caption=(
        "Four number formats, bit by bit: bfloat16 keeps the range of float32, while "
        "float16 gives up range for precision."
    ),
)

# %% [markdown]
# The table shows the largest number of each format, the smallest one with all its digits (*normal*), and the next one after 1:

# %% tags=["hide-input"]
rows = []
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    info = torch.finfo(dtype)
    name = str(dtype).removeprefix("torch.")
    largest = f"{info.max:.2g}" if info.max > 1e6 else f"{info.max:,.0f}"
    rows.append([name, largest, f"{info.tiny:.2g}", f"1 + {info.eps:.2g}"])
for row in (["", "largest", "smallest normal", "after 1"], *rows):
    print("{:8}  {:7}  {:15}  {}".format(*row))

# %% tags=["remove-cell"]
assert rows[2][1] == "65,504"
for name, (_, fraction) in formats.items():
    if name != "TF32":
        assert torch.finfo(getattr(torch, name)).eps == 2.0**-fraction

# %% [markdown]
# **bfloat16** has the range of float32, but only two or three significant digits. **float16** is eight times as precise, but ends at 65,504. We add 0.001 to a weight of 1, a thousand times. The sum should be 2:

# %%
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    weight = torch.ones((), dtype=dtype)
    for _ in range(1000):
        weight += torch.tensor(0.001, dtype=dtype)
    print(f"{str(dtype)[6:]:9} {weight.item():.3f}")

# %% tags=["remove-cell"]
assert (torch.ones((), dtype=torch.bfloat16) + 0.001).item() == 1
assert f"{weight.item():.3f}" == f"{1 + 1000 * 2.0**-10:.3f}" == "1.977"  # float16

# %% [markdown]
# In bfloat16 the weight hasn't moved at all: the next number after 1 is 1.0078, so 1.001 is rounded to 1. In float16, each step is rounded to the distance between neighbours, 0.00098. In **mixed precision** ([Micikevicius et al., 2018](https://arxiv.org/abs/1710.03740)), the weights that are trained, the **master weights**, and Adam's averages therefore stay in float32, as do sums of many terms, such as those in a softmax or the loss. Matrix products read and write 16-bit numbers, but tensor cores **accumulate** the products, that is, add them up, in float32. `torch.autocast` chooses the precision of each operation, and gives the matrix products a 16-bit copy of the weights:

# %%
linear, x = torch.nn.Linear(64, 64), torch.randn(8, 64)
with torch.autocast("cpu", torch.bfloat16):
    y = linear(x)
    print("weights", linear.weight.dtype, "  product", y.dtype)
    print("loss   ", F.cross_entropy(y, torch.arange(8)).dtype)
error = (y - linear(x)).abs().mean() / linear(x).abs().mean()
print(f"mean error of the product {error:.2%}")

# %% tags=["remove-cell"]
assert 0.001 < error < 0.01

# %% [markdown]
# <details><summary>What else stays in float32 on a GPU?</summary>
#
# On a GPU, `torch.autocast` also runs layer norms in float32 (on a CPU, they keep the type of their input). So a layer norm returns float32, and the residual connection would add a sublayer's 16-bit output to it in float32. The package stores the result in 16 bits again, which halves the memory traffic of the residual stream (see [Deviations](../book/deviations.md)).
#
# </details>
#
# ### Loss scaling
#
# float16 fails at the small end of its range. Gradients of $10^{-8}$ aren't unusual, but float16 rounds them to zero: even its **subnormal** numbers, which have fewer digits, end at $6 \cdot 10^{-8}$. **Loss scaling** avoids this: multiply the loss by a large number before the backward pass, and divide the gradients by it afterwards, in float32:

# %%
gradient = torch.tensor([1e-8, 1e-6, 1e-3])
variants = {
    "in float16": gradient.half(),
    "scaled, back": (gradient * 2**16).half().float() / 2**16,
    "scaled too far": (gradient * 2**30).half(),
}
for name, numbers in variants.items():
    print(f"{name:14}", *[f"{number:.0e}" for number in numbers])

# %% tags=["remove-cell"]
assert gradient.half()[0] == 0 and (gradient * 2**16).half()[0] > 0

# %% [markdown]
# If the scale is too large, gradients overflow to infinity. Then PyTorch's `GradScaler` skips the step and halves the scale; after many good steps it doubles it. We train a small model with it, starting with a scale that is far too large:

# %%
classifier = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(classifier.parameters(), lr=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
for i in range(1, 9):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = F.cross_entropy(classifier(x), torch.arange(8))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(classifier.parameters(), 1)
    scaler.step(optimizer)
    print(f"{i}: scale {scaler.get_scale():9,.0f}  loss {loss:.2f}")
    scaler.update()

# %% tags=["remove-cell"]
assert scaler.get_scale() < 2**20 and loss < 1

# %% [markdown]
# While the gradients overflow, `scaler.step` changes no weight, so the loss stays the same. (Each line shows the loss before its step.) The gradients are clipped after `unscale_`, because before that their norm is too large by the factor of the scale. bfloat16, with the range of float32, needs none of this, so it is the better choice where the GPU supports it, as NVIDIA's have since the A100.
#
# <details><summary>TF32 and FP8: tensor cores for float32 and for 8-bit numbers</summary>
#
# **TF32** lets tensor cores multiply float32 tensors: the inputs of matrix products are rounded to 10 bits of fraction, and everything else stays in float32. Such a product is about eight times as precise as one in bfloat16, because its inputs have three more bits. `torch.set_float32_matmul_precision("high")` turns it on; in the package it's `--precision tf32`.
#
# GPUs such as the H100, L4 and RTX 4090 multiply 8-bit numbers, **FP8**, at twice the peak of 16 bits. These need a scaling factor for each tensor ([Micikevicius et al., 2022](https://arxiv.org/abs/2209.05433)).
#
# </details>


# %% tags=["remove-cell"]
def round_to_tf32(x):
    bits = x.view(torch.int32)
    bits = (bits + 2**12) & ~(2**13 - 1)  # keeps 10 bits of the fraction
    return bits.view(torch.float32)


torch.manual_seed(0)
a, b = torch.randn(2, 256, 256)
products = (
    round_to_tf32(a) @ round_to_tf32(b),
    a.bfloat16().float() @ b.bfloat16().float(),
)
errors = [((p - a @ b).norm() / (a @ b).norm()).item() for p in products]
assert 7 < errors[1] / errors[0] < 9, errors

# %% [markdown]
# ## FlashAttention
#
# Explicit attention writes a table of scores to HBM, reads it for the softmax, writes the weights, and reads them again. For long texts the table doesn't fit into SRAM. Computing it in pieces would help, but the softmax divides by the sum of a complete row.
#
# The **online softmax** ([Milakov and Gimelshein, 2018](https://arxiv.org/abs/1805.02867)) avoids this: it goes through a row block by block, and corrects earlier results on the way. Take the scores 1, 3, 2, 5 with the values 10, 20, 30, 40, in two blocks. We keep three numbers: the maximum so far, the sum of the exponentials relative to it, $e^{s - \max}$, and the sum of the values weighted by these.

# %%
score = torch.tensor([1.0, 3, 2, 5])
value = torch.tensor([10.0, 20, 30, 40])
maximum, total, weighted = torch.tensor(-math.inf), 0.0, 0.0
for block in (slice(0, 2), slice(2, 4)):
    new_maximum = torch.maximum(maximum, score[block].max())
    correction = (maximum - new_maximum).exp()
    e = (score[block] - new_maximum).exp()
    total = total * correction + e.sum()
    weighted = weighted * correction + (e * value[block]).sum()
    maximum = new_maximum
    print(f"maximum {maximum:.0f}, correction {correction:.3f}")
assert_close(weighted / total, score.softmax(0) @ value)

# %% [markdown]
# Subtracting the maximum avoids [overflow](02_attention.ipynb). In the first block there is nothing to correct: $e^{-\infty} = 0$. The second block contains a 5, so the sums so far are relative to the wrong maximum, 3. The factor $e^{3-5} \approx 0.135$ corrects that exactly.
#
# **FlashAttention** ([Dao et al., 2022](https://arxiv.org/abs/2205.14135)) is this idea in a single kernel from queries, keys and values to the output, a **fused attention**. It works on blocks of queries, keys and values that fit into SRAM, so the scores never leave the chip. This is called **tiling**. For each block of queries, FlashAttention-2 ([Dao, 2023](https://arxiv.org/abs/2307.08691)) goes through all keys and values block by block. In the figure, it has reached the third block of keys and values; of the first two, only the three running results are left:

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_drawing(5, 2.5, (-1.6, 8.2), (-0.6, 5.1))
    for i in range(4):
        blocks = (  # left, bottom, colour, whether it is in SRAM now
            (-1.3, 3 - i, style.QUERY, i == 1),
            (i, 4.2, style.KEY, i == 2),
            *[(j, 3 - i, style.OUTPUT, (i, j) == (1, 2)) for j in range(4)],
        )
        for x, y, colour, here in blocks:
            inside = here or x == -1.3 or y == 4.2
            axes.broken_barh(
                [(x, 0.86)],
                (y, 0.76),
                facecolor=colour if here else "none",
                edgecolor=colour if inside else style.PLAIN,
                linewidth=1.5 if inside else 0.8,
                linestyle="-" if inside else ":",
            )
    for x, y, text in ((-0.87, 3.98, "Q"), (-0.5, 4.58, "K, V")):
        axes.text(x, y, text, ha="center", va="center", fontsize=10)
    axes.text(1.93, -0.45, "scores, a block at a time", ha="center", fontsize=9)
    draw_arrow(axes, (2.9, 2.38), (5.4, 2.38))
    axes.text(4.65, 2.5, "update", ha="center", fontsize=9)
    axes.broken_barh([(5.5, 2.5)], (1.8, 1.16), fc="none", ec=style.VALUE, lw=2)
    results = "maximum,\ntotal,\nweighted sum"
    axes.text(6.75, 2.38, results, ha="center", va="center", fontsize=9)
Picture(
    figure,
    alt=(
        "A column of four blocks of queries, a row of four blocks of keys and values, "
        "and between them a table of four by four blocks of scores. The second block "
        "of queries, the third of keys and values, and the block of scores where they "
        "meet are filled. An arrow leads from it to a box: maximum, total, weighted sum."
    ),
    caption=(
        "FlashAttention at work on one block of queries: only the filled blocks and "
        "the box are in SRAM. The other blocks of scores (dotted) are never stored."
    ),
)

# %% [markdown]
# This function takes the same steps for one block of queries (without the speed, because each operation is a kernel of its own):


# %%
def blockwise_attention(query, key, value, block=16):
    d_k = query.size(-1)
    maximum = query.new_full((*query.shape[:-1], 1), -math.inf)
    total, weighted = torch.zeros_like(maximum), torch.zeros_like(query)
    blocks = zip(key.split(block, -2), value.split(block, -2), strict=True)
    for k, v in blocks:
        scores = query @ k.mT / math.sqrt(d_k)  # (..., n_query, block)
        new_maximum = torch.maximum(maximum, scores.amax(-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.sum(-1, keepdim=True)
        weighted = weighted * correction + e @ v
        maximum = new_maximum
    return weighted / total


# %%
torch.manual_seed(0)
query, key, value = torch.randn(3, 2, 8, 100, 64)
expected, _ = attention(query, key, value)
assert_close(blockwise_attention(query, key, value), expected)
assert_close(fused_attention(query, key, value), expected)
print("blockwise = fused = explicit")

# %% [markdown]
# Is it faster? That depends on the length. On an H100, a forward and a backward pass of attention with sentences of 128 tokens took 1.58 ms in the explicit form and 0.59 ms with FlashAttention. But for sentences of about 25 tokens, such as ours, FlashAttention gains nothing, presumably because its blocks hold 64 or 128 queries and are mostly empty.
#
# <details><summary>All four lengths, a second kernel, and which one the package uses</summary>
#
# PyTorch's *memory-efficient* kernel is another implementation of the online softmax. The table shows milliseconds in bfloat16 with the base model's 8 heads of size 64, 25,600 tokens, no mask ([all measurements](../book/speed.md)):
#
# | tokens per sentence | explicit | FlashAttention | memory-efficient |
# |---|---|---|---|
# | 16 | 0.99 | 1.76 | 0.83 |
# | 32 | 1.17 | 1.19 | 0.63 |
# | 64 | 1.10 | 0.74 | 0.50 |
# | 128 | 1.58 | 0.59 | 0.63 |
#
# Each time includes drawing the random inputs and waiting for a single call, so the true ratios are larger. At 128, FlashAttention overtakes the memory-efficient kernel, which is the fastest for shorter sentences.
#
# On a GPU, the package uses only the memory-efficient kernel. It also accepts a padding mask, which the encoder and cross-attention need. PyTorch's FlashAttention accepts no mask except the causal one. That would be enough for the decoder's self-attention, because padding is at the end, where the causal mask hides it from the real tokens. But with a causal mask, the memory-efficient kernel was faster at all four lengths, even at 128. A third kernel, of cuDNN, needs a tenth of a second of preparation for every new shape.
#
# </details>
#
# FlashAttention also saves memory. For the backward pass, explicit attention keeps the table of weights, $O(n^2)$ numbers for $n$ tokens. Besides queries, keys and values, FlashAttention-2 keeps only its output and one number per query, and recomputes the weights in the backward pass. So its memory is $O(n)$, while its arithmetic stays $O(n^2)$:


# %% tags=["hide-input"]
def kept_bytes(work):
    storages = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        work()
    return sum(storage.nbytes() for storage in storages.values())


lengths = [2**i for i in range(5, 12)]
kept = {"explicit": [], "fused": []}
for n in lengths:
    qkv = [torch.randn(1, 8, n, 64, requires_grad=True) for _ in range(3)]
    # If there is a GPU, the package has turned this kernel off, on the CPU as well.
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for name, form in (("explicit", attention), ("fused", fused_attention)):
            kept[name].append(kept_bytes(partial(form, *qkv)) / 2**20)
with style.in_style():
    figure, axes = style.new_figure(4.6, 2.8)
    for (name, sizes), (colour, dashes) in zip(
        kept.items(), style.LINE_STYLES, strict=False
    ):
        axes.plot(
            lengths,
            sizes,
            dashes,
            color=colour,
            label=name,
            marker="o",
            markersize=4,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
    axes.set_yticks([1, 4, 16, 64, 256], [1, 4, 16, 64, 256])
    axes.grid(True)
    axes.set_xlabel("tokens")
    axes.set_title("Kept for the backward pass (MiB)", loc="left")
    axes.legend()
Picture(
    figure,
    alt=(
        "Memory against the length of the text, from 32 to 2,048 tokens, both axes "
        "logarithmic. For fused attention it is a straight line that doubles with each "
        "doubling of the length. For the explicit form the line gets steeper: with the "
        "last doubling, the memory grows by a factor of 3.7."
    ),
    caption=(
        "Memory for the backward pass. When the length doubles, fused attention keeps "
        "twice as much; the explicit form comes closer and closer to four times as much."
    ),
)

# %% tags=["remove-cell"]
growth = {
    name: [b / a for a, b in pairwise(sizes)][-2:] for name, sizes in kept.items()
}
assert 3.4 < growth["explicit"][0] < growth["explicit"][1] < 4, growth
assert all(1.9 < g < 2.1 for g in growth["fused"]), growth
if Path("../book/results/gpu/attention.json").exists():  # not in Colab
    times = json.loads(
        Path("../book/results/gpu/attention.json").read_text("utf-8")
    )
    assert "H100" in times["device"]
    times = {
        (r["length"], r["mask"], r["kernel"].removesuffix("_ATTENTION")): r
        for r in times["results"]
        if "milliseconds" in r
    }
    for n, *expected in (
        (16, "0.99", "1.76", "0.83"),
        (32, "1.17", "1.19", "0.63"),
        (64, "1.10", "0.74", "0.50"),
        (128, "1.58", "0.59", "0.63"),
    ):
        found = [times[n, "none", k] for k in ("MATH", "FLASH", "EFFICIENT")]
        assert [f"{r['milliseconds']:.2f}" for r in found] == expected
        assert all(r["sentences"] * n == 25_600 for r in found)
        causal = [
            times[n, "is_causal", k]["milliseconds"] for k in ("EFFICIENT", "FLASH")
        ]
        assert causal[0] < causal[1]
    for (_, mask, kernel), r in times.items():
        assert kernel != "CUDNN" or r["milliseconds_of_new_shapes"] > 100
        assert kernel != "FLASH" or mask != "padding"

# %% [markdown]
# ## Fusion and compilation
#
# A memory-bound chain of operations gets faster if it moves fewer bytes. After each sublayer come a dropout, a residual addition and a layer norm. For each number of the output, these three kernels read and write 7.5 numbers. A single kernel that does the work of all three moves only 3.5. This is **fusion**, and `torch.compile` does it for you:
#
# ```python
# compiled = torch.compile(model)  # its first call takes a while
# ```
#
# <details><summary>How these numbers are counted</summary>
#
# | kernel | reads | writes | total |
# |---|---|---|---|
# | dropout | 1 | 1.5 | 2.5 |
# | residual addition | 2 | 1 | 3 |
# | layer norm | 1 | 1 | 2 |
# | all three | 4 | 3.5 | 7.5 |
# | **one fused kernel** | 2 | 1.5 | 3.5 |
#
# A byte in dropout's mask counts as half a number of 16 bits.
#
# </details>
#
# Fusion also saves launches.
#
# **Try it.** The chart has the estimated times of the encoder layer. Tick *fused attention*, then *compiled*, and watch the utilisation above the bars (*% of peak*). Which bar is the longest then? Finally, choose 64 tokens.

# %% tags=["hide-input"]
Captioned(
    operation_times(
        encoder_operations,
        {"fused": "fused attention", "compiled": "compiled"},
        description=(
            "A bar for each operation of an encoder layer: its estimated time on the "
            "chosen GPU, blue if arithmetic limits it and orange if memory does. The "
            "line above has the sum and the utilisation. With the boxes "
            "ticked, attention, and the chains of dropout, residual and norm, become "
            "one operation each, and utilisation rises. With 64 tokens all bars are "
            "orange."
        ),
    ),
    "Estimated time of each operation of an encoder layer: orange if it is "
    "memory-bound, blue if it is compute-bound.",
)

# %% [markdown]
# On an H100, the longest bar is ReLU's: it does almost no arithmetic, but reads and writes 2,048 numbers for each token. By default, `torch.compile` leaves large matrix products to a library, so it usually can't merge the next operation into them. For $2^{14} = 16{,}384$ tokens, this is the utilisation of six GPUs in the layer's forward pass, at best:

# %% tags=["hide-input"]
variants = {
    "plain": (),
    "fused attention": ("fused",),
    "+ compiled": ("fused", "compiled"),
}
rows = []
for name, gpu in GPUS.items():
    row = [name]
    for options in variants.values():
        chosen = operations(*options)
        seconds = sum(estimated_time(o, gpu) for o in chosen)
        flop = sum(o.flop for o in chosen) * 2**14
        row.append(f"{flop / seconds / (gpu.teraflops * 1e12):.0%}")
    rows.append(row)
for row in (["GPU", *variants], *rows):
    print("{:8}  {:>5}  {:>15}  {:>10}".format(*row))

# %% tags=["remove-cell"]
for gpu in GPUS.values():
    assert all(
        o.flop * 64 / (o.traffic * 64 + o.weights) < 64 for o in operations()
    )
    assert ridge_point(gpu) > 64
for options in variants.values():
    times = {o.name: estimated_time(o, GPUS["H100"]) for o in operations(*options)}
    assert max(times, key=times.get) == "ReLU"
assert rows[-1] == ["H100", "42%", "44%", "52%"]
compiled = [row[-1] for row in rows]  # also in the chapter on WMT14
assert compiled == ["62%", "43%", "71%", "67%", "69%", "52%"]
assert arithmetic_intensity(by_name["feed-forward in"], 2**14) < ridge_point(
    GPUS["L4"]
)

# %% [markdown]
# With 64 tokens everything is memory-bound, because each weight is read for only a few tokens. [Decoding](12_decoding.ipynb) a single sentence with a KV cache is like that.

# %% [markdown]
# ## Profiling
#
# `torch.profiler` records a **trace**: every operation with its start and end. We trace a forward and a backward pass of our small model on 64 sentences of equal length:

# %%
batch = collate(equal, equal, range(64)).to(device.torch_device)
forward_backward(batch)  # the first time is slower
activities = [ProfilerActivity.CPU]
if device.type == "cuda":
    activities.append(ProfilerActivity.CUDA)
with profile(activities=activities) as profiler:
    forward_backward(batch)
    device.synchronize()

# %% [markdown]
# The table lists the slowest operations. On a CPU, matrix products are called `mm`, `addmm` or `addmm_`; on a GPU, look for `gemm` or `nvjet` in the kernels' names.

# %% tags=["hide-input"]
on_gpu = device.type == "cuda"
wanted = "DeviceType.CUDA" if on_gpu else "DeviceType.CPU"


def on_device(events):
    """On a GPU, only the kernels: the CPU's operations have the same times again."""
    return [event for event in events if str(event.device_type) == wanted]


def own_time(event):
    key = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    return getattr(event, key)


def short_name(event):
    name = event.key
    for part in ("aten::", "void ", "at::native::", "_scaled_dot_product_"):
        name = name.replace(part, "")
    return name[:30]


averages = sorted(on_device(profiler.key_averages()), key=own_time, reverse=True)
total = sum(map(own_time, averages))
print(
    tabulate(
        [
            [short_name(e), e.count, f"{own_time(e) / total:.0%}"]
            for e in averages[:6]
        ],
        headers=["operation", "calls", "time"],
    )
)

# %% [markdown]
# On a CPU, matrix products take most of the time. On a GPU that's different: the next figure shows the kernels of the compiled step from the figure at the top, averaged over a trace of 10 steps ([log](https://github.com/transformer-course/transformer-course/blob/main/book/results/gpu/third-run.md)):

# %% tags=["hide-input"]
kernels = {
    "matrix products": 14.2,
    "layer norm, residual, dropout": 6.0,
    "attention": 5.9,
    "loss: softmax, its gradient": 2.2,
    "ReLU": 1.8,
    "Adam and clipping": 0.7,
    "all others": 3.7,
}
with style.in_style():
    figure = Figure(figsize=(4.8, 2.3), layout="constrained")
    axes = figure.subplots()
    colours = [style.VALUE] + [style.PLAIN] * 6
    bars = axes.barh(list(kernels), kernels.values(), color=colours, height=0.7)
    axes.bar_label(bars, [f"{value:.1f}" for value in kernels.values()], padding=3)
    axes.invert_yaxis()
    axes.set(xlim=(0, 17), xticks=[])
    axes.set_title("Time in a step (ms)", loc="left")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
Picture(
    figure,
    alt=(
        "Bars of the milliseconds of kernels in a step: matrix products 14.2; layer "
        "norm, residual connections and dropout 6.0; attention 5.9; the loss's softmax "
        "and its gradient 2.2; ReLU 1.8; Adam and clipping 0.7; all others 3.7."
    ),
    caption=(
        "Measured on an H200: the kernels of a compiled step. Matrix products (green) "
        "take less than half of the time, even after fusion."
    ),
)

# %% tags=["remove-cell"]
assert round(sum(kernels.values()), 1) == 34.5 and round(36.5 - 34.5, 1) == 2.0
assert kernels["matrix products"] / 34.5 < 0.45
log = Path("../book/results/gpu/third-run.md")
if log.exists():  # not in Colab
    found = {}  # first cell of each row of its tables → the last one
    for line in log.read_text("utf-8").replace("**", "").splitlines():
        if line.startswith("| "):
            first, *others = (cell.strip() for cell in line.strip("|").split("|"))
            if len(others) == 3 and others[2].replace(".", "").isdigit():
                found[first] = float(others[2])
    norm = "layer norm, residual connection and dropout, backward"
    parts = {
        "matrix products": found["matrix products"],
        "layer norm, residual, dropout": found[norm] + found["the same, forward"],
        "attention": found["attention, backward"] + found["attention, forward"],
        "loss: softmax, its gradient": found["loss: softmax and its gradient"],
        "ReLU": found["ReLU, forward and backward"],
        "Adam and clipping": found["Adam and clipping"],
    }
    parts["all others"] = found["all"] - sum(parts.values())
    assert {name: round(value, 1) for name, value in parts.items()} == kernels
    text = log.with_name("fourth-run.md").read_text("utf-8")
    assert "residual connection and dropout, backward | 4.4 | 1.9 |" in text
    assert "| all kernels of the step | 34.4 | 31.6 |" in text

# %% [markdown]
# In a GPU's trace, first look for gaps between kernels. If there are any, the step is launch-bound or waits for data. Here, the kernels add up to 34.5 of 36.5 ms, so the GPU is hardly ever idle. Then look at the longest operations: except for matrix products and fused attention, most are candidates for fusion. `profiler.export_chrome_trace("trace.json")` saves a trace, and [Perfetto](https://ui.perfetto.dev) shows it in the browser.
#
# <details><summary>Why do the matrix products take 14.2 ms, and when is fusion a loss?</summary>
#
# At the data sheet's peak, the FLOP of a step, padding included, would take 10.0 ms. Matrix products take 14.2, because even large ones alone reach only about 760 of the 989 TFLOP/s, and many of these are small. Each of the 18 attention sublayers takes 0.33 ms, less than the table in *FlashAttention* suggests: presumably because the times there include drawing inputs and waiting for a single call, and the H200's memory is faster.
#
# Fusion isn't always a gain. The compiler had put two different sums of the layer norm's backward pass into one kernel. With an option that keeps them apart, which the package now sets, these kernels take 1.9 ms instead of 4.4 ([log](https://github.com/transformer-course/transformer-course/blob/main/book/results/gpu/fourth-run.md)). The figure was measured without it.
#
# </details>

# %% [markdown]
# ## A memory budget
#
# [The full model](07_full_model.ipynb) counted **weights, gradients and Adam's two averages**: 16 bytes for each parameter, 1 GB for the base model. Training also keeps the **activations**, everything that the backward pass needs from the forward pass; they grow with the batch. The figure shows the package's estimate of the peak, the most memory that a step needs at any moment. On an H200, we measured 7 to 9% less for the first two bars:

# %% tags=["hide-input"]
recipe = RECIPES["wmt14-base"]
cuda = torch.device("cuda")  # nothing runs there
mixed = Device(cuda, torch.bfloat16)
checkpointing = replace(recipe.training, activation_checkpointing=True)
four_batches = replace(recipe.training, gradient_accumulation_steps=4)
budgets = {
    "float32": estimate_memory(recipe.model, recipe.training, Device(cuda)),
    "bfloat16": estimate_memory(recipe.model, recipe.training, mixed),
    "bfloat16 and\ncheckpointing": estimate_memory(
        recipe.model, checkpointing, mixed
    ),
    "bfloat16 and\n4 smaller batches": estimate_memory(
        recipe.model, four_batches, mixed
    ),
}
parts = {
    "weights, gradients, Adam": lambda b: (
        b.weights + b.gradients * b.gradients_preallocated + b.optimizer
    ),
    "activations": lambda b: b.activations,
    "loss": lambda b: b.backward_start,
}
with style.in_style():
    figure, axes = style.new_figure(4.6, 2.3)
    left = np.zeros(len(budgets))
    colours = (style.KEY, style.QUERY, style.PLAIN)
    for (name, part), colour in zip(parts.items(), colours, strict=True):
        size = np.array([part(b) / 1e9 for b in budgets.values()])
        axes.barh(list(budgets), size, left=left, color=colour, label=name)
        left += size
    for y, end in enumerate(left):
        axes.text(end + 0.1, y, f"{end:.1f}", va="center")
    axes.invert_yaxis()
    axes.set_xlim(0, 18.5)
    axes.set_title("Peak memory of a training step (GB)", loc="left")
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.3, -0.12), ncols=3, fontsize=10.5
    )
Picture(
    figure,
    alt=(
        "Stacked bars of the peak memory of a training step: 16.3 GB in float32, 10.9 in "
        "bfloat16, 2.7 with checkpointing and 3.7 with four smaller batches. Weights, "
        "gradients and Adam's averages are about 1 GB or less of each bar; most of the "
        "long bars are activations."
    ),
    caption=(
        "Estimated peak memory of a training step. The two long bars are mostly "
        "activations (blue), and checkpointing or smaller batches save most of these."
    ),
)

# %% tags=["remove-cell"]
b = list(budgets.values())
assert 0.95e9 < b[0].weights + b[0].gradients + b[0].optimizer < 1.05e9
assert [f"{x.total / 1e9:.1f}" for x in b] == ["16.3", "10.9", "2.7", "3.7"]
assert np.allclose(left, [x.total / 1e9 for x in b])
assert all(0.75e9 < x.weights + x.optimizer < 0.85e9 for x in b)
assert [x.gradients_preallocated for x in b] == [False, False, False, True]
assert 0.95e9 < b[3].weights + b[3].gradients + b[3].optimizer < 1.05e9
assert b[1].activations > 0.5 * b[0].activations

# %% [markdown]
# <details><summary>When the peak comes, and why bfloat16 saves less than half</summary>
#
# - **The peak** comes between the forward and the backward pass, when all activations are in memory and the loss is computed.
# - **Parameters:** only 12 of the 16 bytes count, because the gradients don't exist yet. Only in the last bar do those of the earlier batches exist.
# - **Activations** (blue) shrink by less than half in bfloat16, because layer norms keep a float32 copy of their input.
# - **The loss** (grey) is computed in chunks, as explained below. In bfloat16 it is larger, because the softmax needs additional copies in float32.
#
# </details>
#
# The simplest way to save memory is [gradient accumulation](11_training.ipynb). With **activation checkpointing** ([Chen et al., 2016](https://arxiv.org/abs/1604.06174)), each layer keeps only its input, and the backward pass runs the layer again. That adds at most a third to a step's arithmetic, because a backward pass has about twice the FLOP of a forward pass. The gradients stay the same:

# %%
small = ModelConfig(1000, d_model=64, n_heads=4, d_ff=256, dropout=0.0)
torch.manual_seed(0)
small_model = Transformer(small)
source, target = torch.randint(4, 1000, (2, 32, 25))
gradients, peaks = [], []
cpu = choose_device("cpu")


def forward_and_backward():
    small_model(source, target).logsumexp(-1).sum().backward()


# %%
for checkpointing in (False, True):
    for layer in (*small_model.encoder, *small_model.decoder):
        layer.activation_checkpointing = checkpointing
    small_model.zero_grad()
    peaks.append(peak_memory(forward_and_backward, cpu))
    gradients.append([p.grad.clone() for p in small_model.parameters()])
    print(f"checkpointing {checkpointing}: {peaks[-1] / 2**20:.0f} MiB")
assert_close(gradients[0], gradients[1])

# %% tags=["remove-cell"]
assert peaks[1] < 0.5 * peaks[0]
output_layer = 2 * 25_000 * base.vocab_size * base.d_model / (step_flop / 3)
assert 0.22 < (1 - output_layer) / 3 < 0.24

# %% [markdown]
# ### A loss without all the logits
#
# The loss needs a logit for every pair of a target token and an entry of the vocabulary. For 25,000 tokens and a vocabulary of 37,000, that is 3.7 GB in float32, by far the largest tensor of a step, and the log-probabilities and the gradient of the logits are as large. But the gradient of a row of logits, $p - q$ (see [Label smoothing](10_label_smoothing.ipynb)), depends on no other row, so we can process a few rows at a time. We needn't even wait for the backward pass: whatever is applied to the loss afterwards, such as loss scaling, only multiplies all gradients by one factor. This is called a *fused linear cross-entropy*. For each chunk of rows we compute the logits, the loss and the gradients of the decoder's output $x$ and the output matrix $W$; then we discard the logits:


# %%
def chunked_loss(x, weight, target, epsilon=0.1, rows=128):
    loss, x_gradients, weight_gradient = 0, [], torch.zeros_like(weight)
    chunks = zip(x.split(rows), target.split(rows), strict=True)
    for x_rows, correct in chunks:
        z = x_rows @ weight.T  # (rows, vocab_size)
        loss += F.cross_entropy(
            z, correct, label_smoothing=epsilon, reduction="sum"
        )
        difference = z.softmax(dim=-1) - epsilon / z.size(-1)  # p - q
        difference[range(len(z)), correct] -= 1 - epsilon
        x_gradients.append(difference @ weight)
        weight_gradient += difference.T @ x_rows
    return loss, torch.cat(x_gradients), weight_gradient


# %% [markdown]
# The package's `linear_label_smoothed_cross_entropy` does this, with the same results as ours and as the plain loss. (Recent versions of PyTorch have `F.linear_cross_entropy`, but in version 2.13 it works in chunks only without label smoothing.) What differs is the peak memory of a forward and a backward pass:


# %% tags=["hide-input"]
def plain_loss(x, weight, target):
    z = x @ weight.T
    return F.cross_entropy(z, target, label_smoothing=0.1, reduction="sum")


torch.manual_seed(0)
x = torch.randn(2048, 64, requires_grad=True)
weight = (torch.randn(8000, 64) / 64**0.5).requires_grad_()
target = torch.randint(8000, (2048,))
with torch.no_grad():
    loss, *gradients = chunked_loss(x, weight, target)
peaks = []
for form in (plain_loss, linear_label_smoothed_cross_entropy):
    assert_close(form(x, weight, target), loss)
    by_form = torch.autograd.grad(form(x, weight, target), (x, weight))
    assert_close(by_form, tuple(gradients))
    peaks.append(
        peak_memory(
            lambda form=form: torch.autograd.grad(
                form(x, weight, target), (x, weight)
            ),
            cpu,
        )
    )
    print(f"{form.__name__:35} {peaks[-1] / 2**20:5.0f} MiB")
print(f"{'one tensor of all logits':35} {2048 * 8000 * 4 / 2**20:5.0f} MiB")

# %% [markdown]
# On a CPU, the plain loss needs three such tensors at once. On a GPU it seems to be four: in the figure at the top, the loss in chunks saves 14.8 GB, four times 3.7.

# %% tags=["remove-cell"]
logits_bytes = 2048 * 8000 * 4
assert 2.9 < peaks[0] / logits_bytes < 3.1 and peaks[1] < 0.25 * logits_bytes
assert round(columns[1][1] - columns[1][2], 1) == 14.8 == round(4 * 3.7, 1)
assert round(25_000 * 37_000 * 4 / 1e9, 1) == 3.7
with torch.autocast("cpu", torch.bfloat16):
    rough_loss = linear_label_smoothed_cross_entropy(
        x.detach().cpu(), weight.detach().cpu(), target
    )
assert rough_loss.dtype == torch.float32 and abs(rough_loss / loss - 1) < 0.001

# %% [markdown]
# ## All together
#
# Now we can explain the figure at the top:
#
# | change | ms | GB | explanation |
# |---|---|---|---|
# | fused attention | 262.4 → 258.2 | 30.2 → 29.7 | Sentences of 25 tokens have few scores. |
# | loss in chunks | 258.2 → 261.9 | 29.7 → 14.9 | The logits never exist all at once; the arithmetic stays the same. |
# | mixed precision | 261.9 → 70.4 | 14.9 → 10.1 | Tensor cores, and half as many bytes for most tensors. |
# | `torch.compile` | 70.4 → 36.5 | 10.1 → 10.6 | Fused kernels move fewer bytes. |
#
# In all, training is 7 times as fast: 684,000 target tokens a second. Mixed precision gains the most, as the data sheet suggests: even at the GPU's peak, a step's matrix products take 147 ms in float32 (67 TFLOP/s), but only 10 ms in 16 bits (989 TFLOP/s). (The float32 rows don't use TF32, which PyTorch leaves off by default; we haven't measured how much it would gain.) After that, most of the time goes into memory-bound operations, so fusion by the compiler gains a lot.

# %% tags=["remove-cell"]
results = Path("../book/results")
log = results / "gpu" / "third-run.md"
if log.exists():  # not in Colab
    versions = json.loads((results / "gpu" / "ladder.json").read_text("utf-8"))
    speed = versions["results"][-1]["target_tokens_per_second"]
    assert round(speed, -3) == 684_000
    assert round(5.9 / 18, 2) == 0.33
    assert (
        round(14.2 / 36.5, 2) == 0.39
        and 0.36 < (shares["large matrix products"][1] / totals[1]) < 0.45
    )
    assert [round(100 * (1 - m)) for m in (14.9 / 16.3, 10.1 / 10.9)] == [9, 7]
    bench = {}
    for name in ("base-eager", "base-compiled", "big-compiled"):
        text = (results / "gpu" / f"{name}.json").read_text("utf-8")
        assert '"NVIDIA H200 in bf16' in text and '"data": "random"' in text
        (bench[name],) = json.loads(text)["results"]["benchmarks"]
    base, big = bench["base-compiled"], bench["big-compiled"]
    assert round(base["flops"] / 989e12 * 1e3, 1) == 10.0
    assert round(base["flops"] / 67e12 * 1e3) == 147
    peak = (
        max(big["implementations"][2]["speeds"])
        * big["flops"]
        / big["target_tokens"]
    )
    assert 755e12 < peak < 765e12
    achieved = 684_000 * base["flops"] / base["target_tokens"]
    real = (base["source_tokens"] + base["target_tokens"]) / base["padded_tokens"]
    assert round(100 * achieved * real / 989e12) == 26  # also in Several GPUs
    achieved = statistics.median(big["implementations"][0]["speeds"])
    achieved *= big["flops"] / big["target_tokens"]
    real = (big["source_tokens"] + big["target_tokens"]) / big["padded_tokens"]
    assert round(100 * achieved * real / 989e12) == 42
    widths = [RECIPES[f"wmt14-{name}"].model.d_model for name in ("base", "big")]
    assert widths[1] == 2 * widths[0]

# %% [markdown]
# At 36.5 ms per step, the base model's utilisation is 26%. **The big model reaches 42%.** Its vectors are twice as wide, so a layer's matrix products need four times as many FLOP, while its memory-bound operations move only twice as many bytes.
#
# The page [Speed and memory](../book/speed.md) lists all measurements. To measure a recipe on your machine, run `transformer bench`.

# %% [markdown]
# ## Several GPUs
#
# In **data parallelism**, every GPU has a copy of the whole model and gets its own part of the batch. After the backward pass, an **all-reduce** gives each of them the sum of all gradients, and all take the same step. If the $n$ GPUs form a ring, each cuts its gradients into $n$ chunks, and the all-reduce has two halves:
#
# - **Reduce-scatter:** in each of $n - 1$ rounds, every GPU sends a chunk to its right neighbour, which adds its own values and passes the sum on in the next round. In the end, each holds the complete sum of one chunk.
# - **All-gather:** in another $n - 1$ rounds, these sums travel round the ring.


# %%
def ring_all_reduce(gradients):
    """Sum the gradients of n GPUs, (size,) each; every GPU gets the sum."""
    n = len(gradients)
    chunks = [list(gradient.chunk(n)) for gradient in gradients]
    for step in range(n - 1):
        for gpu in range(n):  # at the same time
            i, neighbour = (gpu - step) % n, (gpu + 1) % n
            chunks[neighbour][i] = chunks[neighbour][i] + chunks[gpu][i]
    for step in range(n - 1):
        for gpu in range(n):
            i, neighbour = (gpu + 1 - step) % n, (gpu + 1) % n
            chunks[neighbour][i] = chunks[gpu][i]
    return [torch.cat(parts) for parts in chunks]


# %%
torch.manual_seed(0)
gradients = list(torch.randn(4, 12))
for reduced in ring_all_reduce(gradients):
    assert_close(reduced, sum(gradients))
print("each GPU has the sum of all gradients")

# %% [markdown]
# Each GPU sends $2(n - 1)$ chunks, each $1/n$ of the gradients: in all, less than twice their size, however many GPUs there are. How long does that take for the base model on eight A100s, connected by NVLink (300 GB/s each way) or PCIe 4.0 (about 30 GB/s)? And computing the gradients of the paper's batch, at a utilisation of 26% (optimistic for an eighth of the tokens)?

# %%
gradient_bytes = sum(4 * p.numel() for p in model_on_meta.parameters())
compute = step_flop / 8 / (0.26 * GPUS["A100"].teraflops * 1e12)
for link, byte_rate in (("NVLink", 300e9), ("PCIe", 30e9)):
    seconds = 2 * (8 - 1) / 8 * gradient_bytes / byte_rate
    print(f"{link:6} {seconds * 1e3:4.1f} ms")
print(f"compute {compute * 1e3:.1f} ms")

# %% tags=["remove-cell"]
assert 0.9 < seconds / compute < 1.1
embedding = model_on_meta.source_embedding.weight
assert embedding is model_on_meta.unembedding.weight
assert round(100 * 4 * embedding.numel() / gradient_bytes) == 30

# %% [markdown]
# In PyTorch, NVIDIA's library *NCCL* does the all-reduce. `DistributedDataParallel` (DDP), which the package uses, packs gradients into *buckets*, and sends those of the last layers while those of earlier layers are still being computed. Over PCIe, sending takes about as long as computing, and only part of it can overlap, because in the forward pass there is nothing to send.
#
# <details><summary>What if a model doesn't fit on one GPU?</summary>
#
# **ZeRO** ([Rajbhandari et al., 2020](https://arxiv.org/abs/1910.02054)) and PyTorch's version of it, **FSDP** ([Zhao et al., 2023](https://arxiv.org/abs/2304.11277)), also divide the weights, gradients and optimiser states among the GPUs. **Tensor parallelism** splits each matrix product among GPUs, and **pipeline parallelism** puts different layers on different GPUs; Megatron-LM combines both with data parallelism.
#
# </details>
#
# ### Divide by the tokens of all GPUs
#
# As with [accumulated gradients](11_training.ipynb), there is a trap: DDP averages the gradients of the GPUs, and in a mean of means, tokens in smaller batches count more. The package divides the *sum* of the losses by the tokens of all batches on all GPUs.

# %% [markdown]
# ## What goes wrong in practice
#
# **The clock that doesn't wait.** Without synchronising, you have only timed the launches. Here a thread plays the GPU's part:

# %%
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(1) as gpu:
    gpu.submit(time.sleep, 0).result()  # starts the thread
    start = time.perf_counter()
    kernel = gpu.submit(time.sleep, 0.2)  # a launch
    launched = time.perf_counter() - start
    kernel.result()  # torch.cuda.synchronize()
    finished = time.perf_counter() - start
print(f"launched after {launched * 1e3:.1f} ms")
print(f"finished after {finished * 1e3:.1f} ms")

# %% [markdown]
# **Reading the loss in every step.** `loss.item()` waits for the GPU, and meanwhile the CPU launches nothing. Add up the loss on the GPU and read it every hundred steps.
#
# <details><summary>Two more: waiting for data, and compiling again and again</summary>
#
# **Waiting for data.** A GPU that is idle between two steps may be waiting for a batch. Prepare batches ahead, with the workers of PyTorch's `DataLoader` (`num_workers`) and **pinned memory** (`pin_memory=True`), from which `tensor.to(device, non_blocking=True)` copies while the CPU goes on. In the package, a background thread (`Prefetcher`) prepares and pins a few batches ahead.
#
# **Compiling again and again.** By default, `torch.compile` compiles for the first batch's exact shape, and again when the shape changes, this time for any size. With `dynamic=True` it does so from the start. Set `TORCH_LOGS=recompiles` to see when it still recompiles, and why. Two causes that cost us time: the last batch of an epoch, which is smaller than all others, and attention masks whose rows have a length that isn't a multiple of 8.
#
# </details>
#
# **Trusting the compiler blindly.** Our first compiled training on a GPU ran without an error and learned nothing: with PyTorch 2.11, a `loss += …` inside our `autograd.Function` made all compiled gradients zero. Before a long training, compare a compiled gradient with an uncompiled one, as the package does.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You replace ReLU with GELU, which needs about ten times as many operations per number, but is also a single kernel in PyTorch. On a GPU, this operation becomes …**
#
# <details><summary>A. about ten times as slow</summary>
#
# No. It is memory-bound, and it moves as many bytes as before.
#
# </details>
# <details><summary>B. slower, but only with large batches</summary>
#
# No. A larger batch means more arithmetic and, in proportion, more bytes. Memory stays the limit.
#
# </details>
# <details><summary>C. faster, because its arithmetic intensity rises</summary>
#
# No. With a higher intensity the throughput in FLOP/s is higher, but the time isn't shorter.
#
# </details>
# <details><summary>D. hardly slower</summary>
#
# **Right.** Like ReLU's, its kernel reads each number once and writes one, and the additional arithmetic is hidden behind the memory traffic: at 2.5 instead of 0.25 FLOP per byte, it's still far below the 20 at which an H100's ordinary units would become the limit. If you wrote GELU yourself as ten PyTorch operations, it would be ten kernels and about ten times as slow, unless you compiled it.
#
# </details>
#
# **2. For long sequences, FlashAttention is faster than the explicit form because …**
#
# <details><summary>A. it computes fewer products</summary>
#
# No. It computes all of them, and the corrections as well.
#
# </details>
# <details><summary>B. it ignores small attention weights</summary>
#
# No. It is exact up to rounding, as our check shows. There are approximate methods, but this isn't one.
#
# </details>
# <details><summary>C. the scores are never written to the GPU's large memory</summary>
#
# **Right.** They stay on the chip. They aren't kept for the backward pass either, which computes them again: more arithmetic, but far fewer bytes to move if the sequence is long. For 16 tokens, the explicit form was faster in our measurements.
#
# </details>
# <details><summary>D. it runs in 16 bits</summary>
#
# No. It usually does, but so can the explicit form. The idea is independent of the number format.
#
# </details>
#
# **3. In mixed precision, why are the weights kept in float32?**
#
# <details><summary>A. A step can be smaller than the distance from a weight to the next 16-bit number</summary>
#
# **Right.** In bfloat16, 1 + 0.001 is 1, and the step is lost.
#
# </details>
# <details><summary>B. GPUs can't multiply 16-bit matrices</summary>
#
# No. Multiplying matrices of 16-bit numbers is what tensor cores do best.
#
# </details>
# <details><summary>C. Weights are larger than float16's largest number</summary>
#
# No. Weights are mostly far below 1, and the largest float16 is 65,504.
#
# </details>
# <details><summary>D. It saves memory</summary>
#
# No, it costs memory: the matrix products also need a 16-bit copy.
#
# </details>
#
# **4. A colleague reports two million tokens per second. What do you ask?**
#
# <details><summary>Answer</summary>
#
# Source or target tokens, or both? With padding? After how many warm-up steps, and did the clock wait for the GPU? Which model, precision, batch size and sentence length? And what utilisation would that be? If it is more than 1, one of the other answers is wrong.
#
# </details>
#
# **5. You double the batch. When does a step take twice as long, and when hardly longer?**
#
# <details><summary>Answer</summary>
#
# Twice as long if the GPU was already saturated, so that throughput no longer grows with the batch. Hardly longer if fixed costs dominated: launches, or reading the weights from memory, which takes the same time for any number of tokens.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Seven blanks: what limits a matrix product, the online softmax, FlashAttention's inner loop, mixed precision, loss scaling, the gradient of several GPUs, and code with bugs to find. Each has a hint, and a check that tells you what is wrong. None of them needs a GPU.
#
# - In Colab, where the last cell grades your answers:
#   [16_gpu_performance](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/16_gpu_performance.ipynb).
#   On GitHub: [16_gpu_performance.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/16_gpu_performance.ipynb).
# - On your machine, open `exercises/16_gpu_performance.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade gpu_performance
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Five experiments, ideally on a GPU in Colab</summary>
#
# 1. **Your own roofline.** Put the measured $F$ and $B$ of your machine into `GPUS`, and draw its roofline. Which operations are memory-bound on it?
# 2. **The backward pass.** It has twice the FLOP of the forward pass. Does it move twice as many bytes? Make a list of its operations like the one in the roofline's folded code.
# 3. **Long texts.** Set `length` to 1,000 where the list of operations is made, and run that cell and those that draw it. Skip cells with `assert`, which check the book's own numbers. Which operation takes the most time now, and what does fused attention gain?
# 4. **One change after another.** On a GPU, run `transformer bench multi30k` with `--precision fp32` and without, each with `--compile no` and `--compile yes`. Which matters more?
# 5. **Idle time.** On a GPU, profile a step with 4 of the `equal` sentences and one with all 128, and compare how long the GPU is idle between kernels.
#
# </details>
#
# ## Going further
#
# - **In the paper:** hardware and times in §5.2, batches in §5.1, the FLOP of complete training runs in Table 2.
# - **The same view of performance:** Horace He's [Making Deep Learning Go Brrrr From First Principles](https://horace.io/brrr_intro.html).
# - **Next:** [Training the full model on WMT14](17_wmt14.ipynb). Now that each step is fast, you can take 100,000 of them.
