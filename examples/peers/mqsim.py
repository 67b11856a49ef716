"""The same drive and loads in MQSim and in drivebay: speed, latency and write amplification.

    git clone https://github.com/CMU-SAFARI/MQSim && make -C MQSim
    .venv/bin/python examples/peers/mqsim.py MQSim/MQSim [--requests 500000]

Writes MQSim's two files for the drive of drive.toml into a folder that it deletes afterwards, runs
both programs on one core, one after the other, and prints one table. Speed is I/Os per second of
processor time; what MQSim needs to start and to prepare the drive is taken off by a run of few
requests. What is expected:

- latency of a 4 KiB read at queue depth 1: read time and channel, by arithmetic;
- write amplification: the closed form of greedy (Desnoyers, SYSTOR 2012), with the flash that is
  left beside the ten blocks of each plane that MQSim keeps free. drivebay uses all of the flash, so
  its own form has them.

Both are told flash times and nothing else; host and link are each one's own. MQSim prepares the
drive for random writes by its analytical model, drivebay writes it: both nine tenths of it, as
MQSim ends with an error on a full one. Sequential writes go to an empty drive.
"""

from __future__ import annotations

import argparse
import functools
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from loads import DRIVE, HEAD, LOADS, PAGE, Load, Outcome, children_cpu_s, compare, greedy

import drivebay

KEPT_FREE = 10
"""Blocks of a plane below which MQSim collects; its constant, whatever its threshold says."""


def tree(name: str, parts: Mapping[str, object]) -> ElementTree.Element:
    """An element with one child per entry; a dict is an element of its own."""
    top = ElementTree.Element(name)
    for key, value in parts.items():
        if isinstance(value, Mapping):
            top.append(tree(key, value))
        else:
            ElementTree.SubElement(top, key).text = str(value)
    return top


def device(drive: drivebay.Drive, load: Load) -> ElementTree.Element:
    """MQSim's device file. What is not named has MQSim's default."""
    nand = {key: drive.value(f"nand.{key}") for key in drive.raw["nand"]}
    flash_pages = math.prod(
        nand[key] for key in ("channels", "dies_per_channel", "planes", "blocks_per_plane")
    )
    flash_bytes = flash_pages * nand["pages_per_block"] * nand["page_kib"] * 1024
    read_ns, program_ns = int(nand["read_us"] * 1000), int(nand["program_us"][0] * 1000)
    flash: dict[str, object] = {"Flash_Technology": "SLC", "CMD_Suspension_Support": "NONE"}
    for kind in ("LSB", "CSB", "MSB"):
        flash |= {f"Page_Read_Latency_{kind}": read_ns, f"Page_Program_Latency_{kind}": program_ns}
    flash |= {
        "Block_Erase_Latency": int(nand["erase_us"] * 1000),
        "Block_PE_Cycles_Limit": 100_000,
        "Die_No_Per_Chip": 1,
        "Plane_No_Per_Die": nand["planes"],
        "Block_No_Per_Plane": nand["blocks_per_plane"],
        "Page_No_Per_Block": nand["pages_per_block"],
        "Page_Capacity": nand["page_kib"] * 1024,
    }
    parts = {
        "Host_Parameter_Set": {"PCIe_Lane_Bandwidth": "1.0", "PCIe_Lane_Count": 4},
        "Device_Parameter_Set": {
            "Seed": 1,
            "Enabled_Preconditioning": str(load.is_prepared).lower(),
            "HostInterface_Type": "NVME",
            "Caching_Mechanism": "ADVANCED",
            "Data_Cache_Capacity": drive.value("write_buffer.size_kib") * 1024,
            "Ideal_Mapping_Table": "true",
            "Overprovisioning_Ratio": round(1 - drive.capacity_bytes / flash_bytes, 6),
            "GC_Exec_Threshold": "0.005",
            "GC_Block_Selection_Policy": "GREEDY",
            "Preemptible_GC_Enabled": "false",
            "Dynamic_Wearleveling_Enabled": "false",
            "Static_Wearleveling_Enabled": "false",
            "Flash_Channel_Count": nand["channels"],
            "Channel_Transfer_Rate": int(nand["channel_mb_per_s"]),
            "Chip_No_Per_Channel": nand["dies_per_channel"],
            "Flash_Parameter_Set": flash,
        },
    }
    return tree("Execution_Parameter_Set", parts)


def workload(drive: drivebay.Drive, load: Load, requests: int) -> ElementTree.Element:
    """MQSim's workload file."""

    def numbers(count: int) -> str:
        return ",".join(map(str, range(count)))

    sectors = load.block_bytes // 512
    flow = {
        "Priority_Class": "HIGH",
        "Device_Level_Data_Caching_Mode": "WRITE_CACHE",
        "Channel_IDs": numbers(drive.value("nand.channels")),
        "Chip_IDs": numbers(drive.value("nand.dies_per_channel")),
        "Die_IDs": 0,
        "Plane_IDs": numbers(drive.value("nand.planes")),
        "Initial_Occupancy_Percentage": int(100 * (load.written or 1)),
        "Working_Set_Percentage": int(100 * (load.written or 1)),
        "Synthetic_Generator_Type": "QUEUE_DEPTH",
        "Read_Percentage": load.read_percent,
        "Address_Distribution": "STREAMING" if load.pattern == "sequential" else "RANDOM_UNIFORM",
        "Percentage_of_Hot_Region": 0,
        "Generated_Aligned_Addresses": "true",
        "Address_Alignment_Unit": sectors,
        "Request_Size_Distribution": "FIXED",
        "Average_Request_Size": sectors,
        "Variance_Request_Size": 0,
        "Seed": 1,
        "Average_No_of_Reqs_in_Queue": load.queue_depth,
        "Stop_Time": 0,
        "Total_Requests_To_Generate": requests,
    }
    return tree("MQSim_IO_Scenarios", {"IO_Scenario": {"IO_Flow_Parameter_Set_Synthetic": flow}})


def by_mqsim(program: Path, drive: drivebay.Drive, load: Load, requests: int) -> Outcome:
    """Runs MQSim on a load."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "device.xml"), Path(folder, "load.xml")
        for path, top in zip(
            files, (device(drive, load), workload(drive, load, requests)), strict=True
        ):
            ElementTree.ElementTree(top).write(path, encoding="us-ascii", xml_declaration=True)
        before = children_cpu_s()
        command = [str(program.resolve()), "-i", str(files[0]), "-w", str(files[1])]
        subprocess.run(
            command, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        used = children_cpu_s() - before
        found = ElementTree.parse(Path(folder, "load_scenario_1.xml")).getroot()
    told = {leaf.tag: leaf.text or "" for leaf in found.iter()}
    for one in found.iter():
        told |= one.attrib
    programs = float(told["Issued_Flash_Program_CMD"]) + 2 * float(
        told["Issued_Flash_Multiplane_Program_CMD"]
    )
    written = float(told["Write_Request_Count"]) * load.block_bytes / PAGE
    waf = programs / written if written else 0.0
    latency_us = float(told["End_to_End_Request_Delay"])
    # Its own IOPS are over whole seconds; in a closed loop Little's law has them.
    return Outcome(load.queue_depth * 1e6 / latency_us, latency_us, waf, used)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", type=Path, metavar="MQSIM", help="the built MQSim")
    parser.add_argument("--requests", type=int, default=500_000)
    asked = parser.parse_args()
    if not asked.program.is_file():
        print(f"error: no program {asked.program}\nhint: build it: make -C MQSim", file=sys.stderr)
        return 2
    drive = drivebay.drive(DRIVE)
    print(HEAD)
    for load in LOADS:
        run = functools.partial(by_mqsim, asked.program, drive, load)
        compare(load, drive, "MQSim", run, asked.requests)
    nand = {key: drive.value(f"nand.{key}") for key in drive.raw["nand"]}
    read_us = nand["read_us"] + PAGE / nand["channel_mb_per_s"]
    print(f"\nread, by arithmetic: {read_us:.1f} us, and what host and link add")
    planes = math.prod(nand[key] for key in ("channels", "dies_per_channel", "planes"))
    data = LOADS[2].written * drive.capacity_bytes
    for name, kept_free in (("MQSim", KEPT_FREE), ("drivebay", 0)):
        pages = planes * (nand["blocks_per_plane"] - kept_free) * nand["pages_per_block"]
        waf = greedy(pages * PAGE / data, nand["pages_per_block"])
        print(f"write amplification of {name}'s flash, closed form of greedy: {waf:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
