"""Tables on stdout, as text for people or JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivebay.common import units

if TYPE_CHECKING:
    from drivebay.analysis import Conditions, Headline
    from drivebay.targets.safety.blockdev import Device

PIPE_WIDTH = 200
NARROW = 68
"""Below this many columns a table is no longer one."""


def drives(*, as_json: bool) -> None:
    """The catalog, and this machine's block devices with what forbids testing them."""
    from drivebay.definitions import profiles as catalog
    from drivebay.targets.safety import blockdev

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
        (
            "device",
            "capacity",
            "interface",
            "model",
            "serial",
            "on it, and forbids a test",
        ),
        [
            (
                str(device.path),
                units.si_bytes(device.capacity_bytes),
                device.interface or "",
                device.model or "",
                device.serial or "",
                _what_forbids(device),
            )
            for device in devices
        ],
    )


def _what_forbids(device: Device) -> str:
    found = "; ".join((*device.blockers, *device.signatures))
    if device.blockers:
        return found
    word = "review DEVICE --destroy-data SERIAL"
    return f"{found}: {word} --overwrite-signature" if found else f"free: {word}"


def headline(figures: Sequence[Headline]) -> None:
    """The main figures of a review; published ones beside them where there are any.

    The spread is the standard deviation of the samples; the report says of which.
    """
    from rich.console import Console

    if sys.stdout.isatty() and Console().width < NARROW:
        _headline_narrow(figures)
        return
    rows = []
    notes: dict[str, None] = {}
    for before, figure in zip([None, *figures], figures, strict=False):
        first = before is None or before.test_id != figure.test_id
        rows.append(
            (
                figure.test_id if first else "",
                figure.label,
                "–" if figure.value is None else f"{number(figure.value)} {figure.unit}",
                "" if figure.spread is None else f"± {number(figure.spread)}",
                str(figure.n) if figure.n else "",
                figure.published_text,
                _error(figure),
            )
        )
        if figure.value is None and figure.note:
            notes[f"{figure.test_id}: {figure.note}"] = None
    headers = ("test", "figure", "here", "spread", "n", "published", "error")
    columns = len(headers) if any(row[5] for row in rows) else 5
    table(headers[:columns], [row[:columns] for row in rows], right=(2, 3, 4))
    for note in notes:
        print(f"–  {note}")
    print()


def _headline_narrow(figures: Sequence[Headline]) -> None:
    """The same for a terminal that has no room for columns: two lines per figure."""
    last = ""
    for figure in figures:
        if figure.test_id != last:
            print(figure.test_id)
            last = figure.test_id
        print(f"  {figure.label}")
        value = "–" if figure.value is None else f"{number(figure.value)} {figure.unit}".strip()
        spread = "" if figure.spread is None else f" ± {number(figure.spread)}"
        print(f"    {value}{spread}{f'  {figure.note}' if figure.value is None else ''}")
        if figure.published_text:
            print(f"    published {figure.published_text}  {_error(figure)}".rstrip())
    print()


def validity_warnings(found: Conditions, *, tests: int) -> None:
    """What makes the figures of a real drive suspect, and how often a test was cut short."""
    for warning in found.warnings:
        everywhere = len(warning.test_ids) == tests
        where = "" if everywhere else f" ({', '.join(warning.test_ids)})"
        print(f"warning {warning.sentence}{where}")
    for test_id, count in found.interruptions.items():
        times = "once" if count == 1 else f"{count} times"
        print(f"note    {test_id} was cut short {times} and begun anew, prepared as at first")
    if found.warnings or found.interruptions:
        print()


def run_bench() -> list[dict[str, Any]]:
    """Runs the cases with a line on stderr for each."""
    from drivebay.cli.display import say
    from drivebay.lab import bench as cases

    return cases.run_cases(lambda line: say(f"bench: {line}"))


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


def _error(figure: Headline) -> str:
    if figure.published_relation in ("lt", "gt") and figure.error_percent == 0:
        return "holds"
    if figure.error_percent is not None:
        return f"{figure.error_percent:+.1f} %"
    return figure.verdict or "" if figure.published_text else ""


def short(path: Path) -> str:
    """The path as the user would type it from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


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
    console = Console(width=width, highlight=False)
    with console.capture() as lines:
        console.print(shown)
    print("\n".join(line.rstrip() for line in lines.get().splitlines()))
