"""WARP's three uniform streams through handles on two real drives: where a run is dearest.

Sources: the abstract of WARP's authors at SNIA's developer conference (2.58 and 4.49 for three
streams), counters of both drives in WARP's artifact (2.04 and 3.68 for one stream). `drivebay
validate` has these figures over whole runs (docs/concepts/placement-figures.md). This script shows
the quarter of a drive write with the highest write amplification, after the spare flash of the
newly filled drive is used up. Each drive is a PM9A3 whose spare flash is what theory (lmcache.py)
requires for the published figure of one stream. Not published: how the drives isolate handles, the
shares of the streams, and which part of a run counts.

Usage: python examples/placement/warp.py [SHARE OF THE DRIVE, 1/128]
"""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

from drivebay import drive
from drivebay.library.drives import Drive

HERE = Path(__file__).parent
STUDY = runpy.run_path(str(HERE / "study.py"))
THEORY = runpy.run_path(str(HERE / "lmcache.py"))["uniform"]
PUBLISHED = {"PM9D3a": (2.04, 2.58), "FADU": (3.68, 4.49)}
"""Of one stream, and of three with handles, all uniform."""


def spare_of(amplification: float) -> float:
    """The spare flash, over capacity, at which one uniform stream is amplified so.

    >>> round(spare_of(2.04), 2), round(spare_of(3.68), 2)
    (0.37, 0.17)
    """
    low, high = 0.01, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if THEORY(1 + middle) > amplification else (low, middle)
    return low


def highest(what: Drive) -> float:
    """Of three streams in quarters of a drive write, up to two from a newly filled drive."""
    device = what.device()
    loads = STUDY["prepared"](device, (0, 1, 2), "uniform")
    before, end, found = device.counters(), device.counters().host_pages, []
    end += 2 * device.capacity_bytes // 4096
    while before.host_pages < end:
        quarter = before.host_pages + device.capacity_bytes // 4096 // 4
        while (after := device.counters()).host_pages < quarter:
            device.run_jobs(
                {name: load.model_copy(update={"duration_s": 0.5}) for name, load in loads.items()}
            )
        host = after.host_pages - before.host_pages
        found.append((after.placed_pages - before.placed_pages) / host)
        before = after
    return max(found)


def main() -> None:
    """Prints a table."""
    warnings.simplefilter("ignore")
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1 / 128
    print("| drive | spare | isolated | published | highest |\n|---|---|---|---|---|")
    for name, (alone, three) in PUBLISHED.items():
        spare = f"{100 * spare_of(alone):.1f}"
        for isolation in ("initial", "persistent"):
            words = (f"over_provisioning={spare}%", f"fdp=3:{isolation}")
            what = drive("pm9a3-960").scaled(share).with_(*words)
            print(f"| {name} | {spare} % | {isolation}ly | {three} | {highest(what):.2f} |")


if __name__ == "__main__":
    main()
