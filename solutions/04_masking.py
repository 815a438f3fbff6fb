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
# # Exercises: masking
#
# Six blanks: which query may attend to which key, what happens to a query that may attend to none, and a decoder's self-attention with bugs to find (§3.2.3 of the paper). One convention
# holds everywhere: a mask is boolean, and **True means "may attend"**. It must broadcast to the shape of the scores,
# (batch, heads, query, key).
#
# **First run the two code cells below**; in Colab, choose *File → Save a copy in Drive* before that. Then write your code where a cell says *not done yet*, and run the check below it. The
# [first notebook](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb) explains the rest: hints, *Help*, and the rules for answers.

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
from torch import Tensor

from exercises.checks.masking import check, given

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · Padding mask
#
# ★☆☆ · 5 minutes
#
# The sentences of a batch are padded with `pad_id` to the same length. No query should attend to this padding, so hide those keys.
# The mask is the same for all heads and all queries, so these two axes have size 1.
#
# <details><summary>Hint</summary>
#
# ```text
# compare ids with pad_id                 (batch, length), bool
# insert two axes of size 1               (batch, 1, 1, length)
# ```
# </details>
# <details><summary>Help: <code>'bool' object is not subscriptable</code></summary>
#
# `is not` compares the two objects as a whole. `!=` compares element by element.
# </details>


# %% tags=["answer"]
# answer: padding_mask
def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """True where a key holds a real token.

    ids: (batch, length), int64
    returns: (batch, 1, 1, length), bool
    """
    ### BEGIN SOLUTION
    return (ids != pad_id)[:, None, None, :]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("padding_mask", padding_mask)

# %% [markdown]
# ## 2 · Causal mask
#
# ★☆☆ · 5 minutes · §3.2.3
#
# In training, the decoder gets the whole target at once (teacher forcing). To keep a position from copying the token that it has to predict, position $i$ may attend only to positions $0 \ldots i$, itself included.
#
# <details><summary>Hint</summary>
#
# ```text
# rows are queries, columns are keys
# row i is True up to column i: which triangle of a square of True is that?
# insert two axes of size 1 in front      (1, 1, length, length)
# ```
# </details>
# <details><summary>Help: <code>tril(): argument 'input' (position 1) must be Tensor, not int</code></summary>
#
# `tril` takes the lower triangle of an existing matrix. Make the square first.
# </details>


# %% tags=["answer"]
# answer: causal_mask
def causal_mask(length: int) -> Tensor:
    """True where a position may attend to another: not to later ones.

    returns: (1, 1, length, length), bool; rows are queries, columns are keys
    """
    ### BEGIN SOLUTION
    return torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("causal_mask", causal_mask)

# %% [markdown]
# ## 3 · Target mask
#
# ★☆☆ · 5 minutes · §3.2.3
#
# Combine both masks for the decoder's self-attention: no padding, and nothing from the future. (With padding at the end,
# the causal mask alone would do. The two together work wherever the padding is.) You may use `given.padding_mask` and
# `given.causal_mask`: they are your own functions once the checks above show ✓, and the course's until then.
#
# <details><summary>Hint</summary>
#
# ```text
# padding mask                            (batch, 1, 1, length)
# causal mask                             (1, 1, length, length)
# True where both are True; axes of size 1 are broadcast
# ```
# </details>
# <details><summary>Help: <code>Boolean value of Tensor with more than one value is ambiguous</code></summary>
#
# `and` needs a single True or False for the whole tensor. Use the operator that works element by element.
# </details>


# %% tags=["answer"]
# answer: target_mask
def target_mask(ids: Tensor, pad_id: int) -> Tensor:
    """True where a target position may attend to another: to real tokens, and not to later ones.

    ids: (batch, length), int64
    returns: (batch, 1, length, length), bool
    """
    ### BEGIN SOLUTION
    return given.padding_mask(ids, pad_id) & given.causal_mask(ids.size(1))
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("target_mask", target_mask)

# %% [markdown]
# ## 4 · Masked softmax
#
# ★★★ · 15 minutes · §3.2.3
#
# Turn scores into weights: hidden keys get exactly 0, and the other weights of each row sum to one. If a row has only hidden keys,
# for example because a sentence is nothing but padding, all its weights must be 0, not NaN, which would spread through the whole model.
#
# You may use PyTorch's `softmax`. The check also tests half precision.
#
# <details><summary>Hint</summary>
#
# ```text
# where the mask is False, put a score so low that its exponential is 0, but keep it finite
# softmax over the keys
# a row of equally low scores still gets equal weights: set the hidden ones to zero
# ```
# </details>
# <details><summary>Help: <code>value cannot be converted to type c10::Half without overflow</code></summary>
#
# Your low number is outside the range of half precision, which ends at 65,504. `torch.finfo(dtype)` gives the range of a dtype.
# </details>
# <details><summary>Help: <code>masked_fill_ only supports boolean masks, but got mask with dtype float</code></summary>
#
# The mask has been converted to numbers. Use it as it is, and `~mask` for its opposite.
# </details>
# <details><summary>Help: <code>Subtraction, the `-` operator, with a bool tensor is not supported</code></summary>
#
# `1 - mask` works for numbers only. The opposite of a boolean mask is `~mask`.
# </details>


# %% tags=["answer"]
# answer: masked_softmax
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Attention weights that exclude the hidden keys.

    scores: (..., n_query, n_key)
    mask: bool, broadcastable to scores; True = may attend
    returns: (..., n_query, n_key), of the dtype of scores
    """
    ### BEGIN SOLUTION
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("masked_softmax", masked_softmax)

# %% [markdown]
# ## 5 · Shift the target
#
# ★☆☆ · 5 minutes · §3.1
#
# At each position, the decoder has read the target so far and has to predict the next token. For a target `bos w1 w2 eos`, its input is `bos w1 w2`
# and its labels are `w1 w2 eos`. Together with the causal mask, this trains all positions in a single pass.
#
# <details><summary>Hint</summary>
#
# ```text
# input: all but the last token of each row
# labels: all but the first
# ```
# </details>
# <details><summary>Help: <code>it returns one value, but should return 2: decoder_input, expected</code></summary>
#
# A function returns two results as `return decoder_input, expected`.
# </details>


# %% tags=["answer"]
# answer: shift_target
def shift_target(target: Tensor) -> tuple[Tensor, Tensor]:
    """The input of the decoder, and the token that it should predict at each position.

    target: (batch, length), int64; each row is bos, the sentence, eos, and padding
    returns: decoder_input and expected, each (batch, length - 1)
    """
    ### BEGIN SOLUTION
    return target[:, :-1], target[:, 1:]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("shift_target", shift_target)

# %% [markdown]
# ## 6 · Find the bugs
#
# ★★☆ · 15 minutes · §3.2.3
#
# The function below goes all the way from token ids to the outputs of the decoder's masked self-attention. To keep it short, there is only one head, and the embeddings themselves are the queries, keys and values. The code runs without
# an error and returns the right shapes, but it has **three bugs**, all of them in the masking. Delete the line that says *not done yet*, repair the code, and run the check after each repair: it counts the bugs that are left. Each bug is in a different line, and changing that line is enough.
#
# You could compare each line with what you have written above, but in a larger model there is nothing to compare with. So look for the bugs by experiments: call the function on inputs for which you know something about the result, and see whether it is true.
# You can test three promises in this way: each output is a weighted average, no output depends on a later token, and the output of a word doesn't depend on padding. For the token ids 0 to 9, `torch.randn(10, 4)` is a good enough embedding, and 0 can be the padding.
#
# <details><summary>Hint</summary>
#
# ```text
# torch.ones(10, 4) as the embedding, and no padding: what is a weighted average of equal vectors?
# the last token of a sentence replaced by another one: which outputs may change?
# two padding tokens in front of a sentence: what should happen to the outputs of its words?
# (in front, because the causal mask alone would hide padding at the end; find the first two bugs before this one)
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (2) must match the size of tensor b (4) at non-singleton dimension 0</code></summary>
#
# Broadcasting aligns axes from the right. Write the shape of the padding mask below that of the scores, (batch, heads, query, key), right-aligned: each of its axes must either have the same length as the one above it or the length 1.
# </details>


# %% tags=["answer"]
# answer: decoder_self_attention
def decoder_self_attention(ids: Tensor, embedding: Tensor, pad_id: int) -> Tensor:
    """Masked self-attention of a decoder, with one head and without projections.

    ids: (batch, length), int64
    embedding: (vocab_size, d_model), float32; row i is the vector of token i
    returns: (batch, length, d_model); zeros for a query with nothing to attend to
    """
    ### BEGIN SOLUTION
    x = embedding[ids][:, None]  # (batch, 1 head, length, d_model)
    scores = x @ x.transpose(-2, -1) / x.size(-1) ** 0.5  # (batch, 1, length, length)
    real = (ids != pad_id)[:, None, None, :]  # padding is hidden as a key: a column of the mask, not a row
    length = ids.size(1)
    causal = torch.ones(length, length, dtype=torch.bool).tril()  # up to the diagonal, but not the next position
    mask = real & causal  # (batch, 1, length, length)
    scores = scores.masked_fill(~mask, -1e9)  # not -1e-9, whose exponential is 1; that of -1e9 is 0
    weights = scores.softmax(dim=-1) * mask  # all zero if there is nothing to attend to
    return (weights @ x)[:, 0]  # (batch, length, d_model)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("decoder_self_attention", decoder_self_attention)

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade masking` in a terminal
# does the same.
#
# Then open [`transformer/masks.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/masks.py): it contains your first three blanks. The fourth is part of `attention` in
# [`transformer/attention.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/attention.py),
# and the fifth is part of `collate` in [`transformer/data/batching.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/data/batching.py).

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
