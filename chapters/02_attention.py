# %% [markdown]
# # Attention
#
# **You will be able to**
#
# - say what a query, a key and a value are, and compute attention with pencil and paper;
# - explain, with a measurement, why the scores are divided by $\sqrt{d_k}$;
# - write attention as loops and as two matrix products, and prove that both equal the package and PyTorch;
# - recognise by their numbers the mistakes that raise no error.
#
# **About 35 minutes.** It builds on vectors, the dot product and a little PyTorch. Nothing else.

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

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from transformer.plots.style import Picture, Row, SourceCode

torch.set_printoptions(precision=2, sci_mode=False)

# %% [markdown]
# ## The question
#
# Translate these two sentences into German:
#
# > The dog left the milk because **it** was tired.
# >
# > The dog left the milk because **it** was sour.
#
# German makes you choose. A dog is masculine (*der Hund*), so the tired one is **er**. Milk is feminine (*die Milch*), so the sour one
# is **sie**. The English word is the same both times; only another word, elsewhere in the sentence, settles it.
#
# So the vector of *it* needs something that stands at another place. How does it know **where to look**, and **what does it bring
# back**?

# %% [markdown]
# ## A dictionary that answers with a blend
#
# Looking something up is what a Python dictionary does. You hand in a **query**, it is compared with every **key**, and you get the
# **value** of the key that matches.

# %%
pronoun = {"dog": "er", "milk": "sie"}  # key: value
pronoun["dog"], pronoun.get("it", "no such key")

# %% [markdown]
# A hard lookup: one key matches and hands over everything, or none does and there is no answer. That will not do for us. "It" is
# no key, and *nearly right* cannot be expressed, so there is nothing a network could improve in small steps.
#
# A **soft lookup** always has an answer. It asks *how well* the query matches each key, turns the matches into shares that sum to one, and
# returns all the values, **blended in those shares**. That is attention. Three steps, and we do each by hand.

# %% [markdown]
# ## By hand
#
# We keep five words and leave out the small ones. Each has a **key** of two numbers, what it can be found by: *is it alive?* and *is it
# food?* And each has a **value** of two numbers, what it hands over: the pull towards *er* and towards *sie*.

# %%
words = ["dog", "left", "milk", "because", "it"]
key = torch.tensor([[2.0, 0], [-1, -1], [0, 2], [-2, -2], [0, 0]])  # (5, 2)
value = torch.tensor([[1.0, 0], [0, 0], [0, 1], [0, 0], [0, 0]])  # (5, 2)

# %% [markdown]
# In the first sentence *it* was tired, and only the living get tired. So the **query** of *it* asks for something alive: $(1, 0)$.
#
# **Step 1: match.** The score of a word is the dot product of the query with its key. For *dog*: $1 \cdot 2 + 0 \cdot 0 = 2$.

# %%
query = torch.tensor([1.0, 0])  # (2,): who is alive?
scores = key @ query  # (5,)
dict(zip(words, scores.tolist(), strict=True))

# %% [markdown]
# The dot product is a good measure of match: large when the two point the same way, zero when they have nothing to do with each other,
# negative when they disagree.
#
# **Step 2: share out.** Scores may be negative and sum to anything. The **softmax** makes shares of them: raise $e$ to each score, which
# makes them positive and keeps their order, then divide by the sum. By hand, $e^2 \approx 7.39$, $e^{-1} \approx 0.37$, $e^0 = 1$,
# $e^{-2} \approx 0.14$:

# %%
exps = scores.exp()
weights = exps / exps.sum()
print("exponentials", exps, "sum", f"{exps.sum():.2f}")
print("weights     ", weights)
assert_close(weights, scores.softmax(dim=0))

# %% [markdown]
# **Step 3: blend.** Each value counts by its weight. *dog* brings $0.75 \cdot (1, 0)$, *milk* brings $0.10 \cdot (0, 1)$, the others
# bring nothing.

# %%
weights @ value  # (2,): er, sie

# %% [markdown]
# Much *er*, little *sie*: the dog was tired. Now the other sentence. Nothing changes but the query. Something that turned sour
# was food, so it asks $(0, 1)$:

# %%
sour = torch.tensor([0.0, 1])
(key @ sour).softmax(dim=0) @ value  # (2,): er, sie

# %% [markdown]
# The same keys, the same values, another question, another answer: *sie*.

# %% [markdown]
# ## The picture
#
# Read it from the top: the query meets every key, the scores become weights, and the values flow together at the bottom.
# These colours stay through the whole course: **query blue, key orange, value green**.

# %% tags=["hide-input"]
from transformer.plots.soft_lookup import soft_lookup

Picture(
    soft_lookup("it", words, query, key, value),
    alt=(
        "The query of it, (1, 0), stands above a table of five words. Each row "
        "has a key, a score, a weight drawn as a bar, and a value. dog has score "
        "2 and by far the longest bar, 0.75; milk and it have 0.10. The blend at "
        "the bottom is (0.75, 0.10)."
    ),
)

# %% [markdown]
# **Now turn the query yourself.** At 0° it asks for something alive, at 90° for food. Watch the weights move from *dog* to *milk* and
# the blend from *er* to *sie*. Then stretch it. At length 0 it asks nothing, and everybody gets the same share. The longer it is, the more
# the winner takes: a very long query makes the soft lookup hard.

# %% tags=["hide-input"]
from transformer.plots.rotate_query import rotate_query

rotate_query(
    words,
    key,
    value,
    key_features=("alive", "food"),
    value_features=("er", "sie"),
    description=(
        "Five keys as orange arrows in a plane whose axes are alive and food, and "
        "the query as a blue one. Two sliders turn and stretch the query; bars "
        "below show each word's weight and the blend of er and sie. At 0 degrees "
        "the weight lies on dog and the blend on er, at 90 degrees on milk and "
        "sie; at length 0 all five weights are 0.20."
    ),
)

# %% [markdown]
# ## Where query, key and value come from
#
# Nobody writes keys by hand. Each word has one vector, and **three matrices make three vectors of it**, one for each part it plays:
#
# $$ q = x W^Q \qquad k = x W^K \qquad v = x W^V $$
#
# Say a word's vector has six features. The last two are what it asks for; *it* has read "tired" in an earlier layer and asks for
# something alive, and the verb *left* asks for both, who left and what was left.

# %%
x = torch.tensor(
    [  # alive, food, er, sie, asks: alive? food?
        [2.0, 0, 1, 0, 0, 0],  # dog
        [-1, -1, 0, 0, 1, 1],  # left
        [0, 2, 0, 1, 0, 0],  # milk
        [-2, -2, 0, 0, 0, 0],  # because
        [0, 0, 0, 0, 1, 0],  # it
    ]
)  # (5, 6)

# %% [markdown]
# Our three matrices only pick out columns, so that you can check them by eye. In a real model they are learned, and they mix all
# features. `query[4]` is the query of *it*; `key` and `value` are the tables from above.

# %%
pick = torch.eye(6)
w_key, w_value, w_query = pick.split(2, dim=1)  # each (6, 2)
assert torch.equal(x @ w_key, key) and torch.equal(x @ w_value, value)
query = x @ w_query  # (5, 2): one query for each word
query

# %% [markdown]
# Three roles, three matrices. Why not one vector for all? Because how a word is *found* (alive), what it *hands over* (er) and what it
# *asks for* are different things. *It* is hard to find, has nothing to give, and asks a good question.
#
# With a query for every word, all lookups fit in two matrix products. Row 4 is the lookup that we did by hand:

# %%
scores = query @ key.T  # (5, 5): row = query, column = key
weights = scores.softmax(dim=-1)  # (5, 5): each row sums to one
output = weights @ value  # (5, 2)
print(weights[4], output[4])

# %% [markdown]
# ## Why the scores are scaled
#
# One part of the formula is still missing, and two dimensions are too few to see why. Real queries and keys are longer; in the paper's
# base model each has $d_k = 64$ numbers (§3.2.2). Let us draw queries and keys at random, every number with mean 0 and variance 1, as
# they roughly are before training, and look at the scores: 1000 queries, 16 keys for each.


# %%
def random_scores(d_k):
    query, key = torch.randn(1000, 1, d_k), torch.randn(1000, 16, d_k)
    return (query * key).sum(dim=-1)  # (1000, 16)


torch.manual_seed(0)
for d_k in (4, 16, 64, 256):
    spread = random_scores(d_k).std()
    print(f"d_k {d_k:3}   √d_k {d_k**0.5:2.0f}   the scores spread {spread:4.1f}")

# %% [markdown]
# The spread (standard deviation) is $\sqrt{d_k}$. It has to be: a score is a sum of $d_k$ products, each with variance 1; variances of independent
# terms add up to $d_k$, and the standard deviation is the root of that (§3.2.1, footnote 4).
#
# What does a wide spread do to the softmax? You saw it when you stretched the query: the winner takes all. We measure two things.
#
# - **Entropy**, as a share of its maximum: 1 means that all 16 keys get the same weight, 0 that one key has it all.
# - **Gradient**: how much the winner's weight moves when the scores move a little. This is what training lives on.


# %%
def measure(scores):
    scores.requires_grad_()
    weights = scores.softmax(dim=-1)
    weights.amax(dim=-1).sum().backward()
    entropy = torch.special.entr(weights).sum(dim=-1) / math.log(16)
    gradient = scores.grad.norm(dim=-1)
    return entropy.median().item(), gradient.median().item()


# %%
torch.manual_seed(0)
sizes = [2**n for n in range(1, 11)]
plain = [measure(random_scores(d_k)) for d_k in sizes]
scaled = [measure(random_scores(d_k) / math.sqrt(d_k)) for d_k in sizes]
for d_k, (_, before), (_, after) in zip(sizes, plain, scaled, strict=True):
    print(f"d_k {d_k:4}   gradient {before:.5f}   divided by √d_k {after:.3f}")

# %% tags=["hide-input"]
from transformer.plots.curves import curves

entropy = {"q·k": [e for e, _ in plain], "q·k / √d": [e for e, _ in scaled]}
gradient = {"q·k": [g for _, g in plain], "q·k / √d": [g for _, g in scaled]}
Row(
    Picture(
        curves(
            sizes,
            gradient,
            "$d_k$",
            "Gradient of the winner's weight",
            log2_x=True,
        ),
        alt=(
            "Gradient against d_k from 2 to 1024. Without scaling it falls from "
            "d_k = 16 on and ends at zero; divided by the root it stays level."
        ),
    ),
    Picture(
        curves(
            sizes,
            entropy,
            "$d_k$",
            "Entropy, as a share of its maximum",
            log2_x=True,
        ),
        alt=(
            "Entropy against d_k from 2 to 1024. Without scaling it falls to "
            "zero; divided by the root of d_k it stays at about 0.86."
        ),
    ),
)

# %% [markdown]
# Short vectors do well without the division. At the base model's 64 numbers the typical gradient is down to less than half, at 512 it is
# gone. One key has all the weight, whichever the random start happened to favour, and a small step changes nothing. Divided by
# $\sqrt{d_k}$, both curves are level: **the softmax behaves the same
# at every width**. That is the claim, and here it is as a line that runs:

# %%
level = [g for _, g in scaled]
assert max(level) < 1.2 * min(level), "scaled: the same at every width"
assert plain[-1][1] < plain[0][1] / 1000, "unscaled: a thousandth is left"

# %% [markdown]
# The division only sets the start. A trained head may grow long queries and be as sharp as it needs, but it gets there by
# learning.
#
# Now the formula is complete (§3.2.1, equation 1):
#
# $$ \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\Big(\tfrac{Q K^\top}{\sqrt{d_k}}\Big) V $$

# %% [markdown]
# **In the book, move all the parts.** Drag a tip, or go to it with the Tab key and use the arrow keys. Make the query long with the division off: which value does the output land on? Then shorten it to nothing. Can the output ever leave the triangle of the values?
#
# <div class="widget" data-widget="attention">
#
# *With JavaScript, the book has a picture to play with here. This is how it begins.*
#
# The lookup of the query (1.2, 0.6), scores divided by $\sqrt{2}$. The output is (0.63, 1.24).
#
# | | key | score | weight | value |
# |---|---|---|---|---|
# | 1 | (2.0, -0.5) | 1.48 | 0.64 | (2.0, 1.5) |
# | 2 | (0.0, 2.0) | 0.85 | 0.34 | (-2.0, 1.0) |
# | 3 | (-1.5, -1.0) | -1.70 | 0.03 | (1.0, -2.0) |
#
# </div>

# %% [markdown]
# ## The code
#
# **First as loops**, one number at a time. Slow, and impossible to misunderstand.


# %%
def attention_by_loops(query, key, value):
    output = torch.zeros(len(query), value.size(1))  # (n_query, d_v)
    for i, q in enumerate(query):
        scores = torch.zeros(len(key))  # (n_key,)
        for j, k in enumerate(key):
            for d in range(len(q)):
                scores[j] += q[d] * k[d] / math.sqrt(len(q))
        weights = scores.exp() / scores.exp().sum()
        for j, v in enumerate(value):
            output[i] += weights[j] * v
    return output


# %% [markdown]
# **Then as matrices.** The two inner loops are a matrix product, and so is the last one; the loop over queries disappears because
# every row goes its own way.


# %%
def attention_by_matrices(query, key, value):
    scores = query @ key.T / math.sqrt(query.size(-1))  # (n_query, n_key)
    weights = scores.softmax(dim=-1)
    return weights @ value  # (n_query, d_v)


tables = (query, key, value)
assert_close(attention_by_matrices(*tables), attention_by_loops(*tables))

# %% [markdown]
# ## The package
#
# This is what the rest of the course runs on, shown from its own file. Three things are new. `...` and `transpose(-2, -1)` let any
# number of dimensions stand in front, a batch of sentences and several heads. There is a `mask`, the topic of
# [its own chapter](04_masking.ipynb). And `dropout`, which throws weights away while training, is off unless asked for.

# %%
from transformer.attention import attention, fused_attention

SourceCode(attention)

# %% [markdown]
# Four forms should give the same numbers: our loops, our matrices, the package, and PyTorch's `scaled_dot_product_attention`, which has
# *fused* kernels: where one fits the shapes, it does all in one step, without ever storing the weights. We don't hope, we check, on random input with different sizes everywhere, so
# that no two dimensions can be mixed up unnoticed.

# %%
torch.manual_seed(0)
q, k, v = torch.randn(3, 8), torch.randn(7, 8), torch.randn(7, 5)
output, weights = attention(q, k, v)
assert output.shape == (3, 5) and weights.shape == (3, 7)
ours, pytorch = fused_attention, F.scaled_dot_product_attention
for other in (attention_by_loops, attention_by_matrices, ours, pytorch):
    assert_close(other(q, k, v), output)
    print(f"{other.__name__:30} equal")

# %% [markdown]
# And with a batch of 2 sentences and 4 heads in front, without changing a line:

# %%
many = torch.randn(3, 2, 4, 6, 16)  # three times (batch, heads, length, d_k)
output, weights = attention(*many)
assert_close(pytorch(*many), output)
output.shape, weights.shape

# %% [markdown]
# ## Who looks at whom
#
# Here are the weights of our sentence, every word's lookup at once. A row is a query, and sums to one. *It* looks at *dog*.
# *Left* looks at *dog* and *milk*, who left and what was left. *Dog*, *milk* and *because* ask nothing, so they look everywhere
# alike.

# %%
output, weights = attention(query, key, value)
assert_close(weights.sum(dim=-1), torch.ones(5))

# %% tags=["hide-input"]
from transformer.plots.heat_map import heat_map

Picture(
    heat_map(weights, words, words),
    alt=(
        "Heat map of five queries by five keys. In the row of it, dog has the "
        "largest weight. In the row of left, dog and milk share most of it. The "
        "rows of dog, milk and because are 0.20 throughout."
    ),
)

# %% [markdown]
# In the row of *it*, *dog* has less than the 0.75 from above: that was without the division by $\sqrt{2}$.

# %% [markdown]
# ## Self-attention and cross-attention
#
# So far queries, keys and values came from the **same** sentence: **self-attention**, a sentence reading itself. Nothing in the formula
# demands it. When the German sentence is being written, its words ask, and the **English** words answer: queries from the target, keys
# and values from the source. That is **cross-attention**, the bridge between the two languages (§3.2.3). The code is the same; only the
# weights are no longer square.

# %%
german = torch.randn(3, 6)  # three German words so far, d_model = 6
_, weights = attention(german @ w_query, x @ w_key, x @ w_value)
weights.shape  # (German queries, English keys)

# %% [markdown]
# **A look ahead.** One softmax makes one blend. But *it* may want to know its gender, its verb and its neighbour, all at once, and
# a blend of three answers is mush. So the Transformer runs several attentions side by side, each with its own three smaller
# matrices: **multi-head attention** (§3.2.2), the topic of [the next chapter](03_multi_head_attention.ipynb).

# %% [markdown]
# ## What goes wrong in practice
#
# The worst attention bugs raise no error: all shapes fit, the loss even falls a little. Here are three, each with the number that gives it away.
#
# **Softmax over the wrong axis.** `dim=-2` shares out each key among the queries, instead of each query among the keys. Our three random
# queries and seven keys from above give it away: now the seven columns sum to one each, so the three rows sum to seven altogether.

# %%
scores = q @ k.T / math.sqrt(8)  # (3, 7)
print("right:", scores.softmax(dim=-1).sum(dim=-1))
print("wrong:", scores.softmax(dim=-2).sum(dim=-1))

# %% [markdown]
# **`reshape` in place of a transpose.** Both make a (2, 5) matrix of the five keys. But `reshape` keeps the numbers in reading order and
# pours them into new rows, so each column holds pieces of different words. The weights still sum to one. Only, the sour one is
# the dog now.

# %%
for name, turned in (("transpose", key.T), ("reshape", key.reshape(2, 5))):
    weights = (sour @ turned / math.sqrt(2)).softmax(dim=-1)
    print(f"{name:10} it looks most at {words[weights.argmax()]:5}", weights)

# %% [markdown]
# **A softmax written as in the textbook.** $e^{100}$ does not fit into a float32. Subtracting the largest score first changes no share
# (it multiplies top and bottom by the same number) and keeps every exponential at 1 or below. `softmax` does it for you.

# %%
large = torch.tensor([100.0, 99.0, 0.0])
print("textbook:", large.exp() / large.exp().sum())
print("softmax: ", large.softmax(dim=0))

# %% [markdown]
# **And one that is no bug, but surprises everyone:** attention does not know the order of the words. Shuffle the keys together with their
# values, and the output stays the same. Position has to be put into the vectors: see [Positional encoding](05_positional_encoding.ipynb) (§3.5).

# %%
shuffled = torch.tensor([4, 2, 0, 3, 1])
output, _ = attention(query, key, value)
output_shuffled, _ = attention(query, key[shuffled], value[shuffled])
assert_close(output_shuffled, output)
print("the same output for", *words, "/", *[words[i] for i in shuffled])

# %% [markdown]
# ## Questions
#
# Click an answer to see why it is right or wrong.
#
# **1. All keys are the same vector. What comes out?**
#
# <details><summary>A. The mean of all values</summary>
#
# **Right.** Equal keys give equal scores, whatever the query; the softmax makes equal shares of them.
#
# </details>
# <details><summary>B. Zero, because nothing stands out</summary>
#
# No. The weights always sum to one, so something always comes back: here, an equal share of everything.
#
# </details>
# <details><summary>C. The value of the first word</summary>
#
# No. That would be a hard lookup that breaks ties. The softmax has no such preference: equal scores get equal weights.
#
# </details>
# <details><summary>D. It depends on the query</summary>
#
# No. The query decides *how large* the scores are, but they are all equally large, and the softmax only sees differences.
#
# </details>
#
# **2. *Dog* and *milk* swap their values but keep their keys. What changes for the query of *it*?**
#
# <details><summary>A. Only the weights</summary>
#
# No. Weights come from queries and keys alone. Look at the code: `value` appears only in its last line.
#
# </details>
# <details><summary>B. Only the blend</summary>
#
# **Right.** *It* still looks at *dog*, and *dog* now hands over *sie*.
#
# </details>
# <details><summary>C. Both</summary>
#
# No. The blend changes, but where to look was settled before any value was touched.
#
# </details>
# <details><summary>D. Neither</summary>
#
# No. The largest weight now falls on the other value, so the blend turns from *er* to *sie*.
#
# </details>
#
# **3. You make $d_k$ four times as large and forget to scale. The spread of the random scores becomes**
#
# <details><summary>A. the same</summary>
#
# No. That is what dividing by √d_k would have given you.
#
# </details>
# <details><summary>B. twice as large</summary>
#
# **Right.** It grows with √d_k, and √4 = 2.
#
# </details>
# <details><summary>C. four times as large</summary>
#
# No. That is the variance. The spread is its root, because the random terms partly cancel each other.
#
# </details>
# <details><summary>D. sixteen times as large</summary>
#
# No. This would need the variance to grow with the fourth power of d_k; it grows with d_k itself.
#
# </details>
#
# **4. With pencil and paper: what does the query $(1, 1)$ find in our five words, without scaling?**
#
# <details><summary>Answer</summary>
#
# The scores are 2, −2, 2, −4, 0. *Dog* and *milk* tie at $e^2 \approx 7.39$; the sum is $7.39 + 0.14 + 7.39 + 0.02 + 1 = 15.94$, so each has
# 0.46, and the blend is about (0.46, 0.46). Check it above: turn the query to 45° and stretch it to 1.4.
#
# </details>
#
# **5. A sentence gets twice as long. How do the time and the memory for the weights grow?**
#
# <details><summary>Answer</summary>
#
# Fourfold, both: every query meets every key, so there are $n^2$ weights. The fused form never stores them, which saves the memory, but it
# computes them all the same.
#
# </details>

# %% [markdown]
# ## Exercises
#
# Six blanks: the scores, the softmax, attention itself, and then a step further than this chapter, to several heads. Each has a check
# that says what is wrong, and a hint.
#
# - In Colab:
#   [02_attention](https://colab.research.google.com/github/transformer-course/transformer-course/blob/main/exercises/02_attention.ipynb).
#   On GitHub: [02_attention.ipynb](https://github.com/transformer-course/transformer-course/blob/main/exercises/02_attention.ipynb).
# - On your machine, open `exercises/02_attention.ipynb`, fill the blanks, then:
#
# ```bash
# python -m exercises grade attention
# ```
#
# How they can be written stands, folded, under [Solutions](../book/solutions.md).

# %% [markdown]
# ## Going further
#
# - **The source of it all:** scaled dot-product attention is §3.2.1 of {cite}`vaswani2017`; its footnote 4 has the argument
#   about the variance that we measured.
# - **Where soft lookup began:** {cite}`bahdanau2015` let a translator look back at every source word, and drew what it looked at as
#   heat maps. Their match is a small network; {cite}`luong2015` compares it with the dot product.
# - **Reading from a memory by content**, with a sharpness that the network sets itself: §3.3.1 of {cite}`graves2014`.
# - **How to compute it without storing the weights:** {cite}`dao2022`, the idea behind the fused form.
# - **Is a weight an explanation?** {cite}`jain2019` found that quite different weights often give the same prediction: read heat maps with
#   care.
