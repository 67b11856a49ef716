//! A policy of drivebay: the victim of garbage collection is the emptiest among the oldest
//! superblocks.
//!
//! `WINDOW` is the number of oldest ones considered: 1 is FIFO, `usize::MAX` is greedy. Source:
//! windowed greedy as in Hu et al. (SYSTOR 2009).

mod abi;

use std::ffi::c_void;
use std::slice;

use abi::{ABI, Drive, Superblock, Table};

/// Number of oldest candidates that are considered.
const WINDOW: usize = usize::MAX;

/// State kept from one decision to the next: plain numbers, because the drive copies and saves
/// them as bytes.
#[repr(C)]
struct State {
    /// Victims chosen so far.
    victims: u64,
}

/// The policy: returns a candidate's index.
fn choose(state: &mut State, superblocks: &[Superblock]) -> usize {
    state.victims += 1;
    let mut oldest: Vec<usize> =
        (0..superblocks.len()).filter(|&i| superblocks[i].candidate != 0).collect();
    if WINDOW < oldest.len() {
        oldest.sort_unstable_by_key(|&i| u64::MAX - superblocks[i].age);
        oldest.truncate(WINDOW);
    }
    let emptiest = |&i: &usize| (superblocks[i].valid, u64::MAX - superblocks[i].age);
    oldest.into_iter().min_by_key(emptiest).expect("there is at least one candidate")
}

unsafe extern "C" fn state_bytes(_drive: *const Drive) -> u64 {
    size_of::<State>() as u64
}

unsafe extern "C" fn choose_victim(
    state: *mut c_void,
    drive: *const Drive,
    superblocks: *const Superblock,
) -> u32 {
    // SAFETY: drivebay passes a state of the size that `state_bytes` returned, which no other call
    // uses at the same time, and a list of this many superblocks; both are valid for this call.
    let (state, superblocks) = unsafe {
        let count = (*drive).superblocks as usize;
        (&mut *state.cast::<State>(), slice::from_raw_parts(superblocks, count))
    };
    choose(state, superblocks) as u32
}

static TABLE: Table = Table {
    abi: ABI,
    size: size_of::<Table>() as u32,
    state_bytes: Some(state_bytes),
    start: None,
    choose_victim: Some(choose_victim),
    place_write: None,
    set_pace: None,
    level_wear: None,
    open_superblock: None,
    schedule_read: None,
    read_retried: None,
};

/// The table that drivebay reads when it loads the library.
#[unsafe(no_mangle)]
pub extern "C" fn drivebay_policy() -> *const Table {
    &TABLE
}
