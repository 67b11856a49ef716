"""Options of fio: their classes, by what they change, and their numbers.

fio_options.toml has all options of fio in three classes: load, measurement, neither. An option that
is missing there counts as one that changes the load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from drivebay.common import documents

TABLE = documents.beside(__file__, "fio_options.toml")
UNREAD = ("load", "measured")
# Engines that have one request at a time regardless of iodepth; fio's default is psync.
SYNCHRONOUS = frozenset({"psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "posix"})
# Values of sync that leave writes in the drive's cache.
SYNC_OFF = ("0", "none")
# Engines without the page cache, whatever direct says.
PASSING = frozenset({"io_uring_cmd", "spdk", "xnvme", "sg", "rbd", "rados", "libiscsi", "nbd"})
READ = frozenset((*TABLE["load"]["read"], *TABLE["measured"]["read"], *TABLE["neither"]["options"]))


def lacking(options: Mapping[str, str]) -> list[str]:
    """Warnings about the options that are not read.

    >>> lacking({"rw": "read:64k", "bs": "4k", "thinktime": "0", "gtod_reduce": "1", "new": "5"})
    ['the load that is shown lacks rw=read:64k, new=5', 'the measurement was changed by \
gtod_reduce=1']
    """
    named: dict[str, list[str]] = {kind: [] for kind in UNREAD}
    for name, value in options.items():
        if kind := class_of(name, value):
            told = f"{name}={value}" if value else name
            named[kind].append(TABLE["words"].get(told, told))
    heads = ("the load that is shown lacks", "the measurement was changed by")
    pairs = zip(heads, named.values(), strict=True)
    return [f"{head} {', '.join(told)}" for head, told in pairs if told]


def class_of(name: str, value: str) -> str:
    """Class of an option with this value ("load", "measured") that an import does not read; empty
    if it is read, or changes nothing.
    """
    if name in READ and name not in TABLE["load"]["if"]:
        return "load" if name == "rw" and ":" in value else ""
    for kind in UNREAD:
        if name in TABLE[kind]["unless"]:
            return "" if value in TABLE[kind]["unless"][name] else kind
    acts = TABLE["load"]["if"].get(name)
    return "load" if acts is None or value in acts else ""


def number_of(text: str, *, kb_base: int = 1024) -> int | None:
    """A whole number as fio reads it (parse.c): the first of several, with its suffix; None for a
    share in per cent, an expression, or no number. By fio's default "k" and "kb" are 1,024 and
    "kib" is 1,000; kb_base=1000 turns them round.

    >>> number_of("4k,8k"), number_of("0x10"), number_of("1GiB"), number_of("0.0"), number_of("1s")
    (4096, 16, 1000000000, 0, 1)
    >>> number_of("100%"), number_of("(4*2)"), number_of("")
    (None, None, None)
    """
    found = re.match(r"\s*(0x[0-9a-f]{1,15}|\d{1,18})(%|[kmgtp]?)(ib)?", text.lower())
    if found is None or found[2] == "%":
        return None
    base = 1000 if (found[3] is None) == (kb_base == 1000) else 1024
    size = int(found[1], 0 if "x" in found[1] else 10) * base ** "_kmgtp".index(found[2] or "_")
    return size if size < 2**63 else None
