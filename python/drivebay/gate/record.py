"""Recordings of a program's requests, each from the same initial drive.

The program runs in a new file system on the drive. Its timers are set so long that they do not
fire: the journal is committed only by the program's own syncs and at the end, when the file system
is unmounted. Leaves out: the write-back of dirty data after 30 s, or when memory is short. Effect:
recordings of longer programs differ.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from drivebay import serving
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.common.files import system_errors
from drivebay.crash import recording
from drivebay.definitions import profiles
from drivebay.definitions.scaling import with_capacity

# Profile of the recorded drive, which answers without its timing.
DRIVE = "sm951-nvme-256"
ENDING = ".requests"
# Identifier of all file systems: they begin with the same bytes.
UUID = "5d1f0a52-9b0c-4c4e-8f3b-64726976626e"
# Commands that make them, and arguments of their mounts. With a type, mount does not search the
# device for signatures.
FILE_SYSTEMS = {
    "ext4": (
        f"mkfs.ext4 -q -F -U {UUID} -E hash_seed={UUID},lazy_itable_init=0,lazy_journal_init=0",
        "ext4 -o noatime,commit=3600,no_prefetch_block_bitmaps",
    ),
    "xfs": (f"mkfs.xfs -q -f -m uuid={UUID}", "xfs -o noatime,nouuid"),
    "btrfs": (f"mkfs.btrfs -q -f -U {UUID}", "btrfs -o noatime,commit=3600"),
}
# Shell script that runs a command in the root of a file system; $OLDPWD is the caller's folder.
# The mount is seen by the command alone. The loop device has no page cache below it, merges no
# requests, and reads ahead as far as most devices: otherwise the requests depend on the machine's
# speed and kernel. ext4 places small files as it does large ones: otherwise their place depends on
# the processor that the program runs on. blkid puts the blocks that it reads into the page cache:
# then later probes of other programs send no requests. The gate counts requests after `start`.
IN_MOUNT = """
loop=$(losetup --show --direct-io=on -f "$1") && name=${loop#/dev/} || exit 125
echo 2 > "/sys/block/$name/queue/nomerges"; echo 128 > "/sys/block/$name/queue/read_ahead_kb"
mount -t $2 "$loop" /mnt; mounted=$?; losetup -d "$loop"; [ $mounted = 0 ] || exit 125
{ echo 0 > "/sys/fs/ext4/$name/mb_stream_req"; } 2>/dev/null
{ blkid -p "$loop"; [ "$1" != "$DRIVEBAY_DISK" ] ||
    "$3" -Pm drivebay ctl "$DRIVEBAY_CONTROL" mark start; } >/dev/null || exit 125
cd /mnt; shift 3; "$@"; code=$?; cd / && umount /mnt && exit $code
"""


def record(
    out: Path,
    command: Sequence[str],
    *,
    runs: int,
    size_bytes: int,
    file_system: str | None,
    setup: str | None,
) -> int:
    """Records a command several times; returns the exit code of the first run that fails, or 0.

    Parameters
    ----------
    out : new folder for the recordings.
    command : words, without a shell.
    runs : number of recordings.
    size_bytes : size of the drive.
    file_system : kind of the file system; None for a bare drive, as `crash.recording` describes.
    setup : shell command that runs in the file system first and is not recorded.

    Raises UserError if the folder exists; EnvironmentProblem if something is missing.
    """
    profile = with_capacity(profiles.load(DRIVE), size_bytes)
    with tempfile.TemporaryDirectory(prefix="drivebay-gate-") as name:
        image, words = None, list(command)
        if file_system is not None:
            image = _made(Path(name) / "image", size_bytes, file_system, setup)
            words = _mounted("{}", file_system, words)
        elif setup is not None:
            raise UserError("--setup needs a file system", "--fs ext4")
        with system_errors(f"{out} cannot be made", "choose a new folder", UserError):
            out.mkdir()
        for run in range(1, runs + 1):
            file = out / f"{run}{ENDING}"
            drive = serving.Drive(
                profile=profile, image=image, pace="none", record=file, requests_only=True
            )
            code = None
            try:
                if code := recording.record(drive, file, words):
                    return code
            finally:
                if code != 0:
                    file.unlink(missing_ok=True)
    return 0


def _mounted(file: str, kind: str, words: Sequence[str]) -> list[str]:
    arguments = [file, FILE_SYSTEMS[kind][1], sys.executable, *words]
    return ["unshare", "--mount", "sh", "-c", IN_MOUNT, "sh", *arguments]


def _made(image: Path, size_bytes: int, kind: str, setup: str | None) -> Path:
    """Makes the initial drive."""
    with image.open("wb") as file:
        file.truncate(size_bytes)
    steps = [[*FILE_SYSTEMS[kind][0].split(), str(image)]]
    if setup is not None:
        steps.append(_mounted(str(image), kind, ["sh", "-c", setup]))
    for words in steps:
        with system_errors(f"{words[0]} cannot be started", f"apt-get install {words[0]}"):
            done = subprocess.run(words, stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise EnvironmentProblem(
                f"{words[0]} failed with exit code {done.returncode}",
                "mounting needs root; without it: --fs none",
            )
    return image
