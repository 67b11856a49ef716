"""Page of a sweep: effect of each parameter and of their interactions on each main figure.

Every number comes from `analysis.effects`; this module lays it out: shares of the variation as
bars, means by level with their spread, two-way tables of the strongest interactions, and a table of
all figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from drivebay.analysis.effects import Effect, FigureEffects, Interaction, Level, Study
from drivebay.analysis.replicates import Estimate, FigurePoints
from drivebay.report.base.markup import Bar, Child, Html, bars, details, el, table
from drivebay.report.base.text import DASH, GAP, number, quantity
from drivebay.report.base.theme import SERIES
from drivebay.report.charts.model import Axis, Chart, Key, Limits, Panel, Series, from_zero
from drivebay.report.pages.review import document
from drivebay.report.render.page import Page

PARTS_SHOWN = 8
POINTS_SHOWN = 200
TABLES_SHOWN = 3
LEVEL_WRAP = 16
FAILURES_SHOWN = 20


@dataclass(frozen=True)
class About:
    """Facts about the sweep. `failed` maps numbers of runs to their errors; `facts` are rows."""

    title: str
    simulated: bool
    shortened: bool
    runs: int
    failed: Mapping[int, str]
    facts: tuple[tuple[str, str], ...]


def render(about: About, study: Study) -> str:
    """Whole document."""
    page = Page()
    sections: list[Child] = []
    links = [("summary", "Summary")]
    several = len(study.tests) > 1
    for place, test_id in enumerate(study.tests):
        figures = study.figures(test_id)
        anchor = f"test-{place}"
        links.append((anchor, test_id))
        body: list[Child] = [
            _figure_part(page, f"{anchor}-{at}", figure)
            for at, figure in enumerate(figure for figure in figures if figure.main)
        ]
        if several_seeds := study.points(test_id):
            tables = [_points(figure) for figure in several_seeds]
            body.append(details("Point by point, with intervals", tables))
        body.append(details("All figures", _all_figures(figures)))
        heading = test_id if several else "Effects"
        sections.append(el("section", el("h2", heading), body, id=anchor, class_="page"))
    main = el("main", _header(about, study), _summary(about, study), sections, id="top")
    return document(page, links, main, title=f"{about.title} — drivebay sweep")


def _header(about: About, study: Study) -> Html:
    kind, look = ("simulated", "virtual") if about.simulated else ("measured", "real")
    chips = [el("span", kind, class_=f"chip {look}")]
    if about.shortened:
        chips.append(el("span", "shortened runs", class_="chip warn"))
    done = about.runs - len(about.failed)
    line = f"{done:,} of {about.runs:,} runs, {study.runs:,} results"
    notice = None
    if about.failed:
        some = list(about.failed.items())[:FAILURES_SHOWN]
        notice = el(
            "div",
            el("p", f"{len(about.failed):,} runs failed. The figures below do not include them."),
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
    rows: list[list[Child]] = [
        [
            f"{test_id}: {figure.label}" if len(study.tests) > 1 else figure.label,
            quantity(figure.mean, figure.unit),
            f"{number(figure.lowest)} to {number(figure.highest)}",
            *_strongest(figure),
        ]
        for test_id in study.tests
        for figure in study.figures(test_id)
        if figure.main
    ]
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


def _strongest(figure: FigureEffects) -> list[str]:
    if not figure.effects:  # only seeds differ
        return [DASH, DASH]
    if not figure.varies:
        return ["same value in all runs", DASH]
    best = f"{figure.effects[0].factor}, {figure.effects[0].share_percent:.0f}{GAP}%"
    if not (strong := [pair for pair in figure.interactions if pair.beyond_chance]):
        return [best, "none beyond chance" if figure.interactions else DASH]
    pair = strong[0]
    return [best, f"{pair.first} with {pair.second}, {pair.share_percent:.0f}{GAP}%"]


def _figure_part(page: Page, prefix: str, figure: FigureEffects) -> Html:
    mean, n = quantity(figure.mean, figure.unit), f"{figure.n:,}"
    if not figure.effects or not figure.varies:
        text = f"{mean} in all {n} runs: no parameter has an effect."
        if not figure.effects:
            text = f"Mean of {n} runs: {mean}. No parameter was varied."
        return el("div", el("h3", figure.label), el("p", text), class_="test")
    top = max(level.mean + (level.sd or 0) for e in figure.effects for level in e.levels if level.n)
    panels = [
        _effect_panel(f"{prefix}-{at}", figure, effect, top)
        for at, effect in enumerate(figure.effects)
    ]
    strong = [pair for pair in figure.interactions if pair.beyond_chance]
    body: list[Child] = [_shares(figure), page.show(panels)]
    if strong:
        body += page.show([_together(f"{prefix}-pair", figure, strong[0])])
        body += [_two_way(figure, pair) for pair in strong[:TABLES_SHOWN]]
    return el("div", el("h3", figure.label), body, class_="test")


def _shares(figure: FigureEffects) -> Html:
    """Shares of the figure's variation as bars."""
    parts = [(e.factor, e.share_percent, e.chance_percent, e.slope) for e in figure.effects]
    parts += [
        (f"{p.first} with {p.second}", p.share_percent, p.chance_percent, None)
        for p in figure.interactions
    ]
    parts.sort(key=lambda part: -part[1])
    rows = []
    for name, share, chance, slope in parts[:PARTS_SHOWN]:
        along = "" if slope is None else f"slope {slope:+.2f}; "
        text = f"{share:.1f}{GAP}%"
        rows.append(Bar(name, share, "@c1", detail=f"{along}chance {chance:.1f}{GAP}%", text=text))
    linear = ""
    if figure.linear_percent is not None:
        linear = (
            f" A linear regression on the numeric parameters explains "
            f"{figure.linear_percent:.0f}{GAP}%; slope is the standardized coefficient of a "
            "parameter in it."
        )
    caption = (
        f"{figure.n:,} runs. The share of a parameter is its sum of squares divided by the total; "
        f"chance is the share of a parameter without effect. Shares overlap if the points were "
        f"drawn at random instead of a full grid.{linear}"
    )
    title = "Share of the variation"
    return el("div", bars(title, "%", rows, better=""), el("p", caption, class_="small"))


def _effect_panel(chart_id: str, figure: FigureEffects, effect: Effect, top: float) -> Panel:
    """Means by level, with the standard deviation of the runs at each level."""
    levels = [level for level in effect.levels if level.n]
    deviations = [level.sd or 0.0 for level in levels]
    means = [level.mean for level in levels]
    low = min(mean - sd for mean, sd in zip(means, deviations, strict=True))
    line = _line(figure, [level.label for level in levels], means, effect.factor, "@c1")
    lines = [replace(line, spread=deviations)]
    chart = _chart(chart_id, 280, effect.factor, figure.unit, (low, top), lines)
    counts = sorted({level.n for level in levels})
    n = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    samples = f"Mean of n{GAP}={GAP}{n} runs each; whiskers: standard deviation"
    return Panel(f"{figure.label} by {effect.factor}", chart, samples, wide=False)


def _together(chart_id: str, figure: FigureEffects, pair: Interaction) -> Panel:
    """Strongest interaction: one line per level of the second parameter; parallel lines mean no
    interaction.
    """
    lines = []
    for at, level in enumerate(pair.second_levels):
        cells = [line[at] for line in pair.cells]
        if any(cell.n for cell in cells):
            means = [cell.mean for cell in cells]
            name = f"{pair.second} {level}"
            lines.append(_line(figure, pair.first_levels, means, name, SERIES[at % len(SERIES)]))
    known = [cell.mean for line in pair.cells for cell in line if cell.n]
    return Panel(
        f"{figure.label}: {pair.first} with {pair.second}",
        _chart(chart_id, 340, pair.first, figure.unit, (min(known), max(known)), lines),
        f"{pair.share_percent:.1f}{GAP}% of the variation; parallel lines mean no interaction",
        key=tuple(Key(line.name, line.colour, "line") for line in lines),
    )


def _line(
    figure: FigureEffects, x: Sequence[str], y: Sequence[float], name: str, colour: str
) -> Series:
    hover = "{name}, {x}: {y} {unit}"
    return Series("line", x, y, name, unit=figure.unit, colour=colour, marker=6, hover=hover)


def _chart(
    chart_id: str, height: int, over: str, unit: str, ends: Limits, lines: Sequence[Series]
) -> Chart:
    """Lines over the levels of a parameter, from zero unless a value is negative; `ends`: the
    lowest and the highest value.
    """
    low, high = ends
    limits = from_zero(high) if low >= 0 else (low * 1.06, max(high, 0) * 1.06 or 1.0)
    x = Axis(over, "category", wrap=LEVEL_WRAP)
    return Chart(chart_id, height, tuple(lines), x, (Axis(unit, limits=limits),))


def _two_way(figure: FigureEffects, pair: Interaction) -> Html:
    heads = [f"{pair.first} \\ {pair.second}", *pair.second_levels]
    rows: list[list[Child]] = [
        [label, *(_cell(cell) for cell in line)]
        for label, line in zip(pair.first_levels, pair.cells, strict=True)
    ]
    unit = f", {figure.unit}" if figure.unit else ""
    caption = (
        f"{figure.label}{unit}: mean ± standard deviation (runs). The interaction accounts for "
        f"{pair.share_percent:.1f}{GAP}% of the variation, chance for "
        f"{pair.chance_percent:.1f}{GAP}%."
    )
    return table(heads, rows, caption=caption, kind="data many")


def _cell(cell: Level) -> str:
    if not cell.n:
        return DASH
    spread = "" if cell.sd is None else f" ± {number(cell.sd)}"
    return f"{number(cell.mean)}{spread} ({cell.n:,})"


def _points(figure: FigurePoints) -> Html:
    """Means over the seeds, and differences from the first point with the same seeds."""
    confidence = f"{100 * figure.points[0].estimate.confidence:g}{GAP}%"
    names = list(figure.points[0].values)
    heads = [*names, "Seeds", "Mean", "Interval", "Less the first point", "Interval"]
    rows: list[list[Child]] = []
    for point in figure.points[:POINTS_SHOWN]:
        values = [str(value) for value in point.values.values()]
        intervals = [
            _mean_and_interval(estimate) for estimate in (point.estimate, point.difference)
        ]
        rows.append(
            [*values, f"{point.estimate.n:,}", *(word for pair in intervals for word in pair)]
        )
    more = len(figure.points) - POINTS_SHOWN
    unit = f", {figure.unit}" if figure.unit else ""
    caption = (
        f"{figure.label}{unit}: mean over the seeds and its {confidence} confidence interval "
        f"(Student's t); differences are paired by seed."
        + (f" {more:,} more points: drivebay sweep --json." if more > 0 else "")
    )
    return table(heads, rows, caption=caption, kind="data many")


def _mean_and_interval(estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None:
        return DASH, DASH
    bounds = f"{number(estimate.low)} to {number(estimate.high)}" if estimate.n > 1 else DASH
    return number(estimate.mean), bounds


def _all_figures(figures: Sequence[FigureEffects]) -> Html:
    heads = ["Figure", "Unit", "Runs", "Mean", "sd", "Lowest", "Highest", "Strongest parameter"]
    rows: list[list[Child]] = [
        [
            figure.label,
            figure.unit,
            f"{figure.n:,}",
            *map(number, (figure.mean, figure.sd, figure.lowest, figure.highest)),
            _strongest(figure)[0] if figure.effects else DASH,
        ]
        for figure in figures
    ]
    return table(heads, rows, kind="data many")
