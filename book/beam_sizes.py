"""Measure the effect of beam size and length penalty on translations: ``python -m book.beam_sizes``.

The pretrained model ``multi30k`` translates its test set with each beam size and each length penalty, and the empty
translation is compared with the references. The result is written to ``book/results/beam-sizes.json``; chapter 12 shows
it.
"""

import argparse
import sys
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU

import transformer
from book.scripts import RESULTS, guarded, write_result
from transformer.data.corpora import sentence_pairs
from transformer.data.tokenizer import BOS, EOS
from transformer.decoding import beam_search
from transformer.evaluation.metrics import bleu, paired_bootstrap
from transformer.provenance import provenance
from transformer.translator import Translator

RESULT = RESULTS / "beam-sizes.json"
BEAM_SIZES = (1, 2, 3, 4, 8, 16, 32, 64)
LENGTH_PENALTIES = (0.0, 0.6, 1.0)
COMPARED_WITH = (1, 4)
"""The beam sizes with which all others are compared."""


def measure(
    translator: Translator, sources: list[str], references: list[str], beam_size: int, length_penalty: float
) -> tuple[dict[str, Any], list[str]]:
    """Translate a test set with one beam size and one length penalty.

    Returns:
        A row: the two settings, BLEU, the length ratio (words in the translations, divided by words in the references),
        the mean log-probability of a translation (a natural logarithm), and how many translations are empty. And the
        translations.
    """
    translations = [best for (best,) in translator.beam_search(sources, beam_size, length_penalty)]
    texts = [best.text for best in translations]
    score = BLEU().corpus_score(texts, [references])
    log_probability = sum(best.hypothesis.log_probability for best in translations) / len(translations)
    row = {
        "beam": beam_size,
        "alpha": length_penalty,
        "bleu": round(score.score, 2),
        "length_ratio": round(score.ratio, 3),
        "log_probability": round(log_probability, 3),
        "empty": texts.count(""),
    }
    return row, texts


def p_values(translations: dict[int, list[str]], beam_size: int, references: list[str]) -> dict[str, float]:
    """Compare the BLEU of one beam size with that of each in `COMPARED_WITH`, by paired bootstrap.

    Args:
        translations: those of each beam size, with the same length penalty.
    """
    return {
        str(other): round(paired_bootstrap(translations[other], translations[beam_size], references)[0].p_value, 3)
        for other in COMPARED_WITH
    }


@torch.no_grad()
def compare_with_empty(translator: Translator, sources: list[str], references: list[str]) -> dict[str, Any]:
    """Compare the log-probability of the empty translation, which is eos alone, with two others of the same source.

    Returns:
        The mean log-probabilities of the empty translation, of the reference and of greedy search's translation;
        how often the empty one is more probable than each of the two; and the mean number of tokens of a reference,
        eos included.
    """
    device = translator.device.torch_device
    rows, lengths = [], []
    for source, reference in zip(sources, references, strict=True):
        ids = torch.tensor([translator.encode(source)], device=device)
        target = torch.tensor([[BOS, *translator.tokenizer.encode(reference), EOS]], device=device)
        log_probs = translator.model(ids, target[:, :-1])[0].log_softmax(-1)
        reference_log_prob = log_probs.gather(1, target[0, 1:, None]).sum()
        ((greedy,),) = beam_search(translator.model, ids, beam_size=1, length_penalty=0)
        rows.append((log_probs[0, EOS].item(), reference_log_prob.item(), greedy.log_probability))
        lengths.append(target.size(1) - 1)
    empty, reference_log_probs, greedy_log_probs = torch.tensor(rows).T
    return {
        "log_probability": round(empty.mean().item(), 3),
        "reference_log_probability": round(reference_log_probs.mean().item(), 3),
        "greedy_log_probability": round(greedy_log_probs.mean().item(), 3),
        "beats_reference": int((empty > reference_log_probs).sum()),
        "beats_greedy": int((empty > greedy_log_probs).sum()),
        "reference_length": round(sum(lengths) / len(lengths), 2),
    }


@guarded
def main(arguments: list[str] | None = None) -> None:
    """Measure all settings and write the result."""
    parser = argparse.ArgumentParser(
        prog="python -m book.beam_sizes",
        description="Measure the effect of beam size and length penalty on translations.",
    )
    parser.add_argument("--mirror", help="a folder or address with the files of the corpus")
    options = parser.parse_args(arguments)
    translator = transformer.load("multi30k", device="cpu", precision="fp32")
    pairs = list(sentence_pairs("multi30k", "test", mirror=options.mirror))
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    empty = compare_with_empty(translator, sources, references)
    print(empty, flush=True)
    rows = []
    for length_penalty in LENGTH_PENALTIES:
        measured = {size: measure(translator, sources, references, size, length_penalty) for size in BEAM_SIZES}
        translations = {size: texts for size, (_, texts) in measured.items()}
        for size, (row, _) in measured.items():
            rows.append(row | {"p_values": p_values(translations, size, references)})
            print(rows[-1], flush=True)
    result = {
        "model": "multi30k",
        "captions": len(sources),
        "signature": bleu(references, references).signature,
        "provenance": provenance("cpu in fp32"),
        "empty_translation": empty,
        "rows": rows,
    }
    write_result(RESULT, result)


if __name__ == "__main__":
    sys.exit(main())
