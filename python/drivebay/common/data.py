"""Paths of the project's own data: drives/, classes/, ailments/, hosts/, suites/, published/
and catalog-results/.

In a checkout these are the folders at the top; an installed package has copies of them in
`drivebay/_data`, made at build time. No other module of the package locates files of the project.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_CHECKOUT = _PACKAGE.parent.parent


def path(folder: str) -> Path:
    """Returns the path of `drives`, `classes`, `ailments`, `hosts`, `suites`, `published` or
    `catalog-results`. Raises FileNotFoundError if the installation is incomplete.
    """
    for base in (_PACKAGE / "_data", _CHECKOUT):
        candidate = base / folder
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"drivebay's own folder '{folder}' is missing: reinstall the package")
