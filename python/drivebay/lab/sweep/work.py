"""Task of a worker for one run: make the drive, run the test, compute the figures, write the part.

A run depends on the plan and its number alone: it equals `drivebay review DRIVE --only TEST` with
the run's seed and changes. Only wall time, memory and host differ between repetitions. Peak memory
(proc(5): VmHWM, reset by clear_refs) and processor time are those of the process, including
interpreter and libraries; with several runs in one process they are those of all of them.
"""

from __future__ import annotations

import contextlib
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from drivebay.analysis.figures import Figure, Measured
from drivebay.analysis.measure import measure
from drivebay.analysis.phases import unsteady
from drivebay.common import memory, provenance
from drivebay.common.errors import DrivebayError
from drivebay.common.seeds import derived_seed
from drivebay.lab.sweep import plan as plans
from drivebay.lab.sweep.plan import Plan, Point
from drivebay.lab.sweep.spec import RESERVED
from drivebay.lab.sweep.store import Store
from drivebay.targets.base import Progress
from drivebay.targets.virtual.target import VirtualTarget

# Answer of a worker: "index", "wall_s", validity "warnings", and for a failed run "error" and
# "again": true if a retry may help; "hint" if the worker is another build, with which nothing is
# run.
Outcome = dict[str, Any]


def run(plan_json: str, url: str, index: int) -> Outcome:
    """Runs one run of the plan, and stores it at `url`."""

    def work() -> list[str]:
        plan = plans.from_json(plan_json)
        part = row(plan, plan.point(index))
        Store(url).write_part(index, plan.fingerprint, part)
        return list(json.loads(part.schema.metadata[b"drivebay"]).get("warnings", ()))

    return answer(index, work)


def answer(index: int, work: Callable[[], list[str] | None]) -> Outcome:
    """The worker's answer after `work`, which returns validity warnings; never raises, as not
    every error can be pickled.
    """
    begun = time.monotonic()
    outcome: Outcome = {"index": index}
    try:
        outcome["warnings"] = work() or []
    except plans.OtherBuild as problem:
        outcome |= {"error": problem.message, "hint": problem.hint}
    except DrivebayError as problem:
        outcome |= {"error": f"{problem.message} ({problem.hint})", "again": False}
    except Exception as problem:
        text = " ".join(str(problem).split())
        outcome |= {"error": f"{type(problem).__name__}: {text}", "again": True}
    return {**outcome, "wall_s": time.monotonic() - begun}


def row(plan: Plan, point: Point) -> pa.Table:
    """Runs one run and returns its part."""
    with contextlib.suppress(OSError):  # resets the peak memory of this process, VmHWM
        Path("/proc/self/clear_refs").write_text("5")
    begun, cpu = time.monotonic(), time.process_time()
    test = plan.test(point)
    profile = plan.profile(point)
    with contextlib.closing(VirtualTarget(profile)) as target:
        target.check((test,))
        target.expect((test,), seed=point.seed, copies_max=0)
        seed = derived_seed(point.seed, test.id)
        phases = target.run_test(test, seed=seed, progress=Progress())
    measured = measure(test, phases)
    warnings = [warning for phase in phases for warning in phase.conditions.get("warnings", ())]
    if plan.spec.workload is not None:
        steady = float(not unsteady(measured.phases[0]))
        figures = {**measured.figures, "steady": Figure("steady", "Steady state", steady, "")}
        measured = replace(measured, figures=figures, main=(*measured.main, "steady"))
        if not steady:
            warnings.append("some runs did not reach a steady state: 'steady' is 0 for them")
    known: dict[str, Any] = {
        "run": point.index,
        "drive": plan.profiles[point.drive].name,
        "test": test.id,
        "seed": point.seed,
        **point.values,
    }
    cost = {"wall_s": time.monotonic() - begun, "cpu_s": time.process_time() - cpu}
    return as_table(plan, [(known, measured)], cost, warnings)


def as_table(
    plan: Plan,
    rows: list[tuple[dict[str, Any], Measured]],
    seconds: Mapping[str, float | None],
    warnings: Sequence[str] = (),
) -> pa.Table:
    """Makes the rows of a part: parameters, figures, and cost (`seconds`: wall_s, cpu_s).

    Figures' labels, units and whether they are main ones are in the schema's metadata, under
    "drivebay", by test and column, along with validity warnings, if there are any.
    """
    names = {parameter.name for parameter in plan.spec.parameters}
    labels: dict[str, dict[str, Any]] = {}
    made = []
    for known, measured in rows:
        figures = {_column(key, names): figure for key, figure in measured.figures.items()}
        main = {_column(key, names) for key in measured.main}
        labels[str(known["test"])] = {
            key: [figure.label, figure.unit, key in main] for key, figure in figures.items()
        }
        made.append((known, figures))
    columns = list(dict.fromkeys(key for _, figures in made for key in figures))
    fields = [
        ("run", pa.int64()),
        *((name, pa.string()) for name in ("drive", "suite", "test")),
        ("seed", pa.int64()),
        *((parameter.name, _type(parameter)) for parameter in plan.spec.parameters),
        *((name, pa.float64()) for name in (*columns, "wall_s", "cpu_s")),
        ("peak_memory_bytes", pa.int64()),
        *((name, pa.string()) for name in ("host", "build")),
    ]
    build = provenance.build_line(provenance.build())
    same = {"suite": plan.suite, **seconds, "host": platform.node(), "build": build}
    peak = {"peak_memory_bytes": memory.own_bytes("VmHWM")}
    listed = [
        {**known, **{key: figure.value for key, figure in figures.items()}, **same, **peak}
        for known, figures in made
    ]
    kept = {"labels": labels} | ({"warnings": list(warnings)} if warnings else {})
    metadata = {"drivebay": json.dumps(kept, sort_keys=True)}
    return pa.Table.from_pylist(listed, schema=pa.schema(fields, metadata=metadata))


def _column(key: str, parameters: set[str]) -> str:
    """Column name of a figure: valid in SQL without quotes, and different from the parameters'
    names.

    >>> _column("latency_p99.9", set()), _column("rate", {"rate"})
    ('latency_p99_9', 'rate_figure')
    """
    word = key.replace(".", "_").replace("-", "_")
    return f"{word}_figure" if word in parameters | RESERVED else word


def _type(parameter: Any) -> pa.DataType:
    """Type of a parameter's column. Numbers are doubles, so that all parts agree."""
    some = parameter.values[0] if parameter.values is not None else 0.0
    if isinstance(some, bool):
        return pa.bool_()
    return pa.string() if isinstance(some, str) else pa.float64()
