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
# Eight blanks, and at the end a translator that has no part in it but yours. You have built each of them before, on its own; here they have to fit
# together. Then you train it, and it translates sentences that it has never seen (§3 and §5 of the paper).
#
# - **Own parts only.** Linear layers, norms and what a tensor can do. Not `nn.Transformer`, `nn.MultiheadAttention` or
#   `F.scaled_dot_product_attention`, and nothing from the package `transformer`: the checks see the call and say so.
# - Write your code where a cell says *not done yet*, run the cell, and run the check below it. The check shows ✓, or explains what is wrong.
# - A blank can call those before it as `given.name`: these are your own functions once their checks show ✓, and the course's until then. So you can skip one and come back later.
# - Stuck? Unfold the hint. An error message that you don't understand? Look for it under *Help*.
# - Only cells that begin with `# answer:` are graded, so put your own helper functions there too.

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
# ## What a model holds
#
# The weights are there, in modules that compute nothing. What is computed with them is what you write.
#
# | a | holds |
# |---|---|
# | `Attention` | `query`, `key`, `value`, `output`: linear layers from d_model to d_model; `n_heads`, a number |
# | `EncoderLayer` | `attention`; `inner` and `outer`, the linear layers of feed-forward; `norms`, two of them |
# | `DecoderLayer` | `self_attention`, `cross_attention`; `inner` and `outer`; `norms`, three of them |
# | `Model` | `embedding`, one matrix for all words; `encoder` and `decoder`, lists of layers |
#
# Linear layers and norms are called: `part.query(x)`, `layer.norms[0](x)`. There is no dropout: one part less to write.
#
# A mask is boolean, and **True means: may look**. It fits to scores of shape (batch, heads, query, key).

# %% [markdown]
# ## 1 · Words and places
#
# ★★☆ · 10 minutes · §3.4, §3.5
#
# A word's row of the table, times $\sqrt{d_\text{model}}$, plus the vector of its place: dimension $2i$ of place $pos$ is
# $\sin(pos / 10000^{2i/d_\text{model}})$, and dimension $2i+1$ the cosine of the same angle.
#
# <details><summary>Hint</summary>
#
# ```text
# frequency of each pair                        (d_model / 2,)
# angle: each place times each frequency        (length, d_model / 2)
# sines and cosines beside each other           (length, d_model)
# rows of the table times the root, plus these  (batch, length, d_model)
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0</code></summary>
#
# Places and frequencies are both vectors. To multiply each with each, give the places a second axis of length one.
# </details>


# %% tags=["answer"]
# answer: words_and_places
def words_and_places(ids: Tensor, table: Tensor) -> Tensor:
    """What the first layer reads.

    ids: (batch, length), int64
    table: (vocab_size, d_model), a row for each word; d_model is even
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    d_model = table.size(1)
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angle = torch.arange(ids.size(1))[:, None] * frequency  # (length, d_model / 2)
    places = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
    return table[ids] * math.sqrt(d_model) + places
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("words_and_places", words_and_places)

# %% [markdown]
# ## 2 · Attention
#
# ★★★ · 20 minutes · §3.2
#
# All three attentions of the model are this one. Queries come from `x`, keys and values from `memory`; in self-attention the two are the same. Each head has
# its own slice of the dimensions, its own scores, scaled and masked, and its own softmax. The heads side by side go through `output`.
#
# <details><summary>Hint</summary>
#
# ```text
# query of x, key and value of memory            (batch, length, d_model)
# cut each into heads                            (batch, heads, length, d_head)
# scores: query · key, over the root of d_head   (batch, heads, query, key)
# minus infinity where the mask is False; softmax over the keys
# weights times values; heads side by side       (batch, query, d_model)
# output of it
# ```
# </details>
# <details><summary>Help: <code>only supports boolean masks, but got mask with dtype int</code></summary>
#
# `masked_fill` wants True and False, and True is where it fills. `~mask` turns a boolean mask round; `1 - mask` does not keep it boolean.
# </details>
# <details><summary>Help: <code>view size is not compatible with input tensor's size and stride</code></summary>
#
# After two axes have changed places the numbers no longer lie in order. `flatten` and `reshape` copy them where that is needed.
# </details>


# %% tags=["answer"]
# answer: look_up
def look_up(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    """Attention of several heads, from x to memory.

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
check("look_up", look_up)

# %% [markdown]
# ## 3 · An encoder layer
#
# ★☆☆ · 10 minutes · §3.1, §3.3
#
# Attention to itself, then feed-forward: `inner`, a ReLU, `outer`. Around each of the two: what went in is added to what came out, and the sum is normalised.
#
# <details><summary>Hint</summary>
#
# ```text
# x ← first norm of  x + attention of x to x, under the mask
# x ← second norm of x + feed-forward of x
# ```
# </details>
# <details><summary>Help: <code>Module [ModuleList] is missing the required "forward" function</code></summary>
#
# `layer.norms` are two norms. Say which: `layer.norms[0]`.
# </details>


# %% tags=["answer"]
# answer: encoder_layer
def encoder_layer(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    """One layer of the encoder. `given.look_up` is attention.

    x: (batch, length, d_model)
    mask: (batch, 1, 1, length), bool
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    x = layer.norms[0](x + given.look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + layer.outer(layer.inner(x).relu()))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("encoder_layer", encoder_layer)

# %% [markdown]
# ## 4 · A decoder layer
#
# ★☆☆ · 10 minutes · §3.1, §3.2.3
#
# The same with one part more: between the two, the target asks the memory, with another attention and under another mask.
#
# <details><summary>Hint</summary>
#
# ```text
# x to itself, under the target's mask
# x to the memory, under the memory's mask
# feed-forward
# a sum and a norm of its own around each of the three
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (5) must match the size of tensor b (3) at non-singleton dimension 3</code></summary>
#
# The last axis of a mask is for what is looked at. One of the two masks is as long as the target, the other as long as the source.
# </details>


# %% tags=["answer"]
# answer: decoder_layer
def decoder_layer(layer: DecoderLayer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    """One layer of the decoder.

    x: (batch, target, d_model)
    memory: (batch, source, d_model)
    mask: (1, 1, target, target), bool
    memory_mask: (batch, 1, 1, source), bool
    returns: (batch, target, d_model)
    """
    ### BEGIN SOLUTION
    x = layer.norms[0](x + given.look_up(layer.self_attention, x, x, mask))
    x = layer.norms[1](x + given.look_up(layer.cross_attention, x, memory, memory_mask))
    return layer.norms[2](x + layer.outer(layer.inner(x).relu()))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("decoder_layer", decoder_layer)

# %% [markdown]
# ## 5 · The whole model
#
# ★★☆ · 15 minutes · §3.1, §3.4
#
# The source through the encoder: that is the memory. The target through the decoder, which looks at it. Then the score of each word of the vocabulary: the dot product
# with its row of the **same** matrix that the words came in by.
#
# You make the masks. Nobody looks at the source's padding (`PAD`), and no place of the target looks at what comes after it. Padding stands at the end of a target, so no word
# ever looks at it, and it needs no mask of its own.
#
# <details><summary>Hint</summary>
#
# ```text
# real: where source is not PAD            (batch, 1, 1, source)
# source: words and places, then each layer of the encoder
# no_future: a lower triangle of True      (1, 1, target, target)
# target: words and places, then each layer of the decoder
# times the embedding's matrix, turned     (batch, target, vocab_size)
# ```
# </details>
# <details><summary>Help: <code>'Embedding' object is not subscriptable</code></summary>
#
# `model.embedding` is a module. Its matrix is `model.embedding.weight`.
# </details>


# %% tags=["answer"]
# answer: next_word_scores
def next_word_scores(model: Model, source: Tensor, target: Tensor) -> Tensor:
    """How well each word fits as the next one, at each place of the target.

    source: (batch, source), int64, PAD behind a short sentence
    target: (batch, target), int64, from BOS on
    returns: (batch, target, vocab_size), scores and not probabilities
    """
    ### BEGIN SOLUTION
    table = model.embedding.weight
    real = (source != PAD)[:, None, None]  # (batch, 1, 1, source)
    memory = given.words_and_places(source, table)
    for layer in model.encoder:
        memory = given.encoder_layer(layer, memory, real)
    length = target.size(1)
    no_future = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    x = given.words_and_places(target, table)
    for layer in model.decoder:
        x = given.decoder_layer(layer, x, memory, no_future, real)
    return x @ table.T
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("next_word_scores", next_word_scores)

# %% [markdown]
# ## 6 · The loss
#
# ★★☆ · 15 minutes · §5.4
#
# A target is `BOS`, its words, `EOS`, and perhaps padding. At each place the decoder has read what stands there and before, and is asked for what comes next.
# Expected is a mixture: $1 - \epsilon$ on the right word, and $\epsilon$ spread evenly over **all** words of the vocabulary. The loss is the mean cross-entropy over all places,
# of all sentences together, at which something real is expected.
#
# <details><summary>Hint</summary>
#
# ```text
# read: all but the last column; expected: all but the first
# log-probabilities of the scores              (batch, length - 1, vocab_size)
# of each place: (1 - ε) times minus that of the expected word,
#                plus ε times minus the mean of all
# keep the places where expected is not PAD; mean
# or: F.cross_entropy does all but the first line, if you tell it enough
# ```
# </details>
# <details><summary>Help: <code>Expected target size [1, 9], got [1, 2]</code></summary>
#
# `F.cross_entropy` wants the vocabulary in the second axis, and here it is the last: let the two change places.
# </details>


# %% tags=["answer"]
# answer: translation_loss
def translation_loss(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The loss of a batch. `given.next_word_scores` is the model.

    source, target: (batch, length), int64; PAD behind a short sentence
    smoothing: ε
    returns: a tensor with a single number, of shape ()
    """
    ### BEGIN SOLUTION
    scores = given.next_word_scores(model, source, target[:, :-1])
    return F.cross_entropy(scores.mT, target[:, 1:], ignore_index=PAD, label_smoothing=smoothing)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("translation_loss", translation_loss)

# %% [markdown]
# ## 7 · Training
#
# ★★☆ · 15 minutes · §5.3
#
# Adam with $\beta_1 = 0.9$, $\beta_2 = 0.98$, $\epsilon = 10^{-9}$, and before each step, counted from 1, the rate
#
# $$d_\text{model}^{-1/2} \cdot \min(\text{step}^{-1/2},\ \text{step} \cdot \text{warmup}^{-3/2}).$$
#
# A gradient whose norm, over all weights together, is more than 1 is shortened to 1. `torch.optim` and `torch.nn.utils` are allowed. The loop does not care what it trains: the check gives it
# a straight line.
#
# <details><summary>Hint</summary>
#
# ```text
# one optimiser for all steps
# for each batch, and its number from 1 on:
#     set the rate in each group of optimizer.param_groups, under "lr"
#     loss; old gradients away; backward; clip; step
#     note the loss as a number
# ```
# </details>
# <details><summary>Help: <code>0.0 cannot be raised to a negative power</code></summary>
#
# `enumerate` counts from 0 unless you tell it where to begin.
# </details>
# <details><summary>Help: <code>object of type 'list_iterator' has no len()</code></summary>
#
# Batches may come from anywhere, one after the other, and nobody knows how many there will be. `for` is all that you need.
# </details>
# <details><summary>Help: <code>element 0 of tensors does not require grad and does not have a grad_fn</code></summary>
#
# `loss.item()` is a number, and numbers have forgotten where they come from. Go backward from the tensor, and note the number afterwards.
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
    """A step for each batch.

    loss_of: makes the loss of the model and a batch
    returns: the loss of each batch, as it was before its step
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
# ## 8 · Translating
#
# ★★☆ · 15 minutes
#
# All targets begin as `BOS`. Ask the model for the next word of each, take the best, append it, and ask again, until every sentence has said `EOS`, or as many words as the
# limit allows. What comes back is what was said: without `BOS`, and up to the first `EOS`, without it.
#
# <details><summary>Hint</summary>
#
# ```text
# target: a column of BOS                        (batch, 1)
# at most limit times:
#     the scores of the LAST place; the best     (batch,)
#     as one more column of target
#     has every row an EOS by now? then stop
# of each row: the first column away, cut at its first EOS
# ```
# </details>
# <details><summary>Help: <code>Tensors must have same number of dimensions: got 2 and 1</code></summary>
#
# The best words are a vector, and a column is wanted: give them a second axis of length one.
# </details>


# %% tags=["answer"]
# answer: greedy_translations
def greedy_translations(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    """Of each sentence the translation, word by best word.

    source: (batch, source), int64
    limit: the most words of a translation, EOS not counted
    returns: a list of ids for each sentence
    """
    ### BEGIN SOLUTION
    target = source.new_full((len(source), 1), BOS)
    for _ in range(limit):
        best = given.next_word_scores(model, source, target)[:, -1].argmax(dim=-1)
        target = torch.cat([target, best[:, None]], dim=1)
        if (target == EOS).any(dim=1).all():
            break
    rows = target[:, 1:].tolist()
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("greedy_translations", greedy_translations)

# %% [markdown]
# ## Now for real
#
# From here on nothing is graded. The cells train a translator with your functions, on English and German sentences that the course's grammar makes up. It takes some minutes on a laptop's
# processor, less on a GPU. Run the cells one after the other, once the eight checks say ✓.
#
# First the sentences. Those of the test are not in the training, and have combinations of words in them that the training never shows.

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
# Sentences of like length go into one batch, so that there is little padding; the batches then come in random order.


# %% tags=["skip-execution", "nbval-skip"]
def to_batch(some):
    sources = [torch.tensor([*tokenizer.encode(p.source), EOS]) for p in some]
    targets = [torch.tensor([BOS, *tokenizer.encode(p.target), EOS]) for p in some]
    sides = [pad_sequence(side, batch_first=True, padding_value=PAD) for side in (sources, targets)]
    return [side.to(device) for side in sides]


def length(pair):
    return len(pair.target_words), len(pair.source_words)


pairs.sort(key=length)
every = [to_batch(pairs[i : i + 32]) for i in range(0, len(pairs), 32)]
epochs = 6
shuffle = random.Random(0)
batches = [b for _ in range(epochs) for b in shuffle.sample(every, len(every))]

# %% [markdown]
# A small model, and your loop. What your functions make anew, such as a mask, has to be where the model is: `with device` sees to that.
#
# A loss of $\ln 2000 \approx 7.6$ would be that of somebody who knows nothing. Where does it go?

# %% tags=["skip-execution", "nbval-skip"]
model = Model(len(tokenizer), d_model=128, n_heads=4, d_ff=256, n_layers=2).to(device)


def smoothed(model, batch):
    return given.translation_loss(model, *batch, smoothing=0.1)


with device:
    losses = given.train_model(model, tqdm(batches), smoothed, 128, warmup_steps=800)
for i in range(0, len(losses), len(every)):
    epoch = losses[i : i + len(every)]
    print(f"epoch {i // len(every) + 1}: loss {sum(epoch) / len(epoch):.2f}")

# %% [markdown]
# And now what it was all for: sentences that it has never seen.

# %% tags=["skip-execution", "nbval-skip"]
with device, torch.inference_mode():
    found = given.greedy_translations(model, to_batch(unseen)[0], limit=60)
translations = [tokenizer.decode(ids) for ids in found]

for pair, translation in zip(unseen[:8], translations, strict=False):
    print(f"{pair.source}\n  yours     {translation}\n  expected  {pair.target}")
print(corpus_bleu(translations, [[pair.target for pair in unseen]]))

# %% [markdown]
# Your turn: change one thing and train again. Twice the epochs, the embedding without its root, one head in place of four, no warm-up, the encoder's layers left out. Say beforehand what the score will do.

# %% [markdown]
# ## Done?
#
# Save the notebook, and have it graded: by the cell below, or in a terminal by `python -m exercises grade capstone`.
#
# Then open `transformer/model.py`, `transformer/training/trainer.py` and `transformer/decoding.py`. What is there and not here makes it fast, or tells a user what to do: the idea is on this page.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
