"""From what a user gives to what is run and aimed at: a result folder, or published rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions.profiles import Profile
from drivebay.lab.calibrate.folder import of_folder
from drivebay.lab.calibrate.goals import Goal
from drivebay.lab.calibrate.rows import of_rows
from drivebay.lab.validate import load_plan


def goal(
    given: Path | str | Sequence[str],
    base: Profile,
    *,
    only: Sequence[str] = (),
    hold: Sequence[str] = (),
    seed: int = 1,
) -> Goal:
    """What to run and aim at, from a result folder or published rows.

    Parameters
    ----------
    given : a result folder; or ids of published rows, "S058,S060", or a list of them; or the name
        of a drive of the catalog, for all rows about it.
    only, hold : tests of the folder (or rows) that are fitted alone, and that are kept out of the
        fit to be predicted.

    Raises
    ------
    UserError
        If it is neither, or has no figure to fit to.
    """
    if isinstance(given, Sequence) and not isinstance(given, str):
        return of_rows(list(given), base, only, hold)
    if isinstance(given, str) and not Path(given).exists():
        if given in catalog.names():
            about = [row.published.id for row in load_plan().of_drives([given]).rows]
            return of_rows(about, base, only, hold, lenient=True)
        if all(_is_row_id(part) for part in given.split(",")):
            return of_rows(given.split(","), base, only, hold)
        raise UserError(
            f"'{given}' is neither a result folder nor published rows",
            f"make one: drivebay review DRIVE --out {given}; or name rows: S058,S060",
        )
    return of_folder(Path(given), base, only, hold, seed)


def _is_row_id(text: str) -> bool:
    return text[:1] == "S" and text[1:].isdigit()
