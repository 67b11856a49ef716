"""Tables with named columns: elbencho's CSV, vdbench's flat file, and `iostat -x`.

Sources: elbencho's Statistics.cpp (1.9 to 3.1), the manual of vdbench 5.04 on flatfile.html,
iostat(1) of sysstat 10 to 12. tables.toml has the columns of each. Times of iostat's lines are not
needed; its first report of each device counts from the start of the system and is left out.

Leaves out: seconds, and percentiles, which these programs do not report.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.common.documents import printable
from drivebay.common.errors import UserError
from drivebay.definitions.suites import Workload
from drivebay.lab.imports import named, text_of
from drivebay.results.foreign import ImportedFile, rates_only
from drivebay.results.records import PhaseResult

LAYOUTS = documents.beside(__file__, "tables.toml")["layouts"]
SECTOR = 512
NEWER = {"Device:": "Device", "avgqu-sz": "aqu-sz"}
_NUMBER = re.compile(r"\d{1,15}(?:[.,]\d{1,9})?")
Row = dict[str, str]


def read(path: Path, time_scale: float = 1.0) -> ImportedFile:
    """Reads a table of any of the layouts. Raises UserError if there is none, or a row cannot be
    read or has no load."""
    shown = printable(str(path))
    lines = text_of(path, named("elbencho").again).split("\n")
    tables = ((layout, _rows(lines, layout)) for layout in LAYOUTS)
    layout, rows = next(((one, found) for one, found in tables if found), (LAYOUTS[0], []))
    warnings = {layout["note"]}
    phases = []
    for label, some in _by_label(rows, layout).items():
        try:
            phases += _phases(label, some, layout, time_scale, warnings)
        except (KeyError, ValueError) as problem:
            reason = f"{shown}: row {printable(label)} cannot be read: {problem}"
            raise UserError(reason, named(layout["importer"]).again) from None
    if not phases:
        raise UserError(f"{shown} has no row that was run", named(layout["importer"]).again)
    return ImportedFile(
        path,
        version=layout["version"],
        method=f"Imported from a table of {layout['version']}; {layout['note']}",
        phases=phases,
        warnings=sorted(warnings),
        device=f"/dev/{phases[0].label}" if "of_device" in layout else path.stem,
    )


def _rows(lines: list[str], layout: dict[str, Any]) -> list[Row]:
    """Rows with their column's names; lines of another length are not of the table."""
    header: list[str] = []
    rows = []
    for line in lines:
        cells = next(documents.csv_rows([line]), []) if layout["separator"] == "," else line.split()
        cells = [NEWER.get(cell, cell.strip()) for cell in cells]
        if set(layout["header"]) <= set(cells):
            header = cells
        elif not cells:
            header = header if layout["separator"] == "," else []
        elif len(cells) == len(header):
            row = dict(zip(header, cells, strict=True))
            only = layout.get("only", {"column": layout["label"], "begins": ""})
            if row[only["column"]].startswith(only["begins"]):
                rows.append(row)
    return rows


def _by_label(rows: list[Row], layout: dict[str, Any]) -> dict[str, list[Row]]:
    """The rows of each phase: one each, or all of a device but its first."""
    alike: dict[str, list[Row]] = defaultdict(list)
    for number, row in enumerate(rows):
        label = row[layout["label"]]
        alike[label if "of_device" in layout else f"{label} {number + 1}"].append(row)
    return {
        label: some[1:] if "of_device" in layout and len(some) > 1 else some
        for label, some in alike.items()
    }


def _phases(
    label: str, rows: list[Row], layout: dict[str, Any], time_scale: float, warnings: set[str]
) -> list[PhaseResult]:
    """The mean of some rows as a phase; none if no data moved."""
    counts = [_mean(rows, name) for name in layout["iops"]]
    iops, rate = sum(counts), sum(_mean(rows, name) for name in layout["rate"])
    bytes_per_s = rate * layout["rate_bytes"]
    first = rows[0]
    warnings |= {
        text
        for where, text in layout["warn"].items()
        if first.get(where.partition("=")[0]) == where.partition("=")[2]
    }
    ways = layout.get("ways")
    if ways and first[layout["label"]] not in ways:
        return []
    if not iops or not bytes_per_s:
        warnings.add(f"{label} moved no data")
        return []
    if ways:
        reads = float(ways[first[layout["label"]]])
    else:
        reads = _mean(rows, layout["reads"]) if "reads" in layout else 100 * counts[0] / iops
    times = [_mean(rows, name) for name in layout["latency"]]
    spent = sum(time * count for time, count in zip(times, counts, strict=True)) / iops
    depth = math.prod(int(_mean(rows, name) or 1) for name in layout.get("depth", ()))
    seconds = _mean(rows, layout["seconds"]) * layout["seconds_unit"] if "seconds" in layout else 0
    block = _mean(rows, layout["block"]) if "block" in layout else bytes_per_s / iops
    is_random = "random" in layout and _mean(rows, layout["random"]) >= layout["random_if"]
    unknown = () if seconds else ("duration_s",)
    workload = Workload(
        pattern="random" if is_random else "sequential",
        read_percent=round(reads),
        block_bytes=max(1, round(block / SECTOR)) * SECTOR,
        queue_depth=depth,
        duration_s=seconds * time_scale or 1.0,
        unknown=unknown if "depth" in layout else (*unknown, "pattern", "queue_depth"),
    )
    return [
        rates_only(
            label,
            workload,
            mb_per_s=bytes_per_s / 1e6 / time_scale,
            iops=iops / time_scale,
            latency_us=spent * layout["latency_us"] * time_scale or None,
            duration_s=seconds * time_scale,
        )
    ]


def _mean(rows: list[Row], name: str) -> float:
    """Mean of a column; an empty cell is 0. Raises ValueError for another text."""
    cells = [row[name] or "0" for row in rows]
    for cell in cells:
        if not _NUMBER.fullmatch(cell):
            raise ValueError(f"{name} is {printable(cell[:40])}")
    return sum(float(cell.replace(",", ".")) for cell in cells) / len(cells)
