"""Parts of a test's data with rules of their own: contents of writes, rounds until steady, scores.

Sources: fio's HOWTO for the contents (`buffer_compress_percentage`, `zero_buffers`); SNIA Solid
State Storage Performance Test Specification 2.0.1 for rounds and steady state: over a window of
five rounds the highest and lowest rate differ by at most 20 % of their mean, and the least-squares
line rises or falls over the window by at most 10 % of it; at most 25 rounds. fio's own
`steadystate=` differs: its slope is per interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

Percent = Annotated[float, Field(gt=0, le=100)]


def _plain(value: float) -> int | float:
    """Converts whole numbers to int, also in JSON: 70.0 and 70 are the same load with the same
    seed.
    """
    return int(value) if value == int(value) else value


# Share of a load's requests in per cent; the core checks it.
Share = Annotated[float, AfterValidator(_plain), PlainSerializer(_plain, return_type=Any)]


class Data(BaseModel):
    """Base of the model's classes: checked on construction, and immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Window:
    """One window of rounds: its excursions in percent of its mean, and whether they are within
    the limits. `line` is the least-squares line's value in the first round, and its rise per round.
    """

    range_percent: float
    slope_percent: float
    steady: bool
    mean: float
    line: tuple[float, float]


class Steady(Data):
    """Criterion for steady rounds; the defaults are SNIA's."""

    window_rounds: Annotated[int, Field(ge=2, le=100)] = 5
    range_percent: Percent = 20.0
    slope_percent: Percent = 10.0
    rounds_max: Annotated[int, Field(ge=2, le=1000)] = 25

    @model_validator(mode="after")
    def _window_fits(self) -> Steady:
        if self.window_rounds > self.rounds_max:
            raise ValueError("window_rounds must be at most rounds_max")
        return self

    def window(self, rates: Sequence[float]) -> Window | None:
        """Evaluates the last window of these rounds' rates; None while there are too few.

        >>> falling = Steady().window([52582, 51813, 49358, 47462, 38738])
        >>> round(falling.range_percent, 1), round(falling.slope_percent, 1), falling.steady
        (28.8, 26.7, False)
        >>> Steady().window([100, 104, 98, 102, 101]).steady
        True
        """
        if len(rates) < self.window_rounds:
            return None
        last = list(rates)[-self.window_rounds :]
        count = len(last)
        mean, middle = sum(last) / count, (count - 1) / 2
        rise = sum((index - middle) * rate for index, rate in enumerate(last))
        slope = rise / sum((index - middle) ** 2 for index in range(count))
        line = (mean - slope * middle, slope)
        if mean <= 0:
            return Window(0.0, 0.0, False, mean, line)
        range_percent = 100 * (max(last) - min(last)) / mean
        slope_percent = 100 * abs(slope) * (count - 1) / mean
        allowed = range_percent <= self.range_percent and slope_percent <= self.slope_percent
        return Window(range_percent, slope_percent, allowed, mean, line)

    def run(self, measured: Callable[[int], float]) -> tuple[list[float], Window | None]:
        """Runs rounds until they are steady or `rounds_max` is reached; returns their rates, and
        the last window. `measured`: runs a round, by its number from 0, and returns its rate.
        """
        rates: list[float] = []
        window = None
        while len(rates) < self.rounds_max and not (window and window.steady):
            rates.append(measured(len(rates)))
            window = self.window(rates)
        return rates, window


# Names of contents in a suite's file, each with the compressible percentage.
WORDS = {"random": 0, "zero": 100}


class Content(Data):
    """Content of writes: "random" data, "zero"s, or `{ compressible_percent = 30 }`, in short 30.

    In partly compressible data this share of every 4 KiB is zeros, the rest is random. Reads return
    the written data. Virtual drives do not compress: it makes no difference to them.

    >>> Content.model_validate("zero").compressible_percent
    100
    """

    compressible_percent: Annotated[int, Field(ge=0, le=100)] = 0

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        if isinstance(given, str) and given in WORDS:
            return {"compressible_percent": WORDS[given]}
        if type(given) is int:
            return {"compressible_percent": given}
        if not isinstance(given, dict | Content):
            raise ValueError(
                f'{given!r} is not allowed; must be "random", "zero" or '
                "{ compressible_percent = 30 }"
            )
        return given

    def words(self) -> str:
        """Describes the content.

        >>> Content(compressible_percent=30).words()
        '30 % compressible data'
        """
        names = {percent: f"{name} data" for name, percent in WORDS.items()}
        percent = self.compressible_percent
        return names.get(percent, f"{percent} % compressible data")


class Rounds(Steady):
    """The phases are one round, repeated until the `tracked` phases are steady.

    `tracked` are labels of phases, all of which must be steady, by their rate or by their mean
    latency. Figures are computed from the last `window_rounds` rounds together.
    """

    tracked: Annotated[tuple[str, ...], Field(min_length=1)]
    variable: Literal["iops", "latency"] = "iops"


class Score(Data):
    """Points computed from several phases' data rates: a weighted sum, or a weighted geometric
    mean.

    `terms` gives each phase's weight. Rates are in MB/s of 10^6 bytes, or in MiB/s; the result is
    multiplied by `factor`. `source` names the origin of formula and weights, or states that they
    are chosen here.

    >>> half = Score(key="s", label="S", rule="sum", terms={"read": 2.0, "write": 1.0}, factor=0.5,
    ...              source="chosen here")
    >>> half.points({"read": 100.0, "write": 50.0})
    125.0
    """

    key: str
    label: Annotated[str, Field(min_length=1, max_length=60)]
    rule: Literal["sum", "geometric-mean"]
    terms: Annotated[dict[str, Annotated[float, Field(gt=0, le=1e6)]], Field(min_length=1)]
    factor: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    rate_unit: Literal["MB/s", "MiB/s"] = "MB/s"
    source: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _key_is_a_word(self) -> Score:
        if not self.key.isidentifier() or self.key != self.key.lower():
            raise ValueError(f"key: {self.key!r} is not allowed; must be a word in lower case")
        return self

    def points(self, rates_mb_s: dict[str, float]) -> float | None:
        """The score for these rates (10^6 bytes/s by phase); None if one is missing or zero."""
        mega = 2**20 / 1e6 if self.rate_unit == "MiB/s" else 1.0
        rates = {label: rates_mb_s.get(label, 0.0) / mega for label in self.terms}
        if min(rates.values()) <= 0:
            return None
        if self.rule == "sum":
            return self.factor * sum(weight * rates[label] for label, weight in self.terms.items())
        whole = sum(self.terms.values())
        powers = (rates[label] ** (weight / whole) for label, weight in self.terms.items())
        return self.factor * float(math.prod(powers))
