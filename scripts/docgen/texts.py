"""Pages from elsewhere in the repository: architecture, changelog, security, published figures.

They are copied with their links changed to pages of the site. A link to a file that is not a page
becomes the file's name.
"""

from __future__ import annotations

import csv
import posixpath
import re
from pathlib import Path

from docgen.markdown import plain, table

TOP = Path(__file__).resolve().parent.parent.parent

COPIED = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
}
ELSEWHERE = {
    **COPIED,
    "crates/drive/src/profile/schema.rs": "reference/profile.md",
    "docs/adr": "adr/README.md",
    "published/README.md": "reference/published.md",
    "python/drivebay/definitions/suites/model.py": "reference/suite.md",
    "suites": "tests/index.md",
}
"""Pages of the site, by the files and folders of the checkout that they show."""

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:\s]+)(#[^)]*)?\)")


def pages() -> dict[str, str]:
    """The pages by their path in docs/."""
    copied = {
        place: linked((TOP / name).read_text(encoding="utf-8"), name, place)
        for name, place in COPIED.items()
    }
    return copied | {"reference/published.md": _published()}


def linked(text: str, source: str, place: str) -> str:
    """Adapts the links of the file `source` to its `place` on the site."""

    def turn(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        inside = ELSEWHERE.get(path.rstrip("/"))
        if inside is None and path.startswith("docs/"):
            inside = path.removeprefix("docs/")
        if inside is None:
            return label if label.startswith("`") else f"`{label}`"
        return f"[{label}]({posixpath.relpath(inside, posixpath.dirname(place))}{anchor})"

    return _LINK.sub(turn, text)


def _published() -> str:
    place = "reference/published.md"
    readme = (TOP / "published/README.md").read_text(encoding="utf-8")
    with (TOP / "published/figures.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = list(csv.reader(file))
    shown = [[plain(value) for value in row] for row in rows]
    return (
        f"{linked(readme, 'published/README.md', place).rstrip()}\n\n"
        f"## The {len(rows)} rows\n\nAll of `published/figures.csv`.\n\n{table(head, shown)}"
    )
