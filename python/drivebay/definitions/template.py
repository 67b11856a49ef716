"""Template of a drive's profile: a base, and the questions that published figures answer.

Each question is a comment with the values of the base that its answer sets; a line is uncommented
and changed once its figure is known. Without an answer a value stays the base's, and the drive a
stand-in. Questions that do not apply to the base are left out: power-loss protection and admission
are asked for a base that is a server drive, SLC cache and power states for a client drive.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from drivebay.definitions import leaves
from drivebay.definitions.profiles import Profile

QUESTIONS = (
    ("Data sheet: interface", ("link.generation", "link.lanes", "host_interface.protocol")),
    (
        "Data sheet and teardown: dies, channels, and the flash's capacity over the user's",
        ("nand.channels", "nand.dies_per_channel", "nand.planes", "nand.blocks_per_plane",
         "nand.pages_per_block", "nand.page_kib"),
    ),
    ("Data sheet: power-loss protection", ("write_buffer.power_loss_protection",)),
    (
        "Data sheet: mapping unit (indirection unit), below which random writes are slower",
        ("controller.mapping_unit_kib",),
    ),
    ("Rating: sequential read", ("controller.read_path_mb_per_s", "nand.channel_mb_per_s")),
    (
        "Sequential reads at queue depth 1, by size of request",
        ("read_ahead.window_kib", "read_ahead.streams"),
    ),
    (
        "Rating: sequential write; of smaller models, whose dies are the limit, the program time",
        ("controller.write_path_mb_per_s", "nand.program_us"),
    ),
    ("4 KiB random reads at queue depth 1, full", ("nand.read_us", "nand.read_by_type_us")),
    (
        "Data sheet: 4 KiB random reads at queue depth 1 of a fresh drive, which are of its cache",
        ("slc_cache.read_us",),
    ),
    (
        "4 KiB random reads at the deepest queue, on a full drive and on an erased one",
        ("controller.read_command_us", "controller.read_page_us", "controller.host_core_us"),
    ),
    (
        "Data sheet of the flash: whether the planes of a die are read independently of each other",
        ("nand.read_planes",),
    ),
    (
        "4 KiB random reads by the size of the span, with and without a host memory buffer (HMB)",
        ("map_cache.sram_kib", "map_cache.host_buffer_mib", "map_cache.host_buffer_us"),
    ),
    (
        "4 KiB random writes to an erased drive",
        ("controller.write_command_us", "controller.write_page_us"),
    ),
    (
        "The whole drive written in one pass: when the rate falls, and the rates after it",
        ("slc_cache.dynamic_mb", "slc_cache.program_us", "slc_cache.when_full",
         "slc_cache.fold_ratio"),
    ),
    (
        "Size of the cache by fill level: its size on a full drive, and when it begins to shrink",
        ("slc_cache.static_mb", "slc_cache.keep_mb"),
    ),
    (
        "Writes after lengths of idle time: how soon the cache is free again",
        ("slc_cache.fold_after_ms",),
    ),
    (
        "An hour of random writes: length of the burst, rate at the end, and with a quarter unused",
        ("gc.threshold_mb", "gc.copy_extent_us", "gc.copy_page_us", "gc.duty_limit_us"),
    ),
    (
        "Rating: steady random writes; write latency at fixed rates up to it",
        ("controller.admission.interval_us", "controller.admission.together",
         "controller.admission.pace", "gc.background_pages_per_s"),
    ),
    (
        "Latency of reads and writes at saturation, by the number of commands outstanding",
        ("host_interface.commands_max",),
    ),
    (
        "Percentiles of read latency under a fixed load of writes",
        ("nand.suspend_us", "nand.suspend_mean_us", "nand.erase_suspend_us"),
    ),
    (
        "Power: idle, asleep, sequential read and write",
        ("energy.idle_mw", "energy.active_mw", "energy.program_4k_uj", "energy.read_page_uj"),
    ),
    (
        "Data sheet: power states, with latencies and power; the first read after lengths of idle "
        "time shows when each is entered",
        ("power.device", "power.link", "power.link_awake_mw"),
    ),
    ("How long it writes before it throttles, and its rate then", ("thermal.throttle",)),
)  # fmt: skip
"""Questions, each with the values that its answer sets."""
IDENTITY = ("form_factor", "controller", "flash")
"""Facts of a drive for reports, which are the base's and not the new drive's."""
DEFAULTS: dict[str, tuple[Any, str]] = {
    "controller.mapping_unit_kib": (4, "write_buffer.power_loss_protection"),
    "nand.read_planes": ("together", "gc"),
}
"""Default of a value that the base may lack, and the value that the base must have for the
question to apply.
"""


def template(name: str, base: Profile) -> str:
    """Returns the text of a new profile named `name` with `base` as its base."""
    lines = [
        f"# {name}: what differs from {base.name} ({base.title}).",
        "#",
        "# Uncomment a line when a published figure answers its question, and name its source:",
        '# source = "publication, date" or "guess: set to ...". The rest is the base\'s.',
        "",
        f'base = "{base.name}"',
        *(['without = ["drive.released"]'] if "released" in base.raw["drive"] else []),
        "",
        f'drive.name = "{name}"',
        f'drive.title = "{name}"',
        f'drive.model = {{ value = "{name}", source = "name of this profile" }}',
        *(f'drive.{key} = {{ value = "unknown", source = "not answered" }}' for key in IDENTITY),
        '# drive.released = { value = "2025-01-31", source = "day of publication" }',
        'drive.stand_in = "all values except its name are another drive\'s"',
        '# drive.capacity_sectors = { value = 1000215216, source = "label" }',
    ]
    for question, paths in QUESTIONS:
        known = [line for path in paths for line in _lines(base.raw, path)]
        if known:
            lines += ["", f"# {question}:", *known]
    return "\n".join(lines) + "\n"


def _lines(raw: Any, path: str) -> Iterator[str]:
    node = leaves.at(raw, path)
    if node is None and path in DEFAULTS:
        value, needs = DEFAULTS[path]
        node = None if leaves.at(raw, needs) is None else {"value": value}
    for leaf in node if isinstance(node, list) else [node]:
        if isinstance(leaf, dict) and "value" in leaf:
            more = f", range = {json.dumps(leaf['range'])}" if "range" in leaf else ""
            yield f'# {path} = {{ value = {json.dumps(leaf["value"])}{more}, source = "" }}'
        elif isinstance(leaf, dict):
            values = {
                k: entry["value"] if isinstance(entry, dict) else entry for k, entry in leaf.items()
            }
            inner = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
            yield f"# a [[{path}]] of the base: {inner}"
