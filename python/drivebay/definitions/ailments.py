"""Sick drives by name, from ailments/*.toml: sections of a profile that are laid over a drive's.

An ailment has its causes as profile keys, each with a source, so that it acts wherever the drive
runs, and its log pages follow from the model. `aged:80%` is one without a file: wear that the drive
begins with. This room must not know how a drive runs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivebay.common.errors import UserError
from drivebay.definitions.families import Catalog, lay_over

CATALOG = Catalog("ailments", "ailment", "drivebay drives --ailments", "slow-die")
AGED = "aged:80%"
"""The one that takes a value, as an example of how it is written."""


@dataclass(frozen=True)
class Ailment:
    """What ails a drive.

    `title` in a few words; `seen`: what hosts see; `smart`: what the drive's logs say of it;
    `sections` of a profile.
    """

    name: str
    title: str
    seen: str
    smart: str
    sections: Mapping[str, Any]

    def lay_over(self, raw: dict[str, Any]) -> None:
        """Makes the drive of this profile sick; its title says so."""
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
    """An ailment by its name, or of a user's file (a path ending in .toml). Raises UserError if
    there is no such ailment, or the file is none; EnvironmentProblem if the file cannot be read.

    >>> load("hot").sections["thermal"]["ambient_c"]["value"]
    60.0
    """
    sections = CATALOG.load(name)
    words = sections.pop("ailment", {})
    if not (isinstance(words, dict) and words.keys() == {"title", "seen", "smart"} and sections):
        raise UserError(
            f"ailment {name} must have [ailment] with title, seen and smart, and sections of a "
            "profile",
            "compare with one of the catalog, for example ailments/slow-die.toml",
        )
    return Ailment(name, **{key: str(text) for key, text in words.items()}, sections=sections)
