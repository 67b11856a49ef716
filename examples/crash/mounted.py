#!/usr/bin/env python3
"""Runs a command in a file system on a file with a drive's bytes: a workload to be recorded by
`drivebay crash record`, or the check of a state in `drivebay crash run`.

usage: mounted.py [--make ext4|xfs|btrfs] [--noise N] [--seed N] [--strace] FILE [-- COMMAND...]

With --make the file system is made first; without it, it is mounted (which replays its journal),
and checked by its own tool after it is unmounted. The command runs in the root of the file system.
--noise does N times a second what a busy machine does by itself: another program's fsync, the
write-back of a file, or a sync of everything, at random by --seed. A short run on a quiet machine
ends before any of them. --strace traces the command's system calls beside the recording, so that a
failure is explained by them (`apt-get install strace`). Needs Linux, root and loop devices.
Standard library only, so that it can be copied.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import os
import random
import shlex
import shutil
import subprocess
import sys
import threading
import time

MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}
CHECK = {
    "ext4": ["e2fsck", "-f", "-n"],
    "xfs": ["xfs_repair", "-n"],
    "btrfs": ["btrfs", "check", "--readonly"],
}


FOLDER = "/mnt"
"""Where it is mounted, for the command alone."""
CLONE_NEWNS = 0x20000
"""unshare(2): mounts of its own."""
WRITE_AND_WAIT = 7
"""sync_file_range(2): writes the data of a file back, without a flush of the drive."""
BTRFS_START_SYNC = 0x80089418
"""ioctl of btrfs: commits the transaction, without the data that was not allocated yet."""


def command(*words: str) -> str:
    """Runs a command; its output. One that fails ends the script."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{words[0]}: {(done.stderr + done.stdout).strip()}")
    return done.stdout.strip()


def foreign_fsync() -> None:
    """Syncs a file of another program, and commits the file system's journal."""
    with open(os.path.join(FOLDER, ".noise"), "ab") as file:
        file.write(b"noise\n")
        file.flush()
        os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # btrfs alone: the commit that its timer makes
            fcntl.ioctl(file, BTRFS_START_SYNC, bytes(8))


def write_back(choose: random.Random) -> None:
    """Writes the data of some files back, as the kernel does after a while."""
    for folder, _, names in os.walk(FOLDER):
        for name in names:
            if choose.random() < 0.5:
                with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                    arguments = [ctypes.c_int64(0), ctypes.c_int64(0), WRITE_AND_WAIT]
                    ctypes.CDLL(None).sync_file_range(file.fileno(), *arguments)


def sync_all() -> None:
    """Syncs the whole file system."""
    folder = os.open(FOLDER, os.O_RDONLY)
    ctypes.CDLL(None).syncfs(folder)
    os.close(folder)


def make_noise(times_a_second: float, seed: int, end: threading.Event) -> None:
    """Makes noise until the end."""
    choose = random.Random(seed)
    while not end.wait(choose.expovariate(times_a_second)):
        kind = choose.random()
        if kind < 0.5:
            foreign_fsync()
        elif kind < 0.9:
            write_back(choose)
        else:
            sync_all()


def traced(run: list[str]) -> list[str]:
    """The command with a trace of its system calls."""
    if shutil.which("strace") is None:
        sys.exit("--strace needs strace: apt-get install strace")
    return [*shlex.split(os.environ["DRIVEBAY_STRACE"]), *run]


def main() -> int:
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--make", choices=list(MAKE))
    parser.add_argument("--noise", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strace", action="store_true")
    parser.add_argument("file")
    asked, run = parser.parse_args(words[:at]), words[at + 1 :]
    run = traced(run) if asked.strace else run
    if asked.make:
        command(*MAKE[asked.make], asked.file)
    with open(asked.file, "rb") as file:
        is_xfs = file.read(4) == b"XFSB"
    # Mounts of this process alone: where a check is killed they go with it.
    if ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        sys.exit("mounting needs root")
    command("mount", "--make-rprivate", "/")
    # States that are mounted side by side have one UUID. For btrfs: Linux 6.7, or --jobs 1.
    command("mount", "-o", "loop,nouuid" if is_xfs else "loop", asked.file, FOLDER)
    end = threading.Event()
    noise = threading.Thread(target=make_noise, args=(asked.noise, asked.seed, end))
    try:
        kind = command("findmnt", "-fno", "FSTYPE", "--mountpoint", FOLDER)
        if asked.noise:
            noise.start()
        code = subprocess.run(run, cwd=FOLDER, check=False).returncode if run else 0
    finally:
        end.set()
        if noise.ident:
            noise.join()
        # Write-back from outside (record --writeback) may hold a file open for a moment.
        for _ in range(50):
            if subprocess.run(["umount", FOLDER], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)
        else:
            command("umount", FOLDER)  # which detaches the loop device
    if not asked.make:
        command(*CHECK[kind], asked.file)
    return code


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    sys.exit(main())
