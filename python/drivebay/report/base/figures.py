"""Figures of tests as HTML: bars with published figures, facts in one line, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drivebay.analysis import Measured, trust
from drivebay.analysis.fidelity import interval_words
from drivebay.analysis.figures import SD, Figure
from drivebay.analysis.published import address
from drivebay.report.base.markup import Bar, Child, Html, Published, bars, details, el, facts, table
from drivebay.report.base.runs import Run
from drivebay.report.base.text import DASH, GAP, number, quantity
from drivebay.report.base.text import latency as latency_words

# guess: figures without intervals closer than this share a rank.
TIE_PERCENT = 1.0


def published_of(run: Run, key: str) -> Published | None:
    """Published value of one figure."""
    simulated = run.entry.review.result.simulated
    for row in run.entry.review.headline:
        if (row.test_id, row.key) == (run.measured.test.id, key) and row.published is not None:
            relation = row.published_relation or ""
            bound = relation if relation in ("gt", "lt") else ""
            text = row.published_text.removesuffix(row.unit).strip()
            name, where = row.source.partition(",")[0], address(row.source)
            how = trust.class_of(row.published_id or "") if simulated else ""
            return Published(row.published, text, name, bound, where, how, row.verdict == "off")
    return None


def figure_bars(
    title: str,
    unit: str,
    runs: Sequence[Run],
    loads: Sequence[tuple[str, str]],
    *,
    better: str = "higher",
    link: tuple[str, str] | None = None,
    doubt: str = "",
    brief: bool = False,
) -> Html:
    """Bars of one figure for every load and run on one scale, each published value below its own
    bar. A load is its key and its name or "". `link`: text before the title and the anchor that
    it leads to. `brief`: leaves out spread and samples, and shows a published value as a mark.
    """
    rows: list[Bar] = []
    for key, load in loads:
        for run in runs:
            kind = "simulated" if run.entry.kind == "virtual" else "measured"
            name = " · ".join(filter(None, (load, run.name))) or kind
            if brief:
                rows.append(replace(_briefly(run, key), label=name))
            else:
                rows += _with_published(run, key, name)
    return bars(title, unit, rows, better=better, link=link, doubt=doubt)


def _with_published(run: Run, key: str, name: str) -> list[Bar]:
    """Bar of a run's figure and, below it, the bar of the published one."""
    bar = _own_bar(run, key, name)
    known = None if bar.value is None else published_of(run, key)
    if known is None:
        return [bar]
    short = "; not compared: shortened run" if run.entry.review.result.quick else ""
    fill = "@published-fill"
    return [bar, Bar("published", known.value, fill, detail=short, text=known.text, itself=known)]


def _own_bar(run: Run, key: str, name: str) -> Bar:
    figure = run.measured.figures.get(key)
    if figure is None:
        return Bar(name, None, run.colour, detail="run too short for this figure")
    return Bar(name, figure.value, run.colour, figure.spread, detail(figure), ends=figure.interval)


def own_bars(runs: Sequence[Run], key: str) -> list[Bar]:
    """Bar of each run, with the published value as a mark."""
    return [_briefly(run, key) for run in runs]


def _briefly(run: Run, key: str) -> Bar:
    bar = _own_bar(run, key, run.entry.name)
    detail = bar.detail if bar.value is None else ""
    stand_in = bool(run.entry.stand_in)
    mark = "throttled" if run.measured.throttled and key != "throttle_after_s" else ""
    known = published_of(run, key)
    return replace(bar, detail=detail, published=known, stand_in=stand_in, mark=mark)


def ranked(rows: Sequence[Bar], *, better: str) -> list[Bar]:
    """Sorts bars, best first, and adds ranks if all have a value: with missing values no rank is
    certain. Stand-ins and doubted figures have no rank.
    """
    sign = 1.0 if better == "lower" else -1.0
    known = sorted((r for r in rows if r.value is not None), key=lambda r: sign * (r.value or 0.0))
    ranks = [0] * len(known)
    if better and len(known) == len(rows):
        counted = [row for row in known if not row.stand_in and not row.doubted]
        spans = [span_of(row) for row in counted]
        last = 1
        for at, row in enumerate(known):
            if row in counted:
                last = ranks[at] = max(last, rank(span_of(row), spans, sign))
    known = [replace(row, place=place) for row, place in zip(known, ranks, strict=True)]
    return known + [row for row in rows if row.value is None]


def span_of(row: Bar) -> tuple[float, float]:
    """Interval of a figure; without one, values within `TIE_PERCENT` of each other overlap."""
    value = row.value or 0.0
    room = abs(value) * TIE_PERCENT / 200
    return row.ends or (value - room, value + room)


def rank(own: tuple[float, float], spans: Sequence[tuple[float, float]], sign: float) -> int:
    """Rank of an interval: one more than the number of intervals that are entirely above it
    (`sign` -1) or below it (`sign` 1). Ranks do not fall in the order of values; bench.js has the
    same rule.

    >>> spans = [(95, 105), (278, 281), (279, 280), (300, 301)]
    >>> [rank(span, spans, -1) for span in spans]
    [4, 2, 2, 1]
    """
    return 1 + sum(low > own[1] if sign < 0 else high < own[0] for low, high in spans)


def beneath(row: Bar, *, several: bool) -> list[Child] | None:
    """Published value of the drive under review, for the line below the ranked bars."""
    if row.published is None or row.value is None:
        return None
    text = el("span", "Published: ", row.published.text, class_="said")
    how = f", {row.published.how}" if row.published.how else ""
    missed = ", missed" if row.published.missed else ""
    name = f"{row.label}: " if several else None
    return [name, text, ", ", row.published.link, f"{how}{missed}."]


def detail(figure: Figure) -> str:
    """Text next to a bar: load of the figure, interval or else spread, and number of samples, or
    the reason why the value is missing: "7,300 to 8,600, n = 400".
    """
    text = figure.note
    if figure.spread is not None and figure.interval is None:
        kind = " sd" if figure.spread_kind == SD else ""
        text = f"±{GAP}{number(figure.spread)}{kind}, n{GAP}={GAP}{figure.n:,}"
    elif figure.value is not None and figure.n:
        text = f"n{GAP}={GAP}{figure.n:,}"
    return ", ".join(filter(None, (between(figure), figure.place, text)))


def between(figure: Figure) -> str:
    """Interval as text: "7,300 to 8,600", or why there is none; empty without both."""
    return interval_words(figure.interval, number) or figure.unlike


def facts_of(runs: Sequence[Run]) -> Html | None:
    """Figures that appear in no chart: one line for one run, a table for several."""
    pairs = [dict(test_facts(run.measured)) for run in runs]
    if not any(pairs):
        return None
    if len(runs) == 1:
        return facts(list(pairs[0].items()))
    names = list(dict.fromkeys(name for values in pairs for name in values))
    rows = [
        [run.name, *(values.get(name, DASH) for name in names)]
        for run, values in zip(runs, pairs, strict=True)
    ]
    return table(["", *names], rows, caption="Other figures", kind="data facts-table")


def test_facts(measured: Measured) -> list[tuple[str, str]]:
    """Figures of a test without a chart: latency, write amplification, power, temperature."""
    figures = measured.figures
    pairs = []
    burst = figures.get("burst_s")
    if burst is not None and burst.value is not None:
        rate = quantity(figures["burst_iops"].value, "IOPS")
        pairs.append(("Initial burst", f"{rate} for {quantity(burst.value, 's')}"))
    for key, name in (
        ("latency_p99", "p99 latency"),
        ("latency_p99.9", "p99.9 latency"),
        ("waf", "Write amplification"),
        ("power_mean", "Mean power"),
        ("power_peak", "Peak power"),
        ("temperature_peak", "Peak temperature"),
        ("throttled_s", "Throttling reported"),
    ):
        if key in figures and figures[key].value is not None:
            figure = figures[key]
            is_latency = key.startswith("latency")
            words = (
                latency_words(figure.value) if is_latency else quantity(figure.value, figure.unit)
            )
            pairs.append((name, words))
    return pairs


def figures_table(runs: Sequence[Run]) -> Html:
    """Table of every figure."""
    heads = ["Figure", "Value", "Spread", "Samples", "Note"]
    rows: list[list[Child]] = []
    for run in runs:
        for figure in run.measured.figures.values():
            label = figure.label if len(runs) == 1 else f"{run.name}: {figure.label}"
            value = quantity(figure.value, figure.unit)
            words = f"± {quantity(figure.spread, figure.unit)} ({figure.spread_kind})"
            spread = "" if figure.spread is None else words
            samples = f"{figure.n:,} {figure.n_kind}" if figure.n else ""
            rows.append([label, value, spread, samples, figure.place or figure.note])
    return details("All figures as a table", table(heads, rows))
