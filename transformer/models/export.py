"""Export a run for others: its weights in half precision, its scores, and a model card."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint import BEST, read_settings, save_checkpoint
from transformer.data.corpora import find_corpus, sentence_pairs
from transformer.data.prepare import DataConfig
from transformer.data.readers import SentencePair
from transformer.device import Device
from transformer.errors import UserError
from transformer.evaluation.evaluate import evaluate_test_set
from transformer.files import read_bytes, write_atomically
from transformer.models.card import CARD, RECIPE_KEYS, SCORES, last_metrics, model_card
from transformer.provenance import provenance
from transformer.training.run_folder import METRICS, RECIPE, SESSIONS, read_sessions
from transformer.translator import Translator

UNFINISHED = ".unfinished"
"""The folder within an export in which its files are written before they replace older ones."""

SEARCHES = ((1, 0.0), (4, 0.6))
"""Beam size and length penalty: greedy search, and the paper's beam search (§6.1)."""


def export(
    run: Path, folder: Path, device: Device, splits: Sequence[str] = (), mirror: str | None = None
) -> Iterator[str]:
    """Export a trained model to a folder that `Translator.load` reads, with its scores and a card.

    The weights are converted to float16, and all scores are those of the converted weights. An earlier export in the
    same folder is replaced.

    Args:
        run: run folder.
        folder: folder to create; its name becomes the name of the model.
        device: where to translate the test sets, and in which precision.
        splits: test sets of the run's corpus to score the model on, by default all. Those that cannot be
            downloaded or read are skipped.
        mirror: as in `sentence_pairs`.

    Yields:
        Text to print: whether an earlier export is replaced, the scores, and which test sets were skipped.

    Raises:
        UserError: if the run cannot be used, the folder is a file or contains something else, the corpus has no such
            split, or no test set is available.
    """
    exported = provenance(device)
    translator = Translator.load(run, device)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: choose a folder")
    if folder.exists() and not _is_export(folder):
        raise UserError(f"{folder} contains something other than an exported model: choose another folder")
    if not read_sessions(run):
        raise UserError(
            f"{run} has no {SESSIONS}, which records how it was trained: a card cannot be written without it"
        )
    last_metrics(run, translator.metadata)  # now, not after the test sets have been translated
    recipe = read_settings(run / RECIPE, RECIPE_KEYS)
    data = DataConfig.from_dict(recipe["data"], f"{run / RECIPE}: data")
    splits = splits or [split for split in find_corpus(data.corpus).splits if split.startswith("test")]
    texts = {split: sentence_pairs(data.corpus, split, data.direction, mirror) for split in splits}
    folder = folder.absolute()  # "." has no name
    if (folder / CARD).exists():
        yield f"replacing the earlier export in {folder}"
    work = folder / UNFINISHED  # on the same disk, wherever the folder may be
    try:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        kept = ("metrics", "training", "averaged")
        metadata = {key: value for key, value in translator.metadata.items() if key in kept}
        save_checkpoint(work, BEST, translator.model, metadata, dtype=torch.float16)
        for name in ("tokenizer.model", RECIPE, METRICS, SESSIONS):
            write_atomically(work / name, read_bytes(run / name))
        translator = Translator.load(work, device)
        test_sets = []
        for split, text in texts.items():
            try:
                pairs = list(text)
            except UserError as error:
                yield f"skipped {split}: {error}"
                continue
            if not pairs:
                yield f"skipped {split}: it is empty"
                continue
            for beam_size, length_penalty in SEARCHES:
                result = _evaluate(translator, pairs, data.direction, beam_size, length_penalty)
                values = ", ".join(f"{score['name']} {score['value']:.2f}" for score in result["scores"])
                yield f"{split}, beam size {beam_size}: {values}"
                test_sets.append({"corpus": data.corpus, "split": split, "direction": data.direction, **result})
        if not test_sets:
            raise UserError("no test set is available, and a model cannot be exported without scores")
        scores = {"weights": translator.metadata["weights"]["sha256"], "provenance": exported, "test_sets": test_sets}
        (work / SCORES).write_text(json.dumps(scores, indent=2) + "\n", "utf-8")
        (work / CARD).write_text(model_card(work, folder.name), "utf-8", "replace")
        new = sorted((path.name for path in work.iterdir()), key=lambda name: name == f"{BEST}.json")
        # The file that names the weights comes last: until then, the older weights are used.
        for name in new:
            os.replace(work / name, folder / name)
        for path in folder.iterdir():
            if _is_known(path) and path.name not in new:
                path.unlink()
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()  # if there is nothing in it


def _is_known(path: Path) -> bool:
    """Return whether a file is part of an export, a result of its evaluation, or one that macOS adds."""
    exported = [CARD, SCORES, RECIPE, METRICS, SESSIONS, "tokenizer.model", f"{BEST}.json", f"{BEST}-*.safetensors"]
    return any(map(path.match, [*exported, "*.scores.json", "*.hypotheses.txt", "*.references.txt", ".DS_Store"]))


def _is_export(folder: Path) -> bool:
    """Return whether a folder is empty, or contains an export and the results of its evaluation, and nothing else."""
    paths = list(folder.iterdir())
    is_known = all(_is_known(path) or path.name == UNFINISHED for path in paths)
    return is_known and (not paths or (folder / CARD).exists() or paths == [folder / UNFINISHED])


def _evaluate(
    translator: Translator, pairs: list[SentencePair], direction: str, beam_size: int, length_penalty: float
) -> dict[str, Any]:
    """Return the scores of a test set and the settings of the search, as they are saved."""
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    result = evaluate_test_set(translator, sources, references, direction, beam_size, length_penalty)
    settings = {
        "sentences": len(pairs),
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "precision": translator.device.precision,
        "seconds": result.seconds,
    }
    return settings | {"scores": [asdict(score) for score in result.scores]}
