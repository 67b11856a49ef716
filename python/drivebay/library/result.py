"""Results of a run: totals, one row per second, histograms, samples."""

from __future__ import annotations

import html
import importlib.util
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from drivebay._core import RunResult
from drivebay.analysis import fidelity, likeness, steadiness
from drivebay.analysis.latency import Histogram
from drivebay.common.errors import EnvironmentProblem
from drivebay.library.latency import Latencies
from drivebay.library.load import Trace, Workload
from drivebay.targets.virtual.inside import Inside, inside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Interval = Literal["iops", "mb_per_s", "latency_us", "power_w"]
COPIES = 1.1
"""guess: write amplification above which the drive copies data meanwhile, and not only its map."""
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Series:
    """Figures of a run per second; every array has shape (n,). An I/O counts in the second in which
    it completes. The last second may be incomplete: rates refer to its actual length.

    Attributes
    ----------
    time_s
        End of each second, from the start of the run.
    iops, read_iops, write_iops
        I/Os per second.
    mb_per_s, read_mb_per_s, write_mb_per_s
        10^6 bytes per second.
    latency_us
        Mean, in microseconds; NaN if nothing completed.
    latency_us_max
        Largest, in microseconds.
    temperature_c, power_w
        Degrees Celsius at the end of the second, watts over it. NaN for an incomplete second.
    throttle_stage
        0 for none; -1 for an incomplete second.
    waf
        Write amplification, 4 KiB pages programmed per page the host wrote; NaN without writes.
    """

    time_s: Floats
    iops: Floats
    read_iops: Floats
    write_iops: Floats
    mb_per_s: Floats
    read_mb_per_s: Floats
    write_mb_per_s: Floats
    latency_us: Floats
    latency_us_max: Floats
    temperature_c: Floats
    power_w: Floats
    throttle_stage: Ints
    waf: Floats

    def __len__(self) -> int:
        return len(self.time_s)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """All arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False)
class Samples:
    """Every n-th I/O of a run, in the order in which the drive served them; arrays of shape (m,).

    Attributes
    ----------
    at_s
        Time of the request, in seconds from the start of the run.
    latency_us
        Time until its completion, in microseconds.
    offset_bytes, bytes
        Address and size; uint64.
    is_write
        True for a write; bool.
    """

    at_s: Floats
    latency_us: Floats
    offset_bytes: npt.NDArray[np.uint64]
    bytes: npt.NDArray[np.uint64]
    is_write: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.at_s)


class Result:
    """Result of a run. The same drive, load and seed give the same result bit for bit.

    Attributes
    ----------
    drive
        Title of the drive.
    load
        Load of the run.
    seed
        Seed of the run.
    core
        The core's own columns, a `drivebay._core.RunResult`: arrays without a copy.
    """

    def __init__(
        self,
        drive: str,
        load: Workload | Trace,
        seed: int,
        core: RunResult,
        known: fidelity.Known | None = None,
        *,
        superblock_bytes: float = math.nan,
        written_bytes: int | None = None,
    ) -> None:
        self.drive = drive
        self._known = known
        self.load = load
        self.seed = seed
        self.core = core
        self._superblock_bytes = superblock_bytes
        own = int(core.write_bytes.sum())
        self._written_bytes = own if written_bytes is None else written_bytes  # of all jobs

    @property
    def duration_s(self) -> float:
        """Seconds of the drive's time."""
        return float(self.core.end_ns - self.core.start_ns) / 1e9

    @property
    def ios(self) -> int:
        """I/Os completed."""
        return int(self.core.reads.sum() + self.core.writes.sum())

    @property
    def trims(self) -> int:
        """Trims completed, which are counted nowhere else; `core.trim_latency_ns_sum` is their
        time.
        """
        return self.core.trims

    @property
    def flushes(self) -> int:
        """Flushes completed, which are counted nowhere else."""
        return self.core.flushes

    @property
    def flush_latency_us(self) -> float:
        """Mean latency of the flushes, in microseconds; NaN without any."""
        if not self.flushes:
            return float("nan")
        return self.core.flush_latency_ns_sum / self.flushes / 1e3

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return int(self.core.read_bytes.sum() + self.core.write_bytes.sum())

    @property
    def iops(self) -> float:
        """Mean I/Os per second."""
        return self.ios / self.duration_s

    @property
    def mb_per_s(self) -> float:
        """Mean data rate, 10^6 bytes per second."""
        return self.bytes / 1e6 / self.duration_s

    @property
    def waf(self) -> float:
        """Write amplification by mapping units: 4 KiB pages programmed per page that the host
        wrote, in whole or in part; NaN without writes.
        """
        host = self._counted("host_pages")
        return self._counted("placed_pages") / host if host else float("nan")

    @property
    def waf_bytes(self) -> float:
        """Write amplification by bytes, as JESD218 defines it: bytes programmed per byte that the
        host wrote. Above `waf` if requests begin or end within a mapping unit. NaN without writes.
        """
        programmed = self._counted("placed_pages") * 4096
        return programmed / self._written_bytes if self._written_bytes else float("nan")

    @cached_property
    def unsteady(self) -> str:
        """Reason why rate and write amplification are not those of a steady state; empty if they
        are: the fifths of the run agree by SNIA's criterion, and the drive erased as much flash as
        it programmed.
        """
        whole = slice(0, int(self.duration_s))
        courses = {"rate": steadiness.fifths(self.series.mb_per_s[whole])}
        programmed = self._counted("placed_pages") * 4096
        erased = self._counted("erases") * self._superblock_bytes
        freed = erased / programmed if programmed and erased == erased else None
        if freed is not None:
            amplified = self.series.waf[whole]
            courses["amplification"] = steadiness.fifths(amplified[~np.isnan(amplified)])
        return steadiness.unsteady(courses, freed=freed)

    @property
    def own_waf(self) -> float:
        """Write amplification of the span of a job of `run_jobs`: pages that the job wrote and
        copies of its pages, per page that it wrote. Without the map's own pages, padding and
        parity. NaN for a single load, if the spans of two jobs overlap, or without writes.
        """
        copied, written = self.core.copied_4k, int(self.core.write_bytes.sum()) / 4096
        return 1 + copied / written if copied is not None and written else float("nan")

    @property
    def energy_j(self) -> float:
        """Energy of the drive, in joules."""
        return self._counted("energy_j")

    @property
    def power_w(self) -> float:
        """Mean power, in watts."""
        return self.energy_j / self.duration_s

    @property
    def began_throttled(self) -> bool:
        """True if heat slowed the drive when the run began."""
        return self.core.before.throttle_stage > 0

    @property
    def worn_out(self) -> bool:
        """True if the run ended early because the flash is worn out."""
        return self.core.worn_out

    @property
    def throttled_s(self) -> float:
        """Seconds in which heat slowed the drive."""
        return self._counted("throttled_s")

    def interval(self, figure: Interval = "iops") -> tuple[float, float] | None:
        """Both ends of the figure's 90 % interval: where a source that is new should find it.

        For a drive of the catalog it comes from the errors of published figures of the same kind;
        writes count as behind the cache if the drive copies data meanwhile. For a drive that
        `calibrate` wrote it comes from the same unit in the most similar test of the reviews.
        docs/fidelity.md describes the computation. None if no published row is like the figure, for
        a drive without published rows that `calibrate` has not seen, and for a figure of 0.

        Parameters
        ----------
        figure
            "iops", "mb_per_s", "latency_us" (the mean) or "power_w".
        """
        value, unit = {
            "iops": (self.iops, "IOPS"),
            "mb_per_s": (self.mb_per_s, "MB/s"),
            "latency_us": (self.latency.mean_us, "µs"),
            "power_w": (self.power_w, "W"),
        }[figure]
        if self._known is None or not value > 0:
            return None
        return fidelity.ends_of(self._known, self._kind(unit), self._like(), figure, value, unit)

    def _kind(self, unit: str) -> str:
        """Kind of a figure with this unit."""
        if unit in likeness.HEATS:
            return likeness.HEAT
        if isinstance(self.load, Trace) or self._known is None:
            return likeness.MIXED
        behind = self.waf > COPIES
        return likeness.kind_of_loads([self.load], self._known.unit_bytes, behind=behind)

    def _like(self) -> str:
        """Test of anandtech-2015 that is most similar to the load."""
        if isinstance(self.load, Trace):
            return ""
        pattern, reads = self.load.pattern, self.load.read_percent
        kinds: dict[float, str] = {0: "write", 100: "read"}
        kind = kinds.get(reads)
        return f"{pattern}-{kind}" if kind else f"mixed-{pattern}"

    @cached_property
    def read_latency(self) -> Latencies:
        """Latencies of reads. If reads and writes are mixed, the sum is computed from the bins'
        middles.
        """
        return self._latencies(self.core.read_latency, self.core.writes)

    @cached_property
    def write_latency(self) -> Latencies:
        """Latencies of writes. If reads and writes are mixed, the sum is computed from the bins'
        middles.
        """
        return self._latencies(self.core.write_latency, self.core.reads)

    @cached_property
    def latency(self) -> Latencies:
        """Latencies of all I/Os."""
        both = self.read_latency + self.write_latency
        return Latencies(both.bins, float(self.core.latency_ns_sum.astype(float).sum()))

    @cached_property
    def stages_us(self) -> dict[str, float]:
        """Latency breakdown of the mean I/O: microseconds by stage, which add up to its latency."""
        ios = max(1, self.ios)
        sums = self.core.stage_ns.items()
        return {stage: float(ns.astype(float).sum()) / ios / 1e3 for stage, ns in sums}

    @cached_property
    def series(self) -> Series:
        """Figures per second, computed at the first access."""
        core, count = self.core, len(self.core.reads)
        ends = np.minimum(np.arange(1, count + 1, dtype=float), self.duration_s)
        lengths = np.diff(ends, prepend=0.0)
        # A completion in the last nanosecond may open a second of no length.
        per_second = 1.0 / np.where(lengths > 0, lengths, 1.0)
        reads, writes = core.reads * per_second, core.writes * per_second
        read_mb = core.read_bytes * per_second / 1e6
        write_mb = core.write_bytes * per_second / 1e6
        ios = core.reads + core.writes
        return Series(
            time_s=ends,
            iops=reads + writes,
            read_iops=reads,
            write_iops=writes,
            mb_per_s=read_mb + write_mb,
            read_mb_per_s=read_mb,
            write_mb_per_s=write_mb,
            latency_us=_ratio(core.latency_ns_sum, ios) / 1e3,
            latency_us_max=core.latency_ns_max / 1e3,
            temperature_c=_padded(core.temperature_c, count, np.nan),
            power_w=_padded(core.power_w, count, np.nan),
            throttle_stage=_padded(core.throttle_stage.astype(np.int64), count, -1),
            waf=self._waf(count),
        )

    @cached_property
    def samples(self) -> Samples | None:
        """Every n-th I/O, if the run was asked to keep them."""
        if (kept := self.core.samples) is None:
            return None
        return Samples(
            at_s=kept.at_ns / 1e9,
            latency_us=kept.latency_ns / 1e3,
            offset_bytes=kept.offset_bytes,
            bytes=kept.bytes,
            is_write=kept.is_write,
        )

    @cached_property
    def inside(self) -> Inside | None:
        """Internal events of the drive as Arrow tables, if the run was asked to keep events."""
        return None if self.core.inside is None else inside(self.core.inside)

    def frame(self, library: Literal["pandas", "polars"] | None = None) -> Any:
        """Figures per second as a DataFrame, one row per second.

        Parameters
        ----------
        library
            "pandas" or "polars"; by default the one that is installed, pandas first.

        Raises
        ------
        EnvironmentProblem
            If it is not installed.
        """
        wanted = (library,) if library else ("pandas", "polars")
        for name in wanted:
            if importlib.util.find_spec(name):
                return importlib.import_module(name).DataFrame(self.series.columns())
        raise EnvironmentProblem(
            f"{' and '.join(wanted)} are not installed" if not library else f"no {library} here",
            f"pip install {wanted[0]}",
        )

    def plot(self, *, title: str | None = None) -> Figure:
        """Rate, latency, temperature and power over the run, as a matplotlib Figure."""
        return _plot(self.series, title=title or f"{self.drive}\n{self.load.words()}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles all columns; `core` is then a namespace with the same attributes."""
        return _unpickled, ({**self.__dict__, "core": _plain(self.core)},)

    def _counted(self, name: str) -> float:
        return float(getattr(self.core.after, name) - getattr(self.core.before, name))

    def _latencies(self, histogram: Any, other: npt.NDArray[Any]) -> Latencies:
        low, high = histogram.low_ns.view(np.int64), histogram.high_ns.view(np.int64)
        count = histogram.count.view(np.int64)
        bins = Histogram(low, high, count)
        if not other.any():
            return Latencies(bins, float(self.core.latency_ns_sum.astype(float).sum()))
        return Latencies(bins, float(((low + high - 1) / 2 * count).sum()))

    def _waf(self, count: int) -> Floats:
        before = self.core.before
        host = np.diff(self.core.host_pages.astype(float), prepend=before.host_pages)
        placed = np.diff(self.core.placed_pages.astype(float), prepend=before.placed_pages)
        return _padded(_ratio(placed, host), count, np.nan)

    def _repr_html_(self) -> str:
        """Display in a notebook: the load, its main figures, and the rate over the run."""
        mean, tail = self.latency.mean_us, self.latency.percentile_us(99)
        rows = [("completed", f"{self.ios:,} I/Os in {self.duration_s:,.1f} s")]
        if self.ios:
            rows += [
                ("rate", f"{self.iops:,.0f} IOPS, {self.mb_per_s:,.1f} MB/s"),
                ("latency", f"{mean:,.1f} µs mean, {tail:,.1f} µs p99"),
                ("power", f"{self.power_w:.2f} W mean"),
            ]
        if self.waf == self.waf:
            rows.append(("write amplification, by mapping units", f"{self.waf:.2f}"))
            rows.append(("write amplification, by bytes (JESD218)", f"{self.waf_bytes:.2f}"))
        if self.unsteady:
            rows.append(("not steady", self.unsteady))
        if self.throttled_s:
            rows.append(("throttled", f"{self.throttled_s:,.0f} s"))
        if (known := self.interval()) is not None:
            rows.append(("IOPS, 90 % interval", f"{known[0]:,.0f} to {known[1]:,.0f}"))
        cells = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{text}</td>"
            for name, text in rows
        )
        heading = html.escape(f"{self.drive}: {self.load.words()}")
        return f"<table><caption>{heading}, simulated</caption>{cells}</table>{_spark(self.series)}"

    def __repr__(self) -> str:
        what = f"<Result of {self.load.words()} on {self.drive}"
        if not self.ios:
            return f"{what}: no I/O was completed>"
        return (
            f"{what}: {self.iops:,.0f} IOPS, {self.mb_per_s:,.1f} MB/s, "
            f"p99 {self.latency.percentile_us(99):,.1f} us{', not steady' * bool(self.unsteady)}>"
        )


def _plain(value: Any) -> Any:
    """The core's object as a namespace, which can be pickled."""
    if type(value).__module__ != RunResult.__module__:
        return value
    names = [name for name in dir(value) if not name.startswith("_")]
    return SimpleNamespace(**{name: _plain(getattr(value, name)) for name in names})


def _unpickled(state: dict[str, Any]) -> Result:
    result = object.__new__(Result)
    result.__dict__ |= state
    return result


def results_of(
    title: str,
    jobs: Mapping[str, Workload],
    seeds: Mapping[str, int],
    cores: Sequence[RunResult],
    superblock_bytes: float,
) -> dict[str, Result]:
    """Results of jobs that ran together, by name."""
    written = sum(int(core.write_bytes.sum()) for core in cores)
    more: dict[str, Any] = {"superblock_bytes": superblock_bytes, "written_bytes": written}
    ran = zip(jobs.items(), cores, strict=True)
    return {name: Result(title, load, seeds[name], core, **more) for (name, load), core in ran}


def _ratio(above: npt.NDArray[Any], below: npt.NDArray[Any]) -> Floats:
    """`above / below`, NaN if that is not possible."""
    result: Floats = np.full(len(above), np.nan)
    np.divide(above, below, out=result, where=below > 0)
    return result


def _padded(column: npt.NDArray[Any], count: int, missing: float) -> npt.NDArray[Any]:
    """Column of a sensor extended to all seconds: sensors are read at the end of whole seconds
    only.
    """
    if len(column) >= count:
        return column[:count]
    return np.concatenate([column, np.full(count - len(column), missing, dtype=column.dtype)])


SPARK_PX = (360, 60)


def _spark(series: Series) -> str:
    """IOPS over the run as a line in SVG; empty for a run of fewer than two seconds."""
    rate = series.iops
    if len(rate) < 2 or not rate.max() > 0:
        return ""
    wide, high = SPARK_PX
    x, y = np.linspace(0, wide, len(rate)), high * (1 - rate / rate.max())
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return (
        f"<svg width='{wide}' height='{high}' role='img' aria-label='IOPS over the run, up to "
        f"{rate.max():,.0f}'><polyline points='{points}' fill='none' stroke='currentColor'/></svg>"
    )


LOG_FROM = 20.0
"""Ratio of the highest to the lowest rate from which the axis is logarithmic."""


def _plot(series: Series, *, title: str) -> Figure:
    """Rate, latency, and heat with power, over the run: three panels over the same seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6.5), layout="constrained")
    rate, latency, heat = figure.subplots(3, sharex=True)
    figure.suptitle(title, fontsize=11)
    rate.plot(series.time_s, series.iops, ".", markersize=2, color="tab:blue")
    rate.set_ylabel("I/Os per second")
    moving = series.iops[series.iops > 0]
    if len(moving) and moving.max() > LOG_FROM * moving.min():
        rate.set_yscale("log")
    latency.plot(series.time_s, series.latency_us, ".", markersize=2, label="mean")
    latency.plot(series.time_s, series.latency_us_max, ".", markersize=2, label="largest")
    latency.set_yscale("log")
    latency.set_ylabel("latency, µs")
    latency.legend(markerscale=4, fontsize=8)
    heat.plot(series.time_s, series.temperature_c, color="tab:red")
    heat.set_ylabel("°C", color="tab:red")
    power = heat.twinx()
    power.plot(series.time_s, series.power_w, color="tab:gray", linewidth=0.8)
    power.set_ylabel("W", color="tab:gray")
    heat.set_xlabel("seconds of the drive's time")
    for axes in (rate, latency, heat):
        axes.grid(alpha=0.3)
    return figure
