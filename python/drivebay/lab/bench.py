"""Speed of the core on this machine: the whole model, one core, each case at its steady state.

Times cover only the core's runs. They are meant for comparison with another run on the same machine
in the same hour; no test depends on them.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy  # noqa: F401  # here, as Ctrl-C while the core imports it would be a panic

from drivebay import _core
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import scaled, with_capacity

DRIVE = "sm951-ahci-512"
SEED = 1
BLOCK_4K = 4096
BLOCK_128K = 128 * 1024
# Drives of today, with the share of each that is simulated: all fit in 1 GB of memory.
TODAY = {"980-pro-1tb": 1 / 16, "7450-pro-960": 1 / 16, "p5336-61440": 1 / 512, "p4800x-375": 1 / 8}
# Capacity of each drive that is compared with the SM951: its map does not fit in a cache.
CAPACITY = 32 * 10**9


def run_cases(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Runs all cases, about a minute.

    Parameters
    ----------
    say : called with a line of progress before each case.

    Returns
    -------
    list of dict
        name; ios_per_s, host I/Os per wall-clock second; seconds of wall clock; rss_bytes, the
        process's peak memory so far; waf, None if nothing was written.
    """
    # Unrealistically cool: the bench measures the model's speed, not a throttled drive at 75 MB/s.
    profile = changed(catalog.load(DRIVE), ["thermal.network.module_to_air_k_per_w=0.01"])
    drive = _core.VirtualDrive(profile.core, SEED)
    capacity = profile.capacity_bytes // BLOCK_128K * BLOCK_128K
    fill = _load("sequential", 0, BLOCK_128K, capacity, bytes=capacity)
    cases = []

    def case(name: str, workload: _core.Workload) -> None:
        cases.append(_timed(name, drive, workload, say))

    case("fill_512g_first", fill)
    drive.reset(profile.core, SEED)
    case("fill_512g", fill)
    case("randread_4k_qd32_512g", _load("random", 100, BLOCK_4K, capacity, duration_s=120))
    case("seqwrite_128k_512g", _load("sequential", 0, BLOCK_128K, capacity, bytes=2 * capacity))
    say("randwrite_4k_steady_512g: an hour of random writes first, to reach the steady state")
    drive.run(_load("random", 0, BLOCK_4K, capacity, duration_s=3600), SEED)
    case("randwrite_4k_steady_512g", _load("random", 0, BLOCK_4K, capacity, duration_s=1200))
    for name, share in TODAY.items():
        cases += _random_cases(name, scaled(catalog.load(name), share), drive, say)
    return cases


def run_drives(names: Sequence[str], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Runs random reads and writes of catalog drives, scaled to the same capacity, the SM951
    first. Returns cases as `run_cases` does, with `of_reference`, the rate divided by the
    SM951's in the same case and run. Raises UserError if the catalog has no such drive.
    """
    asked = dict.fromkeys((DRIVE, *names))
    profiles = {name: with_capacity(catalog.load(name), CAPACITY) for name in asked}
    drive = _core.VirtualDrive(profiles[DRIVE].core, SEED)
    results: list[dict[str, Any]] = []
    for name, profile in profiles.items():
        cases = _random_cases(name, profile, drive, say)
        reference = results[:2] or cases
        results += [
            {**case, "of_reference": case["ios_per_s"] / same["ios_per_s"]}
            for case, same in zip(cases, reference, strict=True)
        ]
    return results


def _random_cases(
    name: str, profile: Profile, drive: _core.VirtualDrive, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Runs reads and then writes of 4 KiB on a drive that is filled and written once at random."""
    drive.reset(profile.core, SEED)
    capacity = profile.capacity_bytes // BLOCK_128K * BLOCK_128K
    say(f"{name}, {capacity / 1e9:.0f} GB: filled, then as much written at random")
    drive.run(_load("sequential", 0, BLOCK_128K, capacity, bytes=capacity), SEED)
    drive.run(_load("random", 0, BLOCK_4K, capacity, bytes=capacity), SEED)
    reads = _load("random", 100, BLOCK_4K, capacity, duration_s=20)
    writes = _load("random", 0, BLOCK_4K, capacity, bytes=capacity // 4)
    loads = {f"randread_4k_qd32_{name}": reads, f"randwrite_4k_steady_{name}": writes}
    return [_timed(case, drive, workload, say) for case, workload in loads.items()]


def _load(
    pattern: Literal["random", "sequential"], read_percent: int, block: int, span: int, **stop: int
) -> _core.Workload:
    return _core.Workload(
        pattern=pattern,
        read_percent=read_percent,
        block_bytes=block,
        queue_depth=32,
        span_start_bytes=0,
        span_bytes=span,
        stop=stop,
    )


def _timed(
    name: str, drive: _core.VirtualDrive, workload: _core.Workload, say: Callable[[str], None]
) -> dict[str, Any]:
    say(name)
    begin = time.perf_counter()
    # Random draws differ from those that aged the drive; the same ones again would be a hot spot.
    columns = drive.run(workload, SEED + 1)
    seconds = time.perf_counter() - begin
    ios = int(columns.reads.sum() + columns.writes.sum())
    before, after = columns.before, columns.after
    host_pages = after.host_pages - before.host_pages
    placed_pages = after.placed_pages - before.placed_pages
    return {
        "name": name,
        "ios_per_s": ios / seconds,
        "seconds": seconds,
        "rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "waf": placed_pages / host_pages if host_pages else None,
    }
