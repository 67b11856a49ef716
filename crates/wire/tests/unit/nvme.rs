//! Tests with known bytes, round trips and random bytes.

use crc32c::crc32c;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

use super::*;

const DIGESTS: [Digests; 4] =
    [Digests::from_bits(0), Digests::from_bits(1), Digests::from_bits(2), Digests::from_bits(3)];

fn decoder(digests: Digests) -> Decoder {
    Decoder { digests, data_bytes_max: 1 << 17 }
}

/// RFC 3720, appendix B.4: 32 bytes of zeros, of ones, ascending, descending.
#[test]
fn the_digest_is_that_of_iscsi() {
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    let ascending: Vec<u8> = (0..32).collect();
    assert_eq!(crc32c(&ascending), 0x46dd_794e);
}

#[test]
fn a_read_command_stands_as_the_specification_draws_it() {
    let mut bytes = [0_u8; 64];
    bytes[0] = 0x02;
    bytes[2..4].copy_from_slice(&[0x34, 0x12]);
    bytes[4] = 1;
    bytes[40..48].copy_from_slice(&0x1_0000_0007_u64.to_le_bytes());
    bytes[48..52].copy_from_slice(&0x4000_0007_u32.to_le_bytes());
    let sqe = Sqe::read_from_bytes(&bytes).expect("64 bytes");
    assert_eq!(NvmOpcode::from_code(sqe.opcode), Some(NvmOpcode::Read));
    assert_eq!((sqe.cid.get(), sqe.nsid.get()), (0x1234, 1));
    assert_eq!((sqe.lba(), sqe.blocks(), sqe.is_fua()), (0x1_0000_0007, 8, true));
}

#[test]
fn a_completion_stands_as_the_specification_draws_it() {
    let mut cqe = Cqe::new(0x1234, Status::LBA_OUT_OF_RANGE.dnr(), 7);
    cqe.sq_head = 5.into();
    cqe.sq_id = 2.into();
    let expected = [7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 2, 0, 0x34, 0x12, 0x00, 0x81];
    assert_eq!(cqe.as_bytes(), expected);
    assert_eq!(cqe.status().without_dnr(), Status::LBA_OUT_OF_RANGE);
    assert_eq!(format!("{:?}", cqe.status()), "LBA_OUT_OF_RANGE+DNR");
}

/// Request of Linux 6.1 for `nvme connect --hdr-digest --data-digest`.
#[test]
fn an_initialization_request_stands_as_linux_sends_it() {
    let mut bytes = vec![0_u8; 128];
    bytes[..12].copy_from_slice(&[0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3]);
    let (pdu, whole) = decoder(Digests::default()).decode(&bytes).unwrap().unwrap();
    assert_eq!(whole, 128);
    let Pdu::IcReq(init) = pdu else { panic!("{pdu:?}") };
    assert_eq!(Digests::from_bits(init.digests), Digests::from_bits(3));
    assert_eq!(init.max.get(), 0);
    let mut again = Vec::new();
    encode(&mut again, &pdu, Digests::from_bits(3));
    assert_eq!(again, bytes);
}

#[test]
fn connect_is_read_from_its_places() {
    let mut bytes = [0_u8; 64];
    bytes[0] = OPCODE_FABRICS;
    bytes[4] = 0x01;
    bytes[42..46].copy_from_slice(&[3, 0, 127, 0]);
    bytes[46] = 4;
    bytes[48..52].copy_from_slice(&15_000_u32.to_le_bytes());
    let sqe = Sqe::read_from_bytes(&bytes).expect("64 bytes");
    let connect = FabricsType::from_sqe(&sqe);
    let expected = FabricsType::Connect {
        format: 0,
        queue: 3,
        entries_less_one: 127,
        attributes: 4,
        keep_alive_ms: 15_000,
    };
    assert_eq!(connect, expected);
    assert_eq!(connect.to_sqe(0), sqe);
}

#[test]
fn power_states_choose_their_unit() {
    let (high, low) = (PowerState::new(9000, 5, 5, true), PowerState::new(5, 2000, 22_000, false));
    assert_eq!((high.max_power.get(), high.flags), (900, 0));
    assert_eq!((low.max_power.get(), low.flags), (50, 3));
}

#[test]
fn names_end_at_a_zero() {
    assert_eq!(nqn_of(&padded_nqn("nqn.2014-08.org.nvmexpress.discovery")), Some(DISCOVERY_NQN));
    assert_eq!(nqn_of(&[b'a'; 256]), None);
    assert_eq!(nqn_of(&[0; 256]), Some(""));
    assert_eq!(nqn_of(&padded_nqn(&"x".repeat(224))), None);
}

#[test]
fn what_a_header_may_not_say_is_named() {
    let plain = decoder(Digests::default());
    let command = |place: usize, value: u8| {
        let mut bytes = Vec::new();
        let data = Data { bytes: &[1; 512], is_damaged: false };
        encode(&mut bytes, &Pdu::Command(&Sqe::default(), data), Digests::default());
        bytes[place] = value;
        plain.decode(&bytes).map(|pdu| pdu.map(|(_, whole)| whole))
    };
    assert_eq!(command(0, 8), Err(Fault::field(0)), "no such type");
    assert_eq!(command(1, 1), Err(Fault::field(1)), "a digest that was not agreed on");
    assert_eq!(command(2, 24), Err(Fault::field(2)), "a header of another length");
    assert_eq!(command(3, 71), Err(Fault::field(3)), "data within the header");
    assert_eq!(command(5, 0), Ok(Some(72)), "a capsule without data");
    assert_eq!(command(6, 0xff), Err(Fault::new(FaultKind::DataLimitExceeded)));
    assert_eq!(command(72, 0), Ok(Some(72 + 512)));
}

#[test]
fn a_wrong_header_digest_ends_the_stream_and_a_wrong_data_digest_only_the_command() {
    let both = DIGESTS[3];
    let mut bytes = Vec::new();
    let data = Data { bytes: &[7; 512], is_damaged: false };
    encode(&mut bytes, &Pdu::Command(&Sqe::default(), data), both);
    let mut spoiled = bytes.clone();
    spoiled[20] ^= 1;
    let fault = decoder(both).decode(&spoiled).unwrap_err();
    assert_eq!(fault.kind, FaultKind::HeaderDigest);
    spoiled = bytes;
    spoiled[100] ^= 1;
    let (pdu, _) = decoder(both).decode(&spoiled).unwrap().unwrap();
    assert!(matches!(pdu, Pdu::Command(_, Data { is_damaged: true, .. })));
}

fn any_command(words: [u32; 4], length: u32) -> Sqe {
    let mut sqe =
        FabricsType::PropertyGet { offset: words[1], is_wide: true }.to_sqe(words[0] as u16);
    sqe.set_sgl(Sgl { address: 0, bytes: length, kind: SglKind::InCapsule });
    sqe
}

fn any_pdu<'a>(kind: u8, words: [u32; 4], sqe: &'a Sqe, bytes: &'a [u8]) -> Pdu<'a> {
    let data = Data { bytes, is_damaged: false };
    let (cid, tag, length) = (words[0] as u16, words[1] as u16, bytes.len() as u32);
    let init = InitPdu { max: words[0].into(), digests: words[1] as u8, ..InitPdu::default() };
    let term = TermPdu::new(Fault { kind: FaultKind::Sequence, information: words[0] });
    match kind % 9 {
        0 => Pdu::IcReq(init),
        1 => Pdu::IcResp(init),
        2 => Pdu::HostTerm(term),
        3 => Pdu::ControllerTerm(term),
        4 => Pdu::Command(sqe, data),
        5 => Pdu::Response(Cqe::new(cid, Status(words[1] as u16 & 0x7fff), u64::from(words[2]))),
        6 => Pdu::DataToController(DataPdu::new(cid, tag, words[2], length), FLAG_LAST, data),
        7 => Pdu::DataToHost(DataPdu::new(cid, 0, words[2], length), FLAG_SUCCESS, data),
        _ => Pdu::R2t(DataPdu::new(cid, tag, words[2], words[3])),
    }
}

proptest! {
    #[test]
    fn what_is_put_is_taken_again_whole_and_only_whole(
        kind in any::<u8>(),
        words in any::<[u32; 4]>(),
        bytes in prop::collection::vec(any::<u8>(), 0..700),
        digests in 0..4_usize,
    ) {
        let sqe = any_command(words, bytes.len() as u32);
        let pdu = any_pdu(kind, words, &sqe, &bytes);
        let digests = DIGESTS[digests];
        let mut stream = Vec::new();
        encode(&mut stream, &pdu, digests);
        prop_assert_eq!(decoder(digests).decode(&stream), Ok(Some((pdu, stream.len()))));
        for cut in [0, 7, 8, 23, stream.len() / 2, stream.len() - 1] {
            let part = &stream[..cut.min(stream.len() - 1)];
            prop_assert_eq!(decoder(digests).decode(part), Ok(None));
        }
    }

    #[test]
    fn no_bytes_make_a_decoder_panic_or_take_more_than_there_is(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        kind in 0..10_u8,
        digests in 0..4_usize,
    ) {
        // Mostly plausible headers, so that the later checks are reached.
        if let (Some(known), true) = (PduType::from_code(kind), bytes.len() >= 8) {
            bytes[0] = kind;
            bytes[2] = known.header_bytes() as u8;
            bytes[5..8].fill(0);
        }
        if let Ok(Some((_, whole))) = decoder(DIGESTS[digests]).decode(&bytes) {
            prop_assert!(whole <= bytes.len() && whole >= HEADER_BYTES);
        }
    }
}
