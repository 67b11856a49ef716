//! Policy plug-ins: compiled code behind a table of C functions that makes decisions for the
//! virtual drive.
//!
//! The table is version 1 of the interface; the template's `policy.h` and `abi.rs`
//! (`python/drivebay/definitions/policy_template`) define it for plug-in authors. The layout of the
//! arguments is in `crates/drive/src/policy_plugin.rs`. A later version appends functions to the
//! table, whose `size` gives their number, and raises `abi` only when older plug-ins can no longer
//! be called. This crate must not know files or how a library is loaded: the caller passes the
//! table. Left out: protection against the plug-in's code. It runs in this process with all its
//! rights; its return values are checked, its other actions are not.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::offset_of;

use drivebay_drive::{
    Decides, DieRead, DriveView, HostWrite, Pace, PolicyPlugin, RetriedRead, SuperblockView,
};

/// Version of the interface.
pub const ABI: u32 = 1;

/// Returns the bytes of state that the plug-in needs on this drive.
pub type StateBytes = unsafe extern "C" fn(drive: *const DriveView) -> u64;
/// Initializes the state of a new drive; the state is all zeros and aligned to 8 bytes.
pub type Start = unsafe extern "C" fn(state: *mut c_void, drive: *const DriveView, seed: u64);
/// Returns the index of a candidate among `drive.superblocks` superblocks; for `level_wear`, of a
/// candidate or `NONE`.
pub type ChooseSuperblock = unsafe extern "C" fn(
    state: *mut c_void,
    drive: *const DriveView,
    all: *const SuperblockView,
) -> u32;
/// Returns the host's write frontier for a write.
pub type PlaceWrite = unsafe extern "C" fn(
    state: *mut c_void,
    drive: *const DriveView,
    write: *const HostWrite,
) -> u32;
/// Returns how a read is ordered among the programs and erases of its die.
pub type ScheduleRead =
    unsafe extern "C" fn(state: *mut c_void, drive: *const DriveView, read: *const DieRead) -> u32;
/// Returns whether data that needed read retries is moved.
pub type ReadRetried = unsafe extern "C" fn(
    state: *mut c_void,
    drive: *const DriveView,
    read: *const RetriedRead,
) -> u32;
/// Changes the pace of garbage collection after a command that took `pages` pages.
pub type SetPace =
    unsafe extern "C" fn(state: *mut c_void, drive: *const DriveView, pages: u64, pace: *mut Pace);

/// Functions of a plug-in; for those that are `None` the drive uses its own policy.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Functions {
    /// See [`StateBytes`]; `None`: no state.
    pub state_bytes: Option<StateBytes>,
    /// See [`Start`]; `None`: the state begins as zeros.
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

/// Bytes of the smallest table: the first tables of version 1 end with `set_pace`.
const SMALLEST: usize = offset_of!(Table, functions) + offset_of!(Functions, level_wear);

/// Table that a plug-in's function `drivebay_policy` returns a pointer to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Version ([`ABI`]) of the interface that the plug-in was built for.
    pub abi: u32,
    /// Size of the table in bytes.
    pub size: u32,
    /// Functions of the plug-in.
    pub functions: Functions,
}

/// Reason why a plug-in cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The name does not have the form that profiles require.
    #[error(
        "policy \"{0}\": a name has 1 to 64 letters, digits, - and _\nhint: rename the file: libwindowed.so is the policy windowed"
    )]
    Name(String),
    /// The plug-in returned no table.
    #[error(
        "policy {0}: drivebay_policy() returned no table\nhint: drivebay new-policy NAME writes one that does"
    )]
    NoTable(String),
    /// The plug-in has another version of the interface.
    #[error(
        "policy {name}: it is built for version {abi} of the interface with a table of {size} bytes; must be version 1 with at least {SMALLEST} bytes\nhint: build it again with the files of: drivebay new-policy NAME"
    )]
    Version {
        /// Name and digest of the plug-in.
        name: String,
        /// Version of its interface.
        abi: u32,
        /// Size of its table in bytes.
        size: u32,
    },
    /// The plug-in decides nothing.
    #[error(
        "policy {0}: it decides nothing\nhint: give it choose_victim, or another function of policy.h"
    )]
    Nothing(String),
}

/// A loaded plug-in.
#[derive(Debug)]
pub struct Loaded {
    name: String,
    functions: Functions,
}

impl Loaded {
    /// Creates the plug-in `name`, in the form "name@digest", from its table.
    ///
    /// # Safety
    /// `table` is null, or points to a table with its correct size; the table and the code of its
    /// functions remain valid as long as the process. The functions obey `policy.h`, from any
    /// thread.
    ///
    /// # Errors
    /// [`PluginError`].
    pub unsafe fn from_table(name: String, table: *const Table) -> Result<Loaded, PluginError> {
        if table.is_null() {
            return Err(PluginError::NoTable(name));
        }
        // SAFETY: every version's table begins with these two fields; the pointer is not null.
        let (abi, size) = unsafe { ((*table).abi, (*table).size) };
        let whole = (size as usize).is_multiple_of(size_of::<usize>());
        if abi != ABI || !whole || (size as usize) < SMALLEST {
            return Err(PluginError::Version { name, abi, size });
        }
        let mut ours = Table { abi, size, functions: Functions::default() };
        // SAFETY: both tables have at least this many bytes, and the functions of version 1 have
        // the same offsets in both. Functions missing from the plug-in's table stay `None`;
        // functions unknown here are ignored.
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
    // SAFETY: the caller of `from_table` vouches for the function; `all` has `drive.superblocks`
    // entries.
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
        // SAFETY: the caller of `from_table` vouches for the function; the reference is valid for
        // the call.
        self.functions.state_bytes.map_or(0, |function| unsafe { function(drive) })
    }

    fn start(&self, state: &mut [u64], drive: &DriveView, seed: u64) {
        if let Some(function) = self.functions.start {
            // SAFETY: as above; the state has the requested bytes, and the reference is exclusive.
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
        // SAFETY: as above; the reference to the pace is exclusive.
        unsafe { function(state.as_mut_ptr().cast(), drive, pages, pace) }
    }
}
