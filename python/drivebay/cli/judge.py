"""`drivebay judge`: looks for flaws in benchmarks' results."""

from __future__ import annotations

from pathlib import Path

import typer

from drivebay.cli import options
from drivebay.cli.options import argument
from drivebay.cli.output import print_json, show
from drivebay.common.documents import printable
from drivebay.common.errors import EXIT_CHECK_FAILED

app = options.Verb()
WORDS = {
    "shown": "shown",
    "likely": "likely",
    "unknown": "cannot be told from this file",
    "excluded": "excluded",
}


@app.command(
    epilog="""\b
Examples:
  drivebay judge result.json
  drivebay judge old/*.json forum.txt --json"""
)
def judge(
    files: list[Path] = argument("FILE...", "fio's JSON or text, or a result folder."),
    as_json: options.Json = False,
) -> None:
    """Look for flaws in results of fio that physics shows.

    Eight rules look at each file: preparation, page cache, SLC cache, throttling, span,
    percentiles, queue depth, and limits of host and link. Each verdict has the figure that it
    rests on, and flaws have a run that settles them. Logs in the file's folder are used. Exit code
    1 if a flaw is shown.
    """
    from drivebay.lab.judge import judge as judge_files

    rows, is_shown = [], False
    for path, judgements in judge_files(files):
        is_shown |= any(entry.is_shown for entry in judgements)
        name, lines = printable(str(path)), []
        for entry in judgements:
            rule, found = entry.rule, entry.finding
            rows.append(
                {
                    "file": name,
                    "job": entry.job,
                    "flaw": rule.name,
                    "verdict": WORDS[found.verdict],
                    "reason": found.reason,
                    "settle": rule.settle,
                }
            )
            lines += [
                f"  {rule.title}: {WORDS[found.verdict]}",
                f"    job {entry.job}: {printable(found.reason)}",
            ]
            if found.verdict in ("shown", "likely"):
                lines.append(f"    to settle it: {rule.settle}")
        if not as_json:
            show(name, *lines)
    if as_json:
        print_json(rows)
    if is_shown:
        raise typer.Exit(EXIT_CHECK_FAILED)
