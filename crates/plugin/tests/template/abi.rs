//! `policy.h` in Rust, version 1. `policy.h` documents the arguments and answers of each function.
#![allow(dead_code)]

use std::ffi::c_void;

pub const ABI: u32 = 1;
pub const NONE: u32 = u32::MAX;

#[repr(C)]
pub struct Drive {
    pub user_pages: u64,
    pub free_pages: u64,
    pub start_free_pages: u64,
    pub target_free_pages: u64,
    pub superblock_pages: u32,
    pub superblocks: u32,
    pub free_superblocks: u32,
    pub reserve_superblocks: u32,
}

#[repr(C)]
pub struct Superblock {
    pub age: u64,
    pub valid: u32,
    pub erases: u32,
    pub state: u32,
    pub stream: u32,
    pub candidate: u32,
    pub reserved: u32,
}

#[repr(C)]
pub struct Write {
    pub lpn: u64,
    pub lifespan_pages: u64,
    pub mean_lifespan_pages: u64,
    pub pages: u32,
    pub replaced_stream: u32,
}

#[repr(C)]
pub struct Pace {
    pub gain_256: u64,
    pub duty_256: u64,
}

#[repr(C)]
pub struct DieRead {
    pub read_ns: u64,
    pub running_ns: u64,
    pub all_ns: u64,
    pub suspend_ns: u64,
    pub waited_ns: u64,
    pub writes: u32,
    pub die: u32,
}

#[repr(C)]
pub struct RetriedRead {
    pub age_ns: u64,
    pub superblock: u32,
    pub retries: u32,
    pub retries_max: u32,
    pub lost: u32,
    pub reads: u32,
    pub cycles: u32,
}

pub type StateBytes = unsafe extern "C" fn(*const Drive) -> u64;
pub type Start = unsafe extern "C" fn(*mut c_void, *const Drive, u64);
pub type ChooseSuperblock =
    unsafe extern "C" fn(*mut c_void, *const Drive, *const Superblock) -> u32;
pub type PlaceWrite = unsafe extern "C" fn(*mut c_void, *const Drive, *const Write) -> u32;
pub type SetPace = unsafe extern "C" fn(*mut c_void, *const Drive, u64, *mut Pace);
pub type ScheduleRead = unsafe extern "C" fn(*mut c_void, *const Drive, *const DieRead) -> u32;
pub type ReadRetried = unsafe extern "C" fn(*mut c_void, *const Drive, *const RetriedRead) -> u32;

#[repr(C)]
pub struct Table {
    pub abi: u32,
    pub size: u32,
    pub state_bytes: Option<StateBytes>,
    pub start: Option<Start>,
    pub choose_victim: Option<ChooseSuperblock>,
    pub place_write: Option<PlaceWrite>,
    pub set_pace: Option<SetPace>,
    pub level_wear: Option<ChooseSuperblock>,
    pub open_superblock: Option<ChooseSuperblock>,
    pub schedule_read: Option<ScheduleRead>,
    pub read_retried: Option<ReadRetried>,
}
