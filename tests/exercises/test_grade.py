"""The grader, as a learner uses it: whole notebooks in, a table and an exit code out."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from exercises import __main__ as command
from exercises import grade as grading
from exercises.grade import RUN_ID, Grade, forbidden_name, grade_all, read_submission, without_cell_magics
from exercises.notebooks import PLACEHOLDER, ROOT, answer_key, check_key, find_notebooks, notebook_text, read_notebook
from transformer.errors import UserError

pytestmark = pytest.mark.slow

OPEN_MESSAGE = "not done yet: write your code in place of this line"


def notebook(
    path: Path, of: str, bodies: Mapping[str, str], edit_check: str | None = None, top: Mapping[str, str] | None = None
) -> Path:
    """A learner's copy of the solution ``of`` with these bodies of answers, and these lines above them."""
    book = read_notebook(ROOT / "solutions" / f"{of}.ipynb")
    for cell in book["cells"]:
        if (key := answer_key(cell)) and key in bodies:
            signature = re.split(r'^    """', cell["source"], maxsplit=1, flags=re.MULTILINE)[0]
            cell["source"] = signature + "".join(f"    {line}\n" for line in bodies[key].splitlines())
            if top and key in top:
                cell["source"] = cell["source"].replace("\ndef ", f"\n{top[key]}\ndef ", 1)
        if edit_check and check_key(cell) == edit_check:
            cell["source"] = f'print("✓ {edit_check}")'
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    path.write_text(notebook_text(book), "utf-8")
    return path


DEAF = """import signal, time
for number in signal.SIGALRM, signal.SIGINT:
    signal.signal(number, signal.SIG_IGN)
while True:
    time.sleep(0.1)"""
"""A loop that hears no interrupt, and that sleeps, since only the clock can end it."""


YES = """
class Yes:
    __class__ = Tensor
    __eq__ = lambda self, other: True
    __getattr__ = lambda self, name: self
    __call__ = lambda self: self
    __torch_function__ = classmethod(lambda *_: torch.ones(1, dtype=torch.bool))
"""
"""It says that it is a tensor, and equal to everything."""

SLY = """
class Sly(Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        if function is torch.isclose:
            return torch.ones(1, dtype=torch.bool)
        return super().__torch_function__(function, types, arguments, named or {})
"""
"""A tensor that is close to everything."""

PAIR = """
class Pair(tuple):
    __len__ = lambda self: 2
    __iter__ = lambda self: iter(())
"""
"""Two things, none of which can be looked at."""

LOUD = """
import sys
screen = sys.stdout
"""

IMPORTED = "import exercises.check\nexercises.check.Exercise.judge = lambda *_: None"
CALLED = "return given._topic.exercises['scaled_dot_product_attention'].reference(query, key, value)"
READ = "exec(open('solutions/04_masking.py').read())\nreturn target_mask(ids, pad_id)"


FORGED = """from pathlib import Path
record = '{"key": "softmax", "kind": "check", "outcome": "passed", "error": null, "message": ""}'
Path("report.jsonl").write_text(record)
return scores"""
"""An answer that writes a result of its own."""


@pytest.fixture(scope="module")
def grades(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Grade]:
    """Several notebooks graded at once, since each takes seconds."""
    folder = tmp_path_factory.mktemp("learner")
    books = [
        notebook(
            folder / "mixed.ipynb",
            "04_masking",
            {
                "padding_mask": "while True: pass",
                "causal_mask": "return torch.ones(1, 1, length, length, dtype=torch.bool).tril(-1)",
                "target_mask": PLACEHOLDER,
                "masked_softmax": "low = torch.finfo(scores.dtype).min\n"
                "return torch.where(mask, scores, low).softmax(-1) * mask  # another right answer",
            },
            edit_check="target_mask",
        ),
        notebook(
            folder / "worse.ipynb",
            "02_attention",
            {
                "attention_scores": "check = print\nwhile True: print('again')",
                "softmax": "return helper(scores)",
                "scaled_dot_product_attention": "return attention(query, key, value",
                "split_heads": "return torch.ones(10**12)",
                "join_heads": "return heads.mean(1)\n\ndef check(name, answer): print('✓', name)",
                "multi_head_attention": "pass\ndel multi_head_attention",
            },
        ),
        notebook(
            folder / "ignores.ipynb",
            "04_masking",
            {"causal_mask": DEAF},
        ),
        notebook(
            folder / "hostile.ipynb",
            "02_attention",
            {
                "attention_scores": IMPORTED,
                "softmax": "return Yes()",
                "scaled_dot_product_attention": CALLED,
                "split_heads": "return x.new_zeros(len(x), n_heads, x.size(1), x.size(2) // n_heads).as_subclass(Sly)",
                "join_heads": "print('✓ join_heads')\nreturn heads",
                "multi_head_attention": "return x + 1",
            },
            top={
                "softmax": YES,
                "split_heads": SLY,
                "multi_head_attention": "torch.isclose = lambda a, *_, **__: torch.ones_like(a, dtype=torch.bool)",
            },
        ),
        notebook(
            folder / "more.ipynb",
            "04_masking",
            {
                "padding_mask": "return (ids == pad_id)[:, None, None, :]",
                "causal_mask": "import builtins\nbuiltins.isinstance = lambda *_: True",
                "target_mask": READ,
                "masked_softmax": "screen.write('✓ masked_softmax\\n')\nraise SystemExit",
                "shift_target": "return Pair((target, target))",
            },
            top={
                "padding_mask": "torch.allclose = torch.equal = torch.testing.assert_close = lambda *_, **__: True",
                "masked_softmax": LOUD,
                "shift_target": PAIR,
            },
        ),
        notebook(
            folder / "outside.ipynb",
            "02_attention",
            {
                "attention_scores": "return scores * 0",
                "softmax": FORGED,
                "scaled_dot_product_attention": "return Path(root, 'solutions', '02_attention.py').read_text()",
                "split_heads": "subprocess.Popen(['sleep', '600'], env={})",
                "join_heads": "Path(root, 'README.md').write_text('')",
                "multi_head_attention": "socket.create_connection(('127.0.0.1', 9))",
            },
            top={
                "attention_scores": "import socket, subprocess, transformer\nfrom pathlib import Path\n"
                "root = Path(transformer.__file__).parent.parent",
            },
        ),
        notebook(folder / "exits.ipynb", "04_masking", {"target_mask": "import os\nos._exit(0)"}),
    ]
    text = books[1].read_text("utf-8").replace("    def check(", "def check(").replace("    del multi", "del multi")
    books[1].write_text(text, "utf-8")
    return {grade.path.stem: grade for grade in grade_all([str(book) for book in books], seconds=3)}


def test_each_exercise_is_judged_alone(grades: dict[str, Grade]) -> None:
    messages = grades["mixed"].messages
    assert messages["padding_mask"] == "it did not finish within 3 s: is there an endless loop?"
    assert str(messages["causal_mask"]).startswith(
        "off by one: a position can't attend to itself\nThe diagonal is False"
    )
    assert messages["target_mask"] == OPEN_MESSAGE, "an edited check cell does not help"
    assert messages["masked_softmax"] is None
    assert messages["shift_target"] is None
    assert grades["mixed"].points == 3


def test_a_wide_table_is_not_wrapped_but_a_long_sentence_is() -> None:
    table = "  [" + "-0.37  " * 20 + "]"
    lines = Grade(Path("a.ipynb"), "02_attention", {"softmax": f"wrong\n{'word ' * 30}\n{table}"}).describe("softmax")
    assert max(map(len, lines[1:3])) < 110 and lines[3] == "      " + table and len(lines) == 4


def test_the_table_reads_well(grades: dict[str, Grade]) -> None:
    lines = str(grades["mixed"]).splitlines()
    assert lines[0].startswith("04 masking · ")
    assert lines[1] == "  ✗ padding_mask: it did not finish within 3 s: is there an endless loop?"
    assert lines[2] == "  ✗ causal_mask: off by one: a position can't attend to itself"
    assert lines[3].startswith("      The diagonal is False")
    assert lines[-2:] == ["  ✓ decoder_self_attention", "  3 of 6"]


def test_what_goes_wrong_in_a_cell_is_told(grades: dict[str, Grade]) -> None:
    messages = grades["worse"].messages
    assert messages["attention_scores"] == "it printed more than 100,000 characters: is there an endless loop?"
    assert "NameError: name 'helper' is not defined" in str(messages["softmax"])
    assert "Only answer cells are graded" in str(messages["softmax"])
    assert str(messages["scaled_dot_product_attention"]).startswith("its cell stopped with SyntaxError: ")
    assert str(messages["scaled_dot_product_attention"]).endswith(" (line 3)")
    assert "memory" in str(messages["split_heads"])
    assert str(messages["join_heads"]).startswith("heads averaged\n"), "another function named check does not help"
    assert messages["multi_head_attention"] == ("its cell does not define the function: def multi_head_attention(…)")


def test_a_loop_that_ignores_every_interrupt_ends_the_notebook(grades: dict[str, Grade]) -> None:
    messages = grades["ignores"].messages
    assert messages["padding_mask"] is None
    assert messages["causal_mask"] == "it did not finish within 3 s: is there an endless loop?"
    assert messages["target_mask"] == "not graded, because an earlier answer stopped the notebook"


def test_an_exit_is_no_pass(grades: dict[str, Grade]) -> None:
    messages = grades["exits"].messages
    assert messages["causal_mask"] is None
    assert str(messages["target_mask"]).startswith("it ended the whole Python process")
    assert str(messages["shift_target"]).startswith("not graded")


def test_what_tries_to_get_round_the_checks_is_no_pass(grades: dict[str, Grade]) -> None:
    first = {key: str(message).splitlines()[0] for key, message in grades["hostile"].messages.items()}
    assert first == {
        "attention_scores": "its cell was not run, because it uses exercises",
        "softmax": "the result is a Yes, but should be a Tensor",
        "scaled_dot_product_attention": "its cell was not run, because it uses exercises",
        "split_heads": "the result is a Sly, but should be a Tensor",
        "join_heads": "positions and heads mixed up",
        "multi_head_attention": "the check can no longer tell right answers from wrong ones",
    }
    first = {key: str(message).splitlines()[0] for key, message in grades["more"].messages.items()}
    assert first == {
        "padding_mask": "inverted",
        "causal_mask": "its cell was not run, because it uses builtins",
        "target_mask": "its cell was not run, because it uses exec",
        "masked_softmax": "it stopped with SystemExit: ",
        "shift_target": "both are the whole target",
        "decoder_self_attention": "None",  # the solution
    }


def test_what_no_answer_needs_is_refused_while_it_is_graded(grades: dict[str, Grade]) -> None:
    messages = {key: str(message).splitlines()[0] for key, message in grades["outside"].messages.items()}
    assert messages.pop("attention_scores").startswith("it stopped with NameError: name 'scores' is not defined")
    assert messages.pop("softmax").startswith("the result has wrong numbers"), "a forged result doesn't count"
    refused = {
        "scaled_dot_product_attention": "read the solutions",
        "split_heads": "start other processes",
        "join_heads": "change files",
        "multi_head_attention": "use the network",
    }
    assert messages == {
        key: f"it stopped with PermissionError: an answer can't {what} while it is graded"
        for key, what in refused.items()
    }


def test_no_solution_is_refused_and_what_is_refused_can_be_hidden_in_no_magic() -> None:
    for path in sorted((ROOT / "solutions").glob("*.ipynb")):
        assert [forbidden_name(source) for source in read_submission(path).answers.values()] == [None] * len(
            read_submission(path).answers
        )
    assert forbidden_name("%%time\nfrom exercises.checks import masking") == "exercises"
    assert forbidden_name("def length(self):\n    return (") is None, "a syntax error is told when it runs"
    assert forbidden_name("%%time\nfiles = !ls\nopen('x')") == "open"
    assert forbidden_name("files = !ls") is None
    remainder = "x = (7\n% 4)\nopen('x')"
    assert forbidden_name(remainder) == "open", "a line of Python may begin with %"
    assert forbidden_name(f"%time x = 1\n{remainder}") == "open"
    assert forbidden_name("self.reference = reference") is None, "an ordinary name"


@pytest.mark.parametrize(
    ("answer", "graded"),
    [
        ("%%timeit\n# answer: f\ndef f(): 0", "# %%timeit\n# answer: f\ndef f(): 0"),
        ("# answer: f\n\n%%time\n%%capture out\ndef f(): 0", "# answer: f\n\n# %%time\n# %%capture out\ndef f(): 0"),
        ('# answer: f\n%time g()\nx = """\n%%time\n"""', '# answer: f\n%time g()\nx = """\n%%time\n"""'),
        ("# answer: f", "# answer: f"),
    ],
)
def test_cell_magics_are_ignored(answer: str, graded: str) -> None:
    assert without_cell_magics(answer) == graded


def test_no_message_has_control_characters() -> None:
    record = {"key": "softmax", "kind": "check", "outcome": "failed", "error": "WrongAnswerError"}
    answer = {"key": "softmax", "kind": "answer", "outcome": "passed"}
    message = grading._message("softmax", [answer, {**record, "message": "red\x1b[31m\n\tand \x00 ✗"}], 10)
    assert message == "red�[31m\n\tand � ✗"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(number: int, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "exercises", "grade", "04"], cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    children: list[psutil.Process] = []
    while not (children and list(tmp_path.glob("grading-*/log"))):  # the log is there a moment before the process
        assert process.poll() is None
        time.sleep(0.1)
        children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert not any(child.is_running() for child in children)
    assert not list(tmp_path.glob("grading-*"))


def test_nothing_is_left_running(grades: dict[str, Grade]) -> None:
    ours = {name: os.environ.get(name) for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID")}
    left = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if RUN_ID in environment and all(environment.get(name) == value for name, value in ours.items()):
                left.append(process.cmdline())
        except (psutil.Error, OSError):
            pass
    assert left == []


def test_a_kernel_that_does_not_start_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []
    start = subprocess.Popen

    def fail_once(command: list[str], **options: object) -> object:
        commands.append(command)
        return start(command if len(commands) > 1 else ["echo", grading.NOT_STARTED], **options)

    monkeypatch.setattr(grading.subprocess, "Popen", fail_once)
    (result,) = grade_all([str(ROOT / "solutions" / "04_masking.ipynb")])
    assert len(commands) == 2
    assert result.points == len(result.messages) > 0


@pytest.mark.parametrize("share", [6, pytest.param(1, marks=pytest.mark.soak)])
def test_the_solutions_pass_and_untouched_exercises_do_not(share: int) -> None:
    """In processes of their own, as the learner starts them: only there are exit codes real.

    A sixth of the solutions in every run, and all of them weekly; `test_make` runs the answers of all in every run.
    """
    solutions = [str(path) for path in sorted((ROOT / "solutions").glob("*.ipynb"))[share - 1 :: share]]
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "exercises", "grade", *names], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for names in (solutions, [str(ROOT / "exercises" / "04_masking.ipynb")])
    ]
    passed, failed = (run.communicate()[0] for run in runs)
    assert [run.returncode for run in runs] == [0, 1]
    blanks = [Path(path).with_suffix(".py").read_text("utf-8").count("\n# answer: ") for path in solutions]
    assert [int(n) for n in re.findall(r"^  (\d+) of \1$", passed, re.MULTILINE)] == blanks
    assert passed.endswith(f"\ntotal: {sum(blanks)} of {sum(blanks)}\n")
    assert failed.count(OPEN_MESSAGE) == 5, "the sixth blank is given code to repair"
    assert failed.endswith("  0 of 6\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["atention"], "there is no exercise 'atention'; did you mean attention?"),
        (["xyz"], "there is no exercise 'xyz'; choose from translation, attention, multi_head_attention, "),
        (["nowhere.ipynb"], "the notebook nowhere.ipynb is missing"),
        ([str(ROOT / "README.md")], "README.md is not a notebook"),
        (["attention", "--seconds", "0"], "--seconds must be at least 1; got 0"),
        ([], "name at least one notebook, or all"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["grade", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert message in output.err
    assert output.err.count("\n") == 1


def test_answer_cells_must_be_there_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.ipynb"
    text = (ROOT / "exercises" / "02_attention.ipynb").read_text("utf-8")
    path.write_text(text.replace("# answer: softmax", "# my softmax"), "utf-8")
    with pytest.raises(UserError, match="no cell begins with `# answer: softmax`; put that line back"):
        read_submission(path)
    path.write_text(text.replace("# answer: softmax", "# answer: split_heads"), "utf-8")
    with pytest.raises(UserError, match="no cell begins with `# answer: softmax`"):
        read_submission(path)
    path.write_text(text.replace("# Exercises: attention", "# answer: softmax").replace("markdown", "code"), "utf-8")
    with pytest.raises(UserError, match="more than one cell begins with `# answer: softmax`"):
        read_submission(path)
    path.write_text(text.replace("# answer:", "# question:"), "utf-8")
    with pytest.raises(UserError, match="is not an exercise notebook"):
        read_submission(path)
    path.write_text("[]", "utf-8")
    with pytest.raises(UserError, match="is not a notebook"):
        read_submission(path)


def test_no_file_keeps_the_others_from_being_graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exercise = (ROOT / "exercises" / "04_masking.ipynb").read_text("utf-8")
    (tmp_path / "a_bom.ipynb").write_text(exercise, "utf-8-sig")
    (tmp_path / "b_binary.ipynb").write_bytes(b"\xff\x00" * 100)
    (tmp_path / "c_cells.ipynb").write_text('{"cells": [3, null, {"source": null}]}')
    (tmp_path / "d_empty.ipynb").touch()
    (tmp_path / "e_folder.ipynb").mkdir()
    (tmp_path / "f_nested.ipynb").write_text("[" * 100_000)
    os.mkfifo(tmp_path / "g_pipe.ipynb")
    (tmp_path / "h_surrogate.ipynb").write_text(exercise.replace("not done yet", "not \\ud83d yet"))
    (tmp_path / "i_crash.ipynb").write_text(exercise)
    graded: list[str] = []

    def grade(submission: grading.Submission, seconds: int, run_id: str) -> Grade:
        if submission.path.stem == "i_crash":
            raise RuntimeError("a fault of the grader")
        notebook_text(grading.assemble(submission)).encode("utf-8")
        graded.append(submission.path.stem)
        return Grade(submission.path, "04_masking", {"padding_mask": None})

    monkeypatch.setattr(grading, "grade", grade)
    grades = grade_all([str(tmp_path)])
    assert sorted(graded) == ["a_bom", "h_surrogate"]
    failures = {grade.path.stem: grade.failure for grade in grades if grade.failure}
    told = {stem: failure.removeprefix(f"{tmp_path}/{stem}.ipynb ") for stem, failure in failures.items()}
    not_a_notebook = dict.fromkeys(
        ["b_binary", "c_cells", "d_empty", "f_nested"],
        "is not a notebook, or is incomplete: save it again, or download it again",
    )
    assert told == not_a_notebook | {
        "e_folder": f"cannot read the notebook {tmp_path}/e_folder.ipynb: it is not a file",
        "g_pipe": f"cannot read the notebook {tmp_path}/g_pipe.ipynb: it is not a file",
        "i_crash": "could not be graded: RuntimeError: a fault of the grader",
    }


def test_what_is_too_long_to_be_read_is_not_run() -> None:
    assert forbidden_name("def f(x):\n    return " + "+".join("1" * 100_000)) == "too many nested expressions"
    assert forbidden_name("x = '\0'") is None, "an error that is told when it runs"


def test_open_blanks_have_the_mark_that_status_gives_them() -> None:
    lines = str(Grade(Path("a.ipynb"), "04_masking", {"padding_mask": OPEN_MESSAGE, "causal_mask": "inverted"}))
    assert lines.splitlines()[1:3] == [f"  · padding_mask: {OPEN_MESSAGE}", "  ✗ causal_mask: inverted"]


def test_tags_and_ids_are_not_needed(tmp_path: Path) -> None:
    book = read_notebook(ROOT / "exercises" / "02_attention.ipynb")
    for cell in book["cells"]:
        cell["metadata"] = {}
        del cell["id"]
    (tmp_path / "colab.ipynb").write_text(notebook_text(book), "utf-8")
    assert list(read_submission(tmp_path / "colab.ipynb").answers)[:2] == ["attention_scores", "softmax"]


def test_names_are_topics_numbers_and_paths() -> None:
    attention, masking = (ROOT / "exercises" / f"{stem}.ipynb" for stem in ("02_attention", "04_masking"))
    assert find_notebooks(["attention", "02", "2", "02_attention"]) == [attention]
    assert find_notebooks(["all"]) == sorted((ROOT / "exercises").glob("*.ipynb"))
    assert find_notebooks(["4", "some/where.ipynb"]) == [masking, Path("some/where.ipynb")]


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["grade", "--help"])
    assert "python -m exercises grade all" in capsys.readouterr().out


def test_the_end_of_one_notebook_is_not_that_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are found by the beginning of their run's id: the first notebook's must not begin the tenth's."""
    run_ids: list[str] = []

    def note(submission: object, seconds: int, run_id: str) -> Grade:
        run_ids.append(run_id)
        return Grade(tmp_path, "", {}, None)

    monkeypatch.setattr(grading, "grade", note)
    monkeypatch.setattr(grading, "read_submission", lambda path, root: None)
    for number in range(12):
        (tmp_path / f"{number}.ipynb").write_text("{}")
    grade_all([str(tmp_path)])
    assert len(run_ids) == 12
    assert not [(a, b) for a in run_ids for b in run_ids if a != b and b.startswith(a)]
