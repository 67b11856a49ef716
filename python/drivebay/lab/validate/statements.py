"""Published statements in words as numbers, computed by the expressions of
published/statements.toml.

An expression is Python with the figures of runs by their names and the functions of `FUNCTIONS`,
and no other name. The file is a part of the package, as its code is.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from drivebay.analysis import Measured, published
from drivebay.lab.validate.values import Figures, NotReached, value_of

# Function that returns a figure of a run, by the run's index and the figure's name; raises
# NotReached.
Lookup = Callable[[int, str], Any]


def _farthest(values: Any, middle: float) -> Any:
    """The value with the largest factor to `middle`."""
    return max(values, key=lambda value: abs(np.log(max(value, 1e-9) / middle)))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": lambda *some: np.min([np.min(value) for value in some]),
    "max": lambda *some: np.max([np.max(value) for value in some]),
    "each_min": lambda *some: np.min(some[0] if len(some) == 1 else some, axis=0),
    "average": np.mean,
    "median": np.median,
    "sqrt": np.sqrt,
    "farthest": _farthest,
}


@dataclass(frozen=True, eq=False)
class _Figure(NDArrayOperatorsMixin):
    """A figure of all runs, each looked up when needed. As an operand it is the list of all."""

    name: str
    count: int
    lookup: Lookup

    def __getitem__(self, at: Any) -> Any:
        runs, *rest = at if isinstance(at, tuple) else (at,)
        places = range(self.count)[runs]
        if isinstance(places, int):
            value = np.asarray(self.lookup(places, self.name), dtype=np.float64)
            return value[tuple(rest)]
        values = np.array([self.lookup(place, self.name) for place in places], dtype=float)
        return values[(slice(None), *rest)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self[:]


@dataclass(frozen=True)
class Statement:
    """A statement of published/statements.toml."""

    says: str
    value: str
    holds: str = "1 == 1"
    otherwise: str = "nothing to divide by"

    def __call__(self, runs: Sequence[Measured | Figures]) -> float:
        """Computes the number from these runs, in the row's order; raises NotReached."""
        return self.of(len(runs), lambda place, name: value_of(runs[place], name))

    def of(self, count: int, lookup: Lookup) -> float:
        """Computes the number from figures by name. Raises NotReached if a run lacks a figure,
        or the statement's condition does not hold.
        """
        figures = {
            name: _Figure(name, count, lookup)  # type: ignore[abstract]  # has __array__ instead
            for name in self.names
        }
        known = {**FUNCTIONS, **figures, "of": figures.__getitem__}
        with np.errstate(divide="raise", invalid="raise"):
            try:
                if not eval(self.holds, {"__builtins__": {}}, known):
                    raise NotReached(self.otherwise)
                return float(eval(self.value, {"__builtins__": {}}, known))
            except FloatingPointError:
                raise NotReached(self.otherwise) from None

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Names of the figures that the statement uses."""
        names = set()
        for text in (self.value, self.holds):
            for node in ast.walk(ast.parse(text, mode="eval")):
                if isinstance(node, ast.Name) and node.id not in {*FUNCTIONS, "of"}:
                    names.add(node.id)
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    names.add(node.value)
        return frozenset(names)


# Every statement, by its name in published/validation.toml.
STATEMENTS: Mapping[str, Statement] = {
    name: Statement(**entry) for name, entry in published.table("statements").items()
}
