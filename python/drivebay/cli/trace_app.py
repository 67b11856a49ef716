"""The verbs of `drivebay trace` and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

trace = typer.Typer(
    name="trace",
    rich_markup_mode=None,
    help="Describe, convert, record and synthesize block traces.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  drivebay trace info trace.csv.gz
  drivebay trace convert trace.csv.gz trace.iolog
  drivebay trace synth light --out light.csv""",
)


@trace.command(
    epilog="""\b
Examples:
  drivebay trace info trace.csv.gz
  drivebay trace info trace.txt --format blkparse --json
  drivebay trace info trace.csv --png trace.png

\b
Formats: msr, systor, alibaba, tencent, vscsi, vscsi-binary, spc, mqsim, disksim, blkparse, ftrace,
biosnoop, etw, iolog, csv; each also compressed by gzip, bzip2 or zstd."""
)
def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="The trace.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
    from_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="F", show_default=False, help="Its format. [default: detected]"
        ),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            metavar="PICTURE",
            show_default=False,
            help="Draw addresses and rate over time, and sizes, into this PNG file.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace PICTURE if it exists.")] = False,
) -> None:
    """Describe a trace: volumes, sizes, queue depths, sequential share, footprint.

    Shares are from 0 to 1; a figure that the trace cannot tell is null. What was left out of a
    trace is said on stderr.
    """
    from drivebay.cli import tracing

    tracing.info(file, from_=from_, as_json=as_json, png=png, force=force)


@trace.command(
    epilog="""\b
Examples:
  drivebay trace convert trace.csv.gz trace.iolog
  drivebay trace convert trace.txt trace.parquet --from blkparse
  drivebay trace convert trace.csv out --to csv --force

\b
The output is in order of time. It appears when it is complete; after an error nothing is left."""
)
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", show_default=False, help="The trace.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", show_default=False, help="File to make.")],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="F",
            show_default=False,
            help="Its format, as for: drivebay trace info. [default: detected]",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="iolog|csv|parquet",
            show_default=False,
            help="What to write: fio's iolog version 3, CSV or Parquet. [default: as OUT ends]",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Write a trace in another format."""
    from drivebay.cli import tracing

    tracing.convert(source, out, from_=from_, to=to, force=force)


@trace.command(
    epilog="""\b
Examples:
  sudo drivebay trace record /dev/nvme0n1 --seconds 60
  sudo drivebay trace record /dev/sda --seconds 600 --out day.parquet

\b
Needs root, and tracefs. Ctrl-C ends a recording early and keeps it."""
)
def record(
    device: Annotated[
        str, typer.Argument(metavar="DEVICE", show_default=False, help="A whole block device.")
    ],
    seconds: Annotated[
        float, typer.Option(metavar="N", min=0.1, show_default=False, help="How long.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="File to make. [default: NAME.csv]"),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="iolog|csv|parquet", show_default=False, help="[default: as FILE ends]"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Record a block device's I/Os: when, where, how long, through the kernel's tracepoints.

    Nothing is written to the device; other tracing on the machine is not disturbed.
    """
    from drivebay.cli import tracing

    tracing.record(device, seconds=seconds, out=out, to=to, force=force)


@trace.command(
    epilog="""\b
Examples:
  drivebay trace synth light --out light.csv
  drivebay trace synth destroyer --scale 0.01 --out destroyer.parquet
  drivebay trace synth heavy --seed 2 --json            its statistics, nothing written
  drivebay replay heavy sm951-ahci-512                  straight into a run

\b
The AnandTech Storage Bench's traces were never published, their statistics were. The same seed
gives the same trace on every machine. A part of one has smaller files as well: on a full drive,
whose spare flash stays as it is, it is faster than the whole."""
)
def synth(
    name: Annotated[
        str,
        typer.Argument(metavar="destroyer|heavy|light", show_default=False, help="Which one."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            show_default=False,
            help="The file to make. [default: none; the statistics are printed]",
        ),
    ] = None,
    scale: Annotated[
        float, typer.Option(metavar="S", help="Times the published number of I/Os, 0.0001 to 10.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the random choices.")] = 1,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="iolog|csv|parquet",
            show_default=False,
            help="What to write. [default: as FILE ends]",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print its statistics as JSON for scripts.")
    ] = False,
    png: Annotated[
        Path | None,
        typer.Option(metavar="PICTURE", show_default=False, help="Draw it into this PNG file."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace FILE and PICTURE if they exist.")
    ] = False,
) -> None:
    """Make a trace from published statistics: The Destroyer, Heavy or Light."""
    from drivebay.cli import tracing

    tracing.synth(name, out, scale=scale, seed=seed, to=to, as_json=as_json, png=png, force=force)
