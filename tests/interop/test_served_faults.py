"""A script of faults, as a client feels it; and a drive's state beside data that is not its own."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import nbd_server
import pytest
from nbd_server import Served, served
from waiting import wait_until

from drivebay import serving
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog

MIB = 2**20
SMALL = "sm951-ahci-128"

pytestmark = pytest.mark.skipif(
    bool(nbd_server.missing("qemu-io")), reason=nbd_server.missing("qemu-io") or "-"
)


def _qemu_io(drive: Served, *steps: str) -> str:
    """What QEMU says to these commands."""
    words = [word for step in steps for word in ("-c", step)]
    done = subprocess.run(
        ["qemu-io", "-f", "raw", "-t", "none", *words, drive.uri],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def _script(folder: Path, *faults: str) -> tuple[str, str]:
    path = folder / "faults.toml"
    path.write_text("".join(f"[[fault]]\n{fault}\n" for fault in faults), encoding="utf-8")
    return "--faults", str(path)


def test_a_script_breaks_and_heats_the_drive(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        'kind = "read-error"\nlba = 2048\nsectors = 8',
        'kind = "ambient"\ncelsius = 90.0',
        'kind = "read-only"\nafter_ios = 10',
    )
    with served(tmp_path, *script) as drive:
        cool = drive.say("status")["temperature_c"]
        said = _qemu_io(drive, "read 1M 4k", "read 2M 4k", "write 1M 4k")
        assert (
            said.count("Input/output error") == 1
            and "read 4096/4096 bytes at offset 2097152" in said
        )
        while drive.say("status")["requests"] < 10:
            _qemu_io(drive, "read 0 4k")
        said = _qemu_io(drive, "write 0 4k")
        assert "Operation not permitted" in said
        wait_until(lambda: drive.say("status")["temperature_c"] >= cool + 0.5)
        drive.end()


def test_what_cannot_be_read_can_be_again_once_it_is_written(tmp_path: Path) -> None:
    script = _script(tmp_path, 'kind = "read-error"\nlba = 2048\nsectors = 16')
    with served(tmp_path, *script, drive=SMALL) as drive:
        steps = ("read 1M 8k", "write -P 1 1M 4k", "read -P 1 1M 4k", "read 1028k 4k")
        assert _qemu_io(drive, *steps).count("Input/output error") == 2
        assert "error" not in _qemu_io(drive, "discard 1028k 4k", "read 1M 8k")
        drive.end()


def test_connections_that_are_refused_are_counted_and_said(tmp_path: Path) -> None:
    with served(tmp_path, "--after-cut", "refuse", drive=SMALL) as drive:
        with socket.socket(socket.AF_UNIX) as talk:
            talk.connect(str(drive.socket))
            talk.sendall(b"x" * 100)
            while talk.recv(1000):
                pass
        assert drive.say("status")["refused"] == 1
        drive.say("power-cut")
        _qemu_io(drive, "read 0 4k")
        assert drive.say("status")["refused"] == 2
        drive.process.send_signal(signal.SIGTERM)
        _, said = drive.process.communicate()
    assert "refused: 1 connections: it violates the protocol\n" in said
    assert "refused: 1 connections: the power is off\n" in said


def test_a_script_makes_the_drive_hang_and_then_slow(tmp_path: Path) -> None:
    hang = 'kind = "hang"\nfor_s = 2.0'
    slow = 'kind = "latency"\nextra_us = 300000'
    with served(tmp_path, *_script(tmp_path, hang, slow)) as drive:
        # Nothing is answered before the drive has been on for two seconds.
        _qemu_io(drive, "read 0 4k")
        before_s = drive.say("status")["drive_s"]
        assert before_s >= 2.0
        _qemu_io(drive, "read 0 4k")
        assert drive.say("status")["drive_s"] >= before_s + 0.3
        assert drive.say("no-faults") == {"faults": 0}
        drive.end()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('kind = "explode"', "unknown variant `explode`"),
        ('kind = "read-error"', "lba and sectors belong to read-error"),
        ('kind = "ambient"\ncelsius = 400', "celsius, -40 to 100"),
        ('kind = "read-error"\nlba = 281474976710656', "beyond the drive"),
    ],
)
def test_a_wrong_script_is_refused(tmp_path: Path, script: str, message: str) -> None:
    _, path = _script(tmp_path, script)
    refused = _refused(faults=Path(path))
    assert message in refused.message and refused.hint


def _refused(**options: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        drive = serving.Drive(profile=catalog.load(SMALL), **options)
        serving.Server([drive], serving.Options())
    return caught.value


def test_a_state_beside_other_data_is_refused_and_a_stale_one_brought_up_to_date(
    tmp_path: Path,
) -> None:
    ours = ("--data", str(tmp_path / "ours"), "--state", str(tmp_path / "state"))
    with served(tmp_path, *ours, drive=SMALL) as drive:
        _qemu_io(drive, "write -P 1 0 8M", "flush")
        drive.end()
    # Written and killed: the state lacks the last pages, the data has them.
    with served(tmp_path, *ours, drive=SMALL) as drive:
        _qemu_io(drive, "write -P 2 16M 64k", "flush")
        drive.process.kill()
        drive.process.wait()
    (tmp_path / "control.sock").unlink()
    with served(tmp_path, *ours, "--foreign-data", drive=SMALL) as drive:
        said = _qemu_io(drive, "read -P 1 0 8M", "read -P 2 16M 64k")
        assert "verification failed" not in said
        drive.end()
    with (tmp_path / "other").open("wb") as other:
        other.truncate((tmp_path / "ours").stat().st_size)
        other.seek(100 * MIB)
        other.write(b"x" * MIB)
    refused = _refused(data=tmp_path / "other", state=tmp_path / "state")
    assert "does not belong to" in refused.message and "256 pages" in refused.message
    assert refused.hint is not None and refused.hint.startswith("name the state")


def _ctl(drive: Served, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*nbd_server.PROGRAM, "ctl", f"unix:{drive.control}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_ctl_asks_and_tells(tmp_path: Path) -> None:
    with served(tmp_path, drive=SMALL) as drive:
        _qemu_io(drive, "read 0 4k")
        assert "the host kept up" in _ctl(drive, "status").stdout
        assert json.loads(_ctl(drive, "status", "--json").stdout)["requests"] > 0
        metrics = _ctl(drive, "status", "--metrics").stdout
        assert re.search(
            r'^drivebay_requests_total{drive="sm951-ahci-128"} [1-9]\d*$', metrics, re.MULTILINE
        )
        assert json.loads(_ctl(drive, "ambient", "45").stdout) == {"ambient_c": 45.0}
        assert json.loads(_ctl(drive, "power-cut").stdout)["lost_bytes"] == 0
        wrong = _ctl(drive, "explode")
        assert wrong.returncode == 2 and wrong.stderr.startswith("error: explode is not a command")
        drive.end()
    gone = _ctl(drive, "status")
    assert gone.returncode == 3 and "no served drive answers" in gone.stderr


def test_a_snapshot_comes_back_and_a_clone_of_it_starts_another_server(tmp_path: Path) -> None:
    mine = ("--data", str(tmp_path / "data"), "--precondition", "filled")
    clone = tmp_path / "clone"
    with served(tmp_path, *mine, drive=SMALL) as drive:
        _qemu_io(drive, "write -P 1 0 8M", "flush")
        assert json.loads(_ctl(drive, "snapshot", "aged").stdout)["held_s"] > 0
        _qemu_io(drive, "write -P 2 4M 8M", "discard 0 1M")
        assert "verification failed" in _qemu_io(drive, "read -P 1 0 8M")
        assert _ctl(drive, "restore", "aged").returncode == 0
        after = ("read -P 1 0 8M", "read -P 0 8M 4M")
        assert "verification failed" not in _qemu_io(drive, *after)
        assert _ctl(drive, "clone", "aged", str(clone)).returncode == 0
        unknown = _ctl(drive, "restore", "new")
        assert unknown.returncode == 2 and unknown.stderr.endswith("hint: aged\n")
        drive.end()
    theirs = ("--data", str(clone / "data"), "--state", str(clone / "state"), "--foreign-data")
    with served(tmp_path, *theirs, drive=SMALL) as drive:
        assert "verification failed" not in _qemu_io(drive, *after)
        drive.end()


def test_without_power_nobody_connects_until_it_is_switched_on(tmp_path: Path) -> None:
    with served(tmp_path, "--after-cut", "refuse", drive=SMALL) as drive:
        assert "read 4096/4096 bytes" in _qemu_io(drive, "read 0 4k")
        drive.say("power-cut")
        assert "read 4096" not in _qemu_io(drive, "read 0 4k")
        assert drive.say("status")["is_off"] is True
        assert drive.say("power-on") == {"is_off": False}
        assert "read 4096/4096 bytes" in _qemu_io(drive, "read 0 4k")
        drive.end()
    assert "hold=SECONDS" in _refused(after_cut="maybe").message


def _read_us(folder: Path, *options: str) -> float:
    """How long a read of what nobody wrote takes the drive, microseconds."""
    with served(folder, "--pace", "none", *options, drive=SMALL) as drive:
        _qemu_io(drive, "read 1G 4k")
        before = drive.say("status")["drive_s"]
        _qemu_io(drive, "read 2G 4k")
        status = drive.say("status")
        assert status["bytes_written"] == 0
        drive.end()
    return float(1e6 * (status["drive_s"] - before))


def test_a_filled_drive_reads_from_flash_and_is_not_filled_twice(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    new, filled = _read_us(tmp_path), _read_us(tmp_path, "--precondition", "filled", *state)
    assert filled > new + 40
    assert _read_us(tmp_path, *state) > new + 40
    assert _read_us(tmp_path, "--precondition", "filled", *state) > new + 40


@pytest.mark.parametrize("required", ["95", "0.001"])
def test_a_host_that_does_not_keep_up_fails_the_run(tmp_path: Path, required: str) -> None:
    """The server is stopped for a while with a request under way, as by a machine that is busy."""
    slow = _script(tmp_path, 'kind = "latency"\nextra_us = 200000')
    with served(tmp_path, *slow, "--require-pace", required, drive=SMALL) as drive:
        client = subprocess.Popen(
            ["qemu-io", "-f", "raw", "-t", "none", "-c", "read 0 4k", drive.uri],
            stdout=subprocess.DEVNULL,
        )
        wait_until(lambda: drive.say("status")["outstanding"])
        drive.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        drive.process.send_signal(signal.SIGCONT)
        assert client.wait() == 0
        assert 0.001 < drive.say("status")["lateness"]["kept_up_percent"] < 95
        drive.process.send_signal(signal.SIGTERM)
        _, said = drive.process.communicate()
    assert drive.process.returncode == (1 if required == "95" else 0)
    assert ("error: the host kept up by" in said) == (required == "95")


def test_a_signal_right_behind_the_address_ends_it_in_order(tmp_path: Path) -> None:
    """Who reads the address may end it at once; its state is written all the same."""
    state = tmp_path / "drive.state"
    words = ("serve", SMALL, "--nbd", f"unix:{tmp_path / 's'}", "--state", str(state))
    with subprocess.Popen(
        [*nbd_server.PROGRAM, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stderr is not None
        assert any(line.startswith("nbd ") for line in iter(server.stderr.readline, ""))
        server.send_signal(signal.SIGTERM)
    assert server.returncode == 0
    assert state.exists() and not (tmp_path / "s").exists()


def test_a_bound_that_a_client_may_have_missed_warns(capsys: pytest.CaptureFixture[str]) -> None:
    """The server kept up, but too much passed from answers to the next requests."""
    from drivebay.cli.serve import _require

    _require({"kept_up_percent": 99.0, "kept_up_least_percent": 96.0}, 95)
    assert capsys.readouterr().err == ""
    _require({"kept_up_percent": 99.0, "kept_up_least_percent": 80.0}, 95)
    warning = capsys.readouterr().err
    assert warning.startswith("warning: the host kept up by 99.0 %, but a client that never pauses")
    assert "lost: 0.8 % by the server, 19.2 % by client and connection" in warning


def test_hosts_are_disconnected_when_the_link_flaps(tmp_path: Path) -> None:
    flaps = tmp_path / "flaps.toml"
    flaps.write_text(
        '[ailment]\ntitle = "flaps"\nseen = "-"\nsmart = "-"\n[link.outage]\n'
        'every_s = { value = 1, source = "test" }\nfor_ms = { value = 50, source = "test" }\n'
    )
    with served(tmp_path, "--ailment", str(flaps), drive=SMALL) as drive:
        said = _qemu_io(drive, "read 0 4k", "sleep 2500", "read 4k 4k")
        assert "read 4096/4096 bytes at offset 0" in said and "offset 4096" not in said
        assert "read 4096/4096 bytes at offset 4096" in _qemu_io(drive, "read 4k 4k")
        downs = [e for e in drive.say("events")["events"] if e["event"] == "link-down"]
        assert [one["outages"] for one in downs] == list(range(1, len(downs) + 1))
        assert len(downs) >= 2
        drive.end()


def test_the_drives_clock_can_be_asked_and_runs_at_its_scale(tmp_path: Path) -> None:
    with served(tmp_path, "--time-scale", "1/4", drive=SMALL) as drive:
        first = drive.say("now")
        time.sleep(1)
        second = drive.say("now")
        drive.end()
    assert first["time_scale"] == 0.25
    passed = {key: second[key] - first[key] for key in ("drive_s", "elapsed_s")}
    # What passes within an iteration of the server, between the two clocks.
    assert passed["drive_s"] == pytest.approx(passed["elapsed_s"] / 4, abs=0.05)


def test_a_scale_that_is_looked_for_is_slower_once_the_machine_does_not_keep_it(
    tmp_path: Path,
) -> None:
    """The server is stopped again and again, as by other programs."""
    with served(tmp_path, "--time-scale", "auto", drive=SMALL) as drive:
        assert drive.say("now")["time_scale"] == 1

        def scales() -> list[float]:
            events = drive.say("events")["events"]
            return [one["time_scale"] for one in events if one["event"] == "time-scale"]

        reads = ["-c", "read 1M 4k"] * 20_000
        with subprocess.Popen(
            ["qemu-io", "-f", "raw", "-t", "none", *reads, drive.uri], stdout=subprocess.DEVNULL
        ) as client:
            while client.poll() is None and not scales():
                for _ in range(10):
                    drive.process.send_signal(signal.SIGSTOP)
                    time.sleep(0.02)
                    drive.process.send_signal(signal.SIGCONT)
                    time.sleep(0.01)
            client.kill()
        found = scales()
        assert found and found[0] < 1
        figures = drive.end()
    assert 0.001 <= figures["time_scale"] < 1
