"""`drivebay fleet`: shows what other drives would do under the loads of a fleet."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivebay.cli import options
from drivebay.cli.options import argument, option
from drivebay.cli.output import known, print_json, say_notes, short, table
from drivebay.common import units
from drivebay.common.errors import UserError

if TYPE_CHECKING:
    from drivebay.library.fleet import Load, Stream

LARGE_BYTES = 20e9
"""Capacity of a scaled drive above which it is left out unless it is named."""
FIGURES = {
    "waf": ("WAF", "90 %"),
    "years_rated": ("years, rated", "by logs"),
    "years_flash": ("years, flash", "range"),
    "watts": ("watts", "from idle"),
}
USES = (
    *("drive", "logs", "written per day", "lowest", "highest", "read per day"),
    *("capacity", "data", "WAF by logs", "streams"),
)


def fleet(
    files: list[Path] = argument(),
    drives: str = option(default=""),
    out: Path = option(default=Path("fleet.html")),
    seed: int = option(default=1),
    as_json: options.Json = False,
) -> None:
    """Show amplification, years and watts of other drives under a fleet's loads.

    Logs (nvme smart-log -o json, smartctl -j -a) of several weeks give the bytes
    written per day, a block trace of a minute the shape of the writes. Logs and
    traces of a drive have its name: db1-2026-11-01.json, db1.csv. A single trace
    is that of all drives.

    Examples:
      drivebay fleet db1-2026-11-01.json db1-2026-11-29.json db1.csv
      drivebay fleet logs/*.json traces/* --drives pm9a3-960,7450-pro-960

    Each drive runs with and without placement (a handle for each stream of
    writes).
    Intervals and limits: docs/concepts/fleet.md.

    Parameters
    ----------
    files : FILES...
        Health logs (.json) and block traces.
    drives : NAMES
        Drives to compare, separated by commas. [default: the catalog]
    out : FILE
        Page to write.
    seed : N
        Seed of the drives.
    """
    from drivebay import library, report
    from drivebay.cli.progress import status
    from drivebay.definitions import profiles
    from drivebay.library import fleet as model
    from drivebay.report.pages import fleet as page

    if out.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"--out: {out} must end in .html", "--out fleet.html")
    report.refuse_others(out)
    logs = [path for path in files if path.suffix == ".json"]
    loads = model.loads(logs, [path for path in files if path not in logs])
    names = drives.split(",") if drives else profiles.names()
    chosen = [library.drive(name.strip()) for name in dict.fromkeys(names)]
    large = {d.name for d in chosen if not drives and model.smallest_bytes(d) > LARGE_BYTES}
    with status(every_s=5) as tell:
        left = [drive for drive in chosen if drive.name not in large]
        rows, refused = model.estimates(left, loads, seed, lambda name: tell(f"fleet: {name}"))
    if not rows:
        name, reason = next(iter(refused.items()))
        raise UserError(f"no drive can run it; {name}: {reason}", "name others: --drives NAMES")
    refused |= dict.fromkeys(large, "it takes minutes: name it with --drives")
    notes = [f"{name} lacks a row: {reason}" for name, reason in refused.items()]
    unknown = [load.use["name"] for load in loads if load.use["written_per_day"] is None]
    notes += [f"{name}: no log tells the bytes written per day" for name in unknown]
    for load in loads:
        if (count := load.traced_writes) < model.LEAST_WRITES:
            few = f"{count:,} write{'s' * (count > 1)}, of at least {model.LEAST_WRITES:,}"
            notes.append(f"{load.use['name']}: its trace is too short to show streams: {few}")
    heads = ("drive", "placement", "drives", *itertools.chain(*FIGURES.values()), "")
    cells = [_cells(row) for row in rows]
    tables = {"Summary": [heads, *cells], "Use": [USES, *map(_use, loads)]}
    place = report.write_fleet(page.render(tables, notes), out)
    say_notes(notes)
    if as_json:
        print_json(
            {"drives": rows, "fleet": [*map(asdict, loads)], "left": refused, "notes": notes}
        )
    else:
        table(heads, cells, right=range(2, len(heads) - 1))
        print(f"page    {short(place)}")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    cells = [row["drive"], "yes" if row["placement"] else "no", f"{row['drives']}"]
    for name in FIGURES:
        value, low, high = row[name]
        cells += known(value), "" if low == high else f"{known(low)} to {known(high)}"
    return *cells, row["note"]


def _use(load: Load) -> tuple[str, ...]:
    use = load.use
    days = *(use["written_per_day"] or [None] * 3), (use["read_per_day"] or [None])[0]
    amounts = *days, use["capacity_bytes"], use["data_bytes"]
    sizes = ["not known" if amount is None else units.si_bytes(amount) for amount in amounts]
    streams = "; ".join(map(_stream, load.streams))
    return use["name"], f"{use['logs']}", *sizes, known(use["waf"]), streams


def _stream(stream: Stream) -> str:
    fields, (begin, end) = stream.fields, stream.span
    place = f"{stream.share:.1%} of the bytes at {begin:.1%} to {end:.1%} of the addresses"
    if "pattern" in fields:
        return f"{fields['pattern']}, {place}"
    size, trims = units.binary_bytes(fields["block_bytes"]), fields["trim_percent"]
    return f"random ({fields['offsets']}, {size}, trims {trims:.0f}%), {place}"
