"""Remember what the grader found, so that `status`, `next` and the other commands count it.

Each notebook has a file of its own in the user's data folder. The notebook itself isn't changed: it may be open in an
editor, or belong to somebody else.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

from exercises.notebooks import Cell
from transformer.errors import UserError
from transformer.files import convert, parse_json, read_text, write_atomically


@dataclass(frozen=True)
class State:
    """What a notebook contains for one exercise, as hashes."""

    answer: str
    """The source of the answer."""
    check: str
    """What its check last showed."""


@dataclass(frozen=True)
class Verdict:
    """What the grader found out about an answer. It holds until the answer is changed or its check is run again."""

    state: State
    """The state of the exercise when it was graded."""
    message: str | None
    """None if the answer is right, else the message for the learner."""

    def holds(self, answer: Cell, check: Cell | None) -> bool:
        """Return whether this is the latest result for the answer that is now in the notebook."""
        now = state_of(answer, check)
        return now.answer == self.state.answer and (now.check == self.state.check or not _shown(check)[0])


def state_of(answer: Cell, check: Cell | None) -> State:
    """Return the state of an exercise, whose check may be missing."""
    return State(_hash(answer["source"].strip()), _hash(json.dumps(_shown(check), sort_keys=True)))


def read_record(path: Path) -> dict[str, Verdict]:
    """Return exercise → verdict for a notebook; none if it hasn't been graded, or its record is damaged."""
    file = record_file(path)
    try:
        verdicts: dict[str, Verdict]
        verdicts = convert(parse_json(read_text(file), str(file)), dict[str, Verdict], str(file))
    except UserError:
        return {}
    return verdicts


def write_record(path: Path, verdicts: Mapping[str, Verdict]) -> None:
    """Remember new verdicts on the answers in a notebook, and keep those on its other answers.

    Raises:
        OSError: if they can't be written.
    """
    file = record_file(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    values = {name: asdict(verdict) for name, verdict in {**read_record(path), **verdicts}.items()}
    write_atomically(file, (json.dumps(values, indent=1) + "\n").encode())


def delete_record(path: Path) -> None:
    """Forget what was found out about a notebook."""
    record_file(path).unlink(missing_ok=True)


def record_file(path: Path) -> Path:
    """Return the path of the file with the verdicts on a notebook."""
    return platformdirs.user_data_path("transformer-course") / "graded" / f"{_hash(str(path.resolve()))}.json"


def _shown(check: Cell | None) -> list[object]:
    """Return the outputs of a check and the number of its run."""
    return [check.get("outputs") or [], check.get("execution_count")] if check else [[], None]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
