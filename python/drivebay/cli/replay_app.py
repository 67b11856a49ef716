"""The verb `drivebay replay` and its options, for virtual drives and real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from drivebay.cli import complete

EPILOG = """\b
Examples:
  drivebay replay light sm951-ahci-512                 synthesized, on an empty virtual drive
  drivebay replay heavy sm951-ahci-512 --full --json
  drivebay replay trace.csv.gz ./disk.img              a file; its content is overwritten
  drivebay replay trace.csv.gz /dev/sdX --only-reads   changes nothing
  drivebay replay light /dev/sdX --destroy-data SERIAL   ALL ITS DATA IS LOST

\b
TRACE is destroyer, heavy, light, or a file in any format of: drivebay trace info --help
A real drive's replay that is interrupted prints the figures of what was played until then; exit
code 1: requests failed. What the figures mean: docs/concepts/replay.md."""


def replay(
    trace: Annotated[
        str, typer.Argument(metavar="TRACE", show_default=False, help="What to replay.")
    ],
    drive: Annotated[
        str,
        typer.Argument(
            metavar="DRIVE",
            show_default=False,
            autocompletion=complete.drives,
            help="A catalog name, a profile's path ending in .toml, a file or a block device.",
        ),
    ],
    mode: Annotated[
        Literal["recorded", "dependencies"],
        typer.Option(
            help="When a request is issued: at its recorded time, or as soon as what it waited "
            "for in the recording has completed.",
        ),
    ] = "recorded",
    idle_cap: Annotated[
        float, typer.Option(metavar="MS", help="Cut idle stretches of the recording to this.")
    ] = 25.0,
    keep_idle: Annotated[bool, typer.Option("--as-recorded", help="Cut no idle time.")] = False,
    time_percent: Annotated[
        int, typer.Option(metavar="P", help="Stretch the recorded times: 200 is half as fast.")
    ] = 100,
    place: Annotated[
        Literal["fold", "scale"],
        typer.Option(help="Addresses beyond the drive: modulo its size, or all in proportion."),
    ] = "fold",
    trim: Annotated[
        bool, typer.Option("--trim", help="Replay trims, and on real drives flushes, as well.")
    ] = False,
    scale: Annotated[
        float, typer.Option(metavar="S", help="Synthesized: times the published number of I/Os.")
    ] = 1.0,
    trace_seed: Annotated[
        int, typer.Option(metavar="N", help="Synthesized: seed of the trace.")
    ] = 1,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of the virtual drive, or of what is written.")
    ] = 1,
    full: Annotated[
        bool, typer.Option("--full", help="Virtual drives: fill first. [default: empty]")
    ] = False,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="F", show_default=False, help="Real drives: the trace's format."
        ),
    ] = None,
    only_reads: Annotated[
        bool, typer.Option("--only-reads", help="Real drives: leave out what changes them.")
    ] = False,
    zeros: Annotated[
        bool, typer.Option("--zeros", help="Real drives: write zeros, not random bytes.")
    ] = False,
    depth: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default=False,
            help="Real drives: most outstanding; what is due beyond it waits. [default: 1024]",
        ),
    ] = None,
    spin: Annotated[
        int | None,
        typer.Option(
            metavar="US",
            show_default=False,
            help="Real drives: wait awake so long before a request; 0 sleeps always. [default: 80]",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="N", show_default=False, help="Real drives: stop after this long."),
    ] = None,
    failures: Annotated[
        int | None,
        typer.Option(
            metavar="N", show_default=False, help="Real drives: stop after more failed requests."
        ),
    ] = None,
    buffered: Annotated[
        bool,
        typer.Option(
            "--buffered", help="Real drives: through the page cache, where O_DIRECT is refused."
        ),
    ] = False,
    destroy_data: Annotated[
        str | None,
        typer.Option(
            metavar="SERIAL",
            show_default=False,
            help="For a block device: its serial number: allows all its data to be overwritten.",
        ),
    ] = None,
    overwrite_signature: Annotated[
        bool,
        typer.Option(
            "--overwrite-signature",
            help="Give up a partition table or file system on it that nobody uses, too.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="Real drives: write the figures as JSON."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> int:
    """Replay a trace: data rate, latency, long I/Os, Little's law.

    On a real drive each request goes at its time, through io_uring. The trace is read once before
    anything is played, so that one that is damaged changes nothing.
    """
    from drivebay.definitions import profiles as catalog

    idle_ms_max = None if keep_idle else idle_cap
    only_real: dict[str, Any] = {
        "--from": from_,
        "--only-reads": only_reads,
        "--zeros": zeros,
        "--depth": depth,
        "--spin": spin,
        "--seconds": seconds,
        "--failures": failures,
        "--buffered": buffered,
        "--destroy-data": destroy_data,
        "--overwrite-signature": overwrite_signature,
        "--out": out,
    }
    if drive.endswith(".toml") or drive in catalog.names():
        from drivebay.cli import replaying

        _refuse(only_real, "a virtual drive")
        options = replaying.Options(
            trace=trace,
            drive=drive,
            full=full,
            scale=scale,
            trace_seed=trace_seed,
            seed=seed,
            mode=mode,
            idle_ms_max=idle_ms_max,
            time_percent=time_percent,
            rule=place,
            trim=trim,
        )
        replaying.replay(options, as_json=as_json)
        return 0

    from drivebay.cli import replaying_real, reviewing
    from drivebay.targets.replay.run import How
    from drivebay.targets.safety.target_device import OverwritePermission

    _refuse({"--full": full}, "a real drive or file")
    reviewing.target_factory(drive, destroy_data)  # says what DRIVE could have meant
    how = How(
        mode=mode,
        idle_max_s=None if idle_ms_max is None else idle_ms_max / 1000,
        time_percent=time_percent,
        rule=place,
        only_reads=only_reads,
        trim=trim,
        zeros=zeros,
        seed=seed,
        depth=How.depth if depth is None else depth,
        spin_us=How.spin_us if spin is None else spin,
        length_max_s=seconds,
        failures_max=failures,
        buffered=buffered,
    )
    return replaying_real.replay(
        replaying_real.what(trace, from_=from_, scale=scale, seed=trace_seed),
        how,
        drive,
        permission=OverwritePermission(destroy_data, overwrite_signature),
        out=out,
        as_json=as_json,
    )


def _refuse(given: dict[str, Any], kind: str) -> None:
    from drivebay.common.errors import UserError

    for option, value in given.items():
        if value is not None and value is not False:
            raise UserError(f"{option} has no meaning for {kind}", "leave it out")
