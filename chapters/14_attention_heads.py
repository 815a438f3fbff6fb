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
# # What attention heads do
#
# The arcs below show what one attention head of a small English-to-German model attends to: *The* attends to *king*, the first *the* to *baker*, and the second *the* to *tea*. Without this head, as the last line shows, **all three articles are wrong**. Three arcs and one broken sentence: is that enough to call it the head that finds nouns?

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
    print(f"With all figures: {book}/chapters/14_attention_heads.html")

# %% tags=["hide-input"]
import math
import random
import re
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise

import pandas as pd
import torch
from matplotlib.patches import Rectangle

import transformer
from transformer.decoding import greedy_search
from transformer.inspection import ablate_heads, record_attention, word_indices
from transformer.plots import style
from transformer.plots.ablated_head import ablated_head
from transformer.plots.boxes import draw_arrow, draw_box
from transformer.plots.curves import curves
from transformer.plots.head_grid import head_grid
from transformer.plots.head_scores import head_scores
from transformer.plots.heat_map import heat_map
from transformer.plots.style import Captioned, Picture, Row

torch.set_printoptions(precision=2, sci_mode=False)

translator = transformer.load("pocket-small", precision="fp32")
model, tokenizer = translator.model, translator.tokenizer
device = translator.device.torch_device

english = "The strict king has brought the baker the tea."
noun_head = "encoder.1.self_attention", 3
name, h = noun_head
hook_source = torch.tensor([translator.encode(english)], device=device)
with torch.no_grad(), record_attention(model) as hook_weights:
    model.encode(hook_source)
(german,) = translator.greedy_search([english])
with ablate_heads(model, {name: [h]}):
    (without_head,) = translator.greedy_search([english])
english_words = [
    piece.strip("▁") for piece in tokenizer.pieces(hook_source[0, :-1].tolist())
]
Picture(
    ablated_head(
        english_words,
        hook_weights[name][0, h, :-1, :-1].cpu(),
        [0, 5, 7],
        german,
        without_head,
    ),
    alt=(
        "The sentence The strict king has brought the baker the tea, with arcs from "
        "its three articles to king, baker and tea. Below, the translation Der strenge "
        "König hat dem Bäcker den Tee gebracht; and without the head, Die strengen "
        "König haben den Bäcker die Tee gebracht, with the wrong words in orange."
    ),
    caption=(
        "Arcs show that one head links each article to its noun. With the head "
        "removed, the highlighted words come out wrong."
    ),
)

# %% tags=["remove-cell"]
found = hook_weights[name][0, h]
assert min(found[0, 2], found[5, 6], found[7, 8]) > 0.9
assert german == "Der strenge König hat dem Bäcker den Tee gebracht."
assert without_head == "Die strengen König haben den Bäcker die Tee gebracht."

# %% [markdown]
# A German article depends on the gender, number and *case* of its noun; the case marks the noun's role in the sentence. Here are the forms of *the* in three of the four cases, with our sentence's in bold:
#
# | | masculine | feminine | neuter | plural |
# |:--|:--|:--|:--|:--|
# | nominative (subject) | **der** König | die | das | die |
# | accusative (direct object) | **den** Tee | die | das | die |
# | dative (indirect object) | **dem** Bäcker | der | dem | den |
#
# The wrong articles, *Die*, *den* and *die*, are in the same rows as the right ones, but in the last column, and *strengen* and *haben* are plural, too. So without the head, the model seems to lose the noun's gender and number, but not its case. One sentence can't prove that; we'll count.
#
# The paper hopes that attention makes a model easier to interpret (§4). We ask three questions about a head: What does it attend to **as a rule**? Does the model **need** it? And what information does it **carry** from one position to another?

# %% [markdown]
# By the end you will be able to record a model's attention weights, tell whether a head's pattern could be chance, explain what a heat map of these weights can't show, and find out what a head contributes by **ablating** it (removing it) and **patching** it (replacing its output with the one for another input).
#
# **About 50 minutes**, and 25 more for three optional tools at the end. The chapter builds on [Multi-head attention](03_multi_head_attention.ipynb), [Encoder and decoder layers](06_layers.ipynb) and [Decoding](12_decoding.ipynb).

# %% tags=["hide-input", "imports"]
from textwrap import fill

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import transformer
from transformer.attention import MultiHeadAttention, attention
from transformer.data import pocket
from transformer.data.batching import pad
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.inspection import ablate_heads, record_attention
from transformer.model import Transformer

# %% [markdown]
# ## Recording attention weights
#
# Our models use fused attention, which never stores the weights (see [Attention](02_attention.ipynb)). To record them, we use a **hook**: a function that PyTorch calls after a module has run, with the module's inputs and output. Ours computes the weights again, with the explicit `attention` function; `project` makes the queries, keys and values, and `join_heads` concatenates the heads' outputs.
#
# We have loaded `pocket-small` as `translator`, with its `model`, `tokenizer` and `device`. It was trained on the [pocket corpus](09_data_and_batching.ipynb), simple sentences generated by a small grammar, and has two layers in the encoder, two in the decoder, and four heads per attention layer. `hook_source` holds the token ids of the sentence above:

# %%
layer, recorded = model.encoder[1].self_attention, {}


def record(module, args, output):
    query, (key, value) = module.project(args[0])
    head_outputs, recorded["weights"] = attention(query, key, value)
    recorded["by hand"] = module.output(module.join_heads(head_outputs))
    recorded["fused"] = output


hook = layer.register_forward_hook(record)
with torch.no_grad():
    model.encode(hook_source)
hook.remove()

# %% [markdown]
# These weights should give the layer's own output:

# %%
assert_close(recorded["by hand"], recorded["fused"], atol=1e-4, rtol=1e-4)
print("the two outputs are equal")
print("weights:", tuple(recorded["weights"].shape))  # (batch, heads, query, key)

# %% [markdown]
# The package's `record_attention` records all layers at once. From here on, we **name the model** of each head, because we also use a second, larger one, `everyday`, here with a longer sentence:

# %%
everyday = transformer.load("everyday", precision="fp32")
everyday_model = everyday.model
long_english = (
    "The little girl with the red hat told her mother "
    "that she had lost her new doll in the park."
)
long_german = everyday.beam_search([long_english])[0][0].text
long_reads = everyday.encode(long_english)
long_writes = [*everyday.tokenizer.encode(long_german), EOS]
with torch.no_grad(), record_attention(everyday_model) as long_weights:
    everyday_model(
        torch.tensor([long_reads], device=device),
        torch.tensor([[BOS, *long_writes[:-1]]], device=device),
    )
print(fill(long_german, 48))

# %% [markdown]
# In text and figures, we count layers and heads from 1, and *self 2* and *cross 2* are the self-attention and cross-attention of the decoder's layer 2. Code counts from 0: *encoder 2, head 4* is `"encoder.1.self_attention", 3`. The function `short` turns the code's names into ours:


# %%
def short(name):
    side, layer, kind = name.split(".")
    return f"{side if side == 'encoder' else kind.split('_')[0]} {int(layer) + 1}"


for name in ("encoder.1.self_attention", "decoder.1.cross_attention"):
    print(f"{name:25} → {short(name)}")

# %% [markdown]
# **Choose a head of `everyday`**, and point at a cell, or tap it, to read its weight. In cross-attention, a row is labelled with the token that the decoder *predicts* there. Start with these heads, whose examples have orange frames:
#
# - *encoder 3, head 6*: most tokens attend to the one before them, such as *with* to *girl*.
# - *encoder 2, head 5*: *little* attends to *girl*, *red* to *hat*, and the first *her* to *mother*. A head that finds nouns? Look at its other rows.
# - *cross 2, head 4*: most German words attend to the English word that they translate. But in the row of *uppe*, the second piece of *Puppe* (doll), the weight goes to `<eos>`.


# %% tags=["hide-input"]
def pieces(ids, tokenizer=tokenizer):
    return [piece.lstrip("▁") for piece in tokenizer.pieces(ids)]


long_reads, long_writes = (
    pieces(side, everyday.tokenizer) for side in (long_reads, long_writes)
)
shown = {
    short(name): w[0]
    for name, w in long_weights.items()
    if "decoder" not in name or "cross" in name
}
examples = (
    (("encoder 3", 5), [("with", "girl")]),
    (("encoder 2", 4), [("little", "girl"), ("red", "hat"), ("her", "mother")]),
    (("cross 2", 3), [("uppe", "<eos>")]),
)


def cell_of(query, key):
    """Return the first positions of two tokens: (query, key)."""
    side = long_reads if query in long_reads else long_writes
    return side.index(query), long_reads.index(key)


Captioned(
    head_grid(
        shown,
        {
            name: (long_reads if "encoder" in name else long_writes, long_reads)
            for name in shown
        },
        description=(
            "Small heat maps, a row for each layer of encoder and cross-attention "
            "and a column for each of six heads, and a large one of the chosen head, "
            "its rows and columns labelled with words. Head 6 of encoder layer 3 has "
            "a bright diagonal below the main one; in the last two layers of "
            "cross-attention many heads have one bright cell in each row, at the "
            "word translated there. Orange frames mark the cells that the text names."
        ),
        first=("encoder 3", 5),
        marked={
            head: [cell_of(*words) for words in cells] for head, cells in examples
        },
    ),
    "Attention weights of everyday's encoder and cross-attention, and one head enlarged: each row is a query and "
    "each column a key; bright cells are large weights, and orange frames mark the examples of the text.",
)

# %% tags=["remove-cell"]
for name, h, query, key in (
    ("encoder 3", 5, "with", "girl"),
    ("encoder 2", 4, "little", "girl"),
    ("encoder 2", 4, "red", "hat"),
    ("encoder 3", 1, "hat", "with"),
    ("encoder 3", 1, "had", "that"),
):
    row = shown[name][h, long_reads.index(query)]
    assert long_reads[int(row.argmax())] == key and row.max() > 0.7
assert shown["cross 2"][3, long_writes.index("uppe"), -1] > 0.9
row = shown["encoder 2"][4, long_reads.index("her")]
assert long_reads[int(row.argmax())] == "mother"

# %% [markdown]
# ## What does a head attend to?
#
# Does *encoder 2, head 5* of `everyday` really find nouns? Here is the largest weight in each row:

# %% tags=["hide-input"]
looks_like_nouns = shown["encoder 2"][4, :-1]  # without the row of <eos>
largest, at = looks_like_nouns.max(dim=-1)
attended = [
    f"{long_reads[i]} → {long_reads[j]} {w:.2f}"
    for i, (j, w) in enumerate(zip(at.tolist(), largest.tolist(), strict=True))
]
for i in range(0, len(attended), 2):
    print("".join(f"{text:22}" for text in attended[i : i + 2]).rstrip())
next_is_largest = (at.cpu() == torch.arange(len(at)) + 1).sum().item()
print(f"\nlargest weight on the next token: {next_is_largest} of {len(at)} rows")

# %% tags=["remove-cell"]
assert next_is_largest == 19 and len(at) == 21

# %% [markdown]
# In nearly all rows, it is on the *next* token, which in our examples happens to be the noun. **A few chosen rows of one sentence can show almost anything.**
#
# So we need measures over many sentences. Take these weights, with a row for each query and a column for each key:

# %%
head = torch.tensor(
    [
        [0.1, 0.7, 0.1, 0.1],  # the
        [0.6, 0.2, 0.1, 0.1],  # dog
        [0.1, 0.6, 0.1, 0.2],  # barks
        [0.0, 0.1, 0.1, 0.8],  # <eos>
    ]
)

# %% [markdown]
# **Does the head attend to the previous token?** *dog*, *barks* and `<eos>` give the token before them 0.6, 0.6 and 0.1; *the* has none. The mean is $1.3 / 3 \approx 0.43$.
#
# **How much does it attend to `<eos>`?** The mean of the last column is $(0.1 + 0.1 + 0.2 + 0.8) / 4 = 0.30$.
#
# Both measures pick one key for each query, and average the weights on these keys. `mean_weight` does this for a batch and all heads; `keys` has the position of each query's key, or −1 to skip the query:


# %%
def mean_weight(weights, keys):
    """(batch, heads, query, key), (batch, query) → (heads,)"""
    b, q = (keys >= 0).nonzero(as_tuple=True)  # the n queries that count
    on_key = weights[b, :, q, keys[b, q]]  # (n, heads)
    return on_key.mean(dim=0)


previous, eos = torch.tensor([[-1, 0, 1, 2]]), torch.tensor([[3, 3, 3, 3]])
for label, keys in (("previous token", previous), ("<eos>", eos)):
    score = mean_weight(head[None, None], keys).item()
    print(f"{label:14} {score:.2f}, as by hand")

# %% tags=["remove-cell"]
assert_close(mean_weight(head[None, None], previous), torch.tensor([1.3 / 3]))
assert_close(mean_weight(head[None, None], eos), torch.tensor([0.30]))

# %% [markdown]
# Is 0.43 a lot? With four tokens and equal weights, the previous token gets 0.25. **A score means nothing without a baseline.** So we score `pocket-small` and an untrained model of the same size, on 200 pairs from the test set of the pocket corpus, with teacher forcing:

# %%
pairs = pocket.pairs("test", 200)


def batch_of_pairs(tokenizer):
    """Return the source, what the decoder reads, and what it should predict."""
    source = pad([[*tokenizer.encode(p.source), EOS] for p in pairs])
    full = pad([[BOS, *tokenizer.encode(p.target), EOS] for p in pairs])
    target = full[:, :-1]
    target = target.masked_fill(target == EOS, PAD)  # of the shorter sentences
    return source, target, full[:, 1:]


source, target, labels = batch_of_pairs(tokenizer)


# %%
def record_all(model, source, target):
    with torch.no_grad(), record_attention(model) as weights:
        model(source.to(device), target.to(device))
    return {name: w.cpu() for name, w in weights.items()}


torch.manual_seed(0)
untrained = Transformer(model.config).eval().to(device)
weights = record_all(model, source, target)
random_weights = record_all(untrained, source, target)

# %% [markdown]
# How much do the four heads of *encoder 2* in `pocket-small` attend to the previous token?

# %%
previous = torch.arange(source.size(1)).expand_as(source) - 1
previous = previous.masked_fill(source == PAD, -1)  # padding doesn't count
for label, recorded in (("trained", weights), ("untrained", random_weights)):
    scores = mean_weight(recorded["encoder.1.self_attention"], previous)
    print(f"{label:9}", *(f"{score:.2f}" for score in scores))

# %% tags=["remove-cell"]
on_previous = [
    mean_weight(w["encoder.1.self_attention"], previous)
    for w in (weights, random_weights)
]
assert on_previous[0].argmax() == 0 and 0.435 <= on_previous[0][0] < 0.445
assert on_previous[0][0] > 4 * on_previous[1].max()

# %% [markdown]
# Head 1 gives the previous token nearly five times as much as an untrained head does, and the others are above the baseline, too.
#
# The figure has a row for each measure, a dot for each head, and grey marks for untrained heads. *same position* is the weight that a token puts on itself, and *its noun* the weight that a **determiner**, such as *the* or *his*, puts on its noun. **Point at a dot, or tap it,** and the same head turns orange in all rows. The menu leads to the decoder and to `everyday`.
#
# <details><summary>The measures in the decoder</summary>
#
# *self* is the decoder's self-attention. In cross-attention, take the row that predicts German token number $i$. There, *previous* is the weight on English token $i-1$, *same position* that on token $i$, and *next* that on token $i+1$.
#
# </details>


# %% tags=["hide-input"]
def sides(name, source, target):
    """Return the tokens of a layer's queries and keys, and whether it is causal."""
    kind = short(name).split()[0]
    queries = source if kind == "encoder" else target
    return queries, target if kind == "self" else source, kind == "self"


def key_tables(queries, keys, causal):
    """Return each measure's key for each query, (batch, query); -1 doesn't count."""
    place = torch.arange(queries.size(1)).expand_as(queries)
    n_keys = (keys != PAD).sum(dim=-1, keepdim=True)  # (batch, 1)
    special = torch.zeros_like(place) if causal else (n_keys - 1).expand_as(place)
    tables = {
        "previous": place - 1,
        "same position": place,
        "special token": special,
    }
    if not causal:
        tables["next"] = place + 1
    real = queries != PAD
    return {
        measure: table.masked_fill(~real | (table >= n_keys), -1)
        for measure, table in tables.items()
    }


def score_heads(weights, source, target, noun_keys):
    """Return a table with the scores of all heads in all measures."""
    rows = []
    for name, w in weights.items():
        who = sides(name, source, target)
        scores = {m: mean_weight(w, keys) for m, keys in key_tables(*who).items()}
        del scores["special token"]
        if name.startswith("encoder"):
            scores["its noun"] = mean_weight(w, noun_keys)
        for measure, values in scores.items():
            for head, value in enumerate(values.tolist(), 1):
                rows.append((short(name), head, measure, value))
    table = pd.DataFrame(rows, columns=["layer", "head", "measure", "score"])
    return table.assign(kind=table["layer"].str.split().str[0])


DETERMINERS = set("the a an this these my his her our their every no many".split())


def words_of_pieces(text, words, tokenizer=tokenizer):
    return word_indices(tokenizer.pieces(tokenizer.encode(text)), words)


def nouns(pair):
    """Return for each determiner, by its index, the index of its noun."""
    capital = {j for j, w in enumerate(pair.target_words) if j and w[0].isupper()}
    linked = {j: [i for i, k in pair.alignment if k == j] for j in capital}
    ends = [max(sources) for sources in linked.values() if sources]
    found = {}
    for i, word in enumerate(pair.source_words):
        if word.lower() in DETERMINERS and max(ends, default=0) > i:
            found[i] = min(end for end in ends if end > i)
    return found


def noun_table(like, tokenizer):
    """Return the position of each determiner's noun, (batch, query); -1 elsewhere."""
    table = torch.full_like(like, -1)
    for row, pair in enumerate(pairs):
        word = words_of_pieces(pair.source, pair.source_words, tokenizer)
        for determiner, noun in nouns(pair).items():
            table[row, word.index(determiner)] = word.index(noun)
    return table


noun_keys = noun_table(source, tokenizer)
everyday_source, everyday_target, everyday_labels = batch_of_pairs(
    everyday.tokenizer
)
everyday_nouns = noun_table(everyday_source, everyday.tokenizer)
everyday_weights = record_all(everyday_model, everyday_source, everyday_target)
torch.manual_seed(0)
untrained = Transformer(everyday_model.config).eval().to(device)
everyday_random = record_all(untrained, everyday_source, everyday_target)
both_models = {
    "pocket-small": [
        score_heads(recorded, source, target, noun_keys)
        for recorded in (weights, random_weights)
    ],
    "everyday": [
        score_heads(recorded, everyday_source, everyday_target, everyday_nouns)
        for recorded in (everyday_weights, everyday_random)
    ],
}
of_menu = {
    f"{model_name}, {part}": tuple(
        table[(table["kind"] == "encoder") == (part == "encoder")]
        for table in tables
    )
    for model_name, tables in both_models.items()
    for part in ("encoder", "decoder")
}
Captioned(
    head_scores(
        of_menu,
        first="encoder 2, head 4",
        description=(
            "A row for each measure, at first those of the encoder of pocket-small; "
            "a menu leads to its decoder and to everyday. A blue dot for each head and "
            "grey ticks for untrained heads. The untrained ones are "
            "close together in each row; trained heads spread widely, most of them to the right. "
            "Pointing at a dot highlights the same head in every row and names it "
            "below."
        ),
    ),
    "Scores of trained heads (dots) and untrained heads (grey marks). Untrained heads "
    "are nearly alike, but trained ones differ. The large orange dots are one head.",
)

# %% tags=["remove-cell"]
for table, baseline in both_models.values():
    low, high, random_low, random_high = (
        t.groupby(["kind", "measure"])["score"].agg(side)
        for t in (table, baseline)
        for side in ("min", "max")
    )
    ratio = (high - low) / (random_high - random_low)
    assert ratio.min() > 1 and ratio.median() > 5
    typical = table.groupby(["kind", "measure"])["score"].median()
    assert (typical > 1.2 * random_high).mean() > 0.5
    assert low["encoder", "next"] < 0.8 * random_low["encoder", "next"]

# %% [markdown]
# **Training makes heads different**, above all in the encoder. In each row, untrained heads score nearly the same; many trained ones score clearly higher, and some lower.
#
# One dot stands out: in *encoder 2, head 4* of `pocket-small`, the head from the top of the chapter, **determiners put 0.96 of their weight on their nouns**. We call it the *noun head*.
#
# Or does it merely attend to the next token, like *encoder 2, head 5* of `everyday`? Then determiners would miss *distant* nouns, as in *the tired painters*, and other tokens would attend to the next one, too:


# %% tags=["hide-input"]
def noun_and_next(recorded, source, noun_keys, name, h):
    """Return the weight on nouns, distant ones, and of other tokens on the next one."""
    position = torch.arange(source.size(1)).expand_as(source)
    distant = noun_keys.masked_fill(noun_keys - position < 2, -1)
    next_keys = key_tables(source, source, causal=False)["next"]
    next_keys = next_keys.masked_fill(noun_keys >= 0, -1)
    return [
        mean_weight(recorded[name], keys)[h]
        for keys in (noun_keys, distant, next_keys)
    ]


in_pocket = source, noun_keys
in_everyday = everyday_source, everyday_nouns
noun_checks = {}
print(f"{'weight on':27}  noun  distant  next")
for label, recorded, of_model, name, h in (
    ("pocket-small, noun head", weights, in_pocket, *noun_head),
    ("the same, untrained", random_weights, in_pocket, *noun_head),
    (
        "everyday, encoder 2, head 5",
        everyday_weights,
        in_everyday,
        "encoder.1.self_attention",
        4,
    ),
):
    noun_checks[label] = noun_and_next(recorded, *of_model, name, h)
    print("{:27}  {:4.2f}  {:7.2f}  {:4.2f}".format(label, *noun_checks[label]))

# %% tags=["remove-cell"]
encoder = both_models["pocket-small"][0].query("kind == 'encoder'")
best = {
    measure: encoder[encoder["measure"] == measure].nlargest(1, "score").iloc[0]
    for measure in ("previous", "its noun")
}
row = best["its noun"]
assert (row["layer"], row["head"]) == ("encoder 2", 4)
assert 0.955 <= row["score"] < 0.965
all_nouns, far, near = noun_checks["pocket-small, noun head"]
assert_close(all_nouns.item(), row["score"])
assert far > 0.9 and near < 1 / 3
_, far, near = noun_checks["everyday, encoder 2, head 5"]
assert far < 1 / 3 and near > 0.5

# %% [markdown]
# The noun head passes the test: distant nouns get nearly all of the weight, and other tokens put less than a third of theirs on the next. The head of `everyday` fails.
#
# <details><summary>Which kinds of heads do larger models have?</summary>
#
# In larger translators, [Voita et al. (2019)](https://aclanthology.org/P19-1580/) find *positional* heads, which attend to a neighbour, *syntactic* ones, which link, say, a verb to its subject, and heads that attend to the rarest word. [Clark et al. (2019)](https://aclanthology.org/W19-4828/) examine the heads of BERT.
#
# </details>

# %% [markdown]
# ## What attention weights don't show
#
# Even measured over many sentences, weights can mislead.
#
# ### Different weights, same output
#
# Suppose that the third value is the mean of the first two. Then these two rows give the same output:

# %%
value = torch.tensor([[2.0, 0], [0, 4], [1, 2]])  # (n_key, d_v)
first, second = torch.tensor([[0.5, 0.5, 0], [0.0, 0, 1]])
print(first @ value, second @ value)

# %% tags=["remove-cell"]
assert_close(first @ value, second @ value)
generator = torch.Generator().manual_seed(0)
values = torch.randn(6, 4, generator=generator)  # n_key > d_v + 1
assert model.config.d_model // 4 == everyday_model.config.d_model // 6 == 32
assert max(source.size(1), everyday_source.size(1), len(long_reads)) < 34
row = torch.rand(6, generator=generator).softmax(dim=0)
kept = torch.cat([values, torch.ones(6, 1)], dim=1)  # the output, and the sum
change = torch.linalg.svd(kept.T)[2][-1]
other_row = row + change * row.min() / change.abs().max()
assert other_row.min() > -1e-6 and (other_row - row).abs().max() > 0.01
assert_close(other_row @ kept, row @ kept)

# %% [markdown]
# Such rows exist if the values happen to be dependent, as here, and always if there are more than $d_v + 1$ keys: two rows must agree only in the $d_v$ numbers of their output, and in their sum, 1. (With our $d_v = 32$, that takes 34 tokens, more than any sentence in this chapter has.) And no row of weights shows what the values contain. So we need experiments, in the next two sections.
#
# <details><summary>Is attention an explanation? A debate</summary>
#
# From such alternatives, [Jain and Wallace (2019)](https://aclanthology.org/N19-1357/) concluded that "attention is not explanation", and [Wiegreffe and Pinter (2019)](https://aclanthology.org/D19-1002/) replied that this depends on what you mean by an explanation, and that alternative weights must be tested together with the rest of the model: the alternative weights that they trained did worse in a simple test. Both papers study recurrent networks.
#
# </details>
#
# ### Attention sinks
#
# In the row of *uppe*, *cross 2, head 4* of `everyday` attended to `<eos>`. Here is this head's mean weight on `<eos>` for three groups of predicted tokens:

# %% tags=["hide-input"]
name, h = "decoder.1.cross_attention", 3
last = (everyday_source != PAD).sum(dim=-1) - 1  # the position of <eos>
on_eos = everyday_weights[name][
    torch.arange(len(pairs)), h, :, last
]  # (batch, query)
real_labels = everyday_labels != PAD
vocabulary = everyday.tokenizer.pieces(
    list(range(everyday_model.config.vocab_size))
)
begins = torch.tensor([piece.startswith("▁") for piece in vocabulary])[
    everyday_labels
]
punctuation = torch.tensor([not piece.strip("▁").isalpha() for piece in vocabulary])
is_eos = everyday_labels == EOS
continues = real_labels & ~begins & ~is_eos & ~punctuation[everyday_labels]
for what, group in (
    ("start of a word", real_labels & begins),
    ("rest of a word", continues),
    ("<eos>", is_eos),
):
    print(f"predicts {what:17} weight on <eos> {on_eos[group].mean():.2f}")

# %% [markdown]
# In the middle of a word, the model presumably needs little from the source, but the weights still have to sum to one. So `<eos>` may be an **attention sink**, which gets a lot of weight regardless of its meaning. In language models, the first tokens are often sinks ([Xiao et al., 2024](https://arxiv.org/abs/2309.17453)).
#
# Does it add little to the output? What a key adds is its weight times its value, projected by the head's part of $W^O$, so [Kobayashi et al. (2020)](https://aclanthology.org/2020.emnlp-main.574/) look at the norm of the projected value. Here is this norm for `<eos>`, relative to the mean of the other keys, for each cross-attention head with a mean weight of at least 0.15 on `<eos>`:


# %% tags=["hide-input"]
def relative_norm_at_eos(model, name, memory, source):
    """The norm of the projected value of <eos>, relative to the other keys."""
    layer = model.get_submodule(name)
    value = layer.project_memory(memory).value  # (batch, heads, key, d_head)
    # the part of W_O that belongs to each head: (d_model, heads, d_head)
    w_o = layer.output.weight.unflatten(1, (layer.n_heads, -1))
    norm = torch.einsum("bhkd,mhd->bhkm", value, w_o).norm(dim=-1)
    keys = (source != PAD)[:, None].to(device)
    eos = (keys.sum(dim=-1) - 1)[..., None].expand(-1, layer.n_heads, -1)
    at_eos = norm.gather(-1, eos).squeeze(-1)  # (batch, heads)
    others = ((norm * keys).sum(dim=-1) - at_eos) / (keys.sum(dim=-1) - 1)
    return (at_eos / others).mean(dim=0)  # (heads,)


norms = {}  # model, layer -> (heads,), for heads with enough weight on <eos>
for label, net, recorded, ids in (
    ("pocket-small", model, weights, source),
    ("everyday", everyday_model, everyday_weights, everyday_source),
):
    with torch.no_grad():
        memory, _ = net.encode(ids.to(device))
    for name in [name for name in recorded if "cross" in name]:
        target_ids = target if net is model else everyday_target
        eos_keys = key_tables(target_ids, ids, causal=False)["special token"]
        weight = mean_weight(recorded[name], eos_keys)
        with torch.no_grad():
            norm = relative_norm_at_eos(net, name, memory, ids)
        norms[label, short(name)] = norm.cpu()[weight >= 0.15]
for (label, layer), ratios in norms.items():
    if len(ratios):
        print(f"{label + ', ' + layer:21}", *(f"{ratio:.2f}" for ratio in ratios))

# %% tags=["remove-cell"]
assert (
    0.4
    < norms["everyday", "cross 1"].min()
    < norms["everyday", "cross 1"].max()
    < 1
)
assert not len(norms["pocket-small", "cross 1"])
for layer in ("cross 2", "cross 3"):
    assert norms["everyday", layer].max() < 0.36
assert len(norms["pocket-small", "cross 2"]) == 4
assert norms["pocket-small", "cross 2"][2] < 0.36
assert norms["pocket-small", "cross 2"][[0, 1, 3]].min() > 0.9
assert on_eos[real_labels & begins].mean() < 0.15
assert on_eos[continues].mean() > 0.6 and on_eos[is_eos].mean() > 0.8

# %% [markdown]
# In *cross 2* and *cross 3* of `everyday`, `<eos>` is a sink that adds little; in *cross 1*, less clearly so. In *cross 2* of `pocket-small`, that holds for only one head of four.
#
# <details><summary>A third trap: position 3 isn't word 3</summary>
#
# After the first layer, a vector also contains information from other positions, so a weight on position 3 in layer 2 isn't a weight on word 3 alone. **Attention rollout** ([Abnar and Zuidema, 2020](https://aclanthology.org/2020.acl-main.385/)) combines the weights of all layers into a rough estimate of how much each word contributes. It averages the heads of each layer, averages the result with the identity matrix (for the residual connection), and multiplies these matrices. It ignores the values, so it can't notice an attention sink, and it ignores the feed-forward networks.
#
# </details>

# %% [markdown]
# ## Does the model need it? Ablation
#
# From here to the summary, all heads are those of `pocket-small`. To find out what a part contributes, remove it and see what changes. This is an **ablation**. An attention layer's output is the sum of what its heads contribute, each through its own rows of $W^O$. To ablate a head, we set its part of the input of $W^O$ to zero (*zero ablation*), in a *pre-hook*, which is called before a module runs and may replace its inputs. Here is `english`, the sentence from the top, translated without the noun head:

# %%
name, h = "encoder.1.self_attention", 3  # the noun head
layer, d_head = model.get_submodule(name), model.config.d_model // 4
part = slice(h * d_head, (h + 1) * d_head)  # of the input of W_O


def zero_head(module, args):
    x = args[0].clone()
    x[..., part] = 0
    return (x,)


with layer.output.register_forward_pre_hook(zero_head):  # removed at the end
    (by_hand,) = translator.greedy_search([english])
print(fill(by_hand, 48))

# %% tags=["remove-cell"]
assert (name, h) == noun_head and by_hand == without_head
eight = source[:8].to(device), target[:8].to(device)
with torch.no_grad(), ablate_heads(model, {name: [h]}):
    by_hook = model(*eight)
with torch.no_grad():
    original = layer.output.weight.clone()
    # columns, since PyTorch stores the transpose of W_O
    layer.output.weight[:, h * d_head : (h + 1) * d_head] = 0
    assert_close(by_hook, model(*eight), atol=1e-4, rtol=1e-4)
    layer.output.weight.copy_(original)

# %% [markdown]
# These are the errors from the top. From now on, we ablate heads with the package's `ablate_heads`.
#
# We measure the damage by the loss and by **exact match**, the share of sentences whose greedy translation equals the reference, on the first hundred of our 200 pairs.
#
# <details><summary>Why this needs no search</summary>
#
# Greedy search generates the reference if and only if the correct token has the highest logit at every position. One pass with teacher forcing gives all these logits.
#
# </details>

# %%
inputs = source[:100].to(device), target[:100].to(device)
answer = labels[:100].to(device)
real = answer != PAD


@torch.no_grad()
def evaluate():
    """Return the loss per token, the rate of exact matches, and all predictions."""
    logits = model(*inputs)
    predicted = logits.argmax(dim=-1).masked_fill(~real, PAD)
    loss = F.cross_entropy(logits[real], answer[real]).item()
    exact = (predicted == answer).all(dim=1).float().mean().item()
    return loss, exact, predicted


# %%
loss, exact, _ = evaluate()
print(f"loss {loss:.3f}, exact match {exact:.0%}")

# %% tags=["remove-cell"]
searched = greedy_search(model, inputs[0])
by_search = [
    tokenizer.encode(p.target) == s for p, s in zip(pairs, searched, strict=False)
]
assert math.isclose(sum(by_search) / len(by_search), exact, abs_tol=1e-6)

# %% [markdown]
# The intact model is nearly perfect on these simple sentences. Now we ablate one head at a time:

# %%
heads = [(name, h) for name in weights for h in range(4)]
alone = {}  # head -> loss and exact match without it
for name, h in heads:
    with ablate_heads(model, {name: [h]}):
        alone[name, h] = evaluate()[:2]

# %% tags=["hide-input"]
layers = [short(name) for name in weights]
exact_left = torch.tensor([alone[head][1] for head in heads]).view(-1, 4)
rise = torch.tensor([alone[head][0] for head in heads]).view(-1, 4) - loss
Picture(
    heat_map(
        exact_left,
        layers,
        [f"head {h + 1}" for h in range(4)],
        title="Exact match without this head",
    ),
    alt=(
        "A grid with a row for each layer and a column for each head: the share of "
        "sentences that are still translated exactly with this head ablated. Most "
        "cells are above 0.9. Encoder layer 2, head 4 has by far the lowest, 0.2; two "
        "heads of the decoder's first self-attention follow with about a half and "
        "two thirds."
    ),
    caption=(
        "Exact match after ablating each head alone. Most heads hardly "
        "matter, but without the darkest one most translations are wrong."
    ),
)

# %% tags=["remove-cell"]
assert heads[int(exact_left.argmin())] == noun_head
assert 0.1 < exact_left.min() < 0.3
assert exact_left.flatten().sort().values[1] > exact_left.min() + 0.1
assert exact_left[-1].min() > 0.9 and rise[-1].min() > loss

# %% [markdown]
# The darkest cell is the noun head: without it, only about a fifth of the sentences are still right. Two heads of *self 1* matter, too. What goes wrong without them? The table counts two kinds of error in all hundred translations; an example for each of the two heads follows.

# %% tags=["hide-input"]
first_hundred = [p.source for p in pairs[:100]]
shorter, repeating, of_examples = {}, {}, {}  # without a head of self 1
look_at = ["The engineer understands the diary.", "This wild dog did not wait."]
print(f"{'self 1':14}  too short  repeats a token")
for h in range(4):
    with ablate_heads(model, {"decoder.0.self_attention": [h]}):
        outputs = translator.greedy_search(first_hundred)
    both = zip(outputs, pairs, strict=False)
    shorter[h] = sum(len(o.split()) < len(p.target.split()) for o, p in both)
    each = [tokenizer.encode(output) for output in outputs]
    repeating[h] = sum(any(a == b for a, b in pairwise(ids)) for ids in each)
    of_examples[h] = [outputs[first_hundred.index(text)] for text in look_at]
    print(f"without head {h + 1}  {shorter[h]:9}  {repeating[h]:15}")
for text, h in zip(look_at, (0, 2), strict=True):
    intact = pairs[first_hundred.index(text)].target
    print(f"\n{text}\n  {intact}")
    print(f"without head {h + 1}:\n  {of_examples[h][look_at.index(text)]}")

# %% tags=["remove-cell"]
assert shorter[0] > 30 > 10 > max(shorter[1], shorter[2], shorter[3])
assert repeating[2] > 25 > 10 > max(repeating[0], repeating[1], repeating[3])
assert translator.greedy_search(look_at) == [
    pairs[first_hundred.index(text)].target for text in look_at
]
assert of_examples[0][0] == "Der Ingenieur das Tagebuch."
assert of_examples[2][1] == "Dieser wilde Hund hat nicht nicht gewartet."

# %% [markdown]
# Without head 1, the model often leaves something out, here the verb *versteht*. Without head 3, it repeats tokens.
#
# Without the noun head, are most of the wrong tokens determiners? The table counts both, without each head of *encoder 2* in turn. The last row is a **mean ablation**: zeros are inputs that $W^O$ hardly ever saw in training, so here the head's output is replaced by its mean over all tokens.


# %% tags=["hide-input"]
@contextmanager
def mean_ablation(name, h):
    """Replace the output of an encoder head by its mean over all tokens."""
    output, kept = model.get_submodule(name).output, {}
    part = slice(h * d_head, (h + 1) * d_head)

    def replace(module, args):
        x = args[0].clone()
        x[..., part] = kept["mean"]
        return (x,)

    hook = output.register_forward_pre_hook(
        lambda _, args: kept.update(input=args[0])
    )
    with torch.no_grad():
        model.encode(source.to(device))
    hook.remove()
    kept["mean"] = kept["input"][source.to(device) != PAD][:, part].mean(dim=0)
    with output.register_forward_pre_hook(replace):
        yield


FORMS = r"(d(er|ie|as|en|em)|(k?ein|mein|sein|ihr|unser|dies|jed)(e[nmrs]?)?)"


def is_determiner(piece):
    return re.fullmatch(FORMS, piece, re.IGNORECASE) is not None


name, h = noun_head
ablations = {"with all heads": ablate_heads(model, {})}
for other in range(4):
    ablations[f"without head {other + 1}"] = ablate_heads(model, {name: [other]})
ablations["mean of head 4"] = mean_ablation(name, h)
wrong_tokens = {}
print(f"{'':14}  wrong tokens  determiners")
for label, ablation in ablations.items():
    with ablation:
        predicted = evaluate()[2]
    wrong = pieces(answer[predicted != answer].tolist())
    found = sum(map(is_determiner, wrong))
    wrong_tokens[label] = len(wrong), found
    print(f"{label:14}  {len(wrong):12}  {found:11}")
everything = pieces(answer[real].tolist())
n_determiners = sum(map(is_determiner, everything))
print(f"of all {len(everything)} tokens, {n_determiners} are determiners")

# %% tags=["remove-cell"]
for label in ("without head 4", "mean of head 4"):
    n_wrong, found = wrong_tokens[label]
    assert n_wrong > 50 and found / n_wrong > 0.6, label
assert 0.15 < n_determiners / len(everything) < 0.17
by_zero, by_mean = (
    wrong_tokens[label][0] for label in ("without head 4", "mean of head 4")
)
assert 0.8 * by_zero < by_mean < by_zero
assert (best["previous"]["layer"], best["previous"]["head"]) == ("encoder 2", 1)
assert round(best["previous"]["score"], 2) == 0.44
assert wrong_tokens["without head 1"][0] <= wrong_tokens["with all heads"][0]

# %% [markdown]
# Without head 4, most wrong tokens are determiners, which make up only about a sixth of all tokens. The mean ablation does nearly as much damage, so the zeros aren't to blame. Head 1, with the strongest previous-token pattern of the encoder, isn't needed for any of these sentences. **A pattern doesn't mean that the model needs the head.**
#
# What does the model write instead? Here are all confusions of determiners that occur at least three times:

# %% tags=["hide-input"]
with ablate_heads(model, {name: [h]}):
    predicted = evaluate()[2][real].tolist()
confused = Counter(
    (right, guess)
    for right, guess in zip(everything, pieces(predicted), strict=True)
    if right != guess and is_determiner(right)
)
often = [(f"{a} → {b}", n) for (a, b), n in confused.most_common() if n >= 3]
for i in range(0, len(often), 2):
    print("".join(f"{text:14}{n:3}      " for text, n in often[i : i + 2]).rstrip())
PLURALS = {("der", "die"), ("den", "die"), ("das", "die"), ("dem", "den")}
PLURALS.add(("der", "den"))  # dative feminine
articles = Counter()
for (right, guess), n in confused.items():
    if re.fullmatch("d(er|ie|as|en|em)", right.lower()):
        articles[(right.lower(), guess.lower()) in PLURALS] += n
print(f"\nforms of the: {articles.total()} wrong,")
print(f"  {articles[True]} of them as in a plural of the same case")

# %% tags=["remove-cell"]
assert confused.total() == wrong_tokens["without head 4"][1]
assert articles[True] > 0.9 * articles.total()
assert (
    min(confused["den", "die"], confused["dem", "den"]) > 8 > confused["den", "dem"]
)
assert noun_checks["the same, untrained"][0] < 0.1
usual = {
    right: max((n, b) for (a, b), n in confused.items() if a == right)[1]
    for right in ("Ein", "ein", "einen")
}
assert usual == {"Ein": "Eine", "ein": "eine", "einen": "eine"}

# %% [markdown]
# Compare this with the table of articles: nearly all wrong forms of *the* are in the last column of the correct row. *ein* (*a*) has no plural, and mostly becomes the feminine *eine*. So the model loses gender and number, but mostly keeps the case: where it needs an accusative, it writes *die*, and for a dative, *den*.
#
# **Try it.** Ablate head 4 in layer 2 of the encoder and watch the articles: in a live notebook, run the next cell; in the book, go to the [live translator](../book/live.md) and choose *the pocket corpus*.

# %% tags=["skip-execution"]
from transformer.interactive import live_translator

live_translator(translator, [english, "He had to look for the picture."])

# %% [markdown]
# ### Effects that don't add up
#
# What if all four heads of a layer are ablated at once? We compare the rise in loss with the sum of the four rises for single heads:

# %%
together = {}
print(f"{'':9}  sum of single heads  whole layer")
for name in weights:
    with ablate_heads(model, {name: range(4)}):
        together[name] = evaluate()[0] - loss
    apart = sum(alone[name, h][0] - loss for h in range(4))
    print(f"{short(name):9}  {apart:19.2f}  {together[name]:11.2f}")

# %% tags=["remove-cell"]
times = {n: together[n] / row.sum() for n, row in zip(weights, rise, strict=True)}
assert times["decoder.1.cross_attention"] > 5
assert times.pop(noun_head[0]) < 1.2 and min(times.values()) > 3

# %% [markdown]
# In all layers but *encoder 2*, the loss rises by several times the sum. One explanation is **redundancy**: several heads carry the same information, so the absence of any one goes unnoticed. Heads that take over only when another is ablated are called **backup heads**. Another explanation is that the model breaks down because it was never trained without a whole layer. In *encoder 2*, no other head makes up for the noun head.
#
# How many heads can the model spare? We rank them by the loss without each one, and ablate more and more, starting at either end:


# %%
def exact_without_first(order):
    """Return the exact match with 0, 1, 2, ... heads ablated."""
    ablated, shares = {}, [exact]
    for name, h in order:
        ablated.setdefault(name, []).append(h)
        with ablate_heads(model, ablated):
            shares.append(evaluate()[1])
    return shares


ranked = sorted(heads, key=lambda head: alone[head][0])
least_first = exact_without_first(ranked)
most_first = exact_without_first(reversed(ranked))

# %% tags=["hide-input"]
Picture(
    curves(
        range(len(heads) + 1),
        {"most important first": most_first, "least important first": least_first},
        "heads ablated",
        "Exact match",
    ),
    alt=(
        "Exact match against the number of ablated heads, from 0 to "
        "24. If the most important go first, it is nearly 0 after a handful. If the "
        "least important go first, it hardly falls for the first three, then steadily, "
        "and is 0 with three quarters gone."
    ),
    caption=(
        "Ablating the most important heads first ruins the translations at once; "
        "with the least important first, exact match falls more "
        "slowly."
    ),
)

# %% [markdown]
# It can spare three. But without the eight least important ones, exact match falls several times as far as the sum of their single effects.

# %% tags=["remove-cell"]
lost_alone = sum(exact - alone[head][1] for head in ranked[:8])
assert least_first[3] > exact - 0.03 and most_first[3] < 0.1
assert exact - least_first[8] > 5 * lost_alone, "more than the sum"
assert least_first[18] == 0 and len(heads) == 24

# %% [markdown]
# <details><summary>How many heads can larger models spare?</summary>
#
# [Michel et al. (2019)](https://arxiv.org/abs/1905.10650), *Are Sixteen Heads Really Better than One?*, remove 20% of the heads of a WMT model and 40% of those of BERT without a noticeable loss. [Voita et al. (2019)](https://aclanthology.org/P19-1580/) let an English–Russian model learn, in further training, which heads it can spare: without 38 of its 48 encoder heads, it loses only 0.15 BLEU.
#
# </details>

# %% [markdown]
# ## What does it carry? Activation patching
#
# What information does a head pass on? **Activation patching** ([Vig et al., 2020](https://arxiv.org/abs/2004.12265)) can show this. It takes two sentences of the same length that differ in one word and need different predictions: *The old king …* begins with *Der* in German, because *König* is masculine, and *The old queen …* with *Die*. Run the model on the queen's sentence, and keep its **activations**, the tensors computed on the way. Then run it on the king's, with *one* activation replaced by the queen's. (Papers call these the *clean* and the *corrupted* run.)


# %% tags=["hide-input"]
def patched_runs():
    """Draw two runs of the encoder, and an arrow from one activation to another."""
    with style.in_style():
        figure, axes = style.new_drawing(5, 2.5, (0, 5), (-0.35, 3.15))
        for left, noun, above in (
            (1.2, "queen", "Die"),
            (3.4, "king", "Der or Die?"),
        ):
            xs = [left + 0.62 * i for i in range(3)]
            for x, word in zip(xs, ("The", "old", noun), strict=True):
                axes.text(x, -0.15, word, ha="center", va="center", fontsize=10)
                for y in (0.5, 1.2, 1.9):
                    chosen = (word, y) == (noun, 1.2)
                    colour = style.WRONG if chosen else style.PLAIN
                    axes.add_patch(
                        Rectangle(
                            (x - 0.2, y - 0.18), 0.4, 0.36, edgecolor=colour,
                            facecolor=colour if chosen else "none", linewidth=2,
                        )
                    )  # fmt: skip
            draw_arrow(axes, (xs[1], 2.2), (xs[1], 2.55))
            axes.text(xs[1], 2.75, above, ha="center", va="center", fontsize=11)
        for y, label in (
            (0.5, "embedding"),
            (1.2, "after layer 1"),
            (1.9, "after layer 2"),
        ):
            axes.text(0.93, y, label, ha="right", va="center", fontsize=9)
        axes.plot(
            [2.44, 2.44, 4.64], [1.02, 0.85, 0.85], color=style.WRONG, linewidth=1.4
        )
        draw_arrow(axes, (4.64, 0.85), (4.64, 1.02), style.WRONG)
    return figure


Picture(
    patched_runs(),
    alt=(
        "Two grids of vectors, with a column for each of three words and a row for each "
        "of embedding, layer 1 and layer 2. The left one is for The old queen, and Die is "
        "above it. The right one is for The old king, with the question Der or Die "
        "above it. An arrow leads from the vector of queen after layer 1 to that of king."
    ),
    caption=(
        "Activation patching: in the run on the king's sentence, one vector is replaced "
        "by the one from the run on the queen's. Does the first word change?"
    ),
)

# %% [markdown]
# If the prediction becomes the queen's, the information that makes the difference passes through this activation. An ablation tests whether a part is *necessary* for a prediction, and a patch like this one whether it is *sufficient* to change it.
#
# We take ten masculine and ten feminine nouns, always as the third token:

# %%
masculine = (
    "king painter brother doctor farmer teacher baker neighbour judge prince"
)
feminine = (
    "queen sister mother actress cow snake princess grandmother woman daughter"
)


def ids_of_sentences(nouns):
    texts = [f"The old {noun} is very tired." for noun in nouns.split()]
    encoded = [translator.encode(text) for text in texts]
    return torch.tensor(encoded, device=device)  # (10, 8)


kings, queens = ids_of_sentences(masculine), ids_of_sentences(feminine)

# %% [markdown]
# We subtract the logit of *Der* at the decoder's first position from that of *Die*, and take the mean over the ten sentences:

# %%
der, die = (tokenizer.encode(word)[0] for word in ("Der", "Die"))


@torch.no_grad()
def die_minus_der(source):
    bos = torch.full((len(source), 1), BOS, device=device)
    logits = model(source, bos)[:, 0]  # (10, vocab_size)
    return (logits[:, die] - logits[:, der]).mean().item()


low, high = die_minus_der(kings), die_minus_der(queens)
print("logit of Die minus logit of Der")
print(f"kings {low:.1f}, queens {high:.1f}")

# %% [markdown]
# Now we patch the encoder's residual stream, as in the drawing: one vector in the run on `kings` comes from the run on `queens`. The effect is how far this moves the logit difference: 0 is that of `kings`, and 1 that of `queens`.


# %%
def effect_of_patch(module, select):
    kept = {}

    def keep(module, args, output):
        kept["output"] = output

    def patch(module, args, output):
        output = output.clone()
        output[select] = kept["output"][select]
        return output  # replaces the module's output

    with module.register_forward_hook(keep):
        die_minus_der(queens)
    with module.register_forward_hook(patch):
        return (die_minus_der(kings) - low) / (high - low)


# %%
by_position = torch.tensor(
    [
        [effect_of_patch(module, (slice(None), i)) for i in range(8)]
        for module in (model.source_embedding, *model.encoder)
    ]
)

# %% [markdown]
# Before you look: at which position will a patch after layer 2 matter? In the second figure, we patch the output of a single head, at all positions.


# %% tags=["hide-input"]
def effect_of_head(name, h):
    """Patch the output of one head: its part of the input of W_O."""
    layer, kept = model.get_submodule(name), {}
    part = slice(
        h * layer.d_model // layer.n_heads, (h + 1) * layer.d_model // layer.n_heads
    )

    def patch(module, args):
        x = args[0].clone()
        x[..., part] = kept["input"][..., part]
        return (x,)

    keep = layer.output.register_forward_pre_hook(
        lambda _, args: kept.update(input=args[0])
    )
    with keep:
        die_minus_der(queens)
    with layer.output.register_forward_pre_hook(patch):
        return (die_minus_der(kings) - low) / (high - low)


by_head = torch.tensor(
    [
        [effect_of_head(f"encoder.{layer}.self_attention", h) for h in range(4)]
        for layer in range(2)
    ]
)
labels_of_positions = ["The", "old", "king", *pieces(kings[0, 3:].tolist())]
Row(
    Picture(
        heat_map(
            by_position.round(decimals=2) + 0.0,  # no -0.00
            ["embedding", "after layer 1", "after layer 2"],
            labels_of_positions,
            title="Effect of patching one vector",
        ),
        alt=(
            "Effect of a patch at each stage of the encoder and each position. At the "
            "embedding and after layer 1 only the position of king has one, 1.00 and "
            "0.99. After layer 2 only the position of The does, with 0.98."
        ),
    ),
    Picture(
        heat_map(
            by_head.round(decimals=2) + 0.0,
            ["layer 1", "layer 2"],
            [f"head {h + 1}" for h in range(4)],
            title="Effect of patching one head",
        ),
        alt=(
            "Effect of patching each head of the encoder: 0.98 for head 4 of "
            "layer 2, and about 0 for all others."
        ),
    ),
    caption=(
        "Patches that turn “Der” into “Die” are bright: the noun's vector before layer "
        "2, the article's vector after layer 2, and the output of a single head."
    ),
)

# %% tags=["remove-cell"]
expected = torch.zeros(3, 8)
expected[0, 2] = expected[1, 2] = expected[2, 0] = 1
assert_close(by_position, expected, atol=0.03, rtol=0)
expected = torch.zeros(2, 4)
expected[1, 3] = 1
assert_close(by_head, expected, atol=0.03, rtol=0)
assert 0.975 <= by_head[1, 3] < 0.985 and low < -9 and high > 9

# %% [markdown]
# After layer 1, the gender that decides between *Der* and *Die* is still at the noun. After layer 2, **it is at the article**. And patching the noun head alone has 98% of the full effect. So for this choice, the head is sufficient; the ablation, on other sentences, showed that it is necessary, too.
#
# But what does the head copy, the gender or the whole noun? **At the article's position**, we replace only this head's output, and translate the sentence. Here are the first three words before and after the patch, and at the end a singular noun patched with a plural:


# %% tags=["hide-input"]
def translate(sentences):
    encoded = torch.tensor(
        [translator.encode(text) for text in sentences], device=device
    )
    return [tokenizer.decode(ids) for ids in greedy_search(model, encoded)]


def translate_with_patch(sentence, other):
    """Translate with the noun head's output at position 0 taken from the other sentence."""
    name, h = noun_head
    output, kept = model.get_submodule(name).output, {}
    part = slice(h * d_head, (h + 1) * d_head)

    def patch(module, args):
        x = args[0].clone()
        x[:, 0, part] = kept["input"][:, 0, part]
        return (x,)

    hook = output.register_forward_pre_hook(
        lambda _, args: kept.update(input=args[0])
    )
    translate([other])
    hook.remove()
    hook = output.register_forward_pre_hook(patch)
    (translation,) = translate([sentence])
    hook.remove()
    return translation


before, after = {}, {}
for king, queen in zip(masculine.split(), feminine.split(), strict=True):
    sentence, other = (f"The old {noun} is very tired." for noun in (king, queen))
    before[king] = translate([sentence])[0].split()
    after[king] = translate_with_patch(sentence, other).split()
    print(
        f"{' '.join(before[king][:3]):16} {' '.join(after[king][:3]):16} + {queen}"
    )
plural_patch = translate_with_patch("The old king slept.", "The old kings slept.")
print(f"\n{translate(['The old king slept.'])[0]}\n{plural_patch}  + kings")

# %% tags=["remove-cell"]
assert len(before) == 10
for king, patched in after.items():
    assert (before[king][0], patched[0]) == ("Der", "Die")
    assert patched[2:] == before[king][2:]
assert " ".join(after["king"]) == "Die alte König ist sehr müde."
assert after["painter"][1] == "alten"
assert plural_patch.split()[2:] == ["König", "haben", "geschlafen."]

# %% [markdown]
# The article becomes *Die* every time, but the noun stays: *König* remains *König*. This isn't just the damage of an ablation, which had led to the plural *strengen*: nine of ten adjectives remain the singular *alte*. With the head's output from *kings*, the verb becomes plural, too: *haben*. **The head copies the noun's gender and number to the article**, where the decoder finds them when it translates *The*.
#
# ## Summary: what the noun head does
#
# Each step from *king* to *Der* has its evidence:


# %% tags=["hide-input"]
def chain(steps):
    """Draw nodes from top to bottom, and next to each arrow the evidence for it."""
    nodes = ["king", "noun head", "The", "cross-attention", "Der"]
    with style.in_style():
        figure, axes = style.new_drawing(5, 4.1, (0, 5), (-4.45, 0.45))
        for i, node in enumerate(nodes):
            part = node in ("noun head", "cross-attention")
            colour = style.QUERY if part else style.PLAIN
            draw_box(axes, 0.85, -i, node, colour, 1.2, fill=0.15 if part else 0)
        for i, text in enumerate(steps):
            draw_arrow(axes, (0.85, -i - 0.34), (0.85, -i - 0.66), style.INK)
            axes.text(1.75, -i - 0.5, text, ha="left", va="center", fontsize=9)
    return figure


Picture(
    chain(
        [
            f"The vector at king has the gender after layer 1:\npatching it has an effect of {by_position[1, 2]:.2f}.",
            f"Patching only this head has an effect of {by_head[1, 3]:.2f},\nthe other heads about 0. Ablated: wrong articles.",
            f"After layer 2, patching the vector at The has an\neffect of {by_position[2, 0]:.2f}, and at king of {by_position[2, 2]:.2f}.",
            "The decoder reads the encoder's output only here,\nand the patch at The turns Der into Die.",
        ]
    ),
    alt=(
        "A chain from top to bottom: king, noun head, The, cross-attention, Der. Beside "
        "each arrow is its evidence: patching king after layer 1, patching and ablating "
        "the noun head, patching The after layer 2, and that the decoder has no other "
        "access to the encoder."
    ),
    caption="How the gender of king gets to Der in pocket-small, and the evidence for each step.",
)

# %% tags=["remove-cell"]
assert by_position[1, 2] > 0.98 and by_position[2, 0] > 0.97
assert abs(by_position[2, 2]) < 0.02
assert 0.955 <= noun_checks["pocket-small, noun head"][0] < 0.965
assert round(exact, 2) == 0.99 and round(exact_left.min().item(), 1) == 0.2
n_wrong, found = wrong_tokens["without head 4"]
assert 0.7 < found / n_wrong < 0.82

# %% [markdown]
# And our three questions have answers:
#
# - **As a rule?** Over 200 pairs, determiners put 0.96 of their weight on their nouns, near or distant. In an untrained head, it is less than a tenth.
# - **Needed?** Yes: without it, exact match falls from 99% to about 20%, and about three quarters of the wrong tokens are determiners.
# - **What does it carry?** Gender and number, from the noun to the article; not the noun itself. The case must come from elsewhere.
#
# Explaining models by such experiments on their parts is called **mechanistic interpretability**.

# %% [markdown]
# ## Three more tools
#
# This section is optional. Its tools compare attention with known word alignments, find two heads that work together, and show at which layer a prediction appears.

# %% [markdown]
# ### Cross-attention as a word aligner
#
# Does cross-attention show which English word a German word translates? The pocket corpus comes with the **alignment** of each pair, the true links between words, called *gold links*. Let $A$ be the links that an **aligner** proposes, here a head, and $S$ the gold links. If all links are certain, as here, the **alignment error rate** ([Och and Ney, 2003](https://aclanthology.org/J03-1002/)) is
#
# $$ \mathrm{AER} = 1 - \frac{2\,|A \cap S|}{|A| + |S|} $$
#
# *The child gave up.* and *Das Kind gab auf.* have seven gold links, since both words of *gave up* are linked to both of *gab auf*. So even with one correct link for each German word, the AER is $1 - 2 \cdot 5 / (5 + 7) = 0.17$; with one wrong link it is higher. The second cell prints the best possible AER over our 200 pairs:


# %%
def error_rate(proposed, gold):
    """The AER over a test set: for each sentence its (source, target) links."""
    both = list(zip(map(set, proposed), map(set, gold), strict=True))
    right = sum(len(a & s) for a, s in both)
    return 1 - 2 * right / sum(len(a) + len(s) for a, s in both)


gold = [(0, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 3), (4, 4)]
for label, linked in (("all links right", 3), ("one link wrong", 1)):
    proposed = [(0, 0), (1, 1), (2, 2), (linked, 3), (4, 4)]
    print(f"{label:15} AER {error_rate([proposed], [gold]):.2f}")

# %% tags=["hide-input"]
# One link for each German word, a correct one if there is any.
ideal = [
    [
        (next((i for i, k in p.alignment if k == j), -1), j)
        for j in range(len(p.target_words))
    ]
    for p in pairs
]
golds = [pair.alignment for pair in pairs]
print(f"200 pairs, best possible AER {error_rate(ideal, golds):.2f}")

# %% [markdown]
# We **add** the columns of an English word's tokens, **average** the rows of a German word's tokens, and link each German word to the English word with the largest weight. But a German word has two rows: the one that **predicts** it, whose input is the token *before* it, and the one that **reads** it. Here are both, for the head of `pocket-small` with the lowest AER:


# %% tags=["hide-input"]
def weights_between_words(weights, pair, shift, tokenizer=tokenizer):
    """(..., query, key) → (..., German word, English word)"""
    keys = words_of_pieces(pair.source, pair.source_words, tokenizer)
    queries = words_of_pieces(pair.target, pair.target_words, tokenizer)
    add = F.one_hot(torch.tensor(keys)).float()  # (tokens, words)
    mean = F.one_hot(torch.tensor(queries)).float()
    rows = weights[..., shift : shift + len(queries), : len(keys)]
    return (mean / mean.sum(dim=0)).T @ rows @ add


def links(between_words):
    return [(i, j) for j, i in enumerate(between_words.argmax(dim=-1).tolist())]


cross = [name for name in weights if "cross" in name]


def error_rates(weights, shift, tokenizer=tokenizer):
    """The AER of each head: (batch, heads, query, key) → list"""
    tables = [
        weights_between_words(w, pair, shift, tokenizer)
        for w, pair in zip(weights, pairs, strict=True)
    ]
    n_heads = weights.size(1)
    return [
        error_rate([links(t[h]) for t in tables], golds) for h in range(n_heads)
    ]


predict_rates = {name: error_rates(weights[name], shift=0) for name in cross}
read_rates = {name: error_rates(weights[name], shift=1) for name in cross}
best_rate, name, h = min(
    (min(r), n, r.index(min(r))) for n, r in predict_rates.items()
)
print(f"lowest: {short(name)}, head {h + 1}, AER {best_rate:.2f}")
example = next(p for p in pairs if p.source == "He had to look for the picture.")
best_aligner = weights[name][:, h]
of_example = best_aligner[pairs.index(example)]


def with_gold(shift, title):
    table = weights_between_words(of_example, example, shift)
    figure = heat_map(
        table, example.target_words, example.source_words, title=title
    )
    (axes,) = figure.axes
    for text in axes.texts:
        if float(text.get_text()) < 0.05:
            text.set_text("")
    for i, j in example.alignment:
        axes.add_patch(
            Rectangle((i, j), 1, 1, fill=False, edgecolor=style.WRONG, linewidth=3)
        )
    return figure


Row(
    Picture(
        with_gold(0, "the row that predicts the word"),
        alt=(
            "Weights of the best head from German words to English ones, each "
            "German word with the row that predicts it. Every bright cell lies in an "
            "orange frame, a gold link."
        ),
    ),
    Picture(
        with_gold(1, "the row that reads the word"),
        alt=(
            "The same head, each German word with the row that reads it. The bright "
            "cells have moved up by one row, and all lie outside the orange frames."
        ),
    ),
    caption=(
        "Cross-attention of one head, with gold links framed; weights below 0.05 have no "
        "number, and the column of the end token is left out. The bright cells match the "
        "frames only if each German word has the row that predicts it."
    ),
)

# %% [markdown]
# With the wrong row, a good aligner looks like a bad one. Here are all cross-attention heads of `pocket-small` and two baselines: *random* picks any English word for each German one, and *diagonal* links the words in order.

# %% tags=["hide-input"]
shapes = [(len(p.target_words), len(p.source_words)) for p in pairs]
dice = random.Random(0)
by_chance = [[(dice.randrange(n), j) for j in range(m)] for m, n in shapes]
diagonal = [
    [(round(j * (n - 1) / (m - 1)), j) for j in range(m)] for m, n in shapes
]
rivals = {
    "random": error_rate(by_chance, golds),
    "diagonal": error_rate(diagonal, golds),
}
names = [f"{short(name)}, head {h + 1}" for name in cross for h in range(4)]
rates = [
    two for n in cross for two in zip(predict_rates[n], read_rates[n], strict=True)
]
with style.in_style():
    figure, axes = style.new_figure(3.6, 0.9 + 0.3 * len(names))
    for y, (one, other) in enumerate(rates):
        axes.plot([one, other], [y, y], color=style.PLAIN, linewidth=1)
        axes.plot(
            one, y, "o", color=style.QUERY, label=None if y else "predicting row"
        )
        axes.plot(
            other, y, "s", color=style.WRONG, label=None if y else "reading row"
        )
    for rival, dashes in zip(rivals, (":", "-."), strict=True):
        axes.axvline(
            rivals[rival],
            color=style.INK,
            linewidth=1,
            linestyle=dashes,
            label=rival,
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.set_title("Alignment error rate", loc="left")
    axes.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.4, -0.1), ncols=2)
Picture(
    figure,
    alt=(
        "Alignment error rates, a row for each cross-attention head: a dot for the "
        "row that predicts the word, a square for the one that reads it. All squares "
        "are at about 0.9, near the line of random links. The dots lie between 0.1 and "
        "0.3, all of them left of the diagonal's line."
    ),
    caption=(
        "Alignment error of each cross-attention head of pocket-small. Rows that predict "
        "a word (dots) align far better than rows that read it (squares)."
    ),
)

# %% [markdown]
# With the predicting rows, every head beats the diagonal, although the model was never trained to find links. Is this always the right row? Here are the six heads of *cross 1* in `everyday`:

# %% tags=["hide-input"]
everyday_cross = everyday_weights["decoder.0.cross_attention"]
everyday_predicts, everyday_reads = (
    torch.tensor(error_rates(everyday_cross, shift, everyday.tokenizer))
    for shift in (0, 1)
)
print("head           ", *(f"{h + 1:4}" for h in range(6)))
for label, values in (
    ("predicting row ", everyday_predicts),
    ("reading row    ", everyday_reads),
):
    print(label, *(f"{rate:.2f}" for rate in values))

# %% tags=["remove-cell"]
assert len(tokenizer.encode(example.target)) == len(example.target_words)
assert set(links(weights_between_words(of_example, example, 0))) <= set(
    example.alignment
)
for name in cross:
    assert min(read_rates[name]) > 0.8
    assert max(predict_rates[name]) < rivals["diagonal"]
assert rivals["diagonal"] < rivals["random"]
assert 0.04 < error_rate(ideal, golds) < best_rate
assert len(everyday_reads) == 6 and (everyday_reads < everyday_predicts).sum() == 3
assert everyday_reads[3] < 0.25 < 0.6 < everyday_predicts[3]

# %% [markdown]
# Three of them align better with the *reading* row, so measure both, and report which one you used.

# %% [markdown]
# ### Induction heads
#
# Many language models have **induction heads**, which attend to the token *after* an earlier occurrence of the current one, and so help to predict `B` after `… A B … A`. [Olsson et al. (2022)](https://arxiv.org/abs/2209.11895) argue that this is a main mechanism of **in-context learning**, the ability to pick up a pattern from the prompt.
#
# This takes two layers. A head in the first attends to the previous token, so the vector at each position also contains the token before it. A head in the second then searches for a position whose *previous* token equals the current one. We train two tiny models, with one and two layers of one head each, on sequences in which 6 to 12 random tokens repeat:


# %%
class AttentionOnly(nn.Module):
    def __init__(self, n_layers, vocab_size=32, d_model=64):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Parameter(0.1 * torch.randn(24, d_model))
        self.layers = nn.ModuleList(
            MultiHeadAttention(d_model, n_heads=1) for _ in range(n_layers)
        )
        self.output = nn.Linear(d_model, vocab_size)

    def forward(self, ids):  # (batch, length) → (batch, length, vocab_size)
        x = self.embedding(ids) + self.positions[: ids.size(1)]
        for layer in self.layers:
            x = x + layer(F.layer_norm(x, x.shape[-1:]), is_causal=True)
        return self.output(F.layer_norm(x, x.shape[-1:]))


# %% tags=["hide-cell"]
def repeated_tokens(n=64, length=24):
    """Random sequences of 6 to 12 different tokens that repeat, and their periods."""
    period = torch.randint(6, 13, (n, 1))
    tokens = torch.rand(n, 32).argsort(dim=-1)  # a random order of all tokens
    return tokens.gather(1, torch.arange(length) % period), period


def train(n_layers, steps=300):
    torch.manual_seed(0)
    model, accuracies = AttentionOnly(n_layers), []
    adam = torch.optim.Adam(model.parameters(), lr=5e-3, fused=True)
    for _ in range(steps):
        ids, period = repeated_tokens()
        logits, next_ids = model(ids[:, :-1]), ids[:, 1:]
        repeats = torch.arange(1, 24) >= period + 1  # predictable tokens only
        loss = F.cross_entropy(logits[repeats], next_ids[repeats])
        adam.zero_grad()
        loss.backward()
        adam.step()
        right = logits.argmax(dim=-1) == next_ids
        accuracies.append(right[repeats].float().mean().item())
    return model, accuracies


# %% [markdown]
# `train` returns the model and its accuracy on the repeated tokens in each of 300 steps:

# %%
(_, one_layer), (induction, two_layers) = train(1), train(2)


# %% tags=["hide-input"]
def induction_weights(ids):
    """Return the weights of each layer's head, [(batch, n, n), ...]."""
    found, mask = [], torch.ones(ids.size(1), ids.size(1)).tril().bool()

    def record(module, args, output):
        query, (key, value) = module.project(args[0])
        found.append(attention(query, key, value, mask)[1][:, 0])

    hooks = [layer.register_forward_hook(record) for layer in induction.layers]
    with torch.no_grad():
        induction(ids)
    for hook in hooks:
        hook.remove()
    return found


torch.manual_seed(1)
seven = induction_weights(torch.randperm(32)[:7].repeat(2)[None])
letters = list("abcdefg" * 2)
accuracies = {"two layers": two_layers, "one layer": one_layer}
Picture(
    curves(
        range(5, 300, 10),
        {
            name: torch.tensor(y).view(-1, 10).mean(1)
            for name, y in accuracies.items()
        },
        "training step",
        "Accuracy on repeated tokens",
    ),
    alt=(
        "Accuracy over 300 training steps. With two layers it jumps from about "
        "0.15 to more than 0.9 between steps 25 and 100. With one layer it rises slowly "
        "and is below 0.4 when training stops."
    ),
    caption=(
        "A model of two layers soon predicts repeated tokens almost perfectly; a "
        "model of one layer stays far behind."
    ),
)

# %% [markdown]
# Here are the weights of the two-layer model for seven random tokens, *a* to *g*, that repeat once. In layer 1, look at the first *a b c …*, and in layer 2 at the second.

# %% tags=["hide-input"]
Row(
    Picture(
        heat_map(seven[0][0], letters, letters, title="layer 1", annotate=False),
        alt=(
            "Weights of the head of layer 1 for seven letters that repeat: in the "
            "first period a bright stripe just below the diagonal."
        ),
    ),
    Picture(
        heat_map(seven[1][0], letters, letters, title="layer 2", annotate=False),
        alt=(
            "Weights of the head of layer 2: in the second half a bright stripe from "
            "the second a to the first b, from the second b to the first c, and so on."
        ),
    ),
    caption=(
        "Two heads that work together: the head of layer 1 attends to the previous token, most clearly in the first period, "
        "and the head of layer 2 to the token after an earlier occurrence."
    ),
)

# %% [markdown]
# Here are the mean weights on the two bright stripes over 64 sequences, and what *uniform* weights would give:

# %% tags=["hide-input"]
test_ids, period = repeated_tokens()
first, second = induction_weights(test_ids)  # each (batch, query, key)
position = torch.arange(24).expand_as(test_ids)
previous_keys = (position - 1).masked_fill(position >= period, -1)
causal = torch.ones(24, 24).tril()
equal = test_ids[:, :, None] == test_ids[:, None, :]
follows = F.pad(equal, (1, 0))[..., :-1] * causal  # an equal, earlier token
even = (causal / causal.sum(dim=-1, keepdim=True)).expand_as(first)
on_previous = [mean_weight(w[:, None], previous_keys).item() for w in (first, even)]
on_followers = [
    (w * follows).sum(dim=-1)[position >= period].mean() for w in (second, even)
]
print(f"{'':33}  head  uniform")
for what, (by_head, uniform) in (
    ("layer 1, previous, first period", on_previous),
    ("layer 2, after earlier occurrence", on_followers),
):
    print(f"{what:33}  {by_head:.2f}  {uniform:7.2f}")

# %% tags=["remove-cell"]
assert two_layers[25] < 0.3 and min(two_layers[100:]) > 0.9 and max(one_layer) < 0.4
assert on_previous[0] > 0.6 and on_followers[0] > 0.9
assert on_previous[0] > 2 * on_previous[1] and on_followers[0] > 2 * on_followers[1]

# %% [markdown]
# The two-layer model soon learns this **circuit**, two heads that work together. The one-layer model can't build it: its head doesn't know what precedes each token, so it can only guess how far back to attend. (With longer training it gets better, but stops far below two layers: see experiment 5.)
#
# Does the two-layer model need both heads? We ablate each, and measure its accuracy on `test_ids`, 64 sequences whose numbers of different tokens are in `period`:

# %%
test_labels, to_predict = test_ids[:, 1:], torch.arange(1, 24) >= period + 1
without_layer = []
for number, layer in enumerate(induction.layers, 1):
    with layer.register_forward_hook(lambda module, args, output: 0 * output):
        predicted = induction(test_ids[:, :-1]).argmax(dim=-1)
    right = (predicted == test_labels)[to_predict].float().mean()
    without_layer.append(right)
    print(f"accuracy without layer {number}'s head: {right:.0%}")

# %% tags=["remove-cell"]
assert max(without_layer) < 1 / 6

# %% [markdown]
# With either head ablated, it is no better than picking one of a sequence's tokens at random.
#
# ### The logit lens
#
# What would the model predict if it had to stop after an earlier layer? In a pre-norm model such as `everyday`, every layer only adds to the residual stream (see [Encoder and decoder layers](06_layers.ipynb)). The **logit lens** ([nostalgebraist, 2020](https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens)) passes the decoder's vectors after any layer, here recorded in `states`, through the final layer norm and the output layer. After the last layer, this must give the model's `logits`:

# %% tags=["hide-cell"]
sentence = "The little girl told her mother that she had lost her new doll."
(translation,) = everyday.greedy_search([sentence])
prefix = [BOS, *everyday.tokenizer.encode(translation)]
states, layers = [], everyday_model.decoder
hooks = [layers[0].register_forward_pre_hook(lambda _, x: states.append(x[0]))]
for layer in layers:
    hooks.append(layer.register_forward_hook(lambda _, x, y: states.append(y)))
with torch.no_grad():
    logits = everyday_model(
        torch.tensor([everyday.encode(sentence)], device=device),
        torch.tensor([prefix], device=device),
    )
for hook in hooks:
    hook.remove()

# %%
with torch.no_grad():
    lens = [
        everyday_model.logits(everyday_model.decoder_norm(state))
        for state in states
    ]
stages = ["embedding", "layer 1", "layer 2", "layer 3"]
assert_close(lens[-1], logits)
print("after layer 3: equal to the model's own logits")

# %% tags=["remove-cell"]
assert everyday_model.config.norm == "pre" and len(states) == len(stages)

# %% [markdown]
# In the figure, each row is a token that the decoder *reads*. Cells show the most probable token after each stage: the brighter, the more probable.

# %% tags=["hide-input"]
probabilities = torch.stack([table[0].softmax(-1).cpu() for table in lens], dim=1)
top, tokens = probabilities.max(dim=-1)  # (position, stage)
figure = heat_map(top, pieces(prefix, everyday.tokenizer), stages)
(axes,) = figure.axes
figure.set_size_inches(4.4, 0.3 * len(prefix))
axes.set_aspect("auto")
for text, token in zip(axes.texts, tokens.flatten().tolist(), strict=True):
    text.set_text(pieces([token], everyday.tokenizer)[0])
axes.set_xticks([i + 0.5 for i in range(4)], stages, rotation=0, ha="center")
Picture(
    figure,
    alt=(
        "A table of predicted tokens, a row for each token that the decoder reads. In "
        "the column of the embedding each token predicts itself. After layer 1 most "
        "still do, after layer 2 many cells show a plausible next word, and after "
        "layer 3 the next word of the translation."
    ),
    caption=(
        "The logit lens: the most probable token after each layer. From left to "
        "right, a row's own token gives way to the next one."
    ),
)

# %% tags=["remove-cell"]
agree = [(table.argmax(-1) == logits.argmax(-1)).float().mean() for table in lens]
row = pieces(prefix, everyday.tokenizer).index("Mädchen")
assert pieces(tokens[row, 2:].tolist(), everyday.tokenizer) == ["hat", "sagte"]
assert round(agree[0].item() * len(prefix)) <= 1 and 0.5 < agree[2] < 0.6
assert (
    translation
    == "Das kleine Mädchen sagte ihrer Mutter, sie habe ihre neue Puppe verloren."
)

# %% [markdown]
# In the first column, each row shows the token that was read, because input and output embeddings share their weights. After layer 2, most rows show a candidate for the next token. But the output layer was trained only on vectors from the last layer, so earlier columns are a rough guide. (The *tuned lens* of [Belrose et al., 2023](https://arxiv.org/abs/2303.08112), trains a correction for each layer.)

# %% [markdown]
# ## What goes wrong in practice
#
# **Only the best example is shown.** For every head, you can find a convincing sentence. Report the mean, the number of cases and a baseline.
#
# **Padding is included.** In a batch, the last column is `<eos>` only for the longest sentence, and shorter ones have padding as queries. Ignore either, and the weight of *encoder 2, head 3* of `pocket-small` on `<eos>` looks smaller:

# %% tags=["hide-input"]
eos_keys = key_tables(source, source, causal=False)["special token"]
table = weights["encoder.1.self_attention"][:, 2:3]
padded = eos_keys.amax(dim=1, keepdim=True).expand_as(eos_keys)
print(f"correct: weight on <eos>  {mean_weight(table, eos_keys).item():.2f}")
print(f"weight on the last column {table[..., -1].mean():.2f}")
print(f"with padding as queries   {mean_weight(table, padded).item():.2f}")

# %% tags=["remove-cell"]
eos_weight = mean_weight(weights["encoder.1.self_attention"], eos_keys)[2]
assert weights["encoder.1.self_attention"][:, 2, :, -1].mean() < eos_weight / 3
assert mean_weight(table, padded).item() < 0.9 * eos_weight

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. In sentences of two tokens, a head without a mask gives the previous token 0.5 on average. What has it learned?**
#
# <details><summary>A. To attend to the previous token, half of the time</summary>
#
# No. With two keys, a head that attends to everything equally gives 0.5 to each. The number means nothing without a baseline.
#
# </details>
# <details><summary>B. To attend to itself, for the other half</summary>
#
# No. Half of the weight does go to the token itself, but that is what equal weights give.
#
# </details>
# <details><summary>C. To attend to nothing</summary>
#
# No. Each row sums to one, so every head attends to something.
#
# </details>
# <details><summary>D. This number doesn't show that it has learned anything</summary>
#
# **Right.** An untrained head has about the same score. Longer sentences or another measure may show more.
#
# </details>
#
# **2. You ablate one head, and the loss doesn't change. What follows?**
#
# <details><summary>A. The head does nothing</summary>
#
# No. Other heads may carry the same information. Then it matters only if they are ablated, too.
#
# </details>
# <details><summary>B. It can be removed together with all other heads for which this is true</summary>
#
# No. The effects of single heads don't add up, as ablating the eight least important heads together showed. These heads may be redundant only as long as the others are there.
#
# </details>
# <details><summary>C. On these sentences, the model doesn't need it as long as all others are there</summary>
#
# **Right.** And no more than that. Other sentences, or ablating other heads with it, may show what it does.
#
# </details>
# <details><summary>D. Its weights are spread evenly</summary>
#
# No. Whether a head has a clear pattern and whether the model needs it are two questions. *encoder 2, head 1* of `pocket-small` has the strongest previous-token pattern of the encoder and isn't needed.
#
# </details>
#
# **3. You patch the vector of *king* after layer 2 with that of *queen*, and the article doesn't change. Has the model lost the gender?**
#
# <details><summary>Answer</summary>
#
# No. At that stage, the article's own vector carries a copy of the gender, and the decoder reads it there. Patching shows which activations this *one* prediction depends on. The noun's vector still contains what the decoder needs for other predictions: with only the article's copy patched, the model wrote *Die alte König*, not *Königin*.
#
# </details>
#
# **4. A head puts 0.9 of its weight on `<eos>`. Does it do nothing?**
#
# <details><summary>Answer</summary>
#
# The weight alone doesn't show that. Look at the norm of what `<eos>` adds: its value, projected by the head's part of $W^O$. If it is much smaller than for other tokens, `<eos>` is an attention sink that adds little. If not, `<eos>` does contribute to the output. In either case, ablate the head and see what changes.
#
# </details>
#
# The last three questions are on the optional tools.
#
# **5. An aligner proposes 10 links, all of them right. There are 14 gold links. What is its AER?**
#
# <details><summary>A. 0, since nothing is wrong</summary>
#
# No. AER also counts what wasn't found, and four links are missing.
#
# </details>
# <details><summary>B. 0.17</summary>
#
# **Right.** 1 − 2 · 10 / (10 + 14) = 4 / 24.
#
# </details>
# <details><summary>C. 0.29</summary>
#
# No. 4 / 14 is the share of gold links that were missed. AER also takes into account that no proposed link is wrong.
#
# </details>
# <details><summary>D. 0.83</summary>
#
# No. That is 20 / 24, which is subtracted from 1. AER is an error rate, so lower is better.
#
# </details>
#
# **6. Why can't an attention model with one layer have an induction head?**
#
# <details><summary>Answer</summary>
#
# The head has to find the token *after* an earlier occurrence of the current one. Its key must encode the token *before* it, but in the first layer, a key depends only on its own token and position. An earlier layer has to bring that information there.
#
# </details>
#
# **7. What does a logit lens show after layer 2, and what doesn't it show?**
#
# <details><summary>Answer</summary>
#
# It shows which token the final layer norm and the output layer would make of the vector at this stage. It doesn't show what layer 3 uses the vector for: information may be there in a form that the output layer was never trained to read.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Five blanks: how much a head attends to the previous token, how spread out its weights are (their entropy, which the notebook defines), which words it links, how such links are scored when some are only possible, and how to ablate a head. Each has a hint and a check that tells you what is wrong.
#
# - In Colab, where the last cell grades your answers:
#   [14_attention_heads](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/14_attention_heads.ipynb).
#   On GitHub: [14_attention_heads.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/14_attention_heads.ipynb).
# - On your machine, open `exercises/14_attention_heads.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade attention_heads
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Five experiments to try</summary>
#
# 1. **More heads.** Score the heads of `"pocket-large"`, which has three layers with six heads in each kind of attention: call `batch_of_pairs`, `noun_table`, `record_all` and `score_heads` for it, as the folded code of the figure with the dots does for `everyday`. Is there a noun head? Ablate it, and count the wrong tokens.
# 2. **Patch something else.** Make the heat map by position for a noun's number (*king*, *kings*) instead of its gender. Is it copied in the same layer?
# 3. **How much redundancy?** In *cross 2* of `pocket-small`, ablate two or three of the four heads. How many must be missing before the loss rises sharply?
# 4. **Both directions.** Also link each English word to the German word with the largest weight in its column, and keep the links that both directions propose. What happens to precision, recall and AER?
# 5. **Induction.** Train the one-layer model for 3,000 steps. Where does its accuracy stop? Then mix random tokens between the repetitions: does the two-layer model still learn the task?
#
# </details>

# %% [markdown]
# ## Going further
#
# - **Other models:** [TransformerLens](https://github.com/TransformerLensOrg/TransformerLens) records and patches the activations of GPT-2 and many other models, with `run_with_cache` and `run_with_hooks`.
# - **Circuits:** [Elhage et al. (2021)](https://transformer-circuits.pub/2021/framework/index.html) explain why induction takes two layers. [Wang et al. (2023)](https://arxiv.org/abs/2211.00593) take apart a circuit of GPT-2 with patching, and find backup heads.
# - **Pitfalls of patching:** [Heimersheim and Nanda (2024)](https://arxiv.org/abs/2404.15255).
# - **Next:** [the Transformer family](15_transformer_family.ipynb) turns this model into BERT, GPT and ViT, and shows what T5 changes.
