# %% [markdown]
# # Multi-head attention
#
# A *head* is one of several attention computations that run side by side. Below, three heads of a trained translator read the same caption. **Why does a Transformer need
# more than one, and what do they cost?**

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
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import transformer
from transformer.attention import MultiHeadAttention, attention
from transformer.inspection import ablate_heads, record_attention
from transformer.plots.curves import curves
from transformer.plots.head_grid import head_grid
from transformer.plots.head_lines import head_lines
from transformer.plots.masks import mask_grid
from transformer.plots.multi_head_attention import multi_head_attention
from transformer.plots.single_head_limit import single_head_limit
from transformer.plots.style import Captioned, Picture, Row, SourceCode
from transformer.positions import sinusoidal_encoding

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
            "words before it and from the two after it."
        ),
    ),
    Picture(
        head_lines(ahead, tokens, tokens, "the words ahead"),
        alt=(
            "In this head the lines go one or two words forward; the heaviest goes "
            "from white to the second dog."
        ),
    ),
    caption=(
        "Three attention patterns in one sentence: the first head attends to the "
        "previous word, the second to the verb, the third to words ahead."
    ),
)

# %% [markdown]
# A line runs from a word's query, on the left, to another word's key, on the right; the heavier the line, the larger the attention weight. In the
# first head, nearly every word attends to the word before it, which connects each dog to its own colour: *dog* → *brown*, the second *dog* → *white*. In the second, most
# words attend to the verb, *chases*. In the third, they attend one or two words ahead. The model learned these patterns while it learned to translate.

# %% tags=["remove-cell"]
assert (previous[1:8].argmax(dim=-1) == torch.arange(7)).all()
assert (verb[:6].argmax(dim=-1) == tokens.index("chases")).all()
assert ahead[5].argmax() == 6 and tokens[5:7] == ["white", "dog"]
assert ahead[:7].triu(1).sum(dim=-1).mean() > 0.7  # mostly words to the right

# %% [markdown]
# By the end you will be able to explain what a single softmax cannot do, write multi-head attention with and without a loop, and give the shape of every
# tensor in it.
#
# **About 45 minutes.** The chapter builds on [Attention](02_attention.ipynb).
#
# ## Why one softmax is not enough
#
# To represent what happens in a sentence, the vector of *chases* needs two things from its context: **who chases**, and **who is chased**. But one head returns one weighted average. **To attend to two words, it has to split its weight between them, and the next layer sees only the mixture.**
#
# Here is the simplest case. The value of a word is a single number, 1 for *dog* and 0 for *cat*. The head gives the weight $w$ to the
# first animal and $1 - w$ to the second:

# %%
sentences = {
    "dog chases dog": (1, 1),
    "dog chases cat": (1, 0),
    "cat chases dog": (0, 1),
    "cat chases cat": (0, 0),
}
w = torch.tensor([1, 0.75, 0.5, 0.25, 0])
rows = {"w": w}
for sentence, (first, second) in sentences.items():
    rows[sentence] = w * first + (1 - w) * second
for name, numbers in rows.items():
    print(f"{name:14}", *(f"{number:5.2f}" for number in numbers))

# %% [markdown]
# The figure shows these outputs for all $w$ from 0 to 1. On the dotted line in the middle, with equal weights, *dog chases
# cat* and *cat chases dog* give the same output: a dog and a cat, but no longer who is who.

# %% tags=["hide-input"]
Picture(
    single_head_limit(sentences, ("who is chased", "who chases")),
    alt=(
        "The output of one head against the weight of the first word, from 0 to 1. "
        "dog chases dog stays at 1 and cat chases cat at 0; dog chases cat rises "
        "from 0 to 1, cat chases dog falls from 1 to 0. The two cross at weight "
        "0.5. Left of the crossing the output shows who is chased, right of it "
        "who chases."
    ),
    caption=(
        "Output of one head for four sentences, against the weight of the first "
        "animal. At equal weights, two opposite sentences give the same output."
    ),
)

# %% [markdown]
# Suppose the next layer is linear and has to read both answers from this number $y$. For each question it computes $ay + b$ and answers *dog* where that is positive, so it compares $y$ with a threshold. No choice of thresholds answers both questions:
#
# - To the right, where $w > \tfrac12$, a threshold at $\tfrac12$ answers *who chases*. The two sentences in which a dog chases lie above it, the other two
#   below.
# - To the left, where $w < \tfrac12$, the same threshold answers *who is chased*.
# - **No $w$ allows both.** For *who chases*, the line of *dog chases cat* must be above the line of *cat chases dog*; for *who is chased*, it must be
#   below.
#
# <details><summary>Could the head choose another w in each sentence, or use longer value vectors?</summary>
#
# Neither would help, as long as all the weight goes to the two animals and an animal has the same value wherever it stands. Then every output lies on the line from the value of *cat* to that of *dog*, and the two questions make opposite demands: to show who chases, *dog chases cat* must end up nearer to the value of *dog* than *cat chases dog*; to show who is chased, *cat chases dog* must be the nearer one.
#
# Real vectors also contain positions, so a word's value can depend on where it stands, and one head could then keep two animals apart. But it would still have to split its weight.
#
# </details>
#
# The weights of a query sum to one, so what one word gains, the others lose. The solution is a second set of weights.

# %% [markdown]
# ## Two heads, by hand
#
# In **multi-head attention**, several attentions run side by side on the same words. Each one is called a **head**, and each has queries, keys and
# values of its own, hence its own softmax. We let *chases* attend twice. A few features per word are enough for the example: whether it is the verb, on
# which side of the verb it is (1 before, −1 after), and whether it is a dog or a cat.

# %%
words = ["dog", "chases", "cat"]
x = torch.tensor(
    [  # verb, side, dog, cat
        [0.0, 1, 1, 0],  # dog
        [4, 0, 0, 0],  # chases (4: a long query, so sharp weights)
        [0, -1, 0, 1],  # cat
    ]
)  # (length 3, d_model 4)

# %% [markdown]
# As before, three matrices turn these vectors into queries, keys and values. What is new is that **the columns are divided among the heads**: the first
# two belong to head 1, the last two to head 2. A row belongs to an input feature: `w_key[1] = [1, -1, 1, -1]` in the next cell turns *side* into the key (side, −side) of both heads. Their values are the same, too; only the queries differ. Head 1 looks for a word before the verb, head 2 for one after it:

# %%
w_query, w_key, w_value = torch.zeros(3, 4, 4)
w_query[0] = torch.tensor([1.0, 0, 0, 1])  # verb
w_key[1] = torch.tensor([1.0, -1, 1, -1])  # side
w_value[2] = torch.tensor([1.0, 0, 1, 0])  # dog
w_value[3] = torch.tensor([0.0, 1, 0, 1])  # cat
print("queries of chases", (x @ w_query)[1])
print("keys of dog      ", (x @ w_key)[0])

# %% [markdown]
# In head 1, the query of *chases* is $(4, 0)$ and the key of *dog* is $(1, -1)$: the score is $4$. The other two scores are 0 for *chases* itself and
# −4 for *cat*. A head has $d_k = 2$ dimensions (`d_head` in the code), so we divide by $\sqrt 2$ and get 2.83, 0 and −2.83. Their exponentials are about 16.9, 1 and 0.06,
# and *dog* gets the weight $16.9 / 17.96 = 0.94$. Head 2 does the same for the other side:

# %%
heads = []
for head, columns in enumerate([slice(0, 2), slice(2, 4)], start=1):
    matrices = (w_query, w_key, w_value)
    query, key, value = (x @ w[:, columns] for w in matrices)
    output, weights = attention(query, key, value)  # (3, 2), (3, 3)
    print(f"head {head}   weights {weights[1]}   output {output[1]}")
    heads.append(output)

# %% [markdown]
# The outputs are **concatenated**, that is, joined end to end. The vector of *chases* now has four numbers. The first two say who chases, and
# the last two who is chased. They were never added up, so nothing was lost:

# %%
concatenated = torch.cat(heads, dim=-1)  # (3, 4)
concatenated[1]  # who chases: dog, cat; who is chased: dog, cat

# %% [markdown]
# Finally a fourth matrix, $W^O$, turns the concatenated outputs into a vector of $d_\text{model}$ features again. In this **output projection**, each new feature may use all heads. Ours computes three features: whether the chaser is a dog, whether the one chased is a dog, and a score for *a dog chases a cat*, which neither head could compute
# alone. That score is about 0.94 if both parts are true and half of that if only one is:

# %%
w_output = torch.zeros(4, 4)
w_output[0, 0] = 1  # the chaser is a dog: from head 1
w_output[2, 1] = 1  # the one chased is a dog: from head 2
w_output[0, 2] = w_output[3, 2] = 0.5  # a dog chases a cat: from both
(concatenated @ w_output)[1]

# %% [markdown]
# That is all of multi-head attention (§3.2.2):
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
# Here $Q$, $K$ and $V$ are the vectors *before* the projections. In self-attention they are all the same, $X$; in cross-attention, $K$ and $V$ are the memory. $W^Q_i, W^K_i \in \mathbb{R}^{d_\text{model} \times d_k}$ and $W^V_i \in \mathbb{R}^{d_\text{model} \times d_v}$ are the columns of head $i$, and $W^O$ is in $\mathbb{R}^{h d_v \times d_\text{model}}$. The paper's base model has $d_\text{model} = 512$ and $h = 8$, with $d_k = d_v = d_\text{model} / h = 64$.
#
# So each head projects the vectors to a small space of its own, a **representation subspace**, and compares them only there. That is the paper's reason for several heads (§3.2.2): at each position, the model can gather information of several kinds at once, each from different positions.
#
# The next figure has every number of the example. Follow the row of *chases* from top to bottom: the heads don't
# meet until the last line.

# %% tags=["hide-input"]
by_head = (
    (x @ w).unflatten(-1, (2, 2)).transpose(0, 1) for w in (w_query, w_key, w_value)
)  # (heads, length, d_k)
Picture(
    multi_head_attention(words, *by_head, w_output),
    alt=(
        "Two columns, one for each head. On top the queries, keys and values of dog, "
        "chases and cat, two numbers each. Below, the weights: in the row of "
        "chases, head 1 has 0.94 at dog and head 2 has 0.94 at cat. Beside them "
        "the outputs. At the bottom both outputs are concatenated into four "
        "columns, and W_O turns the row of chases into 0.94, 0, 0.94, 0."
    ),
    caption=(
        "Two heads of multi-head attention, number by number. For “chases”, head 1 "
        "finds “dog” and head 2 “cat”; their outputs are concatenated and "
        "projected."
    ),
)

# %% [markdown]
# (The queries of *dog* and *cat* are zero, so each of them spreads its attention equally over all three words.)

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
# Does it keep apart the two sentences that a single head confuses? We swap the animals and look at *chases* in both:

# %%
reversed_x = x[[2, 1, 0]].clone()
reversed_x[:, 1] = x[:, 1]  # the sides stay where they are
matrices = w_query, w_key, w_value, w_output
print("dog chases cat", multi_head_loop(x, 2, *matrices)[1])
print("cat chases dog", multi_head_loop(reversed_x, 2, *matrices)[1])

# %% [markdown]
# The first two features say who is a dog: in the first sentence the animal that chases, in the second one the animal that is chased.
#
# **Now without the loop**, because a GPU is fast only when it gets all the work at once. A single product `x @ w_query` computes the queries of all heads,
# side by side in one row per word. Attention works on the last two dimensions of its inputs and treats all dimensions before them as a batch. So the heads have to
# become a dimension in front. To see where each number goes, let every entry show its word (tens) and its feature (units):

# %%
table = torch.tensor([[10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]])
unflattened = table.unflatten(-1, (2, 2))  # (length 3, heads 2, d_head 2)
unflattened.transpose(0, 1)  # (heads 2, length 3, d_head 2)

# %% [markdown]
# Head 1 has features 0 and 1 of all three words, head 2 has features 2 and 3. This takes **two steps**: `unflatten` splits the last dimension, which moves
# nothing, and `transpose` moves the heads to the front. Concatenating the heads takes the same two steps in reverse.
#
# <details><summary>The same steps with view, transpose and contiguous, as most code has them</summary>
#
# To split the heads, most code writes `x.view(B, L, h, d_head).transpose(1, 2)`, and to concatenate them, `x.transpose(1, 2).contiguous().view(B, L, d_model)`. `view` never copies anything, so it can't merge the dimensions of a transposed tensor, which isn't stored in reading order. `.contiguous()` first makes a copy that is. `flatten` copies by itself where it has to.
#
# </details>


# %%
def split_heads(x, n_heads):
    """(batch, length, d_model) → (batch, heads, length, d_head)"""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def concatenate_heads(heads):
    """(batch, heads, length, d_head) → (batch, length, d_model)"""
    return heads.transpose(1, 2).flatten(2)


# %%
def multi_head_batched(x, n_heads, w_query, w_key, w_value, w_output):
    query = split_heads(x @ w_query, n_heads)
    key = split_heads(x @ w_key, n_heads)
    value = split_heads(x @ w_value, n_heads)
    # the heads' outputs, (batch, heads, length, d_head):
    output, _ = attention(query, key, value)
    return concatenate_heads(output) @ w_output  # (batch, length, d_model)


# %% [markdown]
# Both versions agree for every number of heads that divides $d_\text{model}$:

# %%
torch.manual_seed(0)
sequence = torch.randn(7, 12)  # (length, d_model)
matrices = torch.randn(4, 12, 12) / math.sqrt(12)
for n_heads in (1, 2, 3, 4, 6, 12):
    expected = multi_head_loop(sequence, n_heads, *matrices)
    assert_close(
        multi_head_batched(sequence[None], n_heads, *matrices)[0], expected
    )
print("with and without the loop: the same, with 1 to 12 heads")

# %% [markdown]
# ### A layer is the sum of its heads
#
# "Concatenate, then multiply by $W^O$" sounds as if each head filled a part of the result. It doesn't. The product splits into $h$ terms: each
# head meets only its own *rows* of $W^O$, $W^O_i \in \mathbb{R}^{d_v \times d_\text{model}}$, and the terms are added:
#
# $$
# \begin{aligned}
# &\mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W^O \\
# &\quad = \mathrm{head}_1 W^O_1 + \dots + \mathrm{head}_h W^O_h
# \end{aligned}
# $$

# %%
contributions = []
for head in range(3):
    part = slice(4 * head, 4 * head + 4)
    query, key, value = (sequence @ w[:, part] for w in matrices[:3])
    output, _ = attention(query, key, value)  # (length 7, d_head 4)
    contributions.append(output @ matrices[3][part])  # (length 7, d_model 12)
expected = multi_head_loop(sequence, 3, *matrices)
assert_close(sum(contributions), expected)
print("the sum of three heads equals the layer's output")

# %% [markdown]
# So each head makes a contribution of full width, and the layer adds the contributions. That is why we can **ablate** a head, that is, remove it to see what it was good for, by leaving its term out of the sum.

# %% [markdown]
# ## The package's module
#
# The rest of the course uses `MultiHeadAttention`, which takes the same steps. Two details differ: $W^Q$, $W^K$ and $W^V$ are stacked in one linear layer,
# `query_key_value`, so that self-attention needs one matrix product instead of three, and the linear layers have biases. Here are the methods that split and join the heads, and the one that runs
# everything:

# %%
SourceCode(
    MultiHeadAttention.split_heads,
    MultiHeadAttention.join_heads,
    MultiHeadAttention.forward,
)

# %% [markdown]
# `forward` first computes queries, keys and values. Each `project…` is a linear layer followed by `split_heads`.
#
# - With a `memory`, this is **cross-attention**: the queries come from `x`, but the keys and values from `memory`. (A `KeyValue` is a pair of keys and values that have already been computed.)
# - With a `cache`, it is self-attention while text is generated: the cache keeps the keys and values of earlier tokens. You can ignore it until [Decoding](12_decoding.ipynb).
# - Otherwise it is **self-attention** over all of `x`: `project` computes all three from it.
#
# Then `attend` is scaled dot-product attention, `join_heads` concatenates, and `output` is $W^O$. (`mask` and `is_causal` hide positions: see the [next chapter](04_masking.ipynb).)
#
# Given the same weights, PyTorch's `nn.MultiheadAttention` must compute the same output:

# %%
torch.manual_seed(0)
ours = MultiHeadAttention(d_model=12, n_heads=3)
theirs = nn.MultiheadAttention(12, num_heads=3, batch_first=True)
theirs.in_proj_weight.data = ours.query_key_value.weight.data
theirs.in_proj_bias.data = ours.query_key_value.bias.data
theirs.out_proj.load_state_dict(ours.output.state_dict())

source, target = torch.randn(2, 7, 12), torch.randn(2, 5, 12)
assert_close(ours(target), theirs(target, target, target)[0])
assert_close(ours(target, memory=source), theirs(target, source, source)[0])
print("our multi-head attention equals PyTorch's")

# %% [markdown]
# ## Where the Transformer uses it
#
# The Transformer uses this module in three places (§3.2.3). They differ in what is passed as `x` and `memory` (and in their masks: see the [next chapter](04_masking.ipynb)):
#
# | attention | queries from | keys and values from | weights of one head |
# |---|---|---|---|
# | self-attention in the encoder | source | source | source × source |
# | self-attention in the decoder | target so far | target so far | target × target |
# | cross-attention in the decoder | target so far | memory (the encoder's output) | target × source |
#
# Many bugs in attention are wrong shapes. The table follows one cross-attention of the paper's base model, with $d_\text{model} =
# 512$ and 8 heads, from a target of 25 tokens to a source of 30:
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
# Do eight heads take eight times the work? No: each is only an eighth as wide, $d_k = d_\text{model} / h$. Count the multiplications for $n$ tokens and $d =
# d_\text{model}$:
#
# - The four matrices take $4 n d^2$, no matter how their columns are divided.
# - The scores take $h$ heads × $n^2$ pairs × $d / h$ multiplications. The $h$ cancels, which leaves $n^2 d$.
# - The weighted sums take the same again, $n^2 d$.
#
# PyTorch can count the operations in its matrix products. A multiplication and an addition count as two:

# %%
from torch.utils.flop_counter import FlopCounterMode

n, d = 32, 512
for h in (1, 2, 4, 8, 16):
    # "explicit": not fused, so that PyTorch can count everything
    layer = MultiHeadAttention(d, h, implementation="explicit").requires_grad_(
        False
    )
    with FlopCounterMode(display=False) as counter:
        layer(torch.zeros(1, n, d))
    multiplications = counter.get_total_flops() // 2
    parameters = sum(p.numel() for p in layer.parameters())
    print(f"h = {h:2}: {parameters:,} parameters,", end=" ")
    print(f"{multiplications:,} multiplications")

# %% tags=["remove-cell"]
assert multiplications == 4 * n * d**2 + 2 * n**2 * d
assert parameters == 4 * d**2 + 4 * d

# %% [markdown]
# Neither number changes. Only the softmax and the space that the weights take grow with the number of heads, because each head has its own $n \times n$ weights. So why not use 512 heads? Because a narrow head is a weaker head. Before scaling, its scores are $X W^Q_i {W^K_i}^{\!\top} X^\top$, and the $d \times d$ matrix $W^Q_i {W^K_i}^{\!\top}$
# has rank $d_k$ at most: a head with 64 dimensions compares words along 64 directions and is blind to the others.
#
# **More heads can look for more relations, but each head describes its relation less precisely.** The paper tried it at equal cost (§6.2, Table 3,
# rows A): on the development set, newstest2013, it got 24.9 BLEU with one head, 25.5 with 4, 25.8 with 8 or 16, and 25.4 with 32 (BLEU measures the quality of translations). The [results](../book/results.md) page has the same experiment with our small translator.
#
# When a model generates text, the keys and values of all heads and all earlier tokens are kept in the **KV cache** ([Decoding](12_decoding.ipynb)). At a given $d_\text{model}$ its size doesn't depend on the number of heads, but it can be large. In **multi-query attention** ([Shazeer, 2019](https://arxiv.org/abs/1911.02150)) all query heads therefore share one head of keys and values; in **grouped-query attention**, each group of query heads shares one ([The Transformer family](15_transformer_family.ipynb)).

# %% [markdown]
# ## Do heads divide the work on their own?
#
# Nothing in the formula tells two heads to do different things. Do they? Our test is a task that needs two sources and nothing else. The input is a row of eight random
# digits. For each position, the model has to predict **two** digits: the one at the *mirror* position, counted from the other end, and the one *two positions earlier* (in a ring, so 0 follows 7).


# %%
def make_batch(rows):
    digits = torch.randint(10, (rows, 8))
    labels = torch.stack([digits.flip(1), digits.roll(2, dims=1)], dim=-1)
    return digits, labels  # (rows, 8), (rows, 8, 2)


# %%
class TwoSources(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.embed = nn.Embedding(10, 32)  # a learned vector for each digit
        self.attention = MultiHeadAttention(32, n_heads)
        self.predict = nn.Linear(32, 20)  # logits of two digits

    def vectors(self, digits):  # digit + position, (rows, 8, 32)
        return self.embed(digits) + sinusoidal_encoding(8, 32)

    def forward(self, digits):
        logits = self.predict(self.attention(self.vectors(digits)))
        return logits.unflatten(-1, (2, 10))  # (rows, 8, 2, 10)


# %% [markdown]
# To the vector of each digit we add one that depends on its position ([Positional encoding](05_positional_encoding.ipynb)). We train the model with one head and with two. **Both versions have the same number of parameters**; only the division of the 32 dimensions differs.


# %%
def train(n_heads, seed=0, steps=400):
    torch.manual_seed(seed)
    model, losses = TwoSources(n_heads), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        digits, labels = make_batch(32)
        logits = model(digits).flatten(0, 2)
        loss = F.cross_entropy(logits, labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model.requires_grad_(False), losses


# %%
one_head, one_head_losses = train(n_heads=1)
two_heads, two_heads_losses = train(n_heads=2)

torch.manual_seed(1)
digits, labels = make_batch(500)
for name, model in (("one head ", one_head), ("two heads", two_heads)):
    predicted = model(digits).argmax(dim=-1)  # (rows, 8, 2)
    correct = (predicted == labels).float().mean(dim=(0, 1))
    print(f"{name}  mirror {correct[0]:.0%}  two earlier {correct[1]:.0%}")

# %% tags=["remove-cell"]
assert correct.min() > 0.95
one_correct = (one_head(digits).argmax(dim=-1) == labels).float().mean(dim=(0, 1))
assert one_correct.sum() < 1.4 and one_correct[0] > 0.8 and one_correct[1] > 0.15
by_digit = F.cross_entropy(
    one_head(digits).movedim(-1, 1), labels, reduction="none"
).mean(dim=(0, 1))
assert by_digit[1] < math.log(10) - 0.4  # better than guessing
sizes = [sum(p.numel() for p in m.parameters()) for m in (one_head, two_heads)]
assert sizes[0] == sizes[1]
end = sum(one_head_losses[-50:]) / 50
assert 0.75 < end / (math.log(10) / 2) < 1

torch.manual_seed(0)
deeper = TwoSources(1)
deeper.predict = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 20))
optimizer = torch.optim.Adam(deeper.parameters(), lr=0.01)
for _ in range(400):
    more_digits, more_labels = make_batch(32)
    F.cross_entropy(
        deeper(more_digits).flatten(0, 2), more_labels.flatten()
    ).backward()
    optimizer.step()
    optimizer.zero_grad()
deeper_correct = (deeper(digits).argmax(dim=-1) == labels).float().mean(dim=(0, 1))
assert deeper_correct.min() > 0.5 > 2 * one_correct.min()

# %% [markdown]
# A guess would be right one time in ten. One head fails because `predict` is linear, and it has to read both digits from one mixture, as in the example above. Don't conclude that a Transformer with one head can't do this: the feed-forward network of its [layers](06_layers.ipynb) could recover much of the second digit.
#
# The plot shows the loss, the cross-entropy per digit. Guessing one of ten digits costs $\ln 10$, so the dotted line, $\tfrac12 \ln 10$, is the loss of a model
# that knows one of the two digits and guesses the other. One head ends a little below it: from its mixture, `predict` can read most mirror digits and even a little about the other digit, of which 19% are right instead of 10%. Two heads stay near the line for a while, until one of them finds the second source.

# %% tags=["hide-input"]
Picture(
    curves(
        range(400),
        {"one head": one_head_losses, "two heads": two_heads_losses},
        "step",
        "Loss per digit",
        reference=("one known, one guessed", math.log(10) / 2),
    ),
    alt=(
        "Two loss curves over 400 steps. Both fall to the level where one digit is "
        "known and the other guessed. With one head the loss stays a little below "
        "it; with two heads it rests there for a while and then falls to zero."
    ),
    caption=(
        "Training loss: two heads learn to predict both digits, while one head "
        "stays a little below the level of knowing one and guessing the other."
    ),
)

# %% [markdown]
# The next figure shows the weights, averaged over the test rows. For *mirror* the lines cross in the middle; for *two earlier* they are parallel, except for the two that wrap around. The single head
# splits its weight between both sources. Of two heads, each has taken one: as long as both attend to the same
# source, the other digit remains a guess, so training pushes one of them to the other source.


# %% tags=["hide-input"]
def mean_weights(model):  # (heads, 8, 8)
    query, (key, value) = model.attention.project(model.vectors(digits))
    return attention(query, key, value)[1].mean(dim=0)


position = torch.arange(8)
single, pair = mean_weights(one_head), mean_weights(two_heads)
mirror = int(pair[:, position, position.flip(0)].mean(dim=1).argmax())
numbers = [str(n) for n in range(8)]
Row(
    Picture(
        head_lines(single[0], numbers, numbers, "the only head"),
        alt=(
            "The single head: most positions have two lines, one to their mirror "
            "position and a thinner one to the position two earlier."
        ),
    ),
    Picture(
        head_lines(pair[mirror], numbers, numbers, "one of two heads"),
        alt=(
            "Lines that cross in the middle: each position attends to its mirror "
            "position, 0 to 7, 1 to 6 and so on."
        ),
    ),
    Picture(
        head_lines(pair[1 - mirror], numbers, numbers, "the other of the two"),
        alt=(
            "Parallel lines: each position attends to the one two positions "
            "earlier; positions 0 and 1 attend to 6 and 7."
        ),
    ),
    caption=(
        "Attention weights by position: the only head divides them between the "
        "mirror position and the one two earlier; of two heads, each takes one."
    ),
)

# %% tags=["remove-cell"]
assert single[0, position, position.flip(0)].mean() > 0.3
assert single[0, position, position.roll(2)].mean() > 0.2
assert pair[mirror, position, position.flip(0)].mean() > 0.7
assert pair[1 - mirror, position, position.roll(2)].mean() > 0.7

# %% [markdown]
# Was that luck? We train the model with five seeds and print how much weight each of its two heads gives to each source:

# %%
splits = []
for seed in range(5):
    weights = mean_weights(train(n_heads=2, seed=seed)[0])  # (heads, 8, 8)
    on_mirror = weights[:, position, position.flip(0)].mean(dim=1)  # (heads,)
    on_earlier = weights[:, position, position.roll(2)].mean(dim=1)
    for head in range(2):
        print(f"seed {seed}, head {head + 1}:", end=" ")
        print(f"mirror {on_mirror[head]:.2f}, two earlier {on_earlier[head]:.2f}")
    splits.append((on_mirror.argmax() != on_earlier.argmax()).item())
print(f"in {sum(splits)} of 5 runs, each source has a head of its own")

# %% tags=["remove-cell"]
assert all(splits) and on_mirror.max() > 0.5 and on_earlier.max() > 0.5

# %% [markdown]
# It wasn't luck: in this task, where one head is not enough for the model, two heads do divide the work on their own. In trained translators the division is less clean, and heads can stand in for each other ([What attention heads do](14_attention_heads.ipynb)).

# %% [markdown]
# ## All heads of a trained encoder
#
# Below are all sixteen heads of the encoder that you saw at the top: four layers of four heads. The large one is the first of the three heads from the top, head 3 of layer 3, which attends to the previous word. **Click another** to enlarge it, then point at
# a cell to read the weight. Can you find the other two of the three?

# %% tags=["hide-input"]
names = {f"layer {i + 1}": f"encoder.{i}.self_attention" for i in range(4)}
Captioned(
    head_grid(
        {layer: recorded[name][0] for layer, name in names.items()},
        dict.fromkeys(names, (tokens, tokens)),
        description=(
            "Small heat maps of the attention weights of sixteen heads, four "
            "layers of four, for the caption A brown dog chases a white dog, and a "
            "large one of the selected head. Three heads have a clear pattern: "
            "layer 3 head 3 attends to the previous word, layer 4 head 2 to the "
            "verb, layer 1 head 1 to the words ahead. Most others spread their "
            "weight."
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
# Head 2 of layer 4 attends to the verb, and head 1 of layer 1 to the words ahead. (Figures count from 1, the code from 0.)
#
# </details>
#
# Many heads spread their weight over the whole sentence, and their purpose is hard to name. Always inspect heads individually. By default, `nn.MultiheadAttention` returns the weights averaged over the heads; pass `average_attn_weights=False` to get each head's.
#
# A clear pattern doesn't prove that the model needs the head. Let's ablate the head that attends to the previous word, and then the four heads of its layer together. The number is the log-probability of the translation:

# %%
caption = "A brown dog chases a white dog."
layer = "encoder.2.self_attention"  # layer 3, counted from 1
translations = []
for name, ablated in (
    ("all heads       ", []),
    ("without one head", [2]),
    ("without all four", range(4)),
):
    with ablate_heads(translator.model, {layer: ablated}):
        best = translator.beam_search([caption])[0][0]
    print(f"{name} {best.hypothesis.log_probability:.3f}", best.text)
    translations.append(best)

# %% [markdown]
# The log-probability changes, so **a head may be doing something even if the translation stays the same without it**. But this caption doesn't need it: without the head, the log-probability is even a little higher. Other heads and layers may do the same job. And even without a whole layer's heads the words
# get through, because the input of each attention is added to its output ([Encoder and decoder layers](06_layers.ipynb)). The chapter [What attention heads do](14_attention_heads.ipynb) measures all this on many sentences.

# %% tags=["remove-cell"]
assert len({best.text for best in translations}) == 1
full, one, four = (best.hypothesis.log_probability for best in translations)
assert full + 0.005 < one < four < full + 0.1

# %% [markdown]
# ## What goes wrong in practice
#
# **A reshape without the transpose.** If the result should be (batch, heads, length, d_head), why not ask `reshape` for that shape? Because
# `reshape` keeps the numbers in reading order. Compare this with the output of `unflattened.transpose(0, 1)` in *From a loop to a batch of heads*:

# %%
table.reshape(2, 3, 2)  # (heads 2, length 3, d_head 2), or so it seems

# %% [markdown]
# Head 1 now has the first word cut in two, and half of the second one. All shapes fit and the weights sum to one, but no head sees the whole
# sentence. **Changing one input at a time** reveals the bug: see which outputs change.


# %%
def wrong_forward(layer, x):
    query, key, value = layer.query_key_value(x).chunk(3, dim=-1)
    shape = (len(x), layer.n_heads, x.size(1), -1)
    output, _ = attention(*(t.reshape(shape) for t in (query, key, value)))
    return layer.output(output.reshape(x.shape))


# %%
def outputs_that_change(function, x):
    """[i, t] is True if changing input t changes output i."""
    columns = []
    for t in range(x.size(1)):
        changed = x.clone()
        changed[:, t] += 1
        difference = (function(changed) - function(x)).abs()
        columns.append(difference.amax(dim=-1)[0] > 1e-6)  # (length,)
    return torch.stack(columns, dim=1)


# %%
torch.manual_seed(0)
layer = MultiHeadAttention(32, n_heads=4).requires_grad_(False)
x = torch.randn(1, 8, 32)
right = outputs_that_change(layer, x)
wrong = outputs_that_change(lambda x: wrong_forward(layer, x), x)
print(f"with transpose: {right.sum()} of 64   without: {wrong.sum()} of 64")

# %% [markdown]
# In self-attention, every output should depend on every input: all 64 pairs. Without the transpose, four heads become four islands of two positions each.

# %% tags=["hide-input"]
axes_labels = ("output", "input that changes")
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
        "do. Without it, each depends on two positions only (an exclamation mark is "
        "a dependency that is missing)."
    ),
)

# %% tags=["remove-cell"]
assert right.all()
assert torch.equal(wrong, torch.block_diag(*[torch.ones(2, 2)] * 4).bool())

# %% [markdown]
# **The wrong width under the root.** Scores are divided by $\sqrt{d_k}$, where $d_k$ is the width of a *head*. With $\sqrt{d_\text{model}}$ they are too small by a factor of $\sqrt
# h$, and every head starts closer to a plain average. The standard deviation of random scores, which should be 1, gives the mistake away:

# %%
torch.manual_seed(0)
query, key = torch.randn(2, 8, 200, 64)  # 8 heads, d_k 64, so d_model 512
scores = query @ key.transpose(-2, -1)
print(f"divided by √d_k:     {(scores / 64**0.5).std():.2f}")
print(f"divided by √d_model: {(scores / 512**0.5).std():.2f}")

# %% [markdown]
# **No output projection.** The concatenated outputs already have the right shape, so nothing complains if $W^O$ is missing. But then head 1 can only ever write to the
# first features of the result. Count the parameters: there should be $4 d^2$ (and $4 d$ biases), not $3 d^2$.
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
# <details><summary>A. Yes, because they do the same</summary>
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
# **4. A friend objects: "One head *can* keep the four sentences apart. With $w = 2/3$ the outputs are 1, 2/3, 1/3 and 0, all different." Is that right?**
#
# <details><summary>Answer</summary>
#
# Yes, the four outputs differ, so nothing is lost in principle. But no *linear* layer can read who is chased from them: in order, the answers are dog, cat, dog, cat, and one threshold can't separate
# them. It takes a non-linear layer, and one that is precise: in a real model there are thousands of words instead of two, and the weights differ from sentence to sentence, so the layer can't rely on fixed thresholds. Two heads
# give the next layer both answers directly.
#
# </details>
#
# **5. $W^V$ and $W^O$ are both linear, with nothing but a weighted sum in between. Why not merge them into one matrix?**
#
# <details><summary>Answer</summary>
#
# For each head, $W^V_i W^O_i$ is indeed a single matrix, $d_\text{model} \times d_\text{model}$ and of rank $d_k$. Kept as two factors it has $2\, d_\text{model}\, d_k$ numbers instead of
# $d_\text{model}^2$, and the weighted sum is computed on short vectors. The same is true of $W^Q_i$ and $W^K_i$: two narrow matrices are a cheap way to store one wide matrix of low rank.
#
# </details>
#

# %% [markdown]
# ## Exercises
#
# The notebook has five blanks: the three projections in one product, a whole cross-attention layer, the contribution of each head, the cost of a layer, and heads that share their keys and values.
# Each has a hint, and a check that tells you what is wrong.
#
# - In Colab:
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
# <details><summary>Three experiments with <code>TwoSources</code>, a line or two each</summary>
#
# 1. Train it with 4, 8, 16 and 32 heads. Does it still work when a head has only one dimension?
# 2. Add a third source, three positions earlier. How many heads does the model need? Can two do it?
# 3. Leave out the positions. What loss do you expect? Write it down before you run it.
#
# </details>

# %% [markdown]
# ## Going further
#
# - **In the paper:** [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762) describe heads in §3.2.2, where they are used in §3.2.3, and how many to use in §6.2.
# - **What heads do, and how many a trained model needs:** [Voita et al. (2019)](https://aclanthology.org/P19-1580/) find heads for neighbouring positions, for syntactic relations and for rare words; [Michel et al. (2019)](https://arxiv.org/abs/1905.10650) ablate heads one at a time and in groups.
# - **The price of narrow heads:** [Bhojanapalli et al. (2020)](https://arxiv.org/abs/2002.07028) show what the low rank of the scores prevents.
# - **A layer as a sum of heads**, and how heads of different layers work together: [Elhage et al. (2021)](https://transformer-circuits.pub/2021/framework/index.html).
