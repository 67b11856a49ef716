"""Preparation of a real file or device by one method, followed by random writes that show its
distance from steady state.

A real drive does not report its write amplification as a virtual one does, so its rate is used
instead: slices of random 4 KiB writes follow the preparation until SNIA's criterion of steady state
holds over the last five of them (`definitions.suites.Steady`), or a limit is reached.

Sources: the methods are those of `lab.prepare`; sprandom is fio's own (HOWTO, from 3.41 on). If
SMART has the pages that host and firmware programmed, they give the write amplification: attributes
247 and 248 of Micron's and Crucial's SATA drives (Micron TN-FD-23).

Leaves out: other makers' counts of programmed pages, so write amplification is mostly unknown; the
pause of some tenths of a second between two slices, in which a drive may collect garbage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from drivebay.common.errors import Cancelled, Interrupted, UserError
from drivebay.common.seeds import derived_seed
from drivebay.common.units import si_bytes
from drivebay.definitions.suites import Phase, Prepare, Steady, Test, Workload
from drivebay.definitions.suites.model import DURATION_S_MAX
from drivebay.lab.prepare import METHODS, PAGE_BYTES, RANDOM_TIMES, SLICE, Method
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.fio import process
from drivebay.targets.fio.target import FioTarget

# Limit of random writes, in capacities, after which a drive that is not steady is given up.
MOST_TIMES = 3.0
# fio's default of `spr_op`.
SPARE = 0.15
# Rate for the estimated duration; guess: between a fill and the random writes of a full drive.
GUESSED_BYTES_PER_S = 200e6
QUEUE_DEPTH = 32
RULE = Steady()
HOST_PAGES = "_host_program_page_count"
OWN_PAGES = ("_ftl_program_page_count", "_bckgnd_program_page_cnt")


@dataclass(frozen=True)
class PreparedReal:
    """Result of a way of preparing a real drive.

    `drive_s`: seconds that the loads of the preparation took; `written`: capacities written by it;
    `waf`, `steady_waf`: write amplification of the first slice and of the last five, None if the
    drive does not report it; `rate_iops`: I/Os per second of the first slice; `steady_iops`: mean
    of the last five, None if they were not steady; `more`: capacities of random writes before those
    five; `slices_iops`: all slices; `warnings`: reasons to doubt the rates, of several that differ
    only in their numbers the last.
    """

    method: Method
    drive_s: float
    written: float
    waf: float | None
    steady_waf: float | None
    more: float | None
    rate_iops: float
    steady_iops: float | None
    slices_iops: tuple[float, ...]
    warnings: tuple[str, ...]

    @property
    def error_percent(self) -> float | None:
        """Deviation of the rate just after the preparation from the steady one."""
        return 100 * (self.rate_iops / self.steady_iops - 1) if self.steady_iops else None


@dataclass(frozen=True)
class Plan:
    """Plan of a real drive's preparation: the method, the spare flash that sprandom assumes
    (over the capacity), and the most capacities of random writes after it; `checked` makes
    one.
    """

    method: Method
    spare: float
    most: float

    @property
    def times(self) -> float:
        """Most capacities that are written."""
        of_method = {"two-fills": 2.0, "random": 1.0 + RANDOM_TIMES, "sprandom": 1 + self.spare}
        return of_method[self.method] + self.most


def checked(methods: Sequence[Method], spare: float | None, most: float | None) -> Plan:
    """Makes the plan, after checking that this machine can carry it out; touches no drive.
    Raises UserError if there is not exactly one method, or a number is out of its range;
    EnvironmentProblem if the installed fio lacks sprandom.
    """
    if len(methods) != 1:
        wrong = "is missing" if not methods else "may be given only once"
        raise UserError(
            f"--method {wrong}: a real drive is prepared by one method, which overwrites all of it",
            f"choose one of {', '.join(METHODS)}; random comes nearest to steady state",
        )
    (method,) = methods
    if spare is not None and method != "sprandom":
        raise UserError(
            f"--spare-percent has no meaning for --method {method}", "leave it out, or: sprandom"
        )
    if spare is not None and not 0 < spare < 1:
        raise UserError(
            f"--spare-percent: {100 * spare:g} is not allowed; must be above 0, below 100",
            f"fio's default is --spare-percent {100 * SPARE:g}",
        )
    least = RULE.window_rounds * SLICE
    if most is not None and not least <= most <= 100:
        raise UserError(
            f"--most: {most:g} is not allowed; must be from {least:g} to 100",
            f"leave it out for {MOST_TIMES:g}",
        )
    if method == "sprandom":  # before a file is created
        process.must_have("sprandom", since="3.41", instead="--method random")
    return Plan(method, SPARE if spare is None else spare, MOST_TIMES if most is None else most)


def check(target: FioTarget, plan: Plan) -> None:
    """Raises if the drive must not or cannot be written; writes nothing."""
    target.check((_test(_steps(plan.method, plan.spare)),))


def prepare(target: FioTarget, plan: Plan, *, seed: int, progress: Progress) -> PreparedReal:
    """Prepares a drive that `check` has accepted, and continues to write until it is steady.
    Raises Interrupted if `progress` was cancelled: fio has ended, and the message has the
    amount written; DrivebayError if a step fails, or the drive may no longer be written,
    which is checked before each step.
    """
    capacity = target.capacity_bytes
    try:
        first = _test(_steps(plan.method, plan.spare))
        records = target.prepare(first, seed=seed, progress=progress)
        before, slices, rates = target.written_bytes, list[PhaseResult](), list[float]()
        while (window := RULE.window(rates)) is None or not window.steady:
            if window and target.written_bytes - before >= plan.most * capacity:
                break
            own_seed = derived_seed(seed, "slice", str(len(rates)))
            slices += target.run_test(_test(), seed=own_seed, progress=progress)
            rates.append(slices[-1].writes / slices[-1].duration_s)
    except Cancelled:
        raise Interrupted(
            f"interrupted; at least {si_bytes(target.written_bytes)} were written, "
            f"{target.written_bytes / capacity:.2f} x the capacity",
            "the drive is not prepared: give the same command again for all of it",
        ) from None
    last = slices[-RULE.window_rounds :]
    led = sum(phase.write_bytes for phase in slices) - sum(phase.write_bytes for phase in last)
    warnings = [warning for phase in slices for warning in phase.conditions.get("warnings", ())]
    return PreparedReal(
        method=plan.method,
        drive_s=sum(record["took_s"] for record in records),
        written=before / capacity,
        waf=write_amplification(slices[:1]),
        steady_waf=write_amplification(last) if window.steady else None,
        more=led / capacity if window.steady else None,
        rate_iops=rates[0],
        steady_iops=sum(rates[-len(last) :]) / len(last) if window.steady else None,
        slices_iops=tuple(rates),
        warnings=tuple({re.sub(r"[\d.]+", "", warning): warning for warning in warnings}.values()),
    )


def write_amplification(slices: Sequence[PhaseResult]) -> float | None:
    """Programmed pages divided by written pages, from the growth of SMART's counts; None if it
    has none.
    """
    grew = [phase.conditions.get("smart", {}).get("grew", {}) for phase in slices]
    counters = [(name, by) for counts in grew for name, by in counts.items()]
    host = sum(by for name, by in counters if name.endswith(HOST_PAGES))
    own = [by for name, by in counters if name.endswith(OWN_PAGES)]
    return float((host + sum(own)) / host) if host and own else None


def _random(times: float) -> Workload:
    return Workload(
        pattern="random",
        read_percent=0,
        block_bytes=PAGE_BYTES,
        queue_depth=QUEUE_DEPTH,
        duration_s=DURATION_S_MAX,
        until_written_percent=round(100 * times),
    )


def _test(steps: tuple[Prepare, ...] = ()) -> Test:
    """A test of these steps, and one slice."""
    method = "random 4 KiB writes of a tenth of the capacity"
    phase = Phase(label="slice", workload=_random(SLICE))
    return Test.alone("prepare", "A slice of random writes", method, phase, steps)


def _steps(method: Method, spare: float) -> tuple[Prepare, ...]:
    if method == "two-fills":
        return (Prepare(kind="fill", passes=2),)
    if method == "random":
        return Prepare(kind="fill"), Prepare(kind="load", load=_random(RANDOM_TIMES))
    return (Prepare(kind="sprandom", spare_percent=100 * spare),)
