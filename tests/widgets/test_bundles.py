"""Each widget as one file: it computes what its modules compute, needs nothing else, and is what esbuild makes."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from book.bundle import bundles, widgets
from tests.widgets import test_parity, test_small
from transformer.data.corpora import sentence_pairs
from transformer.interactive.widgets import BUNDLES, model_files
from transformer.models import load_model

WIDGETS = Path(__file__).parents[2] / "book" / "widgets"


def bundled(folder: Path, *names: str) -> Path:
    """A folder with these modules, each bundled."""
    if shutil.which("npx") is None:
        pytest.skip("no Node on this machine: no widget is bundled anew")
    folder.mkdir()
    for name, text in bundles(WIDGETS, names).items():
        (folder / f"{name}.mjs").write_text(text, "utf-8")
    return folder


def test_the_package_has_every_widget_and_no_other() -> None:
    assert sorted(path.name for path in BUNDLES.iterdir()) == [f"{name}.mjs" for name in widgets(WIDGETS)]
    assert {"attention", "translator"} < set(widgets(WIDGETS))


def test_the_package_has_what_esbuild_makes_of_the_modules(tmp_path: Path) -> None:
    made = bundled(tmp_path / "made", *widgets(WIDGETS))
    assert all(path.read_text("utf-8") == (BUNDLES / path.name).read_text("utf-8") for path in made.iterdir())


@pytest.mark.parametrize("name", widgets(WIDGETS))
def test_a_bundle_needs_nothing_else(name: str) -> None:
    text = (BUNDLES / f"{name}.mjs").read_text("utf-8")
    assert not re.search(r"^import\b|\bimport\(|\brequire\(|</script", text, re.MULTILINE)
    assert set(re.findall(r"\w+://[\w./]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert re.search(rf"^export \{{[^}}]*\b{name}_default as default\b", text, re.MULTILINE)


def test_what_esbuild_does_not_understand_is_told(tmp_path: Path) -> None:
    (tmp_path / "one.mjs").write_text('import { h } from "./nowhere.mjs";\n\nexport default { render };\n')
    with pytest.raises(RuntimeError, match=r'cannot bundle the widgets(.|\n)*Could not resolve "./nowhere.mjs"'):
        bundles(tmp_path, ["one"])


def test_without_node_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="install Node"):
        bundles(WIDGETS, ["masks"])


def test_the_packages_bundles_compute_what_the_package_computes(tmp_path: Path) -> None:
    ended = test_small.node(BUNDLES, tmp_path, list(test_small.MADE))
    assert ended.returncode == 0, ended.stdout[-4000:]


def test_bundled_the_model_computes_what_pytorch_computes(tmp_path: Path) -> None:
    modules = bundled(tmp_path / "bundled", "safetensors", "tokenizer", "model", "search")
    ended = test_parity.node(modules, test_parity.write_expected(tmp_path, {"pocket-small": 8}, 60))
    assert ended.returncode == 0, ended.stdout[-4000:]


def test_a_model_handed_over_as_bytes_translates_as_pytorch_does(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("no Node on this machine: what the bundles compute is not compared with PyTorch")
    translator = load_model("pocket-small", "cpu")
    sentences = [source for source, _ in sentence_pairs("pocket", "test")][:12]
    found = [[(t.text, t.hypothesis.score) for t in best] for best in translator.beam(sentences, n_best=4)]
    told = [{"sentence": sentence, "found": best} for sentence, best in zip(sentences, found, strict=True)]
    (tmp_path / "expected.json").write_text(json.dumps(told))
    (tmp_path / "files").mkdir()
    for name, data in model_files(translator).items():
        (tmp_path / "files" / name).write_bytes(data)
    modules = bundled(tmp_path / "bundled", "translation", "search")
    ended = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(Path(__file__).with_name("own.test.mjs"))],
        env={**os.environ, "BUNDLES": str(modules), "EXPECTED": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0 and "# pass 2" in ended.stdout, ended.stdout[-4000:]
