"""Fetch Pyodide, which is Python for browsers, from the npm package of that name; ``npm`` comes with Node.

Only the pages on which exercises are checked need it. It is too large for the repository.
"""

import base64
import hashlib
import io
import subprocess
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

PACKAGE = "pyodide@314.0.7"
SHA512 = "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
"""The package's checksum in base64, as in ``npm view PACKAGE dist.integrity``."""

FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
"""What a page loads."""


def fetch(cache: Path) -> Path:
    """Return the folder with Pyodide's files, after downloading them if they aren't in the cache yet.

    Raises:
        RuntimeError: if ``npm`` is missing, or the package can't be downloaded or has the wrong checksum.
    """
    folder = cache / PACKAGE
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        command = ["npm", "pack", PACKAGE, "--pack-destination", temporary, "--fetch-retries", "1"]
        try:
            process = subprocess.run(command, capture_output=True, encoding="utf-8")
        except FileNotFoundError:
            raise RuntimeError("npm is missing: install Node") from None
        if process.returncode:
            raise RuntimeError(f"npm can't download {PACKAGE}")
        (archive,) = Path(temporary).glob("*.tgz")
        files = unpack(archive.read_bytes(), Path(temporary, "files"))
        with suppress(OSError):  # another build was faster
            files.rename(folder)
    if not folder.exists():
        raise RuntimeError(f"cannot write to {cache}")
    return folder


def unpack(archive: bytes, folder: Path) -> Path:
    """Write the files of the package into a new folder.

    Raises:
        RuntimeError: if the package has the wrong checksum.
    """
    if base64.b64encode(hashlib.sha512(archive).digest()).decode() != SHA512:
        raise RuntimeError(f"the {PACKAGE} that npm downloaded has the wrong checksum")
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        for name in FILES:
            file = package.extractfile(f"package/{name}")
            assert file is not None
            (folder / name).write_bytes(file.read())
    return folder
