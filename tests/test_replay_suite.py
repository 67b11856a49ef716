"""A suite's trace on a real file: the same figures, by the same names, as on a virtual drive."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from fakes import made_test
from real_files import GIB, file, keep_the_disk_free

from drivebay.analysis.storage_bench import DEPTHS, storage_bench
from drivebay.common.errors import Cancelled, UserError
from drivebay.definitions.suites import Phase, Replay, Test
from drivebay.results.records import HISTOGRAM_SCHEMA, SERIES_SCHEMA, PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.fio.target import FioTarget

__all__ = ["file", "keep_the_disk_free"]


def trace_test(**changes: Any) -> Test:
    load = Replay(**{"trace": "light", "scale": 0.0005, "drive_s": 5.0, **changes})
    return made_test(Phase.model_validate({"label": "run", "replay": load}), kind="trace")


def run(path: Path, test: Test, progress: Progress | None = None) -> PhaseResult:
    target = FioTarget(path)
    try:
        target.check((test,))
        (result,) = target.run_test(test, seed=1, progress=progress or Progress())
        return result
    finally:
        target.close()


def test_a_trace_on_a_file_has_the_figures_of_the_storage_bench(file: Path) -> None:
    result = run(file, trace_test(mode="dependencies"))
    assert result.series.schema == SERIES_SCHEMA and result.histogram.schema == HISTOGRAM_SCHEMA
    ios = result.reads + result.writes
    assert result.reads > 100 and result.writes > 100
    assert sum(result.histogram["count"].to_pylist()) == ios
    assert sum(result.series["reads"].to_pylist()) == result.reads
    bench = storage_bench(
        ios=ios, moved_bytes=result.read_bytes + result.write_bytes, metrics=result.metrics
    )
    assert bench is not None and bench.little_holds
    assert sum(bench.depth_percent.values()) == pytest.approx(100.0)
    assert set(bench.depth_percent) == set(DEPTHS.values())
    assert bench.busy_s <= bench.wall_s
    kept = json.loads(result.artefacts["replay.json"])
    assert kept["direct"] and kept["failures"] == [] and kept["issued"] == ios
    assert "prepare.json" in result.artefacts
    assert file.stat().st_size == GIB


def test_it_can_be_cancelled(file: Path) -> None:
    progress = Progress()
    # The times of the whole trace, a hundred times slower: it cannot have ended by itself.
    slow = trace_test(time_percent=10_000, idle_ms_max=None)
    timer = threading.Timer(2.0, progress.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        run(file, slow, progress)
    timer.join()


def test_a_trace_that_is_not_there_is_refused_before_anything(file: Path) -> None:
    with pytest.raises(UserError, match="there is no trace 'none-such'"):
        run(file, trace_test(trace="none-such"))
    assert file.stat().st_blocks == 0


def test_a_damaged_trace_is_refused_with_its_place(file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("at_ns,op,offset_bytes,bytes,device,response_ns\n0,write,0,4096,0,1\n0,write\n")
    with pytest.raises(UserError, match=r"bad\.csv, line 3"):
        run(file, trace_test(trace=str(bad)))
    assert file.stat().st_blocks == 0
