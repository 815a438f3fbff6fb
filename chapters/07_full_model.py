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
# This is the paper's base model, drawn to scale: **each square stands for 512 × 512 parameters**. You know the matrices at the top from the previous chapters. What is the large block at the bottom for? How do the parts fit together into *one* model? And what values should the weights start from?

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
    print(f"With all figures: {book}/chapters/07_full_model.html")

# %% tags=["hide-input"]
from itertools import pairwise

import torch

from transformer.config import ModelConfig
from transformer.plots.architecture import architecture
from transformer.plots.curves import curves
from transformer.plots.parameter_explorer import parameter_explorer
from transformer.plots.parameter_squares import parameter_squares
from transformer.plots.scale_by_layer import scale_by_layer
from transformer.plots.style import Captioned, Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

Picture(
    parameter_squares(ModelConfig()),
    alt=(
        "The weight matrices of the base model as squares of equal size. Each of the six "
        "encoder layers is a row of 12 squares: four of self-attention and eight of the "
        "feed-forward network. Each of the six decoder layers is a row of 16: four of "
        "self-attention, four of cross-attention and eight of the feed-forward network. Below, "
        "the shared embedding: 72 squares and a quarter, as many as the encoder has."
    ),
    caption=(
        "The base model's weights, coloured by their role. The shared embedding "
        "takes up as much space as all six encoder layers; the strip below its block is "
        "the last quarter of a square."
    ),
)

# %% [markdown]
# By the end you will be able to assemble the Transformer from its layers, explain weight tying, recognise a bad initialisation, and work out any model's size with pencil and paper. **About 40 minutes.** The chapter builds on those from [Attention](02_attention.ipynb) to [Encoder and decoder layers](06_layers.ipynb).

# %% tags=["hide-input", "imports"]
import copy
import math
from dataclasses import replace
from textwrap import fill

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import transformer
from transformer.config import PRESETS, ModelConfig
from transformer.data.tokenizer import PAD
from transformer.layers import DecoderLayer, EncoderLayer
from transformer.masks import causal_mask, padding_mask, target_mask
from transformer.model import Transformer
from transformer.positions import sinusoidal_encoding

# %% [markdown]
# ## From layers to a model
#
# The layers of the last chapter turn vectors into vectors of the same width, whereas a translator takes token ids and returns a score for every token of the vocabulary. So the full model needs something at both ends.
#
# The figure shows the whole model. Read it from bottom to top, and look for the **three shaded boxes** below and above the two stacks. All of them use the same matrix $E$, the large block in the first figure. In the two lower boxes, $E$ turns ids into vectors, and in the upper one, it turns vectors into scores, the **logits**.

# %% tags=["hide-input"]
Picture(
    architecture(ModelConfig()),
    alt=(
        "Two stacks. Left, from the bottom: source ids are looked up in E and "
        "multiplied by the root of 512, positions are added, and six encoder layers of "
        "self-attention and feed-forward follow; their output is the memory. Right: "
        "target ids go the same way into six decoder layers of masked self-attention, "
        "cross-attention, which reads the memory, and feed-forward. A linear layer with "
        "weights E computes the logits of 37,000 tokens, and a softmax turns them into "
        "probabilities. An arrow leads around each sublayer to a plus sign: add and norm. "
        "Dots mark dropout after the positions and after every sublayer."
    ),
    caption=(
        "The full model: token ids enter at the bottom, the encoder's memory feeds "
        "the decoder, and the shared matrix E (shaded) appears three times. The arrows "
        "around the sublayers are the residual connections."
    ),
)

# %% [markdown]
# Where do the target ids come from? In training, the decoder reads the correct translation **shifted right by one**, for example `<bos> Ein Hund rennt`, and should predict `Ein Hund rennt <eos>`. This is **teacher forcing**, from [Masking](04_masking.ipynb). At inference, the model is **autoregressive**: it starts with `<bos>`, and each token that it generates is appended to the decoder's input.
#
# Here are the shapes from ids to scores, for $B$ sentence pairs, $S$ source tokens and $T$ target tokens. The example is the base model, with sources padded to 20 tokens and targets to 25:
#
# | | shape | example |
# |---|---|---|
# | source ids | $(B, S)$ | (32, 20) |
# | embedded source | $(B, S, d_\text{model})$ | (32, 20, 512) |
# | memory | $(B, S, d_\text{model})$ | (32, 20, 512) |
# | target ids | $(B, T)$ | (32, 25) |
# | decoder output | $(B, T, d_\text{model})$ | (32, 25, 512) |
# | logits | $(B, T, V)$ | (32, 25, 37000) |
#
# Two things are easy to miss:
#
# - **Every** decoder layer reads the output of the **last** encoder layer. Encoder layer 3 isn't connected to decoder layer 3.
# - The dots in the figure mark **dropout** (§5.4). The paper applies it to the output of each sublayer before it is added to the residual stream, and to the sum of embedding and position, but not to attention weights.
#
# In code, a constructor creates the parts, and two loops connect them. The two assignments in the middle of the constructor turn three matrices into one.

# %% tags=["remove-cell"]
with torch.device("meta"):
    base = Transformer(ModelConfig())
    ids = torch.zeros(32, 20, dtype=torch.long)
    target_ids = torch.zeros(32, 25, dtype=torch.long)
    embedded = base.embed(ids, base.source_embedding)
    memory, memory_mask = base.encode(ids)
    decoded = base.decode(target_ids, memory, memory_mask)
    assert embedded.shape == memory.shape == (32, 20, 512)
    assert decoded.shape == (32, 25, 512)
    assert base.logits(decoded).shape == (32, 25, 37_000)


# %%
class Parts(nn.Module):
    """All parts of the model that have weights, and dropout."""

    def __init__(self, config):
        super().__init__()
        vocab_size, d_model, N = config.vocab_size, config.d_model, config.n_layers
        self.source_embedding = nn.Embedding(vocab_size, d_model)
        self.target_embedding = nn.Embedding(vocab_size, d_model)
        self.unembedding = nn.Linear(d_model, vocab_size, bias=False)
        self.target_embedding.weight = self.source_embedding.weight
        self.unembedding.weight = self.source_embedding.weight
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(N))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(N))
        self.dropout = nn.Dropout(config.dropout)


# %%
class OurTransformer(Parts):
    def embed(self, ids, embedding):
        d_model = embedding.embedding_dim
        positions = sinusoidal_encoding(ids.size(1), d_model)
        return self.dropout(embedding(ids) * math.sqrt(d_model) + positions)

    def forward(self, source, target):
        source_mask = padding_mask(source, PAD)
        memory = self.embed(source, self.source_embedding)
        for layer in self.encoder:
            memory = layer(memory, source_mask)
        x = self.embed(target, self.target_embedding)
        for layer in self.decoder:
            x = layer(x, memory, target_mask(target, PAD), source_mask)
        return self.unembedding(x)  # logits: (batch, target, vocab_size)


# %% [markdown]
# Here is a small model of this kind and a batch with padding in both source and target. The output has a logit for each of the 20 tokens, at each target position:

# %%
torch.manual_seed(0)
tiny = ModelConfig(vocab_size=20, d_model=32, n_heads=4, d_ff=64, n_layers=2)
ours = OurTransformer(tiny).eval()
padded_source = torch.tensor([[5, 9, 7, 3], [8, 2, PAD, PAD]])
padded_target = torch.tensor([[1, 4, 6], [1, 11, PAD]])
with torch.no_grad():
    expected = ours(padded_source, padded_target)
expected.shape  # (batch, target, vocab_size)

# %% tags=["remove-cell"]
packaged = Transformer(tiny).eval()
packaged.load_state_dict(ours.state_dict())
with torch.no_grad():
    assert_close(packaged(padded_source, padded_target), expected)

# %% [markdown]
# The package's `Transformer`, which we use after the comparison with PyTorch, has the same parts under the same names, plus options such as pre-norm.
#
# ### The same as PyTorch's `nn.Transformer`
#
# PyTorch has a Transformer too. If we copy our weights into it, it must compute the same logits. The dictionary `their_name` translates the names of our weights into PyTorch's, and `copy_weights` copies them:

# %% tags=["hide-input"]
their_name = {
    "self_attention.query_key_value.": "self_attn.in_proj_",
    "self_attention.output": "self_attn.out_proj",
    "cross_attention.query_key_value.": "multihead_attn.in_proj_",
    "cross_attention.output": "multihead_attn.out_proj",
    "feed_forward.inner": "linear1",
    "feed_forward.outer": "linear2",
    "residuals.0.norm": "norm1",
    "residuals.1.norm": "norm2",
    "residuals.2.norm": "norm3",
}


# %%
def copy_weights(ours, theirs):
    for stack in ("encoder", "decoder"):
        weights = {}
        for name, weight in getattr(ours, stack).state_dict().items():
            for our_part, their_part in their_name.items():
                name = name.replace(our_part, their_part)
            weights[name] = weight
        getattr(theirs, stack).layers.load_state_dict(weights)


# %% [markdown]
# `nn.Transformer` consists of the two stacks only, so we provide both ends: the embeddings and the output layer. It differs from our model in three more ways. Its masks mean the opposite of ours: **True means hidden**. Even with post-norm it ends each stack with one more norm, which the paper's model doesn't have, so we remove it. And in training it also applies dropout to attention weights and inside the feed-forward network; here, dropout is off.

# %%
pytorch = nn.Transformer(32, 4, 2, 2, 64, dropout=0.0, batch_first=True)
pytorch.encoder.norm = pytorch.decoder.norm = None
copy_weights(ours, pytorch)
with torch.no_grad():
    decoded = pytorch(
        ours.embed(padded_source, ours.source_embedding),
        ours.embed(padded_target, ours.target_embedding),
        tgt_mask=~causal_mask(3)[0, 0],
        src_key_padding_mask=padded_source == PAD,
        tgt_key_padding_mask=padded_target == PAD,
        memory_key_padding_mask=padded_source == PAD,
    )
    assert_close(ours.unembedding(decoded), expected)
print("the same logits as nn.Transformer")

# %% [markdown]
# ## One matrix, three jobs
#
# To see what $E$ does, we shrink it to a vocabulary of four tokens with vectors of four numbers:

# %%
tokens = ["<pad>", "<bos>", "dog", "Hund"]
toy_E = torch.tensor([[0, 0, 0, 0], [1, -1, 0, 0], [0, 1, 1, 0], [0, 1, 1, -1]]) / 2
toy_E  # (vocab_size, d_model) = (4, 4)

# %% [markdown]
# **Jobs 1 and 2: embedding.** The encoder reads *dog*, whose id is 2. Its embedding is row 2 of $E$, times $\sqrt{d_\text{model}} = 2$ (§3.4): $(0, 1, 1, 0)$. Then the position is added. The decoder does the same with target tokens.
#
# **Job 3: output layer.** Say that after `<bos>`, the decoder's output is $x = (0, 1, 1, -1)$. The logit of each token is the dot product of $x$ with *its row of $E$*. For *Hund* ("dog") that is $(0 + 1 + 1 + 1)/2 = 1.5$. A softmax then turns logits into probabilities. Because the output layer goes back from vectors to tokens, it is also called the **unembedding**.


# %%
def logit_table(x, matrix):
    logits = x @ matrix.T  # (vocab_size,)
    for token, logit, p in zip(tokens, logits, logits.softmax(dim=0), strict=True):
        print(f"{token:6} logit {logit:5.2f}   probability {p:.2f}")


logit_table(torch.tensor([0.0, 1, 1, -1]), toy_E)

# %% [markdown]
# So a row of $E$ has two roles: at the input, it is the token's vector, and at the output, it is what the decoder's output is compared with. Using one matrix for several jobs is called **weight tying** ([Press and Wolf, 2017](https://aclanthology.org/E17-2025/)). All three jobs can share $E$ because source and target have a common vocabulary (§5.1).
#
# In PyTorch, the two assignments in our constructor are enough to tie the matrices. No transpose is needed: `nn.Embedding` and `nn.Linear` both store a matrix of shape (`vocab_size`, `d_model`). Afterwards, three names belong to one tensor: `state_dict()` lists all three, `parameters()` only the first.
#
# Tying has a strange consequence. Suppose that all sublayers output zero. Then the vector of `<bos>`, which includes its position, leaves the decoder almost as it entered: the layer norms rescale it, but with hundreds of dimensions they hardly change its direction (in the toy example we leave them out). Its dot product is largest with its own row of $E$, because a vector usually has a larger dot product with itself than with other vectors of similar length:

# %%
unchanged = toy_E[1] * 2 + sinusoidal_encoding(1, 4)[0]
logit_table(unchanged, toy_E)

# %% [markdown]
# So a model whose layers do nothing **copies its input**. With only four dimensions the effect is weak, but below, a model with 256 copies with near certainty.
#
# ### What tying saves, and what it changes
#
# In the package, `tie_embeddings` has three settings. With `"all"`, the paper's choice, all three jobs share a matrix. With `"decoder"`, only the target embedding and the output layer do, and with `"none"` there are three matrices. How many parameters does the base model have in each case? To count them without allocating memory, we create the models on PyTorch's **meta device**, where tensors have a shape but no data:


# %%
def count_parameters(config):
    with torch.device("meta"):
        empty_model = Transformer(config)
    return sum(p.numel() for p in empty_model.parameters())


for tie in ("all", "decoder", "none"):
    config = ModelConfig(tie_embeddings=tie)  # otherwise, the base model
    count = count_parameters(config)
    print(f"{tie:8} {count / 1e6:6.1f} million parameters")

# %% [markdown]
# Each additional matrix costs $37{,}000 \cdot 512 \approx 19$ million parameters. In the experiments of Press and Wolf, tying all three made translations no worse. But tying also changes how the matrix learns: it gets the **sum of the gradients of its three jobs**. To see this, we give a model with three separate matrices the same weights, and compare the gradients. For each job, the output shows how many rows of the matrix have a gradient:


# %%
def loss_of(model, source, target, labels):
    logits = model(source, target)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


config = ModelConfig(
    vocab_size=1000, d_model=256, n_heads=4, d_ff=1024, n_layers=6, dropout=0.0
)
torch.manual_seed(0)
# Random inputs and random labels: we only look at sizes, nothing is learned.
random_ids = torch.randint(4, 1000, (3, 4, 16))
source, target, labels = random_ids  # each (batch, length) = (4, 16)

# %%
torch.manual_seed(0)
tied = Transformer(config)
separate = Transformer(replace(config, tie_embeddings="none"))
separate.load_state_dict(tied.state_dict())
for model in (tied, separate):
    loss_of(model, source, target, labels).backward()

# %%
jobs = {
    "source embedding": separate.source_embedding.weight.grad,
    "target embedding": separate.target_embedding.weight.grad,
    "output layer": separate.unembedding.weight.grad,
}
assert_close(tied.unembedding.weight.grad, sum(jobs.values()))
for name, gradient in jobs.items():
    n_rows = gradient.any(dim=1).sum().item()
    print(f"{name:16} {n_rows:4} of 1000 rows")

# %% [markdown]
# As an embedding, a row gets a gradient only if its token occurs in the batch. (That both sides have 62 different tokens is a coincidence.) In the output layer, every row gets one: a training step pushes the logit of the correct token up and those of all other tokens down. So with tying, even the input vector of a very rare token is updated in every step, although mostly by pushing it away from what the decoder outputs.

# %% tags=["remove-cell"]
assert jobs["output layer"].any(dim=1).all()
assert len(source.unique()) == len(target.unique()) == 62
assert ours.state_dict().keys() > dict(ours.named_parameters()).keys()

# %% [markdown]
# ### What trained rows look like
#
# *Optional: no later chapter builds on this section.*
#
# In the toy matrix, the rows of *dog* and *Hund* are similar. Does training make them so? The caption translator from [chapter 1](01_translation.ipynb) has tied weights. Which rows of its $E$ point in the most similar directions, that is, have the highest cosine similarity?

# %%
translator = transformer.load("multi30k", device="cpu")
vocabulary = translator.tokenizer.pieces(range(len(translator.tokenizer)))
directions = F.normalize(translator.model.source_embedding.weight.detach(), dim=1)
for word in ("▁dog", "▁red", "▁street", "▁Hund"):
    similarity = directions @ directions[vocabulary.index(word)]  # (8000,)
    nearest = similarity.topk(5).indices[1:]  # the first one is the word itself
    print(f"{word:8}", *(vocabulary[i] for i in nearest))

similarity = directions @ directions[vocabulary.index("▁dog")]
closer = (similarity > similarity[vocabulary.index("▁Hund")]).sum() - 1
print(f"{closer} tokens are closer to ▁dog than ▁Hund is")

# %% [markdown]
# Most of the nearest rows belong to words with similar uses: inflections, other spellings, other colours, a *road* instead of a *street*. But in this model, the rows of a word and its translation are **not** similar: hundreds of tokens are closer to *dog* than *Hund* is. Training doesn't require them to be. The encoder reads *dog*, the decoder predicts *Hund*, and the layers between them can turn one vector into the other.

# %% tags=["remove-cell"]
assert translator.model.config.tie_embeddings == "all" and len(vocabulary) == 8000
assert "▁dogs" in [vocabulary[i] for i in similarity.topk(5).indices]
assert "▁Dog" in [vocabulary[i] for i in similarity.topk(5).indices]
assert 300 < closer < 400
street = directions @ directions[vocabulary.index("▁street")]
assert vocabulary[street.topk(2).indices[1]] == "▁road"
with torch.no_grad():  # a layer norm hardly changes the direction of an embedding
    embedded = tied.embed(target, tied.target_embedding)
    normalised = F.layer_norm(embedded, (256,))
assert torch.cosine_similarity(embedded, normalised, dim=-1).min() > 0.85
assert (
    tied.unembedding.weight.shape
    == tied.source_embedding.weight.shape
    == (1000, 256)
)
assert ours.unembedding.weight is ours.source_embedding.weight
assert sum(p.numel() for p in ours.parameters()) == count_parameters(tiny)

# %% [markdown]
# ### Why embeddings start small
#
# The factor $\sqrt{d_\text{model}}$ keeps the position from drowning out the word, as you saw in [Positional encoding](05_positional_encoding.ipynb). But that is only half the explanation. Why not simply start with large embeddings, of variance 1 as in PyTorch's `nn.Embedding`, and drop the factor?
#
# The reason is job 3, the output layer. A logit is a sum of $d_\text{model}$ products of the decoder's output and a row of $E$. Let the entries of $E$ be independent of each other and of that output, with mean 0 and variance $\sigma^2$. The decoder's last norm gives its output a mean square of 1, so each product has variance $\sigma^2$ on average, and the variances add up to $d_\text{model}\,\sigma^2$, as for the scores in [Attention](02_attention.ipynb).
#
# `OurTransformer` has just this problem: its $E$ keeps the variance of 1 that `nn.Embedding` starts with. Here is its loss without any training, then that of the package's model, and last that of the same model with an output matrix of variance 1:


# %%
def untrained_loss(model, matrix):
    # encode returns the memory and its mask; decode ends before the logits
    decoded = model.decode(target, *model.encode(source))
    logits = decoded @ matrix.T
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten()).item()


# %%
torch.manual_seed(0)
E = tied.unembedding.weight  # variance 1 / 256
with torch.no_grad():
    large = OurTransformer(config)
    loss = loss_of(large, source, target, labels)
    loss_small = untrained_loss(tied, E)
    loss_large = untrained_loss(tied, E * math.sqrt(256))
print(f"ours, variance 1                {loss:6.2f}")
print(f"package's, variance 1 / d_model {loss_small:6.2f}")
print(f"the same, variance 1            {loss_large:6.2f}")
print(f"uniform guess                   {math.log(1000):6.2f}")

# %% tags=["remove-cell"]
assert 0.35 < loss_small - math.log(1000) < 0.5 and loss_large > 30 and loss > 100
with torch.no_grad():
    assert (large(source, target).argmax(dim=-1) == target).all(), "it copies"

# %% [markdown]
# With variance $1/d_\text{model}$, the logits have variance 1, and the loss is that of a uniform guess, $\ln V$ for a vocabulary of $V$ tokens, plus nearly a half. With variance 1, an untrained model is extremely confident, and almost always wrong. So the same matrix has to satisfy two requirements: as an output layer it needs variance $1/d_\text{model}$, and as an embedding it should be about as large as the positions, with variance near 1. Multiplying by $\sqrt{d_\text{model}}$ on the way in satisfies both. This is the usual explanation; the paper gives no reason.
#
# <details><summary>Where the half comes from</summary>
#
# The loss is $\ln$ of the sum of $e^z$ over the $V$ logits $z$, minus the logit of the correct token, which is 0 on average. That is $\ln V$ plus $\ln$ of the mean of $e^z$. If the logits are normally distributed with variance 1, that mean is $e^{1/2}$.
#
# </details>
# <details><summary>Why our model has the highest loss</summary>
#
# Our model also copies its input: its linear layers keep PyTorch's default weights, which are smaller than the package's, so its layers add little. Then the output resembles the row of the token that was just read. Both have length $\sqrt{256} = 16$, so that token's logit can reach $16 \cdot 16 = 256$.
#
# </details>
#
# ## Initialisation
#
# The same argument applies to every linear layer. Initial weights are random, with mean 0, and independent of the inputs. Each output is a sum of $n$ products, so if the inputs have mean square 1 and the weights have variance $\sigma^2$, the outputs have mean square $n\sigma^2$. In a plain stack of layers with $n = 512$ and $\sigma = 0.02$, the signal would vanish, because each layer would multiply its mean square by $512 \cdot 0.02^2 \approx 0.2$. Only $\sigma^2 = 1/n$ preserves the signal.
#
# **A Transformer isn't a plain stack.** Its sublayers *add* to a residual stream, and the layer norms rescale it, so the signal can't vanish. Instead, the initialisation determines **how much each sublayer adds, compared with what the stream already holds**:
#
# - If it adds far too little, the layers do nothing at first, and a tied model copies its input with great confidence.
# - If it adds far too much, the layer norm of a post-norm model divides the sum, including the old content of the stream, by a large number. The gradient that flows back along the stream is divided by that number as well, in every layer that it passes, unless it finds a way around.
#
# So with post-norm, what a sublayer adds should be comparable with the stream, whose root mean square (**rms**) is 1. Deep post-norm models train better if the sublayers add less at the start ([Liu et al., 2020](https://aclanthology.org/2020.emnlp-main.463/)). With pre-norm, nothing shrinks the stream and the contributions of all sublayers pile up, so each should add less.
#
# These are the usual rules:
#
# | rule | variance of the weights | reason |
# |---|---|---|
# | **He**, or Kaiming ([He et al., 2015](https://arxiv.org/abs/1502.01852)) | $2/n$ | a ReLU sets about half of the values to zero, which halves the mean square, and the 2 makes up for it |
# | **Xavier** ([Glorot and Bengio, 2010](https://proceedings.mlr.press/v9/glorot10a.html)) | $2/(n_\text{in} + n_\text{out})$ | in the backward pass, the gradient of an input is a sum over the layer's $n_\text{out}$ outputs, so there $1/n_\text{out}$ would be right; as a compromise, $n$ is the average of $n_\text{in}$ and $n_\text{out}$ |
# | BERT (post-norm) | $0.02^2$ | none given; it is the same for every layer, whatever its size |
# | GPT-2 (pre-norm) | $0.02^2$; in the layers that write to the residual stream, divided by the number of sublayers (so the standard deviation, by its square root) | many layers add to one stream, so each should add less |
#
# The paper doesn't say how its weights were initialised, but its authors' code, Tensor2Tensor, does: it uses [a uniform distribution with Xavier's variance](https://github.com/tensorflow/tensor2tensor/blob/master/tensor2tensor/utils/optimize.py). The package does the same by default. Its alternative is BERT's rule for every linear layer of the encoder and the decoder, a normal distribution with $\sigma = 0.02$:

# %% tags=["remove-input"]
SourceCode(Transformer.reset_parameters)

# %% [markdown]
# <details><summary>One detail: Xavier's rule for queries, keys and values</summary>
#
# Like PyTorch's `nn.MultiheadAttention`, the package keeps the weights of queries, keys and values in one matrix with $3d$ rows. For Xavier's rule this is one layer with $3d$ outputs, so its weights start with the variance $1/(2d)$, half of what three separate matrices would have.
#
# </details>
#
# How sensitive is a Transformer to its initialisation? We use the `config` of the section *What tying saves, and what it changes*, and compare three untrained post-norm models, whose linear layers start with Xavier's $\sigma$, with 0.02 and with 0.2. Which measurement reveals a bad start: the loss, the predictions, what the sublayers add, or the gradients? We try all four, on the batch of random ids from that section.


# %%
def initialise(std):
    """A model with this standard deviation of its linear layers; None: Xavier."""
    torch.manual_seed(0)
    model = Transformer(config)
    for stack in (model.encoder, model.decoder):
        for module in stack.modules():
            if isinstance(module, nn.Linear) and std is not None:
                nn.init.normal_(module.weight, std=std)
    return model


models = {"Xavier": initialise(None)}
for std in (0.02, 0.2):
    models[f"σ = {std}"] = initialise(std)

# %% [markdown]
# The next cell, which is folded, defines two functions. `copying` returns the mean probability of the token that the model has just read. `measure` records what the sublayers add to the residual stream, with forward hooks as in [chapter 6](06_layers.ipynb), and the gradient of each layer:


# %% tags=["hide-input"]
def record(sizes):
    """A hook that appends the rms of a module's output to a list."""

    def hook(module, inputs, output):
        sizes.append(output.square().mean().sqrt().item())

    return hook


def gradient_norm(layer):
    squares = sum(p.grad.square().sum() for p in layer.parameters())
    return math.sqrt(squares)


def measure(model):
    """The loss, and per layer: what two of its sublayers add, and its gradient."""
    feed_forward, cross_attention = [], []
    layers = [*model.encoder, *model.decoder]
    # The dropout at the end of a sublayer outputs what the sublayer adds.
    for layer in layers:
        layer.residuals[-1].dropout.register_forward_hook(record(feed_forward))
    for layer in model.decoder:
        layer.residuals[1].dropout.register_forward_hook(record(cross_attention))
    loss = loss_of(model, source, target, labels)
    loss.backward()
    gradients = [gradient_norm(layer) for layer in layers]
    return loss.item(), feed_forward, cross_attention, gradients


@torch.no_grad()
def copying(model):
    """The mean probability of the token that the model has just read."""
    probabilities = model(source, target).softmax(dim=-1)
    return probabilities.gather(-1, target[..., None]).mean().item()


# %% [markdown]
# The table shows the loss, the probability of copying, the rms of what cross-attention adds (compare it with 1, that of the stream), and the gradient of the first decoder layer:

# %%
losses, added, by_cross, gradients, copied = {}, {}, {}, {}, {}
print("          loss  copies  cross adds  gradient")
for name, model in models.items():
    copied[name] = copying(model)
    measured = measure(model)
    losses[name], added[name], by_cross[name], gradients[name] = measured
    adds = sum(by_cross[name]) / 6  # mean over the six decoder layers
    row = f"{name:9}{losses[name]:5.2f}{copied[name]:8.3f}{adds:12.2g}"
    print(f"{row}{gradients[name][6]:10.1g}")

# %% [markdown]
# With $\sigma = 0.02$, the untrained model **copies its input**, because its layers add so little to the residual stream. It is extremely confident and wrong, so its loss is far above that of a uniform guess, which is 6.91. With $\sigma = 0.2$, cross-attention adds ten times as much as the stream holds. The loss of this model doesn't show it, because the last norm brings the output back to mean square 1, but in the first decoder layer, the gradient almost vanishes.

# %% [markdown]
# The next two plots have a point for each layer. The first shows the rms of what the feed-forward network **adds to the residual stream**, and the second the size of the layer's **gradient**. Which model's feed-forward networks add an amount comparable with the stream, whose rms is 1? And in which model do all twelve layers get gradients of similar size?

# %% tags=["hide-input"]
Row(
    Picture(
        scale_by_layer(added, "Feed-forward output (rms)", split=6),
        alt=(
            "Root mean square of the feed-forward network's output by layer, logarithmic. "
            "Three level lines: Xavier near 0.6, 0.02 near 0.15, 0.2 near 14."
        ),
    ),
    Picture(
        scale_by_layer(gradients, "Gradient of a layer (norm)", split=6),
        alt=(
            "Gradient norms by layer, logarithmic. Xavier stays between 1 and 4. 0.02 "
            "is close to it, but lower in the encoder. With 0.2 the gradient falls by several powers "
            "of ten from the decoder's last layer to its first, and is large again in "
            "the encoder."
        ),
    ),
    caption=(
        "What each layer's feed-forward network adds to the residual stream, and the "
        "layer's gradient, for three initialisations. Only with Xavier is what is "
        "added comparable with the stream, and the gradient similar, in all layers."
    ),
)

# %% tags=["remove-cell"]
import json
from pathlib import Path
from statistics import fmean

from transformer.recipes import RECIPES

xavier, huge = gradients["Xavier"], gradients["σ = 0.2"]
assert min(xavier) > 1 and max(xavier) < 4 and max(xavier) < 3 * min(xavier)
assert (
    huge[11] > 10_000 * huge[6] and abs(losses["σ = 0.2"] - losses["Xavier"]) < 0.5
)
assert all(5 < above / below < 20 for below, above in pairwise(huge[6:])), "by ten"
assert losses["σ = 0.02"] > 12
assert min(added["Xavier"]) > 0.5 and max(added["Xavier"]) < 0.65
assert f"{math.sqrt(2 / 5120):.2f}" == "0.02"
assert all(8 < x < 13 for x in by_cross["σ = 0.2"]), "ten times"
assert 0.1 < max(added["σ = 0.02"]) < 0.18 and 12 < min(added["σ = 0.2"]) < 17
with torch.no_grad():
    alike = models["σ = 0.2"](source, target)[0].softmax(dim=-1)
    copies = models["σ = 0.02"](source, target).argmax(dim=-1)
assert (alike - alike[0]).abs().max() < 0.01
assert (copies == target).all()
assert abs(losses["Xavier"] - loss_small) < 1e-4, "the same model as above"
small = gradients["σ = 0.02"]
assert max(small[:6]) < min(small[6:]) / 4 and max(small) > 5 * min(small)
assert min(huge[:6]) > max(huge[6:]), "the encoder's gradient is large"
large = models["σ = 0.2"]
by_self_attention = []
for layer in [*large.encoder, *large.decoder]:
    layer.residuals[0].dropout.register_forward_hook(record(by_self_attention))
with torch.no_grad():
    large(source, target)
assert all(8 < x < 20 for x in by_self_attention), by_self_attention
large.zero_grad()
memory, memory_mask = large.encode(source)
x = large.embed(target, large.target_embedding)
for i, layer in enumerate(large.decoder):
    x = layer(x, memory if i == 5 else memory.detach(), None, memory_mask)
F.cross_entropy(large.logits(x).flatten(0, 1), labels.flatten()).backward()
for layer, gradient in zip(large.encoder, huge[:6], strict=True):
    ratio = gradient_norm(layer) / gradient
    assert 0.95 < ratio < 1.05, "from the last decoder layer"

# The experiments: three to four BLEU points, with pre-norm and a width of 128.
file = Path("../book/results/initialisation.json")
if file.exists():  # not in Colab
    bleu = {"xavier": [], "normal": []}
    for row in json.loads(file.read_text("utf-8"))["rows"]:
        bleu[row["label"]].append(
            [test["scores"][0]["value"] for test in row["test_sets"]]
        )
    means = {name: [*map(fmean, zip(*bleu[name], strict=True))] for name in bleu}
    greedy, beam = (
        x - n for x, n in zip(means["xavier"], means["normal"], strict=True)
    )
    assert 3 < beam < greedy < 4.2
    assert (RECIPES["pocket"].model.norm, RECIPES["pocket"].model.d_model) == (
        "pre",
        128,
    )

# %% [markdown]
# - **Xavier:** what a sublayer adds is comparable with the stream, and the gradients of the twelve layers are within a factor of three.
# - **σ = 0.02** is too small at this width: the sublayers add far too little. In the second plot it doesn't stand out: the gradients of its encoder are several times smaller than those of its decoder, but nearly equal within each stack. In a wider model, 0.02 can be right: for a layer from 1024 to 4096, Xavier's rule itself gives $\sqrt{2/5120} = 0.02$.
# - **σ = 0.2:** what is added drowns out the stream. The norm then divides the sum by about ten, so the gradient along the stream shrinks tenfold in every decoder layer.
#
# <details><summary>Why does the gradient vanish only in the decoder?</summary>
#
# Self-attention and the feed-forward network also add ten times the stream, or more. But their input *is* the stream, so the gradient reaches the layers below through them. Cross-attention gets only its queries from the stream, and these merely change the weights of the average. What is averaged comes from the memory, so most of the gradient leaves the decoder for the encoder. That is also why the encoder's gradient is large: the last decoder layer reads the memory directly.
#
# </details>
#
# So neither the loss, the predictions nor the gradients alone reveal every bad start. The output of a layer reveals nothing at all, because post-norm always brings it back to mean square 1. Measure **what the sublayers add**: it reveals both problems.
#
# **Does training repair a bad start?** The standard test of a new model is to let it memorise a single batch. We do this with all three, for 30 steps:


# %%
def memorise(model, steps=30):
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    losses = []
    for _ in range(steps):
        loss = loss_of(model, source, target, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


memorised = {name: memorise(copy.deepcopy(m)) for name, m in models.items()}

# %% tags=["hide-input"]
Picture(
    curves(
        range(30), memorised, "training step", "Loss on a batch that is memorised"
    ),
    alt=(
        "Loss over 30 training steps. Xavier falls from 7 to nearly 0. With 0.02 the "
        "loss starts at 13, but catches up within 20 steps. With 0.2 it starts like "
        "Xavier's and is still above 3 at the end."
    ),
    caption=(
        "Three initialisations memorise a batch. The start with the worst loss "
        "(0.02) catches up within twenty steps; the one whose loss looked fine (0.2) lags far behind."
    ),
)

# %% tags=["remove-cell"]
assert memorised["Xavier"][-1] < 0.3 and memorised["σ = 0.02"][-1] < 0.3
assert memorised["σ = 0.2"][-1] > 2.5
assert memorised["σ = 0.02"][0] > 12 and memorised["σ = 0.02"][20] < 1

# %% [markdown]
# The start with $\sigma = 0.02$ is repaired within twenty steps, at least in this test: no layer's gradient vanishes, and the optimiser, [Adam](11_training.ipynb), compensates for the smaller ones of the encoder. The one with $\sigma = 0.2$ isn't. In longer training, some of the damage of a small start can remain, too. In [our experiments](../book/experiments.md), small *pre-norm* translators of width 128 that started with $\sigma = 0.02$ scored three to four BLEU points lower on average, on the pocket corpus, than those that started with Xavier.
#
# ## Counting parameters
#
# You can count parameters with pencil and paper. Write $d$ for $d_\text{model}$, $f$ for $d_\text{ff}$, and remember that a linear layer from $a$ to $b$ has $ab$ weights and $b$ biases.
#
# | part | parameters | base model |
# |---|---|---|
# | attention: four layers from $d$ to $d$ | $4(d^2 + d)$ | 1,050,624 |
# | feed-forward: $d$ to $f$ and back | $2df + f + d$ | 2,099,712 |
# | layer norm: a gain and a bias | $2d$ | 1,024 |
# | **encoder layer:** self-attention, feed-forward, two norms | | 3,152,384 |
# | **decoder layer:** self-attention, cross-attention, feed-forward, three norms | | 4,204,032 |
# | embedding | $Vd$ | 18,944,000 |
#
# The number of heads isn't in the table, because the heads just divide $d$ among themselves. Here is the formula for the whole model, with $N$ layers on each side. We check it for the base model and for the paper's big model, which has $d = 1024$, $f = 4096$ and 16 heads:


# %%
def by_formula(d=512, f=2048, N=6, V=37_000):
    attention = 4 * (d * d + d)
    feed_forward = 2 * d * f + f + d
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return N * (encoder_layer + decoder_layer) + V * d


assert by_formula() == count_parameters(PRESETS["base"])
assert by_formula(d=1024, f=4096) == count_parameters(PRESETS["big"])
print(f"base {by_formula():,}   big {by_formula(d=1024, f=4096):,}")

# %% tags=["remove-cell"]
attention, feed_forward, norm = 1_050_624, 2_099_712, 1_024
assert attention == 4 * (512**2 + 512) and 37_000 * 512 == 18_944_000
assert feed_forward == 2 * 512 * 2048 + 2048 + 512
assert attention + feed_forward + 2 * norm == 3_152_384
assert 2 * attention + feed_forward + 3 * norm == 4_204_032
matrices = 6 * 12 * 512**2 + 6 * 16 * 512**2 + 18_944_000
assert by_formula() - matrices < 512**2 / 2, "biases and norms: half a square"
assert round(4 * 37_000 / 512) == 4 * 72 + 1, "72 squares and a quarter"

# %% [markdown]
# The squares at the top of the page make this easy to remember: an encoder layer has 12 squares, a decoder layer 16, and the embedding 72. With six layers of each kind, that is $72 + 96 + 72 = 240$ squares of 262,144 parameters, or 63 million. All biases and norms together wouldn't fill half a square.
#
# **Now build your own model** with the sliders. The number of vocabulary matrices is 1 if all three are tied, and 3 if none are. The triangles mark the paper's base model, and the diamonds its big one: can you reach them? Which bars grow with the square of `d_model`? Halve the depth: which bar stays the same?

# %% tags=["hide-input"]
from transformer.inspection import parameter_counts

counts = {}
for name in ("base", "big"):
    with torch.device("meta"):
        counts[name] = parameter_counts(Transformer(PRESETS[name]))
Captioned(
    parameter_explorer(
        counts,
        description=(
            "A bar for each part of the model: embeddings, and for encoder and "
            "decoder attention, feed-forward and norms. Five sliders set d_model, "
            "d_ff, the layers, the vocabulary and the number of vocabulary "
            "matrices. At first the bars are at the triangles, the base model with "
            "63.1 million; diamonds mark the big model with 214.2 million."
        ),
    ),
    (
        "Parameters of each part of the model, for the sizes that you choose; the "
        "markers are the paper's base and big models."
    ),
)

# %% [markdown]
# <details><summary>Answers</summary>
#
# The attention bars grow with the square of `d_model`; embeddings and norms are proportional to it, and so are the feed-forward networks, because the slider leaves `d_ff` unchanged. If you halve the depth, the embeddings stay the same.
#
# </details>
#
# The paper reports 65 million parameters for the base model. In this course, with the 37,000 tokens of §5.1, we count **63 million**.
#
# <details><summary>Why the paper's counts differ</summary>
#
# The paper's embedding matrix probably had more rows than its vocabulary had tokens. The first versions of Tensor2Tensor, the authors' code, read the tokens of this task (`wmt_ende_bpe32k`) from a file, but set the size of the matrix to **40,960**. A file made by Google's script of that time has [about 36,500 tokens](https://github.com/tensorflow/nmt/issues/415), which fits the 37,000 of §5.1; the other rows belong to no token. For each of the eleven models with a count in Table 3, here is our count with both sizes, in millions (in the rows $d_k = 16$ and $d_k = 32$, queries and keys are narrower, and $h d_k < d$):
#
# | model | paper | ours, 37,000 rows | ours, 40,960 rows |
# |---|---|---|---|
# | base | 65 | 63.1 | 65.1 |
# | $d_k = 16$ | 58 | 56.0 | 58.0 |
# | $d_k = 32$ | 60 | 58.4 | 60.4 |
# | $N = 2$ | 36 | 33.7 | 35.7 |
# | $N = 4$ | 50 | 48.4 | 50.4 |
# | $N = 8$ | 80 | 77.8 | 79.8 |
# | $d = 256$ | 28 | 26.8 | 27.8 |
# | $d = 1024$ | 168 | 163.9 | 167.9 |
# | $f = 1024$ | 53 | 50.5 | 52.5 |
# | $f = 4096$ | 90 | 88.3 | 90.3 |
# | big | 213 | 214.2 | 218.3 |
#
# With 37,000 rows none of the eleven numbers comes out right. With 40,960 all do but the big model's, and we don't know why that one doesn't. (A maintainer of Tensor2Tensor once spoke of [about 40,000 tokens](https://github.com/tensorflow/tensor2tensor/issues/55), probably because of this setting.)
#
# </details>


# %% tags=["remove-cell"]
def with_narrow_keys(d_k, V, d=512, N=6, n_heads=8):
    """Base model with narrower queries and keys: Table 3, rows (B)."""
    smaller = 2 * (d + 1) * (d - n_heads * d_k)  # in each attention
    return by_formula(V=V) - 3 * N * smaller


def table_3(V):
    return {
        "base": (65, by_formula(V=V)),
        "$d_k = 16$": (58, with_narrow_keys(16, V)),
        "$d_k = 32$": (60, with_narrow_keys(32, V)),
        "$N = 2$": (36, by_formula(N=2, V=V)),
        "$N = 4$": (50, by_formula(N=4, V=V)),
        "$N = 8$": (80, by_formula(N=8, V=V)),
        "$d = 256$": (28, by_formula(d=256, V=V)),
        "$d = 1024$": (168, by_formula(d=1024, V=V)),
        "$f = 1024$": (53, by_formula(f=1024, V=V)),
        "$f = 4096$": (90, by_formula(f=4096, V=V)),
        "big": (213, by_formula(d=1024, f=4096, V=V)),
    }


expected_rows = {
    "base": "63.1 | 65.1",
    "$d_k = 16$": "56.0 | 58.0",
    "$d_k = 32$": "58.4 | 60.4",
    "$N = 2$": "33.7 | 35.7",
    "$N = 4$": "48.4 | 50.4",
    "$N = 8$": "77.8 | 79.8",
    "$d = 256$": "26.8 | 27.8",
    "$d = 1024$": "163.9 | 167.9",
    "$f = 1024$": "50.5 | 52.5",
    "$f = 4096$": "88.3 | 90.3",
    "big": "214.2 | 218.3",
}
counted = {V: table_3(V) for V in (37_000, 40_960)}
in_millions = {
    name: [counted[V][name][1] / 1e6 for V in counted] for name in counted[37_000]
}
for name, ours_in_millions in in_millions.items():
    shown = " | ".join(f"{count:.1f}" for count in ours_in_millions)
    assert shown == expected_rows[name], "as in the table"
off = {
    V: [round(count / 1e6) - paper for paper, count in table.values()]
    for V, table in counted.items()
}
assert all(off[37_000]) and not any(off[40_960][:10]) and off[40_960][10] == 5

# %% [markdown]
# ## Memory for training
#
# For inference, half precision is usually enough, with 2 bytes per parameter. Training needs far more. In float32, each parameter takes 4 bytes and its **gradient** another 4, and Adam keeps **two moving averages** for it: one of the gradient, one of its square. That makes $4 + 4 + 8 = 16$ bytes per parameter:

# %%
print("GB                  base   big")
sizes = [by_formula(), by_formula(d=1024, f=4096)]
for use, n_bytes in (("inference, float16", 2), ("training, float32", 16)):
    row = "".join(f"{n_bytes * size / 1e9:6.2f}" for size in sizes)
    print(f"{use:18}{row}")

# %% tags=["remove-cell"]
optimizer = torch.optim.Adam(tied.parameters())
optimizer.step()
tensors = [*tied.parameters(), *(p.grad for p in tied.parameters())]
for state in optimizer.state.values():
    tensors += [state["exp_avg"], state["exp_avg_sq"]]
n_parameters = sum(p.numel() for p in tied.parameters())
assert sum(t.numel() * t.element_size() for t in tensors) == 16 * n_parameters

# %% [markdown]
# Then there are the **activations**: whatever the forward pass has to keep for the backward pass. They grow not only with the model but also with the batch size and the sequence length. So if memory is short, start with a smaller batch and **gradient accumulation**, which adds up the gradients of several small batches before each update. (See [Training](11_training.ipynb).) The largest single tensor among the activations is usually the logits. The paper's batch of about 25,000 target tokens (§5.1) has $25{,}000 \cdot 37{,}000 \cdot 4$ bytes = 3.7 GB of logits, or 0.46 GB on each of its eight GPUs. That is why the package's loss computes the logits in chunks. For what else is kept, see [Making it fast on a GPU](16_gpu_performance.ipynb).
#
# ## What goes wrong in practice
#
# **Tensors on the wrong device.** `OurTransformer` creates its positions anew in every call, on the CPU. On a GPU, the sum with the embeddings then fails with *Expected all tensors to be on the same device*. Create them with `device=ids.device`, or once in the constructor with `register_buffer`, as the package does: then `model.to("cuda")` moves them, too.
#
# **Breaking the tie.** Tied weights are *one* object with three names. If you assign a new object to one of the names, for example to load pre-trained vectors, the tie is broken and no error is raised. Copy the numbers instead:

# %%
pretrained = torch.randn(1000, 256) / math.sqrt(256)
wrong, right = Transformer(config), Transformer(config)
wrong.source_embedding.weight = nn.Parameter(pretrained)  # a new object
right.source_embedding.weight.data.copy_(pretrained)  # new numbers
for name, changed in (("new object", wrong), ("new numbers", right)):
    is_tied = changed.unembedding.weight is changed.source_embedding.weight
    n_parameters = sum(p.numel() for p in changed.parameters())
    print(f"{name:11}  tied: {is_tied!s:5}  {n_parameters:,} parameters")

# %% [markdown]
# **Loading an untied checkpoint into a tied model.** A tied model's `state_dict` lists all three names, so a checkpoint (a file of saved weights) with three different matrices fits it perfectly. The three are copied into the same place one after the other, and the last one wins:

# %%
untied = Transformer(replace(config, tie_embeddings="none"))
loaded = Transformer(config)
print(loaded.load_state_dict(untied.state_dict()))
for name in ("source_embedding", "target_embedding", "unembedding"):
    weight = untied.get_submodule(name).weight
    print(f"{name:16}  loaded: {torch.equal(loaded.unembedding.weight, weight)}")

# %% [markdown]
# **Ids outside the vocabulary.** The usual cause is a tokenizer that belongs to another model. `nn.Embedding` raises only a bare `IndexError`. On the CPU, the package checks the range and reports what it expected. If a GPU fails with a "device-side assert", run the same batch on the CPU.

# %%
ids = torch.tensor([[5, 1000]])
for read in (loaded.source_embedding, loaded.encode):
    try:
        read(ids)
    except (IndexError, ValueError) as error:
        print(fill(f"{type(error).__name__}: {error}", 48))

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You double `d_model` and `d_ff` of the base model and leave the rest unchanged. How does the number of parameters in the layers change?**
#
# <details><summary>A. It doubles</summary>
#
# No. That is true of the embedding, $V \times d$, where only one side doubles.
#
# </details>
# <details><summary>B. It grows about fourfold</summary>
#
# **Right.** Their matrices are $d \times d$ or $d \times f$, and both sides double. Biases and norms only double, so it is slightly less than fourfold.
#
# </details>
# <details><summary>C. It grows eightfold</summary>
#
# No. You would get that if you doubled the number of layers as well.
#
# </details>
# <details><summary>D. Not at all, if you also double the number of heads</summary>
#
# No. The heads divide the matrices among themselves. Their number doesn't matter.
#
# </details>
#
# **2. In a tied model, all linear layers of encoder and decoder are close to zero; the embeddings are as usual. What does it predict after reading `<bos>`?**
#
# <details><summary>A. A random token</summary>
#
# No. A well-initialised model would do that. This one is certain of its answer.
#
# </details>
# <details><summary>B. The first token of the source</summary>
#
# No. The source can only reach the decoder through cross-attention, which adds almost nothing here.
#
# </details>
# <details><summary>C. <code>&lt;bos&gt;</code> itself</summary>
#
# **Right.** Apart from the layer norms, the embedding passes through unchanged. And since the output layer is the same matrix, the row with the largest dot product is that of `<bos>` itself. The model copies its input.
#
# </details>
# <details><summary>D. Nothing, because all logits are zero</summary>
#
# No. The layers add zero, but the residual stream carries the embedding to the output layer.
#
# </details>
#
# **3. Before training, the output of every layer of your post-norm model has mean square 1. What does that tell you about the initialisation?**
#
# <details><summary>A. It is good, because the variance is preserved</summary>
#
# No. This was true of all three models above, the bad ones included.
#
# </details>
# <details><summary>B. The weights have variance 1/n</summary>
#
# No. The norm brings the mean square to 1 for any weights.
#
# </details>
# <details><summary>C. The gradients have the same size in all layers</summary>
#
# No. With σ = 0.2 the gradients differed by several powers of ten.
#
# </details>
# <details><summary>D. Nothing</summary>
#
# **Right.** Post-norm ends every layer with a layer norm, so its output has mean square 1 for any weights. Measure what the sublayers add.
#
# </details>
#
# **4. English and German have separate vocabularies of the same size, and you tie all three matrices. What happens?**
#
# <details><summary>Answer</summary>
#
# There is no error, because all shapes match. But id 17 is now one word in English and an unrelated one in German, and both have to use the same vector. With separate vocabularies, tie only the two matrices of the target: `tie_embeddings="decoder"`.
#
# </details>
#
# **5. With pencil and paper: how many parameters does a tied model have with $d = 10$, $f = 20$, one layer on each side and 100 tokens?**
#
# <details><summary>Answer</summary>
#
# Attention: $4 \cdot 110 = 440$, three times: 1320. Feed-forward: $220 + 210 = 430$, twice: 860. Norms: $20$, five times: 100. Embedding: 1000. In total: 3280. Check it with `by_formula(d=10, f=20, N=1, V=100)`.
#
# </details>

# %% tags=["remove-cell"]
assert by_formula(d=10, f=20, N=1, V=100) == 3280

# %% [markdown]
# ## Exercises
#
# Five blanks: the two stacks, the output layer, Xavier's rule, counting the parameters, and memory. Each has a check that tells you what is wrong, and a hint.
#
# - In Colab, where the last cell grades your answers:
#   [07_full_model](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/07_full_model.ipynb).
#   On GitHub: [07_full_model.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/07_full_model.ipynb).
# - On your machine, open `exercises/07_full_model.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade full_model
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Four experiments to try</summary>
#
# 1. **Design a model** with at most 20 million parameters and a vocabulary of 16,000. Find three candidates with the sliders, from deep and narrow to shallow and wide, and check their sizes with `by_formula`. Which would you train first, and why?
# 2. **Initialise for your width.** Choose another `d_model` in `config`, and find the σ at which the gradients of encoder and decoder are equal. Compare it with Xavier's.
# 3. **Pre-norm:** repeat the measurements of the section *Initialisation* with `replace(config, norm="pre")`. Which model's measurements change the most?
# 4. **Does tying help, and does the initialisation matter?** Each of these runs takes a few minutes:
#
# ```bash
# transformer train pocket --run runs/tied
# transformer train pocket --run runs/untied --model.tie-embeddings none
# transformer train pocket --run runs/normal --model.initialization normal
# ```
#
# </details>

# %% [markdown]
# ## Going further
#
# - **In the paper:** the two stacks in §3.1, embeddings, tying and the factor in §3.4, dropout in §5.4, model sizes in Table 3.
# - **Weight tying:** [Press and Wolf (2017)](https://aclanthology.org/E17-2025/) show that the output matrix is a good embedding, and tie all three matrices for translation.
# - **Initialisation:** [Glorot and Bengio (2010)](https://proceedings.mlr.press/v9/glorot10a.html) derive Xavier's rule and plot gradients by layer, as we did. [Huang et al. (2020)](https://proceedings.mlr.press/v119/huang20f.html) find an initialisation for Transformers that needs neither layer norm nor warm-up.
# - **Next:** where do the 37,000 tokens come from? [Subword tokenization](08_subword_tokenization.ipynb).
