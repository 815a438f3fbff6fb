"""The command ``transformer``, which also records the pairs that each training step uses; run by test_kills.

Each process appends one JSON object per step to a file of its own, $PAIRS and its rank.
"""

import json
import os

from torch import Tensor

from transformer.cli import main
from transformer.data import batching
from transformer.data.batching import Batch, Indices, Sequences
from transformer.training.trainer import Trainer

collate, backward = batching.collate, Trainer._backward


def remembering(sources: Sequences, targets: Sequences, pairs: Indices) -> Batch:
    batch = collate(sources, targets, pairs)
    object.__setattr__(batch, "pairs", pairs)
    return batch


def recording(trainer: Trainer, batches: list[Batch], n_tokens: int) -> Tensor:
    row = {
        "step": trainer.progress.step,
        "epoch": trainer.progress.epoch,
        "pairs": [pair for batch in batches for pair in batch.pairs.tolist()],  # type: ignore[attr-defined]
    }
    with open(f"{os.environ['PAIRS']}-{trainer.context.rank}", "a") as file:
        file.write(json.dumps(row) + "\n")
    return backward(trainer, batches, n_tokens)


if __name__ == "__main__":
    batching.collate = remembering
    Trainer._backward = recording  # type: ignore[method-assign]
    main()
