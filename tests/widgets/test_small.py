"""The small widgets compute what the package computes: their functions under Node, its functions here."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer.attention import attention
from transformer.masks import causal_mask, target_mask
from transformer.positions import angles, sinusoidal_encoding

WIDGETS = Path(__file__).parents[2] / "book" / "widgets"
TOLERANCE = 1e-6
"""Between two numbers, as a share of the larger one: the package rounds some of its answers to 32 bits."""

Case = tuple[str, list[Any], Any]
FAULTS = {
    "positions": ("Math.sin(angle), Math.cos(angle)", "Math.cos(angle), Math.sin(angle)"),
    "masks": ("(late || mask[q][k] ? score", "(true ? score"),
    "attention": ("(scaled ? Math.sqrt(query.length) : 1)", "query.length"),
}


def positions() -> list[Case]:
    cases: list[Case] = []
    for position, width in ((0, 4), (2, 4), (44, 16), (1000, 512)):
        encoding = sinusoidal_encoding(position + 1, width)[position]
        cases.append(("sinusoidalEncoding", [position, width], encoding.tolist()))
    angle = angles(104, 8)
    tips = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).tolist()
    cases += [("turns", [tips[p], tips[p + 3]], torch.rad2deg(angle[3]).tolist()) for p in (0, 7, 100)]
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


def lookups() -> list[Case]:
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
            told = {"scores": scores.tolist(), "weights": weights[0].tolist(), "output": output[0].tolist()}
            cases.append(("attention", [query.tolist(), key.tolist(), value.tolist(), scaled], told))
    return cases


MADE: dict[str, Callable[[], list[Case]]] = {"positions": positions, "masks": masks, "attention": lookups}


def node(widgets: Path, folder: Path, names: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the Node test for these widgets."""
    if shutil.which("node") is None:
        pytest.skip("no Node on this machine: what the widgets compute is not compared with the package")
    expected = folder / "expected.json"
    expected.write_text(json.dumps({"tolerance": TOLERANCE, "cases": {name: MADE[name]() for name in names}}))
    return subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(Path(__file__).with_name("small.test.mjs"))],
        env={**os.environ, "WIDGETS": str(widgets), "EXPECTED": str(expected)},
        capture_output=True,
        text=True,
    )


def test_the_widgets_compute_what_the_package_computes(tmp_path: Path) -> None:
    ended = node(WIDGETS, tmp_path, list(MADE))
    assert ended.returncode == 0, ended.stdout[-4000:]
    assert f"# pass {len(MADE)}" in ended.stdout


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_noticed(name: str, tmp_path: Path) -> None:
    right, wrong = FAULTS[name]
    widgets = Path(shutil.copytree(WIDGETS, tmp_path / "widgets"))
    text = (widgets / f"{name}.mjs").read_text("utf-8")
    assert text.count(right) == 1, f"{name}.mjs has changed: the fault is planted nowhere, or twice"
    (widgets / f"{name}.mjs").write_text(text.replace(right, wrong), "utf-8")
    ended = node(widgets, tmp_path, [name])
    assert ended.returncode != 0 and "SyntaxError" not in ended.stdout
