"""Where the model is known to be wrong: tests and figures whose published rows it misses by far.

Sources: published/computed/ (what `drivebay validate` reproduced of every published row)
and published/validation.toml (which test and figure answers a row). A row about one figure tells of
that figure, a statement in words of its whole test. A drive without rows of a test has those of the
catalog's other drives: the model is the same.
Left out: rows relative to another run, and those that another publication contradicts.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drivebay.analysis import fidelity
from drivebay.common import data

FAR = 1.5
"""guess: a figure so many times too high or too low changes a buyer's mind."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the model says to a published row: `times` the nearest end of what was published, 1
    inside; `key` is the figure, "" for a statement about the whole test."""

    row: Row
    drive: str
    suite: str
    test: str
    key: str
    times: float

    @property
    def off(self) -> float:
        """How many times too high or too low."""
        return max(self.times, 1 / self.times)

    @property
    def far(self) -> bool:
        """Whether it is missed by far."""
        return self.off >= FAR

    @property
    def words(self) -> str:
        """ "3.0 times the published data rate"."""
        number = f"{self.times:.1f}" if self.times >= 1 else f"{self.times:.2f}"
        return f"{number} times the published {self.row['metric']}"

    def tells_of(self, key: str) -> bool:
        """Whether it is about a figure: that very one, or a statement about the test's speed."""
        speed = any(word in self.row["metric"] for word in ("rate", "IOPS", "latency"))
        return self.key == key if self.key else speed


def doubt(drive: str | None, suite: str, test: str, key: str) -> Answer | None:
    """The worst far miss that tells of a figure; None where none is known. `drive`: name of the
    virtual drive's profile; None for a real drive, which is measured."""
    if drive is None:
        return None
    of_test = [one for one in answers() if (one.suite, one.test) == (suite, test)]
    known = [one for one in of_test if one.drive == drive] or of_test
    telling = [one for one in known if one.far and one.tells_of(key)]
    return max(telling, key=lambda one: one.off) if telling else None


@functools.cache
def answers() -> tuple[Answer, ...]:
    """What the recorded run says to every published row that a test of a suite answers."""
    folder = data.path("published")
    plan = tomllib.loads((folder / "validation.toml").read_text(encoding="utf-8"))
    asked = {row["id"]: row for row in plan["row"]}
    return tuple(_answers(recorded(), asked, plan["tests"]))


@functools.cache
def recorded() -> tuple[Row, ...]:
    """The rows of the recorded run of `drivebay validate`; none where it was never recorded."""
    return tuple(fidelity.recorded().get("rows", ()))


def _answers(run: tuple[Row, ...], asked: Mapping[str, Row], tests: Row) -> Iterator[Answer]:
    for row in run:
        asks = asked.get(row["id"], {})
        if {"over", "change", "conflict"} & asks.keys() or not _number(row["reproduced"]):
            continue
        runs = asks.get("runs") or [asks.get("value", "")]
        drives = {one.partition("/")[0] for one in runs}
        if len(drives) != 1 or len(parts := runs[0].split("/")) < 2:
            continue
        test = tests.get(parts[1], {})
        low, high = _ends(row)
        got = float(row["reproduced"])
        if "suite" not in test or low <= 0 or got <= 0:
            continue
        times = got / low if got < low else got / high if got > high else 1.0
        key = parts[2] if len(parts) > 2 else ""
        drive = parts[0].partition("+")[0].partition("@")[0]
        yield Answer(row, drive, test["suite"], test.get("test", parts[1]), key, times)


def _ends(row: Row) -> tuple[float, float]:
    """Between what a row was published; (0, 0) where that is no range of numbers."""
    if _number(row["published"]):
        value = float(row["published"])
        if row["relation"] in ("eq", "approx"):
            return value, value
    ends = list(row.get("bounds") or [])
    known = len(ends) == 2 and all(map(_number, ends))
    return (float(ends[0]), float(ends[1])) if known else (0.0, 0.0)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
