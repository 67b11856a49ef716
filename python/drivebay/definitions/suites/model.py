"""Data model of a suite: tests, each with a preparation and phases of load, as plain data.

Sources: the parameters come from the published methods, named in every test's `source`. Leaves out:
how a target runs a workload (targets), and which figures are computed from it (analysis).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from drivebay import _core
from drivebay.definitions.suites.loads import Requests, TraceLoad
from drivebay.definitions.suites.parts import Content, Data, Rounds, Score, Share, Steady

SCHEMA_VERSION: Literal[1] = 1
MIB = 2**20
DURATION_S_MAX = 30 * 24 * 3600.0
Unknown = Literal["pattern", "offsets", "queue_depth", "duration_s"]
# Lowest rate, in requests per second, of a share of a measured rate; fio's rates are whole
# numbers.
RATE_MIN = 1.0

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def _is_an_id(value: str) -> str:
    if not _ID.fullmatch(value):
        raise ValueError(
            f"{value!r} is not allowed; must be lower-case letters and digits, joined by hyphens"
        )
    return value


Id = Annotated[str, Field(max_length=60), AfterValidator(_is_an_id)]
Percent = Annotated[float, Field(ge=0, le=100)]
Seconds = Annotated[float, Field(gt=0, le=DURATION_S_MAX)]


# Kinds of tests; each has a function that computes its figures (`analysis.measure.KINDS`).
TestKind = Literal[
    "ageing",
    "cache",
    "compression",
    "consistency",
    "efficiency",
    "idle",
    "ladder",
    "ladders",
    "loads",
    "mixed",
    "qos",
    "rounds",
    "saturation",
    "sizes",
    "thermal",
    "trace",
    "trim-check",
    "trim-write",
    "waf",
    "working-set",
]


class _Span(Data):
    """A range of the user's addresses: a share of the capacity, limited in bytes."""

    span_percent: Annotated[float, Field(gt=0, le=100)] = 100.0
    span_bytes: Annotated[int, Field(ge=512)] | None = None
    span_start_percent: Percent = 0.0

    @model_validator(mode="after")
    def _ends_on_the_drive(self) -> _Span:
        if self.span_start_percent + self.span_percent > 100.0:
            raise ValueError(
                "span_start_percent + span_percent is over 100; together they must be at most 100"
            )
        return self

    def span(self, capacity_bytes: int) -> tuple[int, int]:
        """Start and length in bytes, not rounded to blocks."""
        start = _share(capacity_bytes, self.span_start_percent)
        end_percent = self.span_start_percent + self.span_percent
        end = capacity_bytes if end_percent == 100.0 else _share(capacity_bytes, end_percent)
        length = end - start
        return start, length if self.span_bytes is None else min(length, self.span_bytes)


class Stable(Data):
    """Criterion for a stable phase: the data rate of each of the last `window_s` seconds lies
    within `within_percent` ((highest - lowest) / mean), and at least `min_s` seconds have
    passed.
    """

    window_s: Annotated[int, Field(ge=2, le=86_400)]
    within_percent: Annotated[float, Field(gt=0, le=100)]
    min_s: Annotated[int, Field(ge=1, le=86_400)]


def _a_tuple(value: Any) -> Any:
    """Converts a file's list to a tuple; pydantic's strict mode, once a validator has run before
    it, no longer knows that the value came from JSON.
    """
    return tuple(value) if isinstance(value, list) else value


class Workload(Requests, _Span):
    """One closed-loop load on a span of the drive.

    Addresses are aligned to the block, or to 1 MiB if that is less. With `until_stable`,
    `duration_s` is an upper bound. `unknown` names fields that are not known of a load that another
    program ran; they have a placeholder value, for `queue_depth` the measured mean. With `once` the
    load ends when it has moved as many bytes as its span has, with `bytes` after this amount.
    """

    pattern: Literal["random", "sequential"]
    read_percent: Share
    block_bytes: int
    queue_depth: int
    duration_s: Seconds
    until_stable: Stable | None = None
    until_written_percent: Annotated[int, Field(ge=1, le=10_000)] | None = None
    once: bool = False
    bytes: Annotated[int, Field(ge=1)] | None = None
    unknown: Annotated[tuple[Unknown, ...], BeforeValidator(_a_tuple)] = ()

    @model_validator(mode="after")
    def _can_end(self) -> Workload:
        if self.until_written_percent is not None and self.read_percent:
            raise ValueError("'until_written_percent' needs read_percent = 0")
        if self.once + (self.bytes is not None) + (self.until_written_percent is not None) > 1:
            raise ValueError("'once', 'bytes' and 'until_written_percent' exclude each other")
        stable = self.until_stable
        if stable is not None and max(stable.window_s, stable.min_s) > self.duration_s:
            raise ValueError(
                "until_stable.window_s and min_s must be at most duration_s, the upper bound"
            )
        return self

    def span(self, capacity_bytes: int) -> tuple[int, int]:
        """Start and length in bytes on a drive of this capacity; the length is a multiple of the
        block, and 0 if not one block fits.

        >>> half = Workload(pattern="random", read_percent=0, block_bytes=4096, queue_depth=1,
        ...                 duration_s=1, span_percent=50, span_start_percent=50)
        >>> half.span(8 * 2**20 + 512)
        (4194304, 4194304)
        """
        start, length = super().span(capacity_bytes)
        if length < self.largest_bytes:
            return start, 0
        return start, length // self.block_bytes * self.block_bytes

    @property
    def ends_by_amount(self) -> bool:
        """True if the load ends after an amount of data, with `duration_s` as an upper bound."""
        return self.once or self.bytes is not None or self.until_written_percent is not None

    def bytes_max(self, capacity_bytes: int) -> int | None:
        """Most bytes that the load moves, if it has such a limit."""
        if self.once:
            return self.span(capacity_bytes)[1]
        percent = self.until_written_percent
        return self.bytes if percent is None else capacity_bytes * percent // 100

    def core(self, capacity_bytes: int) -> _core.Workload:
        """The load in the core's form, for a drive of this capacity."""
        start, length = self.span(capacity_bytes)
        stable = self.until_stable
        stop = {
            "duration_s": self.duration_s,
            "bytes": self.bytes_max(capacity_bytes),
            "stable": None if stable is None else stable.model_dump(),
        }
        span = {"span_start_bytes": start, "span_bytes": length}
        return _core.Workload(**self.fields(), **span, stop=stop)


class Prepare(_Span):
    """One step before the load.

    "purge" resets the drive to new (every address unwritten); "fill" writes a span sequentially in
    128 KiB blocks, `passes` times; "rest" leaves the drive idle for `seconds`, but for at most
    `waiting_s` if a person has to wait for it: virtual time is free. A fill with `if_needed` is
    skipped if the whole span has been written since the last purge; a virtual drive begins every
    test as new, so there it is never skipped. "steady" runs `load` in rounds of its duration, one
    after the other without a pause, until the rate is steady by SNIA's criterion. "load" runs
    `load` once; its results are not kept. "discard" trims a span, as deleting its files would.
    "sprandom" writes the whole drive at random as fio's `sprandom` does (since 3.41), with
    `spare_percent` as the spare flash over the capacity.
    """

    kind: Literal["purge", "fill", "rest", "steady", "load", "discard", "sprandom"]
    passes: Annotated[int, Field(ge=1, le=10)] = 1
    content: Content = Content()
    seconds: Annotated[float, Field(ge=0, le=DURATION_S_MAX)] = 0.0
    waiting_s: Annotated[float, Field(gt=0, le=DURATION_S_MAX)] | None = None
    if_needed: bool = False
    load: Workload | None = None
    until_steady: Steady | None = None
    spare_percent: Annotated[float, Field(gt=0, le=100)] | None = None

    @model_validator(mode="after")
    def _fields_fit_the_kind(self) -> Prepare:
        allowed = {
            "purge": {"kind"},
            "fill": {"kind", "passes", "content", "if_needed", *_Span.model_fields},
            "rest": {"kind", "seconds", "waiting_s"},
            "steady": {"kind", "load", "until_steady"},
            "load": {"kind", "load"},
            "discard": {"kind", *_Span.model_fields},
            "sprandom": {"kind", "spare_percent"},
        }[self.kind]
        changed = {
            name
            for name, field in type(self).model_fields.items()
            if name in self.model_fields_set and getattr(self, name) != field.default
        }
        if foreign := sorted(changed - allowed):
            raise ValueError(f"'{foreign[0]}' has no meaning for a {self.kind}")
        if self.kind == "rest" and self.seconds <= 0:
            raise ValueError("a rest needs 'seconds', more than 0")
        if self.kind == "steady" and (self.load is None or self.load.until_stable is not None):
            raise ValueError(
                "a steady needs 'load' without 'until_stable'; every round runs it once"
            )
        if self.kind == "load" and self.load is None:
            raise ValueError("a load needs 'load', the workload to run")
        if self.kind == "sprandom" and self.spare_percent is None:
            raise ValueError("a sprandom needs 'spare_percent', of spare flash over the capacity")
        return self

    @property
    def rounds(self) -> tuple[Workload, Steady]:
        """The load of a "steady" step and its criterion."""
        assert self.load is not None, "checked above"
        return self.load, self.until_steady or Steady()

    def longest_s(self) -> float:
        """Longest duration in seconds of a rest, a load or rounds until steady; 0 for fills."""
        if self.kind == "steady":
            load, rule = self.rounds
            return load.duration_s * rule.rounds_max
        return self.seconds if self.load is None else self.load.duration_s

    def shortened(self, quick: Quick) -> Prepare:
        """The --quick form."""
        if self.kind == "rest":
            waiting_s = min(quick.waiting_s, self.waiting_s or quick.waiting_s)
            return self.model_copy(update={"waiting_s": waiting_s})
        if self.kind == "fill":
            if_needed = quick.keep_state or self.if_needed
            return self.model_copy(update={"passes": 1, "if_needed": if_needed})
        if self.load is None:
            return self
        shorter = {"duration_s": min(self.load.duration_s, quick.duration_s), "until_stable": None}
        changes: dict[str, Any] = {"load": self.load.model_copy(update=shorter)}
        if self.kind == "steady":
            _, rule = self.rounds
            changes["until_steady"] = rule.model_copy(update={"rounds_max": rule.window_rounds})
        return self.model_copy(update=changes)


class Replay(TraceLoad):
    """A replayed trace; `seed` is for a synthesized one, `drive_s` is its approximate duration,
    for estimates.
    """

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    drive_s: Seconds


class Trim(Data):
    """One half of a TRIM validation, as docs/concepts/real-drives.md defines it: a pattern is
    written to three extents, and every 4 KiB of their middle halves is read `reads` times;
    or, with `discard`, the middle halves are discarded first, and nothing is written.
    """

    discard: bool
    extent_bytes: Annotated[int, Field(ge=MIB, le=64 * MIB, multiple_of=MIB)] = 8 * MIB
    reads: Annotated[int, Field(ge=2, le=10)] = 3

    def words(self) -> str:
        """Describes the half in one line.

        >>> Trim(discard=True).words()
        '3 extents of 8 MiB, their middle halves discarded and read 3 times'
        """
        before = "discarded and " if self.discard else ""
        size = f"3 extents of {self.extent_bytes // MIB} MiB"
        halves = f"their middle halves {before}read {self.reads} times"
        return f"{size}{'' if self.discard else ' written'}, {halves}"


# Approximate duration of one half of a TRIM validation; guess: 9,216 reads of 0.2 ms, and pauses.
TRIM_STAND_IN_S = 3.0


class Phase(Data):
    """One period of unchanged load; the label is unique in its test ("run", "qd4").

    The steps of `before` precede it; none of them is measured. With a `replay` the load is a trace,
    with `trim` a half of a TRIM validation; then `workload` is only a stand-in of the same length,
    for code that looks at every phase: 4 KiB, queue depth 1.

    With `together` its load runs at the same time as the previous phase's, as a job of its own
    (fio): each has its own queue depth, rate and result, over the same time. With `rate_of` the
    load is an open loop whose requests arrive at random (Poisson), at `rate_percent` of the I/Os
    per second that an earlier phase of the test reached.
    """

    label: Id
    workload: Workload
    together: bool = False
    rate_of: Id | None = None
    rate_percent: Annotated[float, Field(gt=0, le=1000)] | None = None
    replay: Replay | None = None
    trim: Trim | None = None
    before: Annotated[tuple[Prepare, ...], BeforeValidator(_a_tuple)] = ()
    rest_s: Annotated[float, Field(ge=0, le=DURATION_S_MAX)] = 0.0
    waiting_s: Annotated[float, Field(gt=0, le=DURATION_S_MAX)] | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Phase:
        if any(step.kind == "steady" for step in self.before):
            raise ValueError("'before' takes no \"steady\": make it a phase, or a 'prepare'")
        if (self.rate_of is None) != (self.rate_percent is None):
            raise ValueError("'rate_of' and 'rate_percent' need each other")
        if self.rate_of is not None and self.workload.rate_iops:
            raise ValueError("'rate_of' takes the place of 'rate_iops'")
        return self

    @property
    def own_s(self) -> float:
        """Seconds that its load adds to its test, at most."""
        return 0.0 if self.together else self.workload.duration_s

    def at_rate(self, iops: Mapping[str, float]) -> Phase:
        """Returns the phase with its rate as a number, computed from the rates of the earlier
        phases.
        """
        if self.rate_of is None or self.rate_percent is None:
            return self
        rate = max(iops[self.rate_of] * self.rate_percent / 100, RATE_MIN)
        workload = self.workload.model_copy(update={"rate_iops": rate, "rate_process": "poisson"})
        return self.model_copy(update={"workload": workload})

    def shortened(self, quick: Quick) -> Phase:
        """Returns the --quick form.

        Raises
        ------
        ValueError
            If `quick` lacks a value for it.
        """
        before = tuple(step.shortened(quick) for step in self.before)
        if self.trim is not None:
            return self
        if self.replay is not None:
            scale, drive_s = self.replay.scale * quick.scale, self.replay.drive_s * quick.scale
            changed = {"scale": scale, "drive_s": drive_s}
            part = Replay(**{**self.replay.model_dump(), **changed})
            return Phase.model_validate({"label": self.label, "replay": part, "before": before})
        load = self.workload.model_dump()
        load["duration_s"] = min(self.workload.duration_s, quick.duration_s)
        if self.workload.until_stable is not None:
            if quick.until_stable is None:
                raise ValueError("quick needs 'until_stable', as the phase has one")
            load["until_stable"] = quick.until_stable.model_dump()
        shorter = {"workload": Workload(**load), "before": before, "rest_s": 0.0, "waiting_s": None}
        return self.model_copy(update=shorter)

    @model_validator(mode="before")
    @classmethod
    def _stands_in(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "workload" in values:
            return values
        stand_in = {"pattern": "random", "block_bytes": 4096, "queue_depth": 1}
        if replay := values.get("replay"):
            is_table = isinstance(replay, dict)
            length = replay.get("drive_s") if is_table else getattr(replay, "drive_s", None)
            return {**values, "workload": {**stand_in, "read_percent": 50, "duration_s": length}}
        if values.get("trim"):
            reads = {"pattern": "sequential", "read_percent": 100, "duration_s": TRIM_STAND_IN_S}
            return {**values, "workload": {**stand_in, **reads}}
        return values


class Quick(Data):
    """Parameters of `Suite.shortened`: seconds of each phase, of the metric, and of rests if a
    person has to wait for them. A trace is not cut; it has `scale` times the I/Os. Rounds until
    steady are limited to `rounds_max`, which is then also their window.

    With `keep_state` the drive is not purged and is filled only where needed, which saves a fill on
    a real drive; not allowed for tests whose figure depends on unwritten space.
    """

    duration_s: Seconds = 60.0
    scale: Annotated[float, Field(ge=1e-4, le=1)] = 1.0
    waiting_s: Annotated[float, Field(gt=0, le=3600)] = 2.0
    metric_window_s: Seconds | None = None
    until_stable: Stable | None = None
    rounds_max: Annotated[int, Field(ge=2, le=100)] | None = None
    keep_state: bool = False


class Test(Data):
    """One test: a preparation, then its phases one after the other without a pause.

    `what_if` names differences from the drive under review, written as for `--set`, such as
    "heatsink": a virtual drive is changed automatically, a real one by a person.
    """

    __test__ = False  # not a pytest class

    id: Id
    title: Annotated[str, Field(min_length=1, max_length=120)]
    page: Id
    kind: TestKind
    method: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    what_if: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = ()
    prepare: tuple[Prepare, ...] = ()
    phases: Annotated[tuple[Phase, ...], Field(min_length=1)]
    metric_window_s: Seconds | None = None
    metric_queue_depths: tuple[int, ...] = ()
    rounds: Rounds | None = None
    scores: tuple[Score, ...] = ()
    quick: Quick | None = None

    @classmethod
    def alone(
        cls, id_: str, title: str, method: str, phase: Phase, prepare: tuple[Prepare, ...]
    ) -> Test:
        """Makes a test of one phase that no suite has; a trace test if the phase is a replay."""
        return cls(
            id=id_,
            title=title,
            page=id_,
            kind="loads" if phase.replay is None else "trace",
            method=method,
            source="the caller",
            prepare=prepare,
            phases=(phase,),
        )

    @model_validator(mode="after")
    def _is_whole(self) -> Test:
        labels = [phase.label for phase in self.phases]
        if len(set(labels)) != len(labels):
            raise ValueError("two phases have the same label; labels must differ")
        if self.kind == "consistency":
            if len(self.phases) != 1 or self.metric_window_s is None:
                raise ValueError("a consistency test needs one phase and 'metric_window_s'")
            if self.metric_window_s > self.phases[0].workload.duration_s:
                raise ValueError("metric_window_s must be at most the phase's duration_s")
        depths = {phase.workload.queue_depth for phase in self.phases}
        if self.kind == "ladder" and (
            not self.metric_queue_depths or set(self.metric_queue_depths) - depths
        ):
            raise ValueError(
                "a ladder needs 'metric_queue_depths', each one of its queue depths "
                f"({', '.join(map(str, sorted(depths)))})"
            )
        if self.kind == "thermal" and (
            len(self.phases) != 1 or self.phases[0].workload.until_stable is None
        ):
            raise ValueError("a thermal test needs one phase with 'until_stable'")
        self._phases_fit_the_kind()
        self._phases_fit_together()
        replays = sum(phase.replay is not None for phase in self.phases)
        if self.kind == "trace" and replays < len(labels):
            raise ValueError("a trace test needs a 'replay' in every phase")
        if self.kind not in ("trace", "ageing") and replays:
            raise ValueError(f"'replay' has no meaning for a {self.kind} test")
        halves = [phase.trim is not None and phase.trim.discard for phase in self.phases]
        trims = [phase.trim for phase in self.phases if phase.trim is not None]
        if (self.kind == "trim-check") != bool(trims) or (trims and halves != [False, True]):
            raise ValueError(
                "a trim-check has two phases, whose 'trim' has discard = false, then true; no "
                "other kind may have one"
            )
        self._rounds_and_scores_fit(set(labels))
        if self.quick is not None:
            self._shortened(self.quick)
        return self

    def _phases_fit_the_kind(self) -> None:
        loads = [phase.workload for phase in self.phases]
        if self.kind == "mixed" and (
            len({load.read_percent for load in loads}) < len(loads)
            or len({load.block_bytes for load in loads}) > 1
        ):
            raise ValueError("a mixed test needs phases of one block size and different mixes")
        if self.kind == "sizes":
            ways = {(load.block_bytes, load.read_percent) for load in loads}
            if len(ways) < len(loads) or {load.read_percent for load in loads} - {0, 100}:
                raise ValueError(
                    "a sizes test needs phases that only read or only write, each of a block size "
                    "of its own"
                )
        if self.kind == "trim-write":
            discards = [any(s.kind == "discard" for s in phase.before) for phase in self.phases]
            first, last = loads[0], loads[-1]
            if len(loads) < 2 or discards[0] or not discards[-1] or first != last:
                raise ValueError(
                    "a trim-write test needs a first and a last phase of the same load, and a "
                    '"discard" before the last one only'
                )

    @property
    def steps(self) -> tuple[Prepare, ...]:
        """All steps: those before the first phase, and those before each phase."""
        return (*self.prepare, *(step for phase in self.phases for step in phase.before))

    @property
    def loads(self) -> tuple[Workload, ...]:
        """All loads: those of the steps, and those of the phases."""
        steps = (step.load for step in self.steps if step.load is not None)
        return (*steps, *(phase.workload for phase in self.phases))

    @property
    def only_virtual(self) -> bool:
        """True if a real drive cannot be given one of its loads."""
        return any(load.only_virtual for load in self.loads)

    @property
    def groups(self) -> tuple[tuple[Phase, ...], ...]:
        """The phases, grouped by those that run at the same time."""
        grouped: list[list[Phase]] = []
        for phase in self.phases:
            if phase.together and grouped:
                grouped[-1].append(phase)
            else:
                grouped.append([phase])
        return tuple(map(tuple, grouped))

    def _phases_fit_together(self) -> None:
        known: set[str] = set()
        if self.phases[0].together:
            raise ValueError("the first phase has nothing to run 'together' with")
        for group in self.groups:
            for phase in group:
                if phase.rate_of is not None and (phase.rate_of not in known or self.rounds):
                    raise ValueError(
                        f"rate_of: '{phase.rate_of}' is not allowed; must be a phase that ends "
                        "before, in a test without rounds"
                    )
            known |= {phase.label for phase in group}
            loads = [phase.workload for phase in group]
            if len(group) > 1 and (
                self.rounds
                or any(phase.replay or phase.trim for phase in group)
                or any(phase.before or phase.rest_s for phase in group[1:])
                or any(load.until_stable for load in loads)
                or (any(load.ends_by_amount for load in loads) and len(set(loads)) > 1)
                or len({(load.duration_s, load.content) for load in loads}) > 1
            ):
                raise ValueError(
                    "phases that run 'together' need the same duration_s and content, without "
                    "'until_stable' and rounds; loads that end by an amount must be equal, and "
                    "only the first may have steps before it"
                )

    def _rounds_and_scores_fit(self, labels: set[str]) -> None:
        if (self.kind == "rounds") != (self.rounds is not None):
            raise ValueError("a rounds test needs 'rounds', and no other kind may have it")
        for name, known in [("rounds.tracked", self.rounds.tracked if self.rounds else ())] + [
            (f"scores.{score.key}.terms", tuple(score.terms)) for score in self.scores
        ]:
            if foreign := sorted(set(known) - labels):
                raise ValueError(
                    f"{name}: {foreign[0]!r} is not allowed; must be a phase of the test: "
                    + ", ".join(sorted(labels))
                )
        keys = [score.key for score in self.scores]
        if len(set(keys)) != len(keys):
            raise ValueError("two scores have the same key; keys must differ")
        if self.scores and self.kind != "loads":
            raise ValueError(f"'scores' has no meaning for a {self.kind} test")

    @property
    def rounds_max(self) -> int:
        """Highest number of times that the phases are run."""
        return 1 if self.rounds is None else self.rounds.rounds_max

    def drive_seconds(self) -> float:
        """Duration of rests, rounds and phases at their longest, in seconds; without fills."""
        before = sum(step.longest_s() for step in self.prepare)
        once = sum(phase.own_s + sum(s.longest_s() for s in phase.before) for phase in self.phases)
        return before + once * self.rounds_max

    def _shortened(self, quick: Quick) -> Test:
        kept = (step for step in self.prepare if not (step.kind == "purge" and quick.keep_state))
        window, rounds = self.metric_window_s, self.rounds
        if window is not None:
            if quick.metric_window_s is None:
                raise ValueError("quick needs 'metric_window_s', as the test has one")
            window = min(window, quick.metric_window_s)
        if rounds is not None and quick.rounds_max is not None:
            few = min(quick.rounds_max, rounds.rounds_max)
            most = {"rounds_max": few, "window_rounds": min(few, rounds.window_rounds)}
            rounds = rounds.model_copy(update=most)
        shorter_parts = {
            "prepare": tuple(step.shortened(quick) for step in kept),
            "phases": tuple(phase.shortened(quick) for phase in self.phases),
            "metric_window_s": window,
            "rounds": rounds,
        }
        return Test(**{**dict(self), **shorter_parts, "quick": None})

    def in_real_time(self) -> Test:
        """Returns the form for a real drive: no rest is longer than its `waiting_s`."""

        def step(prepare: Prepare) -> Prepare:
            if prepare.waiting_s is None:
                return prepare
            seconds = min(prepare.seconds, prepare.waiting_s)
            return prepare.model_copy(update={"seconds": seconds, "waiting_s": None})

        def part(phase: Phase) -> Phase:
            return phase.model_copy(update={"before": tuple(map(step, phase.before))})

        prepare, phases = tuple(map(step, self.prepare)), tuple(map(part, self.phases))
        return self.model_copy(update={"prepare": prepare, "phases": phases})

    def within(self, capacity_bytes: int) -> Test:
        """Returns the form for a drive of this size: see `Suite.within`."""
        kept: list[Phase] = []
        whole: dict[object, int] = {}
        for phase in self.phases:
            span = phase.workload.span_bytes or 0
            load = phase.workload.model_copy(update={"span_bytes": None}), phase.before
            if span < capacity_bytes or whole.setdefault(load, span) == span:
                kept.append(phase)
        return self.model_copy(update={"phases": tuple(kept)})

    def shortened(self) -> Test:
        """Returns the --quick form; a test without `quick` in its data is returned unchanged."""
        return self if self.quick is None else self._shortened(self.quick)


class Suite(Data):
    """Tests in the order of the review."""

    schema_version: Literal[1] = SCHEMA_VERSION
    name: Id
    title: Annotated[str, Field(min_length=1, max_length=120)]
    description: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    tests: Annotated[tuple[Test, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _ids_differ(self) -> Suite:
        ids = [test.id for test in self.tests]
        if twice := sorted({name for name in ids if ids.count(name) > 1}):
            raise ValueError(f"two tests have the id '{twice[0]}'; ids must differ")
        return self

    def shortened(self) -> Suite:
        """Returns the --quick form: the same tests, with every duration and window cut as their
        data specifies.
        """
        return Suite(**{**dict(self), "tests": tuple(test.shortened() for test in self.tests)})

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the tests, in their order."""
        return tuple(test.id for test in self.tests)

    def in_real_time(self) -> Suite:
        """Returns the form for a real drive: no rest is longer than its `waiting_s`, and tests
        that only a virtual drive can run are left out, unless there are no others.
        """
        tests = [test for test in self.tests if not test.only_virtual] or self.tests
        return self.model_copy(update={"tests": tuple(test.in_real_time() for test in tests)})

    def within(self, capacity_bytes: int) -> Suite:
        """Returns the form for a drive of this size: of phases that differ only in a span that
        covers the whole drive, only the first.
        """
        tests = tuple(test.within(capacity_bytes) for test in self.tests)
        return self.model_copy(update={"tests": tests})

    def larger_than(self, capacity_bytes: int) -> list[str]:
        """Ids of the tests whose loads all span more bytes than this."""
        return [
            test.id
            for test in self.tests
            if min(phase.workload.span_bytes or 0 for phase in test.phases) > capacity_bytes
        ]

    def with_modified(self, modified: tuple[str, ...]) -> tuple[Test, ...]:
        """Tests that a real drive can run after a person has made exactly these changes to it."""
        return tuple(test for test in self.tests if set(test.what_if) == set(modified))

    def selected(self, ids: tuple[str, ...]) -> Suite:
        """Returns a suite with only these tests, in the suite's order."""
        return Suite(**{**dict(self), "tests": tuple(t for t in self.tests if t.id in ids)})


def _share(capacity_bytes: int, percent: float) -> int:
    """Share of the capacity in bytes, rounded down to 1 MiB; computed in integers."""
    return capacity_bytes * round(percent * 1000) // 100_000 // MIB * MIB
