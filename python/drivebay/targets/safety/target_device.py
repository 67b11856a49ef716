"""The file or block device under test: its identity, and the checks that allow a test.

Sources: open(2) for O_DIRECT and O_NONBLOCK, flock(2). A file needs no permission if it is blank or
drivebay's own, but nobody else may be using it. A device needs the permission of
`blockdev.refuse_unless_free`. No open breaks a lease of another program: O_NONBLOCK, after looking
for leases.

Leaves out: the exclusive hold (handle), and the tests themselves (targets.fio).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.common.files import system_errors
from drivebay.common.units import binary_bytes, si_bytes
from drivebay.targets.safety import blockdev, contents, in_use, marks, protections, storage
from drivebay.targets.safety.authorised import Record
from drivebay.targets.safety.protections import Examined

MIB = 2**20
SMALLEST_BYTES = 2**30


@dataclass(frozen=True)
class TargetDevice:
    """The file or block device found at a path; `device` is None for a file.

    `given` is the path as the user wrote it, for messages; `path` is its resolved path. `inode` is
    the device and inode number of the file or node, and the device that a node stands for.
    """

    given: str
    path: str
    kind: Literal["file", "block"]
    inode: tuple[int, int, int]
    size_bytes: int
    device: blockdev.Device | None

    @property
    def capacity_bytes(self) -> int:
        """Size rounded down to 1 MiB: the tested part; the rest stays untouched."""
        return self.size_bytes // MIB * MIB

    @property
    def name(self) -> str:
        """Name of a file, or model of a drive."""
        device = self.device
        if device is None:
            return os.path.basename(self.path)
        if device.interface == "loop":
            return f"loop-{os.path.basename(device.serial)}"
        return device.model or f"{device.interface}-{device.serial or device.name}"

    @property
    def storage_number(self) -> int:
        """Number of the block device that holds the data."""
        return self.inode[0] if self.device is None else self.inode[2]

    @property
    def logical_block_bytes(self) -> int:
        """Smallest block that can be read or written directly."""
        return int(storage.block_facts(self.storage_number).get("logical_block_bytes") or 512)

    def named(self) -> dict[str, Any]:
        """Returns the facts that identify the file or drive; JSON values."""
        device = self.device
        if device is None:
            return self._found | {"inode": self.inode[1]}
        return self._found | {what: getattr(device, what) for what in ("serial", "model", "wwid")}

    def identity(self) -> dict[str, Any]:
        """Returns the known facts of the target and of the storage below; JSON values; only `path`
        may change at the next boot.
        """
        below = storage.block_facts(self.storage_number)
        if (device := self.device) is not None:
            return self._found | {"model": device.model, "serial": device.serial, **below}
        return self._found | storage.mount_facts(self.path) | {"storage": below}

    @property
    def _found(self) -> dict[str, Any]:
        return {"kind": self.kind, "path": self.path, "size_bytes": self.size_bytes}


@dataclass(frozen=True)
class NewFile:
    """A file that was made to be tested, or an empty one that was extended; `status` is its state
    afterwards.
    """

    path: str
    status: os.stat_result
    is_new: bool

    def undo(self) -> None:
        """Remove or empty the file again, unless it has been written since, the name belongs to
        another file, or another drivebay has it. Links are not followed.
        """
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with contextlib.suppress(OSError), open(os.open(self.path, flags), "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            then, now = self.status, os.fstat(file.fileno())
            if not os.path.samestat(now, then) or any(
                getattr(now, what) != getattr(then, what)
                for what in ("st_size", "st_mtime_ns", "st_ctime_ns")
            ):
                return
            if self.is_new:
                _unlink_own(self.path, now)
                marks.forget(self.path)
            else:
                file.truncate(0)


def create(path: str, size_bytes: int) -> NewFile:
    """Make a new file of this size to be tested; an empty one that nobody uses is extended. Raises
    UserError if there is something at the path, or it may not be tested, or the size is too
    small; EnvironmentProblem if it cannot be made.

    On an error no new file is left at the path. Free space is checked beforehand: an attempt would
    take all space of the file system, if only for a moment, from other programs that write to it.
    """
    _check_size("--size", size_bytes, "make it larger: --size 4G")
    real = os.path.realpath(path)
    with system_errors(f"{path}: cannot be made", "choose another place or size: df -h"):
        file, is_new = _opened(real, path)
        with file:
            try:
                _extend(file, real, path, size_bytes)
            except BaseException:
                if is_new:
                    _remove_if_own(real, file)
                raise
            if is_new:  # an empty file of another program now has only zeros, which need no mark
                marks.note(file.fileno(), real, "done", marks.new_session())
            return NewFile(real, os.fstat(file.fileno()), is_new)


def _extend(file: BinaryIO, real: str, given: str, size_bytes: int) -> None:
    """Extends the empty file to its size, if no protection forbids a test; else it stays empty."""
    examined = Examined(real, os.fstat(file.fileno()), held=True)
    if examined.status.st_size > 0:
        raise _is_there(given)
    if reasons := protections.blockers(examined):
        another = "make another file: drivebay review NEW.img --size 4G"
        raise protections.refusal(given, reasons, another)
    below = os.fstatvfs(file.fileno())
    if size_bytes > below.f_bavail * below.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    try:
        os.posix_fallocate(file.fileno(), 0, size_bytes)
    except OSError:
        file.truncate(0)
        raise


def _opened(real: str, given: str) -> tuple[BinaryIO, bool]:
    """Opens the empty file to append to; the second value is True if it was created now."""
    try:
        return open(real, "xb"), True
    except FileExistsError:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO has no reader
        if os.path.isfile(real) and os.path.getsize(real) == 0:
            return open(os.open(real, flags), "ab"), False
        raise _is_there(given) from None


def _is_there(given: str) -> UserError:
    return UserError(f"--size: {given} is there already", "leave out --size, or name a new file")


def _remove_if_own(path: str, file: BinaryIO) -> None:
    """Removes a file after a failure, unless the name belongs to another file or it has content."""
    own = os.fstat(file.fileno())
    if own.st_size == 0:
        _unlink_own(path, own)


def _unlink_own(path: str, own: os.stat_result) -> None:
    """Removes the name if it still belongs to this file."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.lstat(path), own):
            os.unlink(path)


def _check_size(name: str, size_bytes: int, hint: str) -> None:
    if size_bytes // MIB * MIB < SMALLEST_BYTES:
        raise UserError(
            f"{name}: {si_bytes(size_bytes)} is too small; must be at least "
            f"{binary_bytes(SMALLEST_BYTES)}",
            hint,
        )


def find(path: str) -> TargetDevice:
    """Finds the file or block device at the path, links followed. Raises UserError or
    EnvironmentProblem if there is nothing, or something else, or it may not be examined.
    """
    real = os.path.realpath(path)
    with system_errors(path, "name a file, or a device: drivebay drives", UserError):
        try:
            status = os.stat(real)
        except FileNotFoundError:
            raise UserError(
                f"{path}: there is no such file or device",
                f"make a file to test: drivebay review {shlex.quote(path)} --size 4G",
            ) from None
        except PermissionError:
            raise EnvironmentProblem(
                f"{path}: no permission to look at it", "run as its owner, or as root"
            ) from None
    inode = (status.st_dev, status.st_ino, status.st_rdev)
    if stat.S_ISBLK(status.st_mode):
        device = blockdev.inspect(real, look_inside=False)
        return TargetDevice(path, real, "block", inode, device.capacity_bytes, device)
    if stat.S_ISREG(status.st_mode):
        return TargetDevice(path, real, "file", inode, status.st_size, None)
    inside = os.path.join(path, "drivebay.img") if stat.S_ISDIR(status.st_mode) else "FILE"
    what = "is a directory" if stat.S_ISDIR(status.st_mode) else "is a special file"
    raise UserError(
        f"{path} {what}; must be a regular file or a block device",
        f"make a file to test: truncate -s 4G {shlex.quote(inside)}; devices: drivebay drives",
    )


@dataclass(frozen=True)
class OverwritePermission:
    """Permission of the user to overwrite data: `destroy_data` is the serial number or name that
    was typed, `overwrite_signature` is True if partition tables, file systems and other data on
    a device are included, `typed_yes` is True if YES was typed on a terminal. `record` stores
    it; None: in the folder for permissions without a result.
    """

    destroy_data: str | None = None
    overwrite_signature: bool = False
    typed_yes: bool = False
    record: Record | None = None

    @property
    def sessions(self) -> frozenset[str]:
        """The resumed sessions: their half-written data is ours."""
        return frozenset() if self.record is None else self.record.sessions


def check(
    target: TargetDevice,
    *,
    permission: OverwritePermission,
    will_write: bool,
    fills: bool = True,
    direct: bool = True,
) -> None:
    """Checks that the target may and can be tested, past the page cache if `direct`, and written,
    all of it if it `fills`; writes nothing. Raises UserError or EnvironmentProblem with the
    reasons against it.
    """
    if target.device is None:
        _check_file(target, permission, will_write=will_write, fills=fills)
    else:
        check_device(target, permission, held=False, look_inside=True, look_for_data=True)
    _check_size(
        target.given,
        target.size_bytes,
        f"make it larger: truncate -s 4G {shlex.quote(target.given)}"
        if target.device is None
        else "choose another device: drivebay drives",
    )
    if direct:
        _check_direct(target)


def destroys(target: TargetDevice, permission: OverwritePermission) -> bool:
    """True if data that is not drivebay's may be destroyed, once `check` has let the target pass:
    for a device always, for a file if it was named for that reason.
    """
    if target.device is not None or permission.destroy_data is None:
        return target.device is not None
    with to_read(target) as fd:
        return not (marks.is_own(fd, target.path, permission.sessions) or contents.is_blank(fd))


def _check_file(
    target: TargetDevice, permission: OverwritePermission, *, will_write: bool, fills: bool
) -> None:
    refuse_leased(target)
    if flag := in_use.unchangeable(target.path):
        option = "-i" if flag.startswith("immutable") else "-a"
        hint = f"use another file, or: chattr {option} {shlex.quote(target.given)}"
        raise protections.refusal(target.given, [f"is {flag}"], hint)
    if not os.access(target.path, os.R_OK | os.W_OK):
        raise EnvironmentProblem(
            f"{target.given}: no permission to read and write it",
            f"run as its owner, or: chmod u+rw {shlex.quote(target.given)}",
        )
    refuse_used_file(target)
    if not will_write:
        return
    with to_read(target) as fd:
        own = marks.is_own(fd, target.path, permission.sessions)
        refuse_foreign_data(target, permission, fd, own=own)
    if not fills:
        return
    status, disk = os.stat(target.path), os.statvfs(target.path)
    missing = target.capacity_bytes - status.st_blocks * 512 - disk.f_bavail * disk.f_frsize
    if missing > 0:
        raise EnvironmentProblem(
            f"{target.given}: {si_bytes(missing)} of free space are missing for the whole file to "
            "be written",
            f"free some space, or use a smaller file: df -h {shlex.quote(target.given)}",
        )


@contextlib.contextmanager
def to_read(target: TargetDevice) -> Iterator[int]:
    """Opens the file to be examined."""
    hint = f"run as its owner, or as root; see: ls -l {shlex.quote(target.given)}"
    with contextlib.ExitStack() as stack:
        with system_errors(f"{target.given}: cannot be read", hint):
            fd = stack.enter_context(in_use.opened(target.path))
        yield fd


def refuse_leased(target: TargetDevice) -> None:
    """Refuses a leased file before it is opened: opening would break another program's lease."""
    if target.device is not None:
        return
    with contextlib.suppress(OSError):  # a file that cannot be examined is refused by other checks
        if reasons := tuple(protections.leased(Examined(target.path, os.stat(target.path)))):
            raise protections.refusal(target.given, reasons)


def refuse_used_file(target: TargetDevice, *, held: bool = False) -> None:
    """Refuses a file that is in use, whatever the user permits; checked again before every step
    that writes.
    """
    reasons = protections.blockers(Examined(target.path, os.stat(target.path), held=held))
    if reasons:
        raise protections.refusal(target.given, reasons)


def is_named(target: TargetDevice, permission: OverwritePermission) -> bool:
    """True if the owner has named the file, so that its data may be overwritten. Raises UserError
    if another one was named.
    """
    if permission.destroy_data is None:
        return False
    # A link's name is not accepted: the user may not know to which file it leads.
    if permission.destroy_data not in (target.name, target.path) and not (
        permission.destroy_data == target.given and os.path.basename(target.given) == target.name
    ):
        raise UserError(
            f"--destroy-data names {permission.destroy_data!r}, but the file is called "
            f"{target.name!r}",
            "make sure that this is the file you mean",
        )
    return True


def refuse_foreign_data(
    target: TargetDevice, permission: OverwritePermission, fd: int, *, own: bool
) -> None:
    """Refuses data in a file unless it is drivebay's own, or the file was named."""
    if is_named(target, permission):
        return
    found = contents.of(target.path, target.size_bytes)
    blank = own or contents.is_blank(fd)
    examined = Examined(target.path, os.fstat(fd), contents=found, ours=own or blank)
    if reasons := protections.foreign_data(examined):
        raise UserError(
            f"{target.given} would be overwritten: it {'; it '.join(reasons)}",
            "make another file: drivebay review NEW.img --size 4G; or if nothing in this one is "
            f"needed: --destroy-data {shlex.quote(target.name)}",
        )


def check_device(
    target: TargetDevice,
    permission: OverwritePermission,
    *,
    held: bool,
    look_inside: bool,
    look_for_data: bool = False,
) -> None:
    """Checks that it is still the same device, that nothing forbids overwriting it, and that its
    owner has allowed its data to be overwritten; see `blockdev.inspect` for the searches.
    """
    before = target.device
    assert before is not None, "a block device"
    look_for_data = look_for_data and not (
        permission.overwrite_signature
        or marks.device_is_own(target.path, before.lasting_name, permission.sessions)
    )
    now = blockdev.inspect(
        target.path, held=held, look_inside=look_inside, look_for_data=look_for_data
    )
    for what in ("number", "serial", "model", "capacity_bytes", "sequence"):
        if getattr(before, what) != getattr(now, what):
            raise UserError(
                f"{target.path} is no longer the same device: its {what} was "
                f"{getattr(before, what)}, is {getattr(now, what)}",
                "look which drive it is now: drivebay drives",
            )
    blockdev.refuse_unless_free(
        now, permission.destroy_data, overwrite_signature=permission.overwrite_signature
    )


def _check_direct(target: TargetDevice) -> None:
    try:
        with in_use.opened(target.path, os.O_RDWR | os.O_DIRECT):
            pass
    except PermissionError:
        raise EnvironmentProblem(
            f"{target.given}: no permission to write it", "run as root: sudo drivebay review ..."
        ) from None
    except OSError as problem:
        where = "driver"
        if target.device is None:
            where = f"file system ({storage.mount_facts(target.path)['filesystem']})"
        raise EnvironmentProblem(
            f"{target.given}: its {where} refuses O_DIRECT ({problem.strerror}); memory would be "
            "measured instead of the drive",
            "use a file on ext4, XFS or btrfs, or a block device: drivebay drives",
        ) from None


def refuse_if_held(target: TargetDevice) -> None:
    """Raise at once if another drivebay has this very file or device; nothing is kept open."""
    if target.device is not None:
        return  # its inspection detects this: an exclusive open
    refuse_leased(target)
    with contextlib.ExitStack() as stack:
        try:
            fd = stack.enter_context(in_use.opened(target.path))
        except OSError:
            return  # refused by other checks
        if not in_use.lock(fd):
            raise held_by_another(target)


def held_by_another(target: TargetDevice) -> UserError:
    """Returns the error for a target that another drivebay has."""
    return UserError(
        f"{target.given} is being tested by another drivebay",
        "wait for it to end, or use another file",
    )
