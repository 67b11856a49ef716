"""Phases that run at the same time and rates that are shares of another's, on virtual drives and
through fio; figures of the kinds "qos" and "waf"; the suite `datacenter`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from fakes import made_test
from pydantic import ValidationError
from real_files import file, keep_the_disk_free, load, results

from drivebay.analysis.measure import measure
from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.definitions.scaling import scaled
from drivebay.definitions.suites import Phase, Prepare, Rounds, Test
from drivebay.report.base import text
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.virtual.target import VirtualTarget

__all__ = ["file", "keep_the_disk_free"]

WRITER: dict[str, Any] = {"queue_depth": 64, "duration_s": 2, "span_bytes": None}
READER: dict[str, Any] = {
    **WRITER,
    "read_percent": 100,
    "queue_depth": 8,
    "rate_iops": 1000,
    "rate_process": "poisson",
}


FULL = (Prepare(kind="purge"), Prepare(kind="fill"))


def tenants(
    writer: dict[str, Any] | None = None, prepare: tuple[Prepare, ...] = FULL, **reader: Any
) -> Test:
    """Writes alone on a full drive, then half as many beside reads at a fixed rate."""
    own = load(**{**WRITER, **(writer or {})})
    return made_test(
        Phase(label="alone", workload=own),
        Phase(label="writer", workload=own, rate_of="alone", rate_percent=50),
        Phase(label="reader", workload=load(**{**READER, **reader}), together=True),
        kind="qos",
        prepare=prepare,
    )


def on_virtual(test: Test) -> list[PhaseResult]:
    target = VirtualTarget(scaled(catalog.load("sm951-nvme-512"), 1 / 128))
    target.check((test,))
    return target.run_test(test, seed=1, progress=Progress())


def test_a_reader_and_a_writer_run_at_once_each_at_its_rate() -> None:
    alone, writer, reader = on_virtual(tenants())
    rate = {one.label: (one.reads + one.writes) / one.duration_s for one in (alone, writer, reader)}
    assert (writer.reads, reader.writes) == (0, 0)
    assert rate["writer"] == pytest.approx(rate["alone"] / 2, rel=0.02)
    assert rate["reader"] == pytest.approx(1000, rel=0.1)  # Poisson: 2,000 arrivals, 2 % deviation
    assert writer.workload.rate_iops == pytest.approx(rate["alone"] / 2)
    assert (writer.workload.rate_process, reader.duration_s) == ("poisson", writer.duration_s)


def test_a_mix_is_told_by_direction_and_jobs_may_have_several_queues() -> None:
    shape: dict[str, Any] = {"duration_s": 2, "span_bytes": None, "queue_depth": 16}
    test = made_test(
        Phase(label="many", workload=load(**shape, queues=3, rate_iops=6000.0)),
        Phase(
            label="mix",
            workload=load(**shape, read_percent=50, rate_iops=2000.0),
            together=True,
        ),
        kind="qos",
        prepare=FULL,
    )
    many, mix = results_of = on_virtual(test)
    assert many.writes / many.duration_s == pytest.approx(6000, rel=0.01)
    assert (mix.reads + mix.writes) / mix.duration_s == pytest.approx(2000, rel=0.01)
    found = measure(test, results_of)
    medians = {
        direction: found.figures[f"latency_p50_{direction}_mix"].value or 0
        for direction in ("read", "write")
    }
    # A write ends in the buffer, a read waits for a die.
    assert 0 < medians["write"] < medians["read"]
    mean = found.figures["latency_mean_mix"].value or 0
    means = [found.figures[f"latency_mean_{one}_mix"].value or 0 for one in ("read", "write")]
    assert np.average(means, weights=[mix.reads, mix.writes]) == pytest.approx(mean, rel=0.01)
    assert "latency_p50_write_many" not in found.figures, "it is no mix"


def test_the_reader_beside_writes_waits_longer_than_alone() -> None:
    beside = measure(tenants(), on_virtual(tenants()))
    lone = made_test(
        Phase(label="reader", workload=load(**READER)),
        kind="qos",
        prepare=FULL,
    )
    alone = measure(lone, on_virtual(lone))
    p99 = "latency_p99_reader"
    assert (beside.figures[p99].value or 0) > (alone.figures[p99].value or 0) > 0


def test_a_quality_of_service_is_told_by_percentiles_of_every_phase() -> None:
    measured = measure(tenants(), on_virtual(tenants()))
    assert measured.main == tuple(f"latency_p99.9_{one}" for one in ("alone", "writer", "reader"))
    latencies = [measured.figures[f"latency_p{q}_writer"].value for q in (50, 99, "99.9")]
    assert None not in latencies and latencies == sorted(latencies, key=lambda us: us or 0)


def test_write_amplification_is_told_of_every_phase_and_follows_the_skew() -> None:
    def phase(label: str, offsets: str) -> Phase:
        bounds = {"duration_s": 600, "until_written_percent": 60}
        own = load(**{**WRITER, **bounds}, offsets=offsets)
        return Phase(label=label, workload=own, before=(Prepare(kind="load", load=own),))

    phases = phase("uniform", "uniform"), phase("zoned", "zoned:95/5:5/95")
    test = made_test(*phases, kind="waf", prepare=FULL)
    found = measure(test, on_virtual(test))
    assert found.main == ("waf_uniform", "waf_zoned")
    uniform, zoned = (found.figures[key].value or 0 for key in found.main)
    assert uniform > zoned > 1


def test_fio_counts_the_threads_of_each_job_apart(file: Path) -> None:
    small: dict[str, Any] = {"duration_s": 1, "queue_depth": 2, "span_bytes": 2**24}
    test = made_test(
        Phase(label="reads", workload=load(**small, read_percent=100, rate_iops=500.0)),
        Phase(label="writes", workload=load(**small, queues=3, rate_iops=900.0), together=True),
        kind="qos",
    )
    reads, writes = results(file, test)
    assert (reads.writes, writes.reads) == (0, 0)
    for one, rate in ((reads, 500), (writes, 900)):
        assert 0.5 * rate < (one.reads + one.writes) / one.duration_s < 1.2 * rate
    assert b"numjobs=3" in reads.artefacts["reads.fio"]


def test_fio_runs_them_as_jobs_of_one_process(file: Path) -> None:
    small: dict[str, Any] = {"duration_s": 1, "queue_depth": 4, "span_bytes": 2**24}
    alone, writer, reader = results(file, tenants(small, (), **small, block_bytes=8192))
    assert (writer.reads, reader.writes) == (0, 0)
    reached = alone.writes / alone.duration_s
    assert writer.workload.rate_iops == pytest.approx(reached / 2)
    assert writer.writes / writer.duration_s < 0.75 * reached
    assert 500 < reader.reads / reader.duration_s < 1500
    assert reader.read_bytes == 8192 * reader.reads == pc.sum(reader.series["read_bytes"]).as_py()
    jobs = writer.artefacts["writer.fio"].decode()
    assert jobs.count("[writer]") == jobs.count("[reader]") == jobs.count("[global]") == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"together": True}, "nothing to run 'together'"),
        ({"rate_of": "second", "rate_percent": 50}, "a phase that ends before"),
        ({"rate_of": "first"}, "need each other"),
    ],
)
def test_a_first_phase_that_needs_another_is_refused(changed: Any, words: str) -> None:
    first = {"label": "first", "workload": load().model_dump(), **changed}
    second = {"label": "second", "workload": load().model_dump()}
    with pytest.raises(ValidationError, match=words):
        made_test(Phase.model_validate(first), Phase.model_validate(second), kind="qos")


@pytest.mark.parametrize(
    "changed",
    [{"duration_s": 3.0}, {"content": "zero"}, {"until_written_percent": 10}],
)
def test_jobs_of_different_ends_or_content_are_refused(changed: Any) -> None:
    second = Phase(label="second", workload=load(**changed), together=True)
    with pytest.raises(ValidationError, match="that run 'together' need"):
        made_test(Phase(label="first", workload=load()), second, kind="qos")


def test_rounds_take_neither() -> None:
    held = Phase(label="held", workload=load(), rate_of="most", rate_percent=50)
    rounds = Rounds(tracked=("most",), variable="iops", rounds_max=5)
    with pytest.raises(ValidationError, match="without rounds"):
        made_test(Phase(label="most", workload=load()), held, kind="rounds", rounds=rounds)


def test_jobs_deeper_together_than_the_interface_are_refused_before_the_run() -> None:
    target = VirtualTarget(catalog.load("sm951-ahci-512"))  # AHCI: 32 commands
    with pytest.raises(Exception, match=r"together with it: workload.queue_depth: 40"):
        target.check((tenants({"queue_depth": 32}),))


def test_the_suite_says_what_runs_together_and_at_which_rate() -> None:
    suite = suites.load("datacenter")
    test = next(one for one in suite.tests if one.id == "readers-beside-writers")
    writer, reader = test.groups[1]
    assert text.tenancy(writer) == ", 10 % of the IOPS of writes-alone, Poisson arrivals"
    assert text.tenancy(reader) == ", in parallel with the previous load"
    assert test.shortened().groups[1][1].together
    assert test.drive_seconds() == 7 * 180 + 86400  # six pairs, the writer alone, the load
