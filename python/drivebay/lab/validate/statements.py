"""Published statements in words as numbers: ratios, shares, ranks.

Each function takes the runs that its row names, in that order, and returns one number, which the
row's range in published/validation.toml bounds on both sides. Where the words also say something
that a number cannot hold ("peak at queue depth 2"), a run without it has no number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import numpy as np

from drivebay.analysis import Measured
from drivebay.analysis.cache import NEVER_FELL, levels
from drivebay.analysis.figures import PhaseFigures
from drivebay.lab.validate.values import NotReached

NOTABLE_DROP = 0.5
"""A second under this share of the median is a drop."""
REGULAR = 10
"""Drops in the last 400 s from which on they are regular."""
SETTLED = 0.1
"""Relative distance from the end's rate within which a drive is in steady state."""
SMOOTHED_S = 100
MINUTE_S = 60
FULL_READ_RATE_MB_S = (60.0, 90.0)


def _f(measured: Measured, key: str) -> float:
    figure = measured.figures[key]
    if figure.value is None:
        raise NotReached(figure.note or "not measured")
    return figure.value


def _rates(measured: Measured) -> np.ndarray:
    return np.asarray([phase.step.rate_mb_s for phase in measured.phases])


def _window(measured: Measured) -> np.ndarray:
    """IOPS of each second of the window of steady state: the last 400 s if the test has none."""
    seconds = round(measured.test.metric_window_s or 400)
    return np.asarray(measured.phases[0].timeline.ios[-seconds:], dtype=float)


def _steady(measured: Measured) -> float:
    return float(_window(measured).mean())


def _variation(measured: Measured) -> float:
    ios = _window(measured)
    return float(ios.std() / ios.mean())


def _latency(measured: Measured) -> float:
    return _f(measured, "latency_mean")


def _over(top: float, bottom: float, none: str) -> float:
    if bottom <= 0:
        raise NotReached(none)
    return top / bottom


def _gains(runs: Sequence[Measured]) -> np.ndarray:
    """Each phase's rate of the first run over that of every other one, a row each."""
    return np.asarray([_rates(runs[0]) / _rates(run) for run in runs[1:]])


def steady_ratio(runs: Sequence[Measured]) -> float:
    """Steady IOPS of the first over the second's."""
    return _steady(runs[0]) / _steady(runs[1])


def steady_over_best(runs: Sequence[Measured]) -> float:
    """Steady IOPS of the first over the highest of the others'."""
    return _steady(runs[0]) / max(_steady(run) for run in runs[1:])


def lowest_steady_over_first(runs: Sequence[Measured]) -> float:
    """The lowest steady IOPS of the others over the first's."""
    return min(_steady(run) for run in runs[1:]) / _steady(runs[0])


def variation_percent(runs: Sequence[Measured]) -> float:
    """Coefficient of variation of the seconds in steady state, %; of several runs the one that is
    farthest from 2 %, the middle of what is plausible."""
    found = [100 * _variation(run) for run in runs]
    return max(found, key=lambda one: abs(np.log(max(one, 1e-9) / 2)))


def slowest_second(runs: Sequence[Measured]) -> float:
    """Slowest second of the steady state, share of the median."""
    ios = _window(runs[0])
    return float(ios.min() / np.median(ios))


def drop_seconds(runs: Sequence[Measured]) -> float:
    """Share of the steady state's seconds under half of the median, %."""
    ios = _window(runs[0])
    return float(100 * (ios < NOTABLE_DROP * np.median(ios)).mean())


def lowest_of_regular_drops(runs: Sequence[Measured]) -> float:
    """IOPS of the slowest second, if the drops come regularly."""
    ios = _window(runs[0])
    count = int((ios < NOTABLE_DROP * np.median(ios)).sum())
    if count * 400 < REGULAR * len(ios):
        raise NotReached(f"{count} drops in {len(ios)} s, the deepest to {ios.min():.0f} IOPS")
    return float(ios.min())


def deviation_over_steadiest(runs: Sequence[Measured]) -> float:
    """Standard deviation of the first over that of the steadiest of the others."""
    least = min(float(_window(run).std()) for run in runs[1:])
    return _over(float(_window(runs[0]).std()), least, "a drive that does not vary at all")


def variation_ratio(runs: Sequence[Measured]) -> float:
    """Coefficient of variation of the second over the first's."""
    return _over(_variation(runs[1]), _variation(runs[0]), "a drive that does not vary at all")


def settles_after_s(runs: Sequence[Measured]) -> float:
    """Second from which on the rate, smoothed over 100 s, stays near that of the end."""
    ios = np.asarray(runs[0].phases[0].timeline.ios, dtype=float)
    width = min(SMOOTHED_S, len(ios) // 4)
    smooth = np.convolve(ios, np.ones(width) / width, mode="valid")
    off = np.flatnonzero(abs(smooth / smooth[-width:].mean() - 1) > SETTLED)
    return float(off[-1] + 1 if len(off) else 1)


def flash_percent(runs: Sequence[Measured]) -> float:
    """Share of the commands' time that dies and their channels take, %."""
    stages = runs[0].phases[0].stages
    return sum(s.share_percent for s in stages if s.stage in ("die", "nand", "channel"))


def latency_gain_over_rate_gain(runs: Sequence[Measured]) -> float:
    """How much the first gains over the second in latency, over the same in data rate."""
    latency = _latency(runs[1]) / _latency(runs[0])
    return latency / (_f(runs[0], "rate") / _f(runs[1], "rate"))


def next_latency(runs: Sequence[Measured]) -> float:
    """Lowest mean latency of the others over the first's."""
    return min(_latency(run) for run in runs[1:]) / _latency(runs[0])


def over_10_ms_over_most(runs: Sequence[Measured]) -> float:
    """Share of I/Os over 10 ms of the first over the largest of the others'."""
    most = max(_f(run, "over_10_ms") for run in runs[1:])
    return _over(_f(runs[0], "over_10_ms"), most, "no I/O of the others is over 10 ms")


def over_100_ms_over_least(runs: Sequence[Measured]) -> float:
    """Share of I/Os over 100 ms of the first over the least of the others'."""
    least = min(_f(run, "over_100_ms") for run in runs[1:])
    none = f"{_f(runs[0], 'over_100_ms'):.4f} %, but another drive has none over 100 ms"
    return _over(_f(runs[0], "over_100_ms"), least, none)


def slow_ones_10_to_100(runs: Sequence[Measured]) -> float:
    """Of the I/Os over 10 ms, how many are under 100 ms, %."""
    over_10 = _f(runs[0], "over_10_ms")
    return 100 * (1 - _over(_f(runs[0], "over_100_ms"), over_10, "no I/O over 10 ms"))


def rate_over_slowest(runs: Sequence[Measured]) -> float:
    """Data rate of the first over that of the slowest other."""
    return _f(runs[0], "rate") / min(_f(run, "rate") for run in runs[1:])


def loss_when_full(runs: Sequence[Measured]) -> float:
    """Pairs of (empty, full): what the first drive loses, %, if another loses as much."""
    lost = [100 * (1 - _f(full, "rate") / _f(empty, "rate"))
            for empty, full in zip(runs[::2], runs[1::2], strict=True)]  # fmt: skip
    if lost[0] > max(lost[1:]):
        raise NotReached(f"loses {lost[0]:.0f} %, the others at most {max(lost[1:]):.0f} %")
    return lost[0]


def latency_gain_over_gain(runs: Sequence[Measured]) -> float:
    """Gain in latency of the first over the second, over that of the second over the third."""
    return (_latency(runs[1]) / _latency(runs[0])) / (_latency(runs[2]) / _latency(runs[1]))


def rate_gain_over_gain(runs: Sequence[Measured]) -> float:
    """Gain in rate of the first over the second, over that of the second over the third, if the
    second gains at all."""
    mine, before = (_f(runs[i], "rate") / _f(runs[i + 1], "rate") for i in (0, 1))
    if before <= 1.02:
        raise NotReached(f"the second gains nothing over the third: {before:.2f} times")
    return mine / before


def farthest_read_rate(runs: Sequence[Measured]) -> float:
    """Of the drives' mean rates of low depths the one that is farthest from 60 to 90 MB/s, MB/s."""
    middle = float(np.sqrt(np.prod(FULL_READ_RATE_MB_S)))
    return max((_f(run, "mean_rate") for run in runs), key=lambda one: abs(np.log(one / middle)))


def least_gain_if_most_when_deep(runs: Sequence[Measured]) -> float:
    """Least gain over the best other of all depths, if the deepest gains most."""
    gains = _gains(runs).min(axis=0)
    if gains[-1] < gains.max():
        raise NotReached(", ".join(f"{gain:.2f}" for gain in gains) + " times the best other")
    return float(gains.min())


def least_gain(runs: Sequence[Measured]) -> float:
    """Least gain of all phases over any other."""
    return float(_gains(runs).min())


def mean_gain(runs: Sequence[Measured]) -> float:
    """Mean gain of the phases over the second."""
    return float(_gains(runs).mean())


def least_gain_at_low_depths(runs: Sequence[Measured]) -> float:
    """Least gain at queue depths 1 and 2 over any other."""
    return float(_gains(runs)[:, :2].min())


def last_depth_over_second(runs: Sequence[Measured]) -> float:
    """Rate at the last depth over that at queue depth 2, if that is the peak."""
    rates = _rates(runs[0])
    if not (rates[1] > rates[0] and rates.max() == rates[1]):
        raise NotReached(", ".join(f"{rate:.0f}" for rate in rates) + " MB/s")
    return float(rates[-1] / rates[1])


def fall_over_fall(runs: Sequence[Measured]) -> float:
    """How many times the first ladder falls from its highest rate to its last, over the second."""
    falls = [_rates(run).max() / _rates(run)[-1] for run in runs]
    return float(falls[0] / falls[1])


def mean_over_best(runs: Sequence[Measured]) -> float:
    """Mean of the first's phases over the highest of the others'."""
    return float(_rates(runs[0]).mean() / max(_rates(run).mean() for run in runs[1:]))


def second_mix_over_later(runs: Sequence[Measured]) -> float:
    """Rate with 80 % reads over the mean of the mixes with more writes."""
    rates = _rates(runs[0])
    return float(rates[1] / rates[2:].mean())


def mixed_beyond_20(runs: Sequence[Measured]) -> float:
    """Mean rate of the mixes with more than 20 % writes, MB/s."""
    return float(_rates(runs[0])[2:5].mean())


def pure_writes(runs: Sequence[Measured]) -> float:
    """Rate of the last mix, 100 % writes, MB/s."""
    return float(_rates(runs[0])[-1])


def bathtub(runs: Sequence[Measured]) -> float:
    """Lower end over the lowest mix between, of the drive that has least of it."""
    found = []
    for run in runs:
        rates = _rates(run)
        found.append(min(rates[0], rates[-1]) / rates[1:-1].min())
    return float(min(found))


def sequential_loss_over_random(runs: Sequence[Measured]) -> float:
    """Pairs (without heatsink, with): what sequential writes lose over what random ones lose."""
    sequential = 1 - _f(runs[0], "throttled_rate") / _rates(runs[1])[0]
    random = 1 - _steady(runs[2]) / _steady(runs[3])
    return _over(float(sequential), random, "random writes lose nothing")


def power_over_median(runs: Sequence[Measured]) -> float:
    """Mean power of the first over the median of the others'."""
    watts = [run.phases[0].step.power.mean for run in runs if run.phases[0].step.power]
    return float(watts[0] / np.median(watts[1:]))


def last_over_clean(runs: Sequence[Measured]) -> float:
    """Rate after TRIM over that of the clean drive."""
    rates = _rates(runs[0])
    return float(rates[-1] / rates[0])


def minute_behind(runs: Sequence[Measured]) -> float:
    """Mean rate of the first 60 s of a fill behind the cache, MB/s."""
    timeline = runs[0].phases[0].timeline
    found = levels(timeline)
    if len(found) < 2:
        raise NotReached(NEVER_FELL)
    begin = found[0].rate.n + 1  # the second of the fall holds a part of either rate
    return float(timeline.rate_mb_s[begin : begin + MINUTE_S].mean())


def end_over_behind(runs: Sequence[Measured]) -> float:
    """Rate of the last minute of a fill over that of the first one behind the cache."""
    return last_minute(runs) / minute_behind(runs)


def first_minute(runs: Sequence[Measured]) -> float:
    """Mean rate of the first 60 s, MB/s."""
    return float(runs[0].phases[0].timeline.rate_mb_s[:MINUTE_S].mean())


def last_minute(runs: Sequence[Measured]) -> float:
    """Mean rate of the last 60 s, MB/s."""
    return float(runs[0].phases[0].timeline.rate_mb_s[-MINUTE_S:].mean())


def throttled_seconds(runs: Sequence[Measured]) -> float:
    """Seconds of throttling until half of an erased drive is filled."""
    found = _labelled(runs[0], "filled-50").throttled_s
    if found is None:
        raise NotReached("throttling is not reported")
    return found


def rested_over_filled(runs: Sequence[Measured]) -> float:
    """Rate of the minute after a rest over that of the last minute before it, half of the drive
    filled."""
    before, after = (_labelled(runs[0], f"{one}-50").timeline for one in ("filled", "rested"))
    return float(after.rate_mb_s.mean() / before.rate_mb_s[-MINUTE_S:].mean())


def pause_over_filled(runs: Sequence[Measured]) -> float:
    """Rate of the first second after a pause of a second over that of the last minute before it."""
    filled, rested = (_labelled(runs[0], one).timeline for one in ("filled", "rested-1s"))
    return float(rested.rate_mb_s[0] / filled.rate_mb_s[-MINUTE_S:].mean())


def _labelled(measured: Measured, label: str) -> PhaseFigures:
    return next(phase for phase in measured.phases if phase.label == label)


def ratios_median(runs: Sequence[Measured]) -> float:
    """Median of the ratios of pairs of tests: data rate, or IOPS of a consistency run."""
    ratios = []
    for mine, other in zip(runs[::2], runs[1::2], strict=True):
        key = next(key for key in ("mean_iops", "mean_rate", "rate") if key in mine.figures)
        ratios.append(_f(mine, key) / _f(other, key))
    return float(np.median(ratios))


def worst_loss(runs: Sequence[Measured]) -> float:
    """Pairs (without heatsink, with) of traces: the largest change of rate or latency, %."""
    changes = []
    for bare, cooled in zip(runs[::2], runs[1::2], strict=True):
        changes.append(100 * (1 - _f(bare, "rate") / _f(cooled, "rate")))
        changes.append(100 * (_latency(bare) / _latency(cooled) - 1))
    return max(changes)


STATEMENTS: dict[str, Callable[[Sequence[Measured]], float]] = {
    name: value
    for name, value in list(globals().items())
    if inspect.isfunction(value) and not name.startswith("_")
}
"""Every function above, by its name in published/validation.toml."""
