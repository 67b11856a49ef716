"""Seeds: one per review, from which tests, states and phases derive their own."""

from __future__ import annotations

import hashlib

# The largest seed: exact in every JSON reader.
SEED_MAX = 2**53 - 1


def derived_seed(seed: int, *names: str, bits: int = 53) -> int:
    """Derives a seed of `bits` bits, by default up to SEED_MAX: the first bits of SHA-256 of
    "seed/name/name".

    >>> derived_seed(1, "random-read")
    7068201786279032
    """
    digest = hashlib.sha256("/".join([str(seed), *names]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 64 - bits
