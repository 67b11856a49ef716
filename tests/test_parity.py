"""Parity across dies and a die that fails, as a person of the library meets them."""

from __future__ import annotations

import pytest

import drivebay
from drivebay import Workload


def small(*words: str) -> drivebay.Device:
    device = drivebay.drive("pm9a3-960").with_("unused=15%", *words).scaled(1 / 64).device()
    device.prepare()
    return device


def test_a_die_fails_and_is_rebuilt_beside_a_load() -> None:
    device = small("parity=16:50")
    assert device.failed_dies().dies == ()
    reads = Workload(read_percent=100, queue_depth=4, duration_s=1, seed=3)
    whole = device.copy().run(reads)
    assert device.health().waf == pytest.approx(16 / 15, rel=0.03)
    device.fail_die(5)
    degraded = device.copy().run(reads)
    assert degraded.core.media_errors == 0
    assert degraded.latency.mean_us > 1.05 * whole.latency.mean_us
    device.rest(3600)
    done = device.failed_dies()
    assert (done.dies, done.rebuilding) == ((5,), False)
    assert device.run(reads).latency.mean_us == pytest.approx(whole.latency.mean_us, rel=0.05)
    assert device.health().available_spare_percent < 100


def test_without_parity_a_die_takes_its_data_with_it() -> None:
    device = small()
    device.fail_die(0)
    read = device.run(Workload(read_percent=100, ios=50_000))
    dies = device.drive.value("nand.channels") * device.drive.value("nand.dies_per_channel")
    assert read.core.media_errors / 50_000 == pytest.approx(1 / dies, rel=0.1)
    assert device.health().media_errors == read.core.media_errors


def test_what_cannot_fail_and_impossible_words_are_refused() -> None:
    device = small()
    device.fail_die(1)
    for die in (1, 10_000):
        with pytest.raises(drivebay.UserError, match="fail_die: must be one of"):
            device.fail_die(die)
    drive = drivebay.drive("pm9a3-960")
    for word, message in (
        ("parity=many", "must be a number of dies"),
        ("parity", "a value is missing"),
        ("parity=4096:1", "the drive's number of dies"),
        ("foreground_victims=0", "1 to"),
        ("foreground_victims=two", "must be a number of victims"),
    ):
        with pytest.raises(drivebay.UserError, match=message):
            drive.with_(word)
    with pytest.raises(drivebay.UserError, match="spare flash"):
        drivebay.drive("sm951-ahci-512").with_("parity=16")  # it takes more than the drive has
