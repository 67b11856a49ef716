"""`drivebay array`: measures several drives as one array, also degraded and rebuilding."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from drivebay.cli import options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import print_json, say, table
from drivebay.common import units

if TYPE_CHECKING:
    from drivebay.library.arrays import Measured, Survey


def array(
    drive: str = argument("DRIVE", f"{options.CATALOG_NAME}."),
    level: Literal["0", "1", "10", "5", "6"] = option(default="5"),
    members: int = option(min=2, max=32, default=4),
    chunk: str = option(default="512KiB"),
    queue_depth: int = option(min=1, max=1024, default=32),
    duration: float = option(min=0.1, max=1e5, default=5.0),
    rebuild_rate: float | None = option(min=1, max=1e6),
    scale: float = option(min=1e-3, max=1, default=1 / 16),
    settle: bool = flag("--settle"),
    seed: int = option(default=1),
    changes: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Measure an array of drives: rates and latencies, also degraded and rebuilding.

    The same loads run on one drive, on the array (as Linux md builds it), on the
    array with a failed member, and while a new member is rebuilt.

    Examples:
      drivebay array pm9a3-960 --level 5 --members 4
      drivebay array sm951-nvme-512 --level 1 --members 2
      drivebay array pm9a3-960 --level 6 --members 8 --rebuild-rate 205

    Model of md and its limits: docs/concepts/arrays.md.

    Parameters
    ----------
    level :
        RAID level: stripes (0), mirrors (1), both (10), parity (5, 6).
    members : N
        Drives in the array.
    chunk : SIZE
        Chunk size: data of one member per stripe.
    queue_depth : N
        Queue depth of the small random loads.
    duration : S
        Duration of each load in seconds.
    rebuild_rate : MB/S
        Limit of the rebuild rate. [default: no limit; Linux: 205]
    scale : S
        Scale the drives down, to simulate faster.
    settle :
        First write at random until the rate is steady, for the loads that write at random; needs a
        small --scale.
    seed : N
        Seed of the drives.
    """
    from drivebay import library
    from drivebay.cli.progress import status
    from drivebay.library import arrays

    chosen = library.drive(drive).with_(*(changes or ()))
    with status() as show:
        survey = arrays.survey(
            chosen,
            level,
            members,
            chunk_bytes=units.parse_bytes(chunk, option="--chunk"),
            queue_depth=queue_depth,
            duration_s=duration,
            rebuild_mb_per_s=rebuild_rate,
            scale=scale,
            settle=settle,
            seed=seed,
            progress=show,
        )
    if as_json:
        print_json(asdict(survey))
    else:
        _show(survey)


def _show(survey: Survey) -> None:
    states = list(dict.fromkeys(result.state for result in survey.measured))
    by_load: dict[str, list[Measured]] = {}
    for result in survey.measured:
        by_load.setdefault(result.load, []).append(result)
    rows = []
    for load, results in by_load.items():
        is_sequential = "stripes" in load
        unit, name = ("MB/s", "mb_per_s") if is_sequential else ("IOPS", "iops")
        for label, figure in ((f"{load}, {unit}", name), ("  99 % within, us", "p99_us")):
            marks = ("*" * bool(result.unsteady) for result in results)
            figures = (getattr(result, figure) for result in results)
            rows.append((label, *map("{:,.0f}{}".format, figures, marks)))
    table(("load", *states), rows, right=tuple(range(1, len(states) + 1)))
    reasons = {f"{result.load}: {result.unsteady}" for result in survey.measured if result.unsteady}
    for reason in sorted(reasons):
        say(f"* not steady: {reason}")
    print(f"{survey.capacity_bytes / 1e9:,.0f} GB")
    if survey.rebuild_s is not None:
        print(f"rebuild of a whole member, without a load: {survey.rebuild_s / 60:,.1f} minutes")
