"""Downloads from a local server, with injected faults."""

import errno
import gzip
import hashlib
import http.server
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.data import download
from transformer.data.download import RemoteFile, data_folder, fetch
from transformer.errors import UserError

ROOT = Path(__file__).parents[3]
NAME = "corpus-v9.tgz"
DATA = gzip.compress(bytes(range(256)) * 2000, mtime=0) + random.Random(1).randbytes(300_000)
DIGEST = "sha256:" + hashlib.sha256(DATA).hexdigest()
LEFT, PART = f".{NAME}.lock", f".{NAME}.part"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answer each request for a path with the next of its planned answers; the last one is repeated."""

    server: "Server"

    def do_GET(self) -> None:
        self.server.hits[self.path] += 1
        answers = self.server.answers.get(self.path, [status(404)])
        answers[min(self.server.hits[self.path], len(answers)) - 1](self)

    def head(self, code: int = 200, **headers: object) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hits: Counter[str] = Counter()
        self.ranges: list[str] = []
        self.answers: dict[str, list[Answer]] = {}
        self.release = threading.Event()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def plan(self, *answers: "Answer", path: str = "/a") -> str:
        """Plan these answers, and return their URL."""
        self.answers[path] = list(answers)
        self.ranges.clear()
        self.hits[path] = 0
        return f"http://127.0.0.1:{self.server_port}{path}"

    def handle_error(self, *args: object) -> None:
        pass  # the client went away


Answer = Callable[[Handler], None]


def right(h: Handler) -> None:
    h.head(Content_Length=len(DATA))
    h.wfile.write(DATA)


def resumable(h: Handler) -> None:
    """Send what a Range asks for, as most servers can."""
    if h.headers["Range"] is None:
        return right(h)
    h.server.ranges.append(h.headers["Range"])
    start = int(h.headers["Range"].removeprefix("bytes=").removesuffix("-"))
    if start >= len(DATA):
        return h.head(416, Content_Length=0)
    h.head(206, Content_Length=len(DATA) - start, Content_Range=f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
    h.wfile.write(DATA[start:])


def right_without_length(h: Handler) -> None:
    h.head()
    h.wfile.write(DATA)


def right_but_labelled(h: Handler) -> None:
    """As some servers do with all files that end in .gz or .tgz."""
    h.head(Content_Length=len(DATA), Content_Encoding="x-gzip")
    h.wfile.write(DATA)


def right_when_released(h: Handler) -> None:
    h.server.release.wait(20)
    right(h)


def wrong(h: Handler) -> None:
    h.head(Content_Length=len(DATA))
    h.wfile.write(DATA[:-1] + bytes([DATA[-1] ^ 1]))


def cut(h: Handler) -> None:
    """Send half of the file, with a matching length."""
    h.head(Content_Length=len(DATA) // 2)
    h.wfile.write(DATA[: len(DATA) // 2])


def broken(h: Handler) -> None:
    h.head(Content_Length=len(DATA))
    h.wfile.write(DATA[: len(DATA) // 2])


def reset(h: Handler) -> None:
    broken(h)
    h.wfile.flush()
    h.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    h.connection.close()


def silent(h: Handler) -> None:
    h.connection.close()  # without any response


def stalled(h: Handler) -> None:
    h.server.release.wait(20)


def stalled_halfway(h: Handler) -> None:
    broken(h)
    h.server.release.wait(20)


def right_with_nonsense(h: Handler) -> None:
    h.head(Content_Length="many")
    h.wfile.write(DATA)


def status(code: int) -> Answer:
    return lambda h: h.head(code, Content_Length=0)


def redirect(to: str) -> Answer:
    return lambda h: h.head(302, Location=to, Content_Length=0)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def impatient(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(download, "RETRIES", 2)
    monkeypatch.setattr(download, "BACKOFF", 0.0)
    monkeypatch.setattr(download, "TIMEOUT", 0.3)
    monkeypatch.setenv("NO_PROXY", "*")
    server.release.clear()
    yield
    server.release.set()


@pytest.fixture
def refused() -> Iterator[str]:
    """The URL of a port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/a"


def remote(*addresses: str, size: int | None = None) -> RemoteFile:
    return RemoteFile(NAME, addresses, DIGEST, size)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def refusal(file: RemoteFile, folder: Path, mirror: str | None = None) -> str:
    """The error message. Check that it is one line, and that only the right beginning of the file may be left."""
    with pytest.raises(UserError) as caught:
        fetch(file, folder, mirror)
    assert all(DATA.startswith(path.read_bytes()) for path in folder.glob(".*.part"))
    message = str(caught.value)
    del caught  # or the response that is left in its traceback would be closed late, with a warning
    assert "\n" not in message
    return message


# Successful downloads


def test_a_file_is_downloaded_only_once(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = remote(server.plan(right), size=len(DATA))
    path = fetch(file, Path("new/folder"))
    assert path == tmp_path / "new/folder" / NAME and path.read_bytes() == DATA
    assert names(path.parent) == {NAME, LEFT}
    out, err = capsys.readouterr()
    assert out == "" and err == f"downloading {NAME}\n"  # without a terminal, a line and no bar
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()
    assert fetch(file, path.parent) == path
    assert server.hits["/a"] == 1


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_md5_too(server: Server, tmp_path: Path) -> None:
    md5 = "md5:" + hashlib.md5(DATA).hexdigest()
    assert fetch(RemoteFile(NAME, (server.plan(right),), md5), tmp_path).read_bytes() == DATA
    message = refusal(RemoteFile("other", (server.plan(right),), "md5:" + "0" * 32), tmp_path)
    assert "(wrong checksum)" in message and "(its checksum is md5:0000" in message


@pytest.mark.parametrize("answer", [right_without_length, right_but_labelled, right_with_nonsense])
def test_unusual_headers(server: Server, tmp_path: Path, answer: Answer) -> None:
    assert fetch(remote(server.plan(answer)), tmp_path).read_bytes() == DATA


def test_redirected(server: Server, tmp_path: Path) -> None:
    there = server.plan(right, path="/there")
    assert fetch(remote(server.plan(redirect(there))), tmp_path).read_bytes() == DATA


def test_a_right_file_needs_no_request_and_no_lock(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(DATA)
    assert fetch(remote("http://127.0.0.1:9/"), tmp_path, mirror="/nowhere") == tmp_path / NAME
    assert names(tmp_path) == {NAME}


# Temporary failures


@pytest.mark.parametrize(
    "fault", [broken, reset, silent, status(500), status(503), status(429), stalled, stalled_halfway]
)
def test_temporary_failures_are_retried(server: Server, tmp_path: Path, fault: Answer) -> None:
    assert fetch(remote(server.plan(fault, right)), tmp_path).read_bytes() == DATA
    assert server.hits["/a"] == 2 and names(tmp_path) == {NAME, LEFT}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (broken, "the connection broke"),
        (reset, "the connection broke"),
        (silent, "the connection broke"),
        (status(500), "500 Internal Server Error"),
        (status(429), "429 Too Many Requests"),
        (stalled, "no data for 0.3 s"),
        (stalled_halfway, "no data for 0.3 s"),
    ],
)
def test_retries_are_limited(server: Server, tmp_path: Path, fault: Answer, reason: str) -> None:
    started = time.monotonic()
    address = server.plan(fault)
    assert f"could not download {NAME}: {address} ({reason}). " in refusal(remote(address), tmp_path)
    assert server.hits["/a"] == 3
    assert time.monotonic() - started < 5


def test_a_connection_that_is_never_accepted(tmp_path: Path) -> None:
    with ExitStack() as sockets:
        listening = sockets.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(3):  # fill its queue
            client = sockets.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/a"
        started = time.monotonic()
        assert f"{address} (no data for 0.3 s). " in refusal(remote(address), tmp_path)
        assert 0.9 <= time.monotonic() - started < 5  # three tries


def test_no_compression_is_requested(server: Server, tmp_path: Path) -> None:
    def noting(h: Handler) -> None:
        h.server.hits[h.headers["Accept-Encoding"]] += 1
        right(h)

    fetch(remote(server.plan(noting)), tmp_path)
    assert server.hits["identity"] == 1


def test_waits_between_retries_grow(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for fault in (status(500), broken):
        slept.clear()
        refusal(remote(server.plan(fault)), tmp_path)
        assert slept == [0, 2, 4, 6]


# Permanent failures


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (status(404), "404 Not Found"),
        (status(403), "403 Forbidden"),
        (status(416), "416 Requested Range Not Satisfiable"),
        (wrong, "wrong checksum"),
        (cut, "wrong checksum"),
        (redirect("/a"), "Exceeded 30 redirects."),
        (redirect("http://[/"), "Invalid IPv6 URL"),
    ],
)
def test_permanent_failures_are_not_retried(server: Server, tmp_path: Path, fault: Answer, reason: str) -> None:
    first = server.plan(fault)
    assert f"{first} ({reason})" in refusal(remote(first), tmp_path)
    assert server.hits["/a"] == (31 if "redirects" in reason else 1)
    assert fetch(remote(first, server.plan(right, path="/b")), tmp_path).read_bytes() == DATA
    assert names(tmp_path) == {NAME, LEFT}


def test_refused_connections_and_unknown_hosts(
    server: Server, tmp_path: Path, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo

    def look_up_here(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up_here)
    monkeypatch.setattr(download, "BACKOFF", 9.0)  # but it does not retry
    started = time.monotonic()
    message = refusal(remote(refused, "http://nowhere.invalid/a", "http:///a", "gopher://a/b"), tmp_path)
    assert f"{refused} (no connection: [Errno {errno.ECONNREFUSED}] Connection refused)" in message
    assert "http://nowhere.invalid/a (no connection: Failed to resolve 'nowhere.invalid'" in message
    assert "http:///a (Invalid URL" in message and "gopher://a/b (No connection adapters" in message
    assert time.monotonic() - started < 5
    assert fetch(remote(refused, server.plan(right)), tmp_path).read_bytes() == DATA


def test_the_message_lists_all_failures_and_what_to_do(server: Server, tmp_path: Path, refused: str) -> None:
    a, b = server.plan(status(404)), server.plan(wrong, path="/b")
    assert refusal(remote(a, b, refused), tmp_path) == (
        f"could not download {NAME}: {a} (404 Not Found), {b} (wrong checksum), {refused} (no connection: "
        f"[Errno {errno.ECONNREFUSED}] Connection refused). Download it yourself (its checksum is {DIGEST}) and save "
        f"it as {tmp_path / NAME}, or use --mirror"
    )
    assert names(tmp_path) == {LEFT}
    assert f"could not download {NAME}: no URL is known. Download it yourself" in refusal(remote(), tmp_path)


temporary_faults = st.sampled_from([broken, silent, status(500)])
missing = status(404)
lasting_faults = st.sampled_from([missing, wrong, cut])


@settings(max_examples=40)
@given(
    plans=st.lists(
        st.lists(st.one_of(temporary_faults, lasting_faults, st.just(right)), min_size=1, max_size=5), max_size=3
    )
)
def test_after_any_failures_the_file_is_right_or_unchanged(server: Server, plans: list[list[Answer]]) -> None:
    """Each URL gets three tries, unless the fault is lasting; then comes the next."""
    done, expected = False, []
    for plan in plans:
        hits = 0
        while not done and hits < 3:
            answer = plan[min(hits, len(plan) - 1)]
            hits += 1
            done = answer is right
            if answer in (wrong, cut, missing):
                break
        expected.append(hits)
    addresses = [server.plan(*plan, path=f"/{i}") for i, plan in enumerate(plans)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / NAME).write_bytes(b"something old")
        if done:
            fetch(remote(*addresses), folder)
        else:
            refusal(remote(*addresses), folder)
        assert (folder / NAME).read_bytes() == (DATA if done else b"something old")
        assert names(folder) - {PART} == {NAME, LEFT}
    assert [server.hits[f"/{i}"] for i in range(len(plans))] == expected


# Cache


def test_a_wrong_file_is_replaced_or_left_unchanged(server: Server, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(DATA[:-1])
    message = refusal(remote(server.plan(wrong)), tmp_path)
    assert f"save it as {tmp_path / NAME}, replacing the wrong file there, or use" in message
    assert (tmp_path / NAME).read_bytes() == DATA[:-1]
    assert fetch(remote(server.plan(right)), tmp_path).read_bytes() == DATA


def test_a_folder_that_is_a_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    file = remote(server.plan(right))
    message = refusal(file, tmp_path / "taken")
    assert message.startswith(f"cannot store {NAME} in {tmp_path}/taken: this is a file, not a folder. Fix this, or")
    assert "$TRANSFORMER_DATA" in message and (tmp_path / "taken").read_text() == "mine"
    assert f"in {tmp_path}/taken/below: " in refusal(file, tmp_path / "taken/below")
    assert server.hits["/a"] == 0


def test_a_folder_in_the_files_place_stays(server: Server, tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    assert "Is a directory" in refusal(remote(server.plan(right)), tmp_path)
    assert (tmp_path / NAME).is_dir()


@contextmanager
def unprivileged() -> Iterator[None]:
    """Run as another user, because nothing is read-only for root."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


def test_a_read_only_folder(server: Server) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o555)
        file = remote(server.plan(right))
        with unprivileged():
            message = refusal(file, folder)
        assert message.startswith(f"cannot store {NAME} in {folder}: [Errno 13] Permission denied")
        assert server.hits["/a"] == 0 and names(folder) == set()
        folder.chmod(0o755)
        (folder / NAME).write_bytes(DATA)
        folder.chmod(0o555)
        with unprivileged():
            assert fetch(file, folder) == folder / NAME
        assert server.hits["/a"] == 0


def test_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRANSFORMER_DATA", "~/data")
    assert data_folder() == tmp_path / "data"
    monkeypatch.setenv("TRANSFORMER_DATA", "")
    assert data_folder().name == "transformer-course" and tmp_path in data_folder().parents


# Mirrors


def test_from_a_mirror_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / NAME).write_bytes(DATA)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetch(remote(refused), tmp_path / "a", "~/mirror").read_bytes() == DATA
    assert fetch(remote(refused), tmp_path / "b", f"{tmp_path}/mirror/").read_bytes() == DATA
    assert names(tmp_path / "mirror") == {NAME}


def test_a_mirror_is_used_instead_of_the_addresses(server: Server, tmp_path: Path) -> None:
    home, mirror = server.plan(right), server.plan(path="/mirror/")
    there = server.plan(right, path=f"/mirror/{NAME}")
    assert fetch(remote(home), tmp_path / "a", mirror).read_bytes() == DATA
    assert fetch(remote(home), tmp_path / "b", mirror.rstrip("/")).read_bytes() == DATA
    assert server.hits == {**server.hits, "/a": 0, f"/mirror/{NAME}": 2}
    server.plan(wrong, path=f"/mirror/{NAME}")
    advice = "check --mirror, or leave it out to download the file"
    assert refusal(remote(home), tmp_path / "c", mirror) == f"cannot use {there} (wrong checksum): {advice}"
    server.plan(status(404), path=f"/mirror/{NAME}")
    assert refusal(remote(home), tmp_path / "c", mirror) == f"the mirror {mirror} has no {NAME}: {advice}"
    assert server.hits["/a"] == 0


def test_a_mirror_without_the_file_or_with_a_wrong_one(server: Server, tmp_path: Path) -> None:
    home = server.plan(right)
    (tmp_path / "mirror").mkdir()
    mirror, advice = f"{tmp_path}/mirror", "check --mirror, or leave it out to download the file"
    assert refusal(remote(home), tmp_path / "cache", mirror) == f"the mirror {mirror} has no {NAME}: {advice}"
    assert refusal(remote(home), tmp_path / "cache", "/none") == f"there is no folder /none: {advice}"
    (tmp_path / "mirror" / NAME).write_bytes(b"wrong")
    message = refusal(remote(home), tmp_path / "cache", mirror)
    assert message == f"cannot use {mirror}/{NAME} (wrong checksum): {advice}"
    assert server.hits["/a"] == 0 and names(tmp_path / "cache") == {LEFT}


@pytest.mark.parametrize("mirror", ["file:///data", "ftp://host/data"])
def test_a_mirror_that_is_neither_folder_nor_http_url(tmp_path: Path, mirror: str) -> None:
    message = refusal(remote(), tmp_path, mirror)
    assert message == f"a mirror must be a folder or a URL that starts with http:// or https://; got {mirror}"


# Disk space


def test_disk_space_is_checked_first(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 3_000_000_000 + download.MIN_FREE_BYTES
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free if folder == tmp_path else 0))
    address = server.plan(right)
    assert refusal(remote(address, size=3_000_000_001), tmp_path) == (
        f"{NAME} needs 3,100 MB in {tmp_path}, but only 3,100 MB is free. "
        "Free some disk space, or set $TRANSFORMER_DATA to another folder"
    )
    free = 12_000_000
    assert "needs 100 MB in " in (message := refusal(remote(address, size=0), tmp_path)) and "12 MB is free" in message
    assert server.hits["/a"] == 0
    assert fetch(remote(address), tmp_path).read_bytes() == DATA  # of unknown size
    (tmp_path / NAME).unlink()
    free = 3_000_000_000 + download.MIN_FREE_BYTES
    assert fetch(remote(address, size=3_000_000_000), tmp_path).read_bytes() == DATA


@pytest.mark.parametrize("mirrored", [False, True])
def test_no_more_can_be_written(server: Server, tmp_path: Path, mirrored: bool) -> None:
    """The operating system limits file sizes."""
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / NAME).write_bytes(DATA)
    second = server.plan(right, path="/b")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(DATA) // 2, hard))
    try:
        file = remote(server.plan(right), second)
        message = refusal(file, tmp_path / "cache", str(tmp_path / "mirror") if mirrored else None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert message.startswith(f"cannot store {NAME} in {tmp_path}/cache: [Errno {errno.EFBIG}] File too large")
    assert server.hits["/a"] == (0 if mirrored else 1) and server.hits["/b"] == 0
    assert names(tmp_path / "cache") == {LEFT}


def test_the_disk_is_full(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object, url: str, part: Path, file: RemoteFile) -> None:
        part.write_bytes(b"a little")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(download, "_stream", full)
    (tmp_path / NAME).write_bytes(b"old")
    message = refusal(remote("http://a/a", "http://b/b"), tmp_path)
    assert message.startswith(f"cannot store {NAME} in {tmp_path}: [Errno 28] No space left on device. Fix this, or")
    assert (tmp_path / NAME).read_bytes() == b"old"


# Several processes


Start = Callable[[str, Path], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Fetch in another process, which reports when it begins."""
    with ExitStack() as processes:

        def popen(address: str, folder: Path) -> "subprocess.Popen[str]":
            code = (
                "import requests; from pathlib import Path, PosixPath; from transformer.data.download import *\n"
                f"print('begins', flush=True); print(fetch({remote(address)!r}, {folder!r}))"
            )
            pipe = subprocess.PIPE
            process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=pipe, stderr=pipe, text=True)
            processes.enter_context(process)
            processes.callback(process.kill)
            assert process.stdout and process.stdout.readline() == "begins\n"
            return process

        yield popen


def wait_for(happened: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)


def test_one_of_two_processes_downloads_and_the_other_waits(server: Server, tmp_path: Path, start: Start) -> None:
    address = server.plan(right_when_released)
    first = start(address, tmp_path)
    wait_for(lambda: server.hits["/a"])
    second = start(address, tmp_path)
    time.sleep(0.3)
    assert second.poll() is None
    server.release.set()
    for process in (first, second):
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out) == (0, f"{tmp_path / NAME}\n"), err
    assert server.hits["/a"] == 1 and (tmp_path / NAME).read_bytes() == DATA
    assert names(tmp_path) == {NAME, LEFT}


def test_a_killed_process_does_not_block_others(server: Server, tmp_path: Path, start: Start) -> None:
    process = start(server.plan(stalled_halfway, right), tmp_path)
    wait_for(lambda: any(path.stat().st_size for path in tmp_path.glob(".*.part")))
    process.kill()
    process.communicate()
    assert len(names(tmp_path)) == 2  # the lock and the part
    started = time.monotonic()
    assert fetch(remote(f"http://127.0.0.1:{server.server_port}/a"), tmp_path).read_bytes() == DATA
    assert time.monotonic() - started < 5
    assert names(tmp_path) == {NAME, LEFT}


def test_what_is_left_of_an_interrupted_download_needs_no_more_disk_space(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / PART).write_bytes(DATA[:1000])
    free = len(DATA) - 1000 + download.MIN_FREE_BYTES
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    assert fetch(remote(server.plan(resumable), size=len(DATA)), tmp_path).read_bytes() == DATA
    (tmp_path / NAME).unlink()
    assert "needs " in refusal(remote(server.plan(resumable), size=len(DATA)), tmp_path)


# Resuming


def test_an_interrupted_download_is_resumed_by_the_next_call(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = download._stream

    def interrupted(*args: Any) -> None:
        with suppress(urllib3.exceptions.HTTPError):
            stream(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(download, "_stream", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetch(remote(server.plan(broken)), tmp_path)
    assert names(tmp_path) == {PART, LEFT}
    assert fetch(remote(server.plan(resumable)), tmp_path).read_bytes() == DATA
    assert server.ranges == [f"bytes={len(DATA) // 2}-"]
    assert names(tmp_path) == {NAME, LEFT}


@pytest.mark.parametrize("answer", ["right", "resumable"])
@pytest.mark.parametrize("left", [b"wrong", DATA, DATA + b"more", DATA[:-1]])
def test_whatever_is_left_of_a_download_the_file_is_right(
    answer: str, left: bytes, server: Server, tmp_path: Path
) -> None:
    (tmp_path / PART).write_bytes(left)
    assert fetch(remote(server.plan(globals()[answer])), tmp_path).read_bytes() == DATA
    assert names(tmp_path) == {NAME, LEFT}


def test_a_retry_resumes(server: Server, tmp_path: Path) -> None:
    assert fetch(remote(server.plan(broken, resumable)), tmp_path).read_bytes() == DATA
    assert server.ranges == [f"bytes={len(DATA) // 2}-"]


def drip(h: Handler, data: bytes) -> None:
    """Send a byte now and then."""
    for i in range(len(data)):
        h.wfile.write(data[i : i + 1])
        h.wfile.flush()
        if h.server.release.wait(0.05):
            return


def dripping_file(h: Handler) -> None:
    h.head(Content_Length=len(DATA))
    drip(h, DATA)


def dripping_status(h: Handler) -> None:
    drip(h, b"HTTP/1.1 200 " + b"O" * 60_000)


def dripping_headers(h: Handler) -> None:
    drip(h, b"HTTP/1.1 200 OK\r\n" + b"X-Header: value\r\n" * 90)


def dripping_interim_responses(h: Handler) -> None:
    drip(h, b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def dripping_redirect(h: Handler) -> None:
    drip(h, b"HTTP/1.1 302 Found\r\nLocation: /a\r\nContent-Length: 1000\r\n\r\n" + b"a" * 1000)


def dripping_size_of_a_chunk(h: Handler) -> None:
    h.protocol_version = "HTTP/1.1"
    h.head(Transfer_Encoding="chunked")
    drip(h, b"1;" + b"a" * 60_000)


def dripping_trailers(h: Handler) -> None:
    h.protocol_version = "HTTP/1.1"
    h.head(Transfer_Encoding="chunked")
    h.wfile.write(b"4\r\n" + DATA[:4] + b"\r\n0\r\n")
    drip(h, b"X-Trailer: value\r\n" * 1000)


DRIPPING = [
    dripping_file,
    dripping_status,
    dripping_headers,
    dripping_interim_responses,
    dripping_redirect,
    dripping_size_of_a_chunk,
    dripping_trailers,
]


@pytest.mark.parametrize("dripping", DRIPPING)
def test_a_server_that_drips_is_given_up_and_the_next_one_resumes(
    dripping: Answer, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 10.0)  # it never stalls
    monkeypatch.setattr(download, "SLOW_SECONDS", 0.3)
    started = time.monotonic()
    message = refusal(remote(server.plan(dripping)), tmp_path)
    assert " bytes in " in message and server.hits["/a"] == 1
    assert fetch(remote(server.plan(dripping), server.plan(resumable, path="/b")), tmp_path).read_bytes() == DATA
    assert server.hits["/a"] == server.hits["/b"] == 1
    assert time.monotonic() - started < 30  # and not the hours that it would take


def test_no_more_bytes_than_the_known_size_are_accepted(server: Server, tmp_path: Path) -> None:
    def endless(h: Handler) -> None:
        h.head()
        with suppress(OSError):
            while not h.server.release.is_set():
                h.wfile.write(bytes(1 << 16))

    message = refusal(remote(server.plan(endless), size=len(DATA)), tmp_path)
    assert f"more than the {len(DATA):,} bytes of the file" in message
