"""The step of a CI job that serves a drive: it leaves a running server and says where it is.

Options once were words for the shell's `eval`, and `$(command)` ran. Now they are one a line.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[1]
SCRIPT = TOP / "scripts" / "action.sh"
PROGRAM = f"exec {sys.executable} -c 'from drivebay.cli import main; main()' \"$@\""
RECORDER = (
    'printf "%s\\0" "$@" >"$RUNNER_TEMP/arguments"; echo recorded; echo " ::error::x"; exit 7'
)


def step(
    folder: Path,
    drive: str,
    options: str = "",
    *,
    program: str = PROGRAM,
    temp: str | None = None,
    command: Sequence[str] = (str(SCRIPT),),
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    path = folder / "drivebay"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    return subprocess.run(
        command,
        env={
            **os.environ,
            **(variables or {}),
            "PATH": f"{folder}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(folder) if temp is None else temp,
            "GITHUB_OUTPUT": str(folder / "outputs"),
            "GITHUB_PATH": str(folder / "path"),
            "DRIVE": drive,
            "OPTIONS": options,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def arguments(folder: Path, drive: str, options: str) -> list[str]:
    """What the program is called with for these options, without what the step adds."""
    done = step(folder, drive, options, program=RECORDER)
    assert (done.returncode, done.stderr) == (1, "recorded\n : :error::x\n")
    verb, *given, nbd, control, dashes, last = (
        (folder / "arguments").read_bytes().decode().removesuffix("\0").split("\0")
    )
    assert (verb, dashes, last) == ("serve", "--", drive)
    (own,) = folder.glob("drivebay.*")
    assert nbd == f"--nbd=unix:{own}/nbd"
    assert control == f"--control=unix:{own}/control"
    return given


def server_of(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split("process ")[1].split(")")[0])


def outputs_of(folder: Path) -> dict[str, str]:
    """What the last step in this folder gave."""
    return dict(line.split("=", 1) for line in (folder / "outputs").read_text().splitlines())


def status(folder: Path, control: str) -> dict[str, Any]:
    command = [str(folder / "drivebay"), "ctl", control, "status", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def test_a_step_leaves_a_served_drive(tmp_path: Path) -> None:
    server = server_of(step(tmp_path, "sm951-ahci-512", "--pace none\n--set ambient_c = 30\n"))
    try:
        outputs = outputs_of(tmp_path)
        own = Path(outputs["control"]).parent
        assert own.parent == tmp_path
        assert outputs["nbd"] == f"nbd+unix:///?socket={own}/nbd"
        assert status(tmp_path, outputs["control"])["power_cuts"] == 0
    finally:
        os.kill(server, signal.SIGTERM)


def test_a_second_step_of_a_job_serves_a_second_drive(tmp_path: Path) -> None:
    first = server_of(step(tmp_path, "sm951-ahci-512", "--pace none"))
    try:
        control = outputs_of(tmp_path)["control"]
        second = server_of(step(tmp_path, "xp941-512", "--pace none"))
        try:
            other = outputs_of(tmp_path)["control"]
            assert other != control
            drives = [status(tmp_path, one)["drive"] for one in (control, other)]
            assert drives == ["sm951-ahci-512", "xp941-512"]
        finally:
            os.kill(second, signal.SIGTERM)
    finally:
        os.kill(first, signal.SIGTERM)


def test_sockets_that_an_earlier_job_left_do_not_count(tmp_path: Path) -> None:
    for name in ("drivebay.control", "drivebay.nbd"):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(tmp_path / name))
    done = step(tmp_path, "nosuch")
    assert done.returncode == 1
    assert not (tmp_path / "outputs").exists()


def test_a_server_that_does_not_start_fails_the_step(tmp_path: Path) -> None:
    done = step(tmp_path, "nosuch")
    assert done.returncode == 1
    assert "error: drive 'nosuch' is not in the catalog" in done.stderr


def test_a_socket_that_nobody_answers_at_is_no_drive(tmp_path: Path) -> None:
    """A server that has made its socket and ends then."""
    bind = (
        "import socket, sys, time; one = socket.socket(socket.AF_UNIX); "
        "one.bind(next(word for word in sys.argv if word.startswith('--control=unix:'))[15:]); "
        "time.sleep(1); sys.exit('gone')"
    )
    program = f'[ "$1" = serve ] && exec {sys.executable} -c "{bind}" "$@"; {PROGRAM}'
    done = step(tmp_path, "sm951-ahci-512", program=program)
    assert (done.returncode, done.stderr) == (1, "gone\n")
    assert not (tmp_path / "outputs").exists()


def test_files_are_named_by_the_step(tmp_path: Path) -> None:
    variables = {"GITHUB_ACTION": "__my/step 2"}
    assert step(tmp_path, "nosuch", variables=variables).returncode == 1
    (own,) = tmp_path.glob("drivebay-*")
    assert own.name.startswith("drivebay-__my_step_2.") and (own / "log").exists()


def test_the_action_gives_the_script_its_inputs_as_variables(tmp_path: Path) -> None:
    """What stands between ${{ and }} in `run` would be the shell's own text."""
    run = next(
        line.partition("run: '")[2].removesuffix("'")
        for line in (TOP / "action.yml").read_text().splitlines()
        if line.strip().startswith("run: '")
    )
    assert "${{" not in run
    checkout = tmp_path / "a b"
    checkout.mkdir()
    (checkout / "scripts").symlink_to(SCRIPT.parent)
    done = step(
        tmp_path,
        "nosuch",
        program=RECORDER,
        command=("bash", "-ec", run),
        variables={"GITHUB_ACTION_PATH": str(checkout)},
    )
    assert (done.returncode, done.stderr) == (1, "recorded\n : :error::x\n")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", []),
        ("\n \n\t\n", []),
        ("--read-only", ["--read-only"]),
        ("--pace none\n--seed=2", ["--pace=none", "--seed=2"]),
        ("--pace none\r\n\r\n--seed 2 \r\n--json\r", ["--pace=none", "--seed=2", "--json"]),
        ("  --set \t ambient_c = 30  ", ["--set=ambient_c = 30"]),
        ("--serial=", ["--serial="]),
    ],
)
def test_each_line_is_an_option(tmp_path: Path, options: str, expected: list[str]) -> None:
    assert arguments(tmp_path, "sm951-ahci-512", options) == expected


HOSTILE = [
    "$(touch CANARY)",
    "`touch CANARY`",
    "x; touch CANARY",
    "x & touch CANARY",
    "x | touch CANARY",
    "x || touch CANARY",
    "x) ; touch CANARY ; options=(x",
    '"; touch CANARY; "',
    "'; touch CANARY; '",
    "<(touch CANARY)",
    ">CANARY",
    "${x:=$(touch CANARY)}",
    "$((x[$(touch CANARY)]))",
    "x[$(touch CANARY)]",
    "\\$(touch CANARY)",
    "*",
    "/*",
    "~",
    "{a,b}",
    "$HOME",
    "${OPTIONS}",
    "!!",
    "'a b'",
    '"a b',
    "a\\ b\\",
    "a  b\tc",
    "%s%n",
    "-rf",
    "--control unix:/nowhere",
    "--",
    "\x1b[31m",
    "a\rb",
    "ü",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_value_reaches_the_program_as_it_stands(tmp_path: Path, value: str) -> None:
    value = value.replace("CANARY", str(tmp_path / "canary"))
    lines = f"--serial {value}\n--nqn={value}\n--read-only"
    given = arguments(tmp_path, "sm951-ahci-512", lines)
    assert given == [f"--serial={value}", f"--nqn={value}", "--read-only"]
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "line",
    [
        *(value for value in HOSTILE if not value.startswith("--control")),
        "touch CANARY",
        "-x",
        "---",
        "--$(touch CANARY)",
        "--Serial x",
        "--serial;touch CANARY",
        "--serial\\ x",
        "::add-path::/tmp",
        "# a comment",
    ],
)
def test_a_line_that_is_no_option_is_refused(tmp_path: Path, line: str) -> None:
    line = line.replace("CANARY", str(tmp_path / "canary"))
    done = step(tmp_path, "sm951-ahci-512", f"--read-only\n{line}", program=RECORDER)
    assert done.returncode == 2
    error, hint, rest = done.stderr.split("\n")
    assert error.startswith("error: options: ")
    assert error.endswith(" is not an option of drivebay serve")
    assert (hint, rest) == ("hint: one a line: --pace none", "")
    assert not (tmp_path / "arguments").exists()
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("drive", [*HOSTILE[:10], "*", "--help", "", "x\n::add-path::/tmp"])
def test_a_hostile_drive_is_a_name(tmp_path: Path, drive: str) -> None:
    drive = drive.replace("CANARY", str(tmp_path / "canary"))
    assert arguments(tmp_path, drive, "") == []
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("drive", ["--help", "--policy=/tmp/x.so", "-h", ""])
def test_the_program_takes_no_drive_for_an_option(tmp_path: Path, drive: str) -> None:
    done = step(tmp_path, drive)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Usage" not in done.stderr


@pytest.mark.parametrize(
    "temp",
    [
        "FOLDER/a\nb=c",
        "FOLDER/a\rb",
        "FOLDER/a b",
        'FOLDER/"$(touch CANARY)"',
        "FOLDER/a&socket=b",
        "FOLDER/%2e",
        "-",
        "",
    ],
)
def test_outputs_name_a_plain_path(tmp_path: Path, temp: str) -> None:
    temp = temp.replace("FOLDER", str(tmp_path)).replace("CANARY", str(tmp_path / "canary"))
    if temp.startswith("/"):
        Path(temp).mkdir(parents=True)
    done = step(tmp_path, "sm951-ahci-512", program=RECORDER, temp=temp)
    assert done.returncode == 2
    assert done.stderr.startswith("error: RUNNER_TEMP: ")
    assert not (tmp_path / "outputs").exists()
    assert not (tmp_path / "canary").exists()


def test_a_command_runs_on_a_drive_of_each_ailment_and_all_that_fail_are_named(
    tmp_path: Path,
) -> None:
    told = tmp_path / "told"
    ask = f"{tmp_path}/drivebay ctl $DRIVEBAY_CONTROL status --json >> {told}"
    command = f"{ask}; test -S ${{DRIVEBAY_NBD#*socket=}} && test $DRIVEBAY_AILMENT != hot"
    variables = {"AILMENTS": "none slow-die  hot", "COMMAND": command}
    done = step(tmp_path, "sm951-nvme-256", "--pace none", variables=variables)
    assert done.returncode == 1
    assert "error: the command failed on: hot (exit code 1)\nhint: " in done.stderr
    titles = [line for line in told.read_text().splitlines() if '"title"' in line]
    assert [("sick" in line, "slow die" in line, "hot air" in line) for line in titles] == [
        (False, False, False),
        (True, True, False),
        (True, False, True),
    ]
    assert not (tmp_path / "outputs").exists()
    good = {"AILMENTS": "", "COMMAND": "true"}
    done = step(tmp_path, "sm951-nvme-256", "--pace none", variables=good)
    assert done.returncode == 0 and "the command succeeded on: none" in done.stdout


def test_a_server_that_fails_at_its_end_fails_the_step(tmp_path: Path) -> None:
    # As one that was too slow for --require-pace.
    program = f"""real() {{ ({PROGRAM}); }}
[ $1 = serve ] || {{ real "$@"; exit; }}
{PROGRAM.removeprefix("exec ")} & server=$!
trap 'kill $server; wait $server; echo "error: too slow" >&2; exit 1' TERM
wait $server
"""
    variables = {"AILMENTS": "", "COMMAND": "true"}
    done = step(tmp_path, "sm951-nvme-256", "--pace none", program=program, variables=variables)
    assert done.returncode == 1
    assert "error: too slow\n" in done.stderr
    assert "the command failed on: none (exit code 1 of the server)\nhint: " in done.stderr


def test_an_ailment_that_is_no_name_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for ailments in ("--data=x", "$(id)", "hot;id"):
        done = step(tmp_path, "sm951-nvme-256", variables={"AILMENTS": ailments})
        assert done.returncode == 2 and "is no name" in done.stderr
    assert not list(tmp_path.glob("drivebay.*"))


def test_a_check_runs_on_the_states_of_a_command_that_was_recorded(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    recorder = f"printf '%s\\n' \"$@\" END >>{calls}"
    variables = {"COMMAND": "./load '$(id)'", "CHECK": './check "$1"'}
    done = step(tmp_path, "xp941-512", "--capacity 1G", program=recorder, variables=variables)
    assert done.returncode == 0, done.stderr
    record, run = (call.splitlines() for call in calls.read_text().split("END\n")[:-1])
    out = record[3]
    assert record == [
        *("crash", "record", "--capacity=1G", out, "xp941-512"),
        *("--", "bash", "-c", "./load '$(id)'"),
    ]
    recording = out.removeprefix("--out=")
    assert Path(recording).parent.parent == tmp_path
    check = ["bash", "-c", './check "$1"', "check", "{}"]
    assert run == ["crash", "run", f"--out={recording}.run", recording, "--", *check]
    assert outputs_of(tmp_path) == {
        "recording": recording,
        "run": f"{recording}.run",
        "failing-states": str(Path(recording).parent / "failing-states"),
    }
    both = {**variables, "AILMENTS": "hot"}
    assert step(tmp_path, "xp941-512", program=recorder, variables=both).returncode == 2


def test_options_of_the_check_are_one_per_line(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    recorder = f"printf '%s\\n' \"$@\" END >>{calls}"
    lines = "--after mkfs is done\n--states=20\r\n\n  --timeout  1.5\n--drive pm9a3-960"
    variables = {"COMMAND": "true", "CHECK": "true", "CHECK_OPTIONS": lines}
    done = step(tmp_path, "xp941-512", program=recorder, variables=variables)
    assert done.returncode == 0, done.stderr
    run = calls.read_text().split("END\n")[1].splitlines()
    given = ["--after=mkfs is done", "--states=20", "--timeout=1.5", "--drive=pm9a3-960"]
    assert run[: len(given) + 2] == ["crash", "run", *given]
    wrong = {**variables, "CHECK_OPTIONS": "--after ready\n$(id)"}
    done = step(tmp_path, "xp941-512", program=recorder, variables=wrong)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: check-options: '$(id)' is not an option of drivebay crash run\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="would ask sudo")
def test_two_commands_are_recorded_and_compared(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    recorder = f"printf '%s\\n' \"$@\" END >>{calls}; echo '| table |'"
    summary = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "CHECK_OPTIONS": "--threshold 2"}
    variables = {"COMMAND": "./new '$(id)'", "GATE": "./old", **summary}
    done = step(tmp_path, "pm9a3-960", "--runs 9", program=recorder, variables=variables)
    assert done.returncode == 0, done.stderr
    base, new, compare = (call.splitlines() for call in calls.read_text().split("END\n")[:-1])
    folder = outputs_of(tmp_path)["recordings"]
    for call, name, text in ((base, "base", "./old"), (new, "new", "./new '$(id)'")):
        options = ("--runs=9", f"--out={folder}/{name}")
        assert call == ["gate", "record", *options, "--", "bash", "-c", text]
    options = ("--drive=pm9a3-960", "--threshold=2")
    assert compare == ["gate", "compare", *options, f"{folder}/base", f"{folder}/new"]
    assert (tmp_path / "summary").read_text() == "| table |\n"
    # A change that costs more fails the step.
    fails = f'[ "$2" != compare ] || exit 1; {recorder}'
    assert step(tmp_path, "pm9a3-960", program=fails, variables=variables).returncode == 1
    both = {**variables, "CHECK": "true"}
    assert step(tmp_path, "pm9a3-960", program=recorder, variables=both).returncode == 2


WORKLOAD = """
qemu-io -f raw -c 'write -P 1 0 4k' -c flush "$DRIVEBAY_NBD"
drivebay ctl "$DRIVEBAY_CONTROL" mark ready
qemu-io -t writeback -f raw -c 'write -P 2 4k 4k' -c 'write -P 3 8k 4k' "$DRIVEBAY_NBD"
"""
"""A "file system" in the first block; then two blocks without a flush between them."""


@pytest.mark.skipif(shutil.which("qemu-io") is None, reason="not installed: qemu-io")
@pytest.mark.parametrize(
    ("check", "options", "code"),
    [
        # Fails before the first block is there, and never afterwards.
        ("data[0] == 1", "", 1),
        ("data[0] == 1", "--after ready\n--states 50\n--timeout 30", 0),
        # The third block without the second.
        ("data[0] == 1 and (data[4096] == 2 or data[8192] != 3)", "--after ready", 1),
    ],
)
def test_failing_states_can_be_uploaded(
    tmp_path: Path, check: str, options: str, code: int
) -> None:
    script = f"import sys; data = open(sys.argv[1], 'rb').read(1 << 14); sys.exit(not ({check}))"
    variables = {
        "COMMAND": WORKLOAD,
        "CHECK": f'{sys.executable} -c "{script}" "$1"',
        "CHECK_OPTIONS": options,
    }
    done = step(tmp_path, "sm951-nvme-256", "--capacity 64MiB", variables=variables)
    assert done.returncode == code, done.stderr
    outputs = outputs_of(tmp_path)
    shown = subprocess.run(
        [str(tmp_path / "drivebay"), "crash", "show", outputs["run"], "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    verdicts = json.loads(shown.stdout)
    assert verdicts["recording"] == outputs["recording"] and Path(outputs["recording"]).exists()
    assert bool(verdicts["failed"]) == bool(code)
    images = sorted(Path(outputs["failing-states"]).glob("*.img"))
    assert bool(images) == bool(code)
    for image in images:
        assert ":" not in image.name and image.with_suffix(".txt").read_text()
        failed = subprocess.run(["bash", "-c", variables["CHECK"], "check", str(image)])
        assert failed.returncode == 1
