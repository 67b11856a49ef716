"""Environment of a test of a real drive: telemetry, SMART, host, other I/O, warnings.

One `Environment` per test: begun before its preparation, given every phase, and asked at the end
for the test's conditions. Without root, or on a file, it finds less and reports the missing
sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from drivebay.results.records import PhaseResult
from drivebay.targets.safety.in_use import drive_below
from drivebay.targets.safety.target_device import TargetDevice
from drivebay.targets.telemetry import host, sensors, smart, warnings
from drivebay.targets.telemetry.recorder import Telemetry

# Columns of the series, and the readings that fill them: the first one available.
MEASURED = {
    "temperature_c": ("drive.temperature_c", "drive.composite_temperature_c"),
    "power_w": ("drive.power_w",),
    "throttle_stage": ("drive.throttle_stage",),
}


class Environment:
    """Watches one test; begin it with `with`. `asleep`: the test measures the drive's sleep, which
    telemetry would end.
    """

    def __init__(self, target: TargetDevice, *, power: str | None, asleep: bool = False) -> None:
        self._kind = target.kind
        self._identity = target.identity()
        self._number = target.storage_number
        self._drive = drive_below(self._number)
        self._link = host.link(self._drive) if self._drive else None
        self._telemetry = Telemetry(self._drive, power=power, asleep=asleep)
        self._smart_before: smart.Smart | str = "not asked yet"
        self._counted: tuple[int, int] | None = None
        self._ran: list[warnings.Ran] = []
        why = host.no_sleep(self._drive) if asleep and self._drive else []
        self._more: dict[str, Any] = {"sleep": {"why_not": why}} if asleep else {}
        self._more_warnings: list[str] = []

    def __enter__(self) -> Environment:
        self._host = host.facts()
        self._smart_before = self._smart()
        self._telemetry.__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        self._telemetry.__exit__(*problem)

    def _smart(self) -> smart.Smart | str:
        return smart.read(self._drive) if self._drive else "no block device is known below"

    def watch(self, pid: int) -> None:
        """Registers the process number of a fio that has started."""
        self._telemetry.watch(pid)

    def warn(self, sentence: str) -> None:
        """Adds a reason why the test's figures are suspect."""
        self._more_warnings.append(sentence)

    def say(self, **conditions: Any) -> None:
        """Adds values to the test's conditions."""
        self._more.update(conditions)

    def begin_phase(self) -> None:
        """Begins a phase."""
        self._counted = sensors.io_bytes(self._number)

    def end_phase(
        self, result: PhaseResult, zero: float, beside: Sequence[PhaseResult] = ()
    ) -> PhaseResult:
        """Returns the phase, with its readings in the series and as telemetry; `zero` is its start,
        `beside` are the phases that ran at the same time.
        """
        before, after = self._counted, sensors.io_bytes(self._number)
        read = after[0] - before[0] if before and after else None
        written = after[1] - before[1] if before and after else None
        own = [result, *beside]
        rows = min(len(one.series) for one in own) - 1  # the last second may be longer
        sides = ("read_bytes", "write_bytes")
        rates = sum(one.series[side].to_numpy()[:rows] for one in own for side in sides)
        highest = float(max(rates, default=0))
        own_read, own_written = (sum(getattr(one, side) for one in own) for side in sides)
        self._ran.append(warnings.Ran(result.label, own_read, own_written, highest, read, written))
        phase = self._telemetry.of_phase(zero, len(result.series))
        series = result.series
        for name, readings in MEASURED.items():
            columns = [phase.column(reading) for reading in readings]
            column = next((c for c in columns if any(v is not None for v in c)), columns[0])
            index = series.schema.get_field_index(name)
            field = series.schema.field(index)
            whole_steps = [None if v is None else round(v) for v in column]
            values = whole_steps if name == "throttle_stage" else column
            series = series.set_column(index, field, pa.array(values, field.type))
        return replace(result, series=series, telemetry=phase.table())

    def finish(self, results: list[PhaseResult]) -> list[PhaseResult]:
        """Returns the test's phases, the first of them with the test's conditions."""
        after = self._smart()
        telemetry = self._telemetry.conditions()
        conditions: dict[str, Any] = {
            "host": self._host,
            "link": self._link,
            "telemetry": telemetry,
            "smart": smart.compared(self._smart_before, after),
            "device_io": [asdict(ran) for ran in self._ran],
            "warnings": list(self._warnings(telemetry)),
            **self._more,
        }
        kept = {
            f"smart-{when}.json": reading.raw
            for when, reading in (("before", self._smart_before), ("after", after))
            if isinstance(reading, smart.Smart)
        }
        first, *rest = results
        return [replace(first, conditions=conditions, artefacts=first.artefacts | kept), *rest]

    def _warnings(self, telemetry: dict[str, Any]) -> Iterator[str]:
        yield from self._more_warnings
        yield from warnings.of_settings(self._host, self._link, self._identity)
        for ran in self._ran:
            yield from warnings.of_phase(ran, self._kind, self._link)
        yield from warnings.of_telemetry(
            self._telemetry.mean("host.cpu_percent"),
            self._telemetry.mean("harness.cpu_percent"),
            self._telemetry.mean("fio.cpu_percent"),
            self._host["cpus_usable"],
            telemetry,
            self._telemetry.mean("drive.throttle_stage"),
        )
