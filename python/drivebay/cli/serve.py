"""`drivebay serve`: virtual drives for real hosts, in real time."""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import json
import signal
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, NoReturn

from drivebay import serving
from drivebay.cli import complete, options, served
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import say
from drivebay.cli.target import in_host, modified_profile, typed_yes, with_policy
from drivebay.common import signals, units
from drivebay.common.errors import EXIT_CHECK_FAILED, DrivebayError, UserError
from drivebay.serving.options import Option, check, options_of

app = options.Verb()


def _with_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with a parameter for each option of a server and its drives, which it gets as
    keywords in `given`."""
    plain = inspect.signature(verb, eval_str=True)
    parameters = [one for one in plain.parameters.values() if one.kind is not one.VAR_KEYWORD]
    made = [_parameter(one) for one in (*options_of(serving.Options), *options_of(serving.Drive))]
    # Behind the drives and --config, before what only the command line has.
    every = [*parameters[:2], *made, *parameters[2:]]
    verb.__signature__ = plain.replace(parameters=every)  # type: ignore[attr-defined]
    return verb


def _parameter(one: Option) -> inspect.Parameter:
    kind: Any = one.kind
    default, name = one.default, f"--{one.name}"
    if kind is bool:
        made = flag(name, one.help, panel=one.heading)
    else:
        is_shown = default not in (None, ())
        made = option(one.metavar, one.help, name, panel=one.heading, show_default=is_shown)
        kind = list[str] if kind is tuple else Literal[kind] if isinstance(kind, tuple) else kind
        kind, default = (kind, default) if is_shown else (kind | None, None)
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(one.field, keyword, default=default, annotation=Annotated[kind, made])


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
The control socket takes a line, drives, status, now, events, power-cut,
power-on, ambient CELSIUS, fault JSON, no-faults, resize [NSID] BYTES,
snapshot NAME, restore NAME, forget NAME or clone NAME FOLDER, with "drive
NAME" before it where there are several, and answers with a line of JSON;
follow, with one for each event:
  echo status | nc -UN /tmp/drive.control
What is promised, and what the figures mean: docs/concepts/serving.md,
docs/concepts/nvme-over-tcp.md."""
)
@_with_options
def serve(
    drives: list[str] | None = argument(
        "[NAME=]DRIVE...",
        f"{options.CATALOG_NAME}; several are served side by side, each under its NAME.",
        autocompletion=complete.drives,
    ),
    config: Path | None = option(
        "FILE",
        "Serve the drives of this file, TOML: a table [drive.NAME] for each, with profile and "
        "other options of its own, data and state among them. Options given here hold where "
        "the file has none.",
    ),
    foreign_data: bool = flag(
        "--foreign-data",
        "Serve a --data file although it holds data that no served drive has written: hosts "
        "will write to it. --from begins with a copy instead.",
    ),
    capacity: str | None = option(
        "SIZE",
        "Scale the drive down to the smallest with at least this capacity, 10G: as many dies, "
        "smaller blocks. Filling it takes less time; its title says so.",
    ),
    require_pace: float | None = option(
        "PERCENT",
        "Exit with 1 if the host kept up by less: the model's latencies over those that the "
        "answers had; warn if a client that never pauses may have seen less.",
    ),
    changes: options.Set = None,
    policy: options.Policy = None,
    host: options.Host = None,
    ailment: options.Ailment = None,
    seed: options.Seed = 1,
    as_json: options.Json = False,
    **given: Any,
) -> None:
    """Serve virtual drives over NBD, NVMe/TCP, PCIe or as block devices of this machine.

    A drive completes each command at the time that the model gives; its data is real. At the
    end, or on SIGUSR1, the server prints how late its completions were.
    """
    from drivebay.serving.config import Config, read
    from drivebay.serving.notify import notify
    from drivebay.targets.safety import marks

    file = Config({}, {}) if config is None else read(config)
    shared = serving.Options(**{**file.server, **_values(serving.Options, given)})
    # Of each drive, where the file does not say otherwise.
    common = {
        **_values(serving.Drive, given),
        "foreign_data": foreign_data,
        "capacity": capacity,
        "set": with_policy(policy, changes),
        "host": host,
        "ailment": ailment,
    }
    named = {**_named(drives or ()), **file.drives}
    if not named:
        raise UserError("serve: no drive to be served", "drivebay drives lists them")
    wanted = [
        {**common, "name": name, "seed": seed + number, **own}
        for number, (name, own) in enumerate(named.items())
    ]
    foreign = [one.pop("foreign_data") for one in wanted]
    made = [_drive(one) for one in wanted]
    check(made, shared)
    _check_pace(require_pace, made)
    _warn_of_open_secrets(
        shared.tls_key, *(x for one in made for x in (one.dhchap_secret, one.dhchap_ctrl_secret))
    )
    for drive, may_be_foreign in zip(made, foreign, strict=True):
        _refuse_files(drive, may_be_foreign)
        _tell(drive)
    with contextlib.ExitStack() as inside:
        inside.enter_context(signals.heard(_interrupt))
        server = serving.Server(made, shared)

        def note(*, ended: bool) -> None:
            for one in made:
                if one.data is not None and not one.read_only:
                    marks.note_served(str(one.data), ended=ended)

        def stop() -> None:
            notify("STOPPING=1")
            server.stop()

        note(ended=False)
        inside.enter_context(signals.heard(stop))  # before anybody is told that it serves
        inside.enter_context(_shown_on_usr1(server))
        is_locked = all(one.dhchap_secret is not None for one in made)
        _tell_addresses(server, shared.control, is_locked=is_locked)
        notify("READY=1")
        reports = server.run(tell=say)
        note(ended=True)
    if as_json:
        for report in reports:
            print(json.dumps(report))
    else:
        served.print_figures(reports)
    if require_pace is not None:
        for report in reports:
            _require(report["lateness"], require_pace)


def _values(table: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a table that the command line has values for."""
    found = {}
    for one in options_of(table):
        value = given[one.field]
        if one.kind is tuple and value is not None:
            value = one.read(value)
        if value is not None:
            found[one.field] = value
    return found


def _check_pace(required: float | None, drives: Sequence[serving.Drive]) -> None:
    """Raises if --require-pace has no meaning."""
    if required is None:
        return
    if not 0 < required <= 100:
        raise UserError(f"--require-pace {required:g} is no percentage", "from 1 to 100")
    if any(one.pace == "none" for one in drives):
        raise UserError(
            "--require-pace has no meaning with --pace none, which keeps no pace",
            "leave one of them out",
        )


def _tell_addresses(server: serving.Server, control: str | None, *, is_locked: bool) -> None:
    for address in server.addresses:
        is_named = address.startswith(("nvme-tcp:", "vfio-user:", "ublk:"))
        say(address if is_named else f"nbd     {address}")
    if control is not None:
        say(f"control {control}")
    if server.metrics is not None:
        say(f"metrics {server.metrics.url}")
    metrics = () if server.metrics is None else (server.metrics.address,)
    # Hosts over NVMe/TCP must know a secret, if every drive has one.
    strangers = [one for one in server.addresses if not (is_locked and one.startswith("nvme-tcp:"))]
    _warn_of_strangers(strangers, metrics)
    say("Ctrl-C ends; kill -USR1 shows the figures so far")


def _warn_of_strangers(drives: Sequence[str], metrics: Sequence[str]) -> None:
    """A line on what other machines can do, if they reach any of the addresses."""
    found = []
    if open_drives := serving.beyond_loopback(drives):
        found.append(
            f"whoever reaches {', '.join(open_drives)} reads and writes the drives: no password "
            "and no certificate is asked for"
        )
    if open_metrics := serving.beyond_loopback(metrics):
        found.append(f"whoever reaches {open_metrics[0]} reads the figures")
    if found:
        say(f"warning: {'; '.join(found)}; 127.0.0.1 in its place is for this machine alone")


def _warn_of_open_secrets(*paths: Path | None) -> None:
    """A line for each file with a secret that other users can read."""
    for path in dict.fromkeys(filter(None, paths)):
        with contextlib.suppress(OSError):
            mode = path.stat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
                say(f"warning: {path} holds a secret that other users can read: chmod 600 {path}")


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


def _drive(given: Mapping[str, Any]) -> serving.Drive:
    """The drive that options ask for."""
    from drivebay.definitions.scaling import with_capacity

    own = dict(given)
    changes = in_host(own.pop("host"), own.pop("set"), own.pop("ailment"))
    profile = modified_profile(own.pop("profile"), changes)
    if (capacity := own.pop("capacity")) is not None:
        profile = with_capacity(profile, units.parse_bytes(capacity, option="--capacity"))
    return serving.Drive(profile=profile, **own)


def _tell(drive: serving.Drive) -> None:
    """Says what a drive is, and where its data is."""
    profile = drive.profile
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


def _refuse_files(drive: serving.Drive, may_be_foreign: bool) -> None:
    """Raises if the drive's files are used by others, or its data is another's."""
    for name, path in (("--data", drive.data), ("--from", drive.image)):
        if path is not None:
            _refuse_used(name, path)
    if drive.data is not None and not drive.read_only and not may_be_foreign:
        _refuse_foreign(drive.data)


def _require(lateness: Mapping[str, Any], required: float) -> None:
    """Raises unless the host kept up; what nobody knows it did not. Warns where a client may have
    seen less: its own wake-ups are not the server's to measure, nor are its pauses."""
    hint = "a quieter machine, --pace spin, or a slower drive: --time-scale auto"
    kept_up_percent, least = lateness["kept_up_percent"], lateness["kept_up_least_percent"]
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
    if least < required:
        say(
            f"warning: the host kept up by {kept_up_percent:.1f} %, but a client that asks again "
            f"at once saw {least:.1f} % of the drive's rate, less than {required:g} %: {hint}"
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
            say(json.dumps(report))

    before = signal.signal(signal.SIGUSR1, tell)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
