"""`drivebay array`: several drives as one, whole, degraded and while a member is rebuilt."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from drivebay.cli import options
from drivebay.cli.options import argument, option
from drivebay.cli.output import print_json, table
from drivebay.common import units

if TYPE_CHECKING:
    from drivebay.library.arrays import Measured, Survey

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay array pm9a3-960 --level 5 --members 4
  drivebay array sm951-nvme-512 --level 1 --members 2
  drivebay array pm9a3-960 --level 6 --members 8 --rebuild-rate 205

\b
What md does, and what is left out: docs/concepts/arrays.md.""",
)
def array(
    drive: str = argument("DRIVE", "A name of the catalog, or a profile (.toml)."),
    level: Literal["0", "1", "10", "5", "6"] = option(
        None, "Stripes, mirrors, both, one parity or two.", default="5"
    ),
    members: int = option("N", "Drives in the array.", min=2, max=32, default=4),
    chunk: str = option("SIZE", "A member's share of a stripe.", default="512KiB"),
    queue_depth: int = option("N", "Of the small random loads.", min=1, max=1024, default=32),
    duration: float = option("S", "Seconds of each load.", min=0.1, max=1e5, default=5.0),
    rebuild_rate: float | None = option(
        "MB/S", "Highest rate of a rebuild. [default: none; Linux has 205]", min=1, max=1e6
    ),
    scale: float = option("S", "Scale the drives, for speed.", min=1e-3, max=1, default=1 / 16),
    seed: int = option("N", "Seed of the drives.", default=1),
    changes: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Stripe or mirror a drive: rates and latencies whole, degraded and rebuilding.

    The same loads run on one drive and on the array, as Linux md puts it together;
    then with a member failed, and while a new one in its place is rebuilt.
    """
    from drivebay import library
    from drivebay.cli.progress import status
    from drivebay.library import arrays

    chosen = library.drive(drive).with_(*(changes or ()))
    with status() as show:
        found = arrays.survey(
            chosen,
            level,
            members,
            chunk_bytes=units.parse_bytes(chunk, option="--chunk"),
            queue_depth=queue_depth,
            duration_s=duration,
            rebuild_mb_per_s=rebuild_rate,
            scale=scale,
            seed=seed,
            progress=show,
        )
    if as_json:
        print_json(asdict(found))
    else:
        _show(found)


def _show(found: Survey) -> None:
    states = list(dict.fromkeys(one.state for one in found.measured))
    by_load: dict[str, list[Measured]] = {}
    for one in found.measured:
        by_load.setdefault(one.load, []).append(one)
    rows = []
    for load, each in by_load.items():
        streams = "stripes" in load
        rate = [f"{one.mb_per_s if streams else one.iops:,.0f}" for one in each]
        rows.append((f"{load}, {'MB/s' if streams else 'IOPS'}", *rate))
        rows.append(("  99 % within, us", *(f"{one.p99_us:,.0f}" for one in each)))
    table(("load", *states), rows, right=tuple(range(1, len(states) + 1)))
    print(f"{found.capacity_bytes / 1e9:,.0f} GB")
    if found.rebuild_s is not None:
        print(f"a whole member is rebuilt in {found.rebuild_s / 60:,.1f} minutes, without a load")
