"""The command `review`: from a command line's words to a target, a suite, a run and a summary."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import shlex
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer

from drivebay import analysis, results
from drivebay import review as engine
from drivebay.analysis.changed import changes
from drivebay.cli import display, reporting, show
from drivebay.common import units
from drivebay.common.errors import DrivebayError, UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.definitions.modifications import changed
from drivebay.definitions.suites import Suite, Test
from drivebay.targets.base import Target
from drivebay.targets.virtual.states import States

DEFAULT_SUITE = "anandtech-2015"
DEFAULT_SEED = 1
ASK_ABOVE_S = 600
BESIDE = "beside-original.html"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Options:
    """What the user gave; None where nothing."""

    drive: str | None
    suite: str | None
    quick: bool
    out: Path | None
    seed: int | None
    resume: Path | None
    destroy_serial: str | None
    overwrite_signature: bool
    purge: str | None
    power: str | None
    jobs: int | None
    only: tuple[str, ...]
    skip: tuple[str, ...]
    yes: bool
    what_if: tuple[str, ...] = ()
    beside: Path | None = None
    fitted: tuple[str, ...] = ()


def review(options: Options, *, as_json: bool) -> None:
    """Runs or resumes a review, writes its report, prints the headline figures."""
    folder = _resume(options) if options.resume is not None else _start(options)
    page = reporting.report([folder], None)
    both = _beside_the_original(folder, options.beside)
    made = results.load(folder)
    figures = analysis.headline(made)
    found = analysis.conditions(made)
    if as_json:
        summary = {
            "result": str(folder),
            "report": str(page),
            **({"beside_original": str(both)} if both else {}),
            "headline": [asdict(figure) for figure in figures],
            "warnings": [asdict(warning) for warning in found.warnings],
            "interruptions": found.interruptions,
        }
        print(json.dumps(summary, indent=1))
    else:
        show.headline(figures)
        show.validity_warnings(found, tests=len(made.done))
        print(f"result  {show.short(folder)}\nreport  {show.short(page)}")
        if both is not None:
            print(f"beside  {show.short(both)}")


def _start(options: Options) -> Path:
    if options.drive is None:
        raise UserError(
            "review: DRIVE is missing",
            "name a drive, for example: drivebay review sm951-ahci-512; or see: drivebay drives",
        )
    suite = select(suites.load(options.suite or DEFAULT_SUITE), options.only, options.skip)
    factory = factory_of(options.drive, options)
    if options.beside is not None:
        _must_be_comparable(options)
    _agree(factory, suite.shortened() if options.quick else suite, options)
    with display.sink() as sink:
        return engine.run(
            factory,
            suite,
            out=options.out,
            seed=DEFAULT_SEED if options.seed is None else options.seed,
            quick=options.quick,
            drive=_lasting_name(options.drive),
            sink=sink,
            jobs=options.jobs,
            fitted=options.fitted,
        )


def _resume(options: Options) -> Path:
    folder = options.resume
    assert folder is not None
    refused = {
        "--out": options.out,
        "--only": options.only,
        "--skip": options.skip,
        "--with": options.what_if,
    }
    if given := next((name for name, value in refused.items() if value), None):
        raise UserError(
            f"{given} cannot be given with --resume, which goes on with what was started",
            f"leave it out: drivebay review --resume {shlex.quote(str(folder))}",
        )
    made = results.read_manifest(folder)
    drive = options.drive or _where_it_is_now(made.target)
    left = {entry.id for entry in made.steps if entry.state != "done"}
    if made.target["kind"] != "virtual":  # as it was begun, unless something else is given now
        power, purge = made.target.get("power"), made.target.get("purge")
        options = replace(options, power=options.power or power, purge=options.purge or purge)
    factory = factory_of(drive, options)
    if changes(made.target) and options.drive is None:
        profile = catalog.from_resolved(made.target["profile"])
        factory = partial(_virtual, profile, States())
    suite = made.suite
    if options.suite is not None:
        suite = suites.load(options.suite)
        suite = suite.shortened() if made.quick else suite
    if left:
        tests = tuple(test.id for test in made.suite.tests if test.id in left)
        _agree(factory, made.suite.selected(tests), options)
    with display.sink() as sink:
        return engine.run(
            factory,
            suite,
            out=folder,
            seed=made.seed if options.seed is None else options.seed,
            quick=made.quick or options.quick,
            resume=True,
            drive=_lasting_name(drive),
            sink=sink,
            jobs=options.jobs,
            fitted=options.fitted,
        )


def factory_of(drive: str, options: Options) -> Callable[[], Target]:
    """What makes the target that the options mean; raises UserError if it cannot be reviewed."""
    more = {
        "overwrite_signature": options.overwrite_signature or None,
        "purge": options.purge,
        "power": options.power,
    }
    given = {name: value for name, value in more.items() if value is not None}
    return target_factory(drive, options.destroy_serial, options.what_if, **given)


def _where_it_is_now(target: dict[str, Any]) -> str:
    """What names the drive of an interrupted review: Linux may have renamed a device since."""
    drive = str(target["drive"])
    if target["kind"] == "block":
        from drivebay.targets.safety import blockdev

        found = blockdev.paths_of(str(target.get("serial")), model=str(target.get("model")))
        if drive not in found and len(found) == 1:
            return found[0]
    return drive


def target_factory(
    drive: str, destroy_serial: str | None, what_if: tuple[str, ...] = (), **real: Any
) -> Callable[[], Target]:
    """What makes the target that DRIVE means: a catalog name before a path, as `./NAME` is at hand
    for a file of that name.

    `real` goes to `FioTarget`; it has no meaning for a virtual drive.

    Raises
    ------
    UserError
        If it is nothing that can be reviewed.
    """
    is_profile = drive.endswith(".toml")
    if is_profile or drive in catalog.names():
        if destroy_serial is not None:
            raise UserError(
                f"--destroy-data has no meaning for the virtual drive {drive}",
                "leave it out: a virtual drive has no data to lose",
            )
        if real:
            option = f"--{min(real).replace('_', '-')}"
            raise UserError(
                f"{option} has no meaning for the virtual drive {drive}", "leave it out"
            )
        profile = changed(catalog.load(drive), what_if)
        return partial(_virtual, profile, States())
    if what_if:
        raise UserError(
            f"--with {what_if[0]}: only a virtual drive can be changed, and {drive} is not one",
            "leave --with out, or name a drive of the catalog: drivebay drives",
        )
    path = Path(drive)
    if "/" not in drive and not path.exists():
        close = difflib.get_close_matches(drive, catalog.names(), n=1)
        raise UserError(
            f"drive '{drive}' is unknown: no drive of the catalog has that name, nor has a file",
            (f"did you mean {close[0]}? " if close else "") + "see: drivebay drives",
        )
    _must_be_testable(path)
    return lambda: _real(path, destroy_serial, real)


def _must_be_comparable(options: Options) -> None:
    """Refuses a wrong --beside before an hour of work and not after it."""
    assert options.beside is not None
    if not options.what_if:
        raise UserError(
            "--beside has no meaning without --with",
            "to show two results side by side: drivebay report DIR DIR --out both.html",
        )
    results.read_manifest(options.beside)


def _beside_the_original(folder: Path, given: Path | None) -> Path | None:
    """A changed drive's report beside the original's, where there is one; None without a change."""
    made = results.read_manifest(folder)
    if not changes(made.target):
        return None
    original = given or _original(folder, made)
    if original is None:
        display.say(
            "hint: to see it beside the unchanged drive, review that too: "
            f"drivebay review {shlex.quote(str(made.target['drive']))}"
        )
        return None
    return reporting.report([original, folder], folder / BESIDE)


def _original(folder: Path, made: results.Manifest) -> Path | None:
    """The newest whole review of the unchanged drive in the same way, beside the folder."""
    found = []
    for path in folder.absolute().parent.glob(f"*/{MANIFEST}"):
        with contextlib.suppress(DrivebayError, OSError):
            other = results.read_manifest(path.parent)
            same = (other.suite.name, other.seed, other.quick, other.target["drive"]) == (
                made.suite.name,
                made.seed,
                made.quick,
                made.target["drive"],
            )
            if same and not changes(other.target) and all(s.state == "done" for s in other.steps):
                found.append((path.stat().st_mtime, path.parent))
    return max(found)[1] if found else None


def _virtual(profile: catalog.Profile, states: States) -> Target:
    from drivebay.targets.virtual.target import VirtualTarget

    return VirtualTarget(profile, states)


def _real(path: Path, destroy_serial: str | None, more: dict[str, Any]) -> Target:
    from drivebay.targets.fio.target import FioTarget

    return FioTarget(path, destroy_serial=destroy_serial, **more)


def _must_be_testable(path: Path) -> None:
    make = f"make a file first: fallocate -l 4G {shlex.quote(str(path))}"
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
        inside = shlex.quote(str(path / "disk.img"))
        raise UserError(
            f"{path} is a directory; DRIVE must be a catalog name, a .toml profile, a file or a "
            "block device",
            f"make a file in it: fallocate -l 4G {inside}; then: drivebay review {inside}",
        )
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise UserError(f"{path} is neither a file nor a block device", "see: drivebay drives")


def _lasting_name(drive: str) -> str:
    """What finds the drive again from any directory: paths become absolute."""
    if "/" in drive or drive.endswith(".toml") or drive not in catalog.names():
        return str(Path(drive).absolute())
    return drive


def select(suite: Suite, only: tuple[str, ...], skip: tuple[str, ...]) -> Suite:
    """The suite with the tests that --only and --skip leave, in its order.

    Raises
    ------
    UserError
        If one of them is unknown, or none is left.
    """
    known = [test.id for test in suite.tests]
    for option, ids in (("--only", only), ("--skip", skip)):
        for name in ids:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                raise UserError(
                    f"{option}: suite {suite.name} has no test '{name}'; it has {', '.join(known)}",
                    f"{option} {close[0] if close else known[0]}",
                )
    chosen = tuple(name for name in known if name in (only or known) and name not in skip)
    if not chosen:
        raise UserError("--only and --skip leave no test to run", "leave one of them out")
    return suite.selected(chosen)


def _agree(factory: Callable[[], Target], suite: Suite, options: Options) -> None:
    """Shows what is about to happen to a real drive, and asks if it will take long."""
    with closing(factory()) as target:
        if target.kind == "virtual":
            _must_be_real(options)
            return
        tests = _fitting(suite.in_real_time(), options.fitted)
        target.check(tests)
        plan = engine.make_plan(target, tests)
        display.plan(target, plan)
        if options.yes or plan.total_s <= ASK_ABOVE_S:
            return
    how_long = units.duration(plan.total_s)
    if not sys.stdin.isatty():
        raise UserError(
            f"this will take about {how_long}, and there is no terminal to ask for consent",
            "give --yes if that is what you want, or --quick for a short form",
        )
    try:
        agreed = typer.confirm(f"This will take about {how_long}. Begin?", err=True)
    except typer.Abort:
        display.say("")
        raise
    if not agreed:
        raise UserError("not begun", "--quick is the short form; --only TEST runs one test")


def _must_be_real(options: Options) -> None:
    if options.fitted:
        raise UserError(
            f"--fitted {options.fitted[0]} has no meaning for a virtual drive",
            f"leave it out; to review a changed drive: --with {options.fitted[0]}",
        )


def _fitting(suite: Suite, fitted: tuple[str, ...]) -> tuple[Test, ...]:
    """The tests for a real drive that was changed so; the others are for later."""
    tests = suite.with_fitted(fitted)
    if not tests:
        asked = sorted({word for test in suite.tests for word in test.what_if})
        what = f"with {', '.join(fitted)} fitted" if fitted else "without a change of the drive"
        words = " ".join(f"--fitted {word}" for word in asked) or "leave --fitted out"
        raise UserError(f"no test of suite {suite.name} is left to be run {what}", words)
    return tests
