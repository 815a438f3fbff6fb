"""The checks themselves: what is right passes, and each wrong answer that has a name is called by it."""

import contextlib
import hashlib
import itertools
import math
import re
import resource
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from exercises import check as check_module
from exercises import limits
from exercises.calls import call
from exercises.check import Exercise, Mistake, Topic, TrainingExercise, WrongAnswerError
from exercises.checks import (
    attention,
    attention_heads,
    capstone,
    data_and_batching,
    decoding,
    evaluation,
    full_model,
    gpu_performance,
    label_smoothing,
    layers,
    masking,
    multi_head_attention,
    positional_encoding,
    subword_tokenization,
    train_your_own,
    training,
    transformer_family,
    translation,
    wmt14,
)
from exercises.compare import describe_difference, equal, to_builtin, type_with_article
from exercises.formatting import format_inputs
from exercises.limits import LimitReached
from exercises.notebooks import ROOT
from exercises.tensors import tables_side_by_side
from transformer import decoding as package_decoding
from transformer.attention import MultiHeadAttention
from transformer.attention import attention as package_attention
from transformer.config import ModelConfig
from transformer.data.batching import Batches, Sequences, pad
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.evaluation import metrics as package_evaluation
from transformer.inspection import ablate_heads, count_flops, record_attention
from transformer.layers import FeedForward
from transformer.loss import label_smoothed_cross_entropy
from transformer.masks import causal_mask as package_causal_mask
from transformer.model import Transformer
from transformer.plots.roofline import GPUS, Operation, arithmetic_intensity, attainable_teraflops, ridge_point

TOPICS = {
    "translation": translation.topic,
    "attention": attention.topic,
    "multi_head_attention": multi_head_attention.topic,
    "masking": masking.topic,
    "decoding": decoding.topic,
    "evaluation": evaluation.topic,
    "training": training.topic,
    "positional_encoding": positional_encoding.topic,
    "label_smoothing": label_smoothing.topic,
    "layers": layers.topic,
    "subword_tokenization": subword_tokenization.topic,
    "full_model": full_model.topic,
    "attention_heads": attention_heads.topic,
    "data_and_batching": data_and_batching.topic,
    "transformer_family": transformer_family.topic,
    "gpu_performance": gpu_performance.topic,
    "wmt14": wmt14.topic,
    "capstone": capstone.topic,
    "train_your_own": train_your_own.topic,
}
ALL = [exercise for topic in TOPICS.values() for exercise in topic.exercises.values()]
TRIALS = [exercise for exercise in ALL if isinstance(exercise, TrainingExercise)]
"""They train a model, and have tests of their own."""
EXERCISES = [exercise for exercise in ALL if exercise not in TRIALS]
MISTAKES = [(exercise, mistake) for exercise in EXERCISES for mistake in exercise.mistakes]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_reference_is_right_and_enough_mistakes_are_known(exercise: Exercise) -> None:
    assert exercise.judge(exercise.reference) is None
    messages = [(mistake.title, mistake.hint) for mistake in exercise.mistakes]
    if exercise.given_code is not None:
        messages = [*set(messages)]  # several combinations of bugs have the same message
    titles = [title for title, _ in messages]
    assert len(set(titles)) == len(titles) >= 5


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES, ids=[f"{e.name}: {m.title}" for e, m in MISTAKES])
def test_every_named_mistake_is_rejected_and_named(exercise: Exercise, mistake: Mistake) -> None:
    assert exercise.judge(mistake.function) == f"{mistake.title}\n{mistake.hint}"


def test_hints_do_not_give_the_answer_away() -> None:
    code = "transpose( softmax( sqrt( keepdim= tril( masked_fill( finfo( [:, unflatten( topk( reverse=".split()
    code += "[1: argmax .exp( tuple( **- flatten( .mean( square( gather( reduction= ignore_index=".split()
    code += "chunk( repeat_interleave( einsum( F.linear unsqueeze(".split()
    assert [m.title for _, m in MISTAKES for word in code if word in m.hint] == []


def test_help_quotes_what_the_checks_say() -> None:
    for path in (ROOT / "solutions").glob("*.py"):
        exercises = TOPICS[path.stem[3:]].exercises.values()
        lengths = [(e.results, n) for e in exercises for n in (1, 2, 3) if n != len(e.results)]
        messages = [describe_difference(names, (0,) * n, (0,) * len(names))[0] for names, n in lengths]
        quoted = re.findall(r"<code>(it returns .+?)</code>", path.read_text("utf-8"))
        assert set(quoted) <= set(messages), path


def test_the_readme_quotes_what_a_check_says() -> None:
    def attention_scores(query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / query.size(-1)

    with pytest.raises(WrongAnswerError) as error:
        attention.check("attention_scores", attention_scores)
    assert f"```text\n{error.value}\n```" in (ROOT / "README.md").read_text("utf-8")


def test_references_are_the_package() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 3)
    nn.init.zeros_(layer.query_key_value.bias)
    x, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    matrices = [w.T for w in layer.query_key_value.weight.chunk(3)] + [layer.output.weight.T]
    output = attention.multi_head_attention.reference(x, memory, *matrices, 3) + layer.output.bias
    torch.testing.assert_close(output, layer(x, memory))
    torch.testing.assert_close(attention.split_heads.reference(x, 3), layer.split_heads(x))
    torch.testing.assert_close(attention.join_heads.reference(layer.split_heads(x)), x)

    query, key, mask = torch.randn(2, 3, 4, 6), torch.randn(2, 3, 5, 6), torch.rand(2, 1, 4, 5) > 0.7
    scores = attention.attention_scores.reference(query, key)
    weights = package_attention(query, key, key, mask)[1]
    torch.testing.assert_close(masking.masked_softmax.reference(scores, mask), weights)
    torch.testing.assert_close(attention.softmax.reference(scores), package_attention(query, key, key)[1])
    of_blank = attention.scaled_dot_product_attention.reference(query, key, key)
    torch.testing.assert_close(of_blank, package_attention(query, key, key))


def test_a_layer_is_the_packages_and_costs_what_is_counted() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 3, implementation="explicit").requires_grad_(False)
    x, memory = torch.randn(1, 4, 12), torch.randn(1, 5, 12)
    query, (key, value) = layer.project(x)
    projected = multi_head_attention.query_key_value.reference(
        x, layer.query_key_value.weight, layer.query_key_value.bias
    )
    for ours, theirs in zip(projected, (query, key, value), strict=True):
        torch.testing.assert_close(ours, layer.join_heads(theirs))

    heads = package_attention(query, key, value)[0]
    answers = multi_head_attention.head_contributions.reference(heads, layer.output.weight)
    torch.testing.assert_close(answers.sum(1) + layer.output.bias, layer(x))

    with FlopCounterMode(display=False) as counter:
        layer(x, memory)
    weights_of_heads = 3 * 4 * 5
    counted = sum(p.numel() for p in layer.parameters()), counter.get_total_flops() // 2, weights_of_heads
    assert multi_head_attention.layer_cost.reference(4, 5, 12, 3) == counted


def test_searches_find_what_the_packages_do() -> None:
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=14, d_model=16, n_heads=2, n_layers=1, d_ff=32, max_length=6)
    model = Transformer(config).eval().requires_grad_(False)
    model.unembedding.weight *= 2  # an opinion
    for source in torch.randint(4, 14, (8, 1, 5)):

        def next_log_probs(tokens: list[int], source: Tensor = source) -> Tensor:
            log_probs = model(source, torch.tensor([tokens]))[0, -1].log_softmax(dim=-1)
            at_limit = len(tokens) == 6
            return torch.where(torch.arange(14) == EOS if at_limit else torch.arange(14) > BOS, log_probs, -torch.inf)

        ((found,),) = package_decoding.beam_search(model, source, beam_size=3, length_penalty=0.6)
        assert decoding.beam_search.reference(next_log_probs, BOS, EOS, 3, 0.6, 6) == found.tokens
        (greedy,) = package_decoding.greedy_search(model, source)
        assert decoding.greedy_search.reference(next_log_probs, BOS, EOS, 5) == greedy


def test_scores_are_sacrebleus() -> None:
    without_smoothing = BLEU(tokenize="none", smooth_method="none", force=True)
    for inputs in evaluation.corpus_bleu.inputs:
        hypotheses, references = ([" ".join(words) for words in side] for side in inputs.values())
        expected = without_smoothing.corpus_score(hypotheses, [references])
        assert math.isclose(evaluation.corpus_bleu.reference(**inputs), expected.score)
    for inputs in evaluation.chrf.inputs:
        expected = package_evaluation.chrf([inputs["hypothesis"]], [inputs["reference"]]).value
        assert math.isclose(evaluation.chrf.reference(**inputs), expected)


def test_training_is_pytorchs() -> None:
    inputs = training.batch_loss.inputs[1]
    logits, expected = inputs["logits"], inputs["expected"]
    by_torch = nn.functional.cross_entropy(logits.flatten(0, 1), expected.flatten(), ignore_index=inputs["pad_id"])
    torch.testing.assert_close(training.batch_loss.reference(**inputs), by_torch)

    weight = nn.Parameter(torch.randn(3, 2, generator=torch.Generator().manual_seed(0)))
    optimizer = torch.optim.Adam([weight], lr=0.1, betas=(0.9, 0.98), eps=1e-9)
    mine, m, v = weight.detach().clone(), torch.zeros(3, 2), torch.zeros(3, 2)
    for step in range(1, 6):
        weight.grad = torch.full((3, 2), 1.0 / step).tril() - 0.5
        mine, m, v = training.adam_step.reference(mine, weight.grad, m, v, step, 0.1)
        optimizer.step()
        torch.testing.assert_close(mine, weight.detach())


def test_heads_are_off_as_in_the_package() -> None:
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=9, d_model=12, n_heads=3, n_layers=1, d_ff=8)).eval()
    name, x = "encoder.0.self_attention", torch.randn(2, 4, 12)
    layer = model.get_submodule(name)
    assert isinstance(layer, MultiHeadAttention)
    nn.init.normal_(layer.output.bias)
    with torch.no_grad(), record_attention(model) as weights, ablate_heads(model, {name: [0, 2]}):
        silenced = layer(x)
    heads = weights[name] @ layer.project(x)[1].value
    by_reference = attention_heads.heads_off.reference(heads, [0, 2], layer.output.weight.T, layer.output.bias)
    torch.testing.assert_close(by_reference, silenced)


def test_batches_are_read_on_and_wasted_as_the_packages_are() -> None:
    ids = Sequences.pack([[5] * (1 + 7 * i % 13) for i in range(60)])
    plans = [[rows.tolist() for rows in Batches(ids, ids, 40, seed=3, epoch=epoch).plan] for epoch in range(4)]
    lengths = [len(ids[i]) + 1 for i in range(60)]
    for plan in plans:
        padding = [pad([[5] * lengths[i] for i in rows]) == PAD for rows in plan]
        share = sum(int(p.sum()) for p in padding) / sum(p.numel() for p in padding)
        assert math.isclose(data_and_batching.padding_share.reference(lengths, plan), share)

    count = len(plans[1]) + 5
    for step in (0, 2, len(plans[0])):
        batches = Batches(ids, ids, 40, seed=3, batch_index=step)
        read = [next(batches).source for _ in range(count)]
        numbers = data_and_batching.read_on.reference(lambda e: plans[e], 0, step, count)
        assert [(row == 5).sum(1).tolist() for row in read] == [[len(ids[i]) for i in rows] for rows in numbers]


def test_masks_losses_and_weights_are_those_of_the_family() -> None:
    n_prefix = torch.tensor([0, 5])
    causal, everything = transformer_family.prefix_mask.reference(n_prefix, 5)[:, 0]
    assert torch.equal(causal, package_causal_mask(5)[0, 0]) and everything.all()

    model = Transformer(ModelConfig(vocab_size=9, d_model=12, n_heads=3, n_layers=1, d_ff=8, norm="pre")).eval()
    ids = torch.tensor([[BOS, 5, 6, EOS], [BOS, 7, EOS, PAD]])
    logits = model(torch.full((2, 1), PAD), ids)
    by_package = label_smoothed_cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), 0.0, pad_id=PAD) / 5
    torch.testing.assert_close(transformer_family.causal_lm_loss.reference(logits, ids, PAD), by_package)

    theirs, layer, x = nn.Linear(12, 36), MultiHeadAttention(12, 3), torch.randn(2, 4, 12)
    for name, weight in theirs.state_dict().items():
        layer.query_key_value.get_parameter(name).data = transformer_family.reorder_query_key_value.reference(weight, 3)
    split_by_them = theirs(x).view(2, 4, 3, 12).transpose(1, 2).chunk(3, dim=-1)  # GPT-NeoX's own code
    query, (key, value) = layer.project(x)
    for ours, their_own in zip((query, key, value), split_by_them, strict=True):
        torch.testing.assert_close(ours, their_own)


def test_limits_are_those_of_the_roofline() -> None:
    x, weight = torch.empty(64, 512, device="meta"), torch.empty(512, 2048, device="meta")
    product = Operation("product", 2 * 512 * 2048, 2 * (512 + 2048), 2 * weight.numel())
    for gpu in GPUS.values():
        limits = gpu_performance.roofline.reference(64, 512, 2048, gpu.teraflops * 1e12, gpu.bandwidth * 1e9)
        intensity = arithmetic_intensity(product, 64)
        with FlopCounterMode(display=False) as counter:
            x @ weight
        seconds = counter.get_total_flops() / (attainable_teraflops(gpu, intensity) * 1e12)
        assert limits == pytest.approx((intensity, seconds, intensity > ridge_point(gpu)))


def test_a_loop_of_the_online_softmax_is_a_softmax() -> None:
    scores = 50 * torch.randn(3, 10, generator=torch.Generator().manual_seed(0))
    maximum, total = torch.full((3,), -math.inf), torch.zeros(3)
    for block in scores.split(4, dim=1):
        maximum, total = gpu_performance.update_softmax.reference(maximum, total, block)
    torch.testing.assert_close((scores - maximum[:, None]).exp() / total[:, None], scores.softmax(-1))


def test_the_scale_is_that_of_gradscaler() -> None:
    weight, scale, good_steps = nn.Parameter(torch.tensor([1.0, 2.0])), 64.0, 0
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)
    mine = weight.detach().clone()
    for gradient in ([8.0, 4.0], [math.inf, 1.0], [2.0, 2.0], [1.0, 1.0], [4.0, 3.0], [math.nan, 0.0], [5.0, 6.0]):
        scaler.scale(torch.zeros(()))  # makes it set up its scale
        weight.grad = torch.tensor(gradient)
        scaler.step(optimizer)
        scaler.update()
        mine, scale, good_steps = gpu_performance.loss_scaling_step.reference(
            mine, torch.tensor(gradient).half(), 0.1, scale, good_steps, 3
        )
        torch.testing.assert_close(mine, weight.detach())
        assert scale == scaler.get_scale()


def test_several_gpus_compute_the_gradient_of_one() -> None:
    torch.manual_seed(0)
    x, labels, weight = torch.randn(20, 3), torch.randint(5, (20,)), torch.randn(5, 3)

    def gradient(begin: int, end: int) -> Tensor:
        loss_of = lambda w: nn.functional.cross_entropy(x[begin:end] @ w.T, labels[begin:end])  # noqa: E731
        return torch.func.grad(loss_of)(weight)

    by_batch = [[gradient(0, 4), gradient(4, 11)], [gradient(11, 12), gradient(12, 20)]]
    together = gpu_performance.step_gradient.reference(by_batch, [[4, 7], [1, 8]])
    torch.testing.assert_close(together, gradient(0, 20))


def whole_table(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    e = (query @ key.mT / math.sqrt(key.size(-1))).exp()
    return e @ value / e.sum(-1, keepdim=True)


def joined_table(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    table = torch.cat([query @ k.mT / math.sqrt(key.size(-1)) for k in key.split(block, -2)], -1)
    return table.softmax(-1) @ value


@pytest.mark.parametrize("answer", [whole_table, joined_table])
def test_flashattention_never_has_all_scores(answer: Any) -> None:
    said = message("blockwise_attention", answer)
    assert said.startswith(
        "✗ blockwise_attention: the scores of too many keys at once\nYour code makes a table of shape (3, 6), "
    )
    fused = message("blockwise_attention", lambda q, k, v, *_: nn.functional.scaled_dot_product_attention(q, k, v))
    assert fused.startswith("✗ blockwise_attention: a ready-made function\n")


def test_a_runs_arithmetic_and_its_parts_are_the_packages() -> None:
    config = ModelConfig(vocab_size=40, d_model=8, n_heads=2, n_layers=2, d_ff=12)
    model = Transformer(config)
    with count_flops(model) as counter:
        model(torch.randint(4, 40, (1, 7)), torch.randint(4, 40, (1, 5))).sum().backward()
    assert wmt14.training_flop.reference(8, 12, 2, 40, 7, 5) == counter.get_total_flops()

    ids = Sequences.pack([[5] * (1 + 7 * i % 13) for i in range(60)])
    one_gpu = Batches(ids, ids, 40, seed=3, gradient_accumulation_steps=4)
    plan = [rows.tolist() for rows in one_gpu.plan]
    for step in (0, 1, 2):
        for rank in (0, 1):
            batches = Batches(ids, ids, 40, 3, rank, world_size=2, gradient_accumulation_steps=2, batch_index=2 * step)
            left = wmt14.parts_left.reference(plan, step, rank, 2, 2)
            assert len(left) == len(plan) // 2 - 2 * step
            assert [rows.tolist() for rows in batches.plan[batches.batch_index :]] == left
            read = [next(batches).labels for _ in left]
            assert all(
                torch.equal(labels, one_gpu.collate(rows).labels) for labels, rows in zip(read, left, strict=True)
            )


def as_the_package_has_it(model: capstone.Model, **settings: Any) -> Transformer:
    """The package's model with the capstone's weights."""
    (size, width), first = model.embedding.weight.shape, model.encoder[0]
    assert isinstance(first, capstone.EncoderLayer)
    config = ModelConfig(size, width, first.attention.n_heads, first.inner.out_features, len(model.encoder), **settings)
    package = Transformer(config).eval().requires_grad_(False)
    package.source_embedding.weight.copy_(model.embedding.weight)
    for mine, theirs in zip([*model.encoder, *model.decoder], [*package.encoder, *package.decoder], strict=True):
        attentions = [part for part in mine.children() if isinstance(part, capstone.Attention)]
        of_package = [part for part in theirs.children() if isinstance(part, MultiHeadAttention)]
        for one, other in zip(attentions, of_package, strict=True):
            three = one.query, one.key, one.value
            other.query_key_value.weight.copy_(torch.cat([layer.weight for layer in three]))
            other.query_key_value.bias.copy_(torch.cat([layer.bias for layer in three]))
            other.output.load_state_dict(one.output.state_dict())
        theirs.feed_forward.inner.load_state_dict(mine.inner.state_dict())
        theirs.feed_forward.outer.load_state_dict(mine.outer.state_dict())
        for norm, residual in zip(mine.norms, theirs.residuals, strict=True):
            residual.norm.load_state_dict(norm.state_dict())
    return package


def test_the_capstone_is_the_packages_model() -> None:
    for inputs in capstone.next_token_logits.inputs:
        package = as_the_package_has_it(inputs["model"], norm="post")
        torch.testing.assert_close(
            capstone.next_token_logits.reference(**inputs), package(inputs["source"], inputs["target"])
        )
    for inputs in capstone.translation_loss.inputs:
        package, target = as_the_package_has_it(inputs["model"], norm="post"), inputs["target"]
        logits, expected = package(inputs["source"], target[:, :-1]).flatten(0, 1), target[:, 1:].flatten()
        loss = label_smoothed_cross_entropy(logits, expected, inputs["smoothing"], pad_id=PAD) / (expected != PAD).sum()
        torch.testing.assert_close(capstone.translation_loss.reference(**inputs), loss)
    inputs = capstone.translate.inputs[-1]
    package = as_the_package_has_it(inputs["model"], norm="post", max_length=6)
    found = package_decoding.greedy_search(package, inputs["source"])
    assert capstone.translate.reference(inputs["model"], inputs["source"], limit=5) == found
    assert {len(ids) for ids in found} == {2, 5}


def borrowed_attention(part: Any, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    heads = (capstone._split(layer(s), part.n_heads) for layer, s in
             ((part.query, x), (part.key, memory), (part.value, memory)))  # fmt: skip
    return part.output(capstone._join(torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=mask)))


def torchs_attention(part: Any, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return nn.MultiheadAttention(x.size(-1), part.n_heads, batch_first=True)(x, memory, memory)[0]


def torchs_layer(layer: Any, x: Tensor, mask: Tensor) -> Tensor:
    return nn.TransformerEncoderLayer(x.size(-1), 1, batch_first=True)(x)


def packages_attention(part: Any, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return package_attention(x, memory, memory)[0]


def whole_attention(part: Any, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    size, layers = x.size(-1), (part.query, part.key, part.value)
    q, k, v = (layer.weight for layer in layers)
    return torch.nn.functional.multi_head_attention_forward(
        x.mT, memory.mT, memory.mT, size, part.n_heads, None, torch.cat([layer.bias for layer in layers]), None, None,
        False, 0.0, part.output.weight, part.output.bias, use_separate_proj_weight=True,
        q_proj_weight=q, k_proj_weight=k, v_proj_weight=v,
    )[0]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "answer", "part"),
    [
        ("attend", whole_attention, "nn.MultiheadAttention"),
        ("attend", borrowed_attention, "PyTorch's scaled_dot_product_attention"),
        ("attend", torchs_attention, "nn.MultiheadAttention"),
        ("attend", packages_attention, "transformer.attention.attention"),
        ("encoder_layer", torchs_layer, "a layer of torch.nn's Transformer"),
    ],
)
def test_the_capstone_takes_own_parts_only(name: str, answer: Any, part: str) -> None:
    before = sys.getprofile()
    said = message(name, answer).splitlines()
    assert said[0] == f"✗ {name}: a ready-made function"
    assert said[1].startswith(f"Your code calls {part}. ")
    assert sys.getprofile() is before


def cross_entropy_by_torch(logits: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, target, reduction="none")


def by_autograd(logits: Tensor, q: Tensor) -> Tensor:
    z = logits.clone().requires_grad_()
    torch.nn.functional.cross_entropy(z, q, reduction="sum").backward()
    return z.grad if z.grad is not None else z


@pytest.mark.parametrize(
    ("name", "answer", "part"),
    [
        ("most_probable", lambda logits, n: logits.softmax(-1).topk(n), "softmax"),
        ("softmax", lambda scores: scores.softmax(-1), "softmax"),
        ("softmax", lambda scores: torch.softmax(scores, -1), "softmax"),
        ("softmax", lambda scores: torch.nn.functional.softmax(scores, -1), "softmax"),
        ("softmax", nn.Softmax(-1), "nn.Softmax"),
        ("softmax", lambda scores: torch.special.softmax(scores, -1), "special_softmax"),
        ("softmax", lambda scores: scores.log_softmax(-1).exp(), "log_softmax"),
        ("layer_norm", lambda x, g, b, eps: torch.nn.functional.layer_norm(x, g.shape, g, b, eps), "layer_norm"),
        ("layer_norm", lambda x, g, b, eps: nn.LayerNorm(len(g), eps, False)(x) * g + b, "nn.LayerNorm"),
        ("layer_norm", lambda x, g, b, eps: torch.group_norm(x.reshape(-1, len(g)), 1, g, b, eps).view_as(x),
         "group_norm"),
        ("layer_norm", lambda x, g, b, eps: torch.native_layer_norm(x, g.shape, g, b, eps)[0], "native_layer_norm"),
        ("gradient", by_autograd, "autograd"),
        ("cross_entropy", cross_entropy_by_torch, "cross_entropy"),
        ("cross_entropy", nn.CrossEntropyLoss(reduction="none"), "nn.CrossEntropyLoss"),
        ("cross_entropy", lambda z, target: torch.nn.functional.nll_loss(z.log_softmax(-1), target), "nll_loss"),
        ("smoothed_loss", lambda z, target, e: torch.nn.functional.cross_entropy(z, target, label_smoothing=e),
         "cross_entropy"),
    ],
)  # fmt: skip
def test_what_a_text_forbids_is_refused(name: str, answer: Any, part: str) -> None:
    called, advice = f"PyTorch's {part}", "In this exercise you write it yourself."
    if name == "gradient":
        called, advice = part, "That is what `backward`,"
    assert message(name, answer).startswith(f"✗ {name}: a ready-made function\nYour code calls {called}. {advice}")


@pytest.mark.parametrize(
    ("name", "answer", "part"),
    [
        ("chrf", lambda a, b: package_evaluation.chrf([a], [b]).value, "transformer.evaluation.metrics.chrf"),
        ("chrf", lambda a, b: CHRF().sentence_score(a, [b]).score, "sacrebleu.metrics.chrf.__init__"),
        ("corpus_bleu", lambda a, b: BLEU(tokenize="none").corpus_score([" ".join(s) for s in a], []).score,
         "sacrebleu.metrics.bleu.__init__"),
    ],
)  # fmt: skip
def test_no_library_computes_the_metrics(name: str, answer: Any, part: str) -> None:
    said = message(name, answer)
    assert said.startswith(f"✗ {name}: a ready-made function\nYour code calls {part}. In this exercise you write the ")


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (lambda x, rate, _, training: nn.functional.dropout(x, rate, training), "dropout"),
        (lambda x, rate, _, training: nn.Dropout(rate).train(training)(x), "nn.Dropout"),
        (lambda x, rate, _, training: x * torch.bernoulli(1 - rate + 0 * x) / (1 - rate) if training else x,
         "bernoulli"),
    ],
)  # fmt: skip
def test_dropout_takes_no_other_random_numbers(answer: Any, part: str) -> None:
    said = message("dropout", answer)
    assert said.startswith(f"✗ dropout: a ready-made function\nYour code calls PyTorch's {part}. It draws random ")


@pytest.mark.parametrize("answer", [package_attention, lambda q, k, v: package_attention(q, k, v)])
def test_the_packages_attention_is_no_answer_to_the_blank_about_attention(answer: Any) -> None:
    said = message("scaled_dot_product_attention", answer)
    assert said.startswith(
        "✗ scaled_dot_product_attention: a ready-made function\nYour code calls the package's `attention`. "
    )


def einsum_scores(query: Tensor, key: Tensor) -> Tensor:
    return torch.einsum("...qd,...kd->...qk", query, key) * key.shape[-1] ** -0.5


def loop_scores(query: Tensor, key: Tensor) -> Tensor:
    if query.dim() > 2:
        return torch.stack([loop_scores(q, k) for q, k in zip(query, key, strict=True)])
    return torch.stack([torch.stack([q.dot(k) / math.sqrt(len(q)) for k in key]) for q in query])


def softmax_by_logarithm(scores: Tensor) -> Tensor:
    return (scores - scores.logsumexp(-1, keepdim=True)).exp()


def split_by_chunks(x: Tensor, n_heads: int) -> Tensor:
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def join_by_concatenation(heads: Tensor) -> Tensor:
    return torch.cat(heads.unbind(1), dim=-1)


def head_by_head(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, n_heads: int) -> Tensor:
    parts = [(x @ w_q).chunk(n_heads, -1), (memory @ w_k).chunk(n_heads, -1), (memory @ w_v).chunk(n_heads, -1)]
    return torch.cat([package_attention(q, k, v)[0] for q, k, v in zip(*parts, strict=True)], -1) @ w_o


def three_products(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    d = x.size(-1)
    return tuple(x @ weight[i : i + d].mT + bias[i : i + d] for i in (0, d, 2 * d))


def projected_by_einsum(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    return (torch.einsum("bld,tod->tblo", x, weight.unflatten(0, (3, -1))) + bias.view(3, 1, 1, -1)).unbind(0)


def cross_by_torch(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    theirs = nn.MultiheadAttention(x.size(-1), n_heads, batch_first=True, dtype=x.dtype)
    weights = {"in_proj_weight": weight, "in_proj_bias": bias, "out_proj.weight": w_output, "out_proj.bias": b_output}
    return torch.func.functional_call(theirs, weights, (x, memory, memory), {"key_padding_mask": ~real})[0]


def cross_word_by_word(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    """A loop over sentences, heads and queries; padding is cut off before anyone can look at it."""
    weight, bias, w_output, b_output, n_heads = layer
    d_head = x.size(-1) // n_heads
    result = torch.zeros_like(x) + b_output
    for sentence, (asks, asked) in enumerate(zip(x, memory, strict=True)):
        q, _, _ = three_products(asks, weight, bias)
        _, k, v = three_products(asked[real[sentence]], weight, bias)
        for i in range(0, x.size(-1), d_head):
            mine = slice(i, i + d_head)
            for word in range(len(asks)):
                shares = (k[:, mine] @ q[word, mine] / math.sqrt(d_head)).softmax(0)
                result[sentence, word] += w_output[:, mine] @ (shares @ v[:, mine])
    return result


def answers_by_silence(heads: Tensor, w_output: Tensor) -> Tensor:
    alone = [heads * (torch.arange(heads.size(1)) == i)[:, None, None] for i in range(heads.size(1))]
    return torch.stack([join_by_concatenation(h) @ w_output.T for h in alone], dim=1)


def answers_by_loop(heads: Tensor, w_output: Tensor) -> Tensor:
    pieces = w_output.split(heads.size(-1), dim=1)
    return torch.stack([nn.functional.linear(h, w) for h, w in zip(heads.unbind(1), pieces, strict=True)], 1)


def cost_by_heads(n_query: int, n_key: int, d_model: int, n_heads: int) -> tuple[int, int, int]:
    d_head = d_model // n_heads
    parameters = n_heads * (3 * d_model * d_head + d_head * d_model + 3 * d_head) + d_model
    products = n_query * d_model * d_model
    for _ in range(n_heads):
        products += (n_query + 2 * n_key) * d_model * d_head + n_query * n_key * d_head * 2
    return parameters, products, sum(n_query * n_key for _ in range(n_heads))


def grouped_by_reshape(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    by_group = query.unflatten(1, (key.size(1), -1))
    return package_attention(by_group, key[:, :, None], value[:, :, None])[0].flatten(1, 2)


def grouped_by_index(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    group = torch.arange(query.size(1)) * key.size(1) // query.size(1)
    return package_attention(query, key[:, group], value[:, group])[0]


def self_attention_by_chunks(x: Tensor, *matrices: Any) -> Tensor:
    *projections, w_output, n_heads = matrices
    query, key, value = ([*(x @ w.mT).chunk(n_heads, dim=2)] for w in projections)
    heads = [package_attention(q, k, v)[0] for q, k, v in zip(query, key, value, strict=True)]
    return torch.cat(heads, dim=-1) @ w_output.mT


def self_attention_by_permute(x: Tensor, *matrices: Any) -> Tensor:
    *projections, w_output, n_heads = matrices
    shape = (x.size(0), x.size(1), n_heads, -1)
    query, key, value = (nn.functional.linear(x, w).reshape(shape).permute(0, 2, 1, 3) for w in projections)
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.size(-1) ** -0.5
    heads = torch.einsum("bhqk,bhkd->bqhd", nn.functional.softmax(scores, -1), value)
    return nn.functional.linear(heads.flatten(2), w_output)


def encoder_in_place_of_x(x: Tensor, layers: Any, final_norm: Any) -> Tensor:
    for norm_1, attend, norm_2, feed_forward in layers:
        x = x + attend(norm_1(x))
        x = feed_forward(norm_2(x)) + x
    return final_norm(x)


def encoder_by_recursion(x: Tensor, layers: Any, final_norm: Any) -> Tensor:
    if not layers:
        return final_norm(x)
    for norm, sublayer in (layers[0][:2], layers[0][2:]):
        x = x + sublayer(norm(x))
    return encoder_by_recursion(x, layers[1:], final_norm)


def padding_by_ne(ids: Tensor, pad_id: int) -> Tensor:
    return torch.ne(ids, pad_id).reshape(ids.size(0), 1, 1, -1)


def causal_by_comparison(length: int) -> Tensor:
    i = torch.arange(length)
    return (i[:, None] >= i)[None, None]


def target_by_product(ids: Tensor, pad_id: int) -> Tensor:
    return (ids != pad_id)[:, None, None] * causal_by_comparison(ids.size(1))


def masked_by_nan_to_num(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(mask.logical_not(), -math.inf).softmax(-1).nan_to_num(0.0)


def shift_by_narrow(target: Tensor) -> tuple[Tensor, Tensor]:
    n = target.size(1) - 1
    return target.narrow(1, 0, n), target.narrow(1, 1, n)


def batch_one_by_one(model: Any, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
    rows, scores = [], []
    for source in sources:
        row, score = [bos], 0.0
        while len(row) <= limit and eos not in row:
            log_probs = model(source[None], torch.tensor([row]))[0]
            row.append(int(log_probs.argmax()))
            score += float(log_probs.max())
        rows.append(torch.tensor(row[1:]))
        scores.append(score)
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad), torch.tensor(scores)


def split_in_a_loop(source_lines: list[str], target_lines: list[str], every: int) -> tuple[list[Any], list[Any]]:
    train, valid = [], []
    for source, target in zip(map(str.strip, source_lines), map(str.strip, target_lines), strict=True):
        if "" not in (source, target):
            (train if crc32(source.encode()) % every else valid).append((source, target))
    return train, valid


def greedy_by_recursion(model: Any, bos: int, eos: int, limit: int, so_far: tuple[int, ...] = ()) -> list[int]:
    token = model([bos, *so_far]).max(dim=0).indices.item()
    if len(so_far) == limit or token == eos:
        return list(so_far)
    return greedy_by_recursion(model, bos, eos, limit, (*so_far, token))


def penalty_by_exponential(length: int, length_penalty: float) -> float:
    return math.exp(length_penalty * (math.log(length + 5) - math.log(6)))


def extensions_by_loops(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, ...]:
    pairs = [(p, t) for p in range(len(scores)) for t in range(log_probs.size(1))]
    ranked = sorted(pairs, key=lambda pair: -(scores[pair[0]] + log_probs[pair]))[:count]
    values = torch.stack([scores[p] + log_probs[p, t] for p, t in ranked])
    return values, torch.tensor([p for p, _ in ranked]), torch.tensor([t for _, t in ranked])


def sorted_out_one_by_one(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    finished: list[int] = []
    active: list[int] = []
    for place, token in enumerate(tokens):
        if token == eos and place < beam_size:
            finished.append(place)
        elif token != eos and len(active) < beam_size:
            active.append(place)
    return finished, active


def ranked_by_tuples(hypotheses: list[tuple[float, list[int]]], length_penalty: float, n: int) -> list[list[int]]:
    scored = [
        (-value / penalty_by_exponential(len(t) - 1, length_penalty), i) for i, (value, t) in enumerate(hypotheses)
    ]
    return [hypotheses[i][1][1:-1] for _, i in sorted(scored)[:n]]


def beam_without_dead_ends(
    model: Any, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int
) -> list[int]:
    active, finished = [(0.0, [bos])], []
    for _ in range(steps):
        every = [(s + v, [*t, i]) for s, t in active for i, v in enumerate(model(t).tolist()) if v > -math.inf]
        best = sorted(every, reverse=True)[: 2 * beam_size]
        finished += [h for h in best[:beam_size] if h[1][-1] == eos]
        active = [h for h in best if h[1][-1] != eos][:beam_size]
    return max(finished, key=lambda h: h[0] / penalty_by_exponential(len(h[1]) - 1, length_penalty))[1][1:-1]


def ngrams_by_zip(sentences: list[list[str]], n: int) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for words in sentences:
        for ngram in zip(*(words[i:] for i in range(n)), strict=False):
            found[ngram] = found.get(ngram, 0) + 1
    return found


def matches_by_crossing_out(hypothesis: list[str], references: list[list[str]], n: int) -> tuple[int, int]:
    mine, *others = ([tuple(s[i : i + n]) for i in range(len(s) - n + 1)] for s in (hypothesis, *references))
    matches = 0
    for ngram in mine:
        if any(ngram in there for there in others):
            matches += 1
        for there in others:
            if ngram in there:
                there.remove(ngram)
    return matches, len(mine)


def brevity_by_minimum(c: int, r: int) -> float:
    return min(1, float(torch.tensor(1 - r / c).exp())) if c else 0


def bleu_by_logarithms(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    logs = []
    for n in range(1, 5):
        counts = torch.tensor([matches_by_crossing_out(h, [r], n) for h, r in zip(hypotheses, references, strict=True)])
        matches, total = counts.sum(0).tolist()
        if not matches:
            return 0
        logs.append(math.log(matches) - math.log(total))
    c, r = (len([word for words in side for word in words]) for side in (hypotheses, references))
    return math.exp(min(0, 1 - r / c) + sum(logs) / 4 + math.log(100))


def wins_by_numpy(first: list[tuple[int, int]], second: list[tuple[int, int]], draws: list[list[int]]) -> float:
    wins = 0
    for draw in draws:
        (a, b), (c, d) = np.array(first)[draw].sum(0), np.array(second)[draw].sum(0)
        wins += c * b > a * d
    return wins / len(draws)


def rate_in_two_pieces(step: int, d_model: int, warmup_steps: int) -> float:
    highest = 1 / math.sqrt(d_model * warmup_steps)
    return highest * (step / warmup_steps if step < warmup_steps else math.sqrt(warmup_steps / step))


def loss_by_loops(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    losses = []
    for row, tokens in zip(logits, expected.tolist(), strict=True):
        losses += [z.logsumexp(0) - z[token] for z, token in zip(row, tokens, strict=True) if token != pad_id]
    return torch.stack(losses).mean()


def loss_by_cross_entropy(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return nn.functional.cross_entropy(logits.mT, expected, ignore_index=pad_id)


def gradient_divided_at_the_end(weight: Tensor, parts: list[tuple[Tensor, Tensor]], pad_id: int) -> Tensor:
    weight, n = nn.Parameter(weight), 0
    for states, expected in parts:
        real = expected != pad_id
        (-(states @ weight.T).log_softmax(-1)[real, expected[real]]).sum().backward()
        n += int(real.sum())
    assert weight.grad is not None
    return weight.grad / n


def adam_on_copies(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Any:
    weight, m, v = weight.clone(), m.clone().lerp_(gradient, 0.1), v.clone()
    v.mul_(0.98).addcmul_(gradient, gradient, value=0.02)
    size = rate * math.sqrt(1 - 0.98**step) / (1 - 0.9**step)
    return weight.addcdiv_(m, v.sqrt() + 1e-9 * math.sqrt(1 - 0.98**step), value=-size), m, v


def running_average(checkpoints: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    total = {name: weight.clone() for name, weight in checkpoints[0].items()}
    for number, checkpoint in enumerate(checkpoints[1:], start=2):
        for name, weight in checkpoint.items():
            total[name] += (weight - total[name]) / number
    return total


@torch.no_grad()
def average_without_gradients(checkpoints: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: sum(weights[name] for weights in checkpoints) / len(checkpoints) for name in checkpoints[0]}


def frequencies_by_exponential(d_model: int) -> Tensor:
    return torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))


def encoding_by_assignment(length: int, d_model: int) -> Tensor:
    table = torch.zeros(length, d_model)
    angle = torch.arange(length).unsqueeze(1) * frequencies_by_exponential(d_model)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
    return table


def shift_by_matrix(encoding: Tensor, k: int) -> Tensor:
    steps = k * frequencies_by_exponential(encoding.size(1))
    turns = [torch.stack([torch.stack([b.cos(), b.sin()]), torch.stack([-b.sin(), b.cos()])]) for b in steps]
    return encoding @ torch.block_diag(*turns).T


def rotate_by_complex_numbers(x: Tensor) -> Tensor:
    angle = torch.arange(x.size(-2))[:, None] * frequencies_by_exponential(x.size(-1))
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def embed_by_layer(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return nn.functional.embedding(ids, table) * table.shape[-1] ** 0.5 + encoding[None, : ids.shape[-1]]


def cross_entropy_by_log_softmax(logits: Tensor, target: Tensor) -> Tensor:
    return -logits.log_softmax(-1)[torch.arange(len(target)), target]


def smoothed_target_by_scatter(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    q = torch.zeros(len(target), vocab_size).scatter_(1, target[:, None], 1.0)
    return q.lerp(torch.full_like(q, 1 / vocab_size), smoothing)


def smoothed_loss_in_two_parts(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    log_p = logits - logits.logsumexp(-1, keepdim=True)
    return -(1 - smoothing) * log_p[range(len(target)), target] - smoothing * log_p.mean(-1)


def gradient_less_the_highest(logits: Tensor, q: Tensor) -> Tensor:
    e = (logits - logits.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True) - q


def clipping_at_the_scale(
    model: nn.Module, steps: Any, learning_rate: float, max_norm: float, scale: float
) -> list[float]:
    """Clip the scaled gradients by the scaled norm, and leave unscaling to the scaler's step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    losses = []
    for batches in steps:
        all_tokens = sum(expected.numel() for _, expected in batches)
        step_losses = []
        for states, expected in batches:
            with torch.autocast("cpu", torch.float16):
                logits = model(states)
            loss = F.cross_entropy(logits.float(), expected) * (len(expected) / all_tokens)
            scaler.scale(loss).backward()
            step_losses.append(loss.item())
        nn.utils.clip_grad_norm_(model.parameters(), max_norm * scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(sum(step_losses))
    return losses


def loss_with_ignore_index(logits: Tensor, target: Tensor, pad_id: int, smoothing: float) -> Tensor:
    criterion = nn.CrossEntropyLoss(ignore_index=pad_id, label_smoothing=smoothing)
    loss: Tensor = criterion(logits.flatten(0, 1), target.flatten())
    return loss


def mean_loss_by_selection(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    chosen = losses[target.ne(pad_id)]
    return chosen.sum() / max(1, len(chosen))


def feed_forward_by_linear(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return nn.functional.linear(torch.clamp(nn.functional.linear(x, w_1.mT, b_1), min=0), w_2.mT, b_2)


def layer_norm_by_var_mean(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    variance, mean = torch.var_mean(x, -1, unbiased=False, keepdim=True)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(variance + eps), gain)


def dropout_by_masked_fill(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x.masked_fill(draw < rate, 0.0).div(1 - rate) if training else x.clone()


def pairs_by_counter(words: list[list[str]], counts: list[int]) -> dict[tuple[str, str], int]:
    text = [word for word, count in zip(words, counts, strict=True) for _ in range(count)]
    return Counter((word[i], word[i + 1]) for word in text for i in range(len(word) - 1))


def best_by_sorting(pairs: dict[tuple[str, str], int]) -> tuple[str, str]:
    ranked = sorted(pairs.items(), key=lambda item: item[0][0] + item[0][1])
    ranked.sort(key=lambda item: len(item[0][0] + item[0][1]))
    ranked.sort(key=lambda item: item[1], reverse=True)
    return ranked[0][0]


def merge_by_stack(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    done: list[str] = []
    for symbol in symbols:
        done = [*done[:-1], done[-1] + symbol] if done and (done[-1], symbol) == pair else [*done, symbol]
    return done


def segment_by_earliest(word: str, merges: list[tuple[str, str]]) -> list[str]:
    symbols = [*word]
    while known := [pair for pair in merges if pair in pairwise(symbols)]:
        symbols = merge_by_stack(symbols, known[0])
    return symbols


def decode_by_splitting(symbols: list[str]) -> str:
    first, *words = "".join(symbols).split("▁")
    return " ".join([first, *words] if first else words)


def stacks_by_reduce(source: Tensor, target: Tensor, encoder: Any, decoder: Any) -> Tensor:
    memory = reduce(lambda x, layer: layer(x), encoder, source)
    return reduce(lambda y, layer: layer(y, memory), decoder, target)


def unembed_by_linear(states: Tensor, embedding: Tensor) -> Tensor:
    return nn.functional.linear(states, embedding)


def xavier_by_power(n_in: int, n_out: int) -> float:
    return ((n_in + n_out) / 2) ** -0.5


def count_by_formula(d: int, f: int, n: int, v: int) -> int:
    return n * (12 * d * (d + 1) + 4 * d * f + 2 * (f + d) + 10 * d) + v * d


def memory_by_bits(parameters: int) -> tuple[int, int]:
    return sum([32 // 8 * parameters] * 4), 16 * parameters // 8


def one_back_by_loops(weights: Tensor, real: Tensor) -> Tensor:
    asked = [(b, i) for b, i in real.nonzero().tolist() if i > 0]
    return torch.stack([torch.stack([head[b, i, i - 1] for b, i in asked]).mean() for head in weights.transpose(0, 1)])


def one_back_by_indexing(weights: Tensor, real: Tensor) -> Tensor:
    place = torch.arange(1, real.size(1))
    return weights[:, :, place, place - 1].transpose(1, 2)[real[:, 1:]].mean(0)


def entropy_by_where(weights: Tensor) -> Tensor:
    return torch.where(weights > 0, weights * (1 / weights).log2(), 0.0).sum(-1)


def entropy_with_epsilon(weights: Tensor) -> Tensor:
    return -torch.einsum("...k,...k->...", weights, torch.log(weights + 1e-9)) / math.log(2)


def entropy_by_nansum(weights: Tensor) -> Tensor:
    return (weights * weights.log2()).nansum(-1).neg()


def links_by_loops(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Any]:
    words = torch.zeros(len(set(target_word)), len(set(source_word)))
    for row, j in zip(weights, target_word, strict=False):
        for weight, i in zip(row, source_word, strict=False):
            words[j, i] += weight / target_word.count(j)
    rows = words.tolist()
    return words, [(row.index(max(row)), j) for j, row in enumerate(rows)]


def links_sources_first(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Any]:
    t, s = torch.tensor(target_word), torch.tensor(source_word)
    kept = weights[:-1, :-1]
    summed = torch.stack([kept[:, s == i].sum(1) for i in s.unique()], dim=1)
    words = torch.stack([summed[t == j].mean(0) for j in t.unique()])
    return words, [(int(row.argmax()), j) for j, row in enumerate(words)]


def aer_link_by_link(found: Any, sure: Any, possible: Any) -> float:
    sides = found, sure, possible
    a, s, p = ({(n, *link) for n, links in enumerate(side) for link in links} for side in sides)
    right = sum(2 * (link in s) + (link in p) for link in a)
    return (len(a) + len(s) - right) / (len(a) + len(s))


def heads_off_by_rows(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    matrix = w_output.unflatten(0, (heads.size(1), -1)).clone()
    matrix[off] = 0
    return torch.einsum("bhld,hdm->blm", heads, matrix) + bias


def heads_off_by_subtraction(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    everything = torch.cat([*heads.unbind(1)], dim=-1) @ w_output + bias
    width = heads.size(-1)
    return everything - sum(heads[:, h] @ w_output[h * width : (h + 1) * width] for h in off)


def pairs_by_products(pairs: list[tuple[str, str]], max_words: int, max_ratio: float) -> list[tuple[str, str]]:
    def good(source: list[str], target: list[str]) -> bool:
        a, b = len(source), len(target)
        return a * b > 0 and a <= max_ratio * b and b <= max_ratio * a and max(a, b) <= max_words and source != target

    return [p for i, p in enumerate(pairs) if good(*map(str.split, p)) and p not in pairs[:i]]


def batch_by_pad_sequence(sources: list[list[int]], targets: list[list[int]]) -> tuple[Tensor, ...]:
    def padded(rows: list[list[int]]) -> Tensor:
        return nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True, padding_value=PAD)

    expected = padded([[*row, EOS] for row in targets])
    decoder_input = torch.full_like(expected, BOS)
    decoder_input[:, 1:] = expected[:, :-1].masked_fill(expected[:, :-1] == EOS, PAD)
    return padded([[*row, EOS] for row in sources]), decoder_input, expected


def padding_by_zeros(lengths: list[int], batches: list[list[int]]) -> float:
    missing = [max(lengths[j] for j in batch) - lengths[i] for batch in batches for i in batch]
    return sum(missing) / (sum(missing) + sum(lengths))


def batches_by_slices(lengths: list[int], budget: int) -> list[list[int]]:
    order = torch.tensor(lengths).argsort(stable=True)
    batches = []
    while len(order):
        sizes = torch.tensor(lengths)[order] * torch.arange(1, len(order) + 1)
        rows = max(1, int((sizes <= budget).sum()))
        batches.append(order[:rows].tolist())
        order = order[rows:]
    return batches


def read_one_by_one(order: Any, epoch: int, step: int, count: int) -> list[int]:
    batches: list[int] = []
    while len(batches) < count:
        if step >= len(order(epoch)):
            epoch, step = epoch + 1, 0
        batches.append(order(epoch)[step])
        step += 1
    return batches


def read_by_generator(order: Any, epoch: int, step: int, count: int) -> list[int]:
    endless = (batch for e in itertools.count(epoch) for batch in order(e))
    return list(itertools.islice(endless, step, step + count))


def masked_by_assignment(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Any:
    masked, chosen = ids.clone(), torch.logical_and(ids > mask_id, choice < 0.15)
    random_ones = chosen & (kind >= 0.8) & (kind < 0.9)
    masked[random_ones] = other[random_ones]
    masked[chosen & (kind < 0.8)] = mask_id
    return [masked, chosen]


def prefix_by_loops(n_prefix: Tensor, length: int) -> Tensor:
    rows = [[[k < n or k <= q for k in range(length)] for q in range(length)] for n in n_prefix.tolist()]
    return torch.tensor(rows)[:, None]


def prefix_by_blocks(n_prefix: Tensor, length: int) -> Tensor:
    masks = package_causal_mask(length).repeat(len(n_prefix), 1, 1, 1)
    for mask, n in zip(masks, n_prefix.tolist(), strict=True):
        mask[:, :n, :n] = True  # queries after the prefix see it anyway
    return masks


def shifted_loss_by_gather(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    log_p = logits.log_softmax(-1)[:, :-1].gather(2, ids[:, 1:, None]).squeeze(2)
    real = ids[:, 1:] != pad_id
    return -log_p.masked_fill(~real, 0).sum() / real.sum()


def shifted_loss_with_padded_labels(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    labels = nn.functional.pad(ids[:, 1:], (0, 1), value=pad_id)
    return nn.functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=pad_id)


def classify_one_by_one(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.stack([weight @ vectors[keep][-1] + bias for vectors, keep in zip(x, real, strict=True)])


def classify_by_gather(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    last = (real * torch.arange(x.size(1))).amax(1)
    return torch.addmm(bias, x.gather(1, last[:, None, None].expand(-1, 1, x.size(2)))[:, 0], weight.T)


def answer_as_text(model: Any, examples: list[tuple[str, str]], question: str, max_new_tokens: int) -> str:
    text = prompt = " , ".join([*(f"{asked} : {answer}" for asked, answer in examples), f"{question} :"])
    for _ in range(max_new_tokens):
        if (token := model(text.split(" "))) == ",":
            break
        text += " " + token
    return text[len(prompt) :].strip()


def reordered_by_index(theirs: Tensor, n_heads: int) -> Tensor:
    row = torch.arange(len(theirs)).view(n_heads, 3, -1)
    return theirs[torch.cat([row[:, part].flatten() for part in range(3)])]


def reordered_by_permute(theirs: Tensor, n_heads: int) -> Tensor:
    return theirs.reshape(n_heads, 3, -1, *theirs.shape[1:]).swapaxes(0, 1).reshape(theirs.shape)


def roofline_by_ratio(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Any:
    flop = n_tokens * n_out * (n_in + n_in)
    intensity = flop / sum(16 // 8 * a * b for a, b in itertools.combinations((n_tokens, n_in, n_out), 2))
    return [intensity, flop / min(flop_rate, intensity * byte_rate), intensity >= flop_rate / byte_rate]


def softmax_of_one_table(maximum: Tensor, total: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    together = torch.cat([maximum[:, None], scores], dim=1)
    e = (together - together.amax(1, keepdim=True)).exp()
    return together.max(1).values, total * e[:, 0] + e[:, 1:].sum(1)


def flash_by_logsumexp(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    output, logarithm = torch.zeros_like(query), torch.full_like(query[..., :1], sink)
    for k, v in zip(key.split(block, -2), value.split(block, -2), strict=True):
        s = query @ k.mT * query.size(-1) ** -0.5
        both = torch.logaddexp(logarithm, s.logsumexp(-1, keepdim=True))
        output = output * (logarithm - both).exp() + (s - both).exp() @ v
        logarithm = both
    return output


def flash_by_slices(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = torch.tensor(sink), torch.tensor(1.0), torch.tensor(0.0)
    for start in range(0, key.shape[-2], block):
        keys, values = (t[..., start : start + block, :] for t in (key, value))
        scores = torch.einsum("...qd,...kd->...qk", query, keys) / math.sqrt(query.shape[-1])
        highest = torch.maximum(maximum, scores.detach().max(-1, keepdim=True).values)
        old, new = torch.exp(maximum - highest), torch.exp(scores - highest)
        total, weighted, maximum = old * total + new.sum(-1, True), old * weighted + new @ values, highest
    return weighted / total


def mixed_precision_in_place(weight: Tensor, gradient_of: Any, learning_rate: float, steps: int) -> Tensor:
    master, copy = weight.clone(), weight.to(torch.bfloat16)
    while steps:
        master.sub_(gradient_of(copy).to(master.dtype), alpha=learning_rate)
        copy.copy_(master)
        steps -= 1
    return master


def scaling_by_norm(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, n: int) -> Any:
    step = gradient.float() * (learning_rate / scale)
    if not math.isfinite(float(step.abs().sum())):
        return [weight.clone(), scale * 0.5, 0]
    good = (good + 1) % n
    return [weight - step, scale if good else scale * 2.0, good]


def gradient_by_shares(gradients: list[list[Tensor]], n_tokens: list[list[int]]) -> Tensor:
    counts = torch.tensor([n for row in n_tokens for n in row])
    stacked = torch.stack([gradient for row in gradients for gradient in row])
    return torch.einsum("b...,b->...", stacked, counts / counts.sum())


def places_by_assignment(ids: Tensor, table: Tensor) -> Tensor:
    return nn.functional.embedding(ids, table) * table.shape[1] ** 0.5 + encoding_by_assignment(
        ids.size(1), len(table.T)
    )


def attend_head_by_head(part: Any, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    sides = (part.query(x), part.key(memory), part.value(memory))
    found = []
    for head, (q, k, v) in enumerate(zip(*(side.chunk(part.n_heads, -1) for side in sides), strict=True)):
        allowed = mask.expand(len(x), part.n_heads, x.size(1), memory.size(1))[:, head]
        scores = torch.einsum("bqd,bkd->bqk", q, k) * q.size(-1) ** -0.5
        found.append(torch.softmax(torch.where(allowed, scores, torch.tensor(-1e9)), 2) @ v)
    return part.output(torch.cat(found, -1))


def encoder_layer_in_steps(layer: Any, x: Tensor, mask: Tensor) -> Tensor:
    first, second = layer.norms
    y = first(attend_head_by_head(layer.attention, x, x, mask) + x)
    return second(layer.outer(torch.clamp(layer.inner(y), min=0)).add(y))


def decoder_layer_in_steps(layer: Any, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    sublayers = [
        lambda y: attend_head_by_head(layer.self_attention, y, y, mask),
        lambda y: attend_head_by_head(layer.cross_attention, y, memory, memory_mask),
        nn.Sequential(layer.inner, nn.ReLU(), layer.outer),
    ]
    for norm, sublayer in zip(layer.norms, sublayers, strict=True):
        x = norm(x + sublayer(x))
    return x


def model_with_a_mask_for_the_targets_padding(model: Any, source: Tensor, target: Tensor) -> Tensor:
    real, table = source.ne(PAD)[:, None, None], model.embedding.weight
    seen = causal_by_comparison(target.size(1)) & target.ne(PAD)[:, None, None]
    memory, x = places_by_assignment(source, table), places_by_assignment(target, table)
    for layer in model.encoder:
        memory = encoder_layer_in_steps(layer, memory, real)
    for layer in model.decoder:
        x = decoder_layer_in_steps(layer, x, memory, seen, real)
    return torch.einsum("bld,vd->blv", x, table)


def loss_of_rows(model: Any, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    log_p = model_with_a_mask_for_the_targets_padding(model, source, target)[:, :-1].log_softmax(-1)
    q = nn.functional.one_hot(target[:, 1:], log_p.size(-1)) * (1 - smoothing) + smoothing / log_p.size(-1)
    real = target[:, 1:] != PAD
    return -(q * log_p).sum(-1)[real].sum() / real.sum()


def training_by_a_schedule(model: Any, batches: Any, loss_of: Any, d_model: int, warmup_steps: int) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: d_model**-0.5 * min((n + 1) ** -0.5, (n + 1) / warmup_steps**1.5)
    )
    losses = []
    for batch in batches:
        losses.append(loss_of(model, batch))
        losses[-1].backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        schedule.step()
        model.zero_grad()
    return torch.stack(losses).tolist()


def greedy_one_by_one(model: Any, source: Tensor, limit: int) -> list[list[int]]:
    found: list[list[int]] = []
    for row in source[:, None]:
        said = [BOS]
        while len(said) <= limit:
            scores = model_with_a_mask_for_the_targets_padding(model, row, torch.tensor([said]))
            if (token := int(scores[0, -1].log_softmax(0).argmax())) == EOS:
                break
            said.append(token)
        found.append(said[1:])
    return found


def vocabulary_by_removal(sentences: list[str], size: int) -> dict[str, int]:
    words, vocabulary = " ".join(sentences).split(), {}
    while words and len(vocabulary) + 4 < size:
        best = min(words, key=lambda word: (-words.count(word), word))
        vocabulary[best] = len(vocabulary) + 4
        words = [word for word in words if word != best]
    return vocabulary


def ids_by_loop(sentence: str, vocabulary: dict[str, int]) -> tuple[int, ...]:
    ids = []
    for word in re.findall(r"\S+", sentence):
        try:
            ids.append(vocabulary[word])
        except KeyError:
            ids.append(3)
    return (*ids, 2)


def look_up_by_product(ids: Tensor, table: Tensor) -> Tensor:
    return nn.functional.one_hot(ids, len(table)).to(table.dtype) @ table


def probable_by_sorting(logits: Tensor, n: int) -> list[Tensor]:
    ids = torch.tensor(sorted(range(len(logits)), key=lambda i: -logits.tolist()[i])[:n])
    return [1 / (logits[None] - logits[ids, None]).exp().sum(1), ids]


def prefix_by_recursion(model: Any, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    if max_new_tokens == 0:
        return prefix
    longer = [*prefix, model(prefix).max(0).indices.item()]
    return longer if longer[-1] == eos else prefix_by_recursion(model, longer, eos, max_new_tokens - 1)


def paths_by_walking(distance: int, k: int) -> list[int]:
    layers = 0
    while layers * (k - 1) / 2 < distance:
        layers += 1
    return [sum(1 for _ in range(distance)), layers, 1]


def flop_matrix_by_matrix(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    def product(rows: int, inner: int, columns: int) -> int:
        return 2 * rows * inner * columns

    def attention(queries: int, keys: int) -> int:
        projected = 2 * product(queries, d_model, d_model) + 2 * product(keys, d_model, d_model)
        return projected + product(queries, d_model, keys) + product(queries, keys, d_model)

    feed_forward = product(n + m, d_model, d_ff) + product(n + m, d_ff, d_model)
    layers = n_layers * (attention(n, n) + attention(m, m) + attention(m, n) + feed_forward)
    return 3 * (layers + product(m, d_model, vocab_size))


def costs_by_joules(
    flop: float, teraflops: float, utilisation: float, gpus: int, watts: float, euros_per_gpu_hour: float
) -> list[float]:
    seconds = flop / teraflops / utilisation / 1e12
    return [seconds / gpus / 3600, 1.5 * watts * seconds / 3.6e6, seconds / 3600 * euros_per_gpu_hour]


def without_overlap_by_loops(pairs: list[tuple[str, str]], test_pairs: list[tuple[str, str]]) -> list[list[str]]:
    tested = {(i, *text.casefold().split()) for pair in test_pairs for i, text in enumerate(pair)}
    return [[*p] for p in pairs if not any((i, *text.upper().casefold().split()) in tested for i, text in enumerate(p))]


def newest_by_counting_down(checkpoints: dict[int, dict[str, str]], on_disk: dict[str, str]) -> int | None:
    for step in sorted(checkpoints)[::-1]:
        if set(checkpoints[step].items()).issubset(on_disk.items()):
            return step
    return None


def parts_by_walking(
    plan: list[list[int]], step: int, rank: int, world_size: int, accumulation: int
) -> list[list[int]]:
    per_step = world_size * accumulation
    return [part for i, part in enumerate(plan) if i // per_step >= step and i % world_size == rank]


def differences_by_sets(signature: str, other: str) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for side, text in enumerate((signature, other)):
        for field in set(text.split("|")) - set((signature, other)[1 - side].split("|")):
            name, _, value = field.partition(":")
            found.setdefault(name, [None, None])[side] = value
    found.pop("version", None)
    return found


def curves_named_in_the_legend(axes: Any, train: list[float], validation: list[float]) -> None:
    best = axes.axvline(1 + validation.index(min(validation)), color="gray")
    curves = [axes.plot(range(1, 1 + len(losses)), losses)[0] for losses in (train, validation)]
    axes.set(xlabel="Epoch", ylabel="Loss")
    axes.legend([*curves[::-1], best], ["Validation", "Training", "lowest validation loss"])


class DropoutByName(train_your_own.DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Any) -> Tensor:
        return x + nn.functional.dropout(input=sublayer(norm(x)), p=self.dropout.p, training=self.training)


class DropoutOfTorch(train_your_own.DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Any) -> Tensor:
        return x + torch.dropout(sublayer(norm(x)), self.dropout.p, self.training)


OTHERS = [
    ("training_flop", flop_matrix_by_matrix),
    ("run_costs", costs_by_joules),
    ("without_test_sentences", without_overlap_by_loops),
    ("newest_complete", newest_by_counting_down),
    ("parts_left", parts_by_walking),
    ("different_settings", differences_by_sets),
    ("build_vocabulary", vocabulary_by_removal),
    ("encode_sentence", ids_by_loop),
    ("look_up", look_up_by_product),
    ("most_probable", probable_by_sorting),
    ("continue_prefix", prefix_by_recursion),
    ("path_lengths", paths_by_walking),
    ("attention_scores", einsum_scores),
    ("attention_scores", loop_scores),
    ("softmax", softmax_by_logarithm),
    ("split_heads", split_by_chunks),
    ("join_heads", join_by_concatenation),
    ("multi_head_attention", head_by_head),
    ("query_key_value", three_products),
    ("query_key_value", projected_by_einsum),
    ("cross_attention", cross_by_torch),
    ("cross_attention", cross_word_by_word),
    ("head_contributions", answers_by_silence),
    ("head_contributions", answers_by_loop),
    ("layer_cost", cost_by_heads),
    ("grouped_attention", grouped_by_reshape),
    ("grouped_attention", grouped_by_index),
    ("self_attention", self_attention_by_chunks),
    ("self_attention", self_attention_by_permute),
    ("encoder", encoder_in_place_of_x),
    ("encoder", encoder_by_recursion),
    ("padding_mask", padding_by_ne),
    ("causal_mask", causal_by_comparison),
    ("target_mask", target_by_product),
    ("masked_softmax", masked_by_nan_to_num),
    ("shift_target", shift_by_narrow),
    ("greedy_search", greedy_by_recursion),
    ("length_normalization", penalty_by_exponential),
    ("best_extensions", extensions_by_loops),
    ("finished_and_active", sorted_out_one_by_one),
    ("n_best", ranked_by_tuples),
    ("beam_search", beam_without_dead_ends),
    ("greedy_batch", batch_one_by_one),
    ("split_corpus", split_in_a_loop),
    ("ngram_counts", ngrams_by_zip),
    ("clipped_matches", matches_by_crossing_out),
    ("brevity_penalty", brevity_by_minimum),
    ("corpus_bleu", bleu_by_logarithms),
    ("share_of_wins", wins_by_numpy),
    ("learning_rate", rate_in_two_pieces),
    ("batch_loss", loss_by_loops),
    ("batch_loss", loss_by_cross_entropy),
    ("accumulated_gradient", gradient_divided_at_the_end),
    ("adam_step", adam_on_copies),
    ("average_checkpoints", running_average),
    ("average_checkpoints", average_without_gradients),
    ("frequencies", frequencies_by_exponential),
    ("sinusoidal_encoding", encoding_by_assignment),
    ("shift", shift_by_matrix),
    ("rotate", rotate_by_complex_numbers),
    ("embed", embed_by_layer),
    ("cross_entropy", cross_entropy_by_log_softmax),
    ("smoothed_target", smoothed_target_by_scatter),
    ("smoothed_loss", smoothed_loss_in_two_parts),
    ("gradient", gradient_less_the_highest),
    ("mean_loss", mean_loss_by_selection),
    ("loss_from_logits", loss_with_ignore_index),
    ("train_with_loss_scaling", clipping_at_the_scale),
    ("feed_forward", feed_forward_by_linear),
    ("stacks", stacks_by_reduce),
    ("unembed", unembed_by_linear),
    ("xavier_deviation", xavier_by_power),
    ("count_parameters", count_by_formula),
    ("memory", memory_by_bits),
    ("clean_pairs", pairs_by_products),
    ("training_batch", batch_by_pad_sequence),
    ("padding_share", padding_by_zeros),
    ("batches_by_tokens", batches_by_slices),
    ("read_on", read_one_by_one),
    ("read_on", read_by_generator),
    ("count_pairs", pairs_by_counter),
    ("best_pair", best_by_sorting),
    ("merge_pair", merge_by_stack),
    ("segment", segment_by_earliest),
    ("decode", decode_by_splitting),
    ("layer_norm", layer_norm_by_var_mean),
    ("dropout", dropout_by_masked_fill),
    ("one_back", one_back_by_loops),
    ("one_back", one_back_by_indexing),
    ("row_entropy", entropy_by_where),
    ("row_entropy", entropy_with_epsilon),
    ("row_entropy", entropy_by_nansum),
    ("word_links", links_by_loops),
    ("word_links", links_sources_first),
    ("alignment_error_rate", aer_link_by_link),
    ("heads_off", heads_off_by_rows),
    ("heads_off", heads_off_by_subtraction),
    ("mask_tokens", masked_by_assignment),
    ("prefix_mask", prefix_by_loops),
    ("prefix_mask", prefix_by_blocks),
    ("causal_lm_loss", shifted_loss_by_gather),
    ("causal_lm_loss", shifted_loss_with_padded_labels),
    ("classify", classify_one_by_one),
    ("classify", classify_by_gather),
    ("few_shot_answer", answer_as_text),
    ("reorder_query_key_value", reordered_by_index),
    ("reorder_query_key_value", reordered_by_permute),
    ("roofline", roofline_by_ratio),
    ("update_softmax", softmax_of_one_table),
    ("blockwise_attention", flash_by_logsumexp),
    ("blockwise_attention", flash_by_slices),
    ("mixed_precision", mixed_precision_in_place),
    ("loss_scaling_step", scaling_by_norm),
    ("step_gradient", gradient_by_shares),
    ("embed_tokens", places_by_assignment),
    ("attend", attend_head_by_head),
    ("encoder_layer", encoder_layer_in_steps),
    ("decoder_layer", decoder_layer_in_steps),
    ("next_token_logits", model_with_a_mask_for_the_targets_padding),
    ("translation_loss", loss_of_rows),
    ("train_model", training_by_a_schedule),
    ("translate", greedy_one_by_one),
    ("plot_losses", curves_named_in_the_legend),
    ("DecoderLayer", DropoutByName),
    ("DecoderLayer", DropoutOfTorch),
]


@pytest.mark.parametrize(("name", "answer"), OTHERS, ids=[answer.__name__ for _, answer in OTHERS])
def test_another_right_answer_passes(name: str, answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    topic = next(topic for topic in TOPICS.values() if name in topic.exercises)
    topic.check(name, answer)
    topic.given.answers.clear()
    assert capsys.readouterr().out == f"{topic.exercises[name].success}\n"


def test_inputs_include_more_axes_and_other_dtypes_only_where_the_blank_names_them() -> None:
    for name in ("attention_scores", "softmax", "scaled_dot_product_attention"):
        tensors = [next(iter(inputs.values())) for inputs in attention.topic.exercises[name].inputs]
        assert {2, 4} <= {t.dim() for t in tensors}
    tensors = {e.name: [v for row in e.inputs for v in row.values() if isinstance(v, Tensor)] for e in EXERCISES}
    others = {name for name, found in tensors.items() for t in found if t.dtype in (torch.float16, torch.float64)}
    assert others == {"masked_softmax", "mask_tokens", "loss_scaling_step"}


@pytest.mark.parametrize("name", ["scaled_dot_product_attention", "query_key_value", "shift_target", "layer_cost"])
def test_several_results_may_be_a_list(name: str) -> None:
    exercise = next(exercise for exercise in EXERCISES if exercise.name == name)
    assert exercise.judge(lambda *arguments: list(exercise.reference(*arguments))) is None


def message(name: str, answer: Any) -> str:
    topic = next(topic for topic in TOPICS.values() if name in topic.exercises)
    with pytest.raises(WrongAnswerError) as caught:
        topic.check(name, answer)
    assert caught.value._render_traceback_() == [str(caught.value)]
    return str(caught.value)


def scores(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.mT / math.sqrt(query.size(-1))


def test_unknown_mistakes_are_shown_beside_what_is_expected() -> None:
    first, _, rest = message("attention_scores", lambda q, k: q @ k.mT / 4).partition("\n\n")
    assert first.startswith("✗ attention_scores: the scale is wrong\n")
    assert rest == (
        """the result has wrong numbers, marked with *

  yours                  expected
  [0.50* 0.00  0.50*]    [1.00  0.00  1.00 ]
  [0.00  0.50* 1.50*]    [0.00  1.00  3.00 ]

on this input:
  query = [[2, 0, 0, 0], [0, 2, 0, 1]]
  key = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 4]]"""
    )
    only_large = message("softmax", lambda s: softmaxed(s) if s.dim() == 2 else softmaxed(s).flip(-1))
    assert "yours[0, 0]" in only_large
    assert "float32 tensor of shape (2, 2, 3, 4)" in only_large
    masked = message("causal_mask", lambda n: causal_by_comparison(n).flip(-1))
    assert "[   ·*    ·  True*]    [True     ·     · ]" in masked


def test_differences_smaller_than_two_decimals_can_be_seen() -> None:
    assert "1.0004*" in message("attention_scores", lambda q, k: scores(q, k) + 4e-4)


def softmaxed(scores: Tensor) -> Tensor:
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


class Nameless:
    def __repr__(self) -> str:
        raise ValueError("this object has no name")


def trained_by_index(model: Any, batches: Any, *rest: Any) -> list[float]:
    return capstone._train(model, [batches[i] for i in range(len(batches))], *rest)


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("attention_scores", lambda q, k: None, "it returns None: is there a return statement at the end?"),
        ("attention_scores", lambda q, k: scores(q, k)[None], "the values are right, only their axes are wrong"),
        ("attention_scores", lambda q, k: scores(q, k)[:1], "the shape (1, 3), but should have (2, 3)"),
        ("attention_scores", lambda q, k: scores(q, k).double(), "has the dtype float64, but should have float32"),
        ("attention_scores", lambda q, k: scores(q, k).tolist(), "the result is a list, but should be a Tensor"),
        ("attention_scores", lambda q, k: scores(q, k).numpy(), "the result is an ndarray, but should be a Tensor"),
        ("attention_scores", lambda q, k: scores(q, k).to("meta"), "another device\nYour result is on the device meta"),
        ("attention_scores", lambda q, k: scores(q, k).to_sparse(), "the result is sparse\nReturn an ordinary tensor"),
        ("attention_scores", lambda q, k: torch.nested.nested_tensor([scores(q, k)]), "the result is a nested tensor"),
        ("attention_scores", lambda q, k: Nameless(), "the result is a Nameless, but should be a Tensor"),
        ("best_pair", lambda pairs: ("c", Nameless()), "an object of the class Nameless, whose `__repr__` fails"),
        ("attention_scores", lambda q, k: scores(q, k) / 0 * 0, "contains NaN"),
        ("attention_scores", lambda q, k: q @ k, "it stopped with RuntimeError: mat1 and mat2 shapes cannot be"),
        ("attention_scores", lambda q, k: q @ k, "query: (2, 4)"),
        ("attention_scores", lambda q: q, "takes 1 positional argument but 2 were given"),
        ("attention_scores", torch.ones(2), "attention_scores is a Tensor, but should be a function"),
        ("scaled_dot_product_attention", lambda q, k, v: v, "returns one value, but should return 2: output, weights"),
        ("split_heads", lambda x, n: (x, x), "returns 2 values, but should return one value"),
        ("best_pair", lambda pairs: ("c", "b"), "the result has wrong entries, marked with *"),
        ("best_pair", lambda pairs: ("c", "a", 5), "the result has 3 entries, but should have 2"),
        ("best_pair", lambda pairs: ["c", "a"], "a list instead of a tuple\nReturn the pair as it is in `pairs`"),
        ("train_model", trained_by_index, "batches = an iterator"),
        ("causal_mask", lambda n: causal_by_comparison(n).int(), "has the dtype int32, but should have bool: "),
    ],
)  # fmt: skip
def test_other_failures_are_put_in_plain_words(name: str, answer: Any, said: str) -> None:
    assert said in message(name, answer)


def test_a_named_mistake_is_recognised_beside_a_wrong_shape_or_dtype() -> None:
    said = message("causal_mask", lambda n: torch.ones(n, n).triu(1)).splitlines()
    assert said[0] == "✗ causal_mask: inverted"
    assert said[2] == "Also, the result has the shape (3, 3), but should have (1, 1, 3, 3)."
    said = message("padding_mask", lambda ids, pad_id: (ids == pad_id)[:, None, None].long()).splitlines()
    assert said[0] == "✗ padding_mask: inverted"
    assert said[2] == "Also, the result has the dtype int64, but should have bool."


def ids_first(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    probabilities, ids = (logits.exp() / logits.exp().sum()).topk(n)
    return ids, probabilities


def shifted_by_absolute_values(scores: Tensor) -> Tensor:
    e = (scores - scores.abs().amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def masked_after_the_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.softmax(-1).masked_fill(~mask, 0)
    return weights / weights.sum(-1, keepdim=True)


def encoding_by_dimension(length: int, d_model: int) -> Tensor:
    i = torch.arange(d_model)
    angle = torch.arange(length)[:, None] / 10000 ** (2 * i / d_model)
    return torch.where(i % 2 == 0, angle.sin(), angle.cos())


def cross_masked_by_query(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    query, key, value = (
        split_by_chunks(three_products(t, weight, bias)[i], n_heads) for i, t in enumerate((x, memory, memory))
    )
    heads = package_attention(query, key, value, real[:, None, :, None])[0]
    return join_by_concatenation(heads) @ w_output.mT + b_output


def step_counted_from_0(step: int, d_model: int, warmup_steps: int) -> float:
    step -= 1
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def loss_of_shifted_labels(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return nn.functional.cross_entropy(logits[:, :-1].mT, expected[:, 1:], ignore_index=pad_id)


def gradient_of_means(share: Any, reset: bool = False) -> Any:
    def answer(weight: Tensor, parts: list[tuple[Tensor, Tensor]], pad_id: int) -> Tensor | None:
        weight = weight.detach().requires_grad_()
        for states, expected in parts:
            weight.grad = None if reset else weight.grad
            loss = nn.functional.cross_entropy(states @ weight.T, expected, ignore_index=pad_id)
            (loss / share(parts, pad_id)).backward()
        return weight.grad

    return answer


def greedy_by_value(model: Any, bos: int, eos: int, limit: int) -> list[int]:
    tokens = [bos]
    while len(tokens) <= limit and (token := int(model(tokens).max())) != eos:
        tokens.append(token)
    return tokens[1:]


def ranked_by_probability(hypotheses: list[tuple[float, list[int]]], length_penalty: float, n: int) -> list[list[int]]:
    def score(hypothesis: tuple[float, list[int]]) -> float:
        return math.exp(hypothesis[0]) / penalty_by_exponential(len(hypothesis[1]) - 1, length_penalty)

    return [tokens[1:-1] for _, tokens in sorted(hypotheses, key=score)[::-1][:n]]


def beam_of_few_candidates(
    model: Any, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int
) -> list[int]:
    active, finished = [(0.0, [bos])], []
    for _ in range(steps):
        every = [(s + v, [*t, i]) for s, t in active for i, v in enumerate(model(t).tolist())]
        best = sorted(every, reverse=True)[:beam_size]
        finished += [h for h in best if h[1][-1] == eos]
        active = [h for h in best if h[1][-1] != eos]
    return ranked_by_tuples(finished, length_penalty, 1)[0]


def beam_of_any_eos(model: Any, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    active, finished = [(0.0, [bos])], []
    for _ in range(steps):
        every = [(s + v, [*t, i]) for s, t in active for i, v in enumerate(model(t).tolist())]
        best = sorted(every, reverse=True)[: 2 * beam_size]
        finished += [h for h in best if h[1][-1] == eos]
        active = [h for h in best if h[1][-1] != eos][:beam_size]
    return ranked_by_tuples(finished, length_penalty, 1)[0]


def loss_of_the_first_part(weight: Tensor, parts: list[tuple[Tensor, Tensor]], pad_id: int) -> Tensor | None:
    weight = weight.detach().requires_grad_()
    n = sum((expected != pad_id).sum() for _, expected in parts)
    for states, expected in parts:
        losses = nn.functional.cross_entropy(states @ weight.T, expected, ignore_index=pad_id, reduction="sum")
        (losses / n).backward()
        return weight.grad
    return None


def squeezed_loss(logits: Tensor, target: Tensor) -> Tensor:
    return -logits.log_softmax(-1).gather(1, target.unsqueeze(1)).squeeze()


def stacks_without_chain(source: Tensor, target: Tensor, encoder: Any, decoder: Any) -> Tensor:
    memory = [layer(source) for layer in encoder][-1]
    return [layer(target, memory) for layer in decoder][-1]


def stacks_in_one_loop(source: Tensor, target: Tensor, encoder: Any, decoder: Any) -> Tensor:
    for i in range(min(len(encoder), len(decoder))):
        source = encoder[i](source)
        target = decoder[i](target, source)
    return target


def stacks_with_memory_first(source: Tensor, target: Tensor, encoder: Any, decoder: Any) -> Tensor:
    memory = reduce(lambda x, layer: layer(x), encoder, source)
    return reduce(lambda y, layer: layer(memory, y), decoder, target)


def stacks_with_residuals(source: Tensor, target: Tensor, encoder: Any, decoder: Any) -> Tensor:
    memory = reduce(lambda x, layer: layer(x) + x, encoder, source)
    return reduce(lambda y, layer: layer(y, memory) + y, decoder, target)


def count_by_parts(
    d: int, f: int, n: int, v: int, attention: int = 0, feed_forward: int = 0, encoder_norms: int = 2, norms: int = 3
) -> int:
    attention = attention or 4 * (d * d + d)
    feed_forward = feed_forward or d * f + f + f * d + d
    encoder = attention + feed_forward + encoder_norms * 2 * d
    decoder = 2 * attention + feed_forward + norms * 2 * d
    return n * encoder + n * decoder + v * d


def count_without_parentheses(d: int, f: int, n: int, v: int) -> int:
    encoder = 4 * (d * d + d) + 2 * d * f + f + d + 4 * d
    return n * encoder + (encoder + 4 * (d * d + d) + 2 * d) + v * d


def pairs_begun_with_one(words: list[list[str]], counts: list[int]) -> dict[tuple[str, str], int]:
    pairs: dict[tuple[str, str], int] = {}
    for word, count in zip(words, counts, strict=True):
        for first, second in pairwise(word):
            if (first, second) not in pairs:
                pairs[first, second] = 1
            else:
                pairs[first, second] += count
    return pairs


def pairs_of_one_word(words: list[list[str]], counts: list[int]) -> Any:
    pairs: Counter[tuple[str, str]] = Counter()
    for word, count in zip(words, counts, strict=True):
        for pair in pairwise(word):
            pairs[pair] += count
        return pairs
    return None


def pairs_with_all_later_symbols(words: list[list[str]], counts: list[int]) -> dict[Any, int]:
    pairs: Counter[tuple[str, str]] = Counter()
    for word, count in zip(words, counts, strict=True):
        for i in range(len(word)):
            for second in word[i + 1 :]:
                pairs[word[i], second] += count
    return pairs


def pairs_by_negative_index(words: list[list[str]], counts: list[int]) -> dict[Any, int]:
    pairs: Counter[tuple[str, str]] = Counter()
    for word, count in zip(words, counts, strict=True):
        for i in range(len(word)):
            pairs[word[i - 1], word[i]] += count
    return pairs


def last_of_the_best(pairs: dict[tuple[str, str], int]) -> tuple[str, str]:
    best = next(iter(pairs))
    for pair, count in pairs.items():
        if count >= pairs[best]:
            best = pair
    return best


def best_by_sorting_backwards(pairs: dict[tuple[str, str], int]) -> tuple[str, str]:
    return sorted(pairs, key=lambda pair: (pairs[pair], len(pair[0] + pair[1]), pair[0] + pair[1]), reverse=True)[0]


def merged_where(fits: Any, join: Any = "".join) -> Any:
    def answer(symbols: list[str], pair: tuple[str, str]) -> list[Any]:
        merged, skip = [], False
        for i, symbol in enumerate(symbols):
            if skip:
                skip = False
            elif skip := i + 1 < len(symbols) and fits(symbol, symbols[i + 1], pair):
                merged.append(join((symbol, symbols[i + 1])))
            else:
                merged.append(symbol)
        return merged

    return answer


def learned_with_marks(text: dict[str, int], n_merges: int) -> list[tuple[str, str]]:
    marked = {"▁" + word: count for word, count in text.items()}
    return subword_tokenization.learn.reference(marked, n_merges)


def learned_once(text: dict[str, int], n_merges: int) -> Any:
    words, merges = [list(word) for word in text], []
    for _ in range(n_merges):
        merges.append(best_by_sorting(pairs_by_counter(words, list(text.values()))))
        return merges
    return None


def segmented_once(word: str, merges: list[tuple[str, str]]) -> Any:
    symbols = list(word)
    for pair in merges:
        symbols = subword_tokenization.merge_pair.reference(symbols, pair)
        return symbols
    return None


def segmented_as_a_whole(word: str, merges: list[tuple[str, str]]) -> list[str]:
    return reduce(subword_tokenization.merge_pair.reference, merges, word.split())


def decoded_symbol_by_symbol(symbols: list[str]) -> str:
    text = ""
    for symbol in symbols:
        text += " " + symbol[1:] if symbol.startswith("▁") else symbol
    return text.removeprefix(" ")


def pairs_split_at_spaces(pairs: list[tuple[str, str]], max_words: int, max_ratio: float) -> list[tuple[str, str]]:
    kept: list[tuple[str, str]] = []
    for pair in pairs:
        first, second = (side.split(" ") for side in pair)
        short, long = sorted([len(first), len(second)])
        if short > 0 and long <= min(max_words, max_ratio * short) and first != second and pair not in kept:
            kept.append(pair)
    return kept


def pairs_removed_in_the_loop(pairs: list[tuple[str, str]], max_words: int, max_ratio: float) -> list[tuple[str, str]]:
    rest, kept = list(pairs), set()
    for pair in rest:
        short, long = sorted(len(side.split()) for side in pair)
        if short == 0 or long > max_words or long > max_ratio * short or pair[0].split() == pair[1].split():
            rest.remove(pair)
    return [pair for pair in rest if not (pair in kept or kept.add(pair))]  # type: ignore[func-returns-value]


def pairs_kept_if(drop: Any, keep: Any = lambda source, target: (source, target)) -> Any:
    def answer(pairs: list[tuple[str, str]], max_words: int, max_ratio: float) -> list[Any]:
        kept: list[Any] = []
        for source, target in pairs:
            a, b = source.split(), target.split()
            if min(len(a), len(b)) == 0 or max(len(a), len(b)) > max_words or a == b:
                continue
            if not drop(len(a), len(b), max_ratio) and keep(source, target) not in kept:
                kept.append(keep(source, target))
        return kept

    return answer


def share_of_padding(lengths: list[int], batches: list[list[int]], wide: Any = None, divide: Any = None) -> Any:
    positions = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    if wide is not None:
        positions = sum(len(batch) * wide(lengths, batch) for batch in batches)
    return divide(positions, sum(lengths)) if divide else (positions - sum(lengths)) / positions


def share_in_the_last_batch(lengths: list[int], batches: list[list[int]]) -> float:
    for batch in batches:
        positions = len(batch) * max(lengths[i] for i in batch)
        tokens = sum(lengths[i] for i in batch)
    return (positions - tokens) / positions


def batches_closed_late(lengths: list[int], budget: int) -> list[list[int]]:
    batches, batch = [], []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        batch.append(i)
        if len(batch) * lengths[i] > budget:
            batches.append(batch)
            batch = []
    return [*batches, batch] if batch else batches


def batches_of_fixed_size(lengths: list[int], budget: int) -> list[list[int]]:
    size = max(1, budget // max(lengths))
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    return [order[i : i + size] for i in range(0, len(order), size)]


def batches_by_lookup(lengths: list[int], budget: int) -> list[list[int]]:
    batches: list[list[int]] = [[]]
    for length in sorted(lengths):
        if batches[-1] and (len(batches[-1]) + 1) * length > budget:
            batches.append([])
        batches[-1].append(lengths.index(length))
    return batches


def batches_with_a_double(lengths: list[int], budget: int) -> list[list[int]]:
    batches, batch = [], []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and (len(batch) + 1) * lengths[i] > budget:
            batches.append(batch)
            batch = [i]
        batch.append(i)
    return [*batches, batch]


def batches_without_long_sentences(lengths: list[int], budget: int) -> list[list[int]]:
    batches, batch = [], []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if lengths[i] > budget:
            continue
        if batch and (len(batch) + 1) * lengths[i] > budget:
            batches.append(batch)
            batch = []
        batch.append(i)
    return [*batches, batch]


def read_from(first: Any, later: Any = lambda batches: batches, cut: bool = True) -> Any:
    def answer(order: Any, epoch: int, step: int, count: int) -> list[int]:
        batches = first(order(epoch), step, count)
        while len(batches) < count:
            epoch += 1
            batches = batches + later(order(epoch))
        return batches[:count] if cut else batches

    return answer


def batches_cleared(lengths: list[int], budget: int) -> list[list[int]]:
    batches, batch = [], []  # type: ignore[var-annotated]
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and (len(batch) + 1) * lengths[i] > budget:
            batches.append(batch)
            batch.clear()
        batch.append(i)
    return [*batches, batch]


def count_in_one_product(d: int, f: int, n: int, v: int) -> int:
    return n * (12 * d * (d + 1) + 4 * d * f + 2 * (f + d) + 10 * d + v * d)


def count_2n_layers(d: int, f: int, n: int, v: int) -> int:
    return 2 * n * (4 * d * (d + 1) + 2 * d * f + f + d + 4 * d) + v * d


class WithoutGradients(train_your_own.DecoderLayer):
    def forward(self, *inputs: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(*inputs)


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("build_vocabulary", lambda sentences, _: vocabulary_by_removal(sentences, 99), "all words, whatever the size"),
        ("most_probable", ids_first, "the two results swapped"),
        ("softmax", shifted_by_absolute_values, "the largest absolute value"),
        ("masked_softmax", masked_after_the_softmax, "divided by a sum that can be 0"),
        ("sinusoidal_encoding", encoding_by_dimension, "an exponent for each dimension"),
        ("query_key_value", lambda x, w, b: [*(x @ w.mT + b).reshape(3, *x.shape)], "cut in reading order"),
        ("cross_attention", cross_masked_by_query, "the mask varies along the queries"),
        ("dropout", lambda x, rate, draw, training: x if training else x * (draw >= rate) / (1 - rate),
         "training and inference swapped"),
        ("stacks", stacks_without_chain, "only the last layer of each stack"),
        ("count_parameters", count_in_one_product, "the embedding matrix counted once per layer"),
        ("count_parameters", count_2n_layers, "decoder layers like encoder layers"),
        ("memory", lambda parameters: (12 * parameters, 2 * parameters), "three numbers per parameter instead of four"),
        ("stacks", stacks_in_one_loop, "both stacks in a single loop"),
        ("stacks", stacks_with_memory_first, "the two arguments of a decoder layer swapped"),
        ("stacks", stacks_with_residuals, "residual connections around the layers"),
        ("unembed", lambda states, e: unembed_by_linear(states, e).max(-1).indices, "the most probable token"),
        ("xavier_deviation", lambda n_in, n_out: (n_in**-0.5 + n_out**-0.5) / 2, "the mean of two deviations"),
        ("xavier_deviation", lambda n_in, n_out: (n_in + n_out / 2) ** -0.5, "only one of the two numbers halved"),
        ("xavier_deviation", lambda n_in, n_out: (1 // ((n_in + n_out) / 2)) ** 0.5, "rounded down to 0"),
        ("xavier_deviation", lambda n_in, n_out: int((2 / (n_in + n_out)) ** 0.5), "rounded down to 0"),
        ("xavier_deviation", lambda n_in, n_out: (2 / (n_in + n_out)) ** 1 / 2, "half of the variance"),
        ("count_parameters", lambda d, f, n, v: count_by_parts(d, f, n, v, norms=2),
         "a decoder norm or a bias of the feed-forward networks missing"),
        ("count_parameters", lambda d, f, n, v: count_by_parts(d, f, n, v, feed_forward=d * f + f + f * d),
         "a decoder norm or a bias of the feed-forward networks missing"),
        ("count_parameters", lambda d, f, n, v: count_by_parts(d, f, n, v, encoder_norms=1, norms=2),
         "no norm after the feed-forward networks"),
        ("count_parameters", lambda d, f, n, v: count_by_parts(d, f, n, v, feed_forward=2 * d * f),
         "no biases in the feed-forward networks"),
        ("count_parameters", lambda d, f, n, v: count_by_parts(d, f, n, v, attention=4 * d * d + d),
         "a single bias in each attention layer"),
        ("count_parameters", lambda d, f, n, v: count_by_parts(d, f, n, v, attention=4 * (d ^ 2 + d)),
         "a bitwise operation in place of a power"),
        ("count_parameters", count_without_parentheses, "only the encoder layers multiplied by n"),
        ("memory", lambda parameters: (16 * parameters, 4 * 2 * parameters),
         "gradients and optimiser state at inference"),
        ("memory", lambda parameters: (16 * parameters, 16 * parameters), "as much at inference as in training"),
        ("memory", lambda parameters: (16 * parameters, parameters), "one byte per parameter at inference"),
        ("count_pairs", pairs_begun_with_one, "the first occurrence counted as one"),
        ("count_pairs", pairs_of_one_word, "only the first word"),
        ("count_pairs", pairs_with_all_later_symbols, "symbols that aren't adjacent"),
        ("count_pairs", pairs_by_negative_index, "the last symbol paired with the first"),
        ("best_pair", best_by_sorting_backwards, "ties broken the wrong way round"),
        ("best_pair", last_of_the_best, "the last one counted"),
        ("best_pair", lambda pairs: sorted(p for p in pairs if pairs[p] == max(pairs.values()))[0],
         "ties broken by the pairs alone"),
        ("best_pair", lambda pairs: sorted(pairs, key=lambda p: (len(p[0]) + len(p[1]), p[0] + p[1]))[0],
         "counts not used"),
        ("merge_pair", merged_where(lambda a, b, pair: (a, b) == pair, join=tuple), "the pair itself added"),
        ("merge_pair", merged_where(lambda a, b, pair: sorted((a, b)) == sorted(pair)),
         "the pair merged in either order"),
        ("merge_pair", merged_where(lambda a, b, pair: a in pair and b in pair), "any two symbols of the pair merged"),
        ("merge_pair", lambda symbols, pair: list("".join(symbols)), "the merged symbol taken apart into characters"),
        ("merge_pair", merged_where(lambda a, b, pair: a == pair[0]), "only the first symbol compared"),
        ("learn", learned_with_marks, "the mark added to each word"),
        ("learn", learned_once, "only the first merge"),
        ("segment", segmented_once, "only the first merge"),
        ("segment", segmented_as_a_whole, "the word not split into characters"),
        ("decode", lambda symbols: " ".join(symbols), "symbols joined with spaces"),
        ("decode", lambda symbols: re.sub("^ ", "", re.sub("▁", " ", " ".join(symbols))),
         "a space for each symbol and each mark"),
        ("decode", lambda symbols: "".join(symbols).lstrip("▁").replace("▁", " "),
         "all spaces at the beginning removed"),
        ("decode", lambda symbols: re.sub("▁", " ", re.sub("▁", "", "".join(symbols), count=1)),
         "the first mark removed wherever it is"),
        ("decode", decoded_symbol_by_symbol, "only marks at the start of a symbol"),
        ("clean_pairs", pairs_split_at_spaces, "an empty side counted as one word"),
        ("clean_pairs", pairs_removed_in_the_loop, "pairs removed from the list of the loop"),
        ("clean_pairs", pairs_kept_if(lambda a, b, ratio: a - b > ratio or b - a > ratio),
         "the difference instead of the ratio"),
        ("clean_pairs", pairs_kept_if(lambda a, b, ratio: a > ratio * b or b > ratio * a,
                                      keep=lambda source, target: (source.split(), target.split())),
         "lists of words returned"),
        ("padding_share", lambda lengths, batches: share_of_padding(lengths, batches, divide=lambda n, m: (n - m) // n),
         "the share rounded down"),
        ("padding_share", lambda lengths, batches: share_of_padding(lengths, batches, divide=lambda n, m: n - m / n),
         "only the tokens divided"),
        ("padding_share", lambda lengths, batches: share_of_padding(
            lengths, batches, wide=lambda all_lengths, batch: max(all_lengths[i] for i, _ in enumerate(batch))),
         "places in the batch taken for indices"),
        ("padding_share", share_in_the_last_batch, "only the last batch"),
        ("batches_by_tokens", batches_closed_late, "closed one sentence too late"),
        ("batches_by_tokens", batches_of_fixed_size, "every batch as wide as the longest sentence of all"),
        ("batches_by_tokens", batches_by_lookup, "one index for all sentences of a length"),
        ("batches_by_tokens", batches_with_a_double, "the first sentence of a batch twice"),
        ("batches_by_tokens", batches_without_long_sentences, "sentences over the budget skipped"),
        ("read_on", read_from(lambda batches, step, count: batches[step:count]),
         "the epoch cut off at the index count"),
        ("read_on", read_from(lambda batches, step, count: batches[:step]), "the batches before the step"),
        ("read_on", read_from(lambda batches, step, count: batches[step:], cut=False), "whole epochs"),
        ("read_on", read_from(lambda batches, step, count: sorted(batches)[step:], later=sorted),
         "each epoch in the order of the numbers"),
        ("batches_by_tokens", batches_cleared, "one list for all batches"),
        ("mean_loss", lambda x, y, p: (x * (y != p)).sum() / ((y != p).sum() + 1), "divided by one more"),
        ("learning_rate", step_counted_from_0, "one step behind"),
        ("batch_loss", loss_of_shifted_labels, "labels shifted again"),
        ("accumulated_gradient", gradient_of_means(lambda parts, _: len(parts)), "the mean of the parts' means"),
        ("accumulated_gradient", gradient_of_means(lambda *_: 1), "the sum of the parts' means"),
        ("accumulated_gradient", gradient_of_means(lambda parts, pad_id: sum((y != pad_id).sum() for _, y in parts)),
         "divided twice"),
        ("accumulated_gradient", gradient_of_means(lambda *_: 1, reset=True),
         "only the last part, divided by its own count"),
        ("greedy_search", greedy_by_value, "the largest log-probability itself"),
        ("n_best", ranked_by_probability, "the probability divided"),
        ("beam_search", beam_of_few_candidates, "too few candidates, until none is left"),
        ("beam_search", beam_of_any_eos, "any eos finishes"),
        ("accumulated_gradient", loss_of_the_first_part, "only the first part"),
        ("cross_entropy", squeezed_loss, "all axes of length one removed"),
        ("DecoderLayer", WithoutGradients, "computed without gradients"),
    ],
)  # fmt: skip
def test_what_learners_write_is_called_by_the_name_of_its_mistake(name: str, answer: Any, title: str) -> None:
    assert message(name, answer).splitlines()[0] == f"✗ {name}: {title}"


@pytest.mark.parametrize(
    "setting", [{"lowercase": True}, {"tokenize": "none"}, {"tokenize": "intl"}, {"smooth_method": "none"}], ids=str
)
def test_bleu_with_other_settings_than_sacrebleus_defaults_is_refused(setting: dict[str, Any]) -> None:
    def answer(*inputs: Any) -> float:
        hypotheses, references = train_your_own._texts(*inputs)
        return BLEU(**setting).corpus_score(hypotheses, [references]).score

    assert message("bleu_score", answer)


def test_a_fake_model_says_what_it_misses_in_the_prompt() -> None:
    with pytest.raises(ValueError, match="no token ':'; a colon is a token of its own"):
        transformer_family._counts_tokens(["a", "cat:"])


def test_an_error_names_the_line_of_the_answer() -> None:
    def answer(query: Tensor, key: Tensor) -> Tensor:
        return query @ key

    assert f"in line {answer.__code__.co_firstlineno + 1} of its cell: return query @ key" in message(
        "attention_scores", answer
    )


def test_an_open_blank_is_not_done_yet_but_an_unsupported_operation_is_an_error() -> None:
    def still_open(query: Tensor, key: Tensor) -> Tensor:
        raise NotImplementedError("not done yet: write your code in place of this line")

    said = "✗ attention_scores: not done yet: write your code in place of this line"
    assert message("attention_scores", still_open) == said
    # PyTorch raises NotImplementedError too.
    assert "it stopped with NotImplementedError" in message("target_mask", lambda ids, pad: ids.float() & ids.float())


def test_what_a_value_says_of_itself_does_not_count() -> None:
    class Number(int):
        __eq__ = object.__ne__
        __hash__ = int.__hash__

    class Words(list[str]):
        __len__ = lambda self: 2  # noqa: E731
        __iter__ = lambda self: iter(["cat", "s"])  # noqa: E731

    class Pairs(dict[Any, Any]):
        __eq__ = object.__ne__
        __getitem__ = lambda self, key: 0  # noqa: E731

    assert to_builtin(Number(3)) == 3 and to_builtin(Number(3)) != 4
    assert to_builtin(Words(["dog"])) == ["dog"]
    assert to_builtin((Pairs(a=Words()), Number(1))) == ({"a": []}, 1)
    assert type(to_builtin(nn.Parameter(torch.ones(1)))) is Tensor
    assert to_builtin(torch.ones(2).numpy()[0]) == 1.0
    assert to_builtin([np.bool_(True)])[0] is True


def test_a_check_that_cannot_tell_wrong_from_right_passes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "isclose", lambda a, *_, **__: torch.ones_like(a, dtype=torch.bool))
    for answer in (attention.softmax.reference, lambda scores: scores):
        with pytest.raises(WrongAnswerError, match="can no longer tell right answers from wrong ones"):
            attention.topic.check("softmax", answer)


def test_what_an_answer_prints_is_shown_once_and_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    def talking(query: Tensor, key: Tensor) -> Tensor:
        print("shape", tuple(query.shape))
        return scores(query, key)

    attention.check("attention_scores", talking)
    attention.given.answers.clear()
    assert capsys.readouterr().out == f"{attention.topic.exercises['attention_scores'].success}\n"
    said = message("attention_scores", lambda q, k: talking(q, k) + 1)
    assert said.endswith("your code printed\n  shape (2, 4)")

    def endless(query: Tensor, key: Tensor) -> Tensor:
        while True:
            with contextlib.suppress(Exception):
                print("again")

    said = message("attention_scores", endless)
    assert said == "✗ attention_scores: it printed more than 100,000 characters: is there an endless loop?"


def test_an_answer_may_not_change_its_inputs() -> None:
    def in_place(scores: Tensor, mask: Tensor) -> Tensor:
        scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
        return scores.softmax(-1) * mask

    said = message("masked_softmax", in_place)
    assert said.startswith("✗ masked_softmax: it changes its input `scores`\nYour result is right, but ")
    assert masking.masked_softmax.judge(masking.masked_softmax.reference) is None


def test_an_answer_may_not_change_pytorchs_settings() -> None:
    def without_gradients(model: nn.Module, batches: Any) -> float:
        torch.set_grad_enabled(False)
        return train_your_own.validation_loss.reference(model, batches)  # type: ignore[no-any-return]

    def in_double_precision(scores: Tensor) -> Tensor:
        torch.set_default_dtype(torch.float64)
        return softmaxed(scores)

    said = message("validation_loss", without_gradients)
    assert said.startswith("✗ validation_loss: it leaves gradient recording switched off\n")
    assert said.endswith("Use `with torch.no_grad():`, which switches recording on again at its end.")
    assert message("softmax", in_double_precision).startswith("✗ softmax: it changes PyTorch's default dtype\n")
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32


def test_the_number_of_heads_is_shown() -> None:
    assert "; n_heads = 1; its linear layers leave" in message("attend", lambda *_: torch.zeros(1))


def same(config: ModelConfig, n: int) -> nn.ModuleList:
    return nn.ModuleList([train_your_own.DecoderLayer(config)] * n)


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (lambda layer, c: setattr(layer, "norms", [nn.LayerNorm(c.d_model)] * 3), "`norms` is a plain list"),
        (lambda layer, c: None, "there is no `norms`"),
        (lambda layer, c: setattr(layer, "norm", nn.ModuleList([nn.LayerNorm(4)])), "there is no `norms`"),
        (lambda layer, c: setattr(layer, "norms", nn.ModuleList([nn.LayerNorm(c.d_model)])),
         "`norms` has 1 entry, but should have 3"),
        (lambda layer, c: setattr(layer, "norms", nn.ModuleList([nn.LayerNorm(c.d_model)] * 3)),
         "the same module several times"),
        (lambda layer, c: setattr(layer, "norms", nn.ModuleList(nn.LayerNorm(c.d_model, elementwise_affine=False)
                                                                for _ in range(3))), "`norms` has no weights"),
        (lambda layer, c: setattr(layer, "feed_forward", FeedForward(c.d_ff, c.d_model)),
         "the two sizes of FeedForward are swapped"),
        (lambda layer, c: setattr(layer, "feed_forward", FeedForward(c.d_model, c.d_ff + 1)),
         "the parameters aren't those of the table"),
        (lambda layer, c: setattr(layer, "cross_attention", layer.self_attention),
         "`self_attention` and `cross_attention` are one and the same module"),
    ],
)  # fmt: skip
def test_wrong_parts_of_a_layer_are_named(change: Any, title: str) -> None:
    class Layer(train_your_own.DecoderLayer):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            norms = self.norms
            del self.norms
            change(self, config)
            if "norm" not in title:
                self.norms = getattr(self, "norms", norms)

    assert message("DecoderLayer", Layer).splitlines()[0] == f"✗ DecoderLayer: {title}"


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (lambda model, c: {"encoder": [*model.encoder]}, "`encoder` is a plain list"),
        (lambda model, c: {"decoder": [*model.decoder]}, "`decoder` is a plain list"),
        (lambda model, c: {"decoder": same(c, c.n_layers)}, "the same module several times"),
        (lambda model, c: {"encoder": model.encoder[:1], "decoder": model.decoder[:1]},
         "`encoder` has 1 entry, but should have 2"),
        (lambda model, c: {"encoder_norm": nn.Identity()}, "`encoder_norm` has no weights"),
        (lambda model, c: {"encoder_norm": model.decoder_norm},
         "`encoder_norm` and `decoder_norm` are one and the same module"),
        (lambda model, c: {"unembedding": nn.Linear(c.d_model, c.vocab_size, bias=False)}, "embeddings not tied"),
        (lambda model, c: {"positions": nn.Parameter(model.positions)}, "the positional encoding is a parameter"),
    ],
)  # fmt: skip
def test_wrong_parts_of_a_model_are_named(change: Any, title: str) -> None:
    class Model(train_your_own.Transformer):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            for name, part in change(self, config).items():
                delattr(self, name)
                setattr(self, name, part)

    assert message("Transformer", Model).splitlines()[0] == f"✗ Transformer: {title}"


def test_an_output_layer_with_a_bias_is_named() -> None:
    class Biased(train_your_own.Transformer):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            self.unembedding.bias = nn.Parameter(torch.zeros(config.vocab_size))

    assert message("Transformer", Biased).startswith("✗ Transformer: the output layer has a bias\n")


def test_what_keeps_a_module_from_working_is_named() -> None:
    class NoForward(nn.Module):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__()

    class NoSuper(nn.Module):
        def __init__(self, config: ModelConfig) -> None:
            self.dropout = nn.Dropout(config.dropout)

    class UnusedNorm(train_your_own.DecoderLayer):
        def residual(self, x: Tensor, norm: nn.Module, sublayer: Any) -> Tensor:
            return super().residual(x, nn.LayerNorm(x.size(-1)) if norm is self.norms[0] else norm, sublayer)

    assert message("DecoderLayer", lambda config: None).startswith("✗ DecoderLayer: it isn't a module\n")
    assert message("DecoderLayer", NoForward).startswith("✗ DecoderLayer: `forward` is missing\n")
    assert "`super().__init__()` has to be the first line" in message("DecoderLayer", NoSuper)
    assert message("DecoderLayer", UnusedNorm).startswith("✗ DecoderLayer: `norms.0` gets no gradient\n")


def test_of_a_configuration_only_the_settings_that_the_notebook_names_are_shown() -> None:
    class Zeros(train_your_own.DecoderLayer):
        def forward(self, *inputs: Tensor) -> Tensor:
            return 0 * super().forward(*inputs)

    shown = (
        "  config = ModelConfig(vocab_size=11, d_model=4, n_heads=2, d_ff=6, n_layers=1, dropout=0.5, max_length=8)\n"
    )
    assert shown in message("DecoderLayer", Zeros)


def test_a_right_answer_that_calls_a_wrong_one_is_told_so() -> None:
    answers: dict[str, Any] = {"torch": torch}
    exec(
        "def softmax(scores):\n    return scores.softmax(dim=0)\n"
        "def scaled_dot_product_attention(query, key, value):\n"
        "    weights = softmax(query @ key.transpose(-2, -1) / query.size(-1) ** 0.5)\n"
        "    return weights @ value, weights\n",
        answers,
    )
    said = message("scaled_dot_product_attention", answers["scaled_dot_product_attention"])
    assert "this blank is right, but it calls one that isn't\nIt calls your own `softmax`" in said
    assert answers["softmax"].__name__ == "softmax"  # the learner's own function is back in its place
    exec("def softmax(scores):\n    return (2 * scores).softmax(dim=-1)\n", answers)
    exec("def scaled_dot_product_attention(query, key, value):\n    return softmax(query @ key.mT) @ value\n", answers)
    assert "this blank is right" not in message("scaled_dot_product_attention", answers["scaled_dot_product_attention"])


def test_a_loss_that_is_a_constant_for_some_inputs_is_refused() -> None:
    def constant_without_tokens(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
        real = target != pad_id
        return losses[real].mean() if real.any() else torch.tensor(0.0)

    said = message("mean_loss", constant_without_tokens)
    assert said.startswith("✗ mean_loss: a result without a gradient\nYour result is right, but here it is a constant")
    assert "target" in said


def test_given_is_the_learners_own_once_it_is_right() -> None:
    topic = Topic()
    exercise = topic.exercise({"x": 1}, {"x": 2})(lambda x: x + 1)
    assert topic.given.__getattr__(exercise.name)(1) == 2

    def mine(x: int) -> int:
        return 1 + x

    topic.check(exercise.name, mine)
    assert topic.given.answers == {exercise.name: mine}
    assert getattr(topic.given, exercise.name)(x=5) == 6
    with pytest.raises(WrongAnswerError):
        topic.check(exercise.name, lambda x: x)
    assert topic.given.answers == {}
    with pytest.raises(AttributeError, match="there is no function 'other'"):
        _ = topic.given.other


@pytest.mark.parametrize("answer", [attention.given.join_heads, lambda heads: attention.given.join_heads(heads)])
def test_a_blank_is_not_built_on_itself(answer: Any) -> None:
    said = "✗ join_heads: it calls itself\nYour code calls `given.join_heads`, the result of this very blank. "
    assert message("join_heads", answer).startswith(said)
    assert attention.given.join_heads(torch.ones(1, 2, 3, 4)).shape == (1, 3, 8), "afterwards it can be used again"


def endless(*_: Any) -> None:
    while True:
        pass


def test_a_check_has_limits_and_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGPROF), resource.getrlimit(resource.RLIMIT_DATA)

    monkeypatch.setattr(check_module, "limited", lambda _: limits.limited(seconds=0.5))
    said = message("attention_scores", endless)
    assert said == "✗ attention_scores: it did not finish within 0.5 s: is there an endless loop?"
    if sys.platform == "linux":
        monkeypatch.setattr(check_module, "limited", lambda _: limits.limited(memory=10**8))
        said = message("attention_scores", lambda query, key: torch.ones(10**8))
        assert "it stopped with RuntimeError" in said and "memory" in said
    assert (signal.getsignal(signal.SIGPROF), resource.getrlimit(resource.RLIMIT_DATA)) == before
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0


def test_only_the_main_threads_time_counts() -> None:
    """PyTorch's other threads use computing time, too, even while they wait: a right answer isn't refused for that."""
    finished = threading.Event()

    def work() -> None:
        while not finished.is_set():
            hashlib.sha256(bytes(10**7))

    start = time.process_time()
    with ThreadPoolExecutor() as pool:
        pool.submit(work)
        try:
            with limits.limited(seconds=0.3):
                while time.process_time() < start + 0.5:  # until the other thread has used more than the limit
                    time.sleep(0.01)
        finally:
            finished.set()


@pytest.mark.parametrize(
    ("signal_number", "timer"), [(signal.SIGPROF, signal.ITIMER_PROF), (signal.SIGALRM, signal.ITIMER_REAL)]
)
@pytest.mark.parametrize("seconds", [0.05, 60])
def test_a_limit_that_is_already_running_stays_in_force(signal_number: int, timer: int, seconds: float) -> None:
    def stop(*_: Any) -> None:
        raise LimitReached("the outer limit")

    before = signal.signal(signal_number, stop)
    signal.setitimer(timer, 1)
    try:
        with pytest.raises(LimitReached, match="the outer limit"), limits.limited(seconds):
            endless()
    finally:
        signal.setitimer(timer, 0)
        signal.signal(signal_number, before)


def test_unknown_exercise() -> None:
    with pytest.raises(ValueError, match="there is no exercise 'attention'; choose from attention_scores, softmax"):
        attention.check("attention", scores)


@pytest.mark.parametrize(
    ("a", "b"),
    [(0.1 + 0.2, 0.3), (2, 2), (math.nan, math.nan), ([1, (2, 3)], [1, [2, 3]]), ({"a": [1]}, Counter(a=[1]))],
)
def test_plain_results_are_the_same_rounding_and_kind_of_container_aside(a: Any, b: Any) -> None:
    assert equal(a, b) and equal(b, a)


def test_an_integer_may_replace_a_float_but_not_the_other_way_round() -> None:
    assert equal(2, 2.0) and equal([1, {"a": 3}], [1.0, {"a": 3.0}])
    assert not equal(2.0, 2) and not equal({"a": [1.0]}, {"a": [1]})


@pytest.mark.parametrize(
    ("a", "b"),
    [(1e9, 1e9 + 1e5), (10**9, 10**9 + 1), (True, 1), ([1], [1, 2]), ({1: 1}, {2: 1}), ("a", ["a"])],
)
def test_other_plain_results_differ(a: Any, b: Any) -> None:
    assert not equal(a, b) and not equal(b, a)


def test_plain_results_are_shown_beside_what_is_expected() -> None:
    def said(expected: Any, yours: Any, *inputs: Any) -> str:
        topic = Topic()
        exercise = topic.exercise({"x": 1})(lambda x: expected)
        return str(exercise.judge(lambda x: yours)).removesuffix("\n\non this input:\n  x = 1")

    assert said(0.3, 0.25) == "the result is 0.25, but should be 0.3"
    assert said(0.3, 0.3 + 4e-6).startswith("the result is 0.300004")
    assert said(1.0, torch.tensor(1.0)).endswith(
        "a Tensor, but should be a float: the value is right, only its type is wrong"
    )
    assert said([4, [5]], [4, [7], 0.5]) == (
        """the result has 3 entries, but should have 2; differences are marked with *

  yours    expected
  4        4
  [7]*     [5]
  0.5*     –"""
    )
    heading, first = said(list(range(30)), [*range(12), *range(13, 31)]).splitlines()[2:4]
    assert heading.split("  ")[1] == "yours, from entry 12 on" and first.split() == ["13*", "12"]
    assert said({"a": 1, "b": 2}, {"a": 1, "c": 3}) == (
        """the result has wrong entries, marked with *

  yours      expected
  –*         'b': 2
  'c': 3*    –"""
    )
    assert all(len(line) < 140 for line in said([[1]], [[*range(1000)]]).splitlines())
    nested = said({"w": torch.zeros(2), "b": torch.ones(1)}, {"w": torch.tensor([0.0, 1.0]), "b": torch.ones(1)})
    assert nested.startswith("entry 'w' of the result has wrong numbers, marked with *")


@pytest.mark.parametrize(
    ("shape", "place", "heading"),
    [
        ((20, 12), (15, 10), "yours[15:20, 10:12]"),
        ((20, 3), (1, 1), "yours[0:8, 0:3]"),
        ((30,), (17,), "yours[17:25]"),
        ((2, 3, 9), (1, 2, 8), "yours[1, 0:3, 8:9]"),
        ((2, 3), (1, 1), "yours"),
    ],
)
def test_a_part_of_a_table_has_its_place_in_the_heading(shape: Any, place: Any, heading: str) -> None:
    expected, yours = torch.zeros(shape), torch.zeros(shape)
    yours[place] = 1.0
    lines = tables_side_by_side(yours, expected)
    assert lines[1].split("    ")[0] == f"  {heading}" and "1*" in "".join(lines[2:])


def test_a_type_has_its_article() -> None:
    assert [type_with_article(x) for x in (nn.Embedding(1, 1), 3, 0.5)] == ["an Embedding", "an int", "a float"]


def test_lists_are_copied_for_each_call() -> None:
    topic = Topic()
    exercise = topic.exercise({"x": [1, 2]})(lambda x: sum(x))
    assert str(exercise.judge(lambda x: x.pop() + x.pop())).startswith("it changes its input `x`\n")
    assert exercise.judge(lambda x: sum(x)) is None


def test_a_function_among_the_inputs_is_told_by_what_it_does() -> None:
    text = layers.post_norm.judge(lambda x, sublayer, norm: norm(x - sublayer(x)))
    assert text is not None
    assert "  sublayer = a function: each vector reversed, and doubled\n" in text


def test_half_precision_is_told_from_the_default() -> None:
    x = torch.tensor([[1.0, 2.5]])
    assert format_inputs({"x": x, "y": x.half()}) == ["  x = [[1, 2.5]]", "  y = [[1, 2.5]] (float16)"]


def test_of_long_lists_of_tensors_only_the_shapes_are_shown() -> None:
    said = message("train_model", lambda *_: [0.0])
    assert max(map(len, said.splitlines())) < 250
    batches = [(torch.zeros(5, 2), torch.zeros(5))] * 4
    (line,) = format_inputs({"batches": batches})
    pair = "(float32 tensor of shape (5, 2), float32 tensor of shape (5,))"
    assert line == f"  batches = [{pair}, {pair}, {pair}, … (4 in all)]"
    assert format_inputs({"parts": [torch.ones(2)]}) == ["  parts = [tensor([1, 1])]"]


def test_half_precision_outcomes_compare_with_its_tolerance() -> None:
    inputs = {"scores": torch.tensor([[1.0, 2.0]], dtype=torch.float16)}
    assert call(lambda s: s.softmax(-1), inputs).equals(call(lambda s: s.float().softmax(-1).half(), inputs))


def test_a_mistake_with_a_wrong_dtype_that_shows_late_is_still_explained() -> None:
    exercise = Exercise("size", torch.abs, [{"x": torch.tensor([1.0, 2])}, {"x": torch.tensor([-1.0, 2])}], ("size",))
    exercise.mistake("signs kept", "Take them off.")(lambda x: x)
    said = exercise.judge(lambda x: x.double() if (x < 0).any() else x)
    assert said and said.startswith("signs kept\nTake them off.\nAlso, ") and "float64" in said


def test_a_near_miss_is_told_which_mistake_it_looks_like() -> None:
    said = message("softmax", lambda s: torch.exp(s - s.amax(-1, True)) / (2 if s.dim() > 3 else 1))
    assert said.startswith("✗ softmax: this looks like a known mistake: not normalised\nYour numbers are positive")
    assert len(said.splitlines()) == 2, "nothing about the inputs on which it is wrong in another way"
    said = message("softmax", lambda s: s.softmax(-2) if s.dim() == 2 else softmaxed(s))
    assert "softmax" in said and "this looks like" not in said, "PyTorch's own is refused first"

    exercise = Exercise("double", lambda n: 2 * n, [{"n": n} for n in (1, 2, 3, 4, 5, 0)], ("result",))
    exercise.mistake("not doubled", "Double it.")(lambda n: n)
    exercise.mistake("squared", "Don't square it.")(lambda n: n * n)
    said = str(exercise.judge(lambda n: n if n < 5 else 10))
    looks_like, right_on = (
        "this looks like a known mistake: not doubled",
        "Your result is right, though, on this input:",
    )
    assert said == f"{looks_like}\nDouble it.\n{right_on}\n  n = 5"
    other_at_first = str(exercise.judge(lambda n: 7 if n == 1 else n))
    assert other_at_first.startswith("the result is 7, but should be 2"), "not on the first input that is shown"
    assert str(exercise.judge(lambda n: n if n % 2 else n * n)).startswith("the result is 1, but should be 2"), "two"
    assert str(exercise.judge(lambda n: 7)).startswith("the result is 7, but should be 2"), "none"
    assert str(exercise.judge(lambda n: n if n == 3 else 2 * n)).startswith("the result is 3, but should be 6"), (
        "rarely"
    )
