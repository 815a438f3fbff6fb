"""A widget and all that it imports as one file, for where there is no server: a notebook, or a page that stands alone.

esbuild makes it, and npm's ``npx`` fetches esbuild. What it made is kept in the package, so nobody else needs either:
each bundle's first line tells which modules it was made from, and whether it is still as it was made.
"""

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ESBUILD = "esbuild@0.25.12"
DEFAULT = "\nexport default { render };\n"
"""What makes a module a widget."""


def widgets(folder: Path) -> list[str]:
    """The names of the modules that are widgets; the others are there to be imported."""
    return sorted(path.stem for path in folder.glob("*.mjs") if DEFAULT in path.read_text("utf-8"))


def bundles(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Each of these modules with all that it imports, as the text of one module that exports the same.

    Raises:
        RuntimeError: if there is no ``npx``, or esbuild cannot be had or does not understand a module.
    """
    with TemporaryDirectory() as made:
        command = ["npx", "--yes", ESBUILD, *(f"{name}.mjs" for name in names), "--bundle", "--format=esm"]
        command += ["--charset=utf8", "--out-extension:.js=.mjs", f"--outdir={made}"]
        try:
            ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        except FileNotFoundError:
            raise RuntimeError("the widgets are bundled by esbuild, and that needs Node's npx: install Node") from None
        if ended.returncode:
            raise RuntimeError(f"{ESBUILD} cannot bundle the widgets:\n{ended.stderr}")
        texts = {name: Path(made, f"{name}.mjs").read_text("utf-8") for name in names}
    return {name: f"{_stamp(folder, text)}\n{text}" for name, text in texts.items()}


def is_current(folder: Path, bundle: str) -> bool:
    """Whether a bundle was made from the modules as they are now, and nobody changed it since."""
    stamp, _, text = bundle.partition("\n")
    return stamp == _stamp(folder, text)


def _stamp(folder: Path, text: str) -> str:
    """A bundle's first line: checksums of all modules and of the bundle itself."""
    modules = "".join(f"{path.name}\n{path.read_text('utf-8')}" for path in sorted(folder.glob("*.mjs")))
    return (
        f"// Made by `make notebooks` with {ESBUILD} from book/widgets ({_checksum(modules)}): "
        f"change it there, not here ({_checksum(text)})."
    )


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
