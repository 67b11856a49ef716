"""HTML that cannot be forgotten to be escaped: text becomes markup only through `el`.

Names, notes and errors come from users, files and devices; whatever is not `Html` already is
escaped where it is put into an element.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any


class Html(str):
    """Markup that is safe to write as it is."""

    __slots__ = ()


Child = str | Html | None | Iterable["Child"]

_VOID = {"meta", "input", "br"}


def text(child: Child) -> Html:
    """Escapes a string, joins an iterable, leaves `Html` alone; None is nothing.

    >>> text(["<b>", el("i", "x")])
    '&lt;b&gt;<i>x</i>'
    """
    if child is None:
        return Html("")
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return Html(html.escape(child))
    return Html("".join(text(one) for one in child))


def el(tag: str, /, *children: Child, **attributes: str | bool | None) -> Html:
    """An element. A trailing underscore in an attribute's name is dropped, others become hyphens;
    True is an attribute without a value, False and None leave it out.

    >>> el("a", "1 < 2", href="#x", class_="wide", data_key='"')
    '<a href="#x" class="wide" data-key="&quot;">1 &lt; 2</a>'
    """
    parts = [tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        parts.append(label if value is True else f'{label}="{html.escape(str(value))}"')
    head = "<" + " ".join(parts) + ">"
    return Html(head if tag in _VOID else f"{head}{text(children)}</{tag}>")


def script_json(value: Any) -> Html:
    """JSON that may stand inside a script element: no `<`, `>` or `&`, and only ASCII.

    >>> script_json({"a": "</script>"})
    '{"a":"\\\\u003c/script\\\\u003e"}'
    """
    encoded = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        encoded = encoded.replace(sign, f"\\u{ord(sign):04x}")
    return Html(encoded)


def chart_text(value: str) -> str:
    """A string for Plotly, which reads a little markup and templates: shown as it is."""
    return html.escape(value, quote=False).replace("%{", "%\u200b{")
