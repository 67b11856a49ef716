"""`drivebay bench`: measures the speed of the simulation on this machine."""

from __future__ import annotations

from drivebay.cli import options
from drivebay.cli.options import argument
from drivebay.cli.output import answer, say_unless_quiet
from drivebay.common import units


def bench(
    drives: list[str] | None = argument(),
    as_json: options.Json = False,
) -> None:
    """Measure the speed of the simulation on this machine.

    One core simulates four workloads on a 512 GB drive in steady state, and random reads and writes
    on four recent drives. The table shows simulated I/Os per second, seconds, peak memory and write
    amplification.

    Examples:
      drivebay bench
      drivebay bench --json > bench.json
      drivebay bench 980-pro-1tb p41-plus-1tb    compared with the SM951

    Parameters
    ----------
    drives : DRIVE...
        Measure only random reads and writes of these drives, compared with the SM951.
    """
    from drivebay.lab.bench import run_cases, run_drives

    def progress(line: str) -> None:
        say_unless_quiet(f"bench: {line}")

    cases = run_drives(drives, progress) if drives else run_cases(progress)
    rows = []
    for case in cases:
        rate, seconds = f"{case['ios_per_s']:,.0f}", f"{case['seconds']:.2f}"
        waf = "" if case["waf"] is None else f"{case['waf']:.3f}"
        relative = [f"{case['of_reference']:.2f}"] if drives else []
        memory = units.si_bytes(case["rss_bytes"])
        rows.append((case["name"], rate, seconds, memory, waf, *relative))
    heads = ["case", "I/Os per second", "seconds", "peak memory", "write amplification"]
    heads += ["relative to the SM951"] if drives else []
    answer({"cases": cases}, as_json, heads, rows, right=range(1, len(heads)))
