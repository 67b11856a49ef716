"""`drivebay review`: runs a suite on a drive, writes its report, prints the headline figures."""

from __future__ import annotations

import contextlib
import difflib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from drivebay.cli import complete, options, output
from drivebay.cli import target as targets
from drivebay.cli.options import argument, flag, option
from drivebay.common import units
from drivebay.common.errors import DrivebayError, Interrupted, UserError

if TYPE_CHECKING:
    from drivebay.analysis import Conditions, Headline
    from drivebay.definitions.suites import Suite, Test
    from drivebay.results import Manifest
    from drivebay.review import Plan
    from drivebay.targets.base import Target

# Most rows that a review prints without --all.
ROWS_MAX = 20
SHORTENED = (
    "Shortened run: not comparable, and too short for garbage collection to reach steady state."
)
COMPARISON = "comparison.html"
RUN = "Run and output"
# Options that a resumed review keeps.
KEPT = ("out", "size", "only", "skip", "changes", "host", "ailment", "events")
# Options that are arguments of a real drive's target.
REAL = ("destroy_data", "overwrite_signature", "purge", "power", "no_wait")
# Terminals with fewer columns get the headline figures as a list instead of a table.
NARROW = 68


@dataclass(frozen=True)
class Options:
    """Values from the command line.

    Parameters
    ----------
    quick :
        Shorten all tests to seconds.
    only : TEST
        Run only this test. Repeatable.
    skip : TEST
        Skip this test. Repeatable.
    list_tests :
        List the tests of the suite and their durations. DRIVE is optional.
    out : DIR
        Result folder to create. [default: drivebay-results/DRIVE-SUITE-N]
    resume : DIR
        Resume an interrupted review.
    seed : N
        Seed; the same seed gives a virtual drive the same result, bit for bit. [default: 1]
    jobs : N
        Number of a virtual drive's tests to run in parallel; it does not change results. [default:
        as many as processors and memory allow]
    baseline : DIR
        Result of the unmodified drive to compare a modified one with. [default: the newest with the
        same suite, seed and length in the same parent folder]
    events :
        Record events inside the drive as Parquet files: garbage collection, SLC cache migration
        (folding), erases, and the load of dies and channels.
    purge : auto|discard
        How to purge a block device: the strongest erase that it offers (auto: NVMe Format or
        Sanitize, ATA secure erase), or only a discard of all blocks. [default: auto]
    power : SENSOR_OR_CSV
        Power meter of the drive: the name of a sensor in /sys/class/hwmon (ina226), or a CSV file
        that a meter is writing, with the columns time and power_w.
    modified : CHANGE
        Change that you made to the drive, for example heatsink: run only the tests that need it.
        --resume runs the others later. Repeatable.
    """

    drive: str | None = argument("DRIVE", options.ANY_DRIVE, autocompletion=complete.drives)
    suite: str | None = option(
        "NAME_OR_FILE",
        "Name of a suite (see: drivebay suites) or your own .toml file. "
        f"[default: {complete.DEFAULT_SUITE}]",
        autocompletion=complete.suites,
    )
    quick: bool = flag("--quick")
    only: list[str] | None = option(autocompletion=complete.tests)
    skip: list[str] | None = option(autocompletion=complete.tests)
    list_tests: bool = flag("--list")
    out: Path | None = option()
    resume: Path | None = option()
    as_json: options.Json = False
    yes: options.Yes = False
    everything: bool = flag(
        "--all", f"Print all figures instead of the {ROWS_MAX} most important.", panel=RUN
    )
    no_intervals: options.NoIntervals = False
    seed: int | None = option(panel=RUN)
    jobs: int | None = option(panel=RUN)
    changes: options.Set = None
    policy: options.Policy = None
    host: options.Host = None
    ailment: options.Ailment = None
    baseline: Path | None = option(panel=options.VIRTUAL)
    events: bool = flag("--events", panel=options.VIRTUAL)
    size: options.NewFileSize = None
    destroy_data: options.DestroyData = None
    overwrite_signature: options.OverwriteSignature = False
    purge: str | None = option(panel=options.REAL)
    power: str | None = option(panel=options.REAL)
    modified: list[str] | None = option(panel=options.REAL)
    no_wait: options.NoWait = False

    def factory(
        self, ctx: typer.Context, drive: str, *, typed_yes: bool = False
    ) -> Callable[[], Target]:
        """Returns a function that makes the target; raises UserError for unfit options."""
        targets.check_options(ctx, drive)
        return targets.target_factory(
            drive,
            targets.in_host(self.host, self.changes, self.ailment),
            events=self.events,
            typed_yes=typed_yes,
            **{name: getattr(self, name) for name in REAL},
        )


@options.together(Options)
def review(ctx: typer.Context, given: Options) -> None:
    """Run a suite of tests on a drive and write its report.

    Examples:
      drivebay review sm951-ahci-512                    a virtual drive
      drivebay review my-drive.toml --suite quick       your own profile
      drivebay review NEW.img --size 4G --quick         a new file, through fio
      drivebay review /dev/sdX --destroy-data SERIAL    ALL ITS DATA IS LOST
      drivebay review ./disk.img --power meter.csv
      drivebay review --resume drivebay-results/NAME    after an interruption
      drivebay review --list --suite thermal-2015       tests and durations
      drivebay review sm951-ahci-512 --only random-read --json
      drivebay review sm951-ahci-512 --set heatsink --set thermal.ambient_c=30

    An interrupted review keeps all finished tests. The result is a folder with a
    manifest, the figures of each test as Parquet files, and report.html.
    """
    changes = targets.with_policy(given.policy, given.changes)
    if given.resume is None:
        given = replace(given, changes=changes)
    else:  # a resumed review keeps its options, whatever a file sets now
        plain: dict[str, Any] = {"suite": None, "quick": False, "host": None, "seed": None}
        given = replace(given, **{k: v for k, v in plain.items() if not options.typed(ctx, k)})
    if given.list_tests:
        _list(ctx, given)
        return
    folder = resumed(ctx, given, given.resume) if given.resume else start(ctx, given)
    try:
        _summarize(folder, given)
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted while making the report; the result is complete",
            f"drivebay report {shlex.quote(str(folder))}",
        ) from None


# --- running --------------------------------------------------------------------------------------


def start(ctx: typer.Context, given: Options) -> Path:
    """Runs a review, after consent, and returns its folder."""
    from drivebay import results
    from drivebay.definitions import suites

    if given.drive is None:
        raise UserError(
            "review: DRIVE is missing",
            "give a drive, for example: drivebay review sm951-ahci-512; or see: drivebay drives",
        )
    suite = _selected(suites.load(given.suite or complete.DEFAULT_SUITE), given.only, given.skip)
    with targets.new_file(given.drive, given.size) as keep:
        factory = given.factory(ctx, given.drive)
        if given.baseline is not None:  # a wrong baseline fails before the tests, not after them
            if not (given.changes or given.ailment) and given.host is None:
                raise UserError(
                    "--baseline has no meaning without --set, --policy, --ailment or --host",
                    "to compare two results: drivebay compare DIR DIR",
                )
            results.read_manifest(given.baseline)
        if _confirm(factory, suite.shortened() if given.quick else suite, given):
            factory = given.factory(ctx, given.drive, typed_yes=True)
        seed = 1 if given.seed is None else given.seed
        about = {"out": given.out, "seed": seed, "quick": given.quick}
        return _run(factory, suite, given, given.drive, keep, **about)


def resumed(ctx: typer.Context, given: Options, folder: Path) -> Path:
    """Continues the review in the folder, after consent, and returns it."""
    from drivebay import results
    from drivebay.analysis.modified import changes
    from drivebay.definitions import profiles, suites

    if refusal := next((name for name in KEPT if getattr(given, name)), None):
        option = "set" if refusal == "changes" else refusal
        raise UserError(
            f"--{option} cannot be given with --resume, which keeps the options of the review",
            f"leave it out: drivebay review --resume {shlex.quote(str(folder))}",
        )
    manifest = results.read_manifest(folder)
    drive = given.drive or _present_name(manifest.target)
    left = tuple(entry.id for entry in manifest.steps if entry.state != "done")
    if manifest.target["kind"] != "virtual":  # as before, unless given anew
        power, purge = manifest.target.get("power"), manifest.target.get("purge")
        given = replace(given, power=given.power or power, purge=given.purge or purge)
    given = replace(given, events=bool(manifest.target.get("events")))
    factory = given.factory(ctx, drive)
    if changes(manifest.target) and given.drive is None:
        profile = profiles.from_resolved(manifest.target["profile"])
        factory = targets.virtual_factory(profile, events=given.events)
    suite = manifest.suite
    if given.suite is not None:
        suite = suites.load(given.suite)
        suite = suite.shortened() if manifest.quick else suite
    if left and _confirm(factory, manifest.suite.selected(left), given, folder):
        factory = given.factory(ctx, drive, typed_yes=True)
    return _run(
        factory,
        suite,
        given,
        drive,
        out=folder,
        seed=manifest.seed if given.seed is None else given.seed,
        quick=manifest.quick or given.quick,
        resume=True,
    )


def _run(
    factory: Callable[[], Target],
    suite: Suite,
    given: Options,
    drive: str,
    began: Callable[[], object] = lambda: None,
    **more: Any,
) -> Path:
    """Runs the review; `began` is called once the result folder exists."""
    from drivebay import review as engine
    from drivebay.cli.progress import ReviewProgress

    sink = ReviewProgress(began)
    more |= {"jobs": given.jobs, "modified": tuple(given.modified or ())}
    try:
        return engine.run(factory, suite, sink=sink, drive=targets.lasting_name(drive), **more)
    finally:
        sink.end()


def _present_name(target: dict[str, Any]) -> str:
    """Name of an interrupted review's drive; Linux may have renamed the device since."""
    drive = str(target["drive"])
    if target["kind"] == "block":
        from drivebay.targets.safety import blockdev

        paths = blockdev.paths_of(str(target.get("serial")), model=str(target.get("model")))
        if drive not in paths and len(paths) == 1:
            return paths[0]
    return drive


def _selected(suite: Suite, only: Sequence[str] | None, skip: Sequence[str] | None) -> Suite:
    """Suite with the tests that --only and --skip select, in its order."""
    known = [test.id for test in suite.tests]
    for given, ids in (("--only", only or ()), ("--skip", skip or ())):
        for name in ids:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1) or known
                raise UserError(
                    f"{given}: suite {suite.name} has no test '{name}'; it has {', '.join(known)}",
                    f"{given} {close[0]}",
                )
    chosen = tuple(name for name in known if name in (only or known) and name not in (skip or ()))
    if not chosen:
        raise UserError("--only and --skip leave no test to run", "leave one of them out")
    return suite.selected(chosen)


def _confirm(
    factory: Callable[[], Target], suite: Suite, given: Options, folder: Path | None = None
) -> bool:
    """Shows the plan for a real drive, and asks for consent if data is lost or it takes long.

    Returns True if YES was typed. `folder` is the result of a resumed review."""
    from drivebay import review as engine

    with closing(factory()) as target:
        if target.kind == "virtual":
            return False
        if folder is not None:
            target.recorded_in(folder)
        tests = _possible(suite.in_real_time(), tuple(given.modified or ()))
        target.check(tests)
        plan = engine.make_plan(target, tests)
        _say_plan(target, plan)
        typed = targets.typed_yes(target.destroys, target.name, yes=given.yes)
    targets.ask_before_long(
        plan.total_s,
        yes=given.yes,
        shorter="--quick for a short form",
        declined="--quick runs a short form; --only TEST runs one test",
    )
    return typed


def _possible(suite: Suite, modified: tuple[str, ...]) -> tuple[Test, ...]:
    """Tests that a real drive with these changes can run now."""
    tests = suite.with_modified(modified)
    if not tests:
        needed = sorted({change for test in suite.tests for change in test.what_if})
        state = f"a drive modified by {', '.join(modified)}" if modified else "an unmodified drive"
        hint = " ".join(f"--modified {change}" for change in needed) or "leave --modified out"
        raise UserError(f"suite {suite.name} has no test left for {state}", hint)
    return tests


def _say_plan(target: Target, plan: Plan) -> None:
    targets.say_what_is_lost(target)
    parts = [(step.test.id, step.estimate_s) for step in plan.steps] + [("total", plan.total_s)]
    output.say_unless_quiet(*(f"        {name:<24} about {units.duration(s)}" for name, s in parts))


# --- the result -----------------------------------------------------------------------------------


def _summarize(folder: Path, given: Options) -> None:
    """Writes the reports and prints the figures."""
    from drivebay import analysis, results
    from drivebay.cli import report
    from drivebay.report.base.runs import entries
    from drivebay.report.pages.verdict import sentences

    intervals = not given.no_intervals
    page = report.write(folder, intervals=intervals)
    comparison = _compare_with_baseline(folder, given.baseline, intervals=intervals)
    result = results.load(folder)
    computed = analysis.review(result, intervals=intervals)
    figures = list(computed.headline)
    conditions = analysis.conditions(result)
    if given.as_json:
        output.print_json(
            {
                "result": str(folder),
                "report": str(page),
                **({"comparison": str(comparison)} if comparison else {}),
                "headline": [asdict(figure) for figure in figures],
                "warnings": [asdict(warning) for warning in conditions.warnings],
                "interruptions": conditions.interruptions,
            }
        )
        return
    printed = figures if given.everything else _most_important(figures, ROWS_MAX)
    _print_headline(printed)
    if len(printed) < len(figures):
        print(f"{len(figures) - len(printed)} more figures: see the report, or use --all\n")
    if result.quick:
        output.show_wrapped(SHORTENED)
        print()
    if verdict := sentences(entries([computed])[0], ()):
        for sentence in verdict:
            output.show_wrapped(sentence)
        print()
    _print_conditions(conditions, tests=len(result.done))
    output.show(f"result  {output.short(folder)}", f"report  {output.short(page)}")
    if comparison is not None:
        output.show(f"compare {output.short(comparison)}")
    if agreement := analysis.agreement(computed.drive if result.simulated else None):
        output.show_wrapped(agreement)


def _compare_with_baseline(folder: Path, given: Path | None, *, intervals: bool) -> Path | None:
    """Reports a modified drive along with the original; None without a change or an original."""
    from drivebay import results
    from drivebay.analysis.modified import changes
    from drivebay.cli import report

    manifest = results.read_manifest(folder)
    if not changes(manifest.target):
        return None
    baseline = given or next(_baselines(folder, manifest), None)
    if baseline is None:
        output.say_unless_quiet(
            "hint: to compare with the unmodified drive, review that one too: "
            f"drivebay review {shlex.quote(str(manifest.target['drive']))}"
        )
        return None
    return report.write(baseline, folder, out=folder / COMPARISON, intervals=intervals)


def _baselines(folder: Path, manifest: Manifest) -> Iterator[Path]:
    """Complete reviews of the unmodified drive with the same options, in the same parent folder,
    newest first."""
    from drivebay import results
    from drivebay.analysis.modified import changes

    def key(entry: Manifest) -> tuple[Any, ...]:
        return entry.suite.name, entry.seed, entry.quick, entry.target["drive"]

    manifests = folder.absolute().parent.glob("*/manifest.json")
    for path in sorted(manifests, key=lambda path: path.stat().st_mtime, reverse=True):
        with contextlib.suppress(DrivebayError, OSError):
            other = results.read_manifest(path.parent)
            is_whole = all(step.state == "done" for step in other.steps)
            if key(other) == key(manifest) and is_whole and not changes(other.target):
                yield path.parent


def _most_important(figures: Sequence[Headline], most: int) -> list[Headline]:
    """Most important figures, in their order: first of each test, then those with a published
    value."""
    first: dict[str, Headline] = {}
    for figure in figures:
        first.setdefault(figure.test_id, figure)
    ranked = [*first.values(), *(figure for figure in figures if figure.published_text), *figures]
    chosen = list(dict.fromkeys(ranked))[:most]
    return [figure for figure in figures if figure in chosen]


def _print_headline(figures: Sequence[Headline]) -> None:
    """Prints the headline figures along with published ones.

    A virtual drive's figure has its 90 % interval in per cent; other figures have the spread, the
    standard deviation of the samples.
    """
    from rich.console import Console

    narrow = sys.stdout.isatty() and Console().width < NARROW
    rows = []
    notes: dict[str, None] = {}
    last = ""
    for figure in figures:
        value = figure.missing
        if figure.value is not None:
            value = f"{output.number(figure.value)} {figure.unit}".strip()
        spread = "" if figure.spread is None else f"± {output.number(figure.spread)}"
        interval = output.interval_in_percent(figure.value, figure.interval)
        spread = interval or figure.unlike or spread
        if figure.value is None and figure.note:
            notes[f"{figure.test_id}: {figure.note}"] = None
        name = "" if figure.test_id == last else figure.test_id
        last = figure.test_id
        if not narrow:
            count = f"{figure.n:,}" if figure.n else ""
            published = figure.published_text
            rows.append((name, figure.label, value, spread, count, published, _error(figure)))
            continue
        if name:
            output.show(name)
        output.show(f"  {figure.label}", f"    {value} {spread}".rstrip())
        if figure.published_text:
            output.show(f"    published {figure.published_text}  {_error(figure)}".rstrip())
    if not narrow:
        headers = ("test", "figure", "result", "±", "n", "published", "error")
        used = [at for at in range(len(headers)) if any(row[at] for row in rows)]
        kept = [tuple(row[at] for at in used) for row in rows]
        right = tuple(used.index(at) for at in (2, 3, 4) if at in used)
        output.table([headers[at] for at in used], kept, right=right)
    for note in notes:
        output.show_wrapped(note, "note  ")
    print()


def _error(figure: Headline) -> str:
    if figure.published_relation in ("lt", "gt") and figure.error_percent == 0:
        return "within"
    if figure.error_percent is not None:
        return f"{figure.error_percent:+.1f} %"
    return figure.verdict or "" if figure.published_text else ""


def _print_conditions(conditions: Conditions, *, tests: int) -> None:
    """Prints interrupted tests, and the worst warning of each kind about a real drive's figures.

    The report has all warnings."""
    for warning, others in conditions.worst_of_each_kind():
        ids = "" if len(warning.test_ids) == tests else ", ".join(warning.test_ids)
        less = f"weaker in {others} more test{'s' if others > 1 else ''}" if others else ""
        ids = "; ".join(filter(None, (ids, less)))
        output.show_wrapped(warning.sentence + (f" ({ids})" if ids else ""), "warning ")
    for test_id, count in conditions.interruptions.items():
        times = "once" if count == 1 else f"{count} times"
        output.show_wrapped(
            f"{test_id} was interrupted {times} and restarted from the beginning", "note    "
        )
    if conditions.warnings or conditions.interruptions:
        print()


# --- --list ---------------------------------------------------------------------------------------


def _list(ctx: typer.Context, given: Options) -> None:
    """Lists the selected tests, with their durations on the drive if one is given."""
    from drivebay.definitions import suites

    suite = suites.load(given.suite or complete.DEFAULT_SUITE)
    chosen = _selected(suite, given.only, given.skip).tests
    estimates = {} if given.drive is None else _estimates(ctx, given, given.drive, chosen)

    def seconds(test: Test) -> float:
        return test.in_real_time().drive_seconds()

    if given.as_json:
        rows = [
            {
                "id": test.id,
                "title": test.title,
                "page": test.page,
                "kind": test.kind,
                "what_if": list(test.what_if),
                "drive_s": seconds(test),
                "quick_drive_s": seconds(test.shortened()),
                "estimate_s": estimates.get(test.id),
            }
            for test in chosen
        ]
        output.print_json({"suite": suite.name, "title": suite.title, "tests": rows})
        return
    print(f"{suite.name}: {suite.title}")
    here = ["on this drive"] if estimates else []
    lines = []
    for test in chosen:
        lasts = [units.duration(seconds(form)) for form in (test, test.shortened())]
        lasts += [units.duration(estimates[test.id])] if estimates else []
        lines.append((test.id, *lasts, test.title))
    output.table(("test", "duration", "quick", *here, "title"), lines)
    print("duration: longest time of rests and loads on a real drive, without fills and purges")


def _estimates(
    ctx: typer.Context, given: Options, drive: str, chosen: tuple[Test, ...]
) -> dict[str, float]:
    """Estimated seconds of each test on the drive, which is not touched."""
    from drivebay import review as engine

    forms = tuple(test.shortened() if given.quick else test for test in chosen)
    with closing(given.factory(ctx, drive)()) as target:
        if target.kind != "virtual":
            forms = tuple(test.in_real_time() for test in forms)
        return {step.test.id: step.estimate_s for step in engine.make_plan(target, forms).steps}
