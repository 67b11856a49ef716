//! Tests that the template's interface matches the drive's, and that invalid tables are refused.
#![allow(unsafe_code)]

use std::mem::{offset_of, size_of};

use drivebay_drive::PolicyPlugin as _;
use drivebay_drive::{DieRead, DriveView, HostWrite, Pace, RetriedRead, SuperblockView};
use drivebay_plugin::{ABI, Functions, Loaded, PluginError, Table};

#[path = "template/abi.rs"]
mod template;

macro_rules! same_layout {
    ($ours:ty, $theirs:ty: $($field:ident),+) => {
        assert_eq!(size_of::<$ours>(), size_of::<$theirs>(), stringify!($ours));
        $(assert_eq!(
            offset_of!($ours, $field),
            offset_of!($theirs, $field),
            concat!(stringify!($ours), ".", stringify!($field))
        );)+
    };
}

#[test]
fn the_template_has_the_structures_of_the_drive() {
    same_layout!(DriveView, template::Drive: user_pages, free_pages, start_free_pages, target_free_pages,
        superblock_pages, superblocks, free_superblocks, reserve_superblocks);
    same_layout!(SuperblockView, template::Superblock: age, valid, erases, state, stream, candidate, reserved);
    same_layout!(HostWrite, template::Write: lpn, lifespan_pages, mean_lifespan_pages, pages, replaced_stream);
    same_layout!(Pace, template::Pace: gain_256, duty_256);
    same_layout!(DieRead, template::DieRead: read_ns, running_ns, all_ns, suspend_ns, waited_ns, writes, die);
    same_layout!(RetriedRead, template::RetriedRead: age_ns, superblock, retries, retries_max, lost, reads, cycles);
    same_layout!(Table, template::Table: abi, size);
    let functions = offset_of!(Table, functions);
    let ours = [
        offset_of!(Functions, state_bytes),
        offset_of!(Functions, start),
        offset_of!(Functions, choose_victim),
        offset_of!(Functions, place_write),
        offset_of!(Functions, set_pace),
        offset_of!(Functions, level_wear),
        offset_of!(Functions, open_superblock),
        offset_of!(Functions, schedule_read),
        offset_of!(Functions, read_retried),
    ];
    let theirs = [
        offset_of!(template::Table, state_bytes),
        offset_of!(template::Table, start),
        offset_of!(template::Table, choose_victim),
        offset_of!(template::Table, place_write),
        offset_of!(template::Table, set_pace),
        offset_of!(template::Table, level_wear),
        offset_of!(template::Table, open_superblock),
        offset_of!(template::Table, schedule_read),
        offset_of!(template::Table, read_retried),
    ];
    assert_eq!(ours.map(|offset| functions + offset), theirs);
    assert_eq!((ABI, drivebay_drive::NONE), (template::ABI, template::NONE));
}

/// The first tables of version 1 end with `set_pace`; later fields are not read.
#[test]
fn functions_behind_the_end_of_a_table_are_none() {
    let functions =
        Functions { place_write: Some(first), read_retried: Some(retried), ..Functions::default() };
    let first_size = offset_of!(Table, functions) + offset_of!(Functions, level_wear);
    for (size, decides) in [(first_size, false), (size_of::<Table>(), true)] {
        let table = Table { abi: ABI, size: size as u32, functions };
        let loaded = loaded("name@0123", Some(&table)).expect("of this version");
        assert_eq!((loaded.decides().frontier, loaded.decides().retried), (true, decides));
    }
}

unsafe extern "C" fn retried(
    _: *mut std::ffi::c_void,
    _: *const DriveView,
    _: *const RetriedRead,
) -> u32 {
    0
}

unsafe extern "C" fn first(
    _: *mut std::ffi::c_void,
    _: *const DriveView,
    _: *const HostWrite,
) -> u32 {
    0
}

fn loaded(name: &str, table: Option<&Table>) -> Result<Loaded, PluginError> {
    let table = table.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: null, or a table with its own size and functions of this file.
    unsafe { Loaded::from_table(name.to_owned(), table) }
}

fn refused(table: Option<&Table>) -> PluginError {
    loaded("name@0123", table).expect_err("it is refused")
}

#[test]
fn only_a_table_of_this_version_that_decides_something_is_accepted() {
    let functions = Functions { place_write: Some(first), ..Functions::default() };
    let good = Table { abi: ABI, size: size_of::<Table>() as u32, functions };
    assert!(loaded("name@0123", Some(&good)).is_ok());
    let newer = Table { abi: ABI + 1, ..good };
    let short = Table { size: 8, ..good };
    let broken = Table { size: size_of::<Table>() as u32 - 4, ..good };
    let idle = Table { functions: Functions::default(), ..good };
    assert_eq!(refused(None), PluginError::NoTable("name@0123".to_owned()));
    for other in [newer, short, broken] {
        assert!(matches!(refused(Some(&other)), PluginError::Version { .. }));
    }
    assert_eq!(refused(Some(&idle)), PluginError::Nothing("name@0123".to_owned()));
    for name in ["name", "@0123", "na me@0123", "../name@0123"] {
        assert!(matches!(loaded(name, Some(&good)), Err(PluginError::Name(_))), "{name}");
    }
}
