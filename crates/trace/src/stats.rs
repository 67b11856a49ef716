//! Statistics of a trace, in one pass over its requests and in bounded memory.
//!
//! Definitions: `docs/concepts/traces.md`; the buckets are those of the published tables of the
//! AnandTech Storage Bench. Only reads and writes count; trims and flushes only keep the drive
//! busy. Bounds: outstanding requests 8 MiB; sequential streams 32 MiB (65,536 devices); touched
//! pages about 620 MiB at most (4,194,304 regions of 2 MiB). With more regions, footprint and
//! overwrites are null.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use drivebay_units::refuse_if;
use serde::{Serialize, Serializer};

use crate::request::{DEVICES_MAX, Op, Request};

/// Number of previous I/Os of the same kind and device that a sequential one may continue: the
/// depth of SATA's queue, so that as many streams are distinguished as a drive can see at once.
pub const STREAMS: usize = 32;
/// Bytes of a page of the footprint.
pub const PAGE_BYTES: u64 = 4096;
/// Most outstanding requests that are counted; beyond it, the one that ends first is dropped.
const OUTSTANDING_MAX: usize = 1 << 20;
/// Most regions of 2 MiB that are tracked.
const REGIONS_MAX: usize = 1 << 22;
/// Least share of requests with a response time for which depths and idle time are reported.
const ANSWERED_PERCENT: u64 = 90;

/// Sizes of the published tables, between the smaller ones and all others.
pub(crate) const TABLE_KIB: [u64; 6] = [4, 8, 16, 32, 64, 128];
/// Largest depth of each bucket except the last.
const DEPTH_BOUNDS: [u64; 7] = [1, 2, 3, 5, 10, 20, 32];

const SIZES: [&str; 8] = ["<4KB", "4KB", "8KB", "16KB", "32KB", "64KB", "128KB", "other"];
const DEPTHS: [&str; 8] = ["1", "2", "3", "4-5", "6-10", "11-20", "21-32", ">32"];

/// Shares of buckets, from 0 to 1, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    names: [&'static str; 8],
    /// Shares in the order of the published tables.
    pub values: [f64; 8],
}

impl Shares {
    /// Returns each bucket's name and share.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.names.into_iter().zip(self.values)
    }
}

impl Serialize for Shares {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.named())
    }
}

/// Statistics of a trace. Fields are `None` if the trace lacks the information or has no such I/O.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of trims.
    pub trims: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Shares of reads and writes by size.
    pub size_share: Option<Shares>,
    /// Shares by outstanding requests at arrival, including the request itself.
    pub queue_depth_share: Option<Shares>,
    /// Mean number of outstanding requests at arrival.
    pub queue_depth_mean: Option<f64>,
    /// Share of I/Os that begin where one of the last [`STREAMS`] of the same kind and device
    /// ended.
    pub sequential_share: Option<f64>,
    /// Seconds with nothing outstanding.
    pub idle_s: Option<f64>,
    /// Seconds from the first arrival to the last arrival or completion.
    pub duration_s: f64,
    /// Bytes of the distinct 4 KiB pages read or written.
    pub footprint_bytes: Option<u64>,
    /// Share of page writes to pages that the trace had written before.
    pub overwrite_share: Option<f64>,
    /// Share of page reads from pages that the trace had not written before.
    pub unwritten_read_share: Option<f64>,
    /// Number of devices.
    pub devices: u64,
    /// Lowest address that is read or written, of any device.
    pub address_start_bytes: Option<u64>,
    /// End of the highest address, of any device.
    pub address_end_bytes: Option<u64>,
}

/// Collects [`Info`] from requests in time order.
#[derive(Default)]
pub struct Stats {
    /// Reads, writes, trims and flushes.
    counts: [u64; 4],
    bytes: [u64; 2],
    sizes: [u64; 8],
    depths: [u64; 8],
    depth_sum: u64,
    outstanding: BinaryHeap<Reverse<u64>>,
    answered: u64,
    sequential: u64,
    idle_ns: u64,
    busy_until_ns: u64,
    began_ns: Option<u64>,
    devices: HashMap<u32, u32>,
    last_device: Option<(u32, u32)>,
    streams: Vec<[Ends; 2]>,
    /// Lowest address, and the end of the highest.
    addresses: Option<(u64, u64)>,
    pages: Pages,
    /// True if there are too many pages to track.
    scattered: bool,
}

/// Ends of the last I/Os of one kind on one device.
#[derive(Clone)]
struct Ends {
    at: [u64; STREAMS],
    next: u8,
}

/// Error: more devices than a trace can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyDevices;

impl Stats {
    /// Adds the next requests.
    ///
    /// # Errors
    /// If there are more than 65,536 devices.
    pub fn add(&mut self, requests: &[Request]) -> Result<(), TooManyDevices> {
        requests.iter().try_for_each(|request| self.add_request(request))
    }

    /// Adds a request. Cost: a heap push and pop, a scan of 32 numbers, a hash look-up per 2 MiB
    /// touched.
    fn add_request(&mut self, request: &Request) -> Result<(), TooManyDevices> {
        let at = request.at.0;
        if self.began_ns.is_none() {
            self.began_ns = Some(at);
            self.busy_until_ns = at;
        }
        self.idle_ns += at.saturating_sub(self.busy_until_ns);
        let end = at.saturating_add(request.response.map_or(0, |response| response.0));
        self.busy_until_ns = self.busy_until_ns.max(end);
        let moves_data = request.op.moves_data();
        let kind = if moves_data { usize::from(request.op.writes()) } else { request.op as usize };
        self.counts[kind] += 1;
        if !moves_data {
            return Ok(());
        }
        self.bytes[kind] += request.bytes;
        self.sizes[size_bucket(request.bytes)] += 1;
        self.depth(at, end, request.response.is_some());
        let span = (request.offset_bytes, request.offset_bytes + request.bytes);
        let (low, high) = self.addresses.unwrap_or(span);
        self.addresses = Some((low.min(span.0), high.max(span.1)));
        let device = self.device(request.device)?;
        let ends = &mut self.streams[device as usize][kind];
        self.sequential += u64::from(ends.at.contains(&request.offset_bytes));
        ends.at[usize::from(ends.next)] = request.offset_bytes + request.bytes;
        ends.next = (ends.next + 1) % STREAMS as u8;
        if !self.scattered && !self.pages.touch(device, request) {
            (self.scattered, self.pages) = (true, Pages::default());
        }
        Ok(())
    }

    fn depth(&mut self, at: u64, end: u64, answered: bool) {
        while self.outstanding.peek().is_some_and(|Reverse(end)| *end <= at) {
            self.outstanding.pop();
        }
        let depth = self.outstanding.len() as u64 + 1;
        self.depths[DEPTH_BOUNDS.partition_point(|&bound| bound < depth)] += 1;
        self.depth_sum += depth;
        if answered {
            self.answered += 1;
            self.outstanding.push(Reverse(end));
            if self.outstanding.len() > OUTSTANDING_MAX {
                self.outstanding.pop();
            }
        }
    }

    /// Returns a small number for the device.
    fn device(&mut self, device: u32) -> Result<u32, TooManyDevices> {
        if let Some((known, number)) = self.last_device
            && known == device
        {
            return Ok(number);
        }
        let count = self.devices.len() as u32;
        let number = *self.devices.entry(device).or_insert(count);
        if number == count {
            refuse_if(self.devices.len() > DEVICES_MAX, TooManyDevices)?;
            // No I/O begins at 2^64 - 1: offsets end at 2^63 - 1.
            let none = Ends { at: [u64::MAX; STREAMS], next: 0 };
            self.streams.push([none.clone(), none]);
        }
        self.last_device = Some((device, number));
        Ok(number)
    }

    /// Returns the statistics so far.
    #[must_use]
    pub fn info(&self) -> Info {
        let ios = self.counts[0] + self.counts[1];
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let shares = |names, counts: [u64; 8]| {
            (ios > 0).then(|| Shares { names, values: counts.map(|n| n as f64 / ios as f64) })
        };
        let answered = ios > 0 && self.answered * 100 >= ios * ANSWERED_PERCENT;
        let began = self.began_ns.unwrap_or(0);
        let pages = (!self.scattered).then_some(&self.pages);
        Info {
            reads: self.counts[0],
            writes: self.counts[1],
            read_bytes: self.bytes[0],
            written_bytes: self.bytes[1],
            trims: self.counts[Op::Trim as usize],
            flushes: self.counts[Op::Flush as usize],
            size_share: shares(SIZES, self.sizes),
            queue_depth_share: shares(DEPTHS, self.depths).filter(|_| answered),
            queue_depth_mean: share(self.depth_sum, ios).filter(|_| answered),
            sequential_share: share(self.sequential, ios),
            idle_s: answered.then_some(self.idle_ns as f64 / 1e9),
            duration_s: (self.busy_until_ns - began) as f64 / 1e9,
            footprint_bytes: pages.map(|pages| pages.touched * PAGE_BYTES),
            overwrite_share: pages.and_then(|p| share(p.overwrites, p.writes)),
            unwritten_read_share: pages.and_then(|p| share(p.unwritten, p.reads)),
            devices: self.devices.len() as u64,
            address_start_bytes: self.addresses.map(|(start, _)| start),
            address_end_bytes: self.addresses.map(|(_, end)| end),
        }
    }
}

fn size_bucket(bytes: u64) -> usize {
    match bytes {
        0..PAGE_BYTES => 0,
        _ => TABLE_KIB.iter().position(|kib| kib << 10 == bytes).map_or(7, |at| at + 1),
    }
}

/// Pages of a region: two bitmaps of 64 bytes.
const REGION_PAGES: u64 = 512;
const WORDS: usize = 8;
/// Regions allocated at once, so that growing copies nothing.
const SLAB: usize = 1024;

#[derive(Clone, Copy, Default)]
struct Region {
    touched: [u64; WORDS],
    written: [u64; WORDS],
}

/// Touched and written pages.
#[derive(Default)]
struct Pages {
    by_key: HashMap<u64, u32>,
    last: Option<(u64, u32)>,
    slabs: Vec<Box<[Region]>>,
    touched: u64,
    writes: u64,
    overwrites: u64,
    reads: u64,
    unwritten: u64,
}

impl Pages {
    /// Marks the pages of a request; returns false if there are too many regions to track.
    fn touch(&mut self, device: u32, request: &Request) -> bool {
        let first = request.offset_bytes / PAGE_BYTES;
        let last = (request.offset_bytes + request.bytes - 1) / PAGE_BYTES;
        let write = request.op.writes();
        for number in first / REGION_PAGES..=last / REGION_PAGES {
            // 2^63 bytes are 2^42 regions; a device's number has 16 bits.
            let Some(index) = self.index(u64::from(device) << 42 | number) else { return false };
            let region = &mut self.slabs[index / SLAB][index % SLAB];
            let base = number * REGION_PAGES;
            let from = first.max(base) - base;
            let to = last.min(base + REGION_PAGES - 1) - base;
            for word in from / 64..=to / 64 {
                let low = from.max(word * 64) % 64;
                let high = to.min(word * 64 + 63) % 64;
                let mask = (u64::MAX >> (63 - (high - low))) << low;
                let touched = &mut region.touched[word as usize];
                self.touched += u64::from((mask & !*touched).count_ones());
                *touched |= mask;
                let written = &mut region.written[word as usize];
                if write {
                    self.writes += u64::from(mask.count_ones());
                    self.overwrites += u64::from((mask & *written).count_ones());
                    *written |= mask;
                } else {
                    self.reads += u64::from(mask.count_ones());
                    self.unwritten += u64::from((mask & !*written).count_ones());
                }
            }
        }
        true
    }

    fn index(&mut self, key: u64) -> Option<usize> {
        if let Some((known, index)) = self.last
            && known == key
        {
            return Some(index as usize);
        }
        let count = self.by_key.len();
        let index = match self.by_key.get(&key) {
            Some(index) => *index,
            None if count == REGIONS_MAX => return None,
            None => {
                if count.is_multiple_of(SLAB) {
                    self.slabs.push(vec![Region::default(); SLAB].into());
                }
                self.by_key.insert(key, count as u32);
                count as u32
            }
        };
        self.last = Some((key, index));
        Some(index as usize)
    }
}
