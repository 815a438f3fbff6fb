"""Train, be killed, go on: run by test_resuming in a process of its own, which forks so that nothing is imported twice.

python killing.py FOLDER KILLS prints what was found, as JSON.
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
from transformer.config import TrainingConfig
from transformer.data.prepare import DataConfig, prepare
from transformer.device import choose_device
from transformer.model import ModelConfig
from transformer.training.loop import train
from transformer.training.run_folder import read_metrics

SHAPE = ModelConfig(57, 32, 4, 64, 1, dropout=0.1, max_length=64)
TRAINING = TrainingConfig(
    steps=60,
    batch_tokens=300,
    warmup_steps=20,
    gradient_accumulation_steps=2,
    average_steps=15,
    validate_every=20,
    validation_sentences=2,
    checkpoint_every=3,
    keep_checkpoints=3,
)


def trains(run: Path) -> int:
    """Begin a process that trains in the folder, or goes on; its number."""
    child = os.fork()
    if child == 0:
        data = prepare(DataConfig("copy", max_train_pairs=400), 57)
        train(run, data, SHAPE, TRAINING, choose_device("cpu"), report=lambda _: None)
        os._exit(0)
    return child


def left_behind(run: Path) -> dict[str, object]:
    """All that must be the same, however often a run was broken off."""
    last = read_json(run / f"{step_checkpoints(run)[-1]}.json")
    rows = [{key: value for key, value in row.items() if key != "minutes"} for row in read_metrics(run)]
    return {
        "weights": last["weights"],
        "state": last["state"],
        "best": read_json(run / "best.json")["weights"],
        "metrics": rows,
    }


def main(folder: Path, kills: int) -> None:
    """Train undisturbed, and killed at random moments."""
    data = prepare(DataConfig("copy", max_train_pairs=400), 57)
    train(folder / "first", data, SHAPE, replace(TRAINING, steps=15), choose_device("cpu"), report=lambda _: None)
    started = time.monotonic()  # now that PyTorch has imported all that it needs
    os.waitpid(trains(folder / "undisturbed"), 0)
    whole = time.monotonic() - started
    chance = random.Random(0)
    steps = []
    for _ in range(kills):
        child = trains(folder / "killed")
        time.sleep(chance.uniform(0, whole / 4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        steps.append((step_checkpoints(folder / "killed") or ["step-0"])[-1])
    _, status = os.waitpid(trains(folder / "killed"), 0)
    found = {"status": status, "steps": steps}
    print(json.dumps(found | {run: left_behind(folder / run) for run in ("undisturbed", "killed")}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
