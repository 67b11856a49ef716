"""Prepared states of a virtual drive, shared by the tests of one review that begin from the same.

A state is what a test's preparation leaves: it depends on the drive, the preparation and the
review's seed, never on the test, on who prepared it or on whether it was shared. So a review that
was killed prepares anew what it still needs, and ends bit for bit the same.

Whoever needs a state first prepares it and leaves a copy for the others, who wait; the last one
takes the copy itself. How many copies are kept at once is bounded by memory; without room for one,
everyone prepares for himself.
Leaves out: states on disk; preparing anew takes seconds.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from drivebay import _core
from drivebay.common.memory import available_bytes
from drivebay.definitions.suites import Test
from drivebay.targets.base import Progress

WAIT_S = 0.05
COSTLY = frozenset({"fill", "steady", "load", "sprandom"})
"""Steps that are worth a copy; a purge and a rest take no time."""


Prepared = tuple[_core.VirtualDrive, dict[str, float]]
"""A drive, and what its preparation measured: how many rounds it took until steady."""


def key_of(test: Test) -> str:
    """What the state after the preparation depends on, besides drive and seed."""
    steps = [step.model_dump(mode="json", exclude_defaults=True) for step in test.prepare]
    return json.dumps([list(test.what_if), steps], sort_keys=True)


@dataclass
class _State:
    """One state: how many tests have not got it yet, which test prepares it for the others, how
    many copy it right now, and the kept copy."""

    users: int = 0
    preparer: str | None = None
    copying: int = 0
    drive: _core.VirtualDrive | None = None
    figures: dict[str, float] = field(default_factory=dict)


class States:
    """The states of one review; safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._states: dict[str, _State] = {}
        self._kept_max = 0
        self._expected: tuple[tuple[Test, ...], int] | None = None
        self.seed: int | None = None

    def expect(self, tests: tuple[Test, ...], *, seed: int, kept_max: int) -> None:
        """Called by every target before its first test: all tests that are to run, the review's
        seed, and how many copies may be kept. Only the first time counts."""
        with self._changed:
            if self._expected == (tests, seed):
                return
            self._expected, self.seed, self._kept_max = (tests, seed), seed, kept_max
            self._states = {}
            for test in tests:
                if any(step.kind in COSTLY for step in test.prepare):
                    self._states.setdefault(key_of(test), _State()).users += 1

    def claim(self, test: Test) -> bool:
        """Have this test prepare its state for the others, if nobody has and there is room; False
        if another one is at it, so that this test would have to wait."""
        with self._changed:
            state = self._states.get(key_of(test))
            if state is None or state.drive is not None:
                return True
            if state.preparer is None:
                kept = sum(
                    one.drive is not None or one.preparer is not None
                    for one in self._states.values()
                )
                if state.users > 1 and kept < self._kept_max:
                    state.preparer = test.id
                return True
            return state.preparer == test.id

    def get(
        self,
        test: Test,
        memory: _core.VirtualDrive | None,
        prepare: Callable[[], Prepared],
        progress: Progress,
    ) -> Prepared:
        """A drive in the state that the test begins from, and what its preparation measured.

        `memory` is a drive that is no longer needed; `prepare` makes one in that state.
        """
        state = self._states.get(key_of(test))
        if state is None:
            return prepare()
        kept = self._kept(state, test, progress)
        if kept is not None:
            return self._copied(state, kept, memory), dict(state.figures)
        if state.preparer != test.id:
            return prepare()
        copy: _core.VirtualDrive | None = None
        figures: dict[str, float] = {}
        try:
            drive, figures = prepare()
            copy = drive.copy()
        finally:
            with self._changed:
                state.preparer, state.drive, state.figures = None, copy, figures
                self._changed.notify_all()
        return drive, dict(figures)

    def _kept(self, state: _State, test: Test, progress: Progress) -> _core.VirtualDrive | None:
        """The kept copy, once there is one; None where this test is to prepare the state."""
        while not self.claim(test):
            progress.check()
            with self._changed:
                self._changed.wait(WAIT_S)
        with self._changed:
            state.users -= 1
            state.copying += state.drive is not None
            return state.drive

    def _copied(
        self, state: _State, kept: _core.VirtualDrive, memory: _core.VirtualDrive | None
    ) -> _core.VirtualDrive:
        """A copy; the last user gets the kept drive itself, once nobody reads it."""
        with self._changed:
            if state.users == 0 and state.copying == 1:
                state.copying, state.drive = 0, None
                return kept
        try:
            if memory is None:
                return kept.copy()
            memory.copy_from(kept)
            return memory
        finally:
            with self._changed:
                state.copying -= 1
                if state.users == 0 and state.copying == 0:
                    state.drive = None


class Kept(States):
    """The states of one worker that tests one drive after the other: one state is kept, in memory
    that is used again for the next drive's, and never given away."""

    def __init__(self) -> None:
        super().__init__()
        self._memory: _core.VirtualDrive | None = None
        self._figures: dict[str, float] = {}
        self._key: str | None = None
        self._wanted: list[str] = []

    def begin(self, tests: Sequence[Test], *, seed: int) -> None:
        """Another drive, and the tests that are run on it; those that begin from the same one after
        the other."""
        self.seed, self._key = seed, None
        self._wanted = [key_of(test) for test in tests]

    def get(
        self,
        test: Test,
        memory: _core.VirtualDrive | None,
        prepare: Callable[[], Prepared],
        progress: Progress,
    ) -> Prepared:
        """A drive as the test needs it: a copy of the kept one, or made anew."""
        key = key_of(test)
        self._wanted.remove(key)
        if key == self._key and self._memory is not None and memory is not None:
            memory.copy_from(self._memory)
            return memory, dict(self._figures)
        drive, figures = prepare()
        if key in self._wanted and any(step.kind in COSTLY for step in test.prepare):
            self._key, self._figures = key, dict(figures)
            if self._memory is None:
                self._memory = drive.copy()
            else:
                self._memory.copy_from(drive)
        return drive, figures


def workers_with_states(memory_bytes: int) -> int:
    """How many workers with `Kept` states: as many as there are processors, and memory for two
    drives each, the one under test and the kept one, of `memory_bytes`."""
    fits = available_bytes() * 4 // 5 // max(1, 2 * memory_bytes)
    return max(1, min(len(os.sched_getaffinity(0)), fits))
