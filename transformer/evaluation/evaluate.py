"""Runs put to the test: a test set translated and scored, and everything kept, so that others can check it."""

import json
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from transformer import __version__
from transformer.checkpoint import read_settings, write_atomically
from transformer.data.corpora import Pair, sentence_pairs
from transformer.data.prepare import DataConfig
from transformer.data.readers import TextFile, read_pairs
from transformer.decoding import check_search
from transformer.device import Device
from transformer.errors import UserError
from transformer.evaluation.metrics import Score, compare, comparison_table, score_table, scores
from transformer.translator import Translator, search_errors_as_user_errors


@dataclass(frozen=True)
class Outcome:
    """A model's translations of a test set, a line each, and how good they are."""

    texts: list[str]
    scores: list[Score]
    empty: int
    cut: int
    seconds: float


def put_to_test(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    direction: str,
    beam: int = 4,
    alpha: float = 0.6,
    progress: bool = True,
) -> Outcome:
    """Translate a test set by beam search, and score the translations.

    Args:
        direction: such as ``"en-de"``; the target's language decides what its words are.
        beam: hypotheses kept while searching.
        alpha: strength of the length penalty.

    Raises:
        UserError: if a setting is out of its range.
    """
    start = time.perf_counter()
    with search_errors_as_user_errors():
        found = translator.translate_all(sources, beam, alpha, progress=progress)
    seconds = round(time.perf_counter() - start, 3)
    texts = [_one_line(text) for text in found.texts]
    return Outcome(
        texts, scores(texts, references, direction.rpartition("-")[2]), found.empty, found.truncated, seconds
    )


def assess(
    runs: Sequence[Path],
    device: Device,
    split: str = "test",
    files: tuple[Path, Path] | None = None,
    beam: int = 4,
    alpha: float = 0.6,
    mirror: str | None = None,
    folders: Sequence[Path] | None = None,
) -> Iterator[str]:
    """Translate a test set with each run, score the translations, and compare the runs with the first.

    A run's folder is given ``SPLIT.hypotheses.txt`` and ``SPLIT.references.txt``, of which the sacrebleu command makes
    the same scores, and ``SPLIT.scores.json``. Line breaks and other white space in a sentence are single spaces.

    Args:
        runs: run folders of the same direction, at least one.
        split: of the corpus that the runs' recipes name, which must be the same one.
        files: instead, sources and references, a sentence a line; the split is then called by the first one's name.
        beam: hypotheses kept while searching.
        alpha: strength of the length penalty.
        mirror: as in `sentence_pairs`.
        folders: where each run's files are kept, if not in its own folder.

    Yields:
        Text for people: what was translated, the scores, and how the runs compare.

    Raises:
        UserError: before anything is translated, if a run, a setting or the test set is not usable, or the runs have
            no test set in common; and if a file cannot be written.
    """
    if not runs:
        raise UserError("name a run folder; `transformer train` makes one")
    with search_errors_as_user_errors():
        check_search(beam, alpha)
    loaded = [Translator.load(run, device) for run in runs]
    data = [DataConfig.from_dict(read_settings(run / "recipe.json").get("data", {})) for run in runs]
    for run, other in zip(runs, data, strict=True):
        if other.direction != data[0].direction or (files is None and other.corpus != data[0].corpus):
            raise UserError(
                f"{runs[0]} translates {data[0].corpus} {data[0].direction}, {run} {other.corpus} {other.direction}: "
                "evaluate them one by one, or, in the same direction, on files of your own"
            )
    name = split if files is None else Path(files[0].name.removesuffix(".gz")).stem
    described: dict[str, Any] = {"split": name, "direction": data[0].direction}
    described |= {"corpus": data[0].corpus} if files is None else {"files": [str(file) for file in files]}
    sources, references = _texts(data[0], split, files, mirror)
    yield (
        f"{described.get('corpus', 'the files')} {name}, {len(sources)} sentences, {data[0].direction}, "
        f"beam {beam}, alpha {alpha}"
    )

    outcomes: list[Outcome] = []
    comparisons = []
    for number, (run, folder, (translator, facts)) in enumerate(zip(runs, folders or runs, loaded, strict=True), 1):
        outcome = put_to_test(translator, sources, references, data[0].direction, beam, alpha)
        outcomes.append(outcome)
        _write(folder / f"{name}.hypotheses.txt", "".join(f"{line}\n" for line in outcome.texts))
        _write(folder / f"{name}.references.txt", "".join(f"{line}\n" for line in references))
        report: dict[str, Any] = {
            "test_set": {**described, "sentences": len(sources), "empty": outcome.empty, "cut": outcome.cut},
            "settings": {"beam": beam, "alpha": alpha, "device": str(device)},
            "model": {"weights": facts["weights"], "averaged": facts.get("averaged"), "metrics": facts.get("metrics")},
            "versions": _versions(),
            "seconds": outcome.seconds,
            "scores": [asdict(score) for score in outcome.scores],
        }
        if number > 1:
            comparisons.append(compare(outcomes[0].texts, outcome.texts, references))
            report["compared_with"] = {"run": str(runs[0]), "results": [asdict(one) for one in comparisons[-1]]}
        _write(folder / f"{name}.scores.json", json.dumps(report, indent=2) + "\n")

        if len(runs) > 1:
            yield f"{number}: {run}"
        if outcome.empty:
            yield f"empty sentences, whose translations are empty: {outcome.empty}"
        if outcome.cut:
            room = translator.model.config.max_length - 1
            yield f"sentences longer than the {room} tokens that the model reads, cut there: {outcome.cut}"

    yield f"\n{score_table([outcome.scores for outcome in outcomes])}"
    if comparisons:
        yield f"\n{comparison_table(comparisons)}"


def _texts(
    data: DataConfig, split: str, files: tuple[Path, Path] | None, mirror: str | None
) -> tuple[list[str], list[str]]:
    pairs: list[Pair]
    if files is None:
        pairs = list(sentence_pairs(data.corpus, split, data.direction, mirror))
    else:
        pairs = list(read_pairs(TextFile(files[0]), TextFile(files[1])))
    if not pairs:
        raise UserError(f"{data.corpus} has no pair in {split}" if files is None else f"{files[0]} has no lines")
    return [source for source, _ in pairs], [_one_line(target) for _, target in pairs]


def _one_line(text: str) -> str:
    """Without what another program might take for a line's end."""
    return " ".join(text.split())


def _versions() -> dict[str, str]:
    packages = ("nltk", "sacrebleu", "sacremoses", "sentencepiece")
    ours = {"transformer-course": __version__, "python": platform.python_version(), "torch": torch.__version__}
    return {**ours, **{package: version(package) for package in packages}}


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
