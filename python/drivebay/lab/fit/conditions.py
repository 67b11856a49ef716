"""Shorter conditions for derivatives, in which the same mechanisms are active.

A drive of 512 GB becomes one of 32 GB or less that behaves alike; traces and phases longer than a
minute are shortened in the same proportion, and the drive warms up in that time. So the scaled
Destroyer reaches the same steady state as the whole one: 493 MB/s, 1,167 us and 2.1 % over 10 ms on
a 32nd of the SM951, 469 MB/s, 1,302 us and 2.4 % on the whole drive. Leaves out: effects that
depend on absolute seconds, such as the journal's checkpoints, for which consistency tests are run
in their whole length (`WHOLE`); and intervals, of which the first is run, in a third of its length.
"""

from __future__ import annotations

from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import scaled, scaled_test, with_load
from drivebay.definitions.suites import Phase, Replay, Test
from drivebay.lab.fit.parameters import SETTINGS
from drivebay.lab.validate.plan import interval_of

# Capacity of the scaled drive, by trace, test or kind of test, from published/fit.toml.
SMALL_BYTES: dict[str, float] = SETTINGS["small_bytes"]
USUAL_BYTES = 32e9
# Smallest number of pages in a block of the scaled drive.
LEAST_PAGES = 8
# Longer loads are shortened with the drive.
LONG_S = 60.0
# Tests whose write phases are shortened with the drive however short they are, so that they meet
# the same share of unwritten space, and whose deep reads suffice for percentiles.
AGED = frozenset({"aged-random"})
# Queue depth of deep reads, and their shortened duration.
DEEP, DEEP_S = 32, 3.0
# Sections of parameters for which tests of a kind are run in their whole length.
WHOLE = {"map_journal": {"consistency"}}


def is_long(test: Test) -> bool:
    """True if a part of the test is long enough for heat and garbage collection to change
    meanwhile.
    """
    loads = [step.load.duration_s for step in test.prepare if step.load is not None]
    phases = [phase.workload.duration_s for phase in test.phases if phase.replay is None]
    replays = any(phase.replay is not None for phase in test.phases)
    return replays or max((*loads, *phases), default=0.0) > LONG_S


def wholly_for(test: Test, section: str) -> bool:
    """True if derivatives by parameters of this section need the test in its whole length."""
    return test.kind in WHOLE.get(section, set())


def shorter(profile: Profile, test: Test, *, full_size: bool) -> tuple[Profile, Test]:
    """Returns the drive and the test of the short condition."""
    if full_size:
        return profile, test
    test = _first_interval(test)
    whole = (p.replay.trace for p in test.phases if p.replay is not None and p.replay.scale == 1)
    kind = next(whole, test.id if test.id in SMALL_BYTES else test.kind)
    wanted = SMALL_BYTES.get(kind, USUAL_BYTES)
    share = 1.0
    while profile.capacity_bytes * share > 1.2 * wanted:
        share /= 2
    pages = int(profile.resolved()["nand"]["pages_per_block"]["value"])
    share = max(LEAST_PAGES, round(pages * share)) / pages if share < 1 else share
    long = is_long(test)
    small = scaled(profile, share, heat=long) if share < 1 else profile
    test = scaled_test(test, share)
    if not long or share == 1:
        return small, test
    prepare = tuple(
        step if step.load is None else with_load(step, duration_s=step.load.duration_s * share)
        for step in test.prepare
    )
    window = test.metric_window_s
    changes = {
        "prepare": prepare,
        "phases": tuple(
            _aged_phase(phase, share) if test.id in AGED else _shorter_phase(phase, share)
            for phase in test.phases
        ),
        "metric_window_s": None if window is None else max(10.0, window * share),
    }
    return small, test.model_copy(update=changes)


def _first_interval(test: Test) -> Test:
    """Reduces a test with repeated phases to a third of the first interval."""
    first = [phase for phase in test.phases if interval_of(phase.label)[1] == 1]
    if len(first) == len(test.phases):
        return test
    phases = tuple(with_load(phase, duration_s=phase.workload.duration_s / 3) for phase in first)
    return test.model_copy(update={"phases": phases})


def _shorter_phase(phase: Phase, share: float) -> Phase:
    if phase.replay is not None:
        old = phase.replay
        part = {"scale": old.scale * share, "drive_s": old.drive_s * share}
        return phase.model_copy(update={"replay": Replay(**{**old.model_dump(), **part})})
    load = phase.workload
    changes: dict[str, object] = {}
    if load.duration_s > LONG_S:
        changes["duration_s"] = max(2.0, load.duration_s * share)
        if load.span_bytes is not None:
            changes["span_bytes"] = int(load.span_bytes * share) // 2**20 * 2**20
        if load.until_stable is not None:
            stable = load.until_stable
            changes["until_stable"] = stable.model_copy(
                update={
                    "window_s": max(5, round(stable.window_s * share)),
                    "min_s": max(10, round(stable.min_s * share)),
                }
            )
    return with_load(phase, **changes)


def _aged_phase(phase: Phase, share: float) -> Phase:
    load = phase.workload
    seconds = load.duration_s
    if load.read_percent < 100:
        seconds *= share
    elif load.queue_depth >= DEEP:
        seconds = min(seconds, DEEP_S)
    return with_load(phase, duration_s=seconds)
