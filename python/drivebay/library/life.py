"""Simulates a drive's whole life in minutes: wear, errors and spares over years of a load.

The load first runs until its write amplification is steady. Then a window of real commands is
simulated at each age; wear, time and counters advance by multiples of its effects
(`VirtualDrive.live`), and the next window continues in the state of the one before
(docs/adr/0038). A window is repeated until its amplification agrees with that of the one before.
The drive is scaled: its blocks have fewer pages, not fewer cycles. Steps are equal shares of the
life, and shorter once blocks fail.

Sources: sampled simulation, Wunderlich et al. (SMARTS, ISCA 2003); the enterprise load, JEDEC
JESD219A, as copies of it in fio and other programs have it; ratings, `published/endurance.toml`.
Left out: idle time between commands, in which a drive may collect garbage (write amplification of a
light load is too high); heat; power off.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from drivebay._core import Control, Mark
from drivebay.analysis import published
from drivebay.analysis import replicates as statistics
from drivebay.analysis.replicates import CONFIDENCE, Estimate
from drivebay.common import documents, threads
from drivebay.common.errors import UserError
from drivebay.definitions.suites.parts import Steady
from drivebay.library.drives import FILL, Device, Drive
from drivebay.library.load import Workload
from drivebay.library.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

YEAR_S, DAY_S = 365.25 * 86_400, 86_400.0
YEARS_MAX = 30.0
WINDOWS_MAX = 600
BLOCK_PAGES = 12
"""Pages of a block of the scaled drive: a multiple of the program unit of any cell type."""
SETTLED = Steady(window_rounds=5, range_percent=5.0, slope_percent=2.0, rounds_max=40)
"""Criterion for write amplification before the first age, in rounds of one drive write."""
AGREE = 0.02
"""Relative difference of write amplification up to which two windows agree."""
REPEATS = 8
"""Maximum number of windows that follow one another without a leap, beyond the first."""
WORKERS = 2
"""Lives simulated in parallel."""
STEPS = 40
"""Number of steps of a life without failing blocks."""
SPARE_STEP = 4
"""Maximum loss of available spare per step, in percent of a new drive's spare."""
SPARE_LEAST = 10
"""End of life: threshold of the available spare in percent, at which SMART warns. guess: the usual
value, as no profile has its own. Below it, write amplification grows until writes are refused.
"""
SPARE_GONE, WORN_OUT = f"available spare at {SPARE_LEAST} %", "worn out"
"""Reasons for the end of a life, other than the requested end."""
AMPLIFIED = 8.0
"""Write amplification above which a window is shorter in proportion, so that it programs as much.
"""
LOADS = {
    name: (Workload(**load["workload"]), float(load["dwpd"]))
    for name, load in documents.beside(__file__, "life_loads.toml").items()
}
"""Loads by name, each with its drive writes per day."""


@dataclass(frozen=True)
class Age:
    """State of a drive at one age.

    Attributes
    ----------
    years
        Years of the load at its pace.
    written_tb
        Data written by the host, 10^12 bytes of the whole drive.
    cycles, cycles_max
        Erases per superblock: the mean, and those of the most worn.
    used_percent
        Share of the rated cycles, as SMART reports it; NaN without a rating.
    spare_percent
        Available spare, as SMART reports it.
    failed_blocks
        Failed blocks so far.
    waf
        Write amplification of the window at this age: bytes programmed per byte written.
    retries
        Read retries per flash page read in the window.
    refreshes
        Superblocks moved because of too many reads, per TB written.
    media_errors
        Uncorrectable reads so far.
    latency_us, p99_us
        Mean and 99th percentile of the window's latencies.
    mb_per_s
        Data rate of the window, reads and writes, of the scaled drive without pauses.
    power_w
        Mean power of the window.
    """

    years: float
    written_tb: float
    cycles: float
    cycles_max: float
    used_percent: float
    spare_percent: float
    failed_blocks: float
    waf: float
    retries: float
    refreshes: float
    media_errors: float
    latency_us: float
    p99_us: float
    mb_per_s: float
    power_w: float


NAMES = tuple(one.name for one in fields(Age))
COUNTED = ("cycles", "cycles_max", "used_percent", "spare_percent", "failed_blocks", "media_errors")
"""Figures of an age that are counters of the device."""


@dataclass(frozen=True, repr=False)
class Life:
    """Lives of one drive, one per seed.

    Attributes
    ----------
    drive, load
        Name of the drive, and the load as text.
    dwpd
        Drive writes per day.
    lives
        Ages of each life, in their order.
    ended
        Reason for the end of each life: "worn out", or the requested end.
    errors
        Relative error of each life's length from the windows: from write amplification that was
        not yet steady, and from its growth between two ages.
    rated_tb
        Rating by the maker, in TB written; None without one.
    rated_load
        JEDEC workload of the rating.
    open_factors
        Range of `block_life_cycles` (with until 100%: of `rated_cycles`) in the profile, relative
        to its value: both ends.
    speed
        Simulated time relative to computing time.
    """

    drive: str
    load: str
    dwpd: float
    lives: tuple[tuple[Age, ...], ...]
    ended: tuple[str, ...]
    errors: tuple[float, ...]
    rated_tb: float | None
    rated_load: str
    open_factors: tuple[float, float]
    speed: float

    def __repr__(self) -> str:
        years = self.estimate("years").mean
        ends = f"{self.estimate().mean:,.4g} TB in {years:.3g} years, {self.ended[0]}"
        return f"<Life of {self.drive}, {self.load}, {len(self.lives)} seeds: {ends}>"

    @property
    def is_whole(self) -> bool:
        """True if all lives reached their end, so that ratings are bounds for them."""
        return all(why in (SPARE_GONE, WORN_OUT) for why in self.ended)

    def estimate(self, figure: str = "written_tb", *, confidence: float = CONFIDENCE) -> Estimate:
        """Mean and confidence interval over the seeds of a figure of `Age` at the end of life. The
        interval of "written_tb" and "years" includes the mean error of the windows.
        """
        ends = [getattr(life[-1], figure) for life in self.lives]
        found = statistics.estimate(ends, confidence=confidence)
        if figure not in ("written_tb", "years"):
            return found
        windows = found.mean * math.fsum(self.errors) / len(self.errors)
        return dataclasses.replace(found, half_width=math.hypot(found.half_width, windows))

    def columns(self) -> dict[str, list[Any]]:
        """All ages of all lives, by the names of `Age`, with the number of the life as `life`."""
        rows = [(number, age) for number, life in enumerate(self.lives) for age in life]
        columns: dict[str, list[Any]] = {"life": [number for number, _ in rows]}
        return columns | {name: [getattr(age, name) for _, age in rows] for name in NAMES}

    def plot(self) -> Figure:
        """Chart over the years: write amplification, wear and spare, retries, and latency, one line
        per life.
        """
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 8), layout="constrained")
        panels = figure.subplots(len(PANELS), sharex=True)
        pace = f"{self.load}, {self.dwpd:g} drive writes a day, simulated"
        figure.suptitle(f"{self.drive}\n{pace}", fontsize=11)
        for panel, (label, lines) in zip(panels, PANELS, strict=True):
            for name, title, colour in lines:
                for number, life in enumerate(self.lives):
                    x, y = ([getattr(age, key) for age in life] for key in ("years", name))
                    shown = title if number == 0 else None
                    panel.plot(x, y, color=colour, linewidth=1, label=shown)
            panel.set_ylabel(label)
            panel.set_ylim(bottom=0)
            panel.grid(alpha=0.3)
            panel.legend(fontsize=8, loc="best")
        panels[-1].set_xlabel("years")
        return figure


PANELS = (
    ("4 KiB per 4 KiB", (("waf", "write amplification", "tab:blue"),)),
    (
        "per cent",
        (
            ("used_percent", "percentage used (SMART: at most 255)", "tab:red"),
            ("spare_percent", "available spare", "tab:green"),
        ),
    ),
    ("retries", (("retries", "per flash page read", "tab:purple"),)),
    (
        "latency, µs",
        (("latency_us", "mean", "tab:blue"), ("p99_us", "99th percentile", "tab:gray")),
    ),
)
"""Panels of the chart: axis label and lines."""


def age(
    drive: Drive,
    load: str | Workload = "enterprise",
    *,
    until: str = "eol",
    dwpd: float | None = None,
    seeds: int = 3,
    window: float = 1.0,
    progress: Callable[[int, Age], None] | None = None,
) -> Life:
    """Ages a drive under a load and returns its state at many ages.

    Parameters
    ----------
    drive
        From `drivebay.drive(name)`. It is scaled to blocks of few pages.
    load
        "client", "enterprise", "random", "sequential", or a `Workload` that writes; its end and
        span are ignored.
    until
        "eol", when available spare is at 10 %; "100%", of the rated cycles;
        or "5y", years. At most 30 years.
    dwpd
        Drive writes per day, which convert bytes to time; by default 1, for "client" 0.3.
    seeds
        Number of lives, for the interval.
    window
        Minimum drive writes simulated at each age: at least 1 once blocks fail, and more until two
        windows agree.
    progress
        Called with the number of the life at each age.

    Raises
    ------
    UserError
        If the drive's profile does not model wear, or the drive cannot run this load.
    KeyboardInterrupt
        On Ctrl-C, within a second.
    """
    if not isinstance(drive, Drive):
        raise UserError(f"{drive!r} is no drive", 'age(drivebay.drive("980-pro-1tb"))')
    if not (isinstance(load, Workload) or (isinstance(load, str) and load in LOADS)):
        raise UserError(
            f"age: there is no load {load!r}", f"one of {', '.join(LOADS)}, or a Workload"
        )
    numbers = isinstance(window, int | float) and isinstance(dwpd, int | float | None)
    if not (isinstance(seeds, int) and numbers):
        raise UserError("age: dwpd, seeds and window must be numbers", "seeds=3, window=1")
    chosen, pace = LOADS[load] if isinstance(load, str) else (load, 1.0)
    pace = pace if dwpd is None else dwpd
    writes = (100 - chosen.read_percent - chosen.trim_percent) / 100
    if writes <= 0 or not 0 < pace <= 1000 or not 0.05 <= window <= 100 or not 1 <= seeds <= 100:
        raise UserError(
            "age: the load must write; dwpd must be above 0, window 0.05 to 100, seeds 1 to 100",
            'age(drive, "enterprise", dwpd=1, seeds=3)',
        )
    plan = _plan(drive, until, pace, window)
    began = time.perf_counter()
    control, slots = Control(), threading.Semaphore(WORKERS)
    lived = {seed: _Life(plan, chosen, seed, control, progress) for seed in range(1, seeds + 1)}

    def live(life: _Life) -> None:
        with slots:
            life.run()

    works = [functools.partial(live, life) for life in lived.values()]
    threads.together(works, stop=control.cancel)
    lives = tuple(tuple(life.ages) for life in lived.values())
    rated_tb, rated_load = rated(drive)
    return Life(
        drive=drive.raw["drive"]["title"],
        load=load if isinstance(load, str) else chosen.words().rpartition(", ")[0],
        dwpd=pace,
        lives=lives,
        ended=tuple(life.ended for life in lived.values()),
        errors=tuple(life.error() for life in lived.values()),
        rated_tb=rated_tb,
        rated_load=rated_load,
        open_factors=plan.open_factors,
        speed=sum(life[-1].years for life in lives) * YEAR_S / (time.perf_counter() - began),
    )


def rated(drive: Drive) -> tuple[float | None, str]:
    """Endurance rating of a drive in 10^12 bytes, and its workload; None without a rating."""
    rating = published.table("endurance").get(drive.name)
    if rating is None:
        return None, ""
    tbw = rating.get("tbw", rating.get("dwpd", 0) * 5 * 365 * drive.capacity_bytes / 1e12)
    return float(tbw), str(rating["load"])


def writable(drive: Drive, waf: float, waf_bytes: float) -> float | None:
    """Bytes that the host can write until the available spare is at its threshold, by the law by
    which blocks fail; None for a drive without a model of flash that fails.

    Parameters
    ----------
    waf, waf_bytes
        Write amplification of the new drive, by mapping units and by bytes. guess: what exceeds one
        grows in inverse proportion to the spare flash that is left.
    """
    wears = drive.raw.get("reliability")
    if wears is None:
        return None
    shape, share = wears["block_life_shape"]["value"], drive.core.spare_share
    # Spares replace what fails: the number of blocks in use stays, so the hazard adds up.
    failing = share * (1 - SPARE_LEAST / 100)
    cycles = wears["block_life_cycles"]["value"] * failing ** (1 / shape)
    spare = max(share, 1 - drive.capacity_bytes / drive.flash_bytes)
    left = 1 - failing / spare * np.linspace(0, 1, 1000) ** shape
    slowed = waf / (1 + (waf - 1) / left)
    return float(cycles * drive.flash_bytes / waf_bytes * slowed.mean())


@dataclass(frozen=True)
class _Plan:
    drive: Drive
    whole_tb: float
    dwpd: float
    window: float
    until_percent: float
    until_years: float
    step_cycles: float
    open_factors: tuple[float, float]

    def seconds(self, writes: float) -> float:
        return writes / self.dwpd * DAY_S

    def why_ended(self, now: Age) -> str:
        if now.spare_percent <= SPARE_LEAST:
            return SPARE_GONE
        if now.used_percent >= self.until_percent:
            return f"{self.until_percent:g} % used"
        return f"{self.until_years:g} years" if now.years >= self.until_years else ""


def _plan(drive: Drive, until: str, dwpd: float, window: float) -> _Plan:
    wears = drive.raw.get("reliability")
    rating = drive.raw.get("health", {}).get("rated_cycles")
    percent, years = float("inf"), YEARS_MAX
    try:
        if until.endswith("%"):
            percent = float(until[:-1])
        elif until.endswith("y"):
            years = float(until[:-1])
        elif until != "eol":
            raise ValueError
        if not (percent > 0 and 0 < years <= YEARS_MAX):
            raise ValueError
    except (ValueError, AttributeError):
        hint = f"eol, 100% or 5y, at most {YEARS_MAX:g}y"
        raise UserError(f"age: until {until!r} is not understood", hint) from None
    if drive.raw["nand"].get("in_place", {}).get("value"):
        raise UserError(
            f"{drive.name} is written in place: its wear between windows is not modelled",
            "a drive of flash: drivebay drives",
        )
    if wears is None and (until == "eol" or rating is None):
        hint = "until 100%" if rating is not None else "a drive with [reliability], as 980-pro-1tb"
        raise UserError(f"{drive.name} has no model of flash that fails", hint)
    if percent < float("inf") and rating is None:
        raise UserError(f"{drive.name} has no rated cycles", "until eol")
    pages = int(drive.value("nand.pages_per_block"))
    small = drive if pages <= BLOCK_PAGES else drive.scaled(BLOCK_PAGES / pages)
    life = wears["block_life_cycles"] if wears is not None else rating
    ends = rating if percent < float("inf") else life  # determines the end
    bound = rating["value"] * percent / 100 if percent < float("inf") else float("inf")
    low, high = ends.get("range", (ends["value"], ends["value"]))
    return _Plan(
        drive=small,
        whole_tb=drive.capacity_bytes / 1e12,
        dwpd=dwpd,
        window=window,
        until_percent=percent,
        until_years=years,
        step_cycles=min(life["value"], bound) / STEPS,
        open_factors=(low / ends["value"], high / ends["value"]),
    )


@dataclass
class _Life:
    """A life while it is simulated: windows, and the leaps between them."""

    plan: _Plan
    load: Workload
    seed: int
    control: Control
    progress: Callable[[int, Age], None] | None
    ages: list[Age] = field(default_factory=list)
    ended: str = f"{WINDOWS_MAX} windows"
    unsettled: float = 0.0
    moved: float = 0.0

    def run(self) -> None:
        plan, ages = self.plan, self.ages
        self.device = device = plan.drive.device(seed=self.seed)
        device._run(FILL.model_copy(update={"bytes": device.capacity_bytes}), control=self.control)
        self.began = device._core.mark()
        step, leap, repeats, spare = plan.step_cycles / 4, 0.0, 0, 100.0  # the first is a trial
        try:
            before = self._settle()
            while len(ages) < WINDOWS_MAX:
                window = self._window(self._length(before, step), before.age.waf)
                ages.append(window.age)
                if self.progress is not None:
                    self.progress(self.seed, window.age)
                if why := WORN_OUT if window.worn_out else plan.why_ended(window.age):
                    self.ended = why
                    return
                change = 1 - before.age.waf / window.age.waf
                before, leap, self.moved = window, 0.0, self.moved + leap * change
                if abs(change) > AGREE and repeats < REPEATS:
                    self._leap(window, 0.0)
                    repeats += 1
                    continue
                # Longer while nothing fails, shorter once a leap costs spare flash.
                cost = spare - window.age.spare_percent
                factor = 2.0 if cost <= 0 else min(2.0, max(0.25, SPARE_STEP / cost))
                step = min(plan.step_cycles, step * factor)
                repeats, spare = 0, window.age.spare_percent
                left_s = plan.until_years * YEAR_S - plan.seconds(window.reached)
                times = min(step / window.cycles, left_s / plan.seconds(window.drive_writes))
                self._leap(window, times)
                leap = times * window.drive_writes
        except UserError:
            if not ages:
                raise
            self.ended = WORN_OUT  # by the first write after the leap: nothing is measured

    def error(self) -> float:
        """Relative error of the life's length: amplification that was not steady at first, and
        the change of the length if each leap had the amplification of the window after it.
        """
        return self.unsettled + abs(self.moved) * self.plan.whole_tb / self.ages[-1].written_tb

    def _length(self, before: _Window, step: float) -> float:
        """Drive writes of the next window: once blocks fail, enough to follow their loss, but no
        more wear than a leap of `step` cycles.
        """
        if before.age.spare_percent == 100:
            return self.plan.window
        return max(self.plan.window, min(1.0, step / before.age.waf))

    def _settle(self) -> _Window:
        """Runs the load until its amplification is steady; returns the last round."""
        windows: list[_Window] = []

        def amplified(_: int) -> float:
            if not (windows and windows[-1].worn_out):
                windows.append(self._window(1.0, windows[-1].age.waf if windows else 1.0))
            return windows[-1].age.waf

        _, found = SETTLED.run(amplified)
        assert found is not None, "at least as many rounds as a window has"
        self.unsettled = found.slope_percent / 100
        return windows[-1]

    def _window(self, drive_writes: float, waf: float) -> _Window:
        device, load = self.device, self.load
        writes = (100 - load.read_percent - load.trim_percent) / 100
        amount = int(drive_writes * min(1.0, AMPLIFIED / waf) * device.capacity_bytes / writes)
        ends = {"duration_s": None, "ios": None, "span_bytes": None, "bytes": amount}
        mark, before = device._core.mark(), _counted(device)
        # Without the warnings of `run` about heat and wear: both are in the ages.
        result = device._run(load.model_copy(update=ends), control=self.control)
        after = _counted(device)
        return _Window(
            mark=mark,
            age=_age(self.plan, result, before, after),
            worn_out=result.worn_out,
            reached=after["drive_writes"],
            drive_writes=after["drive_writes"] - before["drive_writes"],
            # Approximately.
            cycles=(after["programmed"] - before["programmed"]) / device.capacity_bytes,
            duration_s=result.duration_s,
        )

    def _leap(self, window: _Window, times: float) -> None:
        """Repeats a window without simulation; 0 times only adds the pauses of its load."""
        elapsed_s = self.plan.seconds(window.drive_writes * (1 + times)) - window.duration_s
        self.device._core.live(self.began, window.mark, times, max(0.0, elapsed_s))


@dataclass(frozen=True)
class _Window:
    """Window that was simulated: a mark of its beginning, its effects, and the drive writes reached
    at its end.
    """

    mark: Mark
    age: Age
    worn_out: bool
    reached: float
    drive_writes: float
    cycles: float
    duration_s: float


def _counted(device: Device) -> dict[str, float]:
    """Counters of a device, as numbers that only grow."""
    health, counters = device.health(), device.counters()
    return {
        "drive_writes": health.data_units_written * 512e3 / device.capacity_bytes,
        "written": health.data_units_written * 512e3,
        "programmed": counters.placed_pages * 4096,
        # More exact than the mean in the health log, which is rounded down.
        "cycles": health.erases[2],
        "cycles_max": health.erases[1],
        "used_percent": np.nan if health.percentage_used is None else health.percentage_used,
        "spare_percent": health.available_spare_percent,
        "retries": counters.retries,
        "page_reads": counters.page_reads,
        "refreshes": counters.refreshes,
        "failed_blocks": counters.failed_blocks,
        "media_errors": health.media_errors,
    }


def _age(plan: _Plan, result: Result, before: dict[str, float], after: dict[str, float]) -> Age:
    grown = {name: after[name] - before[name] for name in after}
    written = max(grown["written"], 1.0)
    return Age(
        years=plan.seconds(after["drive_writes"]) / YEAR_S,
        written_tb=after["drive_writes"] * plan.whole_tb,
        waf=grown["programmed"] / written,
        retries=grown["retries"] / max(grown["page_reads"], 1.0),
        refreshes=grown["refreshes"] / written * 1e12,
        latency_us=result.latency.mean_us,
        p99_us=result.latency.percentile_us(99),
        mb_per_s=result.mb_per_s,
        power_w=result.power_w,
        **{name: after[name] for name in COUNTED},
    )
