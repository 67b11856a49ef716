"""A small Linux guest with an emulated NVMe drive, to run drivebay's own code on a real driver.

Debian's kernel, busybox and python3 in an initramfs, booted by QEMU's software emulation (TCG): no
root, no network, no disk but the drive. The guest runs tests/interop/nvme_job.py and prints JSON.
It runs where DRIVEBAY_GUEST_KERNEL names a folder in which Debian's linux-image package was
unpacked (`dpkg -x`); nvme-cli and nbd-client are taken from PATH, or from the folder that
DRIVEBAY_GUEST_TOOLS names, unpacked likewise with their libraries. `make test` fetches both where
it can: `eval "$(scripts/guest.sh)"` does the same by hand.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "python" / "drivebay"
PROGRAMS = ("qemu-system-x86_64", "busybox", "cpio", "wipefs", "modinfo")
MODULES = ("nvme",)
MERGED = {"crc32c_generic"}
"""What newer kernels have in their library instead of a module."""
PYTHON = Path("/usr/bin/python3")
INIT = """\
#!/bin/busybox sh
export PATH=/bin:/usr/bin:/usr/sbin:/sbin LD_LIBRARY_PATH=/guest-lib
/bin/busybox mkdir -p /proc /sys /dev /tmp /etc
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules.order); do /bin/busybox insmod /modules/$module; done
for try in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/nvme0n1 ] || /bin/busybox sleep 0.3; done
PYTHONPATH=/project PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -I -S /job.py
/bin/busybox poweroff -f
"""


def missing() -> str:
    """What keeps the guest from running here, in words; "" if nothing does."""
    kernel = os.environ.get("DRIVEBAY_GUEST_KERNEL")
    if not kernel:
        return 'no guest: eval "$(scripts/guest.sh)" fetches one where apt-get may'
    if not list(Path(kernel).glob("boot/vmlinuz-*")):
        return f"DRIVEBAY_GUEST_KERNEL: {kernel} has no boot/vmlinuz-*"
    lacking = [name for name in PROGRAMS if program_of(name) is None]
    lacking += [] if program_of("nvme") else ["nvme (nvme-cli)"]
    lacking += [] if PYTHON.exists() else [str(PYTHON)]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


def program_of(name: str) -> Path | None:
    more = os.environ.get("DRIVEBAY_GUEST_TOOLS", "")
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:{more}/usr/sbin:{more}/sbin"
    found = shutil.which(name, path=path)
    return None if found is None else Path(found)


@dataclass(frozen=True)
class Job:
    """What a guest runs, with the modules and programs that it needs besides nvme-cli; `devices`
    are QEMU's options for its drives."""

    script: str
    devices: Sequence[str]
    modules: Sequence[str] = MODULES
    programs: Sequence[str] = ()


def boot(folder: Path, job: Job) -> list[dict[str, Any]]:
    """Boot the guest; what its job printed, line by line."""
    kernel = Path(os.environ["DRIVEBAY_GUEST_KERNEL"])
    initrd = _initramfs(folder / "root", kernel, job)
    done = subprocess.run(
        [
            *("qemu-system-x86_64", "-accel", "tcg", "-machine", "q35", "-smp", "1", "-m", "768"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio"),
            *("-no-reboot", "-kernel", str(next(kernel.glob("boot/vmlinuz-*")))),
            *("-initrd", str(initrd), "-append"),
            "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off no_timer_check",
            *job.devices,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    lines = [line[line.index("{") :] for line in done.stdout.splitlines() if "JOB {" in line]
    assert lines, done.stdout[-4000:] + done.stderr[-1000:]
    return [json.loads(line) for line in lines]


def disk(path: Path, size_bytes: int, *, name: str) -> list[str]:
    """A new image of this size, as the drive of this name for a device of QEMU."""
    with path.open("wb") as file:
        file.truncate(size_bytes)
    return ["-drive", f"if=none,id={name},format=raw,discard=unmap,file={path}"]


def _initramfs(root: Path, kernel: Path, job: Job) -> Path:
    (root / "bin").mkdir(parents=True)
    busybox = program_of("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    nvme, wipefs = program_of("nvme"), program_of("wipefs")
    assert nvme is not None and wipefs is not None
    more = [path for name in job.programs if (path := program_of(name)) is not None]
    for program in (PYTHON.resolve(), nvme, wipefs, *more):
        copy_with_libraries(program, root)
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    if not (root / "usr/bin/python3").exists():
        (root / "usr/bin/python3").symlink_to(PYTHON.resolve().name)
    version = PYTHON.resolve().name
    library = Path("/usr/lib") / version
    skip = shutil.ignore_patterns("test", "idlelib", "lib2to3", "ensurepip", "pydoc*", "config-*")
    shutil.copytree(library, root / "usr/lib" / version, ignore=skip, symlinks=True)
    for extension in library.glob("lib-dynload/*.so"):
        _copy_libraries_of(extension, root)
    for source in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.toml")]:
        target = root / "project/drivebay" / source.relative_to(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    shutil.copy(HERE / job.script, root / "job.py")
    copy_modules(kernel, root, job.modules)
    return pack(root, INIT)


def pack(root: Path, script: str) -> Path:
    """The folder as an initramfs that begins with this script."""
    init = root / "init"
    init.write_text(script)
    init.chmod(0o755)
    image = root.with_suffix(".cpio")
    names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
    with image.open("wb") as out:
        subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=out, check=True
        )
    return image


def copy_with_libraries(program: Path, root: Path) -> None:
    folder = "usr/bin" if program.parent.name == "bin" else "usr/sbin"
    (root / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(program, root / folder / program.name)
    _copy_libraries_of(program, root)


def _copy_libraries_of(program: Path, root: Path) -> None:
    tools = os.environ.get("DRIVEBAY_GUEST_TOOLS", "")
    found = [
        path for sub in ("usr/lib", "lib") for path in Path(tools or "/none", sub).glob("*-gnu")
    ]
    paths = ":".join(map(str, found))
    said = subprocess.run(
        ["ldd", str(program)],
        capture_output=True,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": paths},
        check=False,
    ).stdout
    for found in re.findall(r"(/[^ )\n]+)", said):
        if not Path(found).exists():
            continue
        loader = "/ld-linux" in found
        target = root / found.lstrip("/") if loader else root / "guest-lib" / Path(found).name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy(Path(found).resolve(), target)


def copy_modules(kernel: Path, root: Path, modules: Sequence[str]) -> None:
    """The modules and what they depend on, in the order in which they must be loaded; what is built
    into the kernel is there without."""
    lists = kernel.rglob("modules.builtin")
    built_in = {Path(line).stem.replace("-", "_") for one in lists for line in one.open()}
    have = {path.stem.replace("-", "_"): path for path in kernel.rglob("*.ko")}
    order: list[str] = []

    def add(name: str) -> None:
        if name.replace("-", "_") in built_in or (name in MERGED and name not in have):
            return
        path = have[name.replace("-", "_")]
        if path.name in order:
            return
        said = subprocess.run(
            ["/usr/sbin/modinfo", "-F", "depends", str(path)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for needed in filter(None, said.strip().split(",")):
            add(needed)
        order.append(path.name)
        (root / "modules").mkdir(exist_ok=True)
        shutil.copy(path, root / "modules" / path.name)

    for module in modules:
        add(module)
    (root / "modules.order").write_text("\n".join(order) + "\n")
