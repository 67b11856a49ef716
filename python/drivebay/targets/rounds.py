"""Runs a test's phases in order, or in rounds until steady; the last rounds form one result.

Source: SNIA Solid State Storage Performance Test Specification 2.0.1: figures are those of the
measurement window, the last five rounds; earlier rounds are kept as one number each.

Leaves out: the seconds of rounds before the window; only rate and latency of each are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drivebay.definitions.suites import Phase, Test
from drivebay.definitions.suites.parts import Window
from drivebay.results.records import HISTOGRAM_SCHEMA, PhaseResult

# Values kept for every round of a phase, as the metric `round_N_VALUE`; N counts from 1.
VALUES = ("iops", "latency_us", "latency_max_us")
# Fields of a phase's result that are added up over its rounds.
ADDED = ("duration_s", "reads", "writes", "read_bytes", "write_bytes")
SUMMED = {"energy_j", "throttled_s"}
HIGHEST = {"power_w_peak_1s", "power_w_peak_100ms"}


class Rounds:
    """Rounds of one test so far."""

    def __init__(self, test: Test) -> None:
        assert test.rounds is not None, "a test of another kind has no rounds"
        self._rule = test.rounds
        self._kept: deque[list[PhaseResult]] = deque(maxlen=self._rule.window_rounds)
        self._history: dict[str, list[tuple[float, float, float]]] = {}
        self.count = 0

    def add(self, results: list[PhaseResult]) -> None:
        """Adds one round: a result for each phase."""
        self.count += 1
        self._kept.append(results)
        for result in results:
            self._history.setdefault(result.label, []).append(_values(result))

    def windows(self) -> list[Window | None]:
        """Returns the last window of each tracked phase."""
        place = 0 if self._rule.variable == "iops" else 1
        return [
            self._rule.window([values[place] for values in self._history.get(label, [])])
            for label in self._rule.tracked
        ]

    @property
    def steady(self) -> bool:
        """True if all tracked phases were steady over the last rounds."""
        return all(window is not None and window.steady for window in self.windows())

    @property
    def over(self) -> bool:
        """True if no further round follows."""
        return self.steady or self.count >= self._rule.rounds_max

    def results(self) -> list[PhaseResult]:
        """Merges the last rounds of each phase, with every round's figures as metrics."""
        merged = [_merged(list(parts)) for parts in zip(*self._kept, strict=True)]
        for result in merged:
            for number, values in enumerate(self._history[result.label], start=1):
                for name, value in zip(VALUES, values, strict=True):
                    result.metrics[f"round_{number}_{name}"] = value
        merged[0].metrics["steady_rounds"] = float(self.count)
        merged[0].metrics["steady_reached"] = float(self.steady)
        return merged


def run(
    test: Test,
    phase: Callable[[Phase, int], PhaseResult],
    together: Callable[[tuple[Phase, ...]], list[PhaseResult]],
) -> list[PhaseResult]:
    """Runs all phases of a test, in rounds or once; `phase` runs one, given the number of the round
    from 0, `together` several at the same time.
    """
    if test.rounds is not None:
        rounds = Rounds(test)
        while not rounds.over:
            rounds.add([phase(one, rounds.count) for one in test.phases])
        return rounds.results()
    results: list[PhaseResult] = []
    for group in test.groups:
        reached = {one.label: (one.reads + one.writes) / one.duration_s for one in results}
        now = tuple(one.at_rate(reached) for one in group)
        results += together(now) if len(now) > 1 else [phase(now[0], 0)]
    return results


def _values(result: PhaseResult) -> tuple[float, float, float]:
    """Returns I/Os per second, mean and longest latency in microseconds of a round."""
    ios = np.asarray(pc.add(result.series["reads"], result.series["writes"]), dtype=float)
    mean, longest = (
        np.nan_to_num(result.series[name].to_numpy(zero_copy_only=False).astype(float))
        for name in ("latency_ns_mean", "latency_ns_max")
    )
    total = ios.sum()
    iops = (result.reads + result.writes) / result.duration_s if result.duration_s else 0.0
    mean_us = float((mean * ios).sum() / total) / 1e3 if total else 0.0
    return iops, mean_us, float(longest.max(initial=0.0)) / 1e3


def _merged(parts: list[PhaseResult]) -> PhaseResult:
    """Merges the same phase of several rounds as if it had run in one go."""
    first = parts[0]
    stages = [part.stages for part in parts if part.stages is not None]
    rows = [max(1, round(part.duration_s)) for part in parts]
    starts = [0, *np.cumsum(rows).tolist()]
    tables = [part.series.slice(0, count) for part, count in zip(parts, rows, strict=True)]
    return replace(
        first,
        **{name: sum(getattr(part, name) for part in parts) for name in ADDED},
        series=pa.concat_tables(map(_later, tables, starts)),
        histogram=_summed([part.histogram for part in parts]),
        stages=pa.concat_tables(map(_later, stages, starts)) if stages else None,
        metrics=_together(parts),
        artefacts={
            f"{place}-rounds-before-last-{name}" if place else name: content
            for place, part in enumerate(reversed(parts))
            for name, content in part.artefacts.items()
        },
        telemetry=parts[-1].telemetry,
    )


def _later(table: pa.Table, start: int) -> pa.Table:
    """Shifts the rows' seconds so that they count from `start` on."""
    place = table.schema.get_field_index("second")
    field = table.schema.field(place)
    seconds = np.asarray(table["second"]) + start
    return table.set_column(place, field, pa.array(seconds, field.type))


def _summed(tables: list[pa.Table]) -> pa.Table:
    """Adds counts of equal bins; the result is in the order of the bins."""
    keys = ["direction", "low_ns", "high_ns"]
    sums = pa.concat_tables(tables).group_by(keys).aggregate([("count", "sum")])
    sums = sums.sort_by([(key, "ascending") for key in keys])
    return sums.rename_columns([*keys, "count"]).cast(HISTOGRAM_SCHEMA)


def _together(parts: list[PhaseResult]) -> dict[str, float]:
    """Metrics of several rounds: sums, peaks, and means weighted by data written or by duration."""
    found: dict[str, float] = {}
    for name in parts[0].metrics:
        some = [part for part in parts if name in part.metrics]
        values = [part.metrics[name] for part in some]
        if name in SUMMED:
            found[name] = sum(values)
        elif name in HIGHEST:
            found[name] = max(values)
        elif len(some) == len(parts):
            weights = [p.write_bytes if name == "waf" else p.duration_s for p in some]
            found[name] = float(np.average(values, weights=weights))
    return found
