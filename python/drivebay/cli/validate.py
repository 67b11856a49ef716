"""`drivebay validate`: published figures beside reproduced ones."""

from __future__ import annotations

from typing import Annotated

import typer

from drivebay.cli import complete, options
from drivebay.cli.options import argument, option
from drivebay.cli.output import print_json, table
from drivebay.common.errors import EXIT_CHECK_FAILED

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay validate                            all rows, some minutes
  drivebay validate xp941-512                  the rows about one drive
  drivebay validate --row S061 --row S064      these rows
  drivebay validate --json > validation.json""",
)
def validate(
    drives: Annotated[
        list[str] | None,
        argument(
            "DRIVE...",
            "Only rows about these drives. [default: all]",
            autocompletion=complete.drives,
        ),
    ] = None,
    rows: Annotated[
        list[str] | None,
        option("ID", "Only this row; repeatable.", "--row"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compare published figures with reproduced ones.

    Each row of published/figures.csv is printed with its error and whether it is within its
    bound: 5 % for printed figures, 10 % for rounded ones and ratios; published bounds and shapes
    must hold. Exit code 1 if a row is not within its bound.
    """
    from drivebay.cli.progress import status
    from drivebay.lab.validate import judge, load_plan, run_all
    from drivebay.lab.validate import table as tables

    plan = load_plan().of_drives(drives or []).only(rows or [])
    with status() as show:
        runs = run_all(
            plan,
            progress=lambda run, done, count: show(
                f"{done} of {count} runs: {run.test} on {run.drive}"
            ),
        )
    found = judge(plan, runs)
    if as_json:
        print_json(tables.as_json(found))
    else:
        head = ("row", "drive", "test", "figure", "published", "reproduced", "error", "")
        table(head, tables.lines(found))
        median = found.median_abs_error_pct
        error = "" if median is None else f", median error {median:.1f} %"
        print(f"\n{found.ok} of {len(found.verdicts)} rows within their bounds{error}; "
              f"{len(found.not_covered)} rows without a figure in the model")  # fmt: skip
    if found.ok < len(found.verdicts):
        raise typer.Exit(EXIT_CHECK_FAILED)
