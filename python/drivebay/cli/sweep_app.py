"""The verbs `drivebay sweep` and `drivebay worker`, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SWEEP_EPILOG = """\b
Examples:
  drivebay sweep spare.toml                                 on all processors of this machine
  drivebay sweep spare.toml --out sweeps/spare --resume     go on after an interruption
  drivebay sweep spare.toml --scheduler tcp://10.0.0.1:8786 --out s3://lab/spare
  drivebay sweep fleet.toml --scheduler tcp://10.0.0.1:8786 real drives on many hosts

\b
The result is a folder (or what the URL names): manifest.json, a Parquet file for each run in
parts/, and report.html with main effects and interactions. What ended is kept whatever happens;
exit code 1: some runs failed. How to write SPEC, and how far it scales: docs/concepts/sweeps.md."""

WORKER_EPILOG = """\b
Examples:
  drivebay worker tcp://10.0.0.1:8786                        all processors, all free drives
  drivebay worker tcp://10.0.0.1:8786 --no-drives            runs of virtual drives only
  drivebay worker tcp://10.0.0.1:8786 --jobs 0 --drive S1ABC --file /mnt/x/disk.img

\b
Whoever reaches the scheduler can run programs as the user of its workers: keep it on a network of
its own, or use TLS as Dask's documentation says. A device is tested only if the sweep's file has
its serial number typed as consent, and nothing is found on it that forbids it."""


def sweep(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC.toml", show_default=False, help="What is to be run.")
    ],
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            show_default=False,
            help="Run on a Dask cluster. [default: processes on this machine]",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR_OR_URL",
            show_default=False,
            help="Where the results go: a folder, or anything that fsspec opens. "
            "[default: drivebay-sweeps/NAME]",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1024,
            show_default=False,
            help="Processes on this machine; changes no figure. [default: one per processor]",
        ),
    ] = None,
    retries: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=20, help="Begin a run anew so often if it is lost."),
    ] = 2,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what is there already.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the effects as JSON at the end.")
    ] = False,
) -> None:
    """Run a suite over many drives, parameters and seeds, and see what matters."""
    from drivebay.cli import sweeping

    sweeping.sweep(
        spec,
        scheduler=scheduler,
        out=out,
        jobs=jobs,
        retries=retries,
        resume=resume,
        as_json=as_json,
    )


def worker(
    address: Annotated[
        str,
        typer.Argument(metavar="ADDRESS", show_default=False, help="Of the Dask scheduler."),
    ],
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=1024,
            show_default=False,
            help="Runs of virtual drives at once. [default: one per processor]",
        ),
    ] = None,
    drive: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SERIAL",
            show_default=False,
            help="Announce only this real drive; repeatable. [default: all that are free]",
        ),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH", show_default=False, help="Announce this file as a drive; repeatable."
        ),
    ] = None,
    no_drives: Annotated[
        bool, typer.Option("--no-drives", help="Announce no block device.")
    ] = False,
) -> None:
    """Serve sweeps with this host's processors and drives, until Ctrl-C."""
    from drivebay.cli import sweeping

    sweeping.worker(address, jobs=jobs, only=[] if no_drives else drive, files=file or [])
