"""TRIM validation: what reads gave after a discard, and what the device had said they would.

The verdicts were made when the test ran (`targets.trim_verdict`); here they become figures and
words. Old data after a discard is counted in blocks of 4 KiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

READS = {"mixed": "mixed data", "other": "other data", "ones": "0xFF bytes"}
"""How kinds of data are called in a sentence, where not as they are."""


@dataclass(frozen=True)
class Trim:
    """What was found; `None` where it is not known, as nothing was discarded or claimed.

    `reads_after` is "zeros", "ones", "old data", "other" or "mixed"; `claim` what the device says
    of itself, and `claimed_by` where it says so.
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
        """Whether TRIM does what it should, and no more."""
        return self.verdict == "works" and self.neighbours_intact and self.as_claimed is not False

    def sentences(self) -> list[str]:
        """The findings, one sentence each.

        >>> one = Trim("works", "", 6, 0, "zeros", True, True, True, "zeros", "RZAT")
        >>> one.sentences()[0]
        'TRIM works: none of 6 discarded blocks of 4 KiB returns old data'
        """
        if self.verdict == "not offered":
            return [f"TRIM is not offered: {self.why_not}"]
        some = f"{self.old_blocks:,}" if self.old_blocks else "none"
        give = "returns" if self.old_blocks < 2 else "return"
        again = "identical on every read" if self.deterministic else "not identical on every read"
        found = [
            f"TRIM {self.verdict}: {some} of {self.blocks:,} discarded blocks of 4 KiB {give} old "
            "data",
            f"Reads after TRIM return {READS.get(self.reads_after, self.reads_after)}, {again}",
        ]
        if self.as_claimed is not None:
            kept = "matches" if self.as_claimed else "does not match"
            found.append(f"This {kept} the device's claim: {self.claim} ({self.claimed_by})")
        else:
            found.append(f"The device makes no claim about reads after TRIM ({self.claimed_by})")
        if not self.neighbours_intact:
            found.append("Blocks next to the discarded ones have lost their data")
        return found


def trim(conditions: Mapping[str, Any]) -> Trim | None:
    """From a test's conditions; None where no validation is among them."""
    found = conditions.get("trim")
    if found is None:
        return None
    claims = found["claims"]
    same = {True: "identical each time", False: "not always identical", None: ""}
    words = [claims["reads_after"] or "", same[claims["deterministic"]]]
    return Trim(
        **{
            key: found[key]
            for key in (
                "verdict",
                "why_not",
                "blocks",
                "old_blocks",
                "reads_after",
                "deterministic",
                "neighbours_intact",
                "as_claimed",
            )
        },
        claim=", ".join(filter(None, words)) or "no claim about returned data",
        claimed_by=claims["source"],
    )
