"""The virtual drive as a target: a profile, run in process by the Rust core, in virtual time.

Every test begins with a new drive, so tests depend only on their seed and may run in parallel. A
fill is a real sequential write of the drive, with its heat; rests cool it. Tests of one review that
begin from the same prepared state share it (states).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import add
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from drivebay import _core
from drivebay.common.errors import TraceOrderError, UserError
from drivebay.common.seeds import derived_seed
from drivebay.common.threads import repeated
from drivebay.definitions import policies
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile
from drivebay.definitions.suites import Phase, Prepare, Test, Workload
from drivebay.definitions.suites.parts import Steady
from drivebay.results import records
from drivebay.results.records import PhaseResult
from drivebay.targets import rounds
from drivebay.targets.base import Progress, Target
from drivebay.targets.replay import figures as replay
from drivebay.targets.telemetry import smart
from drivebay.targets.trim_verdict import Claims, Validation, starts
from drivebay.targets.virtual.busy import busy
from drivebay.targets.virtual.inside import EVENTS_MAX, inside
from drivebay.targets.virtual.states import Prepared, States, key_of

T = TypeVar("T")
# Converts the drive's seconds since a run's start to progress.
Elapsed = Callable[[float], float]
FILL_BLOCK_BYTES = 128 * 1024
BLOCK_4K = 4096
FILL_QUEUE_DEPTH = 32
LOOK_EVERY_S = 0.1
# Memory of a drive under test in addition to its maps: buffers, recorder, results; measured,
# rounded up.
FIXED_BYTES = 32 * 2**20
IOS_PER_WALL_SECOND = 5e6  # I/Os per second on one core, for estimates only
FILLS_PER_WALL_SECOND = 1.2e6  # 128 KiB writes into memory never used before, for estimates only
REPLAY_COST = 3.0  # cost factor, as the I/Os of a trace are larger; for estimates only
# Seeds of preparation rounds start here, apart from the seeds of the phases, which count up from
# the test's.
ROUND_SEEDS = 1_000_000
# Distance between the seeds of one round of a test's phases and the next.
PHASES_MAX = 1000
GUESSED_IOPS = 40_000.0  # rate of a drive under test, for estimates only
GUESSED_BYTES_PER_S = 1.2e9  # rate of large requests, for estimates only


@dataclass
class _Clock:
    """Progress of the running test, in the drive's seconds; a fill counts as `fill_s`, the seconds
    that the load simulates in the time that a fill takes here.
    """

    progress: Progress
    planned_s: float
    fill_s: float
    done_s: float = 0.0


class VirtualTarget(Target):
    """A drive of the catalog, or a changed one, under test. `profile`: the drive. `states`:
    prepared states, shared with the targets that run in parallel. `events`: True if phases
    record the events inside the drive, `PhaseResult.inside`.
    """

    kind = "virtual"

    def __init__(
        self, profile: Profile, states: States | None = None, *, events: bool = False
    ) -> None:
        # Limit of events that a phase records.
        self._kept = EVENTS_MAX if events else 0
        self._profile = self._running = profile
        self._changed: dict[tuple[str, ...], Profile] = {}
        self._states = states or States()
        self._drive: _core.VirtualDrive | None = None
        self._rounds: dict[str, float] = {}
        self.name = profile.name

    def set_profile(self, profile: Profile) -> None:
        """Puts another drive under test, in this one's memory where it fits. The states remain
        those of the previous drive: their users must begin them anew.
        """
        self._profile, self._changed = profile, {}
        self.name = profile.name

    @property
    def capacity_bytes(self) -> int:
        """User capacity."""
        return self._profile.capacity_bytes

    def identity(self) -> dict[str, Any]:
        """Returns name, size and the whole resolved profile."""
        return {
            "kind": self.kind,
            "name": self.name,
            "title": self._profile.title,
            "stand_in": self._profile.stand_in,
            "model": self._profile.raw["drive"]["model"]["value"],
            "interface": self._profile.interface,
            "host": self._profile.raw["host"]["title"],
            "capacity_bytes": self.capacity_bytes,
            "profile": self._profile.resolved(),
            **({"events": True} if self._kept else {}),
        }

    @property
    def memory_bytes(self) -> int:
        """Memory of a drive under test, with some margin in addition to its maps."""
        return self._profile.memory_bytes * 11 // 10 + FIXED_BYTES

    def expect(self, tests: tuple[Test, ...], *, seed: int, copies_max: int) -> None:
        """Called before the first test with all tests that will run, and the number of states that
        may be kept.
        """
        self._states.expect(tests, seed=seed, kept_max=copies_max)

    def claim(self, test: Test) -> bool:
        """True if this test can begin without waiting for another's preparation."""
        return self._states.claim(test)

    def _profile_for(self, test: Test) -> Profile:
        """Returns the drive with the test's changes."""
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
        """Raises UserError if a test requires more than the drive can do, naming the field."""
        for test in tests:
            profile, hint = self._profile_for(test), f"leave the test out: --skip {test.id}"
            for phase in test.phases:
                if phase.replay is not None:
                    phase.replay.check(where=test.id)
                    if "zns" in profile.raw:
                        why = f"{test.id}: {self.name} has zones, and a trace writes anywhere"
                        raise UserError(why, hint)
                    continue
                load = phase.workload
                if load.span(self.capacity_bytes)[1] == 0:
                    raise UserError(
                        f"{test.id}: not one block of {load.block_bytes} bytes fits the span of "
                        f"phase {phase.label} on {self.name}",
                        hint,
                    )
                where = f"test {test.id}, phase {phase.label}"
                self._check_load(profile.core, load, where, hint)
            for group in test.groups:
                if len(group) > 1:
                    # Check the total of outstanding requests; with a rate the core compares it with
                    # the interface's limit.
                    loads = [phase.workload for phase in group]
                    depth = sum(load.queue_depth * load.queues for load in loads)
                    # without fsync, which excludes a rate
                    whole = dict[str, Any](queue_depth=depth, queues=1, rate_iops=1.0, fsync=None)
                    load = group[0].workload
                    if load.zones:  # appends may have any depth
                        whole |= {"zone_op": "append", "zone_fill_percent": 100}
                    where = f"test {test.id}, phase {group[0].label} and those together with it"
                    self._check_load(profile.core, load.model_copy(update=whole), where, hint)

    def _check_load(self, core: _core.Profile, load: Workload, where: str, hint: str) -> None:
        try:
            core.check(load.core(self.capacity_bytes))
        except UserError as problem:
            raise UserError(f"{where}: workload.{problem.message} on {self.name}", hint) from None

    def estimate_s(self, test: Test) -> float:
        """Wall-clock seconds on one core, estimated."""
        return _passes(test.steps) * self._fill_wall_s + _load_wall_s(test)

    @property
    def _fill_wall_s(self) -> float:
        """Wall-clock seconds of one fill of the whole drive, estimated."""
        return self.capacity_bytes / FILL_BLOCK_BYTES / FILLS_PER_WALL_SECOND

    def run_test(self, test: Test, *, seed: int, progress: Progress) -> list[PhaseResult]:
        """Resets the drive, prepares it, runs the phases."""
        prepared_s = _prepare_loads_s(test)
        loads_s = prepared_s + test.rounds_max * sum(phase.own_s for phase in test.phases)
        fill_s = loads_s * self._fill_wall_s / max(0.01, _load_wall_s(test))
        clock = self._clock = _Clock(progress, loads_s + fill_s * _passes(test.steps), fill_s)
        self._conditions: dict[str, Any] = {}
        self._running = self._profile_for(test)
        review_seed = seed if self._states.seed is None else self._states.seed
        first = derived_seed(review_seed, "prepare", key_of(test))
        as_new = partial(self._as_new, test, first)
        self._drive, figures = self._states.get(test, self._drive, as_new, progress)
        clock.done_s = prepared_s + fill_s * _passes(test.prepare)
        health = self._health()
        indices = {phase.label: index for index, phase in enumerate(test.phases)}

        def run(phase: Phase, number: int) -> PhaseResult:
            self._before(phase, seed)
            wakes = self._held.health().wakes
            result = self._phase(phase, seed + number * PHASES_MAX + indices[phase.label])
            if test.kind == "idle":
                result.metrics["wakes"] = float(self._held.health().wakes - wakes)
            clock.done_s += phase.workload.duration_s
            return result

        def run_together(group: tuple[Phase, ...]) -> list[PhaseResult]:
            self._before(group[0], seed)
            jobs = [
                (phase.workload.core(self.capacity_bytes), _masked(seed + indices[phase.label]))
                for phase in group
            ]
            drive, kept = self._held, self._kept
            used = drive.placement()
            ran = self._watched(group[0].label, lambda control: drive.run_jobs(jobs, control, kept))
            placed = _by_handle(group, used, drive.placement())
            clock.done_s += group[0].own_s
            return [self._result(*one) for one in zip(group, ran, placed, strict=True)]

        results = rounds.run(test, run, run_together)
        for name, value in figures.items():
            results[0].metrics.setdefault(name, value)
        if idle := self._policy_warnings():
            self._conditions.setdefault("warnings", []).extend(idle)
        if test.kind == "idle":
            self._conditions["sleep"] = {"why_not": self._no_sleep()}
        said = {"smart": smart.compared(health, self._health()), **self._conditions}
        results[0] = replace(results[0], conditions={**results[0].conditions, **said})
        return results

    def _as_new(self, test: Test, seed: int) -> Prepared:
        """Resets the drive and runs the test's preparation."""
        self._rounds = {}
        if self._drive is None:
            self._drive = _core.VirtualDrive(self._running.core, seed)
        else:
            self._drive.reset(self._running.core, seed)
        for step in test.prepare:
            self._prepare(step, seed)
            self._clock.done_s += step.longest_s() if step.load is not None else 0.0
        return self._drive, self._rounds

    def _before(self, phase: Phase, seed: int) -> None:
        self._clock.progress.check()
        for step in phase.before:
            self._prepare(step, seed)

    @property
    def _held(self) -> _core.VirtualDrive:
        assert self._drive is not None, "made by the preparation"
        return self._drive

    def _health(self) -> smart.Smart:
        """Returns the drive's own health log at this moment."""
        health = self._held.health()
        log = {name: getattr(health, name) for name in dir(health) if not name.startswith("_")}
        log["node_temperatures_c"] = dict(health.node_temperatures_c)
        return smart.Smart("drivebay", smart.virtual_figures(health), json.dumps(log).encode())

    def _no_sleep(self) -> list[str]:
        """Reasons why neither drive nor link can have slept, in sentences."""
        raw, why = self._running.raw, []
        if "power" not in raw:
            why.append("the drive did not sleep: its profile has no power states")
        elif not raw["host"].get("power_saving", {}).get("value"):
            host = raw["host"]["title"]
            why.append(f"the drive did not sleep: its host ({host}) does not let it")
            why.append("to let it sleep, add --host laptop")
        return why

    def _policy_warnings(self) -> list[str]:
        """Lists decisions of the policy plug-in that cannot have had an effect since the drive was
        made.
        """
        policy, asked = policies.of_profile(self._running.raw), self._held.decisions()
        return [] if policy is None or asked is None else [*policies.without_effect(policy, asked)]

    def _phase(self, phase: Phase, seed: int) -> PhaseResult:
        drive = self._held
        if (load := phase.replay) is not None:
            source, options = load.source(load.seed), load.options()
            try:
                replayed = self._watched(
                    phase.label, lambda control: drive.replay(source, options, control, self._kept)
                )
            except TraceOrderError as problem:
                raise UserError(
                    problem.message, "have it sorted first: drivebay trace convert TRACE sorted.csv"
                ) from None
            more = replay.metrics(replayed) | _by_bytes(replayed.run)
            return self._result(phase, replayed.run, more)
        if (half := phase.trim) is not None:
            places = starts(self.capacity_bytes, half.extent_bytes)
            found = self._watched(
                phase.label,
                lambda control: drive.trim_check(places, **half.model_dump(), control=control),
            )
            if half.discard:
                self._conditions["trim"] = _trim_found(found).record()
            return self._result(phase, found.run, {})
        workload = phase.workload.core(self.capacity_bytes)
        masked, kept = _masked(seed), self._kept
        run = self._watched(
            phase.label, lambda control: drive.run(workload, masked, control, events=kept)
        )
        return self._result(phase, run, _by_bytes(run))

    def _result(self, phase: Phase, run: _core.RunResult, more: Mapping[str, float]) -> PhaseResult:
        """Converts the core's columns to the tables of a result; `more`: metrics that the phase's
        kind adds.
        """
        duration_s = (run.end_ns - run.start_ns) / 1e9
        if run.worn_out:
            self._conditions.setdefault("warnings", []).append(
                f"the drive wore out {duration_s:.0f} s into phase {phase.label}: "
                "its figures are of what was done until then"
            )
        own = _metrics(run, self._running.superblock_bytes)
        metrics = {**own, **more, **busy(self._running.raw, run.before, run.after, duration_s)}
        found = None if run.inside is None else inside(run.inside)
        if found is not None and found.dropped:
            metrics["events_dropped"] = float(found.dropped)
        return PhaseResult.counted(
            phase.label,
            phase.workload,
            duration_s,
            series=_series(run, duration_s),
            histogram=records.core_histogram(read=run.read_latency, write=run.write_latency),
            stages=_stages(run),
            metrics=metrics,
            inside=found,
        )

    def _run(
        self, what: str, workload: _core.Workload, seed: int, elapsed: Elapsed = float
    ) -> _core.RunResult:
        drive, masked = self._held, _masked(seed)
        return self._watched(what, lambda control: drive.run(workload, masked, control), elapsed)

    def _watched(self, what: str, run: Callable[[_core.Control], T], elapsed: Elapsed = float) -> T:
        """Runs a workload or a trace while another thread reports its progress."""
        clock, control = self._clock, _core.Control()
        clock.progress.check()
        clock.progress.on_cancel(control.cancel)

        def look() -> None:
            now = control.progress()
            clock.progress.report(
                what,
                clock.done_s + elapsed(now.elapsed_s),
                clock.planned_s,
                temperature_c=now.temperature_c,
                iops=float(now.iops),
                bytes_per_s=float(now.bytes_per_s),
            )

        with repeated(look, every_s=LOOK_EVERY_S):
            return run(control)

    def _prepare(self, step: Prepare, seed: int) -> None:
        drive, clock = self._held, self._clock
        clock.progress.check()
        if step.kind == "purge":
            drive.secure_erase()
        elif step.kind == "rest":
            drive.rest(step.seconds)
        elif step.kind == "steady":
            self._steady(step, seed)
        elif step.load is not None:
            self._run("load", step.load.core(self.capacity_bytes), seed + ROUND_SEEDS)
        elif step.kind == "discard":
            drive.discard(*step.span(self.capacity_bytes))
        else:
            start, length = step.span(self.capacity_bytes)
            workloads = _fill_workloads(start, length, step.spare_percent)

            def share(seconds: float) -> float:
                # A fill's duration depends on the drive's heat, so progress is not linear: half of
                # it when the drive could have been filled at 1 GB/s.
                return clock.fill_s * seconds / (seconds + length / 1e9)

            for _ in range(step.passes):
                for workload in workloads:
                    self._run(step.kind, workload, seed, share)
                clock.done_s += clock.fill_s

    def _steady(self, step: Prepare, seed: int) -> None:
        """Runs rounds until steady, each a separate run that continues with the drive as it is."""
        load, rule = step.rounds
        workload = load.core(self.capacity_bytes)

        def measured(number: int) -> float:
            before_s, own = number * load.duration_s, seed + ROUND_SEEDS + number
            run = self._run("steady", workload, own, partial(add, before_s))
            return float((run.reads + run.writes).sum()) / ((run.end_ns - run.start_ns) / 1e9)

        rates, window = rule.run(measured)
        self._rounds = {
            "steady_rounds": float(len(rates)),
            "steady_reached": float(bool(window and window.steady)),
        }

    def close(self) -> None:
        """Frees the drive's memory."""
        self._drive = None


def _masked(seed: int) -> int:
    return seed & (2**64 - 1)


def _prepare_loads_s(test: Test) -> float:
    """Longest time, in the drive's seconds, of loads and rounds of the preparation."""
    return sum(step.longest_s() for step in test.prepare if step.load is not None)


def _load_wall_s(test: Test) -> float:
    """Wall-clock seconds of everything except fills, estimated."""
    ios = _prepare_loads_s(test) * GUESSED_IOPS
    for phase in test.phases:
        load = phase.workload
        if phase.replay is not None:
            own = replay.requests(phase.replay) * REPLAY_COST
        else:
            own = load.duration_s * min(GUESSED_IOPS, GUESSED_BYTES_PER_S / load.block_bytes)
        ios += test.rounds_max * own
    return ios / IOS_PER_WALL_SECOND


def _trim_found(found: _core.TrimCheckResult) -> Validation:
    """Converts the map's state: a mapped page returns the data written to it, an unmapped one
    zeros, at every read (docs/concepts/model.md).
    """
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


def _passes(steps: tuple[Prepare, ...]) -> int:
    """Number of fills of the drive in these steps."""
    return sum(step.passes for step in steps if step.kind in ("fill", "sprandom"))


def _fill_workloads(start: int, length: int, spare_percent: float | None) -> list[_core.Workload]:
    """One sequential pass, and the rest of a span that is not a multiple of 128 KiB; with spare
    flash to fill, the single pass of random writes over the whole drive.
    """
    if spare_percent is not None:
        offsets, size = f"sprandom:{spare_percent:.9g}", length // BLOCK_4K * BLOCK_4K
        return [writes(0, size, BLOCK_4K, pattern="random", offsets=offsets)]
    whole = length // FILL_BLOCK_BYTES * FILL_BLOCK_BYTES
    parts = [(start, whole, FILL_BLOCK_BYTES), (start + whole, length - whole, length - whole)]
    return [
        writes(first, size, block, pattern="sequential", stop={"bytes": size})
        for first, size, block in parts
        if size > 0
    ]


def writes(start: int, size: int, block: int, **more: Any) -> _core.Workload:
    """Writes to a span at the queue depth of a fill."""
    return _core.Workload(
        read_percent=0,
        block_bytes=block,
        queue_depth=FILL_QUEUE_DEPTH,
        span_start_bytes=start,
        span_bytes=size,
        **more,
    )


def _series(run: _core.RunResult, duration_s: float) -> pa.Table:
    """Returns all seconds of the phase, zero where nothing completed."""
    rows = max(round(duration_s), 1, len(run.reads))

    def padded(name: str) -> npt.NDArray[np.int64]:
        column = getattr(run, name).astype(np.int64)
        return np.pad(column, (0, rows - len(column)))

    def sensor(name: str) -> list[float | None]:
        values = getattr(run, name)[:rows].tolist()
        return [*values, *[None] * (rows - len(values))]

    columns = {name: padded(name) for name in (*records.TOTALS, "latency_ns_max")}
    ios = columns["reads"] + columns["writes"]
    mean = padded("latency_ns_sum") / np.maximum(ios, 1)
    sensors = {name: sensor(name) for name in records.SENSORS}
    return records.one_second_series(**columns, latency_ns_mean=mean, **sensors)


def _stages(run: _core.RunResult) -> pa.Table:
    """Returns the stages; a phase shorter than the wait of its first command has none."""
    tables = [records.STAGES_SCHEMA.empty_table()]
    for stage, ns in run.stage_ns.items():
        if ns.any():
            columns = {"stage": [stage] * len(ns), "ns": ns.astype(np.int64)}
            columns["second"] = np.arange(len(ns))
            tables.append(pa.table(columns, schema=records.STAGES_SCHEMA))
    return pa.concat_tables(tables)


def _by_handle(
    group: Sequence[Phase], before: list[_core.HandleUse], after: list[_core.HandleUse]
) -> list[dict[str, float]]:
    """Write amplification of each phase's placement handle in its reclaim group; nothing without
    placement.
    """

    def waf(old: _core.HandleUse, new: _core.HandleUse) -> float | None:
        written, copied = new.written_4k - old.written_4k, new.copied_4k - old.copied_4k
        return (written + copied) / written if written else None

    pairs = zip(before, after, strict=True)
    known = {(new.reclaim_group, new.handle): waf(old, new) for old, new in pairs}
    loads = (phase.workload for phase in group)
    found = [known.get((load.reclaim_group, load.handle)) for load in loads]
    return [{} if waf_handle is None else {"waf_handle": waf_handle} for waf_handle in found]


def _metrics(run: _core.RunResult, superblock: float) -> dict[str, float]:
    """Metrics of a phase; `superblock`: data of one, in bytes, NaN without erases."""
    before, after = run.before, run.after
    metrics = {
        "energy_j": after.energy_j - before.energy_j,
        "throttled_s": after.throttled_s - before.throttled_s,
        "stable": float(run.stable),
    }
    if len(run.power_w):
        # Whole seconds only; the core's steps of 100 ms are its finest reading.
        metrics["power_w_mean"] = float(run.power_w.mean())
        metrics["power_w_peak_1s"] = float(run.power_w.max())
        metrics["power_w_peak_100ms"] = float(run.power_w_peak.max())
    if run.media_errors:
        metrics["media_errors"] = float(run.media_errors)
    if run.flushes:
        metrics |= records.flushed(run.flushes, run.flush_latency_ns_sum)
    if host_pages := after.host_pages - before.host_pages:
        placed = after.placed_pages - before.placed_pages
        metrics["waf"] = placed / host_pages
        if placed and superblock == superblock:
            metrics["freed"] = (after.erases - before.erases) * superblock / (placed * 4096)
            metrics |= _amplification(run)
    return metrics


def _amplification(run: _core.RunResult) -> dict[str, float]:
    """Write amplification of each part of a run, of as many as `Steady` compares."""
    ends = np.linspace(0, len(run.host_pages), Steady().window_rounds + 1).astype(int)
    counted = ((run.before.placed_pages, run.placed_pages), (run.before.host_pages, run.host_pages))
    placed, host = (np.diff(np.append(before, pages)[ends]) for before, pages in counted)
    return {f"waf_part_{n}": float(placed[n] / host[n]) for n in np.flatnonzero(host)}


def _by_bytes(run: _core.RunResult) -> dict[str, float]:
    """Write amplification by bytes of a phase that ran alone."""
    placed, written = run.after.placed_pages - run.before.placed_pages, int(run.write_bytes.sum())
    return {"waf_bytes": placed * 4096 / written} if written else {}
