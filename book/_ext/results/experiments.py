"""The experiments: a figure that compares the settings or runs of each, and a box with their scores and origins."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from book._ext.results.scores import SCORES_BOX, arrow, common_scores, score, signatures
from book._ext.results.spread import Spread
from book._ext.results.tables import ORIGIN, Part, folded, origin, read_results, table
from transformer.plots.strip_plot import strip_plot
from transformer.plots.style import Picture

LOWEST_MEANINGFUL_BLEU = 2.0
"""Where no BLEU is higher, figures compare the validation losses."""
NUMBERS = {"heads": "heads", "smoothing": "label smoothing"}
"""What the settings of an experiment are, if they are just numbers."""


def experiment(root: Path, name: str) -> list[Part]:
    """Return an experiment: its figures, and a folded table of its scores with where they come from."""
    results = read_results(root, name)
    rows = results["rows"]
    finished = [row for row in rows if not row["failed"]]
    tests = [test for row in finished for test in row["test_sets"]]
    labels = list(dict.fromkeys(row["label"] for row in rows))
    if results["log"]:
        parts, scores = compare_runs(rows), run_table(rows)
    elif len(labels) == 1 and tests:
        parts, scores = compare_beam_sizes(tests)
    else:
        parts, scores = compare_settings(labels, rows, NUMBERS.get(name, ""))
    computed = signatures("runs", [(row["label"], test) for row in finished for test in row["test_sets"]])
    runs = table(["run", "seed", *ORIGIN], session_rows(rows), kind="long-end")
    file = f"All results, with the learning curves: {{download}}`{name}.json <results/{name}.json>`."
    return [*parts, folded(SCORES_BOX, scores, computed, "The runs:", runs, file)]


def compare_runs(rows: list[dict[str, Any]]) -> list[Part]:
    """Return a figure for each direction, with a row for all runs that differ only in their seeds."""
    directions: dict[str, dict[str, list[float]]] = {}
    for name, group in seed_groups(rows).items():
        tests = [row["test_sets"][-1] for row in group]
        what = f"{arrow(tests[0])}, beam {tests[0]['beam_size']}"
        directions.setdefault(what, {})[name] = [score(test, "BLEU") for test in tests]
    parts: list[Part] = []
    for what, values in directions.items():
        if len(values) > 1:
            title = f"BLEU on the test set, {what}"
            parts.append(Picture(strip_plot(values, title), f"{title}. {describe(values)}"))
        else:
            (name, bleu), *_ = values.items()
            parts.append(f"BLEU of the run `{name}` on the test set ({what}): **{Spread.of(bleu).text()}**.")
    return parts


def run_table(rows: list[dict[str, Any]]) -> str:
    """Return two tables of an experiment without variants: the scores, with means over seeds; what each run changed."""
    scores, changes = [], []
    for row in rows:
        bleu = [""] * 3 if row["failed"] else [f"{value:.1f}" for value in three_scores(row)]
        scores.append([row["label"], *bleu, f"{row['minutes']:.0f}"])
        changed = "; ".join(map(change, row["differs"])) or "nothing"
        changed += f". **{row['failed']}**" if row["failed"] else ""
        parameters = "" if row["failed"] else f"{row['parameters']:,}"
        changes.append([row["label"], changed, f"{row['step']:,}", parameters])
    for name, group in seed_groups(rows).items():
        if len(group) > 1:
            spreads = [Spread.of(column).text() for column in zip(*map(three_scores, group), strict=True)]
            scores.append([f"{name}, mean of {len(group)} seeds", *spreads, ""])
    names = [""] * 3
    if beam_sizes := beam_sizes_of(rows):
        names = [f"{name}, beam {beam_sizes[i]}" for name, i in (("BLEU", 0), ("BLEU", -1), ("BLEU lc", -1))]
    what_changed = table(["run", "changed settings", "steps", "parameters"], changes)
    return f"{table(['run', *names, 'minutes'], scores)}\n\n{what_changed}"


def change(difference: str) -> str:
    """Shorten the description of a difference from the recipe."""
    if fine_tuned := re.match(r"initial_model: None, now \{'name': '(.+?)'", difference):
        return f"starts from the weights of `{fine_tuned[1]}`"
    return re.sub(r"^\w+\.(.+): (.+), now (.+)$", r"\1 \2 → \3", difference)


def compare_beam_sizes(tests: list[dict[str, Any]]) -> tuple[list[Part], str]:
    """Return a figure and a table of the scores of the same models with each beam size."""
    by_size: dict[int, list[dict[str, Any]]] = {}
    for test in tests:
        by_size.setdefault(test["beam_size"], []).append(test)
    columns = common_scores(tests)
    values = {str(beam_size): [score(test, "BLEU") for test in group] for beam_size, group in by_size.items()}
    rows = []
    for beam_size, group in by_size.items():
        spreads = [Spread.of([score(test, name) for test in group]).text() for name in columns]
        rows.append([beam_size, *spreads, Spread.of([test["seconds"] for test in group]).text(), len(group)])
    figure = strip_plot(values, "BLEU on the test set", setting="beam size")
    return [Picture(figure, f"BLEU by beam size. {describe(values)}")], table(
        ["beam size", *columns, "seconds", "seeds"], rows
    )


def compare_settings(labels: list[str], rows: list[dict[str, Any]], setting: str = "") -> tuple[list[Part], str]:
    """Return a figure and a table of the scores of each setting, with means over its seeds; and what failed."""
    cells, bleu, losses, beam_sizes = [], {}, {}, beam_sizes_of(rows)
    for label in labels:
        group = [row for row in rows if row["label"] == label]
        done = [row for row in group if not row["failed"]]
        columns = [[score(row["test_sets"][i], "BLEU") for row in done] for i in range(len(beam_sizes))]
        columns.append([score(row["test_sets"][-1], "BLEU lc") for row in done])
        line = [label, *(Spread.of(column).text() if column else "" for column in columns)]
        last_losses = [row["curve"][-1]["valid_loss"] for row in done]
        line.append(Spread.of(last_losses).text(3) if done else "")
        failed = len(group) - len(done)
        line += [
            f"{done[0]['parameters']:,}" if done else "",
            f"{len(done)}" + (f", {failed} failed" if failed else ""),
        ]
        cells.append(line)
        if done:
            bleu[label] = [score(row["test_sets"][-1], "BLEU") for row in done]
            losses[label] = last_losses
    last = f"beam {beam_sizes[-1]}" if beam_sizes else "beam"
    header = [
        "setting",
        *(f"BLEU, beam {beam_size}" for beam_size in beam_sizes),
        f"BLEU lc, {last}",
        "validation loss",
    ]
    parts: list[Part] = []
    if bleu and max(map(max, bleu.values())) < LOWEST_MEANINGFUL_BLEU:
        parts.append(
            Picture(strip_plot(losses, "validation loss"), f"Validation loss by setting. {describe(losses, 3)}")
        )
    elif bleu:
        figure = strip_plot(bleu, f"BLEU on the test set, {last}", setting=setting, baseline="baseline")
        parts.append(Picture(figure, f"BLEU by {setting or 'setting'}. {describe(bleu)}"))
    failures = dict.fromkeys(f"{row['label']}: {row['failed']}" for row in rows if row["failed"])
    return [*parts, *(f"- {failure}" for failure in failures)], table([*header, "parameters", "seeds"], cells)


def seed_groups(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the finished runs, those that differ only in their seeds together, under their common name."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if not row["failed"]:
            groups.setdefault((without_seed(row), *settings_of(row)), []).append(row)
    return {without_seed(group[0]) if len(group) > 1 else group[0]["label"]: group for group in groups.values()}


def without_seed(row: Mapping[str, Any]) -> str:
    """Return a run's label without its seed: ``multi30k`` for ``multi30k-2`` and for ``multi30k-seed-2``."""
    return re.sub(rf"(-seed)?-{row['seed']}$", "", row["label"])


def settings_of(row: Mapping[str, Any]) -> list[str]:
    """Return what a run changed, but not its seed."""
    return [setting for setting in row["differs"] if not setting.startswith("training.seed:")]


def three_scores(row: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return a run's BLEU with the narrowest and the widest beam, and the latter in lower case."""
    first, last = row["test_sets"][0], row["test_sets"][-1]
    return score(first, "BLEU"), score(last, "BLEU"), score(last, "BLEU lc")


def beam_sizes_of(rows: list[dict[str, Any]]) -> list[int]:
    """Return the beam sizes with which the runs of an experiment were evaluated."""
    return next(([test["beam_size"] for test in row["test_sets"]] for row in rows if not row["failed"]), [])


def describe(values: Mapping[str, Sequence[float]], digits: int = 1) -> str:
    """Return the text alternative of a strip plot."""
    return "; ".join(f"{label}: {Spread.of(measured).text(digits)}" for label, measured in values.items()) + "."


def session_rows(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Return a row for each time that a run was started or resumed."""
    return [[row["label"], row["seed"], *origin(session)] for row in rows for session in row["sessions"]]
