"""A figure of a run by its name, and a drive's profile answering for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from drivebay.analysis import Measured
from drivebay.analysis.figures import PhaseFigures
from drivebay.analysis.latency import mean_us, percentile_ns, percentile_supported
from drivebay.definitions import profiles as catalog
from drivebay.definitions.profiles import Profile
from drivebay.lab.validate.plan import Run, interval_of

Runs = Mapping[Run, Measured]


class NotReached(Exception):
    """A figure that its run has not: a rate that never fell, for example; says why."""


def figure(runs: Runs, text: str) -> float:
    """The figure "DRIVE/TEST/FIGURE"; besides the test's own: `iops@PHASE`, `rate@PHASE`,
    `power@PHASE`, `mean@PHASE` and `p99@PHASE` (latency and any percentile of it, us),
    `iops@PHASE&PHASE` (of phases that run together, their sum), each also of one direction of a mix
    (`p99_read@PHASE`, `iops_write@PHASE&PHASE`), of a phase in intervals the median over them;
    `power` (W, mean of the first phase),
    `highest` and `mean` of the phases' rates (MB/s), also of one share of reads (`highest_r100`),
    `highest_ios` (IOPS), `wall_h`.

    Raises
    ------
    NotReached
        If it could not be computed.
    """
    name, _, key = text.rpartition("/")
    found = runs[Run.of(name)]
    rates = [phase.step.rate_mb_s for phase in found.phases]
    kind, at, label = key.partition("@")
    if at:
        return median(_at(phases, kind, label) for phases in _intervals(found))
    if key == "power":
        return _power_w(found.phases[0])
    if key == "highest":
        return max(rates)
    if key == "mean":
        return sum(rates) / len(rates)
    if key in ("highest_r100", "highest_r0"):
        share = int(key.removeprefix("highest_r"))
        return max(p.step.rate_mb_s for p in found.phases if p.workload.read_percent == share)
    if key == "highest_ios":
        return max(phase.step.iops for phase in found.phases)
    if key == "wall_h":
        return figure(runs, f"{name}/wall_s") / 3600
    value = found.figures[key].value
    if value is None:
        raise NotReached(found.figures[key].note or "not measured")
    return value


def _intervals(found: Measured) -> list[dict[str, PhaseFigures]]:
    """Phases by the suite's label, of each interval that the run has; a phase without intervals is
    in all of them."""
    by_interval: dict[int, dict[str, PhaseFigures]] = {}
    for phase in found.phases:
        label, n = interval_of(phase.label)
        by_interval.setdefault(n, {})[label] = phase
    return [{**by_interval[1], **phases} for phases in by_interval.values()]


def _at(phases: Mapping[str, PhaseFigures], kind: str, label: str) -> float:
    """A figure of one phase, or the sum of those that run together."""
    kind, _, direction = kind.partition("_")
    if kind == "iops":
        return sum(_iops(phases[one], direction) for one in label.split("&"))
    phase = phases[label]
    if kind == "rate":
        return phase.step.rate_mb_s
    if kind == "power":
        return _power_w(phase)
    return _latency_us(phase, kind, direction)


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
    """A value of the profile at "power.device.0.power_mw", or one that follows from several:
    `capacity_gb`, `interface`, `die_gbit`, `slc_cache_gb`, `spare_percent`, `link_mb_per_s`,
    `link_efficiency`, `transfer_max_kib`."""
    if dotted in DERIVED:
        return DERIVED[dotted](profile)
    node: Any = profile.raw
    for key in dotted.split("."):
        node = node[int(key)] if isinstance(node, list) else node[key]
    return node["value"]


def _die_gbit(profile: Profile) -> float:
    return _die_bytes(profile) * 8 / 2**30


def _die_bytes(profile: Profile) -> int:
    nand = profile.raw["nand"]
    parts = ("planes", "blocks_per_plane", "pages_per_block", "page_kib")
    size = 1024
    for part in parts:
        size *= nand[part]["value"]
    return size


def _spare_percent(profile: Profile) -> float:
    return 100 * (profile.flash_bytes / profile.capacity_bytes - 1)


def _lanes_gb_per_s(profile: Profile) -> float:
    """PCIe 2: 5 GT/s, 8b/10b; 3: 8 GT/s, 128b/130b (PCI Express base specification)."""
    link = profile.raw["link"]
    lane = {2: 5.0 * 0.8, 3: 8.0 * 128 / 130}[link["generation"]["value"]]
    return float(lane / 8 * link["lanes"]["value"])


def _efficiency(profile: Profile) -> float:
    link, slot = profile.raw["link"], profile.raw["host"]["slot"]
    payload = min(link["payload_bytes"]["value"], slot["payload_bytes"]["value"])
    coded = {2: 0.8, 3: 128 / 130}[link["generation"]["value"]]
    return float(100 * coded * payload / (payload + link["packet_overhead_bytes"]["value"]))


def _slc_cache_gb(profile: Profile) -> float:
    cache = profile.raw["slc_cache"]
    return float(cache["static_mb"]["value"] + cache["dynamic_mb"]["value"]) / 1e3


def _same_parts(profile: Profile) -> str:
    """Whether the NVMe model of the same size has the same flash, controller, buffer and heat."""
    twin = catalog.load(profile.name.replace("ahci", "nvme"))
    parts = ("nand", "controller", "write_buffer", "energy", "thermal", "gc")
    differ = [part for part in parts if twin.raw[part] != profile.raw[part]]
    return f"differ in {', '.join(differ)}" if differ else "identical"


DERIVED: dict[str, Callable[[Profile], Any]] = {
    "same_parts": _same_parts,
    "capacity_gb": lambda profile: profile.capacity_bytes / 1e9,
    "interface": lambda profile: profile.interface,
    "die_gbit": _die_gbit,
    "slc_cache_gb": _slc_cache_gb,
    "transfer_max_kib": lambda p: 4 * 2 ** leaf(p, "identify.transfer_max_log2"),
    "spare_percent": _spare_percent,
    "link_mb_per_s": lambda p: 1e3 * 8.0 * 4 / 8 * _efficiency(p) / 100,
    "link_efficiency": _efficiency,
    "lanes_gb_per_s": _lanes_gb_per_s,
    "l12_uw_per_lane": lambda p: (
        1e3
        * (leaf(p, "power.device.0.power_mw") + leaf(p, "power.link.0.power_mw"))
        / leaf(p, "link.lanes")
    ),
}
