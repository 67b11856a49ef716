"""`drivebay age`: simulates a drive's whole life under a load."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from drivebay.cli import options
from drivebay.cli.options import argument, option
from drivebay.cli.output import print_json, say, show_wrapped, table
from drivebay.common.errors import UserError
from drivebay.common.files import refuse_existing, system_errors

if TYPE_CHECKING:
    from drivebay.analysis.replicates import Estimate
    from drivebay.library.life import Age, Life

# Most rows of the table of ages.
ROWS = 12
COLUMNS = {
    "years": "{0.years:.2f}",
    "written TB": "{0.written_tb:,.0f}",
    "used %": "{0.used_percent:.0f}",
    "spare %": "{0.spare_percent:.0f}",
    "WAF": "{0.waf:.2f}",
    "retries": "{0.retries:.4f}",
    "mean us": "{0.latency_us:,.0f}",
    "p99 us": "{0.p99_us:,.0f}",
}


def age(
    drive: str = argument("DRIVE", f"{options.CATALOG_NAME}."),
    load: str = option(default="enterprise"),
    until: str = option(default="eol"),
    dwpd: float | None = option(min=1e-3, max=1000),
    seeds: int = option(min=1, max=100, default=3),
    window: float = option(min=0.05, max=100, default=1.0),
    changes: options.Set = None,
    chart: Path | None = option(),
    as_json: options.Json = False,
) -> None:
    """Age a drive under a load: wear, errors, spares, write amplification.

    The table shows one life. The interval below it covers lives with different seeds.

    Examples:
      drivebay age 980-pro-1tb
      drivebay age 980-pro-1tb --load client --dwpd 0.5 --chart life.svg
      drivebay age sm951-ahci-512 --load random --until 100%

    The load is simulated in short windows, on a drive with smaller blocks. Wear
    and time between two windows are extrapolated. Method and error:
    docs/concepts/life.md.

    Parameters
    ----------
    load : LOAD
        client, enterprise (JESD219A), random or sequential.
    until : END
        When to stop: eol (available spare falls to 10 %), 100% (share of the rated cycles)
        or 5y (years, at most 30).
    dwpd : N
        Drive writes per day. [default: 1; client: 0.3]
    seeds : N
        Lives to simulate, for the confidence interval.
    window : N
        Minimum drive writes simulated at each age; more until two windows agree.
    chart : FILE
        Draw a chart of the life into this file (.svg or .png).
    """
    from drivebay import library
    from drivebay.cli.progress import status
    from drivebay.library import life

    if chart is not None and chart.suffix not in (".svg", ".png"):
        raise UserError(f"--chart: {chart} must end in .svg or .png", "--chart life.svg")
    refuse_existing(chart, "--chart")
    chosen = library.drive(drive).with_(*(changes or ()))
    with status() as show:

        def progress(seed: int, now: Age) -> None:
            spare = f"spare {now.spare_percent:.0f} %"
            show(f"life {seed}: {now.years:.1f} years, {now.written_tb:,.0f} TB written, {spare}")

        result = life.age(
            chosen, load, until=until, dwpd=dwpd, seeds=seeds, window=window, progress=progress
        )
    if chart is not None:
        with system_errors(f"--chart: {chart} cannot be written", "choose another path"):
            result.plot().savefig(chart)
    if as_json:
        print_json(_document(result))
        return
    _show(result)


def _document(result: Life) -> dict[str, object]:
    ends = {
        figure: {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
        for figure in ("written_tb", "years")
        for estimate in (result.estimate(figure),)
    }
    return {
        "drive": result.drive,
        "load": result.load,
        "dwpd": result.dwpd,
        "ended": result.ended,
        "window_errors": result.errors,
        "end": ends,
        "rated_tb": result.rated_tb,
        "rated_load": result.rated_load,
        "open_factors": result.open_factors,
        "ages": result.columns(),
    }


def _show(result: Life) -> None:
    life = result.lives[0]
    every = max(1, -(-(len(life) - 1) // ROWS))
    shown = [*life[:-1:every], life[-1]]
    rows = [[form.format(age) for form in COLUMNS.values()] for age in shown]
    table([*COLUMNS], rows, right=range(len(COLUMNS)))
    if len(set(result.ended)) > 1:
        say(f"note: the lives ended differently: {', '.join(result.ended)}")
    tb, years = result.estimate("written_tb"), result.estimate("years")
    show_wrapped(
        f"{result.ended[0]} after {_with_interval(tb)} TB written, {_with_interval(years)} years"
    )
    print(f"error of windows and leaps, in the interval: {100 * fmean(result.errors):.1f} %")
    uncorrectable_tb = next((age.written_tb for age in life if age.media_errors), None)
    if uncorrectable_tb is not None:
        print(f"first uncorrectable read: by {uncorrectable_tb:,.0f} TB written")
    low, high = result.open_factors
    by_cycles = result.is_whole or result.ended[0].endswith("% used")
    if by_cycles and (low, high) != (1.0, 1.0):
        tb_range = f"{tb.mean * low:,.0f} to {tb.mean * high:,.0f} TB"
        cycles = "cycles that blocks endure" if result.is_whole else "rated cycles"
        show_wrapped(f"over the possible range of {cycles}: {tb_range}")
    if result.is_whole and result.rated_tb is not None:
        show_wrapped(
            f"rated for {result.rated_tb:,.0f} TB of JEDEC's {result.rated_load} load: "
            f"this life is {tb.mean / result.rated_tb:.1f} times as long"
        )


def _with_interval(estimate: Estimate) -> str:
    if estimate.n == 1 or estimate.half_width == 0:
        return f"{estimate.mean:,.4g}"
    return f"{estimate.mean:,.4g} ({estimate.low:,.4g} to {estimate.high:,.4g})"
