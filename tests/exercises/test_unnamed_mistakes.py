"""Mistakes that have no name are explained all the same: by what the wrong results have to do with the right ones."""

import math
import random
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from sacrebleu import corpus_bleu
from torch import Tensor, nn

from exercises.calls import call
from exercises.check import Exercise, Topic
from exercises.compare import equal
from exercises.errors import EXPLANATIONS, explain
from exercises.relations import Wrong, find_relation
from exercises.special_cases import SPECIAL_CASES, is_case, what_is_special
from exercises.tensors import seeded
from exercises.unused import unused_arguments
from tests.exercises.test_checks import ALL
from transformer.masks import causal_mask

BY_NAME = {exercise.name: exercise for exercise in ALL}
TABLE = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
OTHER = torch.tensor([[3.0, -1.0, 2.0], [0.5, 4.0, 6.0]])


def title(*pairs: tuple[Any, Any]) -> str | None:
    """What is found about pairs of a result and the right one."""
    found = find_relation([Wrong({}, a, b) for a, b in pairs if not equal(a, b)])
    return found.title if found else None


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda x: -x, "the wrong sign"),
        (lambda x: 100 * x, "percent or fraction"),
        (lambda x: 1.5 * x, "off by a constant factor"),
        (lambda x: x / 10**9, "another unit"),
        (lambda x: x * 1024, "another unit"),
        (lambda x: x / x.square().sum(), "the scale is wrong"),
        (lambda x: 0 * x, "nothing but zeros"),
        (lambda x: x + 1, "too large by one"),
        (lambda x: x - 0.25, "too small by a constant"),
        (lambda x: 1 - x, "one minus the right result"),
        (lambda x: 1 / x, "the reciprocal of the right result"),
        (torch.exp, "the exponential of the right result"),
        (torch.square, "the square of the right result"),
        (torch.abs, "the absolute value of the right result"),
        (lambda x: x.clamp(min=0), "clipped at 0"),
        (lambda x: x.clamp(0, 1), "clipped at 0 and 1"),
        (lambda x: torch.where(x > 2, torch.nan, x), "NaN, where there should be numbers"),
        (lambda x: torch.where(x > 2, torch.inf, x), "infinite, where there should be numbers"),
        (lambda x: x.flip(1), "reversed"),
        (lambda x: x.roll(1, 1), "shifted by one"),
        (lambda x: x.cumsum(1), "a running sum"),
        (lambda x: x[:1].expand(2, 3), "the same all along an axis"),
        (lambda x: x.flatten()[[0, 3, 1, 4, 2, 5]].view(2, 3), "the right numbers in other places"),
        (lambda x: x * x.sum(1, keepdim=True), "each row is off by a factor"),
        (lambda x: x - x.sum(1, keepdim=True), "each row is off by a constant"),
        (lambda x: x + torch.tensor([0.0, 0.0, 9.0]) * x**2, "only the last entry is wrong"),
        (lambda x: x.T, "two axes are swapped"),
        (lambda x: x.sum(0), "summed"),
        (lambda x: x.mean(1), "averaged"),
        (lambda x: x[:, 0], "cut to the first entry of an axis"),
        (lambda x: torch.stack([x, 2 * x]), "not cut to the first entry"),
        (lambda x: x[:, :-1], "one entry missing"),
        (lambda x: x[:, 2:], "two entries missing"),
        (lambda x: torch.cat([x[:, :1], x], 1), "one entry too many"),
        (lambda x: x.T.reshape(6), "the right numbers in another shape"),
    ],
)
def test_what_wrong_numbers_have_to_do_with_the_right_ones(change: Any, found: str) -> None:
    assert title((change(TABLE), TABLE), (change(OTHER), OTHER)) == found


def test_rows_that_differ_only_slightly_are_not_off_by_a_factor() -> None:
    assert title(*((x * (1 + 3e-4 * x.sum(1, keepdim=True)), x) for x in (TABLE, OTHER))) is None
    one_number = torch.tensor([[0.0, 5.0, 0.0], [0.0, 0.0, 2.0]])
    assert title((one_number**2, one_number)) != "each row is off by a factor"


def test_what_does_not_hold_for_all_results_is_not_told() -> None:
    assert title((-TABLE, TABLE), (2 * OTHER, OTHER)) != "the wrong sign"
    assert title((TABLE**2 + OTHER, TABLE), (OTHER**3 - TABLE, OTHER)) is None


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (torch.logical_not, "True and False are swapped"),
        (lambda mask: mask.tril(-1), "only the diagonal is wrong"),
        (torch.ones_like, "too many entries are True"),
        (lambda mask: mask & (torch.arange(mask.size(-1)) > 0), "too many entries are False"),
    ],
)
def test_masks(change: Any, found: str) -> None:
    assert title(*((change(mask), mask) for mask in (causal_mask(3), causal_mask(4)))) == found


def test_rounded_results() -> None:
    assert title(*((round(x, 2), x) for x in (0.181818, 0.378412))) == "rounded to 2 decimal places"
    assert title(*((round(x, 1), x) for x in (0.181818, 0.378412))) == "rounded to 1 decimal place"
    assert title(*((round(x), x) for x in (2.4, 0.7))) == "rounded"
    assert title((0.18, 0.181818), (0.37, 0.378412)) != "rounded to 2 decimal places", "one is cut off"
    assert judge("padding_share", lambda lengths, batches: round(reference("padding_share")(lengths, batches), 2))[
        :2
    ] == [
        "rounded to 2 decimal places",
        "Your result is the right one, rounded. Return all of its decimal places.",
    ]


@pytest.mark.parametrize(
    ("wrong", "found"),
    [([1, 3, 5], "every second entry is wrong"), ([1, 2, 3, 4, 5], "only the first entry is right"), ([1], None)],
)
def test_a_pattern_along_an_axis_is_told_only_if_several_entries_are_wrong(wrong: list[int], found: str | None) -> None:
    pairs = []
    for right in (torch.arange(1.0, 13).view(2, 6), OTHER.repeat(1, 2) + 2):
        yours = right.clone()
        yours[:, wrong] = right[:, wrong] ** 2 + 7.5
        pairs.append((yours, right))
    assert title(*pairs) == found


def test_in_a_mask_a_pattern_would_be_chance() -> None:
    mask = torch.tensor([[True, False, True, False], [False, True, True, True]])
    assert title((mask ^ torch.tensor([False, True, False, True]), mask)) is None


def test_axes_without_a_name_are_not_mentioned() -> None:
    x = torch.arange(32.0).view(2, 2, 2, 2, 2)
    assert title((x.transpose(0, 4), x)) is None


def test_factors_and_terms_are_told_by_the_inputs_that_they_equal() -> None:
    widths = [4, 9, 16]
    rows = [torch.arange(1.0, n + 1) for n in widths]
    found = find_relation([Wrong({"x": x}, x * math.sqrt(len(x)), x) for x in rows])
    assert found and found.title == "too large by a factor"
    assert "the square root of the length of the last axis of `x`" in found.text
    sizes = [(2, 3), (4, 5), (7, 2)]
    found = find_relation([Wrong({"d": d, "v": v}, 100 + d * v, 100) for d, v in sizes])
    assert found and found.title == "too large by one term" and "exactly `d` · `v`" in found.text


@pytest.mark.parametrize(
    ("yours", "expected", "found"),
    [
        ([], [1], "an empty result"),
        ([1, 2], [1, 2, 3], "the last entry is missing"),
        ([2, 3], [1, 2, 3], "the first entry is missing"),
        ([1, 2, 9], [1, 2], "one entry too many at the end"),
        ([9, 1, 2], [1, 2], "one entry too many at the beginning"),
        (["a"], ["a", "b", "c"], "it stops too early"),
        (["a", "b", "c"], ["a"], "it stops too late"),
        (["c", "a", "b"], ["b", "a", "c"], "reversed"),
        (["c", "b", "a"], ["b", "a", "c"], "the same entries in another order"),
        ([[1, 2], [3]], [[1], [2, 3]], "grouped in another way"),
        ([[2, 1], [3, 4]], [[1, 2], [3, 4]], "another order within the entries"),
        (["a", "c"], ["a", "b", "c", "d"], "entries are missing"),
        (["a", "b", "c", "d"], ["a", "d"], "too many entries"),
        (["b", "a", "b"], ["a", "b"], "one entry too many at the beginning"),
        ("a b", "ab", "only the spaces are wrong"),
        ("Ab", "ab", "only the capitals are wrong"),
        ({1: "a"}, {"a": 1}, "keys and values are swapped"),
        ({"a": 1}, {"a": 1, "b": 2}, "entries are missing"),
        ({"a": 3, "b": 2}, {"a": 1, "b": 2}, "some values are too large"),
        ({"a": 2, "c": 5}, {"a": 2, "b": 5}, "other keys with the right values"),
    ],
)
def test_lists_texts_and_dicts(yours: Any, expected: Any, found: str) -> None:
    assert title((yours, expected)) == found


def test_what_is_special_about_the_inputs() -> None:
    short, long = [{"c": 4, "r": 6}, {"c": 8, "r": 16}], [{"c": 9, "r": 9}, {"c": 12, "r": 9}]
    assert what_is_special("brevity_penalty", short, long) == "`c` is smaller than `r`"
    assert what_is_special("brevity_penalty", long[1:], [*short, long[0]]) == "`c` is larger than `r`"
    assert what_is_special("brevity_penalty", long[:1], [*short, long[1]]) == "`c` and `r` are equal"
    right: list[dict[str, Any]] = [{"symbols": ["a", "b"]}, {"symbols": ["c"]}]
    assert what_is_special("decode", [{"symbols": []}], right) == "`symbols` is empty"
    assert what_is_special("decode", [{"symbols": []}, {"symbols": ["d"]}], right) is None


def test_what_inputs_happen_to_have_in_common_is_not_told() -> None:
    right: list[dict[str, Any]] = [{"lengths": [1, 2], "budget": 3}, {"lengths": [4], "budget": 2}]
    assert what_is_special("padding_share", [{"lengths": [5, 5], "budget": 5}], right) is None
    assert what_is_special("batches_by_tokens", [{"lengths": [5], "budget": 50}], right) is None


@pytest.mark.parametrize("blank", SPECIAL_CASES)
def test_every_special_case_is_that_of_some_inputs_of_its_blank(blank: str) -> None:
    inputs = BY_NAME[blank].inputs
    assert all(0 < sum(is_case(case, of_one) for of_one in inputs) < len(inputs) for case in SPECIAL_CASES[blank])


def raised(function: Any) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function()
    return caught.value


def registered_twice() -> None:
    part = nn.Module()
    part.positions = TABLE
    part.register_buffer("positions", TABLE)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: TABLE.transpose(1, 2), "fewer axes"),
        (lambda: TABLE @ TABLE, "can't be multiplied"),
        (lambda: (TABLE > 2) @ TABLE.T, "wrong dtype"),
        (lambda: TABLE + TABLE.T, "can't be broadcast here"),
        (lambda: TABLE[torch.tensor([0, 1]), torch.tensor([0, 1, 2])], "can't be broadcast here"),
        (lambda: TABLE.gather(1, torch.tensor([[5]])), "further along an axis"),
        (lambda: TABLE.view(4, 2), "product of the new lengths"),
        (lambda: TABLE.unflatten(1, (2, 2)), "isn't the length of the axis that you split"),
        (lambda: TABLE[None].t(), "only for matrices"),
        (lambda: TABLE.T.view(6), "`reshape` copies"),
        (lambda: bool(TABLE), "as a whole"),
        (lambda: {}["a"], "no entry with this key"),
        (lambda: [][0], "isn't there"),
        (lambda: min([]), "nothing left to choose from"),
        (lambda: 1 // 0, "divide by"),
        (lambda: math.log(0), "0 or negative"),
        (lambda: TABLE.T(), "isn't a function"),
        (lambda: TABLE.shape(1), "isn't a function"),
        (lambda: abs[-1], "Call it first"),
        (lambda: TABLE.size[0], "Call it first"),
        (lambda: raised[0], "Call it first"),
        (lambda: torch.tensor([[1], [2, 3]]), "Pad the shorter ones"),
        (lambda: [1, 2][:: int("0")], "the step can be 0"),
        (lambda: dict("nrefs:1".split("|")), "is made of pairs"),
        (lambda: raised(1, function=2), "the wrong arguments"),
        (registered_twice, "it was assigned before"),
        (lambda: setattr(nn.Linear(2, 2), "weight", TABLE), "has to be a parameter"),
        (lambda: nn.ModuleList([nn.Linear]), "Call it"),
        (lambda: Figure().subplots().plot([1, 2], [3]), "as many x values"),
        (lambda: Figure().subplots().set_xticks([0, 1], ["a"]), "as many labels"),
        (lambda: corpus_bleu([[4, 5]], [["a b"]]), "compares texts"),
    ],
)
def test_exceptions_are_explained(function: Any, said: str) -> None:
    explanation = explain(raised(function))
    assert explanation in EXPLANATIONS.values() and said in explanation
    assert explain(Exception("?")) is None


def judge(name: str, answer: Any) -> list[str]:
    return str(BY_NAME[name].judge(answer)).splitlines()


def test_a_tensor_in_place_of_a_list_is_explained() -> None:
    def as_tensor(name: str) -> Any:
        return lambda *inputs: torch.tensor(reference(name)(*inputs))

    right = "the result is a Tensor, but should be a list: the values are right, only the type is wrong"
    assert judge("greedy_search", as_tensor("greedy_search"))[0] == right
    said = judge("greedy_search", lambda *inputs: as_tensor("greedy_search")(*inputs) * 7)
    assert "the result is a Tensor, but should be a list" in said
    best_extensions = reference("best_extensions")
    said = judge("best_extensions", lambda *inputs: tuple(x.tolist() for x in best_extensions(*inputs)))
    assert said[0] == "values is a list, but should be a Tensor: the values are right, only the type is wrong"
    assert judge("look_up", lambda *inputs: 10**400)[0] == "the result is an int, but should be a Tensor"
    array = judge("average_checkpoints", lambda checkpoints: np.array(reference("average_checkpoints")(checkpoints)))
    assert array[0] == "the result is an ndarray, but should be a dict"


def test_tensors_in_a_dict_may_have_the_right_numbers_in_another_shape() -> None:
    def with_an_axis_more(checkpoints: Any) -> Any:
        return {name: weight[None] for name, weight in reference("average_checkpoints")(checkpoints).items()}

    first, *_ = judge("average_checkpoints", with_an_axis_more)
    assert first == (
        "entry 'w' of the result has the shape (1, 2), but should have (2,): the values are right, only their axes are "
        "wrong"
    )


def test_a_single_number_has_no_axes() -> None:
    found = find_relation([Wrong({}, x.square().sum(1), x.mean()) for x in (TABLE, OTHER)])
    assert found and found.title == "too many axes"
    assert found.text == "Your result has a single axis, but should be a single number, without any axis."


def test_a_search_without_end_is_stopped_before_the_time_is_up() -> None:
    def until_eos(model: Any, bos: int, eos: int, limit: int) -> list[int]:
        tokens = [bos]
        while (token := int(model(tokens).argmax())) != eos:
            tokens.append(token)
        return tokens[1:]

    def until_the_comma(next_token: Any, examples: Any, question: str, max_new_tokens: int) -> str:
        if examples:
            return str(reference("few_shot_answer")(next_token, examples, question, max_new_tokens))
        tokens = [question, ":"]
        while (token := next_token(tokens)) != ",":
            tokens.append(token)
        return " ".join(tokens[2:])

    assert judge("greedy_search", until_eos)[0] == "it doesn't stop by itself"
    assert judge("few_shot_answer", until_the_comma)[0] == "it doesn't stop at max_new_tokens"


def test_nan_is_explained_even_if_other_wrong_results_have_none() -> None:
    assert judge("softmax", lambda s: s.exp() / s.exp().sum(1, True))[0] == "NaN, where there should be numbers"


def test_what_is_wrong_in_some_tests_is_not_said_of_every_test() -> None:
    def scaled_always(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
        return x * (draw >= rate if training else 1) / (1 - rate)

    said = judge("dropout", scaled_always)
    assert said[1].endswith("It is wrong only where `training` is False.")
    assert said[2].startswith("Wherever your result is wrong, it is 1.333 times what it should be.")


def test_a_line_that_is_not_known_is_not_quoted() -> None:
    variables: dict[str, Any] = {}
    exec(compile("def causal_mask(length):\n    return length @ 2", "<timed exec>", "exec"), variables)
    assert judge("causal_mask", variables["causal_mask"])[1] == "in line 2 of its cell"


def reference(name: str) -> Any:
    return BY_NAME[name].reference


def without_gradient(name: str) -> Any:
    def answer(*inputs: Any) -> Any:
        result = reference(name)(*inputs)
        return tuple(t.detach() for t in result) if isinstance(result, tuple) else result.detach()

    return answer


@pytest.mark.parametrize("name", ["rotate", "reorder_query_key_value"])
def test_a_gradient_is_missed_wherever_the_notebook_asks_for_it(name: str) -> None:
    assert judge(name, without_gradient(name))[0].startswith("no gradient flows back to ")


@pytest.mark.parametrize("name", ["memory", "layer_cost"])
def test_a_float_is_no_integer(name: str) -> None:
    first = judge(name, lambda *inputs: tuple(map(float, reference(name)(*inputs))))[0]
    assert first.endswith(": the value is right, only its type is wrong")


def test_a_mask_that_is_repeated_along_an_axis() -> None:
    said = judge("padding_mask", lambda ids, pad_id: (ids != pad_id)[:, None, None].expand(-1, 1, ids.size(1), -1))
    assert said[:2] == [
        "repeated along an axis",
        "Your result is right, but repeated along the second-to-last axis (-2), which should have length one.",
    ]


def test_an_additive_mask_is_not_taken_for_a_swapped_one() -> None:
    def additive(n_prefix: Tensor, length: int) -> Tensor:
        mask = reference("prefix_mask")(n_prefix, length)
        return torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)

    said = "\n".join(judge("prefix_mask", additive))
    assert "float32" in said and "swapped" not in said


def test_changes_are_noticed_in_what_a_function_returns_or_keeps() -> None:
    def added_in_place(x: Tensor, sublayer: Any, norm: Any) -> Tensor:
        y = sublayer(x)
        y += x
        return norm(y)

    def read_on(order: Any, epoch: int, step: int, count: int) -> list[int]:
        batches = order(epoch)
        del batches[:step]
        while len(batches) < count:
            epoch += 1
            batches += order(epoch)
        return batches[:count]

    def tracked_in_place(weight: Tensor, parts: Any, pad_id: int) -> Any:
        return reference("accumulated_gradient")(weight.requires_grad_(), parts, pad_id)

    def kept_away_from_zero(weights: Tensor) -> Any:
        return reference("row_entropy")(weights.clamp_(min=1e-9))  # too little to show in the result

    assert judge("post_norm", added_in_place)[0] == "it changes its input `x`"
    said = judge("accumulated_gradient", tracked_in_place)
    assert said[0] == "it changes its input `weight`" and "switched on gradients" in said[1]
    assert judge("row_entropy", kept_away_from_zero)[0] == "it changes its input `weights`"
    assert judge("read_on", read_on)[0] == "it changes a list that `order` keeps"


def test_equally_probable_tokens_may_come_in_any_order() -> None:
    def last_first(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
        p = logits.exp() / logits.exp().sum()
        order = sorted(range(len(p)), key=lambda i: (-p.tolist()[i], -i))[:n]
        return p[order], torch.tensor(order)

    def without_gradient(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
        return last_first(logits.detach(), n)

    assert judge("most_probable", last_first) == ["None"]
    assert judge("most_probable", without_gradient)[0] == "no gradient flows back to `logits`"


def test_an_argument_that_is_not_used_is_named() -> None:
    topic = Topic()

    @topic.exercise({"x": TABLE, "n": 2}, {"x": OTHER, "n": 3})
    def scaled(x: Tensor, n: int) -> Tensor:
        return x * n + 1

    said = str(scaled.judge(lambda x, m: x**2)).splitlines()
    assert said[0] == "an argument isn't used" and said[1].startswith("Your code doesn't use `n`. ")
    said = str(scaled.judge(lambda x, n: x**2 + 0 * n)).splitlines()
    assert said[0] == "an argument makes no difference" and "uses `n`, but" in said[1]

    def in_a_part_of_its_own(x: Tensor, n: int) -> Tensor:
        def part() -> int:
            return 0 * n

        return x**2 + part()

    assert str(scaled.judge(in_a_part_of_its_own)).splitlines()[0] == "an argument makes no difference"


def test_one_call_is_not_enough_to_say_that_an_argument_is_not_used() -> None:
    def doubled_if(x: int, twice: bool) -> int:
        return 2 * x if twice else x

    inputs = [{"x": 1, "twice": True}, {"x": 5, "twice": False}]
    runs = partial(call, doubled_if), partial(call, lambda x, twice: x)
    assert unused_arguments(*runs, inputs[:1]) == []
    assert unused_arguments(*runs, inputs) == ["twice"]


def test_a_list_that_ends_too_early_is_told_before_an_argument_that_is_not_used() -> None:
    topic = Topic()

    @topic.exercise({"x": [1, 2, 3], "n": 2}, {"x": [4, 5, 6, 7], "n": 3})
    def shifted(x: list[int], n: int) -> list[int]:
        return [x[0], *(number + n for number in x[1:])]

    said = shifted.judge(lambda x, n: x[:1])
    assert said is not None and said.splitlines()[0] == "it stops too early"


def test_no_formula_is_referred_to_where_a_text_may_have_none() -> None:
    found = find_relation([Wrong({}, a, b) for a, b in ((2.0, 1.5), (7.0, 3.0), (4.0, 2.5))])
    assert found and found.title == "too large wherever it is wrong" and "formula" not in found.text


def test_whatever_an_answer_returns_it_is_explained() -> None:
    topic = Topic()

    @topic.exercise({"x": 1}, {"x": 2}, results=("twice", "half"))
    def both(x: int) -> tuple[int, float]:
        return 2 * x, x / 2

    calls: list[int] = []

    def right_later(x: int) -> tuple[int, float]:
        calls.append(x)
        return (0, 0.0) if len(calls) == 1 else both.reference(x)

    assert str(both.judge(right_later)).startswith("twice is 0, but should be 2")

    class Incomparable:
        def __eq__(self, other: object) -> bool:
            raise KeyError(other)

        __hash__ = None  # type: ignore[assignment]

    signalling = Decimal("sNaN")  # every comparison raises an exception
    odd = object(), Incomparable(), signalling, {1: {2: 3}}, [[]], {1, 2}, b"", "", True, 1j
    for value in (10**400, math.inf, math.nan, {}, *odd):
        assert both.judge(lambda x, value=value: (value, x / 2)) is not None
        assert both.judge(lambda x, value=value: value) is not None


def test_random_numbers_of_its_own_are_noticed() -> None:
    def with_own_draw(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
        return reference("dropout")(x, rate, torch.rand_like(draw), training)

    def with_new_layers(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
        return nn.Linear(*w_1.shape)(x).relu() @ w_2 + b_2  # type: ignore[no-any-return]

    def shuffled(pairs: Any) -> Any:
        return random.sample("abcdefgh", 8)

    for name, answer in (("dropout", with_own_draw), ("feed_forward", with_new_layers), ("best_pair", shuffled)):
        assert judge(name, answer)[0] == "another result each time"
    assert judge("best_pair", lambda pairs: [object()])[0] != "another result each time"


def test_a_check_leaves_the_random_number_generators_as_they_were() -> None:
    before = random.getstate(), torch.get_rng_state()
    assert judge("feed_forward", lambda x, *rest: x) != ["None"]
    with seeded(5):
        assert random.random() and torch.rand(1)
    assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])


def test_none_is_told_apart_from_a_result_of_none() -> None:
    class NoReturn(reference("DecoderLayer")):
        def forward(self, *inputs: Tensor) -> None:
            super().forward(*inputs)

    assert judge("DecoderLayer", NoReturn)[0] == "the output in evaluation mode is None, but should be a Tensor"
    assert judge("newest_complete", lambda checkpoints, on_disk: None)[0] == "it returns None, but should return 2000"


def test_an_edge_case_is_named() -> None:
    assert judge("decode", lambda symbols: reference("decode")(symbols) if symbols else None)[:2] == [
        "right, except in a special case",
        "Your result is right in 12 of 14 tests. It is wrong only where `symbols` is empty. What should happen then?",
    ]


def exercise_of_swapped_results() -> Exercise:
    topic = Topic()

    @topic.exercise({"x": TABLE}, {"x": OTHER}, results=("twice", "half"))
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        return 2 * x, x / 2

    return both


def test_several_results() -> None:
    both = exercise_of_swapped_results()
    assert str(both.judge(lambda x: (x / 2, 2 * x))).splitlines()[0] == "the results are in the wrong order"
    rotated = judge(
        "adam_step", lambda *inputs: (*reference("adam_step")(*inputs)[1:], reference("adam_step")(*inputs)[0])
    )
    assert rotated[:2] == ["the results are in the wrong order", "They should be: weight, m, v."]
    said = str(both.judge(lambda x: (2 * x, -x / 2))).splitlines()
    assert said[0] == "the wrong sign" and said[1].startswith("Only `half` is wrong. ")
    said = str(both.judge(lambda x: (2 * x + 1, -x / 2))).splitlines()
    assert said[1].startswith("In `twice`: Your numbers are too large by 1") and said[2].startswith("In `half`: ")


def test_modules_may_register_their_parts_in_any_order() -> None:
    class Layer(reference("DecoderLayer")):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            norms = self.norms
            del self.norms
            self._modules = {"norms": norms, **self._modules}

    class Tied(reference("Transformer")):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            embedding = self.embedding
            del self.embedding
            self.embedding = embedding

    assert judge("DecoderLayer", Layer) == ["None"]
    assert judge("Transformer", Tied) == ["None"]
    assert isinstance(Tied(BY_NAME["Transformer"].inputs[0]["config"]), nn.Module)


def other_padding_removed(ids: Tensor, pad_id: int) -> Tensor:
    return ((ids != pad_id) & (ids != 0))[:, None, None]


def fixed_width(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred = x - x.sum(-1, keepdim=True) / 4
    return centred / (centred.square().sum(-1, keepdim=True) / 4 + eps).sqrt() * gain + bias


def scaled_by_positions(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(len(encoding)) + encoding[: ids.size(1)]


@pytest.mark.parametrize(
    ("name", "answer", "not_said"),
    [
        ("padding_mask", other_padding_removed, "smaller ids hidden as well"),
        ("layer_norm", fixed_width, "right, except in a special case"),
        ("embed", scaled_by_positions, "scaled by the vocabulary's size"),
    ],
)
def test_a_mistake_is_not_taken_for_another(name: str, answer: Any, not_said: str) -> None:
    said = judge(name, answer)
    assert said != ["None"] and not_said not in said[0]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("causal_mask", lambda length: torch.ones(512, 512, dtype=torch.bool).tril()[None, None, :length, :length]),
        ("masked_softmax", lambda s, mask: s.masked_fill(~mask, -65504).softmax(-1).masked_fill(~mask, 0)),
    ],
)
def test_a_fixed_number_is_not_large_enough(name: str, answer: Any) -> None:
    assert judge(name, answer) != ["None"]
