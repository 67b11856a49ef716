"""Phoronix Test Suite's result XML (composite.xml): one phase per load of its fio test.

Source: result files of PTS 10 and the test profile pts/fio. Results in IOPS and in MB/s of one
description are one phase; a rate in MB/s is of 1,048,576 bytes, as fio's MiB/s. The value is the
mean of several runs.

Leaves out: other tests than fio, and systems of the file but the first. Latencies and queue depth
are not reported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from drivebay.common.documents import printable
from drivebay.definitions.fio_options import number_of
from drivebay.definitions.suites import Workload
from drivebay.lab.imports import named, xml_of
from drivebay.results.foreign import ImportedFile, rates_only
from drivebay.targets.fio.figures import Unreadable, is_possible

MIB = 2**20
RATES = {"IOPS": 1.0, "MB/s": MIB}


def read(path: Path, time_scale: float = 1.0) -> ImportedFile:
    """Reads a result file. Raises UserError if it is damaged; Unreadable for an impossible
    figure."""
    root = xml_of(path, "PhoronixTestSuite", named("phoronix"))
    loads: dict[str, dict[str, float]] = defaultdict(dict)
    for result in root.findall("./Result"):
        scale, value = result.findtext("Scale", ""), result.findtext("./Data/Entry/Value", "")
        if scale in RATES and "fio" in result.findtext("Identifier", ""):
            if not re.fullmatch(r"\d{1,12}(\.\d{1,9})?", value) or not is_possible(float(value)):
                raise Unreadable(f"a value of {value[:40]!r} is not allowed; must be a rate")
            loads[result.findtext("Description", "")][scale] = float(value)
    warnings = {"queue depth and latencies are not reported"}
    if root.find("./Result/Data/Entry[2]") is not None:
        warnings.add("only the first of several systems is read")
    phases = []
    for description, rates in loads.items():
        told = dict(part.split(": ", 1) for part in description.split(" - ") if ": " in part)
        kind = told.get("Type", "").lower()
        block = number_of(told.get("Block Size", "").replace("B", ""))
        if not block or not ("read" in kind) ^ ("write" in kind) or not any(rates.values()):
            warnings.add(f"{printable(description)} is left out: its load is not known")
            continue
        if told.get("Buffered") == "Yes" or told.get("Direct") == "No":
            warnings.add("a load was buffered: the page cache was in the way")
        workload = Workload(
            pattern="random" if "rand" in kind else "sequential",
            read_percent=100 if "read" in kind else 0,
            block_bytes=block,
            queue_depth=1,
            duration_s=1.0,
            unknown=("queue_depth", "duration_s"),
        )
        moved = rates.get("MB/s", 0) * MIB or rates["IOPS"] * block
        made = rates_only(
            f"{kind} {told.get('Engine', '')} {told['Block Size']}",
            workload,
            mb_per_s=moved / 1e6 / time_scale,
            iops=rates.get("IOPS", 0) / time_scale or None,
        )
        phases.append(made)
    return ImportedFile(
        path,
        version=f"Phoronix Test Suite {root.findtext('./Generated/TestClient', '')}".strip(),
        method="Imported from a result file of the Phoronix Test Suite.",
        phases=phases,
        warnings=sorted(warnings),
        device=root.findtext("./System/Identifier") or path.stem,
    )
