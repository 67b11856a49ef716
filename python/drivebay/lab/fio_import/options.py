"""Options of fio that an import does not read, although they change the load or its measurement.

options.toml has all options of fio in three classes. An option that is missing there is named as
well.
"""

from __future__ import annotations

from drivebay.common import documents
from drivebay.lab.fio_import.jobs import Options

TABLE = documents.beside(__file__, "options.toml")
UNREAD = ("load", "measured")
# Engines without the page cache, whatever direct says.
PASSING = frozenset({"io_uring_cmd", "spdk", "xnvme", "sg", "rbd", "rados", "libiscsi", "nbd"})
READ = frozenset((*TABLE["load"]["read"], *TABLE["measured"]["read"], *TABLE["neither"]["options"]))


def lacking(options: Options) -> list[str]:
    """Warnings about the options that are not read.

    >>> lacking({"rw": "read:64k", "bs": "4k", "thinktime": "0", "gtod_reduce": "1", "new": "5"})
    ['the load that is shown lacks rw=read:64k, new=5', 'the measurement was changed by \
gtod_reduce=1']
    """
    named: dict[str, list[str]] = {kind: [] for kind in UNREAD}
    for name, value in options.items():
        if kind := _kind(name, value):
            told = f"{name}={value}" if value else name
            named[kind].append(TABLE["words"].get(told, told))
    heads = ("the load that is shown lacks", "the measurement was changed by")
    pairs = zip(heads, named.values(), strict=True)
    return [f"{head} {', '.join(told)}" for head, told in pairs if told]


def _kind(name: str, value: str) -> str:
    """Class of an option with this value; empty if it is read, or changes nothing."""
    if name in READ and name not in TABLE["load"]["if"]:
        return "load" if name == "rw" and ":" in value else ""
    for kind in UNREAD:
        if name in TABLE[kind]["unless"]:
            return "" if value in TABLE[kind]["unless"][name] else kind
    acts = TABLE["load"]["if"].get(name)
    return "load" if acts is None or value in acts else ""
