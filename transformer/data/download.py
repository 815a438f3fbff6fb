"""Download the files of a corpus and keep them in a cache folder.

A download is written to a temporary file, which gets its final name only after its checksum has been verified. So a
file under its final name is always complete. An interrupted download is resumed by the next call, from any server.
"""

import http.client
import io
import os
import shutil
import socket
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import platformdirs

from transformer.errors import UserError
from transformer.files import file_hash
from transformer.progress import progress_bar

if TYPE_CHECKING:  # slow to import, and needed only for a download
    import requests

TIMEOUT = 10.0
"""Try again if a server sends nothing for this many seconds."""
SLOW_SECONDS, SLOW_BYTES = 30.0, 30_000
"""Give up on a server that sends fewer bytes than SLOW_BYTES in SLOW_SECONDS, headers included."""
RETRIES = 3
"""How many times a failed download is retried, if the failure may be temporary."""
BACKOFF = 2.0
"""Wait this many seconds before the first retry, twice as long before the second, and so on."""
MIN_FREE_BYTES = 100_000_000
"""Free disk space that must remain after a download."""


@dataclass(frozen=True)
class RemoteFile:
    """A file to download."""

    name: str
    """File name in the cache folder and in a mirror."""
    urls: tuple[str, ...]
    """Where to download it, in order of preference."""
    digest: str
    """Checksum: ``sha256:`` or ``md5:``, then lowercase hexadecimal digits."""
    size: int | None = None
    """Size in bytes, if known."""


def data_folder() -> Path:
    """Return the folder for downloads and prepared data: $TRANSFORMER_DATA, or one in the platform's user cache."""
    configured = os.environ.get("TRANSFORMER_DATA")
    return Path(os.path.expanduser(configured)) if configured else platformdirs.user_cache_path("transformer-course")


def fetch(file: RemoteFile, folder: Path, mirror: str | None = None) -> Path:
    """Return the path of a file in ``folder``, and download it first if it is missing or has the wrong checksum.

    The checksum is verified on every call. If several processes call this at once, one of them downloads and the others
    wait for it; an empty lock file, ``.NAME.lock``, stays in the folder.

    Args:
        file: the file to fetch.
        folder: where to keep it; created if it does not exist.
        mirror: a folder or URL that contains the file under its name, used instead of ``file.urls``.

    Raises:
        UserError: if the file cannot be downloaded or stored. A file that was there before is then left unchanged, even
            if its checksum is wrong.
    """
    if mirror and "://" in mirror and not mirror.startswith(("http://", "https://")):
        raise UserError(f"a mirror must be a folder or a URL that starts with http:// or https://; got {mirror}")
    path = folder.absolute() / file.name
    try:
        if not _has_digest(path, file.digest):
            path.parent.mkdir(parents=True, exist_ok=True)
            with lock_file(path.with_name(f".{file.name}.lock"), f"another process is downloading {file.name}"):
                if not _has_digest(path, file.digest):  # another process may have been faster
                    _fetch(file, path, mirror)
    except OSError as error:
        reason = "this is a file, not a folder" if path.parent.is_file() else str(error)
        raise UserError(
            f"cannot store {file.name} in {path.parent}: {reason}. Fix this, or set $TRANSFORMER_DATA to another folder"
        ) from error
    return path


def lock_file(path: Path, reason: str) -> AbstractContextManager[object]:
    """Lock a file, for use in a ``with`` statement. If another process holds the lock, print the reason and wait."""
    lock = filelock.FileLock(path)
    try:
        return lock.acquire(blocking=False)
    except filelock.Timeout:
        print(f"{reason}: waiting until it has finished", file=sys.stderr, flush=True)
        return lock.acquire()


def _has_digest(path: Path, digest: str) -> bool:
    algorithm, _, expected = digest.partition(":")
    return path.is_file() and file_hash(path, algorithm) == expected


def _fetch(file: RemoteFile, path: Path, mirror: str | None) -> None:
    """Try all sources in order until one has the file with the right checksum."""
    sources = (f"{os.path.expanduser(mirror).rstrip('/')}/{file.name}",) if mirror else file.urls
    part = path.with_name(f".{file.name}.part")  # left by a download that was interrupted, or not there
    free = shutil.disk_usage(path.parent).free + _size(part)
    if file.size is not None and free < file.size + MIN_FREE_BYTES:
        raise UserError(
            f"{file.name} needs {(file.size + MIN_FREE_BYTES) / 1e6:,.0f} MB in {path.parent}, but only "
            f"{free / 1e6:,.0f} MB is free. Free some disk space, or set $TRANSFORMER_DATA to another folder"
        )
    failures = []
    reason = None
    try:
        for source in sources:
            reason = _download(source, part, file) if "://" in source else _copy(source, part)
            if _has_digest(part, file.digest):
                os.replace(part, path)
                return
            if not reason:
                part.unlink(missing_ok=True)
            failures.append(f"{source} ({reason or 'wrong checksum'})")
    except OSError:  # it can't be stored, for example because the disk is full
        part.unlink(missing_ok=True)
        raise
    if mirror:
        missing = reason == "no such file" or reason and reason.startswith("404 ")
        problem = f"the mirror {mirror} has no {file.name}" if missing else f"cannot use {failures[0]}"
        if "://" not in mirror and not os.path.isdir(os.path.expanduser(mirror)):
            problem = f"there is no folder {mirror}"
        raise UserError(f"{problem}: check --mirror, or leave it out to download the file")
    replacing = ", replacing the wrong file there" if path.exists() else ""
    raise UserError(
        f"could not download {file.name}: {', '.join(failures) or 'no URL is known'}. Download it yourself (its "
        f"checksum is {file.digest}) and save it as {path}{replacing}, or use --mirror"
    )


def _copy(source: str, part: Path) -> str | None:
    """Copy a file from a mirror folder; return the reason if that fails."""
    if not os.path.isfile(source):
        return "no such file"
    shutil.copyfile(source, part)
    return None


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _download(url: str, part: Path, file: RemoteFile) -> str | None:
    """Download a file, or the rest of it, with retries; return the reason if that fails."""
    import requests
    import urllib3

    class Adapter(requests.adapters.HTTPAdapter):
        """Reads all responses as `LimitedResponse`."""

        def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
            pool = super().get_connection_with_tls_context(*args, **kwargs)
            pool.ConnectionCls = type("Connection", (type(pool).ConnectionCls,), {"response_class": LimitedResponse})
            return pool

    reason = None
    with requests.Session() as session:
        for scheme in ("http://", "https://"):
            session.mount(scheme, Adapter())
        for attempt in range(RETRIES + 1):
            time.sleep(BACKOFF * attempt)
            try:
                if _stream(session, url, part, file) and not _has_digest(part, file.digest):
                    part.unlink()  # its beginning may have been that of another file
                    _stream(session, url, part, file)
                return None
            except (requests.RequestException, urllib3.exceptions.HTTPError, TooSlowError, ValueError) as error:
                reason, temporary = _explain(error)
                if not temporary:
                    break
    return reason


def _stream(session: "requests.Session", url: str, part: Path, file: RemoteFile) -> bool:
    """Write what a server sends to ``part``, after what is already there if the server can resume.

    Returns:
        Whether the download was resumed.

    Raises:
        TooSlowError: if the server is too slow.
        ValueError: if it sends more than the file has.
    """
    start = _size(part)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with session.get(url, stream=True, timeout=TIMEOUT, headers=headers) as response:
        if start and response.status_code == 416:  # there is nothing after it: it may be too long
            part.unlink()
            return _stream(session, url, part, file)
        response.raise_for_status()
        if not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            start = 0  # the server sends the whole file
        rest = response.raw.length_remaining
        total = None if rest is None else start + rest
        bar = progress_bar(f"downloading {file.name}", total, unit="B", unit_scale=True, leave=False, initial=start)
        with part.open("ab" if start else "wb") as out, bar:
            n_bytes = start
            # Never decoded: some servers label a .gz file as an encoding of the file without .gz.
            while chunk := response.raw.read1(1 << 16, decode_content=False):
                n_bytes += len(chunk)
                if file.size is not None and n_bytes > file.size:
                    part.unlink()
                    raise ValueError(f"more than the {file.size:,} bytes of the file")
                out.write(chunk)
                bar.update(len(chunk))
    return start > 0


class TooSlowError(Exception):
    """A server sends too few bytes."""


class LimitedResponse(http.client.HTTPResponse):
    """A response that gives up on a server that is too slow; a timeout only limits the wait for the next byte."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_SpeedLimit(self.fp.detach()))


class _SpeedLimit(io.RawIOBase):
    """Reads from a stream as long as it is fast enough.

    Raises:
        TooSlowError: if fewer than `SLOW_BYTES` arrive in `SLOW_SECONDS`.
    """

    def __init__(self, stream: io.RawIOBase) -> None:
        self.stream, self.n_bytes, self.since = stream, 0, time.monotonic()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        n_bytes = self.stream.readinto(buffer)
        self.n_bytes += n_bytes or 0
        if n_bytes and (seconds := time.monotonic() - self.since) >= SLOW_SECONDS:
            if self.n_bytes < SLOW_BYTES:
                raise TooSlowError(f"only {self.n_bytes:,} bytes in {seconds:.0f} s")
            self.n_bytes, self.since = 0, time.monotonic()
        return n_bytes

    def close(self) -> None:
        self.stream.close()
        super().close()


def _explain(error: Exception) -> tuple[str, bool]:
    """Describe in a few words why a download failed, and tell whether the failure may be temporary."""
    import requests
    import urllib3.exceptions

    if isinstance(error, requests.HTTPError) and error.response is not None:
        code = error.response.status_code
        return f"{code} {error.response.reason}", code == 429 or code >= 500
    cause: Any = error
    if isinstance(error, requests.RequestException) and error.args:  # from an error of urllib3, perhaps MaxRetryError
        cause = getattr(error.args[0], "reason", error.args[0])
    if isinstance(cause, urllib3.exceptions.NewConnectionError):
        return f"no connection: {str(cause).split(': ')[-1]}", False
    if isinstance(cause, urllib3.exceptions.TimeoutError):
        return f"no data for {TIMEOUT:g} s", True
    if isinstance(cause, urllib3.exceptions.ProtocolError):
        return "the connection broke", True
    return str(error).split("\n")[0][:200], False
