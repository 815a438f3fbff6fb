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
# # Exercises: decoding
#
# Seven blanks, from greedy search to a complete beam search with a length penalty (§6.1 of the paper), and a search for
# a whole batch with bugs to find. The models here are toys: a few probabilities in
# a table, so you can follow every search by hand. A model is a function that reads **the token ids so far**, a list that starts with bos, and returns
# the natural **log-probabilities** of the next token, one for each token of the
# vocabulary.
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
from collections.abc import Callable

import torch
from torch import Tensor

from exercises.checks.decoding import check, given, toy_model

torch.set_printoptions(precision=2, sci_mode=False)

Model = Callable[[list[int]], Tensor]  # token ids → (vocab_size,)
BatchModel = Callable[[Tensor, Tensor], Tensor]  # sources, tokens → (batch, vocab_size)

# %% [markdown]
# ## 1 · Greedy search
#
# ★☆☆ · 10 minutes · §3
#
# Append the most probable token to the tokens so far, and repeat. Stop when it is eos. Some models never generate an eos, so also
# stop when the sentence has `limit` tokens.
#
# The sentence is what comes between bos and eos; neither is part of it. (You wrote such a search in the first notebook, where the result
# included the prefix and eos.)
#
# <details><summary>Hint</summary>
#
# ```text
# start with a list that contains bos
# as long as there are fewer than limit tokens after bos:
#     call the model with the whole list      (vocab_size,)
#     the index of the largest number is the token, as a plain int
#     if it is eos: stop; otherwise append it
# return what comes after bos
# ```
# </details>
# <details><summary>Help: <code>the model reads a list of token ids; it got a Tensor</code></summary>
#
# These toys take Python lists. Keep the tokens in a list, as plain numbers: `int(…)` converts a tensor with a single number.
# </details>
# <details><summary>Help: <code>the model reads a list of token ids; it got a NoneType</code>, or <code>object of type 'NoneType' has no len()</code></summary>
#
# `append` changes the list and returns nothing. With `tokens = tokens.append(…)` you lose the list.
# </details>
# <details><summary>Help: <code>only one element tensors can be converted to Python scalars</code> (or <code>a Tensor with 6 elements cannot be converted to Scalar</code>)</summary>
#
# The model returns one number for every token of the vocabulary. You need the index of the largest one.
# </details>


# %% tags=["answer"]
# answer: greedy_search
def greedy_search(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    """The most probable token, again and again.

    model: token ids, a list that begins with bos → log-probabilities of the next, (vocab_size,)
    limit: the largest number of tokens in a sentence
    returns: token ids, plain numbers, without bos and eos
    """
    ### BEGIN SOLUTION
    tokens = [bos]
    while len(tokens) <= limit:
        token = int(model(tokens).argmax())
        if token == eos:
            break
        tokens.append(token)
    return tokens[1:]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("greedy_search", greedy_search)

# %% [markdown]
# ## 2 · Length normalisation
#
# ★☆☆ · 5 minutes · §6.1
#
# A log-probability falls with every token, so a short translation has an advantage. To compensate for it, divide by
#
# $$\left(\frac{5 + \text{length}}{6}\right)^{\alpha}$$
#
# which is 1 for a single token and grows with the length; with $\alpha = 0$ it has no effect. The paper sets $\alpha = 0.6$. In code, $\alpha$ is called `length_penalty`.
#
# <details><summary>Hint</summary>
#
# ```text
# the fraction first, with its numerator in parentheses
# then the whole fraction to the power of length_penalty
# ```
# </details>
# <details><summary>Help: <code>unsupported operand type(s) for ^: 'float' and 'float'</code></summary>
#
# In Python, `^` is an operation on bits. A power is written `**`.
# </details>


# %% tags=["answer"]
# answer: length_normalization
def length_normalization(length: int, length_penalty: float) -> float:
    """What a log-probability is divided by.

    length: tokens of the hypothesis
    length_penalty: the exponent α, 0 or more
    """
    ### BEGIN SOLUTION
    return ((5 + length) / 6) ** length_penalty
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("length_normalization", length_normalization)

# %% [markdown]
# ## 3 · The best extensions
#
# ★★☆ · 15 minutes · §6.1
#
# This is the heart of beam search. There are a few prefixes, the beams, each with its log-probability. Each can be extended by every
# token of the vocabulary. Find the `count` best of all these extensions, whichever beam they come from. Return their log-probabilities
# (`values`), the beam that each extends (its *parent*), and the token that it adds. No two of them are equally probable.
#
# <details><summary>Hint</summary>
#
# ```text
# score of each pair: the beam's score plus the log-probability of the token      (beam_size, vocab_size)
# flatten this table                                                              (beam_size · vocab_size,)
# the count largest entries: their values and their indices
# an index gives beam and token: the number of whole rows before it, and the position within its row
# ```
# </details>
# <details><summary>Help: <code>The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1</code></summary>
#
# A vector is aligned with the last dimension of a table, so you are adding one number to each column. Each row should get one:
# make the scores a column, (beam_size, 1).
# </details>
# <details><summary>Help: <code>selected index k out of range</code></summary>
#
# `topk` searches each row of a table separately, and a row may be shorter than `count`. All rows should compete in one list.
# </details>


# %% tags=["answer"]
# answer: best_extensions
def best_extensions(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The most probable hypotheses that are one token longer.

    scores: (beam_size,), the log-probability of each prefix
    log_probs: (beam_size, vocab_size), of the next token after each
    returns: values, parents, tokens: each (count,), the best first; parents and tokens int64
    """
    ### BEGIN SOLUTION
    values, indices = (scores[:, None] + log_probs).flatten().topk(count)
    vocab_size = log_probs.size(1)
    return values, indices // vocab_size, indices % vocab_size
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("best_extensions", best_extensions)

# %% [markdown]
# ## 4 · Finished and active candidates
#
# ★★☆ · 10 minutes · §6.1
#
# A step considers twice as many candidates as there are beams, best first. Some of them end with eos. What happens to each?
#
# - An eos among the best `beam_size` candidates **finishes** its hypothesis, which goes to the results.
# - An eos further down is dropped. It wouldn't have been kept as a beam either.
# - Of all others, the best `beam_size` stay **active**: the search continues from them. So the beam stays as wide as it was, however many have finished.
#
# Return two lists of indices into `tokens`.
#
# <details><summary>Hint</summary>
#
# ```text
# go through the tokens with their indices (Python: enumerate)
# eos, and the index is less than beam_size:    finished
# not eos, and fewer than beam_size so far:     active
# ```
# </details>
# <details><summary>Help: <code>'bool' object has no attribute 'nonzero'</code></summary>
#
# `tokens` is a list here, and `tokens == eos` compares the whole list with a number. Go through it entry by entry.
# </details>
# <details><summary>Help: <code>it returns one value, but should return 2: finished, active</code></summary>
#
# A function returns two results as `return finished, active`.
# </details>


# %% tags=["answer"]
# answer: finished_and_active
def finished_and_active(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    """Sort the candidates of a step.

    tokens: the newest token of each candidate, best candidate first; 2 · beam_size of them
    returns: finished, the indices of those that end here, and active, of those that continue, both best first
    """
    ### BEGIN SOLUTION
    finished = [index for index, token in enumerate(tokens[:beam_size]) if token == eos]
    active = [index for index, token in enumerate(tokens) if token != eos]
    return finished, active[:beam_size]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("finished_and_active", finished_and_active)

# %% [markdown]
# ## 5 · The n best
#
# ★★☆ · 10 minutes · §6.1
#
# The search is over, and there are hypotheses of different lengths. Rank them by their **normalised score**, the log-probability
# divided by the length normalisation of blank 2, and return the `n` best sentences.
#
# One thing is easy to get wrong: how long is a hypothesis? Count the tokens that the model generated. It generated eos; bos was
# given. You may use `given.length_normalization`: it is your own function once the check above shows ✓, and the course's until then.
#
# <details><summary>Hint</summary>
#
# ```text
# score: the log-probability / the normalisation for the length (all tokens except bos)
# sort by it; scores are negative, and the largest is the best
# keep n; leave out the first and the last token of each
# ```
# </details>
# <details><summary>Help: <code>bad operand type for unary -: 'tuple'</code></summary>
#
# The key function of `sorted` gets a whole hypothesis, a pair. Extract the log-probability first.
# </details>
# <details><summary>Help: <code>'float' object is not callable</code></summary>
#
# `key=` expects a function, not a score: `sorted` calls it once for each hypothesis, as in `key=lambda hypothesis: …`.
# </details>


# %% tags=["answer"]
# answer: n_best
def n_best(hypotheses: list[tuple[float, list[int]]], length_penalty: float, n: int) -> list[list[int]]:
    """The best sentences, best first.

    hypotheses: for each, its log-probability and its token ids, which start with bos and end with eos
    length_penalty: exponent of the length normalisation
    returns: the token ids of the n best, without bos and eos
    """

    ### BEGIN SOLUTION
    def score(hypothesis: tuple[float, list[int]]) -> float:
        log_probability, tokens = hypothesis
        return log_probability / given.length_normalization(len(tokens) - 1, length_penalty)

    ranked = sorted(hypotheses, key=score, reverse=True)
    return [tokens[1:-1] for _, tokens in ranked[:n]]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("n_best", n_best)

# %% [markdown]
# ## 6 · Beam search
#
# ★★★ · 25 minutes · §6.1
#
# Put it all together, for one sentence. At first there is **one** prefix, bos, with log-probability 0. In each step all prefixes are
# extended, and the candidates are sorted into finished and active ones. Take exactly `steps` steps, however many hypotheses have
# finished. Of all finished hypotheses, return the best by normalised score. A prefix without eos after the last step doesn't count.
#
# You can use `given.best_extensions`, `given.finished_and_active` and `given.n_best`. In every check, at least one hypothesis finishes within
# `steps` steps, and the vocabulary has at least 2 · beam_size tokens.
#
# <details><summary>Hint</summary>
#
# ```text
# active: one pair (0, [bos]);  finished: none
# steps times:
#     scores: of the active ones                               (active,)
#     log_probs: call the model for each, one row each         (active, vocab_size)
#     the 2 · beam_size best extensions
#     candidates: pairs of a value and the parent's tokens with the new token appended
#     sort them: some are finished, some are the new prefixes
# the best one of the finished
# ```
# </details>
# <details><summary>Help: <code>stack expects a non-empty TensorList</code></summary>
#
# There is no prefix left. Did you look at 2 · beam_size candidates? Then at least one always continues. Or did you
# extend the parent's tokens with `append` or `+=`? Both change that list, which its other extensions share. Make a new one:
# `[*tokens, token]`.
# </details>
# <details><summary>Help: <code>list indices must be integers or slices, not float</code></summary>
#
# There is a score where a parent should be: `best_extensions` returns values, parents and tokens, in this order.
# </details>
# <details><summary>Help: <code>the result has 1 entry, but should have 2</code></summary>
#
# `n_best` returns a list of sentences, even if there is only one in it. The result here is that one sentence.
# </details>


# %% tags=["answer"]
# answer: beam_search
def beam_search(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    """The best sentence that a beam of this width finds.

    model: token ids, a list that begins with bos → log-probabilities of the next, (vocab_size,)
    beam_size: number of prefixes that are kept
    length_penalty: exponent of the length normalisation
    steps: tokens of the longest hypothesis, eos included
    returns: token ids, without bos and eos
    """
    ### BEGIN SOLUTION
    active, finished = [(0.0, [bos])], []
    for _ in range(steps):
        scores = torch.tensor([score for score, _ in active])
        log_probs = torch.stack([model(tokens) for _, tokens in active])
        extensions = given.best_extensions(scores, log_probs, 2 * beam_size)
        candidates = [
            (value, [*active[parent][1], token])
            for value, parent, token in zip(*(column.tolist() for column in extensions), strict=True)
        ]
        done, continuing = given.finished_and_active([tokens[-1] for _, tokens in candidates], eos, beam_size)
        finished += [candidates[index] for index in done]
        active = [candidates[index] for index in continuing]
    return given.n_best(finished, length_penalty, 1)[0]
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("beam_search", beam_search)

# %% [markdown]
# ## 7 · Find the bugs
#
# ★★★ · 20 minutes · §6.1
#
# In practice, a whole batch of sentences is translated at once. They end at different steps, so each row of the result is filled with pad after its eos. The code below is greedy search for a batch. Its
# model reads the source sentences, and a tensor with the tokens so far, a row for each sentence. The search also returns the score of each translation, the sum of the log-probabilities of its
# tokens, eos included. For a single sentence, both results are right. For several, they often aren't: the code has **three bugs**, and none of them raises an error. Delete
# the line that says *not done yet*, repair the code, and run the check after each repair: it counts the bugs that are left. Each bug is in a different line, and changing that line is enough. (When one is repaired, the results may look worse, because another one comes to light.)
#
# Call the function on batches for which you know something about the result, and see whether it is true.
# `toy_model` is made for this. Its sources are just numbers: source n is translated with n tokens and eos, each with probability 0.5, so each adds log 0.5 = -0.69 to the score. Source 0 ends at once, and source 99 reaches
# any limit up to 99. The tokens are 0 for eos, 1 for bos, 2 for pad, and three words. The next cell shows the probabilities of the first token for sources 5 and 0. To translate both:
#
# ```python
# greedy_batch(toy_model, torch.tensor([5, 0]), bos=1, eos=0, pad=2, limit=8)
# ```
#
# <details><summary>Hint</summary>
#
# ```text
# sources 5 and 2, then 2 and 5: does each keep its translation?
# sources 5 and 0: what should follow the eos of source 0, up to the end of its row?
# source 2 alone, then in a batch after source 5: how many log-probabilities should its score add up?
# ```
# </details>
# <details><summary>Help: <code>Boolean value of Tensor with more than one value is ambiguous</code></summary>
#
# `ended` has an entry for each sentence, but `while`, `and`, `or` and `not` need a single truth value: `all()` and `any()` make one of many. To combine two tensors entry by entry, write `|` for
# *or* and `&` for *and*, with parentheses around each comparison.
# </details>
# <details><summary>Help: <code>The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0</code></summary>
#
# One of the tensors doesn't have an entry for each sentence of the batch: an index such as `[~ended]` leaves entries out. Keep all of them, and replace those that shouldn't count.
# </details>

# %%
toy_model(torch.tensor([5, 0]), torch.tensor([[1], [1]])).exp()


# %% tags=["answer"]
# answer: greedy_batch
def greedy_batch(model: BatchModel, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
    """Greedy search for a whole batch.

    model: sources, and the tokens so far, (batch, length) → log-probabilities of the next, (batch, vocab_size)
    sources: a number for each sentence, (batch,)
    limit: the largest number of tokens in a translation, eos included
    returns: tokens, (batch, longest): each translation without bos but with eos, and then pad
             scores, (batch,): the log-probability of each translation, eos included
    """
    ### BEGIN SOLUTION
    tokens = torch.full((len(sources), 1), bos)
    scores = torch.zeros(len(sources))
    ended = torch.zeros(len(sources), dtype=torch.bool)
    while tokens.size(1) <= limit and not ended.all():  # until all have ended, not only the first
        log_probs = model(sources, tokens)  # (batch, vocab_size)
        values, newest = log_probs.max(dim=-1)  # (batch,) each
        scores = scores + values.masked_fill(ended, 0)  # padding has no log-probability
        newest = newest.masked_fill(ended, pad)
        tokens = torch.cat([tokens, newest[:, None]], dim=1)
        ended = ended | (newest == eos)  # what has ended stays so, although its newest token is pad
    return tokens[:, 1:], scores
    ### END SOLUTION


# %% tags=["nbval-check-output"]
check("greedy_batch", greedy_batch)

# %% [markdown]
# ## Your beam search, with a real model
#
# This part isn't graded. Here your beam search gets a model that was trained to translate, `pocket-small`. Does it find what the
# package finds?

# %% tags=["nbval-skip"]
import transformer
from transformer.data.tokenizer import BOS, EOS

translator = transformer.load("pocket-small", device="cpu")
sentence = "The old woman says that the dog does not sleep because it is too warm."
with torch.no_grad():
    memory, memory_mask = translator.model.encode(torch.tensor([translator.encode(sentence)]))


@torch.no_grad()
def trained_model(tokens: list[int]) -> Tensor:
    """Return the log-probabilities of the token after these."""
    x = translator.model.decode(torch.tensor([tokens]), memory, memory_mask)
    return translator.model.logits(x[0, -1]).log_softmax(dim=-1)


yours = given.beam_search(trained_model, BOS, EOS, 4, 0.6, 40)
print("yours      ", translator.tokenizer.decode(yours))
print("the package", translator.beam_search([sentence])[0][0].text)

# %% [markdown]
# ## Done?
#
# Run the cell below to have the notebook graded; in Jupyter, save it first. On your own machine, `python -m exercises grade decoding` in a terminal
# does the same.
#
# Then open [`transformer/decoding.py`](https://github.com/transformer-course/transformer-course/blob/main/transformer/decoding.py). It does the same for a whole batch at once, keeps keys and values in a cache, and stops early when it can.

# %% tags=["skip-execution", "nbval-skip"]
from exercises.current_notebook import grade_this_notebook

grade_this_notebook()
