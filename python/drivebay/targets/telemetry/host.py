"""The host machine of a real review: facts that may explain, or distort, a figure.

Sources: Linux's sysfs ABI (cpufreq, iommu, PCI links), proc(5), systemd's container interface
(/run/systemd/container). Facts that this machine does not show are None.

Leaves out: firmware settings (C-states of the BIOS, PCIe bifurcation) that Linux cannot see.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from drivebay.targets.safety.in_use import PROC, SYS_BLOCK, read
from drivebay.targets.safety.storage import chosen

SYS = Path("/sys")
_LANE_BYTES_PER_S = {
    # Payload per lane after line coding: 8b/10b to 5 GT/s, 128b/130b to 32 GT/s, then FLITs.
    2.5: 250e6,
    5.0: 500e6,
    8.0: 8e9 * 128 / 130 / 8,
    16.0: 16e9 * 128 / 130 / 8,
    32.0: 32e9 * 128 / 130 / 8,
    64.0: 64e9 * 242 / 256 / 8,
}
_APST = "module/nvme_core/parameters/default_ps_max_latency_us"
SATA_BYTES_PER_S = {"1.5 Gbps": 150e6, "3.0 Gbps": 300e6, "6.0 Gbps": 600e6}


def facts() -> dict[str, Any]:
    """Returns the present facts of this machine; JSON values."""
    cpu0 = SYS / "devices/system/cpu/cpu0/cpufreq"
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "kernel_options": _telling_options(),
        "cpu_governor": read(cpu0 / "scaling_governor") or None,
        "cpu_energy_preference": read(cpu0 / "energy_performance_preference") or None,
        "cpus_usable": len(os.sched_getaffinity(0)),
        "iommu": _iommu(),
        "virtual_machine": _virtual_machine(),
        "container": _container(),
        "pcie_aspm_policy": chosen(read(SYS / "module/pcie_aspm/parameters/policy")),
        "nvme_power_latency_max_us": read(SYS / _APST) or None,
        "load_1min": os.getloadavg()[0],
    }


def _telling_options() -> list[str]:
    """Returns options of the kernel's command line that affect measurements."""
    keys = ["mitigations", "iommu", "intel_iommu", "amd_iommu", "isolcpus", "nohz_full", "idle"]
    keys += ["pcie_aspm", "processor.max_cstate", "intel_idle.max_cstate", "cpuidle.off"]
    words = read(PROC / "cmdline").split()
    return [word for word in words if word.partition("=")[0] in keys or "nvme" in word]


def _iommu() -> str | None:
    units = sorted(entry.name for entry in SYS.glob("class/iommu/*"))
    if not units:
        return "off" if (SYS / "class/iommu").exists() else None
    return f"on ({', '.join(units[:4])})"


def _virtual_machine() -> str | None:
    """Hypervisor on which this machine runs; None on bare metal."""
    flags = read(PROC / "cpuinfo")[:20_000]
    names = [read(SYS / "hypervisor/type")]
    names += [read(SYS / f"class/dmi/id/{name}") for name in ("sys_vendor", "product_name")]
    known = " ".join(name for name in names if name)
    if re.search(r"^flags\s*:.*\bhypervisor\b", flags, re.MULTILINE):
        return known or "unknown hypervisor"
    return known if re.search(r"QEMU|KVM|VMware|VirtualBox|Xen", known) else None


def _container() -> str | None:
    for path, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if Path(path).exists():
            return name
    return read(Path("/run/systemd/container")) or None


def link(name: str) -> dict[str, Any] | None:
    """Link of the drive with this kernel name: speeds and their maximum data rates.

    Returns
    -------
    {"kind", "now", "possible", "bytes_per_s", "bytes_per_s_possible", "below_possible"}; None where
    no link is known (virtual devices). `bytes_per_s` counts line coding, not packets' headers.
    """
    folder = (SYS_BLOCK / name).resolve()
    for above in (folder, *folder.parents):
        if (above / "current_link_speed").exists():
            return _pcie(above) if "/nvme" in str(folder) else _sata(folder)
        if above.name == "devices":
            break
    return _sata(folder)


def _pcie(pci: Path) -> dict[str, Any] | None:
    def side(which: str) -> tuple[float, int] | None:
        speed = re.match(r"[\d.]+", read(pci / f"{which}_link_speed"))
        width = read(pci / f"{which}_link_width")
        return (float(speed[0]), int(width)) if speed and width.isdigit() else None

    now, drive = side("current"), side("max")
    if now is None or drive is None or now[0] not in _LANE_BYTES_PER_S:
        return None
    rate = _LANE_BYTES_PER_S[now[0]] * now[1]
    possible = _LANE_BYTES_PER_S.get(drive[0], _LANE_BYTES_PER_S[now[0]]) * drive[1]
    return {
        "kind": "PCIe",
        "now": f"{now[0]:g} GT/s x{now[1]}",
        "possible": f"{drive[0]:g} GT/s x{drive[1]}",
        "bytes_per_s": rate,
        "bytes_per_s_possible": possible,
        "below_possible": now[0] < drive[0] or now[1] < drive[1],
    }


def _sata(folder: Path) -> dict[str, Any] | None:
    port = re.search(r"/ata(\d+)/", f"{folder}/")
    if port is None:
        return None
    speeds = SYS / f"class/ata_link/link{port[1]}"
    now, limit = read(speeds / "sata_spd"), read(speeds / "hw_sata_spd_limit")
    if now not in SATA_BYTES_PER_S:
        return None
    possible = SATA_BYTES_PER_S.get(limit, SATA_BYTES_PER_S[now])
    return {
        "kind": "SATA",
        "now": now,
        "possible": limit or now,
        "bytes_per_s": SATA_BYTES_PER_S[now],
        "bytes_per_s_possible": possible,
        "below_possible": SATA_BYTES_PER_S[now] < possible,
    }


def no_sleep(name: str) -> list[str]:
    """Settings of this machine that keep the drive with this kernel name, or its link, from
    sleeping, in sentences; empty where none is known.

    Sources: Linux's sysfs ABI (pm_qos_latency_tolerance_us, link_power_management_policy), and
    kernel-parameters.rst (nvme_core.default_ps_max_latency_us, pcie_aspm.policy).
    """
    folder = (SYS_BLOCK / name).resolve()
    if "/nvme" in f"{folder}/":
        key = "pm_qos_latency_tolerance_us"
        limits = [read(above / "power" / key) for above in (folder, *folder.parents)]
        allowed = next((limit for limit in limits if limit), "")
        if not allowed:
            key = Path(_APST).name
            allowed = read(SYS / _APST)
        drive = f"the drive may not sleep: APST is off ({key} is 0)" if allowed == "0" else ""
        policy = chosen(read(SYS / "module/pcie_aspm/parameters/policy"))
        link = "its link may not sleep: the policy of ASPM is performance"
        return [words for words in (drive, link if policy == "performance" else "") if words]
    port = re.search(r"/(host\d+)/", f"{folder}/")
    key = "link_power_management_policy"
    policy = read(SYS / "class/scsi_host" / port[1] / key) if port else ""
    return [f"its link may not sleep: {key} is {policy}"] if policy == "max_performance" else []
