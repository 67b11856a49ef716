//! Unit tests of `firmware/ftl_core.rs`, with its private items in reach.

use super::*;

#[test]
fn a_wait_is_split_between_commands_and_collection() {
    let mut core = FtlCore::new();
    core.run(Nanos(0), Nanos(10));
    core.gc(Nanos(80));
    core.close_command();
    let second = core.run(Nanos(5), Nanos(10));
    assert_eq!((second.queued, second.gc, second.end), (Nanos(5), Nanos(80), Nanos(100)));
    core.close_command();
    let third = core.run(Nanos(95), Nanos(10));
    assert_eq!((third.queued, third.gc, third.end), (Nanos(5), Nanos(0), Nanos(110)));
    core.close_command();
    let idle = core.run(Nanos(500), Nanos(10));
    assert_eq!((idle.queued, idle.gc), (Nanos(0), Nanos(0)));
    assert_eq!(core.busy_ns(), 120);
}
