"""The page of a sweep: what each parameter does to each main figure, and what they do together.

Every number comes from `analysis.effects`; this lays it out: shares of the variation as bars, means
by level with their spread, two-way tables of the strongest interactions, and all figures in short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from drivebay.analysis.effects import Effect, FigureEffects, Interaction, Level, Study
from drivebay.analysis.replicates import Estimate, FigurePoints
from drivebay.report.charts.model import Axis, Chart, Key, Panel, Series, from_zero
from drivebay.report.markup import Bar, Child, Html, bars, details, el, table
from drivebay.report.page import document
from drivebay.report.render_page import Page
from drivebay.report.text import DASH, GAP, number, quantity
from drivebay.report.theme import SERIES

PARTS_SHOWN = 8
POINTS_SHOWN = 200
TABLES_SHOWN = 3
LEVEL_WRAP = 16
FAILURES_SHOWN = 20


@dataclass(frozen=True)
class About:
    """What the sweep was. `failed` maps numbers of runs to what was wrong; `facts` are lines."""

    title: str
    simulated: bool
    shortened: bool
    runs: int
    failed: Mapping[int, str]
    facts: tuple[tuple[str, str], ...]


def render(about: About, study: Study) -> str:
    """The whole document."""
    page = Page()
    sections: list[Child] = []
    links = [("summary", "Summary")]
    several = len(study.tests) > 1
    for place, test_id in enumerate(study.tests):
        figures = study.figures(test_id)
        anchor = f"test-{place}"
        links.append((anchor, test_id))
        body: list[Child] = [
            _figure_part(page, f"{anchor}-{at}", one)
            for at, one in enumerate(one for one in figures if one.main)
        ]
        if several_seeds := study.points.figures(test_id):
            tables = [_points(one) for one in several_seeds]
            body.append(details("Point by point, with intervals", tables))
        body.append(details("All figures", _all_figures(figures)))
        heading = test_id if several else "Effects"
        sections.append(el("section", el("h2", heading), body, id=anchor, class_="page"))
    main = el("main", _header(about, study), _summary(about, study), sections, id="top")
    return document(page, links, main, title=f"{about.title} — drivebay sweep")


def _header(about: About, study: Study) -> Html:
    chips = [el("span", "simulated", class_="chip virtual")]
    if not about.simulated:
        chips = [el("span", "measured", class_="chip real")]
    if about.shortened:
        chips.append(el("span", "shortened runs", class_="chip warn"))
    done = about.runs - len(about.failed)
    line = f"{done:,} of {about.runs:,} runs, {study.runs:,} results"
    notice = None
    if about.failed:
        some = list(about.failed.items())[:FAILURES_SHOWN]
        notice = el(
            "div",
            el("p", f"{len(about.failed):,} runs failed; their figures are not in what follows."),
            el("ul", [el("li", f"run {index}: {error}") for index, error in some]),
            class_="notice",
        )
    return el(
        "header",
        el("p", "Sweep", class_="eyebrow"),
        el("h1", about.title),
        el("p", chips, class_="chips"),
        el("p", line, class_="meta"),
        notice,
    )


def _summary(about: About, study: Study) -> Html:
    rows: list[list[Child]] = []
    for test_id in study.tests:
        for one in study.figures(test_id):
            if not one.main:
                continue
            rows.append(
                [
                    f"{test_id}: {one.label}" if len(study.tests) > 1 else one.label,
                    quantity(one.mean, one.unit),
                    f"{number(one.lowest)} to {number(one.highest)}",
                    *_strongest(one),
                ]
            )
    heads = ["Figure", "Mean", "Range", "Strongest parameter", "Strongest interaction"]
    facts: list[Sequence[Child]] = [list(pair) for pair in about.facts]
    return el(
        "section",
        el("h2", "Summary"),
        table(heads, rows),
        table(["", ""], facts, caption="This sweep", kind="data narrow"),
        id="summary",
        class_="page",
    )


def _strongest(one: FigureEffects) -> list[str]:
    if not one.effects:  # only seeds differ
        return [DASH, DASH]
    if not one.varies:
        return ["all runs gave the same", DASH]
    best = f"{one.effects[0].factor}, {one.effects[0].share_percent:.0f}{GAP}%"
    if not (strong := [pair for pair in one.interactions if pair.beyond_chance]):
        return [best, "none beyond chance" if one.interactions else DASH]
    pair = strong[0]
    return [best, f"{pair.first} with {pair.second}, {pair.share_percent:.0f}{GAP}%"]


def _figure_part(page: Page, prefix: str, one: FigureEffects) -> Html:
    if not one.effects:
        words = f"{quantity(one.mean, one.unit)} in the mean of {one.n:,} runs; nothing was varied."
        return el("div", el("h3", one.label), el("p", words), class_="test")
    if not one.varies:
        words = f"{quantity(one.mean, one.unit)} in all {one.n:,} runs: nothing changes it."
        return el("div", el("h3", one.label), el("p", words), class_="test")
    top = max(level.mean + (level.sd or 0) for e in one.effects for level in e.levels if level.n)
    panels = [
        _effect_panel(f"{prefix}-{at}", one, effect, top) for at, effect in enumerate(one.effects)
    ]
    strong = [pair for pair in one.interactions if pair.beyond_chance]
    body: list[Child] = [_shares(one), page.show(panels)]
    if strong:
        body += page.show([_together(f"{prefix}-pair", one, strong[0])])
        body += [_two_way(one, pair) for pair in strong[:TABLES_SHOWN]]
    return el("div", el("h3", one.label), body, class_="test")


def _shares(one: FigureEffects) -> Html:
    """The parts of the figure's variation, and what is left over."""
    parts = [(e.factor, e.share_percent, e.chance_percent, e.slope) for e in one.effects]
    parts += [
        (f"{p.first} with {p.second}", p.share_percent, p.chance_percent, None)
        for p in one.interactions
    ]
    parts.sort(key=lambda part: -part[1])
    rows = []
    for name, share, chance, slope in parts[:PARTS_SHOWN]:
        along = "" if slope is None else f"slope {slope:+.2f}; "
        words = f"{share:.1f}{GAP}%"
        rows.append(
            Bar(name, share, "@c1", detail=f"{along}chance {chance:.1f}{GAP}%", words=words)
        )
    linear = ""
    if one.linear_percent is not None:
        linear = (
            f" A linear regression on the numbers explains {one.linear_percent:.0f}{GAP}%; slope "
            "is each number's standardized coefficient in it."
        )
    caption = (
        f"{one.n:,} runs. A parameter's share is its sum of squares over the whole one; chance is "
        f"what it would be if the parameter did nothing. Where points are drawn, and not a whole "
        f"grid, shares overlap.{linear}"
    )
    title = "Share of the variation"
    return el("div", bars(title, "%", rows, better=""), el("p", caption, class_="small"))


def _effect_panel(chart_id: str, one: FigureEffects, effect: Effect, top: float) -> Panel:
    """Means by level, with the standard deviation of the runs at each."""
    levels = [level for level in effect.levels if level.n]
    deviations = [level.sd or 0.0 for level in levels]
    means = [level.mean for level in levels]
    low = min(mean - sd for mean, sd in zip(means, deviations, strict=True))
    line = _line(one, [level.label for level in levels], means, effect.factor, "@c1")
    chart = _chart(
        chart_id, 280, effect.factor, one.unit, low, top, [replace(line, spread=deviations)]
    )
    counts = sorted({level.n for level in levels})
    n = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    samples = f"Mean of n{GAP}={GAP}{n} runs each; whiskers are their standard deviation"
    return Panel(f"{one.label} by {effect.factor}", chart, samples, wide=False)


def _together(chart_id: str, one: FigureEffects, pair: Interaction) -> Panel:
    """The strongest interaction: a line for each level of the second; parallel lines would be no
    interaction."""
    lines = []
    for at, words in enumerate(pair.second_levels):
        cells = [line[at] for line in pair.cells]
        if any(cell.n for cell in cells):
            means = [cell.mean for cell in cells]
            name = f"{pair.second} {words}"
            lines.append(_line(one, pair.first_levels, means, name, SERIES[at % len(SERIES)]))
    known = [cell.mean for line in pair.cells for cell in line if cell.n]
    return Panel(
        f"{one.label}: {pair.first} with {pair.second}",
        _chart(chart_id, 340, pair.first, one.unit, min(known), max(known), lines),
        f"{pair.share_percent:.1f}{GAP}% of the variation; parallel lines would be none",
        key=tuple(Key(line.name, line.colour, "line") for line in lines),
    )


def _line(
    one: FigureEffects, x: Sequence[str], y: Sequence[float], name: str, colour: str
) -> Series:
    hover = "{name}, {x}: {y} {unit}"
    return Series("line", x, y, name, unit=one.unit, colour=colour, marker=6, hover=hover)


def _chart(
    chart_id: str,
    height: int,
    over: str,
    unit: str,
    low: float,
    high: float,
    lines: Sequence[Series],
) -> Chart:
    """Lines over the levels of a parameter, from zero where nothing is below."""
    limits = from_zero(high) if low >= 0 else (low * 1.06, max(high, 0) * 1.06 or 1.0)
    x = Axis(over, "category", wrap=LEVEL_WRAP)
    return Chart(chart_id, height, tuple(lines), x, (Axis(unit, limits=limits),))


def _two_way(one: FigureEffects, pair: Interaction) -> Html:
    heads = [f"{pair.first} \\ {pair.second}", *pair.second_levels]
    rows: list[list[Child]] = [
        [label, *(_cell(cell) for cell in line)]
        for label, line in zip(pair.first_levels, pair.cells, strict=True)
    ]
    unit = f", {one.unit}" if one.unit else ""
    caption = (
        f"{one.label}{unit}: mean ± standard deviation (runs); the two together are "
        f"{pair.share_percent:.1f}{GAP}% of the variation beyond what each does alone, "
        f"chance {pair.chance_percent:.1f}{GAP}%."
    )
    return table(heads, rows, caption=caption, kind="data many")


def _cell(cell: Level) -> str:
    if not cell.n:
        return DASH
    spread = "" if cell.sd is None else f" ± {number(cell.sd)}"
    return f"{number(cell.mean)}{spread} ({cell.n:,})"


def _points(one: FigurePoints) -> Html:
    """Means over the seeds, and differences from the first point by the same seeds."""
    confidence = f"{100 * one.points[0].estimate.confidence:g}{GAP}%"
    names = list(one.points[0].values)
    heads = [*names, "Seeds", "Mean", "Interval", "Less the first point", "Interval"]
    rows: list[list[Child]] = []
    for point in one.points[:POINTS_SHOWN]:
        values = [str(value) for value in point.values.values()]
        found = [_mean_and_interval(estimate) for estimate in (point.estimate, point.difference)]
        rows.append([*values, f"{point.estimate.n:,}", *(word for pair in found for word in pair)])
    more = len(one.points) - POINTS_SHOWN
    caption = (
        f"{one.label}{f', {one.unit}' if one.unit else ''}: mean over the seeds and the interval "
        f"that covers it with {confidence} (Student's t); differences are paired by seed."
        + (f" {more:,} more points: drivebay sweep --json." if more > 0 else "")
    )
    return table(heads, rows, caption=caption, kind="data many")


def _mean_and_interval(found: Estimate | None) -> tuple[str, str]:
    if found is None:
        return DASH, DASH
    bounds = f"{number(found.low)} to {number(found.high)}" if found.n > 1 else DASH
    return number(found.mean), bounds


def _all_figures(figures: Sequence[FigureEffects]) -> Html:
    heads = ["Figure", "Unit", "Runs", "Mean", "sd", "Lowest", "Highest", "Strongest parameter"]
    rows: list[list[Child]] = [
        [
            one.label,
            one.unit,
            f"{one.n:,}",
            *map(number, (one.mean, one.sd, one.lowest, one.highest)),
            _strongest(one)[0] if one.effects else DASH,
        ]
        for one in figures
    ]
    return table(heads, rows, kind="data many")
