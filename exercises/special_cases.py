"""Find what is special about the inputs for which an answer is wrong: an empty list, a tie, fewer axes."""

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from exercises.calls import Inputs
from exercises.tensors import is_tensor

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

HOLDS: dict[str, Callable[..., Any]] = {
    "_ is empty": lambda x: len(x) == 0,
    "_ has a single entry": lambda x: (x.numel() if is_tensor(x) else len(x)) == 1,
    "_ contains equal entries": lambda x: len({*x}) < len(x),
    "_ begins or ends with a space": lambda x: x != x.strip(),
    "_ contains two spaces in a row": lambda x: "  " in x,
    "_ is True": lambda x: x,
    "_ is False": operator.not_,
    "_ is 0": lambda x: x == 0,
    "_ is 1": lambda x: x == 1,
    "_ is negative": lambda x: x < 0,
    "_ is smaller than _": operator.lt,
    "_ is larger than _": operator.gt,
    "_ and _ are equal": operator.eq,
    "_ has 2 axes": lambda x: x.dim() == 2,
    "_ has 3 axes": lambda x: x.dim() == 3,
    "_ has 4 axes": lambda x: x.dim() == 4,
    "_ has the dtype float16": lambda x: str(x.dtype) == "torch.float16",
    "_ has a row without any True": lambda x: not x.any(-1).all(),
    "_ contains 0": lambda x: not x.all(),
    "_ contains infinities": lambda x: x.isinf().any(),
    "_ contains large numbers": lambda x: (x[x.isfinite()].abs() > 50).any(),
}
"""What may be special, with _ in place of each input → whether it holds for these inputs."""


def what_is_special(blank: str, wrong: Sequence[Inputs], right: Sequence[Inputs]) -> str | None:
    """Return the first special case of the blank that covers all inputs of the first kind and none of the second.

    Args:
        blank: the name of the blank.
        wrong: the inputs for which an answer is wrong.
        right: those for which it is right.
    """
    for case in SPECIAL_CASES.get(blank, ()):
        if all(is_case(case, inputs) for inputs in wrong) and not any(is_case(case, inputs) for inputs in right):
            return case
    return None


def is_case(case: str, inputs: Inputs) -> bool:
    """Return whether a special case, such as "`length` is 1", covers inputs."""
    holds = HOLDS[re.sub(r"`\w+`", "_", case)]
    return bool(holds(*(inputs[name] for name in re.findall(r"`(\w+)`", case))))
