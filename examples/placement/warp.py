"""WARP's two real drives, one stream and three through handles, beside theory and the model.

Sources: counters of two drives in the artifact of WARP (FAST 2026; archive/result-FIO of
WARP-FAST26-AE), a Samsung PM9D3a of 7.68 TB and a FADU drive of 3.84 TB; their authors' abstract at
SNIA's developer conference for three streams. Neither is in the catalog, and neither's spare flash
is published. Here each is a PM9A3 whose spare flash is what theory (lmcache.py) asks for at the
published write amplification of one stream: 128 KiB uniformly at random at depth 128 over the whole
drive, for 40 and 72 drive writes, of which the last tenth counts. All else is the model's: one
stream again, and three (study.py): over the whole run, and in the quarter of a drive write in which
it is highest, once the spare flash of the newly filled drive is used up. Not published: how the
drives isolate handles, and the shares of the streams.

Usage: python examples/placement/warp.py [SHARE OF THE DRIVE, 1/128] [SECONDS OF THREE, 60]
"""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

from drivebay import Workload, drive
from drivebay.library.drives import Drive

HERE = Path(__file__).parent
STUDY = runpy.run_path(str(HERE / "study.py"))
THEORY = runpy.run_path(str(HERE / "lmcache.py"))["uniform"]
PUBLISHED = {
    "PM9D3a": (2.04, {"uniform": "2.58"}),
    "FADU": (3.68, {"uniform": "4.49", "zipf:1.2": "1.3 to 1.5"}),
}
"""Of one stream; of three with handles, by how the third one overwrites."""


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


def one_stream(what: Drive) -> float:
    """Steady: of the fifth of a drive write behind four of them."""
    device = what.device()
    device.fill()
    load = Workload(block_bytes=128 << 10, queue_depth=128, bytes=4 * device.capacity_bytes)
    device.run(load)
    before = device.counters()
    device.run(load.model_copy(update={"bytes": device.capacity_bytes // 5}))
    after = device.counters()
    return (after.placed_pages - before.placed_pages) / (after.host_pages - before.host_pages)


def highest(what: Drive, skew: str) -> float:
    """Of three streams in quarters of a drive write, up to two from a newly filled drive."""
    device = what.device()
    loads = STUDY["prepared"](device, (0, 1, 2), skew)
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
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    print("| drive | spare | streams | published | model | highest |\n|---|---|---|---|---|---|")
    for name, (alone, three) in PUBLISHED.items():
        spare = spare_of(alone)
        what = drive("pm9a3-960").scaled(share).with_(over_provisioning=f"{100 * spare:.1f}%")
        row = f"| {name} | {100 * spare:.1f} %"
        print(f"{row} | one | {alone} | {one_stream(what):.2f} | |")
        for skew, published in three.items():
            for isolation in ("initial", "persistent"):
                placed = what.with_(f"fdp=3:{isolation}")
                got = STUDY["amplification"](placed, (0, 1, 2), skew, seconds)[0]
                most = highest(placed, skew)
                print(
                    f"{row} | three, {skew}, {isolation} | {published} | {got:.2f} | {most:.2f} |"
                )


if __name__ == "__main__":
    main()
