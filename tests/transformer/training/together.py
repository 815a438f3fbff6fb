"""Train in several processes and in one: run by test_processes.

python together.py FOLDER PROCESSES prints how far the weights are apart, as JSON.
"""

import json
import multiprocessing
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import torch

from transformer.attention import MultiHeadAttention
from transformer.checkpoint import read_json
from transformer.config import TrainingConfig
from transformer.data.prepare import DataConfig, prepare
from transformer.device import choose_device
from transformer.model import ModelConfig, Transformer
from transformer.training.loop import train
from transformer.training.run_folder import read_metrics

SHAPE = ModelConfig(57, 32, 4, 64, 1, dropout=0.0, max_length=64)
TRAINING = TrainingConfig(
    steps=8,
    batch_tokens=900,
    warmup_steps=4,
    learning_rate_factor=0.02,
    validate_every=4,
    validation_sentences=2,
    checkpoint_every=3,
)


def run(folder: Path, training: TrainingConfig) -> Transformer:
    data = prepare(DataConfig("copy", max_train_pairs=400), 57)
    return train(folder, data, SHAPE, training, choose_device("cpu"), report=lambda _: None).model


def member(folder: Path, rank: int, processes: int, port: int) -> None:
    """One of several processes, as `torchrun` starts them."""
    os.environ.update(RANK=f"{rank}", LOCAL_RANK=f"{rank}", WORLD_SIZE=f"{processes}", MASTER_ADDR="127.0.0.1")
    os.environ["MASTER_PORT"] = f"{port}"
    torch.set_num_threads(1)
    run(folder, TRAINING)


def together(folder: Path, processes: int) -> None:
    """Start them all, and wait."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    members = [context.Process(target=member, args=(folder, rank, processes, port)) for rank in range(processes)]
    for one in members:
        one.start()
    for one in members:
        one.join()
    assert [one.exitcode for one in members] == [0] * processes


def weights(model: Transformer) -> torch.Tensor:
    """All but the biases of keys: they move no output, so that their gradient is rounding, and Adam makes it large."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                module.query_key_value.bias[module.d_model : 2 * module.d_model] = 0
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def main(folder: Path, processes: int) -> None:
    prepare(DataConfig("copy", max_train_pairs=400), 57)
    together(folder / "together", processes)
    alone = run(folder / "alone", replace(TRAINING, gradient_accumulation_steps=processes))
    other = run(folder / "other", TRAINING)  # the same steps in larger batches
    joint = run(folder / "together", TRAINING)  # finished: only loads it
    losses = [[row["train_loss"] for row in read_metrics(folder / name)] for name in ("together", "alone")]
    print(
        json.dumps(
            {
                "apart": float((weights(joint) - weights(alone)).abs().max()),
                "far": float((weights(joint) - weights(other)).abs().max()),
                "losses": losses,
                "saved": [  # between two validations
                    read_json(folder / name / "step-0000006.json")["progress"]["loss_sum"]
                    for name in ("together", "alone")
                ],
                "tokens": [read_metrics(folder / name)[-1]["target_tokens"] for name in ("together", "alone")],
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
