"""Descriptions of parameters in docstrings, from which the help of the command line is made."""

from __future__ import annotations

import inspect
import re
from typing import Any


def parameters(of: Any) -> dict[str, tuple[str | None, str]]:
    """Metavar and text of each parameter that the docstring of a class or function describes.

    A description is a line `name : METAVAR`, or `name :` without one, and indented lines of text.

    >>> class Size:
    ...     \"\"\"A size.
    ...
    ...     size : BYTES
    ...         Largest size
    ...         of a file.
    ...     \"\"\"
    >>> parameters(Size)
    {'size': ('BYTES', 'Largest size of a file.')}
    """
    pattern = r"^(\w+) :(?: (.+))?\n((?:    .+(?:\n|\Z))+)"
    found = re.findall(pattern, inspect.getdoc(of) or "", re.MULTILINE)
    return {name: (metavar or None, " ".join(text.split())) for name, metavar, text in found}
