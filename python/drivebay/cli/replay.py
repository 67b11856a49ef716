"""`drivebay replay`: replays a trace on a virtual drive or, in real time, on a real one."""

from __future__ import annotations

import contextlib
import json
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer

from drivebay.cli import options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import answer, known, number, say, say_notes
from drivebay.cli.target import check_options, is_virtual, target_factory, typed_yes
from drivebay.common import units
from drivebay.common.errors import EXIT_CHECK_FAILED, DrivebayError, Interrupted, UserError
from drivebay.common.files import refuse_existing, write_new
from drivebay.common.threads import repeated

if TYPE_CHECKING:
    from drivebay.analysis.storage_bench import StorageBench
    from drivebay.definitions.suites import Test
    from drivebay.results.records import PhaseResult
    from drivebay.targets.base import Target
    from drivebay.targets.replay.figures import Replayed
    from drivebay.targets.replay.run import RealReplay, Survey

HEADS = ("figure", "value")
REST_S = 1800.0
YEAR_S = 366 * 86400.0
SYNTHESIZED = "Synthesized traces"
L = TypeVar("L")
# Options that are fields of a suite's replay, and of a replay on a real drive.
LOAD = "trace scale mode idle_ms_max time_percent rule trim handle_by format time_unit columns"
REAL = "only_reads zeros depth spin_us length_max_s failures_max buffered"


@dataclass(frozen=True)
class Options:
    """Values from the command line.

    Parameters
    ----------
    trace : TRACE
        Trace to replay.
    mode :
        When to issue a request: at its recorded time, or once the requests that it waited for in
        the recording have completed.
    idle_ms_max : MS
        Shorten longer idle times of the recording to this.
    keep_idle :
        Keep all idle time.
    time_percent : P
        Scale the recorded times; 200 is half the speed.
    rule :
        If addresses exceed the drive: wrap them (fold), or scale all of them.
    trim :
        Also replay trims (and flushes on real drives).
    seed : N
        Seed of the virtual drive or of the written data.
    scale : S
        Size, relative to the published number of I/Os.
    trace_seed : N
        Seed of the trace.
    handle_by :
        Use the device number of a request as its placement handle.
    empty :
        Start with an empty drive. [default: all addresses were written before]
    only_reads :
        Replay only reads.
    zeros :
        Write zeros instead of random bytes.
    depth : N
        Limit of outstanding requests. [default: 1024]
    spin_us : US
        Busy-wait this long before a request; 0 only sleeps. [default: 80]
    length_max_s : N
        Stop after this many seconds.
    failures_max : N
        Stop if more requests than this fail.
    buffered :
        Use the page cache (where O_DIRECT is refused).
    out : FILE
        Write the figures as JSON to this file.
    """

    drive: options.Drive
    trace: str = argument()
    mode: Literal["recorded", "dependencies"] = option(default="recorded")
    idle_ms_max: float = option("--idle-cap", min=0, max=YEAR_S * 1000, default=25.0)
    keep_idle: bool = flag("--as-recorded")
    time_percent: int = option(default=100)
    rule: Literal["fold", "scale"] = option("--place", default="fold")
    trim: bool = flag("--trim")
    seed: int = option(default=1)
    as_json: options.Json = False
    scale: float = option(panel=SYNTHESIZED, default=1.0)
    trace_seed: int = option(panel=SYNTHESIZED, default=1)
    format: options.TraceFormat = None
    time_unit: options.TimeUnit = None
    columns: options.Columns = None
    handle_by: Literal["device"] | None = option(panel=options.VIRTUAL)
    changes: options.Set = None
    empty: bool = flag("--empty", panel=options.VIRTUAL)
    only_reads: bool = flag("--only-reads", panel=options.REAL)
    zeros: bool = flag("--zeros", panel=options.REAL)
    depth: int | None = option(panel=options.REAL)
    spin_us: int | None = option("--spin", panel=options.REAL)
    length_max_s: float | None = option("--seconds", panel=options.REAL, min=0, max=YEAR_S)
    failures_max: int | None = option("--failures", panel=options.REAL)
    buffered: bool = flag("--buffered", panel=options.REAL)
    out: Path | None = option(panel=options.REAL)
    destroy_data: options.DestroyData = None
    overwrite_signature: options.OverwriteSignature = False
    no_wait: options.NoWait = False
    yes: options.Yes = False

    def load(self) -> dict[str, Any]:
        """Trace and replay options, as the fields of a suite's replay."""
        fields = {name: getattr(self, name) for name in LOAD.split()}
        return fields | ({"idle_ms_max": None} if self.keep_idle else {})


@options.together(Options)
def replay(ctx: typer.Context, given: Options) -> None:
    """Replay a trace on a virtual drive, a file or a block device.

    On a real drive each request is sent at its time, through io_uring. The trace is checked before
    anything is sent, so a damaged trace changes nothing.

    Examples:
      drivebay replay sm951-ahci-512 light                a virtual drive
      drivebay replay sm951-ahci-512 heavy --empty --json
      drivebay replay ./disk.img trace.csv.gz             overwrites the file
      drivebay replay /dev/sdX trace.csv.gz --only-reads  changes nothing
      drivebay replay /dev/sdX light --destroy-data SERIAL

    TRACE is destroyer, heavy, light, or a file; for its formats see:
    drivebay trace info --help
    An interrupted replay on a real drive prints the figures so far. Exit code 1:
    requests failed. Meaning of the figures: docs/concepts/replay.md.
    """
    _check_order(given.drive, given.trace)
    check_options(ctx, given.drive)
    if is_virtual(given.drive):
        _replay_virtual(given)
    else:
        _replay_real(given)


def _check_order(drive: str, trace: str) -> None:
    """Refuses a trace before the drive, so that a trace file is never overwritten."""
    from drivebay import traces

    is_trace = drive in traces.names() and not is_virtual(drive)
    is_drive = is_virtual(trace)
    with contextlib.suppress(OSError):  # the trace reader reports a name that is too long
        is_drive = is_drive or Path(trace).is_block_device()
    if is_trace or is_drive:
        raise UserError(
            f"'{drive}' is not a drive, or '{trace}' is not a trace; the drive comes first",
            f"drivebay replay {trace} {drive}",
        )


# --- virtual drives -------------------------------------------------------------------------------


def _replay_virtual(given: Options) -> None:
    """Replays the trace as a test of kind "trace"; the target prepares itself."""
    from drivebay.analysis.storage_bench import storage_bench

    test = _test(given)
    with closing(target_factory(given.drive, given.changes)()) as target:
        target.check((test,))
        for phase in test.phases:
            if phase.replay is not None:
                say_notes(phase.replay.notes(target.capacity_bytes, empty=given.empty))
        result = _run(target, test, given.seed)
    bench = storage_bench(
        ios=result.reads + result.writes,
        moved_bytes=result.read_bytes + result.write_bytes,
        metrics=result.metrics,
    )
    if bench is None:
        raise UserError("the trace has no reads and no writes", "replay another trace")
    if skipped := result.metrics.get("passed_over"):
        say(f"note: {skipped:,.0f} trims and flushes were skipped")
    document = {**asdict(bench), "little_holds": bench.little_holds}
    answer(document, given.as_json, HEADS, _virtual_rows(result, bench), right=(1,))
    if not given.empty and given.scale < 1.0:
        say("note: on a full drive a scaled trace is too fast, as its files are smaller")


def _checked(load: type[L], given: Options, **more: Any) -> L:
    """Loads the trace and its replay; errors name options of the command line."""
    from pydantic import ValidationError

    from drivebay.definitions import mistakes

    try:
        return load(**given.load(), **more)
    except ValidationError as problem:
        first = mistakes.first(problem)
        names = {"idle_ms_max": "idle-cap", "rule": "place", "seed": "trace-seed"}
        field = str(first["loc"][0])
        option = f"--{names.get(field, field).replace('_', '-')}"
        hint = "drivebay replay --help lists what is allowed"
        raise mistakes.user_error(first, option, document="a replay", hint=hint) from None


def _test(given: Options) -> Test:
    from drivebay.definitions.suites import Phase, Prepare, Replay, Test

    replay = _checked(Replay, given, seed=given.trace_seed, drive_s=3600.0)
    fill = () if given.empty else (Prepare(kind="fill"),)
    prepare = (Prepare(kind="purge"), *fill, Prepare(kind="rest", seconds=REST_S))
    phase = Phase.model_validate({"label": "run", "replay": replay})
    return Test.alone("replay", "one replay", "called from the command line", phase, prepare)


def _run(target: Target, test: Test, seed: int) -> PhaseResult:
    from drivebay.cli.progress import figures_text, status
    from drivebay.targets.base import Progress

    with status() as show:
        progress = Progress(lambda what, _done, _all, now: show(f"{what}: {figures_text(now)}"))
        return target.run_test(test, seed=seed, progress=progress)[0]


def _virtual_rows(result: PhaseResult, bench: StorageBench) -> list[tuple[str, str]]:
    law = "agrees" if bench.little_holds else "DOES NOT AGREE: time is missing"
    waf, by_bytes = (result.metrics.get(name) for name in ("waf", "waf_bytes"))
    return [
        ("reads", f"{result.reads:,}"),
        ("writes", f"{result.writes:,}"),
        ("read", units.si_bytes(result.read_bytes)),
        ("written", units.si_bytes(result.write_bytes)),
        ("data rate over busy time", known(bench.rate_busy, " MB/s")),
        ("data rate over wall time", known(bench.rate_wall, " MB/s")),
        ("mean latency", known(bench.latency_mean_us, " us")),
        ("I/Os over 10 ms", known(bench.over_10_ms_percent, " %")),
        ("I/Os over 100 ms", known(bench.over_100_ms_percent, " %")),
        ("mean outstanding", known(bench.outstanding_mean)),
        (f"by Little's law ({law})", number(bench.little)),
        ("busy time", known(bench.busy_s, " s")),
        ("wall time", known(bench.wall_s, " s")),
        *([] if waf is None else [("write amplification by mapping units", number(waf))]),
        *([] if by_bytes is None else [("write amplification by bytes", number(by_bytes))]),
    ]


# --- real drives ----------------------------------------------------------------------------------


def _real_run(given: Options) -> RealReplay:
    """Prepares the replay and prints notes on the trace; starts nothing."""
    from drivebay.definitions.suites.loads import TraceLoad
    from drivebay.targets.replay.run import RealReplay
    from drivebay.targets.safety.target_device import OverwritePermission

    _must_be_readable_twice(given)
    load = _checked(TraceLoad, given)
    load.check(where="replay")
    real = {name: getattr(given, name) for name in REAL.split()}
    played = load.options(
        seed=given.seed, **{name: value for name, value in real.items() if value is not None}
    )
    source = load.source(given.trace_seed)
    permission = OverwritePermission(given.destroy_data, given.overwrite_signature)
    run = RealReplay(source, played, given.drive, permission=permission)
    if source.path is not None:
        say_notes(load.notes(run.target.size_bytes))
    return run


def _must_be_readable_twice(given: Options) -> None:
    """Raises UserError unless TRACE is a regular file or a synthesized trace: it is read twice."""
    path = Path(given.trace)
    if not path.exists():
        return
    if given.scale != 1.0:
        raise UserError(
            "--scale is for synthesized traces; a recorded trace is replayed whole",
            "leave it out, or use destroyer, heavy or light",
        )
    if not path.is_file():
        raise UserError(
            f"{path} is not a regular file, which a trace must be, as it is read twice",
            "convert it to a file first: drivebay trace convert IN OUT.csv",
        )


def _replay_real(given: Options) -> None:
    from drivebay.cli.progress import LINE_EVERY_S, status
    from drivebay.common import signals

    run, out = _real_run(given), given.out
    refuse_existing(out, "--out")
    survey = run.job.survey()
    _announce(run, survey, run.check())
    if typed_yes(run.destroys, run.target.path, yes=given.yes):
        run.yes_was_typed()
    printed: set[str] = set()

    def say_once(line: str) -> None:
        if line not in printed:
            printed.add(line)
            say(line)

    with (
        run.lock(say_once, no_wait=given.no_wait),
        signals.heard(run.job.control.stop),
        status(LINE_EVERY_S) as show,
        repeated(lambda: show(_now(run, survey)), every_s=1.0),
    ):
        done = run.play()
    _say_problems(done)
    _print_figures(done, out, as_json=given.as_json)
    _raise_failure(done)


def _print_figures(done: Replayed, out: Path | None, *, as_json: bool) -> None:
    """Writes the figures to the file `out` and to stdout."""
    unknown = ["temperature_c", "power_w", "throttle_stage"]
    document = {
        "ended": done.ended,
        "reason": done.reason,
        **done.figures,
        "seconds": done.series.drop_columns(unknown).to_pydict(),
        "latency_histogram": done.histogram.to_pydict(),
    }
    if out is not None:
        write_new(out, json.dumps(document, indent=1) + "\n")
    answer(document, as_json, HEADS, _real_rows(done.figures), right=(1,))


def _now(run: RealReplay, survey: Survey) -> str:
    now = run.job.control.progress()
    seconds = now.elapsed_ns / 1e9
    share = seconds / survey.length_s if survey.length_s else now.done / max(1, survey.requests)
    rate = units.si_bytes(now.bytes / max(seconds, 1e-9))
    return f"{min(1.0, share):.0%} done: {rate}/s, {now.late:,} late, {now.failed:,} failed"


def _real_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    def share(key: str) -> str:
        return "not known" if figures[key] is None else f"{figures[key]:.2%}"

    def rate(key: str) -> str:
        return "not known" if figures[key] is None else f"{units.si_bytes(figures[key])}/s"

    skipped = {name: count for name, count in figures["passed_over"].items() if count}
    return [
        ("reads", f"{figures['reads']:,}"),
        ("writes", f"{figures['writes']:,}"),
        ("data rate over busy time", rate("bytes_per_busy_s")),
        ("data rate over wall time", rate("bytes_per_wall_s")),
        ("mean latency", known(figures["latency_us_mean"], " us")),
        ("over 10 ms", share("share_over_10_ms")),
        ("over 100 ms", share("share_over_100_ms")),
        ("mean outstanding, counted", known(figures["outstanding_mean"])),
        ("mean outstanding, Little's law", known(figures["outstanding_mean_by_littles_law"])),
        ("busy time", known(figures["busy_s"], " s")),
        ("wall time", known(figures["wall_s"], " s")),
        ("issued late (over 100 us)", f"{figures['late']:,} ({share('late_share')})"),
        ("lateness, 99th percentile", known(figures["lateness_us_p99"], " us")),
        ("lateness, longest", known(figures["lateness_us_max"], " us")),
        ("failed", f"{_failed(figures):,}"),
        *((f"{name} skipped", f"{count:,}") for name, count in skipped.items()),
    ]


def _failed(figures: dict[str, Any]) -> int:
    return sum(failure["count"] for failure in figures["failures"])


def _announce(run: RealReplay, survey: Survey, notes: list[str]) -> None:
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
    length = "" if survey.length_s is None else f", due within {units.duration(survey.length_s)}"
    say(f"trace   {survey.requests:,} requests{length}")
    say_notes(notes)


def _say_problems(done: Replayed) -> None:
    figures = done.figures
    if figures["late_queue_full"]:
        say(
            f"note: {figures['late_queue_full']:,} requests were late because the queue was full; "
            "the drive is slower than the recorded one, or --depth is too small"
        )
    if other := figures["late"] - figures["late_queue_full"]:
        say(f"note: {other:,} requests were late because of this machine; latencies include it")
    for failure in figures["failures"]:
        say(f"note: {failure['count']:,} x {failure['op']} failed with {failure['error']}")
    if figures["unanswered"]:
        say(f"note: {figures['unanswered']:,} requests were never completed")
    if not figures["direct"]:
        say("note: figures of the page cache, not of the drive")


def _raise_failure(done: Replayed) -> None:
    if done.ended == "stopped":
        raise Interrupted(
            "interrupted; the figures cover the part replayed so far",
            "run the same command again for the whole trace",
        )
    if done.ended == "broken":
        message, _, hint = done.reason.partition("; hint: ")
        raise DrivebayError(f"the replay ended early: {message}", hint or "see: dmesg | tail", 3)
    if failed := _failed(done.figures):
        first = done.figures["failed"][0]
        raise DrivebayError(
            f"{failed:,} requests failed; the first: request {first['number']}, {first['op']} of "
            f"{first['bytes']} bytes at {first['offset_bytes']}: {first['error']}",
            "find the cause with: dmesg | tail",
            EXIT_CHECK_FAILED,
        )
