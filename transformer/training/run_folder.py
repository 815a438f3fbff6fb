"""The run folder: everything that a training run writes, and resumes from."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import filelock

from transformer.checkpoint import read_settings, remove_partial_files
from transformer.config import DROPOUTS, ModelConfig
from transformer.errors import UserError
from transformer.files import InvalidFileError, read_rows, write_atomically
from transformer.provenance import provenance

RECIPE = "recipe.json"
"""All settings of the run."""
METRICS = "metrics.jsonl"
"""One line per validation.

``train_loss`` is what training minimises: the cross-entropy with label smoothing and dropout, averaged since the
previous line. ``valid_loss`` has neither, so it is often lower. Both are in nats per target token.
"""
LOG = "log.jsonl"
"""One line every ``log_every`` steps, with ``train_loss`` as above."""
SESSIONS = "sessions.jsonl"
"""One line each time the run was started or resumed."""

METRICS_KEYS = ("step", "minutes", "target_tokens", "train_loss", "learning_rate", "valid_loss", "valid_bleu")
LOG_KEYS = ("step", "train_loss", "learning_rate", "tokens_per_second", "minutes")
SESSION_KEYS = ("step", "date", "command", "commit", "machine", "device", "threads", "versions")

NOT_COMPARED = {
    "description",
    "text_sha256",
    "initial_model.name",
    "training.log_every",
    "training.checkpoint_each_epoch",
    "training.keep_checkpoints",
}
"""Settings that don't affect what is learned; the description, which only old runs have; the hash of the text, which is
compared separately; and the name of the initial model, which its hash identifies."""
MAY_CHANGE = ("training.gradient_accumulation_steps", "training.activation_checkpointing")
"""A run may be resumed with other values of these settings: they change the memory and time of
a step, not its number of tokens. (With another number of accumulation steps, a step contains different pairs.)"""


@contextmanager
def open_run_folder(run: Path, recipe: dict[str, Any], force: bool = False) -> Iterator[None]:
    """Create a run folder, or open an existing one to resume it, and lock it against other processes meanwhile.

    The lock is released by the system when the process ends, however it ends; its empty file ``.lock`` stays.

    Args:
        run: the folder.
        recipe: the settings, which are compared with those in the folder.
        force: accept settings other than those in the folder.

    Raises:
        UserError: if the folder is not a run folder, is in use, or was started with other settings.
    """
    check_run_folder(run, recipe, force)
    run.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(run / ".lock", blocking=False):
            remove_partial_files(run)
            check_run_folder(run, recipe, force)  # again, because another process may have used it before the lock
            yield
    except filelock.Timeout:
        raise UserError(f"{run} is in use: another process is training in it") from None


def check_run_folder(run: Path, recipe: dict[str, Any], force: bool = False) -> None:
    """Reject a folder in which a run with these settings can be neither started nor resumed.

    Args:
        run, recipe, force: as in `open_run_folder`.

    Raises:
        UserError: if the folder is not a run folder, or was started with other settings.
    """
    if run.exists() and not run.is_dir():
        raise UserError(f"{run} is a file: choose a folder with --run")
    if not (run / RECIPE).exists():
        if run.exists() and any(map(_is_content, run.iterdir())):
            raise UserError(f"{run} is neither a run folder nor empty: choose another folder with --run")
        return
    recipe = json.loads(json.dumps(recipe))  # tuples become lists, as in the file
    try:
        saved = read_settings(run / RECIPE)
    except InvalidFileError as error:
        raise UserError(f"{error}: copy the file into the folder again, or choose another folder with --run") from None
    corpus = saved.get("data", {}).get("corpus")
    text_changed = saved.get("text_sha256") not in (None, recipe.get("text_sha256"))
    if saved.get("text_sha256") and not text_changed and "data" in recipe:
        recipe["data"]["corpus"] = corpus  # the same text, perhaps in another folder
    if text_changed and corpus == recipe.get("data", {}).get("corpus") and not force:
        raise UserError(
            f"{run} was started with another text: {corpus} has changed since. "
            "Choose another folder with --run, or add --force, which works if the new text leads to the same vocabulary"
        )
    changes = [change for change in differences(saved, recipe) if change.partition(":")[0] not in MAY_CHANGE]
    if changes and not force:
        more = f"; and {len(changes) - 5} more" if len(changes) > 5 else ""
        names = [change.partition(":")[0] for change in changes]
        rows = read_metrics(run)
        taken = rows[-1]["step"] if rows else 0
        if taken > recipe.get("training", {}).get("steps", taken):
            hint = f", because this run has already taken {taken} steps"
        elif any(map(_is_fixed, names)):
            hint = ", because the checkpoints in this one don't fit the new settings"
        elif any(name.startswith("data") for name in names):
            hint = ", or add --force, which works if the new data leads to the same vocabulary"
        else:
            hint = ", or add --force to resume this run with the new settings"
        raise UserError(
            f"{run} was started with other settings ({'; '.join(changes[:5])}{more}): "
            f"choose another folder with --run{hint}"
        )


def _is_fixed(name: str) -> bool:
    """Return whether a run can't be resumed with another value of this setting, even with ``--force``."""
    section, _, setting = name.partition(".")
    return name == "training.optimizer" or section == "model" and setting not in (*DROPOUTS, "attention")


def write_recipe(run: Path, recipe: dict[str, Any]) -> None:
    """Write the settings of a run to its folder."""
    write_atomically(run / RECIPE, json.dumps(recipe, indent=2).encode())


def differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Yield the differences between two sets of settings, such as "training.steps: 100, now 200"."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            yield from differences(before.get(key), now.get(key), f"{name}.{key}" if name else key)
    elif before != now and name not in NOT_COMPARED:
        yield f"{name}: {before}, now {now}"


def check_architecture(saved: ModelConfig, current: ModelConfig, whose: str) -> None:
    """Check that saved weights compute the same in a model with the current settings.

    Raises:
        UserError: if not; the message lists the settings that differ.
    """
    before, now = asdict(saved), asdict(current)
    changes = list(differences(before, now | {key: before[key] for key in (*DROPOUTS, "attention")}, "model"))
    if changes:
        raise UserError(f"{whose} has another architecture: {'; '.join(changes)}")


def read_metrics(run: Path) -> list[dict[str, float]]:
    """Return the validation metrics of a run, one dictionary per validation."""
    return read_rows(run / METRICS, METRICS_KEYS)


def read_log(run: Path) -> list[dict[str, float]]:
    """Return the training log of a run, one dictionary every ``log_every`` steps."""
    return read_rows(run / LOG, LOG_KEYS)


def append_metrics(run: Path, row: dict[str, float]) -> None:
    """Add the metrics of one validation."""
    _append_row(run / METRICS, row)


def append_log(run: Path, row: dict[str, float]) -> None:
    """Add a row to the training log."""
    _append_row(run / LOG, row)


def truncate_metrics(run: Path, last_step: int) -> None:
    """Delete metrics and log rows after the step from which the run resumes."""
    for path in (run / METRICS, run / LOG):
        _write_rows(path, [row for row in read_rows(path, ["step"]) if row["step"] <= last_step])


def read_sessions(run: Path) -> list[dict[str, Any]]:
    """Return the sessions of a run: the step at which each started, and when, how and where it ran."""
    return read_rows(run / SESSIONS, SESSION_KEYS, dict[str, int | str | None])


def append_session(run: Path, step: int, device: object) -> None:
    """Record that the run is started or resumed after ``step`` steps, with its `provenance`."""
    _write_rows(run / SESSIONS, [*read_sessions(run), {"step": step, **provenance(device)}])


def _is_content(path: Path) -> bool:
    """Return whether a file makes a folder non-empty: not the files that a run writes before its recipe."""
    return path.name != ".lock" and not path.name.startswith(f".{RECIPE}-")


def _write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def _append_row(path: Path, row: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
