"""Calibration: a drive with hidden values is found again from its review alone; what cannot be told
apart is said; mistakes are told in two lines; an interrupted fit goes on to the same end.

One small drive and one review serve all: 7.5 GB, three tests of a few seconds of its time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing

from drivebay import results, review
from drivebay.analysis import Figure, fidelity
from drivebay.analysis import review as review_of
from drivebay.cli.app import app
from drivebay.common.errors import DrivebayError, Interrupted, UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile
from drivebay.lab import fit as calibrate
from drivebay.lab.fit import (
    experiment,
    linear,
    observed,
    outcome,
    select_parameters,
    shorten,
    write,
)
from drivebay.lab.fit.experiment import Job
from drivebay.lab.fit.parameters import Parameter, with_values
from drivebay.lab.journal import Journal
from drivebay.lab.validate.plan import Run
from drivebay.lab.validate.runs import profile_of
from drivebay.targets.virtual.target import VirtualTarget

SUITE = """
schema_version = 1
name = "small"
title = "Small"
description = "for tests"
source = "none"

[[tests]]
id = "reads"
title = "Reads"
page = "reads"
kind = "ladder"
method = "random reads"
source = "none"
prepare = [{ kind = "fill" }, { kind = "rest", seconds = 1800 }]
queue_depths = [1, 4, 32]
metric_queue_depths = [1]
[tests.workload]
pattern = "random"
read_percent = 100
block_bytes = 4096
duration_s = 2

[[tests]]
id = "writes"
title = "Writes"
page = "writes"
kind = "consistency"
method = "random writes"
source = "none"
prepare = [{ kind = "fill" }, { kind = "rest", seconds = 1800 }]
metric_window_s = 2
[tests.workload]
pattern = "random"
read_percent = 0
block_bytes = 4096
queue_depth = 32
duration_s = 5

[[tests]]
id = "mixed"
title = "Mixed"
page = "mixed"
kind = "mixed"
method = "held out"
source = "none"
prepare = [{ kind = "fill" }, { kind = "rest", seconds = 1800 }]
read_percents = [100, 50]
[tests.workload]
pattern = "random"
block_bytes = 4096
queue_depth = 3
duration_s = 1
"""
HIDDEN = {
    "gc.duty_limit_us": 84.0,
    "controller.write_command_us": 7.2,
    "nand.read_us": 72.0,
}
FIT = tuple(HIDDEN)
EVALUATIONS = 16
SEED_OF_REVIEW = 7
"""Not the fit's: a twin does not know the dice of the drive that it is like."""


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SM951 with 16 dies of a sixteenth of their blocks, from a file of the user's."""
    made = changed(
        catalog.load("sm951-ahci-128"),
        [
            "nand.blocks_per_plane=64",
            "nand.bad_superblocks=0",
            "drive.capacity_sectors=14600000",
            "gc.threshold_mb=300",
            "gc.target_mb=300",
            "gc.idle.free_mb=600",
        ],
    )
    path = tmp_path_factory.mktemp("base") / "small.toml"
    path.write_text(write.text(made, (), name="small", head="for tests"))
    return path


@pytest.fixture(scope="module")
def base(base_path: Path) -> Profile:
    """The same, loaded."""
    return catalog.load(base_path)


@pytest.fixture(scope="module")
def folder(base: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The review of a drive whose values nobody is told."""
    place = tmp_path_factory.mktemp("calibrate")
    (place / "small.toml").write_text(SUITE)
    hidden = with_values(base, select_parameters(base, FIT), [HIDDEN[name] for name in sorted(FIT)])
    suite = suites.load(str(place / "small.toml"))
    return review.run(
        lambda: VirtualTarget(hidden), suite, out=place / "hidden", seed=SEED_OF_REVIEW
    )


@pytest.fixture(scope="module")
def twin(folder: Path, base: Profile) -> calibrate.Calibration:
    """The fit that most tests look at, with a parameter on which nothing depends."""
    return calibrate.fit(
        folder,
        base=base,
        parameters=[*FIT, "thermal.throttle.0.on_c"],
        hold_out=["mixed"],
        out=folder.parent / "My twin.toml",
        evaluations=EVALUATIONS,
        jobs=2,
    )


def test_a_hidden_drive_is_recovered_and_what_was_held_out_predicted(
    twin: calibrate.Calibration,
) -> None:
    assert twin.recovered and twin.predicted
    errors = {one.name: one.error_percent or 0 for one in twin.figures}
    assert len([one for one in twin.figures if not one.held_out]) == 8, list(errors)
    assert {one.test for one in twin.figures if one.held_out} == {"mixed"}
    assert max(map(abs, errors.values())) < 10
    assert max(abs(one.error_before_percent or 0) for one in twin.figures) > 8
    found = {one.name: one.value for one in twin.parameters}
    for name in ("gc.duty_limit_us", "nand.read_us"):  # what these figures do determine
        assert found[name] == pytest.approx(HIDDEN[name], rel=0.06)


def test_what_the_data_cannot_tell_is_said(twin: calibrate.Calibration) -> None:
    said = "\n".join(twin.identifiability.sentences)
    assert "No figure that was fitted depends on thermal.throttle.0.on_c" in said
    assert "controller.write_command_us stays open over" in said  # the link hides it
    (unseen,) = (one for one in twin.parameters if one.name == "thermal.throttle.0.on_c")
    assert (unseen.value, unseen.sd) == (unseen.before, None)


def test_a_twin_has_intervals_and_its_profile_keeps_them(twin: calibrate.Calibration) -> None:
    for one in twin.figures:
        if one.held_out or "@" in one.name:
            assert one.interval and one.after, one.name
            assert one.interval[0] < one.after < one.interval[1], one.name
    assert twin.out is not None
    drive = catalog.load(twin.out)
    known = fidelity.known_of(drive.name, drive.raw)
    held = next(one for one in twin.figures if one.held_out)
    assert held.interval and held.after
    figure = Figure(held.name.partition("/")[2], "", held.after, held.unit)
    assert known is not None
    ends = fidelity.ends_of(known, "", "mixed", figure.key, held.after, held.unit)
    assert ends == pytest.approx(held.interval, rel=1e-3)
    what_if = changed(drive, ["thermal.ambient_c=30"])
    assert what_if.intervals == drive.intervals and "intervals" not in what_if.json()


def test_a_profile_with_intervals_that_are_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    for wrong in ("[0.1]", '["x", "MB/s"]', '[nan, "MB/s"]', "5"):
        path.write_text(f'base = "xp941-512"\n[intervals.reads]\n"rate@qd1" = {wrong}\n')
        with pytest.raises(UserError, match=r"intervals\.reads\.rate@qd1") as refused:
            catalog.load(path)
        assert "mean_iops" in str(refused.value.hint)


def test_the_written_profile_is_a_drive_like_any(
    twin: calibrate.Calibration, base: Profile
) -> None:
    assert twin.out is not None
    drive = catalog.load(twin.out)
    assert (drive.name, drive.raw) == ("my-twin", twin.profile.raw)
    leaf = drive.raw["nand"]["read_us"]
    assert "fitted by drivebay calibrate, seed 1, to a review of" in leaf["source"]
    assert leaf["range"] == [40, 90]
    assert drive.raw["thermal"] == base.raw["thermal"]


def test_an_interrupted_fit_ends_the_same_on_any_number_of_workers(
    twin: calibrate.Calibration, folder: Path, base: Profile, tmp_path: Path
) -> None:
    """As after `kill -9` within a line; the rest is run on one worker instead of two."""
    assert twin.out is not None
    out = tmp_path / "My twin.toml"
    lines = Journal.beside(twin.out).read_bytes().splitlines(keepends=True)
    kept = len(lines) * 3 // 4
    Journal.beside(out).write_bytes(b"".join(lines[:kept]) + lines[kept][:30])
    again = calibrate.fit(
        folder,
        base=base,
        parameters=[*FIT, "thermal.throttle.0.on_c"],
        hold_out=["mixed"],
        out=out,
        evaluations=EVALUATIONS,
        jobs=1,
        resume=True,
    )
    assert 0 < again.evaluations < twin.evaluations
    assert out.read_bytes() == twin.out.read_bytes()
    assert again.figures == twin.figures
    rest = Journal.beside(out).read_bytes().splitlines(keepends=True)
    assert sorted(rest) == sorted(lines)


def test_ctrl_c_keeps_what_was_found(
    folder: Path, base: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def progress(_what: str, count: int) -> None:
        if count == 2:
            os.kill(os.getpid(), signal.SIGINT)

    out = tmp_path / "fit.toml"
    with pytest.raises(Interrupted, match="every finished test is kept") as caught:
        calibrate.fit(folder, base=base, parameters=["nand.read_us"], out=out, progress=progress)
    assert "--resume" in caught.value.hint
    assert not out.exists()
    assert len(Journal.beside(out).read_text().splitlines()) >= 1 + 2


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["nand.red_us"], "has no such number", "did you mean nand.read_us?"),
        (["channels"], "gives no range", "--fit nand.channels="),
        (["nand.read_us=30..70"], "must lie within 40 to 90", "--fit nand.read_us"),
        (["nand.read_us=70..60"], "is empty", "--fit nand.read_us="),
        (["nand.read_us=fast"], "must be a range", "LOW..HIGH"),
        (["nand.read_us", "read_us"], "named twice", "once"),
        (["planes"], "takes only some numbers", "--set"),
        (["power_mw"], "more than one section", "--fit power.device.0.power_mw"),
        (["host_interface.protocol"], "has no such number", ""),
        (["link=1..2"], "has no such number", ""),
        ([], "nothing to fit", "--fit"),
    ],
)
def test_a_parameter_that_cannot_be_fitted(words: list[str], message: str, hint: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        select_parameters(catalog.load("sm951-ahci-512"), words)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"hold_out": ["nothing"]}, "the result has no such test", "--hold-out reads"),
        ({"hold_out": ["reads"], "only": ["reads"]}, "--only names it too", ""),
        ({"hold_out": ["reads", "writes", "mixed"]}, "no figure to fit to", ""),
        ({"parameters": ["thermal.network.module_j_per_k"]}, "no figure depends on", "--only"),
        ({"data": "S9999"}, "no such row", "S058"),
        ({"data": "S048"}, "neither a measured figure nor a ratio", "bootable|yes"),
        ({"data": "nowhere"}, "neither a result folder nor published rows", "drivebay review"),
        ({"base": "sm951-ahci-512"}, "has 7,475,200,000 bytes", "capacity_sectors = 14600000"),
        ({"evaluations": -1}, "--evaluations: -1 is not allowed", ""),
        ({"jobs": 0}, "--jobs: 0 is not allowed", ""),
        ({"out": "fit.json"}, "ends in .toml", "fit.toml"),
        ({"out": "no/such/fit.toml"}, "does not exist", "mkdir -p"),
        ({"resume": True}, "--resume needs --out", ""),
    ],
)
def test_a_fit_that_cannot_be_made(
    change: dict[str, Any], message: str, hint: str, folder: Path, base: Profile
) -> None:
    given: dict[str, Any] = {"data": folder, "base": base, "parameters": ["nand.read_us"]} | change
    with pytest.raises(DrivebayError, match=message) as caught:
        calibrate.fit(given.pop("data"), **given)
    assert "\n" not in caught.value.message + caught.value.hint
    assert any(part in caught.value.hint for part in hint.split("|"))


def test_a_journal_of_another_fit_is_not_gone_on_with(
    twin: calibrate.Calibration, folder: Path, base: Profile, tmp_path: Path
) -> None:
    assert twin.out is not None

    def fit(out: Path, *, resume: bool) -> None:
        calibrate.fit(folder, base=base, parameters=["nand.read_us"], out=out, resume=resume)

    with pytest.raises(UserError, match="a profile is never overwritten"):
        fit(twin.out, resume=False)
    with pytest.raises(UserError, match=r"another fit: its parameters, .* differ"):
        fit(twin.out, resume=True)
    out = tmp_path / "a.toml"
    Journal.beside(out).write_text("{}\n")
    with pytest.raises(UserError, match="was started before"):
        fit(out, resume=False)
    with pytest.raises(UserError, match="not a journal of a fit"):
        fit(out, resume=True)


def test_a_quick_review_and_a_partial_one_are_labelled(
    folder: Path, base: Profile, tmp_path: Path
) -> None:
    partial = shutil.copytree(folder, tmp_path / "partial")
    manifest = json.loads((partial / "manifest.json").read_text())
    manifest["quick"] = True
    for step in manifest["steps"]:
        if step["id"] == "writes":
            step |= {"state": "pending", "files": {}}
    (partial / "manifest.json").write_text(json.dumps(manifest))
    found = observed.experiment_for(partial, base)
    assert any("is a quick review" in note for note in found.notes)
    assert any("not run in partial: writes" in note for note in found.notes)
    assert found.description.endswith("(small, quick)")
    with pytest.raises(UserError, match="has not been run") as caught:
        observed.experiment_for(partial, base, only=["writes"])
    assert "drivebay review --resume" in caught.value.hint


def test_the_command_says_what_was_found_and_exits_as_it_ended(
    twin: calibrate.Calibration, folder: Path, base_path: Path, tmp_path: Path
) -> None:
    """On the journal of a fit that has been made, so that nothing is run."""
    assert twin.out is not None
    out = tmp_path / "My twin.toml"
    shutil.copy(Journal.beside(twin.out), tmp_path)
    words = ["calibrate", str(folder), "--from", str(base_path), "--out", str(out)]
    words += ["--hold-out", "mixed"]
    words += [word for name in (*FIT, "thermal.throttle.0.on_c") for word in ("--fit", name)]
    words += ["--evaluations", str(EVALUATIONS), "--resume"]
    runner = typer.testing.CliRunner()
    shown = runner.invoke(app, [*words, "--json"], standalone_mode=False)
    assert shown.exit_code == 0 and not shown.return_value, shown.output
    content = json.loads(shown.stdout)
    assert content == {**outcome.as_json(twin), "out": str(out)}
    assert content["recovered"] and content["predicted"]
    assert [row["name"] for row in content["parameters"] if row["sd"] is None] == [
        "thermal.throttle.0.on_c"
    ]
    assert out.read_bytes() == twin.out.read_bytes()
    shown = runner.invoke(app, words, standalone_mode=False)
    for part in ("nand.read_us", "held out", "stays as it was", "after 0 evaluations"):
        assert part in shown.stdout
    missing = runner.invoke(app, words[:6])
    assert missing.exit_code == 2 and "--fit" in missing.output


# --- the parts ------------------------------------------------------------------------------------


def test_values_and_coordinates_are_each_others_inverse() -> None:
    for parameter in (
        Parameter("a", 60, 40, 90),
        Parameter("b", 6, 5, 9),
        Parameter("c", 9, 7, 16, whole=True),
    ):
        for share in (0.0, 0.3, 1.0):
            value = parameter.value(share)
            assert parameter.low <= value <= parameter.high
            assert parameter.value(parameter.coordinate(value)) == value
        assert parameter.value(-1) == parameter.low and parameter.value(2) == parameter.high
    assert Parameter("c", 9, 7, 16, whole=True).value(0.31) == int(9.4)


def test_a_list_is_fitted_by_one_factor_and_a_section_by_its_ranged_values() -> None:
    drive = catalog.load("sm951-ahci-512")
    (program,) = select_parameters(drive, ["nand.program_us=600..1100"])
    assert program.start == 832
    assert with_values(drive, (program,), (416.0 * 2.5,)).raw["nand"]["program_us"]["value"] == [
        525.0,
        1555.0,
    ]
    names = [one.name for one in select_parameters(drive, ["energy"])]
    assert "energy.program_4k_uj" in names and "energy.idle_mw" not in names  # published, no range


def test_bounds_and_ranges_count_only_outside() -> None:
    span = experiment.Observation("S1", "t", "t", "MB/s", 60.0, 0.05, "range", 90.0)
    assert span.error(75) == 0
    assert span.error(45) == pytest.approx(np.log(45 / 60))
    assert span.error(99) == pytest.approx(np.log(99 / 90))
    assert span.error(None) == -experiment.MISSING == span.error(0)
    assert experiment.loss({"a": 100.0}) < 100.0**2 / 10, "one outlier does not rule the others"


def test_two_parameters_that_only_act_together_are_named() -> None:
    parameters = [Parameter(name, 2, 1, 4) for name in ("x", "y", "z")]
    slopes = np.array([[50.0, 50.0, 0.0], [49.0, 50.0, 0.0], [0.0, 0.0, 0.01]])
    found = linear.identifiability(parameters, (2, 2, 2), ("f", "g", "h"), (0.01,) * 3, slopes)
    assert found.determined == 1
    assert found.correlation[0, 1] < -0.95
    assert any(s.startswith("x and y cannot be told apart") for s in found.sentences)
    assert any("No figure changes with z" in s for s in found.sentences)
    assert found.singular_values[0] > 90 > 5 > found.singular_values[1]
    # 1 % of x is 0.01 / ln 4 of its range: 50 scales of 1 % per range make 0.36 % per %.
    assert found.sensitivity[0, 0] == pytest.approx(50 * 0.01 / np.log(4))


def test_a_test_is_cut_only_where_its_data_say_the_same(folder: Path) -> None:
    tests = review_of(results.load(folder)).tests
    short, told = shorten.shortened(tests["mixed"])
    assert told is not None and told["rate@r100"] == tests["mixed"].steps[0].rate_mb_s
    assert short.phases[0].workload.duration_s == 1
    whole, every = shorten.shortened(tests["writes"])
    assert (whole, every) == (tests["writes"].test, None)


def test_the_rows_that_its_help_names_can_be_fitted_to() -> None:
    shown = typer.testing.CliRunner().invoke(app, ["calibrate", "--help"]).output
    named = re.findall(r"calibrate (S[\dS,]+) --from (\S+)", shown)
    assert named
    for rows, base in named:
        found = observed.experiment_for(rows, catalog.load(base)).observations
        assert len(found) == len(rows.split(","))


def test_a_family_shares_what_it_inherits_and_keeps_its_own() -> None:
    """The XP941 has a host core of its own, and the family's flash."""
    base = catalog.load("sm951-ahci-512")
    rows = observed.experiment_for("S148", base)
    parameters = select_parameters(base, ["nand.read_us", "controller.host_core_us"])
    (job,) = rows.tests
    assert job.drive == "sm951-ahci-512@centos-7-z87"
    other = Job("xp941-512", job.test)
    changed = rows.profile(other, dict(zip(parameters, (4.0, 70.0), strict=True)))
    own = catalog.load("xp941-512").raw
    shared = [one.name for one in parameters if rows.moves(other, one)]
    for parameter, value in zip(parameters, (4.0, 70.0), strict=True):
        section, key = parameter.name.split(".")
        expected = value if parameter.name in shared else own[section][key]["value"]
        assert changed.raw[section][key]["value"] == expected


def test_a_row_of_a_part_of_a_drive_is_fitted_on_that_part() -> None:
    """As `drivebay validate` runs it: calibration of the servers' drives ran whole ones before."""
    base = catalog.load("p4800x-375")
    rows = observed.experiment_for("S769", base)
    parameters = select_parameters(base, ["nand.read_us"])
    (job,) = rows.tests
    assert job.drive.startswith("p4800x-375+scaled-16@")
    made = rows.profile(job, {parameters[0]: 1.5})
    assert made.raw["nand"]["read_us"]["value"] == 1.5
    as_validated = profile_of(Run(job.drive, job.test))
    assert made.capacity_bytes == as_validated.capacity_bytes < base.capacity_bytes / 15


def test_what_is_written_is_read_back_from_a_base_and_whole(tmp_path: Path) -> None:
    drive = catalog.load("sm951-ahci-512")
    names = ["nand.read_us", "thermal.throttle.1.on_c"]
    parameters = select_parameters(drive, names)
    fitted = with_values(drive, parameters, (50.0, 90.0), sources=['a "quoted" source'] * 2)
    for made in (fitted, changed(fitted, ["thermal.ambient_c=30"])):
        path = tmp_path / f"{made.raw['thermal']['ambient_c']['value']}.toml"
        path.write_text(write.text(made, names, name="twin", head="two\nlines"))
        text = path.read_text()
        assert ("base = " in text) == (made is fitted)
        again = catalog.load(path).resolved()
        expected = made.resolved()
        expected["drive"] |= {"name": "twin", "title": again["drive"]["title"]}
        assert again == expected
