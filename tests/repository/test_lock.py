"""requirements.lock covers pyproject.toml, has hashes, and contains neither torch nor CUDA."""

import re
import subprocess
from pathlib import Path

import pytest
import tomli
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PINS = [Requirement(line.rstrip(" \\")) for line in LOCK.splitlines() if re.match(r"[a-z0-9]", line)]


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_it_covers_pyproject(python, system):
    machine = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": system}
    pins = {canonicalize_name(p.name): p for p in PINS if not p.marker or p.marker.evaluate(machine)}
    project = tomli.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].items()
    listed = [*project["dependencies"], *(one for name, extra in extras if name != "bench" for one in extra)]
    for wanted in map(Requirement, listed):
        if wanted.name not in ("torch", "transformer-course"):  # torch has a file of its own, and extras name extras
            (version,) = (spec.version for spec in pins[canonicalize_name(wanted.name)].specifier)
            assert wanted.specifier.contains(version), wanted


def test_it_contains_neither_torch_nor_cuda():
    assert [pin.name for pin in PINS if re.match("torch|triton|nvidia|cuda", pin.name)] == []


def test_each_pin_has_hashes():
    blocks = re.split(r"^(?=[a-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(PINS)
    assert all("--hash=sha256:" in block for block in blocks)


def test_no_tracked_file_names_a_registry_host():
    hosts = ["pypi" + ".org", "python" + "hosted", "registry." + "npmjs", "download." + "pytorch"]
    found = subprocess.run(
        ["git", "grep", "-lI", *(f"-e{host}" for host in hosts)], cwd=ROOT, capture_output=True, text=True
    )
    if found.returncode > 1:
        pytest.skip("not a git checkout")
    assert [path for path in found.stdout.splitlines() if "_vendor" not in path] == []
