"""Sweeps over real drives on many hosts: a worker announces the drives of its host; each is one
task there.

A drive is a Dask resource, "drive:SERIAL" or "drive:/path/of/a/file", of which its worker has one;
so its review runs on the drive's host, and never twice at a time. The review runs in a process of
its own (`review_process`), with the same target, safety rules and permission (the typed serial
number) as `drivebay review` on that host. A worker tests only drives that it announced.

The review's folder is written on the worker's host, so an interrupted review continues there; when
it is complete, it is copied to the sweep's store.

Leaves out: drives plugged in after the worker started; restart it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drivebay import results
from drivebay.analysis import review
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.lab.sweep import plan as plans
from drivebay.lab.sweep import work
from drivebay.lab.sweep.network import distributed
from drivebay.lab.sweep.plan import Plan
from drivebay.lab.sweep.spec import Fleet, FleetDrive
from drivebay.lab.sweep.store import Store
from drivebay.targets.safety import blockdev, marks

# Environment variable of a worker: the ids of the drives that it may test, as a JSON list.
ANNOUNCED = "DRIVEBAY_ANNOUNCED"
# Environment variable of a worker: the folder for running reviews; by default in the user's state
# folder, since another user could create a folder for temporary files first.
SCRATCH = "DRIVEBAY_SCRATCH"
LOOK_EVERY_S = 0.5
ASK_EVERY_S = 2.0


def resource(drive_id: str) -> str:
    """Name of the Dask resource for a drive.

    >>> resource("S1ABNYAF123456")
    'drive:S1ABNYAF123456'
    """
    return f"drive:{drive_id}"


def testable(files: Sequence[Path], only: Sequence[str] | None) -> list[str]:
    """Ids of the drives that this host offers: its block devices without mounts, holders or
    content, and the given files. `only`: serial numbers; None for all suitable devices.
    Raises UserError if a named drive does not exist or must not be tested, or a file does not
    exist.
    """
    devices = blockdev.list_devices() if only is None or only else []
    if only is None:
        ids = [device.serial for device in devices if not device.blockers and not device.signatures]
    else:
        ids = [_checked_free(serial, devices) for serial in only]
    for path in files:
        if not path.is_file():
            raise UserError(f"--file {path}: there is no such file", f"truncate -s 4G {path}")
        ids.append(str(path.absolute()))
    return ids


def _checked_free(serial: str, devices: Sequence[blockdev.Device]) -> str:
    """Serial number of a named drive, if it may be tested; overwriting its content needs an
    entry in the sweep's file.
    """
    for device in devices:
        if device.serial == serial:
            if device.blockers:
                raise UserError(
                    f"--drive {serial}: {device.path} {'; '.join(device.blockers)}",
                    "choose another drive; drivebay drives shows why each is refused",
                )
            return serial
    raise UserError(f"--drive {serial}: no such drive on this host", "see: drivebay drives")


def check_announced(fleet: Fleet, announced: Mapping[str, float]) -> None:
    """Raises if no worker announces one of the drives: its review would wait for ever."""
    ids = sorted(name.removeprefix("drive:") for name in announced if name.startswith("drive:"))
    for drive in fleet.drives:
        if drive.id not in ids:
            raise EnvironmentProblem(
                f"no worker announces the drive {drive.id}; announced are "
                f"{', '.join(ids) or 'none'}",
                "on its host: drivebay worker ADDRESS; drivebay drives shows there why a drive is "
                "refused",
            )
        if announced[resource(drive.id)] > 1:
            raise EnvironmentProblem(
                f"more than one worker announces the drive {drive.id}",
                "run one worker for each host; give files names that differ between hosts",
            )


def stop(client: Any, name: str) -> None:
    """Tells running reviews to end."""
    with contextlib.suppress(OSError, TimeoutError):
        distributed().Event(name, client=client).set()


def run(plan_json: str, url: str, index: int, *, stop_name: str) -> work.Outcome:
    """Reviews one drive of the fleet on this host."""

    def review_drive() -> None:
        begun = time.monotonic()
        plan = plans.from_json(plan_json)
        assert plan.spec.fleet is not None, "a fleet's task"
        drive = plan.spec.fleet.drives[index]
        folder = _reviewed(plan, drive, stop_name)
        store = Store(url)
        store.upload(folder, f"reviews/{_slug(drive.id)}", last="manifest.json")
        table = _table(plan, index, drive, folder, time.monotonic() - begun)
        store.write_part(index, plan.fingerprint, table)

    return work.answer(index, review_drive)


def _reviewed(plan: Plan, drive: FleetDrive, stop_name: str) -> Path:
    """Runs or continues the review in a process of its own; returns the result folder."""
    if drive.id not in json.loads(os.environ.get(ANNOUNCED, "[]")):
        raise UserError(
            f"this worker has not announced the drive {drive.id}", "start it with that drive"
        )
    base = Path(os.environ.get(SCRATCH) or marks.state_folder() / "fleet")
    folder = base / plan.fingerprint / _slug(drive.id)
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    request = {
        "path": drive.file or _path_of(str(drive.serial)),
        "destroy_data": drive.destroy_data,
        "overwrite_signature": drive.overwrite_signature,
        "suite": plan.whole_suite().model_dump(mode="json"),
        "quick": plan.spec.quick,
        "seed": plan.spec.seed_list[0],
        "folder": str(folder),
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "drivebay.lab.sweep.review_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
    asked = time.monotonic()
    try:
        while process.poll() is None:
            time.sleep(LOOK_EVERY_S)
            if time.monotonic() - asked > ASK_EVERY_S:
                asked = time.monotonic()
                if _stop_requested(stop_name):
                    process.stdin.close()
                    process.wait()
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()  # whatever happened here, the review ends in an orderly way
        process.wait()
    try:
        answer = json.loads(process.stdout.read())
    except ValueError:
        raise RuntimeError(
            f"the review ended without an answer, exit code {process.returncode}"
        ) from (None)
    if "error" in answer:
        raise UserError(answer["error"], answer["hint"])
    return folder


def _stop_requested(name: str) -> bool:
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        dask = distributed()
        return bool(dask.Event(name, client=dask.get_client()).is_set())
    return False


def _path_of(serial: str) -> str:
    """Present path of the drive; names change from boot to boot."""
    devices = blockdev.list_devices(look_inside=False)
    paths = [device.path for device in devices if device.serial == serial]
    if len(paths) != 1:
        raise UserError(
            f"{len(paths)} drives of this host have the serial number {serial}",
            "see: drivebay drives",
        )
    return paths[0]


def _table(plan: Plan, index: int, drive: FleetDrive, folder: Path, wall_s: float) -> Any:
    """Makes a row for each test of the review."""
    reviewed = review(results.load(folder))
    known = {"run": index, "drive": drive.id, "seed": plan.spec.seed_list[0]}
    rows = [({**known, "test": name}, measured) for name, measured in reviewed.tests.items()]
    return work.as_table(plan, rows, {"wall_s": wall_s, "cpu_s": None})


def _slug(drive_id: str) -> str:
    """Folder name for a drive.

    >>> _slug("/mnt/a/disk 1.img")
    'mnt-a-disk-1.img'
    """
    return re.sub(r"[^A-Za-z0-9._]+", "-", drive_id).strip("-.") or "drive"
