"""Figures of a drive that ages under writes and recovers at rest, replays between them.

The rate is over busy time, as the Storage Bench's. A part's figures are its lowest and its last
replay: how far the drive falls, and where it comes to.
"""

from __future__ import annotations

from drivebay.analysis.figures import IOS, Figure, Measured, PhaseFigures, by_key
from drivebay.analysis.groups import by_age
from drivebay.analysis.phases import of_any_phase
from drivebay.definitions.suites import Test


def ageing(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """For each part of the test the slowest and the mean rate over busy time, then every replay."""
    rows: list[Figure] = []
    for group in by_age(phases):
        rates = [one.bench.rate_busy for one in group.phases if one.bench is not None]
        for key, label, value in (
            ("rate", "mean data rate", sum(rates) / len(rates)),
            ("rate_lowest", "lowest data rate", min(rates)),
            ("rate_last", "last data rate", rates[-1]),
        ):
            rows.append(
                Figure(
                    f"{key}_{group.name}",
                    f"{group.words}, {label}",
                    value,
                    "MB/s",
                    n=len(rates),
                    n_kind="replays",
                )
            )
    main = tuple(row.key for row in rows if row.key.startswith(("rate_lowest_", "rate_last_")))
    for phase in phases:
        if phase.bench is None:
            rows += of_any_phase(phase, alone=False)[:2]
            continue
        for key, label, value, unit in (
            ("busy_rate", "Data rate over busy time", phase.bench.rate_busy, "MB/s"),
            ("latency_mean", "Mean latency", phase.bench.latency_mean_us, "µs"),
            ("over_10_ms", "I/Os over 10 ms", phase.bench.over_10_ms_percent, "%"),
        ):
            rows.append(
                Figure(
                    f"{key}_{phase.label}",
                    f"{label}, {phase.label}",
                    value,
                    unit,
                    n=phase.bench.ios,
                    n_kind=IOS,
                )
            )
    return Measured(test, phases, by_key(rows), main)
