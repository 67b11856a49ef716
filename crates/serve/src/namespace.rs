//! The namespaces of a drive: parts of its addresses, each of which hosts see as a drive of its own.
//!
//! Namespaces are fixed at the start, one behind the other or where the user puts them, and shared by all
//! controllers. One begins at the same sector for as long as the server runs; its size may change, into
//! what is free behind it. Addresses of no namespace are never written: they are spare to the model.
//! Source: NVM Express base specification 1.4, section 6.1.
//! Left out: Namespace Management and Attachment, so that a host cannot make, delete or detach any.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use drivebay_units::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

/// Sizes and places are whole pages of the drive's map.
const PAGE_BYTES: u64 = 4096;
const PAGE_SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;
/// Namespaces of a drive, at most. guess: as many as data centre drives have, or more.
const NAMESPACES_MAX: usize = 128;

/// A namespace as the user wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceOptions {
    /// Its size, bytes, of which whole pages of 4 KiB count.
    pub bytes: u64,
    /// Where it begins on the drive, bytes, from the next whole page on; behind the one before it if left out.
    pub start_bytes: Option<u64>,
    /// Whether it refuses all that changes its data.
    pub is_read_only: bool,
}

/// Why there are no such namespaces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// It would hold nothing.
    #[error("namespace {0} has less than 4 KiB\nhint: give it a size such as 100GiB")]
    Empty(u32),
    /// There are too many.
    #[error("{0} namespaces are more than {NAMESPACES_MAX}\nhint: serve several drives")]
    TooMany(usize),
    /// It would end behind the drive, or in the next one.
    #[error(
        "namespace {nsid} cannot have {bytes} bytes\nhint: from where it begins {room} are free"
    )]
    NoRoom {
        /// Which.
        nsid: u32,
        /// What was asked for.
        bytes: u64,
        /// Bytes from its start to the next namespace, or to the drive's end.
        room: u64,
    },
    /// It would begin inside another one, or where that begins.
    #[error("namespace {nsid} begins inside namespace {other}\nhint: place it behind: SIZE@START")]
    Overlap {
        /// Which.
        nsid: u32,
        /// The one that is there.
        other: u32,
    },
    /// There is none of this number.
    #[error("there is no namespace {0}\nhint: the drive has 1 to {1}")]
    Unknown(u32, usize),
    /// Data would be lost that must not change.
    #[error(
        "namespace {0} is read-only and cannot become smaller\nhint: serve it without read-only"
    )]
    ReadOnly(u32),
    /// A SATA drive has no namespaces, and no way to tell hosts of a new size.
    #[error(
        "an AHCI drive has one size and no namespaces\nhint: serve it over NBD or NVMe/TCP, or an NVMe drive"
    )]
    Ahci,
}

/// One namespace. What changes is read without a lock.
#[derive(Debug)]
pub struct Namespace {
    first: u64,
    sectors: AtomicU64,
    changes: AtomicU64,
    is_read_only: bool,
}

impl Namespace {
    /// Its first sector on the drive.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Its size at present, sectors of 512 B.
    pub fn sectors(&self) -> u64 {
        self.sectors.load(Ordering::Relaxed)
    }

    /// Its size at present, bytes.
    pub fn bytes(&self) -> u64 {
        self.sectors() * SECTOR_BYTES
    }

    /// Its sectors on the drive.
    pub(crate) fn range(&self) -> Range<u64> {
        self.first..self.first + self.sectors()
    }

    /// Whether it refuses all that changes its data.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// How often its size has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

/// What `status` tells of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceFigures {
    /// Its number, from 1.
    pub nsid: u32,
    /// Where it begins on the drive, bytes.
    pub start_bytes: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// Whether it refuses all that changes its data.
    pub is_read_only: bool,
}

/// All namespaces of a drive, by their numbers from 1 on.
#[derive(Clone, Debug)]
pub struct Namespaces {
    all: Vec<Arc<Namespace>>,
    drive_sectors: u64,
}

impl Namespaces {
    /// One that is the whole drive.
    pub fn whole(sectors: u64, is_read_only: bool) -> Namespaces {
        Namespaces { all: vec![Namespaces::one(0, sectors, is_read_only)], drive_sectors: sectors }
    }

    fn one(first: u64, sectors: u64, is_read_only: bool) -> Arc<Namespace> {
        let (sectors, changes) = (AtomicU64::new(sectors), AtomicU64::new(0));
        Arc::new(Namespace { first, sectors, changes, is_read_only })
    }

    /// Those that the user wants on a drive of `sectors`.
    pub fn new(wanted: &[NamespaceOptions], sectors: u64) -> Result<Namespaces, NamespaceError> {
        if wanted.len() > NAMESPACES_MAX {
            return Err(NamespaceError::TooMany(wanted.len()));
        }
        let mut end = 0;
        let mut all = Vec::new();
        for one in wanted {
            let start = one.start_bytes.map(|bytes| bytes.div_ceil(PAGE_BYTES) * PAGE_SECTORS);
            let first = start.unwrap_or(end);
            let size = one.bytes / PAGE_BYTES * PAGE_SECTORS;
            end = first.saturating_add(size);
            all.push(Namespaces::one(first, size, one.is_read_only));
        }
        let namespaces = Namespaces { all, drive_sectors: sectors };
        for (nsid, one) in (1..).zip(&namespaces.all) {
            if one.sectors() == 0 {
                return Err(NamespaceError::Empty(nsid));
            }
            let inside = |(_, other): &(u32, &Arc<Namespace>)| {
                !Arc::ptr_eq(one, other) && other.range().contains(&one.first)
            };
            if let Some((other, _)) = (1..).zip(&namespaces.all).find(inside) {
                return Err(NamespaceError::Overlap { nsid, other });
            }
        }
        for (nsid, one) in (1..).zip(&namespaces.all) {
            namespaces.check_room(nsid, one.sectors())?;
        }
        Ok(namespaces)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// In the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Namespace>> {
        self.all.iter()
    }

    /// The one of this number.
    pub fn get(&self, nsid: u32) -> Option<&Namespace> {
        Some(self.all.get((nsid as usize).checked_sub(1)?)?)
    }

    fn known(&self, nsid: u32) -> Result<&Namespace, NamespaceError> {
        self.get(nsid).ok_or(NamespaceError::Unknown(nsid, self.count()))
    }

    /// Whether one of them refuses all that changes its data.
    pub(crate) fn any_is_read_only(&self) -> bool {
        self.all.iter().any(|one| one.is_read_only)
    }

    /// `status` tells this of them.
    pub(crate) fn figures(&self) -> Vec<NamespaceFigures> {
        let figures = |(nsid, one): (u32, &Arc<Namespace>)| NamespaceFigures {
            nsid,
            start_bytes: one.first * SECTOR_BYTES,
            bytes: one.bytes(),
            is_read_only: one.is_read_only,
        };
        (1..).zip(&self.all).map(figures).collect()
    }

    fn check_room(&self, nsid: u32, sectors: u64) -> Result<(), NamespaceError> {
        let first = self.known(nsid)?.first;
        let behind = self.all.iter().map(|one| one.first).filter(|&other| other > first);
        let end = behind.fold(self.drive_sectors, u64::min);
        let room = end.saturating_sub(first);
        if sectors > room {
            let (bytes, room) = (sectors * SECTOR_BYTES, room * SECTOR_BYTES);
            return Err(NamespaceError::NoRoom { nsid, bytes, room });
        }
        Ok(())
    }

    /// Gives one another size, bytes, of which whole pages of 4 KiB count; returns the sectors of the drive that are
    /// its own no more.
    pub(crate) fn resize(&self, nsid: u32, bytes: u64) -> Result<Range<u64>, NamespaceError> {
        let one = self.known(nsid)?;
        let (before, sectors) = (one.range(), bytes / PAGE_BYTES * PAGE_SECTORS);
        if sectors == 0 {
            return Err(NamespaceError::Empty(nsid));
        }
        self.check_room(nsid, sectors)?;
        if sectors < one.sectors() && one.is_read_only {
            return Err(NamespaceError::ReadOnly(nsid));
        }
        if sectors != one.sectors() {
            one.sectors.store(sectors, Ordering::Relaxed);
            one.changes.fetch_add(1, Ordering::Relaxed);
        }
        Ok((one.first + sectors).min(before.end)..before.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn of(bytes: u64, start_bytes: Option<u64>) -> NamespaceOptions {
        NamespaceOptions { bytes, start_bytes, is_read_only: false }
    }

    fn drive(wanted: &[NamespaceOptions]) -> Result<Namespaces, NamespaceError> {
        Namespaces::new(wanted, 16 * MIB / SECTOR_BYTES)
    }

    #[test]
    fn they_lie_one_behind_the_other_or_where_the_user_puts_them() {
        let wanted = [of(MIB + 511, None), of(MIB, Some(4 * MIB - 1)), of(MIB, None)];
        let figures = drive(&wanted).expect("room").figures();
        let places: Vec<_> = figures.iter().map(|one| (one.start_bytes, one.bytes)).collect();
        assert_eq!(places, [(0, MIB), (4 * MIB, MIB), (5 * MIB, MIB)]);
    }

    #[test]
    fn none_is_empty_inside_another_or_behind_the_drive() {
        let refused = |wanted: &[NamespaceOptions]| drive(wanted).expect_err("refused");
        assert_eq!(refused(&[of(4095, None)]), NamespaceError::Empty(1));
        let inside = [of(8 * MIB, None), of(MIB, Some(7 * MIB))];
        assert_eq!(refused(&inside), NamespaceError::Overlap { nsid: 2, other: 1 });
        let same = [of(MIB, None), of(MIB, Some(0))];
        assert_eq!(refused(&same), NamespaceError::Overlap { nsid: 1, other: 2 });
        for behind in [of(17 * MIB, None), of(u64::MAX, None), of(MIB, Some(u64::MAX))] {
            assert!(matches!(refused(&[behind]), NamespaceError::NoRoom { nsid: 1, .. }));
        }
        assert_eq!(refused(&[of(MIB, None); 129]), NamespaceError::TooMany(129));
    }

    #[test]
    fn one_grows_into_what_is_free_behind_it_and_gives_back_what_it_loses() {
        let all = drive(&[of(MIB, None), of(MIB, Some(4 * MIB))]).expect("room");
        assert_eq!(all.resize(1, 4 * MIB), Ok(2048..2048));
        assert_eq!(
            all.resize(1, 5 * MIB),
            Err(NamespaceError::NoRoom { nsid: 1, bytes: 5 * MIB, room: 4 * MIB })
        );
        assert_eq!(all.resize(1, 3 * MIB), Ok(6144..8192));
        assert_eq!(all.resize(2, 12 * MIB), Ok(10240..10240));
        assert!(matches!(all.resize(2, 13 * MIB), Err(NamespaceError::NoRoom { .. })));
        assert_eq!(all.resize(3, MIB), Err(NamespaceError::Unknown(3, 2)));
        assert_eq!(all.resize(0, MIB), Err(NamespaceError::Unknown(0, 2)));
        let changes: Vec<u64> = all.iter().map(|one| one.changes()).collect();
        assert_eq!(changes, [2, 1]);
    }
}
