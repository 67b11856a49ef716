"""Comments and docstrings: their first words, their width, and the files that they name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
SOURCES = sorted(
    path
    for folder in ("crates", "python/drivebay", "scripts", "tests")
    for suffix in ("*.rs", "*.py")
    for path in (TOP / folder).rglob(suffix)
    if "target" not in path.parts
)
RIDDLE = re.compile(r"(What|Whether|How|Of|That|As|Where|By)\b")
FILE = re.compile(r"(?<![\w.*-])(?:[\w-]+/)*[a-z][\w-]*\.(?:rs|py)\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
ELSEWHERE = frozenset(("tools/biosnoop.py", "comm/tcp.py"))
"""Files of other programs: bcc and Dask; those of fio's tests begin with t/."""


def comments(path: Path) -> Iterator[str]:
    """Comment lines and docstrings of a file, without their marks."""
    text = path.read_text()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, DOCUMENTED) and (docstring := ast.get_docstring(node)):
                yield docstring
    mark = r"//[/!]?" if path.suffix == ".rs" else "#"
    yield from re.findall(rf"^\s*{mark}(?: |$)(.*)", text, re.MULTILINE)


def summaries(path: Path) -> Iterator[str]:
    """First lines of the documentation of modules, types and functions."""
    text = path.read_text()
    if path.suffix == ".rs":
        yield from re.findall(
            r"(?<!\n)(?:^|\n)(?!\s*//[/!])[^\n]*\n\s*//[/!] (\S.*)", f"\n\n{text}"
        )
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield docstring


def test_a_summary_begins_with_a_noun_or_a_verb() -> None:
    every = [summary for path in SOURCES for summary in summaries(path)]
    riddles = [summary for summary in every if RIDDLE.match(summary)]
    assert len(every) > 8000 and len(riddles) < 0.05 * len(every), riddles[:20]
    assert [text for text in ("What it is", "Time until it ends") if RIDDLE.match(text)] == [
        "What it is"
    ]


def test_comments_are_at_most_100_columns_wide() -> None:
    wide = [
        f"{path.relative_to(TOP)}: {line}"
        for path in SOURCES
        if path.suffix == ".rs"
        for line in path.read_text().splitlines()
        if len(line) > 100 and line.lstrip().startswith("//") and "|" not in line
    ]
    assert not wide


def test_files_that_comments_name_exist() -> None:
    known = {str(path.relative_to(TOP)) for path in SOURCES}
    known |= {str(path.relative_to(TOP)) for path in (TOP / "examples").rglob("*.*")}
    ends = {"/".join(name.split("/")[-n:]) for name in known for n in range(1, 9)} | ELSEWHERE
    missing = {
        f"{path.relative_to(TOP)}: {name}"
        for path in SOURCES
        if path.parts[-2] != "tests" or path.suffix == ".rs"
        for comment in comments(path)
        for name in FILE.findall(comment)
        if name not in ends and not name.startswith("t/")
    }
    assert not missing
    assert FILE.findall("see `firmware/gone.rs`") == ["firmware/gone.rs"]
