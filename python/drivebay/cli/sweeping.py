"""The commands `sweep` and `worker`: from words to a plan, a store, a run, a report."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from drivebay.cli import show, sweep_show
from drivebay.cli.display import say
from drivebay.common.errors import EXIT_CHECK_FAILED, UserError

if TYPE_CHECKING:
    from drivebay.analysis.effects import Effect, FigureEffects, Interaction
    from drivebay.lab.sweep.plan import Plan
    from drivebay.lab.sweep.store import Store

SHOWN_PERCENT = 1.0
"""Interactions below this share of the variation are left to the page."""
DEFAULT_OUT = Path("drivebay-sweeps")


def sweep(
    path: Path,
    *,
    scheduler: str | None,
    out: str | None,
    jobs: int | None,
    retries: int,
    resume: bool,
    as_json: bool,
) -> None:
    """Runs a sweep, writes its report, prints the main effects; exits with 1 if runs failed."""
    from drivebay.lab.sweep import engine, plan, spec
    from drivebay.lab.sweep.store import Store

    if scheduler is not None and jobs is not None:
        raise UserError(
            "--jobs has no meaning with --scheduler: the cluster has its own workers",
            "leave it out, or give it to the workers: drivebay worker ADDRESS --jobs N",
        )
    made = plan.make(spec.load(path), where=str(path))
    url = out or str(DEFAULT_OUT / made.spec.name)
    store = Store(url)
    sink = sweep_show.sink()
    try:
        outcome = engine.run(
            made, store, sink, scheduler=scheduler, jobs=jobs, retries=retries, resume=resume
        )
    finally:
        sink.end()
    _report(made, store, outcome.failed, as_json=as_json)
    if outcome.failed:
        count = f"{len(outcome.failed):,} of {outcome.runs:,} runs failed"
        again = engine.resume_command(str(path), url, scheduler)
        say(f"{count}; see {url}/failed, then go on with: {again}")
        raise typer.Exit(EXIT_CHECK_FAILED)


def _report(made: Plan, store: Store, failed: dict[int, str], *, as_json: bool) -> None:
    """The page beside the parts, and the effects on stdout."""
    from drivebay.lab.sweep import outcome
    from drivebay.lab.sweep.store import REPORT
    from drivebay.report import sweep_page

    study = outcome.studied(made, store)
    page = sweep_page.render(outcome.about(made, failed), study)
    store.write(REPORT, page.encode())
    if as_json:
        found = {test: [asdict(one) for one in study.figures(test)] for test in study.tests}
        summary = {
            "result": store.url,
            "report": f"{store.url}/{REPORT}",
            "fingerprint": made.fingerprint,
            "runs": made.runs,
            "failed": {str(index): error for index, error in failed.items()},
            "effects": found,
        }
        print(json.dumps(_without_nan(summary), indent=1))
        return
    for test in study.tests:
        for one in study.figures(test):
            if one.main:
                _print_figure(test, one)
    print(f"result  {store.url}\nreport  {store.url}/{REPORT}")


def _print_figure(test: str, one: FigureEffects) -> None:
    """A figure's range, and what moved it."""
    span = f"{show.number(one.lowest)} to {show.number(one.highest)}"
    print(f"{test}: {one.label}, mean {show.number(one.mean)} {one.unit}, {span}, n {one.n:,}")
    if one.effects and one.varies:
        heads = ("parameter", "share", "chance", "lowest mean", "highest mean", "slope")
        show.table(heads, [_effect_row(effect) for effect in one.effects], right=(1, 2))
        strong = [pair for pair in one.interactions if pair.share_percent >= SHOWN_PERCENT]
        pairs = [_pair_row(pair) for pair in strong if pair.beyond_chance]
        if pairs:
            show.table(("interaction", "share", "chance"), pairs, right=(1, 2))
    print()


def _effect_row(effect: Effect) -> tuple[str, ...]:
    levels = sorted((one for one in effect.levels if one.n), key=lambda one: one.mean)
    low, high = (f"{show.number(one.mean)} at {one.label}" for one in (levels[0], levels[-1]))
    slope = "" if effect.slope is None else f"{effect.slope:+.2f}"
    share, chance = f"{effect.share_percent:.1f} %", f"{effect.chance_percent:.1f} %"
    return effect.factor, share, chance, low, high, slope


def _pair_row(pair: Interaction) -> tuple[str, ...]:
    share, chance = f"{pair.share_percent:.1f} %", f"{pair.chance_percent:.1f} %"
    return f"{pair.first} with {pair.second}", share, chance


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: means of levels without runs are null."""
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def worker(
    address: str, *, jobs: int | None, only: list[str] | None, files: Sequence[Path]
) -> None:
    """Serves a scheduler with this host's processors and drives."""
    from drivebay.lab.sweep import cluster, fleet
    from drivebay.lab.sweep import worker as workers

    drives = fleet.testable(files, only)
    number = cluster.default_jobs() if jobs is None else jobs
    if not number and not drives:
        raise UserError("there is nothing to serve", "give --jobs 1 or more, or --file PATH")
    workers.serve(address, jobs=number, drives=drives, told=say)
