"""`drivebay sweep`: a suite over many drives, parameters and seeds, and the effects."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from drivebay.cli import options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import number, print_json, say, table
from drivebay.common.errors import EXIT_CHECK_FAILED, UserError

if TYPE_CHECKING:
    from drivebay.analysis.effects import Effect, FigureEffects
    from drivebay.analysis.replicates import Estimate, FigurePoints, PointEstimate
    from drivebay.lab.sweep.plan import Plan
    from drivebay.lab.sweep.store import Store

POINTS_SHOWN = 24
"""Of more points the means are left to the page and to --json."""
SHOWN_PERCENT = 1.0
"""Interactions below this share of the variation are left to the page."""

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay sweep spare.toml                           on this machine
  drivebay sweep spare.toml --out sweeps/spare --resume
  drivebay sweep spare.toml --scheduler tls://10.0.0.1:8786 --out s3://lab/s
  drivebay sweep fleet.toml --scheduler tls://10.0.0.1:8786     real drives

\b
The result is a folder (or what the URL names): manifest.json, Parquet
files of the runs in parts/, and report.html with main effects and
interactions.
Finished runs are always kept; exit code 1: some runs failed.
With --scheduler, whoever controls the scheduler or a worker can run programs
as you, and you as its workers. Without it only you reach the workers.
How to write SPEC, how to set up TLS, and how far it scales:
docs/concepts/sweeps.md.""",
)
def sweep(
    ctx: typer.Context,
    spec: Path = argument("SPEC.toml", "The sweep's parameters."),
    scheduler: str | None = option(
        "ADDRESS", "Run on a Dask cluster. [default: processes on this machine]"
    ),
    out: str | None = option(
        "DIR_OR_URL",
        "Folder of the results, or anything that fsspec opens. [default: drivebay-sweeps/NAME]",
    ),
    policy: list[Path] | None = option(
        "FILE",
        "Load this policy plug-in, which SPEC names: policy = NAME; repeatable. RUNS ITS CODE "
        "with your rights. A cluster's workers find it by DRIVEBAY_POLICIES.",
    ),
    trust_network: options.TrustNetwork = False,
    jobs: options.Jobs = None,
    retries: int = option("N", "Times to repeat a run that is lost.", min=0, max=20, default=2),
    resume: bool = flag("--resume", "Resume an interrupted sweep."),
    as_json: options.Json = False,
) -> None:
    """Run a suite over drives, parameters and seeds."""
    from drivebay.cli.progress import SweepProgress
    from drivebay.definitions import policies
    from drivebay.lab.sweep import engine, plan
    from drivebay.lab.sweep import spec as specs
    from drivebay.lab.sweep.store import Store

    if scheduler is not None and not options.typed(ctx, "jobs"):
        jobs = None
    if scheduler is not None and jobs is not None:
        raise UserError(
            "--jobs has no meaning with --scheduler: the cluster has its own workers",
            "leave it out, or give it to the workers: drivebay worker ADDRESS --jobs N",
        )
    for path in policy or ():
        policies.offer(path)
    made = plan.make(specs.load(spec), where=str(spec))
    url = out or str(Path("drivebay-sweeps") / made.spec.name)
    store = Store(url)
    sink = SweepProgress()
    try:
        outcome = engine.run(
            made,
            store,
            sink,
            scheduler=scheduler,
            trust_network=trust_network,
            jobs=jobs,
            retries=retries,
            resume=resume,
        )
    finally:
        sink.end()
    _report(made, store, outcome.failed, as_json=as_json)
    if outcome.failed:
        count = f"{len(outcome.failed):,} of {outcome.runs:,} runs failed"
        again = engine.resume_command(str(spec), url, scheduler, trust_network=trust_network)
        say(f"{count}; see {url}/failed, then go on with: {again}")
        raise typer.Exit(EXIT_CHECK_FAILED)


def _report(made: Plan, store: Store, failed: dict[int, str], *, as_json: bool) -> None:
    """The page beside the parts, and the effects on stdout."""
    from drivebay.lab.sweep import summary
    from drivebay.lab.sweep.store import REPORT
    from drivebay.report import sweep_page

    study = summary.study_of(made, store)
    page = sweep_page.render(summary.about(made, study, failed), study)
    store.write(REPORT, page.encode())
    for sentence in summary.no_effect(study):
        say(f"note: {sentence}")
    if as_json:
        effects = {test: [asdict(one) for one in study.figures(test)] for test in study.tests}
        points = {test: [asdict(one) for one in study.points.figures(test)] for test in study.tests}
        print_json(
            {
                "result": store.url,
                "report": f"{store.url}/{REPORT}",
                "fingerprint": made.fingerprint,
                "runs": made.runs,
                "failed": {str(index): error for index, error in failed.items()},
                "effects": effects,
                "without_effect": list(study.without_effect),
                "points": points,
            }
        )
        return
    for test in study.tests:
        for one in study.figures(test):
            if one.main:
                _print_figure(test, one)
        for several in study.points.figures(test):
            _print_points(test, several)
    print(f"result  {store.url}\nreport  {store.url}/{REPORT}")


def _print_figure(test: str, one: FigureEffects) -> None:
    """A figure's range, and what moved it."""
    span = f"{number(one.lowest)} to {number(one.highest)}"
    print(f"{test}: {one.label}, mean {number(one.mean)} {one.unit}, {span}, n {one.n:,}")
    if one.effects and one.varies:
        heads = ("parameter", "share", "chance", "lowest mean", "highest mean", "slope")
        table(heads, [_effect_row(effect) for effect in one.effects], right=(1, 2))
        pairs = [
            (
                f"{pair.first} with {pair.second}",
                f"{pair.share_percent:.1f} %",
                f"{pair.chance_percent:.1f} %",
            )
            for pair in one.interactions
            if pair.share_percent >= SHOWN_PERCENT and pair.beyond_chance
        ]
        if pairs:
            table(("interaction", "share", "chance"), pairs, right=(1, 2))
    print()


def _print_points(test: str, one: FigurePoints) -> None:
    """Means point by point, with the intervals that the seeds allow."""
    if len(one.points) > POINTS_SHOWN:
        return
    confidence = f"{100 * one.points[0].estimate.confidence:g} %"
    print(f"{test}: {one.label}, {one.unit}, mean and its {confidence} interval")
    heads = ("point", "seeds", "mean", "±", "less the first", "±")
    table(heads, [_point_row(point) for point in one.points], right=(1, 2, 3, 4, 5))
    print()


def _point_row(point: PointEstimate) -> tuple[str, ...]:
    found, less = point.estimate, point.difference
    words = ", ".join(f"{name} {value}" for name, value in point.values.items()) or "all"
    paired = ("", "") if less is None else (number(less.mean), _half(less))
    return words, str(found.n), number(found.mean), _half(found), *paired


def _half(found: Estimate) -> str:
    return number(found.half_width) if found.n > 1 else "-"


def _effect_row(effect: Effect) -> tuple[str, ...]:
    levels = sorted((one for one in effect.levels if one.n), key=lambda one: one.mean)
    low, high = (f"{number(one.mean)} at {one.label}" for one in (levels[0], levels[-1]))
    slope = "" if effect.slope is None else f"{effect.slope:+.2f}"
    share, chance = f"{effect.share_percent:.1f} %", f"{effect.chance_percent:.1f} %"
    return effect.factor, share, chance, low, high, slope
