"""The directive ``{results}``: tables and figures for the pages with results, generated from result files only.

The modules ``experiments``, ``language_filter``, ``live_models``, ``everyday``, ``decoding_trials``, ``quantization``
and ``gpu_run`` of ``book`` and ``transformer bench --output`` write these files to ``book/results``, and pretrained
models have their own. Where a file is missing, the page shows "Not measured yet".

This module has the directive and the names of the sections; the others make the sections, and ``tables``, ``scores``
and ``spread`` have what these share.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from book._ext.results import (
    everyday,
    experiments,
    gpu,
    highlights,
    language_filter,
    live_models,
    models,
    speed,
    speedrun,
)
from book._ext.results.curves import learning_curves, same_loss
from book._ext.results.tables import MISSING, NotMeasuredError, Part, read_results

ROOT = Path(__file__).parents[3]
PLOTS: dict[str, Callable[[Any], Part]] = {"curves": learning_curves, "same-loss": same_loss}
"""What can be shown of an experiment's runs in place of their scores."""


def section(name: str, root: Path = ROOT, plot: str = "") -> list[Part]:
    """Return a section of the pages with results, by one of the names below or that of an experiment.

    Args:
        root: the repository whose result files are shown.
        plot: one of `PLOTS`, to show that of an experiment instead.
    """
    sections: dict[str, Callable[[Path], list[Part]]] = {
        "highlights": highlights.highlights,
        "summary": models.summary,
        "quality": models.quality,
        "speed": speed.speed,
        "decoding-trials": speed.decoding_trials,
        "int8": speed.int8,
        "gpu-training": partial(gpu.gpu, what="training"),
        "gpu-ladder": partial(gpu.gpu, what="ladder"),
        "gpu-attention": partial(gpu.gpu, what="attention"),
        "gpu-decoding": partial(gpu.gpu, what="decoding"),
        "gpu-real-text": partial(gpu.gpu, what="real-text"),
        "published": models.published,
        "language-filter": language_filter.language_filter,
        "live": live_models.live_models,
        "everyday-sentences": everyday.everyday_sentences,
        "speedrun-records": speedrun.speedrun_records,
    }
    make = sections.get(name, partial(experiments.experiment, name=name))
    try:
        return [PLOTS[plot](read_results(root, name)["rows"])] if plot else make(root) or [MISSING]
    except NotMeasuredError:
        return [MISSING]


class ResultsDirective(SphinxDirective):
    """``{results} NAME``: a section of the results page.

    With ``:curves:`` it shows an experiment's learning curves instead; with ``:same-loss:``, how soon its settings
    reach the same validation loss.
    """

    required_arguments = 1
    option_spec: ClassVar = dict.fromkeys(PLOTS, directives.flag)

    def run(self) -> list[nodes.Node]:
        """Return the nodes in place of the directive."""
        self.env.note_reread()  # result files may have been added or changed
        parts = section(self.arguments[0], plot=next(iter(self.options), ""))
        result: list[nodes.Node] = []
        for part in parts:
            if isinstance(part, str):
                container = nodes.Element()
                self.state.nested_parse(StringList(part.splitlines(), self.env.docname), self.content_offset, container)
                result += container.children
            else:
                result.append(
                    nodes.raw(
                        "", f'<div style="margin: 1rem 0; text-align: center">{part._repr_html_()}</div>', format="html"
                    )
                )
        return result


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive with Sphinx."""
    app.add_directive("results", ResultsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
