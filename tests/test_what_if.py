"""What-ifs: what a person may type, what the drive becomes, and what is refused with what hint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from here import drivebay

from drivebay import library
from drivebay.analysis.modified import changes
from drivebay.common.errors import UserError
from drivebay.definitions import leaves
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import FIRMWARE, changed

TOP = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def drive() -> catalog.Profile:
    return catalog.load("sm951-ahci-512")


def test_nothing_changes_nothing(drive: catalog.Profile) -> None:
    assert changed(drive, []) is drive
    assert changes({"profile": drive.raw}) == ()


def test_changes_add_up_and_are_named_as_they_were_asked_for(drive: catalog.Profile) -> None:
    words = ["heatsink", "unused=25%", "link=pcie2x4", "ambient_c=30"]
    made = changed(drive, words)
    assert made.capacity_bytes == pytest.approx(drive.capacity_bytes * 0.75, rel=1e-6)
    assert made.capacity_bytes % 4096 == 0
    assert made.interface == "AHCI, PCIe 2.0 x4"
    assert made.raw["thermal"]["network"]["heatsink"]["to_air_k_per_w"]["value"] == 5
    assert made.raw["thermal"]["ambient_c"]["value"] == 30
    assert set(changes({"profile": made.raw})) == {
        "heatsink",
        "unused = 25 %",
        "link = PCIe 2.0 x4",
        "thermal.ambient_c = 30",
    }


@pytest.mark.parametrize(
    ("word", "path", "value"),
    [
        ("nand.program_us=[500, 900]", ("nand", "program_us"), [500, 900]),
        ("cache_program=false", ("nand", "cache_program"), False),
        ("gc.victim_policy=fifo", ("gc", "victim_policy"), "fifo"),
        ("duty_growth = 10", ("gc", "duty_growth"), 10),
        ("ignore_flush", ("write_buffer", "ignore_flush"), True),
        ("ignore_flush=false", ("write_buffer", "ignore_flush"), False),
        ("sanitize_overwrite", ("controller", "sanitize_overwrite"), True),
    ],
)
def test_any_value_by_its_name(
    drive: catalog.Profile, word: str, path: tuple[str, str], value: Any
) -> None:
    assert changed(drive, [word]).raw[path[0]][path[1]]["value"] == value


@pytest.mark.parametrize(("word", "share"), [("7%", 0.07), ("0.07", 0.07), ("28 %", 0.28)])
def test_over_provisioning_is_spare_over_user_capacity(
    drive: catalog.Profile, word: str, share: float
) -> None:
    made = changed(drive, [f"over_provisioning={word}"])
    assert made.flash_bytes / made.capacity_bytes - 1 == pytest.approx(share, rel=1e-4)
    assert made.flash_bytes == drive.flash_bytes
    (said,) = changes({"profile": made.raw})
    assert said.startswith(f"over_provisioning = {100 * share:g} % (") and said.endswith(" GB)")
    with pytest.raises(UserError, match=r"must be from 0% to 900%, the share of physical less"):
        changed(drive, ["over_provisioning=25"])


def test_a_value_in_a_list(drive: catalog.Profile) -> None:
    made = changed(drive, ["thermal.throttle.0.on_c=60"])
    assert made.raw["thermal"]["throttle"][0]["on_c"]["value"] == 60


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("heatsnk", "no such variant", "did you mean heatsink?"),
        ("link", "a value is missing", "--set link=pcie2x4"),
        ("link=sata", "must be pcieGxL", "--set link=pcie2x4"),
        ("link=pcie3x3", "lanes: 3 is not allowed", "link=pcie2x4"),
        ("unused=95%", "from 0% to 90%", "unused=25%"),
        ("unused=25", "from 0% to 90%", "unused=0.25"),
        ("unused=much", "from 0% to 90%", "unused=25%"),
        ("ambient_c=warm", "must be a number", "--set thermal.ambient_c=25"),
        ("ambient_c=9000", "not allowed", "--set thermal.ambient_c=25"),
        ("cache_program=1", "must be true or false", "--set nand.cache_program=true"),
        ("ambient=30", "no such value", "did you mean ambient_c?"),
        ("fdp.handles=3", "no such value", "before it, make that section: --set fdp=8"),
        ("on_c=60", "more than one section", "--set thermal.throttle.0.on_c=60"),
        ("variants.heatsink=1", "no such value", "--set"),
        ("", "no such variant", "--set heatsink"),
    ],
)
def test_what_is_no_change_is_refused_with_something_to_type(
    drive: catalog.Profile, word: str, message: str, hint: str
) -> None:
    with pytest.raises(UserError) as problem:
        changed(drive, [word])
    assert message in problem.value.message and hint in problem.value.hint
    assert "\n" not in problem.value.message + problem.value.hint


def test_a_changed_drive_is_shown_beside_the_original_and_can_be_resumed(tmp_path: Path) -> None:
    library.drive("sm951-nvme-128").scaled(1 / 64).save(tmp_path / "small.toml")
    plain = ["review", "small.toml", "--suite", "quick", "--quick", "--only", "random-read"]
    alone = drivebay(*plain, "--set", "link=pcie1x1", cwd=tmp_path)
    assert alone.returncode == 0 and f"drivebay review {tmp_path}/small.toml" in alone.stderr
    assert drivebay(*plain, cwd=tmp_path).returncode == 0
    done = drivebay(*plain, "--set", "link=pcie1x1", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert "link-pcie-1.0-x1" in summary["result"]
    page = (tmp_path / summary["comparison"]).read_text()
    assert "Changed: link = PCIe 1.0 x1" in page and "Largest differences" in page
    again = drivebay("review", "--resume", summary["result"], cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    for refused in (
        ["review", "--resume", summary["result"], "--set", "heatsink"],
        ["review", "./disk.img", "--set", "heatsink"],
        [*plain, "--baseline", summary["result"]],
        [*plain, "--set", "link=pcie1x1", "--baseline", "nowhere"],
    ):
        wrong = drivebay(*refused, cwd=tmp_path)
        assert wrong.returncode == 2 and "hint:" in wrong.stderr, refused


def test_a_firmware_goes_to_another_drive_without_host_and_hardware() -> None:
    one, other = catalog.load("sm951-nvme-512"), catalog.load("xp941-512")
    made = changed(one, ["firmware=xp941-512"])
    theirs, mine, before = (
        {path: leaf["value"] for path, leaf in leaves.every(of.raw)} for of in (other, made, one)
    )
    own = ("gc.threshold_mb", "gc.target_mb", "gc.idle.free_mb")  # amounts of the drive's own flash
    of_firmware = {path for path in {*theirs, *mine} if path.partition(".")[0] in FIRMWARE}
    assert len(of_firmware) > 20
    for path in of_firmware - set(own):
        assert mine.get(path) == theirs.get(path), path
    assert [mine[path] for path in own] == [before[path] for path in own]
    assert made.raw["controller"] != one.raw["controller"]
    rest = set(one.raw) - set(FIRMWARE)
    assert {key: made.raw[key] for key in rest} == {key: one.raw[key] for key in rest}
    assert changes({"profile": made.raw}) == ("firmware = xp941-512",)


@pytest.mark.parametrize("name", ["sm951-ahci-512", "980-pro-1tb", "p41-plus-1tb", "pm9a3-960"])
def test_its_own_firmware_changes_nothing(name: str) -> None:
    drive = catalog.load(name)
    assert changed(drive, [f"firmware={name}"]).json() == drive.json()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("firmware=none", "not in the catalog"),
        ("firmware=p4800x-375", "gc"),
        ("firmware", "value is missing"),
    ],
)
def test_a_firmware_that_cannot_be_is_refused(
    drive: catalog.Profile, word: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        changed(drive, [word])
