"""A day's use of a file system, and the day after a power cut; run in a guest.

usage: file_system_job.py before|after btrfs|f2fs|ext4|xfs

A file's content follows from its name. Each step is told in /m/list, made durable before what it
takes away and after what it gives: what the list says must be there after the power cut, whole.
Prints lines that begin with SAID.
"""

import glob
import json
import os
import random
import socket
import subprocess
import sys
import threading

TOP = "/m"
CONTROL = ("10.0.2.9", 9)
SIZES = (100, 4096, 30_000, 200_000, 900_000)
FILES = 60
"""Written in a day; a third of them is removed."""


def say(name: str, *values: object) -> None:
    print("SAID", name, *values, flush=True)


def run(name: str, *command: str) -> None:
    """Run a command; its exit code is said under this name, its output only if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    say(name, done.returncode)
    if done.returncode:
        print(done.stdout[-1500:], done.stderr[-1500:], flush=True)


def disk(serial: str) -> str:
    """The drive of this serial number."""
    # Not nvme0c0n1, the path to a drive that several may lead to.
    for path in glob.glob("/sys/block/nvme?n1"):
        with open(f"{path}/device/serial") as file:
            if file.read().strip() == serial:
                return f"/dev/{os.path.basename(path)}"
    raise LookupError(serial)


def content(name: str, size: int) -> bytes:
    return random.Random(name).randbytes(size)


def write(path: str, data: bytes, *, at: int | None = None, is_durable: bool = True) -> None:
    """Write a new file, or in place of what is there from this byte on."""
    with open(path, "wb" if at is None else "r+b") as file:
        file.seek(at or 0)
        file.write(data)
        file.flush()
        if is_durable:
            os.fsync(file.fileno())


def tell(name: str, size: int) -> None:
    """A line of the list: from now on this file has so many bytes, or is away (0)."""
    with open(f"{TOP}/list", "a") as file:
        file.write(json.dumps([name, size]) + "\n")
        file.flush()
        os.fsync(file.fileno())


def listed() -> dict[str, int]:
    with open(f"{TOP}/list") as file:
        return dict(json.loads(line) for line in file)


def use(day: int) -> None:
    """Write, change and remove files."""
    rng = random.Random(day)
    have = []
    for index in range(FILES):
        name, size = f"d{index % 7}/{day}-{index}", rng.choice(SIZES)
        path = f"{TOP}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, content(name if index % 2 else "before", size))
        if index % 2 == 0:
            half = size // 2
            write(path, content(name, size)[half:], at=half)
            write(path, content(name, size)[:half], at=0)
        tell(name, size)
        have.append(name)
        if index % 3 == 2:
            gone = have.pop(rng.randrange(len(have)))
            tell(gone, 0)
            os.unlink(f"{TOP}/{gone}")


def _is_whole(name: str, size: int) -> bool:
    try:
        with open(f"{TOP}/{name}", "rb") as file:
            return file.read() == content(name, size)
    except OSError:
        return False


def check(name: str) -> None:
    """How many files are listed, and which of them are not as they should be."""
    bad = []
    for file, size in listed().items():
        if size and not _is_whole(file, size):
            bad.append(file)
    say(name, len(listed()), *bad)


def cut(drives: tuple[str, ...]) -> None:
    """Cut the drives' power while files are written that nobody waits for."""

    def endless() -> None:
        for index in range(1000):
            write(f"{TOP}/endless-{index}", content("endless", 200_000), is_durable=False)

    threading.Thread(target=endless, daemon=True).start()
    with socket.create_connection(CONTROL) as talk, talk.makefile() as answers:
        for drive in drives:
            talk.sendall(f"drive {drive} power-cut\n".encode())
            say(f"cut_{drive}", json.loads(answers.readline()).get("lost_bytes", "-"))


def main() -> None:
    when, kind = sys.argv[1:]
    zones, other = disk("zones"), disk("other")
    make = {
        # It changes what it keeps of itself in place: on another drive than the zones.
        "f2fs": ("mkfs.f2fs", "-f", "-m", "-c", zones, other),
        "btrfs": ("mkfs.btrfs", "-f", "-O", "zoned", "-d", "single", "-m", "single", zones),
        "ext4": ("mkfs.ext4", "-q", "-F", other),
        "xfs": ("mkfs.xfs", "-q", "-f", other),
    }[kind]
    device = zones if kind == "btrfs" else other
    fsck = {
        "f2fs": ("fsck.f2fs", "--dry-run"),
        "btrfs": ("btrfs", "check"),
        "ext4": ("e2fsck", "-f", "-n"),
        "xfs": ("xfs_repair", "-n"),
    }[kind] + (device,)
    mount = ("mount", "-t", kind, device, TOP)
    os.makedirs(TOP, exist_ok=True)
    if when == "before":
        run("mkfs", *make)
        run("mount", *mount)
        use(1)
        run("unmount", "umount", TOP)
        run("fsck", *fsck)
        run("mount_again", *mount)
        check("first_day")
        use(2)
        say("durable", len(listed()))
        cut(("zones", "other"))
        return
    run("mount_after", *mount)
    check("after_cut")
    use(3)
    if kind == "btrfs":
        run("scrub", "btrfs", "scrub", "start", "-B", TOP)
    run("unmount_after", "umount", TOP)
    run("fsck_after", *fsck)
    run("mount_last", *mount)
    check("last_day")
    run("unmount_last", "umount", TOP)


if __name__ == "__main__":
    main()
