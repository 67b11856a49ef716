"""`drivebay trace`: describes, converts, records and synthesizes block traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from drivebay.cli import options
from drivebay.cli.options import argument, option
from drivebay.cli.output import known, print_json, say, say_notes, say_unless_quiet, table
from drivebay.common import units

if TYPE_CHECKING:
    from drivebay import traces

app = options.Verb(
    help="Describe, convert, record and synthesize block traces.",
    epilog="""\b
Examples:
  drivebay trace info trace.csv.gz
  drivebay trace convert trace.csv.gz trace.iolog
  drivebay trace synth light --out light.csv""",
)


@app.command()
def info(
    file: Path = argument(),
    as_json: options.Json = False,
    from_: options.TraceFormat = None,
    time_unit: options.TimeUnit = None,
    columns: options.Columns = None,
    png: options.Picture = None,
    force: options.Force = False,
) -> None:
    """Describe a trace: volumes, sizes and queue depths.

    It also prints the sequential share and the footprint. In JSON, shares are from 0 to 1, and
    figures that the trace lacks are null. Notes on stderr report skipped parts of the trace.

    Examples:
      drivebay trace info trace.csv.gz
      drivebay trace info trace.txt --format blkparse --json
      drivebay trace info trace.csv --png trace.png
      drivebay trace info trace.csv --time-unit us
      drivebay trace info t.parquet --columns time=ts:us,offset=lba:512

    Formats: msr, systor, alibaba, tencent, k5cloud, vscsi, vscsi-binary,
    libcachesim, oracle-general, meta, spc, mqsim, disksim, blkparse, ftrace,
    ftrace-nvme, fiu, biosnoop, etw, iolog, csv, parquet;
    each (except parquet) also compressed with gzip, bzip2, zstd or xz.

    Fields of --columns: time, offset, length, op, and optionally device and
    response. A unit can follow after a colon: s, ms, us or ns for a time
    (default: ns), a factor to bytes for a size, or the word for a read for op (if
    it is unusual). Columns without a header have numbers from 1.

    Parameters
    ----------
    file : FILE
        Trace file.
    """
    from drivebay import traces

    source = traces.file_source(file, from_, time_unit=time_unit, columns=columns)
    described = traces.info(source)
    if png is not None:
        traces.picture(source, described, png, force=force)
    say_notes(described.summary.notes)
    _describe(described, as_json=as_json)


@app.command()
def convert(
    source: Path = argument(),
    out: Path = argument(),
    from_: options.TraceFormat = None,
    time_unit: options.TimeUnit = None,
    columns: options.Columns = None,
    to: options.OutFormat = None,
    force: options.Force = False,
) -> None:
    """Write a trace in another format.

    Examples:
      drivebay trace convert trace.csv.gz trace.iolog
      drivebay trace convert trace.txt trace.parquet --format blkparse
      drivebay trace convert trace.csv out --to csv --force

    The output is sorted by time. It appears when it is complete; an error leaves
    no file.

    Parameters
    ----------
    source : IN
        Trace file.
    out : OUT
        File to create.
    """
    from drivebay import traces

    trace = traces.file_source(source, from_, time_unit=time_unit, columns=columns)
    summary = traces.convert(trace, out, to=to, force=force)
    say_notes(summary.notes)
    say_unless_quiet(f"converted: {summary.requests:,} requests, read as {summary.format}")
    print(out)


@app.command()
def record(
    device: str = argument(),
    seconds: float = option(show_default=True, min=0.1),
    out: Path | None = option(),
    to: options.OutFormat = None,
    force: options.Force = False,
) -> None:
    """Record a block device's I/Os through the kernel's tracepoints.

    Nothing is written to the device; other tracing on the machine is not disturbed.

    Examples:
      sudo drivebay trace record /dev/nvme0n1 --seconds 60
      sudo drivebay trace record /dev/sda --seconds 600 --out day.parquet

    Needs root and tracefs. Ctrl-C ends a recording early and keeps it.

    Parameters
    ----------
    device : DEVICE
        A whole block device.
    seconds : N
        Duration in seconds.
    out : FILE
        File to create. [default: NAME.csv]
    """
    from drivebay import traces
    from drivebay.cli.progress import LINE_EVERY_S, status

    path = out or Path(f"{Path(device).name}.csv")
    say(f"recording {device} for {seconds:g} s; Ctrl-C ends it early")
    with status(LINE_EVERY_S) as show:

        def update(passed: float, text_bytes: int) -> None:
            left = max(0.0, seconds - passed)
            show(f"recording: {left:.0f} s left, {units.si_bytes(text_bytes)} of events")

        done = traces.record(device, path, seconds=seconds, force=force, to=to, tell=update)
    say_notes(done.summary.notes)
    if done.lost_events:
        say(
            f"note: {done.lost_events:,} events were lost: they came faster than they could be read"
        )
    say(f"recorded: {done.summary.requests:,} requests in {done.seconds:.1f} s")
    print(path)


@app.command()
def synth(
    name: str = argument(),
    out: Path | None = option(),
    scale: float = option(default=1.0),
    seed: options.Seed = 1,
    to: options.OutFormat = None,
    as_json: options.Json = False,
    png: options.Picture = None,
    force: options.Force = False,
) -> None:
    """Synthesize a trace from published statistics.

    The traces are those of the AnandTech Storage Bench: destroyer, heavy and light.

    Examples:
      drivebay trace synth light --out light.csv
      drivebay trace synth destroyer --scale 0.01 --out destroyer.parquet
      drivebay trace synth heavy --seed 2 --json      its statistics only
      drivebay replay sm951-ahci-512 heavy            replayed without a file

    AnandTech published statistics of its Storage Bench, but no traces. The same
    seed gives the same trace on every machine. A scaled trace also has smaller
    files, so it is too fast on a full drive, whose spare flash is not scaled.

    Parameters
    ----------
    name : destroyer|heavy|light
        Name of the trace.
    out : FILE
        File to create. [default: none; prints statistics]
    scale : S
        Size relative to the published number of I/Os, 0.0001 to 10.
    """
    from drivebay import traces

    source = traces.source(name, scale=scale, seed=seed)
    if out is not None:
        made = traces.convert(source, out, to=to, force=force, option="--out")
        say_unless_quiet(f"synthesized: {made.requests:,} requests of {name}, seed {seed}")
    if out is None or png is not None or as_json:
        described = traces.info(source)
        if png is not None:
            traces.picture(source, described, png, force=force)
        if out is None or as_json:
            _describe(described, as_json=as_json)
            return
    print(out)


def _describe(described: traces.Described, *, as_json: bool) -> None:
    figures, summary = described.figures, described.summary
    if as_json:
        print_json({"format": summary.format, "format_why": summary.why, **figures})
        return

    def size(key: str) -> str:
        return "not known" if figures[key] is None else units.si_bytes(figures[key])

    def share(key: str) -> str:
        return "not known" if figures[key] is None else f"{figures[key]:.1%}"

    addresses = f"{size('address_start_bytes')} to {size('address_end_bytes')}"
    rows = [
        ("format", f"{summary.format} ({summary.why})" if summary.why else summary.format),
        ("reads", f"{figures['reads']:,}"),
        ("writes", f"{figures['writes']:,}"),
        ("read", size("read_bytes")),
        ("written", size("written_bytes")),
        ("trims", f"{figures['trims']:,}"),
        ("flushes", f"{figures['flushes']:,}"),
        ("devices", f"{figures['devices']:,}"),
        ("addresses", addresses),
        ("footprint", size("footprint_bytes")),
        ("overwrites", share("overwrite_share")),
        ("reads of unwritten addresses", share("unwritten_read_share")),
        ("sequential", share("sequential_share")),
        ("mean queue depth", known(figures["queue_depth_mean"])),
        ("duration", known(figures["duration_s"], " s")),
        ("idle", known(figures["idle_s"], " s")),
    ]
    table(("figure", "value"), rows, right=(1,))
    for key, title in (("size_share", "size"), ("queue_depth_share", "queue depth")):
        if (shares := figures[key]) is not None:
            print()
            cells = [(bucket, f"{part:.1%}") for bucket, part in shares.items()]
            table((title, "share of reads and writes"), cells, right=(1,))
