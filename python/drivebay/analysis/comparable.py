"""Whether two runs of a test were the same test, so that their figures can be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from drivebay.definitions.suites import Test

LATER: dict[str, Any] = {
    "bssplit": None,
    "columns": None,
    "fsync": None,
    "handle": 0,
    "handle_by": None,
    "once": False,
    "rate_iops": None,
    "rate_mb_per_s": None,
    "rate_of": None,
    "rate_percent": None,
    "rate_process": "linear",
    "reclaim_group": 0,
    "spare_percent": None,
    "thinktime_blocks": 1,
    "thinktime_us": None,
    "together": False,
    "trim_percent": 0,
    "unknown": [],
    "zone_fill_percent": 100,
    "zone_op": "write",
    "zones": 0,
}
"""Fields of a workload, a step or a phase that came after the first shipped results, with the
values that have no effect: a field that is added belongs here, so that what was run before stays
the same test."""


def how(test: Test) -> str:
    """What must be the same for two runs of a test to be compared, as a fingerprint."""
    fields = {"kind", "prepare", "phases", "metric_window_s", "metric_queue_depths"}
    ways = json.dumps(_said(test.model_dump(mode="json", include=fields)), sort_keys=True)
    return hashlib.sha256(ways.encode()).hexdigest()[:16]


def run_differently(tests: Iterable[Test]) -> bool:
    """Whether runs of one test had not the same preparation, load and window. A real drive's
    shorter rests are no difference."""
    return len({how(test.in_real_time()) for test in tests}) > 1


def _said(fields: Any) -> Any:
    """Without what came later and is not used."""
    if isinstance(fields, dict):
        return {
            name: _said(one)
            for name, one in fields.items()
            if name not in LATER or one != LATER[name]
        }
    return [_said(one) for one in fields] if isinstance(fields, list) else fields
