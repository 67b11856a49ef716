"""Checked access to fio's JSON: every number is read here, and rejected if it is impossible.

Sources: RFC 8259 has no limits of numbers; Python reads 1e999 as infinity and takes NaN. fio counts
in 64 bits; JOBS_MAX is FIO_MAX_JOBS of its os/os.h.

Leaves out: consistency between figures; values that are not read are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drivebay.definitions.fio_options import number_of

# Bytes, I/Os or ns of a job: 38 GB/s for 30 days, three years; sums of a result have 64 bits.
FIGURE_MAX = 10**17
RUNTIME_MS_MAX = 2**32
JOBS_MAX = 4096


class Unreadable(ValueError):
    """A figure that is missing or impossible; the message names it and the allowed values."""


def is_possible(value: object, most: float = FIGURE_MAX) -> bool:
    """True if a figure can be one of fio's: a number that is not negative, NaN or above `most`.

    >>> is_possible(0.5), is_possible(float("inf")), is_possible(True), is_possible("1")
    (True, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


@dataclass(frozen=True)
class Part:
    """A value of fio's JSON, and its place there: "jobs[0].read".

    All its methods raise Unreadable, which names the place.

    >>> job = Part({"read": {"iops": 1e999}}, "jobs[0]")
    >>> job.of("read").number("iops")
    Traceback (most recent call last):
    ...
    drivebay.targets.fio.figures.Unreadable: jobs[0].read.iops: inf is not allowed; must be a \
number from 0 to 1e+17
    """

    value: Any
    where: str = ""

    def of(self, key: str, default: Any = None) -> Part:
        """Returns the table's value for a key; `default` if the value is missing or null."""
        value = self._table().get(key)
        value = default if value is None else value
        part = Part(value, f"{self.where}.{key}" if self.where else key)
        if value is None:
            raise Unreadable(f"{part.where} is missing")
        return part

    def each(self, key: str) -> list[Part]:
        """Returns the values of a list; an empty list if it is missing."""
        part = self.of(key, [])
        if not isinstance(part.value, list):
            raise part.refused("a list")
        return [Part(value, f"{part.where}[{n}]") for n, value in enumerate(part.value)]

    def text(self, key: str, default: str | None = None) -> str:
        """Returns a text."""
        part = self.of(key, default)
        if not isinstance(part.value, str):
            raise part.refused("a text")
        return part.value

    def texts(self) -> dict[str, str]:
        """Returns the whole table, whose values are texts; null is an empty one."""
        return {key: self.text(key, "") for key in self._table()}

    def number(self, key: str, default: float | None = None) -> float:
        """Returns a figure that may have a fraction."""
        part = self.of(key, default)
        if not is_possible(part.value):
            raise part.refused(f"a number from 0 to {FIGURE_MAX:.3g}")
        return float(part.value)

    def count(self, key: str, default: int | None = None, *, most: int = FIGURE_MAX) -> int:
        """Returns a whole-number figure, up to `most`."""
        return self.of(key, default)._whole(most)

    def setting(self, key: str, default: int, *, most: int) -> int:
        """Returns an option's text as a whole number up to `most`; `default` if the option is not
        set.
        """
        part = self.of(key, str(default))
        number = number_of(part.value) if isinstance(part.value, str) else None
        if number is None or number > most:
            raise part.refused(f"a whole number from 0 to {most} as text")
        return number

    def counts(self, key: str, most: int = FIGURE_MAX) -> Iterator[tuple[float, int]]:
        """Yields the entries of a table whose keys are figures as text, up to `most`, and whose
        values are counts.
        """
        part = self.of(key, {})
        for text, value in part._table().items():
            try:
                figure = float(text)
            except ValueError:
                figure = -1.0
            if not is_possible(figure, most):
                raise Part(text, part.where).refused(f"a number from 0 to {most:.3g}")
            yield figure, Part(value, f"{part.where}.{text}")._whole(FIGURE_MAX)

    def refused(self, allowed: str) -> Unreadable:
        """Returns the error that states the allowed values."""
        given = repr(self.value)
        given = given if len(given) <= 60 else f"{given[:57]}..."
        return Unreadable(f"{self.where}: {given} is not allowed; must be {allowed}")

    def _whole(self, most: int) -> int:
        if not is_possible(self.value, most) or self.value != int(self.value):
            raise self.refused(f"a whole number from 0 to {most:.3g}")
        return int(self.value)

    def _table(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.refused("a table")
        return self.value
