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
# # Training
#
# **You will be able to**
#
# - say what a translator is asked at each position, and compute its loss by hand;
# - write the training step in ten lines, and test it before you trust it with an hour;
# - train a Transformer on real sentences, read its curves, and translate with it;
# - read a sick curve: five planted faults, what each looks like, and the one that no curve shows.
#
# **About 40 minutes**, of which the computer trains a few. It builds on [Masking](04_masking.ipynb); [Data and
# batches](09_data_and_batching.ipynb) and [Label smoothing](10_label_smoothing.ipynb) tell more about what goes in and what is asked.

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
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The question
#
# A fresh Transformer, as small as the one of this page, is a million random numbers. At the end of this page it turns English into German, with the verb in its place
# and the right ending on the adjective. Nobody will have told it a rule. So **what is it asked, so often and so exactly, that it finds the rules itself?**
#
# To watch this we need a language that is real enough to be worth learning and small enough to be learned while you wait. The course carries
# one in its pocket: a grammar that makes English and German sentences side by side. No download, and no two runs differ.

# %%
from transformer.data import pocket

for pair in pocket.pairs("train", 5):
    print(f"{pair.source}\n    {pair.target}")

# %% [markdown]
# Look at what German does there. The verb is second in a main clause and last in a subordinate one; *not* becomes *nicht* or *kein*; a word
# like *opens up* splits in two and closes around the rest; nouns grow together. The language has so many sentences that nobody can learn them by
# heart:

# %%
print(
    f"{pocket.count_lemmas()} words (lemmas), at least {pocket.language_size():.1e} sentence pairs"
)

# %% [markdown]
# And some **combinations** of a verb and its object, of an adjective and its noun, of the two halves of a compound are kept from training
# altogether. Each test sentence contains such a combination. Whoever translates those has not remembered, but understood how the parts fit.

# %% [markdown]
# ## By hand: one sentence, one loss
#
# Text becomes numbers first. The tokenizer cuts it into the subwords that occur most (how it finds them is a story of its own); `prepare` has trained one on both
# languages together and keeps the result on disk.

# %%
from transformer.data.corpora import sentence_pairs
from transformer.data.prepare import prepare
from transformer.recipes import RECIPES

recipe = RECIPES["pocket"]
data = prepare(recipe.data, recipe.model.vocab_size)
tokenizer = data.tokenizer

tests = list(sentence_pairs("pocket", "test"))
source_text, target_text = tests[2]
for text in (source_text, target_text):
    print(text, "→", " ".join(tokenizer.pieces(tokenizer.encode(text))))

# %% [markdown]
# A translator writes from left to right, so what we ask is always the same: **given the source and the translation so far, what comes next?** In training the
# translation so far is the *true* one, whatever the model would have said itself. That is called **teacher forcing**, and it lets us ask all
# positions at once: the decoder reads the translation with `<bos>` in front and should say the same translation with `<eos>` behind. The two
# are one sequence, shifted by one (§3.1).

# %%
from transformer.data.batching import Sequences, collate

ids = [
    Sequences.pack([tokenizer.encode(text)]) for text in (source_text, target_text)
]
one = collate(*ids, indices=[0])
reads, says = (tokenizer.pieces(t[0]) for t in (one.decoder_input, one.labels))
for r, s in zip(reads, says, strict=True):
    print(f"{r:>12} → {s}")

# %% [markdown]
# Now the model answers. For each position it gives a score for every token of the vocabulary; the softmax makes probabilities of them. The
# **loss** of a position is $-\ln p$ of the token that should have come: nothing if the model was certain and right, and the more the less it believed in it.

# %%
from transformer.model import Transformer

torch.manual_seed(0)
untrained = Transformer(recipe.model).eval().requires_grad_(False)
scores = untrained(one.source, one.decoder_input)[0]  # (target, vocab_size)
log_probs = scores.log_softmax(dim=-1)
losses = -log_probs[range(len(says)), one.labels[0]]  # (target,)
losses

# %% [markdown]
# What should an untrained model's loss be? It knows nothing, so all $V$ tokens are about equally likely: $p = 1/V$ and the loss is $\ln V$. If your first loss
# is far from that, look for the mistake before you train.

# %%
print(
    f"mean loss {losses.mean():.2f}, ln V = {math.log(recipe.model.vocab_size):.2f}"
)
assert abs(losses.mean() - math.log(recipe.model.vocab_size)) < 1.5

# %% [markdown]
# ## The picture
#
# The blue row goes into the decoder, the pink row should come out. Each dotted arrow is the shift: what is said at one place is read at the next.
# The look-ahead mask keeps every position from seeing further right than itself, or it would find the answer in the blue row.

# %% tags=["hide-input"]
from transformer.plots.teacher_forcing import teacher_forcing

words = ["<bos>", "die", "Ente", "schläft", "<eos>"]
Picture(
    teacher_forcing(words[:-1], words[1:]),
    alt="Two rows of boxes. The decoder reads bos, die, Ente, schläft. Below each stands what it says: die, Ente, schläft, eos. "
    "Dotted arrows lead from each word that is said to the place where it is read next.",
)

# %% [markdown]
# ## The code
#
# ### Batches by token budget
#
# Sentences differ in length, a batch is a rectangle, and what is left empty is paid for all the same. So a batch is not so many *sentences* but so many
# *tokens* (§5.1): it is filled until one more sentence would pass a budget of target tokens. And it takes sentences of similar length on both sides.
# On the left, sentences as they come; on the right, as the package batches them.

# %%
from transformer.data.batching import token_batches

sources, targets = data.tokens("train")
as_they_come = collate(sources, targets, range(60))
budget = as_they_come.labels.numel()
batches = token_batches(sources, targets, budget, seed=1)
similar = collate(sources, targets, batches[0])

# %% tags=["hide-input"]
from transformer.plots.batch_padding import batch_padding

Row(
    Picture(
        batch_padding(as_they_come, "as they come"),
        alt="A ragged batch: much of both grids, source and target, is empty.",
    ),
    Picture(
        batch_padding(similar, "by length"),
        alt="A batch of sentences of similar length: hardly a cell is empty on either side.",
    ),
)

# %% [markdown]
# How to be similar on **both** sides? Sorted by target and then by source length, the source would jump from its longest back to its shortest whenever the target
# grows. So the package walks through the lengths like a snake: while the target grows, the source goes up and down in turn.

# %%
from transformer.data.batching import serpentine_order

lengths = torch.tensor([(s, t) for s in range(1, 6) for t in (4, 8, 12)]).numpy()
path = lengths[serpentine_order(*lengths.T)]
print("  ".join(f"{source}:{target}" for source, target in path))
assert abs(path[1:, 0] - path[:-1, 0]).max() == 1

# %% [markdown]
# Nothing is lost on the way: each pair is in exactly one batch, and every epoch shuffles anew. And nearly all batches hold equally many of the tokens that count.

# %%
assert sorted(i for batch in batches for i in batch) == list(range(len(sources)))
full = [collate(sources, targets, indices).n_tokens for indices in batches]
nearly = sum(n > 0.95 * budget for n in full) / len(full)
print(
    f"{len(sources)} pairs in {len(batches)} batches, {nearly:.0%} of them nearly full"
)
assert max(full) <= budget and nearly > 0.9

# %% [markdown]
# ### The loss of a batch
#
# By hand we took $-\ln p$ of each expected token. For a batch that is PyTorch's cross-entropy, with padding left out: nobody shall learn to
# predict padding. The package adds **label smoothing** (§5.4). With smoothing 0 the three agree:

# %%
from transformer.training.trainer import batch_loss

by_torch = F.cross_entropy(
    untrained(one.source, one.decoder_input)[0], one.labels[0], reduction="sum"
)
assert_close(batch_loss(untrained, one, smoothing=0.0), losses.sum())
assert_close(by_torch, losses.sum())
SourceCode(batch_loss)

# %% [markdown]
# No logits are to be seen: the loss takes the decoder's states and the output matrix, and makes the logits itself, some rows at a time.
# All of them at once would be the largest tensor of the whole step, a number for every token of the batch and every token of the vocabulary.
#
# It is a **sum**. The division by the number of tokens comes later and once, so that a step made of several batches, or of several
# GPUs, weighs every token equally.
#
# ### The learning rate
#
# Adam's first steps rest on almost no statistics, and large early steps can ruin a post-norm Transformer for good. So the rate climbs in a straight
# line and then falls with the inverse square root of the step (§5.3):
#
# $$\text{rate} = d_\text{model}^{-1/2} \cdot \min(\text{step}^{-1/2},\ \text{step} \cdot \text{warmup}^{-3/2})$$

# %%
from transformer.schedule import learning_rate

assert math.isclose(
    learning_rate(100, 512, 4000), 512**-0.5 * min(100**-0.5, 100 * 4000**-1.5)
)

# %% tags=["hide-input"]
from transformer.plots.curves import curves

steps = range(1, 20_001, 50)
rates = {
    f"warm-up {w}": [1000 * learning_rate(s, 512, w) for s in steps]
    for w in (2000, 4000, 8000)
}
Picture(
    curves(steps, rates, "step", "learning rate × 1000, d_model 512"),
    alt="Three curves that rise in a straight line and then fall ever more slowly. The shorter the warm-up, the earlier and higher "
    "the peak; after the longest warm-up all three are the same curve.",
)

# %% [markdown]
# **In the book, set the schedule.** Halve the warm-up: how much higher is the peak? Put it back and halve $d_\text{model}$: the same peak, at another step.
#
# <div class="widget" data-widget="schedule">
#
# *With JavaScript, there is an interactive figure here. This is how it begins.*
#
# The rate of the paper's base model, $d_\text{model}$ 512 and a warm-up of 4,000:
#
# | step | rate | |
# |---|---|---|
# | 1 | 1.75 · 10⁻⁷ | the first |
# | 2,000 | 3.49 · 10⁻⁴ | half of the warm-up |
# | 4,000 | 6.99 · 10⁻⁴ | the peak |
# | 16,000 | 3.49 · 10⁻⁴ | four times as far: half |
# | 100,000 | 1.40 · 10⁻⁴ | the base model's last |
#
# </div>

# %% [markdown]
# ### One step
#
# All parts are there. This is the whole of training, once around, and a small model to try it on. Its norm stands where the paper has it, after
# each sublayer; the recipe has it before, which forgives more.


# %%
def train_step(model, optimizer, batch, step, warmup_steps=50):
    rate = learning_rate(step, model.config.d_model, warmup_steps)
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = batch_loss(model, batch, smoothing=0.0) / batch.n_tokens
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


# %%
def fresh_model():
    torch.manual_seed(0)
    small = replace(recipe.model, d_model=64, d_ff=256, norm="post")
    model = Transformer(small)
    return model, torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)


# %% [markdown]
# ### The first test: learn one batch by heart
#
# Before any long run, take a few sentences and train on nothing else. A model that is wired up rightly must be able to learn them by heart. Switch
# smoothing and dropout off for it: both keep the loss above zero. If it still stops there, there is a bug, and you have found it in seconds.

# %%
model, optimizer = fresh_model()
few = collate(sources, targets, range(8))
for step in range(1, 151):
    loss = train_step(model, optimizer, few, step)
    if step in (1, 50, 100, 150):
        print(f"step {step:3}   loss {loss:.3f}")
assert loss < 0.1

# %% [markdown]
# ## The run
#
# The package makes the same step, on one device or on many. What it has besides: a step may be made of several batches, where one large one does
# not fit into memory; a step whose gradient is not finite is skipped; numbers may be half as long.

# %%
from transformer.training.trainer import Trainer

SourceCode(Trainer.step)

# %% [markdown]
# `train` has around it what a long run needs: a new order every epoch, validation, and everything written down in a **run folder**, with
# checkpoints that hold all that the next step depends on. Break it off wherever you like: the same command goes on, and ends with the same
# numbers. On the command line it is `transformer train pocket`. Here we shorten the recipe so that this page stays quick to build. It runs on a GPU where there is one.

# %%
from transformer.device import choose_device
from transformer.training.loop import train

run = Path(tempfile.mkdtemp()) / "pocket"
training = replace(
    recipe.training,
    steps=1500,
    average_steps=200,
    validate_every=300,
    validation_sentences=50,
)

# %%
metrics = []


def report(line):
    metrics.append(line)
    print(
        f"step {line['step']:4.0f}   loss {line['valid_loss']:.2f}   BLEU {line['valid_bleu']:5.1f}"
    )


train(run, data, recipe.model, training, choose_device(), on_validation=report)

# %% [markdown]
# BLEU compares translations with a reference and goes from 0 to 100. The two curves tell different stories. The loss falls from the first step:
# soon the model knows which words are frequent, then which follow each other. BLEU stays near the ground until the cross-attention has found out *where to look*,
# and then climbs steeply. **Point at a step to read its numbers.**

# %% tags=["hide-input"]
from transformer.plots.training_curves import training_curves

training_curves(
    metrics,
    description="Two charts over the training steps. The training and validation losses fall steeply and then ever more slowly. BLEU "
    "on validation sentences stays low at first and then climbs. Pointing at a step shows its numbers.",
)

# %% [markdown]
# ## It translates
#
# The run folder is all that is left of a training, and all that one needs. We read it back, now on the CPU, which is quick enough for a few sentences. They are from the
# test set, and each has a combination that training never saw:

# %%
from transformer.translator import Translator

translator = Translator.load(run, choose_device("cpu"))
some = tests[:6]
for (source, reference), translation in zip(
    some, translator.greedy_search([s for s, _ in some]), strict=True
):
    print(f"{source}\n  {'=' if translation == reference else '≠'} {translation}")
    if translation != reference:
        print(f"    {reference}   (reference)")

# %% [markdown]
# `beam_search` keeps several beginnings instead of one and can show the runners-up with their scores, which are log-probabilities, corrected for length:

# %%
for t in translator.beam_search(
    ["The old woman does not open the window."], beam_size=4, n_best=3
)[0]:
    print(f"{t.hypothesis.score:7.2f}   {t.text}")

# %% [markdown]
# And on test sentences as a whole:

# %%
from transformer.evaluation.metrics import bleu

some = tests[:100]
score = bleu(translator.greedy_search([s for s, _ in some]), [t for _, t in some])
print(score)
print("longer training does better: transformer train pocket")

# %% [markdown]
# ## Where it looks
#
# One look inside. While the decoder says a German token, its cross-attention looks at the English ones. We record it for a test sentence, take the mean over the
# heads of the last layer, and draw a row for each token said. Nobody ever told the model which word translates which. It had to find out,
# because otherwise it could not have answered.

# %%
from transformer.inspection import record_attention

batch = collate(
    *[Sequences.pack([tokenizer.encode(t)]) for t in tests[2]], indices=[0]
)
with record_attention(translator.model) as weights, torch.no_grad():
    translator.model(batch.source, batch.decoder_input)
name = f"decoder.{recipe.model.n_layers - 1}.cross_attention"
looks = weights[name][0].mean(dim=0)  # (target, source)
assert_close(looks.sum(dim=-1), torch.ones(len(looks)))

# %% tags=["hide-input"]
from transformer.plots.heat_map import heat_map

Picture(
    heat_map(
        looks,
        tokenizer.pieces(batch.labels[0]),
        tokenizer.pieces(batch.source[0]),
        annotate=False,
    ),
    alt="A heat map of cross-attention: a row for each German token said, a column for each English token. Most rows have one bright "
    "cell, at the English word that the German one translates.",
)

# %% [markdown]
# That was one sentence, and the mean of one layer. **In a live notebook, run the next cell:** it puts the model that you have just trained on the screen. Type a sentence,
# watch the search decide, and switch heads off. In the book the cell stands without its output, as there is no model of yours;
# [The translator, live](../book/live.md) does the same with the models that come with the course.

# %% tags=["skip-execution"]
from transformer.interactive import live_translator

live_translator(translator, [source for source, _ in tests[:3]])

# %% [markdown]
# ## What goes wrong
#
# Five faults, planted one at a time into the same small model, each run for a moment beside a healthy one. Before you look: which curve will be the
# best?
#
# - **Not shifted:** the decoder reads the very token that it should say.
# - **Out of step:** each translation stands beside the source of another pair, as when a line is missing in one of two files.
# - **No warm-up:** the formula with a warm-up of one step. So the first step is taken at a rate that the healthy run never reaches.
# - **A rate far too low:** the warm-up takes so long that nothing ever happens.
# - **Gradients kept:** nobody sets them to zero, so each step is made of all batches so far.


# %%
def short_run(change=lambda batch: batch, warmup_steps=50, forget=True):
    model, optimizer = fresh_model()
    if not forget:
        optimizer.zero_grad = lambda: None  # the line that was left out
    few = token_batches(sources, targets, 500, seed=0)[:60]
    batches = [change(collate(sources, targets, indices)) for indices in few]
    return [
        train_step(model, optimizer, batch, step, warmup_steps)
        for step, batch in enumerate(batches, start=1)
    ]


# %%
healthy = {"healthy": short_run()}
wrong_data = healthy | {
    "not shifted": short_run(lambda b: replace(b, decoder_input=b.labels)),
    "out of step": short_run(lambda b: replace(b, source=b.source.roll(1, 0))),
}
wrong_steps = healthy | {
    "no warm-up": short_run(warmup_steps=1),
    "rate too low": short_run(warmup_steps=20_000),
    "gradients kept": short_run(forget=False),
}

# %% tags=["hide-input"]
Row(
    Picture(
        curves(range(1, 61), wrong_data, "step", "wrong data: loss a token"),
        alt="Three losses over sixty steps. The one whose target is not shifted falls fastest, to nearly nothing. The healthy one and "
        "the one whose pairs are out of step lie on each other.",
    ),
    Picture(
        curves(range(1, 61), wrong_steps, "step", "wrong steps: loss a token"),
        alt="Four losses over sixty steps. The healthy one falls and is lowest at the end. Without warm-up it stays on a plateau above. "
        "With a rate too low it hardly moves from where it began. With gradients kept it falls at first, then climbs again.",
    ),
)

# %%
runs = wrong_data | wrong_steps
ends = {name: sum(history[-20:]) / 20 for name, history in runs.items()}
print("\n".join(f"{name:15} {end:5.2f}" for name, end in ends.items()))
assert ends["not shifted"] < 0.5 < ends["healthy"] < ends["no warm-up"] - 0.2
assert abs(ends["out of step"] - ends["healthy"]) < 0.2
assert ends["rate too low"] > 8 and ends["gradients kept"] > ends["healthy"] + 0.5

# %% [markdown]
# Read them like a doctor.
#
# - **Too good.** The best curve belongs to a worthless model. Without the shift the answer stands in the input, and copying it is easily learned; at translation time there is
#   nothing to copy. **A loss that falls suspiciously fast is a leak until you have proved otherwise.** The causality test of the [masking
#   chapter](04_masking.ipynb) clears the mask. This fault it does not find, for the leak is in the data: that takes the line about them in [Data and batching](09_data_and_batching.ipynb).
# - **A plateau.** Without warm-up the model still learns how frequent each token is, and then stays there.
# - **A flat line.** The rate is too low, or the optimiser does not hold the parameters that you think it does.
# - **Down, then up.** The steps go on in directions that are long out of date. A rate that is too high later in a run looks alike.
# - **Nothing to be seen.** Pairs that are out of step look just like healthy ones, here at the beginning: for a while every model learns only which German words follow each
#   other, and for that no source is needed. Such a model never gets further, and its curve does not say why.
#
# So for the last fault one needs a test. Ask the model that you have trained with the *right* sources, and then with those of other sentences. If
# it has learned to translate, that must hurt:

# %%
model = translator.model.eval()
probe = collate(sources, targets, range(64))
strange = replace(probe, source=probe.source.roll(1, 0))
with torch.no_grad():
    own, others = (
        (batch_loss(model, batch, 0.0) / batch.n_tokens).item()
        for batch in (probe, strange)
    )
print(f"with its own sources {own:.2f}, with those of others {others:.2f}")
assert others > 2 * own

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. Your vocabulary has 1,000 tokens, and the loss of the first batch is 2.1. What do you do?**
#
# <details><summary>A. Go on: lower is better</summary>
#
# No. An untrained model has no right to a loss much below ln 1000 ≈ 6.9. Something lets it see the answer.
#
# </details>
# <details><summary>B. Look for a leak</summary>
#
# **Right.** First suspects: the shift, and the look-ahead mask.
#
# </details>
# <details><summary>C. Lower the learning rate</summary>
#
# No. Before the first step the rate has not done anything yet.
#
# </details>
#
# **2. Why does the decoder read the true translation in training, and not its own?**
#
# <details><summary>A. Because its own would be wrong, and it would learn mistakes</summary>
#
# Partly. But it is graded against the true next token in either case; it would not learn to *make* the mistakes.
#
# </details>
# <details><summary>B. Because then all positions can be computed at once</summary>
#
# **Right.** Its own translation would have to be written token by token, each waiting for the one before. The price: it never practises
# going on from its own mistakes.
#
# </details>
# <details><summary>C. Because the look-ahead mask would not work otherwise</summary>
#
# No. The mask works on any input. It is needed *because* the whole translation is read at once.
#
# </details>
#
# **3. Two GPUs have batches of 900 and 100 real tokens. Each divides its loss by its own count, then the gradients are averaged. What is wrong?**
#
# <details><summary>A. Nothing: a mean of means is a mean</summary>
#
# No. Only if both means are taken over equally many.
#
# </details>
# <details><summary>B. The tokens of the small batch weigh nine times as much</summary>
#
# **Right.** 1/100 against 1/900. Sum first, divide once by the global count.
#
# </details>
# <details><summary>C. The gradients become too large</summary>
#
# No. Their size is about right; it is their *mixture* that is wrong, and that is harder to notice.
#
# </details>
#
# **4. The model has learned one batch by heart: loss near zero. What have you shown, and what not?**
#
# <details><summary>Answer</summary>
#
# That gradients reach what they must, that the loss is the right one, that the optimiser steps. Not that it learns to translate: a model whose
# target is not shifted passes this test with ease.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Six blanks: the learning rate, the loss of a batch, a large batch in small parts, clipping, a step of Adam, and the average of checkpoints. Each has a
# check that says what is wrong, and a hint.
#
# - In Colab:
#   [11_training](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/11_training.ipynb).
#   On GitHub: [11_training.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/11_training.ipynb).
# - On your machine, open `exercises/11_training.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade training
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And three experiments, each one line. Every setting of a recipe can be changed on the command line; `transformer train pocket --help` lists them.
#
# ```bash
# transformer train pocket                                              # the whole recipe
# transformer train pocket --run runs/post --model.norm post            # the norm where the paper has it
# transformer train pocket --run runs/de   --data.direction de-en       # the other way round
# transformer translate runs/pocket "The old woman does not open the window." --n-best 4
# ```
#
# Compare the `metrics.jsonl` of the runs. Which direction is easier, and why would that be? With the real captions of Multi30k instead of `pocket`
# the same commands train a translator for photographs: `transformer train multi30k`.

# %% [markdown]
# ## Going further
#
# - **Training in the paper:** batches in §5.1, optimiser and schedule in §5.3, dropout and smoothing in §5.4 of {cite}`vaswani2017`.
# - **Why the warm-up is needed**, and how moving the norm does without it: {cite}`xiong2020`.
# - **BLEU**, and why every score needs a signature: {cite}`papineni2002`, {cite}`post2018`.
