//! Flash timing: how long a die and its channel stay busy for one operation.
//!
//! Sources: ONFI 4.x for the order of operations (array read, then data out; data in, then array
//! program; suspend and resume); times come from the profile.
//! Model: a die does one array operation at a time. Reads overtake waiting programs, and suspend a
//! running program or erase after at most `suspend`; what they take is added to its end. All planes
//! of a die program together once the last plane's page is filled. Data of the next program may move
//! during the running one (`cache_program`).
//! Not modelled: page-register conflicts of back-to-back reads (reads of one die overlap array time
//! with data out, as with cache read: latencies at high load are slightly low); read retry, errors.

use drivebay_units::Nanos;

use crate::spec::{Geometry, NandTiming, transfer};
use crate::timeline::Calendar;

/// Least common multiple of one to four page types: a constant divides without a division.
const ROWS_REPEAT: u32 = 12;

/// One die's timeline.
#[derive(Clone, Copy, Debug, Default)]
struct Die {
    /// When the reads asked so far have left the array.
    reads_until: Nanos,
    /// Begin of the running block of programs and erases.
    program_from: Nanos,
    /// Its end.
    program_until: Nanos,
    /// When the last program took its data out of the register.
    register_free: Nanos,
}

/// When the parts of a read were over.
#[derive(Clone, Copy, Debug)]
pub struct ReadTimes {
    /// The die was free for it.
    pub begin: Nanos,
    /// Data is in the register: `begin` + tR.
    pub sensed: Nanos,
    /// Data is over the channel.
    pub done: Nanos,
}

/// All dies and channels.
pub struct Nand {
    timing: NandTiming,
    /// tPROG by row, repeated to a length that all counts of page types divide.
    program: [Nanos; ROWS_REPEAT as usize],
    dies: Vec<Die>,
    channels: Vec<Calendar>,
    die_mask: u32,
    channel_mask: u32,
    program_bytes: u64,
    /// Flash pages read so far.
    pub page_reads: u64,
    /// Die-wide programs so far.
    pub programs: u64,
    /// Superblocks erased so far.
    pub superblock_erases: u64,
}

impl Nand {
    /// All dies idle.
    pub fn new(timing: NandTiming, geometry: &Geometry) -> Nand {
        let dies = geometry.dies();
        Nand {
            timing,
            program: std::array::from_fn(|row| timing.program[row % timing.page_types as usize]),
            dies: vec![Die::default(); dies as usize],
            channels: vec![Calendar::default(); geometry.channel_mask as usize + 1],
            die_mask: dies - 1,
            channel_mask: geometry.channel_mask,
            program_bytes: geometry.flash_page_bytes() << geometry.plane_shift,
            page_reads: 0,
            programs: 0,
            superblock_erases: 0,
        }
    }

    /// Senses a flash page and moves `bytes` of it over the channel.
    ///
    /// `page` is the flash page's number, `floor` a time before which nobody will ask again.
    /// Cost: 1 die, 1 calendar.
    #[inline]
    pub fn read(&mut self, floor: Nanos, from: Nanos, page: u32, bytes: u64) -> ReadTimes {
        let (begin, sensed) = self.sense(from, page);
        let done = self.move_out(floor, sensed, page, bytes);
        ReadTimes { begin, sensed, done }
    }

    /// The array part of a read: (begin, end).
    #[inline]
    pub fn sense(&mut self, from: Nanos, page: u32) -> (Nanos, Nanos) {
        self.page_reads += 1;
        let die = &mut self.dies[(page & self.die_mask) as usize];
        let mut begin = from.max(die.reads_until);
        if begin >= die.program_from && begin < die.program_until {
            begin = begin.after(self.timing.suspend).min(die.program_until);
        }
        let end = begin.after(self.timing.read);
        if begin < die.program_until {
            if begin >= die.program_from {
                // Suspended: the program goes on when the read is over.
                die.program_until = die.program_until.after(self.timing.read);
            } else if end > die.program_from {
                // The program has not begun: it begins later.
                let delay = end.since(die.program_from);
                die.program_from = end;
                die.program_until = die.program_until.after(delay);
            }
        }
        die.reads_until = end;
        (begin, end)
    }

    /// The channel part of a read.
    #[inline]
    pub fn move_out(&mut self, floor: Nanos, from: Nanos, page: u32, bytes: u64) -> Nanos {
        let len = transfer(bytes, self.timing.channel_fs_per_byte);
        self.channels[(page & self.channel_mask) as usize].reserve(floor, from, len)
    }

    /// Moves a die's pages in and programs all planes; returns when the data is safe.
    ///
    /// `row` selects the page type. Cost: 1 die, 1 calendar, once per `planes` pages.
    #[inline]
    pub fn program(&mut self, floor: Nanos, from: Nanos, page: u32, row: u32) -> Nanos {
        self.programs += 1;
        let len = transfer(self.program_bytes, self.timing.channel_fs_per_byte);
        let die = &mut self.dies[(page & self.die_mask) as usize];
        let register =
            if self.timing.cache_program { die.register_free } else { die.program_until };
        let channel = &mut self.channels[(page & self.channel_mask) as usize];
        let loaded = channel.reserve(floor, from.max(register), len);
        let time = self.program[(row % ROWS_REPEAT) as usize];
        die.occupy(loaded, time)
    }

    /// Erases one block on every plane of every die; returns when the last die is done.
    pub fn erase_superblock(&mut self, from: Nanos) -> Nanos {
        self.superblock_erases += 1;
        let time = self.timing.erase;
        self.dies.iter_mut().map(|die| die.occupy(from, time)).max().expect("a drive has dies")
    }
}

impl Die {
    /// Queues a program or erase behind those before it; returns its end.
    #[inline(always)]
    fn occupy(&mut self, from: Nanos, len: Nanos) -> Nanos {
        let begin = from.max(self.program_until).max(self.reads_until);
        if self.program_until < begin {
            self.program_from = begin;
        }
        self.register_free = begin;
        self.program_until = begin.after(len);
        self.program_until
    }
}
