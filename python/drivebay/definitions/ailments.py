"""Faulty drives by name, from ailments/*.toml: profile sections that are laid over a drive's.

An ailment describes its causes as profile keys, each with a source, so it takes effect wherever the
drive runs, and the log pages follow from the model. `aged:80%` has no file: it is wear that the
drive begins with. This package must not know how a drive runs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivebay.common.errors import UserError
from drivebay.definitions.families import Catalog, lay_over

CATALOG = Catalog("ailments", "ailment", "drivebay drives --ailments", "slow-die")
# Example of the only ailment with a value.
AGED = "aged:80%"


@dataclass(frozen=True)
class Ailment:
    """One fault of a drive.

    `title`: a few words; `seen`: the symptoms at the host; `smart`: the contents of the drive's
    logs; `sections`: sections of a profile.
    """

    name: str
    title: str
    seen: str
    smart: str
    sections: Mapping[str, Any]

    def lay_over(self, raw: dict[str, Any]) -> None:
        """Adds the fault to a drive's profile and to its title."""
        lay_over(raw, copy.deepcopy(dict(self.sections)))
        raw["drive"]["title"] += f", sick: {self.title}"


def names() -> tuple[str, ...]:
    """Names of the ailments, sorted.

    >>> names()
    ('dying-flash', 'hot', 'link-flaps', 'map-cache-thrash', 'read-only-soon', 'slow-die', \
'stalls-every-minute')
    """
    return CATALOG.names()


def load(name: str) -> Ailment:
    """Loads an ailment by its name, or from a user's file (a path ending in .toml). Raises
    UserError if there is no such ailment, or the file does not describe one; EnvironmentProblem
    if the file cannot be read.

    >>> load("hot").sections["thermal"]["ambient_c"]["value"]
    60.0
    """
    sections = CATALOG.load(name)
    texts = sections.pop("ailment", {})
    if not (isinstance(texts, dict) and texts.keys() == {"title", "seen", "smart"} and sections):
        raise UserError(
            f"ailment {name} must have [ailment] with title, seen and smart, and sections of a "
            "profile",
            "compare with one of the catalog, for example ailments/slow-die.toml",
        )
    return Ailment(name, **{key: str(text) for key, text in texts.items()}, sections=sections)
