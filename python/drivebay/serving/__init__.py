"""Serving: a virtual drive attached to real hosts, in real time, until somebody stops it.

Turns a profile and options into a running server of the core. This room
must not know how a request is served, nor how anything is printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from drivebay import _core
from drivebay.common import documents
from drivebay.common.errors import UserError
from drivebay.common.memory import available_bytes
from drivebay.definitions.profiles import Profile

Pace = Literal["sleep", "hybrid", "spin", "none"]
Precondition = Literal["new", "filled", "steady"]
HostDurability = Literal["flush", "none"]
Loss = Literal["all", "random", "unflushed"]
Report = _core.ServeReport


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a drive is served; what is allowed is checked by the core.

    Parameters
    ----------
    nbd : addresses for NBD clients, `unix:PATH` or `HOST:PORT`.
    nvme_tcp : addresses for NVMe/TCP hosts, `HOST:PORT`.
    vfio_user : path of a socket for a virtual machine that takes the drive as a PCIe device.
    data : file that holds the data; None keeps it in memory.
    host_durability : what a flush makes of that file: fdatasync ("flush"), or nothing.
    state : file of the drive's state, read at the start and written at an orderly end.
    memory_max_bytes : most bytes of data in memory; None is half of what can be had at the start.
    precondition : what was done to a drive without a state before: nothing; a fill and half an
        hour of rest; or two fills and random writes of its capacity.
    pace : how the times of the model are met.
    time_scale : seconds of the drive's clock in one of the host's: "1/20", "0.05" or "10".
    tls : certificate and private key, PEM files; with them TLS is required.
    control : address of the control socket, `unix:PATH`.
    power_cut : `after=SECONDS`, `ios=N`, `at-random` or `at-random=MEAN_SECONDS`.
    after_cut : what hosts meet then: `return`, `refuse` or `hold=SECONDS`.
    loss : what a power cut takes of the data that is not durable.
    faults : a script of faults, TOML with `[[fault]]` tables.
    serial, nqn, eui64 : the drive's identity; None keeps that of `state`, or is random.
    """

    nbd: tuple[str, ...] = ()
    nvme_tcp: tuple[str, ...] = ()
    vfio_user: Path | None = None
    data: Path | None = None
    host_durability: HostDurability = "flush"
    state: Path | None = None
    memory_max_bytes: int | None = None
    pace: Pace = "hybrid"
    time_scale: str = "1"
    precondition: Precondition = "new"
    tls: tuple[Path, Path] | None = None
    control: str | None = None
    power_cut: str | None = None
    after_cut: str | None = None
    loss: Loss = "all"
    faults: Path | None = None
    serial: str | None = None
    nqn: str | None = None
    eui64: str | None = None


class Server:
    """A drive that listens from the moment this is made, and answers while `run` runs.

    Raises
    ------
    UserError
        If an option is not possible.
    EnvironmentProblem
        If an address is in use, a file is locked, or memory is lacking.
    """

    def __init__(self, profile: Profile, options: Options, *, seed: int = 1) -> None:
        self._core = _core.Server(
            profile.core,
            seed=seed,
            name=profile.name,
            memory_max_bytes=options.memory_max_bytes or available_bytes() // 2,
            nbd=options.nbd,
            nvme_tcp=options.nvme_tcp,
            vfio_user=options.vfio_user,
            data=options.data,
            host_durability=options.host_durability,
            state=options.state,
            pace=options.pace,
            time_scale=options.time_scale,
            precondition=options.precondition,
            tls=options.tls,
            control=options.control,
            power_cut=options.power_cut,
            after_cut=options.after_cut,
            loss=options.loss,
            faults=() if options.faults is None else _script(options.faults),
            serial=options.serial,
            nqn=options.nqn,
            eui64=options.eui64,
        )
        self.addresses: tuple[str, ...] = tuple(self._core.addresses)

    def run(self) -> Report:
        """Serves until `stop` is called or a signal comes; returns the last `status`."""
        return self._core.run()

    def stop(self) -> None:
        """Completes what is under way, then ends; from any thread or signal handler."""
        self._core.stop()

    def status(self) -> Report | None:
        """Figures since the start, while it runs: see docs/concepts/serving.md; else None."""
        return self._core.status()


def _script(path: Path) -> list[_core.Fault]:
    """The faults of a script."""
    example = '[[fault]], kind = "hang", after_s = 10.0, for_s = 5.0'
    try:
        script = documents.toml(documents.read(path))
    except ValueError as problem:
        raise UserError(f"--faults: {path} is not TOML: {problem}", example) from None
    except OSError as problem:
        raise UserError(
            f"--faults: {path} cannot be read: {problem.strerror}", f"ls -l {path}"
        ) from None
    faults = script.pop("fault", [])
    if script or not isinstance(faults, list) or not all(isinstance(one, dict) for one in faults):
        raise UserError(f"--faults: {path} must hold [[fault]] tables and nothing else", example)
    return [_fault(fault, f"--faults: {path}: fault {n}") for n, fault in enumerate(faults, 1)]


def _fault(given: dict[str, Any], where: str) -> _core.Fault:
    try:
        return _core.Fault(**given)
    except (TypeError, OverflowError, UserError) as problem:
        said = problem.message if isinstance(problem, UserError) else str(problem)
        said = said.removeprefix("Fault.__new__() ")
        raise UserError(f"{where}: {said}", "see docs/concepts/serving.md") from None
