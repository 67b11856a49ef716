"""Numbers as people read them: sizes, rates and durations with their units.

GB is 10^9 bytes and GiB is 2^30 bytes, as everywhere in drivebay.
"""

from __future__ import annotations


def si_bytes(count: float) -> str:
    """A size in decimal units.

    >>> si_bytes(512_110_190_592)
    '512.1 GB'
    >>> si_bytes(131072)
    '131.1 KB'
    """
    value = float(count)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable: TB is the last unit")


def binary_bytes(count: int) -> str:
    """A power-of-two size: block sizes and spans.

    >>> binary_bytes(131072)
    '128 KiB'
    >>> binary_bytes(512)
    '512 B'
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count} B"


def duration(seconds: float) -> str:
    """A length of time in its two largest units.

    >>> duration(12000)
    '3 h 20 min'
    >>> duration(75)
    '1 min 15 s'
    >>> duration(0.4)
    '0 s'
    """
    total = round(seconds)
    if total >= 3600:
        return f"{total // 3600} h {total % 3600 // 60} min"
    if total >= 60:
        return f"{total // 60} min {total % 60} s"
    return f"{total} s"
