"""Evaluate trained models: translate a test set, score the translations, and save both for others to check."""

import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from transformer import __version__
from transformer.checkpoint import read_settings
from transformer.data.corpora import find_corpus, own_corpus_sha256, sentence_pairs
from transformer.data.prepare import DataConfig
from transformer.data.readers import SentencePair, TextFile, read_pairs
from transformer.decoding import check_search
from transformer.device import Device
from transformer.errors import UserError, quote
from transformer.evaluation.metrics import Score, comparison_table, paired_bootstrap, score_table, score_translations
from transformer.files import check_writable, write_output
from transformer.translator import Translator


@dataclass(frozen=True)
class TestSetResult:
    """A model's translations of a test set, and their scores."""

    translations: list[str]
    """One line for each source sentence, in the same order."""
    scores: list[Score]
    empty: int
    """Number of empty source sentences; their translations are also empty."""
    truncated: int
    """Number of source sentences that were truncated to the longest input the model accepts."""
    seconds: float
    """Time taken by the translation, without the scoring."""


def evaluate_test_set(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    direction: str,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    max_new_tokens: int | None = None,
    progress: bool = True,
) -> TestSetResult:
    """Translate a test set by beam search and score the translations.

    Args:
        translator: the trained model with its tokenizer.
        sources: sentences to translate.
        references: their reference translations, in the same order.
        direction: source and target language, such as ``"en-de"``; METEOR and the Moses tokenizer depend on the target.
        beam_size: number of hypotheses kept at each step of the search.
        length_penalty: exponent α of the length normalisation (§6.1).
        max_new_tokens: maximum length of a translation in tokens; None: the length of the source + 50.
        progress: whether to show a progress bar.

    Raises:
        UserError: if a setting of the search is out of range, or memory runs out.
        ValueError: if there are no sentences, or the numbers of sources and references differ.
    """
    if len(sources) != len(references) or not sources:  # before the translation, which may take a while
        raise ValueError(
            f"there must be one reference per source, and at least one of each; got {len(sources)} sources and "
            f"{len(references)} references"
        )
    start = time.perf_counter()
    result = translator.translate_test_set(sources, beam_size, length_penalty, max_new_tokens, progress)
    seconds = round(time.perf_counter() - start, 3)
    translations = [_one_line(text) for text in result.texts]
    scores = score_translations(translations, references, direction.rpartition("-")[2])
    return TestSetResult(translations, scores, result.empty, result.truncated, seconds)


def evaluate_runs(
    runs: Sequence[Path],
    device: Device,
    split: str | None = None,
    files: tuple[Path, Path] | None = None,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    max_new_tokens: int | None = None,
    mirror: str | None = None,
    output_folders: Sequence[Path] | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[str]:
    """Translate a test set with each run, score the translations, and compare the other runs with the first one.

    Three files are written for each run: ``SPLIT.hypotheses.txt`` and ``SPLIT.references.txt``, from which the
    ``sacrebleu`` command computes the same scores, and ``SPLIT.scores.json``. In both text files, line breaks and other
    white space inside a sentence are replaced by single spaces. Earlier files of the same names are replaced.

    Args:
        runs: different run folders, at least one; all must translate in the same direction.
        device: where to translate, and in which precision.
        split: the split of the runs' corpus to translate, ``"test"`` by default; all runs must have been trained on the
            same corpus. With ``files`` it is the name of your own test set, by default the source file's name.
        files: your own test set in place of a split: sources and references, one sentence per line. Columns of a table
            are given as ``FILE.tsv:1``, members of an archive as ``ARCHIVE:MEMBER``.
        beam_size: number of hypotheses kept at each step of the search.
        length_penalty: exponent α of the length normalisation (§6.1).
        max_new_tokens: maximum length of a translation in tokens; None: the length of the source + 50.
        mirror: as in `sentence_pairs`.
        output_folders: where to write each run's files, if not to its own folder.
        names: what to call the runs in the text, by default their paths.

    Yields:
        Text to print: what was translated, which files are replaced, the scores, and how the runs compare.

    Raises:
        UserError: before any file is written, if a run, a setting or the test set cannot be used, if a run is given
            twice, or if the runs cannot be evaluated on the same test set; and if a file cannot be written.
    """
    check_search(beam_size, length_penalty, max_new_tokens=max_new_tokens)
    if not runs:
        raise UserError("give at least one model: a run folder, or the name of a pretrained model")
    names, folders = names or [str(run) for run in runs], output_folders or runs
    if len(set(map(os.path.realpath, folders))) < len(folders):
        raise UserError("the same model is given twice, and its results would be saved in the same files: give it once")
    translators = [Translator.load(run, device) for run in runs]
    recipes = [read_settings(run / "recipe.json") for run in runs]
    data = [
        DataConfig.from_dict(recipe.get("data", {}), f"{run}/recipe.json: data")
        for run, recipe in zip(runs, recipes, strict=True)
    ]
    direction = data[0].direction
    for run_name, other in zip(names, data, strict=True):
        if other.direction != direction:
            raise UserError(
                f"{names[0]} translates {direction}, but {run_name} {other.direction}: evaluate them separately"
            )
        if files is None and other.corpus != data[0].corpus:
            raise UserError(
                f"{names[0]} and {run_name} were trained on different corpora, {data[0].corpus} and {other.corpus}: "
                "evaluate them separately, or both on your own test set with --source and --reference"
            )
    name = (split or "test") if files is None else _name_of_own_test_set(split, files[0], data)
    test_set: dict[str, Any] = {"split": name, "direction": direction}
    test_set |= {"corpus": data[0].corpus} if files is None else {"files": [str(file) for file in files]}
    sources, references = _read_test_set(data[0], name, files, mirror)

    saved = [f"{name}.{kind}" for kind in ("hypotheses.txt", "references.txt", "scores.json")]
    for folder in folders:  # before the translation, which may take a while, in case a folder can't be written to
        _check_folder(folder, saved)
    if files is None:
        yield from _notes_on_changed_corpora(names, recipes)
    count = f"{len(sources):,} sentence{'' if len(sources) == 1 else 's'}"
    at_most = "" if max_new_tokens is None else f"at most {max_new_tokens} tokens, "
    yield (
        f"{test_set.get('corpus', 'your test set')} {name}: {count}, {direction}, "
        f"beam size {beam_size}, length penalty {length_penalty}, {at_most}on {device}"
    )
    hint = "" if files is None else "; to keep them, choose another name with --split"
    for folder in folders:
        if earlier := [file for file in saved if (folder / file).exists()]:
            yield f"note: this replaces earlier results in {folder}: {', '.join(earlier)}{hint}"

    results: list[TestSetResult] = []
    comparisons = []
    for number, (run_name, folder, translator) in enumerate(zip(names, folders, translators, strict=True), 1):
        if len(runs) > 1:
            yield f"\n{number}: {run_name}"
        yield _weights_of(translator)
        result = evaluate_test_set(
            translator, sources, references, direction, beam_size, length_penalty, max_new_tokens
        )
        results.append(result)
        report: dict[str, Any] = {
            "test_set": {**test_set, "sentences": len(sources), "empty": result.empty, "truncated": result.truncated},
            "settings": {
                "beam_size": beam_size,
                "length_penalty": length_penalty,
                "max_new_tokens": max_new_tokens,
                "device": str(device),
                "precision": device.precision,
            },
            "model": {key: translator.metadata.get(key) for key in ("weights", "averaged", "metrics")},
            "versions": _versions(),
            "seconds": result.seconds,
            "scores": [asdict(score) for score in result.scores],
        }
        if number > 1:
            comparison = paired_bootstrap(results[0].translations, result.translations, references)
            comparisons.append(comparison)
            report["compared_with"] = {"run": names[0], "results": [asdict(metric) for metric in comparison]}
        try:  # all at the end, so that an interrupted evaluation leaves the earlier results as they were
            for kind, lines in (("references", references), ("hypotheses", result.translations)):
                write_output(folder / f"{name}.{kind}.txt", "".join(f"{line}\n" for line in lines).encode())
            write_output(folder / f"{name}.scores.json", (json.dumps(report, indent=2) + "\n").encode())
        except UserError:  # the disk may have become full in the meantime: the scores are not lost
            yield f"\n{score_table([result.scores for result in results])}"
            raise

        if result.empty:
            yield f"empty source sentences, translated as empty lines: {result.empty}"
        if result.truncated:
            limit = translator.model.config.max_length - 1
            yield f"source sentences truncated to the model's limit of {limit} tokens: {result.truncated}"

    yield f"\n{score_table([result.scores for result in results])}"
    if comparisons:
        yield f"\n{comparison_table(comparisons)}"
    for folder in folders:
        yield f"\nsaved in {folder}: {', '.join(saved)}"


def _notes_on_changed_corpora(names: Sequence[str], recipes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each run whose own corpus has changed since it was trained."""
    for name, recipe in zip(names, recipes, strict=True):
        trained_on, corpus = recipe.get("text_sha256"), recipe["data"]["corpus"]
        if not trained_on:
            continue
        try:
            is_same = trained_on == own_corpus_sha256(corpus)
        except UserError as error:
            yield f"note: cannot tell whether {corpus} has changed since {name} was trained: {error}"
            continue
        if not is_same:
            yield f"note: {corpus} has changed since {name} was trained, so the test set may also have changed"


def _weights_of(translator: Translator) -> str:
    """Describe which weights of a run a translator has."""
    if names := translator.metadata.get("averaged"):
        return f"weights: the average of {', '.join(names)}"
    step = translator.metadata.get("metrics", {}).get("step", "unknown")
    return f"weights: the checkpoint with the lowest validation loss, step {step}"


def _name_of_own_test_set(name: str | None, source: Path, data: Sequence[DataConfig]) -> str:
    """Return the name under which the results on the user's own files are saved.

    Raises:
        UserError: if it cannot begin a file name, or is a split of a corpus the runs were trained on: its results
            would be overwritten.
    """
    if name is None:
        file = TextFile.parse(str(source))
        text = Path(file.selector) if file.selector and not file.selector.isdecimal() else file.path
        name = Path(text.name.removesuffix(".gz")).stem
    if not name or name.startswith(".") or any(character in name for character in "/\\\0"):
        raise UserError(
            f"a test set cannot be named {quote(name)}, because files are named after it: choose another name with "
            "--split"
        )
    for corpus in dict.fromkeys(config.corpus for config in data):
        try:
            splits = find_corpus(corpus).splits
        except UserError:  # the corpus is not on this machine
            continue
        if name.casefold() in splits:  # some file systems ignore case
            raise UserError(f"{name} is a split of {corpus}: give your own test set another name with --split NAME")
    return name


def _read_test_set(
    data: DataConfig, split: str, files: tuple[Path, Path] | None, mirror: str | None
) -> tuple[list[str], list[str]]:
    """Return the sources and the references, which are single lines."""
    pairs: list[SentencePair]
    if files is None:
        pairs = list(sentence_pairs(data.corpus, split, data.direction, mirror))
    else:
        pairs = list(read_pairs(*(TextFile.parse(str(file)) for file in files)))
    if not pairs:
        raise UserError(f"the split {split} of {data.corpus} is empty" if files is None else f"{files[0]} has no lines")
    return [source for source, _ in pairs], [_one_line(target) for _, target in pairs]


def _one_line(text: str) -> str:
    """Replace every run of white space with a space: other programs disagree about which characters end a line."""
    return " ".join(text.split())


def _versions() -> dict[str, str]:
    versions = {"transformer-course": __version__, "python": platform.python_version(), "torch": torch.__version__}
    return versions | {name: version(name) for name in ("nltk", "sacrebleu", "sacremoses", "sentencepiece")}


def _check_folder(folder: Path, files: Sequence[str]) -> None:
    """Check that these files can be written to a folder, which is created if necessary."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from None
    for file in files:
        check_writable(folder / file)
