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
# # Label smoothing and calibration
#
# The diagrams below compare two small translators. When the first gives its next token a probability of about 85%, it is right only 52% of the time. Both were trained on a thousand sentence pairs, and on new sentences both predict the next token correctly about equally often. A model's **confidence** is the probability of its top prediction. Each point in these **reliability diagrams** is a group of predictions with similar confidence; its height is their accuracy, the share that is correct. If you could trust the confidence, all points would lie on the diagonal. The model in the diagram *hard targets* was trained to give all of the probability to the correct token. It is **overconfident**; the orange lines show by how much. The other model differs in only one thing: its loss uses **label smoothing**.

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
    print(f"With all figures: {book}/chapters/10_label_smoothing.html")

# %% tags=["hide-input"]
import torch

from transformer.plots import style
from transformer.plots.curves import curves
from transformer.plots.model_map import model_map
from transformer.plots.reliability import ConfidenceBins, reliability_diagram
from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# The fraction of all predictions in each bin, their mean confidence and their accuracy.
# The section "Calibration" trains these models again.
measured = {
    "hard targets": (
        [0.106, 0.19, 0.122, 0.085, 0.072, 0.058, 0.053, 0.043, 0.057, 0.216],
        [0.072, 0.146, 0.247, 0.346, 0.448, 0.549, 0.653, 0.75, 0.853, 0.979],
        [0.029, 0.078, 0.114, 0.22, 0.278, 0.295, 0.397, 0.418, 0.517, 0.862],
    ),
    "label smoothing": (
        [0.185, 0.198, 0.122, 0.084, 0.063, 0.053, 0.046, 0.047, 0.079, 0.124],
        [0.067, 0.145, 0.243, 0.348, 0.447, 0.551, 0.651, 0.75, 0.86, 0.927],
        [0.05, 0.118, 0.224, 0.267, 0.394, 0.387, 0.455, 0.58, 0.732, 0.928],
    ),
}


def first_diagram(name):
    bins = ConfidenceBins(*map(torch.tensor, measured[name]))
    return reliability_diagram(bins, name)


Row(
    Picture(
        first_diagram("hard targets"),
        alt=(
            "Reliability diagram of the model with hard targets: in every group the "
            "accuracy is lower than the confidence, mostly much lower. The largest "
            "group has a confidence of 0.9 to 1."
        ),
    ),
    Picture(
        first_diagram("label smoothing"),
        alt=(
            "Reliability diagram of the model with label smoothing: the points at both "
            "ends lie near the diagonal and those in the middle up to 0.2 below it, "
            "closer than with hard targets. Fewer predictions have a confidence above 0.9."
        ),
    ),
    caption=(
        "Reliability diagrams of two models. With hard targets, accuracy (blue dots) "
        "mostly lies far below confidence (the diagonal); with label smoothing, the gap "
        "is smaller. The bars below show what share of the predictions falls in each group."
    ),
)

# %% [markdown]
# By the end you will be able to explain label smoothing, compute the lowest loss that it allows, and measure how far to trust a model's confidence.
#
# **About 40 minutes.** The chapter builds on the softmax of [Attention](02_attention.ipynb) and on [Data and batching](09_data_and_batching.ipynb).

# %% tags=["hide-input"]
Picture(
    model_map("probabilities"),
    alt=(
        "The map of the Transformer, with encoder and decoder side by side. "
        "Highlighted is the output at the top of the decoder, above linear and "
        "softmax: the probabilities of the next token."
    ),
    caption=(
        "This chapter is about the highlighted output of the softmax, a probability "
        "for every token of the vocabulary. In training, it goes into the loss, "
        "together with the correct token."
    ),
)

# %% tags=["hide-input", "imports"]
import math
from dataclasses import replace
from itertools import islice

import torch
import torch.nn.functional as F
from torch.testing import assert_close

import transformer
from transformer.data import pocket
from transformer.data.batching import Batches, Sequences, collate
from transformer.data.tokenizer import PAD
from transformer.model import Transformer
from transformer.plots.reliability import confidence_bins
from transformer.training.objective import batch_loss

# %% [markdown]
# ## Label smoothing
#
# The decoder has generated *die Ente öffnet die …* ("the duck opens the …"), and the reference continues with *Tür* (door). With a **hard target**, all of the probability should go to *Tür*, and the loss is the **cross-entropy**: minus the logarithm of the probability that the model gives to the correct token. If there are only five tokens and *Tür* gets a probability of 0.6, the loss is $-\ln 0.6 = 0.51$.

# %%
vocabulary = ["<pad>", "Tür", "Pforte", "Ente", "<eos>"]
p = torch.tensor([0.05, 0.60, 0.20, 0.10, 0.05])  # (vocab_size,)
correct = 1
hard_loss = -p[correct].log()
hard_loss

# %% [markdown]
# This loss is lowest if *Tür* has all of the probability. But another translator might have written *Pforte* (gate), and nobody would have called it a mistake. A corpus of real text contains such a sentence with only one of its translations, and "not in the corpus" doesn't mean "impossible". This is a reason not to be certain (though smoothing can't teach the model *Pforte*, as you'll see).
#
# So the paper trains the model to be a little less than certain, and lists this under **regularisation** (§5.4): like dropout, smoothing makes it harder for the model to fit the training data perfectly. The paper reports that this improves accuracy and BLEU, but doesn't explain why.
#
# The new loss is a weighted mean: 0.9 times the usual cross-entropy, plus $\varepsilon = 0.1$ times the mean loss over all tokens of the vocabulary, as if each of them were the correct one:
#
# $$
# \begin{aligned}
# L = {} & (1 - \varepsilon) \underbrace{(-\ln p_\text{correct})}_{\text{cross-entropy}} \\
# & {} + \varepsilon \underbrace{\frac{1}{V} \sum_j (-\ln p_j)}_{\text{mean over all tokens}}
# \end{aligned}
# $$
#
# Here $V$ is the size of the vocabulary. The second term grows whenever *any* probability comes close to zero, so it keeps the model from ruling anything out.

# %%
epsilon = 0.1
uniform_loss = -p.log().mean()
loss = (1 - epsilon) * hard_loss + epsilon * uniform_loss
print(f"0.9 · {hard_loss:.3f} + 0.1 · {uniform_loss:.3f} = {loss:.3f}")
target = torch.tensor(correct)
pytorch = F.cross_entropy(p.log(), target, label_smoothing=epsilon)
print(f"PyTorch's label_smoothing: {pytorch:.3f}")

# %% tags=["remove-cell"]
assert_close(pytorch, loss)

# %% [markdown]
# There is a second way to write this loss. The cross-entropy of a **target distribution** $q$ is $-\sum_j q_j \ln p_j$. The usual target is *hard*: 1 for the correct token, 0 for the others. Label smoothing mixes it with a uniform distribution:
#
# $$ q_j = (1 - \varepsilon)\,[\,j\ \text{is correct}\,] + \frac{\varepsilon}{V} $$
#
# The bracket is 1 if the statement in it is true, and 0 otherwise. So *Tür* gets 0.92 and each other token 0.02:


# %%
def smoothed_target(vocab_size, correct, epsilon):
    q = torch.full((vocab_size,), epsilon / vocab_size)
    q[correct] += 1 - epsilon
    return q


q = smoothed_target(5, correct, epsilon)
assert_close(-(q * p.log()).sum(), loss)
q

# %% [markdown]
# The target carries no information about meaning: *Pforte* gets no more than *Ente* (duck) or `<eos>`, which would end the sentence in the middle. So smoothing can't teach the model other translations. Its only message is: **don't be so sure.** It limits how far the correct logit gets ahead of the others, as the next section shows.

# %% [markdown]
# ## What the logits learn
#
# A model outputs logits $z$, and the softmax turns them into probabilities. The derivative of the loss with respect to a logit is simple. Because $\ln p_j = z_j - \ln \sum_k e^{z_k}$ and the $q_j$ sum to one,
#
# $$
# \begin{aligned}
# L &= \ln \sum_k e^{z_k} - \sum_j q_j z_j \\
# \frac{\partial L}{\partial z_j} &= \frac{e^{z_j}}{\sum_k e^{z_k}} - q_j = p_j - q_j
# \end{aligned}
# $$
#
# So it is **the predicted probability minus the target**. Here are the gradients for a hard and a smoothed target. A step of gradient descent moves each logit against its gradient, so a positive gradient pushes it down.

# %%
gradients = {}
for epsilon in (0.0, 0.1):
    z = p.log().requires_grad_()  # logits whose softmax is p
    F.cross_entropy(z, target, label_smoothing=epsilon).backward()
    assert_close(z.grad, p - smoothed_target(5, correct, epsilon))
    gradients[epsilon] = z.grad.tolist()
print("           hard  smoothed")
for token, hard, smooth in zip(vocabulary, *gradients.values(), strict=True):
    print(f"{token:9} {hard:+.2f}     {smooth:+.2f}")

# %% [markdown]
# Both targets push the logit of *Tür* up and the others down. But the hard target pushes *every* other token down in *every* step, however low it is already. The gradients never become zero, because no finite logits give $p = (0, 1, 0, 0, 0)$. With the smoothed target, the logit of a wrong token is pushed down only while its probability is above 0.02; below that, it is pushed *up*.
#
# **Be the model.** Now you choose the prediction; the other tokens share the rest evenly. The thick line is the loss, and the dashed one is the loss without smoothing.
#
# - Raise the probability of the correct token step by step, and watch the gradient $p - q$. Where does the sign change?
# - Set $\varepsilon$ to 0.2, and go on raising the probability. Beyond the minimum (the blue dot), *more* confidence in the correct token increases the loss. Without smoothing, that never happens.
# - Increase the vocabulary. The minimum hardly moves, but the lowest loss rises.
#
# <div class="widget" data-widget="smoothing">
#
# *This figure is interactive in the [online book](https://transformer-course.github.io/transformer-course/chapters/10_label_smoothing.html) (with JavaScript) and in the notebook (run the next cell). Its initial state:*
#
# The prediction of one token, with $\varepsilon = 0.1$, a vocabulary of 1,024 tokens, and a model that gives the correct token 60%. The loss is 1.244, and the lowest possible is 1.017.
#
# | | target $q$ | model $p$ | $p - q$ |
# |---|---|---|---|
# | correct token | 0.90010 | 0.60000 | -0.30010 |
# | each other | 0.00010 | 0.00039 | 0.00029 |
#
# </div>
#
# The sign changes at the target. What do these gradients do over many steps? We let gradient descent adjust five logits directly, and record how far the correct one gets ahead of the others:


# %%
def logit_gaps(epsilon, steps=4096):
    z, gaps = torch.zeros(5, requires_grad=True), []
    for _ in range(steps):
        loss = F.cross_entropy(z, target, label_smoothing=epsilon)
        loss.backward()
        with torch.no_grad():
            z -= z.grad
        z.grad = None
        gaps.append((z[correct] - z[0]).item())
    return gaps


gaps = {f"ε = {e}": logit_gaps(epsilon=e) for e in (0, 0.05, 0.1, 0.2)}

# %% tags=["hide-input"]
steps = [4**n for n in range(7)]
Picture(
    curves(
        steps,
        {name: [line[step - 1] for step in steps] for name, line in gaps.items()},
        "steps of gradient descent",
        "Gap between correct logit and others",
        log2_x=True,
    ),
    alt=(
        "Gap between the correct logit and the others against the number of steps, 1 to "
        "4096 on a logarithmic axis. With hard targets it rises in a straight line to "
        "almost 10. With a smoothing of 0.05, 0.1 and 0.2 it levels off, the lower the "
        "larger the smoothing."
    ),
    caption=(
        "How far the correct logit gets ahead of the others: without smoothing (ε = "
        "0) the gap keeps growing, with smoothing it levels off."
    ),
)

# %% [markdown]
# With the hard target (solid line), the gap grows forever. The horizontal axis is logarithmic, so the straight line is logarithmic growth: slow, but without end. A real model's logits come from its weights, so in the long run these would have to keep growing, just to make the model more certain of training tokens that it already predicts correctly. With smoothing, the gap converges: it stops growing where $p = q$. Because $p_i / p_j = e^{z_i - z_j}$, $e^\text{gap}$ is then the ratio of the correct token's target to another token's:
#
# $$
# \begin{aligned}
# \text{gap} &= \ln \frac{1 - \varepsilon + \varepsilon/V}{\varepsilon/V} \\
# &= \ln\Big(1 + V\,\frac{1 - \varepsilon}{\varepsilon}\Big)
# \end{aligned}
# $$


# %%
def best_gap(vocab_size, epsilon):
    return math.log(1 + vocab_size * (1 - epsilon) / epsilon)


for epsilon in (0.05, 0.1, 0.2):
    found = gaps[f"ε = {epsilon}"][-1]
    formula = best_gap(5, epsilon)
    print(f"ε = {epsilon:<4}  found {found:.2f}, formula {formula:.2f}")
print(f"with a vocabulary of 37,000 and ε = 0.1: {best_gap(37_000, 0.1):.1f}")

# %% tags=["remove-cell"]
hard_gaps = gaps["ε = 0"]
assert abs(hard_gaps[4095] - hard_gaps[1023] - math.log(4)) < 0.01
for epsilon in (0.05, 0.1, 0.2):
    assert abs(gaps[f"ε = {epsilon}"][-1] - best_gap(5, epsilon)) < 1e-3

# %% [markdown]
# ## A loss that never reaches zero
#
# With a hard target, the loss can come as close to zero as you like, if the model is right and certain everywhere. The smoothed loss can't, because it has two parts:
#
# $$
# \begin{aligned}
# -\sum_j q_j \ln p_j = {} & \underbrace{-\sum_j q_j \ln q_j}_{\text{entropy of the target}} \\
# & {} + \underbrace{\sum_j q_j \ln \frac{q_j}{p_j}}_{\text{divergence}}
# \end{aligned}
# $$
#
# The second part, the **Kullback–Leibler divergence** (KL), measures how much the prediction differs from the target. It is zero only if $p = q$. The first part, the **entropy** of $q$, measures how spread out the target is. It doesn't depend on the model at all, so it is the lowest possible loss:


# %%
def lowest_loss(vocab_size, epsilon):
    q = smoothed_target(vocab_size, 0, epsilon)
    return torch.special.entr(q).sum().item()  # entr(q) = -q ln q, entr(0) = 0


divergence = F.kl_div(p.log(), q, reduction="sum")
loss = -(q * p.log()).sum()  # p and q of the first section
print(f"entropy {lowest_loss(5, 0.1):.3f} + KL {divergence:.3f} = {loss:.3f}")
for epsilon in (0.0, 0.1, 0.2):
    lowest = lowest_loss(37_000, epsilon)
    print(f"ε = {epsilon}: lowest {lowest:.2f}, perplexity {math.exp(lowest):.2f}")

# %% tags=["remove-cell"]
smoothed = F.cross_entropy(p.log(), target, label_smoothing=0.1).item()
assert abs(lowest_loss(5, 0.1) + divergence.item() - smoothed) < 1e-6
assert abs(math.exp(lowest_loss(37_000, 0.1)) - 4) < 0.1
assert round(math.log(4.92 / 4.67), 2) == 0.05

# %% [markdown]
# **Perplexity** is $e^\text{loss}$: a model with perplexity 4 is as uncertain as a uniform choice among four tokens. With the paper's vocabulary and $\varepsilon$, even a model that predicts every smoothed target exactly has a *smoothed* loss of 1.38 and thus a perplexity of about 4. So before you compare losses or perplexities, find out whether they are smoothed. In training, many tutorials and the authors' own code report only the KL part of the loss; PyTorch and this package report all of it.
#
# The paper notes that smoothing hurts perplexity, because the model learns to be less certain (§5.4). Its Table 3, group (D), shows this for the base model:
#
# | | $\varepsilon = 0$ | $\varepsilon = 0.1$ | $\varepsilon = 0.2$ |
# |---|---|---|---|
# | perplexity | 4.67 | 4.92 | 5.47 |
# | BLEU | 25.3 | 25.8 | 25.7 |
#
# These perplexities rise although the authors' code [measures them with hard targets](https://github.com/tensorflow/tensor2tensor/blob/master/tensor2tensor/utils/metrics.py), so the entropy of the target plays no part in them. (With $\varepsilon = 0.2$, it alone would give 13.52.) It is the model itself that has become less certain: it learns to give the correct token about 0.9, even where it could be certain. Measured without smoothing, that costs about $-\ln 0.9 = 0.105$ for every such token. Over all tokens, $\varepsilon = 0.1$ costs only $\ln (4.92 / 4.67) \approx 0.05$, as many predictions aren't that certain anyway.
#
# ## In code
#
# The package computes the loss from the logits, as $\ln \sum_k e^{z_k} - \sum_j q_j z_j$. The last sum has two parts: $\varepsilon$ times the mean of all logits, because each token gets $\varepsilon / V$, and $1 - \varepsilon$ times the logit of the correct token:

# %%
from transformer.loss import label_smoothed_cross_entropy

# %% tags=["remove-input"]
SourceCode(label_smoothed_cross_entropy)

# %% [markdown]
# `expected_logit` is the formula's term $\sum_j q_j z_j$, the expected logit under $q$. `is_real` is false for padding, which adds nothing to the loss or to the gradient, and `_sum_dtype` is float32 even if the logits have 16 bits. The function returns a **sum** over tokens; the caller divides it by the number of real tokens. The result equals PyTorch's, here for nine tokens, three of them padding:

# %%
torch.manual_seed(0)
z, targets = torch.randn(9, 50), torch.randint(1, 50, (9,))
targets[6:] = PAD
ours = label_smoothed_cross_entropy(z, targets, 0.1, pad_id=PAD)
pytorch = F.cross_entropy(z, targets, label_smoothing=0.1, ignore_index=PAD)
assert_close(ours / 6, pytorch)  # 6 real tokens
pytorch

# %% [markdown]
# We have spread $\varepsilon$ over the whole vocabulary. Some implementations give no share to the correct token or to padding. With a real vocabulary, the difference is negligible.
#
# <details><summary>The three conventions in detail</summary>
#
# [Szegedy et al. (2016)](https://arxiv.org/abs/1512.00567), whom the paper cites, and PyTorch spread ε over the whole vocabulary.
#
# | divided among | correct token | other token | `<pad>` |
# |---|---|---|---|
# | all $V$ tokens | $1 - \varepsilon + \frac{\varepsilon}{V}$ | $\frac{\varepsilon}{V}$ | $\frac{\varepsilon}{V}$ |
# | all but the correct one ([the authors' code](https://github.com/tensorflow/tensor2tensor/blob/master/tensor2tensor/layers/common_layers.py)) | $1 - \varepsilon$ | $\frac{\varepsilon}{V-1}$ | $\frac{\varepsilon}{V-1}$ |
# | all but the correct one and padding (many tutorials) | $1 - \varepsilon$ | $\frac{\varepsilon}{V-2}$ | 0 |
#
# </details>
#
# ## Calibration
#
# A model is **calibrated** if its confidence can be trusted: of all predictions with a confidence of 0.8, eight in ten are correct, and likewise for every other value. That matters whenever someone relies on the probabilities themselves, for example to estimate how many errors a text contains. We measure calibration for single tokens, each predicted from the correct prefix, and look only at the most probable token. So the result doesn't tell you how far to trust the probability of a whole translation. Nor does it hold for prefixes that the model has generated itself: on these, translators are poorly calibrated, even if they were trained with label smoothing and are well calibrated on correct prefixes ([Wang et al., 2020](https://aclanthology.org/2020.acl-main.278/)).
#
# Sort the predictions by confidence into bins, and compare mean confidence and accuracy in each bin. We use ten bins of width 0.1; other bins would give other numbers. The **expected calibration error** (ECE) is the mean of the absolute differences, weighted by the number of predictions in each bin. Say that six of ten predictions have a confidence of 0.6, and four of them are correct. The other four have a confidence of 0.9, and two of them are correct:
#
# $$
# \begin{aligned}
# \text{ECE} &= \tfrac{6}{10} \cdot |0.6 - \tfrac{4}{6}| + \tfrac{4}{10} \cdot |0.9 - \tfrac{2}{4}| \\
# &= 0.04 + 0.16 = 0.20
# \end{aligned}
# $$


# %%
def calibration_error(confidence, correct):
    bins = confidence_bins(confidence, correct)
    difference = (bins.confidence - bins.accuracy).abs()
    return (bins.fraction * difference).sum()


confidence = torch.tensor([0.6] * 6 + [0.9] * 4)
is_correct = torch.tensor([1, 1, 1, 1, 0, 0, 1, 1, 0, 0]).bool()
calibration_error(confidence, is_correct)

# %% tags=["remove-cell"]
assert abs(calibration_error(confidence, is_correct) - 0.2) < 1e-6

# %% [markdown]
# Back to the two models of the first figure. We train both again, on a thousand sentence pairs of the pocket corpus, and test them on 300 others, so the numbers can differ a little from those in the figure. We use the tokenizer of a third model, `pocket-small`, which comes with the course and was trained on far more sentences:

# %%
pretrained = transformer.load("pocket-small", precision="fp32")
device = pretrained.device.torch_device  # a GPU, if this machine has one


def pack(pairs):
    sides = zip(*((pair.source, pair.target) for pair in pairs), strict=True)
    return [Sequences.pack(pretrained.tokenizer.encode_all(side)) for side in sides]


training_data = pack(pocket.pairs("train", 1000))
validation = collate(*pack(pocket.pairs("valid", 300)), range(300))
labels = validation.labels[validation.labels != PAD]  # (tokens,)

# %% [markdown]
# We need the logits of all real tokens, and what a model predicts with them:


# %%
@torch.no_grad()
def token_logits(model, batch):
    logits = model(batch.source.to(device), batch.decoder_input.to(device))
    return logits.cpu()[batch.labels != PAD]  # (tokens, vocab_size)


def predictions(logits, labels=labels):
    """The confidence of each prediction, and whether it is correct."""
    confidence, prediction = logits.softmax(dim=-1).max(dim=-1)
    return confidence, prediction == labels


# %% [markdown]
# Both models start with the same weights and see the same batches in the same order, for 250 steps without dropout. They differ only in the argument `smoothing`, which is $\varepsilon$. Every 50 steps, `history` records the mean confidence and the accuracy on the 300 new sentences:


# %%
def train(smoothing, steps=250):
    torch.manual_seed(0)
    config = replace(pretrained.model.config, d_model=64, d_ff=128)
    model, history = Transformer(config).to(device), []
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    batches = Batches(*training_data, max_tokens=600, seed=0)
    for step, batch in enumerate(islice(batches, steps), 1):
        loss = batch_loss(model, batch.to(device), smoothing) / batch.n_tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            found = predictions(token_logits(model, validation))
            history.append([values.float().mean().item() for values in found])
    return model.eval(), history


# %%
models, history = {}, {}
for name, smoothing in (("hard targets", 0.0), ("label smoothing", 0.1)):
    models[name], history[name] = train(smoothing)
models["pocket-small"] = pretrained.model

# %% [markdown]
# Here are the mean confidence, the accuracy, the calibration error and the unsmoothed loss of all three models on the new sentences:

# %%
logits = {name: token_logits(model, validation) for name, model in models.items()}
print("                 confidence accuracy   ECE  loss")
for name, z in logits.items():
    confidence, is_correct = predictions(z)
    error = calibration_error(confidence, is_correct)
    loss = F.cross_entropy(z, labels)  # without smoothing, for all of them
    print(f"{name:17}{confidence.mean():10.3f}", end="")
    print(f"{is_correct.float().mean():9.3f}{error:6.3f}{loss:6.2f}")

# %% [markdown]
# And how do the two small models do on 300 of the thousand pairs that they were trained on?

# %%
seen = collate(*training_data, range(300))
seen_labels = seen.labels[seen.labels != PAD]
for name in ("hard targets", "label smoothing"):
    z = token_logits(models[name], seen)
    confidence, is_correct = predictions(z, seen_labels)
    print(f"{name:17}{confidence.mean():10.3f}", end="")
    print(f"{is_correct.float().mean():9.3f}")

# %% tags=["remove-cell"]
errors = {name: calibration_error(*predictions(z)) for name, z in logits.items()}
plain = {name: F.cross_entropy(z, labels).item() for name, z in logits.items()}
assert errors["hard targets"] > 2 * errors["label smoothing"]
assert plain["label smoothing"] < plain["hard targets"]
for name, claimed in (("hard targets", 0.48), ("label smoothing", 0.41)):
    confidence, is_correct = predictions(logits[name])
    assert abs(confidence.mean() - claimed) < 0.05
    assert abs(is_correct.float().mean() - 1 / 3) < 0.05
hard, smoothed = (predictions(logits[name]) for name in measured)
assert abs(hard[1].float().mean() - smoothed[1].float().mean()) < 0.05
assert hard[0].mean() > hard[1].float().mean() + 0.1
assert (smoothed[0] > 0.9).sum() < 0.8 * (hard[0] > 0.9).sum()
for name, shown in measured.items():  # the first figure shows the same models
    bins = confidence_bins(*predictions(logits[name]))
    assert (bins.fraction - torch.tensor(shown[0])).abs().max() < 0.04
    large = bins.fraction > 0.05
    assert (bins.accuracy - torch.tensor(shown[2]))[large].abs().max() < 0.12
assert abs(measured["hard targets"][1][8] - 0.85) < 0.01
assert abs(measured["hard targets"][2][8] - 0.52) < 0.01
assert pretrained.model.config.dropout == 0
on_correct, on_wrong = [], []
for name in ("hard targets", "label smoothing"):
    z = token_logits(models[name], seen)
    confidence, memorised = predictions(z, seen_labels)
    assert (
        memorised.float().mean() > confidence.mean() + 0.1
        and memorised.float().mean() > 0.95
    )
    assert confidence.mean() < 0.9
    accuracies = [accuracy for _, accuracy in history[name]]
    assert accuracies == sorted(accuracies)
    assert history[name][0][0] < history[name][0][1]  # underconfident at step 50
    assert history[name][-1][0] > history[name][-1][1] + 0.03
    is_correct = predictions(logits[name])[1]
    losses = F.cross_entropy(logits[name], labels, reduction="none")
    on_correct.append(losses[is_correct].mean())
    on_wrong.append(losses[~is_correct].mean())
assert 0.08 < on_correct[1] - on_correct[0] < on_wrong[0] - on_wrong[1] < 0.8
for hard, smoothed in list(zip(*(history[name] for name in measured), strict=True))[
    1:
]:
    assert smoothed[0] < hard[0] - 0.015 and abs(smoothed[1] - hard[1]) < 0.03
steps_apart = [
    hard[0] - smoothed[0]
    for hard, smoothed in zip(*(history[name] for name in measured), strict=True)
]
assert steps_apart[-1] > 2 * steps_apart[1]

# %% [markdown]
# Both small models predict only about a third of the new tokens correctly. On average, the first is nearly 50% confident and the second about 40%, which is closer to the truth. Yet on the pairs that they were trained on, they predict nearly all tokens correctly and are *under*confident: even with hard targets, the mean confidence is below 0.9, the limit that smoothing sets. So the endless growth of the logit gap can't be the whole explanation. The chart shows how the overconfidence arises.

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(4.8, 3.2)
    for name, colour in (
        ("hard targets", style.WRONG),
        ("label smoothing", style.QUERY),
    ):
        confidence, accuracy = zip(*history[name], strict=True)
        steps = range(50, 251, 50)
        axes.plot(
            steps,
            confidence,
            "o-",
            color=colour,
            markersize=5,
            label=f"{name}: confidence",
        )
        axes.plot(
            steps,
            accuracy,
            "o:",
            color=colour,
            markersize=5,
            label=f"{name}: accuracy",
        )
    axes.set(xticks=steps, ylim=(0, 0.55))
    axes.set_xlabel("training step")
    axes.set_title("Mean over the tokens of new sentences", loc="left")
    axes.grid(True)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=2, fontsize=9
    )
Picture(
    figure,
    alt=(
        "Confidence and accuracy on new sentences over 250 training steps, for hard "
        "targets and for label smoothing. All four lines start near 0.2. The two "
        "accuracies stay together and rise to about 0.35. The confidence with hard "
        "targets rises fastest, to almost 0.5, that with smoothing to about 0.4."
    ),
    caption=(
        "How overconfidence arises: the accuracy (dotted) of both models is about the "
        "same, but the confidence (solid) with hard targets grows away from it."
    ),
)

# %% [markdown]
# The accuracy on new sentences rises until the last step, so by this measure, the models haven't been trained too long. But as they memorise their training pairs, they become more certain of new sentences, too, and with hard targets this certainty grows much faster than the accuracy. Smoothing slows it down, and the gradient $p - q$ shows one reason: once a correct token has a probability of 0.8, the hard target pushes its logit up with a gradient of 0.2, the smoothed one with only half of that. (We repeated this with three other seeds. The ECE was 0.11 to 0.15 with hard targets and 0.05 to 0.08 with smoothing, and the 52% of this chapter's first lines was between 52% and 66%. With so little data, none of these runs shows how large the effect is in a long training run on millions of sentences.)
#
# The second model's *unsmoothed* loss (last column of the first table of this section) is also lower, although it was trained with smoothing. Here is each model's loss on the tokens that it predicts correctly, and on the others:

# %%
for name in ("hard targets", "label smoothing"):
    _, is_correct = predictions(logits[name])
    losses = F.cross_entropy(logits[name], labels, reduction="none")
    right, wrong = losses[is_correct].mean(), losses[~is_correct].mean()
    print(f"{name:15}  right {right:.2f}  wrong {wrong:.2f}")

# %% [markdown]
# On the tokens that a model gets wrong, two thirds of all, the loss is lower with smoothing. That outweighs the higher loss on the tokens that it gets right. So smoothing doesn't always hurt perplexity: here, where the models generalise poorly, it helps.
#
# What about `pocket-small`? It knows the language of the pocket corpus almost perfectly, and it was trained with $\varepsilon = 0.05$. Compare its confidence with its accuracy:

# %%
from transformer.recipes import RECIPES

epsilon = RECIPES["pocket-small"].training.label_smoothing
confidence, is_correct = predictions(logits["pocket-small"])
vocab_size = pretrained.model.config.vocab_size
print(f"target of the correct token {1 - epsilon + epsilon / vocab_size:.3f}")
print(f"median confidence           {confidence.median():.3f}")
print(f"accuracy                    {is_correct.float().mean():.3f}")

# %% tags=["remove-cell"]
assert abs(confidence.median() - (1 - epsilon)) < 0.02
assert is_correct.float().mean() > confidence.mean() + 0.02
bins = confidence_bins(confidence, is_correct)
assert (bins.fraction[:-1] < 0.01).all() and bins.accuracy[-1] > bins.confidence[-1]

# %% tags=["hide-input"]
Picture(
    reliability_diagram(
        confidence_bins(*predictions(logits["pocket-small"])), "pocket-small"
    ),
    alt=(
        "Reliability diagram of pocket-small: nearly all predictions have a confidence "
        "of about 0.95, and practically all of these are correct, so their point lies "
        "above the diagonal. The points of all other bins are pale."
    ),
    caption=(
        "Reliability diagram of pocket-small: nearly all predictions fall into the "
        "last bin, where the accuracy is higher than the confidence. Bins with less "
        "than 1% of the predictions are pale."
    ),
)

# %% [markdown]
# This model is **underconfident**: it is correct more often than its probabilities suggest. **Label smoothing doesn't make a model calibrated.** It pulls the model's confidence towards $1 - \varepsilon$ where the model is sure, whether or not the model is overconfident. That helps the calibration of a model that would be overconfident, and harms that of one that wouldn't be.
#
# ### Temperature scaling
#
# There is a simpler remedy for over- and underconfidence, **temperature scaling** ([Guo et al., 2017](https://arxiv.org/abs/1706.04599)). It divides all logits by a number $T$, the **temperature**. A $T$ above 1 makes the model less confident, and a $T$ below 1 more confident. The order of the tokens doesn't change, so the most probable token stays the same, and so does every greedy translation. (Beam search may choose another one, because it compares sums of log-probabilities over several steps.)
#
# We choose the $T$ that minimises the loss on the first half of the validation tokens, and measure the calibration error on the other half. Because chance makes accuracy and confidence differ a little in every bin, even a perfectly calibrated model doesn't get exactly zero. The last column shows what such a model would get with as many predictions of the same confidences:


# %%
def best_temperature(z, labels):
    def loss(temperature):
        return F.cross_entropy(z / temperature, labels)

    return min((t / 20 for t in range(10, 61)), key=loss)  # 0.5 to 3


# %%
half, fitted = len(labels) // 2, {}
torch.manual_seed(0)
print("                   T   error  scaled  perfect")
for name, z in logits.items():
    temperature = best_temperature(z[:half], labels[:half])
    errors = []
    for t in (1, temperature):
        confidence, prediction = (z[half:] / t).softmax(dim=-1).max(dim=-1)
        is_correct = prediction == labels[half:]
        errors.append(calibration_error(confidence, is_correct))
    drawn = torch.rand(100, len(confidence)) < confidence  # correct by chance
    perfect = sum(calibration_error(confidence, d) for d in drawn) / 100
    before, after = errors
    print(f"{name:15} {temperature:.2f}{before:8.3f}{after:8.3f}{perfect:9.3f}")
    fitted[name] = temperature, *errors

# %% tags=["remove-cell"]
assert fitted["hard targets"][0] > 1.2 and fitted["pocket-small"][0] < 1
assert 0.8 < fitted["label smoothing"][0] < 1.2
for name in ("hard targets", "pocket-small"):
    assert fitted[name][2] < fitted[name][1] / 2
assert fitted["hard targets"][2] < 0.4 * fitted["hard targets"][1]
assert fitted["label smoothing"][2] < fitted["label smoothing"][1]
assert fitted["pocket-small"][2] < 0.15 * fitted["pocket-small"][1]
assert fitted["hard targets"][2] < fitted["label smoothing"][1]

# %% [markdown]
# Here are the predictions of the model with hard targets on the second half, before and after scaling:


# %% tags=["hide-input"]
def scaled_bins(name, temperature):
    confidence, prediction = (logits[name][half:] / temperature).softmax(-1).max(-1)
    return confidence_bins(confidence, prediction == labels[half:])


temperature = fitted["hard targets"][0]
bins_before, bins_after = (scaled_bins("hard targets", t) for t in (1, temperature))
Row(
    Picture(
        reliability_diagram(bins_before, "hard targets, T = 1"),
        alt=(
            "Reliability diagram before scaling: the accuracy of nearly every bin is below "
            "its confidence, mostly far below. The last bin is one of the largest."
        ),
    ),
    Picture(
        reliability_diagram(bins_after, f"hard targets, T = {temperature:.2f}"),
        alt=(
            "Reliability diagram after scaling: the points are near the diagonal, and "
            "the last bins have become smaller."
        ),
    ),
    caption=(
        "Reliability diagrams of the model with hard targets. Dividing its logits by "
        "one number brings accuracy (blue dots) near confidence (the diagonal)."
    ),
)

# %% tags=["remove-cell"]
gaps = [
    (b.confidence - b.accuracy)[b.fraction > 0.01]
    for b in (bins_before, bins_after)
]
assert (gaps[0] > 0).double().mean() > 0.8
assert gaps[1].abs().mean() < gaps[0].mean() / 2
assert bins_after.fraction[-1] < bins_before.fraction[-1] > 0.15

# %% [markdown]
# One number, chosen after training, removes about two thirds of the calibration error of the model with hard targets, and nearly all of that of `pocket-small`, which keeps only as much as chance alone would cause. It helps the smoothed model, too, but how much depends on the run, and even on how a CPU rounds. After scaling, even the model with hard targets has a smaller error than the smoothed one had before. So if calibration is all that you need, a temperature is the simpler remedy and, here, the better one.
#
# But calibration isn't everything. To decide which predictions to check, you need another property: correct predictions should have a *higher* confidence than wrong ones, whatever the values are. Draw a correct and a wrong prediction at random. How often does the correct one have the higher confidence? (This is known as **AUROC**; 0.5 would be guessing.) And how many of the most confident tenth are correct?

# %%
print("                  AUROC  top tenth correct")
ranking = {}
for name, z in logits.items():
    confidence, is_correct = predictions(z)
    right, wrong = confidence[is_correct], confidence[~is_correct]
    auroc = (right[:, None] > wrong).float().mean()
    top = confidence.topk(len(confidence) // 10).indices
    ranking[name] = auroc, is_correct[top].float().mean()
    print(f"{name:17} {auroc:.3f} {ranking[name][1]:18.3f}")

# %% tags=["remove-cell"]
ranks = [ranking[name] for name in measured]
assert all(hard > smoothed for hard, smoothed in zip(*ranks, strict=True))

# %% [markdown]
# Here the smoothed model is *worse*: it is better calibrated, but it separates its correct predictions from its wrong ones less well. The AUROC is hardly lower in this run (with three other seeds, by about 0.01), but in the most confident tenth, several times as many are wrong. [Xia et al. (2025)](https://arxiv.org/abs/2403.14715) find the same on much larger tasks, and explain it by the gradient $p - q$: smoothing holds back the highest logit most where the prediction is probably correct.

# %% [markdown]
# ## Does label smoothing improve translations?
#
# The paper uses label smoothing not for calibration, but because it improved the translations (25.3 BLEU without it, 25.8 with it in Table 3). Does it improve them on our corpus, too? In [our experiments](../book/experiments.md), models for the pocket corpus are trained with four values of $\varepsilon$, each with three seeds. Their BLEU on the test set (mean and standard deviation over the seeds):
#
# | $\varepsilon = 0$ | $\varepsilon = 0.05$ | $\varepsilon = 0.1$ | $\varepsilon = 0.2$ |
# |---|---|---|---|
# | 88.0 ± 0.4 | 88.9 ± 0.6 | 88.8 ± 0.9 | 88.8 ± 0.3 |
#
# The means with smoothing are nearly one point higher, but that isn't much more than the difference between seeds. Smoothing also has a side effect: it gives a little probability to `<eos>` at *every* position, and so to translations that are too short. [Decoding](12_decoding.ipynb) shows the consequences. Large language models are usually trained without smoothing. Plausible reasons are that they see most of their text only once or a few times, so memorising is less of a problem, and that they generate by sampling, where probability on improbable tokens does harm.

# %% tags=["remove-cell"]
import json
from pathlib import Path
from statistics import fmean, stdev

file = Path("../book/results/smoothing.json")
if file.exists():  # not in Colab
    bleu = {}
    for row in json.loads(file.read_text("utf-8"))["rows"]:
        bleu.setdefault(row["label"], []).append(
            row["test_sets"][-1]["scores"][0]["value"]
        )
    shown = {
        "0": "88.0 ± 0.4",
        "0.05": "88.9 ± 0.6",
        "0.1": "88.8 ± 0.9",
        "0.2": "88.8 ± 0.3",
    }
    assert shown == {
        label: f"{fmean(scores):.1f} ± {stdev(scores):.1f}"
        for label, scores in bleu.items()
    }
    without = bleu.pop("0")
    for scores in bleu.values():
        difference = fmean(scores) - fmean(without)
        assert 0 < difference < 3 * max(stdev(scores), stdev(without))

# %% [markdown]
# ## What goes wrong in practice
#
# **The validation loss is smoothed.** You train four models with four values of $\varepsilon$ and compare validation losses that each include their own smoothing. The model with the smallest $\varepsilon$ looks best, even if it isn't. One and the same model, measured with four values of $\varepsilon$, gets four losses:

# %%
for epsilon in (0.0, 0.05, 0.1, 0.2):
    loss = F.cross_entropy(
        logits["label smoothing"], labels, label_smoothing=epsilon
    )
    print(f"ε = {epsilon:<4}  loss {loss:.2f}")

# %% [markdown]
# The package validates without smoothing, whatever a model was trained with.
#
# **The target is smoothed twice**, once in the data loader and once in the loss. The target is still a distribution, but it is the one for $\varepsilon = 0.19$, not 0.1, because the hard target is left with a weight of only $(1 - 0.1)^2 = 0.81$:

# %%
q = smoothed_target(5, correct, 0.1)
twice = F.cross_entropy(p.log(), q, label_smoothing=0.1)
assert_close(twice, F.cross_entropy(p.log(), target, label_smoothing=0.19))
print(f"once {-(q * p.log()).sum():.3f}, twice {twice:.3f}")

# %% [markdown]
# **The logarithm of a softmax.** $e^{-120}$ is too small for a float32, so the softmax returns 0, and the logarithm of 0 is $-\infty$. With a hard target, where only the correct token's logarithm is looked up, this matters only if the correct token's probability underflows. With smoothing, *any* token that underflows makes the loss infinite, even if the model is right. Compute the loss from the logits instead, as `log_softmax` and `cross_entropy` do:

# %%
z = torch.tensor([0.0, 120, 0, 0, 0])  # very confident, and correct
by_log = -(q * z.softmax(dim=0).log()).sum()
print(f"log of softmax {by_log:.1f}, from the logits", end=" ")
print(f"{F.cross_entropy(z, target, label_smoothing=0.1):.1f}")
assert by_log.isinf()

# %% [markdown]
# **The mean includes padding.** With `reduction="none"`, `cross_entropy` returns 0 at ignored positions, and `.mean()` counts these zeros, so the loss and its gradient shrink as padding is added. Divide by the number of real tokens instead:

# %%
z, targets = logits["label smoothing"][:6], labels[:6]
for n_padding in (0, 6, 18):
    padded_z = F.pad(z, (0, 0, 0, n_padding))
    padded_targets = F.pad(targets, (0, n_padding), value=PAD)
    losses = F.cross_entropy(
        padded_z, padded_targets, ignore_index=PAD, reduction="none"
    )
    mean, per_token = losses.mean(), losses.sum() / (padded_targets != PAD).sum()
    print(f"{n_padding:2} padding: mean {mean:.2f}, per token {per_token:.2f}")

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. A vocabulary of ten tokens, $\varepsilon = 0.2$, divided among all of them. What is the target of the correct token?**
#
# <details><summary>A. 0.80</summary>
#
# No. That would be right if ε were divided among the others only. Here the correct token is one of the ten and gets its tenth back.
#
# </details>
# <details><summary>B. 0.82</summary>
#
# **Right.** 1 − 0.2 + 0.2/10: it gives away 0.2 and, as one of the ten tokens, gets 0.02 back.
#
# </details>
# <details><summary>C. 0.98</summary>
#
# No. 0.02 is the target of each *single* other token; the nine of them together have 0.18.
#
# </details>
# <details><summary>D. 1.00</summary>
#
# No. That is the hard target, without any smoothing.
#
# </details>
#
# **2. You train on real text with ε = 0.1, a vocabulary of 37,000 and no dropout. The training loss has been 1.45 for days. How well does the model know its training data?**
#
# <details><summary>A. Badly: it is as uncertain as a choice among e<sup>1.45</sup>, about four tokens</summary>
#
# No. That interprets a smoothed loss as if its lowest value were zero.
#
# </details>
# <details><summary>B. You cannot know without the validation loss</summary>
#
# No. The validation loss is about other data. Compare the training loss with its lowest possible value.
#
# </details>
# <details><summary>C. It has almost memorised it</summary>
#
# **Right.** The lowest possible loss is 1.38, so the Kullback–Leibler divergence is only 0.07. On real text, where a sentence has many translations, a model can only get this close if it has seen the answers.
#
# </details>
# <details><summary>D. Not at all: training is stuck</summary>
#
# No. The loss of a model that knows nothing would be near ln 37,000 ≈ 10.5.
#
# </details>
#
# **3. The correct token has $p = 0.97$, and its target is 0.92. What does the next gradient step do?**
#
# <details><summary>A. Nothing, because the prediction is good enough</summary>
#
# No. The gradient is p − q, which is zero only if they are equal.
#
# </details>
# <details><summary>B. It raises the logit of the correct token a little</summary>
#
# No. A hard target would do that: its gradient is 0.97 − 1.
#
# </details>
# <details><summary>C. It lowers the logit of the correct token, and raises those of tokens below their target</summary>
#
# **Right.** p − q is +0.05 for the correct token. Together, the others are 0.05 below their targets.
#
# </details>
# <details><summary>D. It lowers all logits</summary>
#
# No. The gradients of all logits sum to zero, because p and q both sum to one.
#
# </details>
#
# **4. A model has a confidence of 0.90 and an accuracy of 0.99. It was trained with ε = 0.1. What is the cheapest remedy?**
#
# <details><summary>A. Train it again with ε = 0</summary>
#
# No. It may work, but it is the most expensive remedy, and the new model could be overconfident.
#
# </details>
# <details><summary>B. Divide the logits by a temperature below 1, chosen on data that it wasn't trained on</summary>
#
# **Right.** One number, no training, and no greedy prediction changes.
#
# </details>
# <details><summary>C. Divide the logits by a temperature above 1</summary>
#
# No. That makes it even less confident: the probabilities move closer together.
#
# </details>
# <details><summary>D. More dropout</summary>
#
# No. Dropout works against memorising, and so against overconfidence, but this model is underconfident.
#
# </details>
#
# **5. Why not choose a larger ε?**
#
# <details><summary>Answer</summary>
#
# As ε grows, each token that the model knows costs more: about −ln(1 − ε), measured without smoothing. The gaps between logits become smaller, and ending a translation early becomes more probable. How much smoothing is best can only be found by experiment.
#
# </details>
#
# ## Exercises
#
# Fill in six blanks: the cross-entropy of a token, the smoothed target, the smoothed loss, its gradient, the loss of a batch with padding, and code with bugs to find. Each has a hint, and a check that tells you which mistake you made.
#
# - In Colab, where the last cell grades your answers:
#   [10_label_smoothing](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/10_label_smoothing.ipynb).
#   On GitHub: [10_label_smoothing.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/10_label_smoothing.ipynb).
# - On your machine, open `exercises/10_label_smoothing.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade label_smoothing
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# <details><summary>Four experiments to try</summary>
#
# 1. **Smoothing by frequency**, also called unigram smoothing. Instead of dividing ε evenly among the tokens, divide it in proportion to their frequency in the training data. Work out the best gap for a frequent and for a rare token.
# 2. **How much data?** Train the two small models with 500, 1,000 and 2,000 sentence pairs, and plot the calibration error of each. When does smoothing begin to hurt?
# 3. **Dropout or smoothing?** Give the small model a dropout of 0.2 and train it with ε = 0. How overconfident is it now?
# 4. **The whole recipe.** Train two translators and compare the lengths of their translations:
#
# ```bash
# transformer train pocket --run runs/hard     --training.label-smoothing 0
# transformer train pocket --run runs/smoothed --training.label-smoothing 0.2
# transformer evaluate runs/hard runs/smoothed
# ```
#
# </details>
#
# ## Going further
#
# - **The paper:** [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762) use label smoothing in §5.4, and vary ε in group (D) of Table 3.
# - **Where it comes from:** §7 of [Szegedy et al. (2016)](https://arxiv.org/abs/1512.00567), for image classification, with the formula of this chapter's first section.
# - **When it helps, and what it costs:** [Müller et al. (2019)](https://arxiv.org/abs/1906.02629) study its effect on calibration, on translation and, for image classifiers, on the vectors before the output layer, which form tighter clusters.
# - **Calibration:** [Guo et al. (2017)](https://arxiv.org/abs/1706.04599) show that the deep networks of their time are overconfident, and that a temperature repairs most of it. For translators, [Kumar and Sarawagi (2019)](https://arxiv.org/abs/1903.00802) find `<eos>` badly calibrated even after correct prefixes. The calibration error with bins is from [Pakdaman Naeini et al. (2015)](https://doi.org/10.1609/aaai.v29i1.9602).
# - **An alternative:** [Pereyra et al. (2017)](https://arxiv.org/abs/1701.06548) reward the entropy of the prediction, and show how that relates to label smoothing.
# - **Next:** [Training](11_training.ipynb) puts the model, the data and the loss together.
