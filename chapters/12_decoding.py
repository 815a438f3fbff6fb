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
# # Decoding: greedy, beam search, sampling and the KV cache
#
# **You will be able to**
#
# - say why the most probable words do not make the most probable sentence, and show it on a real one;
# - write beam search in fifteen lines, and read the tree of a search, every candidate with its score;
# - explain what the length penalty repairs, and what a wider beam gains and what it does not;
# - count what the key/value cache saves.
#
# **About 40 minutes.** It builds on [Translating a sentence](01_translation.ipynb) and, for the cache, on
# [Attention](02_attention.ipynb) and [Masking](04_masking.ipynb).

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
import time

import torch
from torch.testing import assert_close

import transformer
from transformer.plots.style import Picture, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The question
#
# A trained decoder gives a probability to every next word. **Greedy search** takes the most probable one, then asks again. That
# sounds like the way to the most probable sentence. It is not.
#
# A word that is best *now* can lead to a place from which nothing good follows, and what was said cannot be taken back. So **how do we find a
# good sentence, when we can only ever ask for the next word?**

# %% [markdown]
# ## By hand
#
# A toy decoder that says two words before it ends, and has three to choose from each time. These are its probabilities for the first word, and for the second after each first:

# %%
first = {"the": 0.5, "a": 0.4, "dogs": 0.1}
second = {
    "the": {"dog": 0.4, "dogs": 0.35, "cat": 0.25},
    "a": {"dog": 0.9, "dogs": 0.02, "cat": 0.08},
    "dogs": {"dog": 0.1, "dogs": 0.1, "cat": 0.8},
}

# %% [markdown]
# A sentence's probability is the product of its words' (each given those before). There are only nine sentences, so we can look at all:

# %%
every = {(a, b): first[a] * second[a][b] for a in first for b in second[a]}
for sentence, probability in sorted(every.items(), key=lambda item: -item[1])[:4]:
    print(f"{' '.join(sentence):10} {probability:.3f}")

# %% [markdown]
# Greedy search starts with *the*, the most probable first word, and cannot reach the best sentence any more:

# %%
greedy_first = max(first, key=first.get)
greedy_second = max(second[greedy_first], key=second[greedy_first].get)
best = max(every, key=every.get)
assert (greedy_first, greedy_second) != best
print(
    f"greedy: {greedy_first} {greedy_second} {every[greedy_first, greedy_second]:.2f}"
)
print(f"best:   {' '.join(best)} {every[best]:.2f}")

# %% [markdown]
# To look at all sentences is no way out. With a vocabulary of 4,000 pieces and ten steps there are this many:

# %%
f"{4000**10:.0e}"

# %% [markdown]
# **Beam search** is the compromise. Keep not one beginning but the $k$ best, go on from all of them, and of everything that comes of it keep the $k$ best again. With
# $k = 2$ the toy's *a* survives its second place, and wins:

# %%
beams = sorted(first.items(), key=lambda item: -item[1])[:2]
longer = [((a, b), p * second[a][b]) for a, p in beams for b in second[a]]
longer.sort(key=lambda item: -item[1])
assert longer[0][0] == best
[" ".join(words) for words, _ in longer[:2]]

# %% [markdown]
# One change before we take a real model. Products of many probabilities soon are too small for a float, so we add **logarithms** instead: the
# order stays the same, and a sentence's score is a negative number that falls with every word.

# %%
print(f"{torch.tensor([0.05] * 40).prod():.0e} as a product")
print(f"{torch.tensor([0.05] * 40).log().sum():.1f} as a sum of logarithms")

# %% [markdown]
# ## A real sentence
#
# The model of the photographs' captions from chapter 1. For any translation that we propose, one pass gives the probability of each of its pieces: the sum
# of their logarithms says how probable the model finds the whole. `ids` makes a batch of token ids where the model is: on the GPU, if this machine has one.

# %%
from transformer.data.tokenizer import BOS, EOS

translator = transformer.load("multi30k", precision="fp32")
model, tokenizer = translator.model, translator.tokenizer


def ids(*rows):
    return torch.tensor(rows, device=translator.device.torch_device)


@torch.no_grad()
def log_probability(source, tokens):
    target = ids([BOS, *tokens, EOS])
    log_probs = model(source, target[:, :-1]).log_softmax(dim=-1)
    return float(log_probs.gather(2, target[:, 1:, None]).sum())


# %% [markdown]
# Here is a handful of captions. For each we let the package search greedily and with a beam of 4, and keep those for which the beam has found something that
# the model itself finds more probable.

# %%
captions = [
    "A man in a blue shirt is standing on a ladder.",
    "A young boy is kicking a soccer ball.",
    "Three men are working on a roof.",
    "A brown dog runs across the green grass.",
    "People are walking along the beach.",
    "A chef is preparing food in a kitchen.",
    "A young woman is talking on her cellphone.",
    "A child is climbing a tree.",
    "A dog with a stick in its mouth is swimming in a lake.",
    "A crowd is watching a man on a motorcycle.",
    "An older woman is knitting in front of her house.",
    "An old man feeds the pigeons in front of a church.",
]

# %%
from transformer.decoding import beam_search, greedy_search

better = []
for caption in captions:
    source = ids(translator.encode(caption))
    (by_greedy,) = greedy_search(model, source)
    ((by_beam,),) = beam_search(model, source, beam_size=4, length_penalty=0)
    gain = by_beam.log_probability - log_probability(source, by_greedy)
    if by_beam.tokens != by_greedy:
        better.append((gain, caption, by_greedy, by_beam.tokens))
assert all(gain > 0 for gain, *_ in better), "what it finds is more probable"
print(f"{len(better)} of {len(captions)} captions")

# %%
gain, caption, by_greedy, by_beam = max(better)
source = ids(translator.encode(caption))
print(caption)
for name, tokens in (("greedy", by_greedy), ("beam 4", by_beam)):
    print(
        f"{name} {log_probability(source, tokens):6.2f} {tokenizer.decode(tokens)}"
    )

# %% [markdown]
# Where they part, greedy search took the piece that was the more probable then, and paid for it later.

# %%
fork = next(
    i for i, (a, b) in enumerate(zip(by_greedy, by_beam, strict=False)) if a != b
)
target = ids([BOS, *by_greedy[:fork]])
with torch.no_grad():
    there = model(source, target)[0, -1].softmax(dim=-1)
print("so far:", tokenizer.decode(by_greedy[:fork]) or "nothing")
for token in (by_greedy[fork], by_beam[fork]):
    print(f"{tokenizer.pieces([token])[0]:12} {there[token]:.2f}")
assert there[by_greedy[fork]] >= there[by_beam[fork]]

# %% [markdown]
# ## The code
#
# The whole of beam search, for one sentence, without a cache, in its plainest form. A hypothesis is a log-probability and its tokens. The best $2k$ candidates are
# enough to look at: at most $k$ of them end, so at least $k$ go on.


# %%
@torch.no_grad()
def beam_by_hand(source, k, steps=60):
    memory, memory_mask = model.encode(source)
    living, finished = [(0.0, [BOS])], []
    for _ in range(steps):
        candidates = []
        for score, tokens in living:
            states = model.decode(ids(tokens), memory, memory_mask)
            log_probs = model.logits(states[0, -1]).log_softmax(dim=-1)
            values, pieces = log_probs.topk(2 * k)
            for value, token in zip(values.tolist(), pieces.tolist(), strict=True):
                candidates.append((score + value, [*tokens, token]))
        best = sorted(candidates, reverse=True)[: 2 * k]
        finished += [c for c in best[:k] if c[1][-1] == EOS]
        living = [c for c in best if c[1][-1] != EOS][:k]
    return sorted(finished, reverse=True)


# %% [markdown]
# The package's does the same for a whole batch on a GPU, with a cache, and stops as early as it can know that nothing better will come. Same tokens,
# same probability:

# %%
found = beam_by_hand(source, k=4, steps=30)[0]
((packaged,),) = beam_search(model, source, beam_size=4, length_penalty=0)
assert found[1][1:-1] == packaged.tokens
assert_close(found[0], packaged.log_probability, atol=1e-3, rtol=1e-3)
tokenizer.decode(packaged.tokens)

# %%
SourceCode(beam_search)

# %% [markdown]
# ## The picture
#
# This is the whole search for the caption above, with three beams, from top to bottom. Each row is a step; its six best candidates stand from left to right, the best on the left.
# Blue ones were kept, gray ones dropped, green ones have ended. **Point at a candidate** to read its words and its score. The thick line is the way of the winner. Does it
# always run on the left?

# %% tags=["hide-input"]
from transformer.plots.beam_tree import beam_tree, candidate_table

trace = []
beam_search(model, source, beam_size=3, trace=trace)
table = candidate_table(trace, tokenizer.pieces(range(len(tokenizer))))
beam_tree(
    table,
    description=(
        "The tree of a beam search with three beams. Rows are steps, six "
        "candidates each, ordered by their score; lines lead from each candidate "
        "to those that go on from it. Kept ones are blue, dropped ones gray, "
        "finished ones green; a thick line marks the winner's way. Pointing at a "
        "candidate reads out its words, log-probability and score. The finished "
        "ones are printed as a table below."
    ),
)

# %%
ended = table[table["fate"] == "finished"].sort_values("score", ascending=False)
for row in ended.itertuples():
    print(
        f"score {row.score:6.3f}   log-probability {row.log_probability:6.2f}   {row.text}"
    )
winner = table[table["winner"]]
assert len(ended) and winner.iloc[-1]["score"] == ended["score"].max()

# %% [markdown]
# ## The length penalty
#
# Each word costs: a log-probability is never positive. So of two translations the shorter one has an unfair advantage, and the wider the beam, the surer it finds a
# translation that is too short. The remedy is to divide by something that grows with the length, the **length penalty** (§6.1):
#
# $$ \mathrm{score} = \frac{\log P(Y \mid X)}{\big(\tfrac{5 + |Y|}{6}\big)^{\alpha}} $$
#
# With $\alpha = 0$ nothing is changed; with $\alpha = 1$ a long translation is divided by about a sixth of its length, so that translations are ordered nearly by their mean log-probability of a piece. The paper takes 0.6.

# %%
from transformer.decoding import length_normalisation

for length in (1, 5, 10, 20, 40):
    print(
        length,
        [round(length_normalisation(length, alpha), 2) for alpha in (0, 0.6, 1)],
    )

# %% [markdown]
# Two hypotheses of different length, by hand. Without the penalty the short one wins, with it the long one, which is better word by word:

# %%
short, long = (-4.0, 5), (-4.8, 9)  # log-probability, length
for alpha in (0, 0.6):
    a, b = (value / length_normalisation(n, alpha) for value, n in (short, long))
    print(f"alpha {alpha}: short {a:.2f}, long {b:.2f}")
    assert (a > b) == (alpha == 0)

# %% [markdown]
# **Turn it yourself.** These are the eight best translations that a beam of 8 finds for *A man with a beard is looking at a painting.* The slider is $\alpha$: watch who is on top.

# %% tags=["hide-input"]
from transformer.plots.reranking import reranking

bearded = "A man with a beard is looking at a painting."
((*hypotheses,),) = beam_search(
    model, ids(translator.encode(bearded)), beam_size=8, length_penalty=0, n_best=8
)
for alpha, words in ((0, "bärtiger Mann"), (2, "Mann mit Bart")):
    best = max(
        hypotheses,
        key=lambda h: (
            h.log_probability / length_normalisation(len(h.tokens) + 1, alpha)
        ),
    )
    assert words in tokenizer.decode(best.tokens)
reranking(
    [tokenizer.decode(h.tokens) for h in hypotheses],
    [h.log_probability for h in hypotheses],
    [len(h.tokens) + 1 for h in hypotheses],
    description=(
        "Eight translations as bars of their score, the best on top. A slider "
        "sets alpha from 0 to 2. At 0 the score is the log-probability; as alpha "
        "grows, longer translations rise. Length and log-probability are shown "
        "when you point at a bar."
    ),
)

# %% [markdown]
# Without a penalty the adjective wins, *ein bärtiger Mann*. With a strong one it is *ein Mann mit Bart*, a word longer. Both are right: α is a question of taste as well.

# %% [markdown]
# ## How wide?
#
# We translate all captions with 1, 2, 4, 8 and 16 beams. Even two beams find translations that the model finds more probable than the greedy ones.
# For captions as short as these, more beams find hardly anything else, and take longer. Four is where most people stop; so does the paper (§6.1).

# %%
sources = [ids(translator.encode(caption)) for caption in captions]
widths, means = (1, 2, 4, 8, 16), []
for width in widths:
    start = time.perf_counter()
    found = [
        beam_search(model, source, width, length_penalty=0)[0][0]
        for source in sources
    ]
    seconds = time.perf_counter() - start
    means.append(sum(h.log_probability for h in found) / len(found))
    length = sum(len(h.tokens) for h in found) / len(found)
    print(
        f"beam {width:2}   log-probability {means[-1]:.3f}   pieces {length:.1f}   {seconds:.1f} s"
    )
assert means[-1] > means[0]

# %% tags=["hide-input"]
from transformer.plots.curves import curves

Picture(
    curves(
        widths,
        {"the found translation": [-mean for mean in means]},
        "beams",
        "Mean of −log P, lower is more probable",
        log2_x=True,
    ),
    alt=(
        "Mean negative log-probability of the translations found, against the "
        "number of beams from 1 to 16. It falls from 1 to 2 beams and is nearly "
        "level after that."
    ),
)

# %% [markdown]
# More probable is not the same as better. The most probable *sentence* of a translator can be a poor one, even the empty one, and very wide beams find it
# {cite}`koehn2017,stahlberg2019`. Whether a wider beam makes better *translations* has to be measured against people's, on a test set: see the
# [results](../book/results.md).

# %% [markdown]
# ## What the cache saves
#
# Our beam by hand is slow. At each step it runs the decoder over everything said so far, although only the last place is new: because of the mask of
# [chapter 4](04_masking.ipynb), what earlier places compute can never change. So their keys and values can be kept. That is the **key/value cache**.
# To say $n$ words, the decoder then computes $n$ places instead of $1 + 2 + \dots + n$; each of them still looks at all before it:

# %%
for n in (10, 20, 40, 80):
    print(f"{n:3} words: {n:3} places with a cache, {n * (n + 1) // 2:5} without")

# %% [markdown]
# The same numbers come out, so it costs nothing but memory: we let both say the caption's translation and compare.


# %%
@torch.no_grad()
def with_cache(source, tokens):
    memory, memory_mask = model.encode(source)
    cache = model.start_cache(memory, memory_mask, max_length=len(tokens))
    logits = [model.decode_step(ids([t]), cache)[0, 0] for t in tokens]
    return torch.stack(logits)


@torch.no_grad()
def without_cache(source, tokens):
    memory, memory_mask = model.encode(source)
    beginnings = [ids(tokens[: n + 1]) for n in range(len(tokens))]
    states = [model.decode(b, memory, memory_mask)[0, -1] for b in beginnings]
    return model.logits(torch.stack(states))


# %%
tokens = [BOS, *packaged.tokens]
# Up to rounding: the sums are made in another order, and on a GPU in yet another.
assert_close(
    with_cache(source, tokens), without_cache(source, tokens), atol=1e-4, rtol=1e-5
)

# %% [markdown]
# On a short caption the gain is small. It shows when the text gets long; here both say one and the same long text. How the times compare on your machine:

# %%
longer = (tokens * 20)[:120]
for search in (without_cache, with_cache):
    search(source, longer[:5])
    start = time.perf_counter()
    search(source, longer).cpu()  # which waits until a GPU is done
    print(f"{search.__name__:14} {time.perf_counter() - start:.2f} s")

# %% [markdown]
# ## What goes wrong in practice
#
# **All beams are the same.** At the first step there is one beginning, not $k$ equal ones. Begin with $k$ copies of `<bos>`, and each candidate stands there $k$ times:
# a beam of 4 does what greedy search does, four times. One line of the package is there for this: at first all scores but the first are $-\infty$.

# %%
copies = [(0.0, [BOS])] * 4
with torch.no_grad():
    log_probs = model(source, ids([BOS]))[0, -1].log_softmax(dim=-1)
token = int(log_probs.argmax())
best = sorted(
    [(s + float(log_probs[token]), token) for s, _ in copies], reverse=True
)
assert len(set(best)) == 1
print(
    "four beams that begin alike:", tokenizer.pieces([token for _, token in best])
)

# %% [markdown]
# **It stops too early.** The first hypothesis that ends need not be the best. One may stop when even the best living one, if it lost nothing more and were as long as
# allowed, could not catch up. This rule is the package's, and costs nothing in quality:

# %%
from transformer.decoding import _is_done

SourceCode(_is_done)

# %% [markdown]
# **The wrong neighbour's past.** When beams change places, their caches must go with them. Forget it, and a hypothesis goes on with the keys and values of
# another. No error, and the text even looks like German. Here two beams say different words, then change places, and the cache follows or does not:


# %%
@torch.no_grad()
def after_a_change(follow):
    memory, memory_mask = model.encode(source)
    cache = model.start_cache(memory, memory_mask, max_length=3, beams=2)
    model.decode_step(ids([BOS, BOS]), cache)
    model.decode_step(ids([by_beam[0], by_greedy[fork]]), cache)
    if follow:
        cache.reorder(ids([1, 0]))
    return model.decode_step(ids([by_beam[1]] * 2), cache)[0, 0]


right = without_cache(source, [BOS, by_greedy[fork], by_beam[1]])[-1]
assert_close(after_a_change(follow=True), right, atol=1e-4, rtol=1e-5)
print(f"largest error: {(after_a_change(follow=False) - right).abs().max():.1f}")

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. A beam of 4 gives the same translation as greedy search. What follows?**
#
# <details><summary>A. It is the most probable translation of all</summary>
#
# No. It is the best that four beams came across. A fifth beginning might have led further.
#
# </details>
# <details><summary>B. The greedy translation survived among four at every step, and none that was found is better</summary>
#
# **Right.** That, and no more.
#
# </details>
# <details><summary>C. All four beams are equal</summary>
#
# No. They differ in at least one token, always; only the best of them equals the greedy one.
#
# </details>
#
# **2. What happens to the translations when $\alpha$ grows from 0.6 to 2?**
#
# <details><summary>A. They get longer</summary>
#
# **Right.** The longer one is divided by more, which lifts its negative score towards zero.
#
# </details>
# <details><summary>B. They get shorter</summary>
#
# No. That is what happens towards 0.
#
# </details>
# <details><summary>C. Nothing: the order of candidates within a step is the same for each α</summary>
#
# The second half is true: within a step all have one length. But a finished hypothesis is compared with others that are longer or shorter, and there it counts.
#
# </details>
#
# **3. Why does the search look at $2k$ candidates and not at $k$?**
#
# <details><summary>Answer</summary>
#
# Up to $k$ of the best may be `<eos>`, one from each beam. They leave. With $2k$ candidates there are still $k$ to go on with.
#
# </details>
#
# **4. A cache for 64 sentences, beam 4, 6 layers, d_model 512, 100 steps, in float32: how large?**
#
# <details><summary>Answer</summary>
#
# A key and a value of 512 numbers each, 4 bytes a number, for 64 · 4 · 100 places in 6 layers: 2 · 512 · 4 · 25,600 · 6 bytes, about 630 MB. Not nothing; it is why long
# texts and large batches need other tricks.
#
# </details>

# %%
assert round(2 * 512 * 4 * 64 * 4 * 100 * 6 / 1e6) == 629

# %% [markdown]
# ## Exercises
#
# Six blanks: greedy search, the length penalty, one step of the beam, who ends and who lives on, the ranking, and then the whole search. Each has a check
# that says what is wrong, and a hint.
#
# - In Colab:
#   [12_decoding](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/12_decoding.ipynb).
#   On GitHub: [12_decoding.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/12_decoding.ipynb).
# - On your machine, open `exercises/12_decoding.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade decoding
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And four experiments:
#
# - Change the toy's probabilities so that even a beam of 2 misses the best sentence. How much worse can it get?
# - Give the tree five beams, and find a candidate that was dropped although its words are better than the winner's.
# - Let `transformer.decoding.sample` write ten captions, with a temperature of 1 and of 0.5. When is chance better than a search?
# - Set $\alpha$ to 3 and translate. What do the longest translations do?
#
# ```bash
# transformer translate multi30k "A chef is preparing food in a kitchen." --beam-size 8 --n-best 8 --length-penalty 0
# ```

# %% [markdown]
# ## Going further
#
# - **In the paper:** beam 4, $\alpha = 0.6$ and the limit of 50 pieces more than the source: §6.1 of {cite}`vaswani2017`. The penalty comes from {cite}`wu2016`, §7.
# - **Wider is not better:** {cite}`koehn2017`, the last of their six challenges. {cite}`stahlberg2019` search exactly, and find that for many sentences the
#   most probable translation is the empty one.
# - **Sampling instead of searching:** {cite}`holtzman2020`, for texts where there is no one right answer.
