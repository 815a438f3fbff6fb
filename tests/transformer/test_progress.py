"""Progress bars in a terminal and elsewhere."""

import io

import pytest

from transformer.progress import progress_bar


def test_without_a_terminal_there_is_one_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("counting", 3, unit="sheep") as bar:
        for _ in range(3):
            bar.update()
    assert capsys.readouterr() == ("", "counting\n")


def test_in_a_terminal_there_is_a_bar(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal)
    with progress_bar("counting", 3, unit="sheep") as bar:
        bar.update(3)
    assert "counting: 100%" in terminal.getvalue() and "3/3" in terminal.getvalue()


def test_a_bar_that_is_not_shown_prints_nothing(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    for stderr in (terminal, io.StringIO()):
        monkeypatch.setattr("sys.stderr", stderr)
        with progress_bar("counting", 3, shown=False) as bar:
            bar.update()
        assert stderr.getvalue() == ""
