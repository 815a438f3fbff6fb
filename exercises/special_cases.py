"""Find what is special about the inputs for which an answer is wrong: an empty list, a tie, fewer axes."""

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from exercises.calls import Inputs
from exercises.tensors import describe_tensor, is_tensor

SPECIAL_CASES: dict[str, tuple[str, ...]] = {
    "encode_sentence": (
        "`sentence` is empty",
        "`sentence` begins or ends with a space",
        "`sentence` contains two spaces in a row",
    ),
    "continue_prefix": ("`max_new_tokens` is 0",),
    "attention_scores": ("`query` has 2 axes", "`query` has 3 axes", "`query` has 4 axes"),
    "softmax": ("`scores` contains large numbers", "`scores` has 2 axes", "`scores` has 3 axes", "`scores` has 4 axes"),
    "scaled_dot_product_attention": ("`query` has 2 axes", "`query` has 3 axes", "`query` has 4 axes"),
    "causal_mask": ("`length` is 1",),
    "masked_softmax": (
        "`mask` has a row without any True",
        "`scores` contains large numbers",
        "`scores` has the dtype float16",
        "`scores` has 2 axes",
        "`scores` has 3 axes",
        "`scores` has 4 axes",
    ),
    "length_normalization": ("`length_penalty` is 0",),
    "best_extensions": ("`scores` contains infinities", "`scores` contains large numbers"),
    "n_best": ("`length_penalty` is 0",),
    "beam_search": ("`length_penalty` is 0", "`beam_size` is 1"),
    "brevity_penalty": ("`c` is 0", "`c` is smaller than `r`", "`c` is larger than `r`", "`c` and `r` are equal"),
    "corpus_bleu": ("`hypotheses` has a single entry",),
    "batch_loss": ("`logits` contains large numbers",),
    "accumulated_gradient": ("`parts` has a single entry",),
    "average_checkpoints": ("`checkpoints` has a single entry",),
    "sinusoidal_encoding": ("`length` is 1",),
    "shift": ("`k` is negative",),
    "rotate": ("`x` has 2 axes", "`x` has 3 axes", "`x` has 4 axes"),
    "cross_entropy": ("`logits` contains large numbers", "`target` has a single entry"),
    "smoothed_target": ("`smoothing` is 0",),
    "smoothed_loss": ("`logits` contains large numbers", "`target` has a single entry"),
    "gradient": ("`logits` contains large numbers",),
    "layer_norm": ("`x` has 2 axes", "`x` has 3 axes", "`x` contains large numbers"),
    "dropout": ("`training` is True", "`training` is False"),
    "merge_pair": ("`symbols` has a single entry",),
    "learn": ("`n_merges` is 0",),
    "segment": ("`merges` is empty",),
    "decode": ("`symbols` is empty",),
    "count_parameters": ("`v` is 0",),
    "row_entropy": ("`weights` contains 0",),
    "heads_off": ("`off` is empty",),
    "mask_tokens": ("`ids` has a single entry",),
    "prefix_mask": ("`length` is 1",),
    "causal_lm_loss": ("`logits` contains large numbers",),
    "few_shot_answer": ("`examples` is empty",),
    "roofline": ("`n_tokens` is 1",),
    "update_softmax": ("`maximum` contains infinities", "`scores` contains infinities"),
    "blockwise_attention": ("`query` contains large numbers",),
    "newest_complete": ("`checkpoints` is empty",),
    "validation_loss": ("`training` is True", "`training` is False"),
    "plot_losses": ("`validation` contains equal entries",),
}
"""Blank → what may be special about its inputs, the most telling first.

This list is written by hand, because anything may be common to the few inputs for which an answer happens to be wrong.
It contains only cases that a right answer has to take care of.
"""


def what_is_special(blank: str, wrong: Sequence[Inputs], right: Sequence[Inputs]) -> list[str]:
    """Return the first special case of the blank that covers all inputs of the first kind and none of the second.

    Args:
        blank: the name of the blank.
        wrong: the inputs for which an answer is wrong.
        right: those for which it is right.
    """
    if not wrong or len(right) < 2:
        return []
    of_wrong, of_right = ([{*features(inputs)} for inputs in side] for side in (wrong, right))
    return [
        case
        for case in SPECIAL_CASES.get(blank, ())
        if all(case in found for found in of_wrong) and not any(case in found for found in of_right)
    ][:1]


def features(inputs: Inputs) -> Iterator[str]:
    """Yield descriptions of what may be special about inputs."""
    for name, value in inputs.items():
        yield from (f"`{name}` {text}" for texts in _describe(value) for text in texts)
    lengths = {f"`{name}`": value for name, value in inputs.items() if isinstance(value, int) and _is_number(value)} | {
        f"the length of `{name}`": len(value) for name, value in inputs.items() if isinstance(value, list | tuple)
    }
    names = list(lengths)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            yield f"{a} and {b} are equal" if lengths[a] == lengths[b] else f"{a} and {b} differ"
            if lengths[a] != lengths[b]:
                yield f"{a} is {'smaller' if lengths[a] < lengths[b] else 'larger'} than {b}"


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _describe(value: Any) -> tuple[list[str], list[str], list[str]]:
    """Return three lists of descriptions, each less telling than the one before."""
    if value is None or isinstance(value, bool):
        return [f"is {value}"], [], []
    if is_tensor(value):
        return describe_tensor(value)
    if _is_number(value):
        return _describe_number(value)
    if isinstance(value, str):
        return _describe_text(value)
    if isinstance(value, list | tuple | Mapping):
        return _describe_container(value)
    return [], [], []


def _describe_number(value: float) -> tuple[list[str], list[str], list[str]]:
    special = ["is 0"] if value == 0 else ["is 1"] if value == 1 else ["is negative"] if value < 0 else []
    return special, ["isn't 0"] if value else [], ["isn't a whole number"] if value % 1 else []


def _describe_text(value: str) -> tuple[list[str], list[str], list[str]]:
    if not value:
        return ["is empty"], [], []
    whole = ["consists of spaces only"] if not value.strip() else []
    ends = ["begins or ends with a space"] if value != value.strip() else []
    ends += ["contains two spaces in a row"] if "  " in value else []
    capitals = ["contains capitals"] if value != value.lower() else []
    return whole + ends, capitals, ["has a single word"] if len(value.split()) == 1 else ["has several words"]


def _describe_container(value: Any) -> tuple[list[str], list[str], list[str]]:
    if not value:
        return ["is empty"], [], []
    entries = list(value.values()) if isinstance(value, Mapping) else list(value)
    telling = ["has a single entry"] if len(entries) == 1 else []
    telling += ["contains an empty entry"] if any(isinstance(e, list | tuple | str) and not e for e in entries) else []
    plain = [e for e in entries if _is_number(e) or isinstance(e, str)]
    pairs = [e for e in entries if isinstance(e, tuple) and all(_is_number(x) or isinstance(x, str) for x in e)]
    less: list[str] = []
    if len({*map(repr, plain)}) < len(plain) or len({*map(repr, pairs)}) < len(pairs):
        less += ["contains equal values" if isinstance(value, Mapping) else "contains equal entries"]
    numbers = [e for e in plain if _is_number(e)]
    less += ["contains 0"] if 0 in numbers else []
    less += ["contains negative numbers"] if any(n < 0 for n in numbers) else []
    less += ["isn't sorted"] if len(numbers) == len(entries) and numbers != sorted(numbers) else []
    words = [e for e in plain if isinstance(e, str)]
    last = ["contains capitals"] if any(word != word.lower() for word in words) else []
    last += ["contains spaces at the beginning or end of an entry"] if any(w != w.strip() for w in words) else []
    last += ["has several entries"] if len(entries) > 1 else []
    return telling, less, last
