"""Extension of mkdocstrings: adds a heading before an example that follows a docstring's sections.

drivebay's docstrings end with doctests without an "Examples" line; numpy's style would take them
for a part of the section before.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"\n\n(?=[ ]*>>> )")


class Examples(Extension):
    """Adds the heading before the first doctest."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for each parsed object."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        if "\n---" in text and "Examples\n---" not in text:
            obj.docstring.value = _EXAMPLE.sub("\n\nExamples\n--------\n", text, count=1)
