"""Progress of a sweep on stderr: one line that is drawn again, or a line every few seconds."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from drivebay.cli.display import LINE_EVERY_S, REFRESH_PER_S, WIDE, left_text, say


class Count:
    """How far a sweep is, apart from the drawing."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._begun = now()
        self._before = 0
        self.runs = self.done = self.failed = self.slots = 0

    def begin(self, runs: int, done: int, slots: int) -> None:
        """So many runs, of which some are there; so many at once."""
        self.runs, self.done, self._before, self.slots = runs, done, done, slots
        self._begun = self._now()

    @property
    def share(self) -> float:
        """What is over, from 0 to 1."""
        return (self.done + self.failed) / self.runs if self.runs else 1.0

    def left_s(self) -> float | None:
        """Seconds left, None before the first runs have ended."""
        over = self.done + self.failed - self._before
        if over < max(1, self.slots):
            return None
        left = self.runs - self.done - self.failed
        return (self._now() - self._begun) / over * left

    def words(self) -> str:
        """In a line."""
        failed = f", {self.failed:,} failed" if self.failed else ""
        at_once = f", {self.slots} at once" if self.slots > 1 else ""
        return f"{self.done:,} of {self.runs:,} runs{failed}{at_once}, {left_text(self.left_s())}"


class Lines:
    """Plain lines, for logs and pipes."""

    def __init__(self) -> None:
        self._count = Count()
        self._told = time.monotonic()

    def begin(self, runs: int, done: int, slots: int) -> None:
        """The first line."""
        self._count.begin(runs, done, slots)
        before = f", {done:,} of them there already" if done else ""
        self._print(f"sweep: {runs:,} runs{before}, {slots} at once")

    def ended(self, index: int, error: str | None) -> None:
        """A line for a failure; the others are counted."""
        if error is None:
            self._count.done += 1
        else:
            self._count.failed += 1
            self._print(f"failed: run {index}: {error}")

    def warn(self, message: str) -> None:
        """One line."""
        self._print(f"warning: {message}")

    def look(self) -> None:
        """A line every few seconds."""
        if time.monotonic() - self._told > LINE_EVERY_S:
            self._told = time.monotonic()
            say(f"{self._count.share:.0%} done: {self._count.words()}")

    def end(self) -> None:
        """Nothing is open."""

    def _print(self, line: str) -> None:
        say(line)


class Bar(Lines):
    """One line with a bar, drawn again in place."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(
            get_renderable=self._line,
            console=self._console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, runs: int, done: int, slots: int) -> None:
        """Starts drawing."""
        self._count.begin(runs, done, slots)
        self._live.start()

    def look(self) -> None:
        """Drawn by itself."""

    def end(self) -> None:
        """Stops drawing."""
        with contextlib.suppress(OSError):
            self._live.stop()

    def _print(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self._console.print(line, markup=False, soft_wrap=True)

    def _line(self) -> Table:
        table = Table.grid(padding=(0, 1))
        cells: list[Text | ProgressBar] = [Text("sweep"), Text(f"{self._count.share:4.0%}")]
        if self._console.width >= WIDE:
            width = self._console.width // 4
            cells.append(ProgressBar(total=1.0, completed=self._count.share, width=width))
        cells.append(Text(self._count.words(), no_wrap=True, overflow="ellipsis"))
        table.add_row(*cells)
        return table


def sink() -> Lines:
    """The display that suits this stderr; `end` it."""
    on_terminal = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", None)
    return Bar() if on_terminal else Lines()
