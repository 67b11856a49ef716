"""Published figures, and their comparison with measured ones.

Sources: published/figures.csv (printed statements, each with its publication), published/hosts.toml
(the host of each measurement) and published/mapping.toml (the measured figure that a row is
compared with). Leaves out: statements in words and ratios to other drives; they
stay in figures.csv unmapped.
"""

from __future__ import annotations

import csv
import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from drivebay.common import data

Verdict = Literal["within", "off", "shortened", "not measured"]

# Unit of our figures and factor, by published unit.
UNITS: dict[str, tuple[str, float]] = {"us": ("µs", 1.0), "GB/s": ("MB/s", 1e3)}


@dataclass(frozen=True)
class Published:
    """One published statement; `value` is None if it is not a number, and `text` has its wording.

    `unit` is that of our figures, `printed_unit` the publication's; `host` names the host of the
    measurement.
    """

    id: str
    drive: str
    test: str
    condition: str
    metric: str
    relation: str
    value: float | None
    text: str
    unit: str
    printed_unit: str
    source: str
    host: str

    @property
    def publication(self) -> str:
        """Name of the publication with all its articles, or of the artifact with all its parts:
        "AnandTech" of "AnandTech 9396 p2, SM951-NVMe", "SSD-iq" of "SSD-iq (VLDB 2025), artifact".
        """
        return re.sub(r"( p?\d+)+$", "", re.split(r",| \(", self.source)[0])


@dataclass(frozen=True)
class Mapped:
    """A published statement and the measured figure that it is compared with.

    The published value is in the measured figure's unit. `at_least` is the other end of a bound
    that was printed with "just" ("just under two minutes").
    """

    published: Published
    suite: str
    test: str
    metric: str
    primary: bool
    at_least: float | None
    note: str


@functools.cache
def figures() -> Mapping[str, Published]:
    """Every row of figures.csv by its id."""
    path = data.path("published") / "figures.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return {row["id"]: _published(row) for row in csv.DictReader(file)}


def _published(row: Mapping[str, Any]) -> Published:
    try:
        value = float(row["value"])
    except ValueError:
        value = None
    unit, factor = UNITS.get(row["unit"], (row["unit"], 1.0))
    same = ("id", "drive", "test", "condition", "metric", "relation", "source")
    return Published(
        **{key: row[key] for key in same},
        value=None if value is None else value * factor,
        text=row["value"],
        unit=unit,
        printed_unit=row["unit"],
        host=_host(row["id"], row["source"]),
    )


def table(name: str) -> dict[str, Any]:
    """Contents of a TOML file in published/."""
    with (data.path("published") / f"{name}.toml").open("rb") as file:
        return tomllib.load(file)


_table = functools.cache(table)


def _host(row_id: str, source: str) -> str:
    hosts = _table("hosts")
    by_publication = hosts["publications"].items()
    usual = next(host for name, host in by_publication if source.startswith(name))
    return str(hosts["rows"].get(row_id, usual))


@functools.cache
def mapped() -> tuple[Mapped, ...]:
    """All possible comparisons, in the order of mapping.toml."""
    keys = ("suite", "test", "metric", "primary", "at_least", "note")
    rows = _table("mapping")["row"]
    return tuple(Mapped(figures()[row["id"]], *map(row.get, keys)) for row in rows)


def addresses(source: str) -> list[tuple[str, str]]:
    """Splits a source into parts, each with the address of the publication that it names, or "".

    >>> addresses("load of AnandTech 8979; durations chosen here")[1]
    ('AnandTech 8979', 'https://www.anandtech.com/show/8979')
    """
    matches = sorted(
        (match.span(), where.format(*match.groups()))
        for name, where in _table("addresses")["addresses"].items()
        for match in re.finditer(name, source)
    )
    parts, at = [], 0
    for (start, end), where in matches:
        parts += [(source[at:start], ""), (source[start:end], where)]
        at = end
    parts.append((source[at:], ""))
    return [part for part in parts if part[0]]


def address(source: str) -> str:
    """The first address in a source; empty if none is known."""
    return next((where for _, where in addresses(source) if where), "")


def drive_of_model(model: str) -> str | None:
    """The drive of figures.csv that a real device's model string names, if any.

    >>> drive_of_model("SAMSUNG MZHPV512HDGL-00000")
    'sm951-ahci-512'
    """
    for drive, entry in _table("mapping")["drives"].items():
        if any(part.upper() in model.upper() for part in entry["models"]):
            return str(drive)
    return None


def specification(drive: str) -> tuple[Published, ...]:
    """Rows of the maker's and reviewers' specification tables for a drive, in their order."""
    return tuple(
        row for row in figures().values() if (row.drive, row.test) == (drive, "spec-sheet")
    )


def error_percent(row: Mapped, measured: float) -> float | None:
    """Deviation of the measured figure from the published one, in percent of the published one.

    Inside a published bound the error is 0, outside it is the distance to the bound. None if the
    published value is not a number.
    """
    value = row.published.value
    if not value:
        return None
    low = row.at_least if row.published.relation == "lt" else value
    high = None if row.published.relation == "gt" else value
    if low is not None and measured < low:
        return 100 * (measured - low) / low
    if high is not None and measured > high:
        return 100 * (measured - high) / high
    return 0.0


def statement(row: Published) -> str:
    """Short form of a published statement: "about 7,500 IOPS", "under 120 s".

    >>> statement(figures()["S087"])
    'over 150,000 IOPS'
    """
    prefixes = {"approx": "about ", "lt": "under ", "gt": "over "}
    if row.value is None:
        return " ".join(part for part in (row.text, row.unit) if part)
    number = f"{row.value:,.0f}" if row.value >= 100 or row.value == int(row.value) else row.text
    return f"{prefixes.get(row.relation, '')}{number} {row.unit}".strip()
