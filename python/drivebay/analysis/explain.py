"""Explain: where the time of a test went, by queue depth and over time, alone or against another.

The mean latency of a phase is the sum of its stages' means, so a stage's part in it, in its growth
with the queue depth, and in the gap between two drives are all plain differences. The sentences say
only what these numbers say; "because" is left to the reader.

Left out: tails. The stages are known as means, and nothing here holds for the slowest I/Os alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from drivebay.analysis.figures import Measured, PhaseFigures
from drivebay.analysis.stages import OverTime, StageShare, meaning, ordered
from drivebay.definitions.suites import spoken

WORTH_PERCENT = 10.0
"""A stage is named in a sentence from this part of the whole on."""
SAME_PERCENT = 1.0
"""Two latencies that differ by less are called the same."""
NAMED_MAX = 3
FULL_PERCENT = 90.0
"""A part of the drive that works for so much of the time sets the pace."""
PARTS = {
    "busy_flash_core_percent": "flash core",
    "busy_dies_percent": "dies",
    "busy_channels_percent": "channels",
}
"""Metric of a phase, and the part of the drive in words."""


@dataclass(frozen=True)
class Load:
    """One phase: its mean latency over all I/Os, the stages that it is the sum of, and how much of
    its time each part of the drive worked."""

    label: str
    queue_depth: int
    ios: int
    latency_us: float
    stages: tuple[StageShare, ...]
    over_time: OverTime | None
    busy_percent: Mapping[str, float] = field(default_factory=dict)

    def mean_us(self, stage: str) -> float:
        """A stage's mean per I/O; 0 where it took no time."""
        return next((one.mean_us for one in self.stages if one.stage == stage), 0.0)


@dataclass(frozen=True)
class Part:
    """A stage's part of a difference, in microseconds and in percent of the whole difference."""

    stage: str
    us: float
    percent: float


@dataclass(frozen=True)
class Gap:
    """Two drives under one load: how far apart, and which stages that is; `us` is b less a."""

    label: str
    a_us: float
    b_us: float
    parts: tuple[Part, ...]

    @property
    def us(self) -> float:
        """How much longer b takes per I/O; negative where it is faster."""
        return self.b_us - self.a_us


@dataclass(frozen=True)
class Explained:
    """One test of one drive. `loads` is empty where the target cannot see inside (real drives)."""

    test_id: str
    title: str
    loads: tuple[Load, ...]
    sentences: tuple[str, ...]


def explain(measured: Measured) -> Explained:
    """Where the time of a test went."""
    loads = tuple(_load(measured, phase) for phase in measured.phases if phase.stages)
    return Explained(measured.test.id, measured.test.title, loads, tuple(_sentences(loads)))


def gaps(a: Explained, b: Explained) -> tuple[Gap, ...]:
    """The loads that both ran, compared stage by stage."""
    others = {load.label: load for load in b.loads}
    found = []
    for load in a.loads:
        other = others.get(load.label)
        if other is not None:
            found.append(Gap(load.label, load.latency_us, other.latency_us, _parts(load, other)))
    return tuple(found)


def compared(a: Explained, b: Explained, *, a_name: str, b_name: str) -> tuple[str, ...]:
    """One sentence for each load that both ran: who is faster, by how much, in which stages."""
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
        line = " ".join(filter(None, (_at(gap.label), takes)))
        lines.append(f"{line[:1].upper()}{line[1:]}; {_of_the_gap(gap.parts, slower)}.")
    return tuple(lines)


def _load(measured: Measured, phase: PhaseFigures) -> Load:
    apart = len({one.workload.queue_depth for one in measured.phases}) == len(measured.phases)
    depth = phase.workload.queue_depth
    by_depth = apart and measured.test.kind != "trace"  # a trace has its own depths
    return Load(
        label=f"QD {depth}" if by_depth else spoken(phase.label),
        queue_depth=depth,
        ios=phase.step.total_ios,
        latency_us=sum(one.mean_us for one in phase.stages),
        stages=phase.stages,
        over_time=phase.stages_over_time,
        busy_percent={
            words: phase.metrics[name] for name, words in PARTS.items() if name in phase.metrics
        },
    )


def _parts(a: Load, b: Load) -> tuple[Part, ...]:
    """Every stage's part of b less a, the largest first."""
    gap = b.latency_us - a.latency_us
    names = ordered({one.stage for load in (a, b) for one in load.stages})
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
    most = sorted(changes, key=lambda one: -abs(one[3] - one[2]))[:NAMED_MAX]
    for place, stage, before, after in sorted(most):
        where = f" {_at(loads[place].label)}" if len(loads) > 1 else ""
        goes = "rises" if after > before else "falls"
        lines.append(
            f"During the run{where}, the share of {meaning(stage)} {goes} from {before:.0f} % of "
            f"the latency (first tenth) to {after:.0f} % (last tenth)."
        )
    return lines


def _busiest(loads: Sequence[Load]) -> list[str]:
    """A sentence about the load under which a part of the drive works most."""
    known = [load for load in loads if load.busy_percent]
    if not known:
        return []
    load = max(known, key=lambda one: max(one.busy_percent.values()))
    ranked = sorted(load.busy_percent.items(), key=lambda one: -one[1])
    (most, percent), *others = ranked
    many = most.endswith("s")
    words = [f"the {most} {'are' if many else 'is'} busy {percent:.0f} % of the time"]
    words += [f"the {part} {percent:.0f} %" for part, percent in others]
    line = _sentence(_at(load.label), f"{_joined(words)}.")
    if percent >= FULL_PERCENT:
        return [f"{line} The {most} {'limit' if many else 'limits'} the rate."]
    return [line]


def _at(label: str) -> str:
    """A load inside a sentence; nothing for a test that is one load.

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
    largest = sorted(load.stages, key=lambda one: -one.share_percent)
    named = [one for one in largest if one.share_percent >= WORTH_PERCENT] or largest[:1]
    words = [
        f"{one.share_percent:.0f} % is {meaning(one.stage)} ({_us(one.mean_us)})"
        for one in named[:NAMED_MAX]
    ]
    takes = f"the mean latency is {_us(load.latency_us)}: {_joined(words)}."
    return _sentence(_at(load.label), takes)


def _change(load: Load) -> tuple[str, float, float] | None:
    """The stage whose share moved most, its share in the first and in the last tenth; None if
    nothing moved."""
    over = load.over_time
    if over is None or len(over.second) < 10:
        return None
    tenth = len(over.second) // 10
    moved = []
    for stage in over.mean_us:
        ends = [
            _weighted(over, stage, part)
            for part in (slice(0, tenth), slice(len(over.second) - tenth, None))
        ]
        moved.append((abs(ends[1] - ends[0]), stage, ends))
    most, stage, (before, after) = max(moved)
    if not most >= WORTH_PERCENT:  # also where a tenth has no I/O at all
        return None
    return stage, before, after


def _weighted(over: OverTime, stage: str, part: slice) -> float:
    """A stage's share of all latency in a part of the run, in percent."""
    weights = over.ios[part]
    sums = {name: float(np.nansum(values[part] * weights)) for name, values in over.mean_us.items()}
    whole = sum(sums.values())
    return 100 * sums[stage] / whole if whole else float("nan")


def _of_the_growth(first: Load, last: Load) -> str:
    """What a deeper queue adds, as the gap of two drives is told."""
    parts = _parts(first, last)
    if _pull_one_way(parts):
        return _of_the_whole(parts)
    return _more_and_less(parts)


def _pull_one_way(parts: Sequence[Part]) -> bool:
    return all(-WORTH_PERCENT < part.percent <= 100 for part in parts)


def _of_the_gap(parts: Sequence[Part], slower: str) -> str:
    """Percent where all stages pull one way; microseconds where some pull back."""
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
    """ "62 % is host software and protocol (3.4 µs)"."""
    along = [part for part in parts if part.percent >= WORTH_PERCENT][:NAMED_MAX]
    if not along:
        return "no stage accounts for more than a tenth"
    return _joined(
        [f"{part.percent:.0f} % is {meaning(part.stage)} ({_us(abs(part.us))})" for part in along]
    )


def _joined(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _us(us: float) -> str:
    """A time per I/O in words.

    >>> _us(87.84), _us(2943.0)
    ('87.8 µs', '2.94 ms')
    """
    return f"{us / 1e3:.3g} ms" if us >= 1e3 else f"{us:.3g} µs"
