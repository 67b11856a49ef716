"""The command line as a user meets it: exit codes, two-line errors, JSON, progress."""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cli_with_fakes
import here
import made_result
import pytest
import typer
from fakes import small_suite

import drivebay
from drivebay.cli import main as cli_main
from drivebay.cli import output
from drivebay.cli.app import PANELS, app
from drivebay.cli.entry import run as cli_run
from drivebay.cli.progress import ReviewProgress
from drivebay.definitions import profiles
from drivebay.definitions.template import DEFAULTS, QUESTIONS, template
from drivebay.review import Plan, Planned
from drivebay.serving import options

HERE = Path(__file__).parent
PROGRAM = [sys.executable, "-c", "from drivebay.cli import main; main()"]
FAKED = [sys.executable, str(HERE / "cli_with_fakes.py")]


def environment(**more: str) -> dict[str, str]:
    """This process's, with the package in reach and without colour."""
    return {**os.environ, "PYTHONPATH": str(HERE.parent / "python"), "NO_COLOR": "1", **more}


def run(
    *arguments: str, cwd: Path, program: list[str] | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end, without a terminal: in a process of its own where one is named,
    or the environment is another."""
    if program is None and not more:
        return here.drivebay(*arguments, cwd=cwd)
    return subprocess.run(
        [*(program or PROGRAM), *arguments],
        cwd=cwd,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def faked(*arguments: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs the program with fake drives in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in cli_with_fakes.INSTEAD:
            patch.setattr(module, name, value)
        for name, value in more.items():
            patch.setenv(name, value)
        return here.drivebay(*arguments, cwd=cwd)


def must_fail(done: subprocess.CompletedProcess[str], code: int, message: str) -> str:
    """Checks the two lines at the end of stderr, and returns the hint."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    return two_lines(done.stderr, message)


def two_lines(stderr: str, message: str) -> str:
    """Checks the two lines at the end, and returns the hint."""
    *_, error, hint = stderr.splitlines()
    assert error.startswith("error: ") and hint.startswith("hint: "), stderr
    assert re.search(message, error), error
    assert "Traceback" not in stderr and "╭" not in stderr
    return hint


MISTAKES = [
    (["nonsense"], "no such command 'nonsense'"),
    (["review"], "DRIVE is missing"),
    (["review", "--quik"], "no such option: --quik"),
    (["review", "sm951-ahci-512", "--seed", "x"], "'--seed'"),
    (["review", "sm951-ahci-512", "--seed", "-1"], "--seed: -1 is not allowed"),
    (["review", "sm951-ahci-512", "--jobs", "0"], "--jobs: 0 is not allowed"),
    (["review", "sm951-ahci-512", "--suite", "quik"], "suite 'quik' is unknown"),
    (["review", "sm951-ahci-512", "--suite", "./none.toml"], r"none\.toml does not exist"),
    (["review", "sm951-ahci-512", "--only", "randomread"], "has no test 'randomread'"),
    (["review", "sm951-ahci-512", "--only", "random-read", "--skip", "random-read"], "no test to"),
    (["review", "sm951-ahci-512", "--destroy-data", "S1"], "no meaning for the virtual drive"),
    (["review", "sm951"], "drive 'sm951' is unknown"),
    (["review", "./none.img"], r"none\.img does not exist"),
    (["review", "none.toml"], r"none\.toml does not exist"),
    (["review", "."], "drive '.' is|is a directory"),
    (["review", "/dev/null"], "neither a file nor a block device"),
    (["review", "/etc/passwd/x"], "does not exist"),
    (["review", "--resume", "nowhere"], "nowhere does not exist"),
    (["review", "--resume", "."], "holds no result"),
    (["review", "--resume", ".", "--out", "x"], "--out cannot be given with --resume"),
    (["review", "--resume", ".", "--only", "x"], "--only cannot be given with --resume"),
    (["report"], "missing argument 'DIR...'"),
    (["report", "nowhere"], "nowhere does not exist"),
    (["report", "."], "holds no result"),
    (["drives", "sm951-ahci-512", "extra"], "unexpected extra argument"),
    (["drives", "sm951"], "is not in the catalog"),
    (["bench", "--fast"], "no such option: --fast"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_error_and_one_hint(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli_run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(two_lines(shown.err, message)) > len("hint: ")
    assert len(shown.err.splitlines()) == 2
    assert list(tmp_path.iterdir()) == [], "nothing was made"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("prepare ./none.img", "drivebay prepare none.img --size 4G"),
        ("review ./none.img", "drivebay review none.img --size 4G"),
        ("replay ./none.img light", "drivebay review none.img --size 4G"),
        ("prepare /dev/none77", "see: drivebay drives"),
        ("review /dev", "see: drivebay drives"),
        ("serve pm9a3-960 --with fdp=8", "did you mean --set? see: drivebay serve --help"),
    ],
)
def test_what_is_not_there_is_made_by_the_command_that_was_given(
    capsys: pytest.CaptureFixture[str], words: str, hint: str
) -> None:
    assert cli_run(words.split()) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(hint)


def test_an_interrupt_while_modules_are_loaded_ends_as_any_other(tmp_path: Path) -> None:
    code = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from drivebay.cli import main
main()
"""
    done = run("drives", cwd=tmp_path, program=[sys.executable, "-c", code])
    must_fail(done, 130, "interrupted")
    assert len(done.stderr.splitlines()) == 2


def test_errors_are_not_wrapped_in_a_narrow_terminal(tmp_path: Path) -> None:
    done = run("review", "sm951-ahci-512", "--suite", "x" * 90, cwd=tmp_path, COLUMNS="20")
    must_fail(done, 2, "suite 'x{90}' is unknown")
    assert len(done.stderr.splitlines()) == 2


def test_a_near_miss_is_guessed(tmp_path: Path) -> None:
    assert "sm951-ahci-512" in must_fail(
        run("review", "sm951-ahci-521", cwd=tmp_path), 2, "unknown"
    )
    assert "--quick" in must_fail(run("review", "x", "--quik", cwd=tmp_path), 2, "--quik")


def test_a_drive_is_known_in_any_letter_case_unless_a_file_has_that_name(tmp_path: Path) -> None:
    words = ("review", "SM951-NVMe-256", "--only", "atto", "--quick")
    assert "on this drive" in run(*words, "--list", cwd=tmp_path).stdout
    (tmp_path / "SM951-NVMe-256").write_text("a letter")
    must_fail(run(*words, cwd=tmp_path), 2, "would be overwritten")
    assert (tmp_path / "SM951-NVMe-256").read_text() == "a letter"


def test_a_new_profile_asks_its_questions_and_takes_no_files_place(tmp_path: Path) -> None:
    like = ("new-drive", "mine", "--like", "970-evo-plus-1tb")
    assert run(*like, cwd=tmp_path).returncode == 0
    path = tmp_path / "mine.toml"
    written = path.read_text()
    must_fail(run(*like, cwd=tmp_path), 2, "mine.toml exists already")
    must_fail(run("new-drive", "Mine", cwd=tmp_path), 2, "lower-case letters")
    assert path.read_text() == written and list(tmp_path.iterdir()) == [path]
    assert profiles.load(path).stand_in
    answered = re.sub(r"# (nand\.read_us = \{ value = )[\d.]+", r"\g<1>40", written)
    path.write_text(answered.replace('source = ""', 'source = "guess: a test"'))
    assert profiles.load(path).raw["nand"]["read_us"]["value"] == 40


ASKED = {
    "pm9a3-960": "write_buffer.power_loss_protection controller.admission.interval_us "
    "host_interface.commands_max controller.mapping_unit_kib "
    "nand.suspend_mean_us nand.erase_suspend_us nand.read_planes",
    "samsung-980-1tb": "map_cache.host_buffer_mib slc_cache.fold_after_ms slc_cache.static_mb "
    "slc_cache.keep_mb slc_cache.read_us [[power.device]] power.link_awake_mw nand.suspend_us",
    "970-evo-plus-1tb": "read_ahead.window_kib slc_cache.read_us [[power.link]]",
}


@pytest.mark.parametrize("base", sorted(ASKED))
def test_a_new_profile_asks_what_its_base_has(base: str) -> None:
    text = template("mine", profiles.load(base))
    assert [word for word in ASKED[base].split() if word not in text] == []
    of_servers = ("power_loss", "admission", "commands_max", "mapping_unit")
    of_clients = ("slc_cache", "[[power.device]]", "power.link_awake_mw")
    server = base == "pm9a3-960"
    assert [word in text for word in of_servers] == [server] * len(of_servers)
    assert [word in text for word in of_clients] == [not server] * len(of_clients)


@pytest.mark.parametrize("base", profiles.names())
def test_questions_that_are_answered_with_the_bases_values_change_nothing(
    tmp_path: Path, base: str
) -> None:
    lines = template("mine", profiles.load(base)).splitlines()
    asked = [line.removeprefix("# ") for line in lines if line.endswith('source = "" }')]
    given = [line for line in lines if not line.startswith("#")]
    path = tmp_path / "mine.toml"
    path.write_text("\n".join([*given, *asked]).replace('source = ""', 'source = "guess: a test"'))
    before, after = profiles.load(base).raw, profiles.load(path).raw
    for key in (line.partition(" = ")[0] for line in asked):
        default = DEFAULTS.get(key, (None, ""))[0]
        assert value_of(after, key) == value_of(before, key, default), key


def value_of(profile: Any, key: str, default: Any = None) -> Any:
    """The value of a dotted key."""
    for part in key.split("."):
        profile = profile.get(part, {})
    return profile.get("value", default)


def test_no_question_is_asked_twice_or_of_no_drive() -> None:
    keys = [key for _, several in QUESTIONS for key in several]
    assert len(set(keys)) == len(keys)
    texts = "\n".join(template("mine", profiles.load(name)) for name in profiles.names())
    assert [key for key in keys if f"# {key} = " not in texts and f"[[{key}]]" not in texts] == []


def help_pages() -> list[tuple[str, ...]]:
    """The words of every command, groups and the program itself included."""

    def below(command: Any, words: tuple[str, ...]) -> list[tuple[str, ...]]:
        pages = [words]
        for name, inner in getattr(command, "commands", {}).items():
            pages += below(inner, (*words, name))
        return pages

    return below(typer.main.get_command(app), ())


def test_the_help_lists_review_and_report_first() -> None:
    assert [page[0] for page in help_pages() if len(page) == 1][:2] == ["review", "report"]
    assert sum(map(len, PANELS.values())) == len({page[0] for page in help_pages() if page})


def test_every_option_is_described() -> None:
    def below(command: Any) -> Iterator[Any]:
        yield from command.params
        for inner in getattr(command, "commands", {}).values():
            yield from below(inner)

    options = list(below(typer.main.get_command(app)))
    assert [option.name for option in options if not option.help] == []


def test_without_docstrings_the_verbs_work(tmp_path: Path) -> None:
    bare = [sys.executable, "-OO", *PROGRAM[1:]]
    assert run("drives", cwd=tmp_path, program=bare).returncode == 0


@pytest.mark.parametrize("words", help_pages(), ids=" ".join)
def test_every_help_page_is_narrow_and_has_an_example(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli_run([*words, "--help"]) == 0
    page = capsys.readouterr().out
    assert [line for line in page.splitlines() if len(line) > 80] == []
    assert "Examples:" in page and "\\b" not in page
    assert re.search(
        rf"^ +(sudo )?drivebay {' '.join(words)}", page.partition("Examples:")[2], re.M
    )
    assert page.startswith(f"Usage: drivebay {' '.join(words)}".rstrip()), "no words before it"


def test_help_needs_no_heavy_import(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom drivebay.cli.entry import run\n"
        f"for words in {help_pages()}: run([*words, '--help'])\n"
        "heavy = ('pyarrow', 'numpy', 'matplotlib', 'pydantic', 'rich', 'drivebay._core')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    loaded = run(cwd=tmp_path, program=[sys.executable, "-c", script])
    assert loaded.stdout.splitlines()[-1] == "[]", loaded.stderr


def test_a_verb_loads_only_its_own_module(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom drivebay.cli.entry import run\nrun('{}'.split())\n"
        "print([m for m in sys.modules if m in ('rich', 'pyarrow', 'pydantic', 'numpy',"
        " 'drivebay.cli.review', 'drivebay.cli.sweep')])"
    )
    for verb in ("--version", "hosts", "ctl none status", "serve sm951-nvme-256 --nbd unix:no/s"):
        done = run(cwd=tmp_path, program=[sys.executable, "-c", script.format(verb)])
        loaded = set(json.loads(done.stdout.splitlines()[-1].replace("'", '"')))
        assert loaded <= ({"rich"} if verb == "hosts" else set())


def test_no_command_shows_five_lines_to_type(tmp_path: Path) -> None:
    done = run(cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    asked = ["try", "your disk", "compare", "throttling", "serve"]
    assert [line.partition("  ")[0] for line in lines] == asked
    assert max(map(len, lines)) <= 80
    for line in lines:
        verb, *words = line.partition("drivebay ")[2].partition("  ")[0].split()
        page = run(verb, "--help", cwd=tmp_path).stdout
        for word in words:
            assert not word.startswith("--") or f"  {word}" in page, line


def test_ctrl_c_while_the_report_is_made_says_how_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from drivebay.cli import report

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    words = "sm951-ahci-128 --suite quick --quick --only random-read --quiet --out it's"
    with monkeypatch.context() as patched:
        patched.setattr(report, "write", interrupted)
        assert cli_run(["review", *words.split()]) == 130
    hint = capsys.readouterr().err.splitlines()[-1].removeprefix("hint: drivebay ")
    assert cli_run(shlex.split(hint)) == 0
    assert (tmp_path / "it's" / "report.html").exists()


def test_version(tmp_path: Path) -> None:
    done = run("--version", cwd=tmp_path)
    assert done.returncode == 0 and re.match(r"drivebay \d", done.stdout)


def test_drives_lists_catalog_and_devices(tmp_path: Path) -> None:
    done = run("drives", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    sm951 = next(drive for drive in table["drives"] if drive["name"] == "sm951-ahci-512")
    assert sm951["capacity_bytes"] == 512_110_190_592 and "AHCI" in sm951["interface"]
    assert sm951["media"] == "MLC"
    classes = [drive["drive_class"] for drive in table["drives"]]
    assert classes == sorted(classes, key=["SATA", "PCIe, AHCI", "NVMe", "data center"].index)
    for device in table["devices"]:
        assert {"path", "model", "serial", "capacity_bytes", "blockers"} <= set(device)
    text = run("drives", cwd=tmp_path)
    assert text.returncode == 0 and re.search("sm951-ahci-512 +512.1 GB", text.stdout)
    assert all(line == line.rstrip() for line in text.stdout.splitlines())


def test_drives_tells_what_is_known_of_one(tmp_path: Path) -> None:
    shown = run("drives", "980-pro-1tb", cwd=tmp_path).stdout
    assert re.search(r"^controller +Samsung Elpis.* +AnandTech 16087", shown, re.MULTILINE)
    assert "--set heatsink" in shown
    told = json.loads(run("drives", "980-pro-1tb", "--json", cwd=tmp_path).stdout)
    assert told["drive_class"] == "NVMe"
    assert told["profile"]["nand"]["erase_us"]["source"].startswith("guess:")


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """As `drivebay drives | head -1` does."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        done = subprocess.run(
            [*PROGRAM, "drives"],
            env=environment(),
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.stderr == b""


# ------------------------------------------------------------------- review, on the fake drive


def test_review_prints_figures_and_paths(tmp_path: Path) -> None:
    done = faked("review", "fake", "--out", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["result  r", "report  r/report.html"]
    assert "random-read" in done.stdout and "MB/s" in done.stdout
    assert done.stderr.startswith("review: 4 tests, about ")
    ended = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("done: ")]
    assert sorted(ended) == sorted(test.id for test in small_suite().tests)


def test_review_json_is_all_that_stdout_has(tmp_path: Path) -> None:
    done = faked("review", "fake", "--json", "--only", "random-read", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert set(summary) == {"result", "report", "headline", "warnings", "interruptions"}
    assert (summary["warnings"], summary["interruptions"]) == ([], {})
    assert Path(summary["result"]) == tmp_path / "drivebay-results" / "fake-drive-small-1"
    assert {row["test_id"] for row in summary["headline"]} == {"random-read"}


def test_existing_result_is_refused_and_resume_of_a_whole_one_is_fine(tmp_path: Path) -> None:
    assert faked("review", "fake", "--out", "r", cwd=tmp_path).returncode == 0
    again = faked("review", "fake", "--out", "r", cwd=tmp_path)
    assert "--resume" in must_fail(again, 2, "holds a result already")
    resumed = faked("review", "--resume", "r", cwd=tmp_path)
    assert resumed.returncode == 0 and "report  r/report.html" in resumed.stdout
    other = faked("review", "--resume", "r", "--seed", "2", cwd=tmp_path)
    must_fail(other, 2, "started with seed 1, not 2")


def test_a_place_that_cannot_be_written_is_exit_3(tmp_path: Path) -> None:
    done = faked("review", "fake", "--out", "/proc/r", cwd=tmp_path)
    assert "--out" in must_fail(done, 3, "/proc/r")


def test_a_long_test_of_a_real_drive_needs_consent(tmp_path: Path) -> None:
    long = {"FAKE_KIND": "block", "FAKE_HOURS": "1"}
    done = faked("review", "x", "--out", "r", cwd=tmp_path, **long)
    assert "--yes" in must_fail(done, 2, "about 4 h 0 min.*no terminal")
    assert "serial FAKE0001" in done.stderr and "ALL DATA ON IT WILL BE LOST" in done.stderr
    assert list(tmp_path.iterdir()) == []
    done = faked("review", "x", "--out", "r", "--yes", cwd=tmp_path, **long)
    assert done.returncode == 0, done.stderr


def on_terminal(
    *arguments: str, cwd: Path, keys: bytes = b"", columns: int = 100, **more: Any
) -> tuple[int, str]:
    """Runs the faked program on a terminal of its own; returns exit code and what it showed."""
    ours, theirs = pty.openpty()
    size = dict.fromkeys(("COLUMNS", "LINES"), "")  # a test runner's own; the terminal's counts
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen(
        [*FAKED, *arguments],
        cwd=cwd,
        env={**environment(**more), **size, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, keys)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # EIO: the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return child.wait(), shown.decode()


@pytest.mark.parametrize(("keys", "code"), [(b"y\n", 0), (b"n\n", 2), (b"\x04", 130)])
def test_consent_is_asked_on_a_terminal(tmp_path: Path, keys: bytes, code: int) -> None:
    long: dict[str, Any] = {"FAKE_KIND": "block", "FAKE_HOURS": "1"}
    done, shown = on_terminal("review", "x", "--out", "r", cwd=tmp_path, keys=keys, **long)
    assert "This will take about 4 h 0 min. Start?" in shown
    assert done == code, shown
    assert (tmp_path / "r").exists() == (code == 0)
    assert "Traceback" not in shown


@pytest.mark.parametrize("columns", [20, 55, 70, 120])
def test_bars_fit_the_terminal(tmp_path: Path, columns: int) -> None:
    done, shown = on_terminal(
        "review", "x", "--out", "r", cwd=tmp_path, columns=columns, FAKE_WALL_S="0.5"
    )
    assert done == 0, shown
    assert "Traceback" not in shown
    progress = shown[: shown.index("done: ")]
    assert "%" in progress and "total" in progress
    for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", progress).replace("\r", "\n").split("\n"):
        assert len(line) <= columns, line
    assert "\x1b[3" not in shown, "NO_COLOR is kept"


def test_a_closed_terminal_ends_the_review_and_keeps_what_had_finished(tmp_path: Path) -> None:
    """As when an ssh connection breaks: the terminal hangs up and can no longer be written to."""
    pid, ours = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        arguments = [*FAKED, "review", "x", "--out", "r", "--jobs", "1"]
        os.execve(arguments[0], arguments, {**environment(FAKE_WALL_S="1.5"), "TERM": "xterm"})
    first = tmp_path / "r" / "steps" / "consistency-default"
    while not first.exists():
        os.read(ours, 65536)
    os.close(ours)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    table = json.loads((tmp_path / "r" / "manifest.json").read_text())
    states = [step["state"] for step in table["steps"]]
    assert states.count("done") >= 1 and states.count("pending") >= 2
    done = faked("review", "--resume", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("array", "sm951-nvme-512", "--members", "33"),
        ("array", "sm951-nvme-512", "--members", "1"),
        ("size", "pm9a3-960", "checkpoint:1G/10", "--share", "2"),
    ],
)
def test_a_number_out_of_its_range_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    must_fail(run(*words, cwd=tmp_path), 2, f"invalid value for '{words[-2]}'")


# ------------------------------------------------------------------------------- arithmetic


def plan_of(*seconds: float) -> Plan:
    """A plan with these estimates."""
    tests = small_suite().tests
    return Plan(tuple(Planned(t, s) for t, s in zip(tests, seconds, strict=False)))


def progress(clock: list[float], *seconds: float) -> ReviewProgress:
    """The progress of a review with these estimates, on a clock that the test moves."""
    shown = ReviewProgress(now=lambda: clock[0])
    shown.begin(plan_of(*seconds), jobs=1)
    return shown


def test_total_is_weighted_by_the_estimates() -> None:
    clock = [0.0]
    shown = progress(clock, 90, 10)
    total = shown.bars.tasks[0]
    long, short = "consistency-default", "random-read"
    assert total.percentage == 0.0 and total.time_remaining is None
    assert shown.expected == "about 1 min 40 s in total", "said until something is measured"
    shown.started(long)
    clock[0] = 20.0
    shown.progressed(long, "run", 15, 60, {})
    clock[0] = 40.0
    shown.progressed(long, "run", 30, 60, {"iops": 1.0})
    assert total.percentage == pytest.approx(45)
    assert total.time_remaining == pytest.approx(40 / 0.45 - 40, abs=1), "by the progress made"
    assert shown.expected == "about 1 min 30 s in total", "learned from this machine"
    assert shown.bars.tasks[1].time_remaining == pytest.approx(40.0)
    shown.progressed(long, "run", 10, 60, {})
    assert total.percentage == pytest.approx(45), "never back"
    clock[0] = 400.0
    shown.progressed(long, "run", 30, 60, {})
    assert shown.expected == "about 6 min 40 s in total", "a test that stands still tells no more"
    shown.ended(long, "done")
    assert total.percentage == pytest.approx(90)
    shown.started(short)
    shown.progressed(short, "run", 30, 60, {})
    shown.ended(short, "cancelled")
    assert total.percentage == pytest.approx(90), "a cancelled test is not done"
    shown.end()


def test_progress_of_a_test_that_has_ended_is_ignored() -> None:
    shown = progress([0.0], 10)
    shown.started("consistency-default")
    shown.ended("consistency-default", "cancelled")
    shown.progressed("consistency-default", "run", 30, 60, {})
    assert shown.bars.tasks[0].percentage == 0.0
    shown.end()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.5, "0.50"), (7.456, "7.46"), (99.94, "99.9"), (108.13, "108"), (-3.5, "-3.50")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert output.number(value) == text


def test_main_exits_with_the_commands_code(capsys: Any) -> None:
    with pytest.raises(SystemExit) as caught:
        cli_main(["nonsense"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("error: no such command 'nonsense'\nhint: ")


def test_list_says_what_would_be_run_and_how_long_it_takes(tmp_path: Path) -> None:
    done = run("review", "--list", "--suite", "thermal-2015", "--json", cwd=tmp_path)
    rows = {row["id"]: row for row in json.loads(done.stdout)["tests"]}
    assert len(rows) == 10 and rows["light-heatsink"]["what_if"] == ["heatsink"]
    assert rows["random-write-without"]["drive_s"] == 3600 + 1800
    assert rows["random-write-without"]["estimate_s"] is None
    words = ("review", "sm951-nvme-256", "--list", "--only", "atto", "--quick")
    shown = run(*words, cwd=tmp_path).stdout
    assert "atto" in shown and "on this drive" in shown and "random-read" not in shown
    assert list(tmp_path.iterdir()) == [], "nothing is run"


def test_yes_does_no_harm_where_nothing_is_asked() -> None:
    for words in (["suites"], ["hosts"], ["drives", "xp941-512"]):
        assert cli_run([*words, "--yes"]) == 0
    assert cli_run(["suites", "--no"]) == 2


def test_compare_shows_differences_from_the_first_result(tmp_path: Path) -> None:
    assert faked("review", "fake", "--out", "a", cwd=tmp_path).returncode == 0
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    done = run("compare", "a", "b", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    assert table["names"] == ["a", "b"], "the same drive: told apart by their folders"
    figures = {row["test_id"]: row["values"] for row in table["figures"]}
    assert figures["random-read"][0] == figures["random-read"][1] is not None
    assert "+0.0 %" in run("compare", "a", "b", cwd=tmp_path).stdout
    assert "DIR DIR" in must_fail(run("compare", "a", cwd=tmp_path), 2, "at least two")


def test_compare_gives_no_difference_where_a_test_ran_differently(tmp_path: Path) -> None:
    drivebay.drive("sm951-nvme-128").scaled(1 / 64).save(tmp_path / "small.toml")
    for out, *words in (("a", "--suite", "quick"), ("b", "--quick")):
        given = ("small.toml", "--only", "random-read", "--out", out, *words)
        done = run("review", *given, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "Shortened run: not comparable" in done.stdout
    rows = json.loads(run("compare", "a", "b", "--json", cwd=tmp_path).stdout)["figures"]
    assert rows and all(one["run_differently"] and None not in one["values"] for one in rows)
    shown = run("compare", "a", "b", cwd=tmp_path).stdout
    assert "run differently" in shown and "%" not in shown


def test_compare_sets_near_loads_beside_each_other_where_no_test_is_common(tmp_path: Path) -> None:
    for name, test in (("a", "random-read"), ("b", "mixed-random"), ("c", "thermal-write")):
        made_result.make(tmp_path / name, only=(test,))
    found = json.loads(run("compare", "a", "b", "--json", cwd=tmp_path).stdout)
    assert found["figures"] == [] and found["loads"], "reads of either test"
    for row in found["loads"]:
        (near,) = row["nearest"]
        assert (near["pattern"], near["reads"]) == (row["load"]["pattern"], row["load"]["reads"])
    shown = run("compare", "a", "b", cwd=tmp_path).stdout
    assert "no test in common" in shown and "Mixed 4 KiB random, reads, QD" in shown
    assert "same suite" in must_fail(run("compare", "a", "c", cwd=tmp_path), 2, "no similar load")


def test_suites_lists_each_with_its_tests(tmp_path: Path) -> None:
    found = json.loads(run("suites", "--json", cwd=tmp_path).stdout)["suites"]
    assert {"anandtech-2015", "client-2024", "datacenter"} <= {one["name"] for one in found}
    listed = run("review", "--list", "--suite", "quick", "--json", cwd=tmp_path).stdout
    (quick,) = (one for one in found if one["name"] == "quick")
    assert quick["tests"] == [test["id"] for test in json.loads(listed)["tests"]]
    shown = run("suites", cwd=tmp_path).stdout
    assert found and all(one["title"] in shown for one in found)


@pytest.mark.parametrize("table", [options.Options, options.Drive])
def test_a_server_has_its_options_where_docstrings_have_no_indentation(table: type) -> None:
    """Python 3.13 and later compile docstrings so."""
    stripped = type(table.__name__, (table,), {"__doc__": inspect.cleandoc(table.__doc__ or "")})
    assert [each.name for each in options.options_of(stripped)]
    assert options.options_of(stripped) == options.options_of(table)
