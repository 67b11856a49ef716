"""Arrays through the library and the command line; theory is in `crates/run/tests/array.rs`."""

import json

import pytest
from typer.testing import CliRunner

from drivebay import Array, UserError, Workload, drive
from drivebay.cli.app import app
from drivebay.library import arrays

SMALL = drive("sm951-nvme-512").scaled(1 / 64)
READS = Workload(read_percent=100, queue_depth=16, duration_s=0.3)


def array_of(level: arrays.Level, members: int) -> Array:
    devices = [SMALL.device(seed=number) for number in range(members)]
    return Array(devices, level, chunk_bytes=65536)


def test_members_stay_devices_of_their_own() -> None:
    array = array_of("5", 4)
    array.run(Workload(queue_depth=1, ios=300))
    assert sum(one.health().host_reads for one in array.devices) == 600
    assert sum(one.health().host_writes for one in array.devices) == 600
    array.devices[0].run(READS)
    assert array.run(READS).ios > 0


@pytest.mark.parametrize(("level", "columns"), [("0", 4), ("1", 1), ("10", 2), ("5", 3), ("6", 2)])
def test_capacity_is_what_data_has(level: arrays.Level, columns: int) -> None:
    array = array_of(level, 4)
    whole = SMALL.capacity_bytes // 65536 * 65536
    assert array.capacity_bytes == whole * columns
    assert array.stripe_bytes == 65536 * columns


def test_a_copy_goes_on_bit_for_bit() -> None:
    array = array_of("6", 5)
    array.prepare(rest_s=10)
    other = array.copy()
    first, second = array.run(READS), other.run(READS)
    assert (first.ios, first.latency.mean_us) == (second.ios, second.latency.mean_us)


def test_a_failed_member_adds_nothing_to_the_arrays_figures() -> None:
    """It would collect garbage in the idle time that it has left."""
    array = array_of("5", 3)
    array.prepare(rest_s=10)
    array.run(Workload(queue_depth=16, ios=20_000))
    array.fail(0)

    def programmed() -> int:
        return sum(device.counters().placed_pages for device in array.devices[1:])

    before, result = programmed(), array.run(Workload(queue_depth=16, duration_s=0.3))
    counted = result.core.after.placed_pages - result.core.before.placed_pages
    assert counted == programmed() - before


def test_a_member_fails_and_is_rebuilt() -> None:
    array = array_of("5", 4)
    array.prepare(rest_s=10)
    whole = array.copy().run(READS, seed=1)
    array.fail(2)
    assert array.rebuilt_bytes[2] is None
    degraded = array.copy().run(READS, seed=1)
    assert degraded.latency.mean_us > whole.latency.mean_us
    with pytest.raises(UserError, match="data would be lost"):
        array.fail(3)
    array.replace(2, SMALL.device(seed=9))
    assert array.rebuilt_bytes[2] == 0
    array.run(READS, rebuild_mb_per_s=200)
    # 200 MB/s for 0.3 s, and what was under way.
    assert array.rebuilt_bytes[2] == pytest.approx(60e6, rel=0.05)
    left = array.devices[2].capacity_bytes - (array.rebuilt_bytes[2] or 0)
    assert array.rebuild(rebuild_mb_per_s=400) == pytest.approx(left / 400e6, rel=0.01)
    assert array.rebuilt_bytes == [SMALL.capacity_bytes] * 4
    again = array.run(READS, seed=1)
    assert again.latency.mean_us == pytest.approx(whole.latency.mean_us, rel=0.05)


def test_mistakes_are_named() -> None:
    devices = [SMALL.device() for _ in range(3)]
    with pytest.raises(UserError, match="in it twice"):
        Array([devices[0]] * 3, "5").run(READS)
    assert Array(devices, "5").run(READS).ios > 0, "none was lost"
    with pytest.raises(UserError, match="members: 2"):
        Array(devices[:2], "5")
    with pytest.raises(UserError, match="power of two"):
        Array(devices, "5", chunk_bytes=5120)
    with pytest.raises(UserError, match="unknown level"):
        Array(devices, "7")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="smaller than the members"):
        Array(devices, "5").replace(0, drive("sm951-nvme-512").scaled(1 / 128).device())
    with pytest.raises(UserError, match="no member 3"):
        Array(devices, "5").fail(3)


def test_the_command_has_every_state() -> None:
    words = ["array", "sm951-nvme-512", "--members", "3", "--scale", "0.015625"]
    done = CliRunner().invoke(app, [*words, "--duration", "0.2", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    states = {one["state"] for one in found["measured"]}
    assert states == {"one drive", "whole", "degraded", "rebuilding"}
    assert found["rebuild_s"] > 0
    refused = CliRunner().invoke(app, [*words, "--level", "10"])
    assert isinstance(refused.exception, UserError)
    assert "members" in str(refused.exception)
