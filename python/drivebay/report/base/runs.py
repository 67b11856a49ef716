"""Reviews of a report with a short name and a colour each, and their runs.

A single review needs no names. In a report of several reviews, every name states whether the drive
is virtual or real: simulated and measured figures are never mixed without a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drivebay.analysis import Measured, Review, comparable
from drivebay.analysis.figures import PhaseFigures
from drivebay.analysis.groups import NAMES, mix_words
from drivebay.analysis.modified import changes
from drivebay.common import units
from drivebay.common.files import unique
from drivebay.definitions.suites import Test, spoken
from drivebay.report.base.theme import SERIES


@dataclass(frozen=True)
class Entry:
    """One review in the report. `name` is unique in the report; `full_name` is its title."""

    key: str
    name: str
    full_name: str
    colour: str
    review: Review

    @property
    def stand_in(self) -> str:
        """Reason why a virtual drive is a stand-in; "" if it is none."""
        return str(self.review.result.target.get("stand_in") or "")

    @property
    def kind(self) -> str:
        """Kind of the drive: "virtual" or "real"."""
        return _kind(self.review)


def _what_differs(review: Review) -> list[str]:
    """Changes that a reader must know in addition to the name of the drive."""
    return [*changes(review.result.target), *(["shortened run"] if review.result.quick else [])]


def _kind(review: Review) -> str:
    return "virtual" if review.result.simulated else "real"


@dataclass(frozen=True)
class Run:
    """One test of one review, as a chart shows it; `name` is empty if nothing else is shown."""

    entry: Entry
    measured: Measured
    name: str
    colour: str


SELF = "@self"
# Placeholders for colour and name of a run; the Bench replaces them by those of each drive.
NAME = "@name"


def by_drive(runs: Sequence[Run]) -> bool:
    """True if colours tell drives apart: for several runs, or on the Bench."""
    return len(runs) > 1 or any(run.colour == SELF for run in runs)


def bench_run(review: Review, measured: Measured) -> Run:
    """Run that the Bench overlays with those of other drives."""
    title = drive_title(review)
    return Run(Entry("", title, title, SELF, review), measured, NAME, SELF)


def drive_title(review: Review) -> str:
    """Name of the drive for readers: its title or model, else its name."""
    target = review.result.target
    for key in ("title", "model"):
        if isinstance(target.get(key), str) and target[key].strip():
            return str(target[key]).strip()
    return str(target["name"])


def who_of(entry: Entry) -> str:
    """Description of the drive for a picture that stands alone, with the kind of its figures.

    It includes changes of the drive and marks a shortened run.
    """
    kind = "simulated" if entry.kind == "virtual" else "measured"
    return ", ".join([entry.full_name, kind, *_what_differs(entry.review)])


def entries(reviews: Sequence[Review]) -> tuple[Entry, ...]:
    """Entries with unique names, in the given order: drives with the same title get their seed,
    then the name of their folder.
    """
    titles = [drive_title(review) for review in reviews]
    if len(reviews) == 1:
        return (Entry("d0", titles[0], titles[0], SERIES[0], reviews[0]),)
    names = [
        ", ".join([f"{title} ({_kind(review)})", *_what_differs(review)])
        for title, review in zip(titles, reviews, strict=True)
    ]
    seeds = [f"{name}, seed {r.result.seed}" for name, r in zip(names, reviews, strict=True)]
    names = [
        seed if names.count(name) > 1 else name for name, seed in zip(names, seeds, strict=True)
    ]
    own, taken = [], set[str]()
    for name, r in zip(names, reviews, strict=True):
        folder = f", {r.result.folder.resolve().name}" if names.count(name) > 1 else ""
        own.append(unique(f"{name}{folder}", taken))
    return tuple(
        Entry(f"d{number}", name, title, SERIES[number % len(SERIES)], review)
        for number, (name, title, review) in enumerate(zip(own, titles, reviews, strict=True))
    )


def runs_of(all_entries: Sequence[Entry], test_ids: Sequence[str]) -> list[Run]:
    """Finished runs of these tests, coloured by drive if there are several drives, else by test."""
    runs = []
    for place, test_id in enumerate(test_ids):
        for entry in all_entries:
            measured = entry.review.tests.get(test_id)
            if measured is None or not measured.phases:
                continue
            several = len(all_entries) > 1
            name = short_title(measured.test) if len(test_ids) > 1 else ""
            parts = [entry.name if several else "", name]
            colour = entry.colour if several else SERIES[place % len(SERIES)]
            label = " · ".join(part for part in parts if part)
            runs.append(Run(entry, measured, label, colour))
    return runs


def run_differently(all_entries: Sequence[Entry], test_id: str) -> bool:
    """True if the finished runs of a test are not comparable."""
    tests = (entry.review.tests.get(test_id) for entry in all_entries)
    return comparable.run_differently(measured.test for measured in tests if measured is not None)


def short_title(test: Test) -> str:
    """Last part of a title, which distinguishes a test from the others on its page."""
    _, comma, rest = test.title.partition(", ")
    return rest[:1].upper() + rest[1:] if comma else test.title


def capacity(review: Review) -> str:
    """User capacity as text, such as "512.1 GB"."""
    size = float(review.result.target["capacity_bytes"])
    return units.si_bytes(size) if size else "capacity not known"


def phase_name(run: Run, phase: PhaseFigures) -> str:
    """Name of a phase in charts: its mix, request size or queue depth, else its label."""
    phases, load = run.measured.phases, phase.workload
    if run.measured.test.kind == "mixed":
        return mix_words(load)
    if run.measured.test.kind == "sizes":
        return f"{units.binary_bytes(load.block_bytes)} {NAMES[load.read_percent][0]}"
    depths = {other.workload.queue_depth for other in phases}
    apart = len(depths) == len(phases) and "queue_depth" not in load.unknown
    return f"QD {load.queue_depth}" if apart else spoken(phase.label)


def labelled(runs: Sequence[Run]) -> list[tuple[Run, str, PhaseFigures]]:
    """Every phase with its run and label; the same phases of several runs are adjacent."""
    apart = by_drive(runs)
    rows: list[tuple[int, Run, str, PhaseFigures]] = []
    for run in runs:
        for place, phase in enumerate(run.measured.phases):
            name = phase_name(run, phase)
            if len(run.measured.phases) == 1:
                label = run.name if apart else ""
            else:
                label = name if not apart else f"{name} · {run.name}"
            rows.append((place, run, label, phase))
    rows.sort(key=lambda row: row[0])
    return [(run, label, phase) for _, run, label, phase in rows]
