"""A run may be resumed with another number of processes, or of batches per step: it still sees every pair once."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transformer.checkpoint import read_tensors, step_name
from transformer.config import ModelConfig, TrainingConfig
from transformer.data import batching
from transformer.data.batching import Batch, Indices, Sequences
from transformer.data.prepare import DataConfig, PreparedData, prepare
from transformer.device import choose_device
from transformer.errors import UserError
from transformer.training.distributed import DistributedContext
from transformer.training.state import restore_state, save_state
from transformer.training.trainer import Trainer

pytestmark = pytest.mark.slow

SHAPE = ModelConfig(57, 8, 1, 8, 1, max_length=64)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(tmp_path_factory.mktemp("data")))
        return prepare(DataConfig("copy", max_train_pairs=400), 57)


@pytest.fixture(autouse=True)
def only_data() -> object:
    """Trainers of all ranks live in this process, and their steps read batches without computing anything.

    Each batch remembers its pairs, and each trainer those of all its batches.
    """
    collate = batching.collate

    def remembering(sources: Sequences, targets: Sequences, pairs: Indices) -> Batch:
        batch = collate(sources, targets, pairs)
        object.__setattr__(batch, "pairs", pairs)
        return batch

    def backward(trainer: Any, batches: Any, n_tokens: int) -> torch.Tensor:
        trainer.used = [pair for batch in batches for pair in batch.pairs.tolist()]
        return torch.zeros(())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformer.training.trainer.DistributedDataParallel", lambda module, **_: module)
        patch.setattr(batching, "collate", remembering)
        patch.setattr(Trainer, "_backward", backward)
        patch.setattr(DistributedContext, "all_reduce", lambda _, numbers: list(numbers))
        patch.setattr(DistributedContext, "all_gather", lambda _, tensor: tensor[None])
        yield


class Run:
    """A run whose sessions may have different numbers of processes; it counts the pairs of each epoch."""

    def __init__(self, data: PreparedData, folder: Path, batch_tokens: int = 300) -> None:
        self.data, self.folder, self.batch_tokens = data, folder, batch_tokens
        self.step = self.epoch = 0
        self.pairs: dict[int, Counter[int]] = {}
        self.trainers: list[Trainer] = []

    def resume(self, world_size: int, gradient_accumulation_steps: int = 1) -> None:
        """Start one trainer per rank, from the last checkpoint if there is one."""
        config = TrainingConfig(batch_tokens=self.batch_tokens, gradient_accumulation_steps=gradient_accumulation_steps)
        contexts = [DistributedContext(rank, world_size) for rank in range(world_size)]
        self.trainers = [Trainer(SHAPE, config, self.data, choose_device("cpu"), context) for context in contexts]
        if self.step:
            for trainer in self.trainers:
                restore_state(trainer, self.folder, step_name(self.step))

    def take_step(self) -> None:
        for trainer in self.trainers:
            trainer.step()
            self.pairs.setdefault(trainer.progress.epoch, Counter()).update(trainer.used)  # type: ignore[attr-defined]
        self.step, self.epoch = self.trainers[0].progress.step, self.trainers[0].progress.epoch

    def save(self) -> None:
        save_state(self.trainers[0], self.folder)

    def check(self) -> None:
        """All epochs but the current one have each pair once."""
        everything = Counter(range(len(self.data.tokens("train")[0])))
        assert self.epoch > 0
        for epoch in range(self.epoch):
            assert self.pairs[epoch] == everything, f"epoch {epoch}"


SESSION = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 9))


@settings(max_examples=15)
@given(st.lists(SESSION, min_size=1, max_size=5))
@example([(4, 1, 7), (2, 1, 3)])  # fewer processes
@example([(2, 1, 7), (4, 1, 3)])  # more
@example([(1, 1, 7), (2, 1, 3), (1, 1, 2)])  # more, and then fewer
@example([(4, 1, 7), (3, 1, 3), (5, 1, 1)])  # numbers that don't divide each other
@example([(2, 3, 7), (2, 1, 1), (2, 2, 2)])  # other accumulation steps
def test_each_pair_of_an_epoch_is_seen_exactly_once(data: PreparedData, sessions: list[tuple[int, int, int]]) -> None:
    """Each session is a number of processes, of accumulation steps, and of optimiser steps."""
    with TemporaryDirectory() as folder:
        run = Run(data, Path(folder))
        for world_size, gradient_accumulation_steps, steps in sessions:
            try:
                run.resume(world_size, gradient_accumulation_steps)
            except UserError as error:
                if "sentence pairs left in epoch" not in str(error):
                    raise
                return  # the very end of an epoch: see below
            for _ in range(steps):
                run.take_step()
            run.save()
        last_epoch = run.epoch
        while run.epoch < last_epoch + 2:
            run.take_step()
        run.check()


def test_fewer_processes_take_the_same_steps(data: PreparedData, tmp_path: Path) -> None:
    """As long as their number divides that of the batches in a step."""
    steps: list[list[int]] = []
    for name, world_sizes in (("constant", [4, 4]), ("fewer", [4, 2])):
        (tmp_path / name).mkdir()
        run = Run(data, tmp_path / name)
        for world_size in world_sizes:
            run.resume(world_size)
            for _ in range(5):
                run.take_step()
            run.save()
        assert run.trainers[0].progress.gradient_accumulation_steps == 4 // world_sizes[-1]
        steps.append(sorted(run.pairs[0].elements()))
    assert steps[0] == steps[1]


def test_splitting_batches_in_the_middle_of_an_epoch_keeps_every_pair(data: PreparedData, tmp_path: Path) -> None:
    """As `Trainer.fit_batch_to_memory` does on a GPU with less memory; and a checkpoint contains what is left."""
    run = Run(data, tmp_path)
    run.resume(2)
    for _ in range(4):
        run.take_step()
    for trainer in run.trainers:
        trainer.change_batches(2, trainer.batches.pairs)
    for _ in range(2):
        run.take_step()
    assert run.epoch == 0
    run.save()
    assert "epoch.pairs" in read_tensors(tmp_path, step_name(6), "state")
    run.resume(2)
    while run.epoch < 2:
        run.take_step()
    run.check()
    run.save()
    assert "epoch.pairs" not in read_tensors(tmp_path, step_name(run.step), "state")  # the epochs are whole again


def test_a_change_between_two_epochs_needs_no_remaining_pairs(data: PreparedData, tmp_path: Path) -> None:
    run = Run(data, tmp_path)
    run.resume(1)
    while not run.trainers[0].is_epoch_end:
        run.take_step()
    run.save()
    run.resume(3)
    assert run.trainers[0].progress.epoch == 1 and run.trainers[0].batches.pairs is None
    while run.epoch < 2:
        run.take_step()
    run.check()


def test_too_few_remaining_pairs_are_refused(data: PreparedData, tmp_path: Path) -> None:
    run = Run(data, tmp_path, batch_tokens=30)
    run.resume(1)
    plan = run.trainers[0].batches.plan
    while run.trainers[0].batches.batch_index < len(plan) - 1:
        run.take_step()
    run.save()
    left = len(plan[-1])
    with pytest.raises(UserError, match=rf"the {left} sentence pairs left in epoch 0 .* {left + 1} .*with 1 processes"):
        run.resume(left + 1)
    run.resume(1)
    while run.epoch < 1:
        run.take_step()
    run.check()
