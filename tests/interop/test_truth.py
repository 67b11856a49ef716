"""The whole real half against drives whose truth is known: reviews in a guest, of served drives.

The same loads on the same drives in virtual time say what should have come out; what is apart is
the harness' error. Rates and latencies of the SM951 are compared at 1/10000 of its speed, so that
what the emulated machine adds is small beside the drive's times. Heat, TRIM, SMART and erases take
seconds of a drive's time: they are shown on a drive that is itself as slow (truth_drive.toml).
At queue depth 1 the guest's own time lengthens the time between two commands; of short ones it is
measured in the same guest, on a drive that answers at once, and taken into account.
Each test can be run by itself; those of a drive share one guest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import truth_guest

import drivebay
from drivebay import results
from drivebay.analysis import review
from drivebay.results.reading import Result, Step

SM951 = "sm951-nvme-256"
SLOW = Path(__file__).with_name("truth_drive.toml")
SCALE = 10_000
PHASE_S = 100
SPAN = 2**30
RATE, LATENCY = 0.03, 0.05
PERCENTILES = (50.0, 99.0)
KELVIN = 1.0
LOAD = """
[[tests]]
id = "{name}"
title = "{name}"
page = "random"
kind = "ladder"
method = "-"
source = "none"
prepare = [{prepare}]
queue_depths = {depths}
metric_queue_depths = [{depths[0]}]
[tests.workload]
pattern = "{pattern}"
read_percent = {reads}
block_bytes = {block}
span_start_percent = {start}
span_percent = 25
span_bytes = {span}
duration_s = {seconds}
"""


@dataclass(frozen=True)
class Load:
    """A load of the SM951: where it begins, so that none meets what another has written; what is
    done before; and what fio calls it, where the guest's own time is taken into account."""

    pattern: Literal["random", "sequential"]
    read_percent: int
    block_bytes: int
    queue_depths: tuple[int, ...]
    start_percent: int
    prepare: str = ""
    fio: str = ""

    def toml(self, name: str) -> str:
        return LOAD.format(
            name=name,
            prepare=self.prepare,
            depths=list(self.queue_depths),
            pattern=self.pattern,
            reads=self.read_percent,
            block=self.block_bytes,
            start=self.start_percent,
            span=SPAN,
            seconds=PHASE_S,
        )

    def virtual(self, depth: int, start_bytes: int) -> drivebay.Workload:
        return drivebay.Workload(
            pattern=self.pattern,
            read_percent=self.read_percent,
            block_bytes=self.block_bytes,
            queue_depth=depth,
            span_start_bytes=start_bytes,
            span_bytes=SPAN,
            duration_s=PHASE_S / SCALE,
        )


# At queue depth 32, a long write takes 27 s, and the guest's kernel gives one up after 30. A minute
# is 6 ms of the drive's time: its buffer is empty again.
LOADS = {
    "random-read": Load("random", 100, 4096, (1, 4, 32), 0, fio="randread"),
    "sequential-read": Load("sequential", 100, 131_072, (1, 4), 25),
    "random-write": Load("random", 0, 4096, (1, 4, 32), 50, fio="randwrite"),
    "sequential-write": Load(
        "sequential", 0, 131_072, (1, 4), 75, '{ kind = "rest", seconds = 60 }'
    ),
}
DRIVES = f"""\
[drive.truth]
profile = "{SM951}"
serial = "truth"
nqn = "nqn.2026-11.localhost.drivebay:truth"
precondition = "filled"
time-scale = "1/{SCALE}"
[drive.own]
profile = "{SM951}"
serial = "own"
nqn = "nqn.2026-11.localhost.drivebay:own"
pace = "none"
"""
TRIM = """
[[tests]]
id = "trim"
title = "trim"
page = "trim"
kind = "trim-check"
method = "-"
source = "none"
prepare = [BEFORE]
[[tests.phases]]
label = "written"
trim = { discard = false, extent_bytes = 1048576, reads = 2 }
[[tests.phases]]
label = "discarded"
trim = { discard = true, extent_bytes = 1048576, reads = 2 }
"""
# Each test begins on a drive that has cooled, as every one of a virtual drive's does. BEFORE: what
# was done to the drive before it was served.
FILLED = '{ kind = "fill", passes = 2 }, { kind = "rest", seconds = 1800 }, '
HEAT = LOAD.format(
    name="heat",
    prepare='BEFORE{ kind = "rest", seconds = 60 }',
    depths=[4],
    pattern="sequential",
    reads=0,
    block=131_072,
    start=0,
    span=2**28,
    seconds=120,
)
ERASE = LOAD.format(
    name="erase",
    prepare='BEFORE{ kind = "purge" }, { kind = "rest", seconds = 60 }',
    depths=[1, 4],
    pattern="random",
    reads=100,
    block=4096,
    start=0,
    span=8 * 2**20,
    seconds=30,
)
SLOW_TESTS = {"trim": TRIM, "heat": HEAT, "erase": ERASE}
REVIEW = """\
attach truth
drivebay guest review $DISK --suite suite.toml --yes --out guest \\
  --overwrite-signature --destroy-data truth
"""
# The guest's own time per command, before (1) and after (2).
OWN = """\
own() {
  for load in randread randwrite; do
    inside fio --name=own --filename=$OWN --direct=1 --thread=1 --ioengine=io_uring --iodepth=1 \\
      --rw=$load --bs=4k --time_based=1 --runtime=10 --size=1g \\
      --output-format=json --output=$1-$load.json
  done
}
attach own; OWN=$DISK; own 1
"""

pytestmark = truth_guest.MARKS


@pytest.fixture(scope="module")
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Of the SM951: the loads that this run of the tests asks for."""
    asked = {item.callspec.params["name"] for item in _items(request) if hasattr(item, "callspec")}
    folder = tmp_path_factory.mktemp("rates") / "out"
    folder.mkdir()
    (folder.parent / "drives.toml").write_text(DRIVES)
    tests = [load.toml(name) for name, load in LOADS.items() if name in asked]
    truth_guest.suite(folder, "suite.toml", *tests)
    serve = ("--config", str(folder.parent / "drives.toml"))
    said = truth_guest.boot(folder, OWN + REVIEW + "own 2\n", serve, drive=None)
    assert said.get("guest") == "0", (folder / "guest.log").read_text()
    return results.load(folder / "guest")


def _own_s(folder: Path, load: str) -> float:
    """The guest's own time per command of a load, seconds; 0 if it is not taken into account."""
    found = [0.0]
    for when in (1, 2) if load else ():
        text = (folder / f"{when}-{load}.json").read_text()
        job = json.loads(text[text.index("{") :])["jobs"][0]
        side = job["read" if "read" in load else "write"]
        found.append(float(side["runtime"]) / 1000 / side["total_ios"])
    return sum(found) / 2


@pytest.fixture(scope="module")
def truths(measured: Result) -> dict[tuple[str, int], drivebay.Result]:
    """What the same loads, one after another, give in virtual time, by load and queue depth."""
    device = drivebay.drive(SM951).device()
    device.fill()
    device.rest(1800)
    found = {}
    for step in measured.steps:
        load, phases = LOADS[step.id], measured.step(step.id).test.phases
        start, _ = phases[0].workload.span(measured.target["capacity_bytes"])
        device.rest(60 / SCALE if load.prepare else 0)
        for depth in load.queue_depths:
            found[step.id, depth] = device.run(load.virtual(depth, start))
    return found


@pytest.fixture(scope="module")
def slow(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Result, Result]:
    """Of the slow drive, in the guest and in virtual time: the tests that are asked for."""
    asked = {getattr(item, "originalname", "").split("_")[1] for item in _items(request)}
    tests = [text for name, text in SLOW_TESTS.items() if name in asked]
    folder = tmp_path_factory.mktemp("slow")
    device = drivebay.drive(SLOW).device()
    device.fill(passes=2)
    device.rest(1800)
    device.save(folder / "state")
    named = ("--serial", "truth", "--nqn", "nqn.2026-11.localhost.drivebay:truth")
    serve = ("--state", str(folder / "state"), *named)
    out = folder / "out"
    out.mkdir()
    truth_guest.suite(out, "suite.toml", *(one.replace("BEFORE", "") for one in tests))
    said = truth_guest.boot(out, REVIEW, serve, drive=str(SLOW))
    assert said.get("guest") == "0", (out / "guest.log").read_text()
    truth_guest.suite(folder, "virtual.toml", *(one.replace("BEFORE", FILLED) for one in tests))
    virtual = truth_guest.in_virtual_time(SLOW, folder / "virtual.toml", folder / "virtual")
    return results.load(out / "guest"), virtual


def _items(request: pytest.FixtureRequest) -> list[pytest.Item]:
    return [item for item in request.session.items if item.path == request.path]


class Compared:
    """Figures beside one another, printed as rows of a table; `apart`: those beyond limits."""

    def __init__(self) -> None:
        self.apart: list[str] = []

    def limit(self, name: str, here: float, truth: float, most: float) -> str:
        """The relative difference, in words."""
        difference = here / truth - 1
        if abs(difference) > most:
            self.apart.append(f"{name}: {here:.6g} for {truth:.6g}")
        return f"{difference:+.1%}"

    def load(
        self,
        name: str,
        rates: tuple[float, float],
        means_us: tuple[float, float],
        percentiles_us: Iterable[tuple[float | None, float | None]],
    ) -> None:
        """A load's row: each pair is what was found, and the truth."""
        rate = self.limit(f"{name}, rate", *rates, RATE)
        mean = self.limit(f"{name}, mean latency", *means_us, LATENCY)
        shown = (f"{a / b - 1:+.1%}" if a and b else "-" for a, b in percentiles_us)
        print(f"| {name} | {rate} | {mean} | {' | '.join(shown)} |", flush=True)

    def phases(self, of: tuple[Result, Result], test: str) -> None:
        """A test's phases, each as a load."""
        for real, virtual in zip(*(review(one).tests[test].steps for one in of), strict=True):
            assert real.latency_mean_us is not None and virtual.latency_mean_us is not None
            self.load(
                f"{test}, {real.label}",
                (real.iops, virtual.iops),
                (real.latency_mean_us, virtual.latency_mean_us),
                [(real.percentiles_us[q], virtual.percentiles_us[q]) for q in PERCENTILES],
            )


@pytest.mark.parametrize("name", LOADS)
def test_rates_and_latencies_of_an_sm951(
    measured: Result, truths: dict[tuple[str, int], drivebay.Result], name: str
) -> None:
    load, compared = LOADS[name], Compared()
    steps = {step.queue_depth: step for step in review(measured).tests[name].steps}
    assert tuple(steps) == load.queue_depths
    own_s = _own_s(measured.folder.parent, load.fio)
    print(f"\n{name}: the guest's own time is {own_s * 1e3:.1f} ms a command")
    for depth, step in steps.items():
        truth = truths[name, depth]
        rate, mean_us = _within(measured.step(name), step.label)
        period_s = SCALE / truth.iops + (own_s if depth == 1 else 0)
        compared.load(
            f"{name}, queue depth {depth}",
            (rate, 1 / period_s),
            (mean_us, truth.latency.mean_us * SCALE),
            [(step.percentiles_us[q], truth.latency.percentile_us(q) * SCALE) for q in PERCENTILES],
        )
    assert not compared.apart


def _within(step: Step, phase: str) -> tuple[float, float]:
    """Requests per second of a phase's own time, and their mean latency, us. At its end fio waits
    for all that is on its way, here seconds, and takes it to have come when the last has."""
    series = step.table("series").to_pandas()
    rows = series[(series.phase == phase) & (series.second < PHASE_S)]
    counts = rows.reads + rows.writes
    mean_ns = (rows.latency_ns_mean * counts).sum() / counts.sum()
    return float(counts.sum() / PHASE_S), float(mean_ns / 1000)


def test_trim_frees_blocks_and_their_reads_are_faster(slow: tuple[Result, Result]) -> None:
    compared = Compared()
    compared.phases(slow, "trim")
    real, virtual = (one.step("trim").conditions()["trim"] for one in slow)
    for key in (
        "verdict",
        "as_claimed",
        "blocks",
        "old_blocks",
        "reads_after",
        "neighbours_intact",
    ):
        assert real[key] == virtual[key], key
    assert real["claims"]["source"] == "DLFEAT"
    assert not compared.apart


def test_heat_throttles_and_is_read_while_it_does(slow: tuple[Result, Result]) -> None:
    compared = Compared()
    compared.phases(slow, "heat")
    steps = [one.step("heat") for one in slow]
    real_c, virtual_c = (_column(step, "temperature_c") for step in steps)
    both = min(len(real_c), len(virtual_c))
    apart_k = np.abs(real_c[:both] - virtual_c[:both])
    print(f"| temperature | {apart_k.mean():.2f} K apart, at most {apart_k.max():.2f} K |")
    assert apart_k.mean() <= KELVIN
    stages = [_column(step, "throttle_stage") for step in steps]
    begins = [int(np.argmax(stage == 2)) for stage in stages]
    print(f"| throttled hard from | {begins[0]} s for {begins[1]} s |")
    assert abs(begins[0] - begins[1]) <= 2
    assert not compared.apart


def test_heat_and_what_was_written_are_in_smart(slow: tuple[Result, Result]) -> None:
    real, virtual = (one.step("heat").conditions()["smart"]["grew"] for one in slow)
    writes = sum(phase.writes for phase in slow[0].step("heat").phases())
    print({name: (real.get(name), virtual[name]) for name in virtual})
    # What was on its way when the time was up is the drive's and not fio's.
    assert 0 <= real["host_writes"] - writes <= 4
    compared = Compared()
    for name in ("host_writes", "written_bytes"):
        compared.limit(name, real[name], virtual[name], RATE)
    # It stays throttled after the load, until SMART is read.
    assert abs(real["throttle_heavy_s"] - virtual["throttle_heavy_s"]) <= 5
    assert not compared.apart
    for name in ("throttle_light_count", "throttle_heavy_count"):
        assert real[name] == virtual[name], name
    assert abs(real["percentage_used"] - virtual["percentage_used"]) <= 1
    assert "media_errors" not in real and "media_errors" not in virtual


def test_erase_by_format_leaves_a_fresh_drive(slow: tuple[Result, Result]) -> None:
    compared = Compared()
    compared.phases(slow, "erase")
    purge = json.loads((slow[0].step("erase").folder / "raw" / "prepare.json").read_text())[0]
    assert purge["method"] == "NVMe Format (user data erase)"
    assert (purge["marks_gone"], purge["reads_after"]) == (purge["marks"], "zeros")
    assert not compared.apart


def _column(step: Step, name: str) -> np.ndarray:
    return np.array(step.table("series")[name].to_pylist(), dtype=float)
