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
# Five blanks: what a head looks at as a rule, how sharp it is, which words it links, how such links are marked, and how to take a
# head away (§3.2.2 and the end of §4 of the paper).
#
# - Write your code where a cell says *not done yet*, run the cell, and run the check below it. The check shows ✓, or explains
#   what is wrong.
# - The blanks do not depend on each other: you can skip one and come back later.
# - Stuck? Unfold the hint. An error message that you don't understand? Look for it under *Help*.
# - Only cells that begin with `# answer:` are graded, so put your own helper functions there too.
# - At the end, your functions look into a trained model.

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
import torch
from torch import Tensor

from exercises.checks.attention_heads import check, given

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · One back
#
# ★★☆ · 10 minutes · §4
#
# How much does each head look at the word **before**? Row $i$ of the weights is the query at place $i$, column $j$ the key at
# place $j$. Take the mean over all queries that can be asked, in all sentences together, each counting alike. The first word has
# nobody before it and is not asked. Padding is not asked either: its rows hold weights like any others, but nobody uses them.
#
# <details><summary>Hint</summary>
#
# ```text
# the weights of place i on place i - 1 lie on a diagonal: one below the main one
# there are n_query - 1 of them: those of the queries 1, 2, …     (batch, heads, n_query - 1)
# which of these queries are real?                                (batch, n_query - 1)
# for each head, the sum over those that are, divided by their number
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1</code></summary>
#
# Weights have an axis for heads, `real` has none. Give it one of length one, between the other two.
# </details>
# <details><summary>Help: <code>The size of tensor a (0) must match the size of tensor b (2) at non-singleton dimension 2</code></summary>
#
# Unless you tell it otherwise, `diagonal` takes the first two axes, batch and heads. Tell it which two you mean: `dim1=`, `dim2=`.
# </details>


# %% tags=["answer"]
# answer: one_back
def one_back(weights: Tensor, real: Tensor) -> Tensor:
    """How much weight each head has on the word before, on average.

    weights: (batch, heads, n, n); each row sums to one
    real: (batch, n), bool; False = padding, which stands at the end
    returns: (heads,)
    """
    ### BEGIN SOLUTION
    asked = real[:, None, 1:]  # (batch, 1, n - 1)
    before = weights.diagonal(offset=-1, dim1=-2, dim2=-1)  # (batch, heads, n - 1)
    return (before * asked).sum(dim=(0, 2)) / asked.sum()
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("one_back", one_back)

# %% [markdown]
# ## 2 · How sharp a row is
#
# ★☆☆ · 5 minutes · §4
#
# The entropy of a row of weights $w$, in **bits**:
#
# $$H = -\sum_j w_j \log_2 w_j.$$
#
# All weight on one key is 0 bits, half and half is 1, the same on eight keys is 3. A mask leaves weights of exactly 0, and they
# add nothing: $0 \log_2 0$ counts as 0. So a row without any weight, as padding may have it, has 0 bits as well.
#
# <details><summary>Hint</summary>
#
# ```text
# a number for each key: weight · logarithm of the weight, to the base 2
# where the weight is 0, that number is 0 (the logarithm of something tiny will do)
# add up over the keys, and mind the sign
# ```
# </details>
# <details><summary>Help: <code>only one element tensors can be converted to Python scalars</code></summary>
#
# The functions of `math` take one number. Tensors have their own: `weights.log2()`.
# </details>
# <details><summary>Help: <code>math domain error</code></summary>
#
# That is the logarithm of 0. Decide what a key without weight adds before you ask for it.
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
# ## 3 · Which word is linked to which
#
# ★★★ · 20 minutes · §3.2.3
#
# Cross-attention has weights from target **pieces** to source **pieces**. We want words. One sentence, one head:
#
# - **Rows.** The decoder reads `<bos> y₁ y₂ …` and writes `y₁ y₂ … <eos>`. Take each piece in the row that **writes** it. The last row
#   writes `<eos>`, and the last column is the source's `<eos>`: no words, so leave both out, and leave the other numbers as they are.
# - **Pieces into words.** A row is a budget, so what went to the parts of a source word went to the word: add. Each piece of a
#   target word has a budget of its own: take the mean.
# - **Links.** Each target word is linked to the source word with most weight; of equals, to the first.
#
# <details><summary>Hint</summary>
#
# ```text
# cut off what is eos: as many rows and columns as there are pieces of words
# for each target word: the mean of the rows of its pieces        (target words, source pieces)
# for each source word: the sum of the columns of its pieces      (target words, source words)
# for each row the place of the largest: with the row's number, a link
# ```
#
# Two ways to pick a word's pieces: `torch.tensor(target_word) == j` is True at those of word j; or a matrix of ones and zeros, pieces
# by words, does all words in one product.
# </details>
# <details><summary>Help: <code>The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [3, 3] at index 0</code></summary>
#
# There are as many numbers of words as pieces, and the weights have one row and one column more. Cut them first.
# </details>
# <details><summary>Help: <code>(tensor(0), 0)*    (0, 0)</code></summary>
#
# A tensor that holds one number is not that number. `.item()` makes it a plain one, and `.tolist()` does so for all at once.
# </details>


# %% tags=["answer"]
# answer: word_links
def word_links(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, list[tuple[int, int]]]:
    """From a head's weights to words, and to links between them.

    weights: (target pieces + 1, source pieces + 1); the first row reads <bos>
    target_word: for each target piece the number of its word: 0, 0, 1, …
    source_word: the same for the source
    returns: the weights between words, (target words, source words);
        a link (source word, target word) for each target word, in order
    """
    ### BEGIN SOLUTION
    add = torch.nn.functional.one_hot(torch.tensor(source_word)).float()  # (pieces, words)
    mean = torch.nn.functional.one_hot(torch.tensor(target_word)).float()
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
# People who align by hand note which links are **sure**, and which are only **possible**, as they can be argued. An aligner should
# find the sure ones, and is not blamed for a possible one. With $A$ the links found, $S$ the sure ones and $P$ all that are
# possible, **the sure ones among them**:
#
# $$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}.$$
#
# Each size is added up over all sentences before anything is divided. `possible` lists the links that are possible and *not* sure.
# No list names a link twice. A list may be empty; but somewhere in the test set there is a sure link.
#
# <details><summary>Hint</summary>
#
# ```text
# for each sentence: its three lists as sets; P is what is in either of two of them
#     add to the number of right ones:  size of (A and S)  +  size of (A and P)
#     add to the number of all:         size of A          +  size of S
# one minus right / all
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for &: 'list' and 'list'</code></summary>
#
# Lists have no intersection. Sets have, so make `set(…)` of them.
# </details>
# <details><summary>Help: <code>unhashable type: 'list'</code></summary>
#
# You make a set of the whole test set, a list of lists. Each sentence is a set of its own.
# </details>


# %% tags=["answer"]
# answer: alignment_error_rate
def alignment_error_rate(
    found: list[list[tuple[int, int]]],
    sure: list[list[tuple[int, int]]],
    possible: list[list[tuple[int, int]]],
) -> float:
    """How wrong the links found are: 0 is best.

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
# ## 5 · Heads off
#
# ★★☆ · 10 minutes · §3.2.2
#
# Does the model need a head? Take it away and see. The outputs of all heads are joined side by side, in the order of the heads, and
# multiplied by $W^O$, and a bias is added:
#
# $$\mathrm{Concat}(\mathrm{head}_1, …, \mathrm{head}_h)\, W^O + b.$$
#
# A head is **off** if its own part of what $W^O$ reads is zero. Everything else stays as it is: the other heads, in all sentences and at
# all positions, and the bias, which belongs to no head.
#
# <details><summary>Hint</summary>
#
# ```text
# zeros in place of the heads that are off        (batch, n_heads, length, d_head)
# positions before heads                          (batch, length, n_heads, d_head)
# join the last two axes                          (batch, length, d_model)
# times W_O, plus the bias
# ```
# </details>
# <details><summary>Help: <code>mat1 and mat2 shapes cannot be multiplied (2x1 and 2x2)</code></summary>
#
# $W^O$ reads all heads of a position at once, a vector of d_model numbers. Join them first.
# </details>
# <details><summary>Help: <code>view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.</code></summary>
#
# After two axes have changed places the numbers lie no longer in a row, and `view` copies nothing. `reshape` and `flatten` copy where they
# have to.
# </details>


# %% tags=["answer"]
# answer: heads_off
def heads_off(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    """What a layer says without some of its heads.

    heads: (batch, n_heads, length, d_head), each head's output before W_O
    off: the heads to turn off, counted from 0; may be empty
    w_output: (d_model, d_model), W_O as in the formula, the heads on its left
    bias: (d_model,)
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    on = torch.ones(heads.size(1))
    on[off] = 0
    kept = heads * on[:, None, None]
    return kept.transpose(1, 2).flatten(2) @ w_output + bias
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("heads_off", heads_off)

# %% [markdown]
# ## On a trained model
#
# Nothing to fill in here. The small translator that comes with the course reads a hundred sentences with their translations, and
# your functions tell what its heads do. (Where a blank is still open, the course's function stands in for yours.)

# %% tags=["nbval-skip"]
from itertools import accumulate

import transformer
from transformer.data import pocket
from transformer.data.batching import pad
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.inspection import record_attention

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
print("the encoder        one back   bits")
for name, w in weights.items():
    if name.startswith("encoder"):
        bits = given.row_entropy(w)  # (batch, heads, query)
        for h, share in enumerate(given.one_back(w, real)):
            print(f"{named(name, h)}        {share:.2f}    {bits[:, h][real].mean():.1f}")


# %% [markdown]
# No head looks one back and nowhere else, but one comes closest. Then the cross-attention: which layer would you rather have for a
# dictionary?


# %% tags=["nbval-skip"]
def word_of_piece(text: str, words: list[str]) -> list[int]:
    """For each piece of a sentence the number of its word."""
    letters = [n for n, word in enumerate(words) for _ in word]
    lengths = [len(piece.lstrip("▁")) for piece in tokenizer.pieces(tokenizer.encode(text))]
    return [letters[start] for start in accumulate([0, *lengths[:-1]])]


sure = [p.alignment for p in pairs]
target_words = [word_of_piece(p.target, p.target_words) for p in pairs]
source_words = [word_of_piece(p.source, p.source_words) for p in pairs]
print("cross-attention      AER")
for name, w in weights.items():
    if "cross" in name:
        for h in range(w.size(1)):
            found = [
                given.word_links(table[: len(rows) + 1, : len(columns) + 1], rows, columns)[1]
                for table, rows, columns in zip(w[:, h], target_words, source_words, strict=True)
            ]
            rate = given.alignment_error_rate(found, sure, [[] for _ in sure])
            print(f"{named(name, h)}     {rate:.2f}")

# %% [markdown]
# And without a head of the encoder's second layer? Your function takes the place of the output projection. The loss of a token:

# %% tags=["nbval-skip"]
layer = model.get_submodule("encoder.1.self_attention")
wanted = pad([[*tokenizer.encode(p.target), EOS] for p in pairs])


def loss_without(off: list[int]) -> float:
    """The mean loss of a token, with these heads of the layer off."""

    def project(linear, args, output):
        return given.heads_off(layer.split_heads(args[0]), off, linear.weight.T, linear.bias)

    hook = layer.output.register_forward_hook(project)
    with torch.no_grad():
        logits = model(source, target)
    hook.remove()
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), wanted, ignore_index=PAD).item()


print(f"all heads on      {loss_without([]):.3f}")
for h in range(layer.n_heads):
    print(f"without head {h + 1}    {loss_without([h]):.3f}")

# %% [markdown]
# The head that looks one back most is not the one that is missed most. What that one looks at, the chapter finds out.

# %% [markdown]
# ## Done?
#
# Save the notebook, and have it graded: by the cell below, or in a terminal by `python -m exercises grade attention_heads`.
#
# Then open `transformer/inspection.py`. It records the weights of a model while it runs, and turns heads off in the midst of it,
# without a change to the model's own code.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
