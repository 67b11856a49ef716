//! Host for tests: connects, posts commands, sends requested data, collects completions.
//!
//! Bytes go directly into the server's state machine; time is the drive's own, unpaced.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::OnceLock;

use drivebay_drive::samples::{SM951_AHCI_512, SM951_NVME_256, WINDOWS_8_1_Z97};
use drivebay_drive::{Device, Spec, whole_profile};
use drivebay_serve::nvme::tcp::Protocol;
use drivebay_serve::nvme::{Identity, Shared, Subsystem, Subsystems};
use drivebay_serve::{
    Control as _, DriveIdentity, Engine, MemoryLimit, NamespaceTable, Op, Pace, Request, SessionId,
    Store,
};
use drivebay_wire::nvme::{
    AdminOpcode, Cns, ConnectData, Cqe, Data, DataPdu, Decoder, Digests, FLAG_LAST, FabricsType,
    Feature, InitPdu, LogPage, NvmOpcode, Pdu, Sgl, SglKind, Sqe, Status, encode, padded_nqn,
};
use zerocopy::IntoBytes;

/// NQN of the catalog's drive.
pub const NQN: &str = "nqn.2026-11.localhost.drivebay:sm951-nvme-256:test0001";
/// Limits of [`Rig::zoned`]'s drive: active and open zones.
pub const ZONED_ACTIVE: u32 = 5;
pub const ZONED_OPEN: u32 = 3;
/// Entries of a test's queue.
pub const ENTRIES: u16 = 32;
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
/// Most data in the capsule; more is asked for.
const IN_CAPSULE: usize = 16 << 10;

/// Drive and its server.
pub struct Rig {
    pub engine: Engine,
    pub subsystem: Shared,
    sessions: u32,
    controller: u16,
    /// TCP ports of the portals, and of the one at which hosts connect.
    ports: Vec<u16>,
    pub port: u16,
}

/// Messages of the server other than data and completions.
#[derive(Debug, PartialEq)]
pub enum Said {
    Initialized,
    Terminated(u16),
}

/// Connection of a host.
pub struct Host {
    protocol: Protocol,
    me: SessionId,
    decoder: Decoder,
    cid: u16,
    outgoing: HashMap<u16, Vec<u8>>,
    incoming: HashMap<u16, Vec<u8>>,
    done: HashMap<u16, Cqe>,
    said: Vec<Said>,
    /// True if requested data is sent in two pieces.
    pub split: bool,
    /// Host identifier.
    pub id: [u8; 16],
    pub nqn: &'static str,
    /// Offset of data in the last PDU.
    pub data_at: Option<usize>,
    /// Flags of the commands.
    flags: u8,
}

impl Host {
    pub fn is_over(&self) -> bool {
        self.protocol.is_over()
    }

    /// Identifier of the last command.
    pub fn cid(&self) -> u16 {
        self.cid
    }

    pub fn last(&self) -> Option<&Said> {
        self.said.last()
    }
}

pub fn no_data() -> Data<'static> {
    Data { bytes: &[], is_damaged: false }
}

/// Drive of 1 GB with the catalog's names; `ailment` has the format of a file in `ailments/`.
fn small_drive(ailment: &str) -> Spec {
    let base = SM951_AHCI_512
        .replace("blocks_per_plane = { value = 1024", "blocks_per_plane = { value = 64");
    let text = SM951_NVME_256
        .replace("value = 500118192", "value = 2097152")
        .replace("dies_per_channel = { value = 4", "dies_per_channel = { value = 1")
        .replace(
            "threshold_mb = { value = 2450, range = [500, 18000]",
            "threshold_mb = { value = 300",
        )
        .replace("target_mb = { value = 1500, range = [500, 3000]", "target_mb = { value = 200");
    let base =
        whole_profile(WINDOWS_8_1_Z97, &base).unwrap_or_else(|why| panic!("{why}")).to_string();
    let mut whole = whole_profile(&base, &text).unwrap_or_else(|why| panic!("{why}"));
    whole["gc"].as_table_mut().expect("a section").remove("idle");
    let mut ailment: toml::Table = ailment.parse().expect("TOML");
    ailment.remove("ailment");
    let whole = whole_profile(&whole.to_string(), &ailment.to_string()).expect("sections");
    Spec::from_toml(&whole.to_string()).unwrap_or_else(|why| panic!("{why}"))
}

/// Probably turns a command into an existing one, for an existing log page or feature; `chance`
/// selects it.
pub fn known(mut sqe: Sqe, is_admin: bool, chance: u8) -> Sqe {
    let pick = |all: &[u8]| all[usize::from(chance) % all.len()];
    let codes = |all: &mut dyn Iterator<Item = u8>| all.collect::<Vec<u8>>();
    let admin = codes(&mut AdminOpcode::ALL.iter().map(|&one| one as u8));
    let io = codes(&mut NvmOpcode::ALL.iter().map(|&one| one as u8));
    sqe.opcode = pick(if is_admin { &admin } else { &io });
    let about = match AdminOpcode::from_code(sqe.opcode).filter(|_| is_admin) {
        Some(AdminOpcode::GetLogPage) => codes(&mut LogPage::ALL.iter().map(|&one| one as u8)),
        Some(AdminOpcode::GetFeatures | AdminOpcode::SetFeatures) => {
            codes(&mut Feature::ALL.iter().map(|&one| one as u8))
        }
        Some(AdminOpcode::Identify) => codes(&mut Cns::ALL.iter().map(|&one| one as u8)),
        _ => return sqe,
    };
    let code = about[sqe.cdw10.get() as usize % about.len()];
    // The only endurance group, or none.
    sqe.cdw11 = (sqe.cdw11.get() & 0x1_ffff).into();
    sqe.cdw10 = (sqe.cdw10.get() & !0xff | u32::from(code)).into();
    sqe
}

/// A command of an I/O queue.
pub fn io(opcode: u8, lba: u64, blocks: u32) -> Sqe {
    Sqe {
        opcode,
        nsid: 1.into(),
        cdw10: (lba as u32).into(),
        cdw11: ((lba >> 32) as u32).into(),
        cdw12: (blocks - 1).into(),
        ..Sqe::default()
    }
}

impl Rig {
    pub fn new() -> Rig {
        static SPEC: OnceLock<Spec> = OnceLock::new();
        Rig::of(SPEC.get_or_init(|| small_drive("")).clone())
    }

    /// Creates a rig whose drive has this number of placement handles.
    pub fn placed(handles: usize, isolation: &str) -> Rig {
        Rig::placed_in(1, handles, isolation)
    }

    /// Creates a rig whose drive has these handles in each of `groups` reclaim groups.
    pub fn placed_in(groups: usize, handles: usize, isolation: &str) -> Rig {
        let text = "source = \"guess: a test's\"";
        Rig::of(small_drive(&format!(
            "[fdp]\nhandles = {{ value = {handles}, {text} }}\nisolation = {{ value = \"{isolation}\", {text} }}\n\
             reclaim_groups = {{ value = {groups}, {text} }}"
        )))
    }

    /// Creates a rig whose drive has 20 zones of 6 MiB, at every 8 MiB.
    pub fn zoned() -> Rig {
        Rig::zoned_with("")
    }

    /// Creates a rig with zones and more sections in the profile.
    pub fn zoned_with(more: &str) -> Rig {
        let value = |key: &str, value: u32| {
            format!("{key} = {{ value = {value}, source = \"guess: a test's\" }}\n")
        };
        let sections: [(&str, &[(&str, u32)]); 4] = [
            ("drive", &[("capacity_sectors", 20 * 6 * 2048)]),
            ("nand", &[("pages_per_block", 24)]),
            ("gc", &[("threshold_mb", 60), ("target_mb", 40)]),
            (
                "zns",
                &[
                    ("zone_superblocks", 1),
                    ("active", ZONED_ACTIVE),
                    ("open", ZONED_OPEN),
                    ("append_us", 2),
                    ("append_latency_us", 1),
                    ("write_latency_us", 1),
                    ("reset_us", 1000),
                    ("reset_us_per_gib", 10_000),
                    ("close_us", 500),
                    ("slice_us", 40),
                ],
            ),
        ];
        let text = sections.map(|(name, keys)| {
            let keys = keys.iter().map(|&(key, number)| value(key, number)).collect::<String>();
            format!("[{name}]\n{keys}")
        });
        Rig::of(small_drive(&(text.concat() + more)))
    }

    /// Creates a rig whose drive's Sanitize supports overwrite.
    pub fn overwriting() -> Rig {
        Rig::sick(
            "[controller]\nsanitize_overwrite = { value = true, source = \"guess: a test's\" }",
        )
    }

    /// Like [`Rig::zoned`], with random write areas of 64 KiB for two zones, in steps of 16 KiB.
    pub fn with_areas() -> Rig {
        let guess = "source = \"guess: a test's\"";
        Rig::zoned_with(&format!(
            "[write_buffer]\npower_loss_protection = {{ value = true, {guess} }}\n\
             [zns.zrwa]\nzones = {{ value = 2, {guess} }}\nsize_kib = {{ value = 64, {guess} }}\n\
             granularity_kib = {{ value = 16, {guess} }}\n"
        ))
    }

    /// Creates a rig with a sick drive, in the format of a file in `ailments/`.
    pub fn sick(ailment: &str) -> Rig {
        Rig::of(small_drive(ailment))
    }

    /// Creates a rig whose drive has portals at these TCP ports.
    pub fn with_portals(ports: &[u16]) -> Rig {
        Rig::at(small_drive(""), ports)
    }

    fn of(spec: Spec) -> Rig {
        Rig::at(spec, &[4420])
    }

    fn at(spec: Spec, ports: &[u16]) -> Rig {
        let sectors = spec.capacity_bytes() / 512;
        let drive = DriveIdentity::of_serial("TEST0001", "sm951-nvme-256", 0x00_2538);
        let mut identity = Identity::new(&spec, drive, true);
        identity.portals = ports.len();
        let subsystem = Subsystem::shared(identity, &NamespaceTable::whole(sectors, false));
        let store = Store::memory(sectors, &MemoryLimit::new(1 << 30, 1 << 30, 1 << 30));
        let mut engine = Engine::new(Device::new(spec, 1).expect("memory"), store, Pace::None, 1);
        engine.set_portals(ports.len());
        let (port, ports) = (ports[0], ports.to_vec());
        Rig { engine, subsystem, sessions: 0, controller: 0, ports, port }
    }

    /// Identifier of the newest controller.
    pub fn controller(&self) -> u16 {
        self.controller
    }

    pub fn blocks(&self) -> u64 {
        self.engine.store().sectors()
    }

    /// Opens a connection without sending anything.
    pub fn raw(&mut self) -> Host {
        self.sessions += 1;
        let at = |&port: &u16| SocketAddr::from(([127, 0, 0, 1], port));
        let memory = MemoryLimit::new(0, 0, 1 << 30);
        let subsystems = Subsystems::new([self.subsystem.clone()], &memory);
        subsystems.set_portals(self.ports.iter().map(at).collect());
        Host {
            protocol: Protocol::new(subsystems, 0, at(&self.port)),
            me: SessionId::numbered(self.sessions),
            decoder: Decoder { digests: Digests::default(), data_bytes_max: 1 << 20 },
            cid: 0,
            outgoing: HashMap::new(),
            incoming: HashMap::new(),
            done: HashMap::new(),
            said: Vec::new(),
            split: false,
            id: [0; 16],
            nqn: HOST,
            data_at: None,
            flags: 0x40,
        }
    }

    /// Opens a connection with these digests, not connected to a queue.
    pub fn open(&mut self, digests: Digests) -> Host {
        self.open_aligned(digests, 0)
    }

    /// Opens a connection with data at multiples of `alignment` dwords, minus one.
    pub fn open_aligned(&mut self, digests: Digests, alignment: u8) -> Host {
        let mut host = self.raw();
        let request = InitPdu { digests: digests.bits(), alignment, ..InitPdu::default() };
        let mut bytes = Vec::new();
        encode(&mut bytes, &Pdu::IcReq(request), Digests::default());
        self.bytes(&mut host, &bytes);
        assert_eq!(host.said, [Said::Initialized]);
        host.decoder.digests = digests;
        host
    }

    pub fn connect_to(
        &mut self,
        host: &mut Host,
        nqn: &str,
        queue: u16,
        controller: u16,
    ) -> Result<u16, Status> {
        let command = FabricsType::Connect {
            format: 0,
            queue,
            entries_less_one: ENTRIES - 1,
            attributes: 0,
            keep_alive_ms: 0,
        };
        let data = ConnectData {
            controller: controller.into(),
            host_id: host.id,
            subsystem_nqn: padded_nqn(nqn),
            host_nqn: padded_nqn(host.nqn),
            ..ConnectData::default()
        };
        let (status, result, _) = self.admin(host, command.to_sqe(0), 1024, data.as_bytes());
        if status.is_success() { Ok(result as u16) } else { Err(status) }
    }

    pub fn enable(&mut self, admin: &mut Host) {
        // All command sets.
        self.configure(admin, 0x46_0061);
    }

    pub fn configure(&mut self, admin: &mut Host, value: u64) {
        let set = FabricsType::PropertySet { offset: 0x14, is_wide: false, value };
        assert_eq!(self.admin(admin, set.to_sqe(0), 0, &[]).0, Status::SUCCESS);
    }

    pub fn property(&mut self, admin: &mut Host, offset: u32) -> u64 {
        let get = FabricsType::PropertyGet { offset, is_wide: false };
        let (status, result, _) = self.admin(admin, get.to_sqe(0), 0, &[]);
        assert_eq!(status, Status::SUCCESS);
        result
    }

    /// Connects queue 0, enabled, of a new controller; or an I/O queue of the newest one.
    pub fn connect(&mut self, queue: u16, digests: Digests) -> Host {
        let mut host = self.open(digests);
        let controller = if queue == 0 { 0xffff } else { self.controller };
        let id = self.connect_to(&mut host, NQN, queue, controller).expect("a queue");
        if queue == 0 {
            self.controller = id;
            self.enable(&mut host);
        }
        host
    }

    pub fn identify(&mut self, admin: &mut Host, cns: Cns) -> Vec<u8> {
        let code = if cns == Cns::Controller { 1_u32 } else { 0 };
        let sqe = Sqe { opcode: 0x06, nsid: 1.into(), cdw10: code.into(), ..Sqe::default() };
        let (status, _, page) = self.admin(admin, sqe, 4096, &[]);
        assert_eq!(status, Status::SUCCESS);
        page
    }

    /// Executes a command; returns status, result and data.
    pub fn admin(
        &mut self,
        host: &mut Host,
        sqe: Sqe,
        bytes: u32,
        data: &[u8],
    ) -> (Status, u64, Vec<u8>) {
        let cid = self.post(host, sqe, bytes, data);
        let cqe = host.done.remove(&cid).unwrap_or_else(|| panic!("no answer to {sqe:?}"));
        (cqe.status(), cqe.result.get(), host.incoming.remove(&cid).unwrap_or_default())
    }

    /// Executes a command of an I/O queue; returns status and data.
    pub fn io(&mut self, host: &mut Host, sqe: Sqe, bytes: u32, data: &[u8]) -> (Status, Vec<u8>) {
        let (status, _, data) = self.admin(host, sqe, bytes, data);
        (status, data)
    }

    pub fn reply(&mut self, host: &mut Host, cid: u16) -> Option<(Status, u64)> {
        host.done.remove(&cid).map(|cqe| (cqe.status(), cqe.result.get()))
    }

    /// Number of answers that were not taken yet.
    pub fn answers(&self, host: &Host) -> usize {
        host.done.len()
    }

    /// Posts a command, and waits until nothing is in flight.
    pub fn post(&mut self, host: &mut Host, sqe: Sqe, bytes: u32, data: &[u8]) -> u16 {
        let cid = self.post_with(host, sqe, bytes, data);
        self.settle(&mut [host]);
        cid
    }

    /// Posts a command without waiting for anything.
    pub fn post_only(&mut self, host: &mut Host, sqe: Sqe, bytes: u32) {
        self.post_with(host, sqe, bytes, &[]);
    }

    /// Posts a command with these flags and waits.
    pub fn post_flags(&mut self, host: &mut Host, sqe: Sqe, bytes: u32, flags: u8) {
        host.flags = flags;
        self.post(host, sqe, bytes, &[]);
        host.flags = 0x40;
    }

    /// Like [`Rig::post_only`], with data; its status is ignored.
    pub fn post_loose(&mut self, host: &mut Host, sqe: Sqe, bytes: u32, data: &[u8]) {
        self.post_with(host, sqe, bytes, data);
    }

    fn post_with(&mut self, host: &mut Host, mut sqe: Sqe, bytes: u32, data: &[u8]) -> u16 {
        host.cid += 1;
        sqe.cid = host.cid.into();
        let fused = sqe.flags;
        let inside = !data.is_empty() && data.len() <= IN_CAPSULE;
        let kind = if inside { SglKind::InCapsule } else { SglKind::Transport };
        sqe.set_sgl(Sgl { address: 0, bytes, kind });
        sqe.flags = host.flags | fused & 3;
        if !inside && !data.is_empty() {
            host.outgoing.insert(host.cid, data.to_vec());
        }
        let capsule = Data { bytes: if inside { data } else { &[] }, is_damaged: false };
        let mut out = Vec::new();
        encode(&mut out, &Pdu::Command(&sqe, capsule), host.decoder.digests);
        self.bytes(host, &out);
        host.cid
    }

    /// Sends bytes to the server, and takes its immediate answers.
    pub fn bytes(&mut self, host: &mut Host, bytes: &[u8]) {
        self.engine.begin_iteration();
        let mut taken = 0;
        loop {
            let more = host.protocol.input(self.engine.drive_of(host.me), &bytes[taken..]);
            taken += more;
            self.hear(host);
            if more == 0 || taken == bytes.len() {
                return;
            }
        }
    }

    pub fn poll(&mut self, host: &mut Host) {
        host.protocol.poll(self.engine.drive_of(host.me));
        self.hear(host);
    }

    /// Lets this many seconds of the drive's time pass.
    pub fn pass(&mut self, seconds: u64) {
        let slow = format!(r#"{{"kind": "latency", "extra_us": {}}}"#, seconds * 1_000_000);
        self.engine.add_fault(serde_json::from_str(&slow).expect("a fault")).expect("a fault");
        let read = Request::new(Op::Read, 0, 1, 0);
        self.engine.begin_iteration();
        self.engine.drive_of(SessionId::numbered(0)).submit(read, &[]);
        assert!(self.engine.next_completion().is_some());
        self.engine.clear_faults();
        self.engine.begin_iteration();
    }

    pub fn tick(&mut self, host: &mut Host) {
        host.protocol.tick(self.engine.drive_of(host.me));
        self.poll(host);
    }

    /// Serves until nothing is in flight.
    pub fn settle(&mut self, hosts: &mut [&mut Host]) {
        for _ in 0..1000 {
            self.engine.begin_iteration();
            let mut any = false;
            while let Some(completion) = self.engine.next_completion() {
                any = true;
                let id = completion.session;
                for host in hosts.iter_mut().filter(|host| host.me == id) {
                    host.protocol.complete(self.engine.drive_of(id), completion);
                }
            }
            for host in hosts.iter_mut() {
                self.poll(host);
            }
            if !any && self.engine.outstanding() == 0 {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// Takes the server's messages, and sends requested data.
    fn hear(&mut self, host: &mut Host) {
        let bytes = host.protocol.output().to_vec();
        host.protocol.sent(bytes.len());
        let (mut at, mut asked) = (0, Vec::new());
        while let Some((pdu, length)) = host.decoder.decode(&bytes[at..]).expect("sound PDUs") {
            at += length;
            match pdu {
                Pdu::IcResp(_) => host.said.push(Said::Initialized),
                Pdu::ControllerTerm(term) => host.said.push(Said::Terminated(term.status.get())),
                Pdu::Response(cqe) => {
                    assert!(host.done.insert(cqe.cid.get(), cqe).is_none(), "answered twice");
                }
                Pdu::DataToHost(head, flags, data) => {
                    assert!(!data.is_damaged && head.offset.get() == 0);
                    host.data_at = Some(bytes[at - length + 3].into());
                    assert_eq!(flags, FLAG_LAST);
                    host.incoming.insert(head.cid.get(), data.bytes.to_vec());
                }
                Pdu::R2t(r2t) => asked.push(r2t),
                other => panic!("not for a host: {other:?}"),
            }
        }
        assert_eq!(at, bytes.len(), "whole PDUs");
        for r2t in asked {
            let Some(data) = host.outgoing.remove(&r2t.cid.get()) else { continue };
            assert_eq!((r2t.offset.get(), r2t.bytes.get()), (0, data.len() as u32));
            let middle = if host.split { data.len() / 3 } else { 0 };
            let mut out = Vec::new();
            for range in [0..middle, middle..data.len()].into_iter().filter(|r| !r.is_empty()) {
                let flags = if range.end == data.len() { FLAG_LAST } else { 0 };
                let (from, bytes) = (range.start as u32, range.len() as u32);
                let head = DataPdu::new(r2t.cid.get(), r2t.tag.get(), from, bytes);
                let data = Data { bytes: &data[range], is_damaged: false };
                encode(&mut out, &Pdu::DataToController(head, flags, data), host.decoder.digests);
            }
            self.bytes(host, &out);
        }
    }
}
