"""One seed per review; each test draws its own from it, so that tests do not shift one another."""

from __future__ import annotations

import hashlib

SEED_MAX = 2**53 - 1
"""The largest seed: exact in every JSON reader."""


def step_seed(seed: int, test_id: str) -> int:
    """The seed of one test, from 0 to SEED_MAX: the first 53 bits of SHA-256 of "seed/test id".

    >>> step_seed(1, "random-read")
    7068201786279032
    """
    digest = hashlib.sha256(f"{seed}/{test_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 11
