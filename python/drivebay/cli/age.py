"""`drivebay age`: a drive's whole life under a load, in minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from drivebay.cli import options
from drivebay.cli.options import argument, option
from drivebay.cli.output import print_json, say, table
from drivebay.common.errors import UserError
from drivebay.common.files import system_errors

if TYPE_CHECKING:
    from drivebay.analysis.replicates import Estimate
    from drivebay.library.life import Age, Life

ROWS = 12
"""Ages of a life that the table shows, at most."""

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay age 980-pro-1tb
  drivebay age 980-pro-1tb --load client --dwpd 0.5 --chart life.svg
  drivebay age sm951-ahci-512 --load random --until 100%

\b
Windows of the load are simulated at some ages of a drive scaled to few pages
a block; wear and time go on by multiples between them. The method and its
error: docs/concepts/life.md.""",
)
def age(
    drive: str = argument("DRIVE", "A name of the catalog, or a profile (.toml)."),
    load: str = option(
        "L", "client, enterprise (JESD219A), random or sequential.", default="enterprise"
    ),
    until: str = option(
        "END",
        "eol: end of life, available spare at 10 %; 100%: of the rated cycles; 5y: years, at "
        "most 30.",
        default="eol",
    ),
    dwpd: float | None = option(
        "N", "Drive writes a day. [default: 1; of client 0.3]", min=1e-3, max=1000
    ),
    seeds: int = option("N", "Lives, for the interval.", min=1, max=100, default=3),
    window: float = option(
        "N", "Drive writes simulated at each age.", min=0.05, max=100, default=1.0
    ),
    changes: options.Set = None,
    chart: Path | None = option("FILE", "Draw the years into this file (.svg or .png)."),
    as_json: options.Json = False,
) -> None:
    """Age a drive under a load: wear, errors, spares, write amplification.

    The table has one life; the interval at its end is of several, by their seeds.
    """
    from drivebay import library
    from drivebay.cli.progress import status
    from drivebay.library import life

    if chart is not None and chart.suffix not in (".svg", ".png"):
        raise UserError(f"--chart: {chart} is no .svg and no .png", "--chart life.svg")
    if chart is not None and chart.exists():
        raise UserError(f"--chart: {chart} exists already", "take another name")
    chosen = library.drive(drive).with_(*(changes or ()))
    with status() as show:

        def progress(seed: int, now: Age) -> None:
            left = f"spare {now.spare_percent:.0f} %"
            show(f"life {seed}: {now.years:.1f} years, {now.written_tb:,.0f} TB written, {left}")

        found = life.age(
            chosen, load, until=until, dwpd=dwpd, seeds=seeds, window=window, progress=progress
        )
    if chart is not None:
        with system_errors(f"--chart: {chart} cannot be written", "write it elsewhere"):
            found.plot().savefig(chart)
    if as_json:
        print_json(_document(found))
        return
    _show(found)


def _document(found: Life) -> dict[str, object]:
    ends = {
        figure: {"mean": one.mean, "low": one.low, "high": one.high}
        for figure in ("written_tb", "years")
        for one in (found.estimate(figure),)
    }
    return {
        "drive": found.drive,
        "load": found.load,
        "dwpd": found.dwpd,
        "ended": found.ended,
        "end": ends,
        "rated_tb": found.rated_tb,
        "rated_load": found.rated_load,
        "open_factors": found.open_factors,
        "ages": found.columns(),
    }


def _show(found: Life) -> None:
    life = found.lives[0]
    every = max(1, -(-(len(life) - 1) // ROWS))
    shown = [*life[:-1:every], life[-1]]
    heads = ("years", "written TB", "used %", "spare %", "WAF", "retries", "mean us", "p99 us")
    rows = [
        (
            f"{age.years:.2f}",
            f"{age.written_tb:,.0f}",
            f"{age.used_percent:.0f}",
            f"{age.spare_percent:.0f}",
            f"{age.waf:.2f}",
            f"{age.retries:.4f}",
            f"{age.latency_us:,.0f}",
            f"{age.p99_us:,.0f}",
        )
        for age in shown
    ]
    table(heads, rows, right=tuple(range(len(heads))))
    if len(set(found.ended)) > 1:
        say(f"note: the lives ended differently: {', '.join(found.ended)}")
    tb, years = found.estimate("written_tb"), found.estimate("years")
    print(f"{found.ended[0]} after {_with_interval(tb)} TB written, {_with_interval(years)} years")
    lost = next((one.written_tb for one in life if one.media_errors), None)
    if lost is not None:
        print(f"first read that could not be saved: by {lost:,.0f} TB")
    low, high = found.open_factors
    by_cycles = found.is_whole or found.ended[0].endswith("% used")
    if by_cycles and (low, high) != (1.0, 1.0):
        ends = f"{tb.mean * low:,.0f} to {tb.mean * high:,.0f} TB"
        cycles = "cycles that blocks live" if found.is_whole else "rated cycles"
        print(f"by what is open of the {cycles}: {ends}")
    if found.is_whole and found.rated_tb is not None:
        print(
            f"rated {found.rated_tb:,.0f} TB by JEDEC's {found.rated_load} load: "
            f"this is {tb.mean / found.rated_tb:.1f} times as much"
        )


def _with_interval(one: Estimate) -> str:
    if one.n == 1 or one.half_width == 0:
        return f"{one.mean:,.4g}"
    return f"{one.mean:,.4g} ({one.low:,.4g} to {one.high:,.4g})"
