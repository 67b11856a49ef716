"""Tables of pydantic models: each field with its type, bounds and default, and the class's
docstring.

The models are the only definition of the form of suites and manifests.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

from pydantic import BaseModel

from docgen.markdown import code, plain, table


def schema_text(model: type[BaseModel]) -> str:
    """The JSON Schema, for editors and other programs."""
    return json.dumps(model.model_json_schema(), indent=1, sort_keys=True) + "\n"


def describe(model: type[BaseModel], *, level: int = 2) -> str:
    """Headings and tables of a model and all models in it, each once, outermost first."""
    schema = model.model_json_schema()
    definitions: dict[str, Any] = schema.pop("$defs", {})
    order = [schema["title"]]
    schemas = {schema["title"]: schema, **definitions}
    for name in order:  # grows during the loop
        for other in re.findall(r"#/\$defs/(\w+)", json.dumps(schemas[name])):
            if other not in order:
                order.append(other)
    return "".join(_section(schemas[name], level) for name in order)


def _section(schema: dict[str, Any], level: int) -> str:
    title = schema["title"]
    description = _docstring(schema.get("description", ""))
    needed = schema.get("required", [])
    rows = [
        (
            code(name),
            _type(field),
            _bounds(field),
            "**required**" if name in needed else code(json.dumps(field.get("default"))),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    fields = table(("Field", "Type", "Meaning, allowed values", "Default"), rows)
    return f"{'#' * level} {title}\n\n{description}\n\n{fields}"


def _docstring(text: str) -> str:
    """A docstring's sentences, without its doctests."""
    paragraphs = [p for p in inspect.cleandoc(text).split("\n\n") if not p.startswith(">>>")]
    return "\n\n".join(paragraphs)


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "allOf" in field:
        return _type(field["allOf"][0])
    if "anyOf" in field:
        return " or ".join(_type(choice) for choice in field["anyOf"])
    if "enum" in field:
        return "one of " + ", ".join(code(json.dumps(value)) for value in field["enum"])
    if "const" in field:
        return code(json.dumps(field["const"]))
    kind = field.get("type", "anything")
    if kind == "array":
        return f"list of {_type(field.get('items', {}))}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"table of {_type(field['additionalProperties'])}"
    return {"object": "table", "null": "none", "integer": "whole number", "string": "text"}.get(
        kind, kind
    )


def _bounds(field: dict[str, Any]) -> str:
    """Describes the bounds of a field, or of the only choice that has any."""
    for choice in field.get("anyOf", []):
        if bounds := _bounds(choice):
            return bounds
    parts = []
    for key, sign in (
        ("minimum", "≥"),
        ("exclusiveMinimum", ">"),
        ("maximum", "≤"),
        ("exclusiveMaximum", "<"),
    ):
        if key in field:
            parts.append(f"{sign} {field[key]:,}")
    if "multipleOf" in field:
        parts.append(f"multiple of {field['multipleOf']}")
    for key, sign in (("maxLength", "at most"), ("minItems", "at least"), ("maxItems", "at most")):
        if key in field:
            parts.append(f"{sign} {field[key]:,} {'characters' if 'Length' in key else 'entries'}")
    if "description" in field:
        parts.append(field["description"])
    if "pattern" in field:
        parts.append(f"form {code(field['pattern'])}")
    return plain_keep_code(", ".join(parts))


def plain_keep_code(text: str) -> str:
    """Escapes text for a cell unless it contains code."""
    return text if "`" in text else plain(text)
