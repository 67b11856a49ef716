"""Code blocks of a page of the documentation: runs their commands and compares what they print.

All blocks in `sh` run in order, in one shell per page that starts in an empty folder. A block in
`text` is output of the last command before it; it may leave out lines, and a line in brackets
stands for those left out. A comment before a block changes this. It is invisible on the page:

- `<!-- not run: REASON -->`: the page only shows the block.
- `<!-- background: CONDITION -->`: the command runs until the page ends. The next one starts when
  the shell command CONDITION succeeds.
- `<!-- exits: CODE -->`: the exit code, if it is not 0.
- `<!-- file: NAME -->`: the block is the content of a file.
- `<!-- run: COMMAND -->`: a command that the page does not show.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PAGES = [TOP / "README.md", TOP / "docs/start.md", *sorted((TOP / "docs/guides").glob("*.md"))]
MARK = re.compile(r"<!-- (not run|background|exits|file|run): (.+) -->")
FENCE = re.compile(r"```(\w*)")
NUMBER = re.compile(r"[-−+]?\d[\d,]*(?:\.\d+)?")
TOLERANCE = 0.05
"""Relative difference that a figure may have from the page."""


@dataclass
class Block:
    """A fenced block, or a command that the page does not show."""

    language: str
    mark: str
    """`not run`, `background`, `exits`, `file`, `run`, or empty."""
    text: str
    """What the comment says after the mark."""
    content: str = ""

    @property
    def runs(self) -> bool:
        """True if it is a command to run."""
        return self.language == "sh" and self.mark not in ("not run", "file")


@dataclass
class Ran:
    """A command that ran, and the lines of its output that the page shows."""

    block: Block
    code: int = 0
    output: str = ""
    seconds: float = 0.0
    shown: list[str] = field(default_factory=list)

    def troubles(self) -> list[str]:
        """Differences between what the page shows and what happened."""
        found, rest = [], iter(self.output.splitlines())
        mistake = any(line.startswith("error: ") for line in self.shown)
        exits = int(self.block.text) if self.block.mark == "exits" else 2 * mistake
        if self.code != exits:
            found.append(f"exit code {self.code}:\n{self.output}")
        for line in self.shown:
            if line.strip() and line[0] != "(" and not any(alike(line, other) for other in rest):
                found.append(f"not printed: {line}\nprinted:\n{self.output}")
                break
        return found


def alike(page: str, printed: str) -> bool:
    """True if two lines differ in spaces and, within the tolerance, in numbers only."""
    texts = [NUMBER.sub("#", " ".join(line.split())) for line in (page, printed)]
    numbers = [
        [float(number.replace(",", "").replace("−", "-")) for number in NUMBER.findall(line)]
        for line in (page, printed)
    ]
    return texts[0] == texts[1] and all(
        abs(one - other) <= TOLERANCE * abs(one) for one, other in zip(*numbers, strict=True)
    )


def blocks(page: Path) -> list[Block]:
    """Blocks and invisible commands of a page, in order."""
    found: list[Block] = []
    mark = text = ""
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if inside and line != "```":
            found[-1].content += f"{line}\n"
        elif inside:
            inside = False
        elif fence := FENCE.fullmatch(line):
            found.append(Block(fence[1], mark, text))
            mark, text, inside = "", "", True
        elif comment := MARK.fullmatch(line):
            mark, text = comment.groups()
            if mark == "run":
                found.append(Block("sh", mark, text, f"{text}\n"))
                mark = text = ""
        elif mark and line:
            raise ValueError(f"{page}: no block follows '{mark}: {text}'")
    return found


def run(page: Path, folder: Path) -> list[Ran]:
    """Runs a page's commands in a folder, which also takes the place of `/tmp` in them."""
    aside = folder / ".aside"
    aside.mkdir()
    program = aside / "drivebay"
    code = "from drivebay.cli import main; main()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    program.chmod(0o755)
    ran: list[Ran] = []
    script: list[str] = []
    for block in blocks(page):
        content, text = (
            part.replace("/tmp/", f"{folder}/") for part in (block.content, block.text)
        )
        if block.mark == "file":
            script.append(f"cat > {text} <<'END OF BLOCK'\n{content}END OF BLOCK")
        elif block.runs:
            to = f"{{\n{content}}} > {aside}/{len(ran)}.out 2>&1"
            if block.mark == "background":
                to += f" &\nuntil {text}; do kill -0 $! || break; sleep 0.1; done 2>/dev/null"
            script.append(f"{to}\necho $? $(date +%s.%N) > {aside}/{len(ran)}.code")
            ran.append(Ran(block))
        elif block.language == "text" and block.mark != "not run":
            ran[-1].shown += block.content.splitlines()
    environment = {
        **os.environ,
        "CHECKOUT": str(TOP),
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "PATH": f"{aside}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(TOP / "python"),
        "XDG_CONFIG_HOME": str(aside),
    }
    start = time.time()
    shell = subprocess.Popen(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        shell.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):  # what runs in the background
            os.killpg(shell.pid, signal.SIGTERM)
    for number, entry in enumerate(ran):
        status, end = (aside / f"{number}.code").read_text().split()
        entry.code, entry.seconds = int(status), float(end) - start
        entry.output = (aside / f"{number}.out").read_text()
        start = float(end)
    return ran
