//! Namespaces of a drive: hosts see each as a separate drive, read-only or not, and its size can
//! change while it is served.

use drivebay_run::Control;
use drivebay_serve::{DriveOptions, NamespaceOptions, Options, Server};
use drivebay_wire::nvme::{ErrorEntry, IdentifyController, IdentifyNamespace, Sqe, Status};
use serde_json::{Value, json};
use zerocopy::{FromBytes, IntoBytes};

use crate::several::{Nbd, Nvme, SECTORS, Served, drive, nqn, of_spec};

const BYTES: u64 = SECTORS * 512;
const MIB: u64 = 1 << 20;
const NAMESPACE_NOTICES: u32 = 1 << 8;

fn of(bytes: u64) -> NamespaceOptions {
    NamespaceOptions { bytes, start_bytes: None, is_read_only: false }
}

/// Drive of 4 MiB with namespaces of 1 MiB, 1 MiB (read-only) and 1 MiB, and 1 MiB free after them.
fn divided() -> DriveOptions {
    let read_only = NamespaceOptions { is_read_only: true, ..of(MIB) };
    DriveOptions { namespaces: vec![of(MIB), read_only, of(MIB)], ..drive("one") }
}

fn identify(structure: u32, nsid: u32) -> Sqe {
    Sqe { opcode: 0x06, nsid: nsid.into(), cdw10: structure.into(), ..Sqe::default() }
}

fn io(opcode: u8, nsid: u32, lba: u32) -> Sqe {
    let (nsid, cdw12) = (nsid.into(), 7.into());
    Sqe { opcode, nsid, cdw10: lba.into(), cdw12, ..Sqe::default() }
}

const READ: u8 = 2;
const WRITE: u8 = 1;
const WRITE_ZEROES: u8 = 8;

/// A controller's admin queue and an I/O queue.
fn host(served: &Served) -> (Nvme, Nvme) {
    let mut admin = served.nvme();
    let id = admin.connect(&nqn("one"), 0, 0xffff).expect("a controller");
    admin.enable();
    let mut queue = served.nvme();
    queue.connect(&nqn("one"), 1, id).expect("a queue");
    (admin, queue)
}

fn namespace(admin: &mut Nvme, nsid: u32) -> IdentifyNamespace {
    let (status, _, page) = admin.ask(identify(0, nsid), 4096, &[]);
    assert_eq!(status, Status::SUCCESS);
    IdentifyNamespace::read_from_bytes(&page).expect("a page")
}

fn list(page: &[u8]) -> Vec<u32> {
    let numbers = page.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().expect("4")));
    numbers.take_while(|&nsid| nsid != 0).collect()
}

#[test]
fn nvme_hosts_see_each_namespace_with_its_size_name_and_data() {
    let served = Served::new(vec![divided()]);
    let (mut admin, mut queue) = host(&served);
    let (_, _, page) = admin.ask(identify(1, 0), 4096, &[]);
    assert_eq!(IdentifyController::read_from_bytes(&page).expect("a page").nn.get(), 32);
    for (above, found) in [(0, vec![1, 2, 3]), (1, vec![2, 3]), (3, vec![])] {
        assert_eq!(list(&admin.ask(identify(2, above), 4096, &[]).2), found);
    }
    let first = u64::from_be_bytes(namespace(&mut admin, 1).eui64);
    for nsid in 1..=3 {
        let id = namespace(&mut admin, nsid);
        assert_eq!((id.nsze.get(), id.nuse.get()), (2048, 2048));
        assert_eq!(u64::from_be_bytes(id.eui64), first + u64::from(nsid) - 1);
        assert_eq!(id.nsattr, u8::from(nsid == 2), "write protected");
    }
    for nsid in [0, 33, 0xffff_ffff] {
        let asked = queue.ask(io(READ, nsid, 0), 4096, &[]);
        assert_eq!(asked.0, Status::INVALID_NAMESPACE.dnr());
    }
    for nsid in [0, 33] {
        assert_eq!(admin.ask(identify(0, nsid), 4096, &[]).0, Status::INVALID_NAMESPACE.dnr());
    }
    // A valid number without a namespace.
    assert_eq!(namespace(&mut admin, 4).as_bytes(), [0; 4096]);
    assert_eq!(queue.ask(io(READ, 4, 0), 4096, &[]).0, Status::INVALID_FIELD.dnr());
    let errors = Sqe { opcode: 0x02, cdw10: (1 | 15 << 16).into(), ..Sqe::default() };
    let error = ErrorEntry::read_from_bytes(&admin.ask(errors, 64, &[]).2).expect("64 bytes");
    assert_eq!(error.location.get(), 4, "its number");
    let any = namespace(&mut admin, 0xffff_ffff);
    assert_eq!((any.nsze.get(), any.lbaf[0].data_shift), (0, 9));
    for nsid in [1, 3] {
        assert_eq!(queue.ask(io(WRITE, nsid, 8), 4096, &[nsid as u8; 4096]).0, Status::SUCCESS);
    }
    for (nsid, byte) in [(1, 1), (2, 0), (3, 3)] {
        let read = queue.ask(io(READ, nsid, 8), 4096, &[]);
        assert_eq!(read, (Status::SUCCESS, 0, vec![byte; 4096]));
        let behind = queue.ask(io(READ, nsid, 2041), 4096, &[]);
        assert_eq!(behind.0, Status::LBA_OUT_OF_RANGE.dnr());
    }
    for (opcode, data) in [(WRITE, &[2; 4096][..]), (WRITE_ZEROES, &[])] {
        let refused = queue.ask(io(opcode, 2, 0), data.len() as u32, data);
        assert_eq!(refused.0, Status::NAMESPACE_WRITE_PROTECTED.dnr());
    }
    served.end();
}

#[test]
fn format_empties_one_namespace_and_no_other() {
    let served = Served::new(vec![divided()]);
    let (mut admin, mut queue) = host(&served);
    for nsid in [1, 3] {
        assert_eq!(queue.ask(io(WRITE, nsid, 0), 4096, &[7; 4096]).0, Status::SUCCESS);
    }
    let format = |nsid: u32| Sqe { opcode: 0x80, nsid: nsid.into(), ..Sqe::default() };
    // If one is read-only, a command for all is refused, too.
    for nsid in [2, 0xffff_ffff] {
        assert_eq!(admin.ask(format(nsid), 0, &[]).0, Status::NAMESPACE_WRITE_PROTECTED.dnr());
    }
    assert_eq!(admin.ask(format(3), 0, &[]).0, Status::SUCCESS);
    for (nsid, byte) in [(1, 7), (3, 0)] {
        assert_eq!(queue.ask(io(READ, nsid, 0), 4096, &[]).2, [byte; 4096]);
    }
    served.end();
}

#[test]
fn nbd_clients_find_each_namespace_as_an_export() {
    let served = Served::new(vec![divided(), drive("two")]);
    for (name, byte) in [("one/1", 1), ("one/3", 3), ("two", 2)] {
        let bytes = if name == "two" { BYTES } else { MIB };
        let mut client = served.sized(name, bytes).expect("an export");
        assert_eq!(client.write(byte), Some(0));
    }
    for (name, byte) in [("one", 1), ("", 1), ("one/3", 3), ("one/2", 0)] {
        let mut client = served.sized(name, MIB).expect("an export");
        assert_eq!(client.read(), Some(byte), "{name}");
    }
    let mut read_only: Nbd = served.sized("one/2", MIB).expect("an export");
    assert_eq!(read_only.1 & 2, 2, "it says so");
    for kind in [1, 4, 6] {
        let data: &[u8] = if kind == 1 { &[1; 4096] } else { &[] };
        assert_eq!(read_only.ask(kind, data, &mut []), Some(1), "not permitted");
    }
    for unknown in ["one/4", "one/", "two/1"] {
        assert!(served.sized(unknown, MIB).is_none(), "{unknown}");
    }
    served.end();
}

#[test]
fn a_host_is_told_of_a_new_size_and_reads_which_namespace_has_it() {
    let served = Served::new(vec![divided()]);
    let (mut admin, mut queue) = host(&served);
    let set = |feature: u32, value: u32| Sqe {
        opcode: 0x09,
        cdw10: feature.into(),
        cdw11: value.into(),
        ..Sqe::default()
    };
    assert_eq!(admin.ask(set(0x0b, NAMESPACE_NOTICES), 0, &[]).0, Status::SUCCESS);
    for lba in [0, 2040] {
        assert_eq!(queue.ask(io(WRITE, 3, lba), 4096, &[9; 4096]).0, Status::SUCCESS);
    }
    let smaller = served.ask(&format!("resize 3 {}", MIB / 2 + 511));
    let wanted = json!({
        "nsid": 3, "start_bytes": 2 * MIB, "bytes": MIB / 2, "is_read_only": false
    });
    assert_eq!(smaller, wanted);
    // Notice, namespace attribute changed, log page 4.
    let (status, event, _) = admin.ask(Sqe { opcode: 0x0c, ..Sqe::default() }, 0, &[]);
    assert_eq!((status, event), (Status::SUCCESS, 0x04_0002));
    let log = Sqe { opcode: 0x02, cdw10: (0x04 | 1023 << 16).into(), ..Sqe::default() };
    assert_eq!(list(&admin.ask(log, 4096, &[]).2), [3]);
    assert_eq!(list(&admin.ask(log, 4096, &[]).2), [0; 0], "read once");
    assert_eq!(namespace(&mut admin, 3).nsze.get(), 1024);
    assert_eq!(queue.ask(io(READ, 3, 1024), 4096, &[]).0, Status::LBA_OUT_OF_RANGE.dnr());
    // The lost data stays lost when the namespace grows again.
    assert_eq!(served.ask(&format!("resize 3 {}", 2 * MIB))["bytes"], 2 * MIB);
    for (lba, byte) in [(0, 9), (2040, 0), (4088, 0)] {
        let read = queue.ask(io(READ, 3, lba), 4096, &[]);
        assert_eq!(read, (Status::SUCCESS, 0, vec![byte; 4096]));
    }
    served.end();
}

#[test]
fn an_nbd_client_that_connects_sees_the_new_size_and_one_that_is_there_is_kept_inside() {
    let served = Served::new(vec![drive("one")]);
    let mut before = served.nbd("one").expect("an export");
    assert_eq!(served.ask("resize 2048")["error"], "namespace 1 has less than 4 KiB");
    assert_eq!(served.ask("resize 1048576")["bytes"], MIB);
    let mut after = served.sized("", MIB).expect("an export");
    assert_eq!((after.write(1), before.read()), (Some(0), Some(1)));
    const INVALID: u32 = 22;
    const NO_SPACE: u32 = 28;
    assert_eq!(before.ask_at(MIB, 0, &[], &mut []), Some(INVALID));
    assert_eq!(before.ask_at(MIB, 1, &[1; 4096], &mut []), Some(NO_SPACE));
    assert_eq!(before.read(), Some(1), "it goes on");
    let figures = &served.ask("status")["namespaces"];
    assert_eq!(figures[0]["bytes"], MIB);
    let events = served.ask("events");
    let events = events["events"].as_array().expect("a list");
    assert!(events.iter().any(|one| one["event"] == "resized" && one["bytes"] == MIB));
    served.end();
}

#[test]
fn a_resize_that_is_not_possible_changes_nothing() {
    let served = Served::new(vec![divided()]);
    for (line, error) in [
        ("resize 1 2097152", "namespace 1 cannot have 2097152 bytes"),
        ("resize 3 2101248", "namespace 3 cannot have 2101248 bytes"),
        ("resize 2 4096", "namespace 2 is read-only and cannot become smaller"),
        ("resize 4 4096", "there is no namespace 4"),
        ("resize 4096", "which namespace? There are 3"),
        ("resize", "resize takes a size in bytes"),
        ("resize 1 1G", "resize takes a size in bytes"),
    ] {
        let answer: Value = served.ask(line);
        assert_eq!(answer["error"], error, "{line}");
        assert!(answer["hint"].is_string());
    }
    let figures = served.ask("status");
    let sizes = figures["namespaces"].as_array().expect("a list").iter();
    assert!(sizes.map(|one| one["bytes"].as_u64()).all(|bytes| bytes == Some(MIB)));
    served.end();
}

#[test]
fn no_power_cut_brings_back_what_a_namespace_has_lost() {
    let served = Served::new(vec![drive("one")]);
    let mut client = served.nbd("one").expect("an export");
    assert_eq!(client.ask_at(MIB, 1, &[5; 4096], &mut []), Some(0));
    served.ask(&format!("resize {MIB}"));
    served.ask(&format!("resize {BYTES}"));
    served.ask("power-cut");
    let mut found = [1; 4096];
    let mut client = served.nbd("one").expect("an export");
    assert_eq!(client.ask_at(MIB, 0, &[], &mut found), Some(0));
    assert_eq!(found, [0; 4096]);
    served.end();
}

#[test]
fn namespaces_that_do_not_fit_and_those_of_an_ahci_drive_are_refused() {
    let refused = |namespaces: Vec<NamespaceOptions>, vfio: bool| {
        let folder = tempfile::tempdir().expect("a folder");
        let vfio_user = vfio.then(|| folder.path().join("vfio"));
        let one = DriveOptions { namespaces, vfio_user, ..drive("one") };
        let mut drives = of_spec(vec![one]);
        drives[0].0.protocol = drivebay_drive::Protocol::Ahci;
        let options = Options { memory_max_bytes: 1 << 30, ..Options::default() };
        let server = Server::new(drives, &options, &Control::default());
        server.err().expect("refused").to_string()
    };
    let error = refused(vec![of(MIB), of(4 * MIB)], false);
    assert_eq!(error.lines().count(), 2);
    assert!(error.contains("namespace 2 cannot have 4194304 bytes"), "{error}");
    assert!(error.contains("hint: 3145728 bytes are free from its start"), "{error}");
    assert!(refused(vec![of(MIB)], true).contains("an AHCI drive has one size"));
}

// --- Namespace Management and Attachment ---------------------------------------------------------

/// Namespace Management: create.
fn create(admin: &mut Nvme, blocks: u64, nmic: u8) -> (Status, u64) {
    let wanted = IdentifyNamespace {
        nsze: blocks.into(),
        ncap: blocks.into(),
        nmic,
        ..IdentifyNamespace::default()
    };
    create_as(admin, &wanted)
}

fn create_as(admin: &mut Nvme, wanted: &IdentifyNamespace) -> (Status, u64) {
    let command = Sqe { opcode: 0x0d, ..Sqe::default() };
    let (status, nsid, _) = admin.ask(command, 4096, wanted.as_bytes());
    (status, nsid)
}

fn delete(admin: &mut Nvme, nsid: u32) -> Status {
    let command = Sqe { opcode: 0x0d, nsid: nsid.into(), cdw10: 1.into(), ..Sqe::default() };
    admin.ask(command, 0, &[]).0
}

const ATTACH: u32 = 0;
const DETACH: u32 = 1;

/// Namespace Attachment for these controllers.
fn attach(admin: &mut Nvme, select: u32, nsid: u32, controllers: &[u16]) -> Status {
    let command = Sqe { opcode: 0x15, nsid: nsid.into(), cdw10: select.into(), ..Sqe::default() };
    let numbers = std::iter::once(controllers.len() as u16).chain(controllers.iter().copied());
    let mut page: Vec<u8> = numbers.flat_map(u16::to_le_bytes).collect();
    page.resize(4096, 0);
    admin.ask(command, 4096, &page).0
}

/// Controllers that Identify lists.
fn controllers(admin: &mut Nvme, structure: u32, nsid: u32) -> Vec<u16> {
    let (status, _, page) = admin.ask(identify(structure, nsid), 4096, &[]);
    assert_eq!(status, Status::SUCCESS);
    let mut numbers = page.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
    let count = numbers.next().expect("a count");
    numbers.take(count.into()).collect()
}

fn capacity(admin: &mut Nvme) -> (u128, u128) {
    let (_, _, page) = admin.ask(identify(1, 0), 4096, &[]);
    let id = IdentifyController::read_from_bytes(&page).expect("a page");
    assert_eq!(id.oacs.get() & 1 << 3, 1 << 3, "Namespace Management and Attachment");
    (id.tnvmcap.get(), id.unvmcap.get())
}

#[test]
fn a_host_makes_a_namespace_attaches_it_uses_it_and_deletes_it() {
    let served = Served::new(vec![divided()]);
    let (mut admin, mut queue) = host(&served);
    let me = controllers(&mut admin, 0x13, 0);
    assert_eq!(me.len(), 1);
    let mib = u128::from(MIB);
    assert_eq!(capacity(&mut admin), (4 * mib, mib));
    assert_eq!(create(&mut admin, 1024, 1), (Status::SUCCESS, 4));
    assert_eq!(capacity(&mut admin), (4 * mib, mib / 2));
    // It is allocated, and active once it is attached.
    let lists =
        |admin: &mut Nvme| [2, 0x10].map(|cns| list(&admin.ask(identify(cns, 2), 4096, &[]).2));
    assert_eq!(lists(&mut admin), [vec![3], vec![3, 4]]);
    assert_eq!(namespace(&mut admin, 4).as_bytes(), [0; 4096]);
    let (_, _, page) = admin.ask(identify(0x11, 4), 4096, &[]);
    let allocated = IdentifyNamespace::read_from_bytes(&page).expect("a page");
    assert_eq!((allocated.nsze.get(), allocated.nvmcap.get()), (1024, mib / 2));
    assert_eq!(queue.ask(io(READ, 4, 0), 4096, &[]).0, Status::INVALID_FIELD.dnr());
    assert_eq!(controllers(&mut admin, 0x12, 4), [0_u16; 0]);
    assert_eq!(attach(&mut admin, ATTACH, 4, &me), Status::SUCCESS);
    assert_eq!(lists(&mut admin), [vec![3, 4], vec![3, 4]]);
    assert_eq!(controllers(&mut admin, 0x12, 4), me);
    assert_eq!(queue.ask(io(WRITE, 4, 1016), 4096, &[4; 4096]).0, Status::SUCCESS);
    assert_eq!(queue.ask(io(READ, 4, 1017), 4096, &[]).0, Status::LBA_OUT_OF_RANGE.dnr());
    // Its data is deleted with it; it is also detached.
    assert_eq!(delete(&mut admin, 4), Status::SUCCESS);
    assert_eq!(lists(&mut admin), [vec![3], vec![3]]);
    assert_eq!(create(&mut admin, 2048, 1), (Status::SUCCESS, 4));
    assert_eq!(attach(&mut admin, ATTACH, 4, &me), Status::SUCCESS);
    assert_eq!(queue.ask(io(READ, 4, 1016), 4096, &[]), (Status::SUCCESS, 0, vec![0; 4096]));
    served.end();
}

#[test]
fn a_namespace_that_cannot_be_made_is_refused_with_the_specifications_status() {
    let served = Served::new(vec![divided()]);
    let (mut admin, _queue) = host(&served);
    assert_eq!(create(&mut admin, 2049, 1).0, Status::NAMESPACE_INSUFFICIENT_CAPACITY.dnr());
    assert_eq!(create(&mut admin, u64::MAX, 1).0, Status::NAMESPACE_INSUFFICIENT_CAPACITY.dnr());
    let plain =
        || IdentifyNamespace { nsze: 8.into(), ncap: 8.into(), ..IdentifyNamespace::default() };
    for (wanted, status) in [
        (IdentifyNamespace { ncap: 7.into(), ..plain() }, Status::THIN_PROVISIONING_NOT_SUPPORTED),
        (IdentifyNamespace { ncap: 9.into(), ..plain() }, Status::INVALID_FIELD),
        (IdentifyNamespace { nsze: 0.into(), ncap: 0.into(), ..plain() }, Status::INVALID_FIELD),
        (IdentifyNamespace { flbas: 2, ..plain() }, Status::INVALID_FORMAT),
        (IdentifyNamespace { dps: 1, ..plain() }, Status::INVALID_FIELD),
        (IdentifyNamespace { nmic: 2, ..plain() }, Status::INVALID_FIELD),
    ] {
        assert_eq!(create_as(&mut admin, &wanted).0, status.dnr());
    }
    for nsid in 4..=32 {
        assert_eq!(create(&mut admin, 8, 1), (Status::SUCCESS, nsid));
    }
    assert_eq!(create(&mut admin, 8, 1).0, Status::NAMESPACE_ID_UNAVAILABLE.dnr());
    assert_eq!(delete(&mut admin, 2), Status::NAMESPACE_WRITE_PROTECTED.dnr());
    assert_eq!(delete(&mut admin, 0xffff_ffff), Status::NAMESPACE_WRITE_PROTECTED.dnr());
    assert_eq!(delete(&mut admin, 7), Status::SUCCESS);
    assert_eq!(delete(&mut admin, 7), Status::INVALID_FIELD.dnr(), "none, but there may be one");
    assert_eq!(delete(&mut admin, 33), Status::INVALID_NAMESPACE.dnr());
    let other = Sqe { opcode: 0x0d, cdw10: 2.into(), ..Sqe::default() };
    assert_eq!(admin.ask(other, 0, &[]).0, Status::INVALID_FIELD.dnr());
    served.end();
}

#[test]
fn all_namespaces_are_deleted_at_once_and_nbd_clients_find_theirs_empty() {
    let served =
        Served::new(vec![DriveOptions { namespaces: vec![of(MIB), of(MIB)], ..drive("one") }]);
    let (mut admin, _queue) = host(&served);
    let mut client = served.sized("one/2", MIB).expect("an export");
    assert_eq!(delete(&mut admin, 0xffff_ffff), Status::SUCCESS);
    assert_eq!(capacity(&mut admin), (u128::from(BYTES), u128::from(BYTES)));
    assert_eq!(client.ask(0, &[], &mut [0; 4096]), Some(22), "EINVAL: behind its end");
    assert_eq!(served.ask("status")["namespaces"], json!([]));
    served.end();
}

#[test]
fn a_shared_namespace_goes_to_several_controllers_and_a_private_one_to_one() {
    let served = Served::new(vec![divided()]);
    let (mut first, _queue) = host(&served);
    let (mut second, _other) = host(&served);
    let both = controllers(&mut first, 0x13, 0);
    let [one, two] = both[..] else { panic!("{both:?}") };
    assert_eq!(create(&mut first, 8, 1), (Status::SUCCESS, 4));
    assert_eq!(create(&mut first, 8, 0), (Status::SUCCESS, 5));
    for wrong in [vec![], vec![two, one], vec![one, one], vec![one, 999], vec![999]] {
        let status = attach(&mut first, ATTACH, 4, &wrong);
        assert_eq!(status, Status::CONTROLLER_LIST_INVALID.dnr(), "{wrong:?}");
    }
    assert_eq!(attach(&mut first, ATTACH, 5, &both), Status::NAMESPACE_IS_PRIVATE.dnr());
    assert_eq!(attach(&mut first, ATTACH, 5, &[two]), Status::SUCCESS);
    assert_eq!(attach(&mut first, ATTACH, 5, &[one]), Status::NAMESPACE_IS_PRIVATE.dnr());
    assert_eq!(attach(&mut first, ATTACH, 4, &both), Status::SUCCESS);
    assert_eq!(attach(&mut first, ATTACH, 4, &[one]), Status::NAMESPACE_ALREADY_ATTACHED.dnr());
    assert_eq!(attach(&mut first, DETACH, 4, &[one]), Status::SUCCESS);
    assert_eq!(attach(&mut first, DETACH, 4, &both), Status::NAMESPACE_NOT_ATTACHED.dnr());
    assert_eq!(attach(&mut first, ATTACH, 6, &[one]), Status::INVALID_FIELD.dnr());
    assert_eq!(attach(&mut first, ATTACH, 0xffff_ffff, &[one]), Status::INVALID_FIELD.dnr());
    assert_eq!(attach(&mut first, 2, 4, &[one]), Status::INVALID_FIELD.dnr());
    let active = |admin: &mut Nvme| list(&admin.ask(identify(2, 0), 4096, &[]).2);
    assert_eq!(active(&mut first), [1, 2, 3]);
    assert_eq!(active(&mut second), [1, 2, 3, 4, 5]);
    // A host that connects again gets the namespaces of others, but not another host's private
    // ones.
    let (mut third, _queue) = host(&served);
    assert_eq!(active(&mut third), [1, 2, 3, 4]);
    assert_eq!(controllers(&mut third, 0x12, 5), [two]);
    served.end();
}

#[test]
fn another_host_is_told_of_a_namespace_that_comes_and_goes() {
    let served = Served::new(vec![divided()]);
    let (mut admin, _queue) = host(&served);
    let (mut other, _other) = host(&served);
    let set =
        Sqe { opcode: 0x09, cdw10: 0x0b.into(), cdw11: NAMESPACE_NOTICES.into(), ..Sqe::default() };
    assert_eq!(other.ask(set, 0, &[]).0, Status::SUCCESS);
    let both = controllers(&mut admin, 0x13, 0);
    assert_eq!(create(&mut admin, 8, 1), (Status::SUCCESS, 4));
    let log = Sqe { opcode: 0x02, cdw10: (0x04 | 1023 << 16).into(), ..Sqe::default() };
    assert_eq!(list(&other.ask(log, 4096, &[]).2), [0; 0], "it is nobody's yet");
    for change in [
        |admin: &mut Nvme, both: &[u16]| attach(admin, ATTACH, 4, both),
        |admin: &mut Nvme, _: &[u16]| delete(admin, 4),
    ] {
        assert_eq!(change(&mut admin, &both), Status::SUCCESS);
        let (status, event, _) = other.ask(Sqe { opcode: 0x0c, ..Sqe::default() }, 0, &[]);
        assert_eq!((status, event), (Status::SUCCESS, 0x04_0002));
        assert_eq!(list(&other.ask(log, 4096, &[]).2), [4]);
    }
    served.end();
}

#[test]
fn namespaces_of_a_read_only_drive_stay() {
    let protected = DriveOptions { is_read_only: true, ..divided() };
    let served = Served::new(vec![protected]);
    let (mut admin, _queue) = host(&served);
    assert_eq!(create(&mut admin, 8, 1).0, Status::NAMESPACE_WRITE_PROTECTED.dnr());
    assert_eq!(delete(&mut admin, 1), Status::NAMESPACE_WRITE_PROTECTED.dnr());
    served.end();
}

#[test]
fn a_state_keeps_namespaces_as_they_were_resized_made_and_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = Some(folder.path().join("state"));
    let with = |namespaces| DriveOptions { state: state.clone(), namespaces, ..drive("one") };
    let sizes = |served: &Served| -> Vec<(u64, u64)> {
        let figures = served.ask("status");
        let all = figures["namespaces"].as_array().expect("a list").iter();
        let numbers = |one: &Value| Some((one["nsid"].as_u64()?, one["bytes"].as_u64()?));
        all.map(|one| numbers(one).expect("numbers")).collect()
    };
    let served = Served::new(vec![with(vec![of(MIB), of(MIB)])]);
    let (mut admin, _queue) = host(&served);
    served.ask(&format!("resize 2 {}", 2 * MIB));
    assert_eq!(delete(&mut admin, 1), Status::SUCCESS);
    assert_eq!(create(&mut admin, 8, 0), (Status::SUCCESS, 1));
    assert_eq!(create(&mut admin, 16, 1), (Status::SUCCESS, 3));
    let left = sizes(&served);
    assert_eq!(left, [(1, 4096), (2, 2 * MIB), (3, 8192)]);
    served.end();
    let again = Served::new(vec![with(vec![of(MIB), of(MIB)])]);
    assert_eq!(sizes(&again), left);
    // All of them are attached.
    let (mut admin, _queue) = host(&again);
    assert_eq!(list(&admin.ask(identify(2, 0), 4096, &[]).2), [1, 2, 3]);
    again.end();
    let other = Served::new(vec![with(vec![of(3 * MIB)])]);
    assert_eq!(sizes(&other), [(1, 3 * MIB)], "other options hold, from then on");
    other.end();
    let back = Served::new(vec![with(vec![of(MIB), of(MIB)])]);
    assert_eq!(sizes(&back), [(1, MIB), (2, MIB)]);
    back.end();
}
