"""Conversion of disk images to the raw files that the core reads.

The first bytes identify the format: qcow2 (QEMU, docs/interop/qcow2.txt), VMDK and VHDX (their
specifications). QEMU's `qemu-img`, which uses the same names, reads images along with their backing
files.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from drivebay.common import documents
from drivebay.common.errors import EnvironmentProblem

MAGICS = {b"QFI\xfb": "qcow2", b"KDMV": "vmdk", b"vhdxfile": "vhdx"}


@contextlib.contextmanager
def as_raw(path: Path, folder: Path | None) -> Iterator[Path]:
    """Yields the image itself if it is raw, otherwise a sparse copy in a file without a name.

    A process that opens the copy can keep it. `folder` is the place of the copy (default: TMPDIR).
    Raises EnvironmentProblem if qemu-img is missing or cannot read the image.
    """
    kind = _kind(path)
    if kind is None:
        yield path
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        fd = file.fileno()
        copy = f"/proc/self/fd/{fd}"
        # An absolute path, as QEMU reads a prefix with a colon in a relative one as a protocol.
        source = str(path.absolute())
        command = ["qemu-img", "convert", "-f", kind, "-O", "raw", "--", source, copy]
        byhand = f"qemu-img convert -O raw {path} disk.raw"
        try:
            done = subprocess.run(command, capture_output=True, check=False, pass_fds=[fd])
        except OSError:
            raise EnvironmentProblem(
                f"{path} is {kind}, which needs qemu-img: that is not installed",
                f"apt-get install qemu-utils; or where it is: {byhand}",
            ) from None
        if done.returncode != 0:
            said = (documents.text(done.stderr).strip().splitlines() or ["it does not say why"])[0]
            raise EnvironmentProblem(f"{path} cannot be read: {said:.300}", byhand)
        yield Path(copy)


def _kind(path: Path) -> str | None:
    """Format of an image; None if it is raw or not a readable file."""
    with contextlib.suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                begin = file.read(8)
            return next((kind for magic, kind in MAGICS.items() if begin.startswith(magic)), None)
    return None
