"""Where the project's own data lies: drives/, ailments/, hosts/, suites/, published/ and
catalog-results/.

In a checkout they are the folders at the top; in an installed package they are copied into
`drivebay/_data` at build time. Nothing else in the package looks for files of the project.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_CHECKOUT = _PACKAGE.parent.parent


def path(folder: str) -> Path:
    """The folder `drives`, `ailments`, `hosts`, `suites`, `published` or `catalog-results`. Raises
    FileNotFoundError if the installation is incomplete."""
    for base in (_PACKAGE / "_data", _CHECKOUT):
        candidate = base / folder
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"drivebay's own folder '{folder}' is missing: reinstall the package")
