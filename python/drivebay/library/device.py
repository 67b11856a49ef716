"""A device: a drive that stays. Loads follow one another on it; it can be copied, saved, cut off.

Runs release Python's interpreter lock, so devices in several threads run side by side; one device
does one thing at a time. Ctrl-C stops a run; the device then is where the run had come to.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from drivebay import _core
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.definitions.profiles import core_problem
from drivebay.library.drives import Drive, drive
from drivebay.library.load import Trace, Workload
from drivebay.library.result import Result

T = TypeVar("T")
FILL = Workload(pattern="sequential", block_bytes=128 * 1024, queue_depth=32)
"""How a drive is filled: once over all addresses."""
WAIT_S = 0.5
"""How often a waiting main thread looks for Ctrl-C."""
SEED_MASK = 2**64 - 1


@dataclass(frozen=True)
class Health:
    """A drive's health log; what is called as in NVMe's SMART page has its meaning.

    `throttling` has (times entered, seconds) for each stage of throttling; `percentage_used` is
    None without a rating, `waf` None before the first write.
    """

    temperature_c: int
    node_temperatures_c: dict[str, float]
    available_spare_percent: int
    percentage_used: int | None
    data_units_read: int
    data_units_written: int
    host_reads: int
    host_writes: int
    busy_s: float
    power_cycles: int
    power_on_s: float
    unsafe_shutdowns: int
    media_errors: int
    warning_temperature_s: float
    critical_temperature_s: float
    throttling: list[tuple[int, float]]
    wakes: int
    asleep_s: float
    waf: float | None


@dataclass(frozen=True)
class PowerCut:
    """What a power cut did: bytes whose newest data is lost (they read as before it was written),
    and the seconds until the drive answers again."""

    lost_bytes: int
    ready_after_s: float


class Device:
    """A virtual drive with a state: data, wear, clock, heat. Made by `Drive.device`.

    Attributes
    ----------
    drive
        What it is.
    seed
        Of what the drive draws by chance, and of its loads.
    runs
        How many loads it has been through.

    >>> device = drive("sm951-ahci-512").scaled(1 / 32).device(seed=1)
    >>> device.fill().mb_per_s > 1000
    True
    >>> worn = device.copy()
    >>> load = Workload(duration_s=2)
    >>> device.run(load).ios == worn.run(load).ios
    True
    """

    def __init__(self, what: Drive, *, seed: int = 1) -> None:
        self.drive = what
        self.seed = seed
        self.runs = 0
        self._core = self._tried(lambda: _core.VirtualDrive(what.json(), seed & SEED_MASK))

    @property
    def capacity_bytes(self) -> int:
        """What the user can write."""
        return self.drive.capacity_bytes

    def run(
        self, load: Workload | Trace, *, seed: int | None = None, sample_every: int = 0
    ) -> Result:
        """Runs a load, from the drive's present state and time on.

        Parameters
        ----------
        load
            What is asked of it.
        seed
            Of the addresses. By default the load's own, else the device's plus the number of runs
            before: so a load that is run again asks for other addresses, as it should.
        sample_every
            Keep every so many-th I/O in `Result.samples`; 0 for none.

        Raises
        ------
        UserError
            If the drive cannot be asked this.
        KeyboardInterrupt
            On Ctrl-C, after at most a second of the drive's time more.
        """
        if not isinstance(load, Workload | Trace):
            raise UserError(f"{load!r} is no load", "Workload(duration_s=60), Trace(trace='light')")
        if sample_every < 0:
            raise UserError(f"sample_every = {sample_every} is below 0", "sample_every=100")
        if seed is None:
            seed = self.seed + self.runs if load.seed is None else load.seed
        chosen, control = seed & SEED_MASK, _core.Control()
        if isinstance(load, Trace):
            if sample_every:
                raise UserError("samples are kept of workloads only", "leave out sample_every")
            what, plan = load.core(chosen)
            columns = self._run(lambda: _core.replay(self._core, what, plan, control), control)
        else:
            text = load.core(self.capacity_bytes)
            columns = self._run(
                lambda: self._core.run(text, chosen, control, sample_every), control
            )
        self.runs += 1
        return Result(self.drive.title, load, seed, columns)

    def fill(self, *, passes: int = 1, content: int = 0) -> Result:
        """Writes all addresses in order, in 128 KiB, `passes` times.

        Parameters
        ----------
        passes
            How many times.
        content
            How many per cent of the data can be compressed away.
        """
        if passes < 1:
            raise UserError(f"fill(passes={passes}) is not allowed; must be at least 1", "fill()")
        whole = self.capacity_bytes * passes
        fields = FILL.record() | {"bytes": whole, "content": content}
        return self.run(Workload(**fields), seed=self.seed)

    def rest(self, seconds: float) -> None:
        """Nothing is asked of it for so long; it cools, and may collect."""
        self._tried(lambda: self._core.rest(seconds))

    def trim(self, start_bytes: int, length_bytes: int) -> None:
        """Discards a stretch of addresses (Dataset Management, TRIM): they read as zeros.

        Raises
        ------
        UserError
            If it does not lie on the drive.
        """
        if min(start_bytes, length_bytes) < 0:
            raise UserError(
                f"trim({start_bytes}, {length_bytes}) lies before the drive", "trim(0, 2**20)"
            )
        self._tried(lambda: self._core.discard(start_bytes, length_bytes))

    def secure_erase(self) -> None:
        """All data gone and all flash erased in no time, as between tests; clock and wear stay."""
        self._tried(self._core.secure_erase)

    def power_cut(self) -> PowerCut:
        """Cuts the power now, and turns it on again: what was in the write buffer is lost."""
        pages, seconds = self._tried(self._core.power_cut)
        return PowerCut(pages * 4096, seconds)

    def health(self) -> Health:
        """The health log at this moment."""
        return Health(**self._tried(self._core.health))

    def counters(self) -> dict[str, Any]:
        """Everything the drive has counted since it was made: commands, host_pages, placed_pages,
        copied_pages (4 KiB), erases (superblocks), page_reads, energy_j, throttled_s,
        temperature_c, throttle_stage."""
        return self._tried(self._core.counters)

    def copy(self) -> Device:
        """Another device in the same state. Both go on bit for bit the same."""
        return self._with(self._tried(self._core.copy))

    def save(self, path: str | Path) -> None:
        """Writes the state to a file, which `drivebay serve --state` reads as well, and beside it,
        in `path` with .json after it, which drive it is a state of.

        Raises
        ------
        EnvironmentProblem
            If the files cannot be written.
        """
        about = {"profile": self.drive.resolved(), "seed": self.seed, "runs": self.runs}
        self._tried(lambda: self._core.save(path))
        try:
            _beside(path).write_text(json.dumps(about), encoding="utf-8")
        except OSError as error:
            raise EnvironmentProblem(
                f"{_beside(path)} cannot be written: {error.strerror}", "ls -ld its folder"
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Device:
        """A device in a state that `save` wrote.

        Raises
        ------
        UserError
            If there is no such state, or it is damaged or of another version of the model.
        """
        try:
            about = json.loads(_beside(path).read_text(encoding="utf-8"))
            what, seed, runs = drive(about["profile"]), int(about["seed"]), int(about["runs"])
        except FileNotFoundError:
            raise UserError(
                f"{_beside(path)} is missing: it says which drive {path} is a state of",
                "Device.save writes both; keep them together",
            ) from None
        except OSError as error:
            raise EnvironmentProblem(
                f"{_beside(path)} cannot be read: {error.strerror}", f"ls -l {_beside(path)}"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise UserError(
                f"{_beside(path)} is not what Device.save writes", "save the device again"
            ) from None
        device = cls(what, seed=seed)
        device.runs = runs
        device._tried(lambda: device._core.restore(what.json(), path))
        return device

    def _with(self, core: _core.VirtualDrive) -> Device:
        device = Device.__new__(Device)
        device.drive, device.seed, device.runs, device._core = (
            self.drive,
            self.seed,
            self.runs,
            core,
        )
        return device

    def _run(self, run: Callable[[], dict[str, Any]], control: _core.Control) -> dict[str, Any]:
        """In the main thread Ctrl-C must get through: the run has a thread of its own."""
        if threading.current_thread() is not threading.main_thread():
            return self._tried(run)
        done: list[dict[str, Any]] = []
        failed: list[BaseException] = []

        def work() -> None:
            try:
                done.append(self._tried(run))
            except BaseException as problem:
                failed.append(problem)

        thread = threading.Thread(target=work, name="drivebay-run")
        thread.start()
        try:
            while thread.is_alive():
                thread.join(WAIT_S)
        except KeyboardInterrupt:
            control.cancel()
            thread.join()
            raise
        if failed:
            raise failed[0]
        return done[0]

    def _tried(self, work: Callable[[], T]) -> T:
        """What the core refuses, as an error of ours."""
        try:
            return work()
        except _core.TraceFileError as problem:
            message, _, hint = str(problem).partition("\nhint: ")
            raise EnvironmentProblem(message, hint or "ls -l it") from None
        except _core.CoreError as problem:
            raise core_problem(problem, where=self.drive.name) from None

    def __repr__(self) -> str:
        return f"<Device of {self.drive.title}, seed {self.seed}, {self.runs} runs>"


def run(
    drive: Drive,
    load: Workload | Trace,
    *,
    seed: int = 1,
    fill: bool = True,
    sample_every: int = 0,
) -> Result:
    """Runs a load on a new device.

    Parameters
    ----------
    drive
        From `drivebay.drive(name)`.
    load
        What is asked of it; its durations are of the drive's time, not of yours.
    seed
        The same seed gives the same result bit for bit.
    fill
        All addresses are written once before, in order, as before a test.
    sample_every
        Keep every so many-th I/O in `Result.samples`; 0 for none.

    Raises
    ------
    UserError
        If the drive cannot be asked this.

    >>> from drivebay.library import drive
    >>> small = drive("sm951-ahci-512").scaled(1 / 32)
    >>> result = run(small, Workload(read_percent=100, queue_depth=1, ios=10_000))
    >>> result.ios, len(result.series), round(result.latency.percentile_us(50))
    (10000, 1, 88)
    """
    device = Device(drive, seed=seed)
    if fill:
        device.fill()
    chosen = seed if load.seed is None else load.seed
    return device.run(load, seed=chosen, sample_every=sample_every)


def _beside(path: str | Path) -> Path:
    return Path(f"{path}.json")
