"""Figures of a drive written in one pass: size and rate of its cache, and the rates after it.

Source: TechPowerUp's fills of whole drives: a drive writes at its cache's rate, then directly to
flash with all its bits per cell, then at the rate of folding; some drives have only one of the
latter two. A level ends where the rate falls under three quarters of it for ten seconds (chosen
here: direct writes of some drives are over half as fast as their cache). Leaves out: a fall from
thermal throttling looks the same, unless the test is kept short.
"""

from __future__ import annotations

from dataclasses import dataclass

from drivebay.analysis.figures import TOO_SHORT, Figure, Measured, Phases, by_key, mean_of
from drivebay.analysis.phases import of_any_phase, of_phases
from drivebay.analysis.timeline import Spread, Timeline, fall_second, spread
from drivebay.definitions.suites import Test, spoken

START_S = 5
STAY_S = 10
LEVEL = 0.75
SECOND = "data of one second"
NEVER_FELL = "the rate never dropped below three quarters of its level"
NAMES = (
    ("cache", "in the SLC cache", "cache_gb", "Written until the SLC cache is full"),
    ("behind", "after the SLC cache", "direct_gb", "Written until the second drop"),
    ("folding", "after the second drop", "", ""),
)


@dataclass(frozen=True)
class Level:
    """A period of roughly constant rate (MB/s), and the total written at its end (GB)."""

    rate: Spread
    written_gb: float


def levels(timeline: Timeline) -> list[Level]:
    """At most three levels of the write rate; empty for a run without a full second."""
    found_levels: list[Level] = []
    rate, start = timeline.rate_mb_s, 0
    while start < len(rate) and len(found_levels) < len(NAMES):
        fall = None
        if len(found_levels) + 1 < len(NAMES):
            fall = fall_second(rate[start:], start_s=START_S, stay_s=STAY_S, share=LEVEL)
        end = len(rate) if fall is None else start + fall
        some = spread(rate[start:end])
        assert some is not None, "a level has a second at least: it is not below itself"
        found_levels.append(Level(some, float(rate[:end].sum()) / 1e3))
        start = end + 1  # the second of the fall holds a part of both rates
    return found_levels


def cache(test: Test, phases: Phases) -> Measured:
    """The levels of each phase, then the figures that every phase has."""
    alone = len(phases) == 1
    rows: list[Figure] = []
    for phase in phases:
        key, suffix = ("", "") if alone else (f"_{phase.label}", f", {spoken(phase.label)}")
        rows += _of_levels(levels(phase.timeline), key, suffix)
        rows += of_any_phase(phase, alone=alone)
    firsts = ("rate_cache", "cache_gb", *(("rate_behind",) if alone else ()))
    main = tuple(row.key for row in rows if row.key.startswith(firsts))
    return Measured(test, phases, by_key(rows + of_phases(phases)), main)


def _of_levels(known: list[Level], key: str, suffix: str) -> list[Figure]:
    rows = []
    none = NEVER_FELL if known else TOO_SHORT
    for place, (name, position, size, written) in enumerate(NAMES):
        level = known[place] if place < len(known) else None
        some, note = (level.rate, "") if level else (None, none)
        rate = f"Data rate {position}{suffix}"
        rows.append(mean_of(f"rate_{name}{key}", rate, some, "MB/s", note))
        label = f"{written}{suffix}"
        if size and level and place + 1 < len(known):
            gb, mb_s, n = level.written_gb, level.rate.mean, level.rate.n
            rows.append(Figure(f"{size}{key}", label, gb, "GB", mb_s / 1e3, SECOND, n))
        elif size:
            rows.append(Figure(f"{size}{key}", label, None, "GB", note=none))
    return rows
