//! Arbitrary bytes as a stream of NVMe/TCP PDUs: decoded or rejected, never a panic; a decoded PDU
//! that is encoded and decoded again is the same.
//!
//! The first byte selects the digests. Run: `scripts/fuzz.sh 60 nvme_pdu`.

#![no_main]

use drivebay_wire::nvme::{Decoder, Digests, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, mut bytes)) = data.split_first() else { return };
    let digests = Digests::from_bits(choice);
    let decoder = Decoder { digests, data_bytes_max: 1 << 17 };
    while let Ok(Some((pdu, length))) = decoder.decode(bytes) {
        assert!(length <= bytes.len());
        let mut again = Vec::new();
        encode(&mut again, &pdu, digests);
        // The header digest was right, the data digest may have been wrong; the encoder's own
        // digests are right.
        let (same, whole) = decoder.decode(&again).expect("our own").expect("whole");
        assert_eq!(whole, again.len());
        assert_eq!(std::mem::discriminant(&same), std::mem::discriminant(&pdu));
        bytes = &bytes[length..];
    }
});
