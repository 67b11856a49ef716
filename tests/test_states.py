"""Prepared states: made once for all that need them, never mixed up, never waited for in vain."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any, cast

import pytest

from drivebay.common.errors import Cancelled
from drivebay.definitions import suites
from drivebay.definitions.suites import Test
from drivebay.targets.base import Progress
from drivebay.targets.virtual import states as kept_states
from drivebay.targets.virtual.states import Prepared, States, key_of, workers_with_states


@dataclass
class Drive:
    """Stands for the core's drive: what is in it, and how often it was copied."""

    state: str
    copies: int = 0

    def copy(self) -> Drive:
        self.copies += 1
        return Drive(self.state)

    def copy_from(self, other: Drive) -> None:
        self.state = other.state


FULL = ("random-read", "sequential-read", "mixed-random")
SPARE = "consistency-25op"


def the_tests(*ids: str) -> tuple[Test, ...]:
    known = {test.id: test for test in suites.load("anandtech-2015").tests}
    return tuple(known[name] for name in ids)


class Bay:
    """Counts preparations; every one leaves a drive that says of which test it is."""

    def __init__(self, tests: tuple[Test, ...], *, kept_max: int) -> None:
        self.states = States()
        self.states.expect(tests, seed=1, kept_max=kept_max)
        self.prepared: list[str] = []

    def get(self, test: Test, memory: Drive | None = None, progress: Progress | None = None) -> Any:
        def prepare() -> Prepared:
            self.prepared.append(test.id)
            return cast(Prepared, (Drive(test.id), {"steady_rounds": 5.0}))

        return self.states.get(test, cast(Any, memory), prepare, progress or Progress())


def test_a_state_is_prepared_once_and_the_last_user_takes_the_copy() -> None:
    first, second, third = the_tests(*FULL)
    bay = Bay((first, second, third), kept_max=1)
    drive, _ = bay.get(first)
    copied, figures = bay.get(second, old := Drive("used"))
    assert copied is old and old.state == first.id and figures == {"steady_rounds": 5.0}
    last, _ = bay.get(third, Drive("used"))
    assert bay.prepared == [first.id] and drive.copies == 1
    assert last.state == first.id and last is not drive and last is not old
    assert bay.states._states[key_of(third)].drive is None, "nothing is kept after the last"


def test_states_differ_by_what_is_prepared_and_by_the_drive() -> None:
    full, spare = the_tests("random-read", SPARE)
    assert key_of(full) != key_of(spare)
    cooled = full.model_copy(update={"what_if": ("heatsink",)})
    assert key_of(full) != key_of(cooled)
    assert key_of(full) == key_of(the_tests("mixed-random")[0])


def test_without_room_everyone_prepares_for_himself() -> None:
    tests = the_tests(*FULL)
    bay = Bay(tests, kept_max=0)
    for test in tests:
        assert bay.states.claim(test)
        bay.get(test)
    assert bay.prepared == list(FULL)


def test_whoever_claims_first_prepares_and_the_others_wait_for_it() -> None:
    """Also if the one that claimed begins last; a test that needs another state goes ahead."""
    first, second, third, spare = the_tests(*FULL, SPARE)
    bay = Bay((first, second, third, spare), kept_max=1)
    assert bay.states.claim(first) and bay.states.claim(first)
    assert not bay.states.claim(second) and bay.states.claim(spare)
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(bay.get(second)), daemon=True)
    waiting.start()
    bay.get(spare)
    assert waiting.is_alive() and bay.prepared == [SPARE]
    bay.get(first)
    waiting.join()
    assert got[0][0].state == first.id and bay.prepared == [SPARE, first.id]


def test_a_preparation_that_fails_is_taken_over_and_waiting_can_be_cancelled() -> None:
    first, second, third = the_tests(*FULL)
    bay = Bay((first, second, third), kept_max=1)
    assert bay.states.claim(first)
    stopped = Progress()
    stopped.cancel()
    with pytest.raises(Cancelled):
        bay.get(second, progress=stopped)

    def fails() -> Prepared:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError):
        bay.states.get(first, None, fails, Progress())
    assert bay.get(second)[0].state == second.id
    assert bay.get(third)[0].state == second.id


def test_workers_that_keep_states_have_memory_for_two_drives_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    monkeypatch.setattr(kept_states, "available_bytes", lambda: 10 * 2**30)
    assert workers_with_states(2**30) == 4
    assert workers_with_states(2**20) == 64
    assert workers_with_states(2**40) == 1
