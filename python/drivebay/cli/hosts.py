"""`drivebay hosts`: lists the hosts for virtual drives."""

from __future__ import annotations

from typing import Any

from drivebay.cli import options
from drivebay.cli.output import print_json, table


def hosts(as_json: options.Json = False) -> None:
    """List the hosts that virtual drives can be tested in.

    A host is the computer around the drive: driver, protocol cost per command, interrupts,
    processors, slot. Each drive's profile names the host of its reviews; --host NAME selects
    another one.

    Examples:
      drivebay hosts
      drivebay review sm951-nvme-512 --host linux-io-uring
    """
    from drivebay.definitions import hosts as catalog

    known = [catalog.load(name) for name in catalog.names()]
    if as_json:
        print_json({"hosts": known})
        return
    rows = [
        (host["name"], _cost(host, "ahci"), _cost(host, "nvme"), _slot(host), host["title"])
        for host in known
    ]
    table(("host", "AHCI", "NVMe", "slot", "title"), rows)
    print('\nAHCI, NVMe: processor time per command; "serial": the part that blocks others.')


def _cost(host: dict[str, Any], protocol: str) -> str:
    driver = host.get(protocol)
    if driver is None:
        return "none"
    value = {key: leaf["value"] for key, leaf in driver.items()}
    serial = (
        value["serial_us"]
        + value["register_reads"] * value["register_read_us"]
        + value["register_writes"] * value["register_write_us"]
    )
    return f"{value['software_us'] + serial + value['interrupt_us']:.3g} us, {serial:.3g} serial"


def _slot(host: dict[str, Any]) -> str:
    slot = host["slot"]
    return f"PCIe {slot['generation']['value']}.0 x{slot['lanes']['value']}"
