//! Policy plug-ins: compiled code, behind a table of C functions, that takes decisions of the
//! virtual drive.
//!
//! The table is version 1 of the interface that the template's `policy.h` and `abi.rs`
//! (`python/drivebay/definitions/policy_template`) state for those who write plug-ins. What the
//! functions see is laid out in `crates/drive/src/policy_plugin.rs`. A later version appends
//! functions to the table, whose `size` says how many there are, and raises `abi` only when an
//! older plug-in can no longer be called. This crate must not know files or how a library is
//! loaded: it is given the table. Left out: guarding against the code itself. It runs in this
//! process with all its rights; what it answers is checked, what it does is not.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::offset_of;

use drivebay_drive::{
    Decides, DieRead, DriveView, HostWrite, Pace, PolicyPlugin, RetriedRead, SuperblockView,
};

/// The interface's version.
pub const ABI: u32 = 1;

/// Bytes of state that the plug-in needs on this drive.
pub type StateBytes = unsafe extern "C" fn(drive: *const DriveView) -> u64;
/// Sets the state of a drive as new, which is all zeros and aligned to 8 bytes.
pub type Start = unsafe extern "C" fn(state: *mut c_void, drive: *const DriveView, seed: u64);
/// Names a candidate among `drive.superblocks` superblocks, for `level_wear` one or none.
pub type ChooseSuperblock = unsafe extern "C" fn(
    state: *mut c_void,
    drive: *const DriveView,
    all: *const SuperblockView,
) -> u32;
/// Names the host's frontier of a write.
pub type PlaceWrite = unsafe extern "C" fn(
    state: *mut c_void,
    drive: *const DriveView,
    write: *const HostWrite,
) -> u32;
/// Says whether a read passes the programs and erases of its die.
pub type ScheduleRead =
    unsafe extern "C" fn(state: *mut c_void, drive: *const DriveView, read: *const DieRead) -> u32;
/// Says whether data that needed read retries is moved.
pub type ReadRetried = unsafe extern "C" fn(
    state: *mut c_void,
    drive: *const DriveView,
    read: *const RetriedRead,
) -> u32;
/// Changes the pace behind a command that took `pages` pages.
pub type SetPace =
    unsafe extern "C" fn(state: *mut c_void, drive: *const DriveView, pages: u64, pace: *mut Pace);

/// The decisions of a plug-in; what is none the drive decides itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Functions {
    /// See [`StateBytes`]; none: no state.
    pub state_bytes: Option<StateBytes>,
    /// See [`Start`]; none: the state begins as zeros.
    pub start: Option<Start>,
    /// See [`ChooseSuperblock`].
    pub choose_victim: Option<ChooseSuperblock>,
    /// See [`PlaceWrite`].
    pub place_write: Option<PlaceWrite>,
    /// See [`SetPace`].
    pub set_pace: Option<SetPace>,
    /// See [`ChooseSuperblock`].
    pub level_wear: Option<ChooseSuperblock>,
    /// See [`ChooseSuperblock`].
    pub open_superblock: Option<ChooseSuperblock>,
    /// See [`ScheduleRead`].
    pub schedule_read: Option<ScheduleRead>,
    /// See [`ReadRetried`].
    pub read_retried: Option<ReadRetried>,
}

/// Bytes of the smallest table, which ends with `set_pace`: version 1 began with it.
const SMALLEST: usize = offset_of!(Table, functions) + offset_of!(Functions, level_wear);

/// What a plug-in's function `drivebay_policy` returns a pointer to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// [`ABI`] of the interface that it was written for.
    pub abi: u32,
    /// Bytes of the table.
    pub size: u32,
    /// What it decides.
    pub functions: Functions,
}

/// Why a plug-in cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The name is not of the form that profiles have it in.
    #[error(
        "policy \"{0}\": a name has 1 to 64 letters, digits, - and _\nhint: rename the file: libwindowed.so is the policy windowed"
    )]
    Name(String),
    /// No table.
    #[error(
        "policy {0}: drivebay_policy() returned no table\nhint: drivebay new-policy NAME writes one that does"
    )]
    NoTable(String),
    /// Another version of the interface.
    #[error(
        "policy {name}: it is written for version {abi} of the interface with a table of {size} bytes; this is version 1, at least {SMALLEST} bytes\nhint: build it again with the files of: drivebay new-policy NAME"
    )]
    Version {
        /// Name and digest.
        name: String,
        /// Its version.
        abi: u32,
        /// Bytes of its table.
        size: u32,
    },
    /// Nothing is decided.
    #[error(
        "policy {0}: it decides nothing\nhint: give it choose_victim, or another function of policy.h"
    )]
    Nothing(String),
}

/// A plug-in that can be called.
#[derive(Debug)]
pub struct Loaded {
    name: String,
    functions: Functions,
}

impl Loaded {
    /// The plug-in `name`, "name@digest", whose functions stand in a table.
    ///
    /// # Safety
    /// `table` is null, or points to a table that says its own size and that, like the code of its
    /// functions, stays as long as the process. The functions do what `policy.h` asks of them, from
    /// any thread.
    ///
    /// # Errors
    /// [`PluginError`].
    pub unsafe fn from_table(name: String, table: *const Table) -> Result<Loaded, PluginError> {
        if table.is_null() {
            return Err(PluginError::NoTable(name));
        }
        // SAFETY: every version's table begins with these two words; it is not null.
        let (abi, size) = unsafe { ((*table).abi, (*table).size) };
        let whole = (size as usize).is_multiple_of(size_of::<usize>());
        if abi != ABI || !whole || (size as usize) < SMALLEST {
            return Err(PluginError::Version { name, abi, size });
        }
        let mut ours = Table { abi, size, functions: Functions::default() };
        // SAFETY: both tables have so many bytes, and version 1's functions stand where ours do;
        // those that the other does not have stay none, and those that we do not know are passed
        // over.
        unsafe {
            let bytes = size_of::<Table>().min(size as usize);
            table.cast::<u8>().copy_to_nonoverlapping((&raw mut ours).cast::<u8>(), bytes);
        }
        let safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let word = |part: &str| (1..=64).contains(&part.len()) && part.chars().all(safe);
        if !name.split_once('@').is_some_and(|(before, digest)| word(before) && word(digest)) {
            return Err(PluginError::Name(name));
        }
        let loaded = Loaded { name, functions: ours.functions };
        if loaded.decides() == Decides::default() {
            return Err(PluginError::Nothing(loaded.name));
        }
        Ok(loaded)
    }
}

fn choose(
    function: Option<ChooseSuperblock>,
    state: &mut [u64],
    drive: &DriveView,
    all: &[SuperblockView],
) -> u32 {
    debug_assert_eq!(all.len(), drive.superblocks as usize);
    let function = function.expect("asked only if it decides this");
    // SAFETY: whoever made the plug-in vouches for the function; `all` has the entries that the
    // drive says.
    unsafe { function(state.as_mut_ptr().cast(), drive, all.as_ptr()) }
}

impl PolicyPlugin for Loaded {
    fn name(&self) -> &str {
        &self.name
    }

    fn decides(&self) -> Decides {
        Decides {
            victim: self.functions.choose_victim.is_some(),
            frontier: self.functions.place_write.is_some(),
            pace: self.functions.set_pace.is_some(),
            wear: self.functions.level_wear.is_some(),
            open: self.functions.open_superblock.is_some(),
            die_read: self.functions.schedule_read.is_some(),
            retried: self.functions.read_retried.is_some(),
        }
    }

    fn state_bytes(&self, drive: &DriveView) -> u64 {
        // SAFETY: whoever made this vouches for the function; the reference is valid for the call.
        self.functions.state_bytes.map_or(0, |function| unsafe { function(drive) })
    }

    fn start(&self, state: &mut [u64], drive: &DriveView, seed: u64) {
        if let Some(function) = self.functions.start {
            // SAFETY: as above; the state has the bytes that the plug-in asked for, and nobody else
            // has it.
            unsafe { function(state.as_mut_ptr().cast(), drive, seed) }
        }
    }

    fn choose_victim(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32 {
        choose(self.functions.choose_victim, state, drive, all)
    }

    fn level_wear(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32 {
        choose(self.functions.level_wear, state, drive, all)
    }

    fn open_superblock(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32 {
        choose(self.functions.open_superblock, state, drive, all)
    }

    fn schedule_read(&self, state: &mut [u64], drive: &DriveView, read: &DieRead) -> u32 {
        let function = self.functions.schedule_read.expect("asked only if it decides this");
        // SAFETY: as above.
        unsafe { function(state.as_mut_ptr().cast(), drive, read) }
    }

    fn read_retried(&self, state: &mut [u64], drive: &DriveView, read: &RetriedRead) -> u32 {
        let function = self.functions.read_retried.expect("asked only if it decides this");
        // SAFETY: as above.
        unsafe { function(state.as_mut_ptr().cast(), drive, read) }
    }

    fn place_write(&self, state: &mut [u64], drive: &DriveView, write: &HostWrite) -> u32 {
        let function = self.functions.place_write.expect("asked only if it decides this");
        // SAFETY: as above.
        unsafe { function(state.as_mut_ptr().cast(), drive, write) }
    }

    fn set_pace(&self, state: &mut [u64], drive: &DriveView, pages: u64, pace: &mut Pace) {
        let function = self.functions.set_pace.expect("asked only if it decides this");
        // SAFETY: as above; the pace is ours to be changed.
        unsafe { function(state.as_mut_ptr().cast(), drive, pages, pace) }
    }
}
