"""Sentence patterns of the verdict and the conclusion.

A sentence is a pattern and its claim: the values that it states, by name. `tests/test_verdict.py`
computes every claim again from the tables and series of the page.
"""

from __future__ import annotations

import string
from typing import Any

from drivebay.report.base.text import GAP, latency, percent, quantity

PATTERNS = {
    "heat": "{who}{load!c} run at {rate:MB/s} for {after:s}. Then the drive overheats, and they "
    "fall to {low:MB/s}.",
    "full": "{who}{load!c} run at {rate:MB/s} for {after:s}. Then the write cache is full, and "
    "they fall to {low:MB/s}.",
    "fall": "{who}{load!c} run at {rate:MB/s} for {after:s}, then at {low:MB/s}.",
    "slowed": "{who}{load!c} run at {rate:MB/s}. Heat slows them to {low:MB/s} in {slow:s} of "
    "{all:s}, first after {after:s}.",
    "even": "{who}{load!c} average {rate:MB/s} over {all:s}, without a sustained drop.",
    "light": "From {after:s} on the drive reports light throttling, which takes {cost:%} of the "
    "latency.",
    "hot": "Heat takes {share:%} of the latency of sustained {load}. Without it they would "
    "be {gain:%} faster.",
    "burst": "{load!c} start at {start:IOPS}. The rate falls after {after:s}; over the last "
    "{last:s} it is {rate:IOPS}, {share:%} of the start.",
    "random": "{load!c} average {rate:IOPS} over {all:s}, without a fast start.",
    "cause": "{stage!c} takes {share:%} of the latency.",
    "load": "{title!c}: the p99.9 latency is {low:us} at {part:%} of the highest rate and "
    "{high:us} at {most:%}.",
    "best": "Compared with {count} {others}, the drive is strongest in {title}: {times:x} their "
    "median.",
    "worst": "Compared with {count} {others}, the drive is weakest in {title}: {times:x} their "
    "median.",
    "also": "It is weakest in {title}: {times:x} their median.",
    "behind": "The drive is below the median of {count} {others} in all key figures that differ: "
    "least in {near} with {least:x}, most in {title} with {times:x}.",
    "equal": "No key figure differs from the median of {count} {others} by more than its "
    "uncertainty.",
    "wrong": "{title!c} has no rank, because the model gives {times:x} the published {metric}. "
    "{source} found: {found}.",
    "elsewhere": "{title!c} has no rank, because the model gives {times:x} the published {metric} "
    "of the {drive}.",
    "unknown": "{use!c}: the model gives {times:x} the published {metric} of the {drive} in "
    "{title}.",
    "range": "Data rates range from {low:MB/s} in {slowest} to {high:MB/s} in {fastest}.",
    "use": "{use!c}: {times:x} the median in {title}.",
    "much": "Writing more than {moved:GB} at once without airflow: the drive overheats.",
    "rival": "{gain:+} in {title}",
    "same": "No clear difference in the key figures.",
}
"""Patterns by name. The format of a value is its unit; `%` rounds, `+` has a sign, `us` chooses µs
or ms, and `!c` begins with a capital letter.
"""


class Sentence(str):
    """A sentence with its pattern and its claim.

    >>> Sentence("random", load="random writes", rate=7884.4, all=3600).replace(GAP, " ")
    'Random writes average 7,884 IOPS over 3,600 s, without a fast start.'
    """

    pattern: str
    claim: dict[str, Any]

    def __new__(cls, pattern: str, **claim: Any) -> Sentence:
        """Fills a pattern with a claim."""
        made = super().__new__(cls, _Formatter().vformat(PATTERNS[pattern], (), claim))
        made.pattern, made.claim = pattern, claim
        return made


class _Formatter(string.Formatter):
    """Formats values by their unit."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Formats a number with its unit, and leaves a text unchanged."""
        if not format_spec:
            return str(value)
        if format_spec == "us":
            return latency(value)
        if format_spec == "+":
            return percent(value)
        if format_spec == "x":
            return f"{value:.2g}{GAP}times"
        if format_spec == "%":
            return f"{value:.0f}{GAP}%" if value >= 10 else f"{value:.2g}{GAP}%"
        return quantity(round(value) if abs(value) >= 10 else value, format_spec)

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Begins a text with a capital letter for `!c`."""
        return value[:1].upper() + value[1:] if conversion == "c" else value
