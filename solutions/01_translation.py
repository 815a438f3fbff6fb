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
# # Exercises: translating a sentence
#
# Five of the six blanks follow a sentence through the model: a vocabulary, token ids, embeddings, the most probable next tokens, and greedy search.
# The last one compares self-attention with recurrent and convolutional layers (§3.1 and §4 of the paper). At the
# end, your search translates with a trained Transformer.
#
# - **First run the two code cells below.** In Colab, the first one installs the course. Colab doesn't keep changes to a
#   notebook from GitHub, so choose *File → Save a copy in Drive* now.
# - Write your code where a cell says *not done yet*, run the cell, and run the check below it. The check shows ✓, or explains
#   what is wrong.
# - The blanks do not depend on each other: you can skip one and come back later.
# - Stuck? Unfold the hint. An error message that you don't understand? Look for it under *Help*.
# - Some blanks ask for a function that the chapter also shows. Close the chapter while you write it: what the task says is all you need.
# - Don't modify the inputs of your functions. If the result is a tensor, use tensor operations only: a detour through Python numbers,
#   lists or arrays stops the gradients, and the checks compare gradients, too.
# - Only cells that begin with `# answer:` are graded, so put your own helper functions and imports there, too.
#
# All notebooks work like this; the later ones don't repeat it.

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
import math
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from exercises.checks.translation import check, given

torch.set_printoptions(precision=2, sci_mode=False)

BOS, EOS, UNK = 1, 2, 3  # the ids of the special tokens <bos>, <eos> and <unk>; <pad> is 0
N_SPECIAL = 4

# %% [markdown]
# ## 1 · A vocabulary
#
# ★★☆ · 10 minutes
#
# The chapter's tokenizer cuts rare words into pieces. The simplest tokenizer doesn't: its tokens are whole words, separated by
# whitespace. Its vocabulary contains the most frequent words of the training text.
#
# Ids 0 to 3 belong to the special tokens. The most frequent word gets id 4, the next one id 5, and so on. Words with the same
# frequency are sorted as Python sorts strings. The vocabulary has at most `size` entries, **including the four special tokens**;
# leave out the words that no longer fit. Don't change the words: *dog* and *dog.* are different, and so are *A* and *a*.
#
# <details><summary>Hint</summary>
#
# ```text
# count the words of all sentences: a Counter from collections helps
# sort the words by a pair: minus the count, then the word itself
# how many of them fit? number these, beginning with N_SPECIAL
# ```
# </details>
# <details><summary>Help: <code>unhashable type: 'list'</code></summary>
#
# You count the lists that `split` returns, not the words in them. Go through the words of each sentence in a second loop.
# </details>
# <details><summary>Help: <code>bad operand type for unary -: 'str'</code></summary>
#
# The minus sign belongs to the count, which is a number. The word doesn't get one.
# </details>


# %% tags=["answer"]
# answer: build_vocabulary
def build_vocabulary(sentences: list[str], size: int) -> dict[str, int]:
    """Return the id of each word in the vocabulary.

    sentences: the training text
    size: the largest number of entries, special tokens included; at least N_SPECIAL
    returns: word → id, without the special tokens
    """
    ### BEGIN SOLUTION
    counts = Counter(word for sentence in sentences for word in sentence.split())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: N_SPECIAL + i for i, word in enumerate(ranked[: size - N_SPECIAL])}
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("build_vocabulary", build_vocabulary)

# %% [markdown]
# ## 2 · From a sentence to ids
#
# ★☆☆ · 5 minutes
#
# Replace each word by its id. A word that isn't in the vocabulary becomes `UNK`, the id of the special token `<unk>`
# ("unknown"). `EOS` ends the sentence.
#
# (This is the weakness of a vocabulary of whole words: all unknown words look the same to the model, and it can't generate any of them.
# The chapter on [subword tokenization](../chapters/08_subword_tokenization.ipynb) solves this.)
#
# <details><summary>Hint</summary>
#
# ```text
# for each word of the sentence: its id if the dict has one, UNK if not
# one more id at the end
# ```
# </details>
# <details><summary>Help: <code>KeyError: 'fox'</code></summary>
#
# `vocabulary[word]` fails for a word that the dict doesn't contain. The dict's method `get` takes a second argument: what to
# return in that case.
# </details>
# <details><summary>Help: <code>can only concatenate list (not "int") to list</code></summary>
#
# `+` joins two lists. Put the single id into a list of its own.
# </details>


# %% tags=["answer"]
# answer: encode_sentence
def encode_sentence(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    """Return the ids of the words, and EOS.

    vocabulary: word → id, without the special tokens
    """
    ### BEGIN SOLUTION
    return [vocabulary.get(word, UNK) for word in sentence.split()] + [EOS]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("encode_sentence", encode_sentence)

# %% [markdown]
# ## 3 · Embeddings
#
# ★☆☆ · 5 minutes · §3.4
#
# A token's embedding is a row of a table, and the token's id is the number of that row. Look up a whole batch of sentences at once,
# without a loop if you can: in PyTorch, an index may be a tensor of ids, of any shape.
#
# <details><summary>Hint</summary>
#
# ```text
# a list of ids as an index selects these rows: the chapter did that with one sentence
# with a tensor of ids of shape (batch, length), the result has the shape (batch, length, d_model)
# ```
# </details>
# <details><summary>Help: <code>tensors used as indices must be long, int, byte or bool tensors</code></summary>
#
# You use the table, which contains floats, as the index, and the ids as the table. Swap the two.
# </details>
# <details><summary>Help: <code>index_select(): Index is supposed to be a vector</code></summary>
#
# `index_select` takes a single list of ids. Square brackets take a tensor of any shape.
# </details>


# %% tags=["answer"]
# answer: look_up
def look_up(ids: Tensor, table: Tensor) -> Tensor:
    """Return the embedding of each token.

    ids: (batch, length), int64
    table: (vocab_size, d_model), float
    returns: (batch, length, d_model)
    """
    ### BEGIN SOLUTION
    return table[ids]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("look_up", look_up)

# %% [markdown]
# ## 4 · The most probable next tokens
#
# ★★☆ · 10 minutes
#
# The decoder's output is a logit for each token of the vocabulary. The softmax turns logits into probabilities: it takes the exponential of each,
# which makes them positive, and divides by the sum, which makes them add up to one:
#
# $$p_i = \frac{e^{z_i}}{\sum_j e^{z_j}}$$
#
# Compute the probabilities, and return the largest `n` of them with the ids of their tokens, the most probable first. **Write the softmax yourself**; the check rejects PyTorch's.
#
# <details><summary>Hint</summary>
#
# ```text
# the exponential of every logit           (vocab_size,)
# divide by the sum of all of them         (vocab_size,)
# only then choose: tensors have a method that finds the largest n and their indices
# ```
# </details>
# <details><summary>Help: <code>it returns one value, but should return 2: probabilities, ids</code></summary>
#
# A function returns two results as `return probabilities, ids`.
# </details>
# <details><summary>Help: <code>only one element tensors can be converted to Python scalars</code></summary>
#
# `math.exp` takes a single number. Tensors have their own exponential, which is applied to all entries at once.
# </details>


# %% tags=["answer"]
# answer: most_probable
def most_probable(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the n most probable next tokens, in descending order of probability.

    logits: (vocab_size,), float
    returns: their probabilities, (n,), and their ids, (n,), int64
    """
    ### BEGIN SOLUTION
    exponentials = logits.exp()
    probabilities = exponentials / exponentials.sum()
    return probabilities.topk(n)
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("most_probable", most_probable)

# %% [markdown]
# ## 5 · Greedy search
#
# ★★☆ · 10 minutes
#
# Append the most probable token to the prefix, call the model again, and stop at `eos`. Some models never predict it, so stop after
# `max_new_tokens` new tokens as well. The prefix begins with `<bos>`; if it contains more than that, the model has to continue
# from there. An `eos` in the prefix doesn't count: only one that the model predicts ends the sentence.
#
# The result begins with the prefix, and it ends with `eos` if the model has predicted it.
#
# <details><summary>Hint</summary>
#
# ```text
# start with a copy of the prefix: a list
# at most max_new_tokens times:
#     call the function with the whole list       (vocab_size,)
#     the index of the largest probability is the next token, as a plain int
#     append it; if it is eos, stop
# ```
# </details>
# <details><summary>Help: <code>the model reads a list of token ids; it got a Tensor</code></summary>
#
# Keep the tokens in a Python list, as plain numbers: `int(…)` converts a tensor with a single number.
# </details>
# <details><summary>Help: <code>it changes its input `prefix`</code></summary>
#
# `tokens = prefix` only gives the same list a second name. `list(prefix)` copies it.
# </details>


# %% tags=["answer"]
# answer: continue_prefix
def continue_prefix(
    next_token_probabilities: Callable[[list[int]], Tensor], prefix: list[int], eos: int, max_new_tokens: int
) -> list[int]:
    """Continue a prefix by greedy search.

    next_token_probabilities: token ids so far → the probability of each token as the next one, (vocab_size,)
    max_new_tokens: the largest number of tokens to append, eos included
    returns: the prefix and the new tokens, as plain numbers
    """
    ### BEGIN SOLUTION
    tokens = list(prefix)
    for _ in range(max_new_tokens):
        token = int(next_token_probabilities(tokens).argmax())
        tokens.append(token)
        if token == eos:
            break
    return tokens
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("continue_prefix", continue_prefix)

# %% [markdown]
# ## 6 · The length of the path
#
# ★★☆ · 10 minutes · §4
#
# In *the dogs that we saw there were tired*, the form of *were* depends on *dogs*, five words earlier. How many steps does this information take to get there?
#
# - A **recurrent** layer passes it on from each word to the next.
# - In a stack of **convolutional** layers of width $k$ (an odd number), each layer combines a position with its neighbours: the same number on each side, $k$ positions in all. How many layers does it take?
# - In **self-attention**, each position attends to all others directly.
#
# The paper compares the longest paths among $n$ words, up to constant factors: $n$, $n/k$ and 1 (§4; its Table 1 has $\log_k n$ for convolutions
# that leave gaps). Compute them exactly, for two words at a given distance. (The chapter doesn't cover
# this: all that you need is here.)
#
# <details><summary>Hint</summary>
#
# ```text
# draw it: five arrows lead from dogs to were, one word at a time
# with k = 3, a layer sees 1 position on either side; with k = 5, it sees 2
# the last layer may reach further than it needs to, but there are no half layers
# ```
# </details>
# <details><summary>Help: <code>it returns one value, but should return 3: recurrent, convolutional, attention</code></summary>
#
# A function returns three results as `return recurrent, convolutional, attention`.
# </details>
# <details><summary>Help: <code>'float' object cannot be interpreted as an integer</code></summary>
#
# `/` always returns a float. `//` divides integers and rounds down, and `math.ceil` rounds up to an integer.
# </details>


# %% tags=["answer"]
# answer: path_lengths
def path_lengths(distance: int, k: int) -> tuple[int, int, int]:
    """Return the number of steps between two words in three kinds of layers.

    distance: the number of words from the first to the second; 1 if they are neighbours
    k: the width of the convolutions, an odd number of at least 3
    returns: recurrent steps, convolutional layers, self-attention layers
    """
    ### BEGIN SOLUTION
    reach = k // 2  # on either side
    return distance, math.ceil(distance / reach), 1
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("path_lengths", path_lengths)

# %% [markdown]
# ## Translate with your own search
#
# `given.continue_prefix` is your own function once its check shows ✓, and the course's until then. Here it translates with the
# model of the chapter, first freely and then from a forced first word. Try other sentences and first words.

# %% tags=["nbval-skip"]
import transformer

translator = transformer.load("multi30k", device="cpu")
model, tokenizer = translator.model, translator.tokenizer

with torch.no_grad():
    memory, memory_mask = model.encode(torch.tensor([translator.encode("A dog runs across the field.")]))


@torch.no_grad()
def next_token_probabilities(prefix):
    x = model.decode(torch.tensor([prefix]), memory, memory_mask)
    return model.logits(x[0, -1]).softmax(dim=-1)


for first in ("", "Zwei", "Auf"):
    tokens = given.continue_prefix(next_token_probabilities, [BOS, *tokenizer.encode(first)], EOS, max_new_tokens=40)
    print(tokenizer.decode(tokens))

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade translation` in a terminal
# does the same.
#
# Then open [`transformer/translator.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/translator.py), which does all this for many sentences at once.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
