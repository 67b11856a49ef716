"""Exclusive hold on the file or block device under test: no other use, and no change of identity.

Sources: open(2) for O_EXCL and O_NONBLOCK, flock(2), stat(2). A file or device is claimed before
the first write, by whichever command writes. It is watched during the examination (watch): first
the watch begins, then programs that have it open for writing or mapped are searched for, then its
times are read, then its data; at the end there may be no event of the watch, no such program and no
other times. Otherwise a file is examined again, and a device is refused. The mark of a file that is
not ours is set to "being written" before that examination, so there is no gap between the check for
blank data and the first mark; if we are killed in between, the mark is valid for nobody, as its
session is stored with the result only after all checks passed.

Leaves out: writes of another program once a step of ours has begun (fio starts half a second before
its first write), if it opened the file after that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from dataclasses import replace

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.targets.safety import blockdev, in_use, marks, protections, target_device, watch
from drivebay.targets.safety.authorised import Record
from drivebay.targets.safety.target_device import (
    OverwritePermission,
    TargetDevice,
    refuse_foreign_data,
)
from drivebay.targets.safety.witness import Witness

# Time within which a drive must come back after a reset; guess: NVMe allows 127 s, most need 5.
RETURN_S = 60.0
LOOKS_MAX = 3
_BLKRRPART = 0x125F


class ExclusiveHandle:
    """The target, held exclusively until `close`: a device by an exclusive open, a file by a lock.
    Raises UserError or EnvironmentProblem if it may no longer be tested, or another drivebay has
    it.
    """

    def __init__(self, target: TargetDevice, *, permission: OverwritePermission) -> None:
        self.target = target
        self._permission = permission
        self._session = marks.new_session()
        self._written = False
        self._ours = True
        self._mark: marks.KeptMark | None = None
        self._witness: Witness | None = None
        self._left: in_use.Written | None = None
        if target.device is not None:
            target_device.check_device(target, permission, held=False, look_inside=True)
        else:
            target_device.refuse_leased(target)
            target_device.refuse_used_file(target)
        self._fd = self._open()

    def _open(self) -> int:
        target = self.target
        # Do not wait for a file's lease.
        only_us = os.O_NONBLOCK if target.device is None else os.O_EXCL
        try:
            self._fd = os.open(target.path, os.O_RDWR | os.O_CLOEXEC | only_us)
        except BlockingIOError:
            why = "is under a lease of another program"
            raise protections.refusal(target.given, [why]) from None
        except OSError as problem:
            raise EnvironmentProblem(
                f"{target.given}: cannot be opened for writing: {problem.strerror}",
                "see what forbids it with: drivebay drives",
            ) from None
        try:
            if target.device is None:
                os.set_blocking(self._fd, True)
                if not in_use.lock(self._fd):
                    raise target_device.held_by_another(target)
            return self.fd(to_write=False)
        except BaseException:
            os.close(self._fd)
            raise

    def fd(self, *, to_write: bool) -> int:
        """Returns our descriptor, after checking that the target is unchanged; call it before each
        step, and after one that writes: changes of a file between two steps are not ours.

        A device is not searched for signatures again after our own first write: random data may
        look like a signature. Another program's write to it between two steps shows in the kernel's
        count.
        """
        self.check_size()
        if self.target.device is not None:
            self._check_device(to_write=to_write)
        elif to_write:
            self._check_file()
        elif self._mark is not None:
            if self._mark.writing:
                self._mark.end()
            if not self._mark.ours:
                raise self._changed()
        self._written = self._written or to_write
        return self._fd

    def check_size(self) -> None:
        """Checks that it is the same file or device, of the same size; cheap enough for every
        second. Raises UserError if it is not.
        """
        target, status = self.target, os.fstat(self._fd)
        if (status.st_dev, status.st_ino, status.st_rdev) != target.inode:
            raise self._changed()
        if (size := os.lseek(self._fd, 0, os.SEEK_END)) != target.size_bytes:
            raise self._changed(f": it had {target.size_bytes} bytes, and has {size}")

    def _check_device(self, *, to_write: bool) -> None:
        target, device = self.target, self.target.device
        assert device is not None
        self._refuse_written_by_others()
        first = to_write and not self._written
        with watch.writers_watched(self._fd, target.path) as disturbed:
            self._refuse_writers(to_write=to_write)
            before = in_use.written(device.name)
            target_device.check_device(
                target,
                self._permission,
                held=True,
                look_inside=not self._written,
                look_for_data=first,
            )
            self._refuse_writers(to_write=to_write)
            if first and (disturbed() or in_use.written(device.name) != before):
                raise self._changed(": it was written while it was looked at")
        if first:
            self._authorise()
            marks.note_device(self._fd, device.lasting_name, "open", self._session)
        # While our step writes, writes of others cannot be told apart.
        self._left = None if to_write else in_use.written(device.name)

    def _refuse_writers(self, *, to_write: bool) -> None:
        if to_write and (users := in_use.writers(os.fstat(self._fd))):
            why = f"is open for writing by {users[0]}"
            raise protections.refusal(self.target.path, [why], "stop what uses it")

    def _refuse_written_by_others(self) -> None:
        device, before = self.target.device, self._left
        if device is None or before is None or not self._written:
            return
        if in_use.written(device.name) != before:
            raise self._changed(": it was written between two steps")

    def _check_file(self) -> None:
        """Checks that nobody else uses the file, the path still leads to it, and its data may be
        overwritten.
        """
        if not self._path_leads_here():
            raise self._changed()
        self._refuse_users()
        if self._mark is None:
            self._claim()
        elif self._mark.ours:
            self._mark.begin()
        else:
            raise self._changed()

    def _refuse_users(self) -> None:
        try:
            target_device.refuse_used_file(self.target, held=True)
        except OSError:  # the path is gone
            raise self._changed() from None

    def _path_leads_here(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.target.path), os.fstat(self._fd))
        except OSError:
            return False

    def _claim(self) -> None:
        """Checks that the file's data may be overwritten, and has not changed since that check. The
        mark of a file that is ours stays until then: if we are killed, it is still ours.
        """
        target, path = self.target, self.target.path
        named, ours = target_device.is_named(target, self._permission), False
        try:
            with watch.writers_watched(self._fd, path) as disturbed:
                seen = os.fstat(self._fd)
                ours = marks.is_own(self._fd, path, self._permission.sessions, status=seen)
                for _ in range(LOOKS_MAX):
                    if not ours:
                        marks.note(self._fd, path, "open", self._session)
                    marks.wait_a_tick(self._fd)
                    before = os.fstat(self._fd)
                    self._refuse_users()
                    ours = ours and not disturbed() and _stamp(before) == _stamp(seen)
                    refuse_foreign_data(target, self._permission, self._fd, own=ours)
                    self._refuse_users()
                    if not self._path_leads_here():
                        raise self._changed()
                    same = not disturbed() and _stamp(os.fstat(self._fd)) == _stamp(before)
                    if not (named or same):
                        ours = False  # changed by another program, just now
                        continue
                    self._authorise()
                    self._mark = marks.KeptMark(self._fd, path, self._session)
                    begun = (before.st_mtime_ns, before.st_ctime_ns)
                    if not named and (disturbed() or self._mark.begun != begun):
                        raise self._changed()
                    return
            raise protections.refusal(target.given, ["is being changed by another program"])
        except BaseException:
            if self._mark is None and not ours:
                marks.remove(self._fd, path)
            raise

    def _authorise(self) -> None:
        """Stores the permission by which the target is overwritten from here on; its data is still
        intact. A file that needs no permission is noted in a result only, so that the run can be
        resumed.
        """
        permission, device = self._permission, self.target.device
        if permission.record is None and device is None and permission.destroy_data is None:
            return
        record = permission.record or Record(marks.state_folder(), resumes=False)
        found = blockdev.signatures_on(device) if device is not None else ()
        facts = self.target.named() | {
            "destroy_data": permission.destroy_data,
            "overwrite_signature": permission.overwrite_signature,
            "typed_yes": permission.typed_yes,
        }
        record.keep(self._session, facts, device=device, fd=self._fd, signatures=found)
        self._watch()

    def _watch(self) -> None:
        """Starts a witness that records how a kill leaves the target; starts a new one for a device
        that has moved.
        """
        if self._witness is not None:
            self._witness.close()
        device = self.target.device
        lasting = None if device is None else (device.lasting_name, device.sequence)
        self._witness = Witness(self._fd, self.target.path, self._session, lasting)

    def _changed(self, how: str = "") -> UserError:
        """Drops the marks of a target that another program has changed, so that its data does not
        count as ours.
        """
        if self._mark is not None:
            self._mark.close(ours=False)
            self._mark = None
        if self.target.device is not None:
            marks.forget_device(self.target.device.lasting_name)
            self._ours = False
        return UserError(
            f"{self.target.given} is no longer what it was when the review began{how}",
            "see what else uses it, then begin again",
        )

    def after_reset(self, wait_s: float = RETURN_S) -> int:
        """Find the device again after a command that may have reset it, as names move then.

        The same drive is identified by its serial number, model, world-wide name and size, under
        any kernel name. If it is still attached as before, nothing changes; else it is examined
        anew, except for its signatures (we have just erased it), and claimed again. Raises
        UserError or EnvironmentProblem if it does not come back in time, or may no longer be
        tested.
        """
        before = self.target.device
        if before is None:
            return self.fd(to_write=True)
        deadline = time.monotonic() + wait_s
        while (now := _found_again(before)) is None:
            if time.monotonic() > deadline:
                raise EnvironmentProblem(
                    f"{self.target.path}: the drive {before.model} with serial number "
                    f"{before.serial!r} has not come back after a reset",
                    "look for the cause with: dmesg | tail; a power cycle may help",
                )
            time.sleep(0.2)
        if (now.path, now.sequence, now.number) != (before.path, before.sequence, before.number):
            os.close(self._fd)
            self.target = replace(target_device.find(now.path), given=self.target.given)
            self._written, self._left = True, None  # the kernel's count starts again
            target_device.check_device(self.target, self._permission, held=False, look_inside=False)
            self._fd = self._open()
            self._watch()
        return self.fd(to_write=True)

    def close(self) -> None:
        """Release it; the kernel forgets the partitions that were overwritten."""
        if self._mark is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._fd)
            self._mark.close()
            self._mark = None
        elif self._written and (device := self.target.device) is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._fd)
            with contextlib.suppress(UserError):
                self._refuse_written_by_others()
            if self._ours:
                marks.note_device(self._fd, device.lasting_name, "done", self._session)
            with contextlib.suppress(OSError):  # EINVAL: no partitions here
                fcntl.ioctl(self._fd, _BLKRRPART)
        if self._witness is not None:
            self._witness.close()
        os.close(self._fd)


def _found_again(before: blockdev.Device) -> blockdev.Device | None:
    """Returns the one device that is the same drive; None if none is found (yet), or several."""
    now = [
        device
        for device in blockdev.list_devices(look_inside=False)
        if device.is_same_drive(before)
    ]
    return now[0] if len(now) == 1 else None


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Values that change with every change of a file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
