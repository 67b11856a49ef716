"""Phases that belong together: by their share of reads, or by the part of a test they are in.

What makes a group is in the load or the label, never in the test's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drivebay.analysis.figures import PhaseFigures
from drivebay.definitions.suites import Workload

NAMES: dict[float, tuple[str, str]] = {0: ("write", "writes"), 100: ("read", "reads")}


@dataclass(frozen=True)
class Group:
    """Phases of one kind of load; `name` is a word for keys, `words` for people."""

    name: str
    words: str
    phases: tuple[PhaseFigures, ...]


def mix_words(load: Workload) -> str:
    """A mix as the reviews write it.

    >>> mix_words(Workload(pattern="random", read_percent=60, block_bytes=4096, queue_depth=3,
    ...                    duration_s=1))
    '60/40'
    """
    return f"{load.read_percent:g}/{100 - load.read_percent:g}"


def mix_name(load: Workload) -> tuple[str, str]:
    """What a load does, as a word and for people.

    >>> load = {"pattern": "random", "block_bytes": 4096, "queue_depth": 1, "duration_s": 1}
    >>> mix_name(Workload(read_percent=70, **load))
    ('r70', '70 % reads')
    >>> mix_name(Workload(read_percent=0, **load))
    ('write', 'Write')
    """
    pure: dict[float, tuple[str, str]] = {100: ("read", "Read"), 0: ("write", "Write")}
    percent = load.read_percent
    return pure.get(percent, (f"r{percent}", f"{percent} % reads"))


def by_mix(phases: Sequence[PhaseFigures]) -> tuple[Group, ...]:
    """Phases by their share of reads, in the order in which the shares come first."""
    found: dict[tuple[str, str], list[PhaseFigures]] = {}
    for phase in phases:
        found.setdefault(mix_name(phase.workload), []).append(phase)
    return tuple(Group(*names, tuple(some)) for names, some in found.items())


def by_age(phases: Sequence[PhaseFigures]) -> tuple[Group, ...]:
    """The replays of a drive that ages, by the part of the test they are in: "degrade-3" is in
    "degrade"."""
    found: dict[str, list[PhaseFigures]] = {}
    for phase in phases:
        if phase.bench is not None:
            found.setdefault(phase.label.rpartition("-")[0], []).append(phase)
    return tuple(
        Group(name.replace("-", "_"), name.replace("-", " ").capitalize(), tuple(some))
        for name, some in found.items()
    )
