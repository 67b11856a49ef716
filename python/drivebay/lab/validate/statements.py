"""Published statements in words as numbers, computed by the expressions of
published/statements.toml.

An expression has figures of runs by their names, numbers, + - * /, comparisons, and the functions
of `FUNCTIONS`; nothing else of Python.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drivebay.analysis import Measured, published
from drivebay.lab.validate.values import Figures, NotReached, value_of

# Function that returns a figure of a run, by the run's index and the figure's name; raises
# NotReached.
Lookup = Callable[[int, str], Any]

OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}


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


@dataclass(frozen=True)
class _Figure:
    """A figure of all runs, each looked up when it is needed."""

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
        with np.errstate(divide="raise", invalid="raise"):
            try:
                if not _evaluated(ast.parse(self.holds, mode="eval").body, count, lookup):
                    raise NotReached(self.otherwise)
                return float(_evaluated(ast.parse(self.value, mode="eval").body, count, lookup))
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


def _evaluated(node: ast.expr | ast.Slice | None, count: int, lookup: Lookup) -> Any:
    def inner(below: ast.expr | None) -> Any:
        value = _evaluated(below, count, lookup)
        return value[:] if isinstance(value, _Figure) else value

    match node:
        case None:
            return None
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _Figure(name, count, lookup)
        case ast.Call(func=ast.Name(id="of"), args=[ast.Constant(value=str(name))]):
            return _Figure(name, count, lookup)
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name](*map(inner, args))
        case ast.Subscript(value=value, slice=at):
            return _evaluated(value, count, lookup)[inner(at)]
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(inner(lower), inner(upper), inner(step))
        case ast.Tuple(elts=parts):
            return tuple(map(inner, parts))
        case ast.Attribute(value=value, attr="T"):
            return inner(value).T
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS[type(op)](inner(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](inner(left), inner(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return OPERATORS[type(op)](inner(left), inner(right))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(map(inner, parts))
    raise AssertionError(f"statements.toml: {ast.unparse(node)} is not known")


# Every statement, by its name in published/validation.toml.
STATEMENTS: Mapping[str, Statement] = {
    name: Statement(**entry) for name, entry in published.table("statements").items()
}
