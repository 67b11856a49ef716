"""What the documents name is there: files, and functions of the ways through the code.

A file may be named by the end of its path ("device/read.rs"). In a block that begins with ```way,
each line is a file and a name that it defines.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
FOLDERS = "crates docs drives examples fuzz hosts notebooks published python scripts suites tests"
DOCUMENTS = [
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"),
    *sorted(str(path.relative_to(TOP)) for path in (TOP / "docs").rglob("*.md")),
]
NAMED = re.compile(
    rf"`((?:{FOLDERS.replace(' ', '|')})/[\w./-]*[\w/]|[\w./-]*\w\.(?:rs|py|pyi|sh))`",
)
WAY = re.compile(r"^```way\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Decisions tell of their time, and are not edited.
HISTORY = "docs/adr/"


@cache
def files() -> frozenset[str]:
    """Every end of every path here, of files and folders: "a/b.py" as "a/b.py", "b.py", "a"."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    paths = [line for line in listed.stdout.splitlines() if (TOP / line).exists()]
    if not paths:  # no checkout of git
        paths = [str(path.relative_to(TOP)) for path in TOP.rglob("*") if path.is_file()]
    ends = set()
    for path in paths:
        parts = path.split("/")
        for last in range(1, len(parts) + 1):
            for first in range(last):
                ends.add("/".join(parts[first:last]))
    return frozenset(ends)


def missing(text: str) -> list[str]:
    """The files that a document names and that are not there."""
    return [name for name in NAMED.findall(text) if name.rstrip("/") not in files()]


def undefined(text: str) -> list[str]:
    """The lines of ways whose file is gone or does not define what it is said to."""
    found = []
    for block in WAY.findall(text):
        for line in filter(str.strip, block.splitlines()):
            name, symbol = line.split()[:2]
            path, word = TOP / name, symbol.split("::")[-1].split(".")[-1]
            if not path.is_file() or not re.search(
                rf"\b(?:fn|def|class|struct|trait|enum) {word}\b", path.read_text()
            ):
                found.append(line)
    return found


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if HISTORY not in name])
def test_a_file_that_a_document_names_is_there(document: str) -> None:
    assert not missing((TOP / document).read_text())


def test_the_ways_through_the_code_are_as_drawn() -> None:
    text = (TOP / "ARCHITECTURE.md").read_text()
    assert WAY.search(text), "ARCHITECTURE.md draws the way of a write"
    assert not undefined(text)


def test_a_file_that_is_gone_is_found() -> None:
    assert missing("see `crates/drive/src/gone.rs` and `tests/gone/`") == [
        "crates/drive/src/gone.rs",
        "tests/gone/",
    ]
    assert not missing("see `tests/test_documents.py`, `test_documents.py` and `drives/`")
    assert undefined("```way\ntests/test_documents.py  gone  what it does\n```\n")
    assert not undefined("```way\ntests/test_documents.py  undefined  what it does\n```\n")
