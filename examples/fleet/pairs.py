"""Ten public pairs of a load and a drive: published write amplification beside the model's.

`pairs.toml` has each pair's condition in the publication's words, and what is a guess. The loads
run as those of `drivebay fleet`: on scaled drives, until write amplification is steady.

Usage: python examples/fleet/pairs.py [NAME]
"""

from __future__ import annotations

import statistics
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

from drivebay import drive
from drivebay.library.drives import Drive
from drivebay.library.fleet import IN_SEQUENCE, Load, Stream, amplified

PACE = 100e6
"""Bytes written per second: slow enough for all drives to keep up with the streams' shares."""


def load_of(pair: dict[str, Any], what: Drive) -> Load:
    """The load of a pair on its drive."""
    streams = [
        Stream(
            stream["share"],
            tuple(stream["span"]),
            IN_SEQUENCE
            if stream.get("in_sequence")
            else {
                "block_bytes": stream.get("size", 4096),
                "offsets": stream.get("offsets", "uniform"),
            },
        )
        for stream in pair["stream"]
    ]
    return Load({}, streams, PACE, 0.0, what.capacity_bytes * pair.get("fill", 1.0))


def main() -> None:
    """Prints a table."""
    warnings.simplefilter("ignore")
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    text = Path(__file__).with_name("pairs.toml").read_text(encoding="utf-8")
    errors = []
    print("| pair | handles | published | model | error | |\n|---|---|---|---|---|---|")
    for pair in tomllib.loads(text)["pair"]:
        what = drive(pair["drive"]).with_(*pair.get("set", ()))
        for key, handles in (("published", False), ("published_handles", True)):
            if key in pair and asked in pair["name"]:
                waf, *_, note = amplified(what, load_of(pair, what), 1, handles, 1)
                error = waf / pair[key] - 1
                errors.append(abs(error))
                cells = (pair["name"], "yes" if handles else "no", f"{pair[key]:.2f}")
                print(f"| {' | '.join(cells)} | {waf:.2f} | {error:+.0%} | {note} |")
    print(f"\nmedian error {statistics.median(errors):.0%}")


if __name__ == "__main__":
    main()
