"""fio's usual text output, read as one phase per job.

The text is turned into the document that fio would write as JSON, as far as it has its figures, and
the reader of that JSON does the rest: clones of a job are one phase, and what options say of a load
holds where the counts do not contradict it. Sources: `show_thread_status_normal` of fio's stat.c
from 2.0 to 3.40, and output of 3.33. In fio 2 "KB" is 1,024 bytes.

Percentiles are a list, not a distribution: they are metrics ("read_clat_usec_p99"), in fio's words
and units, and so are minimum, maximum, mean and deviation of slat, clat and lat. There is no
histogram. Without the line "NAME: (g=0): rw=..." pattern and queue depth are not known.

Leaves out: shares of latencies below 10 ms ("lat (usec): 50=0.19%"), too coarse for percentiles;
"bw" and "iops" lines, whose samples are of half a second, and "Disk stats", but for `documents_of`;
lines that a mail program has wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drivebay.common.documents import printable
from drivebay.definitions.fio_options import lacking
from drivebay.lab.fio_import.importer import imported, phase
from drivebay.lab.fio_import.jobs import ALIASES, Job, jobs_of
from drivebay.lab.fio_import.load import workload_of
from drivebay.lab.imports import named, text_of
from drivebay.results.foreign import ImportedFile
from drivebay.results.records import PhaseResult
from drivebay.targets.fio.figures import Part, Unreadable

WAYS = ("read", "write", "trim")
MIXED = ("rw", "readwrite", "randrw")
NS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}
# By how much the bytes that fio rounds may differ from I/Os times block size.
BLOCK_WITHIN = 0.01

_N = r"\s*(\d{1,17}(?:\.\d{1,9})?[kKMG]?)"
_HEADER = re.compile(
    r"(?P<name>.{1,200}?): \(g=(?P<group>\d{1,6})\): rw=(?P<rw>[\w:]{1,40}), "
    r"bs=(?P<bs>.{1,200}?), ioengine=(?P<ioengine>[^\s,]{1,80}), iodepth=(?P<iodepth>\d{1,9})$"
)
_BLOCK = re.compile(
    r"(?P<name>.{1,200}?): \(groupid=(?P<group>\d{1,6}), jobs=(?P<jobs>\d{1,4})\): "
    r"err=\s*-?(?P<error>\d{1,6}).{0,500}?: pid=(?P<pid>\d{1,12})(?:: (?P<time>.{1,60}))?$"
)
_SIDE = re.compile(
    rf"\s*(read|write|trim|mixed)\s*: IOPS=(?P<iops>{_N}), BW=[^(]{{1,40}}\([^)]{{1,40}}\)"
    r"\((?P<size>\d{1,9}(?:\.\d{1,6})?)(?P<unit>(?:[kKMGTP]i?)?B)/(?P<ms>\d{1,12})msec\)"
)
_SIDE_2 = re.compile(
    r"\s*(read|write|trim|mixed)\s*: io=\s*(?P<size>\d{1,12}(?:\.\d{1,6})?)(?P<unit>[KMGTP]?B)?, "
    rf"bw=[^,]{{1,40}}, iops=(?P<iops>{_N})\s*, runt=\s*(?P<ms>\d{{1,12}})\s*msec"
)
_LATENCY = re.compile(
    rf"\s*(slat|clat|lat) \((nsec|usec|msec|sec)\)\s*: min={_N}, max={_N}, avg={_N}, stdev={_N}"
)
_PERCENTILES = re.compile(r"\s*(slat|clat|lat) percentiles \((nsec|usec|msec)\):")
_PERCENTILE = re.compile(r"(\d{1,3}\.\d{1,6})th=\[\s*(\d{1,15})\]")
_ISSUED = re.compile(r"\s*issued rwts?\s*: total=(\d{1,30}),(\d{1,30}),(\d{1,30})")
_ISSUED_2 = re.compile(r"\s*issued\s*: total=r=(\d{1,30})/w=(\d{1,30})/d=(\d{1,30})")
# Lines that have to be read.
_FIGURES = re.compile(r"\s*((read|write|trim|mixed)\s*: (io|IOPS)=|issued[ \w]*: total=)")
_SHARES = re.compile(r"\s*lat \((nsec|usec|msec)\)\s*: (.{1,300})")
_DEPTHS = re.compile(r"\s*IO depths\s*: (.{1,200})")
_BANDWIDTH = re.compile(
    rf"\s*bw \(.{{1,12}}\)\s*: min={_N}, max={_N}, per=.{{1,12}}%, avg={_N}, stdev={_N}"
    r"(?:, samples=(\d{1,9}))?"
)
_CPU = re.compile(r"\s*cpu\s*: usr=(\d{1,9}\.\d{1,3})%, sys=(\d{1,9}\.\d{1,3})%, ctx=(\d{1,15})")
_DISK = re.compile(
    r"\s+(\S{1,80}): ios=(\d{1,17})/(\d{1,17}), "
    r"(?:sectors=[\d/]{3,40}, )?merge=(\d{1,17})/(\d{1,17})"
)
_COUNTED = ("read_ios", "write_ios", "read_merges", "write_merges")
_COMMAND = re.compile(r"(?:^|[\s/#$`])fio((?: +\S{1,300}){1,80})")
_OPTION = re.compile(r"--([a-z_]{2,40})(?:[= ]\s*([^\s-]\S{0,299}))?")
_JOB_FILE = re.compile(r"([a-z_]{2,40})\s?=\s?(\S{1,300})")
_LAYOUT = re.compile(
    r"\S.{0,199}: Laying out IO files?(?:\(s\))? \(.{1,30}/ (\d{1,12}[KMGT]?)i?B\)"
)
# Time of one of fio's samples of bandwidth; before 3.0 it does not tell their number.
SAMPLE_MS = 500
_SIZES = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([KMG]?)i?B?-(\d{1,9}(?:\.\d{1,6})?)([KMG]?)i?B?")
_VERSION = re.compile(r"(fio-\d[\w.-]{0,40})")


@dataclass
class Block:
    """The lines of a job: `entry` is what fio's JSON would have, `figures` are those besides."""

    name: str
    group: int
    jobs: int
    entry: dict[str, Any]
    figures: dict[str, float] = field(default_factory=dict)


@dataclass
class Run:
    """One run of fio: the loads that it announces, by job and group, and the jobs' results.
    `told` are the options of the command line or job file before it, `disks` have the I/Os that
    the system counted."""

    version: str = "fio"
    time: str | None = None
    headers: dict[tuple[str, int], list[dict[str, str]]] = field(default_factory=dict)
    blocks: dict[tuple[str, str, int, str], Block] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    disks: list[dict[str, Any]] = field(default_factory=list)


def read(path: Path, time_scale: float = 1.0) -> ImportedFile:
    """Reads the text of one or several runs; of a job that is printed several times
    (--status-interval) the last counts. Raises Unreadable for an impossible figure."""
    runs = _runs(text_of(path, named("fio-text").again))
    jobs: list[Job] = []
    phases: list[PhaseResult] = []
    for number, run in enumerate(runs):
        blocks = list(run.blocks.values())
        entries = [_entry(block, run) for block in blocks]
        for job in jobs_of(Part({"jobs": entries}), time_scale=time_scale):
            job.warnings.add("the text has no logs: nothing is known of single seconds")
            if job.options_hold:
                job.warnings |= set(lacking(job.options))
            made = phase(job, workload_of(job))
            same = [block for block in blocks if (block.name, block.group) == (job.name, job.group)]
            figures = same[0].figures if len(same) == 1 else {}
            scaled = {name: value * time_scale for name, value in figures.items()}
            phases.append(replace(made, metrics={**made.metrics, **scaled}))
            job.group += number * 10**6
            jobs.append(job)
    document = {"fio version": runs[-1].version, "time": runs[0].time}
    return imported(path, document, jobs, phases)


def documents_of(path: Path) -> Iterator[tuple[dict[str, Any], bool]]:
    """The document that fio would write as JSON for each run of a text, and True if its command
    line is in the text, so that all options are known."""
    for run in _runs(text_of(path, named("fio-text").again)):
        entries = [_entry(block, run) for block in run.blocks.values()]
        loads = [load for header in run.headers.values() for load in header]
        fits = len(run.headers) == 1 and all(
            run.told.get("rw", load["rw"]) == load["rw"] for load in loads
        )
        for entry in entries if fits else []:
            if entry["job options"]:
                entry["job options"] = {**run.told, **entry["job options"]}
        document = {"fio version": run.version, "jobs": entries, "disk_util": run.disks}
        yield document, fits and "rw" in run.told


def _told(line: str) -> dict[str, str] | None:
    """Options of fio's command line in a line; none if it has several jobs or a job file; None if
    it is no command line."""
    command = _COMMAND.search(line)
    options = _OPTION.findall(command[1]) if command else []
    if not options:
        return None
    told = {ALIASES.get(name, name): value.strip("\"'") or "1" for name, value in options}
    return told if "rw" in told and sum(name == "name" for name, _ in options) < 2 else {}


def _runs(text: str) -> list[Run]:
    """The runs in a text. A run begins with the loads that it announces, or its version. Raises
    Unreadable for fio's manual, which has an example of an output."""
    if "\n.. option:: " in text:
        raise Unreadable("this is a manual, not the output of a run")
    runs, block, way, listed = [Run()], None, "", ""
    told: dict[str, str] | None = None
    for whole in text.replace("\xa0", " ").replace("\\\n", " ").split("\n"):
        line = re.sub(r"^(> ?){1,9}|^<[^<>]{1,80}> ", "", whole).rstrip()
        command = _told(line)
        told = told if command is None else command
        if option := _JOB_FILE.fullmatch(line):
            told = {**(told or {}), ALIASES.get(option[1], option[1]): option[2]}
        begins = _HEADER.match(line) or _VERSION.fullmatch(line)
        # A load after the version belongs to the next run: this one was stopped without a result.
        is_stopped = begins and begins.re is _HEADER and runs[-1].version != "fio"
        if begins and (runs[-1].blocks or is_stopped):
            runs = [*(run for run in runs if run.blocks), Run()]
            block = None
        run = runs[-1]
        if begins and told is not None:
            run.told, told = {**told, **run.told}, None
        if laid := _LAYOUT.match(line):
            run.told.setdefault("size", laid[1])
        if begins and begins.re is _VERSION:
            run.version = begins[1]
        elif begins:
            load = {key: begins[key] for key in ("rw", "bs", "ioengine", "iodepth")}
            key = printable(begins["name"]), int(begins["group"])
            run.headers.setdefault(key, []).append(load)
        elif begins := _BLOCK.match(line):
            group, name = int(begins["group"]), printable(begins["name"])
            error = {"jobname": name, "groupid": group, "error": int(begins["error"])}
            block = Block(name, group, int(begins["jobs"]), error)
            host = whole.partition(">")[0] if whole.startswith("<") else ""
            run.blocks[host, name, group, begins["pid"]] = block
            run.time = run.time or begins["time"]
            way = ""
        elif found := _DISK.match(line):
            counts = zip(_COUNTED, map(int, found.groups()[1:]), strict=True)
            run.disks.append({"name": found[1], **dict(counts)})
        elif block is not None:
            way, listed = _take(block, line, way, listed)
    return runs


def _take(block: Block, line: str, way: str, listed: str) -> tuple[str, str]:
    """Takes in a line of a job. Returns the direction that following lines are of, and of which
    latency the following percentiles are."""
    entry = block.entry
    if found := _SIDE.match(line) or _SIDE_2.match(line):
        way = found[1]
        base = 1000 if found.re is _SIDE and "i" not in found["unit"] else 1024
        power = "BKMGTP".index((found["unit"] or "B")[0].upper())
        entry[way] = {
            "io_bytes": round(float(found["size"]) * base**power),
            "io_kbytes": 1,
            "iops": _number(found["iops"]),
            "runtime": int(found["ms"]),
        }
    elif found := _LATENCY.match(line):
        if way:
            kind, unit = found[1], found[2]
            for name, text in zip(("min", "max", "avg", "stdev"), found.groups()[2:], strict=True):
                block.figures[f"{way}_{kind}_{unit}_{name}"] = _number(text)
            entry[way][f"{kind}_ns"] = {"mean": _number(found[5]) * NS[unit]}
    elif found := _PERCENTILES.match(line):
        return way, f"{way}_{found[1]}_{found[2]}" if way else ""
    elif listed and line.lstrip().startswith("|"):
        for percent, value in _PERCENTILE.findall(line):
            block.figures[f"{listed}_p{float(percent):g}"] = float(value)
            _, kind, unit = listed.split("_")
            latency = entry[way].setdefault(f"{kind}_ns", {})
            latency.setdefault("percentile", {})[percent] = round(float(value) * NS[unit])
        return way, listed
    elif line.lstrip().startswith("fsync/fdatasync"):
        way = ""
    elif found := _ISSUED.match(line) or _ISSUED_2.match(line):
        for side, count in zip(WAYS, found.groups(), strict=True):
            entry.setdefault(side, {})["total_ios"] = int(count)
    elif _FIGURES.match(line):
        raise Unreadable(f"a line of job {block.name}: {line.strip()[:60]}")
    elif found := _SHARES.match(line):
        shares = re.findall(r"(>=2000|\d{1,4})=(\d{1,3}(?:\.\d{1,9})?)%", found[2])
        known = {level: float(share) for level, share in shares if found[1] == "msec"}
        entry["latency_ms"] = {"2": 0.0, **entry.get("latency_ms", {}), **known}
    elif way and (found := _BANDWIDTH.match(line)):
        keys = ("bw_min", "bw_max", "bw_mean", "bw_dev")
        rates = zip(keys, map(_number, found.groups()[:4]), strict=True)
        number = int(found[5] or entry[way]["runtime"] // SAMPLE_MS)
        entry[way] |= {**dict(rates), "bw_samples": number}
    elif found := _CPU.match(line):
        entry |= {"usr_cpu": float(found[1]), "sys_cpu": float(found[2]), "ctx": int(found[3])}
    elif found := _DEPTHS.match(line):
        levels = re.findall(r"(>=64|\d{1,2})=\s*(\d{1,3}(?:\.\d)?)%", found[1])
        entry["iodepth_level"] = {level: float(share) for level, share in levels}
    return way, ""


def _number(text: str) -> float:
    """A number with a decimal suffix.

    >>> _number(" 16.4k")
    16400.0
    """
    return float(text.rstrip("kKMG")) * 1000.0 ** " KMG".index(
        text[-1:].upper().strip("0123456789") or " "
    )


def _entry(block: Block, run: Run) -> dict[str, Any]:
    """The job as in fio's JSON, with the options of its load if they are those of all threads."""
    group = {name for name, number in run.headers if number == block.group}
    headers = run.headers.get((block.name, block.group), [])
    alone = sum(other.group == block.group for other in run.blocks.values()) == 1
    entry = {**block.entry, "job options": {}}
    if not headers or any(load != headers[0] for load in headers) or (alone and len(group) > 1):
        return entry
    more = {"numjobs": str(block.jobs)} if block.jobs > 1 else {}
    more |= {"rwmixread": "(not told)"} if headers[0]["rw"].partition(":")[0] in MIXED else {}
    entry["job options"] = {**headers[0], **more}
    sizes = [
        (float(low) * 1024 ** " KMG".index(unit or " "), (low, unit) == (high, same))
        for low, unit, high, same in _SIZES.findall(headers[0]["bs"])
    ]
    for side, (size, fixed) in zip(WAYS, sizes, strict=False):
        figures = entry.get(side, {})
        exact = round(size * figures.get("total_ios", 0))
        moved = figures.get("io_bytes", 0)
        if fixed and abs(exact - moved) <= BLOCK_WITHIN * moved:
            entry[side] = {**figures, "io_bytes": exact}
    return entry
