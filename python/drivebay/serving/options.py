"""What is served and how, each option once: the fields of `Options` and `Drive`.

`drivebay serve` has an option for each field that their docstrings describe, which is its help;
`--config` has a key of the same name, and the core's document (crates/serve/src/server/options.rs) a value
under the field's name.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from drivebay.common import units
from drivebay.common.errors import UserError

if TYPE_CHECKING:
    from drivebay.definitions.profiles import Profile

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAMES = {"image": "from", "namespaces": "namespace"}
"""Options that are not called as their fields."""
HEADINGS = {
    "Addresses": "nbd nvme_tcp vfio_user ublk control metrics tls_cert tls_key",
    "Identity": "serial nqn eui64 dhchap_secret dhchap_ctrl_secret",
    "Power cuts and faults": "power_cut after_cut loss faults",
}
"""What stands together in the help."""


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

        Raises UserError if it says something else."""
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
class Options:
    """Where drives are served, and what they share. Raises UserError if they do not go together.

    Parameters
    ----------
    nbd : ADDRESS
        Serve NBD: unix:PATH or HOST:PORT; repeatable. Default HOST: 127.0.0.1. No client is asked
        for a password.
    nvme_tcp : HOST:PORT
        Serve NVMe/TCP; repeatable. Without --dhchap-secret stay on 127.0.0.1.
    control : unix:PATH
        Accept commands on this socket.
    metrics : HOST:PORT
        Answer GET /metrics with the figures, for Prometheus. Default HOST: 127.0.0.1.
    tls_cert : PEM
        Require TLS of NBD clients, with this certificate chain; they need none of their own.
    tls_key : PEM
        The certificate's private key.
    memory : SIZE
        Most memory for data, snapshots and the buffers of connections, 4GiB, 256MiB at least.
        [default: half of what is free]
    """

    nbd: tuple[str, ...] = ()
    nvme_tcp: tuple[str, ...] = ()
    control: str | None = None
    metrics: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    memory: str | None = None

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UserError("--tls-cert and --tls-key belong together", "give both, or none")

    def document(self, free_bytes: int) -> dict[str, Any]:
        """As the core takes it; without `memory` half of what is free may be used."""
        size = self.memory
        own: dict[str, Any] = {"nbd": self.nbd, "nvme_tcp": self.nvme_tcp, "control": self.control}
        if self.tls_cert is not None:
            own["tls"] = (str(self.tls_cert), str(self.tls_key))
        own["memory_max_bytes"] = (
            free_bytes // 2 if size is None else units.parse_bytes(size, option="--memory")
        )
        return own


@dataclass(frozen=True, kw_only=True)
class Drive:
    """A drive to be served, `profile`; what is allowed is checked by the core.

    Its `name` is that of its NBD export, and for the control socket; without it the profile's. All
    that is drawn at random follows from `seed`. Raises UserError if they do not go together.

    Parameters
    ----------
    vfio_user : PATH
        Serve a PCIe drive, NVMe or AHCI as its profile says, to QEMU's vfio-user-pci on this
        socket.
    ublk :
        Serve block devices of this machine, /dev/ublkb0 and so on, one for each namespace. For
        root, with Linux 6.5 or later and its module ublk_drv.
    data : FILE
        Keep the data in this sparse file, made if it does not exist. [default: in memory, lost at
        the end]
    host_durability :
        With --data: what a flush makes of the file: fdatasync, so that it outlives a crash of this
        host; or nothing, which is faster. [default: flush]
    image : IMAGE
        Begin with what this image holds, raw or a format of qemu-img's, written before the first
        host comes. It is never written to: data in memory lies over it, a new --data file is a
        copy; one that is there stays as it is.
    state : FILE
        The drive's map, wear and temperature: read at the start if the file exists, written at an
        orderly end.
    record : FILE
        Record all commands with their data in this new file, for drivebay crash run. A power cut or
        a restored snapshot ends it.
    pace :
        How completion times are met: sleep; sleep, then busy-wait for the last 60 us; busy-wait; or
        answer at once, without the drive's timing.
    precondition :
        What was done to the drive before: nothing; all of it written once, and rest; or written
        twice, then random writes of its size. Seconds; steady takes a minute. A --state that is
        there stays as it is.
    time_scale : RATIO
        Seconds of the drive's clock in a second of the host's, 1/10000 to 100: 1/20 for a host too
        slow for the drive, 10 for an hour's heat in six minutes; or auto, the fastest up to 1 at
        which this machine answers 99 % in time, which may change while it serves.
    read_only :
        Refuse all that changes data, and say so to hosts.
    namespaces : SIZE[@START][,read-only]
        A part of the drive as a namespace, and an NBD export, of its own: behind the one before it,
        or from START on; repeatable. [default: one of the drive's size]
    serial : TEXT
        Serial number. [default: as beside --state, or random]
    nqn : NQN
        Name of the NVMe subsystem. [default: by the serial number]
    eui64 : HEX
        EUI-64 of the namespace. [default: by the serial number]
    dhchap_secret : FILE
        Let in over NVMe/TCP who knows the secret in this file, a line DHHC-1:... as nvme
        gen-dhchap-key writes it.
    dhchap_ctrl_secret : FILE
        Prove to these hosts, if they ask, that the drive knows the secret in this file.
    power_cut : WHEN
        Cut the power: after=SECONDS, ios=N, at-random or at-random=MEAN_SECONDS.
    after_cut : WHAT
        After a power cut hosts may connect at once (return), after hold=SECONDS, or when the
        control socket is told power-on (refuse). [default: return]
    loss :
        What a power cut loses: all data not yet programmed; a random part of it, torn at blocks;
        or all that no flush covers, up to the write buffer's size.
    faults : FILE
        Script of faults, TOML with [[fault]].
    """

    profile: Profile
    name: str | None = None
    seed: int = 1
    vfio_user: Path | None = None
    ublk: bool = False
    data: Path | None = None
    host_durability: Literal["flush", "none"] | None = None
    image: Path | None = None
    state: Path | None = None
    record: Path | None = None
    pace: Literal["sleep", "hybrid", "spin", "none"] = "hybrid"
    precondition: Literal["new", "filled", "steady"] = "new"
    time_scale: str = "1"
    read_only: bool = False
    namespaces: tuple[Namespace, ...] = ()
    serial: str | None = None
    nqn: str | None = None
    eui64: str | None = None
    dhchap_secret: Path | None = None
    dhchap_ctrl_secret: Path | None = None
    power_cut: str | None = None
    after_cut: str | None = None
    loss: Literal["all", "random", "unflushed"] = "all"
    faults: Path | None = None

    def __post_init__(self) -> None:
        if self.name is not None and not NAME.fullmatch(self.name):
            raise UserError(
                f"{self.name} is no name of a drive",
                "letters, digits, '.', '_' and '-', at most 64: NAME=DRIVE",
            )
        if self.pace == "none" and self.time_scale != "1":
            raise UserError(
                "--time-scale has no meaning with --pace none, which has no clock",
                "leave one of them out",
            )
        if self.dhchap_secret is None and self.dhchap_ctrl_secret is not None:
            raise UserError(
                "--dhchap-ctrl-secret has no meaning without --dhchap-secret",
                "add --dhchap-secret FILE, or leave it out",
            )
        if self.data is None and self.host_durability is not None:
            raise UserError(
                "--host-durability has no meaning without --data",
                "add --data FILE, or leave it out",
            )

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

    def document(self, image: Path | None, faults: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """As the core takes it, with a raw image in place of `image`, and the faults of the
        script."""
        own = {**vars(self), "name": self.name or self.profile.name, "image": image}
        del own["profile"]
        own["identity"] = {key: own.pop(key) for key in ("serial", "nqn", "eui64")}
        own["faults"] = faults
        own["namespaces"] = [
            {"bytes": one.size_bytes, "start_bytes": one.start_bytes, "is_read_only": one.read_only}
            for one in self.namespaces
        ]
        return {
            key: str(value) if isinstance(value, Path) else value
            for key, value in own.items()
            if value is not None
        }


@dataclass(frozen=True)
class Option:
    """An option, as a field of `Options` or `Drive` is one.

    `kind` is the type of its value, `tuple` for texts, or the choices that there are; `metavar`
    stands for the value in the help, under `heading`.
    """

    field: str
    name: str
    kind: Any
    default: Any = None
    metavar: str | None = None
    help: str = ""
    heading: str | None = None

    def read(self, texts: Sequence[str]) -> tuple[Any, ...]:
        """The value of an option that takes texts."""
        return tuple(map(Namespace.parse if self.field == "namespaces" else str, texts))


@functools.cache
def options_of(table: type) -> tuple[Option, ...]:
    """The options that are fields of `Options` or `Drive`."""
    hints = get_type_hints(table, {**globals(), "Profile": object})
    defaults = {one.name: one.default for one in fields(table)}
    headings = {field: heading for heading, all in HEADINGS.items() for field in all.split()}
    found = []
    for field, metavar, words in re.findall(
        r"^    (\w+) :(?: (\S+))?\n((?:        .+\n)+)", table.__doc__ or "", re.MULTILINE
    ):
        found.append(
            Option(
                field,
                NAMES.get(field, field.replace("_", "-")),
                _kind(hints[field]),
                defaults[field],
                metavar or None,
                " ".join(words.split()),
                headings.get(field),
            )
        )
    return tuple(found)


def _kind(hint: Any) -> Any:
    if type(None) in get_args(hint):
        hint = get_args(hint)[0]
    return get_args(hint) if get_origin(hint) is Literal else get_origin(hint) or hint


def check(drives: Sequence[Drive], options: Options) -> None:
    """Raises UserError if hosts cannot reach every drive, or two drives would share what they
    cannot."""
    if not options.nbd and not options.nvme_tcp:
        for one in drives:
            if one.vfio_user is None and not one.ublk:
                raise UserError(
                    "serve: no address to listen on",
                    f"drivebay serve {one.profile.name} --nbd unix:/tmp/drive.sock",
                )
    for key in ("vfio_user", "data", "state", "record", "serial", "nqn", "eui64"):
        values = [getattr(one, key) for one in drives if getattr(one, key) is not None]
        if len(values) > len(set(values)):
            raise UserError(
                f"--{key.replace('_', '-')} {values[0]} is for one drive, not for {len(drives)}",
                "give each its own in a file: --config serve.toml",
            )
    written: dict[object, str] = {}
    for key, name in (
        ("data", "data"),
        ("state", "state"),
        ("record", "record"),
        ("image", "from"),
    ):
        for path in filter(None, (getattr(one, key) for one in drives)):
            where = _identity_of(path)
            if where in written:
                raise UserError(
                    f"--{name}: {path} is the file of --{written[where]}, which is written to",
                    f"name a new file: --{written[where]} another.img",
                )
            if key != "image":
                written[where] = name


def _identity_of(path: Path) -> object:
    """What two names of one file have in common, whether it is there or not."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino
