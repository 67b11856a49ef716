"""HTML that is always escaped: text becomes markup only through `el`.

Names, notes and errors come from users, files and devices; anything that is not `Html` is escaped
when it is put into an element.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from drivebay.analysis.published import address, addresses
from drivebay.report.base.text import number


class Html(str):
    """Markup that is safe to write unchanged."""

    __slots__ = ()


Child = str | Html | None | Iterable["Child"]

CUT = 5
# Length of the scale relative to the longest bar that is not cut.
CUT_ROOM = 1.25
CUT_NOTE = f"Bar with a gap: more than {CUT} times as long as any bar without one"
_VOID = {"meta", "input", "br"}
_CONTROLS = dict.fromkeys(
    {*range(32), *range(127, 160)} - {*map(ord, "\t\n\r")}, "\N{REPLACEMENT CHARACTER}"
)


def text(child: Child) -> Html:
    """Escapes a string, joins an iterable, leaves `Html` unchanged; None becomes an empty string.

    >>> text(["<b>", el("i", "x")]), text(chr(27))
    ('&lt;b&gt;<i>x</i>', '\ufffd')
    """
    if child is None:
        return Html("")
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return Html(_escaped(child))
    return Html("".join(text(part) for part in child))


def _escaped(text: str) -> str:
    """Text escaped for HTML, without control characters (HTML Standard, 13.2.3.5)."""
    return html.escape(text.translate(_CONTROLS))


def el(tag: str, /, *children: Child, **attributes: str | bool | None) -> Html:
    """Element with its children. A trailing underscore in an attribute's name is dropped, others
    become hyphens; True is an attribute without a value, False and None leave it out.

    >>> el("a", "1 < 2", href="#x", class_="wide", data_key='"')
    '<a href="#x" class="wide" data-key="&quot;">1 &lt; 2</a>'
    """
    parts = [tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        parts.append(label if value is True else f'{label}="{_escaped(str(value))}"')
    head = "<" + " ".join(parts) + ">"
    return Html(head if tag in _VOID else f"{head}{text(children)}</{tag}>")


def script_json(value: Any) -> Html:
    """JSON for a script element: without `<`, `>` and `&`, and ASCII only.

    >>> script_json({"a": "</script>"})
    '{"a":"\\\\u003c/script\\\\u003e"}'
    """
    encoded = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        encoded = encoded.replace(sign, f"\\u{ord(sign):04x}")
    return Html(encoded)


def packed(content: str, name: str) -> Html:
    """Script element with compressed text (a third of its size), unpacked on demand."""
    return el("script", Html(squeezed(content)), type="text/plain", id=name)


def squeezed(content: str) -> str:
    """Text compressed with gzip, as base64."""
    return base64.b64encode(gzip.compress(content.encode(), 9, mtime=0)).decode()


def chart_text(value: str) -> str:
    """Text for Plotly, escaped, since Plotly interprets some markup and templates."""
    return html.escape(value, quote=False).replace("%{", "%\u200b{")


def heading(tag: str, text: str, anchor: str) -> Html:
    """Heading with a link to itself."""
    link = el("a", "#", href=f"#{anchor}", class_="anchor-link", aria_label=f"Link to {text}")
    return el(tag, text, link)


def linked(source: str) -> list[Child]:
    """Source with links to its publications, if their addresses are known."""
    return [el("a", text, href=where) if where else text for text, where in addresses(source)]


def publication(name: str, where: str) -> Html:
    """Publication as a link; without an address it is marked."""
    return el("a", name, href=where) if where else text(f"{name} (no link)")


def cited(source: str) -> Child:
    """Source of a published figure with its links; without an address it is marked.

    >>> text(cited("maker's specification, Plextor M6e, 2014"))[-19:]
    'M6e, 2014 (no link)'
    """
    return linked(source) if address(source) else publication(source, "")


@dataclass(frozen=True)
class Published:
    """Published value for a bar; `bound` is "gt" or "lt" if only one end is known. `how` is
    "fitted", "predicted" or "contradicted" for a virtual drive; `missed`: the figure is outside of
    the bounds.
    """

    value: float
    text: str
    source: str
    bound: str = ""
    address: str = ""
    how: str = ""
    missed: bool = False

    @property
    def link(self) -> Html:
        """Publication as a link."""
        return publication(self.source, self.address)


@dataclass(frozen=True)
class Bar:
    """One bar; its whisker spans `ends`, or `spread` on both sides of the value.

    `colour` is a theme name; the bar of a published value uses "@published-fill" and is hatched.

    Parameters
    ----------
    text : printed instead of the number.
    published : drawn as a mark on the bar of the figure that it belongs to.
    itself : the published value, if the bar shows one.
    place : its rank; 0 for none.
    other : True for a drive that is not under review.
    stand_in : True for a stand-in, which has no rank.
    doubted : True if the model is known to miss the figure by far; it is struck through.
    mark : word inside the bar.
    """

    label: str
    value: float | None
    colour: str
    spread: float | None = None
    detail: str = ""
    text: str = ""
    ends: tuple[float, float] | None = None
    published: Published | None = None
    itself: Published | None = None
    place: int = 0
    other: bool = False
    stand_in: bool = False
    doubted: bool = False
    mark: str = ""

    @property
    def whisker(self) -> tuple[float, float] | None:
        """Both ends of the whisker."""
        if self.ends is not None or not self.spread or self.value is None:
            return self.ends
        return max(0.0, self.value - self.spread), self.value + self.spread

    @property
    def highest(self) -> float:
        """Highest value that is drawn: bar, whisker or mark."""
        marked = self.published.value if self.published else 0.0
        return max(abs(self.value or 0.0), marked, *(self.whisker or (0.0,)))


def bars(
    title: str,
    unit: str,
    rows: Sequence[Bar],
    *,
    better: str = "higher",
    link: tuple[str, str] | None = None,
    more: Child = None,
    doubt: str = "",
    picture: str = "",
) -> Html:
    """Horizontal bars on one scale from zero; rows without a value say so. `link`: text before the
    title and the anchor that it leads to; `more`: content below; `doubt`: reason not to trust
    the figure; `picture`: chart of the same bars that the page can save.
    """
    texts = [word for word in (unit, f"{better} is better" if better else "") if word]
    name, heading = title, [el("strong", title)]
    if link is not None:
        name = f"{link[0]}: {title}"
        heading = [
            el("strong", el("a", link[0], href=f"#{link[1]}")),
            el("span", title, class_="of"),
        ]
    mark = el("span", doubt, class_="chip warn doubt") if doubt else None
    caption = el("caption", heading, el("span", ", ".join(texts), class_="unit"), mark)
    save = [save_button("CSV", name, data_save="bars")]
    for form in ("PNG", "SVG") if picture else ():
        save.append(save_button(form, name, data_save=form.lower(), data_picture=picture))
    top = top_of(rows)
    body = el("tbody", [_bar(row, top) for row in rows])
    kind = "bars ranked" if any(row.other for row in rows) else "bars"
    table = el("table", caption, body, class_=kind, data_title=name, data_unit=unit)
    below = el("div", el("div", more), el("p", save, class_="save"), class_="below")
    return el("div", table, below, class_="bars-box")


def save_button(form: str, name: str, **data: str) -> Html:
    """A button that saves the chart of this name as CSV, PNG or SVG."""
    return el("button", form, type="button", **data, aria_label=f"Save as {form}: {name}")


def top_of(rows: Sequence[Bar]) -> float:
    """End of the scale: the longest bar. Among other drives fewer than half of the bars are cut if
    they are over `CUT` times as long as the longest of the rest; then the scale ends a little
    above that one, so that the others stay visible. bench.js has the same rule.

    >>> top_of([Bar("a", value, "@c1", other=True) for value in (900.0, 20.0, 16.0)])
    25.0
    """
    values = sorted((row.value for row in rows if row.value is not None), reverse=True)
    places = range(1, (len(values) + 1) // 2) if any(row.other for row in rows) else ()
    ends = [values[at] for at in places if 0 < CUT * values[at] < values[at - 1]]
    whole = [row.highest for row in rows if not ends or (row.value or 0.0) <= ends[-1]]
    return (CUT_ROOM if ends else 1.0) * max(whole, default=0.0) or 1.0


def unbroken(label: str) -> Child:
    """Name of a drive without a line break inside "(stand-in)"."""
    name, mark, rest = label.partition("(stand-in)")
    return [name, el("span", mark, class_="whole"), rest] if mark else label


def _bar(row: Bar, top: float) -> Html:
    name: list[Child] = [el("span", f"{row.place}.", class_="place"), " "] if row.place else []
    name.append(unbroken(row.label))
    label = el("th", name, scope="row", class_="published" if row.itself else None)
    of_row = "other" if row.other else None
    if row.value is None:
        missing = el("td", row.detail or "not measured", class_="none")
        return el("tr", label, missing, class_=of_row)
    drawn: list[Child] = []
    low, high = row.whisker or (0.0, 0.0)
    if high <= top and 100 * (high - low) / top >= 0.5:
        left, length = 100 * low / top, 100 * (high - low) / top
        drawn.append(el("i", class_="whisker", style=f"left:{left:.2f}%;width:{length:.2f}%"))
    if row.published is not None and row.published.value <= top:
        kind = f"mark {row.published.bound}{' missed' * row.published.missed}".strip()
        drawn.append(el("i", class_=kind, style=f"left:{100 * row.published.value / top:.2f}%"))
    cut = row.value > top
    width = 100.0 if cut else 100 * max(row.value, 0) / top
    kind = f"fill published {row.itself.bound}".rstrip() if row.itself else "fill"
    colour = "" if row.other else f";--bar:var(--{row.colour.removeprefix('@')})"
    fill = el("i", class_=f"{kind} cut" if cut else kind, style=f"width:{width:.2f}%{colour}")
    texts: list[Child] = [el("s" if row.doubted else "b", row.text or number(row.value))]
    texts.append(el("small", row.itself.link if row.itself else None, row.detail))
    mark = el("em", row.mark) if row.mark else None
    cell = el(
        "td",
        el("span", fill, drawn, class_="track"),
        el("span", texts, mark, class_="value"),
    )
    low_end, high_end = row.ends or (None, None)
    numbers = {"value": row.value, "spread": row.spread, "low": low_end, "high": high_end}
    numbers |= {"published": row.published.value if row.published else None}
    exact = {f"data_{key}": repr(value) for key, value in numbers.items() if value is not None}
    notes = [CUT_NOTE] if cut else []
    notes += [f"published: {row.published.text}, {row.published.source}"] if row.published else []
    return el("tr", label, cell, class_=of_row, title="; ".join(notes) or None, **exact)


def facts(pairs: Sequence[tuple[str, str]]) -> Html:
    """A few figures in one line."""
    return el(
        "dl", [el("div", el("dt", name), el("dd", value)) for name, value in pairs], class_="facts"
    )


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Child]],
    *,
    caption: Child = "",
    kind: str = "data",
) -> Html:
    """Table whose first column names the row; wide tables scroll on their own."""
    body = [
        el("tr", el("th", row[0], scope="row"), [el("td", cell) for cell in row[1:]])
        for row in rows
    ]
    top = el("thead", el("tr", [el("th", head, scope="col") for head in heads]))
    name = el("caption", caption) if caption else None
    whole = el("table", name, top if any(heads) else None, el("tbody", body), class_=kind)
    label = re.sub("<.*?>", "", html.unescape(text(caption))) or "table"
    return el("div", whole, class_="scroll", tabindex="0", role="region", aria_label=label)


def details(summary: Child, *children: Child, class_: str = "") -> Html:
    """Closed section that a click opens."""
    return el("details", el("summary", summary), *children, class_=class_ or None)
