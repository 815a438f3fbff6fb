"""What learners write in the notebooks about the Transformer family, GPUs and WMT14, and what they are told."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.exercises.test_checks import TOPICS, message

TOO_MANY = "the scores of too many keys at once"


def accepted(name: str, answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    topic = next(topic for topic in TOPICS.values() if name in topic.exercises)
    topic.check(name, answer)
    topic.given.answers.clear()
    assert capsys.readouterr().out == f"{topic.exercises[name].success}\n"


def first_line(name: str, answer: Any) -> str:
    return message(name, answer).splitlines()[0].removeprefix(f"✗ {name}: ")


# FlashAttention -------------------------------------------------------------------------------------------------------


def flash_with(blocks: Callable[[Tensor, int], Any], transpose: Callable[[Tensor], Tensor] = lambda k: k.mT) -> Any:
    def answer(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
        maximum = torch.full_like(query[..., :1], -math.inf)
        total, weighted = torch.zeros_like(maximum), torch.zeros_like(query)
        for k, v in zip(blocks(key, block), blocks(value, block), strict=True):
            scores = query @ transpose(k) / query.size(-1) ** 0.5
            new = torch.maximum(maximum, scores.amax(-1, keepdim=True))
            e, correction = (scores - new).exp(), (maximum - new).exp()
            total = total * correction + e.sum(-1, keepdim=True)
            weighted, maximum = weighted * correction + e @ v, new
        return weighted / (total + (sink - maximum).exp())

    return answer


def flash_with_a_sink(add: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Any:
    """The chapter's function, with the sink added to the sum at the end."""

    def answer(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
        maximum = query.new_full((*query.shape[:-1], 1), -math.inf)
        total, weighted = torch.zeros_like(maximum), torch.zeros_like(query)
        for k, v in zip(key.split(block, -2), value.split(block, -2), strict=True):
            scores = query @ k.mT / math.sqrt(query.size(-1))
            new_maximum = torch.maximum(maximum, scores.amax(-1, keepdim=True))
            correction = (maximum - new_maximum).exp()
            e = (scores - new_maximum).exp()
            total = total * correction + e.sum(-1, keepdim=True)
            weighted = weighted * correction + e @ v
            maximum = new_maximum
        return weighted / add(total, torch.tensor(sink), maximum)

    return answer


flash_of_the_chapter = flash_with_a_sink(lambda total, sink, maximum: total)


def table_transposed(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    scores = key @ query.mT / math.sqrt(key.size(-1))
    return torch.cat([scores, torch.full_like(scores[..., :1, :], sink)], -2).softmax(-2)[..., :-1, :].mT @ value


def table_split_afterwards(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    columns = (query @ key.mT / math.sqrt(key.size(-1))).split(block, -1)
    highest = torch.stack([c.amax(-1, keepdim=True) for c in columns]).amax(0)
    e = [(c - highest).exp() for c in columns]
    weighted = sum(part @ v for part, v in zip(e, value.split(block, -2), strict=True))
    return weighted / (sum(part.sum(-1, keepdim=True) for part in e) + (sink - highest).exp())


def row_of_each_query(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    if query.dim() > 2:
        return torch.stack([row_of_each_query(q, k, v, block, sink) for q, k, v in zip(query, key, value, strict=True)])
    scores = [torch.cat([key @ q / math.sqrt(len(q)), torch.tensor([sink])]) for q in query]
    return torch.stack([row.softmax(0)[:-1] @ value for row in scores])


@pytest.mark.parametrize("answer", [table_transposed, table_split_afterwards, row_of_each_query])
def test_no_table_of_all_scores_is_accepted(answer: Any) -> None:
    assert first_line("blockwise_attention", answer) == TOO_MANY


def test_all_blocks_of_scores_in_a_list_are_not_accepted() -> None:
    def answer(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
        scores = [query @ k.mT / math.sqrt(query.size(-1)) for k in key.split(block, -2)]
        highest = torch.stack([s.amax(-1, keepdim=True) for s in scores]).amax(0)
        total = sum((s - highest).exp().sum(-1, keepdim=True) for s in scores) + (sink - highest).exp()
        return sum((s - highest).exp() @ v for s, v in zip(scores, value.split(block, -2), strict=True)) / total

    assert message("blockwise_attention", answer).splitlines()[:2] == [
        f"✗ blockwise_attention: {TOO_MANY}",
        "Your code keeps the scores of each block. For a long text they would fill the memory, and never having them "
        "all is the idea of FlashAttention: compute the scores of one block of keys, use them, and forget them.",
    ]


def a_column_for_each_block(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    logarithms, outputs = [torch.full_like(query[..., 0], sink)], [torch.zeros_like(query)]
    for k, v in zip(key.split(block, -2), value.split(block, -2), strict=True):
        scores = query @ k.mT / math.sqrt(query.size(-1))
        logarithms.append(scores.logsumexp(-1))
        outputs.append(scores.softmax(-1) @ v)
    shares = torch.stack(logarithms, -1).softmax(-1)  # (…, n_query, 1 + number of blocks)
    return (shares[..., None] * torch.stack(outputs, -2)).sum(-2)


def each_block_twice(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    query = query / math.sqrt(query.size(-1))
    keys, values = ([part.clone() for part in x.split(block, -2)] for x in (key, value))
    highest = torch.stack([(query @ k.mT).amax(-1, keepdim=True) for k in keys]).amax(0).clamp(min=sink)
    total = sum((query @ k.mT - highest).exp().sum(-1, keepdim=True) for k in keys) + (sink - highest).exp()
    return sum((query @ k.mT - highest).exp() @ v for k, v in zip(keys, values, strict=True)) / total


def sums_as_a_column_of_values(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum = torch.full_like(query[..., :1], sink)
    weighted = torch.cat([torch.zeros_like(query), torch.ones_like(maximum)], -1)
    for k, v in zip(key.split(block, -2), value.split(block, -2), strict=True):
        v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
        scores = query @ k.mT / math.sqrt(query.size(-1))
        new = torch.maximum(maximum, scores.amax(-1, keepdim=True))
        weighted = weighted * (maximum - new).exp() + (scores - new).exp() @ v
        maximum = new
    return weighted[..., :-1] / weighted[..., -1:]


@pytest.mark.parametrize(
    "answer",
    [
        a_column_for_each_block,
        each_block_twice,
        sums_as_a_column_of_values,
        flash_with(lambda x, block: x.split(1, -2)),
    ],
)
def test_results_of_each_block_and_smaller_blocks_are_accepted(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    accepted("blockwise_attention", answer, capsys)


@pytest.mark.parametrize(
    "blocks",
    [
        lambda x, block: x.split(block),
        lambda x, block: x.split(block, -1),
        lambda x, block: [x[start : start + block] for start in range(0, len(x), block)],
        lambda x, block: x.chunk(block, -2),
        lambda x, block: x.split(3, -2),
        lambda x, block: x.split(5, -2),
    ],
)
def test_blocks_that_are_cut_in_another_way_are_explained(blocks: Any) -> None:
    lines = message("blockwise_attention", flash_with(blocks)).splitlines()
    assert lines[0] == f"✗ blockwise_attention: {TOO_MANY}"
    assert lines[2].startswith(
        "If you do cut the keys into blocks, check along which axis: theirs is the last but one."
    )


def test_a_reversal_of_all_axes_is_named_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = message("blockwise_attention", flash_with(lambda x, block: x.split(block, -2), lambda k: k.T))
    assert said.startswith("✗ blockwise_attention: all axes reversed\nYou transpose the keys with `.T`")
    assert "Warning" not in said


# Answers with one slip ------------------------------------------------------------------------------------------------

Pairs = list[tuple[str, str]]
Checkpoints = dict[int, dict[str, str]]


def masked_up_to_09(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> tuple[Tensor, Tensor]:
    chosen = (choice < 0.15) & (ids > mask_id)
    masked = torch.where(chosen & (kind < 0.8), mask_id, ids)
    return torch.where(chosen & (kind >= 0.8) & (kind <= 0.9), other, masked), chosen


def masked_everywhere(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> tuple[Tensor, Tensor]:
    chosen = (choice < 0.15) & (ids > mask_id)
    masked = torch.where(kind < 0.8, mask_id, ids)
    return torch.where(chosen & (kind >= 0.8) & (kind < 0.9), other, masked), chosen


def first_prefix(n_prefix: Tensor, length: int) -> Tensor:
    place = torch.arange(length)
    mask = (place[:, None] >= place) | (place < n_prefix[0])
    return mask.expand(len(n_prefix), 1, length, length)


def divided_by_real_tokens(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    losses = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=pad_id, reduction="sum"
    )
    return losses / (ids != pad_id).sum()


def prompt_of(examples: Pairs, question: str) -> list[str]:
    return [*" ".join(f"{q} : {a} ," for q, a in examples).split(), *question.split(), ":"]


def answer_until(is_stop: Callable[[str], bool], given: type = list) -> Any:
    def answer(next_token: Any, examples: Pairs, question: str, max_new_tokens: int) -> str:
        tokens, written = prompt_of(examples, question), []  # type: ignore[var-annotated]
        while len(written) < max_new_tokens and not is_stop(token := next_token(given([*tokens, *written]))):
            written.append(token)
        return " ".join(written)

    return answer


def roofline_with(bytes_of: Callable[[int, int, int], int]) -> Any:
    def answer(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> tuple[float, float, bool]:
        flop, moved = 2 * n_tokens * n_in * n_out, bytes_of(n_tokens * n_in, n_in * n_out, n_tokens * n_out)
        return flop / moved, max(flop / flop_rate, moved / byte_rate), flop / flop_rate > moved / byte_rate

    return answer


def softmax_relative_to_the_block(maximum: Tensor, total: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    of_block = scores.max(dim=1).values
    new = torch.maximum(maximum, of_block)
    added = (of_block - new).exp() * (scores - of_block[:, None]).exp().sum(-1)
    return new, total * (maximum - new).exp() + added


def scaled_in_float16(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, n: int) -> Any:
    if not gradient.isfinite().all():
        return weight, scale / 2, 0
    weight = weight - (learning_rate * gradient).float() / scale
    return (weight, scale * 2, 0) if good + 1 == n else (weight, scale, good + 1)


def scaled_unless(overflows: Callable[[Tensor], Any]) -> Any:
    def answer(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, n: int) -> Any:
        if overflows(gradient):
            return weight, scale / 2, 0
        weight = weight - learning_rate * (gradient.float() / scale)
        return (weight, scale * 2, 0) if good + 1 == n else (weight, scale, good + 1)

    return answer


def skipped_step_counted(
    weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, n: int
) -> Any:
    if gradient.isfinite().all():
        weight = weight - learning_rate * gradient.float() / scale
    else:
        scale, good = scale / 2, 0
    good += 1
    return (weight, scale * 2, 0) if good == n else (weight, scale, good)


def descent_with(gradient_in: Callable[[Tensor], Tensor]) -> Any:
    def answer(weight: Tensor, gradient_of: Callable[[Tensor], Tensor], learning_rate: float, steps: int) -> Tensor:
        for _ in range(steps):
            weight = weight - learning_rate * gradient_in(gradient_of(weight.bfloat16())).float()
        return weight

    return answer


def steps_added_up(weight: Tensor, gradient_of: Callable[[Tensor], Tensor], learning_rate: float, steps: int) -> Tensor:
    return weight - learning_rate * sum(gradient_of(weight.bfloat16()).float() for _ in range(steps))


def ended_by_an_empty_batch(gradients: list[list[Tensor]], n_tokens: list[list[int]]) -> Tensor:
    total, all_tokens = torch.zeros_like(gradients[0][0]), 0
    for of_gpu, counts in zip(gradients, n_tokens, strict=True):
        for gradient, n in zip(of_gpu, counts, strict=True):
            if n == 0:
                break
            total, all_tokens = total + n * gradient, all_tokens + n
    return total / all_tokens


def sums_of_gpus_averaged(gradients: list[list[Tensor]], n_tokens: list[list[int]]) -> Tensor:
    return torch.stack([torch.stack(of_gpu).sum(0) for of_gpu in gradients]).mean(0)


def softmax_with(update: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Any:
    def answer(maximum: Tensor, total: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        new = torch.maximum(maximum, scores.amax(-1))
        return new, update(maximum, total, scores, new)

    return answer


def kept_without(form_of_training: Callable[[str], str], form_of_test: Callable[[str], str]) -> Any:
    def answer(pairs: Pairs, test_pairs: Pairs) -> Pairs:
        sources, targets = ({form_of_test(pair[side]) for pair in test_pairs} for side in (0, 1))
        return [p for p in pairs if form_of_training(p[0]) not in sources and form_of_training(p[1]) not in targets]

    return answer


def one_form(text: str) -> str:
    return " ".join(text.lower().split())


def same(form: Callable[[str], str]) -> Any:
    return kept_without(form, form)


def kept_in_a_set(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    kept = kept_without(one_form, one_form)(pairs, test_pairs)
    return list({pair for pair in pairs if pair in kept})


def newest_with_a_flag(checkpoints: Checkpoints, on_disk: dict[str, str]) -> int | None:
    found = []
    for step, files in checkpoints.items():
        complete = False
        for name in files:
            complete = on_disk.get(name) == files[name]
        if complete:
            found.append(step)
    return max(found) if found else None


def newest_with_a_break(checkpoints: Checkpoints, on_disk: dict[str, str]) -> int | None:
    newest = None
    for step, files in checkpoints.items():
        if any(on_disk.get(name) != checksum for name, checksum in files.items()):
            break
        newest = step if newest is None else max(newest, step)
    return newest


def newest_printed(checkpoints: Checkpoints, on_disk: dict[str, str]) -> None:
    print(max((s for s, f in checkpoints.items() if f.items() <= on_disk.items()), default=None))


def flop_with(attention: Callable[[int, int, int], int], layers: int | None = None, square: Any = None) -> Any:
    def answer(d: int, f: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
        side = n_layers * (6 * (square(d) if square else d * d) + 2 * d * f)
        return 6 * (n * side + m * (side + vocab_size * d) + (layers or n_layers) * 2 * d * attention(n, m, n))

    return answer


def newest_by_names_and_checksums(checkpoints: Checkpoints, on_disk: dict[str, str]) -> int | None:
    complete = [s for s, f in checkpoints.items() if {*f} <= {*on_disk} and {*f.values()} <= {*on_disk.values()}]
    return max(complete, default=None)


def kept_for_each_test_pair(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    kept = []
    for source, target in pairs:
        for other_source, other_target in test_pairs:
            if one_form(source) != one_form(other_source) and one_form(target) != one_form(other_target):
                kept.append((source, target))
    return kept


def settings_without(is_left_out: Callable[[str], bool]) -> Any:
    def answer(signature: str, other: str) -> dict[str, Any]:
        texts = (signature, other)
        a, b = (dict(f.split(":") for f in text.split("|") if not is_left_out(f)) for text in texts)
        return {name: (a.get(name), b.get(name)) for name in a | b if a.get(name) != b.get(name)}

    return answer


def attention_work(n: int, m: int, keys: int) -> int:
    return n * n + m * m + m * keys


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("mask_tokens", masked_up_to_09, "exactly 0.9 in the wrong range"),
        ("mask_tokens", masked_everywhere, "[MASK] where nothing was chosen"),
        ("prefix_mask", first_prefix, "the first prefix for all"),
        ("causal_lm_loss", divided_by_real_tokens, "the first tokens counted"),
        ("few_shot_answer", answer_until(lambda t: "," in t), "it stops at a comma within a token"),
        ("few_shot_answer", answer_until(lambda t: t.startswith(",")), "it stops at a comma within a token"),
        ("roofline", roofline_with(lambda a, b, c: 16 * (a + b + c)), "bits instead of bytes"),
        ("roofline", roofline_with(lambda a, b, c: 2 * a + b + c), "two bytes for the first matrix only"),
        ("roofline", roofline_with(lambda a, b, c: 2 * b), "only the weight is read"),
        ("roofline", roofline_with(lambda a, b, c: 2 * (b + c)), "the input isn't read"),
        ("roofline", roofline_with(lambda a, b, c: 2 * (a + b + 2 * c)), "the result in 32 bits"),
        ("update_softmax", softmax_relative_to_the_block, "NaN where a whole block is masked"),
        ("update_softmax", softmax_with(lambda m, t, s, new: t * (m - new).exp() + s.exp().sum(-1)),
         "the scores without the maximum"),
        ("update_softmax", softmax_with(lambda m, t, s, new: (m - new).exp() + (s - new[:, None]).exp().sum(-1)),
         "the old sum as a single exponential"),
        ("update_softmax", softmax_with(lambda m, t, s, new: t * (m - new).exp() + (s - new[:, None]).exp().mean(-1)),
         "averaged over the block"),
        ("blockwise_attention", flash_of_the_chapter, "the sink is left out"),
        ("blockwise_attention", flash_with_a_sink(lambda total, sink, maximum: total + sink.exp()),
         "the sink's exponential isn't relative to the maximum"),
        ("blockwise_attention", flash_with_a_sink(lambda total, sink, maximum: total + 1),
         "1 in place of the sink's exponential"),
        ("blockwise_attention", lambda q, k, v, block, sink: torch.cat([
            (q @ a.mT / math.sqrt(q.size(-1))).softmax(-1) @ b
            for a, b in zip(k.split(block, -2), v.split(block, -2), strict=True)], -2),
         "the outputs of the blocks in a row"),
        ("mixed_precision", descent_with(Tensor.half), "the gradient in float16"),
        ("mixed_precision", steps_added_up, "the copy made only once"),
        ("loss_scaling_step", scaled_in_float16, "the step computed in float16"),
        ("loss_scaling_step", scaled_unless(lambda g: not g.norm().isfinite()), "an overflow of the norm"),
        ("loss_scaling_step", scaled_unless(lambda g: not g.max().isfinite()), "minus infinity is overlooked"),
        ("loss_scaling_step", scaled_unless(lambda g: not g.min().isfinite()), "plus infinity is overlooked"),
        ("loss_scaling_step", scaled_unless(lambda g: (g.isinf() & g.isnan()).any()), "an overflow is never noticed"),
        ("loss_scaling_step", scaled_unless(lambda g: g.isinf().all() or g.isnan().all()),
         "an overflow only if all numbers are infinite"),
        ("loss_scaling_step", scaled_unless(lambda g: not g.flatten()[-1].isfinite()),
         "only the last number is examined"),
        ("loss_scaling_step", skipped_step_counted, "the skipped step counts as a good one"),
        ("loss_scaling_step", scaled_unless(lambda g: not g.isfinite().all() or not g.any()),
         "a gradient of zeros taken for an overflow"),
        ("step_gradient", lambda gradients, n_tokens: sum(
            n * g for of_gpu, counts in zip(gradients, n_tokens, strict=True)
            for g, n in zip(of_gpu, counts, strict=True)) / len(gradients),
         "divided by the number of GPUs"),
        ("step_gradient", ended_by_an_empty_batch, "a batch without tokens ends the loop"),
        ("step_gradient", sums_of_gpus_averaged, "added within a GPU, averaged over the GPUs"),
        ("training_flop", flop_with(attention_work, layers=1), "attention in one layer only"),
        ("training_flop", flop_with(lambda n, m, k: n + m + k), "attention of a single query"),
        ("training_flop", flop_with(lambda n, m, k: (n + m) ** 2), "attention among all tokens"),
        ("training_flop", flop_with(attention_work, square=lambda d: d ^ 2), "d^2 for a square"),
        ("without_test_sentences", same(lambda t: t.lower().strip().replace("  ", " ")),
         "only two spaces count as one"),
        ("without_test_sentences", same(lambda t: " ".join(word for word in t.lower().split(" ") if word)),
         "tabs and line breaks distinguished"),
        ("without_test_sentences", kept_without(one_form, str), "the test sentences as they are"),
        ("without_test_sentences", kept_without(str, one_form), "the training sentences as they are"),
        ("without_test_sentences", kept_in_a_set, "the pairs in a set"),
        ("newest_complete", newest_with_a_flag, "the last file decides"),
        ("newest_complete", newest_with_a_break, "it stops at the first incomplete one"),
        ("newest_complete", newest_printed, "it returns None, but should return 2000"),
        ("newest_complete", lambda c, on_disk: max((s for s in c if c[s] == on_disk), default=None),
         "nothing else may be on the disk"),
        ("training_flop", flop_with(lambda n, m, k: n ^ 2 + m ^ 2 + n * m), "^ for the squares of n and m"),
        ("without_test_sentences", kept_for_each_test_pair, "a pair for each test pair that differs"),
        ("newest_complete", newest_by_names_and_checksums, "names and checksums compared separately"),
        ("newest_complete", lambda c, on_disk: max((s for s in c if c[s].items() <= on_disk.items()), default=-1),
         "-1 instead of None"),
        ("parts_left", lambda plan, step, rank, n, k: plan[rank :: n * k][step:], "one part in each step"),
        ("different_settings", settings_without(lambda field: "v" in field),
         "the result has wrong entries, marked with *"),
        ("parts_left", lambda plan, step, rank, n, k: plan[rank::n][(step - 1) * k :], "a step repeated"),
        ("parts_left", lambda plan, step, rank, n, k: plan[rank::n][step // k :], "divided by the accumulation"),
    ],
)  # fmt: skip
def test_a_slip_is_called_by_its_name(name: str, answer: Any, title: str) -> None:
    assert first_line(name, answer) == title


def test_a_model_reads_tuples_as_well_as_lists(capsys: pytest.CaptureFixture[str]) -> None:
    accepted("few_shot_answer", answer_until(lambda token: token == ",", tuple), capsys)
    said = message("few_shot_answer", answer_until(lambda token: token == ",", " ".join))
    assert "it stopped with TypeError: next_token expects a list of tokens, and got a str" in said
