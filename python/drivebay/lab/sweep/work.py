"""What a worker does for one run: make the drive, run the test, compute the figures, keep the part.

A run depends on the plan and its number alone: the same as `drivebay review DRIVE --only TEST` with
the run's seed and changes. Only wall time, memory and host differ from time to time.
Peak memory (proc(5): VmHWM, reset by clear_refs) and processor time are those of the process,
interpreter and libraries with it; with several runs in one process they are those of all of them.
"""

from __future__ import annotations

import contextlib
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from drivebay.analysis.figures import Figure, Measured
from drivebay.analysis.measure import measure
from drivebay.common import provenance
from drivebay.common.errors import DrivebayError
from drivebay.common.seeds import derived_seed
from drivebay.lab.sweep import plan as plans
from drivebay.lab.sweep.plan import Plan, Point
from drivebay.lab.sweep.spec import RESERVED
from drivebay.lab.sweep.store import Store
from drivebay.targets.base import Progress
from drivebay.targets.virtual.target import VirtualTarget

Outcome = dict[str, Any]
"""What a worker answers: "index", "wall_s", validity "warnings", and of a run that failed "error"
and "again": whether trying once more may help; "hint" where the worker is another build, with which
nothing is run."""


def run(plan_json: str, url: str, index: int) -> Outcome:
    """One run of the plan, kept at `url`."""

    def work() -> list[str]:
        plan = plans.from_json(plan_json)
        part = row(plan, plan.point(index))
        Store(url).write_part(index, plan.fingerprint, part)
        return list(json.loads(part.schema.metadata[b"drivebay"]).get("warnings", ()))

    return answer(index, work)


def answer(index: int, work: Callable[[], list[str] | None]) -> Outcome:
    """What the worker answers after `work`, which returns validity warnings; never raises, as not
    every error can be pickled."""
    begun = time.monotonic()
    found: Outcome = {"index": index}
    try:
        found["warnings"] = work() or []
    except plans.OtherBuild as problem:
        found |= {"error": problem.message, "hint": problem.hint}
    except DrivebayError as problem:
        found |= {"error": f"{problem.message} ({problem.hint})", "again": False}
    except Exception as problem:
        text = " ".join(str(problem).split())
        found |= {"error": f"{type(problem).__name__}: {text}", "again": True}
    return {**found, "wall_s": time.monotonic() - begun}


def row(plan: Plan, point: Point) -> pa.Table:
    """Runs one run and returns its part."""
    _reset_peak()
    begun, cpu = time.monotonic(), time.process_time()
    test = plan.test(point)
    profile = plan.profile(point)
    with contextlib.closing(VirtualTarget(profile)) as target:
        target.check((test,))
        target.expect((test,), seed=point.seed, copies_max=0)
        seed = derived_seed(point.seed, test.id)
        phases = target.run_test(test, seed=seed, progress=Progress())
    found = measure(test, phases)
    known: dict[str, Any] = {
        "run": point.index,
        "drive": plan.profiles[point.drive].name,
        "suite": plan.suite,
        "test": test.id,
        "seed": point.seed,
        **point.values,
    }
    cost = {"wall_s": time.monotonic() - begun, "cpu_s": time.process_time() - cpu}
    warnings = [one for phase in phases for one in phase.conditions.get("warnings", ())]
    return as_table(plan, [(known, found)], cost, warnings)


def as_table(
    plan: Plan,
    rows: list[tuple[dict[str, Any], Measured]],
    seconds: Mapping[str, float | None],
    warnings: Sequence[str] = (),
) -> pa.Table:
    """Rows of a part: what was run, its figures, what it cost (`seconds`: wall_s, cpu_s).

    Figures' labels, units and whether they are main ones stand in the schema's metadata, under
    "drivebay", by test and column; beside them validity warnings, if there are any.
    """
    names = {one.name for one in plan.spec.parameters}
    labels: dict[str, dict[str, Any]] = {}
    made = []
    for known, found in rows:
        figures = {_column(key, names): one for key, one in found.figures.items()}
        main = {_column(key, names) for key in found.main}
        labels[str(known["test"])] = {
            key: [one.label, one.unit, key in main] for key, one in figures.items()
        }
        made.append((known, figures))
    columns = list(dict.fromkeys(key for _, figures in made for key in figures))
    fields = [
        pa.field("run", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("drive", "suite", "test")),
        pa.field("seed", pa.int64()),
        *(pa.field(one.name, _type(one)) for one in plan.spec.parameters),
        *(pa.field(name, pa.float64()) for name in columns),
        pa.field("wall_s", pa.float64()),
        pa.field("cpu_s", pa.float64()),
        pa.field("peak_memory_bytes", pa.int64()),
        pa.field("host", pa.string()),
        pa.field("build", pa.string()),
    ]
    build = provenance.build_line(provenance.build())
    cost = {**seconds, "peak_memory_bytes": _peak_bytes(), "host": platform.node(), "build": build}
    listed = [{**known, **_values(figures), **cost} for known, figures in made]
    kept = {"labels": labels} | ({"warnings": list(warnings)} if warnings else {})
    metadata = {"drivebay": json.dumps(kept, sort_keys=True)}
    return pa.Table.from_pylist(listed, schema=pa.schema(fields, metadata=metadata))


def _column(key: str, parameters: set[str]) -> str:
    """A figure's column: a word that SQL takes as it is, and no parameter's.

    >>> _column("latency_p99.9", set()), _column("rate", {"rate"})
    ('latency_p99_9', 'rate_figure')
    """
    word = key.replace(".", "_").replace("-", "_")
    return f"{word}_figure" if word in parameters | RESERVED else word


def _values(figures: Mapping[str, Figure]) -> dict[str, float | None]:
    return {key: one.value for key, one in figures.items()}


def _type(parameter: Any) -> pa.DataType:
    """Numbers are doubles, so that all parts agree."""
    some = parameter.values[0] if parameter.values is not None else 0.0
    if isinstance(some, bool):
        return pa.bool_()
    return pa.string() if isinstance(some, str) else pa.float64()


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int | None:
    """The most memory that this process has held since, None where the kernel does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None
