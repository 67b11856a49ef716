"""`drivebay judge`: looks for flaws in benchmarks' results."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from drivebay.cli import options
from drivebay.cli.options import argument
from drivebay.cli.output import print_json, show, show_wrapped
from drivebay.common.documents import printable
from drivebay.common.errors import EXIT_CHECK_FAILED


def judge(files: list[Path] = argument(), as_json: options.Json = False) -> None:
    """Look for flaws in results of fio that physics shows.

    Eight rules look at each file: preparation, page cache, SLC cache, throttling, span,
    percentiles, queue depth, and limits of host and link. Each verdict has the figure that it
    rests on, and flaws have a run that settles them. Logs in the file's folder are used. Exit code
    1 if a flaw is shown.

    Examples:
      drivebay judge result.json
      drivebay judge old/*.json forum.txt --json

    Parameters
    ----------
    files : FILE...
        fio's JSON or text; - for standard input.
    """
    from drivebay.lab.imports import opened
    from drivebay.lab.judge import FLAWS
    from drivebay.lab.judge import judge as judge_files

    rows = []
    with opened(files) as paths:
        for name, (_, judgements) in zip(files, judge_files(paths), strict=True):
            rows += [{"file": printable(str(name)), **asdict(entry)} for entry in judgements]
            if as_json:
                continue
            show(str(name))
            for entry in judgements:
                show(f"  {entry.title}: {entry.verdict}")
                show_wrapped(entry.reason, f"    job {printable(entry.job)}: ")
                if entry.verdict in FLAWS:
                    show_wrapped(entry.settle, "    to settle it: ")
    if as_json:
        print_json(rows)
    if any(row["verdict"] == "shown" for row in rows):
        raise typer.Exit(EXIT_CHECK_FAILED)
