"""fio runs with a flaw made on purpose, and the same runs without it; are they told apart?

Run: .venv/bin/python examples/judge/made.py FOLDER. It needs fio and 3 GB in FOLDER, whose files
are kept for a second look, and takes some minutes. Prints a table: of each flaw, the runs with it
that are found (shown or likely), and those without it that are accused.
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
    add("precondition", True, writes, size=["512m", "1g"], bs=["4k", "8k", "16k"], iodepth=[1, 2])
    add("precondition", False, DIRECT, bs=["4k", "16k"], iodepth=[1, 2, 4], rw=["randread", "read"])
    add("cache", True, {**SYNC, "direct": 0, "pre_read": 1}, bs=["4k", "8k", "16k"], numjobs=[1, 2])
    add("cache", True, {**SYNC, "direct": 0, "rw": "write"}, bs=["4k", "8k", "64k", "1m"])
    add("cache", True, {**SYNC, "direct": 0, "ioengine": "mmap"}, rw=["randread", "read"])
    add("cache", True, {**DIRECT, "ioengine": "null"}, iodepth=[1, 4])
    add("cache", False, DIRECT, bs=["4k", "16k", "64k"], iodepth=[1, 4], rw=["randread", "write"])
    add("span", True, DIRECT, size=["16m", "64m", "256m"], bs=["4k", "16k"], iodepth=[1, 4])
    add("span", False, {**DIRECT, "size": "80g"}, bs=["4k", "16k"], iodepth=[1, 2, 4])
    add("percentiles", True, DIRECT, number_ios=[50, 500, 5000], bs=["4k", "16k"], iodepth=[1, 2])
    few = {**DIRECT, "percentile_list": "50:90"}
    add("percentiles", False, few, bs=["4k", "8k", "16k"], iodepth=[1, 2, 4])
    add("depth", True, SYNC, iodepth=[2, 4, 8, 32, 64, 128])
    add("depth", True, DIRECT, thinktime=["1ms", "5ms"], iodepth=[1, 4])
    add("depth", True, DIRECT, rate_iops=[50, 200], iodepth=[1, 4])
    add("depth", False, DIRECT, iodepth=[1, 2, 4, 8, 16, 32], bs=["4k", "16k"])
    memory = {**SYNC, "direct": 0, "pre_read": 1, "rw": "randread"}
    add("bound", True, memory, bs=["4k", "8k"], norandommap=[0, 1], numjobs=[1, 2])
    add("bound", True, {**DIRECT, "rw": "write"}, zero_buffers=[1], bs=["4k", "16k"])
    compressed = {**DIRECT, "rw": "write", "refill_buffers": 1}
    add("bound", True, compressed, buffer_compress_percentage=[50, 90])
    add("bound", False, DIRECT, iodepth=[1, 2], bs=["4k", "16k"], numjobs=[1, 2])
    return runs


def main(folder: Path) -> None:
    """Makes the runs that are not there, judges them and prints the table."""
    folder.mkdir(exist_ok=True)
    found: dict[str, list[list[bool]]] = {}
    for number, (flaw, has, options) in enumerate(made()):
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
    main(Path(sys.argv[1]))
