"""Use of drives by their health logs: bytes per day, data held, observed write amplification.

Sources: JSON of `nvme smart-log` (in nvme-cli 3 `nvme log smart`), `nvme ocp smart-add-log` and
`smartctl -j`; OCP Datacenter NVMe SSD Specification 2.0, SMART-1. A figure that no log has stays
unknown. Left out: logs as text, media counters of other makers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import UserError
from drivebay.common.files import system_errors
from drivebay.targets.telemetry import smart

PLACES = documents.beside(__file__, "fleet_logs.toml")["places"]
COUNTERS = ("power_on_h", "written_bytes", "read_bytes", "media_bytes")
"""Figures that only grow."""
DATED = re.compile(r"((^|[-_.])(\d[-\dT:_.Z]*|smart|log|ocp|trace))+$")
"""End of a file's name that is not the name of a drive: a date, or a kind of log."""
Log = dict[str, Any]


def name_of(path: Path) -> str:
    """Name of a drive: that of the file without its date, or of its folder if nothing is left.

    >>> name_of(Path("a/db1-2026-11-01.smart.json")), name_of(Path("/db7/2026-11-01.json"))
    ('db1', 'db7')
    """
    return DATED.sub("", path.name.partition(".")[0], count=1) or path.resolve().parent.name


def uses(paths: Sequence[Path]) -> list[Log]:
    """Use of each drive: its name, other names, number of logs, newest temperature_c,
    capacity_bytes and data_bytes (in use), waf by media_bytes over its life, and bytes
    written_per_day and read_per_day: from the first log to the last (over the whole life if there
    is one log), lowest and highest between two logs. None where no log has the counter. Logs belong
    together by serial number, else by name.

    Raises
    ------
    UserError
        If a file is no log, or a counter is lower than in an earlier log.
    """
    drives: dict[str, list[Log]] = {}
    for path in paths:
        log = _read(path)
        drives.setdefault(log["serial"] or name_of(path), []).append(log)
    return [_use(name, logs) for name, logs in drives.items()]


def _read(path: Path) -> Log:
    with system_errors(f"{path} cannot be read", f"ls -l {path}"):
        content = documents.read(path)
    hint = "nvme smart-log -o json, or smartctl -j -a"
    try:
        table = documents.from_json(documents.text(content), int_bits=128)
    except ValueError as problem:
        raise UserError(f"{path} is not JSON: {problem}", hint) from None
    flat = dict(_flat(table, ""))
    ours = smart.smartctl_figures if "smartctl.exit_status" in flat else smart.nvme_figures
    log: Log = dict(ours(table)) if isinstance(table, dict) else {}
    for place in PLACES.keys() & flat.keys():
        if (number := smart.number(flat[place])) is not None:
            log[PLACES[place][0]] = number * PLACES[place][1]
    if not log.keys() & {*COUNTERS}:
        raise UserError(f"{path} has no counter of a health log", hint)
    return {**log, "path": path, "serial": str(flat.get("serial_number", ""))}


def _flat(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict | list):
        yield place[:-1], value
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _flat(inner, f"{place}{key}.")


def _use(name: str, logs: list[Log]) -> Log:
    timed = all("at_s" in log for log in logs)
    logs.sort(key=lambda log: (log["at_s"] if timed else 0, str(log["path"])))
    rows = {key: [log for log in logs if key in log] for key in COUNTERS}
    for key, known in rows.items():
        for before, log in pairwise(known):
            if log[key] < before[key]:
                raise UserError(
                    f"{log['path']}: {key.rpartition('_')[0]} is {log[key]:,.0f}, less than the "
                    f"{before[key]:,.0f} in {before['path']}, an earlier log of {name}",
                    "name logs in the order of time; a replaced drive needs a folder of its own",
                )

    clock, hour = ("at_s", 3600) if timed and len(logs) > 1 else ("power_on_h", 1)

    def per_day(key: str) -> list[float] | None:
        known = [(log[clock] / hour, log[key]) for log in rows[key] if clock in log]
        known = [(0.0, 0.0), *known] if len(known) == 1 else known
        steps = [*pairwise(known), *zip(known[:1], known[-1:], strict=True)]
        rates = [24 * (b[1] - a[1]) / (b[0] - a[0]) for a, b in steps if b[0] > a[0]]
        return [rates[-1], min(rates), max(rates)] if rates else None

    def newest(key: str) -> float | None:
        return next((log[key] for log in reversed(logs) if key in log), None)

    media, written = newest("media_bytes"), newest("written_bytes")
    return {
        "name": name,
        "names": sorted({name, *(name_of(log["path"]) for log in logs)}),
        "logs": len(logs),
        "written_per_day": per_day("written_bytes"),
        "read_per_day": per_day("read_bytes"),
        "capacity_bytes": newest("capacity_bytes"),
        "data_bytes": newest("data_bytes") or newest("capacity_bytes"),
        "waf": media / written if media and written else None,
        "temperature_c": newest("temperature_c"),
    }
