"""Serve the built book to browsers on this machine only: ``python -m book.serve [PORT]``."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HTML = Path(__file__).parent.parent / "_build" / "html"


class QuietHandler(SimpleHTTPRequestHandler):
    """A request handler that doesn't log requests."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def create_server(port: int) -> ThreadingHTTPServer:
    """Return a server of the built book at a port, or at any free port for 0."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(QuietHandler, directory=str(HTML)))


def main() -> int:
    """Serve until Ctrl-C. If the port is not available, print one line on stderr and return 1."""
    port = sys.argv[1] if len(sys.argv) > 1 else "8000"
    try:
        server = create_server(int(port))
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "expected a number from 0 to 65535"
        print(f"error: port {port}: {reason}; choose another one: make serve PORT=8080", file=sys.stderr)
        return 1
    with server:
        print(f"The book is at http://localhost:{server.server_port}/ (press Ctrl-C to stop)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
