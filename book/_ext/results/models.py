"""The pretrained models: their scores, how they were trained, and published scores of other systems."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from book._ext.results.scores import SCORES_BOX, arrow, common_scores, score, signatures
from book._ext.results.tables import ORIGIN, Part, folded, origin, read, read_results, table
from transformer.files import read_rows
from transformer.plots import style
from transformer.plots.style import Picture

SYNTHETIC = "synthetic sentences"
TEST_SETS = {
    ("everyday", "test_tatoeba"): "short sentences",
    ("everyday", "test_multi30k"): "captions",
    ("multi30k", "test"): "captions",
    ("pocket-200k", "test"): SYNTHETIC,
}
"""What the test sets of the pretrained models consist of; the bars of synthetic ones are grey."""


def summary(root: Path) -> list[Part]:
    """Return a figure with the BLEU of each pretrained model on each of its test sets, with the widest beam.

    Bars that can be compared are next to each other.
    """
    groups: dict[str, dict[str, float]] = {}
    for name, (_, results) in pretrained_models(root).items():
        for test in results["test_sets"]:  # from the narrowest to the widest beam
            kind = TEST_SETS.get((test["corpus"], test["split"]), test["split"])
            groups.setdefault(f"{kind}, {arrow(test)}", {})[name] = score(test, "BLEU")
    if not groups:
        return []
    values = {f"{test_set}: {name}": bleu for test_set, models in groups.items() for name, bleu in models.items()}
    described = "; ".join(f"{label}, {value:.1f}" for label, value in values.items())
    return [Picture(bars(values), f"BLEU of the pretrained models. {described}.")]


def bars(values: Mapping[str, float]) -> Figure:
    """Draw a horizontal bar for each value, with its label above it and the value at its end; grey if synthetic."""
    with style.in_style():
        figure, axes = style.new_figure(4.4, 0.6 + 0.5 * len(values))  # narrow enough for a phone
        colours = [style.PLAIN if SYNTHETIC in label else style.QUERY for label in values]
        drawn = axes.barh(range(len(values)), list(values.values()), height=0.4, color=colours)
        axes.bar_label(drawn, fmt="%.1f", padding=4)
        for y, label in enumerate(values):
            axes.text(0, y - 0.27, label, va="bottom")
        axes.set_ylim(len(values) - 0.6, -0.8)  # the first is at the top
        axes.spines[:].set_visible(False)
        axes.tick_params(left=False, labelleft=False, bottom=False, labelbottom=False)
        axes.set_title("BLEU with beam search", loc="left")
    return figure


def quality(root: Path) -> list[Part]:
    """Return the scores of the pretrained models, their provenance, and how the models were trained."""
    models = pretrained_models(root)
    if not models:
        return []
    tests = [test for _, results in models.values() for test in results["test_sets"]]
    columns, rows, sources, training = common_scores(tests), [], [], []
    for name, (folder, results) in models.items():
        for test in results["test_sets"]:
            test_set = f"`{test['corpus']}` {test['split']}, {test['sentences']:,} sentences, {test['direction']}"
            values = [f"{score(test, column):.1f}" for column in columns]
            rows.append([f"`{name}`", test_set, test["beam_size"], *values])
        sources.append([f"`{name}`", *origin(results["provenance"])])
        training += [[f"`{name}`", *cells] for cells in session_cells(folder)]
    header = ["model", "test set", "beam size", *columns]
    computed = signatures(
        "models", [(f"`{name}`", t) for name, (_, found) in models.items() for t in found["test_sets"]]
    )
    origins = table(["model", *ORIGIN], sources, kind="long-end")
    parts: list[Part] = [folded(SCORES_BOX, table(header, rows), computed, "Evaluation:", origins)]
    if training:
        header = ["model", "steps", "total minutes", *ORIGIN]
        parts += [folded("How they were trained", table(header, training, kind="long-end"))]
    return parts


def session_cells(run: Path) -> Iterator[list[str]]:
    """Yield the cells of each session of a run: its steps, the minutes of all sessions (once), and its origin."""
    sessions, metrics = (read_rows(run / f"{name}.jsonl", row_type=dict[str, Any]) for name in ("sessions", "metrics"))
    ends = [*(session["step"] for session in sessions[1:]), metrics[-1]["step"] if metrics else None]
    for number, (session, end) in enumerate(zip(sessions, ends, strict=True)):
        steps = f"{session['step']:,} to {end:,}" if end is not None else f"from {session['step']:,}"
        minutes = f"{metrics[-1]['minutes']:.0f}" if metrics and number == 0 else ""
        yield [steps, minutes, *origin(session)]


def published(root: Path) -> list[Part]:
    """Return published scores of other systems, next to those of pretrained models on the same test set."""
    systems = read_results(root, "published")["systems"]
    models, rows = pretrained_models(root), []
    for system in systems:
        source = ", ".join(str(system[key]) for key in ("author", "year", "venue") if system[key])
        value = str(system["score"]) if system["to"] is None else f"{system['score']} to {system['to']}"
        ours, compare = [], system["compare"]
        for name, (_, results) in models.items() if compare else ():
            for test in results["test_sets"]:
                if all(test[key] == compare[key] for key in ("corpus", "split", "direction")):
                    bleu = f"{score(test, compare['score']):.1f}"
                    ours.append(f"{bleu} (`{name}`, {compare['score']}, beam {test['beam_size']})")
        cited = f"{source} {{cite}}`{system['key']}`" if system["key"] else source
        measured = "; ".join(ours) or "not measured yet"
        rows.append([system["system"], system["test_set"], value, system["measure"], measured, cited])
    return [folded("All systems", table(["system", "test set", "score", "measure", "ours", "source"], rows))]


def pretrained_models(root: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return the pretrained models that have been evaluated: name → folder and scores."""
    files = sorted((root / "transformer" / "models").glob("*/scores.json"))
    return {path.parent.name: (path.parent, read(path)) for path in files}
