"""Smaller drives that behave like the original in less time, and tests for them.

Rates, latencies and write amplification stay the same; filling the drive, or a part of it, takes
less time. Leaves out: heat, which keeps its own time unless requested; a load by Zipf's law, whose
skew depends on the number of blocks, if the test is not scaled with the drive.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from drivebay.common.errors import UserError
from drivebay.definitions import leaves
from drivebay.definitions.modifications import OWN_AMOUNTS
from drivebay.definitions.profiles import Profile, from_resolved

if TYPE_CHECKING:
    from drivebay.definitions.suites import Phase, Prepare, Test

    Part = TypeVar("Part", Phase, Prepare)

SECTOR_ALIGN = 8  # a drive's capacity must be a multiple of 4 KiB
# Smallest heat capacity that the core accepts. Small nodes of a much smaller drive are above
# their share; the module, which determines how long warming up takes, is not.
LEAST_J_PER_K = 0.1
# Values that scale with the flash, and energy spent once per block: smaller blocks are erased
# more often in proportion.
WITH_FLASH = (*OWN_AMOUNTS, "energy.erase_block_uj")
# Erases keep their duration, as they are stalls; one in this many takes it, on behalf of all of
# them.
ERASE_ONE_IN = "erase_one_in"


def scaled(profile: Profile, share: float, *, heat: bool = False) -> Profile:
    """Returns a drive with the same dies, channels and number of blocks, and blocks of `share`
    as many pages; its title says so. `heat`: it also warms up in `share` of the time. Raises
    UserError if a block cannot be scaled by this share.
    """
    raw = profile.resolved()
    whole = int(raw["nand"]["pages_per_block"]["value"])
    exact = Fraction(share).limit_denominator(max(4096, whole)) if 0 < share <= 1 else Fraction(0)
    pages = whole * exact
    if pages.denominator != 1 or pages < 2:
        near = max(2, min(whole, round(pages)))
        raise UserError(
            f"scaled({share:g}) is not allowed; must be at most 1 and leave a block a whole "
            f"number of its {whole} pages, at least 2",
            f"scaled({near} / {whole})",
        )
    raw["drive"]["title"] = f"{raw['drive']['title']}, scaled to {exact} of its flash"
    sectors = Fraction(raw["drive"]["capacity_sectors"]["value"]) * exact
    _note(raw["drive"]["capacity_sectors"], int(sectors) // SECTOR_ALIGN * SECTOR_ALIGN, exact)
    _note(raw["nand"]["pages_per_block"], int(pages), exact)
    for name in WITH_FLASH:
        if leaf := leaves.at(raw, name):
            _note(leaf, float(leaf["value"] * exact), exact)
    one_in = float(raw["nand"].get(ERASE_ONE_IN, {"value": 1})["value"] / exact)
    raw["nand"][ERASE_ONE_IN] = {"value": one_in, "source": f"scaled to {exact}"}
    if heat:
        _scale_heat(raw.get("thermal", {}), exact)
    return from_resolved(raw)


def near(profile: Profile, share: float) -> float:
    """Returns the share next to `share` to which the drive can be scaled."""
    whole = int(profile.raw["nand"]["pages_per_block"]["value"])
    step = next(step for step in (12, 4, 3, 2, 1) if whole % step == 0)
    return min(1.0, max(step, step * round(whole * share / step)) / whole)


def with_load(step: Part, **changes: Any) -> Part:
    """Returns a phase or a step of preparation with changed values of its load; without a load,
    unchanged.
    """
    from drivebay.definitions.suites import Phase  # here, as a server needs no suites

    field = "workload" if isinstance(step, Phase) else "load"
    load = getattr(step, field)
    return (
        step if load is None else step.model_copy(update={field: load.model_copy(update=changes)})
    )


def scaled_test(test: Test, share: float) -> Test:
    """Adapts a test to a drive scaled to `share`: each block of a load by Zipf's law stands for
    the ranks of 1 / `share` blocks, so that the same part of the addresses gets the same part
    of the accesses as on the whole drive. Otherwise, with an exponent of one, the most
    popular hundredth of a 64th of 800 GB would get 70 % of the accesses, and 77 % on the
    whole drive.
    """
    from drivebay.definitions.suites import Phase
    from drivebay.definitions.suites.loads import for_ranks

    ranks = round(1 / share)
    if ranks == 1:
        return test

    def stretched(part: Part) -> Part:
        load = part.workload if isinstance(part, Phase) else part.load
        return part if load is None else with_load(part, offsets=for_ranks(load.offsets, ranks))

    phases = tuple(
        stretched(phase).model_copy(update={"before": tuple(map(stretched, phase.before))})
        for phase in test.phases
    )
    prepare = tuple(map(stretched, test.prepare))
    return test.model_copy(update={"prepare": prepare, "phases": phases})


def with_capacity(profile: Profile, size_bytes: int) -> Profile:
    """Returns the smallest scaled drive with at least `size_bytes`, or the profile itself if
    none is smaller. Raises UserError if the whole drive has less.
    """
    if size_bytes > profile.capacity_bytes:
        raise UserError(
            f"--capacity {size_bytes} is more than the {profile.capacity_bytes} bytes of "
            f"{profile.title}",
            "a larger drive: drivebay drives",
        )
    whole = int(profile.resolved()["nand"]["pages_per_block"]["value"])
    for pages in range(max(2, whole * size_bytes // profile.capacity_bytes), whole):
        try:
            smaller = scaled(profile, pages / whole)
        except UserError:  # blocks too small for another part of the drive
            continue
        if smaller.capacity_bytes >= size_bytes:
            return smaller
    return profile


def _scale_heat(node: Any, share: Fraction) -> None:
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
        if str(key).endswith("_j_per_k"):
            least = min(inner["value"], LEAST_J_PER_K)
            _note(inner, max(float(inner["value"] * share), float(least)), share)
        elif isinstance(inner, dict | list):
            _scale_heat(inner, share)


def _note(leaf: dict[str, Any], value: Any, share: Fraction) -> None:
    leaf.pop("range", None)
    leaf["source"] = f"scaled to {share}, from {leaf['value']}: {leaf['source']}"
    leaf["value"] = value
