"""Comparison of ways to prepare a drive by their distance from the steady state of random writes.

A virtual drive counts the pages that it programs, so it can report what a real one hides: its write
amplification just after a preparation, and after writes that continue until preparation no longer
matters. Ways: two sequential passes (SNIA PTS 2.0.1's workload-independent preconditioning); a
sequential pass and random writes of twice the capacity; and the single pass of fio 3.41's
`sprandom`, which writes addresses so that each region has as many overwritten pages as a drive in
steady state would have invalid pages (fio's HOWTO; the core has that order of writes). Leaves out:
other loads than uniform random 4 KiB; rates, which depend on heat as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from drivebay import _core
from drivebay.common.errors import UserError
from drivebay.common.seeds import derived_seed
from drivebay.definitions.profiles import Profile
from drivebay.targets.virtual.target import writes

Method = Literal["two-fills", "random", "sprandom"]
METHODS: tuple[Method, ...] = get_args(Method)
PAGE_BYTES = 4096
FILL_BYTES = 128 * 1024
# Capacities of random writes in the way "random"; after SNIA's and makers' twice.
RANDOM_TIMES = 2
# Share of the capacity that is written for one reading of the write amplification.
SLICE = 0.1
# Capacities of random writes after which a drive counts as steady; readings over the last
# capacity are averaged.
LONG_TIMES = 6
NEAR_PERCENT = 5.0


@dataclass(frozen=True)
class Prepared:
    """Result of a way of preparing.

    `drive_s`: seconds of the drive's time; `written`: capacities that the host wrote; `waf`: write
    amplification of the random writes just after; `steady_waf`: that after a long run; `more`:
    capacities of random writes until it stays within 5 % of that, None if it never did.
    """

    method: Method
    drive_s: float
    written: float
    waf: float
    steady_waf: float
    more: float | None

    @property
    def error_percent(self) -> float:
        """Deviation of the write amplification."""
        return 100 * (self.waf / self.steady_waf - 1)


def prepare(
    profile: Profile,
    methods: Sequence[Method] = METHODS,
    *,
    seed: int = 1,
    spare: float | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Prepared]:
    """Prepares the drive anew by each method, and compares it with the same drive after a long
    run. `spare`: spare flash over the capacity that sprandom assumes (fio's `spr_op`); by
    default the drive's own, which nobody knows for a real drive. `say`: called with a line of
    progress. Raises UserError if `spare` is not above 0, up to 1.
    """
    own = profile.flash_bytes / profile.capacity_bytes - 1
    spare = own if spare is None else spare
    if not 0 < spare <= 1:
        raise UserError(
            f"--spare-percent: {100 * spare:g} is not allowed; must be above 0, up to 100",
            f"this drive's own is --spare-percent {100 * own:.1f}",
        )
    drive = _core.VirtualDrive(profile.core, seed)
    say("steady: a long run")
    _fill(drive, 1)
    readings = _readings(drive, LONG_TIMES, seed)
    steady = float(np.mean(readings[-round(1 / SLICE) :]))
    prepared = []
    for method in methods:
        say(method)
        drive.reset(profile.core, seed)
        before = drive.counters().host_pages
        seconds = _WAYS[method](drive, seed, spare)
        written = (drive.counters().host_pages - before) * PAGE_BYTES / drive.capacity_bytes
        after = np.array(_readings(drive, LONG_TIMES / 2, seed + 1))
        far = np.flatnonzero(np.abs(after / steady - 1) > NEAR_PERCENT / 100)
        slices = int(far[-1]) + 1 if len(far) else 0
        more = slices * SLICE if slices < len(after) else None
        prepared.append(Prepared(method, seconds, written, float(after[0]), steady, more))
    return prepared


def method_of(text: str) -> Method:
    """Finds a method by its name. Raises UserError if there is none of that name."""
    for method in METHODS:
        if text == method:
            return method
    raise UserError(
        f"--method: {text!r} is not allowed; must be one of {', '.join(METHODS)}",
        "leave it out for all of them",
    )


def _random(drive: _core.VirtualDrive, capacities: float, seed: int) -> float:
    pages = drive.capacity_bytes // PAGE_BYTES
    stop = {"bytes": max(1, round(pages * capacities)) * PAGE_BYTES}
    load = writes(0, pages * PAGE_BYTES, PAGE_BYTES, pattern="random", stop=stop)
    return _run(drive, load, seed)


def _fill(drive: _core.VirtualDrive, passes: int) -> float:
    """Writes all addresses in order, except a rest at the end that is shorter than 128 KiB."""
    span = drive.capacity_bytes // FILL_BYTES * FILL_BYTES
    load = writes(0, span, FILL_BYTES, pattern="sequential", stop={"bytes": passes * span})
    return _run(drive, load, 0)


def _run(drive: _core.VirtualDrive, load: _core.Workload, seed: int) -> float:
    """Runs a load; returns the drive's seconds."""
    run = drive.run(load, seed)
    return (run.end_ns - run.start_ns) / 1e9


def _readings(drive: _core.VirtualDrive, capacities: float, seed: int) -> list[float]:
    """Write amplification of each slice of random writes."""
    readings = []
    for number in range(round(capacities / SLICE)):
        before = drive.counters()
        _random(drive, SLICE, derived_seed(seed, "slice", str(number)))
        after = drive.counters()
        programmed = after.placed_pages - before.placed_pages
        readings.append(programmed / (after.host_pages - before.host_pages))
    return readings


def _sprandom(drive: _core.VirtualDrive, seed: int, spare: float) -> float:
    span = drive.capacity_bytes // PAGE_BYTES * PAGE_BYTES
    order = f"sprandom:{100 * spare:.9g}"
    return _run(drive, writes(0, span, PAGE_BYTES, pattern="random", offsets=order), seed)


_WAYS: dict[Method, Callable[[_core.VirtualDrive, int, float], float]] = {
    "two-fills": lambda drive, _seed, _spare: _fill(drive, 2),
    "random": lambda drive, seed, _spare: _fill(drive, 1) + _random(drive, RANDOM_TIMES, seed),
    "sprandom": _sprandom,
}
