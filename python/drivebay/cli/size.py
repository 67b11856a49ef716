"""`drivebay size`: what a drive gives a model's KV cache or checkpoints, and how long it lasts."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from drivebay.cli import options
from drivebay.cli.options import argument, option
from drivebay.cli.output import known, print_json, table
from drivebay.common import units
from drivebay.common.errors import UserError

if TYPE_CHECKING:
    from drivebay.library.objects import Objects, Sized

CHECKPOINT = "checkpoint:"

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay size pm9a3-960 kv_trace.csv                 of kv_cache_benchmark
  drivebay size pm9a3-960 conversation_trace.jsonl --model llama3.1-70b
  drivebay size 980-pro-1tb checkpoint:105GB/600s --layout files

\b
Formats, layouts, and how close it comes: docs/concepts/models.md.""",
)
def size(
    drive: str = argument("DRIVE", "A name of the catalog, or a profile (.toml)."),
    trace: str = argument(
        "TRACE", "An --io-trace-log (.csv), Mooncake's .jsonl, or checkpoint:SIZE/SECONDS."
    ),
    layout: Literal["slots", "log", "files"] = option(
        None, "Where objects lie: slots of one size, a log, or a file each.", default="slots"
    ),
    model: str = option(
        "NAME", "Of a .jsonl: the model whose tokens they are.", default="llama3.1-8b"
    ),
    tier: str = option("NAME", "Of a .csv: the tier that is the drive.", default="Tier-2"),
    speed: float = option(
        "X",
        "Users, as a multiple of the trace's: its times pass so much faster.",
        min=1e-3,
        max=1e6,
        default=1.0,
    ),
    share: float = option(
        "S", "Share of the capacity that objects take.", min=0.01, max=1, default=0.9
    ),
    passes: int = option(
        "N", "How often the trace comes; the last time is measured.", min=1, max=1000, default=2
    ),
    scale: float = option(
        "S", "Scale the drive (not the objects) for speed; years stay its own.", default=1.0
    ),
    seed: int = option("N", "Seed of the drive.", default=1),
    changes: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Size a drive for a model's KV cache or checkpoints: rate, latency, watts, years.

    Objects are placed on a filled virtual drive, and every access of the trace is
    issued at its time.
    """
    from drivebay import library
    from drivebay.cli.progress import status
    from drivebay.library import objects

    chosen = library.drive(drive).with_(*(changes or ()))
    asked = _objects(trace, model, tier, chosen.capacity_bytes * scale * share)
    with status() as show:
        show(f"{len(asked):,} accesses of objects")
        found = objects.size(
            chosen,
            asked,
            layout=layout,
            share=share,
            speed=speed,
            passes=passes,
            scale=scale,
            seed=seed,
        )
    if as_json:
        print_json({name: _finite(value) for name, value in asdict(found).items()})
    else:
        table(("figure", "value"), _rows(found), right=(1,))


def _objects(trace: str, model: str, tier: str, room_bytes: float) -> Objects:
    from drivebay.library import objects

    if not trace.startswith(CHECKPOINT):
        return objects.read(Path(trace), model=model, tier=tier)
    amount, _, every = trace.removeprefix(CHECKPOINT).partition("/")
    try:
        size_bytes, every_s = (
            units.parse_bytes(amount, option="checkpoint"),
            float(every.removesuffix("s")),
        )
        if not (0 < every_s < 1e7 and 0 < size_bytes < 1e15):
            raise ValueError
    except ValueError:
        raise UserError(f"'{trace}' is no checkpoint", "checkpoint:105GB/600s") from None
    if 2 * size_bytes > room_bytes:
        raise UserError(
            f"two checkpoints of {amount} do not fit {room_bytes / 1e9:,.1f} GB, what objects take",
            "take a larger drive, or --share 1",
        )
    return objects.checkpoints(size_bytes=size_bytes, every_s=every_s)


def _finite(value: object) -> object:
    if isinstance(value, tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _rows(found: Sized) -> list[tuple[str, str]]:
    def percentiles(us: tuple[float, float, float]) -> str:
        return " / ".join(known(one / 1e3, " ms") for one in us)

    return [
        ("read", known(found.read_mb_per_s, " MB/s")),
        ("written", known(found.write_mb_per_s, " MB/s")),
        ("reads, 50 / 99 / 99.9 %", percentiles(found.read_us)),
        ("writes, 50 / 99 / 99.9 %", percentiles(found.write_us)),
        ("behind the trace at its end", known(found.behind_s, " s")),
        ("write amplification", known(found.waf)),
        ("mean power", known(found.power_w, " W")),
        ("written a day at this pace", known(found.written_tb_per_day, " TB")),
        ("years until the maker's rating", known(found.years_rated)),
        ("years until blocks have their cycles", known(found.years_flash)),
        ("reads of what was evicted", f"{found.misses:,}"),
        ("objects evicted", f"{found.evictions:,}"),
    ]
