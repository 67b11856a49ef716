"""`drivebay calibrate`: fits a profile's parameters to a review or to published figures."""

from __future__ import annotations

from pathlib import Path

import typer

from drivebay.cli import options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import print_json, say_notes, table
from drivebay.common.errors import EXIT_CHECK_FAILED


def calibrate(
    data: str = argument(),
    base: str = option("--from"),
    out: Path = option(),
    fit: list[str] = option(),
    only: list[str] | None = option(),
    hold_out: list[str] | None = option(),
    evaluations: int | None = option(),
    jobs: options.Jobs = None,
    seed: options.Seed = 1,
    resume: bool = flag("--resume"),
    as_json: options.Json = False,
) -> None:
    """Fit a profile's parameters to a review or published figures.

    It also lists the parameters that the data cannot identify: some only trade off against each
    other, others have no visible effect.

    Examples:
      drivebay review /dev/sdX --destroy-data SERIAL --out mine
      drivebay calibrate mine --from sm951-ahci-512 --out twin.toml \\
          --fit nand.read_us --fit controller --hold-out mixed-random
      drivebay review twin.toml                   the calibrated virtual drive
      drivebay calibrate S085,S111 --from sm951-ahci-512 --out fit.toml \\
          --fit nand.read_us
      drivebay calibrate mine --from twin.toml --out closer.toml \\
          --fit nand.read_us=60..90 --resume

    Exit codes: 0 every figure is within its bound (3 %; held-out figures 10 %;
    published figures as in drivebay validate); 1 a figure is out of its bound
    (the profile is written anyway); 2 wrong usage; 130 interrupted (continue with
    --resume). See docs/concepts/calibration.md.

    Parameters
    ----------
    data : DIR_OR_FIGURES
        Figures to fit to: a result folder of a real or virtual drive, published rows
        (S058,S060), or a catalog drive (all published rows about it).
    base : PROFILE
        Initial profile: a catalog name or a path that ends in .toml.
    out : PROFILE.toml
        Profile to write, along with a journal of all evaluations.
    fit : PARAM
        Parameter to fit: a value (nand.read_us), a table (all its values that have a
        range), or a value with a narrower range (nand.read_us=55..70). Repeatable.
    only : TEST
        Fit only to this test or row. Repeatable. [default: all but traces]
    hold_out : TEST
        Leave this test or row out of the fit, and predict it. Repeatable.
    evaluations : N
        Limit of search evaluations; derivatives are extra. [default: 25 per parameter]
    resume :
        Resume from the journal of --out.
    """
    from drivebay.cli.progress import status
    from drivebay.lab import fit as calibration
    from drivebay.lab.fit import outcome

    with status() as show:
        calibrated = calibration.fit(
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
    say_notes(calibrated.notes)
    if as_json:
        print_json(outcome.as_json(calibrated))
    else:
        table(outcome.PARAMETER_HEAD, outcome.parameter_rows(calibrated), right=(1, 2, 3))
        print()
        table(outcome.FIGURE_HEAD, outcome.figure_rows(calibrated), right=(2, 3, 4, 5))
        print("", *calibrated.identifiability.sentences, sep="\n")
        print(f"\n{calibrated.out}, after {calibrated.evaluations} evaluations")
    if not (calibrated.recovered and calibrated.predicted):
        raise typer.Exit(EXIT_CHECK_FAILED)
