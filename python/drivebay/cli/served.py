"""A served drive's figures as a table, for `serve` at its end and `ctl` at any time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivebay.cli.output import table
from drivebay.common import units


def print_figures(figures: Mapping[str, Any]) -> None:
    """What the server answers to `status`."""
    table(("figure", "value"), _rows(figures), right=(1,))


def _rows(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    lateness = figures["lateness"]
    lines = [
        ("served for", f"{figures['elapsed_s']:.1f} s"),
        (
            "drive's clock",
            f"{figures['drive_s']:.1f} s, {figures['time_scale']:g} times the host's",
        ),
        ("requests", f"{figures['requests']:,}"),
        ("in flight", f"{figures['outstanding']:,}"),
        ("read", units.si_bytes(figures["bytes_read"])),
        ("written", units.si_bytes(figures["bytes_written"])),
        ("write amplification", f"{figures['waf']:.2f}"),
        ("temperature", f"{figures['temperature_c']:.1f} °C"),
        ("throttle stage", str(figures["throttle_stage"])),
        ("power cuts", str(figures["power_cuts"]) + ", off now" * figures["is_off"]),
    ]
    if lateness["kept_up_percent"] is not None:
        late = lateness["late"]
        lines += [
            ("the host kept up", f"{lateness['kept_up_percent']:.1f} %"),
            ("server late, 50th percentile", f"{lateness['us_p50']:.1f} us"),
            ("server late, 99th percentile", f"{lateness['us_p99']:.1f} us"),
            ("server late, 99.9th percentile", f"{lateness['us_p999']:.1f} us"),
            (
                f"not served in time (over {lateness['late_from_us']:.0f} us)",
                f"{late:,} ({late / lateness['answers']:.2%})",
            ),
        ]
    return lines
