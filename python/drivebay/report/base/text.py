"""Numbers, workloads and preparations as text.

Numbers have at most four significant digits, a comma as thousands separator, and a no-break space
before the unit.
"""

from __future__ import annotations

import math
import re
import tomllib
from importlib import resources
from typing import Any

from drivebay.common import units
from drivebay.definitions import suites
from drivebay.definitions.suites import Phase, Prepare, Test, Workload

GAP = "\N{NO-BREAK SPACE}"
DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def asset_table(name: str) -> dict[str, dict[str, Any]]:
    """Tables of a TOML file in `assets`."""
    path = resources.files("drivebay.report") / "assets" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def number(value: float | None) -> str:
    """Number with at most four significant digits; whole numbers stay whole.

    >>> number(7778.685), number(108.1), number(0.1369), number(12), number(None)
    ('7,779', '108.1', '0.137', '12', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    size = abs(value)
    if value == round(value) or size >= 1000:
        text = f"{value:,.0f}"
    elif size >= 100:
        text = f"{value:.1f}"
    elif size >= 10:
        text = f"{value:.2f}"
    else:
        text = f"{value:.3g}"
    return text.replace("-", MINUS)


def inside(label: str) -> str:
    """Label for use inside a sentence: lower case, except for acronyms and names.

    >>> inside("Data rate"), inside("IOPS at QD 32"), inside("Storage Bench, Light")
    ('data rate', 'IOPS at QD 32', 'Storage Bench, Light')
    """
    named = re.match(r"\w+ [A-Z][a-z]", label) and not label.startswith("The ")
    return label if named or not label[1:2].islower() else label[:1].lower() + label[1:]


def quantity(value: float | None, unit: str) -> str:
    """Number with its unit.

    >>> quantity(75.0, "MB/s")
    '75\\xa0MB/s'
    """
    return number(value) + (GAP + unit if unit and value is not None else "")


def percent(value: float) -> str:
    """Signed error in percent.

    >>> percent(3.71), percent(-0.04)
    ('+3.7\\xa0%', '0.0\\xa0%')
    """
    rounded = round(value, 1)
    sign = "+" if rounded > 0 else MINUS if rounded < 0 else ""
    return f"{sign}{abs(rounded):.1f}{GAP}%"


def latency(us: float | None) -> str:
    """Latency in microseconds or milliseconds, depending on its size.

    >>> latency(87.84), latency(2943.0)
    ('87.84\\xa0µs', '2.94\\xa0ms')
    """
    if us is not None and us >= 1000:
        return quantity(us / 1000, "ms")
    return quantity(us, "µs")


def load(workload: Workload) -> str:
    """Workload as text.

    >>> load(Workload(pattern="random", read_percent=0, block_bytes=4096, queue_depth=32,
    ...               duration_s=3600))
    '4 KiB random write, queue depth 32, whole drive, 1 h 0 min'
    """
    length = units.duration(workload.duration_s)
    if "duration_s" in workload.unknown:
        length = "length not known"
    if workload.until_stable is not None:
        length = f"until stable, at most {length}"
    if workload.until_written_percent is not None:
        length = (
            f"until {workload.until_written_percent} % of the capacity is written, at most {length}"
        )
    if workload.once:
        length = f"one pass, at most {length}"
    size = units.binary_bytes(workload.block_bytes)
    if workload.block_bytes_max is not None:
        size = f"{size} to {units.binary_bytes(workload.block_bytes_max)}"
    if workload.bssplit:
        split = suites.shares_of(workload.bssplit)
        size = ", ".join(f"{percent} % {units.binary_bytes(bytes)}" for bytes, percent in split)
    if workload.rate_iops is not None:
        length = f"at most {workload.rate_iops:,g} IOPS, {length}"
    if workload.rate_mb_per_s is not None:
        length = f"at most {workload.rate_mb_per_s:,g} MB/s, {length}"
    if workload.thinktime_us is not None:
        every = f" every {workload.thinktime_blocks:,}" if workload.thinktime_blocks > 1 else ""
        length = f"think time {latency(workload.thinktime_us)}{every}, {length}"
    order = f"{_order(workload)} {kind(workload)}"
    if workload.zones:
        order = suites.zone_words(workload.zones, workload.zone_op, workload.zone_fill_percent)
    percent = workload.content.compressible_percent
    content = f", {workload.content.words()}" if percent else ""
    return f"{size} {order}, {_depth(workload)}, {span(workload)}{content}, {length}"


def tenancy(phase: Phase) -> str:
    """Text after a phase's workload: the rate that limits it, and the phase that it runs along
    with.
    """
    held = ""
    if phase.rate_of is not None:
        held = f", {phase.rate_percent:g} % of the IOPS of {phase.rate_of}, Poisson arrivals"
    return held + (", in parallel with the previous load" if phase.together else "")


def kind(workload: Workload) -> str:
    """Reads, writes, or the share of reads, as text."""
    kinds: dict[float, str] = {100: "read", 0: "write"}
    pure = kinds.get(workload.read_percent)
    text = pure or f"mix of {workload.read_percent} % reads"
    text += workload.suffix
    return text + (f", a flush after {suites.writes_of(workload.fsync)}" if workload.fsync else "")


def _order(workload: Workload) -> str:
    """Order of addresses, as short as possible: the usual one is only the pattern."""
    if "pattern" in workload.unknown:
        return "(pattern not known)"
    more = {"permutation": " (each address once per pass)"}
    more["permutation-repeated"] = " (each address once per pass, passes in the same order)"
    shared = " (reads and writes in one stream)" if workload.streams == "shared" else ""
    skew = f" ({workload.offsets})" if ":" in workload.offsets else shared
    return workload.pattern + more.get(workload.offsets, skew)


def _depth(workload: Workload) -> str:
    if "queue_depth" in workload.unknown:
        return f"queue depth not known (on average about {workload.queue_depth})"
    depth = f"queue depth {workload.queue_depth}"
    return depth if workload.queues == 1 else f"{depth} in each of {workload.queues} queues"


def span(where: Workload | Prepare) -> str:
    """Address range of a workload, as text."""
    if where.span_bytes is not None:
        text = f"at most {units.binary_bytes(where.span_bytes)}"
    elif where.span_percent >= 100:
        return "whole drive"
    else:
        text = f"{where.span_percent:g} % of the addresses"
    start = where.span_start_percent
    return text + (f", starting at {start:g} %" if start else "")


def preparation(test: Test) -> str:
    """Steps before the workload, as text."""
    return ", ".join(map(step_words, test.prepare)) or "none"


def step_words(step: Prepare) -> str:
    """One step before a workload, as text."""
    if step.kind == "purge":
        return "purged"
    if step.kind == "rest":
        return f"idle for {units.duration(step.seconds)}"
    if step.kind == "discard":
        return f"trimmed ({span(step)})"
    if step.kind == "sprandom":
        return f"written as fio's sprandom does ({step.spare_percent:g} % spare flash)"
    if step.kind == "steady":
        rounds, rule = step.rounds
        return (
            f"rounds of {load(rounds)}, until steady (range at most {rule.range_percent:g} % and "
            f"slope at most {rule.slope_percent:g} % of the mean of {rule.window_rounds} rounds), "
            f"at most {rule.rounds_max} rounds"
        )
    if step.load is not None:
        return load(step.load)
    percent = step.content.compressible_percent
    content = f" with {step.content.words()}" if percent else ""
    often = "" if step.passes == 1 else f" {step.passes} times"
    needed = " if needed" if step.if_needed else ""
    return f"filled sequentially{often}{needed}{content} ({span(step)})"
