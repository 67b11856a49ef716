//! Whatever a client says, the connection answers, waits or ends: no panic, no memory without bound.
//! The quick form of the fuzz target `nbd_session`.

use crate::support::nbd::NbdClient;
use crate::support::spec;
use proptest::prelude::*;

/// A request whose fields are mostly near what is allowed.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let near = prop_oneof![
        any::<u64>(),
        (0u64..4200).prop_map(|sector| sector * 512),
        Just(4096 * 512 - 512),
        Just(u64::MAX - 511),
    ];
    let length = prop_oneof![any::<u32>(), (0u32..64).prop_map(|n| n * 512), Just(u32::MAX - 511)];
    (0u16..10, 0u16..32, near, length, any::<u8>()).prop_map(
        |(kind, flags, offset, length, fill)| {
            let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
            bytes.extend(flags.to_be_bytes());
            bytes.extend(kind.to_be_bytes());
            bytes.extend(7u64.to_be_bytes());
            bytes.extend(offset.to_be_bytes());
            bytes.extend(length.to_be_bytes());
            if kind == 1 {
                bytes.resize(bytes.len() + length.min(40_000) as usize, fill);
            }
            bytes
        },
    )
}

/// An option with data that is nearly right.
fn option() -> impl Strategy<Value = Vec<u8>> {
    let data = prop::collection::vec(prop_oneof![Just(0u8), 0u8..12, any::<u8>()], 0..64);
    (0u32..13, data).prop_map(|(option, data)| {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_requests_are_taken_or_refused(
        requests in prop::collection::vec(request(), 1..40),
        piece in 1usize..5000,
    ) {
        NbdClient::new(spec(4096, false), true).feed(&requests.concat(), piece);
    }

    #[test]
    fn any_options_are_taken_or_refused(
        options in prop::collection::vec(option(), 1..40),
        after in prop::collection::vec(any::<u8>(), 0..200),
        piece in 1usize..300,
    ) {
        let hello = 3u32.to_be_bytes().to_vec();
        let bytes = [hello, options.concat(), after].concat();
        NbdClient::new(spec(4096, false), false).feed(&bytes, piece);
    }
}
