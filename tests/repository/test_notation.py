"""The names that the page on notation gives for other libraries are those that the package translates its own into."""

import re
from pathlib import Path

from transformer.bench.baselines import TORCH_RENAMES
from transformer.config import ModelConfig
from transformer.huggingface import MARIAN_RENAMES, rename
from transformer.model import Transformer

PAGE = Path(__file__).parents[2] / "book" / "notation.md"


def test_names_in_other_libraries() -> None:
    section = PAGE.read_text("utf-8").partition("## Names in other libraries")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")]
    weights = [*Transformer(ModelConfig(8, d_model=8, n_heads=2, d_ff=8, n_layers=1, norm="pre")).state_dict()]
    assert len(rows) == 12
    for ours, theirs_in_torch, theirs_in_marian in rows:
        for name in re.findall("`([^`]+)`", ours):
            half = re.search(r"in the (\w+)$", ours)
            found = [w for w in weights if f".{name}" in f".{w}" and (half is None or w.startswith(half[1]))]
            assert found, name
            for weight in found:
                in_torch = rename(weight, TORCH_RENAMES)
                in_marian = [
                    rename(weight, MARIAN_RENAMES).replace("query_key_value", f"{letter}_proj") for letter in "qkv"
                ]
                for one in re.findall("`([^`]+)`", theirs_in_marian):
                    assert any(one in other for other in in_marian), (weight, one)
                if not theirs_in_torch.startswith("none"):
                    assert theirs_in_torch.strip("`") in in_torch, weight
