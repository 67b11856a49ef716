//! The port through which garbage collection reaches map, write buffer and dies.
//!
//! [`GcPort`] is what a copy loop needs; [`PacePort`] adds what decides how much is copied. The
//! back end implements both (`firmware/backend/copies.rs`); calls are resolved at compile time.

use std::ops::Range;

use drivebay_units::Nanos;

use crate::events::Trigger;
use crate::io::DeviceError;
use crate::policy_plugin::Pace;
use crate::superblock::{Purpose, Source};

/// Next piece of work on a victim. `reclaimed`: pages that it reclaims, in 1/65536.
#[derive(Clone, Copy)]
pub enum NextStep {
    /// Copy a flash page to a write stream.
    Copy { source: Source, stream: usize, reclaimed: u64 },
    /// Every page has been read: the victim can be retired.
    Retire { reclaimed: u64 },
    /// There is no victim.
    Nothing,
}

/// Space that a step needs before it may begin.
#[derive(Clone, Copy)]
pub enum Need {
    /// A flash page for a copy behind writes.
    Copy,
    /// A flash page for a copy without a superblock of the reserve.
    CopyBesideReserve,
    /// A flash page for a copy in idle time, and the rest of the victim behind writes.
    CopyBesideVictim,
    /// A free superblock beyond the reserve.
    Superblock,
    /// A page at the host's frontier.
    HostPage,
}

/// Work on victims, of the current reclaim group.
pub trait GcPort {
    /// The current reclaim group; 0 on drives with one.
    fn group(&self) -> usize;
    /// Makes a reclaim group the current one.
    fn enter(&mut self, group: usize);
    /// True if there is this space.
    fn has(&self, need: Need) -> bool;
    /// Next step of the victim emptied for `purpose`, which is chosen if there is none.
    fn next_step(&mut self, purpose: Purpose) -> NextStep;
    /// Time from which the write buffer takes a flash page of a stream; `None`: of every stream of
    /// copies.
    fn free_at(&mut self, stream: Option<usize>) -> Nanos;
    /// Copies a flash page to a stream, beginning at `at`: reads it, and places it once all data
    /// copied before is there too (`data_ready`, which moves on).
    fn copy(
        &mut self,
        source: Source,
        stream: usize,
        at: Nanos,
        trigger: Trigger,
        data_ready: &mut Nanos,
    );
    /// Frees a victim that was read to its end, or gives it up if its flash is worn out.
    fn retire_victim(&mut self, purpose: Purpose, at: Nanos, trigger: Trigger);
    /// Error of a policy plug-in whose answer was not allowed.
    fn check_policy(&self) -> Result<(), DeviceError>;
}

/// Free space and pace.
pub trait PacePort: GcPort {
    /// Free pages of the current reclaim group.
    fn free_pages(&self) -> u64;
    /// Pages that a command took, padding since the last call included, and the pace for them:
    /// `own`, unless a plug-in sets it. `None` on a worn-out drive.
    fn pace(&mut self, host_pages: u64, own: Pace) -> Option<(u64, Pace)>;
    /// Pages that the victim in hand gives per page copied, in 1/65536.
    fn reclaimed_per_copy(&self, purpose: Purpose) -> u64;
    /// Flash pages of copies that have taken a place in the write buffer so far.
    fn copies_taken(&self) -> u64;
    /// Time when these flash pages of copies are programmed.
    fn copies_programmed_at(&mut self, pages: Range<u64>) -> Nanos;
}
