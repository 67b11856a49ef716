"""Every published row run anew, beside the kept run: the whole validation of `make test-long`.

    .venv/bin/python scripts/validation.py

Many rows are outside of their bounds, which is no mistake of a change; a row that comes out other
than in published/computed/validation-run.json.xz is, unless the run is kept anew (`make fidelity`).
Some minutes; exit code 1 if a row differs."""

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


def differences(kept: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """A line for each row that came out otherwise, or is in one of the two alone."""
    before, now = rows_of(kept), rows_of(found)
    lines = [f"{one}: in one of the two alone" for one in sorted(before.keys() ^ now.keys())]
    for one in sorted(before.keys() & now.keys()):
        lines += [
            f"{one}: {key} was {before[one][key]}, is {now[one][key]}"
            for key in SAME
            if before[one][key] != now[one][key]
        ]
    return lines


def main() -> None:
    """Runs the command line."""
    tool = [sys.executable, "-m", "drivebay", "validate", "--json"]
    done = subprocess.run(tool, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: rows are outside of their bounds
        raise SystemExit(done.returncode)
    lines = differences(fidelity.recorded(), json.loads(done.stdout))
    print("\n".join(lines) or "every row as in the kept run")
    raise SystemExit(bool(lines))


if __name__ == "__main__":
    main()
