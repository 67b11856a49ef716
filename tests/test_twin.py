"""Twins: the plan takes what tells most per minute, loads held out are predicted with intervals,
what no load tells is said, and mistakes are told in two lines.

One drive of 1 GB serves all; its loads last a tenth of a second.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import here
import numpy as np
import pytest
import typer.testing

from drivebay import results, review
from drivebay.cli.app import app
from drivebay.cli.progress import ReviewProgress
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import with_capacity
from drivebay.definitions.suites import Suite
from drivebay.lab import fit as calibrate
from drivebay.lab.fit import fitting, linear, observed, outcome, select_parameters, write
from drivebay.lab.fit.parameters import with_values
from drivebay.lab.fit.twin import plan, usual_parameters
from drivebay.targets.virtual.target import VirtualTarget

HIDDEN = {"nand.read_us": 76.0}
ALSO, UNTOLD = "controller.write_command_us", "thermal.throttle.0.on_c"


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SM951 scaled to 1 GB, as a file of the user's."""
    made = with_capacity(catalog.load("sm951-nvme-128"), int(1e9))
    path = tmp_path_factory.mktemp("base") / "small.toml"
    path.write_text(write.text(made, (), name="small", head="for tests"))
    return path


@pytest.fixture(scope="module")
def base(base_path: Path) -> Profile:
    """The same, loaded."""
    return catalog.load(base_path)


def loads(*names: str) -> Suite:
    """These tests of the suite, with loads of a tenth of a second."""
    chosen = suites.load("twin").selected(names).shortened()
    return chosen.model_copy(
        update={
            "tests": tuple(
                test.model_copy(
                    update={
                        "phases": tuple(
                            phase.model_copy(
                                update={
                                    "workload": phase.workload.model_copy(
                                        update={"duration_s": 0.1}
                                    )
                                }
                            )
                            for phase in test.phases
                        )
                    }
                )
                for test in chosen.tests
            )
        }
    )


@pytest.fixture(scope="module")
def folder(base: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Loads of a drive whose values nobody is told."""
    drive = with_values(base, select_parameters(base, list(HIDDEN)), sorted_values(base))
    place = tmp_path_factory.mktemp("twin") / "loads"
    return review.run(
        lambda: VirtualTarget(drive), loads("read-random", "mixed-random"), out=place, seed=7
    )


def sorted_values(base: Profile) -> list[float]:
    return [HIDDEN[parameter.name] for parameter in select_parameters(base, list(HIDDEN))]


@pytest.fixture(scope="module")
def twin(folder: Path, base: Profile, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The twin of that drive."""
    return calibrate.fit(
        folder,
        base=base,
        parameters=[*HIDDEN, ALSO, UNTOLD],
        loads=True,
        evaluations=0,
        out=tmp_path_factory.mktemp("out") / "twin.toml",
    )


def test_values_are_found_and_loads_held_out_predicted(twin: calibrate.Calibration) -> None:
    values = {one.name: one for one in twin.parameters}
    for name, value in HIDDEN.items():
        assert values[name].value == pytest.approx(value, rel=0.05)
        ends = values[name].interval
        assert ends is not None and ends[0] < values[name].value < ends[1]
    held = [one for one in twin.figures if one.held_out]
    assert len({one.name.partition("@")[2] for one in held}) == 2
    assert {one.name.partition("/")[2].partition("@")[0] for one in held} >= {"rate", "p99"}
    # so few writes on so small a drive have a tail of chance
    assert all(one.ok for one in held if "write" not in one.name), held
    assert all(one.interval for one in held)


def test_the_profile_keeps_intervals_of_its_values(twin: calibrate.Calibration) -> None:
    assert twin.out is not None
    drive = catalog.load(twin.out)
    leaf = drive.raw["nand"]["read_us"]
    assert "90 % interval" in leaf["source"]
    assert drive.intervals


def test_the_page_has_measured_beside_modelled_and_what_no_load_tells(
    twin: calibrate.Calibration,
) -> None:
    page = outcome.page(twin)
    assert "| nand.read_us |" in page and "## Loads held out" in page
    held = [one for one in twin.figures if one.held_out]
    assert f"of {len(held)} figures are within their bound" in page
    assert "No load of yours tells about: thermal." in page
    assert "Not fitted, as in the base: energy" in page and "write buffer" in page


def test_what_a_plan_takes_fits_the_budget_and_tells_about_the_values(base: Profile) -> None:
    reads = usual_parameters(base, ["nand.read_us"])
    suite = loads("read-random", "write-sequential", "write-random")
    made = plan(base, reads, suite, capacity_bytes=base.capacity_bytes, budget_s=3600)
    assert next(iter(made.gains)) == "read-random"
    assert made.seconds < 3600
    with pytest.raises(UserError, match="no load tells about these parameters within 0") as caught:
        plan(base, reads, suite, capacity_bytes=base.capacity_bytes, budget_s=1)
    assert "--budget" in caught.value.hint


def test_usual_values_are_those_that_loads_tell_about(base: Profile) -> None:
    names = {one.name for one in usual_parameters(base)}
    assert {"nand.read_us", "controller.host_core_us", "host.nvme.software_us"} <= names
    assert not {name.split(".")[0] for name in names} & {"thermal", "energy", "health"}
    assert not any(name.startswith("host.ahci") for name in names)
    (own,), (wide,) = (usual_parameters(base, ["nand.read_us"], wide=w) for w in (False, True))
    assert (wide.low, wide.high) == (own.low / 2, own.high * 2)


def test_loads_held_out_by_name_are_not_fitted(folder: Path, base: Profile) -> None:
    made = observed.experiment_for(folder, base, hold_out=["read-random/qd4"], loads=True)
    assert {one.name for one in made.held_out} == {
        "read-random/rate@qd4",
        "read-random/p99@qd4",
    }
    assert not {one.name for one in made.held_out} & {one.name for one in made.observations}
    with pytest.raises(UserError, match="phases are qd1") as caught:
        observed.experiment_for(folder, base, hold_out=["read-random/qd5"], loads=True)
    assert caught.value.hint == "--hold-out read-random/qd1"


def test_results_of_fio_are_loads_on_a_part_of_the_drive(base: Profile, tmp_path: Path) -> None:
    from drivebay.lab.imports import import_files

    imported = import_files("auto", [here.DATA / "fio/3.39-answers.json"], tmp_path / "loads")
    made = observed.experiment_for(imported, base, loads=True)
    (test,) = made.full.values()
    assert [step.kind for step in test.prepare] == ["fill", "rest"]
    spans = {load.span(base.capacity_bytes)[1] for load in test.loads}
    assert max(spans) <= base.capacity_bytes
    assert made.observations


def test_errors_left_out_widen_intervals_by_kind() -> None:
    slopes = np.ones((20, 1))
    kinds = ["rate"] * 10 + ["p99"] * 10
    residuals = np.array([1.0] * 10 + [8.0] * 10)
    noise = linear.misfit(slopes, residuals, kinds)
    assert noise["rate"] == 1
    assert noise["p99"] == pytest.approx(8 / linear.Z_90, rel=0.03)


def test_the_command_plans_runs_and_writes(base_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "twin.toml"
    words = ["twin", str(base_path), "--from", str(base_path), "--out", str(out)]
    words += ["--fit", "nand.read_us", "--budget", "4m", "--json"]
    runner = typer.testing.CliRunner()
    shown = runner.invoke(app, words, standalone_mode=False)
    assert shown.exit_code == 0, shown.output
    content = json.loads(shown.stdout)
    assert content["page"] == str(out.with_suffix(".md")) and out.exists()
    assert (tmp_path / "twin-loads/manifest.json").exists()
    assert content["untold"] == [next(line for line in content["untold"] if "Not fitted" in line)]


def test_loads_that_ctrl_c_has_cut_short_go_on_as_the_hint_says(
    base_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, begin = threading.Event(), ReviewProgress.started

    def started(display: ReviewProgress, test: str) -> None:
        begin(display, test)
        os.kill(os.getpid(), signal.SIGINT)
        heard.wait()

    monkeypatch.setattr(ReviewProgress, "started", started)
    monkeypatch.setattr(ReviewProgress, "stopping", lambda _display: heard.set())
    words = ["twin", str(base_path), "--from", str(base_path), "--out", "twin.toml"]
    words += ["--fit", "nand.read_us", "--budget", "4m", "--jobs", "1"]
    done = here.drivebay(*words, cwd=tmp_path)
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "hint: go on with: the same command with --resume"
    assert results.load(tmp_path / "twin-loads").missing
    monkeypatch.undo()
    done = here.drivebay(*words, "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert results.load(tmp_path / "twin-loads").missing == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{base}", "--budget", "an hour"], "--budget an hour is not a time"),
        (["no-such-drive"], "drive 'no-such-drive' is unknown"),
        (["a", "b"], "is not a file of results"),
        (["none.json"], "none.json"),
        (["{base}", "--fit", "nand.nothing"], "has no such number"),
    ],
)
def test_mistakes_are_told(words: list[str], message: str, base_path: Path, tmp_path: Path) -> None:
    given = [word.format(base=base_path) for word in words]
    done = here.drivebay(
        "twin", *given, "--from", str(base_path), "--out", "out.toml", cwd=tmp_path
    )
    lines = [line for line in done.stderr.splitlines() if line]
    assert done.returncode in (2, 3), done.stderr
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], done.stderr
    assert message in done.stderr
    assert not (tmp_path / "out.toml").exists()


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_a_file_of_the_page_s_name_is_kept(
    resume: tuple[str, ...], base_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.md").write_text("my own notes\n")
    words = (str(base_path), "--from", str(base_path), "--out", "notes.toml", *resume)
    done = here.drivebay("twin", *words, cwd=tmp_path)
    assert done.returncode == 2 and "notes.md exists" in done.stderr
    assert (tmp_path / "notes.md").read_text() == "my own notes\n"
    assert not (tmp_path / "notes.toml").exists() and not (tmp_path / "notes-loads").exists()


def test_a_resumed_fit_replaces_only_a_fitted_profile(tmp_path: Path) -> None:
    mine, dangling, fitted = (tmp_path / f"{name}.toml" for name in ("mine", "dangling", "fitted"))
    mine.write_text('[drive]\nname = "mine"\n')
    dangling.symlink_to("nowhere")
    fitted.write_text(f"# {write.PROFILE_MARK} x, from y.\n")
    for place, resume in ((mine, True), (dangling, True), (dangling, False), (fitted, False)):
        with pytest.raises(UserError, match=f"{place.name} exists"):
            fitting.can_be_written(place, resume=resume)
    fitting.can_be_written(fitted, resume=True)


def test_a_resumed_fit_replaces_its_own_page(tmp_path: Path) -> None:
    page = tmp_path / "twin.md"
    page.write_text(f"# twin\n\n{write.PAGE_MARK}\n")
    assert write.page_beside(tmp_path / "twin.toml", resume=True) == page
    with pytest.raises(UserError, match=r"twin\.md exists"):
        write.page_beside(tmp_path / "twin.toml", resume=False)
