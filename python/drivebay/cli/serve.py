"""`drivebay serve`: a virtual drive for real hosts, in real time."""

from __future__ import annotations

import contextlib
import fcntl
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

from drivebay.cli import options, served
from drivebay.cli.options import option
from drivebay.cli.output import say
from drivebay.cli.target import in_host, modified_profile
from drivebay.common import signals, units
from drivebay.common.errors import EXIT_CHECK_FAILED, DrivebayError, UserError

if TYPE_CHECKING:
    from drivebay import serving

ADDRESSES, IDENTITY, FAULTS = "Addresses", "Identity", "Power cuts and faults"

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay serve sm951-ahci-512 --nbd unix:/tmp/d.sock --precondition filled
  drivebay serve sm951-ahci-512 --nbd 127.0.0.1:10809 --data drive.img
  drivebay serve sm951-nvme-256 --nvme-tcp 127.0.0.1:4420
  drivebay serve sm951-ahci-512 --nbd unix:/tmp/a.sock --power-cut at-random=5
  fio --name=r --ioengine=nbd --rw=randread --size=1g \\
      --uri='nbd+unix:///?socket=/tmp/d.sock'
  kill -USR1 PID            prints the figures so far; Ctrl-C ends

\b
The control socket takes a line, status, power-cut, power-on, ambient CELSIUS,
fault JSON, no-faults, snapshot NAME, restore NAME, forget NAME or clone NAME
FOLDER, and answers with a line of JSON:
  echo status | nc -UN /tmp/drive.control
What is promised, and what the figures mean: docs/concepts/serving.md,
docs/concepts/nvme-over-tcp.md.""",
)
def serve(
    drive: options.VirtualDrive,
    nbd: Annotated[
        list[str] | None,
        option(
            "ADDRESS",
            "Serve NBD: unix:PATH or HOST:PORT; repeatable. Default HOST: 127.0.0.1.",
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
    control: Annotated[
        str | None,
        option("unix:PATH", "Accept commands on this socket.", panel=ADDRESSES),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        option("PEM", "Require TLS, with this certificate chain.", panel=ADDRESSES),
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
    host_durability: Annotated[
        Literal["flush", "none"] | None,
        option(
            None,
            "With --data: what a flush makes of the file: fdatasync, so that it outlives a crash "
            "of this host; or nothing, which is faster. [default: flush]",
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
            "Without --data: most memory for the data, 4GiB. [default: half of what is free]",
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
            "written twice, then random writes of its size. Seconds; steady takes a minute.",
            show_default=True,
        ),
    ] = "new",
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
    changes: options.Set = None,
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
    """Serve a virtual drive over NBD, NVMe/TCP or PCIe.

    The drive completes each command at the time that the model gives; its data is real. At the
    end, or on SIGUSR1, the server prints how late its completions were.
    """
    from drivebay import serving

    if not nbd and not nvme_tcp and vfio_user is None:
        raise UserError(
            "serve: no address to listen on", f"drivebay serve {drive} --nbd unix:/tmp/drive.sock"
        )
    if (tls_cert is None) != (tls_key is None):
        raise UserError("--tls-cert and --tls-key belong together", "give both, or none")
    if pace == "none" and time_scale != "1":
        raise UserError(
            "--time-scale has no meaning with --pace none, which has no clock",
            "leave one of them out",
        )
    if require_pace is not None:
        if not 0 < require_pace <= 100:
            raise UserError(f"--require-pace {require_pace:g} is no percentage", "from 1 to 100")
        if pace == "none":
            raise UserError(
                "--require-pace has no meaning with --pace none, which keeps no pace",
                "leave one of them out",
            )
    if data is not None and memory is not None:
        raise UserError("--memory has no meaning with --data", "leave one of them out")
    if data is None and host_durability is not None:
        raise UserError(
            "--host-durability has no meaning without --data", "add --data FILE, or leave it out"
        )
    if data is not None and data.is_file():
        _refuse_used(data)
    given = serving.Options(
        nbd=tuple(nbd or ()),
        nvme_tcp=tuple(nvme_tcp or ()),
        vfio_user=vfio_user,
        data=data,
        host_durability=host_durability or "flush",
        state=state,
        memory_max_bytes=None if memory is None else units.parse_bytes(memory, option="--memory"),
        pace=pace,
        time_scale=time_scale,
        precondition=precondition,
        tls=None if tls_cert is None or tls_key is None else (tls_cert, tls_key),
        control=control,
        power_cut=power_cut,
        after_cut=after_cut,
        loss=loss,
        faults=faults,
        serial=serial,
        nqn=nqn,
        eui64=eui64,
    )
    profile = modified_profile(drive, in_host(host, changes))
    server = serving.Server(profile, given, seed=seed)
    say(f"drive   {profile.title}: {units.si_bytes(profile.capacity_bytes)}")
    say(f"host    {profile.raw['host']['title']}, whose costs its times include")
    say(f"data    {data or 'in memory; lost at the end'}")
    for address in server.addresses:
        is_nvme = address.startswith(("nvme-tcp:", "vfio-user:"))
        say(address if is_nvme else f"nbd     {address}")
    if control is not None:
        say(f"control {control}")
    say("Ctrl-C ends; kill -USR1 shows the figures so far")
    with signals.heard(server.stop), _shown_on_usr1(server):
        report = server.run()
    if as_json:
        print(report.json())
    else:
        served.print_figures(report)
    if require_pace is not None:
        _require(report.lateness.kept_up_percent, require_pace)


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


def _refuse_used(path: Path) -> None:
    """Raises if another program or the kernel uses the file; that it is served already is told by
    the core, whose lock it has."""
    from drivebay.targets.safety import protections

    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if reasons := protections.file_users(str(path.resolve())):
            raise UserError(
                f"--data: {path} cannot be served: it {'; it '.join(reasons)}",
                "stop what uses it, or name a new file",
            )


@contextlib.contextmanager
def _shown_on_usr1(server: serving.Server) -> Iterator[None]:
    """Inside, SIGUSR1 prints the figures so far to stderr."""

    def tell(_number: int, _frame: FrameType | None) -> None:
        if (report := server.status()) is not None:
            say(report.json())

    before = signal.signal(signal.SIGUSR1, tell)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
