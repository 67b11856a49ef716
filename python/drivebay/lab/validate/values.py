"""Figures of a run by name, and values computed from a drive's profile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any

import numpy as np

from drivebay.analysis import Measured
from drivebay.analysis.cache import NEVER_FELL, levels
from drivebay.analysis.figures import PhaseFigures
from drivebay.analysis.latency import mean_us, percentile_ns, percentile_supported
from drivebay.definitions import leaves
from drivebay.definitions import profiles as catalog
from drivebay.definitions.profiles import Profile
from drivebay.lab.validate.plan import Run, interval_of

# Stored figures of a run: numbers by the figure's name, or the reason why there is none.
Figures = Mapping[str, Any]
Runs = Mapping[Run, Measured | Figures]

# Share of the median below which a second counts as a drop.
NOTABLE_DROP = 0.5
# Relative distance from the end's rate within which a drive is in steady state.
SETTLED = 0.1
SMOOTHED_S = 100
MINUTE_S = 60


class NotReached(Exception):
    """A run does not have a figure, for example because its rate never fell; the message gives
    the reason.
    """


def figure(runs: Runs, text: str) -> float:
    """Looks up the figure "DRIVE/TEST/FIGURE", with FIGURE as for `value_of`; raises NotReached."""
    name, _, key = text.rpartition("/")
    return float(value_of(runs[Run.of(name)], key))


def kept(measured: Measured, keys: Iterable[str]) -> Figures:
    """Figures of a run with these names, to be stored as JSON; names without a figure are left
    out.
    """
    values: dict[str, Any] = {}
    for key in sorted(keys):
        try:
            values[key] = value_of(measured, key)
        except NotReached as why:
            values[key] = str(why)
        except (KeyError, StopIteration):
            continue
    return values


def value_of(run: Measured | Figures, key: str) -> Any:
    """A figure of a run: one of the test's own, or `iops@PHASE`, `rate@PHASE`, `power@PHASE`,
    `mean@PHASE` and `p99@PHASE` (latency and any percentile of it, us), `iops@PHASE&PHASE`
    (of phases that run together, their sum), each also for one direction of a mix
    (`p99_read@PHASE`, `iops_write@PHASE&PHASE`), for a phase in intervals the median over
    them; or one of `OF_RUN`; or one of `OF_SECONDS` (MB/s), of the first phase or at PHASE.
    Raises NotReached if it could not be computed.
    """
    if isinstance(run, Mapping):
        value = run[key]
        if isinstance(value, str):
            raise NotReached(value)
        return value
    kind, at, label = key.partition("@")
    if at:
        return median(_at(phases, kind, label) for phases in _intervals(run))
    if key in OF_SECONDS:
        return OF_SECONDS[key](run.phases[0].timeline.rate_mb_s)
    if key in OF_RUN:
        return OF_RUN[key](run)
    value = run.figures[key].value
    if value is None:
        raise NotReached(run.figures[key].note or "not measured")
    return value


def _rates(run: Measured) -> list[float]:
    return [phase.step.rate_mb_s for phase in run.phases]


def _highest_of(share: int) -> Callable[[Measured], float]:
    return lambda run: max(
        phase.step.rate_mb_s for phase in run.phases if phase.workload.read_percent == share
    )


def _window(run: Measured) -> np.ndarray:
    """IOPS of each second of the window of steady state: the last 400 s if the test has none."""
    seconds = round(run.test.metric_window_s or 400)
    return np.asarray(run.phases[0].timeline.ios[-seconds:], dtype=float)


def _drop_percent(run: Measured) -> float:
    ios = _window(run)
    return float(100 * (ios < NOTABLE_DROP * np.median(ios)).mean())


def _settles_after_s(run: Measured) -> float:
    ios = np.asarray(run.phases[0].timeline.ios, dtype=float)
    width = min(SMOOTHED_S, len(ios) // 4)
    smooth = np.convolve(ios, np.ones(width) / width, mode="valid")
    off = np.flatnonzero(abs(smooth / smooth[-width:].mean() - 1) > SETTLED)
    return float(off[-1] + 1 if len(off) else 1)


def _minute_behind(run: Measured) -> float:
    """Mean rate of a fill's first minute after the cache is full."""
    timeline = run.phases[0].timeline
    fallen = levels(timeline)
    if len(fallen) < 2:
        raise NotReached(NEVER_FELL)
    begin = fallen[0].rate.n + 1  # the second of the fall holds a part of both rates
    return float(timeline.rate_mb_s[begin : begin + MINUTE_S].mean())


# Mean rates of a phase over some of its seconds.
OF_SECONDS: Mapping[str, Callable[[np.ndarray], float]] = {
    "first_second": lambda rates: float(rates[0]),
    "first_minute": lambda rates: float(rates[:MINUTE_S].mean()),
    "last_minute": lambda rates: float(rates[-MINUTE_S:].mean()),
    "all_seconds": lambda rates: float(rates.mean()),
}
# Figures of a run: power of the first phase (W); rates of all phases (MB/s), also of one share of
# reads, their highest and mean, and the highest IOPS; a trace's hours; the rate that is the first
# figure of a test's kind; IOPS of the seconds in steady state: mean, deviation, deviation over
# the mean, the slowest second, and that over the median, the share under half of the median (%);
# time until the rate stays within 10 % of that of the end (s); the share of time in the flash
# (%); the minute after the cache (MB/s).
OF_RUN: Mapping[str, Callable[[Measured], Any]] = {
    "power": lambda run: _power_w(run.phases[0]),
    "rates": _rates,
    "highest": lambda run: max(_rates(run)),
    "mean": lambda run: sum(_rates(run)) / len(run.phases),
    "highest_r100": _highest_of(100),
    "highest_r0": _highest_of(0),
    "highest_ios": lambda run: max(phase.step.iops for phase in run.phases),
    "wall_h": lambda run: value_of(run, "wall_s") / 3600,
    "main_rate": lambda run: value_of(
        run, next(key for key in ("mean_iops", "mean_rate", "rate") if key in run.figures)
    ),
    "steady": lambda run: float(_window(run).mean()),
    "deviation": lambda run: float(_window(run).std()),
    "variation": lambda run: float(_window(run).std() / _window(run).mean()),
    "lowest": lambda run: float(_window(run).min()),
    "slowest_second": lambda run: float(_window(run).min() / np.median(_window(run))),
    "drop_percent": _drop_percent,
    "settles_after_s": _settles_after_s,
    "flash_percent": lambda run: sum(
        stage.share_percent
        for stage in run.phases[0].stages
        if stage.stage in ("die", "nand", "channel")
    ),
    "minute_behind": _minute_behind,
}


def _intervals(run: Measured) -> list[dict[str, PhaseFigures]]:
    """Phases by the suite's label, for each interval of the run; a phase without intervals is
    part of all of them.
    """
    by_interval: dict[int, dict[str, PhaseFigures]] = {}
    for phase in run.phases:
        label, n = interval_of(phase.label)
        by_interval.setdefault(n, {})[label] = phase
    return [{**by_interval[1], **phases} for phases in by_interval.values()]


def _at(phases: Mapping[str, PhaseFigures], kind: str, label: str) -> float:
    """A figure of one phase, or the sum over phases that run together."""
    if kind not in OF_SECONDS:
        kind, _, direction = kind.partition("_")
    if kind == "iops":
        return sum(_iops(phases[name], direction) for name in label.split("&"))
    phase = phases[label]
    if kind in OF_SECONDS:
        return OF_SECONDS[kind](phase.timeline.rate_mb_s)
    if kind == "throttled":
        if phase.throttled_s is None:
            raise NotReached("throttling is not reported")
        return phase.throttled_s
    if kind == "rate":
        return phase.step.rate_mb_s
    return _power_w(phase) if kind == "power" else _latency_us(phase, kind, direction)


def _power_w(phase: PhaseFigures) -> float:
    power = phase.step.power
    assert power is not None, "a virtual drive reports its power"
    return power.mean


def _iops(phase: PhaseFigures, direction: str) -> float:
    if not direction:
        return phase.step.iops
    return phase.directions[direction].total / phase.timeline.seconds_total


def _latency_us(phase: PhaseFigures, kind: str, direction: str) -> float:
    """The mean or a percentile, of one direction or of all."""
    histogram = phase.directions[direction] if direction else phase.histogram
    if kind == "mean":
        mean = mean_us(histogram) if direction else phase.step.latency_mean_us
        if mean is not None:
            return mean
    elif percentile_supported(histogram.total, float(kind[1:])):
        return percentile_ns(histogram, float(kind[1:])) / 1e3
    raise NotReached("too few I/Os for this figure")


def leaf(profile: Profile, dotted: str) -> Any:
    """A value of the profile at "power.device.0.power_mw", or a derived one: `capacity_gb`,
    `interface`, `die_gbit`, `slc_cache_gb`, `spare_percent`, `link_mb_per_s`,
    `link_efficiency`, `transfer_max_kib`.
    """
    if dotted in DERIVED:
        return DERIVED[dotted](profile)
    return leaves.at(profile.raw, dotted)["value"]


def _die_bytes(profile: Profile) -> int:
    parts = ("planes", "blocks_per_plane", "pages_per_block", "page_kib")
    return 1024 * math.prod(int(profile.raw["nand"][part]["value"]) for part in parts)


def _lanes_gb_per_s(profile: Profile) -> float:
    """Rate of all lanes. PCIe 2: 5 GT/s, 8b/10b; 3: 8 GT/s, 128b/130b (PCI Express base
    specification).
    """
    lane = {2: 5.0 * 0.8, 3: 8.0 * 128 / 130}[leaf(profile, "link.generation")]
    return float(lane / 8 * leaf(profile, "link.lanes"))


def _efficiency(profile: Profile) -> float:
    link, slot = profile.raw["link"], profile.raw["host"]["slot"]
    payload = min(link["payload_bytes"]["value"], slot["payload_bytes"]["value"])
    coded = {2: 0.8, 3: 128 / 130}[link["generation"]["value"]]
    return float(100 * coded * payload / (payload + link["packet_overhead_bytes"]["value"]))


def _slc_cache_gb(profile: Profile) -> float:
    parts = ("slc_cache.static_mb", "slc_cache.dynamic_mb")
    return float(sum(leaf(profile, part) for part in parts)) / 1e3


def _same_parts(profile: Profile) -> str:
    """ "identical" if the NVMe model of the same size has the same flash, controller, buffer and
    heat; otherwise the differences.
    """
    twin = catalog.load(profile.name.replace("ahci", "nvme"))
    parts = ("nand", "controller", "write_buffer", "energy", "thermal", "gc")
    differ = [part for part in parts if twin.raw[part] != profile.raw[part]]
    return f"differ in {', '.join(differ)}" if differ else "identical"


DERIVED: dict[str, Callable[[Profile], Any]] = {
    "same_parts": _same_parts,
    "capacity_gb": lambda profile: profile.capacity_bytes / 1e9,
    "interface": lambda profile: profile.interface,
    "die_gbit": lambda profile: _die_bytes(profile) * 8 / 2**30,
    "slc_cache_gb": _slc_cache_gb,
    "transfer_max_kib": lambda p: 4 * 2 ** leaf(p, "identify.transfer_max_log2"),
    "spare_percent": lambda p: 100 * (p.flash_bytes / p.capacity_bytes - 1),
    "link_mb_per_s": lambda p: 1e3 * 8.0 * 4 / 8 * _efficiency(p) / 100,
    "link_efficiency": _efficiency,
    "lanes_gb_per_s": _lanes_gb_per_s,
    "l12_uw_per_lane": lambda p: (
        1e3
        * (leaf(p, "power.device.0.power_mw") + leaf(p, "power.link.0.power_mw"))
        / leaf(p, "link.lanes")
    ),
}
