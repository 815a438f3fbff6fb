"""The trials to make decoding faster compute what the package computes, and are measured and shown like benchmarks."""

import json
from pathlib import Path

import pytest
import torch

from book import decoding_trials
from book._ext.results import section
from book.decoding_trials import (
    LAYERS,
    PRODUCTS,
    _batched_products,
    _cache,
    _fused,
    _in_place,
    _layer,
    _log_softmax_and_topk,
    _topk_and_logsumexp,
    as_it_is,
    main,
    result_path,
)
from transformer.bench.runner import Benchmark, Measurement

ROOT = Path(__file__).parents[2]
TOLERANCES = {"bfloat16": 0.01, "int8 (oneDNN)": 0.03}
"""Largest difference, relative to the largest output; those of float32 differ only by rounding."""


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_linear_layer_computes_the_same(name: str, layer: str) -> None:
    arguments = _layer(*LAYERS[layer])
    expected, result = as_it_is(*arguments)(), PRODUCTS[name](*arguments)()
    assert result.shape == expected.shape and result.dtype == torch.float32
    error = (result - expected).abs().max() / expected.abs().max()
    assert error < TOLERANCES.get(name, 1e-5)


def test_both_forms_of_attention_and_all_of_the_best_tokens_are_equal() -> None:
    torch.testing.assert_close(_batched_products(*_cache()), _fused(*_cache()), atol=1e-5, rtol=1e-5)
    logits = torch.randn(6, 800)
    expected = logits.log_softmax(-1).topk(10)[0]
    for form in (_log_softmax_and_topk, _topk_and_logsumexp, _in_place):
        torch.testing.assert_close(form(logits.clone()), expected, atol=1e-5, rtol=1e-5)


def test_the_result_has_a_table_for_each_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def quickly(benchmark: Benchmark, *_: object) -> list[Measurement]:
        return [Measurement(one.name, [10.0, 20.0 + i]) for i, one in enumerate(benchmark.implementations)]

    folder = tmp_path / "book" / "results"
    folder.mkdir(parents=True)
    monkeypatch.setattr(decoding_trials, "run", quickly)
    monkeypatch.setattr(decoding_trials, "RESULTS", folder)
    for capability in ("AVX2", "AVX512"):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
        assert main(["--rounds", "2"]) == 0
        names = [one["name"] for one in json.loads(result_path().read_text())["benchmarks"]]
        shipped = json.loads((ROOT / "book" / "results" / result_path().name).read_text())
        assert names == [one["name"] for one in shipped["benchmarks"]] == [*LAYERS, *names[2:]]
    tables = "".join(map(str, section("decoding-trials", tmp_path)))
    assert all(tables.count(f"**{name}:**") == 3 for name in names), "both together, then each with its speeds"
    assert "| implementation | relative time, AVX2 | relative time, AVX512 |" in " ".join(tables.split())
    assert "2 interleaved rounds" in tables and "search" in capsys.readouterr().out
