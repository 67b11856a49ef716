#!/usr/bin/env python3
"""Runs a command in a small Linux guest whose NVMe drive is a virtual one that drivebay serves.

    run.py DRIVE [OPTION OF drivebay serve]... -- COMMAND...

    run.py pm9a3-960 --capacity 8G --set fdp=8 -- nvme fdp status /dev/nvme0n1
    run.py zn540-1tb -- blkzone report /dev/nvme0n1

The guest is QEMU without KVM, in whatever version the distribution has: the drive comes over
NVMe/TCP, not as a device of QEMU. Its root is this machine's file system, read-only, so the command
may be any program that is installed here; /tmp and /run are in memory, the present folder is
writable. The command is one of a shell if it is a single argument. Its exit code is this script's.

Needs qemu-system-x86_64, a static busybox, cpio, modinfo, nvme-cli and a kernel with its modules:
the newest in /boot, or the folder in DRIVEBAY_GUEST_KERNEL, in which a package linux-image-* was
unpacked (`dpkg -x`). Standard library only. Measured in docs/guides/fdp-ci.md.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = ("virtio_pci", "virtio_net", "9pnet_virtio", "9p", "crc32c_generic", "nvme-tcp")
NQN = "nqn.2026-11.localhost.drivebay:guest"
INIT = """\
#!/bin/busybox sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
# One path only, so that the drive has an I/O scheduler (ZenFS needs it). Other modules ignore this.
for path in $(cat /modules); do insmod /$path multipath=N 2>/dev/null; done
options=trans=virtio,version=9p2000.L,msize=262144
mount -t 9p -o $options,ro,cache=loose root /root || poweroff -f
for folder in proc sys dev; do mount --bind /$folder /root/$folder; done
mkdir -p /dev/shm; mount -t tmpfs tmpfs /dev/shm
for folder in tmp run mnt etc/nvme; do
  [ ! -d /root/$folder ] || mount -t tmpfs tmpfs /root/$folder
done
date -s @NOW >/dev/null
ip addr add 127.0.0.1/8 dev lo; ip link set lo up
ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up
mkdir -p FOLDER 2>/dev/null; mkdir -p /root/FOLDER 2>/dev/null
mount -t 9p -o $options here /root/FOLDER
chroot /root nvme connect -t tcp -a 10.0.2.2 -s PORT -n NQN \\
  -q nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555 \\
  -I 11111111-2222-3333-4444-555555555555 >/dev/null
for try in $(seq 50); do [ -b /dev/nvme0n1 ] && break; sleep 0.2; done
chroot /root /bin/sh -c 'cd FOLDER; COMMAND' </dev/null
echo $? >/dev/ttyS1
poweroff -f
"""


def main(words: list[str]) -> int:
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if "--" not in words or words.index("--") == 0 or words[-1] == "--":
        sys.exit(__doc__)
    at = words.index("--")
    command = words[-1] if len(words) == at + 2 else shlex.join(words[at + 1 :])
    serve = ["drivebay", "serve", *words[:at], "--nvme-tcp", "127.0.0.1:0", "--nqn", NQN]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            serve, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as server,
    ):
        try:
            for line in server.stderr or ():
                if port := re.match(r"nvme-tcp:\D*[\d.]+:(\d+)", line):
                    return boot(Path(folder), port[1], command)
                sys.stderr.write(line)
            return server.wait()
        finally:
            server.terminate()


def boot(folder: Path, port: str, command: str) -> int:
    """Boots the guest; returns the command's exit code."""
    image = initramfs(folder / "image", port, command)
    status = folder / "status"
    subprocess.run(
        [
            *("qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-M", "q35", "-m", "1G"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-serial", "stdio", "-serial", f"file:{status}"),
            *("-kernel", str(kernel()[0]), "-initrd", str(image), "-append"),
            "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off no_timer_check",
            *("-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="),
            *share("root", "/", "readonly=on,multidevs=remap"),
            *share("here", os.getcwd(), "multidevs=remap"),
        ],
        stdin=subprocess.DEVNULL,
        check=True,
    )
    code = status.read_text().strip()
    return int(code) if code else 1


def share(tag: str, path: str, options: str) -> list[str]:
    """QEMU's options for a folder of this machine in the guest."""
    device = f"local,id={tag},path={path},security_model=none,{options}"
    return ["-fsdev", device, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def kernel() -> tuple[Path, Path]:
    """The kernel and the folder of its modules."""
    top = Path(os.environ.get("DRIVEBAY_GUEST_KERNEL", "/"))
    images = sorted((top / "boot").glob("vmlinuz-*"), key=lambda path: path.stat().st_mtime)
    modules = sorted(path for base in ("usr/lib", "lib") for path in (top / base).glob("modules/*"))
    if not images or not modules:
        sys.exit(f"no kernel in {top / 'boot'} or no modules: install one, or unpack its package")
    version = images[-1].name.removeprefix("vmlinuz-")
    return images[-1], next((path for path in modules if path.name == version), modules[-1])


def initramfs(root: Path, port: str, command: str) -> Path:
    for name in ("bin", "proc", "sys", "dev", "root"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "/bin/busybox", root / "bin/busybox")
    (root / "modules").write_text("\n".join(modules(kernel()[1], root)))
    replaced = {"NOW": f"{Path(root).stat().st_mtime:.0f}", "PORT": port, "NQN": NQN}
    replaced |= {"FOLDER": os.getcwd(), "COMMAND": command.replace("'", "'\\''")}
    script = re.sub("NOW|PORT|NQN|FOLDER|COMMAND", lambda match: replaced[match[0]], INIT)
    (root / "init").write_text(script)
    (root / "init").chmod(0o755)
    image = root.with_suffix(".cpio")
    names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
    with image.open("wb") as out:
        pack = ["cpio", "-o", "-H", "newc", "--quiet"]
        subprocess.run(pack, cwd=root, input=names, stdout=out, check=True)
    return image


def modules(folder: Path, root: Path) -> list[str]:
    """Copies the modules and what they need; returns their names in the order of loading."""
    files = {path.name.split(".")[0].replace("-", "_"): path for path in folder.rglob("*.ko*")}
    order: dict[str, None] = {}

    def add(name: str) -> None:
        path = files.get(name.replace("-", "_"))
        if path is None or path.name in order:
            return
        for needed in output("modinfo", "-F", "depends", path).decode().strip().split(","):
            add(needed)
        order[path.name] = None
        unpack = {".xz": ["xz", "-dc"], ".zst": ["zstd", "-dc"]}.get(path.suffix, ["cat"])
        (root / path.name).write_bytes(output(*unpack, path))

    for name in MODULES:
        add(name)
    return list(order)


def output(*command: str | Path) -> bytes:
    return subprocess.run(command, capture_output=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
