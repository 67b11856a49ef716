"""Policy plug-ins: compiled code that takes decisions of a virtual drive, found by name.

Code enters this process in three ways, each under its owner's control: `load` with a path, as the
command line's --policy does; `from_functions` with the addresses of functions; or by name from the
files and folders of the environment variable DRIVEBAY_POLICIES. A profile, a suite or a sweep only
names a plug-in, and a name is not a path.

A profile stores "name@digest". A plug-in's decisions follow from its code, so another build of it
makes another drive, whose results are not mixed with those of the first. The digest is the first 16
digits of the SHA-256 of the file. The hashed bytes are the ones that run: they are loaded from
memory, so rebuilding the file in between has no effect.

The structures are those of `policy_template/policy.h`. Leaves out: unloading; a library stays
loaded as long as the process runs.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay import _core
from drivebay.common import documents
from drivebay.common.errors import EnvironmentProblem, UserError, did_you_mean
from drivebay.common.files import system_errors
from drivebay.definitions import leaves

# Environment variable with the files and folders where plug-ins are searched, separated as in
# PATH.
VARIABLE = "DRIVEBAY_POLICIES"
# Project that `drivebay new-policy` copies.
TEMPLATE = Path(__file__).resolve().parent / "policy_template"
EXPORT = "drivebay_policy"


def _fields(longs: str, words: str = "") -> list[tuple[str, Any]]:
    """Fields of a structure: those of 64 bits, then those of 32 bits."""
    kinds = {ctypes.c_uint64: longs, ctypes.c_uint32: words}
    return [(name, kind) for kind, names in kinds.items() for name in names.split()]


class DriveView(ctypes.Structure):
    """State of the drive that every decision receives; a page has 4 KiB."""

    _fields_ = _fields(
        "user_pages free_pages start_free_pages target_free_pages",
        "superblock_pages superblocks free_superblocks reserve_superblocks",
    )


class SuperblockView(ctypes.Structure):
    """State of a superblock that decisions receive."""

    _fields_ = _fields("age", "valid erases state stream candidate reserved")


class HostWrite(ctypes.Structure):
    """A host write that needs a frontier."""

    _fields_ = _fields("lpn lifespan_pages mean_lifespan_pages", "pages replaced_stream")


class Pace(ctypes.Structure):
    """Amount of garbage collection after a command, in 1/256."""

    _fields_ = _fields("gain_256 duty_256")


class DieRead(ctypes.Structure):
    """A read that meets a program or an erase on its die; times in nanoseconds."""

    _fields_ = _fields("read_ns running_ns all_ns suspend_ns waited_ns", "writes die")


class RetriedRead(ctypes.Structure):
    """A flash read that needed retries."""

    _fields_ = _fields("age_ns", "superblock retries retries_max lost reads cycles")


_DRIVE = ctypes.POINTER(DriveView)
StateBytes = ctypes.CFUNCTYPE(ctypes.c_uint64, _DRIVE)
Start = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _DRIVE, ctypes.c_uint64)
ChooseVictim, PlaceWrite, ScheduleRead, ReadRetried = (
    ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, _DRIVE, ctypes.POINTER(view))
    for view in (SuperblockView, HostWrite, DieRead, RetriedRead)
)
LevelWear = OpenSuperblock = ChooseVictim
SetPace = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _DRIVE, ctypes.c_uint64, ctypes.POINTER(Pace))

FUNCTIONS = (
    *("state_bytes", "start", "choose_victim", "place_write", "set_pace", "level_wear"),
    *("open_superblock", "schedule_read", "read_retried"),
)


class Table(ctypes.Structure):
    """The functions of a plug-in, in the order of `policy.h`; null for decisions left to the
    drive.
    """

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("abi", "size")),
        *((name, ctypes.c_void_p) for name in FUNCTIONS),
    ]


@dataclass(frozen=True)
class Policy:
    """A loaded plug-in.

    Attributes
    ----------
    name
        As profiles name it: the file's name without "lib" and its suffix.
    digest
        16 hexadecimal digits that identify its code.
    core
        The plug-in as the core calls it.
    """

    name: str
    digest: str
    core: _core.Policy

    @property
    def reference(self) -> str:
        """Reference that profiles store: "name@digest"."""
        return f"{self.name}@{self.digest}"


_lock = threading.Lock()
_loaded: dict[str, Policy] = {}
# Libraries and functions that must stay loaded.
_kept: list[Any] = []


def load(path: str | Path) -> Policy:
    """Loads a plug-in's library. This runs its code, with all rights of this process.

    Raises
    ------
    EnvironmentProblem
        If the file cannot be read or is not a library for this machine.
    UserError
        If it is not a plug-in, or is one of another version.
    """
    path = Path(path)
    with system_errors(
        f"policy {path} cannot be read",
        "build it: cargo build --release; it is then in target/release",
    ):
        content = path.read_bytes()
    name, digest = _name_of(path), hashlib.sha256(content).hexdigest()[:16]
    with _lock:
        return _loaded.get(f"{name}@{digest}") or _enter(name, digest, _table(content, path))


def from_functions(name: str, *, version: str, **functions: Any) -> Policy:
    """Makes a plug-in of compiled functions: ctypes functions (`policies.ChooseVictim(f)`), or
    their addresses (numba: `f.address`). `policy.h` defines their arguments and return values.

    Parameters
    ----------
    name
        Letters, digits, - and _.
    version
        Distinguishes these functions from others of the same name, in results too: raise it
        whenever they change.
    functions
        state_bytes, start: size and initial content of the state that each drive keeps for the
        plug-in. choose_victim, place_write, set_pace, level_wear, open_superblock, schedule_read,
        read_retried: the decisions; the drive takes those that are missing. The functions stay
        loaded as long as the process runs; other processes, such as a sweep's workers, do not have
        them.

    Raises
    ------
    UserError
        If a name is not allowed, or no decision is given.
    """
    if foreign := sorted(set(functions) - set(FUNCTIONS)):
        hint = did_you_mean(foreign[0], FUNCTIONS) + f"functions are {', '.join(FUNCTIONS)}"
        raise UserError(f"policy {name}: there is no function {foreign[0]}", hint)
    digest = hashlib.sha256(version.encode()).hexdigest()[:16]
    addresses = {
        key: _address(function) for key, function in functions.items() if function is not None
    }
    table = Table(abi=1, size=ctypes.sizeof(Table), **addresses)
    with _lock:
        _kept.extend((functions, table))
        return _enter(name, digest, ctypes.addressof(table))


# The drive's own victim policies, which a profile selects by gc.victim_policy.
OWN = tuple(word for word, _, _ in _core.victim_policies())


def find(name: str) -> Policy:
    """Finds the plug-in "name" or "name@digest" among the loaded ones and those of
    DRIVEBAY_POLICIES.

    Raises
    ------
    UserError
        If there is none, or several are loaded and `name` has no digest.
    """
    matches = _matching(name)
    if not matches:
        for path in _offered():
            if _name_of(path) == name.partition("@")[0]:
                load(path)
        matches = _matching(name)
    if len(matches) == 1:
        return matches[0]
    plain, _, digest = name.partition("@")
    others = ", ".join(policy.reference for policy in _matching(plain))
    load_it = f"load its file: --policy FILE, {VARIABLE}=FOLDER, or drivebay.load_policy(FILE)"
    if matches:
        raise UserError(f"policy {name}: several are loaded: {others}", "name one with its digest")
    if digest and others:
        raise UserError(f"policy {name}: another build of it is loaded: {others}", load_it)
    known = {policy.name for policy in _loaded.values()} | {_name_of(path) for path in _offered()}
    own = did_you_mean(plain, OWN, "victim_policy=")
    raise UserError(f"policy {name} is not loaded", (did_you_mean(plain, known) or own) + load_it)


def offer(path: str | Path) -> Policy:
    """Loads a plug-in as `load` does, and makes it available by name to the processes that this
    one starts.
    """
    policy = load(path)
    others = os.environ.get(VARIABLE, "")
    first = str(Path(path).resolve())
    os.environ[VARIABLE] = os.pathsep.join(filter(None, (first, others)))
    return policy


def pinned(raw: dict[str, Any]) -> dict[str, Any]:
    """Returns the profile with the digest added to its plug-in's name."""
    leaf = _leaf(raw)
    if leaf is None:
        return raw
    reference = find(leaf["value"]).reference
    return raw | {"gc": raw["gc"] | {"plugin": leaf | {"value": reference}}}


def of_profile(raw: Mapping[str, Any]) -> Policy | None:
    """The plug-in that a profile names, if any."""
    leaf = _leaf(raw)
    return None if leaf is None else find(leaf["value"])


# For each decision, by its field of `Decisions`: reasons why it may have had no effect.
EFFECTS: Mapping[str, Mapping[str, str]] = documents.beside(__file__, "effects.toml")


def _matters(decision: str, asked: int, other: int) -> bool:
    """True if a decision had an effect. `other` is its second count in `Decisions`: victims
    without a choice, writes to the second frontier; otherwise decisions that changed something.
    """
    if decision == "victims":
        return asked > other
    return 0 < other < asked if decision == "writes" else other > 0


def without_effect(policy: Policy, asked: _core.Decisions) -> Iterator[str]:
    """Explains, in sentences, which decisions of the plug-in cannot have changed the drive's
    behaviour.
    """

    def sentence(why: str) -> str:
        return f"policy {policy.name}: {why}, so this decision has changed nothing"

    for decision, reasons in EFFECTS.items():
        counts = getattr(asked, decision)
        if counts is not None and not _matters(decision, *counts):
            yield sentence(reasons["same" if counts[0] else "never"])


def _leaf(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """The profile's `gc.plugin`, if any; the core refuses a malformed one."""
    leaf = leaves.at(raw, "gc.plugin")
    return leaf if isinstance(leaf, dict) and isinstance(leaf.get("value"), str) else None


def _matching(name: str) -> list[Policy]:
    """Loaded plug-ins of that name, or the one of that name and digest."""
    plain, _, digest = name.partition("@")
    return [
        policy
        for policy in _loaded.values()
        if policy.name == plain and digest in ("", policy.digest)
    ]


def _name_of(path: Path) -> str:
    """Name of the plug-in in a file.

    >>> _name_of(Path("target/release/libwindowed.so")), _name_of(Path("greedy.so"))
    ('windowed', 'greedy')
    """
    return path.name.partition(".")[0].removeprefix("lib")


def _offered() -> Iterator[Path]:
    """The libraries listed in DRIVEBAY_POLICIES, in its order."""
    for entry in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        path = Path(entry)
        yield from sorted(path.glob("*.so")) if path.is_dir() else [path]


def _enter(name: str, digest: str, table: int) -> Policy:
    """Makes a plug-in of the table at this address and enters it among the loaded ones."""
    reference = f"{name}@{digest}"
    policy = _loaded[reference] = Policy(name, digest, _core.Policy.from_table(reference, table))
    return policy


def _table(content: bytes, path: Path) -> int:
    """Loads a library from these bytes and returns the address of its table."""
    # The descriptor stays open: the loader identifies a library by its path, which must not be
    # reused.
    file = os.memfd_create(path.name, os.MFD_CLOEXEC)
    with os.fdopen(os.dup(file), "wb") as memory:
        memory.write(content)
    try:
        library = ctypes.CDLL(f"/proc/self/fd/{file}", mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError as error:
        why = str(error).removeprefix(f"/proc/self/fd/{file}: ")
        raise EnvironmentProblem(
            f"policy {path} is not a shared library for this machine: {why}",
            "build it here: cargo build --release, or cc -O2 -shared -fPIC",
        ) from None
    _kept.append(library)
    try:
        table = getattr(library, EXPORT)
    except AttributeError:
        raise UserError(
            f"policy {path}: the library does not export {EXPORT}",
            "begin with: drivebay new-policy NAME",
        ) from None
    table.restype, table.argtypes = ctypes.c_void_p, []
    return int(table() or 0)


def _address(function: Any) -> int:
    """Address of a function's code, given as an address, a ctypes function or numba's `cfunc`."""
    if isinstance(function, int):
        return function
    if hasattr(function, "address"):
        return int(function.address)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
