"""The verb `drivebay replay` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

EPILOG = """\b
Examples:
  drivebay replay trace.csv.gz ./disk.img             a file; its content is overwritten
  drivebay replay trace.csv.gz /dev/sdX --only-reads  changes nothing
  drivebay replay trace.iolog /dev/sdX --destroy-data SERIAL   ALL ITS DATA IS LOST
  drivebay replay light ./disk.img --scale 0.01       synthesized, a hundredth of it
  drivebay replay trace.csv ./disk.img --mode dependencies --json

\b
An interrupted replay prints the figures of what was played until then. Exit code 1: requests
failed. What the figures mean: docs/concepts/replay.md."""


def replay(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            show_default=False,
            help="A trace, or one to synthesize: destroyer, heavy, light.",
        ),
    ],
    drive: Annotated[
        str,
        typer.Argument(metavar="DRIVE", show_default=False, help="A file or a block device."),
    ],
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="F", show_default=False, help="The trace's format."),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(metavar="X", show_default=False, help="Of a synthesized trace: 1 is all."),
    ] = None,
    mode: Annotated[
        Literal["recorded", "dependencies"],
        typer.Option(help="At the recorded times, or as fast as the recorded dependencies allow."),
    ] = "recorded",
    idle_max: Annotated[
        float | None,
        typer.Option(
            "--idle-max", metavar="MS", show_default=False, help="Cut idle stretches to this."
        ),
    ] = None,
    time_percent: Annotated[
        int, typer.Option(metavar="N", help="50 plays twice as fast as recorded.")
    ] = 100,
    place: Annotated[
        Literal["fold", "scale"],
        typer.Option(help="How addresses beyond the drive are brought onto it."),
    ] = "fold",
    only_reads: Annotated[
        bool, typer.Option("--only-reads", help="Leave out what changes the drive.")
    ] = False,
    trim: Annotated[
        bool, typer.Option("--trim", help="Play trims and flushes, too; see the docs.")
    ] = False,
    zeros: Annotated[
        bool, typer.Option("--zeros", help="Write zeros, not incompressible bytes.")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Of what is synthesized and written.")] = 1,
    depth: Annotated[
        int, typer.Option(metavar="N", help="Most requests outstanding; others wait, and count.")
    ] = 1024,
    spin: Annotated[
        int,
        typer.Option(metavar="US", help="Wait awake so long before a request; 0 sleeps always."),
    ] = 80,
    seconds: Annotated[
        float | None, typer.Option(metavar="N", show_default=False, help="Stop after this long.")
    ] = None,
    failures: Annotated[
        int | None,
        typer.Option(metavar="N", show_default=False, help="Stop after more failed requests."),
    ] = None,
    buffered: Annotated[
        bool,
        typer.Option("--buffered", help="Through the page cache, where O_DIRECT is refused."),
    ] = False,
    destroy_data: Annotated[
        str | None,
        typer.Option(
            metavar="SERIAL",
            show_default=False,
            help="For a block device: its serial number, typed, as consent to lose all its data.",
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
        typer.Option(metavar="FILE", show_default=False, help="Write the figures there as JSON."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> int:
    """Play a trace on a drive, each request at its time.

    The trace is read once before anything is played, so that one that is damaged changes nothing.
    """
    from drivebay.cli import replaying
    from drivebay.targets.replay_real import How
    from drivebay.targets.subject import Consent

    how = How(
        mode=mode,
        idle_max_s=None if idle_max is None else idle_max / 1000,
        time_percent=time_percent,
        rule=place,
        only_reads=only_reads,
        trim=trim,
        zeros=zeros,
        seed=seed,
        depth=depth,
        spin_us=spin,
        length_max_s=seconds,
        failures_max=failures,
        buffered=buffered,
    )
    return replaying.replay(
        replaying.what(trace, from_=from_, scale=scale, seed=seed),
        how,
        drive,
        consent=Consent(destroy_data, overwrite_signature),
        out=out,
        as_json=as_json,
    )
