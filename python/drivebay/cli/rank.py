"""`drivebay rank`: ranks virtual drives for a load."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from drivebay.cli import complete, options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import interval_in_percent, known, print_json, say, show, table
from drivebay.common.errors import UserError

if TYPE_CHECKING:
    from drivebay.lab.ranking import Ranked

PERCENTILES = (50.0, 99.0, 99.9)


def rank(
    load: str = argument(autocompletion=complete.suites),
    drives: str = option(default=""),
    fresh: bool = flag("--fresh"),
    seed: int = option(default=1),
    as_json: options.Json = False,
) -> None:
    """Rank virtual drives for a load, with what is known of each figure.

    Each drive is scaled to about 16 GB, filled and overwritten twice at random; then
    the load runs. The interval contains the real drive's rate with 90 %; drives whose
    intervals overlap share their ranks, and a stand-in has none.

    Examples:
      drivebay rank my-database.fio
      drivebay rank my-database.fio --drives 980-pro-1tb,7450-pro-960
      drivebay rank quick --fresh

    Parameters
    ----------
    load : LOAD
        Job file of fio (.fio), or a suite: its name or .toml file.
    drives : NAMES
        Drives to compare, separated by commas. [default: the catalog]
    fresh :
        Do not overwrite the drives twice at random first.
    seed : N
        Seed of the drives.
    """
    from drivebay.cli.progress import status
    from drivebay.definitions import profiles, suites
    from drivebay.lab import ranking

    suite = suites.load(load)
    names = drives.split(",") if drives else profiles.names()
    chosen = [profiles.load(name.strip()) for name in dict.fromkeys(names)]
    left = [profile.name for profile in chosen]
    with status(every_s=5) as tell:

        def ended(drive: str) -> None:
            left.remove(drive)
            tell(f"rank: {len(chosen) - len(left)} of {len(chosen)} drives")

        ranked, refused = ranking.rank(suite, chosen, fresh=fresh, seed=seed, ended=ended)
    if not any(ranked):
        raise UserError(
            f"no drive can run it; {chosen[0].name}: {refused[chosen[0].name]}",
            "change the load, or name other drives: --drives NAMES",
        )
    if as_json:
        print_json({"loads": [[asdict(row) for row in rows] for rows in ranked], "left": refused})
        return
    for rows in filter(None, ranked):
        _show(rows)
    for name, reason in refused.items():
        say(f"note: {name} is left out: {reason}")


def _show(rows: list[Ranked]) -> None:
    show(f"{rows[0].test}, {rows[0].load}")
    percentiles = [f"p{q:g}, ms" for q in PERCENTILES]
    heads = ("rank", "drive", "IOPS", "90 % interval", "MB/s", *percentiles, "WAF", "")
    table(heads, list(map(_cells, rows)), right=range(2, len(heads) - 1))
    print()


def _cells(row: Ranked) -> tuple[str, ...]:
    first, last = row.rank or (0, 0)
    notes = (
        "stand-in" if row.stand_in else "",
        "" if row.interval else "no published figure like it",
        f"not steady: {row.unsteady}" if row.unsteady else "",
    )
    figures = row.figures
    latencies = [figures.percentiles_us.get(q) for q in PERCENTILES]
    return (
        ("" if not first else f"{first}" if first == last else f"{first} to {last}"),
        row.drive,
        known(figures.iops),
        interval_in_percent(figures.iops, row.interval),
        known(figures.rate_mb_s),
        *(known(us and us / 1e3) for us in latencies),
        known(figures.waf),
        "; ".join(filter(None, notes)),
    )
