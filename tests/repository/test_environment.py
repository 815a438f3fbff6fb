"""environment.yml holds what pyproject.toml lists, no more and no less."""

import re
from pathlib import Path

import tomli
import yaml

ROOT = Path(__file__).parents[2]


def name(requirement):
    return re.match(r"[\w-]+", requirement).group().lower()


def test_it_is_the_list_in_pyproject():
    project = tomli.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    here = [*project["dependencies"], *extras["book"], *extras["dev"], *extras["widgets"]]
    listed = {name(one): one for one in here}

    conda = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    (pip,) = (one["pip"] for one in conda if isinstance(one, dict))
    (torch,) = (one for one in conda if isinstance(one, str) and "torch" in one)
    assert "-e ." in pip
    found = {name(one): one for one in pip if one != "-e ."} | {"torch": torch.replace("pytorch-cpu", "torch")}

    assert found == listed
