"""The file that owns a sector of an image, by the tools of its file system: debugfs, xfs_db, btrfs.

Left out: extents that snapshots share, and a drive with partitions. They get no name.
"""

from __future__ import annotations

import re
from pathlib import Path

from drivebay.common import programs

TIMEOUT_S = 60.0
SECTOR = 512


def owner(image: Path, sector: int) -> str | None:
    """Returns the path of the file that owns a sector, and the offset in it in bytes; None for the
    file system's own sectors, for other content, and if the tool is not installed.
    """
    with image.open("rb") as file:
        start = file.read(65536 + 72)
    at = sector * SECTOR
    try:
        if start[1080:1082] == b"\x53\xef":
            path, offset = _ext4(str(image), at, 1024 << int.from_bytes(start[1048:1052], "little"))
        elif start[:4] == b"XFSB":
            path, offset = _xfs(str(image), at, int.from_bytes(start[4:8], "big"))
        elif start[65600:65608] == b"_BHRfS_M":
            path, offset = _btrfs(str(image), at)
        else:
            return None
    except (LookupError, programs.NoAnswer):
        return None
    return f"{path} at offset {offset:,}"


def _ask(tool: str, *words: str) -> str:
    command = [programs.find(tool) or tool, *words]
    return programs.ask(command, timeout_s=TIMEOUT_S).stdout.decode(errors="replace")


def _match(pattern: str, text: str) -> list[str]:
    """Groups of the first match. Raises LookupError if there is none."""
    if match := re.search(pattern, text):
        return list(match.groups())
    raise LookupError(pattern)


def _offset(pattern: str, extents: str, at: int, unit: int) -> int:
    """Offset in a file of a byte of the image. The pattern finds of each extent the first unit in
    the file, the first one in the image, and their number.
    """
    for groups in re.findall(pattern, extents):
        logical, first, count = (int(group) * unit for group in groups)
        if first <= at < first + count:
            return logical + at - first
    raise LookupError(pattern)


def _ext4(image: str, at: int, block: int) -> tuple[str, int]:
    (inode,) = _match(r"\n\d+\t(\d+)", _ask("debugfs", "-R", f"icheck {at // block}", image))
    (path,) = _match(r"\n\d+\t(.+)", _ask("debugfs", "-R", f"ncheck {inode}", image))
    extents = _ask("debugfs", "-R", f"dump_extents -l <{inode}>", image)
    pattern = r"(\d+) - +\d+ +(\d+) - +\d+ +(\d+)"
    return path.replace("//", "/"), _offset(pattern, extents, at, block)


def _xfs(image: str, at: int, block: int) -> tuple[str, int]:
    words = ("-c", "blockget -n", "-c", f"daddr {at // SECTOR}", "-c", "blockuse -n")
    pattern = r"block (\d+) .*inode (\d+) (.+)"
    number, inode, path = _match(pattern, _ask("xfs_db", "-r", *words, image))
    extents = _ask("xfs_db", "-r", "-c", f"inode {inode}", "-c", "bmap", image)
    pattern = r"data offset (\d+) startblock (\d+) .*count (\d+)"
    # Numbers of blocks have their allocation group in front.
    return f"/{path}", _offset(pattern, extents, int(number) * block + at % block, block)


def _btrfs(image: str, at: int) -> tuple[str, int]:
    tree = _ask("btrfs", "inspect-internal", "dump-tree", image)
    chunk = r"CHUNK_ITEM (\d+)\).*\n\t\tlength (\d+) (?:.*\n\t\t)*?\tstripe 0 devid 1 offset (\d+)"
    chunks = "\n".join(" ".join((a, c, b)) for a, b, c in re.findall(chunk, tree))
    at = _offset(r"(\d+) (\d+) (\d+)", chunks, at, 1)
    extent = r"\((\d+) EXTENT_DATA (\d+)\).*\n.*\n.*disk byte (\d+) nr (\d+)\n.*data offset (\d+)"
    for inode, first, start, count, skipped in re.findall(extent, tree):
        if 0 <= at - int(start) < int(count):
            parent, path = inode, ""
            while parent != "256":
                up, name = _match(rf"\({parent} INODE_REF (\d+)\).*\n.*name: (.+)", tree)
                parent, path = up, f"/{name}{path}"
            return path, int(first) + at - int(start) - int(skipped)
    raise LookupError(at)
