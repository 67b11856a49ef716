"""`drivebay prepare`: how far ways of preparing a drive leave it from steady state."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from drivebay.cli import options
from drivebay.cli.options import option
from drivebay.cli.output import print_json, table
from drivebay.common import units

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay prepare sm951-nvme-512
  drivebay prepare 970-evo-plus-1tb --method sprandom --spare-percent 15
  drivebay prepare pm9a3-960 --capacity 32G --json

\b
See docs/concepts/preparation.md for what came out for the catalog's drives."""
)
def prepare(
    drive: options.VirtualDrive,
    method: Annotated[
        list[str] | None,
        option(
            "two-fills|random|sprandom",
            "Only this way; repeatable. two-fills: the addresses in order, twice. random: once in "
            "order, then twice the capacity at random. sprandom: as fio 3.41's option.",
            "--method",
        ),
    ] = None,
    spare_percent: Annotated[
        float | None,
        option(
            "P",
            "Spare flash that sprandom assumes, in percent of the capacity (fio's spr_op). "
            "[default: the drive's own]",
        ),
    ] = None,
    capacity: Annotated[
        str,
        option(
            "SIZE",
            "Scale the drive down to the smallest with at least this capacity; or: full.",
            show_default=True,
        ),
    ] = "4G",
    changes: options.Set = None,
    seed: options.Seed = 1,
    as_json: options.Json = False,
) -> None:
    """Compare ways of preparing a virtual drive with its steady state.

    For each: the drive's time, how much was written, the write amplification of random writes just
    after it and of those after a long run, and how much more must be written until both agree.
    """
    from drivebay.cli.progress import status
    from drivebay.definitions import profiles
    from drivebay.definitions.modifications import changed
    from drivebay.definitions.scaling import with_capacity
    from drivebay.lab import prepare as preparation

    profile = changed(profiles.load(drive), tuple(changes or ()))
    if capacity != "full":
        size = units.parse_bytes(capacity, option="--capacity")
        profile = with_capacity(profile, size) if size < profile.capacity_bytes else profile
    spare = None if spare_percent is None else spare_percent / 100
    methods = [preparation.method_of(one) for one in method or preparation.METHODS]
    with status() as show:
        found = preparation.prepare(profile, methods, seed=seed, spare=spare, say=show)
    if as_json:
        print_json(
            {
                "drive": profile.name,
                "title": profile.title,
                "capacity_bytes": profile.capacity_bytes,
                "methods": [{**asdict(one), "error_percent": one.error_percent} for one in found],
            }
        )
        return
    print(f"{profile.title}, {units.si_bytes(profile.capacity_bytes)}")
    heads = (
        "method",
        "drive's time",
        "written",
        "WAF just after",
        "steady",
        "error",
        "still to go",
    )
    rows = [
        (
            one.method,
            units.duration(one.drive_s),
            f"{one.written:.2f} x",
            f"{one.waf:.2f}",
            f"{one.steady_waf:.2f}",
            f"{one.error_percent:+.0f} %",
            "over 3 x" if one.more is None else f"{one.more:.1f} x",
        )
        for one in found
    ]
    table(heads, rows, right=(1, 2, 3, 4, 5, 6))
    print(
        "x: of the capacity; still to go: random writes until write amplification stays within 5 %"
    )
