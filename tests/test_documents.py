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

from drivebay.definitions import policies

TOP = Path(__file__).resolve().parent.parent
FOLDERS = (
    "ailments classes crates docs drives examples fuzz hosts notebooks published python scripts "
    "suites tests"
)
DOCUMENTS = [
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"),
    *sorted(str(path.relative_to(TOP)) for path in (TOP / "docs").rglob("*.md")),
]
NAMED = re.compile(
    rf"`((?:{FOLDERS.replace(' ', '|')})/[\w./-]*[\w/]|[\w./-]*\w\.(?:rs|py|pyi|sh))`",
)
WAY = re.compile(r"^```way\n(.*?)^```", re.DOTALL | re.MULTILINE)
TEST = re.compile(r"`(test_\w+\.py)::(\w+)`")
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


def is_test(file: str, name: str) -> bool:
    """True if a file of this name under `tests` defines the test."""
    return any(
        re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE)
        for path in (TOP / "tests").rglob(file)
    )


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if HISTORY not in name])
def test_a_file_that_a_document_names_is_there(document: str) -> None:
    assert not missing((TOP / document).read_text())


def test_the_ways_through_the_code_are_as_drawn() -> None:
    text = (TOP / "ARCHITECTURE.md").read_text()
    assert WAY.search(text), "ARCHITECTURE.md draws the way of a write"
    assert not undefined(text)


def test_the_page_of_the_model_names_every_victim_policy() -> None:
    row = re.search(
        r"^\| victims \|.*$", (TOP / "docs/concepts/model.md").read_text(), re.MULTILINE
    )
    assert row
    assert [word for word in policies.OWN if f"`{word}`" not in row[0]] == []


def test_each_promise_names_a_test_that_exists() -> None:
    """The promises of SECURITY.md, and those on real drives."""
    security = (TOP / "SECURITY.md").read_text().split("## What is promised")[1].split("\n## ")[0]
    real = (TOP / "docs/concepts/real-drives-tests.md").read_text().split("|---|---|\n")[1]
    promises = re.findall(r"^(?:- |\| (?!\|)).*(?:\n  .*)*", f"{security}\n{real}", re.MULTILINE)
    assert len(promises) > 60
    for promise in promises:
        assert TEST.search(promise), promise
        for file, name in TEST.findall(promise):
            assert is_test(file, name), f"{file}::{name}"
    assert not is_test("test_documents.py", "test_that_is_gone") and not is_test("test_x.py", "a")


def test_actions_are_pinned_by_commit_and_the_container_s_user_is_not_root() -> None:
    for workflow in (TOP / ".github/workflows").glob("*.yml"):
        for line in re.findall(r"uses: (.*)", workflow.read_text()):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", line), (workflow.name, line)
    users = re.findall(r"^USER (.*)", (TOP / "Containerfile").read_text(), re.MULTILINE)
    assert users[-1] == "drivebay"


def test_a_file_that_is_gone_is_found() -> None:
    assert missing("see `crates/drive/src/gone.rs` and `tests/gone/`") == [
        "crates/drive/src/gone.rs",
        "tests/gone/",
    ]
    assert not missing("see `tests/test_documents.py`, `test_documents.py` and `drives/`")
    assert undefined("```way\ntests/test_documents.py  gone  what it does\n```\n")
    assert not undefined("```way\ntests/test_documents.py  undefined  what it does\n```\n")


LINK = re.compile(r"(?<!\\)\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
HREF = re.compile(r"""<(?:a|img)\b[^>]*?\b(?:href|src)=["']([^"']+)""")
FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6} +(.*?)(?: +\{#([\w-]+)\})? *#*$", re.MULTILINE)
NAMED_ANCHOR = re.compile(r"""<a\b[^>]*?\b(?:id|name)=["']([^"']+)""")


def pages() -> list[str]:
    """The Markdown files of the checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    return [line for line in listed.stdout.splitlines() if (TOP / line).exists()]


def anchors(text: str) -> set[str]:
    """The names of a page's headings, as GitHub and MkDocs make them, and those given."""
    text = FENCE.sub("", text)
    found, seen = set(NAMED_ANCHOR.findall(text)), dict[str, int]()
    for heading, given in HEADING.findall(text):
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = given or re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
        count = seen[name] = seen.get(name, -1) + 1
        found |= {name, re.sub("-+", "-", name)} if not count else {f"{name}-{count}"}
    return found


def dead_links(page: str, text: str) -> list[str]:
    """The links of a page to files, and to headings in them, that are not there."""
    plain = CODE.sub("", FENCE.sub("", text))
    dead = []
    for link in (*LINK.findall(plain), *HREF.findall(plain)):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        place = (TOP / page).parent / path if path else TOP / page
        heads = place.suffix == ".md" and bool(anchor)
        if not place.exists() or (heads and anchor not in anchors(place.read_text())):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", pages())
def test_no_link_is_dead_in_the_checkout(page: str) -> None:
    assert not dead_links(page, (TOP / page).read_text())


def test_a_dead_link_is_found() -> None:
    text = "[a](gone.md) [b](README.md#gone) [c](README.md#read-on) ![d](no.png) [e](https://x.y)"
    assert dead_links("README.md", text) == ["gone.md", "README.md#gone", "no.png"]
    assert not dead_links("README.md", "`[a](gone.md)`\n```\n[b](gone.md)\n```\n")


def test_a_page_is_read_in_ten_minutes() -> None:
    words = {page: len((TOP / page).read_text().split()) for page in pages() if "docs/" in page}
    assert [page for page, count in words.items() if count > 2000] == []


def test_a_section_of_the_changelog_is_short_and_the_models_changes_stand_apart() -> None:
    text = (TOP / "CHANGELOG.md").read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    *days, last = [one.partition("\n")[0] for one in sections]
    assert all(re.fullmatch(r"(\d+\.\d+\.\d+, )?\d{4}-\d\d-\d\d", day) for day in days), days
    assert last == "Model changes"
    for section in sections[:-1]:
        day, *lines = filter(None, section.splitlines())
        entries = [line for line in lines if line.startswith("- ")]
        headings = [line for line in lines if line not in entries]
        assert set(headings) <= {f"### {group}" for group in GROUPS}, (day, "one line an entry")
        assert len(entries) <= 25 and max(map(len, entries)) <= 180, day


GROUPS = ("Added", "Changed", "Fixed", "Model changes")


def test_every_decision_is_in_the_index_with_its_status() -> None:
    index = (TOP / "docs/adr/README.md").read_text()
    listed = re.findall(r"^\| \[\d{4}\]\(([^)]+)\) \| .+ \| \w.* \|$", index, re.MULTILINE)
    assert listed == sorted(path.name for path in (TOP / "docs/adr").glob("[0-9]*.md"))
