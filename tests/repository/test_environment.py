"""The environments for conda: the package with the extra for the book, and PyTorch from conda-forge."""

import re
from pathlib import Path

import pytest
import tomli
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomli.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def dependencies(file):
    environment = yaml.safe_load((ROOT / file).read_text("utf-8"))
    assert environment["channels"] == ["conda-forge"]
    (pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    return [entry for entry in environment["dependencies"] if isinstance(entry, str)], pip


@pytest.mark.parametrize(
    ("file", "pytorch"), [("environment.yml", "pytorch"), (".binder/environment.yml", "pytorch-cpu")]
)
def test_pytorch_is_the_version_of_pyproject_and_binder_has_the_cpu_build(file, pytorch):
    (torch,) = (entry for entry in PROJECT["dependencies"] if re.match(r"torch\b", entry))
    conda, _ = dependencies(file)
    assert [entry for entry in conda if "torch" in entry] == [torch.replace("torch", pytorch)]


@pytest.mark.parametrize("file", ["environment.yml", ".binder/environment.yml"])
def test_pip_installs_this_checkout_with_an_extra_that_exists(file):
    _, (course,) = dependencies(file)
    path, extra = re.fullmatch(r"-e (\.+)\[(\w+)\]", course).groups()
    folder = (ROOT / file).parent  # conda runs pip in the folder of the environment file
    assert (folder / path).resolve() == ROOT
    assert extra in PROJECT["optional-dependencies"]
