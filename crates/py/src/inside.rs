//! Events inside a drive during a run, activity by interval, and superblocks at the end.

use drivebay_drive::{Event, EventKind, State, SuperblockState, Trigger};
use drivebay_run::{Inside as Kept, Reading};
use drivebay_units::Nanos;
use pyo3::prelude::*;

use crate::columns::{Column, Columns};

/// Name and accessor of a counter.
type Counted = (&'static str, fn(&Reading) -> u64);

class! {
    /// Events and activity inside the drive during a run.
    ///
    /// Columns of events have shape (events,), in the order of their begin; columns of intervals
    /// have shape (intervals,), columns of superblocks (superblocks,).
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    Inside(py: Python<'_>, kept: &Kept) {
        let (events, flash) = (&kept.events.events, &kept.events.flash);
        let blocks = &kept.events.superblocks;
        let since = |at: Nanos| at.0 as i64 - kept.start.0 as i64;
        let of_event = |field: fn(&Event) -> u32| Column::new(py, events.iter().map(field));
        let of_block = |field: fn(&SuperblockState) -> u32| Column::new(py, blocks.iter().map(field));
        let of_reading = |field: fn(&Reading) -> u64| Column::new(py, kept.readings.iter().map(field));
        let row_by_row = |first: usize, count: usize| {
            let rows = 0..kept.intervals;
            let columns: Vec<Vec<u64>> = (first..first + count)
                .map(|i| flash.busy.of(i, kept.intervals).collect())
                .collect();
            let columns = &columns;
            Column::new(py, rows.flat_map(|row| (0..count).map(move |i| columns[i][row])))
        };
        let counted: [Counted; 12] = [
            ("host_pages", |reading| reading.counters.host_pages),
            ("placed_pages", |reading| reading.counters.placed_pages),
            ("copied_pages", |reading| reading.counters.copied_pages),
            ("slc_pages", |reading| reading.counters.slc_pages),
            ("erases", |reading| reading.counters.erases),
            ("page_reads", |reading| reading.counters.page_reads),
            ("flash_core_busy_ns", |reading| reading.counters.core_busy_ns),
            ("map_look_ups", |reading| reading.counters.map.look_ups),
            ("map_sram_hits", |reading| reading.counters.map.sram_hits),
            ("map_host_hits", |reading| reading.counters.map.host_hits),
            ("map_loads", |reading| reading.counters.map.loads),
            ("map_write_backs", |reading| reading.counters.map.write_backs),
        ];
        let dies = flash.dies;
    }
    /// Names of the codes in `kind`, `trigger` and `superblock_state`.
    kinds: Vec<&'static str> = EventKind::ALL.map(EventKind::name).to_vec(),
    triggers: Vec<&'static str> = Trigger::ALL.map(Trigger::name).to_vec(),
    states: Vec<&'static str> = State::ALL.map(State::name).to_vec(),
    /// Kind of each event.
    kind: Column<u8> = Column::new(py, events.iter().map(|event| event.kind as u8)),
    /// Trigger of a victim's collection; 255 for other events.
    trigger: Column<u8> =
        Column::new( py, events.iter().map(|event| event.trigger.map_or(255, |p| p as u8)), ),
    /// Begin, from the start of the run; negative if the drive worked in the idle time before.
    begin_ns: Column<i64> = Column::new(py, events.iter().map(|event| since(event.begin))),
    /// End, from the start of the run; the largest value if the run ended before.
    end_ns: Column<i64> =
        Column::new(py, events.iter().map(|event| event.end.map_or(i64::MAX, since))),
    /// Number of the superblock.
    superblock: Column<u32> = of_event(|event| event.superblock),
    /// Valid 4 KiB pages in the superblock.
    valid_pages: Column<u32> = of_event(|event| event.valid_pages),
    /// 4 KiB pages copied out of the superblock.
    copied_pages: Column<u32> = of_event(|event| event.copied_pages),
    /// Previous erases of the superblock.
    erases: Column<u32> = of_event(|event| event.erases),
    /// True if the superblock has one bit per cell.
    slc: Column<bool> = Column::new(py, events.iter().map(|event| event.slc)),
    /// Number of events beyond the limit.
    dropped: u64 = kept.events.dropped,
    /// Length of an interval; the last one ends with the run.
    interval_ns: u64 = kept.interval.0,
    /// Length of the run.
    duration_ns: u64 = kept.end.since(kept.start).0,
    /// Number of dies; `die_read_ns` and the other columns of dies have one column per die.
    dies: usize = dies,
    /// Number of channels; `channel_ns` has one column per channel.
    channels: usize = flash.channels,
    /// Sum of the times that requests were outstanding.
    outstanding_ns: Column<u64> = Column::new(py, kept.outstanding.of(0, kept.intervals)),
    /// Time that each die was reading, shape (intervals * dies,).
    die_read_ns: Column<u64> = row_by_row(0, dies),
    /// Time that each die was programming.
    die_program_ns: Column<u64> = row_by_row(dies, dies),
    /// Time that each die was erasing.
    die_erase_ns: Column<u64> = row_by_row(2 * dies, dies),
    /// Time that each channel transferred data, shape (intervals * channels,).
    channel_ns: Column<u64> = row_by_row(3 * dies, flash.channels),
    /// Counters since the drive was made, by name; shape (intervals + 1,), like the columns below:
    /// at the start, and at the end of each interval.
    counted: Columns = Columns::new(py, counted.map(|(name, field)| (name, of_reading(field))))?,
    /// 4 KiB pages that were free.
    free_pages: Column<u64> = of_reading(|reading| reading.free_pages),
    /// 4 KiB pages of data that the SLC cache could hold at that time.
    cache_room_pages: Column<u64> = of_reading(|reading| reading.cache_pages.0),
    /// 4 KiB pages of data that the SLC cache held.
    cache_held_pages: Column<u64> = of_reading(|reading| reading.cache_pages.1),
    /// State of each superblock at the end.
    superblock_state: Column<u8> = Column::new(py, blocks.iter().map(|b| b.state as u8)),
    /// Valid 4 KiB pages in each superblock.
    superblock_valid_pages: Column<u32> = of_block(|block| block.valid_pages),
    /// Erases of each superblock.
    superblock_erases: Column<u32> = of_block(|block| block.erases),
    /// Erases of each superblock after use with one bit per cell.
    superblock_slc_erases: Column<u32> = of_block(|block| block.slc_erases),
}
