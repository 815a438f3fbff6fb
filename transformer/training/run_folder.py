"""A run's folder: what a training leaves behind, and goes on from."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock

from transformer.checkpoint import read_settings, remove_partial_files, write_atomically
from transformer.errors import UserError
from transformer.provenance import provenance

RECIPE, METRICS, SESSIONS = "recipe.json", "metrics.jsonl", "sessions.jsonl"
HARMLESS = "training.gradient_accumulation_steps:"
"""A run may go on with another number of batches a step: what it learns stays the same."""


@contextmanager
def open_run_folder(run: Path, recipe: dict[str, Any], force: bool = False) -> Iterator[None]:
    """Make a run folder, or go on with one; meanwhile no other process may train in it.

    Args:
        recipe: the settings, to hold against those written down.
        force: go on although the settings are others than those written down.

    Raises:
        UserError: if the folder holds something else, is in use, or its settings are others.
    """
    recipe = json.loads(json.dumps(recipe))  # as they will be read
    if run.exists() and (not run.is_dir() or any(map(_counts, run.iterdir())) and not (run / RECIPE).exists()):
        raise UserError(f"{run} is not a run folder, and not empty: name another with --run")
    run.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(run / ".lock", blocking=False):
            remove_partial_files(run)
            if (run / RECIPE).exists() and not force:
                changes = list(differences(read_settings(run / RECIPE), recipe))
                changes = [change for change in changes if not change.startswith(HARMLESS)]
                if changes:
                    raise UserError(
                        f"{run} was begun with other settings ({'; '.join(changes[:5])}): "
                        "name another folder with --run, or go on with the new ones by --force"
                    )
            yield
    except filelock.Timeout:
        raise UserError(f"{run} is in use: another process trains in it") from None


def write_recipe(run: Path, recipe: dict[str, Any]) -> None:
    """Write down the settings of a run."""
    write_atomically(run / RECIPE, json.dumps(recipe, indent=2).encode())


def differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Where two settings differ, as "training.steps: 100, now 200"."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            yield from differences(before.get(key), now.get(key), f"{name}.{key}" if name else key)
    elif before != now and name != "description":
        yield f"{name}: {before}, now {now}"


def read_metrics(run: Path) -> list[dict[str, float]]:
    """The validations of a run, one dictionary each."""
    return _read(run / METRICS)


def truncate_metrics(run: Path, last_step: int) -> None:
    """Forget the validations after a step: the run goes on from there."""
    _write(run / METRICS, [row for row in read_metrics(run) if row["step"] <= last_step])


def append_metrics(run: Path, row: dict[str, float]) -> None:
    """Write down one more validation."""
    with (run / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read_sessions(run: Path) -> list[dict[str, Any]]:
    """After which step, when, how and on what the run was begun, and each time it was gone on with."""
    return _read(run / SESSIONS)


def append_session(run: Path, step: int, device: object) -> None:
    """Write down that the run is taken up after a step, and the `provenance` of what follows."""
    _write(run / SESSIONS, [*read_sessions(run), {"step": step, **provenance(device)}])


def _counts(path: Path) -> bool:
    """Whether a file makes a folder one that is not empty; what a run leaves before its first file does not."""
    return path.name != ".lock" and not path.name.startswith(f".{RECIPE}-")


def _read(path: Path) -> list[dict[str, Any]]:
    """A JSON object a line; a line that was cut off by a crash is left out."""
    rows = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
