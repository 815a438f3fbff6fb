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
# # The Transformer family: BERT, GPT, T5 and ViT
#
# BERT ranks search results, GPT writes programs, T5 summarises articles, and ViT recognises photographs. **How much of each is new, compared with the model of this course?** Very little. Each is the result of three choices: which half of the Transformer it keeps (T5 keeps both), which mask each half has, and what it has to output. In the figure, the input is at the bottom and the output at the top. Each grid is a mask: a row is a query, which may attend to the keys whose cells are green. Numbered tokens such as `<0>` mark the gaps in T5's input. ViT's tokens are pieces of an image, preceded by a special token, `[CLS]`, that stands for the whole image.

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
    print(f"With all figures: {book}/chapters/15_transformer_family.html")

# %% tags=["hide-input"]
import json
import random
import re
import tempfile
from collections import Counter, defaultdict
from copy import deepcopy
from pathlib import Path

import safetensors.torch
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from transformer.attention import KeyValueCache
from transformer.data import pocket
from transformer.data.pocket.grammar import lexicon
from transformer.huggingface import MARIAN_RENAMES, load_marian, rename
from transformer.plots import style
from transformer.plots.boxes import draw_arrow
from transformer.plots.masked_words import masked_word_explorer
from transformer.plots.modern_layer import modern_layer as draw_modern_layer
from transformer.plots.style import Captioned, Picture, Row

torch.set_printoptions(precision=2, sci_mode=False)


def draw_half(axes, x, name, colour, mask, reads="", writes=""):
    """Draw the encoder or the decoder: its mask (FULL or "causal"), or grey and empty."""
    kept = mask is not None
    box = FancyBboxPatch((x - 1.75, 3), 3.5, 3.6, "round,pad=0.15", fc="none")
    box.set(ec=colour if kept else style.PLAIN, ls="-" if kept else ":", lw=2)
    axes.add_patch(box)
    ink = style.INK if kept else style.PLAIN
    axes.text(x, 6.1, name, ha="center", va="center", fontsize=9.5, color=ink)
    if not kept:
        axes.text(x, 4.4, "dropped", ha="center", color=ink, fontsize=9)
        return
    side = 2.4 / len(mask)
    for row, allowed in enumerate(mask):
        for column, may_attend in enumerate(allowed):
            corner = (x - 1.2 + side * column, 5.5 - side * (row + 1))
            colour = style.ALLOWED if may_attend else "none"
            axes.add_patch(
                Rectangle(corner, side, side, fc=colour, ec=style.INK, lw=0.5)
            )
    draw_arrow(axes, (x, 1.75), (x, 2.75))
    axes.text(x, 1.2, reads, ha="center", va="center", fontsize=9)
    if writes:
        draw_arrow(axes, (x, 6.85), (x, 7.85))
        axes.text(x, 8.4, writes, ha="center", va="center", fontsize=9)


def draw_models(*models):
    with style.in_style():
        figure = Figure(figsize=(5, 2.75))
        for n, (name, encoder, decoder) in enumerate(models):
            axes = figure.add_axes((n / 2, 0, 0.5, 1))
            axes.set(xlim=(0, 10.2), ylim=(0.6, 10.6))
            axes.axis("off")
            axes.text(4.5, 9.7, name, ha="center", va="center", fontsize=11)
            both = len(encoder) > 1 and len(decoder) > 1
            draw_arrow(
                axes, (4.0, 4.8), (5.05, 4.8), style.VALUE if both else style.PLAIN
            )
            draw_half(axes, 2.1, "encoder", style.KEY, *encoder)
            draw_half(axes, 6.95, "decoder", style.QUERY, *decoder)
            for i in range(
                4 if name.startswith("ViT") else 0
            ):  # the patches of a plus sign
                left, low = 2.2 + 1.05 * i, 0.75
                axes.add_patch(
                    Rectangle(
                        (left, low), 0.85, 0.85, fc="none", ec=style.INK, lw=0.8
                    )
                )
                x, y = left + 0.57 * (i % 2 == 0), low + 0.57 * (i > 1)
                for corner, size in (
                    ((x, low), (0.28, 0.85)),
                    ((left, y), (0.85, 0.28)),
                ):
                    axes.add_patch(Rectangle(corner, *size, fc=style.PLAIN))
    return figure


full = torch.ones(3, 3)
causal = full.tril()
Row(
    Picture(
        draw_models(
            (
                "BERT fills in blanks",
                (full, "the [MASK] sleeps", "dog"),
                (None,),
            ),
            (
                "GPT predicts the next token",
                (None,),
                (causal, "<bos> the dog", "the dog sleeps"),
            ),
        ),
        alt=(
            "Two copies of the Transformer. BERT keeps the encoder, with a mask of "
            "three by three filled cells; it reads 'the [MASK] sleeps' and outputs "
            "'dog'. GPT keeps the decoder, with the cells on and below the diagonal "
            "filled; it reads '<bos> the dog' and outputs 'the dog sleeps'. The other "
            "half and the arrow between the halves are grey."
        ),
    ),
    Picture(
        draw_models(
            (
                "T5 restores missing pieces",
                (full, "the <0> sleeps"),
                (causal, "<bos> <0> dog", "<0> dog <1>"),
            ),
            (
                "ViT names the image",
                (torch.ones(5, 5), "[CLS]            ", "cross"),
                (None,),
            ),
        ),
        alt=(
            "Two copies of the Transformer. T5 keeps both halves and the arrow between "
            "them; its encoder reads 'the <0> sleeps', its decoder reads '<bos> <0> dog' "
            "and outputs '<0> dog <1>'. ViT keeps the encoder, all cells of whose mask "
            "are filled; it reads [CLS] and four pieces of an image, and outputs 'cross'."
        ),
    ),
    caption=(
        "The Transformer four times: what BERT, GPT, T5 and ViT drop is grey. Below "
        "each half is what it reads, above it what the model has to output."
    ),
)

# %% [markdown]
# By the end you will be able to build BERT, GPT and ViT from our encoder layer in a few lines, pre-train a small BERT and a small GPT, fine-tune one and prompt the other, say what T5 and today's language models change, and load files from the Hugging Face Hub into the course's classes. The models whose predictions you see are small and trained on this page. Of two public ones, Marian (for translation) and LLaMA, we check the architecture: with the same random weights, our classes compute the same logits as the library `transformers`. **About 45 minutes.** The chapter builds on [Masking](04_masking.ipynb), [Positional encoding](05_positional_encoding.ipynb), [The full model](07_full_model.ipynb), [Training](11_training.ipynb) and [Decoding](12_decoding.ipynb).

# %% tags=["hide-input", "imports"]
import math
from itertools import chain

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from transformer.attention import KeyValue, MultiHeadAttention, attention
from transformer.config import ModelConfig
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.layers import EncoderLayer, FeedForward
from transformer.masks import causal_mask, padding_mask
from transformer.model import Transformer
from transformer.positions import rotary_table, rotate

# %% [markdown]
# ## One layer, three choices
#
# All four models are built from the layers of [chapter 6](06_layers.ipynb). They differ in the **mask**, the half of the model that is kept, and the **objective**, which is what the model has to predict in training.
#
# | model | half | each position attends to | has to predict |
# |---|---|---|---|
# | [BERT](https://aclanthology.org/N19-1423/) | **encoder-only** | all positions | about 15% of the tokens, most of which are masked |
# | [GPT](https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf) | **decoder-only**, without cross-attention | itself and earlier positions | the next token, at every position |
# | [T5](https://arxiv.org/abs/1910.10683) | encoder–decoder | in the source: all positions; in the target: the whole source, itself and earlier positions | pieces that were cut out of the source |
# | [ViT](https://arxiv.org/abs/2010.11929) | encoder-only | all patches of an image, and `[CLS]` | what the image shows |
#
# **By hand.** What does the mask alone change? Take four tokens with the values 1, 2, 3 and 4, and set all queries and keys to zero. Then all scores are equal, and the output of each position is the mean of the values that it may attend to. We try BERT's mask, which hides nothing, and GPT's, which is causal.

# %%
values = torch.tensor([[1.0], [2], [3], [4]])
zeros = torch.zeros(4, 1)  # all queries and all keys
masks = {
    "BERT": torch.ones(4, 4, dtype=torch.bool),
    "GPT": causal_mask(4)[0, 0],
}
for name, mask in masks.items():
    output, _ = attention(zeros, zeros, values, mask)
    print(f"{name:5}", output.flatten())

# %% [markdown]
# GPT's output at the first position is final: it doesn't depend on what follows, so GPT can write one token at a time and cache what it has computed. BERT's output at the first position depends on the whole sentence. So BERT is better suited to classifying text than to generating it, where each new token would change all vectors before it.
#
# <details><summary>Something in between: prefix language models</summary>
#
# None of the four models has it, but there is a mask in between: a **prefix mask** lets every position attend to the first few tokens, the prefix, and is causal for the rest. A single stack of layers with such a mask is called a **prefix language model** (§3.2 of the T5 paper). Like an encoder–decoder, it reads its input in both directions and writes its output from left to right.
#
# </details>
#
# BERT, GPT-2 and ViT are stacks of encoder layers (even GPT-2, as we'll check below). Unlike in our encoder, positions are learned, and the feed-forward networks use **GELU** ([Hendrycks and Gimpel, 2016](https://arxiv.org/abs/1606.08415)), a smooth version of ReLU. GPT-2 and ViT are also pre-norm, with one more norm at the end; BERT is post-norm, but we use pre-norm for all three, because it is easier to train.


# %%
class GeluFeedForward(FeedForward):
    def forward(self, x):
        return self.outer(self.dropout(F.gelu(self.inner(x))))


# %%
class Stack(nn.Module):
    def __init__(self, config):
        super().__init__()
        d, n_layers = config.d_model, config.n_layers
        # BERT starts from 0.02, but also trains for much longer.
        self.positions = nn.Parameter(0.5 * torch.randn(config.max_length, d))
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(n_layers))
        for layer in self.layers:
            layer.feed_forward = GeluFeedForward(d, config.d_ff)
        self.norm = nn.LayerNorm(d)

    def forward(self, x, mask):
        x = x + self.positions[: x.size(1)]
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)  # (batch, length, d_model)


# %% tags=["remove-cell"]
x = torch.tensor([-1.0, 0.5, 2])
assert_close(F.gelu(x), x * torch.distributions.Normal(0.0, 1.0).cdf(x))
assert_close(F.gelu(6 * x), F.relu(6 * x), atol=0.01, rtol=0)

# %% [markdown]
# A language model has a token embedding before the stack and an output layer after it, which share one matrix (§3.4). (We keep the paper's factor $\sqrt{d_\text{model}}$ for the embeddings, which BERT and GPT-2 don't have.) BERT and GPT now differ in a single line, the mask:


# %%
class LanguageModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.scale = math.sqrt(config.d_model)  # of the embeddings, as in §3.4
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=1 / self.scale)
        self.stack = Stack(config)

    def encode(self, ids):  # (batch, length, d_model)
        return self.stack(self.embedding(ids) * self.scale, self.mask(ids))

    def logits(self, x):
        return x @ self.embedding.weight.T

    def forward(self, ids):  # (batch, length, vocab_size)
        return self.logits(self.encode(ids))


# %%
class Bert(LanguageModel):
    def mask(self, ids):
        return padding_mask(ids, PAD)  # hides nothing but padding


class Gpt(LanguageModel):
    def mask(self, ids):
        return causal_mask(ids.size(1))


# %% [markdown]
# Is this GPT really the decoder of our `Transformer`? **To find out, we build both, give them the same weights, switch cross-attention off, and compare the logits.** Cross-attention is the one part that GPT doesn't have. We switch it off with a source that is all padding: the mask excludes every key, so the weighted sums are zero. The biases of a new model are zero, too, so cross-attention adds nothing to the residual stream. (A plain softmax would give NaN here; see [Masking](04_masking.ipynb).)

# %%
torch.manual_seed(0)
# the first four numbers: vocab_size, d_model, n_heads, d_ff
small = ModelConfig(20, 32, 4, 64, n_layers=2, norm="pre", positions="learned")
model, decoder_only = Transformer(small).eval(), Gpt(small).eval()
decoder_only.embedding = model.target_embedding
stack = decoder_only.stack
stack.positions, stack.norm = model.positions, model.decoder_norm
for layer, decoder_layer in zip(stack.layers, model.decoder, strict=True):
    layer.self_attention = decoder_layer.self_attention
    layer.feed_forward = decoder_layer.feed_forward
    layer.residuals[0] = decoder_layer.residuals[0]
    layer.residuals[1] = decoder_layer.residuals[2]  # [1]: cross-attention
ids = torch.tensor([[BOS, 5, 6, 7], [BOS, 9, 4, 8]])
only_padding = torch.full((2, 1), PAD)  # (batch, 1): the source
assert_close(decoder_only(ids), model(only_padding, ids))
print("our GPT = the decoder")

# %% [markdown]
# The logits are equal. **A "decoder-only" model is a stack of encoder layers with a causal mask.**
#
# <details><summary>What is GELU, and why is that Transformer pre-norm?</summary>
#
# GELU is $x$ times the probability that a standard normal variable is less than $x$.
#
# Our check needs pre-norm: in a post-norm `Transformer`, cross-attention without a source would still leave its layer norm behind, and the logits would differ.
#
# </details>

# %% [markdown]
# ## Pre-training a BERT
#
# Labels are expensive, because somebody has to write them. Plain text is nearly free, and there is a lot of it. **Pre-training** means training on plain text before any task is chosen. The text itself provides the labels, so this is called **self-supervised learning**. BERT's objective is **masked language modelling** (MLM): hide some tokens, and predict them from the rest.
#
# German is a good test, because its word for *the* depends on the gender of the noun that follows: *der Vater* is the father, *die Frau* the woman, *das Kind* the child. It also depends on the noun's number and on its role in the sentence: *der Vater* sleeps, but you see *den Vater* and thank *dem Vater*. Our models read German sentences of the [pocket corpus](09_data_and_batching.ipynb), one token per word. The folded cell collects them in `texts`: the sentences whose words are all among the 600 most frequent (`frequent`).

# %% tags=["hide-input"]
texts = [
    re.findall(r"\w+|[.,?]", pair.target) for pair in pocket.pairs("train", 20_000)
]
frequent = [word for word, _ in Counter(chain(*texts)).most_common(600)]
texts = list(
    dict.fromkeys(t for t in map(tuple, texts) if {*frequent}.issuperset(t))
)
nouns = [
    noun
    for noun in lexicon().nouns.values()
    if noun.english_plural not in ("-", "")
    and not {" ", "-"} & {*noun.english, *noun.german_plural}
    and noun.german != noun.german_plural
][:60]
relations = {
    "plural": {noun.german: noun.german_plural for noun in nouns},
    "article": {noun.german: noun.gender for noun in nouns},
    "English": {noun.german: noun.english for noun in nouns},
}
generator = random.Random(0)


def word_list(relation, length):
    """For example: Hund : Hunde , Frau : Frauen"""
    pairs = generator.sample(list(relations[relation].items()), length)
    return [token for pair in pairs for token in (pair[0], ":", pair[1], ",")][:-1]


lists = [word_list(generator.choice(list(relations)), 5) for _ in range(1500)]
extra_words = [*chain(*lists)]
for text, english in (
    (texts[0], "The grandmother trusts the brave ladies."),
    (texts[6], "The baker has drunk the wine."),
):
    print(f"{' '.join(text)}\n  ({english})")

# %% [markdown]
# The vocabulary consists of all their words and four special tokens (and some more words, from `extra_words`, that our GPT will need later). `to_ids` turns a list of texts into a rectangular tensor. We hold out 300 sentences for testing:

# %%
words = ["<pad>", "<bos>", "<eos>", "[MASK]"]
words += dict.fromkeys([*frequent, *extra_words])
MASK = words.index("[MASK]")
token_id = {word: i for i, word in enumerate(words)}


def to_ids(texts):
    rows = [
        torch.tensor([BOS, *(token_id[word] for word in text), EOS])
        for text in texts
    ]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)  # (batch, length)


unseen, train_ids = to_ids(texts[:300]), to_ids(texts[300:])
print(f"{len(texts)} sentences, {len(words)} tokens in the vocabulary")

# %% [markdown]
# In each sentence, about 15% of the tokens are chosen, and the loss is computed only there. A chosen token is replaced by `[MASK]` in 80% of the cases, by a random token in 10%, and left as it is in the remaining 10% (§3.1 of the BERT paper). Why not always by `[MASK]`? Because there is no `[MASK]` in the tasks that BERT is fine-tuned for. This way, the model can't know whether a token that it sees is the right one, so the vector of every token has to take the context into account.

# %%
draw = torch.Generator().manual_seed(0)


def mask_tokens(ids):
    """Return BERT's input, and where the loss is computed."""
    chosen = (torch.rand(ids.shape, generator=draw) < 0.15) & (ids > MASK)
    kind = torch.rand(ids.shape, generator=draw)
    other = torch.randint(MASK + 1, len(words), ids.shape, generator=draw)
    masked = torch.where(chosen & (kind < 0.8), MASK, ids)
    masked = torch.where(chosen & (kind >= 0.8) & (kind < 0.9), other, masked)
    return masked, chosen


# %%
def mlm_loss(model, ids):
    masked, chosen = mask_tokens(ids)
    x = model.encode(masked)[chosen]  # (chosen tokens, d_model)
    return F.cross_entropy(model.logits(x), ids[chosen])


# %% tags=["remove-cell"]
masked, chosen = mask_tokens(train_ids)
real = train_ids > MASK
assert abs(chosen.sum() / real.sum() - 0.15) < 0.01
assert abs((masked == MASK).sum() / chosen.sum() - 0.8) < 0.02
others = (masked != train_ids) & (masked != MASK)
assert abs(others.sum() / chosen.sum() - 0.1) < 0.02
assert torch.equal(masked[~chosen], train_ids[~chosen])
assert not chosen[:, 0].any()  # the loss doesn't use the output of [CLS]

# %% [markdown]
# The first token of every sentence, our `<bos>`, is called **`[CLS]`** in BERT, for *classification*; you'll see why in the next section.
#
# <details><summary>How BERT differs: [SEP], segments and next-sentence prediction</summary>
#
# BERT's input is two pieces of text, each followed by the token `[SEP]`. One of two **segment embeddings**, for the first or the second piece, is added to each token. From the output at `[CLS]`, passed through a small layer, the *pooler*, BERT also has to predict whether the second piece followed the first in the original text. RoBERTa ([Liu et al., 2019](https://arxiv.org/abs/1907.11692)) dropped this **next-sentence prediction** (NSP) and was no worse for it.
#
# </details>
#
# Next come the training loop, whose learning rate has a warm-up and a decay, and `batches`, which returns a function that draws its batches:


# %%
def learning_rate_factor(step, steps):
    """Warm-up, a plateau, and a linear decay in the second half."""
    warm_up = (step + 1) / 50
    decay = 2 - 2 * step / steps
    return min(warm_up, 1, decay)


def train(model, loss_of, next_batch, steps, learning_rate=0.003):
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    for step in range(steps):
        factor = learning_rate_factor(step, steps)
        adam.param_groups[0]["lr"] = learning_rate * factor
        loss = loss_of(model, next_batch())
        adam.zero_grad()
        loss.backward()
        adam.step()


# %%
def batches(ids, size=64):
    """Return a function that draws a batch of sentences of similar length."""
    by_length = ids[(ids != PAD).sum(1).argsort()]

    def next_batch():
        first = torch.randint(len(by_length) - size + 1, (), generator=draw)
        batch = by_length[first : first + size]
        return batch[:, : (batch != PAD).sum(1).max()]

    return next_batch


# %%
torch.manual_seed(0)
config = ModelConfig(
    len(words), 64, 4, 256, n_layers=2, dropout=0.0, norm="pre", max_length=64
)
bert = Bert(config)
train(bert, mlm_loss, batches(train_ids), steps=2500)
bert = bert.eval().requires_grad_(False)

# %% [markdown]
# Now we can ask BERT to fill in blanks. In English: *___ father is old*, *___ woman is old*, *The ___ is old* (masculine), *The ___ is old* (feminine), *We ___ drunk the wine*.


# %% tags=["hide-input"]
def fill(text, count=2):
    tokens = ["[MASK]" if token == "___" else token for token in text.split()]
    ids = to_ids([tokens])
    probabilities = bert(ids)[0, ids[0].tolist().index(MASK)].softmax(-1)
    best = probabilities.topk(count)
    return [
        (words[i], p)
        for p, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


for text in (
    "___ Vater ist alt .",
    "___ Frau ist alt .",
    "Der ___ ist alt .",
    "Die ___ ist alt .",
    "Wir ___ den Wein getrunken .",
):
    print(f"{text:17}", *(f"{word} {p:.2f}" for word, p in fill(text)), sep="  ")

# %% [markdown]
# Does BERT use the context? To measure this, we mask every *der*, *die*, *das*, *den* and *dem* in the unseen sentences, one at a time, and see which of these forms gets the highest probability. (A few are relative pronouns, which have the same forms.)

# %%
forms = ["Der", "Die", "Das", "der", "die", "das", "den", "dem"]
articles = torch.tensor([token_id[form] for form in forms])
rows, places = torch.isin(unseen, articles).nonzero(as_tuple=True)
sentences = unseen[rows]  # a sentence appears once for each of its articles
each = torch.arange(len(rows))
masked = sentences.clone()
masked[each, places] = MASK
logits = bert(masked)[each, places]  # (articles, vocab_size)
prediction = articles[logits[:, articles].argmax(-1)]

# %% [markdown]
# An accuracy means little without a **baseline**. A simple one is a lookup table: it returns the form that most often preceded the next word, for example *Vater*, in the training sentences. A stronger one looks up both neighbours, or only the next word if it hasn't seen the two together. The output begins with a sentence in which both mislead: *He wants to visit the painter at five*. In the training sentences, *Maler* (*painter*) mostly follows *der*, as a subject, and the pair *will ___ Maler* never occurs. Here the subject is *Er* (*he*), so the painter needs *den*. The column *misleading* covers only the articles that the lookup by the next word gets wrong (0% for it, by definition).


# %% tags=["hide-input"]
def as_words(ids):
    return [words[i].lower() for i in ids.tolist()]


answers, by_bert = as_words(sentences[each, places]), as_words(prediction)
by_next, by_both = defaultdict(Counter), defaultdict(Counter)
for text in texts[300:]:
    for before, word, after in zip(
        ("<bos>", *text[:-1]), text, (*text[1:], "<eos>"), strict=True
    ):
        if word in forms:
            by_next[after][word.lower()] += 1
            by_both[before, after][word.lower()] += 1
by_both = {key: n.most_common(1)[0][0] for key, n in by_both.items()}
by_next = {key: n.most_common(1)[0][0] for key, n in by_next.items()}
most_frequent = Counter(answers).most_common(1)[0][0]
neighbours = [
    (words[sentence[place - 1]], words[sentence[place + 1]])
    for sentence, place in zip(sentences.tolist(), places.tolist(), strict=True)
]
next_word = [by_next.get(after, most_frequent) for _, after in neighbours]
both_words = [
    by_both.get(pair, guess)
    for pair, guess in zip(neighbours, next_word, strict=True)
]
misleading = torch.tensor([a != b for a, b in zip(answers, next_word, strict=True)])


def accuracies(predicted):
    right = torch.tensor([a == b for a, b in zip(answers, predicted, strict=True)])
    return right.float().mean().item(), right[misleading].float().mean().item()


scores = {
    "BERT": accuracies(by_bert),
    "lookup by both neighbours": accuracies(both_words),
    "lookup by the next word": accuracies(next_word),
    f"always {most_frequent!r}": accuracies([most_frequent] * len(answers)),
}
example = rows.tolist().index(
    texts.index(tuple("Er will den Maler um fünf Uhr besuchen .".split()))
)
print("Er will ___ Maler um fünf Uhr besuchen .")
for name, guesses in (
    ("next word", next_word),
    ("both neighbours", both_words),
    ("BERT", by_bert),
    ("correct", answers),
):
    print(f"  {name}: {guesses[example]}")
print(f"\n{'':26} all {len(answers)}   misleading {misleading.sum()}")
for name, (overall, hard) in scores.items():
    print(f"{name:26} {overall:7.0%} {hard:15.0%}")

# %% tags=["remove-cell"]
(bert_all, bert_hard), (both_all, both_hard), (next_all, _), (guess_all, _) = (
    scores.values()
)
assert (next_word[example], both_words[example]) == ("der", "der")
assert by_bert[example] == answers[example] == "den" and misleading[example]
assert ("will", "Maler") not in by_both and by_next["Maler"] == "der"
assert bert_all > both_all + 0.08 > next_all + 0.08 and guess_all < 0.4
assert bert_hard > both_hard + 0.25 and bert_hard > 0.5 > both_hard

# %% [markdown]
# BERT clearly beats both tables. Where the next word misleads, it is mostly right, and the table of both neighbours mostly wrong: that table can use only pairs that it has seen.

# %% [markdown]
# ## Fine-tuning: one task, some labels
#
# **Fine-tuning** means continuing to train a pre-trained model on a task, such as detecting spam, with labels. BERT's recipe: take the output vector of `[CLS]`, put one new linear layer on top, and train the whole model for a short time, with a lower learning rate.
#
# Why the vector of `[CLS]`? It stands for no word, so it is free to collect whatever the task needs from all the others. (Our `mlm_loss` never uses its output, so it learns this only in fine-tuning.)
#
# <details><summary>How does BERT rank search results?</summary>
#
# BERT is fine-tuned either to score a query and a document together, or to turn each of them into one vector, a **sentence embedding** ([Reimers and Gurevych, 2019](https://arxiv.org/abs/1908.10084)), so that related texts get similar vectors.
#
# </details>
#
# Our task is to detect grammatical errors, a small version of [CoLA](https://arxiv.org/abs/1805.12471), a collection of sentences labelled as acceptable or not, on which BERT was evaluated. In half of the sentences that begin with *Der*, *Die* or *Das*, we replace this word with one of the other two. A changed sentence, such as *Die Vater ist alt*, has the label 1.


# %%
class Classifier(nn.Module):
    def __init__(self, bert, n_classes=2):
        super().__init__()
        self.bert = bert
        self.head = nn.Linear(bert.embedding.embedding_dim, n_classes)

    def forward(self, ids):
        x = self.bert.encode(ids)  # (batch, length, d_model)
        return self.head(x[:, 0])  # (batch, n_classes), from [CLS]


# %% tags=["hide-input"]
draw.manual_seed(0)


first_articles = articles[:3]  # Der, Die, Das


def replace_article(ids):
    """Replace the first word of each sentence by another article."""
    shift = torch.randint(1, 3, (len(ids),), generator=draw)
    now = (ids[:, 1:2] == first_articles).int().argmax(1)
    changed = ids.clone()
    changed[:, 1] = first_articles[(now + shift) % 3]
    return changed


pool = train_ids[torch.isin(train_ids[:, 1], first_articles)]
pool_labels = torch.randint(2, (len(pool),), generator=draw)
pool = torch.where(pool_labels[:, None] == 1, replace_article(pool), pool)
originals = unseen[torch.isin(unseen[:, 1], first_articles)]
test_ids = torch.cat([originals, replace_article(originals)])
test_labels = torch.arange(2).repeat_interleave(len(originals))
on_labelled = []  # the accuracy on the labelled sentences themselves


def fine_tune(encoder, n_labels, seed, steps, learning_rate):
    torch.manual_seed(seed)
    draw.manual_seed(seed)
    labelled = torch.randperm(len(pool), generator=draw)[:n_labels]
    classifier = Classifier(deepcopy(encoder).requires_grad_(True))

    def next_batch():
        rows = labelled[torch.randint(n_labels, (32,), generator=draw)]
        length = (pool[rows] != PAD).sum(1).max()
        return pool[rows, :length], pool_labels[rows]

    def loss_of(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    def accuracy_on(ids, labels):
        return (classifier(ids).argmax(-1) == labels).float().mean().item()

    train(classifier, loss_of, next_batch, steps, learning_rate)
    with torch.no_grad():
        on_labelled.append(accuracy_on(pool[labelled], pool_labels[labelled]))
        return accuracy_on(test_ids, test_labels)


# %% [markdown]
# The folded `fine_tune` trains all weights. We call it with 64, 256 and 1,024 labelled sentences, starting from our pre-trained BERT or from random weights, three times each with different sentences. The pre-trained model gets 150 steps at a third of the learning rate of pre-training. That would be unfair to random weights, which have more to learn: they get twice as many steps, at the full rate. The test set contains every unseen sentence with such a beginning twice, unchanged and changed, so guessing is right half of the time.

# %%
torch.manual_seed(1)
recipes = {  # where it starts, steps, learning rate
    "pre-trained": (bert, 150, 0.001),
    "random weights": (Bert(config), 300, 0.003),
}
n_labels = [64, 256, 1024]
accuracy = {name: torch.zeros(3, 3) for name in recipes}
for name, (encoder, *recipe) in recipes.items():
    for i, n in enumerate(n_labels):
        for seed in range(3):
            accuracy[name][i, seed] = fine_tune(encoder, n, seed, *recipe)

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(4.2, 2.4)
    for (name, table), (colour, dash) in zip(
        accuracy.items(), style.LINE_STYLES[1::-1], strict=True
    ):
        axes.plot(n_labels, 100 * table.mean(1), dash, color=colour)
        shifted = [n * (1.06 if name == "pre-trained" else 0.94) for n in n_labels]
        axes.plot(shifted, 100 * table, "o", color=colour, markersize=4)
    axes.axhline(50, color=style.PLAIN, linewidth=1)
    axes.text(1024, 46, "guessing", color=style.INK, fontsize=10, ha="right")
    axes.set_xscale("log", base=2)
    axes.set_xticks(n_labels, [f"{n:,}" for n in n_labels])
    axes.set(ylim=(44, 100), xlabel="labelled sentences")
    axes.set_title("Accuracy on unseen sentences (%)", loc="left")
    axes.grid(True)
    axes.text(300, 86, "pre-trained", color=style.INK, fontsize=10)
    axes.text(256, 63, "random weights", color=style.INK, fontsize=10, ha="center")
Picture(
    figure,
    alt=(
        "Accuracy after fine-tuning against the number of labelled sentences, 64, 256 "
        "and 1,024. With 64, both are between guessing, 50 per cent, and 75 per cent. With "
        "more labels, the line of the pre-trained model rises to more than 90 per cent; that of the model with "
        "random weights stays below 75 per cent."
    ),
    caption=(
        "Accuracy after fine-tuning, means (lines) and single runs (dots). With 256 "
        "labels, every pre-trained run beats every run from random weights with 1,024."
    ),
)

# %% tags=["remove-cell"]
with_bert, without = (table.mean(1) for table in accuracy.values())
assert all(with_bert[1:] > without[1:] + 0.1) and with_bert[1] > without[2] + 0.05
best, worst = accuracy["random weights"][2].max(), accuracy["pre-trained"][1].min()
assert with_bert[2] > 0.9 and 0.55 < without[2] < 0.75 and worst > best
assert max(with_bert[0], without[0]) < 0.75 and len(test_ids) == 196
assert min(on_labelled) > 0.95

# %% [markdown]
# Did the model that started from random weights get too few steps? No, both have memorised nearly all of their *labelled* sentences:

# %% tags=["hide-input"]
print(f"on the labelled sentences: {n_labels}")
for name, part in zip(
    recipes, torch.tensor(on_labelled).view(2, 3, 3), strict=True
):
    print(f"{name:14}", *(f"{mean:.0%}" for mean in part.mean(1).tolist()))

# %% [markdown]
# But the pre-trained model already knew, from unlabelled sentences, which article belongs to which noun, so what it learns also holds for new sentences. This is **transfer learning**: one round of pre-training can serve many tasks. It doesn't replace labels, though: with 64, both models get more than a quarter of the sentences wrong on average.
#
# <details><summary>Why are 64 labels not enough?</summary>
#
# After 150 batches of 32, the pre-trained model has seen each of the 64 sentences about 75 times. There are many ways to tell so few sentences apart, and nothing forces the model to use the one that we mean. Experiments 2 and 3 at the end of the chapter try remedies.
#
# </details>

# %% [markdown]
# ## Pre-training a GPT
#
# GPT's objective is **causal language modelling** (CLM): predict the next token at every position, as our decoder does in [Training](11_training.ipynb), but without a source. From a text of $n$ tokens it gets $n$ predictions, where BERT gets $0.15\,n$, so it trains for fewer steps. We use the same sentences, and 1,500 word `lists`. Each has five nouns with their plurals, with their articles, or with their English translations.

# %% tags=["hide-input"]
for answer in ("Hunde", "der", "dog"):
    example = next(t for t in lists if t[:4] == ["Hund", ":", answer, ","])
    print(*example[:8], "...")


# %%
def clm_loss(model, ids):
    logits = model(ids[:, :-1]).flatten(0, 1)  # (batch · length, vocab_size)
    labels = ids[:, 1:].flatten()
    return F.cross_entropy(logits, labels, ignore_index=PAD)


torch.manual_seed(0)
draw.manual_seed(0)
gpt = Gpt(config)
train(gpt, clm_loss, batches(to_ids([*texts[300:], *lists])), steps=1000)
gpt = gpt.eval().requires_grad_(False)

# %% [markdown]
# To generate text, we draw the next token from the predicted distribution with a temperature of 0.5, append it, and repeat, as in [Decoding](12_decoding.ipynb):

# %%
rng = torch.Generator().manual_seed(1)
ids = torch.full((4, 1), BOS)  # four texts
for _ in range(20):
    probabilities = (gpt(ids)[:, -1] / 0.5).softmax(-1)
    next_token = torch.multinomial(probabilities, 1, generator=rng)
    ids = torch.cat([ids, next_token], dim=1)
for text in ids.tolist():
    text.append(EOS)
    print(*[words[i] for i in text[1 : text.index(EOS)]])

# %% [markdown]
# <details><summary>Our four texts, and what they mean</summary>
#
# Another machine may draw other texts. On ours they were:
#
# - *Ein Mädchen hat sie besucht.* A girl has visited her (or them).
# - *Die Prinzen haben vergessen, der eingeladen.* This one begins with *The princes have forgotten* and isn't correct German.
# - *Der sehr alte Arzt hat dem Gast viele Märchen erzählt.* The very old doctor has told the guest many fairy tales.
# - *Die Tante hat eine Schauspielerin gesehen.* The aunt has seen an actress.
#
# </details>
#
# The figure below shows what BERT and GPT predict for a hidden word of *Der Bäcker hat den Wein getrunken* (*The baker has drunk the wine*). GPT sees only what precedes it. **Choose which word to hide**; the green bar is the correct word. *Den* depends on the noun after it: on our machine, all five of BERT's words fit *Wein*, while GPT's have different genders and cases.

# %% tags=["hide-input"]
sentence = texts[6]
predictions, hidden = {"BERT sees both sides": {}, "GPT sees the left side": {}}, {}
row = to_ids([sentence])
for place, word in enumerate(sentence[:-1], 1):
    name = " ".join("___" if i == place else w for i, w in enumerate(sentence, 1))
    hidden[name] = word
    masked_row = row.clone()
    masked_row[0, place] = MASK
    for model_name, logits in (
        ("BERT sees both sides", bert(masked_row)[0, place]),
        ("GPT sees the left side", gpt(row[:, :place])[0, -1]),
    ):
        best = logits.softmax(-1).topk(5)
        predictions[model_name][name] = [
            (words[i], p)
            for p, i in zip(
                best.values.tolist(), best.indices.tolist(), strict=True
            )
        ]
Captioned(
    masked_word_explorer(
        predictions,
        hidden,
        description=(
            "Two bar charts with the five most probable words for a hidden word of "
            "the sentence 'Der Bäcker hat den Wein getrunken', by BERT, which sees "
            "both sides, and by GPT, which sees only the words before it. A menu "
            "chooses the hidden word. For the article before Wein, the words of "
            "BERT fit the noun; those of GPT have several genders and cases."
        ),
        start="Der Bäcker hat ___ Wein getrunken .",
    ),
    "The five most probable words for a hidden word, the correct one in green. BERT "
    "also uses the words after it; GPT cannot.",
)

# %% tags=["remove-cell"]
by_bert_bars, by_gpt_bars = (
    p["Der Bäcker hat ___ Wein getrunken ."] for p in predictions.values()
)
assert by_bert_bars[0][0] == "den"
fitting = [word for word, _ in by_bert_bars if word.endswith("en")]
assert len(fitting) >= 4 > sum(word.endswith("en") for word, _ in by_gpt_bars)
assert len({word[-2:] for word, _ in by_gpt_bars}) > 2
assert dict(by_bert_bars)["den"] > dict(by_gpt_bars).get("den", 0) + 0.1

# %% [markdown]
# ## Prompting: zero-shot and few-shot
#
# The first GPT was fine-tuned for every task, like BERT. [GPT-2](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf) and [GPT-3](https://arxiv.org/abs/2005.14165) took a different approach: leave the weights alone, and put the task into the input, the **prompt**.
#
# **Zero-shot** means without any solved example of the task. The model need not even generate an answer: benchmarks with multiple-choice questions usually compare the log-probabilities of the choices, and take the most probable one. In this way GPT can choose the article, too, although it reads the article before the noun: at each masked position of our test, we insert each of the forms, and compare the log-probabilities of the whole sentences. After a wrong article, the noun is a surprise, which makes the sentence less probable. The folded functions `as_words` and `accuracies` score the answers as before:


# %%
def log_probability(ids):
    """The sum over a sentence's tokens: (sentences, length) -> (sentences,)."""
    log_probs = gpt(ids[:, :-1]).log_softmax(-1)
    labels = ids[:, 1:]
    chosen = log_probs.gather(2, labels[:, :, None])[:, :, 0]
    return chosen.masked_fill(labels == PAD, 0).sum(1)


candidates = []
for article in articles:
    candidate = sentences.clone()
    candidate[each, places] = article
    candidates.append(log_probability(candidate))
prediction = articles[torch.stack(candidates, 1).argmax(-1)]
gpt_all, gpt_hard = accuracies(as_words(prediction))  # as for BERT
print(f"zero-shot GPT: all {gpt_all:.0%}, misleading next word {gpt_hard:.0%}")

# %% tags=["remove-cell"]
assert gpt_all > both_all + 0.08 and gpt_hard > both_hard + 0.25

# %% [markdown]
# So GPT also beats the lookup tables. (It isn't a fair comparison with BERT: GPT has also seen lists of nouns with their articles, and it compares whole sentences.)
#
# **Few-shot** means that the prompt contains a few solved examples. After the prompt `Hund :`, should the answer be *Hunde* (the plural), *der* (the article) or *dog* (the English word)? In training, our GPT has seen lists of each kind, so it can't know. After `Frau : Frauen , Hund :` it can. The figure shows the accuracy for prompts with 0 to 4 examples. None of the prompts with examples occurred in the training lists.


# %% tags=["hide-input"]
training_lists = "\n".join(" ".join(tokens) for tokens in lists)


def few_shot_accuracy(relation, n_examples, n_prompts=100):
    prompts = []
    while len(prompts) < n_prompts:
        prompt = word_list(relation, n_examples + 1)
        if n_examples == 0 or " ".join(prompt) not in training_lists:
            prompts.append(prompt)
    answers = torch.tensor([token_id[prompt[-1]] for prompt in prompts])
    ids = to_ids(prompts)[:, :-2]  # without the answer and eos
    prediction = gpt(ids)[:, -1].argmax(-1)
    return (prediction == answers).float().mean().item()


generator = random.Random(1)
few_shot = {
    relation: [few_shot_accuracy(relation, n) for n in range(5)]
    for relation in relations
}

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(4.2, 2.4)
    for (relation, line), (colour, dash) in zip(
        few_shot.items(), style.LINE_STYLES, strict=False
    ):
        axes.plot(
            range(5),
            [100 * a for a in line],
            dash,
            marker="o",
            color=colour,
            label=f"Hund : {relations[relation]['Hund']}",
        )
    axes.set(ylim=(0, 104), xlabel="examples in the prompt", xticks=range(5))
    axes.set_title("Accuracy of the last answer (%)", loc="left")
    axes.grid(True)
    axes.legend(loc="lower right", title="task", handlelength=3)
Picture(
    figure,
    alt=(
        "Accuracy against the number of examples in the prompt, from 0 to 4, for three "
        "tasks: the plural, the article and the English word of a German noun. Without "
        "an example all three are low or middling; from one example on, all three are "
        "near 100 per cent."
    ),
    caption=(
        "A single example in the prompt is enough for the model to recognise which "
        "of three tasks to solve."
    ),
)

# %% tags=["remove-cell"]
average = [sum(column) / 3 for column in zip(*few_shot.values(), strict=True)]
assert average[0] < 0.6 and min(average[1:]) > 0.9
per_parameter = [
    round(t / p, 1) for t, p in ((300, 175), (2000, 70), (15_600, 405))
]
assert per_parameter == [1.7, 28.6, 38.5]

# %% [markdown]
# One example is enough. No weight has changed; the model has "learned" the task from its context. This is **in-context learning**, in its weakest form: the answers and even the format of the lists were in the training data, so the model only has to recognise which of three known tasks is wanted. Large models can also continue patterns that they have never seen. *Induction heads* ([What attention heads do](14_attention_heads.ipynb)) probably do a part of that work.
#
# <details><summary>Scaling laws, and how large a model should be</summary>
#
# In-context learning improves with the size of the model (GPT-3 paper, Figure 1.2). So does the test loss, which falls as a power law in model size, data and computation ([Kaplan et al., 2020](https://arxiv.org/abs/2001.08361)). These are the **scaling laws**. For a given amount of computation, about 20 tokens per parameter are **compute-optimal**. This is known as the *Chinchilla* rule ([Hoffmann et al., 2022](https://arxiv.org/abs/2203.15556)).
#
# </details>
#
# <details><summary>How models grew from 2020 to 2024</summary>
#
# [GPT-3](https://arxiv.org/abs/2005.14165) (2020) has 175 billion parameters and was trained on 1.7 tokens for each of them, the largest [Llama 2](https://arxiv.org/abs/2307.09288) (2023) 70 billion and 29 tokens, and the largest [Llama 3](https://arxiv.org/abs/2407.21783) (2024) 405 billion and 39 tokens. The paper's big model has 0.2 billion. Small models see many more tokens per parameter, because training a small model for longer makes it better, and it stays cheap to use.
#
# </details>
#
# <details><summary>From a language model to a chat model: instruction tuning and RLHF</summary>
#
# A language model continues texts, so if you give it a question, it may continue with more questions. **Instruction tuning** therefore fine-tunes it on many tasks that are phrased as instructions, with good answers ([Wei et al., 2022](https://arxiv.org/abs/2109.01652)). Often it is also trained on people's preferences between two answers, by **reinforcement learning from human feedback** ([Ouyang et al., 2022](https://arxiv.org/abs/2203.02155)).
#
# </details>
#
# ## T5: every task is text to text
#
# T5 keeps the encoder and the decoder, so `Transformer.forward` needs no change. T5's idea is **text-to-text**: the task is written into the source, and the answer is always text. `translate English to German: The dog sleeps.` has the target `Der Hund schläft.`, and `cola sentence: The dog sleep.` has the target `unacceptable`. So no task needs an output layer or a loss of its own, and one model can be trained on all of them together.
#
# To pre-train on plain text, T5 uses **span corruption**: it cuts out spans of three tokens on average, 15% of the text in all, and leaves a numbered *sentinel* token in place of each. We write `<0>` for the first one; the released models call it `<extra_id_0>`. The target lists the missing spans, each after its sentinel, and ends with one more:


# %%
def corrupt(tokens, spans):
    """Cut out the spans, given as (start, end), and return source and target."""
    source, target, position = [], [], 0
    for n, (start, end) in enumerate(spans):
        source += [*tokens[position:start], f"<{n}>"]
        target += [f"<{n}>", *tokens[start:end]]
        position = end
    return source + tokens[position:], [*target, f"<{len(spans)}>"]


sentence = "the old king opens the door of the castle".split()
source, target = corrupt(sentence, [(1, 3), (6, 7)])
print("source:", *source)
print("target:", *target)

# %% tags=["remove-cell"]
pieces = re.split(r" ?<\d+> ?", " ".join(target))[1:-1]
restored = " ".join(source)
for n, piece in enumerate(pieces):
    restored = restored.replace(f"<{n}>", piece)
assert restored.split() == sentence

# %% [markdown]
# T5 also changes the encoding of positions. Instead of adding vectors to the embeddings, T5 adds to each score of self-attention a learned number that depends on the head and on the offset, the key's position minus the query's: a **relative position bias**. (Cross-attention has none.) The layers of each half share these numbers.
#
# <details><summary>Smaller differences: norms, biases and √d_k</summary>
#
# The layers are pre-norm, and the norms only rescale (§2.1 of the T5 paper), like the RMSNorm described below; in the released models, linear layers have no biases. T5 also leaves out the division by $\sqrt{d_k}$; we keep it.
#
# </details>
#
# The package's attention can't add such a bias. The subclass in the folded cell can:


# %% tags=["hide-input"]
class BiasedAttention(MultiHeadAttention):
    bias = None  # (1, heads, query, key), added to the scores

    def attend(self, query, key, value, mask, is_causal):
        bias = self.bias
        if is_causal:
            mask = causal_mask(query.size(-2))
        if mask is not None:
            bias = bias.masked_fill(~mask, -math.inf)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)


torch.manual_seed(0)
plain, biased = MultiHeadAttention(32, 4), BiasedAttention(32, 4)
biased.load_state_dict(plain.state_dict())
x = torch.randn(2, 6, 32)
biased.bias = torch.zeros(1, 4, 6, 6).masked_fill(~causal_mask(6), -math.inf)
assert_close(biased(x), plain(x, mask=causal_mask(6)))
print("bias of 0 and -inf = causal mask")

# %% [markdown]
# The cell also checks that **a mask is a special case of such a bias**: 0 where attending is allowed, and $-\infty$ where it isn't.
#
# The grid below is such a bias for six words and a single head. Each cell is added to the score of its query (row) and key (column). On a diagonal, the offset is the same, and so is the number: eleven numbers fill the grid. With these, the head prefers the word before the query.

# %% tags=["hide-input"]
learned = torch.tensor(
    [-1.8, -1.2, -0.6, 0.3, 2.0, 0.5, -0.4, -0.8, -1.1, -1.4, -2.0]
)
offset = torch.arange(6)[None, :] - torch.arange(6)[:, None]  # key minus query
grid = learned[offset + 5]
six = "the old king opens the door".split()
with style.in_style():
    figure, axes = style.new_figure(3.1, 2.5)
    axes.imshow(grid, cmap="BrBG", vmin=-3.5, vmax=3.5)
    for row, line in enumerate(grid.tolist()):
        for column, number in enumerate(line):
            text = f"{number:.1f}".replace("-", "−")
            axes.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                color="black",
                fontsize=9,
            )
    axes.set_xticks(range(6), six, rotation=45, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(6), six)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
Picture(
    figure,
    alt=(
        "A grid of six queries and six keys, the words 'the old king opens the door'. "
        "Every diagonal has one number: 0.5 on the main diagonal, 2.0 for the key just "
        "before the query, and negative numbers for keys that are far away."
    ),
    caption=(
        "A relative position bias for one head, with invented numbers. All pairs of words with "
        "the same offset share one number, which T5 would learn."
    ),
)

# %% [markdown]
# <details><summary>What about long texts? Distances share 32 numbers</summary>
#
# It hardly matters whether a word is 100 or 101 positions away, so T5 learns only 32 numbers per head, one for each *bucket* of distances. Short distances have a bucket each; the longer the distances, the more of them share one, up to 128, beyond which all share the last (§2.1 of the T5 paper).
#
# </details>

# %% tags=["remove-cell"]
biased.bias = torch.zeros(1, 4, 6, 6)
assert_close(biased(x, is_causal=True), plain(x, is_causal=True))
padding = padding_mask(torch.tensor([[5] * 6, [5] * 4 + [PAD] * 2]), PAD)
assert_close(biased(x, mask=padding), plain(x, mask=padding))
assert (
    len(learned) == 11
    and learned.argmax() == 4
    and torch.equal(grid[1:, 1:], grid[:-1, :-1])
)
biased.bias = grid.expand(1, 4, 6, 6)
assert torch.equal(biased.bias[..., 1:, 1:], biased.bias[..., :-1, :-1])
assert (biased(x.flip(1)).flip(1) - biased(x)).abs().max() > 0.01  # order matters
assert_close(plain(x.flip(1)).flip(1), plain(x))

# %% [markdown]
# ## ViT: an image as a sequence of patches
#
# The Vision Transformer cuts an image into square **patches** and treats them as tokens. Turning a word into a vector takes an embedding table, but a patch already consists of numbers, so a linear layer is enough. Our images are drawn by the folded `draw_shapes`: discs, squares, triangles and crosses in different places and sizes, with noise.

# %% tags=["hide-input"]
SHAPES = ["disc", "square", "triangle", "cross"]


def draw_shapes(count, side=24):
    kind = torch.randint(4, (count,))
    ranges = ((8, 15), (8, 15), (4, 7))
    x, y, r = (a + (b - a) * torch.rand(count, 1, 1) for a, b in ranges)
    place = torch.arange(side)
    dx, dy = (place - x).abs(), place[:, None] - y
    far, near = torch.maximum(dx, dy.abs()), torch.minimum(dx, dy.abs())
    disc, box = dx**2 + dy**2 < r**2, far < 0.85 * r
    triangle, cross = (dy < 0.8 * r) & (dy > 2 * dx - r), (near < r / 3) & (far < r)
    shapes = torch.stack([disc, box, triangle, cross], 1).float()
    image = shapes[torch.arange(count), kind]
    return (image + 0.2 * torch.randn_like(image))[:, None], kind


torch.manual_seed(0)
images, kinds = draw_shapes(400)  # (400, 1, 24, 24), for testing
print(tuple(images.shape), " (batch, channels, height, width)")

# %% [markdown]
# Cutting an image into 16 patches of $6 \times 6$ pixels takes a reshape, a permutation, and another reshape:


# %%
def to_patches(images, size=6):
    patches = images.unflatten(3, (-1, size)).unflatten(2, (-1, size))
    # (batch, channels, rows, size, columns, size)
    patches = patches.permute(0, 2, 4, 1, 3, 5)
    return patches.flatten(3).flatten(1, 2)


patches = to_patches(images)
patches.shape  # (batch, patches, channels · size²)

# %% tags=["hide-input"]
cross_at = kinds.tolist().index(3)
with style.in_style():
    figure = Figure(figsize=(5, 1.7))
    areas = figure.add_gridspec(2, 11, wspace=0.25, hspace=0.1)
    whole_image = figure.add_subplot(areas[:, :3])
    whole_image.imshow(images[cross_at, 0].numpy(), cmap="gray")
    for line in (5.5, 11.5, 17.5):
        whole_image.axhline(line, color=style.KEY, linewidth=1)
        whole_image.axvline(line, color=style.KEY, linewidth=1)
    for n, patch in enumerate(patches[cross_at]):
        axes = figure.add_subplot(areas[n // 8, 3 + n % 8])
        axes.imshow(patch.view(6, 6).numpy(), cmap="gray", vmin=-0.5, vmax=1.5)
        axes.set_title(n, fontsize=9, pad=2)
    for axes in figure.axes:
        axes.axis("off")
Picture(
    figure,
    alt=(
        "Left, a noisy image of a cross, cut by lines into four by four squares. "
        "Right, the sixteen squares in reading order, numbered from 0 to 15: "
        "the sequence that the model reads."
    ),
    caption=(
        "An image of a cross is cut into square patches. In reading order, they are "
        "the tokens of the ViT."
    ),
)

# %% [markdown]
# A linear layer then turns each patch into a vector. This is the same as a **convolution whose stride equals its kernel size**, and most programs implement it that way.

# %% tags=["remove-cell"]
linear = nn.Linear(36, 64)
convolution = nn.Conv2d(1, 64, kernel_size=6, stride=6)
convolution.weight.data = linear.weight.data.view(64, 1, 6, 6)
convolution.bias = linear.bias
expected = linear(patches)
assert_close(convolution(images).flatten(2).mT, expected, atol=1e-5, rtol=1e-5)

# %% [markdown]
# A **class token** is put in front of the patches, as in BERT: a learned vector whose output is classified. Everything else is the `Stack` that BERT and GPT have, with a mask that hides nothing.


# %%
class Vit(nn.Module):
    def __init__(self, config, patch_size, n_classes):
        super().__init__()
        d, self.patch_size = config.d_model, patch_size
        self.patch_embedding = nn.Linear(patch_size**2, d)
        self.class_token = nn.Parameter(torch.zeros(1, 1, d))
        self.stack = Stack(config)
        self.head = nn.Linear(d, n_classes)

    def forward(self, images):
        x = self.patch_embedding(to_patches(images, self.patch_size))
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        see_all = torch.ones(1, 1, 1, 1, dtype=torch.bool)
        return self.head(self.stack(x, see_all)[:, 0])  # (batch, n_classes)


# %%
def image_loss(model, batch):
    images, kinds = batch
    return F.cross_entropy(model(images), kinds)


torch.manual_seed(0)
vit = Vit(config, patch_size=6, n_classes=4)
train(vit, image_loss, lambda: draw_shapes(64), steps=300)
vit.eval().requires_grad_(False)
vit_accuracy = (vit(images).argmax(-1) == kinds).float().mean().item()
print(f"{vit_accuracy:.0%} of 400 new images correct; guessing: 25%")

# %% tags=["remove-cell"]
assert vit_accuracy > 0.75

# %% [markdown]
# <details><summary>Why did ViT need so many images, and why doesn't ours?</summary>
#
# A convolution looks at neighbouring pixels only, and treats all places of an image alike. A ViT has hardly any such **inductive bias**: it even has to learn from the images which patches are neighbours. Pre-trained on the 1.3 million images of ImageNet, it therefore lagged behind convolutional networks, and overtook them only when it was pre-trained on many more images, up to 300 million ([Dosovitskiy et al., 2021](https://arxiv.org/abs/2010.11929)).
#
# Our ViT needs no pre-training because its images are simple, and our program draws new ones for every step.
#
# </details>
#
# ## How many parameters?
#
# BERT base, GPT-2 small and ViT-B/16, the base model with patches of 16 × 16 pixels, all have 12 layers with $d_\text{model} = 768$, 12 heads and $d_\text{ff} = 3072$. Their layers have the same number of parameters:


# %%
def size(module):
    return sum(p.numel() for p in module.parameters())


with torch.device("meta"):  # shapes only
    layer = EncoderLayer(ModelConfig(1, 768, 12, 3072))
d, f = 768, 3072
layers = 12 * size(layer)
assert layers == 12 * (4 * (d * d + d) + (2 * d * f + f + d) + 4 * d)
print(f"12 layers: {layers:,} parameters")

# %% tags=["hide-input"]
norm = 2 * d
models = {  # embeddings, then positions and the rest
    # the rest of BERT: two segment embeddings, a norm after them, and the pooler
    "BERT base": (30_522 * d, 512 * d + 2 * d + norm + (d * d + d)),
    "GPT-2 small": (50_257 * d, 1024 * d + norm),
    "ViT-B/16": (3 * 16 * 16 * d + d, 197 * d + d + norm + (1000 * d + 1000)),
}
totals = [layers + sum(parts) for parts in models.values()]
with style.in_style():
    figure, axes = style.new_figure(4.6, 2.1)
    start = torch.zeros(3)
    columns = [[layers] * 3, *zip(*models.values(), strict=True)]
    for (label, colour), counts in zip(
        {
            "layers": style.QUERY,
            "embeddings": style.OUTPUT,
            "positions, rest": style.KEY,
        }.items(),
        torch.tensor(columns) / 1e6,
        strict=True,
    ):
        axes.barh(
            list(models), counts, left=start, color=colour, label=label, height=0.6
        )
        start = start + counts
    for row, total in enumerate(totals):
        axes.text(total / 1e6 + 2, row, f"{total / 1e6:.1f}", va="center")
    axes.invert_yaxis()
    axes.set_xlim(0, 145)
    axes.set_xlabel("million parameters")
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.4, 1),
        ncols=3,
        fontsize=9,
        columnspacing=0.8,
        handlelength=1,
    )
Picture(
    figure,
    alt=(
        "Three stacked bars: BERT base 109.5 million parameters, GPT-2 small 124.4, "
        "ViT-B/16 86.6. The blue part, the layers, has the same length in all three; "
        "they differ in the embeddings, which are smallest in ViT and largest in GPT-2."
    ),
    caption=(
        "Parameters of three models. Their layers (blue) are the same size; the "
        "difference is nearly all in the embeddings (pink)."
    ),
)

# %% tags=["remove-cell"]
assert totals == [109_482_240, 124_439_808, 86_567_656]

# %% [markdown]
# <details><summary>Do the papers say the same?</summary>
#
# BERT's total matches the published 110 million. The GPT-2 paper says 117 million, which OpenAI later [corrected](https://github.com/openai/gpt-2) to 124. ViT's published 86 million leaves out the classifier.
#
# </details>
#
# ## What today's language models changed
#
# Most of today's language models are decoder-only, like GPT. Two reasons are often given: in training, every position provides a prediction to learn from, and any task can be written as a text to continue. The figure compares their layer with the layer of 2017.

# %% tags=["hide-input"]
Picture(
    draw_modern_layer(),
    alt=(
        "Two encoder layers with the residual stream running upwards. 2017: attention, "
        "then layer norm on the stream, feed-forward network with ReLU, then layer norm "
        "on the stream. Today: RMSNorm before each sublayer, grouped-query attention "
        "with rotated queries and keys, then SwiGLU."
    ),
    caption=(
        "A layer of 2017 and a layer of today. Today, the norm comes first and is an "
        "RMSNorm; attention is grouped-query attention (GQA) with rotary positions "
        "(RoPE); and the feed-forward network is a SwiGLU."
    ),
)

# %% [markdown]
# The other changes, besides pre-norm:
#
# | part | in the paper | today | why |
# |---|---|---|---|
# | normalisation | layer norm | RMSNorm | less to compute |
# | positions | added to the embeddings | queries and keys are rotated | scores depend on the offset ([Positional encoding](05_positional_encoding.ipynb)) |
# | feed-forward | with ReLU | with SiLU and a gate | better at the same size |
# | keys and values | one pair for each query head | one pair for several query heads | a smaller KV cache |
#
# <details><summary>More changes: no biases, mixtures of experts, and newer forms of attention</summary>
#
# Most linear layers have no biases any more, because training is more stable without them ([PaLM](https://arxiv.org/abs/2204.02311), §2). And in some models, there are many feed-forward networks, the *experts*. For each token, a small linear layer, the router, picks one or a few of them. Such a **mixture of experts** ([Fedus et al., 2022](https://arxiv.org/abs/2101.03961)) has more parameters for the same computation per token.
#
# Attention keeps changing, too. With **sliding-window attention** ([Jiang et al., 2023](https://arxiv.org/abs/2310.06825)), a position attends only to the last few thousand tokens, which limits the KV cache; many models use it in most of their layers, but not in all. **QK-norm** ([Henry et al., 2020](https://arxiv.org/abs/2010.04245)) normalises each query and key before their dot product, so that the scores can't grow without limit during training. **Multi-head latent attention** ([DeepSeek-AI, 2024](https://arxiv.org/abs/2405.04434)) caches one short vector for each token (and a small rotated key), from which all heads compute their keys and values.
#
# </details>
#
# **RMSNorm** ([Zhang and Sennrich, 2019](https://arxiv.org/abs/1910.07467)) divides a vector by its root mean square and multiplies each dimension by a learned factor; it has no bias. Layer norm also subtracts the mean. So the RMSNorm of a centred vector is the layer norm of the original, before any learned factor or bias is applied:

# %%
x = torch.randn(5, 32)
centred = x - x.mean(-1, keepdim=True)
assert_close(F.rms_norm(centred, (32,), eps=1e-5), F.layer_norm(x, (32,)))
print("RMSNorm of the centred vector = layer norm")

# %% [markdown]
# **SwiGLU** ([Shazeer, 2020](https://arxiv.org/abs/2002.05202)) is a feed-forward network with a gate. A third matrix, followed by SiLU ($x \cdot \text{sigmoid}(x)$, similar to GELU), computes a factor for every hidden value. Because there are now three matrices instead of two, the hidden width shrinks to two thirds, which keeps the number of parameters the same.


# %%
class GatedFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff)
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.outer(F.silu(self.gate(x)) * self.inner(x))


# %% [markdown]
# **Grouped-query attention** ([Ainslie et al., 2023](https://arxiv.org/abs/2305.13245)) makes the KV cache smaller. (With many or long sequences, reading it takes most of the time of a decoding step.) Several query heads share one key head and one value head. `project` returns these few heads for the cache, in the shape (batch, groups, length, d_head); when decoding, `x` is the single token at `position`. `attend` repeats each for its query heads: with four heads in two groups, the first for heads 0 and 1. With as many groups as query heads, and the same weights, it is `MultiHeadAttention` again. With a single group, it is called **multi-query attention** ([Shazeer, 2019](https://arxiv.org/abs/1911.02150)).


# %%
class GroupedQueryAttention(MultiHeadAttention):
    def __init__(self, d_model, n_heads, n_groups, rotation):
        super().__init__(d_model, n_heads, rotation=rotation)
        self.heads = heads = [n_heads, n_groups, n_groups]
        self.query_key_value = nn.Linear(d_model, sum(heads) * d_model // n_heads)

    def project(self, x, position=None):
        q_k_v = self.query_key_value(x).unflatten(-1, (sum(self.heads), -1))
        q, k, v = q_k_v.transpose(1, 2).split(self.heads, dim=1)
        at = slice(x.size(1)) if position is None else [position]
        q, k = (rotate(t, self.rotation[:, at]) for t in (q, k))
        return q, KeyValue(k, v)  # a cache keeps n_groups heads of each

    def attend(self, q, k, v, mask, is_causal):
        k, v = (t.repeat_interleave(q.size(1) // t.size(1), dim=1) for t in (k, v))
        return super().attend(q, k, v, mask, is_causal)


# %% tags=["remove-cell"]
assert 3 * d * (2 * 4 * d // 3) == 2 * d * (4 * d)
gated, ungated = GatedFeedForward(32, 64), FeedForward(32, 64)
gated.inner.load_state_dict({"weight": torch.zeros(64, 32), "bias": torch.ones(64)})
gated.gate, gated.outer = ungated.inner, ungated.outer
x = torch.randn(2, 5, 32)
assert_close(gated(x), ungated.outer(F.silu(ungated.inner(x))))
rotation = rotary_table(5, 8)
q, (k, v) = torch.randn(1, 4, 6, 8), torch.randn(2, 1, 2, 6, 8)
output, _ = attention(q, *(t.repeat_interleave(2, dim=1) for t in (k, v)))
assert_close(output, F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
full = MultiHeadAttention(32, 4, rotation=rotation)
grouped = GroupedQueryAttention(32, 4, n_groups=4, rotation=rotation)
grouped.load_state_dict(full.state_dict())
assert_close(grouped(x), full(x))
grouped = GroupedQueryAttention(32, 4, n_groups=2, rotation=rotation)
cache = KeyValueCache(2, 1, n_heads=2, max_length=5, d_head=8, like=x)
steps = [grouped(x[:, i : i + 1], cache=cache) for i in range(5)]
assert_close(torch.cat(steps, 1), grouped(x, is_causal=True))

# %% [markdown]
# **All of it together:** put these parts into our `EncoderLayer`, add a causal mask, and you have a layer of [LLaMA](https://arxiv.org/abs/2302.13971). LLaMA's smallest model has 32 layers with $d_\text{model} = 4096$ and 32 heads, each with its own keys and values. Its vocabulary has 32,000 tokens, with separate input and output embeddings, and the hidden width of its feed-forward layers is two thirds of $4\,d_\text{model}$, rounded up to a multiple of 256.


# %%
def modern_layer(d_model, n_heads, d_ff, n_groups, length):
    layer = EncoderLayer(ModelConfig(1, d_model, n_heads, d_ff, norm="pre"))
    rotation = rotary_table(length, d_model // n_heads)
    layer.self_attention = GroupedQueryAttention(
        d_model, n_heads, n_groups, rotation
    )
    layer.feed_forward = GatedFeedForward(d_model, d_ff)
    for residual in layer.residuals:
        residual.norm = nn.RMSNorm(d_model, eps=1e-6)
    for module in layer.modules():
        if isinstance(module, nn.Linear):
            module.bias = None
    return layer


# %%
d_ff = 256 * math.ceil(2 / 3 * 4 * 4096 / 256)
with torch.device("meta"):
    layer = modern_layer(4096, 32, d_ff, n_groups=32, length=2048)
last_norm, embeddings = 4096, 2 * 32_000 * 4096
n_parameters = 32 * size(layer) + last_norm + embeddings
print(f"d_ff {d_ff:,}, parameters {n_parameters:,}")

# %% tags=["remove-cell"]
assert n_parameters == 6_738_415_616
torch.manual_seed(0)
modern = modern_layer(64, 4, 176, n_groups=2, length=16).eval()
x = torch.randn(1, 10, 64)
later = x.clone()
later[:, 7:] = 0
before, after = (modern(y, causal_mask(10)) for y in (x, later))
assert_close(before[:, :7], after[:, :7])  # nothing before a change moves

# %% [markdown]
# The published "7B" model has exactly this many. A parameter count can't notice a wrong rotation or a gate in the wrong place. So the folded cell writes LLaMA's layer a second time, with plain tensors instead of our classes: rotations as products of complex numbers, and a loop over the heads. With random weights, four heads and two groups, both give the same vectors.


# %% tags=["hide-input"]
def llama_formulas(x, w, n_heads, n_groups):
    """A layer for one sequence x, (length, d_model), with the weights w."""

    def rms_norm(x, gain):
        return gain * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    length, d_model = x.shape
    width = d_model // n_heads
    frequency = 10_000 ** (-torch.arange(0, width, 2) / width)
    angle = torch.arange(length)[:, None] * frequency
    rotation = torch.polar(torch.ones_like(angle), angle)  # complex numbers

    def rotated(t):  # (length, width): a pair of dimensions is a complex number
        pairs = torch.complex(t[:, 0::2], t[:, 1::2])
        return torch.view_as_real(pairs * rotation).flatten(1)

    h, outputs = rms_norm(x, w["norm 1"]), []
    for head in range(n_heads):
        group = head * n_groups // n_heads
        q = rotated(h @ w["q"][head * width : (head + 1) * width].T)
        its_group = slice(group * width, (group + 1) * width)
        k, v = rotated(h @ w["k"][its_group].T), h @ w["v"][its_group].T
        scores = q @ k.T / width**0.5 + torch.full(
            (length, length), -torch.inf
        ).triu(1)
        outputs.append(scores.softmax(-1) @ v)
    x = x + torch.cat(outputs, -1) @ w["output"].T
    h = rms_norm(x, w["norm 2"])
    gate = h @ w["gate"].T
    return x + (gate * gate.sigmoid() * (h @ w["inner"].T)) @ w["outer"].T


def weights_of(layer, n_heads, n_groups):
    attention, network = layer.self_attention, layer.feed_forward
    q_k_v = attention.query_key_value.weight
    width = len(q_k_v) // (n_heads + 2 * n_groups)
    parts = q_k_v.split([width * n for n in (n_heads, n_groups, n_groups)])
    return dict(zip("qkv", parts, strict=True)) | {
        "output": attention.output.weight,
        "gate": network.gate.weight,
        "inner": network.inner.weight,
        "outer": network.outer.weight,
        "norm 1": layer.residuals[0].norm.weight,
        "norm 2": layer.residuals[1].norm.weight,
    }


torch.manual_seed(0)
modern = (
    modern_layer(64, 4, 176, n_groups=2, length=16).eval().requires_grad_(False)
)
for p in modern.parameters():
    p.uniform_(-0.5, 0.5)
x = torch.randn(1, 10, 64)
expected = llama_formulas(x[0], weights_of(modern, 4, 2), n_heads=4, n_groups=2)
assert_close(modern(x, causal_mask(10))[0], expected, atol=1e-4, rtol=1e-4)
print("our layer = LLaMA's formulas")

# %% [markdown]
# How much do groups save? Llama 2 with 70 billion parameters has 80 layers and 64 query heads of 128 dimensions, in 8 groups. Its context is at most 4,096 tokens. For one text of that length, the KV cache in 16-bit numbers takes:

# %%
for n_groups in (64, 8, 1):
    n_bytes = 2 * 80 * n_groups * 128 * 4096 * 2  # keys and values
    print(f"groups: {n_groups:2}   {n_bytes / 1e9:5.2f} GB")

# %% [markdown]
# ## Public models in our classes
#
# Most trained models are published on the [Hugging Face Hub](https://huggingface.co/models) and used with the library `transformers`.
#
# <details><summary>Our names, and those of transformers</summary>
#
# | here | in `transformers` |
# |---|---|
# | `Bert` | `BertForMaskedLM`, or `AutoModelForMaskedLM` |
# | `Classifier` | `BertForSequenceClassification` |
# | `Gpt` | `GPT2LMHeadModel`, or `AutoModelForCausalLM` |
# | `Transformer` with T5's changes | `T5ForConditionalGeneration`, or `AutoModelForSeq2SeqLM` |
# | `Vit` | `ViTForImageClassification` |
# | `Transformer`, for translation | `MarianMTModel` |
# | `d_model`, `n_layers`, `n_heads`, `d_ff` | `hidden_size`, `num_hidden_layers`, `num_attention_heads`, `intermediate_size` (in BERT and LLaMA) |
# | the padding mask | `attention_mask`, 1 where there is a token |
# | `memory` | `encoder_outputs.last_hidden_state` |
# | the decoder's input | `decoder_input_ids` |
# | `greedy_search`, `beam_search`, `sample` | `generate(...)` with `num_beams`, `do_sample` |
#
# </details>
#
# These lines download and run a public BERT and a public GPT-2, together about a gigabyte:
#
# ```python
# from transformers import pipeline
#
# fill_mask = pipeline("fill-mask", model="google-bert/bert-base-uncased")
# print(fill_mask("The dog [MASK] in the garden.", top_k=3))
# generate = pipeline("text-generation", model="openai-community/gpt2")
# print(generate("The dog", max_new_tokens=20))
# ```
#
# **Marian** is the architecture of the *opus-mt* models for many pairs of languages. It is the paper's model except for four details, which are folded below, so its weights fit into our classes; `load_marian` only has to translate their names. These lines download the model [opus-mt-en-de](https://huggingface.co/Helsinki-NLP/opus-mt-en-de) and translate a sentence with it:
#
# ```python
# from huggingface_hub import snapshot_download
# from transformers import MarianTokenizer
# from transformer.decoding import beam_search
# from transformer.huggingface import load_marian
#
# folder = snapshot_download("Helsinki-NLP/opus-mt-en-de")
# tokenizer = MarianTokenizer.from_pretrained(folder)
# marian = load_marian(folder)
# source = tokenizer(["The dog sleeps."], return_tensors="pt").input_ids
# ((best,),) = beam_search(marian, marian.from_marian_ids(source))
# print(tokenizer.decode(marian.marian_ids[best.tokens]))
# ```
#
# <details><summary>The four details in which Marian differs</summary>
#
# SiLU instead of ReLU, positional encodings with all sines before all cosines, a bias for the logits, and different ids for the special tokens.
#
# </details>
#
# <details><summary>And from our classes to theirs?</summary>
#
# `to_marian` makes a `MarianMTModel` from one of our models; its `save_pretrained` writes files that others can load without our classes.
#
# </details>
#
# Neither block ran when this book was built, because the models couldn't be downloaded. What did run is a check with small files. The folded cell writes the two files of a tiny Marian model, with random weights under the library's names, and loads them with `load_marian`. It does the same for a LLaMA of one `modern_layer`. Below, *theirs* are five logits that `transformers` 5.24 computed from these files; we recorded them, so that the comparison doesn't need the library.

# %% tags=["hide-input"]
recorded = {
    "Marian": [0.633, 2.144, -2.053, 0.858, -0.735],
    "LLaMA": [-1.677, -2.285, -0.185, 0.748, 1.220],
}
marian_config = {
    "model_type": "marian",
    "vocab_size": 20,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": 32,
    "pad_token_id": 19,
    "eos_token_id": 0,
    "decoder_start_token_id": 19,
}
llama_config = {
    "model_type": "llama",
    "vocab_size": 20,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
}
generator = torch.Generator().manual_seed(0)


def with_bias(name, outputs, inputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


shapes = {"model.shared.weight": (20, 16), "final_logits_bias": (1, 20)}
for half, kinds in (
    ("encoder", ["self_attn"]),
    ("decoder", ["self_attn", "encoder_attn"]),
):
    prefix = f"model.{half}.layers.0"
    for kind in kinds:
        for matrix in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes |= with_bias(f"{prefix}.{kind}.{matrix}", 16, 16)
    shapes |= with_bias(f"{prefix}.fc1", 32, 16) | with_bias(
        f"{prefix}.fc2", 16, 32
    )
    for norm in (*(f"{kind}_layer_norm" for kind in kinds), "final_layer_norm"):
        shapes |= {f"{prefix}.{norm}.{name}": (16,) for name in ("weight", "bias")}
prefix = "model.layers.0"
llama_shapes = {
    "model.embed_tokens.weight": (20, 16),
    f"{prefix}.input_layernorm.weight": (16,),
    f"{prefix}.self_attn.q_proj.weight": (16, 16),
    f"{prefix}.self_attn.k_proj.weight": (8, 16),
    f"{prefix}.self_attn.v_proj.weight": (8, 16),
    f"{prefix}.self_attn.o_proj.weight": (16, 16),
    f"{prefix}.post_attention_layernorm.weight": (16,),
    f"{prefix}.mlp.gate_proj.weight": (32, 16),
    f"{prefix}.mlp.up_proj.weight": (32, 16),
    f"{prefix}.mlp.down_proj.weight": (16, 32),
    "model.norm.weight": (16,),
    "lm_head.weight": (20, 16),
}


def write_model(folder, config, shapes):
    """Write the two files of a model with random weights; return the weights."""
    weights = {
        name: 2 * torch.rand(shape, generator=generator) - 1
        for name, shape in shapes.items()
    }
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    file = folder / "model.safetensors"
    safetensors.torch.save_file(weights, file, metadata={"format": "pt"})
    return weights


def marian_logits(marian, source, target):
    decoder_input = marian.from_marian_ids(target)
    decoder_input[:, 0] = BOS  # Marian's decoder starts with pad, ours with bos
    logits = marian(marian.from_marian_ids(source), decoder_input)
    return logits[0, -1, marian.marian_ids.argsort()[:20]]  # in their order


def llama_logits(weights, ids):
    embedding, norm_1, q, k, v, output, norm_2, *network, norm, head = (
        weights.values()
    )

    def reordered(weight):
        """Theirs rotates the halves of a head together, ours neighbours."""
        return weight.unflatten(0, (-1, 2, 2)).transpose(1, 2).flatten(0, 2)

    layer = modern_layer(16, 4, 32, n_groups=2, length=8).eval()
    inner = layer.feed_forward
    for part, weight in (
        (layer.self_attention.query_key_value, [reordered(q), reordered(k), v]),
        (layer.self_attention.output, [output]),
        *zip(
            (inner.gate, inner.inner, inner.outer),
            [[w] for w in network],
            strict=True,
        ),
        (layer.residuals[0].norm, [norm_1]),
        (layer.residuals[1].norm, [norm_2]),
    ):
        part.weight.data = torch.cat(weight)
    x = layer(embedding[ids], causal_mask(ids.size(1)))
    return (F.rms_norm(x, (16,), norm, eps=1e-6) @ head.T)[0, -1]


source, target = torch.tensor([[3, 7, 5, 12, 0]]), torch.tensor([[19, 4, 9, 6]])
folders = {}
for name in recorded:
    folders[name] = tempfile.TemporaryDirectory()
folder = Path(folders["Marian"].name)
write_model(folder, marian_config, shapes)
marian = load_marian(folder)
with torch.no_grad():
    ours = {"Marian": marian_logits(marian, source, target)}
    weights = write_model(Path(folders["LLaMA"].name), llama_config, llama_shapes)
    ours["LLaMA"] = llama_logits(weights, source)
our_name = "encoder.0.feed_forward.inner.weight"
print("A weight of Marian:")
print(f"  ours    {our_name}")
print(f"  theirs  {rename(our_name, MARIAN_RENAMES)}")
for name, theirs in recorded.items():
    print(f"\n{name}:")
    for whose, logits in (("theirs", theirs), ("ours", ours[name][:5].tolist())):
        print(f"  {whose:6}", *(f"{logit:7.3f}" for logit in logits))

# %% tags=["remove-cell"]
for name, theirs in recorded.items():
    assert_close(ours[name][:5], torch.tensor(theirs), atol=1e-3, rtol=0)
assert rename(our_name, MARIAN_RENAMES) in shapes
try:
    if "google.colab" in sys.modules:  # where the library may have another version
        raise ImportError
    from transformers import LlamaForCausalLM, MarianMTModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    theirs = MarianMTModel.from_pretrained(folders["Marian"].name).eval()
    with torch.no_grad():
        logits = theirs(input_ids=source, decoder_input_ids=target).logits
        assert_close(ours["Marian"], logits[0, -1], atol=1e-4, rtol=1e-4)
    theirs = LlamaForCausalLM.from_pretrained(folders["LLaMA"].name).eval()
    with torch.no_grad():
        logits = theirs(input_ids=source).logits
        assert_close(ours["LLaMA"], logits[0, -1], atol=1e-4, rtol=1e-4)
except ImportError:
    pass

# %% [markdown]
# <details><summary>One trap: two conventions for rotary positions</summary>
#
# Our `rotate` rotates neighbouring dimensions together, 0 with 1, 2 with 3, and so on. The library's LLaMA rotates dimension $i$ of a head with dimension $i + d_k/2$. Before its weights fit into our class, the rows of the matrices for queries and keys have to be put in another order. A wrong order gives no error, only wrong logits.
#
# </details>

# %% [markdown]
# ## What goes wrong in practice
#
# **A loss that looks too good.** BERT's loss is computed only at the chosen positions. If you forget the index `[chosen]`, the loss covers all positions, and at most of them the input shows the answer. Here is our BERT on the unseen sentences, both ways:

# %% tags=["hide-input"]
masked, chosen = mask_tokens(unseen)
logits, real = bert(masked), unseen > MASK
for name, where in (("all positions", real), ("chosen positions", chosen)):
    print(f"{name:17} {F.cross_entropy(logits[where], unseen[where]):.2f}")

# %% tags=["remove-cell"]
assert F.cross_entropy(logits[real], unseen[real]) < F.cross_entropy(
    logits[chosen], unseen[chosen]
)

# %% [markdown]
# **A forgotten padding mask.** Our GPT needs none: padding comes last, so the causal mask hides it from all other tokens, and the loss ignores it. BERT sees both sides. Without the mask, its prediction for a sentence depends on how much padding the rest of the batch makes necessary:

# %% tags=["hide-input"]
alone = to_ids([["[MASK]", "Vater", "ist", "alt", "."]])
padded = F.pad(alone, (0, 8))
careless = deepcopy(bert)
careless.mask = lambda ids: torch.ones(1, 1, 1, 1, dtype=torch.bool)
without_mask = careless(padded)
for name, logits in (("with mask", bert(padded)), ("without", without_mask)):
    change = (logits[0, 1] - bert(alone)[0, 1]).abs().max()
    print(f"{name:10} logits change by up to {change:.3f}")

# %% tags=["remove-cell"]
assert change > 0.01
assert_close(gpt(padded)[:, : alone.size(1)], gpt(alone))

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You replace the causal mask of a trained GPT with one that is True everywhere. Do you have a BERT?**
#
# <details><summary>A. Yes, because only the mask differs</summary>
#
# No. The layers are the same now, but the weights were trained to predict the *next* token, and never saw a key to the right of the query.
#
# </details>
# <details><summary>B. No, because BERT's layers have other weight matrices</summary>
#
# No. The layers have the same matrices, as the first section shows.
#
# </details>
# <details><summary>C. You have BERT's layers, but they must be trained again, with masked tokens</summary>
#
# **Right.** With such a mask, the next token could simply be read one position to the right, so the objective has to change together with the mask.
#
# </details>
# <details><summary>D. No, because cross-attention is missing</summary>
#
# No. Neither BERT nor GPT has any cross-attention.
#
# </details>
#
# **2. Why does BERT leave one in ten of the chosen tokens as they are?**
#
# <details><summary>A. To make the task easier in the beginning</summary>
#
# No. It is one in ten from the first step to the last.
#
# </details>
# <details><summary>B. So that the vectors of tokens that aren't masked are trained, too</summary>
#
# **Right.** In the tasks that it is fine-tuned for, no token is masked. Because of these tokens and the random ones, the model can't tell which visible tokens it will be asked about, so it has to compute a good vector at every position.
#
# </details>
# <details><summary>C. To save time, since they need no prediction</summary>
#
# No. The loss includes them like all other chosen tokens.
#
# </details>
# <details><summary>D. Because the tokenizer cannot mask them</summary>
#
# No. They are drawn at random, so any token can be among them.
#
# </details>
#
# **3. In a ViT whose position vectors are all zero, you shuffle the patches of an image. What happens to the prediction?**
#
# <details><summary>A. It becomes random</summary>
#
# No. In eval mode, nothing in the model is random.
#
# </details>
# <details><summary>B. It changes, because neighbouring patches are no longer neighbours</summary>
#
# No. That would be true of a convolution over patches. Attention doesn't know which patches are neighbours.
#
# </details>
# <details><summary>C. There is an error, because the class token has lost its position</summary>
#
# No. The class token is put in front after the shuffle, and it has its own vector.
#
# </details>
# <details><summary>D. It stays the same</summary>
#
# **Right.** Without positions, attention treats the patches as a set, just as it does with words. Experiment 4 below tries it.
#
# </details>
#
# **4. Compare two ways of processing 1,000 tokens: all of them in one layer of a GPT, or 500 as the source in an encoder layer and 500 as the target in a decoder layer. Which computes fewer attention scores, if those that a causal mask hides don't count?**
#
# <details><summary>Answer</summary>
#
# GPT: $1000^2 / 2 = 500{,}000$. The encoder computes $500^2$ scores, cross-attention $500^2$, and the decoder $500^2 / 2$, together $625{,}000$. If masked scores are computed too, it is $1{,}000{,}000$ against $750{,}000$, and the encoder–decoder wins. Scores are only a part of the computation; §3.2 of the T5 paper compares both kinds of model as a whole.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Six blanks: BERT's masked tokens, one mask for the whole family, GPT's loss, a classifier on top of GPT, a few-shot prompt, and the weights of a public model. Each has a hint, and a check that tells you which mistake you made.
#
# - In Colab, where the last cell grades your answers:
#   [15_transformer_family](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/15_transformer_family.ipynb).
#   On GitHub: [15_transformer_family.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/15_transformer_family.ipynb).
# - On your machine, open `exercises/15_transformer_family.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade transformer_family
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Six experiments with the models of this chapter</summary>
#
# 1. **Masks only.** Train a second BERT that has `[MASK]` at every chosen position. Then give both models a sentence in which *no* token is masked but one is wrong. How much probability do they give to the correct word there?
# 2. **Other classifiers.** In `Classifier`, take the mean of the outputs of all tokens that aren't padding, instead of the one at `[CLS]`. And try one without any labels: mask the article, and call a sentence changed if our BERT prefers another one. How accurate is each on the test set?
# 3. **A frozen BERT.** In `fine_tune`, train the new linear layer only, and leave the encoder as it is. How does that change the accuracy with 64, 256 and 1,024 labels?
# 4. **A set of patches.** Set `vit.stack.positions` to zero, shuffle the patches, and assert that the prediction stays the same. Then train such a model: which of the four shapes does it confuse?
# 5. **Positions without learning.** Give `BiasedAttention` a bias of −0.5 times the distance. That is the idea of ALiBi ([Press et al., 2022](https://arxiv.org/abs/2108.12409)). What can T5's learned numbers express that it can't?
# 6. **The next size.** Use `modern_layer` on the meta device for LLaMA's 13B: 40 layers with $d_\text{model} = 5120$ and 40 heads. How many parameters does it have, and how large is the KV cache for 2,048 tokens with 40, 8 and 1 groups?
#
# </details>

# %% [markdown]
# ## Going further
#
# - **BERT:** [Devlin et al. (2019)](https://aclanthology.org/N19-1423/), §3.1 for the masking, and the appendix for the reasons.
# - **T5:** §3 of [Raffel et al. (2020)](https://arxiv.org/abs/1910.10683) compares architectures, masks and objectives under equal conditions.
# - **Fine-tuning with few new parameters:** LoRA ([Hu et al., 2022](https://arxiv.org/abs/2106.09685)) leaves the weights alone and trains a low-rank correction to each matrix.
# - **Next:** [Making it fast on a GPU](16_gpu_performance.ipynb).
