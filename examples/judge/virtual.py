"""Virtual drives with a known flaw, exported as fio's JSON and logs; does the judge find it?

Run: .venv/bin/python examples/judge/virtual.py FOLDER [FLAW...]. It takes a quarter of an hour and
prints a table as made.py does. The model knows the truth: if it has an SLC cache that is smaller
than what was written, if it was throttled, if it was filled, how many I/Os lie above a percentile.
"""

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import drivebay
from drivebay import Result, Workload
from drivebay.lab.judge import judge

WAYS = ("read", "write")
PERCENTILES = (50.0, 99.0, 99.9, 99.99)
CACHED = ("970-evo-plus-250gb", "970-evo-plus-500gb", "980-pro-500gb", "samsung-980-250gb")
BARE = (
    *("970-evo-plus-250gb", "samsung-980-250gb", "980-pro-500gb", "sn850x-1tb", "sn770-1tb"),
    *("970-evo-plus-500gb", "970-evo-plus-1tb", "samsung-980-500gb", "samsung-980-1tb"),
    *("980-pro-1tb", "p41-plus-1tb"),
)
DEPTHS = (1, 2, 4, 8, 16)
SATA = (
    *("samsung-850-pro-512", "samsung-840-pro-512", "sandisk-extreme-pro-480"),
    "corsair-neutron-xt-480",
)
LINKED = (
    *(*SATA, "sn850x-1tb", "980-pro-1tb", "sn770-1tb", "970-evo-plus-1tb", "samsung-980-1tb"),
    *("xp941-512", "sm951-nvme-256", "plextor-m6e-512"),
)
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
    reads, writes = (sum(getattr(r, f"{way}_latency").count for r in results) for way in WAYS)
    name = Path(options.get("filename", "nvme0n1")).name
    disk = {"name": name, "read_ios": reads, "write_ios": writes}
    document = {"fio version": "fio-3.33", "jobs": jobs, "disk_util": [disk]}
    path.write_text(json.dumps(document, indent=1))
    series = results[-1].series
    rows = [
        f"{1000 * (second + 1)}, {round(rate)}, {way}, 0, 0"
        for second in range(len(series.iops))
        for way, rate in enumerate((series.read_iops[second], series.write_iops[second]))
        if rate
    ]
    (path.parent / f"{path.stem}_iops.{len(results)}.log").write_text("\n".join(rows))


Made = Iterator[tuple[bool, tuple[Result, ...], dict[str, str]]]
"""True if the model has the flaw, the runs of a file, and options of the last one."""
WHOLE: dict[str, object] = {"pattern": "sequential", "read_percent": 0, "block_bytes": 2**20}


def slc() -> Made:
    """Long writes of drives with an SLC cache, short ones, and drives without one."""
    sizes = [2**at for at in range(18, 23)]
    for name, depth, size in itertools.product(CACHED, DEPTHS, sizes):
        writes = {**WHOLE, "block_bytes": size, "queue_depth": depth}
        yield True, (drivebay.drive(name).device().run(Workload(**writes, duration_s=60)),), {}
        yield False, (drivebay.drive(name).device().run(Workload(**writes, bytes=2**30)),), {}
    for name, depth in itertools.product(UNCACHED, (1, 4, 16)):
        load = Workload(**WHOLE, queue_depth=depth, duration_s=40)
        yield False, (drivebay.drive(name).device().run(load),), {}


def throttle() -> Made:
    """Reads of M.2 drives without a heatsink, in rooms from cool to hot; those that begin hot are
    left out, as their rate is even. A stage that costs less than a fifth of the rate is no flaw:
    SNIA's steady state allows it."""
    for name, ambient, clock, size in itertools.product(
        BARE, range(20, 71, 10), (10, 30), (2**14, 2**20)
    ):
        stage = {"thermal__capacity_j_per_k": 2, "thermal__throttle__0__clock_percent": clock}
        device = drivebay.drive(name).scaled(1 / 16).with_(ambient_c=ambient, **stage).device()
        device.fill()
        device.rest(600)
        pattern, depth = ("sequential", 8) if size == 2**20 else ("random", 32)
        reads = {**WHOLE, "read_percent": 100, "pattern": pattern, "block_bytes": size}
        result = device.run(Workload(**reads, queue_depth=depth, duration_s=40))
        stages, rates = result.series.throttle_stage[:-1], result.series.read_mb_per_s[:-1]
        if stages[0] < 1:
            hot = stages > 0
            falls = bool(hot.any()) and rates[hot].mean() < 0.8 * rates[~hot].mean()
            yield falls, (result,), {}


def precondition() -> Made:
    """Random writes of empty drives, and of those that the file's first jobs wrote twice."""
    names, blocks = (*UNCACHED, "970-evo-plus-250gb"), (4096, 8192, 16384, 32768)
    for name, depth, size in itertools.product(names, DEPTHS, blocks):
        drive = drivebay.drive(name).scaled(1 / 16)
        random = {"pattern": "random", "read_percent": 0, "queue_depth": depth}
        load = Workload(**random, block_bytes=size, duration_s=3)
        yield True, (drive.device().run(load),), {}
        span = drive.capacity_bytes // 2**20 * 2**20
        device = drive.device()
        fill = [device.run(Workload(**WHOLE, span_bytes=span, bytes=span)) for _ in range(2)]
        yield False, (*fill, device.run(load.model_copy(update={"span_bytes": span}))), {}


def percentiles() -> Made:
    """Runs with few and with many I/Os."""
    few = (200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 50_000, 60_000, 70_000, 80_000)
    for name, ios in itertools.product(
        (*CACHED, *UNCACHED), (*few, 90_000, *range(10**5, 23 * 10**4, 10**4))
    ):
        device = drivebay.drive(name).scaled(1 / 16).device()
        yield ios < 100_000, (device.run(Workload(queue_depth=4, ios=ios)),), {}


def depth() -> Made:
    """Runs with and without a rate."""
    rates = (100, 200, 300, 500, 700, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 5000)
    for name, rate in itertools.product((*CACHED, *UNCACHED), rates):
        load = Workload(queue_depth=8, duration_s=1)
        for limit in ({"rate_iops": rate}, {}):
            device = drivebay.drive(name).scaled(1 / 16).device()
            result = device.run(load.model_copy(update={**limit, "seed": rate}))
            yield bool(limit), (result,), {key: str(value) for key, value in limit.items()}


def span() -> Made:
    """Runs over a part of the drive, which its map or its cache covers, and over the whole."""
    sizes = [2**at for at in range(20, 31)] + [3 * 2**28, 3 * 2**29]
    for name, size in itertools.product((*CACHED, *UNCACHED), sizes):
        for part in (size, None):
            load = Workload(span_bytes=part, duration_s=0.2)
            yield bool(part), (drivebay.drive(name).device().run(load),), {}


def bound() -> Made:
    """Sequential reads. The link is the limit if four times the depth reads no more, and a link
    with 16 lanes at both ends does, by a tenth. SATA has a single lane: 280 bytes more around each
    packet then cost one per cent or more."""
    for name, depth, size in itertools.product(
        (*CACHED, *UNCACHED, *LINKED), (1, 4, 16, 32), (2**17, 2**18, 2**20)
    ):
        drive = drivebay.drive(name).scaled(1 / 16)
        other: dict[str, object] = {"link__lanes": 16, "host__slot__lanes": 16}
        if name in SATA:
            other = {"link__packet_overhead_bytes": 650}
        results = []
        for variant, factor in ((drive, 1), (drive.with_(**other), 1), (drive, 4)):
            device = variant.device()
            device.fill()
            reads = {**WHOLE, "read_percent": 100, "block_bytes": size}
            results.append(device.run(Workload(**reads, queue_depth=factor * depth, duration_s=1)))
        moved, changed, deeper = (result.iops for result in results)
        by_link = changed < 0.99 * moved if name in SATA else changed > 1.1 * moved
        place = {"filename": "/dev/sda"} if name in SATA else {}
        yield by_link and deeper < 1.02 * moved, (results[0],), place


def main(folder: Path, flaws: list[str]) -> None:
    """Makes and judges the files, and prints the table."""
    folder.mkdir(exist_ok=True)
    print("| flaw | with it | found | without it | accused |\n|---|---|---|---|---|", flush=True)
    for make in (slc, throttle, precondition, percentiles, depth, span, bound):
        flaw = make.__name__
        if flaws and flaw not in flaws:
            continue
        without: list[bool] = []
        with_it: list[bool] = []
        for number, (has, results, options) in enumerate(make()):
            path = folder / f"{flaw}-{number}.json"
            write(path, options, *results)
            ((_, judgements),) = judge([path])
            told = {entry.flaw: entry for entry in judgements}[flaw]
            is_found = told.verdict in ("shown", "likely")
            (with_it if has else without).append(is_found)
            if is_found != has:
                print(f"  {path.name}: {told.verdict}: {told.reason}", flush=True)
        row = (flaw, len(with_it), sum(with_it), len(without), sum(without))
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
