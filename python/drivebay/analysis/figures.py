"""The shape of every test's figures: one number with its unit, spread and samples; a phase; a test.

A figure that cannot be computed is there with value None and a note that says why, never left out
in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from drivebay.analysis import consistency as consistencies
from drivebay.analysis import ladder as ladders
from drivebay.analysis import latency, stages, timeline
from drivebay.analysis import storage_bench as benches
from drivebay.analysis import thermal as thermals
from drivebay.analysis.rounds import RoundsFound
from drivebay.analysis.stages import OverTime
from drivebay.analysis.trim import Trim
from drivebay.definitions.suites import Test, Workload

SAMPLES = "1 s samples"
IOS = "I/Os"
SD = "standard deviation of 1 s samples"
SLOW_MS = (10, 100)
"""The reviews' limits: the share of I/Os slower than these."""
SMALL_BLOCK_BYTES = 8192
"""Up to this size a load is known by its IOPS, above it by its data rate."""


@dataclass(frozen=True)
class Figure:
    """One number with what is needed to believe it.

    `spread` is in the figure's own unit, of the kind `spread_kind` says; `n` counts `n_kind`.
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


@dataclass(frozen=True)
class PhaseFigures:
    """One phase, computed: its timeline, merged histogram, stages, power and the ladder's row."""

    label: str
    workload: Workload
    timeline: timeline.Timeline
    histogram: latency.Histogram
    stages: tuple[stages.StageShare, ...]
    step: ladders.Step
    throttled_s: float | None = None
    stages_over_time: OverTime | None = None
    bench: benches.StorageBench | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """One test's figures, by key, in the order to be read; `main` are those of the short table.

    `consistency`, `thermal`, `depth_mean` and `rounds` are there for tests of that kind alone, and
    None where the run was too short for a single full second.
    """

    test: Test
    phases: tuple[PhaseFigures, ...]
    figures: Mapping[str, Figure]
    main: tuple[str, ...] = ()
    consistency: consistencies.Consistency | None = None
    thermal: thermals.Thermal | None = None
    depth_mean: ladders.DepthMean | None = None
    trim: Trim | None = None
    rounds: RoundsFound | None = None

    @property
    def steps(self) -> tuple[ladders.Step, ...]:
        """The ladder's rows, one per phase."""
        return tuple(phase.step for phase in self.phases)

    @property
    def whole(self) -> timeline.Timeline:
        """All phases one after the other."""
        return timeline.joined([phase.timeline for phase in self.phases])


def by_key(rows: Iterable[Figure]) -> dict[str, Figure]:
    """The figures by key; a test's own one goes before that of its phase."""
    found: dict[str, Figure] = {}
    for row in rows:
        found.setdefault(row.key, row)
    return found
