//! Flash timing: the time that a die and its channel stay busy for one operation.
//!
//! Sources: ONFI 4.x for the order of operations (array read, then data out; data in, then array
//! program; suspend and resume); asynchronous independent plane read (AIPR): patent US 11,989,458
//! B2 of Western Digital, Micron's six planes of 232 layers; times come from the profile.
//!
//! Model: a die does one array operation at a time. Reads overtake waiting programs, and suspend a
//! running program or erase after at most `suspend`; it goes on when no read waits, and those after
//! it begin later. With independent planes each plane does a read at a time; a read waits for its
//! own plane and the suspension, a program or erase for the reads of all. All planes of a die
//! program together once the last plane's page is filled. Data of the next program may move during
//! the running one (`cache_program`). Error correction is a latency after the channel: decoders
//! take a page each, so that none waits for another (Park et al., ASPLOS 2021: tECC 20 us compared
//! with tDMA 16 us). A policy plug-in may have a read wait for the running operation, or for all
//! that was asked before it. Not modelled: page-register conflicts of back-to-back reads (reads of
//! one die overlap array time with data out, as with cache read: latencies at high load are
//! slightly low). Errors: `physics/reliability.rs`.

mod suspension;
mod timing;

use drivebay_units::{Nanos, Rng};

use crate::events::FlashActivity;
use crate::persist::{StateError, ensure, persist};
use crate::plugin::Plugin;
use crate::policy_plugin::DieRead;
use crate::profile::{Geometry, NandTiming, transfer};
use crate::timeline::Calendar;
use suspension::Suspension;
use timing::Timing;

/// A program or erase that was asked of a die. Reads asked later may still move its end.
#[derive(Clone, Copy, Debug, Default)]
struct Write {
    from: Nanos,
    until: Nanos,
    /// Nanoseconds that must lie between the end of the write before and this one: loading.
    gap: u32,
    /// Its number on its die.
    number: u32,
}

persist!(Write: from, until, gap, number);

/// One die's timeline: its reads, and the last programs and erases asked of it, in a ring.
#[derive(Clone, Copy, Debug)]
struct Die {
    /// When the reads asked so far have left the array.
    reads_until: Nanos,
    /// Number of the first write that reads may still move.
    first: u32,
    /// Number of the next write; the first is 1.
    next: u32,
}

persist!(Die: reads_until, first, next);

/// A program, by which to ask for its end: reads asked meanwhile may move it.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Its entry among the rings of all dies.
    entry: u32,
    number: u32,
}

persist!(Ticket: entry, number);

impl Default for Ticket {
    fn default() -> Ticket {
        Ticket::NONE
    }
}

impl Ticket {
    /// Number of a program that has not been asked for.
    pub const NONE: Ticket = Ticket { entry: u32::MAX, number: 0 };

    /// Number of a program that has ended long ago.
    pub const ENDED: Ticket = Ticket { entry: 0, number: u32::MAX };

    /// True for [`Ticket::NONE`].
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.entry == u32::MAX
    }
}

/// When the parts of a read were over.
#[derive(Clone, Copy, Debug)]
pub struct ReadTimes {
    /// The die was free for it.
    pub begin: Nanos,
    /// Data is in the register: `begin` + tR.
    pub sensed: Nanos,
    /// Data is over the channel and corrected.
    pub done: Nanos,
}

/// All dies and channels.
pub struct Nand {
    timing: Timing,
    /// Bound of a read's wait for a program.
    suspend: Nanos,
    /// Its waits are drawn.
    suspension: Option<Box<Suspension>>,
    channel_fs_per_byte: u64,
    /// From a read's last byte over the channel to its corrected data.
    decode: Nanos,
    /// Data of the next program may move during this one.
    cache_program: bool,
    dies: Vec<Die>,
    /// The rings of all dies.
    writes: Vec<Write>,
    ring_shift: u32,
    channels: Vec<Calendar>,
    /// When each plane has done the reads asked of it, in the order of a row's pages: of no use
    /// after its die's `reads_until`. Empty if a die reads one page at a time.
    planes: Vec<Nanos>,
    geometry: Geometry,
    /// Moving all planes' data to a die.
    load: Nanos,
    /// Flash pages read so far.
    pub page_reads: u64,
    /// Bytes read over the channels so far.
    pub read_bytes: u64,
    /// Superblocks erased so far.
    pub superblock_erases: u64,
    /// Activity of dies and channels, while that is kept.
    activity: Option<Box<FlashActivity>>,
    /// Plug-in that decides whether reads pass writes, if there is one.
    scheduler: Option<Box<Plugin>>,
    reads: ReadRule,
}

/// Rule by which a read is served.
#[derive(Clone, Copy, PartialEq)]
enum ReadRule {
    /// Its die alone.
    Die,
    /// Its plane, a wait that is drawn, or a plug-in as well.
    Array,
    /// As one of the others, and it is kept how busy all are.
    Watched,
}

persist!(Nand: timing, suspension, dies, writes, channels, planes, page_reads, read_bytes, superblock_erases, scheduler;
    given: suspend, channel_fs_per_byte, decode, cache_program, ring_shift, geometry, load, activity,
    reads);

impl Nand {
    /// Checks dies and channels that were read back.
    pub fn check(&self) -> Result<(), StateError> {
        self.channels.iter().try_for_each(Calendar::check)?;
        let numbered = |die: &Die| die.first >= 1 && die.first <= die.next;
        let waits = self.writes.iter().all(|write| write.from <= write.until);
        ensure(waits && self.dies.iter().all(numbered), "a die's programs and erases")
    }

    /// All dies idle, each able to remember `remembered` programs that wait or are asked for.
    pub fn new(spec: &NandTiming, geometry: &Geometry, remembered: u32, rng: &Rng) -> Nand {
        let dies = geometry.dies();
        let ring_shift = remembered.next_power_of_two().ilog2();
        let die_bytes = geometry.flash_page_bytes() << geometry.plane_shift;
        let mut nand = Nand {
            timing: Timing::new(spec, geometry, rng),
            suspend: spec.suspend,
            suspension: (spec.suspension).map(|s| {
                Box::new(Suspension::new(s, spec.suspend, dies, (dies as usize) << ring_shift))
            }),
            channel_fs_per_byte: spec.channel_fs_per_byte,
            decode: spec.decode,
            cache_program: spec.cache_program,
            dies: vec![Die { reads_until: Nanos::ZERO, first: 1, next: 1 }; dies as usize],
            writes: vec![Write::default(); (dies as usize) << ring_shift],
            ring_shift,
            channels: vec![Calendar::default(); geometry.channel_mask as usize + 1],
            planes: vec![
                Nanos::ZERO;
                if spec.independent_planes { dies << geometry.plane_shift } else { 0 }
                    as usize
            ],
            geometry: *geometry,
            load: transfer(die_bytes, spec.channel_fs_per_byte),
            page_reads: 0,
            read_bytes: 0,
            superblock_erases: 0,
            activity: None,
            scheduler: None,
            reads: ReadRule::Die,
        };
        nand.choose_rule();
        nand
    }

    fn choose_rule(&mut self) {
        self.reads = if self.activity.is_some() {
            ReadRule::Watched
        } else if self.planes.is_empty() && self.suspension.is_none() && self.scheduler.is_none() {
            ReadRule::Die
        } else {
            ReadRule::Array
        };
    }

    /// Lets this plug-in decide from now on whether reads pass writes. Not with planes that read
    /// independently.
    pub fn set_scheduler(&mut self, scheduler: Option<Box<Plugin>>) {
        self.scheduler = scheduler;
        self.choose_rule();
    }

    /// Geometry of the flash.
    #[inline(always)]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The plug-in that schedules reads, if there is one.
    #[inline]
    pub fn scheduler(&self) -> Option<&Plugin> {
        self.scheduler.as_deref()
    }

    /// All data is gone: the scheduler begins anew.
    pub fn forget_all(&mut self) {
        self.scheduler.iter_mut().for_each(|plugin| plugin.start());
    }

    /// From `now` on it is kept how busy dies and channels are.
    pub fn keep_activity(&mut self, now: Nanos) {
        let activity = FlashActivity::new(now, self.dies.len(), self.channels.len());
        self.activity = Some(Box::new(activity));
        self.choose_rule();
    }

    /// Returns the activity, and ends keeping it.
    pub fn take_activity(&mut self) -> Option<Box<FlashActivity>> {
        let activity = self.activity.take();
        self.choose_rule();
        activity
    }

    /// Senses a flash page and moves `bytes` of it over the channel.
    ///
    /// `page` is the flash page's number, `floor` a time before which nobody will ask again.
    /// Cost: 1 die, 1 calendar.
    #[inline]
    pub fn read(&mut self, floor: Nanos, from: Nanos, page: u32, bytes: u64) -> ReadTimes {
        self.read_in(floor, from, page, bytes, self.timing.read(page), true)
    }

    /// [`Nand::read`] by the firmware itself, which programs need not restart for.
    #[inline]
    pub fn read_inside(&mut self, floor: Nanos, from: Nanos, page: u32, bytes: u64) -> ReadTimes {
        self.read_in(floor, from, page, bytes, self.timing.read(page), false)
    }

    /// As [`Nand::read`], with an array part that takes `len`, as retries do. `restarts`: a program
    /// that it suspends starts over, where the profile says so.
    #[inline(always)]
    pub fn read_in(
        &mut self,
        floor: Nanos,
        from: Nanos,
        page: u32,
        bytes: u64,
        len: Nanos,
        restarts: bool,
    ) -> ReadTimes {
        self.page_reads += 1;
        self.read_bytes += bytes;
        let data = transfer(bytes, self.channel_fs_per_byte);
        let index = self.geometry.die_of(page);
        let (begin, sensed) = match self.reads {
            ReadRule::Die => {
                let suspend = self.suspend;
                let (die, ring) = self.die(index);
                die.read(ring, from, len, |_, _| (suspend, Nanos::ZERO))
            }
            ReadRule::Array => self.read_array(from, page, len, restarts),
            ReadRule::Watched => {
                return self.read_watched(floor, from, page, len, data, restarts);
            }
        };
        let channel = self.geometry.channel_of_die(index);
        let moved = self.channels[channel].reserve(floor, sensed, data);
        ReadTimes { begin, sensed, done: moved.after(self.decode) }
    }

    /// A read while the activity is kept.
    #[cold]
    #[inline(never)]
    fn read_watched(
        &mut self,
        floor: Nanos,
        from: Nanos,
        page: u32,
        len: Nanos,
        data: Nanos,
        restarts: bool,
    ) -> ReadTimes {
        let (index, channel) = (self.geometry.die_of(page), self.geometry.channel_of(page));
        let reads_until = self.dies[index as usize].reads_until;
        let (begin, sensed) = self.read_array(from, page, len, restarts);
        let moved = self.channels[channel].reserve(floor, sensed, data);
        if let Some(activity) = &mut self.activity {
            // A die whose planes overlap is busy once.
            activity.read(index as usize, begin.max(reads_until), sensed);
            activity.transfer(channel, data, moved);
        }
        ReadTimes { begin, sensed, done: moved.after(self.decode) }
    }

    /// The array part of a read where its die alone does not say when: (begin, end). Cost: 1 die;
    /// with planes that read by themselves that of [`Nand::read_plane`].
    #[inline(never)]
    fn read_array(&mut self, from: Nanos, page: u32, len: Nanos, restarts: bool) -> (Nanos, Nanos) {
        if self.planes.is_empty() {
            return self.read_die(self.geometry.die_of(page), from, len, restarts);
        }
        self.read_plane(from, page, len, restarts)
    }

    /// A read of a die, whose wait for a program or erase a plug-in may set or may be drawn:
    /// (begin, end).
    #[inline]
    fn read_die(&mut self, index: u32, from: Nanos, len: Nanos, restarts: bool) -> (Nanos, Nanos) {
        let ring_begin = (index as usize) << self.ring_shift;
        let ring = &mut self.writes[ring_begin..ring_begin + (1 << self.ring_shift)];
        let die = &mut self.dies[index as usize];
        if let Some(scheduler) = &mut self.scheduler
            && let Some(waits) = die.waits_for(ring, from)
        {
            let read = DieRead {
                read_ns: len.0,
                suspend_ns: self.suspend.0,
                waited_ns: waits.begin.since(from).0,
                running_ns: waits.running_until.since_or_zero(waits.begin).0,
                all_ns: die.newest(ring).until.since(waits.begin).0,
                writes: waits.count,
                die: index,
            };
            let later = scheduler.schedule_read(&read);
            if later > Nanos::ZERO {
                // As after a read: writes wait until this one is over.
                die.reads_until = waits.begin.after(later);
            }
        }
        match &mut self.suspension {
            Some(drawn) => die.read(ring, from, len, |number, entry| {
                drawn.suspend(index, from, (number, ring_begin + entry), restarts)
            }),
            None => die.read(ring, from, len, |_, _| (self.suspend, Nanos::ZERO)),
        }
    }

    /// The array part of a read on one of a die's planes that read by themselves: (begin, end).
    ///
    /// Cost: 1 die; where no other plane reads, 1 step per plane.
    fn read_plane(&mut self, from: Nanos, page: u32, len: Nanos, restarts: bool) -> (Nanos, Nanos) {
        let index = self.geometry.die_of(page);
        let plane = self.geometry.plane_of_all(page);
        let plane_until = self.planes[plane];
        let reads_until = self.dies[index as usize].reads_until;
        if from > reads_until {
            let (begin, end) = self.read_die(index, from, len, restarts);
            // Before it no other plane reads either: a running write had to be suspended.
            let shift = self.geometry.plane_shift;
            let first = (index << shift) as usize;
            self.planes[first..first + (1 << shift)].fill(begin);
            self.planes[plane] = end;
            return (begin, end);
        }
        let begin = from.max(plane_until);
        let end = begin.after(len);
        if end > reads_until {
            // Writes wait for the plane of this read longer than for all others.
            self.read_die(index, reads_until, end.since(reads_until), restarts);
        }
        self.planes[plane] = end;
        (begin, end)
    }

    /// A die and its ring.
    #[inline(always)]
    fn die(&mut self, index: u32) -> (&mut Die, &mut [Write]) {
        let begin = (index as usize) << self.ring_shift;
        let ring = &mut self.writes[begin..begin + (1 << self.ring_shift)];
        (&mut self.dies[index as usize], ring)
    }

    /// Time when a program begins or began, as far as is known now.
    #[cfg(test)]
    fn begin_of(&self, program: Ticket) -> Nanos {
        match self.writes.get(program.entry as usize) {
            None => Nanos(u64::MAX),
            Some(write) if write.number == program.number => write.from,
            Some(_) => Nanos::ZERO,
        }
    }

    /// Time when a program ends or ended, as far as is known now. Cost: 1 ring entry.
    #[inline(always)]
    pub fn end_of(&self, program: Ticket) -> Nanos {
        match self.writes.get(program.entry as usize) {
            None => Nanos(u64::MAX),
            Some(write) if write.number == program.number => write.until,
            // Its entry was used again: it has ended.
            Some(_) => Nanos::ZERO,
        }
    }

    /// Moves a die's pages in and programs all planes; `end_of` returns when the data is safe.
    ///
    /// Cost: 1 die, 1 calendar, once per `planes` pages.
    #[inline]
    pub fn program(&mut self, floor: Nanos, from: Nanos, page: u32) -> Ticket {
        self.program_in(floor, from, page, self.timing.program(page))
    }

    /// Programs a die with the firmware's own data.
    pub fn program_metadata(&mut self, floor: Nanos, from: Nanos, page: u32) {
        self.program_in(floor, from, page, self.timing.program_metadata(page));
    }

    #[inline(always)]
    fn program_in(&mut self, floor: Nanos, from: Nanos, page: u32, time: Nanos) -> Ticket {
        let len = self.load;
        let index = self.geometry.die_of(page);
        let begin = (index as usize) << self.ring_shift;
        let ring = &mut self.writes[begin..begin + (1 << self.ring_shift)];
        let die = &mut self.dies[index as usize];
        let before = die.newest(ring);
        let (register, gap) = match self.cache_program {
            true if before.from == before.until => (die.newest_program(ring).from, 0),
            true => (before.from, 0),
            false => (before.until, len.0 as u32),
        };
        let channel = &mut self.channels[self.geometry.channel_of_die(index)];
        let loaded = channel.reserve(floor, from.max(register), len);
        let number = die.occupy(ring, loaded, time, gap);
        let entry = begin + (number as usize & (ring.len() - 1));
        if let Some(suspension) = self.suspension.as_mut().filter(|drawn| drawn.restarts()) {
            suspension.note_program(entry, time.after(self.timing.word_line_before(page)));
        }
        if self.activity.is_some() {
            self.note_program(page, entry, loaded, time);
        }
        Ticket { entry: entry as u32, number }
    }

    #[cold]
    #[inline(never)]
    fn note_program(&mut self, page: u32, entry: usize, loaded: Nanos, time: Nanos) {
        let until = self.writes[entry].until;
        if let Some(activity) = &mut self.activity {
            let die = self.geometry.die_of(page) as usize;
            activity.transfer(self.geometry.channel_of(page), self.load, loaded);
            activity.program(die, until.since_or_zero(time), until);
        }
    }

    /// Power is gone: whatever dies and channels were doing has ended, or never will.
    pub fn power_cut(&mut self) {
        self.writes.fill(Write::default());
        self.channels.fill(Calendar::default());
        for die in &mut self.dies {
            (die.reads_until, die.first) = (Nanos::ZERO, die.next);
        }
    }

    /// A superblock is written from now on with one bit per cell, or with all.
    pub fn set_slc(&mut self, superblock: u32, slc: bool) {
        self.timing.set_slc(superblock, slc);
    }

    /// Time when all dies have done what they were asked so far.
    pub fn idle_at(&self) -> Nanos {
        let rings = self.writes.chunks_exact(1 << self.ring_shift);
        let dies = self.dies.iter().zip(rings);
        dies.map(|(die, ring)| die.newest(ring).until.max(die.reads_until))
            .fold(Nanos::ZERO, Nanos::max)
    }

    /// tR without regard to the page type.
    pub fn read_time(&self) -> Nanos {
        self.timing.read_nominal()
    }

    /// Erases one block on every plane of every die; in a scaled drive one in so many takes time.
    pub fn erase_superblock(&mut self, from: Nanos, superblock: u32) {
        let so_far = self.timing.erases_that_take_time(self.superblock_erases);
        self.superblock_erases += 1;
        if self.timing.erases_that_take_time(self.superblock_erases) == so_far {
            return;
        }
        let (group, shift) = (self.geometry.group_of(superblock), self.geometry.group_shift);
        for index in (group..self.dies.len() as u32).step_by(1 << shift) {
            self.erase_block(from, index, superblock);
        }
    }

    /// Time that each die takes to program all of so many flash pages: from the first page of a
    /// superblock on, over all dies, each program after the one before and no faster than all dies
    /// of a channel get their data. Cost: 1 table entry per program.
    pub fn program_times(&self, first: u32, pages: u32) -> Vec<Nanos> {
        let g = &self.geometry;
        let planes = 1 << g.plane_shift;
        let sharing = (self.dies.len() / self.channels.len()).max(1) as u64;
        let (loads, own) =
            (self.load.times(sharing), if self.cache_program { Nanos::ZERO } else { self.load });
        let mut times = vec![Nanos::ZERO; self.dies.len()];
        for page in (first..first + pages).filter(|&page| g.plane_of(page) == planes - 1) {
            let time = &mut times[g.die_of(page) as usize];
            *time = time.after(self.timing.program(page).after(own).max(loads));
        }
        times
    }

    /// Programs all dies at once, each for its time.
    pub fn program_all(&mut self, from: Nanos, times: &[Nanos]) {
        for (index, &time) in (0u32..).zip(times) {
            let (die, ring) = self.die(index);
            die.occupy(ring, from, time, 0);
        }
    }

    fn erase_block(&mut self, from: Nanos, index: u32, superblock: u32) {
        let time = self.timing.erase(index, superblock);
        let (die, ring) = self.die(index);
        let number = die.occupy(ring, from, time, 0);
        let until = die.newest(ring).until;
        if let Some(drawn) = &mut self.suspension {
            let entry = number as usize & ((1 << self.ring_shift) - 1);
            drawn.note_erase(index, number, ((index as usize) << self.ring_shift) + entry);
        }
        if let Some(activity) = &mut self.activity {
            activity.erase(index as usize, until.since_or_zero(time), until);
        }
    }
}

/// The programs and erases that a read meets.
struct Waits {
    /// When the read could begin if there were none.
    begin: Nanos,
    /// End of the write that runs at that time; before it if none does.
    running_until: Nanos,
    /// Number of such writes.
    count: u32,
}

impl Die {
    /// Writes that a read asked at `from` meets, if any. Cost: one step per write that has not
    /// ended.
    fn waits_for(&self, ring: &[Write], from: Nanos) -> Option<Waits> {
        let mask = ring.len() - 1;
        let begin = from.max(self.reads_until);
        let behind_read = from <= self.reads_until;
        let oldest = self.first.max(self.next.saturating_sub(ring.len() as u32));
        let mut left =
            (oldest..self.next).map(|i| ring[i as usize & mask]).filter(|w| w.until > begin);
        let first = left.next()?;
        let runs = first.from < begin || (first.from == begin && !behind_read);
        let running_until = if runs { first.until } else { Nanos::ZERO };
        Some(Waits { begin, running_until, count: 1 + left.count() as u32 })
    }

    /// Newest write; one that ended at zero if there was none.
    #[inline(always)]
    fn newest(&self, ring: &[Write]) -> Write {
        ring[(self.next - 1) as usize & (ring.len() - 1)]
    }

    /// Newest write that takes time, unlike the first pages of a word line that is programmed at
    /// once: the registers of a die hold all of them.
    #[cold]
    fn newest_program(&self, ring: &[Write]) -> Write {
        let mask = ring.len() - 1;
        let mut newest =
            (1..=self.next.min(4)).map(|back| ring[(self.next - back) as usize & mask]);
        newest.find(|write| write.from < write.until).unwrap_or_default()
    }

    /// Reads as soon as the reads before it are over and a running write can be suspended.
    /// `suspend` returns the time that takes for the write's number and entry, and the least time
    /// that the write takes afterwards.
    ///
    /// Cost: one step per write that it delays.
    #[inline(always)]
    fn read(
        &mut self,
        ring: &mut [Write],
        from: Nanos,
        len: Nanos,
        suspend: impl FnOnce(u32, usize) -> (Nanos, Nanos),
    ) -> (Nanos, Nanos) {
        let mask = ring.len() - 1;
        // After another read no write runs in between.
        let behind_read = from <= self.reads_until;
        let mut begin = from.max(self.reads_until);
        self.first = self.first.max(self.next.saturating_sub(ring.len() as u32));
        while self.first != self.next && ring[self.first as usize & mask].until <= begin {
            self.first += 1;
        }
        if self.first != self.next {
            let entry = self.first as usize & mask;
            let running = &mut ring[entry];
            if running.from > begin || (behind_read && running.from == begin) {
                self.push_from(ring, self.first, begin.after(len));
            } else {
                let mut least = Nanos::ZERO;
                if !behind_read {
                    let (wait, whole) = suspend(running.number, entry);
                    begin = begin.after(wait).min(running.until);
                    least = whole;
                }
                let end = begin.after(len);
                if begin < running.until {
                    running.until = end.after(running.until.since(begin).max(least));
                    let until = running.until;
                    let gap = ring[(self.first + 1) as usize & mask].gap;
                    self.push_from(ring, self.first + 1, until.after(Nanos(u64::from(gap))));
                } else {
                    self.push_from(ring, self.first + 1, end);
                }
            }
        }
        self.reads_until = begin.after(len);
        (begin, self.reads_until)
    }

    /// Moves the writes from number `first` on, which can go on at `earliest`.
    #[inline(always)]
    fn push_from(&self, ring: &mut [Write], first: u32, earliest: Nanos) {
        let mask = ring.len() - 1;
        let (mut number, mut earliest) = (first, earliest);
        while number != self.next {
            let write = &mut ring[number as usize & mask];
            if write.from >= earliest {
                break;
            }
            let delay = earliest.since(write.from);
            write.from = earliest;
            write.until = write.until.after(delay);
            number += 1;
            earliest = write.until.after(Nanos(u64::from(ring[number as usize & mask].gap)));
        }
    }

    /// Queues a program or erase after those before it; returns its number.
    ///
    /// When the ring is full of writes that have not ended by `from`, the newest two become one,
    /// which can only delay those that wait for the earlier.
    #[inline(always)]
    fn occupy(&mut self, ring: &mut [Write], from: Nanos, len: Nanos, gap: u32) -> u32 {
        let mask = ring.len() - 1;
        let begin = from.max(self.newest(ring).until).max(self.reads_until);
        let until = begin.after(len);
        let number = self.next;
        if ring[number as usize & mask].until > from {
            ring[(number - 1) as usize & mask].until = until;
            return number - 1;
        }
        ring[number as usize & mask] = Write { from: begin, until, gap, number };
        self.next += 1;
        number
    }
}

#[cfg(test)]
#[path = "../../tests/unit/nand_dies.rs"]
mod tests;
