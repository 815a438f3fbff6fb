"""Translate everyday sentences that a model has never seen: ``python -m book.everyday MODEL``.

``everyday_sentences.tsv`` holds the sentences, which are not in the training data of the course's models, and
``everyday_judgements.tsv`` a large language model's judgement of each translation: right, or what is wrong with it. A
translation is right if it is grammatical, means the same and is something that a German would say. The translations of
the fourth hundred by the last three versions were judged again (``everyday_second_judgements.tsv``), in random order,
by a model that knew neither the first judgements nor which version had written what.

The first hundred were written before we saw any translation. But then we read the model's translations, and chose its
next training data with them in mind. So the second hundred were written later, by a language model that knew neither
the first nor the training data; some of them are typed in a hurry, without capitals and full stops. The model's
failures on these also influenced the next training data. So a third and a fourth hundred were written in the same way,
each before a new training run.

The translations are added to ``book/results/everyday-sentences.json``, which keeps those of all versions of the models.
Afterwards the command lists the translations that are not judged yet.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import NormalDist
from typing import Any

from tqdm import tqdm

from book.scripts import RESULTS, guarded, write_result
from transformer.checkpoint import read_settings
from transformer.data.corpora import matching_key, sentence_pairs
from transformer.data.prepare import DataConfig
from transformer.errors import UserError
from transformer.models import find_model, load_model
from transformer.provenance import provenance
from transformer.training.run_folder import RECIPE
from transformer.translator import Translator

SENTENCES = Path(__file__).parent / "everyday_sentences.tsv"
JUDGEMENTS = Path(__file__).parent / "everyday_judgements.tsv"
SECOND_JUDGEMENTS = Path(__file__).parent / "everyday_second_judgements.tsv"
RESULT = RESULTS / "everyday-sentences.json"
RIGHT = "right"
HUNDREDS = ("first", "second", "third", "fourth")


def read_sentences(hundred: str = "", path: Path = SENTENCES) -> dict[str, str]:
    """Return the sentences and the topic of each: those of one of the `HUNDREDS`, or all."""
    rows = (line.split("\t") for line in path.read_text("utf-8").splitlines())
    return {sentence: topic for which, topic, sentence in rows if hundred in ("", which)}


def read_judgements(path: Path = JUDGEMENTS) -> dict[tuple[str, ...], str]:
    """Return the judgements: a sentence and a translation of it → ``"right"``, or what is wrong."""
    rows = (line.split("\t") for line in path.read_text("utf-8").splitlines())
    return {(sentence, translation): judgement for sentence, translation, judgement in rows}


def count_right(translations: Mapping[str, str], judgements: Mapping[tuple[str, ...], str]) -> int:
    """Return how many translations, sentence → translation, were judged to be right."""
    return sum(judgements.get(pair) == RIGHT for pair in translations.items())


def confidence_interval(n_right: int, n: int) -> tuple[float, float]:
    """Return the 95% confidence interval of a share, by Wilson's formula.

    It covers the choice of the sentences, but not the mistakes of the judge.
    """
    z, share = NormalDist().inv_cdf(0.975), n_right / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    return middle - half, middle + half


def check_unseen(sentences: list[str], data: DataConfig, mirror: str | None = None) -> None:
    """Check that none of the sentences was seen in training, not even with other capitals or punctuation.

    Raises:
        UserError: if one was.
    """
    keys = {matching_key(sentence): sentence for sentence in sentences}
    for source, _ in sentence_pairs(data.corpus, "train", data.direction, mirror):
        if matching_key(source) in keys:
            raise UserError(f"this sentence is in the training data: {keys[matching_key(source)]}")


def translate(translator: Translator, sentences: list[str]) -> dict[str, Any]:
    """Return the translations by beam search with the paper's settings, and the version of the model."""
    translations = [translator.translate(sentence) for sentence in tqdm(sentences, desc="translating", disable=None)]
    return {
        "weights": translator.metadata["weights"]["sha256"],
        "provenance": provenance(translator.device),
        "translations": dict(zip(sentences, translations, strict=True)),
    }


@guarded
def main(arguments: list[str] | None = None) -> None:
    """Translate the sentences and write the result."""
    parser = argparse.ArgumentParser(
        prog="python -m book.everyday", description="Translate everyday sentences that a model has never seen."
    )
    parser.add_argument("model", help="a run folder, or the name of a pretrained model")
    parser.add_argument("--mirror", help="where to read the training data, to check that the sentences aren't in it")
    options = parser.parse_args(arguments)
    sentences = list(read_sentences())
    translator = load_model(options.model, "cpu")
    data = DataConfig.from_dict(read_settings(find_model(options.model) / RECIPE)["data"])
    check_unseen(sentences, data, options.mirror)
    version = translate(translator, sentences)
    versions = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else []
    versions = [old for old in versions if old["weights"] != version["weights"]]
    write_result(RESULT, [*versions, {"model": options.model, **version}])
    judgements = read_judgements()
    pairs = version["translations"].items()
    missing = [pair for pair in pairs if pair not in judgements]
    n_right = count_right(version["translations"], judgements)
    print(f"{n_right} of {len(sentences)} translations are right, {len(missing)} are not judged yet")
    for sentence, translation in missing:
        print(f"{sentence}\t{translation}\t")


if __name__ == "__main__":
    sys.exit(main())
