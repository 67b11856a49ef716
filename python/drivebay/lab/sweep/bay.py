"""One review of a fleet's drive, as a process of its own: `python -m drivebay.lab.sweep.bay`.

Reads one line of JSON, the order, from standard input, and runs the review with all the rules of
its target. When the input ends, because it was told to stop or its worker is gone, the review
stops as on Ctrl-C: what had finished is kept. Answers with one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from drivebay.common.errors import DrivebayError
from drivebay.definitions.suites import Suite
from drivebay.review import engine
from drivebay.targets.fio.target import FioTarget


def main() -> None:
    """Until the review has ended."""
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch, daemon=True).start()
    answer: dict[str, Any] = {"folder": order["folder"]}
    try:
        _review(order)
    except DrivebayError as problem:
        answer = {"error": problem.message, "hint": problem.hint}
    print(json.dumps(answer), flush=True)
    os._exit(0)  # not waiting for the thread that reads


def _watch() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _review(order: dict[str, Any]) -> None:
    folder = Path(order["folder"])
    suite = Suite.model_validate(order["suite"])

    def target() -> FioTarget:
        return FioTarget(
            order["path"],
            destroy_serial=order["destroy_serial"],
            overwrite_signature=order["overwrite_signature"],
        )

    engine.run(
        target,
        suite,
        out=folder,
        seed=order["seed"],
        quick=order["quick"],
        resume=(folder / "manifest.json").exists(),
        drive=order["path"],
    )


if __name__ == "__main__":
    main()
