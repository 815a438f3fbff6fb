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
# # Exercises: multi-head attention
#
# Six blanks: three projections in one product, a cross-attention layer, the contribution of each head, the cost of a layer, heads that share their keys, and
# a layer with bugs to find (§3.2.2 and §3.2.3 of the paper).
#
# **First run the two code cells below**; in Colab, choose *File → Save a copy in Drive* before that. Then write your code where a cell says *not done yet*, and run the check below it. The
# [first notebook](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb) explains the rest: hints, *Help*, and the rules for answers.
#
# Unlike in the notebook on attention, **matrices are stored as in `nn.Linear`** here: (out, in). The paper's $x W$ (§3.2.2) then becomes $x W^\top$, which is what `F.linear(x, weight, bias)` computes.

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
    print("The course is installed: go on with the next cell.")

# %%
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises.checks.multi_head_attention import check, given, join_heads, split_heads
from transformer.attention import attention

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · Three projections, one product
#
# ★☆☆ · 5 minutes · §3.2.2
#
# Queries, keys and values are three products with the same input. One larger product computes all three: $W_Q$, $W_K$ and $W_V$ are stacked in
# one linear layer, in this order, and so are their biases. Compute the product, and split the result.
#
# <details><summary>Hint</summary>
#
# ```text
# one product for all three               (batch, length, 3 · d_model)
# split the last axis in three            (batch, length, d_model) each
# ```
# </details>
# <details><summary>Help: <code>mat1 and mat2 shapes cannot be multiplied (2x2 and 6x2)</code></summary>
#
# The matrix is stored transposed: it has a row for each output and a column for each input. Transpose it, or leave that to `F.linear`.
# </details>
# <details><summary>Help: <code>not enough values to unpack (expected 3, got 1)</code></summary>
#
# You split another axis than the last: perhaps the first, the sentences of the batch. The three results are side by side in the last one.
# </details>
# <details><summary>Help: <code>not enough values to unpack (expected 3, got 2)</code></summary>
#
# Either you split the axis of the words, of which there are two here, or you passed 3 to `split`, which expects the width of a part;
# `chunk` expects the number of parts.
# </details>


# %% tags=["answer"]
# answer: query_key_value
def query_key_value(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of all heads, in one product.

    x: (batch, length, d_model)
    weight: (3 * d_model, d_model), bias: (3 * d_model,); W_Q, W_K, W_V
    returns: query, key and value, each (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    query, key, value = F.linear(x, weight, bias).chunk(3, dim=-1)
    return query, key, value
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("query_key_value", query_key_value)

# %% [markdown]
# ## 2 · Cross-attention
#
# ★★★ · 20 minutes · §3.2.3
#
# Now write a whole layer, as in the decoder: the queries come from `x`, the keys and values from `memory`. Their lengths differ, and the sentences in the memory are
# padded. No query may attend to this padding: `real` is True for all other tokens. It has two axes, but the scores have four, (batch, heads, query, key).
#
# `split_heads(x, n_heads)` and `join_heads(heads)` are those of the notebook on attention, and `attention(query, key, value, mask)` is the package's: it
# returns the output and the weights, and in its mask True means *may attend*. All are imported above.
#
# <details><summary>Hint</summary>
#
# ```text
# queries: x through the first third of weight and bias
# keys and values: memory through the other two
# split the three into heads              (batch, heads, …, d_head)
# real, with an axis of size 1 for the heads and one for the queries
# attention; keep the output; join heads  (batch, n_query, d_model)
# the output projection: w_output is stored as (out, in) like weight, and b_output is its bias
# ```
#
# You may also call `given.query_key_value` twice and use part of what it returns, though this computes more than you need.
# </details>
# <details><summary>Help: <code>The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 2</code></summary>
#
# The mask still has two axes. Broadcasting aligns axes from the right, so the sentences of the mask are aligned with the queries.
# </details>
# <details><summary>Help: <code>'tuple' object has no attribute 'transpose'</code></summary>
#
# `attention` returns two things, output and weights. Take the first.
# </details>
# <details><summary>Help: <code>the mask must be bool, True = may attend; got torch.float32</code></summary>
#
# The mask has been converted to numbers. It only needs more axes.
# </details>
# <details><summary>Help: <code>Target sizes: [1, 2].  Tensor sizes: [6]</code></summary>
#
# You took a third of the matrix, but the whole bias. Slice the bias in the same way.
# </details>


# %% tags=["answer"]
# answer: cross_attention
def cross_attention(
    x: Tensor,
    memory: Tensor,
    real: Tensor,
    weight: Tensor,
    bias: Tensor,
    w_output: Tensor,
    b_output: Tensor,
    n_heads: int,
) -> Tensor:
    """Attend from x to the real words of memory.

    x: (batch, n_query, d_model)
    memory: (batch, n_key, d_model)
    real: (batch, n_key), bool; False where a key is padding
    weight: (3 * d_model, d_model), bias: (3 * d_model,); W_Q, W_K, W_V
    w_output: (d_model, d_model), b_output: (d_model,)
    returns: (batch, n_query, d_model)
    """
    ### BEGIN SOLUTION
    d = x.size(-1)
    query = split_heads(F.linear(x, weight[:d], bias[:d]), n_heads)
    both = F.linear(memory, weight[d:], bias[d:]).chunk(2, dim=-1)
    key, value = (split_heads(part, n_heads) for part in both)
    heads, _ = attention(query, key, value, real[:, None, None, :])
    return F.linear(join_heads(heads), w_output, b_output)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("cross_attention", cross_attention)

# %% [markdown]
# PyTorch's own module stores its weights in the same way, so your function can use them. Only its mask has the opposite meaning: there, True means
# *hidden*. (Until your check shows ✓, this cell uses the course's function.)

# %% tags=["nbval-skip"]
theirs = nn.MultiheadAttention(12, 3, batch_first=True).requires_grad_(False)
target, source = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
words = torch.arange(7) < torch.tensor([[7], [4]])  # sentences of 7 and of 4
out = theirs.out_proj
weights = theirs.in_proj_weight, theirs.in_proj_bias, out.weight, out.bias
mine = given.cross_attention(target, source, words, *weights, 3)
expected, _ = theirs(target, source, source, key_padding_mask=~words)
torch.allclose(mine, expected, atol=1e-6)

# %% [markdown]
# ## 3 · The contribution of each head
#
# ★★☆ · 10 minutes · §3.2.2
#
# "Concatenate the heads, then multiply by $W^O$" is a sum: each head is multiplied by its own slice of the matrix, and the products are added.
# Return the terms of the sum, one for each head. Together with the bias they add up to the output of the layer. Leaving one out ablates that head.
#
# <details><summary>Hint</summary>
#
# ```text
# in a concatenated vector, head 0 has the first d_head numbers, head 1 the next d_head …
# which part of the matrix are they multiplied by? the matrix is (out, in)
# each head times its own part            (batch, heads, n_query, d_model)
# ```
# </details>
# <details><summary>Help: <code>mat1 and mat2 shapes cannot be multiplied (2x2 and 4x4)</code></summary>
#
# A head has d_head numbers, and the whole matrix takes d_model. Split the matrix first.
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for @: 'Tensor' and 'tuple'</code></summary>
#
# `chunk` and `split` return several tensors. Use them one by one, or make one tensor with an axis for the heads.
# </details>
# <details><summary>Help: <code>Expected size for first two dimensions of batch2 tensor to be: [2, 2] but got: [2, 4].</code></summary>
#
# The parts are (d_model, d_head). A head's vectors have d_head numbers, so that axis has to come first.
# </details>


# %% tags=["answer"]
# answer: head_contributions
def head_contributions(heads: Tensor, w_output: Tensor) -> Tensor:
    """What each head adds to the layer's output.

    heads: the outputs of the heads, (batch, n_heads, n_query, d_head)
    w_output: (d_model, d_model), as nn.Linear stores it: (out, in)
    returns: (batch, n_heads, n_query, d_model)
    """
    ### BEGIN SOLUTION
    parts = w_output.T.unflatten(0, (heads.size(1), -1))  # (n_heads, d_head, d_model)
    return heads @ parts
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("head_contributions", head_contributions)

# %% [markdown]
# ## 4 · What heads cost
#
# ★★☆ · 15 minutes · §3.2.2
#
# For one sentence in a cross-attention layer with `n_query` queries and `n_key` keys, count:
#
# - **parameters**: four linear layers from d_model to d_model, with biases;
# - **multiplications**: the multiplications of two numbers in all matrix products. The product of an $a \times b$ matrix and a $b \times c$ matrix has
#   $a \cdot b \cdot c$ of them;
# - **exponentials**: one for each weight of each head.
#
# Before you write any code, guess which of the three grow with the number of heads. The answer follows below the check.
#
# <details><summary>Hint</summary>
#
# ```text
# which of the four matrices are applied to x and its results, and which to memory?
#     each time: d_model · d_model multiplications
# scores of one head: every query with every key, d_head multiplications each
# weighted sums of one head: for every query, every value, d_head multiplications each
# all heads together: heads · d_head is …
# ```
# </details>
# <details><summary>Help: <code>it returns 2 values, but should return 3: parameters, multiplications, exponentials</code></summary>
#
# A function returns three results as `return parameters, multiplications, exponentials`.
# </details>


# %% tags=["answer"]
# answer: layer_cost
def layer_cost(n_query: int, n_key: int, d_model: int, n_heads: int) -> tuple[int, int, int]:
    """The size of a layer, and its work for one pair of sentences.

    returns: parameters, multiplications, exponentials
    """
    ### BEGIN SOLUTION
    parameters = 4 * (d_model * d_model + d_model)
    projections = 2 * n_query * d_model**2 + 2 * n_key * d_model**2
    scores_and_sums = 2 * n_query * n_key * d_model
    return parameters, projections + scores_and_sums, n_heads * n_query * n_key
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("layer_cost", layer_cost)

# %% [markdown]
# <details><summary>Which of the three grow with the number of heads?</summary>
#
# Only the exponentials. More heads means narrower heads: all of them together have d_model features, whatever their number, so parameters and
# multiplications stay the same. But each head has its own table of weights, with n_query · n_key exponentials.
# </details>

# %% [markdown]
# ## 5 · Heads that share their keys
#
# ★★★ · 15 minutes · beyond the paper
#
# At every step of generation, a model reads the keys and values of all tokens so far, the **KV cache** (chapter 12). With long texts, or many texts at once, this takes most of the time and memory. So today's models let several query
# heads share one head of keys and values. With 6 query heads and 2 groups, query heads 0, 1 and 2 use the keys and values of group 0, and 3, 4 and 5 those of
# group 1. One group for all heads is called *multi-query attention* (Shazeer, 2019); several groups are called *grouped-query attention* (Ainslie et al., 2023). With as many groups as heads, it is the paper's attention.
#
# `attention(query, key, value)` returns the output and the weights. (PyTorch's `F.scaled_dot_product_attention` isn't allowed in this blank: with
# `enable_gqa=True`, it shares the keys by itself.)
#
# <details><summary>Hint</summary>
#
# ```text
# how many query heads share a group?
# repeat each group's keys that often, all of group 0 first    (batch, heads, n_key, d_head)
# do the same with the values
# attention; return only the output
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 1</code></summary>
#
# There are four query heads but only two groups of keys, or weights for four heads but only two groups of values. Repeat the groups to get four.
# </details>
# <details><summary>Help: <code>The size of tensor a (6) must match the size of tensor b (4) at non-singleton dimension 1</code></summary>
#
# There are 6 query heads and 2 groups, and you made 4 heads of keys. The number of heads that share a group is not the number of groups.
# </details>
# <details><summary>Help: <code>Dimension out of range (expected to be in range of [-1, 0], but got -2)</code></summary>
#
# Without `dim`, `repeat_interleave` flattens the tensor and repeats each number. Pass the axis.
# </details>
# <details><summary>Help: <code>repeat_interleave() received an invalid combination of arguments - got (float, int)</code></summary>
#
# `/` returns a float even if there is no remainder. For a whole number use `//`.
# </details>


# %% tags=["answer"]
# answer: grouped_attention
def grouped_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention in which neighbouring query heads share keys and values.

    query: (batch, n_heads, n_query, d_head)
    key, value: (batch, n_groups, n_key, d_head); n_groups divides n_heads
    returns: (batch, n_heads, n_query, d_head)
    """
    ### BEGIN SOLUTION
    share = query.size(1) // key.size(1)
    key, value = (t.repeat_interleave(share, dim=1) for t in (key, value))
    return attention(query, key, value)[0]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("grouped_attention", grouped_attention)

# %% [markdown]
# ## 6 · Find the bugs
#
# ★★★ · 20 minutes · §3.2.2
#
# Many bugs in a neural network raise no error: the shapes fit, the loss falls, and the model is merely worse than it should be. The layer of self-attention below has **three bugs** of this kind. It has no biases; the rest is as
# in the chapter. Delete the line that says *not done yet*, repair the code, and run the check after each repair: it counts the bugs that are left. Each bug is in a different line, and changing that line is enough.
#
# In code this short, you may find bugs by reading. In a large model you can't, so practise what works there: call the function on inputs for which you know something about the result, and see whether it is true. The hint suggests three such experiments.
#
# <details><summary>Hint</summary>
#
# ```text
# one head; the first feature of each position is 1, and w_value reads only that: what is an average of equal vectors?
# several heads; two positions of x swapped: what should happen to their outputs, and to the others?
# two heads that do the same as one: x joined with itself, and each matrix twice on the diagonal (torch.block_diag)
#     the result should be that of the single head, twice (find the bug of the second experiment first)
# ```
# </details>
# <details><summary>Help: <code>view size is not compatible with input tensor's size and stride</code></summary>
#
# `view` needs the numbers in memory in the order of the new shape, and after a `transpose` they aren't. Split the last axis first, or use `reshape` where the heads are joined again.
# </details>
# <details><summary>Help: <code>shape '[2, 2, 2, 4]' is invalid for input of size 16</code></summary>
#
# The new shape has more numbers than the tensor. Each head has only d_head features.
# </details>


# %% tags=["answer"]
# answer: self_attention
def self_attention(
    x: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    """Multi-head self-attention without biases.

    x: (batch, length, d_model)
    w_query, w_key, w_value, w_output: (d_model, d_model), as nn.Linear stores them: (out, in)
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    batch, length, d_model = x.shape
    d_head = d_model // n_heads
    # A view alone would cut the list of all positions' features into n_heads pieces.
    query, key, value = (
        F.linear(x, weight).view(batch, length, n_heads, d_head).transpose(1, 2) for weight in (w_query, w_key, w_value)
    )
    scores = query @ key.transpose(-2, -1) / d_head**0.5  # not √d_model: a head's dot product has d_head terms
    weights = scores.softmax(dim=-1)  # over the keys, so that each query's weights add up to 1
    heads = weights @ value  # (batch, n_heads, length, d_head)
    return F.linear(heads.transpose(1, 2).reshape(batch, length, d_model), w_output)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("self_attention", self_attention)

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade multi_head_attention` in a terminal
# does the same.
#
# Then open [`transformer/attention.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/attention.py) at `MultiHeadAttention`, which does what your first two blanks do. The fifth one returns in the chapter
# *The Transformer family: BERT, GPT, T5 and ViT*.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
