"""Colours of the report, light and dark: one table for the style sheet and the charts.

Charts name a colour "@c1"; the page inserts the value of its theme. Series and stage colours are
distinguishable with the three common kinds of colour blindness.
"""

from __future__ import annotations

from drivebay.report.base.text import asset_table

_TABLES = asset_table("theme")
_COLOURS, _STAGES = _TABLES["colours"], _TABLES["stages"]
LIGHT, DARK = ({name: pair[at] for name, pair in _COLOURS.items()} for at in (0, 1))
STAGES, STAGE_PATTERNS = ({name: pair[at] for name, pair in _STAGES.items()} for at in (0, 1))
PATTERNS: dict[str, str] = _TABLES["patterns"]
TILE = 8
PATTERN_INK = "#000000"
PATTERN_OPACITY = 0.35
SERIES = ("@c1", "@c2", "@c3", "@c4", "@c5", "@c6")


def style_sheet() -> str:
    """Colours as CSS variables: by the preference of the system, by the toggle, light in print."""

    def variables(theme: dict[str, str], scheme: str) -> str:
        lines = "".join(f"--{name}:{value};" for name, value in theme.items())
        return f"color-scheme:{scheme};{lines}"

    light, dark = variables(LIGHT, "light"), variables(DARK, "dark")
    preferred = f":root:not([data-theme=light]){{{dark}}}"
    tiles = "".join(_tile(name, path) for name, path in PATTERNS.items())
    return (
        f":root{{{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{{preferred}}}\n"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}\n"
        f"{tiles}\n"
    )


def _tile(name: str, path: str) -> str:
    """CSS background of a legend key with a pattern."""
    picture = (
        f"%3Csvg xmlns='http://www.w3.org/2000/svg' width='{TILE}' height='{TILE}'%3E"
        f"%3Cpath fill='%23{PATTERN_INK[1:]}' fill-opacity='{PATTERN_OPACITY}' d='{path}'/%3E"
        "%3C/svg%3E"
    )
    return f'.tile.{name}{{background-image:url("data:image/svg+xml,{picture}")}}'
