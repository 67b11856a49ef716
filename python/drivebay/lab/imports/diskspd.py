"""diskspd's XML (-Rxml): one phase per time span.

Sources: ResultParser and XmlResultParser of DISKSPD 2.0 to 2.2. Counts and bytes are those of the
threads' targets; block size, share of writes and depth those of the profile's targets.

Leaves out: percentiles of reads and writes together, which the XML lists for each alone.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from drivebay.definitions.suites import Workload
from drivebay.lab.fio_import.jobs import PERCENTILES
from drivebay.lab.imports import named, xml_of
from drivebay.results.foreign import ImportedFile, rates_only
from drivebay.results.records import PhaseResult
from drivebay.targets.fio.figures import Unreadable, is_possible

UNCACHED = ("DisableAllCache", "DisableOSCache", "WriteThrough")
SECTOR = 512


def read(path: Path, time_scale: float = 1.0) -> ImportedFile:
    """Reads the XML of one run. Raises UserError if it is no XML of diskspd; Unreadable for an
    impossible figure."""
    root = xml_of(path, "Results", named("diskspd"))
    warnings: set[str] = set()
    targets = root.findall("./Profile/TimeSpans/TimeSpan/Targets/Target")
    phases = [
        _phase(f"span-{number}", span, targets, time_scale, warnings)
        for number, span in enumerate(root.findall("./TimeSpan"), 1)
    ]
    return ImportedFile(
        path,
        version=f"diskspd {root.findtext('./System/Tool/Version', '').strip()}".strip(),
        method="Imported from diskspd's XML.",
        phases=phases,
        warnings=sorted(warnings),
        device=root.findtext(".//Target/Path") or path.stem,
    )


def _known(node: ElementTree.Element, place: str) -> float | None:
    """A figure below a node; None if it is missing. Raises Unreadable."""
    text = node.findtext(place)
    try:
        value = None if text is None else float(text)
    except ValueError:
        value = -1.0
    if value is None or is_possible(value):
        return value
    raise Unreadable(f"{place}: {text!r} is not allowed; must be a number, 0 or more")


def _phase(
    label: str,
    span: ElementTree.Element,
    targets: list[ElementTree.Element],
    time_scale: float,
    warnings: set[str],
) -> PhaseResult:
    """A time span as a phase."""
    seconds, done = _known(span, "TestTimeSeconds") or 0.0, span.findall("./Thread/Target")

    def total(tag: str) -> float:
        return sum(_known(one, tag) or 0.0 for one in done)

    ios, moved = total("IOCount"), total("BytesCount")
    if not (seconds and ios and moved):
        raise Unreadable(f"{label} moved no data")
    mean, read_mean, write_mean = (
        _known(span, f"./Latency/Average{way}Milliseconds") for way in ("Total", "Read", "Write")
    )
    counted = any(one.find("ReadCount") is not None for one in done)
    if not counted and (read_mean is None) == (write_mean is None):
        raise Unreadable(f"{label} has no share of reads (ReadCount)")
    reads = total("ReadCount") if counted else ios * (write_mean is None)
    if mean is None:
        mean = read_mean if reads >= ios else None if reads else write_mean
    depth = sum(
        (_known(one, "RequestCount") or 1) * (_known(one, "ThreadsPerFile") or 1) for one in targets
    )
    buffered = [one for one in targets if not any(one.find(tag) is not None for tag in UNCACHED)]
    if buffered:
        warnings.add("the system's cache was on (without -Sh): it was in the way")
    is_random = any(one.find("Random") is not None for one in targets)
    workload = Workload(
        pattern="random" if is_random else "sequential",
        read_percent=round(100 * min(1.0, reads / ios)),
        block_bytes=max(1, round(moved / ios / SECTOR)) * SECTOR,
        queue_depth=max(1, int(depth)),
        duration_s=seconds * time_scale,
        unknown=() if targets else ("pattern", "queue_depth"),
    )
    made = rates_only(
        label,
        workload,
        mb_per_s=moved / 1e6 / seconds / time_scale,
        iops=ios / seconds / time_scale,
        latency_us=None if mean is None else 1000 * mean * time_scale,
    )
    for bucket in span.findall("./Latency/Bucket"):
        name, slow = _known(bucket, "Percentile"), _known(bucket, "TotalMilliseconds")
        if name in PERCENTILES and slow is not None:
            made.metrics[f"latency_us_p{name:g}"] = 1000 * slow * time_scale
    return made
