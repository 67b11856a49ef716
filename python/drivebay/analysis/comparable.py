"""Fingerprints of tests, by which runs with the same preparation and load are recognized."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from drivebay.definitions.suites import LoadFields, Test

FIRST = {"pattern", "offsets", "streams", "read_percent", "block_bytes", "block_bytes_max"}
FIRST |= {"queue_depth", "queues"}
"""Fields of a load in the first shipped results."""

# Fields of a workload, a step or a phase that were added after the first shipped results, with
# the values that have no effect. Every added field of a step or phase belongs here, so that
# earlier runs keep their fingerprint.
LATER: dict[str, Any] = {
    "bytes": None,
    "columns": None,
    "handle_by": None,
    "once": False,
    "rate_of": None,
    "rate_percent": None,
    "spare_percent": None,
    "together": False,
    "unknown": [],
} | {name: field.default for name, field in LoadFields.model_fields.items() if name not in FIRST}


def how(test: Test) -> str:
    """Fingerprint of everything that must be equal for two runs of a test to be compared."""
    fields = {"kind", "prepare", "phases", "metric_window_s", "metric_queue_depths"}
    ways = json.dumps(_without_unused(test.model_dump(mode="json", include=fields)), sort_keys=True)
    return hashlib.sha256(ways.encode()).hexdigest()[:16]


def run_differently(tests: Iterable[Test]) -> bool:
    """True if runs of one test differ in preparation, load or window. A real drive's shorter
    rests are not a difference.
    """
    return len({how(test.in_real_time()) for test in tests}) > 1


def _without_unused(fields: Any) -> Any:
    """Removes later fields that are not used."""
    if isinstance(fields, dict):
        return {
            name: _without_unused(field)
            for name, field in fields.items()
            if name not in LATER or field != LATER[name]
        }
    return [_without_unused(item) for item in fields] if isinstance(fields, list) else fields
