"""What compare, report and the Bench do about a folder that cannot be shown: the same."""

from __future__ import annotations

import json
import re
import sys
import webbrowser
from pathlib import Path

import made_result
import pytest

from drivebay.cli.entry import run

FORMS = [["compare"], ["report", "--out", "both.html"], ["report", "--out", "site"]]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two results of a test, an empty folder, and one without a finished test."""
    monkeypatch.chdir(tmp_path)
    for name, speed in (("a", 1.0), ("b", 1.5)):
        made_result.make(Path(name), suite="quick", only=("random-read",), speed=speed)
    made_result.make(Path("unfinished"), suite="quick", only=())
    Path("empty").mkdir()


def words(form: list[str], *names: str) -> list[str]:
    more = ["--no-competitors", "--no-intervals"] if form[0] == "report" else []
    return [form[0], *names, *form[1:], *more]


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_a_folder_that_is_not_there_ends_it(
    form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words(form, "a", "b", "gone")) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: result folder gone does not exist"
    assert hint.startswith("hint: ")
    assert not Path("both.html").exists() and not Path("site").exists()


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
@pytest.mark.parametrize("bad", ["empty", "unfinished"])
def test_of_several_one_that_cannot_be_shown_is_left_out(
    form: list[str], bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words(form, "a", bad, "b")) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: skipped: {bad}")


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_too_few_that_can_be_shown_end_it(
    form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words(form, "empty", "unfinished")) == 2
    error = capsys.readouterr().err.splitlines()[-2]
    assert error.startswith("error: ")


@pytest.mark.usefixtures("folders")
def test_open_shows_the_newest_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert run(["open", "."]) == 2, "no report yet"
    assert run(["report", "a", "--no-competitors"]) == 0
    capsys.readouterr()
    assert run(["open", "."]) == 0 and run(["open", "a"]) == 0
    assert capsys.readouterr().out.split() == ["a/report.html", "a/report.html"]
    assert opened == [Path("a/report.html").resolve().as_uri()] * 2


PLAIN = [
    ["drives"],
    ["drives", "sm951-ahci-512"],
    ["suites"],
    ["hosts"],
    ["compare", "a", "b"],
    ["query", "SELECT count(*) AS n FROM runs", "a"],
]


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("command", PLAIN, ids=" ".join)
def test_a_command_is_plain_in_a_pipe_fits_a_terminal_and_prints_json(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run([*command, "--quiet"]) in (0, 1)
    out, err = capsys.readouterr()
    assert out and "\x1b" not in out and not err
    assert run([*command, "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    assert run(command) in (0, 1)
    out = capsys.readouterr().out
    rows = [line for line in re.sub("\x1b.*?m", "", out).splitlines() if "  " in line.strip()]
    assert "\x1b[3" not in out and all(len(row) <= 80 for row in rows)
