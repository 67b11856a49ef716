"""What matters in a sweep: main effects and interactions of its parameters.

Sources: Montgomery, Design and Analysis of Experiments (sums of squares, two-way tables); Saltelli
et al., Global Sensitivity Analysis: The Primer (2008), 1.2.5 (standardized regression). Of each run
its figures are kept, 8 bytes each; a parameter with a range is grouped into `BINS` equal parts.

An effect's share is its sum of squares over the whole one: exact for grids that are complete; for
random points and Latin hypercubes parameters are not quite orthogonal, and shares need not add up
to 100 %. What chance alone would give (levels - 1 of the runs' n - 1 degrees of freedom) stands
beside.

Leaves out: effects of three and more parameters together; they are in the rest.
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


class _Test:
    """The runs of one test: columns of figures, NaN where a run has none, and of each factor the
    places of its levels and, of a number, the coded value."""

    def __init__(self, factors: int) -> None:
        self.runs = 0
        self.labels: dict[str, tuple[str, str, bool]] = {}
        self.columns: dict[str, array[float]] = {}
        self.places = [array("l") for _ in range(factors)]
        self.coded = [array("d") for _ in range(factors)]
        self.points: list[tuple[Any, ...]] = []
        """Of each run its values of the factors, and its seed."""


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

    def add(
        self, row: Mapping[str, Any], labels: Mapping[str, Mapping[str, Sequence[Any]]]
    ) -> None:
        """A run: its parameters and figures by column, and what each test's figures are called
        (label, unit, whether it is a main one)."""
        name = str(row["test"])
        test = self._tests.setdefault(name, _Test(len(self.factors)))
        self.runs += 1
        self.points.add(row, labels)
        for key, (label, unit, main) in labels[name].items():
            if key not in test.labels:
                test.labels[key] = (str(label), str(unit), bool(main))
                test.columns[key] = array("d", [math.nan]) * test.runs
        for key, column in test.columns.items():
            value = row.get(key)
            column.append(math.nan if value is None else float(value))
        for number, one in enumerate(self.factors):
            test.places[number].append(one.place(row[one.name]))
            if one.is_number:
                test.coded[number].append(one.coded(row[one.name]))
        test.points.append((*(row[one.name] for one in self.factors), row.get("seed")))
        test.runs += 1

    @property
    def tests(self) -> tuple[str, ...]:
        """Ids of the tests that were run."""
        return tuple(self._tests)

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Parameters that had no chance to matter: wherever two runs differ in nothing else, all
        figures are the same to the last digit. Unknown, and not named, where no two runs do, as
        in random designs."""
        return tuple(
            one.name for place, one in enumerate(self.factors) if self._is_without_effect(place)
        )

    def _is_without_effect(self, place: int) -> bool:
        compared = False
        for test in self._tests.values():
            figures = np.array([np.array(column) for column in test.columns.values()]).T
            first: dict[tuple[Any, ...], tuple[Any, bytes]] = {}
            for point, found in zip(test.points, figures, strict=True):
                rest = (*point[:place], *point[place + 1 :])
                value, alike = first.setdefault(rest, (point[place], found.tobytes()))
                if found.tobytes() != alike:
                    return False
                compared = compared or value != point[place]
        return compared

    def figures(self, test_id: str) -> tuple[FigureEffects, ...]:
        """Every figure of a test, main ones first, each with its effects."""
        test = self._tests[test_id]
        found = [
            self._figure(test, key, values[known], known)
            for key, column in test.columns.items()
            if (known := np.isfinite(values := np.array(column))).any()
        ]
        return tuple(sorted(found, key=lambda one: not one.main))

    def _figure(
        self, test: _Test, key: str, y: Floats, known: npt.NDArray[np.bool_]
    ) -> FigureEffects:
        label, unit, main = test.labels[key]
        (whole,) = _levels(("",), np.zeros(len(y), dtype=int), y)
        total = float(((y - whole.mean) ** 2).sum())
        places = [np.array(one)[known] for one in test.places]
        numbers = {
            one.name: np.array(coded)[known]
            for one, coded in zip(self.factors, test.coded, strict=True)
            if one.is_number
        }
        slopes, linear_percent = _regression(numbers, y)
        effects, between = [], []
        for factor, place in zip(self.factors, places, strict=True):
            levels = _levels(factor.levels, place, y)
            between.append(_between(levels, whole))
            filled = sum(one.n > 0 for one in levels)
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
            effects=tuple(sorted(effects, key=lambda one: -one.share_percent)),
            interactions=tuple(sorted(together, key=lambda one: -one.share_percent)),
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
        filled = sum(one.n > 0 for one in every)
        rows = sum(any(one.n for one in line) for line in cells)
        columns = sum(any(line[j].n for line in cells) for j in range(width))
        freedom = max(0, filled - rows - columns + 1)
        share, chance = _shares(_between(every, whole) - alone, total, freedom, whole.n)
        return Interaction(
            first.name, second.name, first.levels, second.levels, cells, share, chance
        )


def _levels(labels: Sequence[str], places: npt.NDArray[np.int_], y: Floats) -> tuple[Level, ...]:
    """The runs at each level, by the places of their levels."""
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
    return sum(one.n * (one.mean - whole.mean) ** 2 for one in levels if one.n)


def _regression(numbers: Mapping[str, Floats], y: Floats) -> tuple[dict[str, float], float | None]:
    """Standardized coefficients of the coded numbers, and what they explain in percent; nothing if
    there are too few runs."""
    if not numbers or len(y) <= len(numbers) + 1:
        return {}, None
    rows = np.column_stack([*numbers.values(), y])
    rows -= rows.mean(axis=0)
    scale = np.sqrt((rows**2).sum(axis=0))
    if not scale[-1] > 0:
        return {}, None
    unit = rows / np.where(scale > 0, scale, 1.0)
    found = np.linalg.lstsq(unit[:, :-1], unit[:, -1], rcond=None)[0]
    explained = float(found @ unit[:, :-1].T @ unit[:, -1])
    slopes = dict(zip(numbers, found.tolist(), strict=True))
    return slopes, 100 * min(1.0, max(0.0, explained))


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
