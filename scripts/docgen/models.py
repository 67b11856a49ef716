"""Tables of pydantic models: each field with its type, bounds and default, and the class's words.

The models are the only place where a suite's and a manifest's form is written down.
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
    found = {schema["title"]: schema, **definitions}
    for name in order:  # grows while it is walked
        for other in re.findall(r"#/\$defs/(\w+)", json.dumps(found[name])):
            if other not in order:
                order.append(other)
    return "".join(_one(found[name], level) for name in order)


def _one(schema: dict[str, Any], level: int) -> str:
    title = schema["title"]
    words = _docstring(schema.get("description", ""))
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
    fields = table(("Field", "Type", "Allowed", "Default"), rows)
    return f"{'#' * level} {title}\n\n{words}\n\n{fields}"


def _docstring(text: str) -> str:
    """A docstring's sentences, without its doctests and with Rust's and Python's quotes as code."""
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
    """The bounds in words, of the field or of the one choice that has any."""
    for choice in field.get("anyOf", []):
        if words := _bounds(choice):
            return words
    said = []
    for key, sign in (
        ("minimum", "≥"),
        ("exclusiveMinimum", ">"),
        ("maximum", "≤"),
        ("exclusiveMaximum", "<"),
    ):
        if key in field:
            said.append(f"{sign} {field[key]:,}")
    if "multipleOf" in field:
        said.append(f"multiple of {field['multipleOf']}")
    for key, sign in (("maxLength", "at most"), ("minItems", "at least"), ("maxItems", "at most")):
        if key in field:
            said.append(f"{sign} {field[key]:,} {'characters' if 'Length' in key else 'entries'}")
    if "description" in field:
        said.append(field["description"])
    if "pattern" in field:
        said.append(f"form {code(field['pattern'])}")
    return plain_keep_code(", ".join(said))


def plain_keep_code(text: str) -> str:
    """Words for a cell in which code may stand."""
    return text if "`" in text else plain(text)
