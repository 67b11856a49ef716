//! PDUs that wait to be sent to the host.

use drivebay_wire::nvme::{Data, DataPdu, Digests, FLAG_LAST, Pdu, encode};

use crate::buffers;

/// Bytes of waiting PDUs above which no more are appended; the last one may exceed the limit.
const OUTPUT_MAX: usize = 1 << 20;

/// Encoded PDUs.
#[derive(Default)]
pub(super) struct Output {
    pub buffer: buffers::Output,
    pub digests: Digests,
}

impl Output {
    /// True if more PDUs may be appended.
    pub fn has_room(&self) -> bool {
        self.buffer.unsent().len() < OUTPUT_MAX
    }

    pub fn put(&mut self, pdu: &Pdu<'_>) {
        encode(self.buffer.append(), pdu, self.digests);
    }

    /// Appends data for a command.
    pub fn put_data(&mut self, cid: u16, bytes: &[u8]) {
        let head = DataPdu::new(cid, 0, 0, bytes.len() as u32);
        self.put(&Pdu::DataToHost(head, FLAG_LAST, Data { bytes, is_damaged: false }));
    }
}
