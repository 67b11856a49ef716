//! Policy plug-ins: compiled code, behind a table of C functions, that takes decisions of the virtual drive.
//!
//! The table is version 1 of the interface that the template's `policy.h` and `abi.rs`
//! (`python/drivebay/definitions/policy_template`) state for those who write plug-ins. What the functions see is laid
//! out in `crates/drive/src/policy_plugin.rs`. A later version appends functions to the table, whose `size` says how
//! many there are, and raises `abi` only when an older plug-in can no longer be called.
//! This crate must not know files or how a library is loaded: it is given the table, or the functions.
//! Left out: guarding against the code itself. It runs in this process with all its rights; what it answers is checked,
//! what it does is not.
#![allow(unsafe_code)]

use std::ffi::c_void;

use drivebay_drive::{Decides, DriveView, HostWrite, Pace, PolicyPlugin, SuperblockView};

/// The interface's version.
pub const ABI: u32 = 1;

/// Bytes of state that the plug-in needs on this drive.
pub type StateBytes = unsafe extern "C" fn(drive: *const DriveView) -> u64;
/// Sets the state of a drive as new, which is all zeros and aligned to 8 bytes.
pub type Start = unsafe extern "C" fn(state: *mut c_void, drive: *const DriveView, seed: u64);
/// Names a candidate among `drive.superblocks` superblocks.
pub type ChooseVictim = unsafe extern "C" fn(
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
    /// See [`ChooseVictim`].
    pub choose_victim: Option<ChooseVictim>,
    /// See [`PlaceWrite`].
    pub place_write: Option<PlaceWrite>,
    /// See [`SetPace`].
    pub set_pace: Option<SetPace>,
}

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
        "policy {name}: it is written for version {abi} of the interface with a table of {size} bytes; this is version 1, {expected} bytes\nhint: build it again with the files of: drivebay new-policy NAME"
    )]
    Version {
        /// Name and digest.
        name: String,
        /// Its version.
        abi: u32,
        /// Bytes of its table.
        size: u32,
        /// Bytes of ours.
        expected: usize,
    },
    /// Nothing is decided.
    #[error("policy {0}: it decides nothing\nhint: give it choose_victim, place_write or set_pace")]
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
    /// `table` is null, or points to a table that says its own size and that, like the code of its functions, stays
    /// as long as the process. The functions do what `policy.h` asks of them, from any thread.
    ///
    /// # Errors
    /// [`PluginError`].
    pub unsafe fn from_table(name: String, table: *const Table) -> Result<Loaded, PluginError> {
        if table.is_null() {
            return Err(PluginError::NoTable(name));
        }
        // SAFETY: every version's table begins with these two words; it is not null.
        let (abi, size) = unsafe { ((*table).abi, (*table).size) };
        let expected = size_of::<Table>();
        if abi != ABI || (size as usize) < expected {
            return Err(PluginError::Version { name, abi, size, expected });
        }
        // SAFETY: it has at least the size of ours, and version 1's functions stand where ours do.
        unsafe { Loaded::from_functions(name, (*table).functions) }
    }

    /// The plug-in `name`, "name@digest", of these functions.
    ///
    /// # Safety
    /// As [`Loaded::from_table`], for the functions.
    ///
    /// # Errors
    /// [`PluginError`].
    pub unsafe fn from_functions(
        name: String,
        functions: Functions,
    ) -> Result<Loaded, PluginError> {
        let safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let word = |part: &str| (1..=64).contains(&part.len()) && part.chars().all(safe);
        if !name.split_once('@').is_some_and(|(before, digest)| word(before) && word(digest)) {
            return Err(PluginError::Name(name));
        }
        let loaded = Loaded { name, functions };
        let Decides { victim, frontier, pace } = loaded.decides();
        if victim || frontier || pace {
            return Ok(loaded);
        }
        Err(PluginError::Nothing(loaded.name))
    }
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
        }
    }

    fn state_bytes(&self, drive: &DriveView) -> u64 {
        // SAFETY: whoever made this vouches for the function; the reference is valid for the call.
        self.functions.state_bytes.map_or(0, |function| unsafe { function(drive) })
    }

    fn start(&self, state: &mut [u64], drive: &DriveView, seed: u64) {
        if let Some(function) = self.functions.start {
            // SAFETY: as above; the state has the bytes that the plug-in asked for, and nobody else has it.
            unsafe { function(state.as_mut_ptr().cast(), drive, seed) }
        }
    }

    fn choose_victim(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32 {
        debug_assert_eq!(all.len(), drive.superblocks as usize);
        let function = self.functions.choose_victim.expect("asked only if it decides this");
        // SAFETY: as above; `all` has the entries that the drive says.
        unsafe { function(state.as_mut_ptr().cast(), drive, all.as_ptr()) }
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
