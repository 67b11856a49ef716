"""Three streams with and without placement handles: write amplification of each.

Usage: study.py [DRIVE] [SECONDS] [SHARE]. One stream is written in circles over nine tenths of the
drive, one at random over the rest, and one overwrites the first one's part, skewed. The drive is
scaled to SHARE of its flash, and the load runs for SECONDS of its time.

The loads are those of the study of FDP by WARP's authors (FAST 2026, 3-stream fio jobs); how the
rate divides among the streams follows from the drive's timing, not from the jobs.
"""

from __future__ import annotations

import sys

import drivebay
from drivebay import Device, Drive, Workload

Handles = tuple[int, int, int]
WAYS: dict[str, tuple[str | None, Handles]] = {
    "no placement": (None, (0, 0, 0)),
    "initially isolated": ("fdp=3:initial", (0, 1, 2)),
    "persistently isolated": ("fdp=3:persistent", (0, 1, 2)),
    "first and third share": ("fdp=3:persistent", (0, 1, 0)),
}
SKEWS = ("uniform", "zipf:1.2", "zoned:80/20:10/20:10/60")


def prepared(device: Device, handles: Handles, skew: str) -> dict[str, Workload]:
    """Fills a new drive, in sequence and at random; returns the three loads."""
    block = 128 << 10
    span = device.capacity_bytes * 9 // 10 // block * block
    rest = device.capacity_bytes // 4096 * 4096 - span
    sequential = Workload(
        pattern="sequential", block_bytes=block, queue_depth=1, span_bytes=span, handle=handles[0]
    )
    random = Workload(span_start_bytes=span, span_bytes=rest, handle=handles[1])
    skewed = Workload(span_bytes=span, offsets=skew, handle=handles[2])
    device.run(sequential.model_copy(update={"bytes": span}))
    device.run(random.model_copy(update={"bytes": rest, "offsets": "permutation"}))
    device.rest(1800)
    return {"sequential": sequential, "random": random, "skewed": skewed}


def amplification(drive: Drive, handles: Handles, skew: str, seconds: float) -> list[float]:
    """Of the whole drive, then of each handle (and of the copies' own frontier)."""
    device = drive.device()
    together = prepared(device, handles, skew)
    before, used = device.counters(), device.placement()
    ends = {"duration_s": seconds}
    device.run_jobs({name: load.model_copy(update=ends) for name, load in together.items()})
    after = device.counters()
    figures = [(after.placed_pages - before.placed_pages) / (after.host_pages - before.host_pages)]
    for old, new in zip(used, device.placement(), strict=True):
        written, copied = new.written_4k - old.written_4k, new.copied_4k - old.copied_4k
        figures.append((written + copied) / written if written else 0.0)
    return figures


def main() -> None:
    name, seconds, share = [*sys.argv[1:], *["pm9a3-960", "120", "0.015625"][len(sys.argv) - 1 :]]
    drive = drivebay.drive(name).scaled(float(share))
    print("| overwrites | way | drive | by handle |\n|---|---|---|---|")
    for skew in SKEWS:
        for way, (words, handles) in WAYS.items():
            placed = drive.with_(words) if words else drive
            whole, *each = amplification(placed, handles, skew, float(seconds))
            print(f"| {skew} | {way} | {whole:.2f} | {', '.join(f'{one:.2f}' for one in each)} |")


if __name__ == "__main__":
    main()
