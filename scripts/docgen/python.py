"""Python reference: every public name of the package with its docstring."""

from __future__ import annotations

import drivebay
from docgen.markdown import page

# Modules whose public names are part of the API, in addition to the package's own.
MODULES = {
    "drivebay.definitions.profiles": "Profiles of virtual drives.",
    "drivebay.definitions.suites": "Suites and their tests, as data.",
    "drivebay.results": "Result folders.",
    "drivebay.common.errors": "Errors that a user can cause.",
}


def pages() -> dict[str, str]:
    """The page by its path in docs/."""
    names = [name for name in drivebay.__all__ if not name.startswith("_")]
    introduction = """
This page is for programs that `import drivebay`. It is generated from the docstrings. All names are
typed and end with their unit (`_s`, `_ns`, `_bytes`). Errors that a user can cause are raised as
[`DrivebayError`](errors.md) with a message and a hint."""
    body = "## drivebay\n\n" + "".join(f"::: drivebay.{name}\n\n" for name in names)
    for module, description in MODULES.items():
        body += f"## {module}\n\n{description}\n\n::: {module}\n"
        body += "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n\n"
    return {"reference/python.md": page("Python", introduction, body)}
