"""LMCache's published write amplification, beside theory and the model.

Source: LMCache pull request 4016, comment of 2026-07-28: a Samsung PM9D3a with 960 GiB to test on,
filled in sequence; nine workers on 855 GiB of it write four times the capacity; 2.600 without
placement, 1.425 with a handle for each class of workers (initially isolated, reclaim units of
16 GiB). Not published: the drive's spare flash, how many bytes each class writes, and in which
order a worker overwrites its objects. Here they are parameters: each worker writes as much of its
span as the others, at random or around and around.

Theory: uniform writes to hot data, greedy victims (Desnoyers, SYSTOR 2012, for large blocks): with
s the flash that is left for the hot data over that data, w = s + W(-s e^-s) of Lambert's function,
write amplification is s / w.

Usage: python examples/placement/lmcache.py [SHARE OF THE DRIVE, 1/64]
"""

from __future__ import annotations

import math
import sys
import warnings

from drivebay import Workload, drive
from drivebay.library.drives import Drive

CLASSES = {"chat": (2, 90), "long": (1, 180), "rag": (2, 90), "random": (3, 90), "meta": (1, 45)}
"""Workers, and the GiB of each."""
CAPACITY_GIB, HOT_GIB = 960, 855
OBJECT_BYTES = 65536
"""4 MiB on the whole drive."""
PUBLISHED = 2.600, 1.425


def theory(spare: float) -> float:
    """With so much flash more than capacity; the part that no worker writes lies still.

    >>> round(theory(0.147), 2)
    3.7
    """
    return uniform((CAPACITY_GIB * (1 + spare) - (CAPACITY_GIB - HOT_GIB)) / HOT_GIB)


def uniform(s: float) -> float:
    """With so much flash over the data that is written uniformly at random."""
    low, high = 0.0, s - 1e-9  # of -W: x e^-x rises up to 1
    for _ in range(200):
        x = (low + high) / 2
        low, high = (x, high) if x < 1 and x * math.exp(-x) < s * math.exp(-s) else (low, x)
    return s / (s - low)


def loads(capacity_bytes: int, in_circles: set[str], handles: bool) -> dict[str, Workload]:
    """Nine workers, one after another on the drive."""
    found, at = {}, 0
    for handle, (name, (workers, gib)) in enumerate(CLASSES.items()):
        span = capacity_bytes * gib // CAPACITY_GIB // OBJECT_BYTES * OBJECT_BYTES
        for worker in range(workers):
            found[f"{name}{worker}"] = Workload(
                pattern="sequential" if name in in_circles else "random",
                block_bytes=OBJECT_BYTES,
                span_start_bytes=at,
                span_bytes=span,
                queue_depth=max(1, gib // 45),
                duration_s=1.0,
                handle=handle if handles else 0,
            )
            at += span
    return found


def measured(what: Drive, in_circles: set[str], handles: bool) -> float:
    """Write amplification while four times the capacity is written, from a drive just filled."""
    device = (what.with_(fdp=f"{len(CLASSES)}:initial") if handles else what).device()
    device.fill()
    jobs = loads(device.capacity_bytes, in_circles, handles)
    before = now = device.counters()
    while (now.host_pages - before.host_pages) * 4096 < 4 * device.capacity_bytes:
        device.run_jobs(jobs)
        now = device.counters()
    return (now.placed_pages - before.placed_pages) / (now.host_pages - before.host_pages)


def main() -> None:
    """Prints a table."""
    warnings.simplefilter("ignore")
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1 / 64
    base = drive("pm9a3-960").scaled(share)
    own = base.flash_bytes / base.capacity_bytes - 1
    orders: dict[str, set[str]] = {
        "at random": set(),
        "chat and random prompts at random, the rest in circles": {"long", "rag", "meta"},
        "in circles": set(CLASSES),
    }
    print("| spare | objects are overwritten | theory | no handles | a handle a class |")
    print("|---|---|---|---|---|")
    print(f"| ? | ? | | {PUBLISHED[0]:.2f} (published) | {PUBLISHED[1]:.2f} (published) |")
    for spare in (own, 0.234):
        what = base if spare == own else base.with_(over_provisioning=f"{100 * spare:.1f}%")
        for order, in_circles in orders.items():
            says = f"{theory(spare):.2f}" if not in_circles else "1" if len(in_circles) > 4 else ""
            found = (f"{measured(what, in_circles, handles):.2f}" for handles in (False, True))
            print(f"| {100 * spare:.1f} % | {order} | {says} | {' | '.join(found)} |")


if __name__ == "__main__":
    main()
