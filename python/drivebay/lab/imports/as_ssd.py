"""AS SSD's text (Edit > Copy), read as one phase per row.

Source: two texts of version 2.0 in public repositories. 1 MB/s is 1,048,576 bytes/s, as the text in
MB/s and that in iops of one run show; sequential requests have 16 MiB.

Leaves out: access times, as the size of their requests is not known; scores; other languages than
English. Extent and length of a run are unknown.
"""

from __future__ import annotations

import re
from pathlib import Path

from drivebay.common import documents
from drivebay.common.documents import printable
from drivebay.common.errors import UserError
from drivebay.definitions.suites import Workload
from drivebay.lab.imports import named, text_of
from drivebay.results.foreign import ImportedFile, rates_only

MIB = 2**20
# Loads of the rows, by the names of their sections.
LOADS = documents.beside(__file__, "tables.toml")["as_ssd"]
_SECTION = re.compile(r"(?!Read|Write)([\w-]{1,20}(?: Times)?):?")
_ROW = re.compile(r"(Read|Write): (\d{1,9}(?:[.,]\d{1,6})?) (MB/s|iops)")
_FIELD = re.compile(r"(?m)^\W{0,4}(AS SSD Benchmark|Name:|Date:) (\S.*)")


def read(path: Path, time_scale: float = 1.0) -> ImportedFile:
    """Reads the text of one result. Raises UserError if a row cannot be read."""
    importer, shown = named("as-ssd"), printable(str(path))
    text = text_of(path, importer.again)
    headers = _FIELD.findall(text)
    if sum(name == "AS SSD Benchmark" for name, _ in headers) > 1:
        raise UserError(f"{shown} holds several results", "save each in a file of its own")
    fields = {name: printable(value) for name, value in headers}
    warnings = {"I/Os are not counted: only rates are known", "access times are left out"}
    phases, section = [], ""
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole.strip("> \t")
        section = begin[1] if (begin := _SECTION.fullmatch(line)) else section
        if section not in LOADS or not line.startswith(("Read", "Write")):
            continue
        if not (row := _ROW.fullmatch(line)):
            raise UserError(f"{shown}: line {number} cannot be read: {line[:60]}", importer.again)
        rate, label = float(row[2].replace(",", ".")), f"{section} {row[1].lower()}"
        if not rate:
            warnings.add(f"{label} was not run")
            continue
        load = {**LOADS[section], "read_percent": 100 * (row[1] == "Read")}
        moved = rate * (load["block_bytes"] if row[3] == "iops" else MIB) / time_scale
        made = Workload(**load, duration_s=1.0, unknown=("duration_s",))
        phases.append(rates_only(label, made, mb_per_s=moved / 1e6))
    return ImportedFile(
        path,
        version=f"AS SSD Benchmark {fields.get('AS SSD Benchmark', '')}".strip(),
        method="Imported from AS SSD's text.",
        phases=phases,
        warnings=sorted(warnings),
        device=fields.get("Name:", printable(path.stem)),
        time=fields.get("Date:"),
    )
