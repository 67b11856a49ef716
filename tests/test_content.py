"""What is written: in a suite's file, and through fio as bytes."""

from __future__ import annotations

import math
import statistics
import zlib
from pathlib import Path

import pytest
from real_files import MIB, a_test, file, keep_the_disk_free, load, results

from drivebay.common.errors import UserError
from drivebay.definitions import suites
from drivebay.definitions.suites import Content, Prepare

__all__ = ["file", "keep_the_disk_free"]

SUITE = """
schema_version = 1
name = "mine"
title = "Mine"
description = "x"
source = "x"
[[tests]]
id = "write"
title = "Write"
page = "random"
kind = "loads"
method = "x"
source = "x"
prepare = [{{ kind = "fill", content = "zero" }}]
[tests.workload]
pattern = "random"
read_percent = 0
block_bytes = 4096
queue_depth = 32
duration_s = 1
{line}
"""


def suite(tmp_path: Path, line: str) -> suites.Suite:
    path = tmp_path / "mine.toml"
    path.write_text(SUITE.format(line=line))
    return suites.load(path)


@pytest.mark.parametrize(
    ("line", "percent"),
    [
        ("", 0),
        ('content = "random"', 0),
        ('content = "zero"', 100),
        ("content = { compressible_percent = 30 }", 30),
        ("content = 45", 45),
    ],
)
def test_a_content_by_name_or_by_percent(tmp_path: Path, line: str, percent: int) -> None:
    (test,) = suite(tmp_path, line).tests
    assert test.phases[0].workload.content.compressible_percent == percent
    assert test.prepare[0].content == Content(compressible_percent=100)
    again = suites.Suite.model_validate_json(suite(tmp_path, line).model_dump_json())
    assert again.tests[0] == test, "as the manifest keeps it"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('content = "zeros"', "workload.content: 'zeros' is not allowed; must be \"random\""),
        ("content = 1.5", "workload.content: 1.5 is not allowed"),
        ("content = { compressible_percent = 101 }", "content.compressible_percent: 101 is not"),
        ("content = 101", "content.compressible_percent: 101 is not"),
        ("block_bytes_max = 6144", "block_bytes_max: 6144 is not allowed; must be a multiple of"),
        ("until_written_percent = 0", "until_written_percent: 0 is not allowed; must be"),
    ],
)
def test_a_wrong_content_size_or_end_is_named(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        suite(tmp_path, line)
    assert says in caught.value.message and "test 'write'" in caught.value.message


def test_fio_writes_what_the_content_says(file: Path) -> None:
    """Zeros are zeros; of partly compressible data zlib leaves that much less of every 4 KiB.

    fio makes random data by multiplying a random seed of 64 bits. A seed that ends in zero bits
    keeps them: with one byte of zeros, as one in thirty has, a half becomes 0.49, with three 0.39.
    """
    extents = [("zero", 0), ("half", 1), ("random", 2)]
    contents = {"zero": 100, "half": 50, "random": 0}
    phases = [
        (
            name,
            load(
                pattern="sequential",
                block_bytes=65_536,
                duration_s=60,
                until_written_percent=2,  # of the capacity: the span, more than once
                span_bytes=4 * MIB,
                span_start_percent=25.0 * place,
                span_percent=25,
                content=Content(compressible_percent=contents[name]),
            ),
        )
        for name, place in extents
    ]
    results(file, a_test(*phases))
    left = {}
    with file.open("rb") as written:
        for name, place in extents:
            written.seek(file.stat().st_size // 4 * place)
            data = written.read(4 * MIB)
            assert data.count(0) < len(data) or name == "zero"
            pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
            left[name] = [len(zlib.compress(page, 1)) / 4096 for page in pages[::16]]
    assert max(left["zero"]) < 0.02
    assert min(left["half"]) > 0.38 and max(left["half"]) < 0.55, "in every single page"
    assert 0.48 < statistics.median(left["half"]) < 0.53
    assert min(left["random"]) > 0.7, "large writes reuse their buffers, stamped anew"
    assert statistics.median(left["random"]) > 0.88


def test_fio_fills_with_a_content_and_draws_sizes(file: Path) -> None:
    """A fill of zeros over old data; sizes are multiples of the smaller up to the larger."""
    many = load(block_bytes=4096, block_bytes_max=16_384, queue_depth=1, span_bytes=MIB)
    fill = Prepare(kind="fill", span_bytes=MIB, content=Content(compressible_percent=100))
    (first, second) = results(
        file, a_test(("sizes", many), ("again", many.model_copy(update={"duration_s": 0.2})))
    )
    assert first.write_bytes % 4096 == 0
    mean, sd = first.write_bytes / first.writes / 4096, 1.118 / math.sqrt(first.writes)
    assert abs(mean - 2.5) < 5 * sd, "the mean of 1, 2, 3 and 4 is 2.5"
    assert second.writes > 0
    (_,) = results(file, a_test(("run", load(read_percent=100)), prepare=(fill,)))
    with file.open("rb") as written:
        assert not any(written.read(MIB))
