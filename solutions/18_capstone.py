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
# # Exercises: the capstone
#
# Fill in eight blanks, and you have a translator built from your own code. You have written each part before, on its own; here they have to fit
# together. Then you train it, and it translates sentences that it has never seen (§3 and §5 of the paper).
#
# **First run the two code cells below**; in Colab, choose *File → Save a copy in Drive* before that. Then write your code where a cell says *not done yet*, and run the check below it. The
# [first notebook](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb) explains the rest: hints, *Help*, and the rules for answers.
#
# - **No ready-made parts.** Use linear layers, norms and tensor operations, but not `nn.Transformer`, `nn.MultiheadAttention` or
#   `F.scaled_dot_product_attention`, and in your answers nothing from the package `transformer` except the three ids imported below. The checks notice such a call and tell you.
# - A blank can call those before it as `given.name`: these are your own functions once their checks show ✓, and the course's until then. So you can skip one and come back later.

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
import math
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises.checks.capstone import (
    Attention,
    DecoderLayer,
    EncoderLayer,
    Model,
    check,
    given,
)
from transformer.data.tokenizer import BOS, EOS, PAD

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The weights
#
# The weights are given, in modules that compute nothing. You write the computation.
#
# | module | contains |
# |---|---|
# | `Attention` | `query`, `key`, `value`, `output`: linear layers from d_model to d_model; `n_heads`: a number |
# | `EncoderLayer` | `attention`; `inner` and `outer`: the two linear layers of the feed-forward network; `norms`: two layer norms |
# | `DecoderLayer` | `self_attention`, `cross_attention`; `inner` and `outer`; `norms`: three layer norms |
# | `Model` | `embedding`: one matrix for source, target and output; `encoder` and `decoder`: lists of layers |
#
# Call linear layers and norms like functions: `part.query(x)`, `layer.norms[0](x)`. There is no dropout.
#
# A mask is boolean, and **True means "may attend"**. It broadcasts to scores of shape (batch, heads, query, key).

# %% [markdown]
# ## 1 · Embeddings and positions
#
# ★★☆ · 15 minutes · §3.4, §3.5
#
# Multiply the embedding of each token by $\sqrt{d_\text{model}}$ and add the positional encoding: dimension $2i$ at position $pos$ is
# $\sin(pos / 10000^{2i/d_\text{model}})$, and dimension $2i+1$ is the cosine of the same angle.
#
# <details><summary>Hint</summary>
#
# ```text
# frequency of each pair                        (d_model / 2,)
# angle: each position times each frequency     (length, d_model / 2)
# sines and cosines alternating                 (length, d_model)
# rows of the table times the root, plus these  (batch, length, d_model)
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0</code></summary>
#
# Positions and frequencies are both vectors. To multiply each position by each frequency, give the positions a second axis of length one.
# </details>


# %% tags=["answer"]
# answer: embed_tokens
def embed_tokens(ids: Tensor, table: Tensor) -> Tensor:
    """Compute the input of the first layer.

    ids: (batch, length), int64
    table: (vocab_size, d_model), one row for each token; d_model is even
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    d_model = table.size(1)
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angle = torch.arange(ids.size(1))[:, None] * frequency  # (length, d_model / 2)
    positions = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
    return table[ids] * math.sqrt(d_model) + positions
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("embed_tokens", embed_tokens)

# %% [markdown]
# ## 2 · Multi-head attention
#
# ★★★ · 30 minutes · §3.2
#
# All three kinds of attention in the model use this function. Queries come from `x`, keys and values from `memory`; in self-attention the two are the same. Each head has
# its own slice of the dimensions, its own scaled and masked scores, and its own softmax. The heads are concatenated and go through `output`.
#
# <details><summary>Hint</summary>
#
# ```text
# query of x, key and value of memory            (batch, length, d_model)
# split each into heads                          (batch, heads, length, d_head)
# scores: query · key, divided by √d_head        (batch, heads, query, key)
# minus infinity where the mask is False; softmax over the keys
# weights times values; concatenate the heads    (batch, query, d_model)
# apply output
# ```
# </details>
# <details><summary>Help: <code>only supports boolean masks, but got mask with dtype int</code></summary>
#
# `masked_fill` expects a boolean mask, and fills where it is True. `~mask` inverts a boolean mask; `1 - mask` makes it a tensor of numbers.
# </details>
# <details><summary>Help: <code>view size is not compatible with input tensor's size and stride</code></summary>
#
# After two axes are swapped, the numbers are no longer contiguous in memory. `flatten` and `reshape` copy them if necessary.
# </details>


# %% tags=["answer"]
# answer: attend
def attend(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    """Multi-head attention from x to memory.

    x: (batch, query, d_model)
    memory: (batch, key, d_model)
    mask: bool, broadcastable to (batch, heads, query, key)
    returns: (batch, query, d_model)
    """

    ### BEGIN SOLUTION
    def heads(x: Tensor) -> Tensor:
        return x.unflatten(-1, (part.n_heads, -1)).transpose(1, 2)

    query, key = heads(part.query(x)), heads(part.key(memory))
    scores = query @ key.mT / math.sqrt(query.size(-1))  # (batch, heads, query, key)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return part.output((weights @ heads(part.value(memory))).transpose(1, 2).flatten(2))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("attend", attend)

# %% [markdown]
# ## 3 · The encoder layer
#
# ★☆☆ · 10 minutes · §3.1, §3.3
#
# The first sublayer is self-attention, the second the feed-forward network: `inner`, a ReLU, `outer`. Each sublayer's input is added to its output, and the sum is normalised (post-norm).
#
# <details><summary>Hint</summary>
#
# ```text
# first self-attention: queries, keys and values all come from the same place
# then feed-forward, which reads what the first sublayer has returned
# around each sublayer: what is added, and in which order do the sum and the norm come?
# each sublayer has a norm of its own
# ```
# </details>
# <details><summary>Help: <code>Module [ModuleList] is missing the required "forward" function</code></summary>
#
# `layer.norms` is a list of two norms. Choose one: `layer.norms[0]`.
# </details>


# %% tags=["answer"]
# answer: encoder_layer
def encoder_layer(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    """One layer of the encoder. Use `given.attend`.

    x: (batch, length, d_model)
    mask: (batch, 1, 1, length), bool
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    x = layer.norms[0](x + given.attend(layer.attention, x, x, mask))
    return layer.norms[1](x + layer.outer(layer.inner(x).relu()))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("encoder_layer", encoder_layer)

# %% [markdown]
# ## 4 · The decoder layer
#
# ★☆☆ · 15 minutes · §3.1, §3.2.3
#
# The decoder layer has one more sublayer: between the two, cross-attention attends from the target to the memory, with weights and a mask of its own.
#
# <details><summary>Hint</summary>
#
# ```text
# start from the encoder layer, and put the new sublayer in the middle
# in each attention: where do the queries come from, and where the keys and values?
# which mask goes with which attention? its last axis is that of the keys
# three sublayers, so three sums and three norms
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (5) must match the size of tensor b (3) at non-singleton dimension 3</code></summary>
#
# The last axis of a mask is that of the keys. One of the two masks is as long as the target, the other as long as the source.
# </details>


# %% tags=["answer"]
# answer: decoder_layer
def decoder_layer(layer: DecoderLayer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    """One layer of the decoder. Use `given.attend`.

    x: (batch, target, d_model)
    memory: (batch, source, d_model)
    mask: (1, 1, target, target), bool
    memory_mask: (batch, 1, 1, source), bool
    returns: (batch, target, d_model)
    """
    ### BEGIN SOLUTION
    x = layer.norms[0](x + given.attend(layer.self_attention, x, x, mask))
    x = layer.norms[1](x + given.attend(layer.cross_attention, x, memory, memory_mask))
    return layer.norms[2](x + layer.outer(layer.inner(x).relu()))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("decoder_layer", decoder_layer)

# %% [markdown]
# ## 5 · The whole model
#
# ★★☆ · 20 minutes · §3.1, §3.4
#
# The encoder turns the source into the memory, and the decoder reads the target and the memory. The logit of each token of the vocabulary is the dot product of the decoder's output
# with the token's row of the embedding matrix, the **same** matrix as for the input.
#
# You also build the masks. No query attends to the source's padding (`PAD`), and no position of the target attends to later ones. Padding is at the end of a target, so the causal mask already
# hides it from all real tokens, and it needs no mask of its own.
#
# <details><summary>Hint</summary>
#
# ```text
# real: where source is not PAD            (batch, 1, 1, source)
# source: embed, then each layer of the encoder
# causal: a lower triangle of True         (1, 1, target, target)
# target: embed, then each layer of the decoder
# times the embedding matrix, transposed   (batch, target, vocab_size)
# ```
# </details>
# <details><summary>Help: <code>'Embedding' object is not subscriptable</code></summary>
#
# `model.embedding` is a module. Its matrix is `model.embedding.weight`.
# </details>


# %% tags=["answer"]
# answer: next_token_logits
def next_token_logits(model: Model, source: Tensor, target: Tensor) -> Tensor:
    """Compute the logits of the next token at each position of the target.

    source: (batch, source), int64; shorter sentences end with PAD
    target: (batch, target), int64; starts with BOS
    returns: (batch, target, vocab_size), logits
    """
    ### BEGIN SOLUTION
    table = model.embedding.weight
    real = (source != PAD)[:, None, None]  # (batch, 1, 1, source)
    memory = given.embed_tokens(source, table)
    for layer in model.encoder:
        memory = given.encoder_layer(layer, memory, real)
    length = target.size(1)
    causal = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    x = given.embed_tokens(target, table)
    for layer in model.decoder:
        x = given.decoder_layer(layer, x, memory, causal, real)
    return x @ table.T
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("next_token_logits", next_token_logits)

# %% [markdown]
# ## 6 · The loss
#
# ★★☆ · 20 minutes · §5.4
#
# A target is `BOS`, its tokens, `EOS`, and perhaps padding. At each position, the decoder reads the tokens up to it and predicts the next one.
# With label smoothing, the right token gets the probability $1 - \epsilon$, and $\epsilon$ is then shared equally among **all** tokens of the vocabulary, the right one included. The loss is the mean cross-entropy over all positions,
# of all sentences together, at which the next token is not padding.
#
# <details><summary>Hint</summary>
#
# ```text
# input: all but the last column; labels: all but the first
# log-probabilities from the logits            (batch, length - 1, vocab_size)
# at each position: (1 - ε) times minus that of the label,
#                   plus ε times minus the mean of all
# keep the positions where the label is not PAD; mean
# or: F.cross_entropy has arguments for all but the first line
# ```
# </details>
# <details><summary>Help: <code>Expected target size [1, 9], got [1, 2]</code></summary>
#
# `F.cross_entropy` expects the vocabulary in the second axis, but here it is the last: swap the two.
# </details>


# %% tags=["answer"]
# answer: translation_loss
def translation_loss(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The loss of a batch. Use `given.next_token_logits`.

    source, target: (batch, length), int64; shorter sentences end with PAD
    smoothing: ε
    returns: a tensor with a single number, of shape ()
    """
    ### BEGIN SOLUTION
    logits = given.next_token_logits(model, source, target[:, :-1])
    return F.cross_entropy(logits.mT, target[:, 1:], ignore_index=PAD, label_smoothing=smoothing)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("translation_loss", translation_loss)

# %% [markdown]
# ## 7 · Training
#
# ★★☆ · 20 minutes · §5.3
#
# Train with Adam, $\beta_1 = 0.9$, $\beta_2 = 0.98$, $\epsilon = 10^{-9}$. Before each step, counted from 1, set the learning rate to
#
# $$d_\text{model}^{-1/2} \cdot \min(\text{step}^{-1/2},\ \text{step} \cdot \text{warmup}^{-3/2}).$$
#
# Clip the gradient to the norm 1, over all weights together. You may use `torch.optim` and `torch.nn.utils`. The loop does not depend on what it trains: the check has it fit
# a straight line.
#
# <details><summary>Hint</summary>
#
# ```text
# one optimiser for all steps
# for each batch, with its number, counted from 1:
#     set "lr" in each group of optimizer.param_groups
#     loss; reset the gradients; backward; clip; step
#     record the loss as a number
# ```
# </details>
# <details><summary>Help: <code>0.0 cannot be raised to a negative power</code></summary>
#
# `enumerate` counts from 0 unless you pass `start=1`.
# </details>
# <details><summary>Help: <code>object of type 'list_iterator' has no len()</code></summary>
#
# The batches may be any iterable, so their number need not be known in advance. A `for` loop is all you need.
# </details>
# <details><summary>Help: <code>element 0 of tensors does not require grad and does not have a grad_fn</code></summary>
#
# `loss.item()` is a plain number, which has no gradient. Call `backward` on the tensor, and record the number afterwards.
# </details>


# %% tags=["answer"]
# answer: train_model
def train_model(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    loss_of: Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor],
    d_model: int,
    warmup_steps: int,
) -> list[float]:
    """Train for one step on each batch.

    loss_of: computes the loss from the model and a batch
    returns: the loss of each batch, computed before its step
    """
    ### BEGIN SOLUTION
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step, batch in enumerate(batches, start=1):
        rate = d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("train_model", train_model)

# %% [markdown]
# ## 8 · Greedy search
#
# ★★☆ · 20 minutes
#
# Every target starts with `BOS`. In each step, append the most probable next token to every sentence. Stop when all sentences contain `EOS`, or after `limit` steps.
# Return the generated tokens of each sentence, without `BOS` and only up to the first `EOS`, which is left out as well.
#
# <details><summary>Hint</summary>
#
# ```text
# target: a column of BOS                        (batch, 1)
# at most limit times:
#     the logits at the LAST position; the best  (batch,)
#     append them as a column of target
#     stop if every row contains EOS
# for each row: remove the first column, cut at the first EOS
# ```
# </details>
# <details><summary>Help: <code>Tensors must have same number of dimensions: got 2 and 1</code></summary>
#
# The best tokens are a vector, and you need a column: give it a second axis of length one.
# </details>


# %% tags=["answer"]
# answer: translate
def translate(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    """Translate each sentence by greedy search.

    source: (batch, source), int64
    limit: the largest number of tokens in a translation, EOS not counted
    returns: a list of token ids for each sentence
    """
    ### BEGIN SOLUTION
    target = source.new_full((len(source), 1), BOS)
    for _ in range(limit):
        best = given.next_token_logits(model, source, target)[:, -1].argmax(dim=-1)
        target = torch.cat([target, best[:, None]], dim=1)
        if (target == EOS).any(dim=1).all():
            break
    rows = target[:, 1:].tolist()
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("translate", translate)

# %% [markdown]
# ## Train it
#
# From here on, nothing is graded. The cells train a translator with your functions, on English and German sentences that the course generates from a small grammar. The 3,750 steps take
# some minutes on a CPU, and less on a GPU. Run the cells in order, once all eight checks show ✓.
#
# First the sentences. The test sentences are not in the training data, and they contain combinations of words that never occur there.

# %% tags=["skip-execution", "nbval-skip"]
import random

from sacrebleu import corpus_bleu
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from transformer.data import pocket
from transformer.data.tokenizer import Tokenizer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

pairs = pocket.pairs("train", 20_000)
unseen = pocket.pairs("test", 200)
lines = [line for pair in pairs for line in (pair.source, pair.target)]
tokenizer = Tokenizer.train(lines, vocab_size=2000)
print(pairs[0].source, tokenizer.encode(pairs[0].source))

# %% [markdown]
# Sentences of similar length are put into the same batch, so that there is little padding. The batches are then shuffled.


# %% tags=["skip-execution", "nbval-skip"]
def to_batch(pairs):
    sources = [torch.tensor([*tokenizer.encode(p.source), EOS]) for p in pairs]
    targets = [torch.tensor([BOS, *tokenizer.encode(p.target), EOS]) for p in pairs]
    sides = [pad_sequence(side, batch_first=True, padding_value=PAD) for side in (sources, targets)]
    return [side.to(device) for side in sides]


def length(pair):
    return len(pair.target_words), len(pair.source_words)


pairs.sort(key=length)
epoch = [to_batch(pairs[i : i + 32]) for i in range(0, len(pairs), 32)]
epochs = 6
random.seed(0)
batches = [b for _ in range(epochs) for b in random.sample(epoch, len(epoch))]

# %% [markdown]
# Now train a small model with your loop. New tensors that your functions create, such as masks, have to be on the model's device: `with device` takes care of that.
#
# Guessing would have a loss of $\ln 2000 \approx 7.6$. How far does yours fall?

# %% tags=["skip-execution", "nbval-skip"]
model = Model(len(tokenizer), d_model=128, n_heads=4, d_ff=256, n_layers=2).to(device)


def smoothed(model, batch):
    return given.translation_loss(model, *batch, smoothing=0.1)


with device:
    losses = given.train_model(model, tqdm(batches), smoothed, 128, warmup_steps=800)
for n, of_epoch in enumerate(torch.tensor(losses).view(epochs, -1), start=1):
    print(f"epoch {n}: loss {of_epoch.mean():.2f}")

# %% [markdown]
# And now it translates sentences that it has never seen:

# %% tags=["skip-execution", "nbval-skip"]
with device, torch.inference_mode():
    outputs = given.translate(model, to_batch(unseen)[0], limit=60)
translations = [tokenizer.decode(ids) for ids in outputs]

for pair, translation in zip(unseen[:8], translations, strict=False):
    print(f"{pair.source}\n  yours     {translation}\n  expected  {pair.target}")
print(corpus_bleu(translations, [[pair.target for pair in unseen]]))

# %% [markdown]
# Your turn: change one thing and train again. Try twice as many epochs, embeddings without the factor $\sqrt{d_\text{model}}$, one head instead of four, no warm-up, or no encoder layers. Before you run it, write down the BLEU score that you expect.

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade capstone` in a terminal
# does the same.
#
# Then open [`transformer/model.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/model.py), [`transformer/training/trainer.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/training/trainer.py) and [`transformer/decoding.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/decoding.py). They contain the same ideas as your code; what they add makes it fast, or reports mistakes to the user.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
