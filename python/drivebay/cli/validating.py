"""`drivebay validate`: runs what the published rows ask for, and prints the table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from drivebay.cli import show
from drivebay.common.errors import EXIT_CHECK_FAILED

if TYPE_CHECKING:
    from drivebay.lab.validate.plan import Run


def validate(drives: Sequence[str], rows: Sequence[str], *, as_json: bool) -> None:
    """The rows about these drives, or these rows; exits with 1 if one is out of its bounds."""
    from drivebay.lab.validate import judge, load_plan, run_all, table

    plan = load_plan().of_drives(drives).only(rows)
    found = judge(plan, run_all(plan, told=_tell))
    if as_json:
        print(json.dumps(table.as_json(found), indent=1))
    else:
        head = ("row", "drive", "test", "figure", "published", "reproduced", "error", "")
        show.table(head, table.lines(found))
        median = found.median_abs_error_pct
        error = "" if median is None else f", median error {median:.1f} %"
        print(f"\n{found.ok} of {len(found.verdicts)} rows within their bounds{error}; "
              f"{len(found.not_covered)} that no drive model can answer")  # fmt: skip
    if found.ok < len(found.verdicts):
        raise typer.Exit(EXIT_CHECK_FAILED)


def _tell(run: Run, done: int, count: int) -> None:
    """One line on the terminal that is written over; nothing where stderr is a file."""
    if sys.stderr.isatty():
        end = "\n" if done == count else ""
        sys.stderr.write(f"\r\033[K{done} of {count} runs: {run.test} on {run.drive}{end}")
        sys.stderr.flush()
