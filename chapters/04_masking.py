# %% [markdown]
# # Masking
#
# Three small models, each with one layer of self-attention, are trained to predict the next digit in sequences of random digits. New sequences are drawn at every step, so there is nothing to memorise. On average, a model that can't see the answer can do no better than
# assign the probability 1/10 to each digit, which gives a cross-entropy of $\ln 10 \approx 2.30$. **In the figure, two of the three models get below that. How do they cheat, and how can you stop them?**

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
    print(f"With all figures: {book}/chapters/04_masking.html")

# %% tags=["hide-input"]
import math

import torch

from transformer.plots.curves import curves
from transformer.plots.heat_map import heat_map
from transformer.plots.masks import combined_masks, mask_grid
from transformer.plots.model_map import model_map
from transformer.plots.style import Picture, Row, SourceCode
from transformer.plots.training_examples import training_examples

torch.set_printoptions(precision=2, sci_mode=False)

# Losses in step 0, 5, 10 and so on. The section "What goes wrong in practice"
# trains the three models again.
# fmt: off
stored_losses = {
    "model A": [
        2.55, 2.33, 2.10, 1.89, 1.61, 1.27, 0.89, 0.68, 0.61, 0.57, 0.51,
        0.44, 0.46, 0.38, 0.44, 0.41, 0.41, 0.38, 0.34, 0.36, 0.37, 0.35,
        0.34, 0.35, 0.32, 0.33, 0.33, 0.32, 0.31, 0.32, 0.32, 0.31, 0.31,
        0.31, 0.31, 0.33, 0.31, 0.32, 0.30, 0.30,
    ],
    "model B": [
        2.40, 1.54, 0.77, 0.27, 0.07, 0.02, 0.01, 0.00, 0.00, 0.00, 0.00,
        0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00,
        0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00,
        0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00,
    ],
    "model C": [
        2.53, 2.43, 2.34, 2.34, 2.31, 2.31, 2.32, 2.32, 2.31, 2.30, 2.31,
        2.31, 2.31, 2.32, 2.31, 2.32, 2.31, 2.31, 2.31, 2.31, 2.30, 2.31,
        2.31, 2.32, 2.31, 2.31, 2.31, 2.31, 2.30, 2.31, 2.31, 2.31, 2.31,
        2.31, 2.31, 2.31, 2.31, 2.30, 2.31, 2.31,
    ],
}
# fmt: on
Picture(
    curves(
        range(0, 200, 5),
        stored_losses,
        "training step",
        "Loss on random digits",
        reference=("guessing, ln 10", math.log(10)),
    ),
    alt=(
        "Three loss curves over 200 training steps. Model C stays at the level of "
        "guessing, 2.303. Model A falls to 0.3 and model B to zero."
    ),
    caption=(
        "Training loss of three models on random digits. Models A and B fall below "
        "the level of guessing, so they must have seen the answers."
    ),
)

# %% [markdown]
# Models A and B can see the digits that they are supposed to predict. Each has one small bug that raises no error, so during training both look like a great success. At inference they are useless.
#
# By the end you will be able to build the two masks of the Transformer, explain which attention layer needs which mask, and test a model for
# leaks from the future.
#
# **About 35 minutes.** The chapter builds on [Attention](02_attention.ipynb) and [Multi-head attention](03_multi_head_attention.ipynb).

# %% tags=["hide-input"]
Picture(
    model_map("self-attention", "masked self-attention", "cross-attention"),
    alt=(
        "The map of the Transformer, with encoder and decoder side by side. "
        "Highlighted are the boxes that take a mask: self-attention in the encoder, "
        "masked self-attention and cross-attention in the decoder."
    ),
    caption=(
        "This chapter is about the mask of the highlighted boxes: it hides padding "
        "and, in masked self-attention, the future."
    ),
)

# %% tags=["hide-input", "imports"]
import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from transformer.attention import MultiHeadAttention, attention, fused_attention
from transformer.config import ModelConfig
from transformer.masks import causal_mask, padding_mask, target_mask
from transformer.model import Transformer
from transformer.positions import sinusoidal_encoding

# %% [markdown]
# ## What a token must not see
#
# In plain attention every position attends to all positions, itself included. In two cases that must not happen.
#
# **Padding.** A batch of sentences is one rectangular tensor, so all its rows must have the same length. Shorter sentences are filled up with a special
# token, `<pad>`. It has no meaning, but like any other token it has an embedding, hence a key and a value, so nothing keeps the real words from attending to it.
#
# **The future.** The decoder of a Transformer is **autoregressive**: it generates one token at a time, and each token depends on the ones before it.
# At **inference**, when the trained model translates, later tokens don't exist yet. In training they do, because we know the correct translation.
# That allows a trick called **teacher forcing**: the decoder's input is the correct translation, with a start token `<bos>` in front,
# and it learns to predict the next token at *all* positions in a single pass.
#
# In this chapter we translate from German into English, so that you can read the decoder's tokens. The figure shows teacher forcing for the translation *the milk was sour*. Every row is a training example of its own: the green cells show what the model may see, and the token on the right is what it should predict. In the last row that is `<eos>`, the end of the sentence.

# %% tags=["hide-input"]
milk = "<bos> the milk was sour".split()
Picture(
    training_examples(milk, [*milk[1:], "<eos>"]),
    alt=(
        "A grid of five rows and five columns with the tokens <bos>, the, milk, was, "
        "sour. Row 0 can see only <bos> and predicts the; row 1 can see <bos> the "
        "and predicts milk; and so on to row 4, which can see everything and "
        "predicts <eos>. The cells above the diagonal are crossed out."
    ),
    caption=(
        "Teacher forcing turns one sentence into several training examples. Row by "
        "row, the model sees one more token and predicts the next."
    ),
)

# %% [markdown]
# One sentence gives five training examples, and the model computes all five predictions at once. But there is a catch: the token to predict is also in the input, one position further right. Unless something hides it, the model only has to copy it.
#
# The solution for both padding and the future is a **mask**: a table that shows which query may attend to which key. In this course it is boolean, and it always has
# the same meaning:
#
# > **True = may attend.**

# %% [markdown]
# ## From an average to the causal mask
#
# Suppose that each position should summarise the sequence so far. The simplest summary is the **average** of all vectors up to and including its own:

# %%
torch.manual_seed(0)
x = torch.randn(5, 4)  # (length, d)
averages = torch.stack([x[: i + 1].mean(dim=0) for i in range(5)])

# %% [markdown]
# An average is a weighted sum, so we don't need the loop: one product with a **lower-triangular matrix** of weights does it. Row $i$ has the weight $1/(i +
# 1)$ up to column $i$, and zeros to the right of it.

# %%
triangle = torch.ones(5, 5).tril()
weights = triangle / triangle.sum(dim=-1, keepdim=True)
assert_close(weights @ x, averages)  # the same averages
weights

# %% [markdown]
# The same weights come out of a **softmax**. Equal scores give equal weights, and a score of $-\infty$ gives the weight 0, because $e^{-\infty} = 0$:

# %%
scores = torch.zeros(5, 5).masked_fill(triangle == 0, -math.inf)
for row in scores.tolist():
    print(*(f"{score:4.0f}" for score in row))
assert_close(scores.softmax(dim=-1), weights)

# %% [markdown]
# The weights don't have to be equal. Replace the zeros with the scores of queries and keys, leave the $-\infty$ where they are, and you have attention
# that only looks back (§3.2.3). The triangle is called the **causal mask**, or look-ahead mask:

# %%
causal = torch.ones(5, 5, dtype=torch.bool).tril()  # True = may attend
torch.manual_seed(2)
query, key = torch.randn(2, 5, 4)
scores = query @ key.T / math.sqrt(4)  # (query 5, key 5)
causal_weights = scores.masked_fill(~causal, -math.inf).softmax(dim=-1)

# %% [markdown]
# The figure compares the average with this attention. In both, the weights fill the same triangle and each row sums to one, but attention can choose how much weight each earlier position gets.

# %% tags=["hide-input"]
positions = [str(i) for i in range(5)]
Row(
    Picture(
        heat_map(
            weights,
            positions,
            positions,
            causal,
            title="average",
            row_title="query",
            column_title="key",
        ),
        alt=(
            "A lower triangle of weights: 1 in the first row, 0.5 twice in the "
            "second, 0.33 three times in the third, and so on."
        ),
    ),
    Picture(
        heat_map(
            causal_weights,
            positions,
            positions,
            causal,
            title="causal attention",
            row_title="query",
            column_title="key",
        ),
        alt=(
            "The same lower triangle with weights that differ from cell to cell; "
            "each row sums to one."
        ),
    ),
    caption=(
        "An average over the sequence so far is causal attention with equal "
        "weights. Crosses mark later positions, which get no weight."
    ),
)

# %% [markdown]
# The diagonal is True: position $i$ may attend to itself. Its own token is already known; what it has to predict is the next one.
#
# **Can the future leak through several layers?** In layer 2, position 3 attends to position 1, whose vector is already a weighted sum. But in layer 1, position 1 could attend only to positions 0 and 1, so nothing else is in that sum. The same holds in every layer: position $i$ reads vectors of positions $0 \ldots i$, and none of these contains anything later. The causality test below checks this in a model with two layers.

# %% tags=["remove-cell"]
assert not (causal_weights @ causal_weights).triu(1).any()
assert (causal_weights[1, :2] - 0.5).abs().min() > 0.1  # unlike the average

# %% [markdown]
# ## The padding mask
#
# **By hand.** Leave the future aside for now. Take the four tokens `it was tired <pad>` and the query of the token *it*. Suppose its scores with the four keys are these; by chance, the padding has the highest:

# %%
scores = torch.tensor([2.0, 1, 0, 3])  # it, was, tired, <pad>
scores.softmax(dim=0)

# %% [markdown]
# The exponentials are $e^2 \approx 7.39$, $e^1 \approx 2.72$, $e^0 = 1$ and $e^3 \approx 20.09$, so the padding gets $20.09 / 31.20 \approx 0.64$ of
# the attention. The three real words should share all of it, in the same proportions as before, so the denominator should be $7.39 + 2.72 + 1 = 11.11$. The padding's exponential therefore has to be 0 *before* we divide. As with the future, a score of $-\infty$ does this:

# %%
real = torch.tensor([True, True, True, False])
print("masked ", scores.masked_fill(~real, -math.inf).softmax(dim=0))
print("by hand", torch.tensor([7.39, 2.72, 1, 0]) / 11.11)

# %% [markdown]
# **In a batch.** Here are two German sentences, and their English translations as input to the decoder. A token's id is its position in the
# vocabulary, and `<pad>` has the id 0:

# %%
german_words = "er sie war heute müde sauer".split()
english_words = "it was tired sour today".split()
vocabulary = ["<pad>", "<bos>", *german_words, *english_words]


def to_ids(*sentences):
    rows = []
    for sentence in sentences:
        ids = [vocabulary.index(word) for word in sentence.split()]
        rows.append(torch.tensor(ids))
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)  # adds zeros


source = to_ids("er war müde", "sie war heute sauer")  # (2, 4)
target = to_ids("<bos> it was tired", "<bos> it was sour today")  # (2, 5)
source, target

# %% [markdown]
# The **padding mask** is True for every real token. What shape should it have? The scores are (batch, heads, query, key). Padding depends on the sentence and on the
# key, but not on the head or the query, so these two dimensions get size 1. PyTorch **broadcasts** them, that is, it behaves as if
# they were repeated as often as needed.

# %%
mask = (source != 0)[:, None, None, :]  # (batch 2, 1, 1, key 4)
assert torch.equal(mask, padding_mask(source, pad_id=0))
print(mask.shape)
print(mask)

# %% [markdown]
# Where both the future and padding should be hidden, a query may attend to a key if the key is real **and** not in the future. With boolean masks, this "and" is the operator `&`. Here are the package's three mask functions; the last one combines the other two:

# %% tags=["remove-input"]
SourceCode(padding_mask, causal_mask, target_mask)

# %% [markdown]
# The figure shows the masks of the first translation, which has one padding token. Each row is a query, and its green cells are the tokens that it may attend to. The padding mask removes a column, the causal mask a triangle.

# %% tags=["hide-input"]
english = "<bos> it was tired <pad>".split()
Picture(
    combined_masks(
        padding_mask(target, 0)[0, 0],
        causal_mask(5)[0, 0],
        english,
        ("padding mask", "causal mask", "both"),
    ),
    alt=(
        "Three grids of five by five cells. In the first the last column, the "
        "padding, is crossed out. In the second the cells above the diagonal, the "
        "future, are crossed out. The third is green only where the first two are "
        "both green: a lower triangle without its last column."
    ),
    caption=(
        "Combining two masks with “and”: a query may attend to a key (green cells) "
        "only if the key is neither padding nor in the future."
    ),
)

# %% [markdown]
# **The loss** must ignore padding, too, because the model shouldn't learn to predict it. In PyTorch, this takes one parameter, `ignore_index`. `F.cross_entropy` expects the vocabulary in dimension 1. To put it there, we flatten batch and length into one long list of tokens:
#
# ```python
# # logits: (batch, length, vocabulary), labels: (batch, length); <pad> has the id 0
# loss = F.cross_entropy(
#     logits.flatten(0, 1),  # (batch · length, vocabulary)
#     labels.flatten(),  # (batch · length)
#     ignore_index=0,
# )  # the mean over the real tokens only
# ```
#
# **Try it yourself.** The figure shows the scores, with hidden ones in grey, then the weights and the sum of each row. Turn the last words into padding with the slider, switch the causal mask off and on (*hide later positions*), and press any cell of the score table to hide its key from its query, or to show it again. A row sums to one as long as at least one of its keys is visible. (Leave the box *the bug* empty for now. We come back to it in *What goes wrong in practice*.)
#
# <div class="widget" data-widget="masks">
#
# *This figure is interactive in the [online book](https://transformer-course.github.io/transformer-course/chapters/04_masking.html) (with JavaScript) and in the notebook (run the next cell). Its initial state:*
#
# Weights with the future and one padding token hidden before the softmax:
#
# | | `<bos>` | it | was | very | `<pad>` | sum |
# |---|---|---|---|---|---|---|
# | `<bos>` | 1.00 | – | – | – | – | 1.00 |
# | it | 0.77 | 0.23 | – | – | – | 1.00 |
# | was | 0.10 | 0.69 | 0.21 | – | – | 1.00 |
# | very | 0.35 | 0.09 | 0.39 | 0.17 | – | 1.00 |
# | `<pad>` | 0.09 | 0.31 | 0.17 | 0.42 | – | 1.00 |
#
# </div>

# %% [markdown]
# ## Which attention layer needs which mask
#
# The Transformer has [three kinds of attention](03_multi_head_attention.ipynb) (§3.2.3), and they don't all hide the same tokens:
#
# | attention | hides |
# |---|---|
# | self-attention in the encoder | source padding |
# | self-attention in the decoder | the future and target padding |
# | cross-attention in the decoder | source padding |
#
# The source has no future, because the sentence to translate is complete from the start. In
# cross-attention the keys come from the source, so the padding of the *source* must be hidden, even though the queries come from the target.
#
# Padding tokens are queries, too, and get outputs. Nothing uses these: every later attention layer hides their positions as keys, and the loss ignores them.
#
# A layer gets its mask as an argument, `self.attention(x, mask=mask)`, and uses it in all its heads. The package's `Transformer` makes the masks itself: `model(source, target)` finds the padding in the token ids. The grids show the masks of the table above for our first sentence.

# %% tags=["hide-input"]
german = "er war müde <pad>".split()
columns = padding_mask(source, 0)[0, 0].expand(5, 4)
style = {"labels": ("query", "key"), "cell": 0.27}
Row(
    Picture(
        mask_grid(columns[:4], german, german, "encoder, self", **style),
        alt="Encoder: only the column of the padding is crossed out.",
    ),
    Picture(
        mask_grid(
            target_mask(target, 0)[0, 0], english, english, "decoder, self", **style
        ),
        alt="Decoder: a lower triangle, and the padding's column is crossed out.",
    ),
    Picture(
        mask_grid(columns, english, german, "decoder, cross", **style),
        alt=(
            "Cross-attention: five English rows, four German columns; only the "
            "column of the German padding is crossed out."
        ),
    ),
    caption=(
        "The masks of the three kinds of attention. All hide padding (crosses in the last "
        "column), and only the decoder's self-attention also hides the future."
    ),
)

# %% [markdown]
# **Does the decoder need its padding mask?** Look at the first four rows of the middle grid, those of the real tokens. With padding at the end, the causal mask alone already hides it from all of them, and nothing uses the output of the last row. So in this course the causal mask is enough for the decoder's self-attention, and in training the package uses it alone. In the encoder and in cross-attention nothing else hides the padding, so there its mask is indispensable. The decoder needs both masks when padding is at the start. This is common when a *decoder-only* model, such as GPT, continues a batch of prompts: padding on the left aligns their last tokens.

# %% tags=["remove-cell"]
# The model really passes these masks to its three attention layers.
torch.manual_seed(0)
shape = ModelConfig(len(vocabulary), d_model=32, n_heads=4, d_ff=64, n_layers=1)
model = Transformer(shape).eval().requires_grad_(False)
passed = []


def record_mask(module, args, kwargs):
    passed.append(kwargs["mask"])


for module in model.modules():
    if isinstance(module, MultiHeadAttention):
        module.register_forward_pre_hook(record_mask, with_kwargs=True)
model(source, target)
from_source, from_target = padding_mask(source, 0), target_mask(target, 0)
for mask, expected in zip(
    passed, (from_source, from_target, from_source), strict=True
):
    assert torch.equal(mask, expected)

# In training, the decoder's self-attention gets no mask tensor, only the causal mask.
passed.clear()
model.train()(source, target)
assert torch.equal(passed[0], from_source) and torch.equal(passed[2], from_source)
assert passed[1] is None

# With padding at the end, real tokens see the same keys with and without its mask.
real_rows = target != 0
both = target_mask(target, 0)[:, 0]
assert torch.equal(both[real_rows], causal_mask(5)[0].expand(2, 5, 5)[real_rows])
assert not torch.equal(both, causal_mask(5)[0].expand(2, 5, 5))

# The loss of the text: the mean over the real tokens.
logits, labels = torch.randn(2, 5, 13), target
loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)
assert_close(loss, F.cross_entropy(logits[real_rows], labels[real_rows]))

# %% [markdown]
# ## Masked attention in code
#
# Attention with a mask takes one more line than without:


# %%
def masked_attention(query, key, value, mask):
    scores = query @ key.T / math.sqrt(query.size(-1))  # (n_query, n_key)
    scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ value  # (n_query, d_v)


# %% [markdown]
# It gives the same result as the package's `attention` and as PyTorch's `scaled_dot_product_attention`, which the package calls in `fused_attention`. (*Fused* means that the whole computation is one operation, usually without storing all the weights.) In PyTorch's function, boolean masks have the same meaning as in this course. With `is_causal=True`,
# PyTorch applies the causal mask itself. You don't have to build one, and PyTorch can skip the later keys instead of computing their scores and throwing them away:

# %%
torch.manual_seed(0)
q, k, v = torch.randn(3, 5, 8)
expected = masked_attention(q, k, v, causal)
assert_close(attention(q, k, v, causal)[0], expected)
assert_close(fused_attention(q, k, v, causal), expected)
pytorch = F.scaled_dot_product_attention
assert_close(pytorch(q, k, v, attn_mask=causal), expected)
assert_close(pytorch(q, k, v, is_causal=True), expected)
print("equal to the package's and PyTorch's attention")

# %% tags=["remove-cell"]
# A version that visits only the keys that may be attended to cannot leak.
both = target_mask(target, 0)[0, 0]
for i in range(5):
    seen = both[i].nonzero()[:, 0]
    alone = (q[i] @ k[seen].T / math.sqrt(8)).softmax(dim=-1) @ v[seen]
    assert_close(masked_attention(q, k, v, both)[i], alone)
# is_causal=True aligns the triangle to the top left: one query sees only key 0.
assert_close(pytorch(q[-1:], k, v, is_causal=True), v[:1])

# %% [markdown]
# ### A query with nothing to attend to
#
# Sooner or later, some query will have no key left, for example because a sentence consists of padding only, or because the padding is on the left, where the first queries can see nothing but padding. In such a row all scores are $-\infty$, all
# exponentials are 0, and so is the sum that the softmax divides by. Our function returns NaN. The package's `attention` returns zeros for such a query, and so do current versions of PyTorch's function:

# %%
nothing = torch.zeros(5, 5, dtype=torch.bool)
print("ours:     ", masked_attention(q, k, v, nothing)[0, :3])
print("package's:", attention(q, k, v, nothing)[0][0, :3])
print("PyTorch's:", pytorch(q, k, v, attn_mask=nothing)[0, :3])

# %% [markdown]
# A NaN spreads through every sum that it enters, even with a weight of 0, because $0 \cdot \text{NaN}$ is NaN. So a mask in the next layer can't stop it: it reaches the loss, the gradient and, after one step, all
# weights of the model. Test this case in your own code. The package's `attention` uses a large negative number instead of $-\infty$, and multiplies the weights by the mask.
#
# <details><summary>How to avoid the NaN, and additive masks</summary>
#
# The lowest *finite* number instead of $-\infty$ avoids the NaN, but makes all scores of a fully masked row equal, so the output becomes the average
# of exactly what should be hidden. The product with the mask repairs that:
#
# ```python
# lowest = torch.finfo(scores.dtype).min
# weights = scores.masked_fill(~mask, lowest).softmax(dim=-1) * mask
# ```
#
# Many implementations use an **additive mask**: a float tensor that is added to the scores, with 0 where attention is allowed, and $-\infty$ or a low number such as `-1e9` elsewhere. In float16, a 16-bit number format that ends at ±65,504, `-1e9` overflows to $-\infty$, so a fully masked row is NaN again: use the lowest number of the dtype instead. But the sum of two such masks overflows in any dtype. So combine the masks as booleans first, and then overwrite the hidden scores once.
#
# </details>

# %% tags=["remove-cell"]
empty = torch.zeros(5, 5, dtype=torch.bool)
for form in (lambda *a: attention(*a)[0], fused_attention, pytorch):
    z = torch.randn(5, 8, requires_grad=True)
    output = form(z, z, z, empty)
    output.sum().backward()
    assert torch.equal(output, torch.zeros(5, 8)) and z.grad.isfinite().all()
assert torch.tensor(-1e9).to(torch.float16) == -math.inf
assert torch.finfo(torch.float16).max == 65504
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    assert torch.tensor(torch.finfo(dtype).min, dtype=dtype).mul(2) == -math.inf
scores = torch.tensor([2.0, 1, 0, 3])
no_key = torch.zeros(4, dtype=torch.bool)
lowest = torch.finfo(torch.float32).min
finite = scores.masked_fill(~no_key, lowest).softmax(dim=0)
assert torch.equal(finite, torch.full((4,), 0.25)) and not (finite * no_key).any()
assert scores.masked_fill(~no_key, -math.inf).softmax(dim=0).isnan().all()
assert masked_attention(q, k, v, nothing).isnan().all()
# A NaN in one row of values reaches a query that hides this row.
half = torch.tensor([[True, False]]).expand(2, 2)
spoilt = torch.tensor([[1.0], [math.nan]])
ones = torch.ones(2, 1)
assert masked_attention(ones, ones, spoilt, half).isnan().all()
try:
    scores.half().masked_fill(~no_key, -1e9)
except RuntimeError:
    pass
else:
    raise AssertionError("no error")

# %% [markdown]
# ## The causality test
#
# How can you check a whole model for leaks? Instead of looking at the mask, check what it is for: **if token $t$ changes, no output before position $t$ may
# change.** It doesn't matter how the mask was made or where it was applied, so this test also finds leaks that you haven't thought of. (It tests the model, not the data: see bug 5.) The function below is `outputs_that_change` from the [previous chapter](03_multi_head_attention.ipynb), but it changes token ids. The new token must differ from the ones that it replaces, and mustn't be `<pad>`, which would also change the mask. The model must be in `eval()` mode, because the randomness of dropout would look like a leak:


# %%
@torch.no_grad()
def outputs_that_change(function, target, new_id):
    """[i, t] is True if replacing token t by new_id changes output i."""
    original = function(target)  # (1, length, …)
    columns = []
    for t in range(target.size(1)):
        changed = target.clone()
        changed[:, t] = new_id
        difference = (function(changed) - original).abs()
        columns.append(difference.amax(dim=-1)[0] > 1e-6)  # more than rounding
    return torch.stack(columns, dim=1)


# %% [markdown]
# We run the test on a complete Transformer with random weights, from token ids to logits. Row $i$ shows which tokens change output $i$:

# %%
torch.manual_seed(0)
config = ModelConfig(
    vocab_size=len(vocabulary), d_model=32, n_heads=4, d_ff=64, n_layers=2
)  # chapters 6 and 7 explain d_ff and n_layers
model = Transformer(config).eval()
sentence = to_ids("<bos> it was tired")  # (1, 4)
today = vocabulary.index("today")  # a word that isn't in the sentence
changes = outputs_that_change(lambda ids: model(source[:1], ids), sentence, today)
assert torch.equal(changes, causal_mask(4)[0, 0])
changes

# %% [markdown]
# The table that the test measured is exactly the causal mask. This property makes teacher forcing legitimate: one pass over the whole target gives the same logits as separate passes over its prefixes, in which there is no future to see.

# %%
together = model(source[:1], sentence)  # (1, 4, vocabulary)
for n in range(1, 5):
    prefix = model(source[:1], sentence[:, :n])
    assert_close(prefix[:, -1], together[:, n - 1])
print("one pass equals four passes over prefixes")

# %% [markdown]
# A similar test works for padding: **adding more of it must not change the outputs of the real tokens.** We append three padding tokens to the source. Only rounding errors may remain:

# %%
short = source[:1, :3]
padded = F.pad(short, (0, 3))  # three times <pad>
change = (model(padded, sentence) - model(short, sentence)).abs().max()
print(f"largest change of a logit: {change:.5f}")

# %% tags=["remove-cell"]
from unittest.mock import patch

assert_close(model(padded, sentence), model(short, sentence))
assert change < 5e-6


def target_changes():
    longer = model(short, F.pad(sentence, (0, 3)))[:, :4]
    return (longer - model(short, sentence)).abs().max() > 1e-5


# The padding test fails without the source's mask. For the target, it can't fail.
with patch(
    "transformer.model.padding_mask", lambda ids, _: (ids == ids)[:, None, None]
):
    assert (model(padded, sentence) - model(short, sentence)).abs().max() > 1e-3
assert not target_changes()
with patch(
    "transformer.model.target_mask", lambda ids, _: causal_mask(ids.size(1))
):
    assert not target_changes()

# %% [markdown]
# ## What goes wrong in practice
#
# These bugs turn up again and again. All shapes fit, and nothing raises an error.
#
# **1. The mask is applied after the softmax.** The hidden weights are set to zero, which looks right. But their scores were already counted in the sum that the
# softmax divides by. The first symptom is that rows no longer sum to one:


# %%
def masked_too_late(x, mask):
    _, weights = attention(x, x, x)
    return weights * mask


torch.manual_seed(0)
embeddings = torch.randn(len(vocabulary), 8)
x = embeddings[sentence[0]]  # (4, 8)
causal = causal_mask(4)[0, 0]
print("row sums:", masked_too_late(x, causal).sum(dim=-1))

# %% [markdown]
# Worse, every output but the last depends on the future, because the softmax's denominator contains future scores. On paper, dividing each row by its sum afterwards would repair this. But in floating-point numbers, a very large hidden score pushes all other weights to 0, and then there is nothing left to divide. So mask the scores, not the weights.
#
# You can see the wrong sums in the interactive figure of the section *The padding mask*. Tick *the bug: mask after the softmax*, and no row sums to one any more. Without padding, the last row does, because nothing is hidden from it.

# %% tags=["remove-cell"]
late = masked_too_late(x, causal)
assert_close(late / late.sum(dim=-1, keepdim=True), attention(x, x, x, causal)[1])
extreme, visible = torch.tensor([0.0, 200]), torch.tensor([True, False])
late = extreme.softmax(dim=0) * visible
assert (late / late.sum()).isnan().all()
assert extreme.masked_fill(~visible, -math.inf).softmax(dim=0).tolist() == [1, 0]

# %% [markdown]
# **2. The mask is inverted.** Each word sees exactly what it shouldn't. This happens easily, because libraries disagree, and PyTorch even disagrees with itself:
#
# | mask | meaning |
# |---|---|
# | this course | True = may attend |
# | `attn_mask` of PyTorch's `scaled_dot_product_attention` | True = may attend |
# | `attn_mask` and `key_padding_mask` of `nn.MultiheadAttention` | True = hidden |
# | `attention_mask` of Hugging Face's models | 1 = token, 0 = padding |
#
# If we pass our mask to `nn.MultiheadAttention`, each word attends only to the future. The last one has no key left: depending on the version of PyTorch, its row is NaN or zeros.

# %%
layer = nn.MultiheadAttention(8, num_heads=1, batch_first=True)
_, weights = layer(x[None], x[None], x[None], attn_mask=causal)
weights[0].detach()

# %% tags=["remove-cell"]
last = weights[0, -1]
assert last.isnan().all() or not last.any()  # depending on PyTorch's version
assert not weights[0, :-1].isnan().any()
assert not weights[0, :-1].tril().any()  # nothing but the future
without, _ = layer(x[None], x[None], x[None], attn_mask=causal, need_weights=False)
assert not without.isnan().any()

# %% [markdown]
# The remedy is to pass `~causal` there. Don't count on a NaN to warn you: with `need_weights=False`, current versions silently return zeros for that row's attention.
#
# **3. The mask is off by one.** With `tril(diagonal=1)` instead of `tril()`, every position but the last sees one token too many, the very one that it should predict. This is the bug of model A in the first figure.
#
# The causality test finds all three:

# %%
one_too_many = torch.ones(4, 4, dtype=torch.bool).tril(diagonal=1)


def attention_with_bug(bug, ids):
    x = embeddings[ids]
    if bug == "after the softmax":
        return masked_too_late(x, causal) @ x
    mask = ~causal if bug == "inverted" else one_too_many
    return attention(x, x, x, mask)[0]


# %%
found = {}
for bug in ("after the softmax", "inverted", "off by one"):
    function = partial(attention_with_bug, bug)
    found[bug] = outputs_that_change(function, sentence, today)
    wrong = int((found[bug] != causal).sum())
    print(f"{bug:18} {wrong:2} of 16 cells are wrong")

# %% [markdown]
# The figure shows these cells. Orange ones are leaks: an output depends on a token that it mustn't see. White ones with an exclamation mark are missing dependencies. With the inverted mask, outputs 0 and 1 still depend on their own token, because it provides the query. Output 2 doesn't: it has a single key, which gets the weight 1 whatever the query is.

# %% tags=["hide-input"]
Row(
    *(
        Picture(
            mask_grid(
                changes,
                english[:4],
                english[:4],
                name,
                wrong=changes != causal,
                labels=("output", "token"),
            ),
            alt=(
                f"Causality test, mask {name}: {int((changes != causal).sum())} of "
                "16 cells differ from the lower triangle."
            ),
        )
        for name, changes in found.items()
    ),
    caption=(
        "Which inputs change which outputs under three mask bugs: filled cells "
        "with an exclamation mark are leaks, empty ones are missing dependencies."
    ),
)

# %% [markdown]
# **4. The head dimension is missing.** For scores of shape (batch, query, key), a padding mask of shape (batch, 1, key) is right. But with heads, the scores are (batch, heads, query, key). Broadcasting aligns dimensions from the right, so PyTorch reads the first dimension of the mask as heads, and head 1 uses the mask of sentence 1 in every sentence. Below, the last token of sentence 1 is padding, and the last token of sentence 2 is real. The tables show the largest weight that each head gives to that token, with a row for each sentence and a column for each of the two heads:

# %%
real = torch.tensor([[1, 1, 0], [1, 1, 1]]).bool()  # (batch, key)
q, k, v = torch.randn(3, 2, 2, 3, 4)  # (batch, heads, length, d_head)
_, right_weights = attention(q, k, v, real[:, None, None, :])
_, wrong_weights = attention(q, k, v, real[:, None, :])
print("right mask")
print(right_weights[..., 2].amax(dim=-1))
print("wrong mask")
print(wrong_weights[..., 2].amax(dim=-1))

# %% tags=["remove-cell"]
largest = right_weights[..., 2].amax(dim=-1)
assert not largest[0].any() and largest[1].all()
largest = wrong_weights[..., 2].amax(dim=-1)
assert not largest[:, 0].any() and largest[:, 1].all()

# %% [markdown]
# With the right mask, both heads hide the padding of sentence 1. With the wrong one, head 1 hides the last token in both sentences and head 2 shows it in both: each head got the mask of one sentence.
# No error was raised, because the batch happens to have as many sentences as the layer has heads. So test with a batch size that is neither 1 nor the number of heads: then PyTorch raises an error.

# %% [markdown]
# **5. The target isn't shifted.** Here the mask is right, but the input of the decoder is the same as its labels, so each position is given the token that it should
# predict. This is the bug of model B in the first figure. The mask must let a position see itself, so **the causality test cannot find this bug**. A check of the data finds it: the label at
# position $i$ must be the input at position $i + 1$:


# %%
def is_shifted(inputs, labels):
    return torch.equal(labels[:, :-1], inputs[:, 1:])


digits = torch.randint(10, (64, 9))
inputs, labels = digits[:, :-1], digits[:, 1:]  # the next digit is the label
print("shifted:", is_shifted(inputs, labels))
inputs = labels  # the bug
print("with the bug:", is_shifted(inputs, labels))

# %% [markdown]
# ### The three models of the first figure
#
# *Optional: no later chapter builds on this section.*
#
# Model A has bug 3, model B has bug 5, and model C has neither. Each has one layer of self-attention with a residual connection, which adds the layer's input to its output. The loss is the cross-entropy of the predictions on new random digits:


# %%
class DigitModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 32)
        self.attention = MultiHeadAttention(32, n_heads=4)
        self.predict = nn.Linear(32, 10)

    def forward(self, digits, mask):
        # The next chapter explains the encoding, which is added to the embedding.
        x = self.embed(digits) + sinusoidal_encoding(digits.size(1), 32)
        return self.predict(x + self.attention(x, mask=mask))  # (batch, length, 10)


# %%
def loss_on_random_digits(model, mask, shift=True):
    digits = torch.randint(10, (64, 9))
    labels = digits[:, 1:]  # the next digit at each of 8 positions
    inputs = digits[:, :-1] if shift else labels
    logits = model(inputs, mask).mT  # (batch, 10, length): digits in dimension 1
    return F.cross_entropy(logits, labels)


# %%
def train(mask, shift=True, steps=200):
    torch.manual_seed(0)
    model, losses = DigitModel(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(steps):
        loss = loss_on_random_digits(model, mask, shift)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


# %% [markdown]
# We train the three models, then test them under the conditions of inference, where no model can see the digit that it predicts: with the causal mask and shifted inputs. Guessing has a loss of 2.30:

# %%
one_too_many = torch.ones(8, 8, dtype=torch.bool).tril(diagonal=1)
runs = {
    "A, mask off by one": train(one_too_many),
    "B, not shifted": train(causal_mask(8), shift=False),
    "C, neither": train(causal_mask(8)),
}
print(f"{'':18}  in training  at inference")
for name, (model, losses) in runs.items():
    tested = loss_on_random_digits(model, causal_mask(8)).item()
    print(f"{name:18}  {losses[-1]:11.2f}  {tested:12.2f}")

# %% tags=["remove-cell"]
all_losses = [losses for _, losses in runs.values()]
losses_a, losses_b, losses_c = all_losses
for model, _ in list(runs.values())[:2]:
    assert loss_on_random_digits(model, causal_mask(8)) > math.log(10) + 1
assert losses_b[-1] < 0.05 and abs(losses_a[-1] - math.log(10) / 8) < 0.1
assert abs(losses_c[-1] - math.log(10)) < 0.05
for losses, stored in zip(all_losses, stored_losses.values(), strict=True):
    assert all(abs(a - b) < 0.1 for a, b in zip(losses[::5], stored, strict=True))

# %% [markdown]
# Model A has learned only to copy the next token, and model B to repeat the current one. At inference, both are much worse than guessing. Model A doesn't quite reach zero in training, because the last of its eight positions has no next token to look at: one prediction in eight is still a guess, and $2.30 / 8 \approx 0.29$.
#
# Remember this as a rule: **if a loss is too good to be true, look for a leak.** And make the causality test part of your own tests, as this course does.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. Which mask does cross-attention use?**
#
# <details><summary>A. The causal mask of the source</summary>
#
# No. The source has no future: it is complete before the first target token is generated, and all of it may be used.
#
# </details>
# <details><summary>B. The padding mask of the source</summary>
#
# **Right.** The keys come from the source, so the padding of the source has to be hidden.
#
# </details>
# <details><summary>C. The padding mask of the target</summary>
#
# No. The target provides the queries, and masks hide keys. The query of a padding token does no harm, because its output is never used.
#
# </details>
# <details><summary>D. The padding mask and the causal mask of the target</summary>
#
# No. These belong to the decoder's self-attention.
#
# </details>
#
# **2. A target has four tokens and no padding. How many of the 16 cells of its causal mask are True?**
#
# <details><summary>A. 6</summary>
#
# No. That is the triangle without the diagonal. No token could attend to itself, and the first row would be empty.
#
# </details>
# <details><summary>B. 10</summary>
#
# **Right.** 1 + 2 + 3 + 4: each row has one cell more than the row above it.
#
# </details>
# <details><summary>C. 13</summary>
#
# No. That is bug 3, one cell too many in the first three rows: 2 + 3 + 4 + 4.
#
# </details>
# <details><summary>D. 16</summary>
#
# No. That is no mask at all, as in an encoder without padding.
#
# </details>
#
# **3. The training loss of your translation model falls to 0.02 in the first epoch, and its translations are nonsense. What do you check first?**
#
# <details><summary>A. Whether a position can see the token that it predicts</summary>
#
# **Right.** Most likely the mask is off by one or the target isn't shifted. The causality test tells these apart: if it passes, the bug is in the data.
#
# </details>
# <details><summary>B. Whether the learning rate is too low</summary>
#
# No. With a low learning rate the loss falls slowly. This one falls much too fast.
#
# </details>
# <details><summary>C. Whether the padding of the source is hidden</summary>
#
# No. If padding is visible, the output of a sentence depends on how much padding its batch happens to need. But the source doesn't contain the answers, so seeing its padding can't explain such a low loss.
#
# </details>
# <details><summary>D. Whether the model is too small</summary>
#
# No. A model that is too small cannot reach such a low loss.
#
# </details>
#
# **4. A decoder-only model continues a batch of prompts that are padded on the left, with the causal mask alone. Which tokens are affected? And what is left to watch out for once you add the padding mask?**
#
# <details><summary>Answer</summary>
#
# All real tokens of the shorter prompts: the padding comes before them, so the causal mask lets them attend to it. With both masks they attend only to real tokens. But now the padding's own queries have no key at all. With a plain softmax their rows are NaN, and in the next layer the NaN reaches the real tokens, because $0 \cdot \text{NaN}$ is NaN. With the padding at the end, neither problem arises.
#
# </details>
#
# **5. At inference the decoder generates one token after another. Does it still need the causal mask?**
#
# <details><summary>Answer</summary>
#
# Not for the newest token, because there is no future to hide. But from the second layer on, the newest token attends to vectors that earlier layers computed at the earlier positions. If these are recomputed at each step, only the mask makes them the same as in training. A cache keeps their keys and values instead, as you will see in [Decoding](12_decoding.ipynb). The newest token is then the only query, no key comes after it, and no causal mask is needed. Leave out `is_causal=True` as well: it would treat this query as the one at position 0, and hide all keys but the first.
#
# </details>

# %% [markdown]
# ## Exercises
#
# The notebook has six blanks: both masks, their combination, the masked softmax, the shift of the target, and a decoder's self-attention in which you find three bugs by experiments. Each has a hint, and a check that tells you what is wrong.
#
# - In Colab, where the last cell grades your answers:
#   [04_masking](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/04_masking.ipynb).
#   On GitHub: [04_masking.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/04_masking.ipynb).
# - On your machine, open `exercises/04_masking.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade masking
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.

# %% [markdown]
# ## Going further
#
# - **In the paper:** [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762) say in §3.1 that a decoder position may depend only on earlier outputs, and in §3.2.3 that $-\infty$ inside the softmax
#   ensures it.
# - **The same idea without attention:** [Germain et al. (2015)](https://arxiv.org/abs/1502.03509) mask the weights of an ordinary network so that each output depends only on earlier inputs.
# - **Models without a causal mask:** BERT, by [Devlin et al. (2019)](https://aclanthology.org/N19-1423/), replaces some input words with a special token and learns to guess them. Every position may attend to both sides.
# - **Masks in between:** §3.2.1 of [Raffel et al. (2020)](https://arxiv.org/abs/1910.10683) compares three patterns: causal, fully visible, and causal with a fully visible prefix.
# - **Next:** [Positional encoding](05_positional_encoding.ipynb) tells attention where each word is.
