"""fio runs on served drives, whose own counters tell the truth; does the judge find the flaw?

Run: .venv/bin/python examples/judge/served.py FOLDER [FLAW...]. It needs fio with its engine nbd,
6 GB of memory, and 20 minutes for each flaw on an idle machine. Files are kept. Prints a table as
made.py does. Drives run in slow motion, so that the machine does not limit them; runs that it did
not keep up with are left out. The truth is written before the judge reads fio's files:

- slc: the drive counts more bytes written than its SLC cache has. Runs that end within a tenth of
  it are left out.
- throttle: the drive reports a stage of throttling that begins within the run, and by its own clock
  and counter reads at least a fifth less in it. Runs that begin throttled are left out.
"""

import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import drivebay
from drivebay.lab.judge import judge

SECONDS = 12
SERVE = [sys.executable, "-m", "drivebay", "serve", "--quiet", "--memory", "6GiB"]
# Drives with an SLC cache: capacity with which it has 2 to 3 GB, and speed of the clock.
CACHED = {
    "970-evo-plus-250gb": (41, 1 / 6),
    "970-evo-plus-500gb": (62, 1 / 8),
    "980-pro-500gb": (14, 1 / 10),
    "samsung-980-500gb": (15, 1 / 6),
    "p41-plus-1tb": (17, 1 / 8),
    "sn850x-1tb": (7, 1 / 16),
}
UNCACHED = ("7450-pro-960", "pm9a3-960", "sm951-nvme-512", "xp941-512")
# M.2 drives, the clock of their first stage of throttling in per cent (own ones without), and
# speed of the clock.
BARE: dict[str, tuple[int | None, float]] = {
    "970-evo-plus-250gb": (10, 1 / 10),
    "980-pro-500gb": (10, 1 / 20),
    "sn850x-1tb": (10, 1 / 16),
    "sn770-1tb": (None, 1 / 16),
    "t700-1tb": (None, 1 / 40),
}
ROOMS = (20, 40, 57, 60, 63, 66)
KEPT_UP_PERCENT = 95
Run = tuple[str, list[str], dict[str, object]]
"""Drive, options of serve, and options of fio."""


def slc() -> Iterator[Run]:
    """Writes that fill the cache, that end before, and of drives without one; the last of each of
    these overwrite the drive at random, until it collects garbage."""
    for name, (capacity, scale) in CACHED.items():
        for depth, size in ((1, "1m"), (4, "128k"), (8, "1m"), (16, "256k"), (32, "128k")):
            for factor in (1, 4):
                more = ["--capacity", f"{factor * capacity}G", "--time-scale", f"{scale:.6f}"]
                yield name, more, {"rw": "write", "iodepth": depth, "bs": size}
    for name in UNCACHED:
        for pattern, capacity in (("write", 15), ("randwrite", 15), ("randwrite", 4)):
            more = ["--capacity", f"{capacity}G", "--time-scale", "0.25"]
            yield name, more, {"rw": pattern, "iodepth": 8, "bs": "128k"}


def throttle() -> Iterator[Run]:
    """Reads in rooms from cool to hot; a drive with little mass is hot within seconds."""
    loads = (("read", 16, "128k"), ("randread", 16, "128k"), ("randread", 32, "16k"))
    for name, (clock, scale) in BARE.items():
        for pattern, depth, size in loads:
            for ambient in ROOMS:
                heat = [f"ambient_c={ambient}", f"capacity_j_per_k={max(0.1, 1.5 * scale):.6f}"]
                heat += [f"throttle.0.clock_percent={clock}"] if clock else []
                more = [part for change in heat for part in ("--set", f"thermal.{change}")]
                more += ["--capacity", "8G", "--time-scale", f"{scale:.6f}"]
                more += ["--precondition", "filled"]
                yield name, more, {"rw": pattern, "iodepth": depth, "bs": size}


def ask(control: Path, command: str) -> dict[str, Any]:
    """Answer of a served drive."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(control))
        connection.sendall(f"{command}\n".encode())
        answer: dict[str, Any] = json.loads(connection.makefile().readline())
        return answer


def measure(path: Path, drive: str, more: list[str], options: dict[str, object]) -> None:
    """Serves the drive, runs fio, and writes fio's files and the drive's counters beside them."""
    data, control = path.with_suffix(".sock"), path.with_suffix(".ctl")
    places = ["--nbd", f"unix:{data}", "--control", f"unix:{control}"]
    no = subprocess.DEVNULL
    server = subprocess.Popen([*SERVE, drive, *more, *places], stdout=no, stderr=no)
    try:
        while not (control.exists() and data.exists()):
            time.sleep(0.1)
            if server.poll() is not None:
                raise SystemExit(f"{drive} was not served")
        job = {"ioengine": "nbd", "uri": f"nbd+unix:///?socket={data}", "direct": 1, **options}
        job |= {"size": ask(control, "status")["capacity_bytes"], "time_based": 1}
        job |= {"runtime": SECONDS, "write_iops_log": path.with_suffix(""), "log_avg_msec": 1000}
        job |= {"output-format": "json", "output": path, "randrepeat": 0}
        states = [ask(control, "status")]
        fio = subprocess.Popen(["fio", "--name=a", *(f"--{k}={v}" for k, v in job.items())])
        while fio.poll() is None:
            time.sleep(0.5)
            states.append(ask(control, "status"))
        if fio.returncode:
            raise SystemExit(f"fio failed: {path}")
    finally:
        server.terminate()
        server.wait()
    keys = ("drive_s", "bytes_read", "bytes_written", "capacity_bytes", "throttle_stage")
    kept = [{key: state[key] for key in keys} for state in states]
    host = states[-1]["lateness"]["kept_up_percent"]
    truth = {"drive": drive, "serve": more, "kept_up_percent": host, "states": kept}
    path.with_suffix(".truth").write_text(json.dumps(truth))


def has(flaw: str, truth: dict[str, Any]) -> bool | None:
    """True if the drive has the flaw; None if the run is left out."""
    states = truth["states"]
    if truth["kept_up_percent"] < KEPT_UP_PERCENT:
        return None
    if flaw == "slc":
        drive = drivebay.drive(truth["drive"])
        if truth["drive"] in UNCACHED:
            return False
        share = states[0]["capacity_bytes"] / drive.capacity_bytes
        cache = 1e6 * sum(drive.value(f"slc_cache.{part}_mb") for part in ("static", "dynamic"))
        filled = states[-1]["bytes_written"] / (share * cache)
        return None if abs(filled - 1) < 0.1 else filled > 1
    busy = [state for state in states if 0 < state["bytes_read"] < states[-1]["bytes_read"]]
    parts: dict[bool, list[float]] = {False: [0.0, 0.0], True: [0.0, 0.0]}
    for before, after in itertools.pairwise(busy):
        part = parts[after["throttle_stage"] > 0]
        part[0] += after["bytes_read"] - before["bytes_read"]
        part[1] += after["drive_s"] - before["drive_s"]
    (cool, cool_s), (hot, hot_s) = parts.values()
    if states[0]["throttle_stage"] or not cool_s:
        return None
    return hot_s > 0 and hot / hot_s < 0.8 * cool / cool_s


def main(folder: Path, flaws: list[str]) -> None:
    """Makes the runs that are missing, judges them and prints the table."""
    folder.mkdir(exist_ok=True)
    rows = ["| flaw | with it | found | without it | accused |\n|---|---|---|---|---|"]
    for make in (slc, throttle):
        flaw = make.__name__
        if flaws and flaw not in flaws:
            continue
        found: list[list[bool]] = [[], []]
        for number, run in enumerate(make()):
            path = folder / f"{flaw}-{number}.json"
            if not path.with_suffix(".truth").exists():
                measure(path, *run)
            truth = json.loads(path.with_suffix(".truth").read_text())
            flawed = has(flaw, truth)
            if flawed is None:
                continue
            ((_, judgements),) = judge([path])
            told = {entry.flaw: entry for entry in judgements}[flaw]
            is_found = told.verdict in ("shown", "likely")
            found[flawed].append(is_found)
            if is_found != flawed:
                print(f"{path.name}: {told.verdict}: {told.reason}: {run}", flush=True)
        without, with_it = found
        cells = (flaw, len(with_it), sum(with_it), len(without), sum(without))
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    print("\n".join(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
