"""Current users of a block device or a file: mounts, swap, kernel holders, loop devices, programs.

Sources: proc(5) for mountinfo, swaps and fdinfo; Linux's sysfs ABI for holders, dm, md and loop;
fstab(5), crypttab(5), the kernel's command line, and systemd's boot loader interface
(LoaderDevicePartUUID) for devices from which this system starts without having them mounted;
LOOP_GET_STATUS64 of loop(4), FS_IOC_GETFLAGS of ioctl_iflags(2), F_SETLEASE and F_OFD_GETLK of
fcntl(2), /proc/locks for leases; configfs of nvmet, target and usb_gadget. No helper program,
nothing written.

Leaves out: other mount namespaces and users' processes that we may not inspect. Effect: a mount in
a container is not named here; opening the device exclusively (blockdev) still fails for it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from drivebay.common.errors import EnvironmentProblem
from drivebay.targets.safety import libblkid

T = TypeVar("T")
SYS_BLOCK = Path("/sys/class/block")
SYS_NUMBERS = Path("/sys/dev/block")
PROC = Path("/proc")
FSTAB = Path("/etc/fstab")
CRYPTTAB = Path("/etc/crypttab")
CONFIGFS = Path("/sys/kernel/config")
EFI_LOADER = Path(
    "/sys/firmware/efi/efivars/LoaderDevicePartUUID-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
)
_LOOP_GET_STATUS64 = 0x4C05
LOOP_RETRIES, LOOP_RETRY_S = 20, 0.05
_FS_IOC_GETFLAGS = 0x80086601
SYSTEM_MOUNTS = ("/", "/boot", "/boot/efi", "/efi", "/usr", "/var", "/home", "/nix")


def read(path: Path) -> str:
    """Returns a sysfs attribute as text, "" if it does not exist.

    >>> read(Path("/no/such/attribute"))
    ''
    """
    try:
        return path.read_bytes().replace(b"\0", b"").decode(errors="replace").strip()
    except OSError:
        return ""


@contextlib.contextmanager
def opened(path: str | Path, flags: int = 0) -> Iterator[int]:
    """Opens a file or device only to examine it: nothing is waited for, and no lease of another
    program is broken. `flags` are additional flags of open(2).
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        yield fd
    finally:
        os.close(fd)


def lock(fd: int) -> bool:
    """Takes the lock (flock(2)) of an open file; False if another program has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def number(device: int) -> str:
    """Returns a device number as the kernel writes it.

    >>> number(os.makedev(8, 17))
    '8:17'
    """
    return f"{os.major(device)}:{os.minor(device)}"


@dataclass(frozen=True)
class Mount:
    """A mounted file system: its device number, mount point, the mount's options, its type, source,
    and its own options.
    """

    number: str
    point: str
    options: str
    kind: str
    source: str
    own_options: str


def mounts() -> list[Mount]:
    """Returns the mounts of this namespace; a later one hides an earlier one at the same place."""
    found = []
    for line in read(PROC / "self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields = [*before.split(), "", ""]
        kind, source, own_options, *_ = [*after.split(" "), "", ""]
        if len(fields) >= 7:
            point, name = unescape(fields[4]), unescape(source)
            found.append(Mount(fields[2], point, fields[5], kind, name, own_options))
    return found


def mount_points(name: str) -> list[str]:
    """Mount points of the block device of this kernel name ("sda1")."""
    own = read(SYS_BLOCK / name / "dev")
    # btrfs and others mount under a different device number; then the source identifies the device.
    return [one.point for one in mounts() if own in (one.number, _number_of(one.source))]


def _swaps() -> list[str]:
    lines = read(PROC / "swaps").splitlines()[1:]
    return [unescape(line.split()[0]) for line in lines if line.split()]


def is_swap(name: str) -> bool:
    """True if the kernel swaps to this block device."""
    own = read(SYS_BLOCK / name / "dev")
    return any(_number_of(path) == own for path in _swaps())


def holders(name: str) -> list[str]:
    """Kernel devices built on this one, in words: "LVM volume vg-home (dm-0)"."""
    return [_holder_in_words(holder) for holder in _names(SYS_BLOCK / name / "holders")]


def _holder_in_words(name: str) -> str:
    uuid = read(SYS_BLOCK / name / "dm/uuid")
    label = read(SYS_BLOCK / name / "dm/name")
    kinds = {"LVM": "LVM volume", "CRYPT": "encrypted volume", "mpath": "multipath device"}
    if label:
        return f"{kinds.get(uuid.split('-')[0], 'device-mapper device')} {label} ({name})"
    if (SYS_BLOCK / name / "md").is_dir():
        return f"MD RAID {name}"
    return f"bcache device {name}" if name.startswith("bcache") else f"device {name}"


def system_devices() -> dict[str, list[str]]:
    """Devices that this system needs, by kernel name: those it runs from and all below them, those
    it boots from, and those that /etc/fstab and /etc/crypttab name; each with the reasons, in
    words.
    """
    found: dict[str, list[str]] = {}
    for point in SYSTEM_MOUNTS:
        for name in _sources_of_mount(point):
            for part in _with_what_is_below(name):
                found.setdefault(part, []).append(f"is needed by this system for {point}")
    for reference, why in named_for_booting():
        if (named := device_of_reference(reference)) is not None:
            for part in _with_what_is_below(named):
                found.setdefault(part, []).append(why)
    return found


def _sources_of_mount(point: str) -> list[str]:
    """Returns the devices of the file system that is mounted at the point, if there is one."""
    if not os.path.ismount(point):
        return []
    numbers = [number(os.stat(point).st_dev)]
    numbers += [_number_of(one.source) for one in mounts() if one.point == point]
    return [name for each in dict.fromkeys(numbers) if (name := _name_of_number(each))]


def _with_what_is_below(name: str) -> list[str]:
    """Returns the device, the disk of which it is a partition, and the devices from which
    device-mapper or MD builds it.
    """
    seen: list[str] = []
    left = [name]
    while left:
        part = left.pop()
        if part in seen:
            continue
        seen.append(part)
        left += _names(SYS_BLOCK / part / "slaves")
        if is_partition(part):
            left.append(whole_disk(part))
    return seen


def drive_below(device: int) -> str | None:
    """Kernel name of the one disk that holds this block device's data, through partitions and
    device-mapper; None if there is none, or more than one (RAID).
    """
    if (name := name_of(device)) is None:
        return None
    disks = [
        part
        for part in _with_what_is_below(name)
        if not is_partition(part) and not _names(SYS_BLOCK / part / "slaves")
    ]
    return disks[0] if len(disks) == 1 else None


def named_for_booting() -> Iterator[tuple[str, str]]:
    """Yields references (a path, or UUID=...) to devices and files, and the reasons why they are
    needed.
    """
    for word in read(PROC / "cmdline").split():
        key, _, value = word.partition("=")
        if key in ("root", "resume", "boot", "usr"):
            yield value, f"is named on the kernel's command line ({key}=)"
    for table, device, user, plain in ((FSTAB, 0, 1, unescape), (CRYPTTAB, 1, 0, str)):
        for line in read(table).splitlines():
            fields = [plain(field) for field in line.split()]
            if len(fields) >= 2 and not fields[0].startswith("#"):
                yield fields[device], f"is named in {table} for {fields[user]}"
    try:
        loader = EFI_LOADER.read_bytes()[4:].decode("utf-16-le").strip("\0").lower()
    except (OSError, UnicodeDecodeError):
        return
    yield f"PARTUUID={loader}", "is what this system boots from"


def names_a_disk(reference: str) -> bool:
    """True if a reference is to a disk or partition, not to a network's file system or a CD.

    >>> names_a_disk("UUID=7b4b"), names_a_disk("/dev/sdb1"), names_a_disk("/dev/sr0")
    (True, True, False)
    >>> names_a_disk("server:/export"), names_a_disk("tmpfs")
    (False, False)
    """
    return bool(
        re.match(r"(UUID|LABEL|PARTUUID|PARTLABEL|ID)=", reference)
        or re.match(r"/dev/(disk/|sd|hd|vd|xvd|nvme|mmcblk|pmem)", reference)
    )


def device_of_reference(reference: str) -> str | None:
    """Kernel name of the device that fstab(5) or root= names; None if it is not found now."""
    key, equals, value = reference.partition("=")
    if not equals and not reference.startswith("/dev/"):
        return None
    path = libblkid.evaluate(f"{key}={value.strip(chr(34))}" if equals else reference)
    return _name_of_number(_number_of(path)) if path else None


def name_of(device: int) -> str | None:
    """Kernel name of the block device with this number; None if it does not exist."""
    return _name_of_number(number(device))


def _name_of_number(number: str) -> str | None:
    link = SYS_NUMBERS / number
    return link.resolve().name if link.exists() else None


def attachment(device: int) -> str:
    """The kernel's number of the attachment of the block device with this number: another disk, or
    the same one plugged in again, has a different number.
    """
    return read(SYS_NUMBERS / number(device) / "diskseq")


def built_on_others(name: str) -> str:
    """Returns the kind of a device that the kernel builds from others, in words; "" for any other
    device.
    """
    folder = SYS_BLOCK / name
    if (folder / "dm").is_dir() or name.startswith("dm-"):
        return "a device-mapper device"
    if (folder / "md").is_dir():
        return "an MD RAID"
    return "a bcache device" if name.startswith("bcache") else ""


def is_partition(name: str) -> bool:
    """True if this block device is a partition of another one."""
    return (SYS_BLOCK / name / "partition").exists()


def partitions(name: str) -> list[str]:
    """Kernel names of a disk's partitions."""
    return [
        one for one in _names(SYS_BLOCK / name) if (SYS_BLOCK / name / one / "partition").exists()
    ]


def whole_disk(name: str) -> str:
    """Returns the disk of a partition; any other device is returned unchanged."""
    folder = (SYS_BLOCK / name).resolve()
    return folder.parent.name if (folder / "partition").exists() else folder.name


def disks() -> list[str]:
    """Kernel names of the block devices that are not partitions and that the kernel shows.

    Raises OSError if they cannot be listed: then another path to a drive would not be found.
    """
    return [
        name
        for name in sorted(os.listdir(SYS_BLOCK))
        if not is_partition(name) and read(SYS_BLOCK / name / "hidden") != "1"
    ]


@dataclass(frozen=True)
class Backing:
    """Backing of a loop device: device and inode number of the file, as in stat(2); for a device
    node also the number of the block device, else 0.
    """

    device: int
    inode: int
    block_device: int


def loop_backing(name: str) -> Backing | None:
    """Returns a loop device's backing as the kernel reports it; None if it is detached. Raises
    OSError if the request is not permitted.
    """
    answer = bytearray(232)  # struct loop_info64
    with opened(f"/dev/{name}") as fd:
        try:
            fcntl.ioctl(fd, _LOOP_GET_STATUS64, answer)
        except OSError as problem:
            if problem.errno == errno.ENXIO:
                return None
            raise
    return Backing(*struct.unpack_from("=QQQ", answer))


def _settled(name: str) -> Backing | None:
    """Returns `loop_backing`, after waiting for a loop that is being detached: until then it cannot
    be opened (ENXIO).
    """
    for _ in range(LOOP_RETRIES):
        try:
            return loop_backing(name)
        except OSError as problem:
            if problem.errno != errno.ENXIO:
                raise
        time.sleep(LOOP_RETRY_S)
        if not read(SYS_BLOCK / name / "loop/backing_file"):
            return None
    return loop_backing(name)


def backing_files(name: str) -> Iterator[str]:
    """Yields the backing file of a loop device, and those below it: of the loops on which its file
    system lies. Raises OSError if one cannot be examined.
    """
    disk: str | None = name
    while disk and (backing := read(SYS_BLOCK / disk / "loop/backing_file")):
        yield backing
        disk = drive_below(os.stat(backing).st_dev)


def loops_over(device: int, inode: int, size_bytes: int, *, but: str = "") -> list[str]:
    """Names of the loop devices over the file with these numbers, except `but`.

    sysfs names the file by the path that it had when the loop was made, in that process's mount
    namespace; the numbers are valid under any name. Where the kernel does not permit the request
    (no root) the path decides; if that path does not exist, a loop counts if its size equals the
    file's.
    """
    found = []
    for name, backing in _loops():
        if name == but:
            continue
        folder = SYS_BLOCK / name
        try:
            made_of = _settled(name)
            same = made_of is not None and (made_of.device, made_of.inode) == (device, inode)
        except OSError:
            try:
                status = os.stat(backing)
                same = (status.st_dev, status.st_ino) == (device, inode)
            except OSError:
                offset, limit, sectors = (
                    int(read(folder / part) or 0)
                    for part in ("loop/offset", "loop/sizelimit", "size")
                )
                rest = size_bytes - offset
                same = (min(rest, limit) if limit else rest) // 512 == sectors
        if same:
            found.append(name)
    return found


def loops_over_device(name: str) -> list[str]:
    """Names of the loop devices over this block device; sysfs does not list them as holders."""
    own = read(SYS_BLOCK / name / "dev")

    def below(loop: str, backing: str) -> str:
        try:
            made_of = loop_backing(loop)
            return number(made_of.block_device) if made_of and made_of.block_device else "none"
        except OSError:
            return _number_of(backing)

    return [loop for loop, backing in _loops() if below(loop, backing) == own]


def _loops() -> Iterator[tuple[str, str]]:
    """Yields the attached loop devices, each with its file's path as sysfs has it."""
    for name in _names(SYS_BLOCK):
        if backing := read(SYS_BLOCK / name / "loop/backing_file"):
            yield name, backing


@dataclass(frozen=True)
class Written:
    """Counters that change with every write to a disk: sectors written and discarded since it was
    attached, and for a loop device the times of modification and change of its backing file.
    """

    sectors: int
    backing: tuple[int, int] | None


def written(name: str) -> Written:
    """Returns the writes to a disk so far, by any program; a loop's file may be written without the
    loop.

    Raises EnvironmentProblem where they cannot be known (/sys/block/NAME/stat, the loop's file).
    """
    fields = read(SYS_BLOCK / name / "stat").split()
    backing = read(SYS_BLOCK / name / "loop/backing_file")
    try:
        times = _times_of_backing(name, backing) if backing else None
        return Written(int(fields[6]) + int(fields[13]), times)
    except (OSError, IndexError) as problem:
        raise EnvironmentProblem(
            f"/dev/{name}: the kernel does not show what is written to it: {problem}",
            "test another device, or make a file to test: drivebay review NEW.img --size 4G",
        ) from None


def _times_of_backing(name: str, path: str) -> tuple[int, int]:
    status, made_of = os.stat(path), loop_backing(name)
    if made_of is None or (made_of.device, made_of.inode) != (status.st_dev, status.st_ino):
        raise FileNotFoundError(errno.ENOENT, "its backing file has another name", path)
    return status.st_mtime_ns, status.st_ctime_ns


def exported_as(status: os.stat_result) -> list[str]:
    """Returns the kinds of target as which the kernel exports this file or device to other hosts:
    "an NVMe target". The kernel opens it without a process, and devices without claiming them.
    """
    found = []
    for pattern, what in (
        ("nvmet/subsystems/*/namespaces/*/device_path", "an NVMe target"),
        ("target/core/*/*/udev_path", "a SCSI target"),
        ("usb_gadget/*/functions/mass_storage.*/lun.*/file", "a USB mass storage"),
    ):
        for attribute in sorted(CONFIGFS.glob(pattern)):
            with contextlib.suppress(OSError, ValueError):
                if _same_place(status, os.stat(read(attribute))):
                    found.append(f"{what} ({attribute.parent.relative_to(CONFIGFS)})")
    return found


def _same_place(one: os.stat_result, other: os.stat_result) -> bool:
    """True if two are the same file, or nodes of the same block device."""
    if stat.S_ISBLK(one.st_mode) and stat.S_ISBLK(other.st_mode):
        return one.st_rdev == other.st_rdev
    return os.path.samestat(one, other)


def lasting(look: Callable[[], T]) -> T:
    """Returns the findings of `look` that remain after a quarter of a second: a program that only
    examines a file holds it, or its lease, for a moment.
    """
    for wait_s in (0.01, 0.05, 0.2):
        if not (found := look()):
            return found
        time.sleep(wait_s)
    return look()


def is_open_for_writing(path: str) -> bool:
    """True if any program has this file open for writing or mapped for writing: a program in any
    namespace, an io_uring, the kernel. False where that cannot be known (fcntl(2), F_SETLEASE:
    another owner's file, a network file system). We must not have it open for writing ourselves.
    """

    def look() -> bool:
        with opened(path) as fd:
            try:
                # If another program opens it in between, the kernel sends us a signal: this one is
                # ignored.
                fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
                fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
                fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            except OSError as problem:
                return problem.errno == errno.EAGAIN
        return False

    return lasting(look)


def leases(status: os.stat_result) -> list[str]:
    """Programs that have a lease on this file, or a delegation of it to another host, in words.
    Opening the file makes the kernel revoke the lease, from a writer after 45 s: so nothing is
    opened here. btrfs and overlayfs show another device number; then the inode number decides.
    """

    def look() -> set[str]:
        return {_lease(line, status) for line in read(PROC / "locks").splitlines()} - {""}

    return sorted(lasting(look))


def _lease(line: str, status: os.stat_result) -> str:
    """Parses the holder of a lease from a line like "1: LEASE  ACTIVE    WRITE 4711 08:01:131 0
    EOF".
    """
    fields = line.split()
    if len(fields) < 6 or fields[1] not in ("LEASE", "DELEG"):
        return ""
    device, _, inode = fields[5].rpartition(":")
    own = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    if inode != str(status.st_ino) or (device != own and os.major(status.st_dev) != 0):
        return ""
    name = read(PROC / fields[4] / "comm") or "a program"
    return f"{name} (pid {fields[4]})"


def named_file(status: os.stat_result) -> list[str]:
    """Reasons why this system needs a file that it does not use now: a swap file, a file system's
    or an encrypted volume's image.
    """
    found = []
    for reference, why in named_for_booting():
        if reference.startswith("/") and not reference.startswith("/dev/"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(reference), status):
                    found.append(why)
    return found


def is_locked(path: str) -> bool:
    """True if another program has locked a part of this file or device (fcntl(2)), even if only for
    reading: QEMU locks all its images, and would read the data that we write.
    """
    with opened(path) as fd:
        try:
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
        except OSError as problem:
            if problem.errno in (errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                return False  # a file system without locks
            raise
    return bool(struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK)


def is_swap_file(status: os.stat_result) -> bool:
    """True if the kernel swaps to this file."""
    for path in _swaps():
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(path), status):
                return True
    return False


def unchangeable(path: str) -> str:
    """Returns the attribute of chattr(1) that forbids writing to a file: "immutable (chattr +i)";
    "" if none does, or the file system has none.
    """
    answer = bytearray(8)
    try:
        with opened(path) as fd:
            fcntl.ioctl(fd, _FS_IOC_GETFLAGS, answer)
    except OSError:
        return ""
    flags = int.from_bytes(answer[:4], sys.byteorder)
    if flags & 0x10:
        return "immutable (chattr +i)"
    return "append-only (chattr +a)" if flags & 0x20 else ""


def file_system_of(device: int) -> str:
    """Type of the mounted file system with this device number; "" if it is not found."""
    found = (one.kind for one in mounts() if one.number == number(device) and one.kind)
    return next(found, "")


def mappers(status: os.stat_result, path: str) -> list[str]:
    """Other programs that have this file mapped shared: they can write to it without having it
    open. btrfs and overlayfs show another device number there; then the path decides.
    """
    inode, major = f" {status.st_ino} ".encode(), os.major(status.st_dev)
    layered = file_system_of(status.st_dev) == "overlay"  # overlayfs shows the number of the layer
    device = f"{major:02x}:{os.minor(status.st_dev):02x}".encode()
    found = []
    for process in _other_processes():
        try:
            maps = (process / "maps").read_bytes()
        except OSError:
            continue
        if inode not in maps:
            continue
        for line in maps.splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) < 6 or fields[1][3:4] != b"s" or fields[4] != inode.strip():
                continue
            if layered or fields[3] == device or (major == 0 and fields[5] == os.fsencode(path)):
                found.append(f"{read(process / 'comm')} (pid {process.name})")
                break
    return sorted(found)


def writers(wanted: os.stat_result) -> list[str]:
    """Other programs that have this file or block device open for writing: "qemu (pid 71)"."""
    layered = file_system_of(wanted.st_dev) == "overlay"
    return sorted(
        f"{read(process / 'comm')} (pid {process.name})"
        for process in _other_processes()
        if _writes(process, wanted, layered=layered)
    )


def _other_processes() -> Iterator[Path]:
    own = str(os.getpid())
    return (PROC / name for name in _names(PROC) if name.isdigit() and name != own)


def _writes(process: Path, wanted: os.stat_result, *, layered: bool) -> bool:
    """True if the process has the file open for writing; for a `layered` file (overlayfs) a file
    with the same inode number and size may be the layer's own.
    """

    def same(found: os.stat_result) -> bool:
        if layered and (found.st_ino, found.st_size) == (wanted.st_ino, wanted.st_size):
            return True
        return _same_place(wanted, found)

    with contextlib.suppress(OSError), os.scandir(process / "fd") as fds:
        for fd in fds:
            with contextlib.suppress(OSError):
                if same(fd.stat()) and _may_write(process, fd.name):
                    return True
    return False


def _may_write(process: Path, fd: str) -> bool:
    found = re.search(r"^flags:\s*([0-7]+)", read(process / "fdinfo" / fd), re.MULTILINE)
    return found is not None and int(found[1], 8) & os.O_ACCMODE != os.O_RDONLY


def unescape(text: str) -> str:
    r"""Decodes a path as /proc writes it, with \040 for a space.

    >>> unescape(r"/mnt/my\040disk")
    '/mnt/my disk'
    """
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _number_of(path: str) -> str:
    """Returns major:minor of a block device's path, or "none"."""
    try:
        status = os.stat(path)
    except OSError:
        return "none"
    if not status.st_rdev or not stat.S_ISBLK(status.st_mode):
        return "none"
    return number(status.st_rdev)


def _names(folder: Path) -> list[str]:
    """Names in a folder of the kernel's, which may be missing. Raises OSError if it cannot be
    listed.
    """
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
