"""Measure the effect of int8 on translations and the time they take: ``python -m book.quantization``.

Pretrained models translate their test sets on a CPU, with beam size 4, in fp32 and in int8. The result is written to
``book/results/int8.json``; the page "Speed and memory" shows it.
"""

import argparse
import sys
from typing import Any

import transformer
from book.scripts import RESULTS, guarded, write_result
from transformer.checkpoint import read_settings
from transformer.data.corpora import sentence_pairs
from transformer.device import choose_device
from transformer.evaluation.evaluate import evaluate_test_set
from transformer.models import find_model
from transformer.provenance import provenance
from transformer.training.run_folder import RECIPE

RESULT = RESULTS / "int8.json"
TEST_SETS = [
    *((model, split) for model in ("everyday", "everyday-de-en") for split in ("test_tatoeba", "test_multi30k")),
    *((model, "test") for model in ("multi30k", "multi30k-de-en", "pocket-large")),
]
"""The models, each with the name of a split of its corpus."""
PRECISIONS = ("fp32", "int8")


def measure(model: str, split: str, mirror: str | None) -> dict[str, Any]:
    """Translate a test set in both precisions.

    Returns:
        The model, the split, its number of sentences, BLEU and the seconds for each precision, and how many
        translations are the same.
    """
    data = read_settings(find_model(model) / RECIPE)["data"]
    pairs = list(sentence_pairs(data["corpus"], split, data["direction"], mirror))
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    row: dict[str, Any] = {"model": model, "split": split, "sentences": len(pairs)}
    translations = []
    for precision in PRECISIONS:
        translator = transformer.load(model, "cpu", precision)  # type: ignore[arg-type]
        result = evaluate_test_set(translator, sources, references, data["direction"], progress=False)
        (bleu,) = (score for score in result.scores if score.name == "BLEU")
        row[precision] = {"bleu": round(bleu.value, 2), "seconds": round(result.seconds, 1)}
        row["signature"] = bleu.signature
        translations.append(result.translations)
    row["same"] = sum(a == b for a, b in zip(*translations, strict=True))
    return row


@guarded
def main(arguments: list[str] | None = None) -> None:
    """Measure all test sets and write the result."""
    parser = argparse.ArgumentParser(
        prog="python -m book.quantization",
        description="Measure the effect of int8 on translations and the time they take.",
    )
    parser.add_argument("--mirror", help="a folder or address with the files of the corpora")
    options = parser.parse_args(arguments)
    rows = []
    for model, split in TEST_SETS:
        rows.append(measure(model, split, options.mirror))
        print(rows[-1], flush=True)
    result = {"provenance": provenance(choose_device("cpu", "int8")), "rows": rows}
    write_result(RESULT, result)


if __name__ == "__main__":
    sys.exit(main())
