"""What a review comes to, in sentences: the verdict on top, and for whom the drive is.

Every sentence has a figure and, where the drive can be looked into, a reason. A figure that the
model is known to miss by far (`analysis.trust`) is no strength and no weakness, and no rank is told
between figures that tie.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from drivebay.analysis import Measured, explain, trust
from drivebay.analysis.stages import meaning
from drivebay.report import competitors, kinds
from drivebay.report.digest import Json
from drivebay.report.figures import TIE_PERCENT, ranks
from drivebay.report.kinds.generic import LOWER, BarOf
from drivebay.report.runs import Entry, runs
from drivebay.report.text import inside, percent, quantity

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
"""How many tests of each kind a drive is known by."""
WORTH_PERCENT = 10.0
"""What heat takes, or a drive has more or less than others, is told from here on."""
RIVALS = 2
AGAINST_MAX = 4
USES = {
    ("ladder", "random", 100): "starting programs and systems, which read in small pieces",
    ("ladder", "random", 0): "short bursts of small writes, as of mail and small databases",
    ("ladder", "sequential", 100): "loading games and playing back media",
    ("ladder", "sequential", 0): "copying and recording large files",
    ("consistency", "random", 0): "servers and virtual machines that write all day",
    ("mixed", "random", 100): "many small tasks at once",
    ("mixed", "sequential", 100): "reading and writing large files at once",
    ("trace", "random", 0): "heavy days at a desktop",
}
"""What a kind of test, its pattern and its first share of reads stand for."""


@dataclass(frozen=True)
class Place:
    """A key figure of one drive among those of others; `times` is how often it has the median of
    the others, above 1 where it is better."""

    measured: Measured
    bar: BarOf
    value: float
    rank: int
    count: int
    times: float

    @property
    def title(self) -> str:
        """The test inside a sentence."""
        return inside(self.measured.test.title)

    @property
    def words(self) -> str:
        """ "no. 1 of 7, 1.5 times the median of the others"."""
        median = f"{self.times:.2g} times the median of the others"
        return f"no. {self.rank} of {self.count}, {median}"


def doubt(entry: Entry, measured: Measured, key: str, *, ranked: bool = False) -> str:
    """Why a figure is not to be trusted, in words; "" where nothing speaks against it. A real
    drive's is measured, but if `ranked` it stands among simulated ones."""
    result = entry.review.result
    drive = str(result.target["name"]) if result.simulated else "" if ranked else None
    found = trust.doubt(drive, result.suite.name, measured.test.id, key)
    who = "" if result.simulated else "the simulated ones are "
    return f"{who}not trustworthy here: {found.words}" if found else ""


def key_figures(entries: Sequence[Entry]) -> list[tuple[Measured, BarOf]]:
    """The first trustworthy figure of the tests that reviews are known by, in the suite's order."""
    left = dict(KEY_KINDS)
    shown: list[tuple[Measured, BarOf]] = []
    charts: set[tuple[str, str]] = set()
    tests = {test.id: test for one in entries for test in one.review.result.suite.tests}
    for test in tests.values():
        found = runs(entries, [test.id])
        if not found or not left.get(test.kind) or (test.kind == "ladder" and len(test.phases) < 2):
            continue
        bar = kinds.of(test.kind).bars(found[0].measured)[0]
        one_of_many = bool(bar.chart) and (test.page, bar.chart) in charts
        if one_of_many or any(
            doubt(run.entry, run.measured, bar.key, ranked=True) for run in found
        ):
            continue
        charts.add((test.page, bar.chart))
        shown.append((found[0].measured, bar))
        left[test.kind] -= 1
    return shown


def places(entry: Entry, peers: Sequence[Json]) -> list[Place]:
    """The key figures of a drive that all its peers have too."""
    found = []
    for measured, bar in key_figures([entry]):
        one = measured.figures.get(bar.key)
        others = competitors.bars(peers, measured, bar.key, real=False)
        values = [other.value for other in others if other.value]
        known = bool(values) and len(values) == len(others)
        if one is None or not one.value or not known or not bar.better:
            continue
        sign = 1.0 if bar.better == LOWER else -1.0
        rank = ranks([*values, one.value], sign)[-1]
        times = one.value / statistics.median(values)
        count = len(values) + 1
        found.append(Place(measured, bar, one.value, rank, count, times if sign < 0 else 1 / times))
    return found


def others_of(entry: Entry) -> str:
    """Who its peers are, in words."""
    return "drives of its time" if competitors.dated(entry) else "the catalog's newest drives"


# --- the verdict ----------------------------------------------------------------------------------


def sentences(entry: Entry, peers: Sequence[Json]) -> list[str]:
    """The verdict: what heat does, what is left in the long run, where it stands among others."""
    tests = list(entry.review.tests.values())
    lines = [_heat(tests), _long_run(tests), _standing(entry, peers)]
    return [line for line in lines if line]


def _heat(tests: Sequence[Measured]) -> str:
    """How long the first rate of sequential writes lasts, and what heat costs random ones."""
    lines = []
    for found in [one.thermal for one in tests if one.thermal][:1]:
        before, fell = quantity(round(found.before.mean), "MB/s"), found.fall_s
        if fell is None or found.after is None:
            lines.append(f"Keeps its rate: {before} of sequential writes for {found.before.n:,} s.")
        else:
            why = {True: "Fast until hot", False: "Fast until its cache is full"}
            after = quantity(round(found.after.mean), "MB/s")
            began = (
                why.get(found.by_heat, "Fast at first")
                if found.by_heat is not None
                else "Fast at first"
            )
            lines.append(f"{began}: {before} for {fell:,} s, then {after}.")
    if (share := _heat_share(tests)) >= WORTH_PERCENT:
        gain = 100 * share / (100 - share)
        lines.append(
            f"Heat takes {share:.0f} % of each sustained random write: well cooled, these would be "
            f"{gain:.0f} % faster."
        )
    return " ".join(lines)


def _heat_share(tests: Sequence[Measured]) -> float:
    """The throttle's share of the first consistency test's writes, in percent."""
    found = next((one for one in tests if one.test.kind == "consistency" and one.phases), None)
    stages = found.phases[0].stages if found else ()
    return next((one.share_percent for one in stages if one.stage == "throttle"), 0.0)


def _long_run(tests: Sequence[Measured]) -> str:
    """What is left of the first burst of random writes, and why."""
    known = [one for one in tests if one.consistency is not None]
    if not known:
        return ""
    found = known[0].consistency
    assert found is not None, "asked above"
    settled = quantity(found.window.mean, "IOPS")
    if found.burst is None or not found.burst_s:
        line = f"Random writes run at {settled} from the first second to the last"
    else:
        left = 100 * found.window.mean / found.burst.mean
        line = (
            f"Under constant random writes {quantity(found.burst.mean, 'IOPS')} last "
            f"{found.burst_s:,} s; {left:.0f} % of that is left in the end ({settled})"
        )
    stages = known[0].phases[0].stages
    most = max(
        (one for one in stages if one.stage != "throttle"),
        key=lambda one: one.share_percent,
        default=None,
    )
    if most is not None and most.share_percent >= WORTH_PERCENT:
        line += f", because {most.share_percent:.0f} % of each write is {meaning(most.stage)}"
    return f"{line}."


def _standing(entry: Entry, peers: Sequence[Json]) -> str:
    """The best and the worst key figure among the others; without such by data rate."""
    found = places(entry, peers)
    if len(found) > 1:
        best, worst = max(found, key=_strength), min(found, key=_strength)
        if best.times < 1 and best.rank > 1:
            return (
                f"It is behind most others in everything: least in {best.title} ({best.words}), "
                f"furthest in {worst.title} ({worst.words})."
            )
        words = f"Among {others_of(entry)} it is strongest in {best.title} ({best.words})"
        if (1 / worst.times - 1) * 100 >= WORTH_PERCENT:
            words += f" and weakest in {worst.title} ({worst.words}{_reason(worst.measured)})"
        elif worst.rank > 1:
            words += f" and nowhere far behind (least in {worst.title}: {worst.words})"
        return f"{words}."
    rates = []
    for measured in entry.review.tests.values():
        bars = kinds.of(measured.test.kind).bars(measured) if measured.phases else ()
        for bar in [one for one in bars[:1] if one.unit == "MB/s"]:
            value = measured.figures[bar.key].value if bar.key in measured.figures else None
            if value and not doubt(entry, measured, bar.key):
                rates.append((value, measured.test.title))
    if len(rates) < 2:
        return ""
    (high, best_in), (low, worst_in) = max(rates), min(rates)
    return (
        f"The highest data rate is {quantity(high, 'MB/s')}, in {inside(best_in)}, the lowest "
        f"{quantity(low, 'MB/s')}, in {inside(worst_in)}."
    )


def _strength(place: Place) -> float:
    return place.times


def _reason(measured: Measured) -> str:
    """The largest stage of a test's first load, as the reason of a weakness; "" if unknown."""
    loads = explain.explain(measured).loads
    stages = loads[0].stages if loads else ()
    most = max(stages, key=lambda one: one.share_percent, default=None)
    if most is None:
        return ""
    return f"; {most.share_percent:.0f} % of the time is {meaning(most.stage)}"


# --- final words ----------------------------------------------------------------------------------


def final_words(entry: Entry, peers: Sequence[Json]) -> list[tuple[str, str]]:
    """For whom, not for whom, and against the nearest rivals: heading, words."""
    found = places(entry, peers)
    good = [one for one in found if (one.times - 1) * 100 >= WORTH_PERCENT and _use(one)]
    bad = [one for one in found if (1 / one.times - 1) * 100 >= WORTH_PERCENT and _use(one)]
    lines = []
    for heading, some in (
        ("For", sorted(good, key=_strength)[::-1]),
        ("Not for", sorted(bad, key=_strength)),
    ):
        lines += (
            [(heading, "; ".join(f"{_use(one)} ({one.title}: {one.words})" for one in some))]
            if some
            else []
        )
    hot = [
        one.thermal for one in entry.review.tests.values() if one.thermal and one.thermal.by_heat
    ]
    if hot:
        lines.append(
            (
                "Not for",
                f"writing more than {quantity(round(hot[0].moved_gb), 'GB')} at once without air "
                "over it: then it throttles",
            )
        )
    for peer in peers[:RIVALS]:
        if words := _against(found, peer):
            lines.append((f"Against {peer['drive']}", words))
    return lines


def _use(place: Place) -> str:
    load = place.measured.test.phases[0].workload
    return USES.get((place.measured.test.kind, load.pattern, int(load.read_percent)), "")


def _against(found: Sequence[Place], peer: Json) -> str:
    """The largest differences to one rival."""
    lines = []
    for one in found:
        other = competitors.bars([peer], one.measured, one.bar.key, real=False)
        if other and other[0].value:
            gain = 100 * (one.value / other[0].value - 1)
            lines.append((abs(gain), f"{percent(gain)} in {one.title}"))
    if not lines:
        return ""  # no test in common
    apart = sorted((one for one in lines if one[0] >= TIE_PERCENT), reverse=True)
    return f"{', '.join(words for _, words in apart[:AGAINST_MAX]) or 'the same'}."
