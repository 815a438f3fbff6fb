"""The contenders of ``transformer bench`` under pytest-benchmark, to compare commits with each other.

Not part of ``make test``: it takes minutes. The times are those of a round, in which the slow do less than the others:
``extra_info`` says how much. With the extra ``bench`` installed:

    pytest tests/benchmarks/bench_contests.py --benchmark-autosave
    pytest tests/benchmarks/bench_contests.py -k "beam and ours" --benchmark-compare
"""

from itertools import count

import pytest
import torch

from transformer.bench.contests import CONTESTS, Contender, Contest, Setting
from transformer.device import choose_device

pytest.importorskip("pytest_benchmark", reason="pip install 'transformer-course[bench]'")

SETTING = Setting(choose_device("auto"), torch.get_num_threads())
PAIRS = [
    (contest, contender)
    for make in CONTESTS.values()
    for contest in [make(SETTING)]
    for contender in contest.contenders
]


@pytest.mark.parametrize(("contest", "contender"), PAIRS, ids=[f"{contest.name}: {c.name}" for contest, c in PAIRS])
def test_contender(benchmark, contest: Contest, contender: Contender) -> None:
    try:
        work = contender.prepare()
    except ImportError as error:
        pytest.skip(str(error))
    numbers = count()
    benchmark.group = contest.title
    amount = benchmark.pedantic(work, setup=lambda: ((next(numbers),), {}), rounds=5, warmup_rounds=1)
    benchmark.extra_info[contest.unit.removesuffix("/s")] = amount
