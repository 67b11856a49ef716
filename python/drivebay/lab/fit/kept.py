"""What is kept in published/computed/ of fidelity and of that of today's drives: a fingerprint,
leverage, shifts and derivatives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from drivebay.analysis import fidelity
from drivebay.lab.fit.linear import Floats, Found, Problem, groups
from drivebay.lab.fit.parameters import Parameter
from drivebay.lab.fit.sensitivity import Bench, Derivatives, Runs, coordinate_of, transformed, z_of
from drivebay.lab.validate.verdicts import Validation, judge
from drivebay.results import files

LEAST_SD = 1e-4
"""Figures that the parameters leave open by less are not kept."""


def problem_of(bench: Bench, found: Derivatives) -> tuple[Problem, list[int]]:
    """The rows that have a figure, as the linear algebra takes them, and their numbers."""
    rows, values = [], []
    for i, row in enumerate(bench.rows):
        value = bench.value(row, found.full)
        if value is not None:
            rows.append(i)
            values.append(value)
    chosen = [bench.rows[i] for i in rows]
    ends = [_bounds(row) for row in chosen]
    same = groups([row.published.id for row in chosen], [row.same_as for row in chosen])
    problem = Problem(
        found.jacobian[rows],
        found.start,
        np.array(values),
        np.array([(low + high) / 2 for low, high in ends]),
        np.array([(high - low) / 2 for low, high in ends]),
        found.noise[rows],
        same,
    )
    return problem, rows


def _bounds(row: Any) -> tuple[float, float]:
    low, high = row.bounds
    return transformed(row, low), transformed(row, high)


def document_of(
    bench: Bench,
    found: Derivatives,
    problem: Problem,
    chosen: list[int],
    known: Found,
    refits: list[dict[str, Any]],
    *,
    modern: bool,
) -> dict[str, Any]:
    """All that is kept, of today's drives without what no row needs; numbers to five digits."""
    rows = {}
    for k, i in enumerate(chosen):
        row = bench.rows[i]
        rows[row.published.id] = {
            "log": bool(row.bounds is not None and row.bounds[0] > 0),
            "leverage": _short(known.leverage[k]),
            "shift": _short(known.left_out_value[k] - problem.reproduced[k]),
            "sd": _short(known.left_out_sd[k]),
            "posterior_sd": _short(known.sd[k]),
        }
    for row in bench.rows:  # a statement that nothing of the drive fulfils
        rows.setdefault(row.published.id, {"log": True, "leverage": 0.0, "shift": 0.0, "sd": 0.0})
    rows = dict(sorted(rows.items()))
    if modern:
        part = modern_derivatives(bench, found)
        return {"fingerprint": fidelity.fingerprint(part["drives"]), "rows": rows, **part}
    return {
        "fingerprint": fidelity.fingerprint(),
        "rows": rows,
        "parameters": _parameters(found, known),
        "derivatives": _derivatives(found),
        "figures": _figures(bench, found, known.covariance),
        "refits": refits,
    }


def modern_derivatives(bench: Bench, found: Derivatives) -> dict[str, Any]:
    """What of today's drives can be computed from again when values have changed."""
    return {
        "drives": sorted({row.published.drive for row in bench.plan.rows}),
        "parameters": [
            {"name": one.name, "drives": found.drives[j], "stuck": j in found.stuck}
            for j, one in enumerate(found.parameters)
        ],
        "noise": {name: _short(one) for name, one in zip(found.rows, found.noise, strict=True)},
        "derivatives": _derivatives(found),
    }


def _derivatives(found: Derivatives) -> dict[str, dict[str, float]]:
    return {
        name: {str(j): _short(found.jacobian[i, j]) for j in np.flatnonzero(found.jacobian[i])}
        for i, name in enumerate(found.rows)
    }


def kept_derivatives(bench: Bench, then: Mapping[str, Any], full: Runs) -> Derivatives:
    """The derivatives that are kept of today's drives, of values that were others since. Raises
    KeyError if a drive or a row is not among what is kept. `full`: the runs with the present
    values."""
    frees: dict[str, Parameter] = {}  # what drives shared may be split since, or shared now
    drives: dict[str, list[str]] = {}
    column: dict[tuple[int, str], int] = {}
    for j, one in enumerate(then["parameters"]):
        for name in one["drives"]:
            free = bench.free[name].get(one["name"])
            if free is None:  # a profile has gone without it since
                continue
            frees.setdefault(free.key, free)
            drives.setdefault(free.key, []).append(name)
            column[j, name] = list(frees).index(free.key)
    stuck = {k for (j, _), k in column.items() if then["parameters"][j]["stuck"]}
    names = tuple(row.published.id for row in bench.rows)
    jacobian = np.zeros((len(names), len(frees)))
    for i, row in enumerate(bench.rows):
        runs = {bench.same[run].drive for run in row.needs}
        for j, change in then["derivatives"][names[i]].items():
            for k in {column[int(j), name] for name in runs if (int(j), name) in column}:
                jacobian[i, k] = change
    return Derivatives(
        names,
        tuple(frees.values()),
        tuple(tuple(some) for some in drives.values()),
        np.array([z_of(one.at) for one in frees.values()]),
        jacobian,
        np.array([then["noise"][name] for name in names]),
        full,
        {},
        tuple(sorted(stuck)),
    )


def joined(then: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The derivatives that are kept of today's drives, with those of some of them in their place,
    or beside them; without what follows from them."""
    first = []
    for one in then["parameters"]:
        rest = [name for name in one["drives"]
                if fidelity.profile_of(name) not in new["drives"]]  # fmt: skip
        first.append({**one, "drives": rest})
    moved = {
        row: {str(int(j) + len(first)): change for j, change in changes.items()}
        for row, changes in new["derivatives"].items()
    }
    return {
        "drives": sorted({*then["drives"], *new["drives"]}),
        "parameters": [*first, *new["parameters"]],
        "noise": then["noise"] | new["noise"],
        "derivatives": then["derivatives"] | moved,
    }


def _parameters(found: Derivatives, known: Found) -> list[dict[str, Any]]:
    sd = np.sqrt(np.diag(known.covariance))
    touched = {
        j for changes in found.figures.values() for one in changes.values() for j in one
    } | set(np.flatnonzero(np.abs(found.jacobian).sum(axis=0)).tolist())
    return [
        {
            "name": one.name,
            "drives": sorted({name.partition("@")[0] for name in found.drives[j]}),
            "value": _short(one.start),
            "low": _short(one.low),
            "high": _short(one.high),
            "best": _short(one.value(coordinate_of(known.best[j]))),
            "open": _short(float(sd[j])),
            "read_off": one.read_off,
            "moves": "stuck" if j in found.stuck else j in touched,
            "source": one.source,
        }
        for j, one in enumerate(found.parameters)
    ]


def _figures(bench: Bench, found: Derivatives, covariance: Floats) -> dict[str, Any]:
    """Relative standard deviation and unit of every figure of the runs, by drive and test."""
    kept: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for run, figures in sorted(found.figures.items()):
        drive = run.drive.partition("@")[0]
        units = found.full[run]["units"]
        tests = kept.setdefault(drive, {}).setdefault(bench.plan.tests[run.test].id, {})
        for key, changes in figures.items():
            numbers = list(changes)
            row = np.array([changes[j] for j in numbers])
            sd = math.sqrt(float(row @ covariance[np.ix_(numbers, numbers)] @ row))
            if sd >= LEAST_SD and key in units:
                tests[key] = [_short(sd), units[key]]
    return kept


def _short(value: float) -> float:
    return float(f"{float(value):.5g}")


def validation_of(bench: Bench, whole: Runs) -> Validation:
    """The rows compared, from the whole runs."""
    runs = {run: whole[same] for run, same in bench.same.items()}
    return judge(bench.plan, runs)


def write(name: str, document: Mapping[str, Any]) -> None:
    """Keeps a computed document, whole or not at all."""
    files.replace(fidelity.file_of(name), fidelity.compressed(document))
