"""The directive ``{results}``: tables and pictures for the page of results, made from result files and nothing else.

What they show is measured elsewhere: ``python -m book.experiments`` and ``transformer bench --output`` leave files in
``book/results``, and models that ship bring theirs along. Where there is no file, the page says so.
"""

import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from tabulate import tabulate

from transformer.bench import recipe as recipe_bench
from transformer.bench import report
from transformer.bench.contests import Contest
from transformer.bench.race import Row
from transformer.plots.curves import curves
from transformer.plots.strip_plot import strip_plot
from transformer.plots.style import LINE_STYLES, Picture
from transformer.plots.style import Row as Pictures

ROOT = Path(__file__).parents[2]
MISSING = "*Not measured yet.*"
SHOWN = ("BLEU", "BLEU lc", "BLEU paper", "chrF2", "METEOR")
"""The scores of a table's columns, those of them that were made; all have their signatures below."""

Part = str | Picture | Pictures
"""What a section is made of: Markdown, and pictures."""


@dataclass(frozen=True)
class Spread:
    """A measure over several seeds."""

    mean: float
    deviation: float | None
    """The sample's standard deviation; None for one value, which has none."""
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of one value or more.

        Raises:
            ValueError: if there is no value.
        """
        if not values:
            raise ValueError("no value has no mean")
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def text(self, digits: int = 1) -> str:
        """Mean ± deviation, as people write it."""
        return f"{self.mean:.{digits}f}" + (
            "" if self.deviation is None else f"\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{self.deviation:.{digits}f}"
        )


def section(name: str, root: Path = ROOT) -> list[Part]:
    """What the page shows under a name: ``quality``, ``speed``, ``published``, or an experiment's.

    Args:
        root: the repository, whose result files are shown.
    """
    made = {"quality": quality, "speed": speed, "published": published}.get(name, partial(experiment, name=name))
    return made(root)


def quality(root: Path) -> list[Part]:
    """The models that ship: their scores, how they were trained, and where the scores come from."""
    models = shipped(root)
    if not models:
        return [MISSING]
    tested = [one for _, found in models.values() for one in found["test_sets"]]
    shown, rows, sources, training = names(tested), [], [], []
    for name, (folder, found) in models.items():
        for one in found["test_sets"]:
            where = [one["direction"], f"`{one['corpus']}` {one['split']}", one["sentences"], one["beam"]]
            rows.append([f"`{name}`", *where, *(f"{score(one, column):.1f}" for column in shown)])
        sources.append([f"`{name}`", *origin(found["provenance"])])
        metrics = lines(folder / "metrics.jsonl")
        last = [f"{metrics[-1]['step']:,}", f"{metrics[-1]['minutes']:.0f}"] if metrics else ["", ""]
        training += [[f"`{name}`", *last, *origin(session)] for session in lines(folder / "sessions.jsonl")]
    header = ["model", "direction", "test set", "sentences", "beam", *shown]
    parts: list[Part] = [table(header, rows), signatures(tested)]
    parts += [folded("Where these scores come from", table(["model", *ORIGIN], sources, long=True))]
    if training:
        parts += [
            folded("How these models were trained", table(["model", "steps", "minutes", *ORIGIN], training, long=True))
        ]
    return parts


def experiment(root: Path, name: str) -> list[Part]:
    """An experiment: a row a setting or beam, a picture, and a folded table of its runs."""
    path = root / "book" / "results" / f"{name}.json"
    if not path.exists():
        return [MISSING]
    found = read(path)
    rows = found["rows"]
    scored = [row for row in rows if not row["failed"]]
    tested = [one for row in scored for one in row["test_sets"]]
    labels = list(dict.fromkeys(row["label"] for row in rows))
    if found["log"]:
        parts: list[Part] = [log(rows)]
    elif len(labels) == 1:
        parts = search(tested)
    else:
        parts = variants(labels, rows)
    tables = signatures(tested) + folded("The runs one by one", table(["run", "seed", *ORIGIN], runs(rows), long=True))
    return [*parts, f"{tables}\nAll of it, with the curves: {{download}}`{path.name} <results/{path.name}>`."]


def log(rows: list[dict[str, Any]]) -> str:
    """Runs that were made one after another: what each changed, what came of it, and the means over seeds."""
    cells = []
    seeds: dict[tuple[str, ...], list[tuple[str, tuple[float, float, float]]]] = {}
    for row in rows:
        made = [f"{row['step']:,}", f"{row['minutes']:.0f}"]
        changes = "; ".join(map(change, row["differs"])) or "nothing"
        if row["failed"]:
            cells.append([row["label"], "", "", "", "", *made, f"{changes}. **{row['failed']}**"])
        else:
            first, last = row["test_sets"][0], row["test_sets"][-1]
            found = score(first, "BLEU"), score(last, "BLEU"), score(last, "BLEU lc")
            cells.append([row["label"], *(f"{one:.1f}" for one in found), f"{row['parameters']:,}", *made, changes])
            settings = tuple(one for one in row["differs"] if not one.startswith("training.seed:"))
            seeds.setdefault(settings, []).append((row["label"], found))
    for settings, group in seeds.items():
        if len(group) > 1:
            labels, scores_found = zip(*group, strict=True)
            spreads = [Spread.of(column).text() for column in zip(*scores_found, strict=True)]
            changes = "; ".join(map(change, settings)) or "nothing but the seed"
            cells.append([f"{labels[0]}, mean of {len(group)} seeds", *spreads, "", "", "", changes])
    beams = beams_of(rows)
    scores = [f"BLEU, beam {beams[0]}", f"BLEU, beam {beams[-1]}", f"BLEU lc, beam {beams[-1]}"] if beams else [""] * 3
    return table(["run", *scores, "parameters", "steps", "minutes", "what it changes"], cells, long=True)


def change(difference: str) -> str:
    """A difference from the recipe, in fewer words."""
    return re.sub(r"^\w+\.(.+): (.+), now (.+)$", r"\1 \2 → \3", difference)


def search(tested: list[dict[str, Any]]) -> list[Part]:
    """The same models with several beams."""
    beams: dict[int, list[dict[str, Any]]] = {}
    for one in tested:
        beams.setdefault(one["beam"], []).append(one)
    if not beams:
        return [MISSING]
    shown, values = names(tested), {str(beam): [score(one, "BLEU") for one in ones] for beam, ones in beams.items()}
    rows = []
    for beam, ones in beams.items():
        found = [Spread.of([score(one, name) for one in ones]).text() for name in shown]
        rows.append([beam, *found, Spread.of([one["seconds"] for one in ones]).text(), len(ones)])
    return [
        table(["beam", *shown, "seconds", "seeds"], rows),
        Picture(strip_plot(values, "BLEU of the test set, by beam"), f"BLEU by beam. {told(values)}"),
    ]


def variants(labels: list[str], rows: list[dict[str, Any]]) -> list[Part]:
    """Settings side by side, over their seeds."""
    cells, values, beams = [], {}, beams_of(rows)
    for label in labels:
        mine = [row for row in rows if row["label"] == label]
        done = [row for row in mine if not row["failed"]]
        columns = [[score(row["test_sets"][i], "BLEU") for row in done] for i in range(len(beams))]
        columns.append([score(row["test_sets"][-1], "BLEU lc") for row in done])
        line = [label, *(Spread.of(column).text() if column else "" for column in columns)]
        line.append(Spread.of([row["curve"][-1]["valid_loss"] for row in done]).text(3) if done else "")
        failed = len(mine) - len(done)
        line += [
            f"{done[0]['parameters']:,}" if done else "",
            f"{len(done)}" + (f", {failed} failed" if failed else ""),
        ]
        cells.append(line)
        if done:
            values[label] = [score(row["test_sets"][-1], "BLEU") for row in done]
    last = f"beam {beams[-1]}" if beams else "beam"
    header = ["setting", *(f"BLEU, beam {beam}" for beam in beams), f"BLEU lc, {last}", "validation loss"]
    parts: list[Part] = [table([*header, "parameters", "seeds"], cells)]
    if values:
        parts.append(Picture(strip_plot(values, f"BLEU of the test set, {last}"), f"BLEU by setting. {told(values)}"))
    failures = dict.fromkeys(f"{row['label']}: {row['failed']}" for row in rows if row["failed"])
    return [*parts, *(f"- {failure}" for failure in failures)]


def learning_curves(rows: list[dict[str, Any]]) -> Pictures:
    """Validation loss over the steps, the mean over the seeds: a picture for what stands before the labels' comma.

    A line goes as far as all of its runs do.
    """
    groups: dict[str, dict[str, list[list[dict[str, float]]]]] = {}
    for row in rows:
        finite = [point for point in row["curve"] if point["valid_loss"] is not None]
        if finite:
            group, _, line = row["label"].partition(", ")
            groups.setdefault(group, {}).setdefault(line or group, []).append(finite)
    pictures = []
    for group, found in groups.items():
        found = dict(list(found.items())[: len(LINE_STYLES)])
        steps = [point["step"] for point in max((c for several in found.values() for c in several), key=len)]
        means, ends = {}, []
        for line, several in found.items():
            values = [statistics.fmean(one["valid_loss"] for one in points) for points in zip(*several, strict=False)]
            ends.append(f"{line} ends at {values[-1]:.2f}")
            means[line] = values + [math.nan] * (len(steps) - len(values))
        alt = "; ".join(ends)
        figure = curves(steps, means, "step", f"{group}: validation loss")
        pictures.append(Picture(figure, f"Validation loss over the steps, {group}. {alt}."))
    return Pictures(*pictures)


def speed(root: Path) -> list[Part]:
    """What ``transformer bench --output`` left: contests, and how fast recipes train."""
    parts: list[Part] = []
    for path in sorted((root / "book" / "results").glob("bench-*.json")):
        found = read(path)
        how = found.get("rounds") or found.get("steps")
        parts.append(f"**{found['machine']}; {found['device']}; threads: {found['threads']}.** Measured: {how}.")
        for one in found.get("contests", []):
            rows = [Row(**row) for row in one["contenders"]]
            memory = any(row.peak_memory for row in rows)
            contest = cast(Contest, SimpleNamespace(name=one["name"], memory=memory, unit=one["unit"]))
            parts.append(f"{one['name']}: {one['title']}\n\n{report.table(contest, rows)}")
        for one in found.get("recipes", []):
            measured = {key: value for key, value in one.items() if key != "figures"}
            rounds = [recipe_bench.Round(**row) for row in one["rounds"]]
            shown = recipe_bench.table(recipe_bench.Measured(**measured | {"rounds": rounds}))
            parts.append(f"`{one['recipe']}`, {one['parameters']:,} parameters\n\n{shown}")
        parts.append(folded("Where these numbers come from", table(ORIGIN, [origin(found)], long=True)))
    return parts or [MISSING]


def published(root: Path) -> list[Part]:
    """What others have written about their systems, beside the models that ship where the test set is the same."""
    path = root / "book" / "results" / "published.json"
    if not path.exists():
        return [MISSING]
    models, rows = shipped(root), []
    for one in read(path)["systems"]:
        source = ", ".join(str(one[key]) for key in ("author", "year", "venue") if one[key])
        value = str(one["score"]) if one["to"] is None else f"{one['score']} to {one['to']}"
        ours, beside = [], one["compare"]
        for name, (_, found) in models.items() if beside else ():
            for test in found["test_sets"]:
                if all(test[key] == beside[key] for key in ("corpus", "split", "direction")):
                    ours.append(
                        f"{score(test, beside['score']):.1f} (`{name}`, {beside['score']}, beam {test['beam']})"
                    )
        cited = f"{source} {{cite}}`{one['key']}`" if one["key"] else source
        mine = "; ".join(ours) or ("not measured yet" if beside else "")
        rows.append([one["system"], one["test_set"], value, one["measure"], mine, cited])
    return [table(["system", "test set", "score", "measure", "ours", "source"], rows, long=True)]


ORIGIN = ("date", "commit", "hardware", "versions", "command")


def origin(facts: Mapping[str, Any]) -> list[str]:
    """A `provenance` in the columns of `ORIGIN`."""
    hardware = f"{facts['machine']}; {facts['device']}; threads: {facts['threads']}"
    command = f"`{facts['command']}`" if facts.get("command") else ""
    return [facts["date"], f"`{facts['commit']}`", hardware, facts["versions"], command]


def runs(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """A line for each time that a run was begun or gone on with."""
    return [[row["label"], row["seed"], *origin(session)] for row in rows for session in row["sessions"]]


def signatures(tested: Iterable[dict[str, Any]]) -> str:
    """How the scores of test sets were computed, folded; each signature once."""
    found = dict.fromkeys((one["name"], one["signature"]) for test in tested for one in test["scores"])
    return folded(
        "How the scores are computed", table(["score", "signature"], [[n, f"`{s}`"] for n, s in found], long=True)
    )


def score(test: Mapping[str, Any], name: str) -> float:
    """One of a test set's scores."""
    return float(next(one["value"] for one in test["scores"] if one["name"] == name))


def names(tested: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of the scores to show that all test sets have."""
    return [name for name in SHOWN if all(name in (one["name"] for one in test["scores"]) for test in tested)]


def beams_of(rows: list[dict[str, Any]]) -> list[int]:
    """The beams that an experiment's runs were scored with, in their order."""
    return next(([one["beam"] for one in row["test_sets"]] for row in rows if not row["failed"]), [])


def told(values: Mapping[str, Sequence[float]]) -> str:
    """What a picture of dots shows, for whoever cannot see it."""
    return "; ".join(f"{label}: {Spread.of(measured).text()}" for label, measured in values.items()) + "."


def shipped(root: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """The models that ship and have been scored: name → folder and scores."""
    files = sorted((root / "transformer" / "models").glob("*/scores.json"))
    return {path.parent.name: (path.parent, read(path)) for path in files}


def table(header: Sequence[str], rows: Iterable[Sequence[object]], long: bool = False) -> str:
    """A Markdown table; numbers stand as they are given.

    Args:
        long: the last column holds text that needs some width.
    """
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    text = tabulate(cells, header, tablefmt="github", disable_numparse=True)
    return f":::{{table}}\n:class: long-end\n\n{text}\n:::\n" if long else f"{text}\n"


def folded(title: str, text: str) -> str:
    """Markdown that shows when its title is touched."""
    return f"\n::::{{dropdown}} {title}\n{text}\n::::\n"


def read(path: Path) -> Any:
    """A JSON file's content."""
    return json.loads(path.read_text("utf-8"))


def lines(path: Path) -> list[Any]:
    """The content of a file with a JSON value a line; nothing if there is no file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


class ResultsDirective(SphinxDirective):
    """``{results} NAME``: a section of results; with ``:curves:`` its learning curves instead."""

    required_arguments = 1
    option_spec: ClassVar = {"curves": lambda _: True}

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx where the directive stands."""
        self.env.note_reread()  # result files may have changed, or be new
        name = self.arguments[0]
        parts = section(name)
        if "curves" in self.options:
            path = ROOT / "book" / "results" / f"{name}.json"
            parts = [learning_curves(read(path)["rows"])] if path.exists() else []
        found: list[nodes.Node] = []
        for part in parts:
            if isinstance(part, str):
                box = nodes.Element()
                self.state.nested_parse(StringList(part.splitlines(), self.env.docname), self.content_offset, box)
                found += box.children
            else:
                found.append(nodes.raw("", f'<div style="margin: 1rem 0">{part._repr_html_()}</div>', format="html"))
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("results", ResultsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
