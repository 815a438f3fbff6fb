"""Measure what the beam size and the length penalty do to translations: ``python -m book.beam_sizes``.

The pretrained model ``multi30k`` translates the first 300 captions of its test set with each beam size and each length
penalty. The result is written to ``book/results/beam-sizes.json``; chapter 12 draws it.
"""

import argparse
import json
import sys
from itertools import islice, product
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU

import transformer
from transformer.data.corpora import sentence_pairs
from transformer.errors import UserError
from transformer.evaluation.metrics import bleu
from transformer.files import write_atomically
from transformer.provenance import provenance
from transformer.translator import Translator

RESULT = Path(__file__).parent / "results" / "beam-sizes.json"
BEAM_SIZES = (1, 2, 3, 4, 8, 16, 32, 64)
LENGTH_PENALTIES = (0.0, 0.6, 1.0)
CAPTIONS = 300


def measure(
    translator: Translator, sources: list[str], references: list[str], beam_size: int, length_penalty: float
) -> dict[str, Any]:
    """Translate a test set with one beam size and one length penalty.

    Returns:
        The two settings, BLEU, the length ratio (words in the translations, divided by words in the references), the
        mean log-probability of a translation, and how many translations are empty.
    """
    translations = [best for (best,) in translator.beam_search(sources, beam_size, length_penalty)]
    score = BLEU().corpus_score([best.text for best in translations], [references])
    log_probability = sum(best.hypothesis.log_probability for best in translations) / len(translations)
    return {
        "beam": beam_size,
        "alpha": length_penalty,
        "bleu": round(score.score, 2),
        "length_ratio": round(score.ratio, 3),
        "log_probability": round(log_probability, 3),
        "empty": sum(not best.text for best in translations),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure all settings and write the result; print an error as one line on stderr and return 2."""
    parser = argparse.ArgumentParser(
        prog="python -m book.beam_sizes",
        description="Measure what the beam size and the length penalty do to translations.",
    )
    parser.add_argument("--mirror", help="a folder or address with the files of the corpus")
    options = parser.parse_args(arguments)
    try:
        translator = transformer.load("multi30k", device="cpu", precision="fp32")
        pairs = list(islice(sentence_pairs("multi30k", "test", mirror=options.mirror), CAPTIONS))
        sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
        rows = []
        for length_penalty, beam_size in product(LENGTH_PENALTIES, BEAM_SIZES):
            rows.append(measure(translator, sources, references, beam_size, length_penalty))
            print(rows[-1], flush=True)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    result = {
        "model": "multi30k",
        "captions": len(sources),
        "signature": bleu(references, references).signature,
        "provenance": provenance("cpu in fp32"),
        "rows": rows,
    }
    write_atomically(RESULT, (json.dumps(result, indent=1) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
