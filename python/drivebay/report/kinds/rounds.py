"""SNIA's tests: rounds until steady state, and the course of a fresh drive to saturation.

The plots are those of the specification: steady-state convergence over all rounds; the measurement
window with its mean, least-squares line and the bounds around the mean; the figure of every load as
a table and as bars (its three-dimensional bars, seen from above); for a saturation test IOPS over
time and over data written, and latency, per minute.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured, timeline
from drivebay.analysis.figures import SMALL_BLOCK_BYTES, PhaseFigures
from drivebay.analysis.groups import mix_name
from drivebay.analysis.rounds import RoundsFound
from drivebay.common import units
from drivebay.definitions.suites import spoken
from drivebay.report.base import figures
from drivebay.report.base.markup import Child, Html, details, el, table
from drivebay.report.base.runs import Run, by_drive
from drivebay.report.base.text import latency as latency_words
from drivebay.report.base.text import number
from drivebay.report.charts import latency, model
from drivebay.report.charts.curves import BOTH, LOG_FIRST, Curves, Group
from drivebay.report.charts.model import Axis, Panel
from drivebay.report.kinds import generic
from drivebay.report.kinds.generic import BarOf, Kind
from drivebay.report.kinds.loads import MANY

MINUTE_S = 60
# Runs shorter than this are drawn per second.
SHORT_S = 20 * MINUTE_S
IOPS, RATE, LATENCY, LONGEST = "IOPS", "Data rate", "Mean latency", "Maximum latency"
UNITS = {IOPS: "IOPS", RATE: "MB/s", LATENCY: "ms", LONGEST: "ms"}


def _bars(measured: Measured) -> list[BarOf]:
    """Tracked figures; the number of rounds is in the remark."""
    return [bar for bar in generic.bars(measured) if bar.key != "steady_rounds"]


def _panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Convergence and window side by side, the figures, and latency and stages if there are few
    loads.
    """
    rule = runs[0].measured.test.rounds
    known = [run for run in runs if run.measured.rounds is not None]
    shown: list[Panel] = []
    if known and rule is not None:
        windows = [_window(prefix, known, label) for label in rule.tracked]
        shown = [_convergence(prefix, known), *windows]
    what = _what(runs[0].measured)
    shown.append(_by_size(f"{prefix}-grid", runs, what))
    if what == LATENCY:
        shown.append(_by_size(f"{prefix}-longest", runs, LONGEST))
    if len(runs[0].measured.phases) <= MANY:
        # Rounds are apart in time; charts over the run would join them.
        shown += [panel for panel in latency.inside(prefix, runs) if not panel.apart]
    return shown


def _rounds(run: Run) -> RoundsFound:
    assert run.measured.rounds is not None, "asked of runs that have rounds"
    return run.measured.rounds


def _rounds_axis(first: int, last: int) -> Axis:
    step = 1 if last - first < 12 else 5
    return Axis("round", limits=(first - 0.4, last + 0.4), tick_step=step)


def _convergence(prefix: str, runs: Sequence[Run]) -> Panel:
    def groups_of(run: Run) -> list[Group]:
        rounds = _rounds(run)
        shown = {load.label: load.values for load in rounds.tracked}
        if not by_drive(runs) and rounds.unit != "µs":
            tracked = [p for p in run.measured.phases if p.label in shown]
            mixes = {phase.workload.read_percent for phase in tracked}
            alike = [p.label for p in run.measured.phases if p.workload.read_percent in mixes]
            shown = {label: rounds.history[label] for label in alike} | shown
        return [Group(spoken(name), range(1, len(y) + 1), y) for name, y in shown.items()]

    return Curves(
        f"{prefix}-convergence",
        runs,
        groups_of,
        title="Steady-state convergence",
        unit=_rounds(runs[0]).unit,
        x=_rounds_axis(1, max(_rounds(run).count for run in runs)),
        samples=model.spoken(runs, [f"n = {_rounds(run).count} rounds" for run in runs]),
        lead="All rounds; loads with the same mix as the tracked load.",
        scales=BOTH,
    ).panel()


def _window(prefix: str, runs: Sequence[Run], label: str) -> Panel:
    """Last rounds of one tracked load."""

    def groups_of(run: Run) -> list[Group]:
        rounds = _rounds(run)
        tracked = next((tracked for tracked in rounds.tracked if tracked.label == label), None)
        if tracked is None:
            return []
        last = tracked.values[-rounds.window :]
        x = [len(tracked.values) - len(last) + place + 1 for place in range(len(last))]
        start, rise = tracked.line
        values = Group(spoken(label), x, last)
        if by_drive(runs):
            return [values]
        line = [start + rise * n for n in range(len(x))]
        return [
            values,
            Group("mean", x, [tracked.mean] * len(x), marks=False),
            Group("least-squares line", x, line, dash="dot", marks=False),
            Group("mean + 10 %", x, [tracked.mean * 1.1] * len(x), dash="dash", marks=False),
            Group("mean - 10 %", x, [tracked.mean * 0.9] * len(x), dash="dash", marks=False),
        ]

    several = [_rounds(run) for run in runs]
    alone = len(several[0].tracked) == 1
    return Curves(
        f"{prefix}-window-{label}",
        runs,
        groups_of,
        title=f"Steady-state measurement window{'' if alone else f', {spoken(label)}'}",
        unit=several[0].unit,
        x=_rounds_axis(
            min(rounds.count - rounds.window + 1 for rounds in several),
            max(rounds.count for rounds in several),
        ),
        samples=model.spoken(runs, [_excursions(rounds, label) for rounds in several]),
        scales=(model.CLOSE,),
    ).panel()


def _excursions(rounds: RoundsFound, label: str) -> str:
    return "".join(
        f"Range {tracked.range_percent:.1f} %, slope {tracked.slope_percent:.1f} % of the mean, "
        f"n = {rounds.window} rounds"
        for tracked in rounds.tracked
        if tracked.label == label
    )


def _what(measured: Measured) -> str:
    """Quantity that the test measures."""
    if measured.test.rounds is not None and measured.test.rounds.variable == "latency":
        return LATENCY
    large = all(phase.workload.block_bytes > SMALL_BLOCK_BYTES for phase in measured.phases)
    return RATE if large else IOPS


def _value(measured: Measured, phase: PhaseFigures, what: str) -> float:
    if what == IOPS:
        return phase.step.iops
    if what == RATE:
        return phase.step.rate_mb_s
    key = "latency_mean" if what == LATENCY else "latency_max"
    figure = measured.figures.get(f"{key}_{phase.label}")
    return float("nan") if figure is None or figure.value is None else figure.value / 1e3


def _by_size(chart_id: str, runs: Sequence[Run], what: str) -> Panel:
    """Figure of every load by block size, grouped by mix."""

    def groups_of(run: Run) -> list[Group]:
        groups: dict[str, list[PhaseFigures]] = {}
        for phase in reversed(run.measured.phases):
            groups.setdefault(mix_name(phase.workload)[1], []).append(phase)
        return [
            Group(
                name,
                [units.binary_bytes(phase.workload.block_bytes) for phase in some],
                [_value(run.measured, phase, what) for phase in some],
            )
            for name, some in reversed(groups.items())
        ]

    return Curves(
        chart_id,
        runs,
        groups_of,
        title=f"{what} by block size and mix",
        unit=UNITS[what],
        x=Axis(scale="category"),
        scales=LOG_FIRST if what == IOPS else BOTH,
        bars=True,
    ).panel()


def _table(runs: Sequence[Run]) -> Html:
    """Table of the specification, a row per block size and a column per mix; then all figures."""
    parts: list[Child] = []
    for run in runs:
        phases = run.measured.phases
        mixes = list(dict.fromkeys(phase.workload.read_percent for phase in phases))
        sizes = sorted({phase.workload.block_bytes for phase in phases})
        what = _what(run.measured)
        by_load = {
            (p.workload.block_bytes, p.workload.read_percent): _value(run.measured, p, what)
            for p in phases
        }
        rows: list[list[Child]] = [
            [units.binary_bytes(size), *(_cell(by_load.get((size, mix)), what) for mix in mixes)]
            for size in sizes
        ]
        unit = "" if what == LATENCY else f", {UNITS[what]}"
        name = f"{run.name}: " if run.name else ""
        caption = f"{name}{what}{unit}, by block size and reads/writes in %"
        parts.append(table(["", *(f"{mix}/{100 - mix}" for mix in mixes)], rows, caption=caption))
    grid = details("Figures by block size and mix", *parts)
    return el("div", grid, figures.figures_table(runs))


def _cell(value: float | None, what: str) -> str:
    if value is None:
        return ""
    return latency_words(value * 1e3) if what == LATENCY else number(value)


def _remarks(measured: Measured) -> list[str]:
    """Result of the steady-state criterion and the number of rounds."""
    rounds = measured.rounds
    if rounds is None or measured.test.rounds is None:
        return ["too few rounds to determine the steady state"]
    how = (
        f"steady state after {rounds.count} rounds"
        if rounds.reached
        else f"steady state not reached within {rounds.count} rounds"
    )
    return [f"{how}; the figures are from the last {rounds.window} rounds"]


def _saturation_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """The three plots of the specification, then latency and stages."""
    return [
        _course(f"{prefix}-time", runs, "IOPS over time", "IOPS", "hours"),
        _course(f"{prefix}-written", runs, "IOPS over data written", "IOPS", "GB written"),
        _course(f"{prefix}-latency-time", runs, "Mean latency over time", "ms", "hours"),
        *latency.inside(prefix, runs),
    ]


def _course(chart_id: str, runs: Sequence[Run], title: str, unit: str, across: str) -> Panel:
    short = all(run.measured.phases[0].timeline.n < SHORT_S for run in runs)

    def groups_of(run: Run) -> list[Group]:
        some = timeline.intervals(run.measured.phases[0].timeline, 1 if short else MINUTE_S)
        x = some.written_gb if across == "GB written" else some.end_s / 3600
        y = some.ios if unit == "IOPS" else some.latency_ms_mean
        return [Group("", [round(float(value), 4) for value in x], y.tolist(), marks=len(x) < 100)]

    longest = max(max(group.x, default=1.0) for run in runs for group in groups_of(run))
    seconds = [f"n = {run.measured.phases[0].timeline.n:,} s" for run in runs]
    return Curves(
        chart_id,
        runs,
        groups_of,
        title=title,
        unit=unit,
        x=Axis(across, limits=(0, float(longest))),
        samples=model.spoken(runs, seconds),
        lead="One point per second." if short else "One-minute means.",
        scales=BOTH,
        wide=chart_id.endswith("-time") and unit == "IOPS",
    ).panel()


ROUNDS = Kind(bars=_bars, panels=_panels, table=_table, remarks=_remarks)
SATURATION = Kind(panels=_saturation_panels)
