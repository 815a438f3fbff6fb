# %% [markdown]
# # Data and batching
#
# **You will be able to**
#
# - say what the paper was trained on, fetch such text so that you can trust it, and clean it with filters whose blind spots you know;
# - build what the decoder reads and what it should say, and prove that the loss is the probability of a whole sentence;
# - fill batches by tokens, measure what padding costs, and say what sorting costs;
# - recognise the mistakes in data that raise no error, above all the one that makes the loss wonderful.
#
# **About 45 minutes.** It builds on [Masking](04_masking.ipynb) and [Subword tokenization](08_subword_tokenization.ipynb).

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
from dataclasses import replace

import numpy as np
import torch
from torch.testing import assert_close

import transformer
from transformer.data import pocket
from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## The question
#
# What one hands to a model is a rectangle of whole numbers. What one has is two files, line 17 of the one a translation of line 17 of the other, or
# so they say. Between the two lie a download, filters, a vocabulary and a shift by one.
#
# Nothing on this way needs a gradient, and most of what ruins a translator happens here. A wrong layer usually shows: the loss stays up. Wrong data
# often make the loss *better*. So **what exactly is the model asked, and how do we get there without fooling ourselves?**

# %% [markdown]
# ## Where the text comes from
#
# The paper trained on the English-German data of WMT 2014, a shared task {cite}`bojar2014` (§5.1). The package describes it in a **manifest**, a piece of JSON.
# Nothing below is typed; it is read from there:

# %%
from transformer.data.corpora import downloadable_corpora

wmt14 = downloadable_corpora()["wmt14"]
print(wmt14["description"])
for name, file in wmt14["files"].items():
    size = f"{file['size'] / 1e6:.0f} MB" if "size" in file else "?"
    print(f"{name:34} {size:>7}  {file['digest'][:17]}…")

# %% [markdown]
# Three archives hold the training text, and they are very different company.
#
# - **Europarl v7:** what was said in the European Parliament, as its translators wrote it down {cite}`koehn2005`. Clean, formal, and everybody is Mr President.
# - **Common Crawl:** pages of the web that exist in both languages, found and aligned by a machine {cite}`smith2013`. Varied, and dirty.
# - **News Commentary v9:** commentaries written for newspapers. Small, and nearest to the test set, which is news.
#
# How many sentences each of them has stands in no manifest. These are the line counts of the three pairs of files:

# %%
lines = [1_920_209, 2_399_123, 201_288]  # in the manifest's order
parts = wmt14["splits"]["train"]
for part, n in zip(parts, lines, strict=True):
    member = part["en"].split(":")[1].split("/")[-1]
    print(f"{member:30} {n:9,}  {n / sum(lines):4.0%}")
assert round(sum(lines) / 1e6, 1) == 4.5  # §5.1: about 4.5 million
assert lines[1] > sum(lines) / 2

# %% [markdown]
# More than half of it is the web. Whoever says "WMT14" and means four and a half million clean sentences has not looked. And beware of the name: some programs call a mixture "WMT14" that has a later year's News
# Commentary in it. Their scores are those of another corpus.
#
# ### A download that you can trust
#
# Servers die, connections break, and somebody may repair a typo in a file in 2031. Then your numbers are not the paper's, and no error tells you. Two things help. A
# **checksum**: a short number made of every byte of the file. And **several homes**, which need not be trusted, because the checksum is.

# %%
import hashlib

right = b"Resumption of the session\n"
wrong = right.replace(b"R", b"r")
for content in (right, wrong):
    print(hashlib.sha256(content).hexdigest()[:32], content.decode().strip())
print()
print(*wmt14["base_urls"], sep="\n")

# %% [markdown]
# One letter, and nothing is left of the number. (Above, one file has an *md5*, because its publisher gave that: enough against accidents, not against forgers.) The package writes a download to a file of its own, and gives it its name only when the checksum is right. Let us try
# this without a network: a folder stands in for the server, and at first it has the wrong file.

# %%
import tempfile
import warnings
from pathlib import Path

from transformer.data.download import RemoteFile, fetch
from transformer.errors import UserError

warnings.filterwarnings("ignore", message="IProgress")  # a bar for downloads
work = Path(tempfile.mkdtemp())
server, cache = work / "server", work / "cache"
server.mkdir()
digest = "sha256:" + hashlib.sha256(right).hexdigest()
file = RemoteFile("session.en", urls=(), digest=digest)

# %%
(server / "session.en").write_bytes(wrong)
try:
    fetch(file, cache, mirror=str(server))
except UserError as error:
    print("refused:", "wrong checksum" in str(error))
assert not (cache / "session.en").exists(), "what is wrong never gets the name"

# %%
(server / "session.en").write_bytes(right)
path = fetch(file, cache, mirror=str(server))
assert path.read_bytes() == right
print("fetched:", path.name)

# %% [markdown]
# With a network it is one command, `transformer prepare wmt14-base`, and `--mirror` names a folder or an address of your own.

# %% [markdown]
# ## What is wrong with it
#
# The paper does not say how it cleaned. But text from parliaments and the web has typical diseases, and for each there is a filter. Here is a sample, written for
# this page: one clean pair, and one for each disease.

# %%
clean = ("The committee meets on Monday.", "Der Ausschuss tagt am Montag.")
dirty = {
    "drop_empty": ("Thank you, Mr President.", ""),
    "drop_control": ("It costs 20 \x80 a day.", "Das kostet 20 \x80 am Tag."),
    "min_words": ("(Applause)", "(Beifall)"),
    "max_words": ("and so on " * 51, "und so weiter " * 51),
    "max_ratio": (
        "The sitting is closed.",
        "Die Sitzung ist geschlossen. Wir fahren morgen um neun Uhr fort.",
    ),
    "drop_identical": ("Page 3 of 12, www.example.com",) * 2,
    "min_language_probability": (clean[0], "De commissie vergadert op maandag."),
    "drop_duplicates": clean,
}

# %% [markdown]
# Do you see what is wrong with each? An empty side: an aligner found no partner. `\x80`: the byte that Windows used for €, read as if it were Latin-1. Too short and too
# long teach little, and the long ones fill the memory. A ratio over 2: a sentence lost its neighbour. Two equal sides: a web page that was never translated. A side in another language, here
# Dutch: the crawler was mistaken. And boilerplate that comes again and again.
#
# A filter that recognises languages, here with the library [py3langid](https://github.com/adbar/py3langid), is never certain, so it needs a threshold: this one drops a sentence only if it
# is in its language with a probability below 0.01. The higher the threshold, the more sentences in a wrong language it finds, and the more good ones it drops by mistake. How often it
# does, judged by hand, is on the page of [results](../book/results.md).
#
# The package charges a pair to the first filter that drops it. Each of ours is caught by name:

# %%
from transformer.data.cleaning import Cleaner
from transformer.recipes import RECIPES, WMT14_CLEANING

cleaner = Cleaner(WMT14_CLEANING)
kept = list(cleaner.clean([clean, *dirty.values()]))
report = cleaner.report
for name, (example,) in report.examples.items():
    print(f"{name:24} {report.settings[name]!s:5} line {example['line']}")
print(report.kept, "of", report.seen, "kept")
assert kept == [clean]
assert report.dropped == dict.fromkeys(dirty, 1)

# %% [markdown]
# That was the easy half. Filters look at the *form* of sentences and at their language, not at what they mean. These three pairs show the difference:

# %%
pairs = {
    "wrong, fluent": (
        "The hotel is close to the beach.",
        "Das Wetter war gestern sehr schön.",
    ),
    "right, short": ("Very well.", "Sehr gut."),
    "right, terse": ("The vote is closed now.", "Abstimmung beendet."),
}
for name, pair in pairs.items():
    print(f"{name:14} kept: {bool(list(Cleaner(WMT14_CLEANING).clean([pair])))}")

# %% [markdown]
# The bad one passes, the two good ones are lost. A filter is a bet: it pays when what it drops is bad *more often* than what it keeps. So look at what yours
# dropped; the report keeps the first examples of each. And the kinds of dirt are not equally bad: copies left untranslated harm a
# neural translator far more than their number suggests {cite}`khayrallah2018`, because copying is easy to learn.

# %% [markdown]
# ## A corpus in the pocket
#
# This course needs text without a download, without a licence to read, and with answers that real text never gives. So it carries a **synchronous grammar**: rules
# that write a tree down in both languages at once. Whoever writes both sides knows which word came from which. That is the **gold alignment**, and later it will tell whether an
# attention head looks at the right word.

# %%
train_pairs = list(pocket.pairs("train", 6000))
test_pairs = list(pocket.pairs("test", 500))
pair = test_pairs[7]
print(pair.source, pair.target, sep="\n")
for i, word in enumerate(pair.source_words[:5]):
    linked = [pair.target_words[t] for s, t in pair.alignment if s == i]
    print(f"{word:>10} – {' '.join(linked)}")

# %% tags=["hide-input"]
from transformer.plots.heat_map import heat_map

gold = torch.zeros(len(pair.target_words), len(pair.source_words))
for s, t in pair.alignment:
    gold[t, s] = 1
Picture(
    heat_map(gold, pair.target_words, pair.source_words, annotate=False),
    alt=(
        "The gold alignment of a sentence with an although clause, German in rows "
        "and English in columns. Most links lie on the diagonal. English tasted "
        "is linked to two German words, probiert and hat, at the end of their "
        "clause; protected is linked to a hat right behind the comma and to "
        "beschützt, the last word."
    ),
)

# %% [markdown]
# What else such a corpus gives:

# %%
german = {}
for pair in [*train_pairs, *test_pairs]:
    assert german.setdefault(pair.source, pair.target) == pair.target
print(f"{pocket.count_lemmas()} lemmas, {pocket.language_size():.0e} pairs or more")
print(f"{len(german)} English sentences, each with one German one")

# %% [markdown]
# The translation is a *function* of the source, so a perfect model reaches 100 BLEU, and every point below is a mistake. In real text nobody knows where the ceiling is. And the price, so
# that nobody is fooled: no dirt, no ambiguity, no style, no long sentences. What works here has only shown that it *can* work.

# %% [markdown]
# ## By hand
#
# ### Two rows from one sentence
#
# Source: *the duck opens the door*. Target: *die Ente macht die Tür auf*. Every word is a token here, with a number from a toy vocabulary.

# %%
words = "<pad> <bos> <eos> <unk> the duck opens door die Ente macht Tür auf"
number = {word: i for i, word in enumerate(words.split())}
source = [number[word] for word in "the duck opens the door".split()]
target = [number[word] for word in "die Ente macht die Tür auf".split()]
print(source, target)

# %% [markdown]
# The encoder reads the source with `<eos>` behind it. For the decoder the target is taken **twice**: what goes in begins with `<bos>`, what should come out ends with `<eos>` (§3.1 calls it an
# offset of one position).

# %%
from transformer.data.tokenizer import BOS, EOS, PAD

assert [number[word] for word in ("<pad>", "<bos>", "<eos>")] == [PAD, BOS, EOS]
reads = [BOS, *target]
says = [*target, EOS]
names = list(number)
for so_far in range(1, len(reads) + 1):
    before = " ".join(names[i] for i in reads[:so_far])
    print(f"{before:>34} → {names[says[so_far - 1]]}")

# %% [markdown]
# Seven questions from six words, each with its true answer. The decoder reads the *true* words so far, never its own: that is **teacher forcing**. With the look-ahead mask, all seven
# are answered in one pass.
#
# Two pairs make a rectangle when the shorter is filled up with `<pad>` at its end. By hand, and by the package:

# %%
from transformer.data.batching import Sequences, collate

short = [number[word] for word in "die Ente".split()]
sources = Sequences.pack([source, source[:2]])
targets = Sequences.pack([target, short])
batch = collate(sources, targets, [0, 1])

fill = [PAD] * 4
by_hand = torch.tensor([reads, [BOS, *short, *fill]])
assert torch.equal(batch.decoder_input, by_hand)
assert torch.equal(batch.labels, torch.tensor([says, [*short, EOS, *fill]]))
assert torch.equal(batch.source[0], torch.tensor([*source, EOS]))
print(batch.labels, f"{batch.n_tokens} real tokens", sep="\n")
SourceCode(collate)

# %% [markdown]
# ### A sentence's probability is a product
#
# What do these seven answers add up to? A trained model tells. `pocket-small` comes with the course; it has read the grammar's training sentences. We give it the pair and take, at each
# position, the probability of the token that should come.

# %%
translator = transformer.load("pocket-small", device="cpu")
model, tokenizer = translator.model, translator.tokenizer
model.eval().requires_grad_(False)


def batch_of(*pairs):
    sides = (tokenizer.encode_all(side) for side in zip(*pairs, strict=True))
    return collate(*map(Sequences.pack, sides), range(len(pairs)))


# %%
duck = batch_of(("The duck opens the door.", "Die Ente macht die Tür auf."))
log_p = model(duck.source, duck.decoder_input)[0].log_softmax(dim=-1)
answers = log_p.gather(1, duck.labels[0][:, None])[:, 0]  # (target,)
for piece, p in zip(tokenizer.pieces(duck.labels[0]), answers.exp(), strict=True):
    print(f"{piece:8} {p:.3f}")
smoothing = RECIPES["pocket-small"].training.label_smoothing
print(f"it was taught to say about {1 - smoothing:.2f}")

# %% [markdown]
# It makes hardly a mistake, and yet it is never certain: it was trained with **label smoothing** (§5.4), which asks for a little less than certainty.
#
# Each number is a probability *given the source and the words so far*. Multiplied, they are the probability of the whole sentence; that is the chain rule of probability, no
# approximation:
#
# $$ p(y \mid x) = \prod_{t} p(y_t \mid y_1, \ldots, y_{t-1},\, x) $$
#
# So the decoder is a **language model with a condition**: a machine that predicts the next word, and the source is its condition. The logarithm makes a sum of the product, and the sum with
# a minus is the loss, summed over tokens. Three ways, one number; the beam search reports it too:

# %%
from transformer.training.trainer import batch_loss

product = answers.exp().prod()
loss = batch_loss(model, duck, smoothing=0.0)
((best,),) = translator.beam_search(["The duck opens the door."])
assert_close(product.log(), -loss)
assert math.isclose(best.hypothesis.log_probability, -loss, rel_tol=1e-3)
print(f"product {product:.4f}   loss {loss:.4f}   e^-loss {math.exp(-loss):.4f}")

# %% [markdown]
# For a whole batch it is the same: minus the log-probability of each sentence, summed, where padding counts for nothing. Who makes this sum small makes the training text probable. Smoothing apart, that is
# all that training asks for.

# %%
some = [(p.source, p.target) for p in test_pairs[:20]]
together = batch_loss(model, batch_of(*some), smoothing=0.0)
alone = sum(batch_loss(model, batch_of(one), smoothing=0.0) for one in some)
assert_close(together, alone)
print(f"20 sentences: {together:.3f} together, {alone:.3f} one by one")

# %% [markdown]
# ### What `<eos>` is for
#
# It looks like a mere full stop for machines. But without it the product is no probability of a *sentence*. After *die Ente macht* all ways to go on have a share, and the shares sum to one:
# so the product up to there is the probability of **all sentences that begin so**. Only `<eos>` says: this one, and nothing behind it.

# %%
begins = answers[:-1].exp().prod()  # all that begin with these words
stops = answers[-1].exp()  # and end here
assert_close(log_p.exp().sum(dim=-1), torch.ones(len(log_p)))
assert_close(begins * stops, product)
print(f"begins so {begins:.4f}   stops here {stops:.4f}   both {product:.4f}")

# %% [markdown]
# ### What teacher forcing does not teach
#
# In training the words so far are always right. In use they are the model's own, and if one is wrong, the model stands where it never stood before. This is called **exposure bias**
# {cite}`ranzato2016`. We can see it: one token in the middle of what the decoder reads is replaced by another sentence's, and we look at the loss of the tokens *behind* it.

# %%
longer = [(p.source, p.target) for p in test_pairs if len(p.target_words) > 7]
batch = batch_of(*longer[:100])
tampered = batch.decoder_input.clone()
tampered[:, 4] = tampered[:, 4].roll(1)
behind = {}
for name, given in (("true words", batch.decoder_input), ("one wrong", tampered)):
    log_p = model(batch.source, given).log_softmax(dim=-1)
    losses = -log_p.gather(2, batch.labels[..., None])[..., 0]
    first = losses[:, 4].mean().item()
    later = losses[:, 5:][batch.labels[:, 5:] != PAD].mean().item()
    print(f"{name:10}  loss right behind it {first:.2f}, further on {later:.2f}")
    behind[name] = first, later
assert behind["one wrong"][0] > 5 * behind["true words"][0]
assert behind["one wrong"][1] > 1.3 * behind["true words"][1]

# %% [markdown]
# Right behind the wrong word the true one comes as a surprise. Further on the model finds its way again, but not quite. Be fair to it: part of that is right. What does it say instead?

# %%
instead = log_p.argmax(dim=-1)[:, 4]
lost = (instead == batch.labels[:, 3]).float().mean()
true = (instead == batch.labels[:, 4]).float().mean()
print(f"the word that was replaced {lost:.0%}, the true next one {true:.0%}")
assert lost > 0.15 and true > 0.15

# %% [markdown]
# Often it says the word that was taken away, as you would. But the mistake stays in the text, and in use one leads to the next. One can train on the model's own words now and then {cite}`bengio2015`. The paper does
# not. The model would have to write before it can learn, one word after another; and a translator has, unlike a story-teller, a source to hold on to when it has lost its way.

# %% [markdown]
# ## The picture
#
# Sentences differ in length, a batch is a rectangle, and the machine computes its empty cells all the same. How many are empty? We encode the pocket sentences and look at three ways to
# choose about sixty pairs.

# %%
texts = [(p.source, p.target) for p in train_pairs]
sides = [tokenizer.encode_all(side) for side in zip(*texts, strict=True)]
sources, targets = map(Sequences.pack, sides)
source_lengths = sources.lengths() + 1  # with eos
target_lengths = targets.lengths() + 1
print(
    f"target: {target_lengths.min()} to {target_lengths.max()} tokens, "
    f"mean {target_lengths.mean():.1f}"
)

# %%
from transformer.data.batching import token_batches
from transformer.plots.batch_padding import cut_batches


def waste(lengths, batches):
    cells = sum(len(rows) * lengths[rows].max() for rows in batches)
    return 1 - lengths.sum() / cells


# %%
budget = 600
come = np.arange(len(target_lengths))
by_target = np.argsort(target_lengths, kind="stable")
three = {
    "as they come": cut_batches(come, target_lengths, budget),
    "target sorted": cut_batches(by_target, target_lengths, budget),
    "the package": token_batches(sources, targets, budget, seed=0),
}
for name, batches in three.items():
    s, t = waste(source_lengths, batches), waste(target_lengths, batches)
    print(f"{name:13}  padding: source {s:4.0%}, target {t:4.0%}")

# %% tags=["hide-input"]
from transformer.plots.batch_padding import batch_explorer, batch_padding


def typical(batches):
    """Of those with about sixty pairs, the batch nearest to the mean padding."""

    def off(rows):
        return sum(abs(waste(n[rows], [come[: len(rows)]]) - waste(n, batches))
                   for n in (source_lengths, target_lengths))  # fmt: skip

    return min((rows for rows in batches if 50 <= len(rows) <= 70), key=off)


pictures = []
for name, batches in three.items():
    shown = collate(sources, targets, typical(batches))
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
Row(*pictures)

# %% [markdown]
# As they come, the longest sentence decides for all. Sorted by target length, the right half is all but full and the left half still ragged, for a source may be longer or shorter than its
# translation. The package sorts by **both**: among targets of nearly equal length it walks the sources up, and among the next ones down again, like a snake.

# %%
s = waste(source_lengths, three["the package"])
t = waste(target_lengths, three["the package"])
assert s < 0.05 and t < 0.05
assert waste(source_lengths, three["as they come"]) > 0.3
assert waste(target_lengths, three["target sorted"]) < 0.02
assert waste(source_lengths, three["target sorted"]) > 3 * s

# %% [markdown]
# ### Play with it
#
# A corpus of billions does not fit in memory, so many programs sort only a **pool** of neighbours at a time. Move the slider, and choose how many are sorted together. Each block is a batch, of which nine
# sentences are drawn, and grey is padding; below, each batch is a dot. Find out:
#
# - With a budget of 1,000 tokens, which pools change hardly anything? Why?
# - When the budget doubles, what must the pool do to keep the waste where it was?
# - With everything sorted, what curve do the dots lie on?

# %% tags=["hide-input"]
batch_explorer(
    target_lengths[:2000],
    budgets=range(250, 2001, 250),
    pools=(1, 20, 100, 500, 2000),
    start=(1000, 1),
    description=(
        "A slider for the token budget, from 250 to 2000, and a menu for how many "
        "sentences are sorted together, from 1 to all 2000. Six "
        "blocks of blue rows with grey padding behind them, each a batch. Below, a dot "
        "for each batch: its longest sentence against its number of sentences. "
        "With a pool of 1 nearly half of the cells are grey; with larger pools the "
        "grey vanishes, and the dots spread out along a falling curve."
    ),
)

# %% [markdown]
# A pool that is no larger than a batch changes next to nothing: within a batch the order does not matter, and a pool only reorders. What counts is **how many batches fit into the pool**. And the curve is
# sentences = budget ÷ length, which is what a token budget means.

# %%
from transformer.plots.batch_padding import pooled_order

few, found = target_lengths[:2000], {}
for budget in (250, 2000):
    for n in (0, 1, 4, 16):
        pool = max(1, round(n * budget / few.mean()))
        found[budget, n] = waste(
            few, cut_batches(pooled_order(few, pool), few, budget)
        )
        what = f"a pool of {n:2} batches" if n else "as they come"
        print(f"budget {budget:4}, {what:20} {found[budget, n]:4.0%} padding")
for n in (1, 4, 16):
    assert abs(found[250, n] - found[2000, n]) < 0.12
for budget in (250, 2000):
    assert abs(found[budget, 1] - found[budget, 0]) < 0.05

# %% [markdown]
# ## The code
#
# ### Batches by token budget
#
# Take the next pair of the snake's path until one more would pass the budget. First in a loop; `4` is how much target length may differ, and `1.5` keeps the few pairs whose source is far
# longer than their target from blowing up the rectangle.


# %%
def place(i):
    """Where pair i stands on the path."""
    s, t = source_lengths[i], target_lengths[i]
    step = t // 4
    return step, -s if step % 2 else s, -t if (step + s) % 2 else t


# %%
def batches_by_loop(budget):
    batches, rows, tokens, widest = [], [], 0, 0
    for i in sorted(range(len(target_lengths)), key=place):
        wide = max(widest, source_lengths[i], target_lengths[i])
        cells = wide * (len(rows) + 1)
        if rows and (tokens + target_lengths[i] > budget or cells > 1.5 * budget):
            batches.append(rows)
            rows, tokens, wide = [], 0, max(source_lengths[i], target_lengths[i])
        rows, tokens, widest = [*rows, i], tokens + target_lengths[i], wide
    return [*batches, rows]


# %% [markdown]
# The package does the same with one sort, and one binary search for each batch. Equal, batch by batch:

# %%
ours = batches_by_loop(600)
theirs = token_batches(sources, targets, 600)
assert [list(b) for b in theirs] == ours
print(f"{len(ours)} batches, equal")
SourceCode(token_batches)

# %% [markdown]
# ### Why not so many sentences
#
# The paper's batches hold about 25,000 source and 25,000 target tokens (§5.1), not so many sentences. Sort by length and take 64 sentences at a time, and see why:

# %%
rows = [by_target[i : i + 64] for i in range(0, len(by_target), 64)]
by_count = [int(target_lengths[r].sum()) for r in rows][:-1]
by_tokens = [int(target_lengths[r].sum()) for r in three["the package"]]
print(f"64 sentences: {min(by_count)} to {max(by_count)} tokens")
print(f"600 tokens: nine in ten have {np.quantile(by_tokens, 0.1):.0f} or more")
n_pairs = 25_000 / target_lengths.mean()
print(f"the paper's 25,000 would be {n_pairs:,.0f} of our pairs")
assert max(by_count) > 4 * min(by_count)
assert max(by_tokens) <= 600 and np.quantile(by_tokens, 0.1) > 540

# %% [markdown]
# The memory must hold the largest batch, so all others leave it idle. And a step on few tokens has a noisier gradient, but the same learning rate. A token is the unit of the work, of the memory and
# of the loss. So it is the unit of the batch.
#
# ### Why the order is shuffled all the same
#
# Sorted batches in sorted order would take a model through the corpus from *It rains.* to the longest relative clause, and then start again. Neighbours would be all but equal. As a measure we take
# the share of `<eos>` among a batch's tokens, which tells how long its sentences are.


# %%
def shares_of(batches):
    return np.array([len(b) / target_lengths[b].sum() for b in batches])


in_order = shares_of(token_batches(sources, targets, 600))
shuffled = shares_of(three["the package"])
correlation = {
    name: float(np.corrcoef(shares[:-1], shares[1:])[0, 1])
    for name, shares in (("sorted", in_order), ("shuffled", shuffled))
}
for name, r in correlation.items():
    print(f"{name:9} correlation of neighbouring batches {r:5.2f}")
assert correlation["sorted"] > 0.9 and abs(correlation["shuffled"]) < 0.35

# %% tags=["hide-input"]
from transformer.plots.curves import curves

shares = {"in sorted order": 100 * in_order, "shuffled": 100 * shuffled}
n = min(map(len, shares.values()))
Picture(
    curves(
        range(n),
        {name: values[:n] for name, values in shares.items()},
        "batch of an epoch",
        "Share of <eos> among its tokens, percent",
    ),
    alt=(
        "The share of eos over an epoch. In sorted order it falls, in a few "
        "waves, from 15 to 20 percent down to five; shuffled it jumps between the "
        "same two levels from batch to batch."
    ),
)

# %% [markdown]
# A model that lives through the left end of that curve learns to stop early, and unlearns it until the right end. Shuffling the *batches* ends this. It does not end everything. Look at how
# far the shuffled line jumps:

# %%
random_order = np.random.default_rng(0).permutation(come)
random_rows = cut_batches(random_order, target_lengths, 600)
fair = shares_of(random_rows)
print(f"share of eos: random batches {fair.mean():.3f} ± {fair.std():.3f}")
print(f"              by length      {shuffled.mean():.3f} ± {shuffled.std():.3f}")
assert shuffled.std() > 3 * fair.std()

# %% [markdown]
# **A batch by length is no fair sample of the corpus.** Its sentences are alike, so its gradient should point a bit off. Let us measure that: the gradient of a fresh model on two thousand pairs, and how far that of
# one batch is from it, or the mean of several.

# %%
from transformer.config import ModelConfig
from transformer.model import Transformer

small = ModelConfig(len(tokenizer), 64, n_heads=4, d_ff=128, n_layers=1, norm="pre")


def gradient(net, batches, weigh=lambda batch: 1 / batch.n_tokens):
    net.zero_grad()
    for batch in batches:
        (batch_loss(net, batch, smoothing=0.0) * weigh(batch)).backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()])


# %%
torch.manual_seed(0)
fresh = Transformer(small).eval()
whole = gradient(fresh, [collate(sources, targets, range(2000))])


def off(gradients):
    return float((sum(gradients) / len(gradients) - whole).norm() / whole.norm())


# %%
far = {}
for name, found in (("random", random_rows), ("by length", three["the package"])):
    chosen = [collate(sources, targets, rows) for rows in found[:16]]
    each = [gradient(fresh, [batch]) for batch in chosen]
    for n in (1, 2, 16):
        groups = [each[i : i + n] for i in range(0, 16, n)]
        far[name, n] = np.mean([off(group) for group in groups])
        print(f"{n:2} batches {name:9}  off by {far[name, n]:4.0%}")

# %% [markdown]
# Equally many tokens, and a gradient that is off by half as much again. Is sorting worth it, then? A batch by length has only about half of the cells. So for the price of *one* random batch you get *two* by length, and
# those are off by nearly as much: a draw. What decides is the last pair of lines. In a step made of many batches the slants cancel, and sixteen batches by length are nearly as good as sixteen at random, **for half of the price**.
#
# So shuffle the batches well, and make a step from several where you can. The paper did, with eight GPUs (§5.2).

# %%
assert far["by length", 1] > 1.25 * far["random", 1]
assert far["by length", 2] < 1.35 * far["random", 1]
assert far["by length", 16] < 1.35 * far["random", 16]

# %% [markdown]
# ### Every epoch anew, for every GPU its share, and on from anywhere
#
# `Batches` is what training reads from: an iterator without end. Each epoch has a path and an order of its own, made from `(seed, epoch)`:

# %%
from transformer.data.batching import Batches


def who(batches):
    return {frozenset(map(int, rows)) for rows in batches}


one = Batches(sources, targets, 600, seed=0)
first = one.plan
after = Batches(sources, targets, 600, seed=0, epoch=1).plan
again = Batches(sources, targets, 600, seed=0).plan
assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
print(f"{len(who(first) & who(after))} of {len(first)} batches have the same pairs")

# %% [markdown]
# With four GPUs, each **rank** takes every fourth batch. All have equally many steps, or some would wait for ever for a partner that has gone home; where the number of batches is no multiple of four, large ones are
# halved. And nobody gets a pair that another has:

# %%
ranks = [Batches(sources, targets, 600, 0, rank, world_size=4) for rank in range(4)]
for b in ranks:
    tokens = [int(target_lengths[rows].sum()) for rows in b.plan[:4]]
    print(f"rank {b.rank}: {len(b.plan)} steps, target tokens {tokens} …")
dealt = np.concatenate([rows for b in ranks for rows in b.plan])
assert len({len(b.plan) for b in ranks}) == 1
assert sorted(dealt) == list(range(len(sources)))

# %% [markdown]
# Four GPUs with one batch each, or one GPU that adds up the gradients of four batches (**accumulation**): together they read the same.

# %%
alone = Batches(sources, targets, 600, 0, gradient_accumulation_steps=4)
ranks = [Batches(sources, targets, 600, 0, rank, world_size=4) for rank in range(4)]
for _ in range(50):
    for b in ranks:
        assert torch.equal(next(b).source, next(alone).source)
print("four times one is one times four, for 50 steps")

# %% [markdown]
# That is how 25,000 tokens fit on a small GPU: as eight batches of 3,125, say. [Training](11_training.ipynb) shows the step that adds them up.
#
# And where the reading stands is two numbers, `epoch` and `step`. A run that was killed in the middle of an epoch goes on with exactly the batches that it would have read. We stop three batches before
# an epoch's end, so that the seam is crossed too:

# %%
one = Batches(sources, targets, 600, seed=0)
for _ in range(len(one.plan) - 3):
    next(one)
cursor = {"epoch": one.epoch, "step": one.step}  # this goes into a checkpoint
resumed = Batches(sources, targets, 600, seed=0, **cursor)
for _ in range(10):
    assert torch.equal(next(one).labels, next(resumed).labels)
print(f"from {cursor} to epoch {resumed.epoch}, step {resumed.step}: the same")

# %% [markdown]
# ### Once, and then from disk
#
# Cleaning, learning a vocabulary and encoding take minutes for a real corpus, and the result is always the same. So `prepare` does it once. Our corpus here is a table, English, a tab, German, as yours may
# be:

# %%
import os
import time

from transformer.data.prepare import DataConfig, prepare

os.environ["TRANSFORMER_DATA"] = str(work / "data")  # where stores are kept
table = work / "pairs.tsv"
table.write_text("".join(f"{s}\t{t}\n" for s, t in texts), "utf-8")
config = DataConfig(str(table))

# %%
seconds = []
for _ in range(2):
    start = time.perf_counter()
    data = prepare(config, vocab_size=1000)
    stored = data.tokens("train")
    seconds.append(time.perf_counter() - start)
print(f"the first time {seconds[0]:.1f} s, then {1000 * seconds[1]:.0f} ms")
assert seconds[1] < seconds[0] / 10

# %%
for side in ("source", "target"):
    for part in ("ids", "ends"):
        size = (data.folder / f"train.{side}.{part}.npy").stat().st_size
        print(f"train.{side}.{part}.npy {size / 1000:6.0f} kB")
tokens = sum(len(side.ids) for side in stored)
print(f"{tokens:,} tokens, {stored[0].ids.itemsize} bytes each")
assert (
    isinstance(stored[0].ids.base, np.memmap) and stored[0].ids.dtype == np.uint16
)

# %% [markdown]
# All sentences lie end to end in one array, with a second one that says where each ends. Two bytes a token, because a vocabulary of 37,000 fits into 65,536. And the arrays are **memory-mapped**: loading reads nothing,
# the pages come from disk when they are touched, and eight processes on a machine share one copy.
#
# Change a setting, and it is another store: its name has a digest of all that shaped it. So a forgotten old file can never be mistaken for the new one.

# %%
import json

from transformer.data.prepare import prepared_folder

other = prepared_folder(replace(config, max_length=100), 1000)
assert other != data.folder and not other.exists()
assert prepared_folder(config, 1000) == data.folder
stored_settings = json.loads((data.folder / "store.json").read_text())
print(stored_settings["pairs"])

# %% [markdown]
# ## What goes wrong in practice
#
# ### The target that is not shifted
#
# Somebody writes `model(source, target)` and compares with `target`. All shapes fit. We train two small models side by side for some seconds, one as it should be, one like that.

# %%
from transformer.decoding import greedy_search


def short_training(spoil=lambda batch: batch, steps=60):
    torch.manual_seed(0)
    pupil, losses = Transformer(small), []
    optimizer = torch.optim.Adam(pupil.parameters(), lr=0.003)
    batches = Batches(sources, targets, 600, seed=0)
    for _ in range(steps):
        batch = spoil(next(batches))
        loss = batch_loss(pupil, batch, smoothing=0.0) / batch.n_tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return pupil.eval(), losses


# %%
honest, right = short_training()
copier, unshifted = short_training(lambda b: replace(b, decoder_input=b.labels))
ends = {"honest": np.mean(right[-10:]), "not shifted": np.mean(unshifted[-10:])}
for name, end in ends.items():
    print(f"{name:12} loss {end:.2f} a token")
assert ends["not shifted"] < 0.5 and ends["honest"] > 3

# %% tags=["hide-input"]
Picture(
    curves(
        range(len(right)),
        {"not shifted": unshifted, "honest": right},
        "step",
        "Training loss a token",
    ),
    alt=(
        "Two losses over sixty steps. The honest one begins near nine and falls to "
        "about five. The one whose target is not shifted begins below four and "
        "falls to nearly zero."
    ),
)

# %% [markdown]
# Look at the left end, **before anything was learned**. A model that guesses has a loss of $\ln V$. The honest one is near it; the other is far below. With residuals around every layer, and one matrix for looking words up and for
# saying them (§3.4), an untrained Transformer as shallow as this one says what it reads. For the honest one that is a small handicap. For the other it is half of the answer, as a gift.

# %%
guessing = math.log(len(tokenizer))
print(
    f"guessing {guessing:.2f}   honest {right[0]:.2f}   not shifted {unshifted[0]:.2f}"
)
assert abs(right[0] - guessing) < 1.5 and unshifted[0] < guessing / 1.5

# %% [markdown]
# So the mistake shows at step 0, if you look. After some seconds its loss is nearly nothing. Now ask both the real question, `<bos>` in front and all, on test sentences; and let them translate:

# %%
sentence = "The duck opens the door."
ids = torch.tensor([translator.encode(sentence)])
exam = batch_of(*some)
for name, pupil in (("honest", honest), ("not shifted", copier)):
    with torch.no_grad():
        asked = (batch_loss(pupil, exam, 0.0) / exam.n_tokens).item()
    (said,) = greedy_search(pupil, ids)
    ends[name] = asked
    print(f"{name:12} loss {asked:5.2f}   {' '.join(tokenizer.pieces(said[:5]))} …")
assert ends["honest"] < guessing < ends["not shifted"]

# %% [markdown]
# After so few steps the honest one only knows which words are frequent. The other has learned to **copy its input**, and nothing besides: whatever it happens to say first, it reads next and says again, for ever.
# It is worse than guessing, because it is so sure. And the source? Give it another sentence's:

# %%
copied = replace(exam, decoder_input=exam.labels)
other = replace(copied, source=copied.source.roll(1, dims=0))
with torch.no_grad():
    own, foreign = (
        batch_loss(copier, b, 0.0).item() / exam.n_tokens for b in (copied, other)
    )
print(f"with its own source {own:.3f}, with another's {foreign:.3f}")
assert abs(own - foreign) < 0.05

# %% [markdown]
# It does not matter. This model has never looked at what it should translate.
#
# The causality test of [Masking](04_masking.ipynb) does *not* find this: the mask is right, the data are wrong. What finds it is a line about the data. Keep it in your tests:

# %%
batch = next(Batches(sources, targets, 600, seed=0))
real = batch.decoder_input[:, 1:] != PAD
assert (batch.decoder_input[:, 0] == BOS).all()
assert torch.equal(batch.decoder_input[:, 1:][real], batch.labels[:, :-1][real])

bad = replace(batch, decoder_input=batch.labels)
print("spoiled batch found:", not (bad.decoder_input[:, 0] == BOS).all())

# %% [markdown]
# ### Forgetting `<eos>`
#
# A model whose targets had none never learns to stop. We take the trained one and forbid it to say `<eos>`, which amounts to much the same, and let it write on:

# %%
said = [BOS]
for _ in range(20):
    logits = model(ids, torch.tensor([said]))[0, -1]
    logits[EOS] = -math.inf
    said.append(int(logits.argmax()))
print(tokenizer.decode(said[1:]))

# %% [markdown]
# The sentence is finished, and it has no way to say so. On the source side the mistake is quieter: the encoder has lost a place that it was used to, and the loss is a little worse.

# %%
batch = batch_of(*some)
without = torch.where(batch.source == EOS, PAD, batch.source)
for name, given in (("with eos", batch.source), ("without", without)):
    loss = batch_loss(model, replace(batch, source=given), 0.0) / batch.n_tokens
    print(f"source {name:9} loss {loss:.3f} a token")
    ends[name] = loss.item()
assert ends["with eos"] < ends["without"]

# %% [markdown]
# ### Padding on the wrong side
#
# Put it in front, and mask it as always. The mask hides it, so what can happen? The *positions*: the first word no longer stands at place 0, where every first word of the training stood.

# %%
front = batch.source.clone()
for row in front:
    length = int((row != PAD).sum())
    row[:] = torch.cat([row[length:], row[:length]])
losses = {}
for name, given in (("behind", batch.source), ("in front", front)):
    loss = batch_loss(model, replace(batch, source=given), 0.0) / batch.n_tokens
    losses[name] = loss.item()
    print(f"padding {name:8}  loss {loss:.3f} a token")
assert losses["in front"] > 2 * losses["behind"]

# %% [markdown]
# Models that only write pad in front when they write in batches, so that the next word stands at the same place in every row. That is right if positions are counted from the first real token.
#
# ### A mean of means
#
# Two batches, 900 tokens with a mean loss of 2, and 100 tokens with 4. The mean over the *tokens* is $(900 \cdot 2 + 100 \cdot 4) / 1000$; the mean of the two means gives a token of the small batch nine
# times the weight.

# %%
n, mean = np.array([900, 100]), np.array([2.0, 4.0])
print(f"mean over tokens {(n * mean).sum() / n.sum()}, of means {mean.mean()}")

# %% [markdown]
# On real gradients: one batch of 65 pairs, and the same in two parts, 60 short pairs and 5 long ones. Summed and divided once, the parts give the gradient of the whole. Averaged one by one, they do not.

# %%
path = token_batches(sources, targets, 600)
rows = np.concatenate([path[0][:60], path[-2][:5]])
whole = collate(sources, targets, rows)
parts = [collate(sources, targets, r) for r in (rows[:60], rows[60:])]
wanted = gradient(fresh, [whole])
once = gradient(fresh, parts, lambda part: 1 / whole.n_tokens)
of_means = gradient(fresh, parts, lambda part: 1 / part.n_tokens / len(parts))

error = (of_means - wanted).norm() / wanted.norm()
print(
    f"{[p.n_tokens for p in parts]} tokens: a mean of means is off by {error:.0%}"
)
assert (once - wanted).norm() < 1e-4 * wanted.norm() and error > 0.2

# %% [markdown]
# ### The test set in the vocabulary
#
# [Subword tokenization](08_subword_tokenization.ipynb) showed what it brings: the pieces suit that test better, and nothing else. Does the package do it? Learn the vocabulary again from the training half of the store alone. If it is the same
# file to the last byte, nothing else had a part in it.

# %%
from transformer.data.corpora import sentence_pairs
from transformer.data.tokenizer import Tokenizer, sample_lines

only_train = [side for p in sentence_pairs(str(table), "train") for side in p]
learned = Tokenizer.train(sample_lines(only_train), 1000)
assert learned.model == data.tokenizer.model
print(f"the same {len(learned.model):,} bytes")

# %% [markdown]
# ### Test sentences that were in training
#
# In the pocket corpus, no test sentence is a training sentence:

# %%
seen = {p.source for p in train_pairs}
assert not seen & {p.source for p in test_pairs}
print("shared sentences:", len(seen & {p.source for p in test_pairs}))

# %% [markdown]
# With your own text this does not come by itself. Captions often come with several translations. Whoever shuffles the *pairs* and cuts off a piece for testing has seen most of its sources:

# %%
import random

captions = [(s, f"{t} ({i})") for s, t in texts[:700] for i in range(3)]
random.Random(0).shuffle(captions)
held, rest = captions[:100], {s for s, _ in captions[100:]}
print(
    f"shuffled pairs: {sum(s in rest for s, _ in held)} of {len(held)} test sources seen"
)

own = work / "captions.tsv"
own.write_text("".join(f"{s}\t{t}\n" for s, t in captions), "utf-8")
split = {n: list(sentence_pairs(str(own), n)) for n in ("train", "valid", "test")}
rest = {s for s, _ in split["train"] + split["valid"]}
seen = sum(s in rest for s, _ in split["test"])
print(f"the package: {seen} of {len(split['test'])}")
assert seen == 0 and sum(map(len, split.values())) == len(captions)

# %% [markdown]
# The package asks a *hash of the source* where a pair goes: equal sources, equal split, on every machine, whatever the order of the file.
#
# ### Two spellings of one word
#
# In Unicode an *ä* is one character, or an *a* followed by two dots. They look the same, and Python says that they differ:

# %%
import unicodedata

word = "Mädchen"
composed, apart = (unicodedata.normalize(f, word) for f in ("NFC", "NFD"))
print(composed, apart, composed == apart, len(composed), len(apart))
pairs = [("The girl laughs.", f"Das {form} lacht.") for form in (composed, apart)]
print("duplicates found:", 2 - len(list(Cleaner(WMT14_CLEANING).clean(pairs))))
assert tokenizer.encode(composed) == tokenizer.encode(apart)

# %% [markdown]
# The tokenizer brings both to one form, so the model is safe. But the filter for duplicates compares what is written, and so does a check for test sentences in training. And so does BLEU: a perfect translation, against a
# reference in the other form.

# %%
from transformer.evaluation.metrics import bleu

line = "Das Mädchen hat gestern ein schönes Buch gelesen."
nfc, nfd = (unicodedata.normalize(f, line) for f in ("NFC", "NFD"))
print(f"BLEU {bleu([nfc], [nfc]).value:.0f}, or {bleu([nfc], [nfd]).value:.0f}")
assert bleu([nfc], [nfd]).value < 60

# %% [markdown]
# Normalise *before* you compare.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. The target has six tokens. How many positions does the decoder read, and what is the last thing it should say?**
#
# <details><summary>A. Six; the sixth token</summary>
#
# No. Then nobody ever asks for `<eos>`, and the model cannot learn to stop.
#
# </details>
# <details><summary>B. Seven; <code>&lt;eos&gt;</code></summary>
#
# **Right.** `<bos>` and six tokens go in, six tokens and `<eos>` should come out.
#
# </details>
# <details><summary>C. Seven; the sixth token</summary>
#
# No. At the seventh position it has read all six tokens. The sixth would be a copy of what it has just read: not shifted.
#
# </details>
# <details><summary>D. Eight; <code>&lt;eos&gt;</code></summary>
#
# No. That would be `<bos>`, six tokens and `<eos>` going in. Nothing comes after `<eos>`, so there is nothing to ask there.
#
# </details>
#
# **2. You sort pools of 50 sentences, and a batch has 80. What happens to the padding?**
#
# <details><summary>A. Nothing to speak of</summary>
#
# **Right.** A batch holds a whole pool and more, and inside a batch the order does not matter.
#
# </details>
# <details><summary>B. It falls to nearly zero</summary>
#
# No. For that, the sentences of *one batch* must be alike, so the pool must hold many batches.
#
# </details>
# <details><summary>C. It falls by 50/80</summary>
#
# No. There is no such proportion: below one batch a pool does nothing, and above it the waste falls fast.
#
# </details>
# <details><summary>D. It grows, because the pools' borders cut batches</summary>
#
# No. A batch across a border is as mixed as an unsorted one, not worse.
#
# </details>
#
# **3. Two GPUs, ranks 0 and 1, and an odd number of batches. What has to be done?**
#
# <details><summary>A. Nothing: one of them makes a step more</summary>
#
# No. Each step exchanges gradients. The one with a step more would wait for the other for ever.
#
# </details>
# <details><summary>B. Drop the last batch</summary>
#
# No. It works, and some pairs are left out of each epoch. It is not needed.
#
# </details>
# <details><summary>C. Give the last batch to both</summary>
#
# No. Then its pairs count twice. Small harm, and an epoch is no longer an epoch.
#
# </details>
# <details><summary>D. Halve a batch</summary>
#
# **Right.** Every pair is read once, and both make equally many steps. Since the loss is divided by the tokens of all, smaller halves weigh no more than they should.
#
# </details>
#
# **4. A filter for the ratio of lengths dropped 3 per cent. How do you find out whether that was good?**
#
# <details><summary>A. Compare the training losses with and without</summary>
#
# No. They are losses on different text. Without the hard pairs the loss falls by itself.
#
# </details>
# <details><summary>B. Read a hundred dropped pairs, and compare BLEU on an uncleaned test set</summary>
#
# **Right.** The first tells what was dropped, the second whether it mattered. And the test set is never cleaned.
#
# </details>
# <details><summary>C. Three per cent is little, it cannot matter</summary>
#
# No. A few per cent of copied or misaligned pairs can do much harm, and good pairs lost can be just the short answers that you need.
#
# </details>
# <details><summary>D. Raise the ratio until nothing is dropped</summary>
#
# No. Then you have measured only that you can switch the filter off.
#
# </details>
#
# **5. With a vocabulary of 70,000, what changes in the token store?**
#
# <details><summary>Answer</summary>
#
# Ids no longer fit into 16 bits, which end at 65,535, so it takes 32 bits a token: the ids take twice the room. Nothing else changes.
#
# </details>
#
# **6. Why does a translator's loss not reach zero, however good it is?**
#
# <details><summary>Answer</summary>
#
# Because the loss is minus the logarithm of a probability, and a source has many good translations, which share it. A loss of zero would mean that it is certain which one the translator of that
# day wrote. In the pocket corpus there is only one, and there it does come near zero, if it is not smoothed.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Five blanks: which pairs to keep, three rows for each pair, what padding costs, batches of equal size, and how to go on after an interruption. Each has a
# check that says what is wrong, and a hint.
#
# - In Colab:
#   [09_data_and_batching](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/09_data_and_batching.ipynb).
#   On GitHub: [09_data_and_batching.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/09_data_and_batching.ipynb).
# - On your machine, open `exercises/09_data_and_batching.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade data_and_batching
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And five experiments.
#
# 1. **Change `4` in `place`** to 1 and to 16. What happens to the padding of the source, and of the target? The package has it as `TARGET_BUCKET_WIDTH`.
# 2. **Train with a bad order.** Give `short_training` the batches of `token_batches(sources, targets, 600)`, sorted, and look at the loss of its last batch and of the first batch after training.
# 3. **Shift once too often:** let the decoder read `<bos> <bos>` and the target without its last two. Nothing leaks, nothing fails. How would you find it?
# 4. **Dirty the corpus.** Replace the German of one pair in fifty by its English, train `short_training` for longer, and count how many translations are copies.
# 5. **Look at real data**, if you have a network:
#
# ```bash
# transformer prepare multi30k
# transformer data multi30k
# transformer prepare wmt14-mini
# transformer data wmt14-mini
# ```

# %% [markdown]
# ## Going further
#
# - **In the paper:** data and batches are §5.1 of {cite}`vaswani2017`; the shift is in §3.1.
# - **Where WMT14 comes from:** {cite}`bojar2014`; its parts, {cite}`koehn2005` and {cite}`smith2013`.
# - **Which dirt hurts most**, one kind at a time: {cite}`khayrallah2018`.
# - **How to fill batches**, with the order of sentences compared: {cite}`morishita2017`.
# - **Training on the model's own words:** {cite}`bengio2015`; the name *exposure bias*: {cite}`ranzato2016`.
# - **Very large batches**, and what they do to speed and quality: {cite}`ott2018`.
