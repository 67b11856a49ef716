"""Output of every command: on 80 columns, without colour, in a pipe, as JSON, and quiet."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import here
import made_result
import pytest
import typer

from drivebay.cli.app import app

WIDTH = 80
UNWRAPPED = re.compile(r".*\S{60}")
"""A line with a long path."""
CASES = {
    "review": "sm951-ahci-512 --suite quick --quick --only trim --out new",
    "report": "a --no-competitors",
    "open": "a",
    "compare": "a b",
    "rank": "jobs.fio --drives sm951-nvme-128 --fresh",
    "fleet": "log.json light.csv --drives sm951-nvme-128",
    "drives": "",
    "suites": "",
    "new-drive": "mine --like sm951-ahci-512",
    "new-policy": "policy",
    "hosts": "",
    "explain": "a random-read",
    "trace info": "light.csv",
    "trace convert": "light.csv light.iolog",
    "trace synth": "light --scale 0.001 --out more.csv",
    "replay": "sm951-ahci-512 light.csv --empty",
    "size": "7450-pro-960 checkpoint:1G/10",
    "age": "sm951-nvme-128 --until 1%",
    "array": "sm951-nvme-128",
    "validate": "--row S085",
    "prepare": "sm951-nvme-512 --method two-fills --capacity 1G",
    "query": "'SELECT test, label FROM figures' a",
    "import fio": "fio.json --out imported",
    "import auto": "fio.json --out imported",
    "judge": "fio.json",
    "doctor": "",
}
"""Words with which a command runs for a moment; `a` and `b` are results."""
SLOW = ("rank", "fleet", "size", "age", "array", "validate", "prepare")
ELSEWHERE = {
    "check-trim": "test_trim.py",
    "trace record": "test_trace_record.py",
    "serve": "test_listeners.py",
    "ctl": "test_listeners.py",
    "crash record": "test_crash.py",
    "crash run": "test_crash.py",
    "crash show": "test_crash.py",
    "crash replay": "test_crash.py",
    "calibrate": "test_calibrate.py",
    "twin": "test_twin.py",
    "sweep": "test_sweep.py",
    "worker": "test_fleet.py",
    "import fio-text": "test_imports.py",
    "import as-ssd": "test_imports.py",
    "import crystaldiskmark": "test_imports.py",
    "import diskspd": "test_imports.py",
    "import elbencho": "test_imports.py",
    "import fio-terse": "test_imports.py",
    "import iometer": "test_imports.py",
    "import iostat": "test_imports.py",
    "import phoronix": "test_imports.py",
    "import vdbench": "test_imports.py",
    "gate record": "test_gate.py",
    "gate time": "test_gate.py",
    "gate compare": "test_gate.py",
    "bench": "test_bench.py",
}
"""Commands that need a device, a server or minutes, and the tests that run them."""


def commands() -> dict[str, set[str]]:
    """Names of all commands, with their options."""

    def below(command: Any, words: tuple[str, ...]) -> dict[str, set[str]]:
        if not hasattr(command, "commands"):
            return {" ".join(words): {name for one in command.params for name in one.opts}}
        parts = [below(part, (*words, name)) for name, part in command.commands.items()]
        return {name: options for part in parts for name, options in part.items()}

    return below(typer.main.get_command(app), ())


class Terminal(io.StringIO):
    """A terminal that keeps what it shows."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two results, a trace and an output of fio."""
    folder = tmp_path_factory.mktemp("prepared")
    shutil.copy(here.DATA / "fio/3.39-answers.json", folder / "fio.json")
    (folder / "jobs.fio").write_text("[reads]\nrw=randread\nruntime=1\ntime_based")
    log = {"power_on_hours": 100, "data_units_written": 10**6}
    (folder / "log.json").write_text(json.dumps(log))
    made_result.make(folder / "a", only=("random-read",))
    done = here.drivebay(
        *["trace", "synth", "light", "--scale", "0.001", "--out", "light.csv"], cwd=folder
    )
    assert done.returncode == 0, done.stderr
    (folder / "a/report.html").touch()
    shutil.copytree(folder / "a", folder / "b")
    return folder


def test_every_command_is_run_here_or_elsewhere() -> None:
    assert CASES.keys() | ELSEWHERE.keys() == commands().keys()
    assert [
        name for name in ELSEWHERE.values() if not (Path(__file__).parent / name).exists()
    ] == []


@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in CASES],
)
def test_output_fits_80_columns_and_has_no_escape_codes(
    command: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal without colour, in a pipe, and in a pipe that is quiet and gets JSON."""
    monkeypatch.setattr("webbrowser.open", lambda _page: True)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    words = [*command.split(), *shlex.split(CASES[command])]
    shown: list[str] = []

    def run(*more: str) -> Any:
        folder = tmp_path / str(len(shown))
        shutil.copytree(prepared, folder)
        done = here.drivebay(*words, *more, cwd=folder)
        assert done.returncode in (0, 1), done.stderr
        shown.append(done.stdout)
        assert "\x1b" not in done.stdout + done.stderr
        return done

    with monkeypatch.context() as terminal:
        terminal.setenv("NO_COLOR", "1")
        terminal.setattr(here, "Output", Terminal)
        done = run()
    wide = [line for line in done.stdout.splitlines() if len(line) > WIDTH]
    assert [line for line in wide if not UNWRAPPED.match(line)] == []
    has_json = "--json" in commands()[command]
    done = run("--quiet", *(["--json"] if has_json else []))
    assert [line for line in done.stderr.splitlines() if not line.startswith("warning: ")] == []
    if has_json:
        json.loads(done.stdout)
        run()
