"""Human-readable numbers: sizes, rates and durations with their units.

GB is 10^9 bytes and GiB is 2^30 bytes, as everywhere in drivebay.
"""

from __future__ import annotations

import re

from drivebay.common.errors import UserError

# Largest file size that Linux supports.
BYTES_MAX = 2**63 - 1


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


def parse_bytes(text: str, *, option: str) -> int:
    """Parses a size: "4G", "4GiB" (2^30 each), "500MB" (10^6) or "1048576".

    >>> parse_bytes("4G", option="--size"), parse_bytes("500MB", option="--size")
    (4294967296, 500000000)
    >>> parse_bytes("1000204886016", option="--size")
    1000204886016

    Raises UserError if the text is not a size, or the size exceeds that of any file.
    """
    match = re.fullmatch(r"(\d{1,15})\s*(?:([KMGT])(i?B)?)?", text.strip())
    if match is None or int(match[1]) == 0:
        raise UserError(f"{option} {text} is not a size", f"for example: {option} 4GiB")
    base = 1000 if match[3] == "B" else 1024
    factor: int = base ** (" KMGT".index(match[2]) if match[2] else 0)
    size = int(match[1]) * factor
    if size > BYTES_MAX:
        raise UserError(
            f"{option} {text} is larger than any file can be", f"for example: {option} 4GiB"
        )
    return size


def parse_ratio(text: str, *, option: str) -> float:
    """Parses a positive number or a fraction of two: "1/20", "0.05", "10".

    >>> parse_ratio("1/20", option="--time-scale"), parse_ratio("10", option="--time-scale")
    (0.05, 10.0)
    """
    above, slash, below = text.partition("/")
    try:
        ratio = float(above) / (float(below) if slash else 1.0)
    except (ValueError, ZeroDivisionError):
        ratio = 0.0
    if not 1e-6 <= ratio <= 1e6:
        raise UserError(f"{option} {text} is not a ratio", f"for example: {option} 1/20")
    return ratio


def duration(seconds: float) -> str:
    """Formats a length of time in its two largest units.

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
