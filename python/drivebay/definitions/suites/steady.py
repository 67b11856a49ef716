"""Steady state as SNIA defines it: by the range and the slope of a tracked rate over some rounds.

Source: SNIA Solid State Storage Performance Test Specification 2.0.1, definition of steady state:
over a window of five rounds the highest and lowest rate differ by at most 20 % of their mean, and
the least-squares line rises or falls over the window by at most 10 % of it; at most 25 rounds.
fio's own `steadystate=` is another thing: its slope is per interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

Percent = Annotated[float, Field(gt=0, le=100)]


@dataclass(frozen=True)
class Window:
    """One window of rounds: its excursions in percent of its mean, and whether they are allowed."""

    range_percent: float
    slope_percent: float
    steady: bool


class Steady(BaseModel):
    """When rounds are steady; the defaults are SNIA's."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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
        """The last window of these rounds' rates; None while there are too few.

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
        mean = sum(last) / count
        if mean <= 0:
            return Window(0.0, 0.0, False)
        middle = (count - 1) / 2
        rise = sum((index - middle) * rate for index, rate in enumerate(last))
        run = sum((index - middle) ** 2 for index in range(count))
        range_percent = 100 * (max(last) - min(last)) / mean
        slope_percent = 100 * abs(rise / run) * (count - 1) / mean
        allowed = range_percent <= self.range_percent and slope_percent <= self.slope_percent
        return Window(range_percent, slope_percent, allowed)
