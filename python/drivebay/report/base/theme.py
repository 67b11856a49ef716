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
_RISING = "M0 0h1l-1 1zM0 7l7-7h1l0 1l-7 7h-1zM8 7l0 1h-1z"
_FALLING = "M8 0l0 1l-1-1zM0 1l7 7h1l0-1l-7-7h-1zM0 7l1 1h-1z"
PATTERNS: dict[str, str] = {
    "plain": "",
    "dots": "M3 3h2l0 2h-2z",
    "level": "M0 3h8l0 2h-8z",
    "upright": "M3 0h2l0 8h-2z",
    "grid": "M0 3h8l0 2h-8zM3 0h2l0 3h-2zM3 5h2l0 3h-2z",
    "rising": _RISING,
    "falling": _FALLING,
    "cross": _RISING + _FALLING,
    "bricks": "M0 1h5l0 2h-5zM0 5h1l0 2h-1zM4 5h4l0 2h-4z",
    "checks": "M0 0h4l0 4h-4zM4 4h4l0 4h-4z",
    "diamonds": "M4 0l4 4l-4 4l-4-4z",
}
"""Patterns of filled areas: outlines in a repeating square of `TILE` pixels. The ink is the same on
every colour and in both themes.
"""
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
