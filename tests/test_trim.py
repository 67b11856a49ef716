"""TRIM validation: on loop devices with and without hole punching, on files, and on liars."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import made_test
from loops import loop, needs_root, run, sparse

from drivebay.analysis.figures import Measured
from drivebay.analysis.measure import measure
from drivebay.common import programs
from drivebay.definitions import profiles as catalog
from drivebay.definitions.suites import Phase, Test
from drivebay.results.records import SERIES_SCHEMA, PhaseResult
from drivebay.targets.base import Progress, Target
from drivebay.targets.fio import trim
from drivebay.targets.fio.target import FioTarget
from drivebay.targets.safety import purge, target_device
from drivebay.targets.safety.handle import ExclusiveHandle
from drivebay.targets.safety.target_device import OverwritePermission
from drivebay.targets.trim_verdict import EXTENT_BYTES, Claims, Validation
from drivebay.targets.virtual.target import VirtualTarget

SIZE = 64 * 2**20


@contextlib.contextmanager
def held(path: str, serial: str | None = None) -> Iterator[ExclusiveHandle]:
    handle = ExclusiveHandle(target_device.find(path), permission=OverwritePermission(serial))
    try:
        yield handle
    finally:
        handle.close()


def validated(path: str, serial: str | None = None) -> Validation:
    with held(path, serial) as handle:
        return trim.validate(handle, seed=3, pause_s=0.01)


@needs_root
def test_a_loop_whose_backing_file_can_have_holes(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", SIZE)
    with loop(backing) as device:
        found = validated(device, str(backing))
    assert found.claims == Claims(True, "zeros", True, "loop driver")
    assert (found.verdict, found.reads_after, found.deterministic) == ("works", "zeros", True)
    assert found.neighbours_intact and found.as_claimed
    assert found.blocks == 3 * EXTENT_BYTES // 2 // 4096
    kept = backing.stat().st_blocks * 512
    assert kept < 3 * EXTENT_BYTES // 2 + 2**20, "the loop has given the space back"


@needs_root
def test_a_loop_whose_backing_file_cannot_have_holes(tmp_path: Path) -> None:
    """ramfs knows no fallocate, so the loop offers no discard."""
    place = tmp_path / "ram"
    place.mkdir()
    run("mount", "-t", "ramfs", "none", str(place))
    try:
        backing = sparse(place / "disk.img", SIZE)
        with loop(backing) as device:
            found = validated(device, str(backing))
    finally:
        run("umount", str(place))
    assert found.verdict == "not offered" and "not supported here" in found.why_not
    assert not found.claims.discards and found.as_claimed is None
    assert found.old_blocks == found.blocks and found.neighbours_intact
    assert found.reads_after == "old data", "the pattern is there as it was written"


def test_a_file(tmp_path: Path) -> None:
    found = validated(str(sparse(tmp_path / "disk.img", SIZE)))
    assert (found.verdict, found.reads_after, found.as_claimed) == ("works", "zeros", True)
    assert found.neighbours_intact


def liar(keeps: int) -> object:
    """A discard that says it is done and forgets only what lies after `keeps` of each extent."""

    def discards(fd: int, kind: str, start: int, length: int) -> None:
        for place in range(start + keeps, start + length, 4096):
            os.pwrite(fd, bytes(4096), place)

    return discards


@pytest.mark.parametrize(
    ("keeps", "verdict", "reads_after"),
    [(EXTENT_BYTES // 2, "does nothing", "old data"), (2**20, "works in part", "mixed")],
)
def test_a_discard_that_lies(
    tmp_path: Path, keeps: int, verdict: str, reads_after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "_discard", liar(keeps))
    found = validated(str(sparse(tmp_path / "disk.img", SIZE)))
    assert (found.verdict, found.reads_after, found.as_claimed) == (verdict, reads_after, False)
    assert found.old_blocks == 3 * min(keeps, EXTENT_BYTES // 2) // 4096


def test_reads_that_change_and_a_discard_that_takes_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sparse(tmp_path / "disk.img", SIZE)

    def takes_more(fd: int, kind: str, start: int, length: int) -> None:
        os.pwrite(fd, bytes(length + 4096), start)

    monkeypatch.setattr(purge, "_discard", takes_more)
    found = validated(str(file))
    assert found.verdict == "works" and found.neighbours_intact is False
    monkeypatch.undo()
    reads: list[int] = []
    read = trim._read

    def changes(handle: ExclusiveHandle, places: list[int], timed: trim.Timed) -> list[bytes]:
        reads.append(1)
        if len(reads) in (3, 4, 5):  # after one of the outer parts and one of the inner
            return [os.urandom(4096)] * len(places)
        return read(handle, places, timed)

    monkeypatch.setattr(trim, "_read", changes)
    found = validated(str(file))
    assert (found.verdict, found.reads_after, found.deterministic) == ("works", "other", False)
    assert found.as_claimed is False


def test_what_cannot_be_written_is_no_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sparse(tmp_path / "disk.img", SIZE)
    monkeypatch.setattr(purge.DirectIo, "write", lambda *_: None)
    with pytest.raises(OSError, match="cannot be read back") as caught:
        validated(str(file))
    assert caught.value.errno == errno.EIO


@needs_root
@pytest.mark.parametrize(
    ("bus", "said", "expected"),
    [
        ("nvme", json.dumps({"dlfeat": 9}), ("zeros", True)),
        ("nvme", json.dumps({"dlfeat": 2}), ("ones", True)),
        ("nvme", json.dumps({"dlfeat": 0}), (None, None)),
        ("nvme", "no", (None, None)),
        ("sata", "\t   *\tDeterministic read ZEROs after TRIM\n", ("zeros", True)),
        ("sata", "\t   *\tDeterministic read data after TRIM\n", (None, True)),
        ("sata", "\t   *\tData Set Management TRIM supported (limit 8 blocks)\n", (None, None)),
    ],
)
def test_claims(
    tmp_path: Path,
    bus: str,
    said: str,
    expected: tuple[str | None, bool | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("nvme", "hdparm"):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(trim, "bus_of", lambda _: bus)
    assert programs.find("nvme") == str(tmp_path / "nvme")
    backing = sparse(tmp_path / "disk.img", SIZE)
    with loop(backing) as device, held(device, str(backing)) as handle:
        claims = trim.claims(handle)
    assert (claims.reads_after, claims.deterministic) == expected
    assert claims.discards


def suite_test() -> Test:
    halves = (("written", False), ("discarded", True))
    phases = [
        {"label": label, "trim": {"discard": discard, "extent_bytes": 2**20, "reads": 2}}
        for label, discard in halves
    ]
    return made_test(*map(Phase.model_validate, phases), id="trim", page="trim", kind="trim-check")


def measured(target: Target) -> tuple[Measured, list[PhaseResult]]:
    test = suite_test()
    with contextlib.closing(target):
        target.check((test,))
        found = target.run_test(test, seed=7, progress=Progress())
    return measure(test, found), found


def test_as_a_suites_test_on_a_file_and_on_a_virtual_drive(tmp_path: Path) -> None:
    file = sparse(tmp_path / "disk.img", 2**30)
    for target in (FioTarget(file), VirtualTarget(catalog.load("sm951-nvme-256"))):
        shown, phases = measured(target)
        assert shown.trim is not None and shown.trim.good
        assert shown.figures["old_share"].value == 0 and shown.figures["old_share"].n == 384
        assert [(phase.reads, phase.writes) for phase in phases] == [(768, 0)] * 2
        for phase in phases:
            assert phase.series.schema == SERIES_SCHEMA
            assert sum(phase.series["reads"].to_pylist()) == 768
            assert sum(phase.histogram["count"].to_pylist()) == 768
        said = shown.trim.sentences()
        halves = (shown.figures[f"latency_mean_{half.label}"] for half in phases)
        before, after = (one.value or 0.0 for one in halves)
        assert before > 0 and after > 0
    # Without its flash; before, reads in order were read ahead.
    assert after < before, "the virtual drive answers sooner"
    assert said[1] == "Reads after it return zeros, the same at every read"
    file.unlink()


def test_a_suites_test_tells_a_discard_that_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "_discard", liar(2**18))
    file = sparse(tmp_path / "disk.img", 2**30)
    shown, _ = measured(FioTarget(file))
    file.unlink()
    assert shown.trim is not None and not shown.trim.good
    assert shown.figures["old_share"].value == 50.0
    assert shown.trim.sentences() == [
        "TRIM works in part: 192 of 384 discarded blocks of 4 KiB return old data",
        "Reads after it return a mixture, the same at every read",
        "That is not what was claimed: zeros, the same each time (fallocate(2))",
    ]
