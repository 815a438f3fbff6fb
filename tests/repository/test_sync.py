"""Generated files: `book.sync --check` lists every outdated one and writes nothing; `book.sync` updates it."""

import importlib.metadata
import json
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import jupytext
import nbformat
import pytest
import tomli
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from book import sync
from transformer.interactive.widgets import javascript

ROOT = Path(__file__).parents[2]
PARTS = ("_config.yml", "pyproject.toml", "README.md", "CITATION.cff")


def run(root, *options):
    return sync.main(["--root", str(root), *options])


@pytest.fixture(scope="module")
def up_to_date(tmp_path_factory):
    """A small copy of the repository whose generated files are up to date."""
    root = tmp_path_factory.mktemp("repository")
    for part in PARTS:
        shutil.copy(ROOT / part, root)
    for folder in ("book/widgets", "chapters", "transformer/interactive"):
        (root / folder).mkdir(parents=True)
    for name in ("html", "masks", "parts", "theme"):
        shutil.copy(ROOT / "book" / "widgets" / f"{name}.mjs", root / "book" / "widgets")
    shutil.copy(ROOT / "transformer" / "command_line.py", root / "transformer")
    (root / "book" / "widgets" / "bundle.mjs").write_text('export * as masks from "./masks.mjs";\n')
    (root / "chapters" / "01_one.py").write_text(
        '# %% [markdown]\n# # One\n\n# %%\nprint("one")\n\n# %%\nprint("one")\n'
    )
    assert run(root) == 0
    assert run(root, "--check") == 0
    return root


@pytest.fixture
def repository(up_to_date, tmp_path):
    """A copy of it, to change."""
    return shutil.copytree(up_to_date, tmp_path / "repository")


def change(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "outdated"),
    [
        ("chapters/01_one.py", 'print("one")', 'print("two")', "chapters/01_one.ipynb"),
        ("chapters/01_one.ipynb", "# One", "# Two", "chapters/01_one.ipynb"),
        ("chapters/01_one.py", "--quiet", "--verbose", "chapters/01_one.py"),
        ("book/widgets/masks.mjs", ": -Infinity", ": -1e9", "transformer/interactive/widgets.mjs"),
        ("book/widgets/theme.mjs", "CanvasText", "black", "transformer/interactive/widgets.mjs"),
        ("transformer/interactive/widgets.mjs", ": -Infinity", ": -1e9", "transformer/interactive/widgets.mjs"),
        ("_config.yml", "github.com/", "example.org/new/", "pyproject.toml"),
    ],
)
def test_an_outdated_file_is_listed_then_updated(repository, capsys, file, old, new, outdated):
    if file == "_config.yml":
        change(repository / file, "transformer-course/transformer-course", "somebody/else")
    else:
        change(repository / file, old, new)
    before = {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()}
    assert run(repository, "--check") == 1
    message = capsys.readouterr().err
    assert f"out of date: {outdated}, at line" in message
    assert "make notebooks" in message
    assert before == {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()}
    assert run(repository) == 0
    assert run(repository, "--check") == 0


def test_without_node_an_outdated_bundle_is_one_clear_line(repository, tmp_path, monkeypatch, capsys):
    change(repository / "book" / "widgets" / "masks.mjs", ": -Infinity", ": -1e9")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(repository) == 2
    assert capsys.readouterr().err == "error: bundling needs esbuild, which npx runs: install Node.js\n"


def test_a_difference_at_the_end_is_named(repository, capsys):
    notebook = repository / "chapters" / "01_one.ipynb"
    notebook.write_text(notebook.read_text("utf-8").rstrip("\n"), "utf-8")
    assert run(repository, "--check") == 1
    assert "01_one.ipynb, at the end of the file\n" in capsys.readouterr().err


def test_a_new_address_is_written_everywhere(repository):
    change(repository / "_config.yml", "transformer-course/transformer-course", "somebody/else")
    assert run(repository) == 0
    files = ("pyproject.toml", "CITATION.cff", "chapters/01_one.py", "chapters/01_one.ipynb")
    for name in (*files, "transformer/command_line.py"):
        text = (repository / name).read_text("utf-8")
        assert "https://github.com/somebody/else" in text, name
        assert "transformer-course/transformer-course" not in text, name
    assert "https://somebody.github.io/else" in (repository / "CITATION.cff").read_text("utf-8")


def test_a_new_address_is_written_everywhere_after_an_interruption(repository):
    change(repository / "_config.yml", "transformer-course/transformer-course", "somebody/else")
    page = repository / "book" / "page.md"
    page.write_bytes(b"\xff")  # reading it fails
    with pytest.raises(UnicodeDecodeError):
        run(repository)
    page.write_text("https://github.com/transformer-course/transformer-course\n")
    assert run(repository) == 0
    assert page.read_text("utf-8") == "https://github.com/somebody/else\n"


def test_the_notebook_has_the_cells_of_the_script_and_no_outputs(repository):
    script = jupytext.read(repository / "chapters" / "01_one.py")
    pair = nbformat.read(repository / "chapters" / "01_one.ipynb", as_version=4)
    assert [(cell.cell_type, cell.source) for cell in pair.cells] == [
        (cell.cell_type, cell.source) for cell in script.cells
    ]
    assert len({cell.id for cell in pair.cells}) == len(pair.cells)
    assert all(not cell.outputs and cell.execution_count is None for cell in pair.cells if cell.cell_type == "code")
    assert pair.metadata.kernelspec.name == "python3"


def test_in_colab_and_jupyterlab_folded_code_is_folded_links_are_absolute_and_a_gpu_is_offered(repository):
    page = (
        "See the [terms](../book/glossary.md#term-BLEU), [Results](../book/results.md), [masking](04_masking.ipynb) "
        "and [Exercises](../book/exercises/04_masking.md)."
    )
    header = "# ---\n# jupyter:\n#   accelerator: GPU\n# ---\n\n"
    folded = ["hide-cell", "hide-input", "remove-cell"]
    cells = "".join(f'\n\n# %% tags=["{tag}"]\nplot({i})' for i, tag in enumerate([*folded, "raises-exception"]))
    (repository / "chapters" / "02_two.py").write_text(f"{header}# %% [markdown]\n# {page}{cells}\n")
    assert run(repository) == 0
    one, two = (nbformat.read(repository / "chapters" / f"{name}.ipynb", as_version=4) for name in ("01_one", "02_two"))
    assert "accelerator" not in one.metadata
    assert (two.metadata.accelerator, two.metadata.colab.gpuType) == ("GPU", "T4")
    pages = "https://transformer-course.github.io/transformer-course/book"
    assert two.cells[0].source == (
        f"See the [terms]({pages}/glossary.html#term-BLEU), [Results]({pages}/results.html), "
        f"[masking](04_masking.ipynb) and [Exercises]({pages}/exercises/04_masking.html)."
    )
    code = {cell.metadata.tags[-1]: cell.metadata for cell in two.cells if "tags" in cell.metadata}
    for tag in ("hide-cell", *folded):
        assert code[tag].jupyter.source_hidden, tag
        assert code[tag].cellView == "form", tag
    assert set(code["raises-exception"]) == {"tags"}


@pytest.mark.parametrize(
    ("tag", "source", "title"),
    [
        ("hide-input", 'Picture(figure, alt="A map.")', sync.FIGURE),
        ("hide-input", 'explorer(description="A map.")', sync.FIGURE),
        ("hide-cell", "SourceCode(attention)", sync.PACKAGE),
        ('hide-input", "imports', "from torch import nn", sync.IMPORTS),
        ("hide-cell", "def helper(): ...", sync.CODE),
        ("remove-cell", 'assert row == "alt="', sync.CHECK),
    ],
)
def test_colab_shows_a_title_in_place_of_folded_code(repository, tag, source, title):
    script = repository / "chapters" / "02_two.py"
    imports = '# %% tags=["hide-input"]\nimport torch\nPicture(torch.ones(2), alt="Two.")'
    script.write_text(f'# %% [markdown]\n# # Two\n\n{imports}\n\n# %% tags=["{tag}"]\n{source}\n\n# %%\nx = 2\n')
    assert run(repository) == 0
    code = [
        cell for cell in nbformat.read(script.with_suffix(".ipynb"), as_version=4).cells if cell.cell_type == "code"
    ]
    assert [cell.source.splitlines()[0] for cell in code[:3]] == [
        "# @title Setup: in Colab, run this cell first",
        f"# @title {sync.FIRST_FIGURE}",
        f"# @title {title}",
    ]
    assert code[2].source.splitlines()[1:] == [source] and code[3].source == "x = 2"
    assert "@title" not in script.read_text("utf-8").split(sync.READY["chapters"].splitlines()[1])[1]


def test_a_notebook_shows_a_widget_of_the_book_in_a_cell_of_its_own(repository):
    div = '# <div class="widget" data-widget="masks">\n#\n# | a table |\n#\n# </div>\n'
    (repository / "chapters" / "02_two.py").write_text(f"# %% [markdown]\n# # Two\n#\n{div}#\n# ## Next\n")
    assert run(repository) == 0
    before, cell, after, _ = nbformat.read(repository / "chapters" / "02_two.ipynb", as_version=4).cells
    assert before.source.endswith("</div>") and after.source == "## Next"
    assert cell.source.startswith(f"# @title {sync.INTERACTIVE}\n")
    assert {"remove-cell", "skip-execution"} <= set(cell.metadata.tags), "the book shows the widget itself"
    shown = {}
    exec(cell.source.replace('widget("masks")', 'shown = widget("masks")'), shown)
    assert shown["shown"].get_state()["_esm"] == javascript("masks")


def test_cell_ids_stay_when_a_cell_is_added(repository):
    before = [cell.id for cell in nbformat.read(repository / "chapters" / "01_one.ipynb", as_version=4).cells]
    change(repository / "chapters" / "01_one.py", "# # One\n", "# # One\n\n# %%\nnew = 1\n")
    assert run(repository) == 0
    after = [cell.id for cell in nbformat.read(repository / "chapters" / "01_one.ipynb", as_version=4).cells]
    assert len(after) == len(before) + 1
    assert set(before) < set(after)


def setup_cell(repository):
    notebook = nbformat.read(repository / "chapters" / "01_one.ipynb", as_version=4)
    (cell,) = (cell for cell in notebook.cells if "setup" in cell.metadata.get("tags", []))
    return cell.source


COURSE = "git+https://github.com/transformer-course/transformer-course@main"
NOT_FOUND = """\
  error: subprocess-exited-with-error

  × git clone --filter=blob:none --quiet https://github.com/nobody/nothing /tmp/pip-1 did not run successfully.
  │ exit code: 128
  ╰─> [1 lines of output]
      fatal: could not read Username for 'https://github.com': No such device or address
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
ERROR: Failed to build 'transformer-course' when git clone --filter=blob:none --quiet https://github.com/nobody/nothing
"""
NO_BRANCH = """\
  WARNING: Did not find branch or tag 'nope', assuming revision or ref.
  error: pathspec 'nope' did not match any file(s) known to git
error: subprocess-exited-with-error
"""
CONFLICT = """\
ERROR: Cannot install torch==2.9.0 and transformer-course because these package versions have conflicting dependencies.
ERROR: ResolutionImpossible: for help visit the documentation of pip
"""


@pytest.fixture
def colab(repository, monkeypatch):
    """A stand-in for Colab: call it with what pip answers to run the setup cell. Returns pip's arguments."""
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    monkeypatch.delenv("COLAB_JUPYTER_IP", raising=False)
    monkeypatch.delenv("KMP_TARGET_PORT", raising=False)
    monkeypatch.setattr(importlib.metadata, "version", {"numpy": "2.0.2", "torch": "2.9.0+cu126"}.__getitem__)

    def run_setup_cell(returncode=0, stderr="", source=""):
        commands = []

        def run(command, **options):
            commands.append([*map(str, command)])
            return SimpleNamespace(returncode=returncode, stderr=stderr)

        monkeypatch.setattr(subprocess, "run", run)
        cell = setup_cell(repository)
        assert 'source = ""' in cell
        exec(cell.replace('source = ""', f"source = {source!r}"), {})
        (command,) = commands
        return command

    return run_setup_cell


@pytest.fixture
def serve(monkeypatch):
    """Call it with a text: Colab's Jupyter server then answers requests for its sessions with that text."""
    servers = []

    def serve(text):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                assert self.path == "/api/sessions"
                self.send_response(200)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("COLAB_JUPYTER_IP", "127.0.0.1")
        monkeypatch.setenv("KMP_TARGET_PORT", str(server.server_port))

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def sessions(path):
    """What a Jupyter server answers to a request for its sessions."""
    return json.dumps(
        [{"id": "1", "path": path, "name": "one.ipynb", "type": "notebook", "kernel": {"name": "python3"}}]
    )


def test_outside_colab_the_setup_cell_does_nothing(repository, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: pytest.fail("it ran a command"))
    exec(setup_cell(repository), {})


def test_the_setup_cell_keeps_colabs_torch_and_numpy(colab):
    command = colab()
    assert command[-3:] == ["numpy==2.0.2", "torch==2.9.0+cu126", f"transformer-course[colab] @ {COURSE}"]


def test_the_setup_cell_installs_an_extra_that_exists():
    extras = tomli.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert "[colab]" in sync.SETUP and "colab" in extras


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("fileId=https://github.com/somebody/fork/blob/main/chapters/01_one.ipynb", "somebody/fork@main"),
        (
            "fileId=https%3A%2F%2Fgithub.com%2Fsomebody%2Ffork%2Fblob%2Fdev%2Fchapters%2F01_one.ipynb",
            "somebody/fork@dev",
        ),
        ("fileId=https%3A//github.com/me/a.b-c/blob/fix/the-mask/exercises/02_two.ipynb", "me/a.b-c@fix/the-mask"),
        ("fileId=https://github.com/me/course/blob/0123abc/solutions/02_two.ipynb", "me/course@0123abc"),
    ],
)
def test_the_fork_and_the_branch_that_a_notebook_was_opened_from(colab, serve, capsys, path, source):
    serve(sessions(path))
    assert colab()[-1] == f"transformer-course[colab] @ git+https://github.com/{source}"
    assert capsys.readouterr().out.startswith(f"Installing the course from git+https://github.com/{source}.\n")


@pytest.mark.parametrize(
    "answer",
    [
        sessions("fileId=1fsTKj3zDRIiPXs-Gu5qQCTLGdn6YDMuc"),
        sessions("fileId=https://github.com/me/notes/blob/main/untitled.ipynb"),
        "[]",
        "",
        None,
    ],
    ids=["Drive", "another page", "no session", "nothing", "no server"],
)
def test_if_that_is_unknown_the_course_itself_is_installed(colab, serve, capsys, answer):
    if answer is not None:
        serve(answer)
    assert colab()[-1] == f"transformer-course[colab] @ {COURSE}"
    first, *more = capsys.readouterr().out.splitlines()
    assert first == f"Installing the course from {COURSE}."
    assert "For a fork or branch, set `source` in this cell" in more[0] and "run all cells in order" in more[1]
    assert more[3].endswith("/chapters/01_one.html")


def test_a_source_that_was_chosen_is_installed(colab, serve):
    serve(sessions("fileId=https://github.com/somebody/fork/blob/main/chapters/01_one.ipynb"))
    assert colab(source="git+https://github.com/me/mine@new")[-1].endswith("@ git+https://github.com/me/mine@new")


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (NOT_FOUND, "fatal: could not read Username for 'https://github.com': No such device or address"),
        (NO_BRANCH, "error: pathspec 'nope' did not match any file(s) known to git"),
        (CONFLICT, CONFLICT.splitlines()[0]),
        ("Killed\n", "Killed\n"),
        ("", "pip failed"),
    ],
    ids=["repository", "branch", "conflict", "something else", "silent"],
)
def test_a_failed_installation_is_one_clear_line(colab, stderr, reason):
    with pytest.raises(SystemExit) as error:
        colab(1, stderr)
    assert error.value.code == f"Cannot install the course from {COURSE}: {reason}"


def test_in_a_notebook_a_failed_installation_shows_no_traceback_and_stops_the_run(repository, tmp_path):
    """With a real kernel and a real pip, which finds no repository at this path."""
    notebook = nbformat.v4.new_notebook()
    cell = setup_cell(repository).replace('source = ""', f'source = "git+file://{tmp_path}/nowhere"')
    colab = "import sys\nsys.modules['google.colab'] = sys"
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in (colab, cell, "print('later')")]
    with pytest.raises(CellExecutionError):
        NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    _, setup, later = notebook.cells
    text = "".join("".join(output.get("traceback", [])) + output.get("text", "") for output in setup.outputs)
    assert f"Cannot install the course from git+file://{tmp_path}/nowhere: fatal: " in text
    assert "Traceback" not in text and "CalledProcessError" not in text and "subprocess.run" not in text
    assert not later.outputs
