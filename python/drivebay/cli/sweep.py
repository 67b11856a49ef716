"""`drivebay sweep`: runs a suite over drives, parameters and seeds, and shows effects."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from drivebay.cli import options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import number, print_json, say, say_notes, table
from drivebay.common.errors import EXIT_CHECK_FAILED, UserError

if TYPE_CHECKING:
    from drivebay.analysis.effects import Effect, FigureEffects
    from drivebay.analysis.replicates import Estimate, FigurePoints, PointEstimate
    from drivebay.lab.sweep.plan import Plan
    from drivebay.lab.sweep.store import Store

# Most points whose means are printed; the page and --json have all.
POINTS_SHOWN = 24
# Smallest share of the variation of a printed interaction; the page has all.
SHOWN_PERCENT = 1.0


def sweep(
    ctx: typer.Context,
    spec: Path = argument(),
    scheduler: str | None = option(),
    out: str | None = option(),
    policy: list[Path] | None = option(),
    trust_network: options.TrustNetwork = False,
    jobs: options.Jobs = None,
    retries: int = option(min=0, max=20, default=2),
    resume: bool = flag("--resume"),
    as_json: options.Json = False,
) -> None:
    """Run a suite over drives, parameters and seeds.

    Examples:
      drivebay sweep spare.toml                           on this machine
      drivebay sweep spare.toml --out sweeps/spare --resume
      drivebay sweep spare.toml --scheduler tls://10.0.0.1:8786 --out s3://lab/s
      drivebay sweep fleet.toml --scheduler tls://10.0.0.1:8786     real drives

    The result is a folder (or the place that the URL names): manifest.json,
    Parquet files of the runs in parts/, and report.html with main effects and
    interactions.
    Finished runs are always kept. Exit code 1: some runs failed.
    With --scheduler, everybody who controls the scheduler or a worker can run
    programs as you, and you as the workers' users. Without it only you reach the
    workers.
    SPEC, TLS and limits of scale: docs/concepts/sweeps.md.

    Parameters
    ----------
    spec : SPEC.toml
        Description of the sweep.
    scheduler : ADDRESS
        Run on the Dask cluster of this scheduler. [default: processes on this machine]
    out : DIR_OR_URL
        Folder for the results, or a URL that fsspec can open. [default: drivebay-sweeps/NAME]
    policy : FILE
        Load this policy plug-in, which SPEC names (policy = NAME). RUNS ITS CODE with your rights.
        Workers of a cluster find it through DRIVEBAY_POLICIES. Repeatable.
    retries : N
        Number of times to repeat a lost run.
    resume :
        Resume an interrupted sweep.
    """
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
            "leave it out, or use it on the workers: drivebay worker ADDRESS --jobs N",
        )
    for path in policy or ():
        policies.offer(path)
    made = plan.make(specs.load(spec), where=str(spec))
    url = out or str(Path("drivebay-sweeps") / made.spec.name)
    store = Store(url)
    sink = SweepProgress()
    try:
        failed = engine.run(
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
    _report(made, store, failed, as_json=as_json)
    if failed:
        count = f"{len(failed):,} of {made.runs:,} runs failed"
        again = engine.resume_command(str(spec), url, scheduler, trust_network=trust_network)
        say(f"{count}; see {url}/failed, then go on with: {again}")
        raise typer.Exit(EXIT_CHECK_FAILED)


def _report(made: Plan, store: Store, failed: dict[int, str], *, as_json: bool) -> None:
    """Writes the page, and prints the effects to stdout."""
    from drivebay.lab.sweep import summary
    from drivebay.lab.sweep.store import REPORT
    from drivebay.report.pages import sweep as sweep_page

    study = summary.study_of(made, store)
    page = sweep_page.render(summary.about(made, study, failed), study)
    store.write(REPORT, page.encode())
    say_notes(summary.no_effect(study))
    if as_json:
        effects = {test: [asdict(figure) for figure in study.figures(test)] for test in study.tests}
        points = {test: [asdict(figure) for figure in study.points(test)] for test in study.tests}
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
        for effects_of in study.figures(test):
            if effects_of.main:
                _print_figure(test, effects_of)
        for points_of in study.points(test):
            _print_points(test, points_of)
    print(f"result  {store.url}\nreport  {store.url}/{REPORT}")


def _print_figure(test: str, figure: FigureEffects) -> None:
    """Prints a figure's range and the effects on it."""
    span = f"{number(figure.lowest)} to {number(figure.highest)}"
    print(
        f"{test}: {figure.label}, mean {number(figure.mean)} {figure.unit}, {span}, n {figure.n:,}"
    )
    if figure.effects and figure.varies:
        heads = ("parameter", "share", "chance", "lowest mean", "highest mean", "slope")
        table(heads, [_effect_row(effect) for effect in figure.effects], right=(1, 2))
        pairs = [
            (
                f"{pair.first} with {pair.second}",
                f"{pair.share_percent:.1f} %",
                f"{pair.chance_percent:.1f} %",
            )
            for pair in figure.interactions
            if pair.share_percent >= SHOWN_PERCENT and pair.beyond_chance
        ]
        if pairs:
            table(("interaction", "share", "chance"), pairs, right=(1, 2))
    print()


def _print_points(test: str, figure: FigurePoints) -> None:
    """Prints the mean at each point with its interval over the seeds."""
    if len(figure.points) > POINTS_SHOWN:
        return
    confidence = f"{100 * figure.points[0].estimate.confidence:g} %"
    print(f"{test}: {figure.label}, {figure.unit}, mean with {confidence} interval")
    heads = ("point", "seeds", "mean", "±", "minus the first", "±")
    table(heads, [_point_row(point) for point in figure.points], right=(1, 2, 3, 4, 5))
    print()


def _point_row(point: PointEstimate) -> tuple[str, ...]:
    estimate, difference = point.estimate, point.difference
    name = ", ".join(f"{key} {value}" for key, value in point.values.items()) or "all"
    paired = ("", "") if difference is None else (number(difference.mean), _half(difference))
    return name, str(estimate.n), number(estimate.mean), _half(estimate), *paired


def _half(estimate: Estimate) -> str:
    return number(estimate.half_width) if estimate.n > 1 else "-"


def _effect_row(effect: Effect) -> tuple[str, ...]:
    levels = sorted((level for level in effect.levels if level.n), key=lambda level: level.mean)
    low, high = (f"{number(level.mean)} at {level.label}" for level in (levels[0], levels[-1]))
    slope = "" if effect.slope is None else f"{effect.slope:+.2f}"
    share, chance = f"{effect.share_percent:.1f} %", f"{effect.chance_percent:.1f} %"
    return effect.factor, share, chance, low, high, slope
