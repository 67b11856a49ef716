"""Proof of `drivebay twin`: drives whose truth is known, and drives that others measured.

    scripts/twin_proof.py virtual --cases 0,1,2 --out rows.jsonl
    scripts/twin_proof.py public CLONE --drive intel --out rows.jsonl
    scripts/twin_proof.py summary rows.jsonl

`virtual` draws a drive of the catalog and values within their ranges, measures the planned loads on
that drive, and predicts other loads. `public` reads a clone of github.com/Tratori/nvme-bench-delab,
fits every second load and predicts the others. `summary` counts what docs/concepts/twin.md has.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from drivebay import results, review
from drivebay._core import QUEUE_DEPTH_MAX
from drivebay.common.errors import UserError
from drivebay.definitions import profiles, suites
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import with_capacity
from drivebay.definitions.suites import Workload
from drivebay.definitions.suites.loader import parse
from drivebay.lab.fit import fit, twin
from drivebay.lab.fit.outcome import Calibration
from drivebay.lab.fit.parameters import Parameter, with_values
from drivebay.lab.journal import Journal
from drivebay.results.foreign import Foreign, ImportedFile, rates_only
from drivebay.targets.virtual.target import VirtualTarget

BASES = (
    "sm951-nvme-128",
    "970-evo-plus-250gb",
    "7450-pro-960",
    "pm9a3-960",
    "samsung-850-pro-512",
    "980-pro-500gb",
)
SIZE = int(4e9)
# Values that the twin may change, and of these the ones that the drive has changed.
FITTED, CHANGED = 12, 8
SECTIONS = ("controller", "nand", "host", "gc", "write_buffer", "read_ahead", "slc_cache", "link")
BUDGET_S = 3600.0
FILL = [{"kind": "fill"}, {"kind": "rest", "seconds": 60}]
USED = [
    {"kind": "fill"},
    {
        "kind": "load",
        "load": {
            "pattern": "random",
            "read_percent": 0,
            "block_bytes": 4096,
            "queue_depth": 32,
            "duration_s": 0.8,
        },
    },
]


def checks() -> Any:
    """Loads that no plan has: other depths, sizes, mixes and states."""

    def test(name: str, prepare: Any, *loads: tuple[str, int, int, int]) -> dict[str, Any]:
        phases = [
            {
                "label": f"b{block // 512}-r{mix}-qd{depth}",
                "workload": {
                    "pattern": pattern,
                    "read_percent": mix,
                    "block_bytes": block,
                    "queue_depth": depth,
                    "duration_s": 0.2,
                },
            }
            for pattern, block, mix, depth in loads
        ]
        about = {"title": name, "page": "checks", "kind": "loads", "method": name, "source": "here"}
        return {"id": name, **about, "prepare": prepare, "phases": phases}

    random, line = "random", "sequential"
    tests = [
        test(
            "check-reads",
            FILL,
            (random, 4096, 100, 8),
            (random, 4096, 100, 64),
            (random, 16384, 100, 4),
        ),
        test("check-lines", FILL, (line, 65536, 100, 2), (line, 262144, 0, 8)),
        test("check-writes", FILL, (random, 4096, 0, 8), (random, 32768, 0, 2)),
        test(
            "check-mixes",
            FILL,
            (random, 4096, 50, 4),
            (random, 4096, 80, 32),
            (random, 16384, 60, 8),
        ),
        test(
            "check-used", USED, (random, 4096, 0, 16), (random, 4096, 50, 8), (random, 4096, 100, 8)
        ),
    ]
    head = {"schema_version": 1, "name": "checks", "title": "Checks", "description": "held out"}
    return parse({**head, "source": "here", "tests": tests}, where="checks")


def drawn(case: int) -> tuple[Profile, Profile, tuple[Parameter, ...], dict[str, float]]:
    """The base, the drive, the values that the twin may change, and the drive's own."""
    rng = np.random.default_rng([69, case])
    base = with_capacity(profiles.load(BASES[case % len(BASES)]), SIZE)
    pool = [p for p in twin.usual_parameters(base) if p.name.split(".")[0] in SECTIONS]
    while True:
        picked = sorted(rng.choice(len(pool), FITTED, replace=False).tolist())
        fitted = tuple(pool[i] for i in picked)
        changed = tuple(fitted[i] for i in sorted(rng.choice(FITTED, CHANGED, replace=False)))
        try:
            values = [p.value(float(rng.uniform(0.1, 0.9))) for p in changed]
            own = {p.name: p.start for p in fitted}
            own |= {p.name: value for p, value in zip(changed, values, strict=True)}
            return base, with_values(base, changed, values), fitted, own
        except UserError:  # the model refuses such a drive
            continue


def virtual(case: int, out: Path) -> dict[str, Any]:
    """Measures, fits and predicts one drawn drive. The files beside `out` continue a run that was
    stopped.
    """
    began = time.monotonic()
    base, drive, fitted, truth = drawn(case)
    suite = suites.load("twin")
    planned = out.with_name(f"case-{case}.json")
    if not planned.exists():
        size = base.capacity_bytes
        plan = twin.plan(base, fitted, suite, capacity_bytes=size, budget_s=BUDGET_S)
        planned.write_text(json.dumps([list(plan.gains), plan.seconds]))
    chosen, seconds = json.loads(planned.read_text())
    tests = (
        *suite.shortened().selected(tuple(t.id for t in suite.tests if t.id in chosen)).tests,
        *checks().tests,
    )
    with tempfile.TemporaryDirectory() as place:
        folder = review.run(
            lambda: VirtualTarget(drive),
            suite.model_copy(update={"tests": tests}),
            out=Path(place) / "loads",
            seed=100 + case,
        )
        twin_out = out.with_name(f"case-{case}.toml")
        twin_out.unlink(missing_ok=True)
        made = fit(
            folder,
            base=base,
            parameters=[parameter.name for parameter in fitted],
            hold_out=[test.id for test in checks().tests],
            loads=True,
            evaluations=0,
            out=twin_out,
            resume=Journal.beside(twin_out).exists(),
        )
    values = [
        {
            "name": one.name,
            "truth": truth[one.name],
            "value": one.value,
            "interval": one.interval,
            "open": one.open_share,
        }
        for one in made.parameters
    ]
    about = {
        "case": case,
        "base": base.name,
        "changed": [p.name for p in fitted if p.start != truth[p.name]],
        "plan": chosen,
        "plan_s": seconds,
        "evaluations": made.evaluations,
        "took_s": time.monotonic() - began,
    }
    return {**about, "values": values, "rows": rows_of(made)}


# A drive of the publication: base, changes of it, and files with a filter of their runs.
Runs = list[tuple[str, str, str]]
PUBLIC: dict[str, tuple[str, list[str], Runs]] = {
    # Intel P4610 1.6 TB (SSDPE2KE016T8), PCIe 3.0 x4
    "intel": (
        "p5520-1920",
        ["host=spdk", "link.generation=3"],
        [("mixed_read_write_threads/nx01", "libaio", ""), ("blocksize_read/nx01", "io_uring", "")],
    ),
    # "micron_ssd", "koroneia": 6.4 GB/s and 1.02 million reads per second, so of PCIe 4
    "micron": (
        "cm7-r-3840",
        ["host=spdk", "link.generation=4"],
        [
            ("read_write_empty_ssd", "libaio", ""),
            ("fine_granular_mixed_read_write", "libaio", ""),
        ],
    ),
    # "nx05_ssd": a drive without a name in the data; 6.5 GB/s and 1.56 million reads per second
    "nx05": (
        "cm7-r-3840",
        ["host=spdk", "link.generation=4"],
        [("nx05_mixed_read_write/1_SSDs", "libaio", ""), ("blocksize_read/nx05", "io_uring", "")],
    ),
}
# Requests that a thread of the program keeps outstanding (its IO_DEPTH).
EACH = 128
# Threads whose runs are used: with fewer, the program's processors are the limit, and more are
# deeper than a load of the model can be. 16 by default, where there are no others.
THREADS = {"mixed_read_write_threads/nx01": 8, "nx05_mixed_read_write/1_SSDs": 8}
FILE_BYTES = 10 * 2**30
PUBLIC_BYTES = int(64e9)
# The program reports seconds in which nothing changed; the model needs fewer.
SECONDS = 0.08
WANTED = (
    "host.nvme.serial_us",
    "host.nvme.software_us",
    "controller.host_core_us",
    "controller.read_command_us",
    "controller.write_command_us",
    "controller.read_page_us",
    "controller.write_page_us",
    "controller.write_path_mb_per_s",
    "link.packet_overhead_bytes",
    "nand.read_by_type_us",
    "nand.program_us",
    "nand.channel_mb_per_s",
    "nand.suspend_mean_us",
    "write_buffer.size_kib",
)


def public(clone: Path, name: str, out: Path) -> dict[str, Any]:
    """Fits every second load of a drive that others measured, and predicts the others. The journal
    beside `out` continues a run that was stopped.
    """
    base_name, changes, files = PUBLIC[name]
    base = with_capacity(changed(profiles.load(base_name), changes), PUBLIC_BYTES)
    imported = [imported_file(clone, *file) for file in files]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Foreign("twin", "iob", "JSON", imported, name).write(Path(place) / "loads")
        tests = [(test, load.label) for test, load in named_phases(folder)]
        twin_out = out.with_name(f"{name}.toml")
        twin_out.unlink(missing_ok=True)
        made = fit(
            folder,
            base=base,
            parameters=[p.name for p in twin.usual_parameters(base) if p.name in WANTED],
            hold_out=[f"{test}/{label}" for test, label in tests[1::2]],
            loads=True,
            wide=True,
            evaluations=0,
            out=twin_out,
            resume=Journal.beside(twin_out).exists(),
        )
    about: dict[str, Any] = {"case": name, "base": base_name, "took_s": time.monotonic() - began}
    values = [
        {"name": one.name, "value": one.value, "interval": one.interval, "open": one.open_share}
        for one in made.parameters
    ]
    return {**about, "evaluations": made.evaluations, "values": values, "rows": rows_of(made)}


def named_phases(folder: Path) -> list[Any]:
    """The phases of a result, each with its test's name."""
    return [(test.id, phase) for test in results.load(folder).suite.tests for phase in test.phases]


def imported_file(clone: Path, path: str, engine: str, target: str) -> ImportedFile:
    """The medians over the repetitions of a file's runs, as phases."""
    command = ["git", "-C", str(clone), "show", f"HEAD:results/{path}/benchmark.json"]
    (runs,) = json.loads(subprocess.run(command, capture_output=True, check=True).stdout).values()
    phases = []
    for run in runs:
        if run["IOENGINE"] != engine or (target and run.get("FILENAME") != target):
            continue
        iops = float(np.median([float(one["iops"]) for one in run["repetitions"]])) * 1e6
        block, writes = int(run.get("BS", 4096)), float(run.get("RW", 0))
        threads, line = int(run["THREADS"]), run.get("IOPATTERN") == "seq"
        if threads != THREADS.get(path, 16):
            continue
        load = Workload(
            pattern="sequential" if line else "random",
            read_percent=round(100 - 100 * writes, 3),
            block_bytes=block,
            queue_depth=min(QUEUE_DEPTH_MAX, EACH * threads),
            duration_s=SECONDS,
        )
        label = f"{'seq-' if line else ''}b{block}-w{100 * writes:g}-t{threads}"
        rates = {"mb_per_s": iops * block / 1e6, "iops": iops}
        phases.append(rates_only(label, load, **rates, duration_s=SECONDS))
    about = {"version": "iob of leanstore", "method": "io_uring or libaio on a file of 10 GiB"}
    place = Path(tempfile.mkdtemp(), f"{path.replace('/', '-')}.json")
    place.write_text("{}")
    return ImportedFile(place, **about, phases=phases, device="f", capacity_bytes=FILE_BYTES)


def rows_of(made: Calibration) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "measured": one.observed,
            "base": one.before,
            "twin": one.after,
            "interval": one.interval,
        }
        for one in made.figures
        if one.held_out
    ]


def summary(path: Path) -> None:
    """Prints the counts of all cases in the file."""
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    for case in cases:
        for kind, bound in (("rate", 10), ("p99", 25)):
            _count(f"{case['case']} {case['base']} {kind}", [case], kind, bound)
    for kind, bound in (("rate", 10), ("p99", 25), ("", 0)):
        _count(f"all {kind}", cases, kind, bound)
    values = [value for case in cases for value in case.get("values", ())]
    held = [value for value in values if value["interval"] and "truth" in value]
    inside = sum(_inside(value["truth"], value["interval"]) for value in held)
    if held:
        told = sum((value["open"] or 1) <= 0.5 for value in held)
        print(f"values: {inside} of {len(held)} inside their interval; {told} determined")


def _inside(value: float, ends: Any) -> bool:
    return bool(ends[0] * (1 - 1e-9) <= value <= ends[1] * (1 + 1e-9))


def _count(name: str, cases: list[Any], kind: str, bound: float) -> None:
    rows = [row for case in cases for row in case["rows"] if kind in row["name"]]
    if not rows:
        return
    errors = np.array(
        [abs(row["twin"] / row["measured"] - 1) if row["twin"] else 1 for row in rows]
    )
    before = np.array(
        [abs(row["base"] / row["measured"] - 1) if row["base"] else 1 for row in rows]
    )
    limits = [bound or (10 if "rate" in row["name"] else 25) for row in rows]
    good = sum(100 * error <= limit for error, limit in zip(errors, limits, strict=True))
    inside = sum(
        bool(row["interval"]) and _inside(row["measured"], row["interval"]) for row in rows
    )
    print(
        f"{name}: {good} of {len(rows)} within; median error {100 * np.median(errors):.1f} % "
        f"(base {100 * np.median(before):.1f} %); {inside} inside, "
        f"{100 * inside / len(rows):.0f} %"
    )


def main() -> None:
    """Runs one of the parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("virtual", "public", "summary"))
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--cases", default="0,1,2,3,4,5,6,7,8,9")
    parser.add_argument("--drive")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.part == "summary":
        summary(given.path)
        return
    if given.part == "public":
        with given.out.open("a") as file:
            file.write(json.dumps(public(given.path, given.drive, given.out)) + "\n")
        return
    for case in given.cases.split(","):
        made = virtual(int(case), given.out)
        with given.out.open("a") as file:
            file.write(json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
