"""Policy plug-ins: compiled code that takes decisions of a virtual drive, found by its name.

Code gets into this process in three ways, each the owner's: `load` with a path, as the command
line's --policy does; `from_functions` with the addresses of functions; or by its name from the
files and folders of the environment variable DRIVEBAY_POLICIES. A profile, a suite or a sweep only
names a plug-in, and a name is no path.

A profile keeps "name@digest": what of a plug-in decides is its code, so another build of it is
another drive, whose results are not mixed up with those of the first. The digest is the first 16
digits of the SHA-256 of the file. What is hashed is what runs: the bytes are loaded from memory, so
that a file which is built anew in between does not matter.

The structures are those of `policy_template/policy.h`. Left out: unloading; a library stays as long
as the process.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay import _core
from drivebay.common.errors import EnvironmentProblem, UserError, did_you_mean
from drivebay.common.files import system_errors
from drivebay.definitions import leaves

VARIABLE = "DRIVEBAY_POLICIES"
"""Files and folders where plug-ins are looked for by their names, as PATH has them."""
TEMPLATE = Path(__file__).resolve().parent / "policy_template"
"""What `drivebay new-policy` begins with."""
EXPORT = "drivebay_policy"


class DriveView(ctypes.Structure):
    """What every decision sees of the drive; pages are of 4 KiB."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in (
            "user_pages", "free_pages", "start_free_pages", "target_free_pages",
        )),
        *((name, ctypes.c_uint32) for name in (
            "superblock_pages", "superblocks", "free_superblocks", "reserve_superblocks",
        )),
    ]  # fmt: skip


class SuperblockView(ctypes.Structure):
    """A superblock as a plug-in sees it."""

    _fields_ = [
        ("age", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in (
            "valid", "erases", "state", "stream", "candidate", "reserved",
        )),
    ]  # fmt: skip


class HostWrite(ctypes.Structure):
    """A write of the host that needs a frontier."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("lpn", "lifespan_pages", "mean_lifespan_pages")),
        *((name, ctypes.c_uint32) for name in ("pages", "replaced_stream")),
    ]


class Pace(ctypes.Structure):
    """How much garbage collection runs behind a command, in 1/256."""

    _fields_ = [("gain_256", ctypes.c_uint64), ("duty_256", ctypes.c_uint64)]


class DieRead(ctypes.Structure):
    """A read that meets a program or an erase on its die; nanoseconds."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in (
            "read_ns", "running_ns", "all_ns", "suspend_ns", "waited_ns",
        )),
        *((name, ctypes.c_uint32) for name in ("writes", "die")),
    ]  # fmt: skip


class RetriedRead(ctypes.Structure):
    """A flash read that needed retries."""

    _fields_ = [
        ("age_ns", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in (
            "superblock", "retries", "retries_max", "lost", "reads", "cycles",
        )),
    ]  # fmt: skip


_DRIVE = ctypes.POINTER(DriveView)
StateBytes = ctypes.CFUNCTYPE(ctypes.c_uint64, _DRIVE)
Start = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _DRIVE, ctypes.c_uint64)
ChooseVictim = ctypes.CFUNCTYPE(
    ctypes.c_uint32, ctypes.c_void_p, _DRIVE, ctypes.POINTER(SuperblockView)
)
LevelWear = OpenSuperblock = ChooseVictim
PlaceWrite = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, _DRIVE, ctypes.POINTER(HostWrite))
SetPace = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _DRIVE, ctypes.c_uint64, ctypes.POINTER(Pace))

ScheduleRead = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, _DRIVE, ctypes.POINTER(DieRead))
ReadRetried = ctypes.CFUNCTYPE(
    ctypes.c_uint32, ctypes.c_void_p, _DRIVE, ctypes.POINTER(RetriedRead)
)

FUNCTIONS = (
    *("state_bytes", "start", "choose_victim", "place_write", "set_pace", "level_wear"),
    *("open_superblock", "schedule_read", "read_retried"),
)


class Table(ctypes.Structure):
    """The functions of a plug-in, in the order of `policy.h`; none where the drive decides."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("abi", "size")),
        *((name, ctypes.c_void_p) for name in FUNCTIONS),
    ]


@dataclass(frozen=True)
class Policy:
    """A plug-in that is loaded.

    Attributes
    ----------
    name
        As profiles name it: a file's name without "lib" and its suffix.
    digest
        16 hexadecimal digits that tell its code from any other.
    core
        What the core calls.
    """

    name: str
    digest: str
    core: _core.Policy

    @property
    def reference(self) -> str:
        """What a profile keeps: "name@digest"."""
        return f"{self.name}@{self.digest}"


_lock = threading.Lock()
_loaded: dict[str, Policy] = {}
_kept: list[Any] = []
"""Libraries and functions that must not go away."""


def load(path: str | Path) -> Policy:
    """Loads a plug-in's library. This runs its code, with all rights of this process.

    Raises
    ------
    EnvironmentProblem
        If the file cannot be read or is no library for this machine.
    UserError
        If it is no plug-in, or one of another version.
    """
    path = Path(path)
    with system_errors(
        f"policy {path} cannot be read",
        "build it: cargo build --release; it is then in target/release",
    ):
        content = path.read_bytes()
    name, digest = _name_of(path), hashlib.sha256(content).hexdigest()[:16]
    with _lock:
        known = _loaded.get(f"{name}@{digest}")
        return known or _enter(name, digest, _core.Policy.from_table(
            f"{name}@{digest}", _table(content, path)
        ))  # fmt: skip


def from_functions(name: str, *, version: str, **functions: Any) -> Policy:
    """A plug-in of compiled functions: ctypes functions (`policies.ChooseVictim(f)`), or their
    addresses (numba: `f.address`). What they are asked and may answer says `policy.h`.

    Parameters
    ----------
    name
        Letters, digits, - and _.
    version
        What tells these functions from others of that name, in results as well: raise it with
        every change of theirs.
    functions
        state_bytes, start: how much state a drive's copy of it has, and what stands in it at first.
        choose_victim, place_write, set_pace, level_wear, open_superblock, schedule_read,
        read_retried: the decisions; what is left out the drive decides. They are kept as long as
        the process, and belong to it: a process of another kind, such as a sweep's worker, does not
        have them.

    Raises
    ------
    UserError
        If a name is not allowed, or nothing is decided.
    """
    if foreign := sorted(set(functions) - set(FUNCTIONS)):
        hint = did_you_mean(foreign[0], FUNCTIONS) + f"functions are {', '.join(FUNCTIONS)}"
        raise UserError(f"policy {name}: there is no function {foreign[0]}", hint)
    digest = hashlib.sha256(version.encode()).hexdigest()[:16]
    addresses = {key: _address(one) for key, one in functions.items() if one is not None}
    table = Table(abi=1, size=ctypes.sizeof(Table), **addresses)
    with _lock:
        _kept.extend((functions, table))
        core = _core.Policy.from_table(f"{name}@{digest}", ctypes.addressof(table))
        return _enter(name, digest, core)


OWN = tuple(word for word, _, _ in _core.victim_policies())
"""Victim policies of the drive itself, words of gc.victim_policy."""


def find(name: str) -> Policy:
    """The plug-in "name" or "name@digest": one that is loaded, or that DRIVEBAY_POLICIES has.

    Raises
    ------
    UserError
        If there is none, or several are loaded and the digest is not said.
    """
    found = _matching(name)
    if not found:
        for path in _offered():
            if _name_of(path) == name.partition("@")[0]:
                load(path)
        found = _matching(name)
    if len(found) == 1:
        return found[0]
    plain, _, digest = name.partition("@")
    others = ", ".join(one.reference for one in _matching(plain))
    load_it = f"load its file: --policy FILE, {VARIABLE}=FOLDER, or drivebay.load_policy(FILE)"
    if found:
        raise UserError(f"policy {name}: several are loaded: {others}", "name one with its digest")
    if digest and others:
        raise UserError(f"policy {name}: another build of it is loaded: {others}", load_it)
    known = {one.name for one in _loaded.values()} | {_name_of(path) for path in _offered()}
    own = did_you_mean(plain, OWN, "victim_policy=")
    raise UserError(f"policy {name} is not loaded", (did_you_mean(plain, known) or own) + load_it)


def offer(path: str | Path) -> Policy:
    """As `load`, for the processes that this one starts as well: they find it by its name."""
    policy = load(path)
    others = os.environ.get(VARIABLE, "")
    first = str(Path(path).resolve())
    os.environ[VARIABLE] = os.pathsep.join(filter(None, (first, others)))
    return policy


def pinned(raw: dict[str, Any]) -> dict[str, Any]:
    """The profile, naming its plug-in with the digest."""
    leaf = _leaf(raw)
    if leaf is None:
        return raw
    reference = find(leaf["value"]).reference
    return raw | {"gc": raw["gc"] | {"plugin": leaf | {"value": reference}}}


def of_profile(raw: Mapping[str, Any]) -> Policy | None:
    """The plug-in that a profile names, if any."""
    leaf = _leaf(raw)
    return None if leaf is None else find(leaf["value"])


def _some(_: int, other: int) -> bool:
    return other > 0


EFFECTS: tuple[tuple[str, Callable[[int, int], bool], str, str], ...] = (
    ("victims", lambda victims, alike: victims > alike,
     "it was never asked for a victim, as garbage collection needed none",
     "all candidates for a victim held as many valid pages whenever it was asked"),
    ("writes", lambda writes, second: 0 < second < writes,
     "it was never asked for a frontier", "it put all writes at one frontier"),
    ("paces", _some,
     "it was never asked for the pace, as garbage collection did not run behind a write",
     "it left the pace of garbage collection as it was"),
    ("levelings", _some,
     "it was never asked what wear levelling is to move, as nothing was collected",
     "it had nothing moved for wear"),
    ("opens", _some, "it was never asked for a superblock to open",
     "it opened the superblocks that the drive itself would have opened"),
    ("die_reads", _some, "no read met a program or an erase", "it had no read wait"),
    ("retried", _some, "no read needed a retry", "it had nothing moved after retries"),
)  # fmt: skip
"""Of each decision the counts of `Decisions`, when it mattered, and why it did not: because it was
never asked, or by its answers."""


def without_effect(policy: Policy, asked: _core.Decisions) -> Iterator[str]:
    """Why a decision of the plug-in cannot have changed what a drive did, in sentences."""

    def said(why: str) -> str:
        return f"policy {policy.name}: {why}, so this decision has changed nothing"

    for name, matters, never, same in EFFECTS:
        counts = getattr(asked, name)
        if counts is not None and not matters(*counts):
            yield said(same if counts[0] else never)


def _leaf(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """The profile's `gc.plugin`, if it has one; what is malformed the core will refuse."""
    leaf = leaves.at(raw, "gc.plugin")
    return leaf if isinstance(leaf, dict) and isinstance(leaf.get("value"), str) else None


def _matching(name: str) -> list[Policy]:
    """Loaded plug-ins of that name, or the one of that name and digest."""
    plain, _, digest = name.partition("@")
    return [one for one in _loaded.values() if one.name == plain and digest in ("", one.digest)]


def _name_of(path: Path) -> str:
    """
    >>> _name_of(Path("target/release/libwindowed.so")), _name_of(Path("greedy.so"))
    ('windowed', 'greedy')
    """
    return path.name.partition(".")[0].removeprefix("lib")


def _offered() -> Iterator[Path]:
    """The libraries of DRIVEBAY_POLICIES, in its order."""
    for entry in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        path = Path(entry)
        yield from sorted(path.glob("*.so")) if path.is_dir() else [path]


def _enter(name: str, digest: str, core: _core.Policy) -> Policy:
    policy = _loaded[f"{name}@{digest}"] = Policy(name, digest, core)
    return policy


def _table(content: bytes, path: Path) -> int:
    """The address of the library's table; the library is loaded from these bytes."""
    # The descriptor stays open: the loader knows a library by its path, which must not come again.
    file = os.memfd_create(path.name, os.MFD_CLOEXEC)
    with os.fdopen(os.dup(file), "wb") as memory:
        memory.write(content)
    try:
        library = ctypes.CDLL(f"/proc/self/fd/{file}", mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError as error:
        why = str(error).removeprefix(f"/proc/self/fd/{file}: ")
        raise EnvironmentProblem(
            f"policy {path} is no shared library for this machine: {why}",
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
    """Where a function's code is: of an address itself, of ctypes, or of numba's `cfunc`."""
    if isinstance(function, int):
        return function
    if hasattr(function, "address"):
        return int(function.address)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
