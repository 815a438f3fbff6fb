# %% [markdown]
# # Masking
#
# **You will be able to**
#
# - say which of the Transformer's three attentions uses which mask, and why;
# - build the padding mask and the look-ahead mask, and combine them;
# - hide a position so that nothing leaks and nothing turns into NaN;
# - catch the three classic mask bugs with one test that works on any model.
#
# **About 35 minutes.** It builds on [Attention](02_attention.ipynb): queries, keys, scores and the softmax.

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
# Attention lets everybody look at everybody. Twice, that is too much.
#
# **Padding.** Sentences are trained in batches, a batch is one tensor, and a tensor has straight edges. Short sentences are filled up with
# a token that means nothing, `<pad>`. It gets a vector like any other token, and a key, and a score. What keeps the words from looking at it?
#
# **The future.** The decoder learns to write a translation word by word. It is given `<bos> er war müde` ("it was tired", said of the dog; `<bos>` marks
# the beginning) and at each position it has to say the *next* word: after `<bos>` comes *er*, after *er* comes *war*. All
# positions are trained at once, which is what makes the Transformer fast. But then the answer to every question stands in the input, one
# place to the right. What keeps the model from copying it?
#
# One tool settles both: a **mask**, a table of yes and no. In this course it is boolean, and it always means the same:
#
# > **True = may attend.**

# %% [markdown]
# ## By hand
#
# The query of *it* has scored the four places of `it was tired <pad>`. By bad luck the padding's vector matches best.

# %%
scores = torch.tensor([2.0, 1, 0, 3])  # it, was, tired, <pad>
scores.exp(), scores.softmax(dim=0)

# %% [markdown]
# With $e^2 \approx 7.39$, $e^1 \approx 2.72$, $e^0 = 1$ and $e^3 \approx 20.09$, the padding takes $20.09 / 31.19$, about two thirds of
# the attention. *It* mostly looks at nothing.
#
# We want the three real words to share the whole, in the same proportions as before. So the padding's exponential has to be 0 **before**
# we divide by the sum: $7.39 + 2.72 + 1 = 11.11$. And $e^x$ is 0 where $x = -\infty$. That is all masking is: **a score of minus
# infinity for what may not be looked at** (§3.2.3).

# %%
mask = torch.tensor([True, True, True, False])  # True = may attend
weights = scores.masked_fill(~mask, -math.inf).softmax(dim=0)
print(weights)
print(f"by hand: {7.39 / 11.11:.2f}  {2.72 / 11.11:.2f}  {1 / 11.11:.2f}  0")

# %% [markdown]
# ## Two sentences, two masks
#
# Now for real: a batch of two sentences in each language. A word's id is its place in the vocabulary, and `<pad>` is 0.

# %%
words = "<pad> <bos> it was tired sour today er sie war müde heute sauer"
vocabulary = words.split()


def to_ids(*sentences):
    rows = [[vocabulary.index(word) for word in s.split()] for s in sentences]
    rows = [torch.tensor(row) for row in rows]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)  # filled up with 0


source = to_ids("it was tired", "it was sour today")  # (2, 4)
target = to_ids("<bos> er war müde", "<bos> sie war heute sauer")  # (2, 5)
source, target

# %% [markdown]
# **The padding mask** asks one thing of each token: are you real?

# %%
real = source != 0  # (2, 4): (sentence, key)
real

# %% [markdown]
# A mask has to fit the scores, which are (batch, heads, query, key). The padding mask depends on the sentence and on the key. It is the same for
# every head and for every query, so those two dimensions get size 1 and PyTorch stretches them as needed.

# %%
from transformer.masks import causal_mask, padding_mask, target_mask

by_hand = real[:, None, None, :]  # (2, 1, 1, 4)
assert torch.equal(padding_mask(source, pad_id=0), by_hand)
by_hand.shape

# %% [markdown]
# **The look-ahead mask**, also called *causal*: position $i$ may look at positions $0$ to $i$. Itself included, for the token at place $i$ has already been
# written; what is asked for is the next. It is a lower triangle: a row for each query, a column for each key.

# %%
places = range(5)
by_hand = torch.tensor([[key <= query for key in places] for query in places])
assert torch.equal(causal_mask(5)[0, 0], by_hand)
by_hand.int()

# %% [markdown]
# **Both at once** is a plain *and*: a key must be real **and** not lie in the future.

# %%
both = padding_mask(target, pad_id=0) & causal_mask(5)  # (2, 1, 5, 5)
assert torch.equal(target_mask(target, pad_id=0), both)
both.shape

# %% [markdown]
# ## The picture
#
# The first German sentence, with its one token of padding. **Read along a row: a filled cell is a word that this word may look at.** Padding
# empties a column. The future empties a triangle. The third is filled only where both are.

# %%
german = "<bos> er war müde <pad>".split()

# %% tags=["hide-input"]
from transformer.plots.masks import combined_masks, mask_explorer, mask_grid

Picture(
    combined_masks(
        padding_mask(target, 0)[0, 0],
        causal_mask(5)[0, 0],
        german,
        ("no padding", "no future", "both"),
    ),
    alt=(
        "Three grids of five by five cells. In the first the last column, the "
        "padding, is empty. In the second the cells above the diagonal, the "
        "future, are empty. The third is filled only where both are: a lower "
        "triangle without its last column."
    ),
)

# %% [markdown]
# The last row belongs to the padding itself. It may look at the real words, and nobody minds: nobody looks back at it, and
# the loss does not count it.
#
# **Now try it.** Put more or less padding at the end, switch each mask off and on, and point at a cell (or tap it) to read it. See how, with a mask on, each row
# still sums to one, and how the first row has no choice at all.

# %% tags=["hide-input"]
torch.manual_seed(1)
mask_explorer(
    "<bos> er war sehr müde .".split(),
    torch.randn(6, 6),
    description=(
        "A grid of the attention weights of a six-token sentence, one row a "
        "query. A slider puts padding at its end, two boxes switch the masks; "
        "hidden cells become crosses and the row's other weights grow. A line "
        "below reads the cell that is pointed at, such as: er may not "
        "attend to sehr (future)."
    ),
)

# %% [markdown]
# ## The three places
#
# The Transformer attends in three places (§3.2.3), and each hides something else:
#
# | where | queries from | keys from | hides |
# |---|---|---|---|
# | encoder, self-attention | source | source | source padding |
# | decoder, self-attention | target | target | target padding **and** the future |
# | decoder, cross-attention | target | source | source padding |
#
# The source has no future: the sentence to be translated is there from the first to the last word, and every word may look at all of it. And in
# cross-attention it is the *keys'* padding that counts, so a German query needs the English mask.

# %%
english = "it was tired <pad>".split()
english_padding = padding_mask(source, 0)[0, 0]  # (1, 4)

# %% tags=["hide-input"]
columns = english_padding.expand(5, 4)
Row(
    Picture(
        mask_grid(columns[:4], english, english, "encoder"),
        alt="Encoder: only the padding's column is empty.",
    ),
    Picture(
        mask_grid(both[0, 0], german, german, "decoder, self"),
        alt="Decoder: a lower triangle, and the padding's column is empty.",
    ),
    Picture(
        mask_grid(columns, german, english, "decoder, cross"),
        alt=(
            "Cross-attention: five German rows, four English columns; only the "
            "English padding's column is empty."
        ),
    ),
)

# %% [markdown]
# Is that what the model really does? We need not believe a table. Build a small Transformer, listen at the door of every attention, and look at
# the masks that come in.

# %%
from transformer.attention import MultiHeadAttention, attention, fused_attention
from transformer.config import ModelConfig
from transformer.model import Transformer

torch.manual_seed(0)
shape = ModelConfig(len(vocabulary), d_model=32, n_heads=4, d_ff=64, n_layers=1)
model = Transformer(shape).eval()

# %%
heard = {}


def listen(name):
    return lambda module, inputs, named: heard.update({name: named["mask"]})


for name, module in model.named_modules():
    if isinstance(module, MultiHeadAttention):
        module.register_forward_pre_hook(listen(name), with_kwargs=True)

# %%
model(source, target)
from_source, from_target = padding_mask(source, 0), target_mask(target, 0)
wanted = (from_source, from_target, from_source)
for (name, mask), expected in zip(heard.items(), wanted, strict=True):
    assert torch.equal(mask, expected)
    print(f"{name:26} mask {tuple(mask.shape)}")

# %% [markdown]
# ## The code
#
# **First as loops.** A mask in a loop is an `if`: a hidden key is never visited. This version is slow and cannot leak, so it is what we
# hold the others to.


# %%
def attention_by_loops(query, key, value, mask):
    output = torch.zeros(len(query), value.size(1))  # (n_query, d_v)
    for i, q in enumerate(query):
        seen = [j for j in range(len(key)) if mask[i, j]]
        if seen:  # otherwise there is nothing to blend: zeros
            scores = torch.stack([q @ key[j] for j in seen]) / math.sqrt(len(q))
            for weight, j in zip(scores.softmax(dim=0), seen, strict=True):
                output[i] += weight * value[j]
    return output


# %% [markdown]
# **Then as matrices.** All scores are computed, and the hidden ones are filled before the softmax.


# %%
def attention_by_matrices(query, key, value, mask):
    scores = query @ key.T / math.sqrt(query.size(-1))  # (n_query, n_key)
    scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ value  # (n_query, d_v)


torch.manual_seed(0)
q, k, v = torch.randn(5, 8), torch.randn(5, 8), torch.randn(5, 3)
mask = both[0, 0]  # (5, 5)
expected = attention_by_loops(q, k, v, mask)
assert_close(attention_by_matrices(q, k, v, mask), expected)

# %% [markdown]
# **Against the package**, and against PyTorch's `scaled_dot_product_attention`, whose boolean mask means the same as ours:

# %%
assert_close(attention(q, k, v, mask)[0], expected)
for other in (fused_attention, F.scaled_dot_product_attention):
    assert_close(other(q, k, v, mask), expected)
print("loops = matrices = package = PyTorch")

# %% [markdown]
# The package's masks, from their file. They are as short as the idea:

# %%
SourceCode(padding_mask, causal_mask, target_mask)

# %% [markdown]
# ## A row with nothing to look at
#
# A sentence that is all padding, a batch filled up with empty rows: sooner or later a query may look at nothing. Then every score is
# $-\infty$, every exponential 0, and the softmax divides 0 by 0. That is NaN, and a single NaN spreads through every sum it meets: the loss, the gradient, then all weights
# of the model.
#
# The lowest *finite* number in place of $-\infty$ avoids the division by zero. But then all scores are equally low, and the empty row becomes a
# mean of exactly what it may not see. So the package does one thing more: **after the softmax it sets what is hidden to zero**. Nothing to
# look at, nothing brought back.

# %%
nothing = torch.zeros(4, dtype=torch.bool)
low = scores.masked_fill(~nothing, torch.finfo(torch.float32).min).softmax(dim=0)
print("minus infinity ", scores.masked_fill(~nothing, -math.inf).softmax(dim=0))
print("lowest number  ", low)
print("and then zeros ", low.masked_fill(~nothing, 0))

# %% [markdown]
# We hold the package to it, outputs and gradients, in both of its forms:

# %%
empty = torch.zeros(5, 5, dtype=torch.bool)
for form in (lambda *a: attention(*a)[0], fused_attention):
    x = torch.randn(5, 8, requires_grad=True)
    output = form(x, x, x, empty)
    output.sum().backward()
    assert torch.equal(output, torch.zeros(5, 8)) and x.grad.isfinite().all()
print("zeros, never NaN, forwards and backwards")

# %% [markdown]
# Why not simply write `-1e9`, as many programs do? Because float16 ends at 65504. There `masked_fill` refuses it, and where it is added to the scores it is
# minus infinity again, and the NaN is back. (bfloat16 reaches further.) `torch.finfo(dtype).min` fits every type.

# %%
torch.tensor(-1e9).to(torch.float16), torch.finfo(torch.float16).min

# %% [markdown]
# ## The causality test
#
# Here is the look-ahead mask as a claim about the **whole model**: *change token* $t$*, and no output before* $t$ *moves*. It does not ask how the mask was
# made or where it was applied. So it catches every leak, also those that nobody thought of. It fits in a few lines:


# %%
@torch.no_grad()
def who_moves(read, target):
    """[i, t] is True if output i moves when token t is replaced."""
    new = vocabulary.index("heute")  # a word that is not in the sentence
    before = read(target)  # (1, length, …)
    columns = []
    for t in range(target.size(1)):
        changed = target.clone()
        changed[:, t] = new
        moved = (read(changed) - before).abs() > 1e-6
        columns.append(moved.any(dim=-1)[0])
    return torch.stack(columns, dim=1)  # (output, token)


# %% [markdown]
# Run it on the Transformer, with its embeddings, its layers and its vocabulary around the mask. The picture that we measure is the mask
# itself, though the test knows nothing of masks:

# %%
sentence = to_ids("<bos> er war müde")  # (1, 4)
moves = who_moves(lambda ids: model(source[1:], ids), sentence)
assert torch.equal(moves, causal_mask(4)[0, 0])

# %% tags=["hide-input"]
labels = ("output at …", "moves when this token changes")
Picture(
    mask_grid(moves, german[:4], german[:4], labels=labels),
    alt=(
        "Measured on the model: which output moves when which token changes. The "
        "filled cells are exactly the lower triangle."
    ),
)

# %% [markdown]
# Padding has such a test too: **more of it must change nothing.** One sentence, alone and with three tokens of padding behind it, on both sides:

# %%
alone = model(source[:1, :3], target[:1, :4])
padded = model(F.pad(source[:1, :3], (0, 3)), F.pad(target[:1, :4], (0, 3)))
assert_close(padded[:, :4], alone)
print("the real words' outputs are the same")

# %% [markdown]
# ## What goes wrong in practice
#
# Three bugs, seen again and again. All shapes fit, nothing is raised. We plant each in a small attention and let the test find it.
#
# **Bug 1: mask after the softmax.** The hidden weights are zeroed, which looks right. But the future has already been counted in the sum
# below the fraction line.


# %%
def masked_too_late(x, mask):
    _, weights = attention(x, x, x)
    return weights * mask


torch.manual_seed(0)
vectors = torch.randn(len(vocabulary), 8)  # one for each word
x, causal = vectors[sentence[0]], causal_mask(4)[0, 0]
late = masked_too_late(x, causal)
print("sums of the rows", late.sum(dim=-1))

# %% [markdown]
# Rows that do not sum to one are the first sign. The second is worse. Replace only the *last* word, and the output of the *first* moves:
# it can feel the future through the sum.

# %%
other = x.clone()
other[3] = vectors[vocabulary.index("heute")]
change = (masked_too_late(other, causal) @ other - late @ x).abs().amax(dim=-1)
print("largest change of each output", change)

# %% [markdown]
# **In the book, build a mask yourself.** Press cells to hide them, then switch the bug on: which rows still sum to one? Take the padding away, and one of them recovers. Why that one?
#
# <div class="widget" data-widget="masks">
#
# *With JavaScript, the book has a picture to play with here. This is how it begins.*
#
# Weights with the future and one token of padding hidden before the softmax:
#
# | | `<bos>` | er | war | sehr | `<pad>` | sum |
# |---|---|---|---|---|---|---|
# | `<bos>` | 1.00 | – | – | – | – | 1.00 |
# | er | 0.77 | 0.23 | – | – | – | 1.00 |
# | war | 0.10 | 0.69 | 0.21 | – | – | 1.00 |
# | sehr | 0.35 | 0.09 | 0.39 | 0.17 | – | 1.00 |
# | `<pad>` | 0.09 | 0.31 | 0.17 | 0.42 | – | 1.00 |
#
# </div>

# %% [markdown]
# **Bug 2: the mask inverted.** Each word sees exactly what it should not. It happens easily, since libraries disagree. In PyTorch itself, True means *may attend* in
# `scaled_dot_product_attention` and *may not* in `nn.MultiheadAttention`. Give the second our mask:

# %%
layer = nn.MultiheadAttention(8, num_heads=1, batch_first=True)
_, weights = layer(x[None], x[None], x[None], attn_mask=causal)
weights[0].detach()

# %% [markdown]
# The first word looks only at the future. The last may look at nothing, and turns to NaN. There, it has to be `~causal`.
#
# **Bug 3: off by one.** A diagonal of 1 in place of 0, and every word sees one word too many, the very one that it has to predict.
#
# The causality test finds all three. Marked cells are where the measured picture differs from the mask. (In the inverted one the
# diagonal stays filled: a word's own query still matters, even where its key is hidden.)

# %%
one_more = torch.ones(4, 4, dtype=torch.bool).tril(diagonal=1)
forms = {
    "right": lambda x: attention(x, x, x, causal)[0],
    "after the softmax": lambda x: masked_too_late(x, causal) @ x,
    "inverted": lambda x: attention(x, x, x, ~causal)[0],
    "off by one": lambda x: attention(x, x, x, one_more)[0],
}
moves, wrong = {}, {}
for name, form in forms.items():
    moves[name] = who_moves(lambda ids, form=form: form(vectors[ids]), sentence)
    wrong[name] = moves[name] != causal
    print(f"{name:18} {int(wrong[name].sum()):2} of 16 cells are wrong")

# %% tags=["hide-input"]
Row(
    *(
        Picture(
            mask_grid(moves[name], german[:4], german[:4], name, wrong=wrong[name]),
            alt=(
                f"Causality test of the mask {name}: {int(wrong[name].sum())} of "
                "16 cells differ from the lower triangle."
            ),
        )
        for name in list(forms)[1:]
    )
)

# %% [markdown]
# ### What a cheat looks like in training
#
# Bug 3 has a twin: the mask is right, but the target was **not shifted**, so the model is given the very token that it is to predict. Both let
# it cheat. And both make the loss look *wonderful*, which is why they live so long.
#
# To see it, we let a small model predict **dice**: random digits, which nobody can predict. The best honest loss is that of guessing,
# $\ln 10 \approx 2.303$. Whoever is below that, is looking at the answer.


# %%
from transformer.positions import sinusoidal_encoding


class Guesser(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 32)
        self.attend = MultiHeadAttention(32, n_heads=4)
        self.guess = nn.Linear(32, 10)

    def forward(self, digits, mask):
        x = self.embed(digits) + sinusoidal_encoding(digits.size(1), 32)
        return self.guess(x + self.attend(x, mask=mask))


# %%
def loss_of(model, mask, shift=True):
    digits = torch.randint(10, (64, 9))
    wanted = digits[:, 1:]  # (64, 8)
    given = digits[:, :-1] if shift else wanted
    return F.cross_entropy(model(given, mask).mT, wanted)


# %%
def train(mask, shift=True, steps=200):
    torch.manual_seed(0)
    model, losses = Guesser(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(steps):
        loss = loss_of(model, mask, shift)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


# %%
causal = causal_mask(8)
one_more = torch.ones(8, 8, dtype=torch.bool).tril(diagonal=1)
cheat, peeking = train(one_more)
_, unshifted = train(causal, shift=False)
_, honest = train(causal)
lines = {"off by one": peeking, "not shifted": unshifted, "honest": honest}
print(f"guessing    {math.log(10):.2f}")
for name, losses in lines.items():
    print(f"{name:11} {losses[-1]:.2f}")

# %% tags=["hide-input"]
from transformer.plots.curves import curves

guessing = ("guessing, ln 10", math.log(10))
Picture(
    curves(range(200), lines, "step", "Loss on random digits", reference=guessing),
    alt=(
        "Three loss curves over 200 steps. The honest one stays at the level of "
        "guessing, 2.303. With the mask off by one it falls to 0.3, with the "
        "target not shifted to zero."
    ),
)

# %% [markdown]
# The last of the eight positions has no next one to peek at, so *off by one* does not quite reach zero: one guess in eight is still
# honest, and $2.303 / 8 \approx 0.29$.
#
# When a model really translates there is no future to look at, and the cheat has learned nothing else. Give it the right mask, and it does
# much worse than guessing:

# %%
with torch.no_grad():
    without = loss_of(cheat, causal)
assert without > math.log(10)
print(f"with the right mask {without:.2f}, guessing {math.log(10):.2f}")

# %% [markdown]
# Remember it as a rule: **a loss that is too good to be true is not true.** And put the causality test among your tests; it is in this
# course's.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. Which mask does cross-attention use?**
#
# <details><summary>A. The look-ahead mask of the source</summary>
#
# No. The source has no future: it is complete before the first target word is written, and every word of it may be used.
#
# </details>
# <details><summary>B. The padding mask of the source</summary>
#
# **Right.** The keys come from the source, so it is the source's padding that has to be hidden.
#
# </details>
# <details><summary>C. The padding mask of the target</summary>
#
# No. The target gives the queries. Hiding happens along the keys; a padded query does no harm, since nobody uses its output.
#
# </details>
# <details><summary>D. Padding and look-ahead of the target</summary>
#
# No. That is the decoder's self-attention, the layer's first attention.
#
# </details>
#
# **2. A target of four tokens, no padding. How many of the 16 cells of its causal mask are True?**
#
# <details><summary>A. 6</summary>
#
# No. This is the triangle without the diagonal: nobody could see itself, and the first row would be empty.
#
# </details>
# <details><summary>B. 10</summary>
#
# **Right.** 1 + 2 + 3 + 4: each row has one cell more than the row above it.
#
# </details>
# <details><summary>C. 13</summary>
#
# No. This is bug 3, one cell too many in the first three rows: 2 + 3 + 4 + 4.
#
# </details>
# <details><summary>D. 16</summary>
#
# No. This is no mask at all, right for the encoder.
#
# </details>
#
# **3. Your translator's training loss falls to 0.02 in the first epoch, and its translations are rubbish. What do you check first?**
#
# <details><summary>A. Whether a position can see the token that it predicts</summary>
#
# **Right.** Off by one, or not shifted. The causality test tells you which: with the shift missing, the test passes, and the mistake is in the data.
#
# </details>
# <details><summary>B. Whether the learning rate is too low</summary>
#
# No. A low rate makes the loss fall slowly. This one falls much too fast.
#
# </details>
# <details><summary>C. Whether the source padding is hidden</summary>
#
# No. Unhidden padding makes the model somewhat worse, in training as in use. It gives no answers away.
#
# </details>
# <details><summary>D. Whether the model is too small</summary>
#
# No. Too small a model cannot reach a low loss at all.
#
# </details>
#
# **4. Padding stands at the end. Isn't the look-ahead mask enough, then, for the decoder's self-attention?**
#
# <details><summary>Answer</summary>
#
# Nearly. A real word never looks to its right, so it never sees padding that stands at the end. Only the padding's own rows do, and nobody uses
# those. The combined mask costs nothing and stays right when padding stands elsewhere, at the start for instance. In the encoder and in cross-attention there is no look-ahead mask, so there the padding mask is indispensable.
#
# </details>
#
# **5. When the model translates, it writes one word after the other. Does it need the look-ahead mask then?**
#
# <details><summary>Answer</summary>
#
# Not for the newest word: the future does not exist yet, so there is nothing to hide. But if earlier positions are computed again at each step,
# they must see just what they saw in training, and there the mask is needed. A cache of keys and values avoids both, the work and the mask.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Five blanks: both masks, the two combined, the masked softmax, and the shift of the target. Each has a check that says what is wrong,
# and a hint.
#
# - In Colab:
#   [04_masking](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/04_masking.ipynb).
#   On GitHub: [04_masking.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/04_masking.ipynb).
# - On your machine, open `exercises/04_masking.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade masking
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).

# %% [markdown]
# ## Going further
#
# - **The paper on masks** is short: §3.1 says that a decoder position may depend only on earlier ones, and §3.2.3 how, by $-\infty$ inside the softmax
#   {cite}`vaswani2017`.
# - **The same idea without attention:** {cite}`germain2015` mask the weights of an ordinary network so that each output sees only earlier inputs.
# - **Other masks, other models:** {cite}`devlin2019` drop the look-ahead mask and hide *words* instead; §3.2.1 of {cite}`raffel2020`
#   draws three kinds of mask side by side, one that looks back, one that sees everything, and one in between.
