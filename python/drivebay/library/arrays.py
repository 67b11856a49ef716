"""Arrays: several virtual drives that a host sees as one, as with Linux md.

Stripes (0), mirrors (1), stripes over mirrors (10), and one or two parities (5, 6), in one virtual
time. A member may fail, and a replacement is rebuilt while loads continue. The core implements md's
layout and lists what it leaves out (`crates/run/src/array/layout.rs`). The members stay separate
devices with their own health, counters and copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeVar, get_args

from drivebay._core import VirtualArray
from drivebay.analysis.steadiness import RULE
from drivebay.common.errors import UserError
from drivebay.definitions.scaling import near
from drivebay.library.drives import FILL, REST_S, Device, Drive
from drivebay.library.load import Workload, jobs_of
from drivebay.library.result import Result, results_of

Level = Literal["0", "1", "10", "5", "6"]
LEVELS: tuple[Level, ...] = get_args(Level)
Target = TypeVar("Target", Device, "Array")
WHOLE = -1
"""Marks a member whose data is valid up to its end."""
CHUNK_BYTES = 512 * 1024
"""Default of mdadm."""


class Array:
    """Several devices as one. They may be of different drives; the smallest determines the size.

    Attributes
    ----------
    devices
        The members; a failed one keeps its place until it is replaced.
    level, chunk_bytes
        Data layout; the chunk size has no effect for mirrors only.

    >>> from drivebay.library import drive
    >>> small = drive("sm951-nvme-512").scaled(1 / 64)
    >>> array = Array([small.device(seed=n) for n in range(4)], "5", chunk_bytes=65536)
    >>> array.run(Workload(queue_depth=1, ios=1000)).iops > 1000
    True
    >>> array.devices[0].health().host_reads > 0  # old data and parity
    True
    """

    def __init__(
        self, devices: Sequence[Device], level: Level, *, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        if not all(isinstance(device, Device) for device in devices):
            raise UserError("an array is made of devices", 'Array([drive.device(), ...], "5")')
        self.devices = list(devices)
        self.level = level
        self.chunk_bytes = chunk_bytes
        self.runs = 0
        self._make([WHOLE] * len(self.devices))

    def _make(self, good: list[int | None]) -> None:
        members = [device._core for device in self.devices]
        self._core = VirtualArray(members, self.level, self.chunk_bytes, good)

    @property
    def capacity_bytes(self) -> int:
        """User capacity, in bytes."""
        return self._core.capacity_bytes()

    @property
    def stripe_bytes(self) -> int:
        """User data per stripe: an aligned write of this size needs no reads."""
        return self._core.stripe_bytes()

    @property
    def rebuilt_bytes(self) -> list[int | None]:
        """Number of valid bytes of each member: its size if it is complete, None if it failed."""
        good = zip(self._core.good_bytes(), self.devices, strict=True)
        return [device.capacity_bytes if end == WHOLE else end for end, device in good]

    def run(
        self, load: Workload, *, seed: int | None = None, rebuild_mb_per_s: float | None = None
    ) -> Result:
        """Runs a load, starting from the present state and time; a replaced member is rebuilt
        meanwhile.

        Parameters
        ----------
        load
            Load on the array.
        seed
            Seed of the addresses; by default the load's own, else the number of previous runs.
        rebuild_mb_per_s
            Maximum rate of the rebuild, 10^6 bytes per second; by default unlimited. Linux'
            default is 205 (`sync_speed_max`).

        Raises
        ------
        UserError
            If the array cannot run this load.

        The result's counters are sums over the members: its `waf` is that of their flash, without
        the additional writes of parity and mirrors.
        """
        results = self.run_jobs({"load": load}, seed=seed, rebuild_mb_per_s=rebuild_mb_per_s)
        return results["load"]

    def run_jobs(
        self,
        jobs: Mapping[str, Workload],
        *,
        seed: int | None = None,
        rebuild_mb_per_s: float | None = None,
    ) -> dict[str, Result]:
        """Runs several workloads at the same time, as `Device.run_jobs`."""
        seeds, cores = jobs_of(jobs, seed, self.runs + 1, self.capacity_bytes)
        results = self._core.run_jobs(cores, rebuild_rate=_rate(rebuild_mb_per_s))
        self.runs += 1
        size = fmean(device.drive.superblock_bytes for device in self.devices)
        return results_of(self.title, jobs, seeds, results, size)

    @property
    def title(self) -> str:
        """Name of the array in results."""
        return f"RAID {self.level} of {len(self.devices)} x {self.devices[0].drive.title}"

    def prepare(self, *, rest_s: float = REST_S) -> None:
        """Fills the array in whole stripes, then leaves it idle."""
        whole = self.stripe_bytes * max(1, FILL.block_bytes // self.stripe_bytes)
        blocks = self.capacity_bytes // whole
        self.run(FILL.model_copy(update={"block_bytes": whole, "bytes": blocks * whole}))
        self.rest(rest_s)

    def rest(self, seconds: float) -> None:
        """Leaves the array idle for some seconds."""
        for device in self.devices:
            device.rest(seconds)

    def fail(self, member: int) -> None:
        """Fails a member: its data is computed from the others.

        Raises
        ------
        UserError
            If data would be lost.
        """
        good = self._core.good_bytes()
        good[self._place(member)] = None
        self._make(good)

    def replace(self, member: int, device: Device) -> None:
        """Replaces a member by a new device, which is rebuilt by `rebuild` and along with loads.

        Raises
        ------
        UserError
            If it is smaller than the array requires, or data would be lost.
        """
        if device.capacity_bytes < min(old.capacity_bytes for old in self.devices):
            raise UserError(f"{device!r} is smaller than the members", "a drive as large as they")
        good = self._core.good_bytes()
        good[self._place(member)] = 0
        before, self.devices[member] = self.devices[member], device
        try:
            self._make(good)
        except UserError:
            self.devices[member] = before
            raise

    def _place(self, member: int) -> int:
        if not 0 <= member < len(self.devices):
            raise UserError(f"there is no member {member}", f"0 to {len(self.devices) - 1}")
        return member

    def rebuild(self, *, rebuild_mb_per_s: float | None = None) -> float:
        """Rebuilds replaced members without other load and returns the seconds that it took."""
        return self._core.rebuild(rebuild_rate=_rate(rebuild_mb_per_s))

    def copy(self) -> Array:
        """Copy of the array in the same state. Both continue bit for bit the same."""
        other = Array.__new__(Array)
        other.devices = [device.copy() for device in self.devices]
        other.level, other.chunk_bytes, other.runs = self.level, self.chunk_bytes, self.runs
        other._make(self._core.good_bytes())
        return other

    def __repr__(self) -> str:
        return f"<Array of {self.title}>"


def _rate(mb_per_s: float | None) -> float | None:
    """Converts to bytes per second."""
    if mb_per_s is not None and not 0 < mb_per_s < 1e9:
        raise UserError(f"rebuild_mb_per_s = {mb_per_s} is not allowed", "rebuild_mb_per_s=205")
    return None if mb_per_s is None else mb_per_s * 1e6


@dataclass(frozen=True)
class Measured:
    """Figures of a load on one drive, and on the array in one state.

    Attributes
    ----------
    load, state
        Their names; the states are those of `survey`.
    iops, mb_per_s, mean_us, p99_us
        Rates, and latencies in microseconds.
    unsteady
        Reason why they are not those of a steady state; empty if they are.
    """

    load: str
    state: str
    iops: float
    mb_per_s: float
    mean_us: float
    p99_us: float
    unsteady: str


@dataclass(frozen=True)
class Survey:
    """Results of `survey`.

    Attributes
    ----------
    measured
        Figures of each load and state.
    capacity_bytes
        Capacity of the whole array.
    rebuild_s
        Time to rebuild a whole member without other load, at full size.
    """

    measured: list[Measured]
    capacity_bytes: int
    rebuild_s: float | None


def survey(
    drive: Drive,
    level: Level,
    members: int,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    queue_depth: int = 32,
    duration_s: float = 5.0,
    rebuild_mb_per_s: float | None = None,
    scale: float = 1.0,
    settle: bool = False,
    seed: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Survey:
    """Runs the same loads on one drive, on an array of such drives, with a failed member, and
    during the rebuild of a new one; each from the filled and rested array.

    Parameters
    ----------
    scale
        Share of the drives' capacity, or the next possible one; the rebuild time is given for whole
        drives.
    settle
        Write at random until the rate is steady, before the loads that write at random.
    progress
        Called with the name of the current step.
    """
    small = drive if scale == 1.0 else drive.scaled(near(drive, scale))
    alone = small.device(seed=seed)
    devices = [small.device(seed=seed + number) for number in range(members)]
    array = Array(devices, level, chunk_bytes=chunk_bytes)
    progress("fill")
    alone.prepare()
    array.prepare()

    def states_of(alone: Device, array: Array) -> dict[str, Device | Array]:
        states: dict[str, Device | Array] = {"one drive": alone, "whole": array}
        if level != "0":
            states["degraded"] = degraded = array.copy()
            degraded.fail(0)
            states["rebuilding"] = rebuilding = array.copy()
            rebuilding.replace(0, small.device(seed=seed + members))
        return states

    states = settled = states_of(alone, array)
    if settle:
        progress("settle")
        settled = states_of(_settled(alone, queue_depth), _settled(array, queue_depth))
    measured = []
    for name, load in _loads(array.stripe_bytes, queue_depth, duration_s).items():
        writes_at_random = load.pattern == "random" and load.read_percent < 100
        for state, target in (settled if writes_at_random else states).items():
            progress(f"{name}, {state}")
            result = _run(target.copy(), load, seed, rebuild_mb_per_s)
            latency = result.latency.mean_us, result.latency.percentile_us(99)
            rates = result.iops, result.mb_per_s
            measured.append(Measured(name, state, *rates, *latency, result.unsteady))
    rebuild_s = None
    if isinstance(rebuilding := states.get("rebuilding"), Array):
        progress("rebuild")
        rebuild_s = rebuilding.rebuild(rebuild_mb_per_s=rebuild_mb_per_s) / scale
    return Survey(measured, round(array.capacity_bytes / scale), rebuild_s)


def _run(target: Device | Array, load: Workload, seed: int, rebuild: float | None) -> Result:
    if isinstance(target, Device):
        return target.run(load, seed=seed)
    return target.run(load, seed=seed, rebuild_mb_per_s=rebuild)


def _settled(before: Target, queue_depth: int) -> Target:
    """A copy, written at random in rounds of half its capacity until the rate is steady by SNIA's
    rule.
    """
    target = before.copy()
    load = Workload(queue_depth=queue_depth, bytes=target.capacity_bytes // 2)
    RULE.run(lambda number: target.run(load, seed=number).iops)
    return target


def _loads(stripe_bytes: int, queue_depth: int, duration_s: float) -> dict[str, Workload]:
    def load(**more: object) -> Workload:
        given = {"queue_depth": queue_depth, "duration_s": duration_s, **more}
        return Workload.model_validate(given)

    streams = {"pattern": "sequential", "block_bytes": stripe_bytes, "queue_depth": 4}
    return {
        "whole stripes read": load(**streams, read_percent=100),
        "whole stripes written": load(**streams),
        "4 KiB read at random": load(read_percent=100),
        "4 KiB written at random": load(),
        "70 % read, 30 % written": load(read_percent=70),
    }
