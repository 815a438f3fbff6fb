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
# Each square below shows the vectors of eight words, one vector per row, in a network that hasn't been trained yet. In the upper squares we stack attention on attention, and **after two layers all words have practically the same vector**. In the lower squares we stack the paper's complete layers, and after four of them the words still differ. What does a layer have that attention alone doesn't?

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
    print(f"With all figures: {book}/chapters/06_layers.html")

# %% tags=["hide-input"]
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.testing import assert_close

from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.layers import EncoderLayer
from transformer.plots import style
from transformer.plots.decoder_layer import decoder_layer
from transformer.plots.model_map import model_map
from transformer.plots.norm_placement import norm_placement
from transformer.plots.residual_stream import residual_stream
from transformer.plots.run_comparison import run_comparison
from transformer.plots.scale_by_layer import scale_by_layer
from transformer.plots.style import Captioned, Picture, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)


@torch.no_grad()
def first_vectors(build_layer, *arguments):
    """The vectors after 0 to 4 untrained layers (see "Which part slows down the collapse?")."""
    torch.manual_seed(0)
    vectors = [torch.randn(1, 8, 32).double()]
    for _ in range(4):
        layer = build_layer().double()
        for part in layer.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)
        vectors.append(layer(vectors[-1], *arguments))
    return [x[0] for x in vectors]


config = ModelConfig(d_model=32, n_heads=4, d_ff=128, n_layers=1, dropout=0)
rows = {
    "attention\nonly": first_vectors(lambda: MultiHeadAttention(32, n_heads=4)),
    "complete\nlayers": first_vectors(lambda: EncoderLayer(config), None),
}
with style.in_style():
    figure = Figure(figsize=(4.2, 2.2), layout="constrained")
    panels = figure.subplots(2, 4)
    for row, (name, vectors) in zip(panels, rows.items(), strict=True):
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
        for axes, depth in zip(row, (0, 1, 2, 4), strict=True):
            x = vectors[depth] / vectors[depth].std()
            axes.pcolormesh(x, cmap="BrBG", vmin=-2, vmax=2)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
    for axes, depth in zip(panels[0], (0, 1, 2, 4), strict=True):
        axes.set_title(
            "input" if depth == 0 else f"{depth} layer{'s' * (depth > 1)}"
        )
Picture(
    figure,
    alt=(
        "Two rows of four heat maps, each with eight rows, the vectors of eight words, "
        "at the input and after 1, 2 and 4 layers. With attention only, the rows are "
        "similar after one layer and identical after two. In complete layers they still "
        "differ after four."
    ),
    caption=(
        "Vectors of eight words (rows) in untrained layers, each square divided by its "
        "standard deviation. Attention alone soon makes all rows identical; after four "
        "complete layers they still differ."
    ),
)

# %% tags=["remove-cell"]
for x in rows["attention\nonly"][2:]:
    assert_close(
        x / x.std(), (x.mean(dim=0) / x.std()).expand_as(x), atol=0.01, rtol=0
    )

# %% [markdown]
# By the end you will be able to build the paper's encoder and decoder layers from their parts, explain what each part is for, and show a case in which the placement of the layer norm decides whether a model trains at all.
#
# **About 45 minutes.** The chapter builds on those from [Attention](02_attention.ipynb) to [Positional encoding](05_positional_encoding.ipynb).

# %% tags=["hide-input"]
Picture(
    model_map("encoder", "decoder"),
    alt=(
        "The map of the Transformer, with encoder and decoder side by side. "
        "Highlighted are both stacks of N layers. An encoder layer consists of "
        "self-attention and feed-forward, a decoder layer of masked self-attention, "
        "cross-attention and feed-forward, each followed by add and norm."
    ),
    caption=(
        "This chapter is about the highlighted layers. One vector per token goes in, "
        "and one of the same size comes out, so layers can be stacked; decoder layers "
        "also read the memory, the encoder's output."
    ),
)

# %% tags=["hide-input", "imports"]
import math
from itertools import islice
from statistics import median

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import transformer
from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.data.corpora import sentence_pairs
from transformer.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from transformer.positions import sinusoidal_encoding

# %% [markdown]
# ## Rank collapse: attention alone makes all positions alike
#
# The output of attention is a weighted average of values. Stack two attention layers, and you average averages: the vectors move closer to a common mean, and what is specific to a position gets lost. This is called **over-smoothing**, or **rank collapse**: a matrix whose rows are all the same has rank 1.
#
# <details><summary>Why are two layers enough?</summary>
#
# For the outputs of two positions to differ, three things are needed: their queries must differ, the keys must differ from each other (otherwise both get equal weights), and so must the values (otherwise all averages are the same). The difference between the outputs is roughly the product of these three, so once they are small, halving each of them leaves an eighth. Averaging also makes the vectors shorter and so the scores smaller, which speeds this up.
#
# </details>
#
# [Dong et al. (2021)](https://arxiv.org/abs/2103.03404) prove that in stacks of pure attention, with weights that aren't too large, the differences shrink faster than exponentially with depth.
#
# The paper puts three more parts into each layer (§3.1, §3.3): a **feed-forward network** that processes each position, a **residual connection** that keeps what was there before, and **layer normalisation**, which keeps activations at a constant scale.
# We look at each part, put them together, and then see which one slows the collapse down.

# %% [markdown]
# ## The feed-forward network
#
# The **position-wise feed-forward network**, called the **MLP** in many papers, widens a vector, sets negative values to zero with a **ReLU**, and narrows it again (§3.3, equation 2):
#
# $$ \mathrm{FFN}(x) = \max(0,\; x W_1 + b_1)\, W_2 + b_2 $$
#
# The numbers in between are its **hidden units** or **neurons**. Take vectors of two numbers and three hidden units. For $x = (1, 2)$ and the weights below, $x W_1 + b_1$ is $(3, -1, 0)$. The ReLU turns this into $(3, 0, 0)$, so the output is three times the first row of $W_2$:

# %%
W1 = torch.tensor([[1.0, -1, 1], [1, 0, -1]])  # (2, 3)
b1 = torch.tensor([0.0, 0, 1])
W2 = torch.tensor([[1.0, 0], [0, 1], [1, 1]])  # (3, 2)
b2 = torch.tensor([0.0, 0])
x = torch.tensor([[1.0, 2], [3, -1]])  # two positions
hidden = x @ W1 + b1  # (2, 3)
print("hidden", hidden)
print("ReLU  ", hidden.relu())
print("output", hidden.relu() @ W2 + b2)

# %% [markdown]
# In the package, the same network is a module with two linear layers. Dropout after the ReLU is an option that the paper doesn't use:

# %% tags=["remove-input"]
SourceCode(FeedForward)

# %% [markdown]
# *Position-wise* means that the same small network is applied to each position separately, as it was to the two rows above. Attention and the feed-forward network are called the **sublayers** of a layer, and they divide the work. **Attention moves information between positions, and the feed-forward network processes it within each position.**
#
# Why widen the vector? Each hidden unit tests the vector for one pattern and, where it finds the pattern, adds a multiple of one vector to the output. With more units, the network can respond to more patterns. The paper's choice is $d_\text{ff} = 4\,d_\text{model}$ units, 2,048 in the base model. BLEU was lower with 1,024 units and higher with 4,096 (Table 3, row C). At the paper's width, the two matrices of the feed-forward network have $8\,d_\text{model}^2$ weights, and the four matrices of attention have $4\,d_\text{model}^2$, so two thirds of an encoder layer's parameters are in the feed-forward network.

# %% tags=["remove-cell"]
layer = EncoderLayer(ModelConfig(100))
count = {
    p: sum(w.numel() for w in p.parameters()) for p in (layer, layer.feed_forward)
}
assert 0.66 < count[layer.feed_forward] / count[layer] < 0.67
norms = [p for residual in layer.residuals for p in residual.norm.parameters()]
assert len(norms) == 4 and sum(p.numel() for p in norms) < 0.01 * count[layer]

# %% [markdown]
# ### Why it needs a non-linearity
#
# Without the ReLU, the two linear layers would collapse into one:
#
# $$
# \begin{aligned}
# &(xW_1 + b_1)\,W_2 + b_2 \\
# &\qquad = x\,(W_1W_2) + (b_1W_2 + b_2)
# \end{aligned}
# $$
#
# With the ReLU, each hidden unit contributes a bend where it switches on or off, and with enough of them the network can approximate any continuous function.

# %% [markdown]
# ### What the hidden units respond to
#
# *Optional: no later chapter builds on this section.*
#
# You can read the feed-forward network as a lookup table, much like attention ([Geva et al., 2021](https://arxiv.org/abs/2012.14913)). Column $i$ of $W_1$ acts as a *key*: its dot product with $x$ shows how well $x$ matches it. Row $i$ of $W_2$ acts as a *value*, which is added in proportion to the match.
# A unit **is active** if its value after the ReLU is above zero.
#
# Do the units of a trained model respond to anything that we can name? The words *because*, *although*, *if*, *when* and *that* have something in common: in German, the verb of the clause that they introduce goes to the end. For example, *because the dog runs* is *weil der Hund **rennt***. A translator needs to know this, but nobody told it. The next cell, which is folded, records which of the 256 units in the second encoder layer of `pocket-small`, a small English-to-German translator, are active on which words. In 500 of its test sentences we search for the unit that best separates these **verb-final words** from all others, and test it on 500 more:

# %% tags=["hide-input"]
small = transformer.load("pocket-small", device="cpu")
feed_forward = small.model.encoder[1].feed_forward
active, ids = [], []
hook = feed_forward.dropout.register_forward_hook(
    lambda module, inputs, output: active.append(output[0] > 0)
)
with torch.no_grad():
    for english, _ in islice(sentence_pairs("pocket", "test"), 1000):
        sentence = small.encode(english)
        small.model.encode(torch.tensor([sentence]))
        ids += sentence
hook.remove()
half = sum(map(len, active[:500]))  # the tokens of the first 500 sentences
active = torch.cat(active).float()  # (tokens, d_ff)

verb_final = {"▁because", "▁although", "▁if", "▁when", "▁that"}
words = small.tokenizer.pieces(ids)
is_verb_final = torch.tensor([word in verb_final for word in words])


def rates(tokens):
    """How often each unit is active on verb-final words and on all others."""
    on, chosen = active[tokens], is_verb_final[tokens]
    return on[chosen].mean(dim=0), on[~chosen].mean(dim=0)  # (d_ff,) each


rate, rate_elsewhere = rates(slice(half))
unit = (rate - rate_elsewhere).argmax()
rate, rate_elsewhere = rates(slice(half, None))
print(f"unit {unit} is active on")
print(f"verb-final words {rate[unit]:.0%}")
print(f"all other words  {rate_elsewhere[unit]:.0%}")

# %% tags=["remove-cell"]
assert rate[unit] > 0.85 and rate_elsewhere[unit] < 0.03
assert is_verb_final[half:].sum() > 50

# %% [markdown]
# Among the words that occur at least five times in all 1,000 sentences, the chart shows the thirteen that activate this unit most often, and how often they do. Our five words are in blue:

# %% tags=["hide-input"]
counts = {}
for word in sorted(set(words)):
    at_word = torch.tensor([other == word for other in words])
    if at_word.sum() >= 5:
        counts[word] = int(active[at_word, unit].sum()), int(at_word.sum())
share = {word: 100 * n / total for word, (n, total) in counts.items()}
top = sorted(share, key=share.get)[-13:]
with style.in_style():
    figure, axes = style.new_figure(3.0, 3.5)
    colours = [style.QUERY if word in verb_final else style.PLAIN for word in top]
    labels = [f"{w.strip('▁')} ({counts[w][0]} of {counts[w][1]})" for w in top]
    axes.barh(labels, [share[w] for w in top], color=colours)
    axes.set_xlabel(f"unit {unit} is active (%)")
    axes.set_xlim(0, 100)
Picture(
    figure,
    alt=(
        "Bar chart of the words that most often activate one unit, with counts. "
        "Because, although and that are at the top, all near 100 per cent, followed "
        "by before and when. While is lower, among adjectives such as modern and "
        "bad, and if activates the unit about half of the time."
    ),
    caption=(
        "The words that most often activate one feed-forward unit. Most of the "
        "verb-final words that it was chosen for (blue) are near the top."
    ),
)

# %% tags=["remove-cell"]
assert verb_final <= set(top) and {"▁before", "▁while"} <= set(top)
assert {"▁bad", "▁modern"} <= set(top) and feed_forward.inner.out_features == 256
assert {"▁because", "▁although", "▁that"} == set(top[-3:])
assert 40 < share["▁if"] < 55 and counts["▁that"][1] > 5 * counts["▁if"][1]

# %% [markdown]
# *Before* and *while* are verb-final too, although they weren't on our list and the search counted them as errors. Still, the unit isn't a clean detector: on *if* it is active only about half of the time, and it also responds to some adjectives, such as *bad* and *modern*. Units that respond to several unrelated things are common, and are called **polysemantic neurons**.

# %% [markdown]
# ## Residual connections
#
# A **residual connection** or **skip connection** ([He et al., 2016](https://arxiv.org/abs/1512.03385)) adds a sublayer's input to its output: $f(x)$ becomes $x + f(x)$. Whatever $f$ does, $x$ is part of the sum.
#
# Why does this help training? The gradient has to travel back through all layers, and each layer multiplies it by its derivative. If that derivative is 0.1 in each layer, only $0.1^{12} = 10^{-12}$ of the gradient is left after twelve layers: a **vanishing gradient**. With a residual
# connection the derivative is $1 + 0.1$, and $1.1^{12} \approx 3.1$. The 1 gives the gradient a direct path.
#
# We measure the gradient in twelve feed-forward networks, first in a plain chain, then with residual connections. `initialise` sets a layer's weights the way the package does (see [the next chapter](07_full_model.ipynb)):


# %%
def initialise(module):
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)
    return module


# %%
def gradient_norms(residual):
    torch.manual_seed(0)
    x = torch.randn(64, 32, requires_grad=True)
    outputs = []
    for _ in range(12):
        output = initialise(FeedForward(32, 128))(x)
        x = x + output if residual else output
        x.retain_grad()
        outputs.append(x)
    (x * torch.randn(64, 32)).sum().backward()  # a random direction
    return [output.grad.norm().item() for output in outputs]


# %%
gradients = {
    "plain chain": gradient_norms(residual=False),
    "residual": gradient_norms(residual=True),
}

# %% tags=["hide-input"]
Picture(
    scale_by_layer(gradients, "Gradient at the output of each layer"),
    alt=(
        "Gradient norms of twelve layers on a logarithmic axis. In a plain chain the "
        "gradient shrinks by a factor of several hundred from the last layer to the "
        "first. With residual connections it grows several times over."
    ),
    caption=(
        "Gradient at the output of each of twelve layers: going back from the "
        "last, it shrinks in a plain chain, but not with residual connections."
    ),
)

# %% tags=["remove-cell"]
plain, residual = gradients.values()
assert plain[0] < plain[-1] / 200
assert 5 * residual[-1] < residual[0] < 20 * residual[-1]
assert abs(1.1**12 - 3.1) < 0.05

# %% [markdown]
# Read the plot from right to left, the way the gradient travels: it shrinks by a factor of several hundred in the plain chain, whereas with residual connections it grows more than fivefold, which is harmless.
#
# For each position, the residual connections form one long path from the embedding to the output, the **residual stream**. Every sublayer reads from the stream and adds something to it. Many papers on the inner workings of Transformers take this view ([Elhage et al., 2021](https://transformer-circuits.pub/2021/framework/index.html)).

# %% [markdown]
# ## Layer normalisation
#
# Large vectors make attention scores large, which saturates the softmax. So a sublayer should read vectors of a fixed scale. **Layer normalisation** ([Ba et al., 2016](https://arxiv.org/abs/1607.06450)), or *layer norm*, brings each vector to mean 0 and variance 1. By hand, for $x = (0, 6, 6, 8)$:
#
# - the mean is $20/4 = 5$, so the deviations from it are $(-5, 1, 1, 3)$;
# - the variance is the mean of their squares, $(25 + 1 + 1 + 9)/4 = 9$;
# - dividing the deviations by $\sqrt 9 = 3$ gives $(-1.67, 0.33, 0.33, 1)$.
#
# In the formula, $\mu$ is the mean and $\sigma^2$ the variance, and a tiny $\varepsilon$ prevents division by zero. Finally each dimension gets a learned gain $\gamma$ and a learned bias $\beta$, which start at 1 and 0:
#
# $$ \mathrm{LN}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta $$


# %%
def layer_norm(x, gamma=1.0, beta=0.0, eps=1e-5):
    deviation = x - x.mean(dim=-1, keepdim=True)
    # Not x.var(), which divides by n - 1:
    variance = deviation.square().mean(dim=-1, keepdim=True)
    return gamma * deviation / (variance + eps).sqrt() + beta


print(layer_norm(torch.tensor([0.0, 6, 6, 8])))
x = torch.randn(2, 5, 32)
assert_close(layer_norm(x), F.layer_norm(x, (32,)))

# %% [markdown]
# Layer norm removes the mean and the scale of a vector. **What remains is the direction** of the deviations: multiply a vector by 10 or add 7 to all its values, and its layer norm stays the same. The next figure shows this for vectors of three numbers. Once each vector's mean is subtracted, the vectors lie in a plane. Dividing by $\sigma$ then moves each one straight towards or away from the centre, onto a circle of radius $\sqrt 3$.

# %% tags=["hide-input"]
torch.manual_seed(2)
basis = torch.tensor([[1.0, -1, 0], [1, 1, -2]])
basis = basis / basis.norm(dim=-1, keepdim=True)  # perpendicular to (1, 1, 1)
angle = torch.arange(36) * 2 * math.pi / 36
radius = 0.2 + 4 * torch.rand(36, 1)
vectors = radius * torch.stack([angle.cos(), angle.sin()], dim=1) @ basis
vectors = vectors + torch.randn(36, 1)  # (36, 3), with different means
before, after = vectors @ basis.T, layer_norm(vectors) @ basis.T  # (36, 2)
with style.in_style():
    figure, axes = style.new_figure(3.4, 3.6)
    axes.plot(
        *torch.stack([before, after]).unbind(-1), color=style.PLAIN, linewidth=0.8
    )
    axes.plot(*before.T, "o", color=style.PLAIN, markersize=5, label="before")
    axes.plot(*after.T, "D", color=style.OUTPUT, markersize=5, label="after")
    axes.set_aspect("equal")
    axes.axis("off")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2)
    axes.set_title("Layer norm of 36 vectors")
Picture(
    figure,
    alt=(
        "Thirty-six vectors of three numbers, seen along the diagonal (1, 1, 1). "
        "Before layer normalisation they are scattered at all distances from the "
        "centre. After it every one lies on a circle, straight outwards or inwards "
        "from where it was."
    ),
    caption=(
        "Vectors of three numbers, seen along the diagonal, before (grey) and after "
        "layer normalisation (pink): each one moves straight onto a circle."
    ),
)

# %% [markdown]
# <details><summary>Why not batch normalisation?</summary>
#
# **Batch normalisation** normalises each dimension over all positions of all sentences in the batch ([Ioffe and Szegedy, 2015](https://arxiv.org/abs/1502.03167)). During training, the output for a sentence would then depend on the other sentences in the batch and on the padding, and in the decoder even on future
# tokens. Layer norm normalises one position at a time.
#
# </details>

# %% [markdown]
# ## Post-norm and pre-norm
#
# Where does the layer norm, or *norm* for short, go? The figure shows the two usual places in an encoder layer. Follow the pink line, the residual stream, from bottom to top. With **post-norm**, the paper's choice, the norm is *on* the stream and rescales it after each addition. With **pre-norm**, which the authors' library, Tensor2Tensor, [adopted later](https://github.com/tensorflow/tensor2tensor/blob/master/tensor2tensor/models/transformer.py), the norm is on the *branch*:
# sublayers read a normalised copy, and the stream is changed only by addition. So the gradient comes back down the pink line unchanged, whereas in post-norm it has to pass through every norm. The price: the stream can grow, so later sublayers change it less and less, and one more norm after the last layer has to bring it back to scale.

# %% tags=["hide-input"]
Picture(
    norm_placement(),
    alt=(
        "Two encoder layers, each a stream that runs upwards and two branches that "
        "leave it and are added back: attention, then feed-forward. In post-norm a "
        "norm is on the stream after each addition. In pre-norm a norm is at the "
        "beginning of each branch, the stream has only the two additions, and one "
        "more norm comes once, after the last layer."
    ),
    caption=(
        "Where the norm goes: on the residual stream (pink) in post-norm, at the "
        "start of each branch in pre-norm."
    ),
)

# %% [markdown]
# As formulas, post-norm is $\mathrm{LN}(x + \mathrm{Sublayer}(x))$ and pre-norm is $x + \mathrm{Sublayer}(\mathrm{LN}(x))$. In the package, one class does both:

# %% tags=["remove-input"]
SourceCode(Residual)

# %% [markdown]
# `sublayer` is a function, such as a feed-forward network. **Dropout** (§5.4) reduces overfitting, the memorising of training data. During training it sets each value of the sublayer's output to zero with a fixed probability (0.1 in the base model) and divides the rest by 0.9, so the expected value is unchanged. At inference it does nothing.

# %% [markdown]
# **Compare the two placements.** Tick the box for pre-norm, then increase the scale of the sublayers' weights (each sublayer is just a random matrix here). What happens to the size of the stream, and to its similarity to the input, which shows how much of the input is left?
#
# <div class="widget" data-widget="norm">
#
# *This figure is interactive in the [online book](https://transformer-course.github.io/transformer-course/chapters/06_layers.html) (with JavaScript) and in the notebook (run the next cell). Its initial state, with post-norm, four layers and an input of mean square 1:*
#
# | sublayer | mean square of its output | mean square of the stream | cosine with the input | cosine with the input (pre-norm) |
# |---|---|---|---|---|
# | 1, attention | 1.20 | 1.00 | 0.72 | 0.72 |
# | 1, feed-forward | 1.02 | 1.00 | 0.50 | 0.59 |
# | 2, attention | 0.82 | 1.00 | 0.39 | 0.55 |
# | 2, feed-forward | 0.91 | 1.00 | 0.34 | 0.57 |
# | 3, attention | 1.00 | 1.00 | 0.35 | 0.56 |
# | 3, feed-forward | 0.90 | 1.00 | 0.29 | 0.55 |
# | 4, attention | 0.95 | 1.00 | 0.04 | 0.51 |
# | 4, feed-forward | 0.91 | 1.00 | -0.08 | 0.49 |
#
# </div>
#
# <details><summary>Answer</summary>
#
# With pre-norm the stream grows, and with post-norm its mean square stays at 1. As the scale grows, both lose their similarity to the input, post-norm sooner. That holds on average; individual random seeds differ.
#
# </details>


# %% tags=["remove-cell"]
def random_sublayers(norm, scale, seed):
    """The final mean square of a stream, and its cosine with the input."""
    torch.manual_seed(seed)
    first = x = F.layer_norm(torch.randn(64), (64,))
    for _ in range(8):
        matrix = torch.randn(64, 64) * scale / 8
        if norm == "pre":
            x = x + matrix @ F.layer_norm(x, (64,))
        else:
            x = F.layer_norm(x + matrix @ x, (64,))
    return x.square().mean(), F.cosine_similarity(x, first, dim=0)


means = {
    (norm, scale): torch.tensor(
        [random_sublayers(norm, scale, seed) for seed in range(60)]
    ).mean(dim=0)
    for norm in ("post", "pre")
    for scale in (0.5, 1, 2)
}
for norm in ("post", "pre"):
    falling = [means[norm, scale][1].item() for scale in (0.5, 1, 2)]
    assert falling == sorted(falling, reverse=True)
for scale in (0.5, 1, 2):
    assert means["pre", scale][1] > means["post", scale][1] + 0.1
    assert abs(means["post", scale][0] - 1) < 0.01 and means["pre", scale][0] > 2

# %% [markdown]
# ## The encoder layer
#
# An **encoder layer** consists of two sublayers, self-attention and the feed-forward network, each with its own residual connection, layer norm and dropout. At the paper's sizes, its parts are:
#
# | part | what it does | acts | parameters |
# |---|---|---|---|
# | self-attention | moves information between positions | across positions | a third |
# | feed-forward network | processes each vector | at each position | two thirds |
# | residual connection | adds a change to the vector instead of replacing it | at each position | none |
# | layer norm | keeps activations at a constant scale | at each position | less than 1% |
#
# Here it is with post-norm and without dropout, written out with the parts of the package's layer:


# %%
def small_config(norm="post"):
    return ModelConfig(
        d_model=32, n_heads=4, d_ff=128, n_layers=1, dropout=0, norm=norm
    )


# %%
torch.manual_seed(0)
layer = EncoderLayer(small_config(norm="post"))
norm_1, norm_2 = (residual.norm for residual in layer.residuals)
x = torch.randn(2, 6, 32)  # (batch, source, d_model)
no_padding = torch.ones(1, 6).bool()

y = norm_1(x + layer.self_attention(x, mask=no_padding))
y = norm_2(y + layer.feed_forward(y))
assert_close(y, layer(x, no_padding))
print("equal to the package's encoder layer")

# %% [markdown]
# The paper stacks six of these layers, each with its own weights. PyTorch's version is `nn.TransformerEncoderLayer`, and this is the package's:

# %% tags=["remove-input"]
SourceCode(EncoderLayer)

# %% [markdown]
# `build_attention` makes a `MultiHeadAttention`, and `ActivationCheckpointedLayer` is an `nn.Module` that can save memory in training. The `lambda` fixes the mask, because `Residual` calls its sublayer with a single argument.

# %% tags=["remove-cell"]
of_torch = nn.TransformerEncoderLayer(32, 4, 128, dropout=0, batch_first=True)
attended, _ = of_torch.self_attn(query=x, key=x, value=x)
y = of_torch.norm1(x + attended)
fed_forward = of_torch.linear2(of_torch.linear1(y).relu())
assert_close(of_torch.norm2(y + fed_forward), of_torch(x))

# %% [markdown]
# ### Which part slows down the collapse?
#
# Back to the question that the first figure raised. `stack` sends eight random vectors through twelve untrained layers and returns the vectors after each of them. `variation` measures how different they are: it subtracts the mean over all positions from each vector, and divides the mean square of what is left by the mean square of the original vectors. The result is 0 if all positions have the same vector, and 7/8 on average for eight independent random vectors, our input.


# %%
@torch.no_grad()
def stack(build_layer, *arguments, seed=0):
    torch.manual_seed(seed)
    vectors = [torch.randn(1, 8, 32).double()]  # float32 would round too much
    for _ in range(12):
        layer = initialise(build_layer()).double()
        vectors.append(layer(vectors[-1], *arguments))
    return vectors


def variation(x):
    """How much the vectors of x, (..., length, d_model), differ."""
    mean = x.mean(dim=-2, keepdim=True)
    return ((x - mean).square().mean() / x.square().mean()).item()


# %% [markdown]
# We add each of the three parts to attention, without the other two:


# %%
class AttentionPlus(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = MultiHeadAttention(32, n_heads=4)
        self.feed_forward = FeedForward(32, 128)

    def forward(self, x, part):
        y = self.attention(x)
        if part == "residual":
            return x + y
        if part == "feed-forward":
            return self.feed_forward(y)
        return F.layer_norm(y, (32,))


# %% [markdown]
# The table shows the variation after 1, 2, 4 and 12 layers, the median of nine random seeds. Values below the rounding error are shown as 0:

# %%
stacks = {
    "attention only": (lambda: MultiHeadAttention(32, n_heads=4),),
    "+ feed-forward": (AttentionPlus, "feed-forward"),
    "+ layer norm": (AttentionPlus, "layer norm"),
    "+ residual": (AttentionPlus, "residual"),
    "complete, post-norm": (lambda: EncoderLayer(small_config("post")), None),
    "complete, pre-norm": (lambda: EncoderLayer(small_config("pre")), None),
}

# %%
depths = (1, 2, 4, 12)
medians = {}
print(f"{'layers':19}", *(f"{depth:6}" for depth in depths))
for name, arguments in stacks.items():
    runs = [stack(*arguments, seed=seed) for seed in range(9)]
    medians[name] = [
        median(variation(run[depth]) for run in runs) for depth in depths
    ]
    values = [value if value > 1e-25 else 0 for value in medians[name]]
    print(f"{name:19}", *(f"{value:6.1g}" for value in values))

# %% tags=["remove-cell"]
attention_only = stack(lambda: MultiHeadAttention(32, n_heads=4))
assert variation(attention_only[2]) < 1e-4 and variation(attention_only[3]) < 1e-12
assert attention_only[1].square().mean() < 0.2 * attention_only[0].square().mean()
torch.manual_seed(0)
attend = initialise(MultiHeadAttention(32, n_heads=4)).double()
common, different = torch.randn(1, 1, 32).double(), torch.randn(1, 8, 32).double()
different = different - different.mean(dim=1, keepdim=True)
spreads = []
with torch.no_grad():
    for scale in (0.2, 0.1):
        attended = attend(common + scale * different)
        spreads.append(attended.std(dim=1).norm().item())
assert 7.5 < spreads[0] / spreads[1] < 8.5, "halving them leaves an eighth"


def sharp_attention():
    """Attention in which each position attends to itself alone."""
    layer = initialise(MultiHeadAttention(32, n_heads=4))
    with torch.no_grad():
        for number, part in enumerate(layer.query_key_value.weight.chunk(3)):
            part.copy_(torch.eye(32) * (3 if number < 2 else 1))
        layer.output.weight.copy_(torch.eye(32))
    return layer


torch.manual_seed(0)
with torch.no_grad():
    x = torch.randn(1, 8, 32)
    for _ in range(12):
        x = sharp_attention()(x)
assert variation(x) > 0.5  # it averages nothing
for name in ("attention only", "+ feed-forward", "+ layer norm"):
    assert medians[name][1] < 1e-3 and medians[name][2] < 1e-20
for name in ("+ residual", "complete, post-norm", "complete, pre-norm"):
    assert medians[name][2] > 0.3
assert 10 * medians["attention only"][1] < medians["+ layer norm"][1]
at_the_end = [medians[name][-1] for name in list(stacks)[-3:]]
assert 1.5 * at_the_end[1] < at_the_end[0] < at_the_end[2] / 1.5


class WithoutNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = (
            MultiHeadAttention(32, n_heads=4),
            FeedForward(32, 128),
        )

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.feed_forward(x)


def median_variation(*arguments):
    return median(variation(stack(*arguments, seed=seed)[-1]) for seed in range(60))


without_norms = median_variation(WithoutNorms)
assert 1.5 * without_norms < median_variation(AttentionPlus, "residual")
assert without_norms < 2 * median_variation(*stacks["complete, post-norm"])

# %% [markdown]
# **The residual connection slows the collapse down enormously.** In this test, the feed-forward network doesn't slow it down at all. Layer norm does, but only a little: it makes the vectors longer, not more different.
#
# <details><summary>What has been proved</summary>
#
# Dong et al. prove that with skip connections, attention need not collapse. They also find that feed-forward networks can slow the collapse down; our untrained ones are too weak for that. They conclude that layer norm plays no role, but [Wu et al. (2024)](https://arxiv.org/abs/2405.18781) prove that for suitable value matrices, it can prevent the collapse.
#
# </details>
#
# But look at the last column. After twelve untrained layers, complete post-norm layers have kept even less of the differences than the residual connection alone, mainly because their untrained feed-forward networks add similar vectors at all positions. Pre-norm layers have kept the most: their stream grows, as in the interactive figure above, so later sublayers change it less and less. Later, we'll see a post-norm model collapse during training, for another reason.

# %% [markdown]
# ## The decoder layer
#
# A decoder layer has **three sublayers**. The new one, in the middle, is **cross-attention**: it reads from the encoder's output, the **memory**. In the figure, follow the stream upwards again and notice where the queries, keys and values of cross-attention come from.

# %% tags=["hide-input"]
Picture(
    decoder_layer(),
    alt=(
        "A decoder layer with post-norm. The residual stream of the target runs "
        "upwards past three sublayers, each on a branch that is added back, followed "
        "by a norm: self-attention with a causal mask, cross-attention, and "
        "feed-forward. Cross-attention gets its queries from the stream and its keys "
        "and values from the memory, the encoder's output, at the right."
    ),
    caption=(
        "The three sublayers of a decoder layer. Cross-attention takes its queries "
        "from the residual stream (pink) and its keys and values from the memory."
    ),
)

# %% [markdown]
# Suppose the model is translating *A dog runs* and has generated *Ein Hund* (a dog) so far. Follow the position of *Hund*, which has to predict the next word:
#
# 1. **Self-attention** attends to the target so far: `<bos>`, *Ein* and *Hund*, but nothing later, because of the causal mask. The vector can now contain "I am a subject, and a verb is due".
# 2. **Cross-attention** takes its query from this vector, and its keys and values from the memory. If the query matches the key of *runs*, the value of *runs* passes through the output projection and is added to the stream.
# 3. **The feed-forward network** combines the two pieces of information within the position: a verb is due, and its meaning is *run*.
#
# After the last layer, the vector at *Hund* gives one logit for each token, and ideally *rennt* (runs) has the largest. In training, with teacher forcing, all target positions do this at once. Real heads are rarely as tidy as this story: see [What attention heads do](14_attention_heads.ipynb).
#
# In code, each sublayer is one statement:

# %%
layer = DecoderLayer(small_config(norm="post"))
norm_1, norm_2, norm_3 = (residual.norm for residual in layer.residuals)
x = torch.randn(2, 6, 32)  # (batch, target, d_model)
memory = torch.randn(2, 5, 32)  # (batch, source, d_model)
causal = torch.ones(6, 6).bool().tril()
no_padding = torch.ones(1, 5).bool()

y = norm_1(x + layer.self_attention(x, mask=causal))
y = norm_2(y + layer.cross_attention(y, memory, mask=no_padding))
y = norm_3(y + layer.feed_forward(y))
assert_close(y, layer(x, memory, causal, no_padding))
print("equal to the package's decoder layer")

# %% [markdown]
# ## The residual stream of a trained model
#
# Now we follow a sentence through the trained encoder of `multi30k`, which has four layers with pre-norm. `record` attaches a **forward hook** to a part of the model: a function that PyTorch calls with the part's output each time the part runs. Ours stores this output:

# %%
translator = transformer.load("multi30k", device="cpu")
model = translator.model
ids = torch.tensor([translator.encode("A dog runs across the field.")])
names, vectors, hooks = [], [], []


def record(part, name):
    def hook(module, inputs, output):
        names.append(name)
        vectors.append(output[0])

    hooks.append(part.register_forward_hook(hook))


# %% [markdown]
# In each layer we record the vectors after both norms, both sublayers and both additions:

# %%
record(model.dropout, "embedding")
for n, layer in enumerate(model.encoder, 1):
    for part, residual in zip(
        ("attention", "feed-forward"), layer.residuals, strict=True
    ):
        record(residual.norm, f"layer {n}, norm")
        record(residual.dropout, f"layer {n}, {part} output")
        record(residual, f"layer {n}, {part} added")
record(model.encoder_norm, "final norm")
with torch.no_grad():
    model.encode(ids)
for hook in hooks:
    hook.remove()

# %% [markdown]
# **Move the slider through the stages** and watch three things:
#
# - After every stage called *norm*, all words have similar standard deviations (neither 1 nor equal, because of the learned γ and β). From the first feed-forward network on, they differ widely after every stage called *added*.
# - The standard deviation of the stream **grows** from layer to layer.
# - For most words the cosine with the embedding falls only slowly: even after four layers, their vectors remember which word they started from.
#
# *A* and the full stop are exceptions: from the first layer on, the feed-forward networks add very large vectors to them. Large language models show a more extreme form of this, **massive activations**: a few huge values, mostly at the first token and at delimiters ([Sun et al., 2024](https://arxiv.org/abs/2402.17762)).

# %% tags=["hide-input"]
Captioned(
    residual_stream(
        torch.stack(vectors),
        names,
        translator.tokenizer.pieces(ids[0]),
        description=(
            "A slider goes through 26 stages of a sentence in a trained encoder: "
            "the embedding, then in each of four layers norm, attention, sum, "
            "norm, feed-forward, sum, and the final norm. Two bar charts show the "
            "standard deviation of each word's vector there and its cosine with "
            "the embedding. The standard deviation of the sums grows, and "
            "for most words the cosine falls slowly."
        ),
        initial=names.index("layer 1, feed-forward added"),
    ),
    (
        "Standard deviation and direction of each word's vector at one stage of a "
        "trained encoder. Along the residual stream, the standard deviation grows."
    ),
)

# %% tags=["remove-cell"]
deviations = torch.stack(vectors).std(dim=-1)  # (stages, words)
sums = [i for i, name in enumerate(names) if name.endswith("added")]
assert deviations[sums[-1]].mean() > 2 * deviations[0].mean()
spread = deviations[sums].max(dim=-1).values / deviations[sums].min(dim=-1).values
assert spread[0] < 2 < 3 < spread[1:].min()
assert torch.cosine_similarity(vectors[sums[-1]], vectors[0], dim=-1).mean() > 0.1
lengths = vectors[names.index("layer 1, feed-forward output")].norm(dim=-1)
largest = lengths.topk(3).indices[:2]
assert lengths.topk(3).values[1] > 1.5 * lengths.topk(3).values[2]
assert {translator.tokenizer.pieces(ids[0])[i] for i in largest} == {"▁A", "."}

# %% [markdown]
# Is the stream really changed by nothing but addition? If so, the stream after the last layer must equal the encoder's input plus the outputs of all eight sublayers:

# %%
outputs = [vectors[i] for i, name in enumerate(names) if "output" in name]
stream = vectors[names.index("layer 4, feed-forward added")]
assert_close(vectors[0] + torch.stack(outputs).sum(dim=0), stream)
print("yes: input + outputs of eight sublayers")

# %% [markdown]
# ## Learning-rate warm-up with post-norm and pre-norm
#
# Does the placement of the norm matter for training? We test this on a task that is learned quickly: **sorting**. The input is six letters, each drawn at random from twelve, and at each position the model predicts which letter is there once they are sorted. Even without reading the letters, a model can do better than guessing uniformly, because the first of six sorted letters tends to be an early one. The lowest loss that it can reach this way is the entropy of the sorted letter at a position, averaged over the six positions:

# %%
letters = torch.randint(12, (20_000, 6)).sort().values
shares = F.one_hot(letters, 12).double().mean(dim=0)  # (position, letter)
entropy = -torch.special.xlogy(shares, shares).sum(dim=-1)
print(f"uniform guessing, ln 12     {math.log(12):.2f}")
print(f"best without reading        {entropy.mean():.2f}")

# %% [markdown]
# Our model has six encoder layers. If its loss falls below 1.90, it must be reading the letters:


# %%
class Sorter(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.embedding = nn.Embedding(12, 32)  # variance 1: needs no factor
        layers = [EncoderLayer(small_config(norm)) for _ in range(6)]
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(32) if norm == "pre" else nn.Identity()
        self.output = nn.Linear(32, 12)
        initialise(self)

    def forward(self, letters):
        x = self.embedding(letters) + sinusoidal_encoding(6, 32)
        for layer in self.layers:
            x = layer(x, None)  # no mask: there is no padding
        self.variation = variation(x.detach())  # for the last figure
        return self.output(self.norm(x))  # (batch, 6, 12)


# %% tags=["remove-cell"]
def at_most(letter, position):
    """The probability that this position of the sorted letters has at most letter."""
    p = (letter + 1) / 12
    return sum(
        math.comb(6, n) * p**n * (1 - p) ** (6 - n) for n in range(position + 1, 7)
    )


letters = torch.arange(-1, 12).tolist()
loss_by_position = []
for position in range(6):
    distribution = torch.tensor([at_most(n, position) for n in letters]).diff()
    loss_by_position.append(-torch.special.xlogy(distribution, distribution).sum())
position_only = torch.stack(loss_by_position).mean().item()
assert abs(position_only - 1.90) < 0.005
assert abs(entropy.mean() - position_only) < 0.01

# %% [markdown]
# The paper uses a **learning-rate warm-up** (§5.3): the learning rate rises linearly in the first steps of training. Here it rises for 60 steps and then stays constant. Without warm-up, the learning rate has its full value from step 1. All runs start from the same weights and see the same data.


# %%
def train(norm, warmup, learning_rate, steps=160, seed=0):
    torch.manual_seed(seed)
    model, losses, variations = Sorter(norm), [], []
    parameters, betas = model.parameters(), (0.9, 0.98)
    optimizer = torch.optim.Adam(parameters, betas=betas, fused=True)
    for step in range(1, steps + 1):
        lr = learning_rate * min(1, step / warmup)
        optimizer.param_groups[0]["lr"] = lr
        letters = torch.randint(12, (16, 6))
        loss = F.cross_entropy(model(letters).mT, letters.sort().values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        variations.append(model.variation)
    return model, losses, variations


# %%
warmups = {"warm-up": 60, "no warm-up": 1}
learning_rates = (0.001, 0.003, 0.01)
losses, variations = {}, {}
for norm in ("post", "pre"):
    for name, warmup in warmups.items():
        for lr in learning_rates:
            run = norm, name, lr
            _, losses[run], variations[run] = train(norm, warmup, lr)

# %% [markdown]
# The table shows the loss at the end, averaged over the last 30 steps:

# %%
final = {run: sum(values[-30:]) / 30 for run, values in losses.items()}
print("learning rate    ", *(f"{lr:6}" for lr in learning_rates))
for norm in ("post", "pre"):
    for name in warmups:
        row = [final[norm, name, lr] for lr in learning_rates]
        print(f"{norm:4} {name:12}", *(f"{loss:6.2f}" for loss in row))

# %% [markdown]
# **Choose a learning rate** and compare the curves:

# %% tags=["hide-input"]
Captioned(
    run_comparison(
        losses,
        reference=("uniform guessing, ln 12", math.log(12)),
        learning_rate=0.01,
        description=(
            "Training loss over 160 steps, four lines: post-norm and pre-norm, "
            "each with and without warm-up. Buttons choose the learning rate and "
            "the norm. At learning rate 0.01, post-norm without warm-up stays at "
            "the level of guessing, 2.48, and the other three fall below 1.2. At "
            "the lower learning rates all four fall."
        ),
    ),
    (
        "Training loss of four models on a sorting task. At the highest learning "
        "rate, post-norm without warm-up learns nothing."
    ),
)

# %% tags=["remove-cell"]
failed = final.pop(("post", "no warm-up", 0.01))
assert abs(failed - math.log(12)) < 0.1, "has learned nothing"
assert max(final.values()) < position_only, "all others read the letters"
assert final["post", "warm-up", 0.01] < 1.4
assert max(final["pre", name, 0.01] for name in warmups) < 1
for norm in ("post", "pre"):
    assert final[norm, "no warm-up", 0.001] < final[norm, "warm-up", 0.001] - 0.1
for seed in (1, 2):
    ends = [
        sum(train(n, 1, 0.01, seed=seed)[1][-30:]) / 30 for n in ("post", "pre")
    ]
    assert abs(ends[0] - math.log(12)) < 0.1 and ends[1] < 1

# %% [markdown]
# Eleven of the twelve runs learn. At the highest learning rate and without warm-up, post-norm learns *nothing*: the loss stays at the level of uniform guessing. A warm-up is enough to save it, and pre-norm learns even without one. Two more random seeds give the same result. (The paper's post-norm models have a warm-up of 4,000 steps. Most models today use pre-norm, and still have a warm-up. In [our experiments](../book/experiments.md) with translators, a learning rate that started far too high harmed pre-norm, too.)
#
# In the end, the failed run looks like the stack of attention at the start of this chapter: all its positions have practically the same vector, so the model can only predict the same distribution for each. Averaged over the six positions, all twelve letters are equally frequent, so the best single distribution is the uniform one, and its loss is $\ln 12$.
#
# ### What went wrong in the failed run?
#
# *Optional: no later chapter builds on this section.*
#
# How different are the six positions' vectors after the last layer? The plot shows their `variation` over the first 80 steps, at learning rate 0.01. Compare the orange line with the other two.

# %% tags=["hide-input"]
shown = {
    "post-norm, warm-up": ("post", "warm-up"),
    "post-norm, no warm-up": ("post", "no warm-up"),
    "pre-norm, no warm-up": ("pre", "no warm-up"),
}
styles = ((style.VALUE, "-."), (style.WRONG, "-"), (style.QUERY, "--"))
with style.in_style():
    figure, axes = style.new_figure(4.8, 3)
    for (label, run), (colour, dashes) in zip(shown.items(), styles, strict=True):
        values = variations[(*run, 0.01)][:80]
        axes.semilogy(values, dashes, color=colour, label=label)
    axes.set_xlabel("training step")
    axes.set_title("Variation between positions, last layer", loc="left")
    axes.grid(True)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))
Picture(
    figure,
    alt=(
        "Variation between positions over the first 80 training steps, logarithmic. "
        "Post-norm without warm-up falls below a hundredth after one step, below a "
        "millionth within ten, and never returns. Post-norm with warm-up and "
        "pre-norm without fall to about a hundredth and recover by step 40."
    ),
    caption=(
        "How different the vectors of the positions are in the first half of "
        "training. With post-norm and no warm-up they collapse into one; the other "
        "runs recover."
    ),
)

# %% tags=["remove-cell"]
post, pre = (
    variations["post", "no warm-up", 0.01],
    variations["pre", "no warm-up", 0.01],
)
assert post[1] < 0.01 * post[0] and max(post[10:]) < 1e-6
assert min(pre) > 1e-3 and pre[60] > 0.1
before, after = (train("post", 1, 0.01, steps=n)[0] for n in (0, 1))
parameters = zip(before.parameters(), after.parameters(), strict=True)
moved = torch.cat([(b - a).abs().flatten() for a, b in parameters])
assert ((moved - 0.01).abs() < 1e-4).float().mean() > 0.9

# Pre-norm: the differences stay in the stream, and its common part grows.
streams = []
for steps in (0, 10):
    model = train("pre", 1, 0.01, steps=steps)[0]
    last = model.layers[-1]
    last.register_forward_hook(
        lambda module, inputs, output: streams.append(output)
    )
    model(torch.randint(12, (16, 6)))
common = [x.mean(dim=-2, keepdim=True) for x in streams]
differences = [x - mean for x, mean in zip(streams, common, strict=True)]
assert differences[1].square().mean() > 0.8 * differences[0].square().mean()
assert common[1].square().mean() > 10 * common[0].square().mean()

# %% [markdown]
# The cause of this collapse differs from that in the stack of attention: the residual connections are there, but they don't help. The optimiser, Adam, divides each gradient by that gradient's recent size, as [Training](11_training.ipynb) explains. So its very first step moves nearly every weight by the full learning rate, however small the gradient. To see what such steps do, compare the mean square and the variation of the first feed-forward network's output, before training and after ten steps:

# %%
letters = torch.randint(12, (16, 6))
outputs = []
for steps in (0, 10):
    sorter, _, _ = train("post", 1, 0.01, steps=steps)
    sorter.layers[0].feed_forward.register_forward_hook(
        lambda module, inputs, output: outputs.append(output)
    )
    sorter(letters)
    size, value = outputs[-1].square().mean(), variation(outputs[-1])
    print(f"{steps:2} steps:  mean square {size:.2f}  variation {value:.2f}")

# %% tags=["remove-cell"]
untrained, trained = outputs
assert trained.square().mean() > 3 * untrained.square().mean()
assert variation(trained) < 0.5 * variation(untrained)
# %% [markdown]
# After ten steps, the sublayer adds a larger vector, and nearly the same one at every position. With post-norm, the norm scales the sum back to variance 1, and so divides the differences between positions by the standard deviation of the sum. Here are the twelve divisors after ten steps, from the first norm to the last, with and without warm-up:


# %%
def norm_divisors(model):
    divisors = []
    for layer in model.layers:
        for residual in layer.residuals:
            residual.norm.register_forward_pre_hook(
                lambda module, inputs: divisors.append(inputs[0].std(dim=-1).mean())
            )
    model(letters)
    return divisors


for name, warmup in warmups.items():
    divisors = norm_divisors(train("post", warmup, 0.01, steps=10)[0])
    print(f"{name}: product {math.prod(divisors):,.0f}")
    print(*(f"{divisor:.1f}" for divisor in divisors))

# %% tags=["remove-cell"]
assert 20_000 < math.prod(divisors) < 200_000 and min(divisors) > 1.5
gentle = norm_divisors(train("post", max(warmups.values()), 0.01, steps=10)[0])
assert 10 < math.prod(gentle) < 50

# %% [markdown]
# Without warm-up, they divide the differences by tens of thousands in all, so hardly any difference is left. With a warm-up, the first ten steps are so small that all divisors stay small, and the positions stay different. On its way back along the stream, the gradient is divided by the same factors, although some of it also passes through the sublayers. Without warm-up, we compare the gradient of the first weight matrix of the feed-forward network in the first and the last layer:

# %%
for norm in ("post", "pre"):
    sorter, _, _ = train(norm, 1, 0.01, steps=10)
    first, last = (
        sorter.layers[n].feed_forward.inner.weight.grad.norm() for n in (0, -1)
    )
    print(f"{norm:4}:  layer 1 {first:.1g}  layer 6 {last:.1g}")

# %% tags=["remove-cell"]
assert last / 3 < first < 3 * last  # pre-norm
sorter, _, _ = train("post", 1, 0.01, steps=10)
first, last = (
    sorter.layers[n].feed_forward.inner.weight.grad.norm() for n in (0, -1)
)
assert first < last / 300

# %% [markdown]
# With post-norm, hardly any gradient reaches the first layer. With pre-norm, the part that all positions share grows too, but the stream isn't rescaled between layers, so the differences stay in it. The gradient keeps its direct path to every layer, and the model recovers.
#
# <details><summary>Two other explanations</summary>
#
# [Xiong et al. (2020)](https://arxiv.org/abs/2002.04745) blame the gradients: at initialisation, those of a post-norm model are large near the output layer, too large for a full learning rate. [Liu et al. (2020)](https://aclanthology.org/2020.emnlp-main.463/) trace the instability to how strongly post-norm amplifies small changes in the weights, and find that a post-norm model, if it trains at all, can end up better than a pre-norm one.
#
# </details>

# %% [markdown]
# ## What goes wrong in practice
#
# **Normalising over the wrong axes.** If the norm runs over the length as well as the features, all shapes fit and the model even trains. But then every position depends on all others, including future ones. The causality test from [Masking](04_masking.ipynb) catches this: change the last vector, and see which outputs change.

# %%
x = torch.randn(1, 5, 8)
changed = x.clone()
changed[:, 4] = torch.randn(8)
for axes in ((8,), (5, 8)):  # features only; length and features
    difference = F.layer_norm(changed, axes) - F.layer_norm(x, axes)
    moved = (difference.abs() > 1e-6).any(dim=-1)[0]
    print(axes, "changed positions:", moved.nonzero().flatten().tolist())

# %% [markdown]
# **Forgetting pre-norm's final norm.** We replace the two final norms of the translator with the identity, one at a time:

# %%
caption = ["A dog runs across the field."]
model = translator.model
for name in ("decoder_norm", "encoder_norm"):
    norm = getattr(model, name)
    setattr(model, name, nn.Identity())
    (translation,) = translator.greedy_search(caption)
    print(f"no {name}:", translation[:30])
    setattr(model, name, norm)
print("with both:", *translator.greedy_search(caption))

# %% [markdown]
# Without the encoder's norm, cross-attention computes its keys and values from vectors of a scale that never occurred in training, and the translation breaks down. The bug in the decoder is harder to notice: in this translation, the largest logits happened to stay the largest, but the probabilities are wrong.
#
# **Dropout at inference time.** `nn.Dropout` is switched off by `model.eval()`. The function `F.dropout(x, 0.1)` isn't: its argument `training` is `True` by default. Pass it `self.training`.

# %% tags=["remove-cell"]
assert (F.dropout(torch.ones(1000), 0.1) == 0).any()

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You swap the vectors of two positions in the input of a feed-forward network. What happens to its output?**
#
# <details><summary>A. It stays the same</summary>
#
# No. Each position's output depends on that position's input, and two inputs have changed places.
#
# </details>
# <details><summary>B. The outputs at the two positions are swapped</summary>
#
# **Right.** The same network is applied to every position separately.
#
# </details>
# <details><summary>C. All outputs change</summary>
#
# No. That would require a connection between positions. Attention has one, the feed-forward network doesn't.
#
# </details>
# <details><summary>D. It depends on the weights</summary>
#
# No. This holds for any weights, before and after training.
#
# </details>
#
# **2. A colleague multiplies the encoder's input, the sum of embeddings and positions, by 100. In which kind of model does the first attention layer get the same input as before?**
#
# <details><summary>A. Post-norm</summary>
#
# No. There the first attention layer reads the input directly: the first norm comes after it.
#
# </details>
# <details><summary>B. Pre-norm</summary>
#
# **Right.** It reads its input through a norm, which removes the factor. But its output is then added to a stream that is 100 times as large, and hardly changes the stream's direction.
#
# </details>
# <details><summary>C. Both</summary>
#
# No. Only one of the two has a norm before its first sublayer.
#
# </details>
# <details><summary>D. Neither</summary>
#
# No. Layer norm removes any constant factor, so a sublayer that reads through a norm can't see it.
#
# </details>
#
# **3. Your twelve-layer post-norm model never does better than predicting from word frequencies alone. What do you check first?**
#
# <details><summary>A. Whether the activations have mean square 1</summary>
#
# No. With post-norm, the norm keeps it close to 1 even in a collapsed model.
#
# </details>
# <details><summary>B. Whether the positions differ at the end of the stack</summary>
#
# **Right.** If all positions have the same vector, the model collapsed in its first steps. Use a longer warm-up or a lower learning rate.
#
# </details>
# <details><summary>C. Whether the model is too small</summary>
#
# No. Even a tiny model does better, for example by learning which words follow each other.
#
# </details>
# <details><summary>D. Whether some units of the feed-forward network are never active</summary>
#
# No. A few such units make the model a little smaller, but they don't keep it from learning.
#
# </details>
#
# **4. Why do we use $x + \mathrm{Sublayer}(x)$ and not a weighted average of the two with learned weights?**
#
# <details><summary>Answer</summary>
#
# An average $g x + (1 - g) f(x)$ with $g < 1$ multiplies the stream by $g$ at each sublayer. At $g = 0.9$, less than a tenth of the input is left after 24 sublayers, and less than a tenth of the gradient gets back. Addition keeps the path open whatever is learned, and needs no parameters. Post-norm gives up part of this advantage, because it rescales the sum at each sublayer.
#
# </details>
#
# **5. Where do the queries, keys and values of cross-attention come from? What is left of the decoder layer if you remove its cross-attention?**
#
# <details><summary>Answer</summary>
#
# The queries come from the decoder's residual stream, the keys and values from the memory, the output of the encoder. Without cross-attention, two sublayers are left: an encoder layer with a causal mask. It can no longer see the source sentence. Decoder-only models such as GPT consist of such layers.
#
# </details>

# %% tags=["remove-cell"]
assert 0.9**24 < 0.1

# %% [markdown]
# ## Exercises
#
# Six blanks: the feed-forward network, the layer norm, dropout, post-norm, pre-norm, and a stack of layers in which you find three bugs by experiments. Each one has a check that tells you what is wrong, and a hint.
#
# - In Colab, where the last cell grades your answers:
#   [06_layers](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/06_layers.ipynb).
#   On GitHub: [06_layers.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/06_layers.ipynb).
# - On your machine, open `exercises/06_layers.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade layers
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Three experiments to try</summary>
#
# 1. **Depth.** Make the number of layers in `Sorter` an argument. For 2, 4 and 10 layers, what is the highest learning rate at which post-norm trains without warm-up? And pre-norm?
# 2. **How short a warm-up** is enough for post-norm at learning rate 0.01? Try 2, 5, 10 and 20 steps, and plot `variations`.
# 3. **On translation**, a few minutes per run. The recipe `pocket` has all settings for training a small translator, with pre-norm unless you say otherwise. Without warm-up, it starts at a learning rate of about 0.05. Does either placement of the norm withstand such a start?
#
# ```bash
# transformer train pocket --run runs/post      --model.norm post
# transformer train pocket --run runs/post-cold --model.norm post \
#     --training.warmup-steps 1
# transformer train pocket --run runs/pre-cold  --training.warmup-steps 1
# ```
#
# </details>

# %% [markdown]
# ## Going further
#
# - **A simpler norm:** [Zhang and Sennrich (2019)](https://arxiv.org/abs/1910.07467) leave out the mean. Their **RMSNorm** does nearly as well and is cheaper, and many recent models use it.
# - **Other activations:** GELU and SwiGLU have replaced ReLU in most later models (see [The Transformer family](15_transformer_family.ipynb)).
# - **Very deep encoders:** [Wang et al. (2019)](https://arxiv.org/abs/1906.01787) train a translator with thirty pre-norm encoder layers, each of which reads a learned mixture of all earlier layers.
# - **Next:** [The full model](07_full_model.ipynb) stacks these layers and asks what has to be right before the first training step.
