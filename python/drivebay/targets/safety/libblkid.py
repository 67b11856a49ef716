"""libblkid through ctypes: signatures and partition tables anywhere in a file or device.

Source: libblkid's reference manual (util-linux). The calls are those of `wipefs --no-act`, which
lists every signature where blkid(8) stops at the first doubt, but with an offset: a partition is
probed at its place in the table, whether or not the kernel has a node for it. libblkid knows only
the first superblock of btrfs; its copies (btrfs(5), on-disk format: at 64 MiB and 256 GiB, each
with its own address in it) are searched for here. Nothing here writes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any

SECTOR_BYTES = 512
# Tables inside partitions are followed to this depth.
NESTED_MAX = 4
_SUPERBLOCKS = 1 << 1 | 1 << 3 | 1 << 5 | 1 << 9 | 1 << 10  # LABEL UUID TYPE MAGIC BADCSUM
_TABLES = 1 << 1 | 1 << 3  # FORCE_GPT MAGIC
_BTRFS_COPIES = (64 * 2**20, 256 * 2**30)
# Fields of a superblock: checksum (skipped), UUID, its own address, flags (skipped), magic.
_BTRFS = struct.Struct("<32x16sQ8x8s")


class ProbeError(Exception):
    """The library is missing, or could not read."""


@dataclass(frozen=True)
class Signature:
    """A signature; `kind` is libblkid's name ("ext4", "gpt"); `uuid` and `label` are "" where it
    has none. `place` and `size` are its magic's position in the device or file, in bytes; a size
    of 0: not known.
    """

    kind: str
    uuid: str
    label: str
    place: int = 0
    size: int = 0


@dataclass(frozen=True)
class Area:
    """A device (`depth` 0) or a partition in it, in bytes, with its signatures."""

    depth: int
    start: int
    length: int
    part_uuid: str
    part_label: str
    signatures: tuple[Signature, ...]


@functools.cache
def load() -> Any:
    """Loads the library and declares its functions; raises ProbeError if it is missing."""
    try:
        library = ctypes.CDLL("libblkid.so.1")
    except OSError:
        raise ProbeError("libblkid is missing (apt install libblkid1)") from None
    for name, result, arguments in (
        ("blkid_new_probe", c_void_p, []),
        ("blkid_free_probe", None, [c_void_p]),
        ("blkid_probe_set_device", c_int, [c_void_p, c_int, c_int64, c_int64]),
        ("blkid_probe_set_superblocks_flags", c_int, [c_void_p, c_int]),
        ("blkid_probe_enable_partitions", c_int, [c_void_p, c_int]),
        ("blkid_probe_set_partitions_flags", c_int, [c_void_p, c_int]),
        ("blkid_do_probe", c_int, [c_void_p]),
        ("blkid_probe_hide_range", c_int, [c_void_p, ctypes.c_uint64, ctypes.c_uint64]),
        ("blkid_probe_step_back", c_int, [c_void_p]),
        (
            "blkid_probe_lookup_value",
            c_int,
            [c_void_p, c_char_p, POINTER(c_char_p), POINTER(c_size_t)],
        ),
        ("blkid_probe_get_partitions", c_void_p, [c_void_p]),
        ("blkid_partlist_numof_partitions", c_int, [c_void_p]),
        ("blkid_partlist_get_partition", c_void_p, [c_void_p, c_int]),
        ("blkid_partition_get_start", c_int64, [c_void_p]),
        ("blkid_partition_get_size", c_int64, [c_void_p]),
        ("blkid_partition_get_uuid", c_char_p, [c_void_p]),
        ("blkid_partition_get_name", c_char_p, [c_void_p]),
        ("blkid_get_cache", c_int, [POINTER(c_void_p), c_char_p]),
        ("blkid_put_cache", None, [c_void_p]),
        ("blkid_evaluate_spec", c_void_p, [c_char_p, POINTER(c_void_p)]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def areas(fd: int, length: int, start: int = 0) -> list[Area]:
    """Searches a range of an open file or device, and every partition that a table in it names.
    Raises ProbeError if it cannot be searched.
    """
    return list(_areas(fd, start, length, 1 if start else 0, "", ""))


def _areas(
    fd: int, start: int, length: int, depth: int, part_uuid: str, part_label: str
) -> Iterator[Area]:
    with _probe(fd, start, length) as probe:
        found = {*_signatures(probe, start), *_btrfs_copies(fd, start, length)}
    signatures = tuple(sorted(found, key=lambda one: (one.kind, one.uuid, one.place)))
    parts = []
    if signatures:
        # a new probe: the first one has its signatures hidden
        with _probe(fd, start, length) as probe:
            parts = _partitions(probe)
    yield Area(depth, start, length, part_uuid, part_label, signatures)
    for first, size, name, label in parts:
        if 0 < first < length and size > 0 and depth < NESTED_MAX:
            size = min(size, length - first)
            yield from _areas(fd, start + first, size, depth + 1, name, label)
        else:  # beyond its end, or too deep: listed, but not searched
            yield Area(depth + 1, start + first, 0, name, label, ())


@contextlib.contextmanager
def _probe(fd: int, start: int, length: int) -> Iterator[int]:
    library = load()
    probe = library.blkid_new_probe()
    try:
        if not probe or library.blkid_probe_set_device(probe, fd, start, length) != 0:
            raise ProbeError("libblkid cannot read it")
        library.blkid_probe_set_superblocks_flags(probe, _SUPERBLOCKS)
        library.blkid_probe_enable_partitions(probe, 1)
        library.blkid_probe_set_partitions_flags(probe, _TABLES)
        yield probe
    finally:
        library.blkid_free_probe(probe)


def _signatures(probe: int, start: int) -> Iterator[Signature]:
    """Yields each signature, then the ones below it: a signature that was found is hidden from the
    next probe.
    """
    library, seen = load(), set()
    while (status := library.blkid_do_probe(probe)) == 0:
        for kind, name, magic in (("TYPE", "UUID", "SBMAGIC"), ("PTTYPE", "PTUUID", "PTMAGIC")):
            if not _value(probe, kind):
                continue
            place, size = _value(probe, f"{magic}_OFFSET"), _lookup(probe, magic)[1]
            identity, label = _value(probe, name), _value(probe, "LABEL")
            at = start + int(place or 0)
            yield Signature(_value(probe, kind), identity, label, at, size if place else 0)
            if place and size and (kind, place) not in seen:
                seen.add((kind, place))
                library.blkid_probe_hide_range(probe, int(place), size)
                library.blkid_probe_step_back(probe)
    if status != 1:
        raise ProbeError("libblkid cannot read it")


def _btrfs_copies(fd: int, start: int, length: int) -> Iterator[Signature]:
    """Yields copies of a btrfs superblock, which remain when the first one is overwritten."""
    import uuid  # here, as it is rarely needed

    for copy in _BTRFS_COPIES:
        if copy + _BTRFS.size <= length:
            raw = os.pread(fd, _BTRFS.size, start + copy)
            if len(raw) < _BTRFS.size:
                continue
            identity, address, magic = _BTRFS.unpack(raw)
            if (address, magic) == (copy, b"_BHRfS_M"):
                place = start + copy + _BTRFS.size - len(magic)
                yield Signature("btrfs", str(uuid.UUID(bytes=identity)), "", place, len(magic))


def _value(probe: int, name: str) -> str:
    return (_lookup(probe, name)[0] or b"").decode(errors="replace")


def _lookup(probe: int, name: str) -> tuple[bytes | None, int]:
    data, size = c_char_p(), c_size_t()
    load().blkid_probe_lookup_value(probe, name.encode(), byref(data), byref(size))
    return data.value, size.value


def _partitions(probe: int) -> list[tuple[int, int, str, str]]:
    """Returns start and length in bytes, UUID and label of every partition in the area's table."""
    library = load()
    table = library.blkid_probe_get_partitions(probe)
    found = []
    for index in range(library.blkid_partlist_numof_partitions(table) if table else 0):
        one = library.blkid_partlist_get_partition(table, index)
        names = (library.blkid_partition_get_uuid(one), library.blkid_partition_get_name(one))
        identity, label = ((name or b"").decode(errors="replace") for name in names)
        start = library.blkid_partition_get_start(one) * SECTOR_BYTES
        found.append((start, library.blkid_partition_get_size(one) * SECTOR_BYTES, identity, label))
    return found


def evaluate(reference: str) -> str | None:
    """Returns the path of the device that UUID=, LABEL=, PARTUUID=, PARTLABEL= or a path names;
    None if there is none now. Searches udev's links first, then the devices themselves.
    """
    try:
        library = load()
    except ProbeError:
        return None
    cache = c_void_p()
    if library.blkid_get_cache(byref(cache), b"/dev/null") != 0:
        return None
    try:
        found = library.blkid_evaluate_spec(reference.encode(), byref(cache))
    finally:
        library.blkid_put_cache(cache)
    if not found:
        return None
    path = ctypes.string_at(found).decode(errors="replace")
    ctypes.CDLL(None).free(c_void_p(found))
    return path
