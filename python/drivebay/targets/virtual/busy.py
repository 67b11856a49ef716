"""Utilisation of a virtual drive's parts in a phase, in per cent of its time.

Flash core: its working time. Dies: data read, programmed and erased, times the profile's nominal
times, over all dies; blocks and pages vary around these, which evens out. Channels: data moved over
them, at their rate. A part near 100 % limits the load; one far from it may still delay single
commands.

Left out: the host core, the link, and the losses of a suspended program.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from drivebay import _core
from drivebay.definitions.scaling import ERASE_ONE_IN

PAGE_KIB = 4


def busy(
    profile: Mapping[str, Any], before: _core.Counters, after: _core.Counters, duration_s: float
) -> dict[str, float]:
    """Metrics of a phase by name, in per cent; empty for a phase of no length. `profile`: the
    drive's; leaves are {"value": ...}. `before`, `after`: the drive's counters at the phase's
    ends. `duration_s`: the phase's length.
    """
    if duration_s <= 0:
        return {}
    nand, cache = profile["nand"], profile.get("slc_cache")

    def grown(name: str) -> float:
        return float(getattr(after, name) - getattr(before, name))

    def us(section: Mapping[str, Any], key: str) -> float:
        return float(section[key]["value"])

    thinned = us(nand, ERASE_ONE_IN) if ERASE_ONE_IN in nand else 1.0
    channels = us(nand, "channels")
    dies = channels * us(nand, "dies_per_channel")
    program_pages = us(nand, "planes") * us(nand, "page_kib") / PAGE_KIB
    slc = grown("slc_pages") / program_pages
    native = grown("placed_pages") / program_pages - slc
    die_us = (
        grown("page_reads") * us(nand, "read_us")
        + native * fmean(nand["program_us"]["value"])
        + (slc * us(cache, "program_us") if cache else 0.0)
        + grown("erases") * dies * us(nand, "erase_us") / thinned
    )
    moved_mb = (grown("channel_read_bytes") + grown("placed_pages") * PAGE_KIB * 1024) / 1e6
    most_mb_per_s = channels * us(nand, "channel_mb_per_s")
    return {
        "busy_flash_core_percent": 100 * grown("flash_core_busy_s") / duration_s,
        "busy_dies_percent": 100 * die_us / 1e6 / dies / duration_s,
        "busy_channels_percent": 100 * moved_mb / most_mb_per_s / duration_s,
    }
