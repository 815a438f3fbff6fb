"""One model trained by several processes, as `torchrun` starts them: each has a part of every batch."""

import os
import socket
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from transformer.bench.apart import PROCESSES
from transformer.bench.contests import Setting, Work, random_data, wait_for
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.prepare import PreparedData
from transformer.training.distributed import init_distributed
from transformer.training.trainer import Trainer


def together(setting: Setting, count: int, config: ModelConfig, batch_tokens: int) -> Work:
    """Start the processes; they end with this one. A round's work is a step of them all, and its target tokens.

    Args:
        batch_tokens: target tokens of a step, over all process_group.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ends = []
    for rank in range(count):
        end, other = PROCESSES.Pipe()
        arguments = (other, rank, count, port, setting, config, batch_tokens)
        PROCESSES.Process(target=_train, args=arguments, daemon=True).start()
        other.close()  # so that the end of a process is seen
        ends.append(end)

    def step(number: int) -> float:
        for end in ends:
            end.send(number)
        tokens = [end.recv() for end in ends]
        return float(tokens[0])

    step(0)  # until all are there
    return step


def _train(
    todo: Connection, rank: int, count: int, port: int, setting: Setting, config: ModelConfig, batch_tokens: int
) -> None:
    """One of the processes: make a step whenever it is told to, and answer with the target tokens of all."""
    torch.set_num_threads(1)
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in told.items()}
    training = TrainingConfig(batch_tokens=batch_tokens)
    with init_distributed(setting.device) as process_group:
        with TemporaryDirectory() as folder:  # its files are open, and need no names any more
            random_data(Path(folder), config.vocab_size, config.max_length - 4, setting)
            trainer = Trainer(config, training, PreparedData(Path(folder)), setting.device, process_group)
        while True:
            todo.recv()
            before = trainer.progress.target_tokens
            trainer.step()
            wait_for(setting.device)
            todo.send(trainer.progress.target_tokens - before)
