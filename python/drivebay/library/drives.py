"""Drives: checked profiles that can be changed and scaled, and devices, which have a state.

Loads run one after another on a device, which can be copied and saved, and whose power can be cut.
Runs release Python's interpreter lock, so devices in several threads run in parallel; one device
runs one load at a time. Ctrl-C stops a run; the device then keeps the state that the run has
reached.
"""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay import _core
from drivebay.analysis import fidelity
from drivebay.common import documents, files
from drivebay.common.errors import UserError, named
from drivebay.common.threads import LOOK_EVERY_S, repeated
from drivebay.definitions import leaves, policies
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile, from_document, from_resolved, load
from drivebay.definitions.scaling import scaled
from drivebay.definitions.toml_text import toml_lines
from drivebay.library import states
from drivebay.library.load import Trace, Workload, checked, jobs_of, whole_seed
from drivebay.library.result import Result, results_of
from drivebay.targets.virtual.inside import EVENTS_MAX

FILL = Workload(pattern="sequential", block_bytes=128 * 1024, queue_depth=32)
"""Load that fills a drive: one pass over all addresses."""
REST_S = 1800.0
"""Idle time between the fill and a load, as in the suites."""


class Drive(Profile):
    """Profile of a virtual drive: every number with its source. It is immutable.

    Attributes
    ----------
    name, title
        As in the profile.
    capacity_bytes
        User capacity, in bytes.
    memory_bytes
        Memory that a device of it needs on this machine, in bytes.
    raw
        The whole profile; leaves are {"value", "source"}. Treat it as read-only.

    >>> drive("sm951-ahci-512")
    <Drive sm951-ahci-512: 512.1 GB, AHCI, PCIe 3.0 x4>
    """

    def __repr__(self) -> str:
        return f"<Drive {self.name}: {self.capacity_bytes / 1e9:.1f} GB, {self.interface}>"

    def with_(self, *variants: str, **changes: Any) -> Drive:
        """Changed drive, for what-if experiments.

        Parameters
        ----------
        variants
            Changes as for the command line's `--set`: a set of changes that the profile
            names ("heatsink"), or "link=pcie2x4".
        changes
            Values by name: `unused="25%"`, of the user's capacity; `over_provisioning="28%"`,
            (physical - user) / user capacity; `link="pcie2x4"`; `ailment="slow-die"` (see
            `drivebay drives --ailments`); `aged="80%"`; `parity="16:100"`, parity across 16 dies
            and a rebuild at 100 MB/s; or any value of the profile,
            `ambient_c=30`. If several sections have that name, put the section before it,
            with `__` for the dot: `thermal__ambient_c=30`.

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
        given = [*variants]
        for key, value in changes.items():
            text = value if isinstance(value, str) else json.dumps(value)
            given.append(f"{key.replace('__', '.')}={text}")
        try:
            return _drive(changed(self, given))
        except UserError as problem:
            texts = (problem.message, problem.hint)
            message, hint = (text.replace("--set ", "with_: ") for text in texts)
            raise UserError(message, hint) from None

    def value(self, name: str) -> Any:
        """Single value by its dotted name, "thermal.ambient_c".

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
        """Smaller drive with the same behaviour, for experiments that take less time.

        It has the same dies, channels and number of blocks, but only `share` of the pages per
        block. Rates, latencies and write amplification stay the same; filling the drive, or a part
        of it, takes `share` of the time. Heat is not scaled, so a scaled drive is emptier
        when it is warm. Its title states that it is scaled. A load by Zipf's law is less skewed on
        fewer blocks, from an exponent of about one on: "zipf:1.0/16" on a 16th is "zipf:1.0" on the
        whole drive.

        Parameters
        ----------
        share
            Share of the capacity, at most 1; a block must keep a whole number of pages.

        Raises
        ------
        UserError
            If a block cannot be scaled to this share.

        >>> drive("sm951-ahci-512").scaled(1 / 16).capacity_bytes
        32006885376
        """
        return _drive(scaled(self, share))

    def save(self, path: str | Path, *, name: str | None = None) -> None:
        """Writes the complete profile with all changes to a file (.toml), which `drivebay.drive`
        and the command line accept as a drive. An existing file is not replaced.

        Parameters
        ----------
        path
            The file, which must not exist.
        name
            Name of the drive, in small letters, digits and hyphens; by default its own.

        Raises
        ------
        UserError
            If the file exists, or the name is not allowed.
        EnvironmentProblem
            If it cannot be written.
        """
        raw = copy.deepcopy(dict(self.raw))
        raw["drive"]["name"] = name or self.name
        raw["drive"].pop("host", None)  # its values are in the profile
        _drive(from_document(raw, where=f"Drive.save: {name!r}"))
        text = "\n".join(toml_lines(raw)) + "\n"
        files.write_new(Path(path), text)

    def device(self, *, seed: int = 1) -> Device:
        """New device of this drive: empty, at ambient temperature, with its clock at 0.

        Parameters
        ----------
        seed
            Seed of the drive's own random values; the same seed gives the same device.

        Raises
        ------
        EnvironmentProblem
            If the machine has not enough memory.
        """
        return Device(self, seed=seed)


def drive(what: str | Path | Mapping[str, Any], *, host: str | Path | None = None) -> Drive:
    """Loads a virtual drive.

    Parameters
    ----------
    what
        A name of the catalog; the path of a profile (.toml); a profile as TOML text (of several
        lines); or one as nested dicts. A profile may have a `base` in the catalog and contain only
        the differences.
    host
        The host that it is tested in: a name (`drivebay hosts`) or the path of a file (.toml). By
        default the host of the drive's reviews.

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
    known = _known_drive(what)
    return known if host is None else _drive(known.in_host(host))


def _known_drive(what: str | Path | Mapping[str, Any]) -> Drive:
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
    """Effects of a power cut: bytes whose newest data is lost (reads return the previous data), and
    the seconds until the drive answers again.
    """

    lost_bytes: int
    ready_after_s: float


@dataclass(frozen=True)
class FailedDies:
    """Dies that failed, in order; True in `rebuilding` if their data is still being moved to the
    others.
    """

    dies: tuple[int, ...]
    rebuilding: bool


class Device:
    """Virtual drive with a state: data, wear, clock, heat. Created by `Drive.device`.

    Attributes
    ----------
    drive
        The drive.
    seed
        Seed of the drive's own random values, and of its loads.
    runs
        Number of loads that it has run.

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
        self._core = _core.VirtualDrive(what.core, whole_seed(seed))

    @property
    def capacity_bytes(self) -> int:
        """User capacity, in bytes."""
        return self.drive.capacity_bytes

    def run(
        self,
        load: Workload | Trace,
        *,
        seed: int | None = None,
        sample_every: int = 0,
        events: bool | int = False,
        progress: Callable[[_core.Progress], object] | None = None,
    ) -> Result:
        """Runs a load, starting from the drive's present state and time.

        Parameters
        ----------
        load
            Workload or trace to run.
        seed
            Seed of the addresses. By default the load's own, else the device's plus the number of
            previous runs: a repeated load therefore uses other addresses.
        sample_every
            Keep every n-th I/O in `Result.samples`; 0 for none.
        events
            Keep internal events in `Result.inside`: garbage collection, folding and erases, with
            this maximum (True: a million), and the utilisation of dies and channels. It changes no
            figure, and costs time only if requested.
        progress
            Called several times per second, in another thread, with the seconds of the drive's time
            so far (`elapsed_s`), `iops`, `bytes_per_s` and `temperature_c`.

        Raises
        ------
        UserError
            If the drive cannot run this load.
        KeyboardInterrupt
            On Ctrl-C, after at most one more second of the drive's time.

        Warns if heat slowed the drive from the beginning, and if its flash wore out during the run.
        """
        control = _core.Control()
        report: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if progress is not None:
            report = repeated(lambda: progress(control.progress()), every_s=LOOK_EVERY_S)
        with report:
            result = self._run(load, seed, sample_every, events, control)
        self._warn_of(result)
        return result

    def _run(
        self,
        load: Workload | Trace,
        seed: int | None = None,
        sample_every: int = 0,
        events: bool | int = False,
        control: _core.Control | None = None,
    ) -> Result:
        checked(load)
        if sample_every < 0:
            raise UserError(f"sample_every = {sample_every} is below 0", "sample_every=100")
        most = _most(events)
        if seed is None:
            seed = self.seed + self.runs if load.seed is None else load.seed
        chosen = whole_seed(seed)
        if isinstance(load, Trace):
            if sample_every:
                raise UserError("samples are kept of workloads only", "leave out sample_every")
            load.check(where="Trace")
            source = load.source((seed if load.seed is None else load.seed) % 2**63)
            for note in load.notes(self.capacity_bytes):
                warnings.warn(note.removeprefix("warning: "), stacklevel=3)
            with named(self.drive.name):
                core = self._core.replay(source, load.options(), control, events=most).run
        else:
            workload = load.core(self.capacity_bytes)
            with named(self.drive.name):
                core = self._core.run(workload, chosen, control, sample_every, most)
        self.runs += 1
        known = fidelity.known_of(self.drive.name, self.drive.raw)
        size = self.drive.superblock_bytes
        return Result(self.drive.title, load, seed, core, known, superblock_bytes=size)

    def run_jobs(
        self, jobs: Mapping[str, Workload], *, seed: int | None = None, events: bool | int = False
    ) -> dict[str, Result]:
        """Runs several workloads at the same time, as fio runs the jobs of a file.

        Each has its own span, mix, sizes, queue depth, think time, end and result, and its own
        submission queues, which the controller serves in turn or by `weight`. Figures of the drive
        in a result (write amplification, power, heat) are those of all jobs together until the last
        one ends; `Result.interval` is None, because it knows only the errors of single loads.

        Parameters
        ----------
        jobs
            Workloads by name; the sum of their queue depths is limited by the drive.
        seed
            Seed of the addresses, combined with the name of each job. By default the job's own,
            else the device's plus the number of previous runs.
        events
            As for `run`; `Result.inside` of the first job holds the events of all jobs until the
            last one ended.

        Raises
        ------
        UserError
            If the drive cannot run these loads.

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
        with named(self.drive.name):
            finished = self._core.run_jobs(cores, events=_most(events))
        self.runs += 1
        results = results_of(self.drive.title, jobs, seeds, finished, self.drive.superblock_bytes)
        self._warn_of(max(results.values(), key=lambda result: result.duration_s))
        return results

    def fill(self, *, passes: int = 1) -> Result:
        """Writes all addresses sequentially, in 128 KiB, `passes` times.

        Parameters
        ----------
        passes
            Number of passes.
        """
        if passes < 1:
            raise UserError(f"fill(passes={passes}) is not allowed; must be at least 1", "fill()")
        filled = FILL.model_copy(update={"bytes": self.capacity_bytes * passes})
        return self._run(filled, self.seed)

    def prepare(self, *, rest_s: float = REST_S) -> None:
        """Fills the drive and leaves it idle, as `run` and `replicates` do first."""
        self.fill()
        self.rest(rest_s)

    def rest(self, seconds: float) -> None:
        """Leaves the drive idle for some seconds; it cools, and garbage collection may run.
        Simulating years takes less than a second.

        Raises
        ------
        UserError
            If the drive's clock would pass 10^9 seconds.
        """
        self._core.rest(seconds)

    def trim(self, start_bytes: int, length_bytes: int) -> None:
        """Discards a range of addresses (Dataset Management, TRIM): reads return zeros.

        Raises
        ------
        UserError
            If it does not lie on the drive.
        """
        if min(start_bytes, length_bytes) < 0:
            raise UserError(
                f"trim({start_bytes}, {length_bytes}) lies before the drive", "trim(0, 2**20)"
            )
        with named(self.drive.name):
            self._core.discard(start_bytes, length_bytes)

    def secure_erase(self) -> None:
        """Discards all data and erases all flash in no time, as between tests; clock and wear are
        kept.
        """
        self._core.secure_erase()

    def sanitize(self, method: str = "block", *, passes: int = 1) -> float:
        """Runs NVMe's Sanitize: discards all data, with the duration and the wear of the command.

        Parameters
        ----------
        method
            "block" erases all flash in use, "crypto" changes the key and leaves the flash to be
            erased when it is used again, "overwrite" writes all of it, including spare flash, and
            requires a drive with `sanitize_overwrite`.
        passes
            Number of passes of "overwrite", 1 to 16.

        Returns
        -------
        float
            Duration in seconds.

        Raises
        ------
        UserError
            If the drive has no such method.

        >>> device = drive("pm9a3-960").scaled(1 / 64).with_("sanitize_overwrite").device()
        >>> device.sanitize("overwrite", passes=2) > device.sanitize("crypto")
        True
        """
        with named(self.drive.name):
            return self._core.sanitize(method, passes)

    def map(self) -> _core.FlashMap:
        """Map of the flash translation layer: the physical address of each mapping unit, with the
        geometry to decode it.

        Raises
        ------
        UserError
            If the drive's media is written in place: it has no map.
        """
        return self._core.map()

    def operations(self, *, more: bool = True) -> _core.Operations:
        """Operations of the flash translation layer since the last call, in their order. The first
        call starts the log and returns no operations. A translation layer that replays them on the
        `map` of that time ends with the drive's map.

        Parameters
        ----------
        more
            False to end the log.

        Returns
        -------
        _core.Operations
            Columns `kind`, `page`, `address` and `count`: `help(type(device.operations()))`. An
            operation takes 16 bytes of this machine's memory until it is returned. Left out: what
            the map writes itself, and erases between two windows of `drivebay.age`.

        >>> device = drive("sm951-nvme-512").scaled(1 / 64).device()
        >>> _ = device.operations(), device.run(Workload(ios=1000))
        >>> written = device.operations(more=False)
        >>> bool((device.map().addresses[written.page] == written.address).mean() > 0.99)
        True

        Raises
        ------
        UserError
            If the drive's media is written in place.
        """
        return self._core.operations(more)

    def power_cut(self) -> PowerCut:
        """Cuts the power now and turns it on again: data in the write buffer is lost."""
        pages, seconds = self._core.power_cut()
        return PowerCut(pages * 4096, seconds)

    def fail_die(self, die: int) -> None:
        """Fails a die of the flash now; it does not respond any more.

        With parity across dies (`nand.parity`) each of its pages is read from the others of its
        stripe, and its data is moved to them at `nand.parity.rebuild_mb_per_s` along with commands
        and while the device is idle; without parity, that data is lost until it is written again.
        If the remaining space is too small, the device becomes read-only.

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
        """Failed dies, in order, and the state of their rebuild."""
        dies, rebuilding = self._core.failed_dies()
        return FailedDies(tuple(dies), rebuilding)

    def placement(self) -> list[_core.HandleUse]:
        """Use of each placement handle so far, by reclaim group; with initial isolation followed by
        each group's frontier of copies, whose `handle` is None. Empty on a drive without
        placement.
        """
        return self._core.placement()

    def zones(self) -> list[_core.Zone]:
        """Zones in the order of their addresses; empty on a drive without zones."""
        return self._core.zones()

    def health(self) -> _core.Health:
        """Health log at this moment."""
        return self._core.health()

    def counters(self) -> _core.Counters:
        """All counters of the drive since it was created."""
        return self._core.counters()

    def copy(self, *, into: Device | None = None) -> Device:
        """Copy of the device in the same state. Both continue bit for bit the same.

        Parameters
        ----------
        into
            Device that becomes the copy. Its memory is used again, which is faster: the system
            clears new memory first, for seconds per gigabyte on a busy virtual machine.
        """
        device = object.__new__(Device) if into is None else into  # no file as for `copy.copy`
        if into is None:
            core = self._core.copy()
        else:
            core = into._core
            core.copy_from(self._core)
        device.__dict__ |= {**self.__dict__, "_core": core}
        return device

    def save(self, path: str | Path) -> None:
        """Writes the state to a file, which `drivebay serve --state` accepts too, and the drive
        that it belongs to into a second file, `path` with .json appended. An existing state is
        replaced, any other file is not.

        Raises
        ------
        UserError
            If one of the files exists and is no state of a drive.
        EnvironmentProblem
            If the files cannot be written.
        """
        about = {"profile": self.drive.resolved(), "seed": self.seed, "runs": self.runs}
        states.write(path, self._core, about)

    @classmethod
    def load(cls, path: str | Path) -> Device:
        """Device in a state that `save` wrote.

        Raises
        ------
        UserError
            If there is no such state, or it is damaged or of another version of the model.
        """
        with states.reading(path) as about:
            what = _drive(from_resolved(about["profile"]))
            seed, runs = int(about["seed"]), int(about["runs"])
        device = cls(what, seed=seed)
        device.runs = runs
        device._core.restore(what.core, path)
        return device

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the whole state, as `save` does: up to 9 bytes per 4 KiB of the drive."""
        with tempfile.TemporaryDirectory(prefix="drivebay-") as folder:
            path = Path(folder) / "state"
            self.save(path)
            return _unpickled, (path.read_bytes(), states.beside(path).read_bytes())

    def _warn_of(self, result: Result) -> None:
        """Warns of a policy without effect, of heat and of wear."""
        policy, asked = policies.of_profile(self.drive.raw), self._core.decisions()
        sentences: list[str] = []
        if policy is not None and asked is not None:
            sentences += policies.without_effect(policy, asked)
        if result.began_throttled:
            degrees = result.core.before.temperature_c
            sentences.append(
                f"the run began with the drive throttled, at {degrees:.0f} degrees: "
                f"device.rest({REST_S:.0f}) before it"
            )
        if result.worn_out:
            after_s = f"{result.duration_s:.0f} s"
            sentences.append(f"the drive wore out after {after_s}: what was measured until then")
        for sentence in sentences:
            warnings.warn(sentence, stacklevel=3)

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
    progress: Callable[[_core.Progress], object] | None = None,
) -> Result:
    """Runs a load on a new device that was filled and has cooled, as before the tests of a suite.

    Parameters
    ----------
    drive
        From `drivebay.drive(name)`.
    load
        Workload or trace to run; durations are in the drive's time.
    seed
        The same seed gives the same result bit for bit.
    fill
        True to write all addresses sequentially first, as before a test.
    rest_s
        Idle seconds after the fill, in which the drive cools and may collect garbage. With 0 the
        drive is still hot from its fill, and may throttle: `began_throttled`.
    sample_every
        Keep every n-th I/O in `Result.samples`; 0 for none.
    events
        Keep internal events in `Result.inside`, as for `Device.run`.
    progress
        As for `Device.run`; the fill is not reported.

    Raises
    ------
    UserError
        If the drive cannot run this load.

    >>> from drivebay.library import drive
    >>> small = drive("sm951-ahci-512").scaled(1 / 32)
    >>> result = run(small, Workload(read_percent=100, queue_depth=1, ios=10_000))
    >>> result.ios, len(result.series), round(result.latency.percentile_us(50))
    (10000, 1, 89)
    """
    chosen = seed if checked(load).seed is None else load.seed
    device = Device(drive, seed=seed)
    if fill:
        device.prepare(rest_s=rest_s)
    return device.run(
        load, seed=chosen, sample_every=sample_every, events=events, progress=progress
    )


def _most(events: bool | int) -> int:
    """Maximum number of events to keep."""
    if not 0 <= events < 2**63:
        raise UserError(f"events = {events} is not allowed", "events=True, or how many at most")
    return EVENTS_MAX if events is True else int(events)


def _unpickled(state: bytes, about: bytes) -> Device:
    with tempfile.TemporaryDirectory(prefix="drivebay-") as folder:
        path = Path(folder) / "state"
        path.write_bytes(state)
        states.beside(path).write_bytes(about)
        return Device.load(path)
