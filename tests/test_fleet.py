"""A fleet: real drives behind two workers, each reviewed where it is and by its own host's rules.

Files stand for drives; the workers are real `drivebay worker` processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import distributed
import pytest
from fakes import made_test, workload
from loops import sparse
from test_listeners import MAIN, Running, running
from test_sweep import Watched
from waiting import wait_until

from drivebay import results
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.definitions import suites
from drivebay.definitions.suites import Phase, Suite
from drivebay.lab.sweep import engine, fleet, plan, spec
from drivebay.lab.sweep.plan import Plan
from drivebay.lab.sweep.store import Store

GIB = 2**30


def suite(seconds: float = 0.5) -> Suite:
    """Half a second of reads and of writes, on little of the file."""
    loads = {
        name: workload(read_percent=percent, duration_s=seconds, span_bytes=2**24)
        for name, percent in (("reads", 100), ("writes", 0))
    }
    return Suite(
        name="tiny",
        title="Tiny",
        description="For tests of the fleet.",
        source="tests/test_fleet.py",
        tests=tuple(
            made_test(Phase(label="run", workload=load), id=name) for name, load in loads.items()
        ),
    )


def a_plan(*drives: dict[str, Any], where: str = "fleet.toml") -> Plan:
    table = {"name": "fleet", "suite": "quick", "fleet": {"drives": list(drives)}}
    return plan.make(spec.parse(table, where=where), where=where)


def a_worker(
    address: str, scratch: Path, *arguments: str
) -> contextlib.AbstractContextManager[Running]:
    """A running `drivebay worker` for real drives alone, once it is ready; ended with the block."""
    words = ("worker", address, "--jobs", "0", "--no-drives", *arguments)
    env = {fleet.SCRATCH: str(scratch)}
    return running("-c", MAIN, *words, ready="worker: 0 runs at once", env=env)


def test_each_drive_is_reviewed_once_on_the_host_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is in use there: its host refuses it, whatever the sweep's file says."""
    monkeypatch.setattr(suites, "load", lambda _name: suite())
    files = [sparse(tmp_path / name, GIB) for name in ("a.img", "b.img")]
    made = a_plan(*({"file": str(path)} for path in files))
    store = Store(str(tmp_path / "out"))
    with distributed.LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=60
    ) as cluster:
        address = cluster.scheduler_address
        with pytest.raises(EnvironmentProblem, match=r"no worker announces the drive .*a\.img"):
            engine.run(made, store, Watched(), scheduler=address)
        with (
            a_worker(address, tmp_path / "one", "--file", str(files[0])),
            a_worker(address, tmp_path / "two", "--file", str(files[1])),
        ):
            sink = Watched()
            with files[1].open("r+b"):  # somebody has it open for writing
                found = engine.run(made, store, sink, scheduler=address, resume=True)
            assert len(store.done(made.fingerprint)) == 1 and list(found) == [1]
            assert "in use by" in found[1] and sink.over[0] is None
            found = engine.run(made, store, Watched(), scheduler=address, resume=True)
            assert (found, len(store.done(made.fingerprint))) == ({}, 2)
    rows = [row for row, _ in store.rows(made.fingerprint)]
    assert [(row["drive"], row["test"]) for row in rows] == [
        (str(path), test) for path in files for test in ("reads", "writes")
    ]
    assert all(row["iops"] > 0 for row in rows)
    reviews = [results.load(path) for path in sorted((tmp_path / "out" / "reviews").iterdir())]
    assert [one.target["path"] for one in reviews] == [str(path) for path in files]
    assert all(path.stat().st_size == GIB for path in files)
    grown = [path for base in ("one", "two") for path in (tmp_path / base).glob("*/*")]
    assert len(grown) == 2, "each on its own host"


def test_a_review_ends_in_an_orderly_way_when_its_worker_is_gone(tmp_path: Path) -> None:
    """The review process reads its end from its input: as on Ctrl-C, what had finished is kept."""
    file = sparse(tmp_path / "a.img", GIB)
    both = suite()
    long = both.tests[1].phases[0].workload.model_copy(update={"duration_s": 300.0})
    second = both.tests[1].model_copy(update={"phases": (Phase(label="run", workload=long),)})
    request = {
        "path": str(file),
        "destroy_data": None,
        "overwrite_signature": False,
        "suite": both.model_copy(update={"tests": (both.tests[0], second)}).model_dump(mode="json"),
        "quick": False,
        "seed": 1,
        "folder": str(tmp_path / "review"),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "drivebay.lab.sweep.review_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    done = tmp_path / "review" / "steps" / "reads"
    wait_until(lambda: done.exists() or process.poll() is not None)
    process.stdin.close()
    answer = json.loads(process.stdout.read())
    assert process.wait() == 0 and answer["error"] == "interrupted"
    assert [step.state for step in results.load(tmp_path / "review").steps] == ["done", "pending"]


@pytest.mark.parametrize(
    ("drive", "words"),
    [
        ({"serial": "S1"}, "destroy_data must be the serial number once more"),
        ({"serial": "S1", "destroy_data": "S2"}, "consent to lose all data on the drive S1"),
        ({"file": "/x", "destroy_data": "/x"}, "have no meaning for a file"),
        ({"file": "x.img"}, "must be an absolute path"),
        ({}, "give either 'serial' or 'file'"),
    ],
)
def test_a_drive_without_its_own_consent_is_refused(drive: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=r"fleet.drives\[1\]") as caught:
        a_plan(drive)
    assert words in caught.value.message


def test_a_worker_tests_nothing_that_it_has_not_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a task for it came in spite of the resources."""
    monkeypatch.setattr(suites, "load", lambda _name: suite())
    monkeypatch.setenv(fleet.ANNOUNCED, json.dumps(["S2"]))
    file = sparse(tmp_path / "a.img", GIB)
    made = a_plan({"file": str(file)})
    text = json.dumps(made.as_json())
    answer = fleet.run(text, str(tmp_path / "out"), 0, stop_name="x")
    assert "has not announced the drive" in answer["error"] and answer["again"] is False
    with pytest.raises(UserError, match="no such drive on this host"):
        fleet.testable([], ["NONESUCH-SERIAL"])
    with pytest.raises(UserError, match="there is no such file"):
        fleet.testable([tmp_path / "none"], [])
    with pytest.raises(EnvironmentProblem, match="more than one worker announces"):
        assert made.spec.fleet is not None
        fleet.check_announced(made.spec.fleet, {f"drive:{file}": 2.0})
