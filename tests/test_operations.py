"""The log of a drive's operations, replayed by a second translation layer that shares no code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

import drivebay
from drivebay import Device, Workload
from drivebay._core import Operations
from drivebay.common.errors import UserError

WRITE, COPY, PAD, TRIM, REVERT, ERASE, CLEAR = range(7)
NOWHERE = 2**32 - 1


class SecondFtl:
    """A page-mapped translation layer: where each page is, and which addresses are erased."""

    def __init__(self, device: Device) -> None:
        told = device.map()
        assert (told.addresses == NOWHERE).all(), "from the beginning on"
        self.map = [NOWHERE] * len(told.addresses)
        self.superblock_units = told.superblock_units
        self.mapped: Counter[int] = Counter()  # pages by superblock
        self.is_erased = bytearray(b"\1") * 2**24
        self.programmed = {WRITE: 0, COPY: 0, PAD: 0}
        self.erases = 0

    def program(self, kind: int, address: int, count: int) -> None:
        end = address + count
        assert self.is_erased.find(0, address, end) < 0, "programmed twice without an erase"
        self.is_erased[address:end] = bytes(count)
        self.programmed[kind] += count

    def put(self, page: int, address: int) -> None:
        old = self.map[page]
        if old != NOWHERE:
            self.mapped[old // self.superblock_units] -= 1
        if address != NOWHERE:
            self.mapped[address // self.superblock_units] += 1
        self.map[page] = address

    def replay(self, log: Operations) -> None:
        columns = (log.kind, log.page, log.address, log.count)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for kind, page, address, count in rows:
            if kind == WRITE:
                self.program(kind, address, count)
                for offset in range(count):
                    self.put(page + offset, address + offset)
            elif kind == COPY:
                old = self.map[page]
                assert old != NOWHERE, "what is copied is mapped"
                assert old // self.superblock_units != address // self.superblock_units
                self.program(kind, address, 1)
                self.put(page, address)
            elif kind == PAD:
                self.program(kind, address, count)
            elif kind == TRIM:
                for trimmed in range(page, page + count):
                    self.put(trimmed, NOWHERE)
            elif kind == REVERT:
                self.put(page, address)
            elif kind == ERASE:
                index, offset = divmod(address, self.superblock_units)
                assert offset == 0 and self.mapped[index] == 0, "an erase costs no data"
                self.is_erased[address : address + self.superblock_units] = (
                    b"\1" * self.superblock_units
                )
                self.erases += 1
            else:
                assert kind == CLEAR
                self.map = [NOWHERE] * len(self.map)
                self.mapped.clear()
                self.is_erased = bytearray(b"\1") * len(self.is_erased)


LOADS = (
    Workload(pattern="sequential", block_bytes=128 * 1024, queue_depth=8, ios=1500),
    Workload(block_bytes=512, block_bytes_max=32768, trim_percent=10, queue_depth=8, bytes=2**28),
    Workload(fsync=16, ios=1500, read_percent=30),
)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("sm951-nvme-512", ()),
        ("980-pro-1tb", ()),
        ("sm951-nvme-256", ("parity=16:100", "unused=10%")),
    ],
)
def test_a_second_translation_layer_ends_with_the_same_map(
    name: str, changes: Sequence[str]
) -> None:
    device = drivebay.drive(name).with_(*changes).scaled(1 / 128).device(seed=3)
    second = SecondFtl(device)
    assert len(device.operations().kind) == 0
    device.fill()
    for load in LOADS:
        device.run(load)
        second.replay(device.operations())
        assert np.array_equal(second.map, device.map().addresses)
    assert second.programmed[COPY] > 0 and second.erases > 0
    device.power_cut()
    device.run(LOADS[1].model_copy(update={"bytes": 2**25}))
    device.trim(0, device.capacity_bytes // 2)
    device.secure_erase()
    device.run(LOADS[0])
    second.replay(device.operations(more=False))
    assert np.array_equal(second.map, device.map().addresses)


def test_write_amplification_of_the_log_is_the_reported_one() -> None:
    drive = drivebay.drive("pm9a3-960").scaled(1 / 128)
    device = drive.device(seed=3)
    device.fill()
    plain = device.copy()
    device.operations()
    result = device.run(Workload(bytes=device.capacity_bytes // 4, queue_depth=8))
    log = device.operations(more=False)
    units = [int(log.count[log.kind == kind].sum()) for kind in range(3)]
    before, after = result.core.before, result.core.after
    assert units[WRITE] == after.host_pages - before.host_pages
    assert units[COPY] == after.copied_pages - before.copied_pages > 0
    assert sum(units) / units[WRITE] == result.waf
    assert (log.kind == ERASE).sum() == after.erases - before.erases
    unlogged = plain.run(result.load, seed=result.seed)
    assert unlogged.core.after == after, "a log changes no figure"
    assert len(device.operations(more=False).kind) == 0


def test_media_written_in_place_has_no_map() -> None:
    device = drivebay.drive("p4800x-375").scaled(1 / 64).device()
    with pytest.raises(UserError, match="no map"):
        device.map()
    with pytest.raises(UserError, match="no map"):
        device.operations()
