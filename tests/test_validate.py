"""What was published beside what comes out: the rows, the recorded run, a part run again.

The whole run takes minutes; `published/computed/` keeps one. Here a few rows that take
seconds are run again and must come within 1 % of what was recorded, with the same verdict.
"""

from __future__ import annotations

import copy
import json
import runpy
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import made_result
import numpy as np
import pytest

from drivebay.analysis import fidelity, published
from drivebay.cli.entry import run
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.lab.fit.conditions import shorter
from drivebay.lab.validate import score
from drivebay.lab.validate.plan import Run, load_plan
from drivebay.lab.validate.runs import profile_of
from drivebay.lab.validate.statements import STATEMENTS
from drivebay.lab.validate.values import NotReached, figure
from drivebay.lab.validate.verdicts import Validation, Verdict, error_percent

TOP = Path(__file__).resolve().parent.parent
RECORDED = fidelity.recorded()
AGAIN = ("S001", "S002", "S008", "S017", "S045", "S054", "S100", "S109", "S148", "S561", "S976")


def test_every_published_row_is_compared_or_says_why_not() -> None:
    plan = load_plan()
    ids = [row.published.id for row in plan.rows]
    assert ids == list(published.figures())
    for row in plan.rows:
        kinds = [row.value, row.statement, row.catalog, row.not_covered]
        assert sum(bool(kind) for kind in kinds) == 1, row.published.id
        assert not row.statement or row.statement in STATEMENTS
        assert {run.test for run in row.needs} <= set(plan.tests), row.published.id
    recorded = [row["id"] for row in RECORDED["rows"] + RECORDED["not_covered"]]
    assert sorted(recorded) == sorted(ids)


def test_every_row_can_fail_on_both_sides() -> None:
    """Words, "over" and "under" have a range with both ends and its reason."""
    for row in load_plan().rows:
        words = row.published.value is None or row.published.relation in ("lt", "gt")
        if row.not_covered or row.catalog:
            continue
        assert row.bounds is not None and row.bounds[0] < row.bounds[1], row.published.id
        if words and row.published.relation != "range":
            assert row.range is not None and len(row.reason) > 5, row.published.id


def test_a_cut_test_says_what_of_its_condition_differs() -> None:
    rows = {row.published.id: row for row in load_plan().rows}
    assert "2 % of the trace" in rows["S068"].differs
    assert "at a depth of 128" in rows["S124"].differs
    assert not rows["S061"].differs


def test_phases_in_intervals_follow_each_other_and_figures_are_medians() -> None:
    """SSD-iq's program prints latencies of every minute; a figure is the median over them."""
    phases = load_plan().tests["write-rates"].phases
    pair = [phase for phase in phases if phase.label.partition("-")[2].startswith("90k")]
    assert [phase.label for phase in pair] == [
        "writer-90k",
        "latency-90k",
        "writer-90k-interval-2",
        "latency-90k-interval-2",
    ]
    assert [phase.rest_s for phase in pair] == [1, 0, 0, 0]
    assert {phase.workload.duration_s for phase in pair} == {60}

    def ran(label: str, rate: float) -> SimpleNamespace:
        return SimpleNamespace(label=label, step=SimpleNamespace(rate_mb_s=rate))

    found = [ran("a", 1.0), ran("alone", 9.0), ran("a-interval-2", 4.0)]
    runs: Any = {Run.of("drive/test"): SimpleNamespace(phases=found)}
    assert figure(runs, "drive/test/rate@a") == 2.5
    assert figure(runs, "drive/test/rate@alone") == 9.0


def test_a_test_may_have_other_loads_and_another_drive() -> None:
    plan = load_plan()
    test = plan.tests["streams-80-20-initial-shared"]
    offsets = {phase.label: phase.workload.offsets for phase in test.phases}
    assert offsets["skewed"] == "zoned:80/20:10/20:10/60" != offsets["random"]
    assert test.what_if == ("fdp=3:persistent", "fdp=3:initial")
    row = next(row for row in plan.rows if row.published.id == "S988")
    drive = profile_of(row.needs[0])
    assert (
        drive.raw["nand"]["pages_per_block"]["value"] * 256
        == (catalog.load("pm9a3-960").raw["nand"]["pages_per_block"]["value"])
    )
    assert drive.flash_bytes / drive.capacity_bytes == pytest.approx(1.14, abs=1e-3)
    assert "on 1/256 of the flash" in row.differs and "80 s a phase" in row.differs
    assert not row.scored


def test_derivatives_are_of_a_part_of_the_first_interval() -> None:
    plan = load_plan()
    drive = catalog.load("7450-max-800")
    _, short = shorter(drive, plan.tests["write-rates"], full_size=False)
    assert [phase.label for phase in short.phases[:3]] == ["alone", "writer-200k", "latency-200k"]
    assert {phase.workload.duration_s for phase in short.phases} == {20}


def test_rows_that_state_the_same_name_one_another() -> None:
    rows = {row.published.id: row for row in load_plan().rows}
    assert rows["S061"].same_as == ("S182",)
    assert set(rows["S165"].same_as) == {"S163", "S164", "S181"}
    for name, row in rows.items():
        assert all(name in rows[other].same_as for other in row.same_as)


def test_rows_run_again_are_as_recorded() -> None:
    rows = [word for name in AGAIN for word in ("--row", name)]
    program = "from drivebay.cli import main; main()"
    command = [sys.executable, "-c", program, "validate", "--json", *rows]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    recorded = {row["id"]: row for row in RECORDED["rows"]}
    for row in document["rows"]:
        now, then = row["reproduced"], recorded[row["id"]]["reproduced"]
        assert now == (then if isinstance(then, str) else pytest.approx(then, rel=0.01)), row
        assert row["ok"] == recorded[row["id"]]["ok"], row
    assert [row["id"] for row in document["rows"]] == list(AGAIN)
    assert done.returncode == (0 if all(row["ok"] for row in document["rows"]) else 1)


def test_todays_drives_have_a_score_and_tables_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["validate", "--row", "S553", "--row", "S565"]) == 1
    out = capsys.readouterr().out
    assert "not part of the score above" in out and "As fitted" not in out
    assert "samsung-980-500gb: 1 number predicted" in out and "left out" in out
    assert "980-pro-500gb: no number predicted; 0 of 0 words and ranks hold; 1 fitted" in out


def test_without_leverage_all_rows_are_predictions_but_those_that_were_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fidelity, "kept_modern", dict)
    rows = {row.published.id: row for row in load_plan().rows}
    verdicts = [Verdict(rows[name], 800.0, 20.0, False) for name in ("S561", "S562", "S565")]
    found = [score.scored(Validation((one,), ()))[0] for one in verdicts]
    assert [one.predicted for one in found] == [True, False, False]
    assert [one.in_profile for one in found] == [False, False, True]
    assert found[0].error_percent == 20.0 and not found[0].left_out_ok


def test_a_row_that_was_in_view_is_fitted_whatever_its_leverage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = next(row for row in load_plan().rows if row.published.id == "S573")
    leverage = {"S573": {"log": True, "leverage": 0.1, "shift": 0.0, "sd": 0.1}}
    kept = {"drives": ["pm9a3-960"], "rows": leverage}
    monkeypatch.setattr(fidelity, "kept_modern", lambda: kept)
    for changes, name in (
        ({"calibrated_on": "in view: nand.read_us"}, "fitted"),
        ({"conflict": "another one"}, "contradicted"),
        ({}, "predicted"),
    ):
        verdict = Verdict(replace(row, **changes), 800.0, 20.0, False)  # type: ignore[arg-type]
        (found,) = score.scored(Validation((verdict,), ()))
        assert found.class_of == name and found.predicted == (name == "predicted")
        assert found.off is None or name == "predicted"


def test_a_minute_before_and_after_a_rest_and_the_ends_of_a_fill() -> None:
    def phase(label: str, rates: list[float], **more: Any) -> Any:
        line = SimpleNamespace(rate_mb_s=np.asarray(rates))
        return SimpleNamespace(label=label, timeline=line, **more)

    halves = [phase("filled-50", [4000.0] * 40 + [500.0] * 60, throttled_s=7.0),
              phase("rested-50", [1000.0] * 30 + [500.0] * 30)]  # fmt: skip
    rested: Any = SimpleNamespace(phases=halves)
    assert STATEMENTS["rested_over_filled"]([rested]) == 1.5
    assert STATEMENTS["throttled_seconds"]([rested]) == 7
    whole: Any = SimpleNamespace(phases=halves[:1])
    assert STATEMENTS["first_minute"]([whole]) == (40 * 4000 + 20 * 500) / 60
    rates = [4000.0] * 40 + [500.0] * 91 + [750.0] * 70
    rising: Any = SimpleNamespace(phases=[phase("fill", rates)])
    assert STATEMENTS["minute_behind"]([rising]) == 500
    assert STATEMENTS["end_over_behind"]([rising]) == 1.5
    flat: Any = SimpleNamespace(phases=[phase("fill", [900.0] * 100)])
    with pytest.raises(NotReached):
        STATEMENTS["minute_behind"]([flat])


def test_bounds_are_those_of_the_relation_and_errors_those_of_the_print() -> None:
    rows = {row.published.id: row for row in load_plan().rows}
    assert rows["S085"].bounds == pytest.approx((102.6, 113.4))  # printed
    assert rows["S061"].bounds == pytest.approx((6750, 8250))  # "about"
    assert rows["S171"].bounds == (-0.05, 0.05)  # a printed 0
    assert rows["S160"].bounds == (500, 1000)
    errors = {"S085": 108 * 1.05, "S160": 1100, "S087": 75000, "S110": 100, "S171": 0.2}
    found = {name: error_percent(rows[name], value) for name, value in errors.items()}
    assert found == {
        "S085": pytest.approx(5), "S160": pytest.approx(10), "S087": pytest.approx(-50),
        "S110": 0, "S171": None,
    }  # fmt: skip


def seen(*, ios: Any = (), rates: Any = (), stages: Any = (), **figures: float) -> Any:
    """A test's run, as far as statements look at it."""
    phases = [
        SimpleNamespace(
            step=SimpleNamespace(rate_mb_s=rate),
            timeline=SimpleNamespace(ios=np.asarray(ios, dtype=float)),
            stages=[SimpleNamespace(stage=name, share_percent=share) for name, share in stages],
        )
        for rate in (rates or (0.0,))
    ]
    known = {key: SimpleNamespace(value=value, note="") for key, value in figures.items()}
    return SimpleNamespace(
        phases=phases, figures=known, test=SimpleNamespace(metric_window_s=400.0)
    )


STEADY = [10_000 + 200 * (-1) ** second for second in range(400)]


@pytest.mark.parametrize(
    ("row", "runs"),
    [
        ("S056", [seen(ios=[10_000] * 400)]),  # a ruled line is no drive's consistency
        ("S062", [seen(ios=[10_000] * 400)]),
        ("S062", [seen(ios=[*STEADY[:399], 1000])]),
        ("S057", [seen(ios=[1, 9999] * 200), *[seen(ios=[10_000] * 400)] * 4]),
        ("S063", [seen(ios=[*STEADY[:398], 300, 300])]),  # two drops are not regular
        ("S065", [seen(ios=STEADY)]),
        ("S073", [seen(over_100_ms=0.0)] * 6),  # nothing against nothing
        ("S105", [seen(rates=[200, 180, 60, 40, 40, 127])]),
        ("S107", [seen(rates=[500] * 6)] * 2),  # no bathtub is flat
        ("S116", [seen(rate=800.0), seen(rate=400.0), seen(rate=400.0)]),  # a gain of 1.00 times
        ("S196", [seen(ios=STEADY), seen(ios=STEADY)]),
        ("S199", [seen(ios=[20_000] * 1500 + [10_000] * 500)]),
        ("S200", [seen(stages=[("firmware", 60.0), ("gc", 40.0), ("nand", 0.0)])]),
    ],
)
def test_a_statement_fails_where_nothing_of_it_is_to_be_seen(row: str, runs: Any) -> None:
    known = next(one for one in load_plan().rows if one.published.id == row)
    assert known.bounds is not None
    try:
        value = STATEMENTS[known.statement](runs)
    except NotReached:
        return
    assert not known.bounds[0] <= value <= known.bounds[1]


def test_statements_hold_for_what_they_say() -> None:
    rows = {row.published.id: row for row in load_plan().rows}
    cases = {
        "S056": [seen(ios=STEADY)],
        "S105": [seen(rates=[200, 180, 40, 40, 40, 42])],
        "S107": [seen(rates=[540, 300, 200, 200, 300, 500])] * 2,
        "S116": [seen(rate=800.0), seen(rate=500.0), seen(rate=400.0)],
        "S199": [seen(ios=[20_000] * 900 + [10_000] * 1100)],
        "S200": [seen(stages=[("nand", 40.0), ("die", 20.0), ("gc", 40.0)])],
    }
    for name, runs in cases.items():
        low, high = rows[name].bounds or (0, 0)
        assert low <= STATEMENTS[rows[name].statement](runs) <= high, name


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="nothing was published about 'sm950'"):
        load_plan().of_drives(["sm950"])
    with pytest.raises(UserError, match="no such row"):
        load_plan().only(["S9999"])


@pytest.mark.parametrize("name", catalog.names())
def test_every_value_of_the_catalog_lies_in_its_range_and_has_a_source(name: str) -> None:
    found = 0
    for place, leaf in leaves(catalog.load(name).raw, name):
        assert leaf["source"].strip(), place
        if "range" in leaf:
            low, high = leaf["range"]
            values = leaf["value"] if isinstance(leaf["value"], list) else [leaf["value"]]
            assert all(low <= value <= high for value in values), place
            found += 1
    assert found > 20


def leaves(node: Any, place: str) -> Any:
    """Every {value, source} below a node, with its place."""
    if isinstance(node, dict) and "value" in node:
        yield place, node
    elif isinstance(node, dict | list):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, inner in items:
            yield from leaves(inner, f"{place}.{key}")


HARDWARE = {
    "nand": {"channels", "dies_per_channel", "read_us", "read_by_type_us", "program_us"},
    "controller": {"read_path_mb_per_s", "read_command_us"},
    "energy": {"idle_mw", "active_mw", "program_4k_uj"},
}
COMPARED = {
    "samsung-850-pro-512", "samsung-840-pro-512", "sandisk-extreme-pro-480",
    "corsair-neutron-xt-480", "plextor-m6e-512",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(COMPARED))
def test_a_comparison_drive_has_its_own_hardware(name: str) -> None:
    """In its file, or by its classes, which are no other drive's."""
    own = tomllib.loads((TOP / "drives" / f"{name}.toml").read_text())
    for section, keys in HARDWARE.items():
        assert keys <= set((own if "base" in own else catalog.load(name).raw)[section]), section
    assert own["drive"].keys() >= {"controller", "flash"}


def test_a_stand_in_is_called_one_wherever_it_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_ins = [drive for drive in map(catalog.load, catalog.names()) if drive.stand_in]
    families = {"sn850x": (1, 2), "t700": (1, 2), "sn770": (1,), "p41-plus": (1, 2)}
    families |= {"9100-pro": (2, 4), "sn7100": (1,)}
    today = {f"{name}-{size}tb" for name, sizes in families.items() for size in sizes}
    servers = {
        "pm9a3-960", "7450-pro-960", "7450-max-800", "p5520-1920", "p4800x-375", "p5336-61440",
        "zn540-1tb", "cm7-r-3840", "pm1743-1920", "pm1743-7680", "9550-pro-7680", "pm9d3a-7680",
        "p5430-15360",
    }  # fmt: skip
    expected = COMPARED - {"samsung-850-pro-512"} | today | servers
    assert {drive.name for drive in stand_ins} == expected
    assert run(["drives"]) == 0
    listed = capsys.readouterr().out
    drive = stand_ins[0]
    assert drive.title.endswith(" (stand-in)") and drive.title in listed
    assert drive.stand_in is not None and drive.stand_in not in listed
    assert listed.count("(stand-in)") == len(stand_ins) + 1
    assert run(["drives", drive.name]) == 0
    assert drive.stand_in in capsys.readouterr().out
    target = made_result.VIRTUAL | {"title": drive.title, "stand_in": drive.stand_in}
    folder = made_result.make(tmp_path / "made", only=("random-read",), target=target)
    assert run(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert f"Stand-in: {drive.stand_in}." in page and drive.title in page


def test_a_family_member_is_whole_and_differs_by_what_it_says(tmp_path: Path) -> None:
    base, member = catalog.load("sm951-ahci-512"), catalog.load("sm951-ahci-256")
    assert member.raw["controller"] == base.raw["controller"]
    assert member.raw["nand"]["dies_per_channel"]["value"] == 4
    assert "base" not in member.raw
    text = 'base = "{}"\nwithout = ["{}"]\n[drive]\nname = "mine"\n'
    path = tmp_path / "mine.toml"
    path.write_text(text.format("sm951-ahci-512", "gc.idle"))
    assert "idle" not in catalog.load(path).raw["gc"]
    for words, said in (
        (("sm951", "read_ahead"), "base 'sm951' is"),
        (("xp941-512", "x.y"), "x.y"),
    ):
        path.write_text(text.format(*words))
        with pytest.raises(UserError, match=said):
            catalog.load(path)


def test_the_whole_validation_names_rows_that_come_out_otherwise() -> None:
    """For `make test-long`: a row that is off as before is no failure, one that moves is."""
    differences = runpy.run_path(str(TOP / "scripts" / "validation.py"))["differences"]
    assert differences(RECORDED, RECORDED) == []
    assert not all(row["ok"] for row in RECORDED["rows"])
    moved = copy.deepcopy(RECORDED)
    first, second, *_ = moved["rows"]
    first["reproduced"], gone = -1.0, second["id"]
    moved["rows"].remove(second)
    assert [line.split(":")[0] for line in differences(RECORDED, moved)] == [gone, first["id"]]
