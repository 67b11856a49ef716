"""A real file or block device under test, driven by fio.

A file target never leaves its file, never grows or shrinks it, and needs no further permission. A
block device is written only if no protection forbids it and its serial number was named. fio opens
the very file or device that was examined, through our descriptor of it.

Leaves out: the steps themselves (steps), and the protections (safety).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivebay.common.errors import UserError
from drivebay.definitions.suites import Test
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress, Target
from drivebay.targets.fio.job import TARGET_VARIABLE
from drivebay.targets.fio.process import Tool, must_have, working_tool
from drivebay.targets.fio.steps import Parts, Steps, Written, seconds_of_parts
from drivebay.targets.safety import locks, target_device
from drivebay.targets.safety.authorised import Record
from drivebay.targets.safety.handle import ExclusiveHandle
from drivebay.targets.safety.in_use import drive_below
from drivebay.targets.safety.watch import orphans
from drivebay.targets.telemetry.environment import Environment
from drivebay.targets.telemetry.recorder import check_power

PURGES = ("auto", "discard")
ORPHANS_S = 15.0


class FioTarget(Target):
    """A regular file or a block device, as `Target`. Raises UserError or EnvironmentProblem if
    there is nothing at `path` that could be tested.

    Parameters
    ----------
    path : the file, the device, or a symbolic link to one.
    destroy_data : the serial number that the user typed to allow everything on a block device to be
    destroyed; ignored for a file.
    overwrite_signature : True if partition tables, file systems and other data on the device may be
    destroyed as well.
    purge : "auto" for the strongest erase that a block device offers, "discard" for a discard only.
    typed_yes : True if the user has typed YES; it is only recorded.
    power : source of the drive's power: a hwmon sensor's name or a meter's CSV file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        destroy_data: str | None = None,
        overwrite_signature: bool = False,
        purge: str = "auto",
        power: str | None = None,
        no_wait: bool = False,
        typed_yes: bool = False,
    ) -> None:
        if purge not in PURGES:
            raise UserError(
                f"--purge: {purge!r} is not allowed; must be {' or '.join(PURGES)}",
                "leave it out for the strongest erase that the drive offers",
            )
        self._target = target_device.find(os.fspath(path))
        self._permission = target_device.OverwritePermission(
            destroy_data, overwrite_signature, typed_yes
        )
        self._purge = purge
        self._power = os.path.abspath(power) if power and os.path.isfile(power) else power
        self._no_wait = no_wait
        self._lock = contextlib.ExitStack()
        self._waited_s = 0.0
        self._handle: ExclusiveHandle | None = None
        self._tool: Tool | None = None
        self._written = Written()
        self.kind = self._target.kind
        self.name = self._target.name

    @property
    def capacity_bytes(self) -> int:
        """Size of the file or device, rounded down to 1 MiB."""
        return self._target.capacity_bytes

    def identity(self) -> dict[str, Any]:
        """Returns the known facts of the file or device and of the storage below; JSON values."""
        known = self._target.identity()
        if self.kind == "block" and self._permission.overwrite_signature:
            known["overwrite_signature"] = True
        if self._power is not None:
            known["power"] = self._power
        if self._purge != PURGES[0]:
            known["purge"] = self._purge
        return known

    def recorded_in(self, folder: Path) -> None:
        """Stores the permission in this result; data that a killed run of this review left
        half-written counts as ours.
        """
        self._permission = replace(self._permission, record=Record(folder, resumes=True))

    @property
    def destroys(self) -> bool:
        """True if data that is not drivebay's may be destroyed, once `check` has let it pass."""
        return target_device.destroys(self._target, self._permission)

    def yes_was_typed(self) -> None:
        """Records that the owner typed YES, after `check`."""
        self._permission = replace(self._permission, typed_yes=True)

    def check(self, tests: tuple[Test, ...]) -> None:
        """Raise if these tests must not or cannot run here; writes nothing."""
        if self._handle is None:
            _wait_for_orphans()
            # otherwise its use would be reported as another program's
            target_device.refuse_if_held(self._target)
            writes = any(_writes(test) for test in tests)
            target_device.check(self._target, permission=self._permission, will_write=writes)
            if self._no_wait:  # before a result folder exists
                with self._turn(lambda _: None):
                    pass
        check_power(self._power)
        if any(step.kind == "sprandom" for test in tests for step in test.steps):
            must_have("sprandom", since="3.41", instead="prepare by random writes")
        for test in tests:
            self._check_loads(test)
            for phase in test.phases:
                if phase.replay is not None:
                    phase.replay.check(where=test.id)
        self._tool = working_tool(self._target.path, shown=self._target.given)

    def estimate_s(self, test: Test) -> float:
        """Wall-clock seconds that the test is likely to take, phases at their longest."""
        return sum(seconds_of_parts(test, self.capacity_bytes, self._written))

    def run_test(self, test: Test, *, seed: int, progress: Progress) -> list[PhaseResult]:
        """Prepare and run all phases; raises `Cancelled` when asked to stop, with fio ended."""
        if self._tool is None:
            progress.check()
            self.check((test,))
        seconds = seconds_of_parts(test, self.capacity_bytes, self._written)
        with self._begun(seconds, seed, progress, asleep=test.kind == "idle") as steps:
            return steps.run(test)

    def prepare(self, test: Test, *, seed: int, progress: Progress) -> list[dict[str, Any]]:
        """Only prepare, after `check`; returns a record of each step (`bytes`, `took_s`)."""
        seconds = seconds_of_parts(test, self.capacity_bytes, self._written)
        with self._begun(seconds, seed, progress) as steps:
            return steps.prepare(test.prepare)

    @property
    def written_bytes(self) -> int:
        """Bytes written since the target was made; during a load, until fio's last answer."""
        return self._written.total_bytes

    @contextlib.contextmanager
    def _begun(
        self, seconds: list[float], seed: int, progress: Progress, *, asleep: bool = False
    ) -> Iterator[Steps]:
        """Takes the drive and watches its environment; `seconds`: estimate per part; `asleep`: see
        Environment.
        """
        progress.check()
        assert self._tool is not None, "found by check"
        if self._handle is None:
            self._take_lock(progress)
            try:
                self._handle = ExclusiveHandle(self._target, permission=self._permission)
            except BaseException:
                self._lock.close()
                raise
        parts = Parts(seconds, progress)
        given = self._handle.target
        with Environment(given, power=self._power, asleep=asleep) as environment:
            if self._waited_s >= 1:
                environment.say(waited_for_lock_s=round(self._waited_s, 1))
            own = self._purge == "auto"
            yield Steps(self._tool, self._handle, self._written, seed, parts, environment, own)

    def _take_lock(self, progress: Progress) -> None:
        """Wait until nobody tests a drive that shares a bottleneck with this one."""
        target_device.refuse_if_held(self._target)

        def waiting(words: str) -> None:
            progress.check()
            progress.report(words, 0.0, 1.0)

        self._waited_s = self._lock.enter_context(self._turn(waiting))

    def _turn(self, waiting: Callable[[str], None]) -> contextlib.AbstractContextManager[float]:
        drive = drive_below(self._target.storage_number)
        return locks.drive_lock(drive, self._target.given, waiting, no_wait=self._no_wait)

    def close(self) -> None:
        """Releases the file or device. fio never outlives the call that started it."""
        self._lock.close()
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _check_loads(self, test: Test) -> None:
        least, given = self._target.logical_block_bytes, self._target.given
        skip = f"leave the test out: --skip {test.id}"

        def refuse(key: str, value: object, why: str, hint: str = skip) -> None:
            where = f"test {test.id}: workload.{key}: {value}"
            raise UserError(f"{where} is not allowed on {given}{why}", hint)

        for load in test.loads:
            offsets = f"'{load.offsets}'"
            if load.streams == "shared":
                why = "; must be 'each': fio keeps a place for reads and one for writes"
                refuse("streams", "'shared'", why, f"change it in the suite, or {skip}")
            if load.trim_percent:
                hint = "a trace with trims can be replayed: drivebay replay --trim"
                why = ": fio cannot mix trims with other requests"
                refuse("trim_percent", load.trim_percent, why, hint)
            for field in ("handle", "reclaim_group"):
                if value := getattr(load, field):
                    hint = "fio places data through NVMe passthrough, which is not used here"
                    refuse(field, value, ": it is for virtual drives", hint)
            if load.zones:
                refuse("zones", load.zones, ": loads by zone are for virtual drives")
            if load.only_virtual:
                refuse("offsets", offsets, ": it is for virtual drives")
            if load.stands_for_ranks:
                hint = f'offsets = "{load.offsets.partition("/")[0]}"'
                refuse("offsets", offsets, ": RANKS are for scaled drives, and fio has none", hint)
            # Measured with 3.33: fio flushes too often at higher depth through io_uring, and among
            # reads.
            if load.fsync and (load.read_percent or load.queue_depth > 1):
                why = " with reads or a queue depth above 1: fio flushes more often then"
                hint = f"give queue_depth = 1 and read_percent = 0, or --skip {test.id}"
                refuse("fsync", load.fsync, why, hint)
            if load.read_percent != int(load.read_percent):
                hint = f"{round(load.read_percent)} is next to it"
                why = ": fio's rwmixread is a whole number"
                refuse("read_percent", load.read_percent, why, hint)
            if load.block_bytes % least:
                refuse("block_bytes", load.block_bytes, f"; must be a multiple of {least}")
            if load.span(self.capacity_bytes)[1] == 0:
                raise UserError(
                    f"test {test.id}: not one block fits into its span of {given}",
                    "use a larger file or device",
                )


def _wait_for_orphans() -> None:
    """Waits for a fio left by a killed drivebay: it ends by itself, with its last I/O."""
    deadline = time.monotonic() + ORPHANS_S
    while orphans(TARGET_VARIABLE) and time.monotonic() < deadline:
        time.sleep(0.1)


def _writes(test: Test) -> bool:
    fills = any(step.kind in ("fill", "sprandom") for step in test.steps)
    fills = fills or any(phase.trim is not None for phase in test.phases)
    return fills or any(load.read_percent < 100 for load in test.loads)
