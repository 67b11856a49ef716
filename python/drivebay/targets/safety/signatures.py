"""What a block device bears: partition tables, file systems, members of something larger.

Sources: signatures as libblkid knows them, through `wipefs --no-act`, which lists all it finds
where blkid stops at a doubt. Nothing here writes.

Leaves out: data without any signature.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

from drivebay.targets.safety import in_use

ADMIN_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
_BTRFS_AND_KIN = ("btrfs", "bcache", "crypto_LUKS", "BitLocker", "cs_fvault2", "stratis", "drbd")
MEMBERS = frozenset((*_BTRFS_AND_KIN, "swap", "swsuspend", "ceph_bluestore", "ubi", "VMFS"))
"""What libblkid calls parts of something larger, besides all that end in _member."""


def signatures_of(path: str, name: str) -> tuple[list[str], list[str]]:
    """What the device of this kernel name, and its partitions, bear: what may be given up, and what
    never."""
    given_up: list[str] = []
    never: list[str] = []
    partitions = [f"/dev/{part.replace('!', '/')}" for part in in_use.partitions(name)]
    for part in (path, *partitions):
        prefix = "" if part == path else f"has a partition, {part}, that "
        types = _signature_types(part)
        if isinstance(types, str):
            never.append(prefix + types)
            continue
        for kind in types:
            words = prefix + _signature_in_words(kind)
            (never if kind in MEMBERS or kind.endswith("_member") else given_up).append(words)
    return given_up, never


def _signature_types(path: str) -> list[str] | str:
    """The types that wipefs finds; words if it cannot look."""
    wipefs = shutil.which("wipefs", path=f"{os.environ.get('PATH', '')}:{ADMIN_PATH}")
    if wipefs is None:
        return "cannot be searched for data: wipefs is missing (apt install util-linux)"
    try:
        answer = subprocess.run(
            [wipefs, "--no-act", "--json", path],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        signatures = json.loads(answer.stdout)["signatures"] if answer.stdout.strip() else []
        return sorted({str(signature["type"]) for signature in signatures})
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return "cannot be searched for data: wipefs failed"


def _signature_in_words(kind: str) -> str:
    words = {
        "LVM2_member": "an LVM physical volume",
        "linux_raid_member": "a member of an MD RAID",
        "zfs_member": "a member of a ZFS pool",
        "crypto_LUKS": "an encrypted volume (LUKS)",
        "bcache": "a bcache device",
        "swap": "swap space",
        "gpt": "a partition table (gpt)",
        "PMBR": "a partition table (protective MBR)",
        "dos": "a partition table (dos)",
    }
    return f"bears {words.get(kind, f'the signature of {kind}')}"
