# %% [markdown]
# # Multi-head attention
#
# **You will be able to**
#
# - show with pencil and paper what one head must blur and two heads keep apart;
# - split, attend, join and project, first as a loop over heads, then as one reshape;
# - count what heads cost, and say what their number changes and what it leaves alone;
# - say of each attention in the Transformer who asks, who is asked, and how large every tensor is;
# - catch the reshape that cuts the sentence in pieces, and the mask that falls on the wrong axis.
#
# **About 40 minutes.** It builds on [Attention](02_attention.ipynb): queries, keys, values and the softmax.

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

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from transformer.attention import MultiHeadAttention, attention, fused_attention
from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The question
#
# Three English sentences, one form of the verb. German needs three:
#
# > The dogs **left** the room. Die Hunde **verließen** das Zimmer.
# >
# > The dog **left** the rooms. Der Hund **verließ** die Zimmer.
# >
# > The dogs **left** the milk. Die Hunde **ließen** die Milch **stehen**.
#
# Two things have to be settled. *Who left, one or many?* The subject knows, and it decides the ending: *verließ*, *verließen*. *What was left, a
# place or a thing?* The object knows, and it decides the verb: you *verlassen* a place, but you *lassen* a thing *stehen*.
#
# So the vector of *left* must look at two words, for two different reasons, and keep the two answers apart. Attention as we know it has one query,
# one softmax, one blend. **Is that enough?**

# %% [markdown]
# ## By hand
#
# ### One head must blur
#
# We keep three words of a sentence. Each word's **value** says two things: *am I many?* and *am I a place?*

# %%
dogs_room = torch.tensor([[1.0, 0], [0, 0], [0, 1]])  # dogs, left, room
dog_rooms = torch.tensor([[0.0, 0], [0, 0], [1, 1]])  # dog, left, rooms

# %% [markdown]
# The verb wants *many* from the subject and *place* from the object: $(1, 1)$ in the first sentence, $(0, 1)$ in the second. We are generous and let
# the head have any weights it likes, wherever they may come from. Both words matter, so each gets half:

# %%
half = torch.tensor([0.5, 0, 0.5])
print(half @ dogs_room, half @ dog_rooms)
assert torch.equal(half @ dogs_room, half @ dog_rooms)

# %% [markdown]
# Two sentences, two different verbs in German, and to the English verb they look the same. Somebody is many and something is a place. But **who** is
# many has been lost in the sum.
#
# Perhaps other shares do better. Give the subject $w$ and the object the rest:

# %%
for w in (1.0, 0.75, 0.5, 0.25, 0.0):
    many, place = torch.tensor([w, 0, 1 - w]) @ dogs_room
    print(f"w {w:.2f}   many {many:.2f}   place {place:.2f}")
    assert many + place == 1

# %% [markdown]
# Each answer arrives in proportion to its weight, and the weights sum to one. **A row of weights is a budget.** What one question gets, the other
# lacks, and no training can change that: it is how the softmax is made. In the picture, one head lives in the triangle. What the verb wants is the
# corner outside of it.

# %% tags=["hide-input"]
from transformer.plots import style


def budget():
    with style.in_style():
        figure, axes = style.new_figure(3.4, 3.1)
        axes.fill([0, 1, 0], [0, 0, 1], color=style.PLAIN, alpha=0.3, linewidth=0)
        axes.plot([0, 1], [1, 0], color=style.PLAIN)
        axes.text(0.3, 0.22, "one head", ha="center")
        for x, y, colour, marker, name, to_the in (
            (0.5, 0.5, style.WRONG, "o", "  half and half", "left"),
            (0.94, 0.94, style.OUTPUT, "D", "two heads   ", "right"),
            (1, 1, style.INK, "*", "wanted   ", "right"),
        ):
            axes.plot(x, y, marker, color=colour, markersize=9, clip_on=False)
            height = y - 0.02 if marker == "D" else y + 0.02
            axes.text(x, height, name, ha=to_the, va="center")
        axes.set(xlim=(0, 1.05), ylim=(0, 1.05), aspect="equal")
        axes.set_xlabel("how much of the subject's answer arrives")
        axes.set_ylabel("… of the object's answer")
        axes.set_xticks([0, 0.5, 1])
        axes.set_yticks([0, 0.5, 1])
    return figure


Picture(
    budget(),
    alt=(
        "A square: to the right, how much of the subject's answer arrives; upwards, "
        "how much of the object's. One head can reach the lower left triangle, "
        "below the line from (1, 0) to (0, 1); half and half is the middle of that "
        "line. Wanted is the corner (1, 1). Two heads come close to it, (0.94, 0.94)."
    ),
)

# %% [markdown]
# ### Two heads need not
#
# The way out is a second budget. We let *left* ask **twice**, with two queries and two softmaxes. Then every word needs a vector to make queries,
# keys and values from. Four features will do: `asks`, which only the verb has; `side`, which a word knows by its position, 1 before the verb and −1
# after it; and then `many` and `place`.

# %%
words = ["dogs", "left", "room"]
x = torch.tensor(
    [  # asks, side, many, place
        [0.0, 1, 1, 0],  # dogs
        [4, 0, 0, 0],  # left
        [0, -1, 0, 1],  # room
    ]
)  # (length 3, d_model 4)

# %% [markdown]
# Three matrices make queries, keys and values of it, as before. Only, each is now read in two halves: **the first two columns belong to head 1, the
# last two to head 2.** Head 1 asks *who stands before me?*, head 2 *what stands after me?* Keys and values are the same in both, to keep the example
# small.

# %%
w_query, w_key, w_value = torch.zeros(3, 4, 4)
w_query[0] = torch.tensor([1.0, 0, 0, 1])  # asks: the first key, the second
w_key[1] = torch.tensor([1.0, -1, 1, -1])  # side: before, after
w_value[2] = torch.tensor([1.0, 0, 1, 0])  # many
w_value[3] = torch.tensor([0.0, 1, 0, 1])  # place
(x @ w_query)[1], (x @ w_key)[0]  # the queries of left, the keys of dogs

# %% [markdown]
# For head 1 the query of *left* is $(4, 0)$ and the key of *dogs* is $(1, -1)$: score $4$. *Left* itself has score 0 and *room* −4. A head has $d_k =
# 2$ dimensions, so we divide by $\sqrt 2$ and get 2.83, 0 and −2.83. The exponentials are about 16.9, 1 and 0.06, so *dogs* gets $16.9 / 17.96 =
# 0.94$. Head 2 does the same with the other side.

# %%
heads = []
for head, part in ((1, slice(0, 2)), (2, slice(2, 4))):
    tables = (x @ w for w in (w_query[:, part], w_key[:, part], w_value[:, part]))
    output, weights = attention(*tables)  # (3, 2), (3, 3)
    print(f"head {head}   weights {weights[1]}   output {output[1]}")
    heads.append(output)

# %% [markdown]
# Then **join**: lay the outputs side by side. The row of *left* has four numbers now. The first two say what the subject is, the last two what the
# object is. They were never added up.

# %%
joined = torch.cat(heads, dim=-1)  # (3, 4)
joined[1]  # who: many, place; what: many, place

# %% [markdown]
# And **project**: a fourth matrix, $W^O$, makes a word vector of it again. Ours takes *many* from head 1 and *place* from head 2, which is what the
# verb wanted, and writes each where its feature belongs.

# %%
w_output = torch.zeros(4, 4)
w_output[0, 2] = 1  # many, as head 1 found it
w_output[3, 3] = 1  # place, as head 2 found it
(joined @ w_output)[1]  # asks, side, many, place

# %% [markdown]
# That is the point in the upper corner of the picture. These four steps, split, attend, join, project, are **multi-head attention** (§3.2.2):
#
# $$ \mathrm{head}_i = \mathrm{Attention}(X W^Q_i,\; X W^K_i,\; X W^V_i) $$
#
# $$ \mathrm{MultiHead}(X) = [\,\mathrm{head}_1, \dots, \mathrm{head}_h\,]\, W^O $$

# %% [markdown]
# ## The picture
#
# Here is all of it, number by number. Each head has its own queries, keys and values, its own weights, its own output. Nothing crosses from one to
# the other until the very last step, where $W^O$ mixes what they found.

# %% tags=["hide-input"]
from transformer.plots.multi_head_attention import multi_head_attention


def two(table):
    return table.unflatten(-1, (2, 2)).transpose(0, 1)  # (heads, length, d_k)


Picture(
    multi_head_attention(
        words, two(x @ w_query), two(x @ w_key), two(x @ w_value), w_output
    ),
    alt=(
        "Two columns, one for each head. On top queries, keys and values of dogs, "
        "left and room, two numbers each. Below, the weights: in the row of left, "
        "head 1 has 0.94 at dogs and head 2 has 0.94 at room. Beside them the "
        "outputs. At the bottom both outputs are joined into four columns, and "
        "W_O makes of the row of left the numbers 0, 0, 0.94, 0.94."
    ),
)

# %% [markdown]
# *Dogs* and *room* ask nothing here, so all their weights are alike and they bring back the mean.

# %% [markdown]
# ## The code
#
# **First as a loop over heads.** The four matrices have the size that one large head would need, $d_\text{model} \times d_\text{model}$; each head
# uses its own columns. The second argument says who is asked. So far it is the sentence itself.


# %%
def heads_by_loop(x, memory, n_heads, w_query, w_key, w_value, w_output):
    d_head = x.size(-1) // n_heads
    outputs = []
    for head in range(n_heads):
        mine = slice(head * d_head, (head + 1) * d_head)  # the head's columns
        query = x @ w_query[:, mine]  # (n_query, d_head)
        key, value = memory @ w_key[:, mine], memory @ w_value[:, mine]
        scores = query @ key.T / math.sqrt(d_head)
        outputs.append(scores.softmax(dim=-1) @ value)
    return torch.cat(outputs, dim=-1) @ w_output  # (n_query, d_model)


matrices = (w_query, w_key, w_value, w_output)
assert_close(heads_by_loop(x, x, 2, *matrices), joined @ w_output)

# %% [markdown]
# Do two heads tell the sentences apart that one head confused? In the other sentence it is the rooms that are many:

# %%
other = x.clone()
other[:, 2] = torch.tensor([0.0, 0, 1])  # dog, left, rooms: many
for sentence in (x, other):
    print(heads_by_loop(sentence, sentence, 2, *matrices)[1])

# %% [markdown]
# *Many* is 0.94 for *the dogs left the room* and nearly 0 for *the dog left the rooms*: **verließen**, **verließ**.

# %% [markdown]
# **Then without the loop.** One matrix product makes the queries of all heads at once; they lie side by side in each word's row. Attention works on
# the last two dimensions and takes any number in front. So the heads must move to the front. To see every number move, we write into each the word it
# belongs to and the feature it is:

# %%
table = torch.tensor([[10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]])
cut = table.unflatten(-1, (2, 2))  # (length 3, heads 2, d_head 2)
cut.transpose(0, 1)  # (heads 2, length 3, d_head 2)

# %% [markdown]
# Head 1 has all three words, with features 0 and 1. Head 2 has all three words, with features 2 and 3. **Two steps**: `unflatten` cuts the last
# dimension in two, which moves nothing, and `transpose` brings the heads to the front. To join, do the same backwards.


# %%
def split(x, n_heads):
    """(batch, length, d_model) → (batch, heads, length, d_head)"""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def join(heads):
    """(batch, heads, length, d_head) → (batch, length, d_model)"""
    return heads.transpose(1, 2).flatten(2)


def heads_at_once(x, memory, n_heads, w_query, w_key, w_value, w_output):
    query, key = split(x @ w_query, n_heads), split(memory @ w_key, n_heads)
    value = split(memory @ w_value, n_heads)
    return join(attention(query, key, value)[0]) @ w_output


# %% [markdown]
# Loop and reshape must agree for any number of heads, on random numbers with different sizes everywhere:

# %%
torch.manual_seed(0)
asks, asked = torch.randn(5, 12), torch.randn(7, 12)
random = torch.randn(4, 12, 12) / math.sqrt(12)
for n_heads in (1, 2, 3, 4, 6, 12):
    by_loop = heads_by_loop(asks, asked, n_heads, *random)
    (at_once,) = heads_at_once(asks[None], asked[None], n_heads, *random)
    assert_close(at_once, by_loop)
    print(f"{n_heads:2} heads of {12 // n_heads:2}   loop = reshape")

# %% [markdown]
# ### Joining is adding
#
# "Join, then multiply by $W^O$" sounds as if the heads were stacked up. Look at the product once more: a joined row is cut in $h$ pieces, each piece
# meets its own *rows* of $W^O$, and the results are added. So a layer is a **sum of heads**, each of which reads the sentence and writes its own
# answer:
#
# $$ [\,\mathrm{head}_1, \dots, \mathrm{head}_h\,]\, W^O = \mathrm{head}_1 W^O_1 + \dots + \mathrm{head}_h W^O_h $$

# %%
query, key, value = (split(asked[None] @ w, 3) for w in random[:3])
outputs = attention(query, key, value)[0][0]  # (heads 3, length 7, d_head 4)
pieces = random[3].split(4)  # three times (4, 12): each head's rows
answers = [output @ piece for output, piece in zip(outputs, pieces, strict=True)]
assert_close(sum(answers), join(outputs[None])[0] @ random[3])
print("the sum of three answers = joined, then projected")

# %% [markdown]
# This tells you two things that the word *concatenate* hides. The heads of a layer never hear of each other. And to take a head out, leave out one
# term; we shall do so below.

# %% [markdown]
# ## The package
#
# The same four steps, from their file. $W^Q$, $W^K$ and $W^V$ lie one behind the other in a single layer, `query_key_value`, so that self-attention
# needs one matrix product for all three; `output` is $W^O$. (`rotation` and `position` belong to positions and to decoding; both are off here.)

# %%
methods = ("attend", "split_heads", "join_heads", "project")
SourceCode(*(getattr(MultiHeadAttention, name) for name in methods))

# %% [markdown]
# PyTorch keeps its matrices transposed, and each layer has a bias, which we set to zero. Otherwise the numbers from above go straight in:

# %%
layer = MultiHeadAttention(d_model=4, n_heads=2).requires_grad_(False)
layer.query_key_value.weight[:] = torch.cat([w_query, w_key, w_value], dim=1).T
layer.output.weight[:] = w_output.T
layer.query_key_value.bias[:] = layer.output.bias[:] = 0
assert_close(layer(x[None])[0], joined @ w_output)
layer(x[None])[0, 1]  # left: asks, side, many, place

# %% [markdown]
# And against PyTorch's own module, with all weights copied over, biases too. It wants to be told keys and values separately:

# %%
torch.manual_seed(0)
ours, theirs = (
    MultiHeadAttention(12, 3),
    nn.MultiheadAttention(12, 3, batch_first=True),
)
nn.init.normal_(ours.query_key_value.bias)
theirs.in_proj_weight.data.copy_(ours.query_key_value.weight)
theirs.in_proj_bias.data.copy_(ours.query_key_value.bias)
theirs.out_proj.load_state_dict(ours.output.state_dict())
source, target = torch.randn(2, 7, 12), torch.randn(2, 5, 12)
assert_close(ours(target, source), theirs(target, source, source)[0])
assert_close(ours(target), theirs(target, target, target)[0])
print("loop = reshape = package = PyTorch")

# %% [markdown]
# ## What it costs
#
# Eight heads must be eight times the work, one would think. But each is only an eighth as wide. Count the multiplications for $n$ words and $d =
# d_\text{model}$:
#
# - the four matrices: $4 \cdot n \cdot d^2$, however their columns are dealt out;
# - the scores: $h$ heads, $n^2$ pairs, $d / h$ products for each. The $h$ cancels: $n^2 d$;
# - the blends: the same again, $n^2 d$.
#
# We don't trust a formula that we can run. PyTorch can count the operations that it really does, two for each multiplication (one is the addition),
# so we count the package's own module, at the width of the base model:

# %%
from torch.utils.flop_counter import FlopCounterMode

n, d = 32, 512
for h in (1, 2, 4, 8, 16):
    layer = MultiHeadAttention(d, h, form="explicit").requires_grad_(False)
    with FlopCounterMode(display=False) as counter:
        layer(torch.zeros(1, n, d))
    products = counter.get_total_flops() // 2
    parameters = sum(p.numel() for p in layer.parameters())
    print(
        f"h {h:2}  d_k {d // h:3}  {parameters:,} parameters  {products:,} products"
    )
    assert products == 4 * n * d**2 + 2 * n**2 * d
    assert parameters == 4 * d**2 + 4 * d

# %% [markdown]
# Not one multiplication more. It is not *all* free, though. Each head has its own $n^2$ weights, so the exponentials of the softmax do grow with $h$;
# they are few beside the products as long as $d_k$ is much larger than 1. And a narrow head pays in another coin. Its scores come from $x\, W^Q_i
# {W^K_i}^{\!\top} x^\top$, and the matrix in the middle, however large, has rank $d_k$ at most: a head of 64 dimensions compares words along 64
# directions and is blind to all others.

# %%
torch.manual_seed(0)
for h in (1, 2, 4, 8, 16):
    query_rows, key_rows = torch.randn(2, 64, 64).double()
    d_k = 64 // h  # the first head's rows
    rank = torch.linalg.matrix_rank(query_rows[:d_k].T @ key_rows[:d_k])
    print(f"h {h:2}   the matrix is 64 × 64, its rank {rank}")
    assert rank == d_k

# %% [markdown]
# So $h$ trades **how many** questions a layer asks against **how fine** each can be. The paper tried it at equal cost (§6.2, Table 3, rows A): a
# single head does clearly worse than 8 or 16, and 32 lose some of it again. The page of [results](../book/results.md) has the same experiment with our small
# translator, several seeds each.

# %% [markdown]
# ## Self-attention and cross-attention
#
# `forward` takes `x` and, if you give it one, a `memory`. Its last line attends, joins and projects; the lines before it decide who asks whom.
# (`cache` belongs to decoding.)

# %%
SourceCode(MultiHeadAttention.forward)

# %% [markdown]
# **`x` asks, `memory` is asked.** Queries are made from the one, keys and values from the other. Without a memory a sentence asks itself. It is the
# same module, with the same weights, doing the same thing:

# %%
assert_close(ours(source), ours(source, memory=source))
assert ours(target, source).shape == target.shape
print(tuple(target.shape), "asks", tuple(source.shape), "→", tuple(target.shape))

# %% [markdown]
# There are as many answers as questions; how many were asked does not show. In cross-attention every word asks for itself alone, so a change of one
# of the askers moves one output. A change of one of the asked moves all, and in self-attention a word is both.


# %%
def who_moves(before, after):
    return ((after - before).abs().amax(dim=-1) > 1e-6)[0].int().tolist()


nudge = torch.zeros(2, 7, 12)
nudge[:, 2] = 1  # word 2 changes
with torch.no_grad():
    before = ours(target, source)
    asker = who_moves(before, ours(target + nudge[:, :5], source))
    asked = who_moves(before, ours(target, source + nudge))
    both = who_moves(ours(target), ours(target + nudge[:, :5]))
print("an asker", asker, "  one who is asked", asked, "  both", both)
assert (asker, asked, both) == ([0, 0, 1, 0, 0], [1] * 5, [1] * 5)

# %% [markdown]
# The Transformer uses the module in three places (§3.2.3):
#
# | where | who asks | who is asked | weights of a head |
# |---|---|---|---|
# | encoder, self-attention | source | source | source × source |
# | decoder, self-attention | target | target | target × target, none of the future |
# | decoder, cross-attention | target | source, as the encoder left it | target × source |
#
# A small model, four source words and six target words, tells us itself:

# %%
from transformer.config import ModelConfig
from transformer.inspection import record_attention
from transformer.model import Transformer

torch.manual_seed(0)
small = ModelConfig(vocab_size=20, d_model=12, n_heads=3, d_ff=24, n_layers=1)
model = Transformer(small).eval()
ids = torch.randint(1, 20, (2, 6))
with record_attention(model) as recorded, torch.no_grad():
    model(ids[:, :4], ids)  # source of 4, target of 6
for (name, weights), pair in zip(recorded.items(), ("44", "66", "64"), strict=True):
    print(f"{name:25} {tuple(weights.shape)}   (batch, heads, asks, asked)")
    assert weights.shape == (2, 3, *map(int, pair))

# %% [markdown]
# ## Every size in one table
#
# When two sizes happen to be equal, a mix-up goes unnoticed. So here is one pass through the layer with all sizes different. The table is not typed
# in: each row holds a real tensor, and its shape is compared with the names beside it. The last column says what the same names come to in the base
# model, for one source of 30 words and a target of 25.

# %%
names = "batch query key d_model heads d_head".split()
here = dict(zip(names, (2, 5, 7, 12, 3, 4), strict=True))
base = dict(zip(names, (1, 25, 30, 512, 8, 64), strict=True))
for sizes in (here, base):
    sizes["3·d_model"] = 3 * sizes["d_model"]
    assert sizes["heads"] * sizes["d_head"] == sizes["d_model"]
with torch.no_grad():
    query, (key, value) = ours.project_query(target), ours.project_memory(source)
    outputs, weights = attention(query, key, value)
    joined = ours.join_heads(outputs)

# %%
table = {
    "x": (target, "batch query d_model"),
    "memory": (source, "batch key d_model"),
    "W_Q, W_K, W_V": (ours.query_key_value.weight, "3·d_model d_model"),
    "queries": (query, "batch heads query d_head"),
    "keys": (key, "batch heads key d_head"),
    "values": (value, "batch heads key d_head"),
    "scores, weights": (weights, "batch heads query key"),
    "outputs": (outputs, "batch heads query d_head"),
    "joined": (joined, "batch query d_model"),
    "W_O": (ours.output.weight, "d_model d_model"),
    "result": (ours.output(joined), "batch query d_model"),
}

# %%
for name, (tensor, shape) in table.items():
    assert tensor.shape == tuple(here[size] for size in shape.split()), name
    in_base = " × ".join(str(base[size]) for size in shape.split())
    print(f"{name:15}  {shape:24}  {in_base}")

# %% [markdown]
# ## Heads at work
#
# Do heads divide the work when nobody tells them to? We need a task with two reasons to look, and nothing else. A row of eight digits goes in. Each
# place has to name **two** digits: the one at its *mirror* place, counted from the other end, and the one *two places before* it, where the row is
# closed to a ring. These are never the same place, so no single look answers both.


# %%
def draw_rows(rows):
    digits = torch.randint(10, (rows, 8))
    return digits, torch.stack([digits.flip(1), digits.roll(2, dims=1)], dim=-1)


place = torch.arange(8)
mirror, before = place.flip(0), place.roll(2)
assert (mirror != before).all()
digits, answers = draw_rows(1)
print(digits[0].tolist(), "→", answers[0].tolist())

# %% [markdown]
# The model is as plain as can be: digit plus position, one attention, one linear layer that reads both answers off it. There is no way around the
# attention.

# %%
from transformer.positions import sinusoidal_encoding


class TwoQuestions(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.embed = nn.Embedding(10, 32)
        self.attend = MultiHeadAttention(32, n_heads)
        self.answer = nn.Linear(32, 20)

    def vectors(self, digits):
        return self.embed(digits) + sinusoidal_encoding(8, 32)  # (rows, 8, 32)

    def forward(self, digits):
        both = self.answer(self.attend(self.vectors(digits)))
        return both.unflatten(-1, (2, 10))  # (rows, 8, question, digit)


# %%
def train(n_heads, steps=400):
    torch.manual_seed(0)
    model, losses = TwoQuestions(n_heads), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        digits, answers = draw_rows(32)
        loss = F.cross_entropy(model(digits).flatten(0, 2), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model.requires_grad_(False), losses


# %% [markdown]
# We train it with one, two and four heads. **All three have the same number of parameters**; what differs is only how the 32 dimensions are dealt
# out. Afterwards, the share of right answers to each question, on fresh rows. Guessing would be right one time in ten.

# %%
trained, curves_of = {}, {}
torch.manual_seed(1)
test_digits, test_answers = draw_rows(500)


def score(model):
    right = model(test_digits).argmax(dim=-1) == test_answers
    return right.float().mean(dim=(0, 1))  # mirror, two before


for h in (1, 2, 4):
    trained[h], losses = train(h)
    curves_of[f"{h} head{'s' * (h > 1)}"] = losses
    mirrored, two_before = score(trained[h]).tolist()
    print(f"heads {h}   mirror {mirrored:4.0%}   two before {two_before:4.0%}")

# %% tags=["hide-input"]
from transformer.plots.curves import curves

one_guessed = ("one answered, one guessed", math.log(10) / 2)
Picture(
    curves(range(400), curves_of, "step", "Loss an answer", reference=one_guessed),
    alt=(
        "Three loss curves over 400 steps. All fall to the level where one "
        "question is answered and the other guessed. The one with a single head "
        "stays a little below it; those with two and four heads rest there for a "
        "while and then fall to zero."
    ),
)

# %% [markdown]
# The dotted level is half of $\ln 10$: one question answered, the other guessed. The single head ends a little below it, for it has one budget and
# divides it: more for one question, too little for the other. Two heads rest there for a moment, until the second head finds the second question. Then the loss falls to zero.

# %%
parameters = {
    sum(p.numel() for p in model.parameters()) for model in trained.values()
}
assert len(parameters) == 1, "the same number of parameters"
assert score(trained[1]).sum() < 1.4, "one head: one question and a guess"
assert score(trained[2]).min() > 0.95 and score(trained[4]).min() > 0.95

# %% [markdown]
# And this is where they look, on average over the test rows. **Mirror** is the diagonal that rises to the right, **two before** the band below the
# other one (its first two rows reach around the ring).


# %%
def look(model):
    query, (key, value) = model.attend.project(model.vectors(test_digits))
    return attention(query, key, value)[1].mean(dim=0)  # (heads, 8, 8)


alone, pair, four = (look(trained[h]) for h in (1, 2, 4))
share = {"mirror": pair[:, place, mirror], "two before": pair[:, place, before]}
for question, weights in share.items():
    head = int(weights.mean(dim=1).argmax())
    print(f"{question:10} head {head + 1}, mean weight {weights[head].mean():.2f}")
mirror_head, before_head = (int(w.mean(dim=1).argmax()) for w in share.values())
assert mirror_head != before_head

# %% tags=["hide-input"]
from transformer.plots.heat_map import heat_map

places = [str(n) for n in range(8)]
Row(
    Picture(
        heat_map(alone[0], places, places, title="the only head", annotate=False),
        alt="The single head's weights: in most rows a smear over two places.",
    ),
    Picture(
        heat_map(
            pair[mirror_head],
            places,
            places,
            title=f"two heads: head {mirror_head + 1}",
            annotate=False,
        ),
        alt="A bright rising diagonal: each place looks at its mirror place.",
    ),
    Picture(
        heat_map(
            pair[before_head],
            places,
            places,
            title=f"two heads: head {before_head + 1}",
            annotate=False,
        ),
        alt="A bright band two below the falling diagonal: two places before.",
    ),
)

# %% [markdown]
# Nobody dealt out the questions. Two heads that ask the same are worse than two that do not, and the gradient finds that out.
#
# **Now leaf through the four heads**, and point at a cell (or tap it) to read it. Two have a question of their own, two divide themselves between both.
# Then put the slider to 0, the mean of all. That is what PyTorch's module hands out unless you ask for more (`average_attn_weights=False`), and it
# looks much like the picture of the single head that failed. **Never judge heads by their mean.**

# %% tags=["hide-input"]
from transformer.plots.head_explorer import head_explorer

head_explorer(
    four,
    places,
    places,
    description=(
        "A grid of attention weights, eight places by eight. A slider leafs "
        "through four heads; at 0 it shows their mean. One head has a bright rising "
        "diagonal, one a bright band two below the falling one, two "
        "smear over both places, and the mean is a blur. A line below reads the cell that is "
        "pointed at, such as: head 1: 2 attends to 5 with weight 0.82."
    ),
)

# %% [markdown]
# What a picture suggests, an experiment has to show. Joining is adding, so we take heads out of the sum, by setting their rows of $W^O$ to zero (in
# PyTorch's transposed matrix, columns), and ask for the answers again:


# %%
def score_without(model, *heads):
    weight = model.attend.output.weight  # (32, 32)
    kept = weight.clone()
    for head in heads:
        weight[:, head * 8 : (head + 1) * 8] = 0
    scores = score(model)
    weight[:] = kept
    return scores  # mirror, two before


# %%
def report(what, *heads):
    mirrored, two_before = score_without(trained[4], *heads).tolist()
    print(f"{what:16}  {mirrored:6.0%}  {two_before:10.0%}")


print(f"{'':16}  mirror  two before")
for head in range(4):
    report(f"without head {head + 1}", head)

# %% [markdown]
# Take out a head with a question of its own, and that question suffers while the other notices nothing. But it does not fall to one in ten. Take out
# one of the others, and hardly anything happens at all. So are those good for nothing, and who still answers? Take out both of them, and then a
# specialist as well:

# %%
specialists = [
    int(four[:, place, where].mean(dim=1).argmax()) for where in (mirror, before)
]
others = [head for head in range(4) if head not in specialists]
print(f"{'':16}  mirror  two before")
report("without the two", *others)
report("nor mirror's", specialists[0], *others)
report("nor two before's", specialists[1], *others)

# %% [markdown]
# Now a lost specialist means guessing. The two others were **understudies**: not needed while the specialist is there, and half able to stand in for
# it. Whoever takes out one head at a time sees neither. A head that is not missed has not been shown to do nothing.

# %%
for question, head in enumerate(specialists):
    scores = score_without(trained[4], head)
    assert scores[question] < scores[1 - question], "its own question suffers"
    scores = score_without(trained[4], head, *others)
    assert scores[question] < 0.3 and scores[1 - question] > 0.7

# %% [markdown]
# ## What goes wrong in practice
#
# Five faults. Four of them raise no error.
#
# **1. A reshape that cuts the sentence.** The target shape is (batch, heads, length, d_head). Why not ask for it directly? `reshape` will oblige. It
# keeps all numbers in reading order, so the first head gets the first *half of the sentence*, and a word's own features become neighbours in it:

# %%
table = torch.tensor([[10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]])
table.reshape(2, 3, 2)  # (heads, length, d_head), or so it says

# %% [markdown]
# Head 1 holds word 1 as two "words", and half of word 2. Shapes fit, weights sum to one, a loss falls. But the words of different parts can no longer
# see each other. You will not find that by looking at shapes; you find it by asking **who moves**. Change one place, and see which outputs notice:


# %%
def cut_wrongly(layer, x):
    def wrong(t):
        return t.reshape(len(x), layer.n_heads, x.size(1), -1)

    query, key, value = map(wrong, layer.query_key_value(x).chunk(3, dim=-1))
    return layer.output(fused_attention(query, key, value).reshape(x.shape))


def noticed_by(layer, x):
    """[i, t] is True if output i notices a change of place t."""
    rows = x.repeat(9, 1, 1)  # the last row stays as it is
    rows[place, place] += 1
    with torch.no_grad():
        out = layer(rows)  # (9, 8, d_model)
    return ((out[:8] - out[8]).abs().amax(dim=-1) > 1e-6).T


# %%
fresh, row = MultiHeadAttention(32, n_heads=4), torch.randn(1, 8, 32)
right = noticed_by(fresh, row)
wrong = noticed_by(lambda x: cut_wrongly(fresh, x), row)
assert right.all()
assert torch.equal(wrong, torch.block_diag(*[torch.ones(2, 2)] * 4).bool())
print(f"right: {int(right.sum())} of 64 pairs, wrong: {int(wrong.sum())}")

# %% tags=["hide-input"]
from transformer.plots.masks import mask_grid

Row(
    Picture(
        mask_grid(right, places, places, "with transpose", labels=("output", "")),
        alt="With transpose: all 64 cells are filled, every output notices all.",
    ),
    Picture(
        mask_grid(wrong, places, places, "reshape only", wrong=~wrong),
        alt=(
            "With reshape alone: only four blocks of two by two on the diagonal are "
            "filled, all other cells are marked as wrong."
        ),
    ),
)

# %% [markdown]
# Four heads, so four islands of two words each. On a longer sentence the islands are longer, and a model that translates mostly by looking nearby
# may seem to work.
#
# **2. Heads that do not divide the width.** Ten dimensions, four heads: `10 // 4` is 2, and two dimensions belong to nobody. The package refuses when
# it is built, not an hour later:

# %%
try:
    MultiHeadAttention(d_model=10, n_heads=4)
except ValueError as error:
    print(error)

# %% [markdown]
# **3. The root of the wrong $d$.** Scores have to be divided by $\sqrt{d_k}$, the width of a *head*. With $\sqrt{d_\text{model}}$ they are too small
# by $\sqrt h$, and every head starts out more blurred than it should be. As in the last chapter, the spread of random scores gives it away; it should
# be 1.

# %%
torch.manual_seed(0)
query, key = torch.randn(2, 8, 200, 64)  # 8 heads, d_k 64, d_model 512
scores = query @ key.transpose(-2, -1)
by_head, by_model = scores / math.sqrt(64), scores / math.sqrt(512)
print(f"√d_k: {by_head.std():.2f}   √d_model: {by_model.std():.2f}")
assert_close(by_head.std() / by_model.std(), torch.tensor(math.sqrt(8)))
assert abs(by_head.std() - 1) < 0.05

# %% [markdown]
# **4. No $W^O$.** Joined has the right shape already, so nothing complains. But then head 1 can write only into the first features of the word, head
# 2 only into the next, and what follows (the word's old vector is added, as you will see in [Encoder and decoder layers](06_layers.ipynb)) does not mix either. Let one head say something else, and count the features that
# change:

# %%
torch.manual_seed(0)
outputs = torch.randn(1, 3, 5, 4)  # (batch, heads, length, d_head)
other = outputs.clone()
other[:, 0] += 1  # head 1 says something else
with torch.no_grad():
    for name, last in (("without", nn.Identity()), ("with", ours.output)):
        change = last(join(other)) - last(join(outputs))
        changed = int((change.abs().amax(dim=(0, 1)) > 1e-6).sum())
        print(f"{name:7} W_O   {changed:2} of 12 features change")
        assert changed == (12 if name == "with" else 4)

# %% [markdown]
# In our game with the digits you would not have noticed: a linear layer followed at once, and two matrices in a row are one. Count the parameters of
# a layer. Three matrices where there should be four are easy to see.
#
# **5. A mask on the wrong axis.** A mask says who may be looked at; True means *may*. It is stretched to (batch, heads, query, key) from the right. A
# mask for each **sentence** therefore needs a 1 where the heads are. Forget it, and PyTorch takes your sentences for heads. We print, for each
# sentence, the largest weight that each of two heads puts on its last word:

# %%
real = torch.tensor([[True, True, False], [True, True, True]])  # (batch 2, key 3)
tables = torch.randn(3, 2, 2, 3, 4)  # three times (batch 2, heads 2, length 3, 4)
for name, mask in (
    ("(2, 1, 3)   ", real[:, None, :]),
    ("(2, 1, 1, 3)", real[:, None, None, :]),
):
    _, weights = attention(*tables, mask)
    first, second = weights[..., 2].amax(dim=-1)  # (heads,) each
    print(f"mask {name}  sentence 1 {first}  sentence 2 {second}")

# %% [markdown]
# The last word of sentence 1 is padding, that of sentence 2 is real. The first mask hides the last word from head 1 of *both* sentences and from head
# 2 of neither. It raised no error, because there were as many sentences as heads. With any other batch it does:

# %%
three = torch.randn(3, 3, 2, 3, 4)  # a batch of 3, still 2 heads
try:
    attention(*three, real[[0, 1, 1], None, :])
except RuntimeError as error:
    print(error)

# %% [markdown]
# So never test with a batch as large as the number of heads, and take masks from `padding_mask`, which makes four dimensions. The [next
# chapter](04_masking.ipynb) is about them.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You go from 8 heads to 16 and leave $d_\text{model}$ at 512. What happens to the layer's parameters?**
#
# <details><summary>A. They double</summary>
#
# No. There are twice as many heads, but each has half as many columns of each matrix.
#
# </details>
# <details><summary>B. They stay the same</summary>
#
# **Right.** The matrices are 512 × 512 either way; only the dealing out of their columns changes.
#
# </details>
# <details><summary>C. They halve</summary>
#
# No. Each head becomes half as large, but there are twice as many of them.
#
# </details>
# <details><summary>D. Only W_O grows, since it has more heads to join</summary>
#
# No. Joined, the heads are as wide as before: 16 · 32 = 8 · 64 = 512.
#
# </details>
#
# **2. A German sentence of 6 tokens asks an English one of 9, with 8 heads, in a batch of 4. What is the shape of the weights?**
#
# <details><summary>A. (4, 6, 9)</summary>
#
# No. This would be one map for a sentence; each of the eight heads has its own.
#
# </details>
# <details><summary>B. (4, 8, 9, 6)</summary>
#
# No. Rows are those who ask, and here German asks.
#
# </details>
# <details><summary>C. (4, 8, 6, 9)</summary>
#
# **Right.** Batch, heads, who asks, who is asked; each row of 9 sums to one.
#
# </details>
# <details><summary>D. (4, 8, 6, 64)</summary>
#
# No. This is the shape of the heads' outputs in the base model, one vector of 64 for each German token.
#
# </details>
#
# **3. Two heads of a trained layer have exactly the same weights on every sentence. Can one be removed without loss?**
#
# <details><summary>A. Yes, at once: they do the same</summary>
#
# No. They look at the same words, but may bring back different things: each has its own values.
#
# </details>
# <details><summary>B. No: their values and rows of W_O may differ</summary>
#
# **Right.** A weight says where a head looks. What it carries off and where it writes it, $W^V$ and $W^O$ decide. Take the head out and measure.
#
# </details>
# <details><summary>C. Yes, if its weights are added to the other's</summary>
#
# No. Then the other's row would sum to two, and it would still bring back only its own values.
#
# </details>
# <details><summary>D. No: PyTorch cannot remove a head</summary>
#
# No. It can be done in one line, as above: zeros in its part of $W^O$.
#
# </details>
#
# **4. A clever friend says: one head *can* tell our two sentences apart. Give the subject 2/3 and the object 1/3. Is that right?**
#
# <details><summary>Answer</summary>
#
# Yes. *Many* then comes out as 0, 1/3, 2/3 or 1, and each of the four says who was many. But it takes a later layer to untangle it, it works for
# yes-or-no features and exact weights only, and the next layer's job has been made harder by as much. The budget has not grown: the answers still
# arrive with 2/3 and 1/3 of their strength, mixed with what nobody asked for.
# The smear of the game's single head over both places, and its loss a little below the dotted level, suggest that it found something of the kind.
#
# </details>
#
# **5. Why is $W^O$ not simply merged into $W^V$? Both are linear.**
#
# <details><summary>Answer</summary>
#
# Head by head it can be done: $W^V_i W^O_i$ is one matrix, $d_\text{model} \times d_\text{model}$ and of rank $d_k$. Written as two, it has $2\,
# d_\text{model}\, d_k$ numbers in place of $d_\text{model}^2$, and the blend is done on short vectors. The same holds for $W^Q_i$ and $W^K_i$. Two
# thin matrices are the cheap way to write one wide matrix of low rank.
#
# </details>
#
# **6. With $d_k = 1$, $h = d_\text{model}$: what is left of a head?**
#
# <details><summary>Answer</summary>
#
# A query and a key are one number each, so all words stand on a line. If the query is positive the head looks at one end of the line, if it is
# negative at the other. It cannot ask for anything in the middle.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Five blanks: three projections by one product, a whole layer of cross-attention, what each head says, what heads cost, and heads that share their keys.
# Each has a check that says what is wrong, and a hint.
#
# - In Colab:
#   [03_multi_head_attention](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/03_multi_head_attention.ipynb).
#   On GitHub: [03_multi_head_attention.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/03_multi_head_attention.ipynb).
# - On your machine, open `exercises/03_multi_head_attention.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade multi_head_attention
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# Splitting into heads and joining them are blanks of the
# [notebook on attention](https://github.com/transformer-course/transformer-course/blob/main/exercises/02_attention.ipynb). If you left them open
# there, now is the time.
#
# And four experiments with the game on this page, a line or two each:
#
# 1. Train with 8, 16 and 32 heads. At 32 a head has one dimension. Does it still work, and what do the heads look like?
# 2. Add a third question, three places before. How many heads does it take? Can two do it?
# 3. Train a single head for 4,000 steps. How far below the dotted level does it come, and what has it found? (See question 4.)
# 4. Leave the positions out. Which loss do you expect before you run it?

# %% [markdown]
# ## Going further
#
# - **In the paper:** heads are §3.2.2, their three places §3.2.3, their number §6.2 and Table 3, rows A, of {cite}`vaswani2017`.
# - **What heads of translators do:** {cite}`voita2019` find some that look at neighbours, some that follow grammar, some that pick out rare words, and many that can be removed.
# - **How many are needed once training is over:** {cite}`michel2019` take heads out, as we did, and many are not missed; cross-attention misses them most.
# - **The price of narrow heads:** {cite}`bhojanapalli2020` show what the rank of the score matrix keeps a head from doing.
# - **A layer as a sum of heads**, and how heads of different layers work together: {cite}`elhage2021`.
# - **Fewer keys than queries:** {cite}`shazeer2019` lets all heads share one set of keys and values, which makes writing a translation word by word much faster.
