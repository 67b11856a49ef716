"""Telemetry: readings of the drive's and the host's sensors once a second, during the load.

One thread wakes at whole seconds of its own start, by absolute times, so that seconds do not drift
away; a second that it could not keep (a suspended host) is counted as missed. Absent sources are
named with the reason; nothing is made up: a second without a reading stays unknown.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from drivebay.results.records import TELEMETRY_SCHEMA, from_rows
from drivebay.targets.telemetry import sensors
from drivebay.targets.telemetry.meter import Meter
from drivebay.targets.telemetry.sensors import Absent, Sensor

EVERY_S = 1.0
# A second of the series uses the readings around its middle, if one is this near.
NEAREST_S = 1.5
# Time that a phase's end waits for a meter to write its last second; guess: they buffer a line.
METER_LATE_S = 3.0

Values = dict[str, float]


class Telemetry:
    """The readings of one test; begun with `with`, and asked for each phase's share of them.
    `drive`: kernel name of the drive, None if there is none to ask. `power`: a hwmon sensor's
    name, a meter's CSV file, or None. `asleep`: the drive may be asleep: it is not asked, as a
    request would wake it.
    """

    def __init__(
        self, drive: str | None, *, power: str | None = None, asleep: bool = False
    ) -> None:
        self._sensors, self._absent = sensors.of_host()
        if asleep:
            why = "a test of its sleep: it is not asked, as that would wake it"
            self._absent += [Absent(f"drive {one}", why) for one in ("temperature", "throttling")]
        elif drive is None:
            self._absent.append(Absent("drive temperature", "no block device is known below"))
        else:
            found, missing = sensors.of_drive(drive)
            self._sensors += found
            self._absent += missing
        self._meter: Meter | None = None
        if power is None:
            seen = ", ".join(str(path.parent) for path in sensors.power_sensors())
            why = f"none was named with --power; there are: {seen}" if seen else "no sensor here"
            self._absent.append(Absent("drive power", why))
        elif isinstance(source := power_source(power), Meter):
            self._meter = source
        else:
            self._sensors.append(source)
        self._power = power
        self.samples: list[tuple[float, Values]] = []
        self.missed_s = 0
        self.failures: dict[str, str] = {}
        self._pids: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="telemetry")

    def __enter__(self) -> Telemetry:
        self._begun = self._taken_until = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for sensor in self._sensors:
            sensor.close()

    def watch(self, pid: int) -> None:
        """Count this process's CPU time (fio's) from now on as our own."""
        self._pids[pid] = sensors.cpu_seconds(pid)

    def _run(self) -> None:
        tick = 0
        own_before, at_before = time.process_time(), time.monotonic()
        while True:
            tick += 1
            if self._over.wait(max(0.0, self._begun + tick * EVERY_S - time.monotonic())):
                return
            now = time.monotonic()
            late = int(now - self._begun - tick * EVERY_S)
            self.missed_s += late
            tick += late
            values: Values = {}
            for sensor in self._sensors:
                try:
                    values.update(sensor.read())
                except (OSError, ValueError) as problem:
                    self.failures[sensor.source] = str(problem)
            own = time.process_time()
            values["harness.cpu_percent"] = 100 * (own - own_before) / max(0.1, now - at_before)
            values["fio.cpu_percent"] = 100 * self._fio_seconds() / max(0.1, now - at_before)
            own_before, at_before = own, now
            self.samples.append((now, values))

    def _fio_seconds(self) -> float:
        spent = 0.0
        for pid, before in list(self._pids.items()):
            now = sensors.cpu_seconds(pid)
            if now < before:  # it has ended
                self._pids.pop(pid, None)
                continue
            spent += now - before
            self._pids[pid] = now
        return spent

    def of_phase(self, zero: float, seconds: int) -> Phase:
        """Returns the readings since the phase before, for a phase that began at `zero` (monotonic
        clock) and lasted this many seconds, for its series and for its own table.
        """
        power = self._metered(zero, seconds)
        taken = [(at, values) for at, values in self.samples if at > self._taken_until]
        self._taken_until = taken[-1][0] if taken else self._taken_until
        return Phase(taken, zero, seconds, power)

    def _metered(self, zero: float, seconds: int) -> npt.NDArray[np.float64] | None:
        if self._meter is None:
            return None
        start = zero + time.time() - time.monotonic()
        deadline = time.monotonic() + METER_LATE_S
        self._meter.read_on()
        while self._meter.latest < start + seconds and time.monotonic() < deadline:
            time.sleep(0.1)
            self._meter.read_on()
        watts = self._meter.per_second(start, seconds)
        self._meter.forget_before(start)
        return watts

    def conditions(self) -> dict[str, Any]:
        """Returns the sources that were read, and the absent ones with reasons, for the result."""
        read = [sensor.source for sensor in self._sensors]
        if self._meter is not None:
            read.append(f"drive power (meter's file {self._power})")
        said: dict[str, Any] = {
            "read": read,
            "absent": [asdict(absent) for absent in self._absent],
            "seconds": len(self.samples),
            "missed_seconds": self.missed_s,
        }
        if self.failures:
            said["failed"] = dict(self.failures)
        if self._meter is not None and self._meter.lines_refused:
            said["meter_lines_refused"] = self._meter.lines_refused
        return said

    def mean(self, name: str) -> float | None:
        """Mean of one figure over all readings of the test; None without any."""
        found = [values[name] for _, values in list(self.samples) if name in values]
        return sum(found) / len(found) if found else None


@dataclass(frozen=True)
class Phase:
    """One phase's share of the readings; `power_w` is a meter's mean per second."""

    samples: list[tuple[float, Values]]
    zero: float
    seconds: int
    power_w: npt.NDArray[np.float64] | None

    def column(self, name: str) -> list[float | None]:
        """Interpolates a figure at the middle of each second, from the two readings around it."""
        if name == "drive.power_w" and self.power_w is not None:
            return [None if np.isnan(watts) else float(watts) for watts in self.power_w]
        found = [(at - self.zero, values[name]) for at, values in self.samples if name in values]
        if not found:
            return [None] * self.seconds
        times, readings = (np.array(part) for part in zip(*found, strict=True))
        middles = np.arange(self.seconds) + 0.5
        after = np.searchsorted(times, middles)
        nearest = np.minimum(
            np.abs(middles - times[np.maximum(after - 1, 0)]),
            np.abs(times[np.minimum(after, len(times) - 1)] - middles),
        )
        inner = np.interp(middles, times, readings)
        return [
            float(value) if gap <= NEAREST_S else None
            for value, gap in zip(inner, nearest, strict=True)
        ]

    def table(self) -> pa.Table:
        """Returns all readings, in the order of time and name."""
        rows = [
            (at - self.zero, name, value)
            for at, values in self.samples
            for name, value in sorted(values.items())
        ]
        if self.power_w is not None:
            watts = enumerate(self.power_w.tolist())
            rows += [(second + 0.5, "drive.power_w", w) for second, w in watts if not np.isnan(w)]
            rows.sort(key=lambda row: row[:2])
        return from_rows(rows, TELEMETRY_SCHEMA)


def power_source(power: str) -> Sensor | Meter:
    """Opens the source that `--power` names: a meter's file, or a sensor of hwmon. Raises UserError
    or EnvironmentProblem if it is neither, or cannot be read.
    """
    path = Path(power)
    if path.suffix.lower() == ".csv" or path.is_file():
        return Meter(path)
    return sensors.of_power(power)


def check_power(power: str | None) -> None:
    """Raises now the error that a wrong `--power` would raise once the review runs."""
    if power is not None and isinstance(source := power_source(power), Sensor):
        with contextlib.closing(source):
            source.read()
