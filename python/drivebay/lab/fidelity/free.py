"""The free parameters of a drive in its host, and their plausible ranges.

A number of the profile with a range is free within it. One that was read off a publication of
published/figures.csv is free over a factor of four, whatever its range says: all that is known of
it is the row, which must not count twice. A guess without a range is free over a factor of four,
too. What was drawn from elsewhere (a standard, a maker of processors) and has no range is fixed, as
is what the drive is built of (`BUILD`). Drives that have a value from the same profile or host
share the parameter.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drivebay.analysis import published
from drivebay.common.errors import UserError
from drivebay.definitions.profiles import Profile, from_resolved
from drivebay.lab.calibrate.parameters import Parameter, leaf_at, mean, numbers

BUILD = frozenset(
    {
        "blocks_per_plane",
        "channels",
        "commands_batch",
        "commands_max",
        "dies_per_channel",
        "generation",
        "lanes",
        "page_kib",
        "pages_per_block",
        "payload_bytes",
        "planes",
        "processors",
        "queue_depth_max",
        "queues_max",
        "read_completion_bytes",
        "read_request_bytes",
        "register_reads",
        "register_writes",
        "reserve_superblocks",
        "streams",
    }
)
"""Keys that say what the drive or host is built of: counts, and sizes of the standard's choice."""
LEFT_OUT = ("drive", "identify", "health", "variants")
"""Sections without influence on any published row."""
OPEN_FACTOR = 2.0
"""Up and down, for a value of which nothing but a published row, or nothing at all, is known."""


@dataclass(frozen=True)
class Free:
    """A free parameter: `path` in the profiles that have it, where it starts and its range.

    `told`: read off a publication, not guessed. `key` tells parameters of the same path apart.
    """

    path: str
    key: str
    parameter: Parameter
    told: bool
    source: str

    @property
    def section(self) -> str:
        """The part of the profile it belongs to; a host's by protocol, all that is about heat in
        one."""
        parts = self.path.split(".")
        if parts[0] in ("thermal", "energy", "power"):
            return "heat"
        return ".".join(parts[:2]) if parts[0] == "host" else parts[0]

    @property
    def start(self) -> float:
        """Where it stands, 0 to 1 over its range."""
        return self.parameter.coordinate(self.parameter.start)


@functools.cache
def _publication() -> re.Pattern[str]:
    """Sources that published/figures.csv holds: reviews by their short names, makers' ratings."""
    names = {re.sub(r",.*| p\d+,.*", "", row.source) for row in published.figures().values()}
    known = "|".join(re.escape(name) for name in sorted(names))
    return re.compile(rf"{known}|\bmaker|specification|\brating", re.IGNORECASE)


def free_of(profile: Profile) -> dict[str, Free]:
    """The free parameters of a drive, by key."""
    found = {}
    for path, leaf in numbers(profile.raw):
        one = _free(path, leaf)
        if one is not None:
            found[one.key] = one
    return found


def _free(path: str, leaf: Mapping[str, Any]) -> Free | None:
    if path.split(".")[0] in LEFT_OUT or path.rpartition(".")[2] in BUILD:
        return None
    start, source = mean(leaf["value"]), str(leaf["source"])
    guess = source.startswith("guess") or "; guess" in source
    told = not guess and _publication().search(source) is not None
    bounds = leaf.get("range")
    if told or (bounds is None and guess):
        if start <= 0:
            return None
        low, high = start / OPEN_FACTOR, start * OPEN_FACTOR
    elif bounds is not None and bounds[0] < bounds[1]:
        low, high = (float(end) for end in bounds)
    else:
        return None
    key = f"{path} {json.dumps(leaf, sort_keys=True)}"
    return Free(path, key, Parameter(path, start, low, high), told, source)


def moved(profile: Profile, values: Sequence[tuple[Free, float]]) -> Profile:
    """The profile with parameters at other coordinates.

    Raises
    ------
    UserError
        If the model takes no such drive.
    """
    try:
        return _moved(profile, values)
    except UserError:
        whole = [(replace(one, parameter=replace(one.parameter, whole=True)), at)
                 for one, at in values]  # fmt: skip
        return _moved(profile, whole)


def _moved(profile: Profile, values: Sequence[tuple[Free, float]]) -> Profile:
    raw = copy.deepcopy(dict(profile.raw))
    for one, at in values:
        leaf = leaf_at(raw, one.path)
        leaf.pop("range", None)
        value = one.parameter.value(at)
        if isinstance(leaf["value"], list):
            factor = value / mean(leaf["value"])
            leaf["value"] = [part * factor for part in leaf["value"]]
        else:
            integral = one.parameter.whole and isinstance(leaf["value"], int)
            leaf["value"] = int(value) if integral else value
    return from_resolved(raw)
