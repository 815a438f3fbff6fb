# %% [markdown]
# # Data and batching
#
# Below, 200 sentences are divided into batches in two ways. Each row is a sentence, each block a batch. A model's input is rectangular, so every row is padded to the length of the longest one in its batch, and the model processes this **padding** (orange) like real tokens (blue). On the left, almost half of the work is wasted in this way. How do we get from the left to the right?

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
    print(f"With all figures: {book}/chapters/09_data_and_batching.html")

# %% tags=["hide-input"]
from itertools import chain, count

import numpy as np
import torch

from transformer.config import ModelConfig
from transformer.data import pocket
from transformer.data.tokenizer import Tokenizer
from transformer.model import Transformer
from transformer.models import MODELS_FOLDER
from transformer.plots.batch_padding import (
    batch_explorer,
    batch_padding,
    cut_batches,
    padding_comparison,
    pooled_order,
    sorting_paths,
)
from transformer.plots.curves import curves
from transformer.plots.style import Captioned, Picture, Row, SourceCode

torch.set_printoptions(precision=3, sci_mode=False)

encode = Tokenizer.load(MODELS_FOLDER / "pocket-small" / "tokenizer.model").encode
lengths = np.array([len(encode(p.target)) + 1 for p in pocket.pairs("train", 200)])
by_length = np.argsort(lengths, kind="stable")
Picture(
    padding_comparison(
        lengths,
        {
            "as they come": cut_batches(np.arange(200), lengths, 300),
            "sorted by length": cut_batches(by_length, lengths, 300),
        },
    ),
    alt=(
        "Two columns of seven blocks. On the left, the rows of each block have very "
        "different lengths, and padding fills almost half of the blocks. On the right, "
        "the blocks become longer from top to bottom, the rows in each are almost "
        "equally long, and about a tenth is padding."
    ),
    caption=(
        "The same sentences in unsorted and in sorted batches. Sorting by length "
        "leaves little padding (orange) beside the real tokens (blue)."
    ),
)

# %% [markdown]
# By the end you will be able to turn sentence pairs into padded batches, waste little on padding, explain why batches are shuffled and what their loss means, and clean a parallel corpus.
#
# **About 40 minutes.** The chapter builds on [Masking](04_masking.ipynb) and [Subword tokenization](08_subword_tokenization.ipynb).

# %% tags=["hide-input", "imports"]
import math
from dataclasses import replace
from textwrap import fill

import numpy as np
import torch
from torch.testing import assert_close

import transformer
from transformer.data import pocket
from transformer.data.batching import Sequences, serpentine_order, token_batches

# %% [markdown]
# ## From sentence pairs to a batch
#
# A model learns to translate from **parallel text**: sentences with their translations. [Masking](04_masking.ipynb) introduced teacher forcing: the decoder's input is the correct translation, and at every position it learns to predict the next token. So the target occurs **twice** in the data, once with `<bos>` in front and once with `<eos>` at the end. The second is the first shifted by one position (§3.1). Here, whole words are the tokens:
# %%
from transformer.data.tokenizer import BOS, EOS, PAD

words = "<pad> <bos> <eos> <unk> the duck opens door die Ente öffnet Tür"
vocabulary = words.split()


def to_ids(text):
    return [vocabulary.index(word) for word in text.split()]


# %%
source, target = (
    to_ids("the duck opens the door"),
    to_ids("die Ente öffnet die Tür"),
)
decoder_input = [BOS, *target]
labels = [*target, EOS]
for i, label in enumerate(labels):
    prefix = " ".join(vocabulary[token] for token in decoder_input[: i + 1])
    print(f"{prefix:>30} → {vocabulary[label]}")

# %% [markdown]
# Five words give six predictions; the last is that the sentence ends. The source gets an `<eos>` as well, so that the encoder, too, sees where a sentence ends. Now we add a second, shorter pair, and pad it with `<pad>` to the length of the first:


# %%
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


short_source, short_target = to_ids("the duck"), to_ids("die Ente")
padded_source = pad([[*source, EOS], [*short_source, EOS]])
padded_input = pad([decoder_input, [BOS, *short_target]])
padded_labels = pad([labels, [*short_target, EOS]])
padded_labels  # (batch, target) = (2, 6)

# %% [markdown]
# In the package, `collate` does this. It takes the pairs with the given indices from two `Sequences`. Each of these stores all sentences of one language in a single long array, which needs far less memory than millions of Python lists:

# %%
from transformer.data.batching import collate

batch = collate(
    Sequences.pack([source, short_source]),
    Sequences.pack([target, short_target]),
    [0, 1],
)
assert torch.equal(batch.source, padded_source)
assert torch.equal(batch.decoder_input, padded_input)
assert torch.equal(batch.labels, padded_labels)

# %% tags=["remove-input"]
SourceCode(collate)

# %% [markdown]
# `_gather` copies the sentences into an array filled with `<pad>`, one column wider than the longest sentence, to leave room for `<eos>`. The decoder's input is `<bos>` followed by all target columns but the last.
#
# ### The pocket corpus
#
# Now we need more pairs. For most experiments this course uses a corpus that needs no download, the **pocket corpus**. A small grammar generates the same sentence in both languages at once. The last line below counts its *lemmas*, the dictionary forms of words, and the pairs that it can generate:

# %%
train_pairs = [(p.source, p.target) for p in pocket.pairs("train", 6000)]
test_pairs = [(p.source, p.target) for p in pocket.pairs("test", 500)]
for english, german in test_pairs[11:14]:
    print(fill(english, 48, subsequent_indent="  "))
    print(fill(german, 48, subsequent_indent="  "), end="\n\n")
n_pairs = pocket.language_size()
print(f"{pocket.count_lemmas()} lemmas, more than {n_pairs // 10**6} million pairs")

# %% [markdown]
# In this corpus nearly every English sentence has exactly one translation. That makes it a good laboratory, because almost every deviation from the **reference**, the correct translation, is a mistake. But success on the pocket corpus proves little: unlike real text, it has no typos, hardly any ambiguities and no long sentences.

# %% tags=["remove-cell"]
translations = dict([*train_pairs, *test_pairs])
assert all(translations[s] == t for s, t in [*train_pairs, *test_pairs])

# %% [markdown]
# We also load `pocket-small`, a model that was trained on pairs from this corpus. For now we need only its tokenizer. Two steps turn pairs into a batch: the tokenizer encodes each side, and `collate` pads:

# %%
translator = transformer.load("pocket-small", device="cpu")
model, tokenizer = translator.model, translator.tokenizer
model.eval().requires_grad_(False)


def batch_of(pairs):
    sides = zip(*pairs, strict=True)
    packed = [Sequences.pack(tokenizer.encode_all(side)) for side in sides]
    return collate(*packed, range(len(pairs)))


# %% [markdown]
# ## Batches with little padding
#
# Back to the first figure. Padding nearly disappears if the sentences of a batch have similar lengths, so we sort the corpus before we cut it into batches. This is called **bucketing by length**. Like the paper (§5.1), we limit the number of *tokens* in a batch, not the number of sentences. The paper's batches have about 25,000 tokens on each side. Ours have at most 600 target tokens, including `<eos>`. Counting one side is enough, because long sources usually have long targets:

# %%
sources, targets = (
    Sequences.pack(tokenizer.encode_all(side))
    for side in zip(*train_pairs, strict=True)
)
source_lengths = sources.lengths() + 1  # with eos
target_lengths = targets.lengths() + 1


# %%
def cut(order, max_tokens):
    batches, batch, n_tokens = [], [], 0
    for i in order:
        if batch and n_tokens + target_lengths[i] > max_tokens:
            batches.append(batch)
            batch, n_tokens = [], 0
        batch.append(i)
        n_tokens += target_lengths[i]
    return [*batches, batch]


# %% [markdown]
# But a pair has two sides, and sorting by the target's length leaves sources of very different lengths in a batch. Sorting pairs of equal target length by source length helps, but each time the target length goes up by one, the source length jumps back to its minimum (on the left in the figure below), and a batch that contains such a jump has short and long sources. **Serpentine order** (on the right) avoids the jumps: it groups target lengths into buckets of four, and source lengths ascend in one bucket and descend in the next. Inside a bucket, target lengths go up and down in the same way.

# %% tags=["hide-input"]
shown = np.flatnonzero((target_lengths >= 8) & (target_lengths < 16))[:120]
few_sources, few_targets = source_lengths[shown], target_lengths[shown]
paths = {
    "by target, then source": np.lexsort((few_sources, few_targets)),
    "serpentine": serpentine_order(few_sources, few_targets),
}
Picture(
    sorting_paths(
        few_sources,
        few_targets,
        {
            title: (order, cut_batches(order, few_targets, 200))
            for title, order in paths.items()
        },
    ),
    alt=(
        "Two plots of target length, 8 to 15, against source length. On the left, the "
        "line runs through each target length from left to right, and jumps back to the "
        "left for the next. On the right, it winds up and down from left to right "
        "through target lengths 8 to 11, and then from right to left through 12 to 15."
    ),
    caption=(
        "The lengths of 120 pairs, and two ways to sort them. The line starts at the "
        "ring, and its colour changes with each small batch of 200 tokens."
    ),
)


# %% tags=["remove-cell"]
by_bucket = few_sources[paths["serpentine"]], few_targets[paths["serpentine"]] // 4
for bucket, sign in ((2, 1), (3, -1)):
    assert (sign * np.diff(by_bucket[0][by_bucket[1] == bucket]) >= 0).all()
assert list(by_bucket[1]) == sorted(by_bucket[1])

# %% [markdown]
# The folded cell shows the package's code. Its `shift` moves the borders of the buckets, so a pair shares its batch with different pairs in each **epoch** (pass through the corpus).

# %% tags=["hide-cell"]
SourceCode(serpentine_order)

# %% [markdown]
# How much padding is left? We cut our 6,000 pairs into batches in four orders, and measure the whole corpus:


# %%
def n_positions(lengths, batches):
    return sum(len(batch) * lengths[batch].max() for batch in batches)


def padding(lengths, batches):
    return 1 - lengths.sum() / n_positions(lengths, batches)


# %%
orders = {
    "as they come": range(6000),
    "by target length": np.argsort(target_lengths, kind="stable"),
    "then by source": np.lexsort((source_lengths, target_lengths)),
    "serpentine": serpentine_order(source_lengths, target_lengths),
}

# %%
sides = source_lengths, target_lengths
n_tokens = sum(lengths.sum() for lengths in sides)
batchings = {}
for max_tokens in (600, 2000):
    print(f"batches of {max_tokens:5}  source  target    both")
    for name, order in orders.items():
        batches = batchings[name, max_tokens] = cut(order, max_tokens)
        on_source, on_target = (padding(lengths, batches) for lengths in sides)
        both = 1 - n_tokens / sum(
            n_positions(lengths, batches) for lengths in sides
        )
        print(f"{name:17}{on_source:6.1%}{on_target:8.1%}{both:8.1%}")

# %% tags=["remove-cell"]
share = {
    name: [padding(lengths, batchings[name, 600]) for lengths in sides]
    for name in orders
}
assert min(share["as they come"]) > 0.3 and max(share["serpentine"]) < 0.05
assert share["by target length"][1] < 0.02
assert share["by target length"][0] > 3 * share["then by source"][0]
assert sum(share["then by source"]) > 1.15 * sum(share["serpentine"])
assert max(share["then by source"]) > 1.3 * max(share["serpentine"])
assert sum(share["by target length"]) > 2.5 * sum(share["then by source"])
assert np.corrcoef(source_lengths, target_lengths)[0, 1] > 0.9

# %% [markdown]
# Sorting by both lengths is far better than by target length alone. With 600 tokens, serpentine order is only slightly better still; with 2,000, where batches contain a jump more often, the advantage is larger. In a larger corpus it matters less: of 60,000 pairs in batches of 600 tokens, both orders leave less than 1%. The figure shows typical batches in three of the four orders. Each row is a pair, with the source on the left and the target on the right.


# %% tags=["hide-input"]
def typical(batches):
    """Of the batches with 50 to 70 pairs, the one with the most typical padding."""

    def difference(batch):
        return sum(
            abs(
                padding(lengths[batch], [range(len(batch))])
                - padding(lengths, batches)
            )
            for lengths in (source_lengths, target_lengths)
        )

    return min((b for b in batches if 50 <= len(b) <= 70), key=difference)


pictures = []
for name in ("as they come", "by target length", "serpentine"):
    shown = collate(sources, targets, typical(batchings[name, 600]))
    pictures.append(
        Picture(
            batch_padding(shown, name),
            alt=(
                f"A batch of pairs, {name}: a row for each pair, source on the "
                f"left and target on the right. "
                f"{(shown.source == PAD).float().mean():.0%} of the source's "
                f"cells are padding and {(shown.labels == PAD).float().mean():.0%}"
                " of the target's."
            ),
        )
    )
Row(
    *pictures,
    caption=(
        "One batch in each of three orders, with source tokens in green, target "
        "tokens in blue and padding left empty. In serpentine order, this batch has hardly any padding."
    ),
)

# %% [markdown]
# The package's `token_batches` works this way. It has one safety limit, so that every batch fits into memory: including padding, neither side of a batch may have more than 1.5 · 600 = 900 positions.

# %% tags=["remove-cell"]
packages = {tuple(batch) for batch in token_batches(sources, targets, 600)}
ours = {tuple(batch) for batch in batchings["serpentine", 600]}
assert len(packages & ours) > 0.8 * len(packages)
in_larger_batches = []
for name in ("then by source", "serpentine"):
    total = sum(n_positions(side, batchings[name, 2000]) for side in sides)
    in_larger_batches.append(round(100 * (1 - n_tokens / total), 1))
assert in_larger_batches == [9.4, 7.4], in_larger_batches

# %% [markdown]
# ### Why tokens and not sentences
#
# What if we cut the corpus, sorted by target length, into batches of 64 sentences instead?

# %%
order = orders["by target length"]
full_batches = order[48:].reshape(93, 64)  # without the 48 shortest
by_count = target_lengths[full_batches].sum(axis=1)
by_tokens = [target_lengths[batch].sum() for batch in batchings["serpentine", 600]]
print(f"64 sentences: {by_count.min()} to {by_count.max():,} tokens")
smallest, second, *_ = sorted(by_tokens)
print(
    f"batches by tokens: {second} to {max(by_tokens)},\nexcept one with {smallest}"
)

# %% tags=["remove-cell"]
assert max(by_count) > 4 * min(by_count)
assert max(by_tokens) <= 600 and second > 540

# %% [markdown]
# Memory must be large enough for the largest batch, and much of it would sit unused during most of the others. Also, the gradient of a batch with few tokens is noisier. So measure batch sizes in tokens.
#
# ### In plain PyTorch
#
# Without the course's package, you would give lists of indices to a `DataLoader` as its `batch_sampler`, and a function such as `collate` as its `collate_fn`:

# %%
from torch.utils.data import DataLoader

batches = token_batches(sources, targets, 600)
loader = DataLoader(
    range(len(targets)),
    batch_sampler=batches,
    collate_fn=lambda indices: collate(sources, targets, indices),
)
for batch, indices in zip(loader, batches, strict=True):
    assert torch.equal(batch.labels, collate(sources, targets, indices).labels)
print(len(batches), "batches")

# %% [markdown]
# ### Sorting without all the data
#
# *Optional: no later chapter builds on this section.*
#
# A corpus of billions of sentences doesn't fit into memory, so many programs sort only a **pool** of neighbouring sentences at a time. How large must the pool be? In the chart, choose a pool size and a token budget, the largest number of tokens in a batch. The first panel shows nine sentences of each of six batches. In the second panel, each dot is a batch.
#
# - With a budget of 1,000 tokens, which pools hardly reduce the padding? Why?
# - Set the budget to 250 and the pool to 100. Then make the budget five times as large: what happens to the padding, and which pool size brings it almost back to where it was?
# - With everything sorted, on which curve do the dots lie?

# %% tags=["hide-input"]
Captioned(
    batch_explorer(
        target_lengths[:2000],
        budgets=range(250, 2001, 250),
        pools=(1, 20, 100, 500, 2000),
        start=(1000, 1),
        description=(
            "A slider for the token budget, from 250 to 2000, and a menu for how "
            "many sentences are sorted together, from 1 to all 2000. Six blocks of "
            "blue rows with orange padding, each a batch. A second panel has a dot for "
            "each batch: its longest sentence against its number of sentences. With a "
            "pool of 1 nearly half of the cells are padding; with larger pools the "
            "padding vanishes, and the dots spread out along a falling curve."
        ),
    ),
    "Six batches of sentences (blue) with padding (orange), and a dot for every "
    "batch. Only a pool of many batches removes most of the padding.",
)

# %% tags=["remove-cell"]
few, found = target_lengths[:2000], {}
for budget in (250, 2000):
    for n in (0, 1, 4, 16):
        pool = max(1, round(n * budget / few.mean()))
        found[budget, n] = padding(
            few, cut_batches(pooled_order(few, pool), few, budget)
        )
for n in (1, 4, 16):
    assert abs(found[250, n] - found[2000, n]) < 0.12
for budget in (250, 2000):
    assert abs(found[budget, 1] - found[budget, 0]) < 0.05
    assert found[budget, 16] < found[budget, 4] < found[budget, 1]

# %% [markdown]
# A pool no larger than a batch is useless, because the order *within* a batch doesn't matter. What counts is **how many batches fit into a pool**, so twice the budget needs twice the pool. With everything sorted, the dots lie close to the curve sentences = budget ÷ length.
#
# Large language models are usually pre-trained with hardly any padding, by **sequence packing**: several texts fill one row, and a mask can keep each from attending to the others ([Krell et al., 2021](https://arxiv.org/abs/2107.02027)). A translator would have to pack sources and targets in step, and mask cross-attention, too.
#
# ## Shuffling
#
# In sorted order, each epoch would go from the shortest sentences to the longest, and the model might adapt to the lengths that it saw last. So the batches of each epoch are **shuffled**, but sentences don't move from batch to batch. The figure shows the mean length of the targets in each batch of an epoch, for both orders:


# %% tags=["hide-input"]
def mean_lengths(batches):
    return np.array([target_lengths[batch].mean() for batch in batches])


in_order = mean_lengths(token_batches(sources, targets, 600))
shuffled = mean_lengths(token_batches(sources, targets, 600, seed=0))
n_shown = min(len(in_order), len(shuffled))
Picture(
    curves(
        range(n_shown),
        {"sorted": in_order[:n_shown], "shuffled": shuffled[:n_shown]},
        "batch of an epoch",
        "Mean target length in the batch (tokens)",
    ),
    alt=(
        "The mean target length in each batch of an epoch. In sorted order it rises "
        "in waves from about 7 to about 20 tokens; shuffled, it jumps between the same lengths "
        "from batch to batch."
    ),
    caption=(
        "Sorted, an epoch goes from short to long targets, in waves because every second bucket begins with its longest sources; shuffled, the lengths "
        "jump from batch to batch."
    ),
)

# %% tags=["remove-cell"]
assert 6 < in_order[0] < 8 and 18 < in_order[-1] < 22
neighbours = {
    name: np.corrcoef(means[:-1], means[1:])[0, 1]
    for name, means in (("sorted", in_order), ("shuffled", shuffled))
}
assert neighbours["sorted"] > 0.9 and abs(neighbours["shuffled"]) < 0.35

# %% [markdown]
# Even shuffled, **a batch of similar lengths is not a random sample of the corpus**. Its sentences have about the same length, and so they tend to be alike in other ways, too. That makes its gradient noisier than that of random sentences. But it costs only about half as much, because a batch of random sentences has almost twice as many positions for the same number of tokens. Which matters more, and how much does shuffling help? We train a small model three times: with batches of random sentences, with batches of similar lengths sorted by their mean target length, and with the same batches shuffled. Each run gets 300,000 source and target positions, so about the same amount of computation. The first table shows the mean loss per token on test sentences (lower is better), at the end of each run and after as many steps as the first run makes; the second splits the test sentences by target length:

# %% tags=["hide-input"]
from transformer.training.objective import batch_loss

config = ModelConfig(
    len(tokenizer), 64, n_heads=4, d_ff=128, n_layers=1, dropout=0.0, norm="pre"
)
test_batch = batch_of(test_pairs)
by_length = sorted(test_pairs, key=lambda pair: len(tokenizer.encode(pair[1])))
short_batch, long_batch = batch_of(by_length[:167]), batch_of(by_length[-167:])


def random_batches(epoch):
    return cut(np.random.default_rng(epoch).permutation(6000), max_tokens=600)


def shuffled_batches(epoch):
    return token_batches(sources, targets, 600, seed=epoch)


def sorted_batches(epoch):
    return sorted(shuffled_batches(epoch), key=lambda b: target_lengths[b].mean())


def train(batches_of, check_at=None):
    """Return the steps and test losses: at a step, at the end, for both lengths."""
    torch.manual_seed(0)
    small = Transformer(config)
    optimizer = torch.optim.Adam(small.parameters(), lr=3e-3, fused=True)

    @torch.no_grad()
    def test_loss(batch=test_batch):
        return batch_loss(small, batch, smoothing=0.0).item() / batch.n_tokens

    positions, loss_at_check = 0, None
    indices_of_all = chain.from_iterable(map(batches_of, count()))
    for steps, indices in enumerate(indices_of_all, start=1):
        batch = collate(sources, targets, indices)
        optimizer.zero_grad()
        (batch_loss(small, batch, smoothing=0.0) / batch.n_tokens).backward()
        optimizer.step()
        positions += batch.source.numel() + batch.labels.numel()
        if steps == check_at:
            loss_at_check = test_loss()
        if positions >= 300_000:
            thirds = test_loss(short_batch), test_loss(long_batch)
            return steps, loss_at_check, test_loss(), thirds


n_steps, _, loss, thirds = train(random_batches)
runs = {"random sentences": (n_steps, loss, loss)}
on_thirds = {"random sentences": thirds}
orders_of_batches = {
    "similar, sorted": sorted_batches,
    "similar, shuffled": shuffled_batches,
}
for name, batches_of in orders_of_batches.items():
    *runs[name], on_thirds[name] = train(batches_of, check_at=n_steps)
print(f"batches           steps  loss at {n_steps}  at the end")
for name, (steps, at_check, at_end) in runs.items():
    print(f"{name:17}{steps:6}{at_check:13.2f}{at_end:12.2f}")
print("\nat the end, on    shortest third  longest third")
for name, (short, long) in on_thirds.items():
    print(f"{name:17}{short:15.2f}{long:15.2f}")

# %% tags=["remove-cell"]
sorted_thirds, shuffled_thirds = (on_thirds[name] for name in orders_of_batches)
assert sorted_thirds[0] < shuffled_thirds[0] + 0.35
assert sorted_thirds[1] > shuffled_thirds[1] + 0.6
assert abs(sorted_thirds[1] - on_thirds["random sentences"][1]) < 0.3
(random_steps, random_loss, _), by_sorted, by_shuffled = runs.values()
assert random_loss + 0.2 < by_shuffled[1] < by_sorted[1]
assert by_shuffled[2] + 0.3 < by_sorted[2] < random_loss - 0.3
gain = random_loss - by_shuffled[2]
assert 0.4 < (by_sorted[2] - by_shuffled[2]) / gain < 0.65, "about half is lost"
assert min(by_sorted[0], by_shuffled[0]) > 1.7 * random_steps

# %% [markdown]
# Step for step, random sentences are best. But for the same amount of computation, batches of similar lengths make almost twice as many steps, and early in training, as here, that more than makes up for their noise. **Without shuffling, about half of the gain over random sentences is lost.** The second table shows where. The sorted run ended in the middle of its third epoch, after the batches of short sentences. On short test sentences it is almost as good as the shuffled run; on long ones, which it last saw at the end of the second epoch, it is hardly better than the run with random sentences. So it did adapt to the lengths that it saw last. (Each row is a single run. With two other seeds, each final loss differed by about 0.1 at most, and 43% and 48% of the gain was lost.)
#
# ### An endless iterator
#
# `Batches` puts it all together. It yields batches, epoch after epoch, in an order that depends only on a seed and the epoch. So its state is just two numbers, the epoch and the batch, and interrupted training can continue with the same batches, which a plain `DataLoader` doesn't offer:

# %%
from transformer.data.batching import Batches

batches = Batches(sources, targets, max_tokens=600, seed=0)
for _ in range(150):
    next(batches)
resumed = Batches(
    sources,
    targets,
    max_tokens=600,
    seed=0,
    epoch=batches.epoch,
    batch_index=batches.batch_index,
)
assert torch.equal(next(batches).labels, next(resumed).labels)
print(f"epoch {resumed.epoch}, batch {resumed.batch_index}: the same batch")

# %% [markdown]
# ## What the loss of a batch means
#
# Taken together, what do the predictions for a sentence mean? We give `pocket-small` a pair, and look up the probability that it assigns to the correct token at each position:

# %%
pair = ("The duck opens the door.", "Die Ente macht die Tür auf.")
batch = batch_of([pair])
logits = model(batch.source, batch.decoder_input)  # (1, target, vocab_size)
all_p = logits.softmax(dim=-1)
p = all_p.gather(2, batch.labels[..., None])[0, :, 0]  # (target,)
pieces = tokenizer.pieces(batch.labels[0])
for piece, probability in zip(pieces, p, strict=True):
    print(f"{piece:8} {probability:.3f}")

# %% [markdown]
# Each number is the probability of a token, **given the source and all tokens before it**. The model is never quite certain, an effect of [label smoothing](10_label_smoothing.ipynb), the topic of the next chapter. Multiplied together, the numbers give the probability that the model assigns to the whole translation $y$ of the source $x$, as this sequence of tokens (the same text can be cut into other tokens). By the chain rule of probability, this is exact:
#
# $$ p(y \mid x) = \prod_{t} p(y_t \mid y_1, \ldots, y_{t-1},\, x) $$
#
# The factor of `<eos>` matters. Without it, the product is the total probability of **all translations that begin with these tokens**; with it, only the one that ends here remains.
#
# A model that assigns a probability to every text, usually as such a product, is called a **language model**. So the decoder is a *conditional* language model: its predictions also depend on the source. The logarithm turns the product into a sum. With a minus sign, it is the **negative log-likelihood** of the translation, and this is the loss. (It is also called **cross-entropy**, which strictly is its mean over the data.) Minimising it is **maximum-likelihood training**. (`smoothing=0.0` switches label smoothing off.)

# %%
from transformer.training.objective import batch_loss

loss = batch_loss(model, batch, smoothing=0.0)  # a sum over tokens
assert_close(loss, -p.prod().log())
print(f"product without <eos> {p[:-1].prod():.3f}, with it {p.prod():.3f}")
print(f"loss {loss:.3f}, exp(-loss) {(-loss).exp():.3f}")

# %% [markdown]
# The loss of a batch is the sum over all its real target tokens; padding positions are skipped. To compare batches of different sizes, we divide by the number of real tokens: the **loss per token**. PyTorch's `F.cross_entropy` computes the same sum:

# %%
import torch.nn.functional as F

batch = batch_of(test_pairs[:20])
logits = model(batch.source, batch.decoder_input)
loss = F.cross_entropy(
    logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, reduction="sum"
)
assert_close(loss, batch_loss(model, batch, smoothing=0.0))
n = batch.n_tokens
print(f"{loss:.2f} for {n} tokens, {loss / n:.3f} per token")

# %% tags=["remove-cell"]
assert (batch.labels == PAD).any()
alone = [
    batch_loss(model, batch_of([pair]), smoothing=0.0) for pair in test_pairs[:20]
]
assert_close(loss, torch.stack(alone).sum())

# %% [markdown]
# ### Exposure bias
#
# *Optional: no later chapter builds on this section.*
#
# With teacher forcing, the model always sees a correct prefix in training. At inference, the prefix is its own output, mistakes included, and after a mistake it is in a situation that it has never been trained for. This is called **exposure bias** ([Ranzato et al., 2016](https://arxiv.org/abs/1511.06732)). Does one wrong token ruin the rest? We give the model the first three tokens of each of 100 correct translations, but then the fourth token of another one. Greedy search, which always takes the most probable token, has to continue from there:

# %%
longer = [pair for pair in test_pairs if len(pair[1].split()) > 7][:100]
batch = batch_of(longer)


def finish(prefix):
    for _ in range(30):
        next_tokens = model(batch.source, prefix)[:, -1].argmax(dim=-1)
        prefix = torch.cat([prefix, next_tokens[:, None]], dim=1)
    return [row[1 : row.index(EOS) + 1] for row in prefix.tolist()]


# %%
correct = batch.decoder_input[:, :5]
forced = correct.clone()
forced[:, 4] = forced[:, 4].roll(1)
after_correct, after_forced = finish(correct), finish(forced)

# %% [markdown]
# Here are three results, and how often the rest is right: it must equal the reference from the fifth token on, or from the fourth if the model took the forced token as an addition. The last line counts how many of the others at least end like the reference, with the same four tokens (the last two are nearly always the full stop and `<eos>`). Sentences whose forced token happens to be correct don't count.

# %% tags=["hide-input"]
changed = (forced[:, 4] != correct[:, 4]).nonzero()[:, 0].tolist()
references = [row[: row.index(EOS) + 1] for row in batch.labels.tolist()]
for i in (3, 10, 40):
    english, german = longer[i]
    translation = tokenizer.decode(after_forced[i][:-1])
    lines = {"source": english, "reference": german, "forced": translation}
    for name, text in lines.items():
        print(fill(f"{name:10} {text}", 48, subsequent_indent=" " * 11))
    print()
n_right = sum(after_correct[i] == references[i] for i in changed)
rest_right = sum(
    after_forced[i][4:] in (references[i][3:], references[i][4:]) for i in changed
)
print(f"after the correct token: {n_right} of {len(changed)} are right")
print(f"after the forced token:  the rest is right in {rest_right}")
wrong = [
    i
    for i in changed
    if after_forced[i][4:] not in (references[i][3:], references[i][4:])
]
same_end = sum(after_forced[i][-4:] == references[i][-4:] for i in wrong)
print(f"of the other {len(wrong)}, {same_end} end like the reference")

# %% tags=["remove-cell"]
assert {3, 10, 40} < set(changed) and len(changed) > 90
assert n_right > 0.9 * len(changed)
assert 0.3 * len(changed) < rest_right < 0.8 * len(changed)
assert same_end > 0.9 * len(wrong) > 20
assert 37 in changed
assert tokenizer.decode(forced[37, 1:].tolist()) == "Im Herbst wohnteschwestern"
forced_texts = {i: tokenizer.decode(after_forced[i][:-1]) for i in (3, 10, 40)}
assert forced_texts[3].endswith("seinen nassen Hut letzte Woche heimlich anziehen.")
assert "Richter" not in forced_texts[10] and forced_texts[40].count("Sofa") == 2

# %% [markdown]
# In the first example only the forced word is wrong. In the second, the model takes *Kurs* (course) as the recipient and leaves out the hungry judge; in the third, *Sofa* occurs twice. So one wrong token can cause a few more, but the model nearly always finds its way back to the end of the correct sentence, probably because cross-attention still reads the correct source. [He et al. (2021)](https://arxiv.org/abs/1905.10617) find such a *self-recovery* in language models, too, whereas [Arora et al. (2022)](https://arxiv.org/abs/2204.01171) find that errors accumulate: how much exposure bias hurts is disputed.
#
# This measures robustness against a foreign token, which isn't quite exposure bias. A model's own mistakes are usually more plausible: no correct sentence begins with *Im Herbst wohnteschwestern*, one of our forced prefixes. And to see what training on correct prefixes alone costs, you would have to compare our model with one that also saw wrong ones. That is the idea of **scheduled sampling** ([Bengio et al., 2015](https://arxiv.org/abs/1506.03099)), which the paper doesn't use: some tokens of the decoder's input are the model's own predictions. If they are generated one by one, training loses its parallelism. A variant for the Transformer takes them from a first parallel pass, so it needs two passes instead of one ([Mihaylova and Martins, 2019](https://aclanthology.org/P19-2049/)).
#
# ## Parallel text
#
# Where do sentence pairs come from? Parallel text usually comes in two files, and line 17 of one should be the translation of line 17 of the other. The paper uses the English–German data of WMT 2014 (§5.1), a shared task in which translation systems compete ([Bojar et al., 2014](https://aclanthology.org/W14-3302/)). That is about 4.5 million sentence pairs from three sources.
#
# | corpus | sentence pairs | what it is |
# |---|---|---|
# | Common Crawl | 2,399,123 | web pages in both languages, found and aligned by a program: varied, but noisy |
# | Europarl v7 | 1,920,209 | proceedings of the European Parliament: clean and formal |
# | News Commentary v9 | 201,288 | newspaper commentary: small, but closest to the test set, which is news |
#
# More than half of these pairs come from the web, so "WMT14" doesn't mean four and a half million clean sentences. The [chapter on WMT14](17_wmt14.ipynb) has the commands that download these files, check that they are the right ones, and train on them.

# %% tags=["remove-cell"]
counts = [1_920_209, 2_399_123, 201_288]
assert round(sum(counts) / 1e6, 1) == 4.5 and counts[1] > sum(counts) / 2

# %% [markdown]
# ### Cleaning
#
# The paper doesn't say how its text was cleaned. Its authors' code downloads a similar collection [prepared by Google](https://github.com/google/seq2seq/blob/master/docs/data.md), from which a script drops very little: pairs with an empty side, with more than 80 tokens on a side, or with one side more than nine times as long as the other. But text from parliaments and from the web has typical defects, and there is a filter for each. Suppose that the pair *The committee meets on Monday.* – *Der Ausschuss tagt am Montag.* is clean and has been seen before. The table shows a bad pair for each setting of the package's filters:
#
# | setting | drops for example | why it hurts |
# |---|---|---|
# | `drop_empty` | *Thank you, Mr President.* – nothing | the model learns to output nothing, or to make something up |
# | <code class="literal">drop_<wbr>control_<wbr>characters</code> | `20 \x80 a day` – `20 \x80 am Tag`: a € of Windows-1252, read as Latin-1 | it learns to output garbage |
# | `min_words` (3) | *(Applause)* – *(Beifall)* | there is little to learn from it |
# | `max_words` (150) | *and so on and so on …* – *und so weiter …* | it is often badly aligned, and attention's cost grows with the square of the length |
# | `max_ratio` (2) | *It is closed.* – *Es ist zu. Wir treffen uns um neun.*: a neighbouring sentence has slipped in | it learns to add or omit things |
# | <code class="literal">drop_<wbr>identical</code> | *Page 3 of 12* – *Page 3 of 12*: never translated | it learns to copy |
# | <code class="literal">min_<wbr>language_<wbr>probability</code> (1%) | *The committee meets on Monday.* – *De commissie vergadert morgen.*: a classifier recognises Dutch | it learns to answer in that language |
# | <code class="literal">drop_<wbr>duplicates</code> | the clean pair again | it counts more than other pairs, and is easily memorised |
#
# On 35,000 pairs of text similar to WMT14, these filters [drop 2.8%](17_wmt14.ipynb), most often because of `max_ratio`.

# %% tags=["remove-cell"]
from transformer.data.cleaning import Cleaner
from transformer.recipes import WMT14_CLEANING

clean = ("The committee meets on Monday.", "Der Ausschuss tagt am Montag.")
defects = {
    "drop_empty": ("Thank you, Mr President.", ""),
    "drop_control_characters": ("20 \x80 a day", "20 \x80 am Tag"),
    "min_words": ("(Applause)", "(Beifall)"),
    "max_words": ("and so on " * 51, "und so weiter " * 51),
    "max_ratio": ("It is closed.", "Es ist zu. Wir treffen uns um neun."),
    "drop_identical": ("Page 3 of 12",) * 2,
    "min_language_probability": (clean[0], "De commissie vergadert morgen."),
    "drop_duplicates": clean,
}
cleaner = Cleaner(WMT14_CLEANING)
assert list(cleaner.clean([clean, *defects.values()])) == [clean]
assert cleaner.report.dropped == dict.fromkeys(defects, 1)
values = {name: cleaner.report.settings[name] for name in defects}
assert values["min_words"] == 3 and values["max_words"] == 150
assert values["max_ratio"] == 2 and values["min_language_probability"] == 0.01

# %% [markdown]
# Filters look at the form and the language of sentences, not at their meaning, so they make mistakes in both directions:

# %%
from transformer.data.cleaning import Cleaner
from transformer.recipes import WMT14_CLEANING

examples = {
    "wrong, but fluent": ("The hotel is full today.", "Das Wetter war schön."),
    "right, but short": ("Very well.", "Sehr gut."),
    "right, but terse": (
        "The vote on this point is closed now.",
        "Abstimmung hierzu beendet.",
    ),
}
for name, pair in examples.items():
    cleaner = Cleaner(WMT14_CLEANING)
    list(cleaner.clean([pair]))
    print(f"{name}:\n  {cleaner.report.summary()}")

# %% [markdown]
# Most filters drop some good pairs along with the bad ones. A filter pays off if the bad pairs would have hurt more than the good ones would have helped. So read some of the pairs that it dropped (`transformer prepare` shows an example for each filter), train with it and without, and compare translations of the same test set. The test set itself is never cleaned, because the text that people want translated isn't clean.
#
# Defects differ in how much they hurt. Untranslated copies, for example, harm a neural translator far more than their number suggests, because copying is so easy to learn ([Khayrallah and Koehn, 2018](https://aclanthology.org/W18-2709/)).
#
# ### Augmentation
#
# *Optional: no later chapter builds on this section.*
#
# Cleaning removes pairs, whereas **data augmentation** adds or changes some, so that a model sees what its corpus hardly contains. The standard method is **back-translation** ([Sennrich et al., 2016b](https://aclanthology.org/P16-1009/)): a model for the opposite direction translates text that exists only in the target language, and its output becomes the source of new training pairs.
#
# The translator on the course's start page needs something simpler. Most of its training data are carefully written example sentences, many about Tom, Mary and Boston. A model trained only on these fails on other names and on careless typing, such as *where is the station*. So its recipe, `everyday`, changes some of the pairs at random. Here is one pair with three random seeds:

# %%
from random import Random

from transformer.data.augmentation import augment

pair = (
    "Tom's favorite store opens at nine o'clock on Monday.",
    "Toms Lieblingsgeschäft öffnet am Montag um neun Uhr.",
)
for seed in (1, 8, 14):
    for line in augment(*pair, source="en", probability=0.5, random=Random(seed)):
        print(fill(line, 48, subsequent_indent="  "))
    print()

# %% tags=["remove-cell"]
augmented = [augment(*pair, "en", 0.5, Random(seed)) for seed in (1, 8, 14)]
assert len(set(augmented)) == 3
assert any(english.islower() for english, _ in augmented)
assert all(german[0].isupper() and german[-1] == "." for _, german in augmented)

# %% [markdown]
# <details><summary>What the augmentation changes, and what it must not break</summary>
#
# Those example sentences come from Tatoeba, a collection for language learners. The recipe swaps names, days, months and numbers, replaces American words with British ones, and writes some sources carelessly.
#
# Because the names change from pair to pair, and some are invented, the model can't memorise them and has to learn to copy names from the source. The target stays correct, so the model learns to read careless text but to write correct text.
#
# After every change the two sentences must still be translations of each other, which takes rules. A name must occur on both sides. *Tom* may become *Mr. Baker* only where German would use *Herr*, the nominative, and not *Herrn*, its form in all other cases; the verb *may* must not be mistaken for the month; *nine o'clock* can't become *fifty-eight o'clock*. Where the code isn't sure, it leaves the pair as it is.
#
# </details>

# %% [markdown]
# ## What goes wrong in practice
#
# A bug in a layer usually shows up as a loss that stays high. Wrong data can even *lower* the loss.
#
# **The target isn't shifted.** The decoder's input is the same as its labels, and the loss falls to zero because the model learns to copy. [Masking](04_masking.ipynb) shows such a model. That chapter's causality test doesn't find this bug, because the mask is correct and only the data are wrong. A check of the data does. Here it is for a correct batch and for one whose decoder input is the same as its labels:


# %%
def is_shifted(batch):
    starts_with_bos = (batch.decoder_input[:, 0] == BOS).all()
    real = batch.decoder_input[:, 1:] != PAD
    same = batch.decoder_input[:, 1:][real] == batch.labels[:, :-1][real]
    return bool(starts_with_bos and same.all())


batch = batch_of(test_pairs[:20])
is_shifted(batch), is_shifted(replace(batch, decoder_input=batch.labels))

# %% [markdown]
# **`<eos>` is missing from the labels.** Then the model never learns to stop. We can imitate this by forbidding the trained model to predict `<eos>`:

# %%
ids = torch.tensor([translator.encode("The duck opens the door.")])
output = [BOS]
for _ in range(20):
    logits = model(ids, torch.tensor([output]))[0, -1]
    logits[EOS] = -math.inf
    output.append(int(logits.argmax()))
print(tokenizer.decode(output[1:]))

# %% [markdown]
# Unable to stop, the model repeats the full stop until the limit.
#
# **The source doesn't look as it did in training.** Every source in training ended with `<eos>`. If you leave it out at inference, the model reads something that it has never seen. If you put the padding first instead of last, the mask still hides it, but the first word is no longer at position 0, where all first words were in training.

# %%
no_eos = torch.where(batch.source == EOS, PAD, batch.source)
padded_left = torch.stack(
    [torch.cat([row[row == PAD], row[row != PAD]]) for row in batch.source]
)
sources_of = {
    "correct": batch.source,
    "no <eos>": no_eos,
    "padded left": padded_left,
}
for name, source in sources_of.items():
    loss = batch_loss(model, replace(batch, source=source), smoothing=0.0)
    print(f"{name:12} loss per token {loss / batch.n_tokens:.3f}")

# %% tags=["remove-cell"]
right, without_eos, on_the_left = (
    batch_loss(model, replace(batch, source=source), smoothing=0.0)
    for source in sources_of.values()
)
assert 1.35 < without_eos / right < 1.75 and on_the_left > 20 * right

# %% [markdown]
# Leaving out `<eos>` raises the loss by about half. With the padding on the left, it is more than twenty times as high.
#
# **Test sentences were in the training data.** This is called **data leakage**, and it makes scores too good, because memorised sentences count as translated ones. It happens easily: captions, for example, often come with several translations. The next cell imitates this with three numbered copies of each translation. If you shuffle the *pairs* and set some aside for testing, the model has already seen almost all of their sources:

# %%
import random
import tempfile
from pathlib import Path

from transformer.data.corpora import sentence_pairs

captions = [(s, f"{t} ({i})") for s, t in train_pairs[:700] for i in range(3)]
random.Random(0).shuffle(captions)
seen = {source for source, _ in captions[100:]}
shared = sum(source in seen for source, _ in captions[:100])
print(f"shuffled pairs: {shared} of 100 test sources\nwere seen in training")

# %% [markdown]
# The package assigns a pair to a split by a **hash of its source**: equal sources end up in the same split, on every machine and in any order. (It doesn’t catch sources that differ in a comma, or different sources with the same translation.) About a twentieth of all sources become test data:

# %%
file = Path(tempfile.mkdtemp()) / "captions.tsv"
file.write_text("".join(f"{s}\t{t}\n" for s, t in captions), "utf-8")
test_sources = {source for source, _ in sentence_pairs(str(file), "test")}
seen = {source for source, _ in sentence_pairs(str(file), "train")}
n_shared, n_test = len(test_sources & seen), len(test_sources)
print(f"split by hash: {n_shared} of {n_test} test sources\nwere seen in training")

# %% tags=["remove-cell"]
assert shared > 90 and not test_sources & seen and len(test_sources) > 5
assert not {s for s, _ in train_pairs} & {s for s, _ in test_pairs}

# %% [markdown]
# **Two spellings of the same word.** In Unicode, *ä* is either one character or an *a* followed by a combining mark. They look the same, but Python considers them different, and so will a search for duplicates or for test sentences in the training data. **Normalise before you compare.** The tokenizer is safe, because it normalises its input:

# %%
import unicodedata

word = "Mädchen"
composed, decomposed = (
    unicodedata.normalize(form, word) for form in ("NFC", "NFD")
)
print(composed, decomposed, composed == decomposed)
print(len(composed), "and", len(decomposed), "characters")
print("same ids:", tokenizer.encode(composed) == tokenizer.encode(decomposed))

# %% tags=["remove-cell"]
assert tokenizer.encode(composed) == tokenizer.encode(decomposed)
girls = [
    ("The girl laughs now.", f"Jetzt lacht das {w}.")
    for w in (composed, decomposed)
]
assert len(list(Cleaner(WMT14_CLEANING).clean(girls))) == 2

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. The target has six tokens. How long is the decoder's input, and what should it predict at the last position?**
#
# <details><summary>A. Six; the sixth token</summary>
#
# No. Then no position would have the label `<eos>`, and the model couldn't learn to stop.
#
# </details>
# <details><summary>B. Seven; <code>&lt;eos&gt;</code></summary>
#
# **Right.** The input is `<bos>` and six tokens, the labels are six tokens and `<eos>`.
#
# </details>
# <details><summary>C. Seven; the sixth token</summary>
#
# No. At the last position, the input is the sixth token itself. Predicting it would just be copying the input: the target isn't shifted.
#
# </details>
# <details><summary>D. Eight; <code>&lt;eos&gt;</code></summary>
#
# No. That would be `<bos>`, six tokens and `<eos>`. Nothing follows `<eos>`, so there is nothing to predict there.
#
# </details>
#
# **2. You add a few columns of padding to a batch, at the end of the source and of the target. What happens to its loss?**
#
# <details><summary>A. It falls, because padding is easy to predict</summary>
#
# No. Padding isn't predicted at all: the loss ignores positions whose label is padding.
#
# </details>
# <details><summary>B. It rises, because the sum has more terms</summary>
#
# No. The additional positions are all padding, and these aren't in the sum.
#
# </details>
# <details><summary>C. Nothing</summary>
#
# **Right.** Padding is hidden from attention by the mask and ignored by the loss. Only the amount of computation grows, by a little.
#
# </details>
# <details><summary>D. It depends on the batch</summary>
#
# No. The amount of additional padding depends on the batch, but its effect on the loss is zero for every batch.
#
# </details>
#
# **3. A filter for the ratio of lengths drops 3% of your data. How do you find out whether that helped?**
#
# <details><summary>A. Compare the training losses with and without the filter</summary>
#
# No. They are losses on different text. Without the difficult pairs the loss falls by itself.
#
# </details>
# <details><summary>B. Read a hundred dropped pairs, train with and without the filter, and compare translations of a test set that was not cleaned</summary>
#
# **Right.** The first shows what was dropped, the second whether it mattered. A test set is never cleaned, because the text that people want translated isn't clean.
#
# </details>
# <details><summary>C. 3% is so little that it cannot matter</summary>
#
# No. A few per cent of untranslated copies can do a lot of harm, and the dropped pairs could be just the short answers that you need.
#
# </details>
# <details><summary>D. Raise the ratio until nothing is dropped</summary>
#
# No. That only switches the filter off, and you learn nothing about what it did.
#
# </details>
#
# **4. Why does the loss of a translator never reach zero on real text that it hasn't seen, however good it is?**
#
# <details><summary>Answer</summary>
#
# The loss is minus the logarithm of a translation's probability, and the many good translations of a sentence have to share the probability of 1. Zero would mean that the model is certain which of them the human translator wrote. In the pocket corpus there is nearly always only one translation, so there the loss can come close to zero.
#
# </details>
#
# **5. Why is it better to shuffle batches than to shuffle sentences, and what does it cost?**
#
# <details><summary>Answer</summary>
#
# Shuffled sentences give batches of mixed lengths, almost half of which is padding. Shuffled batches have little padding and still come in random order. The cost is noisier gradients, so a step teaches the model less; but more steps fit into the same time, and in our short run that more than made up for it. Without any shuffling, it lost about half of the gain, because it adapted to the lengths that it had just seen.
#
# </details>
#
# **6. (From the optional section *Sorting without all the data*.) You sort pools of 50 sentences, and a batch has 80. What happens to the padding?**
#
# <details><summary>A. It hardly changes</summary>
#
# **Right.** A batch is larger than a pool, so it always mixes two or more pools, and within a batch the order doesn't matter.
#
# </details>
# <details><summary>B. It falls to nearly zero</summary>
#
# No. For that, the sentences of *one batch* must have similar lengths, so a pool must contain many batches.
#
# </details>
# <details><summary>C. It falls to 50/80 of what it was</summary>
#
# No. It isn't proportional: pools below the size of a batch do nothing, and above it the padding falls quickly.
#
# </details>
# <details><summary>D. It grows, because some batches contain a border between two pools</summary>
#
# No. Such a batch is as mixed as an unsorted one, but not worse.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Fill in six blanks: filters for sentence pairs, the three tensors of a batch, the share of padding, batches within a budget, how to continue after an interruption, and code that splits a corpus, in which you find three bugs. Each has a hint, and a check that tells you which mistake you made.
#
# - In Colab, where the last cell grades your answers:
#   [09_data_and_batching](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/09_data_and_batching.ipynb).
#   On GitHub: [09_data_and_batching.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/09_data_and_batching.ipynb).
# - On your machine, open `exercises/09_data_and_batching.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade data_and_batching
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Four experiments to try</summary>
#
# 1. **Change the width of the buckets.** Write your own serpentine order with buckets of 1 and of 16 target lengths. What happens to the padding of the source, and of the target?
# 2. **Shift twice.** Let the decoder's input begin with `<bos> <bos>`. Nothing leaks and nothing fails. Does `is_shifted` find this bug?
# 3. **Force an error at every position.** Force a wrong token at position 1, 2, 3, … in turn, and let the model continue. Does it recover more often from an early mistake or from a late one?
# 4. **Look at real data**, if you have a network connection: run `transformer prepare multi30k`, then `transformer data multi30k`, and the same with `wmt14-mini`.
#
# </details>
#
# ## Going further
#
# - **The paper:** [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762) describe data and batches in §5.1, and the shift by one position in §3.1.
# - **The data:** [Bojar et al. (2014)](https://aclanthology.org/W14-3302/) for WMT 2014; [Koehn (2005)](https://aclanthology.org/2005.mtsummit-papers.11/) for Europarl; [Smith et al. (2013)](https://aclanthology.org/P13-1135/) for the pairs from Common Crawl.
# - **How much each kind of defect hurts:** [Khayrallah and Koehn (2018)](https://aclanthology.org/W18-2709/).
# - **How to fill batches**, with several orders compared: [Morishita et al. (2017)](https://aclanthology.org/W17-3208/).
# - **Very large batches:** [Ott et al. (2018)](https://aclanthology.org/W18-6301/) on training speed and translation quality.
# - **Next:** [Label smoothing](10_label_smoothing.ipynb) changes the target that the model learns from.
