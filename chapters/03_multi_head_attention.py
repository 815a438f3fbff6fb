# %% [markdown]
# # Multi-head attention
#
# A *head* is one of several attention computations that run side by side. The figure shows the attention weights of three heads of a trained translator for one sentence. **Why does a Transformer need more than one head, and what do more heads cost?**

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
    print(f"With all figures: {book}/chapters/03_multi_head_attention.html")

# %% tags=["hide-input"]
import torch

import transformer
from transformer.inspection import record_attention
from transformer.plots.curves import curves
from transformer.plots.head_grid import head_grid
from transformer.plots.head_lines import head_lines
from transformer.plots.masks import mask_grid
from transformer.plots.model_map import model_map
from transformer.plots.multi_head_attention import (
    multi_head_attention,
    split_into_heads,
)
from transformer.plots.single_head_limit import single_head_limit
from transformer.plots.style import Captioned, Picture, Row

torch.set_printoptions(precision=2, sci_mode=False)

translator = transformer.load("multi30k", device="cpu")
ids = translator.encode("A brown dog chases a white dog.")
tokens = [piece.replace("▁", "") for piece in translator.tokenizer.pieces(ids)]
with record_attention(translator.model) as recorded, torch.no_grad():
    translator.model.encode(torch.tensor([ids]))
previous = recorded["encoder.2.self_attention"][0, 2]  # layer 3, head 3
verb = recorded["encoder.3.self_attention"][0, 1]  # layer 4, head 2
ahead = recorded["encoder.0.self_attention"][0, 0]  # layer 1, head 1
Row(
    Picture(
        head_lines(previous, tokens, tokens, "the previous word"),
        alt=(
            "Attention weights as lines from the words of 'A brown dog chases a "
            "white dog' to the same words. In this head nearly every line goes to "
            "the word just before: dog to brown, chases to dog, white to a."
        ),
    ),
    Picture(
        head_lines(verb, tokens, tokens, "the verb"),
        alt=(
            "In this head the heaviest lines all go to one word, chases, from the "
            "words before it, from chases itself and from the two words after it."
        ),
    ),
    Picture(
        head_lines(ahead, tokens, tokens, "the words ahead"),
        alt=(
            "In this head most lines go one or two words forward; the heaviest goes "
            "from white to the second dog."
        ),
    ),
    caption=(
        "Three attention patterns in one sentence: the first head attends to the "
        "previous word, the second to the verb, the third to words ahead."
    ),
)

# %% [markdown]
# A line runs from a word's query, on the left, to a word's key, on the right; the heavier the line, the larger the attention weight. In the first head, nearly every word attends to the word before it, which connects each dog to its own colour: the first *dog* → *brown*, the second → *white*. In the second, most words attend to the verb, *chases*. In the third, most attend one or two words ahead. The model learned these patterns by learning to translate.

# %% tags=["remove-cell"]
assert (previous[1:8].argmax(dim=-1) == torch.arange(7)).all()
assert (verb[:6].argmax(dim=-1) == tokens.index("chases")).all()
assert (
    previous[2, 1] > 0.5
    and verb[2, 3] > 0.5
    and tokens[1:4:2] == ["brown", "chases"]
)
assert ahead[5].argmax() == 6 and tokens[5:7] == ["white", "dog"]
assert ahead[:7].triu(1).sum(dim=-1).mean() > 0.7  # mostly words to the right
nearest = torch.stack([ahead[i, i + 1 : i + 3].sum() for i in range(7)])
assert (nearest > 0.5).sum() >= 4, nearest  # of most words: one or two ahead

# %% [markdown]
# By the end you will be able to explain what gets lost in a single weighted average, write a multi-head attention module in twenty lines, and give the shape of every tensor in it. **About 45 minutes.** The chapter builds on [Attention](02_attention.ipynb).

# %% tags=["hide-input"]
Picture(
    model_map("self-attention", "masked self-attention", "cross-attention"),
    alt=(
        "The map of the Transformer, with encoder and decoder side by side. "
        "Highlighted are the same three boxes as in the chapter on attention: "
        "self-attention in the encoder, masked self-attention and cross-attention in "
        "the decoder."
    ),
    caption=(
        "This chapter is about the same boxes as the last one. One vector per token "
        "goes in; several heads attend in parallel, and their outputs are combined "
        "into one vector per token again."
    ),
)

# %% tags=["hide-input", "imports"]
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from transformer.attention import MultiHeadAttention, attention
from transformer.positions import sinusoidal_encoding

# %% [markdown]
# ## Why one softmax is not enough
#
# In the figure at the top, the first *dog* gives more than half of its weight to *brown* in the first head, and more than half to *chases* in the second. A single head couldn't do both: the weights of a query sum to one, so what one word gains, the others lose. In the last chapter, *left* had this problem: it had to find both who left and what was left.
#
# Here is the problem in its smallest form. The vector of *chases* needs to know **who chases**, and **who is chased**. Let the value of a word be a single number, 1 for *dog* and 0 for *cat*. One head gives the weight $w$ to the first animal and $1 - w$ to the second, and returns the sum:
#
# | sentence | output of the head | who chases? | who is chased? |
# |---|---|---|---|
# | dog chases dog | $1$ | dog | dog |
# | dog chases cat | $w$ | dog | cat |
# | cat chases dog | $1 - w$ | cat | dog |
# | cat chases cat | $0$ | cat | cat |
#
# Suppose the next layer is linear. It reads an answer by comparing this number with a threshold: *dog* above, *cat* below. A dog chases in the first two rows, a cat in the last two. So to answer *who chases?*, both $1$ and $w$ must be larger than both $1 - w$ and $0$, hence $w > 1 - w$. To answer *who is chased?*, the second and third row change places, and we need $1 - w > w$. No $w$ allows both, as the figure shows:

# %% tags=["hide-input"]
sentences = {
    "dog chases dog": (1, 1),
    "dog chases cat": (1, 0),
    "cat chases dog": (0, 1),
    "cat chases cat": (0, 0),
}
Picture(
    single_head_limit(
        sentences, ("readable here:\nwho is chased", "readable here:\nwho chases")
    ),
    alt=(
        "The output of one head against the weight of the first animal, from 0 to 1. "
        "dog chases dog stays at 1 and cat chases cat at 0; dog chases cat rises "
        "from 0 to 1, cat chases dog falls from 1 to 0. The two cross at weight "
        "0.5. Left of the crossing the output shows who is chased, right of it "
        "who chases."
    ),
    caption=(
        "Output of one head for four sentences, against the weight of the first "
        "animal. Left of the middle, the output can tell who is chased; right of it, "
        "who chases. At equal weights, two opposite sentences give the same output."
    ),
)

# %% [markdown]
# At the crossing, the head reports a dog and a cat, but not who chases whom. For nearly all other $w$, the four outputs differ, so in principle a non-linear layer can still work out both answers. **One head doesn't make that impossible. It makes it hard, because both answers share one number. Two heads, with two sets of weights, keep them apart, and cost hardly more**, as we will see in *What heads cost*.
#
# <details><summary>What the argument assumes, and what a real model can do</summary>
#
# We assumed that the next layer is linear, that a word has the same value at every position, and that all the weight goes to the two animals. In a real model, none of this has to be true: what follows is the output projection, a residual connection and a non-linear feed-forward network. But under these assumptions, a $w$ that depends on the sentence doesn't help, and neither do longer value vectors. Every output lies on the line from the value of *cat* to the value of *dog*. To show who chases, the output of *dog chases cat* must be closer to the value of *dog* than the output of *cat chases dog* is. To show who is chased, it must be farther away. It can't be both.
#
# With positions in the values, one head can answer both. Let the value be (is a dog, is first), and let the head give ¾ of its weight to the dog if the animals differ, and half to each if they don't. Then the sum of the output's two numbers shows who chases, and their difference who is chased. But the answers for *dog* and *cat* are only ½ apart; with a head for each question, they are 1 apart.
#
# </details>

# %% tags=["remove-cell"]
for w in torch.linspace(0, 1, 101).tolist():
    y = {name: w * v[0] + (1 - w) * v[1] for name, v in sentences.items()}
    assert y["dog chases dog"] == 1 and y["cat chases cat"] == 0
    assert (y["dog chases cat"] > y["cat chases dog"] + 1e-6) == (w > 0.5 + 1e-6)
    gaps = torch.tensor(sorted(y.values())).diff()
    assert (gaps.min() > 1e-6) == (1e-6 < abs(w - 0.5) < 0.5 - 1e-6)
# The fold: one head with positions in its values, and weights by content.
squeezed = []
for first, second in sentences.values():
    w = 0.5 if first == second else 0.75 if first else 0.25
    y = w * torch.tensor([first, 1.0]) + (1 - w) * torch.tensor([second, 0.0])
    squeezed.append(y.tolist())
    assert (y.sum() > 1.2) == bool(first) and (y[0] - y[1] > 0.2) == bool(second)
assert squeezed == [[1, 0.5], [0.75, 0.75], [0.75, 0.25], [0, 0.5]]

# %% [markdown]
# ## Two heads, by hand
#
# In **multi-head attention**, several attention operations run in parallel on the same words. Each is called a **head** and has its own queries, keys and values, hence its own softmax. We let *chases* attend twice. A few features per word are enough for the example: whether it is the verb (4 if so, to make its query long and its weights sharp), on which side of the verb it is (1 before, −1 after), and whether it is a dog or a cat. [Positional encoding](05_positional_encoding.ipynb) will show how a vector can contain the position of its word.

# %%
words = ["dog", "chases", "cat"]
x = torch.tensor(
    [  # verb, side, dog, cat
        [0.0, 1, 1, 0],  # dog
        [4, 0, 0, 0],  # chases
        [0, -1, 0, 1],  # cat
    ]
)  # (length 3, d_model 4)

# %% [markdown]
# As before, three matrices turn these vectors into queries, keys and values. Each row of a matrix shows what one input feature contributes; all rows that we don't set are zero. What is new is that **the columns are divided among the heads**: the first two belong to head 1, the last two to head 2.

# %%
VERB, SIDE, DOG, CAT = range(4)  # the features, and so the rows
w_query, w_key, w_value = torch.zeros(3, 4, 4)
w_query[VERB] = torch.tensor([1.0, 0, 0, 1])
w_key[SIDE] = torch.tensor([1.0, -1, 1, -1])
w_value[DOG] = torch.tensor([1.0, 0, 1, 0])
w_value[CAT] = torch.tensor([0.0, 1, 0, 1])

# %% tags=["hide-input"]
from transformer.plots.multi_head_attention import projection_matrices

Picture(
    projection_matrices(["verb", "side", "dog", "cat"], w_query, w_key, w_value, 2),
    alt=(
        "Three tables with the rows verb, side, dog and cat, and two blocks of two "
        "columns, head 1 and head 2. Not zero are: in W_Q, the row verb, 1 0 and 0 1; in "
        "W_K, the row side, 1 −1 and 1 −1; in W_V, the rows dog, 1 0 and 1 0, and "
        "cat, 0 1 and 0 1."
    ),
    caption=(
        "The three matrices: a row for each input feature, two columns for each head. "
        "Only the queries of the two heads differ."
    ),
)

# %% [markdown]
# Head 1 looks for a word before the verb, head 2 for one after it: the key is (side, −side) in both heads, but the query of *chases* is $(4, 0)$ in head 1 and $(0, 4)$ in head 2.

# %%
print("queries of chases", (x @ w_query)[1])
print("keys of dog      ", (x @ w_key)[0])

# %% [markdown]
# In head 1, the query $(4, 0)$ and the key of *dog*, $(1, -1)$, have the score $4$. The other two scores are 0 for *chases* itself and −4 for *cat*. A head has $d_k = 2$ dimensions (`d_head` in the code), so we divide by $\sqrt 2$ and get 2.83, 0 and −2.83. Their exponentials are about 16.9, 1 and 0.06, and *dog* gets the weight $16.9 / 17.96 = 0.94$. Head 2 does the same for the other side:

# %%
heads = []
for head, columns in enumerate([slice(0, 2), slice(2, 4)], start=1):
    matrices = (w_query, w_key, w_value)
    query, key, value = (x @ w[:, columns] for w in matrices)
    output, weights = attention(query, key, value)  # (3, 2), (3, 3)
    print(f"head {head}: weights {weights[1]}")
    print(f"        output  {output[1]}")
    heads.append(output)

# %% [markdown]
# The outputs are **concatenated**, that is, joined end to end. Of the four numbers that *chases* now has, the first two show who chases, and the last two who is chased. They are still separate, so nothing is lost:

# %%
concatenated = torch.cat(heads, dim=-1)  # (3, 4)
concatenated[1]  # who chases: dog, cat; who is chased: dog, cat

# %% [markdown]
# Finally a fourth matrix, $W^O$, turns the concatenated outputs into a vector of $d_\text{model}$ features again. In this **output projection**, each new feature can draw on all heads. Ours computes three features: whether the chaser is a dog, whether the one chased is a dog, and a score for *a dog chases a cat*, which neither head could compute alone. That score is about 0.94 if both parts are true and half of that if only one is:

# %%
w_output = torch.zeros(4, 4)
w_output[0, 0] = 1  # the chaser is a dog: from head 1
w_output[2, 1] = 1  # the one chased is a dog: from head 2
w_output[0, 2] = w_output[3, 2] = 0.5  # from both: chaser dog, chased cat
(concatenated @ w_output)[1]

# %% [markdown]
# That is all there is to multi-head attention (§3.2.2):
#
# $$
# \begin{aligned}
# &\mathrm{MultiHead}(Q, K, V) \\
# &\quad = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W^O \\
# &\text{where } \mathrm{head}_i \\
# &\quad = \mathrm{Attention}(Q W^Q_i,\; K W^K_i,\; V W^V_i)
# \end{aligned}
# $$
#
# Here, unlike in the last chapter, $Q$, $K$ and $V$ are the vectors *before* the projections. In self-attention all three are the same matrix $X$; in cross-attention, $K$ and $V$ are the memory. $W^Q_i, W^K_i \in \mathbb{R}^{d_\text{model} \times d_k}$ and $W^V_i \in \mathbb{R}^{d_\text{model} \times d_v}$ are the columns of head $i$, and $W^O$ is in $\mathbb{R}^{h d_v \times d_\text{model}}$. The paper's base model has $d_\text{model} = 512$ and $h = 8$, with $d_k = d_v = d_\text{model} / h = 64$.
#
# So each head projects the vectors into a small space of its own, a **representation subspace**, and compares them only there. That is the paper's reason for several heads (§3.2.2): at each position, the model can gather information of several kinds at once, each from different positions.
#
# The next figure shows the whole computation, from the queries, keys and values to the result. Follow the row of *chases* from top to bottom: the heads don't meet until the last line. The queries of *dog* and *cat* are zero, so each of them spreads its attention equally over all three words.

# %% tags=["hide-input"]
by_head = (
    (x @ w).unflatten(-1, (2, 2)).transpose(0, 1) for w in (w_query, w_key, w_value)
)  # (heads, length, d_k)
Picture(
    multi_head_attention(words, *by_head, w_output),
    alt=(
        "Two columns, one for each head. On top the queries, keys and values of dog, "
        "chases and cat, two numbers each. Below, the scores: in the row of chases, "
        "head 1 has 4 at dog and head 2 has 4 at cat. Divided by the root of 2, "
        "the softmax turns these into weights of 0.94. Beside the weights are "
        "the outputs. At the bottom both outputs are concatenated into four "
        "columns, and W_O turns the row of chases into 0.94, 0, 0.94, 0."
    ),
    caption=(
        "Two heads of multi-head attention, step by step. For “chases”, head 1 "
        "finds “dog” and head 2 “cat”; their outputs are concatenated and "
        "projected."
    ),
)

# %% [markdown]
# ## From a loop to a batch of heads
#
# **First as a loop over heads.** All four matrices are $d_\text{model} \times d_\text{model}$. Each head uses its own columns of the first three:


# %%
def multi_head_loop(x, n_heads, w_query, w_key, w_value, w_output):
    d_head = x.size(-1) // n_heads
    outputs = []
    for head in range(n_heads):
        columns = slice(head * d_head, (head + 1) * d_head)
        query = x @ w_query[:, columns]  # (length, d_head)
        key = x @ w_key[:, columns]
        value = x @ w_value[:, columns]
        scores = query @ key.T / math.sqrt(d_head)  # (length, length)
        outputs.append(scores.softmax(dim=-1) @ value)  # (length, d_head)
    return torch.cat(outputs, dim=-1) @ w_output  # (length, d_model)


# %% [markdown]
# Does it distinguish the two sentences that a single head can confuse? We swap the animals and look at *chases* in both:

# %%
reversed_x = x[[2, 1, 0]].clone()
reversed_x[:, 1] = x[:, 1]  # the sides stay where they are
matrices = w_query, w_key, w_value, w_output
print("dog chases cat", multi_head_loop(x, 2, *matrices)[1])
print("cat chases dog", multi_head_loop(reversed_x, 2, *matrices)[1])

# %% [markdown]
# The first two features show which animal is the dog: the one that chases in the first sentence, the one that is chased in the second.
#
# **Now without the loop**, because a GPU is faster with one large product than with many small ones. A single product `x @ w_query` computes the queries of all heads, side by side in one row per word. `attention` works on the last two dimensions of its inputs and treats all others as a batch. The last two are now the words and *all* features, but a head should see only its own. So we split the features by head, and move the dimension of the heads in front of that of the words. To see where each number goes, we let its tens digit show the word and its units digit the feature. The figure below the code shows `table` on the left and `split` on the right:

# %%
table = torch.tensor([[10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]])
unflattened = table.unflatten(-1, (2, 2))  # (length 3, heads 2, d_head 2)
split = unflattened.transpose(0, 1)  # (heads 2, length 3, d_head 2)

# %% tags=["hide-input"]
Picture(
    split_into_heads(words, table, split, ("x @ w_query", "one block per head")),
    alt=(
        "On the left a table of three rows, dog, chases and cat, with four numbers "
        "each: 10 to 13, 20 to 23 and 30 to 33. On the right a block for each head. "
        "Head 1 has the first two columns, 10 and 11, 20 and 21, 30 and 31; head 2 "
        "has the last two."
    ),
    caption=(
        "Splitting the columns of three words into two heads. Every head gets all "
        "words, with its own share of the features (dark: head 1; light: head 2)."
    ),
)

# %% tags=["remove-cell"]
assert split[0].tolist() == [[10, 11], [20, 21], [30, 31]]
assert split[1].tolist() == [[12, 13], [22, 23], [32, 33]]

# %% [markdown]
# This takes **two steps**: `unflatten` splits the last dimension, and `transpose` puts the dimension of the heads in front of that of the words. Neither copies a number; both only change how the same memory is indexed. Concatenating the heads takes the same two steps in reverse:


# %%
def split_heads(x, n_heads):
    """(batch, length, d_model) → (batch, heads, length, d_head)"""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def concatenate_heads(heads):
    """(batch, heads, length, d_head) → (batch, length, d_model)"""
    return heads.transpose(1, 2).flatten(2)


# %% [markdown]
# <details><summary>The same steps with view, transpose and contiguous, as in most code</summary>
#
# To split the heads, most code writes `x.view(B, L, h, d_head).transpose(1, 2)`, and to concatenate them, `x.transpose(1, 2).contiguous().view(B, L, d_model)`. `view` never copies, so it can't merge the dimensions of a transposed tensor, whose numbers are no longer in reading order in memory. `.contiguous()` copies them into that order first. `flatten` copies by itself where it has to.
#
# </details>
#
# Now we have everything for a complete module. Its four linear layers are $W^Q$, $W^K$, $W^V$ and $W^O$; like the paper's formula, it has no biases. For self-attention, pass the same tensor twice; for cross-attention, pass the encoder's output as `memory`:


# %%
class MultiHead(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, memory):
        query = split_heads(self.query(x), self.n_heads)
        key = split_heads(self.key(memory), self.n_heads)
        value = split_heads(self.value(memory), self.n_heads)
        # (batch, heads, n_query, d_head) and (batch, heads, n_query, n_key):
        heads, self.weights = attention(query, key, value)
        return self.output(concatenate_heads(heads))  # (batch, n_query, d_model)


# %% [markdown]
# The module keeps its attention weights in `self.weights`, so that we can look at them later. With the same matrices, its output equals that of PyTorch's `nn.MultiheadAttention`, for both self-attention and cross-attention:

# %%
torch.manual_seed(0)
ours = MultiHead(d_model=12, n_heads=3)
theirs = nn.MultiheadAttention(12, num_heads=3, bias=False, batch_first=True)
stacked = [ours.query.weight, ours.key.weight, ours.value.weight]
theirs.in_proj_weight.data = torch.cat(stacked).data
theirs.out_proj.load_state_dict(ours.output.state_dict())

source, target = torch.randn(2, 7, 12), torch.randn(2, 5, 12)
assert_close(ours(target, target), theirs(target, target, target)[0])
assert_close(ours(target, source), theirs(target, source, source)[0])
print("our multi-head attention equals PyTorch's")

# %% tags=["remove-cell"]
sequence = torch.randn(7, 12)  # (length, d_model)
for n_heads in (1, 2, 3, 4, 6, 12):
    layer = MultiHead(12, n_heads)
    linear_layers = (layer.query, layer.key, layer.value, layer.output)
    matrices = [linear.weight.T for linear in linear_layers]
    expected = multi_head_loop(sequence, n_heads, *matrices)
    assert_close(layer(sequence[None], sequence[None])[0], expected)

# %% [markdown]
# ## An attention layer is the sum of its heads
#
# "Concatenate, then multiply by $W^O$" sounds as if each head filled a part of the result. It doesn't. Head $i$ is multiplied only by its own *rows* of $W^O$, which we call $W^O_i \in \mathbb{R}^{d_v \times d_\text{model}}$, and the $h$ products are then added:
#
# $$
# \begin{aligned}
# &\mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W^O \\
# &\quad = \mathrm{head}_1 W^O_1 + \dots + \mathrm{head}_h W^O_h
# \end{aligned}
# $$

# %%
sequence = torch.randn(7, 12)  # (length, d_model)
matrices = torch.randn(4, 12, 12) / math.sqrt(12)
contributions = []
for head in range(3):
    part = slice(4 * head, 4 * head + 4)
    query, key, value = (sequence @ w[:, part] for w in matrices[:3])
    output, _ = attention(query, key, value)  # (length 7, d_head 4)
    contributions.append(output @ matrices[3][part])  # (length 7, d_model 12)
assert_close(sum(contributions), multi_head_loop(sequence, 3, *matrices))
print("the sum of three heads equals the layer's output")

# %% [markdown]
# So each head makes a full-width contribution, and the layer adds these up. Does this mix up the answers after all? Not if the heads write to different features, as the two heads of *dog chases cat* did: only head 1 wrote to feature 0, and only head 2 to feature 1. $W^O$ decides that, and it is trained. The sum also makes it possible to **ablate** a head, that is, to leave its term out of the sum and see what the head was good for.
#
# Each head also has two parts that can be studied separately ([Elhage et al., 2021](https://transformer-circuits.pub/2021/framework/index.html)). The **QK circuit**, $W^Q_i {W^K_i}^{\!\top}$, determines where the head attends. The **OV circuit**, $W^V_i W^O_i$, determines what it moves from there. Here is the QK circuit of head 1 in our example, with rows for the features of the querying word (verb, side, dog, cat) and columns for those of the word that it attends to. Its only non-zero entry means that a verb looks for a word with a positive side:

# %%
w_query[:, :2] @ w_key[:, :2].T  # (d_model, d_model)

# %% tags=["remove-cell"]
qk = w_query[:, :2] @ w_key[:, :2].T
assert qk.nonzero().tolist() == [[VERB, SIDE]] and qk[VERB, SIDE] == 1
assert_close(x @ qk @ x.T, (x @ w_query[:, :2]) @ (x @ w_key[:, :2]).T)

# %% [markdown]
# ## The package's module
#
# The rest of the course uses the package's `MultiHeadAttention`, which works the same way. `layer(x)` is self-attention, and `layer(x, memory=source)` is cross-attention. Both accept a `mask`, which hides positions (see the [next chapter](04_masking.ipynb)). It can do more than ours, which later chapters explain (dropout, a cache, rotary positions). Two details of the computation differ, too: the linear layers have biases, and $W^Q$, $W^K$ and $W^V$ are stacked in one linear layer, `query_key_value`, so that self-attention needs one matrix product instead of three. The whole class is on [the page with all the code](../book/code.md); here is that product:

# %%
layer = MultiHeadAttention(d_model=12, n_heads=3)
query, key, value = layer.query_key_value(target).chunk(3, dim=-1)
query.shape  # the queries of all heads, (batch, length, d_model)

# %% tags=["remove-cell"]
packaged = MultiHeadAttention(d_model=12, n_heads=3)
with torch.no_grad():
    packaged.query_key_value.weight.copy_(torch.cat(stacked))
    packaged.query_key_value.bias.zero_()
    packaged.output.weight.copy_(ours.output.weight)
    packaged.output.bias.zero_()
assert_close(packaged(target), ours(target, target))
assert_close(packaged(target, memory=source), ours(target, source))

# %% [markdown]
# ## Where the Transformer uses it
#
# The Transformer uses this module in three places (§3.2.3). They differ in what is passed as `x` and `memory`, and in their masks, which are the topic of the next chapter:
#
# | attention | queries from | keys and values from | weights of one head |
# |---|---|---|---|
# | self-attention in the encoder | source | source | source × source |
# | self-attention in the decoder | target so far | target so far | target × target |
# | cross-attention in the decoder | target so far | memory (the encoder's output) | target × source |
#
# The next table follows the shapes through one cross-attention layer of the paper's base model, with $d_\text{model} = 512$ and 8 heads, from a target of 25 tokens to a source of 30:
#
# | tensor | shape | in numbers |
# |---|---|---|
# | `x` | (batch, n_query, d_model) | 1 × 25 × 512 |
# | `memory` | (batch, n_key, d_model) | 1 × 30 × 512 |
# | queries | (batch, heads, n_query, d_head) | 1 × 8 × 25 × 64 |
# | keys, values | (batch, heads, n_key, d_head) | 1 × 8 × 30 × 64 |
# | scores, weights | (batch, heads, n_query, n_key) | 1 × 8 × 25 × 30 |
# | outputs of the heads | (batch, heads, n_query, d_head) | 1 × 8 × 25 × 64 |
# | concatenated, result | (batch, n_query, d_model) | 1 × 25 × 512 |
#
# The result has the shape of `x`: one output per query, however many keys it attends to.

# %% tags=["remove-cell"]
base = MultiHeadAttention(512, 8)
with torch.no_grad():
    query = base.project_query(torch.randn(1, 25, 512))
    key, value = base.project_memory(torch.randn(1, 30, 512))
    outputs, weights = attention(query, key, value)
    joined = base.join_heads(outputs)
assert query.shape == outputs.shape == (1, 8, 25, 64)
assert key.shape == value.shape == (1, 8, 30, 64)
assert weights.shape == (1, 8, 25, 30)
assert joined.shape == base.output(joined).shape == (1, 25, 512)

# %% [markdown]
# ## What heads cost
#
# Do eight heads take eight times the work? No: each is only an eighth as wide, $d_k = d_\text{model} / h$. Count the multiplications for $n$ tokens and $d = d_\text{model}$:
#
# - The four matrices take $4 n d^2$, no matter how their columns are divided.
# - The scores take $h$ heads × $n^2$ pairs × $d / h$ multiplications. The $h$ cancels, which leaves $n^2 d$.
# - The weighted sums take the same again, $n^2 d$.
#
# PyTorch can count the operations in its matrix products, where a multiplication and an addition count as two:

# %%
from torch.utils.flop_counter import FlopCounterMode

n, d = 32, 512
x = torch.zeros(1, n, d)
for h in (1, 4, 16):
    layer = MultiHead(d, h).requires_grad_(False)
    with FlopCounterMode(display=False) as counter:
        layer(x, x)
    multiplications = counter.get_total_flops() // 2
    parameters = sum(p.numel() for p in layer.parameters())
    print(f"{h:2} heads: {parameters:,} parameters")
    print(f"          {multiplications:,} multiplications")

# %% tags=["remove-cell"]
assert multiplications == 4 * n * d**2 + 2 * n**2 * d
assert parameters == 4 * d**2

# %% [markdown]
# Neither number changes. Only the softmax and the storage of the attention weights cost more with more heads, because each head has its own $n \times n$ weights. So why not use 512 heads? Because a narrow head is a weaker head. Before scaling, its scores are $X W^Q_i {W^K_i}^{\!\top} X^\top$, and the $d \times d$ matrix in the middle, its QK circuit, has rank $d_k$ at most: a head with 64 dimensions compares words along only 64 directions and is blind to all others.
#
# **More heads can look for more relations, but each head describes its relation less precisely.** The paper varied the number of heads at equal cost (§6.2, Table 3, rows A). It measured **BLEU**, a score from 0 to 100 that compares translations with references (see [Evaluation](13_evaluation.ipynb)): 24.9 with one head, 25.5 with 4, 25.8 with 8 or 16, and 25.4 with 32. Our own experiment, with a smaller model on synthetic sentences (see [Experiments](../book/experiments.md)), agrees: one head is too few, and 16 are as good as 8. We didn't try more.
#
# To save memory while text is generated, many models let several query heads share one head of keys and values: **multi-query** and **grouped-query attention** (see [The Transformer family](15_transformer_family.ipynb)).

# %% tags=["remove-cell"]
import json
from pathlib import Path
from statistics import fmean, stdev

file = Path("../book/results/heads.json")
if file.exists():  # not in Colab
    bleu = {}
    for row in json.loads(file.read_text("utf-8"))["rows"]:
        bleu.setdefault(row["label"], []).append(
            row["test_sets"][-1]["scores"][0]["value"]
        )
    mean = {h: fmean(scores) for h, scores in bleu.items()}
    assert mean["1"] + 2 * stdev(bleu["1"]) < min(mean["2"], mean["4"], mean["8"])
    assert abs(mean["16"] - mean["8"]) < stdev(bleu["8"])

# %% [markdown]
# ## All heads of a trained encoder
#
# Below are all sixteen heads of the encoder that you saw at the top: four layers of four heads. The enlarged one is the previous-word head, head 3 of layer 3. **Click another** to enlarge it, then tap a cell, or point at it, to read the weight. Can you find the other two heads from the top?

# %% tags=["hide-input"]
names = {f"layer {i + 1}": f"encoder.{i}.self_attention" for i in range(4)}
Captioned(
    head_grid(
        {layer: recorded[name][0] for layer, name in names.items()},
        dict.fromkeys(names, (tokens, tokens)),
        description=(
            "Small heat maps of the attention weights of sixteen heads, four "
            "layers of four, for the caption A brown dog chases a white dog, and a "
            "large one of the selected head. Layer 3 head 3 attends to the previous "
            "word, layer 4 head 2 to the verb, layer 1 head 1 to the words ahead. "
            "A few other heads are sharp, too; most spread their weight."
        ),
        first=("layer 3", 2),
    ),
    (
        "Attention weights of all heads of a trained encoder (rows are queries, "
        "columns are keys), the selected one enlarged. A few show clear patterns, "
        "but most spread their weight."
    ),
)

# %% [markdown]
# <details><summary>Where are the other two heads?</summary>
#
# Head 2 of layer 4 attends to the verb, and head 1 of layer 1 to the words ahead.
#
# </details>
#
# Many heads spread their weight over the whole sentence, and their purpose is hard to name. A clear pattern doesn't prove that the model needs the head, and a head without one may matter all the same. To find out, ablate the head and measure the damage; [What attention heads do](14_attention_heads.ipynb) shows how.

# %% [markdown]
# ## What goes wrong in practice
#
# **A reshape without the transpose.** This is the trap of the last chapter, now with heads. If the result should be (batch, heads, length, d_head), why not ask `reshape` for that shape? Because `reshape` keeps the numbers in reading order. The figures show the difference:

# %%
wrong_split = table.reshape(2, 3, 2)  # heads 2, length 3, d_head 2?

# %% tags=["hide-input"]
Picture(
    split_into_heads(words, table, split, ("x @ w_query", "right")),
    alt=(
        "Right: head 1 has the first two columns of all three words, head 2 the "
        "last two."
    ),
    caption="Right: with a transpose.",
)

# %% tags=["hide-input"]
Picture(
    split_into_heads(words, table, wrong_split, ("x @ w_query", "wrong")),
    alt=(
        "Wrong: head 1 has the rows 10 and 11, 12 and 13, 20 and 21; head 2 has "
        "22 and 23, 30 and 31, 32 and 33. In both, the two shades are mixed."
    ),
    caption=(
        "Wrong: with a reshape only, which mixes the columns of both heads, so that "
        "neither has all words."
    ),
)

# %% tags=["remove-cell"]
assert wrong_split[0].tolist() == [[10, 11], [12, 13], [20, 21]]

# %% [markdown]
# Head 1 now holds both halves of the first word and the first half of the second. All shapes fit and the weights sum to one, but no head sees the whole sentence. To reveal the bug, **change one input at a time**, and see which outputs change.


# %%
def wrong_forward(layer, x):
    shape = (len(x), layer.n_heads, x.size(1), -1)
    query = layer.query(x).reshape(shape)
    key = layer.key(x).reshape(shape)
    value = layer.value(x).reshape(shape)
    heads, _ = attention(query, key, value)
    return layer.output(heads.reshape(x.shape))


# %%
def outputs_that_change(function, x):
    """[i, t] is True if changing input t changes output i."""
    columns = []
    for t in range(x.size(1)):
        changed = x.clone()
        changed[:, t] += 1
        difference = (function(changed) - function(x)).abs()
        columns.append(difference.amax(dim=-1)[0] > 1e-6)  # more than rounding
    return torch.stack(columns, dim=1)


# %%
torch.manual_seed(0)
layer = MultiHead(32, n_heads=4).requires_grad_(False)
x = torch.randn(1, 8, 32)
right = outputs_that_change(lambda x: layer(x, x), x)
wrong = outputs_that_change(lambda x: wrong_forward(layer, x), x)
print(f"with transpose: {right.sum()} of 64   without: {wrong.sum()} of 64")

# %% [markdown]
# In self-attention, every output should depend on every input: all 64 pairs. Without the transpose, each of the four heads sees only two positions, and no information passes between these pairs.

# %% tags=["hide-input"]
axes_labels = ("output", "input that changes")
numbers = [str(n) for n in range(8)]
Row(
    Picture(
        mask_grid(right, numbers, numbers, "with transpose", labels=axes_labels),
        alt="With the transpose: all 64 cells are filled, every output depends on all.",
    ),
    Picture(
        mask_grid(
            wrong, numbers, numbers, "without transpose", ~wrong, labels=axes_labels
        ),
        alt=(
            "Without it: only four blocks of two by two on the diagonal are filled; "
            "all other cells are marked as wrong."
        ),
    ),
    caption=(
        "Which outputs change when an input changes. With the transpose, all of them "
        "do. Without it, each depends on two positions only (filled: the output changes; "
        "an exclamation mark: it should, but doesn't)."
    ),
)

# %% tags=["remove-cell"]
assert right.all()
assert torch.equal(wrong, torch.block_diag(*[torch.ones(2, 2)] * 4).bool())

# %% [markdown]
# **Scaling by the wrong dimension.** Scores are divided by $\sqrt{d_k}$, where $d_k$ is the width of a *head*. With $\sqrt{d_\text{model}}$ they are too small by a factor of $\sqrt h$, and every head starts closer to a plain average. The standard deviation of random scores, which should be 1, gives the mistake away:

# %%
torch.manual_seed(0)
query, key = torch.randn(2, 8, 200, 64)  # 8 heads, d_k 64, so d_model 512
scores = query @ key.transpose(-2, -1)
print(f"divided by √d_k:     {(scores / 64**0.5).std():.2f}")
print(f"divided by √d_model: {(scores / 512**0.5).std():.2f}")

# %% [markdown]
# **No output projection.** The concatenated outputs already have the right shape, so nothing complains if $W^O$ is missing. But then head 1 can only ever write to the first features of the result. To notice this, count the parameters: without biases, there should be $4 d^2$, not $3 d^2$.
#
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. You change 8 heads to 16 and leave $d_\text{model}$ at 512. What happens to the number of parameters of the layer?**
#
# <details><summary>A. It doubles</summary>
#
# No. There are twice as many heads, but each of them has half as many columns of each matrix.
#
# </details>
# <details><summary>B. It stays the same</summary>
#
# **Right.** The matrices are 512 × 512 either way. Only the division of their columns changes.
#
# </details>
# <details><summary>C. It is halved</summary>
#
# No. Each head becomes half as large, but there are twice as many of them.
#
# </details>
# <details><summary>D. Only the output projection grows, because it has more heads to combine</summary>
#
# No. The concatenated outputs are as wide as before: 16 · 32 = 8 · 64 = 512.
#
# </details>
#
# **2. In cross-attention, a target of 6 tokens attends to a source of 9 tokens, with 8 heads and a batch of 4. What is the shape of the weights?**
#
# <details><summary>A. (4, 6, 9)</summary>
#
# No. That would be one table of weights per sentence, but each of the eight heads has its own.
#
# </details>
# <details><summary>B. (4, 8, 9, 6)</summary>
#
# No. Rows are queries, and in cross-attention the queries come from the target.
#
# </details>
# <details><summary>C. (4, 8, 6, 9)</summary>
#
# **Right.** The order is batch, heads, queries, keys; each row of 9 weights sums to one.
#
# </details>
# <details><summary>D. (4, 8, 6, 64)</summary>
#
# No. That is the shape of the heads' outputs in the base model: a vector of 64 numbers for each query.
#
# </details>
#
# **3. Two heads of a trained layer have exactly the same attention weights on every sentence. Can one of them be removed without any loss?**
#
# <details><summary>A. Yes, because they do the same thing</summary>
#
# No. They attend to the same words, but each has its own values, so they may retrieve different information.
#
# </details>
# <details><summary>B. Not necessarily: their values and their rows of the output projection may differ</summary>
#
# **Right.** The weights decide where a head attends. $W^V$ and $W^O$ decide what it retrieves and where it writes it. To find out, ablate the head and measure.
#
# </details>
# <details><summary>C. Yes, if its weights are added to those of the other</summary>
#
# No. The rows of the other head would then sum to two, and it would still retrieve only its own values.
#
# </details>
# <details><summary>D. No, because PyTorch cannot remove a head</summary>
#
# No. It takes one line: set the head's part of $W^O$ to zero.
#
# </details>
#
# **4. In the example with one head, let $w = 2/3$. Which of the two questions can a threshold answer? What does it take to answer the other?**
#
# <details><summary>Answer</summary>
#
# The outputs are 1, 2/3, 1/3 and 0, in the order of the table. A threshold of 1/2 answers who chases. Who is chased is, in this order, dog, cat, dog, cat: that takes three thresholds, so a non-linear layer, and a precise one. With thousands of words instead of two, and with weights that differ from sentence to sentence, the layer can't rely on fixed thresholds. In our example with two heads, the next layer gets each answer in numbers of its own.
#
# </details>
#
# **5. $W^V$ and $W^O$ are both linear, with nothing but a weighted sum in between. Why not merge them into one matrix?**
#
# <details><summary>Answer</summary>
#
# For each head, $W^V_i W^O_i$, its OV circuit, is indeed a single matrix, $d_\text{model} \times d_\text{model}$ and of rank $d_v$ at most. Kept as two factors it has $2\, d_\text{model}\, d_v$ numbers instead of $d_\text{model}^2$, and the weighted sum is computed on short vectors. The same is true of $W^Q_i$ and $W^K_i$: two narrow matrices are a cheap way to store one wide matrix of low rank.
#
# </details>
#

# %% [markdown]
# ## Do heads divide the work on their own?
#
# *Optional: no later chapter builds on this section.*
#
# Nothing in the formula makes two heads do different things. Do they anyway? Our test is a task in which every position needs information from two others, its *sources*. The input is a row of eight random digits. For each position, the model has to predict **two** digits: the one at the *mirror* position, the same position counted from the other end, and the one *two positions earlier*. Positions 0 and 1 wrap around to 6 and 7.


# %%
def make_batch(rows):
    digits = torch.randint(10, (rows, 8))
    labels = torch.stack([digits.flip(1), digits.roll(2, dims=1)], dim=-1)
    return digits, labels  # (rows, 8), (rows, 8, 2)


# %% [markdown]
# The model is our attention module between an embedding and a linear layer. The task is about positions, so we add a vector that depends on the position to each digit's vector. [Positional encoding](05_positional_encoding.ipynb) explains how it is made:


# %%
class TwoSources(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.embed = nn.Embedding(10, 32)  # a learned vector for each digit
        self.attention = MultiHead(32, n_heads)
        self.predict = nn.Linear(32, 20)  # logits of two digits

    def forward(self, digits):  # (rows, 8)
        x = self.embed(digits) + sinusoidal_encoding(8, 32)  # (rows, 8, 32)
        logits = self.predict(self.attention(x, x))
        return logits.unflatten(-1, (2, 10))  # (rows, 8, 2, 10)


# %% [markdown]
# We train it with one head and with two. **Both versions have the same number of parameters**; only the division of the 32 dimensions differs. We record the attention weights of every step, averaged over the batch:


# %%
def train(n_heads, seed=0, steps=500):
    torch.manual_seed(seed)
    model, weights = TwoSources(n_heads), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        digits, labels = make_batch(32)
        logits = model(digits).flatten(0, 2)
        loss = F.cross_entropy(logits, labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        weights.append(model.attention.weights.detach().mean(dim=0))
    return model.requires_grad_(False), torch.stack(weights)


# %%
one_head, one_head_weights = train(n_heads=1)
two_heads, two_heads_weights = train(n_heads=2)

torch.manual_seed(1)
digits, labels = make_batch(500)
for name, model in (("one head ", one_head), ("two heads", two_heads)):
    predicted = model(digits).argmax(dim=-1)  # (rows, 8, 2)
    correct = (predicted == labels).float().mean(dim=(0, 1))
    print(f"{name}  mirror {correct[0]:.0%}  two earlier {correct[1]:.0%}")

# %% tags=["remove-cell"]
assert correct.min() > 0.99
one_correct = (one_head(digits).argmax(dim=-1) == labels).float().mean(dim=(0, 1))
assert one_correct[0] > 0.85 and 0.13 < one_correct[1] < 0.3
sizes = [sum(p.numel() for p in m.parameters()) for m in (one_head, two_heads)]
assert sizes[0] == sizes[1]

# %% [markdown]
# A guess would be right one time in ten. The single head has to return both digits in one weighted sum, from which the linear layer `predict` reads only one of them well. Two heads get everything right.
#
# How did the two heads come to divide the work? This function computes how much weight a head gives to each source:


# %%
def weights_on_sources(weights):  # (…, heads, 8, 8)
    position = torch.arange(8)
    mirror = weights[..., position, position.flip(0)].mean(dim=-1)
    earlier = weights[..., position, position.roll(2)].mean(dim=-1)
    return mirror, earlier  # (…, heads) each


# %% [markdown]
# The plot shows these weights during training:

# %% tags=["hide-input"]
mirror, earlier = weights_on_sources(two_heads_weights)  # (steps, heads)
Picture(
    curves(
        range(500),
        {
            "head 1, mirror": mirror[:, 0],
            "head 1, two earlier": earlier[:, 0],
            "head 2, mirror": mirror[:, 1],
            "head 2, two earlier": earlier[:, 1],
        },
        "training step",
        "Attention weight on the source",
    ),
    alt=(
        "Four curves over 500 steps, the weight that each of two heads gives to each "
        "source. All four rise together to about 0.3 at step 100. Then both heads "
        "give more to the mirror position, 0.4 at step 250. After step 300 the heads "
        "part: head 1 switches to the position two earlier, head 2 stays with the "
        "mirror position, and both end at about 0.75."
    ),
    caption=(
        "Attention weights of the two heads on the two sources during training. At "
        "first both do the same thing; in the end each has a source of its own."
    ),
)

# %% tags=["remove-cell"]
at = {
    n: (mirror[n - 10 : n + 10].mean(dim=0), earlier[n - 10 : n + 10].mean(dim=0))
    for n in (100, 250, 490)
}
assert (at[100][0] - at[100][1]).abs().max() < 0.05  # both heads, both sources
assert min(at[250][0]) > max(at[250][1]) + 0.1  # both heads prefer the mirror
assert at[490][0][1] > 0.65 and at[490][1][0] > 0.65  # one source each
assert at[490][0][0] < 0.15 and at[490][1][1] < 0.15

# %% [markdown]
# At first all four lines run together: both heads attend to both sources about equally. At this stage, the model knows *which two* digits it needs, but not *which is which*, the same confusion as between *dog chases cat* and *cat chases dog*. We can check this by stopping after 100 steps:

# %%
early, _ = train(n_heads=2, steps=100)
predicted = early(digits).argmax(dim=-1)  # (rows, 8, 2)
right = (predicted == labels).float().mean()
either = (predicted[..., None] == labels[..., None, :]).any(dim=-1).float().mean()
print(f"one of the two: {either:.0%}, the right one: {right:.0%}")

# %% tags=["remove-cell"]
assert either > 0.8 and 0.4 < right < 0.55 and 0.45 < right / either < 0.6


def correct_of_one_head(first):
    torch.manual_seed(0)
    model = TwoSources(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(500):
        digits = torch.randint(10, (32, 8))
        labels = torch.stack([digits.flip(1), digits.roll(2, dims=1)], dim=-1)
        logits, labels = model(digits)[:, first:], labels[:, first:]
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 2), labels.flatten()).backward()
        optimizer.step()
    return (logits.argmax(dim=-1) == labels).float().mean(dim=(0, 1)).tolist()


mirror_share, earlier_share = correct_of_one_head(first=2)
assert mirror_share > 0.8 and earlier_share < 0.3

# %% [markdown]
# A guess would be one of the two digits about one time in five. So the model has usually found the pair, but then it is right only about half of the time: it hardly knows which is which.
#
# Then both heads come to prefer the mirror position, as the single head does. (We don't know why.) Around step 300 the heads **specialise**: one switches to the other source, and the two digits can be told apart. The random initialisation makes this possible: two heads with identical parameters would also get identical gradients and stay identical forever.

# %% tags=["remove-cell"]
for n, more_for_mirror in ((100, False), (250, True)):
    model, _ = train(n_heads=2, steps=n)
    correct = (model(digits).argmax(dim=-1) == labels).float().mean(dim=(0, 1))
    assert (correct[0] > 0.8 and correct[1] < 0.3) == more_for_mirror

# Two identical heads stay identical.
torch.manual_seed(0)
twins = TwoSources(2)
with torch.no_grad():
    for linear in (
        twins.attention.query,
        twins.attention.key,
        twins.attention.value,
    ):
        linear.weight[16:] = linear.weight[:16]
    twins.attention.output.weight[:, 16:] = twins.attention.output.weight[:, :16]
optimizer = torch.optim.SGD(twins.parameters(), lr=1.0)
for _ in range(20):
    more_digits, more_labels = make_batch(32)
    F.cross_entropy(
        twins(more_digits).flatten(0, 2), more_labels.flatten()
    ).backward()
    optimizer.step()
    optimizer.zero_grad()
assert_close(twins.attention.weights[:, 0], twins.attention.weights[:, 1])
assert_close(
    twins.attention.key.weight[16:],
    twins.attention.key.weight[:16],
    atol=1e-4,
    rtol=0,
)

# %% [markdown]
# The next figure shows the weights at the end, as lines from queries to keys. For *mirror* the lines cross in the middle; for *two earlier* they are parallel, except for the two that wrap around.

# %% tags=["hide-input"]
final = [w[-50:].mean(dim=0) for w in (one_head_weights, two_heads_weights)]
numbers = [str(n) for n in range(8)]
Row(
    Picture(
        head_lines(final[0][0], numbers, numbers, "the only head"),
        alt=(
            "The single head: most positions have two lines, one to their mirror "
            "position and a thinner one to the position two earlier."
        ),
    ),
    Picture(
        head_lines(final[1][0], numbers, numbers, "head 1 of two"),
        alt=(
            "Parallel lines: each position attends to the one two positions "
            "earlier; positions 0 and 1 attend to 6 and 7."
        ),
    ),
    Picture(
        head_lines(final[1][1], numbers, numbers, "head 2 of two"),
        alt=(
            "Lines that cross in the middle: each position attends to its mirror "
            "position, 0 to 7, 1 to 6 and so on."
        ),
    ),
    caption=(
        "Attention weights by position: the only head gives more to the "
        "mirror position than to the one two earlier; with two heads, each takes one."
    ),
)

# %% tags=["remove-cell"]
(mirror_of_one,), (earlier_of_one,) = weights_on_sources(final[0])
assert mirror_of_one > 0.35 and earlier_of_one > 0.2

# %% [markdown]
# Was that luck? We train the model with five seeds and look at which head gives more weight to which source, and how much:

# %%
runs = [train(n_heads=2, seed=seed)[1][-50:].mean(dim=0) for seed in range(5)]
for seed, weights in enumerate(runs):  # (heads, 8, 8), after training
    mirror, earlier = weights_on_sources(weights)  # (heads,) each
    a, b = mirror.argmax(), earlier.argmax()
    print(f"seed {seed}: head {a + 1} mirror {mirror[a]:.2f},", end=" ")
    print(f"head {b + 1} earlier {earlier[b]:.2f}")

# %% tags=["remove-cell"]
for mirror, earlier in map(weights_on_sources, runs):
    assert mirror.argmax() != earlier.argmax()
    assert min(mirror.max(), earlier.max()) > 0.5

# %% [markdown]
# It wasn't luck: in this task, for which one head is not enough, two heads do divide the work on their own. In trained translators the division is less clean, and heads can stand in for each other (see [What attention heads do](14_attention_heads.ipynb)).

# %% [markdown]
# ## Exercises
#
# First do the last three blanks of chapter 2's notebook. This chapter's own has six: the three projections in one product, a whole cross-attention layer, the contribution of each head, the cost of a layer, heads that share their keys and values, and a layer in which you find three bugs by experiments. Each has a hint, and a check that tells you what is wrong.
#
# - In Colab, where the last cell grades your answers:
#   [03_multi_head_attention](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/03_multi_head_attention.ipynb).
#   On GitHub: [03_multi_head_attention.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/03_multi_head_attention.ipynb).
# - On your machine, open `exercises/03_multi_head_attention.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade multi_head_attention
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Three experiments with <code>TwoSources</code> from the optional section, a line or two each</summary>
#
# 1. Train it with 4, 8, 16 and 32 heads. Does it still work when a head has only one dimension?
# 2. Leave out the positions, and print the last loss. What do you expect? Write it down before you run it.
# 3. In the model with one head, replace `predict` by a feed-forward network with 128 hidden units. How many of the digits *two earlier* does it get right?
#
# </details>
# <details><summary>What happened when we ran them</summary>
#
# 1. With 4 and 8 heads the model still gets all digits right. With 16 heads of two dimensions, seed 0 makes mistakes, while some other seeds don't. With 32 heads of one dimension, four digits in ten are wrong: the price of narrow heads.
# 2. The loss ends near 1.8. Without positions the model can't tell where a digit is, so it learns only which digits the row contains. Guessing one of these is better than guessing any of the ten digits, which gives a loss of $\ln 10 \approx 2.3$.
# 3. About three quarters. A non-linear layer can recover much of what one head mixes up, but two heads need no such help.
#
# </details>


# %% tags=["remove-cell"]
def last_loss_without_positions():
    torch.manual_seed(0)
    model = TwoSources(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(500):
        digits, labels = make_batch(32)
        x = model.embed(digits)
        logits = model.predict(model.attention(x, x)).unflatten(-1, (2, 10))
        loss = F.cross_entropy(logits.flatten(0, 2), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(1)
digits, labels = make_batch(500)
right = {}
for n_heads in (4, 8, 16, 32):
    predicted = train(n_heads)[0](digits).argmax(dim=-1)
    right[n_heads] = (predicted == labels).float().mean().item()
print("right:", {n_heads: f"{share:.0%}" for n_heads, share in right.items()})
assert min(right[4], right[8]) > 0.99
assert 0.8 < right[16] < 0.98 and 0.55 < right[32] < 0.65, right
loss = last_loss_without_positions()
print(f"loss without positions: {loss:.2f}")
assert 1.65 < loss < 1.95

torch.manual_seed(0)
deeper = TwoSources(1)
deeper.predict = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 20))
optimizer = torch.optim.Adam(deeper.parameters(), lr=0.01)
for _ in range(500):
    more_digits, more_labels = make_batch(32)
    F.cross_entropy(
        deeper(more_digits).flatten(0, 2), more_labels.flatten()
    ).backward()
    optimizer.step()
    optimizer.zero_grad()
deeper_correct = (deeper(digits).argmax(dim=-1) == labels).float().mean(dim=(0, 1))
assert deeper_correct[0] > 0.9 and 0.65 < deeper_correct[1] < 0.82  # about 3 of 4

# %% [markdown]
# ## Going further
#
# - **In the paper:** [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762) describe heads in §3.2.2, where they are used in §3.2.3, and how many to use in §6.2.
# - **What heads do, and how many a trained model needs:** [Voita et al. (2019)](https://aclanthology.org/P19-1580/) find heads for neighbouring positions, for syntactic relations and for rare words; [Michel et al. (2019)](https://arxiv.org/abs/1905.10650) ablate heads one at a time and in groups.
# - **The price of narrow heads:** [Bhojanapalli et al. (2020)](https://arxiv.org/abs/2002.07028) show what the low rank of the scores prevents.
# - **Next:** You can now give every query several heads. But some positions must not be attended to: padding, and the future. [Masking](04_masking.ipynb) hides them.
