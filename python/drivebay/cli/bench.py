"""`drivebay bench`: the simulation's speed on this machine."""

from __future__ import annotations

from drivebay.cli import options
from drivebay.cli.output import print_json, say, table
from drivebay.common import units

app = options.Verb()


@app.command(epilog="\b\nExamples:\n  drivebay bench\n  drivebay bench --json > bench.json")
def bench(as_json: options.Json = False) -> None:
    """Measure the speed of the simulation on this machine.

    One core, four workloads on a 512 GB drive, each in steady state, and random reads and writes of
    four drives of today: simulated I/Os per second, seconds, peak memory, and the write
    amplification reached.
    """
    from drivebay.lab.bench import run_cases

    cases = run_cases(lambda line: say(f"bench: {line}"))
    if as_json:
        print_json({"cases": cases})
        return
    rows = [
        (
            case["name"],
            f"{case['ios_per_s']:,.0f}",
            f"{case['seconds']:.2f}",
            units.si_bytes(case["rss_bytes"]),
            "" if case["waf"] is None else f"{case['waf']:.3f}",
        )
        for case in cases
    ]
    heads = ("case", "I/Os per second", "seconds", "peak memory", "write amplification")
    table(heads, rows, right=(1, 2, 3, 4))
