"""Meaning of the argument DRIVE: a catalog drive, a profile, a file or a block device."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from drivebay.cli import options
from drivebay.cli.output import say
from drivebay.common import documents, programs, units
from drivebay.common.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from drivebay.definitions.profiles import Profile
    from drivebay.targets.base import Target

ASK_ABOVE_S = 600


@functools.cache
def warn_of_path() -> None:
    """Warns once before programs run for a real drive, if root's PATH has unsafe folders."""
    if os.geteuid() == 0:
        for risk in programs.loose_folders(os.environ.get("PATH", "")):
            say(f"warning: PATH of root: {risk}; root would run fio and other programs from it")


def is_virtual(drive: str) -> bool:
    """True if DRIVE names a virtual drive, in any letter case unless a file has that name. `./NAME`
    is always a file."""
    from drivebay.definitions import profiles

    if drive.endswith(".toml") or drive in profiles.names():
        return True
    return drive.lower() in profiles.names() and not os.path.lexists(drive)


def in_host(
    host: str | None, changes: Sequence[str] | None, ailments: Sequence[str] | None = None
) -> list[str]:
    """Returns the changes of --host, --ailment and --set."""
    own = [*([] if host is None else [f"host={host}"]), *(f"ailment={a}" for a in ailments or ())]
    return [*own, *(changes or ())]


def with_policy(policy: Path | None, changes: Sequence[str] | None) -> list[str]:
    """Loads the file of --policy, and returns its change along with the others."""
    from drivebay.definitions import policies

    named = [] if policy is None else [f"policy={policies.offer(policy).reference}"]
    return [*named, *(changes or ())]


def modified_profile(
    drive: str, changes: Sequence[str] | None, capacity: str | None = None
) -> Profile:
    """Returns the virtual drive's profile with the changes of --set, scaled to --capacity."""
    from drivebay.definitions import profiles
    from drivebay.definitions.modifications import changed
    from drivebay.definitions.scaling import with_capacity

    profile = changed(profiles.load(drive), tuple(changes or ()))
    if capacity is None:
        return profile
    size = units.parse_bytes(capacity, option="--capacity")
    small = with_capacity(profile, size)
    if small.capacity_bytes > 1.1 * size:
        has = f"{small.name} has {units.si_bytes(small.capacity_bytes)}"
        say(f"note: --capacity {capacity}: {has}, the next larger size that its blocks allow")
    return small


def target_factory(
    drive: str, changes: Sequence[str] | None = None, *, events: bool = False, **real: Any
) -> Callable[[], Target]:
    """Returns a function that makes the target of DRIVE; `real` has arguments of `FioTarget`."""
    if is_virtual(drive):
        return virtual_factory(modified_profile(drive, changes), events=events)
    path = must_be_testable(drive)

    def make() -> Target:
        from drivebay.targets.fio.target import FioTarget

        return FioTarget(path, **{name: value for name, value in real.items() if value})

    return make


def virtual_factory(profile: Profile, *, events: bool = False) -> Callable[[], Target]:
    """Returns a function that makes virtual drives of this profile, which share prepared states.
    With `events` they record internal events."""
    from drivebay.targets.virtual.states import States
    from drivebay.targets.virtual.target import VirtualTarget

    states = States()
    return lambda: VirtualTarget(profile, states, events=events)


def check_options(ctx: Any, drive: str) -> None:
    """Refuses a bad DRIVE, and options that do not fit its kind."""
    if is_virtual(drive):
        options.refuse(ctx, options.REAL, drive)
    else:
        # A command without --size creates no file.
        must_be_testable(drive, ctx.command_path if "size" in ctx.params else "drivebay review")
        options.refuse(ctx, options.VIRTUAL, drive)


def must_be_testable(drive: str, command: str = "drivebay review") -> Path:
    """Returns the path of a real DRIVE. Raises UserError unless it is a file or block device with a
    UTF-8 name. `command` is the user's command, for hints."""
    from drivebay.definitions import profiles

    warn_of_path()
    path = Path(drive)
    _refuse_unless_utf8(path)
    if "/" not in drive and not path.exists():
        raise UserError(
            f"drive '{drive}' is unknown: there is no catalog drive and no file with this name",
            did_you_mean(drive, profiles.names()) + "see: drivebay drives",
        )
    make = _how_to_make(path, command)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", make) from None
    except NotADirectoryError:
        raise UserError(f"{path} does not exist: a parent in its path is a file", make) from None
    except OSError as problem:
        raise UserError(
            f"{path} cannot be examined: {problem.strerror}", f"see: ls -la {path.parent}"
        ) from None
    if stat.S_ISDIR(mode):
        raise UserError(
            f"{path} is a directory; DRIVE must be a catalog name, a .toml profile, a file or a "
            "block device",
            _how_to_make(path / "disk.img", command),
        )
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise UserError(f"{path} is neither a file nor a block device", "see: drivebay drives")
    return path


def _refuse_unless_utf8(path: Path) -> None:
    """Raises UserError unless the path and its target are UTF-8, as results and programs need."""
    for place in (str(path), str(path.absolute()), os.path.realpath(path)):
        if not documents.is_utf8(place):
            raise UserError(f"{documents.printable(place)}: its name is not UTF-8", "rename it")


def _how_to_make(path: Path, command: str) -> str:
    """Returns the hint for a path that does not exist; below /dev no file is created."""
    if path.absolute().is_relative_to("/dev"):
        return "see: drivebay drives"
    return f"create a file: {command} {shlex.quote(str(path))} --size 4G"


@contextlib.contextmanager
def new_file(drive: str, size: str | None) -> Iterator[Callable[[], object]]:
    """Context with the file of --size, if it is given; raises UserError if DRIVE is not a new
    file's name.

    An error removes the file, so that the same command works again, unless the function that this
    yields was called before: it keeps the file."""
    undo = []
    if size is not None:
        from drivebay.targets.safety import target_device

        _refuse_unless_utf8(Path(drive))
        size_bytes = units.parse_bytes(size, option="--size")
        if is_virtual(drive):
            raise UserError(f"--size has no meaning for the virtual drive {drive}", "leave it out")
        undo.append(target_device.create(drive, size_bytes))
    try:
        yield undo.clear
    except BaseException:
        for made in undo:
            made.undo()
        raise


def say_what_is_lost(target: Target) -> None:
    """Prints the real drive, and that its data will be lost."""
    known = target.identity()
    size = units.si_bytes(target.capacity_bytes)
    if target.kind == "block":
        model, serial = known.get("model") or "unknown", known.get("serial") or "unknown"
        say(f"device  {known.get('path', target.name)}: {model}, serial {serial}, {size}")
        say("        ALL DATA ON IT WILL BE LOST")
    else:
        say(f"file    {known.get('path', target.name)}: {size}; its content will be overwritten")


def typed_yes(destroys: bool, what: str, *, yes: bool, option: str = "--yes") -> bool:
    """Asks for YES on a terminal before foreign data is overwritten, unless `option` was given
    (`yes`). Returns True if YES was typed; raises UserError for another answer."""
    if yes or not destroys or not sys.stdin.isatty():
        return False
    answer = typer.prompt(f"Type YES to overwrite {what}", default="", show_default=False, err=True)
    if answer != "YES":
        raise UserError("not started, as YES was not typed", f"{option} skips this question")
    return True


def ask_before_long(total_s: float, *, yes: bool, shorter: str, declined: str) -> None:
    """Asks for consent to long work on a real drive, unless --yes was given. Raises UserError if
    the answer is no or there is no terminal; `shorter` and `declined` are for the hints."""
    if yes or total_s <= ASK_ABOVE_S:
        return
    how_long = units.duration(total_s)
    if not sys.stdin.isatty():
        raise UserError(
            f"this will take about {how_long}, and there is no terminal to ask for consent",
            f"use --yes to start anyway, or {shorter}",
        )
    try:
        agreed = typer.confirm(f"This will take about {how_long}. Start?", err=True)
    except typer.Abort:
        say("")
        raise
    if not agreed:
        raise UserError("not started", declined)


def lasting_name(drive: str) -> str:
    """Returns DRIVE in a form that works from any directory: paths become absolute."""
    if "/" in drive or drive.endswith(".toml") or not is_virtual(drive):
        return str(Path(drive).absolute())
    return drive
