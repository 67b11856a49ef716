"""Storage for models: traces of objects, where they lie, and what a drive gives them."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import drivebay
from drivebay import traces
from drivebay.cli.app import app
from drivebay.common.errors import UserError
from drivebay.library import objects

MIB = 2**20
KV = """Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase
10.0,Write,3000000,Tier-2,a,Prefill
10.5,Write,1000000,Tier-0,gpu,Prefill
11.0,Write,1000000,Tier-2,b,Prefill
12.0,Read,3000000,Tier-2,a,Decode
"""


def of(*accesses: tuple[float, str, int, int]) -> objects.Objects:
    at, op, key, size = zip(*accesses, strict=True)
    return objects.Objects(np.array(at), np.array(op) == "w", np.array(key), np.array(size))


def requests(placed: objects.Placed) -> list[tuple[str, int, int]]:
    found = []
    for columns in traces.batches(placed.trace.source(1)):
        names = [traces.OPS[op] for op in columns.op]
        found += list(
            zip(names, columns.offset_bytes.tolist(), columns.bytes.tolist(), strict=True)
        )
    return found


def test_kv_cache_benchmarks_log_is_read_by_its_tier(tmp_path: Path) -> None:
    path = tmp_path / "kv.csv"
    path.write_text(KV)
    found = objects.read(path)
    assert found.at_s.tolist() == [0, 1, 2] and found.is_write.tolist() == [True, True, False]
    assert found.bytes.tolist() == [3_000_000, 1_000_000, 3_000_000]
    assert found.key[0] == found.key[2] != found.key[1]
    assert len(objects.read(path, tier="Tier-0")) == 1
    for text, said in (
        (KV.replace("Tier,", "Rank,"), "no column Tier"),
        (KV.replace("Write", "Erase"), "operation 'erase'"),
        (KV.replace("Tier-2", "Tier-1"), "no rows of Tier-2"),
        (KV.replace("3000000", "many"), "must be numbers"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=said):
            objects.read(path)


def test_mooncakes_blocks_are_written_once_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 0, "hash_ids": [0, 1]}, {"timestamp": 1500, "hash_ids": [0, 2]}]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    found = objects.read(path, model="llama3.1-8b")
    assert found.at_s.tolist() == [0, 0, 1.5, 1.5] and found.key.tolist() == [0, 1, 0, 2]
    assert found.is_write.tolist() == [True, True, False, True]
    assert set(found.bytes.tolist()) == {512 * 131_072}
    with pytest.raises(UserError, match="no model 'gpt'"):
        objects.read(path, model="gpt")
    path.write_text(path.read_text() + "{}\n")
    with pytest.raises(UserError, match="line 3"):
        objects.read(path)


def test_slots_take_the_least_recently_used() -> None:
    asked = of(
        (0, "w", 1, MIB), (1, "w", 2, MIB), (2, "r", 1, MIB), (3, "w", 3, MIB), (4, "r", 2, MIB)
    )
    placed = objects.place(asked, 2 * MIB, "slots")
    assert (placed.misses, placed.evictions) == (1, 1)
    assert requests(placed) == [
        ("write", 0, MIB),
        ("write", MIB, MIB),
        ("read", 0, MIB),
        ("write", MIB, MIB),
    ]
    filed = requests(objects.place(asked, 2 * MIB, "files"))
    assert filed[3:] == [("trim", MIB, MIB), ("write", MIB, MIB)]


def test_a_log_goes_around_and_an_object_is_cut_into_requests() -> None:
    asked = of(
        (0, "w", 1, 2 * MIB + 1), (1, "w", 2, MIB), (2, "w", 3, MIB), (3, "r", 1, 2 * MIB + 1)
    )
    placed = objects.place(asked, 4 * MIB, "log")
    first, rest = requests(placed)[:3], requests(placed)[3:]
    assert first == [("write", 0, MIB), ("write", MIB, MIB), ("write", 2 * MIB, 4096)]
    assert rest == [("write", 2 * MIB + 4096, MIB), ("write", 0, MIB)]
    assert (placed.misses, placed.evictions) == (1, 1)
    with pytest.raises(UserError, match="does not fit"):
        objects.place(asked, MIB, "log")


def test_a_drive_is_sized_for_checkpoints() -> None:
    drive = drivebay.drive("970-evo-plus-1tb")
    asked = objects.checkpoints(size_bytes=1000 * MIB, every_s=20.0, count=3)
    found = objects.size(drive, asked, layout="log", scale=12 / 1104)
    length_s = 3 * 20.0 + 1
    assert found.write_mb_per_s == pytest.approx(3000 * MIB / 1e6 / length_s, rel=0.01)
    assert found.read_mb_per_s == pytest.approx(1000 * MIB / 1e6 / length_s, rel=0.01)
    assert found.written_tb_per_day == pytest.approx(found.write_mb_per_s * 0.0864, rel=1e-6)
    assert found.years_rated == pytest.approx(600 / found.written_tb_per_day / 365.25, rel=1e-6), (
        "of the whole drive, which was scaled for speed"
    )
    assert found.behind_s == 0 and found.waf >= 1 and found.power_w > 0
    assert found.write_us[0] <= found.write_us[1] <= found.write_us[2]
    hurried = objects.size(drive, asked, layout="log", scale=12 / 1104, speed=1000)
    assert hurried.behind_s > 0 and hurried.write_mb_per_s < 3300


def test_size_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "kv.csv"
    path.write_text(KV)
    run = CliRunner().invoke
    done = run(app, ["size", "970-evo-plus-1tb", str(path), "--scale", str(12 / 1104), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["misses"] == 0 and found["written_tb_per_day"] > 0
    for words in (["checkpoint:5GB"], ["checkpoint:5/x"], [str(tmp_path / "none.csv")]):
        assert run(app, ["size", "970-evo-plus-1tb", *words]).exit_code != 0
    for words, said in (
        (["checkpoint:600GB/600s"], "two checkpoints of 600GB do not fit the 900"),
        ([str(path), "--model", "gpt"], "no model 'gpt'"),
    ):
        refused = run(app, ["size", "970-evo-plus-1tb", *words])
        assert said in str(refused.exception)


def test_stripes_give_each_drive_its_part_and_mirrors_share_the_reads() -> None:
    asked = of((0, "w", 1, 3 * MIB), (1, "r", 1, 3 * MIB), (2, "w", 2, MIB // 4))
    one = requests(objects.place(asked, 8 * MIB, "log"))
    assert len(one) == 7 and one == requests(objects.place(asked, 8 * MIB, "log", width=1))
    # 512 KiB of each request of 1 MiB, one after the other; and the small one as a whole.
    striped = requests(objects.place(asked, 8 * MIB, "log", width=2))
    parts = [(op, number * MIB // 2, MIB // 2) for op in ("write", "read") for number in range(3)]
    assert striped == [*parts, ("write", 3 * MIB // 2, MIB // 4)]
    mirrored = requests(objects.place(asked, 8 * MIB, "log", copies=2))
    assert [op for op, _, _ in mirrored].count("write") == 4
    assert [op for op, _, _ in mirrored].count("read") in (1, 2)


def test_an_array_has_the_rates_of_all_drives_and_the_years_of_one() -> None:
    drive = drivebay.drive("970-evo-plus-1tb")
    asked = objects.checkpoints(size_bytes=400 * MIB, every_s=5.0)
    sizes = {"layout": "log", "scale": 12 / 1104}
    one, four, mirror = (
        objects.size(drive, asked, members=members, level=level, **sizes)  # type: ignore[arg-type]
        for members, level in ((1, "0"), (4, "0"), (2, "1"))
    )
    assert four.write_mb_per_s == pytest.approx(one.write_mb_per_s, rel=0.01)
    assert four.written_tb_per_day == pytest.approx(one.written_tb_per_day, rel=0.01)
    assert four.years_rated == pytest.approx(4 * (one.years_rated or 0), rel=0.01)
    assert four.longest_write_s < 0.5 * one.longest_write_s
    assert one.power_w < four.power_w < 4 * one.power_w
    assert mirror.years_rated == pytest.approx(one.years_rated, rel=0.01)
    assert mirror.read_mb_per_s == pytest.approx(one.read_mb_per_s, rel=0.05)
    for members, level in ((3, "10"), (1, "10"), (40, "0")):
        with pytest.raises(UserError, match="is not possible"):
            objects.size(drive, asked, members=members, level=level)  # type: ignore[arg-type]
    words = ("size", "pm9a3-960", "checkpoint:1GB/600s", "--members", "1", "--level", "10")
    refusal = CliRunner().invoke(app, words).exception
    assert isinstance(refusal, UserError) and "is not possible" in refusal.message


def test_criteria_are_of_whole_objects_and_need_data(tmp_path: Path) -> None:
    path = tmp_path / "kv.csv"
    path.write_text(KV.replace("Write,1000000,Tier-2,b,Prefill", "Write,1000000,Tier-2,b,Evict"))
    run = CliRunner().invoke
    words = ["size", str(path), "--scale", str(12 / 1104), "--passes", "1"]
    done = run(app, [*words, "--list", "970-evo-plus-1tb"])
    assert done.exit_code == 0, done.output
    assert "MLPerf: 95 % of reads < 200 ms" in done.output and "yes, " in done.output
    assert "Tier-2 is filled by eviction: 50% of its writes" in done.output
    assert done.stdout.split("\n")[0].split() == ["figure", "970-evo-plus-1tb"]
    path.write_text("\n".join(KV.splitlines()[:-1]) + "\n")
    done = run(app, [*words, "--list", "970-evo-plus-1tb", "--members", "8", "--level", "0"])
    assert "no data" in done.output and "eviction" not in done.output
    assert "8 x 970-evo-plus-1tb" in done.output
    assert run(app, ["size", str(path)]).exit_code != 0


def test_damaged_traces_of_objects_are_refused_with_a_reason(tmp_path: Path) -> None:
    garbage = bytes(range(256)) * 8
    packed = gzip.compress(KV.encode() * 50)
    for name, content, said in (
        ("empty.csv", b"", "is no CSV"),
        ("empty.jsonl", b"", "has no blocks"),
        ("garbage.csv", garbage, "is no CSV"),
        ("garbage.jsonl", garbage, "line 1 is not Mooncake's"),
        ("cut.jsonl", b'{"timestamp": 0, "hash_ids": [0, 1]}\n{"timest', "line 2"),
        ("late.jsonl", b'{"timestamp": NaN, "hash_ids": [0, 1]}\n', "line 1"),
        ("many.jsonl", b'{"timestamp": 0, "hash_ids": [%d]}\n' % 10**30, "line 1"),
        ("cut.csv.gz", packed[: len(packed) // 2], "cannot be read: "),
        ("garbage.csv.gz", garbage, "cannot be read: "),
        ("cut.csv", KV[:-20].encode(), "Expected 6 columns"),
        ("huge.csv", KV.replace("3000000", "9" * 30).encode(), "with a size"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with warnings.catch_warnings(), pytest.raises(UserError, match=said):
            warnings.simplefilter("error")
            objects.read(path)
    with pytest.raises(UserError, match="is a directory"):
        objects.read(tmp_path)


def test_more_requests_than_memory_holds_are_refused() -> None:
    asked = objects.checkpoints(size_bytes=10**14, every_s=60.0)
    with pytest.raises(UserError, match="requests of 1 MiB in all passes"):
        objects.place(asked, 10**15)


def test_blocks_of_a_kv_cache_are_read_as_fast_as_published() -> None:
    """FlexKV's blocks from a Micron 7450 MAX by fio, 2 MiB at depth 8: 6.46 GiB/s."""
    drive = drivebay.drive("7450-max-800").scaled(1 / 64)
    load = drivebay.Workload(
        read_percent=100, block_bytes=2 * MIB, queue_depth=8, span_bytes=256 * MIB, duration_s=1
    )
    rate = drivebay.run(drive, load).mb_per_s * 1e6 / 2**30
    assert rate == pytest.approx(6.46, rel=0.05)
