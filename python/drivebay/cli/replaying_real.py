"""The command `replay` on a real drive: checked, played with its progress shown, summed up."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from drivebay import traces
from drivebay.cli import show
from drivebay.cli.display import LINE_EVERY_S, say
from drivebay.common import signals, units
from drivebay.common.errors import (
    EXIT_CHECK_FAILED,
    EXIT_DONE,
    DrivebayError,
    EnvironmentProblem,
    Interrupted,
    UserError,
)
from drivebay.targets.replay.figures import Replayed
from drivebay.targets.replay.run import How, RealReplay, Survey, What
from drivebay.targets.safety.target_device import OverwritePermission


def what(trace: str, *, from_: str | None, scale: float, seed: int) -> What:
    """What TRACE means: a file of that name before a synthesized trace of that name.

    Raises
    ------
    UserError
        If it is neither, or `scale` is given for a file.
    """
    path = Path(trace)
    if path.exists():
        if scale != 1.0:
            raise UserError(
                "--scale is for synthesized traces; a recorded one is played whole",
                "leave it out, or name destroyer, heavy or light",
            )
        if not path.is_file():
            raise UserError(
                f"{trace} is no regular file; a trace is read twice, so it must be one",
                "write it into a file first: drivebay trace convert IN OUT.csv",
            )
        return What(file=path, format=from_)
    if trace in (synthesized := traces.names()):
        return What(synth=trace, scale=scale, seed=seed)
    raise UserError(
        f"trace {trace} does not exist",
        f"name a file, or one of {', '.join(synthesized)}",
    )


def replay(
    trace: What,
    how: How,
    drive: str,
    *,
    permission: OverwritePermission,
    out: Path | None,
    as_json: bool,
) -> int:
    """Plays, prints the figures, and returns the exit code."""
    run = RealReplay(trace, how, drive, permission=permission)
    if out is not None and out.exists():
        raise UserError(f"--out: {out} exists already", "take another name")
    found = run.job.survey()
    _announce(run, found, run.check())
    with (
        run.lock(_say_once()),
        signals.heard(run.job.watch.stop),
        _progress(run, found),
    ):
        done = run.play()
    _note_problems(done)
    text = json.dumps(document(done), indent=1)
    if out is not None:
        try:
            out.write_text(text + "\n")
        except OSError as problem:
            raise EnvironmentProblem(
                f"--out: {out} cannot be written: {problem.strerror}", "write it elsewhere"
            ) from None
    if as_json:
        print(text)
    else:
        show.table(("figure", "value"), rows(done), right=(1,))
    return _exit(done)


def document(done: Replayed) -> dict[str, Any]:
    """A replay as JSON values: figures, seconds, histogram."""
    return {
        "ended": done.ended,
        "reason": done.reason,
        **done.figures,
        "seconds": done.series.drop_columns(
            ["temperature_c", "power_w", "throttle_stage"]
        ).to_pydict(),
        "latency_histogram": done.histogram.to_pydict(),
    }


def rows(done: Replayed) -> list[tuple[str, str]]:
    """The figures as people read them."""
    figures = done.figures

    def known(key: str, unit: str) -> str:
        value = figures[key]
        return "not known" if value is None else f"{show.number(value)}{unit}"

    def share(key: str) -> str:
        value = figures[key]
        return "not known" if value is None else f"{value:.2%}"

    def rate(key: str) -> str:
        value = figures[key]
        return "not known" if value is None else f"{units.si_bytes(value)}/s"

    lines = [
        ("reads", f"{figures['reads']:,}"),
        ("writes", f"{figures['writes']:,}"),
        ("data rate over busy time", rate("bytes_per_busy_s")),
        ("data rate over wall time", rate("bytes_per_wall_s")),
        ("mean latency", known("latency_us_mean", " us")),
        ("over 10 ms", share("share_over_10_ms")),
        ("over 100 ms", share("share_over_100_ms")),
        ("mean outstanding, counted", known("outstanding_mean", "")),
        ("mean outstanding, Little's law", known("outstanding_mean_by_littles_law", "")),
        ("busy time", known("busy_s", " s")),
        ("wall time", known("wall_s", " s")),
        ("issued late (over 100 us)", f"{figures['late']:,} ({share('late_share')})"),
        ("lateness, 99th percentile", known("lateness_us_p99", " us")),
        ("lateness, longest", known("lateness_us_max", " us")),
        ("failed", f"{_failed(done):,}"),
    ]
    for name, count in figures["passed_over"].items():
        if count:
            lines.append((f"{name} left out", f"{count:,}"))
    return lines


def _failed(done: Replayed) -> int:
    return sum(failure["count"] for failure in done.figures["failures"])


def _say_once() -> Callable[[str], None]:
    """Says a sentence when it is another one than before."""
    said = ""

    def once(words: str) -> None:
        nonlocal said
        if words != said:
            said = words
            say(words)

    return once


def _announce(run: RealReplay, found: Survey, notes: list[str]) -> None:
    target = run.target
    size = units.si_bytes(target.size_bytes)
    if not run.job.writes:
        say(f"reads   {target.path}: {size}; its content is not changed")
    elif target.device is not None:
        device = target.device
        say(f"device  {target.path}: {device.model}, serial {device.serial}, {size}")
        say("        ALL DATA ON IT WILL BE LOST")
    else:
        say(f"file    {target.path}: {size}; its content will be overwritten")
    length = "" if found.length_s is None else f", due within {units.duration(found.length_s)}"
    say(f"trace   {found.requests:,} requests{length}")
    for note in notes:
        say(f"note: {note}")


def _note_problems(done: Replayed) -> None:
    figures = done.figures
    if figures["late_queue_full"]:
        say(
            f"note: {figures['late_queue_full']:,} requests were late because the queue was full; "
            "the drive is slower than the recording's, or --depth is too small"
        )
    if other := figures["late"] - figures["late_queue_full"]:
        say(f"note: {other:,} requests were late because of this machine; latencies include it")
    for failure in figures["failures"]:
        say(f"note: {failure['count']:,} x {failure['op']} failed with {failure['error']}")
    if figures["unanswered"]:
        say(f"note: {figures['unanswered']:,} requests never came back")
    if not figures["direct"]:
        say("note: through the page cache: not the drive's figures")


def _exit(done: Replayed) -> int:
    if done.ended == "stopped":
        raise Interrupted(
            "interrupted; the figures are of what was played until then",
            "give the same command again for all of it",
        )
    if done.ended == "broken":
        message, _, hint = done.reason.partition("; hint: ")
        raise DrivebayError(f"the replay ended early: {message}", hint or "see: dmesg | tail", 3)
    if failed := _failed(done):
        raise DrivebayError(
            f"{failed:,} requests failed; the first: {_first_failure(done)}",
            "look for the cause with: dmesg | tail",
            EXIT_CHECK_FAILED,
        )
    return EXIT_DONE


def _first_failure(done: Replayed) -> str:
    first = done.figures["failed"][0]
    return (
        f"request {first['number']}, {first['op']} of {first['bytes']} bytes at "
        f"{first['offset_bytes']}: {first['error']}"
    )


@contextlib.contextmanager
def _progress(run: RealReplay, found: Survey) -> Iterator[None]:
    """A line on stderr every so often, until the replay ends."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(LINE_EVERY_S):
            elapsed_ns, done, moved, late, failed = run.job.watch.look()
            seconds = elapsed_ns / 1e9
            share = seconds / found.length_s if found.length_s else done / max(1, found.requests)
            rate = units.si_bytes(moved / max(seconds, 1e-9))
            say(f"{min(1.0, share):.0%} done: {rate}/s, {late:,} late, {failed:,} failed")

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
