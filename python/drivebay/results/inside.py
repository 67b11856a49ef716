"""Internal events of a virtual drive during a run, as tables: events, activity, superblocks.

The tables have their schemas here; `targets.virtual.inside` fills them from the core's records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from drivebay.results.schemas import schema_of

EVENTS_SCHEMA = schema_of(
    "kind trigger begin_s:float64 end_s:float64 superblock:int32 valid_pages:int32 "
    "copied_pages:int32 erases:int32 slc:bool"
)
COUNTED = (
    *("host_pages", "placed_pages", "copied_pages", "slc_pages", "erases", "page_reads"),
    *("map_look_ups", "map_sram_hits", "map_host_hits", "map_loads", "map_write_backs"),
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
SUPERBLOCKS_SCHEMA = schema_of(
    "superblock:int32 state valid_pages:int32 erases:int32 slc_erases:int32"
)
# Schemas by file name in a result without ".parquet", which is also the name of `Inside`'s
# attribute.
SCHEMAS = {"events": EVENTS_SCHEMA, "activity": ACTIVITY_SCHEMA, "superblocks": SUPERBLOCKS_SCHEMA}


@dataclass(frozen=True)
class Inside:
    """The tables, each with its schema above, and the number of events that were not kept.

    Attributes
    ----------
    events
        One row per event, in the order in which they began. `kind`: "collection" (garbage
        collection emptied a superblock), "fold" (folding of the SLC cache emptied one), "erase",
        "open" (a write stream began to fill one). `trigger` of a victim: pacing "behind" commands,
        a write that waits for space in the "foreground", or "idle" time. `begin_s`, `end_s`:
        seconds from the start of the run; negative for the idle time before it, null for a victim
        that was not yet empty. `valid_pages`: 4 KiB pages that the superblock held before;
        `copied_pages`: pages copied out of it. `erases`: its erase count, including this one.
        `slc`: true if it had one bit per cell.
    activity
        One row per interval. `time_s`: its end. `queue_depth`: mean number of outstanding requests.
        `flash_core`, and for each die and channel `die_read`, `die_program`, `die_erase` and
        `channel`: busy shares of the interval. Programs and erases count for the time that was
        planned when they began; reads that suspend them delay them, so the shares of a die may
        exceed 1 together in short intervals. Pages (4 KiB), flash pages read, erases (superblocks)
        and translation pages of the map cache (`map_`) are counted over the interval; `free_pages`,
        and the capacity (`cache_room_pages`) and content (`cache_held_pages`) of the SLC cache, are
        taken at its end.
    superblocks
        One row per superblock at the end of the run: its wear (`erases`; `slc_erases` of them
        followed use with one bit per cell), its present use (`state`), and the amount of data in
        it.
    dropped
        Events beyond the limit, which were counted and not kept.
    """

    events: pa.Table
    activity: pa.Table
    superblocks: pa.Table
    dropped: int

    def busy(self, part: str) -> npt.NDArray[np.float32]:
        """Busy shares of a part by interval: shape (intervals, dies) or (intervals, channels).

        Parameters
        ----------
        part
            "die_read", "die_program", "die_erase" or "channel".
        """
        column = self.activity[part].combine_chunks()
        shares: npt.NDArray[np.float32] = column.flatten().to_numpy()
        return shares.reshape(len(column), -1)
