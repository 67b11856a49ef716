"""AS SSD's text (Edit > Copy), read as one phase per row.

Source: two texts of version 2.0 in public repositories. 1 MB/s is 1,048,576 bytes/s, as the text in
MB/s and that in iops of one run show; sequential requests have 16 MiB.

Leaves out: access times, as the size of their requests is not known; scores; other languages than
English. Extent and length of a run are not told.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from drivebay.common.documents import printable
from drivebay.common.errors import UserError
from drivebay.definitions.suites import Workload
from drivebay.lab.imports import named, text_of
from drivebay.results.foreign import ImportedFile, rates_only

MIB = 2**20
_SEQUENTIAL = {"pattern": "sequential", "block_bytes": 16 * MIB, "queue_depth": 1}
_RANDOM = {"pattern": "random", "block_bytes": 4096, "queue_depth": 1}
LOADS: dict[str, dict[str, Any]] = {
    "Sequential": _SEQUENTIAL,
    "16MB": _SEQUENTIAL,
    "4K": _RANDOM,
    "4K-64Threads": {**_RANDOM, "queue_depth": 64},
}
_SECTION = re.compile(r"([\w-]{1,20}(?: Times)?):?")
_ROW = re.compile(r"(Read|Write): (\d{1,9}(?:[.,]\d{1,6})?) (MB/s|iops)")
_FIELD = re.compile(r"(?m)^\W{0,4}(AS SSD Benchmark|Name:|Date:) (\S.*)")


def read(path: Path, time_scale: float = 1.0) -> ImportedFile:
    """Reads the text of one result. Raises UserError if a row cannot be read, or none was run."""
    importer, shown = named("as-ssd"), printable(str(path))
    text = text_of(path, importer.again)
    found = _FIELD.findall(text)
    if sum(name == "AS SSD Benchmark" for name, _ in found) > 1:
        raise UserError(f"{shown} holds several results", "save each in a file of its own")
    fields = {name: printable(value) for name, value in found}
    warnings = {"I/Os are not counted: only rates are known", "access times are left out"}
    phases, section = [], ""
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole.strip("> \t")
        row = _ROW.fullmatch(line) if section in LOADS else None
        if section in LOADS and row is None and line.startswith(("Read", "Write")):
            raise UserError(f"{shown}: line {number} cannot be read: {line[:60]}", importer.again)
        if row is None:
            section = begin[1] if (begin := _SECTION.fullmatch(line)) else section
            continue
        rate, label = float(row[2].replace(",", ".")), f"{section} {row[1].lower()}"
        if not rate:
            warnings.add(f"{label} was not run")
            continue
        load = {**LOADS[section], "read_percent": 100 * (row[1] == "Read")}
        moved = rate * (load["block_bytes"] if row[3] == "iops" else MIB) / time_scale
        made = Workload(**load, duration_s=1.0, unknown=("duration_s",))
        iops = moved / made.block_bytes
        phases.append(rates_only(label, made, mb_per_s=moved / 1e6, iops=iops))
    if not phases:
        raise UserError(f"{shown} has no row that was run", importer.again)
    return ImportedFile(
        path,
        version=f"AS SSD Benchmark {fields.get('AS SSD Benchmark', '')}".strip(),
        method="Imported from AS SSD's text.",
        phases=phases,
        warnings=sorted(warnings),
        device=fields.get("Name:", printable(path.stem)),
        time=fields.get("Date:"),
    )
