"""The blocks that every kind of test is put together from: bars, facts, and the charts all have.

Every block takes the runs that it shows, of one review or of several; its numbers come from
analysis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drivebay.analysis import explain
from drivebay.analysis.figures import SD
from drivebay.analysis.stages import meaning
from drivebay.report import captions, charts_latency, charts_stages, charts_time
from drivebay.report.charts import Chart
from drivebay.report.charts_stages import OTHER_STAGE
from drivebay.report.entries import SELF, Entry, Run
from drivebay.report.markup import Child, Html, el
from drivebay.report.panels import Note, Panel, Switch, panel
from drivebay.report.parts import Bar, Key, bars, facts, table
from drivebay.report.themes import STAGES
from drivebay.report.words import DASH, GAP, number

LINEAR_FIRST = (("linear", "Linear"), ("log", "Log"))
APART_MAX = 2
"""Up to so many runs, what cannot lie over each other is shown side by side."""
LOG_FIRST = (("log", "Log"), ("linear", "Linear"))


@dataclass
class Book:
    """What is being written: the entries, and the charts that the page must carry."""

    entries: tuple[Entry, ...]
    charts: dict[str, Chart] = field(default_factory=dict)
    panels: list[Panel] = field(default_factory=list)

    def show(self, shown: Sequence[Panel]) -> list[Child]:
        """Adds charts to the page; narrow ones that follow each other stand side by side."""
        body: list[Child] = []
        row: list[Html] = []
        for one in shown:
            self.charts[one.chart.id] = one.chart
            self.panels.append(one)
            if one.wide:
                body += _side_by_side(row)
                row = []
                body.append(one.html())
            else:
                row.append(one.html())
        return body + _side_by_side(row)


def _side_by_side(row: list[Html]) -> list[Html]:
    return [el("div", row[at : at + 2], class_="pair") for at in range(0, len(row), 2)]


# --- bars and facts -------------------------------------------------------------------------------


def published_bars(run: Run, key: str) -> list[Bar]:
    """Bars for what is published of one figure."""
    return [
        Bar(
            "published",
            row.published,
            "@published-fill",
            detail=row.source.split(",")[0]
            + ("; not compared: shortened run" if row.verdict == "shortened" else ""),
            words=row.published_text.removesuffix(row.unit).strip(),
            published=True,
        )
        for row in run.entry.review.headline
        if (row.test_id, row.key) == (run.measured.test.id, key) and row.published is not None
    ]


def figure_bars(
    title: str, unit: str, found: Sequence[Run], key: str, *, better: str = "higher"
) -> Html:
    """One figure of every run as bars, each published figure right under its own."""
    rows: list[Bar] = []
    for run in found:
        one = run.measured.figures.get(key)
        if one is None:
            rows.append(Bar(_bar_name(run), None, run.colour, detail="run too short for it"))
            continue
        detail = spread_words(one.spread, one.spread_kind, one.n) or (
            f"n{GAP}={GAP}{one.n:,}" if one.value is not None and one.n else one.note
        )
        rows.append(Bar(_bar_name(run), one.value, run.colour, one.spread, detail))
        rows += published_bars(run, key)
    return bars(title, unit, rows, better=better)


def spread_words(spread: float | None, kind: str, n: int) -> str:
    """ "± 48.9 sd, n = 400", empty where there is no spread."""
    if spread is None:
        return ""
    return f"±{GAP}{number(spread)}{' sd' if kind == SD else ''}, n{GAP}={GAP}{n:,}"


def _bar_name(run: Run) -> str:
    """A lone run needs no name, only what kind of figure it is."""
    if run.name:
        return run.name
    return "reproduced" if run.entry.kind == "virtual" else "measured"


def facts_of(found: Sequence[Run]) -> Html | None:
    """What stands in no chart: in one line for one run, as a table for several."""
    pairs = [dict(captions.test_facts(run.measured)) for run in found]
    if not any(pairs):
        return None
    if len(found) == 1:
        return facts(list(pairs[0].items()))
    names = list(dict.fromkeys(name for one in pairs for name in one))
    rows = [
        [run.name, *(one.get(name, DASH) for name in names)]
        for run, one in zip(found, pairs, strict=True)
    ]
    return table(["", *names], rows, caption="Besides", kind="data facts-table")


# --- charts that every kind has -------------------------------------------------------------------


def names_of(found: Sequence[Run]) -> list[str]:
    """The runs' names, as panels want them."""
    return [run.name for run in found]


def run_key(found: Sequence[Run], shape: str = "line") -> list[Key]:
    """The runs' colours."""
    return [Key(run.name, run.colour, shape) for run in found]


def with_heat(found: Sequence[Run]) -> str:
    """The end of a chart's title: which of temperature and power it has."""
    names = [("temperature_c", "temperature"), ("power_w", "power")]
    known = [name for attribute, name in names if charts_time.reports(found, attribute)]
    return f", with {' and '.join(known)}" if known else ""


def time_panel(prefix: str, found: Sequence[Run], *, latency: bool = False) -> Panel:
    """Rate, temperature, power and all else that is known of every second; latency if asked."""
    latency = latency and charts_time.reports(found, "latency_ms_mean")
    return panel(
        f"Data rate {'and latency ' if latency else ''}over time" + with_heat(found),
        charts_time.over_time(f"{prefix}-time", found, latency=latency),
        names_of(found),
        [f"n = {run.measured.whole.n:,} s" for run in found],
        f"The rate axis {'and those of latency start' if latency else 'starts'} at zero.",
        captions.heat(found),
        captions.throttling(found),
        lead="One point per second, joined.",
        key=run_key(found),
    )


def inside_panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """How latencies are spread and, for virtual drives, where the time went."""
    ios = [
        f"n = {sum(phase.histogram.total for phase in run.measured.phases):,} I/Os" for run in found
    ]
    names = names_of(found)
    panels = []
    inside = where_panels(prefix, found)
    if any(run.colour == SELF for run in found):
        panels += _tail(prefix, found, ios)
    elif (spread := charts_latency.distribution(f"{prefix}-spread", found)) is not None:
        panels.append(
            panel(
                "Distribution of latency",
                spread,
                names,
                ios,
                Note("Height is the logarithm of the count, so that rare I/Os are seen.", "log"),
                Note("Height is the share of I/Os.", "share"),
                "The latency axis is logarithmic and does not start at zero.",
                lead="Each row is as high as its own peak; marks at p50, p99, p99.9 and p99.99.",
                switches=[Switch("height", "Height", (("log", "Log count"), ("share", "Share")))],
                wide=not inside,
            )
        )
    return panels + inside


def where_panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Where the time went: by load, and over the run of one drive or two; [] for real drives."""
    where = charts_stages.stages(f"{prefix}-stages", found)
    if where is None:
        return []
    ios = [
        f"n = {sum(phase.histogram.total for phase in run.measured.phases):,} I/Os" for run in found
    ]
    units = Switch("unit", "Show", charts_stages.UNITS)
    by_load = panel(
        "Where the time went",
        where,
        names_of(found),
        ios,
        captions.ZERO,
        lead="Mean over all I/Os of a bar; the stages add up to the mean latency.",
        switches=[units],
        key=stage_key(found),
        wide=False,
    )
    return [by_load, *(_over_time(prefix, found, ios, units) if len(found) <= APART_MAX else [])]


def _over_time(prefix: str, found: Sequence[Run], ios: Sequence[str], units: Switch) -> list[Panel]:
    """Where the time went over the run: stacks cannot lie over each other, so one for each run."""
    panels = []
    charts = [
        charts_stages.over_time(f"{prefix}-stages-time{place or ''}", [run])
        for place, run in enumerate(found)
    ]
    charts_stages.same_scale([chart for chart in charts if chart is not None])
    for run, words, chart in zip(found, ios, charts, strict=True):
        lengths = [p.stages_over_time.stretch_s for p in run.measured.phases if p.stages_over_time]
        if chart is None:
            continue
        several = f": {run.name}" if len(found) > 1 else ""
        panels.append(
            panel(
                f"Where the time went, over the run{several}",
                chart,
                [run.name],
                [words],
                captions.ZERO,
                lead=f"Mean per I/O of stretches of {max(lengths)} s.",
                switches=[units],
                key=stage_key([run]),
                wide=len(found) == 1,
                apart=True,
            )
        )
    return panels


def _tail(prefix: str, found: Sequence[Run], ios: Sequence[str]) -> list[Panel]:
    tail = charts_latency.tail(f"{prefix}-tail", found)
    if tail is None:
        return []
    return [
        panel(
            "I/Os slower than",
            tail,
            names_of(found),
            ios,
            "Both axes are logarithmic and do not start at zero.",
            lead="The share of I/Os that took longer, from exact counts.",
            switches=[Switch("phase", "Load", tuple((name, name) for name in tail.views))],
            wide=False,
        )
    ]


def stage_key(found: Sequence[Run]) -> list[Key]:
    """The stages' colours."""
    return [
        Key(name, STAGES.get(name, OTHER_STAGE), meaning=meaning(name))
        for name in charts_stages.stage_names(found)
    ]


def explained(found: Sequence[Run]) -> Html | None:
    """The sentences that follow from where the time went, of each run and between drives."""
    known = [(run, explain.explain(run.measured)) for run in found]
    lines = [
        f"{run.name}: {line}" if run.name else line for run, one in known for line in one.sentences
    ]
    if len(known) == 2 and found[0].entry is not found[1].entry:
        (_, a), (_, b) = known
        lines += explain.compared(a, b, a_name=found[0].name, b_name=found[1].name)
    if not lines:
        return None
    return el("ul", [el("li", line) for line in lines], class_="explained")
