"""Runs every published row again and compares it with the stored run: the whole validation of `make
test-long`.

    .venv/bin/python scripts/validation.py

Many rows are outside of their bounds, which is not an error of a change; a row that differs from
published/computed/validation-run.json.xz is one, unless the run is stored again (`make fidelity`).
Some minutes; exit code 1 if a row differs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from drivebay.analysis import fidelity

SAME = ("reproduced", "ok", "published", "bounds")


def rows_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows by their id."""
    return {row["id"]: row for row in document["rows"]}


def differences(kept: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """A line for each row that differs, or is in only one of the two."""
    before, now = rows_of(kept), rows_of(new)
    lines = [f"{row_id}: only in one of the two" for row_id in sorted(before.keys() ^ now.keys())]
    for row_id in sorted(before.keys() & now.keys()):
        lines += [
            f"{row_id}: {key} was {before[row_id][key]}, is {now[row_id][key]}"
            for key in SAME
            if before[row_id][key] != now[row_id][key]
        ]
    return lines


def main() -> None:
    """Runs the command line."""
    tool = [sys.executable, "-m", "drivebay", "validate", "--json"]
    done = subprocess.run(tool, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: rows are outside of their bounds
        raise SystemExit(done.returncode)
    lines = differences(fidelity.recorded(), json.loads(done.stdout))
    print("\n".join(lines) or "every row as in the stored run")
    raise SystemExit(bool(lines))


if __name__ == "__main__":
    main()
