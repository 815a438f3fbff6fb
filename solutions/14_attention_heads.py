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
# # Exercises: what attention heads do
#
# Five blanks: how much a head attends to the previous token, how spread out its weights are, which words it links, how such links are scored, and how to ablate a
# head (§3.2.2 and the end of §4 of the paper).
#
# **First run the two code cells below**; in Colab, choose *File → Save a copy in Drive* before that. Then write your code where a cell says *not done yet*, and run the check below it. The
# [first notebook](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb) explains the rest: hints, *Help*, and the rules for answers.
#
# At the end, your functions analyse the heads of a trained model.

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
from torch import Tensor

from exercises.checks.attention_heads import check, given

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · Previous-token heads
#
# ★★☆ · 10 minutes · §4
#
# How much does each head attend to the **previous** token? Row $i$ of the weights belongs to the query at position $i$, column $j$ to the key at
# position $j$. Take the mean of the weights on the previous position over all queries of all sentences together. The first position has
# no previous token and doesn't count. The queries of padding don't count either: they have weights like any other, but nothing uses them.
#
# <details><summary>Hint</summary>
#
# ```text
# the weights of position i on position i - 1 are the diagonal below the main one
# it has n_query - 1 numbers, for the queries 1, 2, …             (batch, heads, n_query - 1)
# which of these queries are real?                                (batch, n_query - 1)
# for each head: the sum over the real ones, divided by their number
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1</code></summary>
#
# The weights have an axis for heads, but `real` has none. Insert one of length one between its two axes.
# </details>
# <details><summary>Help: <code>The size of tensor a (0) must match the size of tensor b (2) at non-singleton dimension 2</code></summary>
#
# By default, `diagonal` uses the first two axes, batch and heads. Pass the axes that you mean as `dim1` and `dim2`.
# </details>


# %% tags=["answer"]
# answer: one_back
def one_back(weights: Tensor, real: Tensor) -> Tensor:
    """The mean weight of each head on the previous token.

    weights: (batch, heads, n, n); each row sums to one
    real: (batch, n), bool; False = padding, which is at the end
    returns: (heads,)
    """
    ### BEGIN SOLUTION
    real_queries = real[:, None, 1:]  # (batch, 1, n - 1)
    previous = weights.diagonal(offset=-1, dim1=-2, dim2=-1)  # (batch, heads, n - 1)
    return (previous * real_queries).sum(dim=(0, 2)) / real_queries.sum()
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("one_back", one_back)

# %% [markdown]
# ## 2 · Entropy
#
# ★☆☆ · 5 minutes · §4
#
# The entropy of a query's weights measures how spread out they are. For a row of weights $w$, in **bits**:
#
# $$H = -\sum_j w_j \log_2 w_j.$$
#
# If one key has all the weight, the entropy is 0 bits; for two equal weights it is 1, for eight 3. A mask leaves weights of exactly 0, which
# contribute nothing: $0 \log_2 0$ counts as 0. So a row of zeros, which padding may have, also has 0 bits.
#
# <details><summary>Hint</summary>
#
# ```text
# for each key: weight · logarithm of the weight, to base 2
# where the weight is 0, the product should be 0 (so take the logarithm of something tiny instead)
# add up over the keys, and mind the sign
# ```
# </details>
# <details><summary>Help: <code>only one element tensors can be converted to Python scalars</code></summary>
#
# The functions of `math` take single numbers. Tensors have their own: `weights.log2()`.
# </details>
# <details><summary>Help: <code>math domain error</code></summary>
#
# That comes from the logarithm of 0. Replace zeros before you take the logarithm.
# </details>


# %% tags=["answer"]
# answer: row_entropy
def row_entropy(weights: Tensor) -> Tensor:
    """The entropy of each row, in bits.

    weights: (..., n_key), with any number of axes before the last
    returns: (...)
    """
    ### BEGIN SOLUTION
    tiny = torch.finfo(weights.dtype).tiny
    return -(weights * weights.clamp(min=tiny).log2()).sum(dim=-1)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("row_entropy", row_entropy)

# %% [markdown]
# ## 3 · Word alignment
#
# ★★★ · 20 minutes · §3.2.3
#
# Cross-attention has weights from target **tokens** to source **tokens**, and a word may consist of several tokens, its *pieces*. We want links between words. For one sentence and one head:
#
# - **Rows.** The decoder reads `<bos> y₁ y₂ …` and predicts `y₁ y₂ … <eos>`. For each piece, take the row that **predicts** it. The last row
#   predicts `<eos>`, and the last column is the source's `<eos>`. These are not words: leave both out, and don't change the other numbers.
# - **From pieces to words.** The weight of a source word is the **sum** of the weights of its pieces. Each piece of a
#   target word has a row of its own that sums to one, so take the **mean** of these rows.
# - **Links.** Each target word is linked to the source word with the largest weight. If several have it, take the first.
#
# <details><summary>Hint</summary>
#
# ```text
# leave out eos: keep as many rows and columns as there are pieces
# for each target word: the mean of the rows of its pieces        (target words, source pieces)
# for each source word: the sum of the columns of its pieces      (target words, source words)
# for each row, the index of the largest weight and the index of the row form a link
# ```
#
# There are two ways to select a word's pieces: `torch.tensor(target_word) == j` is True for those of word j; or a matrix of ones and zeros,
# pieces by words, handles all words in one product.
# </details>
# <details><summary>Help: <code>The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [3, 3] at index 0</code></summary>
#
# The lists have one entry per piece, but the weights have one more row and column, for eos. Leave these out first.
# </details>
# <details><summary>Help: <code>(tensor(0), 0)*    (0, 0)</code></summary>
#
# A tensor with a single element is not a plain number. `.item()` converts it, and `.tolist()` converts all elements at once.
# </details>


# %% tags=["answer"]
# answer: word_links
def word_links(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, list[tuple[int, int]]]:
    """Turn a head's weights between pieces into weights and links between words.

    weights: (target pieces + 1, source pieces + 1); the first row reads <bos>
    target_word: for each target piece the number of its word: 0, 0, 1, …
    source_word: the same for the source
    returns: the weights between words, (target words, source words);
        a link (source word, target word) for each target word, in order
    """
    ### BEGIN SOLUTION
    add = F.one_hot(torch.tensor(source_word)).float()  # (pieces, words)
    mean = F.one_hot(torch.tensor(target_word)).float()
    mean = mean / mean.sum(dim=0)
    words = mean.T @ weights[: len(mean), : len(add)] @ add
    return words, [(i, j) for j, i in enumerate(words.argmax(dim=-1).tolist())]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("word_links", word_links)

# %% [markdown]
# ## 4 · The alignment error rate
#
# ★★☆ · 10 minutes
#
# People who align words by hand mark some links as **sure** and others, which are debatable, as **possible**. An aligner should
# find the sure links, and may find the possible ones. Let $A$ be the links found, $S$ the sure links, and $P$ all possible links, **including
# the sure ones**:
#
# $$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}.$$
#
# Add up each size over all sentences before you divide. The argument `possible` contains only links that are possible and *not* sure.
# No list contains a link twice. A list may be empty, but there is at least one sure link in the test set.
#
# <details><summary>Hint</summary>
#
# ```text
# for each sentence: turn the three lists into sets; P is the union of two of them
#     add to the numerator:    size of (A and S)  +  size of (A and P)
#     add to the denominator:  size of A          +  size of S
# 1 - numerator / denominator
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for &: 'list' and 'list'</code></summary>
#
# `&` works for sets, not for lists. Convert them with `set(…)`.
# </details>
# <details><summary>Help: <code>unhashable type: 'list'</code></summary>
#
# You convert the whole test set, a list of lists, into one set. Make a set for each sentence.
# </details>


# %% tags=["answer"]
# answer: alignment_error_rate
def alignment_error_rate(
    found: list[list[tuple[int, int]]],
    sure: list[list[tuple[int, int]]],
    possible: list[list[tuple[int, int]]],
) -> float:
    """The alignment error rate of the links found; 0 is best.

    found, sure, possible: for each sentence its links (source word, target word)
    """
    ### BEGIN SOLUTION
    right = total = 0
    for sides in zip(found, sure, possible, strict=True):
        a, s, p = map(set, sides)
        right += len(a & s) + len(a & (s | p))
        total += len(a) + len(s)
    return 1 - right / total
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("alignment_error_rate", alignment_error_rate)

# %% [markdown]
# ## 5 · Ablating heads
#
# ★★☆ · 10 minutes · §3.2.2
#
# Does the model need a head? Silence it, and see how much worse the model gets. The outputs of all heads are concatenated and
# multiplied by $W^O$, and a bias is added:
#
# $$\mathrm{Concat}(\mathrm{head}_1, …, \mathrm{head}_h)\, W^O + b.$$
#
# To **ablate** a head, set its part of the input of $W^O$ to zero. The head keeps its place, so that $W^O$ still fits. Everything else
# stays as it is: the other heads, and the bias, which belongs to no head.
#
# <details><summary>Hint</summary>
#
# ```text
# set the given heads to zero                     (batch, n_heads, length, d_head)
# swap heads and positions                        (batch, length, n_heads, d_head)
# merge the last two axes                         (batch, length, d_model)
# times W_O, plus the bias
# ```
# </details>
# <details><summary>Help: <code>mat1 and mat2 shapes cannot be multiplied (2x1 and 2x2)</code></summary>
#
# $W^O$ takes the heads of a position together, a vector of d_model numbers. Join them first.
# </details>
# <details><summary>Help: <code>view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.</code></summary>
#
# After two axes are swapped, the numbers are no longer contiguous in memory, and `view` never copies. `reshape` and `flatten` copy if they
# have to.
# </details>


# %% tags=["answer"]
# answer: heads_off
def heads_off(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    """The output of an attention layer without some of its heads.

    heads: (batch, n_heads, length, d_head), each head's output before W_O
    off: the heads to ablate, counted from 0; may be empty
    w_output: (d_model, d_model), W_O as in the formula: the concatenated heads times w_output
    bias: (d_model,)
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    on = heads.new_ones(heads.size(1))
    on[off] = 0
    kept = heads * on[:, None, None]
    return kept.transpose(1, 2).flatten(2) @ w_output + bias
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("heads_off", heads_off)

# %% [markdown]
# ## On a trained model
#
# There is nothing to fill in here. The small translator that comes with the course reads a hundred sentences with their translations, and
# your functions analyse its heads. (If a blank isn't done yet, the course's function is used instead.)

# %% tags=["nbval-skip"]
import transformer
from transformer.data import pocket
from transformer.data.batching import pad
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.inspection import record_attention, word_indices

translator = transformer.load("pocket-small", device="cpu")
model, tokenizer = translator.model, translator.tokenizer
pairs = pocket.pairs("test", 100)
source = pad([[*tokenizer.encode(p.source), EOS] for p in pairs])
target = pad([[BOS, *tokenizer.encode(p.target)] for p in pairs])
with torch.no_grad(), record_attention(model) as weights:
    model(source, target)


def named(name: str, head: int) -> str:
    """encoder.0.self_attention, 2 → layer 1, head 3."""
    return f"layer {int(name.split('.')[1]) + 1}, head {head + 1}"


# %% tags=["nbval-skip"]
real = source != PAD
print("the encoder        previous   bits")
for name, w in weights.items():
    if name.startswith("encoder"):
        bits = given.row_entropy(w)  # (batch, heads, query)
        for h, share in enumerate(given.one_back(w, real)):
            print(f"{named(name, h)}        {share:.2f}    {bits[:, h][real].mean():.1f}")


# %% [markdown]
# No head attends only to the previous token; layer 2, head 1 gives it more weight than any other head does. Next, cross-attention: which of its layers
# aligns the words better?


# %% tags=["nbval-skip"]
def word_of_piece(text: str, words: list[str]) -> list[int]:
    """The index of the word to which each piece of a sentence belongs."""
    return word_indices(tokenizer.pieces(tokenizer.encode(text)), words)


sure = [p.alignment for p in pairs]
target_words = [word_of_piece(p.target, p.target_words) for p in pairs]
source_words = [word_of_piece(p.source, p.source_words) for p in pairs]
print("cross-attention      AER")
for name, w in weights.items():
    if "cross" in name:
        for h in range(w.size(1)):
            found = [
                list(map(tuple, given.word_links(table[: len(rows) + 1, : len(columns) + 1], rows, columns)[1]))
                for table, rows, columns in zip(w[:, h], target_words, source_words, strict=True)
            ]
            rate = given.alignment_error_rate(found, sure, [[] for _ in sure])
            print(f"{named(name, h)}     {rate:.2f}")

# %% [markdown]
# What happens if you ablate one of the heads in the encoder's second layer? Your function replaces the output projection, and the cell prints the loss per token:

# %% tags=["nbval-skip"]
layer = model.get_submodule("encoder.1.self_attention")
wanted = pad([[*tokenizer.encode(p.target), EOS] for p in pairs])


def loss_without(off: list[int]) -> float:
    """The mean loss per token, with these heads of the layer ablated."""

    def project(linear, args, output):
        return given.heads_off(layer.split_heads(args[0]), off, linear.weight.T, linear.bias)

    hook = layer.output.register_forward_hook(project)
    with torch.no_grad():
        logits = model(source, target)
    hook.remove()
    return F.cross_entropy(logits.transpose(1, 2), wanted, ignore_index=PAD).item()


print(f"all heads         {loss_without([]):.3f}")
for h in range(layer.n_heads):
    print(f"without head {h + 1}    {loss_without([h]):.3f}")

# %% [markdown]
# The head that attends most to the previous token is not the one whose removal hurts most. The chapter shows what the latter attends to.

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade attention_heads` in a terminal
# does the same.
#
# Then open [`transformer/inspection.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/inspection.py). It records the weights of a model and ablates its heads while it runs,
# without any change to the model's code.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
