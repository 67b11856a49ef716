"""Serving: virtual drives attached to real hosts, in real time, until somebody stops them.

Turns profiles and options into a running server of the core. This room
must not know how a request is served, nor how anything is printed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from drivebay import _core
from drivebay.common import units
from drivebay.common.errors import UserError
from drivebay.common.memory import available_bytes
from drivebay.definitions.profiles import Profile
from drivebay.serving import config, images

Pace = Literal["sleep", "hybrid", "spin", "none"]
Precondition = Literal["new", "filled", "steady"]
HostDurability = Literal["flush", "none"]
Loss = Literal["all", "random", "unflushed"]
Report = _core.ServeReport


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """A part of a drive that hosts see as a drive of its own.

    Parameters
    ----------
    size_bytes : its size, of which whole pages of 4 KiB count.
    start_bytes : where it begins on the drive; None is behind the one before it.
    read_only : it refuses all that changes its data.
    """

    size_bytes: int
    start_bytes: int | None = None
    read_only: bool = False

    @classmethod
    def parse(cls, text: str) -> Namespace:
        """What `--namespace` says: SIZE[@START][,read-only].

        >>> Namespace.parse("10G@4G,read-only")
        Namespace(size_bytes=10737418240, start_bytes=4294967296, read_only=True)

        Raises
        ------
        UserError
            If it says something else.
        """
        place, comma, access = text.partition(",")
        if comma and access != "read-only":
            raise UserError(
                f"--namespace {text}: {access or 'nothing'} behind the comma",
                "--namespace 100GiB,read-only",
            )
        size, at, start = place.partition("@")
        start_bytes = None
        if at:
            start_bytes = 0 if start == "0" else units.parse_bytes(start, option="--namespace @")
        size_bytes = units.parse_bytes(size, option="--namespace")
        return cls(size_bytes=size_bytes, start_bytes=start_bytes, read_only=bool(comma))


@dataclass(frozen=True, kw_only=True)
class Drive:
    """A drive to be served; what is allowed is checked by the core.

    Parameters
    ----------
    profile : what it is.
    name : of its NBD export, and for the control socket; None is the profile's.
    seed : of all that is drawn at random.
    read_only : it refuses all that changes data.
    namespaces : its parts, as hosts see them; none is one of its size. Each is an NBD export, and
        a namespace over NVMe.
    vfio_user : path of a socket for a virtual machine that takes the drive as a PCIe device.
    ublk : each namespace is a block device of this machine, /dev/ublkbN; for root, from Linux 6.5
        on with its module ublk_drv.
    data : file that holds the data; None keeps it in memory.
    host_durability : what a flush makes of that file: fdatasync ("flush"), or nothing.
    image : what the data begins with, a raw file, a block device, or an image that qemu-img can
        read; it is not written to. Data that is there already stays as it is.
    state : file of the drive's state, read at the start and written at an orderly end.
    precondition : what was done to the drive before: nothing; a fill and half an hour of rest; or
        two fills and random writes of its capacity. A state that is there stays as it is.
    pace : how the times of the model are met.
    time_scale : seconds of the drive's clock in one of the host's: "1/20", "0.05" or "10".
    power_cut : `after=SECONDS`, `ios=N`, `at-random` or `at-random=MEAN_SECONDS`.
    after_cut : what hosts meet then: `return`, `refuse` or `hold=SECONDS`.
    loss : what a power cut takes of the data that is not durable.
    faults : a script of faults, TOML with `[[fault]]` tables.
    serial, nqn, eui64 : the drive's identity; None keeps that of `state`, or is random.
    """

    profile: Profile
    name: str | None = None
    seed: int = 1
    read_only: bool = False
    namespaces: tuple[Namespace, ...] = ()
    vfio_user: Path | None = None
    ublk: bool = False
    data: Path | None = None
    host_durability: HostDurability = "flush"
    image: Path | None = None
    state: Path | None = None
    precondition: Precondition = "new"
    pace: Pace = "hybrid"
    time_scale: str = "1"
    power_cut: str | None = None
    after_cut: str | None = None
    loss: Loss = "all"
    faults: Path | None = None
    serial: str | None = None
    nqn: str | None = None
    eui64: str | None = None

    @property
    def has_data(self) -> bool:
        """Whether something is there already where its data goes, an empty file aside."""
        data = self.data
        return (
            data is not None and data.exists() and (not data.is_file() or data.stat().st_size > 0)
        )

    @property
    def has_state(self) -> bool:
        """Whether the file of its state is there already."""
        return self.state is not None and self.state.exists()

    def _core(self, resources: ExitStack) -> _core.ServedDrive:
        given = dict(vars(self))
        profile, name = given.pop("profile"), given.pop("name") or self.profile.name
        given["namespaces"] = [
            (one.size_bytes, one.start_bytes, one.read_only) for one in self.namespaces
        ]
        given["faults"] = () if self.faults is None else _script(self.faults)
        if self.image is not None and not self.has_data:
            folder = None if self.data is None else self.data.parent
            given["image"] = resources.enter_context(images.as_raw(self.image, folder))
        return _core.ServedDrive(profile.core, name=name, **given)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where drives are served, and what they share.

    Parameters
    ----------
    nbd : addresses for NBD clients, `unix:PATH` or `HOST:PORT`.
    nvme_tcp : addresses for NVMe/TCP hosts, `HOST:PORT`.
    control : address of the control socket, `unix:PATH`.
    tls : certificate and private key, PEM files; with them TLS is required.
    memory_max_bytes : most bytes of memory for data, snapshots and buffers of connections; None
        is half of what can be had at the start.
    """

    nbd: tuple[str, ...] = ()
    nvme_tcp: tuple[str, ...] = ()
    control: str | None = None
    tls: tuple[Path, Path] | None = None
    memory_max_bytes: int | None = None


class Server:
    """Drives that listen from the moment this is made, and answer while `run` runs.

    Each has a thread, a clock, a state and faults of its own.

    Raises
    ------
    UserError
        If an option is not possible.
    EnvironmentProblem
        If an address is in use, a file is locked, or memory is lacking.
    """

    def __init__(self, drives: Sequence[Drive], options: Options) -> None:
        with ExitStack() as resources:
            self._core = _core.Server(
                [drive._core(resources) for drive in drives],
                memory_max_bytes=options.memory_max_bytes or available_bytes() // 2,
                nbd=options.nbd,
                nvme_tcp=options.nvme_tcp,
                tls=options.tls,
                control=options.control,
            )
        self.addresses: tuple[str, ...] = tuple(self._core.addresses)

    def run(self) -> list[Report]:
        """Serves until `stop` is called or a signal comes; returns the last `status`."""
        return self._core.run()

    def stop(self) -> None:
        """Completes what is under way, then ends; from any thread or signal handler."""
        self._core.stop()

    def status(self) -> list[Report]:
        """Figures since the start of each drive that runs: see docs/concepts/serving.md."""
        return self._core.status()


def beyond_loopback(addresses: Iterable[str]) -> list[str]:
    """HOST:PORT of those `Server.addresses` that other machines may reach.

    >>> beyond_loopback(["unix:/tmp/d.sock", "127.0.0.1:1", "[::]:2", "nvme-tcp:0.0.0.0:3 nqn"])
    ['[::]:2', '0.0.0.0:3']
    """
    found = []
    for address in addresses:
        place = address.removeprefix("nvme-tcp:").partition(" ")[0]
        host = place.rpartition(":")[0].strip("[]")
        is_local = address.startswith(("unix:", "vfio-user:", "ublk:"))
        if not is_local and not ipaddress.ip_address(host).is_loopback:
            found.append(place)
    return list(dict.fromkeys(found))


def _script(path: Path) -> list[_core.Fault]:
    """The faults of a script."""
    example = '[[fault]], kind = "hang", after_s = 10.0, for_s = 5.0'
    script = config.toml(path, "--faults", example)
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
