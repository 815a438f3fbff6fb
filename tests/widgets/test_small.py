"""The functions of the small widgets, run under Node, return what the package's functions return."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from transformer.attention import attention
from transformer.config import Norm
from transformer.data import pocket
from transformer.data.bpe import learn, split_words
from transformer.layers import Residual
from transformer.loss import label_smoothed_cross_entropy
from transformer.masks import causal_mask, target_mask
from transformer.positions import angles, sinusoidal_encoding
from transformer.schedule import learning_rate

WIDGETS = Path(__file__).parents[2] / "book" / "widgets"
TOLERANCE = 1e-6
"""Largest relative difference: some results of the package are rounded to 32 bits."""

Case = tuple[str, list[Any], Any]
FAULTS = {
    "positions": ("Math.sin(angle), Math.cos(angle)", "Math.cos(angle), Math.sin(angle)"),
    "masks": ("(late || mask[q][k] ? score", "(true ? score"),
    "attention": ("(scaled ? Math.sqrt(query.length) : 1)", "query.length"),
    "merges": ("a.size - b.size ||", ""),
    "smoothing": ("1 - smoothing + smoothing / vocabulary,", "1 - smoothing,"),
    "schedule": ("warmup ** -1.5", "warmup ** -1"),
    "norm": ("normFirst ? layerNorm(x) : x", "x"),
}


def positions() -> list[Case]:
    cases: list[Case] = []
    for position, width in ((0, 4), (2, 4), (44, 16), (1000, 512)):
        encoding = sinusoidal_encoding(position + 1, width)[position]
        cases.append(("sinusoidalEncoding", [position, width], encoding.tolist()))
    angle = angles(104, 8)
    tips = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).tolist()
    three = torch.rad2deg(angle[3])
    cases += [("rotations", [tips[p], tips[p + 3]], three.tolist()) for p in (0, 7, 100)]
    cases += [("rotations", [tips[10], tips[7]], (-three).tolist())]
    return cases


def masks() -> list[Case]:
    cases: list[Case] = []
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    identity = torch.eye(5, dtype=torch.float64)
    for padding in range(6):
        ids = torch.tensor([[1] * (5 - padding) + [0] * padding])
        both, real = target_mask(ids, 0)[0, 0], (ids != 0).expand(5, 5)
        cases += [("targetMask", [5, padding, True], both.tolist()), ("targetMask", [5, padding, False], real.tolist())]
        weights = attention(scores * 5**0.5, identity, identity, both)[1]
        cases.append(("maskedWeights", [scores.tolist(), both.tolist()], weights.tolist()))
    late = scores.softmax(-1) * causal_mask(5)[0, 0]
    assert late.sum(-1).min() < 0.9
    cases.append(("maskedWeights", [scores.tolist(), causal_mask(5)[0, 0].tolist(), True], late.tolist()))
    return cases


def attention_cases() -> list[Case]:
    generator = torch.Generator().manual_seed(0)
    cases: list[Case] = []
    for d_k, n in ((2, 3), (8, 5)):
        query, key, value = (
            torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((d_k,), (n, d_k), (n, 2))
        )
        for scaled in (True, False):
            factor = 1.0 if scaled else d_k**0.5
            output, weights = attention(query[None] * factor, key, value)
            scores = key @ query * factor / d_k**0.5
            result = {"scores": scores.tolist(), "weights": weights[0].tolist(), "output": output[0].tolist()}
            cases.append(("attention", [query.tolist(), key.tolist(), value.tolist(), scaled], result))
    return cases


def merges() -> list[Case]:
    corpus = " ".join(f"{pair.source} {pair.target}" for pair in pocket.pairs("train", 12))
    texts = [
        corpus,
        "tea tea tea tea tea teapot teapot pot pot pot seat seat",
        "aaa aaaa aa, 3.14 don't ▁x 🙂🙂 ﬁ Straße",
        "",
    ]
    cases: list[Case] = []
    for text in texts:
        words = split_words(text)
        learned = [{"pair": list(merge.pair), "count": merge.count} for merge in learn(words, 200)]
        cases += [("splitWords", [text], words), ("merges", [words, 200], learned)]
    assert len(learn(split_words(corpus), 200)) == 200
    return cases


def smoothing() -> list[Case]:
    cases: list[Case] = []
    for vocabulary, eps in ((2, 0.1), (5, 0.1), (1024, 0.0), (1024, 0.1), (37_000, 0.4)):
        right = torch.zeros(1, dtype=torch.int64)
        for p in (0.005, 0.6, 0.9, 0.995):
            z = torch.full((1, vocabulary), (1 - p) / (vocabulary - 1), dtype=torch.float64)
            z[0, 0] = p
            z = z.log().requires_grad_()
            loss = label_smoothed_cross_entropy(z, right, eps)
            loss.backward()
            cases.append(("smoothedLoss", [p, vocabulary, eps], loss.item()))
            assert z.grad is not None
            q = z.exp() - z.grad  # the gradient is p - q
            cases.append(("smoothedTarget", [vocabulary, eps], q[0, :2].tolist()))
    return cases


def schedule() -> list[Case]:
    shapes = ((512, 4000, 1.0), (256, 500, 2.5), (1024, 16_000, 0.1))
    return [
        ("learningRate", [step, *shape], learning_rate(step, *shape))
        for shape in shapes
        for step in (1, 499, 4000, 100_000)
    ]


def norms() -> list[Case]:
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(16, generator=generator, dtype=torch.float64)
    matrices = torch.randn(6, 16, 16, generator=generator, dtype=torch.float64) / 4
    shifted = 3 * first + 1
    cases: list[Case] = [("layerNorm", [shifted.tolist()], F.layer_norm(shifted, (16,)).tolist())]
    for pre in (False, True):
        expected = [step.tolist() for step in residual_stream(first, matrices, "pre" if pre else "post")]
        names = ("output", "stream", "cosine")
        result = [dict(zip(names, step, strict=True)) for step in expected]
        cases.append(("residualStream", [first.tolist(), matrices.tolist(), pre], result))
    return cases


def residual_stream(first: torch.Tensor, matrices: torch.Tensor, norm: Norm) -> Iterator[torch.Tensor]:
    """Apply the package's residuals; yield mean squares of output and stream, and the cosine with the input."""
    residual = Residual(16, dropout=0.0, norm=norm).double().requires_grad_(False)
    outputs: list[torch.Tensor] = []

    def sublayer(matrix: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        outputs.append(matrix @ y)
        return outputs[-1]

    x = first
    for matrix in matrices:
        x = residual(x, partial(sublayer, matrix))
        sizes = [v.square().mean() for v in (outputs[-1], x)]
        yield torch.stack([*sizes, torch.cosine_similarity(x, first, dim=0)])


CASES: dict[str, Callable[[], list[Case]]] = {
    "positions": positions,
    "masks": masks,
    "attention": attention_cases,
    "merges": merges,
    "smoothing": smoothing,
    "schedule": schedule,
    "norm": norms,
}


def write_expected(folder: Path, names: list[str]) -> Path:
    """Compute the package's answers for these widgets, and write them into a file of this folder."""
    expected = folder / "expected.json"
    expected.write_text(json.dumps({"tolerance": TOLERANCE, "cases": {name: CASES[name]() for name in names}}))
    return expected


def node(widgets: Path, folder: Path, names: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the Node test for these widgets."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed: what the widgets compute is not compared with the package")
    expected = write_expected(folder, names)
    return subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(Path(__file__).with_name("small.test.mjs"))],
        env={**os.environ, "WIDGETS": str(widgets), "EXPECTED": str(expected)},
        capture_output=True,
        text=True,
    )


def test_the_widgets_compute_what_the_package_computes(tmp_path: Path) -> None:
    process = node(WIDGETS, tmp_path, list(CASES))
    assert process.returncode == 0, process.stdout[-4000:]
    assert f"# pass {len(CASES)}" in process.stdout


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_detected(name: str, tmp_path: Path) -> None:
    right, wrong = FAULTS[name]
    widgets = Path(shutil.copytree(WIDGETS, tmp_path / "widgets"))
    text = (widgets / f"{name}.mjs").read_text("utf-8")
    assert text.count(right) == 1, f"{name}.mjs has changed: the text of the fault must occur exactly once"
    (widgets / f"{name}.mjs").write_text(text.replace(right, wrong), "utf-8")
    process = node(widgets, tmp_path, [name])
    assert process.returncode != 0 and "SyntaxError" not in process.stdout
