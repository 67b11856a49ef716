"""A state restored as a file, or as a drive that is served over NBD."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drivebay import _core, serving
from drivebay.common.errors import UserError
from drivebay.definitions import profiles
from drivebay.definitions.scaling import with_capacity

# Profile that serves states of recordings made elsewhere: it answers without the drive's timing.
ANY_DRIVE = "sm951-nvme-256"


def write(states: _core.CrashStates, state: str, file: Path) -> None:
    """Writes a state into a new file, sparse. Raises UserError if there is no such state;
    EnvironmentProblem if the file exists or cannot be written."""
    _core.CrashView(file).show(states, state)


@contextmanager
def served(states: _core.CrashStates, state: str, address: str) -> Iterator[serving.Server]:
    """Provides a server of a state, to be run; its hosts' writes stay in memory, over the state.
    Raises as `write` and `serving.Server`.
    """
    info = states.info()
    size = info["capacity_bytes"]
    with tempfile.TemporaryDirectory(prefix="drivebay-crash-") as folder:
        image = Path(folder) / "state"
        write(states, state, image)
        drive = serving.Drive(
            profile=with_capacity(_profile(info["drive"]), size),
            image=image,
            pace="none",
            namespaces=(serving.Namespace(size_bytes=size, start_bytes=0),),
        )
        yield serving.Server([drive], serving.Options(nbd=(address,)))


def _profile(name: str) -> profiles.Profile:
    try:
        return profiles.load(name or ANY_DRIVE)
    except UserError:  # the user's own profile, which was in a file
        return profiles.load(ANY_DRIVE)
