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
# **You will be able to**
#
# - say of any operation whether it waits for arithmetic or for memory, before you run it;
# - compute a softmax without ever seeing all of its row, and know why that makes attention fast;
# - choose between float32, bfloat16 and float16, and say what each of them loses;
# - tell what fusing, packing, larger batches and more GPUs each gain, and measure it so that others believe you.
#
# **About 40 minutes.** It builds on [Attention](02_attention.ipynb), [The full model](07_full_model.ipynb) and [Training your first
# model](11_training.ipynb).

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
import statistics
import time
from dataclasses import replace

import torch
import torch.nn.functional as F
from tabulate import tabulate
from torch.testing import assert_close

from transformer.plots.style import Picture, SourceCode

torch.set_printoptions(precision=4, sci_mode=False)

# %% [markdown]
# ## The question
#
# How much arithmetic is one training step of the paper's base model? PyTorch can count it while it runs, and on the *meta* device, where tensors have a shape and no numbers, the run costs nothing. A step reads
# about 25,000 tokens on each side (§5.1); say 1,000 sentences of 25.

# %%
from torch.utils.flop_counter import FlopCounterMode

from transformer.config import ModelConfig
from transformer.model import Transformer

base = ModelConfig(attention="explicit")  # in this form every product is seen
with torch.device("meta"):
    model, ids = Transformer(base), torch.ones(1000, 25, dtype=torch.long)
with FlopCounterMode(display=False) as counter:
    F.cross_entropy(model(ids, ids).flatten(0, 1), ids.flatten()).backward()
flop = counter.get_total_flops()
print(f"{flop / 1e12:.1f} TFLOP a step")

# %% [markdown]
# (A FLOP is one multiplication or one addition; we count those of matrix products, the rest is small beside them.) Here are six GPUs, with the number of such operations a second that their makers' data
# sheets promise, and how long the paper's 100,000 steps would take at that speed:

# %%
from transformer.plots.roofline import GPUS

steps = 100_000
rows = [
    [name, gpu.teraflops, steps * flop / (gpu.teraflops * 1e12) / 3600]
    for name, gpu in GPUS.items()
]
print(tabulate(rows, headers=["data sheet", "TFLOP/s", "hours"], floatfmt=".1f"))

# %% [markdown]
# Nobody sees these hours. Even good programs seldom reach more than half of such a peak, and careless ones far less. **Where does the rest of the time go, and what can be done about each part?**
#
# A word on honesty. The numbers of this page come from three places: data sheets, arithmetic, and measurements that were made on the machine that built the page, which may have had
# no GPU. Each says which it is. What was measured with `transformer bench`, and on what, stands on the page of [results](../book/results.md).

# %% [markdown]
# ## By hand
#
# Any chip that computes has **two clocks**. One counts operations: so many FLOP a second. The other counts bytes: so many a second go between the chip and its memory. A task needs both, and can at best do both at once. So it
# takes at least
#
# $$t \ge \max\left(\frac{f}{F},\ \frac{b}{B}\right),$$
#
# with $f$ operations and $b$ bytes, on a chip that makes $F$ operations and moves $B$ bytes a second.
#
# Take a slow chip, with 100 FLOP and 10 bytes a second, and two tasks.
#
# **Add two vectors of 1,000 numbers**, 4 bytes each. That is 1,000 FLOP, 10 seconds. But two vectors come in and one goes out: 12,000 bytes, 1,200 seconds. The arithmetic is free.
#
# **Multiply two 100 × 100 matrices.** Each of 10,000 results is a sum of 100 products: $2 \cdot 100^3$ FLOP, 20,000 seconds. Three matrices of 40,000 bytes move: 12,000 seconds. Now the bytes are free.


# %%
def seconds_at_least(flop, moved, flop_rate=100, byte_rate=10):
    return max(flop / flop_rate, moved / byte_rate)


assert seconds_at_least(1000, 3 * 4000) == 1200
assert seconds_at_least(2 * 100**3, 3 * 40_000) == 20_000

# %% [markdown]
# What decides is the ratio of FLOP to bytes, the task's **intensity**. The addition has $1/12$. The product has $2n^3 / 12n^2 = n/6$: it grows with the matrix, because every number that came in is used $n$ times.
# And a chip has a ratio of its own, here $100 / 10$. Below it a task waits for memory, above it for arithmetic. {cite}`williams2009` drew that as a roof, and it is the one picture to have in mind.
#
# So what are the two clocks of the machine that made this page? We take a large product for the one and a large addition for the other, and believe the best of several tries:

# %%
from transformer.device import choose_device

device = choose_device()
print(device)


# %%
def best_seconds(work, tries=5):
    found = []
    for _ in range(tries):
        device.synchronize()
        started = time.perf_counter()
        work()
        device.synchronize()
        found.append(time.perf_counter() - started)
    return min(found)


# %%
n = 1024 if device.type == "cpu" else 8192
square = torch.randn(n, n, device=device.torch_device)
long, total = torch.randn(2, n * n * 4, device=device.torch_device)
flop_rate = 2 * n**3 / best_seconds(lambda: square @ square)
add = best_seconds(lambda: torch.add(long, 1, out=total))
byte_rate = 2 * long.nbytes / add  # one vector is read, one is written
print(f"{flop_rate / 1e9:.0f} GFLOP/s and {byte_rate / 1e9:.1f} GB/s in float32")
print(f"ratio {flop_rate / byte_rate:.1f} FLOP a byte")

# %% [markdown]
# ## The picture
#
# Here is all that one encoder layer does with a token, forward, in 16 bits: FLOP and bytes for each operation, by arithmetic that you can redo. $d = 512$, eight heads, a feed-forward of 2,048, sentences of 25.

# %%
from transformer.plots.roofline import Operation

d, d_ff, heads, length = 512, 2048, 8, 25


def product(name, n_in, n_out):
    return Operation(name, 2 * n_in * n_out, 2 * (n_in + n_out), 2 * n_in * n_out)


def elementwise(name, flop, numbers, **when):
    return Operation(name, flop, 2 * numbers, **when)


# %%
apart, joined = {"unless": "fused"}, {"only": "fused"}
scores = heads * length  # numbers a token
attend = [
    Operation("scores", 2 * length * d, 2 * (2 * d + scores), **apart),
    elementwise("mask, softmax", 6 * scores, 4 * scores, **apart),
    Operation("weights × values", 2 * length * d, 2 * (2 * d + scores), **apart),
    Operation("fused attention", 4 * length * d, 2 * 4 * d, **joined),
]

# %%
apart, joined = {"unless": "compiled"}, {"only": "compiled"}


# %%
def add_and_norm(n):
    return [
        elementwise(f"dropout {n}", d, 2.5 * d, **apart),
        elementwise(f"residual {n}", d, 3 * d, **apart),
        elementwise(f"layer norm {n}", 8 * d, 2 * d, **apart),
        elementwise(f"dropout … norm {n}", 10 * d, 3.5 * d, **joined),
    ]


# %%
layer = [product("Q, K, V", d, 3 * d), *attend, product("output", d, d)]
layer += [*add_and_norm(1), product("feed-forward in", d, d_ff)]
layer += [elementwise("ReLU", d_ff, 2 * d_ff, **apart)]
layer += [product("feed-forward out", d_ff, d), *add_and_norm(2)]

# %% [markdown]
# (Dropout also keeps a byte a number, to know later what it dropped: that is the half.) Is the arithmetic right? PyTorch counts the same products:

# %%
from transformer.layers import EncoderLayer

with torch.device("meta"):
    one, x = EncoderLayer(base), torch.empty(1000, length, d)
with FlopCounterMode(display=False) as counter:
    one(x, None)
named = ("Q, K, V", "scores", "weights × values", "output")
products = [o for o in layer if o.name in named or "feed-forward" in o.name]
assert counter.get_total_flops() == 1000 * length * sum(o.flop for o in products)

# %% tags=["hide-input"]
from transformer.plots.roofline import roofline

marked = ("mask, softmax", "layer norm 1", "scores", "output", "feed-forward in")
Picture(
    roofline(
        {name: GPUS[name] for name in ("H100", "A100", "T4")},
        [next(o for o in layer if o.name == name) for name in marked],
        25_000,
    ),
    alt=(
        "Three roofs over FLOP a byte, both axes logarithmic: each rises with the "
        "memory's speed and then stays flat at the peak, H100 highest, T4 lowest; "
        "the bends lie between 150 and 300. Five dotted lines mark operations: "
        "1 softmax and 2 layer norm near 1, 3 attention's scores near 10, all far "
        "left of every bend; 4 and 5, the output projection and the feed-forward, "
        "between 250 and 400, at the bends or beyond."
    ),
)

# %% [markdown]
# 1 is the softmax, 2 the layer norm, 3 the product of queries and keys, 4 the output projection, 5 the feed-forward's first half. Only the large products come near the flat part of the roof, where a chip earns its
# data sheet. The small ones inside attention are products, too, and yet they wait for memory: each score is a sum of 64 products, and then it is written out. And everything that touches each number once waits for memory, on
# every chip there is.
#
# Look also at the bends. From T4 to H100 the arithmetic grew fifteenfold and the memory tenfold, so the H100's bend lies further to the right: there it pays more to move less. The A100, with its fast memory, has its bend to the left of both. **Look at the ratio, not at the year.**
#
# Now play. Begin with an A100 and $2^{14}$ tokens. Then tick the two boxes, one after the other; make the batch small; change the GPU.

# %% tags=["hide-input"]
from transformer.plots.roofline import operation_times

operation_times(
    layer,
    {"fused": "fused attention", "compiled": "compiled"},
    description=(
        "A bar for each operation of an encoder layer: the time that it takes at "
        "least on the chosen GPU, blue where arithmetic decides and orange where "
        "memory does. Above, the sum, and the share of the peak that is left. "
        "Boxes replace the operations of attention, and the chains of dropout, "
        "residual and norm, by one operation each, and the share rises. With few "
        "tokens all bars are orange."
    ),
)

# %% [markdown]
# Three things to find there:
#
# - With neither box ticked, four tenths of the time go to operations that compute next to nothing. Tick both, and half of that is gone without a FLOP less. In sentences of 25 attention's table is small, so its box
#   alone brings little; it is for long texts.
# - With 64 tokens *everything* is orange. Each matrix of weights is read for a few tokens only, and that is the same as an addition. Decoding sentence by sentence lives down there, training should not.
# - The L4 has twice the T4's arithmetic and less bandwidth. There even the feed-forward turns orange, with all the rest.
#
# These are lower bounds. A real program also waits for launches, for data, for other GPUs; each has its section below.


# %%
def least(choices, gpu, tokens):
    kept = [
        o for o in layer if o.unless not in choices and (o.only or "x") in choices
    ]
    computing = [o.flop * tokens / gpu.teraflops / 1e12 for o in kept]
    moving = [(o.traffic * tokens + o.weights) / gpu.bandwidth / 1e9 for o in kept]
    return sum(computing) / sum(map(max, computing, moving))


# %%
table = []
for choices in ((), ("fused",), ("fused", "compiled")):
    shares = [least({"x", *choices}, gpu, 2**14) for gpu in GPUS.values()]
    table.append(
        [" and ".join(choices) or "neither", *[f"{s:.0%}" for s in shares]]
    )
print(tabulate(table, headers=["share of peak, at most", *GPUS]))
assert 0.35 < 1 - least({"x"}, GPUS["A100"], 2**14) < 0.45
assert 0.18 < 1 - least({"x", "fused", "compiled"}, GPUS["A100"], 2**14) < 0.25

# %% [markdown]
# ## The code
#
# ### Attention without its table
#
# The explicit form writes a table of scores, then one of weights, and keeps it for the backward pass. A softmax seems to need that: it divides by the sum of the whole row. But the row can be taken in **pieces**, if one corrects as one
# goes. Take the scores 1, 3, 2, 5 and the values 10, 20, 30, 40, two at a time. Keep three numbers: the highest score so far, the sum of exponentials, and the weighted sum.

# %%
score, value = torch.tensor([1.0, 3, 2, 5]), torch.tensor([10.0, 20, 30, 40])
highest, total, weighted = torch.tensor(-math.inf), 0.0, 0.0
for piece in (slice(0, 2), slice(2, 4)):
    new = torch.maximum(highest, score[piece].max())
    correct = (highest - new).exp()  # what was summed before was too large by this
    e = (score[piece] - new).exp()
    total = total * correct + e.sum()
    weighted = weighted * correct + (e * value[piece]).sum()
    highest = new
    print(f"highest {new:.0f}, correct by {correct:.4f}, sum {total:.4f}")
assert_close(weighted / total, score.softmax(0) @ value)

# %% [markdown]
# The second piece has a higher score, so what was summed before is multiplied by $e^{3-5}$, and all is as if 5 had been known from the start. This is the whole trick {cite}`milakov2018`. A **fused** attention does it for a
# block of queries at a time, with scores that never leave the chip {cite}`dao2022`. In PyTorch, in a few lines:


# %%
def in_pieces(query, key, value, size=16):
    scale = math.sqrt(query.size(-1))
    highest = query.new_full((*query.shape[:-1], 1), -math.inf)
    total, weighted = torch.zeros_like(highest), torch.zeros_like(query)
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / scale  # (..., n_query, size): all there ever is
        new = torch.maximum(highest, scores.amax(-1, keepdim=True))
        correct, e = (highest - new).exp(), (scores - new).exp()
        total = total * correct + e.sum(-1, keepdim=True)
        weighted, highest = weighted * correct + e @ v, new
    return weighted / total


# %%
from transformer.attention import attention, fused_attention

torch.manual_seed(0)
query, key, value = torch.randn(3, 2, 8, 100, 64)
expected, _ = attention(query, key, value)
assert_close(in_pieces(query, key, value), expected)
assert_close(fused_attention(query, key, value), expected)
print("in pieces = fused = explicit")

# %% [markdown]
# Ours only shows the idea. Each line is an operation of its own, and goes out to memory; the fused kernel is one operation, which the package calls:

# %%
SourceCode(fused_attention)

# %% [markdown]
# What is kept for the backward pass? PyTorch can call a function of ours for every tensor that it keeps. We add up the memory of these tensors, and let sentences grow:


# %%
def kept_bytes(work):
    storages = {}

    def keep(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        work()
    return sum(storage.nbytes() for storage in storages.values())


# %%
lengths = [32, 64, 128, 256, 512]
kept = {"explicit": [], "fused": []}
for n in lengths:
    qkv = [torch.randn(1, 8, n, 64, requires_grad=True) for _ in range(3)]
    for name, form in (("explicit", attention), ("fused", fused_attention)):
        kept[name].append(kept_bytes(lambda form=form, qkv=qkv: form(*qkv)) / 2**20)
growth = {name: sizes[-1] / sizes[-2] for name, sizes in kept.items()}
print({name: f"× {growth[name]:.2f} for twice the length" for name in growth})
assert growth["explicit"] > 2.8 and growth["fused"] < 2.1

# %% tags=["hide-input"]
from transformer.plots.curves import curves

Picture(
    curves(lengths, kept, "tokens", "kept for the backward pass, MiB", log2_x=True),
    alt=(
        "Memory over the length of a sentence, up to 512 tokens. The explicit "
        "form's curve bends upwards, nearly four times as much for twice the "
        "length; the fused form's stays low and grows with the length."
    ),
)

# %% [markdown]
# ### A loss without all logits
#
# The same idea helps at the other end of the model. The loss needs a logit for every token *and* every entry of the vocabulary. With the paper's vocabulary and batch size, that is by far the largest tensor of a training step:

# %%
for n_tokens in (4096, 25_000):
    print(f"{n_tokens:6,} tokens: {n_tokens * 37_000 * 4 / 1e9:.1f} GB of logits")

# %% [markdown]
# Autograd would keep their log-softmax for the backward pass, and then compute a gradient of the same size. But nobody needs the logits themselves. We need the loss, and the gradients of the decoder's output $x$ and of the output embedding $W$. And the gradient of a row of logits is $p - q$, the prediction minus the (smoothed) target
# ([Label smoothing](10_label_smoothing.ipynb)), which depends on no other row. So we can take some rows at a time, compute their logits, their loss and at once their gradients, and forget the logits again:


# %%
def chunked_loss(x, weight, target, epsilon=0.1, rows=128):
    loss, x_gradient, weight_gradient = 0, [], torch.zeros_like(weight)
    for x_rows, correct in zip(x.split(rows), target.split(rows), strict=True):
        z = x_rows @ weight.T  # (rows, vocab_size): the only logits there are
        loss += F.cross_entropy(
            z, correct, label_smoothing=epsilon, reduction="sum"
        )
        difference = z.softmax(dim=-1) - epsilon / z.size(-1)  # p - q
        difference[range(len(z)), correct] -= 1 - epsilon
        x_gradient.append(difference @ weight)
        weight_gradient += difference.T @ x_rows
    return loss, torch.cat(x_gradient), weight_gradient


# %% [markdown]
# The package's `linear_label_smoothed_cross_entropy` works in this way. All three agree, and the logits are no longer kept for the backward pass:

# %%
from transformer.loss import linear_label_smoothed_cross_entropy as linear_loss

torch.manual_seed(0)
x = torch.randn(512, 128, requires_grad=True)
weight = (torch.randn(8000, 128) / 128**0.5).requires_grad_()
target = torch.randint(8000, (512,))


def plain_loss(x, weight, target):
    z = x @ weight.T
    return F.cross_entropy(z, target, label_smoothing=0.1, reduction="sum")


# %%
with torch.no_grad():
    loss, *gradients = chunked_loss(x, weight, target)
for form in (plain_loss, linear_loss):
    by_form = form(x, weight, target)
    assert_close(by_form, loss)
    assert_close(torch.autograd.grad(by_form, (x, weight)), tuple(gradients))
    kept_here = kept_bytes(lambda form=form: form(x, weight, target))
    print(f"{form.__name__:36} keeps {kept_here / 2**20:4.1f} MiB")

# %% tags=["remove-cell"]
assert kept_here < kept_bytes(lambda: plain_loss(x, weight, target)) / 3

# %% [markdown]
# On a GPU, the matrix products in this loss run in 16 bits (the topic of the next section), but the softmax and all sums stay in float32. We can try this on a CPU, too:

# %%
with torch.autocast("cpu", torch.bfloat16):
    rough_loss = linear_loss(x.detach().cpu(), weight.detach().cpu(), target)
print(f"{rough_loss.dtype}, off by {abs(rough_loss / loss - 1):.4%}")
assert rough_loss.dtype == torch.float32 and abs(rough_loss / loss - 1) < 0.001

# %% [markdown]
# ### Numbers of sixteen bits
#
# Half the bytes a number, half the time for all that waits for memory; and the products have units of their own, several times as fast as those for float32. The price is in the bits. A floating-point number is a sign, an exponent,
# which sets the *range*, and a fraction, which sets the *precision*:

# %%
rows = []
for name, dtype in (
    ("float32", torch.float32),
    ("bfloat16", torch.bfloat16),
    ("float16", torch.float16),
):
    info = torch.finfo(dtype)
    rows.append([name, info.bits, f"{info.max:.1e}", f"{info.tiny:.1e}", info.eps])
headers = ["", "bits", "largest", "smallest normal", "next after 1: 1 +"]
print(tabulate(rows, headers=headers))

# %% [markdown]
# **bfloat16** has float32's range and about a third of its digits; **float16** has more precision and hardly any range. Each has its own way to fail. Add a thousandth to a weight of one, a thousand times:

# %%
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    weight = torch.ones((), dtype=dtype)
    for _ in range(1000):
        weight += torch.tensor(0.001, dtype=dtype)
    print(f"{str(dtype)[6:]:9} {weight.item():.3f}")
assert (torch.ones((), dtype=torch.bfloat16) + 0.001).item() == 1

# %% [markdown]
# In bfloat16 the weight has not moved at all: the next number after 1 is too far away. Training steps *are* such small additions. That is why the **weights, Adam's means and all long sums stay in
# float32**, and only the products run in 16 bits {cite}`micikevicius2018`. `torch.autocast` does that, operation by operation:

# %%
linear, x = torch.nn.Linear(64, 64), torch.randn(8, 64)
with torch.autocast("cpu", torch.bfloat16):
    y = linear(x)
    print("weights", linear.weight.dtype, "  product", y.dtype)
    print("loss   ", F.cross_entropy(y, torch.arange(8)).dtype)

# %% [markdown]
# float16 fails at the other end. A gradient of a hundred-millionth is nothing unusual, and float16 has no such number:

# %%
gradient = torch.tensor([1e-8, 1e-6, 1e-3])
print("as it is     ", gradient.half().tolist())
print("scaled, back ", ((gradient * 2**16).half().float() / 2**16).tolist())
print("scaled by far", (gradient * 2**30).half().tolist())
assert gradient.half()[0] == 0 and (gradient * 2**16).half()[0] > 0

# %% [markdown]
# So with float16 the loss is multiplied by a large number before the backward pass, and the gradients divided by it after. Too large a number gives infinity, the step is skipped, and the number halved. bfloat16 needs none of this. The
# package decides in one place, and says why:

# %%
from transformer.device import choose_device

SourceCode(choose_device)

# %% [markdown]
# How far do results move? The whole of a small model, in float32 and under autocast:

# %%
torch.manual_seed(0)
small = ModelConfig(1000, d_model=128, n_heads=4, d_ff=512, n_layers=2, dropout=0.0)
model, (source, target) = Transformer(small), torch.randint(4, 1000, (2, 8, 20))
exact = model(source, target)
with torch.autocast("cpu", torch.bfloat16):
    rough = model(source, target)
difference = (rough.float() - exact).abs().mean() / exact.abs().mean()
print(f"logits move by {difference:.2%} of their size")
assert 0 < difference < 0.02

# %% [markdown]
# ### Fewer, larger operations
#
# Before an operation computes anything it costs a fixed time: Python, PyTorch, the launch of a kernel. How much? We add one number to one number:

# %%
tiny = torch.zeros(1, device=device.torch_device)


def many():
    for _ in range(1000):
        tiny.add_(1)


fixed = best_seconds(many) / 1000
print(f"{fixed * 1e6:.1f} µs an operation on this {device.type}")

# %% [markdown]
# And how many operations are there in a step? PyTorch lets us stand in the doorway and count those that do something (a view does nothing):

# %%
from torch.utils._python_dispatch import TorchDispatchMode


class Doorway(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += not operation.is_view
        return operation(*args, **(kwargs or {}))


# %%
counts = {}
for form in ("explicit", "fused"):
    model = Transformer(replace(ModelConfig(1000), d_model=64, attention=form))
    with Doorway() as door:
        F.cross_entropy(model(source, target).flatten(0, 1), target.flatten())
    forward = door.count
    with Doorway() as door:
        model(source, target).sum().backward()
    counts[form] = door.count
    print(f"{form:8} {forward:5} forward, {door.count:5} with backward")
assert counts["fused"] < counts["explicit"]

# %% [markdown]
# Times the fixed cost, that is what a step of the six-layer model takes **at least**, however fast the chip and however small the batch. On a GPU a launch costs some microseconds too, and the kernels of a small model are shorter than
# that: the GPU waits for Python. Two things help. A **compiler** (`torch.compile`) makes one kernel of a chain of operations, and of a chain that touches each number once it also spares the trips to
# memory: the second box in the chart. `transformer train` compiles where it pays (`--compile auto`), and goes on without, and says so, where there is no compiler.
#
# The other thing is to give each launch more to do:

# %%
from transformer.recipes import RECIPES
from transformer.training.trainer import batch_loss

config = replace(RECIPES["multi30k"].model, dropout=0.0, n_layers=2)
model = Transformer(config).to(device.torch_device)


def step_on(batch):
    with device.autocast():
        batch_loss(model, batch, smoothing=0.1).backward()
    model.zero_grad()


# %%
import numpy as np

from transformer.data.batching import Sequences, collate

rng = np.random.default_rng(0)
equal = Sequences.pack(rng.integers(4, config.vocab_size, (128, 15)))
sizes = [1, 2, 4, 8, 16, 32, 64, 128]
milliseconds = []
for size in sizes:
    batch = collate(equal, equal, range(size)).to(device.torch_device)
    step_on(batch)
    milliseconds.append(1e3 * best_seconds(lambda batch=batch: step_on(batch), 3))
tokens = [16 * size for size in sizes]
speeds = [n / ms for n, ms in zip(tokens, milliseconds, strict=True)]

# %% tags=["hide-input"]
Picture(
    curves(
        tokens,
        {"forward and backward": speeds},
        "target tokens in the batch",
        "tokens a millisecond",
        log2_x=True,
    ),
    alt=(
        "Tokens a millisecond over the tokens in the batch, from 16 to 2048: the "
        "speed rises steeply, then levels off."
    ),
)

# %% [markdown]
# The first tokens are dear and the next ones come along cheaply, until the chip is full. On a GPU, which is so much wider, the curve climbs far longer. So take the largest batch that fits into memory, up to the size that the *training* wants; the paper's is 25,000 tokens
# a side. If memory gives out first, make the step of several batches (**accumulation**): the trainer does so by itself.
#
# ### No work for nothing
#
# Padding is computed like anything else. Here is what it costs if batches are so many sentences as they come, and if they are made by length and token budget ([Data and batching](09_data_and_batching.ipynb) has the
# pictures):

# %%
from transformer.data.batching import token_batches

rng = np.random.default_rng(1)
spread = rng.normal(25, 12, 2000).round().clip(3, 60).astype(int)
texts = Sequences.pack([rng.integers(4, config.vocab_size, n) for n in spread])
by_count = [list(range(i, i + 32)) for i in range(0, len(texts) - 31, 32)]
by_budget = token_batches(texts, texts, 800, seed=1)

# %%
for name, batches in (("32 as they come", by_count), ("800 tokens", by_budget)):
    made = [collate(texts, texts, indices) for indices in batches]
    cells, real = (
        sum(b.labels.numel() for b in made),
        sum(b.n_tokens for b in made),
    )
    print(f"{name:16} {1 - real / cells:.1%} padding")

# %% [markdown]
# ### All together
#
# Now we add up what can be measured here: a training step as a tutorial may write it, and then one change after the other. All run in turn, round by round, so that a slow moment of the machine hits them all; what counts is the ratio of the same round, and
# of those the median. Only real target tokens are counted, padding is not.


# %%
def all_logits(model, batch):
    logits = model(batch.source, batch.decoder_input).flatten(0, 1)
    wanted, smoothing = batch.labels.flatten(), {"label_smoothing": 0.1}
    return F.cross_entropy(
        logits, wanted, ignore_index=0, reduction="sum", **smoothing
    )


def in_chunks(model, batch):
    return batch_loss(model, batch, smoothing=0.1)


# %%
forms = {form: replace(config, attention=form) for form in ("explicit", "fused")}
models = {form: Transformer(c).to(device.torch_device) for form, c in forms.items()}
short = device.autocast_dtype or torch.bfloat16
ladder = {
    "as tutorials write it": ("explicit", all_logits, by_count, None),
    "+ batches by budget": ("explicit", all_logits, by_budget, None),
    "+ fused attention": ("fused", all_logits, by_budget, None),
    "+ loss in chunks": ("fused", in_chunks, by_budget, None),
    "+ sixteen bits": ("fused", in_chunks, by_budget, short),
}


# %%
def loss_on(batch, form, loss, dtype):
    with torch.autocast(device.type, dtype, enabled=dtype is not None):
        return loss(models[form], batch)


# All losses are the same number: only then does a race mean anything.
models["fused"].load_state_dict(models["explicit"].state_dict())
batch = collate(texts, texts, by_budget[3]).to(device.torch_device)
ways = [(form, loss, dtype) for form, loss, _, dtype in ladder.values()]
*exact, rough = (loss_on(batch, *way).item() for way in ways)
assert_close(torch.tensor(exact), torch.full((4,), exact[0]), rtol=1e-4, atol=0)
assert math.isclose(rough, exact[0], rel_tol=0.01)


# %%
def speed(form, loss, batches, dtype, number):
    batch = collate(texts, texts, batches[number]).to(device.torch_device)
    device.synchronize()
    started = time.perf_counter()
    loss_on(batch, form, loss, dtype).backward()
    device.synchronize()
    return batch.n_tokens / (time.perf_counter() - started)


# %%
rounds = [[speed(*way, number) for way in ladder.values()] for number in range(9)]
rounds = rounds[1:]  # the first one is always slow: see below
ratios = [
    statistics.median(r[i] / r[0] for r in rounds) for i in range(len(ladder))
]
for name, ratio in zip(ladder, ratios, strict=True):
    print(f"{name:22} × {ratio:.2f}")

# %% tags=["hide-input"]
from transformer.plots.strip_plot import strip_plot

Picture(
    strip_plot(
        {name: [r[i] / r[0] for r in rounds] for i, name in enumerate(ladder)},
        "times as fast as tutorials write it",
    ),
    alt=(
        "A row for each rung of the ladder, a dot for each round and a bar at the "
        "mean. The first row is one by definition; most of the gain comes with "
        "the second row, batches by budget; the next two add less, and the dots "
        "of neighbouring rows overlap. Sixteen bits gain on a GPU, and lose on "
        "most CPUs."
    ),
)

# %% [markdown]
# How much each rung brings depends on the machine, and the dots say how far to trust it. On this page they come from the device that is named near the top. Sixteen bits are a gain only where the chip has units for them: many a CPU has none, and must convert all numbers
# there and back. One rung is missing, the compiler: to compile takes longer than all the rounds together. The page of [results](../book/results.md) has a recipe's step with it and without, on the machine that is named
# there; on a CPU it loses, too. For your own machine:
#
# ```bash
# transformer bench train loss            # against torch.nn.Transformer and F.cross_entropy
# transformer bench wmt14-base            # real steps: tokens a second, share of the peak, hours
# transformer bench wmt14-base --compile yes --precision bf16
# ```
#
# The **share of the peak** in the table of `bench wmt14-base` is the number to hold against the hardware: FLOP of the model's products, those of padding too, over the time, over what large products reach on the same machine.

# %% [markdown]
# ### Several GPUs
#
# Each GPU has the whole model and a part of the batch, and before the step they add up their gradients. Does that give the same step? Only if they agree on what to divide by. We play two GPUs with one:

# %%
taken = [int(i) for i in by_budget[3]]
parts = [taken[:20], taken[20:23]]  # unequal, as parts are
batches = [collate(texts, texts, part) for part in parts]
model = Transformer(replace(config, vocab_size=8000)).to(device.torch_device)


def gradient(loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# %%
both = collate(texts, texts, parts[0] + parts[1])
wanted = gradient(in_chunks(model, both.to(device.torch_device)) / both.n_tokens)
one, two = (gradient(in_chunks(model, b.to(device.torch_device))) for b in batches)

right = (one + two) / sum(b.n_tokens for b in batches)
wrong = sum(g / b.n_tokens for g, b in zip((one, two), batches, strict=True)) / 2
scale = wanted.abs().max().item()
assert_close(right, wanted, rtol=0, atol=1e-4 * scale)
print(f"tokens {[b.n_tokens for b in batches]}")
print(f"sums, divided once: off by {(right - wanted).norm() / wanted.norm():.1e}")
print(f"mean of two means:  off by {(wrong - wanted).norm() / wanted.norm():.1%}")

# %% [markdown]
# The mean of means gives a token of the smaller part more weight. Nothing is raised, and the model is a little worse. The package's loss is a **sum**, and divided once by the tokens of all.
#
# And what does it cost to add up? In the usual way, around a ring, every GPU sends and receives $2 \frac{n-1}{n}$ times the gradients. For base, in float32, over a fast link between GPUs (some 300 GB/s one way) and
# over a slot of the mainboard (some 30):

# %%
with torch.device("meta"):
    weights = sum(4 * p.numel() for p in Transformer(ModelConfig()).parameters())
for name, rate in (("link", 300e9), ("slot", 30e9)):
    spent = 2 * (8 - 1) / 8 * weights / rate
    work = flop / 8 / (GPUS["A100"].teraflops * 1e12) / 0.4
    print(f"{name}: {spent * 1e3:4.1f} ms, beside {work * 1e3:.1f} ms of work")

# %% [markdown]
# (Eight A100, a share of the peak of 0.4, both of them assumptions.) It also overlaps with the backward pass, as the last layers' gradients are ready first. So over the link eight GPUs are nearly eight times as fast, if each has enough to do. Over the slot the adding takes longer than the work; even if all of it overlaps, they are about five times as fast.
#
# That was arithmetic. What we have measured is smaller: two processes, a core for each, on a machine of two cores, in turn with one process that makes the same steps alone. The page of [results](../book/results.md) has their ratio under
# *processes*: below 2, and not far below. The two share the memory and its bandwidth, and a step is over when the slower one is. Where you have several GPUs, `transformer bench processes` measures all of them against one. To train, `torchrun` starts a process for each:
#
# ```bash
# torchrun --nproc-per-node 8 -m -- transformer.cli train wmt14-base
# ```
#
# The batch stays that of the recipe, whatever the number.

# %% [markdown]
# ## What goes wrong in practice
#
# **The clock that does not wait.** A GPU takes orders and works them off later; Python goes on at once. Whoever stops the clock then has timed the ordering. A thread can play the GPU:

# %%
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(1) as gpu:
    started = time.perf_counter()
    order = gpu.submit(time.sleep, 0.2)
    ordered = time.perf_counter() - started
    order.result()  # torch.cuda.synchronize()
    done = time.perf_counter() - started
print(f"ordered after {ordered * 1e3:.2f} ms, done after {done * 1e3:.0f} ms")
assert ordered < done / 5

# %% [markdown]
# `device.synchronize()` above is that wait. The same is why `loss.item()` in each step is slow: it waits until the number is there, and the GPU runs dry in the meantime. Print every hundredth.
#
# **The first step counts.** It makes memory, loads libraries, chooses algorithms and perhaps compiles. With a compiler it takes far longer than the second; on a CPU without one it may hardly show. Look before you average:

# %%
fresh = Transformer(config).to(device.torch_device)
batch = collate(texts, texts, by_budget[5]).to(device.torch_device)
times = []
for _ in range(4):
    device.synchronize()
    started = time.perf_counter()
    in_chunks(fresh, batch).backward()
    device.synchronize()
    times.append(1e3 * (time.perf_counter() - started))
print("ms of the first four steps:", *[f"{t:.0f}" for t in times])

# %% [markdown]
# **Padding counted as work.** Divide all *cells* by the time, and the wasteful program wins. The batches of 32 from above:

# %%
made = [collate(texts, texts, indices) for indices in by_count]
cells, real = sum(b.labels.numel() for b in made), sum(b.n_tokens for b in made)
print(f"counting padding makes it look {cells / real:.2f} times as fast as it is")

# %% [markdown]
# **float16 without a scaler.** The loss falls at first, as large gradients survive, and then it stays. How many of a model's gradients would be lost?

# %%
tokens = sum(b.n_tokens for b in batches)
for scale in (1, 2**16):
    lost = (wanted * scale).half() == 0
    share = (lost & (wanted != 0)).float().sum() / (wanted != 0).float().sum()
    print(f"loss times {scale:6}: {share:6.2%} of the gradients become zero")

# %% [markdown]
# That is a model at its very start, whose gradients are large. They shrink as it learns.
#
# **One run against one run.** On a shared machine the same step takes 100 ms now and 150 in a minute. Compare in turn, in one process, several rounds, and say the spread. Our dots show why.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You change ReLU to a function of ten times as many operations. On a GPU the forward pass, not compiled, becomes**
#
# <details><summary>A. about ten times as slow in this operation</summary>
#
# No. It was waiting for memory, and its bytes are the same.
#
# </details>
# <details><summary>B. hardly slower</summary>
#
# **Right.** Its intensity was far below every chip's bend: arithmetic was free, and ten times nothing is little.
#
# </details>
# <details><summary>C. slower by the share of ReLU in all FLOP, times ten</summary>
#
# No. That would be so if FLOP decided. Here bytes do.
#
# </details>
# <details><summary>D. faster, as the intensity rises</summary>
#
# No. A higher intensity is a better use of the chip, not less time.
#
# </details>
#
# **2. Fused attention is faster than the explicit form because**
#
# <details><summary>A. it does fewer multiplications</summary>
#
# No. It does all of them, and some corrections on top.
#
# </details>
# <details><summary>B. it leaves out small weights</summary>
#
# No. It is exact; the check above holds it to the explicit form.
#
# </details>
# <details><summary>C. the table of scores is never written to memory and read again</summary>
#
# **Right.** And it need not be kept for the backward pass either, which computes it again.
#
# </details>
# <details><summary>D. it runs in 16 bits</summary>
#
# No. It may, but so may the explicit form. In float32 it is the same story.
#
# </details>
#
# **3. Why are weights kept in float32 under autocast?**
#
# <details><summary>A. Because a step changes a weight by less than 16 bits can tell</summary>
#
# **Right.** One plus a thousandth is one, in bfloat16.
#
# </details>
# <details><summary>B. Because a GPU cannot multiply bfloat16 matrices</summary>
#
# No. Products of 16-bit numbers are what it does best.
#
# </details>
# <details><summary>C. Because weights are larger than float16's largest number</summary>
#
# No. Weights are small; and bfloat16 has float32's range.
#
# </details>
# <details><summary>D. To save memory</summary>
#
# No. It takes more: a copy in 16 bits is made for the products.
#
# </details>
#
# **4. A colleague reports 2 million tokens a second. What do you ask?**
#
# <details><summary>Answer</summary>
#
# Source or target tokens, or both? With padding? After how many steps of warm-up, and did the clock wait for the device? At which precision, batch and sentence length? And what share of the peak is that: if it is above one, the answer to one of the questions is
# known.
#
# </details>
#
# **5. Twice the batch, the same GPU: when does a step take twice as long, and when hardly longer?**
#
# <details><summary>Answer</summary>
#
# Twice as long where the chip was full: on the right of the curve. Hardly longer where fixed costs decided, launches or the reading of weights: on its left.
#
# </details>

# %% [markdown]
# ## Exercises
#
# No blanks here yet, but four experiments.
#
# 1. **Your own two clocks.** Run *By hand* on your machine and draw its roof. Where do the operations of the layer lie?
# 2. **The backward pass.** It has about twice the FLOP of the forward pass. Does it have twice the bytes? Extend `layer` by it and look at the share of the peak.
# 3. **A long sentence.** Set `length` to 1,000 in the picture. Which operation becomes the largest, and what does fusing do now?
# 4. **The rungs on a GPU.** Open this page in Colab and look at the last ladder there. Then add one: `torch.compile(models["fused"])`.

# %% [markdown]
# ## Going further
#
# - **In the paper:** hardware and times in §5.2, batches in §5.1, FLOP of training in Table 2 {cite}`vaswani2017`.
# - **The roof:** {cite}`williams2009`, short and readable.
# - **The softmax in pieces:** {cite}`milakov2018`; fused attention with it, forward and backward: {cite}`dao2022`.
# - **The loss without all logits**, for large language models: {cite}`wijmans2025`.
# - **Sixteen bits in training:** {cite}`micikevicius2018`.
# - **Less memory for more computing:** {cite}`chen2016`.
