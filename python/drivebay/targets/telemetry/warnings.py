"""Validity warnings: reasons why a figure of a real drive is suspect, in sentences for the result.

Pure functions of the recorded data. Each sentence names the numbers on which it is based. The
limits are ours: those marked `guess:` are set so that a clean run on an idle machine gives no
warning. Prompted by reports of users of other tools: KDiskMark issues 107, 136, 137, 154 (page
cache, compression, encryption).

Leaves out: judging. A warning does not void a figure; a reader decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drivebay.common.units import si_bytes

# Factor by which a rate may exceed the link's: a second's end is known to 1 ms or so.
LINK_SLACK = 1.02
# guess: if less than this share of the bytes reached the device, there is a cache.
MISSING_SHARE = 0.9
# guess: allowed other I/O as a share of our own; a file's file system writes its own records.
OTHERS_SHARE = {"block": 0.02, "file": 0.10}
OTHERS_BYTES = 16 * 2**20
# guess: of all processors together, used by anything but fio and drivebay.
OTHERS_CPU_PERCENT = 10.0
# Share of one core from which the host limits the rate, not the drive.
FIO_CPU_PERCENT = 95.0


@dataclass(frozen=True)
class Ran:
    """One completed phase: bytes by fio's count and by the kernel's of the device below."""

    label: str
    read_bytes: int
    write_bytes: int
    highest_bytes_per_s: float
    device_read_bytes: int | None
    device_write_bytes: int | None


def of_settings(
    host: dict[str, Any], link: dict[str, Any] | None, identity: dict[str, Any]
) -> Iterator[str]:
    """Yields warnings known before anything runs."""
    storage = identity if identity.get("kind") == "block" else identity.get("storage", {})
    if host.get("virtual_machine"):
        yield (
            f"this is a virtual machine ({host['virtual_machine']}): its host's storage, cache and "
            "load are measured, too"
        )
    if host.get("cpu_governor") not in (None, "performance"):
        yield (
            f"the CPU governor is {host['cpu_governor']}: latency at low queue depths has the "
            "clock's rise in it"
        )
    if link is not None and link["below_possible"]:
        yield (
            f"the drive's {link['kind']} link runs at {link['now']}, and could at "
            f"{link['possible']}"
        )
    system = identity.get("filesystem")
    if system in ("zfs", "bcachefs") or "compress" in str(identity.get("mount_options")):
        yield f"the file system ({system}) may compress what is written"
    if system in ("overlay", "tmpfs", "nfs", "nfs4", "cifs", "9p", "fuse"):
        yield f"the file system is {system}: no drive alone is measured"
    if mapped := storage.get("device_mapper"):
        what = "encrypted (dm-crypt)" if mapped == "CRYPT" else f"behind device-mapper ({mapped})"
        yield f"the storage is {what}: its CPU time is in every figure"
    if storage.get("backing_file_past_page_cache") is False:
        yield "the loop device does not bypass the page cache: memory is measured with the drive"
    if storage.get("rotational"):
        yield "the kernel takes the storage for a rotating disk"


def of_phase(ran: Ran, kind: str, link: dict[str, Any] | None) -> Iterator[str]:
    """Yields warnings about one phase."""
    if link is not None and ran.highest_bytes_per_s > link["bytes_per_s"] * LINK_SLACK:
        yield (
            f"{ran.label}: {si_bytes(ran.highest_bytes_per_s)}/s is more than the {link['kind']} "
            f"link carries ({si_bytes(link['bytes_per_s'])}/s): a cache or a compression before it"
        )
    for way, ours, device in (
        ("read", ran.read_bytes, ran.device_read_bytes),
        ("written", ran.write_bytes, ran.device_write_bytes),
    ):
        if device is None:
            continue
        more = device - ours
        if ours > OTHERS_BYTES and device < ours * MISSING_SHARE:
            yield (
                f"{ran.label}: {si_bytes(ours)} were {way}, but only {si_bytes(device)} reached "
                "the device: page cache, compression, or holes in the file"
            )
        elif more > OTHERS_BYTES and more > (ran.read_bytes + ran.write_bytes) * OTHERS_SHARE[kind]:
            yield f"{ran.label}: {si_bytes(more)} of other I/O were {way} on the device meanwhile"


def of_telemetry(
    cpu_percent: float | None,
    own_percent: float | None,
    fio_percent: float | None,
    cpus: int,
    telemetry: dict[str, Any],
    throttled: float | None,
) -> Iterator[str]:
    """Yields warnings about the whole test. `cpu_percent` is of all processors, the two others of
    one.
    """
    ours = ((own_percent or 0.0) + (fio_percent or 0.0)) / max(1, cpus)
    if cpu_percent is not None and cpu_percent - ours > OTHERS_CPU_PERCENT:
        yield f"other programs used {cpu_percent - ours:.0f} % of the host's processors"
    if fio_percent is not None and fio_percent > FIO_CPU_PERCENT:
        yield (
            f"fio used {fio_percent:.0f} % of a core: the host limits the rate, not the drive alone"
        )
    if telemetry["missed_seconds"]:
        yield f"{telemetry['missed_seconds']} seconds have no telemetry: the host was held up"
    if refused := telemetry.get("meter_lines_refused"):
        yield f"{refused:,} lines of the meter's file cannot be read: the power lacks them"
    if throttled:
        yield "the drive slowed itself down for heat (its own counters)"
