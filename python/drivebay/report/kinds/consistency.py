"""Performance consistency: mean, deviation and their ratio as bars; every second as a point.

As the reviews showed it: the whole run and its last seconds, the default spare space against more
of it by a switch.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.report import captions, charts_time
from drivebay.report.blocks import LINEAR_FIRST, inside_panels, names_of, run_key, with_heat
from drivebay.report.entries import SELF, Run, short_title
from drivebay.report.kinds.base import LOWER, BarOf, Kind
from drivebay.report.markup import Child
from drivebay.report.panels import Note, Panel, Switch, panel
from drivebay.report.parts import switch
from drivebay.report.words import number, quantity

AXES = (*LINEAR_FIRST, ("close", "Close-up"))
NOTES = (Note(captions.ZERO, "linear"), Note(captions.LOG, "log"))
CLOSE = Note(captions.CLOSE, "close")


def bars(measured: Measured) -> list[BarOf]:
    """The three bars of the reviews; the deviation from February 2015, the ratio from June on."""
    window = measured.consistency.window.n if measured.consistency else None
    last = f"last {window:,} s" if window else "last seconds"
    rate = [BarOf("mean_rate", f"Mean data rate, {last}", "MB/s")]
    return [
        *(rate if "mean_rate" in measured.figures else []),
        BarOf("mean_iops", f"Mean, {last}", "IOPS"),
        BarOf("sd_iops", f"Standard deviation, {last}", "IOPS", LOWER, half=True),
        BarOf("mean_over_sd", f"Mean over standard deviation, {last}", "", half=True),
    ]


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """The scatter of the whole run and of its last seconds, then latency and stages."""
    if any(run.colour == SELF for run in found):
        return [_both(prefix, found), *inside_panels(prefix, found)]
    windows = {run.measured.figures["mean_iops"].n for run in found}
    last = f"Last {min(windows):,} s" if len(windows) == 1 else "Last seconds"
    return [
        panel(
            "The whole run: IOPS of each second" + with_heat(found),
            charts_time.scatter(f"{prefix}-whole", found, whole=True),
            names_of(found),
            _seconds(found),
            *NOTES,
            captions.heat(found),
            captions.throttling(found),
            lead="One point per second.",
            switches=[Switch("axis", "Axis", LINEAR_FIRST)],
            key=run_key(found, ""),
            first_slot=1,
        ),
        panel(
            f"{last}: IOPS of each second",
            charts_time.scatter(f"{prefix}-end", found, whole=False),
            names_of(found),
            _last_seconds(found),
            *NOTES,
            CLOSE,
            lead="One point per second.",
            switches=[Switch("axis", "Axis", AXES)],
            key=run_key(found, ""),
            first_slot=1,
        ),
        *inside_panels(prefix, found),
    ]


def _both(prefix: str, found: Sequence[Run]) -> Panel:
    """For the Bench: one chart that a switch sets to the whole run or to its end."""
    return panel(
        "IOPS of each second" + with_heat(found),
        charts_time.scatter_both(f"{prefix}-seconds", found[0]),
        names_of(found),
        _last_seconds(found),
        *NOTES,
        CLOSE,
        lead="One point per second; mean and sd are those of the last seconds.",
        switches=[
            Switch("part", "Part", (("whole", "Whole run"), ("last", "Last seconds"))),
            Switch("axis", "Axis", AXES),
        ],
    )


def _seconds(found: Sequence[Run]) -> list[str]:
    return [captions.spread(run.measured.steps[0].ios, "IOPS") for run in found]


def _last_seconds(found: Sequence[Run]) -> list[str]:
    known = [run.measured.consistency for run in found]
    return [captions.spread(one.window if one else None, "IOPS") for one in known]


def shared(prefix: str, found: Sequence[Run]) -> Child:
    """The switch between the tests of the page, for both scatters at once."""
    names = {run.measured.test.id: short_title(run.measured.test) for run in found}
    choices = list(names.items())
    choices += [(charts_time.ALL, "All")] if len(choices) > 1 else []
    charts = [f"{prefix}-whole", f"{prefix}-end"]
    return switch(f"{prefix}-which", "Test", choices, charts=charts, slot=0)


def say(measured: Measured) -> list[str]:
    """Steady state, how even it is, and the burst before it."""
    found = measured.consistency
    if found is None:
        return []
    line = (
        f"{measured.test.title}: {quantity(found.window.mean, 'IOPS')} over the last "
        f"{found.window.n:,} s"
    )
    if found.window.sd is not None:
        line += f", standard deviation {number(found.window.sd)}"
    line += f", slowest second {quantity(found.lowest, 'IOPS')}"
    if found.burst is not None and found.burst_s:
        line += (
            f"; the first {found.burst_s:,} s run at {quantity(found.burst.mean, 'IOPS')}, "
            "then the rate falls under half"
        )
    return [f"{line}."]


KIND = Kind(
    bars=bars,
    panels=panels,
    say=say,
    table=captions.figures_table,
    shared=shared,
    together=True,
)
