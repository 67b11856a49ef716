"""The verb `drivebay serve` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from drivebay.cli import complete

EPILOG = """\b
Examples:
  drivebay serve sm951-ahci-512 --nbd unix:/tmp/drive.sock
  drivebay serve sm951-ahci-512 --nbd 127.0.0.1:10809 --data drive.img
  drivebay serve sm951-nvme-256 --nvme-tcp 127.0.0.1:4420
  drivebay serve sm951-ahci-512 --nbd unix:/tmp/drive.sock --power-cut at-random=5
  fio --name=r --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/drive.sock' --rw=randread --size=1g
  kill -USR1 PID            prints the figures so far; Ctrl-C ends

\b
The control socket takes a line, status, power-cut, ambient CELSIUS, fault JSON or no-faults, and
answers with a line of JSON: echo status | nc -UN /tmp/drive.control
What is promised, and what the figures mean: docs/concepts/serving.md,
docs/concepts/nvme-over-tcp.md."""


def serve(
    drive: Annotated[
        str,
        typer.Argument(
            metavar="DRIVE",
            show_default=False,
            autocompletion=complete.drives,
            help="A catalog name, or a profile's path ending in .toml.",
        ),
    ],
    nbd: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            show_default=False,
            help="Serve NBD here: unix:PATH or HOST:PORT; repeatable. Without HOST, 127.0.0.1.",
        ),
    ] = None,
    nvme_tcp: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            show_default=False,
            help="Serve NVMe over TCP here; repeatable. It has no password: stay on 127.0.0.1.",
        ),
    ] = None,
    vfio_user: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            show_default=False,
            help="Be a PCIe drive, NVMe or AHCI as its profile says, for QEMU's vfio-user-pci, "
            "which connects to this socket.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Keep the data in this sparse file, made if it does not exist. "
            "[default: in memory, gone at the end]",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="The drive's map, wear and temperature: read at the start if the file is there, "
            "written at an orderly end.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            show_default=False,
            help="Without --data: most memory for the data, 4GiB. [default: half of what is free]",
        ),
    ] = None,
    pace: Annotated[
        Literal["sleep", "hybrid", "spin", "none"],
        typer.Option(
            help="How the drive's times are met: sleep until then; sleep, then wait awake for the "
            "last 60 us; never sleep; or answer at once, without the drive's timing."
        ),
    ] = "hybrid",
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="CHANGE",
            show_default=False,
            help="Change the drive, as in: drivebay review --help; repeatable.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of the drive, of random cuts, losses and faults.")
    ] = 1,
    power_cut: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            show_default=False,
            help="Pull the plug: after=SECONDS, ios=N, at-random or at-random=MEAN_SECONDS.",
        ),
    ] = None,
    loss: Annotated[
        Literal["all", "random", "unflushed"],
        typer.Option(
            help="What a power cut takes: all that the drive had not programmed; a random part of "
            "it, torn at sectors; or all that no flush covers, up to the write buffer's size."
        ),
    ] = "all",
    faults: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="A script of faults, TOML with [[fault]]."
        ),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="unix:PATH", show_default=False, help="Take commands on this socket."),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            metavar="PEM", show_default=False, help="Require TLS, with this certificate chain."
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(metavar="PEM", show_default=False, help="The certificate's private key."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as JSON at the end.")
    ] = False,
) -> int:
    """Attach a virtual drive to real software, in real time.

    The drive answers as the model says, paced by the clock; its data is real. At the end, or on
    SIGUSR1, the server tells how late it was itself.
    """
    from drivebay import serving
    from drivebay.cli import serve_show
    from drivebay.common.errors import UserError
    from drivebay.definitions import profiles as catalog
    from drivebay.definitions.modifications import changed

    if not nbd and not nvme_tcp and vfio_user is None:
        raise UserError(
            "serve: no address to listen on", f"drivebay serve {drive} --nbd unix:/tmp/drive.sock"
        )
    if (tls_cert is None) != (tls_key is None):
        raise UserError("--tls-cert and --tls-key belong together", "give both, or none")
    if data is not None and memory is not None:
        raise UserError("--memory has no meaning with --data", "leave one of them out")
    options = serving.Options(
        nbd=tuple(nbd or ()),
        nvme_tcp=tuple(nvme_tcp or ()),
        vfio_user=vfio_user,
        data=data,
        state=state,
        memory_max_bytes=None if memory is None else serve_show.size_bytes(memory),
        pace=pace,
        tls=None if tls_cert is None or tls_key is None else (tls_cert, tls_key),
        control=control,
        power_cut=power_cut,
        loss=loss,
        faults=faults,
    )
    profile = changed(catalog.load(drive), what_if or ())
    return serve_show.serve(profile, options, seed=seed, as_json=as_json)
