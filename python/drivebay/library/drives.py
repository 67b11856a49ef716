"""Drives: a checked profile that can be changed and scaled, and devices, which have a state.

Loads follow one another on a device; it can be copied, saved, and its power cut. Runs release
Python's interpreter lock, so devices in several threads run side by side; one device does one thing
at a time. Ctrl-C stops a run; the device then is where the run had come to.
"""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay._core import Counters, HandleUse, Health, VirtualDrive, Zone
from drivebay._core import Workload as CoreWorkload
from drivebay.analysis import fidelity
from drivebay.common import documents, files
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.common.files import system_errors
from drivebay.common.seeds import derived_seed
from drivebay.definitions import leaves, policies
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile, from_document, load
from drivebay.definitions.scaling import scaled
from drivebay.definitions.toml_text import toml_lines
from drivebay.library.load import Trace, Workload
from drivebay.library.result import Result
from drivebay.targets.virtual.inside import EVENTS_MAX

FILL = Workload(pattern="sequential", block_bytes=128 * 1024, queue_depth=32)
"""How a drive is filled: once over all addresses."""
SEED_MASK = 2**64 - 1
REST_S = 1800.0
"""How long a drive rests after its fill before a load, as in the suites."""
STATE_BEGINS, ABOUT_BEGINS = b"dbstate\n", b'{"profile": {'
"""How the files of a saved state begin."""


class Drive(Profile):
    """A virtual drive's profile: every number of it with its source. It never changes.

    Attributes
    ----------
    name, title
        As the profile has them.
    capacity_bytes
        What the user can write, in bytes.
    memory_bytes
        What a device of it takes on this machine, in bytes.
    raw
        The whole profile; leaves are {"value", "source"}. Treat it as read-only.

    >>> drive("sm951-ahci-512")
    <Drive sm951-ahci-512: 512.1 GB, AHCI, PCIe 3.0 x4>
    """

    def __repr__(self) -> str:
        return f"<Drive {self.name}: {self.capacity_bytes / 1e9:.1f} GB, {self.interface}>"

    def with_(self, *variants: str, **changes: Any) -> Drive:
        """A changed drive, for what-ifs.

        Parameters
        ----------
        variants
            Changes in the words of the command line's `--set`: a set of changes that the profile
            names ("heatsink"), or "link=pcie2x4".
        changes
            Values by name: `unused="25%"`, of the user's capacity; `over_provisioning="28%"`, of
            physical less user over user capacity; `link="pcie2x4"`; `ailment="slow-die"` (see
            `drivebay drives --ailments`); `aged="80%"`; `parity="16:100"`, parity across 16 dies
            and a rebuild at 100 MB/s; or any value of the profile,
            `ambient_c=30`. Where several sections have such a name, the section stands before it,
            `__` for the dot: `thermal__ambient_c=30`.

        Raises
        ------
        UserError
            If a name is unknown or a value is not allowed.

        >>> changed = drive("sm951-ahci-512").with_("heatsink", unused="25%")
        >>> changed.capacity_bytes
        384082640896
        >>> changed.with_(victim_policy="d-choices", choices=4).value("gc.choices")
        4
        """
        words = [*variants]
        for key, value in changes.items():
            text = value if isinstance(value, str) else json.dumps(value)
            words.append(f"{key.replace('__', '.')}={text}")
        try:
            return _drive(changed(self, words))
        except UserError as problem:
            message, hint = (
                text.replace("--set ", "with_: ") for text in (problem.message, problem.hint)
            )
            raise UserError(message, hint) from None

    def value(self, name: str) -> Any:
        """A single value by its dotted name, "thermal.ambient_c".

        Raises
        ------
        UserError
            If the profile has no such value.
        """
        leaf = leaves.at(self.raw, name)
        if not isinstance(leaf, Mapping) or "value" not in leaf:
            raise UserError(f"{self.name} has no value '{name}'", "names are section.key")
        return leaf["value"]

    def scaled(self, share: float) -> Drive:
        """A smaller drive that behaves alike, in less time: for trying things out.

        It has the same dies, channels and number of blocks, and blocks of `share` as many pages.
        Rates, latencies and write amplification stay; what fills the drive, or a part of it, takes
        `share` of the time. Heat keeps its own time, so a scaled drive is emptier when it is warm.
        Its title says that it is scaled. A load by Zipf's law is less skewed on fewer blocks, from
        an exponent of about one on: "zipf:1.0/16" on a 16th is "zipf:1.0" on the whole drive.

        Parameters
        ----------
        share
            Of the capacity, at most 1; a block must keep a whole number of pages.

        Raises
        ------
        UserError
            If a block cannot be scaled so.

        >>> drive("sm951-ahci-512").scaled(1 / 16).capacity_bytes
        32006885376
        """
        return _drive(scaled(self, share))

    def save(self, path: str | Path, *, name: str | None = None) -> None:
        """Writes the profile to a file (.toml), whole, with all changes: what `drivebay.drive` and
        the command line take as a drive. A file that exists is not replaced.

        Parameters
        ----------
        path
            The file, which must not exist.
        name
            Of the drive, in small letters, digits and hyphens; by default its own.

        Raises
        ------
        UserError
            If the file exists, or the name is not allowed.
        EnvironmentProblem
            If it cannot be written.
        """
        raw = copy.deepcopy(dict(self.raw))
        raw["drive"]["name"] = name or self.name
        raw["drive"].pop("host", None)  # its values are there
        _drive(from_document(raw, where=f"Drive.save: {name!r}"))
        text = "\n".join(toml_lines(raw)) + "\n"
        files.write_new(Path(path), text)

    def device(self, *, seed: int = 1) -> Device:
        """A new device of this drive: empty, at ambient temperature, with a clock at 0.

        Parameters
        ----------
        seed
            Of what the drive itself draws by chance; the same seed, the same drive.

        Raises
        ------
        EnvironmentProblem
            If the machine has no memory for it.
        """
        return Device(self, seed=seed)


def drive(what: str | Path | Mapping[str, Any], *, host: str | Path | None = None) -> Drive:
    """A virtual drive.

    Parameters
    ----------
    what
        A name of the catalog; the path of a profile (.toml); a profile as TOML text (of several
        lines); or one as nested dicts. A profile may have a `base` of the catalog and say only what
        differs.
    host
        The host that it is tested in: a name (`drivebay hosts`) or the path of a file (.toml). By
        default that of the drive's reviews.

    Raises
    ------
    UserError
        If there is no such drive or host, or a profile is not possible.
    EnvironmentProblem
        If a file cannot be read.

    >>> mine = drive('''
    ... base = "sm951-ahci-512"
    ... [drive]
    ... name = "mine"
    ... title = "With twice the write buffer"
    ... [write_buffer]
    ... size_kib = { value = 16384, source = "guess: to see what it does" }
    ... ''')
    >>> mine.value("write_buffer.size_kib")
    16384
    >>> drive("sm951-nvme-512", host="spdk").host
    'spdk'
    """
    found = _found(what)
    return found if host is None else _drive(found.in_host(host))


def _found(what: str | Path | Mapping[str, Any]) -> Drive:
    if isinstance(what, Mapping):
        return _drive(from_document(what, where="profile"))
    if isinstance(what, str) and "\n" in what:
        try:
            document = documents.toml(what)
        except ValueError as error:
            raise UserError(f"the profile is not TOML: {error}", "compare with drives/") from None
        return _drive(from_document(document, where="profile"))
    if not isinstance(what, str | Path):
        raise UserError(f"{what!r} is no drive", 'drivebay.drive("sm951-ahci-512")')
    return _drive(load(what))


def _drive(profile: Profile) -> Drive:
    return Drive(profile.raw)


@dataclass(frozen=True)
class PowerCut:
    """What a power cut did: bytes whose newest data is lost (they read as before it was written),
    and the seconds until the drive answers again."""

    lost_bytes: int
    ready_after_s: float


@dataclass(frozen=True)
class FailedDies:
    """Dies that failed, in order, and whether what lay on them is still brought to the others."""

    dies: tuple[int, ...]
    rebuilding: bool


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
        if not isinstance(what, Drive):
            raise UserError(f"{what!r} is no drive", 'drivebay.drive("sm951-ahci-512")')
        self.drive = what
        self.seed = seed
        self.runs = 0
        self._core = VirtualDrive(what.core, seed & SEED_MASK)

    @property
    def capacity_bytes(self) -> int:
        """What the user can write."""
        return self.drive.capacity_bytes

    def run(
        self,
        load: Workload | Trace,
        *,
        seed: int | None = None,
        sample_every: int = 0,
        events: bool | int = False,
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
        events
            Keep what happens inside in `Result.inside`: garbage collection, folding and erases, at
            most so many (True: a million), and how busy dies and channels are. It changes no
            figure, and costs time only where it is asked for.

        Raises
        ------
        UserError
            If the drive cannot be asked this.
        KeyboardInterrupt
            On Ctrl-C, after at most a second of the drive's time more.

        Warns if heat slowed the drive from the beginning, and if its flash wore out on the way.
        """
        result = self._run(load, seed, sample_every, events)
        self._warn_of_policy()
        self._warn_of(result)
        return result

    def _run(
        self, load: Workload | Trace, seed: int | None, sample_every: int, events: bool | int
    ) -> Result:
        if not isinstance(load, Workload | Trace):
            raise UserError(f"{load!r} is no load", "Workload(duration_s=60), Trace(trace='light')")
        if sample_every < 0:
            raise UserError(f"sample_every = {sample_every} is below 0", "sample_every=100")
        most = _most(events)
        if seed is None:
            seed = self.seed + self.runs if load.seed is None else load.seed
        chosen = seed & SEED_MASK
        if isinstance(load, Trace):
            if sample_every:
                raise UserError("samples are kept of workloads only", "leave out sample_every")
            load.check(where="Trace")
            source = load.source((seed if load.seed is None else load.seed) % 2**63)
            for note in load.notes(self.capacity_bytes):
                warnings.warn(note.removeprefix("warning: "), stacklevel=3)
            with self._named():
                core = self._core.replay(source, load.options(), events=most).run
        else:
            workload = load.core(self.capacity_bytes)
            with self._named():
                core = self._core.run(workload, chosen, sample_every=sample_every, events=most)
        self.runs += 1
        known = fidelity.known_of(self.drive.name, self.drive.raw)
        return Result(self.drive.title, load, seed, core, known)

    def run_jobs(
        self, jobs: Mapping[str, Workload], *, seed: int | None = None, events: bool | int = False
    ) -> dict[str, Result]:
        """Runs several workloads at the same time, as fio runs the jobs of a file.

        Each has its own span, mix, sizes, queue depth, think time, end and result, and submission
        queues of its own, which the controller serves in turn or by `weight`. The drive's own
        figures in a result (write amplification, power, heat) are those of all jobs together until
        the last one ends; `Result.interval` knows the errors of single loads, and is None.

        Parameters
        ----------
        jobs
            Workloads by name; their queue depths together at most what the drive carries.
        seed
            Of the addresses, with the name of each job. By default the job's own, else the device's
            plus the number of runs before.
        events
            As of `run`; `Result.inside` of the first job is what happened inside, with all jobs,
            until the last one ended.

        Raises
        ------
        UserError
            If the drive cannot be asked this.

        Warns as `run` does.

        >>> device = drive("sm951-nvme-512").scaled(1 / 64).device()
        >>> both = device.run_jobs({
        ...     "database": Workload(read_percent=70, queue_depth=4, duration_s=1),
        ...     "backup": Workload(pattern="sequential", block_bytes=131072, queue_depth=2,
        ...                        thinktime_us=1000, duration_s=1),
        ... })
        >>> both["database"].iops > both["backup"].iops > 0
        True
        """
        seeds, cores = jobs_of(jobs, seed, self.seed + self.runs, self.capacity_bytes)
        with self._named():
            results = self._core.run_jobs(cores, events=_most(events))
        self.runs += 1
        found = {
            name: Result(self.drive.title, load, seeds[name], core)
            for (name, load), core in zip(jobs.items(), results, strict=True)
        }
        self._warn_of_policy()
        self._warn_of(max(found.values(), key=lambda result: result.duration_s))
        return found

    def fill(self, *, passes: int = 1) -> Result:
        """Writes all addresses in order, in 128 KiB, `passes` times.

        Parameters
        ----------
        passes
            How many times.
        """
        if passes < 1:
            raise UserError(f"fill(passes={passes}) is not allowed; must be at least 1", "fill()")
        whole = self.capacity_bytes * passes
        filled = FILL.model_copy(update={"bytes": whole})
        return self._run(filled, self.seed, 0, False)

    def prepare(self, *, rest_s: float = REST_S) -> None:
        """Fills it, and lets it rest: as `run` and `replicates` begin."""
        self.fill()
        self.rest(rest_s)

    def rest(self, seconds: float) -> None:
        """Nothing is asked of it for so long; it cools, and garbage collection may run. Years take
        less than a second.

        Raises
        ------
        UserError
            If the drive's clock would pass 10^9 seconds.
        """
        self._core.rest(seconds)

    def trim(self, start_bytes: int, length_bytes: int) -> None:
        """Discards a range of addresses (Dataset Management, TRIM): they read as zeros.

        Raises
        ------
        UserError
            If it does not lie on the drive.
        """
        if min(start_bytes, length_bytes) < 0:
            raise UserError(
                f"trim({start_bytes}, {length_bytes}) lies before the drive", "trim(0, 2**20)"
            )
        with self._named():
            self._core.discard(start_bytes, length_bytes)

    def secure_erase(self) -> None:
        """All data gone and all flash erased in no time, as between tests; clock and wear stay."""
        self._core.secure_erase()

    def sanitize(self, method: str = "block", *, passes: int = 1) -> float:
        """NVMe's Sanitize: all data gone, in the time that the command takes, with its wear.

        Parameters
        ----------
        method
            "block" erases all flash in use, "crypto" changes the key and leaves the flash to be
            erased when it is used again, "overwrite" writes all of it, spare flash too; that needs
            a drive with `sanitize_overwrite`.
        passes
            How many times "overwrite" writes, 1 to 16.

        Returns
        -------
        float
            Seconds that it took.

        Raises
        ------
        UserError
            If the drive has no such method.

        >>> device = drive("pm9a3-960").scaled(1 / 64).with_("sanitize_overwrite").device()
        >>> device.sanitize("overwrite", passes=2) > device.sanitize("crypto")
        True
        """
        with self._named():
            return self._core.sanitize(method, passes)

    def power_cut(self) -> PowerCut:
        """Cuts the power now, and turns it on again: what was in the write buffer is lost."""
        pages, seconds = self._core.power_cut()
        return PowerCut(pages * 4096, seconds)

    def fail_die(self, die: int) -> None:
        """A die of the flash fails now, and answers nothing from then on.

        With parity across dies (`nand.parity`) each of its pages is read from the others of its
        stripe, and its data is brought to them at `nand.parity.rebuild_mb_per_s` beside commands
        and while the device rests; without, that data is lost until it is written anew. If what is
        left has too little room, the device only reads.

        >>> import drivebay
        >>> striped = drivebay.drive("sm951-nvme-256").with_(parity=16, unused="10%")
        >>> device = striped.scaled(1 / 64).device()
        >>> _ = device.fill()
        >>> device.fail_die(3)
        >>> device.failed_dies()
        FailedDies(dies=(3,), rebuilding=True)
        >>> device.rest(60)
        >>> device.failed_dies().rebuilding
        False

        Raises
        ------
        Error
            If the device has no such die, it has failed, or the device has zones.
        """
        self._core.fail_die(die)

    def failed_dies(self) -> FailedDies:
        """The dies that failed, in order, and whether their data is still being moved."""
        dies, rebuilding = self._core.failed_dies()
        return FailedDies(tuple(dies), rebuilding)

    def placement(self) -> list[HandleUse]:
        """What went through each placement handle so far, reclaim group by group, and with initial
        isolation last through each group's frontier of copies, whose `handle` is None; empty on a
        drive without placement."""
        return self._core.placement()

    def zones(self) -> list[Zone]:
        """The zones in the order of their addresses; empty on a drive without."""
        return self._core.zones()

    def health(self) -> Health:
        """The health log at this moment."""
        return self._core.health()

    def counters(self) -> Counters:
        """Everything that the drive has counted since it was made."""
        return self._core.counters()

    def copy(self) -> Device:
        """Another device in the same state. Both go on bit for bit the same."""
        return self._with(self._core.copy())

    def save(self, path: str | Path) -> None:
        """Writes the state to a file, which `drivebay serve --state` reads as well, and beside it,
        in `path` with .json after it, which drive it is a state of. A state that lies there is
        replaced, any other file is not.

        Raises
        ------
        UserError
            If one of the files exists and is no state of a drive.
        EnvironmentProblem
            If the files cannot be written.
        """
        _refuse_stranger(Path(path), STATE_BEGINS)
        _refuse_stranger(_beside(path), ABOUT_BEGINS)
        about = {"profile": self.drive.resolved(), "seed": self.seed, "runs": self.runs}
        self._core.save(path)
        with system_errors(f"{_beside(path)} cannot be written", "ls -ld its folder"):
            _beside(path).write_text(json.dumps(about), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Device:
        """A device in a state that `save` wrote.

        Raises
        ------
        UserError
            If there is no such state, or it is damaged or of another version of the model.
        """
        try:
            about = documents.from_json(documents.read(_beside(path)))
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
        device._core.restore(what.core, path)
        return device

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the whole state, as `save` does: up to 9 bytes for each 4 KiB of the drive."""
        with tempfile.TemporaryDirectory(prefix="drivebay-") as folder:
            path = Path(folder) / "state"
            self.save(path)
            return _unpickled, (path.read_bytes(), _beside(path).read_bytes())

    def _warn_of(self, result: Result) -> None:
        if result.began_throttled:
            degrees = result.core.before.temperature_c
            warnings.warn(
                f"the run began with the drive throttled, at {degrees:.0f} degrees: "
                f"device.rest({REST_S:.0f}) before it",
                stacklevel=3,
            )
        if result.worn_out:
            warnings.warn(
                f"the drive wore out after {result.duration_s:.0f} s: what was measured until then",
                stacklevel=3,
            )

    def _warn_of_policy(self) -> None:
        policy, asked = policies.of_profile(self.drive.raw), self._core.decisions()
        if policy is not None and asked is not None:
            for sentence in policies.without_effect(policy, asked):
                warnings.warn(sentence, stacklevel=3)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Names the drive in what the core refuses."""
        try:
            yield
        except UserError as problem:
            raise UserError(f"{self.drive.name}: {problem.message}", problem.hint) from None

    def _with(self, core: VirtualDrive) -> Device:
        device = copy.copy(self)
        device._core = core
        return device

    def __repr__(self) -> str:
        return f"<Device of {self.drive.title}, seed {self.seed}, {self.runs} runs>"


def run(
    drive: Drive,
    load: Workload | Trace,
    *,
    seed: int = 1,
    fill: bool = True,
    rest_s: float = REST_S,
    sample_every: int = 0,
    events: bool | int = False,
) -> Result:
    """Runs a load on a new device that was filled and has cooled, as a suite's tests begin.

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
    rest_s
        Seconds of rest after the fill, in which the drive cools and may collect garbage. With 0 the
        load meets a drive that is hot from its fill, and may be throttled: `began_throttled`.
    sample_every
        Keep every so many-th I/O in `Result.samples`; 0 for none.
    events
        Keep what happens inside in `Result.inside`, as of `Device.run`.

    Raises
    ------
    UserError
        If the drive cannot be asked this.

    >>> from drivebay.library import drive
    >>> small = drive("sm951-ahci-512").scaled(1 / 32)
    >>> result = run(small, Workload(read_percent=100, queue_depth=1, ios=10_000))
    >>> result.ios, len(result.series), round(result.latency.percentile_us(50))
    (10000, 1, 89)
    """
    device = Device(drive, seed=seed)
    if fill:
        device.prepare(rest_s=rest_s)
    chosen = seed if load.seed is None else load.seed
    return device.run(load, seed=chosen, sample_every=sample_every, events=events)


def jobs_of(
    jobs: Mapping[str, Workload], seed: int | None, fallback: int, capacity_bytes: int
) -> tuple[dict[str, int], list[tuple[CoreWorkload, int]]]:
    """Seeds by the names of jobs, of `seed` or else the job's own or the fallback, and what the
    core runs."""
    if not all(isinstance(load, Workload) for load in jobs.values()):
        raise UserError("run_jobs takes workloads by name", 'run_jobs({"a": Workload()})')
    seeds = {
        name: derived_seed(fallback if seed is None else seed, name)
        if seed is not None or load.seed is None
        else load.seed
        for name, load in jobs.items()
    }
    cores = [(load.core(capacity_bytes), seeds[name] & SEED_MASK) for name, load in jobs.items()]
    return seeds, cores


def _refuse_stranger(path: Path, begins: bytes) -> None:
    """Raises UserError if a file lies there that `Device.save` did not write."""
    try:
        with path.open("rb") as file:
            found = file.read(len(begins))
    except FileNotFoundError:
        return
    except OSError as error:
        raise EnvironmentProblem(
            f"{path} cannot be read: {error.strerror}", f"ls -l {path}"
        ) from None
    if found and found != begins:
        raise UserError(
            f"{path} exists and is no saved state: it is not overwritten", "name another file"
        )


def _most(events: bool | int) -> int:
    """How many events are kept at most."""
    if not 0 <= events < 2**63:
        raise UserError(f"events = {events} is not allowed", "events=True, or how many at most")
    return EVENTS_MAX if events is True else int(events)


def _unpickled(state: bytes, about: bytes) -> Device:
    with tempfile.TemporaryDirectory(prefix="drivebay-") as folder:
        path = Path(folder) / "state"
        path.write_bytes(state)
        _beside(path).write_bytes(about)
        return Device.load(path)


def _beside(path: str | Path) -> Path:
    return Path(f"{path}.json")
