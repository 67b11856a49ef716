"""fio's JSON with numbers that cannot be: they are refused by name, or not read at all.

A count of 1e999, which Python reads as infinity, once ended the import with a trace. Each number of
recorded outputs is replaced by others here; nothing that is not finite may come into a result.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from drivebay import results
from drivebay.analysis import review
from drivebay.cli.entry import run
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.lab.fio_import import importer
from drivebay.lab.fio_import.jobs import jobs_of
from drivebay.lab.imports import import_files
from drivebay.results.records import PhaseResult
from drivebay.targets.fio import parse
from drivebay.targets.fio.figures import Part, Unreadable

FIO = Path(__file__).parent / "data" / "fio"
VERSIONS = ["3.25", "3.33", "3.39", "3.41"]
TIMES = 5000 if os.environ.get("DRIVEBAY_LONG") else 500
"""Changed documents for each version."""
DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
WRONG = [
    *(math.inf, -math.inf, math.nan, 1e308, 10**308, 2**63, 2**64, -1, -0.5, 0.5, 0, 1),
    *(None, True, "", "x", "1", "nan", "inf", "9" * 400, [], [1], {}, {"a": 1}, DEEP),
]
IMPOSSIBLE = ["1e999", "-1e999", "Infinity", "NaN", "1e308", "1" + 308 * "0", "9" * 5000, "-1"]


def recorded(version: str) -> dict[str, Any]:
    """The last document of a recording."""
    text = (FIO / f"{version}-answers.json").read_text()
    *_, last = parse.documents(text.splitlines(keepends=True))
    return last


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Each table or list with each key; of bins two."""
    keys: list[Any] = []
    if isinstance(node, dict):
        keys = list(node)
    elif isinstance(node, list):
        keys = list(range(len(node)))
    if len(keys) > 50:
        keys = [keys[0], keys[-1]]
    for key in keys:
        yield node, key
        yield from places(node[key])


@contextlib.contextmanager
def changed(document: dict[str, Any], draw: random.Random) -> Iterator[None]:
    """Inside, up to three values are others, or keys of a table."""
    known = list(places(document))
    before: list[tuple[Any, Any]] = []
    for node, key in draw.sample(known, draw.randint(1, 3)):
        if isinstance(node, dict) and draw.random() < 0.1:
            before.append((node, dict(node)))
            node[str(draw.choice(WRONG))[:500]] = node.pop(key, 0)
        elif key in node or isinstance(node, list):
            before.append((node, dict(node) if isinstance(node, dict) else list(node)))
            node[key] = draw.choice(WRONG)
    try:
        yield
    finally:
        for node, was in reversed(before):
            if isinstance(node, dict):
                node.clear()
                node.update(was)
            else:
                node[:] = was


def check(phase: PhaseResult) -> None:
    """Nothing in it is negative, NaN, infinite, or beyond a result's 64 bits."""
    figures: list[Any] = [phase.duration_s, phase.reads, phase.writes, *phase.metrics.values()]
    figures += [phase.read_bytes, phase.write_bytes]
    for table in (phase.series, phase.histogram):
        for column in table.columns:
            figures += [one for one in column.to_pylist() if not isinstance(one, str | None)]
    assert all(math.isfinite(one) and 0 <= one < 2**63 for one in figures)
    assert sum(phase.histogram["count"].to_pylist()) < 2**63


def import_in_memory(path: Path, document: dict[str, Any]) -> bool:
    """Whether the document becomes phases; False if it is refused in one of the foreseen ways."""
    try:
        jobs = jobs_of(Part(document))
        phases = [importer._phase(job, path) for job in jobs]
        importer.imported(path, document, jobs, phases)
    except (Unreadable, ValidationError):
        return False
    for phase in phases:
        check(phase)
    return True


@pytest.mark.parametrize("version", VERSIONS)
def test_an_import_is_finite_or_refused(version: str, tmp_path: Path) -> None:
    draw, document = random.Random(version), recorded(version)
    (path := tmp_path / "a.json").write_text("{}")
    assert import_in_memory(path, document)
    taken = 0
    for _ in range(TIMES):
        with changed(document, draw):
            taken += import_in_memory(path, document)
    assert 0 < taken < TIMES
    assert document == recorded(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_running_fios_figures_are_finite_or_refused(version: str) -> None:
    draw, document = random.Random(version), recorded(version)
    taken = 0
    for _ in range(TIMES):
        recorder = parse.Recorder()
        with changed(document, draw):
            try:
                parse.has_begun(document)
                parse.job_error(document)
                recorder.add(document, asked_ms=1000)
                recorder.finish(document)
            except EnvironmentProblem:
                continue
        taken += 1
        tables = recorder.series(), recorder.histogram()
        for column in (column for table in tables for column in table.columns):
            for one in column.to_pylist():
                assert isinstance(one, str | None) or (math.isfinite(one) and 0 <= one < 2**63)
        assert math.isfinite(recorder.flush_ns_sum)
    assert 0 < taken < TIMES


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_imported_can_be_reviewed(version: str, tmp_path: Path) -> None:
    draw, document = random.Random(version), recorded(version)
    path = tmp_path / "a.json"
    for number in range(TIMES // 50):
        with changed(document, draw):
            path.write_text(json.dumps(document))
        try:
            folder = import_files("fio", [path], tmp_path / f"{number}")
        except UserError as problem:
            assert str(path) in problem.message and problem.hint
            assert not (tmp_path / f"{number}").exists()
        else:
            review(results.load(folder))


@pytest.mark.parametrize("number", IMPOSSIBLE)
@pytest.mark.parametrize(
    "field", ["read.total_ios", "read.io_bytes", "read.lat_ns.mean", "read.runtime", "error"]
)
def test_an_impossible_number_is_told_by_its_field(
    number: str, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = recorded("3.33")
    *tables, last = field.split(".")
    node = document["jobs"][0]
    for key in tables:
        node = node[key]
    node[last] = "HERE"
    (tmp_path / "a.json").write_text(json.dumps(document).replace('"HERE"', number))
    assert run(["import", "fio", str(tmp_path / "a.json"), "--out", str(tmp_path / "old")]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {tmp_path}/a.json cannot be imported: jobs[0].{field}: ")
    assert "is not allowed; must be a " in error
    assert hint.startswith("hint: write it again with: fio ")
    assert not (tmp_path / "old").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("iodepth", "x"),
        ("iodepth", "9" * 400),
        ("numjobs", "1000000000"),
        ("rwmixread", "101"),
        ("fsync", "-1"),
    ],
)
def test_an_impossible_option_is_told_by_its_name(option: str, value: str, tmp_path: Path) -> None:
    document = recorded("3.33")
    document["jobs"][0]["job options"].update({option: value, "group_reporting": "1"})
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(UserError) as caught:
        import_files("fio", [tmp_path / "a.json"], tmp_path / "old")
    named = f"jobs[0].job options.{option}"
    assert f"a.json cannot be imported: {named}: '{value[:50]}" in caught.value.message


def test_numbers_that_are_not_read_do_not_matter(tmp_path: Path) -> None:
    document = recorded("3.33")
    document["jobs"][0]["read"]["bw_dev"] = math.nan
    document["jobs"][0]["eta"] = 10**308
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert results.load(import_files("fio", [tmp_path / "a.json"], tmp_path / "old")).steps


@pytest.mark.parametrize("line", ["500, inf, 0", "500, nan, 0", "500, -1, 0", "9" * 400 + ", 1, 0"])
def test_an_impossible_line_of_a_log_does_not_count(line: str, tmp_path: Path) -> None:
    document = recorded("3.33")
    job = document["jobs"][0]
    job["job options"].update(write_iops_log="log", write_lat_log="log", log_avg_msec="500")
    rates = [job[one]["total_ios"] / (job["job_runtime"] / 1000) for one in ("read", "write")]
    rows = [(500 * n, rates[side], side) for n in range(1, 11) for side in (0, 1)]
    log = "".join(f"{ms}, {rate:.0f}, {side}, 4096\n" for ms, rate, side in rows)
    for kind in ("iops", "lat"):
        (tmp_path / f"log_{kind}.1.log").write_text(f"{line}\n{log}{line}\n")
    (tmp_path / "a.json").write_text(json.dumps(document))
    (step,) = results.load(import_files("fio", [tmp_path / "a.json"], tmp_path / "old")).steps
    seconds = step.table("series", step.phases()[0].label).to_pydict()
    assert sum(seconds["reads"]) == job["read"]["total_ios"]
    latencies = [one for one in seconds["latency_ns_mean"] if one is not None]
    assert len(latencies) == 5 and all(map(math.isfinite, latencies))
