"""Progress on stderr: a bar per running test on a terminal, a line every few seconds elsewhere.

The arithmetic (shares, time left) is in `Track`, apart from the drawing, so that it can be tested.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from drivebay.common import units
from drivebay.review.plan import Plan
from drivebay.targets.base import Target

LINE_EVERY_S = 5.0
REFRESH_PER_S = 5
SPARKS_MAX = 24
BLOCKS = "▁▂▃▄▅▆▇█"
TINY, MIDDLE, WIDE = 32, 76, 110
"""Widths of a terminal from which there is room for more columns."""
LONG_REFRESH_PER_S = 1
LONG_S = 120
"""A review that takes longer is drawn once a second: drawing costs 3 ms of the host's CPU."""
TRUST_AFTER_SHARE = 0.02
"""From this share of the work on, the time left is reckoned from the progress made."""


@dataclass
class Test:
    """How far one running test is; `share` is from 0 to 1."""

    __test__ = False

    share: float = 0.0
    what: str = "starting"
    figures: Mapping[str, float] = field(default_factory=dict)
    rates: tuple[float, ...] = ()
    """The latest data rates of the test's load, oldest first, for the sparkline."""


class Track:
    """The state of a review as the display needs it; safe to use from several threads."""

    def __init__(self, plan: Plan, *, jobs: int, now: Callable[[], float] = time.monotonic) -> None:
        self._weights = {step.test.id: step.estimate_s for step in plan.steps}
        self._jobs = jobs
        self._now = now
        self._begun = now()
        self._finished: set[str] = set()
        self._starts: dict[str, float] = {}
        self._mutex = threading.Lock()
        self._running: dict[str, Test] = {}

    def start(self, test_id: str) -> None:
        """A test begins."""
        with self._mutex:
            self._running[test_id] = Test()
            self._starts[test_id] = self._now()

    def move(
        self, test_id: str, what: str, done_s: float, planned_s: float, figures: Mapping[str, float]
    ) -> None:
        """A test has come further; it never goes back."""
        share = min(1.0, max(0.0, done_s / planned_s)) if planned_s > 0 else 0.0
        with self._mutex:
            if (test := self._running.get(test_id)) is not None:
                rates = test.rates if test.what == what else ()
                if (rate := figures.get("bytes_per_s")) is not None:
                    rates = (*rates, rate)[-SPARKS_MAX:]
                self._running[test_id] = Test(max(test.share, share), what, dict(figures), rates)

    def end(self, test_id: str, *, done: bool) -> float:
        """A test has ended; returns the seconds that it took."""
        with self._mutex:
            self._running.pop(test_id, None)
            if done:
                self._finished.add(test_id)
            return self._now() - self._starts.get(test_id, self._begun)

    def running(self) -> list[tuple[str, Test, float | None]]:
        """Id, state and seconds left of each running test, in the order they began."""
        now = self._now()
        with self._mutex:
            return [
                (name, test, _left(test.share, now - self._starts[name], self._weights[name]))
                for name, test in self._running.items()
            ]

    def total(self) -> tuple[float, float | None]:
        """The share of the whole that is done, and the seconds left."""
        with self._mutex:
            whole = sum(self._weights.values())
            done = sum(self._weights[name] for name in self._finished)
            done += sum(self._weights[name] * test.share for name, test in self._running.items())
        share = min(1.0, done / whole) if whole > 0 else 1.0
        return share, _left(share, self._now() - self._begun, whole / self._jobs)


def _left(share: float, elapsed_s: float, estimate_s: float) -> float | None:
    """Seconds left; None while there is too little to go by."""
    if share >= TRUST_AFTER_SHARE:
        return elapsed_s / share - elapsed_s
    left = estimate_s - elapsed_s
    return left if left >= 1.0 else None


def left_text(seconds: float | None) -> str:
    """Time left in words.

    >>> left_text(75), left_text(None)
    ('1 min 15 s left', 'time left unknown')
    """
    return "time left unknown" if seconds is None else f"{units.duration(seconds)} left"


def figures_text(figures: Mapping[str, float]) -> str:
    """Temperature and current rate, as far as they are known.

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


def sparkline(values: Sequence[float], width: int) -> str:
    """The latest values as blocks from zero to the highest of them, at most `width` of them.

    >>> sparkline([0, 1, 2, 4, 8], 4)
    '▂▃▅█'
    """
    shown = values[-width:]
    top = max(shown, default=0.0)
    if top <= 0:
        return ""
    return "".join(BLOCKS[min(7, int(8 * value / top))] for value in shown)


class Lines:
    """Progress as plain lines, for logs and pipes."""

    def __init__(self) -> None:
        self._track: Track | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, plan: Plan, *, jobs: int) -> None:
        """Starts the line every few seconds."""
        if not plan.steps:
            return
        self._track = Track(plan, jobs=jobs)
        tests = f"{len(plan.steps)} test{'s' if len(plan.steps) > 1 else ''}"
        say(f"review: {tests}, about {units.duration(plan.total_s / jobs)}")
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self._thread.start()

    def started(self, test_id: str) -> None:
        """A test begins."""
        if self._track is not None:
            self._track.start(test_id)

    def progressed(
        self, test_id: str, what: str, done_s: float, planned_s: float, figures: Mapping[str, float]
    ) -> None:
        """Kept for the next line."""
        if self._track is not None:
            self._track.move(test_id, what, done_s, planned_s, figures)

    def ended(self, test_id: str, state: str) -> None:
        """One line for the finished test."""
        if self._track is not None:
            seconds = self._track.end(test_id, done=state == "done")
            self._print(f"{state}: {test_id} ({units.duration(seconds)})")

    def warn(self, message: str) -> None:
        """One line."""
        self._print(f"warning: {message}")

    def stopping(self) -> None:
        """One line."""
        self._print("stopping: waiting for the running tests to give up")

    def end(self) -> None:
        """Stops the lines."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _print(self, line: str) -> None:
        say(line)

    def _repeat(self) -> None:
        while not self._stop.wait(LINE_EVERY_S):
            assert self._track is not None
            share, left = self._track.total()
            tests = "; ".join(
                " ".join(filter(None, (name, test.what, figures_text(test.figures))))
                for name, test, _ in self._track.running()
            )
            say(f"{share:.0%} done, {left_text(left)}: {tests}")


class Bars(Lines):
    """Progress as bars that are drawn again in place."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(
            get_renderable=self._table,
            console=self._console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, plan: Plan, *, jobs: int) -> None:
        """Starts drawing."""
        if not plan.steps:
            return
        self._track = Track(plan, jobs=jobs)
        if plan.total_s > LONG_S:
            self._live.refresh_per_second = LONG_REFRESH_PER_S
        self._live.start()

    def end(self) -> None:
        """Stops drawing and leaves the lines of the finished tests."""
        with contextlib.suppress(OSError):
            self._live.stop()

    def _print(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self._console.print(line, markup=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        if self._track is None:
            return table
        width = self._console.width
        share, left = self._track.total()
        whole = Test(share, "")
        for name, test, seconds in [*self._track.running(), ("total", whole, left)]:
            table.add_row(*self._cells(name, test, seconds, width))
        return table

    def _cells(
        self, name: str, test: Test, left: float | None, width: int
    ) -> list[Text | ProgressBar]:
        """What fits the terminal: share and heat always, then time left, sparkline, bar."""
        cells: list[Text | ProgressBar] = [Text(_cut(name, _name_width(width)))]
        if width >= WIDE:
            cells.append(ProgressBar(total=1.0, completed=test.share, width=width // 6))
        cells.append(Text(f"{test.share:4.0%}"))
        if width >= MIDDLE:
            cells.append(Text(left_text(left), no_wrap=True))
            wide = SPARKS_MAX if width >= WIDE else 8
            unicode = self._console.encoding.startswith("utf")
            cells.append(Text(sparkline(test.rates, wide) if unicode else "", style="cyan"))
        cells.append(Text(_cut(test.what, 8), no_wrap=True))
        if width < TINY:
            return cells
        short = {"temperature_c"} if width < MIDDLE else {"temperature_c", "bytes_per_s"}
        shown = {k: v for k, v in test.figures.items() if width >= WIDE or k in short}
        cells.append(Text(figures_text(shown), no_wrap=True, overflow="ellipsis"))
        return cells


def _name_width(width: int) -> int:
    """What a test's name may take of a line, beside the other columns that fit."""
    if width >= WIDE:
        return width // 5
    return max(8, width - (61 if width >= MIDDLE else 22 if width >= TINY else 14))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def say(line: str) -> None:
    """A line on stderr, at once; a terminal that has gone is no reason to stop."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def counted(words: str, whole: int) -> Iterator[Callable[[int], None]]:
    """A line that counts up on a terminal; silent elsewhere, and for what is done at once."""
    shown = whole > 1 and sys.stderr.isatty()

    def tell(done: int) -> None:
        if shown:
            print(f"\r{words.format(done, whole)}", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def sink() -> Iterator[Lines]:
    """The display that suits this stderr, ended whatever happens."""
    on_terminal = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", None)
    shown = Bars() if on_terminal else Lines()
    try:
        yield shown
    finally:
        shown.end()


def plan(target: Target, steps: Plan) -> None:
    """What will be done to a real drive, on stderr, before anything is done."""
    known = target.identity()
    size = units.si_bytes(target.capacity_bytes)
    if target.kind == "block":
        model, serial = known.get("model") or "unknown", known.get("serial") or "unknown"
        say(f"device  {known.get('path', target.name)}: {model}, serial {serial}, {size}")
        say("        ALL DATA ON IT WILL BE LOST")
    else:
        say(f"file    {known.get('path', target.name)}: {size}; its content will be overwritten")
    for step in steps.steps:
        say(f"        {step.test.id:<24} about {units.duration(step.estimate_s)}")
    say(f"        {'together':<24} about {units.duration(steps.total_s)}")
