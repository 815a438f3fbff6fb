"""Measure the models of the live translator: ``python -m book.live_models MODEL ...``.

Two questions are answered for each model, on held-out text: does rounding the weights to 8 bits cost quality, and below
which probability should the page say that the model is guessing? The probability of a translation is the geometric mean
of its tokens' probabilities. A translation is called poor if its chrF is below `POOR`. The threshold is the one that
separates poor translations best: the share of poor translations below it minus the share of the others below it is
largest. Half of the sentences are from the model's test set, and half are unlike its training data.

The result is written to ``book/results/live.json``, which the book's pages read.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu import sentence_chrf

from book.scripts import RESULTS, guarded, write_result
from transformer.checkpoint import read_settings
from transformer.data.corpora import find_corpus, sentence_pairs
from transformer.data.prepare import DataConfig
from transformer.data.readers import SentencePair
from transformer.errors import UserError, quote
from transformer.evaluation.metrics import bleu
from transformer.files import read_json
from transformer.interactive.widgets import quantized
from transformer.models import find_model, load_model
from transformer.provenance import provenance
from transformer.training.run_folder import RECIPE
from transformer.translator import Translator

RESULT = RESULTS / "live.json"
UNLIKE = {"everyday": ("wmt14-mini", "test"), "multi30k": ("everyday", "test_tatoeba"), "pocket": ("everyday", "test")}
"""By the first word of a corpus's name: a corpus and split with sentences that models trained on it have not seen."""
POOR = 40
"""A translation is poor if its chrF, which is between 0 and 100, is below this."""
SENTENCES = 1000
"""Number of sentences from each of the two sources, and for BLEU."""


@dataclass(frozen=True)
class Scored:
    """A translation with its probability and its quality."""

    text: str
    probability: float
    chrf: float


def score(translator: Translator, pairs: Sequence[SentencePair]) -> list[Scored]:
    """Translate sentences by beam search with the paper's settings, and compare each with its reference."""
    results = translator.beam_search([source for source, _ in pairs])
    scored = []
    for (_, reference), (best,) in zip(pairs, results, strict=True):
        length = len(best.hypothesis.tokens) + 1  # with eos
        probability = math.exp(best.hypothesis.log_probability / length)
        scored.append(Scored(best.text, probability, sentence_chrf(best.text, [reference]).score))
    return scored


def best_threshold(scored: Sequence[Scored]) -> float:
    """Return the probability, in whole percent, that best separates poor translations from the others.

    Raises:
        UserError: if there are no poor translations, or no others.
    """
    poor = [one.probability for one in scored if one.chrf < POOR]
    others = [one.probability for one in scored if one.chrf >= POOR]
    if not poor or not others:
        raise UserError("a threshold needs both poor translations and others")
    return max(
        (percent / 100 for percent in range(1, 100)), key=lambda p: share_below(poor, p) - share_below(others, p)
    )


def share_below(probabilities: Sequence[float], threshold: float) -> float:
    """Return the share of probabilities below a threshold."""
    return sum(probability < threshold for probability in probabilities) / len(probabilities)


def measure(translator: Translator, own: Sequence[SentencePair], unlike: Sequence[SentencePair]) -> dict[str, Any]:
    """Return BLEU with the stored and with 8-bit weights, the threshold, and what it separates.

    Args:
        own: sentences from the model's test set, with their references.
        unlike: sentences that are unlike its training data.
    """
    rounded = quantized(translator)
    stored, in_browser, others = score(translator, own), score(rounded, own), score(rounded, unlike)
    references = [reference for _, reference in own]
    threshold = best_threshold([*in_browser, *others])
    groups: dict[str, list[Scored]] = {"below": [], "above": []}
    for one in (*in_browser, *others):
        groups["below" if one.probability < threshold else "above"].append(one)
    bleu_stored = bleu([one.text for one in stored], references)
    return {
        "sentences": len(own),
        "bleu": round(bleu_stored.value, 2),
        "bleu_8_bit": round(bleu([one.text for one in in_browser], references).value, 2),
        "signature": bleu_stored.signature,
        "threshold": threshold,
        "guesses": {
            "own": round(share_below([one.probability for one in in_browser], threshold), 3),
            "unlike": round(share_below([one.probability for one in others], threshold), 3),
        },
        "poor": {
            name: round(sum(one.chrf < POOR for one in group) / max(len(group), 1), 3) for name, group in groups.items()
        },
    }


def sentences_unlike(corpus: str) -> tuple[str, str]:
    """Return a corpus and a split with sentences that are unlike those of a corpus.

    Raises:
        UserError: if none is known.
    """
    name = corpus.partition("-")[0]
    if name not in UNLIKE:
        raise UserError(
            f"no sentences are known that are unlike those of {quote(corpus)}: name two files with --unlike"
        )
    return UNLIKE[name]


@guarded
def main(arguments: list[str] | None = None) -> None:
    """Measure the models and write the result."""
    parser = argparse.ArgumentParser(
        prog="python -m book.live_models", description="Measure the models of the live translator."
    )
    parser.add_argument("models", nargs="+", help="names of pretrained models")
    parser.add_argument("--mirror", help="where to read the corpora from, instead of downloading them")
    parser.add_argument("--unlike", metavar="EN,DE", help="two files with the sentences unlike the training data")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="how many from each source (%(default)s)")
    options = parser.parse_args(arguments)
    for name in options.models:
        translator = load_model(name, "cpu")
        data = DataConfig.from_dict(read_settings(find_model(name) / RECIPE)["data"])
        unlike = (options.unlike, "train") if options.unlike else sentences_unlike(data.corpus)
        sources = [(data.corpus, "test"), unlike]
        pairs = [list(sentence_pairs(corpus, split, data.direction, options.mirror)) for corpus, split in sources]
        samples = [random.Random(1).sample(some, min(options.sentences, len(some))) for some in pairs]
        measured = measure(translator, *samples)
        models = read_json(RESULT)["models"] if RESULT.exists() else {}
        entry = {
            "weights": translator.metadata["weights"]["sha256"],
            "unlike": find_corpus(options.unlike).name if options.unlike else " ".join(unlike),
            **measured,
        }
        models[name] = {**entry, "provenance": provenance(translator.device)}
        write_result(RESULT, {"models": models})
        print(f"{name}: {json.dumps(measured)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
