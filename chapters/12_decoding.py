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
# The model of chapter 1 translates *An old man feeds the pigeons in front of a church.* The figure shows two translations with the probability that the model gives each token. The upper one takes the most probable token at every step, and is wrong: *Tauben* (pigeons) is plural and needs *die*, not *das*. **The correct translation below it is more probable, according to the same model. How do you find it?**

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
    print(f"With all figures: {book}/chapters/12_decoding.html")

# %% tags=["hide-input"]
import json
import math
from pathlib import Path

import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from transformer.data.tokenizer import PAD
from transformer.decoding import greedy_search
from transformer.plots import style
from transformer.plots.beam_tree import beam_tree, candidate_table
from transformer.plots.masks import draw_mask
from transformer.plots.model_map import model_map
from transformer.plots.reranking import reranking
from transformer.plots.sampling import sampling_explorer
from transformer.plots.style import Captioned, Picture, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# The probability of each token: the next section shows how to compute it.
# fmt: off
translations = (
    ("most probable token at each step",
     "Ein alter Mann füttert das Tauben vor einer Kirche . <eos>".split(),
     [0.9164, 0.9634, 0.9345, 0.8483, 0.4409, 0.4012, 0.9547, 0.9268, 0.9956, 0.9325,
      0.9315]),
    ("found by beam search",
     "Ein alter Mann füttert die Tauben vor einer Kirche . <eos>".split(),
     [0.9164, 0.9634, 0.9345, 0.8483, 0.3501, 0.8900, 0.9557, 0.9250, 0.9956, 0.9368,
      0.9312]),
)
# fmt: on
with style.in_style():
    figure = Figure(figsize=(5, 2.9))
    axes = figure.add_axes((0, 0, 1, 1))
    for y, (name, words, probabilities) in zip((1, 0), translations, strict=True):
        for i, (word, p) in enumerate(zip(words, probabilities, strict=True)):
            differs = i in (4, 5)  # the article and the noun
            colour = style.WRONG if y else style.VALUE
            weight = "bold" if differs else "normal"
            centre = i + 0.5
            axes.text(centre, y - 0.1, word, ha="center", fontsize=9, weight=weight)
            axes.bar(
                centre,
                0.4 * p,
                0.6,
                bottom=y,
                color=colour if differs else style.PLAIN,
            )
            top = y + 0.4 * p + 0.02
            axes.text(centre, top, f"{p:.2f}", ha="center", fontsize=9)
        label = f"{name}: product {math.prod(probabilities):.3f}"
        axes.text(0.1, y + 0.56, label, fontsize=10)
    axes.set_xlim(0, len(words))
    axes.set_ylim(-0.15, 1.7)
    axes.axis("off")
Picture(
    figure,
    alt=(
        "Two German translations, token by token, with a bar for the probability of "
        "each token. They differ only in the article before Tauben. Greedy search "
        "takes das with 0.44, and then Tauben has 0.40; the product of all is 0.095. "
        "Beam search takes die with 0.35, and then Tauben has 0.89; the product is "
        "0.167."
    ),
    caption=(
        "Greedy search takes the more probable article (das) and pays for it at the "
        "next token (Tauben). Beam search finds the more probable sentence."
    ),
)

# %% [markdown]
# By the end you will be able to write beam search in fifteen lines, show from measurements what a wider beam and the length penalty gain and cost, sample with temperature, top-k and top-p, and compute how much memory a KV cache takes. **About 40 minutes** without the three optional sections. The chapter builds on [The Transformer from the outside](01_translation.ipynb), [Attention](02_attention.ipynb), [Masking](04_masking.ipynb) and [Label smoothing](10_label_smoothing.ipynb).

# %% tags=["hide-input"]
Picture(
    model_map("probabilities", "target tokens"),
    alt=(
        "The map of the Transformer, with encoder and decoder side by side. "
        "Highlighted are both ends of the decoder: the probabilities of the next "
        "token at the top, and the target tokens at the bottom."
    ),
    caption=(
        "This chapter is about the highlighted ends of the decoder. The next token is "
        "chosen from the probabilities that come out, and goes back in as the last of "
        "the target tokens."
    ),
)

# %% tags=["hide-input", "imports"]
import textwrap
import time

import torch
from torch.testing import assert_close

import transformer
from transformer.attention import attention
from transformer.data.tokenizer import BOS, EOS
from transformer.decoding import beam_search, length_normalization, sample
from transformer.masks import causal_mask
from transformer.model import DecoderCache, Transformer
from transformer.quantization import quantize_rows
from transformer.recipes import RECIPES

# %% [markdown]
# ## Why greedy search can fail
#
# At inference time the decoder is **autoregressive**: it gives a probability to every possible next token, one is chosen and appended, and the decoder continues from there. Turning these next-token probabilities into a sentence is called **decoding**. **Greedy search** appends the most probable token, then the most probable one after that, and so on. It stops at `<eos>`, or at a maximum length in case `<eos>` never comes. The paper allows 50 tokens more than the source has (§6.1).
#
# Here are the model and the caption:

# %%
translator = transformer.load("multi30k", precision="fp32")
model, tokenizer = translator.model, translator.tokenizer


def ids(*rows):
    """A batch of token ids, on the model's device."""
    return torch.tensor(rows, device=translator.device.torch_device)


caption = "An old man feeds the pigeons in front of a church."
source = ids(translator.encode(caption))

# %% [markdown]
# And this is greedy search for one sentence. (It recomputes the whole prefix at each step, which the KV cache below avoids.)


# %%
@torch.no_grad()
def simple_greedy_search(source, max_length=60):
    memory, memory_mask = model.encode(source)
    tokens = [BOS]
    while tokens[-1] != EOS and len(tokens) <= max_length:
        states = model.decode(ids(tokens), memory, memory_mask)
        logits = model.logits(states[0, -1])  # for the token after the last one
        tokens.append(logits.argmax().item())
    return tokens


greedy_tokens = simple_greedy_search(source)[1:-1]
tokenizer.decode(greedy_tokens)

# %% tags=["remove-cell"]
assert greedy_search(model, source) == [greedy_tokens]
assert simple_greedy_search(source, max_length=3) == [BOS, *greedy_tokens[:3]]

# %% [markdown]
# But the probability of a sentence is the *product* of its tokens' probabilities, each given the tokens before it. For a given translation, one pass of the decoder computes all of them:


# %%
@torch.no_grad()
def token_log_probs(source, tokens):
    """The log-probability of each token of a translation, and of eos."""
    target = ids([BOS, *tokens, EOS])
    log_probs = model(source, target[:, :-1]).log_softmax(dim=-1)
    return log_probs.gather(2, target[:, 1:, None])[0, :, 0]


greedy_probs = token_log_probs(source, greedy_tokens).exp()
print(f"das {greedy_probs[4]:.2f}, then Tauben {greedy_probs[5]:.2f}")
print(f"product of all: {greedy_probs.prod():.3f}")

# %% [markdown]
# *Das* is the more probable article, but after it *Tauben* has only 0.40. After *die* (0.35), it would have 0.89, but greedy search can't go back.
#
# In a toy example we can compare all possible outputs. The decoder has three candidates for each of two words:

# %%
first = {"the": 0.5, "a": 0.4, "dogs": 0.1}
second = {  # given the first word
    "the": {"dog": 0.4, "dogs": 0.35, "cat": 0.25},
    "a": {"dog": 0.9, "dogs": 0.02, "cat": 0.08},
    "dogs": {"dog": 0.1, "dogs": 0.1, "cat": 0.8},
}
sentences = {
    f"{a} {b}": p * second[a][b] for a, p in first.items() for b in second[a]
}
for sentence in sorted(sentences, key=sentences.get, reverse=True)[:3]:
    print(f"{sentence:8} {sentences[sentence]:.3f}")

# %% [markdown]
# Greedy search starts with *the* and ends with *the dog*, with probability 0.20. It never sees *a dog*, with 0.36. Listing all nine sentences would find it, but in general there are too many: ten tokens from a vocabulary of 8,000 give $8000^{10} \approx 10^{39}$. Dynamic programming, as in the Viterbi algorithm, doesn't help either, because each probability depends on the whole prefix.
#
# ## Beam search
#
# **Beam search** is a compromise (§6.1). A **prefix** is the beginning of a translation, and beam search keeps the $k$ most probable prefixes instead of just one. Together they form the beam. (Confusingly, each prefix is often called a beam.) The number $k$ is the **beam size** or *beam width*. At each step:
#
# 1. Extend every prefix by every possible token, and rank all results by probability.
# 2. Those among the first $k$ that end with `<eos>` are finished and set aside.
# 3. The best $k$ of those that don't end with `<eos>` are the next beam.
#
# At the end, the best finished translation wins. Greedy search is this search with $k = 1$. In the toy example (without `<eos>`, because all sentences have two words) with $k = 2$, *a* survives in second place, and *a dog* wins:

# %%
beam = sorted(first, key=first.get, reverse=True)[:2]
extended = {f"{a} {b}": first[a] * second[a][b] for a in beam for b in second[a]}
sorted(extended, key=extended.get, reverse=True)[:2]

# %% tags=["remove-cell"]
assert (
    max(sentences, key=sentences.get) == max(extended, key=extended.get) == "a dog"
)
assert 38 < math.log10(8000**10) < 40

# %% [markdown]
# In practice you add logarithms, because a product of many small numbers can underflow, that is, be rounded to zero. A log-probability is never positive, so each further token can only lower the sum.
#
# Below is the search for our caption with a beam of $k = 3$. **Set *steps shown* to 1, then add one step at a time.** Each row shows the best candidates of a step (the code below shows why there are six): blue ones are kept, grey ones dropped, green ones finished. Orange rings mark the path of greedy search. At step 5, *das* is ahead of *die*; watch them change places in the next step.

# %% tags=["hide-input"]
trace = []
beam_search(model, source, beam_size=3, length_penalty=0, trace=trace)
vocabulary = tokenizer.pieces(range(len(tokenizer)))
table = candidate_table(trace, vocabulary, greedy=[*greedy_tokens, EOS])
Captioned(
    beam_tree(
        table,
        description=(
            "The tree of a beam search with three beams. A slider sets how many "
            "steps are shown. Rows are steps with six candidates each, the best on "
            "the left; lines lead from each candidate to its extensions. Kept "
            "candidates are blue, dropped ones grey, finished ones green. Orange "
            "rings mark the path of greedy search: it is leftmost until step 5, das, "
            "and falls behind in step 6. A thick line marks the path to the best "
            "hypothesis. Pointing at a candidate shows its text, log-probability and "
            "score."
        ),
    ),
    "Candidates of a beam search, the best on the left at each step. The thick path "
    "wins; greedy search (orange rings) falls behind.",
)

# %% tags=["remove-cell"]
greedy_path = table[table["greedy"]]
assert (greedy_path[greedy_path["step"] <= 5]["rank"] == 0).all()
assert (greedy_path[greedy_path["step"] == 6]["rank"] > 0).all()
ends = table[table["token"] == "<eos>"]
assert ends["step"].tolist() == [10, 11, 11, 11]
assert ends["rank"].tolist() == [5, 0, 1, 2]
assert ends["fate"].tolist() == ["dropped", *["finished"] * 3]
assert (table[(table["step"] == 11) & (table["rank"] > 2)]["fate"] == "kept").all()

# %% [markdown]
# ### In code
#
# Here is the whole of beam search, for one sentence. A **hypothesis** is a translation, finished or not; in the code it is a pair of a log-probability and a list of tokens.


# %%
@torch.no_grad()
def simple_beam_search(source, k, steps):
    memory, memory_mask = model.encode(source)
    prefixes, finished = [(0.0, [BOS])], []
    for _ in range(steps):
        candidates = []
        for score, tokens in prefixes:
            states = model.decode(ids(tokens), memory, memory_mask)
            log_probs = model.logits(states[0, -1]).log_softmax(dim=-1)
            for value, token in zip(*log_probs.topk(2 * k), strict=True):
                candidates.append((score + value.item(), [*tokens, token.item()]))
        best = sorted(candidates, reverse=True)[: 2 * k]
        finished += [c for c in best[:k] if c[1][-1] == EOS]
        prefixes = [c for c in best if c[1][-1] != EOS][:k]
    return max(finished or prefixes)  # if none has ended, the best prefix


# %% [markdown]
# Why $2k$ candidates? Up to $k$ of them may end with `<eos>`, one for each prefix, and we still need $k$ others to continue with. That happens at step 11 of the tree: the first three are finished, and the other three continue. At step 10, `<eos>` comes sixth, not among the first three, so it is dropped.
#
# The package's `beam_search` does the same for a whole batch of sentences, and stops as soon as no unfinished prefix can beat the best finished hypothesis. Both find the same translation with the same probability:

# %%
log_probability, tokens = simple_beam_search(source, k=4, steps=20)
# One sentence, and its best hypothesis:
((best,),) = beam_search(model, source, beam_size=4, length_penalty=0)
assert tokens[1:-1] == best.tokens
assert_close(log_probability, best.log_probability, atol=1e-3, rtol=1e-3)
tokenizer.decode(best.tokens)

# %% tags=["remove-cell"]
for tokens, (_, words, expected) in zip(
    (greedy_tokens, best.tokens), translations, strict=True
):
    p = token_log_probs(source, tokens).exp().tolist()
    assert [w.strip("▁") for w in tokenizer.pieces([*tokens, EOS])] == words
    assert all(abs(a - b) < 0.006 for a, b in zip(p, expected, strict=True))
    assert abs(math.prod(p) - math.prod(expected)) < 0.006
assert f"{math.prod(translations[0][2]):.3f}" == "0.095"
assert f"{math.prod(translations[1][2]):.3f}" == "0.167"

# %% [markdown]
# Beam search isn't guaranteed to find the most probable sentence either: its prefix may be dropped early.
#
# ## Wider beams and the length penalty
#
# If $k = 4$ is better than 1, is 64 better still? We let the model translate its 1,000 test captions with eight beam sizes, and stored the results in the [repository](https://github.com/transformer-course/transformer-course/blob/main/book/results/beam-sizes.json). The **length ratio** is the number of words in the translations divided by that in the references. First follow the orange lines, without a penalty, from top to bottom:

# %% tags=["hide-input"]
# beam size: (BLEU, length ratio, mean log-probability), for each exponent α of the
# length penalty
measured = {
    0.0: {
        1: (38.38, 1.008, -6.588),
        2: (39.08, 0.994, -5.835),
        3: (39.11, 0.984, -5.59),
        4: (39.1, 0.979, -5.481),
        8: (39.18, 0.967, -5.263),
        16: (38.99, 0.959, -5.158),
        32: (38.78, 0.949, -5.089),
        64: (38.58, 0.94, -5.025),
    },
    0.6: {
        1: (38.38, 1.008, -6.588),
        2: (39.19, 0.997, -5.842),
        3: (39.3, 0.991, -5.607),
        4: (39.41, 0.988, -5.5),
        8: (39.39, 0.98, -5.288),
        16: (39.37, 0.975, -5.189),
        32: (39.3, 0.97, -5.128),
        64: (39.39, 0.967, -5.081),
    },
    1.0: {
        1: (38.38, 1.008, -6.588),
        2: (39.1, 1.002, -5.873),
        3: (39.26, 0.999, -5.65),
        4: (39.38, 0.996, -5.546),
        8: (39.43, 0.99, -5.354),
        16: (39.47, 0.988, -5.271),
        32: (39.36, 0.985, -5.22),
        64: (39.42, 0.984, -5.188),
    },
}
with style.in_style():
    figure = Figure(figsize=(5, 6.6), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True)
    titles = {2: "Mean log-probability", 1: "Length ratio", 0: "BLEU"}
    for axes, (i, title) in zip(panels, titles.items(), strict=True):
        for (alpha, results), (colour, dashes) in zip(
            measured.items(), style.LINE_STYLES, strict=False
        ):
            axes.plot(
                list(results),
                [values[i] for values in results.values()],
                dashes,
                color=colour,
                marker="o",
                markersize=4,
                label=f"α = {alpha:g}" + " (no penalty)" * (alpha == 0),
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(results), [str(k) for k in results])
        axes.minorticks_off()
        axes.set_title(title, loc="left")
        axes.grid(True)
    panels[1].axhline(1, color=style.INK, linewidth=1, linestyle=":")
    panels[2].set_xlabel("beam size")
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=3
    )
Picture(
    figure,
    alt=(
        "Mean log-probability, length ratio and BLEU for beam sizes 1 to 64, with three "
        "exponents of the length penalty. With all three, the mean log-probability rises "
        "with the beam size, from -6.6 to between -5.2 and -5.0. Without a penalty, the "
        "length ratio falls steadily from 1.01 to 0.94, and BLEU rises from one beam to "
        "two, stays level up to eight and then falls. With a penalty, the length ratio "
        "stays above 0.96, and BLEU stays level from four beams on."
    ),
    caption=(
        "Without a length penalty (α = 0), wider beams find ever more probable and ever "
        "shorter translations, and in the end BLEU falls."
    ),
)

# %% tags=["remove-cell"]
plain, paper, strong = measured[0.0], measured[0.6], measured[1.0]
ratios = [ratio for _, ratio, _ in plain.values()]
assert ratios == sorted(ratios, reverse=True) and ratios[0] > 1 > 0.945 > ratios[-1]
assert round(plain[2][0] - plain[1][0], 1) == 0.7
assert round(plain[4][0] - plain[64][0], 1) == 0.5
assert round(plain[4][0] - plain[1][0], 1) == 0.7
assert round(paper[4][0] - plain[4][0], 1) == 0.3
assert round(paper[4][0] - plain[1][0], 1) == 1.0
assert all(abs(plain[k][0] - plain[2][0]) < 0.11 for k in (2, 3, 4, 8))
falling = [plain[k][0] for k in (8, 16, 32, 64)]
assert falling == sorted(falling, reverse=True)
for values in (paper, strong):
    assert max(abs(values[k][0] - values[4][0]) for k in (8, 16, 32, 64)) < 0.15
    assert all(abs(1 - values[k][1]) < abs(1 - plain[k][1]) for k in plain if k > 1)
    assert min(ratio for _, ratio, _ in values.values()) > 0.96
for values in measured.values():
    means = [mean for _, _, mean in values.values()]
    assert means == sorted(means) and round(means[0], 1) == -6.6
    assert -5.25 < means[-1] < -4.95
assert round(plain[64][2], 1) == -5.0
stored = Path("../book/results/beam-sizes.json")
if stored.exists():  # not in Colab
    rows = json.loads(stored.read_text("utf-8"))["rows"]
    rows = {row["beam"]: row for row in rows if row["alpha"] == 0}
    assert rows[2]["p_values"]["1"] == 0.02 and rows[64]["p_values"]["4"] == 0.01

# %% [markdown]
# Without a penalty, a wider beam does what it is meant to do: it finds more probable translations, with a mean log-probability that rises from −6.6 to −5.0. But **the wider the beam, the shorter the translations**: the length ratio falls from 1.01 to 0.94. BLEU rises by 0.7 points from greedy search to a beam of 2, hardly changes up to a beam of 8, and then falls: with 64 beams it is half a point lower than with 4. Both differences are probably not due to chance ($p$ = 0.02 and 0.01 in sacreBLEU's paired bootstrap test, which is lenient; see [Evaluation](13_evaluation.ipynb)). **The most probable translation need not be the best one.** With longer sentences than our captions, [Koehn and Knowles (2017)](https://aclanthology.org/W17-3204/) found a clear loss for several language pairs.

# %% [markdown]
# Why shorter? Every token lowers the log-probability, so a short translation has an advantage. In a narrow beam, an early `<eos>` rarely makes it into the top $k$; the wider the beam, the likelier it is that some prefix ends early and outscores all longer hypotheses. The remedy is **length normalisation**: divide the score by something that grows with the length. In §6.1, the paper uses the **length penalty** of [Wu et al. (2016)](https://arxiv.org/abs/1609.08144):
#
# $$ \mathrm{score} = \frac{\log P(Y \mid X)}{\big(\tfrac{5 + |Y|}{6}\big)^{\alpha}} $$
#
# Here $|Y|$ is the number of tokens, `<eos>` included. With $\alpha = 0$ nothing changes; with $\alpha = 1$, long translations are ranked nearly by their mean log-probability per token. The paper sets $\alpha = 0.6$, with a beam of 4. The name is confusing: a *larger* length penalty favours *longer* translations. In the figure above, the penalty keeps the length ratio closer to 1 for every beam wider than 1, and BLEU no longer falls. With both settings of the paper, BLEU is 1.0 points higher than with greedy search: the beam adds 0.7 and the penalty 0.3.

# %% tags=["remove-input"]
SourceCode(length_normalization)

# %% [markdown]
# All prefixes at a step have the same length, so the penalty doesn't change which of them are kept. It decides later, between finished hypotheses of different lengths, where those that ended early no longer win so easily. Take a hypothesis of 5 tokens with log-probability −4.0 and one of 9 tokens with −4.8. The penalty reverses their order:

# %%
for alpha in (0.0, 0.6):
    short = -4.0 / length_normalization(5, alpha)
    long = -4.8 / length_normalization(9, alpha)
    print(f"alpha {alpha}:  short {short:.2f}   long {long:.2f}")

# %% tags=["remove-cell"]
assert short < long

# %% [markdown]
# **Change α yourself.** Here are the eight best translations that a beam of 8 finds for *A man with a beard is reading a book.* At $\alpha = 0$, *ein bärtiger Mann*, a bearded man, wins; at the paper's 0.6, *ein Mann mit Bart*, a token longer. Both are correct.

# %% tags=["hide-input"]
bearded = ids(translator.encode("A man with a beard is reading a book."))
((*hypotheses,),) = beam_search(
    model, bearded, beam_size=8, length_penalty=0, n_best=8
)
Captioned(
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
    ),
    "Eight translations ranked by their score, the winner in green. A larger length "
    "penalty α favours the longer ones.",
)

# %% tags=["remove-cell"]
for alpha, words in (
    (0, "bärtiger Mann"),
    (0.6, "Mann mit Bart"),
    (2, "Mann mit Bart"),
):
    top = max(
        hypotheses,
        key=lambda h: (
            h.log_probability / length_normalization(len(h.tokens) + 1, alpha)
        ),
    )
    assert words in tokenizer.decode(top.tokens)

# %% [markdown]
# ## The empty translation
#
# *Optional: no later chapter builds on this section.*
#
# The shortest translation of all is the **empty** one, `<eos>` alone. Here is how our model rates it for the 1,000 test captions, whose references have about 15 tokens (stored results again):

# %%
empty_translation = {
    "log_probability": -10.996,
    "reference_log_probability": -24.456,
    "greedy_log_probability": -6.588,
    "beats_reference": 650,
    "beats_greedy": 153,
    "reference_length": 15.3,
}
for name in ("greedy", "reference"):
    mean = empty_translation[f"{name}_log_probability"]
    wins = empty_translation[f"beats_{name}"]
    print(f"{name}: mean log-probability {mean:.1f}")
    print(f"  the empty one is more probable {wins} times")

# %% tags=["remove-cell"]
assert RECIPES["multi30k"].training.label_smoothing == 0.1
assert len(tokenizer) == 8000
assert round(math.log(0.1 / 8000), 1) == -11.3
assert round(math.log(0.9), 2) == -0.11
per_token = (
    empty_translation["reference_log_probability"]
    / empty_translation["reference_length"]
)
assert round(per_token, 1) == -1.6

# %% [markdown]
# For most captions, the empty translation beats the reference, and for about one in seven even the greedy translation, for two reasons:
#
# - **The empty translation is too probable.** [Label smoothing](10_label_smoothing.ipynb) with $\varepsilon = 0.1$ gives every one of the 8,000 tokens a share of $0.1 / 8000$ of every target, `<eos>` included. The logarithm of that is −11.3, and the model's mean for the empty translation is −11.0.
# - **The reference is improbable.** A caption has many correct translations that share the probability, and each token of a reference lowers the log-probability by about 1.6 on average. Label smoothing alone would lower it by 0.11, because it takes about a tenth of the probability from the correct token.
#
# [Stahlberg and Byrne (2019)](https://aclanthology.org/D19-1331/) searched exhaustively with a trained Transformer, and for more than half of the sentences the most probable translation was the empty one. Beam search rarely finds it, because `<eos>` drops out at the first step: a *search error* hides the model's mistake.
#
# ## What a wider beam costs
#
# With $k$ beams, the decoder processes $k$ prefixes at each step. Part of the time is overhead that doesn't depend on $k$; the rest grows with $k$. Here are the times for twelve copies of our caption, on the machine that ran this chapter:

# %%
batch_of_12 = source.expand(12, -1)
beam_search(model, batch_of_12)  # warm up
milliseconds = {}
for k in (1, 2, 4, 8, 16, 32):
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        beam_search(model, batch_of_12, beam_size=k)
        seconds.append(time.perf_counter() - start)
    milliseconds[k] = 1000 * min(seconds) / 12  # per sentence
    ratio = milliseconds[k] / milliseconds[1]
    print(f"k = {k:2}: {milliseconds[k]:3.0f} ms, {ratio:4.1f} times greedy search")

# %% [markdown]
# A beam of 4, the paper's choice, is the usual compromise: with a length penalty, wider beams gain little.
#
# ## Sampling
#
# Beam search looks for a highly probable output. With a length penalty, that works well for translation, where the source says what has to come out, but not for a story or a dialogue: there the most probable text is dull and ends in **repetition loops** ([Holtzman et al., 2020](https://arxiv.org/abs/1904.09751)). Instead you **sample**: you draw each token at random from the model's distribution, as [chapter 15](15_transformer_family.ipynb) does with a small GPT. Here we stay with translations, where you can tell right from wrong. Three settings change the distribution before a token is drawn, in this order:
#
# - **Temperature** $T$ divides the logits. Below 1, the distribution becomes sharper, and for $T \to 0$ you get greedy search. Above 1, it becomes flatter.
# - **Top-k** keeps the $k$ most probable tokens and drops all others.
# - **Top-p**, or *nucleus sampling*, keeps the most probable tokens until their probabilities (after temperature and top-k) add up to at least $p$. It keeps few tokens where the model is certain, and many where it isn't.


# %%
def next_token_distribution(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits, tokens = (logits / temperature).sort(descending=True)
    probs = logits[:top_k].softmax(dim=-1)
    if top_p < 1:  # at 1, rounding could drop the last tokens
        sum_before = probs.cumsum(dim=-1) - probs  # of the tokens that rank higher
        probs[sum_before >= top_p] = 0
    return probs / probs.sum(), tokens[:top_k]


# %% [markdown]
# The next token is `tokens[torch.multinomial(probs, 1)]`, and the loop is that of greedy search. Here is what top-p keeps after *Ein alter Mann füttert* (an old man feeds), and how much probability lies outside the 20 most probable tokens, averaged over the positions of the correct translation:

# %%
with torch.no_grad():
    all_logits = model(source, ids([BOS, *best.tokens]))[0]  # (target, vocab_size)
for top_p in (0.7, 0.9):
    probs, tokens = next_token_distribution(all_logits[4], top_p=top_p)
    kept = tokenizer.pieces(tokens[: (probs > 0).sum()].tolist())
    print(f"top-p {top_p}:", *kept, sep="\n  ")
for temperature in (1.0, 1.5):
    tails = [
        next_token_distribution(logits, temperature)[0][20:].sum()
        for logits in all_logits
    ]
    mean = sum(tails) / len(tails)
    print(f"temperature {temperature}: {mean:.0%} outside the top 20")

# %% tags=["remove-cell"]
torch.manual_seed(0)
probs, tokens = next_token_distribution(all_logits[4], top_k=2)
drawn = {tokens[torch.multinomial(probs, 1)].item() for _ in range(50)}
assert drawn == set(tokens.tolist())
means = [
    (all_logits / t).softmax(dim=-1).sort(descending=True)[0][:, 20:].sum(1).mean()
    for t in (1.0, 1.5)
]
assert means[0] < 0.1 and 0.5 < means[1] < 0.75 and abs(mean - means[1]) < 1e-4

# %% [markdown]
# *Das*, *die* and *den* are articles; *vor* means in front of, *mit* with, and *einige* some.
#
# **Try the three settings** after two prefixes of our caption. After *Ein alter Mann füttert*, several tokens are possible; after *… vor einer* (in front of a), hardly anything but *Kirche*, church. Set top-p to 0.9 and switch between the prefixes: how many tokens are left?

# %% tags=["hide-input"]
prefixes = [best.tokens[:4], best.tokens[:8]]
with torch.no_grad():
    logits = torch.stack(
        [model(source, ids([BOS, *prefix]))[0, -1] for prefix in prefixes]
    )
Captioned(
    sampling_explorer(
        logits,
        [tokenizer.decode(prefix) for prefix in prefixes],
        vocabulary,
        description=(
            "Bar chart of the probabilities of the next token, with controls for the "
            "prefix, the temperature, top-k and top-p. After 'Ein alter Mann "
            "füttert', das, die and others share the probability; after 'vor einer', "
            "Kirche has nearly all of it. Tokens that top-k or top-p exclude have a "
            "cross."
        ),
    ),
    "The most probable next tokens after a prefix. A lower temperature sharpens the "
    "distribution; top-k and top-p exclude unlikely tokens (×).",
)

# %% [markdown]
# The package's `sample` has the same three settings and draws tokens until the sentence ends. For each of six settings we draw 50 translations, and count the different ones and those with the correct *die Tauben*. The last column is their mean log-probability:

# %%
settings = {
    "no restriction": {},
    "T 0.5": {"temperature": 0.5},
    "T 1.5": {"temperature": 1.5},
    "top-k 3": {"top_k": 3},
    "top-p 0.8": {"top_p": 0.8},
    "T 0.7, top-p 0.9": {"temperature": 0.7, "top_p": 0.9},
}
torch.manual_seed(4)
samples = {
    name: sample(model, source.expand(50, -1), **setting)
    for name, setting in settings.items()
}

# %%
print(f"{'':17} different  die Tauben  log-prob.")
for name, drawn in samples.items():
    texts = [tokenizer.decode(tokens) for tokens in drawn]
    different = len(set(texts))
    correct = sum("die Tauben" in text for text in texts)
    mean = sum(token_log_probs(source, t).sum() for t in drawn) / len(drawn)
    print(f"{name:17} {different:9} {correct:11} {mean:10.1f}")

# %% [markdown]
# The first sample of each setting, the longest one cut:

# %%
for name, (tokens, *_) in samples.items():
    text = textwrap.shorten(tokenizer.decode(tokens), 90, placeholder=" …")
    print(name, *textwrap.wrap(text, 44), sep="\n  ")

# %% tags=["remove-cell"]
different = {
    name: len({tuple(tokens) for tokens in drawn})
    for name, drawn in samples.items()
}
correct = {
    name: sum("die Tauben" in tokenizer.decode(tokens) for tokens in drawn)
    for name, drawn in samples.items()
}
means = {
    name: sum(token_log_probs(source, t).sum().item() for t in drawn) / 50
    for name, drawn in samples.items()
}
low, both = "T 0.5", "T 0.7, top-p 0.9"
assert max(different[low], different[both]) < 9
for cut in ("top-k 3", "top-p 0.8"):
    assert max(different[low], different[both]) < different[cut]
    assert different[cut] < different["no restriction"]
    assert means["no restriction"] < means[cut] < min(means[low], means[both])
# The samples differ between CPUs, so these limits leave some room.
assert different["T 1.5"] > 45 and correct["T 1.5"] < 12 and means["T 1.5"] < -150
n_tokens = {name: sum(map(len, drawn)) for name, drawn in samples.items()}
assert n_tokens["T 1.5"] > 1.8 * n_tokens["no restriction"]
usual = [name for name in settings if name != "T 1.5"]
assert sum(correct[name] for name in usual) < 25 * len(usual)
share = 0.1 * (8000 - 20) / 8000
assert round(share, 3) == 0.1

# %% [markdown]
# Without a restriction the translations vary, but many contain tokens that make no sense. Together, the improbable tokens get a noticeable share of the probability, partly because of label smoothing, whose targets give a tenth to the tokens outside the top 20 (for this caption, the model itself gives them 5%). At temperature 1.5 they get most of it, even after a correct prefix, so the texts fall apart and become much longer; that is why the last column is so extreme there. Top-k and top-p cut off this tail and keep some variety; a low temperature shrinks it and leaves only a few different translations.
#
# But *die Tauben* comes out only about half of the time or less. Like greedy search, sampling chooses the article before it knows how probable the noun will be. For translation, beam search is better.
#
# ### Which method when?
#
# | method | choose it | but |
# |---|---|---|
# | greedy search | for speed | it can't take a token back |
# | beam search | when the input largely determines the output: translation, speech recognition | it costs more, and needs length normalisation |
# | sampling | for variety: stories, dialogue, several different outputs | it is random, so restrict it; a common starting point is $T$ = 0.7 with top-p 0.9 |
#
# Against repetition loops, libraries offer a **repetition penalty**, which lowers the scores of tokens that have already occurred, or a ban on repeating any *n-gram*, which is $n$ tokens in a row.
#
# ## The KV cache
#
# `simple_beam_search` runs the decoder over the *whole* prefix at each step, although only the last position is new. Because of the [causal mask](04_masking.ipynb), the earlier positions can't see the new token, so everything computed there stays the same. The new position, in turn, uses the earlier ones only through their keys and values, which is why a **KV cache** keeps just these. (Why no queries? A query is needed only once, for the output of its own position.) Here is one for a single attention head. Row by row, the outputs equal those of causal attention over all tokens at once:

# %%
x = torch.randn(6, 16)  # the layer's input, a row for each token
w_q, w_k, w_v = torch.randn(3, 16, 16) / 4
keys, values = torch.empty(2, 0, 16)  # the cache: two (0, 16) tensors, still empty
outputs = []
for new in x.split(1):  # one token at a time, (1, 16)
    q, k, v = new @ w_q, new @ w_k, new @ w_v  # of the new token only
    keys = torch.cat([keys, k], dim=-2)
    values = torch.cat([values, v], dim=-2)
    outputs.append(attention(q, keys, values)[0])  # no mask: nothing comes later

full, _ = attention(x @ w_q, x @ w_k, x @ w_v, causal_mask(6)[0, 0])
assert_close(torch.cat(outputs), full)
print("equal to causal attention over all tokens")

# %% [markdown]
# Each row of the figure is a step that generates a token:

# %% tags=["hide-input"]
earlier, new = torch.ones(8, 8).tril(-1), torch.eye(8)
colours = ListedColormap(["none", (style.QUERY, 0.25), style.QUERY])
with style.in_style():
    figure = Figure(figsize=(5, 2.7), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    cells = {"cmap": colours, "vmax": 2, "edgecolors": style.INK, "linewidth": 0.5}
    panels[0].pcolormesh(2 * (earlier + new), **cells)
    panels[1].pcolormesh(earlier + 2 * new, **cells)
    for axes, title in zip(panels, ("no cache", "KV cache"), strict=True):
        axes.set(aspect="equal", title=title, xlabel="position")
        axes.set_xticks([i + 0.5 for i in range(8)], range(8))
    panels[0].set_yticks([i + 0.5 for i in range(8)], range(1, 9))
    panels[0].set_ylabel("step")
    panels[0].invert_yaxis()  # of both panels, which share it
Picture(
    figure,
    alt=(
        "Two grids with a row for each of eight steps and a column for each position. "
        "Without a cache, all cells up to the diagonal are dark. With a KV cache, only "
        "the cells on the diagonal are dark, and those to the left of it are pale."
    ),
    caption=(
        "The positions that the decoder computes at each step (dark). With a cache, "
        "it reads the keys and values of earlier positions (pale)."
    ),
)

# %% [markdown]
# To generate $n$ tokens, the decoder with a cache computes $n$ positions instead of $1 + 2 + \dots + n = n(n + 1)/2$. The cost of attention falls from cubic to quadratic in $n$, because only the new query attends to all cached keys.
#
# In the package, `start_cache` computes the keys and values of cross-attention just once, because the source stays the same. `decode_step` runs the whole decoder on one new token and appends its keys and values in each layer. (In a decoder-only model, the prompt's keys and values are computed in one pass, the **prefill**.) Both functions below compute the logits after each prefix of a translation, and agree up to rounding:


# %%
@torch.no_grad()
def with_cache(source, tokens):
    memory, memory_mask = model.encode(source)
    cache = model.start_cache(memory, memory_mask, max_length=len(tokens))
    logits = [model.decode_step(ids([t]), cache)[0, 0] for t in tokens]
    return torch.stack(logits)  # (length, vocab_size)


@torch.no_grad()
def without_cache(source, tokens):
    memory, memory_mask = model.encode(source)
    prefixes = [ids(tokens[:n]) for n in range(1, len(tokens) + 1)]
    states = [model.decode(p, memory, memory_mask)[0, -1] for p in prefixes]
    return model.logits(torch.stack(states))  # (length, vocab_size)


# %%
tokens = [BOS, *best.tokens]
assert_close(
    with_cache(source, tokens), without_cache(source, tokens), atol=1e-4, rtol=1e-5
)
print("the same logits with and without a cache")

# %% [markdown]
# For 120 tokens, the decoder computes only a sixtieth of the positions, but isn't sixty times faster. In a small model, most of a step is per-operation overhead. In a large one, decoding a single sentence is **memory-bound**, limited by the speed of the memory: all weights are read for each token. ([Chapter 16](16_gpu_performance.ipynb) explains both.) Here are the times on the machine that ran this chapter:

# %%
long_text = (tokens * 30)[:240]
for length in (30, 120, 240):
    print(f"{length} tokens")
    for decode in (without_cache, with_cache):
        decode(source, long_text[:5])  # warm up
        start = time.perf_counter()
        decode(source, long_text[:length]).cpu()  # waits for a GPU
        print(f"  {decode.__name__:13} {time.perf_counter() - start:5.2f} s")

# %% [markdown]
# ### Reordering the cache in beam search
#
# In beam search, a step may drop one prefix and continue another twice. The new beams then need the keys and values of the prefix that they continue. So most libraries reorder the cache after each step, in functions such as `Cache.reorder_cache` (Hugging Face) and `reorder_incremental_state` (fairseq):

# %%
beams = ["Ein alter", "Der Mann", "Eine Frau"]
keys = torch.randn(3, 2, 16)  # (beam, position, d_head)
parents = [0, 0, 2]  # the old beam that each new beam continues
keys = keys[parents]  # the same for the values, and in every layer
print([beams[parent] for parent in parents])

# %% [markdown]
# ### How much memory it needs
#
# Each layer caches a key and a value, with $d_\text{model}$ numbers each:
#
# - for **self-attention**, one pair per target position, for every beam of every sentence;
# - for **cross-attention**, one pair per source position, for every sentence. The beams of a sentence share these, because they translate the same source.


# %%
def cache_numbers(config, sentences, beams, target_length, source_length):
    per_position = 2 * config.n_layers * config.d_model  # a key and a value
    self_attention = sentences * beams * target_length * per_position
    cross_attention = sentences * source_length * per_position
    return self_attention, cross_attention


memory, memory_mask = model.encode(source)
cache = model.start_cache(memory, memory_mask, max_length=60, beams=4)
stored = (
    sum(layer.key.numel() + layer.value.numel() for layer in cache.self_attention),
    sum(layer.key.numel() + layer.value.numel() for layer in cache.cross_attention),
)
assert stored == cache_numbers(model.config, 1, 4, 60, source.size(1))
print("the formula gives the size of the model's cache")

# %% [markdown]
# For the paper's base model with 64 sentences, a beam of 4, 100 target positions and 50 source positions, in float32:

# %%
base = RECIPES["wmt14-base"].model
for name, numbers in zip(
    ("self-attention ", "cross-attention"),
    cache_numbers(base, 64, 4, 100, 50),
    strict=True,
):
    print(f"{name} {4 * numbers / 1e6:4.0f} MB")

# %% [markdown]
# Together, that is nearly three times the size of the model's weights (about 250 MB). With long contexts, the cache often limits how many requests fit on a GPU. **Grouped-query attention**, in which several query heads share keys and values, makes it smaller, as you will see in [The Transformer family](15_transformer_family.ipynb).

# %% tags=["remove-cell"]
sizes = [4 * n / 1e6 for n in cache_numbers(base, 64, 4, 100, 50)]
assert round(sizes[0]) == 629 and round(sizes[1]) == 79
with torch.device("meta"):
    weights = Transformer(base)
megabytes = sum(weight.numel() for weight in weights.parameters()) * 4 / 1e6
assert 240 < megabytes < 260 and 2.7 < sum(sizes) / megabytes < 3

# %% [markdown]
# ## One cache for all beams
#
# *Optional: no later chapter builds on this section.*
#
# Reordering copies keys and values in every layer and at every step. In the package, all beams of a sentence share one cache instead. Each step adds an **entry** for each beam, the keys and values of its newest token. A boolean mask, `prefix_mask`, marks which entries belong to each beam's prefix; if a beam switches to another prefix, only this mask changes.
#
# Here are three beams after three steps, with the token of each entry:
#
# | | step 1 | step 2 | step 3 |
# |---|---|---|---|
# | beam 1 | `<bos>` | Ein | alter |
# | beam 2 | `<bos>` | Der | Mann |
# | beam 3 | `<bos>` | Eine | Frau |
#
# Suppose that the three best candidates, *Ein alter Mann*, *Ein alter Herr* and *Ein alter Hund* (man, gentleman, dog), all continue beam 1. The figure shows the mask before and after. Beam 2, for example, no longer attends to *Der* and *Mann*, but to *Ein* and *alter*, which beam 1 wrote:

# %% tags=["hide-input"]
words = ["Ein Der Eine", "alter Mann Frau", "Mann Herr Hund"]
beams = ["beam 1", "beam 2", "beam 3"]
own, of_beam_1 = torch.eye(3).bool(), torch.tensor([[True, False, False]] * 3)
with style.in_style():
    figure = Figure(figsize=(4.4, 3.6))
    for bottom, steps, title in (
        (0.6, [own] * 3, "after step 3"),
        (0.05, [of_beam_1] * 3 + [own], "after reordering and step 4"),
    ):
        axes = figure.add_axes((0.15, bottom, 0.068 * 3 * len(steps), 0.25))
        labels = ["<bos>"] * 3 + " ".join(words).split()[: 3 * len(steps) - 3]
        draw_mask(axes, torch.cat(steps, dim=1), beams, labels)
        for border in range(3, len(labels), 3):
            axes.axvline(border, color=style.INK, linewidth=2.5)
        axes.set_title(title, y=0, pad=-4, va="top", loc="left")
Picture(
    figure,
    alt=(
        "Two masks with a row for each of three beams and a column for each entry of "
        "the cache, in groups of three per step. Before: each beam attends to its own "
        "entry at steps 1 to 3. After: at steps 1 to 3, all rows attend to the entries "
        "of beam 1, <bos>, Ein and alter, and at step 4 each to its own: Mann, Herr and "
        "Hund."
    ),
    caption=(
        "The mask before and after beams 2 and 3 become continuations of beam 1. A "
        "column is an entry of the cache; a green cell means that the beam attends to "
        "it."
    ),
)

# %% [markdown]
# Now the same with the model's cache and the `words` of the figure. `prefix_mask` has the shape (sentences, attending beam, step, beam that wrote the entry).

# %%
entered = [[BOS] * 3, *(tokenizer.encode(three) for three in words)]


@torch.no_grad()
def three_steps():
    cache = model.start_cache(*model.encode(source), max_length=4, beams=3)
    for tokens in entered[:3]:
        model.decode_step(ids(tokens), cache)  # (1 sentence, 3 beams)
    return cache


def print_prefixes(cache):
    for beam, mask in enumerate(cache.prefix_mask[0, :, : cache.length], 1):
        attended = [entered[t][b] for t, b in mask.nonzero().tolist()]
        print(f"beam {beam} attends to", *tokenizer.pieces(attended))


# %%
cache = three_steps()
print_prefixes(cache)
# index 0 is beam 1: all three continue it
parents = torch.tensor([[0, 0, 0]], device=source.device)
cache.reorder(parents)
print("after reordering:")
print_prefixes(cache)

# %% [markdown]
# With copies of beam 1's keys and values, the next step gives the same logits:

# %%
copied = three_steps()
for layer in copied.self_attention:  # (sentences, heads, steps, beams, d_head)
    layer.key = layer.key[:, :, :, parents[0]]
    layer.value = layer.value[:, :, :, parents[0]]
with torch.no_grad():
    by_mask = model.decode_step(ids(entered[3]), cache)
    by_copying = model.decode_step(ids(entered[3]), copied)
assert_close(by_mask, by_copying, atol=1e-4, rtol=1e-5)
print("the same logits, without a copy")

# %% tags=["remove-cell"]
after = torch.cat([of_beam_1] * 3 + [own], dim=1)
assert torch.equal(cache.prefix_mask[0].flatten(1).cpu(), after)
before = torch.cat([own] * 4, dim=1)
assert torch.equal(copied.prefix_mask[0].flatten(1).cpu(), before)
assert all(len(three) == 3 for three in entered)
for beam, newest in enumerate(entered[3]):
    whole = [BOS, entered[1][0], entered[2][0], newest]
    expected = without_cache(source, whole)[-1]
    assert_close(by_mask[0, beam], expected, atol=1e-4, rtol=1e-5)

# %% [markdown]
# Two functions of the package use the mask:

# %% tags=["hide-cell"]
SourceCode(DecoderCache.reorder, Transformer.decode_step)

# %% [markdown]
# <details><summary>How they work, what this saves, and what it costs</summary>
#
# For the steps so far, `reorder` replaces each beam's rows of the mask with those of its parent. For later steps the mask stays as `start_cache` made it: there, each beam will have its own new entry. In `decode_step`, `flatten(3)` puts the entries of all steps and beams side by side as keys. The beams are the queries, so one call of attention serves all beams of a sentence.
#
# Per entry, the mask has one boolean for each beam, whereas a copy would move $2 \cdot n_\text{layers} \cdot d_\text{model}$ numbers. But with $k$ beams, a query gets scores for the entries of all of them, and of every $k$ scores the mask keeps only one. The memory for self-attention is the same either way: $k$ entries per step. Keys and values are copied only when the search of a sentence has ended: `select` keeps those of the other sentences, so the batch shrinks.
#
# </details>

# %% [markdown]
# ## 8-bit integers
#
# *Optional: no later chapter builds on this section.*
#
# Many CPUs multiply 8-bit integers faster than floats. **Quantization** makes use of this by rounding weights to such integers. For each row of a weight matrix, the **scale** is its largest absolute value divided by 127. Dividing the row by its scale and rounding gives integers from −127 to 127. In *dynamic* quantization, as here, the rows of the input are rounded in the same way while the model runs. The integers are multiplied exactly, and the result is multiplied by both scales. It differs from that in float32 only because of the rounding:

# %%
x, weight = torch.randn(2, 64), torch.randn(4, 64)
x_integers, x_scales = quantize_rows(x)  # (2, 64) and (2, 1)
integers, scales = quantize_rows(weight)  # (4, 64) and (4, 1)
product = (x_integers.int() @ integers.int().T) * x_scales * scales.T
print("float32", (x @ weight.T)[0])
print("int8   ", product[0])

# %% tags=["remove-cell"]
assert_close(product, x @ weight.T, atol=0.5, rtol=0)
assert int(integers.abs().max()) == 127
in_int8 = transformer.load("multi30k", device="cpu", precision="int8")
assert in_int8.translate(caption) == tokenizer.decode(best.tokens)
file = Path("../book/results/int8.json")
if file.exists():  # not in Colab
    everyday = json.loads(file.read_text("utf-8"))["rows"][0]
    assert (everyday["model"], everyday["sentences"]) == ("everyday", 2023)
    seconds = [round(everyday[kind]["seconds"]) for kind in ("fp32", "int8")]
    assert seconds == [23, 15]

# %% [markdown]
# In the package, `precision="int8"` does this in all linear layers. Only the largest integer of a weight is 63 instead of 127, so that CPUs without instructions for such products can compute them exactly in `float32`. On the test sets of our models ([Speed](../book/speed.md)), most translations stay the same, and BLEU hardly changes. On a CPU with instructions for such products (AVX512-VNNI), `everyday`, the course's model for everyday sentences, translated its 2,023 test sentences in 15 seconds instead of 23.

# %% [markdown]
# ## What goes wrong in practice
#
# **All beams are the same.** At the first step there is one prefix, `<bos>`, not $k$ equal ones. If you start with $k$ copies of it, all beams follow the path of greedy search. A batched implementation that needs $k$ rows sets the scores of all but the first to $-\infty$.
#
# **The search stops too early.** The first hypothesis that ends needn't be the best. Stop only when even the best remaining prefix can't catch up.
#
# <details><summary>How do you know that no prefix can catch up?</summary>
#
# A log-probability can only fall, and dividing it by a larger number brings it closer to 0. So no prefix can end with a better score than its present log-probability divided by $((5 + L)/6)^\alpha$, where $L$ is the greatest length allowed. Compare that with the best finished score.
#
# </details>
#
# **Dropout is still on.** Without `model.eval()`, the same sentence gets different translations. And without `torch.no_grad()`, PyTorch keeps the activations of every step for a backward pass that never comes.
#
# **The padding of the sources isn't masked.** If you translate a batch without the memory mask, cross-attention attends to padding, and a translation depends on the rest of its batch.
#
# **The cache isn't reordered.** If you forget `keys[parents]`, there is no error message, and the text still looks like German. In the package, `cache.reorder(parents)` does the reordering. Here two beams hold different tokens and then trade places:


# %%
@torch.no_grad()
def trade_places(reorder):
    memory, memory_mask = model.encode(source)
    cache = model.start_cache(memory, memory_mask, max_length=7, beams=2)
    for token in (BOS, *best.tokens[:4]):  # both: Ein alter Mann füttert
        model.decode_step(ids([token, token]), cache)  # (1 sentence, 2 beams)
    # beam 1: … füttert die, beam 2: … füttert das
    model.decode_step(ids([best.tokens[4], greedy_tokens[4]]), cache)
    if reorder:  # beam 1 continues beam 2, and beam 2 continues beam 1
        cache.reorder(torch.tensor([[1, 0]], device=source.device))
    tauben = best.tokens[5]
    logits = model.decode_step(ids([tauben, tauben]), cache)  # both: … Tauben
    return logits[0, 0]  # beam 1, which should now read: … füttert das Tauben


# %%
prefix = [BOS, *greedy_tokens[:5], best.tokens[5]]  # … füttert das Tauben
expected = without_cache(source, prefix)[-1]
assert_close(trade_places(reorder=True), expected, atol=1e-4, rtol=1e-5)
error = (trade_places(reorder=False) - expected).abs().max()
print(f"without reordering: off by up to {error:.1f}")

# %% tags=["remove-cell"]
assert error > 0.05
with torch.no_grad():
    padded = torch.cat([source, ids([PAD] * 5)], dim=1)
    memory, memory_mask = model.encode(padded)
    states = model.decode(ids(prefix), memory, memory_mask)
    assert_close(model.logits(states[0, -1]), expected, atol=1e-4, rtol=1e-5)
    unmasked = model.decode(ids(prefix), memory, torch.ones_like(memory_mask))
    assert (model.logits(unmasked[0, -1]) - expected).abs().max() > 0.05
    model.train()
    assert not torch.equal(*(model(source, ids(prefix)) for _ in range(2)))
    model.eval()

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. Without a length penalty, a beam of 4 finds the same translation as greedy search. What follows?**
#
# <details><summary>A. It is the most probable translation of all</summary>
#
# No. It is the best of those that the beam came across. A fifth prefix might have led to a better one.
#
# </details>
# <details><summary>B. No translation that the beam has finished is more probable</summary>
#
# **Right.** That is all. A translation that the beam has dropped on the way may be more probable.
#
# </details>
# <details><summary>C. All four beams hold the same prefix</summary>
#
# No. They always differ in at least one token. Only the best of them equals the greedy translation.
#
# </details>
# <details><summary>D. The model is certain of every token</summary>
#
# No. The probabilities may well be low, as long as no alternative makes up for a less probable token later.
#
# </details>
#
# **2. What happens to the translations when α grows from 0.6 to 2?**
#
# <details><summary>A. They get longer</summary>
#
# **Right.** The log-probability of a longer translation is divided by more, which brings it closer to zero.
#
# </details>
# <details><summary>B. They get shorter</summary>
#
# No. That is what happens when α falls towards 0. Try it: the chart of eight translations above goes up to α = 2.
#
# </details>
# <details><summary>C. Nothing, because all candidates of a step have the same length</summary>
#
# No. It is true that α doesn't change the order within a step. But finished hypotheses of different lengths are compared with each other, and there it matters.
#
# </details>
# <details><summary>D. They get more probable</summary>
#
# No. The larger α, the less the log-probability alone decides, so of the same hypotheses, the chosen one can only be less probable, or the same one.
#
# </details>
#
# **3. The model is certain: the next token has probability 0.99. How many tokens does top-p sampling with $p = 0.9$ keep, and top-k with $k = 40$?**
#
# <details><summary>A. 1 and 40</summary>
#
# **Right.** The first token alone reaches 0.9. Top-k keeps 40 in any case, but without a change of temperature the other 39 have less than 0.01 together.
#
# </details>
# <details><summary>B. 40 and 40</summary>
#
# No. Top-p stops as soon as the probabilities add up to 0.9, and here one token is enough.
#
# </details>
# <details><summary>C. 1 and 1</summary>
#
# No. Top-k doesn't look at probabilities. It always keeps k tokens.
#
# </details>
# <details><summary>D. 0 and 40</summary>
#
# No. Top-p always keeps the most probable token, even if it exceeds p.
#
# </details>
#
# **4. You double the beam size. Which part of the KV cache doubles?**
#
# <details><summary>Answer</summary>
#
# The keys and values of self-attention, because each beam adds its own at each step. Those of cross-attention belong to the source, which all beams of a sentence share, so they stay the same, unless an implementation wastes memory by copying them for each beam.
#
# </details>
#
# **5. Why is training usually done without beam search?**
#
# <details><summary>Answer</summary>
#
# Training needs no search: with teacher forcing the correct prefix is given, so the loss of all positions can be computed at once. A search would have to go step by step. It also keeps only the best candidates, and such a choice has no gradient. The price is exposure bias: in training, the decoder never sees a prefix with its own mistakes.
#
# </details>
#
# ## Exercises
#
# Seven blanks: greedy search, the length penalty, one step of the beam, finished and continuing candidates, the ranking, the whole search, and greedy search for a batch, with bugs to find. Each has a check that tells you what is wrong, and a hint.
#
# - In Colab, where the last cell grades your answers:
#   [12_decoding](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/12_decoding.ipynb).
#   On GitHub: [12_decoding.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/12_decoding.ipynb).
# - On your machine, open `exercises/12_decoding.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade decoding
# ```
#
# **Two larger projects.** In the capstone, you build a whole translator from your own parts: [18_capstone in Colab](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/18_capstone.ipynb), or [on GitHub](https://github.com/transformer-course/transformer-course/blob/main/exercises/18_capstone.ipynb). In the project after it, you write the model as PyTorch modules and train it, and the check grades its translations: [19_train_your_own in Colab](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/19_train_your_own.ipynb), or [on GitHub](https://github.com/transformer-course/transformer-course/blob/main/exercises/19_train_your_own.ipynb). On your machine, grade them with:
#
# ```bash
# python -m exercises grade capstone
# python -m exercises grade train_your_own
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Four experiments to try</summary>
#
# 1. Change the toy's probabilities so that even a beam of 2 misses the best sentence. How much worse can it get?
# 2. Add the length penalty to `simple_beam_search`, and check it against `beam_search(length_penalty=0.6)`.
# 3. Sample ten translations of a caption, and take the one with the highest probability. How many samples do you need to do as well as a beam of 4?
# 4. Set α to 3 and translate: `transformer translate multi30k "A chef is preparing food in a kitchen." --beam-size 8 --n-best 8 --length-penalty 3`. What do the longest translations look like?
#
# </details>
#
# ## Going further
#
# - **In the paper:** §6.1. The length penalty comes from §7 of [Wu et al. (2016)](https://arxiv.org/abs/1609.08144).
# - **Wider isn't better:** the last of the six challenges of [Koehn and Knowles (2017)](https://aclanthology.org/W17-3204/).
# - **Sampling:** [Holtzman et al. (2020)](https://arxiv.org/abs/1904.09751) introduce top-p. [Fan et al. (2018)](https://aclanthology.org/P18-1082/) use top-k.
# - **Minimum Bayes risk (MBR) decoding** doesn't look for the most probable translation: of many samples it takes the one most similar to the others on average ([Eikema and Aziz, 2020](https://aclanthology.org/2020.coling-main.398/)).
# - **Faster:** in [speculative decoding (Leviathan et al., 2023)](https://arxiv.org/abs/2211.17192), a small model proposes several tokens and the large one checks them all at once, in such a way that the output has exactly the large model's distribution.
# - **Next:** [Evaluation](13_evaluation.ipynb): what BLEU measures, and when a difference means something.
