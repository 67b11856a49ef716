"""A served drive's figures as a table, for `serve` at its end and `ctl` at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivebay.cli.output import table
from drivebay.common import units

if TYPE_CHECKING:
    from drivebay.serving import Report


def print_figures(report: Report) -> None:
    """The figures of `status`."""
    table(("figure", "value"), _rows(report), right=(1,))


def _rows(report: Report) -> list[tuple[str, str]]:
    lateness = report.lateness
    lines = [
        ("served for", f"{report.elapsed_s:.1f} s"),
        ("drive's clock", f"{report.drive_s:.1f} s, {report.time_scale:g} times the host's"),
        ("requests", f"{report.requests:,}"),
        ("refused connections", f"{report.refused:,}"),
        ("in flight", f"{report.outstanding:,}"),
        ("read", units.si_bytes(report.bytes_read)),
        ("written", units.si_bytes(report.bytes_written)),
        ("write amplification", f"{report.waf:.2f}"),
        ("temperature", f"{report.temperature_c:.1f} °C"),
        ("throttle stage", str(report.throttle_stage)),
        ("power cuts", str(report.power_cuts) + ", off now" * report.is_off),
    ]
    if lateness.kept_up_percent is not None:
        late = lateness.late
        lines += [
            ("the host kept up", f"{lateness.kept_up_percent:.1f} %"),
            ("server late, 50th percentile", f"{lateness.us_p50:.1f} us"),
            ("server late, 99th percentile", f"{lateness.us_p99:.1f} us"),
            ("server late, 99.9th percentile", f"{lateness.us_p999:.1f} us"),
            (
                f"not served in time (over {lateness.late_from_us:.0f} us)",
                f"{late:,} ({late / lateness.answers:.2%})",
            ),
        ]
    return lines
