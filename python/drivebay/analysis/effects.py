"""What matters in a sweep: main effects and interactions of its parameters, from streamed means.

Sources: Montgomery, Design and Analysis of Experiments (sums of squares, two-way tables); Saltelli
et al., Global Sensitivity Analysis: The Primer (2008), 1.2.5 (standardized regression); Welford
1962 (running means and variances). Runs are taken in one after the other and not kept; a parameter
with a range is grouped into `BINS` equal parts.

An effect's share is its sum of squares over the whole one: exact for grids that are complete; for
random points and Latin hypercubes parameters are not quite orthogonal, and shares need not add up
to 100 %. What chance alone would give (levels - 1 of the runs' n - 1 degrees of freedom) stands
beside.

Leaves out: effects of three and more parameters together; they are in the rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from drivebay.analysis.replicates import Points

Floats = npt.NDArray[np.float64]
BINS = 6
MEANINGLESS = 1e-12
"""A variance below this share of the mean's square is rounding, not variation."""


@dataclass(frozen=True)
class Factor:
    """A parameter as the study groups by it: listed levels, or a range in equal parts."""

    name: str
    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False

    @property
    def levels(self) -> tuple[str, ...]:
        """What each level is called."""
        if self.values:
            return tuple(_word(one) for one in self.values)
        edges = [self._edge(place / BINS) for place in range(BINS + 1)]
        return tuple(f"{a:.3g} to {b:.3g}" for a, b in itertools.pairwise(edges))

    @property
    def is_number(self) -> bool:
        """Whether its values can be laid on an axis."""
        return all(isinstance(one, int | float) for one in self.values)

    def place(self, value: Any) -> int:
        """The level that a value belongs to."""
        if self.values:
            return self.values.index(value)
        return min(BINS - 1, max(0, int(self._share(float(value)) * BINS)))

    def coded(self, value: Any) -> float:
        """A number's place in its range, from -1 to 1."""
        if not self.values:
            return 2 * self._share(float(value)) - 1
        low, high = min(self.values), max(self.values)
        return 2 * (float(value) - low) / (high - low) - 1 if high > low else 0.0

    def _share(self, value: float) -> float:
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def _edge(self, share: float) -> float:
        if self.log:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + (self.high - self.low) * share


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


@dataclass(frozen=True)
class Level:
    """The runs at one level: how many, their mean, and their standard deviation."""

    label: str
    n: int
    mean: float
    sd: float | None


@dataclass(frozen=True)
class Effect:
    """A main effect. `share_percent` is of the figure's whole variation, `chance_percent` what
    chance alone would give; `slope` the standardized regression coefficient, None for words."""

    factor: str
    levels: tuple[Level, ...]
    share_percent: float
    chance_percent: float
    slope: float | None


@dataclass(frozen=True)
class Interaction:
    """What two parameters do together beyond what each does; `cells[a][b]` may have no runs."""

    first: str
    second: str
    first_levels: tuple[str, ...]
    second_levels: tuple[str, ...]
    cells: tuple[tuple[Level, ...], ...]
    share_percent: float
    chance_percent: float

    @property
    def beyond_chance(self) -> bool:
        """Whether it is more than noise would give."""
        return self.share_percent > self.chance_percent


@dataclass(frozen=True)
class FigureEffects:
    """One figure of one test over the sweep; effects and interactions with the strongest first.

    `linear_percent` is what a linear regression on the numbers explains, None without any.
    """

    key: str
    label: str
    unit: str
    main: bool
    n: int
    mean: float
    sd: float | None
    lowest: float
    highest: float
    effects: tuple[Effect, ...]
    interactions: tuple[Interaction, ...]
    linear_percent: float | None

    @property
    def varies(self) -> bool:
        """Whether there is anything to explain."""
        return self.sd is not None and self.sd**2 > MEANINGLESS * max(self.mean**2, 1e-300)


@dataclass
class _Group:
    """Running means and squares of all figures at once."""

    n: Floats
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, width: int) -> _Group:
        return cls(np.zeros(width), np.zeros(width), np.zeros(width))

    def add(self, y: Floats, known: npt.NDArray[np.bool_]) -> None:
        self.n[known] += 1
        off = np.where(known, y - self.mean, 0.0)
        self.mean += np.where(known, off / np.maximum(self.n, 1), 0.0)
        self.squares += np.where(known, off * (y - self.mean), 0.0)

    def widened(self, width: int) -> None:
        more = width - len(self.n)
        if more > 0:
            for name in ("n", "mean", "squares"):
                setattr(self, name, np.pad(getattr(self, name), (0, more)))


@dataclass
class _Test:
    """What is known of one test so far."""

    keys: list[str] = field(default_factory=list)
    labels: dict[str, tuple[str, str, bool]] = field(default_factory=dict)
    groups: dict[tuple[tuple[int, int], ...], _Group] = field(default_factory=dict)
    lowest: dict[str, float] = field(default_factory=dict)
    highest: dict[str, float] = field(default_factory=dict)
    moments: dict[str, _Moments] = field(default_factory=dict)


class _Moments:
    """Running means and products of the coded numbers and one figure, for the regression."""

    def __init__(self, width: int) -> None:
        self.n = 0
        self.mean = np.zeros(width + 1)
        self.products = np.zeros((width + 1, width + 1))

    def add(self, row: Floats) -> None:
        self.n += 1
        off = row - self.mean
        self.mean += off / self.n
        self.products += np.outer(off, row - self.mean)

    def slopes(self) -> tuple[Floats, float] | None:
        """Standardized coefficients and the explained share; None if there are too few runs."""
        width = len(self.mean) - 1
        scale = np.sqrt(np.diag(self.products))
        if self.n <= width + 1 or not scale[-1] > 0:
            return None
        moving = scale[:-1] > 0
        matrix, right = self.products[:-1, :-1][np.ix_(moving, moving)], self.products[:-1, -1]
        found = np.zeros(width)
        if moving.any():
            found[moving] = np.linalg.lstsq(matrix, right[moving], rcond=None)[0]
        explained = float(found @ right) / float(self.products[-1, -1])
        return found * scale[:-1] / scale[-1], min(1.0, max(0.0, explained))


class Study:
    """Takes the runs of a sweep in, one at a time, and tells what mattered.

    Parameters
    ----------
    factors : what was varied; values of each run are looked up by their names.

    Attributes
    ----------
    points : means point by point, where points have several seeds.
    """

    def __init__(self, factors: Sequence[Factor]) -> None:
        self.factors = tuple(factors)
        self.runs = 0
        self.points = Points([one.name for one in self.factors])
        self._tests: dict[str, _Test] = {}
        self._numbers = [one for one in self.factors if one.is_number]

    def add(
        self, row: Mapping[str, Any], labels: Mapping[str, Mapping[str, Sequence[Any]]]
    ) -> None:
        """A run: its parameters and figures by column, and what each test's figures are called
        (label, unit, whether it is a main one)."""
        name = str(row["test"])
        test = self._tests.setdefault(name, _Test())
        self.runs += 1
        self.points.add(row, labels)
        for key, (label, unit, main) in labels[name].items():
            if key not in test.labels:
                test.labels[key] = (str(label), str(unit), bool(main))
                test.keys.append(key)
        values = [row.get(key) for key in test.keys]
        y = np.array([math.nan if one is None else float(one) for one in values])
        known = np.isfinite(y)
        y = np.where(known, y, 0.0)
        places = [(number, one.place(row[one.name])) for number, one in enumerate(self.factors)]
        for cell in [(), *((one,) for one in places), *itertools.combinations(places, 2)]:
            group = test.groups.setdefault(cell, _Group.of(len(y)))
            group.widened(len(y))
            group.add(y, known)
        coded = [one.coded(row[one.name]) for one in self._numbers]
        for place in np.flatnonzero(known).tolist():
            key, value = test.keys[place], float(y[place])
            test.lowest[key] = min(value, test.lowest.get(key, math.inf))
            test.highest[key] = max(value, test.highest.get(key, -math.inf))
            if coded:
                moments = test.moments.setdefault(key, _Moments(len(coded)))
                moments.add(np.array([*coded, value]))

    @property
    def tests(self) -> tuple[str, ...]:
        """Ids of the tests that were run."""
        return tuple(self._tests)

    def figures(self, test_id: str) -> tuple[FigureEffects, ...]:
        """Every figure of a test, main ones first, each with its effects."""
        test = self._tests[test_id]
        found = [
            self._figure(test, key, place)
            for place, key in enumerate(test.keys)
            if key in test.lowest
        ]
        return tuple(sorted(found, key=lambda one: not one.main))

    def _figure(self, test: _Test, key: str, place: int) -> FigureEffects:
        label, unit, main = test.labels[key]
        whole = _level("", test.groups[()], place)
        total = _at(test.groups[()].squares, place)
        slopes = moments.slopes() if (moments := test.moments.get(key)) is not None else None
        by_name: dict[str, float] = {}
        if slopes is not None:
            names = [one.name for one in self._numbers]
            by_name = dict(zip(names, slopes[0].tolist(), strict=True))
        effects, between = [], {}
        for number, factor in enumerate(self.factors):
            levels = tuple(
                _level(words, test.groups.get(((number, at),)), place)
                for at, words in enumerate(factor.levels)
            )
            between[number] = sum(one.n * (one.mean - whole.mean) ** 2 for one in levels if one.n)
            filled = sum(one.n > 0 for one in levels)
            share, chance = _shares(between[number], total, filled - 1, whole.n)
            effects.append(Effect(factor.name, levels, share, chance, by_name.get(factor.name)))
        together = [
            self._interaction(test, place, a, b, whole, total, between[a] + between[b])
            for a, b in itertools.combinations(range(len(self.factors)), 2)
        ]
        return FigureEffects(
            key=key,
            label=label,
            unit=unit,
            main=main,
            n=whole.n,
            mean=whole.mean,
            sd=whole.sd,
            lowest=test.lowest[key],
            highest=test.highest[key],
            effects=tuple(sorted(effects, key=lambda one: -one.share_percent)),
            interactions=tuple(sorted(together, key=lambda one: -one.share_percent)),
            linear_percent=None if slopes is None else 100 * slopes[1],
        )

    def _interaction(
        self, test: _Test, place: int, a: int, b: int, whole: Level, total: float, alone: float
    ) -> Interaction:
        first, second = self.factors[a], self.factors[b]
        cells = tuple(
            tuple(
                _level("", test.groups.get(((a, i), (b, j))), place)
                for j in range(len(second.levels))
            )
            for i in range(len(first.levels))
        )
        filled = [one for line in cells for one in line if one.n]
        between = sum(one.n * (one.mean - whole.mean) ** 2 for one in filled)
        rows = sum(any(one.n for one in line) for line in cells)
        columns = sum(any(line[j].n for line in cells) for j in range(len(second.levels)))
        freedom = max(0, len(filled) - rows - columns + 1)
        share, chance = _shares(between - alone, total, freedom, whole.n)
        return Interaction(
            first.name, second.name, first.levels, second.levels, cells, share, chance
        )


def _level(label: str, group: _Group | None, place: int) -> Level:
    n = 0 if group is None else int(_at(group.n, place))
    if group is None or n == 0:
        return Level(label, 0, math.nan, None)
    sd = math.sqrt(max(0.0, _at(group.squares, place)) / (n - 1)) if n > 1 else None
    return Level(label, n, _at(group.mean, place), sd)


def _at(values: Floats, place: int) -> float:
    return float(values[place]) if place < len(values) else 0.0


def _shares(part: float, total: float, freedom: int, n: int) -> tuple[float, float]:
    """A sum of squares in percent of the whole one, and what chance would give it."""
    share = 100 * max(0.0, part) / total if total > 0 else 0.0
    return min(100.0, share), min(100.0, 100 * max(0, freedom) / (n - 1)) if n > 1 else 0.0


def study(
    factors: Sequence[Factor], rows: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> Study:
    """A study of rows as a sweep's store gives them: columns, and a part's metadata."""
    made = Study(factors)
    for row, metadata in rows:
        made.add(row, metadata["labels"])
    return made
