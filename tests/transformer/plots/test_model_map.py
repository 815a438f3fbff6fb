"""The map of the model highlights what it is asked to, and can be read on a phone."""

from collections import Counter
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.transforms import Bbox

from transformer.plots import style
from transformer.plots.model_map import PARTS, model_map

OCCURRENCES = Counter({"embedding": 2, "positional encoding": 2, "feed-forward": 2, "add & norm": 5})
"""Of the parts that the map has more than once."""
INSIDE = {
    "encoder": ["self-attention", "feed-forward"],
    "decoder": ["masked self-attention", "cross-attention", "feed-forward"],
}
"""The sublayers in the frame of each stack."""


def texts_of(figure: Figure) -> list[tuple[str, Bbox]]:
    """Return each text with the rectangle that it covers, in pixels."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    return [(text.get_text(), text.get_window_extent(renderer)) for text in figure.axes[0].texts]


def highlighted(figure: Figure) -> list[list[str]]:
    """Return the texts that are within each of the filled boxes and frames."""
    boxes = [p.get_window_extent() for p in figure.axes[0].patches if isinstance(p, FancyBboxPatch) and filled(p)]
    return [
        [name for name, text in texts_of(figure) if box.containsx(text.x0 - 2) and box.containsx(text.x1 + 2)
         and box.containsy(text.y0) and box.containsy(text.y1)]
        for box in boxes
    ]  # fmt: skip


def filled(box: FancyBboxPatch) -> bool:
    """Return whether a box has a fill that can be seen."""
    return box.get_facecolor()[3] > 0.2


def test_without_parts_nothing_is_highlighted_and_every_part_is_on_the_map() -> None:
    figure = model_map()
    assert highlighted(figure) == []
    assert Counter(text for text, _ in texts_of(figure)) == {PARTS[part]: OCCURRENCES[part] or 1 for part in PARTS}


@pytest.mark.parametrize("part", [part for part in PARTS if part not in INSIDE])
def test_a_part_is_highlighted_wherever_it_occurs_and_no_other_is(part: str) -> None:
    assert highlighted(model_map(part)) == [[PARTS[part]]] * (OCCURRENCES[part] or 1)


@pytest.mark.parametrize("stack", INSIDE)
def test_a_stack_is_highlighted_with_all_its_sublayers(stack: str) -> None:
    (texts,) = highlighted(model_map(stack))
    assert texts == [text for sublayer in INSIDE[stack] for text in (sublayer, "add & norm")]


def test_several_parts_are_highlighted_together() -> None:
    assert highlighted(model_map("probabilities", "target tokens")) == [["target tokens"], ["next-token probabilities"]]


def test_an_unknown_part_is_refused_with_the_parts_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"no part 'attention', 'softmax'; it has 'source tokens', .*'memory'"):
        model_map("softmax", "memory", "attention")


@pytest.mark.parametrize("parts", [(), tuple(PARTS)], ids=["nothing highlighted", "all highlighted"])
def test_no_text_touches_another_or_a_line_or_leaves_the_figure(parts: tuple[str, ...]) -> None:
    figure = model_map(*parts)
    texts = texts_of(figure)
    for (name, text), (other, covered) in combinations(texts, 2):
        assert not text.overlaps(covered), f"{name} overlaps {other}"
    axes = figure.axes[0]
    edges = [p for p in axes.patches if isinstance(p, FancyBboxPatch) and p.get_linewidth()]
    lines = [line.get_path().transformed(line.get_transform()) for line in [*axes.lines, *edges]]
    arrows = [patch.get_window_extent() for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    for name, text in texts:
        assert figure.bbox.x0 <= text.x0 < text.x1 <= figure.bbox.x1, name
        assert figure.bbox.y0 <= text.y0 < text.y1 <= figure.bbox.y1, name
        assert not any(line.intersects_bbox(text, filled=False) for line in lines), name
        assert not any(text.overlaps(arrow) for arrow in arrows), name


def test_it_is_small_and_can_be_read_on_a_phone() -> None:
    figure = model_map(*PARTS)
    margin = 2 * 0.05  # which a picture has around it, in inches
    on_a_phone = 358 / (96 * (figure.get_figwidth() + margin))  # of the size that was asked for
    assert min(text.get_fontsize() for text in figure.axes[0].texts) * 96 / 72 * on_a_phone >= 11
    assert 96 * (figure.get_figheight() + margin) <= 310
    shown = style.Picture(figure, "a map")._repr_html_()
    assert "currentColor" in shown and style.INK not in shown
