"""Every file that a command reads, with bytes changed at random: it is taken, or refused in words.

Nothing else may come of it: no other exception, no hang, no figure that is not finite. The traces'
formats and the protocols are fuzzed in Rust (fuzz/). A few dozen files each in `make test`, some
hundred of those that others write; DRIVEBAY_LONG has thousands.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_result import make as make_result
from pydantic import ValidationError

from drivebay import results, serving
from drivebay.analysis import review
from drivebay.common import data, documents
from drivebay.common.errors import DrivebayError, UserError
from drivebay.definitions import profiles, suites
from drivebay.lab.fio_import.jobs import jobs_of
from drivebay.lab.fio_import.load import workload_of
from drivebay.lab.fio_import.logs import series
from drivebay.lab.fio_import.reading import last_document
from drivebay.lab.imports import import_files
from drivebay.lab.journal import Journal
from drivebay.lab.query import query
from drivebay.lab.sweep import plan, spec
from drivebay.lab.sweep.store import Store
from drivebay.library import Device
from drivebay.results.history import interruptions
from drivebay.serving import config
from drivebay.targets.fio.figures import Part, Unreadable
from drivebay.targets.telemetry import smart
from drivebay.targets.telemetry.meter import Meter

LONG = bool(os.environ.get("DRIVEBAY_LONG"))
EXAMPLES = 2000 if LONG else 25
FOREIGN = 10_000 if LONG else 200
"""Files of other programs, which nobody here has written."""
TOKENS = [
    *(b"[", b"]", b"{", b"}", b'"', b"'", b'"""', b"\\", b",", b".", b"=", b":", b"\n", b"#"),
    *(b"\0", b"\\u0000", b"\\ud800", b"\xff", b"null", b"true", b"nan", b"-inf", b"-1", b"0"),
    *(
        b"1e308",
        b"9" * 30,
        b"9" * 5000,
        b"0x" + b"f" * 50,
        b"[" * 2000,
        b'{"a":' * 2000,
        b"a." * 99,
    ),
]
SWEEP = b"""name = "one"
drives = ["sm951-ahci-128"]
suite = "quick"
tests = ["random-read"]
quick = true
seeds = [1, 2]
[[parameters]]
name = "spare"
change = "unused={}%"
values = [0, 7, 25]
[design]
kind = "grid"
"""
SERVED = b'nbd = "unix:a"\n[drive.a]\nprofile = "b"\nseed = 3\ntime-scale = 0.5\nread-only = true\n'
FAULTS = b'[[fault]]\nkind = "hang"\nafter_s = 10.0\nfor_s = 5.0\n'
POWER = b"time,power_w\n" + b"".join(b"%d,%d.5\n" % (1_700_000_000 + n, n) for n in range(9))
LOG = b'{"event": "created", "boot_id": "a"}\n{"event": "step_started", "step": "x", "time": 1}\n'
JOURNAL = b'{"journal": 1}\n{"drive": "a", "test": "b", "full": true, "at": [1], "figures": {}}\n'


def load_sweep(path: Path) -> None:
    plan.make(spec.load(path), where=str(path))


def read_store(path: Path) -> None:
    Store(str(path.parent)).read_manifest()


def read_result(path: Path) -> None:
    review(results.load(path.parent))


def ask_result(path: Path) -> None:
    query("SELECT count(*) FROM runs", [path.parent])


def read_meter(path: Path) -> None:
    meter = Meter(path)
    meter.read_on()
    known = meter.per_second(1_700_000_000.0, 10)
    finite(abs(watts) for watts in known[~np.isnan(known)])


def read_journal(path: Path) -> None:
    journal = Journal()
    try:
        journal.open(path, {}, resume=True)
    finally:
        journal.close()


def load_device(path: Path) -> None:
    Device.load(path.with_suffix(""))


def read_log(path: Path) -> None:
    interruptions(path, "x")


def import_output(path: Path) -> None:
    import_files("fio", [path], path.parent / "imported")
    results.load(path.parent / "imported")


def compute_output(path: Path) -> None:
    """What the import computes, without a result's files, which cost most of its time."""
    with contextlib.suppress(Unreadable, ValidationError):
        for job in jobs_of(Part(last_document(path))):
            load, rows = workload_of(job), series(job, path.parent)
            tables = [job.histogram(), *([] if isinstance(rows, str) else [rows])]
            finite([load.duration_s, job.latency_ns_mean, job.outstanding, *numbers(tables)])


def import_log(path: Path) -> None:
    (path.parent / "a.json").write_text(json.dumps(logged_job()))
    path.rename(path.parent / "a_iops.1.log")
    (path.parent / "a_lat.1.log").write_bytes((path.parent / "a_iops.1.log").read_bytes())
    compute_output(path.parent / "a.json")


def numbers(tables: list[pa.Table]) -> list[float]:
    found = [value for table in tables for row in table.to_pylist() for value in row.values()]
    return [value for value in found if isinstance(value, int | float)]


def finite(figures: Iterable[float | None]) -> None:
    for figure in figures:
        assert figure is None or (math.isfinite(figure) and figure >= 0)


def read_smartctl(path: Path) -> None:
    finite(smart.smartctl_figures(table_of(path)).values())


def read_nvme(path: Path) -> None:
    finite(abs(value) for value in smart.nvme_figures(table_of(path)).values())


def table_of(path: Path) -> dict[str, object]:
    try:
        found = documents.from_json(documents.text(path.read_bytes()), int_bits=128)
    except ValueError as problem:
        raise UserError(str(problem), "as smart.read answers") from None
    return found if isinstance(found, dict) else {}


def fio_output() -> bytes:
    return (Path(__file__).parent / "data/fio/3.33-stopped.json").read_bytes()


def small_fio_output() -> bytes:
    """As it is, without most of the bins: each byte of the rest is changed more often."""
    document = json.loads(fio_output()[fio_output().rindex(b"\n{\n") :])
    job = document["jobs"][0]
    for way in ("read", "write"):
        bins = job[way]["lat_ns"]["bins"]
        job[way]["lat_ns"]["bins"] = dict(list(bins.items())[:3])
    kept = ("jobname", "groupid", "error", "job options", "read", "write", "job_runtime")
    document["jobs"] = [{key: job[key] for key in (*kept, "iodepth_level")}] * 2
    return json.dumps(document, indent=1).encode()


def logged_job() -> dict[str, object]:
    latency = {"mean": 9e4, "bins": {"90000": 4000}}
    way = {"io_bytes": 2**24, "runtime": 2000, "total_ios": 4000, "lat_ns": latency}
    said = {"rw": "randread", "log_avg_msec": "500", "numjobs": "1"}
    job = {"jobname": "a", "job options": said, "read": way, "job_runtime": 2000}
    return {"fio version": "fio-3.33", "jobs": [job]}


LOGGED = b"500, 2000, 0, 0, 0\n1000, 2000, 0, 0, 0\n1500, 2000, 0, 0, 0\n2000, 2001, 0, 0, 0\n"
SMARTCTL = b"""{"temperature": {"current": 34}, "power_on_time": {"hours": 43549},
"scsi_percentage_used_endurance_indicator": 3, "scsi_error_counter_log": {"read":
{"gigabytes_processed": "1234.500"}}, "ata_smart_attributes": {"table": [{"id": 241,
"name": "Total_LBAs_Written", "raw": {"value": 77, "string": "77"}}]}}"""
NVME = b"""{"critical_warning": 0, "temperature": 310, "avail_spare": 100, "percent_used": 3,
"data_units_read": 1000, "data_units_written": "340282366920938463463374607431768211455",
"power_on_hours": 12, "media_errors": 0, "thm_temp1_trans_count": 2}"""


def suite() -> bytes:
    return (data.path("suites") / "quick.toml").read_bytes()


def profile() -> bytes:
    return (data.path("drives") / "sm951-ahci-128.toml").read_bytes()


def whole_profile() -> bytes:
    return (data.path("drives") / "sm951-ahci-512.toml").read_bytes()


def manifest() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        make_result(Path(folder) / "made", suite="quick", only=("random-read",))
        return (Path(folder) / "made/manifest.json").read_bytes()


def state() -> bytes:
    return b'{"profile": {"base": "sm951-ahci-128"}, "seed": 1, "runs": 2}'


READERS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], object]]] = {
    "profile": ("a.toml", profile, profiles.load),
    "profile without a base": ("a.toml", whole_profile, profiles.load),
    "suite": ("a.toml", suite, suites.load),
    "sweep": ("a.toml", lambda: SWEEP, load_sweep),
    "served drives": ("a.toml", lambda: SERVED, config.read),
    "faults": ("a.toml", lambda: FAULTS, serving._script),
    "manifest": ("manifest.json", manifest, read_result),
    "manifest, queried": ("manifest.json", manifest, ask_result),
    "sweep's manifest": ("manifest.json", lambda: b'{"kind": "sweep", "schema": 1}', read_store),
    "journal": ("a.journal.jsonl", lambda: JOURNAL, read_journal),
    "log": ("log.jsonl", lambda: LOG, read_log),
    "state": ("a.json", state, load_device),
    "power": ("a.csv", lambda: POWER, read_meter),
    "fio's output": ("a.json", fio_output, compute_output),
    "fio's output, imported": ("a.json", small_fio_output, import_output),
    "fio's log": ("a.log", lambda: LOGGED, import_log),
    "smartctl's output": ("a.json", lambda: SMARTCTL, read_smartctl),
    "nvme's output": ("a.json", lambda: NVME, read_nvme),
}
THEIRS = [name for name in READERS if name == "power" or "'s output" in name or "'s log" in name]

edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(TOKENS) | st.binary(max_size=8)),
    min_size=1,
    max_size=4,
)


def changed(content: bytes, made: list[tuple[float, int, bytes]]) -> bytes:
    """The content, at each place (a share of its length) so many bytes replaced by others."""
    for place, count, token in made:
        at = int(place * len(content))
        content = content[:at] + token + content[at + count :]
    return content


@pytest.mark.parametrize("kind", READERS)
def test_a_changed_file_is_taken_or_refused_in_words(kind: str) -> None:
    name, make, reader = READERS[kind]
    content = make()
    count = FOREIGN if kind in THEIRS else EXAMPLES

    @settings(max_examples=count, derandomize=not LONG)
    @example([(0.0, 10**6, b"")])
    @example([(0.5, 0, b"[" * 2000)])
    @given(edits)
    def takes_or_refuses(made: list[tuple[float, int, bytes]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(changed(content, made))
            try:
                reader(path)
            except DrivebayError as problem:
                assert problem.message and problem.hint
                assert "\n" not in problem.message + problem.hint

    takes_or_refuses()


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_what_the_boundary_takes_can_be_printed(content: bytes | str) -> None:
    for parse in (documents.toml, documents.from_json):
        try:
            repr(parse(content)).encode()
        except documents.Malformed as problem:
            assert len(str(problem)) < 300 and "\n" not in str(problem)
