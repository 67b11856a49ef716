//! What the tests share: reading from memory, and short requests.

use std::io::Cursor;

use drivebay_trace::{Format, Op, Order, Reader, Request, Trace, TraceError};
use drivebay_units::Nanos;

pub fn reader(bytes: &[u8], format: Option<&str>) -> Result<Reader, TraceError> {
    let format = format.map(|name| Format::from_name(name).expect("a known format"));
    Reader::new(Cursor::new(bytes.to_vec()), "t", format, None)
}

/// All requests in the file's order, on its own clock.
pub fn raw(bytes: &[u8], format: Option<&str>) -> Result<Vec<Request>, TraceError> {
    let mut reader = reader(bytes, format)?;
    let mut requests = Vec::new();
    while reader.read(&mut requests, usize::MAX)? {}
    Ok(requests)
}

/// All requests in order of time, from 0.
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
pub fn request(of: (u64, Op, u64, u64, u32, Option<u64>)) -> Request {
    let (at, op, offset_bytes, bytes, device, response) = of;
    Request { at: Nanos(at), op, offset_bytes, bytes, device, response: response.map(Nanos) }
}
