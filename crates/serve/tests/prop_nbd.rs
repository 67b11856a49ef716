//! For any bytes of a client, the connection answers, waits or ends: no panic, no unlimited memory.
//! This is the quick form of the fuzz target `nbd_session`.

use crate::support::nbd::NbdClient;
use crate::support::{request as drive_request, spec};
use drivebay_serve::{Control as _, Op, SessionId};
use drivebay_units::Rng;
use proptest::prelude::*;

/// Request whose fields are mostly close to their limits.
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

/// Option with almost correct data.
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

/// Content of sectors of 512 B, each of one repeated byte, by number.
fn fills(client: &NbdClient, sectors: std::ops::Range<usize>) -> Vec<u8> {
    let mut bytes = vec![0; 512 * sectors.len()];
    client.engine.store().read(sectors.start as u64, &mut bytes).expect("memory");
    bytes.chunks(512).for_each(|sector| assert!(sector.iter().all(|&one| one == sector[0])));
    bytes.chunks(512).map(|sector| sector[0]).collect()
}

fn command(kind: u16, sector: usize, sectors: usize, fill: u8) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(7u64.to_be_bytes());
    bytes.extend((512 * sector as u64).to_be_bytes());
    bytes.extend((512 * sectors as u32).to_be_bytes());
    if kind == 1 {
        bytes.resize(bytes.len() + 512 * sectors, fill);
    }
    bytes
}

/// Data of long writes goes directly from the socket into the store, in any pieces and with any
/// concurrent operations.
#[test]
fn long_writes_lie_where_they_belong_in_whatever_pieces_they_come() {
    const SECTORS: usize = 4096;
    let mut client = NbdClient::new(spec(SECTORS as i64, false), true);
    let mut rng = Rng::new(1).fork("pieces");
    let mut flat = vec![0; SECTORS];
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..1 + rng.below(4) {
            let sectors = [1, 8, 600][rng.below(3) as usize] * (1 + rng.below(2) as usize);
            let sector = rng.below((SECTORS - sectors) as u64) as usize;
            let (kind, fill) = if rng.below(4) == 0 { (4, 0) } else { (1, rng.below(256) as u8) };
            bytes.extend(command(kind, sector, sectors, fill));
            flat[sector..sector + sectors].fill(fill);
        }
        assert!(client.feed(&bytes, 1 + rng.below(100_000) as usize));
        assert_eq!(fills(&client, 0..SECTORS), flat);
    }
    for round in 0..40 {
        let (old, new) = (1 + round % 100, 101 + round % 100);
        let whole = command(1, 8, 600, old);
        assert!(client.feed(&whole, 50_000));
        let write = command(1, 8, 600, new);
        let half = 1 + rng.below(write.len() as u64 - 1) as usize;
        assert!(client.feed(&write[..half], 50_000));
        // Concurrent operations.
        let trims = round % 2 == 0;
        if trims {
            client.engine.begin_iteration();
            let other = SessionId::numbered(9);
            client
                .engine
                .drive_of(other)
                .submit(drive_request(Op::Trim { fua: false }, 0, 4096, 1), &[]);
            assert!(client.engine.next_completion().is_some());
        } else {
            // Until memory for it is available.
            while client.engine.snapshot("before").expect("memory").is_none() {}
        }
        assert!(client.feed(&write[half..], 50_000));
        let found = fills(&client, 8..608);
        assert!(found.iter().all(|&one| one == new || (trims && one == 0)), "{found:?}");
        if !trims {
            client.engine.restore("before").expect("it was taken");
            let found = fills(&client, 8..608);
            let done = (half / 512).min(600);
            assert!(found[done..].iter().all(|&one| one == old), "{done}: {found:?}");
            client.engine.forget_snapshot("before").expect("it was taken");
        }
    }
}
