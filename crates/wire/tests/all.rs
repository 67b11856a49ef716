//! Bytes from outside are refused at worst. PDUs of NVMe/TCP are tested next to their code.

mod readme;

use drivebay_wire::ata::{self, FRAME_BYTES};
use drivebay_wire::nbd::{self, ClientFlags, Go, MetaQuery, OptionHeader, Request};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = (Go::parse(&bytes), MetaQuery::parse(&bytes));
        if let Some(head) = bytes.first_chunk::<{ nbd::REQUEST_BYTES }>() {
            let request = Request::parse(head);
            prop_assert!(request.is_err() || head[..4] == 0x2560_9513_u32.to_be_bytes());
        }
        if let Some(head) = bytes.first_chunk::<{ nbd::OPTION_BYTES }>() {
            let _ = OptionHeader::parse(head);
        }
        if let Some(&flags) = bytes.first_chunk() {
            let _ = ClientFlags::parse(flags);
        }
        if let Some(frame) = bytes.first_chunk::<FRAME_BYTES>() {
            let command = ata::Command::parse(frame);
            prop_assert_eq!(command.is_some(), frame[0] == 0x27);
        }
        prop_assert!(ata::trim_ranges(&bytes).count() <= bytes.len() / 8);
    }
}
