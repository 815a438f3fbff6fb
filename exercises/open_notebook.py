"""Open a notebook in JupyterLab."""

import os
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from transformer.errors import UserError, install_command


def open_notebook(path: Path) -> None:
    """Open a notebook in the browser, in a running Jupyter server or else in a new one.

    A new server replaces this process, so that Ctrl-C ends it as usual.

    Raises:
        UserError: if JupyterLab isn't installed.
    """
    if find_spec("jupyterlab") is None:
        raise UserError(f"JupyterLab isn't installed: open {path} in your editor, or {install_command('book')}")
    if address := _address_in_running_server(path):
        print(f"Opening {address}")
        webbrowser.open(address)
        return
    print("Starting JupyterLab; Ctrl-C stops it.", flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", str(path)])


def _address_in_running_server(path: Path) -> str | None:
    """Return the notebook's address in the first running server whose folder contains it."""
    from jupyter_server.serverapp import list_running_servers

    for server in list_running_servers():
        folder = Path(server["root_dir"]).resolve()
        if path.resolve().is_relative_to(folder):
            inside = quote(path.resolve().relative_to(folder).as_posix())
            token = f"?token={quote(server['token'])}" if server["token"] else ""
            return f"{server['url']}lab/tree/{inside}{token}"
    return None
