"""A simulated nvme-cli and hdparm for tests: they act on a loop device's backing file.

Their answers have the fields that nvme-cli 2.3 and hdparm 9.65 print; `tests/interop` asks the real
nvme-cli. Run as `python simulated_erase.py PROGRAM ARGUMENT...`; the environment's SIMULATED is a
JSON file with what the drive can do, how it behaves, and the list of calls, which it adds to.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

SECURITY = """\
Security:
	Master password revision code = 65534
		supported
	{enabled}	enabled
	not	locked
	{frozen}	frozen
	not	expired: security count
		supported: enhanced erase
	2min for SECURITY ERASE UNIT. 8min for ENHANCED SECURITY ERASE UNIT.
"""


def erase(drive: dict[str, Any]) -> None:
    """What an erase does to the data: all of it gone, or a part, or (it lies) none."""
    import subprocess  # here, as most calls only ask

    if drive.get("lies"):
        return
    backing = Path(drive["backing"])
    size = backing.stat().st_size
    keep = size // 2 if drive.get("stops half way") else 0
    subprocess.run(
        ["fallocate", "--punch-hole", "--offset", str(keep), "--length", str(size - keep), backing],
        check=True,
    )


def nvme(arguments: list[str], drive: dict[str, Any]) -> int:
    """nvme COMMAND DEVICE OPTION..."""
    command = arguments[0]
    if command == "id-ctrl":
        fields = {"oacs": 0, "fna": 0, "sanicap": 0, "nn": 1}
        print(json.dumps({key: drive.get(key, value) for key, value in fields.items()}))
    elif command == "id-ns":
        print(json.dumps({"flbas": drive.get("flbas", 1), "dps": drive.get("dps", 0)}))
    elif command == "list-ns":
        if command in drive.get("fails", []):
            return 1
        listed = drive["allocated" if "--all" in arguments else "active"]
        print(json.dumps({"nsid_list": [{"nsid": number} for number in listed]}))
    elif command == "sanitize-log":
        states = drive.get("sanitize states", [[0, 0]])
        progress, status = states.pop(0) if len(states) > 1 else states[0]
        sys.stdout.buffer.write(progress.to_bytes(2, "little") + status.to_bytes(2, "little"))
    elif command in ("format", "sanitize"):
        if command in drive.get("fails", []):
            print("NVMe status: Invalid Format (0x10a)", file=sys.stderr)
            return 1
        erase(drive)
    else:
        return 2
    return 0


def hdparm(arguments: list[str], drive: dict[str, Any]) -> int:
    """hdparm -I DEVICE, or --user-master u --security-... PASSWORD DEVICE"""
    option = arguments[0] if arguments[0] == "-I" else arguments[2]
    if option == "-I":
        enabled = "" if drive.get("enabled") else "not"
        print(SECURITY.format(enabled=enabled, frozen="" if drive.get("frozen") else "not"))
    elif option == "--security-set-pass":
        drive["enabled"] = True
    elif option == "--security-disable":
        drive["enabled"] = False
    elif option == "--security-erase":
        if "erase" in drive.get("fails", []):
            print("SG_IO: bad/missing sense data", file=sys.stderr)
            return 5
        erase(drive)
        drive["enabled"] = False
    return 0


def main() -> int:
    """Act as the program named first."""
    state = Path(os.environ["SIMULATED"])
    drive: dict[str, Any] = json.loads(state.read_text())
    name, *arguments = sys.argv[1:]
    drive["calls"].append(" ".join([name, *arguments]))
    code = nvme(arguments, drive) if name == "nvme" else hdparm(arguments, drive)
    state.write_text(json.dumps(drive))
    return code


if __name__ == "__main__":
    sys.exit(main())
