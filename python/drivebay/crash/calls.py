"""System calls of a workload that no sync followed, from a trace by strace.

fsync of a file also covers its name, as on ext4, XFS and btrfs. Left out: memory maps, io_uring,
copies inside the kernel, and relative names after the program has changed its folder. If a mark
repeats, the last one counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TRACED = (
    "p?writev?(64|2)?|f?truncate|fallocate|creat|open(at)?|(un|sym)?link(at)?|rename(at2?)?|mkdir(at)?"
    "|rmdir|f(data)?sync|sync(fs)?|send(to|msg)"
)
# The file of the trace and the workload follow.
COMMAND = f"strace -f -ttt -y -s 200 -e signal=none -e trace=/^({TRACED})$ -o"
LINE = re.compile(r"(?:\d+ +)?(\d+\.\d+) (\w+)\((.*?)(?: <unfinished \.\.\.>|\) += \d.*)$")
TEXT = r'"((?:[^"\\]|\\.)*)"(?:\.\.\.)?'
NAMED = re.compile(rf"(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?{TEXT}")


class Call(NamedTuple):
    """A call that changed a file or a folder's entry: `path` in the file system, the sync that is
    `missing`, and the call with its time in the trace.
    """

    path: str
    missing: str
    text: str


def last_of(calls: Sequence[Call], path: str) -> Call | None:
    """Returns the last call of a file, or of any if `path` is empty."""
    return next((call for call in reversed(calls) if path in ("", call.path)), None)


def unsynced(recording: Path, mark: str | None) -> list[Call]:
    """Returns the last call of each file before a mark, or before the end, that no sync followed;
    none if the recording has no trace. The first working folder is the root of the file system.
    """
    trace = Path(f"{recording}.strace")
    text = trace.read_text(errors="replace") if trace.exists() else ""
    root = "".join(re.findall(r"AT_FDCWD<([^>]*)>", text)[:1]).rstrip("/")
    pending: dict[tuple[str, bool], Call] = {}
    kept, durable = None, set[str]()
    for found in filter(None, map(LINE.match, text.splitlines())):
        at, name, words = found.groups()
        is_data = re.match("p?write|f?trunc|fall", name) is not None
        opened = None if re.fullmatch(".*at2?", name) else re.match(r"\d+<(.*?)>", words)
        names = [os.path.normpath(os.path.join(root, *parts)) for parts in NAMED.findall(words)]
        path = opened[1] if opened else names[-1] if names else ""
        is_change = path not in durable if is_data else "open" not in name or "O_CREAT" in words
        if mark and f'"mark {mark}\\n' in words:
            kept = list(pending.values())
        elif "sync" in name:
            for key in list(pending):
                if path in (key[0], key[1] and os.path.dirname(key[0])) or name.startswith("sync"):
                    del pending[key]
        elif not is_data and "SYNC" in words:
            durable.add(path)
        elif path.startswith(f"{root}/") and is_change:
            own = path.removeprefix(root)
            moved = pending.pop((names[0], False), None) if name[:2] in ("re", "un") else None
            said = re.sub(TEXT, "...", words) if is_data else words
            owner = own if is_data else f"the folder {os.path.dirname(own)}"
            pending.pop((path, not is_data), None)  # the newest is the last
            pending[path, not is_data] = Call(own, f"fsync of {owner}", f"{name}({said}) at {at}")
            if moved and name[0] == "r":
                pending[path, False] = moved._replace(path=own, missing=f"fsync of {own}")
    return list(pending.values()) if kept is None else kept
