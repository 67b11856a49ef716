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
from drivebay.library.fleet import Shape, Stream, amplified

PACE = 100e6
"""Bytes written per second: slow enough for all drives to keep up with the streams' shares."""


def shape_of(pair: dict[str, Any]) -> Shape:
    """The load of a pair."""
    streams = [
        Stream(
            is_sequential=stream.get("in_sequence", False),
            begin=stream["span"][0],
            end=stream["span"][1],
            share=stream["share"],
            sizes={stream.get("size", 4096): 100},
            offsets=stream.get("offsets", "uniform"),
        )
        for stream in pair["stream"]
    ]
    return Shape(tuple(streams), PACE, 0.0, 0)


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
                found = amplified(
                    what,
                    shape_of(pair),
                    fill=pair.get("fill", 1.0),
                    written_per_s=PACE,
                    handles=handles,
                )
                error = found.waf / pair[key] - 1
                errors.append(abs(error))
                cells = (pair["name"], "yes" if handles else "no", f"{pair[key]:.2f}")
                print(f"| {' | '.join(cells)} | {found.waf:.2f} | {error:+.0%} | {found.note} |")
    print(f"\nmedian error {statistics.median(errors):.0%}")


if __name__ == "__main__":
    main()
