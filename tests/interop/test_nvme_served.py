"""Linux's own NVMe drivers as hosts of a served drive: over TCP, and as a PCIe device in QEMU.

See served_guest.py for what it needs. Not run where that is absent.
"""

from __future__ import annotations

from pathlib import Path

import nvme_guest
import pytest
import served_guest

SECTORS = 500_118_192

pytestmark = pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-")


def check(said: dict[str, str]) -> None:
    """What every transport shows: identity, temperature, data, TRIM, status codes."""
    assert said["sectors"] == str(SECTORS)
    assert (said["mn"], said["fr"]) == ("SAMSUNG MZVPV256HDGL", "BXW74H0Q")
    assert (said["mdts"], said["oncs"]) == ("5", "0x1d")
    assert said["temperature"].startswith("25")
    assert said["hwmon"] == "24850"  # 298 K in thousandths of a degree
    assert said["data"] == "same"
    assert (said["discard"], said["left"]) == ("done", "0")
    assert said["compare"] == "differs"
    assert said.get("fio", "0") == "0"
    assert (said["critical_warning"], said["hot"]) == ("0", "0x2")
    assert said["format"] == "done"


def test_linux_over_tcp(tmp_path: Path) -> None:
    with served_guest.server("--nvme-tcp", "127.0.0.1:0") as lines:
        line = next(one for one in lines if "nvme-tcp:" in one)
        port = line.split("nvme-tcp:", 1)[1].split()[0].rsplit(":", 1)[1]
        connect = served_guest.CONNECT.replace("PORT", port)
        said = served_guest.boot(
            tmp_path,
            connect + served_guest.JOB,
            ("virtio_pci", "virtio_net", "crc32c_generic", "nvme-tcp"),
            *("-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile="),
        )
    check(said)
    assert said["found"] == served_guest.NQN


def test_linux_over_pcie(tmp_path: Path) -> None:
    if reason := served_guest.lacks_vfio_user():
        pytest.skip(reason)
    path = tmp_path / "drive.sock"
    with served_guest.server("--vfio-user", str(path)):
        device = f'{{"driver":"vfio-user-pci","socket":{{"type":"unix","path":"{path}"}}}}'
        check(served_guest.boot(tmp_path, served_guest.JOB, ("nvme",), "-device", device))
