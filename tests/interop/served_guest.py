"""A small Linux guest whose kernel is the host of a drive that drivebay serves.

As nvme_guest.py, with a shell script as its job: over TCP through QEMU's user network, or with the
drive as a PCIe device over vfio-user, for which QEMU must know `vfio-user-pci`: the one on PATH, or
the program that DRIVEBAY_QEMU names (11.1 does; Debian 12's 7.2 does not).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import nvme_guest
import pytest
from nbd_server import PROGRAM

DRIVE = "sm951-nvme-256"
AHCI_DRIVE = "sm951-ahci-512"
SMALL_DRIVE = str(Path(__file__).with_name("small_drive.toml"))
NQN = f"nqn.2026-11.localhost.drivebay:{DRIVE}"
HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
SUITE = os.environ.get("DRIVEBAY_GUEST_SUITE", "")
# Of tests that others wrote: a guest without KVM takes its time.
SUITE_MARKS = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-"),
    pytest.mark.skipif(not SUITE, reason="DRIVEBAY_GUEST_SUITE names no folder with the suite"),
]
TCP_MODULES = ("virtio_pci", "virtio_net", "crc32c_generic", "nvme-tcp")
BEGIN = """\
#!/bin/busybox sh
export PATH=/bin:/usr/bin:/usr/sbin:/sbin LD_LIBRARY_PATH=/guest-lib
/bin/busybox mkdir -p /proc /sys /dev /tmp /etc/nvme
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
touch /modules.options
for module in $(cat /modules.order); do
  insmod /modules/$module $(sed -n "s/^$module //p" /modules.options) 2>/dev/null
done
"""
WAIT = """\
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do [ -b /dev/nvme0n1 ] || sleep 0.3; done
"""
# What every host of the drive can see and do; each line that begins with SAID is looked at.
JOB = """\
echo "SAID sectors $(cat /sys/block/nvme0n1/size)"
nvme id-ctrl /dev/nvme0 | sed -n 's/^\\(mn\\|fr\\|mdts\\|oncs\\) *: */SAID \\1 /p'
nvme smart-log /dev/nvme0 | sed -n 's/^\\(temperature\\|critical_warning\\)[^:]*: */SAID \\1 /p'
echo "SAID hwmon $(cat /sys/class/nvme/nvme0/hwmon*/temp1_input)"
dd if=/dev/urandom of=/tmp/a bs=1M count=2 2>/dev/null
dd if=/tmp/a of=/dev/nvme0n1 bs=1M oflag=direct 2>/dev/null
dd if=/dev/nvme0n1 of=/tmp/b bs=1M count=2 iflag=direct 2>/dev/null
cmp /tmp/a /tmp/b && echo "SAID data same"
blkdiscard -f -o 0 -l 1048576 /dev/nvme0n1 && echo "SAID discard done"
dd if=/dev/nvme0n1 of=/tmp/c bs=1M count=1 iflag=direct 2>/dev/null
echo "SAID left $(tr -d '\\0' < /tmp/c | wc -c)"
dd if=/tmp/a of=/tmp/d bs=512 count=1 2>/dev/null
nvme compare /dev/nvme0n1 -s 0 -c 0 -z 512 -d /tmp/d >/tmp/compare 2>&1
grep -qi 'compare failure' /tmp/compare && echo "SAID compare differs"
if [ -x /usr/bin/fio ]; then
  fio --name=v --filename=/dev/nvme0n1 --size=16M --rw=randwrite --bs=4k --iodepth=32 \\
    --ioengine=libaio --direct=1 --verify=crc32c >/tmp/fio 2>&1; echo "SAID fio $?"
fi
nvme set-feature /dev/nvme0 -f 4 -v 0x110 >/dev/null
nvme smart-log /dev/nvme0 | sed -n 's/^critical_warning[^:]*: */SAID hot /p'
nvme format /dev/nvme0n1 -n 1 -l 0 -f >/dev/null 2>&1 && echo "SAID format done"
if [ -x /usr/sbin/mkfs.ext4 ] && [ -x /usr/sbin/fstrim ]; then
  mkdir /m; mkfs.ext4 -q -F -E nodiscard /dev/nvme0n1 64M && mount -t ext4 /dev/nvme0n1 /m
  dd if=/dev/urandom of=/m/file bs=1M count=16 2>/dev/null; sync; rm /m/file; sync
  /usr/sbin/fstrim /m && echo "SAID fstrim done"; umount /m
fi
"""
# Namespaces by nvme-cli: the only one, as large as the drive, is deleted, two are made and
# attached, and one is detached and deleted.
NAMESPACES_JOB = """\
shown() {
  for try in $(seq 60); do [ -b /dev/$1 ] && break; sleep 0.5; done; cat /sys/block/$1/size
}
gone() {
  for try in $(seq 60); do [ -b /dev/$1 ] || break; sleep 0.5; done; [ -b /dev/$1 ] || echo gone
}
free() { nvme id-ctrl /dev/nvme0 | sed -n "s/^$1 *: *//p"; }
make() { nvme create-ns /dev/nvme0 --nsze=$1 --ncap=$1 --flbas=0 --dps=0 --nmic=1; }
me=$(nvme id-ctrl /dev/nvme0 | sed -n 's/^cntlid *: *//p')
echo "SAID capacity $(free tnvmcap) $(free unvmcap)"
nvme delete-ns /dev/nvme0 -n 1 && nvme ns-rescan /dev/nvme0; echo "SAID deleted $(gone nvme0n1)"
make 2097152; make 4194304; make 999999999 2>&1 | sed -n 's/^NVMe status: /SAID too_large /p'
echo "SAID allocated $(nvme list-ns /dev/nvme0 --all | wc -l) $(nvme list-ns /dev/nvme0 | wc -l)"
for nsid in 1 2; do nvme attach-ns /dev/nvme0 -n $nsid -c $me; done; nvme ns-rescan /dev/nvme0
echo "SAID attached $(shown nvme0n1) $(shown nvme0n2)"
dd if=/tmp/a of=/dev/nvme0n2 bs=1M oflag=direct 2>/dev/null
dd if=/dev/nvme0n2 of=/tmp/b bs=1M count=2 iflag=direct 2>/dev/null
cmp /tmp/a /tmp/b && echo "SAID made same"
nvme detach-ns /dev/nvme0 -n 2 -c $me && nvme ns-rescan /dev/nvme0
echo "SAID detached $(gone nvme0n2)"
nvme delete-ns /dev/nvme0 -n 2; echo "SAID unallocated $(free unvmcap)"
"""
# Likewise for a drive with AHCI firmware, which Linux shows as a SCSI disk.
AHCI_JOB = """\
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do [ -b /dev/sda ] || sleep 0.3; done
echo "SAID sectors $(cat /sys/block/sda/size)"
echo "SAID model $(cat /sys/block/sda/device/model)"
echo "SAID depth $(cat /sys/block/sda/device/queue_depth)"
for d in /sys/bus/pci/devices/*; do
  [ "$(cat $d/device)" = 0xa801 ] && echo "SAID interrupts $(ls $d/msi_irqs | wc -l)"
done
dd if=/dev/urandom of=/tmp/a bs=1M count=2 2>/dev/null
dd if=/tmp/a of=/dev/sda bs=1M oflag=direct 2>/dev/null
dd if=/dev/sda of=/tmp/b bs=1M count=2 iflag=direct 2>/dev/null
cmp /tmp/a /tmp/b && echo "SAID data same"
blkdiscard -f -o 0 -l 1048576 /dev/sda && echo "SAID discard done"
dd if=/dev/sda of=/tmp/c bs=1M count=1 iflag=direct 2>/dev/null
echo "SAID left $(tr -d '\\0' < /tmp/c | wc -c)"
if [ -x /usr/bin/fio ]; then
  fio --name=v --filename=/dev/sda --size=16M --rw=randwrite --bs=4k --iodepth=32 \\
    --ioengine=libaio --direct=1 --verify=crc32c >/tmp/fio 2>&1; echo "SAID fio $?"
fi
if [ -x /usr/sbin/smartctl ]; then
  smartctl -A /dev/sda | sed -n 's/^194 .* \\([0-9]*\\)$/SAID temperature \\1/p'
fi
dmesg | grep -c 'ata[0-9].*\\(exception\\|failed command\\)' | sed 's/^/SAID errors /'
"""
CONNECT = f"""\
ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up
echo {HOST} > /etc/nvme/hostnqn; echo {HOST[-36:]} > /etc/nvme/hostid
nvme discover -t tcp -a 10.0.2.2 -s PORT | sed -n 's/^subnqn: */SAID found /p'
nvme connect -t tcp -a 10.0.2.2 -s PORT -n {NQN} --hdr-digest --data-digest
"""
# After CONNECT: the same drive by the kernel's NBD client too; what one writes, the other reads.
NBD_JOB = """\
nbd-client -N "" 10.0.2.2 PORT /dev/nbd0 >/dev/null 2>&1
echo "SAID nbd_sectors $(cat /sys/block/nbd0/size)"
dd if=/dev/urandom of=/tmp/n bs=1M count=2 2>/dev/null
dd if=/tmp/n of=/dev/nbd0 bs=1M seek=64 oflag=direct 2>/dev/null
dd if=/dev/nvme0n1 of=/tmp/o bs=1M skip=64 count=2 iflag=direct 2>/dev/null
cmp /tmp/n /tmp/o && echo "SAID nbd same"
blkdiscard -f -o 67108864 -l 1048576 /dev/nbd0
dd if=/dev/nvme0n1 of=/tmp/o bs=1M skip=64 count=1 iflag=direct 2>/dev/null
echo "SAID nbd_left $(tr -d '\\0' < /tmp/o | wc -c)"
nbd-client -d /dev/nbd0 >/dev/null 2>&1
"""
# The host's files as they are, with folders in memory where programs write.
HOST_FILES = """\
mkdir -p /host /out
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /host
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 out /out
for d in proc sys dev; do mount --bind /$d /host/$d; done
mount -t tmpfs tmpfs /host/tmp; mount -t tmpfs tmpfs /host/run
mkdir -p /host/run/lock /host/tmp/out
mount --bind /out /host/tmp/out
ip addr add 127.0.0.1/8 dev lo; ip link set lo up; date -s @NOW >/dev/null
"""
SUITE_BEGIN = f"""\
export PATH=/usr/bin:/usr/sbin:/bin:/sbin PYTHONDONTWRITEBYTECODE=1
unset LD_LIBRARY_PATH
SAY() {{ echo "SAID $*"; }}
ip addr add 127.0.0.1/8 dev lo; ip link set lo up
ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up
echo {HOST} > /etc/nvme/hostnqn; echo {HOST[-36:]} > /etc/nvme/hostid
for nqn in $(nvme discover -t tcp -a 10.0.2.2 -s PORT | sed -n 's/^subnqn: *//p'); do
  nvme connect -t tcp -a 10.0.2.2 -s PORT -n $nqn
done
{WAIT}
"""
END = """\
nvme disconnect-all 2>/dev/null; echo "SAID bye"
poweroff -f
"""


def qemu() -> str:
    """The QEMU that is used."""
    return os.environ.get("DRIVEBAY_QEMU", "qemu-system-x86_64")


def boot_sector(text: str) -> bytes:
    """The first sector of a disk that writes this text to the serial port and halts."""
    # Clear DS; point DX at COM1 and SI behind the code; put out bytes up to a zero; halt.
    code = bytes.fromhex("31c08ed8 baf803 be157c ac 84c0 7403 ee ebf8 f4 ebfd")
    return (code + text.encode() + b"\0").ljust(510, b"\0") + b"\x55\xaa"


def firmware_says(device: str) -> str:
    """What comes from the serial port of a machine with nothing but this device."""
    memory = "memory-backend-memfd,id=ram,size=256M,share=on"
    machine = ("-accel", "tcg", "-M", "q35,memory-backend=ram", "-m", "256M", "-object", memory)
    quiet = ("-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio")
    with subprocess.Popen(
        [qemu(), *machine, *quiet, "-device", device],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            return process.stdout.readline()
        finally:
            process.kill()


def lacks_vfio_user() -> str:
    """Why QEMU cannot take the drive as a PCIe device, in words; "" if it can."""
    if shutil.which(qemu()) is None:
        return f"not installed: {qemu()}"
    command = [qemu(), "-device", "vfio-user-pci,help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.stdout.startswith("vfio-user-pci"):
        return ""
    return f"{qemu()} has no vfio-user-pci; set DRIVEBAY_QEMU to a QEMU of version 11.1 or later"


@contextlib.contextmanager
def server(*options: str, drive: str | None = DRIVE) -> Iterator[list[str]]:
    """A served drive, or without one those of `--config`; the lines in which it says where."""
    named = [] if drive is None else [drive]
    command = [*PROGRAM, "serve", *named, "--pace", "none", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines: list[str] = []
            portals = max(options.count("--nvme-tcp"), 1)
            while sum("nvme-tcp:" in one or "vfio-user:" in one for one in lines) < portals:
                line = process.stderr.readline()
                assert line, lines
                lines.append(line.strip())
            yield lines
        finally:
            process.terminate()
            process.wait()


def boot(folder: Path, script: str, modules: Sequence[str], *arguments: str) -> dict[str, str]:
    """Boot a guest with this job; what it said, by the first word."""
    root = folder / "root"
    (root / "usr/bin").mkdir(parents=True)
    nvme = nvme_guest.program_of("nvme")
    assert nvme is not None
    names = ("blkdiscard", "fio", "mkfs.ext4", "fstrim", "smartctl", "nbd-client")
    more = map(nvme_guest.program_of, names)
    for program in filter(None, (nvme, *more)):
        nvme_guest.copy_with_libraries(program, root)
    return boot_root(root, script, modules, *arguments)


def boot_root(root: Path, script: str, modules: Sequence[str], *arguments: str) -> dict[str, str]:
    """The same with the programs of this folder, which becomes the guest's root."""
    kernel = Path(os.environ["DRIVEBAY_GUEST_KERNEL"])
    busybox = nvme_guest.program_of("busybox")
    assert busybox is not None
    (root / "bin").mkdir(exist_ok=True)
    shutil.copy(busybox, root / "bin/busybox")
    nvme_guest.copy_modules(kernel, root, modules)
    image = nvme_guest.pack(root, BEGIN + script + END)
    memory = "memory-backend-memfd,id=ram,size=1536M,share=on"
    done = subprocess.run(
        [
            *(qemu(), "-accel", "tcg", "-M", "q35,memory-backend=ram", "-m", "1536M"),
            *("-object", memory, "-nodefaults", "-no-user-config", "-display", "none"),
            *("-serial", "stdio", "-no-reboot"),
            *("-kernel", str(next(kernel.glob("boot/vmlinuz-*"))), "-initrd", str(image)),
            *("-append", "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off no_timer_check"),
            *arguments,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    lines = [line.split("SAID ", 1)[1] for line in done.stdout.splitlines() if "SAID " in line]
    assert "bye" in lines, done.stdout[-4000:] + done.stderr[-2000:]
    return {name: rest.strip() for name, _, rest in (line.partition(" ") for line in lines)}


def suite_root(folder: Path) -> Path:
    """A root with the programs that others' tests need, as scripts/guest.sh has fetched them."""
    root = folder / "root"
    subprocess.run(["cp", "-a", f"{SUITE}/root", root], check=True)
    # The guest has no other user than root.
    sudo = root / "usr/bin/sudo"
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)
    return root


def boot_suite(
    root: Path,
    script: str,
    lines: Sequence[str],
    *,
    modules: Sequence[str] = (),
    control: Path | None = None,
) -> dict[str, str]:
    """Boot a guest with such a root as the host of what is served at the TCP port of these lines;
    its address 10.0.2.9 is the control socket at port 9."""
    port = next(one for one in lines if "127.0.0.1:" in one).split("127.0.0.1:")[1].split()[0]
    forward = "" if control is None else f",guestfwd=tcp:10.0.2.9:9-unix:{control}"
    return boot_root(
        root,
        SUITE_BEGIN.replace("PORT", port) + script,
        (*TCP_MODULES, *modules),
        *("-cpu", "max", "-netdev", f"user,id=n0{forward}"),
        *("-device", "virtio-net-pci,netdev=n0,romfile="),
    )


def host_files(shared: Path) -> list[str]:
    """QEMU's options for HOST_FILES: the host's files, and a folder that the guest writes to."""
    return [
        *_folder("host", Path("/"), "readonly=on,multidevs=remap"),
        *_folder("out", shared),
    ]


def _folder(tag: str, path: Path, *more: str) -> list[str]:
    """A folder of the host as a file system of the guest."""
    options = ",".join(("local", f"id={tag}", f"path={path}", "security_model=none", *more))
    return ["-fsdev", options, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
