"""The visual style of the course: the colours and their meanings, and figures that fit every page.

A figure takes its text colour from the page around it, so that it is readable in light and dark mode. It fits a
phone, and it always has an alt text.
"""

import ast
import html
import inspect
import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer.errors import UserError, quote
from transformer.files import check_writable, write_output

# The palette of Okabe and Ito, which colour-blind readers can distinguish. For fills and lines, not for text.
QUERY = "#0072B2"
KEY = "#E69F00"
VALUE = "#009E73"
OUTPUT = "#CC79A7"
WRONG = "#D55E00"
PLAIN = "#808080"
ALLOWED = "#5EC962"
"""Cells of a mask that are True: the query may attend to the key."""
WEIGHTS: Final = "viridis"
"""The colour map of attention weights, from 0 (dark) to 1 (bright)."""

LINE_STYLES = ((WRONG, "-"), (QUERY, "--"), (VALUE, "-."), (PLAIN, ":"))
"""Colour and dash pattern of the first to fourth line of a plot; either is enough to tell the lines apart."""

Values = TypeVar("Values")

FORMATS = (".png", ".svg", ".pdf")
"""File name extensions that `save` accepts."""

INK = "#010203"
"""A placeholder for the page's text colour, which `Picture` replaces in the SVG; used for nothing else."""

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


class Captioned:
    """An Altair chart with a caption below it."""

    def __init__(self, chart: Any, caption: str) -> None:
        self.chart, self.caption = chart, caption

    def __repr__(self) -> str:
        return f"{self.chart!r}\n{self.caption}"

    def _repr_html_(self) -> str:
        return with_caption(self.chart._repr_mimebundle_()["text/html"], self.caption)


def with_caption(content: str, caption: str) -> str:
    """Return HTML with a caption below some other HTML, both in the middle of the page."""
    if not caption:
        return content
    figure = "display: flex; flex-direction: column; align-items: safe center; margin: 0"
    text = "max-width: 40em; margin-top: 0.5em; font-size: 0.9em; text-align: center"
    return f'<figure style="{figure}">{content}<figcaption style="{text}">{html.escape(caption)}</figcaption></figure>'


class Picture:
    """A matplotlib figure as an inline SVG in the page's text colour, with an alt text.

    Args:
        figure: the figure to show.
        alt: a description of the figure for readers who cannot see it.
        caption: a line below the figure.

    Raises:
        ValueError: if ``alt`` is empty.
    """

    def __init__(self, figure: Figure, alt: str, caption: str = "") -> None:
        if not alt.strip():
            raise ValueError("a picture needs an alt text: describe what it shows")
        self.figure, self.alt, self.caption = figure, " ".join(alt.split()), caption

    def __repr__(self) -> str:
        return f"[Picture: {self.alt}]"

    def _repr_html_(self) -> str:
        file = io.StringIO()
        with in_style():
            self.figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight", pad_inches=0.05)
        svg = file.getvalue()
        svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r'<g id="legend[^"]*"', '<g class="legend"', svg)  # for the book's thumbnails
        svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # ids must be unique on a page
        fit = 'style="max-width: 100%; height: auto"'
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(self.alt)}" {fit}', 1)
        return with_caption(svg, self.caption)


class Row:
    """Pictures side by side on a wide screen, where they may shrink a little; one below the other on a phone."""

    def __init__(self, *pictures: Picture, caption: str = "") -> None:
        self.pictures, self.caption = pictures, caption

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.pictures))

    def _repr_html_(self) -> str:
        cells = []
        for picture in self.pictures:
            svg = picture._repr_html_()
            width = re.search('width="([0-9.]+pt)"', svg)  # at which its text has the size that was asked for
            assert width
            cells.append(f'<div style="flex: 1 1 17rem; min-width: 0; max-width: {width[1]}">{svg}</div>')
        row = "display: flex; flex-wrap: wrap; justify-content: center; align-items: flex-end; gap: 0.5rem 1rem"
        return with_caption(f'<div style="{row}">{"".join(cells)}</div>', self.caption)


class SourceCode:
    """The source code of functions or classes, read from the package's files and highlighted like the code cells.

    Docstrings, and checks that do nothing but raise an error, are left out.
    """

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    def __repr__(self) -> str:
        return "\n".join(self._source(item) for item in self.objects)

    def _repr_markdown_(self) -> str:
        return f"```python\n{self!r}```\n"

    @staticmethod
    def _source(item: Any) -> str:
        file = inspect.getmodule(item).__name__.replace(".", "/") + ".py"  # type: ignore[union-attr]
        lines, start = inspect.getsourcelines(item)
        name = f": {item.__qualname__}" if "." in item.__qualname__ else ""  # of a method
        return f"# {file}, line {start}{name}\n{essential_lines(textwrap.dedent(''.join(lines)))}"


def essential_lines(code: str) -> str:
    """Return Python source code without docstrings and without checks that do nothing but raise an error."""
    lines = code.splitlines(keepends=True)
    for node in ast.walk(ast.parse(code)):
        if _is_docstring(node) or (isinstance(node, ast.If | ast.For) and _only_raises(node)):
            assert isinstance(node, ast.stmt) and node.end_lineno
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return re.sub(r":\n\n+(?= )", ":\n", "".join(lines))


def _is_docstring(node: ast.AST) -> bool:
    """Return whether a statement is only a string, such as the docstring of a function or an attribute."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _only_raises(node: ast.AST) -> bool:
    """Return whether a statement can do nothing but raise an error."""
    if isinstance(node, ast.If | ast.For):
        return all(map(_only_raises, [*node.body, *node.orelse]))
    return isinstance(node, ast.Raise)


def style_lines(
    lines: Mapping[str, Values], styles: Sequence[tuple[str, str]] = LINE_STYLES
) -> list[tuple[str, Values, str, str]]:
    """Return the label and the values of each line of a plot, and its colour and dash pattern.

    Raises:
        ValueError: if there are more lines than styles.
    """
    if len(lines) > len(styles):
        raise ValueError(f"this plot can have {len(styles)} lines; got {len(lines)}")
    return [(label, values, *style) for (label, values), style in zip(lines.items(), styles, strict=False)]


def in_style() -> AbstractContextManager[None]:
    """Return a context manager that applies the style of the course and restores matplotlib's settings on exit."""
    return mpl.rc_context(STYLE)


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Return an empty figure with one set of axes; sizes in inches, at most 5 wide so that it fits a phone."""
    figure = Figure(figsize=(width, height))
    return figure, figure.add_subplot()


def new_drawing(
    width: float, height: float, x_limits: tuple[float, float], y_limits: tuple[float, float]
) -> tuple[Figure, Axes]:
    """Return a figure like `new_figure`, for a drawing: the axes fill it, and are hidden."""
    figure, axes = new_figure(width, height)
    axes.set_position((0, 0, 1, 1))
    axes.set(xlim=x_limits, ylim=y_limits)
    axes.axis("off")
    return figure, axes


def escape_label(text: object) -> str:
    """Escape a text that may be anything, such as a token or the name of a run, so that it is drawn literally.

    Matplotlib would read dollar signs as formulas, leave labels that begin with an underscore out of a legend, and fail
    on characters that can't be encoded, which file names may contain.
    """
    encodable = str(text).encode("utf-8", "replace").decode().replace("$", r"\$")
    return f" {encodable}" if encodable.startswith("_") else encodable


def check_figure_path(path: Path) -> None:
    """Check that a figure can be saved to a path, before any time is spent on drawing it.

    Raises:
        UserError: if the extension isn't .png, .svg or .pdf, or the file can't be written.
    """
    if path.suffix not in FORMATS:
        raise UserError(
            f"a figure's file name must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}; got {quote(str(path))}"
        )
    check_writable(path)


def save(figure: Figure, path: Path) -> None:
    """Save a figure, black on white, in the format of the file's extension; an existing file is replaced atomically.

    Raises:
        UserError: as in `check_figure_path`, or if the file cannot be written.
    """
    check_figure_path(path)
    file = io.BytesIO()
    with in_style():
        figure.savefig(file, format=path.suffix[1:], dpi=200, facecolor="white", bbox_inches="tight", pad_inches=0.1)
    write_output(path, file.getvalue())


SIDE_BY_SIDE: Any = [
    {
        "op": "add",
        "path": "/signals/-",
        "value": {
            "name": "columns",
            "init": "windowSize()[0] < 1000 ? 1 : 2",
            "on": [{"events": "window:resize", "update": "windowSize()[0] < 1000 ? 1 : 2"}],
        },
    },
    {"op": "replace", "path": "/layout/columns", "value": {"signal": "columns"}},
    {"op": "add", "path": "/autosize", "value": {"type": "pad", "resize": True}},
]
"""A patch of the Vega code, for what Vega-Lite cannot express: two columns of panels where the window is wide enough.

Without ``resize``, the panels of the ``vconcat`` would not be rearranged when the window is resized.
"""


def chart_style(chart: Any, side_by_side: bool = False) -> Any:
    """Apply the course's style to an Altair chart: transparent background, the page's text colour, rendered as SVG.

    The chart's ``description`` serves as its alt text.

    Args:
        chart: the chart.
        side_by_side: show the two panels of a ``vconcat`` next to each other on a wide screen.

    Raises:
        ValueError: if the chart has no description.
    """
    if not isinstance(getattr(chart, "description", None), str):
        raise ValueError("a chart needs a description: describe what it shows and what the reader can do")
    ink, sizes = "currentColor", {"labelFontSize": 12, "titleFontSize": 12}
    lines = {"tickColor": ink, "domainColor": ink, "gridColor": PLAIN, "gridOpacity": 0.25}
    chart = chart.configure(background="transparent", font="system-ui, sans-serif", padding=2)
    chart = chart.configure_view(stroke=None).configure_text(color=ink)
    chart = chart.configure_axis(labelColor=ink, titleColor=ink, titleFontWeight="normal", **lines, **sizes)
    chart = chart.configure_axisXQuantitative(labelOverlap="parity", labelSeparation=8, labelFlush=False)
    chart = chart.configure_title(color=ink, anchor="start", frame="group", fontSize=13)
    patch = {"patch": SIDE_BY_SIDE} if side_by_side else {}
    chart.usermeta = {"embedOptions": {"renderer": "svg", "actions": False, **patch}}
    return chart
