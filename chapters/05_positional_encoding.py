# %% [markdown]
# # Positional encoding
#
# **You will be able to**
#
# - show that attention alone reads a bag of words, and say why;
# - compute the paper's encoding with pencil and paper, and read its heat map by rows and by columns;
# - prove that a shift is a rotation, and build from it a head that looks three places back;
# - say what sinusoids, a learned table and rotary positions do with a sentence longer than any in training;
# - catch five position bugs that raise no error.
#
# **About 45 minutes.** It builds on [Attention](02_attention.ipynb) and [Masking](04_masking.ipynb), and on the sine and cosine from school.

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
import copy
import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The question
#
# > The dog bites the man.
# >
# > The man bites the dog.
#
# Five words, the same five. Only their places differ, and with them the news value. What does a Transformer make of the difference?
#
# A small encoder answers. `positions` is the table that it adds to the word vectors; in a copy of the model we take it away. `swapped` says
# where each word of the second sentence stands in the first.

# %%
from transformer.config import ModelConfig
from transformer.model import Transformer

words = "<pad> the dog bites man".split()
ids = torch.tensor([[words.index(w) for w in "the dog bites the man".split()]])
swapped = [0, 4, 2, 3, 1]
print(*[words[i] for i in ids[0, swapped]])

torch.manual_seed(0)
shape = ModelConfig(len(words), d_model=32, n_heads=4, d_ff=64, n_layers=2)
model = Transformer(shape).eval().requires_grad_(False)
bag = copy.deepcopy(model)
bag.positions = None  # nothing is added any more

# %%
before, after = bag.encode(ids)[0], bag.encode(ids[:, swapped])[0]  # (1, 5, 32)
assert_close(after, before[:, swapped])
print("without positions: the same vectors")

before, after = model.encode(ids)[0], model.encode(ids[:, swapped])[0]
moved = (after - before[:, swapped]).abs().amax(dim=-1)[0]
assert (moved > 0.01).all()
print("with positions, moved by up to")
print(moved)

# %% [markdown]
# Without positions *dog* has **exactly the same vector, whether it bites or is bitten**. Permute the words, and the outputs are the same ones,
# permuted. It could not be otherwise. Everything in the encoder either treats each word alone (the matrices, the feed-forward, the norm) or adds
# up over all of them (attention), and a sum does not care about the order of its terms.
#
# A recurrent network has no such trouble, for it reads one word after the other. Attention reads all at once, so the order must be written into the vectors. **What is a good name for a place?** The number itself grows, and at place 500 drowns the word.
# The number divided by the sentence's length stays small, but then one step means something else in every sentence. We want names that stay
# small, that differ, that exist for any length, and in which *one step further* means the same everywhere.

# %% [markdown]
# ## By hand
#
# Counting in binary has most of that. The digits stay small, and no two numbers share a name:

# %%
for pos in range(8):
    print(pos, f"{pos:03b}")

# %% [markdown]
# Read it by columns. The last digit changes at every step, the one before it at every second, the first at every fourth: **fast wheels and slow
# wheels**. The fast ones tell neighbours apart, the slow ones tell which part of the sentence this is.
#
# What is bad about it is the jump. From 3 to 4 all digits change, from 2 to 3 only one, and both are a single step. So replace each wheel by
# something that moves smoothly: **the hand of a clock**. The first hand is fast, each next one slower.
#
# A hand is written down by its tip, as two numbers: how far to the right, $\sin$ of the angle, and how far up, $\cos$. (It starts at twelve
# and turns clockwise.) One of the two would not do: the sine of 30° is also that of 150°.
#
# The smallest example has four numbers, so two hands. The first turns by 1 radian at each position, about 57°. The second is a hundred
# times slower. At **position 2** the angles are $2$ and $0.02$:

# %%
from transformer.positions import angles, rotary_table, rotate, sinusoidal_encoding

by_hand = torch.tensor([math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)])
assert_close(sinusoidal_encoding(length=3, d_model=4)[2], by_hand)
by_hand

# %% [markdown]
# Why a second hand? A full turn takes the first one $2\pi \approx 6.28$ positions. Seven turns take $43.98$, so at position 44 it stands
# almost where it began, as a minute hand does at a quarter past one and a quarter past two. The slow hand knows the hour:

# %%
sinusoidal_encoding(45, 4)[[0, 44]]  # two positions, two hands each

# %% [markdown]
# That is the whole encoding. With $d_\text{model}$ numbers there are $d_\text{model} / 2$ hands, counted by $i$ from 0 (§3.5):
#
# $$
# \begin{aligned}
# p_{\text{pos},\,2i} &= \sin(\omega_i\,\text{pos}) \\
# p_{\text{pos},\,2i+1} &= \cos(\omega_i\,\text{pos}) \\
# \omega_i &= 10000^{-2i/d_\text{model}}
# \end{aligned}
# $$
#
# A hand's **wavelength** $\lambda_i = 2\pi/\omega_i$ is the number of positions to a full turn. Each is longer than the one before by the same
# factor, so the wavelengths form a geometric progression from $2\pi$ towards $10000 \cdot 2\pi$. (The formula stops one factor short of its upper end.)

# %%
wavelength = 2 * math.pi / angles(2, 512)[1]  # (256,): hands of the base model
factor = wavelength[1:] / wavelength[:-1]
assert_close(factor, torch.full_like(factor, 10000 ** (2 / 512)))
print(f"{len(wavelength)} hands, each {factor[0]:.4f} times slower")
print(f"wavelengths from {wavelength[0]:.2f} to {wavelength[-1]:,.0f}")
print(f"10000 · 2π is    {10000 * 2 * math.pi:,.0f}")

# %% [markdown]
# ## The picture
#
# Sixteen numbers, eight clocks. **Move the position** and watch: the first hand races, leaving a dot wherever it has been; no two of its dots ever fall
# on the same spot, since $\pi$ is no fraction. The last four hardly stir. They are there for texts of thousands of words. **Choose pair 0** and
# go to position 44: the dot that the hand almost hits is position 0.

# %% tags=["hide-input"]
from transformer.plots import positional_encoding as plots

plots.clocks(
    d_model=16,
    length=64,
    description=(
        "Eight clocks in two rows, one for each pair of dimensions, with "
        "wavelengths from 6.3 to 19,869 positions. A slider sets the position: "
        "the first hand moves by 57 degrees a step, each next one less, the last "
        "ones not visibly. A second slider chooses a pair, whose sine and cosine "
        "waves are drawn below with the two values at the position."
    ),
)

# %% [markdown]
# Write the clocks' numbers side by side, one row for each position, and you have the encoding as a table. **A row** is all clocks at one moment: the
# vector that is added to the word at that position. **A column** is one number of one hand through time: a wave. On the left the waves are fast; to the
# right they get slower, until within this window sines stay near 0 and cosines near 1. **Point at a cell, or tap it.**

# %% tags=["hide-input"]
plots.encoding_heat_map(
    sinusoidal_encoding(48, 32),
    description=(
        "A heat map of the encoding, 48 positions by 32 dimensions. The left "
        "columns change from row to row, further right they form ever longer "
        "waves, and the right third is plain stripes of 0 and 1. Pointing at a "
        "cell reads its value and wavelength, and draws its column as a wave below."
    ),
)

# %% [markdown]
# ## The code
#
# **First as loops**, straight from the formula.


# %%
def encoding_by_loops(length, d_model):
    encoding = torch.zeros(length, d_model)
    for pos in range(length):
        for i in range(d_model // 2):
            angle = pos / 10000 ** (2 * i / d_model)
            encoding[pos, 2 * i] = math.sin(angle)
            encoding[pos, 2 * i + 1] = math.cos(angle)
    return encoding


# %% [markdown]
# **Then as a table.** A column of positions times a row of frequencies is the table of all angles. `stack` and `flatten` lay sine and cosine
# side by side: sin, cos, sin, cos, …


# %%
def encoding_by_table(length, d_model):
    frequency = 10000 ** (-torch.arange(0, d_model, 2) / d_model)  # (d_model / 2,)
    angle = torch.arange(length)[:, None] * frequency  # (length, d_model / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


expected = sinusoidal_encoding(50, 32)  # (50, 32)
assert_close(encoding_by_loops(50, 32), expected)
assert_close(encoding_by_table(50, 32), expected)

# %% [markdown]
# **The package** does the same, once, when the model is made. The angles are computed with twice the digits; at the end of this chapter you will see what happens
# with too few.

# %%
SourceCode(angles, sinusoidal_encoding)

# %% [markdown]
# And this is all that the model does with it: word vectors times $\sqrt{d_\text{model}}$, plus the first rows of the table.

# %%
vectors = model.source_embedding(ids) * math.sqrt(32)  # (1, 5, 32)
assert_close(model.embed(ids, model.source_embedding), vectors + expected[:5])

# %% [markdown]
# ## Near and far
#
# How alike are two positions? The measure is the dot product, since attention has no other. Two steps, the second by the school formula for
# $\cos(a - b)$:
#
# $$
# \begin{aligned}
# p_m \cdot p_n &= \textstyle\sum_i \big(\sin \omega_i m\,\sin \omega_i n \\
# &\qquad\ \ + \cos \omega_i m\,\cos \omega_i n\big) \\
# &= \textstyle\sum_i \cos\big(\omega_i (m - n)\big)
# \end{aligned}
# $$
#
# $m$ and $n$ are gone, only $m - n$ is left: **the dot product knows the distance and nothing else.** At distance 0 every cosine is 1, so all
# position vectors are equally long, $\sqrt{d_\text{model}/2}$.

# %%
encoding = sinusoidal_encoding(1100, 512)
products = encoding @ encoding.T  # (1100, 1100)
assert_close(products[1:, 1:], products[:-1, :-1], atol=1e-3, rtol=0)
by_distance = angles(1100, 512).cos().sum(dim=-1).float()  # (1100,)
assert_close(products[0], by_distance, atol=1e-3, rtol=0)
print(f"distance 0: {products[0, 0]:.0f}, which is 512 / 2")

# %% [markdown]
# It falls with the distance. But how? At distance $k$, hands with wavelengths far above $k$ have hardly moved: their cosines are still 1. Hands
# far faster than that point anywhere and cancel out. What counts is how many slow hands are left. The wavelengths are evenly spaced on a
# *logarithmic* scale, so **each doubling of the distance silences equally many hands.** Summed up as an integral, the share that is left is
#
# $$ \frac{p_m \cdot p_n}{d_\text{model}/2} \approx 1 - \frac{\ln k + \gamma}{\ln 10000} $$
#
# where $\gamma \approx 0.577$ is Euler's constant. A straight line, if $k$ is drawn in doublings:

# %%
share = by_distance / 256
doublings = [2**n for n in range(11)]  # 1, 2, 4, … 1024
line = [1 - (math.log(k) + 0.5772) / math.log(10000) for k in doublings]
assert (share[doublings] - torch.tensor(line)).abs().max() < 0.05
bumps = [k for k in range(1, 100) if share[k + 1] > share[k]]
print("it rises a little after", bumps[:4], "…")

# %% tags=["hide-input"]
from transformer.plots.curves import curves

Row(
    Picture(
        curves(
            range(101),
            {"p·p, as a share": share[:101].tolist()},
            "distance",
            "Near positions, step by step",
        ),
        alt=(
            "The dot product as a share of its maximum over distances 0 to 100: "
            "it falls steeply from 1 to about 0.7 within ten steps and then ever "
            "more slowly, in small waves, to about 0.4."
        ),
    ),
    Picture(
        curves(
            doublings,
            {"p·p, as a share": share[doublings].tolist(), "the line": line},
            "distance, in doublings",
            "Far positions, by doublings",
            log2_x=True,
        ),
        alt=(
            "The same share over distances 1, 2, 4 to 1024 on a logarithmic axis: "
            "the points lie close to a straight line from about 0.95 to 0.2."
        ),
    ),
)

# %% [markdown]
# So the encoding is a **logarithmic ruler**. The step from 1 to 2 counts about as much as the one from 500 to 1000. For language that is a sensible
# measure: whether a word is the neighbour or the one after it matters; whether it stands 500 or 501 places away does not. And it falls in waves,
# so that a nearer position is not always the more alike.

# %% [markdown]
# ## A shift is a rotation
#
# The paper gives two reasons for sinusoids (§3.5). One, sentences longer than those of the training, is tested below. The other: a model should find it easy to attend by *relative* position, such as "three places back", wherever it
# stands. Here is what makes it easy. Going two positions on turns a hand by two steps, **whatever it showed before**:

# %% tags=["hide-input"]
Picture(
    plots.relative_offset(frequency=1.0, starts=(1, 4, 9), offset=2),
    alt=(
        "Three clocks. The hand is shown at positions 1, 4 and 9 in grey and two "
        "positions later in colour. It starts somewhere else each time, but the "
        "arc between the two hands is the same."
    ),
)

# %% [markdown]
# Turning is linear. For one pair and the angle $b = \omega_i k$, the addition formulas of sine and cosine say
#
# $$ \begin{pmatrix} \sin(a{+}b) \\ \cos(a{+}b) \end{pmatrix} =
# \begin{pmatrix} \cos b & \sin b \\ -\sin b & \cos b \end{pmatrix} \begin{pmatrix} \sin a \\ \cos a \end{pmatrix} $$
#
# The matrix contains $b$ but not $a$: the shift, and not the place. One such block for each pair, along the diagonal, makes the matrix $M_k$, and
# **$p_{\text{pos}+k} = M_k\, p_\text{pos}$ for every position.**


# %%
def shift_matrix(k, d_model):
    blocks = []
    for b in k * angles(2, d_model)[1]:  # the hand's angle from 0 to k
        sin, cos = b.sin().item(), b.cos().item()
        blocks.append(torch.tensor([[cos, sin], [-sin, cos]]))
    return torch.block_diag(*blocks)  # (d_model, d_model)


p = sinusoidal_encoding(200, 16)
for k in (1, 3, 50):
    assert_close(p[:-k] @ shift_matrix(k, 16).T, p[k:], atol=1e-5, rtol=0)
shift_matrix(3, 4)

# %% [markdown]
# **In the book, turn the hands yourself.** Set the distance $k$, then move the position: the hands race, and what each is turned by stays. Then make the base smaller. What becomes of the slow hands?
#
# <div class="widget" data-widget="positions">
#
# *With JavaScript, the book has a picture to play with here. This is how it begins.*
#
# Two positions, 3 and 5, four pairs, base 10,000:
#
# | pair | a full turn | position 3 | position 5 | turned by |
# |---|---|---|---|---|
# | 0 | 6.3 | (0.14, -0.99) | (-0.96, 0.28) | 114.6° |
# | 1 | 62.8 | (0.30, 0.96) | (0.48, 0.88) | 11.5° |
# | 2 | 628.3 | (0.03, 1.00) | (0.05, 1.00) | 1.1° |
# | 3 | 6,283.2 | (0.00, 1.00) | (0.00, 1.00) | 0.1° |
#
# </div>

# %% [markdown]
# Shifts behave as they should: two of them add up, and the way back is the transpose. It is a rotation, after all.

# %%
two, three, five = (shift_matrix(k, 16) for k in (2, 3, 5))
assert_close(two @ three, five)
assert_close(shift_matrix(-3, 16), three.T)
assert_close(three.T @ three, torch.eye(16))

# %% [markdown]
# Is that special, or does every table have such a matrix? We let least squares find the best one for a shift by three, once for the sinusoids and once
# for 200 random vectors.

# %%
torch.manual_seed(0)
left = {}
for name, table in (("sinusoids", p.double()), ("random", torch.randn(200, 16))):
    best = torch.linalg.lstsq(table[:-3], table[3:]).solution
    missing = table[3:] - table[:-3] @ best
    left[name] = (missing.norm() / table[3:].norm()).item()
    print(f"{name:10} not explained: {left[name]:5.1%}")
assert left["sinusoids"] < 1e-4 and left["random"] > 0.9

# %% [markdown]
# **What one can do with it.** A head's query is its input times a matrix. Let that matrix be $M_{-3}$: the query of position $m$ then *is* the
# vector of position $m - 3$. Let the keys be the positions themselves. The dot product is largest at distance 0, so everybody looks three places
# back. No training, and for any length. (The factor 40 makes the queries long, and so the lookup hard.)

# %%
from transformer.attention import MultiHeadAttention, attention

p = sinusoidal_encoding(10, 64)
_, weights = attention(40 * p @ shift_matrix(-3, 64).T, p, p)  # (10, 10)
three_back = (torch.arange(10) - 3).clamp(min=0)
assert torch.equal(weights.argmax(dim=-1), three_back)

# %% tags=["hide-input"]
from transformer.plots.heat_map import heat_map

places = [str(place) for place in range(10)]
Picture(
    heat_map(weights, places, places),
    alt=(
        "Attention weights of ten positions. From position 3 on, each row has its "
        "largest weight, more than 0.8, three places to the left of the diagonal. "
        "The first three rows look at position 0."
    ),
)

# %% [markdown]
# ## Added, and how loud
#
# **Why added?** It looks reckless: who can take a sum apart again? The clean way would be to put word and position side by side. But whatever comes next
# is a matrix, and then side by side is a sum as well, with a matrix for each: $[w, p]\,\binom{W_1}{W_2} = wW_1 + pW_2$. **Adding is concatenating with
# $W_1 = W_2$**, and without making every vector longer.

# %%
torch.manual_seed(0)
w, p, matrix = torch.randn(5, 8), sinusoidal_encoding(5, 8), torch.randn(8, 3)
side_by_side = torch.cat([w, p], dim=-1) @ torch.cat([matrix, matrix])
assert_close((w + p) @ matrix, side_by_side)

# %% [markdown]
# The price is that words and positions share the directions of the space. How many do the positions need? Take the first 50 and count the
# directions (singular values) that hold 99 % of them:


# %%
def directions(table):
    energy = torch.linalg.svdvals(table).square()
    return int((energy.cumsum(0) / energy.sum() < 0.99).sum()) + 1


torch.manual_seed(0)
needed = directions(sinusoidal_encoding(50, 512))
print(f"50 positions need {needed} directions of 512")
print(f"50 random vectors {directions(torch.randn(50, 512))}")
assert needed < 25

# %% [markdown]
# Most hands have hardly moved after 50 positions. So nearly the whole space is free of positions, and nothing stops training from putting the words there;
# what lies in different directions, a matrix can take apart.
#
# **How loud?** A sum is only as good as its balance. A position is $\sqrt{d_\text{model}/2}$ long, always. A word's vector starts with length
# about 1, because the same matrix will also score the words that come out (§3.4; [The full model](07_full_model.ipynb) tells why). So the model
# multiplies words by $\sqrt{d_\text{model}}$ before it adds:

# %%
torch.manual_seed(0)
for d_model in (32, 128, 512):
    wide = Transformer(ModelConfig(1000, d_model, 4, d_ff=8, n_layers=1))
    word = wide.source_embedding.weight.norm(dim=-1).mean().item()
    position = wide.positions.norm(dim=-1).mean().item()
    assert_close(position, math.sqrt(d_model / 2))
    loud = word * math.sqrt(d_model)
    assert 1.3 < loud / position < 1.5  # about √2, at every width
    print(f"{d_model:3}   word {word:.2f}, × √d {loud:5.2f}", end="   ")
    print(f"position {position:5.2f}")

# %% [markdown]
# ## Two other ways
#
# **Learned positions** are a second embedding: one row for each position, random at first, trained like any weight {cite}`gehring2017`. The paper tried them and
# found hardly a difference (Table 3, row E). They cost a row for each position, and past the last row there is nothing.

# %%
learned = Transformer(replace(shape, positions="learned"))
sizes = [sum(w.numel() for w in m.parameters()) for m in (model, learned)]
assert sizes[1] - sizes[0] == shape.max_length * shape.d_model
print(f"{sizes[1] - sizes[0]:,} more weights: {shape.max_length} rows of 32")

# %% [markdown]
# **Rotary positions** {cite}`su2021` take the clocks and leave out the adding. Inside each head, every pair of numbers of a query or a key is itself
# taken for a hand, and **turned by its position's angle**. With $R_m$ for the turn at position $m$, the score of a query $q$ and a key $k$ becomes
#
# $$
# \begin{aligned}
# (R_m q) \cdot (R_n k) &= q \cdot (R_m^\top R_n\, k) \\ &= q \cdot (R_{n-m}\, k)
# \end{aligned}
# $$
#
# First back by $m$, then on by $n$: in all, on by $n - m$. Again only the distance is left, this time in the score itself. **Move both
# sliders by the same amount, and the dot product stays.** The rings show where the two stood before they were turned.

# %% tags=["hide-input"]
plots.rotary_dot_product(
    query=(1.5, 0.5),
    key=(1.0, 1.0),
    frequency=0.5,
    description=(
        "A blue query and an orange key as arrows in a plane. Two sliders set "
        "their positions from 0 to 12; each arrow turns by half a radian a "
        "position. Below stand the distance and the dot product, which stays the "
        "same when both positions move by the same amount."
    ),
)

# %%
SourceCode(rotate)

# %% [markdown]
# To verify it on this code, one query and one key are put at all of twenty positions. For comparison the same two words with positions *added*, and
# then through the query and key matrices of a head. We read off all pairs with the key three places behind.

# %%
torch.manual_seed(0)
w_query, w_key = torch.randn(2, 16, 16) / 4
words_at = torch.randn(2, 1, 16).expand(2, 20, 16)  # two words, at 20 places each
rotation, p = rotary_table(20, 16), sinusoidal_encoding(20, 16)

q, k = words_at[0] @ w_query, words_at[1] @ w_key
turned = rotate(q, rotation) @ rotate(k, rotation).T  # (20, 20)
added = ((words_at[0] + p) @ w_query) @ ((words_at[1] + p) @ w_key).T
for name, scores in (("added", added), ("turned", turned)):
    three = scores.diagonal(offset=-3)  # (17,): query at m, key at m − 3
    print(f"{name:7} from {three.min():6.2f} to {three.max():6.2f}")

# %%
assert_close(turned[1:, 1:], turned[:-1, :-1], atol=1e-4, rtol=0)
assert (added[1:, 1:] - added[:-1, :-1]).abs().max() > 1

# %% [markdown]
# With rotary positions the same two words at the same distance score the same **wherever they stand**. With added ones they do not: the product of two sums has four
# terms, word with word, word with place, place with word, place with place, and only the last can be a matter of distance alone. A head that wants nothing
# but the distance has three terms to silence. In the rotary score there is one term, and the distance is in it.
#
# The two are closer relatives than they look. Turn one fixed vector, and out comes the paper's encoding, with sine and cosine in each pair exchanged:

# %%
ones = torch.tensor([1.0, 0.0]).repeat(8).expand(20, 16)  # each hand on (1, 0)
cos_sin = rotate(ones, rotation)
assert_close(cos_sin.unflatten(-1, (8, 2)).flip(-1).flatten(-2), p)

# %% [markdown]
# Side by side, as they are in this package (`positions=` in `ModelConfig`):
#
# | | what it does | weights | one distance, one score? |
# |---|---|---|---|
# | sinusoidal | adds a fixed vector | none | no |
# | learned | adds a trained vector | a row a place | no |
# | rotary | turns query and key | none | yes |
#
# The first two act once, on the embeddings, and what they add travels on in the values as well. Rotary acts anew in every self-attention, and its values carry no place.
# Cross-attention is not turned here. The third English and the third German word have nothing to do with each other, and their "distance" no meaning.

# %% [markdown]
# ## Longer than seen in training
#
# A model has been trained on sentences of up to 16 tokens, and now comes one of 17. The package refuses, as its tables end there:

# %%
short, longer = replace(shape, max_length=16), replace(shape, max_length=64)
seventeen = torch.ones(1, 17, dtype=torch.long)
try:
    Transformer(short).encode(seventeen)
except ValueError as error:
    print(error)

# %% [markdown]
# Is that only a setting? Put the trained weights into a model with a larger `max_length`. Where positions are computed, the weights fit. Where they are learned,
# the missing rows are weights that nobody has.

# %%
for positions in ("sinusoidal", "rotary", "learned"):
    small = Transformer(replace(short, positions=positions))
    large = Transformer(replace(longer, positions=positions))
    try:
        large.load_state_dict(small.state_dict())
        print(f"{positions:11} fits")
    except RuntimeError as error:
        print(f"{positions:11} {str(error).splitlines()[1].strip()[:29]}")

# %% [markdown]
# So two of the three are *defined* at any length. Does the model also *understand* what is defined? We measure it. One encoder layer reads random words
# and at every place has to answer a question. Two questions, as unlike as can be:
#
# - **three back**: which word stood three places before this one? It asks for a distance.
# - **the first**: which word stands at the beginning? It asks for a place.
#
# We train on lengths 4 to 16 and test on up to 64. The learned table gets its 64 rows from the start, so that it has something to add. Only, those
# from 16 on are never trained. **Guess first: who will stand it best?**


# %%
def batch(question, length, sentences=32):
    ids = torch.randint(1, 11, (sentences, length))
    if question == "three back":
        return ids, F.pad(ids[:, :-3], (3, 0))  # 0: there is nothing to ask
    return ids, ids[:, :1].expand_as(ids)


def answer(reader, ids):
    return reader.logits(reader.encode(ids)[0])  # (batch, length, 11)


# %%
def train(question, positions, steps=300):
    torch.manual_seed(0)
    tiny = ModelConfig(11, 32, 4, 64, n_layers=1, dropout=0.0, norm="pre")
    reader = Transformer(replace(tiny, positions=positions, max_length=64))
    optimizer = torch.optim.Adam(reader.parameters(), lr=0.005)
    for _ in range(steps):
        ids, wanted = batch(question, int(torch.randint(4, 17, ())))
        loss = F.cross_entropy(answer(reader, ids).mT, wanted, ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return reader.eval()


# %%
@torch.no_grad()
def share_right(reader, question, length):
    ids, wanted = batch(question, length, sentences=100)
    right = answer(reader, ids).argmax(dim=-1) == wanted
    return right[wanted > 0].float().mean().item()


# %%
lengths, right = (12, 16, 20, 24, 32, 48, 64), {}
for question in ("three back", "the first"):
    print(f"{question:10}", *[f"{n:4}" for n in lengths])
    for positions in ("sinusoidal", "learned", "rotary"):
        reader = train(question, positions)
        scores = [share_right(reader, question, n) for n in lengths]
        right[question, positions] = dict(zip(lengths, scores, strict=True))
        print(f"{positions:10}", *[f"{s:4.0%}" for s in scores])

# %% tags=["hide-input"]


def drawn(question):
    lines = {
        name: list(right[asked, name].values())
        for asked, name in right
        if asked == question
    }
    return curves(
        lengths, lines, "length (trained: 4 to 16)", f"Right answers: {question}"
    )


Row(
    Picture(
        drawn("three back"),
        alt=(
            "Share of right answers to three back over lengths 12 to 64. All are "
            "near 1 at 12; at 16, the longest length trained, learned is a little "
            "lower. Then rotary stays at 1 while sinusoidal and learned fall, below "
            "a half at length 64."
        ),
    ),
    Picture(
        drawn("the first"),
        alt=(
            "Share of right answers to the first. All are at 1 up to 16. Then "
            "rotary falls to about a tenth at 64, the learned table stays near 1, "
            "and sinusoidal falls late and only in part."
        ),
    ),
)

# %%
for (question, positions), scores in right.items():
    assert scores[12] > 0.9, (question, positions)
back, first = (
    {p: right[q, p][64] for _, p in right} for q in ("three back", "the first")
)
assert back["rotary"] > 0.9 > 0.6 > max(back["sinusoidal"], back["learned"])
assert first["learned"] > 0.7 > 0.4 > first["rotary"]

# %% [markdown]
# **Who reads longer sentences depends on the question.** Asked for a distance, rotary goes on as if nothing had happened: three back is the angle that it
# has always been. The added ones would have to recognise places that they have never seen.
#
# Asked for a place, it is the other way round. The curves fit what the three are, though they do not prove the reasons. The first place has the same vector in
# every sentence, so the learned table still finds it; its untrained rows are small and drown nothing. The sinusoids of unseen places are as loud
# as all others, and may disturb. And rotary has no places: the first word is known to it only as *the farthest*, and from place 16 on that is a
# distance it has never met.
#
# One rule covers all six curves: **a model can follow what it has been shown, an angle, a row, a distance. Being defined is not being
# learned.** Nor is rotary's perfect line a law. Distances never seen do not answer *three back*, but they do take part in its softmax, and
# nothing in training has kept their scores low. A model of another width may be less lucky; the exercises try one.
#
# These are models of one layer with nothing else to do. A large one asks questions of both kinds at once. The page of [results](../book/results.md) has whole translators with three of these positions, trained with several seeds; not beyond the training length. The paper had only the hope
# that sinusoids might carry on (§3.5). Later measurements on language models found that they hardly do {cite}`press2022`.

# %% [markdown]
# ## What goes wrong in practice
#
# Position bugs are quiet. Shapes fit, the model trains, and it is a little worse than it should be. Five of them, each caught in the act.
#
# **Bug 1: off by one between training and decoding.** In training, positions come as a block, from 0. A decoder with a cache reads one token at a time and
# must be told where it stands; someone counts from 1. We build such a model: it has the same weights but starts its tables one row too late.


# %%
def late_by_one(model):
    late = copy.deepcopy(model)
    if late.positions is not None:
        late.positions = late.positions[1:]
    for module in late.modules():
        if isinstance(module, MultiHeadAttention) and module.rotation is not None:
            module.rotation = module.rotation[:, 1:]
    return late


# %%
@torch.no_grad()
def step_by_step(model, source, target, late_from):
    """Decode with a cache; from step ``late_from`` on, one position too late."""
    memory, mask = model.encode(source)
    cache = model.start_cache(memory, mask, target.size(1))
    late, logits = late_by_one(model), []
    for step, token in enumerate(target.split(1, dim=1)):
        reader = late if step >= late_from else model
        logits.append(reader.decode_step(token, cache))
    return torch.cat(logits, dim=1)  # (1, target, vocab_size)


# %% [markdown]
# The test needs no trained model: **step by step must give what the block gives.**


# %%
def fresh(positions):
    torch.manual_seed(0)
    reader = Transformer(replace(shape, positions=positions))
    return reader.eval().requires_grad_(False)


error = {}
for positions in ("sinusoidal", "rotary"):
    reader = fresh(positions)
    block = reader(ids, ids)
    for name, late_from in (("right", 99), ("all late", 0), ("late from 3 on", 3)):
        steps = step_by_step(reader, ids, ids, late_from)
        error[positions, name] = (steps - block).abs().max().item()
        print(f"{positions:11}{name:15} off by {error[positions, name]:.3f}")

# %%
assert error["sinusoidal", "right"] < 1e-5 and error["rotary", "right"] < 1e-5
assert error["sinusoidal", "all late"] > 0.01 < error["rotary", "late from 3 on"]
assert error["rotary", "all late"] < 1e-5, "only distances matter"

# %% [markdown]
# Rotary forgives when *everything* is late by the same amount, for no distance changes. It does not forgive the common case: a given beginning (a *prompt*) that is read as a block from
# 0, and then steps counted from somewhere else. So test with a prompt, and not only from an empty cache.
#
# **Bug 2: $\sqrt{d_\text{model}}$ forgotten.** Compare two vectors by the cosine between them: once the same word at two places, once two words at the same place.

# %%
torch.manual_seed(0)
dog, man = torch.randn(2, 512) / math.sqrt(512)  # as embeddings start
p = sinusoidal_encoding(10, 512)
alike = {}
for name, scale in (("with √d", math.sqrt(512)), ("without", 1.0)):
    dog_3, dog_9, man_3 = scale * dog + p[3], scale * dog + p[9], scale * man + p[3]
    same_word = F.cosine_similarity(dog_3, dog_9, dim=0)
    same_place = F.cosine_similarity(dog_3, man_3, dim=0)
    alike[name] = same_word > same_place
    print(f"{name:8} same word {same_word:.3f}   same place {same_place:.3f}")
assert alike["with √d"] and not alike["without"]

# %% [markdown]
# Without the factor, *dog* and *man* at one place are nearly the same vector: the model sees seat numbers, and hardly who sits there. Nothing is raised, and
# training starts. The two lines above are the test.
#
# **Bug 3: places for padding.** As long as padding stands at the end, nobody minds that it has positions too: the mask hides it. Put it in *front*, as batched decoding
# often does, and it takes the first places away from the words. Masked or not, every word now stands further right.

# %%
moved = {}
for positions in ("sinusoidal", "rotary"):
    reader = fresh(positions)
    alone = reader.encode(ids)[0]
    behind = reader.encode(F.pad(ids, (0, 3)))[0][:, :5]
    before = reader.encode(F.pad(ids, (3, 0)))[0][:, 3:]
    assert_close(behind, alone)
    moved[positions] = (before - alone).abs().max().item()
    print(f"{positions:11} words move by {moved[positions]:.3f}")
assert moved["sinusoidal"] > 0.01 and moved["rotary"] < 1e-5

# %% [markdown]
# Rotary is immune again. The others need positions that are counted from the first real word. A cousin of this bug looks for padding by its
# vector, "the one that is all zeros". Once positions have been added, no vector is; ask the ids, as `padding_mask` does.

# %%
padding = torch.zeros(3, 32)  # an embedding that is kept at zero
seen = padding + sinusoidal_encoding(3, 32)
print("all zeros:", (seen == 0).all(dim=-1))

# %% [markdown]
# **Bug 4: two layouts.** Which two numbers make a pair? The paper and this package take neighbours, $(2i, 2i+1)$. Many programs take $i$ of the first half and $i$ of the second. Both are
# fine, as one is the other with its dimensions in another order:


# %%
def rotate_halves(x, rotation):
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    turned = first * cos - second * sin, first * sin + second * cos
    return torch.cat(turned, dim=-1)


order = [*range(0, 16, 2), *range(1, 16, 2)]  # even dimensions first, then odd
assert_close(rotate_halves(q[:, order], rotation), rotate(q, rotation)[:, order])

# %% [markdown]
# Mixing them is not fine. Mixed *inside* one product, the score is no longer a matter of distance, and a test of that finds it. Worse is a model that
# was trained with one and runs with the other: **it passes that test, and is still wrong.** Only a comparison of outputs with those of the program that trained it finds this one.

# %%
mixed = rotate(q, rotation) @ rotate_halves(k, rotation).T
other = rotate_halves(q, rotation) @ rotate_halves(k, rotation).T
for name, scores in (("right", turned), ("mixed", mixed), ("other layout", other)):
    uneven = (scores[1:, 1:] - scores[:-1, :-1]).abs().max()
    wrong = (scores - turned).abs().max()
    print(f"{name:13} uneven {uneven:.2f}   wrong {wrong:.2f}")
    assert (uneven < 1e-4) == (name != "mixed") and (wrong < 1e-4) == (
        name == "right"
    )

# %% [markdown]
# **Bug 5: angles with too few digits.** Half precision is kind to weights and cruel to counting. bfloat16 has 8 significant binary digits, so beyond 256 it
# cannot write odd numbers. Compute the angles in it, and positions merge:

# %%
pos = torch.arange(512)
rounded = pos.to(torch.bfloat16)
print(f"{len(rounded.unique())} of 512 positions are left")
assert rounded[257] == rounded[256]
angle = rounded[:, None] * angles(2, 64)[1].to(torch.bfloat16)
worst = (angle.double() - angles(512, 64)).abs().max()
print(f"the worst hand is wrong by {worst:.1f} radians")

# %% [markdown]
# The cure is in the package's code above: angles in float64, sine and cosine of those, and only then rounding. A sine rounded to bfloat16 does little
# harm. A sine of a rounded angle is the sine of another place.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You feed a sentence backwards to an encoder without positions. Its outputs are**
#
# <details><summary>A. the same, backwards</summary>
#
# **Right.** Each word gets the vector that it had, and stands where the word now stands.
#
# </details>
# <details><summary>B. the same, in the old order</summary>
#
# No. Output 0 belongs to input 0, and another word stands there now. Outputs go with their words.
#
# </details>
# <details><summary>C. all equal</summary>
#
# No. Different words have different queries and values. Only *places* make no difference.
#
# </details>
# <details><summary>D. different vectors altogether</summary>
#
# No. That would need something that reads the order, and nothing here does.
#
# </details>
#
# **2. In place of 10,000 you use 1,000,000, as some models for long texts do. What happens?**
#
# <details><summary>A. All hands get slower by the same factor</summary>
#
# No. The first hand has $i = 0$, and whatever the base, its 0th power is 1.
#
# </details>
# <details><summary>B. The first hand stays, and the later a hand, the more it slows down</summary>
#
# **Right.** The wavelengths are spread over a longer range, so far positions differ more clearly, and there are fewer hands for the near ones.
#
# </details>
# <details><summary>C. The position vectors get longer</summary>
#
# No. Each pair is a point on a circle of radius 1, so the length is always $\sqrt{d_\text{model}/2}$.
#
# </details>
# <details><summary>D. Neighbours can no longer be told apart</summary>
#
# No. The fast hands still move by about a radian at each step.
#
# </details>
#
# **3. A rotary model decodes a batch with padding in front, properly masked. The words' outputs**
#
# <details><summary>A. change, because the words stand further right</summary>
#
# No. That is what happens with added positions. A rotary score knows only the distance, and that has not changed.
#
# </details>
# <details><summary>B. change, because the padding is turned as well</summary>
#
# No. It is turned and then hidden: nobody looks at its keys.
#
# </details>
# <details><summary>C. stay the same</summary>
#
# **Right.** Bug 3 showed it. Only distances count, and padding in front changes none of those between words.
#
# </details>
# <details><summary>D. stay the same in the first layer only</summary>
#
# No. Each layer gets the same inputs as without padding, so each one's outputs are the same too.
#
# </details>
#
# **4. With pencil and paper: $d_\text{model} = 4$. What is the dot product of positions 7 and 8?**
#
# <details><summary>Answer</summary>
#
# The distance is 1, so $\cos 1 + \cos 0.01 \approx 0.54 + 1.00 = 1.54$, and it would be the same for 70 and 71. The most it can be is 2, a position with itself.
#
# </details>
#
# **5. Is the *decoder*, too, a bag of words without positions?**
#
# <details><summary>Answer</summary>
#
# Not quite. The look-ahead mask lets the first word see one word, the second two, and so on, so places do differ. In a single layer
# the last word still sees all the others as a bag. But the others' own outputs already depend on what stood before them, so a second layer can
# tell orders apart. Language models trained without any positions do learn to count in this way {cite}`haviv2022`.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Five blanks: the clocks, the vectors made of them, the shift, rotary positions, and the sum that the first layer sees. Each has a check that says what is
# wrong, and a hint.
#
# - In Colab:
#   [05_positional_encoding](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/05_positional_encoding.ipynb).
#   On GitHub: [05_positional_encoding.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/05_positional_encoding.ipynb).
# - On your machine, open `exercises/05_positional_encoding.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade positional_encoding
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And five experiments. Write down what you expect before you run them.
#
# 1. **Look ahead.** Change one sign, so that the head made by hand looks three places *ahead*. What do the last three rows do, and why?
# 2. **A short clock.** Write `encoding_by_table` with 100 in place of 10,000. At which distances does the share stop falling? Which positions does it confuse?
# 3. **The blind decoder.** Answer question 5 with a cell: take `bag`, decode two targets that differ in the order of two early words, and compare the
#    last output, once with one layer and once with two.
# 4. **Wider.** Let `train` make models of width 64 in place of 32, and look at rotary's line for *three back* again. Then try other seeds.
# 5. **On real sentences.** Train the same translator three times and compare what it reaches:
#
# ```bash
# transformer train pocket --run runs/sinusoidal
# transformer train pocket --run runs/learned --model.positions learned
# transformer train pocket --run runs/rotary  --model.positions rotary
# ```

# %% [markdown]
# ## Going further
#
# - **The paper on positions** is §3.5, with row E of Table 3 for the learned ones {cite}`vaswani2017`.
# - **Learned positions** came with translators made of convolutions: {cite}`gehring2017`.
# - **Distance as part of the score**, by two authors of the Transformer and a colleague, a year later: {cite}`shaw2018`.
# - **Rotary positions**, with the derivation in two and in more dimensions: §3.2 of {cite}`su2021`.
# - **Beyond the training length:** {cite}`press2022` measure how several kinds fail, and propose a penalty that grows with the distance.
# - **No positions at all:** {cite}`haviv2022` look inside language models that had to find out for themselves.
