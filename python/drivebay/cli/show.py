"""Tables on stdout, as text for people or JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from drivebay import units

if TYPE_CHECKING:
    from drivebay.analysis import Headline

PIPE_WIDTH = 200


def drives(*, as_json: bool) -> None:
    """The catalog, and this machine's block devices with what forbids testing them."""
    from drivebay import catalog
    from drivebay.targets import blockdev

    profiles = [catalog.load(name) for name in catalog.names()]
    devices = blockdev.list_devices()
    if as_json:
        virtual = [
            {
                "name": profile.name,
                "title": profile.title,
                "capacity_bytes": profile.capacity_bytes,
                "interface": profile.interface,
            }
            for profile in profiles
        ]
        print(json.dumps({"drives": virtual, "devices": [asdict(d) for d in devices]}, indent=1))
        return
    table(
        ("virtual drive", "capacity", "interface", "title"),
        [(p.name, units.si_bytes(p.capacity_bytes), p.interface, p.title) for p in profiles],
    )
    print()
    if not devices:
        print("no block devices on this machine")
        return
    table(
        ("device", "capacity", "interface", "model", "serial", "why it must not be tested"),
        [
            (
                str(device.path),
                units.si_bytes(device.capacity_bytes),
                device.interface or "",
                device.model or "",
                device.serial or "",
                "; ".join(device.blockers) or "free: review DEVICE --destroy-data SERIAL",
            )
            for device in devices
        ],
    )


def headline(figures: Sequence[Headline]) -> None:
    """The main figures of a review; published ones beside them where there are any."""
    rows = []
    last = None
    for figure in figures:
        test = figure.test_id if figure.test_id != last else ""
        last = figure.test_id
        rows.append(
            (
                test,
                figure.label,
                _value(figure),
                _spread(figure),
                figure.published_text,
                _error(figure),
            )
        )
    if any(row[4] for row in rows):
        table(("test", "figure", "here", "spread", "published", "error"), rows, right=(2, 5))
    else:
        table(("test", "figure", "here", "spread"), [row[:4] for row in rows], right=(2,))
    print()


def run_bench() -> list[dict[str, Any]]:
    """Runs the cases with a line on stderr for each."""
    from drivebay import bench as cases
    from drivebay.cli.display import say

    return cases.run_cases(say)


def bench(cases: list[dict[str, Any]], *, as_json: bool) -> None:
    """The core's own speed."""
    if as_json:
        print(json.dumps({"cases": cases}, indent=1))
        return
    table(
        ("case", "I/Os per second", "seconds", "peak memory", "write amplification"),
        [
            (
                case["name"],
                f"{case['ios_per_s']:,.0f}",
                f"{case['seconds']:.2f}",
                units.si_bytes(case["rss_bytes"]),
                "" if case["waf"] is None else f"{case['waf']:.3f}",
            )
            for case in cases
        ],
        right=(1, 2, 3, 4),
    )


def _value(figure: Headline) -> str:
    return (
        figure.note or "none" if figure.value is None else f"{number(figure.value)} {figure.unit}"
    )


def _spread(figure: Headline) -> str:
    if figure.spread is None:
        return f"n = {figure.n} {figure.n_kind}" if figure.n else ""
    return f"± {number(figure.spread)} {figure.spread_kind}, n = {figure.n} {figure.n_kind}".strip()


def _error(figure: Headline) -> str:
    if figure.error_percent is not None:
        return f"{figure.error_percent:+.1f} %"
    return figure.verdict or "" if figure.published_text else ""


def number(value: float) -> str:
    """A figure with three significant digits, or all before the point.

    >>> number(10873.4), number(108.13), number(7.456), number(0.0)
    ('10,873', '108', '7.46', '0')
    """
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> None:
    """Columns on stdout: as wide as the terminal, wrapped inside their cells; whole in a pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, header in enumerate(headers):
        shown.add_column(header, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    Console(width=width, highlight=False).print(shown)
