"""Files under test, through the real fio: what the tests of it share."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import made_test
from loops import sparse

from drivebay.common.errors import DrivebayError
from drivebay.definitions.suites import Phase, Prepare, Test, Workload
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.fio.target import FioTarget

MIB = 2**20
GIB = 2**30


def load(**changes: Any) -> Workload:
    """A short load on little, as a file of 100,000 extents takes half a minute to delete."""
    given = {"pattern": "random", "read_percent": 0, "block_bytes": 4096, "queue_depth": 4}
    return Workload.model_validate({**given, "duration_s": 0.4, "span_bytes": 16 * MIB, **changes})


def a_test(*phases: tuple[str, Workload], prepare: tuple[Prepare, ...] = ()) -> Test:
    return made_test(
        *(Phase(label=label, workload=work) for label, work in phases),
        kind="ladder",
        prepare=prepare,
        metric_queue_depths=(phases[0][1].queue_depth,),
    )


def results(
    path: Path, test: Test, *, seed: int = 1, destroy_data: str | None = None
) -> list[PhaseResult]:
    """The test's phases on this file, checked first, released after."""
    target = FioTarget(path, destroy_data=destroy_data)
    try:
        target.check((test,))
        return target.run_test(test, seed=seed, progress=Progress())
    finally:
        target.close()


def data_extents(path: Path) -> list[tuple[int, int]]:
    """Where the file has data, as (begin, end)."""
    found: list[tuple[int, int]] = []
    with path.open("rb") as file:
        os.fsync(file.fileno())
        at, size = 0, path.stat().st_size
        while at < size:
            try:
                begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            found.append((begin, at))
    return found


def fios_of(pid: int) -> list[int]:
    """Processes that run fio for a drivebay of this process number."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"DRIVEBAY_TARGET=/proc/{pid}/fd/".encode() in environment and state != "Z":
            found.append(int(process.name))
    return found


def lasting_fios_of(pid: int) -> set[int]:
    """Waits for a fio that runs a load; one that only checks a job ends at once."""
    while True:
        seen = set(fios_of(pid))
        time.sleep(1)
        if lasting := seen & set(fios_of(pid)):
            return lasting


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return sparse(tmp_path / "drive under test: 100%.img", GIB)


@pytest.fixture(autouse=True)
def keep_the_disk_free(tmp_path: Path) -> Iterator[None]:
    """pytest keeps the folders of several runs; gigabytes are not worth keeping."""
    yield
    for image in tmp_path.glob("*.img"):
        image.unlink()


def refusal(path: str | Path, test: Test | None = None) -> DrivebayError:
    with pytest.raises(DrivebayError) as caught:
        FioTarget(path).check((test or a_test(("run", load())),))
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value
