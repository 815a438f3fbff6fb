"""What learners write in the first five notebooks, and what is said about it."""

import math
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.check import Exercise, Topic, WrongAnswerError
from exercises.checks import attention, multi_head_attention, positional_encoding
from exercises.help import find_help
from exercises.relations import Wrong, find_relation
from tests.exercises.learner import copy_of_course
from tests.exercises.test_unnamed_mistakes import judge, reference
from transformer.attention import attention as package_attention

frequencies = positional_encoding.frequencies.reference
split_heads, join_heads = attention.split_heads.reference, attention.join_heads.reference


# 1 Translation --------------------------------------------------------------------------------------------------------


def numbered(words: list[str]) -> dict[str, int]:
    return {word: 4 + i for i, word in enumerate(words)}


def vocabulary_cut_by_alphabet(sentences: list[str], size: int) -> dict[str, int]:
    counts = Counter(" ".join(sentences).split())
    return numbered(sorted(sorted(counts)[: size - 4], key=lambda word: (-counts[word], word)))


def vocabulary_of_substrings(sentences: list[str], size: int) -> dict[str, int]:
    text = " ".join(sentences)
    return numbered(sorted({*text.split()}, key=lambda word: (-text.count(word), word))[: size - 4])


def with_text(end: str) -> Callable[[str, dict[str, int]], list[int]]:
    return lambda sentence, vocabulary: [vocabulary.get(word, 3) for word in (sentence + end).split()]


def probabilities(logits: Tensor) -> Tensor:
    return logits.exp() / logits.exp().sum()


# 2 Attention ----------------------------------------------------------------------------------------------------------


def exponentials(scores: Tensor, dim: int = -1) -> Tensor:
    return (scores - scores.amax(dim, keepdim=True)).exp()


def softmax_over(dim: int) -> Callable[[Tensor], Tensor]:
    return lambda scores: exponentials(scores, dim) / exponentials(scores, dim).sum(dim, keepdim=True)


def softmax_with(number: float) -> Callable[[Tensor], Tensor]:
    return lambda scores: exponentials(scores) / (exponentials(scores).sum(-1, keepdim=True) + number)


def attention_of(dim: int = -1, root: Any = lambda query: query.size(-1)) -> Any:
    def answer(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        weights = softmax_over(dim)(query @ key.mT / math.sqrt(root(query)))
        return weights @ value, weights

    return answer


def fused(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    return F.scaled_dot_product_attention(query, key, value), attention_of()(query, key, value)[1]


# 3 Multi-head attention -----------------------------------------------------------------------------------------------


def unpacked_along(dim: int) -> Any:
    def answer(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = (x @ weight.T + bias).chunk(3, dim)
        return query, key, value

    return answer


def cross(query_bias: float = 1.0, width: Any = lambda x, n: x.size(-1) // n) -> Any:
    def answer(
        x: Tensor, memory: Tensor, real: Tensor, w: Tensor, b: Tensor, w_out: Tensor, b_out: Tensor, n: int
    ) -> Tensor:
        d = x.size(-1)
        query = split_heads(F.linear(x, w[:d], query_bias * b[:d]), n)
        key, value = (split_heads(part, n) for part in F.linear(memory, w[d:], b[d:]).chunk(2, -1))
        scores = query @ key.mT / math.sqrt(width(x, n))
        weights = scores.masked_fill(~real[:, None, None], -1e9).softmax(-1)
        return F.linear(join_heads(weights @ value), w_out, b_out)

    return answer


# 4 Masking ------------------------------------------------------------------------------------------------------------


def divided_by_at_least(number: float) -> Any:
    def answer(scores: Tensor, mask: Tensor) -> Tensor:
        weights = scores.softmax(-1) * mask
        return weights / weights.sum(-1, keepdim=True).clamp(min=number)

    return answer


# 5 Positions ----------------------------------------------------------------------------------------------------------


def interleaved(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([a, b], -1).flatten(-2)


def joined(a: Tensor, b: Tensor) -> Tensor:
    return torch.cat([a, b], -1)


def shifted(put_together: Any = interleaved, halves: bool = False) -> Any:
    def answer(encoding: Tensor, k: int) -> Tensor:
        b = k * frequencies(encoding.size(-1))
        sin, cos = encoding.chunk(2, -1) if halves else (encoding[:, 0::2], encoding[:, 1::2])
        result: Tensor = put_together(b.cos() * sin + b.sin() * cos, b.cos() * cos - b.sin() * sin)
        return result

    return answer


def shifted_by_angles(encoding: Tensor, k: int) -> Tensor:
    angle = torch.atan2(encoding[:, ::2], encoding[:, 1::2]) + k * frequencies(encoding.size(1))
    return interleaved(angle.sin(), angle.cos())


def shifted_in_a_new_table(encoding: Tensor, k: int) -> Tensor:
    angle = torch.outer(torch.arange(encoding.size(0) + k).float(), frequencies(encoding.size(1)))
    return interleaved(angle.sin(), angle.cos())[k:]


def rotated(angles: Any) -> Any:
    def answer(x: Tensor) -> Tensor:
        even, odd, angle = x[..., 0::2], x[..., 1::2], angles(x)
        return interleaved(angle.cos() * even - angle.sin() * odd, angle.sin() * even + angle.cos() * odd)

    return answer


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("build_vocabulary", vocabulary_cut_by_alphabet, "cut off in the order of the alphabet"),
        ("build_vocabulary", vocabulary_of_substrings, "parts of words counted"),
        ("encode_sentence", lambda s, v: [*(v.get(word, "UNK") for word in s.split()), 2], "UNK in quotes"),
        ("encode_sentence", lambda s, v: [*with_text("")(s, v), "EOS"], "EOS in quotes"),
        ("encode_sentence", with_text(" <eos>"), "the special token looked up as a word"),
        ("encode_sentence", with_text("<eos>"), "the special token attached to the last word"),
        ("look_up", lambda ids, table: torch.gather(table, 0, ids), "gather along the rows"),
        ("look_up", lambda ids, table: torch.gather(table, 1, ids), "gather along the columns"),
        ("most_probable", lambda logits, n: (probabilities(logits)[:n], probabilities(logits).argsort()[:n]),
         "the first probabilities, and the ids of the least probable"),
        ("attention_scores", lambda query, key: query @ key.mT / math.sqrt(len(query)),
         "divided by the root of the first axis's length"),
        ("softmax", softmax_over(0), "over the first axis"),
        ("softmax", softmax_with(1e-6), "rows that sum to a little less than one"),
        ("softmax", lambda s: (s - s.amax(-1, True)) / (s - s.amax(-1, True)).sum(-1, True),
         "the maximum subtracted, but no exponential"),
        ("softmax", lambda s: (s - s.max()) / (s - s.max()).sum(-1, True),
         "one maximum for all rows, and no exponential"),
        ("scaled_dot_product_attention", attention_of(dim=0), "softmax over the first axis"),
        ("scaled_dot_product_attention", attention_of(root=len), "divided by the root of the first axis's length"),
        ("scaled_dot_product_attention", fused, "a ready-made function"),
        ("split_heads", lambda x, n: x.transpose(1, 2).reshape(len(x), n, x.size(1), -1),
         "reshaped after the transpose"),
        ("split_heads", lambda x, n: x.view(1, x.size(1), n, x.size(2) // n).transpose(1, 2), "a batch of one"),
        ("split_heads", lambda x, n: x.view(1, -1, n, x.size(2) // n).transpose(1, 2),
         "a batch of one with longer sentences"),
        ("split_heads", lambda x, n: x.view(1, x.size(1), n, -1).transpose(1, 2), "a batch of one with wider heads"),
        ("join_heads", lambda h: h.transpose(1, 2).reshape(1, h.size(2), h.size(1) * h.size(3)), "a batch of one"),
        ("join_heads", lambda h: h.transpose(1, 2).reshape(1, -1, h.size(1) * h.size(3)),
         "a batch of one with longer sentences"),
        ("join_heads", lambda h: h.transpose(1, 2).reshape(1, h.size(2), -1), "a batch of one with wider vectors"),
        ("query_key_value", unpacked_along(0), "the batch split in three"),
        ("query_key_value", unpacked_along(1), "the positions split in three"),
        ("cross_attention", cross(query_bias=0), "no bias for the queries"),
        ("cross_attention", cross(width=lambda x, n: x.size(-1)), "scaled by the width of the model"),
        ("layer_cost", lambda q, k, d, n: (4 * d**2 + d, 2 * (q + k) * d**2 + 2 * q * k * d, n * q * k),
         "the bias of one layer only"),
        ("grouped_attention", lambda *inputs: F.scaled_dot_product_attention(*inputs, enable_gqa=True),
         "a ready-made function"),
        ("target_mask", lambda ids, pad_id: (ids != pad_id)[:, None, None] & ~reference("causal_mask")(ids.size(1)),
         "the causal mask inverted"),
        ("masked_softmax", lambda scores, mask: scores.masked_fill(~mask, -1e4).softmax(-1),
         "-1e4, and rows without a visible key attend to everything"),
        ("masked_softmax", divided_by_at_least(1e-9), "a number that is 0 in half precision"),
        ("masked_softmax", lambda scores, mask: torch.where(mask, scores, -1e9).softmax(-1) * mask,
         "a number that half precision doesn't have"),
        ("frequencies", lambda d: 10000.0 ** -(torch.arange(0, d, 2) // d), "the exponent rounded down to 0"),
        ("frequencies", lambda d: 10000.0 ** (-2 * torch.arange(d) / d), "twice as many as there are pairs"),
        ("sinusoidal_encoding", lambda length, d: shifted(lambda *both: interleaved(*both))(
            torch.tensor([[0.0, 1.0] * (d // 2)]), 2 * math.pi * torch.arange(length)[:, None]), "an extra 2π"),
        ("shift", shifted_by_angles, "the angles computed from the encodings"),
        ("shift", shifted(joined), "not interleaved again"),
        ("shift", shifted(halves=True), "the halves taken for the pairs, but interleaved at the end"),
        ("shift", shifted_in_a_new_table, "a slice of a new table"),
        ("rotate", rotated(lambda x: torch.arange(x.size(-2)) * frequencies(x.size(-1))),
         "positions and frequencies multiplied entry by entry"),
        ("rotate", rotated(lambda x: frequencies(x.size(-1)) * torch.arange(x.size(-2))),
         "positions and frequencies multiplied entry by entry"),
        ("rotate", rotated(lambda x: torch.arange(x.size(0))[:, None] * frequencies(x.size(-1))),
         "the length taken from the first axis"),
        ("rotate", rotated(lambda x: torch.arange(x.size(1))[:, None] * frequencies(x.size(-1))),
         "the length taken from axis 1"),
        ("rotate", rotated(lambda x: torch.arange(x.size(-2))[:, None] * frequencies(x.size(-1) // 2)),
         "half of d_head as the width"),
    ],
)  # fmt: skip
def test_a_slip_is_called_by_its_name(name: str, answer: Any, title: str) -> None:
    assert judge(name, answer)[0] == title


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("softmax", softmax_over(-1)),
        ("softmax", softmax_with(1e-12)),
        ("softmax", lambda scores: (scores - scores.logsumexp(-1, keepdim=True)).exp()),
        ("scaled_dot_product_attention", attention_of()),
        ("cross_attention", cross()),
        ("shift", shifted()),
        ("rotate", rotated(lambda x: torch.arange(x.size(-2))[:, None] * frequencies(x.size(-1)))),
    ],
)
def test_the_answers_of_these_tests_are_right_but_for_their_slips(name: str, answer: Any) -> None:
    assert judge(name, answer) == ["None"]


def test_the_right_tokens_in_another_order_are_told_so() -> None:
    def unsorted(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
        best = probabilities(logits).topk(n)
        order = torch.arange(n).roll(1)
        return best.values[order], best.indices[order]

    said = judge("most_probable", unsorted)
    assert said[0] == "not in descending order" and "the largest should come first" in said[1]


def test_padding_idx_is_a_likely_reason_for_a_wrong_gradient() -> None:
    said = judge("look_up", lambda ids, table: F.embedding(ids, table, padding_idx=0))
    assert said[0] == "the gradient of `table` is wrong" and "`padding_idx`" in said[1]


def test_keys_are_only_said_to_be_different_if_they_are() -> None:
    other_keys = Wrong({}, {"a": 4, "b": 5}, {"a": 4, "c": 5})
    other_order = Wrong({}, {"a": 5, "b": 4}, {"a": 4, "b": 5})
    assert find_relation([other_keys, other_order]) is None
    found = find_relation([other_keys])
    assert found and found.title == "other keys with the right values"


# What is said in every notebook ---------------------------------------------------------------------------------------


def test_a_function_of_pytorch_is_not_taken_for_the_learners_answer_of_that_name() -> None:
    topic = Topic()

    @topic.exercise({"x": torch.tensor([-1.0, 2.0])})
    def relu(x: Tensor) -> Tensor:
        return x.clamp(min=0)

    @topic.exercise({"x": torch.tensor([-3.0, 2.0])})
    def doubled(x: Tensor) -> Tensor:
        return 2 * x.clamp(min=0)

    answers: dict[str, Any] = {"F": F}
    exec("def relu(x):\n    return x\ndef doubled(x):\n    return 3 * F.relu(x)\n", answers)
    exec("def by_own(x):\n    return 2 * relu(x)\n", answers)
    with pytest.raises(WrongAnswerError) as error:
        topic.check("doubled", answers["doubled"])
    assert "relu" not in str(error.value)
    with pytest.raises(WrongAnswerError, match="It calls your own `relu`, where something is still wrong"):
        topic.check("doubled", answers["by_own"])


def test_an_exception_is_explained_by_the_help_of_its_blank(tmp_path: Path) -> None:
    said = "\n".join(judge("softmax", lambda scores: scores - scores.max(-1)))
    assert "`amax` returns only the maxima" in said and "A value has a different type" not in said
    said = "\n".join(judge("softmax", lambda scores: scores @ "a"))
    assert "A value has a different type" in said, "not in the Help"
    said = "\n".join(judge("split_heads", lambda x, n: x.reshape(1, 2, 2, 2)))
    assert "compare d_head with `x.size(-1)` divided by `n_heads`" in said, "a formula as plain text"

    error = KeyError("fox")
    assert find_help("translation", "encode_sentence", error)
    assert find_help("translation", "build_vocabulary", error) is None, "the Help of another blank"
    assert find_help("nothing", "encode_sentence", error) is None
    folder = copy_of_course(tmp_path, "01_translation")
    assert find_help("translation", "encode_sentence", error, folder)
    (copy_of_course(tmp_path / "damaged", "01_translation") / "exercises" / "01_translation.ipynb").write_text("{")
    assert find_help("translation", "encode_sentence", error, tmp_path / "damaged") is None


def test_two_sizes_that_do_not_agree_are_the_same_error_in_either_order() -> None:
    exercise = Exercise(
        "total", lambda x, y: x.sum() + y.sum(), [{"x": torch.ones(3), "y": torch.ones(2)}], ("result",)
    )
    exercise.mistake("added before the sums", "Sum first.")(lambda x, y: (x + y).sum())
    assert exercise.judge(lambda x, y: (y + x).sum()) == "added before the sums\nSum first."
    assert "it stopped with" in str(exercise.judge(lambda x, y: (x + torch.ones(4)).sum()))


def test_warnings_are_quoted_without_the_paths_of_where_pytorch_was_built() -> None:
    def warned(query: Tensor, key: Tensor) -> Tensor:
        said = "/tmp/ipykernel_7/1.py:3: UserWarning: It is old. (Triggered internally at /pytorch/x.cpp:12.)"
        print(said, "  return key.T", sep="\n", file=sys.stderr)
        return query @ key.mT + 1

    said = "\n".join(judge("attention_scores", warned))
    assert said.endswith("your code printed\n  UserWarning: It is old.\n    return key.T")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda a, b, c, d: a, "Your code uses none of `b`, `c` and `d`. "),
        (lambda a, b, c, d: a + b, "Your code uses neither `c` nor `d`. "),
        (lambda a, b, c, d: a + b + c, "Your code doesn't use `d`. "),
    ],
)
def test_several_arguments_that_are_not_used_are_listed(answer: Any, said: str) -> None:
    inputs = [{"a": n, "b": n * n, "c": n + 4, "d": 7 * n % 5} for n in range(2, 9)]
    exercise = Exercise("f", lambda a, b, c, d: a * b + c * d * a, inputs, ("result",))
    assert said in str(exercise.judge(answer))


def test_pytorchs_attention_is_only_refused_where_it_is_the_answer() -> None:
    def by_pytorch(x: Tensor, memory: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor, n: int) -> Tensor:
        query, key, value = (split_heads(part, n) for part in (x @ wq, memory @ wk, memory @ wv))
        return join_heads(F.scaled_dot_product_attention(query, key, value)) @ wo

    assert attention.multi_head_attention.judge(by_pytorch) is None
    each = multi_head_attention._each
    grouped = multi_head_attention.grouped_attention
    assert grouped.judge(lambda q, k, v: package_attention(q, each(q, k), each(q, v))[0]) is None
