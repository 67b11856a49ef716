"""SMART before and after a test: the drive's health data, through nvme-cli or smartctl.

Sources: nvme-smart-log(1) and smartctl(8), both as JSON; the names of nvme-cli's fields are those
of 1.x to 3.x (`data_units_written`, in 1000 units of 512 bytes; counts of 128 bits are strings in
2.3), smartctl's those of its JSON format 1. Values that stand for "not reported": NVM Express Base
Specification 2.0 figure 207, SPC-4 (temperature log page), ACS-4 (SCT status).

Leaves out: vendors' own logs. Attributes of SATA drives stay raw, as makers number them freely.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drivebay.common import documents, programs
from drivebay.targets.telemetry import sensors

if TYPE_CHECKING:  # SMART can be read without the core
    from drivebay._core import Health
    from drivebay.definitions.profiles import Profile

TIMEOUT_S = 20
DATA_UNIT_BYTES = 512_000
# Fields of NVMe in which 0 means that the drive does not count.
NOT_REPORTED_IF_ZERO = ("data_units_read", "data_units_written")
# Largest valid values; above, it is not a spare in per cent or a time (smartctl ignores it as
# well).
REPORTED_MAX = {"available_spare_percent": 100.0, "power_on_h": 2.0**24}
# Limit of counts; a count of all ones means "not reported".
COUNT_MAX = 2.0**127
_NAMES = documents.beside(__file__, "smart.toml")
# Names that nvme-cli, the core and we share.
SAME: list[str] = _NAMES["same"]
_NVME_FIELDS: dict[str, str] = _NAMES["nvme"] | {
    name: name for name in (*SAME, *NOT_REPORTED_IF_ZERO, "critical_warning")
}


@dataclass(frozen=True)
class Smart:
    """One reading: its program, the figures under our names, and the original JSON."""

    source: str
    figures: dict[str, float]
    raw: bytes


def read(name: str) -> Smart | str:
    """Reads the SMART data of the drive with this kernel name, or returns the reason why there is
    none.
    """
    ways = [
        ("nvme", ["smart-log", f"/dev/{name}", "--output-format=json"], nvme_figures),
        ("smartctl", ["--json=c", "--all", f"/dev/{name}"], smartctl_figures),
    ]
    complaints = []
    for program, arguments, figures_of in ways if name.startswith("nvme") else ways[1:]:
        path = programs.find(program)
        if path is None:
            complaints.append(f"{program} is not installed")
            continue
        answer = _asked(path, arguments)
        if isinstance(answer, str):
            complaints.append(f"{program}: {answer}")
            continue
        raw, table = answer
        if figures := figures_of(table):
            return Smart(program, figures, raw)
        complaints.append(f"{program}: {_complaint_of(table)}")
    return "; ".join(complaints)


def _asked(path: str, arguments: list[str]) -> tuple[bytes, dict[str, Any]] | str:
    try:
        done = programs.ask([path, *arguments], timeout_s=TIMEOUT_S)
        table = documents.from_json(documents.text(done.stdout), int_bits=128)
    except programs.NoAnswer as problem:
        return str(problem)
    except ValueError:
        words = done.stderr.decode(errors="replace").split("\n")[0].strip()
        return words or f"no JSON, exit code {done.returncode}"
    return (done.stdout, table) if isinstance(table, dict) else "no JSON object"


def nvme_figures(table: Mapping[str, Any]) -> dict[str, float]:
    """Converts nvme-cli's JSON to our names; {} if it has no SMART log. Figures that the drive does
    not report are left out.
    """
    found = {
        ours: value
        for theirs, ours in _NVME_FIELDS.items()
        if (value := number(table.get(theirs))) is not None
        and (value or ours not in NOT_REPORTED_IF_ZERO)
    }
    if found and (kelvin := number(table.get("temperature"))) is not None:
        found["temperature_c"] = kelvin - 273
    for way in ("read", "written"):
        if (units := found.pop(f"data_units_{way}", None)) is not None:
            found[f"{way}_bytes"] = units * DATA_UNIT_BYTES
    return _reported(found)


def _reported(found: dict[str, float]) -> dict[str, float]:
    """Removes values that stand for "not reported"."""
    return {
        name: value
        for name, value in found.items()
        if value <= REPORTED_MAX.get(name, COUNT_MAX)
        and (name != "temperature_c" or sensors.is_temperature(value))
    }


def number(value: Any) -> float | None:
    """Returns a JSON number, or one that is written as a string; None for all other values.

    >>> number(3), number("340282366920938463463374607431768211455") == 2.0**128, number("n/a")
    (3.0, True, None)
    """
    if isinstance(value, str):
        return float(value) if re.fullmatch(r"\d{1,40}(\.\d{1,9})?", value, re.ASCII) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def smartctl_figures(table: Mapping[str, Any]) -> dict[str, float]:
    """Converts smartctl's JSON to our names, without figures that the drive does not report; {} if
    none is left.
    """
    nvme = table.get("nvme_smart_health_information_log")
    if isinstance(nvme, dict):
        celsius = number(nvme.get("temperature"))
        rest = nvme_figures({key: value for key, value in nvme.items() if key != "temperature"})
        return rest if celsius is None else _reported(rest | {"temperature_c": celsius})
    found: dict[str, float] = {}
    rows = _inner(table, "ata_smart_attributes", "table")
    for row in rows if isinstance(rows, list) else []:
        if isinstance(value := _inner(row, "raw", "value"), int):
            found[f"attribute_{row.get('id')}_{str(row.get('name', '')).lower()}"] = float(value)
    for place in _NAMES["places"]:
        if (value := number(_inner(table, *place["keys"]))) is not None:
            found[place["name"]] = value * place["factor"]
    protocol = str(_inner(table, "device", "protocol")).lower()
    if not found.get("temperature_c") and "scsi" in protocol:
        found.pop("temperature_c", None)  # as RAID controllers answer for their drives
    return _reported(found)


def _inner(table: Any, *keys: str) -> Any:
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table


def virtual_figures(health: Health) -> dict[str, float]:
    """Converts a virtual drive's health log (`_core.VirtualDrive.health`) to the same names; times
    exact.

    Beyond the log: throttle_s in any stage, and waf, as in vendors' own logs.
    """
    stages = dict(zip(("light", "heavy"), health.throttling, strict=False))
    found = {
        "temperature_c": health.temperature_c,
        "available_spare_percent": health.available_spare_percent,
        "read_bytes": health.data_units_read * DATA_UNIT_BYTES,
        "written_bytes": health.data_units_written * DATA_UNIT_BYTES,
        "controller_busy_min": health.busy_s / 60,
        "power_on_h": health.power_on_s / 3600,
        "warning_temperature_min": health.warning_temperature_s / 60,
        "critical_temperature_min": health.critical_temperature_s / 60,
        **{f"throttle_{name}_count": count for name, (count, _) in stages.items()},
        **{f"throttle_{name}_s": seconds for name, (_, seconds) in stages.items()},
        "throttle_s": sum(seconds for _, seconds in health.throttling),
        "waf": health.waf,
        **{name: getattr(health, name) for name in SAME},
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def first_figures(profile: Profile) -> dict[str, float]:
    """Returns the initial health log of a drive of this profile, as `virtual_figures`."""
    from drivebay._core import VirtualDrive

    return virtual_figures(VirtualDrive(profile.core, 1).health())


def _complaint_of(table: Mapping[str, Any]) -> str:
    messages = _inner(table, "smartctl", "messages")
    words = [_inner(one, "string") for one in (messages if isinstance(messages, list) else [])]
    first = next(filter(None, words), table.get("error") or "the drive tells no SMART data")
    return documents.printable(str(first))


def compared(before: Smart | str, after: Smart | str) -> dict[str, Any]:
    """Returns both readings for the result, and the growth of each figure."""
    if isinstance(before, str) or isinstance(after, str):
        return {"absent": before if isinstance(before, str) else str(after)}
    grew = {
        name: after.figures[name] - value
        for name, value in before.figures.items()
        if name in after.figures and after.figures[name] != value
    }
    return {"source": after.source, "before": before.figures, "after": after.figures, "grew": grew}
