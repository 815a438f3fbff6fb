# %% [markdown]
# # Positional encoding
#
# *A dog bites a man. A man bites a dog.* The same words, but not the same news. The figure shows the vector that a trained encoder outputs for *dog*
# in each sentence. For the upper two strips, we set the trained model's positional encoding to zero. The lower two show the model as it was trained. **Compare the strips of each pair.** Which pair lets the decoder tell who was bitten?

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
    print(f"With all figures: {book}/chapters/05_positional_encoding.html")

# %% tags=["hide-input"]
import torch
from matplotlib.figure import Figure
from torch.testing import assert_close

import transformer
from transformer.plots import positional_encoding as plots
from transformer.plots import style
from transformer.plots.curves import curves
from transformer.plots.heat_map import heat_map
from transformer.plots.model_map import model_map
from transformer.plots.style import Captioned, Picture, Row, SourceCode
from transformer.positions import angles

torch.set_printoptions(precision=2, sci_mode=False)


@torch.no_grad()
def vectors_of_dog(with_positions):
    """The encoder's output for "dog" in two sentences, (2, d_model)."""
    loaded = transformer.load("multi30k", device="cpu")
    if not with_positions:
        loaded.model.positions.zero_()
    two = [loaded.encode(s) for s in ("A dog bites a man.", "A man bites a dog.")]
    dog = loaded.tokenizer.pieces(range(len(loaded.tokenizer))).index("▁dog")
    return loaded.model.encode(torch.tensor(two))[0][torch.tensor(two) == dog]


pairs = {
    "Positional encoding removed": vectors_of_dog(with_positions=False),
    "As trained": vectors_of_dog(with_positions=True),
}
with style.in_style():
    figure = Figure(figsize=(4.2, 2.3), layout="constrained")
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
        "sentences, as strips: green is positive, brown negative. Without positions "
        "they are identical."
    ),
)

# %% tags=["remove-cell"]
same, different = pairs.values()
assert same.size(-1) == 128
assert_close(same[0], same[1])
assert (different[0] - different[1]).abs().max() > 1

# %% [markdown]
# By the end you will be able to compute the paper's positional encoding by hand, explain why it should make attending "three positions back" easy to learn, and say
# how sinusoidal, learned and rotary positions differ on sequences longer than any in training.
#
# **About 40 minutes.** The chapter builds on [Attention](02_attention.ipynb), [Masking](04_masking.ipynb), and sine and cosine from school.

# %% tags=["hide-input"]
Picture(
    model_map("positional encoding"),
    alt=(
        "The map of the Transformer, with encoder and decoder side by side. "
        "Highlighted are the two boxes below the stacks of layers, between embedding "
        "and attention: the positional encoding, once for the source tokens and once "
        "for the target tokens."
    ),
    caption=(
        "This chapter is about the highlighted boxes: the embeddings of the tokens go "
        "in, and come out with a vector added that depends on the token's position."
    ),
)

# %% tags=["hide-input", "imports"]
import copy
import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.testing import assert_close

import transformer
from transformer.attention import attention
from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.positions import rotary_table, rotate, sinusoidal_encoding

# %% [markdown]
# ## Attention ignores order
#
# Without positional encoding, *dog* gets **exactly the same vector whether it bites or is bitten**. Here is what the translator makes of the two sentences, with and without the encoder's positional encoding. The decoder keeps its own:

# %%
translator = transformer.load("multi30k", device="cpu")
model = translator.model.requires_grad_(False)
without_positions = copy.deepcopy(model)
without_positions.positions.zero_()  # the table of position vectors
order_blind = copy.deepcopy(translator)
order_blind.model.encode = without_positions.encode  # the decoder stays

sentences = ["A dog bites a man.", "A man bites a dog."]
for sentence in sentences:
    print(sentence)
    print("  with:   ", *translator.greedy_search([sentence]))
    print("  without:", *order_blind.greedy_search([sentence]))

# %% tags=["remove-cell"]
first, second = order_blind.greedy_search(sentences)
assert first == second == "Ein Mann beißt einen Hund."
assert translator.greedy_search(sentences)[0] == "Ein Hund beißt einen Mann."

# %% [markdown]
# Without positions, the decoder gets the same set of vectors from the encoder both times, so it can't tell the two sentences apart.
#
# In an encoder, only attention combines positions; all other parts process each position separately. The score of two positions is computed from their vectors, not from where they are, and neither the softmax over the scores nor the weighted sum depends on the order of its terms. So if you
# permute the input, you get the same output vectors, permuted in the same way, whatever the model has learned. This is the permutation-equivariance from [Attention](02_attention.ipynb):

# %%
ids = torch.tensor([translator.encode("A dog bites a man.")])
# (1, 8), because "bites" is two tokens
permutation = torch.randperm(ids.size(1))
output, _ = without_positions.encode(ids)  # (1, 8, d_model)
output_of_permuted, _ = without_positions.encode(ids[:, permutation])
assert_close(output_of_permuted, output[:, permutation])
print("the same vectors, permuted")

# %% [markdown]
# A recurrent network gets the order by reading one word after another. Attention reads all words at once, so the paper writes the order into the vectors: its **positional encoding** has a vector $p_\text{pos}$ for each position, which is added to the
# embedding of the word at that position (§3.5).
#
# What should the vector of a position look like? Two obvious ideas fail:
#
# - **The index itself**, 0, 1, 2, …: it grows without limit. At position 500 it would drown out the word's embedding, whose values the model scales to about 1.
# - **The index divided by the length of the sentence**: it stays between 0 and 1, but now a step to the next word is 1/5 in a short sentence and 1/50 in a long one.
#
# We want values that stay small, a different vector for each position however long the sequence, and a step that always means the same thing.

# %% [markdown]
# ## Sinusoidal positional encoding
#
# The paper's position vectors consist of sines and cosines: a **sinusoidal encoding**. To see where they come from, start with binary numbers, which are nearly what we need: every digit is 0 or 1, yet every position gets a different pattern of digits. The grey lines below show the digits of the
# numbers 0 to 15. The last digit changes at every step, the one before it at every second step, and so on.
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
# One wave per digit isn't enough, because it is ambiguous: the sine of 30° is also the sine of 150°. So each digit becomes two numbers, the sine *and* the cosine of the same angle, which together determine the angle within a turn. They are the coordinates of **the tip of a clock hand**: if the hand starts at twelve and turns clockwise, $\sin$ is how far its tip is to the right, and $\cos$ how far up.
#
# Take $d_\text{model} = 4$: two pairs, that is, two clock hands. The first hand always turns by 1 radian (57°) per position, whatever $d_\text{model}$ is. Here the second turns by a hundredth of that, as the formula below will show. At **position 2** their
# angles are 2 and 0.02, so the position's vector is $(\sin 2, \cos 2, \sin 0.02, \cos 0.02)$:

# %%
sin, cos = math.sin, math.cos
print([round(x, 2) for x in (sin(2), cos(2), sin(0.02), cos(0.02))])
sinusoidal_encoding(length=3, d_model=4)[2]  # the package's function

# %% [markdown]
# Why do we need two pairs? A single one repeats: seven full turns of the first pair take $7 \cdot 2\pi \approx 43.98$ positions, so at position 44 it is almost exactly where it was at
# position 0, just as a minute hand is in the same place at 1:00 and 2:00. The second pair tells them apart, as the hour hand does:

# %%
sinusoidal_encoding(45, 4)[[0, 44]]  # positions 0 and 44, two pairs each

# %% tags=["remove-cell"]
by_hand = torch.tensor([sin(2), cos(2), sin(0.02), cos(0.02)])
assert_close(sinusoidal_encoding(length=3, d_model=4)[2], by_hand)

# %% [markdown]
# That is the whole idea. The $d_\text{model}$ numbers of a position are $d_\text{model}/2$ pairs, numbered $i = 0, 1, 2, \dots$ Pair $i$ turns by $\omega_i$ radians per position; $\omega_i$ is its **frequency**. The frequencies start at 1, and each is the previous one times the same factor (§3.5):
#
# $$
# \begin{aligned}
# p_{\text{pos},\,2i} &= \sin(\omega_i\,\text{pos}) \\
# p_{\text{pos},\,2i+1} &= \cos(\omega_i\,\text{pos}) \\
# \omega_i &= 10000^{-2i/d_\text{model}}
# \end{aligned}
# $$
#
# The number of positions in a full turn, $2\pi/\omega_i$, is the pair's **wavelength**. In the binary figure, each wavelength is twice the one before. In the paper, it is $10000^{2/d_\text{model}}$ times the one before: 100 times for $d_\text{model} = 4$, but only about 1.04 times for 512. The wavelengths grow from
# $2\pi \approx 6.3$ towards $10000 \cdot 2\pi \approx 63{,}000$, so the base, 10,000, sets the longest one. The paper doesn't explain this number. One good reason for a large base: in a sequence of any usual length, some slow pair completes a good part of a turn but not a whole one, and so distinguishes the beginning from the end.
#
# Below are the eight pairs for $d_\text{model} = 16$ as clock hands. **Move the position slider.** Every hand leaves a dot at each position it has visited. By position 63, the end of the slider, the first has completed ten turns, and the last has turned by about one degree. **Then choose a pair** to see its sine and cosine as waves.

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

# %% tags=["remove-cell"]
turned = torch.rad2deg(angles(64, 16)[63])
assert 10 < turned[0] / 360 < 10.1 and 0.9 < turned[-1] < 1.2
for width, growth in ((4, 100), (512, 1.04)):
    frequency = 10000 ** (-2 * torch.arange(width // 2) / width)
    assert abs(frequency[0] / frequency[1] / growth - 1) < 0.01

# %% [markdown]
# ## The encoding as a heat map
#
# Write the pairs side by side, and you get a figure that appears in many articles about the Transformer. A **row** is the vector of one position, and a **column** is one sine or cosine over all positions: a wave. To the right the frequencies get so low that, within these 48 positions, the sines stay near 0 and the cosines near 1.
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
print("equal to the package's")

# %% [markdown]
# The table is fixed, and computed when the model is built. The first layer reads the sum of embedding and positional encoding. In training, dropout is applied to this sum (§5.4). The section *Why add, and why scale the embeddings?* explains the factor $\sqrt{d_\text{model}}$:

# %%
embedding = model.source_embedding(ids)  # (1, 8, d_model)
d_model = embedding.size(-1)
x = embedding * math.sqrt(d_model) + sinusoidal_encoding(8, d_model)
x.shape

# %% tags=["remove-cell"]
assert_close(x, model.embed(ids, model.source_embedding))

# %% [markdown]
# ## Similarity depends only on distance
#
# How similar are the vectors of two positions $m$ and $n$? We take their plain dot product, before any query or key matrix. Each pair contributes a product of sines and a product of cosines, and the formula for $\cos(a - b)$ combines them:
#
# $$
# \begin{aligned}
# p_m \cdot p_n &= \textstyle\sum_i \big(\sin \omega_i m\,\sin \omega_i n \\
# &\qquad\ \ + \cos \omega_i m\,\cos \omega_i n\big) \\
# &= \textstyle\sum_i \cos\big(\omega_i (m - n)\big)
# \end{aligned}
# $$
#
# Only the difference $m - n$ is left: **the dot product of two position vectors depends on their distance and on nothing else.** It is largest at distance 0, where every cosine is 1. We compute it for 512 dimensions, as a fraction of that maximum, and plot it against the distance:

# %%
p = sinusoidal_encoding(101, 512)
similarity = p @ p.T / 256  # (101, 101), 1 on the diagonal
assert_close(similarity[1:, 1:], similarity[:-1, :-1], atol=1e-4, rtol=0)
print("equal for all pairs of the same distance")

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
# A curve that is steep near 0 and flat far away suits language: it often matters whether two words are neighbours or have one word between them, but hardly ever whether they are 90 or 91 words apart.
#
# The plain dot product shows how far away a word is, but not on which side, because the cosine is the same for $m - n$ and $n - m$. To distinguish left from right, a head needs its query and key matrices, as the next section shows.

# %% [markdown]
# ## Relative positions: a shift is a rotation
#
# The paper's main argument for sinusoids is that they should make it easy to learn to attend by *relative* position, such as "the word three positions back", wherever you are in the sentence (§3.5). The next figure shows why: moving two positions forward turns a pair by the same angle, wherever it starts.

# %% tags=["hide-input"]
Picture(
    plots.relative_offset(frequency=1.0, starts=(1, 4, 9), offset=2),
    alt=(
        "Three clocks. The hand is shown at positions 1, 4 and 9 in grey and two "
        "positions later in colour. It starts at a different angle each time, but "
        "the arc between the two hands is the same."
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
# The matrix contains $b$ but not $a$. Put one such block for each pair on the diagonal of a matrix $M_k$, and **$p_{\text{pos}+k} = M_k\,p_\text{pos}$ for every position**. Vectors are columns in this formula but rows in the code, so there the matrix is transposed:


# %%
def shift_matrix(k, d_model):
    """The rotation from any position to the one k positions later."""
    blocks = []
    for i in range(d_model // 2):
        b = k * 10000 ** (-2 * i / d_model)  # the frequency times k
        sin, cos = math.sin(b), math.cos(b)
        blocks.append(torch.tensor([[cos, sin], [-sin, cos]]))
    return torch.block_diag(*blocks)  # (d_model, d_model)


p = sinusoidal_encoding(200, 16)
assert_close(p[:-3] @ shift_matrix(3, 16).T, p[3:], atol=1e-5, rtol=0)
print("one matrix shifts every position by 3")

# %% [markdown]
# Why does this help a model? Because a head computes its queries with a matrix, and that matrix can be $M_{-3}$. Take one head as wide as the model, and leave out the words for now. If the head uses $M_{-3}$, the query at position $m$ is exactly the vector of position $m - 3$.
# Let the keys be the position vectors themselves. Each is most similar to itself, so the query matches the key at position $m - 3$ best. From position 3 on, such a head attends three positions back, without any training:

# %%
p = sinusoidal_encoding(10, 64)
query = 40 * p @ shift_matrix(-3, 64).T  # times 40: a sharp softmax
_, weights = attention(query, key=p, value=p)  # (10, 10)

# %% [markdown]
# In the heat map, each row is a query, and the yellow cell has nearly all of its weight. For positions 0 to 2, three positions back would be before the start, so they attend to the closest position, 0.

# %% tags=["hide-input"]
indices = [str(index) for index in range(10)]
Picture(
    heat_map(
        weights,
        indices,
        indices,
        annotate=False,
        row_title="query at position",
        column_title="key at position",
    ),
    alt=(
        "Attention weights of ten positions. From position 3 on, each row has its "
        "largest weight, at least 0.99, three positions to the left of the "
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
assert weights[range(3, 10), three_back[3:]].min() >= 0.99

# %% [markdown]
# Real heads are narrower than the model, but a few pairs are enough, here the first 8 of the 32:

# %%
narrow = p[:, :16]  # 8 pairs
query = 40 * narrow @ shift_matrix(-3, 64)[:16, :16].T
_, narrow_weights = attention(query, key=narrow, value=narrow)
print(f"at least {narrow_weights[range(3, 10), range(7)].min():.2f}")

# %% [markdown]
# With words, queries and keys contain the embeddings as well. A trained $W^Q$ and $W^K$ can mostly ignore these, because positions need only a few directions of the space, as the next section shows. And trained heads do look back, such as the previous-word head at the top of [Multi-head attention](03_multi_head_attention.ipynb).
#
# **Try it.** Set the distance $k$, then move the position: all hands turn, but the angle between the blue and the orange hand of a pair doesn't change.
#
# <div class="widget" data-widget="positions">
#
# *This figure is interactive in the [online book](https://transformer-course.github.io/transformer-course/chapters/05_positional_encoding.html) (with JavaScript) and in the notebook (run the next cell). Its initial state, with positions 3 and 5, four pairs and base 10,000:*
#
# | pair | from 3 to 5 | from 0 to 2 | wavelength |
# |---|---|---|---|
# | 0 | 114.6° | 114.6° | 6.3 |
# | 1 | 11.5° | 11.5° | 62.8 |
# | 2 | 1.1° | 1.1° | 628.3 |
# | 3 | 0.1° | 0.1° | 6,283.2 |
#
# </div>
#
# <details><summary>What happens if you make the base smaller?</summary>
#
# With base 10, even the slowest of the four pairs completes a turn in 35 positions. Then no pair is left that changes steadily over a long sequence, and distant positions can become similar again.
#
# </details>

# %% tags=["remove-cell"]
assert abs(2 * math.pi * 10 ** (6 / 8) - 35) < 0.5

# %% [markdown]
# ## Why add, and why scale the embeddings?
#
# **Why add?** Concatenating word and position seems cleaner than adding them. But the vector is then multiplied by a matrix, and for a concatenation that gives a sum of two products: $[w, p]\,\binom{W_1}{W_2} = wW_1 + pW_2$. Addition is the special case $W_1 = W_2$, and it needs no extra dimensions. And the sum loses little: within a sentence the slow pairs hardly change, so 16 of the 512 directions contain 99.5% of the squared length of the first 50 position vectors. Training can therefore put words and positions into different directions, and matrices can separate them again.
#
# **Why scale?** A sum is useful only if neither part drowns out the other. Each pair contributes $\sin^2 + \cos^2 = 1$ to the squared length of a position vector, so its length is $\sqrt{d_\text{model}/2}$, which is 16 in the base model. A word's embedding starts with a length of about 1, as [The full model](07_full_model.ipynb) explains.
# So the model multiplies embeddings by $\sqrt{d_\text{model}}$ (§3.4; the paper gives no reason). What happens if you forget this factor? We compare the cosine similarity of the same word
# at two positions with that of two different words at the same position. The same word should be clearly more similar:

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
# Without the factor, *dog* and *man* at the same position have almost the same vector. Training can enlarge the embeddings, but until then the model can hardly distinguish words.

# %% [markdown]
# ## Learned and rotary positions
#
# Sinusoids are an **absolute** positional encoding: every position has its own vector. So are **learned positional embeddings**, a second embedding table with a trained vector for each position ([Gehring et al., 2017](https://arxiv.org/abs/1705.03122)). The paper tried them and got nearly the same
# BLEU (Table 3, row E). BERT and GPT-2 use them. Their drawback is a hard maximum length, because the table has a last row.
#
# In a **relative** positional encoding, the score of a query at position $m$ and a key at position $n$ depends on their contents and on the **offset** $n - m$, but not on where the two are. A key to the left of the query has a negative offset. Some methods, such as that of [T5](15_transformer_family.ipynb), add a learned term to the score that depends on the offset.
#
# The most common method today is **rotary positions**, or *RoPE* ([Su et al., 2021](https://arxiv.org/abs/2104.09864)), used by Llama and many other models. Sinusoids are added *before* the query and key matrices, which mix their pairs. Rotary positions come *after* these matrices, where nothing can mix them any more: every self-attention layer **rotates the queries and keys**, but not the values, and nothing is added to the embedding. In each head, pair $i$ of the query or key at position $m$ is rotated by the angle $\omega_i m$, with the same frequencies as before, but the head's width $d_k$ in place of $d_\text{model}$. If $R_m$ is the rotation at position $m$, the score is
#
# $$
# \begin{aligned}
# (R_m q) \cdot (R_n k) &= q \cdot (R_m^\top R_n\, k) \\ &= q \cdot (R_{n-m}\, k)
# \end{aligned}
# $$
#
# The transpose of a rotation is its inverse. Rotating back by $m$ and forward by $n$ amounts to rotating by $n - m$, so only the offset of the two positions is left. Its sign matters, so a key can get different scores on the left and on the right. In the figure, **move both sliders by the same amount**: both arrows turn, but the dot product stays the same. The rings show the vectors before they were rotated. Unlike the clock hands, these arrows turn anticlockwise.

# %% tags=["hide-input"]
Captioned(
    plots.rotary_dot_product(
        query=(1.5, 0.5),
        key=(1.0, 1.0),
        frequency=0.5,
        description=(
            "A blue query and an orange key as arrows in a plane. Two sliders set "
            "their positions from 0 to 12; each arrow turns by half a radian per "
            "position. Below are the offset and the dot product, which stays the "
            "same when both positions move by the same amount."
        ),
    ),
    (
        "A query (blue) and a key (orange), rotated by their positions. Their dot "
        "product depends on the positions only through their offset."
    ),
)

# %% [markdown]
# The package rotates all pairs at once. `rotation` holds the cosines and sines of the angles, and the second-to-last line multiplies each pair (even, odd) by a 2 × 2 rotation matrix:

# %% tags=["remove-input"]
SourceCode(rotate)

# %% [markdown]
# Does the attention score of two given words, a query and a key, really depend only on their offset? We compute it for every pair of positions from 0 to 19, with added and with rotary positions, and look at the offsets −3 and 3:

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
    for offset in (-3, 3):
        same = scores.diagonal(offset)  # query at m, key at m + offset
        print(f"{name:6} {offset:2}: {same.min():5.2f} to {same.max():5.2f}")

# %% tags=["remove-cell"]
assert_close(rotary[1:, 1:], rotary[:-1, :-1], atol=1e-4, rtol=0)
assert (added[1:, 1:] - added[:-1, :-1]).abs().max() > 1
assert (rotary.diagonal(-3).mean() - rotary.diagonal(3).mean()).abs() > 0.1

# %% [markdown]
# With rotary positions the score of each offset is the same everywhere. With added ones it isn't, because the product of two sums has four terms: word · word, word · position, position · word and position · position. Each of the two mixed terms depends on one absolute position, and position · position depends on both: most matrices $W^Q$ and $W^K$ destroy the property that $p_m \cdot p_n$ depends only on the distance. This table compares the three kinds:
#
# | positions | what it does | parameters | beyond the trained length |
# |---|---|---|---|
# | sinusoidal (absolute) | adds a fixed vector to the embedding, once | none | defined, but unseen |
# | learned (absolute) | adds a trained vector to the embedding, once | one vector per position | no trained vector |
# | rotary (relative) | rotates queries and keys in every self-attention layer | none | trained offsets keep their scores anywhere, others are unseen |
#
# Cross-attention uses no rotation in this package: the offset between a position in the target and one in the source has no fixed meaning.
#
# **Which one is best?** On the pocket corpus of simple generated sentences, in short training runs with three seeds, rotary positions reach 92.6 BLEU, sinusoidal ones 88.9 and learned ones 86.7, and the spread over seeds is clearly smaller ([Experiments](../book/experiments.md)). On the image captions, in a single short run, rotary is almost two points ahead of sinusoidal.

# %% tags=["remove-cell"]
import json
from pathlib import Path
from statistics import fmean, stdev

energy = torch.linalg.svdvals(sinusoidal_encoding(50, 512)).square()
assert abs(energy[:16].sum() / energy.sum() - 0.995) < 0.0005
file = Path("../book/results/positions.json")
if file.exists():  # not in Colab
    bleu = {}
    for row in json.loads(file.read_text("utf-8"))["rows"]:
        score = row["test_sets"][-1]["scores"][0]["value"]
        bleu.setdefault(row["label"], []).append(score)
    kinds = ("learned", "sinusoidal", "rotary")
    assert [round(fmean(bleu[kind]), 1) for kind in kinds] == [86.7, 88.9, 92.6]
    assert all(len(scores) == 3 and stdev(scores) < 1 for scores in bleu.values())
    file = Path("../book/results/captions.json")
    on_captions = {
        row["label"]: row["test_sets"][-1]["scores"][0]["value"]
        for row in json.loads(file.read_text("utf-8"))["rows"]
    }
    gain = on_captions["rotary positions"] - on_captions["baseline"]
    assert 1.7 < gain < 2 and model.config.positions == "sinusoidal"

# %% [markdown]
# ## Length extrapolation
#
# Suppose that a model was trained on sequences of up to 16 tokens, and now gets one of 64. Sinusoids and rotations are *defined* at any position, but can the model use them there? The paper's authors hoped that sinusoids would **extrapolate**
# in this way (§3.5), but didn't test it. In our test, one encoder layer reads random tokens and answers one of two questions at every position:
#
# - **three back**: which token is three positions before this one? This needs a relative position.
# - **the first**: which token is at position 0? This is a question about an absolute position.
#
# For each question and each kind of positional encoding, we train a model on lengths 4 to 16 and test it at length 64. There are ten different tokens, so a guess is right one time in ten. The learned table has 64 rows, but those from 16 on are never trained and keep their tiny initial values. **Make a guess before you read on: which kind extrapolates?**
#
# `make_batch` returns random tokens and the right answers, `train` trains one model, and the third cell trains and tests all six:


# %%
def make_batch(question, length, sentences=32):
    ids = torch.randint(1, 11, (sentences, length))
    if question == "three back":
        return ids, F.pad(ids[:, :-3], (3, 0))  # 0: nothing to predict
    return ids, ids[:, :1].expand_as(ids)


def predict(model, ids):
    return model.logits(model.encode(ids)[0])  # (batch, length, 11)


tiny_config = ModelConfig(  # for 11 ids, with d_model = 32
    11, 32, n_heads=4, d_ff=64, n_layers=1, dropout=0, max_length=64, norm="pre"
)


# %%
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


# %%
@torch.no_grad()
def accuracy_by_position(model, question, length):
    ids, target = make_batch(question, length, sentences=500)
    correct = predict(model, ids).argmax(dim=-1) == target
    return correct.float().mean(dim=0).tolist()


tiny_models, accuracies = {}, {}
for question in ("three back", "the first"):
    for positions in ("sinusoidal", "learned", "rotary"):
        tiny_model = train(question, positions)
        accuracy = accuracy_by_position(tiny_model, question, length=64)
        tiny_models[question, positions] = tiny_model
        accuracies[question, positions] = accuracy

# %% [markdown]
# The plots show accuracy by the position of the query, in sequences of 64. The grey line marks the end of the positions that occur in training:


# %% tags=["hide-input"]
def by_position(question, title):
    """Accuracy at positions 3 to 63, with chance and the trained range."""
    lines = {kind: v[3:] for (q, kind), v in accuracies.items() if q == question}
    figure = curves(
        range(3, 64), lines, "position (trained: 0 to 15)", title,
        reference=("chance", 0.1),
    )  # fmt: skip
    figure.axes[0].axvline(15.5, color=style.PLAIN, linewidth=1)
    return figure


Row(
    Picture(
        by_position("three back", "Accuracy: three back"),
        alt=(
            "Accuracy on three back over positions 3 to 63. Rotary is near 1 "
            "except at position 3. Learned is near 1 up to position 12, falls before the end "
            "of the trained positions and stays just above chance, a tenth. "
            "Sinusoidal goes up and down: even at some of the trained positions it "
            "is below 0.6, and after them it is mostly near chance, with a few high "
            "peaks."
        ),
    ),
    Picture(
        by_position("the first", "Accuracy: the first token"),
        alt=(
            "Accuracy on the first over positions 3 to 63. Learned is near 1 "
            "everywhere. Sinusoidal is below it even at the trained positions, "
            "falls to about a third near position 60 and ends at about a half. "
            "Rotary is at chance, a tenth, at nearly all positions, the trained ones "
            "included, with a peak near 20."
        ),
    ),
    caption=(
        "Accuracy by position at length 64, after training on at most 16. Rotary "
        "positions extrapolate when the model looks three positions back, learned ones "
        "when it looks for the first token."
    ),
)

# %% tags=["remove-cell"]
table = {run: torch.tensor(values) for run, values in accuracies.items()}
for (
    question,
    kind,
) in accuracies:  # at the lengths of training, all are nearly right
    inside = accuracy_by_position(tiny_models[question, kind], question, 12)
    assert fmean(inside[3:]) > 0.9
assert table["three back", "rotary"][4:].min() > 0.95
learned = table["three back", "learned"]
assert learned[3:12].mean() > 0.9 and learned[14:16].mean() < 0.6
assert 0.08 < learned[16:].mean() < 0.2
assert table["the first", "learned"][3:].min() > 0.85
assert table["three back", "sinusoidal"][3:16].mean() < 0.85
assert table["the first", "sinusoidal"][3:16].mean() < 0.95
assert 0.4 < table["the first", "sinusoidal"][40:].mean() < 0.8
assert table["the first", "rotary"][3:16].mean() < 0.15
tables = [m.positions for (_, kind), m in tiny_models.items() if kind == "learned"]
assert all(abs(rows[16:].norm(dim=-1).mean() - 0.11) < 0.005 for rows in tables)
assert abs(sinusoidal_encoding(1, 32).norm() - 4) < 1e-5

# %% [markdown]
# **It depends on the question.** For *three back*, rotary positions work nearly everywhere, because offset −3 rotates each pair by an angle that occurs in every training example. The learned table has no trained rows from position 16 on, and there it is hardly better than chance. Its rows 13 to 15 were trained only on the few longest sequences. With sinusoids, a head that learned $M_{-3}$ would work at any length. But many other matrices also solve the task in sequences of up to 16 tokens, and training found one of those.
#
# For *the first*, it is the other way round. With learned vectors, position 0 always has the same vector, so the model still finds it, and the tiny vectors of unseen positions hardly get in the way. Rotary is at chance almost everywhere, **even at the first positions, which were trained**. What did this model learn? Its scores depend on words and offsets, so they can't single out position 0. But in a short sequence it is enough to find the key farthest to the left. The next figure shows the scores of its four heads by the offset of the key, averaged over all pairs of tokens:


# %% tags=["hide-input"]
@torch.no_grad()
def mean_scores(model):
    """Each head's score by the key's offset, averaged over all pairs of tokens."""
    layer = model.encoder[0]
    x = model.embed(torch.arange(1, 11)[None], model.source_embedding)
    x = layer.residuals[0].norm(x)  # (1, 10 tokens, 32): no positions in it
    query, key, _ = layer.self_attention.query_key_value(x).chunk(3, dim=-1)
    query, key = (z.mean(dim=1).view(4, 1, 8) for z in (query, key))
    rotation = rotary_table(127, 8)
    query = rotate(query, rotation[:, 63:64])  # at position 63
    key = rotate(key.expand(4, 127, 8), rotation)  # at positions 0 to 126
    return (query @ key.mT)[:, 0] / math.sqrt(8)  # (heads, offsets)


by_offset = mean_scores(tiny_models["the first", "rotary"])
figure = curves(
    range(-63, 64),
    {f"head {head + 1}": by_offset[head].tolist() for head in range(4)},
    "offset of the key from the query",
    "Mean score",
)
axes = figure.axes[0]
axes.set_ylim(-40, 42)
axes.axvspan(-15, 15, color=style.PLAIN, alpha=0.25, linewidth=0)
axes.text(0, 34, "trained", ha="center")
Picture(
    figure,
    alt=(
        "Four waves, one for each head, over the offsets from -63 to 63. In the left "
        "half of the grey band, from -15 to 0, all fall. All have peaks at about -21 "
        "and 42, outside the band, and a trough at about 11."
    ),
    caption=(
        "Scores of the rotary model that was trained to find the first token, by the "
        "offset of the key. On the left of the trained range (grey), farther keys "
        "score higher. Beyond it, the waves go on to a second peak on the right."
    ),
)

# %% tags=["remove-cell"]
from transformer.inspection import record_attention

zero = 63  # the index of offset 0
assert (by_offset[:, zero - 15 : zero + 1].diff() < 0).all()
assert (by_offset[:, :zero].argmax(dim=-1) - (zero - 21)).abs().max() <= 2
assert (by_offset[:, zero:].argmax(dim=-1) - 42).abs().max() <= 2
assert abs(2 * math.pi * 10000 ** (2 / 8) - 63) < 0.5  # of pair 1 in 8 dimensions
assert 17 < table["the first", "rotary"].argmax() < 24
tiny_model = tiny_models["the first", "rotary"]
with record_attention(tiny_model) as recorded, torch.no_grad():
    predict(tiny_model, make_batch("the first", 64)[0])
attended = recorded["encoder.0.self_attention"].mean(dim=(0, 1))[8].argmax()
assert abs(attended - 50) <= 2

# %% [markdown]
# Look at the grey band. To the left of the query, the farther away a key is, the higher its score, so the first token wins. Training didn't determine the rest of the curve: it goes on as a wave of about 63 positions, the wavelength of pair 1, with peaks at −21 and 42. In a sequence of 64, a query at position 8 therefore attends most to position 50. Only near position 20, where the first token is at the left peak, does the accuracy rise.
#
# If the keys on the right do the damage, hiding them should help. The next cell, which is folded, tests all six models with keys at most 15 positions to the right of the query:


# %% tags=["hide-input"]
@torch.no_grad()
def accuracy_with_mask(model, question, limit):
    """By position, if queries attend at most limit positions to the right."""
    ids, target = make_batch(question, 64, sentences=500)
    position = torch.arange(64)
    mask = position - position[:, None] <= limit  # (query, key)
    x = model.embed(ids, model.source_embedding)
    x = model.encoder_norm(model.encoder[0](x, mask))
    correct = model.logits(x).argmax(dim=-1) == target
    return correct.float().mean(dim=0)  # (64,)


all_keys, masked = {}, {}
print("accuracy with all keys → with keys hidden")
print(f"{'position':21}  3 to 15      from 16")
for run, tiny_model in tiny_models.items():
    question, positions = run
    all_keys[run] = accuracy_with_mask(tiny_model, question, limit=63)
    masked[run] = accuracy_with_mask(tiny_model, question, limit=15)
    row = f"{question:10} {positions:10}"
    for where in (slice(3, 16), slice(16, 64)):
        before, after = all_keys[run][where].mean(), masked[run][where].mean()
        row += f"  {before:.2f} → {after:.2f}"
    print(row)

# %% tags=["remove-cell"]
assert masked["the first", "rotary"][3:16].mean() > 0.95
assert table["three back", "rotary"][3] < 0.9
assert masked["three back", "rotary"][3] > 0.99
for question in ("three back", "the first"):  # most of the missing accuracy
    before, after = all_keys[question, "sinusoidal"], masked[question, "sinusoidal"]
    assert 1 - after[3:16].mean() < (1 - before[3:16].mean()) / 2
before, after = (
    a["three back", "sinusoidal"][16:].mean() for a in (all_keys, masked)
)
assert after < before + 0.05 < 0.35

# %% [markdown]
# It does help at the trained positions: there, rotary now finds the first token, its errors on *three back* disappear, and the sinusoidal models recover most of the missing accuracy. So **keys at unseen offsets disturb even queries at familiar positions.** From position 16 on, keys to the left have untrained offsets, too, and this mask can't help.
#
# Each curve is a single run, but the lesson is clear: **being *defined* at a position is not the same as being *trained* there.**
#
# <details><summary>How language models are extended to longer texts</summary>
#
# In language models, [Press et al. (2022)](https://arxiv.org/abs/2108.12409) found that sinusoidal positions hardly extrapolate at all, and rotary ones only a little. Models with RoPE are extended by rescaling the angles so that new positions fall into the trained range, usually with some fine-tuning: **position interpolation** ([Chen et al., 2023](https://arxiv.org/abs/2306.15595)) shrinks all angles by the same factor, and YaRN ([Peng et al., 2023](https://arxiv.org/abs/2309.00071)) mainly those of the low frequencies.
#
# </details>

# %% [markdown]
# ## What goes wrong in practice
#
# Bugs in positions are easy to miss: all shapes fit, the model trains, and it is just a little worse than it should be.
#
# **Left padding.** Padding at the end is harmless: the mask hides it, and no word moves. But language models that continue several prompts in one batch often pad them at the *front*. This shifts every word:

# %%
torch.manual_seed(0)
config = ModelConfig(8000, d_model=32, n_heads=4, d_ff=64, n_layers=2)
for positions in ("sinusoidal", "rotary"):
    tiny_model = Transformer(replace(config, positions=positions)).eval()
    output, _ = tiny_model.encode(ids)
    padded_ids = F.pad(ids, (3, 0))  # three <pad>, which have id 0, in front
    output_of_padded, _ = tiny_model.encode(padded_ids)  # masks <pad>
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
# <details><summary>Three more: angles in low precision, an off-by-one in the decoding loop, and two layouts of rotary pairs</summary>
#
# **Angles in low precision.** Many models are trained in bfloat16, a 16-bit format with 8 significant bits. From 256 on it can't represent odd numbers, so neighbouring positions become equal: only 385 of 512 positions remain distinct. So the package computes angles in float64, and rounds only the resulting sines and cosines.
#
# **An off-by-one in the decoding loop.** A loop that [generates one token at a time](12_decoding.ipynb) has to number the newest token itself. If every generated token gets a number that is one too high, even rotary positions are wrong, because the offsets to the prompt change. To catch this, test that **generating token by token gives the same logits as reading the whole sequence at once.**
#
# **Two layouts of rotary pairs.** The RoPE paper and this package rotate neighbouring dimensions, $(2i, 2i+1)$. Hugging Face's Llama rotates dimension $i$ of the first half with dimension $i$ of the second. Both are correct, and one is a permutation of the other. But a model trained with one layout and run with the other has wrong scores
# that still depend only on the offset, so it passes every test of that property. Only a comparison with the reference implementation's outputs reveals it.
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
assert len(torch.arange(512).to(torch.bfloat16).unique()) == 385
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
# **Right.** The same number of wavelengths is spread over a longer range. Distant positions become easier to distinguish, and fewer pairs are left for near ones. A larger base also slows down the rotations of RoPE, so long distances get angles that the model saw in training. That is another way to extend a RoPE model, again with some fine-tuning.
#
# </details>
# <details><summary>C. The position vectors become longer</summary>
#
# No. Each pair is a point on a circle of radius 1, so the length is always $\sqrt{d_\text{model}/2}$.
#
# </details>
# <details><summary>D. Neighbouring positions can no longer be distinguished</summary>
#
# No. The high-frequency pairs still turn by about one radian per position.
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
#
# **5. With rotary positions, a query at position 10 gets the score 2.0 with some key at position 7. What is the score of the same two words at positions 50 and 47, and at 10 and 13?**
#
# <details><summary>Answer</summary>
#
# At 50 and 47 it is 2.0 again: the offset is still −3. At 10 and 13 the offset is +3, so the score is usually different, and you can't compute it from 2.0. A model that was trained on at most 16 tokens can use offset −3 anywhere, but not offset −40.
#
# </details>

# %% tags=["remove-cell"]
p = sinusoidal_encoding(9, 4)
assert abs(p[7] @ p[8] - 1.54) < 0.01

# %% [markdown]
# ## Exercises
#
# Five blanks: the frequencies, the sinusoidal encoding, the shift, rotary positions, and the input of the first layer. Each has a hint, and a check that tells you what is wrong.
#
# - In Colab, where the last cell grades your answers:
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
# 1. **Look ahead.** In the section *Relative positions*, change one sign in the head's code so that it looks three positions *ahead*. What do the last three rows do, and why?
# 2. **A smaller base.** Copy `positional_encoding` into a new cell, use base 10 there, and plot the similarity for 512 dimensions again. At which distance does it stop falling, and what does it still show about larger distances?
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
# - **Relative positions as part of the score** were proposed a year later by two of the paper's authors and a colleague: [Shaw et al. (2018)](https://aclanthology.org/N18-2074/).
# - **Extrapolation**: [Press et al. (2022)](https://arxiv.org/abs/2108.12409) measure how several kinds fail, and propose ALiBi, a penalty on the score that grows with the distance.
# - **Next:** [Encoder and decoder layers](06_layers.ipynb) adds the parts around attention.
