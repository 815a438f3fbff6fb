"""Find how a wrong tensor is related to the right one: axes swapped, rows reversed, only the diagonal wrong.

PyTorch may be missing, so this module calls nothing but methods of the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, permutations
from typing import TYPE_CHECKING

from exercises.tensors import AXES, is_close

if TYPE_CHECKING:
    from torch import Tensor

Pairs = Sequence[tuple["Tensor", "Tensor"]]
"""Wrong tensors with the right ones."""

Relation = tuple[str, str, Callable[["Tensor", "Tensor"], bool]]
"""What is wrong, in a few words; a sentence for the learner; and a function that tests whether it applies."""

MAX_AXES = 4
"""Tensors with more axes aren't examined: the other axes have no names (see `AXES`)."""


def axis_relation(pairs: Pairs) -> tuple[str, str] | None:
    """Return how all the wrong tensors are related to the right ones, as a title and a sentence, or None."""
    pairs = [(a.detach(), b.detach()) for a, b in pairs]
    if any(x.is_complex() or x.dim() > MAX_AXES for pair in pairs for x in pair):
        return None
    search = _relations if all(a.shape == b.shape for a, b in pairs) else _shape_relations
    return next(((title, text) for title, text, holds in search(pairs) if _always(holds, pairs)), None)


def _always(holds: Callable[[Tensor, Tensor], bool], pairs: Pairs) -> bool:
    try:
        return all(holds(a, b) for a, b in pairs)
    except (IndexError, RuntimeError):  # not every tensor has this axis
        return False


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(is_close(a, b).all())


def _axes(pairs: Pairs) -> list[tuple[int, str]]:
    """Return each axis, counted from the end, with its name."""
    n = max(x.dim() for pair in pairs for x in pair)
    return [(-1 - i, f"the {AXES.get(-1 - i, 'first axis')}" if n > 1 else "its only axis") for i in range(n)]


def _swaps(axes: Sequence[tuple[int, str]]) -> Iterator[Relation]:
    for (i, place), (j, other) in combinations(axes, 2):
        yield (
            "two axes are swapped",
            f"All numbers are right, but {place} and {other} are swapped.",
            partial(_is_transposed, i, j),
        )


# The same shape -------------------------------------------------------------------------------------------------------


def _relations(pairs: Pairs) -> Iterator[Relation]:
    axes = _axes(pairs)
    are_masks = all(str(x.dtype) == "torch.bool" for pair in pairs for x in pair)
    if are_masks:
        yield "True and False are swapped", "Every entry is the opposite of what it should be.", _is_opposite
        yield ON_DIAGONAL
        yield (
            "too many entries are True",
            "No True is missing, but some entries are True that should be False: which condition is missing?",
            _has_more,
        )
        yield (
            "too many entries are False",
            "What is True is right, but some entries are False that should be True: which condition is too strict?",
            lambda a, b: _has_more(b, a),
        )
        yield from _parts(pairs, axes)
    if max(b.numel() for _, b in pairs) < 3:
        return
    for axis, place in axes:
        yield (
            "reversed",
            f"All numbers are right, but along {place} their order is reversed.",
            partial(_is_flipped, axis),
        )
        for step, where in ((1, "late"), (-1, "early")):
            yield (
                "shifted by one",
                f"Your numbers are the right ones, but along {place} each of them comes one place too {where}.",
                partial(_is_moved, axis, step),
            )
        yield (
            "a running sum",
            f"Your numbers are running sums of the right ones along {place}. Do you add to what was there before?",
            partial(_is_running_sum, axis),
        )
        yield (
            "the same all along an axis",
            f"Along {place}, you repeat what is right for the first entry only. Does your code use it for all of them?",
            partial(_is_repeated, axis),
        )
    yield from _swaps(axes)
    yield (
        "not in descending order",
        "The numbers are right, but they aren't in descending order: the largest should come first.",
        _is_unsorted,
    )
    yield (
        "the right numbers in other places",
        "All the right numbers are in your result, but not where they belong. Follow one of them through your code: "
        "where does it go another way? (If your code reshapes a tensor there: that doesn't swap its axes.)",
        _is_shuffled,
    )
    for axis, place in axes:
        yield (
            "each row is off by a factor",
            f"Along {place}, your numbers have the right ratios, but each row has a factor of its own. Which step "
            "scales a whole row, or should do so?",
            partial(_has_same_ratios, axis),
        )
        yield (
            "each row is off by a constant",
            f"Along {place}, your numbers have the right differences, but each row has a number added to it that "
            "shouldn't be there, or one is missing.",
            partial(_has_same_differences, axis),
        )
    if not are_masks:
        yield from _parts(pairs, axes)


def _parts(pairs: Pairs, axes: Sequence[tuple[int, str]]) -> Iterator[Relation]:
    """Yield relations that tell which part is wrong."""
    yield ON_DIAGONAL
    for axis, place in axes:
        for index, which in ((0, "first"), (-1, "last")):
            yield (
                f"only the {which} entry is wrong",
                f"Along {place}, everything is right except for the {which} entry. What is different there?",
                partial(_is_wrong_only_at, axis, index),
            )
        if max(_count_wrong(axis, a, b) for a, b in pairs) < 2:
            continue
        for start, which in ((1, "first, third, …"), (0, "second, fourth, …")):
            yield (
                "every second entry is wrong",
                f"Along {place}, the {which} entries are right. Look at how you compute those in between.",
                partial(_is_wrong_at_every_second, axis, start),
            )
        yield (
            "only the first entry is right",
            f"Along {place}, the first entry is right, and all others are wrong.",
            partial(_is_right_only_at_first, axis),
        )


def _is_opposite(a: Tensor, b: Tensor) -> bool:
    return _equal(~a.bool(), b)


def _has_more(a: Tensor, b: Tensor) -> bool:
    return bool((a.bool() | ~b.bool()).all())


def _is_flipped(axis: int, a: Tensor, b: Tensor) -> bool:
    return _equal(a.flip(axis), b)


def _is_moved(axis: int, step: int, a: Tensor, b: Tensor) -> bool:
    n = b.size(axis) - 1
    later, earlier = (a, b) if step == 1 else (b, a)
    return n > 1 and _equal(later.narrow(axis, 1, n), earlier.narrow(axis, 0, n))


def _is_running_sum(axis: int, a: Tensor, b: Tensor) -> bool:
    return _equal(a, b.cumsum(axis))


def _is_repeated(axis: int, a: Tensor, b: Tensor) -> bool:
    return a.size(axis) > 1 and _equal(a, b.narrow(axis, 0, 1).expand_as(b))


def _is_transposed(i: int, j: int, a: Tensor, b: Tensor) -> bool:
    return a.dim() == b.dim() and _equal(a.transpose(i, j), b)


def _is_shuffled(a: Tensor, b: Tensor) -> bool:
    return a.numel() > 3 and len(b.unique()) > 2 and _equal(_sorted(a), _sorted(b))


def _is_unsorted(a: Tensor, b: Tensor) -> bool:
    descends = b.dim() == 1 and len(b.unique()) > 1 and bool((b.diff() <= 0).all())
    return descends and b.is_floating_point() and _equal(_sorted(a), _sorted(b))


def _sorted(x: Tensor) -> Tensor:
    return x.double().flatten().sort().values


def _has_same_ratios(axis: int, a: Tensor, b: Tensor) -> bool:
    """Return whether each row is the right one times a factor; at least one factor isn't near 1, and is no chance."""
    a, b = a.double(), b.double()
    if b.size(axis) < 3 or not bool(a.isfinite().all() and b.isfinite().all() and a.any()):
        return False
    factor = (a * b).sum(axis, keepdim=True) / (b * b).sum(axis, keepdim=True).clamp(min=1e-30)
    scale = b.abs().amax(axis, keepdim=True) * factor.abs()
    is_telling = ((factor - 1).abs() > 0.01) & ((b != 0).sum(axis, keepdim=True) > 2)
    return bool(is_telling.any() and ((a - b * factor).abs() <= 1e-5 * scale + 1e-12).all())


def _has_same_differences(axis: int, a: Tensor, b: Tensor) -> bool:
    difference = a.double() - b.double()
    mean = difference.mean(axis, keepdim=True)
    return b.size(axis) > 2 and bool(((difference - mean).abs() <= 1e-4 * (1 + mean.abs())).all())


def _is_wrong_on_diagonal(a: Tensor, b: Tensor) -> bool:
    if b.dim() < 2 or not b.size(-1) == b.size(-2) > 1:
        return False
    square = b.new_ones(b.shape[-2:]).bool()
    diagonal = square.tril() & square.triu()
    return bool((is_close(a, b) | diagonal).all())


def _is_wrong_only_at(axis: int, index: int, a: Tensor, b: Tensor) -> bool:
    n = b.size(axis) - 1
    others = is_close(a, b).narrow(axis, 1 if index == 0 else 0, n)
    return n > 0 and bool(others.all())


def _count_wrong(axis: int, a: Tensor, b: Tensor) -> int:
    """Return how many entries along an axis are wrong; 0 for a mask, where it would be chance which ones are."""
    if b.dim() < -axis or str(b.dtype) == "torch.bool":
        return 0
    wrong = ~is_close(a, b).movedim(axis, 0)
    return int((wrong.flatten(1).any(1) if wrong.dim() > 1 else wrong).sum())


def _is_wrong_at_every_second(axis: int, start: int, a: Tensor, b: Tensor) -> bool:
    right = is_close(a, b).movedim(axis, 0)
    smallest = 2 if axis == -1 else 4  # features come in pairs; among two or three positions, it would be chance
    return len(right) >= smallest and bool(right[1 - start :: 2].all())


def _is_right_only_at_first(axis: int, a: Tensor, b: Tensor) -> bool:
    right = is_close(a, b).movedim(axis, 0)
    right = right.flatten(1).all(1) if right.dim() > 1 else right
    return len(right) > 1 and bool(right[0]) and not bool(right[1:].any())


ON_DIAGONAL: Relation = (
    "only the diagonal is wrong",
    "Everything is right except for the diagonal, where a position meets itself.",
    _is_wrong_on_diagonal,
)

# Another shape --------------------------------------------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "summed over": lambda x, axis: x.double().sum(axis),
    "averaged over": lambda x, axis: x.double().mean(axis),
    "cut to the first entry of": lambda x, axis: x.select(axis, 0),
    "cut to the last entry of": lambda x, axis: x.select(axis, -1),
    "reduced to the maximum over": lambda x, axis: x.amax(axis),
}


def _shape_relations(pairs: Pairs) -> Iterator[Relation]:
    axes = _axes(pairs)
    yield from _swaps(axes)
    yield (
        "the axes are in another order",
        "All numbers are right, but the axes should be in another order.",
        _is_permuted,
    )
    yield from _lengths(axes)
    for axis, place in axes:
        yield (
            "repeated along an axis",
            f"Your result is right, but repeated along {place}, which should have length one.",
            partial(_has_length_one_repeated, axis),
        )
    are_masks = any(str(x.dtype) == "torch.bool" for pair in pairs for x in pair)
    for axis, place in axes if not are_masks else []:
        for how, reduce in REDUCTIONS.items():
            title = how.rpartition(" ")[0]
            yield (
                f"{how} an axis" if how.endswith("of") else title,
                f"Your result is the right one, but {how} {place}, which should stay.",
                partial(_is_reduced, reduce, axis),
            )
            yield (
                f"not {title}",
                f"Your tensor, {how} {place}, would be the right result.",
                lambda a, b, reduce=reduce, axis=axis: _is_reduced(reduce, axis, b, a),  # type: ignore[misc]
            )
    yield (
        "the right numbers in another shape",
        "Your result contains the right numbers, but in another order and another shape. `reshape` and `view` keep the "
        "order that the numbers have in memory: which axes have to be swapped first?",
        lambda a, b: a.numel() == b.numel() and _equal(_sorted(a), _sorted(b)),
    )


def _lengths(axes: Sequence[tuple[int, str]]) -> Iterator[Relation]:
    """Yield relations that tell what is missing at an end of an axis, or too much."""
    for axis, place in axes:
        for count, many in ((1, "one entry"), (2, "two entries")):
            for start, where in ((0, "end"), (count, "beginning")):
                yield (
                    f"{many} too many",
                    f"Along {place} there {'is' if count == 1 else 'are'} {many} too many at the {where}; everything "
                    "else is right.",
                    partial(_is_longer, axis, count, start),
                )
                yield (
                    f"{many} missing",
                    f"Your result is right as far as it goes, but along {place} {many} at its {where} "
                    f"{'is' if count == 1 else 'are'} missing.",
                    lambda a, b, axis=axis, count=count, start=start: _is_longer(axis, count, start, b, a),  # type: ignore[misc]
                )


def _is_permuted(a: Tensor, b: Tensor) -> bool:
    return any(_equal(a.permute(order), b) for order in permutations(range(a.dim())))


def _is_reduced(reduce: Callable[[Tensor, int], Tensor], axis: int, a: Tensor, b: Tensor) -> bool:
    return b.size(axis) > 1 and _equal(a.squeeze(), reduce(b, axis).squeeze())


def _has_length_one_repeated(axis: int, a: Tensor, b: Tensor) -> bool:
    first = a.narrow(axis, 0, 1)
    return a.size(axis) > 1 and _equal(a, first.expand_as(a)) and _equal(first, b)


def _is_longer(axis: int, count: int, start: int, a: Tensor, b: Tensor) -> bool:
    return a.size(axis) > count and _equal(a.narrow(axis, start, a.size(axis) - count), b)
