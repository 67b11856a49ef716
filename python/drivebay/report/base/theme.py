"""Colours of the report, light and dark: one table for the style sheet and the charts.

Charts name a colour "@c1"; the page inserts the value of its theme. Series and stage colours are
distinguishable with the three common kinds of colour blindness.
"""

from __future__ import annotations

_COLOURS = {
    "paper": ("#fcfbf8", "#14171a"),
    "surface": ("#ffffff", "#1b1f23"),
    "sunken": ("#f3f1ea", "#20252a"),
    "ink": ("#1d2126", "#e8e7e3"),
    "muted": ("#5b626a", "#a2a9b0"),
    "rule": ("#dedbd2", "#343a40"),
    "grid": ("#e9e6de", "#2a2f34"),
    "accent": ("#1f5f99", "#78b4ea"),
    "published": ("#8a5f00", "#e6bd63"),
    "published-fill": ("#d9b25a", "#a9842f"),
    "other": ("#b4b9bd", "#59626b"),
    "good": ("#24693f", "#7cc79a"),
    "bad": ("#a5321f", "#f0907c"),
    "heat": ("#c2452d", "#f08a6c"),
    "power": ("#6b4fa3", "#b79df0"),
    "shade": ("rgba(194,69,45,0.09)", "rgba(240,138,108,0.13)"),
    "c1": ("#2468a8", "#62a6e6"),
    "c2": ("#a54d24", "#fad28f"),
    "c3": ("#607f67", "#8bcda8"),
    "c4": ("#58307a", "#c3c3eb"),
    "c5": ("#a6801b", "#d8ab09"),
    "c6": ("#218ca3", "#589094"),
    "p1": ("#8fb6da", "#3d6d9e"),
    "p2": ("#4c8ac4", "#5d9ad6"),
    "p3": ("#24598f", "#9dc9f3"),
    "p4": ("#10294a", "#e2f0fd"),
}
"""Each colour on light and on dark paper."""
LIGHT, DARK = ({name: pair[at] for name, pair in _COLOURS.items()} for at in (0, 1))
_STAGES = {
    "host": ("#8d93e2", "dots"),
    "link": ("#5c656c", "bricks"),
    "firmware": ("#30537f", "cross"),
    "buffer": ("#73cac0", "upright"),
    "map": ("#488f84", "checks"),
    "die": ("#ddbd58", "rising"),
    "channel": ("#c57a33", "level"),
    "nand": ("#f18ca9", "plain"),
    "gc": ("#8e6897", "falling"),
    "throttle": ("#a4474f", "grid"),
}
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
