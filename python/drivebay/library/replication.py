"""Runs of a load with several seeds: means with confidence intervals, and paired comparisons."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from drivebay.analysis import replicates as statistics
from drivebay.analysis.replicates import CONFIDENCE, FEWEST, Estimate, Precision, next_look
from drivebay.common.errors import UserError
from drivebay.library.drives import Device, Drive
from drivebay.library.load import Trace, Workload, checked
from drivebay.library.result import Result

SEEDS_MAX = 1000

Figure = str | Callable[[Result], float]


@dataclass(frozen=True)
class Replicates:
    """Results of one load on new devices of one drive, one per seed.

    Attributes
    ----------
    seeds
        Seeds, in the order of the results.
    results
        `Result` for each seed.

    >>> from drivebay import drive, replicates
    >>> small = drive("sm951-nvme-512").scaled(1 / 64)
    >>> reads = Workload(read_percent=100, ios=5000)
    >>> base = replicates(small, reads, seeds=3)
    >>> slow = replicates(small.with_(link="pcie2x2"), reads, seeds=3)
    >>> slow.difference(base, "iops").high < 0
    True
    """

    seeds: tuple[int, ...]
    results: tuple[Result, ...]

    def values(self, figure: Figure = "iops") -> list[float]:
        """Figure of each result.

        Parameters
        ----------
        figure
            A numeric attribute of `Result` ("iops", "mb_per_s", "waf", "power_w" and others), or a
            function of a result: `lambda result: result.latency.percentile_us(99)`.

        Raises
        ------
        UserError
            If a result has no such figure.
        """
        return [_value(result, figure) for result in self.results]

    @property
    def unsteady(self) -> dict[int, str]:
        """Reasons why results are not those of a steady state, by seed; empty if all are."""
        pairs = zip(self.seeds, self.results, strict=True)
        return {seed: result.unsteady for seed, result in pairs if result.unsteady}

    def estimate(self, figure: Figure = "iops", *, confidence: float = CONFIDENCE) -> Estimate:
        """Mean of the figure with its confidence interval (Student's t over the seeds).

        Parameters
        ----------
        figure
            As for `values`.
        confidence
            0.95 for 95 %.
        """
        return statistics.estimate(self.values(figure), confidence=confidence)

    def difference(
        self, baseline: Replicates, figure: Figure = "iops", *, confidence: float = CONFIDENCE
    ) -> Estimate:
        """Mean of this figure minus that of the baseline, paired by seed (common random numbers):
        effects of a seed on both are not in the interval. Warns if all pairs are equal: then the
        changed value was never used, such as a victim policy without garbage collection.

        Raises
        ------
        UserError
            If the seeds are not the same.
        """
        if self.seeds != baseline.seeds:
            raise UserError(
                "the replicates have different seeds and cannot be paired",
                "give both the same: seeds=..., without until",
            )
        pairs = zip(self.results, baseline.results, strict=True)
        if all(result.core.after == other.core.after for result, other in pairs):
            warnings.warn(
                "both did the same in every run: what was changed cannot matter under this load",
                stacklevel=2,
            )
        mine, theirs = self.values(figure), baseline.values(figure)
        return statistics.difference(mine, theirs, confidence=confidence)

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        """Results, in the order of the seeds."""
        return iter(self.results)

    def __getitem__(self, index: int) -> Result:
        return self.results[index]


def replicates(
    drive: Drive,
    load: Workload | Trace,
    *,
    seeds: int | Sequence[int] = 10,
    until: str | None = None,
    figure: Figure = "iops",
    prepare: Callable[[Device], object] | None = None,
    progress: Callable[[int, Result], object] | None = None,
) -> Replicates:
    """Runs a load on a new device for each seed.

    Parameters
    ----------
    drive, load
        As for `run`; the load must not have a seed of its own, which would apply to all runs.
    seeds
        A list, or a number of seeds, counted from 1; with `until` the maximum.
    until
        Stop at a relative precision: "1% at 95%" is reached when half of the 95 % interval is at
        most 1 % of the mean, after at least 5 seeds. If it is not reached, all seeds are run.
    figure
        Figure that `until` refers to; as for `Replicates.values`.
    prepare
        Called with each new device before the load; by default the device is filled and idle for
        1,800 s.
    progress
        Called with the number of finished runs, and the result of the last one.

    Raises
    ------
    UserError
        If the drive cannot run the load, or seeds or precision are not possible.
    """
    if not isinstance(seeds, int | Sequence):
        raise UserError(f"replicates: seeds = {seeds!r} is not allowed", "seeds=10")
    chosen = tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds)
    if not 1 <= len(chosen) <= SEEDS_MAX or len(set(chosen)) < len(chosen):
        raise UserError(
            f"replicates: seeds = {seeds!r} is not allowed; must be 1 to {SEEDS_MAX}, none twice",
            "seeds=10",
        )
    if not isinstance(drive, Drive):
        raise UserError(f"{drive!r} is no drive", 'drivebay.drive("sm951-ahci-512")')
    if checked(load).seed is not None and len(chosen) > 1:
        raise UserError(
            f"replicates: the load has a seed of its own ({load.seed}), the same for all",
            "leave it out of the load",
        )
    precision = None
    if until is not None:
        try:
            precision = Precision.parse(until)
        except ValueError as problem:
            raise UserError(f"replicates: until: {problem}", 'until="1% at 95%"') from None
        figure = precision.figure or figure
    results: list[Result] = []
    values: list[float] = []
    look = FEWEST
    for seed in chosen:
        device = drive.device(seed=seed)
        (prepare or Device.prepare)(device)
        results.append(device.run(load, seed=seed))
        if progress is not None:
            progress(len(results), results[-1])
        if precision is not None:
            values.append(_value(results[-1], figure))
            if len(values) == look:
                if precision.is_met(values):
                    break
                look = next_look(look)
    return Replicates(chosen[: len(results)], tuple(results))


def _value(result: Result, figure: Figure) -> float:
    if callable(figure):
        return float(figure(result))
    value = getattr(result, figure, None) if not figure.startswith("_") else None
    if not isinstance(value, int | float):
        raise UserError(
            f"a result has no figure '{figure}'",
            "it has iops, mb_per_s, waf, power_w and others: help(drivebay.Result)",
        )
    return float(value)
