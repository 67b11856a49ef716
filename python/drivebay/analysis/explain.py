"""Breakdown of a test's latency by stage, queue depth and time, for one drive or compared with
another.

The mean latency of a phase is the sum of its stages' means, so a stage's part in it, in its growth
with the queue depth, and in the gap between two drives are all plain differences. The sentences
state only these numbers; causes are left to the reader.

Leaves out: tails. Only the means of the stages are known, and nothing here holds for the slowest
I/Os alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from drivebay.analysis.figures import Measured, PhaseFigures
from drivebay.analysis.stages import OverTime, StageShare, meaning, ordered
from drivebay.definitions.suites import spoken

# Smallest share at which a sentence names a stage.
WORTH_PERCENT = 10.0
# Latencies that differ by less are reported as equal.
SAME_PERCENT = 1.0
NAMED_MAX = 3
# Utilization from which a part of the drive is said to set the rate.
FULL_PERCENT = 90.0
# Names of the drive's parts, by metric of a phase.
PARTS = {
    "busy_flash_core_percent": "flash core",
    "busy_dies_percent": "dies",
    "busy_channels_percent": "channels",
}


@dataclass(frozen=True)
class Load:
    """One phase: its mean latency over all I/Os, the stages that add up to it, and the
    utilization of each part of the drive.
    """

    label: str
    queue_depth: int
    ios: int
    latency_us: float
    stages: tuple[StageShare, ...]
    over_time: OverTime | None
    busy_percent: Mapping[str, float] = field(default_factory=dict)

    def mean_us(self, stage: str) -> float:
        """Mean of a stage per I/O; 0 if it took no time."""
        return next((share.mean_us for share in self.stages if share.stage == stage), 0.0)


@dataclass(frozen=True)
class Part:
    """Contribution of a stage to a difference, in microseconds and in percent of the whole
    difference.
    """

    stage: str
    us: float
    percent: float


@dataclass(frozen=True)
class Gap:
    """Difference of two drives under one load, and the contributions of the stages; `us` is b
    less a.
    """

    label: str
    a_us: float
    b_us: float
    parts: tuple[Part, ...]

    @property
    def us(self) -> float:
        """Additional time per I/O of b; negative if b is faster."""
        return self.b_us - self.a_us


@dataclass(frozen=True)
class Explained:
    """Breakdown of one test of one drive. `loads` is empty if the target cannot see inside (real
    drives).
    """

    test_id: str
    title: str
    loads: tuple[Load, ...]
    sentences: tuple[str, ...]


def explain(measured: Measured) -> Explained:
    """Makes the breakdown of a test."""
    loads = tuple(_load(measured, phase) for phase in measured.phases if phase.stages)
    return Explained(measured.test.id, measured.test.title, loads, tuple(_sentences(loads)))


def gaps(a: Explained, b: Explained) -> tuple[Gap, ...]:
    """Compares the loads that both tests ran, stage by stage."""
    others = {load.label: load for load in b.loads}
    return tuple(
        Gap(load.label, load.latency_us, other.latency_us, _parts(load, other))
        for load in a.loads
        if (other := others.get(load.label)) is not None
    )


def compared(a: Explained, b: Explained, *, a_name: str, b_name: str) -> tuple[str, ...]:
    """One sentence per load that both ran: the faster drive, the difference, and its stages."""
    lines = []
    for gap in gaps(a, b):
        slower, faster = (b_name, a_name) if gap.us > 0 else (a_name, b_name)
        whole = max(gap.a_us, gap.b_us)
        if abs(gap.us) < whole * SAME_PERCENT / 100:
            same = f"both have the same mean latency ({_us(gap.a_us)} and {_us(gap.b_us)})."
            lines.append(_sentence(_at(gap.label), same))
            continue
        least = _us(min(gap.a_us, gap.b_us))
        takes = f"the mean latency of {faster} is {least}, of {slower} {_us(whole)}"
        lines.append(f"{_sentence(_at(gap.label), takes)}; {_of_the_gap(gap.parts, slower)}.")
    return tuple(lines)


def _load(measured: Measured, phase: PhaseFigures) -> Load:
    apart = len({other.workload.queue_depth for other in measured.phases}) == len(measured.phases)
    depth = phase.workload.queue_depth
    by_depth = apart and measured.test.kind != "trace"  # a trace has its own queue depths
    return Load(
        label=f"QD {depth}" if by_depth else spoken(phase.label),
        queue_depth=depth,
        ios=phase.step.total_ios,
        latency_us=sum(share.mean_us for share in phase.stages),
        stages=phase.stages,
        over_time=phase.stages_over_time,
        busy_percent={
            part: phase.metrics[name] for name, part in PARTS.items() if name in phase.metrics
        },
    )


def _parts(a: Load, b: Load) -> tuple[Part, ...]:
    """Contribution of every stage to b less a, the largest first."""
    gap = b.latency_us - a.latency_us
    names = ordered({share.stage for load in (a, b) for share in load.stages})
    parts = [
        Part(name, us, 100 * us / gap if gap else 0.0)
        for name in names
        if (us := b.mean_us(name) - a.mean_us(name))
    ]
    return tuple(sorted(parts, key=lambda part: -abs(part.us)))


def _sentences(loads: Sequence[Load]) -> list[str]:
    if not loads:
        return []
    first, last = loads[0], loads[-1]
    lines = [_main_stages(load) for load in ([first] if first is last else [first, last])]
    deeper = first.queue_depth < last.queue_depth
    if deeper and last.latency_us > first.latency_us * (1 + SAME_PERCENT / 100):
        lines.append(
            f"From {first.label} to {last.label} the mean latency rises by "
            f"{_us(last.latency_us - first.latency_us)}: {_of_the_growth(first, last)}."
        )
    lines += _busiest(loads)
    changes = [(place, *change) for place, load in enumerate(loads) if (change := _change(load))]
    most = sorted(changes, key=lambda change: -abs(change[3] - change[2]))[:NAMED_MAX]
    for place, stage, before, after in sorted(most):
        where = f" {_at(loads[place].label)}" if len(loads) > 1 else ""
        goes = "rises" if after > before else "falls"
        lines.append(
            f"During the run{where}, the share of {meaning(stage)} {goes} from {before:.0f} % of "
            f"the latency (first tenth) to {after:.0f} % (last tenth)."
        )
    return lines


def _busiest(loads: Sequence[Load]) -> list[str]:
    """Sentence about the load with the highest utilization of a part of the drive."""
    known = [load for load in loads if load.busy_percent]
    if not known:
        return []
    load = max(known, key=lambda load: max(load.busy_percent.values()))
    ranked = sorted(load.busy_percent.items(), key=lambda item: -item[1])
    (most, percent), *others = ranked
    many = most.endswith("s")
    phrases = [f"the {most} {'are' if many else 'is'} busy {percent:.0f} % of the time"]
    phrases += [f"the {part} {percent:.0f} %" for part, percent in others]
    line = _sentence(_at(load.label), f"{_joined(phrases)}.")
    if percent >= FULL_PERCENT:
        return [f"{line} The {most} {'limit' if many else 'limits'} the rate."]
    return [line]


def _at(label: str) -> str:
    """Names a load within a sentence; empty for a test with a single load.

    >>> _at("QD 4"), _at("4 KiB, writes"), _at("discarded"), _at("run")
    ('at QD 4', 'at 4 KiB, writes', 'in "discarded"', '')
    """
    if label == "run":
        return ""
    return f"at {label}" if label[0].isdigit() or label.startswith("QD ") else f'in "{label}"'


def _sentence(*parts: str) -> str:
    text = " ".join(filter(None, parts))
    return text[:1].upper() + text[1:]


def _main_stages(load: Load) -> str:
    largest = sorted(load.stages, key=lambda share: -share.share_percent)
    named = [share for share in largest if share.share_percent >= WORTH_PERCENT] or largest[:1]
    phrases = [
        f"{share.share_percent:.0f} % is {meaning(share.stage)} ({_us(share.mean_us)})"
        for share in named[:NAMED_MAX]
    ]
    takes = f"the mean latency is {_us(load.latency_us)}: {_joined(phrases)}."
    return _sentence(_at(load.label), takes)


def _change(load: Load) -> tuple[str, float, float] | None:
    """The stage whose share changed most, with its share in the first and in the last tenth;
    None if the change is small.
    """
    over = load.over_time
    if over is None or len(over.second) < 10:
        return None
    tenth = len(over.second) // 10
    parts = slice(0, tenth), slice(len(over.second) - tenth, None)
    moved = []
    for stage in over.mean_us:
        ends = [_weighted(over, stage, part) for part in parts]
        moved.append((abs(ends[1] - ends[0]), stage, ends))
    most, stage, (before, after) = max(moved)
    if not most >= WORTH_PERCENT:  # also if a tenth has no I/O at all
        return None
    return stage, before, after


def _weighted(over: OverTime, stage: str, part: slice) -> float:
    """A stage's share of all latency in a part of the run, in percent."""
    weights = over.ios[part]
    sums = {name: float(np.nansum(values[part] * weights)) for name, values in over.mean_us.items()}
    whole = sum(sums.values())
    return 100 * sums[stage] / whole if whole else float("nan")


def _of_the_growth(first: Load, last: Load) -> str:
    """Describes the time that a deeper queue adds."""
    parts = _parts(first, last)
    return _of_the_whole(parts) if _pull_one_way(parts) else _more_and_less(parts)


def _pull_one_way(parts: Sequence[Part]) -> bool:
    return all(-WORTH_PERCENT < part.percent <= 100 for part in parts)


def _of_the_gap(parts: Sequence[Part], slower: str) -> str:
    """Describes a gap: in percent if all stages contribute in one direction; in microseconds if
    some counteract.
    """
    if _pull_one_way(parts):
        return f"of the difference, {_of_the_whole(parts)}"
    return f"{slower} spends {_more_and_less(parts)}"


def _more_and_less(parts: Sequence[Part]) -> str:
    against = [part for part in parts if part.percent <= -WORTH_PERCENT][:NAMED_MAX]
    along = [part for part in parts if part.percent >= WORTH_PERCENT][:NAMED_MAX]
    more = _joined([f"{_us(abs(part.us))} more on {meaning(part.stage)}" for part in along])
    less = _joined([f"{_us(abs(part.us))} less on {meaning(part.stage)}" for part in against])
    return more + (f", but {less}" if less else "")


def _of_the_whole(parts: Sequence[Part]) -> str:
    """Percentages of the largest stages: "62 % is host software and protocol (3.4 µs)"."""
    along = [part for part in parts if part.percent >= WORTH_PERCENT][:NAMED_MAX]
    if not along:
        return "no stage accounts for more than a tenth"
    return _joined(
        [f"{part.percent:.0f} % is {meaning(part.stage)} ({_us(abs(part.us))})" for part in along]
    )


def _joined(phrases: Sequence[str]) -> str:
    if len(phrases) < 2:
        return "".join(phrases)
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def _us(us: float) -> str:
    """Formats a time per I/O.

    >>> _us(87.84), _us(2943.0)
    ('87.8 µs', '2.94 ms')
    """
    return f"{us / 1e3:.3g} ms" if us >= 1e3 else f"{us:.3g} µs"
