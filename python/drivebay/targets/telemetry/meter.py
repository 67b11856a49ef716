"""Power from a CSV file that a meter is writing, joined to the phases by the time of day.

The file has a header. Its time is in the column "time" or "timestamp": seconds or milliseconds
since 1970, or ISO 8601 (local time where no zone is given). Columns are separated by commas, or by
semicolons or tabs, with decimal commas then. Its power is in "power_w" or
"power_mw", or the product of "voltage_v" and "current_a". Other columns do not matter. It is UTF-8,
or UTF-16. Only what was added since the last look is read.

Leaves out: any difference between the meter's clock and this host's. Effect: such a difference
moves the power against the load by as much.
"""

from __future__ import annotations

import codecs
import math
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from drivebay.common import documents
from drivebay.common.errors import UserError
from drivebay.common.files import system_errors

# Longest gap between two readings; within a longer gap the power is unknown; guess: meters log
# each second.
GAP_S = 3.0
# Larger times are milliseconds: as seconds, this is the year 5138.
MILLISECONDS_FROM = 1e11
EXAMPLE = "write a header, for example: time,power_w"


class Meter:
    """The readings of a meter's file, oldest first. Raises UserError if it has no header with a
    time and a power; EnvironmentProblem if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = ""
        self._times: list[float] = []
        self._watts: list[float] = []
        self.lines_refused = 0
        with system_errors(
            f"--power: {path} cannot be read", "have the meter write it before the review begins"
        ):
            with path.open("rb") as file:
                encoding = documents.encoding(file.read(4))
            self._letter_bytes = {"utf-16": 2, "utf-32": 4}.get(encoding[:6], 1)
            self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
            first, *self._ahead = self._lines() or [self._rest]
        self._separator = next((mark for mark in ";\t" if mark in first), ",")
        words = self._cells(first)
        self._header = [word.strip().lower() for word in words]
        known = set(self._header)
        self._time = next((name for name in ("time", "timestamp") if name in known), "")
        power = known & {"power_w", "power_mw"} or {"voltage_v", "current_a"} <= known
        if not self._time or not power:
            raise UserError(
                f"--power: the header of {path} has no time and power; it is {words!r}", EXAMPLE
            )

    def read_on(self) -> None:
        """Reads the lines added to the file; an unfinished last line is left for the next time."""
        try:
            lines = self._ahead + self._lines()
        except OSError:
            return
        self._ahead = []
        for line in filter(None, lines):
            row = dict(zip(self._header, self._cells(line), strict=False))
            try:
                at, watts = _seconds(row[self._time]), _watts(row)
                if self._times and at < self._times[-1]:
                    raise ValueError("earlier than the line before")
            except (KeyError, TypeError, ValueError, OverflowError, OSError):
                self.lines_refused += 1
                continue
            self._times.append(at)
            self._watts.append(watts)

    def _cells(self, line: str) -> list[str]:
        """Cells of a line, with decimal points."""
        if self._separator != ",":
            line = line.replace(",", ".").replace(self._separator, ",")
        return next(documents.csv_rows([line]), [])

    def _lines(self) -> list[str]:
        """Returns complete lines that were added; zeros at the end are space that was not written
        yet.
        """
        with self._path.open("rb") as file:
            file.seek(self._offset)
            added = file.read(documents.KEPT_BYTES_MAX)
        written = len(added.rstrip(b"\0"))
        added = added[: -(-written // self._letter_bytes) * self._letter_bytes]
        self._offset += len(added)
        *lines, self._rest = (self._rest + self._decoder.decode(added)).split("\n")
        return [line.strip("\0\r") for line in lines]

    @property
    def latest(self) -> float:
        """Time of the last reading in seconds since 1970; 0 without any."""
        return self._times[-1] if self._times else 0.0

    def forget_before(self, at: float) -> None:
        """Drops the readings before this time, except for the last of them."""
        keep = max(0, int(np.searchsorted(self._times, at)) - 1)
        del self._times[:keep], self._watts[:keep]

    def per_second(self, start: float, seconds: int) -> npt.NDArray[np.float64]:
        """Mean watts per second from `start` (seconds since 1970) on; NaN where unknown."""
        ends = start + np.arange(seconds + 1)
        times, watts = np.array(self._times), np.array(self._watts)
        mean = np.full(seconds, np.nan)
        if len(times) < 2:
            return mean
        inside = np.searchsorted(times, ends)
        for second in range(seconds):
            low, high = inside[second], inside[second + 1]
            if high > low:
                mean[second] = watts[low:high].mean()
            elif 0 < low < len(times) and times[low] - times[low - 1] <= GAP_S:
                mean[second] = np.interp(ends[second] + 0.5, times, watts)
        return mean


def _seconds(text: str) -> float:
    try:
        at = float(text)
    except ValueError:
        return datetime.fromisoformat(text.strip()).timestamp()
    if not 0 < at < math.inf:
        raise ValueError(text)
    return at / 1000 if at > MILLISECONDS_FROM else at


def _watts(row: dict[str, str]) -> float:
    if "power_w" in row:
        watts = float(row["power_w"])
    elif "power_mw" in row:
        watts = float(row["power_mw"]) / 1000
    else:
        watts = float(row["voltage_v"]) * float(row["current_a"])
    if not 0 <= watts < 1e6:
        raise ValueError(watts)
    return watts
