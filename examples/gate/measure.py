#!/usr/bin/env python3
"""Measures what `drivebay gate` sees on this machine, for the loads of loads.py: the spread of the
I/O time over recordings of the same program beside that of its wall time, planted changes, and
equal sets.

usage: measure.py FOLDER [--runs N] [--sets N] [--percent P] NAME...

Each load is recorded in sets of N runs: equal ones, in the order of time, and one with P per cent
more work. Set 1 is compared with that one, and the equal sets each with the next. Existing sets are
kept. Needs root. The machine is as busy as it is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

LOADS = Path(__file__).resolve().parent / "loads.py"
PROGRAM = [sys.executable, "-m", "drivebay", "gate"]


def record(folder: Path, name: str, runs: int, percent: float) -> None:
    """Records a set, with the wall time of each run in nanoseconds in a file beside it."""
    load = shlex.join([sys.executable, str(LOADS), name, "work", str(percent)])
    setup = ["--setup", shlex.join([sys.executable, str(LOADS), name, "setup"])]
    times = shlex.quote(f"{folder.resolve()}.wall")
    timed = f"begin=$(date +%s%N); {load} || exit; echo $(($(date +%s%N) - begin)) >> {times}"
    words = ["--out", str(folder), "--runs", str(runs), "--", "sh", "-c", timed]
    setup = setup if name == "postgresql" else []
    subprocess.run([*PROGRAM, "record", *setup, *words], check=True)


def spread(values: list[float]) -> str:
    """Range and standard deviation, in per cent of the mean."""
    mean = statistics.fmean(values)
    parts = (max(values) - min(values), statistics.stdev(values))
    return " / ".join(f"{100 * part / mean:.2f} %" for part in parts)


def compare(base: Path, new: Path) -> tuple[dict[str, dict[str, float | str]], str]:
    """Figures with their changes, and those that are worse or better."""
    done = subprocess.run(
        [*PROGRAM, "compare", str(base), str(new), "--json"], stdout=subprocess.PIPE, check=False
    )
    figures = json.loads(done.stdout)
    shown = {n: c for n, c in figures.items() if c["verdict"] in ("worse", "better")}
    parts = [f"{n} {c['percent']:+.2f} %" for n, c in shown.items() if not n.endswith("KiB")]
    classes = sum(name.endswith("KiB") for name in shown)
    return figures, f"{', '.join(parts) or 'none'}; {classes} classes"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--percent", type=float, default=2)
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True, parents=True)
    for name in asked.names:
        sets = [asked.folder / f"{name}-{number}" for number in range(1, asked.sets + 1)]
        planted = asked.folder / f"{name}-planted"
        for folder in (*sets, planted):
            if not folder.exists():
                record(folder, name, asked.runs, asked.percent if folder == planted else 0)
        times, walls = [], []
        for folder in sets:
            words = [*PROGRAM, "time", str(folder), "--json"]
            done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
            times += [run["I/O time"] for run in json.loads(done.stdout)]
            walls += [float(line) for line in Path(f"{folder}.wall").read_text().split()]
        print(f"{name}: I/O time {statistics.median(times):.4g} ms, {len(times)} recordings")
        print(f"  spread of I/O time {spread(times)}, of wall time {spread(walls)}")
        figures, shown = compare(sets[0], planted)
        for figure in ("bytes written", "flushes"):
            print(f"  planted: {figure} {figures[figure]['percent']:+.2f} %")
        print(f"  planted: shown {shown}")
        for first, second in itertools.pairwise(sets):
            print(f"  equal: shown {compare(first, second)[1]}", flush=True)


if __name__ == "__main__":
    main()
