"""The verb `drivebay calibrate`, its options and what it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from drivebay.lab.calibrate import Calibration

EPILOG = """\b
Examples:
  drivebay review /dev/sdX --destroy-data SERIAL --out mine
  drivebay calibrate mine --from sm951-ahci-512 --out twin.toml \\
      --fit nand.read_us --fit controller --hold mixed-random
  drivebay review twin.toml                         the twin, like any drive
  drivebay calibrate S088,S111 --from sm951-ahci-512 --out fit.toml --fit nand.read_us
  drivebay calibrate mine --from twin.toml --out closer.toml --fit quantum_us=60..90 --resume

\b
Exit codes: 0 every figure came within its bound (3 %, held-out ones 10 %; published ones as in
drivebay validate); 1 one did not, the profile is written all the same; 2 wrong usage; 130
interrupted, --resume goes on. More in docs/concepts/calibration.md."""


def calibrate(
    given: Annotated[
        str,
        typer.Argument(
            metavar="DIR_OR_FIGURES",
            show_default=False,
            help="A result folder, of a real or a virtual drive; or published rows, S058,S060; or "
            "a drive of the catalog, for all rows about it.",
        ),
    ],
    base: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PROFILE",
            show_default=False,
            help="Where to begin: a catalog name, or a profile's path ending in .toml.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="PROFILE.toml",
            show_default=False,
            help="The profile to write; beside it lies the fit's journal.",
        ),
    ],
    fit: Annotated[
        list[str],
        typer.Option(
            metavar="PARAM",
            show_default=False,
            help="Fit this value within its range: nand.read_us; a section, for all of its values "
            "that have a range; nand.read_us=55..70 for a range within that; repeatable.",
        ),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEST",
            show_default=False,
            help="Fit to this test (or row) alone; repeatable. [default: all but traces]",
        ),
    ] = None,
    hold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEST",
            show_default=False,
            help="Keep this test (or row) out of the fit, and predict it; repeatable.",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default=False,
            help="Most drives that the search tries; derivatives take more. "
            "[default: 25 per parameter]",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default=False,
            help="Drives to try side by side; changes no figure. [default: one per processor]",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of the search and of the virtual drives.")
    ] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the journal beside --out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> int:
    """Fit a virtual drive to a real one's review, or to published figures.

    Says what the figures cannot tell: values that only move together, and values that stay open.
    """
    from drivebay.common.errors import EXIT_CHECK_FAILED, EXIT_DONE
    from drivebay.lab import calibrate as room
    from drivebay.lab.calibrate import table

    found = room.fit(
        given,
        base=base,
        parameters=fit,
        only=only or (),
        hold=hold or (),
        out=out,
        trials=trials,
        jobs=jobs,
        seed=seed,
        resume=resume,
        told=_tell,
    )
    _tell("", 0)
    for note in found.notes:
        sys.stderr.write(f"note: {note}\n")
    if as_json:
        print(json.dumps(table.as_json(found), indent=1))
    else:
        _show(found)
    return EXIT_DONE if found.recovered and found.predicted else EXIT_CHECK_FAILED


def _show(found: Calibration) -> None:
    from drivebay.cli import show
    from drivebay.lab.calibrate import table

    show.table(table.PARAMETER_HEAD, table.parameter_rows(found), right=(1, 2, 3))
    print()
    show.table(table.FIGURE_HEAD, table.figure_rows(found), right=(2, 3, 4, 5))
    print()
    for sentence in found.knowledge.sentences:
        print(sentence)
    print(f"\n{found.out}, after {found.trials} trials")


def _tell(what: str, count: int) -> None:
    """One line on the terminal that is written over; nothing where stderr is a file."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{what}: {count} drives tried" if what else "\r\033[K")
        sys.stderr.flush()
