"""`drivebay worker`: makes this machine a worker of sweeps on a cluster."""

from __future__ import annotations

from pathlib import Path

from drivebay.cli import options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import say
from drivebay.cli.target import warn_of_path
from drivebay.common.errors import UserError


def worker(
    address: str = argument(),
    jobs: int | None = option(min=0, max=1024),
    drive: list[str] | None = option(),
    file: list[Path] | None = option(),
    no_drives: bool = flag("--no-drives"),
    trust_network: options.TrustNetwork = False,
) -> None:
    """Run parts of sweeps on this machine, until Ctrl-C.

    Examples:
      drivebay worker tls://10.0.0.1:8786              all processors and drives
      drivebay worker tls://10.0.0.1:8786 --no-drives  only virtual drives
      drivebay worker tcp://127.0.0.1:8786 --jobs 0 --drive S1ABC --file disk.img

    Everybody who can connect to the scheduler or to this worker can run programs
    as the user of this worker (root, with real drives). On 127.0.0.1 that is
    every user of this machine; with TLS (Dask's settings), every holder of a
    certificate of its CA; with --trust-network, everybody on the network. This
    worker listens only on the address that faces the scheduler, and serves no
    HTTP. To set up TLS see docs/concepts/sweeps.md.
    A device is tested only if the sweep's file has its serial number and the
    device passes all safety checks.

    Parameters
    ----------
    address : ADDRESS
        Address of the Dask scheduler.
    jobs : N
        Virtual drives to run in parallel. [default: one per processor]
    drive : SERIAL
        Offer only this real drive. Repeatable. [default: all unused drives]
    file : PATH
        Offer this file as a drive. Repeatable.
    no_drives :
        Offer no block device.
    """
    from drivebay.lab.sweep import cluster, fleet
    from drivebay.lab.sweep import worker as workers

    drives = fleet.testable(file or [], [] if no_drives else drive)
    if drives:
        warn_of_path()
    number = cluster.default_jobs() if jobs is None else jobs
    if not number and not drives:
        raise UserError("this worker has nothing to offer", "use --jobs 1 or more, or --file PATH")
    workers.serve(address, trust_network=trust_network, jobs=number, drives=drives, say=say)
