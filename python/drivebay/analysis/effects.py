"""Main effects and interactions of a sweep's parameters.

Sources: Montgomery, Design and Analysis of Experiments (sums of squares, two-way tables); Saltelli
et al., Global Sensitivity Analysis: The Primer (2008), 1.2.5 (standardized regression). Only the
figures of each run are kept, 8 bytes each; a parameter with a range is grouped into `BINS` equal
parts.

An effect's share is its sum of squares over the total one: exact for complete grids; for random
points and Latin hypercubes parameters are not quite orthogonal, and shares need not add up to 100
%. The share expected by chance alone (levels - 1 of the runs' n - 1 degrees of freedom) is given
along with it.

Leaves out: joint effects of three and more parameters; they are part of the residual.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from drivebay.analysis.replicates import ByPoint, FigurePoints, at_points

Floats = npt.NDArray[np.float64]
BINS = 6
# A variance below this share of the mean's square is rounding, not variation.
MEANINGLESS = 1e-12


@dataclass(frozen=True)
class Factor:
    """A parameter of the study: listed levels, or a range in equal parts."""

    name: str
    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels."""
        if self.values:
            return tuple(_level_name(value) for value in self.values)
        edges = [self._edge(place / BINS) for place in range(BINS + 1)]
        return tuple(f"{a:.3g} to {b:.3g}" for a, b in itertools.pairwise(edges))

    @property
    def is_number(self) -> bool:
        """True if its values can be placed on an axis."""
        return all(isinstance(value, int | float) for value in self.values)

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


def _level_name(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


@dataclass(frozen=True)
class Level:
    """The runs at one level: their number, mean and standard deviation."""

    label: str
    n: int
    mean: float
    sd: float | None


@dataclass(frozen=True)
class Effect:
    """A main effect. `share_percent` is its share of the figure's whole variation,
    `chance_percent` the share expected by chance; `slope` the standardized regression
    coefficient, None if the values are not numbers.
    """

    factor: str
    levels: tuple[Level, ...]
    share_percent: float
    chance_percent: float
    slope: float | None


@dataclass(frozen=True)
class Interaction:
    """Joint effect of two parameters beyond their single effects; `cells[a][b]` may have no
    runs.
    """

    first: str
    second: str
    first_levels: tuple[str, ...]
    second_levels: tuple[str, ...]
    cells: tuple[tuple[Level, ...], ...]
    share_percent: float
    chance_percent: float

    @property
    def beyond_chance(self) -> bool:
        """True if the share exceeds the one expected from noise."""
        return self.share_percent > self.chance_percent


@dataclass(frozen=True)
class FigureEffects:
    """One figure of one test over the sweep; effects and interactions sorted with the strongest
    first.

    `linear_percent` is the share explained by a linear regression on the numeric parameters, None
    if there are none.
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
        """True if the figure varies at all."""
        return self.sd is not None and self.sd**2 > MEANINGLESS * max(self.mean**2, 1e-300)


class _Test:
    """The runs of one test: columns of figures, NaN where a run has none, and for each factor
    the indices of its levels and, for numbers, the coded values.
    """

    def __init__(self, factors: int) -> None:
        self.runs = 0
        self.labels: dict[str, tuple[str, str, bool]] = {}
        self.columns: dict[str, array[float]] = {}
        self.places = [array("l") for _ in range(factors)]
        self.coded = [array("d") for _ in range(factors)]
        self.points: list[tuple[Any, ...]] = []
        """Values of the factors and seed of each run."""

    def by_point(self, key: str) -> ByPoint:
        """Known values of a figure."""
        found: dict[tuple[Any, ...], dict[int | None, float]] = {}
        for (*point, seed), value in zip(self.points, self.columns[key], strict=True):
            seeds = found.setdefault(tuple(point), {})
            if math.isfinite(value):
                seeds[seed] = value
        return found


class Study:
    """Collects the runs of a sweep, one at a time, and computes the effects of its parameters.

    Parameters
    ----------
    factors : the varied parameters; values of each run are looked up by their names.
    """

    def __init__(self, factors: Sequence[Factor]) -> None:
        self.factors = tuple(factors)
        self.runs = 0
        self._tests: dict[str, _Test] = {}

    def add(
        self, row: Mapping[str, Any], labels: Mapping[str, Mapping[str, Sequence[Any]]]
    ) -> None:
        """Adds a run: its parameters and figures by column, and the labels of each test's
        figures (label, unit, true for a main figure).
        """
        name = str(row["test"])
        test = self._tests.setdefault(name, _Test(len(self.factors)))
        self.runs += 1
        for key, (label, unit, main) in labels[name].items():
            if key not in test.labels:
                test.labels[key] = (str(label), str(unit), bool(main))
                test.columns[key] = array("d", [math.nan]) * test.runs
        for key, column in test.columns.items():
            value = row.get(key)
            column.append(math.nan if value is None else float(value))
        for number, factor in enumerate(self.factors):
            test.places[number].append(factor.place(row[factor.name]))
            if factor.is_number:
                test.coded[number].append(factor.coded(row[factor.name]))
        test.points.append((*(row[factor.name] for factor in self.factors), row.get("seed")))
        test.runs += 1

    @property
    def tests(self) -> tuple[str, ...]:
        """Ids of the tests that were run."""
        return tuple(self._tests)

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Parameters without any effect: wherever two runs differ in this parameter only, all
        figures are exactly equal. A parameter is not listed if no two such runs exist, as in
        random designs.
        """
        places = enumerate(self.factors)
        return tuple(factor.name for place, factor in places if self._is_without_effect(place))

    def _is_without_effect(self, place: int) -> bool:
        compared = False
        for test in self._tests.values():
            figures = np.array([np.array(column) for column in test.columns.values()]).T
            first: dict[tuple[Any, ...], tuple[Any, bytes]] = {}
            for point, row in zip(test.points, figures, strict=True):
                rest = (*point[:place], *point[place + 1 :])
                value, alike = first.setdefault(rest, (point[place], row.tobytes()))
                if row.tobytes() != alike:
                    return False
                compared = compared or value != point[place]
        return compared

    def figures(self, test_id: str) -> tuple[FigureEffects, ...]:
        """Every figure of a test with its effects, main figures first."""
        test = self._tests[test_id]
        figures = [
            self._figure(test, key, values[known], known)
            for key, column in test.columns.items()
            if (known := np.isfinite(values := np.array(column))).any()
        ]
        return tuple(sorted(figures, key=lambda figure: not figure.main))

    def points(self, test_id: str) -> tuple[FigurePoints, ...]:
        """The main figures of a test point by point; empty if no point has several seeds."""
        test = self._tests[test_id]
        names = [factor.name for factor in self.factors]
        found = {key: test.by_point(key) for key, (*_, main) in test.labels.items() if main}
        if all(len(seeds) < 2 for points in found.values() for seeds in points.values()):
            return ()
        return tuple(
            FigurePoints(key, *test.labels[key][:2], at_points(names, points))
            for key, points in found.items()
            if any(points.values())
        )

    def _figure(
        self, test: _Test, key: str, y: Floats, known: npt.NDArray[np.bool_]
    ) -> FigureEffects:
        label, unit, main = test.labels[key]
        (whole,) = _levels(("",), np.zeros(len(y), dtype=int), y)
        total = float(((y - whole.mean) ** 2).sum())
        places = [np.array(column)[known] for column in test.places]
        numbers = {
            factor.name: np.array(coded)[known]
            for factor, coded in zip(self.factors, test.coded, strict=True)
            if factor.is_number
        }
        slopes, linear_percent = _regression(numbers, y)
        effects, between = [], []
        for factor, place in zip(self.factors, places, strict=True):
            levels = _levels(factor.levels, place, y)
            between.append(_between(levels, whole))
            filled = sum(level.n > 0 for level in levels)
            share, chance = _shares(between[-1], total, filled - 1, whole.n)
            effects.append(Effect(factor.name, levels, share, chance, slopes.get(factor.name)))
        together = [
            self._interaction(a, b, places, y, whole, total, between[a] + between[b])
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
            lowest=float(y.min()),
            highest=float(y.max()),
            effects=tuple(sorted(effects, key=lambda effect: -effect.share_percent)),
            interactions=tuple(sorted(together, key=lambda pair: -pair.share_percent)),
            linear_percent=linear_percent,
        )

    def _interaction(
        self,
        a: int,
        b: int,
        places: Sequence[npt.NDArray[np.int_]],
        y: Floats,
        whole: Level,
        total: float,
        alone: float,
    ) -> Interaction:
        first, second = self.factors[a], self.factors[b]
        width = len(second.levels)
        every = _levels([""] * len(first.levels) * width, places[a] * width + places[b], y)
        cells = tuple(every[at : at + width] for at in range(0, len(every), width))
        filled = sum(cell.n > 0 for cell in every)
        rows = sum(any(cell.n for cell in line) for line in cells)
        columns = sum(any(line[j].n for line in cells) for j in range(width))
        freedom = max(0, filled - rows - columns + 1)
        share, chance = _shares(_between(every, whole) - alone, total, freedom, whole.n)
        return Interaction(
            first.name, second.name, first.levels, second.levels, cells, share, chance
        )


def _levels(labels: Sequence[str], places: npt.NDArray[np.int_], y: Floats) -> tuple[Level, ...]:
    """Statistics of the runs at each level, from the level index of each run."""
    counts = np.bincount(places, minlength=len(labels))
    means = np.bincount(places, y, len(labels)) / np.maximum(counts, 1)
    squares = np.bincount(places, (y - means[places]) ** 2, len(labels))
    return tuple(
        Level(label, n, mean if n else math.nan, math.sqrt(rest / (n - 1)) if n > 1 else None)
        for label, n, mean, rest in zip(
            labels, counts.tolist(), means.tolist(), squares.tolist(), strict=True
        )
    )


def _between(levels: Sequence[Level], whole: Level) -> float:
    """The sum of squares between levels."""
    return sum(level.n * (level.mean - whole.mean) ** 2 for level in levels if level.n)


def _regression(numbers: Mapping[str, Floats], y: Floats) -> tuple[dict[str, float], float | None]:
    """Standardized coefficients of the coded numbers, and the variation that they explain in
    percent; empty if there are too few runs.
    """
    if not numbers or len(y) <= len(numbers) + 1:
        return {}, None
    rows = np.column_stack([*numbers.values(), y])
    rows -= rows.mean(axis=0)
    scale = np.sqrt((rows**2).sum(axis=0))
    if not scale[-1] > 0:
        return {}, None
    unit = rows / np.where(scale > 0, scale, 1.0)
    coefficients = np.linalg.lstsq(unit[:, :-1], unit[:, -1], rcond=None)[0]
    explained = float(coefficients @ unit[:, :-1].T @ unit[:, -1])
    slopes = dict(zip(numbers, coefficients.tolist(), strict=True))
    return slopes, 100 * min(1.0, max(0.0, explained))


def _shares(part: float, total: float, freedom: int, n: int) -> tuple[float, float]:
    """A sum of squares in percent of the total, and the percentage expected by chance."""
    share = 100 * max(0.0, part) / total if total > 0 else 0.0
    return min(100.0, share), min(100.0, 100 * max(0, freedom) / (n - 1)) if n > 1 else 0.0


def study(
    factors: Sequence[Factor], rows: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> Study:
    """Makes a study of rows as a sweep's store returns them: columns, and a part's metadata."""
    made = Study(factors)
    for row, metadata in rows:
        made.add(row, metadata["labels"])
    return made
