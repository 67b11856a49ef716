"""SNIA's tests in rounds: the way to steady state, the measurement window, then the figures.

The plots are the specification's: steady-state convergence over all rounds, the measurement window
with its mean, its least-squares line and the bounds around the mean, and every load's figure as a
table and as bars (its three-dimensional bars, seen from above).
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.analysis.figures import SMALL_BLOCK_BYTES, PhaseFigures
from drivebay.analysis.groups import mix_name
from drivebay.common import units
from drivebay.definitions.suites import spoken
from drivebay.report import captions, charts_groups
from drivebay.report.blocks import inside_panels, names_of
from drivebay.report.charts_groups import Group
from drivebay.report.entries import Run, by_drive
from drivebay.report.kinds import generic
from drivebay.report.kinds.base import BarOf, Kind
from drivebay.report.markup import Child, Html, el
from drivebay.report.panels import Note, Panel, panel
from drivebay.report.parts import details, table
from drivebay.report.words import latency as latency_words
from drivebay.report.words import number, quantity

MANY = 12
"""With more loads than that their latencies have no row each: the tables have them."""


def bars(measured: Measured) -> list[BarOf]:
    """What was tracked; the number of rounds stands in the remark."""
    return [bar for bar in generic.bars(measured) if bar.key != "steady_rounds"]


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Convergence and window side by side, the figures, and the inside of a test of few loads."""
    rule = found[0].measured.test.rounds
    known = [run for run in found if run.measured.rounds is not None]
    shown: list[Panel] = []
    if known and rule is not None:
        windows = [_window(prefix, known, label) for label in rule.tracked]
        shown = [_convergence(prefix, known), *windows]
    shown += _figures(prefix, found)
    if len(found[0].measured.phases) <= MANY:
        # Rounds lie apart in time: what is drawn over the run would run them together.
        shown += [one for one in inside_panels(prefix, found) if not one.apart]
    return shown


def _convergence(prefix: str, found: Sequence[Run]) -> Panel:
    def of(run: Run) -> list[Group]:
        rounds = run.measured.rounds
        if rounds is None:
            return []
        shown = {one.label: one.values for one in rounds.tracked}
        if not by_drive(found) and rounds.unit != "µs":
            shown = _like_tracked(run) | shown
        return [Group(spoken(name), range(1, len(y) + 1), y) for name, y in shown.items()]

    unit = found[0].measured.rounds.unit if found[0].measured.rounds else ""
    most = max((run.measured.rounds.count for run in found if run.measured.rounds), default=1)
    return panel(
        "Steady-state convergence",
        charts_groups.chart(
            f"{prefix}-convergence", found, of, unit=unit, axis=_rounds_axis(1, most)
        ),
        names_of(found),
        [_count(run) for run in found],
        Note(captions.ZERO, "linear"),
        Note(captions.LOG, "log"),
        lead="Every round; the loads with the mix of what is tracked.",
        switches=charts_groups.switches(found, of),
        key=charts_groups.key(found, of),
        wide=False,
    )


def _like_tracked(run: Run) -> dict[str, tuple[float, ...]]:
    """The rounds of all loads that read as large a share as something tracked."""
    rounds = run.measured.rounds
    assert rounds is not None, "asked of runs that have rounds"
    tracked = {one.label for one in rounds.tracked}
    mixes = {p.workload.read_percent for p in run.measured.phases if p.label in tracked}
    return {
        phase.label: rounds.history[phase.label]
        for phase in run.measured.phases
        if phase.workload.read_percent in mixes
    }


def _window(prefix: str, found: Sequence[Run], label: str) -> Panel:
    """The last rounds of one load that is tracked."""

    def of(run: Run) -> list[Group]:
        rounds = run.measured.rounds
        one = next((one for one in rounds.tracked if one.label == label), None) if rounds else None
        if rounds is None or one is None:
            return []
        last = one.values[-rounds.window :]
        x = [len(one.values) - len(last) + place + 1 for place in range(len(last))]
        start, rise = one.line
        values = Group(spoken(label), x, last)
        if by_drive(found):
            return [values]
        return [
            values,
            Group("mean", x, [one.mean] * len(x), marks=False),
            Group("least-squares line", x, [start + rise * n for n in range(len(x))], "dot", False),
            Group("mean + 10 %", x, [one.mean * 1.1] * len(x), "dash", False),
            Group("mean - 10 %", x, [one.mean * 0.9] * len(x), "dash", False),
        ]

    several = [run.measured.rounds for run in found if run.measured.rounds is not None]
    first = min(rounds.count - rounds.window + 1 for rounds in several)
    last = max(rounds.count for rounds in several)
    alone = len(several[0].tracked) == 1
    return panel(
        f"Steady-state measurement window{'' if alone else f', {spoken(label)}'}",
        charts_groups.chart(
            f"{prefix}-window-{label}",
            found,
            of,
            unit=several[0].unit,
            axis=_rounds_axis(first, last),
            close=True,
        ),
        names_of(found),
        [_excursions(run, label) for run in found],
        "The axis does not start at zero.",
        key=charts_groups.key(found, of),
        wide=False,
    )


def _rounds_axis(first: int, last: int) -> dict[str, object]:
    return {
        "title": {"text": "round"},
        "range": [first - 0.4, last + 0.4],
        "dtick": 1 if last - first < 12 else 5,
    }


def _count(run: Run) -> str:
    rounds = run.measured.rounds
    return f"n = {rounds.count} rounds" if rounds else "no rounds"


def _excursions(run: Run, label: str) -> str:
    rounds = run.measured.rounds
    known = [one for one in rounds.tracked if one.label == label] if rounds else []
    return "".join(
        f"Range {one.range_percent:.1f} %, slope {one.slope_percent:.1f} % of the mean, "
        f"n = {rounds.window if rounds else 0} rounds"
        for one in known
    )


def _figures(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Every load's figure by block size, grouped by mix."""
    latency = _rule(found[0].measured) == "latency"
    what = "Mean latency" if latency else _what(found[0].measured)
    shown = [_by_size(f"{prefix}-grid", found, what)]
    if latency:
        shown.append(_by_size(f"{prefix}-longest", found, "Longest latency"))
    return shown


def _by_size(chart_id: str, found: Sequence[Run], what: str) -> Panel:
    def of(run: Run) -> list[Group]:
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

    unit = {"IOPS": "IOPS", "Data rate": "MB/s"}.get(what, "ms")
    ios = [f"n = {sum(s.total_ios for s in run.measured.steps):,} I/Os" for run in found]
    log_first = what == "IOPS"
    return panel(
        f"{what} by block size and mix",
        charts_groups.chart(
            chart_id,
            found,
            of,
            unit=unit,
            axis={"type": "category"},
            bars=True,
            log_first=log_first,
        ),
        names_of(found),
        ios,
        Note(captions.ZERO, "linear"),
        Note(captions.LOG, "log"),
        lead="Means over the last rounds." if what != "Longest latency" else "Of the last rounds.",
        switches=charts_groups.switches(found, of, log_first=log_first),
        key=charts_groups.key(found, of),
        wide=len(found[0].measured.phases) > MANY,
    )


def _value(measured: Measured, phase: PhaseFigures, what: str) -> float:
    if what == "IOPS":
        return phase.step.iops
    if what == "Data rate":
        return phase.step.rate_mb_s
    key = "latency_mean" if what == "Mean latency" else "latency_max"
    found = measured.figures.get(f"{key}_{phase.label}")
    return float("nan") if found is None or found.value is None else found.value / 1e3


def _rule(measured: Measured) -> str:
    return measured.test.rounds.variable if measured.test.rounds else "iops"


def _what(measured: Measured) -> str:
    large = all(phase.workload.block_bytes > SMALL_BLOCK_BYTES for phase in measured.phases)
    return "Data rate" if large else "IOPS"


def grid(found: Sequence[Run]) -> Html:
    """The specification's table, a row for each block size and a column for each mix; then all
    figures."""
    parts: list[Child] = []
    for run in found:
        phases = run.measured.phases
        mixes = list(dict.fromkeys(phase.workload.read_percent for phase in phases))
        sizes = sorted({phase.workload.block_bytes for phase in phases})
        latency = _rule(run.measured) == "latency"
        what = "Mean latency" if latency else _what(run.measured)
        by_load = {(p.workload.block_bytes, p.workload.read_percent): p for p in phases}
        rows: list[list[Child]] = [
            [
                units.binary_bytes(size),
                *(_cell(run, by_load.get((size, mix)), what) for mix in mixes),
            ]
            for size in sizes
        ]
        unit = {"IOPS": "IOPS", "Data rate": "MB/s"}.get(what, "")
        name = f"{run.name}: " if run.name else ""
        caption = f"{name}{what}{f', {unit}' if unit else ''}, by block size and reads/writes in %"
        heads = ["", *(f"{mix}/{100 - mix}" for mix in mixes)]
        parts.append(table(heads, rows, caption=caption))
    return el(
        "div", details("Figures by block size and mix", *parts), captions.figures_table(found)
    )


def _cell(run: Run, phase: PhaseFigures | None, what: str) -> str:
    if phase is None:
        return ""
    value = _value(run.measured, phase, what)
    return latency_words(value * 1e3) if what == "Mean latency" else number(value)


def remarks(measured: Measured) -> list[str]:
    """Whether and after how many rounds it was steady."""
    rounds = measured.rounds
    if rounds is None or measured.test.rounds is None:
        return ["too few rounds were run to tell whether the drive was steady"]
    if not rounds.reached:
        return [
            f"steady state was not reached in {rounds.count} rounds; the figures are those of the "
            f"last {rounds.window}"
        ]
    return [
        f"steady after {rounds.count} rounds; the figures are those of the last {rounds.window}"
    ]


def say(measured: Measured) -> list[str]:
    """What was tracked, and how many rounds it took."""
    known = [
        f"{one.label.partition(', ')[2]} {quantity(one.value, one.unit)}"
        for bar in bars(measured)
        if (one := measured.figures[bar.key]).value is not None
    ]
    words = ", ".join(known)
    return [f"{measured.test.title}: {words} ({remarks(measured)[0]})."] if known else []


KIND = Kind(bars=bars, panels=panels, say=say, table=grid, remarks=remarks)
