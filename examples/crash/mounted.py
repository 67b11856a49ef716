#!/usr/bin/env python3
"""Runs a command in a file system on a file with a drive's bytes: a workload to be recorded by
`drivebay crash record`, or the check of a state in `drivebay crash run`.

usage: mounted.py [--make ext4|xfs|btrfs] FILE [-- COMMAND...]

With --make the file system is made first; without it, it is mounted (which replays its journal),
and checked by its own tool after it is unmounted. The command runs in the root of the file system.
Needs Linux, root and loop devices. Standard library only, so that it can be copied.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
OPTIONS = {"xfs": ["-o", "nouuid"]}
"""States that are mounted side by side have one UUID. For btrfs: Linux 6.7, or --jobs 1."""
PATIENCE_S = 30.0


def command(*words: str) -> str:
    """Runs a command; its output. One that fails ends the script."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{words[0]}: {(done.stderr + done.stdout).strip()}")
    return done.stdout.strip()


def loop_device(file: str) -> str:
    """A loop device over a file; one process at a time looks for a free one."""
    end = time.monotonic() + PATIENCE_S
    while True:
        with open("/dev/loop-control", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = subprocess.run(
                ["losetup", "--find", "--show", file], capture_output=True, text=True, check=False
            )
        if done.returncode == 0:
            return done.stdout.strip()
        if time.monotonic() > end:
            sys.exit(done.stderr.strip())
        time.sleep(0.1)


def detach(device: str) -> None:
    """Detaches it, and waits until it has let go of its file."""
    command("losetup", "--detach", device)
    end = time.monotonic() + PATIENCE_S
    while Path("/sys/block", Path(device).name, "loop/backing_file").exists():
        if time.monotonic() > end:
            sys.exit(f"{device} stays attached")
        time.sleep(0.005)


def main() -> int:
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--make", choices=list(MAKE))
    parser.add_argument("file")
    asked, run = parser.parse_args(words[:at]), words[at + 1 :]
    device = loop_device(asked.file)
    try:
        if asked.make:
            command(*MAKE[asked.make], device)
        kind = command("blkid", "-p", "-s", "TYPE", "-o", "value", device)
        if kind not in CHECK:
            sys.exit(f"no file system that is known: {kind}")
        with tempfile.TemporaryDirectory(prefix="mounted-") as folder:
            command("mount", "-t", kind, *OPTIONS.get(kind, []), device, folder)
            try:
                code = subprocess.run(run, cwd=folder, check=False).returncode if run else 0
            finally:
                command("umount", folder)
        if not asked.make:
            command(*CHECK[kind], device)
        return code
    finally:
        detach(device)


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    sys.exit(main())
