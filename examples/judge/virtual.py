"""Virtual drives with a known flaw, exported as fio's JSON and logs; does the judge find it?

Run: .venv/bin/python examples/judge/virtual.py FOLDER. It takes some minutes and prints a table as
made.py does. The model knows the truth: if its SLC cache has space for what was written, if it was
throttled, if it was filled, how many I/Os lie above a percentile.
"""

import itertools
import json
import sys
from pathlib import Path

import drivebay
from drivebay import Result, Workload
from drivebay.lab.judge import judge

PERCENTILES = (50.0, 99.0, 99.9, 99.99)
CACHED = ("970-evo-plus-250gb", "970-evo-plus-500gb", "980-pro-500gb", "samsung-980-250gb")
UNCACHED = ("7450-pro-960", "pm9a3-960", "sm951-nvme-512", "sm951-ahci-256")


def side(result: Result, way: str) -> dict[str, object]:
    """A direction as fio reports it."""
    latency = result.read_latency if way == "read" else result.write_latency
    if not latency.count:
        return {"io_bytes": 0, "total_ios": 0, "runtime": 0}
    listed = {f"{q:.6f}": round(1e3 * latency.percentile_us(q)) for q in PERCENTILES}
    mean = 1e3 * latency.mean_us
    rates = getattr(result.series, f"{way}_mb_per_s")[:-1]
    moved = round(latency.count * result.load.block_bytes)
    samples = {"bw_min": min(rates, default=0.0), "bw_max": max(rates, default=0.0)}
    samples |= {"bw_mean": float(rates.mean()) if len(rates) else 0.0, "bw_samples": len(rates)}
    samples |= {"bw_dev": float(rates.std()) if len(rates) else 0.0}
    return {
        "io_bytes": moved,
        "io_kbytes": moved >> 10,
        "bw": round(moved / result.duration_s / 1024),
        "total_ios": latency.count,
        "runtime": round(1e3 * result.duration_s),
        "clat_ns": {"mean": mean, "percentile": listed},
        "lat_ns": {"mean": mean},
        **{name: float(value) for name, value in samples.items()},
    }


def write(path: Path, options: dict[str, str], *results: Result) -> None:
    """Writes a file as fio does, and the log of the last run beside it."""
    jobs = []
    for number, result in enumerate(results):
        load = result.load
        kind = ("read" if load.read_percent else "write") if load.read_percent in (0, 100) else "rw"
        more = {
            "rw": f"rand{kind}" if load.pattern == "random" else kind,
            "bs": str(load.block_bytes),
            "iodepth": str(load.queue_depth),
            "ioengine": "io_uring",
            "direct": "1",
            "filename": "/dev/nvme0n1",
            "write_iops_log": path.stem,
            "log_avg_msec": "1000",
            **({"size": str(load.span_bytes)} if load.span_bytes else {}),
        }
        last = number == len(results) - 1
        jobs.append(
            {
                "jobname": f"job{number}",
                "groupid": number,
                "error": 0,
                "job options": {**more, **(options if last else {})},
                "read": side(result, "read"),
                "write": side(result, "write"),
                "job_runtime": round(1e3 * result.duration_s),
                "usr_cpu": 5.0,
                "sys_cpu": 9.0,
            }
        )
    path.write_text(json.dumps({"fio version": "fio-3.33", "jobs": jobs}, indent=1))
    series = results[-1].series
    rows = [
        f"{1000 * (second + 1)}, {round(rate)}, {way}, 0, 0"
        for second in range(len(series.iops))
        for way, rate in enumerate((series.read_iops[second], series.write_iops[second]))
        if rate
    ]
    (path.parent / f"{path.stem}_iops.{len(results)}.log").write_text("\n".join(rows))


def runs(folder: Path) -> list[tuple[str, bool, Path]]:
    """Makes all files: flaw, True if the model has it, path."""
    made: list[tuple[str, bool, Path]] = []

    def add(flaw: str, has: bool, *results: Result, **options: str) -> None:
        path = folder / f"{flaw}-{len(made)}.json"
        write(path, options, *results)
        made.append((flaw, has, path))

    whole = {"pattern": "sequential", "read_percent": 0, "block_bytes": 2**20}
    for name, depth in itertools.product(CACHED, (1, 4, 16)):
        drive = drivebay.drive(name)
        add("slc", True, drive.device().run(Workload(**whole, queue_depth=depth, duration_s=60)))
        add("slc", False, drive.device().run(Workload(**whole, queue_depth=depth, bytes=2**30)))
    for name, depth in itertools.product(UNCACHED, (1, 4, 16)):
        drive = drivebay.drive(name)
        add("slc", False, drive.device().run(Workload(**whole, queue_depth=depth, duration_s=40)))
    for name, ambient in itertools.product((*CACHED, *UNCACHED), (25, 55, 70)):
        drive = drivebay.drive(name).with_(ambient_c=ambient)
        load = Workload(block_bytes=2**20, pattern="sequential", queue_depth=8, duration_s=180)
        device = drive.device()
        device.fill()
        result = device.run(load)
        stages = result.series.throttle_stage
        if stages[0] < 1:  # else it is slow from the begin, which no rate shows
            add("throttle", bool((stages > 0).any()), result)
    for name, depth in itertools.product(UNCACHED, (1, 32)):
        load = Workload(pattern="random", read_percent=0, queue_depth=depth, duration_s=20)
        device = drivebay.drive(name).scaled(1 / 16).device()
        add("precondition", True, device.run(load))
        span = device.drive.capacity_bytes // 2**20 * 2**20
        device = device.drive.device()
        fill = [device.run(Workload(**whole, span_bytes=span, bytes=span)) for _ in range(2)]
        more = load.model_copy(update={"span_bytes": span})
        add("precondition", False, *fill, device.run(more))
    for name, ios in itertools.product((*CACHED, *UNCACHED), (500, 5_000, 50_000, 200_000)):
        device = drivebay.drive(name).scaled(1 / 16).device()
        add("percentiles", ios < 100_000, device.run(Workload(queue_depth=4, ios=ios)))
    for name, rate in itertools.product(UNCACHED, (0, 0, 500, 4000)):
        device = drivebay.drive(name).scaled(1 / 16).device()
        load = Workload(queue_depth=8, duration_s=5, **({"rate_iops": rate} if rate else {}))
        options = {"rate_iops": str(rate)} if rate else {}
        add("depth", bool(rate), device.run(load), **options)
    for name, size in itertools.product(UNCACHED, (2**26, 2**28, None)):
        device = drivebay.drive(name).device()
        add("span", bool(size), device.run(Workload(span_bytes=size, duration_s=3)))
    return made


def main(folder: Path) -> None:
    """Makes and judges the files, and prints the table."""
    folder.mkdir(exist_ok=True)
    found: dict[str, list[list[bool]]] = {}
    for flaw, has, path in runs(folder):
        ((_, judgements),) = judge([path])
        told = {entry.flaw: entry for entry in judgements}[flaw]
        is_found = told.verdict in ("shown", "likely")
        found.setdefault(flaw, [[], []])[has].append(is_found)
        if is_found != has:
            print(f"{path.name}: {told.verdict}: {told.reason}")
    print("| flaw | with it | found | without it | accused |\n|---|---|---|---|---|")
    for flaw, (without, with_it) in found.items():
        print(f"| {flaw} | {len(with_it)} | {sum(with_it)} | {len(without)} | {sum(without)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
