"""`drivebay twin`: plans and runs loads on a drive, and fits a profile to them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from drivebay.cli import options, output, review
from drivebay.cli.options import argument, flag, option
from drivebay.common import units
from drivebay.common.errors import EXIT_CHECK_FAILED, DrivebayError, UserError

if TYPE_CHECKING:
    from drivebay.definitions.profiles import Profile
    from drivebay.lab.fit import Parameter

UNITS = {"s": 1, "m": 60, "h": 3600}
# Names of files that other programs wrote; other files are drives under test.
RESULTS = (".json", ".txt", ".csv", ".xml")


def twin(
    ctx: typer.Context,
    sources: list[str] = argument(),
    base: str = option("--from"),
    out: Path = option(),
    budget: str = option(default="60m"),
    fit: list[str] | None = option(),
    hold_out: list[str] | None = option(),
    wide: bool = flag("--wide"),
    jobs: options.Jobs = None,
    seed: options.Seed = 1,
    resume: bool = flag("--resume"),
    as_json: options.Json = False,
    yes: options.Yes = False,
    destroy_data: options.DestroyData = None,
    overwrite_signature: options.OverwriteSignature = False,
    no_wait: options.NoWait = False,
) -> None:
    """Make a virtual twin of a drive, with intervals, from loads of an hour.

    On a DRIVE it runs the loads that tell most about the parameters per minute, as
    a review that --resume continues. A part of the loads is held out: the page
    NAME.md has them measured beside modelled, and what no load tells.

    Examples:
      drivebay twin /dev/sdX --destroy-data SERIAL --from sm951-nvme-512 \\
          --budget 60m --out twin.toml
      drivebay twin ./disk.img --from 980-pro-1tb --budget 10m --out twin.toml
      drivebay twin old/*.json --from pm9a3-960 --out twin.toml
      drivebay twin drivebay-results/mine --from sm951-ahci-512 \\
          --hold-out mixed-random --out twin.toml
      drivebay review twin.toml                      the twin as a virtual drive

    Exit codes: 0 every load held out is within its bound (rates 10 %, 99th
    percentiles 25 %); 1 one is not (the profile is written anyway); 2 wrong
    usage; 130 interrupted (continue with --resume). See docs/concepts/twin.md.

    Parameters
    ----------
    sources : DRIVE|RESULTS...
        Drive to run loads on (a block device, a file, a virtual drive); or loads that were
        run: a result folder, or fio's JSON and other files that drivebay imports.
    base : PROFILE
        Most similar drive: a catalog name or a path that ends in .toml.
    out : PROFILE.toml
        Profile to write; its page, journal and loads are put beside it.
    budget : TIME
        Longest time of the loads on DRIVE: 60m, 2h.
    fit : PARAM
        Parameter to fit, as for calibrate. Repeatable. [default: all with a range that
        short loads may depend on]
    hold_out : LOAD
        Test, or TEST/PHASE, to leave out of the fit and predict. Repeatable. [default:
        every fifth phase]
    wide :
        Search from half to twice the ranges of PROFILE: the drive is of another model.
    resume :
        Continue with the loads and the journal beside --out.
    """
    from drivebay.cli.progress import status
    from drivebay.definitions import profiles
    from drivebay.lab.fit import fitting, outcome, write
    from drivebay.lab.fit.twin import usual_parameters
    from drivebay.lab.imports import AUTO, import_files
    from drivebay.lab.journal import Journal
    from drivebay.results import read_manifest

    start = profiles.load(base)
    fitting.can_be_written(out, resume=resume)
    write.page_beside(out, resume=resume)
    real = {"destroy_data": destroy_data, "overwrite_signature": overwrite_signature}
    given = _review(yes=yes, quick=False, jobs=jobs, seed=seed, no_wait=no_wait, **real)
    loads = out.with_name(f"{out.stem}-loads")
    paths = [Path(source) for source in sources]
    with _resumed_by_twin():
        if len(paths) == 1 and paths[0].is_dir():
            folder = paths[0]
        elif resume and loads.exists():
            left = any(step.state != "done" for step in read_manifest(loads).steps)
            folder = review.resumed(ctx, given, loads) if left else loads
        elif all(path.suffix in RESULTS for path in paths):
            folder = import_files(AUTO, paths, loads)
        elif len(paths) > 1:
            raise UserError(
                f"{sources[0]} is not a file of results (its name ends in {', '.join(RESULTS)})",
                "give one drive, one result folder, or files of results",
            )
        else:
            named = usual_parameters(start, fit or (), wide=wide)
            folder = _measured(ctx, given, sources[0], start, named, budget, loads)
    with status() as show:
        made = fitting.fit(
            folder,
            base=start,
            parameters=fit or (),
            hold_out=hold_out or (),
            out=out,
            evaluations=0,
            loads=True,
            wide=wide,
            jobs=jobs,
            seed=seed,
            resume=resume and Journal.beside(out).exists(),
            progress=lambda what, count: show(f"{what}: {count} evaluations"),
        )
    page = write.page_beside(out, resume=resume)
    write.save(page, outcome.page(made))
    output.say_notes(made.notes)
    if as_json:
        more = {"page": str(page), "untold": outcome.untold(made)}
        output.print_json({**outcome.as_json(made), **more})
    else:
        output.table(outcome.PARAMETER_HEAD, outcome.parameter_rows(made), right=(1, 2, 3))
        for line in ("", outcome.score(made), *outcome.untold(made), ""):
            output.show_wrapped(line)
        output.show(f"profile {output.short(out)}", f"page    {output.short(page)}")
    if not made.predicted:
        raise typer.Exit(EXIT_CHECK_FAILED)


@contextlib.contextmanager
def _resumed_by_twin() -> Iterator[None]:
    """Makes hints to resume the review of the loads name this command."""
    try:
        yield
    except DrivebayError as problem:
        again = ": the same command with --resume"
        problem.hint = re.sub(r": drivebay review --resume .*", again, problem.hint)
        raise


def _review(**values: Any) -> review.Options:
    """Options of a review with these values, and none for the others."""
    none: dict[str, Any] = dict.fromkeys(field.name for field in fields(review.Options))
    return review.Options(**(none | values))


def _measured(
    ctx: typer.Context,
    given: review.Options,
    drive: str,
    base: Profile,
    parameters: tuple[Parameter, ...],
    budget: str,
    loads: Path,
) -> Path:
    """Plans the loads, runs them as a review, and returns its folder."""
    from drivebay.cli.progress import status
    from drivebay.definitions import suites
    from drivebay.lab.fit.twin import plan

    match = re.fullmatch(r"(\d{1,6})([smh])", budget)
    if match is None:
        raise UserError(f"--budget {budget} is not a time", "for example: --budget 60m")
    suite = suites.load("twin")
    with closing(given.factory(ctx, drive)()) as target:
        virtual = target.kind == "virtual"
        if not virtual:
            target.check(suite.in_real_time().tests)
        capacity = target.capacity_bytes
    about = {"capacity_bytes": capacity, "budget_s": int(match[1]) * UNITS[match[2]]}
    with status() as show:
        show("plan of the loads")
        chosen = plan(base, parameters, suite, jobs=given.jobs, **about)
    gains = [f"{name} ({gain:.1f} nats)" for name, gain in chosen.gains.items()]
    output.say_unless_quiet(f"plan: {', '.join(gains)}; about {units.duration(chosen.seconds)}")
    only = [test.id for test in chosen.tests]
    wanted = replace(given, drive=drive, suite=suite.name, only=only, out=loads, quick=virtual)
    return review.start(ctx, wanted)
