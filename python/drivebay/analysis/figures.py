"""Data types of figures: one number with its unit, spread and samples; a phase; a test.

A figure that cannot be computed is present with value None and a note that gives the reason, never
silently left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from drivebay.analysis import timeline
from drivebay.analysis.consistency import Consistency
from drivebay.analysis.ladder import Step
from drivebay.analysis.latency import Histogram
from drivebay.analysis.rounds import RoundsFound
from drivebay.analysis.stages import OverTime, StageShare
from drivebay.analysis.storage_bench import StorageBench
from drivebay.analysis.thermal import Thermal
from drivebay.analysis.timeline import Spread, Timeline
from drivebay.analysis.trim import Trim
from drivebay.definitions.suites import Test, Workload

SAMPLES = "samples of 1 s"
IOS = "I/Os"
SD = "standard deviation of 1 s samples"
TOO_SHORT = "the run is shorter than one second"
# The reviews' limits for slow I/Os: figures give the share above each.
SLOW_MS = (10, 100)
# Loads up to this block size are described by their IOPS, larger ones by their data rate.
SMALL_BLOCK_BYTES = 8192
# Share of the seconds with a reduced rate from which a test counts as throttled.
THROTTLED_FROM = 0.1


@dataclass(frozen=True)
class Figure:
    """One number with the data needed to judge it.

    `spread` is in the figure's own unit, of the kind `spread_kind`; `n` counts `n_kind`. `place` is
    the load at which an extreme occurred ("at 128 KiB"); it is separate from the label, so that
    drives with different places share one label. `interval` is a virtual drive's 90 % interval;
    `unlike` says why a figure of it has none.
    """

    key: str
    label: str
    value: float | None
    unit: str
    spread: float | None = None
    spread_kind: str = ""
    n: int = 0
    n_kind: str = SAMPLES
    note: str = ""
    place: str = ""
    interval: tuple[float, float] | None = None
    unlike: str = ""
    missing: str = "–"
    """Printed instead of a value that is None: "never" for an event that did not happen."""


def sampled(
    key: str, label: str, value: float | None, unit: str, some: Spread | None, note: str = ""
) -> Figure:
    """A figure with the spread and number of the 1 s samples that it is computed from."""
    sd, n = (some.sd, some.n) if some else (None, 0)
    return Figure(key, label, value, unit, sd, SD, n, note=note)


def mean_of(key: str, label: str, some: Spread | None, unit: str, note: str = "") -> Figure:
    """The mean of 1 s samples; without samples `note` gives the reason."""
    return sampled(key, label, some.mean if some else None, unit, some, note)


def rate(key: str, label: str, step: Step) -> Figure:
    """A phase's data rate."""
    return sampled(key, label, step.rate_mb_s, "MB/s", step.rate)


def iops(key: str, label: str, step: Step) -> Figure:
    """A phase's I/Os per second."""
    return sampled(key, label, step.iops, "IOPS", step.ios)


def per_io(key: str, label: str, value: float | None, unit: str, n: int, note: str = "") -> Figure:
    """A figure computed from single I/Os."""
    return Figure(key, label, value, unit, n=n, n_kind=IOS, note=note)


@dataclass(frozen=True)
class PhaseFigures:
    """Figures of one phase: its timeline, merged histogram, stages, power and the ladder's row.
    `directions` has separate histograms of "read" and "write", if they have any I/Os.
    """

    label: str
    workload: Workload
    timeline: Timeline
    histogram: Histogram
    stages: tuple[StageShare, ...]
    step: Step
    throttled_s: float | None = None
    stages_over_time: OverTime | None = None
    bench: StorageBench | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    directions: Mapping[str, Histogram] = field(default_factory=dict)


Phases = tuple[PhaseFigures, ...]


@dataclass(frozen=True)
class Measured:
    """Figures of one test by key, in display order; `main` are those of the short table.

    `consistency`, `thermal` and `rounds` are set for tests of that kind only, and None if the run
    was too short for a single full second.
    """

    test: Test
    phases: Phases
    figures: Mapping[str, Figure]
    main: tuple[str, ...] = ()
    consistency: Consistency | None = None
    thermal: Thermal | None = None
    trim: Trim | None = None
    rounds: RoundsFound | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """The ladder's rows, one per phase."""
        return tuple(phase.step for phase in self.phases)

    @property
    def throttled(self) -> bool:
        """True if throttling reduces the rate in a tenth of the main figure's seconds."""
        depths = self.test.metric_queue_depths if self.test.kind == "ladder" else ()
        loads = [one for one in self.phases if not depths or one.workload.queue_depth in depths]
        seconds = sum(load.timeline.n for load in loads)
        slowed = sum(int(load.timeline.slowed.sum()) for load in loads)
        return seconds > 0 and slowed >= THROTTLED_FROM * seconds

    @property
    def whole(self) -> Timeline:
        """All phases one after the other."""
        return timeline.joined([phase.timeline for phase in self.phases])


def by_key(rows: Iterable[Figure]) -> dict[str, Figure]:
    """Collects figures by key; a test's own figure takes precedence over its phase's."""
    figures: dict[str, Figure] = {}
    for row in rows:
        figures.setdefault(row.key, row)
    return figures
