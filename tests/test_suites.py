"""Suites are data: what ships is what the methods say, and a user's mistake is named exactly."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from fakes import small_suite, workload
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from drivebay.analysis.comparable import run_differently
from drivebay.common.errors import UserError
from drivebay.definitions import suites
from drivebay.definitions.suites import Prepare, Suite, Test, Workload, loader

SM951_BYTES = 512_110_190_592

GOOD = """
schema_version = 1
name = "mine"
title = "Mine"
description = "A suite of my own."
source = "me"

[[tests]]
id = "random-read"
title = "Random read"
page = "random"
kind = "ladder"
method = "as I like it"
source = "me"
prepare = [{ kind = "purge" }, { kind = "fill", passes = 2 }, { kind = "rest", seconds = 60 }]
queue_depths = [1, 2, 4]
metric_queue_depths = [1, 2, 4]
quick = { duration_s = 1 }
[tests.workload]
pattern = "random"
read_percent = 100
block_bytes = 4096
duration_s = 180
"""


def load_text(folder: Path, text: str) -> Suite:
    """The suite that a file with this text holds."""
    path = folder / "mine.toml"
    path.write_text(text)
    return suites.load(path)


def shipped(suite: str, test_id: str) -> Test:
    """A test of a suite that ships."""
    return next(test for test in suites.load(suite).tests if test.id == test_id)


def test_2015_suite_has_the_published_parameters() -> None:
    """The numbers that AnandTech 8979 and 9856 print."""
    for test_id in ("consistency-default", "consistency-25op"):
        test = shipped("anandtech-2015", test_id)
        load = test.phases[0].workload
        assert (load.pattern, load.read_percent, load.block_bytes) == ("random", 0, 4096)
        assert (load.queue_depth, load.duration_s, test.metric_window_s) == (32, 3600, 400)
    ladders = {
        "random-read": ("random", 100, 4096),
        "random-write": ("random", 0, 4096),
        "sequential-read": ("sequential", 100, 131072),
        "sequential-write": ("sequential", 0, 131072),
    }
    for test_id, expected in ladders.items():
        test = shipped("anandtech-2015", test_id)
        loads = [phase.workload for phase in test.phases]
        assert [load.queue_depth for load in loads] == [1, 2, 4, 8, 16, 32]
        assert {load.duration_s for load in loads} == {180}
        assert {(w.pattern, w.read_percent, w.block_bytes) for w in loads} == {expected}
        assert test.metric_queue_depths == (1, 2, 4)
        assert [phase.label for phase in test.phases][-1] == "qd32"
    assert {p.workload.span_bytes for p in shipped("anandtech-2015", "random-write").phases} == {
        16 * 2**30
    }
    hot = shipped("anandtech-2015", "thermal-write").phases[0].workload
    assert (hot.block_bytes, hot.queue_depth, hot.pattern) == (131072, 32, "sequential")


def test_2015_suite_mixes_and_sizes() -> None:
    """Six mixes: random at depth 3 on 16 GiB of a full drive, sequential at depth 1 on all."""
    ways = {"mixed-random": ("random", 4096, 3), "mixed-sequential": ("sequential", 131072, 1)}
    for test_id, way in ways.items():
        test = shipped("anandtech-2015", test_id)
        loads = [phase.workload for phase in test.phases]
        assert [load.read_percent for load in loads] == [100, 80, 60, 40, 20, 0]
        assert {(w.pattern, w.block_bytes, w.queue_depth) for w in loads} == {way}
        assert {load.duration_s for load in loads} == {180}
        assert test.prepare[1].span(SM951_BYTES) == (0, SM951_BYTES), "the whole drive is filled"
    start, length = shipped("anandtech-2015", "mixed-random").phases[0].workload.span(SM951_BYTES)
    assert length == 16 * 2**30 and start == SM951_BYTES // 2 // 2**20 * 2**20
    assert loads[0].span(SM951_BYTES)[1] > SM951_BYTES * 0.999
    sizes = [phase.workload for phase in shipped("anandtech-2015", "atto").phases]
    assert [w.block_bytes for w in sizes[::2]] == [512 << n for n in range(18)]
    assert [w.read_percent for w in sizes] == [0, 100] * 18


def test_2014_suite_tortures_for_an_hour_and_trims_everything() -> None:
    for test_id in ("consistency-default", "consistency-25op"):
        test = shipped("anandtech-2014", test_id)
        load = test.phases[0].workload
        assert load.duration_s - (test.metric_window_s or 0) == 1400, "plots begin at second 1,400"
    clean, torture, after = shipped("anandtech-2014", "trim").phases
    assert clean.workload == after.workload and clean.workload.duration_s == 600
    assert (clean.workload.block_bytes, clean.workload.queue_depth) == (131072, 1)
    assert (torture.workload.block_bytes, torture.workload.queue_depth) == (4096, 32)
    assert torture.workload.duration_s == 3600
    assert [step.kind for step in torture.before] == ["purge", "fill"]
    assert after.before[0].kind == "discard"
    assert after.before[0].span(SM951_BYTES) == (0, SM951_BYTES)


def test_thermal_suite_has_every_test_twice() -> None:
    tests = suites.load("thermal-2015").tests
    for bare, cooled in zip(tests[::2], tests[1::2], strict=True):
        assert (bare.what_if, cooled.what_if) == ((), ("heatsink",))
        assert (bare.prepare, bare.phases, bare.page) == (
            cooled.prepare,
            cooled.phases,
            cooled.page,
        )
    suite = suites.load("thermal-2015")
    assert [t.id for t in suite.with_modified(("heatsink",))] == [t.id for t in tests[1::2]]
    assert [t.id for t in suite.with_modified(())] == [t.id for t in tests[::2]]


def test_every_load_of_the_2015_suite_meets_written_data_only() -> None:
    """Reads of addresses that were never written would measure no flash."""
    for test in suites.load("anandtech-2015").tests:
        if test.kind == "trace":  # by their method also on an empty drive
            continue
        if test.kind == "trim-check":  # writes what it reads
            continue
        fills = [step for step in test.prepare if step.kind == "fill"]
        assert [step.kind for step in test.prepare] == ["purge", "fill", "rest"], test.id
        start, length = fills[0].span(SM951_BYTES)
        for phase in test.phases:
            low, size = phase.workload.span(SM951_BYTES)
            assert start <= low and low + size <= start + length, test.id


@pytest.mark.parametrize("name", suites.names())
@pytest.mark.parametrize("capacity", [4 * 2**30, SM951_BYTES])
def test_spans_of_shipped_suites_fit_small_and_large_drives(name: str, capacity: int) -> None:
    for test in suites.load(name).tests:
        for phase in test.phases:
            start, length = phase.workload.span(capacity)
            assert length > 0 and start + length <= capacity
            block = phase.workload.block_bytes
            assert start % min(block, 2**20) == 0 == length % block


@pytest.mark.parametrize("name", suites.names())
def test_shortened_is_much_shorter_and_stays_so(name: str) -> None:
    suite = suites.load(name)
    assert suite.shortened().shortened() == suite.shortened()
    quick = suite.shortened().in_real_time()
    assert quick.in_real_time() == quick == quick.shortened()
    possible = [test for test in suite.tests if not test.only_virtual]
    assert quick.ids == tuple(test.id for test in possible)
    seconds = sum(test.drive_seconds() for test in quick.tests)
    assert seconds < sum(test.drive_seconds() for test in suite.tests)
    assert seconds <= 300, "a shortened suite takes minutes on a real drive"
    for before, after in zip(possible, quick.tests, strict=True):
        assert after.drive_seconds() <= before.drive_seconds()
        for long, short in zip(before.phases, after.phases, strict=True):
            kept = {"duration_s", "until_stable"}
            assert long.workload.model_dump(exclude=kept) == short.workload.model_dump(exclude=kept)


def test_rests_are_cut_only_where_somebody_waits() -> None:
    """A virtual drive rests for half an hour in the short form too, so that it is cold."""
    for name in suites.names():
        short = suites.load(name).shortened()
        for form, longest in ((short, 1800), (short.in_real_time(), 2)):
            rests = [s for test in form.tests for s in test.prepare if s.kind == "rest"]
            assert all(0 < step.seconds <= longest for step in rests)
            assert longest < 1800 or {step.seconds for step in rests} <= {1800}


def test_shortened_keeps_spare_space_where_the_figure_depends_on_it() -> None:
    """The 25 % test needs unwritten addresses: it is purged in the short form too."""
    short = suites.load("anandtech-2015").shortened()
    kinds = {test.id: [step.kind for step in test.prepare] for test in short.tests}
    assert "purge" in kinds["consistency-25op"]
    assert "purge" in kinds["random-write"]
    assert "purge" not in kinds["random-read"]


@pytest.mark.parametrize("name", suites.names())
def test_suite_survives_json(name: str) -> None:
    """The manifest holds the suite as JSON, and a resumed review runs what comes out of it."""
    suite = suites.load(name)
    text = json.dumps(suite.model_dump(mode="json"))
    assert Suite.model_validate_json(text, strict=True) == suite


def test_terse_ladder_becomes_phases(tmp_path: Path) -> None:
    test = load_text(tmp_path, GOOD).tests[0]
    assert [(p.label, p.workload.queue_depth) for p in test.phases] == [
        ("qd1", 1),
        ("qd2", 2),
        ("qd4", 4),
    ]


def test_lists_become_all_their_combinations(tmp_path: Path) -> None:
    """Block sizes outermost, then mixes, then depths; what is not swept is not in the label."""
    text = GOOD.replace("queue_depths = [1, 2, 4]\nmetric", "queue_depths = [1, 2]\nmetric")
    text = text.replace("metric_queue_depths = [1, 2, 4]", "metric_queue_depths = [1]")
    swept = text.replace("queue_depths", "block_sizes = [512, 67108864]\nqueue_depths", 1)
    swept = swept.replace("queue_depths", "read_percents = [100, 0]\nqueue_depths", 1)
    swept = swept.replace("block_bytes = 4096\n", "").replace("read_percent = 100\n", "")
    loads = {p.label: p.workload for p in load_text(tmp_path, swept).tests[0].phases}
    assert list(loads) == [
        f"{size}-{mix}-{depth}"
        for size in ("512b", "64m")
        for mix in ("r100", "r0")
        for depth in ("qd1", "qd2")
    ]
    last = loads["64m-r0-qd2"]
    assert (last.block_bytes, last.read_percent, last.queue_depth) == (64 * 2**20, 0, 2)


BAD = [
    ("block_bytes = 4096", "block_bytes = 1000", "test 'random-read'.*block_bytes.*1000.*512"),
    ("block_bytes = 4096", "block_bytes = 134217728", "block_bytes.*134217728"),
    ("duration_s = 180", 'duration_s = 180\noffsets = "random"', "offsets.*permutation"),
    (
        'pattern = "random"',
        'pattern = "sequential"\noffsets = "permutation"',
        "offsets.*sequential",
    ),
    ("duration_s = 180", 'duration_s = 180\nstreams = "shared"', "streams.*mixed sequential"),
    ('pattern = "random"', 'pattern = "sequential"\nqueues = 2', "queues.*random"),
    ("duration_s = 180", "duration_s = 180\nqueues = 0", "queues.*0"),
    ("duration_s = 180", "duration_s = 180\nfsync = -1", r"workload\.fsync: .*-1.*at least 1"),
    ("[1, 2, 4]\nmetric", f"[1, 2, {2**63 - 1}]\nmetric", "queue_depths: .*1 to 1024"),
    (
        "queue_depths",
        "read_percents = [100]\nqueue_depths",
        "without read_percent, which read_percents",
    ),
    ("queue_depths", "block_sizes = [true]\nqueue_depths", "block_sizes.*whole numbers"),
    ("block_bytes = 4096", 'block_bytes = "4k"', "block_bytes.*'4k'.*whole number"),
    ("block_bytes = 4096", "block_byte = 4096", "block_byte.*(is not a key|missing)"),
    ("read_percent = 100", "read_percent = 101", "read_percent.*101.*100"),
    ("read_percent = 100", "read_percent = true", "read_percent.*True.*a number"),
    ('pattern = "random"', 'pattern = "rnd"', "pattern.*'rnd'.*'random' or 'sequential'"),
    ("duration_s = 180", "duration_s = 0", "duration_s.*0"),
    ("duration_s = 180", "duration_s = inf", "duration_s"),
    ("duration_s = 180", "duration_s = nan", "duration_s"),
    ("duration_s = 180", "", "duration_s is missing"),
    ("[1, 2, 4]\nmetric", "[1, 2, 4, 2000]\nmetric", "queue_depth.*2000.*1024"),
    ("[1, 2, 4]\nmetric", '["a"]\nmetric', "queue_depths.*'a'.*whole numbers"),
    ("[1, 2, 4]\nmetric", "[]\nmetric", "queue_depths.*whole numbers"),
    ("[1, 2, 4]\nmetric", "[1, 2, 2, 4]\nmetric", "same label"),
    ("metric_queue_depths = [1, 2, 4]", "metric_queue_depths = [1, 3]", "metric_queue_depths"),
    ("metric_queue_depths = [1, 2, 4]", "", "metric_queue_depths"),
    ('kind = "ladder"', 'kind = "stairs"', "kind.*'stairs'.*'ladder'"),
    ('kind = "ladder"', 'kind = "consistency"', "metric_window_s"),
    ('kind = "ladder"', 'kind = "thermal"', "until_stable"),
    ('id = "random-read"', 'id = "Random Read"', "'Random Read'.*lower-case"),
    ('id = "random-read"', 'id = "../../etc"', "lower-case"),
    ('name = "mine"', 'name = "my suite"', "name.*lower-case"),
    ("schema_version = 1", "schema_version = 2", "schema_version.*2"),
    ('kind = "purge"', 'kind = "purge", passes = 2', "passes.*purge"),
    ('kind = "purge"', 'kind = "wash"', "kind.*'wash'.*'purge', 'fill', 'rest', 'steady'"),
    ("seconds = 60", "seconds = 0", "rest needs 'seconds'"),
    ("passes = 2", "passes = 0", "passes.*0"),
    ("passes = 2", "span_percent = 60, span_start_percent = 50", "at most 100"),
    ("quick = { duration_s = 1 }", "quick = { seconds = 1 }", "quick"),
    ("[tests.workload]", "[tests.load]", "workload"),
    ('kind = "ladder"', 'kind = "mixed"', "mixed test needs phases.*different mixes"),
    ('kind = "ladder"', 'kind = "sizes"', "sizes test needs phases.*block size of its own"),
    ('kind = "ladder"', 'kind = "trim-write"', "trim-write test needs.*discard"),
    ('kind = "purge"', 'kind = "discard", passes = 2', "passes.*discard"),
    ("prepare =", 'what_if = [""]\nprepare =', "what_if"),
    ('source = "me"\n\n', "\n", "source is missing"),
    ("[[tests]]", "[[test]]", "test|tests"),
    ("duration_s = 180", "duration_s = 180\nsince = 2015-02-24", "since.*not a key"),
    ("duration_s = 180", "duration_s = ", "not valid TOML"),
]


def test_the_file_that_the_mistakes_are_made_in_is_good(tmp_path: Path) -> None:
    assert load_text(tmp_path, GOOD).name == "mine"


@pytest.mark.parametrize(("good", "bad", "expected"), BAD)
def test_a_mistake_in_a_suite_is_named(tmp_path: Path, good: str, bad: str, expected: str) -> None:
    """File, field, value and what is allowed, in one line; and a hint."""
    assert good in GOOD
    with pytest.raises(UserError) as caught:
        load_text(tmp_path, GOOD.replace(good, bad, 1))
    message = caught.value.message
    assert re.search(expected, message), message
    assert str(tmp_path / "mine.toml") in message
    assert "\n" not in message and caught.value.hint
    assert "pydantic" not in message and "Input should" not in message


def test_two_tests_of_one_id_are_refused(tmp_path: Path) -> None:
    tests = GOOD[GOOD.index("[[tests]]") :]
    with pytest.raises(UserError, match="two tests have the id 'random-read'"):
        load_text(tmp_path, GOOD + tests)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: None, "does not exist"),
        (lambda path: path.write_bytes(b"\xff\xff"), "not valid TOML"),
        (lambda path: path.write_bytes(b"a" * 1_000_001), "over 1 MB"),
        (lambda path: path.write_bytes(b""), "is missing"),
        (lambda path: path.write_text(GOOD.partition("[[tests]]")[0] + "tests = 3"), "tests"),
        (lambda path: path.write_text(GOOD.partition("[[tests]]")[0] + "tests = [3]"), "test 1"),
    ],
)
def test_what_is_no_suite_file_is_an_error(tmp_path: Path, make: Any, expected: str) -> None:
    path = tmp_path / "no.toml"
    make(path)
    with pytest.raises(UserError, match=expected):
        suites.load(path)


def test_unknown_suite_suggests_a_near_one() -> None:
    with pytest.raises(UserError, match=r"anandtech-2015, .*quick") as caught:
        suites.load("anandtech2015")
    assert "--suite anandtech-2015" in caught.value.hint


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(data=st.data(), value=ANYTHING)
def test_one_changed_value_ends_in_a_suite_or_in_words(data: st.DataObject, value: Any) -> None:
    """Any value of a good file may be replaced by anything: no other exception gets out."""
    table = tomllib.loads(GOOD)
    place: Any = table
    while True:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
        if not (isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans())):
            break
        place = place[key]
    place[key] = value
    try:
        assert isinstance(loader.parse(table, where="some.toml"), Suite)
    except UserError as problem:
        assert problem.message.startswith("some.toml: ") and problem.hint


@given(
    capacity=st.integers(2**20, 2**45),
    percent=st.floats(0.1, 100),
    start=st.floats(0, 100),
    cap=st.none() | st.integers(512, 2**40),
    block=st.sampled_from([512, 4096, 131072, 2**24]),
)
def test_a_span_is_inside_its_drive_and_its_limits(
    capacity: int, percent: float, start: float, cap: int | None, block: int
) -> None:
    start = min(start, 100 - percent)
    load = {"span_percent": percent, "span_start_percent": start, "span_bytes": cap}
    try:
        shape = workload(block_bytes=block, **load)
    except ValidationError:
        assert start + percent > 100  # rounding of floats can go over by a hair
        return
    low, length = shape.span(capacity)
    assert min(low, length) >= 0 and low + length <= capacity
    assert length % block == 0 and low % 2**20 == 0
    assert cap is None or length <= cap
    assert length <= capacity * percent / 100 + 2**20 + capacity / 100_000
    fill = Prepare(kind="fill", **load)
    fill_low, fill_length = fill.span(capacity)
    assert fill_low == low and fill_length - block < length <= fill_length


def test_two_adjoining_spans_leave_no_gap_and_do_not_overlap() -> None:
    low = workload(span_percent=37.5, block_bytes=512)
    high = workload(span_percent=62.5, span_start_percent=37.5, block_bytes=512)
    assert sum(low.span(SM951_BYTES)) == high.span(SM951_BYTES)[0]
    assert sum(high.span(SM951_BYTES)) == SM951_BYTES


def test_selected_keeps_the_suites_order() -> None:
    suite = small_suite().selected(("thermal-write", "random-read"))
    assert [test.id for test in suite.tests] == ["random-read", "thermal-write"]


def test_workloads_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Workload.__setattr__(workload(), "queue_depth", 2)


TRIM_CHECK = """
schema_version = 1
name = "mine"
title = "Mine"
description = "A suite of my own."
source = "me"

[[tests]]
id = "trim"
title = "TRIM"
page = "trim"
kind = "trim-check"
method = "as I like it"
source = "me"
"""


def test_a_trim_check_reads_before_and_after_it_discards(tmp_path: Path) -> None:
    (test,) = load_text(tmp_path, TRIM_CHECK).tests
    assert [phase.label for phase in test.phases] == ["written", "discarded"]
    assert [phase.trim and phase.trim.discard for phase in test.phases] == [False, True]
    again = Suite.model_validate_json(load_text(tmp_path, TRIM_CHECK).model_dump_json())
    assert again.tests == (test,), "as a manifest keeps it"
    once = TRIM_CHECK + '[[tests.phases]]\nlabel = "written"\ntrim = { discard = false }\n'
    for wrong in (once, GOOD.replace("quick = {", "trim = {")):
        with pytest.raises(UserError) as caught:
            load_text(tmp_path, wrong)
        assert "trim" in caught.value.message


def test_shorter_rests_of_a_real_drive_are_no_difference_and_a_shortened_run_is() -> None:
    test = suites.load("calibration").tests[0]
    assert test != test.in_real_time()
    assert not run_differently([test, test.in_real_time()])
    assert run_differently([test, test.shortened()])
