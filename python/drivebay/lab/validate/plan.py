"""Comparisons of published rows, and the runs that they need.

Source: published/validation.toml, whose head explains the keys. A run is a drive of the catalog
(with variants, in a host) and a test; tests are those of the suites, some shortened to the part
that their figure needs.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drivebay.analysis import fidelity, published
from drivebay.analysis.published import Published
from drivebay.common.errors import UserError
from drivebay.definitions import suites
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import with_load
from drivebay.definitions.suites import Phase, Replay, Test

# Suffix of a phase's label before the number of its interval, from the second on.
INTERVAL = "-interval-"


@dataclass(frozen=True, order=True)
class Run:
    """A test of published/validation.toml on a drive with variants, in a host (the drive's own
    if none is named), for example sm951-ahci-512+heatsink@windows-8.1-z97.
    """

    drive: str
    test: str

    @property
    def variants(self) -> tuple[str, ...]:
        """The drive's variants."""
        return tuple(part for part in self._parts if not part.startswith(SCALED))

    @property
    def smaller(self) -> int:
        """Factor by which the run's flash is smaller than the drive's.

        >>> Run.of("970-evo-plus-1tb+scaled-16@laptop/full-write").smaller
        16
        """
        shares = [part.removeprefix(SCALED) for part in self._parts if part.startswith(SCALED)]
        return int(shares[0]) if shares else 1

    @property
    def _parts(self) -> list[str]:
        return self.drive.partition("@")[0].split("+")[1:]

    @property
    def profile(self) -> str:
        """The drive's name in the catalog."""
        return fidelity.profile_of(self.drive)

    @property
    def host(self) -> str:
        """Name of the host; empty for the drive's own."""
        return self.drive.partition("@")[2]

    def in_its_host(self, profile: Profile) -> Profile:
        """Returns the profile in this run's host."""
        return profile.in_host(self.host) if self.host else profile

    @classmethod
    def of(cls, text: str) -> Run:
        """Parses "DRIVE/TEST" or "DRIVE@HOST/TEST".

        >>> Run.of("xp941-512/heavy-full").test
        'heavy-full'
        """
        drive, _, test = text.partition("/")
        return cls(drive, test)


SCALED = "scaled-"
# Tolerance of a figure, by the relation that the publication states.
WITHIN_PERCENT = {"eq": 5.0, "approx": 10.0, "ratio_to": 10.0}
# Tolerance of a printed 0: values that round to it.
ROUNDED = 0.05


@dataclass(frozen=True)
class Row:
    """A published row and its comparison.

    Drives are in the host that the row was measured in. One of these is given: `value`, a measured
    figure "DRIVE/TEST/FIGURE" (`over`: divided by this one; `change`: their difference in percent);
    `statement`, a function of `statements` with its `runs`; `catalog`, a value of the drive's
    profile (`ratio`: divided by this one); `not_covered`, the reason why no drive model can answer.
    `calibrated_on` is the key of the profile that was read off this figure, for a drive that is not
    `scored`: a drive of today, whose profile was written from facts and which has a score of its
    own. `factor` converts units; `less` is the part that the publication's way of counting leaves
    out, in its unit. `range` is the numeric meaning of the printed words, `reason` its
    justification. `same_as` names the rows that state the same measurement. `differs` describes
    differences between the run's condition and the published one.
    """

    published: Published
    value: str = ""
    over: str = ""
    change: str = ""
    factor: float = 1.0
    less: float = 0.0
    statement: str = ""
    runs: tuple[str, ...] = ()
    catalog: str = ""
    ratio: str = ""
    range: tuple[float, float] | None = None
    reason: str = ""
    not_covered: str = ""
    calibrated_on: str = ""
    scored: bool = True
    conflict: str = ""
    same_as: tuple[str, ...] = ()
    differs: str = ""
    note: str = ""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both ends of the range that agrees with the publication; None if words are compared."""
        if self.range is not None:
            return self.range
        relation, value = self.published.relation, self.published.value
        if relation == "range":
            low, _, high = self.published.text.partition("..")
            return float(low), float(high)
        if value is None:
            return None
        half = abs(value) * WITHIN_PERCENT[relation] / 100 or ROUNDED
        return value - half, value + half

    @property
    def needs(self) -> tuple[Run, ...]:
        """The runs that the row needs."""
        figures = [text.rpartition("/")[0] for text in (self.value, self.over, self.change) if text]
        return tuple(Run.of(text) for text in (*figures, *self.runs))


@dataclass(frozen=True)
class Plan:
    """Rows in the order of figures.csv, and the tests by their name in validation.toml;
    `full_size` are those that are meaningless on a smaller drive.
    """

    rows: tuple[Row, ...]
    tests: Mapping[str, Test]
    full_size: frozenset[str] = frozenset()

    def of_drives(self, drives: Sequence[str]) -> Plan:
        """Selects the rows about these drives, or all. Raises UserError if nothing was published
        about one of them.
        """
        known = sorted({row.published.drive for row in self.rows})
        for drive in drives:
            if drive not in known:
                raise UserError(
                    f"nothing was published about '{drive}'; there are rows about "
                    f"{', '.join(name for name in known if name != 'other')}",
                    "leave the names out for all rows: drivebay validate",
                )
        rows = tuple(row for row in self.rows if not drives or row.published.drive in drives)
        return replace(self, rows=rows)

    def only(self, ids: Sequence[str]) -> Plan:
        """Selects the rows with these ids, or all."""
        known = {row.published.id for row in self.rows}
        if unknown := [name for name in ids if name not in known]:
            raise UserError(
                f"--row {unknown[0]}: there is no such row", "ids are as in the table: S058"
            )
        return replace(self, rows=tuple(r for r in self.rows if not ids or r.published.id in ids))

    def only_scored(self, scored: bool = True) -> Plan:
        """Selects the rows about drives that are scored, or about the others."""
        return replace(self, rows=tuple(row for row in self.rows if row.scored == scored))

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every run that some row needs, once."""
        return tuple(sorted({run for row in self.rows for run in row.needs}))


def load_plan() -> Plan:
    """Loads the rows of published/validation.toml, in the order of figures.csv."""
    table = published.table("validation")
    load = functools.cache(suites.load)
    tests, differs = {}, {}
    for name, entry in table["tests"].items():
        every = load(entry["suite"]).tests
        whole = next(test for test in every if test.id == entry.get("test", name))
        tests[name], differs[name] = _test(whole, entry), _differs(whole, entry)
    entries = {entry["id"]: entry for entry in table["row"]}
    same: dict[str, dict[str, None]] = {}
    for group in table["same"]:
        for name in group:
            same.setdefault(name, {}).update((other, None) for other in group if other != name)
    rows = []
    for name, figure in published.figures().items():
        if name not in entries:  # a drive of which only its maker's data sheet was published
            continue
        entry = {key: value for key, value in entries[name].items() if key != "id"}
        for key in entry.keys() & {"value", "over", "change"}:
            entry[key] = _in_host(entry[key], figure.host)
        entry["runs"] = tuple(_in_host(text, figure.host) for text in entry.get("runs", ()))
        if "range" in entry:
            entry["range"] = tuple(entry["range"])
        row = Row(figure, scored=figure.drive not in table["unscored"], **entry)
        own = [differs[run.test] for run in row.needs]
        own += [f"on 1/{run.smaller} of the flash" for run in row.needs if run.smaller > 1]
        differences = dict.fromkeys(text for text in (row.differs, *own) if text)
        rows.append(replace(row, differs="; ".join(differences), same_as=tuple(same.get(name, ()))))
    full_size = frozenset(name for name, entry in table["tests"].items() if "full_size" in entry)
    return Plan(tuple(rows), tests, full_size)


def _in_host(text: str, host: str) -> str:
    """Adds the drive's host to "DRIVE/..."."""
    drive, _, rest = text.partition("/")
    return f"{drive}@{host}/{rest}"


def _differs(test: Test, entry: Mapping[str, Any]) -> str:
    """Describes differences from the published condition that were chosen or come from
    shortening.
    """
    differences = [entry["differs"]] if "differs" in entry else []
    longest = max((p.workload.duration_s for p in test.phases if p.replay is None), default=0.0)
    if "seconds" in entry and entry["seconds"] < longest:
        differences.append(f"{entry['seconds']:g} s a phase instead of {longest:g}")
    if "load_seconds" in entry:
        load = next(step.load.duration_s for step in test.prepare if step.load is not None)
        differences.append(f"{entry['load_seconds']:g} s of writes before instead of {load:g}")
    if entry.get("scale", 1.0) < 1.0:
        differences.append(f"{100 * entry['scale']:g} % of the trace")
    return ", ".join(differences)


def _test(test: Test, entry: Mapping[str, Any]) -> Test:
    """Makes a test from a suite's test: phases cut to `seconds` and, with `queue_depth`, at that
    depth, with `queues` in so many queues at most, those of `loads` with other values, each
    `intervals` times in a row; loads before them cut to `load_seconds`, traces to `scale`;
    the drive also changed by `what_if`.
    """
    phases = tuple(
        _cut(phase, entry)
        for phase in test.phases
        if "phases" not in entry or phase.label in entry["phases"]
    )
    load = {"duration_s": entry["load_seconds"]} if "load_seconds" in entry else {}
    prepare = tuple(with_load(step, **load) for step in test.prepare)
    changes = (*test.what_if, *entry.get("what_if", ()))
    cut = test.model_copy(update={"phases": phases, "prepare": prepare, "what_if": changes})
    intervals = range(1, entry.get("intervals", 1) + 1)
    again = (_interval(phase, n) for group in cut.groups for n in intervals for phase in group)
    return cut.model_copy(update={"phases": tuple(again)})


def _interval(phase: Phase, n: int) -> Phase:
    """The phase as its `n`th interval: without rest from the second on."""
    if n == 1:
        return phase
    return phase.model_copy(update={"rest_s": 0.0, "label": f"{phase.label}{INTERVAL}{n}"})


def interval_of(label: str) -> tuple[str, int]:
    """Splits a phase's label into the suite's label and the number of the interval, from 1.

    >>> interval_of("reader-90k"), interval_of("reader-90k-interval-2")
    (('reader-90k', 1), ('reader-90k', 2))
    """
    own, suffix, n = label.partition(INTERVAL)
    return own, int(n) if suffix else 1


def _cut(phase: Phase, entry: Mapping[str, Any]) -> Phase:
    if phase.replay is not None:
        scale = entry.get("scale", 1.0)
        changed = {"scale": scale, "drive_s": phase.replay.drive_s * scale}
        part = Replay(**{**phase.replay.model_dump(), **changed})
        return Phase.model_validate({"label": phase.label, "replay": part})
    seconds = min(entry.get("seconds", phase.workload.duration_s), phase.workload.duration_s)
    load, label = {"duration_s": seconds}, phase.label
    load["queues"] = min(entry.get("queues", phase.workload.queues), phase.workload.queues)
    load |= entry.get("loads", {}).get(phase.label, {})
    if depth := entry.get("queue_depth"):
        load["queue_depth"], label = depth, f"qd{depth}"
    return with_load(phase, **load).model_copy(update={"label": label})
