"""Linux's own drivers as hosts of a served drive: NVMe over TCP, NVMe and AHCI as PCIe devices.

See served_guest.py for what it needs. Not run where that is absent.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import nvme_guest
import pytest
import served_guest
import test_nvme_auth

SECTORS = 500_118_192
AHCI_SECTORS = 1_000_215_216
JOB = served_guest.WAIT + served_guest.JOB
PCI_MODULES = ("nvme", "crc32c_generic", "ext4")

GUEST = pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-")


@pytest.fixture
def vfio_user() -> None:
    """Skips where QEMU cannot take the drive."""
    if reason := served_guest.lacks_vfio_user():
        pytest.skip(reason)


def pci(path: Path) -> str:
    """The drive at a socket as QEMU's device."""
    return f'{{"driver":"vfio-user-pci","socket":{{"type":"unix","path":"{path}"}}}}'


def check(said: dict[str, str], *, reserves: bool) -> None:
    """What every transport shows: identity, temperature, data, TRIM, status codes; whether there
    are reservations."""
    assert said["sectors"] == str(SECTORS)
    assert (said["mn"], said["fr"]) == ("SAMSUNG MZVPV256HDGL", "BXW74H0Q")
    assert (said["mdts"], said["oncs"]) == ("5", "0x1ff" if reserves else "0x1df")
    assert said["temperature"].startswith("25")
    assert said["hwmon"] == "24850"  # 298 K in thousandths of a degree
    assert said["data"] == "same"
    assert (said["discard"], said["left"]) == ("done", "0")
    assert said["compare"] == "differs"
    assert said.get("fio", "0") == "0"
    assert (said["critical_warning"], said["hot"]) == ("0", "0x2")
    assert said["format"] == "done"
    assert said.get("fstrim", "done") == "done"


@pytest.mark.long
@GUEST
def test_linux_over_tcp(tmp_path: Path) -> None:
    disk = tmp_path / "disk.img"
    has_nbd = nvme_guest.program_of("nbd-client") is not None
    addresses = ("--nbd", "127.0.0.1:0", "--nvme-tcp", "127.0.0.1:0", "--nqn", served_guest.NQN)
    with served_guest.server(*addresses, "--data", str(disk)) as lines:
        ports = [line.split("127.0.0.1:")[1].split()[0] for line in lines if "127.0.0.1:" in line]
        nbd_job = served_guest.NBD_JOB.replace("PORT", ports[0]) if has_nbd else ""
        connect = served_guest.CONNECT.replace("PORT", ports[1]) + served_guest.WAIT
        said = served_guest.boot(
            tmp_path,
            connect + nbd_job + served_guest.JOB + served_guest.NAMESPACES_JOB,
            ("virtio_pci", "virtio_net", "crc32c_generic", "nvme-tcp", "nbd", "ext4"),
            *("-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile="),
        )
    check(said, reserves=True)
    assert said["found"] == served_guest.NQN
    if has_nbd:
        assert said["nbd_sectors"] == str(SECTORS)
        assert (said["nbd"], said["nbd_left"]) == ("same", "0")
    assert said["capacity"] == f"{SECTORS * 512} 0"
    assert (said["deleted"], said["detached"]) == ("gone", "gone")
    assert said["too_large"].startswith("Namespace Insufficient Capacity")
    assert said["allocated"] == "2 0"
    assert (said["attached"], said["made"]) == ("2097152 4194304", "same")
    assert said["unallocated"] == str(SECTORS * 512 - 2**30)
    # What the guest wrote it has given back, or it was a namespace's that is deleted.
    assert disk.stat().st_blocks * 512 < 16 * 2**20


@pytest.mark.long
@GUEST
def test_linux_authenticates_over_tcp(tmp_path: Path) -> None:
    """With both secrets, with the host's alone, with wrong ones and with none."""
    host, controller, wrong = (_secret(tmp_path / name) for name in ("host", "controller", "wrong"))
    options = ("--dhchap-secret", str(tmp_path / "host"))
    more = ("--dhchap-ctrl-secret", str(tmp_path / "controller"), "--nqn", served_guest.NQN)
    with served_guest.server("--nvme-tcp", "127.0.0.1:0", *options, *more) as lines:
        port = next(one for one in lines if "nvme-tcp:" in one).split(":")[2].split()[0]
        begin, _, _ = served_guest.CONNECT.rpartition("nvme connect")
        connect = f"nvme connect -t tcp -a 10.0.2.2 -s {port} -n {served_guest.NQN}"
        script = begin.replace("PORT", port)
        for name, given in (
            ("both", ("-S", host, "-C", controller)),
            ("host", ("-S", host)),
            ("wrong", ("-S", wrong)),
            ("wrong_drive", ("-S", host, "-C", wrong)),
            ("none", ()),
        ):
            script += f"{connect} {' '.join(given)} >/dev/null 2>&1\n"
            script += served_guest.WAIT.replace("15", "8") if name in ("both", "host") else ""
            script += "dd if=/dev/nvme0n1 of=/tmp/x bs=4k count=1 iflag=direct 2>/dev/null && "
            script += f'echo "SAID {name} read"\nnvme disconnect-all\n'
        script += "dmesg | sed -n 's/.*authenticated with \\(.*\\)/SAID used \\1/p'\n"
        modules = ("virtio_pci", "virtio_net", "crc32c_generic", "dh_generic", "nvme-tcp")
        net = ("-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile=")
        said = served_guest.boot(tmp_path, script, modules, *net)
    assert [name for name in said if said[name] == "read"] == ["both", "host"]
    assert said["used"] == "hash hmac(sha256) dhgroup ffdhe2048"


def _secret(path: Path) -> str:
    """A new one, also in this file."""
    made = test_nvme_auth.secret(1, secrets.token_bytes(32))
    path.write_text(made)
    return made


@pytest.mark.long
@GUEST
@pytest.mark.usefixtures("vfio_user")
def test_linux_over_pcie(tmp_path: Path) -> None:
    path = tmp_path / "drive.sock"
    with served_guest.server("--vfio-user", str(path)):
        check(served_guest.boot(tmp_path, JOB, PCI_MODULES, "-device", pci(path)), reserves=False)


@pytest.mark.long
@GUEST
@pytest.mark.usefixtures("vfio_user")
def test_linux_over_ahci(tmp_path: Path) -> None:
    path = tmp_path / "drive.sock"
    with served_guest.server("--vfio-user", str(path), drive=served_guest.AHCI_DRIVE):
        job = served_guest.AHCI_JOB
        said = served_guest.boot(tmp_path, job, ("ahci", "sd_mod"), "-device", pci(path))
    assert said["sectors"] == str(AHCI_SECTORS)
    assert said["model"] == "MZHPV512HDGL"
    assert (said["depth"], said["interrupts"]) == ("32", "1")
    assert said["data"] == "same"
    assert (said["discard"], said["left"]) == ("done", "0")
    assert said.get("fio", "0") == "0"
    assert said.get("temperature", "25") == "25"
    assert said["errors"] == "0"


@pytest.mark.usefixtures("vfio_user")
@pytest.mark.parametrize(
    ("drive", "sectors"),
    [(served_guest.DRIVE, SECTORS), (served_guest.AHCI_DRIVE, AHCI_SECTORS)],
)
def test_firmware_boots_from_it(tmp_path: Path, drive: str, sectors: int) -> None:
    path, disk = tmp_path / "drive.sock", tmp_path / "disk.img"
    with disk.open("wb") as file:
        file.write(served_guest.boot_sector("Bootable? Yes\r\n"))
        file.truncate(sectors * 512)
    options = ("--vfio-user", str(path), "--data", str(disk), "--foreign-data")
    with served_guest.server(*options, drive=drive):
        assert served_guest.firmware_says(pci(path)).strip() == "Bootable? Yes"
