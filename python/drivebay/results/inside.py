"""What happened inside a virtual drive during a run, as tables: events, activity, superblocks.

The tables have their schemas here; `targets.virtual.inside` makes them of what the core keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

EVENTS_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("trigger", pa.string()),
        ("begin_s", pa.float64()),
        ("end_s", pa.float64()),
        ("superblock", pa.int32()),
        ("valid_pages", pa.int32()),
        ("copied_pages", pa.int32()),
        ("erases", pa.int32()),
        ("slc", pa.bool_()),
    ]
)
COUNTED = (
    "host_pages",
    "placed_pages",
    "copied_pages",
    "slc_pages",
    "erases",
    "page_reads",
    "map_look_ups",
    "map_sram_hits",
    "map_host_hits",
    "map_loads",
    "map_write_backs",
)
PAGES = ("free_pages", "cache_room_pages", "cache_held_pages")
PARTS = ("die_read", "die_program", "die_erase", "channel")
ACTIVITY_SCHEMA = pa.schema(
    [
        ("time_s", pa.float64()),
        ("queue_depth", pa.float64()),
        ("flash_core", pa.float64()),
        *((part, pa.list_(pa.float32())) for part in PARTS),
        *((name, pa.int64()) for name in (*COUNTED, *PAGES)),
    ]
)
SUPERBLOCKS_SCHEMA = pa.schema(
    [
        ("superblock", pa.int32()),
        ("state", pa.string()),
        ("valid_pages", pa.int32()),
        ("erases", pa.int32()),
        ("slc_erases", pa.int32()),
    ]
)


SCHEMAS = {"events": EVENTS_SCHEMA, "activity": ACTIVITY_SCHEMA, "superblocks": SUPERBLOCKS_SCHEMA}
"""By the names of the files in a result, and of `Inside`'s attributes."""


@dataclass(frozen=True)
class Inside:
    """The tables, each with its schema above, and how many events were not kept.

    Attributes
    ----------
    events
        A row for each, in the order in which they began. `kind`: "collection" (garbage collection
        emptied a superblock), "fold" (folding of the SLC cache did), "erase", "open" (a write
        stream began to fill it). `trigger` of a victim: what began to empty it, pacing "behind"
        commands, a write that waits for room in the "foreground", or "idle" time. `begin_s`,
        `end_s`: seconds from the start of the run; below 0 for what was done in the idle time
        before, null for a victim that was not yet empty. `valid_pages`: 4 KiB pages that the
        superblock held before; `copied_pages`: out of it. `erases`: times that it had been erased,
        with this one. `slc`: whether it had one bit per cell.
    activity
        A row for each interval. `time_s`: its end. `queue_depth`: mean of the requests outstanding.
        `flash_core`, and of each die and channel `die_read`, `die_program`, `die_erase` and
        `channel`: shares of the interval. Programs and erases count for when they run by what was
        known as they began; reads that suspend them move them on, so that shares of a die may be
        above 1 together in short intervals. Pages (4 KiB), flash pages read, erases (superblocks)
        and translation pages of the map cache (`map_`) are those of the interval; `free_pages`, and
        what the SLC cache can hold (`cache_room_pages`) and holds (`cache_held_pages`), are of its
        end.
    superblocks
        A row for each at the end of the run: its wear (`erases`; `slc_erases` of them followed use
        with one bit per cell), what it is doing (`state`), and how much data is in it.
    dropped
        Events beyond the limit, which were counted and not kept.
    """

    events: pa.Table
    activity: pa.Table
    superblocks: pa.Table
    dropped: int

    def busy(self, part: str) -> npt.NDArray[np.float32]:
        """A part's shares by interval: shape (intervals, dies) or (intervals, channels).

        Parameters
        ----------
        part
            "die_read", "die_program", "die_erase" or "channel".
        """
        column = self.activity[part].combine_chunks()
        shares: npt.NDArray[np.float32] = column.flatten().to_numpy()
        return shares.reshape(len(column), -1)
