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
# # From here to BERT, GPT, T5 and ViT: pre-training and fine-tuning
#
# **You will be able to**
#
# - say of any model of the family which mask it has, which half it keeps and what it is asked;
# - turn our Transformer into a BERT, a GPT, a T5 or a ViT by changing a few lines, and train three of them in seconds;
# - count the parameters of BERT, GPT-2, ViT and LLaMA with a pencil, to the last one;
# - read a current language model as the paper's layer with five parts exchanged.
#
# **About 45 minutes.** It builds on [Attention](02_attention.ipynb), [Masking](04_masking.ipynb), [Positional encoding](05_positional_encoding.ipynb) and
# [The full model](07_full_model.ipynb).

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
import re
from collections import Counter
from itertools import chain

import torch
import torch.nn.functional as F
from tabulate import tabulate
from torch import nn
from torch.testing import assert_close

torch.set_printoptions(precision=2, sci_mode=False)

# %%
from transformer.attention import (
    KeyValue,
    MultiHeadAttention,
    attention,
    fused_attention,
)
from transformer.config import ModelConfig
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.layers import EncoderLayer, FeedForward
from transformer.masks import causal_mask, padding_mask
from transformer.model import Transformer
from transformer.plots.style import Picture, Row
from transformer.positions import rotary_table, rotate

# %% [markdown]
# ## The question
#
# The machine of this course was built to translate. Its parts now write programs, fold proteins and look at photographs, under names that sound like
# many inventions. **How much of them is new?**
#
# We take four: BERT, which reads; GPT, which writes; T5, which does any task as if it were translation; ViT, which looks. Our claim is that three choices make
# the difference: **who may look at whom**, **which half is kept**, and **what is asked in training**. A claim can be checked: if it is true, each of the four must come out of our own
# modules with a few lines changed. So we do that.

# %% [markdown]
# ## By hand
#
# Take four words whose values are 1, 2, 3 and 4, and take the most indifferent attention there is: all queries and keys zero. All scores are then equal, and each word becomes
# the mean of what it **may** look at. Now change nothing but the mask.
#
# - **BERT:** everybody looks at everybody. Each word becomes $(1 + 2 + 3 + 4) / 4 = 2.5$.
# - **GPT:** nobody looks ahead. The words become $1$, $(1 + 2) / 2 = 1.5$, $2$ and $2.5$.
# - **T5**, like the paper's Transformer, has read two words and is now writing two. Those that it reads see each other: $1.5$ and $1.5$. Those that it writes see all
#   that was read and what is written so far: $2$ and $2.5$.

# %%
values = torch.tensor([[1.0], [2], [3], [4]])
same = torch.zeros(4, 1)  # every query and every key
everybody = torch.ones(4, 4, dtype=torch.bool)
no_future = causal_mask(4)[0, 0]
prefix = no_future | (torch.arange(4) < 2)  # the first two keys are open to all

for name, mask in (("BERT", everybody), ("GPT", no_future), ("T5", prefix)):
    print(f"{name:5}", attention(same, same, values, mask)[0].flatten())

# %%
blend = attention(same, same, values, prefix)[0].flatten()
assert_close(blend, torch.tensor([1.5, 1.5, 2, 2.5]))

# %% [markdown]
# The last word gets 2.5 in all three: at the end of the text there is no future to hide. The difference is in the words *before* the end. A GPT computes the first word once
# and never takes it back, whatever follows. In a BERT each word waits for the last one. That is why a GPT can write, a word at a time, and why a BERT can say of each word what
# only the end of the sentence tells.

# %% [markdown]
# ## The picture
#
# The family at one glance. A row asks, a column is asked, a filled cell means *may look*.

# %% tags=["hide-input"]
from matplotlib.figure import Figure

from transformer.plots import style
from transformer.plots.masks import draw_mask

all_five = torch.ones(5, 5, dtype=torch.bool)
five_no_future = causal_mask(5)[0, 0]
five_prefix = five_no_future | (torch.arange(5) < 2)
family = {
    "BERT: encoder\nfill the blank": ("der Hund <mask> sehr tief", all_five),
    "GPT: decoder\nsay the next word": (
        "<bos> der Hund schläft tief",
        five_no_future,
    ),
    "T5: both halves\nread, then write": ("the dog <bos> der Hund", five_prefix),
    "ViT: encoder\nname the picture": ("class 0 1 2 3", all_five),
}
with style.in_style():
    figure = Figure(figsize=(4.8, 5.4))
    panels = figure.subplots(2, 2, gridspec_kw={"wspace": 0.6, "hspace": 0.85})
    for axes, (title, (text, mask)) in zip(
        panels.flat, family.items(), strict=True
    ):
        draw_mask(axes, mask, text.split(), text.split())
        axes.set_xlabel(title)
        axes.xaxis.set_label_position("bottom")
    for line in (panels[1, 0].axhline, panels[1, 0].axvline):
        line(2, color=style.INK, linewidth=3)
Picture(
    figure,
    alt=(
        "Four squares of five by five cells. BERT, the encoder, fills the blank: all "
        "cells are filled. GPT, the decoder, says the next word: a lower triangle. "
        "T5, both halves, reads and then writes: the columns of two English words "
        "are filled, of three German ones only the lower triangle; thick lines part "
        "the two languages. ViT, the encoder, names the picture: a class token and "
        "four patches, all cells filled."
    ),
)

# %% [markdown]
# | model | keeps | a word sees | is asked | graded answers in a text of $n$ words |
# |---|---|---|---|---|
# | BERT {cite}`devlin2019` | encoder | all words | the words that were blanked | $0.15\,n$ |
# | GPT {cite}`radford2018` | decoder, no cross-attention | the words before it | the next word, everywhere | $n$ |
# | T5 {cite}`raffel2020` | both | as in the paper | the pieces that were cut out | about $0.15\,n$ |
# | ViT {cite}`dosovitskiy2021` | encoder | all patches | what is on the picture | 1 |
#
# The last column is what a text teaches. From the same text GPT gets about seven times as many questions as BERT; in return, BERT's have two sides to look at.
#
# Is the third square honest? The paper's model has three attentions (§3.2.3), not one square. But write source and target one behind the other, and put each of its three masks
# where it belongs:

# %%
source, target = torch.tensor([[5, 6]]), torch.tensor([[BOS, 7, 8]])
encoder = padding_mask(source, PAD)[0, 0].expand(2, 2)
cross = padding_mask(source, PAD)[0, 0].expand(3, 2)
decoder = causal_mask(3)[0, 0]
never = torch.zeros(2, 3, dtype=torch.bool)  # the encoder knows no target
square = torch.cat([torch.cat([encoder, never], 1), torch.cat([cross, decoder], 1)])
assert torch.equal(square, five_prefix)
print(square.int())

# %% [markdown]
# It is the square of *one* causal model that may look freely at a beginning, its prefix. The T5 paper compares just these three squares (§3.2 of {cite}`raffel2020`). What is left of the difference
# between an encoder–decoder and such a model: two sets of weights instead of one, two softmaxes instead of one for both languages, and a memory that comes from the encoder's last layer only. A GPT with a prompt gives up one thing more: it reads the prompt, too, under the triangle.

# %% [markdown]
# ## The code
#
# Can our class `Transformer` be a BERT and a GPT as it stands? Here is a small one, and two sentences. A stack of layers is a loop:

# %%
torch.manual_seed(0)
small = ModelConfig(20, 32, 4, 64, n_layers=2, norm="pre", positions="learned")
model = Transformer(small).eval()
ids = torch.tensor([[BOS, 5, 6, 7], [BOS, 9, 4, 8]])


def run(layers, x, mask):
    for layer in layers:
        x = layer(x, mask)
    return x


# %% [markdown]
# **BERT is `encode`.** It stops where the decoder would begin, and scores each place with the embedding matrix. We give the stack a mask that is True everywhere:

# %%
open_mask = torch.ones(1, 1, 1, 1, dtype=torch.bool)
x = model.embed(ids, model.source_embedding)
bert_like = model.encoder_norm(run(model.encoder, x, open_mask))
assert_close(bert_like, model.encode(ids)[0])
model.logits(bert_like).shape  # (batch, length, vocab_size)

# %% [markdown]
# **GPT is the whole model with nobody to listen to.** Give it a source that is nothing but padding. A query that may look at nothing gets zeros ([Masking](04_masking.ipynb) has the cell that
# proves it), the output matrix makes of zeros its bias, which is zero at the start, and with pre-norm the residual adds that zero to what was there. Cross-attention is gone, and no line
# was deleted.
#
# And then what is left of a *decoder* layer? Self-attention, feed-forward, two residuals. We put these very modules into an `EncoderLayer`:


# %%
def without_memory(layer):
    alone = EncoderLayer(small).eval()
    alone.self_attention = layer.self_attention
    alone.feed_forward = layer.feed_forward
    alone.residuals[0], alone.residuals[1] = layer.residuals[0], layer.residuals[2]
    return alone


nothing = torch.full((len(ids), 1), PAD)  # (batch, 1): a source of padding
layers = [without_memory(layer) for layer in model.decoder]
x = model.embed(ids, model.target_embedding)
gpt_like = model.decoder_norm(run(layers, x, causal_mask(4)))
assert_close(model.logits(gpt_like), model(nothing, ids))

# %% [markdown]
# So the family's most repeated name misleads a little. **A "decoder-only" model is made of encoder layers.** What makes it a decoder is a triangle of False. One class, one loop; BERT and GPT are two
# arguments to it.
#
# They share one more change, a small one: GELU in place of ReLU {cite}`hendrycks2016`. It is $x$ times the probability that a normal number lies below $x$: smooth, and for large $|x|$ the same.


# %%
class GeluFeedForward(FeedForward):
    def forward(self, x):
        return self.outer(self.dropout(F.gelu(self.inner(x))))


def use_gelu(layers, config):
    for layer in layers:
        layer.feed_forward = GeluFeedForward(config.d_model, config.d_ff)


x = torch.tensor([-1.0, 0.5, 2])
assert_close(F.gelu(x), x * torch.distributions.Normal(0.0, 1.0).cdf(x))
assert_close(F.gelu(6 * x), F.relu(6 * x), atol=0.01, rtol=0)

# %% [markdown]
# ## BERT: fill the blank
#
# German has a question for which BERT might have been invented: *der*, *die* or *das*? The article comes first, and the noun that decides comes after it. So German is what our models shall read: short sentences of the course's
# [pocket corpus](11_training.ipynb), those whose words are all among its 600 most frequent. 300 of them are kept aside.

# %%
from transformer.data import pocket

texts = [re.findall(r"\w+|[.,?]", p.target) for p in pocket.pairs("train", 20_000)]
frequent = [word for word, _ in Counter(chain(*texts)).most_common(600)]
words = ["<pad>", "<bos>", "<eos>", "<mask>", *frequent]
MASK, known = 3, set(frequent)
texts = [t for t in dict.fromkeys(map(tuple, texts)) if known.issuperset(t)]
print(f"{len(texts)} different sentences, such as:", *texts[4])

# %%
number = {word: i for i, word in enumerate(words)}


def to_ids(texts):
    rows = [[BOS, *(number[w] for w in text), EOS] for text in texts]
    rows = [torch.tensor(row) for row in rows]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)  # (batch, length)


unseen, train_ids = to_ids(texts[:300]), to_ids(texts[300:])

# %% [markdown]
# **The question.** Of each sentence 15 % of the words are *chosen*, and only there will the answer be graded. But what stands at a chosen place? In 80 of 100 cases the blank, in 10 some random word, in 10 the word itself.
#
# Why not always the blank? Because in use there are no blanks. A model that is only ever asked at `<mask>` need not have an opinion about any other word. So it is sometimes asked where a word stands, and it
# cannot know whether the word is the right one: it has to be ready everywhere.

# %%
draw = torch.Generator().manual_seed(0)


def blank(ids):
    """What BERT reads, and where it is asked."""
    chosen = (torch.rand(ids.shape, generator=draw) < 0.15) & (ids > MASK)
    dice = torch.rand(ids.shape, generator=draw)
    other = torch.randint(MASK + 1, len(words), ids.shape, generator=draw)
    read = torch.where(chosen & (dice < 0.8), MASK, ids)
    read = torch.where(chosen & (dice >= 0.8) & (dice < 0.9), other, read)
    return read, chosen


# %%
read, chosen = blank(train_ids)
real = train_ids > MASK
print(f"chosen      {chosen.sum() / real.sum():.3f} of all words; of these")
print(f"blanked     {(read == MASK).sum() / chosen.sum():.3f}")
others = (read != train_ids) & (read != MASK)
print(f"other word  {others.sum() / chosen.sum():.3f}")
print(f"as it was   {(chosen & (read == train_ids)).sum() / chosen.sum():.3f}")
assert torch.equal(read[~chosen], train_ids[~chosen])
assert abs((read == MASK).sum() / chosen.sum() - 0.8) < 0.02

# %% [markdown]
# **The model**, as a list of differences. No decoder; GELU; a learned position; and a *segment*: BERT reads two texts at once, a question and a passage for example, and one of two learned vectors says which of the two a
# word belongs to. (Learned positions start small in our package. BERT starts them as large as the words; we start them at about the size of the sinusoids that they replace. And BERT has the paper's post-norm; ours has pre-norm, which forgives a short training.)


# %%
class Bert(Transformer):
    def __init__(self, config):
        super().__init__(config)
        del self.decoder, self.decoder_norm
        use_gelu(self.encoder, config)
        self.segments = nn.Embedding(2, config.d_model)
        nn.init.normal_(self.segments.weight, std=0.02)
        nn.init.normal_(self.positions, std=0.5)

    def forward(self, ids, segment=0):
        x = self.embed(ids, self.source_embedding) + self.segments.weight[segment]
        x = run(self.encoder, x, padding_mask(ids, PAD))
        return self.logits(self.encoder_norm(x))  # (batch, length, vocab_size)


# %% [markdown]
# **Training** needs a loop, and the loop does not care which model it trains. A batch is 64 sentences of similar length; the rate climbs for 50 steps and falls over the second half.

# %%
by_length = train_ids[(train_ids != PAD).sum(1).argsort()]


def some_sentences(count=64):
    first = torch.randint(len(by_length) - count, (), generator=draw)
    ids = by_length[first : first + count]
    return ids[:, : (ids != PAD).sum(1).max()]


# %%
def train(model, loss_of, batch, steps, rate=0.003):
    weights = [w for w in model.parameters() if w.requires_grad]
    optimizer = torch.optim.Adam(weights, betas=(0.9, 0.98))
    for step in range(steps):
        now = rate * min((step + 1) / 50, 1, 2 - 2 * step / steps)
        optimizer.param_groups[0]["lr"] = now
        loss = loss_of(model, batch())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# %%
def blank_loss(model, ids):
    read, chosen = blank(ids)
    return F.cross_entropy(model(read)[chosen], ids[chosen])


torch.manual_seed(0)
shape = ModelConfig(
    len(words), 64, 4, 256, n_layers=2, dropout=0.0, norm="pre", positions="learned"
)
bert = Bert(shape)
train(bert, blank_loss, some_sentences, steps=1000)
bert = bert.eval().requires_grad_(False)

# %% [markdown]
# Some seconds of reading, and then the blanks:


# %%
def fill(text, count=3):
    tokens = [word.replace("___", "<mask>") for word in text.split()]
    ids = torch.tensor([[BOS, *(number[word] for word in tokens), EOS]])
    place = ids[0].tolist().index(MASK)
    shares, best = bert(ids)[0, place].softmax(-1).topk(count)
    for word, share in zip(best.tolist(), shares.tolist(), strict=True):
        yield f"{words[word]} {share:.2f}"


# %%
for text in (
    "___ Vater ist alt .",
    "___ Frau ist alt .",
    "Der ___ ist alt .",
    "Die ___ ist alt .",
    "Wir ___ alt .",
):
    print(f"{text:22}", "   ".join(fill(text)))

# %% [markdown]
# It was told no rule of grammar. That *Vater* wants *der* and *Frau* wants *die* it found out because it could not fill the blanks otherwise. On all unseen sentences that begin with one of the three articles we blank the article and look which of
# the three the model prefers:

# %%
articles = torch.tensor([number[word] for word in ("Der", "Die", "Das")])
asked = unseen[torch.isin(unseen[:, 1], articles)]
right = asked[:, 1:2] == articles  # (sentences, 3), one True a row
blanked = asked.clone()
blanked[:, 1] = MASK
answers = bert(blanked)[:, 1, articles].argmax(-1)
bert_share = right[range(len(asked)), answers].float().mean().item()
majority = right.float().mean(0).max().item()
print(f"{len(asked)} sentences   always the same word {majority:.0%}", end="   ")
print(f"BERT {bert_share:.0%}")
assert bert_share > majority + 0.2

# %% [markdown]
# How does a model that has only the left side do on this? It reads `<bos>`, and `<bos>` is the same in all of them. We need not train one to know that it must say the same each time, but we are about to train one anyway.
#
# BERT had a second question in training: do these two sentences follow each other? That is what the segments were for. Later work left the question out and lost nothing (§4.2 of {cite}`liu2019`), which is why you meet models without segments. (Ours has them and always says 0.)

# %% [markdown]
# ## GPT: say the next word
#
# The whole model, a source of padding, and cross-attention frozen so that its bias stays the zero that we need. The loss is the one of [Training](11_training.ipynb): the input is the sentence without its end, the answer the
# sentence without its beginning.


# %%
def nobody(count):
    return torch.full((count, 1), PAD)  # the source that says nothing


def next_word_loss(model, ids):
    scores, wanted = model(nobody(len(ids)), ids[:, :-1]), ids[:, 1:]
    return F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=PAD)


# %%
torch.manual_seed(0)
gpt = Transformer(shape)
use_gelu(gpt.decoder, shape)
nn.init.normal_(gpt.positions, std=0.5)
for layer in gpt.decoder:
    layer.cross_attention.requires_grad_(False)
train(gpt, next_word_loss, some_sentences, steps=700)
gpt = gpt.eval().requires_grad_(False)

# %% [markdown]
# First the article again. GPT's answer to an empty page, for each of the sentences:

# %%
first = gpt(nobody(len(asked)), asked[:, :1])[:, 0]  # after <bos> only
answers = first[:, articles].argmax(-1)
gpt_share = right[range(len(asked)), answers].float().mean().item()
assert_close(first, first[:1].expand_as(first))  # the same in every sentence
assert gpt_share <= majority < bert_share
print(f"GPT {gpt_share:.0%}   BERT {bert_share:.0%}")

# %% [markdown]
# It has one favourite, the one of the three that begins the most of the sentences that it read, and says it to all. Same language, same layers, same width. What separates them is the upper triangle. No training would help GPT here: the word that decides has not been written yet.
#
# So has it not learned the rule? **Ask it differently.** Put each of the three articles in front, and take the sentence that it finds most probable as a whole. Now the noun has its say: behind the wrong article it comes as a surprise.


# %%
def log_probability(ids):
    shares = gpt(nobody(len(ids)), ids[:, :-1]).log_softmax(-1)
    said = shares.gather(2, ids[:, 1:, None])[..., 0]  # (sentences, words)
    return said.masked_fill(ids[:, 1:] == PAD, 0).sum(1)


tried = []
for article in articles:
    guess = asked.clone()
    guess[:, 1] = article
    tried.append(log_probability(guess))
answers = torch.stack(tried, 1).argmax(-1)
tried_share = right[range(len(asked)), answers].float().mean().item()
print(f"GPT, all three tried: {tried_share:.0%}")
assert tried_share > bert_share > gpt_share

# %% [markdown]
# It knows the rule, and better than our BERT does, after fewer steps on the same sentences. This is the last column of the table: each sentence asked it several times as much.
#
# But it knows only *afterwards*. What BERT says in one look costs GPT a reading of the sentence for each word that might fit: here three, in general the whole vocabulary.
#
# But a GPT can do what BERT cannot. **It writes.** And as our GPT *is* a `Transformer`, all of the package's decoding works on it: the sampler, beam search, and the cache.

# %%
from transformer.decoding import greedy_search, sample


def write(count, seed=1, **how):
    chance = torch.Generator().manual_seed(seed)
    found = sample(gpt, nobody(count), generator=chance, **how)
    return [" ".join(words[i] for i in tokens) for tokens in found]


# %%
for how in (
    {"temperature": 1.0},
    {"temperature": 0.5},
    {"top_k": 5},
    {"top_p": 0.8},
):
    print(*(f"{name} {value}" for name, value in how.items()))
    print(*("   " + text for text in write(3, **how)), sep="\n")

# %%
assert sample(gpt, nobody(1), top_k=1) == greedy_search(gpt, nobody(1))
seen = {" ".join(text) for text in texts}
fresh = write(40, temperature=0.5)
new = sum(text not in seen for text in fresh)
print(f"{new} of 40 sentences at temperature 0.5 are in no text that it read")

# %% [markdown]
# Three dials, in the order in which the package turns them. **Temperature** divides the scores: below 1 the favourite gains, above 1 all become alike. **Top-k** keeps the $k$ best words, however good they are. **Top-p**
# keeps the best words until they have the share $p$ together, so it keeps few where the model is certain and many where it is not {cite}`holtzman2020`. **Turn them** and see who is still in. With the same top-p, how many words are left depends on the beginning; the cell counts it for three.

# %%
from transformer.plots.sampling import sampling_explorer

beginnings = ["Der König", "Die Frau hat", "Die"]
scores = torch.stack(
    [
        gpt(nobody(1), to_ids([text.split()])[:, :-1])[0, -1]  # without <eos>
        for text in beginnings
    ]
)
for text, row in zip(beginnings, scores, strict=True):
    best = row.softmax(-1).sort(descending=True).values
    print(
        f"{text:13} top p 0.8 keeps {(best.cumsum(0) - best < 0.8).sum():3} words"
    )

# %% tags=["hide-input"]
sampling_explorer(
    scores[:, EOS:],  # never padding or <bos>
    beginnings,
    words[EOS:],
    description=(
        "Bars of the twelve most probable next words of our small GPT after a "
        "beginning that is chosen from a list. Sliders for temperature and top "
        "p and a list for top k change the bars; a cross marks each word that "
        "is cut off. A line tells from how many words is drawn."
    ),
)

# %% [markdown]
# What did GPT change besides? The first one kept the paper's post-norm. GPT-2 moved to pre-norm with one more norm at the end {cite}`radford2019`, which is `norm="pre"` in our package.

# %% [markdown]
# ## T5: everything is translation
#
# T5 keeps both halves and every line of `forward`. What it changes is *what is a task*, *how order is told*, and the norm.
#
# **Text to text.** A task is written into the source, and the answer is text, whatever it is: `translate English to German: …`, or a sentence to be judged, whose answer is the *word* for the class. One model, one loss, no new layer for a new task.
#
# **Span corruption.** To learn from plain text, pieces are cut out of a sentence, and a numbered sentinel stays where each was. The target has the pieces, each behind its sentinel. By hand:


# %%
def corrupt(tokens, spans):
    """Source and target after these (start, end) have been cut out."""
    source, target, done = [], [], 0
    for n, (start, end) in enumerate(spans):
        source += [*tokens[done:start], f"<{n}>"]
        target += [f"<{n}>", *tokens[start:end]]
        done = end
    return source + tokens[done:], [*target, f"<{len(spans)}>"]


sentence = "the old king opens the door of the castle".split()
source, target = corrupt(sentence, [(1, 3), (6, 7)])
print("source:", *source)
print("target:", *target)

# %% [markdown]
# Nothing is lost: put each piece back in place of its sentinel, and the sentence is whole. And the target is short, so the decoder, which costs a step for every token, has little to do.


# %%
def restore(source, target):
    pieces = re.split(r" ?<\d+> ?", " ".join(target))[1:]
    for n, piece in enumerate(pieces[:-1]):
        source = [piece if token == f"<{n}>" else token for token in source]
    return " ".join(source).split()


assert restore(source, target) == sentence
assert len(source) + len(target) < 2 * len(sentence)

# %% [markdown]
# **Order.** T5 adds nothing to the words. It adds a number to each *score*, and the number depends on how far the key stands from the query, and on the head. Our package adds nothing to scores, but it has one place where attention happens, and there we can. (T5 also drops the division by $\sqrt{d_k}$ and lets the initialisation see to it. We keep it.)


# %%
class BiasedAttention(MultiHeadAttention):
    bias = None  # (1, heads, query, key), added to the scores

    def attend(self, query, key, value, mask, is_causal):
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=self.bias
        )


# %%
torch.manual_seed(0)
plain, biased = MultiHeadAttention(32, 4), BiasedAttention(32, 4)
biased.load_state_dict(plain.state_dict())
x = torch.randn(2, 6, 32)
biased.bias = torch.zeros(1, 4, 6, 6)
assert_close(biased(x), plain(x))
biased.bias = torch.zeros(1, 4, 6, 6).masked_fill(~causal_mask(6), -math.inf)
assert_close(biased(x), plain(x, mask=causal_mask(6)))

# %% [markdown]
# Two checks, and the second is worth a thought: **a mask is a bias** that happens to be 0 or $-\infty$. Order and permission come in by the same door.
#
# Which numbers are added is learned, but not one for each distance: texts are long, and nobody needs to tell 90 places from 91. Distances share **buckets** (§2.1 of {cite}`raffel2020`; how they are spaced, its code tells): 32 of them, half for keys that stand
# behind the query, half for the others. The nearest distances have a bucket each. Further off the buckets grow with the logarithm, up to 128. (By that rule the last bucket begins at 91 already, and never ends. This is the encoder's; in the decoder, which sees nothing ahead, all 32 look back, and cross-attention has none.)


# %%
def bucket(distance, buckets=32, longest=128):
    """distance: key's place minus the query's, whole numbers."""
    half = buckets // 2
    exact = half // 2
    size = distance.abs()
    far = (size.clamp(min=1) / exact).log() / math.log(longest / exact)
    far = exact + (far * (half - exact)).long()
    near_or_far = torch.where(size < exact, size, far.clamp(max=half - 1))
    return near_or_far + half * (distance > 0)


distances = torch.tensor([0, 1, 7, 8, 11, 12, 32, 90, 91, 9999])
print(bucket(-distances))
assert bucket(-torch.arange(8)).tolist() == list(range(8))
assert bucket(-distances)[-3:].tolist() == [14, 15, 15]
assert torch.equal(bucket(distances[1:]), bucket(-distances[1:]) + 16)

# %% [markdown]
# Left, which bucket each pair of 24 places falls into: brown for keys on the left, green for keys on the right, the darker the further. Right, the same as a curve over the distance.

# %% tags=["hide-input"]
places = torch.arange(24)
between = places[None, :] - places[:, None]  # key minus query
signed = bucket(between) % 16 * between.sign()
reach = torch.arange(-150, 151)
with style.in_style():
    left, axes = style.new_figure(2.6, 2.6)
    axes.pcolormesh(
        signed.numpy(), cmap="BrBG", vmin=-15, vmax=15, edgecolors="face"
    )
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    right, axes = style.new_figure(3.2, 2.4)
    axes.step(reach, bucket(reach) % 16, color=style.KEY, where="mid")
    axes.set_xticks([-128, -64, 0, 64, 128])
    axes.grid(True)
    axes.set_xlabel("distance of the key from the query")
    axes.set_title("Bucket on its side", loc="left")
Row(
    Picture(
        left,
        alt=(
            "A square of 24 by 24 cells coloured by bucket. White on the diagonal; "
            "stripes along it, narrow near the diagonal and ever broader away "
            "from it, brown below and green above."
        ),
    ),
    Picture(
        right,
        alt=(
            "Bucket against distance from −150 to 150: a symmetric valley of steps, "
            "steep and fine up to eight, then ever longer, level at 15 "
            "from about 90 on."
        ),
    ),
)

# %% [markdown]
# So a head's whole knowledge of order is 32 numbers. They are shared by all layers, and whatever the length, there are no more. Put them into our layer and check that the same distance always gets the same number:

# %%
table = nn.Embedding(32, 4)  # a number for each bucket and head
between = torch.arange(6)[None, :] - torch.arange(6)[:, None]
biased.bias = table(bucket(between)).permute(2, 0, 1)[None]  # (1, heads, 6, 6)
assert torch.equal(biased.bias[..., 1:, 1:], biased.bias[..., :-1, :-1])
turned_round = biased(x.flip(1)).flip(1)
assert (turned_round - biased(x)).abs().max() > 0.01  # it knows the order
assert_close(plain(x.flip(1)).flip(1), plain(x))  # without the bias: it does not

# %% [markdown]
# **The norm.** Layer norm subtracts the mean, divides by the standard deviation, and has a factor and a shift. T5 leaves out the mean and the shift: only the size is set, by the root of the mean square. This is RMSNorm {cite}`zhang2019`. How do the two differ? *By the mean, and
# by nothing else:*

# %%
x = torch.randn(5, 32) + 3  # a mean far from zero
centred = x - x.mean(-1, keepdim=True)
assert_close(F.rms_norm(centred, (32,), eps=1e-5), F.layer_norm(x, (32,)))
apart = (F.rms_norm(x, (32,)) - F.layer_norm(x, (32,))).abs().max()
print(f"without centring they are {apart:.2f} apart")

# %% [markdown]
# ## ViT: an image is a sentence
#
# Cut a picture into squares, and read them like words. A word becomes a vector by a look-up; a square is already a row of numbers, so a **linear layer** does it. Our pictures are made by code: four shapes of any size, in any place, with noise.


# %%
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


# %%
torch.manual_seed(0)
images, kinds = draw_shapes(400)  # (400, 1, 24, 24): kept aside
images.shape

# %% [markdown]
# Sixteen patches of $6 \times 6$. The cut is a reshape, a transpose and a reshape: name the two axes of the patch, bring them together, flatten.


# %%
def to_patches(images, size=6):
    rows = images.unflatten(3, (-1, size)).unflatten(2, (-1, size))
    # (batch, channel, down, size, across, size)
    rows = rows.permute(0, 2, 4, 1, 3, 5)  # (batch, down, across, channel, …)
    return rows.flatten(3).flatten(1, 2)  # (batch, patches, channel · size²)


cut = to_patches(images)
assert torch.equal(cut[0, 5].view(6, 6), images[0, 0, 6:12, 6:12])
cut.shape

# %% [markdown]
# The patch 5 is the second of the second row. A linear layer on patches that do not overlap has another name: it is a **convolution whose stride is its size**. Many programs write it so. It is the same numbers:

# %%
linear = nn.Linear(36, 64)
conv = nn.Conv2d(1, 64, kernel_size=6, stride=6)
conv.weight.data, conv.bias = linear.weight.data.view(64, 1, 6, 6), linear.bias
assert_close(conv(images).flatten(2).mT, linear(cut), atol=1e-5, rtol=1e-5)
print("strided convolution = reshape and one linear layer")

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
    for n, patch in enumerate(cut[cross_at]):
        axes = figure.add_subplot(areas[n // 8, 3 + n % 8])
        axes.imshow(patch.view(6, 6).numpy(), cmap="gray", vmin=-0.5, vmax=1.5)
        axes.set_title(n, fontsize=9, pad=2)
    for axes in figure.axes:
        axes.axis("off")
Picture(
    figure,
    alt=(
        "Left, a noisy picture of a cross, cut by lines into four by four squares. "
        "Right, the sixteen squares in reading order, numbered from 0 to 15: "
        "the sentence that the model reads."
    ),
)

# %% [markdown]
# Two things are added. In front comes a **class token**, a learned vector that stands for no patch. It asks the patches, layer by layer, and in the end it alone is read: the answer for the whole picture. And each place has its learned position. All the rest is our encoder layer, pre-norm, with GELU.


# %%
class Vit(nn.Module):
    def __init__(self, config, patch, patches, classes):
        super().__init__()
        d, layers = config.d_model, [EncoderLayer(config) for _ in range(2)]
        use_gelu(layers, config)
        self.patch, self.head = nn.Linear(patch, d), nn.Linear(d, classes)
        self.layers, self.norm = nn.ModuleList(layers), nn.LayerNorm(d)
        self.class_token = nn.Parameter(torch.zeros(1, 1, d))
        self.positions = nn.Parameter(0.5 * torch.randn(patches + 1, d))

    def forward(self, images):
        x = self.patch(to_patches(images))  # (batch, patches, d_model)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1)
        x = run(self.layers, x + self.positions, open_mask)
        return self.head(self.norm(x[:, 0]))  # (batch, classes)


# %%
def name_loss(model, batch):
    images, kinds = batch
    return F.cross_entropy(model(images), kinds)


torch.manual_seed(0)
vit = Vit(shape, patch=36, patches=16, classes=4)
train(vit, name_loss, lambda: draw_shapes(64), steps=300)
vit.eval().requires_grad_(False)
share = (vit(images).argmax(-1) == kinds).float().mean().item()
print(f"{share:.0%} of 400 unseen pictures named rightly; guessing: 25%")
assert share > 0.75

# %% [markdown]
# Where does the class token look? We record its weights in the last layer, the mean over the heads, on all the unseen pictures. A patch counts as *lit* if it is bright on the whole.

# %%
from transformer.inspection import record_attention

with record_attention(vit) as weights:
    vit(images)
looks = weights["layers.1.self_attention"].mean(1)[:, 0, 1:]  # (400, patches)
lit = cut.mean(-1) > 0.3
on_lit = (looks[lit].sum() / looks.sum()).item()
print(
    f"{lit.float().mean():.0%} of the patches are lit; they get {on_lit:.0%} of it"
)
assert on_lit > lit.float().mean() + 0.1

one_each = [kinds.tolist().index(kind) for kind in range(4)]
maps = looks[one_each].view(4, 4, 4)  # (picture, down, across)

# %% tags=["hide-input"]
with style.in_style():
    figure = Figure(figsize=(5, 2.7))
    panels = figure.subplots(2, 4, gridspec_kw={"wspace": 0.1, "hspace": 0.1})
    pairs = zip(images[one_each, 0], maps, strict=True)
    for column, (image, look) in enumerate(pairs):
        panels[0, column].imshow(image.numpy(), cmap="gray")
        panels[0, column].set_title(["disc", "box", "triangle", "cross"][column])
        panels[1, column].imshow(
            look.numpy(), cmap=style.WEIGHTS, vmin=0, vmax=maps.max()
        )
    for axes in panels.flat:
        axes.axis("off")
Picture(
    figure,
    alt=(
        "Above, a noisy disc, box, triangle and cross. Below each, how much the "
        "class token looks at each of its sixteen patches: some patches on or at "
        "the edge of the shape are light, many others dark."
    ),
)

# %% [markdown]
# ## How large?
#
# BERT, GPT-2 and ViT each came in a size of 12 layers, width 768, 12 heads, and an inner width of 3072. On the meta device ([The full model](07_full_model.ipynb)) a layer of that size costs nothing:


# %%
def size(module):
    return sum(p.numel() for p in module.parameters())


with torch.device("meta"):
    layer = EncoderLayer(ModelConfig(1, 768, 12, 3072))
d, f = 768, 3072
body = 12 * size(layer)
assert body == 12 * (4 * (d * d + d) + (2 * d * f + f + d) + 2 * 2 * d)
print(f"{body:,}")

# %% [markdown]
# Now the ends. A norm has $2d$ parameters, a linear layer from $a$ to $b$ has $ab + b$, a table a row for each entry.

# %%
norm = 2 * d
ends = {
    # words, positions, the rest
    "BERT base": (30_522 * d, 512 * d, 2 * d + norm + (d * d + d)),
    "GPT-2 small": (50_257 * d, 1024 * d, norm),
    "ViT-B/16": (16 * 16 * 3 * d + d, 197 * d, d + norm + (1000 * d + 1000)),
}
for name, (look_up, positions, rest) in ends.items():
    print(f"{name:12} {body + look_up + positions + rest:12,}")
totals = [body + sum(parts) for parts in ends.values()]
assert totals == [109_482_240, 124_439_808, 86_567_656]

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(4.6, 2.1)
    parts = {
        "layers": style.QUERY,
        "words or patches": style.OUTPUT,
        "positions, rest": style.KEY,
    }
    start = torch.zeros(3)
    table = [[body, look_up, p + rest] for look_up, p, rest in ends.values()]
    for (name, colour), counts in zip(
        parts.items(), torch.tensor(table).T / 1e6, strict=True
    ):
        axes.barh(
            list(ends), counts, left=start, color=colour, label=name, height=0.6
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
        "Three stacked bars: BERT base 109.5 million, GPT-2 small 124.4, ViT-B/16 "
        "86.6. The blue part, the layers, is of the same length in all three; "
        "they differ in the words, least in ViT, most in GPT-2."
    ),
)

# %% [markdown]
# **Inside they are the same machine, to the last parameter.** What makes BERT smaller than GPT-2, and ViT smaller than both, is nearly all in the dictionary. (Published as 110M, 117M and 86M. GPT-2's number was later corrected by its authors to 124M; ViT's leaves out the last
# layer for the 1000 classes. In BERT's rest there is a layer on top of the first token, the *pooler*.)

# %% [markdown]
# ## What today's models changed
#
# Most language models of today are GPTs in which five parts were exchanged, one by one, and one thing is computed more cleverly. Each is a line:
#
# | part | in the paper | today |
# |---|---|---|
# | norm | `LayerNorm(d)` | `RMSNorm(d)` |
# | order | `x + positions` | `rotate(query, rotation)` |
# | feed-forward | `outer(relu(inner(x)))` | `outer(silu(gate(x)) * inner(x))` |
# | keys, values | a head for each query head | `key.repeat_interleave(share, 1)` |
# | biases | `Linear(d, d)` | `bias = None` |
# | writing | all words again | `decode_step(newest, cache)` |
#
# **RMSNorm** you know from above, **rotary positions** {cite}`su2021` from [Positional encoding](05_positional_encoding.ipynb). We go through the others, and at the end hold the whole against a published size, that of LLaMA {cite}`touvron2023`.
#
# **A gated feed-forward** {cite}`shazeer2020`. One more matrix computes a gate for each inner value, and the two are multiplied. Three matrices in place of two, so the inner width shrinks to two thirds of $4d$, and the price stays.


# %%
class GatedFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff)
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.outer(F.silu(self.gate(x)) * self.inner(x))


# %%
assert 3 * d * (2 * 4 * d // 3) == 2 * d * (4 * d)  # weights, for our width 768
gated, ungated = GatedFeedForward(32, 64), FeedForward(32, 64)
gated.inner.load_state_dict({"weight": torch.zeros(64, 32), "bias": torch.ones(64)})
gated.gate, gated.outer = ungated.inner, ungated.outer
x = torch.randn(2, 5, 32)
assert_close(gated(x), ungated.outer(F.silu(ungated.inner(x))))

# %% [markdown]
# The last line says what is new: with the inner values held at 1 it is the feed-forward that we know, with another bend in place of the ReLU.
#
# **Grouped queries** {cite}`ainslie2023`. When a model writes, each step reads all keys and values of the past from memory. So several query heads share one head of keys and values. As many groups as heads is the paper's attention; a single group was proposed early {cite}`shazeer2019`. In our
# package it is a change to how things are projected, and rotary turns come with it:


# %%
class GroupedQueryAttention(MultiHeadAttention):
    def __init__(self, d_model, n_heads, n_groups, rotation=None):
        super().__init__(d_model, n_heads, rotation=rotation)
        self.sizes = [d_model, *2 * [n_groups * d_model // n_heads]]
        self.query_key_value = nn.Linear(d_model, sum(self.sizes))

    def project(self, x, position=None):
        parts = self.query_key_value(x).split(self.sizes, dim=-1)
        d_head = self.d_model // self.n_heads
        q, k, v = (p.unflatten(-1, (-1, d_head)).transpose(1, 2) for p in parts)
        if self.rotation is not None:
            q, k = (rotate(t, self.rotation[:, : x.size(1)]) for t in (q, k))
        share = self.n_heads // k.size(1)
        return q, KeyValue(*(t.repeat_interleave(share, dim=1) for t in (k, v)))


# %%
full, grouped = MultiHeadAttention(32, 4), GroupedQueryAttention(32, 4, n_groups=4)
grouped.load_state_dict(full.state_dict())
assert_close(grouped(x), full(x))
for n_groups in (4, 2, 1):
    count = size(GroupedQueryAttention(32, 4, n_groups))
    print(f"{n_groups} groups: {count:,} parameters")

# %% [markdown]
# **No biases.** Leaving them out saves next to nothing; it is one thing less to carry. How little it is, in BERT's body:

# %%
biases = sum(p.numel() for name, p in layer.named_parameters() if "bias" in name)
print(f"{biases:,} of {size(layer):,}: {biases / size(layer):.2%}")


def without_biases(module):
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.bias = None
    return module


# %% [markdown]
# **And now all of it at once**: our `EncoderLayer`, with its parts exchanged and a causal mask.


# %%
def modern_layer(d_model, n_heads, d_ff, n_groups, length):
    layer = EncoderLayer(
        ModelConfig(1, d_model, n_heads, d_ff, dropout=0.0, norm="pre")
    )
    rotation = rotary_table(length, d_model // n_heads)
    layer.self_attention = GroupedQueryAttention(
        d_model, n_heads, n_groups, rotation
    )
    layer.feed_forward = GatedFeedForward(d_model, d_ff)
    for residual in layer.residuals:
        residual.norm = nn.RMSNorm(d_model)
    return without_biases(layer)


# %%
torch.manual_seed(0)
modern = modern_layer(64, 4, 176, n_groups=2, length=16)
x = torch.randn(1, 10, 64)
later = x.clone()
later[:, 7:] = 0
before, after = (modern(y, causal_mask(10)) for y in (x, later))
assert_close(before[:, :7], after[:, :7])  # nothing before a change moves

# %% [markdown]
# Is it the layer that they run? A count cannot prove it, but it is a strict witness: one bias too many, and it is off. LLaMA's smallest has 32 of them, width 4096, 32 heads in as many groups, and a vocabulary of 32,000 with two matrices, not tied. Its inner width is two thirds of $4d$, rounded up to a multiple of 256.

# %%
d_ff = 256 * math.ceil(2 / 3 * 4 * 4096 / 256)
with torch.device("meta"):
    layer = modern_layer(4096, 32, d_ff, n_groups=32, length=2048)
    last_norm = nn.RMSNorm(4096)
seven_b = 32 * size(layer) + size(last_norm) + 2 * 32_000 * 4096
print(f"inner width {d_ff:,}, all together {seven_b:,}")
assert seven_b == 6_738_415_616

# %% [markdown]
# That is the published "7B", 6.7 billion, to the last parameter. Part by part, what a layer of this width had in the paper's form and has now:

# %%
d = 4096
rows = [
    ["two norms", "LayerNorm", 2 * 2 * d, "RMSNorm", 2 * d],
    ["positions", "added once", 0, "rotary", 0],
    ["feed-forward", "ReLU, 4d", 2 * d * 4 * d, "gated", 3 * d * d_ff],
    ["attention", "32 heads", 4 * d * d, "32 groups", 4 * d * d],
    ["", "", "", "8 groups", 2 * d * d + 2 * d * d * 8 // 32],
    ["biases", "yes", 4 * d + 4 * d + d, "none", 0],
]
headers = ["", "then", "weights", "now", "weights"]
print(tabulate(rows, headers, intfmt=","))
assert size(layer) == sum(rows[i][4] for i in (0, 1, 2, 3, 5))

# %% [markdown]
# **The cache** changes no number at all, and our package has had it since [Decoding](12_decoding.ipynb). It keeps the keys and values of what has been written, and computes each step for the newest word only. On our GPT, which has never heard of it:

# %%
target = unseen[:5, :5]
memory = gpt.encode(nobody(5))
at_once = gpt.logits(gpt.decode(target, *memory))
cache = gpt.start_cache(*memory, max_length=5)
steps = [gpt.decode_step(target[:, t : t + 1], cache) for t in range(5)]
assert_close(torch.cat(steps, 1), at_once, atol=1e-5, rtol=1e-4)

# %% [markdown]
# What it costs is memory, and here groups earn their keep. LLaMA's largest has 80 layers with 64 heads of 128 numbers, for keys and for values; say two bytes each. For one text of 4096 tokens, as it is and with fewer groups:

# %%
for n_groups in (64, 8, 1):
    kept = 2 * 80 * n_groups * 128 * 2 * 4096  # keys and values, bytes
    print(f"{n_groups:2} groups: {kept / 1e9:5.2f} GB")

# %% [markdown]
# ## What goes wrong in practice
#
# **The flattering loss.** BERT's loss is taken at the chosen places. Take it over all words, and the curve looks splendid: most words stand in the input, and repeating them is easy. It is one forgotten index. Our trained BERT, on unseen sentences, both ways:

# %%
read, chosen = blank(unseen)
scores, real = bert(read), unseen > MASK
for name, where in (("all words", real), ("chosen only", chosen)):
    loss = F.cross_entropy(scores[where], unseen[where])
    print(f"loss over {name:12} {loss:.2f}")
assert F.cross_entropy(scores[real], unseen[real]) < loss

# %% [markdown]
# It is the same model. And one that is *trained* on all words gets most of its marks for copying.
#
# **Patches by one reshape.** The batch has the right shape, and the linear layer takes it. But `reshape` takes the numbers in reading order, so "patch 5" is one and a half rows of the picture, and no square:

# %%
wrong = images.reshape(len(images), 16, 36)
assert wrong.shape == cut.shape
square = images[0, 0, 6:12, 6:12]
for name, patches in (("permuted", cut), ("reshaped", wrong)):
    is_it = torch.equal(patches[0, 5].view(6, 6), square)
    print(f"{name}: patch 5 is the square in the picture: {is_it}")
apart = (conv(images).flatten(2).mT - linear(wrong)).abs().max()
assert apart > 0.1  # the convolution catches it

# %% [markdown]
# **The wrong queries in a group.** With 4 heads and 2 groups, heads 0 and 1 share the first keys, 2 and 3 the second: `repeat_interleave`. `repeat` deals them out in turn, 0, 1, 0, 1. A model that is trained like this does as well as any. But one that is *loaded* into it has half its heads looking things up with the wrong keys. PyTorch has
# its own grouping to compare with:

# %%
torch.manual_seed(0)
q, k, v = torch.randn(1, 4, 6, 8), torch.randn(1, 2, 6, 8), torch.randn(1, 2, 6, 8)
theirs = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
in_turn = fused_attention(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))
together = (t.repeat_interleave(2, dim=1) for t in (k, v))
assert_close(fused_attention(q, *together), theirs)
wrong_heads = (in_turn - theirs).abs().amax((0, 2, 3)) > 1e-5
print("heads that are wrong with repeat:", wrong_heads.nonzero().flatten().tolist())
assert wrong_heads.tolist() == [False, True, True, False]

# %% [markdown]
# **Padding forgotten.** "Everybody sees everybody" does not mean the padding. Without its mask, what BERT says of a sentence depends on who else is in the batch:

# %%
alone = blanked[:1, : (blanked[0] != PAD).sum()]
padded = F.pad(alone, (0, 8))
x = bert.embed(padded, bert.source_embedding) + bert.segments.weight[0]
careless = bert.logits(bert.encoder_norm(run(bert.encoder, x, open_mask)))
for name, scores in (("with mask", bert(padded)), ("without", careless)):
    moved = (scores[0, 1] - bert(alone)[0, 1]).abs().max()
    print(f"{name:10} the blank's scores move by {moved:.3f}")
assert moved > 0.01

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You take a trained GPT and replace its causal mask by one that is True everywhere. Do you have a BERT?**
#
# <details><summary>A. Yes: the mask is all that differs</summary>
#
# No. In its layers, yes. But its weights were trained to say the *next* word and have never met a key from the right.
#
# </details>
# <details><summary>B. No: BERT's layers have other matrices</summary>
#
# No. They are the same layers, as the cell under *The code* asserts.
#
# </details>
# <details><summary>C. The layers of one, but it must be trained anew, with blanks</summary>
#
# **Right.** Asked for the next word with that mask, it would read it off one place to the right; so the question has to change together with the mask.
#
# </details>
# <details><summary>D. No, it lacks cross-attention</summary>
#
# No. Neither of the two has any: nothing is there for it to look at.
#
# </details>
#
# **2. Why does BERT leave a tenth of the chosen words as they are?**
#
# <details><summary>A. To make the task easier at the start</summary>
#
# No. It is the same tenth from the first step to the last.
#
# </details>
# <details><summary>B. So that a word that is not blanked may also be asked about, as it will be in use</summary>
#
# **Right.** In use there are no blanks. Here and with the random words it has to give an answer at a place that looks like any other.
#
# </details>
# <details><summary>C. To save time: they need no prediction</summary>
#
# No. They are graded like the other chosen ones.
#
# </details>
# <details><summary>D. Because the tokenizer cannot blank them</summary>
#
# No. They are drawn by chance, and any word can be among them.
#
# </details>
#
# **3. You shuffle the patches of a picture before a ViT whose positions are all zero. Its answer is**
#
# <details><summary>A. the same</summary>
#
# **Right.** To attention without positions a picture is a bag of patches, as a sentence is a bag of words. Exercise 3 tries it.
#
# </details>
# <details><summary>B. random</summary>
#
# No. Nothing in the model is random once it is in eval mode.
#
# </details>
# <details><summary>C. different, because neighbouring patches no longer touch</summary>
#
# No. That would be so for a convolution over patches. Attention does not know who was a neighbour.
#
# </details>
# <details><summary>D. an error, because the class token has lost its place</summary>
#
# No. It is put in front after the shuffle, and its place is told by nothing but its vector.
#
# </details>
#
# **4. A text of 1000 tokens goes through GPT, and then through an encoder–decoder, 500 as source and 500 as target. Which computes fewer scores in a layer?**
#
# <details><summary>Answer</summary>
#
# As the squares tell, with about half of a causal square filled: GPT needs $1000^2 / 2 = 500{,}000$. The encoder has $500^2$, cross-attention $500^2$, the decoder $500^2 / 2$: $625{,}000$, and none of them can be left out, since the source sees itself whole. But each *matrix product* of the encoder is done for 500
# tokens with the encoder's weights, and of the decoder with its own: for the same work the pair has twice the parameters (§3.2 of {cite}`raffel2020`).
#
# </details>
#
# **5. With pencil and paper: T5 base is 12 + 12 layers of width 768 with an inner width of 3072, 32,128 words with all three matrices tied, no biases, RMSNorm, one table of 32 buckets for 12 heads on each side, and one norm at the end of each. How many parameters?**
#
# <details><summary>Answer</summary>
#
# Words $32128 \cdot 768 = 24{,}674{,}304$. An encoder layer: attention $4 d^2$, feed-forward $2 d f$, two norms $2d$: $7{,}079{,}424$. A decoder layer has $4 d^2 + d$ more: $9{,}439{,}488$. Twelve of each, the two tables of $384$ and the two norms of
# $768$. In all $222{,}903{,}552$; the paper says 220 million.
#
# </details>

# %% tags=["hide-input"]
d, f = 768, 3072
encoder_layer = 4 * d * d + 2 * d * f + 2 * d
decoder_layer = encoder_layer + 4 * d * d + d
ends_of_t5 = 32_128 * d + 2 * 32 * 12 + 2 * d
assert 12 * (encoder_layer + decoder_layer) + ends_of_t5 == 222_903_552

# %% [markdown]
# ## Exercises
#
# You have built each part of a translator on its own. The last notebook puts them together: eight blanks, and then a real training of your own model, with no part in it but yours. Each blank has a check
# that says what is wrong, and a hint.
#
# - In Colab:
#   [18_capstone](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/18_capstone.ipynb).
#   On GitHub: [18_capstone.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/18_capstone.ipynb).
# - On your machine, open `exercises/18_capstone.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade capstone
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And five experiments on the models of this page.
#
# 1. **Only blanks.** Train a second BERT with `<mask>` at every chosen place. Then give both a sentence in which *no* word is blanked but one is wrong, and compare how much probability they give to the right word there.
# 2. **A GPT that is asked for articles.** Write a hundred sentences at temperature 0.7. How often do article and noun fit? So it has learned the rule after all: from which side?
# 3. **A bag of patches.** Set `vit.positions` to zero, shuffle the patches, and assert that the answer stays. Then train such a model: which of the four shapes does it confuse?
# 4. **Order without learning.** Give `BiasedAttention` a bias of $-0.5$ times the distance, whatever its sign. This is the idea of {cite}`press2022`. Draw it beside the buckets: what does it say that they do not?
# 5. **The next size.** With `modern_layer` on the meta device: 40 layers of width 5120, with 40 heads. How many parameters, and how many gigabytes is the cache for 4096 tokens with 40, 8 and 1 groups?

# %% [markdown]
# ## Going further
#
# - **The common ancestor:** the three attentions and their masks in §3.2.3, learned positions in Table 3, row E {cite}`vaswani2017`.
# - **BERT:** the blanks in §3.1 and the reasons for 80/10/10 in its appendix {cite}`devlin2019`; what of its recipe mattered and what did not: {cite}`liu2019`.
# - **GPT:** {cite}`radford2018` still trains it anew for each task; {cite}`radford2019` only asks it.
# - **T5:** §3 of {cite}`raffel2020` compares halves, masks and questions under equal conditions: a map of the family. Where relative positions began: {cite}`shaw2018`.
# - **ViT:** {cite}`dosovitskiy2021`, with its sizes in Table 1; §4.5 looks inside and shows what the learned positions have become.
# - **Today's parts**, a few pages each: {cite}`zhang2019`, {cite}`su2021`, {cite}`shazeer2020`, {cite}`ainslie2023`. How they come together: §2.2 of {cite}`touvron2023`.
