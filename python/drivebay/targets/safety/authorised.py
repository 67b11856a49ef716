"""Permissions of a target's owner to overwrite it, kept with the result before the first write: a
line in authorised.jsonl, and the data to restore partition tables and signatures.

Sources: wipefs(8), whose --backup keeps each signature's bytes in the same way; UEFI Specification
5.3, by which a GUID partition table lies within the first and the last MiB.

Leaves out: the data between; a restored signature is useful only until that data is overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.common.files import system_errors
from drivebay.targets.safety.blockdev import Device
from drivebay.targets.safety.libblkid import Signature
from drivebay.targets.safety.marks import owned

NAME = "authorised.jsonl"
SAVED = "saved"
END_BYTES = 2**20
SESSIONS_MAX = 10_000


@dataclass(frozen=True)
class Record:
    """Storage of permissions in a folder; `resumes` is True if a run that resumes the folder also
    resumes its targets, as for a review's result.
    """

    folder: Path
    resumes: bool

    @property
    def sessions(self) -> frozenset[str]:
        """Returns the sessions that may be resumed."""
        if not self.resumes:
            return frozenset()
        try:
            lines = (self.folder / NAME).read_bytes().splitlines()[-SESSIONS_MAX:]
        except OSError:
            return frozenset()
        return frozenset(found for line in lines if (found := _session(line)))

    def keep(
        self,
        session: str,
        facts: Mapping[str, Any],
        *,
        device: Device | None,
        fd: int,
        signatures: Sequence[Signature],
    ) -> None:
        """Records that a target is claimed, with these facts, and saves the data to restore the
        tables and signatures of a device; `fd` is the target, open. Raises EnvironmentProblem if
        that cannot be stored: then nothing may be written.
        """
        # A result may be written by anyone with access to it; records without a result go to a
        # folder that only we own.
        place = contextlib.nullcontext(self.folder) if self.resumes else owned(self.folder)
        with system_errors(
            f"{self.folder / NAME}: what was authorised cannot be kept",
            f"nothing was written; make {self.folder} writable, or choose another folder",
        ):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with place as folder:
                saved = None
                if device is not None and signatures:
                    saved = _save(folder / SAVED, device, fd, signatures)
                line = {
                    "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                    **facts,
                    "signatures": [f"{one.kind} at byte {one.place}" for one in signatures],
                    "saved": saved and f"{SAVED}/{saved}",
                    "session": session,
                }
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
                with open(os.open(folder / NAME, flags | os.O_CLOEXEC, 0o600), "ab") as file:
                    file.write((json.dumps(line) + "\n").encode())
                    file.flush()
                    os.fsync(file.fileno())


def _session(line: bytes) -> str | None:
    try:
        found = documents.from_json(line)
    except ValueError:
        return None
    session = found.get("session") if isinstance(found, dict) else None
    return session if isinstance(session, str) else None


def _save(base: Path, device: Device, fd: int, signatures: Sequence[Signature]) -> str:
    """Creates a folder with both ends of the device, the bytes of each signature, and the commands
    that write them back; returns its name.
    """
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", device.serial).strip("-.")[-60:] or device.name
    folder = _new_folder(base, slug)
    last = max(0, device.capacity_bytes - END_BYTES)
    parts = {"first.bin": (0, END_BYTES), "last.bin": (last, device.capacity_bytes - last)} | {
        f"{one.place:#x}-{re.sub('[^A-Za-z0-9_]', '', one.kind)}.bin": (one.place, one.size)
        for one in signatures
        if one.size
    }
    commands = []
    for name, (at, length) in parts.items():
        with (folder / name).open("xb") as file:
            file.write(os.pread(fd, length, at))
            file.flush()
            os.fsync(file.fileno())
        commands.append(
            f"dd if={name} of={shlex.quote(device.path)} "
            f"bs=64K oflag=seek_bytes seek={at} conv=notrunc,fsync"
        )
    named = json.dumps({"serial": device.serial, "model": device.model})
    text = [
        f"# What this device bore, of {device.capacity_bytes} bytes: {named}",
        "# Names of devices change: make sure that it is that drive. Then, here, as root:",
        *commands,
        f"blockdev --rereadpt {shlex.quote(device.path)}",
    ]
    (folder / "restore.txt").write_text("\n".join(text) + "\n")
    return folder.name


def _new_folder(base: Path, slug: str) -> Path:
    if base.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "it is a link")
    number = 1
    while True:
        folder = base / f"{slug}-{number}"
        try:
            folder.mkdir(parents=True, mode=0o700)
            return folder
        except FileExistsError:
            number += 1
