"""A stand-in for a learner, who fills in blanks, runs checks and saves the notebook."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from exercises.notebooks import ROOT, answer_key, check_key, notebook_text, read_notebook

RIGHT = {
    "padding_mask": "def padding_mask(ids, pad_id):\n    return (ids != pad_id)[:, None, None]",
    "causal_mask": "def causal_mask(n):\n    return torch.ones(1, 1, n, n, dtype=torch.bool).tril()",
}
NOTHING_HIDDEN = "def causal_mask(n):\n    return torch.ones(1, 1, n, n, dtype=torch.bool)"


def copy_of_course(folder: Path, *stems: str) -> Path:
    """Copy the sources and exercises of these notebooks into a folder, and return it."""
    for place, suffix in (("solutions", "py"), ("solutions", "ipynb"), ("exercises", "ipynb")):
        (folder / place).mkdir(parents=True, exist_ok=True)
        for stem in stems:
            shutil.copy(ROOT / place / f"{stem}.{suffix}", folder / place)
    return folder


def fill(path: Path, answers: Mapping[str, str]) -> None:
    """Fill in blanks of a notebook, without running a check."""
    notebook = read_notebook(path)
    for cell in notebook["cells"]:
        if (key := answer_key(cell)) in answers:
            cell["source"] = f"# answer: {key}\n{answers[str(key)]}"
    path.write_text(notebook_text(notebook), "utf-8")


def run_checks(path: Path, messages: Mapping[str, str | None]) -> None:
    """Save what the checks of these blanks printed: None for ✓, else the message. Fill those that are open."""
    notebook = read_notebook(path)
    fill(path, {key: "pass" for cell in notebook["cells"] if (key := answer_key(cell)) in messages})
    notebook = read_notebook(path)
    for cell in notebook["cells"]:
        if (key := check_key(cell)) in messages:
            message = messages[str(key)]
            value = f"✗ {key}: {message}"
            error = {"output_type": "error", "ename": "WrongAnswerError", "evalue": value, "traceback": [value]}
            right = {"output_type": "stream", "name": "stdout", "text": [f"✓ {key}\n"]}
            cell["outputs"] = [right if message is None else error]
    path.write_text(notebook_text(notebook), "utf-8")
