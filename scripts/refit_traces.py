"""Sets the free parameters of a synthesized trace from its only published run.

    python scripts/refit_traces.py light [--state empty] [--scale 1.0] [--key gap_us --key ...]

The run is that of an SM951 512 GB (AHCI) with heatsink (AnandTech 9396, 2015-06-25): data rate
over busy time and mean latency. The search changes the given keys, as factors, one at a time
(compass search), and prints the lines for crates/trace/src/synth/NAME.toml; it changes no file.
Run it again when the drive's model has changed; docs/concepts/synthesis.md lists the free
parameters and the reasons. With --once it only runs the present profile and prints its figures.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import Any

from drivebay import _core
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed

PUBLISHED = {  # MB/s, us: rows S163, S166, S169, S172, S175, S178 of published/figures.csv
    "destroyer": (471.53, 1323.6),
    "heavy": (802.42, 180.26),
    "light": (1250.0, 69.08),
}
STATE = {"destroyer": "full", "heavy": "empty", "light": "empty"}
KEYS = ("gap_us", "deep_if_large")
FILL_BYTES = 131_072


def with_values(text: str, values: dict[str, float]) -> str:
    """The profile with other values for some keys of [chosen]."""
    for key, value in values.items():
        text, count = re.subn(rf"(?m)^{key} = [^ #\n]+", f"{key} = {value!r}", text)
        if count != 1:
            raise SystemExit(f"error: {key} is not a key of [chosen]")
    return text


def value_of(text: str, key: str) -> float:
    """A key's present value."""
    match = re.search(rf"(?m)^{key} = ([^ #\n]+)", text)
    if match is None:
        raise SystemExit(f"error: {key} is not a key of [chosen]")
    return float(match.group(1).replace("_", ""))


def run(name: str, text: str, *, scale: float, state: str, variant: str | None) -> dict[str, Any]:
    """Runs one replay on the SM951."""
    profile = catalog.load("sm951-ahci-512")
    if variant:
        profile = changed(profile, [variant])
    drive = _core.VirtualDrive(profile.core, 1)
    if state == "full":
        span = drive.capacity_bytes // FILL_BYTES * FILL_BYTES
        fill = _core.Workload(
            pattern="sequential", read_percent=0, block_bytes=FILL_BYTES, queue_depth=32,
            span_start_bytes=0, span_bytes=span, stop={"bytes": span},
        )  # fmt: skip
        drive.run(fill, 1)
        drive.rest(1800.0)
    source = _core.TraceSource.synth(name, scale, 1, text)
    replayed = drive.replay(source, _core.ReplayOptions(idle_max_s=0.025))
    out = replayed.run
    ios = float(out.reads.sum() + out.writes.sum())
    moved = float(out.read_bytes.sum() + out.write_bytes.sum())
    return {
        "rate": moved / replayed.busy_ns * 1e3,
        "latency": float(out.latency_ns_sum.astype(float).sum()) / ios / 1e3,
        "outstanding": replayed.outstanding_mean,
        "over_10_ms": replayed.over_10_ms / ios * 100,
        "over_100_ms": replayed.over_100_ms / ios * 100,
        "wall_s": (out.end_ns - out.start_ns) / 1e9,
        "throttled_s": out.after.throttled_s - out.before.throttled_s,
    }


def main() -> None:
    """Searches, or runs once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(PUBLISHED))
    parser.add_argument("--state", choices=("empty", "full"))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--key", action="append")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--variant", default="heatsink")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--once", action="store_true")
    args = parser.parse_args()
    keys = args.key or list(KEYS)
    text = _core.synth_profile(args.name)
    text = with_values(text, {k: float(v) for k, v in (s.split("=") for s in args.set)})
    state = args.state or STATE[args.name]
    rate, latency = PUBLISHED[args.name]

    def show(values: dict[str, float]) -> dict[str, Any]:
        variant = None if args.variant == "none" else args.variant
        changed = with_values(text, values)
        got = run(args.name, changed, scale=args.scale, state=state, variant=variant)
        named = ", ".join(f"{key} {value:.4g}" for key, value in values.items())
        figures = ", ".join(f"{key} {value:.4g}" for key, value in got.items())
        print(f"{named or args.name}: {figures}", flush=True)
        return got

    if args.once:
        show({})
        return
    start = {key: value_of(text, key) for key in keys}

    def error(factors: tuple[float, ...]) -> float:
        values = {
            key: value * math.exp(f) for (key, value), f in zip(start.items(), factors, strict=True)
        }
        try:
            got = show(values)
        except UserError:  # outside of the range that a profile may have
            return math.inf
        return math.log(got["rate"] / rate) ** 2 + math.log(got["latency"] / latency) ** 2

    best = compass(error, len(keys), runs=args.runs)
    for key, factor in zip(keys, best, strict=True):
        print(f"{key} = {start[key] * math.exp(factor):.4g}")


def compass(
    error: Callable[[tuple[float, ...]], float], count: int, *, runs: int
) -> tuple[float, ...]:
    """Steps up and down along each axis, and halves the step when none helps."""
    best, step = (0.0,) * count, 0.6
    lowest = error(best)
    runs -= 1
    while runs > 0 and step > 0.02:
        better = False
        for axis in range(count):
            for sign in (1, -1):
                trial = tuple(x + sign * step * (i == axis) for i, x in enumerate(best))
                runs -= 1
                if (cost := error(trial)) < lowest:
                    best, lowest, better = trial, cost, True
                    break
        step = step if better else step / 2
    return best


if __name__ == "__main__":
    main()
