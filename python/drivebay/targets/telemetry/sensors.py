"""Sensors that can be read once a second without a program: temperature, throttling, CPU, power.

Sources: Linux's sysfs ABI (hwmon, cpufreq, thermal_throttle, block stat) and proc_stat(5); for NVMe
throttling the SMART log page, NVM Express Base Specification 2.0 figure 207, fetched by the admin
passthrough ioctl of linux/nvme_ioctl.h, as a process of nvme-cli per second would cost more than
all the rest. Each source is searched for once and then read through an open descriptor.

Leaves out: sensors behind drivers that are not loaded (SATA temperature needs drivetemp), which are
named as absent; a machine's other drives.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import math
import os
import re
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from drivebay.common.errors import UserError
from drivebay.targets.safety.in_use import SYS_BLOCK, read

HWMON = Path("/sys/class/hwmon")
CPU = Path("/sys/devices/system/cpu")
PROC_STAT = Path("/proc/stat")
BLOCK, NUMBERS = Path("/sys/block"), Path("/sys/dev/block")
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
SMART_LOG_BYTES = 512
_ADMIN_COMMAND = 0xC0484E41  # _IOWR('N', 0x41, struct nvme_passthru_cmd of 72 bytes)
_GET_LOG_PAGE = 0x02
# Limits of valid temperatures; drives report values outside for other meanings: 0 K (NVMe: not
# reported), -128 (ATA: not valid), 255 (SCSI: not available); guess: no drive works there.
CELSIUS_MIN, CELSIUS_MAX = -100.0, 200.0
# Names in the order of the SMART log, from byte 216 on.
THROTTLING = (
    "throttle_light_count",
    "throttle_heavy_count",
    "throttle_light_s",
    "throttle_heavy_s",
)
# CPU frequencies read per second at most; guess: each may have to wake a core.
POLICIES_MAX = 16


@dataclass(frozen=True)
class Absent:
    """An absent source, and the reason, as far as it is known."""

    source: str
    why: str


@dataclass(frozen=True)
class Sensor:
    """One or more figures that are read together; `read` returns {} if they cannot be read."""

    source: str
    read: Callable[[], dict[str, float]]
    close: Callable[[], None]


class Attribute:
    """A file of sysfs or /proc, kept open."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def text(self, length: int = 4096) -> bytes:
        """Reads the present content."""
        return os.pread(self._fd, length, 0)

    def close(self) -> None:
        """Closes the descriptor."""
        os.close(self._fd)


def is_temperature(celsius: float) -> bool:
    """True if a drive's value is a temperature, not a code for "not reported".

    >>> is_temperature(34), is_temperature(0 - 273.15), is_temperature(255)
    (True, False, False)
    """
    return CELSIUS_MIN < celsius < CELSIUS_MAX


def _of_files(
    source: str,
    name: str,
    paths: Iterable[Path],
    scale: float,
    together: Callable[[Iterable[float]], float] = max,
    is_known: Callable[[float], bool] = math.isfinite,
) -> Sensor | None:
    """Returns the numbers in several files as one figure; None if none can be opened."""
    attributes: list[Attribute] = []
    for path in paths:
        with contextlib.suppress(OSError):
            attributes.append(Attribute(path))

    def now() -> dict[str, float]:
        value = together(float(one.text()) for one in attributes) * scale
        return {name: value} if is_known(value) else {}

    def close() -> None:
        for attribute in attributes:
            attribute.close()

    return Sensor(source, now, close) if attributes else None


def of_drive(name: str) -> tuple[list[Sensor], list[Absent]]:
    """Sensors of the drive with this kernel name ("nvme0n1", "sda"): temperature and throttling."""
    sensors: list[Sensor] = []
    absent: list[Absent] = []
    if warmth := _drive_temperature(name):
        sensors.append(warmth)
    else:
        hint = "; try: modprobe drivetemp" if name.startswith("sd") else ""
        absent.append(Absent("drive temperature", f"no hwmon sensor belongs to {name}{hint}"))
    why = f"{name} is no NVMe drive, which alone count it"
    if name.startswith("nvme"):
        try:
            return [*sensors, _nvme_throttling(f"/dev/{name}")], absent
        except PermissionError:
            why = "asking an NVMe drive needs root"
        except OSError as problem:
            why = f"its SMART log cannot be read: {problem}"
    return sensors, [*absent, Absent("drive throttling", why)]


def _drive_temperature(name: str) -> Sensor | None:
    folder = SYS_BLOCK / name
    for pattern in ("device/hwmon*", "device/hwmon/hwmon*", "device/device/hwmon/hwmon*"):
        for path in sorted(folder.glob(f"{pattern}/temp1_input")):
            source, figure = f"drive temperature ({path})", "drive.temperature_c"
            return _of_files(source, figure, [path], 1e-3, is_known=is_temperature)
    return None


def nvme_smart_log(fd: int) -> bytes:
    """Reads the SMART / Health Information log page of an NVMe device, 512 bytes. Raises OSError if
    the device refuses, or is not an NVMe device.
    """
    page = ctypes.create_string_buffer(SMART_LOG_BYTES)
    dwords = SMART_LOG_BYTES // 4 - 1
    command = bytearray(72)
    struct.pack_into("<BxxxI", command, 0, _GET_LOG_PAGE, 0xFFFFFFFF)
    # At 16: address of metadata, address of data, their lengths; at 40: cdw10.
    struct.pack_into("<QQII", command, 16, 0, ctypes.addressof(page), 0, SMART_LOG_BYTES)
    struct.pack_into("<I", command, 40, 0x02 | dwords << 16)
    status = fcntl.ioctl(fd, _ADMIN_COMMAND, command)
    if status != 0:
        raise OSError(5, f"the drive answers with status {status:#x}")
    return page.raw


def decode_smart_log(page: bytes) -> dict[str, float]:
    """Parses temperature and throttling in a SMART log page.

    Times are seconds, transitions counts, since the drive was made; 0 where it does not count. A
    temperature that it does not report is left out.
    """
    celsius = int.from_bytes(page[1:3], "little") - 273.0
    warmth = {"drive.composite_temperature_c": celsius} if is_temperature(celsius) else {}
    names = ("warning_temperature_min", "critical_temperature_min", *THROTTLING)
    numbers = (*struct.unpack_from("<II", page, 192), *struct.unpack_from("<IIII", page, 216))
    counted = zip(names, numbers, strict=True)
    return warmth | {f"drive.{name}": float(number) for name, number in counted}


def _nvme_throttling(path: str) -> Sensor:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    before: dict[str, float] = {}

    def now() -> dict[str, float]:
        values = decode_smart_log(nvme_smart_log(fd))
        if before:
            grew = [values[f"drive.{one}"] > before[f"drive.{one}"] for one in THROTTLING]
            stage = 2.0 if grew[1] or grew[3] else 1.0 if grew[0] or grew[2] else 0.0
            values["drive.throttle_stage"] = stage
        before.update(values)
        return values

    try:
        now()
    except BaseException:
        os.close(fd)
        raise
    return Sensor("drive throttling (NVMe SMART log)", now, lambda: os.close(fd))


def of_host() -> tuple[list[Sensor], list[Absent]]:
    """Sensors of this machine: CPU time, interrupts, frequency, temperature, thermal limits."""
    sensors: list[Sensor] = []
    absent: list[Absent] = []
    try:
        sensors.append(_cpu_time())
    except OSError as problem:
        absent.append(Absent("host CPU and interrupts", str(problem)))
    clocks = sorted(CPU.glob("cpufreq/policy*/scaling_cur_freq"))[:POLICIES_MAX]
    limits = sorted(CPU.glob("cpu[0-9]*/thermal_throttle/package_throttle_count"))[:POLICIES_MAX]
    several = (
        ("host CPU frequency", "host.cpu_mhz", clocks, 1e-3, max),
        ("host CPU temperature", "host.cpu_temperature_c", _cpu_temperatures(), 1e-3, max),
        ("host thermal limits", "host.cpu_throttle_count", limits, 1.0, sum),
    )
    for source, name, paths, scale, together in several:
        if sensor := _of_files(source, name, paths, scale, together):
            sensors.append(sensor)
        else:
            absent.append(Absent(source, "this kernel or virtual machine does not show it"))
    return sensors, absent


def _cpu_temperatures() -> list[Path]:
    names = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
    return [
        hwmon / "temp1_input" for hwmon in sorted(HWMON.glob("*")) if read(hwmon / "name") in names
    ]


def _cpu_time() -> Sensor:
    """Busy share of all processors and interrupts, between two readings."""
    attribute = Attribute(PROC_STAT)
    seen: list[tuple[float, float, float, float]] = []

    def now() -> dict[str, float]:
        text = attribute.text(2**20)
        ticks = [int(word) for word in text[: text.index(b"\n")].split()[1:9]]
        total, idle = float(sum(ticks)), float(ticks[3] + ticks[4])
        at = text.index(b"\nintr ") + 6
        interrupts = float(text[at : text.index(b" ", at)])
        seen.append((time.monotonic(), total, idle, interrupts))
        if len(seen) < 2:
            return {}
        before = seen.pop(0)
        took_s = max(1e-3, seen[0][0] - before[0])
        spent = max(1.0, total - before[1])
        return {
            "host.cpu_percent": 100 * (1 - (idle - before[2]) / spent),
            "host.interrupts_per_s": (interrupts - before[3]) / took_s,
        }

    now()
    return Sensor("host CPU and interrupts (/proc/stat)", now, attribute.close)


def of_power(name: str) -> Sensor:
    """Finds a power sensor of sysfs hwmon by its name ("ina226", "hwmon3") or its folder's path.
    Raises UserError if none has that name, or several.
    """
    sensors = power_sensors()
    found = [path for path in sensors if name in (read(path.parent / "name"), path.parent.name)]
    found += [path for path in sensors if name in (str(path), str(path.parent))]
    sensor = None
    if len(found) == 1:
        sensor = _of_files(f"drive power ({found[0]})", "drive.power_w", found, 1e-6)
    if sensor is None:
        known = ", ".join(f"{read(path.parent / 'name')} ({path.parent.name})" for path in sensors)
        count = f"{len(found)} power sensors are" if found else "no power sensor is"
        raise UserError(
            f"--power: {count} called {name!r}; this machine has {known or 'none'}",
            "name one by its hwmonN, or give a CSV file with the columns time and power_w",
        )
    return sensor


def power_sensors() -> list[Path]:
    """The power readings of hwmon, in microwatts, of INA2xx and the like."""
    return sorted(HWMON.glob("hwmon*/power[0-9]*_input"))


def io_bytes(number: int) -> tuple[int, int] | None:
    """Bytes read and written by the device with this number since boot, as the kernel counts them;
    None where it does not count (network file systems).

    On many kernels an NVMe namespace with native multipath (over TCP always) counts nothing itself
    (atop's pull request 157, fio's 549): then the counts of its paths are used, nvme0c1n2 of
    nvme0n2.
    """
    device = NUMBERS / f"{os.major(number)}:{os.minor(number)}"
    own = _counted(device)
    if own == (0, 0) and (name := re.fullmatch(r"(nvme\d+)(n\d+)", device.resolve().name)):
        paths = sorted(BLOCK.glob(f"{name[1]}c*{name[2]}"))
        counts = [found for path in paths if (found := _counted(path)) is not None]
        own = (sum(reads for reads, _ in counts), sum(writes for _, writes in counts))
    return own


def _counted(device: Path) -> tuple[int, int] | None:
    fields = read(device / "stat").split()
    return (int(fields[2]) * 512, int(fields[6]) * 512) if len(fields) > 6 else None


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used, in seconds; 0 if it is gone."""
    fields = read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS if len(fields) > 12 else 0.0
