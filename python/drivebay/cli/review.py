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
from drivebay.cli.output import number, print_json, say_unless_quiet, short, show, table
from drivebay.common import units
from drivebay.common.errors import DrivebayError, Interrupted, UserError

if TYPE_CHECKING:
    from drivebay.analysis import Conditions, Headline
    from drivebay.definitions.suites import Suite, Test
    from drivebay.results import Manifest
    from drivebay.review import Plan
    from drivebay.targets.base import Target

ROWS_MAX = 20
"""Rows that a review prints unless it is asked for all."""
SHORTENED = (
    "Shortened run: not comparable, and too short for garbage collection to reach a steady state."
)
COMPARISON = "comparison.html"
NARROW = 68
"""Below this many columns the headline figures are no table."""

EXAMPLES = """\b
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

\b
An interrupted review keeps every test that has finished. The result is a
folder: a manifest, the figures of each test as Parquet files, report.html."""

app = options.Verb()


@dataclass(frozen=True)
class Options:
    """The command line's values."""

    drive: str | None = argument(
        "DRIVE",
        f"{options.CATALOG_NAME}, a file, or a block device.",
        autocompletion=complete.drives,
    )
    suite: str | None = option(
        "NAME_OR_FILE",
        "A suite's name (drivebay suites) or your own .toml file. "
        f"[default: {complete.DEFAULT_SUITE}]",
        autocompletion=complete.suites,
    )
    quick: bool = flag("--quick", "Run the same tests, shortened to seconds.")
    only: list[str] | None = option(
        "TEST", "Run only this test; repeatable.", autocompletion=complete.tests
    )
    skip: list[str] | None = option(
        "TEST", "Skip this test; repeatable.", autocompletion=complete.tests
    )
    list_tests: bool = flag(
        "--list", "List the suite's tests and their durations; DRIVE is optional."
    )
    out: Path | None = option(
        "DIR", "Result folder to make. [default: drivebay-results/DRIVE-SUITE-N]"
    )
    resume: Path | None = option("DIR", "Resume an interrupted review.")
    seed: int | None = option(
        "N", "The same seed gives a virtual drive the same result, bit for bit. [default: 1]"
    )
    everything: bool = flag("--all", f"Print all figures instead of the {ROWS_MAX} that say most.")
    as_json: options.Json = False
    changes: options.Set = None
    policy: options.Policy = None
    no_intervals: options.NoIntervals = False
    host: options.Host = None
    ailment: options.Ailment = None
    baseline: Path | None = option(
        "DIR",
        "With --set: the unmodified drive's result to compare with. [default: the "
        "newest of the same suite, seed and length beside the new folder]",
        panel=options.VIRTUAL,
    )
    jobs: int | None = option(
        "N",
        "Tests of a virtual drive to run in parallel; it does not change results. [default: as "
        "many as processors and memory allow]",
    )
    events: bool = flag(
        "--events",
        "Keep what happens inside the drive: garbage collection, folding and erases, and how "
        "busy dies and channels are, as Parquet files of each test.",
        panel=options.VIRTUAL,
    )
    size: options.NewFileSize = None
    destroy_data: options.DestroyData = None
    overwrite_signature: options.OverwriteSignature = False
    purge: str | None = option(
        "auto|discard",
        "Purge a block device by the strongest erase it offers (NVMe Format or "
        "Sanitize, ATA secure erase), or only by discarding its blocks. [default: auto]",
        panel=options.REAL,
    )
    power: str | None = option(
        "SENSOR_OR_CSV",
        "Power meter of the drive: a sensor's name in /sys/class/hwmon (ina226), or a "
        "CSV file that a meter is writing, with the columns time and power_w.",
        panel=options.REAL,
    )
    modified: list[str] | None = option(
        "CHANGE",
        "A change that you have made to the drive, such as heatsink: run the tests that "
        "need it, and leave the others to --resume; repeatable.",
        panel=options.REAL,
    )
    no_wait: options.NoWait = False
    yes: options.Yes = False

    def factory(
        self, ctx: typer.Context, drive: str, *, typed_yes: bool = False
    ) -> Callable[[], Target]:
        """What makes the target; raises UserError if it cannot be reviewed so."""
        targets.check_options(ctx, drive)
        return targets.target_factory(
            drive,
            targets.in_host(self.host, self.changes, self.ailment),
            events=self.events,
            destroy_data=self.destroy_data,
            overwrite_signature=self.overwrite_signature,
            purge=self.purge,
            power=self.power,
            no_wait=self.no_wait,
            typed_yes=typed_yes,
        )


@app.command(epilog=EXAMPLES)
@options.together(Options)
def review(ctx: typer.Context, given: Options) -> None:
    """Run a suite of tests on a drive and write its report."""
    words = targets.with_policy(given.policy, given.changes)
    if given.resume is None:
        given = replace(given, changes=words)
    else:  # it goes on with what was started, not with what a file has now
        plain: dict[str, Any] = {"suite": None, "quick": False, "host": None, "seed": None}
        given = replace(given, **{k: v for k, v in plain.items() if not options.typed(ctx, k)})
    if given.list_tests:
        _list(ctx, given)
        return
    folder = _resume(ctx, given, given.resume) if given.resume else _start(ctx, given)
    try:
        _summarize(folder, given)
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted while the report was made; the result is whole",
            f"drivebay report {shlex.quote(str(folder))}",
        ) from None


# --- running --------------------------------------------------------------------------------------


def _start(ctx: typer.Context, given: Options) -> Path:
    from drivebay.definitions import suites

    if given.drive is None:
        raise UserError(
            "review: DRIVE is missing",
            "name a drive, for example: drivebay review sm951-ahci-512; or see: drivebay drives",
        )
    suite = _selected(suites.load(given.suite or complete.DEFAULT_SUITE), given.only, given.skip)
    with targets.new_file(given.drive, given.size) as keep:
        return _start_on(ctx, given.drive, suite, given, began=keep)


def _start_on(
    ctx: typer.Context, drive: str, suite: Suite, given: Options, began: Callable[[], object]
) -> Path:
    """Reviews the drive, which is there; `began` is called once there is a result folder."""
    from drivebay import results

    factory = given.factory(ctx, drive)
    if given.baseline is not None:  # a wrong one is refused before the work and not after it
        if not (given.changes or given.ailment) and given.host is None:
            raise UserError(
                "--baseline has no meaning without --set, --policy, --ailment or --host",
                "to compare two results: drivebay compare DIR DIR",
            )
        results.read_manifest(given.baseline)
    if _confirm(factory, suite.shortened() if given.quick else suite, given):
        factory = given.factory(ctx, drive, typed_yes=True)
    return _run(
        factory,
        suite,
        given,
        began,
        out=given.out,
        seed=1 if given.seed is None else given.seed,
        quick=given.quick,
        drive=targets.lasting_name(drive),
    )


def _resume(ctx: typer.Context, given: Options, folder: Path) -> Path:
    from drivebay import results
    from drivebay.analysis.modified import changes
    from drivebay.definitions import profiles, suites

    refused = {
        "--out": given.out,
        "--size": given.size,
        "--only": given.only,
        "--skip": given.skip,
        "--set": given.changes,
        "--host": given.host,
        "--ailment": given.ailment,
        "--events": given.events,
    }
    if refusal := next((name for name, value in refused.items() if value), None):
        raise UserError(
            f"{refusal} cannot be given with --resume, which goes on with what was started",
            f"leave it out: drivebay review --resume {shlex.quote(str(folder))}",
        )
    made = results.read_manifest(folder)
    drive = given.drive or _present_name(made.target)
    left = tuple(entry.id for entry in made.steps if entry.state != "done")
    if made.target["kind"] != "virtual":  # as it was started, unless something else is given now
        power, purge = made.target.get("power"), made.target.get("purge")
        given = replace(given, power=given.power or power, purge=given.purge or purge)
    given = replace(given, events=bool(made.target.get("events")))
    factory = given.factory(ctx, drive)
    if changes(made.target) and given.drive is None:
        profile = profiles.from_resolved(made.target["profile"])
        factory = targets.virtual_factory(profile, events=given.events)
    suite = made.suite
    if given.suite is not None:
        suite = suites.load(given.suite)
        suite = suite.shortened() if made.quick else suite
    if left and _confirm(factory, made.suite.selected(left), given, folder):
        factory = given.factory(ctx, drive, typed_yes=True)
    return _run(
        factory,
        suite,
        given,
        out=folder,
        seed=made.seed if given.seed is None else given.seed,
        quick=made.quick or given.quick,
        drive=targets.lasting_name(drive),
        resume=True,
    )


def _run(
    factory: Callable[[], Target],
    suite: Suite,
    given: Options,
    began: Callable[[], object] = lambda: None,
    **more: Any,
) -> Path:
    from drivebay import review as engine
    from drivebay.cli.progress import ReviewProgress

    sink = ReviewProgress(began)
    try:
        return engine.run(
            factory, suite, sink=sink, jobs=given.jobs, modified=tuple(given.modified or ()), **more
        )
    finally:
        sink.end()


def _present_name(target: dict[str, Any]) -> str:
    """What names the drive of an interrupted review: Linux may have renamed a device since."""
    drive = str(target["drive"])
    if target["kind"] == "block":
        from drivebay.targets.safety import blockdev

        found = blockdev.paths_of(str(target.get("serial")), model=str(target.get("model")))
        if drive not in found and len(found) == 1:
            return found[0]
    return drive


def _selected(suite: Suite, only: Sequence[str] | None, skip: Sequence[str] | None) -> Suite:
    """The suite with the tests that --only and --skip leave, in its order."""
    known = [test.id for test in suite.tests]
    for given, ids in (("--only", only or ()), ("--skip", skip or ())):
        for name in ids:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                raise UserError(
                    f"{given}: suite {suite.name} has no test '{name}'; it has {', '.join(known)}",
                    f"{given} {close[0] if close else known[0]}",
                )
    chosen = tuple(name for name in known if name in (only or known) and name not in (skip or ()))
    if not chosen:
        raise UserError("--only and --skip leave no test to run", "leave one of them out")
    return suite.selected(chosen)


def _confirm(
    factory: Callable[[], Target], suite: Suite, given: Options, folder: Path | None = None
) -> bool:
    """Shows what will be done to a real drive, and asks if data goes or it will take long; whether
    YES was typed. `folder` is the result that is gone on with."""
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
        declined="--quick is the short form; --only TEST runs one test",
    )
    return typed


def _possible(suite: Suite, modified: tuple[str, ...]) -> tuple[Test, ...]:
    """The tests that a real drive with these changes can run now."""
    tests = suite.with_modified(modified)
    if not tests:
        asked = sorted({word for test in suite.tests for word in test.what_if})
        state = f"a drive modified by {', '.join(modified)}" if modified else "an unmodified drive"
        words = " ".join(f"--modified {word}" for word in asked) or "leave --modified out"
        raise UserError(f"suite {suite.name} has no test left for {state}", words)
    return tests


def _say_plan(target: Target, plan: Plan) -> None:
    targets.say_what_is_lost(target)
    parts = [(step.test.id, step.estimate_s) for step in plan.steps] + [("together", plan.total_s)]
    say_unless_quiet(*(f"        {name:<24} about {units.duration(s)}" for name, s in parts))


# --- the result -----------------------------------------------------------------------------------


def _summarize(folder: Path, given: Options) -> None:
    """Writes the reports and prints what came out."""
    from drivebay import analysis, results
    from drivebay.cli import report
    from drivebay.report.runs import entries
    from drivebay.report.verdict import sentences

    intervals = not given.no_intervals
    page = report.write(folder, intervals=intervals)
    comparison = _compare_with_baseline(folder, given.baseline, intervals=intervals)
    made = results.load(folder)
    computed = analysis.review(made, intervals=intervals)
    figures = list(computed.headline)
    found = analysis.conditions(made)
    if given.as_json:
        print_json(
            {
                "result": str(folder),
                "report": str(page),
                **({"comparison": str(comparison)} if comparison else {}),
                "headline": [asdict(figure) for figure in figures],
                "warnings": [asdict(warning) for warning in found.warnings],
                "interruptions": found.interruptions,
            }
        )
        return
    shown = figures if given.everything else _telling(figures, ROWS_MAX)
    _print_headline(shown)
    if len(shown) < len(figures):
        print(f"{len(figures) - len(shown)} more figures: see the report, or give --all\n")
    if made.quick:
        print(f"{SHORTENED}\n")
    if verdict := sentences(entries([computed])[0], ()):
        print(*verdict, sep="\n", end="\n\n")
    _print_conditions(found, tests=len(made.done))
    show(f"result  {short(folder)}", f"report  {short(page)}")
    if comparison is not None:
        show(f"compare {short(comparison)}")
    if words := analysis.agreement(figures):
        print(words)


def _compare_with_baseline(folder: Path, given: Path | None, *, intervals: bool) -> Path | None:
    """A modified drive's report beside the original's; None without a change or an original."""
    from drivebay import results
    from drivebay.analysis.modified import changes
    from drivebay.cli import report

    made = results.read_manifest(folder)
    if not changes(made.target):
        return None
    baseline = given or next(_baselines(folder, made), None)
    if baseline is None:
        say_unless_quiet(
            "hint: to compare it with the unmodified drive, review that too: "
            f"drivebay review {shlex.quote(str(made.target['drive']))}"
        )
        return None
    return report.write(baseline, folder, out=folder / COMPARISON, intervals=intervals)


def _baselines(folder: Path, made: Manifest) -> Iterator[Path]:
    """Whole reviews of the unmodified drive in the same way, beside the folder; newest first."""
    from drivebay import results
    from drivebay.analysis.modified import changes

    def key(one: Manifest) -> tuple[Any, ...]:
        return one.suite.name, one.seed, one.quick, one.target["drive"]

    manifests = folder.absolute().parent.glob("*/manifest.json")
    for path in sorted(manifests, key=lambda path: path.stat().st_mtime, reverse=True):
        with contextlib.suppress(DrivebayError, OSError):
            other = results.read_manifest(path.parent)
            is_whole = all(step.state == "done" for step in other.steps)
            if key(other) == key(made) and is_whole and not changes(other.target):
                yield path.parent


def _telling(figures: Sequence[Headline], most: int) -> list[Headline]:
    """The figures that say most, in their order: the first of each test, then published ones."""
    first: dict[str, Headline] = {}
    for figure in figures:
        first.setdefault(figure.test_id, figure)
    ranked = [*first.values(), *(one for one in figures if one.published_text), *figures]
    chosen = list(dict.fromkeys(ranked))[:most]
    return [figure for figure in figures if figure in chosen]


def _print_headline(figures: Sequence[Headline]) -> None:
    """The headline figures, with published ones beside them where there are any.

    After a virtual drive's figure stands its 90 % interval. Others have the spread, the standard
    deviation of the samples.
    """
    from rich.console import Console

    from drivebay.analysis.fidelity import interval_words

    narrow = sys.stdout.isatty() and Console().width < NARROW
    rows = []
    notes: dict[str, None] = {}
    last = ""
    for figure in figures:
        value = figure.missing
        if figure.value is not None:
            value = f"{number(figure.value)} {figure.unit}".strip()
        spread = "" if figure.spread is None else f"± {number(figure.spread)}"
        if figure.interval is not None:
            words, spread = interval_words(figure.interval, number), ""
            value = ", ".join(filter(None, (value, words)))
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
            show(name)
        show(f"  {figure.label}", f"    {value} {spread}".rstrip())
        if figure.published_text:
            show(f"    published {figure.published_text}  {_error(figure)}".rstrip())
    if not narrow:
        headers = ("test", "figure", "result", "spread", "n", "published", "error")
        used = [at for at in range(len(headers)) if any(row[at] for row in rows)]
        kept = [tuple(row[at] for at in used) for row in rows]
        right = tuple(used.index(at) for at in (2, 3, 4) if at in used)
        table([headers[at] for at in used], kept, right=right)
    for note in notes:
        show(f"note  {note}")
    print()


def _error(figure: Headline) -> str:
    if figure.published_relation in ("lt", "gt") and figure.error_percent == 0:
        return "within"
    if figure.error_percent is not None:
        return f"{figure.error_percent:+.1f} %"
    return figure.verdict or "" if figure.published_text else ""


def _print_conditions(found: Conditions, *, tests: int) -> None:
    """Reasons to distrust a real drive's figures, the worst of each kind, and tests that were
    interrupted; the report has every warning."""
    for warning, others in found.worst_of_each_kind():
        where = "" if len(warning.test_ids) == tests else ", ".join(warning.test_ids)
        less = f"less in {others} more test{'s' if others > 1 else ''}" if others else ""
        where = "; ".join(filter(None, (where, less)))
        show(f"warning {warning.sentence}" + (f" ({where})" if where else ""))
    for test_id, count in found.interruptions.items():
        times = "once" if count == 1 else f"{count} times"
        show(f"note    {test_id} was interrupted {times} and run again from the start")
    if found.warnings or found.interruptions:
        print()


# --- --list ---------------------------------------------------------------------------------------


def _list(ctx: typer.Context, given: Options) -> None:
    """Lists the tests that would be run; with a drive, how long they take on it."""
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
        print_json({"suite": suite.name, "title": suite.title, "tests": rows})
        return
    print(f"{suite.name}: {suite.title}")
    here = ["on this drive"] if estimates else []
    lines = []
    for test in chosen:
        lasts = [units.duration(seconds(form)) for form in (test, test.shortened())]
        lasts += [units.duration(estimates[test.id])] if estimates else []
        lines.append((test.id, *lasts, test.title))
    output.table(("test", "duration", "quick", *here, "title"), lines)
    print("duration: rests and loads on a real drive, at most, without fills and purges")


def _estimates(
    ctx: typer.Context, given: Options, drive: str, chosen: tuple[Test, ...]
) -> dict[str, float]:
    """Wall-clock seconds of each test on the drive; nothing is touched."""
    from drivebay import review as engine

    forms = tuple(test.shortened() if given.quick else test for test in chosen)
    with closing(given.factory(ctx, drive)()) as target:
        if target.kind != "virtual":
            forms = tuple(test.in_real_time() for test in forms)
        return {step.test.id: step.estimate_s for step in engine.make_plan(target, forms).steps}
