"""`drivebay size`: measures a drive under a model's KV cache or checkpoints."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from drivebay.cli import options
from drivebay.cli.options import argument, option
from drivebay.cli.output import known, print_json, say, table
from drivebay.common import units
from drivebay.common.errors import UserError

if TYPE_CHECKING:
    from drivebay.library.objects import Objects, Sized

CHECKPOINT = "checkpoint:"


def size(
    drive: str = argument("DRIVE", f"{options.CATALOG_NAME}; not needed with --list."),
    trace: str | None = argument(),
    layout: Literal["slots", "log", "files"] = option(default="slots"),
    model: str = option(default="llama3.1-8b"),
    tier: str = option(default="Tier-2"),
    speed: float = option(min=1e-3, max=1e6, default=1.0),
    share: float = option(min=0.01, max=1, default=0.9),
    passes: int = option(min=1, max=1000, default=2),
    scale: float = option(min=1e-3, max=1, default=1.0),
    others: str = option("--list", default=""),
    members: int = option(min=1, max=32, default=1),
    level: Literal["0", "1", "10"] = option(default="0"),
    seed: int = option(default=1),
    changes: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Size a drive for a model's KV cache or checkpoints: rate, latency, watts, years.

    Objects are placed on a filled virtual drive, and every access of the trace is
    issued at its recorded time.

    Examples:
      drivebay size pm9a3-960 kv_trace.csv                 by kv_cache_benchmark
      drivebay size pm9a3-960 conversation_trace.jsonl --model llama3.1-70b
      drivebay size 980-pro-1tb checkpoint:105GB/600s --layout files
      drivebay size kv_trace.csv --list pm9a3-960,7450-max-800,p5520-1920
      drivebay size pm9a3-960 checkpoint:500GB/600s --members 8 --level 0

    Formats, layouts and accuracy: docs/concepts/models.md.

    Parameters
    ----------
    trace : TRACE
        Trace: kv_cache_benchmark's --io-trace-log (.csv), Mooncake's .jsonl, or
        checkpoint:SIZE/SECONDS.
    layout :
        Placement of objects: in slots of one size, in a log, or a file each.
    model : NAME
        For a .jsonl trace: model, for the size of its tokens.
    tier : NAME
        For a .csv trace: tier that is the drive.
    speed : X
        Number of users relative to the trace; the trace is replayed faster by this factor.
    share : S
        Share of the capacity for objects.
    passes : N
        Number of passes over the trace; only the last is measured.
    scale : S
        Scale the drive (not the objects) down, to simulate faster; years are of the whole
        drive. The next possible share is taken.
    others : NAMES
        Drives to compare, separated by commas.
    members : N
        Drives in an array; one is simulated, as they are alike.
    level :
        RAID level of the array: stripes, mirrors, or both.
    seed : N
        Seed of the drive.
    """
    from drivebay import library
    from drivebay.cli.progress import status
    from drivebay.library import objects

    if trace is None:
        if not others:
            raise UserError("size needs a drive and a trace", "drivebay size --help")
        drive, trace = "", drive
    names = list(filter(None, [drive, *others.split(",")]))
    drives = {name: library.drive(name).with_(*(changes or ())) for name in names}
    smallest = min(chosen.capacity_bytes for chosen in drives.values())
    width, _ = objects.stripes(members, level)
    accesses = _objects(trace, model, tier, smallest * width * scale * share)
    sized = {}
    with status() as show:
        for name, chosen in drives.items():
            show(f"{name}: {len(accesses):,} object accesses")
            sized[name] = objects.size(
                chosen,
                accesses,
                layout=layout,
                share=share,
                speed=speed,
                passes=passes,
                scale=scale,
                members=members,
                level=level,
                seed=seed,
            )
    if as_json:
        figures = {name: asdict(found) for name, found in sized.items()}
        print_json(figures if others else figures[drive])
        return
    columns = [_rows(found, is_burst=trace.startswith(CHECKPOINT)) for found in sized.values()]
    rows = [(label, *(column[label] for column in columns)) for label in columns[0]]
    array = f"{members} x " if members > 1 else ""
    table(
        ("figure", *(array + name for name in sized)), rows, right=tuple(range(1, len(sized) + 1))
    )
    for name, found in sized.items():
        if found.unsteady:
            say(f"note: {name}: not steady: {found.unsteady}")
    if accesses.demoted:
        say(f"note: {tier} is filled by eviction: {accesses.demoted:.0%} of its writes")


def _objects(trace: str, model: str, tier: str, space_bytes: float) -> Objects:
    from drivebay.library import objects

    if not trace.startswith(CHECKPOINT):
        return objects.read(Path(trace), model=model, tier=tier)
    amount, _, every = trace.removeprefix(CHECKPOINT).partition("/")
    try:
        size_bytes = units.parse_bytes(amount, option="checkpoint")
        every_s = float(every.removesuffix("s"))
        if not (0 < every_s < 1e7 and 0 < size_bytes < 1e15):
            raise ValueError
    except ValueError:
        raise UserError(f"'{trace}' is not a checkpoint", "checkpoint:105GB/600s") from None
    if 2 * size_bytes > space_bytes:
        raise UserError(
            f"two checkpoints of {amount} do not fit the {space_bytes / 1e9:,.1f} GB for objects",
            "use a larger drive or --share 1",
        )
    return objects.checkpoints(size_bytes=size_bytes, every_s=every_s)


def _rows(sized: Sized, *, is_burst: bool) -> dict[str, str]:
    def percentiles(us: tuple[float, float, float]) -> str:
        return " / ".join(known(value / 1e3, " ms") for value in us)

    def criterion(ms: float, limit: float) -> str:
        return f"{'yes' if ms < limit else 'not certain'}, {ms:,.3g} ms" if ms == ms else "no data"

    bursts = ("restore", "longest checkpoint") if is_burst else ("longest read", "longest write")
    unsteady = ", not steady" if sized.unsteady else ""
    limits = {
        "MLPerf: 95 % of reads < 200 ms": criterion(sized.read_p95_ms, 200.0),
        "MLPerf: 95 % of writes < 500 ms": criterion(sized.write_p95_ms, 500.0),
    }
    return {
        "read": known(sized.read_mb_per_s, " MB/s"),
        "written": known(sized.write_mb_per_s, " MB/s"),
        "reads, 50 / 99 / 99.9 %": percentiles(sized.read_us),
        "writes, 50 / 99 / 99.9 %": percentiles(sized.write_us),
        bursts[1]: known(sized.longest_write_s, " s"),
        bursts[0]: known(sized.longest_read_s, " s"),
        **({} if is_burst else limits),
        "delay at the end of the trace": known(sized.behind_s, " s"),
        "write amplification, mapping units": f"{known(sized.waf)}{unsteady}",
        "write amplification, bytes (JESD218)": f"{known(sized.waf_bytes)}{unsteady}",
        "mean power": known(sized.power_w, " W"),
        "written per day at this pace": known(sized.written_tb_per_day, " TB"),
        "years until the maker's rating": known(sized.years_rated),
        "years until the spare flash is gone": f"{known(sized.years_flash)}{unsteady}",
        "reads of evicted objects": f"{sized.misses:,}",
        "objects evicted": f"{sized.evictions:,}",
    }
