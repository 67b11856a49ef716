"""fio's job files as suites: one test, in which each job is a phase.

Jobs between two `stonewall`s run together; the clones of a job (`numjobs`) are submission queues of
a random load, and phases of their own otherwise. The drive is purged, filled and left idle first.

Sources: fio's HOWTO ("Job file format", "Job parameters") and options.c, 3.25 to 3.42. Leaves out:
the page cache, `include`, fio's reserved keywords (`$pagesize`), and each option that changes the
load in a way that a suite lacks: such a file is refused, with the option's name.
"""

from __future__ import annotations

import os
import re
from itertools import chain, count
from typing import Any, NamedTuple

from drivebay.common.errors import UserError
from drivebay.definitions.fio_options import SYNC_OFF, SYNCHRONOUS, TABLE, class_of, number_of

SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Upper bound for jobs that end by their size.
LONGEST_S = 7 * SECONDS["d"]
CLONES_MAX = 16
PREPARE = (
    {"kind": "purge"},
    {"kind": "fill", "if_needed": True},
    {"kind": "rest", "seconds": 1800, "waiting_s": 2},
)
SAME_TIME = (
    "jobs that run at the same time need the same runtime (stonewall runs them one after another)"
)
HINT = "change or remove this option if the load is meant without it"
EXAMPLE = "a job file begins with [global] or [name], and has one option per line: rw=randread"
Phases = list[dict[str, Any]]


class _Refused(ValueError):
    """A job that a suite cannot have; the message says why."""


class _Job(NamedTuple):
    name: str
    options: dict[str, str]

    def number(self, name: str, default: int | None = None) -> int | None:
        """Whole number of an option. Raises _Refused if it is none, or has several values."""
        text = self.options.get(name)
        if text is None:
            return default
        value = None if "," in text.strip(",") else self.size(text.strip(","))
        if value is None:
            raise _Refused(f"{name}={text} is not supported")
        return value

    def size(self, text: str) -> int | None:
        """A number with the suffixes that the job's `kb_base` gives a meaning to."""
        return number_of(text, kb_base=number_of(self.options.get("kb_base", "")) or 1024)

    def seconds(self, name: str, unit: str) -> float | None:
        """Time of an option, whose default unit is `unit`."""
        text = self.options.get(name)
        match = re.fullmatch(r"(\d{1,12})(us|ms|s|m|h|d|)", (text or "").lower())
        if text is not None and match is None:
            raise _Refused(f"{name}={text} is not supported")
        return match and float(match[1]) * SECONDS[match[2] or unit]

    def percent(self, name: str) -> float | None:
        """Share in per cent; None if the option is missing or a number of bytes."""
        match = re.fullmatch(r"(\d{1,3})%", self.options.get(name, ""))
        return match and float(match[1])

    def is_set(self, name: str) -> bool:
        return self.options.get(name, "0") not in ("0", "false")


def suite_of(text: str, *, where: str, name: str) -> dict[str, Any]:
    """Makes a suite's table from a job file's text; `where` names the file in errors, `name` is
    the suite's. Raises UserError if a suite cannot have one of the jobs.
    """
    phases: Phases = []
    lacking: set[str] = set()
    for group in _groups(_jobs(text, where)):
        first = len(phases)
        for job in group:
            try:
                phases += _phases(job, alone=len(group) == 1)
                if len({phase["workload"]["duration_s"] for phase in phases[first:]}) > 1:
                    raise _Refused(SAME_TIME)
            except _Refused as why:
                raise UserError(
                    f"{where}: job {job.name}: {why}",
                    HINT,
                ) from None
            lacking |= {f"{k}={v}" for k, v in job.options.items() if class_of(k, v) == "measured"}
        phases[first]["together"] = False
    used: set[str] = set()
    for phase in phases:
        labels = chain([phase["label"]], map((phase["label"] + "-{}").format, count(2)))
        phase["label"] = next(label for label in labels if label not in used)
        used.add(phase["label"])
    note = f" These options have no effect: {', '.join(sorted(lacking))}." if lacking else ""
    test = {
        "id": "jobs",
        "title": f"fio jobs of {name}",
        "page": "jobs",
        "kind": "loads",
        "method": "The jobs run on a full drive after a rest of half an hour, without the page "
        f"cache. Jobs between two stonewalls run at the same time.{note}",
        "source": f"fio job file {where}",
        "prepare": PREPARE,
        "phases": phases,
        "quick": {"duration_s": 10, "waiting_s": 2},
    }
    description = "The jobs of a fio job file."
    about = {"title": test["title"], "description": description, "source": test["source"]}
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:50].strip("-") or "jobs"
    return {"schema_version": 1, "name": f"fio-{slug}", **about, "tests": [test]}


def _jobs(text: str, where: str) -> list[_Job]:
    """Jobs of a file, each with the options of the global sections before it."""
    common: dict[str, str] = {}
    options: dict[str, str] | None = None
    jobs = []
    for number, whole in enumerate(text.splitlines(), start=1):
        # As parse.c does, a comment begins at any ; or #.
        line = re.split("[;#]", whole)[0].strip()
        section = re.fullmatch(r"\[(.+)\]", line)
        if not line:
            continue
        if section is not None:
            options = common if section[1] == "global" else dict(common)
            if options is not common:
                jobs.append(_Job(section[1], options))
            continue
        key, _, value = (part.strip() for part in line.partition("="))
        if options is None or not re.fullmatch(r"[\w-]+", key):
            raise UserError(f"{where}: line {number} cannot be read: {line[:60]}", EXAMPLE)
        for name in re.findall(r"\$\{(\w+)\}", value):
            if name not in os.environ:
                raise UserError(
                    f"{where}: line {number} needs the environment variable {name}",
                    f"set it before the command: {name}=VALUE drivebay ...",
                )
            value = value.replace(f"${{{name}}}", os.environ[name])
        options[TABLE["aliases"].get(key, key)] = value or "1"
    if not jobs:
        raise UserError(f"{where} has no job", EXAMPLE)
    return jobs


def _groups(jobs: list[_Job]) -> list[list[_Job]]:
    """Jobs that run at the same time."""
    groups: list[list[_Job]] = []
    for job in jobs:
        if not groups or job.is_set("stonewall"):
            groups.append([])
        groups[-1].append(job)
    return groups


def _phases(job: _Job, *, alone: bool) -> Phases:
    """Phases of a job and its clones."""
    for name, value in job.options.items():
        if (
            name not in TABLE["load"]["job_files"] and class_of(name, value) == "load"
        ) or name == "wait_for":
            raise _Refused(f"{name}={value} is not supported")
    clones = job.number("numjobs", 1) or 1
    load = _workload(job)
    one_queue = load["fsync"] or load["thinktime_us"] or load["percentage_random"] < 100
    skewed = not load["offsets"].startswith(("uniform", "permutation"))
    as_queues = load["pattern"] == "random" and not one_queue and not skewed
    own = 1 if as_queues else clones
    if own > CLONES_MAX:
        raise _Refused(f"numjobs={clones} is not supported for this load beyond {CLONES_MAX}")
    if clones > 1 and as_queues:
        load |= {"queues": clones, "offsets": "uniform"}
        for key in ("rate_iops", "rate_mb_per_s"):
            load[key] = load[key] and load[key] * clones
    if clones > 1 and "filename" not in job.options and load["span_bytes"]:
        load["span_bytes"] *= clones if as_queues else 1
    load |= _end(job, alone=alone)
    slug = re.sub(r"[^a-z0-9]+", "-", job.name.lower())[:50].strip("-") or "job"
    return [{"label": slug, "together": True, "workload": dict(load)} for _ in range(own)]


def _workload(job: _Job) -> dict[str, Any]:
    """A suite's workload without its end."""
    kind = job.options.get("rw", "read")
    if kind.removeprefix("rand") not in ("read", "write", "rw"):
        raise _Refused(f"rw={kind} is not supported")
    mix = job.number("rwmixread")
    if mix is None:
        mix = 100 - (job.number("rwmixwrite", 50) or 0)
    reads = {"read": 100, "write": 0, "rw": mix}[kind.removeprefix("rand")]
    is_random = kind.startswith("rand")
    synchronous = job.options.get("ioengine", "psync") in SYNCHRONOUS
    rate, think_s = job.number("rate"), job.seconds("thinktime", "us")
    span_percent, start = job.percent("size"), job.percent("offset")
    if start is None and job.options.get("offset", "0") != "0":
        raise _Refused(f"offset={job.options['offset']} is supported only in per cent")
    syncs = 1 if job.options.get("sync", "0") not in SYNC_OFF else None
    syncs = syncs or job.number("fsync") or job.number("fdatasync") or None
    sizes = _sizes(job)
    if (align := job.number("ba")) not in (None, sizes["block_bytes"]):
        if "block_bytes_max" in sizes:
            raise _Refused(f"blockalign={job.options['ba']} is supported only as the smallest size")
        sizes = {"bssplit": f"{sizes['block_bytes']}/100", **sizes, "block_bytes": align}
    return {
        "pattern": "random" if is_random else "sequential",
        "offsets": _offsets(job, sizes) if is_random else "uniform",
        "percentage_random": job.number("percentage_random", 100) if is_random else 100,
        "read_percent": reads,
        **sizes,
        "queue_depth": 1 if synchronous else job.number("iodepth", 1),
        "fsync": syncs if reads < 100 else None,
        "rate_iops": job.number("rate_iops") or None,
        "rate_mb_per_s": rate and rate / 1e6,
        "rate_process": job.options.get("rate_process", "linear"),
        "thinktime_us": think_s and round(think_s * 1e6),
        "thinktime_blocks": job.number("thinktime_blocks", 1) if think_s else 1,
        "span_percent": span_percent or 100.0,
        "span_start_percent": start or 0.0,
        "span_bytes": None if span_percent else job.number("size", job.number("filesize")),
    }


def _sizes(job: _Job) -> dict[str, Any]:
    """Sizes of the requests."""
    if split := job.options.get("bssplit"):
        parts = [part.partition("/") for part in split.split(":")]
        sizes = [job.size(size) for size, _, percent in parts if percent.isdecimal()]
        if len(sizes) < len(parts) or None in sizes:
            raise _Refused(f"bssplit={split} is not supported: each size needs a share")
        shares = zip(sizes, parts, strict=True)
        split = ":".join(f"{size}/{percent}" for size, (_, _, percent) in shares)
        return {"block_bytes": min(filter(None, sizes)), "bssplit": split}
    if span := job.options.get("bsrange"):
        low, high = (job.size(part) for part in (span.partition("-")[0], span.partition("-")[2]))
        if not low or not high or "," in span:
            raise _Refused(f"bsrange={span} is not supported")
        return {"block_bytes": low, **({"block_bytes_max": high} if high > low else {})}
    return {"block_bytes": job.number("bs", 4096)}


def _offsets(job: _Job, sizes: dict[str, Any]) -> str:
    """Distribution of random addresses."""
    skew = job.options.get("random_distribution", "random")
    if skew.startswith("zoned:"):
        return _zoned(skew)
    if skew != "random":
        return skew
    drawn = job.is_set("norandommap") or "bssplit" in sizes or "bsrange" in job.options
    share = job.number("percentage_random", 100)
    lfsr = "-repeated" * (job.options.get("random_generator") == "lfsr")
    return "uniform" if drawn or share != 100 else f"permutation{lfsr}"


def _zoned(text: str) -> str:
    """Zones with all their sizes: fio shares the rest of the span among zones without a size."""
    zones = [zone.partition("/")[::2] for zone in text.removeprefix("zoned:").split(":")]
    sizes = [number_of(size) for _, size in zones]
    rest = 100 - sum(filter(None, sizes))
    shares = [f"{access}/{size or rest // sizes.count(None)}" for access, size in zones]
    return "zoned:" + ":".join(shares)


def _end(job: _Job, *, alone: bool) -> dict[str, Any]:
    """End of a job; jobs that run at the same time have the same runtime."""
    runtime_s = job.seconds("runtime", "s")
    if not alone and not runtime_s:
        raise _Refused(SAME_TIME)
    if not alone or (runtime_s and job.is_set("time_based")):
        return {"duration_s": runtime_s}
    moved = job.number("io_size")
    return {"duration_s": runtime_s or LONGEST_S, **({"bytes": moved} if moved else {"once": True})}
