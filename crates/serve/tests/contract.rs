//! Contract of the interface (`src/interface/drive.rs`), tested on two drives that share no code:
//! the engine with its model, and a vector of bytes.

use std::io::{IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use drivebay_drive::Sanitize;
use drivebay_serve::nbd::{Connection, Export, Exports, Stream};
use drivebay_serve::{
    Completion, Drive, Engine, Extent, MemoryLimit, NewNamespace, Next, Op, PowerCutLoss, Request,
    Session, SessionId, Status,
};

use crate::memory_drive::MemoryDrive;
use crate::support::{engine, request};

const SECTORS: u64 = 4096;
const WRITE: Op = Op::Write { fua: false };

/// Drive with the actions of its event loop.
trait Rig {
    fn of(&mut self, session: u32) -> &mut dyn Drive;
    /// Completions since the last call.
    fn completions(&mut self) -> Vec<Completion>;

    fn drive(&mut self) -> &mut dyn Drive {
        self.of(0)
    }

    /// Executes one request; returns its status.
    fn does(&mut self, request: Request, data: &[u8]) -> Status {
        self.drive().submit(request, data);
        let done = self.completions();
        assert_eq!((done.len(), done[0].request), (1, request), "each completes, once");
        done[0].status
    }

    fn write(&mut self, lba: u64, fill: u8, sectors: u32) -> Status {
        self.does(request(WRITE, lba, sectors, 1), &vec![fill; sectors as usize * 512])
    }

    fn read(&mut self, lba: u64, sectors: usize) -> Vec<u8> {
        let mut found = vec![9; sectors * 512];
        self.drive().read(lba, &mut found).expect("memory");
        found
    }
}

impl Rig for Engine {
    fn of(&mut self, session: u32) -> &mut dyn Drive {
        self.begin_iteration();
        self.drive_of(SessionId::numbered(session))
    }

    fn completions(&mut self) -> Vec<Completion> {
        crate::support::drain(self)
    }
}

impl Rig for MemoryDrive {
    fn of(&mut self, session: u32) -> &mut dyn Drive {
        self.drive_of(SessionId::numbered(session))
    }

    fn completions(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.next_completion()).collect()
    }
}

/// Both drives, new.
fn both() -> [Box<dyn Rig>; 2] {
    let mut engine = engine(SECTORS, 1, false);
    engine.allow_power_cuts(None, PowerCutLoss::All);
    [Box::new(engine), Box::new(MemoryDrive::new(SECTORS))]
}

#[test]
fn every_request_completes_once_for_its_session_refused_ones_too() {
    for mut rig in both() {
        for token in 0..40 {
            let lba = if token % 5 == 4 { SECTORS - 3 } else { 8 * token };
            let op = [Op::Read, WRITE, Op::Trim { fua: true }][token as usize % 3];
            let data = if op == WRITE { vec![1; 4096] } else { Vec::new() };
            rig.of(token as u32 % 3).submit(request(op, lba, 8, token), &data);
        }
        let mut done = rig.completions();
        done.sort_by_key(|one| one.request.token);
        assert_eq!(done.len(), 40);
        for (token, one) in (0..).zip(&done) {
            assert_eq!(one.request.token, token);
            assert_eq!(one.session, SessionId::numbered(token as u32 % 3));
            let refused = if token % 5 == 4 { Status::OutOfRange } else { Status::Ok };
            assert_eq!(one.status, refused);
        }
        assert!(rig.completions().is_empty());
    }
}

#[test]
fn what_is_out_of_range_is_refused_and_changes_nothing() {
    for mut rig in both() {
        assert_eq!(rig.write(SECTORS - 8, 5, 8), Status::Ok);
        for (op, lba, sectors) in [
            (Op::Read, SECTORS, 1),
            (WRITE, SECTORS - 7, 8),
            (Op::Trim { fua: false }, u64::MAX, 2),
            (Op::WriteZeroes { fua: false, allocated: true }, SECTORS - 1, 2),
            (Op::Read, 0, 0),
        ] {
            let data = if op == WRITE { vec![1; 4096] } else { Vec::new() };
            assert_eq!(rig.does(request(op, lba, sectors, 1), &data), Status::OutOfRange, "{op:?}");
        }
        assert_eq!(rig.read(SECTORS - 8, 8), [5; 4096]);
    }
}

#[test]
fn a_write_is_in_the_data_once_it_is_submitted_and_reads_all_ways_alike() {
    for mut rig in both() {
        rig.drive().submit(request(WRITE, 5, 20, 1), &[7; 20 * 512]);
        assert_eq!(rig.read(5, 20), [7; 20 * 512]);
        rig.completions();
        let drive = rig.drive();
        let mut appended = b"before".to_vec();
        drive.append(3, 24, &mut appended).expect("memory");
        assert_eq!(&appended[..6], b"before");
        let mut pieces = [IoSlice::new(&[]); 8];
        let count = drive.pieces(3, 24, &mut pieces);
        let gathered: Vec<u8> = pieces[..count].iter().flat_map(|one| one.to_vec()).collect();
        assert_eq!(gathered, appended[6..]);
        assert_eq!(rig.read(3, 24), gathered);
    }
}

#[test]
fn extents_have_no_gap_and_holes_read_as_zeros() {
    for mut rig in both() {
        rig.write(16, 3, 16);
        rig.write(64, 3, 8);
        assert_eq!(rig.does(request(Op::Trim { fua: false }, 24, 8, 2), &[]), Status::Ok);
        let extents = rig.drive().extents(0, 80, usize::MAX).expect("memory");
        let of = |sectors, data| Extent { sectors, data };
        let wanted = [of(16, false), of(8, true), of(40, false), of(8, true), of(8, false)];
        assert_eq!(extents, wanted);
        assert_eq!(rig.drive().extents(0, 80, 2).expect("memory"), wanted[..2]);
        assert_eq!(rig.read(24, 40), [0; 40 * 512]);
        assert_eq!(rig.drive().used_sectors(), 16);
    }
}

#[test]
fn what_is_erased_reads_as_zeros_whatever_the_power_does() {
    for mut rig in both() {
        rig.write(0, 1, 64);
        rig.does(Request::flush(2), &[]);
        rig.drive().erase(8..16, Sanitize::Crypto).expect("memory");
        rig.drive().power_cut().expect("memory");
        assert_eq!(rig.read(8, 8), [0; 4096]);
        assert_eq!(rig.read(16, 8), [1; 4096], "and no more");
        rig.drive().erase(0..SECTORS, Sanitize::Block).expect("memory");
        assert_eq!((rig.read(16, 8), rig.drive().used_sectors()), (vec![0; 4096], 0));
    }
}

#[test]
fn what_is_overwritten_holds_the_pattern_where_it_held_data_whatever_the_power_does() {
    for mut rig in both() {
        rig.write(0, 1, 64);
        rig.does(Request::flush(2), &[]);
        rig.write(8, 2, 8);
        let (_, is_kept) =
            rig.drive().overwrite(Sanitize::Overwrite(1), 0x0403_0201).expect("memory");
        assert!(is_kept);
        rig.drive().power_cut().expect("memory");
        assert_eq!(rig.read(0, 64), [1, 2, 3, 4].repeat(64 * 128));
        assert_eq!(rig.read(64, 8), [0; 4096], "it held nothing");
        assert_eq!(rig.drive().used_sectors(), 64);
    }
}

#[test]
fn what_is_in_flight_at_a_power_cut_never_completes_and_what_was_flushed_stays() {
    for mut rig in both() {
        rig.write(0, 1, 8);
        assert_eq!(rig.does(Request::flush(2), &[]), Status::Ok);
        rig.drive().submit(request(Op::Read, 0, 8, 3), &[]);
        rig.drive().power_cut().expect("memory");
        assert!(rig.completions().is_empty());
        assert_eq!(rig.read(0, 8), [1; 4096]);
        assert_eq!(rig.drive().report().power_cuts, 1);
        assert_eq!(rig.write(8, 2, 8), Status::Ok, "it goes on");
    }
}

#[test]
fn a_read_only_fault_refuses_changes_until_it_is_over() {
    for mut rig in both() {
        let fault = serde_json::from_str(r#"{"kind": "read-only"}"#).expect("a fault");
        rig.drive().add_fault(fault).expect("possible");
        assert_eq!(rig.write(0, 1, 8), Status::ReadOnly);
        assert!(rig.drive().is_read_only());
        assert_eq!(rig.does(request(Op::Read, 0, 8, 1), &[]), Status::Ok);
        rig.drive().clear_faults();
        assert_eq!(rig.write(0, 1, 8), Status::Ok);
    }
}

#[test]
fn a_namespace_is_a_live_view_and_a_new_one_holds_nothing() {
    for mut rig in both() {
        rig.write(0, 4, 64);
        let drive = rig.drive();
        let held = Arc::clone(drive.namespace(1).expect("the whole drive"));
        assert_eq!((held.sectors(), drive.namespace_ids()), (SECTORS, vec![1]));
        assert_eq!(drive.resize(None, SECTORS * 256).expect("room").bytes, SECTORS * 256);
        assert_eq!((held.sectors(), drive.table().free_sectors()), (SECTORS / 2, SECTORS / 2));
        drive.delete_namespace(1).expect("it is there");
        assert_eq!((held.sectors(), drive.namespace_ids()), (0, vec![]));
        assert!(drive.delete_namespace(1).is_err() && drive.resize(None, 4096).is_err());
        assert_eq!(drive.create_namespace(NewNamespace::plain(64)).expect("room"), 1);
        assert_eq!(drive.table().changes(1), 3, "resized, deleted, made");
        assert_eq!(rig.read(0, 64), vec![0; 64 * 512]);
    }
}

#[test]
fn a_snapshot_that_is_restored_has_the_data_of_its_time() {
    for mut rig in both() {
        rig.write(0, 1, 8);
        while rig.drive().snapshot("first").expect("memory").is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        rig.write(0, 2, 8);
        rig.drive().submit(request(Op::Read, 0, 8, 3), &[]);
        rig.drive().restore("first").expect("it is there");
        assert!(rig.completions().is_empty());
        assert_eq!(rig.read(0, 8), [1; 4096]);
        rig.drive().forget_snapshot("first").expect("it is there");
        assert!(rig.drive().restore("first").is_err());
    }
}

/// A request of NBD.
fn nbd(kind: u16, offset: u64, length: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend([0_u16, kind].iter().flat_map(|word| word.to_be_bytes()));
    bytes.extend([7, offset].iter().flat_map(|word| word.to_be_bytes()));
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn a_protocol_says_the_same_over_either() {
    let said = both().map(|mut rig| {
        let (mut client, theirs) = UnixStream::pair().expect("a socket");
        theirs.set_nonblocking(true).expect("a socket");
        client.set_nonblocking(true).expect("a socket");
        let all = Export::for_drive("drive", 0, rig.drive().table());
        let exports = Exports { tls: None, memory: MemoryLimit::new(0, 0, 1 << 30), all };
        let mut session = Connection::new(Stream::Plain(theirs.into()), Arc::new(exports), 0);
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
        let mut said = Vec::new();
        for bytes in [
            hello,
            nbd(1, 4096, 1024, &[6; 1024]),
            nbd(0, 3584, 2048, &[]),
            nbd(3, 0, 0, &[]),
            nbd(4, 4096, 512, &[]),
            nbd(0, 4096, 1 << 20, &[]),
            nbd(0, SECTORS * 512, 512, &[]),
        ] {
            client.write_all(&bytes).expect("room");
            session.readable(rig.drive()).expect("it stays");
            for completion in rig.completions() {
                session.complete(rig.drive(), completion);
            }
            // The client reads while the rest is sent.
            for _ in 0..1000 {
                let next = session.flush(rig.drive()).expect("it stays");
                let mut part = [0; 65536];
                while let Ok(got @ 1..) = client.read(&mut part) {
                    said.extend_from_slice(&part[..got]);
                }
                if let Next::Wait { write: false, .. } = next {
                    break;
                }
            }
        }
        said
    });
    assert!(said[0] == said[1], "{} and {} bytes", said[0].len(), said[1].len());
    assert!(said[0].len() > 1 << 20);
}
