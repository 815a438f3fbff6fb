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
# **You will be able to**
#
# - derive cross-entropy from counting, and compute it by hand on five words;
# - say why a hard target asks for infinite logits, and which finite ones a smoothed target asks for;
# - write down the three conventions of smoothing that are in use, and by how much their losses differ;
# - tell the floor of a loss from the fault of a model, and so compare losses only where they can be compared;
# - measure whether a model's confidence can be trusted, and read its smoothing off its answers.
#
# **About 50 minutes.** It builds on the softmax of [Attention](02_attention.ipynb), and on batches as [Data and batching](09_data_and_batching.ipynb) makes them: rows of tokens,
# filled up with padding.

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
import inspect
import math
from dataclasses import replace
from itertools import islice

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The question
#
# A translator has written *die Ente öffnet die …* ("the duck opens the …") and must say the next word. The reference says *Tür*. Another translator would have written
# *Pforte*, and nobody would have called it a mistake. But training sees one reference, and asks for this: **all of the probability on *Tür*, none on anything else.**
#
# The paper asks for less (§5.4). A tenth of the probability goes to words that are *not* in the reference, the same to each, the absurd ones included. It is
# called **label smoothing**, and the paper reports two things about it that do not seem to fit together: the model gets worse at predicting the text, and better at translating.
#
# Why would anybody hand a student a key that is wrong on purpose? And what does the student make of it?

# %% [markdown]
# ## By hand
#
# A vocabulary of five words is enough. Here is what a model believes about the next one:

# %%
words = ["<pad>", "Tür", "Pforte", "Ente", "<eos>"]
p = torch.tensor([0.05, 0.60, 0.20, 0.10, 0.05])  # (V,)
right, V = 1, len(words)

# %% [markdown]
# **Step 1: how likely is what we saw?** Say this beginning stood ten times in a corpus, and was followed by *Tür* seven times, by *Pforte* twice and by *Ente* once. The model gives
# these ten words together the probability $0.6^7 \cdot 0.2^2 \cdot 0.1^1$. Training looks for the model that makes this **likelihood** as large as possible. A product of many small
# numbers is unpleasant, so one takes minus its logarithm, a sum, and divides by ten, to have a number per word:
#
# $$
# \begin{aligned}
# &-\tfrac{1}{10} \ln\left(0.6^7 \cdot 0.2^2 \cdot 0.1\right) \\
# &= 0.7 \cdot 0.511 + 0.2 \cdot 1.609 + 0.1 \cdot 2.303 \\
# &= 0.910
# \end{aligned}
# $$

# %%
counts = torch.tensor([0.0, 7, 2, 1, 0])
f = counts / counts.sum()  # frequencies, (V,)
likelihood = (p**counts).prod()
cross_entropy = -(f * p.log()).sum()
print(f"likelihood {likelihood:.6f}   cross-entropy {cross_entropy:.3f}")
assert_close(-likelihood.log() / 10, cross_entropy)

# %% [markdown]
# So **cross-entropy**, $-\sum_j f_j \ln p_j$, is the likelihood in another dress. And which $p$ is the best? The frequencies themselves. We let ten thousand random rivals try:

# %%
torch.manual_seed(0)
rivals = torch.distributions.Dirichlet(torch.ones(V)).sample((10_000,))
best = torch.special.entr(f).sum()  # -Σ f ln f, with 0 ln 0 = 0
print(f"p = f: {best:.3f}   best of the rivals: {-(rivals.log() @ f).max():.3f}")
assert -(rivals.log() @ f).max() > best

# %% [markdown]
# **Step 2: what if it is seen once?** In a real corpus a source sentence with just this beginning of its translation hardly ever comes twice. Then the frequencies are
# one 1 and many 0: the **hard target**. Cross-entropy shrinks to one term, $-\ln 0.6 = 0.511$, and the best $p$ is all of it on *Tür*. *Pforte*, never seen, is declared
# impossible.
#
# "Never seen" is not "impossible". The remedy is as old as Laplace: before counting, pretend to have seen each word a little bit, $a$ times. With one real sighting and
# $a = \frac{1}{45}$ for each of the five words:

# %%
a = 1 / 45
once = torch.tensor([0.0, 1, 0, 0, 0])
(once + a) / (1 + V * a)

# %% [markdown]
# **Step 3: that is label smoothing.** It is usually told differently. Take the share $\varepsilon$, the **smoothing**, from the hard target and spread it evenly over all $V$ words:
#
# $$ q_j = (1 - \varepsilon)\,[\,j\ \text{is right}\,] + \frac{\varepsilon}{V} $$
#
# The bracket is 1 for the right word and 0 for every other. With $\varepsilon = 0.1$ each word gets $0.1 / 5 = 0.02$, and the right one $0.9$ on top. The two tales are one, with $a = \varepsilon / (V(1-\varepsilon))$. All imaginary sightings together
# are $\varepsilon / (1 - \varepsilon)$: a ninth of the real one.

# %%
eps = 0.1
q = (1 - eps) * once + eps / V
print(q)
assert_close(q, (once + a) / (1 + V * a))
assert math.isclose(a, eps / (V * (1 - eps)))

# %% [markdown]
# Look at what it does *not* do. *Pforte* gets as much as *Ente* and as `<eos>`, a word that would end the sentence in its middle. Smoothing knows nothing about synonyms. It says one
# thing only, and says it everywhere: **do not be that sure.**
#
# **Step 4: the loss**, $-\sum_j q_j \ln p_j$, word by word:
#
# $$
# \begin{aligned}
# &0.92 \cdot 0.511 \\
# &+ 0.02 \cdot (2 \cdot 2.996 + 1.609 + 2.303) \\
# &= 0.470 + 0.198 = 0.668
# \end{aligned}
# $$

# %%
smoothed = -(q * p.log()).sum()
theirs = F.cross_entropy(p.log(), torch.tensor(right), label_smoothing=0.1)
print(f"hard {-p[right].log():.3f}   smoothed {smoothed:.3f}")
assert_close(smoothed, theirs)

# %% [markdown]
# ### Three conventions
#
# "Spread $\varepsilon$ over the vocabulary": over all of it? The paper does not say (§5.4), and three answers are in use.
#
# | shared by | right word | another | `<pad>` |
# |---|---|---|---|
# | $V$ | $1 - \varepsilon + \frac{\varepsilon}{V}$ | $\frac{\varepsilon}{V}$ | $\frac{\varepsilon}{V}$ |
# | $V - 1$ | $1 - \varepsilon$ | $\frac{\varepsilon}{V-1}$ | $\frac{\varepsilon}{V-1}$ |
# | $V - 2$ | $1 - \varepsilon$ | $\frac{\varepsilon}{V-2}$ | 0 |
#
# - **All $V$ words** share it in PyTorch and in this package.
# - **All but the right one** share it in the [paper's own code](https://github.com/tensorflow/tensor2tensor/blob/master/tensor2tensor/layers/common_layers.py).
# - **All but the right one and padding** share it in many tutorials, and here with `spread="others"`.


# %%
def target_of(V, right, eps, left_out=()):
    """ε shared by all words but those left out; the right one keeps 1 - ε."""
    q = torch.full((V,), eps / (V - len(left_out)), dtype=torch.float64)
    q[list(left_out)] = 0
    q[right] += 1 - eps
    return q


conventions = {
    "V": target_of(V, right, 0.1),
    "V − 1": target_of(V, right, 0.1, left_out=[right]),
    "V − 2": target_of(V, right, 0.1, left_out=[right, 0]),
}
for name, q in conventions.items():
    print(f"{name:6} {q.numpy().round(3)}")
    assert abs(q.sum() - 1) < 1e-12

# %% tags=["hide-input"]
from transformer.plots import style

with style.in_style():
    figure, axes = style.new_figure(4.4, 2.9)
    colours = (style.OUTPUT, style.QUERY, style.KEY)
    for i, ((name, heights), colour) in enumerate(
        zip(conventions.items(), colours, strict=True)
    ):
        places = [j + (i - 1) * 0.27 for j in range(V)]
        axes.bar(places, heights, width=0.25, color=colour, label=name)
        for x, height in zip(places, heights, strict=True):
            if height > 0.5:
                continue
            label = f"{height:.3f}".lstrip("0") if height else "0"
            axes.text(x, height + 0.02, label, ha="center", fontsize=8, rotation=90)
    axes.set_xticks(range(V), words)
    axes.set_ylim(0, 1)
    axes.set_title("Target with ε = 0.1, shared by", loc="left")
    axes.legend(fontsize=10)
Picture(
    figure,
    alt=(
        "Bars of three smoothed targets over five words. The right word, Tür, has "
        "0.92, 0.9 and 0.9. Each other word has 0.02, 0.025 and 0.033, save for "
        "padding, which has nothing in the third."
    ),
)

# %% [markdown]
# The second is the first with a larger number on its label: $\varepsilon$ over the others is $\varepsilon \cdot V / (V-1)$ over all. Here, that is 0.125. With the paper's 37,000 words the two are the same to the fifth digit. So
# when a small vocabulary gives you other numbers than somebody else's, ask who shared.

# %%
assert_close(conventions["V − 1"], target_of(V, right, 0.1 * V / (V - 1)))
for size in (5, 37_000):
    print(f"{0.1 * size / (size - 1):.7f} for {size:,} words")

# %% [markdown]
# ## The picture
#
# **Move the two sliders.** Above is the target, in the first convention. Below is the loss, if the right word has the probability on the axis and the others share the rest evenly. The blue dot is the lowest
# point, the dashed line the loss without smoothing.
#
# - Set $\varepsilon$ to 0. The lowest point runs to the right edge, to $p = 1$, where no softmax ever arrives.
# - Back to 0.1. Beyond the dot *more* confidence in the right word costs more. That is new: without smoothing nothing ever did.
# - Now make the vocabulary larger, then smaller. The dot stays near 0.9, and rises and falls. The same tenth, spread over more words, costs more, and no model can help it.

# %% tags=["hide-input"]
from transformer.plots.label_smoothing import label_smoothing_explorer

label_smoothing_explorer(
    description=(
        "Two sliders set the smoothing and the size of the vocabulary. Bars show "
        "the target's share for the right word, for each other and for all "
        "others. Below, the smoothed loss over the probability of the right word, "
        "with its lowest point marked, and dashed the hard loss, which falls all "
        "the way to 1. Three lines read out the vocabulary, the best gap between "
        "the logits and the lowest loss. At first, with 0.1 and 1,024 "
        "words, the lowest point is at 0.90."
    )
)

# %% [markdown]
# **In the book, be the model.** Make it surer of the right word, step by step, and read what the gradient asks for. Where does it change its mind?
#
# <div class="widget" data-widget="smoothing">
#
# *With JavaScript, there is an interactive figure here. This is how it begins.*
#
# One word's share with $\varepsilon = 0.1$ and 1,024 words, in a model that gives the right one 60%. Its loss is 1.244, and the lowest possible is 1.017.
#
# | | target $q$ | model $p$ | $p - q$ |
# |---|---|---|---|
# | the right word | 0.90010 | 0.60000 | -0.30010 |
# | each other word | 0.00010 | 0.00039 | 0.00029 |
#
# </div>

# %% [markdown]
# ## A target that is never reached
#
# A model does not give probabilities, it gives **logits** $z_j$, and the softmax makes $p_j = e^{z_j} / \sum_k e^{z_k}$ of them. Put that into the hard loss:
#
# $$ -\ln p_\text{right} = \ln\Big(1 + \sum_{j \ne \text{right}} e^{\,z_j - z_\text{right}}\Big) $$
#
# A logarithm of one plus something positive: it is above zero for *all* finite logits, and falls whenever the right logit moves further ahead. There is no best answer, only ever better ones. Watch five logits
# go downhill, with a hard and with a smoothed target.


# %%
def descend(smoothing, steps=4096):
    z, wanted = torch.zeros(5, dtype=torch.float64), torch.tensor(right)
    z.requires_grad_()
    gaps = []
    for _ in range(steps):
        loss = F.cross_entropy(z, wanted, label_smoothing=smoothing)
        (gradient,) = torch.autograd.grad(loss, z)
        z.data -= gradient
        gaps.append((z[right] - z[0]).item())
    return gaps


gaps = {f"ε = {e}": descend(e) for e in (0, 0.05, 0.1, 0.2)}

# %% tags=["hide-input"]
from transformer.plots.curves import curves

doublings = [4**n for n in range(7)]
Picture(
    curves(
        doublings,
        {name: [gap[n - 1] for n in doublings] for name, gap in gaps.items()},
        "steps of gradient descent",
        "How far the right logit is ahead",
        log2_x=True,
    ),
    alt=(
        "Gap between the right logit and the others against steps from 1 to 4096, "
        "doubling. With hard targets it climbs in a straight line and ends near "
        "10. With a smoothing of 0.05, 0.1 and 0.2 it levels off, the lower the "
        "larger the smoothing."
    ),
)

# %% [markdown]
# The hard line is straight on an axis that doubles: **the gap grows with the logarithm of the time**, without end. One can see why. While the model is nearly sure, $1 - p_\text{right} \approx 4 e^{-g}$
# for a gap $g$. That is also the slope, so each step adds $5 e^{-g}$ to the gap (the right logit rises by $4e^{-g}$, the others sink by a quarter of it). What grows at the rate $5e^{-g}$ is $\ln(5t)$: four times the time adds $\ln 4$, today and in a year.

# %%
hard = gaps["ε = 0"]
more = hard[4095] - hard[1023]
print(f"from step 1024 to 4096: {more:.3f}, ln 4 = {math.log(4):.3f}")
assert abs(more - math.log(4)) < 0.01
assert abs(hard[4095] - math.log(5 * 4096)) < 0.01

# %% [markdown]
# In a model it is weights that make the logits, and so it is weights that keep growing, for words that have long been right.
#
# The smoothed ones come to rest. Where? Where $p = q$, and there $e^{g}$ is the ratio of the two targets, $(1 - \varepsilon + \frac{\varepsilon}{V}) : \frac{\varepsilon}{V}$. So the best gap is
#
# $$ g^* = \ln\Big(1 + V\,\frac{1 - \varepsilon}{\varepsilon}\Big) $$
#
# For five words and $\varepsilon = 0.1$ that is $\ln 46 \approx 3.83$. The other two conventions have $\ln\big((V-1)\frac{1-\varepsilon}{\varepsilon}\big)$ and $\ln\big((V-2)\frac{1-\varepsilon}{\varepsilon}\big)$.


# %%
def best_gap(V, eps, convention="V"):
    odds = (1 - eps) / eps
    sharing = {"V": V, "V − 1": V - 1, "V − 2": V - 2}[convention]
    return math.log(sharing * odds + (convention == "V"))


for e in (0.05, 0.1, 0.2):
    assert abs(gaps[f"ε = {e}"][-1] - best_gap(5, e)) < 1e-3
for size in (5, 1000, 37_000):
    three = [f"{best_gap(size, 0.1, name):6.3f}" for name in conventions]
    print(f"V = {size:6,}:", *three)

# %% [markdown]
# With 37,000 words the three agree in all digits shown, and all that they ask for is that the right logit be less than 13 ahead. Is the closed form right for each convention, when a real optimiser looks for the best logits of the package's own loss?

# %%
from transformer.loss import label_smoothed_cross_entropy

wanted = torch.tensor([right])


# %%
def optimised(V, eps, spread):
    z = torch.zeros(1, V, dtype=torch.float64, requires_grad=True)
    found = torch.optim.LBFGS([z], max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        found.zero_grad()
        value = label_smoothed_cross_entropy(z, wanted, eps, spread, pad_id=0)
        value.backward()
        return value

    found.step(loss)
    return (z[0, right] - z[0, 2]).item()


# %%
for size, e in ((5, 0.1), (5, 0.3), (1000, 0.1)):
    for spread, name in (("all", "V"), ("others", "V − 2")):
        found, formula = optimised(size, e, spread), best_gap(size, e, name)
        print(f"V = {size:4}  ε = {e}  {name:5}  {found:.3f} = {formula:.3f}")
        assert abs(found - formula) < 0.01

# %% [markdown]
# ## The floor
#
# A loss without smoothing could at least *approach* zero. A smoothed one cannot. Add and take away the same sum, and it falls into two parts:
#
# $$
# \begin{aligned}
# \underbrace{-\sum_j q_j \ln p_j}_{\text{cross-entropy}} =
# &\ \underbrace{-\sum_j q_j \ln q_j}_{\text{entropy}} \\
# &+ \underbrace{\sum_j q_j \ln \tfrac{q_j}{p_j}}_{\text{KL}}
# \end{aligned}
# $$
#
# The second part, the **Kullback-Leibler divergence** or KL, is the distance that the model still has to go, and it can be zero. The first part is the target's own doubt. No weight of the model is in it. It is the **floor**, and for our five words it is
# more than half of the loss:

# %%
q = target_of(V, right, 0.1)
floor = -(q * q.log()).sum()
distance = (q * (q / p).log()).sum()
print(f"loss {smoothed:.3f} = floor {floor:.3f} + distance {distance:.3f}")
assert abs(floor + distance - smoothed) < 1e-6
assert_close(F.kl_div(p.double().log(), q, reduction="sum"), distance)


# %%
def floor_of(V, eps):
    share, top = eps / V, 1 - eps + eps / V
    doubt = -(V - 1) * share * math.log(share) if eps else 0.0
    return doubt - top * math.log(top)


print("          floor   e^floor   plain")
for e in (0.0, 0.1, 0.2):
    lowest, plain = floor_of(37_000, e), 1 / (1 - e + e / 37_000)
    print(f"ε = {e}  {lowest:7.2f} {math.exp(lowest):9.2f} {plain:7.2f}")
assert abs(floor_of(5, 0.1) - floor) < 1e-9

# %% [markdown]
# **Perplexity** is $e^\text{loss}$: as unsure as if it had to choose among so many words. With the paper's vocabulary and its $\varepsilon$ a model that knows every word of the corpus by heart has a perplexity of about 4, if one puts
# the smoothed loss into the exponent. That is arithmetic, not ignorance. The paper's own code takes the floor off before it reports a loss; PyTorch and this package do not.
#
# So "hurts perplexity" (§5.4) can mean two things, and one should know which. The **number** rises because its floor does. But the **model** really changes, too: it learns never to give the right word
# more than about $1 - \varepsilon$. Measured without any smoothing it pays $-\ln 0.9 \approx 0.105$ for every word that it could have been sure of; the last column is its perplexity then. What it gets for that we measure below.

# %% [markdown]
# ## What each logit feels
#
# Write the loss in logits. From $\ln p_j = z_j - \ln \sum_k e^{z_k}$, and because the $q_j$ sum to one:
#
# $$
# \begin{aligned}
# L &= \ln \sum_k e^{z_k} - \sum_j q_j z_j \\
# \frac{\partial L}{\partial z_j} &= \frac{e^{z_j}}{\sum_k e^{z_k}} - q_j = p_j - q_j
# \end{aligned}
# $$
#
# **What the model believes, minus what it should.** For our five words, hard and smoothed, and what autograd says about the package's loss:

# %%
feels = {}
for e in (0.0, 0.1):
    z = p.double().log()[None].requires_grad_()  # softmax gives p back
    label_smoothed_cross_entropy(z, wanted, smoothing=e).backward()
    feels[e] = p.double() - target_of(V, right, e)  # by hand
    assert_close(z.grad[0], feels[e])
    assert abs(feels[e].sum()) < 1e-6
print("         hard  smoothed")
for word, *both in zip(words, *feels.values(), strict=True):
    print("{:7}{:+6.2f}  {:+8.2f}".format(word, *both))

# %% [markdown]
# The step goes against the gradient: a minus sign lifts the logit. Both lift *Tür* and push the others down. But a hard target pushes down *every* wrong word, at *every* step, however low it is. A smoothed one stops pushing at 0.02, and below that it
# **lifts**: nothing may become impossible. And when *Tür* has 0.97, which is above its 0.92, *Tür* is pushed down. There is a point where all five are zero, and the model may stop.

# %% [markdown]
# ## The code
#
# **First as loops**, exactly as we did it by hand:


# %%
def loss_by_loops(logits, target, eps):
    total = 0.0
    for z, right in zip(logits, target, strict=True):
        log_p = z - z.logsumexp(dim=0)  # (V,)
        for j in range(len(z)):
            q = eps / len(z) + (1 - eps) * (j == right)
            total -= q * log_p[j]
    return total


# %% [markdown]
# **Then without the inner loop.** A table of targets, (tokens, $V$), would be as large as the logits and hold two numbers. So use the formula from above: all that $\sum_j q_j z_j$ needs is the right logit and the mean of all.


# %%
def loss_by_means(logits, target, eps):
    z_right = logits.gather(1, target[:, None])[:, 0]  # (tokens,)
    expected = (1 - eps) * z_right + eps * logits.mean(dim=1)  # Σ q·z
    return (logits.logsumexp(dim=1) - expected).sum()


# %% [markdown]
# And the package's, from its file. It is the second with the third convention as an option, and padding left out:

# %%
SourceCode(label_smoothed_cross_entropy)

# %%
torch.manual_seed(0)
logits, target = 3 * torch.randn(6, 50), torch.randint(1, 50, (6,))
package = label_smoothed_cross_entropy(logits, target, 0.1)
assert_close(loss_by_loops(logits, target, 0.1), package)
assert_close(loss_by_means(logits, target, 0.1), package)
torchs = F.cross_entropy(logits, target, label_smoothing=0.1, reduction="sum")
assert_close(torchs, package)
print(f"loops = means = package = PyTorch: {package:.3f}")

# %% [markdown]
# ### How far apart the conventions are
#
# Both losses have the same logsumexp and give the right logit $1 - \varepsilon$. They differ in whose mean gets $\varepsilon$: that of all $V$ logits, or that $\bar z$ of the $V - 2$ others. So their difference is exact and short:
#
# $$
# \begin{aligned}
# L_{V-2} - L_{V} &= \varepsilon\,\Big(\tfrac{1}{V}\textstyle\sum_j z_j - \bar z\Big) \\
# &= \frac{\varepsilon}{V}\,\big(z_\text{right} + z_\text{pad} - 2\,\bar z\big)
# \end{aligned}
# $$

# %%
others = label_smoothed_cross_entropy(logits, target, 0.1, "others", pad_id=0)
z_right, z_pad = logits[range(6), target], logits[:, 0]
rest = (logits.sum(dim=1) - z_right - z_pad) / (50 - 2)
formula = (0.1 / 50 * (z_right + z_pad - 2 * rest)).sum()
print(f"{others - package:.6f} = {formula:.6f}")
assert_close(others - package, formula, atol=1e-4, rtol=0)

# %% [markdown]
# A $V$-th of a tenth of a few logits: with 37,000 words it is invisible. If somebody's loss differs from yours by more than a whole **nat** (the unit of a loss in natural logarithms), it is not this. Then they report the **Kullback-Leibler** part, and you the cross-entropy. The gradients agree; the
# numbers are a floor apart.
#
# ### Padding does not count, and the mean is over tokens
#
# A batch's short sentences are filled up with padding, and there is nothing to learn from it. The package leaves those rows out of the sum, so that they have no gradient either. It returns a **sum**. Whoever calls it divides, once, by the number of tokens that
# count.

# %%
filled = torch.cat([target, torch.zeros(3, dtype=torch.int64)])  # 6 real, 3 padding
z = torch.cat([logits, torch.randn(3, 50)]).requires_grad_()
loss = label_smoothed_cross_entropy(z, filled, 0.1, pad_id=0)
loss.backward()
assert_close(loss.detach(), package)
assert not z.grad[6:].any() and z.grad[:6].any(dim=1).all()
print(f"a token: {loss / (filled != 0).sum():.3f}")

# %% [markdown]
# ### A table that is never made
#
# How large is the table of logits? A batch of only 4,096 tokens, the paper's vocabulary, four bytes a number:

# %%
n_bytes = 4096 * 37_000 * 4
print(f"{n_bytes / 1e6:.0f} MB for 4,096 tokens")
print(f"{n_bytes * 25_000 / 4096 / 1e6:.0f} MB for the 25,000 of the paper's batch")

# %% [markdown]
# And that is once. Autograd keeps the logarithm of the softmax for the way back, and makes a gradient of the same size. But nobody wants the logits: what is wanted is one number, and the gradients of the decoder's states $x$ and of the matrix $W$ that makes the logits. The gradient in the logits
# we know in closed form, $p - q$, **as soon as a row of logits is there**. So the package's second form takes some rows, makes their logits, their loss and at once their gradients, and forgets them:

# %%
from transformer.loss import CHUNK_ROWS, _LinearCrossEntropy
from transformer.loss import linear_label_smoothed_cross_entropy as linear_loss

SourceCode(_LinearCrossEntropy.forward)

# %% [markdown]
# `p.div_(total).sub_(uniform)` and what follows is our $p - q$: `uniform` is everybody's share, `peak` what the right one has on top. Is it the same? And does it really never hold the table? We listen to every operation and write down the largest tensor that any of them returns.

# %%
from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    numbers = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.numbers = max(self.numbers, made.numel())
        return made


# %%
torch.manual_seed(0)
states, matrix = torch.randn(2048, 32), torch.randn(4000, 32) / 6  # x, W
target = torch.randint(4000, (2048,))


def measured(loss_of):
    x, w = states.clone().requires_grad_(), matrix.clone().requires_grad_()
    with Largest() as largest:
        loss = loss_of(x, w)
        loss.backward()
    return largest.numbers, loss.detach(), x.grad, w.grad


whole = measured(lambda x, w: label_smoothed_cross_entropy(x @ w.T, target, 0.1))
chunks = measured(lambda x, w: linear_loss(x, w, target, 0.1))

# %%
print(f"whole:  {whole[0]:9,} = 2048 × 4000")
print(f"chunks: {chunks[0]:9,} = {CHUNK_ROWS} × 4000")
assert whole[0] == 2048 * 4000 and chunks[0] == CHUNK_ROWS * 4000
for one, other in zip(whole[1:], chunks[1:], strict=True):
    assert_close(other, one, rtol=1e-4, atol=1e-4)
print("loss and both gradients are the same")

# %% [markdown]
# **Half precision.** On a GPU the matrix products run in 16 bits, the softmax and all sums in 32. The sums have to: between a half and one a bfloat16 moves in steps of a 256th, and a thousandth that is added to it is lost. A vocabulary's worth of small numbers never adds up.

# %%
total = torch.tensor(0.0, dtype=torch.bfloat16)
for _ in range(1000):
    total += 0.001
with torch.autocast("cpu", torch.bfloat16):
    half = linear_loss(states, matrix, target, 0.1)
print(f"a thousand thousandths: {total:.2f}")
print(f"the loss is {half.dtype}")
print(f"and off by {abs(half / chunks[1] - 1):.4%}")
assert total < 0.6 and half.dtype == torch.float32
assert abs(half / chunks[1] - 1) < 0.001

# %% [markdown]
# ## Is it honest?
#
# When a model says "0.8", is it right eight times in ten? Then it is **calibrated**. Whoever searches with probabilities, or shows them to people, depends on it.
#
# **By hand.** Ten answers. Six were given with a confidence of 0.6, and four of them were right: a share of 0.67, close to the promise. Four were given with 0.9, and two were right: 0.5, far from it. The **expected calibration error** sorts answers into bins by confidence, takes in each the distance between
# confidence and success, and averages, each bin by its share:
#
# $$ 0.6 \cdot |0.6 - 0.67| + 0.4 \cdot |0.9 - 0.5| = 0.20 $$


# %%
def bins_of(confidence, correct, n=10):
    """Share, mean confidence and share of right answers of each bin."""
    which = (confidence * n).long().clamp(max=n - 1)
    count = torch.bincount(which, minlength=n)
    sure = torch.bincount(which, confidence, minlength=n) / count.clamp(min=1)
    hits = torch.bincount(which, correct.float(), minlength=n) / count.clamp(min=1)
    return count / len(which), sure, hits


def calibration_error(share, sure, hits):
    return (share * (sure - hits).abs()).sum().item()


confidence = torch.tensor([0.6] * 6 + [0.9] * 4)
correct = torch.tensor([1, 1, 1, 1, 0, 0, 1, 1, 0, 0])
assert abs(calibration_error(*bins_of(confidence, correct)) - 0.2) < 1e-6

# %% [markdown]
# **Two models.** They begin with the same weights and see the same batches in the same order; one learns with $\varepsilon = 0$, the other with 0.1. We make it hard to stay honest: a thousand sentences, gone through again and again, and no dropout. A model that learns its sentences by heart
# believes that it knows the language. The questions are from other sentences, with combinations of words that neither has seen. (The tokenizer is that of a model that comes with the course. That model has its turn in a moment.)

# %%
import transformer
from transformer.data import pocket
from transformer.data.batching import Batches, Sequences, collate

shipped = transformer.load("pocket-small", precision="fp32")
device = shipped.device.torch_device  # a GPU, if this machine has one


def packed(pairs):
    sides = zip(*((pair.source, pair.target) for pair in pairs), strict=True)
    encode = shipped.tokenizer.encode
    return [Sequences.pack([encode(text) for text in side]) for side in sides]


known = packed(pocket.pairs("train", 1000))
unseen = collate(*packed(pocket.pairs("valid", 300)), range(300))

# %%
from transformer.model import Transformer
from transformer.training.trainer import batch_loss

small = replace(shipped.model.config, d_model=64, d_ff=128)


# %%
def learn(smoothing, steps=250):
    torch.manual_seed(0)
    model = Transformer(small).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    batches = Batches(*known, batch_tokens=600, seed=0)
    for batch in islice(batches, steps):
        loss = batch_loss(model, batch.to(device), smoothing) / batch.n_tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


models = {"hard": learn(0.0), "smoothed": learn(0.1), "shipped": shipped.model}

# %%
from transformer.data.tokenizer import EOS, PAD

real = unseen.labels != PAD
wanted = unseen.labels[real]  # (tokens,)
answers = {}
with torch.no_grad():
    for name, model in models.items():
        logits = model(unseen.source.to(device), unseen.decoder_input.to(device))
        answers[name] = logits.cpu()[real]  # (tokens, vocab_size)

# %% [markdown]
# At each place we take the model's most probable word, with the true words before it. How sure was it, was it right, and what is the plain loss, without smoothing?


# %%
def report(logits):
    confidence, guess = logits.softmax(dim=-1).max(dim=-1)
    bins = bins_of(confidence, guess == wanted)
    loss = F.cross_entropy(logits, wanted)
    return confidence, (guess == wanted).float(), loss.item(), bins


reports = {name: report(logits) for name, logits in answers.items()}
print("          sure  right  error  loss")
for name, (confidence, hits, loss, bins) in reports.items():
    error = calibration_error(*bins)
    print(f"{name:9} {confidence.mean():.2f}  {hits.mean():5.2f}", end="  ")
    print(f"{error:5.2f}  {loss:.2f}")

# %% tags=["hide-input"]
from transformer.plots.reliability import reliability_diagram


def diagram(name, title):
    return reliability_diagram(*map(torch.Tensor.tolist, reports[name][3]), title)


Row(
    Picture(
        diagram("hard", "hard target"),
        alt=(
            "Reliability of the hard model: in every bin the share of right "
            "answers lies below the confidence, mostly far below; the highest bar "
            "of the histogram is at 0.9 to 1."
        ),
    ),
    Picture(
        diagram("smoothed", "smoothed, ε = 0.1"),
        alt=(
            "Reliability of the smoothed model: the points lie near the diagonal, "
            "most of them a little below, and there are few answers above 0.9."
        ),
    ),
)

# %% [markdown]
# A point on the dotted diagonal keeps its promises; below it the model promises too much, and the red line is by how much. Learning by heart with hard targets made a boaster. The smoothed model is right about as often, and knows better when. Look at the histograms, too: the hard model's highest bar is at the very top, and the smoothed one has its last peak below 0.9, where it was taught to stop.
#
# Even its loss *without* smoothing is lower, though it was trained for another. So smoothing need not hurt perplexity. It costs a tenth of a nat on each word that one knows, and saves on those that one does not, where boasting is expensive. These two models know little, and gain. The paper's, trained on millions of sentences, lost (§5.4).

# %%
errors = {name: calibration_error(*r[3]) for name, r in reports.items()}
assert errors["hard"] > 2 * errors["smoothed"]
assert reports["hard"][0].mean() > reports["hard"][1].mean() + 0.1
assert abs(reports["hard"][1].mean() - reports["smoothed"][1].mean()) < 0.05
assert reports["smoothed"][2] < reports["hard"][2]

# %% [markdown]
# ### The other side of the coin
#
# Now the third row. `pocket-small` comes with the course; it saw so many sentences of this little language that it knows it. It was trained with $\varepsilon = 0.05$, and that is the mistake it makes:

# %%
from transformer.recipes import RECIPES

eps = RECIPES["pocket-small"].training.label_smoothing
confidence, hits, _, _ = reports["shipped"]
n_words = answers["shipped"].size(-1)
print(f"target for the right word   {1 - eps + eps / n_words:.3f}")
print(f"its confidence, typically   {confidence.median():.3f}")
print(f"it is right                 {hits.mean():.3f}")
assert abs(confidence.median() - (1 - eps + eps / n_words)) < 0.02
assert hits.mean() > confidence.mean() + 0.02

# %% [markdown]
# It is right more often than it dares to say. Read the picture from below: nearly all its answers are in one bin, and there the point lies above the diagonal. The other bins have a handful of answers each, and where they stand means little.

# %% tags=["hide-input"]
Picture(
    diagram("shipped", "pocket-small"),
    alt=(
        "Reliability of pocket-small: nearly all its answers are in the bin from "
        "0.9 to 1, with a confidence of 0.95, and practically all of them are "
        "right: the point lies above the diagonal."
    ),
)

# %% [markdown]
# **Smoothing does not make a model honest. It makes it modest**, by about $\varepsilon$, whether there is reason to be or not. Where a model would boast, that helps. Where it knows, it is a small lie in the other direction.
#
# So the trace of $\varepsilon$ is in everything that such a model says. Where it is sure, it keeps back the doubt that it was taught, and you can read it from the outside, as one minus its typical confidence. We try this on a second model, with other
# sentences, another vocabulary and another $\varepsilon$: the translator of captions, asked what it thinks of its own translations.

# %%
captions = transformer.load("multi30k", precision="fp32")
english = ["A dog runs through the grass.", "Two men sit on a bench."]
english += ["A woman rides a bicycle.", "A child plays with a red ball."]
english += ["Three girls are playing soccer in a field."]
sides = (english, captions.greedy_search(english))
encode = captions.tokenizer.encode
ids = [Sequences.pack([encode(text) for text in side]) for side in sides]
batch = collate(*ids, range(len(english)))


@torch.no_grad()
def doubt(model, batch):
    logits = model(batch.source.to(device), batch.decoder_input.to(device))
    logits = logits.cpu()[batch.labels != PAD]
    return 1 - logits.softmax(dim=-1).amax(dim=-1).median().item()


# %%
found = {"pocket-small": doubt(shipped.model, unseen)}
found["multi30k"] = doubt(captions.model, batch)
for name, keeps_back in found.items():
    told = RECIPES[name].training.label_smoothing
    print(f"{name:12} keeps {keeps_back:.3f}, taught {told}")
assert abs(found["pocket-small"] - 0.05) < 0.01 and found["multi30k"] < 0.09

# %% [markdown]
# The first fits, the second does not. It is bolder than it was taught to be. What did it have in training that it has not now? **Dropout.** It learned to put 0.9 on the right word *while a part of its numbers was missing*. With all of them back it is surer than it ever was in
# training. (`pocket-small` was trained without any, and it fits.) So we switch dropout on again and ask the same question twenty times:

# %%
torch.manual_seed(0)
captions.model.train()
noisy = sorted(doubt(captions.model, batch) for _ in range(20))
captions.model.eval()
told = RECIPES["multi30k"].training.label_smoothing
print(f"with dropout keeps {noisy[10]:.3f}, taught {told}")
assert abs(noisy[10] - told) < 0.03
assert noisy[10] - found["multi30k"] > 0.02
assert shipped.model.config.dropout == 0 < captions.model.config.dropout

# %% [markdown]
# What it was taught it keeps, under the conditions in which it was taught. Smoothing and dropout are two settings of a recipe, but not two independent ones.

# %% [markdown]
# ### What one number can do
#
# Is smoothing the only cure for a boaster? No. Divide all logits by one number $T$, the **temperature**, chosen afterwards on sentences that the model has not seen. Above 1 it makes a model more modest, below 1 bolder. The order of the words stays, so no answer changes. We choose $T$ by the loss of every other answer and judge on the rest. (A friendly test: both halves have words of the same sentences.)


# %%
def cooled(logits):
    grid = torch.linspace(0.5, 3, 51).tolist()
    losses = [F.cross_entropy(logits[::2] / T, wanted[::2]).item() for T in grid]
    T = grid[losses.index(min(losses))]
    errors = []
    for t in (1, T):
        confidence, guess = (logits[1::2] / t).softmax(dim=-1).max(dim=-1)
        bins = bins_of(confidence, guess == wanted[1::2])
        errors.append(calibration_error(*bins))
    return T, *errors


# %%
cures = {name: cooled(logits) for name, logits in answers.items()}
for name, (T, before, after) in cures.items():
    print(f"{name:9} T = {T:.2f}   error {before:.3f} → {after:.3f}")
assert cures["hard"][0] > 1.2 and cures["shipped"][0] < 1
assert cures["hard"][2] < cures["hard"][1] / 2
assert cures["shipped"][2] < cures["shipped"][1] / 2
assert 0.8 < cures["smoothed"][0] < 1.2

# %% [markdown]
# So as far as *honesty* goes, one number afterwards does much of what smoothing does in training, and it mends the modest model as well. The smoothed one needs little of it: its $T$ is close to one. What a temperature cannot do is change what was learned.
#
# **What is not shown here.** Two models with one seed, made to overfit, show that the effect exists, not how large it is in a long training with dropout and millions of sentences. Whether smoothing makes better *translations* the page of [results](../book/results.md) asks, with the
# recipe `pocket`, cut short, and four values of $\varepsilon$. And the calibration error itself has its weaknesses. It depends on the bins, it looks only at the first choice, and a model that always says the same, the mean success, has an error of zero and is of no use.

# %% [markdown]
# ## What the beam feels
#
# A translation is ended by a word, `<eos>`, and this word gets its share of every target as well. Take an ideal student, who has learned the smoothed target to perfection. At each place it gives the right word $c = 1 - \varepsilon + \frac{\varepsilon}{V}$ and every other word $\frac{\varepsilon}{V}$, `<eos>` included. Then it writes a sentence of $n$ tokens, the last one `<eos>`, with the probability $c^n$, and the **empty** one with
# $\frac{\varepsilon}{V}$. The first shrinks with every word, the second does not. So from a certain length on the ideal student finds it more probable to say nothing:
#
# $$ n^* = \frac{\ln(\varepsilon / V)}{\ln\big(1 - \varepsilon + \varepsilon / V\big)} $$


# %%
def nothing_wins_at(V, eps):
    return math.log(eps / V) / math.log(1 - eps + eps / V)


for size, e in ((4000, 0.05), (37_000, 0.05), (37_000, 0.1), (37_000, 0.2)):
    print(f"V = {size:6,}  ε = {e:4}: {nothing_wins_at(size, e):4.0f} tokens")

# %% [markdown]
# Far above most sentences, and not absurdly far. Is it more than a thought experiment? We ask `pocket-small` for the log-probability of its references, and of the empty translation for the same sources:

# %%
log_p = torch.full(unseen.labels.shape, 0.0)
log_p[real] = -F.cross_entropy(answers["shipped"], wanted, reduction="none")
lengths, sentence = real.sum(dim=1), log_p.sum(dim=1)  # (sentences,)
first = real.long().cumsum(dim=1)[real] == 1
empty = answers["shipped"][first].log_softmax(dim=-1)[:, EOS]  # (sentences,)
share = math.log(eps / n_words)
print(f"empty: {empty.median():.1f}, of an ideal student {share:.1f}")
assert abs(empty.median() - share) < 1.5
a_token, ideal = (sentence / lengths).median(), math.log(1 - eps + eps / n_words)
print(f"a token: {a_token:.3f}, of an ideal student {ideal:.3f}")
assert abs(a_token - ideal) < 0.01

# %% tags=["hide-input"]
with style.in_style():
    figure, axes = style.new_figure(4.0, 3.0)
    n_star = nothing_wins_at(n_words, eps)
    axes.plot(
        lengths, sentence, "o", markersize=3, color=style.QUERY, label="references"
    )
    axes.plot(lengths, empty, "o", markersize=3, color=style.PLAIN, label="empty")
    axes.plot([0, 250], [0, 250 * ideal], color=style.QUERY, linewidth=1)
    axes.axhline(share, color=style.PLAIN, linewidth=1)
    axes.axvline(n_star, color=style.INK, linewidth=1, linestyle=":")
    axes.text(n_star - 4, -4, f"n* = {n_star:.0f}", ha="right")
    axes.set_ylim(-25, 0.5)
    axes.set_xlim(0, 250)
    axes.set_xlabel("tokens of the reference")
    axes.set_title("Log-probability", loc="left")
    axes.legend(fontsize=10, loc="lower right")
    axes.grid(True)
Picture(
    figure,
    alt=(
        "Log-probability against length. The references of pocket-small lie at the "
        "left, along a line that falls from zero; its empty translations scatter "
        "around a level line. Far to the right, at about 220 tokens, the falling "
        "line crosses the level one."
    ),
)

# %% [markdown]
# Most references follow the line of the ideal student, a few have a surprise in them and lie below it, and the empty translations scatter around its level. With short sentences nothing happens. But each token costs something even when there is no doubt about it, and so **a smoothed model has a pull towards short translations built in**. The search divides by a length penalty (§6.1), and with the paper's exponent of 0.6 the ideal student
# goes on for a good while:


# %%
def penalised(log_probability, n):
    return log_probability / ((5 + n) / 6) ** 0.6


slope, nothing = math.log(0.9 + 0.1 / 37_000), math.log(0.1 / 37_000)
n = next(
    n for n in range(1, 10**5) if penalised(n * slope, n) < penalised(nothing, 1)
)
without = nothing_wins_at(37_000, 0.1)
print(f"nothing wins at {n:,} tokens,\nwithout the penalty at {without:.0f}")
assert n > 50 * without

# %% [markdown]
# This is arithmetic about an ideal student. Real models may have other reasons for stopping early, and how much of it is smoothing's doing in yours, only two trainings would tell. The chapter on [beam search](12_decoding.ipynb) looks at what the penalty does to real translations.

# %% [markdown]
# ## What goes wrong in practice
#
# **Fault 1: the mass is given twice.** Somebody smooths the targets in the data loader, somebody else sets `label_smoothing` in the loss. No error, no warning. The target is still a distribution, only another one: $1 - (1 - \varepsilon)^2$ in place of $\varepsilon$.

# %%
z, wanted_one = p.log()[None], torch.tensor([right])
soft = target_of(V, right, 0.1).float()[None]
twice = F.cross_entropy(z, soft, label_smoothing=0.1)
once_more = F.cross_entropy(z, wanted_one, label_smoothing=1 - 0.9**2)
print(f"once      {smoothed:.4f}")
print(f"twice     {twice:.4f}")
print(f"ε = 0.19  {once_more:.4f}")
assert_close(twice, once_more)

# %% [markdown]
# **Fault 2: padding gets a share, or the sum is not one.** Whoever divides by $V - 2$ must also *take* padding out. Leave its share in, and $q$ sums to more than one. The loss still falls, only towards something else, and $p - q$ is not its gradient any more: that was derived for shares that sum to one. One line finds all mistakes of this kind:

# %%
wrong = torch.full((V,), 0.1 / (V - 2), dtype=torch.float64)
wrong[right] = 0.9  # and wrong[0] = 0 is forgotten
for name, q in {**conventions, "forgotten": wrong}.items():
    print(f"{name:10} sums to {q.sum():.4f}")
assert wrong.sum() > 1.03 and all(
    abs(q.sum() - 1) < 1e-9 for q in conventions.values()
)

# %% [markdown]
# In the first two conventions padding *does* get a share, and a model learns to say it with $\frac{\varepsilon}{V}$. That is harmless, if the search never says it. Ours does not, and it is worth knowing why it has to forbid a word that no reference contains.
#
# **Fault 3: the validation loss is smoothed.** Four runs with four values of $\varepsilon$, each validated with its own loss: the smallest $\varepsilon$ will win, whatever the models are worth. Here is *one* model, measured four times:

# %%
logits = answers["smoothed"]
found = {
    e: F.cross_entropy(logits, wanted, label_smoothing=e).item()
    for e in (0.0, 0.05, 0.1, 0.2)
}
for e, loss in found.items():
    print(f"measured with ε = {e:4}: {loss:.2f}")
assert list(found.values()) == sorted(found.values())

# %% [markdown]
# The package validates without smoothing, whatever it trains with:

# %%
from transformer.training.trainer import validate

line = next(
    s for s in inspect.getsource(validate).splitlines() if "batch_loss" in s
)
print(line.strip())
assert "smoothing=0.0" in line

# %% [markdown]
# **Fault 4: the logarithm of a softmax.** `softmax` and then `log` looks harmless. But $e^{-120}$ is no float32, it is zero, and its logarithm is minus infinity. With a hard target that hurts only if it is the *right* word. Smoothing multiplies it by a share that is not zero, so **any** word that underflows makes the loss infinite, also where the model is right.

# %%
far = torch.tensor([[0.0, 120, 0, 0, 0]])  # sure, and right
hard_loss = -far.softmax(dim=1).log()[0, right]
by_log = -(soft * far.softmax(dim=1).log()).sum()
package = label_smoothed_cross_entropy(far, wanted_one, 0.1)
print(f"log of softmax: hard {hard_loss.abs():.1f}, smoothed {by_log:.1f}")
print(f"from the logits: {package:.1f} = 0.08 · 120")
assert by_log.isinf() and abs(package - 9.6) < 1e-4

# %% [markdown]
# **Fault 5: the mean over all places.** `cross_entropy(..., reduction="none")` gives 0 where `ignore_index` stands, and `.mean()` counts the zeros. The loss then depends on how much padding the batch happens to have, and so does the gradient: sentences that are batched with longer ones learn less.

# %%
logits, target = answers["smoothed"][:6], wanted[:6]
for padding in (0, 6, 18):
    z = F.pad(logits, (0, 0, 0, padding))
    t = F.pad(target, (0, padding), value=PAD)
    each = F.cross_entropy(z, t, ignore_index=PAD, reduction="none")
    by_tokens = each.sum() / (t != PAD).sum()
    print(f"{padding:2} padded: mean {each.mean():.3f}   by tokens {by_tokens:.3f}")
    assert_close(by_tokens, F.cross_entropy(logits, target))
assert_close(4 * each.mean(), by_tokens)

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. A vocabulary of ten words, $\varepsilon = 0.2$, shared by all. What is the target of the right word?**
#
# <details><summary>A. 0.80</summary>
#
# No. That is when the others share all of ε. Here the right word is one of the ten and gets its tenth back.
#
# </details>
# <details><summary>B. 0.82</summary>
#
# **Right.** 1 − 0.2 + 0.2/10: it gives away a fifth and gets a tenth of that back.
#
# </details>
# <details><summary>C. 0.98</summary>
#
# No. 0.02 is the share of each *single* other word; nine of them together have 0.18.
#
# </details>
# <details><summary>D. 1.00</summary>
#
# No. That is the hard target: nothing was given away.
#
# </details>
#
# **2. Your training loss with ε = 0.1 and 37,000 words has been standing at 1.45 for days. How well does the model know its training data?**
#
# <details><summary>A. Badly: it is as unsure as among e^1.45, about four words</summary>
#
# No. That reads a smoothed loss as if its best value were zero.
#
# </details>
# <details><summary>B. It cannot be said without the validation loss</summary>
#
# No. The validation loss says how it does on other data. How far it is from the best possible on these, the floor says.
#
# </details>
# <details><summary>C. Nearly by heart</summary>
#
# **Right.** The floor is 1.38. The Kullback-Leibler part that is left is less than a tenth of a nat.
#
# </details>
# <details><summary>D. Not at all: it is stuck</summary>
#
# No. A model that knows nothing would be near ln 37,000 ≈ 10.5.
#
# </details>
#
# **3. The right word has $p = 0.97$, its target is 0.92. What does the next step do?**
#
# <details><summary>A. Nothing, the model is good enough</summary>
#
# No. The gradient is p − q, and it is zero only where they are equal.
#
# </details>
# <details><summary>B. It lifts the right logit a little</summary>
#
# No. That would be the hard target, with the gradient 0.97 − 1.
#
# </details>
# <details><summary>C. It lowers the right logit, and lifts those that are below their share</summary>
#
# **Right.** p − q = +0.05 for the right word. The others lack 0.05 together, so on the whole they rise.
#
# </details>
# <details><summary>D. It lowers all logits</summary>
#
# No. The gradient sums to zero: what one loses the others gain.
#
# </details>
#
# **4. A colleague's model is underconfident: it says 0.90 and is right in 0.99. It was trained with ε = 0.1. What is the cheapest cure?**
#
# <details><summary>A. Train again with ε = 0</summary>
#
# No. It may work, but it is the dearest cure, and nobody knows whether the new model will not boast.
#
# </details>
# <details><summary>B. Divide the logits by a temperature below 1, chosen on unseen data</summary>
#
# **Right.** One number, no training, and not one answer changes.
#
# </details>
# <details><summary>C. Divide the logits by a temperature above 1</summary>
#
# No. That makes it more modest still: above 1 all probabilities move towards each other.
#
# </details>
# <details><summary>D. More dropout</summary>
#
# No. Dropout works against learning by heart, and so against boasting. It does not lift the ceiling that the target has set.
#
# </details>
#
# **5. Why does the gap between the logits in the optimum grow with the vocabulary, if the right word's probability hardly changes?**
#
# <details><summary>Answer</summary>
#
# Because the same ε is spread over more words. Each of them has to go down to ε/V, so the ratio of the right one to each of them grows like V, and the gap like ln V.
#
# </details>
#
# **6. Why is ε not simply made larger, if modesty is so good?**
#
# <details><summary>Answer</summary>
#
# Each word that is really known costs at least −ln(1 − ε), the gap that the model may build shrinks, and the pull towards short sentences grows: with ε = 0.2 nothing wins at about half the length as with 0.1. How much is good, only an experiment tells.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Five blanks: the loss of a token, the smoothed target, the loss against it, its gradient, and the loss of a batch with padding. Each has a check that says what is wrong, and a hint.
#
# - In Colab:
#   [10_label_smoothing](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/10_label_smoothing.ipynb).
#   On GitHub: [10_label_smoothing.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/10_label_smoothing.ipynb).
# - On your machine, open `exercises/10_label_smoothing.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade label_smoothing
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).
#
# And five experiments.
#
# - **A wiser smoothing.** Give ε not to all words alike, but by how frequent they are in the training set (the "unigram" target). Work out the best gap for a frequent and for a rare wrong word, and check it with `LBFGS`.
# - **How much is enough?** Train the two small models with 500, 1,000 and 2,000 sentences, and plot both calibration errors. When does smoothing begin to hurt?
# - **Dropout or smoothing?** Give `small` a dropout of 0.2 and train with ε = 0. How much of the boasting is left?
# - **The bins.** Compute the calibration error with 5, 10, 50 and 500 bins. Which way does it go, and why can it only go that way when the bins are split?
# - **The whole recipe.** Two trainings, and then the beam. Do the lengths of the translations change?
#
# ```bash
# transformer train pocket --run runs/hard     --training.label-smoothing 0
# transformer train pocket --run runs/smoothed --training.label-smoothing 0.2
# transformer evaluate runs/hard runs/smoothed
# ```

# %% [markdown]
# ## Going further
#
# - **The paper** has two sentences on it, in §5.4 of {cite}`vaswani2017`, and two lines in Table 3, in group (D), where ε is varied.
# - **Where it comes from:** §7 of {cite}`szegedy2016` introduces it for images, for the reason that we took as well: a largest logit that must be far above all others makes a model too sure of itself.
# - **When it helps, and what it costs:** {cite}`muller2019` look at what it does to the last layer, measure calibration and translation, and find that a smoothed model is a worse teacher for another.
# - **Calibration:** {cite}`guo2017` showed how badly modern networks keep their promises, and that a temperature mends most of it. The error by bins is from {cite}`naeini2015`.
# - **Another way to ask for modesty:** {cite}`pereyra2017` reward the entropy of $p$ itself, and show how smoothing is related to it.
# - **The empty translation:** {cite}`stahlberg2019` searched exhaustively, and found that their models often think it the best of all.
# - **The loss without the table of logits** for large language models: {cite}`wijmans2025`.
