//! Unit tests of `ublk/ring.rs`: a pipe without data takes the place of a kernel that does not
//! answer.

use std::io::{PipeReader, PipeWriter, Write as _, pipe};

use super::*;

const SOON: Duration = Duration::from_millis(300);

/// A ring, and a pipe from which a command reads.
fn silent() -> (ControlRing, PipeReader, PipeWriter) {
    let (reader, writer) = pipe().expect("a pipe");
    let file = File::options().read(true).write(true).open("/dev/null").expect("a device");
    (ControlRing::new(file).expect("io_uring"), reader, writer)
}

/// A command that reads from the pipe into its structure.
fn read(reader: &PipeReader) -> impl Fn(&ControlRing, *mut u64) -> squeue::Entry128 {
    let pipe = Fd(reader.as_raw_fd());
    move |_, address| opcode::Read::new(pipe, address.cast(), 8).build().into()
}

#[test]
fn a_command_that_never_completes_ends_in_an_error() {
    let (mut ring, reader, _writer) = silent();
    let mut value = 7;
    let start = Instant::now();
    let error = ring.exchange(&mut value, read(&reader), SOON, &|| false).expect_err("no answer");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(start.elapsed() >= SOON);
}

#[test]
fn a_wait_can_be_cancelled() {
    let (mut ring, reader, _writer) = silent();
    let start = Instant::now();
    let is_cancelled = || start.elapsed() >= SOON;
    let error = ring.exchange(&mut 7, read(&reader), Duration::MAX, &is_cancelled);
    assert_eq!(error.expect_err("cancelled").kind(), io::ErrorKind::Interrupted);
}

#[test]
fn a_late_answer_goes_to_memory_of_its_own_and_is_not_taken_for_the_next_one() {
    let (mut ring, late, mut late_writer) = silent();
    let (next, mut next_writer) = pipe().expect("a pipe");
    let (mut first, mut second) = (7_u64, 8_u64);
    ring.exchange(&mut first, read(&late), SOON, &|| false).expect_err("no answer");
    late_writer.write_all(&1_u64.to_ne_bytes()).expect("a reader");
    let waits = ring.exchange(&mut second, read(&next), SOON, &|| false);
    assert_eq!(waits.expect_err("no answer").kind(), io::ErrorKind::TimedOut);
    assert_eq!((first, second), (7, 8), "the caller's memory is not the kernel's");
    next_writer.write_all(&2_u64.to_ne_bytes()).expect("a reader");
    let (third, mut third_writer) = pipe().expect("a pipe");
    third_writer.write_all(&3_u64.to_ne_bytes()).expect("a reader");
    ring.exchange(&mut second, read(&third), Duration::MAX, &|| false).expect("an answer");
    assert_eq!(second, 3);
}
