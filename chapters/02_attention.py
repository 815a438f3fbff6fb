# %% [markdown]
# # Attention
#
# *The dog left the milk because it was tired.* *The dog left the milk because it was sour.* What does *it* refer to? To the dog in the first sentence, to the milk in the second, and only the last word tells you which. A network needs a mechanism that lets the vector of *it* find the right noun and bring back information from that noun. That mechanism is **attention**. In the figure, a thicker arc means that *it* gives more weight to the word at the other end. You will soon compute these weights by hand, from made-up numbers.

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
    print(f"With all figures: {book}/chapters/02_attention.html")

# %% tags=["hide-input"]
import torch
import torch.nn.functional as F

from transformer.plots.attention_arcs import attention_arcs
from transformer.plots.model_map import model_map
from transformer.plots.style import Captioned, Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

weights = torch.zeros(2, 9)  # a sentence has nine words; we use five of them
key = torch.tensor([[2.0, 0], [-1, -1], [0, 2], [-2, -2], [0, 0]])  # alive? food?
query = torch.tensor([[1.0, 0], [0, 1]])  # something alive; food
weights[:, [1, 2, 4, 5, 6]] = (query @ key.T).softmax(dim=-1)
start = "The dog left the milk because it was"
Picture(
    attention_arcs(
        [f"{start} {end}".split() for end in ("tired.", "sour.")], 6, weights
    ),
    alt=(
        "The two sentences 'The dog left the milk because it was tired' and '… sour', "
        "with arcs from it to other words. In the first, a thick arc leads to dog; in "
        "the second, to milk. All other arcs are thin."
    ),
    caption=(
        "Arcs show what “it” attends to, apart from itself. The thickest leads to "
        "“dog” if the sentence ends in “tired”, and to “milk” if it ends in “sour”."
    ),
)

# %% [markdown]
# By the end you will be able to compute such weights with pencil and paper, write attention as two matrix products whose result matches PyTorch's, and explain why the paper's formula divides by a square root. **About 35 minutes.** The chapter assumes vectors, matrix products and a little PyTorch.
#
# The map shows where the Transformer uses attention. A dashed box is one layer, which is repeated $N$ times.

# %% tags=["hide-input"]
Picture(
    model_map("self-attention", "masked self-attention", "cross-attention"),
    alt=(
        "The Transformer as a map: an encoder on the left, a decoder on the right, "
        "each a stack of N equal layers, read from the bottom to the top. Source "
        "tokens and target tokens pass an embedding and a positional encoding. The "
        "encoder's output, the memory, goes to the decoder, which outputs the "
        "probabilities of the next token. Highlighted are self-attention in the "
        "encoder, and masked self-attention and cross-attention in the decoder."
    ),
    caption=(
        "The whole Transformer. This chapter is about the highlighted boxes: one "
        "vector per token goes in, and for each token a weighted average of vectors "
        "comes out."
    ),
)

# %% tags=["hide-input", "imports"]
import itertools
import math

import torch
import torch.nn.functional as F
from torch.testing import assert_close

# %% [markdown]
# ## A soft lookup
#
# Python has a tool for looking things up: the dictionary. You supply a **query**, Python finds the **key** that equals it, and you get the **value** that belongs to this key.

# %%
german_pronoun = {"dog": "er", "milk": "sie"}  # key: value
german_pronoun["dog"], german_pronoun.get("it", "no such key")

# %% [markdown]
# The values here are translations of *it*. German has three, *er*, *sie* and *es*, and the choice depends on the noun that *it* stands for: *er* for the dog (*der Hund*, masculine), *sie* for the milk (*die Milch*, feminine).
#
# A dictionary is a *hard* lookup: one key matches and contributes everything, or none does and there is no answer. We could train its values, as in an embedding table, but not *which* key it finds: a small change in the query changes nothing, so there is no gradient. Attention is a *soft* lookup. It measures how well the query matches *each* key, turns these scores into weights that add up to one, and returns the weighted average of *all* values. A small change in the query changes the answer a little, so gradient descent can work with it.
#
# ## Attention by hand
#
# Each word has a **key**: here, two made-up numbers that answer two questions, *alive?* and *food?* A positive number means yes, a negative one no, and the larger it is, the more firmly; zero leaves the question open. Each word also has a **value** of two numbers, its contribution to the choice between *er* and *sie*. We leave out *the*, *was* and *tired*. We assume that in an earlier attention layer, *it* has already attended to *tired*, by the same mechanism, so that its query contains this information.

# %%
words = ["dog", "left", "milk", "because", "it"]
key = torch.tensor([[2.0, 0], [-1, -1], [0, 2], [-2, -2], [0, 0]])  # (5, 2)
value = torch.tensor([[1.0, 0], [0, 0], [0, 1], [0, 0], [0, 0]])  # (5, 2)

# %% [markdown]
# In the first sentence *it* was tired, and only living things get tired. So the **query** of *it* looks for something alive: $(1, 0)$.
#
# **Step 1: scores.** The score of a key is its **dot product** with the query, the sum of the products of their components. For *dog* it is $1 \cdot 2 + 0 \cdot 0 = 2$. The dot product is large if two vectors point the same way, zero if they are at right angles, and negative if they point in opposite directions. It also grows with their lengths.

# %%
query = torch.tensor([1.0, 0])  # (2,): something alive
scores = key @ query  # (5,)
for word, score in zip(words, scores, strict=True):
    print(f"{word:8} {score:4.1f}")

# %% [markdown]
# **Step 2: weights.** Scores can be negative, and their sum can be anything. The **softmax** turns them into **attention weights**: it takes the exponential of each score, which makes all of them positive and keeps their order, and divides by the sum. By hand: $e^2 \approx 7.39$, $e^{-1} \approx 0.37$, $e^0 = 1$ and $e^{-2} \approx 0.14$.

# %%
exponentials = scores.exp()
weights = exponentials / exponentials.sum()  # (5,)
print(exponentials, "sum", f"{exponentials.sum():.2f}")
print(weights)
assert_close(weights, scores.softmax(dim=0))

# %% [markdown]
# **Step 3: weighted sum.** Each value is multiplied by its weight, and the products are added. *Dog* contributes $0.75 \cdot (1, 0)$, *milk* $0.10 \cdot (0, 1)$, and the values of the others are zero.

# %%
weights @ value  # (2,): er, sie

# %% [markdown]
# A lot of *er*, a little *sie*: it was the dog. The two numbers don't add up to one, because some of the weight went to words whose value is zero. For the second sentence we change nothing but the query. What turned sour must be food, so the query is $(0, 1)$:

# %%
sour = torch.tensor([0.0, 1])
(key @ sour).softmax(dim=0) @ value  # (2,): er, sie

# %% [markdown]
# This time the answer is *sie*. The paper's formula also divides the scores by a constant; we leave that out until the section *Why the scores are scaled*.
#
# The figure below shows the entire first lookup. Read each row from left to right: key, score, weight, value. The weighted sum is at the bottom. The course's drawings of attention always use the same colours: **query blue, key orange, value green**.

# %% tags=["hide-input"]
from transformer.plots.soft_lookup import soft_lookup

Picture(
    soft_lookup("it", words, query, key, value),
    alt=(
        "The query of it, (1, 0), stands above a table of five words. Each row "
        "has a key, a score, a weight drawn as a bar, and a value. dog has score "
        "2 and by far the longest bar, 0.75; milk and it have 0.10. The weighted sum at "
        "the bottom is (0.75, 0.10)."
    ),
    caption=(
        "Attention as a soft lookup: the query's scores with all keys become "
        "weights, and the output is the weighted sum of the values."
    ),
)

# %% [markdown]
# **Now rotate the query yourself.** At 0° it looks for something alive, at 90° for food: watch the weights move from *dog* to *milk*, and the output from *er* to *sie*. Then change its length. With length 0 all scores are 0, and every word gets the same weight. The longer the query, the more weight goes to the best-matching key, until the soft lookup is practically a hard one.

# %% tags=["hide-input"]
from transformer.plots.rotate_query import rotate_query

Captioned(
    rotate_query(
        words,
        key,
        value,
        key_features=("alive", "food"),
        value_features=("er", "sie"),
        description=(
            "Five keys as orange arrows in a plane whose axes are alive and food, "
            "and the query as a blue one. Two sliders rotate the query and change "
            "its length; bars show each word's weight and the output for er and "
            "sie. At 0 degrees most weight is on dog and the output is mostly er, "
            "at 90 degrees on milk and sie; at length 0 all five weights are 0.20."
        ),
    ),
    (
        "A query among five keys, with its attention weights and output. The "
        "larger a key's circle, the more weight it has. Rotate the query towards dog "
        "or milk to raise its weight."
    ),
)

# %% [markdown]
# **Now move the values, too.** This figure has one plane for the query and three keys, and another for their values and the output: the thicker the line from the output to a value, the more weight the value has. Drag a dot, or select it with the Tab key and use the arrow keys. Make the query as long as you can: at which value does the output end up? Then shorten the query to nothing. Where is the output now, and can it ever leave the triangle? (Here the scores are divided by $\sqrt 2$, which makes the weights softer. You can turn that off.)
#
# <div class="widget" data-widget="attention">
#
# *This figure is interactive in the [online book](https://transformer-course.github.io/transformer-course/chapters/02_attention.html) (with JavaScript) and in the notebook (run the next cell). Its initial state:*
#
# The lookup of the query (1.2, 0.6), scores divided by $\sqrt{2}$. The output is (0.70, 1.25).
#
# | | key | score | weight | value |
# |---|---|---|---|---|
# | 1 | (2.0, -0.5) | 1.48 | 0.65 | (2.0, 1.5) |
# | 2 | (0.0, 1.8) | 0.76 | 0.32 | (-2.0, 1.0) |
# | 3 | (-1.5, -1.0) | -1.70 | 0.03 | (1.0, -2.0) |
#
# </div>
#
# <details><summary>Where the output goes</summary>
#
# With a long query, it ends up at the value whose key has the largest dot product. With a query of length zero, it is at the centre of the dashed triangle. It never leaves the triangle, because an average with positive weights always lies inside it.
#
# </details>
#
# ## Queries, keys and values are computed
#
# In a model, nobody writes keys by hand. Every word already has a vector $x$ of $d_\text{model}$ numbers: its embedding, or what earlier layers have made of it ([chapter 1](01_translation.ipynb)). Three trained matrices turn this one vector into three, one for each role:
#
# $$ q = x W^Q \qquad k = x W^K \qquad v = x W^V $$
#
# Queries and keys have $d_k$ numbers, values have $d_v$. So $W^Q$ and $W^K$ are $d_\text{model} \times d_k$ matrices, and $W^V$ is $d_\text{model} \times d_v$. Why three vectors? Because the roles differ. What makes *dog* findable (being alive), what *dog* contributes once it is found (*er*), and what *dog* itself is looking for are three different things. If one matrix served for queries and keys, the score of *dog* for *it* would equal that of *it* for *dog*.
#
# Say $d_\text{model} = 6$. Features 0 and 1 are the key from the example above, 2 and 3 the value, and 4 and 5 the query. The earlier layer has added *tired* to the vector of *it*, so *it* looks for something alive. The verb *left* looks for someone alive, who left, and for food, which was left behind.

# %%
x = torch.tensor(
    [  # alive, food, er, sie, looks for alive, looks for food
        [2.0, 0, 1, 0, 0, 0],  # dog
        [-1, -1, 0, 0, 1, 1],  # left
        [0, 2, 0, 1, 0, 0],  # milk
        [-2, -2, 0, 0, 0, 0],  # because
        [0, 0, 0, 0, 1, 0],  # it
    ]
)  # (length, d_model) = (5, 6)

# %% [markdown]
# So that you can check the products by eye, each of our matrices just picks out two features. Trained matrices combine all of them.

# %%
identity = torch.eye(6)
w_query, w_key, w_value = identity[:, 4:], identity[:, :2], identity[:, 2:4]
query, key, value = x @ w_query, x @ w_key, x @ w_value  # each (5, 2)
query

# %% [markdown]
# The last row is the query of *it* from above. Now that every word has a query, all five lookups together are **two matrix products**, with a softmax between them:

# %%
scores = query @ key.T  # (5, 5): rows are queries, columns are keys
weights = scores.softmax(dim=-1)  # (5, 5): each row sums to one
output = weights @ value  # (5, 2)
print("weights", weights[4])  # of "it"
print("output ", output[4])

# %% tags=["remove-cell"]
assert_close(
    weights[4], torch.tensor([0.75, 0.04, 0.10, 0.01, 0.10]), atol=0.005, rtol=0
)
assert_close(output[4], weights[4, [0, 2]])
assert_close(output[1], torch.tensor([0.46, 0.46]), atol=0.005, rtol=0)

# %% [markdown]
# The figure shows all matrices with their numbers. Follow the outlined row: it is the lookup of *it* that we did by hand. (Light cells of the weights mean more weight.) The row of *left* divides its attention between *dog* and *milk*, so its output is a mixture that doesn't show who left what; the next chapter is about this problem. The other three words have a query of zero, so they attend to everything equally. A softmax always hands out a total weight of one, even if nothing is relevant. In that case, trained models often put most of it on one uninformative token, an **attention sink** (see [What attention heads do](14_attention_heads.ipynb)).

# %% tags=["hide-input"]
from transformer.plots.attention_matrices import attention_matrices

Picture(
    attention_matrices(words, x, query, key, value, outlined=4),
    alt=(
        "The matrix X, 5 by 6, is multiplied by three matrices, which gives Q, K and "
        "V, each 5 by 2. Q times K transposed is a 5 by 5 matrix of scores. The "
        "softmax turns it into weights, and these times V are the outputs, 5 by 2. The "
        "row of it is outlined: scores 2, -1, 0, -2 and 0, weights 0.75, 0.04, 0.10, "
        "0.01 and 0.10, output 0.75 and 0.10. In the row of left, dog and milk "
        "each have a weight of 0.46. The rows of dog, milk and because are 0.20 throughout."
    ),
    caption=(
        "Self-attention as matrix products. A row belongs to a query, a column of the "
        "scores and weights to a key. “It” attends mostly to “dog”, and “left” equally "
        "to “dog” and “milk”."
    ),
)

# %% [markdown]
# **What happens to the output?** One more matrix ($W^O$ in the next chapter) turns it into $d_\text{model}$ numbers, which the residual connection adds to the vector of the word *it*. From then on, that vector also represents the noun behind the pronoun, and later layers can use this to choose between *er* and *sie*.
#
# **Who decides what *it* should attend to?** Nobody directly. There are no labels for attention weights. The loss compares predicted tokens with correct ones, and its gradient flows back through the weighted sum to $W^V$, and through the weights and the softmax to $W^Q$ and $W^K$. If more weight on *dog* makes the right token more probable, training changes these matrices so that *dog* gets more weight.
#
# We can watch this happen. In the following eight sentences, a dog or a cat left the cheese or the milk, because it was tired or sour. German calls the cat *sie* (*die Katze*) and the cheese *er* (*der Käse*), so *tired* and *sour* alone don't give away the pronoun: *it* has to find the right noun.

# %%
one_hot = torch.eye(2)
sentences, labels = [], []
for animal, food, sour in itertools.product((0, 1), repeat=3):
    sentence = x.clone()
    sentence[0, 2:4] = one_hot[animal]  # er (dog) or sie (cat)
    sentence[2, 2:4] = one_hot[food]  # er (cheese) or sie (milk)
    sentence[4, 4:] = one_hot[sour]  # it was tired or sour
    sentences.append(sentence)
    labels.append(food if sour else animal)  # 0: er, 1: sie
sentences = torch.stack(sentences)  # (8 sentences, 5 words, 6)
labels = torch.tensor(labels)  # (8,)

# %% [markdown]
# The three matrices start as small random numbers. The output of *it* serves as the logits of *er* and *sie*, and the loss sees nothing but the right pronoun. We print how much *it* attends to *dog* in the first sentence of this chapter, and to *milk* in the second (in the code, sentences 2 and 3 of the eight):

# %%
torch.manual_seed(0)
matrices = (0.1 * torch.randn(3, 6, 2)).requires_grad_()
optimizer = torch.optim.SGD([matrices], lr=1)
for step in range(51):
    q, k, v = (sentences @ matrix for matrix in matrices)  # (8, 5, 2)
    weights = (q @ k.transpose(1, 2)).softmax(dim=-1)  # (8, 5, 5)
    logits = (weights @ v)[:, 4]  # of "it", (8, 2)
    loss = F.cross_entropy(logits, labels)
    if step % 10 == 0:
        to_dog, to_milk = weights[2, 4, 0], weights[3, 4, 2]
        print(f"step {step:2}  loss {loss:.2f}", end="  ")
        print(f"dog {to_dog:.2f}  milk {to_milk:.2f}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% tags=["remove-cell"]
assert (logits.argmax(dim=-1) == labels).all() and loss < 0.1
found = [weights[i, 4, 2 if i % 2 else 0] for i in range(8)]  # the right nouns
assert min(found) > 0.9
for seed in range(5):
    torch.manual_seed(seed)
    start = (0.1 * torch.randn(3, 6, 2)).requires_grad_()
    other = torch.optim.SGD([start], lr=1)
    for step in range(51):
        q, k, v = (sentences @ matrix for matrix in start)
        weights = (q @ k.transpose(1, 2)).softmax(dim=-1)
        if step == 0:
            assert (weights[:, 4] - 0.2).abs().max() < 0.02
        other.zero_grad()
        F.cross_entropy((weights @ v)[:, 4], labels).backward()
        other.step()
    assert min(weights[i, 4, 2 if i % 2 else 0] for i in range(8)) > 0.9

# %% [markdown]
# At first *it* attends to all five words about equally. After 50 steps, it gives nearly all of its weight to the noun that we would look up, although no label mentions a noun or a weight.
#
# Has training found our matrices? Not these numbers, but the same rule. The score of a word $x'$ for a word $x$ is $q \cdot k = x\, W^Q {W^K}^\top x'^\top$, so only the product of the two matrices matters. Here are its rows for *looks for alive* and *looks for food*, and its columns for *alive* and *food*. Our own matrices have the identity there:

# %%
learned_query, learned_key, _ = matrices.detach()
(learned_query @ learned_key.T)[4:, :2]

# %% tags=["remove-cell"]
rule = (learned_query @ learned_key.T)[4:, :2]
assert rule.diag().min() > 1 and max(rule[0, 1], rule[1, 0]) < -0.3
assert torch.equal((w_query @ w_key.T)[4:, :2], torch.eye(2))

# %% [markdown]
# The diagonal is positive and the rest negative: what looks for something alive matches what is alive and not what is food, and the other way round.
#
# ## Why the scores are scaled
#
# We have left out only one step of the paper's formula: dividing the scores by $\sqrt{d_k}$. With it, we get **scaled dot-product attention** (§3.2.1, equation 1). The rows of $Q$, $K$ and $V$ are the queries, keys and values:
#
# $$ \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V $$
#
# With $n$ queries and $m$ keys, $Q$ is $n \times d_k$, $K$ is $m \times d_k$ and $V$ is $m \times d_v$. So $Q K^\top$ is $n \times m$, the softmax runs along its rows, and the output is $n \times d_v$.
#
# Why divide? In our example it would only lower the weight of *dog* from 0.75 to 0.60, but the paper's base model has $d_k = 64$ (§3.2.2). To see what happens there at the start of training, we draw random queries and keys whose components have mean 0 and variance 1, as the paper assumes in footnote 4. For each of 1,000 queries, we compute the scores of 16 keys:


# %%
def random_scores(d_k):
    query = torch.randn(1000, 1, d_k)
    key = torch.randn(1000, 16, d_k)
    return (query * key).sum(dim=-1)  # (1000, 16)


torch.manual_seed(0)
for d_k in (4, 16, 64, 256):
    deviation = random_scores(d_k).std().item()
    print(f"d_k = {d_k:3}: standard deviation {deviation:4.1f}")

# %% tags=["remove-cell"]
dog = (query @ key.T / math.sqrt(2)).softmax(dim=-1)[4, 0]  # "it", scaled
assert_close(dog, torch.tensor(0.60), atol=0.005, rtol=0)

# %% [markdown]
# The typical size of a score grows like $\sqrt{d_k}$, because a score is a sum of $d_k$ products. The two factors of each product are independent and have mean 0, so its variance is $\mathbb{E}[q^2]\,\mathbb{E}[k^2] = 1$. The variances of independent terms add up to $d_k$, so the standard deviation is $\sqrt{d_k}$.
#
# When you made the query longer, one weight took almost everything. Such a softmax is **saturated**, and the queries and keys behind it hardly learn (the values still do). The derivative of a weight $w$ with respect to its own score is $w (1 - w)$; with respect to the score of another key, whose weight is $w'$, it is $-w w'$. If one weight is near 1 and the others are near 0, all these products are near 0: whatever the loss is, almost none of its gradient gets through the softmax to the scores. This is what the paper suspects in §3.2.1.
#
# So for each query we take its largest weight $w$, and count the query as saturated if $w > 0.99$. We also compute $w (1 - w)$, which measures how strongly $w$ still reacts to its own score:


# %%
def saturation(d_k, divisor):
    scores = random_scores(d_k) / divisor
    w = scores.softmax(dim=-1).amax(dim=-1)  # (1000,)
    saturated = (w > 0.99).float().mean().item()
    return saturated, (w * (1 - w)).median().item()


torch.manual_seed(0)
sizes = [2**n for n in range(1, 11)]  # d_k = 2, 4, ..., 1024
unscaled = [saturation(d_k, 1) for d_k in sizes]
scaled = [saturation(d_k, math.sqrt(d_k)) for d_k in sizes]
for d_k in (64, 512):
    for name, line in (("unscaled", unscaled), ("scaled", scaled)):
        saturated, slope = line[sizes.index(d_k)]
        print(f"{d_k:3} {name:8} {saturated:4.0%} saturated,", end=" ")
        print(f"w(1 - w): {slope:.4f}")

# %% tags=["hide-input"]
from transformer.plots.curves import curves

labels = {"q·k": unscaled, "q·k / √$d_k$": scaled}
Row(
    Picture(
        curves(
            sizes,
            {label: [share for share, _ in line] for label, line in labels.items()},
            "$d_k$",
            "Share of saturated queries",
            log2_x=True,
        ),
        alt=(
            "Share of saturated queries against d_k from 2 to 1024. Without scaling "
            "it is almost 0 up to 8, 0.3 at 64 and 0.8 at 1024; divided by the root "
            "of d_k it is 0 throughout."
        ),
    ),
    Picture(
        curves(
            sizes,
            {label: [slope for _, slope in line] for label, line in labels.items()},
            "$d_k$",
            "$w (1 - w)$, median",
            log2_x=True,
        ),
        alt=(
            "Median of w (1 − w) against d_k from 2 to 1024. Without scaling it is "
            "about 0.2 up to 16, then falls to 0.06 at 64 and to almost 0 from 256 "
            "on. Divided by the root of d_k it is level at about 0.17."
        ),
    ),
    caption=(
        "How many of 1,000 queries are saturated, and how strongly the largest of "
        "16 weights reacts to its score. With scaling, both hardly depend on the width "
        "of the keys."
    ),
)

# %% tags=["remove-cell"]
at = dict(zip(sizes, unscaled, strict=True))
assert 0.28 < at[64][0] < 0.32 and 0.66 < at[512][0] < 0.71  # 3 in 10, two thirds
assert all(share == 0 for share, _ in scaled)
slopes = [slope for _, slope in scaled]
assert max(slopes[3:]) < 1.06 * min(slopes[3:]) and max(slopes) < 1.25 * min(slopes)
assert all(at[d_k][1] > slopes[i] for i, d_k in enumerate(sizes[:4]))  # up to 16
assert slopes[5] > 2 * at[64][1] and slopes[8] > 100 * at[512][1]


# The gradient with respect to the query (in the fold).
def query_gradients(d_k, divisor):
    query = torch.randn(1000, 1, d_k, requires_grad=True)
    scores = (query * torch.randn(1000, 16, d_k)).sum(dim=-1)
    largest = (scores / divisor).softmax(dim=-1).amax(dim=-1)
    (gradient,) = torch.autograd.grad(largest.sum(), query)
    return gradient.norm(dim=-1).flatten()


torch.manual_seed(0)
norms = {d_k: query_gradients(d_k, 1) for d_k in (64, 512)}
scaled_norms = {d_k: query_gradients(d_k, math.sqrt(d_k)) for d_k in (64, 512)}
assert norms[64].median() > 2 * scaled_norms[64].median()
assert norms[512].median() < scaled_norms[512].median() / 10
assert norms[512].quantile(0.9) > 5 * scaled_norms[512].median()
for norm in scaled_norms.values():
    assert norm.quantile(0.75) < 1.7 * norm.quantile(0.25)

# %% [markdown]
# The solid lines are without scaling. Up to $d_k = 16$ this does little harm, but at the paper's 64, three queries in ten are saturated, and at 512 more than two thirds. With scaling (dashed), none is, at any width. Training could in principle make $W^Q$ and $W^K$ smaller, but a saturated softmax passes back hardly any gradient to do so. **The division makes the softmax start equally soft at every width, so that the gradient can reach the scores, however wide the heads are.**
#
# <details><summary>And the gradient with respect to the query?</summary>
#
# Training changes the weights only through queries and keys. By the chain rule, the gradient of a weight with respect to its query is a sum of the keys, each multiplied by one of the derivatives above. Without scaling, these factors shrink as $d_k$ grows, but the keys get longer. So in very wide heads, most queries get almost no gradient and a few get a large one. In our setting, the median norm of this gradient is still higher without scaling than with it at $d_k = 64$, but less than a tenth as large at 512. With scaling, most queries get about the same.
#
# </details>
#
# **Why a dot product?** Before the Transformer, [Bahdanau et al. (2015)](https://arxiv.org/abs/1409.0473) scored a query and a key with a small network with one hidden layer. This is called **additive attention** (§3.2.1), because the query and the key are each multiplied by a matrix of their own, and the results are added. The paper says, citing [Britz et al. (2017)](https://arxiv.org/abs/1703.03906), that for large $d_k$ it does better than a dot product *without* scaling. But additive attention computes a hidden layer for every *pair* of a query and a key, whereas all dot products together are a single matrix product.
#
# ## The code
#
# **As loops.** This is slow, but leaves no doubt about what happens:


# %%
def attention_by_loops(query, key, value):
    output = torch.zeros(len(query), value.size(1))  # (n_query, d_v)
    for i, q in enumerate(query):
        scores = torch.zeros(len(key))  # (n_key,)
        for j, k in enumerate(key):
            for d in range(len(q)):
                scores[j] += q[d] * k[d]
        scores /= math.sqrt(len(q))
        weights = scores.exp() / scores.exp().sum()
        for j, v in enumerate(value):
            output[i] += weights[j] * v
    return output


# %% [markdown]
# **As matrix products.** For each query, the first `j` loop computes one row of $QK^\top$ (its inner loop is a dot product), and the last loop computes the product of its weights with $V$. The rows don't depend on each other, so the outer loop disappears as well.


# %%
def attention_by_matrices(query, key, value):
    scores = query @ key.T / math.sqrt(query.size(-1))  # (n_query, n_key)
    weights = scores.softmax(dim=-1)
    return weights @ value  # (n_query, d_v)


# %% [markdown]
# **In the package.** The course's own function also returns the weights:

# %%
from transformer.attention import attention

# %% tags=["remove-input"]
SourceCode(attention)

# %% [markdown]
# With `mask=None`, as in this chapter, only four lines run: `d_k = ...`, `scores = ...`, the first `weights = ...` and the last. They do the same as `attention_by_matrices`. Three things are new:
#
# - `key.transpose(-2, -1)` swaps only the last two dimensions, so any number of others may precede them: a batch of sentences with several heads, (batch, heads, length, $d_k$), needs no loop.
# - A `mask` excludes keys: their scores become so low that their weights are zero. [Masking](04_masking.ipynb) explains when this is needed, and why the weights are also multiplied by the mask.
# - `dropout` sets some of the weights to zero and scales up the others to make up for it. The caller passes a value above 0 only in training. The paper mentions no dropout of attention weights (§5.4), so the default is 0.
#
# PyTorch has this function, too: `scaled_dot_product_attention`. Where the hardware, the dtype and the mask allow it, it uses a **fused** implementation: a single program (on a GPU, a *kernel*) does all the steps without ever storing the matrix of weights. That saves time and memory, so the course's model calls it whenever the weights themselves aren't needed. All four versions of attention agree on random input:

# %%
torch.manual_seed(0)
q, k, v = torch.randn(3, 8), torch.randn(7, 8), torch.randn(7, 5)
expected = F.scaled_dot_product_attention(q, k, v)  # (3, 5)
assert_close(attention_by_loops(q, k, v), expected)
assert_close(attention_by_matrices(q, k, v), expected)
output, weights = attention(q, k, v)
assert_close(output, expected)
output.shape, weights.shape

# %% [markdown]
# ## Self-attention and cross-attention
#
# In our example, queries, keys and values all came from the same sentence. This is **self-attention**: the positions of a sequence attend to one another. But nothing in the formula requires it. When the decoder generates a German sentence, its queries come from the German words generated so far, and the keys and values from the encoder's output for the English sentence, the *memory*. This is **cross-attention** (§3.2.3), and it is how the source gets into the translation. Only the shapes change: the matrix of weights is no longer square.

# %%
german = torch.randn(3, 6)  # three German tokens so far: (3, d_model)
_, weights = attention(german @ w_query, x @ w_key, x @ w_value)
weights.shape  # (German queries, English keys)

# %% [markdown]
# ## Attention ignores the order of its inputs
#
# Permute the keys together with their values, and the output of a query is **invariant**: a sum doesn't depend on the order of its terms. In self-attention the queries are permuted, too, so each word takes its output along to its new position. Without a mask, self-attention is **permutation-equivariant**: its outputs are permuted in the same way as its inputs.

# %%
order = torch.tensor([4, 2, 0, 3, 1])
output, _ = attention(query, key, value)
invariant, _ = attention(query, key[order], value[order])
assert_close(invariant, output)
equivariant, _ = attention(query[order], key[order], value[order])
assert_close(equivariant, output[order])
print("each word has the same output in")
print(*words)
print(*[words[i] for i in order])

# %% [markdown]
# So attention alone, without a mask, can't tell *the dog left the milk* from *the milk left the dog*. The vectors themselves have to contain each word's position: see [Positional encoding](05_positional_encoding.ipynb) (§3.5).
#
# ## A head of a trained model
#
# *Optional: no later chapter builds on this section.*
#
# [Chapter 1](01_translation.ipynb) began with one head of a translator's decoder: head 2 of layer 3, which attends from the German words to the English ones. Now you can compute what this head does. The folded cell translates a caption and takes from the model what the head needs: the inputs of its layer, `german` and `english`, its matrices `w_query`, `w_key` and `w_value` with their biases `b_query`, `b_key` and `b_value`, and the weights that it really used, `recorded`.

# %% tags=["hide-input"]
import transformer
from transformer.data.tokenizer import BOS, EOS
from transformer.inspection import record_attention
from transformer.plots.heat_map import heat_map

translator = transformer.load("multi30k", device="cpu")
model, tokenizer = translator.model, translator.tokenizer
caption = "A dog runs across the field."
source = translator.encode(caption)
target = tokenizer.encode(translator.greedy_search([caption])[0])

layer = model.decoder[2].cross_attention  # layer 3, counting from 1
inputs = []
# PyTorch calls a hook with the layer's inputs.
hook = layer.register_forward_pre_hook(lambda _, args: inputs.extend(args))
with torch.no_grad(), record_attention(model) as all_weights:
    model(torch.tensor([source]), torch.tensor([[BOS, *target]]))
hook.remove()
german, english = (tensor[0] for tensor in inputs)  # of the only sentence
recorded = all_weights["decoder.2.cross_attention"][0, 1]  # of head 2

# The layer stores the matrices of its four heads together, transposed, as every
# nn.Linear does; head 2 has columns 32 to 63 of each.
head, linear = slice(32, 64), layer.query_key_value
w_query, w_key, w_value = (
    w[:, head].detach() for w in linear.weight.T.chunk(3, dim=1)
)
b_query, b_key, b_value = (b[head].detach() for b in linear.bias.chunk(3))
print("german ", tuple(german.shape), " w_query", tuple(w_query.shape))
print("english", tuple(english.shape), " b_query", tuple(b_query.shape))

# %% [markdown]
# The eight rows of `german` belong to the start token `<bos>` and to the seven tokens of the translation; the rows of `english` are the memory. Apart from the biases and the scaling, the computation is that of our example:

# %%
query = german @ w_query + b_query  # (8, 32)
key = english @ w_key + b_key  # (8, 32)
value = english @ w_value + b_value  # (8, 32)
output, weights = attention(query, key, value)
assert_close(weights, recorded)
output.shape  # (German tokens, d_v)

# %% [markdown]
# Our weights equal the recorded ones, and their heat map is the one from chapter 1. Each row is labelled with the token that the model predicts there, the one *after* the token whose query it is. So the row *Ein* is the query of `<bos>`: to predict *Ein*, the head attends to *dog*. For *über das Feld*, it attends to *field*.

# %% tags=["hide-input"]
rows, columns = (
    [piece.strip("▁") for piece in tokenizer.pieces(tokens)]
    for tokens in ([*target, EOS], source)
)
Picture(
    heat_map(weights, rows, columns, annotate=False),
    alt=(
        "Heat map of German by English tokens. Ein and Hund are light at dog, rennt "
        "at runs, and über, das and Feld are all light at field."
    ),
    caption=(
        "Attention weights of layer 3, head 2 of chapter 1's model, computed from its "
        "own matrices. A row is labelled with the German token that is predicted there."
    ),
)

# %% tags=["remove-cell"]
assert query.shape == key.shape == value.shape == (8, 32)
attended_to = [columns[i] for i in weights.argmax(dim=1)]
assert attended_to[:6] == ["dog", "dog", "runs", "field", "field", "field"]

# %% [markdown]
# ## What goes wrong in practice
#
# The worst bugs in attention raise no error. Here are three of them.
#
# **Softmax over the wrong dimension.** `dim=-2` normalises over the queries instead of the keys. Then the columns of the weights sum to one, not the rows:

# %%
scores = q @ k.T / math.sqrt(q.size(-1))  # (3, 7)
print("dim=-1, row sums:", scores.softmax(dim=-1).sum(dim=-1))
print("dim=-2, row sums:", scores.softmax(dim=-2).sum(dim=-1))

# %% [markdown]
# **`reshape` instead of `transpose`.** Both turn the five keys of our example, (5, 2), into a (2, 5) matrix. But `reshape` reads the numbers row by row and fills the new rows in the same order, so each column mixes numbers from different words. The weights still sum to one, but now it is the dog that is sour. (The scores are scaled here, so the right weight of *milk* is 0.60.)

# %%
key = torch.tensor([[2.0, 0], [-1, -1], [0, 2], [-2, -2], [0, 0]])  # (5, 2)
sour = torch.tensor([0.0, 1])  # looks for food
for name, matrix in (("transpose", key.T), ("reshape", key.reshape(2, 5))):
    weights = (sour @ matrix / math.sqrt(2)).softmax(dim=-1)
    print(f"{name}, highest weight for {words[weights.argmax()]}:")
    print(weights)

# %% tags=["remove-cell"]
assert words[weights.argmax()] == "dog"

# %% [markdown]
# **Overflow.** $e^{100}$ does not fit into a float32, so a softmax written straight from the formula, as in our loops, returns `nan`. The remedy is to subtract the largest score first. This divides numerator and denominator by the same factor, so the result is the same, but no exponential is larger than 1. PyTorch's `softmax` does this.

# %%
large = torch.tensor([100.0, 99.0, 0.0])
print("formula: ", large.exp() / large.exp().sum())
print("softmax: ", large.softmax(dim=0))

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. All keys are the same vector. What is the output?**
#
# <details><summary>A. The mean of all values</summary>
#
# **Right.** Equal keys have equal scores, whatever the query is, and the softmax gives them equal weights.
#
# </details>
# <details><summary>B. Zero, because no key stands out</summary>
#
# No. The weights always sum to one, so attention cannot return nothing. Here every value gets the same weight.
#
# </details>
# <details><summary>C. The value of the first word</summary>
#
# No. That would be a hard lookup that breaks ties. A softmax gives equal weights to equal scores.
#
# </details>
# <details><summary>D. It depends on the query</summary>
#
# No. The query decides *how large* the scores are, but they are all equally large, and only differences between scores matter to a softmax.
#
# </details>
#
# **2. *Dog* and *milk* swap their values but keep their keys. What changes for the query of *it*?**
#
# <details><summary>A. Only the weights</summary>
#
# No. The weights depend on queries and keys alone. In `attention_by_matrices`, `value` is used only in the last line.
#
# </details>
# <details><summary>B. Only the output</summary>
#
# **Right.** *It* still attends to *dog*, but *dog* now contributes *sie*.
#
# </details>
# <details><summary>C. Both</summary>
#
# No. The output changes, but the weights were computed before any value was used.
#
# </details>
# <details><summary>D. Neither</summary>
#
# No. The largest weight now belongs to the other value, so the output changes from *er* to *sie*.
#
# </details>
#
# **3. You make $d_k$ four times as large and forget to scale. How does the standard deviation of random scores change?**
#
# <details><summary>A. It stays the same</summary>
#
# No. That is what the division by √d_k would have achieved.
#
# </details>
# <details><summary>B. It doubles</summary>
#
# **Right.** It grows like √d_k, and √4 = 2. That is why the paper divides by √d_k. Dividing by d_k would bring the random scores of wide vectors close to zero, and all weights close to equal.
#
# </details>
# <details><summary>C. It becomes four times as large</summary>
#
# No. That is how the variance grows. The standard deviation is its square root, so it only doubles.
#
# </details>
# <details><summary>D. It becomes sixteen times as large</summary>
#
# No. For that, the variance would have to grow with the fourth power of d_k, but it grows with d_k itself.
#
# </details>
#
# **4. With pencil and paper: what is the output for the query $(1, 1)$ and our five words, without scaling?**
#
# <details><summary>Answer</summary>
#
# The scores are 2, −2, 2, −4 and 0. *Dog* and *milk* tie at $e^2 \approx 7.39$. The sum of the exponentials is $7.39 + 0.14 + 7.39 + 0.02 + 1 = 15.94$, so both get 0.46, and the output is about (0.46, 0.46). Check it with the sliders in *Attention by hand*: rotate the query to 45° and set its length to 1.4.
#
# </details>
#
# **5. A sentence gets twice as long. How much more time do its scores take, and how much more memory its weights?**
#
# <details><summary>Answer</summary>
#
# Four times as much of each: every query is compared with every key, so there are $n^2$ scores and $n^2$ weights. A fused kernel never stores the weights, which saves the memory, but it still computes them.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Fill in six blanks. The first three are about this chapter: the scores, the softmax and attention itself. The last three belong to [the next one](03_multi_head_attention.ipynb): splitting vectors into heads, joining the heads, and multi-head attention. Do them after you have read it. Each blank has a hint, and a check that tells you which mistake you made.
#
# - In Colab, where the last cell grades your answers:
#   [02_attention](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/02_attention.ipynb).
#   On GitHub: [02_attention.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/02_attention.ipynb).
# - On your machine, open `exercises/02_attention.ipynb`, fill in the blanks, then:
#
# ```bash
# python -m exercises grade attention
# ```
#
# Worked answers are on the [Solutions](../book/solutions.md) page.
#
# ## Going further
#
# - **The paper:** [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762) define scaled dot-product attention in §3.2.1; footnote 4 has the argument about the variance.
# - **Another divisor:** footnote 4 assumes that queries and keys are independent. Training makes them correlated, which is why [Yang et al. (2022)](https://arxiv.org/abs/2203.03466) divide by $d_k$, so that learning rates carry over from narrow models to wide ones.
# - **Where attention began:** [Bahdanau et al. (2015)](https://arxiv.org/abs/1409.0473) let a recurrent translator look back at every source word, and drew the weights as heat maps. [Luong et al. (2015)](https://aclanthology.org/D15-1166/) compare such additive scores with dot products.
# - **Soft lookup as memory access:** §3.3.1 of [Graves et al. (2014)](https://arxiv.org/abs/1410.5401).
# - **Attention without storing the weights:** [FlashAttention (Dao et al., 2022)](https://arxiv.org/abs/2205.14135), the idea behind the fused kernel.
# - **Do the weights explain a prediction?** [Jain and Wallace (2019)](https://aclanthology.org/N19-1357/) found that quite different weights often lead to the same prediction; [Wiegreffe and Pinter (2019)](https://aclanthology.org/D19-1002/) dispute their conclusion.
# - **Next:** A single attention operation returns only one weighted average for each query. But *left* had to find both *dog* and *milk*, and one average mixes the two answers. [Multi-head attention](03_multi_head_attention.ipynb) solves this.
