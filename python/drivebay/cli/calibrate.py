"""`drivebay calibrate`: fits a profile's parameters to a review or to published figures."""

from __future__ import annotations

from pathlib import Path

import typer

from drivebay.cli import options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import print_json, say, table
from drivebay.common.errors import EXIT_CHECK_FAILED

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay review /dev/sdX --destroy-data SERIAL --out mine
  drivebay calibrate mine --from sm951-ahci-512 --out twin.toml \\
      --fit nand.read_us --fit controller --hold-out mixed-random
  drivebay review twin.toml                   the calibrated virtual drive
  drivebay calibrate S085,S111 --from sm951-ahci-512 --out fit.toml \\
      --fit nand.read_us
  drivebay calibrate mine --from twin.toml --out closer.toml \\
      --fit nand.read_us=60..90 --resume

\b
Exit codes: 0 every figure is within its bound (3 %, held-out ones 10 %;
published ones as in drivebay validate); 1 one is not, the profile is written
all the same; 2 wrong usage; 130 interrupted, --resume goes on. See
docs/concepts/calibration.md.""",
)
def calibrate(
    data: str = argument(
        "DIR_OR_FIGURES",
        "A result folder, of a real or a virtual drive; or published rows, S058,S060; or "
        "a drive of the catalog, for all rows about it.",
    ),
    base: str = option(
        "PROFILE", "Initial profile: a catalog name or a path ending in .toml.", "--from"
    ),
    out: Path = option(
        "PROFILE.toml", "Profile to write; the journal of evaluations is written beside it."
    ),
    fit: list[str] = option(
        "PARAM",
        "Parameter to fit: nand.read_us; a table, for all of its values that have a "
        "range; nand.read_us=55..70 for a range within that; repeatable.",
    ),
    only: list[str] | None = option(
        "TEST", "Fit only to this test or row; repeatable. [default: all but traces]"
    ),
    hold_out: list[str] | None = option(
        "TEST", "Hold this test or row out of the fit, and predict it; repeatable."
    ),
    evaluations: int | None = option(
        "N", "Most evaluations of the search; derivatives take more. [default: 25 per parameter]"
    ),
    jobs: options.Jobs = None,
    seed: options.Seed = 1,
    resume: bool = flag("--resume", "Resume from the journal beside --out."),
    as_json: options.Json = False,
) -> None:
    """Fit a profile's parameters to a review or published figures.

    Also prints which parameters the data cannot identify: those that only trade off against each
    other, and those that stay open.
    """
    from drivebay.cli.progress import status
    from drivebay.lab import fit as calibration
    from drivebay.lab.fit import outcome

    with status() as show:
        found = calibration.fit(
            data,
            base=base,
            parameters=fit,
            only=only or (),
            hold_out=hold_out or (),
            out=out,
            evaluations=evaluations,
            jobs=jobs,
            seed=seed,
            resume=resume,
            progress=lambda what, count: show(f"{what}: {count} evaluations"),
        )
    for note in found.notes:
        say(f"note: {note}")
    if as_json:
        print_json(outcome.as_json(found))
    else:
        table(outcome.PARAMETER_HEAD, outcome.parameter_rows(found), right=(1, 2, 3))
        print()
        table(outcome.FIGURE_HEAD, outcome.figure_rows(found), right=(2, 3, 4, 5))
        print("", *found.identifiability.sentences, sep="\n")
        print(f"\n{found.out}, after {found.evaluations} evaluations")
    if not (found.recovered and found.predicted):
        raise typer.Exit(EXIT_CHECK_FAILED)
