"""Results of others: any file of one changed in any way is shown with finite figures, or refused.

A changed file comes with a checksum that agrees, as a stranger's would. Each case is made from its
number alone. `make test` has a hundred, `make test-long` DRIVEBAY_MUTATIONS=10000; a case that
fails says how to repeat it: DRIVEBAY_MUTATION=NUMBER .venv/bin/pytest tests/test_damaged_results.py
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_result import REAL, make

import drivebay
import drivebay.report
from drivebay import results, review
from drivebay.analysis import review as computed
from drivebay.cli.entry import run
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.definitions import suites
from drivebay.lab import query as asking
from drivebay.lab.query import query
from drivebay.lab.sweep.store import Store
from drivebay.results.history import interruptions
from drivebay.targets.virtual.target import VirtualTarget

AT_ONCE = 100
CASES = int(os.environ.get("DRIVEBAY_MUTATIONS", AT_ONCE))
ONE = os.environ.get("DRIVEBAY_MUTATION")
REPEAT = "DRIVEBAY_MUTATION={} .venv/bin/pytest tests/test_damaged_results.py -k mutated"
FINGERPRINT = "3fa9c1d2e5b60718"
CONDITIONS: dict[str, Any] = {
    "host": {"kernel": "Linux", "cpu_governor": None, "cpus_usable": 2, "load_1min": 0.5},
    "link": {"kind": "PCIe", "now": "8 GT/s x4", "possible": "8 GT/s x4", "bytes_per_s": 4e9},
    "telemetry": {
        "read": ["drive temperature"],
        "absent": [{"source": "drive power", "why": "no meter"}],
        "seconds": 60,
        "missed_seconds": 1,
    },
    "smart": {
        "source": "nvme",
        "before": {"written_bytes": 1.0, "waf": 1.5},
        "after": {"written_bytes": 2.0, "waf": 1.6, "temperature_c": 40.0},
        "grew": {"written_bytes": 1.0},
    },
    "warnings": ["this is a virtual machine"],
    "interruptions": [{"began": "2026", "ended": "killed", "host_rebooted": False}],
    "sleep": {"why_not": []},
}
"""What the conditions of a real drive may have."""
VALUES: list[Any] = [
    *(None, True, False, "", "x", "\x1b[2J\u202e<b>", "9" * 5000, [], {}, [1], {"a": 1}),
    *(0, -1, 1, 2**31, 2**53, 2**61, 2**63, 2**64 - 1, 10**30, -(2**63)),
    *(0.5, -0.5, 1e-300, 5e-324, 1e308, -1e308, 1e60, 1e61),
    *(math.nan, math.inf, -math.inf),
]
NUMBERS = [-1, 0, 1, 2**31 - 1, 2**53, 2**61, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 1e-300, -1.0, 0.0, 1e61]


# --- whole results --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A virtual review with events, an invented one of a real drive, TRIM, and a sweep."""
    place = tmp_path_factory.mktemp("wholes")
    profile = drivebay.drive("sm951-nvme-512").scaled(1 / 128)
    suite = suites.load("quick").selected(("random-read",))
    target = partial(VirtualTarget, profile, events=True)
    review.run(target, suite, out=place / "virtual", quick=True, jobs=1)
    ids = ("random-read", "consistency-short", "trim")
    make(place / "real", suite=suites.load("quick").selected(ids), quick=True, target=REAL)
    for step in sorted(place.glob("real/steps/*/step.json"))[:2]:
        document = json.loads(step.read_text())
        step.write_text(json.dumps({**document, "conditions": CONDITIONS}))
        agree(place / "real", step)
    ids = ("thermal-write", "light-full", "mixed-random")
    make(place / "long", suite=suites.load("anandtech-2015").selected(ids), quick=True)
    found = {name: place / name for name in ("virtual", "real", "long")}
    return {**found, "sweep": sweep(place / "sweep")}


def sweep(place: Path) -> Path:
    """A packed block of two runs, and a part beside it."""
    store = Store(str(place))
    store.create(FINGERPRINT, {"name": "a"}, 3)
    for index in range(3):
        row = {"run": [index], "drive": ["a"], "spare": [7.5], "iops": [1000.0 + index], "n": [-3]}
        table = pa.table(row).replace_schema_metadata({"drivebay": '{"iops": "IOPS"}'})
        store.write_part(index, FINGERPRINT, table)
        if index == 1:
            store.pack(FINGERPRINT)
    store.write_failure(9, FINGERPRINT, {"error": "it broke"})
    return place


def agree(folder: Path, changed: Path) -> None:
    """Enters the checksum that a changed file has now, as far as the manifest can be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        manifest = json.loads((folder / "manifest.json").read_text())
        name = str(changed.relative_to(folder))
        for step in manifest["steps"]:
            if name in step["files"]:
                step["files"][name] = hashlib.sha256(changed.read_bytes()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))


# --- changes --------------------------------------------------------------------------------------


def flipped(draw: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 1, 4, 40))):
        if content:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def cut(draw: random.Random, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: draw.randrange(len(content) + 1)])


def garbage(draw: random.Random, path: Path) -> None:
    path.write_bytes(draw.randbytes(draw.choice((0, 1, 100, 5000))))


def other_file(draw: random.Random, path: Path) -> None:
    """Another file of the same result in its place."""
    others = sorted(one for one in path.parent.iterdir() if one.is_file())
    path.write_bytes(draw.choice(others).read_bytes())


def nodes(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every node but the root."""
    pairs: Any = document.items() if isinstance(document, dict) else ()
    pairs = enumerate(document) if isinstance(document, list) else pairs
    for key, inner in pairs:
        yield (*path, key)
        if len(path) < 100:  # one that another change has made deep
            yield from nodes(inner, (*path, key))


def json_node(draw: random.Random, path: Path) -> None:
    """A node replaced, removed or added."""
    document = json.loads(path.read_bytes().splitlines()[0]) if path.suffix == ".jsonl" else None
    document = json.loads(path.read_bytes()) if document is None else document
    for _ in range(draw.choice((1, 1, 1, 3))):
        if not (known := list(nodes(document))):
            break
        *above, last = draw.choice(known)
        inner = document
        for key in above:
            inner = inner[key]
        what = draw.randrange(10)
        if what == 0:
            del inner[last]
        elif what == 1 and isinstance(inner, dict):
            inner[draw.choice(("extra", "label", "value", "intervals"))] = draw.choice(VALUES)
        elif what == 2:
            deep: Any = 1
            for _ in range(draw.choice((5, 70, 400))):
                deep = [deep]
            inner[last] = deep
        elif what == 3 and isinstance(inner, list):
            inner.append(inner[last])
        else:
            inner[last] = draw.choice(VALUES)
    text = json.dumps(document)
    if draw.randrange(20) == 0:
        text = text.replace(": 1", draw.choice((": 1e999", ": 1E308", ": -0", ': "\\ud800"')), 1)
    path.write_text(text)


def column(draw: random.Random, path: Path) -> None:
    """A column removed, renamed, retyped, added or with other values; rows in another order."""
    table = read_table(path)
    place = draw.randrange(table.num_columns)
    field = table.schema.field(place)
    what = draw.choice(("remove", "rename", "retype", "add", "values", "values", "values", "order"))
    if what == "remove":
        table = table.remove_column(place)
    elif what == "rename":
        names = [*table.column_names]
        names[place] = draw.choice(("x", names[0], "\x1b[31m"))
        table = table.rename_columns(names)
    elif what == "retype":
        kinds = (pa.float64(), pa.int64(), pa.int32(), pa.string(), pa.float32(), pa.uint64())
        with contextlib.suppress(pa.ArrowException):
            table = table.set_column(
                place, field.name, table.column(place).cast(draw.choice(kinds))
            )
    elif what == "add":
        table = table.append_column("more", pa.array([1.5] * len(table)))
    elif what == "order":
        order = [*range(len(table))]
        draw.shuffle(order)
        table = table.take(pa.array(order, pa.int64()))
    elif len(table):
        values = table.column(place).to_pylist()
        for _ in range(draw.choice((1, 1, len(values)))):
            values[draw.randrange(len(values))] = draw.choice(new_values(field.type))
        with contextlib.suppress(pa.ArrowException, OverflowError):
            table = table.set_column(place, field, pa.array(values, field.type))
    write_table(path, table, draw)


def new_values(kind: pa.DataType) -> list[Any]:
    if pa.types.is_floating(kind):
        return [None, *FLOATS]
    if pa.types.is_list(kind):
        return [None, [], [math.nan], [None], [1e38] * 3]
    if pa.types.is_string(kind):
        return [None, "", "read", "\x1b[2J", "x" * 3000]
    return [None, *(one for one in NUMBERS if abs(one) < 2**31 or kind == pa.int64())]


def rows(draw: random.Random, path: Path) -> None:
    """Rows removed, repeated, or in many groups."""
    table = read_table(path)
    what = draw.randrange(4)
    if what == 0:
        table = table.slice(0, draw.randrange(len(table) + 1))
    elif what == 1:
        table = pa.concat_tables([table] * draw.choice((2, 50)))
    elif what == 2 and len(table):
        one = table.slice(draw.randrange(len(table)), 1)
        table = pa.concat_tables([table, one])
    write_table(path, table, draw)


def read_table(path: Path) -> pa.Table:
    if path.suffix == ".arrow":
        return pa.ipc.open_file(path.read_bytes()).read_all()
    with pq.ParquetFile(io.BytesIO(path.read_bytes())) as file:
        return file.read()


def write_table(path: Path, table: pa.Table, draw: random.Random) -> None:
    if path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        return
    groups = draw.choice((1_000_000, 1_000_000, 3))
    pq.write_table(table, path, row_group_size=groups, compression=draw.choice(("zstd", "snappy")))


Change = Callable[[random.Random, Path], None]
ANY: tuple[Change, ...] = (flipped, cut, garbage, other_file)
BY_KIND: dict[str, tuple[Change, ...]] = {
    ".json": (*ANY, *[json_node] * 16),
    ".jsonl": (*ANY, json_node),
    ".parquet": (*ANY, *[column] * 8, rows, rows),
    ".arrow": (*ANY, *[column] * 4, rows),
}


def mutated(number: int, wholes: dict[str, Path], place: Path) -> tuple[Path, str]:
    """A case: a copy of one of the results with one file changed, and what was changed."""
    draw = random.Random(number)
    name = draw.choice(sorted(wholes))
    folder = place / name
    shutil.copytree(wholes[name], folder)
    paths = sorted(one for one in folder.rglob("*") if one.suffix in BY_KIND)
    kind = draw.choice(sorted({one.suffix for one in paths}))  # all as often
    path = draw.choice([one for one in paths if one.suffix == kind])
    change = draw.choice(BY_KIND[path.suffix])
    change(draw, path)
    agree(folder, path)
    return folder, f"{path.relative_to(folder)} {change.__name__}"


# --- what is done with a result -------------------------------------------------------------------


def used(folder: Path, *, reported: bool) -> str:
    """How it ended: "taken" with finite figures, or "refused"; anything else is an error."""
    try:
        if folder.name == "sweep":
            query("SELECT *, ci95(n) OVER () FROM sweep", [folder])
            manifest = Store(str(folder)).read_manifest()
            list(Store(str(folder)).rows(str(manifest and manifest["fingerprint"])))
            Store(str(folder)).done(FINGERPRINT)
            return "taken"
        found = computed(results.load(folder))
    except (UserError, EnvironmentProblem) as problem:
        assert problem.message and problem.hint and "\n" not in problem.message
        if reported:
            quietly(["compare", str(folder), str(folder)], codes=(2, 3))
        return "refused"
    for measured in found.tests.values():
        for figure in measured.figures.values():
            numbers = (figure.value, figure.spread, *(figure.interval or ()))
            assert all(math.isfinite(one) for one in numbers if one is not None), figure
    interruptions(folder / "log.jsonl", "random-read")
    asked = (
        "SELECT count(*), sum(value) FROM figures UNION ALL SELECT count(*), avg(latency_ns_mean) "
        "FROM series UNION ALL SELECT sum(count), max(high_ns) FROM histogram UNION ALL SELECT "
        "sum(ns), max(second) FROM stages UNION ALL SELECT count(*), max(value) FROM telemetry "
        "UNION ALL SELECT count(*), max(capacity_bytes) FROM runs UNION ALL SELECT count(*), "
        "max(end_s) FROM events UNION ALL SELECT count(*), "
        "max(list_sum(die_read)) FROM activity UNION ALL SELECT count(*), 0 FROM superblocks"
    )
    with contextlib.suppress(EnvironmentProblem):  # fifty times the intervals need more than 1 GB
        assert query(asked, [folder]).rows
    if reported:
        for step in found.result.done[:1]:
            quietly(["explain", str(folder), step.id, "--against", str(folder)], codes=(0, 2))
        quietly(["compare", str(folder), str(folder)], codes=(0, 2))
        page = drivebay.report.write([folder], folder / "report.html", shipped=[]).read_text()
        assert "\x1b" not in page
    return "taken"


def quietly(arguments: list[str], codes: tuple[int, ...]) -> None:
    """Runs a command; nothing that acts on a terminal is printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        code = run(arguments)
    assert code in codes, (code, out.getvalue()[-500:])
    assert not {"\x1b", "\u202e"} & {*out.getvalue()}


@pytest.mark.parametrize("first", range(0, CASES, AT_ONCE) if ONE is None else [int(ONE)])
def test_a_mutated_result_is_shown_or_refused(
    wholes: dict[str, Path], tmp_path: Path, first: int
) -> None:
    numbers = range(first, first + AT_ONCE if ONE is None else first + 1)
    ends: Counter[str] = Counter()
    failed: list[str] = []
    for number in numbers:
        what = ""
        try:
            folder, what = mutated(number, wholes, tmp_path / "one")
            ends[used(folder, reported=number % 16 == 0 or ONE is not None)] += 1
        except Exception as problem:
            if ONE is not None:
                raise
            failed.append(f"{what}: {problem!r:.300}\n  {REPEAT.format(number)}")
        shutil.rmtree(tmp_path / "one")
    assert not failed, f"{len(failed)} of {AT_ONCE}\n" + "\n".join(failed)
    assert ONE is not None or min(ends["taken"], ends["refused"]) > AT_ONCE // 20, ends


# --- what is no file ------------------------------------------------------------------------------


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def node(path: Path) -> None:
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("device nodes need root")


def a_socket(path: Path) -> None:
    """By a short name: a socket's has 108 bytes at most."""
    with socket.socket(socket.AF_UNIX) as one, tempfile.TemporaryDirectory() as short:
        one.bind(f"{short}/s")
        Path(f"{short}/s").rename(path)


def foreign(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def own(path: Path) -> None:
    """A link to the very file."""
    path.with_suffix(".moved").write_bytes(KEPT[path.name])
    path.symlink_to(path.with_suffix(".moved"))


def directory(path: Path) -> None:
    path.mkdir()


KEPT: dict[str, bytes] = {}
NO_FILES = (pipe, device, node, a_socket, directory, foreign, own)


@pytest.mark.parametrize("make_it", NO_FILES, ids=lambda one: one.__name__)
def test_what_is_no_regular_file_is_named_and_not_waited_for(
    wholes: dict[str, Path], tmp_path: Path, make_it: Callable[[Path], None]
) -> None:
    for name in ("virtual", "sweep"):
        whole = wholes[name]
        for path in sorted(one for one in whole.rglob("*") if one.is_file()):
            if "failed" in path.parts or path.name == "log.jsonl":
                continue
            folder = tmp_path / name
            shutil.copytree(whole, folder)
            changed = folder / path.relative_to(whole)
            KEPT[changed.name] = changed.read_bytes()
            changed.unlink()
            make_it(changed)
            for command in (["query", "FROM runs"], ["compare", str(folder)]):
                if name == "virtual" or command[0] == "query":
                    with contextlib.redirect_stderr(io.StringIO()) as said:
                        code = run([*command, str(folder)])
                    assert code == (2 if "holds no" in said.getvalue() else 3), said.getvalue()
                    assert path.name in said.getvalue()
            shutil.rmtree(folder)


def test_a_log_that_is_none_is_not_waited_for(tmp_path: Path) -> None:
    for number, make_it in enumerate((pipe, device, a_socket, directory, foreign)):
        make_it(tmp_path / str(number))
        assert interruptions(tmp_path / str(number), "x") == []


def test_a_result_is_moved_by_a_link_to_its_folder_alone(
    wholes: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(wholes["virtual"], tmp_path / "r")
    (tmp_path / "link").symlink_to("r")
    assert results.load(tmp_path / "link").done
    (tmp_path / "r/steps").rename(tmp_path / "elsewhere")
    (tmp_path / "r/steps").symlink_to("../elsewhere")
    with pytest.raises(EnvironmentProblem, match=r"step\.json: its folder is a link"):
        results.load(tmp_path / "r")
    with pytest.raises(UserError, match="steps is a link"):
        results.Folder.reopen(tmp_path / "r")
    assert sorted((tmp_path / "elsewhere").iterdir()), "nothing of what it points to was removed"


def test_a_resumed_result_writes_into_no_other_file(
    wholes: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(wholes["virtual"], tmp_path / "r")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "r/log.jsonl").unlink()
    (tmp_path / "r/log.jsonl").symlink_to("../mine")
    with pytest.raises(EnvironmentProblem, match=r"log\.jsonl"):
        results.Folder.reopen(tmp_path / "r")
    assert (tmp_path / "mine").read_text() == "mine"


# --- single damages -------------------------------------------------------------------------------


def damaged(folder: Path, name: str, change: Callable[[Path], object]) -> str:
    """What is said of a result with one file changed."""
    change(folder / name)
    agree(folder, folder / name)
    with pytest.raises(EnvironmentProblem, match="is damaged") as caught:
        results.load(folder)
    assert caught.value.exit_code == 3
    return caught.value.message.partition(" is damaged: ")[2]


def edited(change: Callable[[Any], object]) -> Callable[[Path], object]:
    def edit(path: Path) -> None:
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return edit


def replaced(name: str, value: Any) -> Callable[[Path], object]:
    """The first value of a column by another one."""

    def edit(path: Path) -> None:
        table = read_table(path)
        place = table.schema.get_field_index(name)
        values = pa.array([value, *table.column(name).to_pylist()[1:]], table.field(name).type)
        pq.write_table(table.set_column(place, table.field(name), values), path)

    return edit


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("step", edited(lambda d: d["phases"][0].update(reads=None)), "phases.0.reads: Input"),
        ("step", edited(lambda d: d["phases"][0].update(reads=10**400)), "has more than 64 bits"),
        ("step", edited(lambda d: d["phases"][0].update(duration_s=1e308)), "duration_s: Input"),
        ("step", edited(lambda d: d["phases"].clear()), "phases: they differ from the test's"),
        ("step", edited(lambda d: d.update(id="x")), "id: it belongs to test x"),
        ("step", lambda path: path.write_bytes(b"\xff"), "it is not valid JSON"),
        ("step", lambda path: path.write_text("[" * 10**5), "nested more than 64 deep"),
        ("series", replaced("latency_ns_mean", math.nan), "latency_ns_mean: nan is out of range"),
        ("series", replaced("power_w", math.inf), "power_w: inf is out of range"),
        ("series", replaced("reads", -1), "reads: -1 is below 0"),
        ("series", replaced("reads", 2**63 - 1), "reads: its sum is beyond 2^61"),
        ("series", replaced("reads", None), "reads: a value is missing"),
        ("series", replaced("second", 9999), "second: 9999 is after its phase's end"),
        ("series", replaced("phase", "x"), "phase: 'x' is not a phase of the test"),
        ("histogram", replaced("direction", "x"), "direction: 'x' is neither read nor write"),
        ("histogram", replaced("high_ns", 2**40), "bins overlap"),
        ("stages", lambda path: path.write_bytes(b"PAR1"), "Parquet file size is 4 bytes"),
        ("activity", replaced("die_read", [math.nan]), "die_read: nan is out of range"),
    ],
)
def test_a_damage_is_named_by_file_and_field(
    wholes: dict[str, Path],
    tmp_path: Path,
    name: str,
    change: Callable[[Path], object],
    words: str,
) -> None:
    shutil.copytree(wholes["virtual"], tmp_path / "r")
    file = f"steps/random-read/{name}.{'json' if name == 'step' else 'parquet'}"
    said = damaged(tmp_path / "r", file, change)
    assert said.startswith(f"{file}: ") and words in said


def test_more_rows_than_a_review_writes_are_not_decoded(
    wholes: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(wholes["virtual"], tmp_path / "r")
    decoded: list[int] = []
    real = pq.ParquetFile.read

    def read(self: Any, **more: Any) -> pa.Table:
        decoded.append(self.metadata.num_rows)
        return real(self, **more)

    def many(path: Path) -> None:
        group = pa.table(
            [pa.repeat(None, 10**6).cast(field.type) for field in read_table(path).schema],
            schema=read_table(path).schema,
        )
        with pq.ParquetWriter(path, group.schema) as writer:
            for _ in range(10):
                writer.write_table(group)
        assert path.stat().st_size < 10**6
        monkeypatch.setattr(pq.ParquetFile, "read", read)

    said = damaged(tmp_path / "r", "steps/random-read/series.parquet", many)
    assert "10,000,000 rows are more than a review writes" in said and 10**7 not in decoded


def test_a_long_text_takes_its_memory_once(wholes: dict[str, Path], tmp_path: Path) -> None:
    """A megabyte in 100,000 rows, as a dictionary of one."""
    shutil.copytree(wholes["virtual"], tmp_path / "r")

    def long(path: Path) -> None:
        one = read_table(path).slice(0, 1)
        table = one.take(pa.array([0] * 100_000))
        text = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["x" * 10**6])
        place = one.schema.get_field_index("stage")
        pq.write_table(table.set_column(place, "stage", text), path, store_schema=False)

    said = damaged(tmp_path / "r", "steps/random-read/stages.parquet", long)
    assert said.endswith("stage: a string has 1,000,000 characters")


# --- queries --------------------------------------------------------------------------------------

HOSTILE = (
    "SELECT repeat('x', 1000000000)",
    "SELECT repeat('x', 5000) FROM range(900000)",
    "SELECT list(i) FROM range(1000000000) t(i)",
    "SELECT count(DISTINCT a.range * 100000 + b.range) FROM range(100000) a, range(100000) b",
    "WITH RECURSIVE r(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM r) SELECT max(len(s)) FROM r",
    "SELECT regexp_replace(repeat('ab', 50000000), '(a|b)*', 'cccccccccc', 'g')",
)


@pytest.mark.parametrize("sql", HOSTILE, ids=lambda sql: sql[:20])
def test_a_query_has_a_gigabyte_of_memory(wholes: dict[str, Path], sql: str) -> None:
    command = [sys.executable, "-c", "from drivebay.cli.entry import main; main()", "query", sql]
    # From a small process: what a child had before its exec counts as its memory, too.
    small = (
        "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode; "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); "
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", small, *command, str(wholes["sweep"])],
        capture_output=True,
        text=True,
    )
    said = done.stderr.splitlines()
    assert done.returncode == 3, said
    assert said[0].endswith("needs more than 1 GB of memory") and not done.stdout
    assert int(said[-1]) * 1024 < 10**9


@pytest.mark.parametrize("hears", [True, False])
def test_a_query_ends_on_ctrl_c(
    wholes: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    hears: bool,
) -> None:
    began, real, never = threading.Event(), asking._answer, threading.Event()

    def answer(*given: Any) -> Any:
        began.set()
        return real(*given) if hears else never.wait()

    def press() -> None:
        began.wait()
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(asking, "_answer", answer)
    monkeypatch.setattr(asking, "STOPS_S", 600.0 if hears else 0.1)
    finger = threading.Thread(target=press)
    finger.start()
    endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c"
    assert run(["query", endless, str(wholes["sweep"])]) == 130
    finger.join()
    never.set()
    assert capsys.readouterr().err.startswith("error: interrupted\nhint: ")


def test_a_function_that_hears_no_interrupt_ends_on_ctrl_c(wholes: dict[str, Path]) -> None:
    program = (
        "from drivebay.cli.entry import main; from drivebay.lab import query as asking\n"
        "real = asking._answer\n"
        "asking._answer = lambda *given: print('began', flush=True) or real(*given)\n"
        "main()"
    )
    deaf = "SELECT length(lpad('x', 2000000000, 'y'))"
    with subprocess.Popen(
        [sys.executable, "-c", program, "query", deaf, str(wholes["sweep"])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "began\n"
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    assert process.returncode == 130, said
    assert said.startswith("error: interrupted\nhint: ") and said.count("\n") == 2


def test_what_acts_on_a_terminal_is_shown(
    wholes: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "SELECT chr(27) || '[2J' || chr(8238) || chr(10) AS \"[bold]x[/y]\", 'é✓' AS plain"
    folder = str(wholes["sweep"])
    assert run(["query", sql, folder]) == 0
    assert capsys.readouterr().out == "[bold]x[/y]      plain\n\\x1b[2J\\u202e\\n  é✓\n"
    assert run(["query", sql, folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"[bold]x[/y]": "\x1b[2J\u202e\n", "plain": "é✓"}
    ]
    assert run(["query", sql, folder, "--csv"]) == 0
    assert capsys.readouterr().out.endswith('"\x1b[2J\u202e\n",é✓\n')
