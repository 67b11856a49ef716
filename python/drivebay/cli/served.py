"""Table of the figures of served drives, for `serve` and `ctl`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivebay.cli.output import table
from drivebay.common import units


def print_figures(reports: Sequence[Mapping[str, Any]]) -> None:
    """Prints the figures of `status`, with one column per drive."""
    columns = [dict(_rows(report)) for report in reports]
    # A drive without any completion has no lateness.
    figures = max(columns, key=len, default={})
    rows = [(figure, *(column.get(figure, "") for column in columns)) for figure in figures]
    names = [report["drive"] for report in reports] if len(reports) > 1 else ["value"]
    table(("figure", *names), rows, right=tuple(range(1, len(names) + 1)))


def _rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    lateness = report["lateness"]
    lines = [
        ("drive", report["title"]),
        ("capacity", units.si_bytes(report["capacity_bytes"])),
        *(
            (
                f"namespace {space['nsid']}" + ", read-only" * space["is_read_only"],
                f"{units.si_bytes(space['bytes'])} from {units.si_bytes(space['start_bytes'])}",
            )
            for space in report["namespaces"]
            if space["bytes"] < report["capacity_bytes"]
        ),
        *(
            (f"NVMe/TCP portal {number}", state)
            for number, state in enumerate(report["ana_states"], start=1)
        ),
        ("served for", f"{report['elapsed_s']:.1f} s"),
        ("drive's clock", f"{report['drive_s']:.1f} s, {report['time_scale']:g} times the host's"),
        ("requests", f"{report['requests']:,}"),
        ("refused connections", f"{report['refused']:,}"),
        ("in flight", f"{report['outstanding']:,}"),
        ("memory of all drives", units.si_bytes(report["memory_bytes"])),
        ("buffers (part of it)", units.si_bytes(report["buffer_bytes"])),
        ("waits for memory", f"{report['memory_waits']:,}"),
        ("read", units.si_bytes(report["bytes_read"])),
        ("written", units.si_bytes(report["bytes_written"])),
        ("write amplification", f"{report['waf']:.2f}"),
        ("temperature", f"{report['temperature_c']:.1f} °C"),
        ("throttle stage", str(report["throttle_stage"])),
        ("power cuts", str(report["power_cuts"]) + ", off now" * report["is_off"]),
    ]
    if lateness["kept_up_percent"] is not None:
        late = lateness["late"]
        lines += [
            ("the host kept up", f"{lateness['kept_up_percent']:.1f} %"),
            ("with the clients' own time", f"{lateness['kept_up_least_percent']:.1f} %"),
            ("lost of the drive's rate", lost_rate(lateness)),
            ("the drive's mean latency", f"{lateness['modelled_us_mean']:.1f} us of its clock"),
            ("server late, 50th percentile", f"{lateness['us_p50']:.1f} us"),
            ("server late, 99th percentile", f"{lateness['us_p99']:.1f} us"),
            ("server late, 99.9th percentile", f"{lateness['us_p999']:.1f} us"),
            (
                f"not served in time (over {lateness['late_from_us']:.0f} us)",
                f"{late:,} ({late / lateness['answers']:.2%})",
            ),
        ]
    return lines


def lost_rate(lateness: Mapping[str, Any]) -> str:
    """Part of the drive's rate that a client without pauses has lost, and who lost it."""
    kept_up, least = lateness["kept_up_percent"], lateness["kept_up_least_percent"]
    server = least * (100 / kept_up - 1)
    return f"{server:.1f} % by the server, {100 - least - server:.1f} % by client and connection"
