"""The steps of one test on a real drive: purge, fill and rest, then the phases, through fio.

Fills and phases are one fio process each, so that each can be watched and stopped by itself, and a
failure attributed to it; the 0.3 s between two phases are idle. Every step leaves its record among
the artefacts of the test's first phase.

Leaves out: measurements around the steps (environment).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drivebay.common.errors import DrivebayError, EnvironmentProblem
from drivebay.common.units import duration
from drivebay.definitions.suites import Phase, Prepare, Replay, Test, Trim, Workload
from drivebay.results.records import PhaseResult, flushed
from drivebay.targets import rounds
from drivebay.targets.base import Progress
from drivebay.targets.fio import job as fio_job
from drivebay.targets.fio import process as fio_run
from drivebay.targets.fio.parse import Recorder
from drivebay.targets.fio.process import Tool
from drivebay.targets.fio.trim import Check, drive_errors, read_phase
from drivebay.targets.replay import run as replay_run
from drivebay.targets.safety.erase import EraseError
from drivebay.targets.safety.handle import ExclusiveHandle
from drivebay.targets.safety.purge import discard, purge
from drivebay.targets.telemetry.environment import Environment

# Time of a fio process in addition to its job (measured: 0.25 to 0.45 s).
START_S = 0.5
PURGE_S = 2.0
# Fill rate until the first measurement on this target; only for the time shown.
FIRST_GUESS_BYTES_PER_S = 400e6
# A shorter fill may be over before its first answer.
ASKED_FILL_BYTES = 2**31
# Share of the planned bytes that sprandom writes at least (fio 3.42: 0.9995); guess: never below.
SPRANDOM_LEAST = 0.99
# A phase that ends by itself before this share of its duration gives no result.
ENOUGH = 0.98


@dataclass
class Written:
    """Known contents of the target: the extents filled since the last purge, the fill rate, and the
    total bytes that we have written, until fio's last answer.
    """

    extents: list[tuple[int, int]] = field(default_factory=list)
    bytes_per_s: float = FIRST_GUESS_BYTES_PER_S
    total_bytes: int = 0

    def covers(self, start: int, end: int) -> bool:
        """True if every byte from `start` to before `end` was filled.

        >>> Written([(0, 10), (20, 30), (5, 20)]).covers(2, 30)
        True
        >>> Written([(0, 10), (20, 30)]).covers(2, 30)
        False
        """
        at = start
        for low, high in sorted(self.extents):
            if low <= at < high:
                at = high
        return at >= end


def fill_span(step: Prepare, capacity_bytes: int) -> tuple[int, int]:
    """Returns the begin and end of a fill: the step's extent, widened to whole blocks of the fill;
    the capacity is a multiple of them.
    """
    start, length = step.span(capacity_bytes)
    block = fio_job.FILL_BLOCK_BYTES
    return start // block * block, -(-(start + length) // block) * block


def seconds_of_parts(test: Test, capacity_bytes: int, written: Written) -> list[float]:
    """Wall-clock seconds that each preparation and phase is likely to take, at the longest."""

    def of_step(step: Prepare) -> float:
        if step.kind == "rest":
            return step.seconds
        if step.kind in ("purge", "discard"):
            return PURGE_S
        if step.load is not None:
            return START_S + step.longest_s()
        if step.spare_percent is not None:
            amount = capacity_bytes * (1 + step.spare_percent / 100)
            return START_S + amount / written.bytes_per_s
        start, end = fill_span(step, capacity_bytes)
        if step.if_needed and written.covers(start, end):
            return 0.0
        return START_S + step.passes * (end - start) / written.bytes_per_s

    once: list[float] = []
    for phase in test.phases:
        once += [of_step(step) for step in phase.before]
        if not phase.together:
            once.append(START_S + phase.own_s)
    return [of_step(step) for step in test.prepare] + once * test.rounds_max


class Parts:
    """Progress through the parts of a test, for the display."""

    def __init__(self, seconds: list[float], progress: Progress) -> None:
        self.progress = progress
        self._seconds = seconds
        self._index = -1
        self._what = ""
        self._done_s = 0.0

    def begin(self, what: str) -> None:
        """Begins the next part."""
        self._index += 1
        self._what = what
        self.at(0.0)

    def at(self, seconds: float, **figures: float) -> None:
        """Reports the seconds of the part that are done; raises `Cancelled` when asked to stop.
        Reported progress never decreases, though a purge begins anew when it tries the next
        erase.
        """
        self.progress.check()
        done_s = sum(self._seconds[: self._index]) + min(seconds, self._seconds[self._index])
        self._done_s = max(self._done_s, done_s)
        self.progress.report(self._what, self._done_s, sum(self._seconds), **figures)

    def share(self, share: float, **figures: float) -> None:
        """Reports the share of the part (0 to 1) that is done."""
        self.at(share * self._seconds[self._index], **figures)


def _not_purged(record: dict[str, Any]) -> str:
    if not record["supported"]:
        return "the storage was not purged, as it offers no way: it is as full as it was before"
    still = record["marks"] - record["marks_gone"]
    return (
        f"the purge by {record['method']} did not work: {still} of {record['marks']} marks can "
        "still be read"
    )


def _result(phase: Phase, recorder: Recorder) -> PhaseResult:
    """Returns the result of a phase, after checking that fio ran it to its end."""
    load, seconds = phase.workload, recorder.duration_ms / 1000
    to_the_end = load.until_stable is None and not load.ends_by_amount
    if to_the_end and seconds < load.duration_s * ENOUGH:
        raise EnvironmentProblem(
            f"{phase.label}: fio ended after {seconds:.1f} s of {duration(load.duration_s)}",
            "see whether something else stopped it: dmesg | tail",
        )
    return PhaseResult.counted(
        phase.label,
        load,
        seconds,
        series=recorder.series(),
        histogram=recorder.histogram(),
        metrics=flushed(recorder.flushes, recorder.flush_ns_sum) if recorder.flushes else {},
    )


@dataclass
class Steps:
    """One running test; `run` executes it completely."""

    tool: Tool
    handle: ExclusiveHandle
    written: Written
    seed: int
    parts: Parts
    environment: Environment
    own_erases: bool
    artefacts: dict[str, bytes] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    trim: Check | None = None

    def run(self, test: Test) -> list[PhaseResult]:
        """Prepare and run all phases. Raises Cancelled when asked to stop; fio has ended by then;
        DrivebayError if a step fails or the target may no longer be written."""
        records = self.prepare(test.prepare)
        self.artefacts["prepare.json"] = json.dumps(records, indent=1).encode()
        if any(one.workload.offsets.startswith(fio_job.SCATTERED) for one in test.phases):
            self.environment.warn("fio has no scattered zones: each lay in one piece")
        if any(fio_job.is_zipf_1(one.workload.offsets) for one in test.phases):
            self.environment.warn(f"fio has no zipf:1: {fio_job.NEXT_TO_1} was run in its place")
        results = rounds.run(test, self._begin, self._together)
        metrics = results[0].metrics
        metrics.update(self.metrics)
        if test.rounds is not None and not metrics["steady_reached"]:
            count = metrics["steady_rounds"]
            self.environment.warn(f"steady state was not reached in {count:.0f} rounds")
        return self.environment.finish(results)

    def prepare(self, steps: tuple[Prepare, ...]) -> list[dict[str, Any]]:
        """Run only these steps, one after the other; returns a record of each. Raises as `run`
        does.
        """
        numbered = enumerate(steps, start=1)
        return [self._prepared(step, f"prepare-{n}-{step.kind}") for n, step in numbered]

    def _begin(self, phase: Phase, number: int) -> PhaseResult:
        """Run a phase, after its rest; `number` counts the rounds of the test's phases."""
        self._before(phase)
        result = self._phase(phase, number)
        self.artefacts = {}
        return result

    def _before(self, phase: Phase) -> None:
        for place, step in enumerate(phase.before, start=1):
            name = f"before-{phase.label}-{place}-{step.kind}"
            record = self._prepared(step, name)
            self.artefacts[f"{name}.json"] = json.dumps(record, indent=1).encode()
        self.parts.begin(phase.label)

    def _together(self, group: tuple[Phase, ...]) -> list[PhaseResult]:
        """Run phases at the same time, as jobs of one fio."""
        self._before(group[0])
        self.environment.begin_phase()
        loads = {one.label: one.workload for one in group}
        recorders = self._until(lambda _: False, loads, self.seed)
        results = [_result(*pair) for pair in zip(group, recorders, strict=True)]
        whole = self.environment.end_phase(results[0], recorders[0].zero_s, beside=results[1:])
        results[0] = replace(whole, artefacts=self.artefacts)
        self.artefacts = {}
        return results

    def _prepared(self, step: Prepare, name: str) -> dict[str, Any]:
        """Run a step and return its record."""
        self.parts.begin(step.kind)
        return {**step.model_dump(exclude_defaults=True), **self._prepare(step, name)}

    def _prepare(self, step: Prepare, name: str) -> dict[str, Any]:
        if step.kind == "rest":
            return self._rest(step.seconds)
        if step.kind == "purge":
            return self._purge()
        if step.kind == "steady":
            return self._steady(step, name)
        if step.load is not None:
            return self._load(step.load, name)
        if step.kind == "discard":
            return self._discard(step)
        if step.spare_percent is not None:
            return self._sprandom(step.spare_percent / 100)
        return self._fill(step, name)

    def _fill(self, step: Prepare, name: str) -> dict[str, Any]:
        start, end = fill_span(step, self.handle.target.capacity_bytes)
        if step.if_needed and self.written.covers(start, end):
            return {"skipped": "every byte was written since the last purge"}
        length, begun = end - start, time.monotonic()
        for number in range(step.passes):
            label = f"{name}-{number + 1}"
            job = fio_job.fill_job(
                label=label,
                start=start,
                length=length,
                engine=self.tool.engine,
                seed=self.seed,
                content=step.content,
            )
            self._whole(job, label, length, length, (number, step.passes))
        seconds = time.monotonic() - begun
        self.written.bytes_per_s = max(1e6, length * step.passes / max(seconds, 1e-3))
        self.written.extents.append((start, end))
        return {"start": start, "bytes": length, "took_s": round(seconds, 3)}

    def _sprandom(self, spare: float) -> dict[str, Any]:
        """Run the single pass, for this share of spare flash over the capacity."""
        length = self.handle.target.capacity_bytes
        job = fio_job.sprandom_job(
            length=length, spare=spare, engine=self.tool.engine, seed=self.seed
        )
        recorder = self._whole(job, "sprandom", round(length * (1 + spare) * SPRANDOM_LEAST))
        self.written.extents.append((0, length))
        return {"bytes": recorder.total["write"].bytes, "took_s": recorder.duration_ms / 1000}

    def _discard(self, step: Prepare) -> dict[str, Any]:
        start, length = step.span(self.handle.target.capacity_bytes)
        self.written.extents = []
        try:
            with drive_errors(self.handle.target.given, "discarding failed"):
                discard(self.handle, start, length, self.parts.share)
        except EraseError as problem:
            self.environment.warn(f"nothing was discarded: {problem}")
            return {"supported": False}
        self.handle.fd(to_write=False)  # nothing more is written
        return {"supported": True, "start": start, "bytes": length}

    def _rest(self, seconds: float) -> dict[str, Any]:
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            self.parts.at(passed)
            time.sleep(min(0.1, seconds - passed))
        return {}

    def _until(
        self, is_over: Callable[[Recorder], bool], loads: Mapping[str, Workload], seed: int
    ) -> list[Recorder]:
        """Runs loads at the same time, by their labels, for the first one's duration, or until
        `is_over`, which is called every second with the figures of the first.
        """
        capacity = self.handle.target.capacity_bytes
        parts = [(label, load, *load.span(capacity)) for label, load in loads.items()]
        job = fio_job.jobs_together(parts, engine=self.tool.engine, seed=seed)
        name, first, *_ = parts[0]

        def each_second(so_far: Recorder) -> bool:
            rate = so_far.latest_bytes_per_s
            iops = {"iops": rate / first.block_bytes} if len(loads) == 1 else {}
            self.parts.at(so_far.duration_ms / 1000, data_bytes_per_s=rate, **iops)
            return is_over(so_far)

        asks_until_ms = first.duration_s * 1000 - 250
        writes = any(load.read_percent < 100 for load in loads.values())
        return self._fio(
            job, name, each_second, lambda _: asks_until_ms, writes=writes, jobs=len(loads)
        )

    def _steady(self, step: Prepare, name: str) -> dict[str, Any]:
        """Run one long load, and check after every round of it."""
        load, rule = step.rounds
        whole = load.model_copy(update={"duration_s": step.longest_s()})

        def is_steady(so_far: Recorder) -> bool:
            window = rule.window(so_far.rates_per_round(load.duration_s))
            return window is not None and window.steady

        recorder = self._until(is_steady, {name: whole}, self.seed)[0]
        rates = recorder.rates_per_round(load.duration_s)
        window = rule.window(rates)
        if window is None:
            raise EnvironmentProblem(
                f"{name}: fio ended after {len(rates)} of {rule.window_rounds} rounds",
                "see whether something else stopped it: dmesg | tail",
            )
        self.metrics = {"steady_rounds": float(len(rates)), "steady_reached": float(window.steady)}
        if not window.steady:
            self.environment.warn(
                f"steady state was not reached in {len(rates)} rounds: the last "
                f"{rule.window_rounds} range over {window.range_percent:.0f} % of their mean and "
                f"slope by {window.slope_percent:.0f} %"
            )
        return {
            "rounds_iops": [round(rate, 1) for rate in rates],
            "range_percent": round(window.range_percent, 2),
            "slope_percent": round(window.slope_percent, 2),
            "steady": window.steady,
        }

    def _load(self, load: Workload, name: str) -> dict[str, Any]:
        """Run one load; only the bytes that it moved are kept."""
        most = load.bytes_max(self.handle.target.capacity_bytes)

        def is_all(so_far: Recorder) -> bool:
            return most is not None and so_far.latest_bytes >= most

        recorder = self._until(is_all, {name: load}, self.seed)[0]
        moved = recorder.total["read"].bytes + recorder.total["write"].bytes
        return {"bytes": moved, "took_s": recorder.duration_ms / 1000}

    def _purge(self) -> dict[str, Any]:
        self.written.extents = []
        with drive_errors(self.handle.target.given, "purging failed"):
            record = purge(
                self.handle, own_erases=self.own_erases, seed=self.seed, step=self.parts.share
            )
        if record["marks_gone"] != record["marks"]:
            self.environment.warn(_not_purged(record))
        return record

    def _whole(
        self,
        job: str,
        name: str,
        least: int,
        most: float = math.inf,
        turn: tuple[int, int] = (0, 1),
    ) -> Recorder:
        """Run a job that ends by itself once it has written between the least and the most bytes.
        `turn`: number of this pass of the step, from 0, and number of all passes.
        """
        number, passes = turn

        def each_second(so_far: Recorder) -> bool:
            done = (number + min(1.0, so_far.latest_bytes / least)) / passes
            self.parts.share(done, data_bytes_per_s=so_far.latest_bytes_per_s)
            return False

        def asks_until_ms(so_far: Recorder) -> float:
            if so_far.latest_bytes == 0:
                return math.inf if least >= ASKED_FILL_BYTES else 0
            rate = max(1.0, so_far.latest_bytes_per_s)
            left_ms = (least - so_far.latest_bytes) / rate * 1000
            return so_far.duration_ms + left_ms - 3000

        recorder = self._fio(job, name, each_second, asks_until_ms, writes=True)[0]
        if not least <= (moved := recorder.total["write"].bytes) <= most:
            raise EnvironmentProblem(
                f"{name}: {moved} of {least} bytes were written",
                "look for the cause with: dmesg | tail",
            )
        return recorder

    def _phase(self, phase: Phase, number: int) -> PhaseResult:
        if phase.replay is not None:
            return self._replay(phase, phase.replay)
        if phase.trim is not None:
            return self._trim(phase, phase.trim)
        load = phase.workload
        most = load.bytes_max(self.handle.target.capacity_bytes)
        seed = self.seed if number == 0 else fio_job.phase_seed(self.seed, f"round {number}")

        def is_over(so_far: Recorder) -> bool:
            if most is not None and so_far.latest_bytes >= most:
                return True
            return load.until_stable is not None and so_far.is_stable(load.until_stable)

        self.environment.begin_phase()
        recorder = self._until(is_over, {phase.label: load}, seed)[0]
        result = replace(_result(phase, recorder), artefacts=self.artefacts)
        return self.environment.end_phase(result, recorder.zero_s)

    def _replay(self, phase: Phase, load: Replay) -> PhaseResult:
        """Replay a trace without fio, whose replay is wrong before 3.36."""
        self.environment.begin_phase()
        result, zero = replay_run.play(
            phase,
            load,
            self.handle,
            seed=self.seed,
            progress=self.parts.progress,
            at=self.parts.at,
            warn=self.environment.warn,
        )
        self.handle.fd(to_write=False)  # the file's size must be unchanged
        if load.trim:
            self.written.extents = []
        kept = replace(result, artefacts=self.artefacts | result.artefacts)
        return self.environment.end_phase(kept, zero)

    def _trim(self, phase: Phase, half: Trim) -> PhaseResult:
        """Run a half of a validation without fio, as every block is read raw and compared."""
        if self.trim is None:
            size, reads = half.extent_bytes, half.reads
            self.trim = Check(self.handle, seed=self.seed, extent_bytes=size, reads=reads)
        check = self.trim
        with drive_errors(self.handle.target.given):
            if half.discard:
                self.written.extents = []
                check.discard()
            else:
                check.write()
            self.environment.begin_phase()
            result, zero = read_phase(phase, check, self.parts.share)
            kept = self.environment.end_phase(replace(result, artefacts=self.artefacts), zero)
            if half.discard:
                self.environment.say(trim=check.judged().record())
        return kept

    def _fio(
        self,
        job: str,
        name: str,
        each_second: Callable[[Recorder], bool],
        asks_until_ms: Callable[[Recorder], float],
        *,
        writes: bool,
        jobs: int = 1,
    ) -> list[Recorder]:
        before = self.written.total_bytes

        def counted(so_far: Recorder) -> bool:
            self.written.total_bytes = before + so_far.latest_written_bytes
            return each_second(so_far)

        try:
            recorders, artefacts = fio_run.run(
                self.tool,
                job,
                self.handle.fd(to_write=writes),
                name=name,
                shown_target=self.handle.target.path,
                progress=self.parts.progress,
                each_second=counted,
                asks_until_ms=asks_until_ms,
                on_start=self.environment.watch,
                look=self.handle.check_size,  # fio extends a truncated file again
                jobs=jobs,
            )
        except DrivebayError as problem:
            self.handle.check_size()  # a truncated file is a better explanation than fio's message
            raise type(problem)(f"{name}: {problem.message}", problem.hint) from None
        self.artefacts |= artefacts
        self.written.total_bytes = before + sum(one.total["write"].bytes for one in recorders)
        self.handle.fd(to_write=False)  # fio must have left the file's size unchanged
        return recorders
