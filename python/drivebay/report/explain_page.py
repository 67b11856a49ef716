"""The page of `drivebay explain`: where the time of one test went, of one drive or of two.

Sentences first, then the stages by load, the gap between the two, the stages over the run, and all
of it as a table. Means only, as the stages are known as nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import explain
from drivebay.analysis.explain import Explained, Gap
from drivebay.analysis.stages import StageShare, meaning, ordered
from drivebay.report.charts import stages
from drivebay.report.markup import Child, Html, el, table
from drivebay.report.page import document
from drivebay.report.render_page import Page
from drivebay.report.runs import Entry, Run, run_differently, runs
from drivebay.report.sections import DIFFERENT, explained, method
from drivebay.report.summary import chips
from drivebay.report.text import DASH, number


def render(all_entries: Sequence[Entry], test_id: str) -> str:
    """The whole document; every entry has figures of the test, with stages."""
    page = Page(tuple(all_entries))
    found = runs(all_entries, [test_id])
    known = [explain.explain(run.measured) for run in found]
    gaps = explain.gaps(*known) if len(known) == 2 else ()
    by_load, *over_time = stages.stages(test_id, found)
    between = stages.gap(f"{test_id}-gap", found, gaps)
    title = known[0].title
    main = el(
        "main",
        _header(all_entries, title),
        el("p", DIFFERENT, class_="note") if run_differently(all_entries, test_id) else None,
        _part("follows", "What follows", explained(found)),
        _part("load", "By load", page.show([by_load, *between])),
        _part("run", "Over the run", page.show(over_time)) if over_time else None,
        _part(
            "figures",
            "Figures",
            [_table(found, known, gaps), _busy(found, known), method(found[0].measured.test)],
        ),
        id="top",
    )
    links = [("follows", "What follows"), ("load", "By load")]
    links += [("run", "Over the run")] if over_time else []
    links += [("figures", "Figures")]
    return document(page, links, main, title=f"{title}: where the time went — drivebay")


def _header(all_entries: Sequence[Entry], title: str) -> Html:
    lines = [
        el("div", el("strong", entry.name), el("p", chips(entry), class_="chips"), class_="who")
        for entry in all_entries
    ]
    return el("header", el("p", "Where the time went", class_="eyebrow"), el("h1", title), lines)


def _part(anchor: str, heading: str, body: Child) -> Html:
    return el("section", el("h2", heading), body, id=anchor, class_="page")


def _table(found: Sequence[Run], known: Sequence[Explained], gaps: Sequence[Gap]) -> Html:
    """Microseconds per I/O of every stage under every load, share of the whole beside them."""
    names = ordered({one.stage for each in known for load in each.loads for one in load.stages})
    heads = ["Load", "All, µs", *(f"{name}, µs (%)" for name in names)]
    rows: list[list[Child]] = []
    for run, each in zip(found, known, strict=True):
        for load in each.loads:
            shares = {one.stage: one for one in load.stages}
            cells = [_share(shares.get(name)) for name in names]
            label = f"{run.name}, {load.label}" if run.name else load.label
            rows.append([label, number(load.latency_us), *cells])
    for gap in gaps:
        parts = {part.stage: part for part in gap.parts}
        cells = [_difference(parts[n].us) if n in parts else DASH for n in names]
        rows.append([f"gap, {gap.label}", _difference(gap.us), *cells])
    words = "; ".join(f"{name}: {meaning(name)}" for name in names)
    return table(heads, rows, caption=f"Mean per I/O. {words}.", kind="data many")


def _busy(found: Sequence[Run], known: Sequence[Explained]) -> Html | None:
    """How much of the time each part of the drive worked, load by load."""
    loads = [(run, load) for run, each in zip(found, known, strict=True) for load in each.loads]
    parts = list(dict.fromkeys(part for _, load in loads for part in load.busy_percent))
    if not parts:
        return None
    rows: list[list[Child]] = [
        [
            f"{run.name}, {load.label}" if run.name else load.label,
            *(f"{load.busy_percent.get(part, 0.0):.0f}" for part in parts),
        ]
        for run, load in loads
    ]
    caption = "Busy: share of the time in which each part of the drive worked."
    return table(["Load", *(f"{part}, %" for part in parts)], rows, caption=caption, kind="data")


def _share(one: StageShare | None) -> str:
    return DASH if one is None else f"{number(one.mean_us)} ({one.share_percent:.0f})"


def _difference(us: float) -> str:
    """To a hundredth of a microsecond; nothing is nothing.

    >>> _difference(-3.2), _difference(1e-6)
    ('-3.20', '0')
    """
    return f"{us:+,.2f}" if abs(us) >= 0.005 else "0"
