"""A run's findings as text: coverage, and the timeline of a state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from drivebay.crash.calls import last_of

WHY = {
    "in-flight": "it had not completed",
    "no-flush": "no flush came behind it",
    "flush-too-early": "the flush was submitted before it had completed, and does not cover it",
    "flush-in-flight": "the flush behind it had not completed",
    "flush-ignored": "a flush came behind it, which the drive ignored",
}
# Lost writes that a paragraph names.
LOST_MAX = 3
# Lines of a timeline: half for lost writes, half for the last events before the cut.
LINES_MAX = 40


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
    if damaged := coverage.get("damaged"):  # missing in runs of former versions
        sound = covered({**coverage, "damaged": 0}, checked)
        return f"{sound}; {damaged:,} states have a damaged part"
    if whole == cuts:
        total = coverage.get("states", checked)
        share = f"all {checked:,}" if checked == total else f"{checked:,} of {total:,}"
        return f"{share} states of {cuts:,} cuts ({choices(coverage)} choices) checked"
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
    if found["damage"]:
        kind, first, sectors = found["damage"]
        where = f"LBA {first}, {sectors} sectors" if sectors else "sectors without data"
        yield f"{'':>14}  {kind.upper()}: {where}"
    elif not told:
        yield f"{'':>14}  nothing that the drive was given is lost: what is missing had not been"
        yield f"{'':>14}  sent to it"
    promised = f"; the last mark was {found['mark']}" if found["mark"] else ""
    yield f"{_time(found['cut_ns'])}  THE POWER IS CUT{promised}"


def paragraph(
    found: Mapping[str, Any], place: Callable[[int], str], output: str, similar: int
) -> str:
    """The write, the file and the missing call behind a failure, as a paragraph.

    Parameters
    ----------
    found : `CrashStates.timeline`, and the `calls` that no sync followed, if traced.
    place : returns the file of a sector, as text; empty if it belongs to none.
    output : last line of the check's output.
    similar : number of states that fail alike.
    """
    mark = found["mark"]
    before = f" before the mark {mark}" if mark else ""
    after = f" after the mark {mark}" if mark else ""
    told = [f"A power cut at {_time(found['cut_ns']).strip()}{after} breaks the check: {output}"]
    told.append(f"{similar:,} states fail alike")
    lost = [n for n, event in enumerate(found["events"]) if event["lost_units"]]
    missing, known = [], found.get("calls", ())
    for n in lost[:LOST_MAX]:
        event, why = found["events"][n], _why(found["events"][n], found["events"][n + 1 :])
        owner = place(event["lba"])
        last = event["lba"] + event["sectors"] - 1
        what = f"The {event['op']} #{event['number']} of LBA {event['lba']}-{last}"
        told.append(f"{what}{owner and f' ({owner})'} is lost: {why}")
        if event["why"] in ("no-flush", "flush-too-early") or "before the mark" in why:
            missing.append(f"fsync of {_path(owner)}" if owner else "a flush")
            if call := last_of(known, _path(owner)):
                told.append(f"No sync followed the system call {call.text}")
                missing[-1] = call.missing
    if len(lost) > LOST_MAX:
        told.append(f"{len(lost) - LOST_MAX:,} more writes are lost")
    if found["damage"]:
        kind, first, sectors = found["damage"]
        where = f"LBA {first}-{first + sectors - 1} is" if sectors else "Sectors without data are"
        told.append(f"{where} {kind}, as the rules permit")
    elif not lost:
        owner = next(filter(None, map(place, found["later"])), "")
        told.append("Nothing that the drive was given is lost: the data was not sent to it in time")
        missing = ["fsync of the file, or of the folder whose entry changed,"]
        if call := last_of(known, _path(owner)) or last_of(known, ""):
            told.append(f"No sync followed the system call {call.text}")
            missing = [call.missing]
        elif owner:
            told.append(f"The next write of a file is to {owner}")
            missing = [f"fsync of {_path(owner)}"]
    if missing:
        told.append(f"Missing: {' and '.join(dict.fromkeys(missing))}{before}")
    return ". ".join(told) + "."


def _path(owner: str) -> str:
    return owner.partition(" at offset ")[0]


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
    lost, units = event["lost_units"], event["units"]
    part = f": {lost} of {units} parts" * (lost < units)
    loss = f"  LOST{part}" * (lost > 0)
    op = f"{event['op']}{' FUA' if event['fua'] else ''}"
    yield f"{at}  #{event['number']} {op}{place}, {done}{loss}"
    if event["why"]:
        yield f"{'':>14}  why: {_why(event, later)}"


def _why(event: Mapping[str, Any], later: Sequence[Mapping[str, Any]]) -> str:
    """The reason why a write was lost; `later` are the events after it."""
    next_ = next((one for one in later if one["mark"] is not None or one["op"] == "flush"), {})
    if event["why"] in ("no-flush", "flush-in-flight") and next_.get("mark") is not None:
        return f"no flush came before the mark {next_['mark']}"
    return WHY[event["why"]]
