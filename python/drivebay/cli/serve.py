"""`drivebay serve`: virtual drives for real hosts, in real time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

from drivebay.cli import complete, options, served
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import say
from drivebay.cli.target import in_host, modified_profile, typed_yes, with_policy
from drivebay.common import signals, units
from drivebay.common.errors import EXIT_CHECK_FAILED, DrivebayError, UserError

if TYPE_CHECKING:
    from drivebay import serving

ADDRESSES, IDENTITY, FAULTS = "Addresses", "Identity", "Power cuts and faults"
OF_ONE = ("vfio_user", "data", "state", "serial", "nqn", "eui64")
"""Options that cannot be the same for two drives."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay serve sm951-ahci-512 --nbd unix:/tmp/d.sock --precondition filled
  drivebay serve sm951-ahci-512 --nbd 127.0.0.1:10809 --data drive.img
  drivebay serve sm951-ahci-512 --nbd unix:/tmp/d.sock --from debian.qcow2
  drivebay serve sm951-nvme-256 --nvme-tcp 127.0.0.1:4420
  sudo drivebay serve sm951-nvme-256 --ublk
  drivebay serve sm951-ahci-512 --nbd unix:/tmp/a.sock --power-cut at-random=5
  drivebay serve db=sm951-nvme-256 log=xp941-512 --nbd unix:/tmp/d.sock
  drivebay serve sm951-nvme-256 --nvme-tcp :4420 --namespace 64G
  drivebay serve --config serve.toml
  fio --name=r --ioengine=nbd --rw=randread --size=1g \\
      --uri='nbd+unix:///?socket=/tmp/d.sock'
  kill -USR1 PID            prints the figures so far; Ctrl-C ends

\b
Several drives are NBD exports of their names (nbd+unix:///db?socket=...) and
NVMe subsystems, each with a thread and a clock of its own.

\b
The control socket takes a line, drives, status, events, power-cut, power-on,
ambient CELSIUS, fault JSON, no-faults, resize [NSID] BYTES, snapshot NAME,
restore NAME, forget NAME or clone NAME FOLDER, with "drive NAME" before it
where there are several, and answers with a line of JSON; follow, with one for
each event:
  echo status | nc -UN /tmp/drive.control
What is promised, and what the figures mean: docs/concepts/serving.md,
docs/concepts/nvme-over-tcp.md.""",
)
def serve(
    drives: Annotated[
        list[str] | None,
        argument(
            "[NAME=]DRIVE...",
            f"{options.CATALOG_NAME}; several are served side by side, each under its NAME.",
            autocompletion=complete.drives,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        option(
            "FILE",
            "Serve the drives of this file, TOML: a table [drive.NAME] for each, with profile and "
            "other options of its own, data and state among them. Options given here hold where "
            "the file has none.",
        ),
    ] = None,
    nbd: Annotated[
        list[str] | None,
        option(
            "ADDRESS",
            "Serve NBD: unix:PATH or HOST:PORT; repeatable. Default HOST: 127.0.0.1. No client is "
            "asked for a password.",
            panel=ADDRESSES,
        ),
    ] = None,
    nvme_tcp: Annotated[
        list[str] | None,
        option(
            "HOST:PORT",
            "Serve NVMe/TCP; repeatable. It has no password: stay on 127.0.0.1.",
            panel=ADDRESSES,
        ),
    ] = None,
    vfio_user: Annotated[
        Path | None,
        option(
            "PATH",
            "Serve a PCIe drive, NVMe or AHCI as its profile says, to QEMU's vfio-user-pci "
            "on this socket.",
            panel=ADDRESSES,
        ),
    ] = None,
    ublk: Annotated[
        bool,
        flag(
            "--ublk",
            "Serve block devices of this machine, /dev/ublkb0 and so on, one for each namespace. "
            "For root, with Linux 6.5 or later and its module ublk_drv.",
            panel=ADDRESSES,
        ),
    ] = False,
    control: Annotated[
        str | None,
        option("unix:PATH", "Accept commands on this socket.", panel=ADDRESSES),
    ] = None,
    metrics: Annotated[
        str | None,
        option(
            "HOST:PORT",
            "Answer GET /metrics with the figures, for Prometheus. Default HOST: 127.0.0.1.",
            panel=ADDRESSES,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        option(
            "PEM",
            "Require TLS of NBD clients, with this certificate chain; they need none of their own.",
            panel=ADDRESSES,
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        option("PEM", "The certificate's private key.", panel=ADDRESSES),
    ] = None,
    data: Annotated[
        Path | None,
        option(
            "FILE",
            "Keep the data in this sparse file, made if it does not exist. "
            "[default: in memory, lost at the end]",
        ),
    ] = None,
    foreign_data: Annotated[
        bool,
        flag(
            "--foreign-data",
            "Serve a --data file although it holds data that no served drive has written: hosts "
            "will write to it. --from begins with a copy instead.",
        ),
    ] = False,
    host_durability: Annotated[
        Literal["flush", "none"] | None,
        option(
            None,
            "With --data: what a flush makes of the file: fdatasync, so that it outlives a crash "
            "of this host; or nothing, which is faster. [default: flush]",
        ),
    ] = None,
    image: Annotated[
        Path | None,
        option(
            "IMAGE",
            "Begin with what this image holds, raw or a format of qemu-img's, written before the "
            "first host comes. It is never written to: data in memory lies over it, a new --data "
            "file is a copy; one that is there stays as it is.",
            "--from",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        option(
            "FILE",
            "The drive's map, wear and temperature: read at the start if the file exists, "
            "written at an orderly end.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        option(
            "SIZE",
            "Most memory for data, snapshots and the buffers of connections, 4GiB, 256MiB at "
            "least. [default: half of what is free]",
        ),
    ] = None,
    pace: Annotated[
        Literal["sleep", "hybrid", "spin", "none"],
        option(
            None,
            "How completion times are met: sleep; sleep, then busy-wait for the last 60 us; "
            "busy-wait; or answer at once, without the drive's timing.",
            show_default=True,
        ),
    ] = "hybrid",
    precondition: Annotated[
        Literal["new", "filled", "steady"],
        option(
            None,
            "What was done to the drive before: nothing; all of it written once, and rest; or "
            "written twice, then random writes of its size. Seconds; steady takes a minute. A "
            "--state that is there stays as it is.",
            show_default=True,
        ),
    ] = "new",
    capacity: Annotated[
        str | None,
        option(
            "SIZE",
            "Scale the drive down to the smallest with at least this capacity, 10G: as many dies, "
            "smaller blocks. Filling it takes less time; its title says so.",
        ),
    ] = None,
    time_scale: Annotated[
        str,
        option(
            "RATIO",
            "Seconds of the drive's clock in a second of the host's, 1/10000 to 100: 1/20 for a "
            "host too slow for the drive, 10 for an hour's heat in six minutes.",
            show_default=True,
        ),
    ] = "1",
    require_pace: Annotated[
        float | None,
        option(
            "PERCENT",
            "Exit with 1 if the host kept up by less: the model's latencies over those with what "
            "the host added.",
        ),
    ] = None,
    read_only: Annotated[
        bool, flag("--read-only", "Refuse all that changes data, and say so to hosts.")
    ] = False,
    namespace: Annotated[
        list[str] | None,
        option(
            "SIZE[@START][,read-only]",
            "A part of the drive as a namespace, and an NBD export, of its own: behind the one "
            "before it, or from START on; repeatable. [default: one of the drive's size]",
        ),
    ] = None,
    changes: options.Set = None,
    policy: options.Policy = None,
    host: options.Host = None,
    seed: options.Seed = 1,
    as_json: options.Json = False,
    serial: Annotated[
        str | None,
        option(
            "TEXT",
            "Serial number. [default: as beside --state, or random]",
            panel=IDENTITY,
        ),
    ] = None,
    nqn: Annotated[
        str | None,
        option(
            "NQN", "Name of the NVMe subsystem. [default: by the serial number]", panel=IDENTITY
        ),
    ] = None,
    eui64: Annotated[
        str | None,
        option("HEX", "EUI-64 of the namespace. [default: by the serial number]", panel=IDENTITY),
    ] = None,
    power_cut: Annotated[
        str | None,
        option(
            "WHEN",
            "Cut the power: after=SECONDS, ios=N, at-random or at-random=MEAN_SECONDS.",
            panel=FAULTS,
        ),
    ] = None,
    after_cut: Annotated[
        str | None,
        option(
            "WHAT",
            "After a power cut hosts may connect at once (return), after hold=SECONDS, or when "
            "the control socket is told power-on (refuse). [default: return]",
            panel=FAULTS,
        ),
    ] = None,
    loss: Annotated[
        Literal["all", "random", "unflushed"],
        option(
            None,
            "What a power cut loses: all data not yet programmed; a random part of it, torn "
            "at sectors; or all that no flush covers, up to the write buffer's size.",
            panel=FAULTS,
            show_default=True,
        ),
    ] = "all",
    faults: Annotated[
        Path | None,
        option("FILE", "Script of faults, TOML with [[fault]].", panel=FAULTS),
    ] = None,
) -> None:
    """Serve virtual drives over NBD, NVMe/TCP, PCIe or as block devices of this machine.

    A drive completes each command at the time that the model gives; its data is real. At the
    end, or on SIGUSR1, the server prints how late its completions were.
    """
    from drivebay import serving
    from drivebay.serving.config import Config, read
    from drivebay.serving.metrics import Endpoint, prometheus
    from drivebay.serving.notify import notify

    # Of each drive, where the file does not say otherwise.
    common = {
        "read_only": read_only,
        "namespace": namespace,
        "vfio_user": vfio_user,
        "ublk": ublk,
        "data": data,
        "foreign_data": foreign_data,
        "host_durability": host_durability,
        "from": image,
        "capacity": capacity,
        "state": state,
        "precondition": precondition,
        "pace": pace,
        "time_scale": time_scale,
        "power_cut": power_cut,
        "after_cut": after_cut,
        "loss": loss,
        "faults": faults,
        "serial": serial,
        "nqn": nqn,
        "eui64": eui64,
        "set": with_policy(policy, changes),
        "host": host,
    }
    file = Config({}, {}) if config is None else read(config)
    shared: dict[str, Any] = {
        "nbd": nbd,
        "nvme_tcp": nvme_tcp,
        "control": control,
        "metrics": metrics,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "memory": memory,
    }
    shared = {key: file.server.get(key) if one is None else one for key, one in shared.items()}
    named = {**_named(drives or ()), **file.drives}
    if not named:
        raise UserError("serve: no drive to be served", "drivebay drives lists them")
    given = [
        {**common, "name": name, "seed": seed + number, **own}
        for number, (name, own) in enumerate(named.items())
    ]
    _check_addresses(given, shared)
    for one in given:
        _check(one, shared)
    if require_pace is not None:
        if not 0 < require_pace <= 100:
            raise UserError(f"--require-pace {require_pace:g} is no percentage", "from 1 to 100")
        if any(one["pace"] == "none" for one in given):
            raise UserError(
                "--require-pace has no meaning with --pace none, which keeps no pace",
                "leave one of them out",
            )
    endpoint = None if shared["metrics"] is None else Endpoint(shared["metrics"])
    size = shared["memory"]
    with contextlib.ExitStack() as inside:
        inside.enter_context(signals.heard(_interrupt))
        server = serving.Server(
            [_drive(one) for one in given],
            serving.Options(
                nbd=tuple(shared["nbd"] or ()),
                nvme_tcp=tuple(shared["nvme_tcp"] or ()),
                control=shared["control"],
                tls=(shared["tls_cert"], shared["tls_key"]) if shared["tls_cert"] else None,
                memory_max_bytes=None
                if size is None
                else units.parse_bytes(size, option="--memory"),
            ),
        )

        from drivebay.targets.safety import marks

        def note(*, ended: bool) -> None:
            for one in given:
                if one["data"] is not None and not one["read_only"]:
                    marks.note_served(str(one["data"]), ended=ended)

        note(ended=False)

        def stop() -> None:
            notify("STOPPING=1")
            server.stop()

        def figures() -> str:
            return prometheus(json.loads(report.json()) for report in server.status())

        inside.enter_context(signals.heard(stop))  # before anybody is told that it serves
        inside.enter_context(_shown_on_usr1(server))
        for address in server.addresses:
            is_named = address.startswith(("nvme-tcp:", "vfio-user:", "ublk:"))
            say(address if is_named else f"nbd     {address}")
        if shared["control"] is not None:
            say(f"control {shared['control']}")
        if endpoint is not None:
            say(f"metrics {endpoint.url}")
        _warn_of_strangers(server.addresses, () if endpoint is None else (endpoint.address,))
        say("Ctrl-C ends; kill -USR1 shows the figures so far")
        if endpoint is not None:
            inside.enter_context(endpoint.answering(figures))
        notify("READY=1")
        reports = server.run()
        note(ended=True)
    if as_json:
        for report in reports:
            print(report.json())
    else:
        served.print_figures(reports)
    if require_pace is not None:
        for report in reports:
            _require(report.lateness.kept_up_percent, require_pace)


def _warn_of_strangers(drives: Sequence[str], metrics: Sequence[str]) -> None:
    """A line on what other machines can do, if they reach any of the addresses."""
    from drivebay.serving import beyond_loopback

    found = []
    if open_drives := beyond_loopback(drives):
        found.append(
            f"whoever reaches {', '.join(open_drives)} reads and writes the drives: no password "
            "and no certificate is asked for"
        )
    if open_metrics := beyond_loopback(metrics):
        found.append(f"whoever reaches {open_metrics[0]} reads the figures")
    if found:
        say(f"warning: {'; '.join(found)}; 127.0.0.1 in its place is for this machine alone")


def _interrupt() -> NoReturn:
    """Until it serves every signal is as Ctrl-C: what is half made goes."""
    raise KeyboardInterrupt


def _named(drives: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The drives of the command line by their names."""
    found: dict[str, Mapping[str, Any]] = {}
    for text in drives:
        name, given, profile = text.rpartition("=")
        if not given:
            # A second one of a profile has a number.
            first = Path(profile).stem
            others = sum(one in found for one in (first, *(f"{first}-{n}" for n in range(2, 99))))
            name = f"{first}-{others + 1}" if others else first
        if name in found:
            raise UserError(f"two drives are called {name}", "name them: NAME=DRIVE")
        found[name] = {"profile": profile}
    return found


def _check_addresses(given: Sequence[Mapping[str, Any]], shared: Mapping[str, Any]) -> None:
    """Raises if hosts cannot reach every drive, or two drives would share what they cannot."""
    names = " ".join(one["profile"] for one in given)
    if not shared["nbd"] and not shared["nvme_tcp"]:
        for one in given:
            if one["vfio_user"] is None and not one["ublk"]:
                raise UserError(
                    "serve: no address to listen on",
                    f"drivebay serve {names} --nbd unix:/tmp/drive.sock",
                )
    for key in OF_ONE:
        values = [one[key] for one in given if one[key] is not None]
        if len(values) > len(set(values)):
            raise UserError(
                f"--{key.replace('_', '-')} {values[0]} is for one drive, not for {len(given)}",
                "give each its own in a file: --config serve.toml",
            )
    _refuse_shared_files(given)
    if (shared["tls_cert"] is None) != (shared["tls_key"] is None):
        raise UserError("--tls-cert and --tls-key belong together", "give both, or none")


def _check(given: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
    """Raises if options of a drive do not go together."""
    if not NAME.fullmatch(given["name"]):
        raise UserError(
            f"{given['name']} is no name of a drive",
            "letters, digits, '.', '_' and '-', at most 64: NAME=DRIVE",
        )
    if given["pace"] == "none" and given["time_scale"] != "1":
        raise UserError(
            "--time-scale has no meaning with --pace none, which has no clock",
            "leave one of them out",
        )
    if given["data"] is None and given["host_durability"] is not None:
        raise UserError(
            "--host-durability has no meaning without --data", "add --data FILE, or leave it out"
        )
    for key in ("data", "from"):
        if given[key] is not None:
            _refuse_used(f"--{key}", given[key])


def _refuse_shared_files(given: Sequence[Mapping[str, Any]]) -> None:
    """Raises if a file that a drive writes is also another's data or state, or its beginning."""
    written: dict[object, str] = {}
    for key in ("data", "state", "from"):
        for one in given:
            path = one[key]
            if path is None:
                continue
            where = _identity_of(path)
            if where in written:
                raise UserError(
                    f"--{key}: {path} is the file of --{written[where]}, which is written to",
                    f"name a new file: --{written[where]} another.img",
                )
            if key != "from":
                written[where] = key


def _identity_of(path: Path) -> object:
    """What two names of one file have in common, whether it is there or not."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def _drive(given: Mapping[str, Any]) -> serving.Drive:
    """The drive that options ask for; says what it is."""
    from drivebay import serving
    from drivebay.definitions.scaling import with_capacity

    own = dict(given)
    profile = modified_profile(own.pop("profile"), in_host(own.pop("host"), own.pop("set")))
    if (capacity := own.pop("capacity")) is not None:
        profile = with_capacity(profile, units.parse_bytes(capacity, option="--capacity"))
    own["namespaces"] = tuple(map(serving.Namespace.parse, own.pop("namespace") or ()))
    foreign_data = own.pop("foreign_data")
    own["host_durability"] = own["host_durability"] or "flush"
    drive = serving.Drive(profile=profile, image=own.pop("from"), **own)
    if drive.data is not None and not drive.read_only and not foreign_data:
        _refuse_foreign(drive.data)
    say(f"drive   {drive.name}: {profile.title}, {units.si_bytes(profile.capacity_bytes)}")
    say(f"host    {profile.raw['host']['title']}, whose costs its times include")
    where = str(drive.data or "in memory; lost at the end")
    if drive.image is not None and drive.has_data:
        where += f" stays as it is: --from {drive.image} is for new data"
    elif drive.image is not None:
        where += f", begins as {drive.image}"
    say(f"data    {where}")
    if drive.has_state and drive.precondition != "new":
        say(
            f"state   {drive.state} stays as it is: --precondition {drive.precondition} is for a "
            "new one"
        )
    return drive


def _require(kept_up_percent: float | None, required: float) -> None:
    """Raises unless the host kept up; what nobody knows it did not."""
    hint = "a quieter machine, --pace spin, or a slower drive: --time-scale 1/10"
    if kept_up_percent is None:
        raise DrivebayError(
            f"no command completed: nothing shows that the host kept up by {required:g} %",
            "connect a client before the end",
            EXIT_CHECK_FAILED,
        )
    if kept_up_percent < required:
        raise DrivebayError(
            f"the host kept up by {kept_up_percent:.1f} %, less than {required:g} %",
            hint,
            EXIT_CHECK_FAILED,
        )


def _refuse_foreign(path: Path) -> None:
    """Raises if the file holds what no served drive has written, unless YES is typed: hosts would
    write to it. One that is not there or cannot be read is told of by the core."""
    from drivebay.targets.safety import contents, marks

    if not path.is_file() or marks.is_served(str(path)):
        return
    with contextlib.suppress(OSError), path.open("rb") as file:
        blank = contents.is_blank(file.fileno())
        what = f"what {path} holds, as hosts will"
        if not blank and not typed_yes(True, what, yes=False, option="--foreign-data"):
            raise UserError(
                f"--data: {path} holds data that no served drive has written, and hosts would "
                "write to it",
                "serve a copy: --from FILE; or this file: --foreign-data (also if it is a copy of "
                "served data); or it unchanged: --read-only",
            )


def _refuse_used(option: str, path: Path) -> None:
    """Raises if another program writes to the file or device, or the kernel uses it; that it is
    served already is told by the core, whose lock it has, and that a device is mounted, too."""
    from drivebay.targets.safety import protections

    if not (path.is_file() or path.is_block_device()):
        return

    def refuse(reasons: Sequence[str]) -> None:
        if reasons:
            raise UserError(
                f"{option}: {path} cannot be served: it {'; it '.join(reasons)}",
                "stop what uses it, or name a new file",
            )

    refuse(tuple(protections.leased(protections.Examined(str(path), path.stat()))))
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        refuse(protections.file_users(str(path.resolve())))


@contextlib.contextmanager
def _shown_on_usr1(server: serving.Server) -> Iterator[None]:
    """Inside, SIGUSR1 prints the figures so far to stderr."""

    def tell(_number: int, _frame: FrameType | None) -> None:
        for report in server.status():
            say(report.json())

    before = signal.signal(signal.SIGUSR1, tell)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
