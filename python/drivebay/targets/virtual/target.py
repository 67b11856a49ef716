"""The virtual drive as a target: a profile, run in process by the Rust core, in virtual time.

Every test begins with a drive as new, so tests depend on nothing but their seed and may run side by
side. A fill is a real sequential write of the drive, with its heat; rests cool it. Tests of one
review that begin from the same prepared state share it (states).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa

from drivebay import _core
from drivebay.common.errors import TraceOrderError, UserError
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile
from drivebay.definitions.suites import Content, Phase, Prepare, Test, Workload
from drivebay.results.records import HISTOGRAM_SCHEMA, SERIES_SCHEMA, STAGES_SCHEMA, PhaseResult
from drivebay.targets import rounds
from drivebay.targets.base import Progress
from drivebay.targets.replay import source as replay
from drivebay.targets.telemetry import smart
from drivebay.targets.trim_verdict import Claims, Validation, starts
from drivebay.targets.virtual.states import Prepared, States, key_of, seed_of

T = TypeVar("T")
FILL_BLOCK_BYTES = 128 * 1024
FILL_QUEUE_DEPTH = 32
LOOK_EVERY_S = 0.1
FIXED_BYTES = 32 * 2**20
"""Of a drive under test besides its maps: buffers, recorder, results; measured, rounded up."""
IOS_PER_WALL_SECOND = 5e6  # what one core serves, for estimates only
FILLS_PER_WALL_SECOND = 1.2e6  # 128 KiB writes into memory never used before, likewise
REPLAY_COST = 3.0  # the I/Os of a trace are larger, likewise
ROUND_SEEDS = 1_000_000
"""Rounds draw from seeds apart from those of the phases, which count up from the test's."""
PHASES_MAX = 1000
"""Of a test: so far the seeds of one round of its phases lie from those of the next."""
GUESSED_IOPS = 40_000.0  # of a drive under test, for estimates only
GUESSED_BYTES_PER_S = 1.2e9  # likewise, of large requests


class VirtualTarget:
    """A drive of the catalog, or a changed one, under test.

    Parameters
    ----------
    profile : the drive.
    states : prepared states, shared with the targets that run beside this one.
    """

    kind: Literal["virtual", "file", "block"] = "virtual"

    def __init__(self, profile: Profile, states: States | None = None) -> None:
        self._profile = profile
        self._changed: dict[tuple[str, ...], Profile] = {}
        self._states = states or States()
        self._drive: _core.VirtualDrive | None = None
        self._rounds: dict[str, float] = {}
        self.name = profile.name

    def set_profile(self, profile: Profile) -> None:
        """Puts another drive under test, in this one's memory where that fits. The states stay
        those of the drive before: whoever shares them must begin them anew."""
        self._profile, self._changed = profile, {}
        self.name = profile.name

    @property
    def capacity_bytes(self) -> int:
        """User capacity."""
        return self._profile.capacity_bytes

    def identity(self) -> dict[str, Any]:
        """Name, size and the whole resolved profile."""
        drive = self._profile.raw["drive"]
        return {
            "kind": self.kind,
            "name": self.name,
            "title": self._profile.title,
            "model": drive["model"]["value"],
            "interface": self._profile.interface,
            "capacity_bytes": self.capacity_bytes,
            "profile": self._profile.resolved(),
        }

    @property
    def memory_bytes(self) -> int:
        """What a drive under test takes, with some room beside its maps."""
        return self._profile.memory_bytes * 11 // 10 + FIXED_BYTES

    def expect(self, tests: tuple[Test, ...], *, seed: int, copies_max: int) -> None:
        """Told before the first test: all that are to run, and how many states may be kept."""
        self._states.expect(tests, seed=seed, kept_max=copies_max)

    def claim(self, test: Test) -> bool:
        """Whether this test can begin without waiting for another's preparation."""
        return self._states.claim(test)

    def _profile_for(self, test: Test) -> Profile:
        """The drive as the test wants it."""
        if not test.what_if:
            return self._profile
        if test.what_if not in self._changed:
            try:
                self._changed[test.what_if] = changed(self._profile, test.what_if)
            except UserError as problem:
                raise UserError(
                    f"test {test.id}: what_if: {problem.message.removeprefix('--set ')}",
                    f"leave the test out: --skip {test.id}",
                ) from None
        return self._changed[test.what_if]

    def check(self, tests: tuple[Test, ...]) -> None:
        """Raises UserError if a test asks what the drive cannot do, naming the field."""
        for test in tests:
            self._profile_for(test)
            for phase in test.phases:
                if phase.replay is not None:
                    phase.replay.check(where=test.id)
                else:
                    self._check_phase(test, phase)

    def _check_phase(self, test: Test, phase: Phase) -> None:
        if phase.workload.span(self.capacity_bytes)[1] == 0:
            raise UserError(
                f"{test.id}: not one block of {phase.workload.block_bytes} bytes fits the "
                f"span of phase {phase.label} on {self.name}",
                f"leave the test out: --skip {test.id}",
            )
        try:
            self._profile_for(test).core.check(phase.workload.core(self.capacity_bytes))
        except UserError as problem:
            raise UserError(
                f"test {test.id}, phase {phase.label}: workload.{problem.message} on {self.name}",
                f"leave the test out: --skip {test.id}",
            ) from None

    def estimate_s(self, test: Test) -> float:
        """Wall-clock seconds on one core, roughly."""
        return _fills(test) * self._fill_wall_s + self._load_wall_s(test)

    @property
    def _fill_wall_s(self) -> float:
        """Wall-clock seconds of one fill of the whole drive, roughly."""
        return self.capacity_bytes / FILL_BLOCK_BYTES / FILLS_PER_WALL_SECOND

    def _load_wall_s(self, test: Test) -> float:
        rounds_s = sum(step.longest_s() for step in test.prepare if step.load is not None)
        ios = test.rounds_max * sum(
            _guessed_ios(phase.workload)
            if phase.replay is None
            else replay.requests(phase.replay) * REPLAY_COST
            for phase in test.phases
        )
        ios += rounds_s * GUESSED_IOPS
        return ios / IOS_PER_WALL_SECOND

    def run_test(self, test: Test, *, seed: int, progress: Progress) -> list[PhaseResult]:
        """Makes the drive as new, prepares it, runs the phases."""
        try:
            return self._run_test(test, seed, progress)
        except TraceOrderError as problem:
            raise UserError(
                problem.message, "have it sorted first: drivebay trace convert TRACE sorted.csv"
            ) from None

    def _new_drive(self, profile: Profile, seed: int) -> _core.VirtualDrive:
        if self._drive is None:
            self._drive = _core.VirtualDrive(profile.core, seed)
        else:
            self._drive.reset(profile.core, seed)
        return self._drive

    def _run_test(self, test: Test, seed: int, progress: Progress) -> list[PhaseResult]:
        load = test.rounds_max * sum(phase.workload.duration_s for phase in test.phases)
        rounds_s = sum(step.longest_s() for step in test.prepare if step.load is not None)
        # A fill counts as many of the drive's seconds as the load runs in the time it takes here.
        share = (load + rounds_s) * self._fill_wall_s / max(0.01, self._load_wall_s(test))
        planned = load + share * _fills(test) + rounds_s
        done = 0.0
        key, profile = key_of(test), self._profile_for(test)
        first = seed_of(key, seed if self._states.seed is None else self._states.seed)

        def prepare() -> Prepared:
            """Makes the drive as new and takes it through the steps."""
            nonlocal done
            drive = self._new_drive(profile, first)
            self._rounds = {}
            for step in test.prepare:
                progress.check()
                self._prepare(step, first, progress, done, planned, share)
                done += share * step.passes if step.kind == "fill" else 0.0
                done += step.longest_s() if step.load is not None else 0.0
            return drive, self._rounds

        self._drive, figures = self._states.get(test, self._drive, prepare, progress)
        done = share * sum(s.passes for s in test.prepare if s.kind == "fill") + rounds_s
        health = self._health()
        indices = {phase.label: index for index, phase in enumerate(test.phases)}

        found: dict[str, Any] = {}

        def run(phase: Phase, number: int) -> PhaseResult:
            nonlocal done, found
            progress.check()
            for step in phase.before:
                self._prepare(step, seed, progress, done, planned, share)
                done += share * step.passes if step.kind == "fill" else 0.0
            index = number * PHASES_MAX + indices[phase.label]
            outcome = self._phase(phase, seed + index, progress, partial(_place, done, planned))
            done += phase.workload.duration_s
            if isinstance(outcome, _core.RunResult):
                return _phase_result(phase, outcome, {})
            if isinstance(outcome, _core.ReplayResult):
                return _phase_result(phase, outcome.run, replay.metrics(outcome))
            if phase.trim is not None and phase.trim.discard:
                found = {"trim": _trim_found(outcome).record()}
            return _phase_result(phase, outcome.run, {})

        if test.rounds is not None:
            results = rounds.run(test, run)
        else:
            results = [run(phase, 0) for phase in test.phases]
        for name, value in figures.items():
            results[0].metrics.setdefault(name, value)
        said = {"smart": smart.compared(health, self._health()), **found}
        results[0] = replace(results[0], conditions={**results[0].conditions, **said})
        return results

    def _health(self) -> smart.Smart:
        """The drive's own health log at this moment."""
        assert self._drive is not None
        health = self._drive.health()
        log = {name: getattr(health, name) for name in dir(health) if not name.startswith("_")}
        log["node_temperatures_c"] = dict(health.node_temperatures_c)
        return smart.Smart("drivebay", smart.virtual_figures(health), json.dumps(log).encode())

    def _phase(
        self,
        phase: Phase,
        seed: int,
        progress: Progress,
        place: Callable[[float], tuple[float, float]],
    ) -> _core.RunResult | _core.ReplayResult | _core.TrimCheckResult:
        assert self._drive is not None
        drive = self._drive
        if (load := phase.replay) is not None:
            source, options = load.source(load.seed), load.options()
            return _watched(
                phase.label,
                lambda control: drive.replay(source, options, control),
                progress,
                place,
            )
        if (half := phase.trim) is not None:
            places = starts(self.capacity_bytes, half.extent_bytes)
            return _watched(
                phase.label,
                lambda control: drive.trim_check(places, **half.model_dump(), control=control),
                progress,
                place,
            )
        return self._run(
            phase.label, phase.workload.core(self.capacity_bytes), seed, progress, place
        )

    def _run(
        self,
        what: str,
        workload: _core.Workload,
        seed: int,
        progress: Progress,
        place: Callable[[float], tuple[float, float]],
    ) -> _core.RunResult:
        assert self._drive is not None
        drive, masked = self._drive, seed & (2**64 - 1)
        return _watched(what, lambda control: drive.run(workload, masked, control), progress, place)

    def _prepare(
        self,
        step: Prepare,
        seed: int,
        progress: Progress,
        done: float,
        planned: float,
        share: float,
    ) -> None:
        assert self._drive is not None
        if step.kind == "purge":
            self._drive.secure_erase()
        elif step.kind == "rest":
            self._drive.rest(step.seconds)
        elif step.kind == "steady":
            self._steady(step, seed, progress, done, planned)
        elif step.load is not None:
            workload = step.load.core(self.capacity_bytes)
            place = partial(_place, done, planned)
            self._run("load", workload, seed + ROUND_SEEDS, progress, place)
        elif step.kind == "discard":
            self._drive.discard(*step.span(self.capacity_bytes))
        else:
            start, length = step.span(self.capacity_bytes)
            # How long it takes the drive depends on its heat, so progress is not linear: half of
            # it when the drive could have been filled at 1 GB/s.
            expected = length / 1e9
            for number in range(step.passes):
                before = done + share * number
                place = partial(_filling, before, share, expected, planned)
                for workload in _fill_workloads(start, length, step.content):
                    self._run("fill", workload, seed, progress, place)

    def _steady(
        self, step: Prepare, seed: int, progress: Progress, done: float, planned: float
    ) -> None:
        """Rounds until steady, each a run of its own that goes on with the drive as it is."""
        load, rule = step.rounds
        workload = load.core(self.capacity_bytes)
        rates: list[float] = []
        window = None
        while len(rates) < rule.rounds_max and not (window and window.steady):
            progress.check()
            place = partial(_place, done + len(rates) * load.duration_s, planned)
            run = self._run("steady", workload, seed + ROUND_SEEDS + len(rates), progress, place)
            seconds = (run.end_ns - run.start_ns) / 1e9
            rates.append(float((run.reads + run.writes).sum()) / seconds)
            window = rule.window(rates)
        self._rounds = {
            "steady_rounds": float(len(rates)),
            "steady_reached": float(bool(window and window.steady)),
        }

    def close(self) -> None:
        """Gives the drive's memory back."""
        self._drive = None


def _watched(
    what: str,
    run: Callable[[_core.Control], T],
    progress: Progress,
    place: Callable[[float], tuple[float, float]],
) -> T:
    """Runs a workload or a trace while another thread reports how far it is."""
    control = _core.Control()
    progress.on_cancel(control.cancel)
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_EVERY_S):
            now = control.progress()
            progress.report(
                what,
                *place(now.elapsed_s),
                temperature_c=now.temperature_c,
                iops=float(now.iops),
                bytes_per_s=float(now.bytes_per_s),
            )

    watcher = threading.Thread(target=watch, name="drivebay-watch", daemon=True)
    watcher.start()
    try:
        return run(control)
    finally:
        over.set()
        watcher.join()


def _guessed_ios(load: Workload) -> float:
    """How many I/Os a load may have, for estimates only."""
    return load.duration_s * min(GUESSED_IOPS, GUESSED_BYTES_PER_S / load.block_bytes)


def _trim_found(found: _core.TrimCheckResult) -> Validation:
    """What the map says: a mapped page gives what was written to it, an unmapped one zeros, and
    that at every read (docs/concepts/model.md)."""
    blocks, old = found.pages, found.mapped
    return Validation(
        claims=Claims(True, "zeros", True, "the model"),
        offered=True,
        why_not="",
        blocks=blocks,
        old_blocks=old,
        reads_after="zeros" if old == 0 else "old data" if old == blocks else "mixed",
        deterministic=True,
        neighbours_intact=found.outer_lost == 0,
    )


def _fills(test: Test) -> int:
    """How often the drive is filled in a test."""
    steps = [*test.prepare, *(step for phase in test.phases for step in phase.before)]
    return sum(step.passes for step in steps if step.kind == "fill")


def _filling(
    before: float, share: float, expected_s: float, planned: float, seconds: float
) -> tuple[float, float]:
    """Progress after so much of the drive's time in a fill; never quite all of its share."""
    return before + share * seconds / (seconds + expected_s), planned


def _place(before: float, planned: float, seconds: float) -> tuple[float, float]:
    """Where a phase is on the test's way."""
    return before + seconds, planned


def _fill_workloads(start: int, length: int, content: Content) -> list[_core.Workload]:
    """One sequential pass, and what is left at the end of a span that is no multiple of 128 KiB."""
    whole = length // FILL_BLOCK_BYTES * FILL_BLOCK_BYTES
    parts = [(start, whole, FILL_BLOCK_BYTES), (start + whole, length - whole, length - whole)]
    return [
        _core.Workload(
            pattern="sequential",
            read_percent=0,
            block_bytes=block,
            compressible_percent=content.compressible_percent,
            queue_depth=FILL_QUEUE_DEPTH,
            span_start_bytes=first,
            span_bytes=size,
            bytes=size,
        )
        for first, size, block in parts
        if size > 0
    ]


def _phase_result(phase: Phase, c: _core.RunResult, more: dict[str, float]) -> PhaseResult:
    """Columns of the core as the tables of a result; `more` are metrics."""
    duration_s = (c.end_ns - c.start_ns) / 1e9
    seconds = max(round(duration_s), 1)
    count = c.reads + c.writes

    def row(name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        """A column over all seconds of the phase, zero where nothing completed."""
        column = getattr(c, name)
        full = np.zeros(max(seconds, len(column)), dtype=np.int64)
        full[: len(column)] = column
        return full

    some = row("reads") + row("writes") > 0
    mean = np.divide(c.latency_ns_sum, count, where=count > 0, out=np.zeros(len(count)))
    rows = len(some)

    def sensor(name: str, kind: pa.DataType) -> pa.Array:
        values = getattr(c, name)[:rows].tolist()
        return pa.array(values + [None] * (rows - len(values)), kind)

    series = pa.Table.from_arrays(
        [
            pa.array(np.arange(rows), pa.int32()),
            *(pa.array(row(name)) for name in ("reads", "writes", "read_bytes", "write_bytes")),
            pa.array(np.pad(mean, (0, rows - len(mean))), mask=~some),
            pa.array(row("latency_ns_max"), mask=~some),
            sensor("temperature_c", pa.float64()),
            sensor("power_w", pa.float64()),
            sensor("throttle_stage", pa.int32()),
        ],
        schema=SERIES_SCHEMA,
    )
    histogram = pa.concat_tables(
        pa.Table.from_arrays(
            [
                pa.array([direction] * len(latency.count), pa.string()),
                *(
                    pa.array(part.astype(np.int64))
                    for part in (latency.low_ns, latency.high_ns, latency.count)
                ),
            ],
            schema=HISTOGRAM_SCHEMA,
        )
        for direction, latency in (("read", c.read_latency), ("write", c.write_latency))
    )
    stages = pa.concat_tables(
        pa.Table.from_arrays(
            [
                pa.array(np.arange(len(ns)), pa.int32()),
                pa.array([stage] * len(ns), pa.string()),
                pa.array(ns.astype(np.int64)),
            ],
            schema=STAGES_SCHEMA,
        )
        for stage, ns in c.stage_ns.items()
        if ns.any()
    )
    before, after = c.before, c.after
    host_pages = after.host_pages - before.host_pages
    metrics = {
        "energy_j": after.energy_j - before.energy_j,
        "throttled_s": after.throttled_s - before.throttled_s,
        "stable": float(c.stable),
    }
    if len(c.power_w):
        # Whole seconds only; the core's steps of 100 ms are its finest reading.
        metrics["power_w_mean"] = float(c.power_w.mean())
        metrics["power_w_peak_1s"] = float(c.power_w.max())
        metrics["power_w_peak_100ms"] = float(c.power_w_peak.max())
    metrics |= more
    if c.media_errors:
        metrics["media_errors"] = float(c.media_errors)
    if host_pages:
        metrics["waf"] = (after.placed_pages - before.placed_pages) / host_pages
    return PhaseResult(
        label=phase.label,
        workload=phase.workload,
        duration_s=duration_s,
        reads=int(c.reads.sum()),
        writes=int(c.writes.sum()),
        read_bytes=int(c.read_bytes.sum()),
        write_bytes=int(c.write_bytes.sum()),
        series=series,
        histogram=histogram,
        stages=stages,
        metrics=metrics,
    )
