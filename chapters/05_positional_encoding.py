# %% [markdown]
# # Positional encoding
#
# *A dog bites a man. A man bites a dog.* The same words, but not the same news. The figure shows the vector that a trained encoder outputs for *dog*
# in each sentence. For the upper two strips, we set the trained model's positional encoding to zero. The lower two show the model as it was trained. **Compare the strips of each pair.** Which pair lets the decoder tell who was bitten?

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

# %% tags=["hide-input"]
import copy
import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch.testing import assert_close

import transformer
from transformer.attention import attention
from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.plots import positional_encoding as plots
from transformer.plots import style
from transformer.plots.curves import curves
from transformer.plots.heat_map import heat_map
from transformer.plots.style import Captioned, Picture, Row, SourceCode
from transformer.positions import (
    angles,
    rotary_table,
    rotate,
    sinusoidal_encoding,
)

torch.set_printoptions(precision=2, sci_mode=False)

translator = transformer.load("multi30k", device="cpu")
model = translator.model.requires_grad_(False)
without_positions = copy.deepcopy(model)
without_positions.positions.zero_()

sentences = ["A dog bites a man.", "A man bites a dog."]
dog = translator.tokenizer.pieces(range(len(translator.tokenizer))).index("▁dog")


def vectors_of_dog(model):
    """The encoder's output for "dog" in the two sentences, (2, d_model)."""
    ids = torch.tensor([translator.encode(sentence) for sentence in sentences])
    return model.encode(ids)[0][ids == dog]


pairs = {
    "Positional encoding removed": vectors_of_dog(without_positions),
    "As trained": vectors_of_dog(model),
}
with style.in_style():
    figure = Figure(figsize=(5, 2.3), layout="constrained")
    for axes, (title, vectors) in zip(
        figure.subplots(2), pairs.items(), strict=True
    ):
        axes.pcolormesh(
            vectors[:, :40], cmap="BrBG", vmin=-2, vmax=2, edgecolors="w"
        )
        axes.set_title(title, loc="left")
        axes.set_yticks([0.5, 1.5], ["A dog bites …", "… bites a dog."])
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.invert_yaxis()
        for side in axes.spines.values():
            side.set_visible(False)
Picture(
    figure,
    alt=(
        "The first 40 of 128 numbers of the encoder's output for the word dog, as "
        "coloured strips, one for each of the two sentences. With the positional "
        "encoding removed, the two strips are identical. As trained, they differ in "
        "most numbers."
    ),
    caption=(
        "The first 40 of the 128 numbers of the encoder's vectors for “dog” in two "
        "sentences, as coloured strips. With the model's positional encoding "
        "removed, they are identical."
    ),
)

# %% tags=["remove-cell"]
same, different = pairs.values()
assert same.size(-1) == 128
assert_close(same[0], same[1])
assert (different[0] - different[1]).abs().max() > 1

# %% [markdown]
# By the end you will be able to compute the paper's positional encoding by hand, explain why its authors expected it to make "three positions back" easy to learn, and say
# how sinusoidal, learned and rotary positions differ on sequences longer than any in training.
#
# **About 40 minutes.** The chapter builds on [Attention](02_attention.ipynb), [Masking](04_masking.ipynb), and sine and cosine from school.
#
# ## Attention ignores order
#
# Without positional encoding, *dog* gets **exactly the same vector whether it bites or is bitten**. Here is what the translator makes of the two
# sentences, first as it was trained and then with the encoder's positional encoding removed:

# %%
order_blind = copy.deepcopy(translator)
order_blind.model.encode = without_positions.encode

for sentence in sentences:
    print(sentence)
    print("  with:   ", *translator.greedy_search([sentence]))
    print("  without:", *order_blind.greedy_search([sentence]))

# %% tags=["remove-cell"]
first, second = order_blind.greedy_search(sentences)
assert first == second == "Ein Mann beißt einen Hund."
assert translator.greedy_search(sentences)[0] == "Ein Hund beißt einen Mann."

# %% [markdown]
# Without positions, both translations mean *a man bites a dog*. The decoder still knows the order of its own words. But it gets the same set of vectors from the encoder
# both times, so it can't tell the two sentences apart.
#
# The reason lies in what an encoder is made of. The query, key and value projections treat each position separately, and so do the parts that you will
# meet in [the next chapter](06_layers.ipynb). Only attention combines positions. The weight between two positions is computed from their two vectors, not from where they are, and a weighted sum doesn't depend on the order of its terms. So if you
# permute the input, you get the same output vectors, permuted in the same way, whatever the model has learned. Such a function is called **permutation-equivariant**.

# %%
ids = torch.tensor([translator.encode("A dog bites a man.")])  # (1, 8)
permutation = torch.randperm(ids.size(1))
output, _ = without_positions.encode(ids)  # (1, 8, d_model)
output_of_permuted, _ = without_positions.encode(ids[:, permutation])
assert_close(output_of_permuted, output[:, permutation])

# %% [markdown]
# A recurrent network doesn't have this problem, because it reads one word after another. Attention reads all words at once, so we have to give it the order
# in some other way. The paper writes it into the vectors: its **positional encoding** has a vector $p_\text{pos}$ for each position, which is added to the
# embedding of the word at that position (§3.5). From then on, *dog* at one position and *dog* at another are different inputs.
#
# What should the vector of a position look like? Here are two obvious ideas, and what is wrong with them:
#
# - **The index itself**, 0, 1, 2, …: it grows without limit. At position 500 it would drown out the word's embedding, whose values are around 1 (after a scaling that we come to below).
# - **The index divided by the length of the sentence**: it stays between 0 and 1, but now a step to the next word is 1/5 in a short sentence and 1/50 in a long one.
#
# We want values that stay small, a different vector for each position however long the sequence, and a step that always means the same thing.

# %% [markdown]
# ## From binary numbers to clock hands
#
# Binary numbers are nearly what we need: every digit is 0 or 1, and yet every position gets a different pattern of digits. The grey lines below show the digits of the
# numbers 0 to 15. The last digit changes at every step, the one before it at every second step, and so on, so that fast digits
# distinguish neighbours and slow digits distinguish the beginning of the sentence from its end.
#
# The trouble with digits is that they jump: from 7 to 8 all four of them flip, from 8 to 9 only one, although both are single steps. So we replace each digit with
# **a smooth wave of the same period**, drawn in colour:

# %% tags=["hide-input"]
Picture(
    plots.digits_and_waves(n_digits=4),
    alt=(
        "Four rows, one for each binary digit of the numbers 0 to 15. A grey line "
        "jumps between 0 and 1: in the top row at every step, then at every second, "
        "fourth and eighth step. In each row a smooth wave follows the grey line."
    ),
    caption=(
        "Binary digits of the positions (grey steps), and smooth waves of the same "
        "periods: fast ones tell neighbours apart, slow ones distant positions."
    ),
)

# %% [markdown]
# A single wave is ambiguous: the sine of 30° is also the sine of 150°. A sine *and* a cosine of the same angle leave no doubt. Together they are the coordinates
# of a point that moves around a circle: **the tip of a clock hand**. Let the hand start at twelve and turn clockwise. Then $\sin$
# is how far its tip is to the right, and $\cos$ is how far up it is.
#
# Take the smallest interesting case, $d_\text{model} = 4$. Four numbers are two pairs, that is, two clock hands. The first turns by 1 radian (57°) per position, the second by a hundredth of that. At **position 2** their
# angles are 2 and 0.02, so the position's vector is $(\sin 2, \cos 2, \sin 0.02, \cos 0.02)$:

# %%
sin, cos = math.sin, math.cos
by_hand = torch.tensor([sin(2), cos(2), sin(0.02), cos(0.02)])
assert_close(sinusoidal_encoding(length=3, d_model=4)[2], by_hand)
by_hand

# %% [markdown]
# Why do we need two pairs? Because a single one comes round again. Seven full turns of the first pair take $7 \cdot 2\pi \approx 43.98$ positions, so at position 44 it is almost exactly where it was at
# position 0, as a minute hand is at 1:00 and 2:00. The second pair distinguishes the two positions, as the hour hand does:

# %%
sinusoidal_encoding(45, 4)[[0, 44]]  # positions 0 and 44, two pairs each

# %% [markdown]
# That is the whole idea. The $d_\text{model}$ numbers of a position are $d_\text{model}/2$ pairs, numbered $i = 0, 1, 2, \dots$ Pair $i$ turns by $\omega_i$ radians per position, and $\omega_i$ is called its **frequency** (§3.5):
#
# $$
# \begin{aligned}
# p_{\text{pos},\,2i} &= \sin(\omega_i\,\text{pos}) \\
# p_{\text{pos},\,2i+1} &= \cos(\omega_i\,\text{pos}) \\
# \omega_i &= 10000^{-2i/d_\text{model}}
# \end{aligned}
# $$
#
# The number of positions in a full turn, $2\pi/\omega_i$, is the pair's **wavelength**. In the binary figure, each wave is twice as long as the one before. Here the factor is $10000^{2/d_\text{model}}$: 100 for $d_\text{model} = 4$, but only about 1.04 for 512. The wavelengths grow from
# $2\pi \approx 6.3$ towards $10000 \cdot 2\pi \approx 63{,}000$. (For $d_\text{model} = 512$, the last of the 256 pairs has 60,600; for 4, the last of the two has only 628.) So the 10,000 sets the longest wavelength, which should be much longer than any sequence. The paper doesn't explain the number.
#
# Below are the eight pairs for $d_\text{model} = 16$ as clock hands. **Move the position slider.** Every hand leaves a dot at each position it has visited. The first one races around, and the last ones hardly move. **Then choose a pair** to see its sine and cosine as waves.

# %% tags=["hide-input"]
Captioned(
    plots.clocks(
        d_model=16,
        length=64,
        description=(
            "Eight clocks in two rows, one for each pair of dimensions, with "
            "wavelengths from 6.3 to 19,869 positions. A slider sets the position: "
            "the first hand moves by 57 degrees a step, each next one by less. A "
            "second slider chooses a pair, whose sine and cosine waves are drawn "
            "below with the two values at the position."
        ),
    ),
    (
        "A position as eight clock hands, each slower than the one before. The "
        "selected pair's sine and cosine are drawn as waves."
    ),
)

# %% [markdown]
# By position 63, the end of the slider, the first pair has completed ten turns, and the last one has turned by a single degree: it makes a difference only in texts of thousands of tokens.

# %% tags=["remove-cell"]
turned = torch.rad2deg(angles(64, 16)[63])
assert 10 < turned[0] / 360 < 10.1 and 0.9 < turned[-1] < 1.2
for width, growth in ((4, 100), (512, 1.04)):
    frequency = angles(2, width)[1]
    assert abs(frequency[0] / frequency[1] / growth - 1) < 0.01
assert abs(2 * math.pi / frequency[-1] - 60_600) < 50

# %% [markdown]
# ## The encoding as a heat map
#
# Write the pairs side by side, with one row for each position, and you get the figure that you will find in every article about the Transformer.
#
# - **A row** is the vector of one position.
# - **A column** is one sine or cosine over all positions: a wave. On the left the frequencies are high. To the right they get so low that, in this window, the sines stay near 0 and the cosines near 1.
#
# **Point at a cell, or tap it,** to see its column as a wave.

# %% tags=["hide-input"]
Captioned(
    plots.encoding_heat_map(
        sinusoidal_encoding(48, 32),
        description=(
            "A heat map of the encoding, 48 positions by 32 dimensions. The left "
            "columns change from row to row, further right they form ever longer "
            "waves, and the right third is plain stripes of 0 and 1. Pointing at a "
            "cell shows its value and wavelength, and draws its column as a wave."
        ),
    ),
    (
        "Sinusoidal encoding, one position per row: values alternate quickly in "
        "the left columns and hardly change in the right ones."
    ),
)

# %% [markdown]
# In code, the angles are an outer product: a column of positions times a row of frequencies. `stack` and `flatten` then put the sine and the cosine of each angle next to each other.


# %%
def positional_encoding(length, d_model):
    i = torch.arange(d_model // 2)
    frequency = 10000 ** (-2 * i / d_model)  # (d_model / 2,)
    position = torch.arange(length)[:, None]  # (length, 1)
    angle = position * frequency  # (length, d_model / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


assert_close(positional_encoding(50, 32), sinusoidal_encoding(50, 32))

# %% [markdown]
# The package's version differs in one detail: it computes the angles in float64.

# %%
SourceCode(angles, sinusoidal_encoding)

# %% [markdown]
# The table is computed once, when the model is built. It is a fixed tensor, not a parameter (in PyTorch, a *buffer*). The first layer reads the sum of embedding and positional encoding. (We come to the factor $\sqrt{d_\text{model}}$ later.)

# %%
embedding = model.source_embedding(ids)  # (1, 8, d_model)
d_model = embedding.size(-1)
x = embedding * math.sqrt(d_model) + sinusoidal_encoding(8, d_model)
assert_close(x, model.embed(ids, model.source_embedding))

# %% [markdown]
# ## Similarity depends only on distance
#
# How similar are the vectors of two positions $m$ and $n$? We take their plain dot product, before any query or key matrix. (We come to real attention scores below.) Each pair contributes a product of sines and a product of cosines, and the formula for $\cos(a - b)$ joins them:
#
# $$
# \begin{aligned}
# p_m \cdot p_n &= \textstyle\sum_i \big(\sin \omega_i m\,\sin \omega_i n \\
# &\qquad\ \ + \cos \omega_i m\,\cos \omega_i n\big) \\
# &= \textstyle\sum_i \cos\big(\omega_i (m - n)\big)
# \end{aligned}
# $$
#
# Only the difference $m - n$ is left. **The dot product of two position vectors depends on their distance and on nothing else.** It is largest at distance 0, where every cosine is 1. The plot shows it as a fraction of that maximum,
# for the base model's 512 dimensions:

# %%
p = sinusoidal_encoding(101, 512)
similarity = p @ p.T / 256  # (101, 101), 1 on the diagonal
assert_close(similarity[1:, 1:], similarity[:-1, :-1], atol=1e-4, rtol=0)

# %% tags=["remove-cell"]
before, after = similarity[50, :50], similarity[50, 51:]
assert_close(before.flip(0), after, atol=1e-4, rtol=0)

# %% tags=["hide-input"]
Picture(
    curves(
        range(101),
        {"p · p (1 = maximum)": similarity[0].tolist()},
        "distance between the two positions",
        "Similarity of two position vectors",
    ),
    alt=(
        "The dot product of two position vectors, as a fraction of its maximum, "
        "over distances 0 to 100: it falls steeply from 1 to about 0.7 within ten "
        "steps and then ever more slowly, in small waves, to about 0.4."
    ),
    caption=(
        "Dot product of two position vectors by their distance: it falls steeply "
        "between near neighbours and then ever more slowly."
    ),
)

# %% [markdown]
# The curve is steep near 0 and flat far away. For language that is a sensible scale. Whether two words are neighbours or have one word between them often matters, but it hardly ever matters whether they are 500 or 501 words apart.
#
# The cosine is an even function, so $p_m \cdot p_{m+k} = p_m \cdot p_{m-k}$: the plain dot product knows how far away a word is, but not on which side. To tell left from right, a head needs its query and key matrices. The next section shows how.

# %% [markdown]
# ## A shift is a rotation
#
# The paper's main argument for sinusoids is that they should make it easy to learn to attend by *relative* position, such as "the word three positions back", wherever in the sentence you are (§3.5). The next figure shows why.
# Moving two positions forward turns a pair by the same angle, wherever it was before:

# %% tags=["hide-input"]
Picture(
    plots.relative_offset(frequency=1.0, starts=(1, 4, 9), offset=2),
    alt=(
        "Three clocks. The hand is shown at positions 1, 4 and 9 in grey and two "
        "positions later in colour. It starts somewhere else each time, but the "
        "arc between the two hands is the same."
    ),
    caption=(
        "A pair as a clock hand, before (grey) and after a step of two positions, "
        "from three starting points: the arc is always the same."
    ),
)

# %% [markdown]
# A rotation is a linear map. For one pair at angle $a$ and a step by $b = \omega_i k$, the addition formulas of sine and cosine give
#
# $$ \begin{pmatrix} \sin(a{+}b) \\ \cos(a{+}b) \end{pmatrix} =
# \begin{pmatrix} \cos b & \sin b \\ -\sin b & \cos b \end{pmatrix} \begin{pmatrix} \sin a \\ \cos a \end{pmatrix} $$
#
# The matrix contains $b$ but not $a$. Put one such block for each pair on the diagonal of a matrix $M_k$, and **$p_{\text{pos}+k} = M_k\,p_\text{pos}$ for every position**:


# %%
def shift_matrix(k, d_model):
    """The rotation from any position to the one k positions later."""
    blocks = []
    for b in (k * angles(2, d_model)[1]).tolist():  # one for each pair
        sin, cos = math.sin(b), math.cos(b)
        blocks.append(torch.tensor([[cos, sin], [-sin, cos]]))
    return torch.block_diag(*blocks)  # (d_model, d_model)


p = sinusoidal_encoding(200, 16)
assert_close(p[:-3] @ shift_matrix(3, 16).T, p[3:], atol=1e-5, rtol=0)

# %% [markdown]
# **Try it.** Set the distance $k$, then move the position: every pair turns, but its rotation over the distance $k$ stays the same. Then make the base (the 10,000 of the formula) smaller, and see what happens to the pairs of low frequency.
#
# <div class="widget" data-widget="positions">
#
# *With JavaScript, there is an interactive figure here. This is how it begins: positions 3 and 5, four pairs, base 10,000.*
#
# | pair | rotation | wavelength | position 3 | position 5 |
# |---|---|---|---|---|
# | 0 | 114.6° | 6.3 | (0.14, -0.99) | (-0.96, 0.28) |
# | 1 | 11.5° | 62.8 | (0.30, 0.96) | (0.48, 0.88) |
# | 2 | 1.1° | 628.3 | (0.03, 1.00) | (0.05, 1.00) |
# | 3 | 0.1° | 6,283.2 | (0.00, 1.00) | (0.00, 1.00) |
#
# </div>
#
# With base 10, even the slowest of the four pairs completes a turn in 35 positions. Then no pair is left that changes steadily over the whole text, and distant positions can become similar again.

# %% tags=["remove-cell"]
assert abs(2 * math.pi * 10 ** (6 / 8) - 35) < 0.5

# %% [markdown]
# What good is this to a model? A head computes its queries with a matrix, and $M_{-3}$ is a matrix. Take one head as wide as the model, and leave out the words for now. If it uses $M_{-3}$, the query at position $m$ is exactly the vector of position $m - 3$.
# Let the keys be the position vectors themselves. A position vector is most similar to itself, so the query matches the key at position $m - 3$ best. This head attends three positions back, wherever it is, and nobody has trained it. (In the code, the queries are 40 times as long, so that the softmax is sharp.)

# %%
p = sinusoidal_encoding(10, 64)
query = 40 * p @ shift_matrix(-3, 64).T
_, weights = attention(query, key=p, value=p)  # (10, 10)

# %% tags=["hide-input"]
indices = [str(index) for index in range(10)]
Picture(
    heat_map(
        weights,
        indices,
        indices,
        row_title="query at position",
        column_title="key at position",
    ),
    alt=(
        "Attention weights of ten positions. From position 3 on, each row has its "
        "largest weight, more than 0.8, three positions to the left of the "
        "diagonal. The first three rows attend most to position 0."
    ),
    caption=(
        "Attention weights of a head whose query matrix is a rotation: from "
        "position 3 on, each query attends to the key three positions earlier."
    ),
)

# %% tags=["remove-cell"]
three_back = (torch.arange(10) - 3).clamp(min=0)
assert torch.equal(weights.argmax(dim=-1), three_back)
assert weights[range(3, 10), three_back[3:]].min() > 0.8

# %% [markdown]
# Read the heat map by rows: each row is a query. From position 3 on, the bright cell is always three columns left of the diagonal. Positions 0 to 2 have nothing three positions back, so they attend to the nearest position there is, position 0.

# %% [markdown]
# ## Why add, and why scale the embeddings?
#
# **Why add?** It may look as if adding a position to a word mixes up the two for good. Concatenating them seems cleaner. But the next thing that happens to the vector is a product with a matrix, and for a concatenation that is a sum of two products: $[w, p]\,\binom{W_1}{W_2} = wW_1 + pW_2$. Addition is
# the special case $W_1 = W_2$, and it needs no additional dimensions. 512 dimensions leave room for training to keep words and positions in different directions, where matrices can separate them again, though nothing forces training to do so.
#
# **Why scale?** A sum is only useful if neither part drowns out the other. Each pair contributes $\sin^2 + \cos^2 = 1$ to the squared length of a position vector, so its length is $\sqrt{d_\text{model}/2}$, which is 16 in the base model. A word's embedding starts with a length of about 1 ([The full model](07_full_model.ipynb) explains
# why). So the model multiplies embeddings by $\sqrt{d_\text{model}}$ before it adds the positions. (§3.4 has the factor, but gives no reason.) What happens if you forget it? We compare the cosine similarity of the same word
# at two positions with that of two different words at the same position. The first should be clearly higher:

# %%
torch.manual_seed(0)
p = sinusoidal_encoding(10, 512)
dog, man = torch.randn(2, 512) / math.sqrt(512)  # untrained embeddings
for scale in (math.sqrt(512), 1):
    dog_3, dog_9 = scale * dog + p[3], scale * dog + p[9]
    man_3 = scale * man + p[3]
    same_word = F.cosine_similarity(dog_3, dog_9, dim=0)
    same_position = F.cosine_similarity(dog_3, man_3, dim=0)
    print(f"scale {scale:4.1f}:  same word      {same_word:.2f}")
    print(f"             same position  {same_position:.2f}")

# %% [markdown]
# Without the factor, *dog* and *man* at the same position are almost the same vector. These embeddings are untrained. Training can enlarge them, but until it has, the model can hardly distinguish words. No error is raised, and all shapes fit.

# %% [markdown]
# ## Learned and rotary positions
#
# Sinusoids are an **absolute** positional encoding: every position has its own vector. So are **learned positional embeddings**, a second embedding table with a trained vector for each position ([Gehring et al., 2017](https://arxiv.org/abs/1705.03122)). The paper tried them and got nearly the same
# BLEU (Table 3, row E). BERT and GPT-2 use them. Their drawback: the table has a last row, so there is a hard maximum length.
#
# A **relative** positional encoding makes attention scores depend on the distance between two words. The most common one today is **rotary positions**, or *RoPE* ([Su et al., 2021](https://arxiv.org/abs/2104.09864)), which Llama and most other recent language models use. Rotary positions add nothing to the embedding. Instead, every self-attention layer **rotates the queries and keys**: in each head, pair $i$ of the query or key at position $m$ is rotated by the angle $\omega_i m$. The frequencies are the same as before, with the head's width $d_k$ in place of $d_\text{model}$. Values are not rotated. If $R_m$ is the rotation at position $m$, the score of a query $q$ at position $m$ and a key $k$ at position $n$ is
#
# $$
# \begin{aligned}
# (R_m q) \cdot (R_n k) &= q \cdot (R_m^\top R_n\, k) \\ &= q \cdot (R_{n-m}\, k)
# \end{aligned}
# $$
#
# The transpose of a rotation is the rotation back. Rotating back by $m$ and forward by $n$ is rotating by $n - m$: again only the distance is left, but now in the attention score itself. In the figure, **move both sliders by the same amount**: both arrows turn, and the dot
# product stays the same. The rings show the vectors before they were rotated.

# %% tags=["hide-input"]
Captioned(
    plots.rotary_dot_product(
        query=(1.5, 0.5),
        key=(1.0, 1.0),
        frequency=0.5,
        description=(
            "A blue query and an orange key as arrows in a plane. Two sliders set "
            "their positions from 0 to 12; each arrow turns by half a radian per "
            "position. Below are the distance and the dot product, which stays the "
            "same when both positions move by the same amount."
        ),
    ),
    (
        "A query (blue) and a key (orange), rotated by their positions. Their dot "
        "product depends only on the distance between the two positions."
    ),
)

# %% [markdown]
# The package rotates all pairs at once. `rotation` holds the cosines and sines of the angles, and the second-to-last line computes the product of a 2 × 2 rotation matrix and the vector (even, odd). (The signs differ from those of $M_k$ because it rotates the other way; only the difference of two angles matters.)

# %%
SourceCode(rotate)

# %% [markdown]
# Does the attention score of two given words really depend on nothing but their distance? One word is the query, the other the key. We compute their score for every pair of positions from 0 to 19, with added and with rotary positions, and look at the pairs in which the key is three positions before the query:

# %%
torch.manual_seed(0)
w_query, w_key = torch.randn(2, 16, 16) / 4
word_1, word_2 = torch.randn(2, 1, 16).expand(2, 20, 16)  # 20 copies
p = sinusoidal_encoding(20, 16)
rotation = rotary_table(20, 16)  # cosines and sines of the angles

added = ((word_1 + p) @ w_query) @ ((word_2 + p) @ w_key).T  # (20, 20)
q, k = word_1 @ w_query, word_2 @ w_key
rotary = rotate(q, rotation) @ rotate(k, rotation).T  # (20, 20)
for name, scores in (("added", added), ("rotary", rotary)):
    three_back = scores.diagonal(offset=-3)  # query at m, key at m - 3
    low, high = three_back.min(), three_back.max()
    print(f"{name:6} from {low:5.2f} to {high:5.2f}")

# %% tags=["remove-cell"]
assert_close(rotary[1:, 1:], rotary[:-1, :-1], atol=1e-4, rtol=0)
assert (added[1:, 1:] - added[:-1, :-1]).abs().max() > 1

# %% [markdown]
# With rotary positions the score is the same everywhere. With added positions it isn't, because the product of two sums has four terms: word · word, word · position, position · word and position · position. Word · word doesn't depend on the positions, and position · position depends on the distance alone if the matrices are chosen for it, as in our hand-made head. But
# each of the two mixed terms depends on one absolute position.
#
# | | kind | what it does | parameters |
# |---|---|---|---|
# | sinusoidal | absolute | adds a fixed vector to the embedding, once | none |
# | learned | absolute | adds a trained vector to the embedding, once | one vector per position |
# | rotary | relative | rotates queries and keys in every self-attention | none |
#
# Cross-attention uses no rotation in this package: the difference between a position in the target and one in the source has no fixed meaning.

# %% [markdown]
# ## Longer than anything in training
#
# Suppose that a model was trained on sequences of up to 16 tokens, and now gets one of 64. Sinusoids and rotations are *defined* at any position. Does that mean that the model can use them? The paper's authors hoped that sinusoids would **extrapolate**
# in this way (§3.5), but didn't test it. We can. One encoder layer reads random tokens and answers one of two questions at every position:
#
# - **three back**: which token is three positions before this one? This needs a distance.
# - **the first**: which token is at position 0? This needs an absolute position.
#
# We train a model with each kind of positional encoding on lengths 4 to 16 and test it on lengths up to 64. The learned table has 64 rows, but the rows from 16 on are never trained. **Make a guess before you read on: which kind extrapolates?**


# %%
def make_batch(question, length, sentences=32):
    ids = torch.randint(1, 11, (sentences, length))
    if question == "three back":
        return ids, F.pad(ids[:, :-3], (3, 0))  # 0: nothing to predict
    return ids, ids[:, :1].expand_as(ids)


def predict(model, ids):
    return model.logits(model.encode(ids)[0])  # (batch, length, 11)


# %% [markdown]
# The next cell, which is folded, trains a model for each question and each kind of position, and measures its accuracy at seven lengths.

# %% tags=["hide-cell"]
tiny_config = ModelConfig(
    vocab_size=11,
    d_model=32,
    n_heads=4,
    d_ff=64,
    n_layers=1,
    dropout=0.0,
    max_length=64,
    norm="pre",  # explained in the next chapter
)


def train(question, positions, steps=300):
    torch.manual_seed(0)
    model = Transformer(replace(tiny_config, positions=positions))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(steps):
        length = int(torch.randint(4, 17, ()))
        ids, target = make_batch(question, length)
        logits = predict(model, ids).mT  # (batch, 11, length)
        loss = F.cross_entropy(logits, target, ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def accuracy(model, question, length):
    ids, target = make_batch(question, length, sentences=100)
    correct = predict(model, ids).argmax(dim=-1) == target
    return correct[target > 0].float().mean().item()


lengths = (12, 16, 20, 24, 32, 48, 64)
accuracies = {"three back": {}, "the first": {}}
for question, results in accuracies.items():
    for positions in ("sinusoidal", "learned", "rotary"):
        tiny_model = train(question, positions)
        results[positions] = [
            accuracy(tiny_model, question, length) for length in lengths
        ]

# %% tags=["hide-input"]
Row(
    Picture(
        curves(
            lengths, accuracies["three back"], "length (trained: 4 to 16)",
            "Accuracy: three back",
        ),
        alt=(
            "Accuracy on three back over lengths 12 to 64. All are near 1 at 12, and "
            "rotary stays there. Learned begins to fall at 16, the longest length "
            "trained, sinusoidal right after it; both are below a half at 64."
        ),
    ),
    Picture(
        curves(
            lengths, accuracies["the first"], "length (trained: 4 to 16)",
            "Accuracy: the first token",
        ),
        alt=(
            "Accuracy on the first. All are at 1 up to 16. Then rotary falls to "
            "about a tenth at 64, learned stays near 1, and sinusoidal falls late "
            "and only in part."
        ),
    ),
    caption=(
        "Accuracy on lengths in and beyond training: rotary positions extrapolate when "
        "the model looks three positions back, learned ones when it looks for the "
        "first token."
    ),
)  # fmt: skip

# %% tags=["remove-cell"]
back, first = (
    {positions: values[-1] for positions, values in results.items()}
    for results in accuracies.values()
)
assert min(values[0] for r in accuracies.values() for values in r.values()) > 0.9
assert back["rotary"] > 0.9 > 0.6 > max(back["sinusoidal"], back["learned"])
assert first["learned"] > 0.7 > 0.4 > first["rotary"]

# %% [markdown]
# **It depends on the question.** For *three back*, rotary continues as if nothing had happened: distance three rotates each pair by an angle that the model has seen in every training example. The learned table has no trained rows after position 15, and only the longest training sentences reach the last of the trained ones: at length 16 its accuracy is already lower. For sinusoids, $M_{-3}$ would work everywhere, but on 16 positions other matrices are just as good, and those fail further out.
#
# For *the first*, it is the other way round. Position 0 has the same vector in every sentence, so a learned table still finds it. With rotary positions the model knows the first token only as the one *farthest to the left*, and beyond length 16 that is a distance it has never met. Sinusoidal loses some accuracy: position 0 is familiar, but the vectors of unseen positions are just as long, so their scores can be just as high. (One run per curve; the explanations are our reading.)
#
# **Being *defined* at a position is not the same as being *trained* there.** In language models, [Press et al. (2022)](https://arxiv.org/abs/2108.12409) found that sinusoidal positions hardly extrapolate at all, and rotary ones only a little. So the package refuses sequences longer than the model's `max_length`. In practice, models with RoPE are extended by rescaling the angles so that new positions fall into the trained range, usually with some fine-tuning: **position interpolation** ([Chen et al., 2023](https://arxiv.org/abs/2306.15595)) shrinks all angles by the same factor, and YaRN ([Peng et al., 2023](https://arxiv.org/abs/2309.00071)) mainly those of the low frequencies.

# %% [markdown]
# ## What goes wrong in practice
#
# Bugs in positions are quiet: all shapes fit, the model trains, and it is just a little worse than it should be.
#
# **The first word isn't at position 0.** Padding at the end is harmless, because the mask hides it. But language models that continue several prompts in one batch often pad them at the *front*, which moves all words to the right:

# %%
torch.manual_seed(0)
config = ModelConfig(8000, d_model=32, n_heads=4, d_ff=64, n_layers=2)
for positions in ("sinusoidal", "rotary"):
    tiny_model = Transformer(replace(config, positions=positions)).eval()
    output, _ = tiny_model.encode(ids)
    padded_ids = F.pad(ids, (3, 0))  # three <pad> in front
    output_of_padded, _ = tiny_model.encode(padded_ids)
    change = (output_of_padded[:, 3:] - output).abs().max().item()
    print(f"{positions:10} largest change {change:.3f}")

# %% tags=["remove-cell"]
assert change < 1e-5
mask = (F.pad(ids, (3, 0)) != 0).long()
restored = (mask.cumsum(-1) - 1).clamp(min=0)
assert restored[0].tolist() == [0, 0, 0, *range(ids.size(1))]

# %% [markdown]
# With rotary positions nothing changes, because *all* words move by the same amount. For absolute ones, compute the positions from the mask, which is 1 at words and 0 at padding: `positions = (mask.cumsum(-1) - 1).clamp(min=0)`.
#
# **The decoding loop counts differently**, for example from 1, while the prompt was read from 0. This breaks rotary positions as well. The test for this bug: **generating token by token must give the same logits as reading the whole sequence at once.**
#
# **Angles in low precision.** bfloat16, a 16-bit format in which many models are trained, has 8 significant bits, so from 256 on it can't represent odd numbers. If you compute angles in it, neighbouring positions become equal:

# %%
positions = torch.arange(512).to(torch.bfloat16)
print(len(positions.unique()), "of 512 positions are left")

# %% [markdown]
# That is why the package never computes angles in the model's number format: it rounds only the resulting sines and cosines. Rounding a sine costs a little precision. Rounding an angle turns it into the angle of another position.
#
# <details><summary>Two layouts of rotary pairs</summary>
#
# The RoPE paper and this package rotate neighbouring dimensions, $(2i, 2i+1)$. Hugging Face's Llama rotates dimension $i$ of the first half with dimension $i$ of the second. Both are correct, and one is a permutation of the other. But a model trained with one layout and run with the other has wrong scores
# that still depend only on the distance, so it passes every test of that property. Only a comparison with the outputs of the original program finds it.
#
# </details>

# %% tags=["remove-cell"]
torch.manual_seed(0)
q, k = torch.randn(2, 20, 16)
cos, sin = rotation
halves = torch.cat([torch.arange(0, 16, 2), torch.arange(1, 16, 2)])


def rotate_halves(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat(
        [first * cos - second * sin, first * sin + second * cos], dim=-1
    )


assert_close(rotate_halves(q[:, halves]), rotate(q, rotation)[:, halves])
q, k = q[:1].expand(20, 16), k[:1].expand(20, 16)  # the same words at all positions
wrong = rotate_halves(q) @ rotate_halves(k).T
assert_close(wrong[1:, 1:], wrong[:-1, :-1], atol=1e-4, rtol=0)
assert (wrong - rotate(q, rotation) @ rotate(k, rotation).T).abs().max() > 0.1

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You feed a sentence backwards into an encoder without positional encoding. Its outputs are**
#
# <details><summary>A. the same vectors in reverse order</summary>
#
# **Right.** The encoder is permutation-equivariant: every word keeps its vector and takes it along to its new position.
#
# </details>
# <details><summary>B. the same vectors in the original order</summary>
#
# No. Output 0 belongs to input 0, and a different word is there now. Outputs move with their words.
#
# </details>
# <details><summary>C. all equal</summary>
#
# No. Different words have different queries and values. It is only the *position* that makes no difference.
#
# </details>
# <details><summary>D. entirely different vectors</summary>
#
# No. That would need a part of the encoder that notices the order, and there is none.
#
# </details>
#
# **2. You replace the base 10,000 by 1,000,000, as some models for long texts do. What happens?**
#
# <details><summary>A. All frequencies get lower by the same factor</summary>
#
# No. The first pair has $i = 0$, and any base to the power 0 is 1.
#
# </details>
# <details><summary>B. The highest frequency stays the same, and every other one gets lower, the last one most of all</summary>
#
# **Right.** The same number of wavelengths is spread over a longer range. Distant positions become easier to distinguish, and fewer pairs are left for near ones. In a model with RoPE, a larger base also keeps the angles of long distances closer to those seen in training, so it is another way to extend the model, again with some fine-tuning.
#
# </details>
# <details><summary>C. The position vectors become longer</summary>
#
# No. Each pair is a point on a circle of radius 1, so the length is always $\sqrt{d_\text{model}/2}$.
#
# </details>
# <details><summary>D. Neighbouring positions can no longer be distinguished</summary>
#
# No. The pairs of high frequency still turn by about one radian per position.
#
# </details>
#
# **3. By hand, for $d_\text{model} = 4$: what is the dot product of the vectors of positions 7 and 8?**
#
# <details><summary>Answer</summary>
#
# The distance is 1, so it is $\cos 1 + \cos 0.01 \approx 0.54 + 1.00 = 1.54$. It is the same for positions 70 and 71. The maximum is 2, for a position with itself.
#
# </details>
#
# **4. Is the *decoder* permutation-equivariant without positional encoding?**
#
# <details><summary>Answer</summary>
#
# No. The causal mask lets the first token attend to one token, the second to two, and so on, so the order does matter. In a single layer, the last token still sees its predecessors as an unordered set. But their own outputs depend on what came before them, so
# from the second layer on, the order is visible. Language models without any positional encoding do learn positions in this way ([Haviv et al., 2022](https://arxiv.org/abs/2203.16634)).
#
# </details>

# %% tags=["remove-cell"]
p = sinusoidal_encoding(9, 4)
assert abs(p[7] @ p[8] - 1.54) < 0.01

# %% [markdown]
# ## Exercises
#
# Five blanks: the frequencies, the sinusoidal encoding, the shift, rotary positions, and the input of the first layer. Each one has a check that tells you
# what is wrong, and a hint.
#
# - In Colab:
#   [05_positional_encoding](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/05_positional_encoding.ipynb).
#   On GitHub: [05_positional_encoding.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/05_positional_encoding.ipynb).
# - On your machine, open `exercises/05_positional_encoding.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade positional_encoding
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Three experiments to try</summary>
#
# Write down what you expect before you run them.
#
# 1. **Look ahead.** Change one sign so that the hand-made head looks three positions *ahead*. What do the last three rows do, and why?
# 2. **A smaller base.** Use base 10 in `positional_encoding` and plot the similarity for 512 dimensions again. At which distance does it stop falling, and what does it still show about larger distances?
# 3. **On translation.** Train the same translator with each kind of positional encoding and compare the scores:
#
# ```bash
# transformer train pocket --run runs/sinusoidal
# transformer train pocket --run runs/learned --model.positions learned
# transformer train pocket --run runs/rotary  --model.positions rotary
# ```
#
# </details>

# %% [markdown]
# ## Going further
#
# - **The paper** introduces sinusoids in §3.5 and compares them with learned positions in row E of Table 3.
# - **Relative positions as part of the score** came a year later, by two of the paper's authors and a colleague: [Shaw et al. (2018)](https://aclanthology.org/N18-2074/).
# - **Extrapolation**: [Press et al. (2022)](https://arxiv.org/abs/2108.12409) measure how several kinds fail, and propose ALiBi, a penalty on the score that grows with the distance.
# - **Next:** [Encoder and decoder layers](06_layers.ipynb) adds the parts around attention.
