"""Recording of a block device's I/Os through the kernel's tracepoints in tracefs.

Sources: the kernel's Documentation/trace (ftrace.rst, events.rst), include/trace/events/block.h.
block_rq_issue and block_rq_complete go into a separate tracing instance, filtered by device, so
that other users of tracing are not disturbed. The instance is always removed; the next recording
removes one that a killed drivebay left. blktrace's files in debugfs are refused on a locked-down
kernel; tracefs is not.

Leaves out: requests in flight when the recording ends have no response time. Times are whole
microseconds, as the kernel prints them. Effect: latencies of some microseconds are coarse.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from drivebay._core import TraceSummary
from drivebay.common import signals
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.common.files import system_errors
from drivebay.traces.convert import check_out, convert
from drivebay.traces.read import file_source

TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
EVENTS = ("block_rq_issue", "block_rq_requeue", "block_rq_complete")
# Buffer size of all processors together; 32 MiB each at most. An event takes about 100 bytes.
BUFFER_BYTES_ALL = 256 << 20
BUFFER_BYTES_EACH = 32 << 20
# Interval between reads of the buffer: at a million I/Os per second it fills in 150 ms.
SLEEP_S = 0.02
READ_BYTES = 1 << 20
PREFIX = "drivebay-"


@dataclass(frozen=True)
class Recorded:
    """A recording: its length in seconds, the number of events that the kernel dropped, and a
    summary of the written trace.
    """

    seconds: float
    lost_events: int
    summary: TraceSummary


def record(
    device: str,
    out: Path,
    *,
    seconds: float,
    force: bool = False,
    to: str | None = None,
    tracefs: Path | None = None,
    tell: Callable[[float, int], None] = lambda _seconds, _bytes: None,
) -> Recorded:
    """Records a block device's I/Os and writes them as a trace; Ctrl-C ends it early. Raises
    UserError if `device` is not a block device, `out` exists, or no I/O came in that time;
    EnvironmentProblem if tracing is not possible or not permitted.

    Parameters
    ----------
    device : a whole block device.
    out : the file to create, in a format of `convert` chosen by its extension or by `to`.
    seconds : length of the recording.
    tracefs : mount point of tracefs; None to search the usual places.
    tell : called regularly with the seconds passed and the bytes of text recorded.
    """
    number = _device_number(device)
    check_out(out, to=to, force=force, option="--out")
    with tempfile.TemporaryDirectory(prefix="drivebay-record-") as folder:
        text = Path(folder) / "events.txt"
        with _instance(tracefs or _tracefs()) as instance, text.open("wb") as file:
            passed, lost = _record(instance, number, file, seconds, tell)
        if text.stat().st_size == 0:
            raise UserError(
                f"no I/O reached {device} within {passed:.1f} s",
                "record while something uses it, past the page cache; or longer: --seconds 60",
            )
        summary = convert(file_source(text, "ftrace"), out, to=to, force=force)
    return Recorded(passed, lost, summary)


def _device_number(device: str) -> int:
    with system_errors(f"{device}", "see: drivebay drives", UserError):
        status = os.stat(device)
    if not stat.S_ISBLK(status.st_mode):
        raise UserError(f"{device} is not a block device", "see them with: drivebay drives")
    major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
    sysfs = Path(f"/sys/dev/block/{major}:{minor}")
    if (sysfs / "partition").exists():
        whole = f"/dev/{sysfs.resolve().parent.name}"
        raise UserError(
            f"{device} is a partition; the kernel counts a drive's I/Os as a whole",
            f"drivebay trace record {whole}",
        )
    return major << 20 | minor  # the kernel's internal format, see MKDEV


def _tracefs() -> Path:
    for place in TRACEFS:
        try:
            if (place / "instances").is_dir():
                return place
        except PermissionError:
            raise _not_permitted() from None
    if os.geteuid() != 0:
        raise _not_permitted()
    raise EnvironmentProblem(
        "tracefs is not mounted, or this kernel has none", f"mount -t tracefs nodev {TRACEFS[0]}"
    )


def _not_permitted() -> EnvironmentProblem:
    return EnvironmentProblem(
        "no permission to trace the kernel's block layer", "sudo drivebay trace record ..."
    )


@contextlib.contextmanager
def _instance(tracefs: Path) -> Iterator[Path]:
    """A tracing instance for this process, removed at the end."""
    for left in tracefs.glob(f"instances/{PREFIX}*"):
        if not Path("/proc", left.name.removeprefix(PREFIX)).exists():
            _remove(left)
    instance = tracefs / "instances" / f"{PREFIX}{os.getpid()}"
    try:
        instance.mkdir()
    except PermissionError:
        raise _not_permitted() from None
    except OSError as problem:
        raise EnvironmentProblem(
            f"{instance}: a tracing instance cannot be made: {problem.strerror}",
            "is the kernel locked down, or another recording running? see: dmesg | tail",
        ) from None
    try:
        yield instance
    finally:
        _remove(instance)


def _remove(instance: Path) -> None:
    """Switches the events off and removes the instance; a reader that has it open keeps it busy
    for a moment.
    """
    for event in EVENTS:
        with contextlib.suppress(OSError):
            (instance / "events/block" / event / "enable").write_text("0")
    for _ in range(50):
        with contextlib.suppress(FileNotFoundError):
            try:
                instance.rmdir()
            except OSError:
                time.sleep(0.02)
                continue
        return


def _set_up(instance: Path, number: int) -> None:
    each = min(BUFFER_BYTES_EACH, BUFFER_BYTES_ALL // (os.cpu_count() or 1))
    settings = {"buffer_size_kb": str(each >> 10), "trace_clock": "mono", "tracing_on": "1"}
    for event in EVENTS:
        settings[f"events/block/{event}/filter"] = f"dev == {number}"
    # completions first, so that every recorded issue can have its completion
    for event in reversed(EVENTS):
        settings[f"events/block/{event}/enable"] = "1"
    for name, value in settings.items():
        with system_errors(
            f"tracing: {name} cannot be set to {value!r}",
            "a kernel with CONFIG_BLK_DEV_IO_TRACE is needed: "
            "grep BLK_DEV_IO_TRACE /boot/config-$(uname -r)",
        ):
            (instance / name).write_text(value)


def _record(
    instance: Path, number: int, file: BinaryIO, seconds: float, tell: Callable[[float, int], None]
) -> tuple[float, int]:
    """Records; returns the seconds recorded and the number of lost events."""
    stop = threading.Event()
    with signals.heard(stop.set):
        _set_up(instance, number)
        pipe = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            begun = time.monotonic()
            while (passed := time.monotonic() - begun) < seconds and not stop.is_set():
                _drain(pipe, file)
                tell(passed, file.tell())
                stop.wait(max(0.0, min(SLEEP_S, seconds - passed)))
            for event in EVENTS:
                (instance / "events/block" / event / "enable").write_text("0")
            _drain(pipe, file)
        finally:
            os.close(pipe)
    return passed, _lost(instance)


def _drain(pipe: int, file: BinaryIO) -> None:
    with contextlib.suppress(BlockingIOError):
        while text := os.read(pipe, READ_BYTES):
            file.write(text)


def _lost(instance: Path) -> int:
    """Events that were overwritten before they were read, or found no space."""
    lost = 0
    for stats in instance.glob("per_cpu/cpu*/stats"):
        for line in stats.read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("overrun", "commit overrun", "dropped events"):
                lost += int(value)
    return lost
