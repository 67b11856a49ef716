//! Data of the drive's sectors, in a sparse file (`file.rs`) or in memory (`memory.rs`), optionally
//! on top of an initial image (`image.rs`).
//!
//! If power cuts are allowed, the undo log (`undo_log.rs`) keeps the data that is needed to undo
//! writes that are not durable yet; snapshots (`snapshot.rs`) keep the data that writes replace.

mod extent;
mod file;
mod image;
mod memory;
mod snapshot;
mod sync;
mod undo_log;

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;

use drivebay_drive::StreamPage;
use drivebay_units::{Rng, SECTOR_BYTES, refuse_if};
use serde::Deserialize;

use crate::error::ServeError;
use crate::memory_limit::MemoryLimit;
use crate::request::{Op, Request, Status};
use crate::waker::Waker;
use file::{DataFile, check_room};
use memory::{Limit, Memory};
use snapshot::{PIECE_PAGES, Run, Snapshot};
use undo_log::{PAGE_SECTORS, TRIM_MAX, UndoLog};

pub use extent::Extent;
pub(crate) use image::Image;
pub(crate) use sync::SyncId;
pub use undo_log::PowerCutLoss;

/// Effect of a flush or FUA on the file of `--data`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostDurability {
    /// Calls fdatasync: data that the drive has confirmed survives a crash of the host.
    #[default]
    Flush,
    /// Nothing: the data survives the end of the server, but not a crash of the host, and costs no
    /// time.
    None,
}

/// Bytes of one step of [`Store::fill`].
const FILL_BYTES: usize = 1 << 20;

enum Medium {
    File(DataFile),
    Memory(Memory),
}

/// Data of the drive's sectors.
pub struct Store {
    medium: Medium,
    sectors: u64,
    durability: HostDurability,
    limit: MemoryLimit,
    /// Undo log, if power cuts are allowed.
    undo: Option<UndoLog>,
    /// Snapshots, oldest first.
    snapshots: Vec<Snapshot>,
}

impl Store {
    /// Creates a store in memory, within a limit that others may share.
    pub fn memory(sectors: u64, limit: &MemoryLimit) -> Store {
        let medium = Medium::Memory(Memory::new(sectors, limit.clone()));
        Store::new(medium, sectors, HostDurability::None, limit)
    }

    /// Like [`Store::memory`], on top of an image, which is not written to.
    pub(crate) fn over(
        image: Image,
        sectors: u64,
        limit: &MemoryLimit,
    ) -> Result<Store, ServeError> {
        let memory = Memory::over(image, sectors, limit.clone())?;
        Ok(Store::new(Medium::Memory(memory), sectors, HostDurability::None, limit))
    }

    /// Opens the store in the file at `path`, which is created if it does not exist; locked until
    /// dropped. `waker` is called when a sync has completed.
    pub fn open(
        path: &Path,
        sectors: u64,
        durability: HostDurability,
        waker: Waker,
        limit: &MemoryLimit,
    ) -> Result<Store, ServeError> {
        let medium = Medium::File(DataFile::open(path, sectors, waker)?);
        Ok(Store::new(medium, sectors, durability, limit))
    }

    fn new(medium: Medium, sectors: u64, durability: HostDurability, limit: &MemoryLimit) -> Store {
        let limit = limit.clone();
        Store { medium, sectors, durability, limit, undo: None, snapshots: Vec::new() }
    }

    /// Memory limit of the drive and its sessions.
    pub(crate) fn memory_limit(&self) -> &MemoryLimit {
        &self.limit
    }

    /// True if a flush writes data to the host's disk.
    pub fn syncs(&self) -> bool {
        self.memory_of().is_none() && self.durability == HostDurability::Flush
    }

    fn memory_of(&self) -> Option<&Memory> {
        match &self.medium {
            Medium::Memory(memory) => Some(memory),
            Medium::File(_) => None,
        }
    }

    /// Sectors of the drive.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// True if zeros need not be written.
    pub fn zeroes_fast(&self) -> bool {
        match &self.medium {
            Medium::File(file) => file.holes,
            Medium::Memory(_) => true,
        }
    }

    /// Reads whole sectors into `into`.
    pub fn read(&self, lba: u64, into: &mut [u8]) -> io::Result<()> {
        match &self.medium {
            Medium::File(file) => file.read(lba, into),
            Medium::Memory(memory) => memory.read(lba, into),
        }
    }

    /// Reads whole sectors and appends them to `out`, which is unchanged if the read fails.
    pub fn append(&self, lba: u64, sectors: u32, out: &mut Vec<u8>) -> io::Result<()> {
        let bytes = (u64::from(sectors) * SECTOR_BYTES) as usize;
        let before = out.len();
        let appended = match &self.medium {
            Medium::File(file) => {
                out.resize(before + bytes, 0);
                file.read(lba, &mut out[before..])
            }
            Medium::Memory(memory) => memory.append(lba, bytes, out),
        };
        appended.inspect_err(|_| out.truncate(before))
    }

    /// Slices of memory with the sectors, as [`Memory::pieces`]; none for data in a file.
    pub(crate) fn pieces<'a>(&'a self, lba: u64, sectors: u32, into: &mut [IoSlice<'a>]) -> usize {
        let bytes = (u64::from(sectors) * SECTOR_BYTES) as usize;
        self.memory_of().map_or(0, |memory| memory.pieces(lba, bytes, into))
    }

    /// Memory for the data of a write, as [`Memory::place`]; `None` for a file, and if a power cut
    /// may undo the write.
    pub(crate) fn place(&mut self, lba: u64, sectors: u32) -> Option<&mut [u8]> {
        let end = lba.checked_add(u64::from(sectors)).filter(|&end| end <= self.sectors);
        end.filter(|_| self.undo.is_none() && self.memory_of().is_some())?;
        self.keep_for_snapshots(lba, u64::from(sectors), Limit::Holds).ok()?;
        match &mut self.medium {
            Medium::Memory(memory) => memory.place(lba, sectors as usize * SECTOR_BYTES as usize),
            Medium::File(_) => None,
        }
    }

    /// Data and holes from `lba` on, over at most `sectors` sectors and `most` extents.
    pub fn extents(&self, lba: u64, sectors: u64, most: usize) -> io::Result<Vec<Extent>> {
        match &self.medium {
            Medium::File(file) => file.extents(lba, sectors, most),
            Medium::Memory(memory) => Ok(memory.extents(lba, sectors, most)),
        }
    }

    /// Applies the changes of `request`; returns the sync that its completion must wait for.
    /// `number` grows from request to request; `data` is the data of a write, empty if it was
    /// placed.
    pub(crate) fn apply(
        &mut self,
        number: u64,
        request: &Request,
        data: &[u8],
    ) -> Result<Option<SyncId>, Status> {
        let Request { op, lba, sectors, .. } = *request;
        let end = lba.checked_add(u64::from(sectors));
        let is_ranged = !matches!(op, Op::Flush | Op::HandleUpdate);
        let is_outside = sectors == 0 || end.is_none_or(|end| end > self.sectors);
        refuse_if(is_ranged && is_outside, Status::OutOfRange)?;
        let changed = match op {
            Op::Read | Op::Flush | Op::HandleUpdate | Op::Zone(_) => Ok(()),
            // The data was placed already.
            Op::Write { .. } if data.is_empty() => Ok(()),
            Op::Write { .. } | Op::Append { .. } => {
                debug_assert_eq!(data.len() as u64, u64::from(sectors) * SECTOR_BYTES);
                self.write(number, lba, data)
            }
            Op::Trim { .. } => self.zero(number, lba, u64::from(sectors), false),
            Op::WriteZeroes { allocated, .. } => {
                self.zero(number, lba, u64::from(sectors), allocated)
            }
        };
        changed.map_err(|why| match why.kind() {
            io::ErrorKind::StorageFull => Status::NoSpace,
            _ => Status::Internal,
        })?;
        let is_durable = matches!(
            op,
            Op::Flush
                | Op::Write { fua: true }
                | Op::Append { fua: true }
                | Op::WriteZeroes { fua: true, .. }
        );
        Ok(match &mut self.medium {
            Medium::File(file) if is_durable && self.durability == HostDurability::Flush => {
                Some(file.syncer.request())
            }
            _ => None,
        })
    }

    fn write(&mut self, number: u64, lba: u64, data: &[u8]) -> io::Result<()> {
        self.keep(number, lba, data.len() as u64 / SECTOR_BYTES)?;
        self.put(lba, data, Limit::Holds)
    }

    fn put(&mut self, lba: u64, data: &[u8], limit: Limit) -> io::Result<()> {
        self.keep_for_snapshots(lba, data.len() as u64 / SECTOR_BYTES, limit)?;
        match &mut self.medium {
            Medium::File(file) => file.write(lba, data),
            Medium::Memory(memory) => memory.write(lba, data, limit),
        }
    }

    /// Makes sectors read as zeros; `allocated` keeps their space. `number` as for
    /// [`Store::apply`].
    pub(crate) fn zero(
        &mut self,
        number: u64,
        lba: u64,
        sectors: u64,
        allocated: bool,
    ) -> io::Result<()> {
        if sectors <= TRIM_MAX {
            self.keep(number, lba, sectors)?;
        } else if let Some(undo) = &mut self.undo {
            undo.flush_range(number, lba..lba + sectors);
        }
        let whole =
            lba.next_multiple_of(PAGE_SECTORS)..(lba + sectors) / PAGE_SECTORS * PAGE_SECTORS;
        match (&mut self.medium, self.snapshots.last_mut()) {
            (Medium::Memory(memory), Some(newest)) if !allocated && !whole.is_empty() => {
                let (mut page, end) = (whole.start / PAGE_SECTORS, whole.end / PAGE_SECTORS);
                while page < end {
                    let next = memory.empty_until(page).min(end);
                    newest.keep_zeros(page..next);
                    page = next;
                    if page < end && !newest.is_kept(page) {
                        memory.move_page(page, newest.table());
                        newest.mark(page);
                    }
                    page += 1;
                }
                self.keep_for_snapshots(lba, whole.start - lba, Limit::Holds)?;
                self.keep_for_snapshots(whole.end, lba + sectors - whole.end, Limit::Holds)?;
            }
            _ => self.keep_for_snapshots(lba, sectors, Limit::Holds)?,
        }
        match &mut self.medium {
            Medium::File(file) => file.zero(lba, sectors, allocated),
            Medium::Memory(memory) => memory.zero(lba, sectors, allocated),
        }
    }

    /// Makes sectors read as zeros permanently, even across a power cut.
    pub(crate) fn discard(&mut self, number: u64, lba: u64, sectors: u64) -> io::Result<()> {
        self.zero(number, lba, sectors, false)?;
        if let Some(undo) = &mut self.undo {
            undo.flush_range(number, lba..lba + sectors);
        }
        Ok(())
    }

    /// Overwrites the sectors that hold data with repetitions of this pattern permanently, even
    /// across a power cut.
    pub(crate) fn fill(&mut self, number: u64, pattern: u32) -> io::Result<()> {
        if let Some(undo) = &mut self.undo {
            undo.flush_range(number, 0..self.sectors);
        }
        let piece = pattern.to_le_bytes().repeat(FILL_BYTES / size_of::<u32>());
        for (lba, sectors) in self.data_pieces(FILL_BYTES as u64 / SECTOR_BYTES)? {
            self.put(lba, &piece[..(sectors * SECTOR_BYTES) as usize], Limit::Holds)?;
        }
        Ok(())
    }

    /// All data in pieces of at most this number of sectors: first sector, and number of sectors.
    ///
    /// # Errors
    /// As [`Store::extents`].
    pub(crate) fn data_pieces(
        &self,
        most: u64,
    ) -> io::Result<impl Iterator<Item = (u64, u64)> + use<>> {
        let mut end = 0;
        let ranges = self.extents(0, self.sectors, usize::MAX)?.into_iter().map(move |extent| {
            end += extent.sectors;
            (end - extent.sectors..end, extent.data)
        });
        let data = ranges.filter(|(_, is_data)| *is_data);
        Ok(data.flat_map(move |(range, _)| {
            let end = range.end;
            range.step_by(most as usize).map(move |lba| (lba, most.min(end - lba)))
        }))
    }

    /// Result of a sync that [`Store::apply`] requested, if it has completed.
    pub(crate) fn sync_result(&self, id: SyncId) -> Option<Result<(), ()>> {
        match &self.medium {
            Medium::File(file) => file.syncer.result(id),
            Medium::Memory(_) => Some(Ok(())),
        }
    }

    // --- power cuts ---

    /// Makes later power cuts lose data that is not durable, at most `bytes_max`.
    pub(crate) fn keep_undo(&mut self, loss: PowerCutLoss, bytes_max: u64) {
        self.undo = Some(UndoLog::new(loss, bytes_max));
    }

    /// Adds the data that write `number` is about to replace to the undo log.
    fn keep(&mut self, number: u64, lba: u64, sectors: u64) -> io::Result<()> {
        if self.undo.is_none() {
            return Ok(());
        }
        let mut old = vec![0; (sectors * SECTOR_BYTES) as usize];
        self.read(lba, &mut old)?;
        let undo = self.undo.as_mut().expect("looked at above");
        undo.record(number, lba, &old);
        Ok(())
    }

    /// Records that the model has served request `number`; `place` returns the position of a page.
    pub(crate) fn placed(&mut self, number: u64, place: impl Fn(u64) -> Option<StreamPage>) {
        if let Some(undo) = &mut self.undo {
            undo.placed(number, place);
        }
    }

    /// Records that request `number` has completed: data that it made durable can no longer be
    /// lost.
    pub(crate) fn completed(&mut self, number: u64, request: &Request) {
        let Some(undo) = &mut self.undo else { return };
        match request.op {
            Op::Flush
            | Op::Trim { fua: true }
            | Op::WriteZeroes { fua: true, .. }
            | Op::Append { fua: true } => undo.flush(number),
            Op::Write { fua: true } => {
                let end = request.lba + u64::from(request.sectors);
                undo.flush_range(number, request.lba..end);
            }
            _ => {}
        }
    }

    /// True if [`Store::prune_undo`] is worth its time.
    pub(crate) fn undo_is_long(&self) -> bool {
        self.undo.as_ref().is_some_and(UndoLog::is_long)
    }

    /// Drops entries whose data has been programmed.
    pub(crate) fn prune_undo(&mut self, programmed: impl Fn(StreamPage) -> bool) {
        if let Some(undo) = &mut self.undo {
            undo.prune(programmed);
        }
    }

    /// Most bytes that a power cut would lose.
    pub(crate) fn losable_bytes(&self) -> u64 {
        self.undo.as_ref().map_or(0, UndoLog::bytes)
    }

    /// Undoes the changes that are not durable; returns their first sectors and numbers of sectors.
    /// `block_sectors` returns the size of the host's block at a sector.
    pub(crate) fn power_cut(
        &mut self,
        programmed: impl Fn(StreamPage) -> bool,
        block_sectors: impl Fn(u64) -> u64,
        rng: &mut Rng,
    ) -> io::Result<Vec<(u64, u64)>> {
        let Some(undo) = &mut self.undo else { return Ok(Vec::new()) };
        let mut lost = Vec::new();
        for (lba, old) in undo.roll_back(programmed, block_sectors, rng) {
            lost.push((lba, old.len() as u64 / SECTOR_BYTES));
            self.put(lba, &old, Limit::MayBeExceeded)?;
        }
        Ok(lost)
    }

    // --- snapshots ---

    /// Takes a snapshot; the oldest is number 0.
    pub(crate) fn take_snapshot(&mut self) -> io::Result<()> {
        self.snapshots.push(self.snapshot_of_now()?);
        Ok(())
    }

    fn snapshot_of_now(&self) -> io::Result<Snapshot> {
        let (sectors, undo) = (self.sectors, self.undo.clone());
        match &self.medium {
            Medium::File(file) => Snapshot::in_file(sectors, &file.folder, undo),
            Medium::Memory(memory) => Ok(Snapshot::in_memory(sectors, memory.empty_table(), undo)),
        }
    }

    /// Drops a snapshot; pages that older ones need move to the next older one.
    pub(crate) fn drop_snapshot(&mut self, number: usize) -> io::Result<()> {
        let mut page_bytes = [0; (PAGE_SECTORS * SECTOR_BYTES) as usize];
        if let (older, [dropped, ..]) = self.snapshots.split_at_mut(number)
            && let Some(older) = older.last_mut()
        {
            for page in dropped.pages().filter(|&page| !older.is_kept(page)).collect::<Vec<_>>() {
                if let Medium::Memory(_) = self.medium {
                    Memory::hand_on(page, dropped.table(), older.table());
                    older.mark(page);
                } else {
                    dropped.read(None, page, &mut page_bytes)?;
                    older.keep(page, &page_bytes)?;
                }
            }
        }
        let dropped = self.snapshots.remove(number);
        self.free(dropped);
        Ok(())
    }

    fn free(&mut self, snapshot: Snapshot) {
        if let (Medium::Memory(memory), Some(table)) = (&mut self.medium, snapshot.into_table()) {
            memory.free_table(table);
        }
    }

    /// Restores the data to a snapshot.
    pub(crate) fn restore_snapshot(&mut self, number: usize) -> io::Result<()> {
        let is_newest = number + 1 == self.snapshots.len();
        if let (Medium::Memory(memory), true) = (&mut self.medium, is_newest) {
            let newest = &mut self.snapshots[number];
            for page in newest.pages().collect::<Vec<_>>() {
                memory.take_back(page, newest.table());
            }
        } else {
            self.copy_back(number, is_newest)?;
        }
        self.undo = self.snapshots[number].undo.clone();
        if is_newest {
            let fresh = self.snapshot_of_now()?;
            let used = std::mem::replace(&mut self.snapshots[number], fresh);
            self.free(used);
        }
        Ok(())
    }

    fn copy_back(&mut self, number: usize, is_newest: bool) -> io::Result<()> {
        let mut piece = Vec::new();
        for run in snapshot::runs(&self.snapshots[number..]) {
            let (lba, sectors) = self.sectors_of(&run);
            let is_zeros = self.read_run(number, &run, &mut piece)?;
            // The newest snapshot has the replaced data already, or does not need it any more.
            if !is_newest {
                self.keep_for_snapshots(lba, sectors, Limit::MayBeExceeded)?;
            }
            match &mut self.medium {
                Medium::File(file) if is_zeros => file.zero(lba, sectors, false)?,
                Medium::File(file) => file.write(lba, &piece)?,
                Medium::Memory(memory) if is_zeros => memory.zero(lba, sectors, false)?,
                Medium::Memory(memory) => memory.write(lba, &piece, Limit::MayBeExceeded)?,
            }
        }
        Ok(())
    }

    /// Writes the data of a snapshot to a new file.
    pub(crate) fn copy_snapshot(&self, number: usize, out: &File) -> io::Result<()> {
        out.set_len(self.sectors * SECTOR_BYTES)?;
        let mut piece = Vec::new();
        let is_shared = matches!(&self.medium, Medium::File(file) if file.reflink(out));
        if !is_shared {
            let pieces = || self.data_pieces(PIECE_PAGES * PAGE_SECTORS);
            check_room(out, pieces()?.map(|(_, sectors)| sectors).sum::<u64>() * SECTOR_BYTES)?;
            for (lba, sectors) in pieces()? {
                piece.resize((sectors * SECTOR_BYTES) as usize, 0);
                self.read(lba, &mut piece)?;
                out.write_all_at(&piece, lba * SECTOR_BYTES)?;
            }
        }
        for run in snapshot::runs(&self.snapshots[number..]) {
            self.read_run(number, &run, &mut piece)?;
            out.write_all_at(&piece, self.sectors_of(&run).0 * SECTOR_BYTES)?;
        }
        Ok(())
    }

    /// First sector and number of sectors of a run of pages.
    fn sectors_of(&self, run: &Run) -> (u64, u64) {
        let lba = run.page * PAGE_SECTORS;
        (lba, (u64::from(run.pages) * PAGE_SECTORS).min(self.sectors - lba))
    }

    /// Reads a run from snapshot `number`; returns true if it is all zeros.
    fn read_run(&self, number: usize, run: &Run, piece: &mut Vec<u8>) -> io::Result<bool> {
        piece.resize((self.sectors_of(run).1 * SECTOR_BYTES) as usize, 0);
        self.snapshots[number + run.source as usize].read(self.memory_of(), run.page, piece)?;
        Ok(piece.iter().all(|&byte| byte == 0))
    }

    /// Copies the content of sectors that are about to change to the newest snapshot, unless it has
    /// it already.
    fn keep_for_snapshots(&mut self, lba: u64, sectors: u64, limit: Limit) -> io::Result<()> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        if sectors <= PIECE_PAGES * PAGE_SECTORS {
            return self.keep_piece(lba, sectors, limit);
        }
        let (mut lba, end) = (lba, lba + sectors);
        while lba < end {
            for extent in self.extents(lba, end - lba, 1024)? {
                let until = lba + extent.sectors;
                // A page at the edge of a hole may hold data.
                let hole = lba.next_multiple_of(PAGE_SECTORS)..until / PAGE_SECTORS * PAGE_SECTORS;
                if extent.data || hole.is_empty() {
                    while lba < until {
                        let sectors = (PIECE_PAGES * PAGE_SECTORS).min(until - lba);
                        self.keep_piece(lba, sectors, limit)?;
                        lba += sectors;
                    }
                } else {
                    self.keep_piece(lba, hole.start - lba, limit)?;
                    self.keep_piece(hole.end, until - hole.end, limit)?;
                    let newest = self.snapshots.last_mut().expect("looked at above");
                    newest.keep_zeros(hole.start / PAGE_SECTORS..hole.end / PAGE_SECTORS);
                }
                lba = until;
            }
        }
        Ok(())
    }

    fn keep_piece(&mut self, lba: u64, sectors: u64, limit: Limit) -> io::Result<()> {
        let Some(mut newest) = self.snapshots.pop() else { return Ok(()) };
        let kept = self.keep_in(&mut newest, lba, sectors, limit);
        self.snapshots.push(newest);
        kept
    }

    fn keep_in(
        &mut self,
        newest: &mut Snapshot,
        lba: u64,
        sectors: u64,
        limit: Limit,
    ) -> io::Result<()> {
        let (mut page, end) = (lba / PAGE_SECTORS, (lba + sectors).div_ceil(PAGE_SECTORS));
        while page < end {
            let until = (page..end).find(|&page| newest.is_kept(page)).unwrap_or(end);
            if page < until {
                let (first, last) = (page * PAGE_SECTORS, (until * PAGE_SECTORS).min(self.sectors));
                if let Medium::Memory(memory) = &mut self.medium {
                    for page in page..until {
                        memory.copy_page(page, newest.table(), limit)?;
                        newest.mark(page);
                    }
                } else {
                    let mut old = vec![0; ((last - first) * SECTOR_BYTES) as usize];
                    self.read(first, &mut old)?;
                    newest.keep(page, &old)?;
                }
            }
            page = until + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "../../tests/unit/store.rs"]
mod tests;
