//! The example of the README.

use drivebay_wire::nvme::{Data, Decoder, Digests, Pdu, Sqe, encode};

#[test]
fn main() {
    let flush = Sqe { opcode: 0x00, nsid: 1.into(), ..Sqe::default() };
    let no_data = Data { bytes: &[], is_damaged: false };
    let mut bytes = Vec::new();
    encode(&mut bytes, &Pdu::Command(&flush, no_data), Digests::default());
    let decoder = Decoder { digests: Digests::default(), data_bytes_max: 4096 };
    let (pdu, length) = decoder.decode(&bytes).expect("well formed").expect("complete");
    assert!(matches!(pdu, Pdu::Command(..)) && length == bytes.len());
}
