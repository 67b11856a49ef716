"""`drivebay prepare`: prepares a real drive, or compares ways to prepare a virtual one."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from drivebay.cli import options
from drivebay.cli import target as targets
from drivebay.cli.options import option
from drivebay.cli.output import number, print_json, say, show_wrapped, table
from drivebay.common import signals, units
from drivebay.common.threads import repeated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drivebay.lab.prepare import Method, Prepared
    from drivebay.lab.prepare_real import Plan, PreparedReal
    from drivebay.targets.fio.target import FioTarget


@dataclass(frozen=True)
class Options:
    """Values from the command line.

    Parameters
    ----------
    method : two-fills|random|sprandom
        Use only this method. two-fills: write all addresses in order, twice. random: once in order,
        then twice the capacity at random. sprandom: like fio 3.41's option. Repeatable for virtual
        drives.
    spare_percent : P
        Spare flash that sprandom assumes, in percent of the capacity (fio's spr_op). [default: that
        of a virtual drive; 15 for a real one]
    capacity : SIZE
        Scale the drive down to at least this capacity (as close as possible), or full.
    most : TIMES
        Stop after random writes of this many capacities, even if the drive is not steady. [default:
        3]
    """

    drive: options.Drive
    method: list[str] | None = option("--method")
    spare_percent: float | None = option()
    capacity: str = option(panel=options.VIRTUAL, default="4G")
    changes: options.Set = None
    seed: options.Seed = 1
    as_json: options.Json = False
    most: float | None = option(panel=options.REAL)
    size: options.NewFileSize = None
    destroy_data: options.DestroyData = None
    overwrite_signature: options.OverwriteSignature = False
    no_wait: options.NoWait = False
    yes: options.Yes = False


@options.together(Options)
def prepare(ctx: typer.Context, given: Options) -> None:
    """Prepare a real drive, or compare ways to prepare a virtual one.

    For each method the table shows the time, the data written, and the state just after it compared
    with steady state (write amplification of a virtual drive, write rate of a real one). The last
    columns show how much more must be written until both agree.

    Examples:
      drivebay prepare sm951-nvme-512
      drivebay prepare 970-evo-plus-1tb --method sprandom --spare-percent 15
      drivebay prepare pm9a3-960 --capacity 32G --json
      drivebay prepare NEW.img --size 4G --method random
      drivebay prepare /dev/sdX --method two-fills --destroy-data SERIAL

    A real drive is prepared with the given method, and ALL ITS DATA IS LOST.
    Then random 4 KiB writes follow until their rate is steady (SNIA: five slices
    of a tenth of the capacity within 20 % of their mean, slope within 10 %).
    Results for the catalog's drives: docs/concepts/preparation.md.
    """
    from drivebay.lab import prepare as preparation

    spare = None if given.spare_percent is None else given.spare_percent / 100
    methods = [preparation.method_of(name) for name in given.method or ()]
    if targets.is_virtual(given.drive):
        options.refuse(ctx, options.REAL, given.drive)
        _compare(given, methods, spare)
        return
    if given.size is None:
        targets.check_options(ctx, given.drive)
    else:
        options.refuse(ctx, options.VIRTUAL, given.drive)
    _prepare_real(given, methods, spare)


def _prepare_real(given: Options, methods: list[Method], spare: float | None) -> None:
    from drivebay.lab import prepare_real
    from drivebay.targets.fio.target import FioTarget

    plan = prepare_real.checked(methods, spare, given.most)
    with targets.new_file(given.drive, given.size):
        real = FioTarget(
            targets.must_be_testable(given.drive),
            destroy_data=given.destroy_data,
            overwrite_signature=given.overwrite_signature,
            no_wait=given.no_wait,
        )
        with closing(real) as target:
            prepare_real.check(target, plan)
            targets.say_what_is_lost(target)
            if targets.typed_yes(target.destroys, target.name, yes=given.yes):
                target.yes_was_typed()
            say(f"method  {plan.method}; writes at most {plan.times:.1f} x the capacity in all")
            targets.ask_before_long(
                plan.times * target.capacity_bytes / prepare_real.GUESSED_BYTES_PER_S,
                yes=given.yes,
                shorter="a smaller --most",
                declined="--most 0.5 is the shortest form",
            )
            done = _run(target, plan, given.seed)
            if given.as_json:
                about = {"drive": given.drive, "title": target.name}
                print_json(_document([done], **about, capacity_bytes=target.capacity_bytes))
            else:
                _print_real(target, done)


def _document(prepared: Sequence[PreparedReal | Prepared], **about: Any) -> dict[str, Any]:
    methods = [{**asdict(entry), "error_percent": entry.error_percent} for entry in prepared]
    return {**about, "methods": methods}


def _run(target: FioTarget, plan: Plan, seed: int) -> PreparedReal:
    """Prepares the drive with progress, until done or interrupted."""
    from drivebay.cli.progress import LINE_EVERY_S, figures_text, status
    from drivebay.lab import prepare_real
    from drivebay.targets.base import Progress

    now = ""

    def keep(what: str, _done: float, _planned: float, figures: dict[str, float]) -> None:
        nonlocal now
        now = f"{what} {figures_text(figures)}".strip()

    progress = Progress(keep)
    with (
        signals.heard(progress.cancel),
        status(LINE_EVERY_S) as show,
        repeated(
            lambda: show(f"{now}: {target.written_bytes / target.capacity_bytes:.2f} x written"),
            every_s=1.0,
        ),
    ):
        return prepare_real.prepare(target, plan, seed=seed, progress=progress)


def _print_real(target: FioTarget, done: PreparedReal) -> None:
    for warning in done.warnings:
        say(f"warning: {warning}")
    if done.steady_iops is None:
        say("warning: the drive was not steady at the end; see --most")
    cells = {
        "method": done.method,
        "time": units.duration(done.drive_s),
        "written": f"{done.written:.2f} x",
        "rate just after": f"{number(done.rate_iops)} IOPS",
        "steady": "-" if done.steady_iops is None else f"{number(done.steady_iops)} IOPS",
        "error": _known(done.error_percent, "{:+.0f} %"),
        "still to go": _known(done.more, "{:.1f} x"),
        "WAF just after": _known(done.waf, "{:.2f}"),
        "steady WAF": _known(done.steady_waf, "{:.2f}"),
    }
    _show(target.name, target.capacity_bytes, [cells], "five slices are steady; -: not known")


def _known(value: float | None, form: str, unknown: str = "-") -> str:
    return unknown if value is None else form.format(value)


def _show(title: str, capacity_bytes: int, rows: list[dict[str, str]], until: str) -> None:
    """Prints the table, with one row per method."""
    show_wrapped(f"{title}, {units.si_bytes(capacity_bytes)}")
    table(tuple(rows[0]), [tuple(row.values()) for row in rows], right=range(1, len(rows[0])))
    show_wrapped(f"x: times the capacity; still to go: random writes until {until}")


def _compare(given: Options, methods: list[Method], spare: float | None) -> None:
    """Compares the methods on a virtual drive with its steady state."""
    from drivebay.cli.progress import status
    from drivebay.definitions.scaling import with_capacity
    from drivebay.lab import prepare as preparation

    profile = targets.modified_profile(given.drive, given.changes)
    if given.capacity != "full":
        size = units.parse_bytes(given.capacity, option="--capacity")
        profile = with_capacity(profile, size) if size < profile.capacity_bytes else profile
    chosen = methods or preparation.METHODS
    with status() as show:
        prepared = preparation.prepare(profile, chosen, seed=given.seed, spare=spare, say=show)
    if given.as_json:
        about = {"drive": profile.name, "title": profile.title}
        print_json(_document(prepared, **about, capacity_bytes=profile.capacity_bytes))
        return
    rows = [
        {
            "method": result.method,
            "drive's time": units.duration(result.drive_s),
            "written": f"{result.written:.2f} x",
            "WAF just after": f"{result.waf:.2f}",
            "steady": f"{result.steady_waf:.2f}",
            "error": f"{result.error_percent:+.0f} %",
            "still to go": _known(result.more, "{:.1f} x", "over 3 x"),
        }
        for result in prepared
    ]
    until = "write amplification stays within 5 %"
    _show(profile.title, profile.capacity_bytes, rows, until)
