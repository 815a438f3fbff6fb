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
# How does a fixed stack of matrices turn a sentence of any length into a sentence in another language, with a different word order? A Transformer looks at its input through many *attention heads*. The figure shows one of them at work: from each German word, lines lead to the English words that the head *attended to* (took information from) when the model predicted that German word.

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
    print(f"With all figures: {book}/chapters/01_translation.html")

# %% tags=["hide-input"]
import torch

import transformer
from transformer.data.tokenizer import BOS, EOS
from transformer.inspection import record_attention
from transformer.plots.attention_lines import attention_lines
from transformer.plots.style import Captioned, Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)
translator = transformer.load("multi30k", device="cpu")

caption = "A chef with a red hat is preparing food in the kitchen."
source = translator.encode(caption)
target = translator.tokenizer.encode(translator.greedy_search([caption])[0])
with record_attention(translator.model) as recorded, torch.no_grad():
    translator.model(torch.tensor([source]), torch.tensor([[BOS, *target]]))
weights = recorded["decoder.2.cross_attention"][0, 1]  # layer 3, head 2
german, english = (
    [piece.strip("▁") for piece in translator.tokenizer.pieces(ids)]
    for ids in ([*target, EOS], source)
)
Picture(
    attention_lines(
        weights[:-2, :-2],
        german[:-2],
        english[:-2],
        labels=("English", "German"),
        highlighted=[3, 4, 5, 6, 11],
    ),
    alt=(
        "The English caption 'A chef with a red hat is preparing food in the kitchen' "
        "above its German translation. Lines join each German word to the English "
        "words that one attention head attended to. The lines of einem, roten and Hut "
        "all lead to hat; those of bereitet and zu both lead to preparing."
    ),
    caption=(
        "The English words that one attention head attended to when each German word was "
        "predicted. Thicker lines mean more weight. Look at the blue lines: those of "
        "“einem”, “roten” and “Hut” lead to “hat”, those of “bereitet” and “zu” to "
        "“preparing”."
    ),
)

# %% tags=["remove-cell"]
attended_to = {
    g: english[i] for g, i in zip(german, weights.argmax(dim=1), strict=True)
}
assert [attended_to[g] for g in ("einem", "roten", "Hut")] == ["hat"] * 3
assert [attended_to[g] for g in ("bereitet", "zu", "mit")] == ["preparing"] * 3
assert weights[german.index("einem"), english.index("hat")] > 0.9

# %% [markdown]
# For each word of *einem roten Hut* ("a red hat"), the head attended to *hat*: in German, the endings of articles and adjectives depend on the noun that follows. For both parts of the verb *bereitet … zu*, it attended to *preparing*. Not every line is this easy to explain: *mit* means *with*, but its line leads to *preparing*, too.
#
# By the end you will be able to follow a sentence through every stage of this model, generate a translation token by token, and explain what attention does better than the recurrent networks before it, and at what price. **About 35 minutes.** The course assumes a little PyTorch and no German.

# %% tags=["hide-input", "imports"]
from textwrap import fill
from time import process_time
from timeit import repeat

import torch
from torch import nn
from torch.testing import assert_close

import transformer
from transformer.data.tokenizer import BOS, EOS

# %% [markdown]
# ## Translate a sentence
#
# This chapter's model comes with the course. It was trained on nothing but photo captions in English and German. Here the model translates two captions that are not in its training data:

# %%
translator = transformer.load("multi30k", device="cpu")
captions = [
    "A dog runs across the field.",
    "A chef with a red hat is preparing food in the kitchen.",
]
for caption in captions:
    print(fill(caption, width=46))
    print(fill("→ " + translator.translate(caption), width=46))

# %% tags=["remove-cell"]
chef = translator.translate(captions[1]).split()
assert chef.index("Küche") < chef.index("Essen") and chef[-1] == "zu."

# %% [markdown]
# A word-by-word translation of the second would be wrong. English puts *food* before *in the kitchen*; German reverses the two and places them between the two parts of its verb. A German word can also depend on several English ones: *einem* on *a*, on *with*, which determines its case, and on *hat*, whose translation determines its gender.
#
# ## Encoder and decoder
#
# The Transformer has two halves, described in §3.1 of [Attention Is All You Need](https://arxiv.org/abs/1706.03762), which this course simply calls *the paper*. The **encoder** reads the whole source sentence at once and produces one vector for each *token*, which is a word or a part of one. The **decoder** generates the target sentence one token at a time. For each token it uses the encoder's vectors and the **prefix**, that is, the target tokens generated so far. Every prefix begins with a special token, `<bos>` ("beginning of sentence"), so that the decoder has something to read at the start.
#
# The figure shows the model after it has generated three German words for our first caption. Follow the green arrow: the encoder's vectors, called the **memory** or *encoder output*, are all that the decoder ever learns about the source. Then follow the dashed line: the decoder's output, *über* ("across"), is appended to the prefix, and the decoder runs again.

# %% tags=["hide-input"]
from transformer.plots.encoder_decoder import encoder_decoder

Picture(
    encoder_decoder(),
    alt=(
        "The source sentence 'A dog runs across the field.' enters the encoder. Its "
        "output, the memory, goes to the decoder, which also reads the prefix, "
        "'<bos> Ein Hund rennt'. The decoder's output is the next word, 'über'. A dashed line "
        "leads from there back to the prefix: the word is appended."
    ),
    caption=(
        "The encoder turns the source sentence into the memory. The decoder reads "
        "it and predicts the next word, which is appended to the prefix."
    ),
)

# %% [markdown]
# ## From text to vectors
#
# A network computes with numbers, so text has to become numbers first, in two steps.
#
# **Tokens and ids.** A **tokenizer** cuts the text into **tokens** from a fixed **vocabulary**, and replaces each with its **id**, its index in the vocabulary. A frequent word is one token; a rare word becomes several, as *skateboarders* does in the last line below. One vocabulary of 8,000 tokens serves both languages. `▁` marks the beginning of a word, and the special token `<eos>` ("end of sentence") ends every sentence.

# %%
model, tokenizer = translator.model, translator.tokenizer
ids = translator.encode("A dog runs across the field.")
print(*tokenizer.pieces(ids))
print(ids)
print(*tokenizer.pieces(translator.encode("Two skateboarders are smiling.")))

# %% [markdown]
# **Embeddings.** An id is only a name: 228 (*dog*) is not "smaller" than 662 (*field*) in any useful sense. So the model uses it as an index into a table with one row for each token of the vocabulary. The selected row is a vector of `d_model` numbers, the token's **embedding**. The rows start out random and are trained along with everything else, so tokens used in similar ways tend to end up with similar vectors. In PyTorch the table is a layer, `nn.Embedding`, which only looks up rows:

# %%
table = model.source_embedding.weight  # (vocab_size, d_model)
source = torch.tensor([ids])  # (batch, source): one sentence
embeddings = model.source_embedding(source)
assert torch.equal(embeddings[0], table[ids])
print("table   ", tuple(table.shape))
print("sentence", tuple(embeddings.shape))  # (batch, source, d_model)

# %% tags=["remove-cell"]
assert ids[1] == 228 and ids[5] == 662 and len(ids) == 8
assert tuple(table.shape) == (8000, 128)

# %% [markdown]
# The figure shows these two steps and the encoder. Each coloured strip shows the first 12 numbers of a vector. Follow *dog*: its id selects row 228 of the table, and a copy of that row becomes the second vector of the sentence. The vectors on the right have been through the encoder.

# %% tags=["hide-input"]
from transformer.plots.embedding_lookup import embedding_lookup

with torch.no_grad():
    memory, memory_mask = model.encode(source)
Picture(
    embedding_lookup(tokenizer.pieces(ids), ids, table, memory[0]),
    alt=(
        "From left to right: the eight tokens of 'A dog runs across the field.' with "
        "their ids; lines from each id to a row of the embedding table, 8,000 by 128; "
        "lines from these rows to the sentence's embeddings, 8 by 128, in the order of "
        "the words; and, after an arrow labelled positions, encoder, the memory, 8 by 128, "
        "with other values."
    ),
    caption=(
        "Each token's id selects a row of the embedding table. The encoder turns "
        "these embeddings into the memory, which has the same shape. Brown "
        "numbers are negative, blue-green ones positive."
    ),
)

# %% [markdown]
# The embeddings don't contain the order of the words: *A dog bites a man* and *A man bites a dog* look up the same rows. So before the first layer, a second vector, which depends only on the position, is added to each embedding. [Positional encoding](05_positional_encoding.ipynb) explains it.
#
# ## The encoder puts words into context
#
# The encoder is a stack of **layers** with the same structure, each with its own weights. The output of one is the input of the next, and the shape never changes. Each layer has two steps. In **self-attention**, every position gathers information from all positions of the sentence. Then a small **feed-forward network** processes what each position has gathered, independently of the others.
#
# Both steps use the same matrices at every position, and what self-attention gathers is a weighted average, which can be taken over any number of positions. That is how a fixed set of parameters can read a sentence of any length, though not equally well: a model is at its best on lengths that it was trained on, and this one refuses more than 255 tokens.
#
# The figure shows both stacks, with the steps inside layer 1. Follow the green line: the output of the *last* encoder layer goes to *every* layer of the decoder, where **cross-attention** reads it.

# %% tags=["hide-input"]
from transformer.plots.layer_stacks import layer_stacks

Picture(
    layer_stacks(
        model.config.n_layers,
        source="A dog runs across the field . <eos>",
        prefix="<bos> Ein Hund rennt",
        next_token="über",
    ),
    alt=(
        "Two stacks of four layers. Left, the encoder, from the bottom: the source "
        "tokens, embeddings + positions, layer 1 with self-attention and feed-forward, "
        "and layers 2 to 4. Right, the decoder: the prefix, embeddings + positions, "
        "layer 1 with masked self-attention, cross-attention and feed-forward, layers 2 "
        "to 4, an output layer and the next token, 'über'. A green line, the memory, "
        "leads from the encoder's layer 4 to the decoder's layers 2 to 4 and to the "
        "cross-attention of its layer 1."
    ),
    caption=(
        "The layers of this chapter's model. Every layer of the decoder reads the "
        "memory, which is the output of the encoder's last layer."
    ),
)

# %% tags=["remove-cell"]
from transformer.config import ModelConfig

assert model.config.n_layers == model.config.n_heads == 4
base = ModelConfig()
assert (base.n_layers, base.n_heads) == (6, 8)

# %% [markdown]
# Two more parts, left out of the figure, keep such a deep stack trainable. Each step *adds* its result to its input: through this **residual connection** the input reaches the next step directly, so a layer only has to learn what to change. And **layer normalisation** keeps the vectors at a common scale. [Encoder and decoder layers](06_layers.ipynb) goes through all parts.
#
# After the last layer there is still one vector per token, but it now represents *this token in this sentence*. Such a vector is called a **contextual representation**, and all of them together are the memory. `model.encode` returns it along with a mask, which marks the *padding* that fills up shorter sentences in a batch. Our batch of one sentence has none.

# %%
with torch.no_grad():
    memory, memory_mask = model.encode(source)
print("memory", tuple(memory.shape))  # (batch, source, d_model)

config = model.config
parameters = sum(p.numel() for p in model.parameters())
print(config.n_layers, "layers in each stack")
print(config.n_heads, "heads in each attention step")
print(f"{parameters:,} parameters in the whole model")

# %% [markdown]
# The model is small: the paper's base model has 6 layers, 8 heads and 65 million parameters (§3.1, §3.2.2 and Table 3).
#
# Does a word really get a different vector in each sentence? All occurrences of *light* share one row of the table. In the first four sentences below, *light* is also at the same position, so before the first layer its vector is the same in all of them. After the last layer, we compare each vector with that of the first sentence by **cosine similarity**, which is 1 if two vectors point the same way and 0 if they are at right angles. The fifth sentence has *dog* at that position.

# %%
sentences = [
    "A man in a light shirt is smiling.",
    "A man in a light is smiling.",
    "A man in the light of the sun.",
    "A woman under the light of a sign.",
    "A man with a dog is smiling.",
]
vectors = []
for sentence in sentences:
    source_ids = torch.tensor([translator.encode(sentence)])
    with torch.no_grad():
        encoded, _ = model.encode(source_ids)
    vectors.append(encoded[0, 4])  # position 4: (d_model,)
    similarity = torch.cosine_similarity(vectors[0], vectors[-1], dim=0)
    print(f"{similarity:.2f}  {sentence}\n      {translator.translate(sentence)}")

# %% tags=["remove-cell"]
tokens = [tokenizer.pieces(translator.encode(s))[4] for s in sentences]
assert tokens == ["▁light"] * 4 + ["▁dog"]
unit = torch.stack(vectors)
unit = unit / unit.norm(dim=-1, keepdim=True)
similarity = unit @ unit.T
pairs = similarity[:4, :4][torch.ones(4, 4).triu(1).bool()]
assert pairs.max() < 0.97 and pairs.min() > 0.8  # all differ, but not much
assert pairs.max() == similarity[0, 1] and similarity[4, :4].max() < 0.2
for caption, word in zip(sentences, ["hell", *["Licht"] * 3], strict=False):
    assert word in translator.translate(caption)

# %% [markdown]
# One row of the table has become four different vectors, although they are still much closer to each other than to that of *dog*. The translations differ, too: the *light* of *light shirt* becomes *hellen* ("not dark"), the other three become *Licht* (what a lamp gives). That isn't due to these four vectors alone, because the decoder also reads those of the neighbours, such as *shirt*. Nor do the numbers measure similarity of meaning: the second *light* is the closest to the first, perhaps because their sentences differ in only one word.
#
# ## The decoder predicts the next token
#
# The decoder answers one question: *given the memory and the target tokens so far, which token comes next?*
#
# Each of its layers gathers information twice: from the prefix by masked self-attention, and from the memory by cross-attention. The decoder returns one vector for each position of the prefix, and the last of them represents what comes next. The **output layer** takes the dot product of this vector with one learned vector for each token of the vocabulary, which in this model is the token's row of the embedding table again: 128 numbers in, 8,000 out. These scores are called **logits**. The **softmax** function turns logits into probabilities: it takes the exponential of each, so that all are positive, and divides by their sum, so that they add up to one.


# %%
@torch.no_grad()
def next_token_probabilities(prefix, memory, memory_mask):
    x = model.decode(torch.tensor([prefix]), memory, memory_mask)
    logits = model.logits(x[0, -1])  # from the last position: (vocab_size,)
    return logits.softmax(dim=-1)


probabilities = next_token_probabilities([BOS], memory, memory_mask)
best = probabilities.topk(4)
for token, p in zip(tokenizer.pieces(best.indices), best.values, strict=True):
    print(f"{token:8} {p:.2%}")

# %% tags=["remove-cell"]
assert tokenizer.pieces(best.indices) == ["▁Ein", "▁Eine", "▁Der", "▁Zwei"]
assert best.values[0] > 0.9
assert [p.shape for p in model.parameters() if 8000 in p.shape] == [table.shape]

# %% [markdown]
# The model is almost sure of *Ein*. Why not *Eine*, which also means "a" but goes with feminine nouns? No noun has been generated yet, but the memory already contains a dog, and *Hund* is masculine. So a cat (*die Katze*, feminine) should change the prediction:

# %%
cat = torch.tensor([translator.encode("A cat runs across the field.")])
with torch.no_grad():
    cat_memory, cat_mask = model.encode(cat)
best = next_token_probabilities([BOS], cat_memory, cat_mask).topk(2)
for token, p in zip(tokenizer.pieces(best.indices), best.values, strict=True):
    print(f"{token:8} {p:.2%}")

# %% tags=["remove-cell"]
assert tokenizer.pieces(best.indices) == ["▁Eine", "▁Ein"] and best.values[0] > 0.8

# %% [markdown]
# It does. The remaining probability is spread thinly over thousands of tokens, because the model was trained never to be quite certain (see [Label smoothing](10_label_smoothing.ipynb)).
#
# To get a whole sentence, append the most probable token to the prefix, run the decoder again, and repeat this until it generates `<eos>`. This is **greedy search**. A model that generates one token at a time, each based on those before it, is called **autoregressive**. Using a trained model, as we do here, is called **inference**.


# %%
def greedy_search(prefix):
    steps = []
    while prefix[-1] != EOS and len(prefix) < 40:
        probabilities = next_token_probabilities(prefix, memory, memory_mask)
        steps.append(probabilities)
        prefix = [*prefix, int(probabilities.argmax())]
    return prefix, torch.stack(steps)


output, steps = greedy_search([BOS])
print(*tokenizer.pieces(output))
translation = tokenizer.decode(output[1:-1])
assert [translation] == translator.greedy_search(captions[:1])
print(translation)

# %% [markdown]
# **Step through the translation.** The bars are the most probable next tokens; several long ones mean that there is more than one good way to continue. At which step is the model least certain?

# %% tags=["hide-input"]
from transformer.plots.next_token import next_token_explorer

vocabulary = tokenizer.pieces(range(len(tokenizer)))
Captioned(
    next_token_explorer(
        steps,
        tokenizer.pieces(output[1:]),
        vocabulary,
        count=6,
        description=(
            "A slider goes through the steps of the translation. For each step the "
            "chart shows the prefix, and the six most probable next tokens as "
            "bars. The token that is generated, the longest bar, is in colour."
        ),
    ),
    (
        "The most probable next tokens at one step of greedy search; the slider "
        "moves through the steps. The token with the longest bar is generated."
    ),
)

# %% tags=["remove-cell"]
assert steps.amax(dim=-1).argmin() == 2  # rennt or läuft
assert "▁läuft" in tokenizer.pieces(steps[2].topk(2).indices)

# %% [markdown]
# The model is least certain at step 3: *rennt* and *läuft* both mean "runs", and either would do.
#
# The decoder can't tell whether it generated its prefix or we supplied it. If we force the first word, the model continues from there. Here the translation has to begin with *Zwei* ("two") or with *Auf* ("on"):

# %%
for word in ("Zwei", "Auf"):
    forced, _ = greedy_search([BOS, *tokenizer.encode(word)])
    print(tokenizer.decode(forced[1:-1]))

# %% tags=["remove-cell"]
forced, _ = greedy_search([BOS, *tokenizer.encode("Zwei")])
assert tokenizer.decode(forced[1:-1]).startswith("Zwei Hunde rennen")
forced, _ = greedy_search([BOS, *tokenizer.encode("Auf")])
assert tokenizer.decode(forced[1:-1]) == "Auf einem Feld rennt ein Hund."

# %% [markdown]
# The grammar adapts to the forced word: after *Zwei*, noun and verb are plural (*Hunde rennen*), and after *Auf*, the verb comes before the dog, as German word order requires. But the first sentence is now wrong, because the source has one dog, and the second ("a dog is running in a field") has lost *across*. Greedy search makes mistakes on its own, too, and it can't take a token back. **Beam search**, which keeps several prefixes alive and is what `translate` uses, makes fewer (see [Decoding](12_decoding.ipynb)).
#
# ## What a head attends to
#
# How does the decoder find out that the source has a dog, or a cat? In the cross-attention of each layer, several **attention heads** read the memory. At every position of the prefix, each head assigns a weight to each source position; the weights are positive and sum to one. From each position of the memory, the head also computes a vector, the *value*, and it passes on the weighted average of these values.
#
# The package can record all weights while the model runs. Here are the two largest weights of the head from the top of this page, head 2 of layer 3, for the dog and for the cat, when the prefix is only `<bos>`. (The code counts layers and heads from 0, the text from 1.)

# %%
from transformer.inspection import record_attention

for sentence in (source, cat):
    with torch.no_grad(), record_attention(model) as recorded:
        model(sentence, torch.tensor([[BOS]]))
    weights = recorded["decoder.2.cross_attention"][0, 1]  # (target, source)
    largest = weights[0].topk(2)
    pieces = tokenizer.pieces(sentence[0, largest.indices])
    print(pieces, largest.values)

# %% tags=["remove-cell"]
assert pieces[0] == "▁cat" and largest.values[0] > 0.8

# %% [markdown]
# No German noun exists yet, but this head has already looked up the English one.
#
# The heat maps below show two heads for the whole translation; a light cell means a large weight. Each row is labelled with the German token that is being *predicted*. Its weights are computed one position earlier, from the tokens before it: the row *Ein* is computed at `<bos>`, the row *Hund* at *Ein*. Compare the rows of *Ein* and *das*: the first head attends to the English article, the second to the noun.

# %% tags=["hide-input"]
from transformer.plots.heat_map import heat_map

target = torch.tensor([output[:-1]])  # <bos> and the translation
with torch.no_grad(), record_attention(model) as recorded:
    model(source, target)
aligning = recorded["decoder.1.cross_attention"][0, 2]  # layer 2, head 3
nouns = recorded["decoder.2.cross_attention"][0, 1]  # layer 3, head 2
german, english = (
    [piece.strip("▁") for piece in tokenizer.pieces(tokens)]
    for tokens in (output[1:], ids)
)
maps = [
    heat_map(weights, german, english, title=title, annotate=False)
    for title, weights in (
        ("layer 2, head 3", aligning),
        ("layer 3, head 2", nouns),
    )
]
Row(
    Picture(
        maps[0],
        alt=(
            "Heat map of German by English tokens. The light cells lie on the "
            "diagonal: Ein with A, Hund with dog, rennt with runs, über with across, "
            "das with the, Feld with field."
        ),
    ),
    Picture(
        maps[1],
        alt=(
            "Heat map of the same tokens for another head. Ein and Hund are light at "
            "dog, rennt at runs, and über, das and Feld are all light at field."
        ),
    ),
    caption=(
        "Attention weights of two heads. A row is the German token that is being predicted, "
        "a column an English token. The first head aligns word by word; the second mostly "
        "attends to the nouns."
    ),
)

# %% tags=["remove-cell"]
for weights, expected in (
    (aligning, ["A", "dog", "runs", "across", "the", "field"]),
    (nouns, ["dog", "dog", "runs", "field", "field", "field"]),
):
    assert [english[i] for i in weights.argmax(dim=1)][:6] == expected
    assert_close(weights.sum(dim=-1), torch.ones(8))

# %% [markdown]
# The word order can change because each target position has its own weights for all source positions: nothing makes them move from left to right. In the figure at the top, the lines from *Küche* to *kitchen* and from *Essen* to *food* cross.
#
# No one told the model which words correspond; it was only trained to predict the next token. But what a head attends to does not prove *why* the model predicted a word. For that, we intervene: we replace one vector of the memory at a time by the cat's at the same position, and print the new probability of *Eine*. This is called **activation patching**:

# %%
[eine] = tokenizer.encode("Eine")
for position, piece in enumerate(tokenizer.pieces(ids)):
    patched = memory.clone()
    patched[0, position] = cat_memory[0, position]
    p = next_token_probabilities([BOS], patched, memory_mask)[eine]
    print(f"{piece:8} {p:.2%}")

# %% tags=["remove-cell"]
for position, piece in enumerate(tokenizer.pieces(ids)):
    patched = memory.clone()
    patched[0, position] = cat_memory[0, position]
    p = next_token_probabilities([BOS], patched, memory_mask)[eine]
    assert p > 0.8 if piece == "▁dog" else p < 0.01

# %% [markdown]
# One vector decides: with that of *cat* in place of *dog*, the model predicts *Eine*; the other seven change almost nothing. So the choice does depend on the vector that our head attends to, though perhaps not through this head. [What attention heads do](14_attention_heads.ipynb) tests single heads in the same way. To see all heads for a caption of your own, choose *English to German: captions of photographs* in the [live translator](../book/live.md): it is this chapter's model.
#
# ## Training: all positions at once
#
# Inference takes one step per token, because each step needs the token generated by the previous one. In **training**, the correct translation is known, so the decoder reads its tokens as the prefix instead of its own predictions. This is called **teacher forcing**. Then no position has to wait for another, and one pass predicts the next token at all of them. A **mask** hides the tokens that follow, so that no position can copy its answer (see [Masking](04_masking.ipynb)).
#
# Does one pass really give the same probabilities as eight runs? We try it with the model's own translation:

# %%
target = torch.tensor([output[:-1]])  # (batch, target): bos, translation
with torch.no_grad():
    logits = model(source, target)
print(tuple(logits.shape))  # (batch, target, vocab_size)
at_once = logits[0].softmax(dim=-1)
for i, token in enumerate(output[1:]):
    print(
        f"{tokenizer.pieces([token])[0]:7}"
        f" step by step {steps[i, token]:.4f},"
        f" at once {at_once[i, token]:.4f}"
    )
assert_close(at_once, steps)

# %% [markdown]
# It does. For example, *rennt* is predicted from `<bos> Ein Hund` either way: in the single pass the later tokens are there, too, but the mask hides them.
#
# In the package, this single pass takes two lines:

# %%
from transformer.model import Transformer

# %% tags=["remove-input"]
SourceCode(Transformer.forward)

# %% [markdown]
# At each position, the loss is the **cross-entropy**: the negative logarithm of the probability that the model gave to the correct token. Its gradient shows how every parameter should change to make the correct tokens more probable, and **gradient descent** takes a small step in that direction. Thousands of such steps turned random numbers into this model. [Training](11_training.ipynb) shows how.
#
# ## Encoder-only and decoder-only models
#
# Each half of the Transformer has become a family of models of its own. (A decoder alone has no memory to read, so it has no cross-attention.) What distinguishes their layers is the mask: in an encoder, every position sees the whole sentence; in a decoder, only itself and earlier positions. In the full Transformer, cross-attention also lets each decoder position see the whole memory, as the grids show:

# %% tags=["hide-input"]
from transformer.masks import causal_mask
from transformer.plots.masks import mask_grid

full = torch.ones(4, 4, dtype=torch.bool)
english = ["a", "dog", "runs", "away"]
german = ["<bos>", "ein", "Hund", "rennt"]
Row(
    Picture(
        mask_grid(full, english, english, title="encoder"),
        alt="Four English words by the same four, all filled: every word sees every word.",
    ),
    Picture(
        mask_grid(causal_mask(4)[0, 0], german, german, title="decoder"),
        alt=(
            "The prefix '<bos> ein Hund rennt', filled up to the diagonal: no token "
            "sees a later one."
        ),
    ),
    Picture(
        mask_grid(full, german, english, title="cross-attention"),
        alt="The same prefix by four English words, all cells filled.",
    ),
    caption=(
        "Each row is a position, labelled with the token that it reads. It may attend to the "
        "columns with a green cell, but not to those with a ×. "
        "Only the decoder's self-attention hides later positions."
    ),
)

# %% [markdown]
# | family | for example | suited to |
# |---|---|---|
# | encoder-only | [BERT](https://aclanthology.org/N19-1423/) | classification and retrieval: each vector reflects both sides of its context |
# | decoder-only | [GPT-2](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf) | continuing a text: the prompt is the prefix |
# | encoder–decoder | [the Transformer](https://arxiv.org/abs/1706.03762), [T5](https://arxiv.org/abs/1910.10683) | reading one text and generating another |
#
# Most of today's chatbots are decoder-only: instruction and answer form a single text, and any text can serve as training data. [The Transformer family](15_transformer_family.ipynb) builds these models from the same parts.
#
# ## Why not a recurrent network?
#
# Before 2017, the standard model for sentences was the **recurrent neural network** (RNN), which reads one word after another and updates a state vector of fixed size each time. The usual variants, the **LSTM** and the **GRU**, learn how much of the old state to keep. Recurrent networks have three weaknesses. The first led to attention, the other two to the Transformer, which has no recurrence at all.
#
# **The bottleneck.** However long the sentence, it has to fit into a vector of the same size. In the first translators built from RNNs, the final state was all that the decoder received ([Sutskever et al., 2014](https://arxiv.org/abs/1409.3215)). [Bahdanau et al. (2015)](https://arxiv.org/abs/1409.0473) removed this weakness: their decoder attends to the states of all positions. This is where cross-attention comes from.
#
# **The long path.** In *the dogs that we saw today were tired*, *were* is plural because of *dogs*. In a recurrent network this information has to survive every step in between. In self-attention, it takes a single step: the path has length one (§4, Table 1):

# %% tags=["hide-input"]
from transformer.plots.path_length import path_length

words = "the dogs that we saw today were tired".split()
Picture(
    path_length(words, start=1, end=6),
    alt=(
        "The sentence 'the dogs that we saw today were tired' twice. Above, in a "
        "recurrent network, five arrows lead from dogs, one word at a time, to were. "
        "Below, in self-attention, a single arrow leads from dogs straight to were."
    ),
    caption=(
        "To get from “dogs” to “were”, information takes one step per word in a "
        "recurrent network, and a single step in self-attention."
    ),
)

# %% [markdown]
# How much does the path's length matter? For a network to learn that the last output should depend on an early input, the gradient has to get from one to the other. The figure shows how much of it arrives in *untrained* layers, because that is where training starts: a GRU with PyTorch's default initialisation, the same GRU after we add 3 to the bias of the gate that keeps the old state, and self-attention. The vertical axis is logarithmic, so exponential decay is a falling straight line. Compare the slopes of the two GRUs.

# %% tags=["hide-input"]
from copy import deepcopy

from transformer.plots.gradient_decay import gradient_decay


def gradient_by_distance(layer_output, x):
    """Size of the last output's gradient with respect to each earlier input."""
    last = layer_output[:, -1].sum()  # one number: over sentences and features
    gradient = torch.autograd.grad(last, x)[0]  # the shape of x
    size = gradient.norm(dim=-1).mean(dim=0)  # of each position: (length,)
    return size.flip(0)[1:].tolist()  # at distance 1, 2, …, without 0


torch.manual_seed(0)
x = torch.randn(100, 41, 64, requires_grad=True)  # (batch, length, features)
gru = nn.GRU(64, 64, batch_first=True)
attention = nn.MultiheadAttention(64, num_heads=1, batch_first=True)
keeping = deepcopy(gru)
with torch.no_grad():
    keeping.bias_ih_l0[64:128] += 3  # the update gate, which keeps the old state
gradients = {
    "GRU": gradient_by_distance(gru(x)[0], x),
    "GRU, bias + 3": gradient_by_distance(keeping(x)[0], x),
    "self-attention": gradient_by_distance(attention(x, x, x)[0], x),
}
Picture(
    gradient_decay(gradients),
    alt=(
        "Size of the gradient against the distance from 1 to 40 tokens, on a "
        "logarithmic axis. The GRU begins highest, at about 1, and falls along a "
        "straight line below 0.0001 after 20 tokens. The GRU with the larger bias "
        "begins at about 0.3 and falls along a much flatter straight line to 0.03 at 40 "
        "tokens. Self-attention is level at about 0.1."
    ),
    caption=(
        "Gradient of the last output in untrained layers. In both GRUs, it decays "
        "exponentially with distance, but at different rates; in self-attention, it stays "
        "level."
    ),
)

# %% tags=["hide-input"]
print("distance        ", *(f"{n:7}" for n in (1, 5, 20, 40)))
for name, sizes in gradients.items():
    print(f"{name:16}", *(f"{sizes[n - 1]:7.5f}" for n in (1, 5, 20, 40)))

# %% tags=["remove-cell"]
threads = torch.get_num_threads()
by_gru, by_keeping, by_attention = gradients.values()
assert by_gru[19] < 1e-4 and by_attention[19] > 1000 * by_gru[19]
assert 0.7 < by_keeping[19] / by_attention[19] < 1
assert 3 < by_gru[0] / by_keeping[0] < 5
assert max(by_attention) < 1.3 * min(by_attention)
for sizes, factor in ((by_gru, 0.6), (by_keeping, 0.945)):
    assert abs((sizes[19] / sizes[0]) ** (1 / 19) - factor) < 0.03
assert abs((by_keeping[39] / by_keeping[19]) ** (1 / 20) - 0.95) < 0.005
longer = torch.randn(10, 410, 64, requires_grad=True)  # ten times as long
by_longer = gradient_by_distance(attention(longer, longer, longer)[0], longer)
assert 0.08 < sum(by_longer) / len(by_longer) / by_attention[19] < 0.12

# %% [markdown]
# In the first GRU, every further token multiplies the gradient by about 0.6: the gradient **vanishes**, and at 20 tokens attention's is more than a thousand times as large. With the larger bias, the factor is about 0.95, and at 20 tokens the gradient is close to attention's. In return, this GRU takes in less of each new word: at distance 1, its gradient is a quarter of the first GRU's. So initialisation can slow the decay, but it stays exponential.
#
# Attention's gradient depends not on the distance but on the length: an untrained layer spreads its weight almost evenly over all 41 tokens, and in a text ten times as long, each gets about a tenth as much.
#
# **No parallelism.** Step 40 of a recurrent network cannot begin before step 39 is finished, so a GPU with thousands of cores has to wait for each word in turn. Attention processes all positions at the same time, in the encoder and, during training, also in the decoder. This is the paper's main argument (§1), and what made training on far more text affordable.
#
# Two rows of the paper's Table 1 sum up the comparison, for $n$ tokens and vectors of size $d$, up to constant factors:
#
# | layer | operations per layer | sequential steps | longest path |
# |---|---|---|---|
# | self-attention | $n^2 \cdot d$ | 1 | 1 |
# | recurrent | $n \cdot d^2$ | $n$ | $n$ |
#
# The number of operations shows the price of attention: every token is compared with every other, so the work grows with the square of the length. The table leaves out attention's products with its parameter matrices. With them, attention takes $4nd^2 + 2n^2d$ multiplications ([chapter 3](03_multi_head_attention.ipynb) counts them) and a GRU $6nd^2$: on 40 tokens, with the paper's $d = 512$, attention does about 70% of the GRU's work. We time both on a single core:


# %%
@torch.no_grad()
def milliseconds(call):  # CPU time, the shortest of three
    times = repeat(call, timer=process_time, repeat=3, number=1, globals=globals())
    return 1000 * min(times)


torch.set_num_threads(1)  # one core
gru = nn.GRU(512, 512, batch_first=True)
attention = nn.MultiheadAttention(512, num_heads=8, batch_first=True)
for n in (40, 400, 6000):
    x = torch.randn(1, n, 512)
    by_gru = milliseconds("gru(x)")
    by_attention = milliseconds("attention(x, x, x, need_weights=False)")
    print(f"{n:4} tokens: GRU {by_gru:5.1f} ms, attention {by_attention:5.1f} ms")

# %% tags=["remove-cell"]
torch.set_num_threads(threads)
assert round((4 * 40 * 512**2 + 2 * 40**2 * 512) / (6 * 40 * 512**2), 1) == 0.7

# %% [markdown]
# Your times will differ. On 40 tokens, attention's lead is larger than the number of operations explains: even a single core computes one large matrix product faster than forty small ones in a row, and a GPU gains much more. But the GRU's time grows in proportion to the length, while attention's grows more steeply: on 6,000 tokens, attention is slower. For whole books, this quadratic cost is one of the field's main problems, and one reason why recurrence has come back, in forms that can be trained in parallel ([Gu and Dao, 2023](https://arxiv.org/abs/2312.00752)).
#
# ## What goes wrong in practice
#
# **It answers everything.** The model knows only captions. Give it something else, and it still produces an output:

# %%
for text in ("Where is the station?", "I love you.", "asdf"):
    print(text)
    print("→", translator.translate(text))

# %% tags=["remove-cell"]
station = translator.translate("Where is the station?")
assert station == "Jemand befindet sich am Bahnhof."
everyday = transformer.load("everyday", device="cpu")
assert everyday.translate("Where is the station?") == "Wo ist der Bahnhof?"
assert everyday.translate("I love you.") == "Ich liebe dich."

# %% [markdown]
# The first output is good German, but it means "Someone is at the station"; the other two are nonsense. A fluent translation is no proof of a correct one. A model that was trained on everyday sentences, too, gets the first two right: it is the default of the [live translator](../book/live.md). This is why translations are scored against human ones (see [Evaluation](13_evaluation.ipynb)), and why each model in this course comes with a card that lists what it cannot do (this one's is `transformer/models/multi30k/CARD.md`).
#
# **Training mode is left on.** During training, **dropout** sets random activations to zero, so that the model does not rely on any single one. Forget to turn it off with `model.eval()`, and the same input gives different probabilities each time, without a warning:

# %%
torch.manual_seed(0)
for mode in (True, False):
    model.train(mode)
    runs = [
        next_token_probabilities([BOS], memory, memory_mask).max() for _ in range(4)
    ]
    print(f"training={mode!s:5} ", torch.stack(runs))

# %% tags=["remove-cell"]
assert len({float(p) for p in runs}) == 1 and not model.training

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. The source has nine tokens and the translation twelve, both without `<eos>`. How many times do the encoder and the decoder run in greedy search?**
#
# <details><summary>A. Nine times and twelve times</summary>
#
# No. The encoder reads all tokens at once: it runs a single time.
#
# </details>
# <details><summary>B. Once and twelve times</summary>
#
# Nearly. The twelve tokens take twelve runs, but the model does not know that it is finished until a thirteenth predicts `<eos>`.
#
# </details>
# <details><summary>C. Once and thirteen times</summary>
#
# **Right.** One run for the source, one for each token of the translation, and one that predicts `<eos>`.
#
# </details>
# <details><summary>D. Once and once</summary>
#
# No. That works only in training, where the translation is known.
#
# </details>
#
# **2. Why can the decoder predict all positions in one pass in training, but not at inference time?**
#
# <details><summary>A. Training uses larger batches</summary>
#
# No. Training takes one pass even for a single sentence.
#
# </details>
# <details><summary>B. Each prediction needs the tokens before it, and only in training are they known</summary>
#
# **Right.** With teacher forcing the prefix is always the correct one, whatever the model would have generated.
#
# </details>
# <details><summary>C. The mask is switched off at inference time</summary>
#
# No. The mask stays on. The last position has nothing after it to hide, but the earlier ones must not attend to later tokens of the prefix, just as in training.
#
# </details>
# <details><summary>D. The encoder runs only in training</summary>
#
# No. Without the memory, the decoder would know nothing about the source sentence.
#
# </details>
#
# **3. What does the encoder pass to the decoder?**
#
# <details><summary>A. One vector for the whole sentence</summary>
#
# No. That was the bottleneck of the first recurrent translators.
#
# </details>
# <details><summary>B. One vector for each source token</summary>
#
# **Right.** At every step, the cross-attention heads compute new weights for these vectors.
#
# </details>
# <details><summary>C. The source tokens</summary>
#
# No. The decoder never sees the source itself, only what the encoder has made of it.
#
# </details>
# <details><summary>D. The most important word</summary>
#
# No. The vectors of all positions are passed on, and the decoder decides anew at every step which of them matter.
#
# </details>
#
# **4. In *a light shirt and a light hat*, do the two occurrences of *light* have the same vector in the memory?**
#
# <details><summary>Answer</summary>
#
# No. They share a row of the table, but the vectors that are added for their positions differ. And in each layer they gather different information from their surroundings, such as the noun that follows.
#
# </details>
#
# **5. A recurrent and a self-attention layer both read a sentence of 40 tokens, with $d = 512$. Which needs more operations according to Table 1, and which finishes first on a GPU?**
#
# <details><summary>Answer</summary>
#
# The recurrent layer needs $40 \cdot 512^2$ operations, about thirteen times attention's $40^2 \cdot 512$. Counted in full, attention takes $4nd^2$ and a little more, and a GRU $6nd^2$, so most of this lead is gone. But on a GPU, the order of the work matters more: the recurrent layer's forty steps have to wait for one another, while attention processes all tokens at once, so it finishes first. In very long texts, attention's $n^2$ makes it the slower one.
#
# </details>
#
# ## Exercises
#
# Fill in six blanks: a vocabulary, the ids of a sentence, embeddings, the most probable next tokens, greedy search, and the length of the path between two words. Each has a hint, and a check that tells you which mistake you made. At the end, your own search translates with this chapter's model.
#
# - In Colab, where the last cell grades your answers:
#   [01_translation](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb).
#   On GitHub: [01_translation.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/01_translation.ipynb).
# - On your machine, open `exercises/01_translation.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade translation
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# **Experiments**, each a few lines in this notebook:
#
# - Translate ten captions of your own. Which words are cut into several tokens?
# - Load `"multi30k-de-en"`, and translate a sentence there and back again. What is lost on the way?
# - Record the weights of other layers and heads. Which head aligns the words best, and which seems to do something else entirely?
# - The model can also score a translation that it did not write: one pass gives the probability of each of its tokens; add up their logarithms. Compare *Ein Hund rennt über das Feld.* with *Das Feld rennt über einen Hund.* ("The field runs across a dog.")
#
# ## Going further
#
# - **The paper:** [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762) argue against recurrence in §1, describe the two halves in §3.1, and compare the layers in §4.
# - **The data:** the captions are those of [Multi30K](https://aclanthology.org/W16-3210/).
# - **Most technical terms in bold** are explained in the [glossary](../book/glossary.md); names and shapes are listed under [notation](../book/notation.md).
# - **Next:** You now know what goes into each stage of the model and what comes out. [Attention](02_attention.ipynb) opens the most important one: how does a head compute its weights?
