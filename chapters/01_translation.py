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
# # The Transformer from the outside: translating a sentence
#
# **You will be able to**
#
# - let a trained Transformer translate, and name each station on the way from text to text;
# - run its decoder by hand, one word at a time, and get what the package gets;
# - explain, with a measurement, what a network loses that reads word by word, and what direct access gains and costs;
# - tell the Transformer's relatives apart by who may look at whom.
#
# **About 30 minutes.** It builds on a little PyTorch. Everything inside the machine is left to the chapters that follow.

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
import torch
from torch import nn
from torch.testing import assert_close

import transformer
from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The question
#
# A trained Transformer comes with this course. It has read captions of photographs, each in English and in German, and nothing else. Here it
# translates two that it has never seen:

# %%
translator = transformer.load("multi30k", precision="fp32")
captions = [
    "A dog runs across the field.",
    "A chef with a red hat is preparing food in the kitchen.",
]
for caption, (best,) in zip(
    captions, translator.beam_search(captions), strict=True
):
    print(caption, "→", best.text)
assert best.text.endswith(" Essen zu."), "the verb's second half is at the end"

# %% [markdown]
# Look at the second pair. *Is preparing* has become *bereitet … zu*, with the whole kitchen between its halves. *Food* and *kitchen* have changed places. And
# the endings of *einem roten* depend on the hat's gender and on the word *with*. So a translation is not made word for word. It needs the whole sentence, and
# each of its words needs something else of it.
#
# But a network is a fixed stack of matrices. **How does a sentence of any length go through it, and come out at another length and
# in another order?**

# %% [markdown]
# ## The picture
#
# Two halves. The **encoder** reads the source, all of it at once. The **decoder** writes the target, one word after another, and at each step it
# reads two things: what it has said so far, and what the encoder made of the source.

# %% tags=["hide-input"]
from transformer.plots.encoder_decoder import encoder_decoder

Picture(
    encoder_decoder(),
    alt=(
        "The words 'the duck opens the door' enter the encoder, where all words "
        "look at all words at once. What it makes of them, the memory, goes over "
        "to the decoder, which reads its own words so far, looks at the memory, "
        "and says the next word at every place."
    ),
)

# %% [markdown]
# On the way the sentence changes its form five times. We follow the dog through all of them.

# %% [markdown]
# ## By hand
#
# ### Text becomes numbers
#
# A network reads numbers. So the text is cut into **pieces** that are in the model's vocabulary, and each piece is replaced by its number there.
# Frequent words are one piece, rare ones several; `▁` marks the beginning of a word. The last piece says that the sentence is over: `<eos>`, end of
# sentence.

# %%
model, tokenizer = translator.model, translator.tokenizer
device = translator.device.device
ids = translator.encode(captions[0])
print(tokenizer.pieces(ids))
print(ids)

# %% [markdown]
# ### The encoder reads
#
# The encoder takes the numbers and returns the **memory**: one vector for each piece. All pieces are read at once; none has to wait for another.
# What a model reads has to lie where the model does: on the GPU if this machine has one, or else on the CPU. That place is `device`; answers that we keep come back with `.cpu()`.
# (And `precision="fp32"`, above, asks a GPU not to shorten numbers, as it would to be quicker. A CPU does not shorten them.)

# %%
source = torch.tensor([ids], device=device)  # (1, source): a batch of one sentence
with torch.no_grad():
    memory, memory_mask = model.encode(source)
memory.shape  # (batch, source, d_model)

# %% [markdown]
# It is worth looking at what kind of vectors these are. Before the first layer, a *dog* in fifth place has the same vector in every sentence: a row of a table, and
# what is added for the place. In the memory it has not. It has taken in what stands around it.


# %%
@torch.no_grad()
def vector_of(piece, text):
    ids = translator.encode(text)
    place = tokenizer.pieces(ids).index(piece)
    assert place == 4, "the fifth piece"
    return model.encode(torch.tensor([ids], device=device))[0][0, place]


here = vector_of("▁dog", "A woman in a dog costume.")
there = vector_of("▁dog", "A man and a dog run across the field.")
similarity = torch.cosine_similarity(here, there, dim=0)
assert similarity < 0.95
print(f"the two dogs have a cosine similarity of {similarity:.2f}")

# %% [markdown]
# ### The decoder says the next word
#
# The decoder answers one question only: *this is the memory, this is what has been said so far; what comes next?* Its answer is a probability for each
# piece of the vocabulary. At the start nothing has been said. A piece that stands for that, `<bos>`, begins every sentence.

# %%
from transformer.data.tokenizer import BOS, EOS


@torch.no_grad()
def next_piece(said):
    states = model.decode(torch.tensor([said], device=device), memory, memory_mask)
    return model.logits(states[0, -1]).softmax(dim=-1).cpu()  # (vocabulary,)


probabilities = next_piece([BOS])
print(len(probabilities), "pieces, in all", f"{probabilities.sum():.2f}")
print("most probable:", tokenizer.pieces(probabilities.topk(4).indices))

# %% [markdown]
# Now say the most probable piece, put it behind what was said, and ask again, until it says that the sentence is over. That is all there
# is to **greedy search**.

# %%
said, steps = [BOS], []
while said[-1] != EOS and len(said) < 40:
    probabilities = next_piece(said)
    said.append(int(probabilities.argmax()))
    steps.append(probabilities)
tokenizer.pieces(said)

# %% [markdown]
# ### Numbers become text
#
# The last station is the first one backwards: the pieces are joined. And what we have built from six lines is what the package does, which
# decodes many sentences at once and much faster ([Decoding](12_decoding.ipynb) says how):

# %%
text = tokenizer.decode(said[1:-1])
assert translator.greedy_search(captions[:1]) == [text]
text

# %% [markdown]
# **Step through it yourself.** At each step you see what was said so far, and what the decoder thought might come next. Where one piece has it all, the
# source and the grammar left no choice; where several share, there is more than one good way to go on.

# %% tags=["hide-input"]
from transformer.plots.next_token import next_token_explorer

vocabulary = tokenizer.pieces(range(len(tokenizer)))
next_token_explorer(
    torch.stack(steps),
    tokenizer.pieces(said[1:]),
    vocabulary,
    count=6,
    description=(
        "A slider goes through the steps of the translation. For each step it "
        "shows what has been said so far, and the six most probable next pieces "
        "as bars. The piece that is said, the longest bar, is in colour. Below "
        "this chart the same is printed as a table."
    ),
)

# %%
from transformer.plots.next_token import top_tokens

print(top_tokens(torch.stack(steps), vocabulary))

# %% [markdown]
# ### It goes on from whatever was said
#
# The decoder does not know who has said the words so far. Put one into its mouth, and it goes on from there: it is a language model that
# also listens to the memory. Here it has to begin with *Zwei*, two, or with *Auf*, on:


# %%
def go_on_from(beginning):
    said = [BOS, *tokenizer.encode(beginning)]
    while said[-1] != EOS and len(said) < 40:
        said.append(int(next_piece(said).argmax()))
    return tokenizer.decode(said[1:-1])


for beginning in ("Zwei", "Auf"):
    print(go_on_from(beginning))

# %% [markdown]
# What follows fits the new beginning. After *Zwei* come *Hunde* and *rennen*, both plural; after *Auf* the field comes first, and the verb stands before the dog, as
# German has it. The rest still comes from the source, which has one dog and not two: a first word that was badly chosen cannot be taken back. Beam search, which keeps several beginnings alive, is the remedy.

# %% [markdown]
# ## All words at once
#
# We asked step by step, because each step needed the word before. In **training** the right translation is known. So the decoder can be asked all
# questions in one go: at every place it reads the words up to there and says the next. A mask keeps it from reading on. One pass,
# and the very same numbers:

# %%
target = torch.tensor([said[:-1]], device=device)
with torch.no_grad():
    logits = model(source, target)  # (1, target, vocabulary)
at_once = logits[0].softmax(dim=-1).cpu()
assert_close(at_once, torch.stack(steps))
print(len(at_once), "questions in one pass, the same answers")

# %% [markdown]
# This is the whole of the model from outside, as it stands in the package's file:

# %%
from transformer.model import Transformer

SourceCode(Transformer.forward)

# %% [markdown]
# ## Where it looks
#
# When the decoder says a word, it looks at the memory. We can watch. A row is a piece that is said, a column a piece of the source; the lighter
# a cell, the more of that column went into that row. This is the mean over the heads of one layer.

# %% tags=["hide-input"]
from transformer.inspection import record_attention
from transformer.plots.heat_map import heat_map

with record_attention(model) as weights, torch.no_grad():
    model(source, target)
looks = weights["decoder.2.cross_attention"][0].mean(dim=0)  # (target, source)
Picture(
    heat_map(
        looks, tokenizer.pieces(said[1:]), tokenizer.pieces(ids), annotate=False
    ),
    alt=(
        "Heat map of the German pieces by the English ones. The row of Hund is "
        "light in the column of dog, the row of Feld in the column of field, so "
        "a broken diagonal of light cells runs down the map."
    ),
)

# %% [markdown]
# Nobody told the model which word is whose translation. It found that it pays to look there. What it looked at does not *explain* what it said, though;
# that is a warning that a later chapter takes apart.

# %%
row = tokenizer.pieces(said[1:]).index("▁Hund")
column = tokenizer.pieces(ids).index("▁dog")
assert looks[row].argmax() == column, "for Hund it looks at dog most"

# %% [markdown]
# ## Why not word by word?
#
# Until 2017 a sentence was mostly read by a **recurrent network**: one word after the other, with a vector of fixed size that is carried along and changed at every step.
# In the first translators of this kind, the last of these vectors was all that the decoder got {cite}`sutskever2014`. Three things are wrong with that, and the first was soon mended, as you will see.
#
# **The bottleneck.** However long the sentence, it has to fit into the same vector. The memory of the Transformer grows with the sentence:

# %%
long = (
    "A group of people in winter coats is standing in the snow in front of a house."
)
for caption in (captions[0], long):
    with torch.no_grad():
        kept, _ = model.encode(
            torch.tensor([translator.encode(caption)], device=device)
        )
    print(f"{kept.size(1):3} pieces, {kept.numel():5} numbers in memory")

# %% [markdown]
# **The long way.** *Were* needs to know that it was *dogs*, plural. In a recurrent network this news has to survive every step between them. In attention every word
# reads every other directly (§4, Table 1).

# %% tags=["hide-input"]
from transformer.plots.path_length import path_length

words = "the dogs that we saw there were tired".split()
Picture(
    path_length(words, start=1, end=6),
    alt=(
        "The sentence 'the dogs that we saw there were tired' twice. Above, "
        "word by word: five arrows lead from dogs, one word at a time, to were. "
        "Below, attention: a single arrow leads from dogs straight to were."
    ),
)

# %% [markdown]
# How much does the long way cost? We measure it: how strongly does the last output depend on a word so many places back? That is the size of a gradient. Both
# layers are fresh, as they are when learning begins, and it is this gradient that learning has to live on.


# %%
def dependence(output, x):
    (gradient,) = torch.autograd.grad(output[:, -1].sum(), x)
    by_place = gradient.norm(dim=-1).mean(dim=0).flip(0)  # (distance,)
    return (by_place[1:] / by_place[1]).tolist()


torch.manual_seed(0)
x = torch.randn(100, 41, 64, requires_grad=True)
recurrent = nn.GRU(64, 64, batch_first=True)
attention = nn.MultiheadAttention(64, num_heads=1, batch_first=True)
by_recurrence = dependence(recurrent(x)[0], x)
by_attention = dependence(attention(x, x, x)[0], x)

# %% tags=["hide-input"]
from transformer.plots.curves import curves

Picture(
    curves(
        range(1, 41),
        {"recurrent (GRU)": by_recurrence, "attention": by_attention},
        "distance in words",
        "Dependence on an earlier word",
    ),
    alt=(
        "Dependence of the last output on a word, against the word's distance "
        "from 1 to 40, as a share of the nearest word's. For the recurrent layer "
        "it falls to nothing within some ten words; for attention it is level."
    ),
)

# %%
assert by_recurrence[19] < 0.01, "twenty words back, less than a hundredth is left"
assert 0.5 < by_attention[19] < 2, "for attention the distance makes no difference"

# %% [markdown]
# A recurrent network can *learn* to carry something further, and a good one does. But it has to learn it against this slope.
#
# **The queue.** Step 40 of a recurrent network cannot begin before step 39 is done. A GPU with ten thousand units stands in line behind one word.
# Attention compares all pairs of words at the same time. That is the reason why the Transformer could be trained on so much more text, and
# the paper's own argument (§1).
#
# **And what does it cost?** Every word meets every other: the number of scores grows with the square of the length. For sentences that is nothing. For books it
# is the main problem of the field.

# %%
for n in (10, 100, 1_000, 10_000):
    print(f"{n:6} words: {n:6} steps in a row, or {n * n:11,} scores at once")

# %% [markdown]
# Attention itself is older than the Transformer: {cite}`bahdanau2015` put it between a recurrent encoder and a recurrent decoder. What the paper's title claims is that,
# of the three, attention is the part one *needs*.

# %% [markdown]
# ## Its relatives
#
# Take one half, and you have another famous model. They differ in who may look at whom. A row asks, a column is asked, a filled cell means
# *may look*:

# %% tags=["hide-input"]
from transformer.masks import causal_mask
from transformer.plots.masks import mask_grid

everybody = torch.ones(4, 4, dtype=torch.bool)
four = ["a", "dog", "runs", "away"]
drei = ["ein", "Hund", "rennt"]
Row(
    Picture(
        mask_grid(everybody, four, four, title="encoder"),
        alt="Four words by four words, all cells filled: everybody sees everybody.",
    ),
    Picture(
        mask_grid(causal_mask(4)[0, 0], four, four, title="decoder"),
        alt="Four by four, filled on and below the diagonal: nobody sees what follows.",
    ),
    Picture(
        mask_grid(everybody[:3], drei, four, title="decoder to encoder"),
        alt="Three German by four English words, all cells filled.",
    ),
)

# %% [markdown]
# | model | halves | good for |
# |---|---|---|
# | BERT {cite}`devlin2019` | encoder | reading: each word knows both its sides; it cannot write |
# | GPT {cite}`radford2019` | decoder, without a memory to look at | writing on from a beginning |
# | the Transformer {cite}`vaswani2017`, T5 {cite}`raffel2020` | both | reading one text and writing another |
#
# The parts are the same in all of them. Who has taken this one apart has taken them all apart. The [last page](15_transformer_family.ipynb)
# does it: BERT, GPT, T5 and ViT, each in a few lines on our modules.

# %% [markdown]
# ## What goes wrong in practice
#
# **It answers everything.** The model has read captions. Ask it something else, and it will not say that it does not know. It writes
# German all the same.

# %%
for text in (
    "The parliament adopts the resolution.",
    "Where is the station?",
    "asdf qwer",
):
    print(text, "→", translator.translate(text))

# %% [markdown]
# So a translation that reads well is no proof that it is one. That is why translations are scored against those of people, on sentences that the
# model has not seen, and why each model of this course has a card that says what it cannot do (`transformer/models/multi30k/CARD.md`).
#
# **It is asked in the wrong mode.** Dropout belongs to training. A model left in training mode answers the same question differently each time, and nobody is warned:

# %%
model.train()
torch.manual_seed(0)
answers = {float(next_piece([BOS]).max()) for _ in range(5)}
model.eval()
assert (
    len(answers) == 5
    and len({float(next_piece([BOS]).max()) for _ in range(5)}) == 1
)
print("five times the same question:", sorted(round(a, 5) for a in answers))

# %% [markdown]
# ## Where each part is opened
#
# | chapter | opens |
# |---|---|
# | [Attention](02_attention.ipynb) | how a word finds the words that matter to it |
# | [Multi-head attention](03_multi_head_attention.ipynb) | how it looks for several things at once |
# | [Masking](04_masking.ipynb) | what a word must not see, and how it is kept from it |
# | [Positional encoding](05_positional_encoding.ipynb) | how the order of the words gets in |
# | [Encoder and decoder layers](06_layers.ipynb) | what happens to a word between two looks |
# | [The full model](07_full_model.ipynb) | what stands at its two ends, and how large it is |
# | [Subword tokenization](08_subword_tokenization.ipynb) | where the pieces come from |
# | [Data and batching](09_data_and_batching.ipynb) | what it is given to read, and how |
# | [Label smoothing](10_label_smoothing.ipynb) | what it is asked for, and why that is less than certainty |
# | [Training](11_training.ipynb) | where the numbers in the matrices come from |
# | [Decoding](12_decoding.ipynb) | how a good sentence is found, word by word |
# | [Evaluation](13_evaluation.ipynb) | how good it is, and by which measure |
# | [What attention heads do](14_attention_heads.ipynb) | what its heads do, and which of them it needs |
# | [Making it fast on a GPU](16_gpu_performance.ipynb) | where its time goes |
# | [Training on WMT14](17_wmt14.ipynb) | how the paper's own model is trained |
# | [From here to BERT, GPT, T5 and ViT](15_transformer_family.ipynb) | what became of it |
#
# [Notation](../book/notation.md) lists names and shapes.

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. The source has nine pieces, the translation twelve. How often does the encoder run, and how often the decoder, in greedy search?**
#
# <details><summary>A. Nine times and twelve times</summary>
#
# No. The encoder reads all pieces at once: one run.
#
# </details>
# <details><summary>B. Once and twelve times</summary>
#
# No, but nearly. The twelve pieces are said in twelve runs; a thirteenth says that the sentence is over.
#
# </details>
# <details><summary>C. Once and thirteen times</summary>
#
# **Right.** One run for the source, one for each piece of the translation, and one for `<eos>`.
#
# </details>
# <details><summary>D. Once and once</summary>
#
# No. That is training, where the translation is known beforehand.
#
# </details>
#
# **2. Why can the decoder be asked for all words at once in training, but not when it translates?**
#
# <details><summary>A. Training uses larger batches</summary>
#
# No. A single sentence is trained in one pass, too.
#
# </details>
# <details><summary>B. Each question needs the words before, and only in training are they known</summary>
#
# **Right.** The true words are put into its mouth, whatever it would have said itself.
#
# </details>
# <details><summary>C. The mask is taken off when it translates</summary>
#
# No. The mask stays; there is merely nothing behind it yet.
#
# </details>
#
# **3. What passes from the encoder to the decoder?**
#
# <details><summary>A. One vector for the sentence</summary>
#
# No. That was the bottleneck of the early recurrent translators.
#
# </details>
# <details><summary>B. One vector for each piece of the source</summary>
#
# **Right.** And the decoder chooses anew at every step which of them it looks at.
#
# </details>
# <details><summary>C. The pieces of the source</summary>
#
# No. The decoder never sees the source itself, only what the encoder made of it.
#
# </details>
#
# **4. A GRU reads a sentence of 40 words, an attention layer reads it too. Which does more arithmetic, and which is done first on a GPU?**
#
# <details><summary>Answer</summary>
#
# For 40 words the projections dominate in both, so the arithmetic is of the same order. But the GRU's forty steps have to wait for one another, and
# attention's products do not. On a GPU attention is done first by far. For very long texts the square of the length catches up with it.
#
# </details>
#
# **5. You put *Zwei* into the decoder's mouth although there is one dog. Which part of the model makes the verb plural, and which keeps the field?**
#
# <details><summary>Answer</summary>
#
# The decoder's look at its own words keeps the grammar together; its look at the memory brings the field. You will meet both in
# every decoder layer: self-attention and cross-attention.
#
# </details>

# %% [markdown]
# ## Exercises
#
# No blanks here, but four experiments, each a line or two in this notebook.
#
# - Translate ten captions of your own. Which words has the model never met? Look at their pieces.
# - Load `"multi30k-de-en"`, and send a sentence there and back again. What is lost on the way?
# - Draw the heat map for another layer, `decoder.0.cross_attention`, and for a single head. Which head follows the words best?
# - Make the two sentences with *dog* more alike, word by word, and watch the similarity of the two vectors.
#
# ```bash
# transformer translate multi30k "Two boys are eating ice cream." --n-best 4
# ```

# %% [markdown]
# ## Going further
#
# - **The paper:** §1 has the argument against recurrence, §3.1 the two halves, §4 and its Table 1 the comparison of path lengths, in {cite}`vaswani2017`.
# - **The bottleneck, and what first opened it:** {cite}`sutskever2014`, then {cite}`bahdanau2015`.
# - **The photographs' captions:** {cite}`elliott2016`.
# - **The halves on their own:** {cite}`devlin2019` for the encoder, {cite}`radford2019` for the decoder, {cite}`raffel2020` for both and a comparison.
