"""A file of a corpus on this machine, whatever the network does.

It is taken from the cache, or else from its home or a mirror. A download goes to a file of its own and takes its final
name only when its checksum is right; so what lies under that name was never half there.
"""

import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import filelock
import platformdirs
from tqdm import tqdm

from transformer.errors import UserError

TIMEOUT = 30.0
"""Seconds without a byte after which an address is given up."""
WAITS = (1.0, 4.0, 16.0)
"""Seconds to wait before each further try at an address, where what went wrong may pass."""
MARGIN = 100_000_000
"""Bytes that must stay free on the disk."""


@dataclass(frozen=True)
class RemoteFile:
    """A file that is to be had from elsewhere."""

    name: str
    """Its name in the cache folder and in a mirror."""
    addresses: tuple[str, ...]
    """Where to get it, tried in order: its home, then others that have the same file."""
    digest: str
    """Its checksum: ``sha256:`` or ``md5:``, then lowercase hexadecimal digits."""
    size: int | None = None
    """Bytes, where known."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w+-]*(\.[\w+-]+)*", self.name):
            raise UserError(f"a file's name is letters, digits, '_', '+', '-' and single dots; got {self.name!r}")
        if not re.fullmatch("sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", self.digest):
            raise UserError(f"the digest of {self.name} must be sha256:… or md5:… in full; got {self.digest!r}")


def data_folder() -> Path:
    """Where downloads and prepared data are kept: $TRANSFORMER_DATA, or the platform's cache folder."""
    named = os.environ.get("TRANSFORMER_DATA")
    return Path(os.path.expanduser(named)) if named else platformdirs.user_cache_path("transformer-course")


def fetch(file: RemoteFile, folder: Path, mirror: str | None = None) -> Path:
    """The file in ``folder``, fetched if it is not there or wrong. Its checksum is verified every time.

    Of several processes one fetches, and the others wait for it; for that, an empty ``.NAME.lock`` stays beside it.

    Args:
        file: which file.
        folder: where it is kept; made if it does not exist.
        mirror: a folder or address that has the file under its name, used instead of the file's own addresses.

    Raises:
        UserError: if it cannot be had or kept. What was in ``folder`` is then still there, even if it is wrong.
    """
    if mirror and "://" in mirror and not mirror.startswith(("http://", "https://")):
        raise UserError(f"a mirror is a folder, or an address that begins with http:// or https://; got {mirror}")
    path = folder.absolute() / file.name
    try:
        if not _is_right(path, file.digest):
            path.parent.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(path.with_name(f".{file.name}.lock")):
                if not _is_right(path, file.digest):  # or another process was quicker
                    _get(file, path, mirror)
    except OSError as error:
        reason = "that is a file, not a folder" if path.parent.is_file() else str(error)
        raise UserError(
            f"cannot keep {file.name} in {path.parent}: {reason}. Mend that, or name a folder with $TRANSFORMER_DATA"
        ) from error
    return path


def _is_right(path: Path, digest: str) -> bool:
    import pooch  # here, because it warns when a notebook without widgets imports it

    algorithm, _, expected = digest.partition(":")
    return path.is_file() and pooch.file_hash(path, algorithm) == expected


def _get(file: RemoteFile, path: Path, mirror: str | None) -> None:
    """Get the file from the first source that really has it."""
    sources = (f"{os.path.expanduser(mirror).rstrip('/')}/{file.name}",) if mirror else file.addresses
    part = path.with_name(f".{file.name}.part")
    part.unlink(missing_ok=True)  # of a process that was killed
    free = shutil.disk_usage(path.parent).free
    if file.size is not None and free < file.size + MARGIN:
        room = f"{(file.size + MARGIN) / 1e6:,.0f} MB in {path.parent}, but {free / 1e6:,.0f} MB are free"
        raise UserError(f"{file.name} needs {room}. Make room, or name a folder with $TRANSFORMER_DATA")
    failures = []
    try:
        for source in sources:
            fault = _download(source, part, file.name) if "://" in source else _copy(source, part)
            if _is_right(part, file.digest):
                os.replace(part, path)
                return
            failures.append(f"{source} ({fault or 'not the right bytes'})")
    finally:
        part.unlink(missing_ok=True)
    wrong = ", in place of the wrong one that is there" if path.exists() else ""
    raise UserError(
        f"could not get {file.name}: {', '.join(failures) or 'no address is known'}. Get it by hand (it has "
        f"{file.digest}) and put it at {path}{wrong}, or name a --mirror"
    )


def _copy(source: str, part: Path) -> str | None:
    """Copy from a folder; what went wrong, if anything."""
    if not os.path.isfile(source):
        return "there is no such file"
    shutil.copyfile(source, part)
    return None


def _download(address: str, part: Path, name: str) -> str | None:
    """Download, if need be in several tries; what went wrong in the last, if anything."""
    import pooch
    import requests

    def keep_compressed(response: requests.Response, **_: object) -> None:
        """For servers that call x.gz x, compressed for the journey: undone, that would be another file."""
        response.raw.headers.pop("Content-Encoding", None)

    fault = None
    options = {"headers": {"Accept-Encoding": "identity"}, "hooks": {"response": keep_compressed}}
    for wait in (0.0, *WAITS):
        time.sleep(wait)
        try:
            # total=1: until pooch knows better, and because it takes a bar of length 0 for none
            with tqdm(total=1, desc=name, unit="B", unit_scale=True, dynamic_ncols=True, leave=False) as bar:
                pooch.HTTPDownloader(bar, chunk_size=1 << 16, timeout=TIMEOUT, **options)(address, str(part), None)
            return None
        except (requests.RequestException, ValueError) as error:  # ValueError: of an answer that makes no sense
            fault, may_pass = _diagnose(error)
        if not may_pass:
            break
    return fault


def _diagnose(error: Exception) -> tuple[str, bool]:
    """What went wrong, in a few words, and whether it may pass."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        status = error.response.status_code
        return f"{status} {error.response.reason}", status >= 500 or status == 429  # 429: too many requests
    if "timed out" in str(error):
        return f"nothing came for {TIMEOUT:g} s", True
    if isinstance(error, (requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        reason = getattr(error.args[0], "reason", None)  # there is one only where no connection was made
        return (f"no connection: {str(reason).split(': ')[-1]}", False) if reason else ("it broke off", True)
    return str(error).split("\n")[0][:200], False
