//! Stripes: the flash pages of a superblock that hold data, those that hold the parity of others,
//! and those on a die that failed.
//!
//! Sources: RAIN of Micron's drives, a stripe of 15 pages and one of parity (technical marketing
//! brief "NAND Flash Media Management Through RAIN", 2013): of a stripe across so many dies the
//! last page that can be written is the XOR of the others. guess: that stripes begin one page
//! further on in each superblock, so that no die holds parity alone, and that one ends with its
//! superblock. A die that fails (a known case in the field: Schroeder et al., FAST 2016) answers
//! nothing from then on. Superblocks opened later leave it out. Its data is computed from all other
//! pages of the stripe, and moved elsewhere at the profile's rate; without parity, or if two dies
//! of a stripe have failed, it is lost. The XOR of a stripe under way is in the controller's
//! memory, so its data is safe as well. guess: after a power cut the drive writes the parity that
//! begun stripes lack, in no time. Left out: data in the write buffer for a die that fails counts
//! as programmed; retries of reads for a stripe; the map's own data on that die, of which firmware
//! has copies.

use std::collections::VecDeque;
use std::ops::Range;

use drivebay_units::Nanos;

use crate::persist::{StateError, ensure, persist};
use crate::profile::{Geometry, Spec};
use crate::timeline::NEVER;

/// Time that a rebuild held up by the flash catches up on. guess: a tenth of a heat step.
const CATCH_UP: Nanos = Nanos::millis(10);

/// Purpose of a flash page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It holds data.
    Data,
    /// It holds the parity of its stripe.
    Parity,
    /// Its die had failed before its superblock was opened.
    Dead,
}

/// Stripes of all superblocks, dies that failed, and the progress of their rebuild.
pub struct Stripes {
    geometry: Geometry,
    /// Time from one page (mapping unit) rebuilt to the next; none without parity.
    interval: Nanos,
    /// Dies that failed, in order.
    failed: VecDeque<u32>,
    /// Number of dies that had failed when each superblock was opened.
    left_out: Vec<u32>,
    /// Number of failed dies whose data was all moved, and the next superblock and its next page of
    /// the one in hand.
    rebuilt: (u32, u32),
    next_page: u32,
    /// Time when the next page is moved, if one is.
    due: Option<Nanos>,
}

persist!(Stripes: failed, left_out, rebuilt, next_page, due; given: geometry, interval);

impl Stripes {
    pub fn new(spec: &Spec) -> Stripes {
        Stripes {
            geometry: spec.geometry,
            interval: spec.rebuild_interval,
            failed: VecDeque::new(),
            left_out: vec![0; spec.geometry.superblocks as usize],
            rebuilt: (0, 0),
            next_page: 0,
            due: None,
        }
    }

    /// True if every page holds data and can be read.
    pub fn are_plain(&self) -> bool {
        self.geometry.parity_dies.is_none() && self.failed.is_empty()
    }

    /// Dies that failed, in order.
    pub fn failed(&self) -> &VecDeque<u32> {
        &self.failed
    }

    /// Time when the next page of a failed die is moved; the end of time if none is.
    #[inline(always)]
    pub fn due(&self) -> Nanos {
        self.due.unwrap_or(NEVER)
    }

    /// Pages (mapping units) that hold data, of so many addresses.
    pub fn data_pages(&self, addresses: u64) -> u64 {
        let dies = u64::from(self.geometry.die_mask) + 1;
        // With several reclaim groups the one with most failed dies counts: each has its share of
        // the data.
        let of_group = |group| {
            self.failed.iter().filter(|&&die| self.geometry.group_of(die) == group).count() as u64
        };
        let failed = (0..1 << self.geometry.group_shift).map(of_group).max().unwrap_or(0);
        self.geometry.data_pages(addresses) * (dies - failed) / dies
    }

    /// Notes that a superblock is opened.
    pub fn note_opened(&mut self, superblock: u32) {
        self.left_out[superblock as usize] = self.failed.len() as u32;
    }

    /// Fails a die at `at`; its data is moved, if that is possible.
    pub fn fail(&mut self, die: u32, at: Nanos) {
        self.failed.push_back(die);
        if self.geometry.parity_dies.is_some() {
            self.due = self.due.or(Some(at));
        }
    }

    /// Begins anew after a power cut: copies that were lost are made again.
    pub fn restart(&mut self, at: Nanos) {
        (self.rebuilt, self.next_page) = ((0, 0), 0);
        if self.geometry.parity_dies.is_some() && !self.failed.is_empty() {
            self.due = Some(at);
        }
    }

    /// Ends the rebuild.
    pub fn stop(&mut self) {
        self.due = None;
    }

    /// Counts pages (mapping units) that were moved from `at` on.
    pub fn note_moved(&mut self, pages: u32, at: Nanos) {
        let from = self.due().min(at).max(Nanos(at.0.saturating_sub(CATCH_UP.0)));
        self.due = Some(from.after(self.interval.times(u64::from(pages))));
    }

    /// Next flash page of a failed die that may still hold data; none, and an end, if there is no
    /// more.
    pub fn next_to_move(&mut self) -> Option<u32> {
        let g = self.geometry;
        let pages = g.superblock_pages >> g.page_shift;
        while let Some(&die) = self.failed.get(self.rebuilt.0 as usize) {
            let (done, superblock) = self.rebuilt;
            if superblock == g.superblocks {
                (self.rebuilt, self.next_page) = ((done + 1, 0), 0);
            } else if self.next_page == pages || self.left_out[superblock as usize] > done {
                (self.rebuilt.1, self.next_page) = (superblock + 1, 0);
            } else {
                let page = superblock * pages + self.next_page;
                self.next_page += 1;
                if g.die_of(page) == die {
                    return Some(page);
                }
            }
        }
        self.stop();
        None
    }

    /// True if a flash page lies on a die that failed with data on it.
    #[inline(always)]
    pub fn is_lost(&self, page: u32) -> bool {
        !self.failed.is_empty()
            && self.place_of(page).is_some_and(|place| place >= self.left_out_of(page))
    }

    /// Flash pages that a lost one is computed from; none if they do not suffice.
    pub fn others(&self, page: u32) -> Option<impl Iterator<Item = u32> + use<'_>> {
        self.geometry.parity_dies?;
        let others = self.stripe(page).filter(move |&other| other != page && self.is_used(other));
        let mut more = others.clone();
        (others.clone().count() > 0 && !more.any(|other| self.is_lost(other))).then_some(others)
    }

    /// Purpose of a flash page.
    pub fn role(&self, page: u32) -> Role {
        if !self.is_used(page) {
            return Role::Dead;
        }
        let last = || self.stripe(page).filter(|&other| self.is_used(other)).last() == Some(page);
        if self.geometry.parity_dies.is_some() && last() { Role::Parity } else { Role::Data }
    }

    /// True if a flash page's die worked when its superblock was opened.
    fn is_used(&self, page: u32) -> bool {
        self.place_of(page).is_none_or(|place| place >= self.left_out_of(page))
    }

    /// Place of a flash page's die among those that failed.
    fn place_of(&self, page: u32) -> Option<u32> {
        let die = self.geometry.die_of(page);
        self.failed.iter().position(|&failed| failed == die).map(|place| place as u32)
    }

    fn left_out_of(&self, page: u32) -> u32 {
        let g = &self.geometry;
        self.left_out[(page / (g.superblock_pages >> g.page_shift)) as usize]
    }

    /// Flash pages of a page's stripe, in order.
    fn stripe(&self, page: u32) -> impl Iterator<Item = u32> + Clone + use<> {
        let g = &self.geometry;
        let (pages, step) = (g.superblock_pages >> g.page_shift, g.order.die_pages);
        let width = g.parity_dies.unwrap_or(1);
        let (superblock, offset) = (page / pages, page % pages);
        let (unit, phase) = (offset / step, superblock % width);
        let first = (unit + phase) / width * width;
        let units: Range<u32> =
            first.saturating_sub(phase)..(first + width - phase).min(pages / step);
        let base = page - unit * step;
        units.map(move |unit| base + unit * step)
    }

    /// Checks a state that was read back.
    pub fn check(&self) -> Result<(), StateError> {
        let (g, failed) = (&self.geometry, self.failed.len() as u32);
        let once = |(place, die): (usize, &u32)| {
            *die < g.dies() && !self.failed.iter().take(place).any(|other| other == die)
        };
        ensure(self.failed.iter().enumerate().all(once), "dies that failed")?;
        let known = self.left_out.iter().all(|&count| count <= failed);
        let (done, superblock) = self.rebuilt;
        let place = done <= failed
            && superblock <= g.superblocks
            && self.next_page <= g.superblock_pages >> g.page_shift;
        let moves = self.due.is_none() || g.parity_dies.is_some() && failed > 0;
        ensure(known && place && moves, "the rebuild of a die")
    }
}
