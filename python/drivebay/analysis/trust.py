"""Known errors of the model: tests and figures whose published rows it misses by far.

Sources: published/computed/ (the values that `drivebay validate` reproduced for every published
row) and published/validation.toml (the test and figure that correspond to a row). A row about one
figure applies to that figure, a statement in words to its whole test. A drive without rows for a
test uses those of the catalog's other drives: the model is the same. Leaves out: rows relative to
another run, and those that another publication contradicts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drivebay.analysis import fidelity, published

# guess: an error by this factor changes a buyer's mind.
FAR = 1.5
FURTHEST = 2
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """The model's value for a published row: `times` is its ratio to the nearest end of the
    published range, 1 inside; `key` is the figure, "" for a statement about the whole test.
    """

    row: Row
    drive: str
    suite: str
    test: str
    key: str
    times: float

    @property
    def off(self) -> float:
        """Factor by which the value is too high or too low."""
        return max(self.times, 1 / self.times)

    @property
    def far(self) -> bool:
        """True if the row is missed by far."""
        return self.off >= FAR

    @property
    def source(self) -> str:
        """Publication of the row."""
        return published.figures()[self.row["id"]].source.partition(",")[0]

    @property
    def found(self) -> list[str]:
        """The publication's rank of the drive in this test if the model misses it, in quotes, and
        the statement: "does not do very well", about 40 MB/s.
        """
        known, own = published.figures(), published.figures()[self.row["id"]]
        missed = [known[row["id"]] for row in recorded() if not row["ok"]]
        ranks = [
            f"\N{LEFT DOUBLE QUOTATION MARK}{row.text}\N{RIGHT DOUBLE QUOTATION MARK}"
            for row in missed
            if (row.drive, row.test, row.metric) == (own.drive, own.test, "rank")
        ]
        return [*ranks, published.statement(own)]

    @property
    def words(self) -> str:
        """Describes the error: "3.0 times the published data rate"."""
        number = f"{self.times:.1f}" if self.times >= 1 else f"{self.times:.2f}"
        return f"{number} times the published {self.row['metric']}"

    def tells_of(self, key: str) -> bool:
        """True if the row concerns a figure: it is about this figure, or is a statement about
        the test's speed.
        """
        speed = any(word in self.row["metric"] for word in ("rate", "IOPS", "latency"))
        return self.key == key if self.key else speed


def doubt(drive: str | None, suite: str, test: str, key: str) -> Answer | None:
    """The worst far miss that concerns a figure; None if there is none. `drive`: name of the
    virtual drive's profile; None for a real drive, which is measured.
    """
    if drive is None:
        return None
    of_test = [answer for answer in answers() if (answer.suite, answer.test) == (suite, test)]
    known = [answer for answer in of_test if answer.drive == drive] or of_test
    telling = [answer for answer in known if answer.far and answer.tells_of(key)]
    return max(telling, key=lambda answer: answer.off) if telling else None


@functools.cache
def answers() -> tuple[Answer, ...]:
    """Values of the recorded run for every published row that corresponds to a test of a suite."""
    plan = published.table("validation")
    asked = {row["id"]: row for row in plan["row"]}
    return tuple(_answers(recorded(), asked, plan["tests"]))


def bounds(row: published.Published) -> tuple[float, float] | None:
    """Range that agrees with a published row, in the unit of our figures; None if unknown."""
    known = next((one["bounds"] for one in recorded() if one["id"] == row.id), None)
    factor = published.UNITS.get(row.printed_unit, ("", 1.0))[1]
    return None if known is None else (known[0] * factor, known[1] * factor)


def class_of(row_id: str) -> str:
    """Class of a published row for the model: "predicted", "fitted" or "contradicted"; "" if it is
    not known.
    """
    return next((str(row.get("class", "")) for row in recorded() if row["id"] == row_id), "")


def agreement(drive: str | None) -> str:
    """Result of `drivebay validate` for a drive, with the figures furthest off; "" without one."""
    document = fidelity.recorded()
    rows = [row for row in recorded() if row["drive"] == drive]
    scores = {**document.get("unscored", {}).get("drives", {}), **document.get("drives", {})}
    if not rows or drive not in scores:
        return ""
    off = [row for row in rows if not row["ok"]]
    far = sorted(off, key=lambda row: -abs(row["error_pct"] or 0.0))[:FURTHEST]
    predicted, share = scores[drive]["n_predicted"], scores[drive]["within_share"]
    text = f"{len(rows) - len(off)} of {len(rows)} published figures within their bounds"
    if predicted and share is not None:
        text += f", {round(predicted * share)} of {predicted} that were predicted"
    errors = [f" {row['error_pct']:+.1f} %" if row["error_pct"] else "" for row in far]
    named = [f"{r['test']}, {r['metric']}{error}" for r, error in zip(far, errors, strict=True)]
    text += f". Largest errors: {'; '.join(named)}" if named else ""
    return f"drivebay validate {drive}: {text}"


@functools.cache
def recorded() -> tuple[Row, ...]:
    """The rows of the recorded run of `drivebay validate`; empty if there is none."""
    return tuple(fidelity.recorded().get("rows", ()))


def _answers(run: tuple[Row, ...], asked: Mapping[str, Row], tests: Row) -> Iterator[Answer]:
    for row in run:
        asks = asked.get(row["id"], {})
        if {"over", "change", "conflict"} & asks.keys() or not _number(row["reproduced"]):
            continue
        runs = asks.get("runs") or [asks.get("value", "")]
        drives = {run_name.partition("/")[0] for run_name in runs}
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
    """The published range of a row; (0, 0) if it is not a range of numbers."""
    if _number(row["published"]):
        value = float(row["published"])
        if row["relation"] in ("eq", "approx"):
            return value, value
    ends = list(row.get("bounds") or [])
    known = len(ends) == 2 and all(map(_number, ends))
    return (float(ends[0]), float(ends[1])) if known else (0.0, 0.0)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
