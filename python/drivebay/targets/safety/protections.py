"""One table of everything that forbids overwriting a file or a block device.

Each protection names the protected data or use, the interface by which it is found, and the test
that proves it. A state that cannot be found out forbids as well (no permission, no libblkid). A
blocker is never passed; for data that a user may release, the protection names the option. Nothing
here writes.

Leaves out: data on a large device that none of the examined blocks hits (contents).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from drivebay.common.errors import UserError
from drivebay.targets.safety import in_use, storage
from drivebay.targets.safety.contents import NOT_LOOKED_AT, Contents
from drivebay.targets.safety.in_use import read

NO_PERMISSION = "cannot be opened: no permission"
STOP_OR_ANOTHER = "stop what uses it, or make another file: drivebay review NEW.img --size 4G"


@dataclass(frozen=True)
class Examined:
    """One examination of a file or block device. `name` is a device's kernel name; `held` is True
    if we have it open exclusively; `contents` are its contents, empty if not searched; `ours` is
    True if a file's data is drivebay's or the file has none.
    """

    path: str
    status: os.stat_result
    name: str = ""
    capacity_bytes: int = 0
    held: bool = False
    contents: Contents = NOT_LOOKED_AT
    ours: bool = False


@dataclass(frozen=True)
class Protection:
    """A reason not to write. `find` returns sentences that continue "it ..."; `released_by` is the
    option that still allows writing, "" if none does.
    """

    kind: Literal["block", "file"]
    what: str
    interface: str
    test: str
    find: Callable[[Examined], Iterable[str]]
    released_by: str = ""


PROTECTIONS: list[Protection] = []
Find = Callable[[Examined], Iterable[str]]


def _protects(
    kind: Literal["block", "file"], interface: str, test: str, released_by: str = ""
) -> Callable[[Find], Find]:
    """Registers a search, whose docstring names the protected data or use; reasons are listed in
    this order.
    """

    def enter(find: Find) -> Find:
        what = (find.__doc__ or "").partition(".")[0]
        PROTECTIONS.append(Protection(kind, what, interface, test, find, released_by))
        return find

    return enter


block, file = (functools.partial(_protects, kind) for kind in ("block", "file"))


def blockers(examined: Examined) -> tuple[str, ...]:
    """Returns the reasons that forbid writing, whatever the user permits."""
    return _found(examined, released_by="")


def signatures(examined: Examined) -> tuple[str, ...]:
    """Returns the data that `--overwrite-signature` allows to be overwritten on a device."""
    return _found(examined, released_by="--overwrite-signature")


def foreign_data(examined: Examined) -> tuple[str, ...]:
    """Returns the data that `--destroy-data` allows to be overwritten in a file."""
    return _found(examined, released_by="--destroy-data")


def refusal(given: str, reasons: Iterable[str], hint: str = STOP_OR_ANOTHER) -> UserError:
    """Returns the error with the reasons why a target, named as the user gave it, is not tested."""
    return UserError(f"{given} may not be tested: it {'; it '.join(reasons)}", hint)


def file_users(path: str) -> tuple[str, ...]:
    """Current users of a file, in sentences that continue "it ..."; () if it does not exist. Raises
    OSError if it cannot be examined.
    """
    try:
        examined = Examined(path, os.stat(path))
    except FileNotFoundError:
        return ()
    finds = (_loops_over_file, _file_users, _unseen_writer, _swap_file, _exported)
    return tuple(dict.fromkeys(words for find in finds for words in find(examined)))


def _found(examined: Examined, *, released_by: str) -> tuple[str, ...]:
    kind = "block" if examined.name else "file"
    wanted = [one for one in PROTECTIONS if (one.kind, one.released_by) == (kind, released_by)]
    return tuple(dict.fromkeys(words for one in wanted for words in one.find(examined)))


def _each_part(examined: Examined) -> Iterator[tuple[str, str]]:
    """Yields the device and its partitions: kernel name, and the beginning of its sentence."""
    yield examined.name, "is"
    for part in in_use.partitions(examined.name):
        yield part, f"has a partition, /dev/{part}, that is"


# --- block devices --------------------------------------------------------------------------------


@block("/proc/self/mountinfo", "test_mounted_and_bearing_a_file_system")
def _mounted(examined: Examined) -> Iterator[str]:
    """A mounted file system."""
    for name, begin in _each_part(examined):
        for point in in_use.mount_points(name):
            runs = " (this system runs from it)" if point in in_use.SYSTEM_MOUNTS else ""
            yield f"{begin} mounted at {point}{runs}"


@block("/proc/swaps", "test_swap_in_use")
def _swap_device(examined: Examined) -> Iterator[str]:
    """Swap space in use."""
    for name, begin in _each_part(examined):
        if in_use.is_swap(name):
            yield f"{begin} used as swap"


@block("sysfs holders", "test_what_is_used_below_partitions_is_named")
def _holders(examined: Examined) -> Iterator[str]:
    """A part of device-mapper, MD or bcache."""
    for name, begin in _each_part(examined):
        yield from (f"{begin} part of {holder}" for holder in in_use.holders(name))


@block(
    "fstab(5), crypttab(5), /proc/cmdline, LoaderDevicePartUUID; libblkid for names",
    "test_devices_that_this_system_needs",
)
def _system(examined: Examined) -> Iterator[str]:
    """What this system runs or starts from."""
    needed = in_use.system_devices()
    for name, begin in _each_part(examined):
        yield from (f"{begin.removesuffix('is')}{why}" for why in needed.get(name, ()))


@block(
    "fstab(5), compared with libblkid's UUIDs and labels of the device",
    "test_fstab_names_that_only_the_device_itself_can_resolve",
)
def _named_by_system(examined: Examined) -> Iterator[str]:
    """What fstab names by a UUID or label that cannot be resolved here (no udev: a container): that
    is compared with what the device bears. A reference that is not found may be to any device with
    a file system: what can be compared is not all that it may be found by (a copy, a damaged
    superblock)."""
    file_systems = list(examined.contents.file_systems())
    for reference, why in in_use.named_for_booting():
        named = [f"{where}{why}" for where in examined.contents.named_by(reference)]
        yield from named
        if named or not file_systems or not in_use.names_a_disk(reference):
            continue
        if in_use.device_of_reference(reference) is None:
            for where in file_systems:
                yield f"{where}may be the device that {why}: {reference} is not found"


@block("sysfs partition", "test_partitions")
def _partition(examined: Examined) -> Iterator[str]:
    """A partition."""
    if in_use.is_partition(examined.name):
        yield "is a partition, not a whole device"


@block("sysfs dm, md", "test_what_is_no_drive_of_its_own")
def _built_on_others(examined: Examined) -> Iterator[str]:
    """A device built on others."""
    if kind := in_use.built_on_others(examined.name):
        yield f"is {kind}, not a drive; test what is below it"


@block("sysfs size, ro, zoned", "test_read_only")
def _not_writable(examined: Examined) -> Iterator[str]:
    """No medium, read-only, zoned, memory."""
    folder = in_use.SYS_BLOCK / examined.name
    if examined.capacity_bytes == 0:
        yield "has no medium: its size is zero"
    if read(folder / "ro") != "0":
        yield "is read-only"
    if read(folder / "queue/zoned") not in ("none", ""):
        yield "is a zoned device, which cannot be written at random"
    if examined.name.startswith(("zram", "ram")):
        yield "is memory, not a drive"


@block("LOOP_GET_STATUS64 (device and inode)", "test_two_loops_over_one_inode")
def _loop(examined: Examined) -> Iterator[str]:
    """A loop over a device, or over a file that another loop uses."""
    backing = read(in_use.SYS_BLOCK / examined.name / "loop/backing_file")
    if not backing:
        return
    try:
        inode = in_use.loop_backing(examined.name)
    except OSError:
        yield "is a loop device whose backing file cannot be examined"
        return
    if inode is None or inode.block_device:
        yield f"is a loop over the block device {backing}; test that one itself"
        return
    if others := in_use.loops_over(
        inode.device, inode.inode, examined.capacity_bytes, but=examined.name
    ):
        yield f"shares its backing file with {', '.join(others)}"
    with contextlib.suppress(OSError):
        status = os.stat(backing)
        if (status.st_dev, status.st_ino) == (inode.device, inode.inode):
            return
    yield f"is a loop over a file that is not what {backing} names here"


@block("/proc/PID/fdinfo, /proc/swaps, configfs", "test_a_loop_over_a_file_that_is_in_use")
def _loop_file(examined: Examined) -> Iterator[str]:
    """A loop over a file that is in use, by others than the loop itself, which has it open."""
    try:
        for backing in in_use.backing_files(examined.name):
            over = Examined(backing, os.stat(backing))
            finds = (_file_users, _swap_file, _needed_file, _exported)
            for words in (words for find in finds for words in find(over)):
                yield f"is a loop over a file that {words}"
    except OSError as problem:
        yield f"is a loop over a file that cannot be examined: {problem.strerror}"


@block("LOOP_GET_STATUS64 (rdevice)", "test_a_device_below_a_mounted_loop")
def _below_loops(examined: Examined) -> Iterator[str]:
    """A device below a loop."""
    for name, begin in _each_part(examined):
        for loop in in_use.loops_over_device(name):
            yield f"{begin} in use by /dev/{loop}"


@block("configfs: nvmet, target, usb_gadget", "test_what_the_kernel_offers_to_other_hosts")
def _exported(examined: Examined) -> Iterator[str]:
    """A device or file that the kernel offers to other hosts."""
    statuses = [examined.status]
    for part in in_use.partitions(examined.name) if examined.name else ():
        with contextlib.suppress(OSError):
            statuses.append(os.stat(f"/dev/{part}"))
    for status in statuses:
        for what in in_use.exported_as(status):
            yield f"is offered to other hosts as {what}"


@block("sysfs serial, wwid", "test_an_empty_device")
def _unnamed(examined: Examined) -> Iterator[str]:
    """A device that cannot be named, or has two paths."""
    if not storage.serial(examined.name):
        yield "has no serial number to name it by"
    elif others := storage.other_paths(examined.name):
        yield f"is the same drive as {', '.join(others)} (a second path to it)"


@block("/proc/PID/fdinfo", "test_open_for_writing")
def _written_by_others(examined: Examined) -> Iterator[str]:
    """A device that a program writes to."""
    if examined.capacity_bytes and not examined.held:
        for process in in_use.writers(examined.status):
            yield f"is open for writing by {process}"


@block("fcntl(2) F_OFD_GETLK", "test_what_another_program_has_locked_is_refused")
def _locked(examined: Examined) -> Iterator[str]:
    """A device or file that a program has locked, as QEMU does to read it."""
    try:
        if in_use.is_locked(examined.path):
            yield "is locked by another program"
    except OSError as problem:
        yield _cannot_be_opened(problem)


@block("open(2) O_EXCL", "test_mounted_where_we_cannot_see_it")
def _exclusive(examined: Examined) -> Iterator[str]:
    """Any use by the kernel, in any namespace."""
    if examined.capacity_bytes == 0 or examined.held:
        return

    def is_busy() -> bool:
        try:
            with in_use.opened(examined.path, os.O_EXCL):
                return False
        except OSError as problem:
            if problem.errno == errno.EBUSY:
                return True
            raise

    try:
        if in_use.lasting(is_busy):
            yield "is held by the kernel or another program"
    except OSError as problem:
        yield _cannot_be_opened(problem)


def _cannot_be_opened(problem: OSError) -> str:
    return (
        NO_PERMISSION if problem.errno == errno.EACCES else f"cannot be opened: {problem.strerror}"
    )


@block("libblkid", "test_what_cannot_be_searched_is_refused")
def _unsearchable(examined: Examined) -> Iterator[str]:
    """What cannot be read."""
    if examined.contents.problem:
        yield f"cannot be searched for data: {examined.contents.problem}"


@block("libblkid", "test_a_member_in_a_partition_that_the_kernel_does_not_show")
def _members(examined: Examined) -> Iterable[str]:
    """A member of something larger, in any partition of any table."""
    return examined.contents.members


@block("libblkid, sysfs start", "test_partitions_that_the_kernel_does_not_show")
def _hidden_partitions(examined: Examined) -> Iterator[str]:
    """Partitions that the kernel does not show."""
    if count := len(examined.contents.hidden):
        what = "a partition" if count == 1 else f"{count} partitions"
        yield f"has {what} in its table that the kernel does not show: partx --add {examined.path}"


@block("sysfs", "test_partitions", "--overwrite-signature")
def _shown_partitions(examined: Examined) -> Iterator[str]:
    """Partitions."""
    if count := len(in_use.partitions(examined.name)):
        yield f"has {count} partition{'s' if count > 1 else ''}"


@block("libblkid", "test_a_signature", "--overwrite-signature")
def _file_systems(examined: Examined) -> Iterable[str]:
    """A file system or a partition table."""
    return examined.contents.releasable


@block(
    "reads of it, and drivebay's own mark of what it left",
    "test_data_without_a_signature_on_a_device",
    "--overwrite-signature",
)
def _unsigned_data(examined: Examined) -> Iterator[str]:
    """Data without a signature."""
    if examined.contents.data:
        yield examined.contents.data


# --- files ----------------------------------------------------------------------------------------


@file("/proc/locks, open(2) O_NONBLOCK", "test_a_file_under_a_lease_is_refused_at_once")
def leased(examined: Examined) -> Iterator[str]:
    """A file under a lease of another program, which opening it would break."""
    for holder in in_use.leases(examined.status):
        yield f"is under a lease of {holder}"


@file("/proc/self/mountinfo", "test_a_file_in_memory_is_refused")
def _memory_file(examined: Examined) -> Iterator[str]:
    """A file in memory."""
    kind = in_use.file_system_of(examined.status.st_dev)
    if kind in ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs"):
        yield f"is in memory ({kind}), not on a drive"


@file("LOOP_GET_STATUS64 (device and inode)", "test_a_backing_file_under_another_name_is_refused")
def _loops_over_file(examined: Examined) -> Iterator[str]:
    """The backing file of a loop device, by any path or namespace."""
    status = examined.status
    for name in in_use.loops_over(status.st_dev, status.st_ino, status.st_size):
        yield f"is in use by /dev/{name}"


@file("/proc/PID/fdinfo, /proc/PID/maps", "test_a_file_that_another_program_has_mapped_is_refused")
def _file_users(examined: Examined) -> Iterator[str]:
    """A file that a program writes to or has mapped."""
    for process in in_use.writers(examined.status):
        yield f"is in use by {process}"
    for process in in_use.mappers(examined.status, examined.path):
        yield f"is in use by {process}, which has it mapped into its memory"


@file("fcntl(2) F_SETLEASE", "test_a_writer_that_proc_does_not_show")
def _unseen_writer(examined: Examined) -> Iterator[str]:
    """A file open for writing where /proc does not show it. Beside those that can be named: the
    kernel knows of all of them, but does not say who."""
    if examined.held or any(_file_users(examined)) or any(_loops_over_file(examined)):
        return
    try:
        if in_use.is_open_for_writing(examined.path):
            yield "is open for writing by the kernel or by a program that cannot be seen from here"
    except OSError as problem:
        yield _cannot_be_opened(problem)


file("configfs: nvmet, target, usb_gadget", "test_what_the_kernel_offers_to_other_hosts")(_exported)


@file(
    "stat(2) st_nlink",
    "test_a_file_with_a_second_name_is_not_overwritten_without_its_name",
    "--destroy-data",
)
def _other_names(examined: Examined) -> Iterator[str]:
    """A file with a second name."""
    if (count := examined.status.st_nlink) > 1:
        others = "another name" if count == 2 else f"{count - 1} other names"
        yield f"has {others} (hard link{'s' if count > 2 else ''}), under which it may be needed"


file("fcntl(2) F_OFD_GETLK", "test_what_another_program_has_locked_is_refused")(_locked)


@file("/proc/swaps", "test_a_swap_file_is_refused")
def _swap_file(examined: Examined) -> Iterator[str]:
    """A swap file."""
    if in_use.is_swap_file(examined.status):
        yield "is used as swap space"


@file("fstab(5), crypttab(5)", "test_a_file_that_this_system_will_use_is_refused")
def _needed_file(examined: Examined) -> Iterator[str]:
    """A swap file or an image that this system will use."""
    yield from in_use.named_file(examined.status)


@file("FS_IOC_GETFLAGS", "test_an_immutable_file_is_refused")
def _unchangeable(examined: Examined) -> Iterator[str]:
    """An immutable or append-only file."""
    if flag := in_use.unchangeable(examined.path):
        yield f"is {flag}"


@file(
    "SEEK_DATA, xattr(7), libblkid",
    "test_a_file_with_data_is_not_overwritten_without_its_name",
    "--destroy-data",
)
def _foreign_data(examined: Examined) -> Iterator[str]:
    """Data that drivebay did not write. Its own random data may look like a signature, and is asked
    about then, too."""
    found = examined.contents
    if found.problem:
        yield f"cannot be searched for data: {found.problem}"
    if not examined.ours:
        yield "holds data that drivebay did not write"
    yield from (*found.members, *found.releasable)


def mounted_at(words: str) -> str:
    """Returns the mount point that a blocker names, "" if it names none that could be unmounted."""
    found = re.search(r" mounted at (.*)$", words)
    return found[1] if found and "this system" not in words else ""
