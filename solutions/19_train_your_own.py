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
# # Exercises: train your own Transformer
#
# In the capstone, the weights were given and you wrote the computation. Here you write what makes a model trainable: modules with their parameters, a data loader, validation, early stopping, a metric, and the
# plots. At the end, your model learns to translate, and the check grades how well it does (§3, §5 of the paper).
#
# **First run the two code cells below**; in Colab, choose *File → Save a copy in Drive* before that. Then write your code where a cell says *not done yet*, and run the check below it. The
# [first notebook](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb) explains the rest: hints, *Help*, and the rules for answers.
#
# - A blank can use those before it as `given.name`: these are your own once their checks show ✓, and the course's until then. So you can skip one and come back later.
# - Don't modify the inputs of your functions: the checks notice. The only exception is a model that you train or switch to another mode.

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
    print("The course is installed: go on with the next cell.")

# %%
import copy
import math
import random
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from sacrebleu import corpus_bleu
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from exercises.checks.train_your_own import check, given
from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.layers import EncoderLayer, FeedForward
from transformer.masks import padding_mask, target_mask
from transformer.positions import sinusoidal_encoding

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The parts
#
# You have written these before, so they come from the package:
#
# | part | call | returns |
# |---|---|---|
# | `MultiHeadAttention(d_model, n_heads)` | `attention(x, mask=mask)`, `attention(x, memory, mask=mask)` | (batch, query, d_model) |
# | `FeedForward(d_model, d_ff)` | `feed_forward(x)` | the shape of x |
# | `EncoderLayer(config)` | `layer(x, mask)` | the shape of x |
# | `sinusoidal_encoding(length, d_model)` | | (length, d_model) |
#
# `config` is a `ModelConfig`. You need `config.vocab_size`, `d_model`, `n_heads`, `d_ff`, `n_layers`, `dropout` and `max_length`.

# %% [markdown]
# ## 1 · A decoder layer as a module
#
# ★★☆ · 20 minutes · §3.1, §5.4
#
# Write `__init__` and `forward`. `__init__` creates these parts, under these names:
#
# | name | part |
# |---|---|
# | `self_attention`, `cross_attention` | two `MultiHeadAttention` |
# | `feed_forward` | a `FeedForward` |
# | `norms` | a list of three layer norms that PyTorch can find |
# | `dropout` | dropout with the probability `config.dropout` |
#
# `forward` applies self-attention, cross-attention to the memory, and the feed-forward network. Here the norm comes **first** (pre-norm): each sublayer reads the normalised x, dropout is applied to
# its output, and the result is added to x.
#
# The check looks at the parameters, at the output in evaluation and in training mode, and at the gradients.
#
# <details><summary>Hint</summary>
#
# ```text
# a plain Python list hides its modules from PyTorch; torch.nn has a list for modules
# x ← x + dropout of self-attention of the first norm of x, with the target's mask
# x ← x + dropout of cross-attention from the second norm of x to the memory, with the memory's mask
# x + dropout of feed-forward of the third norm of x
# ```
# </details>
# <details><summary>Help: <code>memory must be (batch, length, d_model=4); got (1, 1, 3, 3)</code></summary>
#
# The second positional argument of `MultiHeadAttention` is the memory. Pass the mask by name: `mask=…`.
# </details>
# <details><summary>Help: <code>cannot assign module before Module.__init__() call</code></summary>
#
# `super().__init__()` has to be the first line of `__init__`: it creates the tables in which modules are registered.
# </details>
# <details><summary>Help: <code>Module [DecoderLayer] is missing the required "forward" function</code></summary>
#
# Either `forward` is missing, or it is indented too far and became a function inside `__init__`.
# </details>


# %% tags=["answer"]
# answer: DecoderLayer
class DecoderLayer(nn.Module):
    """One layer of the decoder, pre-norm.

    forward(self, x, memory, target_mask, memory_mask)
        x: (batch, target, d_model)
        memory: (batch, source, d_model)
        target_mask: (batch, 1, target, target), bool
        memory_mask: (batch, 1, 1, source), bool
        returns: (batch, target, d_model)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.self_attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.cross_attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.norms = nn.ModuleList(nn.LayerNorm(config.d_model) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, target_mask: Tensor, memory_mask: Tensor) -> Tensor:
        x = x + self.dropout(self.self_attention(self.norms[0](x), mask=target_mask))
        x = x + self.dropout(self.cross_attention(self.norms[1](x), memory, mask=memory_mask))
        return x + self.dropout(self.feed_forward(self.norms[2](x)))
        ### END SOLUTION


# %% tags=["nbval-check-output"]
check("DecoderLayer", DecoderLayer)

# %% [markdown]
# ## 2 · The whole model
#
# ★★☆ · 30 minutes · §3.4, §3.5
#
# The computation is given, and you write `__init__`. It creates everything that `embed` and `forward` use:
#
# | name | part |
# |---|---|
# | `embedding` | one embedding for source and target, initialised with the standard deviation $1/\sqrt{d_\text{model}}$ |
# | `positions` | the sinusoidal encoding of `max_length` positions: a **buffer**, which moves to a GPU with the model but isn't trained. It isn't saved with the weights either |
# | `dropout` | applied to the sum of embedding and position |
# | `encoder`, `decoder` | `n_layers` layers each: `EncoderLayer`, and your `given.DecoderLayer` |
# | `encoder_norm`, `decoder_norm` | a layer norm at the end of each stack, which pre-norm needs |
# | `unembedding` | a linear layer without bias from d_model to the vocabulary, whose weight **is** the weight of `embedding` |
#
# <details><summary>Hint</summary>
#
# ```text
# a buffer: self.register_buffer(name, tensor, persistent=…)
# n layers: a new one for each entry; [layer] * n would be the same one n times
# tied: assign one parameter to the other's name, so that both names mean the same object
# nn.init has functions that fill a weight in place
# ```
# </details>
# <details><summary>Help: <code>cannot assign 'torch.FloatTensor' as parameter 'weight' (torch.nn.Parameter or None expected)</code></summary>
#
# `.data` and `.detach()` give plain tensors. Assign the parameter itself.
# </details>
# <details><summary>Help: <code>attribute 'positions' already exists</code></summary>
#
# You assign `self.positions` before you register it. `register_buffer` does both.
# </details>


# %% tags=["answer"]
# answer: Transformer
class Transformer(nn.Module):
    """Encoder and decoder with tied embeddings."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        d = config.d_model
        self.embedding = nn.Embedding(config.vocab_size, d)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.register_buffer("positions", sinusoidal_encoding(config.max_length, d), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.decoder = nn.ModuleList(given.DecoderLayer(config) for _ in range(config.n_layers))
        self.encoder_norm = nn.LayerNorm(d)
        self.decoder_norm = nn.LayerNorm(d)
        self.unembedding = nn.Linear(d, config.vocab_size, bias=False)
        self.unembedding.weight = self.embedding.weight
        ### END SOLUTION

    def embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(x + self.positions[: ids.size(1)])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of each next token: (batch, source), (batch, target) → (batch, target, vocab_size)."""
        memory, memory_mask = self.embed(source), padding_mask(source, PAD)
        for layer in self.encoder:
            memory = layer(memory, memory_mask)
        memory, x = self.encoder_norm(memory), self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, target_mask(target, PAD), memory_mask)
        return self.unembedding(self.decoder_norm(x))


# %% tags=["nbval-check-output"]
check("Transformer", Transformer)

# %% [markdown]
# ### Your model, with weights that somebody else trained
#
# Your model has the same shape as the course's `pocket-small`, so it can use its weights: `shipped_weights` gives them your names, and `load_state_dict` accepts them only if every name and every shape is right. Then both must give the same translation.

# %% tags=["nbval-skip"]
import transformer
from exercises.checks.train_your_own import shipped_weights, translate

config, weights = shipped_weights("pocket-small")
model = given.Transformer(config)
print(model.load_state_dict(weights))
model.eval()

shipped = transformer.load("pocket-small", device="cpu", precision="fp32")
sentence = "The small dog sees an old house."
ids = torch.tensor([shipped.encode(sentence)])
yours = shipped.tokenizer.decode(translate(model, ids)[0])
print("yours      ", yours)
print("the package", shipped.greedy_search([sentence])[0])
assert yours == shipped.greedy_search([sentence])[0]

# %% [markdown]
# ## 3 · The loader
#
# ★★☆ · 20 minutes · §5.1
#
# Group sentence pairs into batches. The ids of each sentence include its special tokens already.
#
# 1. Sort the pairs by the length of their **longer** side; pairs of the same length keep their order.
# 2. Fill one batch after the other. The size of a batch is its number of pairs times the length of its longest sentence, source or target, and must be at most `max_tokens`. So padding counts, but
#    the two sides aren't added up. When the next pair would make the batch too large, start a new one. A pair that is too long by itself gets a batch of its own.
# 3. Pad each side of a batch at the end with `PAD`.
# 4. Shuffle the batches: the same seed always gives the same order, and other seeds give other orders.
#
# <details><summary>Hint</summary>
#
# ```text
# for each pair, from short to long:
#     would the open batch exceed the budget with it? the longest is the newest
#     then start a new batch
#     add the pair to the open batch
# shuffle with a random.Random of your own
# pad_sequence pads tensors of different lengths; its default isn't the batch first
# ```
# </details>
# <details><summary>Help: <code>'list' object has no attribute 'size'</code></summary>
#
# `pad_sequence` expects a list of tensors. Make a tensor of each list of ids.
# </details>
# <details><summary>Help: <code>'NoneType' object is not iterable</code></summary>
#
# `shuffle` changes its list in place and returns nothing. Go on with the list itself.
# </details>


# %% tags=["answer"]
# answer: token_batches
def token_batches(pairs: list[tuple[list[int], list[int]]], max_tokens: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Batches for one epoch.

    pairs: token ids of source and target
    returns: sources and targets of each batch, each (batch, length), int64
    """
    ### BEGIN SOLUTION
    groups = [[]]
    for pair in sorted(pairs, key=lambda pair: max(map(len, pair))):
        if groups[-1] and (len(groups[-1]) + 1) * max(map(len, pair)) > max_tokens:
            groups.append([])
        groups[-1].append(pair)
    random.Random(seed).shuffle(groups)
    return [
        tuple(
            pad_sequence([torch.tensor(ids) for ids in side], batch_first=True, padding_value=PAD)
            for side in zip(*group, strict=True)
        )
        for group in groups
    ]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("token_batches", token_batches)

# %% [markdown]
# ## 4 · The validation loss
#
# ★★☆ · 15 minutes
#
# Compute the mean cross-entropy over all labels that aren't padding, of all batches together, in evaluation mode and without recording gradients. As in training, the decoder reads the target without its last token, and the labels are the target without its
# first. Afterwards, the model should be in the same mode as before.
#
# <details><summary>Hint</summary>
#
# ```text
# remember model.training; switch to evaluation mode
# without gradients, for each batch:
#     the SUM of the losses, and how many labels aren't padding
# switch back; divide the total by the count
# ```
# </details>
# <details><summary>Help: <code>Expected target size [2, 9], got [2, 3]</code></summary>
#
# `F.cross_entropy` expects the vocabulary in the second axis, but here it is the last: swap the two.
# </details>


# %% tags=["answer"]
# answer: validation_loss
def validation_loss(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> float:
    """The mean loss of a label, in nats.

    model: called as model(source, target), returns logits
    """
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for source, target in batches:
            logits, labels = model(source, target[:, :-1]), target[:, 1:]
            total += F.cross_entropy(logits.mT, labels, ignore_index=PAD, reduction="sum").item()
            count += (labels != PAD).sum().item()
    model.train(was_training)
    return total / count
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("validation_loss", validation_loss)

# %% [markdown]
# ## 5 · Training with early stopping
#
# ★★★ · 30 minutes · §5.3
#
# In each epoch, train on all batches **in training mode**: compute the loss, reset the gradients, run backward, clip the gradient to the norm 1, and let the optimiser step. Then validate. Stop after `max_epochs`, or as soon as
# the validation loss hasn't fallen below its lowest value for `patience` epochs in a row. At the end, the model has the weights of its **best** epoch, the one with the lowest validation loss.
#
# The loop doesn't depend on what it trains: the check has it fit a straight line, and makes up the validation losses.
#
# <details><summary>Hint</summary>
#
# ```text
# for each epoch, counted from 0:
#     training mode: validate may have left the model in evaluation mode
#     for each batch: loss, reset, backward, clip, step; record the loss as a number
#     record the mean of the epoch, and the validation loss
#     lower than ever? keep a COPY of the state dict, and the epoch
#     otherwise: how many epochs ago was the best one? stop if that is patience
# load the copy
# ```
# </details>
# <details><summary>Help: <code>min() iterable argument is empty</code></summary>
#
# Before the first epoch there is no lowest loss yet. Start with infinity: every number is lower.
# </details>


# %% tags=["answer"]
# answer: fit
def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epoch_batches: Callable[[int], Iterable[tuple[Tensor, Tensor]]],
    loss_of: Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor],
    validate: Callable[[nn.Module], float],
    max_epochs: int,
    patience: int,
) -> tuple[list[float], list[float]]:
    """Train, and leave the best weights in the model.

    epoch_batches: gives the batches of an epoch, counted from 0
    loss_of: computes the loss from the model and a batch, a tensor
    validate: computes the validation loss
    returns: for each epoch, the mean training loss of its batches, and the validation loss
    """
    ### BEGIN SOLUTION
    train_losses, validation_losses = [], []
    best, best_epoch, best_weights = math.inf, 0, None
    for epoch in range(max_epochs):
        model.train()
        losses = []
        for batch in epoch_batches(epoch):
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        train_losses.append(sum(losses) / len(losses))
        validation_losses.append(validate(model))
        if validation_losses[-1] < best:
            best, best_epoch = validation_losses[-1], epoch
            best_weights = copy.deepcopy(model.state_dict())
        elif epoch - best_epoch == patience:
            break
    model.load_state_dict(best_weights)
    return train_losses, validation_losses
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("fit", fit)

# %% [markdown]
# ## 6 · BLEU over a loader
#
# ★★☆ · 15 minutes · §6.1
#
# Translate all batches in evaluation mode, and compute the BLEU score of all translations together with sacrebleu's `corpus_bleu`. The references are the targets, without padding, `BOS` and `EOS`.
# You may leave the model in evaluation mode.
#
# <details><summary>Hint</summary>
#
# ```text
# evaluation mode
# for each batch:
#     translate the sources, and decode each translation
#     from each target, take the ids that aren't special, and decode them
# corpus_bleu(hypotheses, a list of reference lists) returns an object; its score is a number
# ```
# </details>
# <details><summary>Help: <code>Source and reference streams have different lengths!</code></summary>
#
# A sentence may have several references, so sacrebleu expects a list of *sets* of references. You have one set: a list that contains one list.
# </details>


# %% tags=["answer"]
# answer: bleu_score
def bleu_score(
    model: nn.Module,
    batches: list[tuple[Tensor, Tensor]],
    translate: Callable[[nn.Module, Tensor], list[list[int]]],
    decode: Callable[[list[int]], str],
) -> float:
    """BLEU, from 0 to 100.

    translate: translates sources, (batch, length); returns token ids without special tokens
    decode: turns token ids into text
    """
    ### BEGIN SOLUTION
    model.eval()
    hypotheses, references = [], []
    for source, target in batches:
        hypotheses += [decode(ids) for ids in translate(model, source)]
        references += [decode([i for i in row if i not in (PAD, BOS, EOS)]) for row in target.tolist()]
    return corpus_bleu(hypotheses, [references]).score
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("bleu_score", bleu_score)

# %% [markdown]
# ## 7 · Plot the losses
#
# ★☆☆ · 10 minutes
#
# Draw both losses over the epochs, **counted from 1**, with the labels `training` and `validation`, and show a legend. Label the axes `epoch` and `loss`. A vertical line marks the epoch with the lowest validation loss, the first one if several are equally low. The check looks at what the figure
# contains; colours and styles are up to you.
#
# <details><summary>Hint</summary>
#
# ```text
# axes.plot(x, y, label=…) twice; axes.legend()
# axes.axvline(x) draws a vertical line
# a list's index counts from 0, and your epochs count from 1
# ```
# </details>
# <details><summary>Help: <code>'Axes' object has no attribute 'xlabel'</code></summary>
#
# The functions of `plt` have other names as methods of an axes object: `plt.xlabel(…)` is `axes.set_xlabel(…)`.
# </details>


# %% tags=["answer"]
# answer: plot_losses
def plot_losses(axes: Axes, train: list[float], validation: list[float]) -> None:
    """Draw both curves into the axes; returns nothing.

    train, validation: one loss for each epoch
    """
    ### BEGIN SOLUTION
    epochs = range(1, len(train) + 1)
    axes.plot(epochs, train, label="training")
    axes.plot(epochs, validation, label="validation")
    axes.axvline(validation.index(min(validation)) + 1, color="gray", linestyle=":")
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    axes.legend()
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("plot_losses", plot_losses)

# %% [markdown]
# ## 8 · Plot attention
#
# ★★☆ · 10 minutes
#
# Show the attention weights as an image, with `axes.imshow`. Each row is a token of the target, the first at the top, and each column a token of the source. Give each row and each column its token as a label. The colour scale goes from 0 to 1 in every figure, so that
# figures can be compared.
#
# <details><summary>Hint</summary>
#
# ```text
# imshow has arguments for the lowest and the highest value of the scale
# set_xticks and set_yticks take positions and, if you like, labels
# the rows are queries: they get the labels of the y-axis
# ```
# </details>
# <details><summary>Help: <code>The number of FixedLocator locations (3), usually from a call to set_ticks, does not match the number of labels (2).</code></summary>
#
# An axis got the labels of the other one. Rows are the y-axis.
# </details>


# %% tags=["answer"]
# answer: plot_attention
def plot_attention(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    """Draw a heat map into the axes; returns nothing.

    weights: (target, source), without a gradient
    source, target: one label for each token
    """
    ### BEGIN SOLUTION
    axes.imshow(weights.numpy(), vmin=0, vmax=1)
    axes.set_xticks(range(len(source)), source)
    axes.set_yticks(range(len(target)), target)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("plot_attention", plot_attention)

# %% [markdown]
# ## The data
#
# These are short sentences from the course's small grammar:

# %% tags=["nbval-skip"]
from exercises.checks.train_your_own import pocket_data

data = pocket_data()
print(len(data.train), "pairs to train,", len(data.validation), "to validate,", len(data.test), "to test")
for source, target in data.train[:3]:
    print(data.tokenizer.decode(source[:-1]), "→", data.tokenizer.decode(target[1:-1]))

# %% [markdown]
# ## 9 · Train it
#
# ★★★ · 20 minutes · §5
#
# Put it all together, and train a translator from scratch. Your function gets the pairs to train on, those to validate on, and the size of the vocabulary. It builds a model, trains it, and returns it with its losses. As in blank 4, padding doesn't count in the loss. Sizes, learning rate and the number of epochs are your choice. Only `norm="pre"` is fixed in the `ModelConfig`: the package's encoder layers read it, and your decoder layers are pre-norm. The check then looks for signs of mistakes in the curves and in the model, and translates the test sentences.
#
# **The goal is a BLEU score of at least 40**, within two minutes of computing time, evaluation included. The course's solution needs less than half a minute on one core. Start with the sizes in the hint.
#
# <details><summary>Hint</summary>
#
# ```text
# sizes: d_model 64, 4 heads, d_ff 128, 1 layer, dropout 0.1, norm="pre", max_length 64
# Adam with a learning rate of 0.005; batches of 1000 tokens; at most 25 epochs, a patience of 3
# the batches of an epoch: given.token_batches with the epoch as the seed
# the loss of a batch: the decoder reads all but the last token and predicts all but the first;
#                      leave padding out
# given.fit does the rest
# ```
# </details>
# <details><summary>Help: <code>model.d_model must be a multiple of model.n_heads</code></summary>
#
# Each head has d_model / n_heads dimensions.
# </details>
# <details><summary>Help: <code>it did not finish within 120 s: is there an endless loop?</code></summary>
#
# Probably not: your model is too large for the budget, or there are too many epochs. One layer and 64 dimensions are enough here.
# </details>


# %% tags=["answer"]
# answer: train_translator
def train_translator(
    train: list[tuple[list[int], list[int]]], validation: list[tuple[list[int], list[int]]], vocab_size: int
) -> tuple[nn.Module, list[float], list[float]]:
    """Train a model on pairs of token ids.

    returns: the model, and the training losses and the validation losses of all epochs
    """
    ### BEGIN SOLUTION
    config = ModelConfig(
        vocab_size, d_model=64, n_heads=4, d_ff=128, n_layers=1, dropout=0.1, norm="pre", max_length=64
    )
    model = given.Transformer(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    held_out = given.token_batches(validation, 1000, seed=0)

    def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        source, target = batch
        logits = model(source, target[:, :-1])
        return F.cross_entropy(logits.mT, target[:, 1:], ignore_index=PAD)

    losses = given.fit(
        model,
        optimizer,
        lambda epoch: given.token_batches(train, 1000, seed=epoch),
        loss_of,
        lambda model: given.validation_loss(model, held_out),
        max_epochs=25,
        patience=3,
    )
    return model, *losses
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("train_translator", train_translator)

# %% [markdown]
# ## Look at it
#
# From here on, nothing is graded. Train once more, to keep the model, and draw its losses with your function:

# %% tags=["skip-execution", "nbval-skip"]
import matplotlib.pyplot as plt

torch.manual_seed(0)
model, train_losses, validation_losses = given.train_translator(data.train, data.validation, len(data.tokenizer))
test = given.token_batches(data.test, 1000, seed=0)
print(f"BLEU {given.bleu_score(model, test, translate, data.tokenizer.decode):.1f}")
figure, axes = plt.subplots()
given.plot_losses(axes, train_losses, validation_losses)

# %% [markdown]
# These are the cross-attention weights of the last decoder layer, averaged over the heads, as it reads the reference translation. Each row belongs to the position that predicts the token in its label:

# %% tags=["skip-execution", "nbval-skip"]
attention = model.decoder[-1].cross_attention
inputs = []
hook = attention.register_forward_hook(lambda part, arguments, result: inputs.append(arguments))
source, target = (torch.tensor([ids]) for ids in data.test[0])
with torch.no_grad():
    model(source, target[:, :-1])
hook.remove()
x, memory = inputs[0]
query, key = attention.project_query(x), attention.project_memory(memory).key
weights = (query @ key.mT / math.sqrt(query.size(-1))).softmax(dim=-1)[0].mean(dim=0).detach()
figure, axes = plt.subplots()
given.plot_attention(
    axes, weights, data.tokenizer.pieces(source[0].tolist()), data.tokenizer.pieces(target[0, 1:].tolist())
)

# %% [markdown]
# Your turn: change one thing and train again. Leave out the dropout, the clipping, the factor $\sqrt{d_\text{model}}$ or the final norms; give the output layer a weight of its own instead of the embedding's; train with twice as many layers. Before you run it, write down what you expect.

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade train_your_own` in a terminal
# does the same. The grader trains your model, too, which takes a while.
#
# Then open [`transformer/training/trainer.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/training/trainer.py). It does the same and more: it can be interrupted and resumed, averages checkpoints, and trains on several GPUs.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
