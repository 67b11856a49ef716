"""Parameters of fits, fitted or free: values of a profile, each within its plausible range.

A parameter is a number of the profile by its dotted name, `nand.read_us`; the section may be
omitted if only one has such a name, as with `--set`. Its range is the profile's own, or one from
the user, `nand.read_us=55..70`, which must lie within it. Fits work on coordinates from 0 to 1 over
that range, on a log scale if it spans a factor of two or more. A list, such as the program times of
the page types, is fitted as one factor, by its mean.

When published rows are weighed (`free_parameters`), all numbers with a range are free. A number
read from a publication of published/figures.csv is free over a factor of four, whatever its range:
the row is the only knowledge about it, and must not count twice. A guess without a range is free
over a factor of four, too. A number from another source (a standard, a maker of processors) without
a range is fixed, as are the counts and sizes that define the drive (`BUILD`). Drives that have a
value from the same profile or host share the parameter.
"""

from __future__ import annotations

import copy
import functools
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drivebay.analysis import published
from drivebay.common import data
from drivebay.common.errors import UserError, did_you_mean
from drivebay.definitions import leaves
from drivebay.definitions.profiles import Profile, from_resolved

# A range whose ends differ by this factor or more is searched on a log scale.
LOG_FROM = 2.0
# Significant digits of a fitted value: finer than any figure can resolve.
DIGITS = 6
# Most integers of a range that are tried to find out if the core accepts them all.
WHOLE_MAX = 64

SETTINGS_FILE = data.path("published") / "fit.toml"
# Constants of published/fit.toml, whose head explains them.
SETTINGS: dict[str, Any] = tomllib.loads(SETTINGS_FILE.read_text(encoding="utf-8"))
# Keys that define the drive or host: counts, and sizes defined by a standard.
BUILD = frozenset(SETTINGS["free"]["build"])
# Sections without influence on any published row.
LEFT_OUT = ("drive", "identify", "health", "variants")
# Factor in both directions for a value known only from a published row, or not at all.
OPEN_FACTOR = 2.0


@dataclass(frozen=True)
class Parameter:
    """A value that is fitted.

    `start`, `low` and `high` are in the unit that the name ends with; for a list they are its mean.
    `whole`: only integers are possible. `source` is the profile's, `read_off` is True if it is a
    publication whose rows are weighed; `key` distinguishes parameters of the same name.
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
        """Part of the profile that it belongs to; for a host by protocol, with one part for
        heat.
        """
        first, *rest = self.name.split(".")
        if first in ("thermal", "energy", "power"):
            return "heat"
        return f"host.{rest[0]}" if first == "host" else first

    @property
    def at(self) -> float:
        """Coordinate of the start value, 0 to 1 over its range."""
        return self.coordinate(self.start)

    @property
    def log(self) -> bool:
        """True if coordinates are logarithmic."""
        return self.low > 0 and self.high / self.low >= LOG_FROM

    def value(self, coordinate: float) -> float:
        """The value at a coordinate from 0 to 1, rounded as it is written.

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
        """The coordinate of a value in the range, 0 to 1."""
        if self.log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def around(self, value: float, away: float) -> tuple[float, float]:
        """Values at this distance in coordinates, at most the ends of the range."""
        at = self.coordinate(value)
        return self.value(at - away), self.value(at + away)

    def width(self, coordinate: float) -> float:
        """Derivative of the value by the coordinate: change of the value over a whole range."""
        if self.log:
            return self.value(coordinate) * math.log(self.high / self.low)
        return self.high - self.low

    @property
    def step(self) -> float:
        """Step of the coordinate for a finite difference: 2 % of the range, or one integer."""
        return max(0.02, 1.01 / (self.high - self.low)) if self.whole else 0.02


def select_parameters(profile: Profile, names: Sequence[str]) -> tuple[Parameter, ...]:
    """Selects the parameters that the user names, sorted by name.

    Raises
    ------
    UserError
        If a name is not a number of the profile, a number has no range, a range is outside the
        profile's own, or a parameter is named twice.

    >>> from drivebay.definitions.profiles import load
    >>> select_parameters(load("sm951-ahci-512"), ["read_us", "host_core_us=2..4"])[1].low
    40.0
    """
    if not names:
        raise UserError(
            "nothing to fit: no parameter was named", "--fit nand.read_us --fit controller"
        )
    leaves = dict(numbers(profile.raw))
    selected: dict[str, Parameter] = {}
    for word in names:
        name, _, bounds = (part.strip() for part in word.partition("="))
        for path in _paths(profile, leaves, name, bounds=bool(bounds)):
            if path in selected:
                raise UserError(f"--fit {word}: {path} is named twice", "name each parameter once")
            selected[path] = _parameter(profile, path, leaves[path], bounds)
    return tuple(selected[path] for path in sorted(selected))


def numbers(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields every leaf of the profile that is a number or a list of numbers, with its dotted
    path.
    """
    for path, leaf in leaves.every(raw):
        values = leaf["value"] if isinstance(leaf["value"], list) else [leaf["value"]]
        if values and all(type(value) in (int, float) for value in values):
            yield path, leaf


def free_parameters(profile: Profile) -> dict[str, Parameter]:
    """The free parameters of a drive in its host, by name."""
    every = {path: _free(path, leaf) for path, leaf in numbers(profile.raw)}
    return {path: parameter for path, parameter in every.items() if parameter is not None}


@functools.cache
def _publication() -> re.Pattern[str]:
    """Pattern of sources that published/figures.csv contains: reviews by their short names,
    makers' ratings.
    """
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
    parameter = Parameter(path, start, low, high, read_off=read_off, source=source, key=key)
    return parameter if low < high else None


def with_values(
    profile: Profile,
    parameters: Sequence[Parameter],
    values: Sequence[float],
    *,
    sources: Sequence[str] = (),
) -> Profile:
    """Returns the profile with these values, checked. `sources`: a source of each value, which then
    keep their ranges, widened to the values; without them the ranges are removed.
    Raises UserError if the core refuses the drive.
    """
    raw = copy.deepcopy(dict(profile.raw))
    for i, (parameter, value) in enumerate(zip(parameters, values, strict=True)):
        leaf = leaves.at(raw, parameter.name)
        leaf["value"] = _as_written(leaf["value"], value, whole=parameter.whole)
        if sources:
            leaf["source"] = sources[i]
            low, high = leaf.get("range") or (value, value)
            leaf["range"] = [min(low, value), max(high, value)]
        else:
            leaf.pop("range", None)
    return from_resolved(raw)


def moved(profile: Profile, at: Mapping[Parameter, float]) -> Profile:
    """Returns the profile with parameters at other coordinates, rounded to integers if it
    accepts no others. Raises UserError if the model refuses the drive.
    """
    try:
        return with_values(profile, list(at), [parameter.value(x) for parameter, x in at.items()])
    except UserError:
        wholes = [replace(parameter, whole=True) for parameter in at]
        values = [parameter.value(x) for parameter, x in zip(wholes, at.values(), strict=True)]
        return with_values(profile, wholes, values)


def mean(value: Any) -> float:
    """A leaf's value; for a list its mean."""
    return float(sum(value) / len(value) if isinstance(value, list) else value)


def _as_written(old: Any, value: float, *, whole: bool) -> Any:
    if isinstance(old, list):
        factor = value / mean(old)
        return [float(f"{part * factor:.{DIGITS}g}") for part in old]
    return int(value) if whole and type(old) is int else value


def _paths(
    profile: Profile, leaves: Mapping[str, Mapping[str, Any]], name: str, *, bounds: bool
) -> list[str]:
    """The paths that a name stands for: one, or all of a section that have a range."""
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
    start = min(high, max(low, start))
    parameter = Parameter(path, start, low, high)
    if type(leaf["value"]) is int and not possible(profile, parameter, _between(low, high)):
        first, last = math.ceil(low), math.floor(high)
        parameter = Parameter(path, start, float(first), float(last), whole=True)
        count = last - first
        steps = range(count + 1) if count <= WHOLE_MAX else (0, count // 3, count)
        if count < 1 or not all(possible(profile, parameter, parameter.low + n) for n in steps):
            raise UserError(
                f"--fit {path}: the model takes only some numbers from {low:g} to {high:g}",
                "it cannot be fitted: try its values one by one with --set",
            )
        return parameter
    if bounds:
        for end in (low, high):
            with_values(profile, (parameter,), (end,))
    return parameter


def _between(low: float, high: float) -> float:
    """A number in the range that is not an integer."""
    middle = math.floor((low + high) / 2) + 0.5
    return middle if low <= middle <= high else (low + high) / 2


def possible(profile: Profile, parameter: Parameter, value: float) -> bool:
    """True if the core takes a drive with this value."""
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
