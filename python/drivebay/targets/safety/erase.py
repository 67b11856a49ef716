"""Erase commands of drives: NVMe Format and Sanitize, ATA secure erase.

Sources: NVM Express Base Specification 2.0 (Identify Controller: OACS bit 1, FNA bits 0 and 1,
SANICAP, NN; Identify Namespace: FLBAS, DPS; Sanitize Status log: SPROG, SSTAT); ATA/ATAPI Command
Set 4, security feature set, as hdparm(8) shows it. Sent by nvme-cli and hdparm.

Only this namespace may lose its data: a command that would also erase other namespaces is not used.
An erase that has begun cannot be stopped; a request to stop waits for its end.

Leaves out: cryptographic erase where a real one is offered, TCG Opal, drives behind USB and RAID
controllers, which have been bricked by it (nvme-cli issues 84, 600, 2677; the hdparm wiki).
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from drivebay.common import documents
from drivebay.targets.safety.blockdev import Device
from drivebay.targets.safety.in_use import SYS_BLOCK, read

ADMIN_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
PASSWORD = "drivebay"
"""Set for an ATA secure erase, which clears it; a drive that lost power in between still has it."""
FORMAT_S = 20.0
SANITIZE_S = 120.0
"""guess: how long these take; for the time shown only."""
ASK_S = 30.0
POLL_S = 0.5
COMMAND_MAX_MS = 4 * 3600 * 1000

Step = Callable[[float], None]


class EraseError(Exception):
    """An erase that was begun, or asked for, and did not work; the words say why."""


@dataclass(frozen=True)
class EraseMethod:
    """An erase command that the drive supports; `erase` returns when it has completed. It is given
    the drive's path at that time, as an erase before it may have changed the path."""

    name: str
    erase: Callable[[str, Step], None]


@dataclass(frozen=True)
class NotOffered:
    """An erase command that cannot be used here."""

    name: str
    reason: str


def bus_of(device: Device) -> str:
    """How the drive is commanded: "nvme", "sata", or "" for neither."""
    if device.name.startswith("nvme"):
        return "nvme"
    return "sata" if device.interface == "SATA" else ""


def erase_methods(device: Device) -> list[EraseMethod | NotOffered]:
    """The drive's erase commands, the strongest first."""
    bus = bus_of(device)
    if bus == "nvme":
        return list(_nvme_methods(device))
    return [_ata_method(device)] if bus == "sata" else []


def _nvme_methods(device: Device) -> Iterator[EraseMethod | NotOffered]:
    tool = program("nvme")
    methods = ("NVMe Format (user data erase)", "NVMe Sanitize (block erase)")
    if tool is None:
        for method in methods:
            yield NotOffered(method, "nvme is not installed: apt install nvme-cli")
        return
    try:
        controller = _json(tool, "id-ctrl", device.path, "--output-format=json")
        namespace = _json(tool, "id-ns", device.path, "--output-format=json")
        _wait_for_sanitize(tool, device.path, lambda _: None)
        able, whole = int(controller.get("oacs", 0)), int(controller.get("fna", 0))
        sanitizes = int(controller.get("sanicap", 0))
        keep = format_options(int(namespace["flbas"]), int(namespace.get("dps", 0)))
        others = _other_namespaces(tool, device, able, int(controller.get("nn", 0)))
    except (EraseError, KeyError, TypeError, ValueError) as problem:
        for method in methods:
            yield NotOffered(method, f"the drive cannot be asked: {problem}")
        return
    shared = f"it would erase other namespaces, too: {', '.join(others)}"
    if not able >> 1 & 1:
        yield NotOffered(methods[0], "the drive does not offer it (OACS)")
    elif others and whole & 0b11:
        yield NotOffered(methods[0], shared)
    else:

        def form(path: str, step: Step) -> None:
            more = ["--ses=1", "--force", f"--timeout={COMMAND_MAX_MS}"]
            _slowly([tool, "format", path, *keep, *more], FORMAT_S, step)

        yield EraseMethod(methods[0], form)
    if not sanitizes >> 1 & 1:
        yield NotOffered(methods[1], "the drive does not offer it (SANICAP)")
    elif others:
        yield NotOffered(methods[1], shared)
    else:

        def sanitize(path: str, step: Step) -> None:
            _slowly([tool, "sanitize", path, "--sanact=2"], ASK_S, lambda _: None)
            _wait_for_sanitize(tool, path, step)

        yield EraseMethod(methods[1], sanitize)


def format_options(flbas: int, dps: int) -> list[str]:
    """The options of nvme-format(1) that keep a namespace's LBA format, metadata and protection.

    Identify Namespace: FLBAS bits 3:0 and 6:5 are the format's index, bit 4 the metadata's place;
    DPS bits 2:0 are the type of protection information, bit 3 its place.

    >>> format_options(0b0110001, 0b1010)
    ['--lbaf=17', '--ms=1', '--pi=2', '--pil=1']
    """
    index = flbas & 0x0F | (flbas >> 5 & 0b11) << 4
    return [f"--lbaf={index}", f"--ms={flbas >> 4 & 1}", f"--pi={dps & 7}", f"--pil={dps >> 3 & 1}"]


def _other_namespaces(tool: str, device: Device, able: int, largest: int) -> list[str]:
    """Other namespaces of the same NVMe drive: those attached here by name, and by number those
    that are allocated and not attached, or attached to another controller.

    Raises
    ------
    EraseError
        If the drive may have others and does not list them.
    """
    own = re.match(r"nvme\d+", device.name)
    serial = read(SYS_BLOCK / device.name / "device/serial")
    here = [
        entry
        for entry in sorted(SYS_BLOCK.iterdir())
        if own
        and entry.name.startswith("nvme")
        and entry.name != device.name
        and not (entry / "partition").exists()
        and read(entry / "hidden") != "1"
        and read(entry / "device/serial") == serial
    ]
    if largest == 1:
        return [entry.name for entry in here]
    every = ["--all"] if able >> 3 & 1 else []  # OACS: Namespace Management
    listed = _json(tool, "list-ns", device.path, *every, "--output-format=json")["nsid_list"]
    numbers = {int(one["nsid"]) for one in listed}
    known = {read(entry / "nsid") for entry in here} | {read(SYS_BLOCK / device.name / "nsid")}
    if known == {""} and len(numbers) == 1:
        return []
    left = sorted(number for number in numbers if str(number) not in known)
    return [*(entry.name for entry in here), *(f"namespace {number}" for number in left)]


def _wait_for_sanitize(tool: str, path: str, step: Step) -> None:
    """Until no sanitize is under way, ours or one that a killed review had begun.

    Raises
    ------
    EraseError
        If the last one failed.
    """
    begun = time.monotonic()
    while True:
        done = _asked([tool, "sanitize-log", path, "--raw-binary"])
        if done.returncode != 0 or len(done.stdout) < 4:
            return  # a drive without the log cannot be at it
        progress, status = struct.unpack_from("<HH", done.stdout)
        if status & 0b111 == 3:
            raise EraseError("the drive says that the sanitize has failed")
        if status & 0b111 != 2:
            return
        step(max(progress / 65536, min(0.99, (time.monotonic() - begun) / SANITIZE_S)))
        time.sleep(POLL_S)


def _ata_method(device: Device) -> EraseMethod | NotOffered:
    method = "ATA secure erase"
    tool = program("hdparm")
    if tool is None:
        return NotOffered(method, "hdparm is not installed: apt install hdparm")
    try:
        said = _text(tool, "-I", device.path)
    except EraseError as problem:
        return NotOffered(method, f"the drive cannot be asked: {problem}")
    able, seconds = ata_security(said)
    if isinstance(able, str):
        return NotOffered(method, able)
    password = ["--user-master", "u"]

    def erase(path: str, step: Step) -> None:
        _text(tool, *password, "--security-set-pass", PASSWORD, path)
        try:
            _slowly([tool, *password, "--security-erase", PASSWORD, path], seconds, step)
        except EraseError:
            _asked([tool, *password, "--security-disable", PASSWORD, path])
            raise
        able, _ = ata_security(_text(tool, "-I", path))
        if isinstance(able, str):
            raise EraseError(f"after the erase: {able}")

    return EraseMethod(method, erase)


def ata_security(said: str) -> tuple[bool | str, float]:
    """What `hdparm -I` says of secure erase: True or what speaks against it, and its seconds."""
    _, found, section = said.partition("Security:")
    lines = [" ".join(line.split()) for line in section.splitlines()]
    minutes = re.search(r"(\d+)min for SECURITY ERASE", section)
    seconds = float(minutes[1]) * 60 if minutes else SANITIZE_S
    if not found or "supported" not in lines:
        return "the drive does not offer it", seconds
    if "frozen" in lines:
        return (
            "the firmware has frozen it; suspend the machine and wake it: rtcwake -m mem",
            seconds,
        )
    if "locked" in lines or "enabled" in lines:
        return (
            f"the drive has a password; if a purge was cut short, it is {PASSWORD!r}: hdparm "
            f"--security-disable {PASSWORD}",
            seconds,
        )
    return True, seconds


def program(name: str) -> str | None:
    """Where a program of the administrator is, None if it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{ADMIN_PATH}")


def _asked(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_S,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise EraseError(str(problem)) from None


def _text(*command: str) -> str:
    done = _asked(list(command))
    if done.returncode != 0:
        raise EraseError(_words(done.stderr + done.stdout, done.returncode))
    return done.stdout.decode(errors="replace")


def _json(*command: str) -> dict[str, Any]:
    try:
        table = documents.from_json(_text(*command), int_bits=128)
    except ValueError:
        raise EraseError(f"{' '.join(command[1:2])} gave no JSON") from None
    if not isinstance(table, dict):
        raise EraseError(f"{' '.join(command[1:2])} gave no JSON object")
    return table


def _slowly(command: list[str], expected_s: float, step: Step) -> None:
    """Run a command that must not be stopped; `step` may raise, but only once it has ended."""
    begun = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for drivebay
    )
    stop: BaseException | None = None
    while process.poll() is None:
        try:
            process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            try:
                step(min(0.99, (time.monotonic() - begun) / expected_s))
            except BaseException as asked:
                stop = asked
                process.wait()
    output, _ = process.communicate()
    if process.returncode != 0:
        raise EraseError(_words(output, process.returncode))
    if stop is not None:
        raise stop


def _words(output: bytes, code: int) -> str:
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[0] if lines else f"exit code {code}"
