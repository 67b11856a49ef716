//! The oracle itself: a queue of events, servers, and the path of an I/O through them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use drivebay_drive::{Io, Op, Spec, Variation};
use drivebay_units::{Nanos, Rng};

use super::flash::{Die, Wish};
use super::host::{Driver, Packets};
use super::map::{FOLD, GC, HOST, Map, Mode};

/// Number of a request.
type Id = usize;

/// Work of a server, or purpose of a die's read.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// A command, or its data as a whole.
    Command(Id),
    /// A part of a read's data: request, and number of bytes.
    Part(Id, u64),
    /// A copy's data: stream, entry, and number of bytes.
    Copy(usize, u64, u64),
    /// A program's data on its way to a die.
    Load(usize),
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Submit(Id),
    /// The command is in the controller.
    Fetched(Id),
    DataIn(Id),
    /// A server has finished its job.
    ServiceEnd(usize),
    Die(usize, u64),
    /// Data that came over a channel is corrected.
    Corrected(Job),
    Core,
    /// The half-duplex data path can continue.
    DataPathFree,
    Completed(Id),
}

/// A server and its queue, in order of arrival.
#[derive(Default)]
struct Server {
    queue: VecDeque<(u64, Job)>,
}

const INTERFACE: usize = 0;
const HOST_CORE: usize = 1;
const UP: usize = 2;
const CHANNELS: usize = 3;

struct Request {
    io: Io,
    at: u64,
    parts: u32,
}

/// Pages that pass through a stream's buffer, in the order in which they were placed.
struct Entry {
    ppa: u32,
    /// Number of its flash page in the stream.
    page: u64,
    left: u32,
    arrived: bool,
    of: Option<Id>,
}

/// A stream's buffer: flash pages take slots in order and release them when they are programmed.
#[derive(Default)]
struct Stream {
    entries: VecDeque<Entry>,
    /// Number of the first entry.
    first: u64,
    /// Flash pages placed so far.
    begun: u64,
    programmed: Vec<bool>,
    /// True if a die has got the page, by number.
    given: Vec<bool>,
    /// Superblock that is erased once these numbers of pages of each stream are safe; nothing is
    /// stored before.
    erase_after: Option<(u32, [u64; 2])>,
}

/// A half-duplex controller: requests wait in order until it is their direction's turn.
#[derive(Default)]
struct HalfDuplex {
    /// Reads and writes, and their times of arrival.
    waiting: [VecDeque<(Id, u64)>; 2],
    writes: bool,
    /// Beginning of the turn, number of its requests, and number of them on the path.
    since: u64,
    served: u64,
    on_path: u32,
    /// Time at which the last of them left it, if one has.
    left: Option<u64>,
}

/// Work of the flash core.
#[derive(Clone, Copy, Debug)]
enum Task {
    Idle,
    Command(Id),
    /// Garbage collection in the foreground for a write, and number of its placed pages.
    Foreground(Id, u32),
    /// Folding for a write that waits for the SLC cache, and number of its placed pages.
    FoldForRoom(Id, u32),
    /// Folding after a write of this many pages.
    Fold(u64),
    /// Garbage collection after a write.
    Gc,
}

/// Result of a step of folding.
enum Step {
    /// It waits for a slot in the buffer.
    Waits,
    /// This many pages of the cache are being copied.
    Copies(u64),
    /// A superblock was reclaimed without copies.
    GivesBack,
}

/// The simulated drive.
pub struct Oracle {
    spec: Spec,
    driver: Driver,
    packets: Packets,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Packed)>>,
    count: u64,
    servers: Vec<Server>,
    /// Time at which the write path has taken all data so far.
    path_free: u64,
    dies: Vec<Die<Job>>,
    order: String,
    map: Map,
    streams: [Stream; 2],
    requests: Vec<Request>,
    half_duplex: HalfDuplex,
    core_queue: VecDeque<Id>,
    task: Task,
    /// A source whose copy waits for a slot.
    held: Option<BTreeMap<u32, u32>>,
    owed: i64,
    /// Pages written since garbage collection last ran after writes.
    pending: u64,
    /// Pages to fold, in 1/256.
    to_fold: i64,
    /// True if garbage collection makes space for folding.
    making_room: bool,
    gc_time: i64,
    /// Time up to which the core time of garbage collection is accounted for.
    gc_since: u64,
    variation: Option<Variation>,
    /// Programs of data so far.
    superblocks_erased: u32,
    done: Vec<(Id, u64)>,
    /// Numbers of pages that must be safe before superblocks are erased ahead.
    erase_later: Vec<(u32, [u64; 2])>,
}

/// An event in the heap; events of one time go in the order in which they were set.
#[derive(Clone, Copy, Debug)]
struct Packed(Event);

impl PartialEq for Packed {
    fn eq(&self, _: &Packed) -> bool {
        true
    }
}
impl Eq for Packed {}
impl PartialOrd for Packed {
    fn partial_cmp(&self, other: &Packed) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Packed {
    fn cmp(&self, _: &Packed) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

fn transfer(bytes: u64, fs_per_byte: u64) -> u64 {
    (bytes * fs_per_byte + 500_000) / 1_000_000
}

impl Oracle {
    pub fn new(spec: Spec) -> Oracle {
        let (n, g) = (spec.nand, spec.geometry);
        let reads = if n.independent_planes { 1 << g.plane_shift } else { 1 };
        // The wait for an erase, if it is drawn, is its mean.
        let erase =
            n.suspension.and_then(|waits| waits.erase).map_or(n.suspend.0, |most| most.0 / 2);
        let die = || Die::new([n.suspend.0, erase], n.cache_program, reads);
        Oracle {
            driver: Driver::new(&spec.raw),
            packets: Packets::new(&spec.raw),
            now: 0,
            events: BinaryHeap::new(),
            count: 0,
            servers: (0..=CHANNELS + g.channel_mask as usize).map(|_| Server::default()).collect(),
            path_free: 0,
            dies: (0..g.dies()).map(|_| die()).collect(),
            order: (spec.raw.nand.page_order.as_ref())
                .map_or("dies-first".to_owned(), |order| order.value.clone()),
            map: Map::new(&spec),
            streams: Default::default(),
            requests: Vec::new(),
            half_duplex: HalfDuplex::default(),
            core_queue: VecDeque::new(),
            task: Task::Idle,
            held: None,
            owed: 0,
            pending: 0,
            to_fold: 0,
            making_room: false,
            gc_time: 0,
            gc_since: 0,
            variation: n
                .spread
                .map(|s| Variation::new(s, &spec.geometry, &Rng::new(super::SEED).fork("drive"))),
            superblocks_erased: 0,
            done: Vec::new(),
            erase_later: Vec::new(),
            spec,
        }
    }

    /// Keeps `depth` of these requests outstanding until all are done; returns their latencies.
    pub fn run(&mut self, depth: usize, ios: &[Io]) -> Vec<u64> {
        let first = self.requests.len();
        let mut next = ios.iter();
        let mut latencies = vec![0; ios.len()];
        let mut left = ios.len();
        for &io in next.by_ref().take(depth) {
            self.submit(io);
        }
        while left > 0 {
            let Reverse((time, _, Packed(event))) =
                self.events.pop().expect("something happens while a request is outstanding");
            self.now = time;
            self.handle(event);
            while let Some((id, at)) = self.done.pop() {
                latencies[id - first] = at - self.requests[id].at;
                left -= 1;
                if let Some(&io) = next.next() {
                    self.submit(io);
                }
            }
        }
        latencies
    }

    fn submit(&mut self, io: Io) {
        let id = self.requests.len();
        self.requests.push(Request { io, at: self.now, parts: 0 });
        self.set(self.now + self.driver.software, Event::Submit(id));
    }

    fn set(&mut self, at: u64, event: Event) {
        assert!(at >= self.now);
        self.count += 1;
        self.events.push(Reverse((at, self.count, Packed(event))));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Submit(id) => {
                self.enter(INTERFACE, self.driver.queue, Job::Command(id));
            }
            Event::Fetched(id) => {
                self.enter(HOST_CORE, self.spec.throttle[0].costs.host_core.0, Job::Command(id));
            }
            Event::ServiceEnd(server) => self.served(server),
            Event::Die(die, number) => self.with_die(die, |d, now, w| d.timer(now, number, w)),
            Event::Corrected(Job::Part(id, bytes)) => self.move_up(id, bytes),
            Event::Corrected(Job::Copy(stream, entry, ..)) => {
                let s = &mut self.streams[stream];
                let index = (entry - s.first) as usize;
                s.entries[index].arrived = true;
                self.store(stream);
            }
            Event::Corrected(job) => unreachable!("correction of {job:?}"),
            Event::Core => self.core(),
            Event::DataPathFree => self.admit(),
            Event::DataIn(id) => {
                self.leave_path();
                self.core_queue.push_back(id);
                self.core_go_on();
            }
            Event::Completed(id) => self.done.push((id, self.now)),
        }
    }

    // Servers.

    fn enter(&mut self, server: usize, len: u64, job: Job) {
        self.servers[server].queue.push_back((len, job));
        if self.servers[server].queue.len() == 1 {
            self.set(self.now + len, Event::ServiceEnd(server));
        }
    }

    fn served(&mut self, server: usize) {
        let queue = &mut self.servers[server].queue;
        let (_, job) = queue.pop_front().expect("it was served");
        if let Some(&(len, _)) = queue.front() {
            self.set(self.now + len, Event::ServiceEnd(server));
        }
        match (server, job) {
            (INTERFACE, Job::Command(id)) => {
                self.set(self.now + self.driver.fetch, Event::Fetched(id));
            }
            (HOST_CORE, Job::Command(id)) if self.spec.half_duplex.is_some() => {
                let way = usize::from(self.requests[id].io.op == Op::Write);
                self.half_duplex.waiting[way].push_back((id, self.now));
                self.admit();
            }
            (HOST_CORE, Job::Command(id)) => self.go_on(id),
            (UP, Job::Part(id, ..)) => self.part_done(id),
            (_, Job::Part(..) | Job::Copy(..)) => {
                self.set(self.now + self.spec.nand.decode.0, Event::Corrected(job));
            }
            (_, Job::Load(die)) => self.with_die(die, |d, now, w| d.loaded(now, w)),
            (server, job) => unreachable!("server {server} has {job:?}"),
        }
    }

    /// Moves a write's data down; sends a read directly to the flash core.
    fn go_on(&mut self, id: Id) {
        if self.requests[id].io.op == Op::Write {
            // The path takes the data as it comes over the link.
            let rate = self.spec.throttle[0].costs.write_path_fs_per_byte;
            let bytes = self.bytes(id);
            let (first, last) = self.packets.fetch_data(self.now, bytes);
            self.path_free = self.path_free.max(first) + transfer(bytes, rate);
            self.set(self.path_free.max(last), Event::DataIn(id));
        } else {
            self.core_queue.push_back(id);
            self.core_go_on();
        }
    }

    /// Admits requests of the direction whose turn it is; turns when the path is empty and the
    /// other direction waits.
    fn admit(&mut self) {
        let rule = self.spec.half_duplex.expect("half-duplex");
        loop {
            let half = &mut self.half_duplex;
            if self.now < half.since {
                let since = half.since;
                return self.set(since, Event::DataPathFree);
            }
            let [own, other] = [half.writes, !half.writes].map(usize::from);
            let waits =
                half.waiting[other].front().map(|&(_, came)| self.now - came.max(half.since));
            let closed = waits.is_some_and(|waited| {
                half.served >= u64::from(rule.batch_commands) || waited > rule.batch_wait.0
            });
            if !closed && let Some((id, _)) = half.waiting[own].pop_front() {
                half.served += 1;
                half.on_path += 1;
                self.go_on(id);
            } else if waits.is_some() && half.on_path == 0 {
                half.writes = !half.writes;
                half.served = 0;
                half.since = half.left.map_or(0, |left| left + rule.turnaround.0);
            } else {
                return;
            }
        }
    }

    /// Removes the data of a half-duplex controller's request from the path.
    fn leave_path(&mut self) {
        if self.spec.half_duplex.is_some() {
            self.half_duplex.on_path -= 1;
            self.half_duplex.left = Some(self.now);
            self.admit();
        }
    }

    /// Completes a request whose data has arrived.
    fn ended(&mut self, id: Id) {
        if self.requests[id].io.op == Op::Read {
            self.leave_path();
        }
        self.set(self.now + self.driver.completion, Event::Completed(id));
    }

    fn bytes(&self, id: Id) -> u64 {
        u64::from(self.requests[id].io.sectors) * 512
    }

    /// First page, and number of pages.
    fn pages(&self, id: Id) -> (u32, u32) {
        let io = self.requests[id].io;
        let whole = io.lba.is_multiple_of(8) && io.sectors.is_multiple_of(8);
        assert!(whole, "the oracle knows whole pages only");
        ((io.lba / 8) as u32, io.sectors / 8)
    }

    fn move_up(&mut self, id: Id, bytes: u64) {
        self.enter(UP, self.packets.written(bytes), Job::Part(id, bytes));
    }

    fn part_done(&mut self, id: Id) {
        self.requests[id].parts -= 1;
        if self.requests[id].parts == 0 {
            self.ended(id);
        }
    }

    // Dies.

    fn with_die(&mut self, die: usize, act: impl FnOnce(&mut Die<Job>, u64, &mut Vec<Wish<Job>>)) {
        let mut wishes = Vec::new();
        act(&mut self.dies[die], self.now, &mut wishes);
        let fs_per_byte = self.spec.nand.channel_fs_per_byte;
        let channel = CHANNELS + (die & self.spec.geometry.channel_mask as usize);
        for wish in wishes {
            match wish {
                Wish::Timer(at, number) => self.set(at, Event::Die(die, number)),
                Wish::Sensed(job) => {
                    let (Job::Part(_, bytes) | Job::Copy(_, _, bytes)) = job else {
                        unreachable!("{job:?} reads no flash");
                    };
                    self.enter(channel, transfer(bytes, fs_per_byte), job);
                }
                Wish::Load => {
                    let g = &self.spec.geometry;
                    let bytes = g.flash_page_bytes() << g.plane_shift;
                    self.enter(channel, transfer(bytes, fs_per_byte), Job::Load(die));
                }
                Wish::Programmed(stream, newest) => self.programmed(stream, newest),
            }
        }
    }

    fn die_of(&self, ppa: u32) -> usize {
        self.lies(ppa).0
    }

    fn plane_of(&self, ppa: u32) -> usize {
        self.lies(ppa).1
    }

    /// Die, plane and page type.
    fn lies(&self, ppa: u32) -> (usize, usize, usize) {
        let page = (ppa >> self.spec.geometry.page_shift) as usize;
        let (dies, planes) = (self.dies.len(), 1 << self.spec.geometry.plane_shift);
        let types = self.spec.nand.page_types as usize;
        match self.order.as_str() {
            "dies-first" => (page % dies, page / dies % planes, page / dies / planes % types),
            "word-lines-first" => {
                (page / planes / types % dies, page % planes, page / planes % types)
            }
            other => panic!("{other}"),
        }
    }

    /// Distance between a page and that of the die's next plane, in numbers of pages.
    fn plane_distance(&self) -> u64 {
        if self.order == "dies-first" { self.dies.len() as u64 } else { 1 }
    }

    // The buffer.

    fn has_place(&self, stream: usize, page: u64) -> bool {
        let s = &self.streams[stream];
        let before = page.checked_sub(u64::from(self.spec.buffer_pages));
        before.is_none_or(|b| s.programmed.get(b as usize).copied().unwrap_or(false))
    }

    fn is_programmed(&self, ppa: u32) -> bool {
        let place = self.map.stream_page_of(ppa);
        let programmed = &self.streams[place.stream].programmed;
        programmed.get(place.page as usize).copied().unwrap_or(false)
    }

    /// Adds `left` pages from `ppa` to a stream's buffer.
    fn fill(&mut self, stream: usize, ppa: u32, left: u32, arrived: bool, of: Option<Id>) {
        let flash_page_pages = 1 << self.spec.geometry.page_shift;
        let begun = (ppa..ppa + left).filter(|s| s % flash_page_pages == 0).count();
        self.streams[stream].begun += begun as u64;
        let entry = Entry { ppa, page: self.map.stream_page_of(ppa).page, left, arrived, of };
        self.streams[stream].entries.push_back(entry);
        self.store(stream);
    }

    /// Stores data that has arrived and finds a slot, in order.
    fn store(&mut self, stream: usize) {
        loop {
            let Some(entry) = self.streams[stream].entries.front() else {
                return;
            };
            let (ppa, page) = (entry.ppa, entry.page);
            let blocked = self.streams[stream].erase_after.is_some();
            if blocked || !entry.arrived || !self.has_place(stream, page) {
                return;
            }
            let flash_page_pages = 1 << self.spec.geometry.page_shift;
            let s = &mut self.streams[stream];
            let entry = s.entries.front_mut().expect("there is one");
            entry.ppa += 1;
            entry.page += u64::from(entry.ppa.is_multiple_of(flash_page_pages));
            entry.left -= 1;
            let (left, of) = (entry.left, entry.of);
            if left == 0 {
                s.entries.pop_front();
                s.first += 1;
                if let Some(id) = of {
                    self.part_done(id);
                }
            }
            self.program_if_full(stream, ppa, page);
        }
    }

    /// Programs a die's pages of all planes once the last page of the last plane is stored.
    fn program_if_full(&mut self, stream: usize, ppa: u32, number: u64) {
        let g = &self.spec.geometry;
        let flash_page_pages = 1 << g.page_shift;
        let planes = 1u32 << g.plane_shift;
        let page = ppa / flash_page_pages;
        if ppa % flash_page_pages != flash_page_pages - 1 || self.plane_of(ppa) as u32 != planes - 1
        {
            return;
        }
        let distance = self.plane_distance();
        let given = &mut self.streams[stream].given;
        given.resize(given.len().max(number as usize + 1), false);
        for plane in 0..u64::from(planes) {
            given[(number - plane * distance) as usize] = true;
        }
        let usual = match self.spec.slc_cache {
            Some(cache) if self.map.is_slc(ppa) => cache.program,
            _ => self.spec.nand.program[self.lies(ppa).2],
        };
        // A restart begins with the first page of the word line.
        let before = match self.spec.slc_cache {
            Some(_) if self.map.is_slc(ppa) => 0,
            _ => self.spec.nand.program[..self.lies(ppa).2].iter().map(|time| time.0).sum(),
        };
        let restarts = self.spec.nand.suspension.is_some_and(|suspension| suspension.restarts);
        let times = |len: u64| (len, restarts.then_some(before + len));
        let mut len = self.of_page(page, usual);
        let nand = &self.spec.nand;
        if nand.one_pass && self.spec.slc_cache.is_none_or(|_| !self.map.is_slc(ppa)) {
            // The last page of a word line programs all of them.
            let (last, shift) = (nand.page_types - 1, self.spec.geometry.order.type_shift);
            let earlier = |back: u32| {
                self.of_page(page - (back << shift), nand.program[(last - back) as usize])
            };
            let ends = self.lies(ppa).2 == last as usize;
            len = if ends { (0..=last).map(earlier).sum() } else { 0 };
        }
        let die = self.die_of(ppa);
        self.with_die(die, |d, now, w| d.program(now, times(len), Some((stream, number)), w));
    }

    /// Time to read or program a flash page whose nominal time is `len`.
    fn of_page(&self, page: u32, len: Nanos) -> u64 {
        self.variation.as_ref().map_or(len, |v| v.of_page(page, len)).0
    }

    fn read_time(&self, ppa: u32) -> u64 {
        let cache = self.spec.slc_cache.filter(|_| self.map.is_slc(ppa));
        let usual = cache.map_or(self.spec.nand.read, |cache| cache.read);
        self.of_page(ppa >> self.spec.geometry.page_shift, usual)
    }

    fn programmed(&mut self, stream: usize, newest: u64) {
        let (g, distance) = (self.spec.geometry, self.plane_distance());
        let programmed = &mut self.streams[stream].programmed;
        if programmed.len() <= newest as usize {
            programmed.resize(newest as usize + 1, false);
        }
        for plane in 0..1u64 << g.plane_shift {
            programmed[(newest - plane * distance) as usize] = true;
        }
        self.store(stream);
        for blocked in 0..2 {
            if let Some((index, before)) = self.streams[blocked].erase_after
                && self.is_safe(before)
            {
                self.streams[blocked].erase_after = None;
                self.erase_dies(index);
                self.store(blocked);
            }
        }
        if let Some(&(index, before)) = self.erase_later.first()
            && self.is_safe(before)
        {
            self.erase_later.remove(0);
            self.erase_dies(index);
        }
        if self.held.is_some() {
            self.core();
        }
    }

    // The flash core.

    fn core_go_on(&mut self) {
        if !matches!(self.task, Task::Idle) {
            return;
        }
        let Some(id) = self.core_queue.pop_front() else {
            return;
        };
        let (page, count) = self.pages(id);
        let costs = self.spec.throttle[0].costs;
        let mapped = (page..page + count).filter(|&p| self.map.ppa_of(p).is_some()).count();
        let len = match self.requests[id].io.op {
            Op::Write => costs.write_command.0 + costs.write_page.0 * u64::from(count),
            _ => costs.read_command.0 + costs.read_page.0 * mapped as u64,
        };
        self.task = Task::Command(id);
        self.set(self.now + len, Event::Core);
    }

    fn core(&mut self) {
        match self.task {
            Task::Command(id) if self.requests[id].io.op == Op::Write => {
                // One part more than the entries, so that none completes it too soon.
                self.requests[id].parts = 1;
                self.write(id, 0);
            }
            Task::Command(id) => {
                self.read(id);
                self.idle();
            }
            Task::Foreground(id, placed) => self.foreground(id, placed),
            Task::FoldForRoom(id, placed) => self.fold_for_room(id, placed),
            Task::Fold(pages) => self.fold(pages),
            Task::Gc => self.gc(),
            Task::Idle => unreachable!("an idle core expects nothing"),
        }
    }

    fn idle(&mut self) {
        self.task = Task::Idle;
        self.core_go_on();
    }

    /// Sends a read's flash pages to their dies.
    fn read(&mut self, id: Id) {
        let (first, count) = self.pages(id);
        let flash_page_pages = 1 << self.spec.geometry.page_shift;
        let mut runs: Vec<(Option<u32>, u32)> = Vec::new();
        for page in first..first + count {
            let ppa = self.map.ppa_of(page);
            match (runs.last_mut(), ppa) {
                (Some((None, len)), None) => *len += 1,
                (Some((Some(begin), len)), Some(ppa))
                    if *begin + *len == ppa && ppa % flash_page_pages != 0 =>
                {
                    *len += 1;
                }
                _ => runs.push((ppa, 1)),
            }
        }
        self.requests[id].parts = runs.len() as u32;
        for (ppa, len) in runs {
            let bytes = u64::from(len) * 4096;
            match ppa.filter(|&s| self.is_programmed(s)) {
                Some(ppa) => {
                    let die = self.die_of(ppa);
                    let (len, plane) = (self.read_time(ppa), self.plane_of(ppa));
                    let job = Job::Part(id, bytes);
                    self.with_die(die, |d, now, w| d.read(now, plane, (len, job, true), w));
                }
                None => self.move_up(id, bytes),
            }
        }
    }

    /// Places the rest of a write, unless the foreground must make space first.
    fn write(&mut self, id: Id, placed: u32) {
        let (first, count) = self.pages(id);
        let mut placed = placed;
        while placed < count {
            if self.map.room(HOST) == 0 {
                let cached = self.map.next_of_cache();
                if cached.is_none() && self.folds_for_room() {
                    self.task = Task::FoldForRoom(id, placed);
                    return self.fold_for_room(id, placed);
                }
                let full = self.map.free_superblocks() <= self.spec.reserve_superblocks as usize;
                if cached.is_none() && full {
                    self.task = Task::Foreground(id, placed);
                    return self.foreground(id, placed);
                }
                self.open(HOST, cached.unwrap_or(Mode::Native));
            }
            let len = (count - placed).min(self.map.room(HOST));
            let pages = first + placed..first + placed + len;
            let ppas: Vec<u32> = pages.map(|page| self.map.put(HOST, page)).collect();
            self.requests[id].parts += 1;
            self.fill(HOST, ppas[0], len, true, Some(id));
            placed += len;
        }
        self.part_done(id);
        self.begin_folding(u64::from(count));
    }

    // Folding.

    /// True if a write that finds the SLC cache full waits for folding.
    fn folds_for_room(&self) -> bool {
        let waits = || self.waits_when_full() || self.map.fold_is_empty();
        self.map.can_fold() && waits()
    }

    fn waits_when_full(&self) -> bool {
        self.spec.raw.slc_cache.as_ref().is_some_and(|cache| cache.when_full.value == "fold")
    }

    fn fold_for_room(&mut self, id: Id, placed: u32) {
        while self.held.is_some() || (self.map.next_of_cache().is_none() && self.folds_for_room()) {
            match self.fold_next() {
                Step::GivesBack => {}
                Step::Waits | Step::Copies(_) => return,
            }
        }
        self.task = Task::Command(id);
        self.write(id, placed);
    }

    /// Folds after a write of `pages` pages, then collects garbage.
    fn begin_folding(&mut self, pages: u64) {
        let Some(cache) = self.spec.slc_cache else { return self.begin_collecting(pages) };
        let full = self.waits_when_full() && self.map.next_of_cache().is_none();
        let ratio = if full { cache.fold_ratio_256.max(256) } else { cache.fold_ratio_256 };
        self.to_fold += (pages * ratio) as i64;
        self.task = Task::Fold(pages);
        self.fold(pages);
    }

    fn fold(&mut self, pages: u64) {
        while self.held.is_some() || (self.to_fold > 0 && self.map.can_fold()) {
            match self.fold_next() {
                Step::GivesBack => {}
                Step::Waits => return,
                Step::Copies(pages) => return self.to_fold -= pages as i64 * 256,
            }
        }
        self.to_fold = self.to_fold.min(0);
        self.begin_collecting(pages);
    }

    /// Starts the next copy of folding; while only the reserve is left, empties a whole victim of
    /// garbage collection first.
    fn fold_next(&mut self) -> Step {
        if self.held.is_none() {
            self.making_room |= !self.map.may_copy_beside_reserve();
        }
        let which = if self.making_room { GC } else { FOLD };
        let Some(source) = self.held.take().or_else(|| self.map.next_source(which)) else {
            assert!(self.map.victim_is_done(which), "a victim");
            self.retire(which);
            self.making_room = false;
            return Step::GivesBack;
        };
        let stream = self.map.copy_stream;
        if !self.has_place(stream, self.streams[stream].begun) {
            self.held = Some(source);
            return Step::Waits;
        }
        let (pages, cost) = self.copy(source);
        self.set(self.now + cost, Event::Core);
        Step::Copies(if which == FOLD { pages } else { 0 })
    }

    // Garbage collection.

    /// Copies the rest of the victim without a pause, then continues the write.
    fn foreground(&mut self, id: Id, placed: u32) {
        let stream = self.map.copy_stream;
        if let Some(source) = self.held.take().or_else(|| self.map.next_source(GC)) {
            if !self.has_place(stream, self.streams[stream].begun) {
                self.held = Some(source);
                return;
            }
            let cost = self.copy(source).1;
            return self.set(self.now + cost, Event::Core);
        }
        assert!(self.map.victim_is_done(GC), "a victim");
        self.retire(GC);
        if self.map.free_superblocks() <= self.spec.reserve_superblocks as usize {
            return self.foreground(id, placed);
        }
        self.task = Task::Command(id);
        self.write(id, placed);
    }

    /// Collects garbage after a write of `pages` pages, within the granted pages and core time.
    fn begin_collecting(&mut self, pages: u64) {
        let (p, free) = (self.spec.pacing, self.map.free_pages());
        if free >= p.start_free {
            return self.idle();
        }
        let pages = std::mem::take(&mut self.pending) + pages;
        if pages < p.every_pages {
            self.pending = pages;
            return self.idle();
        }
        self.owed += ((pages * p.gain_256(free)) << 8) as i64;
        let duty = self.spec.throttle[0].costs.gc_duty.0;
        self.gc_time += ((duty * pages.min(p.duty_pages) * p.duty_256(free)) >> 8) as i64;
        self.task = Task::Gc;
        self.gc_since = self.now;
        self.gc();
    }

    /// Starts the next copy if time and pages allow it; it waits for its slot, and the core with
    /// it.
    fn gc(&mut self) {
        self.gc_time -= (self.now - self.gc_since) as i64;
        self.gc_since = self.now;
        let stream = self.map.copy_stream;
        while self.held.is_some() || (self.gc_time > 0 && self.owed > 0) {
            if self.map.room(stream) == 0 && self.map.free_superblocks() == 0 {
                break;
            }
            if let Some(source) = self.held.take().or_else(|| self.map.next_source(GC)) {
                if !self.has_place(stream, self.streams[stream].begun) {
                    self.held = Some(source);
                    return;
                }
                let given = self.map.given(source.len() as u64);
                let (_, cost) = self.copy(source);
                self.owed -= given as i64;
                return self.set(self.now + cost, Event::Core);
            } else if self.map.victim_is_done(GC) {
                self.owed -= self.map.given(0) as i64;
                self.retire(GC);
            } else {
                break;
            }
        }
        self.gc_time = self.gc_time.min(0);
        self.owed = self.owed.min(0);
        self.idle();
    }

    /// Copies a source's pages; returns their number and their core time.
    fn copy(&mut self, source: BTreeMap<u32, u32>) -> (u64, u64) {
        let stream = self.map.copy_stream;
        let count = source.len() as u64;
        let first = *source.keys().next().expect("a source has a valid page");
        let follows = |ppa: &u32, page: &u32| {
            ppa.checked_sub(1).and_then(|s| source.get(&s)).is_some_and(|p| p + 1 == *page)
        };
        let runs = source.iter().filter(|(ppa, page)| !follows(ppa, page)).count() as u64;
        let (die, first_source) = (self.die_of(first), first);
        let mut pages: VecDeque<u32> = source.into_values().collect();
        while !pages.is_empty() {
            if self.map.room(stream) == 0 {
                self.open(stream, Mode::Native);
            }
            let len = pages.len().min(self.map.room(stream) as usize);
            let ppas: Vec<u32> = pages.drain(..len).map(|p| self.map.put(stream, p)).collect();
            let s = &self.streams[stream];
            let number = s.first + s.entries.len() as u64;
            // The data comes once; parts of it that go to the next superblock need no further
            // transfer.
            let last = pages.is_empty();
            let left = ppas.len() as u32;
            self.fill(stream, ppas[0], left, !last, None);
            if last {
                let job = Job::Copy(stream, number, count * 4096);
                let (len, plane) = (self.read_time(first_source), self.plane_of(first_source));
                self.with_die(die, |d, now, w| d.read(now, plane, (len, job, false), w));
            }
        }
        let costs = self.spec.throttle[0].costs;
        (count, costs.copy_extent.0 * runs + costs.copy_page.0 * count)
    }

    fn retire(&mut self, which: usize) {
        self.map.retire(which, [0, 1].map(|stream| self.streams[stream].begun));
    }

    /// Opens a stream's next superblock, and erases the one after it once all pages placed before
    /// it was reclaimed are safe.
    fn open(&mut self, stream: usize, mode: Mode) {
        if let Some(before) = self.erase_next(mode) {
            self.streams[stream].erase_after = Some(before);
        }
        self.map.open(stream, self.streams[stream].begun, mode);
        let later = self.erase_next(mode);
        self.erase_later.extend(later);
    }

    /// Erases the superblock that is opened next if needed, or returns the numbers of pages that
    /// must be safe before.
    fn erase_next(&mut self, mode: Mode) -> Option<(u32, [u64; 2])> {
        let (index, before) = self.map.next_to_erase(mode)?;
        self.map.erased(index);
        self.flush(before);
        if self.is_safe(before) {
            self.erase_dies(index);
            return None;
        }
        Some((index, before))
    }

    /// Pages that no die has got yet are safe without cost here: the model's rare flush costs a
    /// program.
    fn flush(&mut self, before: [u64; 2]) {
        for (s, before) in self.streams.iter_mut().zip(before) {
            let length = s.given.len().max(before as usize);
            s.given.resize(length, false);
            s.programmed.resize(length, false);
            for page in 0..before as usize {
                s.programmed[page] |= !s.given[page];
            }
        }
    }

    fn is_safe(&self, before: [u64; 2]) -> bool {
        let safe = |stream: usize, page: u64| {
            self.streams[stream].programmed.get(page as usize).copied().unwrap_or(false)
        };
        (0..2).all(|stream| (0..before[stream]).rev().take(4096).all(|page| safe(stream, page)))
    }

    fn erase_dies(&mut self, superblock: u32) {
        let [before, now] = [0, 1].map(|more| {
            ((self.superblocks_erased + more) as f64 / self.spec.nand.erase_one_in).floor()
        });
        self.superblocks_erased += 1;
        if before == now {
            return;
        }
        for die in 0..self.dies.len() {
            self.erase_die(die, superblock);
        }
    }

    fn erase_die(&mut self, die: usize, superblock: u32) {
        let usual = self.spec.nand.erase;
        let of_erase = |v: &Variation| v.of_erase(superblock, die as u32, usual);
        let len = self.variation.as_ref().map_or(usual, of_erase).0;
        self.with_die(die, |d, now, w| d.erase(now, len, w));
    }
}
