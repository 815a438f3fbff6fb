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
# # The full model: embeddings, weight tying, initialisation, parameters
#
# **You will be able to**
#
# - put a Transformer together from its layers in a few lines, and prove that it is the package's;
# - say what one matrix does in three places, and why it is multiplied by $\sqrt{d_\text{model}}$ in two of them;
# - tell a good start from a bad one before the first training step, by the gradient of each layer;
# - count every parameter of any model with a pencil, and say how many bytes it takes to train it.
#
# **About 45 minutes.** It builds on [Attention](02_attention.ipynb), [Multi-head attention](03_multi_head_attention.ipynb), [Masking](04_masking.ipynb),
# [Positional encoding](05_positional_encoding.ipynb) and [Encoder and decoder layers](06_layers.ipynb).

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
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The question
#
# All parts are on the table: attention with several heads, masks, positions, the feed-forward, the residual and its norm. Each takes vectors and returns
# vectors of the same width. But a translator takes *words* and returns *words*. **What stands at the two ends, and what has
# to be right before the first step of training, so that the whole can learn at all?**
#
# The second half of the question is the expensive one. A model that starts badly raises no error. It is only worse, and nobody knows why.

# %% [markdown]
# ## By hand
#
# We need a vocabulary of four words and vectors of four numbers. **E**, the embedding matrix, has a row for each word. *Dog* and *Hund* mean the same, so a
# trained model may well give them similar rows.

# %%
words = ["<pad>", "<bos>", "dog", "Hund"]
E = torch.tensor([[0, 0, 0, 0], [1, -1, 0, 0], [0, 1, 1, 0], [0, 1, 1, -1]]) / 2
E  # (vocab_size, d_model)

# %% [markdown]
# **In.** The encoder reads *dog*, which has the id 2. Take row 2 of E, multiply it by $\sqrt{d_\text{model}} = \sqrt 4 = 2$, and add the vector of position 0:
# $(0, 1, 1, 0) + (0, 1, 0, 1) = (0, 2, 1, 1)$.

# %%
from transformer.positions import sinusoidal_encoding

position = sinusoidal_encoding(1, 4)[0]  # (4,): position 0
E[2] * math.sqrt(4) + position

# %% [markdown]
# **Through.** Encoder and decoder make other vectors of it, as many and as wide. Say that behind `<bos>` the decoder ends with
# $x = (0, 1, 1, -1)$.
#
# **Out.** How well does each word fit as the next? Take the dot product of $x$ with *its row of E*. For *Hund*, $(0 + 1 + 1 + 1) / 2 = 1.5$. The softmax makes
# probabilities of the scores. That is all there is at the two ends: rows of one matrix, looked up going in, compared going out.

# %%
x = torch.tensor([0.0, 1, 1, -1])
scores = E @ x  # (4,)
for word, score, share in zip(words, scores, scores.softmax(dim=0), strict=True):
    print(f"{word:6} score {score:5.2f}   probability {share:.2f}")

# %% [markdown]
# And a model whose layers do nothing? Then the vector of `<bos>` comes out as it went in, and of all rows of E its own fits best:

# %%
idle = E[1] * 2 + position
print(E @ idle, "→", words[(E @ idle).argmax()])

# %% [markdown]
# It **repeats what it reads**. Remember this parrot: we shall meet it in a real model.
#
# **How many numbers is that?** Say our little machine has one layer on each side, and a feed-forward 8 wide. A linear layer from $a$ to $b$ has $ab$
# weights and $b$ biases.
#
# - An **attention** has four of them, from 4 to 4: $4 \cdot (16 + 4) = 80$. Heads do not matter: they share out the same matrices.
# - A **feed-forward** goes from 4 to 8 and back: $(32 + 8) + (32 + 4) = 76$.
# - A **layer norm** has a factor and a shift for each feature: $2 \cdot 4 = 8$.
# - The encoder layer: $80 + 76 + 2 \cdot 8 = 172$. The decoder layer, with its second attention and third norm: $2 \cdot 80 + 76 + 3 \cdot 8 = 260$.
# - E itself: $4 \cdot 4 = 16$.

# %%
from transformer.config import ModelConfig
from transformer.model import Transformer

tiny = Transformer(ModelConfig(4, d_model=4, n_heads=2, d_ff=8, n_layers=1))
assert sum(p.numel() for p in tiny.parameters()) == 172 + 260 + 16
172 + 260 + 16

# %% [markdown]
# ## The picture
#
# Read it from the bottom up. The encoder's boxes are orange, because the decoder's keys and values come from there; the decoder's are blue,
# because it asks. The pink boxes are all the same matrix.

# %% tags=["hide-input"]
from transformer.plots.architecture import architecture

Picture(
    architecture(ModelConfig()),
    alt=(
        "Two stacks. Left, from the bottom: source ids are looked up in E and "
        "multiplied by the root of 512, positions are added, then six encoder "
        "layers of self-attention and feed-forward make the memory. Right: target "
        "ids go the same way into six decoder layers of masked self-attention, "
        "cross-attention, which reads the memory, and feed-forward; dot products "
        "with E give the scores of 37,000 words. Dots mark dropout after the "
        "positions and after every sublayer."
    ),
)

# %% [markdown]
# Two things are easily overlooked. The memory that **every** decoder layer reads is the encoder's **last** output, not that of the layer beside it. And from the first
# box to the last the width stays the same. That is what the residual connections need (§3.1), and it is why layers can be stacked like
# bricks.

# %% [markdown]
# ## The code
#
# Here is the package's model, from its file: `encode` is the left stack, `decode` the right one, `forward` both.

# %%
SourceCode(Transformer.encode, Transformer.decode, Transformer.forward)

# %% [markdown]
# Now without that class. We take one matrix and two lists of layers, and write down what the picture shows:

# %%
from transformer.layers import DecoderLayer, EncoderLayer
from transformer.masks import padding_mask, target_mask

torch.manual_seed(0)
shape = ModelConfig(vocab_size=20, d_model=32, n_heads=4, d_ff=64, n_layers=2)
E = torch.randn(20, 32) / math.sqrt(32)
encoder = nn.ModuleList(EncoderLayer(shape) for _ in range(2)).eval()
decoder = nn.ModuleList(DecoderLayer(shape) for _ in range(2)).eval()


# %%
def by_hand(source, target):
    def embed(ids):
        return E[ids] * math.sqrt(32) + sinusoidal_encoding(ids.size(1), 32)

    real, seen = padding_mask(source, 0), target_mask(target, 0)
    memory, y = embed(source), embed(target)  # (batch, length, 32)
    for layer in encoder:
        memory = layer(memory, real)
    for layer in decoder:
        y = layer(y, memory, seen, real)
    return y @ E.T  # (batch, target, 20)


# %% [markdown]
# Is that all? Give the package's model the same weights and a batch with padding on both sides, and compare:

# %%
model = Transformer(shape).eval()
model.encoder.load_state_dict(encoder.state_dict())
model.decoder.load_state_dict(decoder.state_dict())
model.source_embedding.weight.data.copy_(E)
source = torch.tensor([[5, 9, 7, 3], [8, 2, 0, 0]])
target = torch.tensor([[1, 4, 6], [1, 11, 0]])
assert_close(by_hand(source, target), model(source, target))
print("by hand = the package", tuple(model(source, target).shape))

# %% [markdown]
# We copied *one* embedding, and all three places had it. That is tying, and we come to it below. The package's tests hold the same model equal to
# PyTorch's `nn.Transformer`, outputs and gradients.

# %% [markdown]
# ## Why times √d_model
#
# The paper multiplies embeddings by $\sqrt{d_\text{model}}$ (§3.4) and gives no reason. We look for one with a measurement. What goes into the first layer is a sum, *which word* plus *which
# place*, and the two had better be of similar size. A position's vector is made of pairs of a sine and a cosine, and $\sin^2 + \cos^2 = 1$: its mean square is $\frac12$,
# at every position and in every width. And a word's?

# %%
d = 512
torch.manual_seed(0)
table = Transformer(ModelConfig(1000, d, n_layers=1)).source_embedding.weight.data
positions = sinusoidal_encoding(100, d)
plain, scaled = table.square().mean(), (table * math.sqrt(d)).square().mean()
print(f"mean square of positions  {positions.square().mean():.4f}")
print(f"of words                  {plain:.4f}")
print(f"of words × √d_model       {scaled:.4f}")
assert_close(positions.square().mean(dim=1), torch.full((100,), 0.5))
assert abs(plain * d - 1) < 0.02 and abs(scaled - 1) < 0.02

# %% [markdown]
# Without the factor a word is a whisper beside its position. In the package the factor and the sum stand in one place, for both sides:

# %%
SourceCode(Transformer.embed)

# %% [markdown]
# Here is what the first layer gets to see. We compare the vectors of a sentence with each other by the cosine of
# their angle: 1 means the same direction. *The* occurs twice, so a good input should have these two alike and the others apart.

# %%
sentence = "the dog sees the cat".split()
ids = torch.tensor([11, 12, 13, 11, 14])


def likeness(factor):
    x = F.normalize(table[ids] * factor + positions[:5], dim=-1)
    return x @ x.T  # (5, 5)


without, with_root = likeness(1), likeness(math.sqrt(d))

# %% tags=["hide-input"]
from transformer.plots.heat_map import heat_map

Row(
    Picture(
        heat_map(without, sentence, sentence, title="as they are"),
        alt=(
            "Cosines between the five vectors without the factor: all above 0.7, "
            "and the two the's are no more alike than other words at that distance."
        ),
    ),
    Picture(
        heat_map(with_root, sentence, sentence, title="times √d_model"),
        alt=(
            "The same with the factor: the two the's stand out with more than "
            "0.9, all other pairs are below 0.5."
        ),
    ),
)

# %%
print(f"the … the:  {without[0, 3]:.2f} and {with_root[0, 3]:.2f}")
print(f"dog … cat:  {without[1, 4]:.2f} and {with_root[1, 4]:.2f}")
assert without.min() > 0.7 and abs(without[0, 3] - without[1, 4]) < 0.05
assert with_root[0, 3] > 0.9 and with_root[1, 4] < 0.5

# %% [markdown]
# On the left, *the … the* and *dog … cat*, both three places apart, look the same: the model sees places, and hardly any words. On the right it sees both.
#
# But why not make the words' vectors large in the first place? PyTorch's own `nn.Embedding` starts with variance 1, and then no factor is needed. The reason is at the other end of the
# model. There the same matrix gives the scores, each a sum of $d_\text{model}$ products. The decoder's last norm hands it numbers of mean square 1, so
# rows of variance $1/d_\text{model}$ give scores of variance 1, and rows of variance 1 give scores of variance $d_\text{model}$. We measure the loss of an untrained model with both.


# %%
def untrained_loss(matrix):
    logits = state @ matrix.T  # (batch, target, vocab_size)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten()).item()


torch.manual_seed(0)
start = ModelConfig(1000, d_model=256, n_heads=4, d_ff=1024, dropout=0.0)
source, target, wanted = torch.randint(1, 1000, (3, 4, 16))
with torch.no_grad():
    model = Transformer(start)
    state = model.decode(target, *model.encode(source))  # (4, 16, 256)
    E = model.unembedding.weight
    small, large = untrained_loss(E), untrained_loss(E * math.sqrt(256))

# %%
print(f"variance 1 / d_model  {small:6.2f}")
print(f"ln V + 1/2            {math.log(1000) + 0.5:6.2f}")
print(f"variance 1            {large:6.2f}")
assert abs(small - math.log(1000) - 0.5) < 0.3 and large > 5 * small

# %% [markdown]
# The first loss is that of a model that knows nothing, $\ln V$, plus a half. (The scores are nearly normal with variance 1, and the mean of $e^z$ is then $e^{1/2}$.) The other is that
# of a model that is certain and wrong. So this is a reason: **one matrix, two wishes.** The input wants variance 1, the output wants
# $1/d_\text{model}$, and the factor $\sqrt{d_\text{model}}$ lies between. It only sets the start, but it lets one matrix serve at both ends.

# %% [markdown]
# ## One matrix, three jobs
#
# Source and target share a vocabulary (§5.1), so one matrix can look up both and score the output (§3.4). In the package these are three modules that hold the same tensor. The output's score of a word is then what we did by hand, the dot product with the
# word's own vector:

# %%
assert model.source_embedding.weight is model.target_embedding.weight
assert model.target_embedding.weight is model.unembedding.weight
assert_close(model.logits(state), state @ model.source_embedding.weight.T)

# %% [markdown]
# What does it save? `ModelConfig(tie_embeddings=…)` has three settings. We count them on PyTorch's **meta** device, where tensors have a
# shape and no numbers, so that the models cost no memory:


# %%
def on_meta(config):
    with torch.device("meta"):
        return Transformer(config)


def size(model):
    return sum(p.numel() for p in model.parameters())


# %%
base = ModelConfig()
sizes = {
    tie: size(on_meta(replace(base, tie_embeddings=tie)))
    for tie in ("none", "decoder", "all")
}
for tie, count in sizes.items():
    print(f"tie_embeddings={tie:8} {count:11,} parameters")
assert (
    sizes["none"] - sizes["decoder"]
    == sizes["decoder"] - sizes["all"]
    == 37_000 * 512
)

# %% [markdown]
# Saving is not the whole point. A tied matrix **learns from all three jobs at once**: its gradient is the sum of the three that separate matrices would get. We give three separate matrices
# the same numbers and compare.

# %%
torch.manual_seed(0)
tied = Transformer(replace(start, n_layers=1))
free = Transformer(replace(start, n_layers=1, tie_embeddings="none"))
free.load_state_dict(tied.state_dict())
for model in (tied, free):
    logits = model(source, target)
    F.cross_entropy(logits.flatten(0, 1), wanted.flatten()).backward()
jobs = [free.source_embedding, free.target_embedding, free.unembedding]
assert_close(tied.unembedding.weight.grad, sum(job.weight.grad for job in jobs))
for name, job in zip(("source", "target", "output"), jobs, strict=True):
    rows = int(job.weight.grad.any(dim=1).sum())
    print(f"{name}: {rows:4} of 1000 rows learn")

# %% [markdown]
# An input row learns only when its word is read. An output row learns at every step, if only that its word was *not* meant. So, tied, the vector of a
# word that occurs once in a million is at work all the time. Whether that does a rare word good is another matter: it is nearly always pushed away.

# %% [markdown]
# ## How it starts
#
# A number that comes out of a linear layer is a sum of $n$ products. If the inputs have mean square 1 and the weights variance $\sigma^2$, it has variance $n\sigma^2$, by the same sum that gave attention its
# $\sqrt{d_k}$. Twelve layers multiply it twelve times, and only $\sigma = 1/\sqrt n$ keeps it. **Xavier** initialisation is that rule, looked at from both sides: forwards $n$ is the
# number of inputs, backwards the number of outputs, so it takes their mean, $\sigma^2 = 2 / (n_\text{in} + n_\text{out})$.


# %%
def bare_stack(deviation, layers=12, n=512):
    torch.manual_seed(0)
    x, sizes = torch.randn(64, n), []
    for _ in range(layers):
        x = x @ (torch.randn(n, n) * deviation)
        sizes.append(x.square().mean().item())
    return sizes


bare = {f"{s:.3f}": bare_stack(s) for s in (math.sqrt(1 / 512), 0.02, 0.002, 0.2)}
for name, sizes in bare.items():
    print(f"deviation {name}: {sizes[0]:8.2g} → {sizes[-1]:8.2g}")
assert 0.5 < bare["0.044"][-1] < 2

# %% [markdown]
# So much for a bare stack. Is the Transformer as touchy? The paper does not say how it started. The package has two ways for its linear layers, and here they are, with the matrices that are tied at the end:

# %%
SourceCode(Transformer.reset_parameters)

# %% [markdown]
# We try both, and one deviation that is far too small and one far too large.
#
# A detail that hides in this code: $W^Q$, $W^K$ and $W^V$ lie in one matrix with 256 inputs and 768 outputs, so Xavier's rule makes them smaller, by a factor of
# $\sqrt2$, than three separate matrices would be. Two programs that both "use Xavier" need not start alike. (PyTorch's own attention layer has one matrix too, and the last check compares with it.)


# %%
def begin(deviation):
    torch.manual_seed(0)
    model = Transformer(start)
    for module in [*model.encoder.modules(), *model.decoder.modules()]:
        if isinstance(module, nn.Linear) and deviation:
            nn.init.normal_(module.weight, std=deviation)
    return model


begun = {"0.2": begin(0.2), "0.02": begin(0.02)}
begun |= {"Xavier": begin(None), "0.002": begin(0.002)}

# %%
layer = begun["Xavier"].encoder[0]
theirs = nn.MultiheadAttention(256, 4).in_proj_weight
for weight, n_out in (
    (layer.feed_forward.inner.weight, 1024),
    (layer.self_attention.query_key_value.weight, 3 * 256),
    (theirs, 3 * 256),
):
    expected = math.sqrt(2 / (256 + n_out))
    assert_close(weight.std().item(), expected, rtol=0.02, atol=0)

# %% [markdown]
# One forward and one backward pass, no training. For each layer we write down what comes out of it, what its sublayers **add** to the residual stream,
# and its gradient.


# %%
def look(model):
    """Loss; and for each layer what comes out, what is added, and the gradient."""
    added, stream = [], []
    layers = [*model.encoder, *model.decoder]
    for layer in layers:
        layer.register_forward_hook(lambda m, i, out: stream.append(out.detach()))
        for residual in layer.residuals:
            residual.dropout.register_forward_hook(
                lambda m, i, out: added[-1].append(out.detach())
            )
        layer.register_forward_pre_hook(lambda m, i: added.append([]))
    logits = model(source, target)
    loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
    loss.backward()
    return loss.item(), logits, layers, stream, added


# %%
def mean_square(tensors):
    return torch.cat([t.flatten() for t in tensors]).square().mean().item()


added, gradients, losses, parrots = {}, {}, {}, {}
for name, model in begun.items():
    loss, logits, layers, stream, sums = look(model)
    losses[name] = loss
    parrots[name] = (logits.argmax(dim=-1) == target).float().mean().item()
    added[name] = [mean_square(parts) for parts in sums]
    grads = [[p.grad for p in layer.parameters()] for layer in layers]
    gradients[name] = [math.hypot(*(g.norm().item() for g in gs)) for gs in grads]
    assert all(abs(mean_square([x]) - 1) < 0.01 for x in stream)
print("what leaves a layer has mean square 1, however it starts")

# %% [markdown]
# The obvious measurement shows **nothing**. In all four models each layer puts out numbers of mean square 1, because the last thing that a post-norm layer does is to normalise. A monitor that watches activations would call all
# four healthy. So look beneath the norm, and look at the gradients:

# %% tags=["hide-input"]
from transformer.plots.scale_by_layer import scale_by_layer

Row(
    Picture(
        scale_by_layer(added, "What a sublayer adds (mean square)", split=6),
        alt=(
            "Mean square of what sublayers add, by layer, on a logarithmic scale. "
            "Four level lines: Xavier a little below 1, deviation 0.02 at a "
            "hundredth, 0.002 at a millionth, 0.2 above a hundred."
        ),
    ),
    Picture(
        scale_by_layer(gradients, "Gradient of a layer (norm)", split=6),
        alt=(
            "Gradient norms by layer. Xavier is level near 2 in both stacks. 0.02 "
            "is level but lower in the encoder. With 0.002 the encoder has far "
            "less than the decoder. With 0.2 it falls by five powers of ten from the "
            "decoder's last layer to its first."
        ),
    ),
)

# %%
print("start    first loss   says what it read")
for name in begun:
    print(f"{name:8} {losses[name]:10.2f} {parrots[name]:14.0%}")

# %% [markdown]
# Line by line:
#
# - **Xavier.** A sublayer adds somewhat less than what is there (1), so both matter. The gradient has one size in all twelve layers, give or take a factor of two, and the loss is the $\ln V + \frac12$ of honest
#   ignorance.
# - **0.002: the parrot.** The layers add next to nothing. What comes out is what went in, normalised, and the row of E that fits it best is the word's own: the model repeats what it reads, as our hand-made
#   one did. Its loss is far above that of guessing, and the encoder's gradient is hundreds of times smaller than the decoder's: nobody hears the source.
# - **0.02** at this width is the same illness, milder: still a parrot, but the encoder is heard. As $1/\sqrt n$ this number would belong to $n = 2500$. Carry a rule over from other models, not a number.
# - **0.2.** The sublayers shout the residual down. Its loss looks perfect. But towards the first layer its gradient grows in the encoder, and in the decoder it vanishes.
#
# How much of a bad start training repairs, only training shows. Adam divides every gradient by its own usual size, so one that is merely small can be overcome. The page of [results](../book/results.md) has two ways to begin, trained with several seeds, and the fourth experiment at the end tries it.

# %%
x, tiny, huge = gradients["Xavier"], gradients["0.002"], gradients["0.2"]
assert max(x) < 4 * min(x), "Xavier: level"
assert abs(losses["Xavier"] - math.log(1000) - 0.5) < 0.3
assert max(tiny[:6]) < min(tiny[6:]) / 200 and parrots["0.002"] == 1
assert huge[11] > 10_000 * huge[6] and abs(losses["0.2"] - losses["Xavier"]) < 0.5

# %% [markdown]
# Why does the last one vanish in the decoder, and not in the encoder? With weights so large the scores are large too, every softmax is hard, and through a hard softmax no gradient flows back into a query. In
# self-attention a position is also a value, and that way stays open. In cross-attention the target's stream is *only* a query. So its gradient has one way left, past the sublayer along the residual, and there the norm divides it by the size of the
# sum, $\sqrt{1 + a}$, if cross-attention adds the mean square $a$. That predicts how much is lost in the five layers between the decoder's last and first:

# %%
sums = look(begin(0.2))[-1]
decoder_2_to_6 = sums[7:]
through = [1 + mean_square([parts[1]]) for parts in decoder_2_to_6]
predicted, measured = math.sqrt(math.prod(through)), huge[11] / huge[6]
print(f"predicted  {predicted:9,.0f} times")
print(f"measured   {measured:9,.0f} times")
assert 0.3 < predicted / measured < 3

# %% [markdown]
# One line of arithmetic for five powers of ten. With pre-norm the residual is not divided on its way back, one reason why it forgives more.

# %% [markdown]
# ## Every parameter
#
# What we counted by hand for a tiny machine, as formulas: $d$ is `d_model`, $f$ is `d_ff`, $n$ the layers on each side, $v$ the vocabulary and $t$ the number of vocabulary matrices, 1 when all are tied. (They are strings because a chart is going to compute them too.)

# %%
attention, feed_forward = "n * 4 * (d * d + d)", "n * (2 * d * f + f + d)"
FORMULAS = {
    "embeddings": "t * v * d",
    "encoder self-attention": attention,
    "encoder feed-forward": feed_forward,
    "encoder layer norms": "n * 2 * 2 * d",
    "decoder self-attention": attention,
    "decoder cross-attention": attention,
    "decoder feed-forward": feed_forward,
    "decoder layer norms": "n * 3 * 2 * d",
}


def by_formula(d=512, f=2048, n=6, v=37_000, t=1):
    sizes = {"d": d, "f": f, "n": n, "v": v, "t": t}
    return {part: eval(formula, {}, sizes) for part, formula in FORMULAS.items()}


# %% [markdown]
# There is no $h$ in them: the number of heads costs nothing. Against the package, part by part, for base and big and all ways of tying, on the meta device:

# %%
from transformer.config import PRESETS
from transformer.inspection import parameter_counts, parameter_table

for name in ("base", "big"):
    config = PRESETS[name]
    for t, tie in enumerate(("all", "decoder", "none"), start=1):
        counts = parameter_counts(on_meta(replace(config, tie_embeddings=tie)))
        assert counts == by_formula(config.d_model, config.d_ff, t=t)
print(parameter_table(on_meta(base)))

# %% [markdown]
# Of what the layers hold, more than half is not attention at all:

# %%
counts = by_formula()
layers = {part: count for part, count in counts.items() if part != "embeddings"}
total = sum(layers.values())
for kind in ("attention", "feed-forward", "norm"):
    share = sum(count for part, count in layers.items() if kind in part) / total
    print(f"{kind:12} {share:5.1%}")
assert counts["encoder feed-forward"] * 2 > total / 2

# %% [markdown]
# **Now build your own.** The bars are computed in the page from the very formulas above. The triangle is the paper's base model, the diamond its big one. Make `d_model` 1024 and `d_ff` 4096 to get there, and see which bars
# grow with the square. Then make base half as deep, and see which bar does not care.

# %% tags=["hide-input"]
from transformer.plots.parameter_explorer import parameter_explorer

parameter_explorer(
    FORMULAS,
    {"base": by_formula(), "big": by_formula(1024, 4096)},
    description=(
        "A bar for each part of the model: embeddings, and for encoder and decoder "
        "attention, feed-forward and norms. Five sliders set d_model, d_ff, the "
        "layers, the vocabulary and the number of vocabulary matrices. At first "
        "the bars stand at the triangles, the base model with 63.1 million; "
        "diamonds mark the big model with 214.2 million."
    ),
)

# %% [markdown]
# ### What Table 3 counts
#
# The paper says 65 million for base and 213 for big (Table 3). We have 63 and 214. What differs? Not the tying: with two or three matrices of this vocabulary
# base would be at 82 or 101 million. Hardly the layers: the text leaves open whether attention has biases, but they are only 18 times 4 vectors, as much as 72 words. That leaves the vocabulary, about 37,000 (§5.1).
# So turn the question round: *which vocabulary would give the number in the table?* It is rounded to a million, so each row gives a range.


# %%
def vocabulary(millions, d=512, f=2048, n=6, d_k=None):
    """The vocabularies with which such a model rounds to so many million."""
    layers = sum(by_formula(d, f, n, v=0).values())
    if d_k:  # eight heads of d_k: narrower W^Q and W^K, in 3n attentions
        layers -= 3 * n * 2 * (d + 1) * (d - 8 * d_k)
    return [((millions + half) * 1e6 - layers) / d for half in (-0.5, 0.5)]


# %%
ranges = {
    "base: 65": vocabulary(65),
    "d_k 16: 58": vocabulary(58, d_k=16),
    "d_k 32: 60": vocabulary(60, d_k=32),
}
ranges |= {
    f"N {n}: {m}": vocabulary(m, n=n) for n, m in ((2, 36), (4, 50), (8, 80))
}
ranges |= {f"d {d}: {m}": vocabulary(m, d) for d, m in ((256, 28), (1024, 168))}
ranges |= {
    f"d_ff {f}: {m}": vocabulary(m, f=f) for f, m in ((1024, 53), (4096, 90))
}

# %%
low = max(left for left, _ in ranges.values())
high = min(right for _, right in ranges.values())
big = vocabulary(213, 1024, 4096)
print(f"ten rows agree on {low:,.0f} to {high:,.0f} words")
print(f"the big model asks for {big[0]:,.0f} to {big[1]:,.0f}")
assert 37_000 < low < high and big[1] < 37_000

# %% tags=["hide-input"]
from transformer.plots import style

with style.in_style():
    figure, axes = style.new_figure(3.8, 3.4)
    for row, (name, (left, right)) in enumerate(
        {**ranges, "big: 213": big}.items()
    ):
        colour = style.WRONG if name.startswith("big") else style.QUERY
        axes.plot(
            [left / 1000, right / 1000], [row, row], color=colour, linewidth=5
        )
    axes.axvspan(low / 1000, high / 1000, color=style.VALUE, alpha=0.5, linewidth=0)
    axes.axvline(37, color=style.INK, linestyle=":")
    axes.text(37.1, 0, "§5.1", va="center")
    axes.set_yticks(range(11), [*ranges, "big: 213"])
    axes.invert_yaxis()
    axes.set_xlabel("vocabulary, in thousands")
    axes.set_title("Row of Table 3: millions", loc="left")
Picture(
    figure,
    alt=(
        "For each of eleven rows of Table 3 the range of vocabularies that gives "
        "its number. Ten ranges overlap in a narrow band near 41,000; the big "
        "model's lies apart, near 36,000. A dotted line at 37,000, the paper's "
        "number, meets none of them."
    ),
)

# %% [markdown]
# Ten rows, of quite different shapes, agree to within a few hundred words, and on a number that is not in the text. And the eleventh cannot be had with the same vocabulary, nor with 37,000. What the missing
# four thousand rows were, the paper does not say: more words, or something else as wide as the model. So we write **63 million, with 37,000 words**, and know what the
# difference from the paper amounts to.

# %% [markdown]
# ## How much memory
#
# A number in float32 takes 4 bytes. In use a model needs its parameters. In training each parameter has a **gradient** beside it, and Adam keeps **two means**, of the gradient and of its square: 16 bytes for each
# parameter. We check that on a small model, after one step:

# %%
tied.zero_grad()
optimizer = torch.optim.Adam(tied.parameters())
tied(source, target).square().mean().backward()
optimizer.step()


# %%
def n_bytes(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


weights = n_bytes(tied.parameters())
assert weights == 4 * size(tied)
assert n_bytes(p.grad for p in tied.parameters()) == weights
moments = [
    s[k] for s in optimizer.state.values() for k in ("exp_avg", "exp_avg_sq")
]
assert n_bytes(moments) == 2 * weights
print("parameters 4, gradients 4, Adam 8 bytes: exactly")

# %% [markdown]
# Then there are the **activations**: what the forward pass must keep because the backward pass will ask for it. PyTorch lets us listen whenever something is kept. And since the meta device makes no
# difference between a small tensor and a huge one, we can ask it about the big model and a whole batch without having the memory.


# %%
def kept_for_backward(config, sentences, length, device):
    with torch.device(device):
        model = Transformer(config)
        ids = torch.ones(sentences, length, dtype=torch.long)
    own = {p.untyped_storage()._cdata for p in model.parameters()}
    kept = {}  # a tensor may be kept several times, and is there once

    def keep(tensor):
        storage = tensor.untyped_storage()
        kept.setdefault(storage._cdata, storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        F.cross_entropy(model(ids, ids).flatten(0, 1), ids.flatten())
    return sum(s.nbytes() for key, s in kept.items() if key not in own)


# %%
real = kept_for_backward(shape, 8, 16, "cpu")
asked = kept_for_backward(shape, 8, 16, "meta")
assert abs(asked / real - 1) < 0.3
print(f"a small model: CPU {real:,}, meta {asked:,}")

# %% [markdown]
# They need not be equal: each device has its own form of fused attention, which keeps other things. So in what follows the activations are an **estimate**, and the rest is exact. Batch and GPUs are the paper's: about
# 25,000 tokens on each side (§5.1), shared out to eight (§5.2), so 125 sentences of 25 tokens on each.

# %%
from tabulate import tabulate

columns = {}
for name in ("base", "big"):
    count = size(on_meta(PRESETS[name]))
    kept = kept_for_backward(PRESETS[name], 125, 25, "meta")
    columns[name] = [2 * count, 4 * count, 4 * count, 8 * count, kept]
    columns[name].append(16 * count + kept)
what = ["use, float16", "use, or weights", "gradients", "Adam's two means"]
what += ["activations (estimate)", "training, all together"]
numbers = zip(what, columns["base"], columns["big"], strict=True)
table = [[name, of_base / 1e9, of_big / 1e9] for name, of_base, of_big in numbers]
print(tabulate(table, headers=["GB", *columns], floatfmt=".2f"))

# %% [markdown]
# Two lessons. From its first step on, and without a single activation, training takes four times the memory of use, eight times that of use in half precision. And the activations grow with the batch, and nothing else does: when memory is short, take
# two batches of half the size for a step. The estimate leaves out what kernels need for a moment and what the allocator holds in reserve, so measure before you rely on it. Where do base's activations come from?

# %%
kept = columns["base"][4]
scores = 4 * 125 * 25 * 37_000
print(f"the scores: {scores / 1e9:.2f} GB of {kept / 1e9:.2f}")
assert 0.2 < scores / kept < 0.3

# %% [markdown]
# One tensor is a quarter of it, a number for each token of the batch and each word of the vocabulary. This is why the package's loss makes the scores some rows at a time ([Training](11_training.ipynb) shows it).

# %% [markdown]
# ## Two switches
#
# **Dropout** (§5.4) sets values to zero at random while training, and stretches the others so that the mean stays. The dots in the picture say where: after the sum of embedding and position on both sides, and on what a sublayer
# computes, before it is added. From there on the residual stream itself is never cut. We listen again, and count:

# %%
small = Transformer(replace(shape, n_layers=1, dropout=0.1)).train()
zeros = []
for name, module in small.named_modules():
    if isinstance(module, nn.Dropout) and module.p:
        module.register_forward_hook(
            lambda m, i, out, name=name: zeros.append(
                (name, out.eq(0).float().mean())
            )
        )
ids = torch.randint(1, 20, (64, 20))
small(ids, ids)
for name, share in zeros:
    print(f"{name:32} {share:.1%} zeros")
assert len(zeros) == 2 + 2 + 3 and all(0.08 < share < 0.12 for _, share in zeros)

# %% [markdown]
# **The norm** stands after the addition in the paper (`norm="post"`) and before the sublayer in its code (`norm="pre"`). For the whole model the switch changes one thing more: with pre-norm nobody
# has normalised the last sum, so each stack gets one norm at its end, $2 \cdot 2d$ parameters.

# %%
pre = on_meta(replace(base, norm="pre"))
assert size(pre) - size(on_meta(base)) == 2 * 2 * 512
print(type(pre.encoder_norm).__name__, type(on_meta(base).encoder_norm).__name__)

# %% [markdown]
# ## What goes wrong in practice
#
# **Tied, you thought.** Tying is one object with three names. Whoever gives one of the names a new object, to put in pretrained vectors for example, has cut the tie, and nothing is raised.

# %%
pretrained = torch.randn(20, 32) / math.sqrt(32)
wrong, right = Transformer(shape), Transformer(shape)
before = size(wrong)
wrong.source_embedding.weight = nn.Parameter(pretrained)  # a new object
right.source_embedding.weight.data.copy_(pretrained)  # new numbers
for name, model in (("a new object", wrong), ("new numbers", right)):
    same = model.unembedding.weight is model.source_embedding.weight
    print(f"{name:13} tied: {same!s:6} {size(model) - before:3} parameters more")

# %% [markdown]
# **Three matrices loaded into one.** A tied model's `state_dict` lists all three names. So a checkpoint of an *untied* model fits it: every key matches. They are copied one after another into the same place, and the last one
# wins.

# %%
untied, model = (
    Transformer(replace(shape, tie_embeddings="none")),
    Transformer(shape),
)
print(model.load_state_dict(untied.state_dict()))
got = model.source_embedding.weight
assert torch.equal(got, untied.unembedding.weight)
assert not torch.equal(got, untied.source_embedding.weight)
print("the source embedding is now the output matrix")

# %% [markdown]
# One line after any such work guards against both, and against loading with `assign=True` and moving off the meta device, which may cut ties too:
#
# ```python
# assert model.unembedding.weight is model.source_embedding.weight
# ```
#
# **Counted twice.** `parameters()` lists a tied tensor once, `state_dict()` under every name. Sum up the wrong one, and base is at the size of the untied model:

# %%
model = on_meta(base)
twice = sum(t.numel() for t in model.state_dict().values())
print(f"parameters()  {size(model):11,}")
print(f"state_dict()  {twice:11,}")
assert twice == size(on_meta(replace(base, tie_embeddings="none")))

# %% [markdown]
# **The factor forgotten, or used twice.** Weights move between programs, and not all multiply in the same place: some keep $\sqrt{d_\text{model}}$ in the forward pass, some have it in the matrix. Nothing is raised; the words whisper, or shout. The
# ratio of the two mean squares tells: it should be near 2 to 1 at the start.

# %%
table = Transformer(shape).source_embedding.weight.detach()
for name, factor in (("forgotten", 1), ("right", math.sqrt(32)), ("twice", 32)):
    ratio = (table * factor).square().mean() / 0.5
    print(f"{name:10} words : positions = {ratio:5.2f} : 1")

# %% [markdown]
# **Ids that are not in the vocabulary**, mostly because the tokenizer is that of another model. The bare embedding says something about an index. The package says which range is allowed and what came:

# %%
model, ids = Transformer(shape).eval(), torch.tensor([[5, 20]])
for read in (model.source_embedding, model.encode):
    try:
        read(ids)
    except (IndexError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")

# %% [markdown]
# It looks on the CPU only. On a GPU, looking would mean to wait for it in every step, so there a wrong id ends in an assertion of the device, far from its cause. Run one batch on the CPU and read the message there.
#
# **Left in training mode.** A new model is in training mode, and so is one after an epoch. Dropout then goes on while it translates. Every run gives something else:

# %%
ids = torch.tensor([[5, 9, 7]]), torch.tensor([[1, 4]])
with torch.no_grad():
    for mode in (True, False):
        model.train(mode)
        change = (model(*ids) - model(*ids)).abs().max()
        print(f"training={mode!s:6} runs differ by {change:.2f}")
assert change == 0

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You double `d_model` and `d_ff` of the base model and leave all else. The layers' parameters become**
#
# <details><summary>A. twice as many</summary>
#
# No. That is the embeddings, which have one side of $d$ and one of $v$.
#
# </details>
# <details><summary>B. about four times as many</summary>
#
# **Right.** Their matrices are $d \times d$ or $d \times f$; both sides double. (Biases and norms only double, so it is a little less.)
#
# </details>
# <details><summary>C. eight times as many</summary>
#
# No. This would need a matrix with three sides, or twice the layers as well.
#
# </details>
# <details><summary>D. as many as before, if the heads double too</summary>
#
# No. Heads share out the matrices. Their number is in no formula.
#
# </details>
#
# **2. A tied model with all its linear layers near zero translates "a dog". What does it say first?**
#
# <details><summary>A. A random word</summary>
#
# No. That is the model with a good start. This one is certain.
#
# </details>
# <details><summary>B. "a", the first word of the source</summary>
#
# No. The source reaches the decoder only through cross-attention, and that adds nothing here.
#
# </details>
# <details><summary>C. &lt;bos&gt;, the token that it has just read</summary>
#
# **Right.** The vector passes through unchanged, and the nearest row of the tied matrix is its own.
#
# </details>
# <details><summary>D. Nothing: all scores are zero</summary>
#
# No. The layers add zero, but the residual stream carries the embedding to the end.
#
# </details>
#
# **3. Your post-norm model's activations have mean square 1 in every layer. What do you know about its start?**
#
# <details><summary>A. That it is good: variance is kept</summary>
#
# No. All four models above had that, the two bad ones too.
#
# </details>
# <details><summary>B. That its weights have variance 1/n</summary>
#
# No. The norm makes the mean square 1 for any weights.
#
# </details>
# <details><summary>C. That its gradients are level</summary>
#
# No. With 0.2 they fell by five powers of ten under perfectly level activations.
#
# </details>
# <details><summary>D. Nothing</summary>
#
# **Right.** The norm sees to it, whatever stands before. Measure what goes into the norm, or measure the gradients.
#
# </details>
#
# **4. You tie source and target embedding, but the two languages have separate vocabularies of equal size. What happens?**
#
# <details><summary>Answer</summary>
#
# No error: the shapes fit. But id 17 is now one word in English and another, unrelated one in German, and both must live with the same row. Tying all three makes sense only with a shared
# vocabulary; with separate ones it is `tie_embeddings="decoder"`, target and output.
#
# </details>
#
# **5. With pencil and paper: how many parameters has a model with d_model 10, d_ff 20, one layer on each side, and 100 words, all tied?**
#
# <details><summary>Answer</summary>
#
# Attention $4 \cdot 110 = 440$, three of them: 1320. Feed-forward $220 + 210 = 430$, two: 860. Norms $20$, five: 100. E: 1000. In all 3280. Check it with `sum(by_formula(10, 20, 1, 100).values())`.
#
# </details>

# %% tags=["hide-input"]
assert sum(by_formula(10, 20, 1, 100).values()) == 3280

# %% [markdown]
# ## Exercises
#
# Five blanks: the two stacks, the way back to words, Xavier's rule, every parameter counted, and memory. Each has a check that says what is wrong, and a hint.
#
# - In Colab:
#   [07_full_model](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/07_full_model.ipynb).
#   On GitHub: [07_full_model.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/07_full_model.ipynb).
# - On your machine, open `exercises/07_full_model.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade full_model
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And four experiments.
#
# 1. **Design a model** with at most 20 million parameters and a vocabulary of 16,000. Deep and narrow or shallow and wide? Write down three with the sliders and count them with `parameter_table`.
# 2. **A start for your width.** Take `begin` and `look` from above, another `d_model`, and find the deviation at which the encoder's and the decoder's gradients are equal. Compare it with Xavier's.
# 3. **Pre-norm** in the gradients' picture: `replace(start, norm="pre")`. Which of the four lines changes most?
# 4. **Does tying help, and does the start matter?** Each of these is one run of some minutes; compare their `metrics.jsonl`:
#
# ```bash
# transformer train pocket --run runs/tied
# transformer train pocket --run runs/untied --model.tie-embeddings none
# transformer train pocket --run runs/normal --model.initialisation normal
# ```

# %% [markdown]
# ## Going further
#
# - **In the paper:** the two stacks in §3.1, embeddings, their tying and their factor in §3.4, dropout in §5.4, sizes in Table 3 {cite}`vaswani2017`.
# - **Tying:** {cite}`press2017` showed that the output matrix is a good embedding, and tied all three for translation.
# - **Where the two-sided rule comes from:** {cite}`glorot2010` derive it for stacks without residuals, and measure gradients by layer as we did.
# - **Norm, start and warm-up hang together:** {cite}`xiong2020` for the norm's place; {cite}`huang2020` choose a start with which neither norm nor warm-up is needed.
# - **Less memory for activations**, at the price of computing some of them twice: {cite}`chen2016`.
