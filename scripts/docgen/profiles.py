"""Reference page of profiles: description of each value from the core's types, allowed values from
the core, and an example from the catalog with its source. `drives.py` makes the pages of the
drives.

The types are read from `crates/drive/src/profile/schema.rs`, which has a narrow form: sections of
`name: Type = rule,` with doc comments. Allowed values come from the core: an invalid value is set,
and the core's refusal names the allowed ones.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docgen.markdown import code, page, plain, table
from drivebay import _core
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog

TOP = Path(__file__).resolve().parent.parent.parent
SCHEMA = TOP / "crates/drive/src/profile/schema.rs"
EXAMPLE = "sm951-ahci-512"

# Units by the end of a name, longest first.
UNITS = {
    "_k_per_w": "K/W",
    "_j_per_k": "J/K",
    "_m_per_s": "m/s",
    "_mb_per_s": "MB/s (10^6 B/s)",
    "_sectors": "sectors of 512 B",
    "_percent": "%",
    "_bytes": "B",
    "_kib": "KiB (1024 B)",
    "_mib": "MiB (2^20 B)",
    "_mb": "MB (10^6 B)",
    "_ms": "ms",
    "_us": "µs",
    "_uj": "µJ",
    "_mw": "mW",
    "_s": "s",
    "_c": "°C",
}


@dataclass(frozen=True)
class Field:
    """One field of a Rust struct: its name in TOML, its type, its doc comment."""

    name: str
    type: str
    description: str
    optional: bool


def pages() -> dict[str, str]:
    """The page by its path in docs/."""
    structs = _structs()
    body = "".join(_sections(structs, "RawSpec", ""))
    introduction = f"""
This page is for authors of profiles. A profile is a TOML file. Every value is a table
`{{ value = ..., source = "..." }}`; an optional `range = [low, high]` gives the plausible values,
and is checked. A source is a publication, a computation from one, or `guess:` with the figure that
the value was fitted to. Names end with their unit. drivebay refuses unknown keys.
[Add a drive](../guides/add-a-drive.md) shows the steps; [the virtual drive](../concepts/model.md)
explains the mechanisms.

This page is generated from the core's types. "Allowed" is the core's own description of valid
values. The example is the value of `{EXAMPLE}`, or of the first catalog drive that has one. A
profile may also have `classes = ["NAME", ...]`, [classes](../guides/add-a-drive.md#classes) whose
defaults it takes, or `base = "NAME"`, a catalog drive that supplies all other values, and
`without = ["section", ...]` for sections of these that it lacks."""
    return {"reference/profile.md": page("Profiles of drives", introduction, body)}


def _structs() -> dict[str, tuple[str, list[Field]]]:
    """Description and fields of each section by its type's name."""
    structs: dict[str, tuple[str, list[Field]]] = {}
    comment: list[str] = []
    optional, section = False, ""
    for line in SCHEMA.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("///"):
            comment.append(text[3:].strip())
        elif match := re.match(r"(Raw\w+) \{", text):
            section = match[1]
            structs[section] = (" ".join(comment), [])
            comment = []
        elif section and (match := re.match(r"(\w+): ([^=]+?)(?: = .+)?,$", text)):
            optional = optional or match[2].startswith("Option<")
            structs[section][1].append(Field(match[1], match[2], " ".join(comment), optional))
            comment, optional = [], False
        elif text.startswith("#[serde(default"):
            optional = True
        else:
            comment = []
    return structs


def _sections(
    structs: Mapping[str, tuple[str, list[Field]]], name: str, path: str
) -> Iterator[str]:
    """Yields the struct's own table under its heading, then the structs in it."""
    description, fields = structs[name]
    rows, below = [], []
    for field in fields:
        inner = re.sub(r"^Option<(.*)>$", r"\1", field.type)
        listed = inner.startswith("Vec<")
        inner = re.sub(r"^Vec<(.*)>$", r"\1", inner)
        dotted = f"{path}.{field.name}".lstrip(".")
        if inner in structs:
            below.append((inner, dotted + (".0" if listed else ""), listed, field.optional))
        else:
            rows.append(_row(field, dotted, inner))
    if path:
        shown = re.sub(r"\.0(?=\.|$)", "", path)
        brackets = f"[[{shown}]]" if path.endswith(".0") else f"[{shown}]"
        yield f"## `{brackets}`\n\n"
    yield f"{plain(description)}\n\n"
    yield table(("Key", "Unit", "Meaning", "", "Allowed", "Example"), rows)
    for inner, dotted, listed, optional in below:
        parts = list(_sections(structs, inner, dotted))
        note = " May be repeated." if listed else ""
        note += " Optional." if optional else ""
        if note:
            parts[1] = f"{parts[1].rstrip()}{note}\n\n"
        yield from parts


def _row(field: Field, dotted: str, kind: str) -> tuple[str, ...]:
    unit = next((unit for end, unit in UNITS.items() if field.name.endswith(end)), "")
    allowed, example = "", ""
    if known := _example(dotted):
        drive, leaf = known
        allowed = plain(_allowed(drive, dotted, leaf))
        example = f"{code(_toml(leaf['value']))}: {plain(leaf.get('source', ''))}"
        if drive != EXAMPLE:
            example += f" ({drive})"
    elif kind == "String":
        allowed = "text, without a source"
    description = plain(field.description)
    if field.name == "victim_policy":
        policies = _core.victim_policies()
        description += "".join(f" {code(word)}: {plain(about)}" for word, about, _ in policies)
    return (
        code(field.name),
        unit,
        description,
        "optional" if field.optional else "required",
        allowed,
        example,
    )


def _example(dotted: str) -> tuple[str, dict[str, Any]] | None:
    """A drive that has this value, and the value with its source."""
    for drive in (EXAMPLE, *catalog.names()):
        node: Any = catalog.load(drive).raw
        for key in dotted.split("."):
            if isinstance(node, list):
                node = node[int(key)] if int(key) < len(node) else None
            else:
                node = node.get(key) if isinstance(node, Mapping) else None
        if isinstance(node, Mapping) and "value" in node:
            return drive, dict(node)
    return None


def _allowed(drive: str, dotted: str, leaf: dict[str, Any]) -> str:
    """Allowed values according to the core's refusal of an invalid one."""
    value = leaf["value"]
    if isinstance(value, bool):
        return "true or false"
    wrong: Any = {str: "?", int: 2**62, float: 1e300}.get(type(value), [1e300])
    for attempt in (wrong, 1e300):  # an integer in the file may be a fraction to the core
        raw = copy.deepcopy(catalog.load(drive).resolved())
        node: Any = raw
        *path, last = dotted.split(".")
        for key in path:
            node = node[int(key)] if isinstance(node, list) else node[key]
        node[last] = {"value": attempt, "source": leaf["source"]}
        try:
            catalog.from_resolved(raw)
        except UserError as refusal:
            allowed = refusal.message.partition(" must be ")[2]
            if allowed:
                return allowed
    return "any text" if isinstance(value, str) else ""


def _toml(value: object) -> str:
    """Formats a value as in a profile."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
