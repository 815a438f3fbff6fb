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
# The arcs below show what one attention head of a small English-to-German model attends to: *The* attends to *king*, the first *the* to *baker*, and the second *the* to *tea*. Is finding the noun this head's job? In the last line, the translation without this head, **all three articles are wrong**.

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
from contextlib import contextmanager
from textwrap import fill

import pandas as pd
import torch
import torch.nn.functional as F
from matplotlib.patches import Rectangle
from torch import nn
from torch.testing import assert_close

import transformer
from transformer.attention import MultiHeadAttention, attention
from transformer.data import pocket
from transformer.data.batching import pad
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.decoding import greedy_search
from transformer.inspection import ablate_heads, record_attention, word_indices
from transformer.model import Transformer
from transformer.plots import style
from transformer.plots.ablated_head import ablated_head
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
# The form of a German article depends on its noun's gender, number and *case* (the noun's role in the sentence). (Without the head, *Die strengen … haben* is plural, although *king* and *König* are singular.)
#
# The paper hopes that attention makes a model easier to interpret (§4). We ask three questions about a head: What does it attend to **as a rule**? Does the model **need** it? And which information does it **carry** from one position to another?

# %% [markdown]
# By the end you will be able to record a model's attention weights, tell whether a head's pattern could be chance, explain what a heat map of these weights can't show, and find out what a head contributes by **ablating** it (removing it) and **patching** it (replacing its output by the one it has for another input).
#
# **About 60 minutes.** Builds on [Multi-head attention](03_multi_head_attention.ipynb), [Encoder and decoder layers](06_layers.ipynb) and [Decoding](12_decoding.ipynb).
#
# ## Recording attention weights
#
# Our models use fused attention, which never stores the weights (see [Attention](02_attention.ipynb)). To record them without changing the model's code, we use a **hook**: a function that PyTorch calls after a module has run, with the module's inputs and output. Ours computes the weights once more, with the explicit `attention` function. (`project` makes the queries, keys and values of all heads, and `join_heads` concatenates the heads' outputs.) The model in most of this chapter is `pocket-small`, with two layers in the encoder, two in the decoder, and four heads per attention layer:

# %%
layer, recorded = model.encoder[1].self_attention, {}


def record(module, args, output):
    query, (key, value) = module.project(args[0])
    mixed, recorded["weights"] = attention(query, key, value)
    recorded["by hand"] = module.output(module.join_heads(mixed))
    recorded["fused"] = output


hook = layer.register_forward_hook(record)
with torch.no_grad():
    model.encode(hook_source)
hook.remove()

# %% [markdown]
# To check the recomputed weights, we compare the output that they give with the layer's own:

# %%
assert_close(recorded["by hand"], recorded["fused"], atol=1e-4, rtol=1e-4)
recorded["weights"].shape  # (batch, heads, query, key)

# %% [markdown]
# The package's `record_attention` records all layers at once. We use it on a larger model, `everyday`, with a longer sentence and the model's own translation:

# %% tags=["hide-input"]
everyday = transformer.load("everyday", precision="fp32")
everyday_model = everyday.model
long_english = (
    "The little girl with the red hat told her mother "
    "that she had lost her new doll in the park."
)
((best,),) = everyday.beam_search([long_english])
long_german = best.text
long_ids = (
    everyday.encode(long_english),
    [*everyday.tokenizer.encode(long_german), EOS],
)
with torch.no_grad(), record_attention(everyday_model) as long_weights:
    everyday_model(
        torch.tensor([long_ids[0]], device=device),
        torch.tensor([[BOS, *long_ids[1][:-1]]], device=device),
    )
print(fill(long_english, 50))
print(fill(long_german, 50))
for name, w in long_weights.items():
    print(f"{name:25} {tuple(w.shape)}")

# %% [markdown]
# In figures, tables and text, we count layers and heads from 1, and *cross 2* is the cross-attention of the decoder's layer 2. Code counts from 0: *encoder 2, head 4* is `"encoder.1.self_attention", 3`. (The figure leaves out the decoder's self-attention; we measure it in the next section.) **Choose a head**, and point at a cell, or tap it, to read its weight. In cross-attention, a row is labelled with the token that the decoder *predicts* there. Start with:
#
# - *encoder 3, head 6*: most tokens attend to the one before them.
# - *encoder 2, head 5*: *little* attends to *girl*, *red* to *hat*, and the first *her* to *mother*. A head that finds nouns? Look at its other rows before you read on.
# - *cross 2, head 4*: most German words attend to the English word that they translate. But in the row of *uppe*, the second piece of *Puppe* (doll), the weight goes to `<eos>`. Why? We'll see below.


# %% tags=["hide-input"]
def pieces(ids, tokenizer=tokenizer):
    return [piece.lstrip("▁") for piece in tokenizer.pieces(ids)]


def short(name):
    """encoder.0.self_attention → encoder 1, decoder.1.cross_attention → cross 2."""
    side, layer, kind = name.split(".")
    return f"{side if side == 'encoder' else kind.split('_')[0]} {int(layer) + 1}"


long_reads, long_writes = (pieces(side, everyday.tokenizer) for side in long_ids)
shown = {
    short(name): w[0]
    for name, w in long_weights.items()
    if "decoder" not in name or "cross" in name
}
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
            "word translated there."
        ),
        first=("encoder 3", 5),
    ),
    "Attention weights of the encoder's and the cross-attention's heads, and one of them enlarged: each row is a query and "
    "each column a key; bright cells are large weights.",
)

# %% tags=["remove-cell"]
for name, h, query, key in (
    ("encoder 3", 5, "told", "hat"),
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
# Does *encoder 2, head 5* find nouns? Here are all rows of the sentence above, with their largest weight:

# %% tags=["hide-input"]
looks_like_nouns = shown["encoder 2"][4, :-1]  # without the row of <eos>
largest, at = looks_like_nouns.max(dim=-1)
attended = [
    f"{long_reads[i]} → {long_reads[j]} {w:.2f}"
    for i, (j, w) in enumerate(zip(at.tolist(), largest.tolist(), strict=True))
]
for i in range(0, len(attended), 3):
    print("".join(f"{text:22}" for text in attended[i : i + 3]).rstrip())
next_is_largest = (at.cpu() == torch.arange(len(at)) + 1).sum().item()
print(f"\nlargest weight on the next token: {next_is_largest} of {len(at)} rows")

# %% tags=["remove-cell"]
assert next_is_largest == 19 and len(at) == 21

# %% [markdown]
# In nearly all rows, the largest weight is simply on the *next* token, which in our three examples happens to be the noun. **A few chosen rows of one sentence can show almost anything.**
#
# To describe what a head does in many sentences, we need measures. Take these weights, with a row for each query and a column for each key:

# %%
words = ["the", "dog", "barks", "<eos>"]
head = torch.tensor(
    [
        [0.1, 0.7, 0.1, 0.1],  # the
        [0.6, 0.2, 0.1, 0.1],  # dog
        [0.1, 0.6, 0.1, 0.2],  # barks
        [0.0, 0.1, 0.1, 0.8],  # <eos>
    ]
)

# %% [markdown]
# **Does the head attend to the previous token?** *dog*, *barks* and `<eos>` give the token before them 0.6, 0.6 and 0.1. *the* has no previous token and doesn't count. The mean is $1.3 / 3 \approx 0.43$.
#
# **How much does it attend to `<eos>`?** The mean of the last column is $(0.1 + 0.1 + 0.2 + 0.8) / 4 = 0.30$.
#
# Both measures pick one key for each query, and average the weights on these keys. One function does this for a batch and all heads. `keys` gives, for each query, the position of the key that we're interested in, or −1 to skip that query:


# %%
def mean_weight(weights, keys):
    """(batch, heads, query, key), (batch, query) → (heads,)"""
    counts = keys >= 0  # (batch, query)
    index = keys.clamp(min=0)[:, None, :, None]  # (batch, 1, query, 1)
    index = index.expand(-1, weights.size(1), -1, 1)
    found = weights.gather(-1, index).squeeze(-1)  # (batch, heads, query)
    return (found * counts[:, None]).sum((0, 2)) / counts.sum()


previous, eos = torch.tensor([[-1, 0, 1, 2]]), torch.tensor([[3, 3, 3, 3]])
assert_close(mean_weight(head[None, None], previous), torch.tensor([1.3 / 3]))
assert_close(mean_weight(head[None, None], eos), torch.tensor([0.30]))

# %% [markdown]
# Is 0.43 a lot? With equal weights, the previous one of four tokens gets 0.25. **A score means nothing without a baseline.** So we score `pocket-small` and an untrained model with the same architecture, on 200 pairs from the test set of the pocket corpus, with teacher forcing.
#
# The figure has a row for each measure and a dot for each head; grey marks are untrained heads. *self* is the decoder's self-attention. *its noun* is the weight that a **determiner** (an article, or a word such as *his*) puts on its noun. **Point at a dot, or tap it,** and the same head turns orange in all rows of its kind of attention. The menu switches to `everyday`.
#
# <details><summary>The other measures</summary>
#
# In self-attention, *same position* is the weight that a token puts on itself. In cross-attention, take the row that predicts German token number $i$. There, *previous* is the weight on English token $i-1$, *same position* that on token $i$, and *next* that on token $i+1$.
#
# The folded table has two more measures. *special token* is the weight on `<bos>` in *self*, and on `<eos>` elsewhere. *sharpness* comes from the **entropy** of a row, which measures how evenly the weight is spread. For *the* in the example, it is $-0.7 \ln 0.7 - 3 \cdot 0.1 \ln 0.1 \approx 0.94$. Its maximum, with the same weight on all keys, is $\ln 4 \approx 1.39$. We define sharpness as $1 - 0.94 / 1.39 = 0.32$: it is 1 if one key has all the weight, and 0 if all keys share it equally.
#
# </details>

# %% tags=["hide-cell"]
pairs = pocket.pairs("test", 200)


def batch_of_pairs(tokenizer):
    """Return the source, what the decoder reads, and what it should predict."""
    source = pad([[*tokenizer.encode(p.source), EOS] for p in pairs])
    full = pad([[BOS, *tokenizer.encode(p.target), EOS] for p in pairs])
    target = full[:, :-1]
    return source, target.masked_fill(target == EOS, PAD), full[:, 1:]


def record_all(model, source, target):
    with torch.no_grad(), record_attention(model) as weights:
        model(source.to(device), target.to(device))
    return {name: w.cpu() for name, w in weights.items()}


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


def sharpness(weights, queries, keys, causal):
    """Return the mean of 1 - entropy / its maximum over the rows, (heads,)."""
    place = torch.arange(queries.size(1)).expand_as(queries)
    visible = place + 1 if causal else (keys != PAD).sum(-1, keepdim=True)
    counts = (queries != PAD) & (visible > 1)
    most = visible[:, None].clamp(min=2).log()
    ratio = torch.special.entr(weights).sum(-1) / most  # (batch, heads, query)
    return 1 - (ratio * counts[:, None]).sum((0, 2)) / counts.sum()


def score_heads(weights, source, target, noun_keys):
    """Return a table with the scores of all heads in all measures."""
    rows = []
    for name, w in weights.items():
        who = sides(name, source, target)
        scores = {m: mean_weight(w, keys) for m, keys in key_tables(*who).items()}
        scores["sharpness"] = sharpness(w, *who)
        if name.startswith("encoder"):
            scores["its noun"] = mean_weight(w, noun_keys)
        for measure, values in scores.items():
            for head, value in enumerate(values.tolist(), 1):
                rows.append((short(name), head, measure, value))
    table = pd.DataFrame(rows, columns=["layer", "head", "measure", "score"])
    return table.assign(kind=table["layer"].str.split().str[0])


def untrained(config):
    torch.manual_seed(0)
    return Transformer(config).eval().to(device)


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


# %% tags=["hide-cell"]
source, target, labels = batch_of_pairs(tokenizer)
noun_keys = noun_table(source, tokenizer)
weights = record_all(model, source, target)
random_weights = record_all(untrained(model.config), source, target)
trained = score_heads(weights, source, target, noun_keys)
random_scores = score_heads(random_weights, source, target, noun_keys)
by_measure = ["kind", "measure"]
best = trained.loc[trained.groupby(by_measure, sort=False)["score"].idxmax()]
best_untrained = random_scores.groupby(by_measure)["score"].max()
print(f"{'best trained head':17}  {'measure':13}  score  untrained")
for row in best.itertuples():
    which = f"{row.layer}, head {row.head}"
    other = best_untrained[row.kind, row.measure]
    print(f"{which:17}  {row.measure:13}  {row.score:5.2f}  {other:9.2f}")

# %% tags=["hide-input"]
everyday_source, everyday_target, _ = batch_of_pairs(everyday.tokenizer)
everyday_nouns = noun_table(everyday_source, everyday.tokenizer)
everyday_weights = record_all(everyday_model, everyday_source, everyday_target)
everyday_trained = score_heads(
    everyday_weights, everyday_source, everyday_target, everyday_nouns
)
everyday_chance = score_heads(
    record_all(untrained(everyday_model.config), everyday_source, everyday_target),
    everyday_source,
    everyday_target,
    everyday_nouns,
)
both_models = {
    "pocket-small": (trained, random_scores),
    "everyday": (everyday_trained, everyday_chance),
}
Captioned(
    head_scores(
        {
            name: tuple(
                t[~t["measure"].isin(("sharpness", "special token"))]
                for t in tables
            )
            for name, tables in both_models.items()
        },
        first="encoder 2, head 4",
        description=(
            "A row for each measure of the encoder's self-attention, the decoder's "
            "self-attention and the cross-attention; a blue dot for each head of the "
            "chosen model and grey ticks for untrained heads. The untrained ones are "
            "close together in each row; trained heads spread widely, most of them to the right. "
            "Pointing at a dot highlights the same head in every row and names it "
            "below."
        ),
    ),
    "Scores of trained heads (dots) and untrained heads (grey marks). Untrained heads "
    "are nearly alike, trained ones differ. The large orange dots are one head.",
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
encoder = everyday_trained[everyday_trained["kind"] == "encoder"]
previous_best = encoder[encoder["measure"] == "previous"]["score"].max()
assert round(previous_best, 2) == 0.71
row = encoder[encoder["measure"] == "previous"].nlargest(1, "score").iloc[0]
assert (row["layer"], row["head"]) == ("encoder 3", 6)
everyday_noun = encoder[encoder["measure"] == "its noun"].nlargest(2, "score")
assert list(everyday_noun["layer"]) == ["encoder 2", "encoder 1"]
assert [round(x, 2) for x in everyday_noun["score"]] == [0.53, 0.3]

# %% [markdown]
# **Training makes heads different.** In each row, untrained heads score nearly the same. Many trained heads score clearly higher, and some clearly lower: a low score is learned, too. But hardly any head is described by one measure: in `everyday`, the best head for *previous* (*encoder 3, head 6*) puts 0.71 of its weight there, on average over the 200 sentences.
#
# One dot of `pocket-small` stands out. In *encoder 2, head 4* (the head from the top of the chapter), **determiners put 0.96 of their weight on their nouns**. We call it the *noun head*.
#
# Or does it merely attend to the next token, like the other head? Then determiners would miss the nouns that are farther away (*the tired painters*), and all other tokens would attend to the next one. So we measure the weight of determiners on nouns at least two positions away, and that of all other tokens on the next token. We do the same for the two heads of `everyday` with the highest scores for *its noun*, and for all its encoder heads take the largest weight on distant nouns:


# %% tags=["hide-input"]
def noun_and_next(recorded, source, noun_keys, name, h):
    """Return the weight on distant nouns, and that of other tokens on the next one."""
    position = torch.arange(source.size(1)).expand_as(source)
    distant = noun_keys.masked_fill(noun_keys - position < 2, -1)
    next_keys = key_tables(source, source, causal=False)["next"]
    next_keys = next_keys.masked_fill(noun_keys >= 0, -1)
    return [mean_weight(recorded[name], keys)[h] for keys in (distant, next_keys)]


print(f"{'weight on':27}  distant noun  next")
in_pocket = source, noun_keys
in_everyday = everyday_source, everyday_nouns
noun_checks = {}
for label, recorded, of_model, name, h in (
    ("pocket-small, noun head", weights, in_pocket, *noun_head),
    ("the same, untrained", random_weights, in_pocket, *noun_head),
    ("everyday", everyday_weights, in_everyday, "encoder.1.self_attention", 4),
    ("everyday", everyday_weights, in_everyday, "encoder.0.self_attention", 0),
):
    head = f"{label}, {short(name)}, head {h + 1}" if label == "everyday" else label
    noun_checks[head] = noun_and_next(recorded, *of_model, name, h)
    print("{:27}  {:12.2f}  {:4.2f}".format(head, *noun_checks[head]))
of_all = [
    noun_and_next(everyday_weights, *in_everyday, f"encoder.{n}.self_attention", h)[
        0
    ]
    for n in range(3)
    for h in range(6)
]
print("{:27}  {:12.2f}".format("everyday, largest of 18", max(of_all)))

# %% tags=["remove-cell"]
row = best[best["measure"] == "its noun"].iloc[0]
assert (row["layer"], row["head"]) == ("encoder 2", 4)
assert 0.955 <= row["score"] < 0.965
far, near = noun_checks["pocket-small, noun head"]
assert far > 0.9 and near < 1 / 3
for head in ("everyday, encoder 2, head 5", "everyday, encoder 1, head 1"):
    far, near = noun_checks[head]
    assert far < near
assert noun_checks["everyday, encoder 2, head 5"][1] > 0.5
assert max(of_all) < 1 / 3
assert sum("encoder" in name for name in everyday_weights) == 3
sharp = [
    t[t["measure"] == "sharpness"]["score"].max() for t in (trained, random_scores)
]
assert sharp[0] > 0.8 and sharp[1] < 0.1

# %% [markdown]
# The noun head passes the test: distant nouns get nearly all of the weight, and other tokens put less than a third on the next one. The two heads of `everyday` fail it. *encoder 2, head 5* is mostly a next-token head, as its rows suggested, and in no head of `everyday` do determiners put more than a third of their weight on distant nouns.

#
# <details><summary>Which kinds of heads do larger models have?</summary>
#
# In larger translators, [Voita et al. (2019)](https://aclanthology.org/P19-1580/) find *positional* heads, which attend to a neighbour, *syntactic* ones, which link a verb to its subject, for example, and heads that attend to the rarest word. [Clark et al. (2019)](https://aclanthology.org/W19-4828/) examine the heads of BERT.
#
# </details>

# %% [markdown]
# ## What attention weights don't show
#
# A heat map of weights can mislead in three ways.
#
# ### Different weights, same output
#
# Suppose that the third value is the mean of the first two. Then these weights give the same output:

# %%
value = torch.tensor([[2.0, 0], [0, 4], [1, 2]])  # (n_key, d_v)
first, second = torch.tensor([[0.5, 0.5, 0], [0.0, 0, 1]])
assert_close(first @ value, second @ value)
first @ value

# %% [markdown]
# So weights alone don't explain an output. We need experiments; they follow after this section.
#
# <details><summary>Is attention an explanation? A debate</summary>
#
# From such alternatives, [Jain and Wallace (2019)](https://aclanthology.org/N19-1357/) concluded that "attention is not explanation", and [Wiegreffe and Pinter (2019)](https://aclanthology.org/D19-1002/) replied that other weights with the same output may exist, but training wouldn't have led the model to them.
#
# </details>
#
# ### Much weight on little: attention sinks
#
# At the beginning, while *uppe* was read, *cross 2, head 4* of `everyday` attended to `<eos>`. When does it do that? We average its weight there over three groups of predicted tokens:

# %% tags=["hide-input"]
name, h = "decoder.1.cross_attention", 3
_, everyday_target, everyday_labels = batch_of_pairs(everyday.tokenizer)
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
# In the middle of a word, the model presumably needs little from the source, but the weights still have to sum to one. `<eos>` may then be an **attention sink**: a token that gets much weight whatever it means, because the weight has to go somewhere. ([Xiao et al., 2024](https://arxiv.org/abs/2309.17453) describe this for the first tokens that a language model reads.)
#
# Does it add little to the output? What a key adds is its weight times its value, projected by the head's part of $W^O$, and a heat map shows only the weight ([Kobayashi et al., 2020](https://aclanthology.org/2020.emnlp-main.574/)). So we divide the norm of the projected value of `<eos>` by the mean norm of the other keys' projected values. Here is this *relative norm* for all cross-attention heads whose weight on `<eos>` is at least 0.15:


# %% tags=["hide-cell"]
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


# %% tags=["hide-input"]
norms = {}  # model, layer -> (heads,), for heads with enough weight on <eos>
print(f"{'head':29}  weight  relative norm")
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
        for h in (weight >= 0.15).nonzero().flatten().tolist():
            head = f"{label}, {short(name)}, head {h + 1}"
            print(f"{head:29}  {weight[h]:6.2f}  {norm[h]:13.2f}")

# %% [markdown]
# In *cross 2* and *cross 3* of `everyday` and in *cross 2, head 3* of `pocket-small`, the relative norm is at most about a third: weight on `<eos>` adds much less than the same weight on another token. For the other three heads of *cross 2* in `pocket-small`, it adds about as much or more, and *cross 1* of `everyday` is in between. From the weights on `<eos>` alone, you couldn't tell.

# %% [markdown]
# ### Position 3 isn't word 3: attention rollout
#
# After the first layer, a vector also contains information from other positions. So a weight on position 3 in layer 2 isn't a weight on word 3 alone. **Attention rollout** ([Abnar and Zuidema, 2020](https://aclanthology.org/2020.acl-main.385/)) estimates how much of each input token reaches each position through all layers. But it ignores values and feed-forward networks, and in our test with `everyday` (folded), a guess by distance does better. So don't rely on it alone.
#
# <details><summary>A test of rollout: replace one token at a time</summary>
#
# Rollout averages the heads of each layer, averages the result with the identity matrix, for the residual connection, and multiplies these matrices. In the two folded cells below, we replace one input token by a random other one, and measure how far the encoder's output moves at each position. The table shows the **rank correlation** of this measurement with three estimates: *nearness*, a baseline without any weights (the nearer a token, the higher its rank), the mean weights of the last layer, and rollout. For each position of the output, an estimate and the measurement both rank the input tokens. Spearman's rank correlation is 1 if the two orders are the same, and about 0 if they are unrelated. The table has its mean over all positions of 40 sentences.
#
# </details>


# %% tags=["hide-cell"]
def rollout(layers):
    """[(heads, n, n), ...], first layer first → (n, n): position, input token"""
    total = torch.eye(layers[0].size(-1))
    for weights in layers:
        total = (weights.mean(dim=0) + torch.eye(len(total))) / 2 @ total
    return total


def influence(model, ids, pool, tries=3):
    """Return how far the output moves, (position, replaced token)."""
    n, dice, total = len(ids) - 1, random.Random(0), 0
    for _ in range(tries):
        rows = torch.tensor(ids).repeat(n + 1, 1)  # the last one stays as it is
        for i in range(n):
            rows[i, i] = dice.choice([p for p in pool if p != ids[i]])
        with torch.no_grad():
            output = model.encode(rows.to(device))[0].cpu()
        total = total + (output[:-1] - output[-1])[:, :n].norm(dim=-1)
    return total.T


def ranks(x):  # equal values share the mean of their ranks
    below, equal = x[:, None] > x, x[:, None] == x
    return below.sum(1) + equal.sum(1) / 2


def rank_correlation(a, b):
    return torch.corrcoef(torch.stack([ranks(a), ranks(b)]))[0, 1].item()


def compare_with_influence(model, weights, source):
    """Return the rank correlations of three estimates, means over 40 sentences."""
    encoder = [w for name, w in weights.items() if "encoder" in name]
    sentences = [row[row != PAD].tolist() for row in source[:40]]
    pool = sorted({i for ids in sentences for i in ids[:-1]})
    found = []
    for number, ids in enumerate(sentences):
        n = len(ids) - 1
        measured = influence(model, ids, pool)
        layers = [w[number, :, : n + 1, : n + 1] for w in encoder]
        place = torch.arange(n)
        nearness = -(place[:, None] - place).abs()
        last = layers[-1].mean(dim=0)[:n, :n]
        correlations = [
            sum(map(rank_correlation, table, measured)) / n
            for table in (nearness, last, rollout(layers)[:n, :n])
        ]
        found.append(correlations)
    return torch.tensor(found).mean(dim=0).tolist()


compared = {
    "pocket-small": compare_with_influence(model, weights, source),
    "everyday": compare_with_influence(
        everyday_model, everyday_weights, everyday_source
    ),
}

# %% tags=["hide-cell"]
print("rank correlation with the measurement")
print(f"{'':12}  nearness  last layer  rollout")
for label, values in compared.items():
    print(f"{label:12}", "{:9.2f}  {:10.2f}  {:7.2f}".format(*values))

# %% tags=["remove-cell"]
for _, last, by_rollout in compared.values():
    assert by_rollout > last + 0.02 > 0.6
assert compared["everyday"][0] > compared["everyday"][2] + 0.02
assert compared["pocket-small"][0] < compared["pocket-small"][2] - 0.02
for layer in ("cross 2", "cross 3"):
    assert norms["everyday", layer].max() < 0.36
assert len(norms["pocket-small", "cross 1"]) == 0
assert (
    0.4
    < norms["everyday", "cross 1"].min()
    < norms["everyday", "cross 1"].max()
    < 1
)
assert norms["pocket-small", "cross 2"][2] < 0.36
assert norms["pocket-small", "cross 2"][[0, 1, 3]].min() > 0.9
assert on_eos[real_labels & begins].mean() < 0.15
assert on_eos[continues].mean() > 0.6 and on_eos[is_eos].mean() > 0.8

# %% [markdown]
# ## Does the model need it? Ablation
#
# To find out what a part contributes, remove it and see what changes: an **ablation**. An attention layer's output is the sum of what its heads contribute, each through its own rows of $W^O$. So the package's `ablate_heads` sets a head's part of the input of $W^O$ to zero, with a hook (*zero ablation*). Zeroing the head's rows of $W^O$ has the same effect:

# %%
name, h = noun_head
layer, d_head = model.get_submodule(name), model.config.d_model // 4
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
# We measure the damage in two ways: by the loss, and by the share of *exact sentences*, those that greedy search translates exactly like the reference. (For real text, that would be a poor measure, because a sentence has many good translations. In this generated corpus, the intact model reproduces nearly every reference.) The folded `evaluate` computes both on the first hundred of our 200 sentences.
#
# <details><summary>Why this needs no search</summary>
#
# Greedy search generates the reference if and only if the correct token has the highest logit at every position. One pass with teacher forcing gives all these logits.
#
# </details>

# %% tags=["hide-cell"]
few = slice(0, 100)
inputs = source[few].to(device), target[few].to(device)
answer = labels[few].to(device)
real = answer != PAD


@torch.no_grad()
def evaluate():
    """Return the loss per token, the share of exact sentences, and all predictions."""
    states = model.decode(inputs[1], *model.encode(inputs[0]))
    logits = model.logits(states[real])  # (tokens, vocab_size), without padding
    predicted = torch.zeros_like(answer)
    predicted[real] = logits.argmax(dim=-1)
    loss = F.cross_entropy(logits, answer[real]).item()
    exact = (predicted == answer).all(dim=1).float().mean().item()
    return loss, exact, predicted


# %%
loss, exact, _ = evaluate()
print(f"loss {loss:.3f}, exact sentences {exact:.0%}")

# %% tags=["remove-cell"]
searched = greedy_search(model, inputs[0])
by_search = [
    tokenizer.encode(p.target) == s for p, s in zip(pairs, searched, strict=False)
]
assert math.isclose(sum(by_search) / len(by_search), exact, abs_tol=1e-6)

# %% [markdown]
# Now we ablate each head alone. Look for the darkest cell:

# %%
heads = [(name, h) for name in weights for h in range(4)]
alone = {}  # head -> loss and share of exact sentences without it
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
        title="Exact sentences without this head",
    ),
    alt=(
        "A grid with a row for each layer and a column for each head: the share of "
        "sentences that are still translated exactly with this head ablated. Most "
        "cells are above 0.9. Encoder layer 2, head 4 has by far the lowest, 0.2; two "
        "heads of the decoder's first self-attention follow with about a half and "
        "two thirds."
    ),
    caption=(
        "Exact sentences left after ablating each head alone. Most heads hardly "
        "matter, but without the darkest one most translations are wrong."
    ),
)

# %% tags=["remove-cell"]
assert heads[int(exact_left.argmin())] == noun_head
assert 0.1 < exact_left.min() < 0.3
assert exact_left.flatten().sort().values[1] > exact_left.min() + 0.1
assert exact_left[-1].min() > 0.9 and rise[-1].min() > loss

# %% [markdown]
# It is the noun head: without it, only about a fifth of the sentences are still right. Are most of the wrong tokens determiners? We count them, with each head of this layer ablated in turn. The last line is a **mean ablation** of head 4: its output is replaced not by zeros, which never occur in training, but by its mean over all tokens:


# %% tags=["hide-cell"]
@contextmanager
def mean_ablation(name, h):
    """Replace the output of an encoder head by its mean over all tokens."""
    output, kept = model.get_submodule(name).output, {}
    part = slice(h * d_head, (h + 1) * d_head)

    def replace(module, args):
        x = args[0].clone()
        x[..., part] = kept["mean"]
        return (x,)

    # a pre-hook is called before its module and may replace the module's inputs
    hook = output.register_forward_pre_hook(
        lambda _, args: kept.update(input=args[0])
    )
    with torch.no_grad():
        model.encode(source.to(device))
    hook.remove()
    kept["mean"] = kept["input"][source.to(device) != PAD][:, part].mean(dim=0)
    hook = output.register_forward_pre_hook(replace)
    try:
        yield
    finally:
        hook.remove()


# %% tags=["hide-input"]
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

# %% tags=["remove-cell"]
for label in ("without head 4", "mean of head 4"):
    n_wrong, found = wrong_tokens[label]
    assert n_wrong > 50 and found / n_wrong > 0.6, label
everything = pieces(answer[real].tolist())
assert 0.15 < sum(map(is_determiner, everything)) / len(everything) < 0.17
previous = best[(best["measure"] == "previous") & (best["kind"] == "encoder")].iloc[
    0
]
assert (previous["layer"], previous["head"]) == ("encoder 2", 1)
assert round(previous["score"], 2) == 0.44
assert wrong_tokens["without head 1"][0] <= wrong_tokens["with all heads"][0]

# %% [markdown]
# Without head 4, most wrong tokens are determiners, which are only about a sixth of all tokens, and the mean ablation shows the same. Head 1 puts 0.44 of its weight on the previous token, the strongest such pattern of the encoder. Yet without it, no more tokens are wrong than before. **A pattern doesn't mean that the model needs the head.**
#
# The errors without heads 1 and 3 of *self 1*, the next darkest cells, have little to do with articles. Without head 1, the model often skips a token and predicts the one after it:

# %% tags=["hide-input"]
following = F.pad(answer, (0, 1))[:, 1:]  # the token after the correct one
print(f"{'without':14} wrong tokens determiners skips one")
decoder_errors = {}
for h in (0, 2):
    with ablate_heads(model, {"decoder.0.self_attention": [h]}):
        predicted = evaluate()[2]
    wrong = predicted != answer
    found = sum(map(is_determiner, pieces(answer[wrong].tolist())))
    skipped = (predicted == following)[wrong].sum().item()
    decoder_errors[h] = wrong.sum().item(), found, skipped
    label = f"self 1, head {h + 1}"
    print("{:14} {:12} {:11} {:9}".format(label, *decoder_errors[h]))

# %% tags=["remove-cell"]
assert (
    decoder_errors[0][1] == 0 and decoder_errors[0][2] > 0.6 * decoder_errors[0][0]
)
assert decoder_errors[2][1] < 0.2 * decoder_errors[2][0]

# %% [markdown]
# **Try it.** Ablate the noun head (layer 2 of the encoder, head 4) and watch the articles: in a live notebook, run the next cell; in the book, go to the [live translator](../book/live.md) and choose *the pocket corpus*.

# %% tags=["skip-execution"]
from transformer.interactive import live_translator

live_translator(translator, [english, "He had to look for the picture."])

# %% [markdown]
# ### Effects that don't add up
#
# What if all four heads of a layer are ablated at once? We compare the rise of the loss with the sum of the four rises when one head is ablated at a time:

# %%
together = {}
print(f"{'':9}  sum of single heads  whole layer")
for name, row in zip(weights, rise, strict=True):
    with ablate_heads(model, {name: range(4)}):
        together[name] = evaluate()[0] - loss
    apart = row.sum().item()
    whole = together[name]
    print(f"{short(name):9}  {apart:19.2f}  {whole:11.2f}")

# %% tags=["remove-cell"]
times = {n: together[n] / row.sum() for n, row in zip(weights, rise, strict=True)}
assert times["decoder.1.cross_attention"] > 5
assert times.pop(noun_head[0]) < 1.2 and min(times.values()) > 3

# %% [markdown]
# In all layers but *encoder 2*, ablating all heads raises the loss by several times the sum. One explanation is **redundancy**: several heads carry the same information, so the loss of any one of them goes unnoticed. (Heads that take over only when another is ablated are called **backup heads**.) Another is that the model was never trained without a whole layer, and breaks down. In *encoder 2*, the two numbers are about the same: the other heads don't make up for the noun head.
#
# How many heads can we ablate at once? We rank them by how much the loss rises without each one, and ablate more and more, beginning with either the most or the least important:


# %% tags=["hide-cell"]
def exact_without_first(order):
    """Return the share of exact sentences with 0, 1, 2, ... heads ablated."""
    ablated, shares = {}, [exact]
    for name, h in order:
        ablated.setdefault(name, []).append(h)
        with ablate_heads(model, ablated):
            shares.append(evaluate()[1] if shares[-1] else 0)
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
        "Exact sentences",
    ),
    alt=(
        "The share of exact sentences against the number of ablated heads, from 0 to "
        "24. If the most important go first, it is nearly 0 after a handful. If the "
        "least important go first, it hardly falls for the first three, then steadily, "
        "and is 0 with three quarters gone."
    ),
    caption=(
        "Ablating the most important heads first ruins the translations at once; "
        "with the least important first, the share of exact sentences falls more "
        "slowly."
    ),
)

# %% tags=["hide-input"]
lost_alone = sum(exact - alone[head][1] for head in ranked[:8])
print("exact sentences without the eight least important heads")
print(f"  if the effects of single heads added up: {exact - lost_alone:.0%}")
print(f"  measured: {least_first[8]:.0%}")

# %% tags=["remove-cell"]
assert least_first[3] > exact - 0.03 and most_first[3] < 0.1
assert exact - least_first[8] > 5 * lost_alone, "more than the sum"
assert least_first[18] == 0 and len(heads) == 24

# %% [markdown]
# The model can spare the three least important heads. Without eight, it gets far worse than the effects of single heads suggest.
#
# <details><summary>How many heads can larger models spare?</summary>
#
# [Michel et al. (2019)](https://arxiv.org/abs/1905.10650), *Are Sixteen Heads Really Better than One?*, remove 20% of the heads of a WMT model and 40% of those of BERT without a noticeable loss. [Voita et al. (2019)](https://aclanthology.org/P19-1580/) let an English–Russian model learn, in further training, which heads it can spare: without 38 of its 48 encoder heads, it loses only 0.15 BLEU.
#
# </details>

# %% [markdown]
# ## What does it carry? Activation patching
#
# Which information does a head pass on? **Activation patching** can show this. Take two sentences that have the same number of tokens, differ in one word and need different predictions. Run the model on one of them, the **clean run**, and keep its **activations**, the tensors computed on the way. Then run it on the other, by convention the **corrupted run**, but replace one activation by that of the clean run. If the prediction becomes that of the clean run, the information that makes the difference passes through this activation. An ablation tests whether a part is *necessary* for a prediction, and a patch like this one whether it is *sufficient* to change the prediction.
#
# *The old king …* begins with *Der* in German, because *König* is masculine, and *The old queen …* with *Die*, because *Königin* is feminine. We take ten sentences with masculine nouns and ten with feminine ones (`kings` and `queens`). The noun is always the third token. At the decoder's first position, we subtract the logit of *Der* from that of *Die*, and average over the ten sentences:


# %% tags=["hide-cell"]
@contextmanager
def hooked(module, function):
    """Attach a hook for the length of a with block."""
    hook = module.register_forward_hook(function)
    try:
        yield
    finally:
        hook.remove()


masculine = (
    "king painter brother doctor farmer teacher baker neighbour judge prince"
)
feminine = (
    "queen sister mother actress cow snake princess grandmother woman daughter"
)
kings, queens = (
    torch.tensor(
        [
            translator.encode(f"The old {noun} is very tired.")
            for noun in side.split()
        ],
        device=device,
    )
    for side in (masculine, feminine)
)  # each (10, 8)

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
# Now we patch the encoder's residual stream: in the corrupted run, with `kings`, we replace the vector at one position and stage (the embedding, or the output of a layer) by the one from the clean run, with `queens`. The effect of a patch is how far it moves the difference of the logits, from 0 (as with `kings`) to 1 (as with `queens`).


# %%
def effect_of_patch(module, select):
    """Patch the selected part of a module's output."""
    kept = {}

    def patch(module, args, output):
        output = output.clone()
        output[select] = kept["output"][select]
        return output  # replaces the module's output

    # hooked (in the folded cell) attaches a hook for the length of a with block
    with hooked(module, lambda _, args, output: kept.update(output=output)):
        die_minus_der(queens)
    with hooked(module, patch):
        return (die_minus_der(kings) - low) / (high - low)


# %%
stages = [model.source_embedding, *model.encoder]
by_position = torch.tensor(
    [[effect_of_patch(s, (slice(None), i)) for i in range(8)] for s in stages]
)

# %% [markdown]
# The first figure shows these effects. Before you look: at which position will a patch after layer 2 have an effect? In the second figure, we patch the output of a single encoder head, at all positions.


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

    with hooked(layer.output, lambda _, args, output: kept.update(input=args[0])):
        die_minus_der(queens)
    hook = layer.output.register_forward_pre_hook(patch)
    score = (die_minus_der(kings) - low) / (high - low)
    hook.remove()
    return score


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
# Up to layer 1, the gender that decides between *Der* and *Die* is at the noun. After layer 2, **it is at the article**. And patching the noun head alone has 98% of the full effect.
#
# But what does it copy, the gender or the whole noun? **At the article's position**, we replace only this head's output, by its output for another sentence, and let the model translate:


# %% tags=["hide-cell"]
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


# %% tags=["hide-input"]
patched = {}
for sentence, other in (
    ("The old king is very tired.", "The old queen is very tired."),
    ("The old brother is very tired.", "The old mother is very tired."),
    ("The old king slept.", "The old kings slept."),
):
    patched[sentence] = translate_with_patch(sentence, other)
    print(f"{sentence}\n    {translate([sentence])[0]}")
    print(f"  + {other}\n    {patched[sentence]}")

# %% tags=["remove-cell"]
assert patched["The old king is very tired."] == "Die alte König ist sehr müde."
assert patched["The old brother is very tired."] == "Die alte Bruder ist sehr müde."
assert patched["The old king slept."].split()[2:] == [
    "König",
    "haben",
    "geschlafen.",
]
for king, queen in zip(masculine.split(), feminine.split(), strict=True):
    sentences = [f"The old {noun} is very tired." for noun in (king, queen)]
    intact, mixed = (
        translate(sentences[:1])[0].split(),
        translate_with_patch(*sentences).split(),
    )
    assert (intact[0], mixed[0]) == ("Der", "Die") and mixed[2:] == intact[2:]

# %% [markdown]
# In all three, the article changes, but the noun doesn't: *König* stays *König*. (The same holds for all ten pairs of nouns from above.) The third example shows that this head also carries the number: with its output from *kings*, even the verb, *haben*, is plural. So the head doesn't copy the noun. **It copies the noun's gender and number to the article**, where the decoder finds them when it translates *The*:
#
# > *king* → noun head (*encoder 2, head 4*) → *The* → cross-attention → *Der*
#
# Explaining models by such experiments on their parts is called **mechanistic interpretability**.

# %% [markdown]
# ## Cross-attention as a word aligner
#
# Which English word does a German word translate? If cross-attention shows this, we can check it: the grammar that generated the pocket corpus also gives the **alignment** of each pair, the true links between words, called *gold links*.
#
# With $A$ for the set of links that an **aligner** (a program or a head) proposes and $S$ for the set of gold links, its **alignment error rate** ([Och and Ney, 2003](https://aclanthology.org/J03-1002/), who also distinguish sure links from possible ones, which we don't) is
#
# $$ \mathrm{AER} = 1 - \frac{2\,|A \cap S|}{|A| + |S|} $$
#
# <details><summary>The AER and the F₁ score</summary>
#
# The AER is $1 - F_1$: with precision $|A \cap S| / |A|$ and recall $|A \cap S| / |S|$, the fraction is their harmonic mean.
#
# </details>
#
# *The child gave up.* and *Das Kind gab auf.* have seven gold links, since both words of *gave up* are linked to both of *gab auf*, and the full stops are linked, too. With one correct link for each German word, the AER is $1 - 2 \cdot 5 / (5 + 7) = 0.17$.


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

# %% [markdown]
# Attention weights are between tokens, but links are between words. We **add** the columns of an English word's tokens, and **average** the rows of a German word's tokens, because each row sums to one. Then we link each German word to the English word with the largest weight:


# %%
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


# %% [markdown]
# Each German word gets exactly one link, even if nearly all of its weight is on `<eos>`. What is `shift`? Teacher forcing shifts the decoder's input by one, so a German word has two rows: the one that **predicts** it, whose input is the token *before* it (shift 0), and the one that **reads** it (shift 1). Here are both, for the head of `pocket-small` with the lowest AER:

# %% tags=["hide-input"]
golds = [pair.alignment for pair in pairs]
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

# %% tags=["hide-input"]
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
            "cells have moved up by one row, and all lie outside of the orange frames."
        ),
    ),
    caption=(
        "Cross-attention of one head, with gold links framed; weights below 0.05 have no "
        "number, and the column of the end token is left out. The bright cells match the "
        "frames only if each German word has the row that predicts it."
    ),
)

# %% [markdown]
# Both figures come from the same weights, but with the rows shifted by one, a good aligner looks like a bad one. Now we compare all heads with other aligners: **random** takes any English word for each German one; **diagonal** links the words in order, from first to last; **IBM model 1** ([Brown et al., 1993](https://aclanthology.org/J93-2003/)) learns from pairs of sentences which words translate each other. Some words have several gold links, so even a perfect aligner with one link for each German word doesn't reach 0; its AER is the *limit*.


# %% tags=["hide-cell"]
def word_pairs(pairs):
    """Return for each possible link: ids of both words and the English one, its row."""
    ids, row, found = {}, 0, []
    for pair in pairs:
        for german in pair.target_words:
            for english in pair.source_words:
                both = german.lower(), english.lower()
                kinds = [ids.setdefault(k, len(ids)) for k in (both, both[1])]
                found.append([*kinds, row])
            row += 1  # one for each German word
    return torch.tensor(found).unbind(dim=1)


def total(values, by):
    """Return for each value the sum of all values with the same id."""
    return torch.zeros(int(by.max()) + 1).index_add(0, by, values)[by]


def model_1(both, english, row, rounds=8):
    t = torch.ones(len(both))
    for _ in range(rounds):
        shares = t / total(t, row)  # of each German word, among the English ones
        t = total(shares, both) / total(shares, english)
    return t


training_pairs = pocket.pairs("train", 20_000)
possible_links = word_pairs([*pairs, *training_pairs])
shapes = [(len(p.target_words), len(p.source_words)) for p in pairs]
cells = [m * n for m, n in shapes]
model_1_rates = {}
for n in (5000, 20_000):
    first_n = [*pairs, *training_pairs[:n]]
    n_links = sum(len(p.target_words) * len(p.source_words) for p in first_n)
    t = model_1(*(part[:n_links] for part in possible_links))
    test = t[: sum(cells)].split(cells)
    by_model_1 = [links(t.view(s)) for t, s in zip(test, shapes, strict=True)]
    model_1_rates[n] = error_rate(by_model_1, golds)
dice = random.Random(0)
by_chance = [[(dice.randrange(n), j) for j in range(m)] for m, n in shapes]
diagonal = [
    [(round(j * (n - 1) / (m - 1)), j) for j in range(m)] for m, n in shapes
]
rivals = {
    "random": error_rate(by_chance, golds),
    "diagonal": error_rate(diagonal, golds),
    "IBM model 1": model_1_rates[20_000],
}
one_right_link = [
    [({k: i for i, k in p.alignment}.get(j, 0), j) for j in range(m)]
    for p, (m, n) in zip(pairs, shapes, strict=True)
]
limit = error_rate(one_right_link, golds)
for n, rate in model_1_rates.items():
    print(f"IBM model 1, {n:6,} pairs  AER {rate:.2f}")

# %% tags=["hide-input"]
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
    for rival, dashes in zip(rivals, (":", "-.", "--"), strict=True):
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
        "0.3, all of them left of the diagonal's line; those of the last layer, except "
        "for one, are also left of the line of IBM model 1."
    ),
    caption=(
        "Alignment error of each cross-attention head of pocket-small. Rows that predict "
        "a word (dots) align far better than rows that read it (squares). IBM model 1 is "
        "the one with 20,000 pairs."
    ),
)

# %% tags=["hide-input"]
of_cross_2 = predict_rates["decoder.1.cross_attention"]
print("AER of the heads of cross 2:", *(f"{rate:.2f}" for rate in of_cross_2))
print(f"IBM model 1: {rivals['IBM model 1']:.2f}   limit: {limit:.2f}")
everyday_cross = [name for name in everyday_weights if "cross" in name]
everyday_predicts, everyday_reads = (
    torch.tensor(
        [
            error_rates(everyday_weights[n], shift, everyday.tokenizer)
            for n in everyday_cross
        ]
    )
    for shift in (0, 1)
)
print("everyday, cross 1  predicting row  reading row")
for h in (1, 3, 5):
    one, other = everyday_predicts[0, h], everyday_reads[0, h]
    print(f"  head {h + 1}           {one:14.2f}  {other:11.2f}")

# %% tags=["remove-cell"]
assert len(tokenizer.encode(example.target)) == len(example.target_words)
assert set(links(weights_between_words(of_example, example, 0))) <= set(
    example.alignment
)
for name in cross:
    assert min(read_rates[name]) > 0.8
    assert max(predict_rates[name]) < rivals["diagonal"]
assert best_rate < rivals["IBM model 1"] < rivals["diagonal"] < rivals["random"]
assert sum(rate < rivals["IBM model 1"] for rate in of_cross_2) == 3
assert 0.04 < limit < 0.06
assert 0.85 < model_1_rates[20_000] / model_1_rates[5000] < 1
assert not (everyday_reads[1:] < everyday_predicts[1:]).any()
assert (everyday_reads < everyday_predicts)[0].nonzero().flatten().tolist() == [
    1,
    3,
    5,
]

# %% [markdown]
# In the reading row, **every** head of `pocket-small` is about as bad as random links. In the predicting row, three of the four heads of the last layer beat IBM model 1, although our model was never trained to find links.
#
# <details><summary>Is that a fair contest?</summary>
#
# Not quite: `pocket-small` was trained on 200,000 pairs, IBM model 1 on 20,000. But as the folded cell shows, with 5,000 it is only a little worse, so more pairs don't seem to help it much. And the AER of the *best* head alone would be flattering, since we chose it on the same pairs.
#
# </details>
#
# In `everyday`, however, three heads of the first layer align better in the *reading* row. So measure both, and report which one you used.

# %% [markdown]
# ## Induction heads
#
# Many language models have **induction heads**, which look for an earlier occurrence of the current token and attend to the token *after* it. So after `… A B … A`, they help to predict `B`. [Olsson et al. (2022)](https://arxiv.org/abs/2209.11895) argue that this is a main mechanism of **in-context learning**, the ability to pick up a pattern from the prompt.
#
# It takes two layers. A head in the first layer attends to the previous token, so that each position also knows what came before it. A head in the second layer then searches for a position whose *previous* token equals the current one. We train two tiny models of attention only, with one and with two layers of one head each. In each training sequence, 6 to 12 random tokens repeat:


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


# %%
def repeated_tokens(n=64, length=24):
    """Random sequences of 6 to 12 different tokens that repeat, and their periods."""
    period = torch.randint(6, 13, (n, 1))
    tokens = torch.rand(n, 32).argsort(dim=-1)  # a random order of all tokens
    return tokens.gather(1, torch.arange(length) % period), period


# %% tags=["hide-cell"]
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


# %%
(_, one_layer), (induction, two_layers) = train(1), train(2)

# %% [markdown]
# First, do the two models learn to predict the repetition? During training, we measured the accuracy on repeated tokens:


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
# The heat maps show the weights of the two-layer model for seven random tokens, *a* to *g*, that repeat once. In layer 1, look at the first *a b c …*. Layer 2 mostly attends to these positions, so they are the ones that need to know their previous token. In layer 2, look at the second *a b c …*. The table after the heat maps has the mean weight on the two bright stripes in 64 sequences.

# %% tags=["hide-input"]
Row(
    Picture(
        heat_map(seven[0][0], letters, letters, title="layer 1", annotate=False),
        alt=(
            "Weights of the head of layer 1 for seven letters that repeat: in the "
            "first half a bright stripe just below the diagonal."
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
        "Two heads that work together: the head of layer 1 attends to the previous token (most clearly in the first half), "
        "the head of layer 2 to the token after an earlier occurrence."
    ),
)

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
    ("layer 1, previous token", on_previous),
    ("layer 2, after earlier occurrence", on_followers),
):
    print(f"{what:33}  {by_head:.2f}  {uniform:7.2f}")

# %% [markdown]
# The two-layer model learns this **circuit**, two heads that work together, within a hundred steps. The one-layer model can't: its head doesn't know what precedes each token, so it can only guess how far back to attend. (It is still improving slowly when we stop; see the last of the experiments at the end of the chapter.) Our translators have no induction heads: in the folded cell, no head of the decoder's self-attention scores clearly above uniform weights.

# %% tags=["remove-cell"]
assert two_layers[25] < 0.3 and min(two_layers[100:]) > 0.9 and max(one_layer) < 0.4
assert on_previous[0] > 0.6 and on_followers[0] > 0.9

# %% tags=["hide-cell"]
generator = torch.Generator().manual_seed(0)
half = torch.randint(300, 2000, (64, 8), generator=generator)
repeated = torch.cat([torch.full((64, 1), BOS), half, half], dim=1)
place = torch.arange(17).expand_as(repeated)
after_earlier = torch.where(place >= 9, place - 7, -1)
uniform = (1 / (place + 1.0))[after_earlier >= 0].mean()
on_earlier = []
print("weight on the token after the earlier occurrence")
for label, net, sentences in (
    ("pocket-small", model, source),
    ("everyday", everyday_model, everyday_source),
):
    recorded = record_all(net, sentences[:64], repeated)
    scores = [
        mean_weight(w, after_earlier).max()
        for n, w in recorded.items()
        if "self" in n and "decoder" in n
    ]
    on_earlier.append(max(scores))
    print(f"best head of {label:12}  {max(scores):.2f}   uniform {uniform:.2f}")

# %% tags=["remove-cell"]
assert max(on_earlier) < 1.2 * uniform

# %% [markdown]
# ## The logit lens
#
# What would the model predict if it had to stop after an earlier layer? In a pre-norm model such as `everyday`, every layer only adds to the vectors of the residual stream (see [Encoder and decoder layers](06_layers.ipynb)). So we can pass the vectors after any layer through the final layer norm and the output layer: the **logit lens** ([nostalgebraist, 2020](https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens)).
#
# <details><summary>And in a post-norm model?</summary>
#
# There, each layer norm rescales the stream, so the lens is less meaningful.
#
# </details>

# %% tags=["hide-input"]
assert everyday_model.config.norm == "pre"
sentence = "The little girl told her mother that she had lost her new doll."
(translation,) = everyday.greedy_search([sentence])
prefix = [BOS, *everyday.tokenizer.encode(translation)]
states = []  # recorded by hooks, of the residual stream: the embedding, then each layer
start = everyday_model.decoder[0].register_forward_pre_hook(
    lambda module, args: states.append(args[0])
)
hooks = [
    layer.register_forward_hook(lambda module, args, output: states.append(output))
    for layer in everyday_model.decoder
]
with torch.no_grad():
    logits = everyday_model(
        torch.tensor([everyday.encode(sentence)], device=device),
        torch.tensor([prefix], device=device),
    )
for hook in (start, *hooks):
    hook.remove()

# %%
with torch.no_grad():
    lens = [
        everyday_model.logits(everyday_model.decoder_norm(state))
        for state in states
    ]
assert_close(lens[-1], logits)  # after the last layer, it is the model's output
print(translation)

# %% [markdown]
# The model translates *The little girl told her mother that she had lost her new doll*. A row of the figure is a token that the decoder reads, and a column a stage. A cell shows the most probable token; the brighter, the more probable:

# %% tags=["hide-input"]
probabilities = torch.stack([table[0].softmax(-1).cpu() for table in lens], dim=1)
top, tokens = probabilities.max(dim=-1)  # (position, stage)
stages = ["embedding", *(f"layer {i + 1}" for i in range(3))]
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

# %%
agree = [(table.argmax(-1) == logits.argmax(-1)).float().mean() for table in lens]
for stage, share in zip(stages, agree, strict=True):
    print(f"{stage:9}  same as after layer 3: {share:4.0%} of the rows")

# %% tags=["remove-cell"]
row = pieces(prefix, everyday.tokenizer).index("Mädchen")
assert pieces(tokens[row, 2:].tolist(), everyday.tokenizer) == ["hat", "sagte"]
assert round(agree[0].item() * len(prefix)) <= 1 and 0.4 < agree[2] < 0.6
assert (
    translation
    == "Das kleine Mädchen sagte ihrer Mutter, sie habe ihre neue Puppe verloren."
)

# %% [markdown]
# In the first column, each row shows the token that was read, because input and output embeddings share their weights. After layer 2, most rows show a candidate for the next token, and layer 3 changes some: in the row of *Mädchen*, *hat* (the beginning of *hat … gesagt*) becomes *sagte*. But the output layer was trained only on vectors from the last layer, so what it shows for earlier ones is a rough guide.

# %% [markdown]
# ## What goes wrong in practice
#
# **Only the best example is shown.** In its best example, even an untrained head seems to prefer the noun. So report the mean, the number of cases and a baseline. Here is the weight of determiners on their noun, for two heads of the encoder's first layer (head 1 of `pocket-small`, and head 2 of the untrained model):

# %% tags=["hide-input"]
print(f"{'':9}  determiners  mean  best example")
for label, recorded, h in (
    ("trained", weights, 0),
    ("untrained", random_weights, 1),
):
    table = recorded["encoder.0.self_attention"][:, h]
    found = table.gather(-1, noun_keys.clamp(min=0)[..., None])[..., 0]
    found = found[noun_keys >= 0]
    mean, largest = found.mean(), found.max()
    print(f"{label:9}  {len(found):11}  {mean:.2f}  {largest:12.2f}")

# %% [markdown]
# **Padding is included.** In a batch, the last column is `<eos>` only for the longest sentence, and in shorter ones, some queries are padding. Here is the weight of *encoder 2, head 3* on `<eos>`, with each of these mistakes:

# %% tags=["hide-input"]
eos_keys = key_tables(source, source, causal=False)["special token"]
table = weights["encoder.1.self_attention"][:, 2:3]
padded = eos_keys.amax(dim=1, keepdim=True).expand_as(eos_keys)
print(f"correct: weight on <eos>  {mean_weight(table, eos_keys).item():.2f}")
print(f"weight on the last column {table[..., -1].mean():.2f}")
print(f"with padding as queries   {mean_weight(table, padded).item():.2f}")

# %% [markdown]
# <details><summary>Comparing short and long sentences</summary>
#
# "In short sentences, the head attends more to the previous token." That holds even for an **untrained** head, because it gives each of $n$ tokens about $1/n$. Divide by that before you compare.
#
# </details>

# %% tags=["remove-cell"]
eos_weight = mean_weight(weights["encoder.1.self_attention"], eos_keys)[2]
assert weights["encoder.1.self_attention"][:, 2, :, -1].mean() < eos_weight / 3

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
# **Right.** An untrained head has the same score. Longer sentences or another measure may show more.
#
# </details>
#
# **2. An aligner proposes 10 links, all of them right. There are 14 gold links. What is its AER?**
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
# **3. You ablate one head, and the loss doesn't change. What follows?**
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
# No. Whether a head's weights are sharp and whether the model needs it are two questions. *encoder 2, head 1* has the strongest previous-token pattern of the encoder and isn't needed.
#
# </details>
#
# **4. You patch the vector of *king* after layer 2 with that of *queen*, and the article doesn't change. Has the model lost the gender?**
#
# <details><summary>Answer</summary>
#
# No. At that stage, the article's own vector carries a copy of the gender, and the decoder reads it there. Patching shows which activations this *one* prediction depends on. The noun's vector still contains what the decoder needs for other predictions: with only the article's copy patched, the model wrote *Die alte König*, not *Königin*.
#
# </details>
#
# **5. A head puts 0.9 of its weight on `<eos>`. Does it do nothing?**
#
# <details><summary>Answer</summary>
#
# The weight alone doesn't show that. Look at the norm of what `<eos>` adds: its value, projected by the head's part of $W^O$. If it is much smaller than for other tokens, `<eos>` is an attention sink that adds little. If not, `<eos>` adds as much as they do. Then ablate the head and see what changes.
#
# </details>

# **6. Why can't an attention model with one layer have an induction head?**
#
# <details><summary>Answer</summary>
#
# The head has to find the token *after* an earlier occurrence of the current one. Its key must say which token comes *before* it, but in the first layer, a key only depends on its own token and position. A previous layer has to bring that information there.
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
# Five blanks: how much a head attends to the previous token, how sharp its weights are, which words it links, how such links are scored, and how to ablate a head. Each has a hint and a check that tells you what is wrong.
#
# - In Colab:
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
# 1. **More heads.** Score the heads of `"pocket-large"`, which has three layers with six heads in each kind of attention: call `batch_of_pairs`, `noun_table`, `record_all` and `score_heads` for it, as this chapter does for `everyday`. Is there a noun head? Ablate it, and count the wrong tokens.
# 2. **Patch something else.** Make a heat map like those of the gender for the number of a noun (*king*, *kings*). Is it copied in the same layer?
# 3. **How much redundancy?** In *cross 2*, ablate two or three of the four heads. How many must be missing before the loss rises sharply?
# 4. **Both directions.** Let IBM model 1 also link each English word to a German one, and keep the links that both directions propose. What happens to precision, recall and AER?
# 5. **Induction.** Train the one-layer model for 3,000 steps. Where does its accuracy stop? Then mix random tokens between the repetitions: does the two-layer model still learn the task?
#
# </details>

# %% [markdown]
# ## Going further
#
# - **Such figures for other models:** [BertViz](https://github.com/jessevig/bertviz).
# - **Circuits:** [Elhage et al. (2021)](https://transformer-circuits.pub/2021/framework/index.html) explain why induction takes two layers. [Wang et al. (2023)](https://arxiv.org/abs/2211.00593) take apart a circuit of GPT-2 with patching, and find backup heads.
# - **Pitfalls of patching:** [Heimersheim and Nanda (2024)](https://arxiv.org/abs/2404.15255).
# - **Next:** [the Transformer family](15_transformer_family.ipynb) turns this model into BERT, GPT and ViT, and shows what T5 changes.
