"""TRIM validation: data read after a discard, compared with the device's claims.

The verdicts are made when the test runs (`targets.trim_verdict`); this module turns them into
figures and sentences. Old data after a discard is counted in blocks of 4 KiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

# Names of the kinds of data in a sentence, if they differ from the kinds.
READS = {"mixed": "mixed data", "other": "other data", "ones": "0xFF bytes"}


@dataclass(frozen=True)
class Trim:
    """Findings of a validation; `None` if unknown, because nothing was discarded or claimed.

    `reads_after` is "zeros", "ones", "old data", "other" or "mixed"; `claim` is the device's own
    statement, and `claimed_by` the field that it comes from.
    """

    verdict: str
    why_not: str
    blocks: int
    old_blocks: int
    reads_after: str
    deterministic: bool
    neighbours_intact: bool
    as_claimed: bool | None
    claim: str
    claimed_by: str

    @property
    def good(self) -> bool:
        """True if TRIM has exactly the specified effect."""
        return self.verdict == "works" and self.neighbours_intact and self.as_claimed is not False

    def sentences(self) -> list[str]:
        """The findings, one sentence each.

        >>> finding = Trim("works", "", 6, 0, "zeros", True, True, True, "zeros", "RZAT")
        >>> finding.sentences()[0]
        'TRIM works: none of 6 discarded blocks of 4 KiB returns old data'
        """
        if self.verdict == "not offered":
            return [f"TRIM is not offered: {self.why_not}"]
        some = f"{self.old_blocks:,}" if self.old_blocks else "none"
        verb = "returns" if self.old_blocks < 2 else "return"
        again = "identical on every read" if self.deterministic else "not identical on every read"
        lines = [
            f"TRIM {self.verdict}: {some} of {self.blocks:,} discarded blocks of 4 KiB {verb} old "
            "data",
            f"Reads after TRIM return {READS.get(self.reads_after, self.reads_after)}, {again}",
        ]
        if self.as_claimed is not None:
            kept = "matches" if self.as_claimed else "does not match"
            lines.append(f"This {kept} the device's claim: {self.claim} ({self.claimed_by})")
        else:
            lines.append(f"The device makes no claim about reads after TRIM ({self.claimed_by})")
        if not self.neighbours_intact:
            lines.append("Blocks next to the discarded ones have lost their data")
        return lines


def trim(conditions: Mapping[str, Any]) -> Trim | None:
    """Reads the findings from a test's conditions; None if there was no validation."""
    findings = conditions.get("trim")
    if findings is None:
        return None
    claims = findings["claims"]
    same = {True: "identical each time", False: "not always identical", None: ""}
    claimed = [claims["reads_after"] or "", same[claims["deterministic"]]]
    names = [field.name for field in fields(Trim) if not field.name.startswith("claim")]
    return Trim(
        **{name: findings[name] for name in names},
        claim=", ".join(filter(None, claimed)) or "no claim about returned data",
        claimed_by=claims["source"],
    )
