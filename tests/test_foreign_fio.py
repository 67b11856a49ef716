"""fio's JSON and logs as others write them: read right, or refused with the reason that is seen.

The kinds are those of public reports (fio's issues 152, 272 and 421, fio-plot's 155) and of fio's
own source; the figures are invented. Options are not complete (before 3.39 those without a value
are left out), not numeric, and not true of a group; counts know better.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from drivebay import results
from drivebay.cli.entry import run
from drivebay.common.errors import UserError
from drivebay.definitions.fio_options import TABLE, lacking
from drivebay.definitions.suites import Workload
from drivebay.lab.imports import import_files
from drivebay.report.base.text import load

MEAN_NS = 100_000
LEVELS = ("1", "2", "4", "8", "16", "32", ">=64")


def side(ios: int, runtime_ms: int, mean_ns: float, **more: Any) -> dict[str, Any]:
    """One direction: 4 KiB I/Os."""
    moved = ios * 4096
    return {
        "io_bytes": moved,
        "io_kbytes": moved >> 10,
        "bw": moved * 1000 // runtime_ms >> 10 if ios else 0,
        "runtime": runtime_ms if ios else 0,
        "total_ios": ios,
        "lat_ns": {"mean": mean_ns if ios else 0.0, "max": 3_000_000, "N": ios},
        "clat_ns": {"mean": 0.0, "bins": {str(MEAN_NS): ios}},
        **more,
    }


def entry(
    *,
    reads: int = 0,
    writes: int = 0,
    runtime_ms: int = 4000,
    threads: float = 1,
    outstanding: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A job's entry of threads together, with so many I/Os outstanding on average."""
    mean = MEAN_NS if outstanding is None else outstanding * runtime_ms * 1e6 / (reads + writes)
    return {
        "jobname": "a",
        "groupid": 0,
        "error": 0,
        "job options": {},
        "read": side(reads, runtime_ms, mean),
        "write": side(writes, runtime_ms, mean),
        "job_runtime": round(threads * runtime_ms),
        "iodepth_level": dict.fromkeys(LEVELS, 14.0),
        **more,
    }


def document(*entries: dict[str, Any], version: str = "fio-3.33", **more: Any) -> dict[str, Any]:
    return {"fio version": version, "jobs": list(entries), **more}


def imported(tmp_path: Path, content: bytes | dict[str, Any], name: str = "a.json") -> results.Step:
    """The step that a file becomes; as a byte string, or as fio prints a document."""
    raw = content if isinstance(content, bytes) else json.dumps(content, indent=2).encode()
    (tmp_path / name).write_bytes(raw)
    out = tmp_path / "imported"
    shutil.rmtree(out, ignore_errors=True)
    (step,) = results.load(import_files("fio", [tmp_path / name], out)).steps
    return step


def one(tmp_path: Path, content: bytes | dict[str, Any]) -> tuple[Workload, str]:
    """The load of the only phase, and all warnings in one text."""
    step = imported(tmp_path, content)
    (phase,) = step.phases()
    return phase.workload, "; ".join(step.conditions()["warnings"])


def options(**given: str) -> dict[str, Any]:
    return {"job options": {"rw": "randread", "ioengine": "libaio", "iodepth": "4", **given}}


# --- Options --------------------------------------------------------------------------------------


def test_threads_reported_as_one_are_counted_without_the_flag(tmp_path: Path) -> None:
    clones = entry(reads=90_000, threads=2.998, outstanding=11.8, **options(numjobs="3"))
    found, warnings = one(tmp_path, document(clones))
    assert (found.queue_depth, found.pattern, found.read_percent) == (12, "random", 100)
    assert "queue_depth" not in found.unknown and "queue depth" not in warnings
    flagged = entry(
        reads=90_000, threads=3, outstanding=11.8, **options(numjobs="3", group_reporting="")
    )
    assert one(tmp_path, document(flagged, version="fio-3.40"))[0].queue_depth == 12
    # Each by itself: three entries of one thread.
    apart = [entry(reads=30_000, outstanding=3.9, **options(numjobs="3")) for _ in range(3)]
    assert one(tmp_path, document(*apart))[0].queue_depth == 12


@pytest.mark.parametrize(
    ("given", "share", "lacks"),
    [
        ({"percentage_random": "30", "norandommap": "1"}, 30, False),
        ({"percentage_random": "30,30"}, 30, False),
        ({"percentage_random": "30,70", "norandommap": "1"}, 100, True),
        ({"percentage_random": "30", "norandommap": "0"}, 100, True),
        ({"percentage_random": "30", "rw": "read"}, 100, False),
    ],
)
def test_a_share_of_random_offsets_is_taken_where_fio_uses_it_and_named_where_it_is_not_kept(
    tmp_path: Path, given: dict[str, str], share: int, lacks: bool
) -> None:
    load, warnings = one(
        tmp_path, document(entry(reads=30_000, outstanding=3.9, **options(**given)))
    )
    assert load.percentage_random == share
    assert ("lacks percentage_random=" in warnings) == lacks, warnings


def test_a_group_of_several_jobs_has_not_the_options_of_the_first(tmp_path: Path) -> None:
    both = entry(reads=60_000, writes=20_000, threads=2, outstanding=20, **options())
    step = imported(tmp_path, document(both))
    (phase,) = step.phases()
    assert phase.workload.read_percent == 75 and phase.workload.queue_depth == 20
    assert {"pattern", "queue_depth"} <= set(phase.workload.unknown)
    assert "fio reports 2 threads as one" in "; ".join(step.conditions()["warnings"])
    title = json.loads((tmp_path / "imported/manifest.json").read_text())["steps"][0]["title"]
    assert title == "a (pattern and queue depth not known)"
    words = load(phase.workload)
    assert "random" not in words and "pattern not known" in words
    assert "queue depth not known (on average about 20)" in words


def test_a_short_job_in_a_group_is_told_by_what_was_outstanding(tmp_path: Path) -> None:
    found, _ = one(
        tmp_path, document(entry(reads=80_000, threads=1.05, outstanding=9.0, **options()))
    )
    assert {"pattern", "queue_depth"} <= set(found.unknown) and found.queue_depth == 9


def test_sections_of_one_name_keep_their_own_options(tmp_path: Path) -> None:
    step = imported(
        tmp_path,
        document(
            entry(reads=9000, outstanding=3.8, **options()),
            entry(writes=9000, outstanding=7.8, **options(rw="write", iodepth="8")),
        ),
    )
    loads = [phase.workload for phase in step.phases()]
    assert [(one.pattern, one.read_percent, one.queue_depth) for one in loads] == [
        ("random", 100, 4),
        ("sequential", 0, 8),
    ]


def test_clients_whose_options_are_left_out_are_not_sequential_readers(tmp_path: Path) -> None:
    client = entry(reads=70_000, writes=30_000, threads=2, outstanding=8, hostname="h1")
    del client["job options"]
    everyone = {**client, "jobname": "All clients", "hostname": None}
    stats = [client, {**client, "hostname": "h2"}, everyone]
    found, warnings = one(tmp_path, {"fio version": "fio-3.33", "client_stats": stats})
    assert found.read_percent == 70 and set(found.unknown) >= {"pattern", "queue_depth"}
    assert found.queue_depth == 16 and "2 clients of fio" in warnings
    single: dict[str, Any] = {"iodepth_level": {**dict.fromkeys(LEVELS, 0.0), "1": 100.0}}
    alone = [{**client, **single}, everyone]
    found, _ = one(tmp_path, {"fio version": "fio-3.33", "client_stats": alone})
    assert "queue_depth" not in found.unknown and found.queue_depth == 2


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({"rw": "randread", "readwrite": "read"}, "pattern", "sequential"),
        ({"rw": "randwrite", "fsync": "1k"}, "fsync", 1024),
        ({"iodepth": "0x8"}, "queue_depth", 8),
        ({"iodepth": "(2*4)"}, "queue_depth", 8),
        ({"random_distribution": "zipf:1.2:0.5"}, "offsets", "zipf:1.2"),
        ({"random_distribution": "zoned:60/10:40/90"}, "offsets", "zoned:60/10:40/90"),
        ({"random_distribution": "pareto:0.2"}, "offsets", "uniform"),
        ({"norandommap": "0"}, "offsets", "permutation"),
        ({"norandommap": "", "ramp_time": "1s", "log_avg_msec": "1s"}, "offsets", "uniform"),
    ],
)
def test_values_that_fio_accepts_are_imported(
    given: dict[str, str], field: str, expected: object, tmp_path: Path
) -> None:
    way = "writes" if given.get("rw") == "randwrite" else "reads"
    deep = 7.8 if "iodepth" in given else 3.9
    said = options(**given)
    found, _ = one(tmp_path, document(entry(outstanding=deep, **{way: 9000}, **said)))
    assert getattr(found, field) == expected
    assert ("queue_depth" in found.unknown) == (given.get("iodepth") == "(2*4)")


@pytest.mark.parametrize(
    ("asked", "reads", "writes", "expected"),
    [
        ({"rwmixread": "70%"}, 699, 301, 70),
        ({"rwmixread": "0.0"}, 0, 1000, 0),
        ({"rwmixwrite": "20"}, 795, 205, 80),
        ({"rwmixread": "70"}, 500, 500, 50),
        ({}, 503, 497, 50),
    ],
)
def test_a_mix_is_what_was_asked_for_where_the_counts_agree(
    asked: dict[str, str], reads: int, writes: int, expected: int, tmp_path: Path
) -> None:
    mixed = entry(reads=reads, writes=writes, outstanding=3.9, **options(rw="randrw", **asked))
    found, warnings = one(tmp_path, document(mixed))
    assert found.read_percent == expected
    assert ("by the options" in warnings) == (asked == {"rwmixread": "70"} and reads == 500)


def test_what_is_read_back_is_read_after_it_was_written(tmp_path: Path) -> None:
    job = entry(writes=8000, reads=8000, threads=2, **options(rw="randwrite", verify="crc32c"))
    for way in ("read", "write"):
        job[way]["lat_ns"]["mean"] = 2e6  # of four outstanding I/Os at 2,000 a second
    step = imported(tmp_path, document(job))
    (phase,) = step.phases()
    assert phase.duration_s == 8.0 and phase.workload.queue_depth == 4
    assert phase.workload.pattern == "random" and "queue_depth" not in phase.workload.unknown
    assert "50.0 % of the I/Os are reads" in "; ".join(step.conditions()["warnings"])


def test_a_depth_that_fio_computes_is_not_guessed(tmp_path: Path) -> None:
    found, _ = one(
        tmp_path, document(entry(reads=9000, outstanding=1.9, **options(iodepth="(1*2)")))
    )
    assert "queue_depth" in found.unknown and found.queue_depth == 2 and found.pattern == "random"


def test_a_depth_beyond_the_largest_is_not_cut_in_silence(tmp_path: Path) -> None:
    found, warnings = one(
        tmp_path, document(entry(reads=9000, outstanding=700.4, **options(iodepth="2k")))
    )
    assert found.queue_depth == 700 and "queue_depth" in found.unknown
    assert "a queue depth of 2,048 is beyond 1,024" in warnings


def test_flags_are_known_from_the_version_on_that_prints_them(tmp_path: Path) -> None:
    plain = entry(reads=9000, outstanding=3.9, **options())
    old, warnings = one(tmp_path, document(plain, version="fio-3.38"))
    assert "offsets" in old.unknown and old.offsets == "uniform" and "norandommap" in warnings
    new, warnings = one(tmp_path, document(plain, version="fio-3.39"))
    assert new.offsets == "permutation" and not new.unknown and "norandommap" not in warnings


def test_a_job_without_data_is_named_and_trims_are_refused(tmp_path: Path) -> None:
    step = imported(
        tmp_path, document(entry(jobname="idle"), entry(reads=9000, outstanding=3.9, **options()))
    )
    assert "job idle moved no data and is left out" in step.conditions()["warnings"]
    with pytest.raises(UserError, match="trims are not imported"):
        imported(tmp_path, document(entry(reads=9, trim={"total_ios": 5})))


# --- Units and counts -----------------------------------------------------------------------------


def old_side(kib: int, ios: int | None) -> dict[str, Any]:
    """One direction as fio 2.2 has it: KiB and microseconds."""
    said: dict[str, Any] = {"io_bytes": kib, "bw": kib, "iops": 8192.0, "runtime": 1000}
    latency = {"min": 60, "max": 4000, "mean": 117.0, "percentile": {"50.0": 110, "99.0": 300}}
    said |= {"clat": latency, "lat": {"min": 63, "max": 4003, "mean": 120.0}}
    return said if ios is None else {**said, "total_ios": ios}


@pytest.mark.parametrize("ios", [8192, None])
def test_fio_2_counts_in_kib_and_microseconds(ios: int | None, tmp_path: Path) -> None:
    old = {"jobname": "seq", "read": old_side(2**20, ios), **options(rw="read")}
    step = imported(tmp_path, document(old, version="fio-2.2.10"))
    (phase,) = step.phases()
    assert (phase.read_bytes, phase.reads, phase.workload.block_bytes) == (2**30, 8192, 131072)
    assert phase.metrics["latency_ns_mean"] == pytest.approx(120_000)
    said = "does not report the number of I/Os" in "; ".join(step.conditions()["warnings"])
    assert said == (ios is None)


def test_bytes_that_are_1024_times_the_rate_are_refused(tmp_path: Path) -> None:
    wrong = entry(reads=9000, outstanding=3.9, **options())
    wrong["read"]["bw"] *= 1024
    with pytest.raises(UserError, match=r"jobs\[0\]\.read: io_bytes and bw differ by a factor"):
        imported(tmp_path, document(wrong))


def test_directions_counted_as_one_are_named(tmp_path: Path) -> None:
    unified = entry(**options(rw="randrw"))
    unified["mixed"] = unified.pop("read")
    del unified["write"]
    with pytest.raises(UserError, match="unified_rw_reporting"):
        imported(tmp_path, document(unified))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("read", "io_bytes"), -5),
        (("read", "runtime"), "3001"),
        (("read", "total_ios"), 1e300),
        (("read", "lat_ns"), [1]),
        (("job_runtime",), True),
        (("jobname",), 5),
        (("iodepth_level",), {"2": "x"}),
        (("read", "clat_ns"), {"bins": {"9" * 40: 1}}),
    ],
)
def test_a_figure_that_is_none_is_one_error_with_its_place(
    place: tuple[str, ...], value: object, tmp_path: Path
) -> None:
    wrong: Any = entry(reads=9000, outstanding=3.9, **options())
    within = wrong
    for key in place[:-1]:
        within = within[key]
    within[place[-1]] = value
    with pytest.raises(UserError) as caught:
        imported(tmp_path, document(wrong))
    assert f"a.json cannot be imported: jobs[0].{'.'.join(place)}" in caught.value.message
    assert "\n" not in caught.value.message + caught.value.hint


def test_a_load_that_drivebay_lacks_is_one_error_with_the_field(tmp_path: Path) -> None:
    long = entry(reads=9000, runtime_ms=31 * 86_400_000, **options())
    with pytest.raises(UserError, match=r"a\.json cannot be imported: duration_s: 2"):
        imported(tmp_path, document(long))


# --- The file -------------------------------------------------------------------------------------


def whole() -> dict[str, Any]:
    return document(entry(reads=9000, outstanding=3.9, **options()))


def printed(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)


def test_a_file_in_any_encoding_with_any_name_is_read(tmp_path: Path) -> None:
    text = printed(whole())
    for raw in (
        text.encode("utf-8-sig"),
        text.encode("utf-16"),
        text.encode("utf-16-le"),
        text.replace("\n", "\r\n").encode() + b"\0" * 512,
        b"fio: ger\xe4t\n" + text.encode(),
        b"Jobs: 1 (f=1): [r(1)]\r" + text.encode(),
    ):
        assert one(tmp_path, raw)[0].queue_depth == 4
    names = ("k\u00fchl \u6e2c\u5b9a.json", f"{'a' * 49}-b.json", "---.json", "a\nb.json")
    for name in (*names, os.fsdecode(b"x\xff.json")):
        assert imported(tmp_path, text.encode(), name).phases()
    latin = text.replace('"jobname": "a"', '"jobname": "k\u00fchl"').encode("latin-1")
    assert imported(tmp_path, latin).phases()
    long = printed(document({**whole()["jobs"][0], "jobname": "b" * 49 + "_c" * 40}))
    assert imported(tmp_path, long.encode()).phases()


def test_the_command_says_warnings_and_refuses_a_folder_without_a_name_in_utf8(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/x\xff.json"))
    path.write_text(printed(whole()))
    assert run(["import", "fio", str(path), "--out", str(tmp_path / "o")]) == 0
    out, err = capsys.readouterr()
    assert "report" in out and "warning: x-xff: no logs were found" in err
    named = os.fsdecode(bytes(tmp_path) + b"/r\xff")
    assert run(["import", "fio", str(path), "--out", named]) == 2
    assert "its name is not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text + "\n" + text[:900], "is cut off: its JSON does not end"),
        (lambda text: text[:-2], "is cut off: its JSON does not end"),
        (lambda text: text + "\n{\n", "is cut off: its JSON does not end"),
        (lambda text: text[:700].rpartition('"')[0] + '"ru', "is cut off"),
        (lambda text: text.replace('"groupid": 0,', '"groupid": 0'), "is damaged: Expecting ',' "),
        (lambda text: text.replace('"error": 0', '"error": nan'), "is damaged: Expecting value"),
    ],
)
def test_the_reason_is_what_was_seen(change: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        imported(tmp_path, change(printed(whole())).encode())
    assert words in caught.value.message


def test_of_several_documents_the_last_whole_one_counts(tmp_path: Path) -> None:
    first, last = whole(), document(entry(reads=18_000, outstanding=3.9, **options()))
    text = printed(first) + "\n" + printed(first)[:800] + "\n" + printed(last)
    (phase,) = imported(tmp_path, text.encode()).phases()
    assert phase.reads == 18_000


# --- Logs -----------------------------------------------------------------------------------------


def logged(
    tmp_path: Path,
    iops: str,
    lat: str,
    *,
    mean_ns: float = 92_000,
    reads: int = 4000,
    writes: int = 400,
    threads: int = 1,
    given: dict[str, str] | None = None,
) -> tuple[dict[str, list[Any]], str]:
    """The seconds of a job of 2 s, and all warnings."""
    more = options(rw="randrw", rwmixread="91", rate_iops="x", log_avg_msec="500", **(given or {}))
    job = entry(reads=reads, writes=writes, runtime_ms=2000, threads=threads, **more)
    for way in ("read", "write"):
        job[way]["lat_ns"]["mean"] = mean_ns
    number = "" if given and "per_job_logs" in given else ".1"
    (tmp_path / f"a_iops{number}.log").write_text(iops)
    (tmp_path / f"a_lat{number}.log").write_text(lat)
    step = imported(tmp_path, document(job))
    return step.table("series").to_pydict(), "; ".join(step.conditions()["warnings"])


def windows(*values: tuple[int, int, int], start: int = 0) -> str:
    """Lines of time, value and direction."""
    return "".join(f"{start + time}, {value}, {way}, 0, 0\n" for time, value, way in values)


IOPS = windows(
    *((end, rate, way) for end in (500, 1000, 1500) for rate, way in ((2000, 0), (200, 1)))
)
LAT = windows(
    *((500, 80_000, 0), (500, 212_000, 1), (1000, 80_000, 0), (1000, 212_000, 1)),
    *((1500, 80_000, 0), (1500, 212_000, 1), (2000, 80_000, 0), (2000, 212_000, 1)),
)


def test_windows_count_by_their_ios_and_zeros_are_none(tmp_path: Path) -> None:
    for filler in ("", "0, 0, 0, 0\n" * 5, "\0" * 100, "1500, 1"):
        seconds, warnings = logged(tmp_path, IOPS + filler, LAT + filler)
        assert seconds["latency_ns_mean"] == pytest.approx([92_000, 92_000], rel=1e-6)
        assert (sum(seconds["reads"]), sum(seconds["writes"])) == (4000, 400)
        assert "mean latency of the logs" not in warnings


def test_means_that_differ_from_the_json_are_said(tmp_path: Path) -> None:
    _, warnings = logged(tmp_path, IOPS, LAT, mean_ns=95_000)
    assert "the mean latency of the logs is 92.0 us, that of the JSON 95.0 us" in warnings


@pytest.mark.parametrize("option", ["log_max_value", "log_window_value"])
def test_maxima_are_no_means(option: str, tmp_path: Path) -> None:
    said = "1" if option == "log_max_value" else "max"
    seconds, warnings = logged(tmp_path, IOPS, LAT, given={option: said})
    assert seconds["latency_ns_mean"] == [None, None]
    assert seconds["latency_ns_max"] == [212_000, 212_000] and "highest latency" in warnings
    both = "".join(
        f"{end}, {mean}, 900000, {way}, 0, 0\n"
        for end in (500, 1000, 1500, 2000)
        for mean, way in ((80_000, 0), (212_000, 1))
    )
    rates = [line.split(", ") for line in IOPS.splitlines()]  # all logs have the column then
    iops = "".join(f"{', '.join([*row[:2], *row[1:]])}\n" for row in rates)
    seconds, _ = logged(tmp_path, iops, both, given={"log_window_value": "both"})
    assert seconds["latency_ns_mean"] == pytest.approx([92_000, 92_000])
    assert seconds["latency_ns_max"] == [900_000, 900_000]


def test_windows_may_be_late_and_idle_ones_are_missing(tmp_path: Path) -> None:
    late = windows((900, 2000, 0), (900, 200, 1), (1400, 2000, 0), (1400, 200, 1))
    seconds, _ = logged(tmp_path, late, LAT)
    assert seconds["reads"] == pytest.approx([2000, 2000], abs=2)
    # Nothing was done for a second: fio writes no windows, and counts half of the I/Os.
    idle = windows((500, 2000, 0), (500, 200, 1), (2000, 2000, 0), (2000, 200, 1))
    seconds, _ = logged(tmp_path, idle, idle.replace("200", "90000"), reads=2000, writes=200)
    assert seconds["reads"] == pytest.approx([1000, 1000], abs=2)
    assert seconds["writes"] == [100, 100]


def test_times_since_1970_are_a_course(tmp_path: Path) -> None:
    start = 1_795_777_141_726
    rows = [line.split(", ", 1) for line in (IOPS + LAT).splitlines()]
    late = [f"{int(time) + start}, {rest}\n" for time, rest in rows]
    count = len(IOPS.splitlines())
    iops, lat = "".join(late[:count]), "".join(late[count:])
    seconds, _ = logged(tmp_path, iops, lat, given={"log_unix_epoch": "1"})
    assert seconds["latency_ns_mean"] == pytest.approx([92_000, 92_000])
    assert seconds["reads"] == pytest.approx([2000, 2000], abs=2)


def test_one_log_of_all_threads_holds_one_course_after_the_other(tmp_path: Path) -> None:
    seconds, _ = logged(
        tmp_path,
        IOPS * 2,
        LAT * 2,
        reads=8000,
        writes=800,
        threads=2,
        given={"per_job_logs": "0", "numjobs": "2"},
    )
    assert (sum(seconds["reads"]), sum(seconds["writes"])) == (8000, 800)
    assert seconds["latency_ns_mean"] == pytest.approx([92_000, 92_000])


@pytest.mark.parametrize(
    ("iops", "given", "words"),
    [
        (IOPS.replace("2000,", "9000,"), {}, "its logs are of another run"),
        (IOPS, {"log_avg_msec": "0"}, "the logs have every single I/O"),
        (IOPS, {"log_avg_msec": "5000"}, "windows longer than a second"),
    ],
)
def test_why_logs_are_not_used(
    iops: str, given: dict[str, str], words: str, tmp_path: Path
) -> None:
    job = entry(reads=4000, writes=400, runtime_ms=2000, outstanding=3.9)
    job |= options(**{"rw": "randrw", "rwmixread": "91", "log_avg_msec": "500", **given})
    (tmp_path / "a_iops.1.log").write_text(iops)
    step = imported(tmp_path, document(job))
    assert words in "; ".join(step.conditions()["warnings"]) and step.table("series").num_rows == 0


def test_a_job_before_it_that_moved_nothing_keeps_its_logs_number(tmp_path: Path) -> None:
    job = entry(reads=4000, writes=400, runtime_ms=2000, outstanding=3.9, jobname="b")
    job |= options(rw="randrw", rwmixread="91", log_avg_msec="500", write_iops_log="/x/lg")
    (tmp_path / "lg_iops.2.log").write_text(IOPS)
    assert imported(tmp_path, document(entry(), job)).table("series", "b").num_rows == 2


def test_a_log_that_lacks_a_sixth_of_the_ios_is_of_another_run(tmp_path: Path) -> None:
    options = {"rw": "randread", "log_avg_msec": "500", "write_iops_log": "x"}
    more: dict[str, Any] = {"job options": options}
    content = document(entry(reads=12_000, runtime_ms=3000, **more))
    rows = [f"{500 * at}, {3300 if at < 4 else 3350}, 0, 0" for at in range(1, 7)]
    (tmp_path / "x_iops.1.log").write_text("\n".join(rows))
    step = imported(tmp_path, content)
    assert step.table("series").num_rows == 0
    assert any("of another run" in warning for warning in step.conditions()["warnings"])


def test_with_a_latency_target_the_depth_is_the_one_that_fio_settled_on(tmp_path: Path) -> None:
    options = {"rw": "randread", "iodepth": "32", "ioengine": "libaio", "latency_target": "2ms"}
    more: dict[str, Any] = {"job options": options, "latency_depth": 3}
    step = imported(tmp_path, document(entry(reads=9000, outstanding=2.9, **more)))
    assert step.phases()[0].workload.queue_depth == 3


@pytest.mark.parametrize(
    ("more", "span"),
    [
        ({"filename": "a.dat"}, None),
        ({"filename": "a.dat", "offset": "16M"}, 8 * 2**20),
        ({"filename": "/dev/sda"}, 8 * 2**20),
    ],
)
def test_a_part_of_a_file_or_device_is_not_the_whole(
    tmp_path: Path, more: dict[str, str], span: int | None
) -> None:
    options: dict[str, Any] = {"job options": {"rw": "randread", "size": "8M", **more}}
    step = imported(tmp_path, document(entry(reads=9000, **options)))
    assert step.phases()[0].workload.span_bytes == span


def test_an_output_packed_with_gzip_is_read_and_a_damaged_one_refused(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(document(entry(reads=9000)), indent=2).encode())
    assert imported(tmp_path, packed, "a.json.gz").phases()[0].reads == 9000
    for damaged in (packed[:-20], packed[:20] + b"x" * 20 + packed[40:]):
        with pytest.raises(UserError, match="its gzip is"):
            imported(tmp_path, damaged, "b.json.gz")


# --- Options that are not read, and inputs that are read once ------------------------------------


def test_every_option_of_fio_is_in_one_class() -> None:
    classes = [
        TABLE["load"]["read"],
        TABLE["load"]["unless"],
        TABLE["load"]["if"],
        TABLE["measured"]["read"],
        TABLE["measured"]["unless"],
        TABLE["neither"]["options"],
    ]
    known = [name for some in classes for name in some]
    assert len(known) == len(set(known))
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    told = subprocess.run(["fio", "--cmdhelp=all"], capture_output=True, text=True, check=True)
    names = {line.partition(":")[0].strip() for line in told.stdout.splitlines()}
    assert len(names) > 200 and names <= set(known)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"direct": "0"}, ["lacks direct=0: the page cache was in the way"]),
        ({"direct": "1"}, []),
        ({"ioengine": "null"}, ["lacks ioengine=null: no drive was asked"]),
        ({"rw": "randread:8"}, ["lacks rw=randread:8"]),
        ({"rate_iops": "2000", "rate_process": "poisson"}, ["rate_iops=2000, rate_process"]),
        ({"thinktime": "0", "zonemode": "none", "verify": "0"}, []),
        ({"gtod_reduce": "1"}, ["the measurement was changed by gtod_reduce=1"]),
        ({"ramp_time": "5", "write_barrier": "8"}, ["lacks write_barrier=8", "ramp_time=5"]),
        ({"of_fio_4": "7"}, ["lacks of_fio_4=7"]),
    ],
)
def test_options_that_change_the_load_or_its_measurement_are_named(
    given: dict[str, str], words: list[str]
) -> None:
    told = lacking(given)
    assert len(told) == len(words)
    assert all(word in sentence for word, sentence in zip(words, told, strict=True))


def test_the_page_cache_is_in_the_way_unless_an_option_or_engine_avoids_it(tmp_path: Path) -> None:
    for given, is_buffered in (({}, True), ({"buffered": "0"}, False), ({"direct": "1"}, False)):
        said = one(tmp_path, document(entry(reads=9000, **options(**given))))[1]
        assert ("page cache" in said) == is_buffered


def test_syncs_are_kept_with_their_mean(tmp_path: Path) -> None:
    more: dict[str, Any] = {"sync": {"total_ios": 0, "lat_ns": {"mean": 1_310_000.0, "N": 9000}}}
    more["job options"] = {"rw": "write", "fdatasync": "1"}
    workload, said = one(tmp_path, document(entry(writes=9000, **more)))
    assert workload.fsync == 1 and "fdatasync=1 is kept as fsync" in said
    assert "a sync came after every 1 writes and took 1,310.0 us on average" in said


def test_writes_that_are_synced_themselves_are_durable(tmp_path: Path) -> None:
    for sync, every in (("1", 1), ("dsync", 1), ("none", None), ("0", None)):
        job = entry(writes=9000, **options(rw="randwrite", sync=sync))
        workload, said = one(tmp_path, document(job))
        assert workload.fsync == every
        assert (f"sync={sync} is kept as fsync=1" in said) == (every == 1)


def test_gzip_may_have_members_and_padding(tmp_path: Path) -> None:
    raw = json.dumps(document(entry(reads=9000)), indent=2).encode()
    packed = gzip.compress(raw[:200]) + gzip.compress(raw[200:]) + bytes(700)
    assert imported(tmp_path, packed, "a.json.gz").phases()[0].reads == 9000


def test_percentiles_in_fios_last_bin_are_not_known(tmp_path: Path) -> None:
    """As fio's issue 1668 has them."""
    job = entry(writes=9000, **options(rw="randwrite"))
    listed = {"50.000000": 9_000_000, "99.000000": 17_112_760_320}
    job["write"] |= {"clat_ns": {"mean": 41e9, "percentile": listed}, "lat_ns": {"mean": 41.2e9}}
    step = imported(tmp_path, document(job))
    metrics = step.phases()[0].metrics
    assert metrics["latency_us_p50"] == 9000 and "latency_us_p99" not in metrics
    assert any("p99 is in fio's last bin" in one for one in step.conditions()["warnings"])


def test_an_unreadable_line_of_a_log_is_named(tmp_path: Path) -> None:
    logs = {"a_iops.1.log": "1000, 9000, 0, 0\nx, 9000\n", "a_lat.1.log": "1000, 100000, 0, 0\n"}
    for name, text in logs.items():
        (tmp_path / name).write_text(text)
    more = options(log_avg_msec="1000", write_iops_log="a", write_lat_log="a")
    said = one(tmp_path, document(entry(reads=9000, runtime_ms=2000, **more)))[1]
    assert "1 lines of a_iops.1.log cannot be read" in said


@pytest.mark.parametrize("verb", ["import", "judge"])
def test_a_pipe_is_read_once(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = entry(reads=9000, **options(ioengine="null"))
    pipe, text = tmp_path / "pipe", json.dumps(document(job), indent=2)
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[text])
    writer.start()
    out = tmp_path / "r"
    more = ["--out", str(out), "--json"] if verb == "import" else ["--json"]
    assert run([verb, *(["fio"] if verb == "import" else []), str(pipe), *more]) in (0, 1)
    writer.join()
    answer = json.loads(capsys.readouterr().out)
    judged = answer["judge"] if verb == "import" else answer
    assert any(entry["verdict"] == "shown" for entry in judged)
    if verb == "import":
        (raw,) = out.glob("steps/*/raw/*")
        assert raw.read_text() == text and answer["warnings"]["pipe"]


def test_the_judge_speaks_in_an_import_and_in_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = entry(reads=9000, **options(ioengine="null"))
    (tmp_path / "a.json").write_text(json.dumps(document(job), indent=2))
    out = tmp_path / "r"
    assert run(["import", "fio", str(tmp_path / "a.json"), "--out", str(out)]) == 0
    line = "Memory answered instead of the drive: shown (job a of a.json: ioengine=null)"
    assert f"judge: {line}" in capsys.readouterr().err
    assert line in (out / "report.html").read_text()
