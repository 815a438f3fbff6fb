"""The first run on a GPU: it skips what is done, continues after a failure, and records where it was measured."""

import json
from importlib.util import find_spec
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from book import gpu_run
from book.gpu_run import CUMULATIVE_CHANGES, STEPS, Step, list_steps, measure, run
from transformer.cli import main
from transformer.errors import UserError
from transformer.provenance import provenance

pytestmark = pytest.mark.slow


def steps(monkeypatch: pytest.MonkeyPatch, **commands: list[str]) -> None:
    monkeypatch.setattr(gpu_run, "STEPS", {name: Step("Why?", [], command) for name, command in commands.items()})


def test_a_measurement_and_a_training_succeed_on_a_cpu(tmp_path: Path) -> None:
    names = ("decoding", "captions-1")
    assert run(names, tmp_path, quick=True) == 0
    records = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in names}
    for name, record in records.items():
        assert record["step"] == name and record["quick"] is True and record["exit_code"] == 0
        assert set(provenance("cpu")) <= set(record) and record["seconds"] > 0
        assert str(tmp_path) not in record["command"]
    ours, theirs = records["decoding"]["results"][:2], records["decoding"]["results"][2:]
    assert [(row["search"], row["sentences"]) for row in ours] == [("greedy", 8), ("beam 4", 8)]
    ctranslate2 = ["CTranslate2"] * (2 if find_spec("ctranslate2") else 1)  # where it isn't installed, an error
    assert [row["implementation"] for row in theirs] == ["Hugging Face Marian"] * 2 + ctranslate2
    assert records["captions-1"]["results"][-1]["step"] == 4


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the profiler
def test_the_other_measurements_succeed_on_a_cpu(tmp_path: Path) -> None:
    for name in ("attention", "training-profile", "ladder"):  # in this process, because starting another takes seconds
        measure(name, tmp_path / name, quick=True)
    attention, (profiled,), ladder = (
        json.loads((tmp_path / name).read_text()) for name in ("attention", "training-profile", "ladder")
    )
    assert [row["step"] for row in ladder] == list(CUMULATIVE_CHANGES)[:-1], "a CPU's are not compiled"
    assert all(row["target_tokens_per_second"] > 0 for row in ladder)
    assert all(row["milliseconds"] > 0 for row in attention if row["kernel"] in ("MATH", "PyTorch's choice"))
    assert {row["mask"] for row in attention} == {"none", "padding", "is_causal"}
    assert 0 < profiled["busy_share"] <= 1.1 and profiled["kernels"][0]["calls_per_step"] > 0


@pytest.mark.soak
def test_a_killed_training_loses_nothing_but_time(tmp_path: Path) -> None:
    measure("interruption", tmp_path / "results.json", quick=True)
    (row,) = json.loads((tmp_path / "results.json").read_text())
    assert row["steps"] > row["killed_after"] >= 4 and row["seconds_until_it_continued"] > 0
    assert row["largest_relative_difference"] == 0 and row["losses"][0] == row["losses"][1]


def test_a_dry_run_never_writes_among_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    steps(monkeypatch, first=["this"])
    with pytest.raises(UserError, match="--quick needs an --output folder of its own"):
        run((), quick=True)


def test_a_step_is_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps(monkeypatch, first=["this"], second=["this"])
    (tmp_path / "first.json").write_text("{}")
    run((), tmp_path, quick=True)
    printed = capsys.readouterr().out
    assert (tmp_path / "first.json").read_text() == "{}" and "first: already done" in printed
    assert (tmp_path / "second.json").exists()


def test_a_step_that_fails_does_not_end_the_run_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "fails_first.py"
    module.write_text("import pathlib, sys\nflag = pathlib.Path(sys.argv[1])\nprint('so far')\n"
                      "if not flag.exists(): flag.touch(); sys.exit('boom')")  # fmt: skip
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    steps(monkeypatch, fails=["fails_first", str(tmp_path / "flag")], succeeds=["this"])
    assert run((), tmp_path, quick=True) == 1
    failed = json.loads((tmp_path / "fails.failed.json").read_text())
    assert failed["exit_code"] == 1 and "so far" in failed["printed"] and "boom" in failed["printed"]
    assert (tmp_path / "succeeds.json").exists() and not (tmp_path / "fails.json").exists()
    assert run((), tmp_path, quick=True) == 0
    assert (tmp_path / "fails.json").exists() and not (tmp_path / "fails.failed.json").exists()


def test_a_step_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_run, "STEP_SECONDS", 1)
    (tmp_path / "endless.py").write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('started', child.pid, flush=True)\ntime.sleep(60)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    steps(monkeypatch, slow=["endless"])
    assert run((), tmp_path, quick=True) == 1
    printed = json.loads((tmp_path / "slow.failed.json").read_text())["printed"]
    assert "stopped after 1 s" in printed
    child = int(printed.split()[1])
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="there is no step 'atention'; did you mean attention"):
        run(("atention",), tmp_path, quick=True)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match="no CUDA GPU on this machine; for a dry run on another device, add --quick"):
        run((), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_steps_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    list_steps()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(STEPS)


@pytest.mark.parametrize("name", STEPS)
def test_the_arguments_of_each_step_are_understood(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both forms of the command, as far as they can be checked without running them."""
    for command in (STEPS[name].command, STEPS[name].quick):
        words = [word.format(json=tmp_path / "a.json", run=tmp_path / "run") for word in command]
        if words[0] == "transformer.cli":
            options = [word for word in words if word.startswith("--")]
            with pytest.raises(SystemExit):
                main([*words[1:3], "--help"])
            shown = capsys.readouterr().out
            assert all(option in shown for option in options), options
