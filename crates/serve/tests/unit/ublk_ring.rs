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

/// A command that reads 8 bytes from a pipe, and the memory that it writes to.
fn read(reader: &PipeReader) -> (Entry128, *mut u64) {
    let memory = Box::into_raw(Box::new(0_u64));
    (opcode::Read::new(Fd(reader.as_raw_fd()), memory.cast(), 8).build().into(), memory)
}

#[test]
fn a_command_that_never_completes_ends_in_an_error() {
    let (mut ring, reader, _writer) = silent();
    let start = Instant::now();
    let error = ring.send(read(&reader).0, SOON, &|| false).expect_err("no answer");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(start.elapsed() >= SOON);
}

#[test]
fn a_wait_can_be_cancelled() {
    let (mut ring, reader, _writer) = silent();
    let start = Instant::now();
    let is_cancelled = || start.elapsed() >= SOON;
    let error = ring.send(read(&reader).0, Duration::MAX, &is_cancelled);
    assert_eq!(error.expect_err("cancelled").kind(), io::ErrorKind::Interrupted);
}

#[test]
fn a_late_answer_is_not_taken_for_that_of_the_next_command() {
    let (mut ring, late, mut late_writer) = silent();
    let (next, mut next_writer) = pipe().expect("a pipe");
    ring.send(read(&late).0, SOON, &|| false).expect_err("no answer");
    late_writer.write_all(&1_u64.to_ne_bytes()).expect("a reader");
    let waits = ring.send(read(&next).0, SOON, &|| false);
    assert_eq!(waits.expect_err("no answer").kind(), io::ErrorKind::TimedOut);
    next_writer.write_all(&2_u64.to_ne_bytes()).expect("a reader");
    let (third, mut third_writer) = pipe().expect("a pipe");
    third_writer.write_all(&3_u64.to_ne_bytes()).expect("a reader");
    let (entry, last) = read(&third);
    ring.send(entry, Duration::MAX, &|| false).expect("an answer");
    // SAFETY: this command has completed, and nothing else has the address.
    assert_eq!(unsafe { *last }, 3);
}
