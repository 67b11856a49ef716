"""Validity warnings: each suspect condition is said with its numbers, and a clean run says nothing.

The host's facts come from sysfs laid out as Linux does; SMART from programs that print the fields
that nvme-cli 2.3 and smartctl 7.3 print (made after their documentation, not recorded).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loops import loop, needs_root, run, sparse
from real_files import GIB, MIB, a_test, file, keep_the_disk_free, load, results

from drivebay.common import programs
from drivebay.definitions.suites import Prepare
from drivebay.targets.base import Progress
from drivebay.targets.fio.target import FioTarget
from drivebay.targets.safety import in_use
from drivebay.targets.telemetry import host, smart, warnings
from drivebay.targets.telemetry.warnings import Ran

__all__ = ["file", "keep_the_disk_free"]

CLEAN: dict[str, Any] = {"virtual_machine": None, "cpu_governor": "performance"}
DRIVE: dict[str, Any] = {"kind": "block", "device_mapper": None, "rotational": False}
LINK: dict[str, Any] = {
    "kind": "PCIe",
    "now": "8 GT/s x4",
    "possible": "8 GT/s x4",
    "bytes_per_s": 3.94e9,
    "below_possible": False,
}
RAN = Ran("qd4", 0, 10**9, 2e9, 0, 10**9)


def test_a_clean_run_has_no_warnings() -> None:
    assert list(warnings.of_settings(CLEAN, LINK, DRIVE)) == []
    assert list(warnings.of_phase(RAN, "block", LINK)) == []
    quiet = {"missed_seconds": 0}
    assert list(warnings.of_telemetry(30.0, 1.0, 50.0, 2, quiet, 0.0)) == []
    assert list(warnings.of_telemetry(None, None, None, 2, quiet, None)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host": {"virtual_machine": "KVM"}}, "virtual machine (KVM)"),
        ({"host": {"cpu_governor": "powersave"}}, "governor is powersave"),
        ({"link": {"below_possible": True, "now": "2.5 GT/s x1"}}, "at 2.5 GT/s x1, and could at"),
        ({"drive": {"device_mapper": "CRYPT"}}, "encrypted (dm-crypt)"),
        ({"drive": {"device_mapper": "LVM"}}, "behind device-mapper (LVM)"),
        ({"drive": {"backing_file_past_page_cache": False}}, "does not bypass the page cache"),
        ({"drive": {"rotational": True}}, "rotating disk"),
        ({"drive": {"kind": "file", "filesystem": "zfs"}}, "zfs) may compress"),
        (
            {
                "drive": {
                    "kind": "file",
                    "filesystem": "btrfs",
                    "mount_options": "rw,compress=zstd:3",
                }
            },
            "btrfs) may compress",
        ),
        ({"drive": {"kind": "file", "filesystem": "overlay"}}, "file system is overlay"),
    ],
)
def test_settings(change: dict[str, dict[str, Any]], words: str) -> None:
    said = list(
        warnings.of_settings(
            CLEAN | change.get("host", {}),
            LINK | change.get("link", {}),
            DRIVE | change.get("drive", {}),
        )
    )
    assert len(said) == 1 and words in said[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"highest_bytes_per_s": 4.1e9}, "4.1 GB/s is more than the PCIe link carries (3.9 GB/s)"),
        (
            {"device_write_bytes": 10**8},
            "1.0 GB were written, but only 100.0 MB reached the device",
        ),
        ({"device_read_bytes": 10**8}, "100.0 MB of other I/O were read"),
        ({"device_write_bytes": 11 * 10**8}, "100.0 MB of other I/O were written"),
    ],
)
def test_phases(change: dict[str, Any], words: str) -> None:
    said = list(warnings.of_phase(replace(RAN, **change), "block", LINK))
    assert len(said) == 1 and words in said[0] and said[0].startswith("qd4: ")
    if "other" in words:
        assert list(warnings.of_phase(replace(RAN, **change), "file", LINK)) == []
    unknown = replace(RAN, **change)
    unknown = replace(unknown, device_read_bytes=None, device_write_bytes=None)
    assert len(list(warnings.of_phase(unknown, "block", None))) == 0, "unknown is not suspect"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((60.0, 1.0, 79.0, 2, {"missed_seconds": 0}, None), "other programs used 20 %"),
        ((50.0, 0.0, 99.0, 2, {"missed_seconds": 0}, None), "fio used 99 % of a core"),
        ((1.0, 0.0, 1.0, 2, {"missed_seconds": 3}, None), "3 seconds have no telemetry"),
        ((1.0, 0.0, 1.0, 2, {"missed_seconds": 0}, 0.1), "slowed itself down"),
        (
            (1.0, 0.0, 1.0, 2, {"missed_seconds": 0, "meter_lines_refused": 1}, None),
            "1 lines of the meter's file",
        ),
    ],
)
def test_telemetry(given: Any, words: str) -> None:
    said = list(warnings.of_telemetry(*given))
    assert len(said) == 1 and words in said[0]


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_links_speed_now_and_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "SYS", tmp_path)
    monkeypatch.setattr(host, "SYS_BLOCK", tmp_path / "class/block")
    pci = tmp_path / "devices/pci0000:00/0000:01:00.0"
    put(pci / "current_link_speed", "5.0 GT/s PCIe\n")
    put(pci / "current_link_width", "2\n")
    put(pci / "max_link_speed", "8.0 GT/s PCIe\n")
    put(pci / "max_link_width", "4\n")
    drive = pci / "nvme/nvme0/nvme0n1"
    drive.mkdir(parents=True)
    (tmp_path / "class/block").mkdir(parents=True)
    (tmp_path / "class/block/nvme0n1").symlink_to(drive)
    found = host.link("nvme0n1")
    assert found is not None
    assert (found["now"], found["possible"]) == ("5 GT/s x2", "8 GT/s x4")
    assert found["bytes_per_s"] == 1e9
    assert found["bytes_per_s_possible"] == pytest.approx(3.938e9, rel=1e-3)
    assert found["below_possible"]
    put(pci / "current_link_speed", "Unknown\n")
    assert host.link("nvme0n1") is None
    sata = tmp_path / "devices/pci0000:00/0000:00:17.0/ata3/host2/block/sda"
    sata.mkdir(parents=True)
    (tmp_path / "class/block/sda").symlink_to(sata)
    put(tmp_path / "class/ata_link/link3/sata_spd", "3.0 Gbps\n")
    put(tmp_path / "class/ata_link/link3/hw_sata_spd_limit", "6.0 Gbps\n")
    found = host.link("sda")
    assert found is not None and found["below_possible"] and found["bytes_per_s"] == 3e8
    (tmp_path / "class/block/dm-0").mkdir()
    assert host.link("dm-0") is None


def test_the_hosts_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "SYS", tmp_path / "sys")
    monkeypatch.setattr(host, "PROC", tmp_path / "proc")
    put(tmp_path / "proc/cmdline", "root=/dev/sda1 intel_iommu=on nvme.poll_queues=2 quiet\n")
    put(tmp_path / "proc/cpuinfo", "flags\t\t: fpu sse2 hypervisor\n")
    put(tmp_path / "sys/class/dmi/id/product_name", "Standard PC (Q35)\n")
    put(tmp_path / "sys/class/iommu/dmar0/x", "")
    put(tmp_path / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n")
    put(tmp_path / "sys/module/pcie_aspm/parameters/policy", "default [powersave] performance\n")
    found = host.facts()
    assert found["kernel_options"] == ["intel_iommu=on", "nvme.poll_queues=2"]
    assert found["virtual_machine"] == "Standard PC (Q35)"
    assert found["iommu"] == "on (dmar0)"
    assert (found["cpu_governor"], found["pcie_aspm_policy"]) == ("schedutil", "powersave")
    put(tmp_path / "proc/cpuinfo", "flags\t\t: fpu sse2\n")
    put(tmp_path / "sys/class/dmi/id/product_name", "ProLiant\n")
    assert host.facts()["virtual_machine"] is None
    assert json.loads(json.dumps(found)) == found


NVME_CLI = {
    "critical_warning": 0,
    "temperature": 323,
    "avail_spare": 100,
    "spare_thresh": 10,
    "percent_used": 2,
    "data_units_read": 1000,
    "data_units_written": 2000,
    "host_read_commands": 5,
    "media_errors": 0,
    "warning_temp_time": 1,
    "thm_temp1_trans_count": 4,
}
# As nvme-cli 2.3 writes counts of 128 bits (Debian 12's; recorded).
NVME_CLI_2_3 = NVME_CLI | {
    "data_units_read": "1000",
    "data_units_written": "2000",
    "host_read_commands": "5",
    "media_errors": "0",
}
SMARTCTL_NVME = {
    "nvme_smart_health_information_log": {
        "temperature": 50,
        "percentage_used": 2,
        "data_units_written": 2000,
        "host_reads": 5,
        "media_errors": 0,
    }
}
SMARTCTL_ATA = {
    "ata_smart_attributes": {
        "table": [{"id": 241, "name": "Total_LBAs_Written", "raw": {"value": 77, "string": "77"}}]
    },
    "temperature": {"current": 31},
    "power_on_time": {"hours": 9},
}


SMARTCTL_SAS = {
    "device": {"protocol": "SCSI"},
    "scsi_percentage_used_endurance_indicator": 7,
    "temperature": {"current": 29, "drive_trip": 60},
    "power_on_time": {"hours": 12_000, "minutes": 4},
    "scsi_error_counter_log": {
        "read": {"gigabytes_processed": "1.500"},
        "write": {"gigabytes_processed": "2.000"},
    },
}


def program(folder: Path, name: str, table: object, exit_code: int = 0) -> None:
    script = put(
        folder / name, f"#!/bin/sh\ncat <<'END'\n{json.dumps(table)}\nEND\nexit {exit_code}\n"
    )
    script.chmod(0o755)


def test_counts_that_nvme_cli_writes_as_strings_are_read() -> None:
    figures = smart.nvme_figures(NVME_CLI_2_3)
    assert figures == smart.nvme_figures(NVME_CLI)
    assert (figures["written_bytes"], figures["media_errors"]) == (2000 * 512_000, 0)
    assert "media_errors" not in smart.nvme_figures(NVME_CLI | {"media_errors": "n/a"})


def test_a_sas_drive_has_smart_data() -> None:
    assert smart.smartctl_figures(SMARTCTL_SAS) == {
        "temperature_c": 29.0,
        "power_on_h": 12_000.0,
        "percentage_used": 7.0,
        "read_bytes": 1.5e9,
        "written_bytes": 2e9,
    }


@pytest.mark.parametrize(
    ("given", "absent"),
    [
        ({"temperature": 0}, "temperature_c"),
        ({"temperature": 65535}, "temperature_c"),
        ({"avail_spare": 255}, "available_spare_percent"),
        ({"data_units_written": 0}, "written_bytes"),
        ({"data_units_read": "0"}, "read_bytes"),
        ({"power_on_hours": 2**32 - 1}, "power_on_h"),
        ({"media_errors": 2**128 - 1}, "media_errors"),
        ({"media_errors": True}, "media_errors"),
    ],
)
def test_what_a_drive_does_not_report_is_no_figure(given: dict[str, object], absent: str) -> None:
    before, found = smart.nvme_figures(NVME_CLI), smart.nvme_figures(NVME_CLI | given)
    assert found == {name: value for name, value in before.items() if name != absent}


@pytest.mark.parametrize("celsius", [-273, -128, 255])
def test_a_temperature_that_is_none_is_left_out(celsius: int) -> None:
    said = {"temperature": {"current": celsius}}
    assert "temperature_c" not in smart.smartctl_figures(SMARTCTL_SAS | said)
    zero = {"temperature": {"current": 0, "drive_trip": 0}}  # of a RAID controller
    assert "temperature_c" not in smart.smartctl_figures(SMARTCTL_SAS | zero)
    log = {"temperature": celsius, "available_spare": 99}
    found = smart.smartctl_figures({"nvme_smart_health_information_log": log})
    assert found == {"available_spare_percent": 99.0}


def test_smart_by_whichever_program_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(programs, "ADMIN_PATH", "")
    nothing = smart.read("nvme0n1")
    assert nothing == "nvme is not installed; smartctl is not installed"
    program(tmp_path, "smartctl", SMARTCTL_NVME, exit_code=4)
    found = smart.read("nvme0n1")
    assert isinstance(found, smart.Smart) and found.source == "smartctl"
    assert found.figures["temperature_c"] == 50 and found.figures["written_bytes"] == 1.024e9
    program(tmp_path, "nvme", NVME_CLI)
    found = smart.read("nvme0n1")
    assert isinstance(found, smart.Smart) and found.source == "nvme"
    assert found.figures["temperature_c"] == 50 and found.figures["written_bytes"] == 1.024e9
    assert found.figures["throttle_light_count"] == 4
    program(tmp_path, "smartctl", SMARTCTL_ATA)
    sata = smart.read("sda")
    assert isinstance(sata, smart.Smart)
    assert sata.figures == {
        "attribute_241_total_lbas_written": 77.0,
        "temperature_c": 31.0,
        "power_on_h": 9.0,
    }
    later = replace(found, figures={**found.figures, "written_bytes": 2e9})
    assert smart.compared(found, later)["grew"] == {"written_bytes": pytest.approx(0.976e9)}
    assert smart.compared("nvme is not installed", later) == {"absent": "nvme is not installed"}


def test_nvme_cli_3_is_asked_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(programs, "ADMIN_PATH", "")
    answer = f"echo '{json.dumps(NVME_CLI)}'"
    old = "echo 'ERROR: deprecated' >&2; exit 1"
    script = f'#!/bin/sh\ncase "$1 $2" in "log smart") {answer};; *) {old};; esac\n'
    put(tmp_path / "nvme", script).chmod(0o755)
    found = smart.read("nvme0n1")
    assert isinstance(found, smart.Smart) and found.figures["temperature_c"] == 50
    put(tmp_path / "nvme", f"#!/bin/sh\n{old}\n").chmod(0o755)
    assert "ERROR: deprecated" in str(smart.read("nvme0n1"))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo no; exit 1", "no JSON, exit code 1"),
        ("echo denied >&2; exit 1", "denied"),
        ("echo '[1]'", "no JSON object"),
        ("echo '{}'", "tells no SMART data"),
        ("""echo '{"smartctl": {"messages": [{"string": "Permission denied"}]}}'""", "Permission"),
    ],
)
def test_smart_programs_that_do_not_answer(
    tmp_path: Path, script: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "smartctl", f"#!/bin/sh\n{script}\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(programs, "ADMIN_PATH", "")
    said = smart.read("sda")
    assert isinstance(said, str) and words in said


def test_a_files_result_has_conditions_telemetry_and_no_root_was_needed(file: Path) -> None:
    found = results(file, a_test(("run", load(duration_s=2.6))))
    conditions = found[0].conditions
    assert {"host", "link", "telemetry", "smart", "device_io", "warnings"} <= set(conditions)
    assert json.loads(json.dumps(conditions)) == conditions
    assert conditions["telemetry"]["missed_seconds"] == 0
    assert found[0].telemetry is not None
    rows = [row for row in found[0].telemetry.to_pylist() if row["name"] == "host.cpu_percent"]
    inside = [row["second"] for row in rows if row["second"] > 0]
    assert 2 <= len(inside) <= 3 and all(0 <= row["value"] <= 100 for row in rows)
    assert found[0].conditions["device_io"][0]["write_bytes"] == found[0].write_bytes


@needs_root
def test_other_io_on_the_device_is_seen(tmp_path: Path) -> None:
    """A reader of the loop device beside the load, as a backup or an indexer would be."""
    backing = sparse(tmp_path / "disk.img", GIB)
    over = threading.Event()
    with loop(backing, "--direct-io=on") as device:

        def reads() -> None:
            while not over.wait(0.01):
                with open(device, "rb") as other:
                    os.posix_fadvise(other.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    other.read(32 * MIB)

        target = FioTarget(device, destroy_data=str(backing))
        test = a_test(("run", load(duration_s=2)), prepare=(Prepare(kind="fill", span_bytes=MIB),))
        target.check((test,))
        reader = threading.Thread(target=reads)
        reader.start()
        try:
            first = target.run_test(test, seed=1, progress=Progress())[0]
        finally:
            over.set()
            reader.join()
            target.close()
    assert any(
        "of other I/O were read on the device" in said for said in first.conditions["warnings"]
    )


def test_the_drive_below_a_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_use, "SYS_BLOCK", tmp_path)
    monkeypatch.setattr(in_use, "_name_of_number", lambda _: "dm-1")
    put(tmp_path / "dm-1/slaves/dm-0/x", "")
    put(tmp_path / "dm-0/slaves/sda2/x", "")
    put(tmp_path / "sda/sda2/partition", "2\n")
    (tmp_path / "sda2").symlink_to(tmp_path / "sda/sda2")
    assert in_use.drive_below(0) == "sda"
    put(tmp_path / "dm-0/slaves/sdb/x", "")
    (tmp_path / "sdb").mkdir()
    assert in_use.drive_below(0) is None, "striped over two"


NOBODY = """
import ctypes, json, os, sys
sys.path[:0] = sys.argv[2:]
from real_files import *
from drivebay.targets.fio import trim
from drivebay.targets.telemetry import environment, smart
from drivebay.targets.base import Progress
import pyarrow.compute
target = FioTarget(sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1)  # "dumpable", as a process is that never was root
sys.executable = "/usr/bin/python3"  # our own may lie in a folder that only root may enter
prepare = (Prepare(kind="purge"), Prepare(kind="fill", span_bytes=MIB))
test = a_test(("run", load()), prepare=prepare)
target.check((test,))
found = target.run_test(test, seed=1, progress=Progress())[0]
print(json.dumps([found.writes, found.conditions["telemetry"], found.conditions["smart"]]))
"""


@needs_root
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs Debian's python3")
def test_a_file_is_tested_without_root(file: Path) -> None:
    """All of it: purge, fill, load, telemetry; what needs root is named as absent."""
    for folder in file.parents:
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    os.chown(file, 65534, 65534)
    # Without root a loop is told by its path, and by its size where the path is closed to us.
    os.truncate(file, file.stat().st_size + 5 * 2**20)
    words = run(sys.executable, "-c", NOBODY, str(file), str(Path(__file__).parent), *sys.path)
    writes, telemetry, smart_data = json.loads(words.splitlines()[-1])
    assert writes > 0
    assert any("/proc/stat" in source for source in telemetry["read"])
    assert all(absent["why"] for absent in telemetry["absent"])
    assert smart_data.keys() & {"absent", "source"}
