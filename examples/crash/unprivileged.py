#!/usr/bin/env python3
"""What mounted.py does, without root: a workload runs on a file system of user-mode Linux, a Linux
kernel that is a process of the user (`apt-get install user-mode-linux`), and a check runs on the
files that e2fsprogs takes out of a state.

usage: unprivileged.py --make ext4 [--noise N] [--seed N] [--strace] -- COMMAND...
       unprivileged.py FILE [-- COMMAND...]

With --make the file system is made on the drive at $DRIVEBAY_NBD, and the command runs in its root
inside user-mode Linux, which sees the files of this machine. Without it, e2fsck replays the journal
of FILE and checks the file system, and the command runs in a folder with the files. The drive is
connected by qemu-storage-daemon (`apt-get install qemu-system-common`): user-mode Linux's own
driver, ubd, ignores flushes. Standard library only, so that it can be copied with mounted.py.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import mounted

LINE = "/dev/ttyS0"
"""Serial line of the guest, on which marks leave it."""


def forward(line: int, reply: int) -> None:
    """Sends the guest's marks to the recording; ends with the guest."""
    with (
        os.fdopen(line, "rb", buffering=0) as lines,
        os.fdopen(reply, "wb", buffering=0) as replies,
    ):
        rest = b""
        while piece := lines.read(4096):
            *whole, rest = (rest + piece).replace(b"\r", b"").split(b"\n")
            for text in whole:
                if text.startswith(b"mark "):
                    with socket.socket(socket.AF_UNIX) as control:
                        control.connect(os.environ["DRIVEBAY_CONTROL"])
                        control.sendall(text + b"\n")
                        replies.write(control.recv(4096).split(b"\n")[0] + b"\n")


def work(asked: argparse.Namespace, run: list[str]) -> int:
    """Runs the command in user-mode Linux; its exit code."""
    with tempfile.TemporaryDirectory(prefix="drivebay-uml-") as name:
        folder = Path(name)
        words = [sys.executable, str(Path(__file__).resolve()), "--inside", name]
        (folder / "init").write_text(f"#!/bin/sh\nexec {' '.join(words)}\n")
        (folder / "init").chmod(0o755)
        inside = {"run": run, "noise": asked.noise, "seed": asked.seed, "env": dict(os.environ)}
        (folder / "asked.json").write_text(json.dumps(inside))
        disk = serve(folder)
        marks, guest_out = os.pipe()
        guest_in, replies = os.pipe()
        thread = threading.Thread(target=forward, args=(marks, replies), daemon=True)
        thread.start()
        command = ["linux.uml", "mem=1G", "rootfstype=hostfs", "rw", "quiet", "con=null"]
        command += [f"virtio_uml.device={folder}/disk:2", f"init={folder}/init", "con0=null,fd:1"]
        command += [f"ssl0=fd:{guest_in},fd:{guest_out}", "ssl=null", f"uml_dir={folder}"]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(guest_in, guest_out),
            env={**os.environ, "TMPDIR": name, "HOME": name},
            check=False,
        )
        os.close(guest_in)
        os.close(guest_out)
        thread.join()
        disk.terminate()
        disk.wait()
        if not (folder / "code").exists():
            sys.exit(f"user-mode Linux fails: {done.stdout.decode(errors='replace')[-2000:]}")
        sys.stderr.buffer.write((folder / "output").read_bytes())
        return int((folder / "code").read_text())


def serve(folder: Path) -> subprocess.Popen[bytes]:
    """Starts the daemon that makes the drive a device of the guest."""
    drive = os.environ["DRIVEBAY_NBD"].partition("socket=")[2]
    nbd = f"driver=nbd,node-name=drive,server.type=unix,server.path={drive}"
    export = (
        f"vhost-user-blk,id=disk,node-name=drive,writable=on,addr.type=unix,addr.path={folder}/disk"
    )
    words = ["qemu-storage-daemon", "--blockdev", nbd, "--export", export]
    daemon = subprocess.Popen(words)
    while not (folder / "disk").exists():
        if daemon.poll() is not None:
            sys.exit("qemu-storage-daemon does not start")
        time.sleep(0.01)
    return daemon


class Marks(socketserver.StreamRequestHandler):
    """The control socket inside the guest: a line to the host, and its answer."""

    def handle(self) -> None:
        with self.server.lock, open(LINE, "r+b", buffering=0) as line:  # type: ignore[attr-defined]
            line.write(self.rfile.readline())
            self.wfile.write(line.readline())


def inside(folder: Path) -> None:
    """Process 1 of the guest: mounts, runs the command, and halts."""
    for kind, where in (
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("tmpfs", "/run"),
        ("tmpfs", "/dev/shm"),
    ):
        subprocess.run(["mount", "-t", kind, kind, where], check=False)
    module = f"/usr/lib/uml/modules/{os.uname().release}/kernel/drivers/block/virtio_blk.ko"
    subprocess.run(["insmod", module], check=False)
    # By default the driver asks for a flush after each write.
    Path("/sys/block/vda/cache_type").write_text("write back")
    asked = json.loads((folder / "asked.json").read_text())
    subprocess.run(["stty", "-F", LINE, "raw", "-echo"], check=False)
    code = 1
    with open(folder / "output", "wb") as output:
        make = [*mounted.MAKE["ext4"], "/dev/vda"]
        mount = ["mount", "-t", "ext4", "/dev/vda", mounted.FOLDER]
        steps = [subprocess.call(words, stderr=output) for words in (make, mount)]
        if steps == [0, 0]:
            with socketserver.ThreadingUnixStreamServer("/run/control", Marks) as marks:
                marks.lock = threading.Lock()  # type: ignore[attr-defined]
                threading.Thread(target=marks.serve_forever, daemon=True).start()
                end = threading.Event()
                rate, seed = asked["noise"], asked["seed"]
                noise = threading.Thread(target=mounted.make_noise, args=(rate, seed, end))
                if rate:
                    noise.start()
                code = subprocess.run(
                    asked["run"],
                    cwd=mounted.FOLDER,
                    env={**asked["env"], "DRIVEBAY_CONTROL": "/run/control"},
                    stdout=output,
                    stderr=output,
                    check=False,
                ).returncode
                end.set()
                if rate:
                    noise.join()
            subprocess.run(["umount", mounted.FOLDER], stderr=output, check=False)
    (folder / "code").write_text(str(code))
    os.sync()
    subprocess.run(["halt", "-f"], check=False)


def check(file: str, run: list[str]) -> int:
    """Replays the journal of a state, checks it, and runs the command on its files."""
    replayed = subprocess.run(
        ["e2fsck", "-f", "-p", file], capture_output=True, text=True, check=False
    )
    if replayed.returncode > 1:
        sys.exit(f"e2fsck: {(replayed.stdout + replayed.stderr).strip()}")
    mounted.command(*mounted.CHECK["ext4"], file)
    if not run:
        return 0
    with tempfile.TemporaryDirectory(prefix="drivebay-files-", dir=os.path.dirname(file)) as name:
        mounted.command("debugfs", "-R", f"rdump / {name}", file)
        return subprocess.run(run, cwd=name, check=False).returncode


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["--inside"]:
        inside(Path(words[1]))
        return 0
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--make", choices=["ext4"])
    parser.add_argument("--noise", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strace", action="store_true")
    parser.add_argument("file", nargs="?")
    asked, run = parser.parse_args(words[:at]), words[at + 1 :]
    run = mounted.traced(run) if asked.strace else run
    return work(asked, run) if asked.make else check(asked.file, run)


if __name__ == "__main__":
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    sys.exit(main())
