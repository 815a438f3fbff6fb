"""The course's visual language, in one place: colours that mean the same everywhere, pictures that fit every page.

A picture takes its text colour from the page it stands on, so that it reads in light and in dark; it fits a phone;
and it cannot be made without the words that stand for it when it is not seen.
"""

import html
import inspect
import io
import re
import textwrap
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer.checkpoint import write_atomically
from transformer.errors import UserError

# Okabe and Ito's colours, which colour-blind readers can tell apart. For fills and lines: text keeps the page's colour.
QUERY = "#0072B2"
KEY = "#E69F00"
VALUE = "#009E73"
OUTPUT = "#CC79A7"
WRONG = "#D55E00"
PLAIN = "#808080"
ALLOWED = "#5EC962"
"""A mask's True: may attend."""
WEIGHTS: Final = "viridis"
"""The colour map of attention weights: dark is 0, light is 1."""

FORMATS = (".png", ".svg", ".pdf")
"""Suffixes of a saved picture."""

INK = "#010203"
"""Stands for the page's text colour while matplotlib draws; no picture uses it for anything else."""

STYLE: Any = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "font.size": 11,
    "grid.color": PLAIN,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 2,
    "svg.fonttype": "path",
    "svg.hashsalt": "transformer",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


class Picture:
    """A matplotlib figure for a page: an SVG in the page's own text colour, described in words.

    Args:
        figure: what is drawn.
        alt: what there is to see, for whoever cannot see it.

    Raises:
        ValueError: if ``alt`` is empty.
    """

    def __init__(self, figure: Figure, alt: str) -> None:
        if not alt.strip():
            raise ValueError("a picture needs an alt text: say what there is to see")
        self.figure, self.alt = figure, " ".join(alt.split())

    def __repr__(self) -> str:
        return f"[Picture: {self.alt}]"

    def _repr_html_(self) -> str:
        file = io.StringIO()
        with in_style():
            self.figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight", pad_inches=0.05)
        svg = file.getvalue()
        svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # two pictures on a page must not share an id
        fit = 'style="max-width: 100%; height: auto"'
        return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(self.alt)}" {fit}', 1)


class Row:
    """Pictures side by side where there is room, one below the other on a phone."""

    def __init__(self, *pictures: Picture) -> None:
        self.pictures = pictures

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.pictures))

    def _repr_html_(self) -> str:
        cells = "".join(f"<div>{picture._repr_html_()}</div>" for picture in self.pictures)
        return f'<div style="display: flex; flex-wrap: wrap; gap: 0.5rem 1rem; align-items: flex-end">{cells}</div>'


class Source:
    """The source of functions or classes as it stands in the package's file, highlighted like all code on the page."""

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    def __repr__(self) -> str:
        return "\n".join(self._one(thing) for thing in self.objects)

    def _repr_markdown_(self) -> str:
        return f"```python\n{self!r}```\n"

    @staticmethod
    def _one(thing: Any) -> str:
        file = inspect.getmodule(thing).__name__.replace(".", "/") + ".py"  # type: ignore[union-attr]
        lines, start = inspect.getsourcelines(thing)
        return f"# {file}, line {start}\n{textwrap.dedent(''.join(lines))}"


def in_style() -> AbstractContextManager[None]:
    """What is drawn ``with in_style():`` has the course's look; matplotlib's own settings stay as they were."""
    return mpl.rc_context(STYLE)


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure of so many inches; at most 5 wide, so that it still reads on a phone."""
    figure = Figure(figsize=(width, height))
    return figure, figure.add_subplot()


def check_picture(path: Path) -> None:
    """Make sure that a picture can be saved there.

    Raises:
        UserError: if it is no name of a PNG, SVG or PDF, or its folder does not exist.
    """
    if path.suffix not in FORMATS:
        raise UserError(f"the name of a picture ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}; got {str(path)!r}")
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} to save {path.name} in: make it first")


def save(figure: Figure, path: Path) -> None:
    """Save a figure, black on white; what it is by the file's suffix. An older file is replaced by a whole one.

    Raises:
        UserError: as in `check_picture`, or if the file cannot be written.
    """
    check_picture(path)
    file = io.BytesIO()
    with in_style():
        figure.savefig(file, format=path.suffix[1:], dpi=200, facecolor="white", bbox_inches="tight", pad_inches=0.1)
    try:
        write_atomically(path, file.getvalue())
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def chart_style(chart: Any) -> Any:
    """Give an Altair chart the course's look: no background, the page's text colour, drawn as SVG.

    The chart's ``description`` is its alt text.

    Raises:
        ValueError: if the chart has no description.
    """
    if not isinstance(getattr(chart, "description", None), str):
        raise ValueError("a chart needs a description: say what there is to see and to do")
    ink, sizes = "currentColor", {"labelFontSize": 12, "titleFontSize": 12}
    lines = {"tickColor": ink, "domainColor": ink, "gridColor": PLAIN, "gridOpacity": 0.25}
    chart = chart.configure(background="transparent", font="system-ui, sans-serif", padding=2)
    chart = chart.configure_view(stroke=None).configure_text(color=ink)
    chart = chart.configure_axis(labelColor=ink, titleColor=ink, titleFontWeight="normal", **lines, **sizes)
    chart = chart.configure_title(color=ink, anchor="start", frame="group", fontSize=13)
    chart.usermeta = {"embedOptions": {"renderer": "svg", "actions": False}}
    return chart
