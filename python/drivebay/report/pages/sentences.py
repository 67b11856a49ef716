"""Sentences of the verdict and the conclusion.

A sentence is a pattern of `assets/sentences.toml` and its claim: the values that it states, by
name. `tests/test_verdict.py` computes every claim again from the tables and series of the page.
"""

from __future__ import annotations

import string
from typing import Any

from drivebay.report.base.text import GAP, asset_table, latency, percent, quantity

TEXTS = asset_table("sentences")
PATTERNS: dict[str, str] = TEXTS["patterns"]
USES: dict[str, str] = TEXTS["uses"]


class Sentence(str):
    """A sentence with its pattern and its claim.

    >>> Sentence("random", load="random writes", rate=7884.4, all=3600).replace(GAP, " ")
    'Random writes average 7,884 IOPS over 3,600 s, and never fall below half of their start.'
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
