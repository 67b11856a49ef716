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

import re
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drivebay.common import documents, programs
from drivebay.targets.safety.blockdev import Device
from drivebay.targets.safety.in_use import SYS_BLOCK, disks, read

# Password for an ATA secure erase, which clears it; a drive that lost power in between still has
# it.
PASSWORD = "drivebay"
FORMAT_S = 20.0
# guess: durations; only for the time shown.
SANITIZE_S = 120.0
ASK_S = 30.0
POLL_S = 0.5
COMMAND_MAX_MS = 4 * 3600 * 1000

Step = Callable[[float], None]


class EraseError(Exception):
    """An erase that could not be requested or did not work; the message has the reason."""


@dataclass(frozen=True)
class EraseMethod:
    """An erase command; `refused` is the reason why it cannot be used here, "" if it can. `erase`
    returns when it has completed; it is given the drive's path at that time, as an earlier erase
    may have changed the path.
    """

    name: str
    erase: Callable[[str, Step], None]
    refused: str = ""


def bus_of(device: Device) -> str:
    """Command set of the drive: "nvme", "sata", or "" for neither."""
    if device.name.startswith("nvme"):
        return "nvme"
    return "sata" if device.interface == "SATA" else ""


def erase_methods(device: Device) -> list[EraseMethod]:
    """Returns the drive's erase commands, the strongest first."""
    bus = bus_of(device)
    if bus == "nvme":
        return _nvme_methods(device)
    return [_ata_method(device)] if bus == "sata" else []


def _nvme_methods(device: Device) -> list[EraseMethod]:
    tool = programs.find("nvme") or ""
    keep: list[str] = []
    if not tool:
        formats = sanitizes = "nvme is not installed: apt install nvme-cli"
    else:
        try:
            formats, sanitizes, keep = _nvme_offers(tool, device)
        except (EraseError, KeyError, TypeError, ValueError) as problem:
            formats = sanitizes = f"the drive cannot be asked: {problem}"

    def form(path: str, step: Step) -> None:
        more = ["--ses=1", "--force", f"--timeout={COMMAND_MAX_MS}"]
        _slowly([tool, "format", path, *keep, *more], FORMAT_S, step)

    def sanitize(path: str, step: Step) -> None:
        _slowly([tool, "sanitize", path, "--sanact=2"], ASK_S, lambda _: None)
        _wait_for_sanitize(tool, path, step)

    return [
        EraseMethod("NVMe Format (user data erase)", form, formats),
        EraseMethod("NVMe Sanitize (block erase)", sanitize, sanitizes),
    ]


def _nvme_offers(tool: str, device: Device) -> tuple[str, str, list[str]]:
    """Reasons why Format and Sanitize cannot be used, "" if they can; and Format's options."""
    controller = _json(tool, "id-ctrl", device.path, "--output-format=json")
    namespace = _json(tool, "id-ns", device.path, "--output-format=json")
    _wait_for_sanitize(tool, device.path, lambda _: None)
    able, whole, sanitizes = (int(controller.get(key, 0)) for key in ("oacs", "fna", "sanicap"))
    keep = format_options(int(namespace["flbas"]), int(namespace.get("dps", 0)))
    others = _other_namespaces(tool, device, able, int(controller.get("nn", 0)))

    def refused(offered: int, field: str, *, strikes_all: bool) -> str:
        if not offered >> 1 & 1:
            return f"the drive does not offer it ({field})"
        shared = f"it would erase other namespaces, too: {', '.join(others)}"
        return shared if others and strikes_all else ""

    formats = refused(able, "OACS", strikes_all=bool(whole & 0b11))
    return formats, refused(sanitizes, "SANICAP", strikes_all=True), keep


def format_options(flbas: int, dps: int) -> list[str]:
    """Returns the options of nvme-format(1) that keep a namespace's LBA format, metadata and
    protection.

    Identify Namespace: FLBAS bits 3:0 and 6:5 are the format's index, bit 4 the metadata's place;
    DPS bits 2:0 are the type of protection information, bit 3 its place.

    >>> format_options(0b0110001, 0b1010)
    ['--lbaf=17', '--ms=1', '--pi=2', '--pil=1']
    """
    index = flbas & 0x0F | (flbas >> 5 & 0b11) << 4
    return [f"--lbaf={index}", f"--ms={flbas >> 4 & 1}", f"--pi={dps & 7}", f"--pil={dps >> 3 & 1}"]


def _other_namespaces(tool: str, device: Device, able: int, largest: int) -> list[str]:
    """Returns other namespaces of the same NVMe drive: those attached here by name, and by number
    those that are allocated and not attached, or attached to another controller. Raises
    EraseError if the drive may have others and does not list them.
    """
    serial = read(SYS_BLOCK / device.name / "device/serial")
    here = [
        name
        for name in disks()
        if device.name.startswith("nvme")
        and name.startswith("nvme")
        and name != device.name
        and read(SYS_BLOCK / name / "device/serial") == serial
    ]
    if largest == 1:
        return here
    every = ["--all"] if able >> 3 & 1 else []  # OACS: Namespace Management
    listed = _json(tool, "list-ns", device.path, *every, "--output-format=json")["nsid_list"]
    numbers = {int(one["nsid"]) for one in listed}
    known = {read(SYS_BLOCK / name / "nsid") for name in (*here, device.name)}
    if known == {""} and len(numbers) == 1:
        return []
    left = sorted(number for number in numbers if str(number) not in known)
    return [*here, *(f"namespace {number}" for number in left)]


def _wait_for_sanitize(tool: str, path: str, step: Step) -> None:
    """Waits until no sanitize is in progress, neither ours nor one started by a killed review.
    Raises EraseError if the last one failed.
    """
    begun = time.monotonic()
    while True:
        done = _asked([tool, "sanitize-log", path, "--raw-binary"])
        if done.returncode != 0 or len(done.stdout) < 4:
            return  # a drive without the log cannot be sanitizing
        progress, status = struct.unpack_from("<HH", done.stdout)
        if status & 0b111 == 3:
            raise EraseError("the drive says that the sanitize has failed")
        if status & 0b111 != 2:
            return
        step(max(progress / 65536, min(0.99, (time.monotonic() - begun) / SANITIZE_S)))
        time.sleep(POLL_S)


def _ata_method(device: Device) -> EraseMethod:
    tool, password = programs.find("hdparm") or "", ["--user-master", "u"]
    seconds, refused = SANITIZE_S, ""
    if not tool:
        refused = "hdparm is not installed: apt install hdparm"
    else:
        try:
            refused, seconds = ata_security(_text(tool, "-I", device.path))
        except EraseError as problem:
            refused = f"the drive cannot be asked: {problem}"

    def erase(path: str, step: Step) -> None:
        _text(tool, *password, "--security-set-pass", PASSWORD, path)
        try:
            _slowly([tool, *password, "--security-erase", PASSWORD, path], seconds, step)
        except EraseError:
            _asked([tool, *password, "--security-disable", PASSWORD, path])
            raise
        if left := ata_security(_text(tool, "-I", path))[0]:
            raise EraseError(f"after the erase: {left}")

    return EraseMethod("ATA secure erase", erase, refused)


def ata_security(said: str) -> tuple[str, float]:
    """Parses the secure erase section of `hdparm -I`: the reason against it, "" if there is none,
    and its seconds.
    """
    _, found, section = said.partition("Security:")
    lines = [" ".join(line.split()) for line in section.splitlines()]
    minutes = re.search(r"(\d+)min for SECURITY ERASE", section)
    refused = ""
    if not found or "supported" not in lines:
        refused = "the drive does not offer it"
    elif "frozen" in lines:
        refused = "the firmware has frozen it; suspend the machine and wake it: rtcwake -m mem"
    elif "locked" in lines or "enabled" in lines:
        refused = (
            f"the drive has a password; if a purge was cut short, it is {PASSWORD!r}: hdparm "
            f"--security-disable {PASSWORD}"
        )
    return refused, float(minutes[1]) * 60 if minutes else SANITIZE_S


def _asked(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return programs.ask(command, timeout_s=ASK_S)
    except programs.NoAnswer as problem:
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
    """Runs a command that must not be stopped; an exception of `step` is raised only after the
    command has ended.
    """
    begun = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C reaches only drivebay
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
