"""Options of a server and of its drives, as the fields of `Options` and `Drive`.

`drivebay serve` has an option for each field that the docstrings below describe; the description is
its help text. `--config` has a key with the option's name, and the core's document
(crates/serve/src/server/options.rs) a value with the field's name.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from drivebay.common import docstrings, units
from drivebay.common.errors import UserError
from drivebay.common.files import refuse_existing

if TYPE_CHECKING:
    from drivebay.definitions.profiles import Profile

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Options whose name differs from their field.
NAMES = {"image": "from", "namespaces": "namespace"}
DATA, PACE = "Data and state", "Pace and memory"
# Fields by their heading in the help, in its order.
HEADINGS = {
    "Addresses": "nbd nvme_tcp vfio_user ublk control metrics",
    DATA: "data image state precondition read_only namespaces host_durability record requests_only",
    PACE: "pace time_scale memory",
    "Access": "tls_cert tls_key dhchap_secret dhchap_ctrl_secret",
    "Identity": "serial nqn eui64",
    "Power cuts and faults": "power_cut after_cut loss faults",
}


def name_of(field: str) -> str:
    """Returns the name of a field's option."""
    return NAMES.get(field, field.replace("_", "-"))


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """Part of a drive that hosts see as a separate drive.

    Parameters
    ----------
    size_bytes : size, rounded down to whole pages of 4 KiB.
    start_bytes : start on the drive; None is the end of the previous namespace.
    read_only : refuses all commands that change data.
    """

    size_bytes: int
    start_bytes: int | None = None
    read_only: bool = False

    @classmethod
    def parse(cls, text: str) -> Namespace:
        """Parses the value of `--namespace`: SIZE[@START][,read-only].

        >>> Namespace.parse("10G@4G,read-only")
        Namespace(size_bytes=10737418240, start_bytes=4294967296, read_only=True)

        Raises UserError for any other text."""
        place, comma, access = text.partition(",")
        if comma and access != "read-only":
            raise UserError(
                f"--namespace {text}: {access or 'nothing'} after the comma",
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
    """Addresses and limits that the served drives share. Raises UserError for a bad combination.

    Parameters
    ----------
    nbd : ADDRESS
        Serve NBD on unix:PATH or HOST:PORT (default HOST: 127.0.0.1). NBD clients need no
        password. Repeatable.
    nvme_tcp : HOST:PORT
        Serve NVMe/TCP. Use 127.0.0.1 unless --dhchap-secret is set. Repeatable: several addresses
        are paths to the same drive, with states (ANA).
    control : unix:PATH
        Accept commands on this socket (see the end of this help).
    metrics : HOST:PORT
        Serve the figures for Prometheus at /metrics (default HOST: 127.0.0.1).
    tls_cert : PEM
        Require TLS for NBD, with this certificate chain. Clients need no certificate.
    tls_key : PEM
        Private key of the certificate.
    memory : SIZE
        Limit of memory for data, snapshots and connection buffers, for example 4GiB (at least
        256MiB). [default: half of the free memory]
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
            raise UserError("--tls-cert and --tls-key belong together", "give both or neither")

    def document(self, free_bytes: int) -> dict[str, Any]:
        """Returns the document for the core; without `memory` the limit is half of `free_bytes`."""
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
    """Drive to serve, with its `profile`. The core checks the values.

    `name` is the name of its NBD export and on the control socket (default: the profile's name).
    All random choices follow from `seed`. Raises UserError for a bad combination.

    Parameters
    ----------
    vfio_user : PATH
        Serve a PCIe drive (NVMe or AHCI, depending on the profile) to QEMU's vfio-user-pci on
        this socket.
    ublk :
        Serve a block device of this machine (/dev/ublkb0 and so on) per namespace. Needs root,
        Linux 6.5 or later, and its module ublk_drv.
    data : FILE
        Keep the data in this sparse file, which is created if missing. [default: in memory, lost
        at the end]
    host_durability :
        With --data: effect of a flush on the file. flush: fdatasync, so that data survives a crash
        of this host. none: nothing, which is faster. [default: flush]
    image : IMAGE
        Start with the contents of this image, raw or in a format of qemu-img. The image is never
        changed: writes go to memory or to a new --data file. An existing --data file is kept.
    state : FILE
        Keep the drive's map, wear and temperature in this file. It is read at the start if it
        exists, and written at an orderly end.
    record : FILE
        Record all commands and their data in this new file, for drivebay crash run. A power cut
        or a restored snapshot ends the recording.
    requests_only :
        With --record: record no data, but reads as well, for drivebay gate and drivebay replay.
    pace :
        Method to meet completion times. sleep: sleep. hybrid: sleep, and busy-wait for the last
        60 us. spin: busy-wait. none: answer at once, without the drive's timing.
    precondition :
        State of the drive at the start. new: empty. filled: written once, then at rest. steady:
        written twice, then random writes of its size. This takes seconds (steady: a minute). An
        existing --state is kept.
    time_scale : RATIO
        Speed of the drive's clock relative to the host's, 1/10000 to 100: 1/20 if the host is too
        slow for the drive, 10 for an hour of heat in six minutes. auto: the fastest up to 1 at
        which this machine answers 99 % in time; it may change while serving.
    read_only :
        Refuse all commands that change data, and report that to hosts.
    namespaces : SIZE[@START][,read-only]
        Make a part of the drive a namespace (and an NBD export). It starts at START, or after the
        previous namespace. Repeatable. [default: one namespace of the drive's size]
    serial : TEXT
        Serial number. [default: as stored with --state, or random]
    nqn : NQN
        Name of the NVMe subsystem. [default: from the serial number]
    eui64 : HEX
        EUI-64 of the namespace. [default: from the serial number]
    dhchap_secret : FILE
        Require NVMe/TCP hosts to authenticate with the secret in this file, a line DHHC-1:... as
        written by nvme gen-dhchap-key.
    dhchap_ctrl_secret : FILE
        Authenticate the drive to these hosts, on request, with the secret in this file.
    power_cut : WHEN
        Cut the power: after=SECONDS, ios=N (after N requests), at-random or
        at-random=MEAN_SECONDS.
    after_cut : WHAT
        When hosts may connect after a power cut: at once (return), after a time (hold=SECONDS), or
        after power-on on the control socket (refuse). [default: return]
    loss :
        Data that a power cut loses. all: all data not yet programmed. random: a random part of it,
        torn at blocks. unflushed: all data not covered by a flush, up to the write buffer's size.
    faults : FILE
        Script of faults, a TOML file with [[fault]] tables.
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
    requests_only: bool = False
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
                f"{self.name} is not a valid name of a drive",
                "letters, digits, '.', '_' and '-', at most 64: NAME=DRIVE",
            )
        if self.pace == "none" and self.time_scale != "1":
            raise UserError(
                "--time-scale has no meaning with --pace none, which has no clock",
                "leave one of them out",
            )
        for field, basis in (
            ("dhchap_ctrl_secret", "dhchap_secret"),
            ("host_durability", "data"),
            ("requests_only", "record"),
        ):
            if getattr(self, basis) is None and getattr(self, field):
                raise UserError(
                    f"--{name_of(field)} has no meaning without --{name_of(basis)}",
                    f"add --{name_of(basis)} FILE, or leave it out",
                )

    @property
    def has_data(self) -> bool:
        """True if `data` exists already and is not an empty file."""
        data = self.data
        return bool(data and data.exists() and (not data.is_file() or data.stat().st_size))

    @property
    def has_state(self) -> bool:
        """True if the state file exists already."""
        return self.state is not None and self.state.exists()

    def document(self, image: Path | None, faults: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Returns the document for the core, with the given raw image and the faults of the
        script."""
        own = {**vars(self), "name": self.name or self.profile.name, "image": image}
        del own["profile"]
        own["identity"] = {key: own.pop(key) for key in ("serial", "nqn", "eui64")}
        own["faults"] = faults
        own["namespaces"] = [
            {
                "bytes": namespace.size_bytes,
                "start_bytes": namespace.start_bytes,
                "is_read_only": namespace.read_only,
            }
            for namespace in self.namespaces
        ]
        return {
            key: str(value) if isinstance(value, Path) else value
            for key, value in own.items()
            if value is not None
        }


@dataclass(frozen=True)
class Option:
    """Option that belongs to a field of `Options` or `Drive`.

    `kind` is the type of its value, `tuple` for a list of strings, or the possible choices.
    `metavar` stands for the value in the help, under `heading`.
    """

    field: str
    name: str
    kind: Any
    default: Any = None
    metavar: str | None = None
    help: str = ""
    heading: str | None = None

    def read(self, texts: Sequence[str]) -> tuple[Any, ...]:
        """Converts the strings of an option of kind `tuple` to its value."""
        return tuple(map(Namespace.parse if self.field == "namespaces" else str, texts))


@functools.cache
def options_of(table: type) -> tuple[Option, ...]:
    """Returns the options of `Options` or `Drive`."""
    hints = get_type_hints(table, {**globals(), "Profile": object})
    defaults = {field.name: field.default for field in fields(table)}
    headings = {field: heading for heading, all in HEADINGS.items() for field in all.split()}
    described = docstrings.parameters(table).items()
    return tuple(
        Option(name, name_of(name), _kind(hints[name]), defaults[name], *texts, headings.get(name))
        for name, texts in described
    )


def _kind(hint: Any) -> Any:
    if type(None) in get_args(hint):
        hint = get_args(hint)[0]
    return get_args(hint) if get_origin(hint) is Literal else get_origin(hint) or hint


def check(drives: Sequence[Drive], options: Options) -> None:
    """Raises UserError if hosts cannot reach every drive, a recording exists, or drives share a
    file or an identity.
    """
    if not options.nbd and not options.nvme_tcp:
        for drive in drives:
            if drive.vfio_user is None and not drive.ublk:
                raise UserError(
                    "serve: no address to listen on",
                    f"drivebay serve {drive.profile.name} --nbd unix:/tmp/drive.sock",
                )
    for drive in drives:
        refuse_existing(drive.record, "--record")
    for key in ("vfio_user", "data", "state", "record", "serial", "nqn", "eui64"):
        values = [getattr(drive, key) for drive in drives if getattr(drive, key) is not None]
        if len(values) > len(set(values)):
            raise UserError(
                f"--{name_of(key)} {values[0]} is for one drive, not for {len(drives)}",
                "give each its own in a file: --config serve.toml",
            )
    written: dict[object, str] = {}
    for key in ("data", "state", "record", "image"):
        name = name_of(key)
        for path in filter(None, (getattr(drive, key) for drive in drives)):
            file = _identity_of(path)
            if file in written:
                raise UserError(
                    f"--{name}: {path} is the file of --{written[file]}, which is written to",
                    f"name a new file: --{written[file]} another.img",
                )
            if key != "image":
                written[file] = name


def _identity_of(path: Path) -> object:
    """Returns a key that is equal for all paths of the same file, existing or not."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino
