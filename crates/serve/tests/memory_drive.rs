//! Smallest implementation of a drive: bytes in a vector; it completes requests when it is asked
//! for completions. `contract.rs` compares the engine with it; it also shows how to use the
//! protocols without the model. Left out: a write buffer (a power cut only loses commands in
//! flight), all faults other than read-only, events.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;

use drivebay_drive::{Counters, Health, Sanitize};
use drivebay_serve::{
    AccessState, Completion, Control, ControlError, Data, Drive, Event, Extent, Fault, Io, Kind,
    LatencyMonitor, NamespaceFigures, NamespaceTable, Namespaces, NewNamespace, Op, PowerCut,
    Report, Request, SessionId, Status,
};
use drivebay_units::Nanos;

const SECTOR: usize = 512;
/// Sectors that are a hole or data together.
const PAGE: usize = 8;

pub struct MemoryDrive {
    bytes: Vec<u8>,
    /// True for pages of 4 KiB with data.
    is_held: Vec<bool>,
    namespaces: NamespaceTable,
    inflight: VecDeque<Completion>,
    caller: SessionId,
    is_read_only: bool,
    latencies: LatencyMonitor,
    /// Sectors that cannot be read.
    bad: BTreeSet<u64>,
    cuts: u64,
    snapshots: HashMap<String, (Vec<u8>, Vec<bool>)>,
}

impl MemoryDrive {
    pub fn new(sectors: u64) -> MemoryDrive {
        MemoryDrive {
            bytes: vec![0; sectors as usize * SECTOR],
            is_held: vec![false; (sectors as usize).div_ceil(PAGE)],
            namespaces: NamespaceTable::whole(sectors, false),
            inflight: VecDeque::new(),
            caller: SessionId::numbered(0),
            is_read_only: false,
            latencies: LatencyMonitor::default(),
            bad: BTreeSet::new(),
            cuts: 0,
            snapshots: HashMap::new(),
        }
    }

    pub fn drive_of(&mut self, session: SessionId) -> &mut dyn Drive {
        self.caller = session;
        self
    }

    pub fn next_completion(&mut self) -> Option<Completion> {
        self.inflight.pop_front()
    }

    fn apply(&mut self, request: &Request, data: &[u8]) -> Status {
        let Request { op, lba, sectors, .. } = *request;
        let (first, count) = (lba as usize, sectors as usize);
        let end = lba.checked_add(sectors.into()).filter(|&end| end <= self.sectors());
        if matches!(op, Op::Flush | Op::HandleUpdate) {
            return Status::Ok;
        }
        if count == 0 || end.is_none() {
            return Status::OutOfRange;
        }
        if op != Op::Read && self.is_read_only {
            return Status::ReadOnly;
        }
        let spoiled = first as u64..(first + count) as u64;
        if op != Op::Read {
            self.bad.retain(|sector| !spoiled.contains(sector));
        } else if self.bad.range(spoiled).next().is_some() {
            return Status::MediaError;
        }
        match op {
            Op::Write { .. } => {
                self.bytes[first * SECTOR..][..data.len()].copy_from_slice(data);
                self.is_held[first / PAGE..(first + count).div_ceil(PAGE)].fill(true);
            }
            Op::Trim { .. } | Op::WriteZeroes { .. } => self.clear(first..first + count),
            Op::Read | Op::Flush | Op::HandleUpdate => {}
            Op::Append { .. } | Op::Zone(_) => unreachable!("it has no zones"),
        }
        Status::Ok
    }

    fn clear(&mut self, sectors: Range<usize>) {
        self.bytes[sectors.start * SECTOR..sectors.end * SECTOR].fill(0);
        let whole = sectors.start.div_ceil(PAGE)..sectors.end / PAGE;
        if whole.start < whole.end {
            self.is_held[whole].fill(false);
        }
    }
}

impl Io for MemoryDrive {
    fn submit(&mut self, request: Request, data: &[u8]) {
        let status = self.apply(&request, data);
        self.inflight.push_back(Completion { session: self.caller, request, status });
    }

    fn health(&mut self) -> Health {
        Health::default()
    }

    fn counters(&mut self) -> Counters {
        Counters::default()
    }

    fn latency_monitor(&mut self) -> &mut LatencyMonitor {
        &mut self.latencies
    }

    fn now(&self) -> Nanos {
        Nanos::ZERO
    }

    fn spoil(&mut self, lba: u64, sectors: u64) -> bool {
        self.bad.extend(lba..lba + sectors);
        true
    }

    fn is_read_only(&mut self) -> bool {
        self.is_read_only
    }

    fn is_off(&self) -> bool {
        false
    }
}

impl Data for MemoryDrive {
    fn sectors(&self) -> u64 {
        (self.bytes.len() / SECTOR) as u64
    }

    fn used_sectors(&self) -> u64 {
        (self.is_held.iter().filter(|held| **held).count() * PAGE) as u64
    }

    fn zeroes_fast(&self) -> bool {
        true
    }

    fn read(&self, lba: u64, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(&self.bytes[lba as usize * SECTOR..][..into.len()]);
        Ok(())
    }

    fn append(&self, lba: u64, sectors: u32, out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(&self.bytes[lba as usize * SECTOR..][..sectors as usize * SECTOR]);
        Ok(())
    }

    fn pieces<'a>(&'a self, lba: u64, sectors: u32, into: &mut [IoSlice<'a>]) -> usize {
        into[0] = IoSlice::new(&self.bytes[lba as usize * SECTOR..][..sectors as usize * SECTOR]);
        1
    }

    fn extents(&self, lba: u64, sectors: u64, most: usize) -> io::Result<Vec<Extent>> {
        let mut found: Vec<Extent> = Vec::new();
        for sector in lba..lba + sectors {
            let data = self.is_held[sector as usize / PAGE];
            let is_room = found.len() < most;
            match found.last_mut() {
                Some(last) if last.data == data => last.sectors += 1,
                _ if !is_room => break,
                _ => found.push(Extent { sectors: 1, data }),
            }
        }
        Ok(found)
    }

    fn erase(&mut self, sectors: Range<u64>, _how: Sanitize) -> io::Result<Nanos> {
        self.clear(sectors.start as usize..sectors.end as usize);
        self.bad.retain(|sector| !sectors.contains(sector));
        Ok(Nanos::ZERO)
    }

    fn overwrite(&mut self, _how: Sanitize, pattern: u32) -> io::Result<(Nanos, bool)> {
        let page = pattern.to_le_bytes().repeat(PAGE * SECTOR / 4);
        let pages = self.bytes.chunks_mut(PAGE * SECTOR).zip(&self.is_held);
        pages.filter(|(_, is_held)| **is_held).for_each(|(held, _)| held.copy_from_slice(&page));
        self.bad.clear();
        Ok((Nanos::ZERO, true))
    }
}

impl Namespaces for MemoryDrive {
    fn table(&self) -> &NamespaceTable {
        &self.namespaces
    }

    fn create_namespace(&mut self, wanted: NewNamespace) -> Result<u32, ControlError> {
        let sectors = wanted.sectors;
        let nsid = self.namespaces.create(wanted)?;
        let first = self.namespace(nsid).expect("it was made").first;
        self.erase(first..first + sectors, Sanitize::Crypto)?;
        Ok(nsid)
    }

    fn format_namespace(&mut self, nsid: u32, block_shift: u8) -> Result<(), ControlError> {
        Ok(self.namespaces.format(nsid, block_shift)?)
    }

    fn delete_namespace(&mut self, nsid: u32) -> Result<(), ControlError> {
        Ok(self.namespaces.delete(nsid).map(drop)?)
    }
}

impl Control for MemoryDrive {
    fn report(&mut self) -> Report {
        let capacity_bytes = self.bytes.len() as u64;
        Report { capacity_bytes, power_cuts: self.cuts, ..Report::default() }
    }

    fn events(&self, _from: u64, _most: usize) -> Vec<Event> {
        Vec::new()
    }

    fn power_cut(&mut self) -> io::Result<PowerCut> {
        self.cuts += 1;
        self.inflight.clear();
        Ok(PowerCut::default())
    }

    fn power_on(&mut self) {}

    fn set_ambient_c(&mut self, _ambient_c: f64) {}

    fn mark(&mut self, _text: &str) -> Result<(), ControlError> {
        Err(ControlError::NotRecorded)
    }

    fn add_fault(&mut self, fault: Fault) -> Result<(), ControlError> {
        self.is_read_only |= fault.kind == Kind::ReadOnly;
        Ok(())
    }

    fn clear_faults(&mut self) {
        self.is_read_only = false;
    }

    fn set_access(
        &mut self,
        portal: usize,
        _state: AccessState,
    ) -> Result<Vec<AccessState>, ControlError> {
        Err(ControlError::Portal(portal))
    }

    fn resize(&mut self, nsid: Option<u32>, bytes: u64) -> Result<NamespaceFigures, ControlError> {
        let nsid = nsid.or(self.namespace_ids().first().copied()).unwrap_or(1);
        let lost = self.namespaces.resize(nsid, bytes)?;
        self.erase(lost, Sanitize::Crypto)?;
        Ok(self.namespace(nsid).expect("it was resized").figures())
    }

    fn snapshot(&mut self, name: &str) -> Result<Option<f64>, ControlError> {
        self.snapshots.insert(name.to_owned(), (self.bytes.clone(), self.is_held.clone()));
        Ok(Some(0.0))
    }

    fn restore(&mut self, name: &str) -> Result<f64, ControlError> {
        let found = self.snapshots.get(name).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        (self.bytes, self.is_held) = found.clone();
        self.inflight.clear();
        Ok(0.0)
    }

    fn forget_snapshot(&mut self, name: &str) -> Result<f64, ControlError> {
        let gone = self.snapshots.remove(name);
        gone.map(|_| 0.0).ok_or(io::Error::from(io::ErrorKind::NotFound).into())
    }

    fn clone_snapshot(&mut self, name: &str, folder: &Path) -> Result<f64, ControlError> {
        let found = self.snapshots.get(name).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        std::fs::create_dir(folder)?;
        std::fs::write(folder.join("data"), &found.0)?;
        Ok(0.0)
    }
}
