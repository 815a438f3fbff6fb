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
    """Serve until Ctrl-C; a port that cannot be had is one line on stderr and exit code 1."""
    port = sys.argv[1] if len(sys.argv) > 1 else "8000"
    try:
        here = server(int(port))
    except (OSError, OverflowError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is a number from 0 to 65535"
        print(f"error: port {port}: {why}; choose another: make serve PORT=8080", file=sys.stderr)
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
