"""The beginning of a drive's profile: a base, and the questions that published figures answer.

Each question is a comment with the values of the base that its answer sets, so that a line is
uncommented and changed once its figure is known. What has no answer stays the base's, and the drive
a stand-in. Left out: what a base does not have is not asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from drivebay.definitions.profiles import Profile

QUESTIONS = (
    ("Data sheet: interface", ("link.generation", "link.lanes", "host_interface.protocol")),
    (
        "Data sheet and teardown: dies, channels, and the flash's capacity over the user's",
        ("nand.channels", "nand.dies_per_channel", "nand.planes", "nand.blocks_per_plane",
         "nand.pages_per_block", "nand.page_kib"),
    ),
    ("Rating: sequential read", ("controller.read_path_mb_per_s", "nand.channel_mb_per_s")),
    (
        "Rating: sequential write; of smaller models, whose dies are the limit, the program time",
        ("controller.write_path_mb_per_s", "nand.program_us"),
    ),
    ("4 KiB random reads at queue depth 1, full", ("nand.read_us", "nand.read_by_type_us")),
    (
        "4 KiB random reads at the deepest queue, on a full drive and on an erased one",
        ("controller.read_command_us", "controller.read_page_us", "controller.host_core_us"),
    ),
    (
        "4 KiB random writes to an erased drive",
        ("controller.write_command_us", "controller.write_page_us"),
    ),
    (
        "The whole drive written in one go: where the rate falls, and to what",
        ("slc_cache.static_mb", "slc_cache.dynamic_mb", "slc_cache.program_us",
         "slc_cache.when_full", "slc_cache.fold_ratio"),
    ),
    (
        "An hour of random writes: length of the burst, rate at the end, and with a quarter unused",
        ("gc.threshold_mb", "gc.copy_extent_us", "gc.copy_page_us", "gc.duty_limit_us"),
    ),
    (
        "Power: idle, asleep, sequential read and write",
        ("energy.idle_mw", "energy.active_mw", "energy.program_4k_uj", "energy.read_page_uj"),
    ),
    ("How long it writes before it throttles, and its rate then", ("thermal.throttle",)),
)  # fmt: skip
"""What is asked, and the values that the answer sets."""


def template(name: str, base: Profile) -> str:
    """The text of a new profile named `name`, laid over `base`."""
    lines = [
        f"# {name}: what differs from {base.name} ({base.title}).",
        "#",
        "# Uncomment a line when a published figure answers its question, and say where from:",
        '# source = "publication, date" or "guess: set to ...". The rest is the base\'s.',
        "",
        f'base = "{base.name}"',
        "",
        f'drive.name = "{name}"',
        f'drive.title = "{name}"',
        'drive.stand_in = "every value but its name is another drive\'s"',
        '# drive.capacity_sectors = { value = 1000215216, source = "label" }',
    ]
    for question, paths in QUESTIONS:
        known = [line for path in paths for line in _lines(base.raw, path)]
        if known:
            lines += ["", f"# {question}:", *known]
    return "\n".join(lines) + "\n"


def _lines(raw: Any, path: str) -> Iterator[str]:
    found = raw
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    for leaf in found if isinstance(found, list) else [found]:
        if isinstance(leaf, dict) and "value" in leaf:
            more = f", range = {json.dumps(leaf['range'])}" if "range" in leaf else ""
            yield f'# {path} = {{ value = {json.dumps(leaf["value"])}{more}, source = "" }}'
        elif isinstance(leaf, dict):
            inner = ", ".join(f"{key} = {json.dumps(one['value'])}" for key, one in leaf.items())
            yield f"# a [[{path}]] of the base: {inner}"
