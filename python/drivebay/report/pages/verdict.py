"""Verdict and conclusion of a review, in sentences.

Every sentence is a pattern of `sentences` with its claim. A figure that the model is known to miss
by far (`analysis.trust`) counts neither as a strength nor as a weakness: the verdict says that the
model is wrong, and what was published. A figure counts as a strength or a weakness only if its
interval does not contain the median of the other drives. A stand-in has no rank.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from drivebay.analysis import Measured, trust
from drivebay.analysis.stages import StageShare, meaning
from drivebay.analysis.thermal import Thermal
from drivebay.report import kinds
from drivebay.report.base.figures import span_of
from drivebay.report.base.markup import Bar
from drivebay.report.base.runs import Entry, runs_of, short_title
from drivebay.report.base.text import inside
from drivebay.report.kinds.generic import LOWER, BarOf
from drivebay.report.pages.sentences import USES, Sentence
from drivebay.report.peers import competitors
from drivebay.report.peers.digest import Json

# Number of key tests of each kind that can be trusted.
KEY_KINDS = dict.fromkeys(
    ("cache", "consistency", "idle", "ladders", "mixed", "saturation", "thermal", "trace", "waf"), 1
) | {"ladder": 4, "qos": 3, "rounds": 3}
# Smallest heat loss, or difference from other drives, that a sentence mentions.
WORTH_PERCENT = 10.0
# Most thermal tests that the verdict tells of.
HEAT_MAX = 3
# Most tests of latency at shares of a rate that the verdict tells of.
SERVICE_MAX = 2
RIVALS = 2
AGAINST_MAX = 4
STRENGTH = attrgetter("times")


@dataclass(frozen=True)
class Place:
    """A key figure among other drives. `times` is the ratio to the median of their `count` values,
    above 1 if the drive is better; `clear`: the interval of the figure does not contain this
    median; `doubted`: the model is known to miss the figure by far.
    """

    measured: Measured
    bar: BarOf
    own: Bar
    count: int
    times: float
    clear: bool
    doubted: bool

    @property
    def title(self) -> str:
        """Title of the test, for use inside a sentence."""
        return _title(self.measured)

    def counts(self, sign: int) -> bool:
        """True if the figure is a strength (`sign` 1) or a weakness (`sign` -1)."""
        return self.clear and (self.times**sign - 1) * 100 >= WORTH_PERCENT


def _title(measured: Measured) -> str:
    test = measured.test
    plain = test.kind == "consistency" and test.phases[0].workload.read_percent == 0
    return "sustained random writes" if plain else inside(test.title)


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


def key_figures(entries: Sequence[Entry]) -> list[tuple[Measured, BarOf, bool]]:
    """First figure of each key test, in the order of the suite; True if it can be trusted. Doubted
    ones are shown in addition to those that count.
    """
    left = dict(KEY_KINDS)
    shown: list[tuple[Measured, BarOf, bool]] = []
    charts: set[tuple[str, str]] = set()
    for measured, bar, trusted in _candidates(entries):
        test = measured.test
        is_shown = bool(bar.chart) and (test.page, bar.chart) in charts
        if left[test.kind] and not is_shown:
            charts.add((test.page, bar.chart))
            shown.append((measured, bar, trusted))
            left[test.kind] -= trusted
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
    """Key figures that all peers of a drive have too; [] for a stand-in."""
    places: list[Place] = []
    if entry.stand_in:
        return places
    for measured, bar, trusted in key_figures([entry]):
        figure = measured.figures.get(bar.key)
        others = competitors.bars(peers, measured, bar.key, real=False)
        values = [other.value for other in others if other.value]
        known = bool(values) and len(values) == len(others)
        if figure is None or not figure.value or not known or not bar.better:
            continue
        own = Bar("", figure.value, "", ends=figure.interval)
        median = statistics.median(values)
        low, high = span_of(own)
        times = median / figure.value if bar.better == LOWER else figure.value / median
        known = figure.interval is not None or not entry.review.result.simulated
        clear = known and not low <= median <= high
        places.append(Place(measured, bar, own, len(values), times, clear, not trusted))
    return places


def others_of(entry: Entry) -> str:
    """Names the group of drives that a drive is ranked among."""
    return "drives of its time" if competitors.dated(entry) else "of the catalog's newest drives"


# --- the verdict ----------------------------------------------------------------------------------


def sentences(entry: Entry, peers: Sequence[Json]) -> list[str]:
    """Verdict, a paragraph each: heat, sustained writes, latency under load, strengths and
    weaknesses, tests that the model misses.
    """
    return [" ".join(lines) for lines in paragraphs(entry, peers) if lines]


def paragraphs(entry: Entry, peers: Sequence[Json]) -> list[list[Sentence]]:
    """The sentences of the verdict."""
    tests = list(entry.review.tests.values())
    return [_heat(tests), _long_run(tests), _service(tests), _standing(entry, peers), _wrong(entry)]


def _heat(tests: Sequence[Measured]) -> list[Sentence]:
    """Time until sequential writes slow down, and the loss of random writes to heat."""
    runs = [(one, one.thermal) for one in tests if one.thermal]
    loads = [_load(one) for one, _ in runs]
    lines = []
    for (one, run), load in list(zip(runs, loads, strict=True))[:HEAT_MAX]:
        who = f"{short_title(one.test)}: " if loads.count(load) > 1 else ""
        lines += sequential(run, load=load, who=who)
    known = [one for one in tests if one.test.kind == "consistency" and one.phases][:1]
    stages = [stage for one in known for stage in one.phases[0].stages]
    share = sum(stage.share_percent for stage in stages if stage.stage == "throttle")
    if share >= WORTH_PERCENT:
        gain = 100 * share / (100 - share)
        lines.append(Sentence("hot", load=_load(known[0]), share=share, gain=gain))
    return lines


def _load(measured: Measured) -> str:
    """First load of a test: "random writes"."""
    load = measured.test.phases[0].workload
    kinds = {0: "writes", 100: "reads"}
    return f"{load.pattern} {kinds.get(int(load.read_percent), 'reads and writes')}"


def sequential(thermal: Thermal, *, load: str, who: str = "") -> list[Sentence]:
    """Course of a thermal test: the rate, and when and why it drops; `who` names the run."""
    rate, seconds = thermal.before.mean, thermal.before.n
    lines = [Sentence("even", load=load, who=who, rate=rate, all=seconds)]
    if thermal.fall_s is not None and thermal.after is not None:
        causes = {True: "heat", False: "full", None: "fall"}
        low = thermal.after.mean
        claim = {"rate": rate, "after": thermal.fall_s, "low": low}
        lines = [Sentence(causes[thermal.by_heat], load=load, who=who, **claim)]
    elif (cut := thermal.throttling) is not None:
        rate, low = cut.other.mean, cut.rate.mean
        claim = {"slow": cut.seconds, "all": seconds, "after": cut.start_s}
        lines = [Sentence("slowed", load=load, who=who, rate=rate, low=low, **claim)]
    if thermal.light_s is not None and thermal.light_percent is not None:
        lines.append(Sentence("light", after=thermal.light_s, cost=thermal.light_percent))
    return lines


def _long_run(tests: Sequence[Measured]) -> list[Sentence]:
    """Course of sustained random writes: the initial burst, the rate after it, and the cause."""
    test = next((test for test in tests if test.consistency is not None), None)
    if test is None or test.consistency is None:
        return []
    last, burst, after = test.consistency.window, test.consistency.burst, test.consistency.burst_s
    whole = test.steps[0].ios or last
    line = Sentence("random", load=_load(test), rate=whole.mean, all=whole.n)
    if burst is not None and after:
        claim = {"start": burst.mean, "after": after, "last": last.n, "rate": last.mean}
        line = Sentence("burst", load=_load(test), **claim, share=100 * last.mean / burst.mean)
    return [line, *_cause([one for one in test.phases[0].stages if one.stage != "throttle"])]


def _service(tests: Sequence[Measured]) -> list[Sentence]:
    """p99.9 latency at the lowest and the highest share of a rate, of that load or of the one that
    runs along with it.
    """
    lines = []
    for measured in tests:
        phases = measured.test.phases
        beside = {a.label: b.label for a, b in itertools.pairwise(phases) if b.together}
        shares = [phase for phase in phases if phase.rate_of]
        keys = [f"latency_p99.9_{beside.get(phase.label, phase.label)}" for phase in shares]
        values = [measured.figures[key].value for key in keys if key in measured.figures]
        if measured.test.kind == "qos" and len(values) > 1 and all(values):
            claim = {"part": shares[0].rate_percent, "most": shares[-1].rate_percent}
            claim |= {"low": values[0], "high": values[-1]}
            lines.append(Sentence("load", title=_title(measured), **claim))
    return lines[:SERVICE_MAX]


def _cause(stages: Sequence[StageShare]) -> list[Sentence]:
    """The largest stage of a latency, if it is worth a sentence."""
    largest = max(stages, key=lambda stage: stage.share_percent, default=None)
    if largest is None or largest.share_percent < WORTH_PERCENT:
        return []
    return [Sentence("cause", stage=meaning(largest.stage), share=largest.share_percent)]


def _standing(entry: Entry, peers: Sequence[Json]) -> list[Sentence]:
    """Best and worst key figure among the other drives; without peers the range of data rates."""
    known = [place for place in places(entry, peers) if not place.doubted]
    if len(known) < 2:
        return _range(entry)
    group = {"count": known[0].count, "others": others_of(entry)}
    good, bad = ([place for place in known if place.counts(sign)] for sign in (1, -1))
    lines = []
    if good:
        best = max(good, key=STRENGTH)
        lines.append(Sentence("best", **group, title=best.title, times=best.times))
    if bad:
        worst = min(bad, key=STRENGTH)
        claim = {**group, "title": worst.title, "times": worst.times}
        lines.append(Sentence("also" if good else "worst", **claim))
        lines += _cause(worst.measured.phases[0].stages)
    return lines or [Sentence("equal", **group)]


def _misses(entry: Entry) -> list[tuple[Measured, trust.Answer]]:
    """Key tests of which the model is known to be wrong, for a virtual drive."""
    known = key_figures([entry]) if entry.review.result.simulated else []
    misses = [(one, _miss(entry, one, bar.key, ranked=True)) for one, bar, _ in known]
    return [(one, miss) for one, miss in misses if miss is not None]


def _wrong(entry: Entry) -> list[Sentence]:
    """Key tests of which the model is known to be wrong, and what was published."""
    lines = []
    for measured, miss in _misses(entry):
        claim = {"title": _title(measured), **_error(miss)}
        if miss.drive == entry.review.result.target["name"]:
            found = ", ".join(miss.found)
            lines.append(Sentence("wrong", **claim, source=miss.source, found=found))
        else:
            lines.append(Sentence("elsewhere", **claim))
    return lines


def _error(miss: trust.Answer) -> dict[str, Any]:
    return {"times": miss.times, "metric": miss.row["metric"], "drive": miss.drive}


def _range(entry: Entry) -> list[Sentence]:
    """Lowest and highest of all trusted data rates."""
    rates = [
        (figure.value, inside(measured.test.title), figure.label.partition(", ")[2])
        for measured in entry.review.tests.values()
        for figure in measured.figures.values()
        if figure.unit == "MB/s" and figure.value and not doubt(entry, measured, figure.key)
    ]
    if len(rates) < 2:
        return []
    (high, *fastest), (low, *slowest) = max(rates), min(rates)
    # Loads of one test are told apart by their own names.
    which = 1 if fastest[0] == slowest[0] and fastest[1] and slowest[1] else 0
    return [Sentence("range", low=low, slowest=slowest[which], high=high, fastest=fastest[which])]


# --- the conclusion -------------------------------------------------------------------------------


def conclusion(entry: Entry, peers: Sequence[Json]) -> list[tuple[str, list[Sentence]]]:
    """Suitable and unsuitable uses, uses for which the model is wrong, and the nearest rivals."""
    every = places(entry, peers)
    known = sorted((one for one in every if not one.doubted), key=STRENGTH, reverse=True)

    def said(some: list[Place], sign: int) -> list[Sentence]:
        uses = [(one, _use(one.measured)) for one in some if one.counts(sign)]
        return [Sentence("use", use=u, times=p.times, title=p.title) for p, u in uses if u]

    thermals = [test.thermal for test in entry.review.tests.values() if test.thermal]
    hot = [Sentence("much", moved=one.moved_gb) for one in thermals if one.by_heat][:1]
    misses = [(one, miss) for one, miss in _misses(entry) if every and _use(one)]
    unknown = [
        Sentence("unknown", use=_use(one), title=_title(one), **_error(miss))
        for one, miss in misses
    ]
    lines = [
        ("Suited to", said(known, 1)),
        ("Not suited to", said(known[::-1], -1) + hot),
        ("Not known", unknown),
    ]
    lines += [(f"Compared with {peer['drive']}", _against(known, peer)) for peer in peers[:RIVALS]]
    return [(heading, sentences) for heading, sentences in lines if sentences]


def _use(measured: Measured) -> str:
    load = measured.test.phases[0].workload
    return USES.get(f"{measured.test.kind} {load.pattern} {load.read_percent:.0f}", "")


def _against(places: Sequence[Place], peer: Json) -> list[Sentence]:
    """Largest differences from one rival whose intervals do not overlap."""
    gains = []
    for place in places:
        others = competitors.bars([peer], place.measured, place.bar.key, real=False)
        for other in others:
            (low, high), (from_, to) = span_of(place.own), span_of(other)
            if other.value and place.own.value and (low > to or high < from_):
                gains.append((100 * (place.own.value / other.value - 1), place.title))
    gains.sort(key=lambda pair: -abs(pair[0]))
    lines = [Sentence("rival", gain=gain, title=title) for gain, title in gains[:AGAINST_MAX]]
    return lines or ([Sentence("same")] if places else [])
