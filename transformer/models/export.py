"""A run made small enough to give away: its best weights in half precision, its scores, and a card that says it all."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint import BEST, read_settings, save_checkpoint
from transformer.data.corpora import Pair, find_corpus, sentence_pairs
from transformer.data.prepare import DataConfig
from transformer.device import Device
from transformer.errors import UserError
from transformer.evaluation.evaluate import put_to_test
from transformer.models.card import CARD, SCORES, card
from transformer.provenance import provenance
from transformer.training.run_folder import METRICS, RECIPE, SESSIONS, read_sessions
from transformer.translator import Translator

SEARCHES = ((1, 0.0), (4, 0.6))
"""Beam and alpha: greedy search, and the paper's (§6.1)."""


def export(
    run: Path, folder: Path, device: Device, splits: Sequence[str] = (), mirror: str | None = None
) -> Iterator[str]:
    """Write a model to give away: what `Translator.load` needs, where it comes from, and how good it is.

    The weights become float16; all scores are of these. What was exported into the folder before is replaced.

    Args:
        run: a run folder.
        folder: the folder to make. Its name is the model's.
        device: where to translate the test sets.
        splits: those of the run's corpus to score it on; without any, all. One that cannot be had is left out.
        mirror: as in `sentence_pairs`.

    Yields:
        Text for people: the scores, and which test sets could not be had.

    Raises:
        UserError: if the run cannot be used, the folder holds something else, or none of the test sets can be had.
    """
    made = provenance(device)
    translator, facts = Translator.load(run, device)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir()) and not (folder / CARD).exists()):
        raise UserError(f"{folder} is not an exported model, and not empty: name another folder")
    if not read_sessions(run):
        raise UserError(f"{run} does not say how it was trained: it has no {SESSIONS}, which a card needs")
    data = DataConfig.from_dict(read_settings(run / RECIPE).get("data", {}))
    work = folder.with_name(f".{folder.name}.unfinished")
    try:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        kept: dict[str, Any] = {key: facts[key] for key in ("metrics", "training", "averaged") if key in facts}
        save_checkpoint(work, BEST, translator.model, kept, dtype=torch.float16)
        for name in ("tokenizer.model", RECIPE, METRICS, SESSIONS):
            shutil.copyfile(run / name, work / name)
        translator, facts = Translator.load(work, device)
        found = []
        for split in splits or [split for split in find_corpus(data.corpus).splits if split.startswith("test")]:
            try:
                pairs = list(sentence_pairs(data.corpus, split, data.direction, mirror))
            except UserError as error:
                yield f"{split} is not scored: {error}"
                continue
            for beam, alpha in SEARCHES:
                scored = _scored(translator, pairs, data.direction, beam, alpha)
                yield f"{split}, beam {beam}: " + ", ".join(f"{s['name']} {s['value']:.2f}" for s in scored["scores"])
                found.append({"corpus": data.corpus, "split": split, "direction": data.direction, **scored})
        if not found:
            raise UserError("a model is not exported without scores")
        told = {"weights": facts["weights"]["sha256"], "provenance": made, "test_sets": found}
        (work / SCORES).write_text(json.dumps(told, indent=2) + "\n", "utf-8")
        (work / CARD).write_text(card(work, folder.name), "utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(work, folder)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _scored(translator: Translator, pairs: list[Pair], direction: str, beam: int, alpha: float) -> dict[str, Any]:
    outcome = put_to_test(translator, [s for s, _ in pairs], [t for _, t in pairs], direction, beam, alpha)
    settings = {"sentences": len(pairs), "beam": beam, "alpha": alpha, "seconds": outcome.seconds}
    return settings | {"scores": [asdict(score) for score in outcome.scores]}
