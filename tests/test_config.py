"""`drivebay.toml`: whose defaults hold, what it may not have, and `--quiet`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivebay.cli import config, output
from drivebay.cli.app import PANELS
from drivebay.cli.entry import run


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder and a home of its own; the next command is loud again."""
    (tmp_path / "work").mkdir()
    (tmp_path / "home" / "drivebay").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(output, "_quiet", False)


def here(text: str) -> None:
    Path("drivebay.toml").write_text(text)


def at_home(tmp_path: Path, text: str) -> None:
    (tmp_path / "home" / "drivebay" / "drivebay.toml").write_text(text)


def listed(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, str]:
    """The suite that `review --list` shows, and what stood on stderr."""
    assert run(["review", "--list", "--json", *more]) == 0
    shown = capsys.readouterr()
    return json.loads(shown.out)["suite"], shown.err


def test_the_command_line_goes_before_the_folder_and_that_before_home(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed(capsys) == ("anandtech-2015", "")
    at_home(tmp_path, 'suite = "quick"\n')
    suite, said = listed(capsys)
    assert suite == "quick"
    assert said == f"note: --suite is set by {tmp_path}/home/drivebay/drivebay.toml: quick\n"
    here('[review]\nsuite = "snia-client"\n')
    assert listed(capsys) == ("snia-client", "note: --suite is set by drivebay.toml: snia-client\n")
    assert listed(capsys, "--suite", "datacenter") == ("datacenter", "")


def test_a_key_at_the_top_holds_where_the_option_is(capsys: pytest.CaptureFixture[str]) -> None:
    here('suite = "quick"\n[report]\nno-intervals = true\n')
    assert run(["suites", "--json"]) == 0
    assert capsys.readouterr().err == ""


REFUSED = [
    ("[review]\nquck = true", "'review.quck' is not an option that the file may set", "quick"),
    ("[revew]\nquick = true", "'revew' is not a command", "review"),
    (
        'seed = "1"',
        "seed: '1' is not allowed; must be a whole number",
        "correct or delete the line",
    ),
    (
        "jobs = true",
        "jobs: True is not allowed; must be a whole number",
        "correct or delete the line",
    ),
    ("quick = 1", "quick: 1 is not allowed; must be true or false", "correct or delete the line"),
    ('[report]\nsuite = "quick"', "drivebay report has no such option", "report --help"),
    ("quick =", "not valid TOML", "a line"),
    ("seed = -1", "--seed: -1 is not allowed", "review --help"),
]


@pytest.mark.parametrize(("text", "error", "hint"), REFUSED)
def test_a_mistake_is_named(
    capsys: pytest.CaptureFixture[str], text: str, error: str, hint: str
) -> None:
    here(text)
    verb = ["report", "--bench"] if text.startswith("[report]") else ["review", "--list"]
    assert run(verb) == 2
    first, second = [
        line for line in capsys.readouterr().err.splitlines() if not line.startswith("note: ")
    ]
    assert first.startswith("error: ") and error in first
    assert second.startswith("hint: ") and hint in second


DANGEROUS = [
    "destroy-data = 'S1'",
    "overwrite-signature = true",
    "yes = true",
    "policy = '/tmp/x.so'",
    "set = ['heatsink']",
    "out = '/tmp/x'",
    "png = '/tmp/x'",
    "force = true",
    "trust-network = true",
    "foreign-data = true",
    "data = '/tmp/x'",
    "nbd = ':10809'",
]


@pytest.mark.parametrize("text", DANGEROUS)
def test_no_file_gives_consent_or_names_what_is_written(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    here(text)
    assert run(["review", "--list"]) == 2
    assert "is not an option that the file may set" in capsys.readouterr().err


def test_every_option_that_a_file_may_have_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("review", "report"):
        assert run([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in config.OPTIONS if f"  --{name} " not in shown] == []


def test_the_help_is_shown_whatever_the_file_has(capsys: pytest.CaptureFixture[str]) -> None:
    here("nonsense")
    assert run(["review", "--help"]) == 0
    assert capsys.readouterr().err == ""


def test_a_review_that_goes_on_takes_nothing_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["review", "sm951-ahci-512", "--suite", "quick", "--quick", "--only", "trim"]
    assert run([*words, "--out", "made", "--no-intervals"]) == 0
    here('suite = "datacenter"\nseed = 7\nhost = "linux-io-uring"\n')
    capsys.readouterr()
    assert run(["review", "--resume", "made", "--no-intervals"]) == 0, capsys.readouterr().err


def test_quiet_leaves_results_warnings_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["review", "sm951-ahci-512", "--suite", "quick", "--quick", "--only", "trim"]
    assert run([*words, "--out", "loud"]) == 0
    assert "review: 1 test" in capsys.readouterr().err
    assert run([*words, "--out", "still", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "" and "result  still" in shown.out
    assert run([*words, "--out", "still", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    Path("empty").mkdir()
    assert run(["report", "loud", "still", "empty", "--out", "x.html", "--quiet"]) == 0
    assert capsys.readouterr().err.startswith("warning: skipped: empty")


def test_every_command_has_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    groups = ("trace", "import", "crash", "gate")
    for verb in (name for panel in PANELS.values() for name in panel if name not in groups):
        assert run([verb, "--help"]) == 0
        assert "--quiet" in capsys.readouterr().out, verb
