"""Sweeps: what a user writes, which runs come of it, and what is left whatever happens to them."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import distributed
import fsspec
import pyarrow as pa
import pytest

import drivebay
from drivebay.analysis.effects import Factor, Study
from drivebay.common import provenance
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed
from drivebay.lab.sweep import cluster, engine, nodes, plan, spec, summary, work
from drivebay.lab.sweep.plan import Plan
from drivebay.lab.sweep.store import Store

SMALL = ("drive.capacity_sectors=8000000", "gc.idle.free_mb=200",
         "gc.threshold_mb=20", "nand.blocks_per_plane=16")  # fmt: skip
TABLE: dict[str, Any] = {
    "name": "small",
    "drives": ["sm951-ahci-512"],
    "set": list(SMALL),
    "workload": {
        "pattern": "random",
        "read_percent": 0,
        "block_bytes": 4096,
        "queue_depth": 4,
        "duration_s": 1,
    },
    "parameters": [
        {"name": "spare", "change": "unused={}%", "values": [0, 25]},
        {"name": "depth", "load": "queue_depth", "values": [1, 32]},
    ],
    "seeds": 2,
}

COST = ["wall_s", "cpu_s", "peak_memory_bytes", "host"]
"""Columns that differ from time to time."""


def a_plan(**changes: Any) -> Plan:
    return plan.make(spec.parse({**TABLE, **changes}, where="a.toml"), where="a.toml")


class Watched:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.begun: tuple[int, int, int] | None = None
        self.over: dict[int, str | None] = {}
        self.warnings: list[str] = []

    def begin(self, runs: int, done: int, capacity: int) -> None:
        self.begun = (runs, done, capacity)

    def ended(self, index: int, error: str | None) -> None:
        self.over[index] = error

    def warn(self, message: str) -> None:
        if "steady state" not in message:  # runs here are short
            self.warnings.append(message)


@pytest.fixture(scope="module")
def workers() -> Iterator[Any]:
    """Two worker processes behind an address, which announce memory as `drivebay worker` does."""
    patient = {"distributed.deploy.lost-worker-timeout": "300s"}
    with (
        dask.config.set(patient),
        distributed.LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2,
            threads_per_worker=1,
            memory_limit=0,
            resources={cluster.MEMORY: 2e9},
            dashboard_address="127.0.0.1:0",
            preload=[nodes.PRELOAD],
            silence_logs=60,
        ) as made,
    ):
        # Else the scheduler gives a run three deaths of its own before it tells.
        made.scheduler.allowed_failures = 0
        yield made


def figures(folder: Path) -> list[dict[str, Any]]:
    """Every run's row without what differs from time to time."""
    fingerprint = json.loads((folder / "manifest.json").read_text())["fingerprint"]
    return [
        {key: value for key, value in row.items() if key not in COST}
        for row, _ in Store(str(folder)).rows(fingerprint)
    ]


# --- what a user writes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"drivs": ["x"]}, "a.toml: drivs is not a key of a sweep"),
        ({"drives": ["sm951-ahci-511"]}, "'sm951-ahci-511' is not in the catalog"),
        ({"drives": []}, "give either 'drives' or a [fleet]"),
        ({"set": ["heatsnk"]}, "heatsnk: sm951-ahci-512 has no such variant"),
        ({"suite": "quick"}, "give either 'suite' or a [workload]"),
        ({"workload": {**TABLE["workload"], "queue_depth": 0}}, "workload.queue_depth: 0 is not"),
        ({"seeds": [1, 1]}, "seeds: one is given twice"),
        ({"design": {"kind": "random"}}, "design: a grid has no 'points'"),
        ({"parameters": [{"name": "x", "low": 1, "high": 2}]}, "parameter 'x': a grid needs"),
        ({"parameters": [{"name": "run", "values": [1]}]}, "'run' is a column of every sweep"),
        ({"parameters": [{"name": "ambient_k", "values": [1]}]}, "ambient_k: sm951-ahci-512 has"),
        ({"parameters": [{"name": "q", "load": "queue_dept", "values": [1]}]}, "mean queue_depth"),
        ({"parameters": [{"name": "q", "change": "heatsink", "values": [1]}]}, "[false, true]"),
        ({"parameters": [{"name": "q", "values": [1, "a"]}]}, "must all be numbers"),
        ({"parameters": [{"name": "q", "load": "queue_depth", "values": [0]}]}, "queue_depth = 0"),
        ({"parameters": [{"name": f"p{n}", "values": list(range(99))} for n in range(9)]},
         "runs are too many"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_a_hint(change: dict[str, Any], words: str) -> None:
    table = {**TABLE, **change}
    if "suite" in change:
        table["tests"] = []
    with pytest.raises(UserError) as caught:
        plan.make(spec.parse(table, where="a.toml"), where="a.toml")
    assert words in caught.value.message and "a.toml" in caught.value.message
    assert caught.value.hint and "\n" not in caught.value.message + caught.value.hint


def test_the_examples_of_the_documentation_are_right() -> None:
    page = Path(__file__).parent.parent / "docs" / "concepts" / "sweeps.md"
    tables = [part.partition("```")[0] for part in page.read_text().split("```toml\n")[1:]]
    made = [plan.make(spec.parse(tomllib.loads(one), where="docs"), where="docs") for one in tables]
    assert [one.runs for one in made] == [96, 200, 2]


def test_a_file_that_is_no_toml_is_an_error(tmp_path: Path) -> None:
    for content in (b"\xff\x00", b"name = ", b"x" * 2_000_000):
        (tmp_path / "a.toml").write_bytes(content)
        with pytest.raises(UserError, match="not valid TOML"):
            spec.load(tmp_path / "a.toml")
    with pytest.raises(UserError, match="cannot be read"):
        spec.load(tmp_path / "none.toml")


# --- which runs come of it ------------------------------------------------------------------------


def test_a_grid_has_every_combination_once_and_seeds_change_fastest() -> None:
    made = a_plan()
    points = [made.point(index) for index in range(made.runs)]
    assert made.runs == 8
    assert [(p.values["spare"], p.values["depth"], p.seed) for p in points] == [
        (spare, depth, seed) for spare in (0, 25) for depth in (1, 32) for seed in (1, 2)
    ]
    assert made.test(points[3]).phases[0].workload.queue_depth == 32
    assert made.profile(points[7]).capacity_bytes < made.profile(points[0]).capacity_bytes


def test_a_latin_hypercube_fills_each_parameter_evenly_and_a_worker_sees_the_same() -> None:
    design = {"kind": "latin-hypercube", "points": 8}
    ranges = [
        {"name": "spare", "change": "unused={}%", "low": 0, "high": 40},
        {"name": "depth", "load": "queue_depth", "low": 1, "high": 256, "scale": "log",
         "whole": True},
        {"name": "cooled", "change": "heatsink", "values": [False, True]},
    ]  # fmt: skip
    made = a_plan(design=design, parameters=ranges)
    points = [made.values(number) for number in range(8)]
    assert sorted(int(float(p["spare"]) // 5) for p in points) == list(range(8))
    assert sorted(int(p["depth"]).bit_length() // 2 for p in points)[::7] != [0, 0]
    assert sum(p["cooled"] is True for p in points) == 4
    again = plan.from_json(json.dumps(made.as_json(), sort_keys=True))
    assert [again.values(number) for number in range(8)] == points
    assert again.fingerprint == made.fingerprint != a_plan().fingerprint


def test_a_run_is_what_one_review_of_the_changed_drive_would_give() -> None:
    made = a_plan(seeds=[7])
    row = work.row(made, made.point(3)).to_pylist()[0]
    drive = changed(catalog.load("sm951-ahci-512"), (*SMALL, "unused=25%"))
    assert made.profile(made.point(3)) == drive
    assert row["spare"] == 25 and row["depth"] == 32 and row["iops"] > 1000
    assert row["peak_memory_bytes"] > 20e6 and row["wall_s"] > 0
    again = work.row(made, made.point(3)).to_pylist()[0]
    same = {key: value for key, value in row.items() if key not in COST}
    assert {key: value for key, value in again.items() if key not in COST} == same


# --- what is left ---------------------------------------------------------------------------------


def test_parts_are_the_same_for_any_workers_and_a_killed_one_loses_only_its_run(
    tmp_path: Path, workers: Any
) -> None:
    """The first sweep is killed in the middle of a run, which is long enough for that; the second
    one runs in this process."""
    made = a_plan(workload={**TABLE["workload"], "duration_s": 6})
    killed: list[tuple[str, int]] = []

    def kill() -> None:
        """Once, and again after another run if the first had just ended when its worker died."""
        there = workers.scheduler.workers.values()
        busy = {one.address for one in there if one.processing}
        address, ended = killed[-1] if killed else ("", 0)
        too_soon = address in {one.address for one in there} or len(sink.over) <= ended
        if not busy or too_soon or sink.warnings:
            return
        nanny = next(one for one in workers.workers.values() if one.worker_address in busy)
        killed.append((nanny.worker_address, len(sink.over)))
        os.kill(nanny.pid, signal.SIGKILL)

    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            kill()

    sink = Watched()
    store = Store(str(tmp_path / "a"))
    threading.Thread(target=watch, daemon=True).start()
    try:
        found = engine.run(made, store, sink, scheduler=workers.scheduler_address)
    finally:
        over.set()
    assert killed and (found, len(store.done(made.fingerprint))) == ({}, 8)
    said = {one.partition(": ")[2] for one in sink.warnings}
    assert said <= {"its worker died; it is started again", "waiting for some"}
    assert sink.warnings, "a run was lost"
    assert sink.over == dict.fromkeys(range(8)) and sink.begun == (8, 0, 2)
    beside = Store(str(tmp_path / "b"))
    beside.create(made.fingerprint, made.as_json(), made.runs)
    for index in range(8):
        answer = work.run(json.dumps(made.as_json(), sort_keys=True), beside.url, index)
        assert "error" not in answer
    assert figures(tmp_path / "a") == figures(tmp_path / "b")
    # Nothing is run again, and what is missing is.
    (block,) = (tmp_path / "a" / "parts").iterdir()
    block.unlink()
    for path in sorted((tmp_path / "b" / "parts").iterdir()):
        if "run-000005" not in path.name:
            shutil.copy(path, block.parent)
    sink = Watched()
    engine.run(made, store, sink, scheduler=workers.scheduler_address, resume=True)
    assert sink.over == {5: None} and [*block.parent.iterdir()] == [block]
    assert figures(tmp_path / "a") == figures(tmp_path / "b")
    with pytest.raises(UserError, match="holds this sweep already"):
        engine.run(made, store, Watched())
    with pytest.raises(UserError, match="another specification"):
        engine.run(a_plan(seeds=3), store, Watched(), resume=True)


def dies(_plan: str, _url: str, index: int) -> dict[str, Any]:
    """Stands for a run that kills its worker, or one that fails by itself."""
    if index == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if index == 1:
        return {"index": index, "error": "not possible (choose another)", "again": False}
    return work.run(_plan, _url, index)


def test_runs_that_cannot_be_done_are_recorded_and_run_again_on_resume(
    tmp_path: Path, workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = a_plan(parameters=[], seeds=3)
    store = Store(str(tmp_path / "a"))
    sink = Watched()
    monkeypatch.setattr(work, "run", dies)
    found = engine.run(made, store, sink, scheduler=workers.scheduler_address, retries=1)
    died = {0: "its worker died", 1: "not possible (choose another)"}
    assert (found, len(store.done(made.fingerprint))) == (died, 1)
    kept = json.loads(next((tmp_path / "a" / "failed").glob("run-000000-*")).read_text())
    assert kept == {"run": 0, "error": "its worker died", "attempts": 2}
    assert store.failures(made.fingerprint) == {0, 1}
    monkeypatch.undo()
    found = engine.run(made, store, Watched(), scheduler=workers.scheduler_address, resume=True)
    assert found == {} and store.failures(made.fingerprint) == set()
    assert len(store.done(made.fingerprint)) == 3


def test_a_worker_of_another_build_is_refused_and_writes_nothing(
    tmp_path: Path, workers: Any
) -> None:
    made = a_plan(parameters=[], seeds=1)
    other = dataclasses.replace(made, build={**made.build, "core": "0" * 16})
    store = Store(str(tmp_path / "a"))
    with pytest.raises(EnvironmentProblem, match="core 0000000000000000") as caught:
        engine.run(other, store, Watched(), scheduler=workers.scheduler_address)
    assert made.build["core"] in caught.value.message and "--resume" in caught.value.hint
    assert store.done(other.fingerprint) == set() and store.failures(other.fingerprint) == set()
    with pytest.raises(UserError, match=r"made by another build, .*core 0000000000000000"):
        engine.run(made, store, Watched(), resume=True)


@pytest.mark.filterwarnings("ignore:some runs did not reach a steady state")
def test_a_sweep_from_python_finds_its_drive_beside_its_file_and_gives_a_table(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.toml").write_text(
        'base = "sm951-ahci-512"\n[drive]\nname = "mine"\ntitle = "Mine"\n'
    )
    made = plan.make(
        spec.parse({**TABLE, "drives": ["mine.toml"]}, where="a"), where=str(tmp_path / "a.toml")
    )
    assert made.profiles[0].name == "mine"
    table = {**TABLE, "parameters": [], "seeds": 1}
    found = drivebay.sweep.run(table, out=tmp_path / "out", jobs=1)
    assert found.failed == {} and found.table().num_rows == 1
    assert found.table()["iops"][0].as_py() > 1000


def test_every_part_says_which_build_made_it() -> None:
    made = a_plan(parameters=[], seeds=1)
    row = work.row(made, made.point(0)).to_pylist()[0]
    assert row["build"] == provenance.build_line(made.build)
    assert len(made.build["core"]) == len(made.build["python"]) == 16


def test_a_store_is_any_place_that_fsspec_opens_and_parts_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = a_plan(parameters=[], seeds=1)
    table = work.row(made, made.point(0))
    for url in ("memory://sweeps/a", f"file://{tmp_path}/a", str(tmp_path / "b")):
        store = Store(url)
        assert store.read_manifest() is None and store.is_empty()
        store.create(made.fingerprint, made.as_json(), made.runs)
        store.write_part(0, made.fingerprint, table)
        assert store.done(made.fingerprint) == {0} and store.done("0" * 16) == set()
        manifest = store.read_manifest()
        assert manifest is not None and manifest["fingerprint"] == made.fingerprint
        ((row, labels),) = store.rows(made.fingerprint)
        assert row["iops"] > 0 and labels["labels"]["workload"]["iops"] == ["IOPS", "IOPS", False]
    assert fsspec.filesystem("memory").exists("/sweeps/a/manifest.json")
    with pytest.raises(EnvironmentProblem, match="--out nonesuch://x"):
        Store("nonesuch://x")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "manifest.json").write_text('{"schema": 2, "steps": []}')
    with pytest.raises(UserError, match="not a sweep"):
        Store(str(tmp_path / "c")).read_manifest()


def test_blocks_hold_what_parts_held_and_a_part_left_beside_its_block_counts_once(
    tmp_path: Path,
) -> None:
    """Rows, their labels and their order; of parts with other columns, and of several blocks."""
    store, fingerprint = Store(str(tmp_path)), "3fa9c1d2e5b60718"

    def part(run: int, **figures: float | None) -> pa.Table:
        labels = {"labels": {"t": {name: [name, "u", True] for name in figures}}}
        fields = [("run", pa.int64()), *((name, pa.float64()) for name in figures)]
        schema = pa.schema(fields, metadata={"drivebay": json.dumps(labels)})
        return pa.Table.from_pylist([{"run": run, **figures}], schema=schema)

    for run in (1003, 4, 2):
        store.write_part(run, fingerprint, part(run, iops=run * 1.5))
    store.write_part(3, fingerprint, part(3, rate=None))
    before = list(store.rows(fingerprint))
    assert [row["run"] for row, _ in before] == [2, 3, 4, 1003]
    store.pack(fingerprint)
    names = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert names == ["block-000000-3fa9c1d2.parquet", "block-000001-3fa9c1d2.parquet"]
    assert list(store.rows(fingerprint)) == before
    assert store.done(fingerprint) == {2, 3, 4, 1003}
    store.write_part(2, fingerprint, part(2, iops=3.0))
    store.write_part(1, fingerprint, part(1, iops=1.5))
    for _ in range(2):  # beside its block, and packed with it
        assert list(store.rows(fingerprint))[1:] == before
        assert store.done(fingerprint) == {1, 2, 3, 4, 1003}
        store.pack(fingerprint)
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == names


def test_nothing_that_does_not_fit_into_memory_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a budget for two drives two run at once; a drive beyond it is told of before it runs."""
    made = a_plan(parameters=[])
    need = made.memory_bytes(made.point(0))

    class Client:
        def submit(self, *_: Any, **__: Any) -> Any:
            return distributed.Future

    def dispatcher(budget: int) -> Any:
        here = cluster.Cluster(Client(), budget, budget, True)
        monkeypatch.setattr(Store, "failures", lambda *_: set())
        return engine._Dispatcher(made, Store("memory://x"), Watched(), here, 0)

    two = dispatcher(2 * need)
    for index in range(4):
        two._waiting.append(engine._Attempt(index, 0, two._memory_of(index)))
    for _ in range(2):
        attempt = two._next()
        assert attempt is not None
        two._memory_bytes += attempt.memory_bytes
    assert two._next() is None and len(two._waiting) == 2
    with pytest.raises(EnvironmentProblem, match=r"needs .* of memory"):
        dispatcher(need - 1)._memory_of(0)


def test_the_command_runs_here_reports_and_tells_of_a_wrong_scheduler(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from drivebay.cli.entry import run

    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(
        'name = "heat"\ndrives = ["sm951-ahci-512"]\n'
        f"set = {json.dumps(list(SMALL))}\n"
        '[[parameters]]\nname = "ambient_c"\nvalues = [20, 45]\n'
        "[workload]\npattern = 'random'\nread_percent = 0\nblock_bytes = 4096\n"
        "queue_depth = 1\nduration_s = 1\n"
    )
    assert run(["sweep", "a.toml", "--jobs", "1", "--json"]) == 0
    out, err = capfd.readouterr()
    summary = json.loads(out)
    effects = {one["key"]: one for one in summary["effects"]["workload"]}
    assert effects["temperature_peak"]["effects"][0]["share_percent"] == pytest.approx(100)
    assert "2 runs" in err and "Traceback" not in err
    page = Path(summary["report"]).read_text()
    assert (
        "no parameter has an effect" in page
        and "ambient_c" in page
        and "http://" not in page.split("<script")[0].replace("http://www.w3.org/2000/svg", "")
    )
    assert run(["sweep", "a.toml", "--scheduler", "tcp://127.0.0.1:1", "--out", "b"]) == 3
    assert "no scheduler answers there" in capfd.readouterr().err
    assert run(["sweep", "a.toml", "--scheduler", "tcp://x", "--jobs", "2"]) == 2


# --- what matters ---------------------------------------------------------------------------------


def test_effects_and_interactions_are_those_of_the_formula() -> None:
    """y = 10 a + 4 b + 6 a b over a, b in -1, 1: sums of squares 100 : 16 : 36 of 152."""
    study = Study([Factor("a", (-1.0, 1.0)), Factor("b", (-1.0, 1.0))])
    labels = {"t": {"y": ["Y", "MB/s", True], "same": ["Same", "", False]}}
    for a in (-1.0, 1.0):
        for b in (-1.0, 1.0):
            for _ in range(2):
                y = 10 * a + 4 * b + 6 * a * b
                study.add({"test": "t", "a": a, "b": b, "y": y, "same": 2.0}, labels)
    found, same = study.figures("t")
    assert [round(e.share_percent, 6) for e in found.effects] == [65.789474, 10.526316]
    (pair,) = found.interactions
    assert round(pair.share_percent, 6) == 23.684211
    assert [[cell.mean for cell in line] for line in pair.cells] == [[-8, -12], [0, 20]]
    slopes = {e.factor: e.slope for e in found.effects}
    assert slopes["a"] == pytest.approx((100 / 152) ** 0.5)
    assert found.linear_percent == pytest.approx(100 * 116 / 152)
    assert [level.n for level in found.effects[0].levels] == [4, 4] and found.n == 8
    assert not same.varies and same.effects[0].share_percent == 0


def test_a_range_is_grouped_evenly_and_a_missing_figure_counts_nowhere() -> None:
    factor = Factor("x", low=1, high=64, log=True)
    assert [factor.place(value) for value in (1, 1.9, 2.1, 32.1, 64)] == [0, 0, 1, 5, 5]
    study = Study([factor])
    for number in range(60):
        y = None if number % 2 else float(number)
        study.add({"test": "t", "x": 64 ** (number / 59), "y": y}, {"t": {"y": ["Y", "", True]}})
    (found,) = study.figures("t")
    assert found.n == 30 and [level.n for level in found.effects[0].levels] == [5] * 6
    slope = found.effects[0].slope
    assert slope is not None and slope == pytest.approx(1)


def test_factors_of_a_plan_name_the_drive_where_there_are_several() -> None:
    made = a_plan(drives=["sm951-ahci-512", "sm951-nvme-512"], set=[], parameters=[])
    assert [one.name for one in summary.factors(made)] == ["drive"]
    assert summary.about(made, Study([]), {}).facts[0][1] == "sm951-ahci-512, sm951-nvme-512"


def test_a_parameter_that_changes_no_figure_is_named_where_runs_differ_in_nothing_else() -> None:
    labels = {"t": {"y": ["Y", "MB/s", True]}}
    for design, named in (("grid", ("b",)), ("random", ())):
        study = Study([Factor("a", (1, 2)), Factor("b", ("x", "z"))])
        points = [(a, b) for a in (1, 2) for b in ("x", "z")]
        for a, b in points if design == "grid" else points[::3]:
            for seed in (1, 2):
                row = {"test": "t", "a": a, "b": b, "seed": seed, "y": 10.0 * a + seed}
                study.add(row, labels)
        assert study.without_effect == named, design
    study.add({"test": "t", "a": 1, "b": "z", "seed": 1, "y": 11.1}, labels)
    assert study.without_effect == ()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("my only copy")
    with pytest.raises(UserError, match="holds something else"):
        Store(str(mine)).read_manifest()
    assert mine.read_text() == "my only copy"
