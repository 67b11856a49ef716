"""What the argument DRIVE means: a drive of the catalog, a profile, a file or a block device."""

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
    from drivebay.targets.safety.target_device import NewFile

ASK_ABOVE_S = 600


@functools.cache
def warn_of_path() -> None:
    """Once, before anything is run for a real drive: as root the programs that PATH finds have all
    rights."""
    if os.geteuid() == 0:
        for words in programs.loose_folders(os.environ.get("PATH", "")):
            say(f"warning: PATH of root: {words}; fio and others are run as root from there")


def is_virtual(drive: str) -> bool:
    """Whether DRIVE names a virtual drive, in any letter case where no file has that name; `./NAME`
    names a file where a catalog name is alike."""
    from drivebay.definitions import profiles

    if drive.endswith(".toml") or drive in profiles.names():
        return True
    return drive.lower() in profiles.names() and not os.path.lexists(drive)


def in_host(
    host: str | None, changes: Sequence[str] | None, ailments: Sequence[str] | None = None
) -> list[str]:
    """The changes that --host, --ailment and --set ask for."""
    own = [*([] if host is None else [f"host={host}"]), *(f"ailment={a}" for a in ailments or ())]
    return [*own, *(changes or ())]


def with_policy(policy: Path | None, changes: Sequence[str] | None) -> list[str]:
    """The changes, and the one that --policy asks for, whose file is loaded."""
    from drivebay.definitions import policies

    named = [] if policy is None else [f"policy={policies.offer(policy).reference}"]
    return [*named, *(changes or ())]


def modified_profile(drive: str, changes: Sequence[str] | None) -> Profile:
    """The virtual drive's profile with the values of --set."""
    from drivebay.definitions import profiles
    from drivebay.definitions.modifications import changed

    return changed(profiles.load(drive), tuple(changes or ()))


def target_factory(
    drive: str, changes: Sequence[str] | None = None, *, events: bool = False, **real: Any
) -> Callable[[], Target]:
    """A function that makes the target that DRIVE means; `real` is for `FioTarget`."""
    if is_virtual(drive):
        return virtual_factory(modified_profile(drive, changes), events=events)
    path = must_be_testable(drive)

    def make() -> Target:
        from drivebay.targets.fio.target import FioTarget

        return FioTarget(path, **{name: value for name, value in real.items() if value})

    return make


def virtual_factory(profile: Profile, *, events: bool = False) -> Callable[[], Target]:
    """A function that makes virtual drives of this profile; they share prepared states. `events`:
    they keep what happens inside."""
    from drivebay.targets.virtual.states import States
    from drivebay.targets.virtual.target import VirtualTarget

    states = States()
    return lambda: VirtualTarget(profile, states, events=events)


def check_options(ctx: Any, drive: str) -> None:
    """Refuses what is no drive, and options that have no meaning for its kind."""
    if is_virtual(drive):
        options.refuse(ctx, options.REAL, drive)
    else:
        # A command without --size makes no file.
        must_be_testable(drive, ctx.command_path if "size" in ctx.params else "drivebay review")
        options.refuse(ctx, options.VIRTUAL, drive)


def must_be_testable(drive: str, command: str = "drivebay review") -> Path:
    """The path that DRIVE is; raises UserError if it is neither a file nor a block device, or has a
    name that no result can hold. `command` is what the user typed, for the hints."""
    from drivebay.definitions import profiles

    warn_of_path()
    path = Path(drive)
    _refuse_unless_utf8(path)
    if "/" not in drive and not path.exists():
        raise UserError(
            f"drive '{drive}' is unknown: no drive of the catalog has that name, nor has a file",
            did_you_mean(drive, profiles.names()) + "see: drivebay drives",
        )
    make = _how_to_make(path, command)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", make) from None
    except NotADirectoryError:
        raise UserError(f"{path} does not exist: a part of its path is a file", make) from None
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
    """Results, and the programs that are run, name a file in UTF-8: itself and where it leads."""
    for place in (str(path), str(path.absolute()), os.path.realpath(path)):
        if not documents.is_utf8(place):
            raise UserError(f"{documents.printable(place)}: its name is not UTF-8", "rename it")


def _how_to_make(path: Path, command: str) -> str:
    """The hint for a path where nothing is that can be tested; below /dev are devices."""
    if path.absolute().is_relative_to("/dev"):
        return "see: drivebay drives"
    return f"make a file: {command} {shlex.quote(str(path))} --size 4G"


def create_file(drive: str, size: str) -> NewFile:
    """Make the file that --size asks for; raises if DRIVE is no name of a new file."""
    from drivebay.targets.safety import target_device

    _refuse_unless_utf8(Path(drive))
    size_bytes = units.parse_bytes(size, option="--size")
    if is_virtual(drive):
        raise UserError(f"--size has no meaning for the virtual drive {drive}", "leave it out")
    return target_device.create(drive, size_bytes)


@contextlib.contextmanager
def new_file(drive: str, size: str | None) -> Iterator[Callable[[], object]]:
    """Inside there is the file that --size asks for, if it is given. What is refused or ends before
    anything is written leaves none behind, so that the same command can be given again, unless the
    function that it gives is called: the file is then kept."""
    undo: list[NewFile] = [] if size is None else [create_file(drive, size)]
    try:
        yield undo.clear
    except BaseException:
        for made in undo:
            made.undo()
        raise


def say_what_is_lost(target: Target) -> None:
    """What a real drive is, and that its data goes."""
    known = target.identity()
    size = units.si_bytes(target.capacity_bytes)
    if target.kind == "block":
        model, serial = known.get("model") or "unknown", known.get("serial") or "unknown"
        say(f"device  {known.get('path', target.name)}: {model}, serial {serial}, {size}")
        say("        ALL DATA ON IT WILL BE LOST")
    else:
        say(f"file    {known.get('path', target.name)}: {size}; its content will be overwritten")


def typed_yes(destroys: bool, what: str, *, yes: bool, option: str = "--yes") -> bool:
    """Has the owner type YES on a terminal before data goes that is not drivebay's, unless `option`
    was given (`yes`); whether that was typed. Raises UserError if something else was."""
    if yes or not destroys or not sys.stdin.isatty():
        return False
    answer = typer.prompt(f"Type YES to overwrite {what}", default="", show_default=False, err=True)
    if answer != "YES":
        raise UserError("not started, as YES was not typed", f"{option} does not ask")
    return True


def ask_before_long(total_s: float, *, yes: bool, shorter: str, declined: str) -> None:
    """Asks for consent to long work on a real drive, unless --yes gave it. Raises UserError if the
    answer is no, or nobody can be asked; `shorter` and `declined` are for the hints."""
    if yes or total_s <= ASK_ABOVE_S:
        return
    how_long = units.duration(total_s)
    if not sys.stdin.isatty():
        raise UserError(
            f"this will take about {how_long}, and there is no terminal to ask for consent",
            f"give --yes if that is what you want, or {shorter}",
        )
    try:
        agreed = typer.confirm(f"This will take about {how_long}. Begin?", err=True)
    except typer.Abort:
        say("")
        raise
    if not agreed:
        raise UserError("not started", declined)


def lasting_name(drive: str) -> str:
    """What finds the drive again from any directory: paths become absolute."""
    if "/" in drive or drive.endswith(".toml") or not is_virtual(drive):
        return str(Path(drive).absolute())
    return drive
