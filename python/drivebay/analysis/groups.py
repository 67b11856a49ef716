"""Groups of phases: by their share of reads, or by the part of a test that they belong to.

Groups follow from the load or the label, never from the test's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drivebay.analysis.figures import PhaseFigures
from drivebay.definitions.suites import Workload

NAMES: dict[float, tuple[str, str]] = {0: ("write", "writes"), 100: ("read", "reads")}


@dataclass(frozen=True)
class Group:
    """Phases of one kind of load; `name` is used in keys, `words` in text."""

    name: str
    words: str
    phases: tuple[PhaseFigures, ...]


def mix_words(load: Workload) -> str:
    """Describes a mix as the reviews write it.

    >>> mix_words(Workload(pattern="random", read_percent=60, block_bytes=4096, queue_depth=3,
    ...                    duration_s=1))
    '60/40'
    """
    return f"{load.read_percent:g}/{100 - load.read_percent:g}"


def mix_name(load: Workload) -> tuple[str, str]:
    """Names a load's mix: for keys, and for text.

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
    """Groups phases by their share of reads, in order of first occurrence."""
    groups: dict[tuple[str, str], list[PhaseFigures]] = {}
    for phase in phases:
        groups.setdefault(mix_name(phase.workload), []).append(phase)
    return tuple(Group(*names, tuple(some)) for names, some in groups.items())


def by_age(phases: Sequence[PhaseFigures]) -> tuple[Group, ...]:
    """Groups the replays of an ageing drive by part of the test: "degrade-3" belongs to
    "degrade".
    """
    groups: dict[str, list[PhaseFigures]] = {}
    for phase in phases:
        if phase.bench is not None:
            groups.setdefault(phase.label.rpartition("-")[0], []).append(phase)
    return tuple(
        Group(name.replace("-", "_"), name.replace("-", " ").capitalize(), tuple(some))
        for name, some in groups.items()
    )
