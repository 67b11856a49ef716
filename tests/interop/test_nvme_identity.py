"""Makers, power states and OCP's pages of the catalog's drives, as NVMe/TCP hosts read them."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbd_server import served
from nvme_tcp_host import CC, ENABLED, Queue, Refused

from drivebay.definitions import profiles

NQN = "nqn.2026-11.test:named"
MAKERS = {
    0x144D: {"002538"},  # Samsung
    0x1344: {"00a075"},  # Micron
    0xC0A9: {"00a075"},  # Crucial
    0x025E: {"aca32f"},  # Solidigm
    0x15B7: {"001b44"},  # Sandisk
    0x1B96: {"0014ee"},  # Western Digital
    0x8086: {"5cd2e4"},  # Intel
    0x1E0F: {"8ce38e"},  # Kioxia
}
FOR_DATA_CENTRES = {
    "pm9a3-960", "7450-pro-960", "7450-max-800", "p5520-1920", "p5336-61440", "cm7-r-3840",
    "pm1743-1920", "pm1743-7680", "9550-pro-7680", "pm9d3a-7680", "p5430-15360",
}  # fmt: skip
INVALID_FIELD, INVALID_LOG_PAGE = 0x002, 0x109
OCP_SMART, OCP_FAILURE_MODE = 0xC0, 0xC2
GUID = bytes.fromhex("c5af1028eabff2a49c4f6f7cc914d5af")


def test_each_nvme_drive_of_the_catalog_names_its_maker() -> None:
    followers = set()
    for name in profiles.names():
        raw = profiles.load(name).raw
        identify = raw.get("identify")
        if raw["host_interface"]["protocol"]["value"] != "nvme":
            # Such a drive has no NVMe identity: over NVMe it reports vendor 0.
            assert identify is None, name
            continue
        assert identify is not None, name
        assert identify["oui"]["value"] in MAKERS[identify["vendor"]["value"]], name
        assert identify["device"]["value"] and identify["model"]["value"], name
        if identify.get("ocp", {}).get("value"):
            followers.add(name)
        states = identify.get("power_states", [])
        watts = [state["max_mw"]["value"] for state in states]
        assert watts == sorted(watts, reverse=True) and all(watts), name
    assert followers == FOR_DATA_CENTRES


@contextlib.contextmanager
def _admin(folder: Path, drive: str) -> Iterator[Queue]:
    address = ("--nvme-tcp", "127.0.0.1:0", "--nqn", NQN, "--capacity", "1G", "--pace", "none")
    with served(folder, *address, drive=drive) as server:
        assert server.process.stderr is not None
        lines = iter(server.process.stderr.readline, "")
        line = next(line for line in lines if line.startswith("nvme-tcp"))
        port = int(line.split("127.0.0.1:")[1].split()[0])
        with Queue(("127.0.0.1", port)) as queue:
            queue.connect(NQN)
            queue.set(CC, ENABLED)
            yield queue
        server.end()


@pytest.mark.parametrize(
    ("drive", "vendor", "states"),
    [
        ("pm9a3-960", 0x144D, [(25000, 70, 70, True), (8000, 70, 70, True)]),
        (
            "980-pro-1tb",
            0x144D,
            [
                (8490, 0, 0, True),
                (4480, 0, 200, True),
                (3180, 0, 1000, True),
                (40, 2000, 1200, False),
                (5, 500, 9500, False),
            ],
        ),
        ("sm951-nvme-256", 0x144D, None),
    ],
)
def test_a_host_reads_maker_and_power_states(
    tmp_path: Path, drive: str, vendor: int, states: list[tuple[int, int, int, bool]] | None
) -> None:
    raw = profiles.load(drive).raw["identify"]
    with _admin(tmp_path, drive) as queue:
        page = queue.identify(1)
    assert struct.unpack_from("<HH", page) == (vendor, vendor)
    assert page[24:64].decode().rstrip() == raw["model"]["value"]
    assert page[64:72].decode().rstrip() == raw["firmware"]["value"]
    assert page[73:76][::-1].hex() == raw["oui"]["value"]
    assert page[77] == 5, "no more than 128 KiB over TCP"
    found = []
    for state in range(page[263] + 1):
        at = 2048 + 32 * state
        power, flags, entry, exit_ = struct.unpack_from("<HxBII", page, at)
        found.append((power * (0.1 if flags & 1 else 10), entry, exit_, not flags & 2))
    if states is not None:
        assert [(round(mw), *rest) for mw, *rest in found] == states
    assert len(found) == len(raw["power_states"])


def test_only_a_drive_for_data_centres_has_ocps_pages(tmp_path: Path) -> None:
    def log(queue: Queue) -> bytes:
        return queue.command(0x02, OCP_SMART | 127 << 16, nsid=0xFFFFFFFF, receive=512)[1]

    (tmp_path / "old").mkdir()
    with _admin(tmp_path / "old", "sm951-nvme-256") as queue:
        with pytest.raises(Refused) as refused:
            log(queue)
        assert refused.value.status & 0x7FF == INVALID_LOG_PAGE
        with pytest.raises(Refused) as refused:
            queue.feature(OCP_FAILURE_MODE)
        assert refused.value.status & 0x7FF == INVALID_FIELD
    (tmp_path / "new").mkdir()
    with _admin(tmp_path / "new", "pm9a3-960") as queue:
        assert log(queue)[-16:] == GUID
        for mode in (1, 2, 3):
            queue.command(0x09, OCP_FAILURE_MODE, mode << 30)
            assert queue.feature(OCP_FAILURE_MODE) == mode
