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

from drivebay.common import documents
from drivebay.definitions import leaves
from drivebay.definitions.profiles import Profile

# Questions, each with the values that its answer sets.
QUESTIONS = tuple(documents.beside(__file__, "questions.toml").items())
# Facts of a drive for reports, which are the base's and not the new drive's.
IDENTITY = ("form_factor", "controller", "flash")
# Facts that only the base has.
LEFT_OUT = ("drive.released", "identify")
# Default of a value that the base may lack, and the value that the base must have for the
# question to apply.
DEFAULTS: dict[str, tuple[Any, str]] = {
    "controller.mapping_unit_kib": (4, "write_buffer.power_loss_protection"),
    "nand.read_planes": ("together", "gc"),
}


def template(name: str, base: Profile) -> str:
    """Returns the text of a new profile named `name` with `base` as its base."""
    without = [path for path in LEFT_OUT if leaves.at(base.raw, path) is not None]
    lines = [
        f"# {name}: what differs from {base.name} ({base.title}).",
        "#",
        "# Uncomment a line when a published figure answers its question, and name its source:",
        '# source = "publication, date" or "guess: set to ...". The rest is the base\'s.',
        "",
        f'base = "{base.name}"',
        *([f"without = {json.dumps(without)}"] if without else []),
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
