"""Classes of drives: defaults laid under a profile, errors, and counts of values.

`profiles.txt` has a hash of each drive's values and ranges with everything that it inherits: a
class that is edited changes all drives that take its default, and those are listed here.
"""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from drivebay.common import data
from drivebay.common.errors import UserError
from drivebay.definitions import families, profiles

TOP = Path(__file__).resolve().parent.parent
HASHES = Path(__file__).with_name("profiles.txt")
GUIDE = (TOP / "docs/guides/add-a-drive.md").read_text()
COUNT = runpy.run_path(str(TOP / "scripts/count_values.py"))
NEW_MAX = 25
# Half of the values and guesses before there were classes, and those of nine later drives.
VALUES_MAX, GUESSES_MAX = 783 + 212, 518 + 119
DRIVE = """
[drive]
name = "mine"
title = "Mine"
host = "windows-11-desktop"
"""


def without_sources(raw: Any) -> Any:
    if isinstance(raw, dict):
        return {key: without_sources(inner) for key, inner in raw.items() if key != "source"}
    return [without_sources(inner) for inner in raw] if isinstance(raw, list) else raw


def digest(raw: dict[str, Any]) -> str:
    text = json.dumps(without_sources(raw), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_a_profile_has_the_values_that_it_had() -> None:
    """After an intended change: `python tests/test_classes.py`."""
    then = dict(line.split() for line in HASHES.read_text().splitlines())
    now = {name: digest(profiles.load(name).resolved()) for name in profiles.names()}
    assert [name for name in now | then if now.get(name) != then.get(name)] == []


def test_a_class_has_defaults_and_the_profile_comes_last() -> None:
    own = {"classes": ["nvme", "client", "no-dram"], "nand": {"channels": {"value": 2}}}
    whole = families.CLASSES.whole(own, where="mine")
    assert whole["nand"]["channels"] == {"value": 2}
    assert whole["write_buffer"]["size_kib"]["value"] == 4096  # no-dram's, not client's
    assert whole["host_interface"]["protocol"]["value"] == "nvme"
    assert "classes" not in whole
    whole["reliability"].clear()
    assert families.CLASSES.load("nvme")["reliability"]


@pytest.mark.parametrize(
    ("head", "message", "hint"),
    [
        ('classes = ["nvme", "cleint"]', "class 'cleint' is unknown", "did you mean client"),
        ('classes = "nvm"', "class 'nvm' is unknown", "did you mean nvme"),
        ("classes = [1]", "class '1' is unknown", "use b58r, bics5"),
        ("classes = { nvme = 1 }", "is unknown", "use b58r, bics5"),
        ('classes = ["nvme"]\nbase = "sn770-1tb"', "a base and classes", "remove classes"),
        ('classes = ["nvme"]\nwithout = ["gc.pace"]', "no such value", "names are section.key"),
        ('classes = ["nvme"]', "missing field", "compare with a profile"),
    ],
)
def test_a_wrong_class_is_one_error(tmp_path: Path, head: str, message: str, hint: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(head + DRIVE)
    with pytest.raises(UserError, match=message) as refused:
        profiles.load(path)
    assert str(refused.value).startswith(str(path)) and "\n" not in str(refused.value)
    assert refused.value.hint and hint in refused.value.hint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('[nand]\nread_us = { value = "slow", source = "x" }', "nand.read_us"),
        ("[nand]\nread_us = { value = 40 }", "nand.read_us"),
        ('[nand]\nreads_us = { value = 40, source = "x" }', "reads_us"),
        ("[nand]\nread_us = {", "bics5.toml is not TOML"),
    ],
)
def test_a_wrong_value_of_a_class_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    for room in ("drives", "classes", "hosts"):
        shutil.copytree(TOP / room, tmp_path / room)
    (tmp_path / "classes/bics5.toml").write_text(line)
    monkeypatch.setattr(data, "path", lambda name: tmp_path / name)
    path = tmp_path / "mine.toml"
    path.write_text((TOP / "drives/sn770-1tb.toml").read_text())
    families._own.cache_clear()
    try:
        with pytest.raises(UserError, match=re.escape(message)) as refused:
            profiles.load(path)
    finally:
        families._own.cache_clear()
    assert "\n" not in str(refused.value) and refused.value.hint


def test_every_class_is_used_and_in_the_guide() -> None:
    used = set()
    for path in (TOP / "drives").glob("*.toml"):
        used |= set(tomllib.loads(path.read_text()).get("classes", ()))
    listed = re.findall(r"^\| (`[^|]*`) \|", GUIDE.split("### Classes")[1], re.MULTILINE)
    known = {name for cell in listed for name in re.findall(r"`([\w-]+)`", cell)}
    assert used == {*families.CLASSES.names()} <= known


def test_a_new_drive_of_known_classes_has_few_values_of_its_own(tmp_path: Path) -> None:
    (text,) = re.findall(r"<!-- file: my-client.toml -->\n```toml\n(.*?)```", GUIDE, re.DOTALL)
    path = tmp_path / "my-client.toml"
    path.write_text(text)
    assert profiles.load(path).drive_class == "NVMe"
    assert sum(COUNT["counts"](path)[::2]) <= NEW_MAX


def test_half_of_the_values_are_stated_once() -> None:
    values, guesses, *_ = COUNT["total"]("drives")
    assert values <= VALUES_MAX and guesses <= GUESSES_MAX
    of_classes, *_ = COUNT["total"]("classes")
    assert of_classes < values / 2


def test_a_value_of_a_class_does_not_change_with_a_drive() -> None:
    """Drives of the same class do not share what one of them may change."""
    one, other = profiles.load("sn770-1tb").resolved(), profiles.load("sn850x-1tb").resolved()
    one["nand"]["read_us"]["value"] = 1
    assert other["nand"]["read_us"] == profiles.load("sn770-1tb").raw["nand"]["read_us"]
    identify, drive = one["identify"]["model"], one["drive"]["model"]
    assert identify == drive and identify is not drive


if __name__ == "__main__":
    lines = [f"{name} {digest(profiles.load(name).resolved())}\n" for name in profiles.names()]
    HASHES.write_text("".join(lines))
