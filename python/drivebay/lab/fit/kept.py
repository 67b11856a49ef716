"""Documents in published/computed/ for fidelity, and for fidelity of today's drives:
fingerprint, leverage, shifts and derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from drivebay.analysis import fidelity
from drivebay.lab.fit.linear import Posterior, Problem, groups
from drivebay.lab.fit.parameters import Parameter
from drivebay.lab.fit.sensitivity import Bench, Derivatives, Runs, coordinate_of, transformed, z_of
from drivebay.lab.validate.verdicts import Validation, judge
from drivebay.results import files


def problem_of(bench: Bench, derivatives: Derivatives) -> tuple[Problem, list[int]]:
    """The rows that have a figure, as input of the linear algebra, and their numbers."""
    values = {i: bench.value(row, derivatives.full) for i, row in enumerate(bench.rows)}
    rows = [i for i, value in values.items() if value is not None]
    chosen = [bench.rows[i] for i in rows]
    ends = [transformed(row, end) for row in chosen for end in row.bounds or ()]
    low, high = np.array(ends).reshape(-1, 2).T
    problem = Problem(
        derivatives.jacobian[rows],
        derivatives.start,
        np.array([values[i] for i in rows]),
        (low + high) / 2,
        (high - low) / 2,
        derivatives.noise[rows],
        groups([row.published.id for row in chosen], [row.same_as for row in chosen]),
    )
    return problem, rows


def document_of(
    bench: Bench,
    derivatives: Derivatives,
    problem: Problem,
    chosen: list[int],
    known: Posterior,
    refits: list[dict[str, Any]],
    *,
    modern: bool,
) -> dict[str, Any]:
    """Makes the document to be stored, for today's drives without data that no row needs;
    numbers have five digits.
    """
    rows = {}
    for k, i in enumerate(chosen):
        row = bench.rows[i]
        rows[row.published.id] = {
            "log": bool(row.bounds is not None and row.bounds[0] > 0),
            "leverage": _short(known.leverage[k]),
            "shift": _short(known.left_out_value[k] - problem.reproduced[k]),
        }
    for row in bench.rows:  # a statement that the drive fulfils in no case
        rows.setdefault(row.published.id, {"log": True, "leverage": 0.0, "shift": 0.0})
    rows = dict(sorted(rows.items()))
    if modern:
        part = modern_derivatives(bench, derivatives)
        return {"fingerprint": fidelity.fingerprint(part["drives"]), "rows": rows, **part}
    return {
        "fingerprint": fidelity.fingerprint(),
        "rows": rows,
        "parameters": _parameters(derivatives, known),
        "derivatives": _derivatives(derivatives),
        "refits": refits,
    }


def modern_derivatives(bench: Bench, derivatives: Derivatives) -> dict[str, Any]:
    """Data of today's drives from which results can be recomputed after values have changed."""
    pairs = enumerate(zip(derivatives.parameters, derivatives.drives, strict=True))
    return {
        "drives": sorted({row.published.drive for row in bench.plan.rows}),
        "parameters": [
            {"name": parameter.name, "drives": drives, "stuck": j in derivatives.stuck}
            for j, (parameter, drives) in pairs
        ],
        "noise": dict(zip(derivatives.rows, map(_short, derivatives.noise), strict=True)),
        "derivatives": _derivatives(derivatives),
    }


def _derivatives(derivatives: Derivatives) -> dict[str, dict[str, float]]:
    return {
        name: {str(j): _short(changes[j]) for j in np.flatnonzero(changes)}
        for name, changes in zip(derivatives.rows, derivatives.jacobian, strict=True)
    }


def kept_derivatives(bench: Bench, then: Mapping[str, Any], full: Runs) -> Derivatives:
    """Stored derivatives of today's drives, adapted to values that have changed since. `full`:
    the runs with the present values. Raises KeyError if a drive or a row is not in the stored
    data.
    """
    # values that drives shared may have been separated since, or the reverse
    frees: dict[str, Parameter] = {}
    drives: dict[str, list[str]] = {}
    column: dict[tuple[int, str], int] = {}
    for j, parameter in enumerate(then["parameters"]):
        for name in parameter["drives"]:
            free = bench.free[name].get(parameter["name"])
            if free is None:  # the profile no longer has this value
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
        np.array([z_of(parameter.at) for parameter in frees.values()]),
        jacobian,
        np.array([then["noise"][name] for name in names]),
        full,
        {},
        tuple(sorted(stuck)),
    )


def joined(then: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Stored derivatives of today's drives, with those of some of them replaced or added;
    without the data that is computed from them.
    """

    def rest(drives: Iterable[str]) -> list[str]:
        return [name for name in drives if fidelity.profile_of(name) not in new["drives"]]

    first = [{**parameter, "drives": rest(parameter["drives"])} for parameter in then["parameters"]]
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


def _parameters(derivatives: Derivatives, known: Posterior) -> list[dict[str, Any]]:
    sd = np.sqrt(np.diag(known.covariance))
    touched = set(np.flatnonzero(derivatives.jacobian.any(axis=0)).tolist())
    for figures in derivatives.figures.values():
        touched = touched.union(*figures.values())
    return [
        {
            "name": parameter.name,
            "drives": sorted({name.partition("@")[0] for name in derivatives.drives[j]}),
            "value": _short(parameter.start),
            "low": _short(parameter.low),
            "high": _short(parameter.high),
            "best": _short(parameter.value(coordinate_of(known.best[j]))),
            "open": _short(float(sd[j])),
            "read_off": parameter.read_off,
            "moves": "stuck" if j in derivatives.stuck else j in touched,
            "source": parameter.source,
        }
        for j, parameter in enumerate(derivatives.parameters)
    ]


def _short(value: float) -> float:
    return float(f"{float(value):.5g}")


def validation_of(bench: Bench, whole: Runs) -> Validation:
    """Compares the rows with the whole runs."""
    return judge(bench.plan, {run: whole[same] for run, same in bench.same.items()})


def write(name: str, document: Mapping[str, Any]) -> None:
    """Writes a computed document, whole or not at all."""
    files.replace(fidelity.file_of(name), fidelity.compressed(document))
