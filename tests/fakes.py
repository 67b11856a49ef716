"""A target that is quick, needs nothing, and gives the same figures for the same test and seed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from drivebay import review
from drivebay.definitions.suites import Phase, Prepare, Stable, Suite, Test, Workload
from drivebay.results.records import HISTOGRAM_SCHEMA, SERIES_SCHEMA, STAGES_SCHEMA, PhaseResult
from drivebay.targets.base import Progress

SLICE_S = 0.005


class CtrlC(review.Silent):
    """Sends this process SIGINT, as Ctrl-C would, when the test of that number begins; the test
    goes on once the review has heard it, however long that takes."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._heard = threading.Event()

    def started(self, test_id: str) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGINT)
            self._heard.wait()

    def stopping(self) -> None:
        self._heard.set()


class FakeTarget:
    """Every second has a few thousand I/Os, drawn from the test's seed.

    `wall_s` is how long each test takes; `before` is called at the start of each test and may
    raise.
    """

    def __init__(
        self,
        *,
        kind: Literal["virtual", "file", "block"] = "virtual",
        wall_s: float = 0.0,
        capacity_bytes: int = 64 * 2**30,
        extra: dict[str, Any] | None = None,
        before: Callable[[Test], None] | None = None,
    ) -> None:
        self.kind = kind
        self.name = "fake-drive"
        self.checked: list[tuple[str, ...]] = []
        self.ran: list[str] = []
        self.expected: tuple[tuple[str, ...], int, int] | None = None
        self.closed = False
        self._wall_s = wall_s
        self._capacity_bytes = capacity_bytes
        self._extra = extra or {}
        self._before = before

    @property
    def capacity_bytes(self) -> int:
        return self._capacity_bytes

    def identity(self) -> dict[str, Any]:
        return {"serial": "FAKE0001", "profile": {"nand": {"dies": 64}}, **self._extra}

    def check(self, tests: tuple[Test, ...]) -> None:
        self.checked.append(tuple(test.id for test in tests))

    def estimate_s(self, test: Test) -> float:
        return test.drive_seconds() / 100

    @property
    def destroys(self) -> bool:
        return False

    @property
    def memory_bytes(self) -> int:
        return self._capacity_bytes // 400

    def expect(self, tests: tuple[Test, ...], *, seed: int, copies_max: int) -> None:
        self.expected = (tuple(test.id for test in tests), seed, copies_max)

    def recorded_in(self, folder: Path) -> None:
        self.recorded = folder

    def claim(self, test: Test) -> bool:
        return True

    def run_test(self, test: Test, *, seed: int, progress: Progress) -> list[PhaseResult]:
        self.ran.append(test.id)
        if self._before is not None:
            self._before(test)
        end = time.monotonic() + self._wall_s
        planned = test.drive_seconds()
        while (left := end - time.monotonic()) > 0:
            progress.check()
            done = planned * (1 - left / self._wall_s)
            progress.report("fake", done, planned, iops=5000.0, temperature_c=40.0)
            time.sleep(SLICE_S)
        progress.check()
        return [self._phase(phase, seed) for phase in test.phases]

    def close(self) -> None:
        self.closed = True

    def _phase(self, phase: Phase, seed: int) -> PhaseResult:
        draw = random.Random(f"{seed}/{phase.label}")
        load = phase.workload
        seconds = range(int(load.duration_s))
        ios = [draw.randrange(1000, 9000) for _ in seconds]
        reads = [int(n * load.read_percent) // 100 for n in ios]
        writes = [n - r for n, r in zip(ios, reads, strict=True)]
        columns = {
            "second": list(seconds),
            "reads": reads,
            "writes": writes,
            "read_bytes": [n * load.block_bytes for n in reads],
            "write_bytes": [n * load.block_bytes for n in writes],
            "latency_ns_mean": [draw.uniform(8e4, 3e6) for _ in seconds],
            "latency_ns_max": [draw.randrange(3_000_000, 9_000_000) for _ in seconds],
            "temperature_c": [40.0 + draw.random() for _ in seconds],
            "power_w": [None for _ in seconds],
            "throttle_stage": [0 for _ in seconds],
        }
        low = 80_000 + draw.randrange(1000)
        bins = {
            "direction": ["read", "write"],
            "low_ns": [low, low],
            "high_ns": [low + 1000, low + 1000],
            "count": [sum(reads), sum(writes)],
        }
        stages = {"second": [0], "stage": ["die_wait"], "ns": [draw.randrange(10**9)]}
        virtual = self.kind == "virtual"
        return PhaseResult(
            label=phase.label,
            workload=load,
            duration_s=float(len(ios)),
            reads=sum(reads),
            writes=sum(writes),
            read_bytes=sum(reads) * load.block_bytes,
            write_bytes=sum(writes) * load.block_bytes,
            series=pa.table(columns, schema=SERIES_SCHEMA),
            histogram=pa.table(bins, schema=HISTOGRAM_SCHEMA),
            stages=pa.table(stages, schema=STAGES_SCHEMA) if virtual else None,
            metrics={"waf": draw.uniform(1, 8)} if virtual else {},
            artefacts={} if virtual else _artefacts(phase),
        )


def _artefacts(phase: Phase) -> dict[str, bytes]:
    """One file of the phase's own, one that all phases share, one that only is named alike."""
    return {
        f"{phase.label}.fio": b"[job]\n",
        "version.txt": b"fake-1\n",
        "output.txt": phase.label.encode(),
    }


def workload(**changes: Any) -> Workload:
    """4 KiB random reads at QD1 for 5 s, but for what is given."""
    plain: dict[str, Any] = {
        "pattern": "random",
        "read_percent": 100,
        "block_bytes": 4096,
        "queue_depth": 1,
        "duration_s": 5,
    }
    return Workload(**{**plain, **changes})


def made_test(*phases: Phase, **given: Any) -> Test:
    """A test of a suite: of kind "loads", but for what is given."""
    name = given.get("id", "made")
    plain = {"id": name, "title": name, "page": "random", "kind": "loads"}
    said = {"method": "of this test", "source": "this test"}
    return Test(**{**plain, **said, "phases": phases, **given})


def small_suite() -> Suite:
    """One test of each kind, and a second ladder; seconds of drive time."""
    fill = (Prepare(kind="purge"), Prepare(kind="fill"))
    ladder = tuple(
        Phase(label=f"qd{depth}", workload=workload(queue_depth=depth)) for depth in (1, 2, 4)
    )
    stable = Stable(window_s=5, within_percent=5, min_s=10)
    hot = workload(
        pattern="sequential",
        read_percent=0,
        block_bytes=131072,
        duration_s=30,
        until_stable=stable,
    )
    return Suite(
        name="small",
        title="Small suite",
        description="For tests of drivebay itself.",
        source="tests/fakes.py",
        tests=(
            made_test(
                Phase(label="run", workload=workload(read_percent=0, duration_s=40)),
                id="consistency-default",
                title="Consistency",
                page="performance-consistency",
                kind="consistency",
                prepare=fill,
                metric_window_s=10,
            ),
            *(
                made_test(
                    *ladder,
                    id=f"{name}-read",
                    title=f"{name.capitalize()} read",
                    page=name,
                    kind="ladder",
                    prepare=fill,
                    metric_queue_depths=(1, 2, 4),
                )
                for name in ("random", "sequential")
            ),
            made_test(
                Phase(label="run", workload=hot),
                id="thermal-write",
                title="Thermal",
                page="thermal",
                kind="thermal",
                prepare=fill,
            ),
        ),
    )
