"""CrystalDiskMark's text, as it is copied or saved, read as one phase per row.

Sources: `ResultText` of CrystalDiskMark 3 to 8 and `combineOutputTestResult` of KDiskMark 1 to 3,
which has the same form. 3 has queue depth "QD"; from 4 on Q requests are outstanding in each of T
threads. Rates are those of the fastest of so many runs ("x5"), 1 MB/s is 1,000,000 bytes/s; "KB" of
a block is 1,024 bytes. A row without a size has blocks of 1 MiB, but of 128 KiB in 5 and 6 if it
has a "Q" (DiskBench.cpp of 5.1.2).

Leaves out: rows of 0.000 MB/s, which were not run, and rows whose block size is not known. The size
of a volume is not the drive's capacity. Before 7 there are no latencies.
"""

from __future__ import annotations

import re
from pathlib import Path

from drivebay.common.documents import printable
from drivebay.common.errors import UserError
from drivebay.definitions.suites import Workload
from drivebay.definitions.suites.parts import Content
from drivebay.lab.imports import named, text_of
from drivebay.results.foreign import ImportedFile, rates_only
from drivebay.results.records import PhaseResult

_NUMBER = r"(\d{1,9}(?:\.\d{1,6})?)"
_ROW = re.compile(
    r"(?P<order>seq|rnd|random)\w*\s+(?:(?P<way>read|write|mix)\s*)?"
    r"(?:(?P<size>\d{1,6})\s*(?P<unit>[KM])i?B\s*)?(?:\((?P<depth>[^()]{1,40})\)\s*)?:\s*"
    rf"{_NUMBER}\s*MB/s(?:\s*\[\s*{_NUMBER}\s*IOPS\s*\])?(?:\s*<\s*{_NUMBER}\s*us\s*>)?",
    re.IGNORECASE,
)
_ORDER = re.compile(r"seq|rnd|random", re.IGNORECASE)
_SECTION = re.compile(r"\[(read|write|mix)\]", re.IGNORECASE)
_PROGRAM = re.compile(r"\b(\w{0,20}DiskMark)\s+\(?(\d{1,3})([\w.]{0,20})")
_FIELD = re.compile(r"(profile|test|mode|time|date|os|target|mix ratio|comment)\s*:\s*(\S.*)", re.I)
_MIX = re.compile(r"Read (\d{1,3})\s*%\s*[/,]\s*Write (\d{1,3})\s*%")
_SIZE = re.compile(r"(\d{1,6})\s*([MG])iB")
_DEVICE = re.compile(r"\[([A-Z]:)|^(/\S*)")
_MEASURED = re.compile(r"measure:?\s*(\d{1,5})\s*(sec|min)", re.IGNORECASE)
# By how much MB/s may differ from IOPS times the block size without a warning.
RATE_WITHIN = 0.01


def read(path: Path, time_scale: float = 1.0) -> ImportedFile:
    """Reads the text of CrystalDiskMark or KDiskMark. Raises UserError if a row cannot be read."""
    importer, shown = named("crystaldiskmark"), printable(str(path))
    text = text_of(path, importer.again)
    programs = list(_PROGRAM.finditer(text))
    if len(programs) > 1:
        raise UserError(f"{shown} holds several results", "save each in a file of its own")
    found = programs[0] if programs else None
    major = int(found[2]) if found and found[1] == "CrystalDiskMark" else None
    version = f"{found[1]} {found[2]}{found[3]}" if found else "CrystalDiskMark"
    fields: dict[str, str] = {}
    warnings = {"I/Os are not counted: rates are known, those of the fastest run of each row"}
    phases, section, mix = [], "", _MIX.search(text)
    lines = [re.sub(r"^[^\w\[]+", "", line).rstrip("|`* \t") for line in text.split("\n")]
    for line in lines:
        if field := _FIELD.fullmatch(line):
            fields.setdefault(field[1].lower(), field[2])
    common = _of_all_rows(fields, time_scale)
    for number, line in enumerate(lines, 1):
        if begin := _SECTION.match(line):
            section = begin[1].lower()
            continue
        row = _ROW.fullmatch(line)
        head, _, rest = line.partition(":")
        if row is None and _ORDER.match(head) and "MB/s" in rest:
            raise UserError(
                f"{shown}: line {number} cannot be read: {printable(line[:60])}", importer.again
            )
        if row is None:
            continue
        way = (row["way"] or section).lower()
        name = " ".join(re.sub(r"\W+", " ", re.sub(r"=\s*", "", head)).split())
        name = name if row["way"] or not way else f"{name} {way}"
        block = _block_bytes(row, major)
        if not way or (way == "mix" and mix is None):
            raise UserError(
                f"{shown}: line {number} does not tell its share of reads", importer.again
            )
        if not float(row[6]):
            warnings.add(f"{name} was not run")
        elif block is None:
            warnings.add(f"{name} is left out, as its block size is not known")
        else:
            reads = {"read": 100, "write": 0}.get(way, int(mix[1]) if mix else 0)
            load = {"read_percent": reads, "block_bytes": block, **common}
            phases.append(_phase(name, row, load, time_scale, warnings))
    device = _DEVICE.search(fields.get("target", fields.get("test", "")))
    return ImportedFile(
        path,
        version=version,
        method="Imported; the text says: "
        + "; ".join(f"{key}: {printable(value)}" for key, value in fields.items()),
        phases=phases,
        warnings=sorted(warnings),
        device=device[0].removeprefix("[") if device else printable(path.stem),
        time=fields.get("date"),
    )


def _of_all_rows(fields: dict[str, str], time_scale: float) -> dict[str, object]:
    """What the loads of all rows have in common: length, extent and content."""
    text = " ".join(fields.values())
    measured, size = _MEASURED.search(text), _SIZE.search(fields.get("test", ""))
    seconds = int(measured[1]) * (60 if measured[2].lower() == "min" else 1) if measured else 0
    return {
        "duration_s": seconds * time_scale or 1.0,
        "unknown": () if seconds else ("duration_s",),
        "span_bytes": int(size[1]) * 1024 ** " KMG".index(size[2]) or None if size else None,
        "content": Content(compressible_percent=100 if "0Fill>" in text else 0),
    }


def _block_bytes(row: re.Match[str], major: int | None) -> int | None:
    """Size of a row's requests; None if it is not known."""
    if row["size"]:
        return int(row["size"]) * (2**20 if row["unit"].upper() == "M" else 2**10)
    if row["order"].lower() != "seq":
        return None
    if "q" not in (row["depth"] or "").lower():
        return 2**20
    return 2**17 if major in (5, 6) else None


def _phase(
    name: str,
    row: re.Match[str],
    load: dict[str, object],
    time_scale: float,
    warnings: set[str],
) -> PhaseResult:
    """A row as a phase."""
    depths = dict(re.findall(r"([QT])D?=\s*(\d{1,6})", row["depth"] or ""))
    workload = Workload.model_validate(
        {
            **load,
            "pattern": "sequential" if row["order"].lower() == "seq" else "random",
            "queue_depth": int(depths.get("Q", 1)) * int(depths.get("T", 1)),
        }
    )
    rate = float(row[6])
    by_rate = rate * 1e6 / workload.block_bytes
    iops = float(row[7]) if row[7] and float(row[7]) else by_rate
    if abs(iops - by_rate) > RATE_WITHIN * iops + 0.1:
        warnings.add(f"{name}: {rate:g} MB/s and {iops:g} IOPS are not of the same block size")
    return rates_only(
        name,
        workload,
        mb_per_s=rate / time_scale,
        iops=iops / time_scale,
        latency_us=float(row[8]) * time_scale if row[8] and float(row[8]) else None,
    )
