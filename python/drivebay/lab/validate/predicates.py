"""Statements in words as checks: shapes, ranks, "better at all sizes".

Each takes the runs that its row names, in that order, and returns what came out (a number, or a few
words) and whether the statement holds. Where the words leave a limit open it stands here, named.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import numpy as np

from drivebay.analysis import Measured

Outcome = tuple[float | str, bool]

FEW_HUNDRED = (100.0, 999.0)
NEARLY_EQUAL = (0.85, 1.0)
NOT_REALLY_FASTER = (0.75, 1.25)
NOTABLE_DROP = 0.5
"""A second under this share of the median is a drop."""
REGULAR = 10
"""So many drops in the window at least."""
DOZENS = 12.0
SETTLE_PERCENT = 10.0


def _f(measured: Measured, key: str) -> float:
    value = measured.figures[key].value
    assert value is not None, key
    return value


def _rates(measured: Measured) -> list[float]:
    return [phase.step.rate_mb_s for phase in measured.phases]


def _mean(measured: Measured) -> float:
    return float(np.mean(_rates(measured)))


def _window(measured: Measured) -> np.ndarray:
    """The last 400 seconds of the first phase: IOPS of each."""
    return np.asarray(measured.phases[0].timeline.ios[-400:], dtype=float)


def _steady(measured: Measured) -> float:
    return float(_window(measured).mean())


def _variation(measured: Measured) -> float:
    ios = _window(measured)
    return float(ios.std() / ios.mean())


def _latency(measured: Measured) -> float:
    return _f(measured, "latency_mean")


def _times(value: float) -> str:
    return f"{value:.2f} times"


def _pairs(first: Measured, second: Measured) -> list[float]:
    return [a / b for a, b in zip(_rates(first), _rates(second), strict=True)]


def nearly_equal_below(runs: Sequence[Measured]) -> Outcome:
    """Steady IOPS of the first nearly those of the second, and below."""
    ratio = _steady(runs[0]) / _steady(runs[1])
    return _times(ratio), NEARLY_EQUAL[0] <= ratio < NEARLY_EQUAL[1]


def not_really_faster(runs: Sequence[Measured]) -> Outcome:
    """Steady IOPS of the first about those of the second."""
    ratio = _steady(runs[0]) / _steady(runs[1])
    return _times(ratio), NOT_REALLY_FASTER[0] <= ratio <= NOT_REALLY_FASTER[1]


def others_higher(runs: Sequence[Measured]) -> Outcome:
    """Steady IOPS of all others above those of the first."""
    lowest = min(_steady(run) for run in runs[1:])
    return f"at least {_times(lowest / _steady(runs[0]))}", lowest > _steady(runs[0])


def beats_all(runs: Sequence[Measured]) -> Outcome:
    """Steady IOPS of the first above those of all others."""
    highest = max(_steady(run) for run in runs[1:])
    return f"at least {_times(_steady(runs[0]) / highest)}", highest < _steady(runs[0])


def consistent(runs: Sequence[Measured]) -> Outcome:
    """No second of the steady state far from the rest."""
    worst = max(_variation(run) for run in runs)
    return f"deviation {100 * worst:.1f} % of the mean", worst < 0.1


def no_drops(runs: Sequence[Measured]) -> Outcome:
    """No second under half of the steady state's median."""
    ios = _window(runs[0])
    lowest = float(ios.min() / np.median(ios))
    return f"slowest second {100 * lowest:.0f} % of the median", lowest > NOTABLE_DROP


def drops(runs: Sequence[Measured]) -> Outcome:
    """Some seconds under half of the median."""
    ios = _window(runs[0])
    count = int((ios < NOTABLE_DROP * np.median(ios)).sum())
    return f"{count} of {len(ios)} seconds", count > 0


def drops_to_few_hundred(runs: Sequence[Measured]) -> Outcome:
    """Regular drops, the deepest to a few hundred IOPS."""
    ios = _window(runs[0])
    count = int((ios < NOTABLE_DROP * np.median(ios)).sum())
    holds = FEW_HUNDRED[0] <= ios.min() <= FEW_HUNDRED[1] and count >= REGULAR
    return f"{count} drops in {len(ios)} s, to {ios.min():.0f} IOPS", holds


def deviation_dozens(runs: Sequence[Measured]) -> Outcome:
    """The first's standard deviation over the median of the others'; a drive that does not vary
    counts as one I/O a second."""
    others = [max(1.0, float(_window(run).std())) for run in runs[1:]]
    ratio = float(_window(runs[0]).std() / np.median(others))
    return f"{ratio:.0f} times", ratio >= DOZENS


def more_consistent(runs: Sequence[Measured]) -> Outcome:
    """Mean over standard deviation of the first above the second's."""
    ratio = _variation(runs[1]) / max(_variation(runs[0]), 1e-9)
    return "steadier" if ratio > 1 else "not steadier", ratio > 1


def much_better(runs: Sequence[Measured]) -> Outcome:
    """Steady IOPS of the first far above the second's."""
    ratio = _steady(runs[0]) / _steady(runs[1])
    return _times(ratio), ratio > 1.5


def steady_from_1400(runs: Sequence[Measured]) -> Outcome:
    """From second 1,400 on the rate is that of the end."""
    ios = np.asarray(runs[0].phases[0].timeline.ios[1400:], dtype=float)
    off = 100 * (ios[:400].mean() / ios[-400:].mean() - 1)
    return f"{off:+.1f} % against the end", abs(off) <= SETTLE_PERCENT


def not_the_link(runs: Sequence[Measured]) -> Outcome:
    """Little of the time goes to the link."""
    share = sum(s.share_percent for s in runs[0].phases[0].stages if s.stage == "link")
    return f"{share:.1f} % of the time on the link", share < 10


def latency_gains_less(runs: Sequence[Measured]) -> Outcome:
    """The first gains less over the second in latency than in data rate."""
    latency = _latency(runs[1]) / _latency(runs[0])
    rate = _f(runs[0], "rate") / _f(runs[1], "rate")
    return f"{_times(latency)} against {_times(rate)}", latency < rate


def lowest_latency(runs: Sequence[Measured]) -> Outcome:
    """The first has the lowest mean latency."""
    best = min(_latency(run) for run in runs[1:])
    return f"{_latency(runs[0]):.0f} us, next {best:.0f} us", _latency(runs[0]) < best


def most_over_10(runs: Sequence[Measured]) -> Outcome:
    """The first has the most I/Os over 10 ms."""
    worst = max(_f(run, "over_10_ms") for run in runs[1:])
    mine = _f(runs[0], "over_10_ms")
    return f"{mine:.2f} %, most of the others {worst:.2f} %", mine > worst


def least_over_100(runs: Sequence[Measured]) -> Outcome:
    """The first has the fewest I/Os over 100 ms."""
    best = min(_f(run, "over_100_ms") for run in runs[1:])
    mine = _f(runs[0], "over_100_ms")
    return f"{mine:.4f} %, least of the others {best:.4f} %", mine <= best


def slow_ones_10_to_100(runs: Sequence[Measured]) -> Outcome:
    """Of the I/Os over 10 ms, nearly all are under 100 ms."""
    over_10, over_100 = _f(runs[0], "over_10_ms"), _f(runs[0], "over_100_ms")
    share = 100 * (1 - over_100 / over_10) if over_10 else 0.0
    return f"{share:.1f} % of those over 10 ms", share > 95


def slowest_sata_ratio(runs: Sequence[Measured]) -> Outcome:
    """Data rate of the first over that of the slowest other."""
    return _f(runs[0], "rate") / min(_f(run, "rate") for run in runs[1:]), True


def drop_when_full(runs: Sequence[Measured]) -> Outcome:
    """Pairs of (empty, full): the first drive loses, and no more than the others at most."""
    lost = [100 * (1 - _f(full, "rate") / _f(empty, "rate"))
            for empty, full in zip(runs[::2], runs[1::2], strict=True)]  # fmt: skip
    words = f"{lost[0]:.0f} %, the others up to {max(lost[1:]):.0f} %"
    return words, 0 < lost[0] <= max(lost[1:])


def gain_beats_gain(runs: Sequence[Measured]) -> Outcome:
    """Latency: the first over the second gains more than the second over the third."""
    mine = _latency(runs[1]) / _latency(runs[0])
    before = _latency(runs[2]) / _latency(runs[1])
    return f"{_times(mine)} against {_times(before)}", mine > before


def rate_gain_beats_gain(runs: Sequence[Measured]) -> Outcome:
    """Data rate: the first over the second gains more than the second over the third."""
    mine, before = (_f(runs[i], "rate") / _f(runs[i + 1], "rate") for i in (0, 1))
    return f"{_times(mine)} against {_times(before)}", mine > before


def others_60_to_90(runs: Sequence[Measured]) -> Outcome:
    """Mean of the low depths of every drive in 60 to 90 MB/s."""
    rates = [_f(run, "mean_rate") for run in runs]
    return f"{min(rates):.0f} to {max(rates):.0f} MB/s", min(rates) >= 60 and max(rates) <= 90


def better_everywhere_most_deep(runs: Sequence[Measured]) -> Outcome:
    """The first faster at all depths than all others, and most so at the deepest."""
    best = np.max([_rates(run) for run in runs[1:]], axis=0)
    gains = np.asarray(_rates(runs[0])) / best
    words = ", ".join(f"{gain:.2f}" for gain in gains)
    return f"{words} times the best other", bool((gains > 1).all() and gains[-1] == gains.max())


def better_everywhere(runs: Sequence[Measured]) -> Outcome:
    """The first faster in every phase than all others."""
    gains = [gain for other in runs[1:] for gain in _pairs(runs[0], other)]
    return f"{min(gains):.2f} to {max(gains):.2f} times", min(gains) > 1


def better_at_low_depths(runs: Sequence[Measured]) -> Outcome:
    """The first noticeably faster at queue depths 1 and 2."""
    gains = [gain for other in runs[1:] for gain in _pairs(runs[0], other)[:2]]
    return f"{min(gains):.2f} times at least", min(gains) > 1.1


def rises_to_2_then_degrades(runs: Sequence[Measured]) -> Outcome:
    """Peak at queue depth 2, lower at 32."""
    rates = _rates(runs[0])
    words = ", ".join(f"{rate:.0f}" for rate in rates) + " MB/s"
    return words, rates[1] > rates[0] and max(rates) == rates[1] and rates[-1] < 0.98 * rates[1]


def first_falls_more(runs: Sequence[Measured]) -> Outcome:
    """The first ladder falls further from its highest rate to its last than the second."""
    falls = [100 * (1 - _rates(run)[-1] / max(_rates(run))) for run in runs]
    return f"{falls[0]:.0f} % against {falls[1]:.0f} %", falls[0] > falls[1]


def not_best(runs: Sequence[Measured]) -> Outcome:
    """Mean of the first's phases is not the highest."""
    best = max(_mean(run) for run in runs[1:])
    return f"{_mean(runs[0]):.0f} MB/s, best other {best:.0f} MB/s", _mean(runs[0]) < best


def best(runs: Sequence[Measured]) -> Outcome:
    """Mean of the first's phases is the highest."""
    other = max(_mean(run) for run in runs[1:])
    return f"{_mean(runs[0]):.0f} MB/s, best other {other:.0f} MB/s", _mean(runs[0]) > other


def good_at_80_20(runs: Sequence[Measured]) -> Outcome:
    """80 % reads at least twice as fast as the mixes with more writes."""
    rates = _rates(runs[0])
    return f"{rates[1]:.0f} MB/s", rates[1] > 2 * float(np.mean(rates[2:]))


def mixed_beyond_20(runs: Sequence[Measured]) -> Outcome:
    """Mean rate of the mixes with more than 20 % writes."""
    return float(np.mean(_rates(runs[0])[2:5])), True


def no_spike_at_writes(runs: Sequence[Measured]) -> Outcome:
    """Pure writes no faster than half again the mixes before."""
    rates = _rates(runs[0])
    return f"{rates[5]:.0f} MB/s", rates[5] < 1.5 * float(np.mean(rates[2:5]))


def bathtub(runs: Sequence[Measured]) -> Outcome:
    """Both ends above the lowest mix between."""
    words, holds = [], True
    for run in runs:
        rates = _rates(run)
        holds &= min(rates[0], rates[-1]) > min(rates[1:-1])
        words.append(f"{rates[0]:.0f} / {min(rates[1:-1]):.0f} / {rates[-1]:.0f}")
    return "; ".join(words) + " MB/s", holds


def first_loses_more(runs: Sequence[Measured]) -> Outcome:
    """Pairs (without heatsink, with): sequential writes lose more than random ones."""
    sequential = 1 - _rates(runs[0])[0] / _rates(runs[1])[0]
    random = 1 - _steady(runs[2]) / _steady(runs[3])
    return f"{100 * sequential:.0f} % against {100 * random:.0f} %", sequential > random


def draws_more(runs: Sequence[Measured]) -> Outcome:
    """Mean power of the first above all others'."""
    watts = [run.phases[0].step.power.mean for run in runs if run.phases[0].step.power]
    return f"{watts[0]:.1f} W against {max(watts[1:]):.1f} W", watts[0] > max(watts[1:])


def trim_works(runs: Sequence[Measured]) -> Outcome:
    """After TRIM as fast as the clean drive, within 10 %."""
    rates = _rates(runs[0])
    share = 100 * rates[-1] / rates[0]
    return f"yes: {share:.0f} % of the clean drive's rate", share > 90


def trimmed_reads_take_no_flash(runs: Sequence[Measured]) -> Outcome:
    """What is not mapped is answered without the flash: zeros."""
    flash = sum(s.share_percent for s in runs[0].phases[0].stages if s.stage in ("die", "nand"))
    return "all zeros" if flash == 0 else f"{flash:.1f} % of the time in flash", flash == 0


def ratios_median(runs: Sequence[Measured]) -> Outcome:
    """Median of the ratios of pairs of tests: data rate, or IOPS of a consistency run."""
    ratios = []
    for mine, other in zip(runs[::2], runs[1::2], strict=True):
        key = next(key for key in ("mean_iops", "mean_rate", "rate") if key in mine.figures)
        ratios.append(_f(mine, key) / _f(other, key))
    return float(np.median(ratios)), True


def worst_loss(runs: Sequence[Measured]) -> Outcome:
    """Pairs (without heatsink, with) of traces: the largest change of rate or latency."""
    changes = []
    for bare, cooled in zip(runs[::2], runs[1::2], strict=True):
        changes.append(100 * (1 - _f(bare, "rate") / _f(cooled, "rate")))
        changes.append(100 * (_latency(bare) / _latency(cooled) - 1))
    return max(changes), True


def slightly_higher(runs: Sequence[Measured]) -> Outcome:
    """Mean IOPS of the first's phases above the second's, by less than a third."""
    ratio = float(np.mean(_pairs(runs[0], runs[1])))
    return _times(ratio), 1.0 < ratio < 1.33


def slightly_lower(runs: Sequence[Measured]) -> Outcome:
    """Mean of the phases' rates below the second's, by less than a quarter."""
    ratio = float(np.mean(_pairs(runs[0], runs[1])))
    return _times(ratio), 0.75 < ratio < 1.0


def higher_in_all(runs: Sequence[Measured]) -> Outcome:
    """Every phase of the first faster."""
    gains = _pairs(runs[0], runs[1])
    return f"{min(gains):.2f} to {max(gains):.2f} times", min(gains) > 1


PREDICATES: dict[str, Callable[[Sequence[Measured]], Outcome]] = {
    name: value
    for name, value in list(globals().items())
    if inspect.isfunction(value) and not name.startswith("_")
}
"""Every function above, by its name in published/validation.toml."""
