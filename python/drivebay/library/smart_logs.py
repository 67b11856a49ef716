"""Use of drives according to their health logs: bytes per day, fill, observed write amplification.

Sources: JSON of `nvme smart-log` (in nvme-cli 3 `nvme log smart`), `nvme ocp smart-add-log` and
`smartctl -j`; the media counters are bytes (OCP Datacenter NVMe SSD Specification 2.0, SMART-1) or
units of 32 MiB (Intel and Solidigm). A counter that no log has stays unknown. Left out: logs as
text; the media counters of other makers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import UserError
from drivebay.common.files import system_errors
from drivebay.targets.telemetry import smart

COUNTERS = ("power_on_h", "written_bytes", "read_bytes", "media_bytes")
"""Figures that only grow."""
OCP = ("Physical media units written", "physical_media_units_written")
INTEL_UNIT = 32 * 2**20
DATED = re.compile(r"([-_.]\d[-\dT:_.Z]*)?([-_.](smart|log|ocp))*$", re.I)
"""End of a file's name that is not the name of the drive."""


@dataclass(frozen=True)
class Log:
    """One log: its figures, the drive's serial number or "", and its time if known."""

    path: Path
    serial: str
    at_s: float | None
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Use:
    """Use of a drive by its logs; None where no log has the counter.

    Attributes
    ----------
    written_per_day, read_per_day
        Bytes per day, between the first log and the last; over the whole life if there is one log.
    written_range
        Lowest and highest bytes written per day between two logs.
    capacity_bytes, used_bytes
        Capacity, and the part of it that holds data.
    waf
        Observed write amplification by bytes.
    temperature_c
        Highest temperature.
    """

    name: str
    logs: int
    written_per_day: float | None
    written_range: tuple[float, float] | None
    read_per_day: float | None
    capacity_bytes: float | None
    used_bytes: float | None
    waf: float | None
    power_on_h: float | None
    temperature_c: float | None


def name_of(path: Path) -> str:
    """Name of a drive by a file's name without its date, or by its folder if the name is a date.

    >>> name_of(Path("a/nvme0-2026-11-01.json")), name_of(Path("db7/2026-11-01.json"))
    ('nvme0', 'db7')
    """
    stem = DATED.sub("", f"-{path.name.partition('.')[0]}").strip("-_. ")
    return path.parent.name if stem.lower() in ("", "smart", "log", "ocp", "trace") else stem


def read(path: Path) -> Log:
    """Reads a log. Raises UserError if it has no counter of a health log; EnvironmentProblem if it
    cannot be read.
    """
    with system_errors(f"{path} cannot be read", f"ls -l {path}"):
        content = documents.read(path)
    try:
        table = documents.from_json(documents.text(content), int_bits=128)
    except ValueError as problem:
        raise UserError(f"{path} is not JSON: {problem}", "nvme smart-log -o json") from None
    table = table if isinstance(table, dict) else {}
    is_nvme_cli = "smartctl" not in table and "device" not in table
    found = smart.nvme_figures(table) if is_nvme_cli else smart.smartctl_figures(table)
    media = next(filter(None, (table.get(name) for name in OCP)), None)
    intel = table.get("nand_bytes_written") or table.get("Device stats", {}).get("nand_bytes_written")
    if (amount := _count(media)) is not None:
        found["media_bytes"] = amount
    elif (amount := _count(intel)) is not None:
        found["media_bytes"] = amount * INTEL_UNIT
    spaces = table.get("nvme_namespaces")
    space = spaces[0] if isinstance(spaces, list) and len(spaces) == 1 else {}
    for name, place in (("capacity", table.get("user_capacity")), ("used", space.get("utilization"))):
        if isinstance(place, dict) and (amount := _count(place.get("bytes"))) is not None:
            found[f"{name}_bytes"] = amount
    if not found.keys() & set(COUNTERS):
        raise UserError(
            f"{path} has no counter of a health log", "nvme smart-log -o json, or smartctl -j -a"
        )
    time = table.get("local_time")
    at_s = _count(time.get("time_t")) if isinstance(time, dict) else None
    return Log(path, str(table.get("serial_number", "")), at_s, found)


def _count(value: Any) -> float | None:
    if isinstance(value, dict):  # halves of 64 bits, or a normalized and a raw value
        high, low = _count(value.get("hi")), _count(value.get("lo"))
        return _count(value.get("raw")) if low is None else low + 2.0**64 * (high or 0)
    return smart._number(value)


def uses(logs: Sequence[Log]) -> list[Use]:
    """Use of each drive, in the order of their first logs. Raises UserError if a counter is lower
    than in an earlier log.
    """
    drives: dict[str, list[Log]] = {}
    for log in logs:
        drives.setdefault(log.serial or name_of(log.path), []).append(log)
    return [_use(name, own) for name, own in drives.items()]


def _use(name: str, logs: list[Log]) -> Use:
    timed = all(log.at_s is not None for log in logs)
    logs = sorted(logs, key=lambda log: (log.at_s if timed else 0, str(log.path)))
    last: dict[str, tuple[float, Log]] = {}
    for log in logs:
        for counter in set(COUNTERS) & log.figures.keys():
            value, before = log.figures[counter], last.get(counter)
            if before is not None and value < before[0]:
                raise UserError(
                    f"{log.path}: {counter.rpartition('_')[0]} is {value:,.0f}, less than the "
                    f"{before[0]:,.0f} of {before[1].path}, an earlier log of {name}",
                    "give each drive's logs names in the order of time, and a folder of its own",
                )
            last[counter] = (value, log)
    ends = [log for log in logs if _hours(log, timed) is not None]

    def per_day(counter: str, of: Sequence[Log]) -> float | None:
        known = [log for log in of if counter in log.figures]
        if not known:
            return None
        first, end = known[0], known[-1]
        grew = end.figures[counter] - first.figures[counter]
        hours = (_hours(end, timed) or 0) - (_hours(first, timed) or 0)
        if len(known) == 1:
            grew, hours = end.figures[counter], end.figures.get("power_on_h", 0)
        return grew / hours * 24 if hours else None

    wrote = [log for log in ends if "written_bytes" in log.figures]
    steps = [per_day("written_bytes", pair) for pair in zip(wrote, wrote[1:], strict=False)]
    known = [step for step in steps if step is not None]

    def newest(figure: str) -> float | None:
        return next((log.figures[figure] for log in reversed(logs) if figure in log.figures), None)

    grown = [
        [log.figures[counter] for log in logs if counter in log.figures]
        for counter in ("media_bytes", "written_bytes")
    ]
    waf = None
    if all(grown):
        media, written = (
            own[-1] - own[0] if min(map(len, grown)) > 1 else own[-1] for own in grown
        )
        waf = media / written if media and written else None
    return Use(
        name=name,
        logs=len(logs),
        written_per_day=per_day("written_bytes", ends),
        written_range=(min(known), max(known)) if len(known) > 1 else None,
        read_per_day=per_day("read_bytes", ends),
        capacity_bytes=newest("capacity_bytes"),
        used_bytes=newest("used_bytes"),
        waf=waf,
        power_on_h=newest("power_on_h"),
        temperature_c=max(
            (log.figures["temperature_c"] for log in logs if "temperature_c" in log.figures),
            default=None,
        ),
    )


def _hours(log: Log, timed: bool) -> float | None:
    return (log.at_s or 0) / 3600 if timed else log.figures.get("power_on_h")
