"""``make serve`` prints the address of the book, or one line if the port is not available."""

import re
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]


def serve(port):
    words = [sys.executable, "-m", "book.serve", str(port)]
    return subprocess.Popen(words, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_it_prints_the_address(html):
    with serve(0) as process:
        address = re.search(r"http://localhost:\d+/", process.stdout.readline()).group()
        with urlopen(address) as page:
            assert page.read() == (html / "index.html").read_bytes()
        process.terminate()


@pytest.mark.parametrize("port", ["abc", "99999"])
def test_an_invalid_port_is_one_clear_line(port):
    with serve(port) as process:
        message = process.stderr.read()
    assert process.returncode == 1
    assert message.startswith(f"error: port {port}: ") and message.count("\n") == 1


def test_a_port_in_use_is_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serve(port) as process:
            message = process.stderr.read()
    assert process.returncode == 1
    assert message.startswith(f"error: port {port}: ") and message.count("\n") == 1
