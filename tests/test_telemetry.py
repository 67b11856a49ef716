"""Telemetry: sensors, a meter's file, seconds that are kept, and what is absent, named."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from waiting import wait_until

from drivebay.common.errors import DrivebayError
from drivebay.targets.safety import in_use
from drivebay.targets.telemetry import sensors
from drivebay.targets.telemetry.meter import Meter
from drivebay.targets.telemetry.recorder import Phase, Telemetry, check_power
from drivebay.targets.telemetry.sensors import Sensor

# A SMART log page as a drive of 330 K gives it: NVM Express Base Specification 2.0, figure 207.
PAGE = bytearray(512)
struct.pack_into("<BH", PAGE, 0, 0, 330)
struct.pack_into("<II", PAGE, 192, 7, 2)
struct.pack_into("<IIII", PAGE, 216, 11, 3, 600, 45)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a drive sda and every sensor there is."""
    sys = tmp_path / "sys"
    hwmon = sys / "class/hwmon"
    put(sys / "class/block/sda/device/hwmon/hwmon4/temp1_input", "41000\n")
    put(hwmon / "hwmon0/name", "coretemp\n")
    put(hwmon / "hwmon0/temp1_input", "63000\n")
    put(hwmon / "hwmon2/name", "ina226\n")
    put(hwmon / "hwmon2/power1_input", "4250000\n")
    put(sys / "devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "3500000\n")
    put(sys / "devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "5\n")
    put(tmp_path / "stat", stat(busy=100, idle=100, interrupts=1000))
    for module in (sensors, in_use):
        monkeypatch.setattr(module, "SYS_BLOCK", sys / "class/block")
    monkeypatch.setattr(sensors, "HWMON", hwmon)
    monkeypatch.setattr(sensors, "CPU", sys / "devices/system/cpu")
    monkeypatch.setattr(sensors, "PROC_STAT", tmp_path / "stat")
    return tmp_path


def stat(*, busy: int, idle: int, interrupts: int) -> str:
    return f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\nintr {interrupts} 9 9\nctxt 5\n"


def test_every_source_is_read_and_what_is_absent_is_named(machine: Path) -> None:
    with Telemetry("sda", power="ina226") as telemetry:
        put(machine / "stat", stat(busy=175, idle=125, interrupts=4000))
        wait_until(lambda: telemetry.samples)
    _, values = telemetry.samples[0]
    assert values["drive.temperature_c"] == 41.0
    assert values["host.cpu_temperature_c"] == 63.0
    assert values["drive.power_w"] == 4.25
    assert values["host.cpu_mhz"] == 3500.0
    assert values["host.cpu_throttle_count"] == 5
    assert values["host.cpu_percent"] == pytest.approx(75.0)
    assert values["host.interrupts_per_s"] > 0
    said = telemetry.conditions()
    assert [absent["source"] for absent in said["absent"]] == ["drive throttling"]
    assert said["seconds"] == len(telemetry.samples)


def test_a_bare_machine_names_every_source_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SYS_BLOCK", "HWMON", "CPU", "PROC_STAT"):
        monkeypatch.setattr(sensors, name, tmp_path / "none")
    with Telemetry("nvme9n1") as telemetry:
        pass
    said = telemetry.conditions()
    assert said["read"] == []
    assert {absent["source"] for absent in said["absent"]} == {
        "host CPU and interrupts",
        "host CPU frequency",
        "host CPU temperature",
        "host thermal limits",
        "drive temperature",
        "drive throttling",
        "drive power",
    }
    assert all(absent["why"] for absent in said["absent"])


def test_a_sensor_that_fails_on_the_way_is_said_and_invents_nothing(machine: Path) -> None:
    telemetry = Telemetry("sda")

    def fails() -> dict[str, float]:
        raise OSError("the bus is gone")

    telemetry._sensors = [Sensor("a broken one", fails, lambda: None)]
    with telemetry:
        wait_until(lambda: telemetry.failures)
    assert telemetry.conditions()["failed"] == {"a broken one": "the bus is gone"}
    assert all("drive.temperature_c" not in values for _, values in telemetry.samples)


def test_a_smart_log_page_is_decoded() -> None:
    assert sensors.decode_smart_log(bytes(PAGE)) == {
        "drive.composite_temperature_c": 57.0,
        "drive.warning_temperature_min": 7.0,
        "drive.critical_temperature_min": 2.0,
        "drive.throttle_light_count": 11.0,
        "drive.throttle_heavy_count": 3.0,
        "drive.throttle_light_s": 600.0,
        "drive.throttle_heavy_s": 45.0,
    }


def test_a_drive_that_reports_no_temperature_has_none(machine: Path) -> None:
    page = bytearray(PAGE)
    struct.pack_into("<H", page, 1, 0)
    assert "drive.composite_temperature_c" not in sensors.decode_smart_log(bytes(page))
    put(machine / "sys/class/block/sda/device/hwmon/hwmon4/temp1_input", "-273150\n")
    (sensor,), _ = sensors.of_drive("sda")
    assert sensor.read() == {}
    sensor.close()


def test_the_throttle_stage_is_what_the_drives_counters_did_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = bytearray(PAGE)
    monkeypatch.setattr(sensors, "nvme_smart_log", lambda _: bytes(page))
    sensor = sensors._nvme_throttling(str(put(tmp_path / "nvme0", "")))
    stages = []
    for offset, value in ((224, 600), (224, 601), (228, 46), (228, 46), (216, 12)):
        struct.pack_into("<I", page, offset, value)
        stages.append(sensor.read()["drive.throttle_stage"])
    sensor.close()
    assert stages == [0.0, 1.0, 2.0, 0.0, 1.0]


def phase_of(*readings: tuple[float, float], zero: float, seconds: int) -> Phase:
    samples = [(at, {"drive.temperature_c": value}) for at, value in readings]
    return Phase(samples, zero, seconds, None)


def test_readings_are_joined_to_the_seconds_by_time_and_gaps_stay_unknown() -> None:
    found = phase_of(
        (100.0, 40.0), (101.0, 41.0), (102.0, 42.0), (107.0, 50.0), zero=100, seconds=8
    )
    column = found.column("drive.temperature_c")
    assert column == pytest.approx([40.5, 41.5, 42.8, 44.4, None, 47.6, 49.2, 50.0])
    assert found.column("drive.power_w") == [None] * 8
    rows = found.table().to_pylist()
    assert [row["second"] for row in rows] == [0.0, 1.0, 2.0, 7.0]


def test_a_host_that_is_held_up_counts_the_seconds_missed(machine: Path) -> None:
    telemetry = Telemetry("sda")
    held = iter([2.2, 0.0, 0.0, 0.0, 0.0])

    def slow() -> dict[str, float]:
        time.sleep(next(held, 0.0))
        return {}

    telemetry._sensors = [Sensor("slow", slow, lambda: None)]
    with telemetry:
        wait_until(lambda: len(telemetry.samples) >= 2)
    assert telemetry.missed_s >= 1


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("time,power_w", "{s},{w}"),
        ("Timestamp, note ,power_mW", "{ms},x,{mw}"),
        ("time,voltage_v,current_a", "{iso},3.3,{a}"),
    ],
)
def test_a_meters_file_in_every_form(tmp_path: Path, header: str, row: str) -> None:
    start = 1_700_000_000.0
    lines = [header]
    for tenth in range(-5, 35):
        at, watts = start + tenth / 10, 2.0 if tenth < 10 else 5.0
        iso = f"{np.datetime64(int(at * 1000), 'ms')}+00:00"
        lines.append(
            row.format(s=at, ms=at * 1000, iso=iso, w=watts, mw=watts * 1000, a=watts / 3.3)
        )
    meter = Meter(put(tmp_path / "m.csv", "\n".join(lines) + "\nhalf a li"))
    meter.read_on()
    assert meter.lines_refused == 0
    assert meter.latest == pytest.approx(start + 3.4, abs=0.01)
    assert meter.per_second(start, 3).tolist() == pytest.approx([2.0, 5.0, 5.0])
    assert np.isnan(meter.per_second(start + 10, 2)).all()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_meters_file_in_every_encoding_is_read_on(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "m.csv"
    written = "time,power_w,\u00b5\r\n10,1\r\n11,2\r\n12,3".encode(encoding)
    later = ".5\r\n13,4\r\n".encode(encoding.removesuffix("-sig").replace("16-le", "16"))
    mark = len("".encode(encoding.removesuffix("-sig").replace("16-le", "16")))
    path.write_bytes(written + b"\0" * 8)
    meter = Meter(path)
    meter.read_on()
    assert (meter.latest, meter.lines_refused) == (11.0, 0)
    path.write_bytes(written + later[mark:] + b"\0" * 8)
    meter.read_on()
    assert meter.latest == 13.0 and meter.per_second(12, 1).tolist() == [3.5]


@pytest.mark.parametrize(
    ("text", "watts"),
    [
        ("time;power_w\n10;5,2\n11;5,4\n", [5.2, 5.4]),
        ("time\tpower_w\n10\t5.2\n11\t-1\n", [5.2]),
        ("time,power_w\n10,-0.5\n11,2\n", [2.0]),
    ],
)
def test_decimal_commas_are_read_and_negative_watts_refused(
    text: str, watts: list[float], tmp_path: Path
) -> None:
    meter = Meter(put(tmp_path / "m.csv", text))
    meter.read_on()
    assert meter._watts == watts and meter.lines_refused == 2 - len(watts)


def test_a_meter_is_read_on_and_its_dirt_counted(tmp_path: Path) -> None:
    path = put(tmp_path / "m.csv", "time,power_w\n")
    meter = Meter(path)
    with path.open("a") as file:
        file.write("10,1\n11,abc\n12,3\n11.5,9\n\n13,inf\n14,")
    meter.read_on()
    assert (meter.latest, meter.lines_refused) == (12.0, 3)
    with path.open("a") as file:
        file.write("4\n")
    meter.read_on()
    assert meter.latest == 14.0
    assert meter.per_second(12, 2).tolist() == [3.0, 3.75]
    meter.forget_before(14)
    assert meter.latest == 14.0


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot be read"), ("", "no time and power"), ("a,b\n1,2\n", "no time and power")],
)
def test_a_file_that_is_no_meters(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "m.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DrivebayError, match=words) as caught:
        check_power(str(path))
    assert "\n" not in caught.value.message + caught.value.hint


def test_a_power_sensor_is_named_or_refused(machine: Path) -> None:
    check_power("ina226")
    check_power("hwmon2")
    with pytest.raises(DrivebayError, match=r"no power sensor is called 'ina2'.*ina226 \(hwmon2\)"):
        check_power("ina2")
    put(machine / "sys/class/hwmon/hwmon3/name", "ina226\n")
    put(machine / "sys/class/hwmon/hwmon3/power1_input", "1\n")
    with pytest.raises(DrivebayError, match="2 power sensors are called 'ina226'"):
        check_power("ina226")
    check_power("hwmon3")


def test_a_namespace_with_several_paths_counts_what_its_paths_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk(name: str, reads: int, writes: int) -> Path:
        folder = tmp_path / "block" / name
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"9 0 {reads} 5 9 0 {writes} 5 0 0 0 0 0 0 0 0 0\n")
        return folder

    head = disk("nvme1n2", 0, 0)
    disk("nvme1c0n2", 8, 16), disk("nvme1c3n2", 2, 0)
    disk("nvme1c0n22", 1000, 1000), disk("nvme11c0n2", 1000, 1000)
    monkeypatch.setattr(sensors, "BLOCK", tmp_path / "block")
    monkeypatch.setattr(sensors, "NUMBERS", tmp_path / "numbers")
    (tmp_path / "numbers").mkdir()
    (tmp_path / "numbers" / "259:7").symlink_to(head)
    (tmp_path / "numbers" / "8:0").symlink_to(disk("sda", 0, 0))
    assert sensors.io_bytes(os.makedev(259, 7)) == (10 * 512, 16 * 512)
    assert sensors.io_bytes(os.makedev(8, 0)) == (0, 0)
    assert sensors.io_bytes(os.makedev(8, 1)) is None
