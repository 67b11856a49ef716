"""Writes `python/drivebay/definitions/suites/load_fields.py` from the core's table of load fields.

    .venv/bin/python scripts/load_fields.py

Run it after a change of the table in `crates/run/src/workload.rs`, with the new core installed.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

from drivebay import _core
from drivebay.common.errors import UserError

FILE = Path(__file__).resolve().parent.parent / "python/drivebay/definitions/suites/load_fields.py"
ELSEWHERE = {"weight", "span_start_bytes", "span_bytes", "stop"}
"""Fields that suites and the library have in other forms, or only the library has."""
AS_GIVEN = {"zone_fill_percent"}
"""Shares that keep the form in which they are given: 25.0 and 25 derive different seeds."""
TYPES = {"u8": "int", "u32": "int", "u64": "int", "f64": "float", "Offsets": "str"}
TYPES |= {f"Option<{kind}>": f"{name} | None" for kind, name in TYPES.items()}
TYPES["Vec<(u64, u32)>"] = "str | None"
HEAD = '''\
"""Fields of a load with types and defaults: generated from the core by scripts/load_fields.py."""

from __future__ import annotations

from typing import Literal

from drivebay.definitions.suites.parts import Data, Share


class LoadFields(Data):
    """Fields of a load, as the core defines them.

    Attributes
    ----------
'''


def generated() -> str:
    """Text of the module."""
    fields = [field for field in _core.workload_fields() if field["name"] not in ELSEWHERE]
    docs = "".join(
        textwrap.indent(field["name"] + "\n", " " * 4)
        + textwrap.fill(
            _description(**field),
            100,
            initial_indent=" " * 8,
            subsequent_indent=" " * 8,
            break_on_hyphens=False,
        )
        + "\n"
        for field in fields
    )
    return HEAD + docs + '    """\n\n' + "".join(_line(**field) for field in fields)


def _description(doc: str, allowed: str, **_: str) -> str:
    return doc + (f" Allowed: {allowed}." if allowed else "")


def _line(name: str, kind: str, default: str, **_: str) -> str:
    kind = kind.replace(" ", "").replace(",", ", ")
    shown = TYPES.get(kind) or f"Literal[{', '.join(map(json.dumps, _words(name)))}]"
    if name.endswith("_percent") and name not in AS_GIVEN:
        shown = "Share"
    value = json.loads(default)
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return f"    {name}: {shown} = {json.dumps(value) if isinstance(value, str) else value}\n"


def _words(name: str) -> list[str]:
    """The allowed words of a field, from the error of one that is not."""
    try:
        _core.Workload(**{name: "?"})
    except UserError as error:
        return re.findall(r"`([a-z]+)`", error.message.partition("expected")[2])
    raise AssertionError(name)


if __name__ == "__main__":
    FILE.write_text(generated(), encoding="utf-8")
