"""Progress on stderr: bars on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from drivebay.cli.output import is_quiet, say, say_unless_quiet
from drivebay.common import units
from drivebay.common.documents import printable

if TYPE_CHECKING:
    from drivebay.review import Plan

LINE_EVERY_S = 5.0
REFRESH_PER_S = 2
# Time after which the expected total follows from the work done so far.
LEARNING_S = 1.0
# Estimated work, as time or share of a review, that counts as much as work done; a guess.
SURE_S, SURE_SHARE = 2.0, 0.05
# Share done from which the remaining time is extrapolated; a guess.
TELLING_PERCENT = 25


def on_terminal() -> bool:
    """True if stderr is a terminal on which a line can be redrawn."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", None)


def figures_text(figures: Mapping[str, float]) -> str:
    """Formats temperature and current rate, as far as known.

    >>> figures_text({"temperature_c": 51.2, "iops": 7560.0})
    '51 °C  7.6 K IOPS'
    >>> figures_text({"bytes_per_s": 1.5e9})
    '1.5 GB/s'
    """
    parts = []
    if "temperature_c" in figures:
        parts.append(f"{figures['temperature_c']:.0f} °C")
    if "bytes_per_s" in figures:
        parts.append(f"{units.si_bytes(figures['bytes_per_s'])}/s")
    elif "mb_per_s" in figures:
        parts.append(f"{units.si_bytes(figures['mb_per_s'] * 1e6)}/s")
    if "iops" in figures:
        iops = figures["iops"]
        parts.append(f"{iops / 1000:.1f} K IOPS" if iops >= 1000 else f"{iops:.0f} IOPS")
    return "  ".join(parts)


def _columns(width: int) -> list[ProgressColumn]:
    """Returns the columns that fit the terminal; name and share always do."""

    def text(field: str, width_max: int) -> TextColumn:
        column = Column(no_wrap=True, overflow="ellipsis", max_width=width_max)
        return TextColumn(field, markup=False, table_column=column)

    columns: list[ProgressColumn] = [
        text("{task.description}", max(8, width // 3)),
        text("{task.percentage:>3.0f}%", 4),
    ]
    if width >= 110:
        columns.insert(1, BarColumn(width // 6))
    if width >= 50:
        columns.append(TimeRemainingColumn())
    if width >= 32:
        columns.append(text("{task.fields[now]}", width // 2))
    return columns


class _Bars(Progress):
    """Progress bars that ignore a closed terminal."""

    def refresh(self) -> None:
        with contextlib.suppress(OSError):
            super().refresh()


class Display:
    """Display of running tasks: as bars, or as a line every few seconds."""

    expected = "time left unknown"
    """Text for the remaining time before it can be extrapolated."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        console = Console(stderr=True, highlight=False)
        self.bars = _Bars(
            *_columns(console.width),
            console=console,
            transient=True,
            refresh_per_second=REFRESH_PER_S,
            speed_estimate_period=1e9,  # mean over the whole run, as tests differ in speed
            redirect_stdout=False,
            redirect_stderr=False,
            get_time=now,
        )
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Draws bars or prints lines until `end`."""
        if is_quiet():
            return
        if on_terminal():
            self.bars.start()
        else:
            self._thread = threading.Thread(target=self._repeat, daemon=True)
            self._thread.start()

    def warn(self, message: str) -> None:
        """Prints a warning above the progress."""
        self.print(f"warning: {message}", warns=True)

    def end(self) -> None:
        """Stops the display; printed lines stay."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self.bars.live.is_started:
            with contextlib.suppress(OSError):
                self.bars.stop()

    def print(self, line: str, *, warns: bool = False) -> None:
        """Prints a line above the progress."""
        if is_quiet() and not warns:
            return
        if not self.bars.live.is_started:
            say(line)
            return
        with contextlib.suppress(OSError):
            self.bars.console.print(printable(line), markup=False, soft_wrap=True)

    def _repeat(self) -> None:
        while not self._over.wait(LINE_EVERY_S):
            total, *running = self.bars.tasks
            left = total.time_remaining
            is_known = left is not None and total.percentage >= TELLING_PERCENT
            how_long = f"{units.duration(left or 0)} left" if is_known else self.expected
            now = [f"{task.description} {task.fields['now']}" for task in running]
            current = "; ".join(filter(None, now or [total.fields["now"]]))
            say(f"{total.percentage:.0f}% done, {how_long}" + (f": {current}" if current else ""))


class ReviewProgress(Display):
    """Receiver of a review's progress; each test counts by its estimated time. `began` is called
    once the result folder exists, so that the review can be resumed."""

    def __init__(
        self, began: Callable[[], object] = lambda: None, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(now)
        self._began = began

    def begin(self, plan: Plan, *, jobs: int) -> None:
        """Starts the display with the tests that remain."""
        self._began()
        if not plan.steps:
            return
        self._mutex = threading.Lock()
        self._weights = {step.test.id: step.estimate_s for step in plan.steps}
        self._done_s, self._begun = 0.0, self.bars.get_time()
        self._about_s = self._total_s = plan.total_s / jobs
        self._done_share = 0.0
        about = f"about {units.duration(self._about_s)}"
        self.expected = f"{about} in total"
        self._total = self.bars.add_task("total", total=1.0, now=about)
        self._running: dict[str, tuple[float, TaskID]] = {}
        tests = f"{len(plan.steps)} test{'s' if len(plan.steps) > 1 else ''}"
        if not on_terminal():
            say_unless_quiet(f"review: {tests}, {about}")
        self.start()

    def started(self, test_id: str) -> None:
        """Adds a bar for a test."""
        with self._mutex:
            task = self.bars.add_task(test_id, total=1.0, now="starting")
            self._running[test_id] = (self.bars.get_time(), task)

    def progressed(
        self, test_id: str, what: str, done_s: float, planned_s: float, figures: Mapping[str, float]
    ) -> None:
        """Moves a running test's bar, never back."""
        share = min(1.0, max(0.0, done_s / planned_s)) if planned_s > 0 else 0.0
        with self._mutex:
            if test_id not in self._running:
                return
            _, task = self._running[test_id]
            share = max(share, self._share(task))
            now = " ".join(filter(None, (what, figures_text(figures))))
            self.bars.update(task, completed=share, now=now)
            self._update_total()

    def ended(self, test_id: str, state: str) -> None:
        """Prints a line for the finished test."""
        with self._mutex:
            begun, task = self._running.pop(test_id)
            self.bars.remove_task(task)
            if state == "done":
                self._done_s += self._weights[test_id]
            self._update_total()
            seconds = self.bars.get_time() - begun
        self.print(f"{state}: {test_id} ({units.duration(seconds)})", warns=state != "done")

    def stopping(self) -> None:
        """Confirms Ctrl-C."""
        self.print("stopping: waiting for the running tests to end")

    def _share(self, task: TaskID) -> float:
        return next(entry.completed for entry in self.bars.tasks if entry.id == task)

    def _update_total(self) -> None:
        running = [self._weights[id_] * self._share(t) for id_, (_, t) in self._running.items()]
        share = (self._done_s + sum(running)) / sum(self._weights.values())
        seconds = self.bars.get_time() - self._begun
        # While no test moves, the time tells nothing about the rest.
        if seconds >= LEARNING_S and share > self._done_share:
            sure_s = max(SURE_S, SURE_SHARE * self._about_s)
            slower = (seconds + sure_s) / (share * self._about_s + sure_s)
            self._total_s = self._about_s * slower
        self._done_share = max(share, self._done_share)
        self.expected = f"about {units.duration(max(self._total_s, seconds))} in total"
        self.bars.update(self._total, completed=share, now=self.expected)


class SweepProgress(Display):
    """Receiver of a sweep's progress, in runs."""

    def begin(self, runs: int, done: int, workers: int) -> None:
        """Starts the display with `runs` runs, of which `done` are done."""
        self._task = self.bars.add_task("sweep", total=runs, completed=done, now="")
        self._failed, self._workers = 0, workers
        before = f", {done:,} of them already done" if done else ""
        self.print(f"sweep: {runs:,} runs{before}, {workers} at once")
        self.start()

    def ended(self, index: int, error: str | None) -> None:
        """Counts a run, and prints a line if it failed."""
        if error is not None:
            self._failed += 1
            self.print(f"failed: run {index}: {error}", warns=True)
        self.bars.advance(self._task)
        task = self.bars.tasks[0]
        failed = f", {self._failed:,} failed" if self._failed else ""
        now = f"{int(task.completed) - self._failed:,} of {int(task.total or 0):,} runs{failed}"
        self.bars.update(self._task, now=now)


@contextlib.contextmanager
def status(every_s: float | None = None) -> Iterator[Callable[[str], None]]:
    """Yields a function that shows a text on one line of the terminal until the end.

    Without a terminal it prints a line at most every `every_s` seconds, or nothing.
    """
    if is_quiet():
        yield lambda text: None
        return
    if on_terminal():
        line = Console(stderr=True, highlight=False).status("")
        line.start()
        try:
            yield lambda text: line.update(Text(text))
        finally:
            with contextlib.suppress(OSError):
                line.stop()
        return
    printed_s = time.monotonic()

    def say_sometimes(text: str) -> None:
        nonlocal printed_s
        if every_s is not None and time.monotonic() - printed_s >= every_s:
            printed_s = time.monotonic()
            say(text)

    yield say_sometimes
