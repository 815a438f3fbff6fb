"""The benchmark: each rival is right before it is timed, and the report tells what was measured."""

import json
import os
import re
from pathlib import Path

import numpy as np
import psutil  # type: ignore[import-untyped]
import pytest
import torch
from torch import Tensor

from transformer.attention import MultiHeadAttention
from transformer.bench import race as race_module
from transformer.bench.apart import Apart
from transformer.bench.contests import (
    CONTESTS,
    Contender,
    Contest,
    Setting,
    endless_model,
    exactly,
    never,
)
from transformer.bench.engines import CTranslate2, Marian
from transformer.bench.race import NOT_INSTALLED, race
from transformer.bench.report import bench, table
from transformer.bench.rivals import (
    TorchTransformer,
    linear_cross_entropy,
    linear_dense_kl,
    uncached_beam,
    uncached_greedy,
)
from transformer.cli import main
from transformer.config import Norm
from transformer.data.batching import Sequences, collate, pad
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.decoding import beam_search, greedy_search, length_limits
from transformer.device import choose_device
from transformer.errors import UserError
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.model import ModelConfig, Transformer
from transformer.provenance import provenance
from transformer.training.trainer import batch_loss

QUICK = Setting(choose_device("cpu"), threads=1, quick=True)
LONGEST = 60


def lively_model(config: ModelConfig, eos_score: float) -> Transformer:
    """With weights so large that what it says depends on the source; eos scores ``eos_score`` more, so that it ends."""
    torch.manual_seed(0)
    model = Transformer(config).eval()
    with torch.no_grad():
        for layer in [*model.encoder, *model.decoder]:
            layer.feed_forward.outer.weight *= 4
        for attention in model.modules():
            if isinstance(attention, MultiHeadAttention):
                attention.query_key_value.weight[: 2 * config.d_model] *= 4  # queries and keys: attention that chooses
        never(model, [PAD, BOS])
        model.source_embedding.weight[EOS] += 0.1 * eos_score * config.d_model**-0.5  # times the bias
    return model


@pytest.fixture(scope="module")
def lively() -> Transformer:
    """Of the benchmark's size."""
    return lively_model(ModelConfig(500, d_model=256, d_ff=1024, n_layers=3, max_length=LONGEST), eos_score=3)


@pytest.fixture(scope="module")
def sentences() -> Tensor:
    """32 of 25 ± 12 tokens, all of them at least so long that each translation may have ``LONGEST`` tokens."""
    rng = np.random.default_rng(0)
    lengths = rng.normal(25, 12, 32).round().clip(9, LONGEST - 1).astype(int)
    return pad([[*rng.integers(4, 500, length).tolist(), EOS] for length in lengths])


@pytest.fixture(scope="module")
def expected(lively: Transformer, sentences: Tensor) -> list[list[int]]:
    """Our greedy translations, of which enough differ and end before they must."""
    found = greedy_search(lively, sentences)
    assert len({tuple(tokens) for tokens in found}) > 10
    assert 0 < sum(len(tokens) < LONGEST - 1 for tokens in found) < len(found)
    return found


def same(found: list[list[int]], expected: list[list[int]]) -> bool:
    """At its limit our search takes eos, where the engines take one more token."""
    return [tokens[: LONGEST - 1] for tokens in found] == expected


def test_uncached_greedy_search_is_ours(tiny: Transformer, source: Tensor) -> None:
    assert uncached_greedy(tiny, source) == greedy_search(tiny, source) == uncached_greedy(tiny, source, tidy=False)


@pytest.mark.parametrize("beam", [1, 2, 4, 8])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_uncached_beam_search_is_ours(beam: int, alpha: float) -> None:
    model = lively_model(ModelConfig(60, d_model=32, n_heads=4, d_ff=64, n_layers=2, max_length=30), eos_score=1)
    source = torch.randint(4, 60, (20, 6))
    found = [best.tokens for (best,) in beam_search(model, source, beam, alpha)]
    assert uncached_beam(model, source, beam, alpha) == found
    assert uncached_beam(model, source, beam, alpha, tidy=False) == found


def test_uncached_searches_are_ours_at_the_benchmarks_size(
    lively: Transformer, sentences: Tensor, expected: list[list[int]]
) -> None:
    assert uncached_greedy(lively, sentences[:8]) == expected[:8]
    assert uncached_beam(lively, sentences[:4]) == [best.tokens for (best,) in beam_search(lively, sentences[:4])]


def test_marian_says_the_same(lively: Transformer, sentences: Tensor, expected: list[list[int]]) -> None:
    pytest.importorskip("transformers", reason="pip install 'transformer-course[bench]'")
    assert same(Marian(lively).search(sentences, LONGEST, beam=1), expected)


def test_ctranslate2_says_the_same(lively: Transformer, sentences: Tensor, expected: list[list[int]]) -> None:
    pytest.importorskip("ctranslate2", reason="pip install 'transformer-course[bench]'")
    engine = CTranslate2(lively, choose_device("cpu"), threads=1)
    assert same(engine.search(engine.named(sentences), LONGEST, beam=1), expected)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("everywhere", [True, False])
def test_torch_transformer_has_our_loss(everywhere: bool, norm: Norm) -> None:
    ours = Transformer(ModelConfig(50, d_model=32, n_heads=4, d_ff=64, n_layers=2, dropout=0.0, norm=norm))
    for last in (ours.encoder_norm, ours.decoder_norm):
        for parameter in last.parameters():  # no longer what every new one has
            torch.nn.init.normal_(parameter)
    theirs = TorchTransformer(ours, everywhere)
    pairs = [[torch.randint(4, 50, (n,)).tolist() for n in lengths] for lengths in ([7, 3, 9], [5, 8, 2])]
    batch = collate(*(Sequences.pack(side) for side in pairs), indices=[0, 1, 2])
    loss = batch_loss(ours, batch, 0.1)
    torch.testing.assert_close(theirs.loss(batch, 0.1), loss)
    loss.backward()
    theirs.loss(batch, 0.1).backward()
    torch.testing.assert_close(theirs.embedding.weight.grad, ours.source_embedding.weight.grad)


def test_dropout_as_in_the_paper_is_dropout_where_ours_is() -> None:
    """In two layers a side, of two and three sublayers, and in what goes into both."""
    model = Transformer(ModelConfig(50, d_model=32, n_heads=4, d_ff=64, n_layers=2))

    def places(module: torch.nn.Module) -> int:
        dropped = [m for m in module.modules() if isinstance(m, torch.nn.Dropout) and m.p > 0]
        return len(dropped) + sum(m.dropout > 0 for m in module.modules() if isinstance(m, torch.nn.MultiheadAttention))

    assert places(model) == places(TorchTransformer(model, everywhere=False)) == 2 * 2 + 2 * 3 + 1
    assert places(TorchTransformer(model)) == places(model) + 4 + 6


def test_rival_losses_are_ours_up_to_a_constant() -> None:
    tokens, vocab_size, smoothing = 30, 50, 0.1
    weight, target = torch.randn(vocab_size, 16), torch.randint(vocab_size, (tokens,))
    x = torch.randn(tokens, 16, requires_grad=True)
    wrong, right = smoothing / vocab_size, 1 - smoothing + smoothing / vocab_size
    entropy = -tokens * (right * np.log(right) + (vocab_size - 1) * wrong * np.log(wrong))
    ours = linear_label_smoothed_cross_entropy(x, weight, target, smoothing)
    (gradient,) = torch.autograd.grad(ours, x)
    for rival, constant in ((linear_cross_entropy, 0.0), (linear_dense_kl, entropy)):
        loss = rival(x, weight, target, smoothing)
        torch.testing.assert_close(loss + constant, ours)
        torch.testing.assert_close(torch.autograd.grad(loss, x)[0], gradient)


def test_all_translations_are_as_long_as_told() -> None:
    model, source = endless_model(QUICK), torch.randint(4, 200, (4, 6))
    usual = length_limits(model, source)
    with exactly(9):
        greedy = [greedy_search(model, source), uncached_greedy(model, source)]
        beam = [[best.tokens for (best,) in beam_search(model, source)], uncached_beam(model, source)]
        assert greedy[0] == greedy[1] and beam[0] == beam[1]
        assert {len(tokens) for found in (*greedy, *beam) for tokens in found} == {8}
    assert length_limits(model, source).equal(usual)


@pytest.fixture
def without_ctranslate2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In no process, whatever is installed."""
    (tmp_path / "ctranslate2.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)


def test_the_command_measures_everything(
    without_ctranslate2: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(Apart, "peak_memory", lambda self: 2**20)
    output = tmp_path / "bench.json"
    main(["bench", "--quick", "--rounds", "2", "--device", "cpu", "--threads", "1", "--output", str(output)])
    told = capsys.readouterr().out
    kept = json.loads(output.read_text())
    assert {*provenance("cpu"), "rounds", "contests"} == set(kept)
    assert [contest["name"] for contest in kept["contests"]] == list(CONTESTS)
    for contest in kept["contests"]:
        assert contest["title"] in told
        assert [row["name"] for row in contest["contenders"]] == [
            c.name for c in CONTESTS[contest["name"]](QUICK).contenders
        ]
        for row in contest["contenders"]:
            assert f"| {row['name']} " in told
            if row["missing"]:  # nobody but the rivals of the extra may be
                assert row["missing"] == NOT_INSTALLED and re.search("Marian|CTranslate2", row["name"])
            assert row["missing"] or (len(row["speeds"]) == 2 and row["speed"] > 0 and row["speed_ratio"] > 0)
            assert row["missing"] or (row["memory_ratio"] == 1) == (contest["name"] in ("train", "loss"))


def test_a_rival_that_is_missing_is_named(without_ctranslate2: None) -> None:
    contest = CONTESTS["beam"](QUICK)
    rows = race(contest, QUICK, rounds=1, progress=False)
    (line,) = (line for line in table(contest, rows).splitlines() if "CTranslate2" in line)
    assert NOT_INSTALLED in line
    assert rows[0].speed and rows[1].speed


class Here:
    """Stands in for a process: a contest's contenders work in this one."""

    def __init__(self, contest: Contest, contender: Contender, setting: Setting) -> None:
        self.work = contender.prepare()

    def peak_memory(self) -> int:
        raise RuntimeError("ours: its process ended")

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *error: object) -> None:
        pass


def test_contenders_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_module, "Apart", Here)
    done: list[tuple[str, int]] = []

    def contender(name: str) -> Contender:
        return Contender(name, lambda: lambda number: done.append((name, number)) or 1.0)

    race(Contest("any", "", "", [contender("ours"), contender("rival")]), QUICK, rounds=2, progress=False)
    assert done == [(name, number) for number in range(3) for name in ("ours", "rival")]


def test_one_that_fails_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_module, "Apart", Here)

    def contender(name: str, fails_in: int) -> Contender:
        def work(number: int) -> float:
            if number == fails_in:
                raise torch.OutOfMemoryError("CUDA out of memory\nand more")
            return 1.0

        if fails_in < 0:
            raise_it = lambda: work(fails_in)  # noqa: E731
            return Contender(name, raise_it)  # type: ignore[arg-type]
        return Contender(name, lambda: work)

    contenders = [contender("ours", 9), contender("late", 2), contender("early", 0), contender("at once", -1)]
    contest = Contest("any", "", "", contenders)
    rows = race(contest, QUICK, rounds=2, progress=False)
    assert rows[0].speed and len(rows[0].speeds) == 2
    for row in rows[1:]:
        assert row.missing == "failed: CUDA out of memory" and row.speed is row.speed_ratio is None
        assert f"| {row.missing}" in table(contest, rows)


def test_a_memory_that_cannot_be_measured_costs_no_times(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(race_module, "Apart", Here)
    contest = CONTESTS["loss"](QUICK)
    rows = race(contest, QUICK, rounds=1, progress=False)
    assert all(row.speed and row.peak_memory is None for row in rows)
    assert table(contest, rows).count("failed") == len(rows) == capsys.readouterr().err.count("its process ended")


def test_a_contender_works_in_a_process_of_its_own() -> None:
    contest = CONTESTS["loss"](QUICK)
    with Apart(contest, contest.contenders[1], QUICK) as apart:
        pid = apart._ask(os.getpid)
        assert pid != os.getpid() and psutil.pid_exists(pid)
        assert apart._ask(torch.get_num_threads) == QUICK.threads
        assert apart.work(0) > 0
    assert not psutil.pid_exists(pid)


def test_a_process_that_dies_is_named() -> None:
    contest = CONTESTS["loss"](QUICK)
    with Apart(contest, contest.contenders[1], QUICK) as apart, pytest.raises(RuntimeError, match=r"F\.linear.* ended"):
        apart._ask(os._exit, 1)


def test_peak_memory_is_that_of_the_work() -> None:
    contest = CONTESTS["loss"](QUICK)
    with Apart(contest, contest.contenders[1], QUICK) as apart:
        assert 128 * 200 * 4 < apart.peak_memory() < 100 * 2**20


def test_numbers_out_of_range() -> None:
    with pytest.raises(UserError, match="rounds must be at least 1; got 0"):
        next(bench(["loss"], QUICK, rounds=0))
    with pytest.raises(UserError, match="threads must be at least 1; got 0"):
        next(bench(["loss"], Setting(QUICK.device, threads=0, quick=True), rounds=1))
