"""Verdict and conclusion of a review, in sentences.

Every sentence contains a figure and, for virtual drives, its cause. A figure that the model is
known to miss by far (`analysis.trust`) counts neither as a strength nor as a weakness. Figures
within `TIE_PERCENT` share a rank.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drivebay.analysis import Measured, explain, trust
from drivebay.analysis.consistency import Consistency
from drivebay.analysis.stages import StageShare, meaning
from drivebay.analysis.thermal import Thermal
from drivebay.report import kinds
from drivebay.report.base.figures import TIE_PERCENT, ranks
from drivebay.report.base.runs import Entry, runs_of
from drivebay.report.base.text import inside, percent, quantity
from drivebay.report.kinds.generic import LOWER, BarOf
from drivebay.report.peers import competitors
from drivebay.report.peers.digest import Json

KEY_KINDS = {
    "cache": 1,
    "consistency": 1,
    "idle": 1,
    "ladder": 4,
    "ladders": 1,
    "mixed": 1,
    "qos": 3,
    "rounds": 3,
    "saturation": 1,
    "thermal": 1,
    "trace": 1,
    "waf": 1,
}
"""Number of key tests of each kind."""
WORTH_PERCENT = 10.0
"""Smallest heat loss, or difference from other drives, that a sentence mentions."""
RIVALS = 2
AGAINST_MAX = 4
USES = {
    ("ladder", "random", 100): "booting and starting applications, which read in small blocks",
    ("ladder", "random", 0): "short bursts of small writes, such as mail and small databases",
    ("ladder", "sequential", 100): "loading games and playing media",
    ("ladder", "sequential", 0): "copying and recording large files",
    ("consistency", "random", 0): "servers and virtual machines with sustained random writes",
    ("mixed", "random", 100): "many small reads and writes at the same time",
    ("mixed", "sequential", 100): "reading and writing large files at the same time",
    ("trace", "random", 0): "heavy desktop use",
}
"""Use that a test represents, by its kind, its pattern and the first share of reads."""


@dataclass(frozen=True)
class Place:
    """Rank of a drive in one key figure. `times` is the ratio to the median of the other drives,
    above 1 if the drive is better."""

    measured: Measured
    bar: BarOf
    value: float
    rank: int
    count: int
    times: float

    @property
    def title(self) -> str:
        """Title of the test, for use inside a sentence."""
        return inside(self.measured.test.title)

    @property
    def text(self) -> str:
        """Rank as text: "rank 1 of 7, 1.5 times the median of the others"."""
        median = f"{self.times:.2g} times the median of the others"
        return f"rank {self.rank} of {self.count}, {median}"


def doubt(entry: Entry, measured: Measured, key: str, *, ranked: bool = False) -> str:
    """Reason not to trust a figure; "" if there is none. The figure of a real drive is measured,
    but with `ranked` it is compared with simulated ones."""
    miss = _miss(entry, measured, key, ranked=ranked)
    who = "the model" if entry.review.result.simulated else "the model of the other drives"
    return f"{who} is known to be wrong here: {miss.words}" if miss else ""


def _miss(entry: Entry, measured: Measured, key: str, *, ranked: bool) -> trust.Answer | None:
    result = entry.review.result
    drive = str(result.target["name"]) if result.simulated else "" if ranked else None
    return trust.doubt(drive, result.suite.name, measured.test.id, key)


def key_figures(entries: Sequence[Entry]) -> list[tuple[Measured, BarOf]]:
    """First trusted figure of each key test, in the order of the suite."""
    left = dict(KEY_KINDS)
    shown: list[tuple[Measured, BarOf]] = []
    charts: set[tuple[str, str]] = set()
    for measured, bar, trusted in _candidates(entries):
        test = measured.test
        is_shown = bool(bar.chart) and (test.page, bar.chart) in charts
        if trusted and left.get(test.kind) and not is_shown:
            charts.add((test.page, bar.chart))
            shown.append((measured, bar))
            left[test.kind] -= 1
    return shown


def _candidates(entries: Sequence[Entry]) -> Iterator[tuple[Measured, BarOf, bool]]:
    """First figure of every finished test of a key kind; True if it can be trusted."""
    tests = {test.id: test for entry in entries for test in entry.review.result.suite.tests}
    for test in tests.values():
        runs = runs_of(entries, [test.id])
        if not runs or test.kind not in KEY_KINDS:
            continue
        if test.kind == "ladder" and len(test.phases) < 2:
            continue
        bar = kinds.by_name(test.kind).bars(runs[0].measured)[0]
        doubts = [doubt(run.entry, run.measured, bar.key, ranked=True) for run in runs]
        yield runs[0].measured, bar, not any(doubts)


def places(entry: Entry, peers: Sequence[Json]) -> list[Place]:
    """Ranks of a drive in the key figures that all its peers have too."""
    places = []
    for measured, bar in key_figures([entry]):
        figure = measured.figures.get(bar.key)
        others = competitors.bars(peers, measured, bar.key, real=False)
        values = [other.value for other in others if other.value]
        known = bool(values) and len(values) == len(others)
        if figure is None or not figure.value or not known or not bar.better:
            continue
        sign = 1.0 if bar.better == LOWER else -1.0
        rank = ranks([*values, figure.value], sign)[-1]
        times = figure.value / statistics.median(values)
        times = times if sign < 0 else 1 / times
        places.append(Place(measured, bar, figure.value, rank, len(values) + 1, times))
    return places


def others_of(entry: Entry) -> str:
    """Names the group of drives that a drive is ranked among."""
    return "drives of its time" if competitors.dated(entry) else "the catalog's newest drives"


# --- the verdict ----------------------------------------------------------------------------------


def sentences(entry: Entry, peers: Sequence[Json]) -> list[str]:
    """Verdict: heat, sustained writes, rank among other drives, tests that the model misses."""
    tests = list(entry.review.tests.values())
    lines = [_heat(tests), _long_run(tests), _standing(entry, peers), _unranked(entry, peers)]
    return [line for line in lines if line]


def _heat(tests: Sequence[Measured]) -> str:
    """Time until sequential writes slow down, and the loss of random writes to heat."""
    lines = [_sequential(test.thermal) for test in tests if test.thermal][:1]
    if (share := _heat_share(tests)) >= WORTH_PERCENT:
        gain = 100 * share / (100 - share)
        lines.append(
            f"Thermal throttling accounts for {share:.0f} % of the latency of sustained random "
            f"writes; without it they would be {gain:.0f} % faster."
        )
    return " ".join(lines)


def _sequential(thermal: Thermal) -> str:
    """Course of sequential writes: the rate, and when and why it drops."""
    rate, seconds = quantity(round(thermal.before.mean), "MB/s"), thermal.before.n
    if thermal.fall_s is not None and thermal.after is not None:
        causes = {
            True: " (thermal throttling)",
            False: " (no throttling reported: the write cache is full)",
        }
        why = "" if thermal.by_heat is None else causes[thermal.by_heat]
        after = quantity(round(thermal.after.mean), "MB/s")
        line = f"Sequential write: {rate} for {thermal.fall_s:,} s, then {after}{why}."
        early = thermal.reported_s is not None and thermal.reported_s < thermal.fall_s
        if early:
            line += f" The drive reports throttling from {thermal.reported_s:,} s on."
        return line
    if (cut := thermal.throttling) is not None:
        longest = "" if cut.longest_s == cut.seconds else f", at most {cut.longest_s:,} s at a time"
        return (
            f"Sequential write: {quantity(round(cut.other.mean), 'MB/s')}, thermal throttling to "
            f"{quantity(round(cut.rate.mean), 'MB/s')} after {cut.start_s:,} s (for "
            f"{cut.seconds:,} of {seconds:,} s{longest})."
        )
    return f"Sequential write: {rate} on average over {seconds:,} s, no sustained drop."


def _heat_share(tests: Sequence[Measured]) -> float:
    """Share of throttling in the write latency of the first consistency test, in percent."""
    known = [test for test in tests if test.test.kind == "consistency" and test.phases]
    stages = known[0].phases[0].stages if known else ()
    return next((stage.share_percent for stage in stages if stage.stage == "throttle"), 0.0)


def _long_run(tests: Sequence[Measured]) -> str:
    """Course of sustained random writes: the initial burst, the rate after it, and the cause."""
    test = next((test for test in tests if test.consistency is not None), None)
    if test is None or test.consistency is None:
        return ""
    line = f"Sustained random write: {_course(test, test.consistency)}."
    stages = [stage for stage in test.phases[0].stages if stage.stage != "throttle"]
    largest = _largest(stages)
    if largest is not None and largest.share_percent >= WORTH_PERCENT:
        line += f" {_share(largest)} of the write latency."
    return line


def _course(test: Measured, consistency: Consistency) -> str:
    settled, burst = consistency.window, consistency.burst
    if burst is not None and consistency.burst_s:
        return (
            f"{quantity(burst.mean, 'IOPS')} for the first {consistency.burst_s:,} s, then "
            f"{quantity(settled.mean, 'IOPS')} over the last {settled.n:,} s "
            f"({100 * settled.mean / burst.mean:.0f} % of the initial rate)"
        )
    whole = test.steps[0].ios or settled
    spread = "" if whole.sd is None else f" (standard deviation {quantity(whole.sd, 'IOPS')})"
    mean = quantity(whole.mean, "IOPS")
    return f"{mean} on average over {whole.n:,} s{spread}, without an initial burst"


def _largest(stages: Sequence[StageShare]) -> StageShare | None:
    return max(stages, key=lambda stage: stage.share_percent, default=None)


def _share(stage: StageShare) -> str:
    """Beginning of a sentence: "Waiting for garbage collection accounts for 55 %"."""
    name = meaning(stage.stage)
    return f"{name[:1].upper()}{name[1:]} accounts for {stage.share_percent:.0f} %"


def _standing(entry: Entry, peers: Sequence[Json]) -> str:
    """Best and worst key figure among the other drives; without peers the range of data rates."""
    known = places(entry, peers)
    if len(known) < 2:
        return _range(entry)
    best, worst = max(known, key=_strength), min(known, key=_strength)
    if best.times < 1 and best.rank > 1:
        return (
            f"Below the median of {others_of(entry)} in every key figure: smallest gap in "
            f"{best.title} ({best.text}), largest in {worst.title} ({worst.text})."
        )
    line = f"Compared with {others_of(entry)}: strongest in {best.title} ({best.text})"
    if (1 / worst.times - 1) * 100 >= WORTH_PERCENT:
        return f"{line}, weakest in {worst.title} ({worst.text}{_reason(worst.measured)})."
    if worst.rank > 1:
        return f"{line}; lowest result in {worst.title} ({worst.text})."
    return f"{line}."


def _unranked(entry: Entry, peers: Sequence[Json]) -> str:
    """Key tests without a rank, because the model is known to miss their published figures."""
    if not entry.review.result.simulated or not peers:
        return ""
    misses = []
    for measured, bar, trusted in _candidates([entry]):
        miss = None if trusted else _miss(entry, measured, bar.key, ranked=True)
        if miss is not None:
            misses.append(f"{inside(measured.test.title)} ({miss.words})")
    if not misses:
        return ""
    return f"Not ranked, because the model is known to be wrong: {', '.join(misses)}."


def _range(entry: Entry) -> str:
    """Lowest and highest of all trusted data rates."""
    rates = [
        (figure.value, f"{inside(measured.test.title)}, {inside(figure.label)}")
        for measured in entry.review.tests.values()
        for figure in measured.figures.values()
        if figure.unit == "MB/s" and figure.value and not doubt(entry, measured, figure.key)
    ]
    if len(rates) < 2:
        return ""
    (high, fastest), (low, slowest) = max(rates), min(rates)
    return (
        f"Data rates range from {quantity(low, 'MB/s')} ({slowest}) to {quantity(high, 'MB/s')} "
        f"({fastest})."
    )


def _strength(place: Place) -> float:
    return place.times


def _reason(measured: Measured) -> str:
    """Largest stage of the first load of a test, as the cause of a weakness; "" if unknown."""
    loads = explain.explain(measured).loads
    largest = _largest(loads[0].stages) if loads else None
    if largest is None:
        return ""
    return f"; {largest.share_percent:.0f} % of the latency is {meaning(largest.stage)}"


# --- the conclusion -------------------------------------------------------------------------------


def conclusion(entry: Entry, peers: Sequence[Json]) -> list[tuple[str, str]]:
    """Suitable and unsuitable uses, and the nearest rivals: (heading, text) pairs."""
    known = [place for place in places(entry, peers) if _use(place)]
    good = [place for place in known if (place.times - 1) * 100 >= WORTH_PERCENT]
    bad = [place for place in known if (1 / place.times - 1) * 100 >= WORTH_PERCENT]
    lines = []
    for heading, some in (
        ("Suited to", sorted(good, key=_strength)[::-1]),
        ("Not suited to", sorted(bad, key=_strength)),
    ):
        uses = [f"{_use(place)} ({place.title}: {place.text})" for place in some]
        lines += [(heading, "; ".join(uses))] if uses else []
    thermals = [test.thermal for test in entry.review.tests.values() if test.thermal]
    if hot := [thermal for thermal in thermals if thermal.by_heat]:
        moved = quantity(round(hot[0].moved_gb), "GB")
        use = f"writing more than {moved} at once without airflow (thermal throttling)"
        lines.append(("Not suited to", use))
    for peer in peers[:RIVALS]:
        if differences := _against(places(entry, peers), peer):
            lines.append((f"Compared with {peer['drive']}", differences))
    return lines


def _use(place: Place) -> str:
    load = place.measured.test.phases[0].workload
    return USES.get((place.measured.test.kind, load.pattern, int(load.read_percent)), "")


def _against(places: Sequence[Place], peer: Json) -> str:
    """Largest differences from one rival."""
    gains = []
    for place in places:
        other = competitors.bars([peer], place.measured, place.bar.key, real=False)
        if other and other[0].value:
            gain = 100 * (place.value / other[0].value - 1)
            gains.append((abs(gain), f"{percent(gain)} in {place.title}"))
    if not gains:
        return ""  # no common test
    apart = sorted((gain for gain in gains if gain[0] >= TIE_PERCENT), reverse=True)
    text = ", ".join(text for _, text in apart[:AGAINST_MAX])
    return f"{text or f'no difference of {TIE_PERCENT:g} % or more'}."
