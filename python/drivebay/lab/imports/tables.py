"""Tables with named columns: elbencho's and Iometer's CSV, vdbench's flat file, and `iostat -x`.

Sources: elbencho's Statistics.cpp (1.9 to 3.1), the manual of vdbench 5.04 on flatfile.html,
iostat(1) of sysstat 10 to 12, Iometer's ManagerList.cpp (2006 to 1.1). tables.toml has the columns
of each. Times of iostat's lines are not needed; its first report of each device counts from the
start of the system and is left out.

Leaves out: seconds, and percentiles, which these programs do not report.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.definitions.suites import Workload
from drivebay.definitions.suites.model import Unknown
from drivebay.lab.imports import named, text_of
from drivebay.results.foreign import ImportedFile, rates_only
from drivebay.results.records import PhaseResult
from drivebay.targets.fio.figures import Unreadable

LAYOUTS = documents.beside(__file__, "tables.toml")["layouts"]
SECTOR = 512
NEWER = {"Device:": "Device", "MBps (Binary)": "MBps", "MiBps (Binary)": "MBps"}
_NUMBER = re.compile(r"\d{1,15}(?:[.,]\d{1,9})?(?:e\+0\d)?")
Row = dict[str, str]


def read(path: Path, time_scale: float = 1.0) -> ImportedFile:
    """Reads a table of any of the layouts. Raises Unreadable for an impossible figure."""
    lines = text_of(path, named("elbencho").again).split("\n")
    tables = ((layout, _rows(lines, layout)) for layout in LAYOUTS)
    layout, alike = next((table for table in tables if table[1]), (LAYOUTS[0], {}))
    warnings, phases = {layout["note"]}, []
    for label, rows in alike.items():
        made = _phase(label, rows, layout, time_scale, warnings)
        phases += [made] if made else []
    return ImportedFile(
        path,
        version=layout["importer"],
        method=f"Imported from a table of {layout['importer']}; {layout['note']}",
        phases=phases,
        warnings=sorted(warnings),
        device=f"/dev/{phases[0].label}" if layout["of_device"] and phases else path.stem,
    )


def _rows(lines: list[str], layout: dict[str, Any]) -> dict[str, list[Row]]:
    """Rows of each phase, with the names of their columns: one each, or all of a device but its
    first. Lines of another length are not of the table."""
    header: list[str] = []
    alike: dict[str, list[Row]] = defaultdict(list)
    for number, line in enumerate(lines):
        comma = layout["separator"] == ","
        cells = next(documents.csv_rows([line]), []) if comma else line.split()
        cells = [NEWER.get(cell, cell.strip()) for cell in cells]
        if set(layout["header"]) <= set(cells):
            header = cells
        elif not cells and layout["of_device"]:
            header = []
        elif cells and len(cells) == len(header):
            row = dict(zip(header, cells, strict=True))
            if row[layout["only"]].startswith(tuple(layout["begins"])):
                label = row[layout["label"]]
                alike[label if layout["of_device"] else f"{label} {number}"].append(row)
    return {
        label: some[1:] if layout["of_device"] and len(some) > 1 else some
        for label, some in alike.items()
    }


def _phase(
    label: str, rows: list[Row], layout: dict[str, Any], time_scale: float, warnings: set[str]
) -> PhaseResult | None:
    """The mean of some rows as a phase; None if no data moved."""

    def columns(key: str) -> list[float]:
        return [_mean(rows, name) for name in layout.get(key, ())]

    counts, times = columns("iops"), columns("latency")
    iops, bytes_per_s = sum(counts), sum(columns("rate")) * layout["rate_bytes"]
    if not iops or not bytes_per_s:
        warnings.add(f"{label} moved no data")
        return None
    for where, text in layout["warn"].items():
        column, _, value = where.partition("=")
        warnings |= {text} if rows[0].get(column) == value else set()
    seconds = sum(columns("milliseconds")) / 1000
    reads = columns("reads") or [100 * counts[0] / iops]
    if "ways" in layout:
        name = rows[0][layout["label"]]
        reads = [layout["ways"].get(name, 100 * name.startswith("READ"))]
    spent = sum(time * count for time, count in zip(times, counts, strict=True)) / iops
    block = sum(columns("block")) or bytes_per_s / iops
    unknown: tuple[Unknown, ...] = () if "depth" in layout else ("pattern", "queue_depth")
    workload = Workload(
        pattern="random" if sum(columns("random")) >= layout["random_from"] else "sequential",
        read_percent=round(reads[0]),
        block_bytes=max(1, round(block / SECTOR)) * SECTOR,
        queue_depth=math.prod(int(figure or 1) for figure in columns("depth")),
        duration_s=seconds * time_scale or 1.0,
        unknown=unknown if seconds else (*unknown, "duration_s"),
    )
    return rates_only(
        label,
        workload,
        mb_per_s=bytes_per_s / 1e6 / time_scale,
        iops=iops / time_scale,
        latency_us=spent * layout["latency_us"] * time_scale or None,
    )


def _mean(rows: Sequence[Row], name: str) -> float:
    """Mean of a column; an empty cell is 0. Raises Unreadable for another text."""
    cells = [row[name] or "0" for row in rows]
    for cell in cells:
        if not _NUMBER.fullmatch(cell):
            raise Unreadable(f"{name} is {cell[:40]!r}; must be a number, 0 or more")
    return sum(float(cell.replace(",", ".")) for cell in cells) / len(cells)
