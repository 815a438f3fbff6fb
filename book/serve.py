"""Show the built book in a browser on this machine, and on no other: ``python -m book.serve [PORT]``."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HTML = Path(__file__).parent.parent / "_build" / "html"


class Quiet(SimpleHTTPRequestHandler):
    """Answers, and does not print each request."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def server(port: int) -> ThreadingHTTPServer:
    """What answers at a port, or at any free one for 0, with the built book."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(Quiet, directory=str(HTML)))


def main() -> int:
    """Serve until Ctrl-C; a port in use is one line on stderr and exit code 1."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    try:
        here = server(port)
    except OSError as error:
        print(f"error: port {port}: {error.strerror}; choose another: make serve PORT={port + 1}", file=sys.stderr)
        return 1
    with here:
        print(f"The book is at http://localhost:{here.server_port}/ (Ctrl-C ends this)", flush=True)
        try:
            here.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
