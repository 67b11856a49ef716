"""`drivebay replay` on a virtual drive: its figures printed.

A replay is a test of kind "trace" outside of any suite: the target prepares itself and runs it. On
a real drive it is `replaying_real`.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from drivebay.analysis.storage_bench import StorageBench, storage_bench
from drivebay.cli.display import say
from drivebay.cli.reviewing import target_factory
from drivebay.cli.show import number, table
from drivebay.common import units
from drivebay.common.errors import UserError
from drivebay.definitions.suites import Phase, Prepare, Replay, Test
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Cancelled, Progress, Target

REST_S = 1800.0
WAIT_S = 0.2
SAY_EVERY_S = 5.0


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    trace: str
    drive: str
    full: bool
    scale: float
    trace_seed: int
    seed: int
    mode: str
    idle_ms_max: float | None
    time_percent: int
    rule: str
    trim: bool


def replay(options: Options, *, as_json: bool) -> None:
    """Runs it and prints the figures."""
    test = _test(options)
    with closing(target_factory(options.drive, None)()) as target:
        target.check((test,))
        result = _run(target, test, options.seed)
    bench = storage_bench(
        ios=result.reads + result.writes,
        moved_bytes=result.read_bytes + result.write_bytes,
        metrics=result.metrics,
    )
    if bench is None:
        raise UserError(
            f"the trace {options.trace} has no read or write that can be replayed",
            f"look at it: drivebay trace info {options.trace}",
        )
    if left_out := result.metrics.get("left_out"):
        say(f"note: {left_out:,.0f} trims and flushes were left out")
    if options.full and options.scale < 1.0:
        say("note: on a full drive a part of a trace is faster than the whole, with smaller files")
    if as_json:
        print(json.dumps({**asdict(bench), "little_holds": bench.little_holds}, indent=1))
        return
    table(("figure", "value"), _rows(result, bench), right=(1,))


def _test(options: Options) -> Test:
    from pydantic import ValidationError

    try:
        load = Replay(
            trace=options.trace,
            scale=options.scale,
            seed=options.trace_seed,
            mode=options.mode,
            idle_ms_max=options.idle_ms_max,
            time_percent=options.time_percent,
            rule=options.rule,
            trim=options.trim,
            drive_s=3600.0,
        )
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        option = {"idle_ms_max": "idle-cap", "rule": "place", "seed": "trace-seed"}
        field = str(first["loc"][0])
        raise UserError(
            f"--{option.get(field, field).replace('_', '-')}: {first['input']!r} is not allowed; "
            f"{first['msg'][:1].lower()}{first['msg'][1:]}",
            "drivebay replay --help lists what is allowed",
        ) from None
    fill = (Prepare(kind="fill"),) if options.full else ()
    return Test(
        id="replay",
        title="one replay",
        page="replay",
        kind="trace",
        method="called from the command line",
        source="the caller",
        prepare=(Prepare(kind="purge"), *fill, Prepare(kind="rest", seconds=REST_S)),
        phases=(Phase.model_validate({"label": "run", "replay": load}),),
    )


def _run(target: Target, test: Test, seed: int) -> PhaseResult:
    """Runs in another thread, so that Ctrl-C is heard at once."""
    said = time.monotonic()

    def report(what: str, _done: float, _planned: float, figures: dict[str, float]) -> None:
        nonlocal said
        if sys.stderr.isatty() and time.monotonic() - said > SAY_EVERY_S:
            said = time.monotonic()
            rate = units.si_bytes(int(figures.get("bytes_per_s", 0)))
            say(f"{what}: {rate}/s, {figures.get('temperature_c', 0):.0f} C")

    progress = Progress(report)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(target.run_test, test, seed=seed, progress=progress)
        try:
            while True:
                try:
                    return future.result(timeout=WAIT_S)[0]
                except NotYet:
                    continue
        except KeyboardInterrupt:
            progress.cancel()
            raise
        except Cancelled:
            raise KeyboardInterrupt from None


def _rows(result: PhaseResult, bench: StorageBench) -> list[tuple[str, str]]:
    def line(name: str, value: float, unit: str = "") -> tuple[str, str]:
        return name, f"{number(value)}{unit}"

    law = "agrees" if bench.little_holds else "DOES NOT AGREE: time was lost"
    metrics: dict[str, Any] = result.metrics
    return [
        ("reads", f"{result.reads:,}"),
        ("writes", f"{result.writes:,}"),
        ("read", units.si_bytes(result.read_bytes)),
        ("written", units.si_bytes(result.write_bytes)),
        line("data rate over busy time", bench.rate_busy, " MB/s"),
        line("data rate over wall time", bench.rate_wall, " MB/s"),
        line("mean latency", bench.latency_mean_us, " us"),
        line("I/Os over 10 ms", bench.over_10_ms_percent, " %"),
        line("I/Os over 100 ms", bench.over_100_ms_percent, " %"),
        line("mean outstanding", bench.outstanding_mean),
        (f"by Little's law ({law})", number(bench.little)),
        line("busy time", bench.busy_s, " s"),
        line("wall time", bench.wall_s, " s"),
        *([line("write amplification", metrics["waf"])] if "waf" in metrics else []),
    ]
