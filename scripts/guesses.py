"""Lists what each guess of today's drives moves: `python scripts/guesses.py [--all]`.

For every free parameter that is a guess, in the profiles of the drives of fidelity-modern.json.xz:
the row that it moves most, if it goes from one end of its range to the other, divided by the width
of the row's 90 % interval. Below 1 no published row can tell the guess from another value of its
range, so a default of its class serves as well. Sources: stored derivatives (`make fidelity`) and
intervals. Leaves out: guesses that are fixed; rows of kinds that have no interval; what two guesses
do together.
"""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivebay.analysis import fidelity
from drivebay.common import data
from drivebay.definitions import profiles
from drivebay.lab.fit.linear import EDGE


@dataclass(frozen=True)
class Guess:
    """A guess of some drives: `share` is its largest effect on a row, on `row`, by the width of the
    row's interval. `own`: drives whose file has the value; the others have it from a base, a class
    or a host.
    """

    name: str
    drives: tuple[str, ...]
    share: float
    row: str
    own: tuple[str, ...]


def source_of(raw: Mapping[str, Any], name: str) -> str:
    """Source of a value of a profile by its dotted name; "" if it has none."""
    part: Any = raw
    for key in name.split("."):
        part = part.get(key, {}) if isinstance(part, dict) else {}
    return str(part.get("source", "")) if isinstance(part, dict) else ""


def guesses() -> list[Guess]:
    """The guesses of today's drives, those that move rows most first."""
    stored = fidelity.kept_modern()
    widths = {}
    for row in fidelity.recorded()["rows"]:
        ends, about = row.get("interval"), stored["rows"].get(row["id"])
        if ends and about and ends[0] > 0:
            wide = math.log(ends[1] / ends[0]) if about["log"] else ends[1] - ends[0]
            widths[row["id"]] = wide
    raw = {name: profiles.load(name).raw for name in stored["drives"]}
    folder = data.path("drives")
    files = {name: tomllib.loads((folder / f"{name}.toml").read_text()) for name in raw}
    found = []
    for at, parameter in enumerate(stored["parameters"]):
        drives = sorted({fidelity.profile_of(one) for one in parameter["drives"]} & raw.keys())
        sources = [source_of(raw[drive], parameter["name"]) for drive in drives]
        if not sources or not all(source.startswith("guess") for source in sources):
            continue
        effects = [
            (2 * EDGE * abs(row.get(str(at), 0.0)) / widths[row_id], row_id)
            for row_id, row in stored["derivatives"].items()
            if row_id in widths
        ]
        share, row_id = max(effects)
        own = [drive for drive in drives if source_of(files[drive], parameter["name"])]
        row_id = row_id if share else ""
        found.append(Guess(parameter["name"], tuple(drives), share, row_id, tuple(own)))
    return sorted(found, key=lambda guess: (-guess.share, guess.name))


def main() -> None:
    """Prints the counts, and the guesses that move a row by more than its interval, or all."""
    found = guesses()
    more = [guess for guess in found if guess.share > 1]
    none = [guess for guess in found if not guess.share]
    print(f"{len(found)} guesses: {len(more)} move a row by more than its interval,")
    print(f"{len(found) - len(more)} do not, of which {len(none)} move no row at all")
    less = [guess for guess in found if guess.share <= 1]
    print(f"values in files of drives: {sum(len(guess.own) for guess in more)} of the former,")
    print(f"{sum(len(guess.own) for guess in less)} of the latter")
    for guess in found if "--all" in sys.argv else more:
        names = guess.drives[0] + (f" and {len(guess.drives) - 1} more" if guess.drives[1:] else "")
        print(f"{guess.share:6.2f}  {guess.row:6s} {guess.name}  ({names})")


if __name__ == "__main__":
    main()
