"""Process that reviews one drive of a fleet.

Reads one line of JSON, the request, from standard input, and runs the review with all the rules of
its target. When the input ends, because of a stop request or because its worker is gone, the review
stops as on Ctrl-C: finished tests are kept. Answers with one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from drivebay.common import lean
from drivebay.common.errors import DrivebayError
from drivebay.definitions.suites import Suite
from drivebay.review import engine
from drivebay.targets.fio.target import FioTarget


def main() -> None:
    """Runs until the review has ended."""
    lean.without_pandas()
    request: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch, daemon=True).start()
    answer: dict[str, Any] = {"folder": request["folder"]}
    try:
        _review(request)
    except DrivebayError as problem:
        answer = {"error": problem.message, "hint": problem.hint}
    print(json.dumps(answer), flush=True)
    os._exit(0)  # without waiting for the thread that reads


def _watch() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _review(request: dict[str, Any]) -> None:
    folder = Path(request["folder"])
    suite = Suite.model_validate(request["suite"])

    def target() -> FioTarget:
        return FioTarget(
            request["path"],
            destroy_data=request["destroy_data"],
            overwrite_signature=request["overwrite_signature"],
        )

    engine.run(
        target,
        suite,
        out=folder,
        seed=request["seed"],
        quick=request["quick"],
        resume=(folder / "manifest.json").exists(),
        drive=request["path"],
    )


if __name__ == "__main__":
    main()
