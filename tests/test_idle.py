"""Tests of kind `idle`: figures by length of rest against numbers worked out by hand, drives that
may sleep and others, and what a real drive's host forbids."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import made_test
from real_files import file, keep_the_disk_free, load, results
from test_client_kinds import data

from drivebay.analysis.figures import Measured
from drivebay.analysis.idle import CUT, UNKNOWN, WOKEN
from drivebay.analysis.measure import measure
from drivebay.definitions import profiles, suites
from drivebay.definitions.modifications import changed
from drivebay.definitions.suites import Phase, Prepare, Test
from drivebay.report.kinds.idle import IDLE
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.telemetry import host
from drivebay.targets.telemetry.recorder import Telemetry
from drivebay.targets.virtual.target import VirtualTarget

__all__ = ["file", "keep_the_disk_free"]


def rests(*seconds: float, duration_s: float = 30) -> Test:
    """One phase for each rest, 0 for none, each after a rest of that length."""
    phases = []
    for rest in seconds:
        think = {"thinktime_us": round(rest * 1e6)} if rest else {}
        work = load(read_percent=100, queue_depth=1, duration_s=duration_s, **think)
        before = (Prepare(kind="rest", seconds=rest),) if rest else ()
        phases.append(
            Phase(label=f"rest-{rest:g}s".replace(".", "-"), workload=work, before=before)
        )
    return made_test(*phases, kind="idle")


def made(test: Test, wakes: Sequence[float | None], why_not: Sequence[str] | None) -> Measured:
    """Figures of phases of 30 s and 30 reads, which took 6 J each."""
    phases = []
    for phase, count in zip(test.phases, wakes, strict=True):
        counted = {} if count is None else {"wakes": count, "energy_j": 6.0}
        phases.append(data(phase.label, phase.workload, [1] * 30, **counted))
    said: dict[str, Any] = {} if why_not is None else {"sleep": {"why_not": [*why_not]}}
    return measure(test, [replace(phases[0], conditions=said), *phases[1:]])


def test_each_rest_has_its_latency_and_power() -> None:
    found = made(rests(0, 0.5, 2), [0, 15, 30], [])
    latencies = [f"latency_mean_rest-{rest}" for rest in ("0s", "0-5s", "2s")]
    powers = [name.replace("latency", "power") for name in latencies]
    assert found.main == (*latencies, *powers, WOKEN)
    assert set(found.main) == set(found.figures)
    figures = found.figures
    assert [figures[key].value for key in latencies] == [1.0] * 3
    assert [(figures[key].value, figures[key].unit) for key in powers] == [(200.0, "mW")] * 3
    assert figures[latencies[0]].label == "Mean read latency without idle time"
    assert figures[powers[1]].label == "Mean power with 0.5 s idle"
    assert (figures[WOKEN].value, figures[WOKEN].n, figures[WOKEN].note) == (75.0, 60, "")
    assert IDLE.remarks(found) == ["75 % of the reads after idle time woke the drive or its link"]


def test_a_drive_that_may_not_sleep_says_so() -> None:
    found = made(rests(0, 2), [0, 0], ["the host forbids it"])
    assert found.figures[WOKEN].value is None
    assert IDLE.remarks(found) == ["the host forbids it"]
    real = made(rests(0, 2), [None, None], [])
    assert real.figures[WOKEN].note == UNKNOWN
    power = real.figures["power_mean_rest-2s"]
    assert (power.value, power.spread, power.n) == (3000.0, 0.0, 30)


def test_results_of_before_have_no_words_on_sleep() -> None:
    found = made(rests(2), [None], None)
    assert found.main == ("power_mean", "latency_mean") and WOKEN not in found.figures
    assert IDLE.remarks(found) == [] and len(IDLE.bars(found)) == 2


def run(change: str, drive: str = "sm951-nvme-256") -> tuple[Measured, list[PhaseResult]]:
    test = rests(0, 0.1, 1, duration_s=5)
    profile = changed(profiles.load(drive), (change,))
    with contextlib.closing(VirtualTarget(profile)) as target:
        phases = target.run_test(test, seed=1, progress=Progress())
    return measure(test, phases), phases


def test_a_virtual_drive_sleeps_where_its_host_lets_it() -> None:
    """Of the SM951: L1.2 from 1 ms on, PS3 from 275 ms on, whose exit takes 5 ms."""
    asleep, phases = run("host=laptop")
    figures = asleep.figures
    awake, short, long = (figures[f"latency_mean_rest-{rest}"].value or 0
                          for rest in ("0s", "0-1s", "1s"))  # fmt: skip
    assert short - awake == pytest.approx(70, abs=10)
    assert long - awake == pytest.approx(5070, abs=10)
    assert figures[WOKEN].value == 100.0
    assert [phase.reads for phase in phases[1:]] == [50, 5]
    assert (figures["power_mean_rest-1s"].value or 0) < 500
    desktop, _ = run("host.power_saving=false")
    assert desktop.figures["latency_mean_rest-1s"].value == pytest.approx(awake, abs=10)
    assert "does not let it; to let it sleep, add --host laptop" in desktop.figures[WOKEN].note
    without, _ = run("host=laptop", "plextor-m6e-512")
    assert without.figures[WOKEN].note.endswith("its profile has no power states")


def test_other_kinds_say_nothing_of_sleep() -> None:
    test = made_test(Phase(label="run", workload=load(duration_s=1)), kind="loads")
    with contextlib.closing(VirtualTarget(profiles.load("sm951-nvme-256"))) as target:
        (found,) = target.run_test(test, seed=1, progress=Progress())
    assert "sleep" not in found.conditions and "wakes" not in found.metrics


def test_the_suite_has_several_rests() -> None:
    (test,) = suites.load("client-2024").selected(("idle",)).tests
    thinks = [phase.workload.thinktime_us for phase in test.phases]
    assert thinks == [60_000_000, 10_000_000, 1_000_000, 100_000, None]
    for phase in (*test.phases, *test.shortened().in_real_time().phases):
        rest = (phase.workload.thinktime_us or 0) / 1e6
        assert [step.seconds for step in phase.before][-1:] == [rest] * bool(rest)
    assert all(one.workload.duration_s >= (one.workload.thinktime_us or 0) / 1e6
               for one in test.phases)  # fmt: skip


def test_power_of_a_rest_that_was_cut_is_not_told() -> None:
    found = made(rests(40, 2), [30, 30], [])
    assert next(iter(found.figures)) == "latency_mean_rest-2s", "the shortest rest first"
    cut = found.figures["power_mean_rest-40s"]
    assert (cut.value, cut.note) == (None, CUT)
    assert [bar.key for bar in IDLE.bars(found)] == ["latency_mean_rest-40s", cut.key]


def test_a_real_drive_is_not_asked_while_it_may_sleep(file: Path) -> None:
    first, second, cut = results(file, rests(0, 0.3, 4, duration_s=2))
    assert second.reads == pytest.approx(2 / 0.3, abs=2)
    assert cut.reads == 1 and cut.duration_s < 3, "a rest does not outlast its phase"
    assert first.conditions["sleep"] == {"why_not": []}
    absent = {one["source"]: one["why"] for one in first.conditions["telemetry"]["absent"]}
    assert "would wake it" in absent["drive temperature"]
    assert "would wake it" in absent["drive throttling"]
    with Telemetry("nvme9n1", asleep=True) as telemetry:
        pass
    assert not any("hwmon" in one.why for one in telemetry._absent)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_settings_that_forbid_sleep_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "SYS", tmp_path)
    monkeypatch.setattr(host, "SYS_BLOCK", tmp_path / "class/block")
    (tmp_path / "class/block").mkdir(parents=True)
    nvme = tmp_path / "devices/pci0000:00/0000:01:00.0/nvme/nvme0"
    sata = tmp_path / "devices/pci0000:00/0000:00:17.0/ata3/host2/block/sda"
    for name, place in (("nvme0n1", nvme / "nvme0n1"), ("sda", sata)):
        place.mkdir(parents=True)
        (tmp_path / "class/block" / name).symlink_to(place)
    assert host.no_sleep("nvme0n1") == host.no_sleep("sda") == []
    limit = put(tmp_path / "module/nvme_core/parameters/default_ps_max_latency_us", "0\n")
    aspm = put(tmp_path / "module/pcie_aspm/parameters/policy", "[default] performance\n")
    (apst,) = host.no_sleep("nvme0n1")
    assert "default_ps_max_latency_us is 0" in apst
    own = put(nvme / "power/pm_qos_latency_tolerance_us", "100000\n")
    assert host.no_sleep("nvme0n1") == []
    own.write_text("0\n")
    limit.write_text("100000\n")
    aspm.write_text("default [performance]\n")
    apst, link = host.no_sleep("nvme0n1")
    assert "pm_qos_latency_tolerance_us is 0" in apst and "ASPM is performance" in link
    policy = put(tmp_path / "class/scsi_host/host2/link_power_management_policy", "max_performance")
    assert "is max_performance" in host.no_sleep("sda")[0]
    policy.write_text("med_power_with_dipm\n")
    assert host.no_sleep("sda") == []
