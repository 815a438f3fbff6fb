"""Train in several processes and in one; run by test_distributed.

``python compare_processes.py FOLDER WORLD_SIZE ACCUMULATION_STEPS OPTIMIZER`` prints how much the weights differ, as
JSON. One process alone uses as many accumulation steps as all the processes together.
"""

import json
import multiprocessing
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch._dynamo  # here, because an optimiser's first step would import it, in every process again

from transformer.attention import MultiHeadAttention
from transformer.checkpoint import step_name
from transformer.config import ModelConfig, OptimizerName, TrainingConfig
from transformer.data.generated import GENERATED_SIZE
from transformer.data.prepare import DataConfig, PreparedData, prepare
from transformer.device import choose_device
from transformer.files import read_json
from transformer.model import Transformer
from transformer.training.loop import train
from transformer.training.run_folder import read_log, read_metrics

SHAPE = ModelConfig(57, 32, 4, 64, 1, dropout=0.0, max_length=64)
TRAINING = TrainingConfig(
    steps=8,
    batch_tokens=900,
    warmup_steps=4,
    learning_rate_factor=0.02,
    log_every=4,
    validate_every=4,
    validation_sentences=2,
    checkpoint_every=3,
)


def prepare_data() -> PreparedData:
    """Prepare the data, with 50 pairs to validate on instead of 1000, whose losses would take most of the time."""
    GENERATED_SIZE["valid"] = 50
    return prepare(DataConfig("copy", max_train_pairs=400), 57)


def run(folder: Path, training: TrainingConfig, shape: ModelConfig = SHAPE) -> Transformer:
    device = choose_device("cpu")
    return train(folder, prepare_data(), shape, training, device, on_validation=lambda _: None, force=True).model


def run_rank(folder: Path, training: TrainingConfig, rank: int, world_size: int, port: int, shape: ModelConfig) -> None:
    """Train as one of several processes, as `torchrun` starts them."""
    os.environ.update(RANK=f"{rank}", LOCAL_RANK=f"{rank}", WORLD_SIZE=f"{world_size}", MASTER_ADDR="127.0.0.1")
    os.environ["MASTER_PORT"] = f"{port}"
    torch.set_num_threads(1)
    run(folder, training, shape)


def run_distributed(folder: Path, training: TrainingConfig, world_size: int, shape: ModelConfig = SHAPE) -> None:
    """Start all processes, and wait for them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=run_rank, args=(folder, training, rank, world_size, port, shape))
        for rank in range(world_size)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * world_size


def weights(model: Transformer) -> torch.Tensor:
    """All but the biases of keys: no output depends on them, so their gradient is rounding, which Adam scales up."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                module.query_key_value.bias[module.d_model : 2 * module.d_model] = 0
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def difference(first: Transformer, second: Transformer) -> float:
    return float((weights(first) - weights(second)).abs().max())


def compare_resumed(folder: Path, training: TrainingConfig, world_size: int) -> list[str]:
    """Train with dropout, once in one go and once in two; return the checksums of the final weights."""
    digests = []
    for name, stops in (("whole", [training.steps]), ("resumed", [5, training.steps])):
        for steps in stops:
            dropout = replace(SHAPE, dropout=0.3)
            run_distributed(folder / name, replace(training, steps=steps), world_size, dropout)
        digests.append(read_json(folder / name / f"{step_name(training.steps)}.json")["weights"]["sha256"])
    return digests


def main(folder: Path, world_size: int, accumulation_steps: int, optimizer: OptimizerName) -> None:
    prepare_data()
    training = replace(TRAINING, optimizer=optimizer, gradient_accumulation_steps=accumulation_steps)
    half = replace(training, steps=4)
    run_distributed(folder / "distributed", training, world_size)
    run_distributed(folder / "fewer", half, world_size)
    fewer = run(folder / "fewer", training)  # resumes in one process
    run(folder / "more", half)
    run_distributed(folder / "more", training, world_size)  # resumes in several
    single = run(folder / "single", replace(training, gradient_accumulation_steps=world_size * accumulation_steps))
    larger = run(folder / "larger", replace(training, gradient_accumulation_steps=1))  # larger batches
    distributed = run(folder / "distributed", training)  # is finished, so this only loads it
    both = [folder / name for name in ("distributed", "single")]
    report = {
        "to_single": difference(distributed, single),
        "to_larger": difference(distributed, larger),
        "to_fewer": difference(distributed, fewer),
        "losses": [[row["train_loss"] for row in read_metrics(run)] for run in both],
        "logged_losses": [[row["train_loss"] for row in read_log(run)] for run in both],
        "saved_losses": [read_json(run / "step-0000006.json")["progress"]["loss_sum"] for run in both],
        "tokens": [read_metrics(run)[-1]["target_tokens"] for run in both],
        "resumed": compare_resumed(folder, training, world_size),
        "more": read_json(folder / "more" / "step-0000008.json")["progress"],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), "muon" if sys.argv[4] == "muon" else "adam")
