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
# # Encoder and decoder layers
#
# **You will be able to**
#
# - build the feed-forward, the residual connection and the layer norm in a line or two each, and prove them equal to the package's and to PyTorch's;
# - say where two thirds of an encoder layer's parameters are, and how many of its units are silent at any moment;
# - say what a layer norm keeps, what it throws away, and over which axis it runs;
# - put the norm on either side of the addition, and say what that does to the gradient and to the need for a warm-up;
# - examine a model that does not learn, and find out when it died and of what.
#
# **About 50 minutes.** It builds on [Attention](02_attention.ipynb), [Multi-head attention](03_multi_head_attention.ipynb), [Masking](04_masking.ipynb) and
# [Positional encoding](05_positional_encoding.ipynb).

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

from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The question
#
# Attention carries vectors from place to place and blends them. What happens if we do that again and again? We stack a few attentions, with random
# weights and nothing else, and ask how much of the vectors is still each place's own: 1 if the places have nothing in common, 0 if all hold the same vector.


# %%
def apart(x):
    """(batch, length, d_model) → the share of the mean square not common to all."""
    common = x.mean(dim=(0, 1))
    return ((x - common).square().mean() / x.square().mean()).item()


def xavier(module):
    """The package's start: Xavier's uniform, zero biases."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)
    return module


# %%
from transformer.attention import MultiHeadAttention

torch.manual_seed(0)
x = torch.randn(1, 8, 32)  # eight places
shares = []
for layer in range(4):
    shares.append(apart(x))
    print(f"after {layer} attentions: {shares[-1]:.0e}")
    x = xavier(MultiHeadAttention(32, n_heads=4))(x)
assert shares[0] > 0.8 and shares[2] < 1e-3

# %% [markdown]
# After two of them the eight places hold, to all intents and purposes, the same vector. A blend of blends is grey. {cite}`dong2021` prove that a stack of attentions alone has to end so,
# ever faster with every layer.
#
# So attention cannot be all you need. The paper's layer has three things more (§3.1, §3.3): a **feed-forward** network, which works on a vector once it has arrived; a
# **residual connection**, which keeps what was there; and a **layer norm**, which keeps numbers at a size. Each is a line of code. But they
# can be put together in two orders, and one of the two may never learn anything. **What does each part do, and why does their order decide
# whether a deep stack learns?**

# %% [markdown]
# ## By hand
#
# ### A small network at every place
#
# The **feed-forward** takes a vector, makes it wider, cuts off what is negative (that is all a **ReLU** does), and makes it narrow again (§3.3, equation 2):
#
# $$ \mathrm{FFN}(x) = \max(0,\; x W_1 + b_1)\, W_2 + b_2 $$
#
# We take vectors of two numbers and an inner width of three. For $x = (1, 2)$ the inner values are $1 \cdot 1 + 2 \cdot 1 = 3$, then
# $-1 \cdot 1 + 0 \cdot 2 = -1$, and $1 - 2 + 1 = 0$ with the bias. The ReLU leaves $(3, 0, 0)$. So only the first row of $W_2$ counts, three times: $(3, 0)$.

# %%
w1 = torch.tensor([[1.0, -1, 1], [1, 0, -1]])  # (2, 3)
b1 = torch.tensor([0.0, 0, 1])  # (3,)
w2 = torch.tensor([[1.0, 0], [0, 1], [1, 1]])  # (3, 2)
x = torch.tensor([[1.0, 2], [3, -1]])  # two places
inner = x @ w1 + b1  # (2, 3)
print("inner  ", inner)
print("ReLU   ", inner.relu())
print("output ", inner.relu() @ w2)

# %% [markdown]
# The two places do not know of each other. Each row went its own way through the same matrices.
#
# ### A residual
#
# The **residual connection** {cite}`he2016` adds what went in to what came out: not $f(x)$, but $x + f(x)$. Whatever $f$ does, $x$ is still in there. And if $x$ moves by a little,
# $x + f(x)$ moves by $1 + f'(x)$ times as much, where the 1 is the point. Take a layer that passes on a tenth, $f'(x) = 0.1$, and twelve of them:

# %%
print(f"without: 0.1 to the twelfth = {0.1**12:.0e}")
print(f"with:    1.1 to the twelfth = {1.1**12:.1f}")

# %% [markdown]
# ### A layer norm
#
# Something that is added to twelve times grows. The **layer norm** {cite}`ba2016` brings each vector back to a standard: mean 0, variance 1. By hand, for $x = (0, 6, 6, 8)$:
#
# - the **mean** is $20 / 4 = 5$, and the **deviations** from it are $(-5, 1, 1, 3)$;
# - the **variance** is their mean square, $(25 + 1 + 1 + 9) / 4 = 9$. It is divided by 4, not by 3: there is no wider population to guess at; these four numbers are all there is;
# - divide by the root: $(-5, 1, 1, 3) / 3$.
#
# A tiny $\varepsilon$ under the root keeps a vector of equal numbers from 0/0. At the end each feature gets a factor $\gamma$ and a shift $\beta$ that are learned; they begin as 1 and 0.
#
# $$ \mathrm{LN}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta $$


# %%
def norm_by_hand(x, gain=1.0, shift=0.0, eps=1e-5):
    deviation = x - x.mean(dim=-1, keepdim=True)
    variance = deviation.square().mean(dim=-1, keepdim=True)
    return gain * deviation / (variance + eps).sqrt() + shift


x = torch.tensor([0.0, 6, 6, 8])
print("the function", norm_by_hand(x))
print("by hand     ", torch.tensor([-5.0, 1, 1, 3]) / 3)
assert_close(norm_by_hand(x), F.layer_norm(x, (4,)))

# %% [markdown]
# These three, around an attention, are an encoder layer.

# %% [markdown]
# ## The picture
#
# Follow the pink line upwards. It is the **residual stream**: the vector of one place, on its way through the layer. Left as the paper has it (§3.1): each sublayer is added to the stream, and
# **then the stream itself is normalised**. On the right is the order that the authors' library, Tensor2Tensor, later adopted {cite}`vaswani2018`: the norm is on the branch, so **a sublayer reads a
# normalised copy**, and nothing but additions happens to the stream itself. That is why it needs one more norm at the end of the stack.

# %% tags=["hide-input"]
from transformer.plots.norm_placement import norm_placement

Picture(
    norm_placement(),
    alt=(
        "Two encoder layers, each a stream that runs upwards and two branches that "
        "leave it and are added back: attention, then feed-forward. In post-norm a "
        "norm stands on the stream after each addition. In pre-norm a norm stands "
        "at the beginning of each branch, the stream has only the two additions, "
        "and one more norm comes once, at the end of the stack."
    ),
)

# %% [markdown]
# **Now go through a trained model.** A caption goes into the encoder of the course's `multi30k` model, which has pre-norm and four layers. We write down the vectors after every part.

# %%
import transformer

translator = transformer.load("multi30k", device="cpu")
model, tokenizer = translator.model, translator.tokenizer
ids = torch.tensor([translator.encode("A dog runs across the field.")])
names, vectors, hooks = ["the embedding"], [], []


def listen(part, name):
    def write_down(module, inputs, output):
        names.append(name)
        vectors.append(output[0])

    hooks.append(part.register_forward_hook(write_down))


# %%
for n, layer in enumerate(model.encoder, 1):
    parts = zip(("attention", "feed-forward"), layer.residuals, strict=True)
    for name, residual in parts:
        listen(residual.norm, f"layer {n}, norm")
        listen(residual.dropout, f"layer {n}, {name} says")
        listen(residual, f"layer {n}, {name} added")
listen(model.encoder_norm, "the last norm")
with torch.no_grad():
    vectors.append(model.embed(ids, model.source_embedding)[0])
    model.encode(ids)
for hook in hooks:
    hook.remove()

# %% [markdown]
# Move the slider. Three things to see. After every *norm* the means and the spreads of all words are nearly alike, and after every *added* they are not. The stream's spread **grows** from layer
# to layer. And its direction turns slowly: even at the end of the fourth layer it still remembers the word it started as.

# %% tags=["hide-input"]
from transformer.plots.residual_stream import residual_stream

residual_stream(
    torch.stack(vectors),
    names,
    tokenizer.pieces(ids[0]),
    description=(
        "A slider goes through 26 stages of a sentence in a trained encoder: the "
        "embedding, then in each of four layers norm, attention, sum, norm, "
        "feed-forward, sum, and the last norm. Three bar charts show the mean, the "
        "spread and the direction of each word's vector there. Means stay near "
        "zero, the spread of the sums grows, and the cosine with the embedding "
        "falls slowly."
    ),
)

# %%
spreads = torch.stack(vectors).std(dim=-1)  # (stations, words)
spread = spreads.mean(dim=-1)
sums = [i for i, name in enumerate(names) if name.endswith("added")]
for layer, i in enumerate([0, *sums[1::2]]):
    cosine = torch.cosine_similarity(vectors[i], vectors[0], dim=-1).mean()
    print(f"layer {layer}  spread {spread[i]:5.2f}  cosine {cosine:.2f}")
assert spread[sums[-1]] > 2 * spread[0] and cosine > 0.1

ends = spreads[sums[-1]]  # A dog runs across the field . <eos>
assert ends[[0, 6, 7]].min() > ends[1:6].max()

# %% [markdown]
# (Layer 0 is the embedding.) Did you see who grows most? *A*, the full stop and `<eos>`, the pieces with the least to say. Nobody planned that, and the norm hides it from every sublayer.
#
# And is the pink line really a line? With pre-norm, what leaves the stack (before the last norm) has to be what came in, plus all that the eight sublayers said, and nothing else:

# %%
said = [v for v, name in zip(vectors, names, strict=True) if name.endswith("says")]
assert len(said) == 8
assert_close(vectors[0] + torch.stack(said).sum(dim=0), vectors[sums[-1]])
print("the stream = embedding + all said")

# %% [markdown]
# **In the book, switch the order.** Here the sublayers have learned nothing; they are random matrices. How large is the stream behind each of them? Make them louder: which order lets the stream grow, and what does the other one pay?
#
# <div class="widget" data-widget="norm">
#
# *With JavaScript, the book has a picture to play with here. This is how it begins.*
#
# Post-norm, four layers. The stream begins with mean square 1.
#
# | layer | says | sum | behind it | cosine with the beginning |
# |---|---|---|---|---|
# | 1, attention | 1.20 | 2.43 | 1.00 | 0.72 |
# | 1, feed-forward | 1.02 | 2.26 | 1.00 | 0.50 |
# | 2, attention | 0.82 | 1.70 | 1.00 | 0.39 |
# | 2, feed-forward | 0.91 | 1.63 | 1.00 | 0.34 |
# | 3, attention | 1.00 | 1.69 | 1.00 | 0.35 |
# | 3, feed-forward | 0.90 | 2.02 | 1.00 | 0.29 |
# | 4, attention | 0.95 | 2.00 | 1.00 | 0.04 |
# | 4, feed-forward | 0.91 | 1.97 | 1.00 | -0.08 |
#
# </div>

# %% [markdown]
# ## The code
#
# The package has both orders in one small class. A layer is made of such residuals, two in the encoder and three in the decoder.

# %%
from transformer.layers import DecoderLayer, EncoderLayer, FeedForward, Residual

SourceCode(FeedForward.forward, Residual)

# %%
SourceCode(EncoderLayer, DecoderLayer.forward)

# %% [markdown]
# **Part by part.** Our numbers from above, the package's module and PyTorch's own:

# %%
ours = FeedForward(2, 3)
theirs = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
for first, last in ((ours.inner, ours.outer), (theirs[0], theirs[2])):
    first.weight.data, first.bias.data = w1.T, b1
    last.weight.data, last.bias.data = w2.T, torch.zeros(2)
x = torch.randn(5, 2)
by_hand = (x @ w1 + b1).relu() @ w2
assert_close(ours(x), by_hand)
assert_close(theirs(x), by_hand)

x = torch.randn(2, 5, 32) * 3 + 1
theirs = nn.LayerNorm(32)
theirs.weight.data.normal_()
assert_close(norm_by_hand(x, theirs.weight, theirs.bias), theirs(x))

# %% [markdown]
# **Put together.** An encoder layer written out in both orders, from the package's own parts. For a fair test the factors $\gamma$ have to be random: as long as all of them are 1, a norm in the
# wrong place may go unnoticed.

# %%
from transformer.config import ModelConfig


def shape(norm, layers=1, width=32, dropout=0.0):
    return ModelConfig(12, width, 4, 4 * width, layers, dropout, norm=norm)


def encoder_layer_by_hand(layer, x):
    attend, feed = layer.self_attention, layer.feed_forward
    norm_1, norm_2 = (residual.norm for residual in layer.residuals)
    if layer.residuals[0].norm_first:
        x = x + attend(norm_1(x))
        return x + feed(norm_2(x))
    x = norm_1(x + attend(x))
    return norm_2(x + feed(x))


# %% [markdown]
# PyTorch has such layers too, with other names. With a table of names the weights go across, and all three must say the same. For the decoder we compare the package with PyTorch:

# %%
NAMES = {
    "self_attention.query_key_value.": "self_attn.in_proj_",
    "cross_attention.query_key_value.": "multihead_attn.in_proj_",
    "self_attention.output": "self_attn.out_proj",
    "cross_attention.output": "multihead_attn.out_proj",
    "feed_forward.inner": "linear1",
    "feed_forward.outer": "linear2",
    **{f"residuals.{i}.norm": f"norm{i + 1}" for i in range(3)},
}


def renamed(state):
    for our_name, their_name in NAMES.items():
        state = {key.replace(our_name, their_name): state[key] for key in state}
    return state


# %%
torch.manual_seed(0)
x, memory = torch.randn(2, 6, 32), torch.randn(2, 5, 32)
see_all, past = torch.ones(1, 5).bool(), torch.ones(6, 6).tril().bool()
for norm in ("post", "pre"):
    twin = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre"}
    theirs = nn.TransformerEncoderLayer(32, 4, 128, **twin)
    theirs_2 = nn.TransformerDecoderLayer(32, 4, 128, **twin)
    ours, ours_2 = EncoderLayer(shape(norm)), DecoderLayer(shape(norm))
    for residual in [*ours.residuals, *ours_2.residuals]:
        residual.norm.weight.data.normal_()
    theirs.load_state_dict(renamed(ours.state_dict()))
    theirs_2.load_state_dict(renamed(ours_2.state_dict()))
    assert_close(ours(x, None), encoder_layer_by_hand(ours, x))
    assert_close(ours(x, None), theirs(x))
    assert_close(ours_2(x, memory, past, see_all), theirs_2(x, memory, ~past))
    print(f"{norm}: by hand = package = PyTorch")

# %% [markdown]
# **Where dropout acts** (§5.4): on what a sublayer says, before it is added. (The whole model has two places more, see [there](07_full_model.ipynb).) Let the stream hold fives and the
# sublayer say ones. In training, a tenth of the ones are dropped, the rest are stretched to $1 / 0.9$, and the five is never touched:

# %%
torch.manual_seed(0)
residual = Residual(1000, dropout=0.1, norm="pre").train()
out = residual(torch.full((1000,), 5.0), torch.ones_like)
values, counts = out.unique(return_counts=True)
for value, count in zip(values, counts, strict=True):
    print(f"{value:.2f} comes out {count} times")
assert_close(values, torch.tensor([5, 5 + 1 / 0.9]))
assert 70 < counts[0] < 130

# %% [markdown]
# ## What the feed-forward is for
#
# Two thirds of an encoder layer's parameters are here, and half of a decoder layer's, which has a second attention. (With $d_\text{ff} = 4 d_\text{model}$, as in the paper: two matrices of $4 d^2$ against attention's four of $d^2$.)

# %%
for kind in (EncoderLayer, DecoderLayer):
    with torch.device("meta"):  # shapes without numbers: costs no memory
        layer = kind(ModelConfig())
    share = [
        sum(p.numel() for p in part.parameters())
        for part in (layer.feed_forward, layer)
    ]
    print(f"{kind.__name__}: {share[0] / share[1]:.1%}")

# %% [markdown]
# And all of them look at **one place at a time**. Permute the places, and the output is permuted; change one place, and no other moves. So
# in the whole layer only attention carries anything from place to place. The division of labour is strict: attention moves, the feed-forward works.

# %%
torch.manual_seed(0)
feed, x = FeedForward(32, 128), torch.randn(1, 6, 32)
order = torch.tensor([3, 0, 5, 1, 4, 2])
assert_close(feed(x[:, order]), feed(x)[:, order])
changed = x.clone()
changed[:, 2] += 1
moved = (feed(changed) != feed(x)).any(dim=-1)[0]
print("places that move:", moved.nonzero().flatten().tolist())

# %% [markdown]
# **Read it as a memory.** Column $i$ of $W_1$ is compared with $x$ by a dot product, as a key is with a query; the bias is the threshold. If they match, row $i$ of $W_2$ is added, as a value is, and the better the match the more of it. So a feed-forward is
# a soft lookup once more, with two differences: keys and values are learned and are the same for every sentence, and the shares are cut by a ReLU
# instead of a softmax, so that none or many may answer. {cite}`geva2021` have found keys in trained models that answer to quite definite patterns.
#
# Can we? The course's `pocket-small` model reads test sentences, and we write down which of its units speak, that is, have a value above zero.

# %%
from itertools import islice

from transformer.data.batching import Sequences, collate
from transformer.data.corpora import sentence_pairs
from transformer.model import Transformer

small = transformer.load("pocket-small", device="cpu")
pairs = list(islice(sentence_pairs("pocket", "test"), 200))
texts = zip(*pairs, strict=True)
sides = [
    Sequences.pack([small.tokenizer.encode(t) for t in text]) for text in texts
]
batch = collate(*sides, indices=range(200))


# %%
@torch.no_grad()
def inner_values(model):
    """For each layer the feed-forward's values after the ReLU, (tokens, d_ff)."""
    found, hooks = [], []
    for layer in [*model.encoder, *model.decoder]:
        dropout = layer.feed_forward.dropout
        hook = dropout.register_forward_hook(lambda m, i, out: found.append(i[0]))
        hooks.append(hook)
    model(batch.source, batch.decoder_input)
    for hook in hooks:
        hook.remove()
    reads = [batch.source] * len(model.encoder)
    reads += [batch.decoder_input] * len(model.decoder)
    return [v[ids != 0] for v, ids in zip(found, reads, strict=True)]


# %%
torch.manual_seed(0)
fresh, trained = Transformer(small.model.config).eval(), small.model
speaks = {
    name: [(values > 0).float() for values in inner_values(model)]
    for name, model in (("fresh", fresh), ("trained", trained))
}
print("layer        fresh  trained   never")
for i, name in enumerate(("encoder 1", "encoder 2", "decoder 1", "decoder 2")):
    before, after = speaks["fresh"][i], speaks["trained"][i]
    dead = (after.sum(dim=0) == 0).float().mean()
    print(f"{name:11} {before.mean():6.0%} {after.mean():8.0%} {dead:7.1%}")
    assert 0.4 < before.mean() < 0.6 and after.mean() < 0.4 and dead < 0.1

# %% [markdown]
# A fresh model is a coin: half of the units speak at any place. Training makes them choosy, most of all in the encoder. The last column counts **dead** units, which
# none of these sentences wakes. A ReLU that is never above zero has no gradient, so it may never come back. Here few have died, and none in the decoder; silence is not death, most units just wait for their word. For example:

# %%
values = inner_values(trained)[0]  # the encoder's first layer: (tokens, d_ff)
rate = (values > 0).float().mean(dim=0)
tokens = batch.source[batch.source != 0]
for unit in rate.argsort()[5:155:30].tolist():
    most = tokens[values[:, unit].argsort(descending=True)].tolist()
    wakes = list(dict.fromkeys(most))[:4]
    print(f"{unit:3} {rate[unit]:5.1%}", *small.tokenizer.pieces(wakes))

# %% [markdown]
# Each line is a unit of the first layer, how often it speaks, and the four pieces that wake it most. Some look like a key to something definite, others like nothing that has a name. Now the other way
# round. *Because*, *although*, *if*, *when* and *that* have one thing in common: in German they send the verb to the end of the clause. Does any unit of the second layer know these five?

# %%
five = ["▁because", "▁although", "▁if", "▁when", "▁that"]
pieces = small.tokenizer.pieces(range(len(small.tokenizer)))
is_one = torch.isin(tokens, torch.tensor([pieces.index(word) for word in five]))
speaks_at = (inner_values(trained)[1] > 0).float()  # (tokens, d_ff)
at_five, elsewhere = speaks_at[is_one].mean(dim=0), speaks_at[~is_one].mean(dim=0)
unit = int((at_five - elsewhere).argmax())
print(f"unit {unit} speaks")
print(f"at {at_five[unit]:4.0%} of the {is_one.sum()} such words")
print(f"at {elsewhere[unit]:4.0%} of all others")
assert at_five[unit] > 0.75 and elsewhere[unit] < 0.05

# %% [markdown]
# It is the best of 256 units, so there is some luck in it, but not much: to answer to five words most of the time, and hardly ever to any other, takes a reason. Nobody told the model that these words belong together. It had to find out, because they ask for the same thing.
#
# How often each unit of that layer speaks, before and after training:

# %% tags=["hide-input"]
from transformer.plots import style

with style.in_style():
    figure, axes = style.new_figure(3.8, 2.7)
    kinds = (("fresh", style.PLAIN, "-"), ("trained", style.OUTPUT, "--"))
    for name, colour, dashes in kinds:
        often = speaks[name][1].mean(dim=0).sort().values * 100
        axes.plot(often, dashes, color=colour, label=name)
    axes.set_xlabel("units of the second encoder layer, sorted")
    axes.set_title("Speaks at … % of the places", loc="left")
    axes.legend()
    axes.grid(True)
Picture(
    figure,
    alt=(
        "How often each of 256 units speaks, sorted. In a fresh model everything "
        "occurs, from a few percent of the places to nearly all. After training "
        "most units speak at less than a tenth of the places, and none at more "
        "than half."
    ),
)

# %% [markdown]
# ## What the norm throws away
#
# Two of a vector's degrees of freedom are gone after the norm: its mean, and its size. Multiply a vector by ten and add seven, and nothing has happened:

# %%
torch.manual_seed(0)
x = torch.randn(5, 32)
assert_close(norm_by_hand(10 * x + 7), norm_by_hand(x), atol=1e-4, rtol=0)
lengths = norm_by_hand(x).norm(dim=-1)
print(lengths, f"√32 = {math.sqrt(32):.2f}")

# %% [markdown]
# What remains is a direction. All vectors end at the same length $\sqrt{d}$, in the plane of those whose numbers sum to zero. With three numbers we can look at that plane from above. Every vector ends on the circle,
# and the faint lines show where it came from. In two dimensions there would not even be a circle, only two points: of $(a, b)$ the norm keeps which of the two is
# larger, and nothing else.

# %% tags=["hide-input"]
torch.manual_seed(2)
plane = torch.tensor([[1.0, -1, 0], [1, 1, -2]])
plane = plane / plane.norm(
    dim=-1, keepdim=True
)  # (2, 3): at right angles to (1, 1, 1)
turn, far = torch.arange(36) * 2 * math.pi / 36, 0.2 + 4 * torch.rand(36)
flat = far[:, None] * torch.stack([turn.cos(), turn.sin()], dim=1)
cloud = flat @ plane + torch.randn(36, 1)  # (36, 3), each shifted along (1, 1, 1)
before, after = cloud @ plane.T, norm_by_hand(cloud) @ plane.T  # (36, 2)
with style.in_style():
    figure, axes = style.new_figure(3.4, 3.4)
    for start, end in zip(before, after, strict=True):
        axes.plot(*torch.stack([start, end]).T, color=style.PLAIN, linewidth=0.8)
    axes.plot(*before.T, "o", color=style.KEY, markersize=5, label="before")
    axes.plot(*after.T, "D", color=style.OUTPUT, markersize=5, label="after")
    axes.set_aspect("equal")
    axes.axis("off")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2)
    axes.set_title("The norm, seen along (1, 1, 1)", loc="left")
Picture(
    figure,
    alt=(
        "Thirty-six vectors of three numbers, looked at along the diagonal (1, 1, 1). "
        "Before the norm they lie scattered at all distances. After it every one "
        "lies on one circle, straight outwards or inwards from where it was."
    ),
)

# %%
pairs = norm_by_hand(torch.tensor([[1.0, 2], [-300, 400], [9, 8.5]]))
assert_close(pairs, torch.tensor([[-1.0, 1], [-1, 1], [1, -1]]), atol=1e-3, rtol=0)
pairs

# %% [markdown]
# That a vector's size is lost is what one wants. A sublayer then sees inputs of one size, whatever has been added to the stream before.
#
# ### Why not a batch norm?
#
# The **batch norm** {cite}`ioffe2015` normalises in the other direction: each *feature*, over all sentences and places of the batch. In vision this works well. Here a batch has other sentences in it, and padding, and
# a translation must not depend on either. A sentence of three words, alone and in company:

# %%
torch.manual_seed(0)
alone = torch.randn(1, 3, 4)
company = torch.zeros(2, 5, 4)  # another sentence, longer; padding is zero
company[:1, :3], company[1] = alone, torch.randn(5, 4) + 2

kinds = {
    "layer norm": nn.LayerNorm(4),
    "batch norm": lambda x: nn.BatchNorm1d(4)(x.mT).mT,
}
for name, norm in kinds.items():
    change = (norm(company)[:1, :3] - norm(alone)).abs().max()
    print(f"{name}: changes by {change:.2f}")
assert_close(nn.LayerNorm(4)(company)[:1, :3], nn.LayerNorm(4)(alone))

# %% [markdown]
# In the decoder it would be worse still: a mean over places is a mean over the future. (Outside of training a batch norm uses running averages instead. So it is not even the same function in training and in use.)

# %% [markdown]
# ## The straight way back
#
# The residual was to carry the gradient. We measure it: twelve feed-forwards, once in a chain, once each added to the stream. No norm yet. At the end we ask for something random, and
# look at the gradient behind each layer.


# %%
def chain(residual, layers=12):
    torch.manual_seed(0)
    stream = [torch.randn(64, 32, requires_grad=True)]
    for _ in range(layers):
        said = xavier(FeedForward(32, 128))(stream[-1])
        stream.append(stream[-1] + said if residual else said)
        stream[-1].retain_grad()
    (stream[-1] * torch.randn(64, 32)).sum().backward()
    return [x.grad.norm().item() for x in stream[1:]]


ways = {"chain": chain(residual=False), "added": chain(residual=True)}
for name, sizes in ways.items():
    print(f"{name}: last layer {sizes[-1]:.0f}, first layer {sizes[0]:.2f}")
assert ways["chain"][0] < ways["chain"][-1] / 200
assert ways["added"][-1] < ways["added"][0] < 20 * ways["added"][-1]

# %% tags=["hide-input"]
from transformer.plots.scale_by_layer import scale_by_layer

Picture(
    scale_by_layer(ways, "Gradient behind each layer"),
    alt=(
        "Gradient norms behind twelve layers, logarithmic. In a chain the gradient "
        "falls by a factor of several hundred from the last layer to the first. "
        "With residuals it grows by a small factor."
    ),
)

# %% [markdown]
# With residuals the gradient does not vanish; it grows a little on its way back, as the stream grew on its way forward. Without a norm that would go on and on.

# %% [markdown]
# ## Two orders at the start
#
# Now both orders, in stacks of the package's encoder layers, before any training. We note the size of the stream behind each layer, as mean square, and the gradient of each feed-forward's $W_2$.


# %%
def at_the_start(norm, layers, width=64):
    torch.manual_seed(0)
    stack = nn.ModuleList(
        EncoderLayer(shape(norm, width=width)) for _ in range(layers)
    )
    xavier(stack)
    x, wish = torch.randn(2, 16, 12, width)
    sizes = []
    for layer in stack:
        x = layer(x, None)
        sizes.append(x.square().mean().item())
    x = F.layer_norm(x, (width,))  # post-norm's last norm does nothing twice
    (x * wish).sum().backward()
    outer = [layer.feed_forward.outer.weight for layer in stack]
    return sizes, [weight.grad.norm().item() for weight in outer]


# %%
streams, gradients = {}, {}
for norm in ("post", "pre"):
    streams[norm], gradients[norm] = at_the_start(norm, layers=12)
    print(norm, "in layers 1, 3, 5, 7, 9, 11")
    print("  stream  ", *(f"{size:3.1f}" for size in streams[norm][::2]))
    print("  gradient", *(f"{size:3.0f}" for size in gradients[norm][::2]))

# %% tags=["hide-input"]
from transformer.plots.curves import curves


def over_layers(lines, title):
    figure = curves(range(1, 13), lines, "layer", title)
    figure.axes[0].set_xticks(range(1, 13))
    return figure


Row(
    Picture(
        over_layers(streams, "Stream (mean square)"),
        alt=(
            "Mean square of the stream behind twelve layers. Post-norm: 1 "
            "everywhere. Pre-norm: grows steadily from 1.4 to nearly 8."
        ),
    ),
    Picture(
        over_layers(gradients, "Gradient of W₂"),
        alt=(
            "Gradient of W2 by layer. Post-norm: nearly level, a little larger in "
            "the upper layers. Pre-norm: falls from layer to layer to about a third."
        ),
    ),
)

# %% [markdown]
# Two different curves, and one law behind them. Say the stream has the size $\sigma$ (root mean square), and what a sublayer adds has much the same size in every layer. Everyone who reads it later reads it through a norm, so what matters
# is not what was added but by which *angle* the stream was turned, and that goes with $1/\sigma$. So **gradient times size of the stream** should be level. With post-norm the stream is 1 everywhere and the
# gradient level; with pre-norm the stream grows and the gradient falls in step with it:

# %%
sigma = [math.sqrt(size) for size in streams["pre"]]
law = [g * s for g, s in zip(gradients["pre"], sigma, strict=True)]
print("gradient × σ", *(f"{value:.0f}" for value in law[::2]))
assert gradients["pre"][0] > 2 * gradients["pre"][-1]
assert max(law) < 1.3 * min(law)
assert max(gradients["post"]) < 2 * min(gradients["post"])

# %% [markdown]
# {cite}`xiong2020` measured such gradients, and proved how they depend on the depth. In post-norm's last layer the gradient has the same size whether there are six layers below it or
# twenty-four; in pre-norm it shrinks, about as the root of the depth. That, they say, is why one needs a warm-up and the other does not. We find the same, except that post-norm's even grows a little:

# %%
last = {
    (norm, depth): at_the_start(norm, depth)[1][-1]
    for norm in ("post", "pre")
    for depth in (6, 12, 24)
}
for norm in ("post", "pre"):
    print(f"{norm:4}", [round(last[norm, depth]) for depth in (6, 12, 24)])
assert last["pre", 24] < 0.75 * last["pre", 6] < last["post", 24]

# %% [markdown]
# But is it the reason? The factor is two or three, and the optimiser is **Adam**, which divides each gradient by its own usual size. Its first step moves every weight that has a gradient by the whole rate, however
# small that gradient is (we shall check that). So we keep the question open and let both orders run.

# %% [markdown]
# ## The race
#
# The task must be easy to make and need the whole layer: **sort letters**. Six letters of twelve go in, and at each place the model says which letter stands there once they are sorted. It has to gather (attention) and to
# count (feed-forward). Six encoder layers, 32 numbers wide, and what [the next chapter](07_full_model.ipynb) has to say about the two ends.

# %%
from transformer.positions import sinusoidal_encoding

places = sinusoidal_encoding(6, 32)


# %%
class Sorter(nn.Module):
    def __init__(self, norm, layers=6):
        super().__init__()
        self.embed = nn.Embedding(12, 32)
        many = (EncoderLayer(shape(norm)) for _ in range(layers))
        self.layers = nn.ModuleList(many)
        self.norm = nn.LayerNorm(32) if norm == "pre" else nn.Identity()
        self.guess = nn.Linear(32, 12)
        xavier(self)

    def forward(self, letters):
        x = self.embed(letters) + places
        for layer in self.layers:
            x = layer(x, None)
        return self.guess(self.norm(x))  # (batch, 6, 12)


# %% [markdown]
# A **warm-up** (§5.3) lets the rate climb in a straight line, here for 60 steps; then it stays. (The paper's falls again.) Without a warm-up it is there from the first step. So without a warm-up the rate is never
# *higher*, it is only reached sooner. All runs start from the same weights and see the same letters.


# %%
def sorting_loss(model):
    letters = torch.randint(12, (16, 6))
    return F.cross_entropy(model(letters).mT, letters.sort(dim=1).values)


def new_adam(model):
    # betas are the paper's (§5.3); fused: all weights in one call
    return torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)


# %%
def train(norm, warmup, rate, layers=6, steps=160):
    torch.manual_seed(0)
    model, losses = Sorter(norm, layers), []
    adam = new_adam(model)
    for step in range(1, steps + 1):
        adam.param_groups[0]["lr"] = rate * min(1, step / warmup)
        loss = sorting_loss(model)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return model, losses


# %%
WARMUPS = {"warm-up": 60, "no warm-up": 1}
runs = {
    (norm, name, rate): train(norm, steps, rate)[1]
    for rate in (0.001, 0.003, 0.01)
    for norm in ("post", "pre")
    for name, steps in WARMUPS.items()
}
end = {run: sum(losses[-30:]) / 30 for run, losses in runs.items()}

# %%
print("loss at the end      0.001 0.003 0.01")
for norm in ("post", "pre"):
    for name in WARMUPS:
        row = [end[norm, name, rate] for rate in (0.001, 0.003, 0.01)]
        print(f"{norm:4} {name:13}", *(f"{loss:6.2f}" for loss in row))
print(f"guessing: ln 12 = {math.log(12):.2f}")

# %% [markdown]
# **Choose a rate** and see the four curves. At the highest rate, post-norm without warm-up does not learn slowly: it learns *nothing*. It stays at the level of guessing. At the same rate, with a warm-up, it
# learns. Pre-norm does not mind.

# %% tags=["hide-input"]
from transformer.plots.run_comparison import run_comparison

run_comparison(
    runs,
    reference=("guessing, ln 12", math.log(12)),
    learning_rate=0.01,
    description=(
        "Training loss over 160 steps, four lines: post-norm and pre-norm, each "
        "with and without warm-up. Buttons choose the rate and which norm is shown. "
        "At rate 0.01 post-norm without warm-up stays at the level of guessing, "
        "2.48, and the other three fall below 1.2; pre-norm falls furthest. At the "
        "lower rates all four fall, pre-norm a little faster."
    ),
)

# %%
dead = end["post", "no warm-up", 0.01]
assert abs(dead - math.log(12)) < 0.1, "has learned nothing"
assert end["post", "warm-up", 0.01] < 1.4, "the warm-up saves it"
assert max(end["pre", name, 0.01] for name in WARMUPS) < 1
assert max(end[run] for run in end if run[2] < 0.01) < 2

# %% [markdown]
# Be careful with the lesson. At the lower rates post-norm learns without a warm-up as well, and at the lowest a warm-up only costs time. Depth matters as much as the rate: what kills six layers is fine for two, and for ten not even the
# warm-up is enough. And pre-norm has its limit too, only further out:

# %%
trials = [("post", 2, "no warm-up", 0.01), ("post", 4, "no warm-up", 0.01)]
trials += [("post", 10, "warm-up", 0.01), ("pre", 6, "no warm-up", 0.03)]
trials += [("pre", 6, "no warm-up", 0.1)]
for norm, layers, name, rate in trials:
    losses = train(norm, WARMUPS[name], rate, layers)[1]
    end[layers, rate] = sum(losses[-30:]) / 30
    print(f"{norm:4} {layers:2} {name:10} {rate:4}: {end[layers, rate]:.2f}")
assert end[2, 0.01] < 1 and end[10, 0.01] > 1.8 and end[6, 0.1] > 1.8

# %% [markdown]
# So *post-norm needs a warm-up* means: **the deeper the stack, the lower the rate that it can bear from the first step**, and here pre-norm bears more. The page of [results](../book/results.md) has another
# comparison, on translation. There the rate without a warm-up begins at 0.05, and that is too much for pre-norm as well.

# %% [markdown]
# ## The autopsy
#
# What did it die of? We repeat the fatal run and its pre-norm twin, stop after 0, 1, 10 and 40 steps, and look inside: at the stream behind each layer, and at what each sublayer says. Of the stream we ask how much is
# each place's own, as in the first cell of this page, and how large a gradient arrives there.


# %%
def watch(model, stream, said):
    """Write down what leaves each layer, and what each sublayer says."""

    def keep(module, inputs, out):
        out.retain_grad()  # so that its gradient can be read later
        stream.append(out)

    for layer in model.layers:
        layer.register_forward_hook(keep)
        for residual in layer.residuals:
            residual.dropout.register_forward_hook(
                lambda module, inputs, out: said.append(out.detach())
            )


# %%
own, arrives, says = {}, {}, {}
for norm in ("post", "pre"):
    for steps in (0, 1, 10, 40):
        model, _ = train(norm, 1, 0.01, steps=steps)
        stream, says[norm, steps] = [], []
        watch(model, stream, says[norm, steps])
        torch.manual_seed(1)
        sorting_loss(model).backward()
        own[norm, steps] = [apart(x.detach()) for x in stream]
        arrives[norm, steps] = [x.grad.norm().item() for x in stream]

# %%
print("own share behind the last layer")
print("after  ", *(f"{steps:6}" for steps in (0, 1, 10, 40)), "steps")
for norm in ("post", "pre"):
    print(f"{norm:7}", *(f"{own[norm, s][-1]:6.0e}" for s in (0, 1, 10, 40)))


# %% tags=["hide-input"]
def lines(table, norm):
    names = {0: "start", 1: "1 step", 10: "10 steps", 40: "40 steps"}
    return {name: table[norm, steps] for steps, name in names.items()}


def limits(table):
    sizes = [size for sizes in table.values() for size in sizes]
    return min(sizes) / 2, max(sizes) * 2


Row(
    Picture(
        scale_by_layer(
            lines(own, "post"), "Post-norm: own share", limits=limits(own)
        ),
        alt=(
            "Share of the vectors that is each place's own, by layer, logarithmic. "
            "Before training about a half in all layers. After one step it falls "
            "below a hundredth at the sixth layer, after ten steps below a "
            "millionth, after forty further still."
        ),
    ),
    Picture(
        scale_by_layer(
            lines(own, "pre"), "Pre-norm: own share", limits=limits(own)
        ),
        alt=(
            "The same for pre-norm on the same scale. After one step a tenth is "
            "left at the sixth layer, after ten steps a hundredth; after forty it "
            "is back where it began."
        ),
    ),
)

# %% [markdown]
# It died in the **first steps**. After a single one, what distinguishes the places at the end of the stack is down to less than a hundredth; after ten, to less than a millionth. Six letters go in, and six copies of one vector come out. It is the grey of this
# page's first cell, and this time training has made it. Whoever has only one vector for all places can only say what is true on average, and that costs $\ln 12$.
#
# And the same blow hit pre-norm. Look right: after ten steps it has lost nearly all of it, too. But a hundredth was still there, and thirty steps later it has recovered. Why could the other not? Look at
# what arrives of the gradient:

# %% tags=["hide-input"]
scale = limits(arrives)
Row(
    Picture(
        scale_by_layer(lines(arrives, "post"), "Post-norm: gradient", limits=scale),
        alt=(
            "Gradient behind each layer in post-norm, logarithmic. Before training "
            "level. After one step it falls tenfold from the last layer to the "
            "first, after ten steps more than a thousandfold, after forty more "
            "than ten-thousandfold."
        ),
    ),
    Picture(
        scale_by_layer(lines(arrives, "pre"), "Pre-norm: gradient", limits=scale),
        alt=(
            "The same for pre-norm on the same scale. After one, ten and forty "
            "steps the gradient is smaller than before training, but nearly the "
            "same in all six layers."
        ),
    ),
)

# %%
for norm in ("post", "pre"):
    sizes = arrives[norm, 10]
    print(f"{norm:4} last / first layer: {sizes[-1] / sizes[0]:6.1f}")
assert own["post", 0][-1] > 0.2 and own["post", 1][-1] < 0.05
assert own["post", 10][-1] < 1e-4 and own["post", 40][-1] < 1e-4
assert own["pre", 10][-1] < 0.1 < own["pre", 40][-1], "recovers"
post, pre = arrives["post", 10], arrives["pre", 10]
assert post[-1] > 100 * post[0] and max(pre) < 2 * min(pre)

# %% [markdown]
# In pre-norm **the same gradient arrives in every layer**: on the stream there is nothing but pluses. In post-norm each norm divides the stream by the size of the sum, on the way forward and on the way back. If the stream has mean square
# 1 and what a sublayer adds has mean square $a$, that is $\sqrt{1 + a}$. Does this arithmetic give the loss that we measured? We multiply over the ten sublayers between the first layer's output and the last's:

# %%
print("steps  predicted  measured")
for steps in (1, 10, 40):
    through = [1 + x.square().mean().item() for x in says["post", steps][2:]]
    predicted = math.sqrt(math.prod(through))
    sizes = arrives["post", steps]
    measured = sizes[-1] / sizes[0]
    print(f"{steps:5}  {predicted:9,.0f} {measured:9,.0f}")
    assert 0.1 < measured / predicted < 5

# %% [markdown]
# It does, to within a small factor, over four powers of ten. (What comes through the sublayers themselves makes the difference.) So the chain of causes is this:
#
# 1. The first steps are large. Adam's very first moves **nearly every weight by the whole rate**, however small its gradient. Moved all at once, the sublayers say more and more, and more and more the same at every place.
# 2. Post-norm divides the stream by it, twelve times. What was each place's own shrinks in every layer, and the gradient shrinks by the same factors on its way back.
# 3. The output hardly depends on the letters any more. The model has learned the average, and there it stays.
#
# With a warm-up the first step is a sixtieth as large, and the sublayers learn to say something useful before they learn to shout. Both halves of the first claim can be checked. The very first feed-forward will do, where nothing has been lost yet:

# %%
for steps in (0, 1, 10):
    x = says["post", steps][1]
    size = x.square().mean()
    print(f"{steps:2} steps: adds {size:.2f}, own share {apart(x):4.0%}")
assert size > 3 * says["post", 0][1].square().mean()
assert apart(x) < 0.5 * apart(says["post", 0][1])

# %%
for name, warmup in WARMUPS.items():
    start, _ = train("post", warmup, 0.01, steps=0)
    one_step, _ = train("post", warmup, 0.01, steps=1)
    weights = zip(start.parameters(), one_step.parameters(), strict=True)
    moved = torch.cat([(b - a).abs().flatten() for a, b in weights])
    share = ((moved - 0.01 / warmup).abs() < 0.0001 / warmup).float().mean()
    print(f"{name:10} {share:.0%} moved by {0.01 / warmup:.5f}")
    assert share > 0.9

# %% [markdown]
# (The others have no gradient, such as those of units that were silent.)
#
# One question is left, and a sceptic should ask it. If Adam divides each gradient by its usual size, why should small gradients hold it up? Because *usual* means: a mean over the last squares, about fifty of them with the paper's
# $\beta_2 = 0.98$. The first gradients were far larger than what comes now, and they are in that mean for hundreds of steps. How far do the first layer's weights still move in a step, as a share of the rate?

# %%
print("step    post     pre")
for steps in (0, 10, 40):
    shares = []
    for norm in ("post", "pre"):
        two = (train(norm, 1, 0.01, steps=n)[0] for n in (steps, steps + 1))
        weights = zip(*(model.layers[0].parameters() for model in two), strict=True)
        moved = torch.cat([(b - a).abs().flatten() for a, b in weights])
        shares.append(moved.mean().item() / 0.01)
    print(f"{steps + 1:4} {shares[0]:7.3f} {shares[1]:7.3f}")
assert shares[0] < 0.05 < shares[1]

# %% [markdown]
# So it is not only dead, it is **frozen**: its gradient fell faster than Adam can forget. That can be put to the test. We train on after the ten fatal steps, at a tenth of the rate, once with the same Adam and once with a new one,
# which remembers nothing:


# %%
def train_on(forget):
    torch.manual_seed(0)
    model = Sorter("post")
    for step in range(170):
        if step == 0 or step == 10 and forget:
            adam = new_adam(model)
        adam.param_groups[0]["lr"] = 0.01 if step < 10 else 0.001
        loss = sorting_loss(model)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return loss.item()


# %%
kept, forgotten = train_on(forget=False), train_on(forget=True)
print(f"the same Adam {kept:.2f}, a new one {forgotten:.2f}")
assert forgotten < kept - 0.2

# %% [markdown]
# With a new Adam it begins to learn again. Trained at this rate from the start, it got much further in as many steps: compare the race's first column.
#
# {cite}`liu2020` have made a related examination on real translation models. They hold that vanishing gradients are not the root of it, since Adam evens them out, and that what counts is how much a small change of the weights is amplified on its way
# to the output. In our small model you have seen both: first the blow, then a gradient that vanishes faster than Adam can follow.
#
# Is pre-norm better, then? It is easier. It has a weakness of its own, which you saw at the start: the stream grows, so the upper layers' words count for less and less. {cite}`liu2020` find that where post-norm trains at all, it
# may end better. So both are in use, and the package has both.

# %% [markdown]
# ## What goes wrong in practice
#
# **The norm over the wrong axis.** Give the norm two axes instead of one, length and features, and everything fits and even trains. But a mean over the length is a look at the other places, the future included. The
# causality test of [Masking](04_masking.ipynb) finds it: change the last word, and see who moves.

# %%
torch.manual_seed(0)
x = torch.randn(1, 5, 8)
changed = x.clone()
changed[:, 4] = torch.randn(8)
for name, axes in (("features", (8,)), ("length, too", (5, 8))):
    moved = F.layer_norm(changed, axes) - F.layer_norm(x, axes)
    who = (moved.abs() > 1e-6).any(dim=-1)[0].nonzero().flatten()
    print(f"{name:11} moves {who.tolist()}")

# %% [markdown]
# **The wrong variance.** `x.var()` and `x.std()` divide by $d - 1$ unless told otherwise. At four features the mistake is plain. At 512 it is a tenth of a percent. No training fails for it, only the comparison with somebody else's weights:


# %%
def unbiased(x, eps=1e-5):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + eps).sqrt()


for d in (4, 32, 512):
    x = torch.randn(100, d)
    ratio = (unbiased(x) / norm_by_hand(x)).mean()
    print(f"d = {d:3}: too small by {1 - ratio:.2%}")

# %% [markdown]
# **ε outside the root.** $\sqrt{\sigma^2} + \varepsilon$ looks like the same safeguard, and forwards it is. But the root has an infinite slope at zero. A vector of equal numbers, such as a row of zeros for
# padding, is a NaN on the way back:


# %%
def outside(x, eps=1e-5):
    deviation = x - x.mean(-1, keepdim=True)
    return deviation / (deviation.square().mean(-1, keepdim=True).sqrt() + eps)


for norm in (norm_by_hand, outside):
    x = torch.zeros(4, requires_grad=True)
    out = norm(x)
    out.sum().backward()
    print(f"{norm.__name__:12} gradient {x.grad.tolist()[0]}")
    assert torch.equal(out, torch.zeros(4))

# %% [markdown]
# **The residual from the wrong place.** This looks like pre-norm and is neither: `x = norm(x)` and then `x + sublayer(x)`. The stream itself is normalised again. There is a test that tells the orders apart
# without reading any code. *Let the sublayers say nothing.* Then a pre-norm layer must give back exactly what it got. If it does not, there is a norm on the stream.


# %%
def wrong(x, sublayer):
    x = F.layer_norm(x, (8,))
    return x + sublayer(x)


x = torch.randn(2, 5, 8) * 3 + 1
layers = {n: Residual(8, dropout=0.0, norm=n) for n in ("pre", "post")}
for name, layer in {**layers, "wrong": wrong}.items():
    out = layer(x, torch.zeros_like)
    print(f"{name:6} the same: {torch.equal(out, x)}")
assert torch.equal(layers["pre"](x, torch.zeros_like), x)

# %% [markdown]
# **Pre-norm's last norm forgotten.** Nothing has normalised the last sum. Take it away from the translator, first from the decoder and then from the encoder:

# %%
caption = ["A dog runs across the field."]
model = translator.model
for name in ("decoder_norm", "encoder_norm"):
    norm = getattr(model, name)
    setattr(model, name, nn.Identity())
    (without,) = translator.greedy_search(caption)
    setattr(model, name, norm)
    print(f"no {name}:", without[:24])
print("with both:", translator.greedy_search(caption)[0])
assert "Hund" in translator.greedy_search(caption)[0] and "Hund" not in without

# %% [markdown]
# Treacherous: without the decoder's, greedy search hardly notices, because the largest score stays nearly always the largest. The probabilities are worthless all the same. Without the encoder's, cross-attention gets keys of a size that it never saw,
# and there is no translation any more.
#
# **Dropout left on.** `F.dropout` does not know of `model.eval()`. Its argument `training` is `True` unless you say otherwise; `nn.Dropout` is told by the module it stands in.


# %%
class Forgetful(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.1)  # right: F.dropout(x, 0.1, self.training)


x = torch.ones(1000)
for module in (Forgetful().eval(), nn.Dropout(0.1).eval()):
    zeros = (module(x) == 0).float().mean()
    print(f"{type(module).__name__:9} in use: {zeros:.0%} dropped")
assert zeros == 0

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You exchange two words of a sentence (no positions, no mask). What does the feed-forward's output do?**
#
# <details><summary>A. It stays the same</summary>
#
# No. Nothing is summed over the places, so a place's output goes with its input.
#
# </details>
# <details><summary>B. The two outputs change places</summary>
#
# **Right.** The same network stands at every place and sees only its own vector.
#
# </details>
# <details><summary>C. All outputs change</summary>
#
# No. That would need a way from place to place. Attention has one, the feed-forward has none.
#
# </details>
# <details><summary>D. It depends on the weights</summary>
#
# No. It holds for any weights, before and after training.
#
# </details>
#
# **2. A colleague multiplies all embeddings by 100. Whose first attention does not notice?**
#
# <details><summary>A. Post-norm's</summary>
#
# No. There the first attention reads the embeddings as they are: the first norm comes after it.
#
# </details>
# <details><summary>B. Pre-norm's</summary>
#
# **Right.** It reads them through a norm. (But what it says is then added to a stream a hundred times as large, and hardly turns it.)
#
# </details>
# <details><summary>C. Both</summary>
#
# No. Only one of the two has a norm before its first sublayer.
#
# </details>
# <details><summary>D. Neither</summary>
#
# No. A norm does away with any factor, so whoever reads through one cannot notice.
#
# </details>
#
# **3. Your twelve-layer post-norm model stays at the loss of guessing from the start. What do you look at first?**
#
# <details><summary>A. Whether activations have mean square 1</summary>
#
# No. In post-norm they always do, in a dead model too: the norm sees to it.
#
# </details>
# <details><summary>B. Whether the places differ at the end of the stack</summary>
#
# **Right.** If all places hold one vector, it has died in its first steps. Warm up longer, or lower the rate.
#
# </details>
# <details><summary>C. Whether the model is too small</summary>
#
# No. Any size gets below guessing, if only by the frequency of the words or by what is near.
#
# </details>
# <details><summary>D. Whether some units are dead</summary>
#
# No. Some dead units make a model smaller, not deaf. And here the gradient is lost between layers, not between units.
#
# </details>
#
# **4. Why is it $x + \mathrm{Sublayer}(x)$ and not a learned blend of the two?**
#
# <details><summary>Answer</summary>
#
# A blend $g x + (1 - g) f(x)$ with $g$ below 1 divides the stream in every layer, as post-norm does: at 0.9 and 24 sublayers less than a tenth is left. A plus leaves the way open whatever is
# learned, and costs no parameters. Networks with learned gates came before the residual network, and it won by being plainer.
#
# </details>
#
# **5. With pencil and paper: the layer norm of (1, 1, 1, 5), without factor, shift and ε?**
#
# <details><summary>Answer</summary>
#
# Mean 2, deviations $(-1, -1, -1, 3)$, variance $12 / 4 = 3$, root 1.73. So $(-0.58, -0.58, -0.58, 1.73)$. Its squares sum to 4, as they must.
#
# </details>

# %% tags=["hide-input"]
x = norm_by_hand(torch.tensor([1.0, 1, 1, 5]))
assert_close(x, torch.tensor([-1.0, -1, -1, 3]) / math.sqrt(3))
assert abs(x.square().sum() - 4) < 1e-4 and 0.9**24 < 0.1

# %% [markdown]
# ## Exercises
#
# Five blanks: the feed-forward, the layer norm, dropout, and the two orders. Each has a check that says what is wrong, and a hint.
#
# - In Colab:
#   [06_layers](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/06_layers.ipynb).
#   On GitHub: [06_layers.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/06_layers.ipynb).
# - On your machine, open `exercises/06_layers.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade layers
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And five experiments.
#
# 1. **Where is the limit?** For 2, 4, 6 and 10 layers, find the highest rate that post-norm bears without a warm-up: `train("post", 1, rate, layers)`. How does it depend on the depth? The same for pre-norm.
# 2. **How short a warm-up** saves six layers at 0.01? Try 2, 5, 10, 20 steps, and look at `apart` after each.
# 3. **Other seeds.** Is any of the four verdicts at 0.01 luck? Give `train` a seed.
# 4. **No feed-forward.** Take it out of the `Sorter` and make attention as much wider as its parameters allow. Does it still sort?
# 5. **On translation**, some minutes a run:
#
# ```bash
# transformer train pocket --run runs/post      --model.norm post
# transformer train pocket --run runs/post-cold --model.norm post --training.warmup-steps 1
# transformer train pocket --run runs/pre-cold  --training.warmup-steps 1
# ```
#
# Without a warm-up the rate begins at 0.05. Which order stands that? And with `--training.learning-rate-factor 0.06`, a tenth?

# %% [markdown]
# ## Going further
#
# - **In the paper:** residual and norm in §3.1, the feed-forward in §3.3, the warm-up in §5.3, dropout in §5.4 {cite}`vaswani2017`.
# - **Where the residual comes from:** {cite}`he2016`. **Where the norm comes from:** {cite}`ba2016`. A norm that only divides and does not shift does nearly as well and is cheaper: {cite}`zhang2019`.
# - **The norm's place:** {cite}`xiong2020` and {cite}`liu2020`, who disagree in an instructive way about the reason. {cite}`wang2019` train thirty encoder layers of a translator with pre-norm.
# - **The feed-forward as a memory:** {cite}`geva2021`. **The stream** as what all parts read and write: {cite}`elhage2021`.
# - **Next:** [The full model](07_full_model.ipynb) puts such layers into two stacks, and asks what has to be right before the first step.
