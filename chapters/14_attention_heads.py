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
# # Looking inside: what attention heads do
#
# **You will be able to**
#
# - record every attention weight of a trained model without touching its code, and look at every head at once;
# - say what a head does by a measurement over hundreds of sentences, beside what chance gives;
# - score attention as a word aligner against a gold standard, and avoid the row that everybody gets wrong;
# - turn heads off, one or many, and read what the loss does and does not tell;
# - name three things that a heat map cannot show, each with the numbers.
#
# **About 50 minutes.** It builds on [Attention](02_attention.ipynb), [Multi-head attention](03_multi_head_attention.ipynb) and, for the models,
# [Decoding](12_decoding.ipynb).

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
import math
import random
import re
from itertools import accumulate

import pandas as pd
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from transformer.plots import style
from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The question
#
# At its end the paper shows a few attention heads at work. One joins the halves of a phrase that stand far apart, another leads from *its* to what it
# refers to. The text is careful: such models *could* be easier to interpret, and the heads plainly do different things (§4, last paragraph, and the figures of the appendix).
#
# A heat map is a strong argument, because everybody sees something in it. It is also one head, in one sentence, picked by a person who was looking for
# something. So, with a trained model in our hands: **what does a head do, not once but as a rule? Does the model need it? And is a weight the reason for what the model
# says?** These are three questions. Only the first is about looking.

# %% [markdown]
# ## By hand
#
# Here is one head's row for each token of a tiny sentence. A row is a query, a column a key.

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
# **Does it look one back?** *dog* gives 0.6 to the word before, *barks* 0.6, `<eos>` 0.1. *the* has nobody before it and is not asked. The mean is
# $1.3 / 3 \approx 0.43$.
#
# **Does it rest?** A row has to sum to one, even if there is nothing to find. Many heads then look at a token that carries little, often the end of the sentence:
# a resting place. The last column: $(0.1 + 0.1 + 0.2 + 0.8) / 4 = 0.30$.
#
# **Is it sharp?** The entropy of a row, as a share of its maximum: 0 if one key has everything, 1 if all have the same. For *the* the entropy is
# $-0.7 \ln 0.7 - 3 \cdot 0.1 \ln 0.1 \approx 0.94$, the maximum is $\ln 4 \approx 1.39$, and the share 0.68.

# %%
print(f"one back {(0.6 + 0.6 + 0.1) / 3:.2f}   rest {head[:, -1].mean():.2f}")
sharp = torch.special.entr(head[0]).sum() / math.log(4)
print(f"entropy of the first row {sharp:.2f}")

# %% [markdown]
# Each measure is the same question: *for each query, which key do we ask about?* So we write the answer down as a table of places, with −1 for a query that is not
# asked. Then one function serves for every measure and every head. It takes a batch, so that hundreds of sentences go through at once.


# %%
def share(weights, where):
    """(batch, heads, query, key), (batch, query) → (heads,)"""
    asked = where >= 0
    index = where.clamp(min=0)[:, None, :, None]  # (batch, 1, query, 1)
    index = index.expand(-1, weights.size(1), -1, 1)
    found = weights.gather(-1, index).squeeze(-1)  # (batch, heads, query)
    return (found * asked[:, None]).sum((0, 2)) / asked.sum()


one_back, rest = torch.tensor([[-1, 0, 1, 2]]), torch.tensor([[3, 3, 3, 3]])
assert_close(share(head[None, None], one_back), torch.tensor([1.3 / 3]))
assert_close(share(head[None, None], rest), torch.tensor([0.30]))

# %% [markdown]
# And is 0.43 much? A head that looks everywhere alike gives 0.25 to the word before, in a sentence of four. In one of twelve it would be 0.08. **A share means nothing without the
# share that chance gives.** We shall carry that along.

# %% [markdown]
# ## The picture
#
# Now a trained model: the small one that learned the course's own grammar, English to German. It reads a sentence and its own translation, and we keep the weights of every head. If this machine has a GPU, `device` is that:
# models run there, and what we count and draw comes back to the CPU.

# %%
import transformer
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.inspection import record_attention

translator = transformer.load("pocket-small", precision="fp32")
model, tokenizer = translator.model, translator.tokenizer
device = translator.device.torch_device


# %%
def pieces(ids):
    return [piece.lstrip("▁") for piece in tokenizer.pieces(ids)]


def short(name):
    """encoder.0.self_attention → encoder 1, decoder.1.cross_attention → cross 2"""
    side, layer, kind = name.split(".")
    return f"{side if side == 'encoder' else kind.split('_')[0]} {int(layer) + 1}"


# %%
english = "The tired painters turned off the television."
(german,) = translator.greedy_search([english])
ids = [*tokenizer.encode(english), EOS], [*tokenizer.encode(german), EOS]
source = torch.tensor([ids[0]], device=device)
target = torch.tensor([[BOS, *ids[1][:-1]]], device=device)
with torch.no_grad(), record_attention(model) as weights:
    model(source, target)
print(german)
{name: tuple(w.shape) for name, w in weights.items()}

# %% [markdown]
# `(batch, heads, query, key)`, a tensor for each attention layer. We call them *encoder 1*, *self 1* and *cross 1*, for the encoder's and the decoder's self-attention and the
# cross-attention of the first layer, and so on; and heads count from 1 where people read them.
#
# **Choose a layer and a head**, by menu or by a click on a small map. Then point at a cell of the large one to read it. In *self* a row bears the token that the decoder *reads* there.
# In *cross* it bears the one that it *writes* there; you will see why that matters. Look for a head that looks one back, one that looks at nothing in particular, and one that translates.

# %% tags=["hide-input"]
from transformer.plots.head_grid import head_grid

reads, writes = pieces(target[0].tolist()), pieces(ids[1])
rows = {"encoder": pieces(ids[0]), "self": reads, "cross": writes}
columns = {"encoder": pieces(ids[0]), "self": reads, "cross": pieces(ids[0])}
named = {short(name): w[0] for name, w in weights.items()}
head_grid(
    named,
    {name: (rows[name.split()[0]], columns[name.split()[0]]) for name in named},
    description=(
        "Small heat maps, a row for each layer and a column for each head, and one "
        "of them large below, its rows and columns labelled with words. Menus or a "
        "click choose the head. The last cross-attention's heads nearly all show "
        "one bright cell in each row, at the English word translated there; the "
        "encoder's are spread out. A line below reads the cell pointed at, "
        "such as: Maler, arrow, painters, 1.00."
    ),
)

# %% [markdown]
# The heads of the last cross-attention look like a dictionary, and like each other. Those of the encoder invite a story each. Resist for a moment: it is one sentence.

# %% [markdown]
# ## The code
#
# A model's fused attention never stores its weights ([Attention](02_attention.ipynb)). So where did these come from? PyTorch lets you hang a **hook** on any module: a function that is called with
# the module's inputs just before it runs. The package's recorder takes these inputs and computes the weights beside the model, by the explicit form. The forward code is not
# touched, and when the `with` block ends, the hooks are gone.

# %%
SourceCode(record_attention)

# %% [markdown]
# Two claims, two checks. The model's output is the same bit by bit, whether somebody is watching or not. And the weights are the real ones: a hook of our own takes the values of one
# layer, we multiply, join and project, and what comes out is what the fused layer said.

# %%
name = "encoder.0.self_attention"
layer, kept = model.get_submodule(name), {}
hooks = [
    layer.register_forward_pre_hook(lambda _, args: kept.update(x=args[0])),
    layer.register_forward_hook(lambda _, args, y: kept.update(output=y)),
]
with torch.no_grad(), record_attention(model) as weights:
    watched = model(source, target)
    value = layer.project(kept["x"])[1].value  # (batch, heads, key, d_head)
for hook in hooks:
    hook.remove()

# %%
with torch.no_grad():
    assert torch.equal(watched, model(source, target))
    mixed = layer.output(layer.join_heads(weights[name] @ value))
assert_close(mixed, kept["output"], atol=1e-4, rtol=1e-4)
print("weights × values, joined and projected = the layer's output")

# %% [markdown]
# ## What heads do
#
# Three hundred sentences of the test set, as one batch. The decoder reads the reference translations; that is teacher forcing, as in
# [training](11_training.ipynb), and shows every head each true word.

# %%
from transformer.data import pocket
from transformer.data.batching import pad

pairs = pocket.pairs("test", 300)
source = pad([[*tokenizer.encode(p.source), EOS] for p in pairs])
full = pad([[BOS, *tokenizer.encode(p.target), EOS] for p in pairs])
target, wanted = full[:, :-1], full[:, 1:]
target = target.masked_fill(target == EOS, PAD)  # shorter ones: their eos goes


# %%
def record(model, source, target):
    with torch.no_grad(), record_attention(model) as weights:
        model(source.to(device), target.to(device))
    return {name: w.cpu() for name, w in weights.items()}


def sides(name, source, target):
    """Who asks, who is asked, and whether the future is hidden"""
    kind = short(name).split()[0]
    queries = source if kind == "encoder" else target
    return queries, target if kind == "self" else source, kind == "self"


weights = record(model, source, target)

# %% [markdown]
# The tables of places. A query in the padding is never asked, and no key in the padding is asked about. The decoder's self-attention sees no future, so nobody asks it about the
# one after; and its resting place is the first token, `<bos>`, since the end is not there yet.


# %%
def places(queries, keys, causal):
    place = torch.arange(queries.size(1)).expand_as(queries)
    n_keys = (keys != PAD).sum(dim=-1, keepdim=True)  # (batch, 1)
    rest = torch.zeros_like(place) if causal else (n_keys - 1).expand_as(place)
    tables = {"one back": place - 1, "own place": place, "rest": rest}
    if not causal:
        tables["one on"] = place + 1
    asked = queries != PAD  # (batch, query)
    return {
        what: where.masked_fill(~asked | (where >= n_keys), -1)
        for what, where in tables.items()
    }


# %% [markdown]
# And one measure for which the grammar knows the answer: how much does an article, or whatever stands in its place, look at **its noun**? German nouns begin with a capital letter, and the
# pairs come with gold links between the words. So a noun is what is linked to a German word with a capital, and of a compound (*spring hat*, *Frühlingshut*) its last part.

# %%
DETERMINERS = set("the a an this these my his her our their every no many".split())


def word_of_piece(text, words):
    """For each piece the number of its word: a word's letters are in order."""
    letters = [n for n, word in enumerate(words) for _ in word]
    lengths = [len(piece) for piece in pieces(tokenizer.encode(text))]
    return [letters[start] for start in accumulate([0, *lengths[:-1]])]


# %%
def nouns(pair):
    """Each determiner's place → the place of its noun, as words"""
    capital = {j for j, w in enumerate(pair.target_words) if j and w[0].isupper()}
    linked = {j: [i for i, k in pair.alignment if k == j] for j in capital}
    ends = [max(sources) for sources in linked.values() if sources]
    found = {}
    for i, word in enumerate(pair.source_words):
        if word.lower() in DETERMINERS and max(ends, default=0) > i:
            found[i] = min(end for end in ends if end > i)
    return found


# %%
def noun_table(pairs, like):
    where = torch.full_like(like, -1)
    for row, pair in enumerate(pairs):
        word = word_of_piece(pair.source, pair.source_words)
        for determiner, noun in nouns(pair).items():
            where[row, word.index(determiner)] = word.index(noun)
    return where


its_noun = noun_table(pairs, source)
spoken = pairs[0].source_words
print(pairs[0].source)
print({spoken[a]: spoken[b] for a, b in nouns(pairs[0]).items()}, "and so on:")
print((its_noun >= 0).sum().item(), "determiners with their nouns")

# %% [markdown]
# Now every head, every measure. The entropy is divided by the logarithm of the number of keys that a query may look at; a query that sees only one key is left out.


# %%
def entropy(weights, queries, keys, causal):
    place = torch.arange(queries.size(1)).expand_as(queries)
    seen = place + 1 if causal else (keys != PAD).sum(-1, keepdim=True)
    asked = (queries != PAD) & (seen > 1)
    most = seen[:, None].clamp(min=2).log()
    found = torch.special.entr(weights).sum(-1) / most  # (batch, heads, query)
    return (found * asked[:, None]).sum((0, 2)) / asked.sum()


# %%
def measure(weights, source, target, its_noun=None):
    rows = []
    for name, w in weights.items():
        who = sides(name, source, target)
        found = {what: share(w, table) for what, table in places(*who).items()}
        found["entropy"] = entropy(w, *who)
        if its_noun is not None and name.startswith("encoder"):
            found["its noun"] = share(w, its_noun)
        for what, values in found.items():
            for head, value in enumerate(values.tolist(), 1):
                rows.append((short(name), head, what, value))
    table = pd.DataFrame(rows, columns=["layer", "head", "measure", "score"])
    return table.assign(kind=table["layer"].str.split().str[0])


trained = measure(weights, source, target, its_noun)

# %% [markdown]
# **And chance.** The same model with random weights, as it was before its first step, on the same sentences. Whatever it shows, nobody has learned.

# %%
from transformer.model import Transformer

torch.manual_seed(0)
untrained = Transformer(model.config).eval().to(device)
guessing = record(untrained, source, target)
random_heads = measure(guessing, source, target, its_noun)


def best(table, kind, what):
    rows = table[(table["kind"] == kind) & (table["measure"] == what)]
    return rows.loc[rows["score"].idxmax()]


# %%
print(f"{'':24}best  random  which")
for (kind, what), _ in trained.groupby(["kind", "measure"], sort=False):
    top, chance = best(trained, kind, what), best(random_heads, kind, what)
    who = f"{top['layer']}, head {top['head']}"
    print(f"{kind:8} {what:14} {top['score']:.2f}  {chance['score']:.2f}    {who}")

# %% [markdown]
# One line is unlike the others. A single head of the encoder gives nearly all that a determiner has to give to its noun. There is a use for it: *the* is *der*, *die* or *das*, and the noun decides.
#
# Before we believe it, a control. The noun mostly follows at once, so a head that looks *one on* would score, too. We ask only the determiners with something in between (*the tired painters*), and we ask all
# other words how much they look one on.

# %%
top = best(trained, "encoder", "its noun")
name = next(name for name in weights if short(name) == top["layer"])
noun_head = name, h = name, int(top["head"]) - 1
place = torch.arange(source.size(1)).expand_as(source)
far_nouns = its_noun.masked_fill(its_noun - place < 2, -1)
others = places(source, source, causal=False)["one on"].masked_fill(
    its_noun >= 0, -1
)
for what, table in (("noun two or more on", far_nouns), ("others, one on", others)):
    found, chance = share(weights[name], table)[h], share(guessing[name], table)[h]
    asked = (table >= 0).sum().item()
    print(f"{what:20} {found:.2f}   random {chance:.2f}   ({asked} queries)")
assert (
    share(weights[name], far_nouns)[h] > 0.75 > 2 * share(weights[name], others)[h]
)

# %% [markdown]
# It is no matter of distance. This head, of this model, links determiners to nouns. Keep it in mind: we shall take it away.
#
# As for the other lines, the best trained head beats the best random one by very different factors. Mind the decoder's self-attention: there a random head already gives much to the token before, since the
# first rows have few to choose from. And mind the entropy: the largest is the least interesting one, and random heads win. Here is the smallest instead:

# %%
sharpest = [
    t[t["measure"] == "entropy"]["score"].min() for t in (trained, random_heads)
]
print("the sharpest head: trained {:.2f}, random {:.2f}".format(*sharpest))
for kind, what in (("encoder", "one back"), ("encoder", "its noun")):
    found, chance = (best(t, kind, what)["score"] for t in (trained, random_heads))
    assert found > 2 * chance, (kind, what)
assert sharpest[0] < 0.2 and sharpest[1] > 0.9

# %% [markdown]
# **A second model**, with more layers and other training: the one of the photographs' captions. Its data are not in the package, so we put captions together ourselves, and take the model's
# own greedy translations as what the decoder reads.

# %%
one = ["A man", "A little girl", "An old woman", "A group of people", "A brown dog"]
more = ["Two men", "Several children", "Two young boys"]
doing = "standing in front of a building|sitting on a bench|playing with a ball"
doing += "|running through the grass|walking down the street|lying on the floor"
where = "| in the park| on a sunny day| while others are watching| at night"
captions = [
    f"{who} {'is' if who in one else 'are'} {action}{place}."
    for who in one + more
    for action in doing.split("|")
    for place in where.split("|")
]

# %%
photos = transformer.load("multi30k", precision="fp32")
photo_ids = [photos.encode(caption) for caption in captions]
photo_source = pad(photo_ids)
photo_german = photos.greedy_search(captions)
photo_target = pad([[BOS, *photos.tokenizer.encode(line)] for line in photo_german])
torch.manual_seed(0)
blank = Transformer(photos.model.config).eval().to(device)
of_photos = measure(
    record(photos.model, photo_source, photo_target), photo_source, photo_target
)
of_blank = measure(
    record(blank, photo_source, photo_target), photo_source, photo_target
)
print(len(captions), "captions, such as", captions[17], photo_german[17])

# %% [markdown]
# All heads of both models, and gray marks for those of a random one. A dot is a head. **Point at one, and it lights up in every row**: what else does that head do? The menu chooses the model.

# %% tags=["hide-input"]
from transformer.plots.head_scores import head_scores

head_scores(
    {"pocket-small": (trained, random_heads), "multi30k": (of_photos, of_blank)},
    first="encoder 2, head 4",
    description=(
        "A row for each measure of the encoder's self-attention, the decoder's "
        "self-attention and the cross-attention; a blue dot for each head of the "
        "chosen model and gray ticks for random heads. The random ones stand close "
        "together in each row; trained heads spread widely to both sides. Pointing "
        "at a dot lights up the same head in every row and names it below."
    ),
)

# %%
for name, table in (
    ("pocket-small", trained),
    ("multi30k", of_photos),
):
    print(f"{name:13}{'':9} one back  own place  one on  rest  entropy")
    for kind in ("encoder", "self", "cross"):
        spread = []
        for what in ("one back", "own place", "one on", "rest", "entropy"):
            rows = table[(table["kind"] == kind) & (table["measure"] == what)][
                "score"
            ]
            spread.append(
                f"{rows.min():.2f}–{rows.max():.2f}" if len(rows) else "    –    "
            )
        print(f"  {kind:10}", "  ".join(spread))


# %%
def ranges(table):
    return table.groupby(["kind", "measure"])["score"].agg(["min", "max"])


both = {"pocket-small": (trained, random_heads), "multi30k": (of_photos, of_blank)}
print("a row of dots is so many times as wide as chance's:")
for name, (table, chance) in both.items():
    ours, theirs = ranges(table), ranges(chance)
    wider = (ours["max"] - ours["min"]) / (theirs["max"] - theirs["min"])
    print(f"{name:13} at least {wider.min():.1f}, mostly {wider.median():.0f}")
    assert wider.min() > 1.5 and wider.median() > 5
    one_on = ours["min"]["encoder", "one on"], theirs["min"]["encoder", "one on"]
    assert one_on[0] < 0.8 * one_on[1]
    assert 0.45 < best(table, "encoder", "one back")["score"] < 0.75

# %% [markdown]
# What stands out, and what does not:
#
# - **Random heads are all alike, trained ones are not.** The gray ticks lie on top of each other. Training has pulled the heads apart, to *both* sides: a head that looks one on less than
#   chance does has learned something, too.
# - **Few heads have one job.** In either encoder the best *one back* head gives it nearly half of its weight (pocket) or two thirds (captions), and the rest goes elsewhere. "Positional head" is the name of a tendency.
# - **The cross-attention of the pocket model is sharp,** and has much on *own place*. That is a fact about German and English as much as about the model: the two often run in parallel. The
#   next section takes this apart. That of the captions' model is more spread out.
#
# {cite}`voita2019` find such jobs in a large translator (neighbours, syntax, rare words). Ours has a grammar that we know, and even so only a part of what its heads do has a name.

# %% [markdown]
# ## Attention as an aligner
#
# *Which English word is this German one the translation of?* If cross-attention answers that, it can be marked, like an exam. Each pair of the pocket corpus comes with the **gold alignment**:
# the grammar that made both sentences knows which words say the same thing.

# %%
example = next(
    p
    for p in pairs
    if max(len(p.source_words), len(p.target_words)) <= 9
    and max(abs(i - j) for i, j in p.alignment) >= 3
    and len(tokenizer.encode(p.target)) > len(p.target_words)
)
print(example.source, "/", example.target)
print(
    " ".join(
        f"{example.source_words[i]}–{example.target_words[j]}"
        for i, j in example.alignment
    )
)

# %% [markdown]
# ### The error rate by hand
#
# Let $A$ be the links that an aligner proposes and $S$ the gold links. The **alignment error rate** of {cite}`och2003` is
#
# $$ \mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|} $$
#
# where $S$ holds the links that are **sure** and $P$ also those that are **possible**. People who align by hand need the second set, for the cases that can be argued. Our grammar is always sure, so
# $P = S$, and the formula is $1 - 2\,|A \cap S| / (|A| + |S|)$.
#
# *The child gave up.* becomes *Das Kind gab auf.*, and both words of *gave up* belong to both of *gab auf*: seven sure links. An aligner that picks **one** English word for each
# German one proposes five. Say that all are right: $1 - 2 \cdot 5 / (5 + 7) = 0.17$. No wrong link, and yet no zero, as two were left out. Now let *auf* point at *child*: $1 - 2 \cdot 4 / 12 = 0.33$.


# %%
def aer(found, gold):
    """Over a test set: the links (source word, target word) of each sentence"""
    both = list(zip(map(set, found), map(set, gold), strict=True))
    right = sum(len(a & s) for a, s in both)
    return 1 - 2 * right / sum(len(a) + len(s) for a, s in both)


sure = [(0, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 3), (4, 4)]
for auf in (3, 1):
    print(f"{aer([[(0, 0), (1, 1), (2, 2), (auf, 3), (4, 4)]], [sure]):.2f}")
assert math.isclose(aer([sure], [sure]), 0)

# %% [markdown]
# ### From pieces to words
#
# The model's weights are about *pieces*, the gold links about *words*. A compound such as *Frühlings·hüte* has two rows, and an English word may have several columns. The two sides are
# treated differently, and for a reason:
#
# - **Keys are added.** A row is a budget. What went to two parts of an English word went to that word.
# - **Queries are averaged.** Each piece of a German word has a budget of its own. Their mean is one budget again.
#
# The column of `<eos>` is left out, since it is no word. Then the German word is linked to the English one with the largest weight. By hand, a German word of two pieces and English ones of one, two and one:

# %%
two_rows = torch.tensor([[0.2, 0.3, 0.4, 0.1], [0.6, 0.1, 0.1, 0.2]])
add = torch.tensor(
    [[1.0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]
)  # (pieces, words)
print(two_rows @ add, "→", (two_rows @ add).mean(dim=0))

# %% [markdown]
# The largest single weight of the first row, 0.4, belongs to the second word, and adding made it 0.7. In the mean of the two rows the second word leads by little. As code, for any sentence:


# %%
def to_words(weights, pair, row=0):
    """(…, query, key) → (…, German word, English word); row: of the first piece"""
    keys = torch.tensor(word_of_piece(pair.source, pair.source_words))
    queries = torch.tensor(word_of_piece(pair.target, pair.target_words))
    add, mean = F.one_hot(keys).float(), F.one_hot(queries).float()
    asked = weights[..., row : row + len(queries), : len(keys)]
    return (mean / mean.sum(dim=0)).T @ asked @ add


def links(words):
    """A link for each German word (row), to the English word with most"""
    return [(i, j) for j, i in enumerate(words.argmax(dim=-1).tolist())]


# %% [markdown]
# ### The row that everybody gets wrong
#
# Which row of the weights belongs to the German word $y_t$? The decoder reads `<bos> y₁ y₂ …` and writes `y₁ y₂ …`, one ahead. So there are two candidates: the row where $y_t$ is **written**,
# whose input is the word *before* it, and the row where $y_t$ is **read**, one further down. Label a heat map with the decoder's input, which is what comes to hand, and you have chosen the
# second without knowing. Here are both, for the layer and the head that will turn out best. The red frames are the gold links.

# %%
gold = [pair.alignment for pair in pairs]
cross = [name for name in weights if "cross" in name]


def aers(table, row):
    """The error rate of each head: (batch, heads, query, key) → a list"""
    by_head = [to_words(w, pair, row) for w, pair in zip(table, pairs, strict=True)]
    return [aer([links(w[h]) for w in by_head], gold) for h in range(table.size(1))]


written = {name: aers(weights[name], row=0) for name in cross}
read = {name: aers(weights[name], row=1) for name in cross}
top = min((rate, name, h) for name in cross for h, rate in enumerate(written[name]))
print(f"best: {short(top[1])}, head {top[2] + 1}, AER {top[0]:.3f}")

# %% tags=["hide-input"]
from matplotlib.patches import Rectangle

from transformer.plots.heat_map import heat_map

best_head = weights[top[1]][pairs.index(example), top[2]]


def with_gold(row, title):
    table = to_words(best_head, example, row)
    figure = heat_map(table, example.target_words, example.source_words)
    (axes,) = figure.axes
    for i, j in example.alignment:
        axes.add_patch(
            Rectangle((i, j), 1, 1, fill=False, edgecolor=style.WRONG, linewidth=3)
        )
    axes.set_xlabel(title)
    return figure


Row(
    Picture(
        with_gold(0, "asked where the word is written"),
        alt=(
            "Weights of the best head from German words to English ones, each "
            "German word asked in the row that writes it. Nearly every bright "
            "cell lies in a red frame, a gold link."
        ),
    ),
    Picture(
        with_gold(1, "asked where the word is read"),
        alt=(
            "The same head, each German word asked in the row that reads it. The "
            "bright cells have moved up by one row, and nearly all lie outside of "
            "the red frames."
        ),
    ),
)

# %% [markdown]
# First the one, then the same weights one row further. It looks like an aligner with a bad day; it is a good one, read wrongly. (Where a row does not add up to one, the rest is on `<eos>`.)
#
# It need not be this row. In deeper models trained on real text, some layers align better where the word is *read*, once it is known what was said {cite}`chen2020`. So measure both, and say which you took.

# %% [markdown]
# ### The marks, and rivals
#
# An error rate by itself says little. Who else could do it?
#
# - **Random:** a random English word for each German one.
# - **The diagonal:** word $j$ to word $j$, stretched to the sentence's length. What English and German share anyway.
# - **IBM model 1** {cite}`brown1993`, a word aligner from before neural networks. It knows no positions, no grammar, and not one German word. From sentence pairs alone it
#   estimates $t(\text{German} \mid \text{English})$, by turns: share out each German word among the English words of its sentence according to $t$; then count the shares and make a new $t$ of them.
#
# The third is a serious rival in a few lines. We give it 5000 training sentences, and the test pairs too, as aligners usually get.


# %%
def triples(pairs):
    """For any two words of a sentence: which two, which English one, which place"""
    ids, place, found = {}, 0, []
    for pair in pairs:
        for german in pair.target_words:
            for english in pair.source_words:
                both = german.lower(), english.lower()
                kinds = [ids.setdefault(k, len(ids)) for k in (both, both[1])]
                found.append([*kinds, place])
            place += 1  # of the German word
    return torch.tensor(found).unbind(dim=1)


# %%
def total(values, by):
    """The sum of all values of the same kind, at each of them"""
    return torch.zeros(int(by.max()) + 1).index_add(0, by, values)[by]


def model_1(both, english, place, rounds=8):
    t = torch.ones(len(both))
    for _ in range(rounds):
        shares = t / total(t, place)  # of each German word, among the English ones
        t = total(shares, both) / total(shares, english)
    return t


# %%
t = model_1(*triples([*pocket.pairs("train", 5000), *pairs]))
shapes = [(len(p.target_words), len(p.source_words)) for p in pairs]
cells = [m * n for m, n in shapes]
test = t[-sum(cells) :].split(cells)  # the test pairs came last
by_model_1 = [
    links(part.view(shape)) for part, shape in zip(test, shapes, strict=True)
]

# %%
dice = random.Random(0)
by_chance = [[(dice.randrange(n), j) for j in range(m)] for m, n in shapes]
diagonal = [
    [(round(j * (n - 1) / (m - 1)), j) for j in range(m)] for m, n in shapes
]
perfect = [list({j: (i, j) for i, j in sure}.values()) for sure in gold]
rivals = {
    "random": aer(by_chance, gold),
    "diagonal": aer(diagonal, gold),
    "IBM model 1": aer(by_model_1, gold),
    "best head": top[0],
}

# %%
mean = {
    name: aers(weights[name].mean(dim=1, keepdim=True), row=0)[0] for name in cross
}
every = torch.stack([weights[name] for name in cross]).mean(dim=(0, 2))[:, None]
rivals |= {f"mean of {short(name)}": rate for name, rate in mean.items()}
rivals["mean of all layers"] = aers(every, row=0)[0]
rivals["never wrong, one link a word"] = aer(perfect, gold)
for name, rate in rivals.items():
    print(f"{name:30} AER {rate:.3f}")


# %% tags=["hide-input"]
def marks():
    names = [
        f"{short(name)}, head {h + 1}"
        for name in cross
        for h in range(len(read[name]))
    ]
    pairs_of_rates = [
        both
        for name in cross
        for both in zip(written[name], read[name], strict=True)
    ]
    with style.in_style():
        figure, axes = style.new_figure(3.6, 0.9 + 0.3 * len(names))
        for y, (one, other) in enumerate(pairs_of_rates):
            axes.plot([one, other], [y, y], color=style.PLAIN, linewidth=1)
            axes.plot(
                one, y, "o", color=style.QUERY, label=None if y else "written"
            )
            axes.plot(other, y, "s", color=style.WRONG, label=None if y else "read")
        for name, dashes in (
            ("random", ":"),
            ("diagonal", "-."),
            ("IBM model 1", "--"),
        ):
            axes.axvline(
                rivals[name],
                color=style.INK,
                linewidth=1,
                linestyle=dashes,
                label=name,
            )
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(0, 1)
        axes.set_title("Alignment error rate", loc="left")
        axes.legend(
            fontsize=9, loc="upper center", bbox_to_anchor=(0.4, -0.1), ncols=2
        )
    return figure


Picture(
    marks(),
    alt=(
        "Alignment error rates, a row for each cross-attention head: a dot for "
        "asking where the word is written, a square for where it is read. All "
        "squares stand at about 0.9, near the line of random links. The dots lie "
        "between 0.1 and 0.3; those of the last layer are left of the line of IBM "
        "model 1 but for one, all of them left of the diagonal's."
    ),
)

# %%
for name in cross:
    assert min(read[name]) > 0.8 and max(written[name]) < rivals["diagonal"]
assert top[0] < rivals["IBM model 1"] < rivals["diagonal"] < rivals["random"]
assert 0.5 < top[0] / rivals["IBM model 1"] < 0.8
assert rivals["mean of all layers"] < rivals["IBM model 1"]
assert 0 < rivals["never wrong, one link a word"] < top[0]

# %% [markdown]
# In the wrong row **every** head is as bad as chance. In the right one the best head has about two thirds of model 1's error rate, without ever having been told what an alignment is. The last
# line of the table is the limit that one link a word sets: never wrong, and not zero.
#
# Model 1 has a fair complaint. The translator has seen a great many more sentences, and model 1 is blind to order. So look at the words for which order does not help: those whose English words *all* stand three
# or more places off. Among them are the German verbs that wait at the end of their clause.


# %%
def found_far(found):
    asked = right = 0
    for links, sure in zip(found, gold, strict=True):
        of = {j: {i for i, k in sure if k == j} for _, j in sure}
        far = {j for j, of_j in of.items() if all(abs(i - j) >= 3 for i in of_j)}
        asked += len(far)
        right += sum(i in of[j] for i, j in links if j in far)
    return asked, right / asked


# %%
words_of_best = map(to_words, weights[top[1]][:, top[2]], pairs)
by_head = [links(table) for table in words_of_best]
print(f"{found_far(by_head)[0]} German words have come three places or more")
far = {"best head": by_head, "IBM model 1": by_model_1, "diagonal": diagonal}
for name, found in far.items():
    print(f"{name:12} {found_far(found)[1]:.0%} of them right")
assert found_far(by_head)[1] > 0.8 > found_far(diagonal)[1]

# %% [markdown]
# ## Turning heads off
#
# What a head looks at is one thing, what the model would lose without it another. In [Multi-head attention](03_multi_head_attention.ipynb) we saw that a layer is the sum of its heads: each head's output meets rows of $W^O$ of its own. So a head is ablated if its part of the projection's *input* is set to zero. A hook does that, and no weight has to be changed and put back:

# %%
from transformer.inspection import ablate_heads

SourceCode(ablate_heads)

# %% [markdown]
# That it is the same as zeroing those columns of $W^O$:

# %%
import copy

name, h = noun_head
width = model.config.d_model // model.config.n_heads
cut = copy.deepcopy(model)
cut.get_submodule(name).output.weight.data[:, h * width : (h + 1) * width] = 0
eight = source[:8].to(device), target[:8].to(device)
with torch.no_grad(), ablate_heads(model, {name: [h]}):
    assert_close(model(*eight), cut(*eight), atol=1e-4, rtol=1e-5)
print(f"without {short(name)}, head {h + 1}: hook = zeroed columns")

# %% [markdown]
# Now a score. The loss is one. The other shall be plain: **how many sentences does greedy search translate exactly?** For that we need no search. Greedy search writes the reference if and only if, after each true
# beginning, the true next token is the most probable one; and one pass with the reference as target tells just that, for all places at once. We check it against a real search.


# %%
few = slice(0, 150)
asked = source[few].to(device), target[few].to(device)
answer = wanted[few].to(device)
real = answer != PAD


@torch.no_grad()
def score():
    """Loss a token, the share of sentences that are all right, and what was said"""
    logits = model.logits(model.decode(asked[1], *model.encode(asked[0]))[real])
    said = torch.zeros_like(answer)
    said[real] = logits.argmax(dim=-1)
    loss = F.cross_entropy(logits, answer[real]).item()
    return loss, (said == answer).all(dim=1).float().mean().item(), said


# %%
from transformer.decoding import greedy_search

whole_loss, whole_right, _ = score()
searched = greedy_search(model, asked[0])
exact = [
    tokenizer.encode(p.target) == s for p, s in zip(pairs, searched, strict=False)
]
by_search = sum(exact) / len(exact)
print(
    f"loss {whole_loss:.3f}   right {whole_right:.1%}   by search {by_search:.1%}"
)
assert math.isclose(by_search, whole_right, abs_tol=1e-6)

# %% [markdown]
# **Each head off, alone.**

# %%
heads = [(name, h) for name in weights for h in range(weights[name].size(1))]
alone = {}
for name, h in heads:
    with ablate_heads(model, {name: [h]}):
        alone[name, h] = score()[:2]
right = torch.tensor([alone[head][1] for head in heads]).view(len(weights), -1)
rise = (
    torch.tensor([alone[head][0] for head in heads]).view(len(weights), -1)
    - whole_loss
)
layers = [short(name) for name in weights]
for name, row in zip(layers, rise, strict=True):
    print(f"{name:10} the loss rises by", "  ".join(f"{x:.3f}" for x in row))

# %% tags=["hide-input"]
Picture(
    heat_map(
        right,
        layers,
        [f"head {h + 1}" for h in range(right.size(1))],
        title="Sentences all right, with one head off",
    ),
    alt=(
        "A grid, a row for each layer and a column for each head: the share of "
        "sentences that are still translated exactly with this head alone off. "
        "Most cells are above 0.9. One head of the encoder's second layer stands "
        "out, with a fifth; two of the decoder's first self-attention follow, with "
        "a half and two thirds."
    ),
)

# %%
worst = heads[int(right.argmin())]
assert worst == noun_head, "the head that finds the noun"
assert right.flatten().sort().values[1] > right.min() + 0.1, "by far"
assert right[-1].min() > 0.9 and rise[-1].min() > whole_loss

# %% [markdown]
# The two scores do not agree. Without any one head of the last layer's cross-attention the loss more than doubles, and yet nearly all sentences stay right: the model has become less sure, not wrong. A score of what is *said* and a score of how *sure* it is rank heads
# differently, so say which you used.
#
# Of all heads, the one that costs most sentences is the one that links determiners to their nouns. If the story is true, the damage should show **in the determiners**. What does the model say in place of what it should, without
# this head, and without any other head of the same layer?

# %%
FORMS = (
    r"d(er|ie|as|en|em)|(k?ein|mein|sein|ihr|unser|dies|jed|viel|einig)(e[nmrs]?)?"
)


def determiners(found):
    return sum(bool(re.fullmatch(FORMS, piece, re.IGNORECASE)) for piece in found)


def wrong_pieces(name, h):
    """What would be right, and what was said"""
    with ablate_heads(model, {name: [h]}):
        said = score()[2]
    at = (said != answer).nonzero(as_tuple=True)
    return pieces(answer[at].tolist()), pieces(said[at].tolist())


# %%
everything, wrong = pieces(answer[real].tolist()), {}
usual = determiners(everything) / len(everything)
print(f"of all pieces {usual:.0%} are determiners")
for name, h in [head for head in heads if head[0] == noun_head[0]]:
    right_ones, said = wrong_pieces(name, h)
    wrong[name, h] = found = determiners(right_ones), len(right_ones)
    print("without head {}: {:3} of {:3} wrong pieces".format(h + 1, *found))
    if (name, h) == noun_head:
        pairs_of = list(zip(said, right_ones, strict=True))[:4]
        print("  ", ", ".join(f"{b} for {a}" for b, a in pairs_of))
found, of = wrong.pop(noun_head)
assert found / of > 0.7 > 3 * usual
assert found > 20 * max(others for others, _ in wrong.values())

# %% [markdown]
# Most of what this head's absence spoils is determiners, and look at how: the right word with the wrong ending, as the wrong gender or case would have it.
#
# Without any other head of the layer, hardly a word goes wrong. Is a head with a clear habit always missed, then? Take the one that looks most at the word before. It stands in the same layer, and after the finder of nouns
# none in the encoder has a clearer picture:

# %%
back = best(trained, "encoder", "one back")
(name,) = (name for name in weights if short(name) == back["layer"])
habits = {"its noun": noun_head, "one back": (name, int(back["head"]) - 1)}
for what, head in habits.items():
    looks = best(trained, "encoder", what)["score"]
    print(f"{what}: head {head[1] + 1} gives it {looks:.2f}, ", end="")
    print(f"without that head {alone[head][1]:.0%} of the sentences are right")
assert name == noun_head[0] and looks > 0.4
assert alone[head][1] > whole_right - 0.05 > alone[noun_head][1]

# %% [markdown]
# It has a habit, and next to nothing is lost without it: what it fetches from the word before, the model has from somewhere else as well. **A habit is not yet a job**, and no heat map tells one from the other.
#
# Look, measure, take away, look at the damage: four steps, and each could have gone against the story. That is what it takes to say what *one* head does.
#
# **Do it yourself.** In a live notebook, the next cell puts this very model on the screen. Switch off the head that finds the nouns, and watch the articles. Then put it back, and switch off
# the first head of *self 1*. A whole word goes missing. Which one, from which sentence, and why is it not missed in the others? (Layers bear their names in the code there: *encoder 2* is `encoder.1.self_attention`, *self 1* is `decoder.0.self_attention`.) In the book the cell stands without its
# output; [The translator, live](../book/live.md) has the same model, under *the pocket corpus*.

# %% tags=["skip-execution"]
from transformer.interactive import live_translator

giving = "Paul shows the rather hungry judge no yellow summer hat."
live_translator(translator, [english, "He had to look for the picture.", giving])

# %% [markdown]
# ### Understudies
#
# Most other heads seem hardly to be missed. Is the model mostly idle, then? Take whole layers away and compare with the sum of what their heads cost alone:

# %%
together = {}
summed = dict(zip(weights, rise.sum(dim=1).tolist(), strict=True))
for name in weights:
    with ablate_heads(model, {name: range(weights[name].size(1))}):
        loss, kept_right, _ = score()
    together[name] = loss - whole_loss
    print(
        f"{short(name):10} heads alone, summed {summed[name]:.2f}"
        f"   all at once {together[name]:.2f}"
    )
times = {name: together[name] / summed[name] for name in weights}
assert times[cross[-1]] > 5
assert times.pop(noun_head[0]) < 1.2 and min(times.values()) > 1.5

# %% [markdown]
# Any one head of the last cross-attention can be spared, as far as the words go; the layer cannot. Its heads all do the same job, as you saw in the first chart: each is the others' **understudy**. Only where the finder of nouns is, all heads together cost hardly more than the sum: there one has the job to itself, and nobody stands in. "Not missed" is not "does nothing", and costs measured
# one at a time must not be added up.
#
# **One after another.** We rank the heads by what each costs alone and switch them off for good, in that order and in the reverse one.


# %%
def one_after_another(order):
    off, curve = {}, [whole_right]
    for name, h in order:
        if curve[-1] > 0:
            off.setdefault(name, []).append(h)
            with ablate_heads(model, off):
                curve.append(score()[1])
        else:
            curve.append(0.0)  # nothing left to lose
    return curve


ranked = sorted(heads, key=lambda head: alone[head][0])
least_first, most_first = one_after_another(ranked), one_after_another(ranked[::-1])

# %% tags=["hide-input"]
from transformer.plots.curves import curves

Picture(
    curves(
        range(len(heads) + 1),
        {"most important first": most_first, "least important first": least_first},
        "heads off",
        "Sentences all right",
    ),
    alt=(
        "The share of sentences translated exactly, against the number of heads "
        "that are off. If the most important go first, it falls steeply and is "
        "nearly 0 after a handful. If the least important go first, it hardly falls "
        "for the first four, then steadily, and is 0 with three quarters gone."
    ),
)

# %%
four, eight = len(heads) // 6, len(heads) // 3
for off in (four, eight):
    kept_right = least_first[off], most_first[off]
    print(f"{off} of {len(heads)} heads off: ", end="")
    print("least first {:.0%}, most first {:.0%}".format(*kept_right))
lost_alone = sum(whole_right - alone[head][1] for head in ranked[:eight])
print(f"the first {eight}, each alone: {lost_alone:.0%} lost, all in all")
assert least_first[four] > whole_right - 0.03 and most_first[four] < 0.2
assert whole_right - least_first[eight] > 3 * lost_alone, "more than its parts"

# %% [markdown]
# The ranking is worth something: the curves lie far apart. Its first four heads can go, and next to nothing is lost. But the first eight together cost far more than the sum of their parts: this small model has no large stock of idle heads. Larger translators have. {cite}`michel2019` switch off a good part of their
# model's heads and notice little. {cite}`voita2019` let training choose which to remove, so that the rest can adapt, and most heads of the encoder go. Ours could not adapt.

# %% [markdown]
# ## What attention does not explain
#
# A head was needed, and its weights showed for what. That is the good case. Here are three ways in which weights mislead.
#
# ### Two patterns, one output
#
# The five words of [Attention](02_attention.ipynb) once more. Only *dog* and *milk* had something to give; the other values were zero. So how the rest of the weight is shared out changes the picture, and nothing else:

# %%
words = ["dog", "left", "milk", "because", "it"]
value = torch.tensor([[1.0, 0], [0, 0], [0, 1], [0, 0], [0, 0]])  # (5, 2)
one = torch.tensor([0.50, 0.40, 0.10, 0.00, 0.00])  # "it looks at left"
other = torch.tensor([0.50, 0.00, 0.10, 0.40, 0.00])  # "it looks at because"
assert torch.equal(one @ value, other @ value)
one @ value, other @ value

# %% [markdown]
# Zeros are not even needed. If one value is the mean of two others, half and half on the two equals all on the third: the same output, and the two patterns have no word in common.

# %%
value = torch.tensor([[2.0, 0], [0, 4], [1, 2]])
apart, alone_there = torch.tensor([0.5, 0.5, 0]), torch.tensor([0.0, 0, 1])
assert torch.equal(apart @ value, alone_there @ value) and apart @ alone_there == 0

# %% [markdown]
# This is no accident of our numbers. A pattern over $n$ keys has $n - 1$ free numbers, and the output has $d_v$. If $n > d_v + 1$, some directions must leave the output alone, whatever the values are {cite}`brunner2020`. Three keys and two
# dimensions are not enough for that; four are:

# %%
torch.manual_seed(0)
value = torch.randn(4, 2)
conditions = torch.cat(
    [value.T, torch.ones(1, 4)]
)  # the output, and the sum of one
direction = torch.linalg.svd(conditions).Vh[-1]
even = torch.full((4,), 0.25)
uneven = even + direction * (0.25 / direction.abs().max())
assert_close(even @ value, uneven @ value)
assert uneven.min() > -1e-6 and abs(uneven.sum() - 1) < 1e-5
even, uneven

# %% [markdown]
# {cite}`jain2019` found such other patterns for trained classifiers, and concluded that attention is no explanation. {cite}`wiegreffe2019` replied that a pattern which *could* have been is not one that the model, trained as a whole, *would* have
# come to, and that it depends on what you want explained. Both hold. From a weight alone you cannot tell; that is why we took heads away.
#
# ### Much weight on little
#
# What a key hands over is its weight times its **value**, turned by the head's part of $W^O$. The weight is one factor, the length of the other is not in the heat map. {cite}`kobayashi2020` propose to look at the product. First, that a layer's output
# is a sum of such parts, one for each head and key:


# %%
def parts_of(layer, x):
    """What each key hands over, unweighted: (batch, heads, key, d_model)"""
    value = layer.project_memory(x).value  # (batch, heads, key, d_head)
    columns = layer.output.weight.unflatten(1, (layer.n_heads, -1))
    return torch.einsum("bhkd,mhd->bhkm", value, columns)


def keep(name):
    return lambda _, args: inputs.update({name: args[:2]})


# %%
inputs, hooks = {}, []
for name in weights:
    layer = model.get_submodule(name)
    hooks.append(layer.register_forward_pre_hook(keep(name)))
with torch.no_grad():
    model(source.to(device), target.to(device))
    parts = {
        n: parts_of(model.get_submodule(n), args[-1]).cpu()
        for n, args in inputs.items()
    }
for hook in hooks:
    hook.remove()

# %%
name = cross[-1]
with torch.no_grad():
    x, memory = inputs[name]
    seen = (source != PAD)[:, None, None].to(device)
    output = model.get_submodule(name)(x, memory, seen)
    added = torch.einsum("bhqk,bhkm->bqm", weights[name], parts[name])
    added += model.get_submodule(name).output.bias.cpu()
assert_close(added, output.cpu(), atol=1e-3, rtol=1e-3)
print("the sum of all weight × part, and the bias = the layer's output")

# %% [markdown]
# Now the resting places. A head gives some weight to `<eos>` (or `<bos>`); does it *get* something there? We compare the length of that part with the mean length of the others, which shall be 1, and take the heads with a
# tenth of their weight or more at rest.


# %%
table = []
for name in weights:
    who = sides(name, source, target)
    where = places(*who)["rest"]
    length = parts[name].norm(dim=-1)  # (batch, heads, key)
    at_rest = length.gather(-1, where[:, None, :1].expand(-1, length.size(1), 1))
    keys = (who[1] != PAD)[:, None]
    others = (length * keys).sum(-1, keepdim=True) - at_rest
    ratio = at_rest / others * (keys.sum(-1, keepdim=True) - 1)  # (batch, heads, 1)
    for h, weight in enumerate(share(weights[name], where).tolist()):
        table.append((ratio[:, h].mean().item(), weight, name, h))
resting = sorted(row for row in table if row[1] >= 0.1)

# %%
print(f"{'':18} weight  length")
for ratio, weight, name, h in [*resting[:4], *resting[-4:]]:
    print(f"{short(name) + f', head {h + 1}':18} {weight:.2f}  {ratio:7.1f}")
assert resting[0][0] < 0.5 and resting[-1][0] > 1.1
assert resting[0][2:] == top[1:], "our best aligner rests"

# %% [markdown]
# The same kind of weight, and two meanings. At the top of the list that token hands over little: there a head really rests, and the first of them is our best aligner, when it has nothing to translate. At the bottom it hands over as much as any word, or more: that head *fetches* something from there. The
# heat map is equally bright in both.
#
# ### Place 3 is not word 3
#
# "*off* looks at *turned*" is a manner of speaking. In the first layer the vector at a place is a word and a position. In the second it has already attended to others. How much of the word is left? We exchange one word of the
# source for a random other, let the encoder run, and see by how much each place changes after each layer; then the next word. Of all the movement that a place can undergo, how much comes from its own word?


# %%
def moves(model, ids, strangers):
    """(layers, exchanged word, place): how far a place's vector moves"""
    n = len(ids) - 1  # eos stays
    rows = torch.tensor(ids).repeat(n + 1, 1)  # the last one stays as it is
    rows[range(n), range(n)] = torch.tensor(strangers)
    states = []
    hooks = [
        layer.register_forward_hook(lambda _, args, out: states.append(out.cpu()))
        for layer in model.encoder
    ]
    with torch.no_grad():
        model.encode(rows.to(device))
    for hook in hooks:
        hook.remove()
    return torch.stack([(s[:-1] - s[-1])[:, :n].norm(dim=-1) for s in states])


# %%
def of_whom(model, rows, power=1):
    """For each sentence (layers, place, word): from which word a change comes"""
    dice, pool = random.Random(0), sorted({i for row in rows for i in row[:-1]})
    found = []
    for row in rows:
        strangers = [dice.choice([p for p in pool if p != i]) for i in row[:-1]]
        change = moves(model, row, strangers) ** power
        found.append((change / change.sum(dim=1, keepdim=True)).transpose(1, 2))
    return found


def own_share(tables):
    each = [
        table.diagonal(dim1=1, dim2=2).mean(dim=1) for table in tables
    ]  # (layers,)
    return torch.stack(each).mean(dim=0)


# %%
pocket_rows = [row[row != PAD].tolist() for row in source[:60]]
both = {
    "pocket-small": (model, pocket_rows),
    "multi30k": (photos.model, photo_ids[::4]),
}
own = {name: own_share(of_whom(*of)) for name, of in both.items()}
squared = {name: own_share(of_whom(*of, power=2)) for name, of in both.items()}
for name in both:
    by_layer = (
        f"{x:.2f} ({y:.2f})" for x, y in zip(own[name], squared[name], strict=True)
    )
    print(f"{name:13}", "   ".join(by_layer))

# %% tags=["hide-input"]
row = next(row for row in pocket_rows if len(row) == 9)
(table,) = of_whom(model, [row])
spoken = pieces(row[:-1])
Row(
    Picture(
        heat_map(table[0], spoken, spoken, title="after the first layer"),
        alt=(
            "Rows are places of a sentence, columns its words: from whom a place "
            "is moved. After the first layer most lies on the diagonal."
        ),
    ),
    Picture(
        heat_map(table[-1], spoken, spoken, title="after the last layer"),
        alt=(
            "The same after the last layer: the diagonal is still the brightest "
            "cell of most rows, but weaker, and each row has its share of others."
        ),
    ),
)

# %%
for name, left in own.items():
    assert (left.diff() < 0).all(), f"{name}: ever less"
    assert 0.4 < left[-1] < 0.7 < squared[name][-1]

# %% [markdown]
# A row for each model, a number for each layer. It becomes less from layer to layer. At the end, a half (pocket) to two thirds (captions) of what moves a place is its own word: what a deep layer calls "place 3" is a mixture in which word 3 has the largest part.
#
# The numbers in brackets add up the *squares* of the same movements, and say that much less has been mixed. Both are right. No *single* other word moves a place far; squares see only that. There are many of them, and lengths add up. **How mixed a
# vector is depends on the ruler**, so whoever gives you such a number should name theirs. Our two models are shallow and their sentences short; the paper's has six layers. {cite}`brunner2020` measure with gradients in a deeper model, and find
# less left.

# %% [markdown]
# ## What goes wrong in practice
#
# **Fault 1: one head, one sentence.** Take the encoder head whose best picture flatters it most, and a head with random weights. Search three hundred sentences for the one where it looks like a head that finds the determiner's
# noun:


# %%
def on_nouns(table, h):
    index = its_noun.clamp(min=0)[..., None]
    return table[:, h].gather(-1, index)[..., 0][its_noun >= 0]


def flattered(head):
    found = on_nouns(weights[head[0]], head[1])
    return found.max() - found.mean()


# %%
in_encoder = [head for head in heads if head[0].startswith("encoder")]
name, h = max(in_encoder, key=flattered)
for what, found in (
    (f"{short(name)}, head {h + 1}", on_nouns(weights[name], h)),
    ("a random head", on_nouns(guessing[name], h)),
):
    print(
        f"{what:17} on average {found.mean():.2f}   at its best {found.max():.2f}"
    )
    assert found.max() > 3 * found.mean()

# %% [markdown]
# Its best picture would convince anybody. Report the mean, the number of cases and chance; then show the picture.
#
# **Fault 2: the padding counts.** In a batch, the last column is `<eos>` for the longest sentences only, and the rows of shorter ones go on below their end, where padding asks. Neither raises an error:

# %%
on_end = places(source, source, causal=False)["rest"]
name, h = max(in_encoder, key=lambda head: share(weights[head[0]], on_end)[head[1]])
right_way = share(weights[name], on_end)[h]
last_column = weights[name][:, h, :, -1].mean()
all_rows = share(weights[name], on_end.amax(dim=1, keepdim=True).expand_as(source))[
    h
]
print(f"{short(name)}, head {h + 1}, weight on <eos>: {right_way:.2f}")
print(f"of the last column: {last_column:.2f}")
print(f"with the padding's queries: {all_rows:.2f}")
assert last_column < right_way / 3 and abs(all_rows - right_way) > 0.02

# %% [markdown]
# **Fault 3: the mean of all heads.** It is what most libraries hand out, and it makes one profile of several. The head that finds nouns disappears in it:

# %%
name, h = noun_head
one_head = share(weights[name], its_noun)[h]
of_mean = share(weights[name].mean(dim=1, keepdim=True), its_noun)[0]
print(f"on its noun: the head {one_head:.2f}, the mean {of_mean:.2f}")
print(f"AER: the best head {top[0]:.3f}, the mean of its layer {mean[top[1]]:.3f}")
assert of_mean < 0.6 * one_head

# %% [markdown]
# But look at the second line. For alignment the mean is no worse than the best head, as all heads of that layer do the same job, and four opinions are better than one. So the mean is good for *using* heads that agree, and bad for finding out
# whether they do.
#
# **Fault 4: raw weights at different lengths.** "In short sentences the head looks more at the word before." Here it is, measured, on a head with **random** weights:

# %%
one_back = places(source, source, causal=False)["one back"]
n_keys = (source != PAD).sum(dim=-1)[:, None, None, None]
table = guessing["encoder.0.self_attention"]
for what, rows in (("short", n_keys <= 8), ("long", n_keys >= 15)):
    rows = rows.flatten()
    raw = share(table[rows], one_back[rows])[0]
    times = share((table * n_keys)[rows], one_back[rows])[0]
    print(f"{what:6} one back {raw:.3f}   as a multiple of 1/n {times:.2f}")
    assert 0.8 < times < 1.3

# %% [markdown]
# Shorter rows have larger shares. Divide by what an even head would give, $1/n$, and nothing is left of the finding.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. In sentences of two tokens, a head without a mask gives on average 0.5 to *one back*. What has it learned?**
#
# <details><summary>A. To look one back, half of the time</summary>
#
# No. With two keys an even head gives 0.5 to everything. The number says nothing without chance beside it.
#
# </details>
# <details><summary>B. Nothing that this number shows</summary>
#
# **Right.** It is what a head gives that looks everywhere alike. Longer sentences, or another measure, may tell more.
#
# </details>
# <details><summary>C. To look nowhere</summary>
#
# No. A row sums to one: each head looks somewhere. And an even mean may come of rows that are sharp, now here, now there.
#
# </details>
# <details><summary>D. To look at itself, for the other half</summary>
#
# No. The other half is there, but it is chance's half just as well.
#
# </details>
#
# **2. An aligner proposes 10 links, all of them right. The gold standard has 14 sure links. What is its AER?**
#
# <details><summary>A. 0, since nothing is wrong</summary>
#
# No. AER also asks whether everything was found. Four links are missing.
#
# </details>
# <details><summary>B. 0.17</summary>
#
# **Right.** 1 − 2 · 10 / (10 + 14) = 4 / 24.
#
# </details>
# <details><summary>C. 0.29</summary>
#
# No. 4 / 14 is the share of gold links that were missed. AER weighs it against the precision, which is perfect here.
#
# </details>
# <details><summary>D. 0.83</summary>
#
# No. That is what AER is subtracted from: 20 / 24, the F measure. AER is an error rate, so less is better.
#
# </details>
#
# **3. With one head off, the loss does not change. What may you conclude?**
#
# <details><summary>A. The head does nothing</summary>
#
# No. It may do a job that others do as well, and be missed only when they are off, too.
#
# </details>
# <details><summary>B. It can be taken out together with all others of which the same is true</summary>
#
# No. They may be each other's understudies. The curve with the least important heads first shows what comes of that.
#
# </details>
# <details><summary>C. On these sentences, the model gets on without it as long as all others are there</summary>
#
# **Right.** That, and no more. Other sentences, or other heads off, may bring it to light.
#
# </details>
# <details><summary>D. Its weights are spread evenly</summary>
#
# No. What a head looks at and whether it is missed are two things. The head that looks one back has a clear habit, and is hardly missed.
#
# </details>
#
# **4. Why are the weights of an English word's pieces added, and those of a German word's pieces averaged?**
#
# <details><summary>Answer</summary>
#
# A row is a budget that sums to one. Keys share one budget, so what went to the parts went to the whole. Each query piece has a budget of its own; added up, a word of three pieces would have three.
#
# </details>
#
# **5. A head has 0.9 of its weight on `<eos>`. Is it idle?**
#
# <details><summary>Answer</summary>
#
# The weight alone does not say. Look at the length of what `<eos>` hands over to this head, weight × value through $W^O$. If it is short, the head rests. If it is long, it fetches something there, for example how the sentence
# ends. Then turn it off, and see what changes.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Five blanks: what a head looks at as a rule, how sharp it is, which words it links, how such links are marked, and how to take a head away. Each has a check
# that says what is wrong, and a hint. At the end your functions look into the pocket model.
#
# - In Colab:
#   [14_attention_heads](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/14_attention_heads.ipynb).
#   On GitHub: [14_attention_heads.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/14_attention_heads.ipynb).
# - On your machine, open `exercises/14_attention_heads.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade attention_heads
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And six experiments:
#
# - **More heads.** Load `"pocket-large"` in place of `"pocket-small"`: three layers of six heads, trained on the same sentences. Which jobs do you find again, in which layer, and are there new ones? Can more heads be turned off before it shows?
# - **The captions' model.** Turn off its heads one by one. There are no references, so take its own greedy translations as such, and count those that stay as they are. In which layers are the heads that are missed most?
# - **Understudies.** For the last cross-attention, turn off every pair and every three of its heads. At how many does the loss jump? Which head is the best one to be left alone?
# - **Both directions.** Let model 1 align from English to German too. Keep the links that both directions propose, then those that either proposes. What happens to precision, recall and AER? Which of the two can beat the limit of one link a word?
# - **A cheaper ranking.** Multiply each head's part by a factor of 1 that requires a gradient, and take the gradient of the loss for it, as {cite}`michel2019` do. It ranks all heads in one backward pass. How well does it agree with turning them off?
# - **Weight × length as an aligner.** Multiply the cross-attention's weights by the length of each key's part before you pick links. Which heads get better, and are they the ones that rest?

# %% [markdown]
# ## Going further
#
# - **The paper** has its claim about interpretation in the last paragraph of §4, and its pictures of heads in the appendix {cite}`vaswani2017`.
# - **Jobs of heads, and pruning them:** {cite}`voita2019`. **How many are needed:** {cite}`michel2019`; they find that translation misses cross-attention most.
# - **The debate:** {cite}`jain2019`, and the reply, {cite}`wiegreffe2019`. Read both; they agree on more than their titles do.
# - **Weights and norms:** {cite}`kobayashi2020`, who also find better alignments that way.
# - **When other weights give the same output, and how much of a token is left in deep layers:** {cite}`brunner2020`.
# - **Attention taught to align:** {cite}`garg2019` train one head on alignments while the model learns to translate. {cite}`chen2020` do without, and choose the row and the layer.
# - **Where it began:** the models 1 to 5 of {cite}`brown1993`, and the comparison with which AER came into use, {cite}`och2003`.
