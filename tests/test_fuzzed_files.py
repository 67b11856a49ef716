"""Every file that a command reads, with bytes changed at random: it is taken, or refused in words.

Nothing else may come of it: no other exception, no hang. The traces' formats and the protocols are
fuzzed in Rust (fuzz/). A few dozen files each in `make test`; DRIVEBAY_LONG has thousands.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_result import make as make_result

from drivebay import results, serving
from drivebay.analysis import review
from drivebay.common import data, documents
from drivebay.common.errors import DrivebayError
from drivebay.definitions import profiles, suites
from drivebay.lab.calibrate.journal import Journal
from drivebay.lab.fio_import.importer import import_fio
from drivebay.lab.query import query
from drivebay.lab.sweep import plan, spec
from drivebay.lab.sweep.store import Store
from drivebay.library import Device
from drivebay.results.history import interruptions
from drivebay.serving import config
from drivebay.targets.telemetry.meter import Meter

EXAMPLES = 2000 if os.environ.get("DRIVEBAY_LONG") else 25
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
    meter.per_second(1_700_000_000.0, 10)


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
    import_fio([path], path.parent / "imported")


def fio_output() -> bytes:
    return (Path(__file__).parent / "data/fio/3.33-stopped.json").read_bytes()


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
    "fio's output": ("a.json", fio_output, import_output),
    "power": ("a.csv", lambda: POWER, read_meter),
}

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

    @settings(max_examples=EXAMPLES, derandomize=EXAMPLES < 100)
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

    takes_or_refuses()


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_what_the_boundary_takes_can_be_printed(content: bytes | str) -> None:
    for parse in (documents.toml, documents.from_json):
        try:
            repr(parse(content)).encode()
        except documents.Malformed as problem:
            assert len(str(problem)) < 300 and "\n" not in str(problem)
