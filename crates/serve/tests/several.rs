//! Several drives in one server: clients find them by name, and they are independent of each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use drivebay_drive::Spec;
use drivebay_run::Control;
use drivebay_serve::{
    AfterCut, DriveOptions, Handle, IdentityOptions, Options, Pace, PowerCutLoss, Report, Server,
};
use drivebay_wire::nvme::{
    ConnectData, Cqe, DISCOVERY_NQN, Data, Decoder, Digests, FabricsType, IdentifyController,
    InitPdu, Pdu, Sgl, SglKind, Sqe, Status, encode, padded_nqn,
};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;
use tempfile::TempDir;
use zerocopy::{FromBytes, IntoBytes};

use crate::support::{PATIENCE, spec};

pub const SECTORS: u64 = 8192;

pub struct Served {
    folder: TempDir,
    addresses: Vec<String>,
    handles: Vec<Handle>,
    running: Option<JoinHandle<Vec<Report>>>,
}

pub fn drive(name: &str) -> DriveOptions {
    DriveOptions {
        pace: Pace::None,
        identity: IdentityOptions { nqn: Some(nqn(name)), ..IdentityOptions::default() },
        ..DriveOptions::new(name)
    }
}

/// Gives each drive the usual profile.
pub fn of_spec(drives: Vec<DriveOptions>) -> Vec<(Spec, DriveOptions)> {
    drives.into_iter().map(|drive| (spec(SECTORS as i64, false), drive)).collect()
}

pub fn nqn(name: &str) -> String {
    format!("nqn.2026-11.test:{name}")
}

fn socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

impl Served {
    pub fn new(drives: Vec<DriveOptions>) -> Served {
        Served::of(of_spec(drives))
    }

    pub fn of(drives: Vec<(Spec, DriveOptions)>) -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let unix = |name: &str| format!("unix:{}", socket(folder.path(), name).display());
        let options = Options {
            nbd: vec![unix("nbd")],
            nvme_tcp: vec!["127.0.0.1:0".to_owned()],
            control: Some(unix("control")),
            memory_max_bytes: 1 << 30,
            ..Options::default()
        };
        let server = Server::new(drives, &options, &Control::default());
        let server = server.unwrap_or_else(|why| panic!("{why}"));
        let (addresses, handles) = (server.addresses().to_vec(), server.handles());
        let running = Some(thread::spawn(move || server.run().expect("an orderly end")));
        Served { folder, addresses, handles, running }
    }

    fn connect(&self, name: &str) -> UnixStream {
        let client = UnixStream::connect(socket(self.folder.path(), name)).expect("it listens");
        client.set_read_timeout(Some(PATIENCE)).expect("a socket");
        client
    }

    /// Connects a client that follows a drive's events.
    fn follower(&self, line: &str) -> UnixStream {
        let mut client = self.connect("control");
        writeln!(client, "{line}").expect("room");
        client
    }

    pub fn nbd(&self, name: &str) -> Option<Nbd> {
        self.sized(name, SECTORS * 512)
    }

    /// Connects a client to an export of this size.
    pub fn sized(&self, name: &str, bytes: u64) -> Option<Nbd> {
        Nbd::connect(self.connect("nbd"), name, bytes)
    }

    pub fn ask(&self, line: &str) -> Value {
        let mut client = self.connect("control");
        client.write_all(format!("{line}\n").as_bytes()).expect("room");
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).expect("a line");
        serde_json::from_str(&answer).expect("JSON")
    }

    pub fn nvme(&self) -> Nvme {
        let address = self.addresses.iter().find_map(|one| one.strip_prefix("nvme-tcp:"));
        let address = address.and_then(|one| one.split(' ').next()).expect("it listens");
        Nvme::new(TcpStream::connect(address).expect("it listens"))
    }

    pub fn end(mut self) -> Vec<Report> {
        self.handles.iter().for_each(Handle::stop);
        self.running.take().expect("once").join().expect("no panic")
    }
}

/// Client of an export, and the export's flags.
pub struct Nbd(UnixStream, pub u16);

impl Nbd {
    /// Connects; `None` if there is no such export.
    fn connect(mut client: UnixStream, name: &str, size: u64) -> Option<Nbd> {
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(b"IHAVEOPT\0\0\0\x01");
        bytes.extend((name.len() as u32).to_be_bytes());
        bytes.extend(name.as_bytes());
        client.write_all(&bytes).expect("room");
        let mut answer = [0; 18 + 10];
        client.read_exact(&mut answer).ok()?;
        assert_eq!(answer[18..26], size.to_be_bytes());
        Some(Nbd(client, u16::from_be_bytes([answer[26], answer[27]])))
    }

    /// Returns the error of a command of 4 KiB, 0 for success; `None` if the connection has ended.
    pub fn ask(&mut self, kind: u16, data: &[u8], into: &mut [u8]) -> Option<u32> {
        self.ask_at(0, kind, data, into)
    }

    fn send(&mut self, kind: u16, offset: u64, length: u32, data: &[u8]) -> Option<()> {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0; 8]);
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.0.write_all(&bytes).ok()
    }

    /// Like [`Nbd::ask`], from a byte of the drive on.
    pub fn ask_at(&mut self, offset: u64, kind: u16, data: &[u8], into: &mut [u8]) -> Option<u32> {
        self.send(kind, offset, 4096, data)?;
        let mut head = [0; 16];
        self.0.read_exact(&mut head).ok()?;
        let error = u32::from_be_bytes(head[4..8].try_into().expect("4"));
        if error == 0 {
            self.0.read_exact(into).ok()?;
        }
        Some(error)
    }

    pub fn write(&mut self, byte: u8) -> Option<u32> {
        self.ask(1, &[byte; 4096], &mut [])
    }

    /// Returns the first byte of the drive.
    pub fn read(&mut self) -> Option<u8> {
        let mut data = [0; 4096];
        (self.ask(0, &[], &mut data)? == 0).then_some(data[0])
    }
}

/// A host's connection to one queue.
pub struct Nvme {
    stream: TcpStream,
    input: Vec<u8>,
    decoder: Decoder,
    cid: u16,
}

impl Nvme {
    fn new(stream: TcpStream) -> Nvme {
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let decoder = Decoder { digests: Digests::default(), data_bytes_max: 1 << 20 };
        let mut this = Nvme { stream, input: Vec::new(), decoder, cid: 0 };
        this.send(&Pdu::IcReq(InitPdu::default()));
        this.receive();
        this
    }

    fn send(&mut self, pdu: &Pdu<'_>) {
        let mut bytes = Vec::new();
        encode(&mut bytes, pdu, Digests::default());
        self.stream.write_all(&bytes).expect("room");
    }

    /// Returns data and completion of the next PDU.
    fn receive(&mut self) -> (Vec<u8>, Option<Cqe>) {
        loop {
            let found = match self.decoder.decode(&self.input).expect("sound PDUs") {
                Some((Pdu::DataToHost(_, _, data), length)) => {
                    Some((length, data.bytes.to_vec(), None))
                }
                Some((Pdu::Response(cqe), length)) => Some((length, Vec::new(), Some(cqe))),
                Some((_, length)) => Some((length, Vec::new(), None)),
                None => None,
            };
            if let Some((length, data, cqe)) = found {
                self.input.drain(..length);
                return (data, cqe);
            }
            let mut bytes = [0; 4096];
            let got = self.stream.read(&mut bytes).expect("it answers");
            assert!(got > 0, "it stays connected");
            self.input.extend(&bytes[..got]);
        }
    }

    pub fn ask(&mut self, mut sqe: Sqe, bytes: u32, data: &[u8]) -> (Status, u64, Vec<u8>) {
        self.cid += 1;
        sqe.cid = self.cid.into();
        sqe.flags = 0x40;
        let kind = if data.is_empty() { SglKind::Transport } else { SglKind::InCapsule };
        sqe.set_sgl(Sgl { address: 0, bytes, kind });
        self.send(&Pdu::Command(&sqe, Data { bytes: data, is_damaged: false }));
        let mut found = Vec::new();
        loop {
            let (data, cqe) = self.receive();
            found.extend(data);
            if let Some(cqe) = cqe {
                return (cqe.status(), cqe.result.get(), found);
            }
        }
    }

    /// Connects this queue; returns the controller's identifier.
    pub fn connect(&mut self, nqn: &str, queue: u16, controller: u16) -> Result<u16, Status> {
        let command = FabricsType::Connect {
            format: 0,
            queue,
            entries_less_one: 31,
            attributes: 0,
            keep_alive_ms: 0,
        };
        let data = ConnectData {
            controller: controller.into(),
            subsystem_nqn: padded_nqn(nqn),
            host_nqn: padded_nqn("nqn.2026-11.test:host"),
            ..ConnectData::default()
        };
        match self.ask(command.to_sqe(0), 1024, data.as_bytes()) {
            (Status::SUCCESS, id, _) => Ok(id as u16),
            (status, ..) => Err(status),
        }
    }

    pub fn enable(&mut self) {
        let set = FabricsType::PropertySet { offset: 0x14, is_wide: false, value: 0x46_0001 };
        assert_eq!(self.ask(set.to_sqe(0), 0, &[]).0, Status::SUCCESS);
    }
}

#[test]
fn nbd_clients_reach_a_drive_by_its_name_and_the_first_without_one() {
    let served = Served::new(vec![drive("one"), drive("two")]);
    for (name, byte) in [("one", 1), ("two", 2)] {
        assert_eq!(served.nbd(name).expect("an export").write(byte), Some(0));
    }
    // In whichever event loop the connection is.
    for _ in 0..20 {
        for (name, byte) in [("one", 1), ("two", 2), ("", 1)] {
            assert_eq!(served.nbd(name).expect("an export").read(), Some(byte), "{name}");
        }
    }
    for unknown in ["three", "on", "One", "\u{1F4BE}"] {
        assert!(served.nbd(unknown).is_none(), "{unknown}");
    }
    let reports = served.end();
    let names: Vec<&str> = reports.iter().map(|report| report.drive.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!([reports[0].requests, reports[1].requests], [41, 21]);
}

#[test]
fn a_long_read_that_its_client_takes_slowly_holds_no_later_write() {
    let served = Served::new(vec![drive("one")]);
    let length = SECTORS as usize * 512;
    // One after the other, so that they are adjacent in memory; a part is never written.
    let data: Vec<u8> = (0..length / 2).map(|at| (at / 512) as u8).collect();
    let mut writer = served.nbd("one").expect("an export");
    let mut head = [0; 16];
    let mut write = |data: &[u8]| {
        writer.send(1, 0, data.len() as u32, data).expect("room");
        writer.0.read_exact(&mut head).expect("an answer");
        assert_eq!(head[4..8], [0; 4]);
    };
    write(&data);
    let mut reader = served.nbd("one").expect("an export");
    reader.send(0, 0, length as u32, &[]).expect("room");
    let mut head = [0; 16];
    reader.0.read_exact(&mut head).expect("an answer");
    assert_eq!(head[4..8], [0; 4]);
    // Data beyond the kernel's buffer is not sent yet.
    write(&vec![0xff; length]);
    let mut found = vec![1; length];
    reader.0.read_exact(&mut found).expect("the data");
    assert!(found[..length / 2] == data && found[length / 2..].iter().all(|&byte| byte == 0));
    served.end();
}

#[test]
fn a_power_cut_of_one_drive_leaves_the_clients_and_the_data_of_the_other() {
    let mut off = drive("off");
    off.after_cut = AfterCut::Refuse;
    let served = Served::new(vec![off, drive("on")]);
    let (mut off, mut on) = (served.nbd("off").expect("both"), served.nbd("on").expect("both"));
    assert_eq!((off.write(1), on.write(2)), (Some(0), Some(0)));
    assert!(served.ask("drive off power-cut")["lost_bytes"].as_u64() > Some(0));
    assert_eq!(off.read(), None, "its connection has ended");
    assert_eq!(on.read(), Some(2));
    for _ in 0..20 {
        let mut again = served.nbd("on").expect("it has power");
        assert_eq!(again.read(), Some(2));
        let again = served.nbd("off");
        assert_eq!(again.and_then(|mut client| client.read()), None, "no power");
    }
    assert_eq!(served.ask("drive off status")["is_off"], true);
    assert_eq!(served.ask("drive on status")["power_cuts"], 0);
    served.ask("drive off power-on");
    assert_eq!(served.nbd("off").expect("it has power").read(), Some(0));
    served.end();
}

#[test]
fn events_tell_what_has_happened_to_each_drive() {
    let served = Served::new(vec![drive("one"), drive("two")]);
    assert_eq!(served.nbd("one").expect("an export").write(1), Some(0));
    served.ask("drive one power-cut");
    served.ask(r#"drive one fault {"kind": "read-only", "after_s": 0}"#);
    served.ask("drive one snapshot now");
    let follower = served.follower("drive one follow");
    let mut seen: Vec<String> = Vec::new();
    for line in BufReader::new(follower).lines() {
        let event: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        assert_eq!((&event["drive"], &event["number"]), (&"one".into(), &seen.len().into()));
        seen.push(event["event"].as_str().expect("a word").to_owned());
        if seen.iter().any(|one| one == "read-only-begins") {
            served.ask("drive one no-faults");
        }
        if seen.last().is_some_and(|one| one == "read-only-ends") {
            break;
        }
    }
    let mut sorted = seen.clone();
    sorted.sort_unstable();
    let (connected, fault, read_only) = (["connected", "disconnected"], "fault-", "read-only-");
    let mut wanted = vec!["power-cut".to_owned(), "snapshot".to_owned()];
    wanted.extend(connected.map(str::to_owned));
    wanted.extend(
        ["begins", "ends"].iter().flat_map(|w| [fault, read_only].map(|f| f.to_owned() + w)),
    );
    wanted.sort_unstable();
    assert_eq!(sorted, wanted);
    assert_eq!(served.ask("drive two events")["events"], serde_json::json!([]));
    served.end();
}

#[test]
fn a_drive_that_throttles_tells_when_it_begins_and_ends() {
    let served = Served::new(vec![drive("one")]);
    let follower = served.follower("follow");
    let mut lines = BufReader::new(follower).lines();
    // The next request takes an hour, in which the drive warms up or cools down.
    served.ask(r#"fault {"kind": "latency", "extra_us": 3600000000}"#);
    for (celsius, event) in [(95, "throttle-begins"), (0, "throttle-ends")] {
        served.ask(&format!("ambient {celsius}"));
        assert_eq!(served.nbd("one").expect("an export").write(1), Some(0));
        loop {
            let line = lines.next().expect("it serves").expect("a line");
            let found: Value = serde_json::from_str(&line).expect("JSON");
            if found["event"] == event {
                break;
            }
        }
    }
    served.end();
}

#[test]
fn a_client_that_follows_and_does_not_read_holds_up_nobody() {
    let served = Served::new(vec![drive("one")]);
    let follower = served.follower("follow");
    let cuts = 3000;
    for _ in 0..cuts {
        served.ask("power-cut");
    }
    let kept = served.ask("events");
    let kept = kept["events"].as_array().expect("a list");
    assert_eq!(kept.len(), 1024);
    assert_eq!(kept.last().expect("some")["number"], cuts - 1);
    let mut next = 0;
    for line in BufReader::new(follower).lines() {
        let event: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let number = event["number"].as_u64().expect("a number");
        assert!(number >= next, "in order");
        next = number + 1;
        if next == cuts {
            break;
        }
    }
    served.end();
}

#[test]
fn faults_and_clocks_are_each_drive_s_own() {
    let served = Served::new(vec![drive("slow"), drive("other")]);
    let fault = r#"drive slow fault {"kind": "latency", "extra_us": 600000000}"#;
    assert_eq!(served.ask(fault)["faults"], 1);
    for name in ["slow", "other"] {
        assert_eq!(served.nbd(name).expect("an export").write(1), Some(0));
    }
    let clock = |name: &str| served.ask(&format!("drive {name} status"))["drive_s"].as_f64();
    assert!(clock("slow") > Some(600.0) && clock("other") < Some(600.0));
    served.end();
}

#[test]
fn the_control_socket_wants_to_know_which_drive_is_meant() {
    let served = Served::new(vec![drive("one"), drive("two")]);
    assert_eq!(served.ask("drives")["drives"], serde_json::json!(["one", "two"]));
    for (line, error) in [
        ("power-cut", "which drive? There are one, two"),
        ("status", "which drive? There are one, two"),
        ("drive three status", "there is no drive three"),
        ("drive", "which drive? There are one, two"),
        ("drive ", "which drive? There are one, two"),
        ("drive two", " is not a command"),
        ("drive two drive one status", "drive one status is not a command"),
    ] {
        assert_eq!(served.ask(line)["error"], error, "{line}");
    }
    for name in ["control", "nbd"] {
        let path = socket(served.folder.path(), name);
        let mode = path.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "its owner's alone");
    }
    let mut client = served.connect("control");
    client.write_all(b"drive two status\ndrive one status\ndrive two status\n").expect("room");
    let lines = BufReader::new(client).lines().take(3);
    let drives = lines.map(|line| {
        let answer: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        answer["drive"].as_str().expect("a name").to_owned()
    });
    assert_eq!(drives.collect::<Vec<_>>(), ["two", "one", "two"]);
    served.end();
    let alone = Served::new(vec![drive("one")]);
    assert_eq!(alone.ask("status")["drive"], "one");
    assert_eq!(alone.ask("drive one status")["drive"], "one");
    alone.end();
}

#[test]
fn nvme_hosts_find_all_drives_and_each_is_its_own_subsystem() {
    let served = Served::new(vec![drive("one"), drive("two")]);
    assert_eq!(served.nbd("two").expect("an export").write(2), Some(0));
    let mut discovery = served.nvme();
    discovery.connect(DISCOVERY_NQN, 0, 0xffff).expect("a controller");
    discovery.enable();
    let mut sqe = Sqe { opcode: 0x02, ..Sqe::default() };
    sqe.cdw10 = (0x70 | 767 << 16).into();
    let (status, _, log) = discovery.ask(sqe, 3072, &[]);
    assert_eq!((status, log[8]), (Status::SUCCESS, 2));
    for (entry, name) in [(1024, "one"), (2048, "two")] {
        let found = log[entry + 256..].split(|&byte| byte == 0).next().expect("a name");
        assert_eq!(found, nqn(name).as_bytes());
    }
    let mut serials = Vec::new();
    for (name, byte) in [("one", 0), ("two", 2)] {
        let mut admin = served.nvme();
        let id = admin.connect(&nqn(name), 0, 0xffff).expect("a controller");
        admin.enable();
        let sqe = Sqe { opcode: 0x06, cdw10: 1.into(), ..Sqe::default() };
        let (_, _, page) = admin.ask(sqe, 4096, &[]);
        serials.push(IdentifyController::read_from_bytes(&page).expect("a page").sn);
        let mut io = served.nvme();
        assert_eq!(io.connect(&nqn(name), 1, id), Ok(id));
        let sqe = Sqe { opcode: 0x02, nsid: 1.into(), cdw12: 7.into(), ..Sqe::default() };
        assert_eq!(io.ask(sqe, 4096, &[]), (Status::SUCCESS, 0, vec![byte; 4096]));
    }
    assert_ne!(serials[0], serials[1]);
    assert!(served.nvme().connect(&nqn("three"), 0, 0xffff).is_err());
    served.end();
}

#[test]
fn a_read_only_drive_says_so_and_is_not_changed() {
    let mut fixed = drive("fixed");
    fixed.is_read_only = true;
    let served = Served::new(vec![drive("free"), fixed]);
    const READ_ONLY: u16 = 1 << 1;
    assert_eq!(served.nbd("free").expect("an export").1 & READ_ONLY, 0);
    let mut client = served.nbd("fixed").expect("an export");
    assert_eq!(client.1 & READ_ONLY, READ_ONLY);
    // Not permitted: a write, a TRIM, zeros.
    assert_eq!((client.write(1), client.read()), (Some(1), Some(0)));
    for kind in [4, 6] {
        assert_eq!(client.ask(kind, &[], &mut []), Some(1));
    }
    let mut admin = served.nvme();
    let id = admin.connect(&nqn("fixed"), 0, 0xffff).expect("a controller");
    admin.enable();
    let identify = Sqe { opcode: 0x06, nsid: 1.into(), ..Sqe::default() };
    let (_, _, namespace) = admin.ask(identify, 4096, &[]);
    assert_eq!(namespace[99], 1, "attribute: write protected");
    let format = Sqe { opcode: 0x80, nsid: 1.into(), ..Sqe::default() };
    assert_eq!(admin.ask(format, 0, &[]).0, Status::NAMESPACE_WRITE_PROTECTED.dnr());
    let mut io = served.nvme();
    io.connect(&nqn("fixed"), 1, id).expect("a queue");
    let zeros = Sqe { opcode: 0x08, nsid: 1.into(), cdw12: 7.into(), ..Sqe::default() };
    assert_eq!(io.ask(zeros, 0, &[]).0, Status::NAMESPACE_WRITE_PROTECTED.dnr());
    assert_eq!(served.end()[1].waf, 0.0);
}

#[test]
fn drives_that_could_not_be_told_apart_are_refused() {
    let refused = |drives: Vec<DriveOptions>| {
        let options = Options {
            nvme_tcp: vec!["127.0.0.1:0".into()],
            memory_max_bytes: 1 << 30,
            ..Options::default()
        };
        Server::new(of_spec(drives), &options, &Control::default())
            .err()
            .expect("refused")
            .to_string()
    };
    assert!(refused(vec![drive("one"), drive("one")]).contains("two drives are called one"));
    let mut same = drive("two");
    same.identity.nqn = Some(nqn("one"));
    assert!(refused(vec![drive("one"), same]).contains("two drives have the NQN"));
}

#[test]
fn a_start_that_is_refused_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("foreign"), "theirs").expect("room");
    std::fs::create_dir(path("folder")).expect("room");
    mkfifoat(CWD, path("pipe"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    mkfifoat(CWD, path("pipes.identity"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    mkfifoat(CWD, path("parts.namespaces"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    let used = UnixListener::bind(path("used")).expect("a socket");
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = port.local_addr().map(|found| (port, found.to_string())).expect("a port");
    let count = || std::fs::read_dir(folder.path()).expect("a folder").count();
    let there = count();

    let unix = |name: &str| format!("unix:{}", path(name).display());
    let good = Options { nbd: vec![unix("nbd")], memory_max_bytes: 1 << 30, ..Options::default() };
    let data = DriveOptions { data: Some(path("new.dat")), ..drive("one") };
    let with_state = |name: &str| DriveOptions { state: Some(path(name)), ..data.clone() };
    let at = |nbd: String| (data.clone(), Options { nbd: vec![nbd], ..good.clone() });
    let nvme = |text: &str| Options { nvme_tcp: vec![text.to_owned()], ..good.clone() };
    let of = |serial: &str, nqn: &str| IdentityOptions {
        serial: Some(serial.to_owned()),
        nqn: Some(nqn.to_owned()),
        eui64: None,
    };
    let mut unnamed = with_state("state");
    unnamed.identity = of("a serial of words", "nqn.a");
    let mut faulty = with_state("state");
    faulty.faults = vec![toml::from_str("kind = \"latency\"").expect("a fault")];
    let mut guest = with_state("state");
    guest.vfio_user = Some(path("foreign"));
    let control = Options { control: Some("127.0.0.1:0".to_owned()), ..good.clone() };
    for (refused, (drive, options)) in [
        ("foreign is not a saved state", (with_state("foreign"), good.clone())),
        ("folder is not a regular file", (with_state("folder"), good.clone())),
        ("pipe is not a regular file", (with_state("pipe"), good.clone())),
        ("it is not a regular file", (with_state("pipes"), good.clone())),
        ("it is not a regular file", (with_state("parts"), good.clone())),
        ("cannot save a drive to", (with_state("nowhere/state"), good.clone())),
        ("cannot read a drive's state", (with_state("foreign/state"), good.clone())),
        ("must be 1 to 20 printable", (unnamed, good.clone())),
        ("extra_us", (faulty, good.clone())),
        ("exists already", (guest, good.clone())),
        ("foo is not an address", at("foo".to_owned())),
        ("exists and is not a socket", at(unix("foreign"))),
        ("is in use", at(unix("used"))),
        ("cannot be listened on", at(unix("nowhere/nbd"))),
        ("is in use", at(port.1.clone())),
        ("not HOST:PORT", (with_state("state"), nvme("unix:nvme"))),
        ("is not an address for a control socket", (with_state("state"), control)),
    ] {
        let error = Server::new(of_spec(vec![drive]), &options, &Control::default()).err();
        let error = error.expect(refused).to_string();
        assert!(error.contains(refused), "{refused}: {error}");
        assert_eq!(error.lines().count(), 2, "{error}");
        assert_eq!(count(), there, "{refused}");
    }
    drop(used);
    let server = Server::new(of_spec(vec![with_state("state")]), &good, &Control::default());
    let server = server.unwrap_or_else(|why| panic!("{why}"));
    assert!(path("new.dat").is_file() && path("state.identity").is_file());
    drop(server);
}

#[test]
fn too_little_memory_for_the_buffers_is_refused() {
    let options = Options { memory_max_bytes: 1 << 20, ..Options::default() };
    let refused = Server::new(of_spec(vec![drive("one")]), &options, &Control::default()).err();
    assert!(refused.expect("refused").to_string().contains("256 MiB at least"));
}

#[test]
fn a_client_that_keeps_to_no_protocol_ends_alone() {
    let served = Served::new(vec![drive("one"), drive("two")]);
    let mut good = served.nbd("two").expect("an export");
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"\0\0\0\x03IHAVEOPT\xff\xff"] {
        for name in ["nbd", "control"] {
            let mut client = served.connect(name);
            let _ = client.write_all(garbage);
            drop(client);
        }
    }
    assert_eq!((good.write(3), good.read()), (Some(0), Some(3)));
    served.end();
}

#[test]
fn a_drive_that_loses_what_no_flush_covers_says_that_it_has_a_volatile_cache() {
    for (loss, has_one) in [(PowerCutLoss::All, 0), (PowerCutLoss::Unflushed, 1)] {
        let mut drives = of_spec(vec![DriveOptions { loss, ..drive("one") }]);
        drives[0].0.power_loss_protection = true;
        let served = Served::of(drives);
        let mut admin = served.nvme();
        admin.connect(&nqn("one"), 0, 0xffff).expect("a controller");
        admin.enable();
        let sqe = Sqe { opcode: 0x06, cdw10: 1.into(), ..Sqe::default() };
        let (_, _, page) = admin.ask(sqe, 4096, &[]);
        let id = IdentifyController::read_from_bytes(&page).expect("a page");
        assert_eq!(id.vwc & 1, has_one, "{loss:?}");
        served.end();
    }
}
