"""fio runs with a flaw made on purpose, and the same runs without it; are they told apart?

Run: .venv/bin/python examples/judge/made.py FOLDER [FLAW...]. It needs fio and 3 GB in FOLDER,
whose files are kept for a second look, and takes some minutes. Prints a table: of each flaw, the
runs with it that are found (shown or likely), and those without it that are accused.
"""

import itertools
import json
import subprocess
import sys
from pathlib import Path

from drivebay.lab.judge import judge

SECONDS = 1
HOLE_BYTES = 80 * 2**30
DIRECT = {"direct": 1, "ioengine": "io_uring", "bs": "4k", "rw": "randread", "size": "64m"}
SYNC = {**DIRECT, "ioengine": "psync"}


def made() -> list[tuple[str, bool, dict[str, object]]]:
    """Flaw, True if it is in the run, and options of the run."""
    runs: list[tuple[str, bool, dict[str, object]]] = []

    def add(flaw: str, has: bool, base: dict[str, object], **lists: list[object]) -> None:
        for values in itertools.product(*lists.values()):
            runs.append((flaw, has, {**base, **dict(zip(lists, values, strict=True))}))

    writes = {**DIRECT, "rw": "randwrite"}
    deep = [1, 2, 4, 8, 16]
    blocks = ["4k", "8k", "16k", "64k", "128k"]
    add("precondition", True, writes, size=["512m", "1g"], bs=blocks[:3], iodepth=deep)
    add("precondition", False, DIRECT, bs=blocks[:3], iodepth=deep, rw=["randread", "read"])
    read = {**SYNC, "direct": 0, "pre_read": 1}
    add("cache", True, read, bs=blocks[:3], numjobs=[1, 2], rw=["randread", "read"])
    add("cache", True, {**SYNC, "direct": 0, "rw": "write"}, bs=["4k", "8k", "64k", "1m"])
    add("cache", True, {**SYNC, "direct": 0, "ioengine": "mmap"}, rw=["randread", "read"])
    add("cache", True, {**DIRECT, "ioengine": "null"}, iodepth=[1, 4])
    buffered = {**DIRECT, "direct": 0, "ioengine": "libaio", "rw": "write"}
    add("cache", True, buffered, bs=blocks[1:], iodepth=[4, 16, 32])
    ways = ["randread", "read", "write", "randwrite"]
    add("cache", False, DIRECT, bs=["4k", "16k", "64k"], iodepth=[1, 4, 16], rw=ways)
    add("span", True, DIRECT, size=["16m", "64m", "256m"], bs=["4k", "16k"], iodepth=deep)
    add("span", False, {**DIRECT, "size": "80g"}, bs=blocks, iodepth=[*deep, 32])
    number = [50, 500, 5000]
    add("percentiles", True, DIRECT, number_ios=number, bs=blocks, iodepth=[1, 2])
    few = {**DIRECT, "percentile_list": "50:90"}
    add("percentiles", False, few, bs=blocks[:3], iodepth=deep, rw=["randread", "randwrite"])
    add("depth", True, SYNC, iodepth=[2, 3, 4, 8, 16, 24, 32, 48, 64, 128])
    add("depth", True, DIRECT, thinktime=["1ms", "5ms"], iodepth=deep)
    add("depth", True, DIRECT, rate_iops=[50, 200], iodepth=deep)
    add("depth", False, DIRECT, iodepth=[*deep, 32], bs=blocks)
    add("bound", True, read, bs=blocks[:3], norandommap=[0, 1], numjobs=[1, 2])
    stream = {**DIRECT, "rw": "write"}
    add("bound", True, stream, zero_buffers=[1], bs=blocks[:3], iodepth=[1, 4])
    refilled = {**stream, "refill_buffers": 1}
    add("bound", True, refilled, buffer_compress_percentage=[50, 90], bs=blocks[:3])
    add("bound", True, stream, dedupe_percentage=[50, 90], bs=blocks[:3])
    add("bound", False, DIRECT, iodepth=[1, 2, 4], bs=blocks, numjobs=[1, 2])
    return runs


def main(folder: Path, flaws: list[str]) -> None:
    """Makes the runs that are not there, judges them and prints the table."""
    folder.mkdir(exist_ok=True)
    found: dict[str, list[list[bool]]] = {}
    for number, (flaw, has, options) in enumerate(made()):
        if flaws and flaw not in flaws:
            continue
        path = folder / f"{flaw}-{number}.json"
        if not path.exists():
            job = [f"--{key}={value}" for key, value in options.items()]
            end = [] if "number_ios" in options else ["--time_based", f"--runtime={SECONDS}"]
            data = folder / f"data-{options['size']}"
            if flaw == "span" and not has:
                with data.open("ab") as file:  # fio would write it whole
                    file.truncate(HOLE_BYTES)
            command = ["fio", "--name=a", f"--filename={data}", "--output-format=json"]
            command += [f"--output={path}", "--group_reporting"]
            subprocess.run([*command, *job, *end], check=True)
        ((_, judgements),) = judge([path])
        told = {entry.flaw: entry for entry in judgements}[flaw]
        is_found = told.verdict in ("shown", "likely")
        found.setdefault(flaw, [[], []])[has].append(is_found)
        if is_found != has:
            print(f"{path.name}: {told.verdict}: {told.reason}: {json.dumps(options)}")
    print("| flaw | with it | found | without it | accused |\n|---|---|---|---|---|")
    for flaw, (without, with_it) in found.items():
        print(f"| {flaw} | {len(with_it)} | {sum(with_it)} | {len(without)} | {sum(without)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
