"""The conditions of a whole review, from its folder: each validity warning once, with its tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from fakes import FakeTarget, small_suite

from drivebay import analysis, results, review
from drivebay.definitions.suites import Test
from drivebay.report.pages.reference import conditions as conditions_of
from drivebay.results.records import TELEMETRY_SCHEMA, PhaseResult
from drivebay.targets.base import Progress

ROWS = [(-0.5, "drive.temperature_c", 40.0), (0.5, "drive.temperature_c", 41.0)]


class Watched(FakeTarget):
    """A real drive whose every test has conditions and telemetry."""

    def run_test(self, test: Test, *, seed: int, progress: Progress) -> list[PhaseResult]:
        first, *rest = super().run_test(test, seed=seed, progress=progress)
        hot = test.id == "thermal-write"
        conditions: dict[str, Any] = {
            "warnings": ["virtual", "hot"] if hot else ["virtual"],
            "telemetry": {
                "read": ["drive temperature"],
                "absent": [{"source": "drive power", "why": "no sensor here"}],
                "seconds": 10,
                "missed_seconds": 1 if hot else 0,
            },
            "host": {"kernel": "Linux 6.1"},
            "link": None,
        }
        table = pa.table(list(zip(*ROWS, strict=True)), schema=TELEMETRY_SCHEMA)
        return [replace(first, conditions=conditions, telemetry=table), *rest]


def test_conditions_of_a_review(tmp_path: Path) -> None:
    out = review.run(lambda: Watched(kind="block"), small_suite(), out=tmp_path / "r")
    result = results.load(out)
    found = analysis.conditions(result)
    tests = tuple(test.id for test in small_suite().tests)
    assert found.warnings == (
        analysis.ValidityWarning("virtual", tests),
        analysis.ValidityWarning("hot", ("thermal-write",)),
    )
    assert found.absent == {"drive power": "no sensor here"}
    assert (found.seconds, found.missed_seconds) == (40, 1)
    assert found.host == {"kernel": "Linux 6.1"} and found.read == ("drive temperature",)
    step = result.step("random-read")
    table = step.table("telemetry", "qd1")
    assert table is not None and table.select(["name", "second", "value"]).to_pylist() == [
        {"name": "drive.temperature_c", "second": second, "value": value}
        for second, value in ((-0.5, 40.0), (0.5, 41.0))
    ]
    assert not (other := step.table("telemetry", "qd2")) or other.num_rows == 0


def test_the_report_says_them_as_text(tmp_path: Path) -> None:
    result = results.load(
        review.run(lambda: Watched(kind="block"), small_suite(), out=tmp_path / "r")
    )
    words = "".join(str(part) for part in conditions_of(result))
    assert "Validity warnings" in words and "<li>hot (thermal-write)</li>" in words
    assert "40 seconds, 1 missed" in words and "no sensor here" in words
    virtual = results.load(review.run(FakeTarget, small_suite(), out=tmp_path / "v"))
    assert conditions_of(virtual) == []


def test_a_virtual_drive_has_none(tmp_path: Path) -> None:
    result = results.load(review.run(FakeTarget, small_suite(), out=tmp_path / "r"))
    found = analysis.conditions(result)
    assert found == analysis.Conditions((), {}, {}, (), 0, 0, None, {})
    assert result.steps[0].table("telemetry") is None


def test_warnings_that_differ_in_numbers_alone_are_told_once_by_the_worst() -> None:
    words = "other programs used {} % of the host's processors"
    told = {"a": words.format(9), "b": words.format(91), "c": words.format(13), "d": "hot"}
    warnings = tuple(analysis.ValidityWarning(line, (name,)) for name, line in told.items())
    whole = analysis.Conditions(warnings, {}, {}, (), 0, 0, None, {})
    assert [(one.test_ids, more) for one, more in whole.worst_of_each_kind()] == [
        (("b",), 2),
        (("d",), 0),
    ]


def test_of_phases_the_worst_is_the_one_of_most_bytes() -> None:
    words = "{}: {} of other I/O were read on the device meanwhile"
    told = [words.format("share-95", "526.8 MB"), words.format("share-5", "1.4 GB")]
    warnings = tuple(analysis.ValidityWarning(line, ("a",)) for line in told)
    whole = analysis.Conditions(warnings, {}, {}, (), 0, 0, None, {})
    assert [(one.sentence, more) for one, more in whole.worst_of_each_kind()] == [(told[1], 0)]
