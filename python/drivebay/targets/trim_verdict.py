"""Result of a TRIM validation, in the same terms for real and for virtual drives.

`targets.fio.trim` produces it for a real drive, `targets.virtual` for a virtual one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

EXTENT_BYTES = 8 * 2**20
BLOCK_BYTES = 4096
READS = 3
Reads = Literal["zeros", "ones", "old data", "other", "mixed"]


def starts(capacity_bytes: int, extent_bytes: int) -> list[int]:
    """Offsets of the extents in bytes: at both ends and in the middle.

    >>> starts(64 * 2**20, 8 * 2**20)
    [0, 33554432, 58720256]
    """
    middle = capacity_bytes // 2 // extent_bytes * extent_bytes
    return sorted({0, middle, capacity_bytes - extent_bytes})


@dataclass(frozen=True)
class Claims:
    """Claims of the device: discard support, and data of reads afterwards (None: not stated)."""

    discards: bool
    reads_after: Literal["zeros", "ones"] | None
    deterministic: bool | None
    source: str


@dataclass(frozen=True)
class Validation:
    """Findings. `blocks` are of 4 KiB; `as_claimed` is None if the device claims nothing."""

    claims: Claims
    offered: bool
    why_not: str
    blocks: int
    old_blocks: int
    reads_after: Reads | None
    deterministic: bool | None
    neighbours_intact: bool | None

    @property
    def as_claimed(self) -> bool | None:
        """True if reads after the discard return what the device claims."""
        if not self.offered:
            return False if self.claims.discards else None
        if self.claims.reads_after is not None and self.reads_after != self.claims.reads_after:
            return False
        if self.claims.deterministic and not self.deterministic:
            return False
        said = self.claims.reads_after is not None or self.claims.deterministic is not None
        return True if said else None

    def record(self) -> dict[str, Any]:
        """Returns all findings and the two judgements, for the result's conditions; JSON values."""
        return {"verdict": self.verdict, "as_claimed": self.as_claimed, **asdict(self)}

    @property
    def verdict(self) -> Literal["works", "works in part", "does nothing", "not offered"]:
        """Verdict in a word, by the data alone."""
        if not self.offered:
            return "not offered"
        if self.old_blocks == 0:
            return "works"
        return "does nothing" if self.old_blocks == self.blocks else "works in part"
