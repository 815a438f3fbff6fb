"""The bundle of widgets is what esbuild makes of the modules, needs nothing else, and computes what they compute."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from book.bundle import ENTRY, bundle, is_current
from tests.widgets import test_parity, test_small
from transformer.data.corpora import sentence_pairs
from transformer.errors import UserError
from transformer.interactive.widgets import BUNDLE, TRANSLATOR, WIDGETS, javascript, model_files, quantized
from transformer.models import load_model

MODULES = Path(__file__).parents[2] / "book" / "widgets"


def run_node(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("node") is None:
        pytest.skip("Node is not installed: what the bundle computes is not compared with PyTorch")
    return subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(Path(__file__).with_name(script))],
        env={**os.environ, "BUNDLE": str(BUNDLE), **environment},
        capture_output=True,
        text=True,
    )


def test_the_package_has_the_bundle_that_esbuild_makes() -> None:
    if shutil.which("npx") is None:
        pytest.skip("Node is not installed: the widgets are not bundled again")
    assert bundle(MODULES) == BUNDLE.read_text("utf-8")


def test_the_bundle_has_every_widget() -> None:
    modules = {path.stem for path in MODULES.glob("*.mjs") if "\nexport default { render };\n" in path.read_text()}
    modules.remove("exercise")  # for pages only: a notebook has an editor itself
    assert modules == {*WIDGETS, TRANSLATOR}
    names = re.findall(r"^var widgets = \{(.*)\};$", BUNDLE.read_text("utf-8"), re.MULTILINE)[0]
    assert {pair.split(":")[0].strip() for pair in names.split(",")} == modules


def test_the_bundle_imports_nothing_and_names_no_address() -> None:
    text = BUNDLE.read_text("utf-8")
    assert not re.search(r"^import\b|\bimport\(|\brequire\(|</script", text, re.MULTILINE)
    assert set(re.findall(r"\w+://[\w./]+", text)) <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", [*WIDGETS, TRANSLATOR])
def test_each_widget_is_a_module_with_a_default_export(name: str, tmp_path: Path) -> None:
    module = tmp_path / "widget.mjs"
    module.write_text(javascript(name), "utf-8")
    check = (
        "import(process.argv[1]).then(({ default: widget }) => console.log(typeof widget.render, widget.render.length))"
    )
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    process = subprocess.run(["node", "-e", check, module.as_uri()], capture_output=True, text=True)
    assert process.stdout == "function 1\n", process.stderr


def test_a_change_is_detected_without_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    modules, text = Path(shutil.copytree(MODULES, tmp_path / "modules")), BUNDLE.read_text("utf-8")
    assert is_current(modules, text)
    assert not is_current(modules, text.replace("Infinity", "1e9"))
    (modules / "theme.mjs").write_text("export const THEME = ``;\n", "utf-8")
    assert not is_current(modules, text)


def test_the_message_of_esbuild_is_shown(tmp_path: Path) -> None:
    if shutil.which("npx") is None:
        pytest.skip("Node is not installed")
    (tmp_path / ENTRY).write_text('export { h } from "./nowhere.mjs";\n', "utf-8")
    with pytest.raises(UserError, match=r'failed to bundle the widgets(.|\n)*Could not resolve "./nowhere.mjs"'):
        bundle(tmp_path)


def test_without_node_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="install Node"):
        bundle(MODULES)


def test_the_small_widgets_of_the_bundle_compute_what_the_package_computes(tmp_path: Path) -> None:
    process = run_node("small.test.mjs", EXPECTED=str(test_small.write_expected(tmp_path, list(test_small.CASES))))
    assert process.returncode == 0 and f"# pass {len(WIDGETS)}" in process.stdout, process.stdout[-4000:]


def test_the_model_in_the_bundle_computes_what_pytorch_computes(tmp_path: Path) -> None:
    expected = test_parity.write_expected(tmp_path, {"pocket-small": 8}, 60)
    process = run_node("parity.test.mjs", EXPECTED=str(expected))
    assert process.returncode == 0, process.stdout[-4000:]


def test_a_model_given_as_bytes_translates_as_pytorch_does(tmp_path: Path) -> None:
    translator = load_model("pocket-small", "cpu")
    sentences = [source for source, _ in sentence_pairs("pocket", "test")][:12]
    results = quantized(translator).beam_search(sentences, n_best=4)
    n_best = [[(translation.text, translation.hypothesis.score) for translation in best] for best in results]
    cases = [{"sentence": sentence, "nBest": best} for sentence, best in zip(sentences, n_best, strict=True)]
    (tmp_path / "expected.json").write_text(json.dumps(cases))
    (tmp_path / "files").mkdir()
    for name, data in model_files(translator).items():
        (tmp_path / "files" / name).write_bytes(data)
    process = run_node("bytes.test.mjs", EXPECTED=str(tmp_path))
    assert process.returncode == 0 and "# pass 2" in process.stdout, process.stdout[-4000:]
