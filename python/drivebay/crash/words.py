"""A run's findings as text: coverage, and the timeline of a state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

WHY = {
    "in-flight": "it had not completed",
    "no-flush": "no flush came behind it",
    "flush-too-early": "the flush was submitted before it had completed, and does not cover it",
    "flush-in-flight": "the flush behind it had not completed",
    "flush-ignored": "a flush came behind it, which the drive ignored",
}
LINES_MAX = 40
"""Lines of a timeline: half for lost writes, half for the last events before the cut."""


def choices(coverage: Mapping[str, Any]) -> str:
    """Number of choices of lost writes, as text.

    >>> choices({"choices_log2": 10.0}), choices({"choices_log2": 100.0})
    ('1,024', '10^30.1')
    """
    log2 = coverage["choices_log2"]
    return f"{round(2**log2):,}" if log2 < 40 else f"10^{log2 * math.log10(2):.1f}"


def covered(coverage: Mapping[str, Any], checked: int) -> str:
    """States checked, compared with all possible states, as a sentence."""
    cuts, whole = coverage["cuts"], coverage["cuts_exhausted"]
    if whole == cuts:
        return f"all {checked:,} states of {cuts:,} cuts ({choices(coverage)} choices) checked"
    visited = coverage["cuts_visited"]
    at = f"{visited:,} of {cuts:,} cuts" if visited < cuts else f"{cuts:,} cuts"
    return (
        f"a sample of {checked:,} states at {at} checked: there are up to {choices(coverage)}, "
        f"{coverage['volatile_max']:,} parts of writes at risk at a time; {whole:,} cuts whole"
    )


def timeline(found: Mapping[str, Any]) -> Iterator[str]:
    """Yields the timeline of a state, a line for each command, mark and the cut. `found`:
    `CrashStates.timeline`.
    """
    events = found["events"]
    lines = [line for n, event in enumerate(events) for line in _event(event, events[n + 1 :])]
    told = [n for n, line in enumerate(lines) if "LOST" in line or "why:" in line]
    kept = {*range(len(lines) - LINES_MAX // 2, len(lines)), *told[: LINES_MAX // 2]}
    last = -1
    for n in sorted(kept & set(range(len(lines)))):
        if n > last + 1:
            yield f"{'':>14}  ({n - last - 1:,} more)"
        yield lines[n]
        last = n
    if not told:
        yield f"{'':>14}  nothing that the drive was given is lost: what is missing had not been"
        yield f"{'':>14}  sent to it"
    promised = f"; the last mark was {found['mark']}" if found["mark"] else ""
    yield f"{_time(found['cut_ns'])}  THE POWER IS CUT{promised}"


def _time(at_ns: int) -> str:
    return f"{at_ns / 1e6:11.3f} ms"


def _event(event: Mapping[str, Any], later: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    at = _time(event["at_ns"])
    if event["mark"] is not None:
        yield f"{at}  mark {event['mark']}"
        return
    place = f" LBA {event['lba']}, {event['sectors']} sectors" if event["sectors"] else ""
    end = event["completed_ns"]
    done = f"done {_time(end).strip()}" if end is not None else "not completed"
    lost = ""
    if event["lost_units"]:
        part = event["lost_units"] < event["units"]
        lost = "  LOST" + f": {event['lost_units']} of {event['units']} parts" * part
    op = f"{event['op']}{' FUA' if event['fua'] else ''}"
    yield f"{at}  #{event['number']} {op}{place}, {done}{lost}"
    if event["why"]:
        why = WHY[event["why"]]
        next_ = next((one for one in later if one["mark"] is not None or one["op"] == "flush"), {})
        if event["why"] in ("no-flush", "flush-in-flight") and next_.get("mark") is not None:
            why = f"no flush came before the mark {next_['mark']}"
        yield f"{'':>14}  why: {why}"
