"""The implementations of ``transformer bench`` under pytest-benchmark, to compare commits with each other.

Not part of ``make test``, because it takes minutes. The times are those of a round, in which slow implementations do
less than others; ``extra_info`` shows how much they do. With the extra ``bench`` installed:

    pytest tests/benchmarks/bench_implementations.py --benchmark-autosave
    pytest tests/benchmarks/bench_implementations.py -k "beam and ours" --benchmark-compare
"""

from itertools import count

import pytest
import torch

from transformer.bench.benchmarks import BENCHMARKS
from transformer.bench.runner import Benchmark, Implementation, Setting
from transformer.device import choose_device

pytest.importorskip("pytest_benchmark", reason="pip install 'transformer-course[bench]'")

SETTING = Setting(choose_device("auto"), torch.get_num_threads())
PAIRS = [
    (benchmark, implementation)
    for define in BENCHMARKS.values()
    for benchmark in [define(SETTING)]
    for implementation in benchmark.implementations
    if implementation.processes == 1
]


@pytest.mark.parametrize(("measured", "implementation"), PAIRS, ids=[f"{b.name}: {i.name}" for b, i in PAIRS])
def test_implementation(benchmark, measured: Benchmark, implementation: Implementation) -> None:
    try:
        work = implementation.prepare()
    except ImportError as error:
        pytest.skip(str(error))
    numbers = count()

    def round() -> float:
        amount = work(next(numbers))
        SETTING.device.synchronize()
        return amount

    benchmark.group = measured.title
    amount = benchmark.pedantic(round, rounds=5, warmup_rounds=1)
    benchmark.extra_info[measured.unit.removesuffix("/s")] = amount
