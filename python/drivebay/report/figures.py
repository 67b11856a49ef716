"""Figures of tests as HTML: bars beside the published ones, facts in one line, tables of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from drivebay.analysis import Measured, latency
from drivebay.analysis.figures import SD, Figure
from drivebay.analysis.published import address
from drivebay.report.markup import (
    Bar,
    Child,
    Html,
    Published,
    bar_rows,
    bars,
    details,
    el,
    facts,
    table,
)
from drivebay.report.runs import Run
from drivebay.report.text import DASH, GAP, number, quantity
from drivebay.report.text import latency as latency_words

FOLDED_FROM = 3
"""Fewer rows than these are not worth a click."""
TOLD_TOGETHER = 3
"""So many drives that have no figure for the same reason share a sentence."""


def published_of(run: Run, key: str) -> Published | None:
    """What is published of one figure."""
    for row in run.entry.review.headline:
        if (row.test_id, row.key) == (run.measured.test.id, key) and row.published is not None:
            relation = row.published_relation or ""
            return Published(
                row.published,
                row.published_text.removesuffix(row.unit).strip(),
                row.source.partition(",")[0],
                relation if relation in ("gt", "lt") else "",
                address(row.source),
            )
    return None


def figure_bars(
    title: str,
    unit: str,
    found: Sequence[Run],
    key: str,
    *,
    better: str = "higher",
    of: tuple[str, str] | None = None,
) -> Html:
    """One figure of every run as bars, each published figure right under its own; `of` are
    words before the title and the anchor that they lead to."""
    rows = [row for run in found for row in _with_published(run, key, _bar_name(run))]
    return bars(title, unit, rows, better=better, of=of)


def load_bars(
    title: str,
    unit: str,
    found: Sequence[Run],
    loads: Sequence[tuple[str, str]],
    *,
    better: str = "higher",
    of: tuple[str, str] | None = None,
    brief: bool = False,
) -> Html:
    """One figure of every load (its key, the load's name) and run on one scale; `brief` leaves out
    spread and samples, and makes a published figure a mark."""
    rows: list[Bar] = []
    for key, load in loads:
        for run in found:
            name = f"{load} · {run.name}" if run.name else load
            if brief:
                own = _own_bar(run, key, name)
                detail = own.detail if own.value is None else ""
                rows.append(replace(own, detail=detail, published=published_of(run, key)))
            else:
                rows += _with_published(run, key, name)
    return bars(title, unit, rows, better=better, of=of)


def _with_published(run: Run, key: str, name: str) -> list[Bar]:
    """A run's figure, and right under it the published one."""
    one = _own_bar(run, key, name)
    known = None if one.value is None else published_of(run, key)
    if known is None:
        return [one]
    short = "; not compared: shortened run" if run.entry.review.result.quick else ""
    fill = "@published-fill"
    return [
        one,
        Bar("published", known.value, fill, detail=short, words=known.words, itself=known),
    ]


def _own_bar(run: Run, key: str, name: str) -> Bar:
    one = run.measured.figures.get(key)
    if one is None:
        return Bar(name, None, run.colour, detail="run too short for it")
    return Bar(name, one.value, run.colour, one.spread, detail(one), ends=one.interval)


def ranked_bars(
    title: str,
    unit: str,
    found: Sequence[Run],
    key: str,
    others: Sequence[Bar],
    *,
    better: str = "higher",
    of: tuple[str, str] | None = None,
    most: int = 0,
    folded: list[Html],
) -> Html:
    """One figure of every run among those of other drives, best first; far ones are folded away
    where there are many.

    Parameters
    ----------
    most : only so many rows with a value: the runs, and the best of the near others; short below.
    folded : gets the rows of all, for a page's script to show them.
    """
    own = [
        replace(_own_bar(run, key, run.entry.name), published=published_of(run, key))
        for run in found
    ]
    known = [row for row in (*own, *others) if row.value is not None]
    known.sort(key=lambda row: (row.value or 0.0) * (1 if better == "lower" else -1))
    if better and len(known) == len(own) + len(others):  # without one's figure no rank is sure
        known = [replace(row, place=place + 1) for place, row in enumerate(known)]
    rows = known + [row for row in (*own, *others) if row.value is None]
    shown, said = rows, own
    if most:
        best = [row for row in known if row.other and not row.far][: max(most - len(own), 0)]
        shown = [row for row in rows if not row.other or row in best]
        said = [replace(row, detail="") for row in own]
    more: list[Child] = [_beneath(row, several=len(own) > 1) for row in said]
    why = Counter(row.detail for row in others if row.value is None)
    for words, count in why.items():
        alike = [row for row in others if row.value is None and row.detail == words]
        if most:
            more.append(f"{count} others: {words}.")
        elif count >= TOLD_TOGETHER:
            names = [row.label for row in alike if not row.far]
            names += [f"{count - len(names)} more"] if len(names) < count else []
            more.append(f"{', '.join(names)}: {words}.")
            shown = [row for row in shown if row not in alike]
    if len(shown) < len(rows) and of is not None:
        more.append(el("a", f"All {len(rows)} drives", href=f"#{of[1]}"))
    shown = [row if row.other else replace(row, detail="") for row in shown]
    few = [row for row in shown if not row.far]
    if not most and len(few) + FOLDED_FROM <= len(shown):
        more += _folds(few, shown, folded)
        shown = few
    below = el("p", [[one, " "] for one in more if one], class_="beneath")
    return bars(title, unit, shown, better=better, of=of, more=below)


def _folds(few: Sequence[Bar], rows: Sequence[Bar], folded: list[Html]) -> list[Child]:
    """What says that rows are folded away, and shows them."""
    words = f"{len(few)} of {len(rows)} drives, the nearest in class and time."
    folded.append(Html("".join(bar_rows(rows))))
    place = str(len(folded) - 1)
    return [words, el("button", f"Show all {len(rows)}", type="button", data_rows=place)]


def _beneath(row: Bar, *, several: bool) -> list[Child] | None:
    """What else is to be said of the drive under review, below the ranked bars."""
    if row.value is None or not (row.detail or row.published):
        return None
    words: list[Child] = [f"{row.label}: "] if several else []
    words += [f"{number(row.value)}: "] if row.detail and not several else []
    words += [row.detail, ". "] if row.detail else []
    if row.published is not None:
        words += [el("span", "Published: ", row.published.words, class_="said")]
        words += [", ", row.published.of, "."]
    return words


def detail(one: Figure) -> str:
    """What stands beside a bar: where the figure was found, spread and samples, or why it is not
    there: "7,300 to 8,600, ± 48.9 sd, n = 400"."""
    words = one.note
    if one.spread is not None:
        kind = " sd" if one.spread_kind == SD else ""
        words = f"±{GAP}{number(one.spread)}{kind}, n{GAP}={GAP}{one.n:,}"
    elif one.value is not None and one.n:
        words = f"n{GAP}={GAP}{one.n:,}"
    return ", ".join(filter(None, (between(one), one.place, words)))


def between(one: Figure) -> str:
    """The interval in words: "7,300 to 8,600"; empty without one."""
    if one.interval is None:
        return ""
    low, high = map(number, one.interval)
    return f"{low} to {high}" if low != high else ""


def _bar_name(run: Run) -> str:
    """A lone run needs no name, only what kind of figure it is."""
    if run.name:
        return run.name
    return "reproduced" if run.entry.kind == "virtual" else "measured"


def facts_of(found: Sequence[Run]) -> Html | None:
    """What stands in no chart: in one line for one run, as a table for several."""
    pairs = [dict(test_facts(run.measured)) for run in found]
    if not any(pairs):
        return None
    if len(found) == 1:
        return facts(list(pairs[0].items()))
    names = list(dict.fromkeys(name for one in pairs for name in one))
    rows = [
        [run.name, *(one.get(name, DASH) for name in names)]
        for run, one in zip(found, pairs, strict=True)
    ]
    return table(["", *names], rows, caption="Other figures", kind="data facts-table")


def test_facts(measured: Measured) -> list[tuple[str, str]]:
    """Figures of a test that stand in no chart: latency, write amplification, power, heat."""
    found = measured.figures
    pairs = []
    burst = found.get("burst_s")
    if burst is not None and burst.value is not None:
        rate = quantity(found["burst_iops"].value, "IOPS")
        pairs.append(("First burst", f"{rate} for {quantity(burst.value, 's')}"))
    for key, name in (("latency_p99", "p99 latency"), ("latency_p99.9", "p99.9 latency")):
        if key in found and found[key].value is not None:
            pairs.append((name, latency_words(found[key].value)))
    for key, name in (
        ("waf", "Write amplification"),
        ("power_mean", "Mean power"),
        ("power_peak", "Peak power"),
        ("temperature_peak", "Highest temperature"),
        ("throttled_s", "Throttled for"),
    ):
        if key in found and found[key].value is not None:
            pairs.append((name, quantity(found[key].value, found[key].unit)))
    return pairs


def ladder_table(runs: Sequence[Run]) -> Html:
    """Every figure of a ladder, by queue depth."""
    heads = ["Queue depth", "MB/s ± sd", "IOPS", "Mean latency"]
    heads += [f"p{q:g}" for q in latency.PERCENTILES]
    heads += ["Power ± sd", "Temperature", "WAF", "I/Os", "Samples of 1 s"]
    rows: list[list[Child]] = []
    for run in runs:
        for step in run.measured.steps:
            name = f"QD {step.queue_depth}"
            power = step.power
            rows.append(
                [
                    name if len(runs) == 1 else f"{run.name}, {name}",
                    _with_sd(step.rate_mb_s, step.rate.sd if step.rate else None),
                    number(step.iops),
                    latency_words(step.latency_mean_us),
                    *(latency_words(us) for us in step.percentiles_us.values()),
                    _with_sd(power.mean, power.sd) + " W" if power else DASH,
                    quantity(step.temperature_last_c, "°C"),
                    number(step.waf),
                    f"{step.total_ios:,}",
                    f"{step.rate.n:,}" if step.rate else "0",
                ]
            )
    return details(
        "All figures as a table",
        table(heads, rows, caption="Temperature: at the end of the step.", kind="data many"),
    )


def figures_table(runs: Sequence[Run]) -> Html:
    """Every figure of tests that are no ladder."""
    rows: list[list[Child]] = []
    for run in runs:
        for figure in run.measured.figures.values():
            spread_words = ""
            if figure.spread is not None:
                spread_words = f"± {quantity(figure.spread, figure.unit)} ({figure.spread_kind})"
            rows.append(
                [
                    figure.label if len(runs) == 1 else f"{run.name}: {figure.label}",
                    quantity(figure.value, figure.unit),
                    spread_words,
                    f"{figure.n:,} {figure.n_kind}" if figure.n else "",
                    figure.place or figure.note,
                ]
            )
    return details(
        "All figures as a table", table(["Figure", "Value", "Spread", "From", "Note"], rows)
    )


def _with_sd(value: float, sd: float | None) -> str:
    return number(value) if sd is None else f"{number(value)} ± {number(sd)}"
