"""Tables of the events inside a drive that the core records on request."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from drivebay import _core
from drivebay.results import inside as tables
from drivebay.results.inside import Inside

__all__ = ["EVENTS_MAX", "Inside", "inside"]

# Default limit of recorded events: 56 MB in the core.
EVENTS_MAX = 1_000_000


def inside(kept: _core.Inside) -> Inside:
    """Converts the core's records to tables."""
    unfinished = kept.end_ns == np.iinfo(np.int64).max
    events = {
        "kind": _named(kept.kind, kept.kinds),
        "trigger": _named(kept.trigger, kept.triggers),
        "begin_s": kept.begin_ns / 1e9,
        "end_s": pa.array(kept.end_ns / 1e9, mask=unfinished),
        **{name: getattr(kept, name) for name in tables.EVENTS_SCHEMA.names[4:]},
    }
    count = len(kept.outstanding_ns)
    ends = np.minimum(np.arange(1, count + 1) * (kept.interval_ns / 1e9), kept.duration_ns / 1e9)
    lengths_ns = np.diff(ends, prepend=0.0) * 1e9
    counted = {name: np.diff(kept.counted[name].view(np.int64)) for name in kept.counted}
    activity = {
        "time_s": ends,
        "queue_depth": kept.outstanding_ns / lengths_ns,
        "flash_core": counted["flash_core_busy_ns"] / lengths_ns,
        **{part: _shares(getattr(kept, f"{part}_ns"), lengths_ns) for part in tables.PARTS},
        **{name: counted[name] for name in tables.COUNTED},
        **{name: getattr(kept, name)[1:].view(np.int64) for name in tables.PAGES},
    }
    superblocks = {
        "superblock": np.arange(len(kept.superblock_erases)),
        "state": _named(kept.superblock_state, kept.states),
        "valid_pages": kept.superblock_valid_pages,
        "erases": kept.superblock_erases,
        "slc_erases": kept.superblock_slc_erases,
    }
    return Inside(
        events=_table(events, tables.EVENTS_SCHEMA),
        activity=_table(activity, tables.ACTIVITY_SCHEMA),
        superblocks=_table(superblocks, tables.SUPERBLOCKS_SCHEMA),
        dropped=kept.dropped,
    )


def _table(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    return pa.table(columns).cast(schema)


def _named(codes: npt.NDArray[np.uint8], names: list[str]) -> pa.DictionaryArray:
    """Replaces codes by their names; a code without a name is null."""
    codes = codes.astype(np.int8)
    known = pa.array(codes, mask=(codes < 0) | (codes >= len(names)))
    return pa.DictionaryArray.from_arrays(known, names)


def _shares(busy_ns: npt.NDArray[np.uint64], lengths_ns: npt.NDArray[np.float64]) -> pa.ListArray:
    """Busy shares of the things in each interval, a list for each interval."""
    rows = (busy_ns.reshape(len(lengths_ns), -1) / lengths_ns[:, None]).astype(np.float32)
    starts = np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1]
    return pa.ListArray.from_arrays(starts, rows.ravel())
