"""The main figures of all pages with results, in one table."""

import statistics
from pathlib import Path

from book._ext.results.experiments import seed_groups
from book._ext.results.gpu import gpu_name
from book._ext.results.scores import score
from book._ext.results.speed import speed_ratios
from book._ext.results.tables import Part, read, table
from book.everyday import HUNDREDS, count_right, read_judgements, read_sentences
from transformer.bench.runner import Measurement

SAME_DROPOUT = "the same, with the paper's dropout"
"""The baseline of the training benchmark that does the same work as ours."""


def highlights(root: Path) -> list[Part]:
    """Return a table of the main figures, each with a link to its section. Those without a file are left out."""
    folder, lines = root / "book" / "results", []
    if (path := folder / "multi30k.json").exists():
        seeds = [score(row["test_sets"][-1], "BLEU") for row in seed_groups(read(path)["rows"])["multi30k"]]
        what = f"[Captions](#results-captions), English to German: recipe `multi30k`, mean of {len(seeds)} seeds"
        lines.append([what, f"{statistics.fmean(seeds):.1f} BLEU"])
    if (path := folder / "everyday-sentences.json").exists():
        sentences = read_sentences(HUNDREDS[-1], root / "book" / "everyday_sentences.tsv")
        translations = read(path)[-1]["translations"]
        judgements = read_judgements(root / "book" / "everyday_judgements.tsv")
        right = count_right({one: translations[one] for one in sentences}, judgements)
        what = (
            "[Everyday sentences](#results-everyday) translated correctly, English to German, "
            "in the judgement of a language model"
        )
        lines.append([what, f"{right} of {len(sentences)}"])
    measured = [
        speed_ratios("train", [Measurement(**row) for row in benchmark["implementations"]])
        for path in folder.glob("bench-*.json")
        for benchmark in read(path)["benchmarks"]
        if benchmark["name"] == "train"
    ]
    name = f"train: {SAME_DROPOUT}"
    if ratios := [statistics.median(found[name]) for found in measured if name in found]:
        what = (
            "[Training speed](#results-speed) relative to `torch.nn.Transformer` with the same dropout and a large "
            "vocabulary, on one thread,"
        )
        speeds = " and ".join(f"{ratio:.1f}" for ratio in sorted(ratios))
        lines.append([f"{what} for {len(ratios)} kinds of CPU", f"{speeds} ×"])
    if (path := folder / "gpu" / "ladder.json").exists():
        facts = read(path)
        tokens = facts["results"][-1]["target_tokens_per_second"]
        what = f"[Training steps](#results-gpu) of the paper's base model on one {gpu_name(facts)}"
        lines.append([what, f"{tokens:,.0f} target tokens/s"])
    return [table(["what", "measured"], lines)] if lines else []
