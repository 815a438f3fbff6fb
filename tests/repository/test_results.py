"""The results page: its tables and figures show what the result files contain, and its prose has no other results."""

import dataclasses
import json
import math
import re
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from book._ext.results import section
from book._ext.results.curves import first_below, learning_curves, same_loss
from book._ext.results.everyday import second_opinion
from book._ext.results.experiments import change, seed_groups, three_scores
from book._ext.results.models import session_cells
from book._ext.results.scores import score
from book._ext.results.speed import earlier_version
from book._ext.results.speedrun import SPEEDRUN_GOAL, SPEEDRUN_SEEDS
from book._ext.results.spread import Spread
from book._ext.results.tables import MISSING, hardware, table
from book.everyday import HUNDREDS, confidence_interval, read_sentences
from book.experiments import EXPERIMENTS
from book.live_models import POOR
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.prepare import DataConfig
from transformer.plots.roofline import GPUS
from transformer.plots.style import Picture
from transformer.recipes import RECIPES

ROOT = Path(__file__).parents[2]
PAGE = "".join((ROOT / "book" / f"{name}.md").read_text("utf-8") for name in ("results", "experiments", "speed"))
FACTS = {
    "date": "2026-01-02 03:04 UTC",
    "commit": "abcdef1234",
    "machine": "A Fast Chip, 64 cores, Linux",
    "device": "cpu in fp32",
    "threads": 7,
    "versions": "Python 3.12.0, torch 2.9.0",
}
SIGNATURE = "nrefs:1|case:mixed|tok:13a"


def scored_on(beam: int, bleu: float, **more: Any) -> dict[str, Any]:
    named = {"corpus": "multi30k", "split": "test", "direction": "en-de", "sentences": 77, "beam_size": beam}
    values = {"BLEU": bleu, "BLEU lc": bleu + 1, "BLEU paper": bleu + 2, "chrF2": bleu + 3}
    scores = [{"name": n, "value": v, "signature": SIGNATURE, "explanation": ""} for n, v in values.items()]
    return {**named, "seconds": 5.0 * beam, "provenance": FACTS, "scores": scores, **more}


def row(label: str, seed: int, bleu: float, beams: tuple[int, ...] = (1, 4), loss: float = 1.5) -> dict[str, Any]:
    return {
        "label": label,
        "seed": seed,
        "differs": [f"model.norm: pre, now {label}"],
        "failed": None,
        "sessions": [{"step": 0, **FACTS, "command": f"transformer train pocket --training.seed {seed}"}],
        "step": 3000,
        "target_tokens": 10,
        "minutes": 1.5,
        "curve": [{"step": step, "valid_loss": loss, "minutes": 1.5} for step in (1000, 3000)],
        "parameters": 123456,
        "weights": "0",
        "test_sets": [scored_on(beam, bleu + beam) for beam in beams],
    }


def failed_row(label: str, seed: int) -> dict[str, Any]:
    whole = row(label, seed, 0)
    kept = {key: whole[key] for key in whole if key not in ("parameters", "weights", "test_sets")}
    return {**kept, "failed": "the gradient was not finite", "curve": whole["curve"][:1]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "book" / "results").mkdir(parents=True)
    return tmp_path


def write_experiment(root: Path, name: str, rows: list[dict[str, Any]], log: bool = False) -> None:
    found = {"experiment": name, "question": "?", "recipe": "pocket", "log": log, "rows": rows}
    (root / "book" / "results" / f"{name}.json").write_text(json.dumps(found))


def write_model(root: Path, name: str, found: list[dict[str, Any]]) -> None:
    folder = root / "transformer" / "models" / name
    folder.mkdir(parents=True)
    scores = {"weights": "0", "provenance": {**FACTS, "command": None}, "test_sets": found}
    (folder / "scores.json").write_text(json.dumps(scores))
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 4321, "minutes": 12.3}) + "\n")
    session = {"step": 0, **FACTS, "command": "transformer train multi30k"}
    (folder / "sessions.jsonl").write_text(json.dumps(session) + "\n")


def text(root: Path, name: str) -> str:
    """The section's Markdown, its no-break spaces as simple ones."""
    return "\n".join(part for part in section(name, root) if isinstance(part, str)).replace("\xa0", " ")


def line(shown: str, start: str) -> list[str]:
    """The cells of the one line of a table that begins so."""
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", one)[1:-1]] for one in shown.splitlines() if one[:1] == "|"
    ]
    return next(one for one in cells if one[0] == start)


OTHERS = (
    "highlights",
    "summary",
    "quality",
    "speed",
    "decoding-trials",
    "int8",
    "gpu-training",
    "gpu-ladder",
    "gpu-attention",
    "gpu-decoding",
    "gpu-real-text",
    "published",
    "language-filter",
    "live",
    "everyday-sentences",
    "speedrun-records",
)
"""The sections of the pages that are no experiments."""


NO_RESULTS = (
    "100 sentences",
    "sets of 100",
    "last 100",
    "out of 100",
    "a single count near 80 has a 95% confidence interval of about ±8",
    "20,000 sentence pairs",
    "5,000 of News Commentary",
    "8-bit",
    "int8 quantization",
    "chrF is below 40",
    "sessions of 15 minutes",
    "a {term} above 40%",
    "peak of 20 steps",
)
"""The only numbers in the prose of the pages: settings and properties of the measurements."""


def test_the_prose_has_no_results_typed_by_hand() -> None:
    prose = re.sub(r"^```.*?^```", "", PAGE, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"`[^`]*`", "", prose)
    for known in NO_RESULTS:
        assert known in prose
        prose = prose.replace(known, "")
    assert re.findall(r".*\d.*", prose) == []


def test_numbers_in_the_prose() -> None:
    assert POOR == 40 and all(len(read_sentences(name)) == 100 for name in HUNDREDS)
    assert [round(100 * side - 80) for side in confidence_interval(80, 100)] == [-9, 7]
    (bench,) = json.loads((ROOT / "book/results/gpu/big-compiled.json").read_text("utf-8"))["results"]["benchmarks"]
    real = (bench["source_tokens"] + bench["target_tokens"]) / bench["padded_tokens"]
    speed = statistics.median(bench["implementations"][0]["speeds"]) / bench["target_tokens"]
    assert 0.4 < speed * bench["flops"] * real / (GPUS["H100"].teraflops * 1e12) < 0.45


def test_every_experiment_is_on_the_page() -> None:
    assert set(re.findall(r"^```\{results\} (.+)$", PAGE, re.MULTILINE)) == {
        *EXPERIMENTS, *OTHERS
    }  # fmt: skip


def test_the_second_judge_is_compared_with_the_first() -> None:
    pairs = [("One.", "Eins."), ("Two.", "Zwei."), ("Three.", "Drei."), ("Two.", "Zwo."), ("Four.", "Vier.")]
    first = dict(zip(pairs, ("right", "right", "wrong word", "wrong word", "right"), strict=True))
    second = dict(zip(pairs[:4], ("right", "unnatural", "another word", "right"), strict=True))
    last = {"translations": dict(pairs[:3] + pairs[4:])}
    assert second_opinion(first, second, last).strip() == (
        "A second judge (see below) agreed with the first on 2 of 4 different translations. Of the 3 by the last "
        "version, the second found 1 right, and the first 2."
    )


@pytest.mark.parametrize("name", [*EXPERIMENTS, *OTHERS])
def test_a_missing_file_is_reported_on_the_page(root: Path, name: str) -> None:
    assert section(name, root) == [MISSING]


@pytest.mark.parametrize(
    "name",
    [
        *EXPERIMENTS,
        "highlights",
        "summary",
        "quality",
        "speed",
        "gpu-training",
        "gpu-ladder",
        "gpu-attention",
        "gpu-decoding",
        "gpu-real-text",
        "published",
        "language-filter",
        "live",
        "everyday-sentences",
        "speedrun-records",
    ],
)
def test_existing_files_can_be_shown(name: str) -> None:
    assert section(name) not in ([], [MISSING])


def test_the_main_figures_link_to_their_sections(root: Path) -> None:
    shown = text(ROOT, "highlights")
    assert set(re.findall(r"\(#([\w-]+)\)", shown)) <= set(re.findall(r"^\(([\w-]+)\)=$", PAGE, re.MULTILINE))
    runs = [{**row("multi30k", 1, 20), "differs": []}, {**row("multi30k-seed-2", 2, 21), "differs": []}]
    write_experiment(root, "multi30k", runs)
    (root / "book" / "results" / "gpu").mkdir()
    steps = [{"target_tokens_per_second": 1000.0}, {"target_tokens_per_second": 684331.5}]
    (root / "book" / "results" / "gpu" / "ladder.json").write_text(
        json.dumps({"gpu": "1 × X, 2 GiB", "results": steps})
    )
    shown = text(root, "highlights")
    assert "mean of 2 seeds" in shown and "24.5 BLEU" in shown  # the wider beam of each
    assert "on one X" in shown and "684,332 target tokens/s" in shown
    assert "Everyday" not in shown and "CPU" not in shown


def test_measurements_on_a_gpu(root: Path) -> None:
    folder = root / "book" / "results" / "gpu"
    folder.mkdir()
    common = {**FACTS, "gpu": "1 × Some GPU"}
    case = {"sentences": 1600, "length": 16, "mask": "padding"}
    kernels: list[dict[str, Any]] = [
        {"kernel": "EFFICIENT_ATTENTION", "milliseconds": 0.8, "milliseconds_of_new_shapes": 0.9},
        {"kernel": "FLASH_ATTENTION", "error": "no mask"},
        {"kernel": "CUDNN_ATTENTION", "milliseconds": 1.1, "milliseconds_of_new_shapes": 120.4},
        {"kernel": "MATH", "milliseconds": 1.06, "milliseconds_of_new_shapes": 1.0},
    ]
    (folder / "attention.json").write_text(json.dumps({**common, "results": [case | kernel for kernel in kernels]}))
    decoded = {"implementation": "ours", "search": "greedy", "sentences": 3003, "first_batch": 1500, "new_tokens": 30}
    missing = {"implementation": "theirs", "error": "not installed"}
    speed = {"seconds": 0.39, "sentences_per_second": 7631.4}
    (folder / "decoding.json").write_text(json.dumps({**common, "results": [decoded | speed, missing]}))
    version = {"milliseconds_per_step": 36.5, "target_tokens_per_second": 684331.5, "peak_memory": 10_563_785_216}
    (folder / "ladder.json").write_text(json.dumps({**common, "results": [{"step": "+ torch.compile", **version}]}))
    runs = [
        {
            "optimizer": optimizer,
            "residual_stream": "bf16",
            "validations": [{"step": 1000, "valid_loss": loss}],
            "test_sets": [{"name": "captions", "scores": [{"value": bleu}, {"value": 0.0}]}],
        }
        for optimizer, loss, bleu in (("adam", 7.999, 0.25), ("muon", 4.68, 34.57))
    ]
    (folder / "real-text.json").write_text(json.dumps({**common, "results": runs}))
    (folder / "big-compiled.failed.json").write_text("{}")
    shown = "".join(text(root, f"gpu-{what}") for what in ("ladder", "attention", "decoding", "real-text"))
    assert text(root, "gpu-training") == MISSING
    assert line(shown, "+ torch.compile") == ["+ torch.compile", "36.5", "684,332", "10.6"]
    assert "Adam, bfloat16" in shown and "Muon, bfloat16" in shown
    assert line(shown, "validation loss, step 1,000")[1:] == ["8.00", "4.68"]
    assert line(shown, "BLEU, captions")[1:] == ["0.2", "34.6"]
    assert line(shown, "1,600 × 16") == ["1,600 × 16", "padding", "0.80", "not supported", "1.06", "1.10", "120"]
    assert line(shown, "ours") == ["ours", "greedy", "3,003", "1,500", "30", "0.39", "7,631"]
    assert "of the base model, on one Some GPU:" in shown and "random sentences, on one Some GPU:" in shown
    assert "theirs" not in shown and "1 × Some GPU" in shown and FACTS["commit"] in shown


def test_language_filter(root: Path) -> None:
    rows = [
        {"threshold": 0.01, "dropped": 123, "precision": 0.911, "recall": 0.9},
        {"threshold": 0.02, "dropped": 152, "precision": 0.737, "recall": 0.941},
    ]
    numbers = {"pairs": 35000, "checked": 34142, "labelled": 470, "wrong": 119, "recipe": 0.01}
    sides = {"source": 28, "target": 64, "both": 31}
    facts = {"provenance": FACTS, **numbers, "thresholds": rows, "sides": sides}
    (root / "book/results/language-filter.json").write_text(json.dumps(facts))
    shown = text(root, "language-filter")
    assert line(shown, "0.02") == ["0.02", "152", "73.7%", "94.1%"]
    assert line(shown, "**0.01**") == ["**0.01**", "**123**", "**91.1%**", "**90.0%**"], "the recipe's is bold"
    assert "Of 35,000 pairs, the other filters keep 34,142; 470 of these were labelled, and 119" in shown
    assert "suspected the source in 28, the target in 64 and both in 31." in shown and FACTS["commit"] in shown


def test_live_models(root: Path) -> None:
    shares = {"guesses": {"own": 0.1, "unlike": 0.9}, "poor": {"below": 0.75, "above": 0.2}}
    model = {"sentences": 500, "bleu": 38.123, "bleu_8_bit": 38.1, "threshold": 0.5, "unlike": "news", **shares}
    facts = {"everyday": {**model, "signature": SIGNATURE, "provenance": FACTS}}
    (root / "book/results/live.json").write_text(json.dumps({"models": facts}))
    shown = text(root, "live")
    column = {
        "": "`everyday`", "sentences": "500", "BLEU": "38.12", "BLEU, 8 bits": "38.10", "threshold": "0.50",
        "guesses: own text": "10%", "guesses: other text": "90%", "poor: below": "75%", "poor: above": "20%",
        "other text is": "`news`",
    }  # fmt: skip
    for what, value in column.items():
        assert line(shown, what) == [what, value]
    assert SIGNATURE.replace("|", "\\|") in shown and FACTS["commit"] in shown


def test_mean_and_spread_over_seeds() -> None:
    found = Spread.of([1.0, 2.0, 6.0])
    assert (found.mean, found.deviation, found.n) == (3.0, pytest.approx(7**0.5), 3)
    assert found.text() == "3.0\xa0±\xa02.6" and found.text(2) == "3.00\xa0±\xa02.65"
    assert Spread.of([4.25]) == Spread(4.25, None, 1) and Spread.of([4.25]).text(2) == "4.25"
    with pytest.raises(ValueError, match="no value to take the mean of"):
        Spread.of([])


def test_variants_over_their_seeds(root: Path) -> None:
    write_experiment(
        root, "heads", [row("1", 1, 20), row("1", 2, 30), row("8", 1, 40), failed_row("8", 2), failed_row("16", 1)]
    )
    shown = text(root, "heads")
    assert line(shown, "1") == [
        "1", "26.0 ± 7.1", "29.0 ± 7.1", "30.0 ± 7.1", "1.500 ± 0.000", "123,456", "2"
    ]  # fmt: skip
    assert line(shown, "8")[1:4] == ["41.0", "44.0", "45.0"] and line(shown, "8")[-1] == "1, 1 failed"
    assert line(shown, "16") == ["16", *[""] * 5, "0, 1 failed"]
    assert "- 8: the gradient was not finite" in shown and "- 16: the gradient was not finite" in shown
    (picture,) = (part for part in section("heads", root) if isinstance(part, Picture))
    assert "1: 29.0 ± 7.1; 8: 44.0." in picture.alt and "16" not in picture.alt


@pytest.mark.parametrize(
    ("device", "shown"),
    [
        ("cpu in fp32 (fastest available device, default precision)", "cpu in fp32"),
        ("NVIDIA H200 in bf16 (fastest available device)", "NVIDIA H200 in bf16 (fastest available device)"),
    ],
)
def test_the_note_on_why_a_cpu_was_chosen_is_left_out(device: str, shown: str) -> None:
    assert hardware({"machine": "A Chip", "device": device, "threads": 2}) == f"A Chip; {shown}; threads: 2"


def test_each_run_has_its_date_commit_hardware_and_command(root: Path) -> None:
    write_experiment(root, "heads", [row("1", 1, 20), failed_row("8", 2)])
    shown = text(root, "heads")
    for seed in (1, 2):
        assert f"`transformer train pocket --training.seed {seed}`" in shown
    hardware = "A Fast Chip, 64 cores, Linux; cpu in fp32; threads: 7"
    assert shown.count(FACTS["date"]) == shown.count("`abcdef1234`") == shown.count(hardware) == 2
    assert SIGNATURE.replace("|", r"\|") in shown and "<results/heads.json>" in shown


COMMANDS = sorted(
    {
        command
        for path in (ROOT / "book" / "results").glob("*.json")
        for command in re.findall(r'"command": "(transformer train [^"]+)"', path.read_text("utf-8"))
    }
)


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_the_commands_on_the_page_have_options_that_exist(number: int) -> None:
    options = re.findall(r"--([a-z]+)\.([\w-]+)", COMMANDS[number])
    known = {"data": DataConfig, "model": ModelConfig, "training": TrainingConfig}
    fields = {section: {field.name for field in dataclasses.fields(config)} for section, config in known.items()}
    assert all(name.replace("-", "_") in fields[section] for section, name in options)


def test_a_fine_tuned_run_names_the_model_that_it_started_from() -> None:
    assert (
        change("initial_model: None, now {'name': 'everyday', 'sha256': '12'}")
        == "starts from the weights of `everyday`"
    )
    assert change("model.dropout: 0.3, now 0.15") == "dropout 0.3 → 0.15"


def test_beam_sizes_have_a_row_each(root: Path) -> None:
    write_experiment(root, "beam-width", [row("pocket", seed, 20 + seed, (1, 2, 16)) for seed in (1, 3)])
    shown = text(root, "beam-width")
    assert line(shown, "2") == ["2", "24.0 ± 1.4", "25.0 ± 1.4", "26.0 ± 1.4", "27.0 ± 1.4", "10.0 ± 0.0", "2"]
    assert line(shown, "16")[1] == "38.0 ± 1.4"


def test_a_log_shows_what_each_run_changed(root: Path) -> None:
    write_experiment(
        root,
        "multi30k",
        [row("wide", 1, 30), {**row("as-it-is", 1, 20), "differs": []}, failed_row("hot", 2)],
        log=True,
    )
    shown = text(root, "multi30k")
    (picture,) = (part for part in section("multi30k", root) if isinstance(part, Picture))
    assert picture.alt == "BLEU on the test set, en → de, beam 4. wide: 34.0; as-it-is: 24.0."
    assert line(shown, "wide") == ["wide", "31.0", "34.0", "35.0", "2"]
    assert line(shown, "hot")[1:4] == [""] * 3
    changes = shown[shown.index("changed settings") :]
    assert line(changes, "wide") == ["wide", "norm pre → wide", "3,000", "123,456"]
    assert line(changes, "as-it-is")[1] == "nothing"
    assert line(changes, "hot")[1].endswith("**the gradient was not finite**") and line(changes, "hot")[3] == ""


def test_a_log_ends_with_means_over_seeds(root: Path) -> None:
    wide = "model.d_model: 128, now 256"
    seeds = [
        {**row("usual", 1, 20), "differs": []},
        {**row("usual-seed-2", 2, 22), "differs": ["training.seed: 1, now 2"]},
        {**row("wide", 1, 90), "differs": [wide]},
        {**row("wide-2", 2, 91), "differs": [wide, "training.seed: 1, now 2"]},
        {**row("wide-3", 3, 92), "differs": [wide, "training.seed: 1, now 3"]},
        {**row("deep", 2, 50), "differs": ["model.n_layers: 4, now 8", "training.seed: 1, now 2"]},
    ]
    write_experiment(root, "multi30k", seeds, log=True)
    shown = text(root, "multi30k")
    assert line(shown, "usual, mean of 2 seeds")[1:4] == ["22.0 ± 1.4", "25.0 ± 1.4", "26.0 ± 1.4"]
    assert line(shown, "wide, mean of 3 seeds")[1:4] == ["92.0 ± 1.0", "95.0 ± 1.0", "96.0 ± 1.0"]
    assert shown.count("mean of") == 2, "one run has no mean"
    (picture,) = (part for part in section("multi30k", root) if isinstance(part, Picture))
    assert "usual: 25.0 ± 1.4; wide: 95.0 ± 1.0; deep: 54.0." in picture.alt


def test_a_log_with_one_group_of_runs_names_its_score_in_the_text(root: Path) -> None:
    write_experiment(root, "wmt14-mini", [{**row("first", 1, 20), "differs": []}], log=True)
    assert section("wmt14-mini", root)[0] == "BLEU of the run `first` on the test set (en → de, beam 4): **24.0**."


def test_where_bleu_is_noise_the_figure_has_the_losses(root: Path) -> None:
    rows = [row(label, 1, bleu, (1,), loss) for label, bleu, loss in (("Adam", -0.6, 5.25), ("Muon", 0.5, 5.0))]
    write_experiment(root, "optimizer", rows)
    picture = section("optimizer", root)[0]
    assert isinstance(picture, Picture) and picture.alt == "Validation loss by setting. Adam: 5.250; Muon: 5.000."


def test_numbers_are_right_aligned() -> None:
    shown = table(
        ["n", "name", "value"], [["1", "2 seeds", "1,234"], ["2", "none", "–"], ["4", "1", "5.0\xa0±\xa00.1"]]
    )
    first, second, third = shown.splitlines()[1].strip("|").split("|")
    assert (first[0], first[-1], second[-1], third[-1]) == (":", "-", "-", ":")


def test_an_experiment_of_failures_only(root: Path) -> None:
    for name in ("heads", "beam-width"):
        write_experiment(root, name, [failed_row("one", 1)])
        assert section(name, root) not in ([], [MISSING])
    write_experiment(root, "multi30k", [failed_row("one", 1)], log=True)
    assert "not finite" in text(root, "multi30k")


def test_learning_curves_are_means_with_a_figure_for_each_group() -> None:
    rows = [
        row("post, warm", 1, 1, loss=2),
        row("post, warm", 2, 1, loss=4),
        row("pre, warm", 1, 1),
        failed_row("pre, cold", 1),
    ]
    rows[3]["curve"].append({"step": 3000, "valid_loss": None, "minutes": 1})
    post, pre = learning_curves(rows).pictures
    assert "post-norm" in post.alt and "pre-norm" in pre.alt
    assert post.figure.axes[0].get_ylim() == pre.figure.axes[0].get_ylim()
    assert "warm ends at 3.00" in post.alt and "warm ends at 1.50" in pre.alt and "cold" in pre.alt
    (drawn,) = post.figure.axes[0].lines
    assert list(drawn.get_xdata()) == [1000, 3000] and list(drawn.get_ydata()) == [3, 3]
    cold = pre.figure.axes[0].lines[1].get_ydata()
    assert cold[0] == 1.5 and math.isnan(cold[1])
    with pytest.raises(ValueError, match="4 lines; got 5"):  # none is left out
        learning_curves([row(f"post, {label}", 1, 1) for label in "abcde"])


def test_learning_curves_without_groups_share_a_figure() -> None:
    (picture,) = learning_curves([row("long", 1, 1, loss=2), row("short", 1, 1)]).pictures
    assert len(picture.figure.axes[0].lines) == 2
    assert picture.alt == "Learning curves, validation loss. long ends at 2.00; short ends at 1.50."


def test_steps_and_minutes_to_the_same_loss() -> None:
    """All reach 2.0, the worst of the lowest losses; the losses between two validations lie on a line."""
    curves = {"slow": [(100, 4.0, 1.0), (300, 2.0, 3.0)], "fast": [(100, 3.0, 2.0), (200, 1.0, 4.0), (300, 2.5, 6.0)]}
    rows = [row(label, seed, 1) for label in curves for seed in (1, 2)]
    for one in rows:
        one["curve"] = [{"step": s, "valid_loss": v, "minutes": m} for s, v, m in curves[one["label"]]]
    rows[3]["curve"][0]["valid_loss"] = 1.9  # the second seed gets there at once
    shown = same_loss([*rows, failed_row("failed", 1)]).replace("\xa0", " ")
    assert line(shown, "setting")[1] == "steps to a validation loss of 2.000"
    assert line(shown, "slow") == ["slow", "300 ± 0", "3.00 ± 0.00", "2"]
    assert line(shown, "fast") == ["fast", "125 ± 35", "2.50 ± 0.71", "2"]
    with pytest.raises(ValueError, match="doesn't reach 0"):
        first_below(rows[0]["curve"], 0.0)


def test_what_the_page_says_about_muon() -> None:
    """At each learning rate it needs fewer steps, ends lower, and takes longer for a step."""
    found = json.loads((ROOT / "book" / "results" / "optimizer-rates.json").read_text("utf-8"))["rows"]
    curves = {row["label"]: row["curve"] for row in found}
    loss = max(min(point["valid_loss"] for point in curve) for curve in curves.values())
    assert len(curves) == 6
    for factor in ("0.5", "1", "2"):
        adam, muon = (curves[f"{name}, factor {factor}"] for name in ("Adam", "Muon"))
        assert first_below(muon, loss)[0] < first_below(adam, loss)[0]
        assert muon[-1]["valid_loss"] < adam[-1]["valid_loss"]
        assert muon[-1]["step"] == adam[-1]["step"] and muon[-1]["minutes"] > adam[-1]["minutes"]
    for name in ("Adam", "Muon"):
        assert curves[f"{name}, factor 1"][-1]["valid_loss"] == min(
            curve[-1]["valid_loss"] for label, curve in curves.items() if label.startswith(name)
        )
    for corpus in ("optimizer", "optimizer-wmt14-mini"):
        ends = {label: [row["curve"][-1]["valid_loss"] for row in group] for label, group in by_label(corpus).items()}
        assert max(ends["Muon"]) < min(ends["Adam"])


def by_label(name: str) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads((ROOT / "book" / "results" / f"{name}.json").read_text("utf-8"))["rows"]:
        groups.setdefault(one["label"], []).append(one)
    return groups


def bleu_of(name: str) -> dict[str, list[float]]:
    """The BLEU of each setting's seeds with the widest beam."""
    return {label: [score(one["test_sets"][-1], "BLEU") for one in g] for label, g in by_label(name).items()}


def test_what_the_page_concludes() -> None:
    """The answers to the questions of the sections of "One setting at a time", and of the speedrun."""
    starts, positions, heads = (bleu_of(name) for name in ("initialisation", "positions", "heads"))
    assert min(starts["xavier"]) > max(starts["normal"])
    assert (
        min(positions["rotary"])
        > max(positions["sinusoidal"])
        > min(positions["sinusoidal"])
        > max(positions["learned"])
    )
    assert max(heads["1"]) < min(min(values) for count, values in heads.items() if count != "1")
    means = {count: Spread.of(values).mean for count, values in heads.items()}
    gains = [means[after] - means[before] for before, after in pairwise(("1", "2", "4", "8", "16"))]
    assert max(gains) == gains[0] and abs(gains[-1]) < 0.1
    smoothing = {value: Spread.of(values) for value, values in bleu_of("smoothing").items()}
    assert min(smoothing, key=lambda value: smoothing[value].mean) == "0"
    losses = [
        Spread.of([one["curve"][-1]["valid_loss"] for one in group]).mean for group in by_label("smoothing").values()
    ]
    assert losses == sorted(losses)
    for one in by_label("beam-width")["pocket"]:
        bleu = {test["beam_size"]: score(test, "BLEU") for test in one["test_sets"]}
        assert bleu[1] < bleu[2] and max(bleu.values()) - bleu[4] < 0.1
    captions, speedrun = (
        seed_groups(json.loads((ROOT / "book" / "results" / f"{name}.json").read_text("utf-8"))["rows"])
        for name in ("multi30k", "captions-speedrun")
    )
    full, quick, adam = (
        Spread.of([score(one["test_sets"][-1], "BLEU") for one in group]).mean
        for group in (captions["multi30k"], speedrun["speedrun"], speedrun["adam"])
    )
    assert 5 < full - quick < 6 and 2.5 < quick - adam < 3.5
    short = {name: three_scores(group[0])[1] for name, group in speedrun.items() if name.startswith("600")}
    gained = {name.removeprefix("600-steps-"): bleu - short["600-steps"] for name, bleu in short.items()}
    assert min(gained[name] for name in ("no-dropout", "2-wider-layers", "warm-up-150")) > 1
    assert max(abs(gained[name]) for name in ("learning-rate-1.5", "smoothing-0.05")) < 0.3


def test_entries_to_the_speedrun_keep_its_rules(root: Path) -> None:
    def entry(name: str, *bleu: float, first: int = 1, **changed: Any) -> list[dict[str, Any]]:
        rows = [row(f"{name}-{seed}", seed, one - 4) for seed, one in enumerate(bleu, first)]
        for one in rows:  # row() adds the beam size, 4
            one["minutes"] = 4.0 + one["seed"] / 10
            one["sessions"][0].update({"threads": 2, **changed})
        return rows

    kept = [*entry("first", 32, 33, 35), *entry("second", 33.5, 33.5, 33.5)]
    bad = [*entry("low", 32.9, 32.9, 32.9), *entry("two", 40, 40), *entry("chosen", 40, 40, 40, first=2)]
    others = [*entry("wide", 40, 40, 40, threads=3), *entry("gpu", 40, 40, 40, device="cuda in bf16")]
    failed = [*entry("failed", 40, 40), failed_row("failed-3", 3), row("adam", 1, 40)]
    write_experiment(root, "captions-speedrun", [*bad, *kept, *others, *failed], log=True)
    shown = text(root, "speedrun-records")
    assert [one.split()[1] for one in shown.splitlines() if one[:2] == "| "] == ["entry", "first", "second"]
    assert line(shown, "second")[1:4] == ["4.2 ± 0.1", "33.5 ± 0.0", "3"]
    assert f"at least `{SPEEDRUN_GOAL}` BLEU" in PAGE and SPEEDRUN_SEEDS == 3


def test_runs_with_equal_settings_are_grouped_by_their_names() -> None:
    rows = [{**row(label, seed, 30), "differs": []} for label, seed in (("a", 1), ("a-seed-2", 2), ("b-1", 1))]
    groups = seed_groups([*rows, {**row("b-2", 2, 30), "differs": []}, failed_row("b-3", 3)])
    assert {name: [one["seed"] for one in group] for name, group in groups.items()} == {"a": [1, 2], "b": [1, 2]}


def test_pretrained_models(root: Path) -> None:
    write_model(root, "tiny-one", [scored_on(4, 33.3)])
    shown = text(root, "quality")
    assert line(shown, "`tiny-one`") == [
        "`tiny-one`", "`multi30k` test, 77 sentences, en-de", "4", "33.3", "34.3", "35.3", "36.3"
    ]  # fmt: skip
    assert "4,321" in shown and "`transformer train multi30k`" in shown and "`abcdef1234`" in shown


def test_a_signature_names_its_models_if_the_score_has_several(root: Path) -> None:
    other = scored_on(4, 33.3)
    other["scores"][0]["signature"] = "tok:intl"
    for name, test in (("a", scored_on(4, 33.3)), ("b", scored_on(4, 33.3)), ("c", other)):
        write_model(root, name, [test])
    shown = text(root, "quality")
    signatures = shown[shown.index("signature") :]
    assert line(signatures, "BLEU")[1] == "`a`, `b`" and line(signatures, "chrF2")[1] == "all"
    assert line(signatures[signatures.index("`a`, `b`") :], "BLEU")[1:] == ["`c`", "`tok:intl`"]


def test_each_session_of_a_training_is_listed_with_its_steps(root: Path) -> None:
    write_model(root, "tiny", [scored_on(4, 33.3)])
    run = root / "transformer" / "models" / "tiny"
    sessions = [{"step": step, **FACTS, "command": f"transformer train --{step}"} for step in (0, 1234)]
    (run / "sessions.jsonl").write_text("".join(json.dumps(session) + "\n" for session in sessions))
    first, second = session_cells(run)
    assert (first[:2], second[:2]) == (["0 to 1,234", "12"], ["1,234 to 4,321", ""])
    assert "--0" in first[-1] and "--1234" in second[-1]
    (run / "metrics.jsonl").unlink()
    assert [cells[:2] for cells in session_cells(run)] == [["0 to 1,234", ""], ["from 1,234", ""]]


def test_the_summary_has_the_widest_beam_of_each_test_set(root: Path) -> None:
    write_model(root, "tiny", [scored_on(1, 22.2), scored_on(4, 33.3), scored_on(4, 44.4, direction="de-en")])
    (picture,) = section("summary", root)
    assert isinstance(picture, Picture) and "22.2" not in picture.alt
    assert "captions, en → de: tiny, 33.3; captions, de → en: tiny, 44.4." in picture.alt


def test_scores_that_can_be_compared_are_next_to_each_other_in_the_summary(root: Path) -> None:
    for name in ("one", "two"):
        write_model(root, name, [scored_on(4, 33.3), scored_on(4, 44.4, direction="de-en")])
    (picture,) = section("summary", root)
    assert isinstance(picture, Picture)
    assert [label.split(",")[1] for label in picture.alt.split(";")] == [
        " en → de: one",
        " en → de: two",
        " de → en: one",
        " de → en: two",
    ]


def test_published_scores_are_next_to_ours_on_the_same_test_set_only(root: Path) -> None:
    (root / "book" / "results" / "published.json").write_text(
        (ROOT / "book" / "results" / "published.json").read_text("utf-8")
    )
    assert "not measured yet" in line(text(root, "published"), "Transformer-tiny, 2.6M parameters")
    write_model(root, "mine", [scored_on(4, 33.3), scored_on(4, 60, direction="de-en")])
    shown = text(root, "published")
    tiny = line(shown, "Transformer-tiny, 2.6M parameters")
    assert tiny[2] == "41.02" and tiny[4] == "34.3 (`mine`, BLEU lc, beam 4)"
    paper = line(shown, "Transformer base, the paper")
    assert paper[2:5] == ["27.3", "tokenised BLEU, words split at hyphens", "not measured yet"]
    assert paper[5] == "Vaswani et al., 2017, NeurIPS {cite}`vaswani2017`"
    assert "60" not in tiny[4] and line(shown, "NVIDIA DeepLearningExamples, big, 8 A100")[2] == "27.8 to 28.1"


def test_published_sources_are_in_the_bibliography() -> None:
    keys = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "book" / "references.bib").read_text("utf-8"), re.MULTILINE))
    systems = json.loads((ROOT / "book" / "results" / "published.json").read_text("utf-8"))["systems"]
    assert {one["key"] for one in systems if one["key"]} <= keys


def test_speed_and_memory(root: Path) -> None:
    ours = {"name": "ours", "speeds": [1234.0], "peak_memory": 2**30}
    theirs = {"name": "theirs", "speeds": [617.0], "peak_memory": 2**31}
    benchmark = {"name": "train", "title": "a step", "unit": "tokens/s", "implementations": [ours, theirs]}
    recipe = {
        "name": "pocket", "title": "training steps, 654,321 parameters", "unit": "tokens/s", "parameters": 654321,
        "steps": 6000, "recipe_batch_tokens": 250, "batch_tokens": 250,
        "data": "random", "compiled": False, "target_tokens": 617.0, "source_tokens": 600.0, "padded_tokens": 1300.0,
        "flops": 1e9, "loading_seconds": 0.01,
        "implementations": [ours, theirs, {"name": "matrix products alone", "speeds": [2468.0]}],
    }  # fmt: skip
    for name, found in (("a", benchmark), ("b", recipe)):
        path = root / "book" / "results" / f"bench-{name}.json"
        path.write_text(
            json.dumps({**FACTS, "command": f"transformer bench {name}", "rounds": "5, in turn", "benchmarks": [found]})
        )
    shown = text(root, "speed")
    assert line(shown, "ours") == ["ours", "1,234", "1.00 ×", "1,024 MiB", "1.00 ×"]
    assert line(shown, "theirs") == ["theirs", "617", "2.00 ×", "2,048 MiB", "2.00 ×"]
    assert line(shown, "time per step")[1] == "500 ms" and line(shown, "share of measured peak")[1] == "50.0%"
    today = RECIPES["pocket"].model.n_parameters
    assert "**pocket:** training steps, 654,321 parameters" in shown
    assert f"an earlier version of `pocket`, with 654,321 parameters. The current one has {today:,}" in shown
    assert "Training `pocket`, an earlier version: A Fast Chip" in shown
    assert earlier_version({"name": "pocket", "parameters": today}) == ""
    assert "`transformer bench a`" in shown and "`transformer bench b`" in shown


def test_speeds_are_compared_round_by_round(root: Path) -> None:
    ours = {"name": "ours", "speeds": [10.0, 30.0], "peak_memory": None}
    theirs = {"name": "theirs", "speeds": [5.0, 60.0], "peak_memory": None}
    failed = {"name": "failed", "speeds": [], "peak_memory": None, "error": "ran out of memory"}
    rows = [ours, theirs, failed]
    named = [{"name": n, "title": "", "unit": "tokens/s", "implementations": rows} for n in ("beam", "beam-long")]
    path = root / "book" / "results" / "bench-a.json"
    path.write_text(json.dumps({**FACTS, "command": "transformer bench", "rounds": "2", "benchmarks": named}))
    picture, _ = section("speed", root)
    assert isinstance(picture, Picture)
    assert picture.alt.replace("\xa0", " ").endswith("median over the rounds: beam search: theirs: 1.25.")
    assert picture.figure.axes[0].get_title("left") == "A Fast Chip"
    (axes,) = picture.figure.axes
    assert {x for x, _ in np.asarray(axes.collections[0].get_offsets())} == {0.5, 2.0} and axes.get_xscale() == "log"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_only_figures_are_unfolded(name: str) -> None:
    unfolded = re.sub(r"^::::\{dropdown\}.*?^::::$", "", text(ROOT, name), flags=re.DOTALL | re.MULTILINE)
    assert "|" not in unfolded
