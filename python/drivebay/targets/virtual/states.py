"""Prepared states of a virtual drive, shared by the tests of one review that begin from the same
state.

A state is the result of a test's preparation: it depends on the drive, the preparation and the
review's seed, never on the test, on the test that prepared it or on sharing. So a review that was
killed prepares again the states that it still needs, and ends bit for bit the same.

The first test that needs a state prepares it and leaves a copy for the others, which wait; the last
one takes the copy itself. Memory limits the number of copies kept at once; without space for one,
each test prepares its own state. Leaves out: states on disk; preparing anew takes seconds.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from drivebay._core import VirtualDrive
from drivebay.common.memory import available_bytes
from drivebay.definitions.suites import Test
from drivebay.targets.base import Progress

WAIT_S = 0.05
# Steps that are worth a copy; a purge and a rest take no time.
COSTLY = frozenset({"fill", "steady", "load", "sprandom"})


# A drive, and the figures measured by its preparation: the number of rounds until steady.
Prepared = tuple[VirtualDrive, dict[str, float]]
Preparation = Callable[[], Prepared]


def key_of(test: Test) -> str:
    """Returns a key of the test's prepared state, apart from drive and seed."""
    steps = [step.model_dump(mode="json", exclude_defaults=True) for step in test.prepare]
    return json.dumps([list(test.what_if), steps], sort_keys=True)


@dataclass
class _State:
    """One state: the number of tests that have not received it yet, the test that prepares it for
    the others, the number of copies in progress, and the kept copy.
    """

    users: int = 0
    preparer: str | None = None
    copying: int = 0
    drive: VirtualDrive | None = None
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
        """Called by every target before its first test with all tests that will run, the review's
        seed, and the number of copies that may be kept. Only the first call counts.
        """
        with self._changed:
            if self._expected == (tests, seed):
                return
            self._expected, self.seed, self._kept_max = (tests, seed), seed, kept_max
            self._states = {}
            for test in tests:
                if any(step.kind in COSTLY for step in test.prepare):
                    self._states.setdefault(key_of(test), _State()).users += 1

    def claim(self, test: Test) -> bool:
        """Has this test prepare its state for the others, if no other test does and there is space;
        False if another test is preparing it, so that this test would have to wait.
        """
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
        self, test: Test, memory: VirtualDrive | None, prepare: Preparation, progress: Progress
    ) -> Prepared:
        """Returns a drive in the state from which the test begins, and the figures measured by its
        preparation.

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
        copy: VirtualDrive | None = None
        figures: dict[str, float] = {}
        try:
            drive, figures = prepare()
            copy = drive.copy()
        finally:
            with self._changed:
                state.preparer, state.drive, state.figures = None, copy, figures
                self._changed.notify_all()
        return drive, dict(figures)

    def _kept(self, state: _State, test: Test, progress: Progress) -> VirtualDrive | None:
        """Returns the kept copy, after waiting for it; None if this test must prepare the state."""
        while not self.claim(test):
            progress.check()
            with self._changed:
                self._changed.wait(WAIT_S)
        with self._changed:
            state.users -= 1
            state.copying += state.drive is not None
            return state.drive

    def _copied(
        self, state: _State, kept: VirtualDrive, memory: VirtualDrive | None
    ) -> VirtualDrive:
        """Returns a copy; the last user gets the kept drive itself, once nobody reads it."""
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
    that is reused for the next drive's state, and never handed out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._memory: VirtualDrive | None = None
        self._figures: dict[str, float] = {}
        self._key: str | None = None
        self._wanted: list[str] = []

    def begin(self, tests: Sequence[Test], *, seed: int) -> None:
        """Begins another drive, with the tests that run on it; tests with the same state run one
        after the other.
        """
        self.seed, self._key = seed, None
        self._wanted = [key_of(test) for test in tests]

    def get(
        self, test: Test, memory: VirtualDrive | None, prepare: Preparation, progress: Progress
    ) -> Prepared:
        """Returns a drive in the test's state: a copy of the kept one, or made anew."""
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
    """Number of workers with `Kept` states: at most the number of processors, with memory for two
    drives each, the one under test and the kept one, of `memory_bytes`.
    """
    fits = available_bytes() * 4 // 5 // max(1, 2 * memory_bytes)
    return max(1, min(len(os.sched_getaffinity(0)), fits))
