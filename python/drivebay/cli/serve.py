"""`drivebay serve`: serves virtual drives to real hosts, in real time."""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import json
import signal
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from drivebay import serving
from drivebay.cli import complete, options, served
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import say
from drivebay.cli.target import in_host, modified_profile, typed_yes, with_policy
from drivebay.common import files, signals, units
from drivebay.common.errors import EXIT_CHECK_FAILED, DrivebayError, EnvironmentProblem, UserError
from drivebay.serving.options import DATA, HEADINGS, PACE, Option, check, options_of

# Percent of the drive's rate below which `serve` says at its end who lost the rest.
_WARN_BELOW = 95.0


def _with_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Adds a parameter to the command for each option of a server and its drives; the command gets
    their values as keywords in `given`."""
    plain = inspect.signature(verb, eval_str=True)
    drives, *own = (each for each in plain.parameters.values() if each.kind is not each.VAR_KEYWORD)
    shared = [*options_of(serving.Options), *options_of(serving.Drive)]
    order = " ".join(HEADINGS.values()).split()
    shared.sort(key=lambda setting: order.index(setting.field))
    every = [drives, *map(_parameter, shared), *own]
    verb.__signature__ = plain.replace(parameters=every)  # type: ignore[attr-defined]
    return verb


def _parameter(setting: Option) -> inspect.Parameter:
    kind: Any = setting.kind
    default, name = setting.default, f"--{setting.name}"
    if kind is bool:
        declared = flag(name, setting.help, panel=setting.heading)
    else:
        is_shown = default not in (None, ())
        declared = option(
            setting.metavar, setting.help, name, panel=setting.heading, show_default=is_shown
        )
        kind = list[str] if kind is tuple else Literal[kind] if isinstance(kind, tuple) else kind
        kind, default = (kind, default) if is_shown else (kind | None, None)
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(
        setting.field, keyword, default=default, annotation=Annotated[kind, declared]
    )


@_with_options
def serve(
    drives: list[str] | None = argument(
        "[NAME=]DRIVE...",
        f"{options.CATALOG_NAME}. Several drives are served in parallel, each under its NAME.",
        autocompletion=complete.drives,
    ),
    foreign_data: bool = flag("--foreign-data", panel=DATA),
    capacity: str | None = option(panel=DATA),
    require_pace: float | None = option(panel=PACE),
    changes: options.Set = None,
    policy: options.Policy = None,
    host: options.Host = None,
    ailment: options.Ailment = None,
    config: Path | None = option(),
    seed: options.Seed = 1,
    as_json: options.Json = False,
    **given: Any,
) -> None:
    """Serve virtual drives over NBD, NVMe/TCP, PCIe or as block devices of this machine.

    A drive completes each command at the time that the model computes; its data is real. At the
    end, and on SIGUSR1, the server prints the lateness of its completions.

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

    Each of several drives is an NBD export with its name
    (nbd+unix:///db?socket=...) and an NVMe subsystem. Each has its own thread and
    clock.

    The control socket accepts one command per line: drives, status, now, events,
    follow, power-cut, power-on, ambient CELSIUS, ana-state PORTAL STATE, fault
    JSON, no-faults, resize [NSID] BYTES, snapshot NAME, restore NAME, forget NAME
    or clone NAME FOLDER.
    Prefix "drive NAME" selects one of several drives. The answer is one line of
    JSON (for follow one line per event):
      echo status | nc -UN /tmp/drive.control
    Guarantees: docs/concepts/serving.md, docs/concepts/nvme-over-tcp.md.
    Meaning of the figures: docs/concepts/serving-pace.md.

    Parameters
    ----------
    foreign_data :
        Serve a --data file even if it contains data that no served drive wrote. Hosts will write to
        it; --from serves a copy instead.
    capacity : SIZE
        Scale the drive down to at least this capacity (as close as possible), with the same number
        of dies and smaller blocks. It is filled in less time; its title names the scale.
    require_pace : PERCENT
        Exit with code 1 if the host kept up by less: the ratio of modelled to real latencies. Warn
        if a client that never pauses may have seen less.
    config : FILE
        TOML file with the drives to serve: a table [drive.NAME] per drive, with its profile and its
        options, for example data and state. The command line sets options that the file does not
        set.
    """
    from drivebay.serving.config import Config, read
    from drivebay.serving.notify import notify
    from drivebay.targets.safety.served import ServedFile

    file = Config({}, {}) if config is None else read(config)
    shared = serving.Options(**{**file.server, **_values(serving.Options, given)})
    # Options of each drive, unless the file sets them.
    defaults = {
        **_values(serving.Drive, given),
        "foreign_data": foreign_data,
        "capacity": capacity,
        "set": with_policy(policy, changes),
        "host": host,
        "ailment": ailment,
    }
    named = {**_named(drives or ()), **file.drives}
    if not named:
        raise UserError("serve: DRIVE is missing", "see: drivebay drives")
    requests = [
        {**defaults, "name": name, "seed": seed + number, **own}
        for number, (name, own) in enumerate(named.items())
    ]
    foreign_allowed = [request.pop("foreign_data") for request in requests]
    served_drives = [_drive(request) for request in requests]
    check(served_drives, shared)
    _check_pace(require_pace, served_drives)
    secrets = [
        secret for one in served_drives for secret in (one.dhchap_secret, one.dhchap_ctrl_secret)
    ]
    _warn_of_open_secrets(shared.tls_key, *secrets)
    with contextlib.ExitStack() as inside:
        written = []
        for drive, may_be_foreign in zip(served_drives, foreign_allowed, strict=True):
            for name, path in (("--data", drive.data), ("--from", drive.image)):
                if path is not None:
                    _refuse_used(name, path)
            if drive.data is not None and not drive.read_only:
                data = inside.enter_context(ServedFile(drive.data))
                written.append(data)
                if data.foreign and not may_be_foreign:
                    _ask_for_foreign(drive.data, data.foreign)
            _print_drive(drive)
        inside.enter_context(signals.heard(_interrupt))
        server = serving.Server(served_drives, shared)

        def stop() -> None:
            notify("STOPPING=1")
            server.stop()

        def show_figures() -> None:
            for report in server.status():
                say(json.dumps(report))

        for data in written:
            data.begin()
        inside.enter_context(signals.heard(stop))  # before clients learn that it serves
        inside.enter_context(signals.heard(show_figures, [signal.SIGUSR1]))
        is_locked = all(drive.dhchap_secret is not None for drive in served_drives)
        _print_addresses(server, shared.control, is_locked=is_locked)
        notify("READY=1")
        reports = server.run(tell=say)
        for data in written:
            data.end()
    if as_json:
        for report in reports:
            print(json.dumps(report))
    else:
        served.print_figures(reports)
    for report in reports:
        least = report["lateness"]["kept_up_least_percent"]
        if require_pace is not None:
            _require(report["lateness"], require_pace)
        elif least is not None and least < _WARN_BELOW:
            say(
                f"warning: a client without pauses had only {least:.1f} % of the drive's rate "
                f"(lost: {served.lost_rate(report['lateness'])}): --time-scale auto"
            )


def _values(table: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a table that have a value on the command line."""
    return {
        setting.field: setting.read(value) if setting.kind is tuple else value
        for setting in options_of(table)
        if (value := given[setting.field]) is not None
    }


def _check_pace(required: float | None, drives: Sequence[serving.Drive]) -> None:
    """Raises UserError if --require-pace does not fit."""
    if required is None:
        return
    if not 0 < required <= 100:
        raise UserError(f"--require-pace {required:g} is not a percentage", "from 1 to 100")
    if any(drive.pace == "none" for drive in drives):
        raise UserError(
            "--require-pace has no meaning with --pace none, which has no timing",
            "leave one of them out",
        )


def _print_addresses(server: serving.Server, control: str | None, *, is_locked: bool) -> None:
    """Prints the addresses, and a warning if other machines can reach any of them."""
    for address in server.addresses:
        is_named = address.startswith(("nvme-tcp:", "vfio-user:", "ublk:"))
        say(address if is_named else f"nbd     {address}")
    if control is not None:
        say(f"control {control}")
    if server.metrics is not None:
        say(f"metrics {server.metrics.url}")
    # Hosts over NVMe/TCP must know a secret, if every drive has one.
    strangers = [one for one in server.addresses if not (is_locked and one.startswith("nvme-tcp:"))]
    risks = []
    if open_drives := serving.beyond_loopback(strangers):
        risks.append(
            f"everybody who reaches {', '.join(open_drives)} can read and write the drives without "
            "a password or certificate"
        )
    if server.metrics is not None and serving.beyond_loopback([server.metrics.address]):
        risks.append(f"everybody who reaches {server.metrics.address} can read the figures")
    if risks:
        say(f"warning: {'; '.join(risks)}; use 127.0.0.1 for this machine only")
    say("Ctrl-C ends; kill -USR1 shows the figures so far")


def _warn_of_open_secrets(*paths: Path | None) -> None:
    """A line for each file with a secret that other users can read."""
    for path in dict.fromkeys(filter(None, paths)):
        with contextlib.suppress(OSError):
            mode = path.stat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
                say(f"warning: {path} holds a secret that other users can read: chmod 600 {path}")


def _interrupt() -> NoReturn:
    """Handles a signal like Ctrl-C before the server runs, so that partial files are removed."""
    raise KeyboardInterrupt


def _named(drives: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Drives of the command line by name."""
    named: dict[str, Mapping[str, Any]] = {}
    for text in drives:
        name, given, profile = text.rpartition("=")
        if not given:
            name = files.unique(Path(profile).stem, set(named))
        if name in named:
            raise UserError(f"two drives have the name {name}", "give them names: NAME=DRIVE")
        named[name] = {"profile": profile}
    return named


def _drive(given: Mapping[str, Any]) -> serving.Drive:
    """Drive that the options describe."""
    settings = dict(given)
    changes = in_host(settings.pop("host"), settings.pop("set"), settings.pop("ailment"))
    profile = modified_profile(settings.pop("profile"), changes, settings.pop("capacity"))
    return serving.Drive(profile=profile, **settings)


def _print_drive(drive: serving.Drive) -> None:
    """Prints a drive, and where its data is."""
    profile = drive.profile
    say(f"drive   {drive.name}: {profile.title}, {units.si_bytes(profile.capacity_bytes)}")
    say(f"host    {profile.raw['host']['title']}; its costs are part of the times")
    where = str(drive.data or "in memory; lost at the end")
    if drive.image is not None and drive.has_data:
        where += f" is kept: --from {drive.image} is only for new data"
    elif drive.image is not None:
        where += f", a copy of {drive.image}"
    say(f"data    {where}")
    if drive.has_state and drive.precondition != "new":
        say(
            f"state   {drive.state} is kept: --precondition {drive.precondition} is only for a "
            "new state"
        )


def _require(lateness: Mapping[str, Any], required: float) -> None:
    """Raises DrivebayError unless the host is known to have kept up. Warns if a client may have
    seen less: the server cannot measure the client's wake-ups and pauses."""
    hint = "use a less busy machine, --pace spin, or a slower drive: --time-scale auto"
    kept_up_percent, least = lateness["kept_up_percent"], lateness["kept_up_least_percent"]
    if kept_up_percent is None:
        raise DrivebayError(
            f"no command completed, so it is unknown whether the host kept up by {required:g} %",
            "connect a client before the end",
            EXIT_CHECK_FAILED,
        )
    if kept_up_percent < required:
        raise DrivebayError(
            f"the host kept up by {kept_up_percent:.1f} %, less than {required:g} %",
            hint,
            EXIT_CHECK_FAILED,
        )
    if least < required:
        say(
            f"warning: the host kept up by {kept_up_percent:.1f} %, but a client that never pauses "
            f"saw only {least:.1f} % of the drive's rate, less than {required:g} % "
            f"(lost: {served.lost_rate(lateness)}): {hint}"
        )


def _ask_for_foreign(path: Path, why: str) -> None:
    """Raises UserError unless YES is typed: hosts would write to a file with foreign data."""
    if not typed_yes(
        True, f"the data in {path}, as hosts will", yes=False, option="--foreign-data"
    ):
        raise UserError(
            f"--data: {path} {why}, and hosts would write to it",
            "serve a copy (--from FILE), or allow writes (--foreign-data, also for a copy of "
            "served data), or protect it (--read-only)",
        )


def _refuse_used(option: str, path: Path) -> None:
    """Raises if another program writes to the file or device, or the kernel uses it, or neither can
    be determined. The core reports that it is already served (by its lock) or mounted."""
    from drivebay.targets.safety import in_use, protections

    def refuse(reasons: Sequence[str]) -> None:
        if reasons:
            raise UserError(
                f"{option}: {path} cannot be served: it {'; it '.join(reasons)}",
                "stop the program that uses it, or use a new file",
            )

    try:
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISBLK(status.st_mode)):
            return
        refuse(tuple(protections.leased(protections.Examined(str(path), status))))
        with in_use.opened(path) as fd, contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            refuse(protections.file_users(str(path.resolve())))
    except FileNotFoundError:
        return
    except OSError as problem:
        raise EnvironmentProblem(
            f"{option}: {path} cannot be looked at: {problem.strerror}",
            "run as its owner, or as root",
        ) from None
