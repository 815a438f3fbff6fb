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
# # Exercises: the Transformer family
#
# Six blanks: what BERT has to predict, one mask for the whole family, GPT's loss, a classifier on top of GPT, a few-shot prompt, and the weights of a public
# model. Each is a few lines.
#
# **First run the two code cells below**; in Colab, choose *File → Save a copy in Drive* before that. Then write your code where a cell says *not done yet*, and run the check below it. The
# [first notebook](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb) explains the rest: hints, *Help*, and the rules for answers.
#
# At the end, your function masks German sentences.

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
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.checks.transformer_family import check, given

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## 1 · Masked tokens
#
# ★☆☆ · 5 minutes · §3.1 of the BERT paper
#
# Masked language modelling hides some tokens, and the model has to predict them. A token is **chosen** if its number in `choice` is below 0.15. Special tokens
# are never chosen: they have the ids from 0 to `mask_id`, and all words have larger ones.
#
# What happens to a chosen token depends on its number in `kind`:
#
# - below 0.8, it is replaced by `[MASK]`,
# - from 0.8 up to, but not including, 0.9, by the random token at the same position in `other`,
# - 0.9 or above, it stays as it is.
#
# The random numbers are given, so there is only one right result. Return the model's input, and where the loss is computed: at **all** chosen tokens. The chapter shows such a function: write this one without looking.
#
# <details><summary>Hint</summary>
#
# ```text
# chosen: two conditions, combined with &                  (batch, length), bool
# torch.where(condition, a, b) takes a where the condition is true, and b elsewhere
# use it twice: first for [MASK], then for the random tokens
# the second time, mind the lower limit as well
# ```
# </details>
# <details><summary>Help: <code>Boolean value of Tensor with more than one value is ambiguous</code></summary>
#
# `and`, `or`, `if` and `0.8 <= kind < 0.9` need a single truth value. For tensors, write `&` and `|`, with each comparison in parentheses.
# </details>
# <details><summary>Help: <code>it returns one value, but should return 2: masked, chosen</code></summary>
#
# A function returns two results as `return masked, chosen`.
# </details>


# %% tags=["answer"]
# answer: mask_tokens
def mask_tokens(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> tuple[Tensor, Tensor]:
    """Hide some tokens, as in the pre-training of BERT.

    ids: (batch, length), int64; special tokens are at most mask_id
    choice, kind: (batch, length), random numbers from 0 to 1, float32 or float64
    other: (batch, length), int64, random tokens
    mask_id: the id of [MASK]
    returns: the model's input, (batch, length), int64;
        where the loss is computed, (batch, length), bool
    """
    ### BEGIN SOLUTION
    chosen = (choice < 0.15) & (ids > mask_id)
    masked = torch.where(chosen & (kind < 0.8), mask_id, ids)
    masked = torch.where(chosen & (kind >= 0.8) & (kind < 0.9), other, masked)
    return masked, chosen
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("mask_tokens", mask_tokens)

# %% [markdown]
# ## 2 · Prefix language models: one mask for the family
#
# ★★☆ · 10 minutes · §3.2 of the T5 paper
#
# A **prefix language model** reads the beginning of a text, the prefix, in both directions, and generates the rest from left to right. So a query may attend to
#
# - every key of the prefix, and
# - itself and every earlier key, as in GPT.
#
# The sentences of a batch have prefixes of different lengths. If the prefix is empty, this is GPT's causal mask; if it is the whole sentence, it is BERT's. As always in this
# course, True means that attending is allowed.
#
# <details><summary>Hint</summary>
#
# ```text
# the positions 0, 1, …                                               (length,)
# the causal mask: query position ≥ key position                      (length, length)
# which keys belong to the prefix? compare positions and lengths      (batch, length)
# allowed if one or the other is true; the second is about keys, so its axis is the last one
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 0</code></summary>
#
# The lengths of the prefixes have one axis, the batch, and the positions have another one. Give each an axis of length one where the other has its own.
# </details>
# <details><summary>Help: <code>the result has the shape (2, 4, 4), but should have (2, 1, 4, 4)</code></summary>
#
# All heads share the mask, but it needs an axis for them, of length one, after the batch.
# </details>


# %% tags=["answer"]
# answer: prefix_mask
def prefix_mask(n_prefix: Tensor, length: int) -> Tensor:
    """Which keys each query may attend to in a prefix language model.

    n_prefix: (batch,), int64, the number of tokens in each prefix, from 0 to length
    returns: (batch, 1, length, length), bool; rows are queries, columns are keys
    """
    ### BEGIN SOLUTION
    position = torch.arange(length)
    causal = position[:, None] >= position  # (length, length)
    in_prefix = position < n_prefix[:, None]  # (batch, length)
    return (causal | in_prefix[:, None])[:, None]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("prefix_mask", prefix_mask)

# %% [markdown]
# ## 3 · GPT's loss
#
# ★★☆ · 10 minutes
#
# In causal language modelling, a text is both the input and the label. The model reads all of it at once, and outputs logits at every position, which should predict the
# token at the **next** position. So the last position has no label, and the first token is never a label.
#
# Return the mean cross-entropy over all labels of the batch that aren't padding. The check tries large logits, too.
#
# <details><summary>Hint</summary>
#
# ```text
# which logits have a label?               (batch, length - 1, vocab_size)
# which tokens are labels?                 (batch, length - 1)
# cross_entropy takes a list of positions: flatten batch and length into one axis
# it also takes an id that it should ignore
# ```
# </details>
# <details><summary>Help: <code>Expected target size [1, 4], got [1, 3]</code></summary>
#
# `cross_entropy` expects the vocabulary in the second axis, and here it is the last. Flatten the other two axes into one, of the logits and of the labels.
# </details>
# <details><summary>Help: <code>Expected input batch_size (4) to match target batch_size (3).</code></summary>
#
# The logits have one more position than the labels: nothing follows the last token.
# </details>


# %% tags=["answer"]
# answer: causal_lm_loss
def causal_lm_loss(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    """The loss of a decoder-only model on a batch of texts.

    logits: (batch, length, vocab_size), the output for these texts
    ids: (batch, length), int64; the texts, with padding at the end
    returns: a tensor with a single number, of shape ()
    """
    ### BEGIN SOLUTION
    predictions, labels = logits[:, :-1], ids[:, 1:]
    return F.cross_entropy(predictions.flatten(0, 1), labels.flatten(), ignore_index=pad_id)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("causal_lm_loss", causal_lm_loss)

# %% [markdown]
# ## 4 · A classifier on top of GPT
#
# ★★☆ · 10 minutes
#
# BERT classifies a sentence by the output vector of its first token, `[CLS]`, which can attend to all others. You want to fine-tune a **GPT** on the same task. Its first token has
# seen nothing but itself. Which token has seen the whole sentence? Take the output vector of that one, and put a linear layer on top: $x W^\top + b$.
#
# The sentences of a batch have different lengths.
#
# <details><summary>Hint</summary>
#
# ```text
# a causal mask lets a token see what comes before it: so which one sees everything?
# where it is differs from sentence to sentence: what does `real` say about the lengths?      (batch,)
# x[rows, positions] takes one vector of each sentence, if rows is 0, 1, …      (batch, d_model)
# ```
# </details>
# <details><summary>Help: <code>mat1 and mat2 shapes cannot be multiplied (2x2 and 3x2)</code></summary>
#
# The weight has the shape of PyTorch's linear layers, (n_classes, d_model), so the product needs its transpose.
# </details>
# <details><summary>Help: <code>the result has the shape (2, 2, 3), but should have (2, 3)</code></summary>
#
# `x[:, positions]` takes every one of the positions from every sentence. To take one position from each sentence, index both axes with tensors of the same length.
# </details>


# %% tags=["answer"]
# answer: classify
def classify(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The logits of each class, from the output vectors of a GPT.

    x: (batch, length, d_model), the output of the last layer
    real: (batch, length), bool; False = padding, which is at the end
    weight: (n_classes, d_model)
    bias: (n_classes,)
    returns: (batch, n_classes)
    """
    ### BEGIN SOLUTION
    last = real.sum(dim=1) - 1
    return x[torch.arange(len(x)), last] @ weight.T + bias
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("classify", classify)

# %% [markdown]
# ## 5 · A few-shot prompt
#
# ★★☆ · 15 minutes
#
# Here nothing is trained. The task is in the prompt: solved examples, then the question. In the format of the chapter, with a space between any two tokens, a prompt with two examples is
#
# ```text
# cat : cats , box : boxes , fox :
# ```
#
# The model continues it token by token: `foxes`, and then `,`, because in the examples a comma follows each answer. The comma is the **stop token**. Append
# what the model predicts to the tokens that it reads, stop at the comma or after `max_new_tokens`, and return the answer without the prompt and the comma.
#
# Questions and answers may consist of several tokens, and there may be no example at all (zero-shot).
#
# <details><summary>Hint</summary>
#
# ```text
# a list of tokens: for each example, those of "question : answer ,"
# then those of the new question, and a colon
# remember how long the prompt is
# at most max_new_tokens times:
#     call the model with the whole list; stop if it predicts the stop token, else append
# join what comes after the prompt, with spaces
# ```
# </details>
# <details><summary>Help: <code>next_token expects a list of tokens, and got a str</code></summary>
#
# A model reads tokens, not a text. Here `text.split()` turns one into the other.
# </details>
# <details><summary>Help: <code>next_token expects a list of tokens, and got a NoneType</code></summary>
#
# `append` and `extend` change the list and return nothing. With `tokens = tokens.append(…)` you lose the list.
# </details>


# %% tags=["answer"]
# answer: few_shot_answer
def few_shot_answer(
    next_token: Callable[[list[str]], str], examples: list[tuple[str, str]], question: str, max_new_tokens: int
) -> str:
    """Let a language model answer a question, after some solved examples.

    next_token: the model: all tokens so far → the most probable next token
    examples: pairs of a question and its answer; may be empty
    returns: the answer, its tokens joined by spaces
    """
    ### BEGIN SOLUTION
    tokens = [token for pair in examples for token in f"{pair[0]} : {pair[1]} ,".split()]
    tokens += f"{question} :".split()
    n_prompt = len(tokens)
    for _ in range(max_new_tokens):
        token = next_token(tokens)
        if token == ",":
            break
        tokens.append(token)
    return " ".join(tokens[n_prompt:])
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("few_shot_answer", few_shot_answer)

# %% [markdown]
# ## 6 · Loading public weights
#
# ★★★ · 15 minutes
#
# Many models, such as GPT-2 and BLOOM, compute queries, keys and values with one large matrix, and so does our `MultiHeadAttention`. But the order of its rows isn't the same everywhere:
#
# - **Ours:** first the queries of all heads, then the keys of all heads, then the values of all heads.
# - **GPT-NeoX and BLOOM:** head by head: the query, key and value of the first head, then those of the second head, and so on.
#
# Both matrices have the same shape. If you load one in place of the other, no error is raised, but the model generates nonsense. Put the rows of such a matrix into our order. The bias
# is in the same order but has only one axis; your function should handle it as well.
#
# <details><summary>Hint</summary>
#
# ```text
# split the first axis into three                     (n_heads, 3, d_head, …)
# swap the two that are in the wrong order            (3, n_heads, d_head, …)
# merge the three again                               (3 · d_model, …)
# nothing changes after these axes, so it doesn't matter whether there are more
# ```
# </details>
# <details><summary>Help: <code>view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.</code></summary>
#
# After two axes are swapped, the numbers are no longer contiguous in memory, and `view` never copies. `reshape` and `flatten` copy if they have to.
# </details>
# <details><summary>Help: <code>unflatten: Provided sizes [2, 3, 2] don't multiply up to the size of dim 0 (6) in the input tensor</code></summary>
#
# The first axis has 3 · d_model rows, and d_model is n_heads · d_head. Or let PyTorch compute one of the sizes: write −1 for it.
# </details>


# %% tags=["answer"]
# answer: reorder_query_key_value
def reorder_query_key_value(theirs: Tensor, n_heads: int) -> Tensor:
    """Put the rows of GPT-NeoX's query-key-value matrix, or its bias, into the order of our `query_key_value`.

    theirs: (3 · d_model, d_model), or the bias, (3 · d_model,)
    returns: the same shape
    """
    ### BEGIN SOLUTION
    by_head = theirs.unflatten(0, (n_heads, 3, -1))  # (n_heads, 3, d_head, …)
    return by_head.transpose(0, 1).flatten(0, 2)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("reorder_query_key_value", reorder_query_key_value)

# %% [markdown]
# ## On whole sentences
#
# There is nothing to fill in here. Your function masks German sentences of the pocket corpus. (If the blank isn't done yet, the course's function is used instead.) A word in parentheses
# is the one that the model has to predict. Can you?

# %% tags=["nbval-skip"]
import re

from transformer.data import pocket

sentences = [re.findall(r"\w+|[.,?]", pair.target) for pair in pocket.pairs("train", 1000)]
words = ["<pad>", "<bos>", "<eos>", "[MASK]", *sorted({word for sentence in sentences for word in sentence})]
token_id = {word: i for i, word in enumerate(words)}
rows = [torch.tensor([1, *(token_id[word] for word in sentence), 2]) for sentence in sentences]
ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
generator = torch.Generator().manual_seed(0)
choice, kind = torch.rand(2, *ids.shape, generator=generator)
other = torch.randint(4, len(words), ids.shape, generator=generator)
masked, chosen = given.mask_tokens(ids, choice, kind, other, 3)

for row in range(4):
    shown = []
    for before, after, is_chosen in zip(ids[row], masked[row], chosen[row], strict=True):
        if before > 3:
            shown.append(words[after] + (f" ({words[before]})" if is_chosen else ""))
    print(" ".join(shown))

real = ids > 3
print()
print(f"chosen                {(chosen & real).sum() / real.sum():.1%} of all words")
print(f"replaced by [MASK]    {(masked == 3).sum() / chosen.sum():.1%} of the chosen ones")
print(f"changed in any way    {(masked != ids).sum() / chosen.sum():.1%} of the chosen ones")

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade transformer_family` in a terminal
# does the same.
#
# Then open [`transformer/huggingface.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/huggingface.py). It loads a public translation model into our classes: it renames the weights, and joins the matrices of queries, keys and
# values in our order.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
