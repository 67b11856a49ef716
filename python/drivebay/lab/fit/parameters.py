"""What is fitted, or free: values of a profile, each within what is plausible for it.

A parameter is a number of the profile by its dotted name, `nand.read_us`, the section left out
where only one has such a name, as `--set` takes them. Its range is the profile's own, or the one
that the user gives, `nand.read_us=55..70`, which must lie within it. Fits work on coordinates from
0 to 1 over that range, on a log scale where it spans a factor of two or more. A list, such as the
program times of the page types, is fitted as one factor, by its mean.

Free, where published rows are weighed (`free_parameters`), are all numbers with a range. One that
was read off a publication of published/figures.csv is free over a factor of four, whatever its
range says: all that is known of it is the row, which must not count twice. A guess without a range
is free over a factor of four, too. What was drawn from elsewhere (a standard, a maker of
processors) and has no range is fixed, as is what the drive is built of (`BUILD`). Drives that have
a value from the same profile or host share the parameter.
"""

from __future__ import annotations

import copy
import functools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drivebay.analysis import published
from drivebay.common.errors import UserError, did_you_mean
from drivebay.definitions import leaves
from drivebay.definitions.profiles import Profile, from_resolved

LOG_FROM = 2.0
"""A range whose ends differ by this factor or more is searched on a log scale."""
DIGITS = 6
"""Significant digits of a fitted value: finer than any figure can tell."""
WHOLE_MAX = 64
"""So many whole numbers of a range are tried, to learn whether the core takes them all."""


BUILD = frozenset(
    {
        "blocks_per_plane",
        "channels",
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
class Parameter:
    """A value that is fitted.

    `start`, `low` and `high` are in the unit that the name ends with; of a list they are its mean.
    `whole`: only whole numbers are possible. `source` is the profile's, `read_off` if it is a
    publication whose rows are weighed; `key` tells parameters of the same name apart.
    """

    name: str
    start: float
    low: float
    high: float
    whole: bool = False
    read_off: bool = False
    source: str = ""
    key: str = ""

    @property
    def section(self) -> str:
        """The part of the profile it belongs to; a host's by protocol, all that is about heat in
        one."""
        parts = self.name.split(".")
        if parts[0] in ("thermal", "energy", "power"):
            return "heat"
        return ".".join(parts[:2]) if parts[0] == "host" else parts[0]

    @property
    def at(self) -> float:
        """Where it stands, 0 to 1 over its range."""
        return self.coordinate(self.start)

    @property
    def log(self) -> bool:
        """Whether coordinates are logarithmic."""
        return self.low > 0 and self.high / self.low >= LOG_FROM

    def value(self, coordinate: float) -> float:
        """The value at a coordinate from 0 to 1, rounded to what is written.

        >>> Parameter("nand.read_us", 60, 40, 90).value(0.5)
        60.0
        """
        share = min(1.0, max(0.0, coordinate))
        if self.log:
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + (self.high - self.low) * share
        if self.whole:
            return float(round(value))
        return min(self.high, max(self.low, float(f"{value:.{DIGITS}g}")))

    def coordinate(self, value: float) -> float:
        """Where a value lies in the range, 0 to 1."""
        if self.log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def width(self, coordinate: float) -> float:
        """How much the value changes with the coordinate, there: value for a whole range."""
        if self.log:
            return self.value(coordinate) * math.log(self.high / self.low)
        return self.high - self.low

    @property
    def step(self) -> float:
        """The coordinate's step of a finite difference: 2 % of the range, or one whole number."""
        return max(0.02, 1.01 / (self.high - self.low)) if self.whole else 0.02


def select_parameters(profile: Profile, words: Sequence[str]) -> tuple[Parameter, ...]:
    """The parameters that these words name, sorted by name.

    Raises
    ------
    UserError
        If a word names no number of the profile, none with a range, a range outside of the
        profile's own, or the same parameter twice.

    >>> from drivebay.definitions.profiles import load
    >>> select_parameters(load("sm951-ahci-512"), ["read_us", "host_core_us=2..4"])[1].low
    40.0
    """
    if not words:
        raise UserError(
            "nothing to fit: no parameter was named", "--fit nand.read_us --fit controller"
        )
    leaves = dict(numbers(profile.raw))
    found: dict[str, Parameter] = {}
    for word in words:
        name, _, bounds = (part.strip() for part in word.partition("="))
        for path in _paths(profile, leaves, name, bounds=bool(bounds)):
            if path in found:
                raise UserError(f"--fit {word}: {path} is named twice", "name each parameter once")
            found[path] = _parameter(profile, path, leaves[path], bounds)
    return tuple(found[path] for path in sorted(found))


def numbers(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every leaf of the profile that is a number or a list of numbers, by its dotted path."""
    for path, leaf in leaves.every(raw):
        values = leaf["value"] if isinstance(leaf["value"], list) else [leaf["value"]]
        if values and all(type(value) in (int, float) for value in values):
            yield path, leaf


def free_parameters(profile: Profile) -> dict[str, Parameter]:
    """The free parameters of a drive in its host, by name."""
    return {
        path: one for path, leaf in numbers(profile.raw) if (one := _free(path, leaf)) is not None
    }


@functools.cache
def _publication() -> re.Pattern[str]:
    """Sources that published/figures.csv holds: reviews by their short names, makers' ratings."""
    names = {re.sub(r",.*| p\d+,.*", "", row.source) for row in published.figures().values()}
    known = "|".join(re.escape(name) for name in sorted(names))
    return re.compile(rf"{known}|\bmaker|specification|\brating", re.IGNORECASE)


def _free(path: str, leaf: Mapping[str, Any]) -> Parameter | None:
    if path.split(".")[0] in LEFT_OUT or path.rpartition(".")[2] in BUILD:
        return None
    start, source = mean(leaf["value"]), str(leaf["source"])
    guess = source.startswith("guess") or "; guess" in source
    read_off = not guess and _publication().search(source) is not None
    bounds = leaf.get("range")
    if read_off or (bounds is None and guess):
        low, high = start / OPEN_FACTOR, start * OPEN_FACTOR
    else:
        low, high = map(float, bounds or (0, 0))
    key = f"{path} {json.dumps(leaf, sort_keys=True)}"
    found = Parameter(path, start, low, high, read_off=read_off, source=source, key=key)
    return found if low < high else None


def with_values(
    profile: Profile, parameters: Sequence[Parameter], values: Sequence[float], *, source: str = ""
) -> Profile:
    """The profile with these values, checked. Raises UserError if the core refuses the drive.
    `source`: of the values, whose ranges then stay; without one values may lie outside of them."""
    raw = copy.deepcopy(dict(profile.raw))
    for parameter, value in zip(parameters, values, strict=True):
        leaf = leaves.at(raw, parameter.name)
        leaf["value"] = _as_written(leaf["value"], value, whole=parameter.whole)
        if source:
            leaf["source"] = source
        else:
            leaf.pop("range", None)
    return from_resolved(raw)


def moved(profile: Profile, at: Mapping[Parameter, float]) -> Profile:
    """The profile with parameters at other coordinates; as whole numbers where it takes no others.
    Raises UserError if the model takes no such drive."""
    try:
        return with_values(profile, list(at), [one.value(x) for one, x in at.items()])
    except UserError:
        wholes = [replace(one, whole=True) for one in at]
        values = [one.value(x) for one, x in zip(wholes, at.values(), strict=True)]
        return with_values(profile, wholes, values)


def mean(value: Any) -> float:
    """A leaf's value; of a list its mean."""
    return float(sum(value) / len(value) if isinstance(value, list) else value)


def _as_written(old: Any, value: float, *, whole: bool) -> Any:
    if isinstance(old, list):
        factor = value / mean(old)
        return [float(f"{part * factor:.{DIGITS}g}") for part in old]
    return int(value) if whole and type(old) is int else value


def _paths(
    profile: Profile, leaves: Mapping[str, Mapping[str, Any]], name: str, *, bounds: bool
) -> list[str]:
    """The paths that a word stands for: one, or all of a section that have a range."""
    if name in leaves:
        return [name]
    inside = [path for path, leaf in leaves.items() if path.startswith(f"{name}.")]
    if name and inside and not bounds:
        if ranged := [path for path in inside if leaves[path].get("range") is not None]:
            return ranged
        raise UserError(
            f"--fit {name}: no value of this section has a range", f"--fit {inside[0]}=LOW..HIGH"
        )
    ends = [path for path in leaves if path.endswith(f".{name}")] if name else []
    if len(ends) > 1:
        raise UserError(
            f"--fit {name}: more than one section has that name: {', '.join(ends)}",
            f"--fit {ends[0]}",
        )
    if not ends:
        known = [*leaves, *(path.rpartition(".")[2] for path in leaves)]
        raise UserError(
            f"--fit {name}: {profile.name} has no such number",
            did_you_mean(name, known) + "names are section.key, as in the profile",
        )
    return ends


def _parameter(profile: Profile, path: str, leaf: Mapping[str, Any], bounds: str) -> Parameter:
    own = leaf.get("range")
    start = mean(leaf["value"])
    low, high = _bounds(path, bounds) if bounds else own or (None, None)
    if low is None or high is None:
        raise UserError(
            f"--fit {path}: its profile gives no range to search in",
            f"--fit {path}={start * 0.7:g}..{start * 1.4:g}",
        )
    low, high = float(low), float(high)
    if not low < high:
        raise UserError(
            f"--fit {path}: the range {low:g} to {high:g} is empty; must be LOW..HIGH",
            f"--fit {path}={start * 0.7:g}..{start * 1.4:g}",
        )
    if own is not None and not (own[0] <= low and high <= own[1]):
        raise UserError(
            f"--fit {path}={bounds}: must lie within {own[0]:g} to {own[1]:g}, the profile's range",
            f"--fit {path}, or change the profile's range and say why",
        )
    if not low <= start <= high:
        start = min(high, max(low, start))
    wholes = type(leaf["value"]) is int
    found = Parameter(path, start, low, high)
    if wholes and not _possible(profile, found, _between(low, high)):
        found = Parameter(path, start, float(math.ceil(low)), float(math.floor(high)), whole=True)
        count = int(found.high - found.low)
        steps = range(count + 1) if count <= WHOLE_MAX else (0, count // 3, count)
        if count < 1 or not all(_possible(profile, found, found.low + n) for n in steps):
            raise UserError(
                f"--fit {path}: the model takes only some numbers from {low:g} to {high:g}",
                "it is no value that can be fitted: try its values one by one with --set",
            )
        return found
    if bounds:
        for end in (low, high):
            with_values(profile, (found,), (end,))
    return found


def _between(low: float, high: float) -> float:
    """A number in the range that is not whole."""
    middle = math.floor((low + high) / 2) + 0.5
    return middle if low <= middle <= high else (low + high) / 2


def _possible(profile: Profile, parameter: Parameter, value: float) -> bool:
    try:
        with_values(profile, (parameter,), (value,))
    except UserError:
        return False
    return True


def _bounds(path: str, text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(".."))
    except ValueError:
        raise UserError(
            f"--fit {path}={text}: must be a range", f"--fit {path}=LOW..HIGH"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise UserError(f"--fit {path}={text}: must be two numbers", f"--fit {path}=1..2")
    return low, high
