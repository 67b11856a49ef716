"""`drivebay gate`: compares the I/O cost of two versions of a program, without noise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

from drivebay.cli import complete, options
from drivebay.cli.options import argument, option
from drivebay.cli.output import print_json, say, show
from drivebay.common import units
from drivebay.common.errors import EXIT_CHECK_FAILED, EXIT_DONE

app = options.Verb(
    help="Compare the I/O cost of two versions of a program, without noise.",
    epilog="""\b
Examples:
  drivebay gate record --out base -- ./bench-old
  drivebay gate record --out new -- ./bench-new
  drivebay gate compare base new""",
)

DRIVE = "7450-pro-960"
Drive = Annotated[
    str,
    option("DRIVE", f"{options.CATALOG_NAME}.", "--drive", autocompletion=complete.drives),
]


@app.command()
def record(
    command: list[str] = argument(),
    out: Path = option(),
    runs: int = option(min=1, default=7),
    size: str = option(default="8GiB"),
    fs: Literal["ext4", "xfs", "btrfs", "none"] = option(default="ext4"),
    setup: str | None = option(),
) -> None:
    """Record the requests of a program on a served virtual drive, without data.

    Examples:
      drivebay gate record --out base -- sh -c '"$OLDPWD"/bench --dir .'
      drivebay gate record --out base --setup 'pgbench -i' -- pgbench -t 1000
      drivebay gate record --out base --fs none -- ./bench {}

    The command runs in the root of a new file system on a virtual drive (needs
    root); $OLDPWD is the folder that you called from. With --fs none, {} is a
    file with the drive's data (by nbdfuse, one request at a time) and
    $DRIVEBAY_NBD its NBD address. A command that prepares something first can
    leave that out: drivebay ctl "$DRIVEBAY_CONTROL" mark start
    The exit code is that of the first run that fails, which ends the recording.

    Parameters
    ----------
    command : -- COMMAND...
        Program to record.
    out : FOLDER
        New folder for the recordings.
    runs : N
        Number of recordings.
    size : SIZE
        Size of the drive.
    fs :
        File system in which the command runs.
    setup : COMMAND
        Run this in the file system first, unrecorded.
    """
    from drivebay.gate.record import record as run

    code = run(
        out,
        command,
        runs=runs,
        size_bytes=units.parse_bytes(size, option="--size"),
        file_system=None if fs == "none" else fs,
        setup=setup,
    )
    say(f"recorded: {out}" if code == 0 else f"the command failed with exit code {code}")
    raise SystemExit(code if code >= 0 else 128 - code)  # a shell's exit code for a signal


@app.command()
def time(
    place: Path = argument(),
    drive: Drive = DRIVE,
    changes: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Run recorded requests on a virtual drive, in its time.

    Each request waits for those that had completed before it in the recording. The drive is full
    at the start. The same recording gives the same figures on any machine.

    Examples:
      drivebay gate time base
      drivebay gate time base/1.requests --drive sm951-nvme-256 --json

    Parameters
    ----------
    place : RECORDING|FOLDER
        Recording, or folder of recordings.
    """
    from statistics import median

    (done,) = _timed((place,), drive, changes)
    if as_json:
        print_json(done)
        return
    show(f"| {drive}, {len(done)} recordings | median | lowest | highest |", "|---|--:|--:|--:|")
    for name in dict.fromkeys(name for figures in done for name in figures):
        values = [figures.get(name, 0) for figures in done]
        cells = (_figure(name, value) for value in (median(values), min(values), max(values)))
        show(f"| {name} | {' | '.join(cells)} |")


def _timed(
    places: tuple[Path, ...], drive: str, changes: list[str] | None
) -> list[list[dict[str, float]]]:
    from itertools import chain, islice

    from drivebay.cli.target import modified_profile
    from drivebay.gate.timing import recordings, timed

    sets = [recordings(place) for place in places]
    done = timed(chain(*sets), modified_profile(drive, changes))
    return [list(islice(done, len(files))) for files in sets]


def _figure(name: str, value: float) -> str:
    from drivebay.gate.timing import FIGURES

    unit = FIGURES.get(name, "")
    if math.isnan(value):
        return "-"
    return units.si_bytes(value) if unit == "B" else f"{value:,.6g} {unit}".strip()


@app.command()
def compare(
    base: Path = argument(),
    new: Path = argument(),
    threshold: float = option(min=0, default=1.0),
    drive: Drive = DRIVE,
    set_: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Compare two sets of recordings, and fail if a figure has become worse.

    Examples:
      drivebay gate compare base new
      drivebay gate compare base new --threshold 0.5 --drive sm951-nvme-256
      drivebay gate compare base new >> "$GITHUB_STEP_SUMMARY"

    The output is a Markdown table with medians, the change, its 95 % interval and
    a verdict. Exit code 1: the whole interval of a figure is above the threshold,
    which is at least 5 % for the p99 latency.

    Parameters
    ----------
    base : BASE
        Folder of recordings.
    new : NEW
        Folder of recordings of the changed program.
    threshold : PERCENT
        Largest allowed change.
    """
    from drivebay.gate.compare import changes
    from drivebay.gate.timing import FIGURES

    before, after = _timed((base, new), drive, set_)
    found = changes(before, after, threshold)
    worse = [name for name in FIGURES if name in found and found[name].verdict == "worse"]
    if as_json:
        print_json({name: change._asdict() for name, change in found.items()})
    else:
        show(f"| {drive} | base | new | change | 95 % interval | |", "|---|--:|--:|--:|--:|---|")
        for name, change in found.items():
            interval = f"{change.percent:+.2f} % | {change.low:+.2f} to {change.high:+.2f} %"
            cells = (name, _figure(name, change.base), _figure(name, change.new), interval)
            show(f"| {' | '.join(cells)} | {change.verdict} |")
        show("", f"worse by more than {threshold:g} %: {', '.join(worse) or 'nothing'}")
    raise SystemExit(EXIT_CHECK_FAILED if worse else EXIT_DONE)
