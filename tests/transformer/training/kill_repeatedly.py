"""Train, be killed and resume; run by test_resume in its own process, which forks so that nothing is imported twice.

``python kill_repeatedly.py FOLDER KILLS`` prints what both runs have written, as JSON.
"""

import json
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from transformer.checkpoint import read_json, step_checkpoints
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.prepare import DataConfig, prepare
from transformer.device import choose_device
from transformer.training.loop import train
from transformer.training.run_folder import read_log, read_metrics

SHAPE = ModelConfig(57, 32, 4, 64, 1, dropout=0.1, max_length=64)
TRAINING = TrainingConfig(
    steps=60,
    batch_tokens=300,
    warmup_steps=20,
    gradient_accumulation_steps=2,
    average_steps=15,
    log_every=7,
    validate_every=20,
    validation_sentences=2,
    checkpoint_every=3,
    keep_checkpoints=3,
)


def start_training(run: Path) -> int:
    """Start a process that trains in the folder, or resumes; return its number."""
    child = os.fork()
    if child == 0:
        data = prepare(DataConfig("copy", max_train_pairs=400), 57)
        train(run, data, SHAPE, TRAINING, choose_device("cpu"), on_validation=lambda _: None)
        os._exit(0)
    return child


def without_times(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{key: row[key] for key in row if key not in ("minutes", "tokens_per_second")} for row in rows]


def results(run: Path) -> dict[str, object]:
    """Everything that must be the same, however often a run was interrupted."""
    last = read_json(run / f"{step_checkpoints(run)[-1]}.json")
    return {
        "weights": last["weights"],
        "state": last["state"],
        "best": read_json(run / "best.json")["weights"],
        "metrics": without_times(read_metrics(run)),
        "log": without_times(read_log(run)),
    }


def main(folder: Path, kills: int) -> None:
    """Train without interruption, and with kills at random moments: so many, or more if they all came too early."""
    data = prepare(DataConfig("copy", max_train_pairs=400), 57)
    train(
        folder / "first", data, SHAPE, replace(TRAINING, steps=15), choose_device("cpu"), on_validation=lambda _: None
    )
    started = time.monotonic()  # now that PyTorch has imported all that it needs
    os.waitpid(start_training(folder / "uninterrupted"), 0)
    duration = time.monotonic() - started
    rng = random.Random(0)
    steps = []
    while len(steps) < kills or len(set(steps)) <= min(3, kills // 5):
        child = start_training(folder / "killed")
        time.sleep(rng.uniform(0, duration / 4) * max(1, len(steps) + 2 - kills))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            sys.exit("a training failed before it could be killed")
        steps.append((step_checkpoints(folder / "killed") or ["step-0"])[-1])
    _, status = os.waitpid(start_training(folder / "killed"), 0)
    report = {"status": status, "steps": steps}
    print(json.dumps(report | {run: results(folder / run) for run in ("uninterrupted", "killed")}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
