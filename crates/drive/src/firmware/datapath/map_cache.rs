//! The map of a drive without memory for it: a cache of translation pages.
//!
//! Sources: translation pages loaded on demand and written back when they leave the cache as in
//! DFTL (Gupta et al., ASPLOS 2009); host memory as a second level as NVMe 1.2 defines it and
//! drives use it (Kim and Kim, PLOS ONE 2020). Replacement is CLOCK in both levels (`guess:`
//! firmware's own is not known): what leaves the controller goes to the host's memory, what leaves
//! that goes to flash. Model: a command waits until all translation pages that it needs are there,
//! writes too. One that was never written is not looked for. Translation pages evicted dirty are
//! written 4 KiB each. Not modelled: journals and other compressions of the map (real drives write
//! less), garbage collection of the translation pages themselves (their write amplification is 1)
//! and the space they take (0.1 %); writing all back at a flush or a power loss; the link's load by
//! look-ups in the host's memory.

use drivebay_units::Nanos;

use crate::persist::{StateError, ensure, persist};
use crate::profile::{Geometry, MapCacheSpec};

/// Counts of the map's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapTraffic {
    /// Translation pages that commands and garbage collection needed.
    pub look_ups: u64,
    /// Found in the controller.
    pub sram_hits: u64,
    /// Found in the host's memory.
    pub host_hits: u64,
    /// Read from flash.
    pub loads: u64,
    /// Written to flash.
    pub write_backs: u64,
}

persist!(MapTraffic: look_ups, sram_hits, host_hits, loads, write_backs);

/// Place of a translation page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the controller, or never written: at once.
    Here,
    /// In the host's memory, which takes so long to reach.
    Host { access: Nanos },
    /// In flash.
    Flash,
}

const NEVER_WRITTEN: u32 = 0;
const IN_FLASH: u32 = 1;
/// Value of `place` for a translation page in frame 0.
const FIRST_FRAME: u32 = 2;

const REFERENCED: u8 = 1;
const DIRTY: u8 = 2;

/// Frames that one hand goes round.
#[derive(Clone, Copy, Debug)]
struct Level {
    first: u32,
    len: u32,
    used: u32,
    hand: u32,
}

persist!(Level: used, hand; given: first, len);

/// The cache: which translation page is where.
pub struct MapCache {
    /// By translation page.
    place: Vec<u32>,
    /// By frame.
    owner: Vec<u32>,
    flags: Vec<u8>,
    sram: Level,
    host: Level,
    host_access: Nanos,
    /// Translation pages that one program writes.
    per_program: u32,
    /// Pages that wait until a program is full.
    waiting: u32,
    /// Traffic so far.
    pub traffic: MapTraffic,
}

persist!(MapCache: place, owner, flags, sram, host, waiting, traffic; given: host_access, per_program);

impl MapCache {
    /// Checks that pages and frames agree.
    pub fn check(&self) -> Result<(), StateError> {
        let level = |l: &Level| l.used <= l.len && l.hand < l.len.max(1);
        ensure(level(&self.sram) && level(&self.host), "a level of the map's cache")?;
        let frames = [&self.sram, &self.host].map(|l| l.first..l.first + l.used);
        let mut held = 0;
        for (page, &place) in (0u32..).zip(&self.place) {
            if let Some(frame) = place.checked_sub(FIRST_FRAME) {
                let used = frames.iter().any(|frames| frames.contains(&frame));
                ensure(used && self.owner[frame as usize] == page, "a frame of the map's cache")?;
                held += 1;
            }
        }
        ensure(held == self.sram.used + self.host.used, "a frame without a translation page")
    }

    /// An empty cache of an empty map.
    pub fn new(spec: &MapCacheSpec, geometry: &Geometry) -> MapCache {
        // More frames than translation pages would never be used.
        let sram = spec.sram_pages.min(spec.map_pages);
        let host = spec.host_pages.min(spec.map_pages - sram);
        let level = |first, len| Level { first, len, used: 0, hand: 0 };
        MapCache {
            place: vec![NEVER_WRITTEN; spec.map_pages as usize],
            owner: vec![0; (sram + host) as usize],
            flags: vec![0; (sram + host) as usize],
            sram: level(0, sram),
            host: level(sram, host),
            host_access: spec.host_access,
            per_program: 1 << (geometry.unit_shift + geometry.page_shift + geometry.plane_shift),
            waiting: 0,
            traffic: MapTraffic::default(),
        }
    }

    /// Forgets everything: no translation page is written (secure erase).
    pub fn forget(&mut self) {
        self.place.fill(NEVER_WRITTEN);
        self.sram.used = 0;
        self.host.used = 0;
        self.waiting = 0;
    }

    /// Brings a translation page into the controller; also returns the number of the program, if
    /// one is full of pages that had to leave for it.
    ///
    /// Cost: 1 place, 1 frame; on a miss the frames that the hands pass.
    #[inline]
    pub fn look_up(&mut self, page: u32, change: bool) -> (Found, Option<u64>) {
        self.traffic.look_ups += 1;
        let place = self.place[page as usize];
        let dirty = if change { DIRTY } else { 0 };
        if place >= FIRST_FRAME && place - FIRST_FRAME < self.sram.len {
            self.flags[(place - FIRST_FRAME) as usize] |= REFERENCED | dirty;
            self.traffic.sram_hits += 1;
            return (Found::Here, None);
        }
        let (found, writes_back) = self.miss(page, place, dirty, change);
        (found, if writes_back { self.write_back() } else { None })
    }

    /// Notes a translation page to be written; returns the number of the program that it makes
    /// full.
    fn write_back(&mut self) -> Option<u64> {
        self.traffic.write_backs += 1;
        self.waiting += 1;
        if self.waiting < self.per_program {
            return None;
        }
        self.waiting = 0;
        Some(self.traffic.write_backs / u64::from(self.per_program))
    }

    fn miss(&mut self, page: u32, place: u32, dirty: u8, change: bool) -> (Found, bool) {
        if place == NEVER_WRITTEN && !change {
            return (Found::Here, false);
        }
        if place >= FIRST_FRAME {
            // The host has it: it changes places with the page that leaves the controller.
            let from = place - FIRST_FRAME;
            let to = self.victim(Which::Sram);
            self.owner.swap(from as usize, to as usize);
            self.flags.swap(from as usize, to as usize);
            self.flags[to as usize] |= REFERENCED | dirty;
            self.place[self.owner[from as usize] as usize] = from + FIRST_FRAME;
            self.place[page as usize] = to + FIRST_FRAME;
            self.traffic.host_hits += 1;
            return (Found::Host { access: self.host_access }, false);
        }
        let (frame, writes_back) = self.take_frame();
        self.owner[frame as usize] = page;
        self.flags[frame as usize] = REFERENCED | dirty;
        self.place[page as usize] = frame + FIRST_FRAME;
        if place == NEVER_WRITTEN {
            return (Found::Here, writes_back);
        }
        self.traffic.loads += 1;
        (Found::Flash, writes_back)
    }

    /// Frees a frame of the controller; its page moves one level out.
    fn take_frame(&mut self) -> (u32, bool) {
        if let Some(frame) = self.sram.unused() {
            return (frame, false);
        }
        let frame = self.victim(Which::Sram);
        if self.host.len == 0 {
            return (frame, self.evict(frame));
        }
        let (to, writes_back) = match self.host.unused() {
            Some(to) => (to, false),
            None => {
                let to = self.victim(Which::Host);
                (to, self.evict(to))
            }
        };
        let moved = self.owner[frame as usize];
        self.owner[to as usize] = moved;
        self.flags[to as usize] = self.flags[frame as usize];
        self.place[moved as usize] = to + FIRST_FRAME;
        (frame, writes_back)
    }

    /// A frame's page is in flash only; returns whether it must be written there.
    fn evict(&mut self, frame: u32) -> bool {
        self.place[self.owner[frame as usize] as usize] = IN_FLASH;
        self.flags[frame as usize] & DIRTY != 0
    }

    /// The next frame of a full level that has not been referenced since the hand passed it.
    fn victim(&mut self, which: Which) -> u32 {
        let level = match which {
            Which::Sram => &mut self.sram,
            Which::Host => &mut self.host,
        };
        loop {
            let frame = level.first + level.hand;
            level.hand = if level.hand + 1 == level.len { 0 } else { level.hand + 1 };
            let flags = &mut self.flags[frame as usize];
            if *flags & REFERENCED == 0 {
                return frame;
            }
            *flags &= !REFERENCED;
        }
    }
}

#[derive(Clone, Copy)]
enum Which {
    Sram,
    Host,
}

impl Level {
    fn unused(&mut self) -> Option<u32> {
        (self.used < self.len).then(|| {
            self.used += 1;
            self.first + self.used - 1
        })
    }
}
