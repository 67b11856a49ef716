"""The verbs and their options. Each command is a few calls; its help has examples to copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from drivebay.cli.trace_app import trace

app = typer.Typer(
    name="drivebay",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

app.add_typer(trace)


def _version(wanted: bool) -> None:
    if wanted:
        from drivebay.results import provenance

        commit = provenance.git_commit()
        typer.echo(f"drivebay {provenance.tool_version()}" + (f" ({commit})" if commit else ""))
        raise typer.Exit


@app.callback(
    epilog="""\b
Examples:
  drivebay drives                          what can be reviewed
  drivebay review sm951-ahci-512           a virtual drive, full length, about a minute
  drivebay review ./disk.img --quick       a real file, through fio, some minutes
  drivebay report drivebay-results/*       several reviews in one page

\b
Exit codes: 0 done; 1 ran, and a check failed; 2 wrong usage; 3 something is missing on this
machine (fio, a permission, disk space); 130 interrupted."""
)
def drivebay(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """An SSD review lab: put a drive in the bay, real or virtual, and get its review."""


@app.command(
    epilog="""\b
Examples:
  drivebay drives
  drivebay drives --json"""
)
def drives(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """List what can be reviewed here.

    These are the virtual drives of the catalog, and this machine's block devices.

    For each device it says what forbids testing it: a mounted filesystem, a partition table, and
    so on. Nothing is written or opened for writing.
    """
    from drivebay.cli import show

    show.drives(as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  drivebay review sm951-ahci-512                      the whole suite on a virtual drive
  drivebay review my-drive.toml --suite quick         your own profile, a first look
  fallocate -l 4G disk.img
  drivebay review ./disk.img --quick                  a file, through fio
  drivebay review /dev/sdX --destroy-data SERIAL      a device; ALL ITS DATA IS LOST
  drivebay review --resume drivebay-results/NAME      go on after an interruption
  drivebay review sm951-ahci-512 --only random-read --json

\b
A review that is interrupted keeps every test that has finished. The result is a folder: its
manifest, the figures of each test as Parquet files, and report.html."""
)
def review(
    drive: Annotated[
        str | None,
        typer.Argument(
            metavar="DRIVE",
            show_default=False,
            help="A catalog name (see: drivebay drives), a profile's path ending in .toml, a file, "
            "or a block device.",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME_OR_FILE",
            show_default=False,
            help="The tests to run: a suite's name or your own .toml file. "
            "[default: anandtech-2015]",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Run the same tests, cut to seconds; figures are labelled so."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="The result folder to make. [default: drivebay-results/DRIVE-SUITE-N]",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default=False,
            help="The same seed gives a virtual drive the same result, bit for bit. [default: 1]",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", show_default=False, help="Go on with an interrupted review's folder."
        ),
    ] = None,
    destroy_data: Annotated[
        str | None,
        typer.Option(
            metavar="SERIAL",
            show_default=False,
            help="For a block device: its serial number, typed, as consent to lose all its data.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default=False,
            help="Tests of a virtual drive to run side by side; changes no figure. "
            "[default: as many as there are processors and memory for]",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEST", show_default=False, help="Run only this test; repeatable."),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="TEST", show_default=False, help="Leave this test out; repeatable."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before a long test of a real drive.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print result, report and figures as JSON at the end.")
    ] = False,
) -> None:
    """Review a drive: run a suite, write a report."""
    from drivebay.cli import reviewing

    options = reviewing.Options(
        drive=drive,
        suite=suite,
        quick=quick,
        out=out,
        seed=seed,
        resume=resume,
        destroy_serial=destroy_data,
        jobs=jobs,
        only=tuple(only or ()),
        skip=tuple(skip or ()),
        yes=yes,
    )
    reviewing.review(options, as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  drivebay replay light sm951-ahci-512                     synthesized, on an empty drive
  drivebay replay heavy sm951-ahci-512 --full --json
  drivebay replay trace.csv.gz xp941-512 --mode dependencies
  drivebay replay trace.csv.gz my-drive.toml --as-recorded --place scale

\b
TRACE is destroyer, heavy, light, or a file in any format of: drivebay trace info --help"""
)
def replay(
    trace: Annotated[
        str, typer.Argument(metavar="TRACE", show_default=False, help="What to replay.")
    ],
    drive: Annotated[
        str,
        typer.Argument(
            metavar="DRIVE", show_default=False, help="A catalog name or a profile's path."
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Fill the drive first. [default: it is empty]")
    ] = False,
    mode: Annotated[
        str,
        typer.Option(
            metavar="recorded|dependencies",
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
        str,
        typer.Option(
            metavar="fold|scale",
            help="Addresses beyond the drive: modulo its size, or all in proportion.",
        ),
    ] = "fold",
    trim: Annotated[bool, typer.Option("--trim", help="Replay trims and flushes as well.")] = False,
    scale: Annotated[
        float, typer.Option(metavar="S", help="Synthesized: times the published number of I/Os.")
    ] = 1.0,
    trace_seed: Annotated[
        int, typer.Option(metavar="N", help="Synthesized: seed of the trace.")
    ] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the virtual drive.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Replay a trace on a virtual drive: data rate, latency, long I/Os, Little's law."""
    from drivebay.cli import replaying

    options = replaying.Options(
        trace=trace,
        drive=drive,
        full=full,
        scale=scale,
        trace_seed=trace_seed,
        seed=seed,
        mode=mode,
        idle_ms_max=None if keep_idle else idle_cap,
        time_percent=time_percent,
        rule=place,
        trim=trim,
    )
    replaying.replay(options, as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  drivebay report drivebay-results/sm951-ahci-512-anandtech-2015-1
  drivebay report drivebay-results/* --out bench.html"""
)
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", show_default=False, help="Result folders of reviews."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="The page to write. [default: DIR/report.html; drivebay-report.html for several]",
        ),
    ] = None,
) -> None:
    """Make one review's report, or one of several.

    The report is an HTML file that works offline.
    """
    from drivebay.cli import reporting

    typer.echo(reporting.report(folders, out))


@app.command(
    epilog="""\b
Examples:
  drivebay bench
  drivebay bench --json > bench.json"""
)
def bench(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Measure how fast the simulation runs here.

    One core, four loads on a 512 GB drive, each at its true steady state: simulated I/Os per second
    of your time, seconds, peak memory, and the write amplification reached.
    """
    from drivebay.cli import show

    cases: list[dict[str, Any]] = show.run_bench()
    show.bench(cases, as_json=as_json)
