"""The commands explain and report as typed: tables, JSON, pictures, the Bench, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import made_result
import pytest

from drivebay.cli.entry import run

ONLY = ("random-read", "thermal-write")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("typed")
    other = {**made_result.VIRTUAL, "title": "Another drive"}
    return [
        made_result.make(base / "one", only=ONLY),
        made_result.make(base / "two", only=ONLY, target=other, seed=2),
        made_result.make(base / "real", only=ONLY, target=made_result.REAL),
    ]


def test_explain_prints_stages_and_sentences(
    folders: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(folders[0]), "random-read"]) == 0
    text = capsys.readouterr().out
    assert "QD 32" in text and "nand: flash read, program or erase" in text
    assert "At QD 1 the mean latency is" in text


def test_explain_sets_two_drives_side_by_side(
    folders: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["explain", str(folders[0]), "random-read", "--against", str(folders[1])]
    assert run(command) == 0
    text = capsys.readouterr().out
    assert "Samsung SM951 512 GB (AHCI), µs" in text and "Another drive, µs" in text
    assert run([*command, "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in table["drives"]][1] == "Another drive"
    for gap in table["gaps"]:
        assert sum(part["us"] for part in gap["parts"]) == pytest.approx(gap["us"])
    assert len(table["sentences"]) == len(table["gaps"]) == 6


def test_the_report_of_two_drives_has_the_gap_between_them(
    folders: list[Path], tmp_path: Path
) -> None:
    pages = []
    for place, words in (
        (tmp_path / "one.html", folders[:1]),
        (tmp_path / "two.html", folders[:2]),
    ):
        assert run(["report", *map(str, words), "--out", str(place)]) == 0
        pages.append(place.read_text())
    alone, both = pages
    assert "random-read-stages-time" in alone and "random-read-gap" not in alone
    assert 'data-chart="random-read-gap"' in both and "Latency difference by stage" in both
    assert "Another drive" in both and "Another drive" not in alone


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "one", "randomread"], "has no test 'randomread'"),
        (["explain", "one", "random-write"], "it is pending"),
        (["explain", "real", "random-read"], "cannot be split into stages"),
        (["explain", "nowhere", "random-read"], "does not exist"),
        (["explain", "one", "random-read", "--against", "real"], "cannot be split into stages"),
        (["report", "nowhere", "--out", "bench"], "does not exist"),
        (["report", "nowhere", "--png", "pictures"], "does not exist"),
        (["report", "one", "--out", "."], "is not a Bench"),
    ],
)
def test_mistakes_are_two_lines(
    folders: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(folders[0].parent)
    assert run(words) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ") and message in error and hint.startswith("hint: ")


def test_report_makes_the_bench_and_names_what_it_left_out(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    words = [str(one) for one in [*folders[:2], tmp_path / "empty"]]
    assert run(["report", *words, "--out", str(tmp_path / "bench")]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{tmp_path}/bench/index.html\n"
    assert "warning: skipped: " in shown.err and "holds no result" in shown.err


def test_pictures_are_listed(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", str(folders[2]), "--png", str(tmp_path / "p")]) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert paths and all(path.is_file() for path in paths)
    assert "measured" in (tmp_path / "p" / "random-read-rate.svg").read_text()
