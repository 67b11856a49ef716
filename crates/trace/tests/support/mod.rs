//! Common parts of the tests: reading from memory, and short notation for requests.

use std::io::Cursor;

use drivebay_trace::{Format, Given, Op, Order, Reader, Request, Stats, Trace, TraceError};
use drivebay_units::Nanos;

pub fn reader(bytes: &[u8], format: Option<&str>) -> Result<Reader, TraceError> {
    let format = format.map(|name| Format::parse(name).expect("a known format"));
    Reader::new(Cursor::new(bytes.to_vec()), "t", &Given { format, ..Given::default() })
}

/// Returns all requests in the file's order, on its own clock.
pub fn raw(bytes: &[u8], format: Option<&str>) -> Result<Vec<Request>, TraceError> {
    let mut reader = reader(bytes, format)?;
    let mut requests = Vec::new();
    while reader.read(&mut requests, usize::MAX)? {}
    Ok(requests)
}

/// Returns all requests in time order, from 0.
pub fn ordered(bytes: &[u8], format: Option<&str>) -> Result<Vec<Request>, TraceError> {
    drain(Trace::new(reader(bytes, format)?, Order::Window))
}

pub fn drain(mut trace: Trace) -> Result<Vec<Request>, TraceError> {
    let mut requests = Vec::new();
    while let Some(block) = trace.next_block(&mut || true)? {
        requests.extend_from_slice(block);
    }
    Ok(requests)
}

/// (ns, op, offset, bytes, device, response in ns)
pub type Row = (u64, Op, u64, u64, u32, Option<u64>);

pub fn request(row: Row) -> Request {
    let (at, op, offset_bytes, bytes, device, response) = row;
    Request { at: Nanos(at), op, offset_bytes, bytes, device, response: response.map(Nanos) }
}

/// Reads any bytes in a format, or in the detected one: the file is refused, or its requests are
/// within bounds and its figures are numbers.
pub fn survives(bytes: &[u8], format: Option<&str>) {
    let Ok(reader) = reader(bytes, format) else { return };
    let most = bytes.len() + 1;
    let per_line = if reader.format() == Format::Meta { 10_000 } else { 1 };
    let Ok(requests) = drain(Trace::sized(reader, Order::Window, 8, 8)) else { return };
    assert!(requests.len() <= most * per_line, "{} of {most} bytes", requests.len());
    for request in &requests {
        assert!(request.offset_bytes + request.bytes <= i64::MAX as u64);
        assert!(request.bytes > 0 || request.op == Op::Flush);
    }
    let mut stats = Stats::default();
    stats.add(&requests).expect("few devices");
    let info = stats.info();
    let moving = requests.iter().filter(|r| r.op.moves_data()).count() as u64;
    assert_eq!(info.reads + info.writes, moving);
    let shares = [info.sequential_share, info.overwrite_share, info.unwritten_read_share];
    assert!(shares.into_iter().flatten().all(|share| (0.0..=1.0).contains(&share)));
    let times = [Some(info.duration_s), info.idle_s, info.queue_depth_mean];
    assert!(times.into_iter().flatten().all(|figure| figure.is_finite() && figure >= 0.0));
}
