"""The verbs and their options. Each command is a few calls; its help has examples to copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from drivebay.cli import complete
from drivebay.cli.calibrate_app import EPILOG as CALIBRATE_EPILOG
from drivebay.cli.calibrate_app import calibrate
from drivebay.cli.exchange_app import QUERY_EPILOG, importing, query
from drivebay.cli.replay_app import EPILOG, replay
from drivebay.cli.serve_app import EPILOG as SERVE_EPILOG
from drivebay.cli.serve_app import serve
from drivebay.cli.sweep_app import SWEEP_EPILOG, WORKER_EPILOG, sweep, worker
from drivebay.cli.trace_app import trace

app = typer.Typer(
    name="drivebay",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

app.add_typer(trace)
app.command(epilog=EPILOG)(replay)
app.command(epilog=CALIBRATE_EPILOG)(calibrate)
app.command(epilog=SERVE_EPILOG)(serve)
app.add_typer(importing)
app.command(epilog=QUERY_EPILOG)(query)
app.command(epilog=SWEEP_EPILOG)(sweep)
app.command(epilog=WORKER_EPILOG)(worker)


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
  drivebay review ./disk.img --power meter.csv        power from a meter's file beside it
  drivebay review --resume drivebay-results/NAME      go on after an interruption
  drivebay review --list --suite thermal-2015          its tests, and how long they take
  drivebay review sm951-ahci-512 --only random-read --json
  drivebay review sm951-ahci-512 --with heatsink --with ambient_c=30      what if?

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
            autocompletion=complete.drives,
            help="A catalog name (see: drivebay drives), a profile's path ending in .toml, a file, "
            "or a block device.",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME_OR_FILE",
            show_default=False,
            autocompletion=complete.suites,
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
    overwrite_signature: Annotated[
        bool,
        typer.Option(
            "--overwrite-signature",
            help="With --destroy-data: even if a partition table or a file system is on the device "
            "(never if it is mounted, or part of LVM, RAID, ZFS, btrfs, bcache or LUKS).",
        ),
    ] = False,
    purge: Annotated[
        str | None,
        typer.Option(
            metavar="auto|discard",
            show_default=False,
            help="How a block device is purged: by the strongest erase that it offers (NVMe Format "
            "or Sanitize, ATA secure erase), or only by discarding its blocks. [default: auto]",
        ),
    ] = None,
    power: Annotated[
        str | None,
        typer.Option(
            metavar="SENSOR_OR_CSV",
            show_default=False,
            help="Where the drive's power is measured: a sensor's name in /sys/class/hwmon "
            "(ina226), or a CSV file that a meter is writing, with the columns time and power_w.",
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
        typer.Option(
            metavar="TEST",
            show_default=False,
            autocompletion=complete.tests,
            help="Run only this test; repeatable.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEST",
            show_default=False,
            autocompletion=complete.tests,
            help="Leave this test out; repeatable.",
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="CHANGE",
            show_default=False,
            help="Change a virtual drive: heatsink, over_provisioning=25%, link=pcie2x4, or any "
            "value of its profile, thermal.ambient_c=30; repeatable.",
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="With --with: the original's result, to be shown beside the changed drive's. "
            "[default: one of the same suite, seed and length beside the new folder]",
        ),
    ] = None,
    fitted: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANGE",
            show_default=False,
            help="A real drive: run the tests that need this change, such as heatsink, which you "
            "have made; the others are left for --resume. Repeatable.",
        ),
    ] = None,
    list_tests: Annotated[
        bool,
        typer.Option(
            "--list", help="Only list the suite's tests and how long they take; DRIVE is optional."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before a long test of a real drive.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print result, report and figures as JSON at the end.")
    ] = False,
) -> None:
    """Review a drive: run a suite, write a report."""
    from drivebay.cli import listing, reviewing

    options = reviewing.Options(
        drive=drive,
        suite=suite,
        quick=quick,
        out=out,
        seed=seed,
        resume=resume,
        destroy_serial=destroy_data,
        overwrite_signature=overwrite_signature,
        purge=purge,
        power=power,
        jobs=jobs,
        only=tuple(only or ()),
        skip=tuple(skip or ()),
        yes=yes,
        what_if=tuple(what_if or ()),
        beside=beside,
        fitted=tuple(fitted or ()),
    )
    if list_tests:
        listing.tests(options, as_json=as_json)
    else:
        reviewing.review(options, as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  drivebay check-trim ./disk.img
  drivebay check-trim /dev/sdX --destroy-data SERIAL --json"""
)
def check_trim(
    drive: Annotated[
        str, typer.Argument(metavar="DRIVE", show_default=False, help="A file or block device.")
    ],
    destroy_data: Annotated[
        str | None,
        typer.Option(
            metavar="SERIAL",
            show_default=False,
            help="For a block device: its serial number, typed, as consent to lose its data.",
        ),
    ] = None,
    overwrite_signature: Annotated[
        bool,
        typer.Option(
            "--overwrite-signature", help="Even if a partition table or file system is on it."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """See whether TRIM works on a real drive.

    Writes a known pattern, discards a part of it, and reads raw what is there: old data, zeros or
    something else, the same each time or not, and whether that is what the drive claims. Exit code
    1 if old data is left, a neighbour was lost, or the drive does not do what it claims.
    """
    from drivebay.cli import trimming

    trimming.check_trim(drive, destroy_data, overwrite_signature, as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  drivebay report drivebay-results/sm951-ahci-512-anandtech-2015-1
  drivebay report drivebay-results/* --out bench          the Bench: choose, sort, compare
  drivebay report DIR DIR --out both.html                 side by side in one file
  drivebay report DIR --png pictures                      every chart as PNG, SVG and CSV"""
)
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", show_default=False, help="Result folders of reviews."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE_OR_SITE",
            show_default=False,
            help="The page to write, if it ends in .html; else a folder for the Bench, a site over "
            "all these reviews. [default: DIR/report.html; drivebay-report.html for several]",
        ),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            "--png",
            metavar="FOLDER",
            show_default=False,
            help="Write every chart there as PNG and SVG, and its data as CSV.",
        ),
    ] = None,
) -> None:
    """Make one review's report, or the Bench of many.

    Both work offline, opened as files.
    """
    from drivebay.cli import reporting

    if png is not None:
        for path in reporting.pictures(folders, png):
            typer.echo(path)
    if png is None or out is not None:
        typer.echo(reporting.report(folders, out))


@app.command(
    epilog="""\b
Examples:
  drivebay explain drivebay-results/NAME random-read
  drivebay explain DIR random-read --against OTHER_DIR --out page.html
  drivebay explain DIR thermal-write --json"""
)
def explain(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", show_default=False, help="A review's result folder.")
    ],
    test: Annotated[
        str,
        typer.Argument(
            metavar="TEST",
            show_default=False,
            autocompletion=complete.tests_of_result,
            help="A test of it: random-read, ...",
        ),
    ],
    against: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default=False, help="Another result, side by side."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Write it as a page with charts."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Explain where the time of a test went, stage by stage.

    Only a virtual drive can be seen into. The report has the same charts under each test.
    """
    from drivebay.cli import explaining

    explaining.explain(folder, test, against=against, as_json=as_json, out=out)


@app.command(
    epilog="""\b
Examples:
  drivebay validate                            every published row, some minutes
  drivebay validate xp941-512                  the rows about one drive
  drivebay validate --row S061 --row S064      these rows
  drivebay validate --json > validation.json"""
)
def validate(
    drives: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DRIVE...]",
            show_default=False,
            autocompletion=complete.drives,
            help="Only rows about these drives. [default: all]",
        ),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option("--row", metavar="ID", show_default=False, help="Only this row; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Compare what was published about the catalog's drives with what comes out here.

    Every row of published/figures.csv, each with its error and whether it is within its bound:
    5 % for printed figures, 10 % for rounded ones and ratios; bounds and shapes must hold. Exit
    code 1 if a row is not.
    """
    from drivebay.cli import validating

    validating.validate(drives or [], rows or [], as_json=as_json)


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


@app.command(
    epilog="""\b
Examples:
  drivebay doctor
  drivebay doctor --json"""
)
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """See what this machine has of what drivebay can use, and how to get the rest.

    Nothing is changed. Exit code 3 if something is missing that every use needs.
    """
    from drivebay.cli import doctor as showing

    showing.examine(as_json=as_json)
