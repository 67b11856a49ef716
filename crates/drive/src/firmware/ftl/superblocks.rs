//! Records of the superblocks: use, order of sealing, and wear.
//!
//! The static SLC cache's follow the ordinary ones.

use std::ops::Range;

use crate::persist::persist;
use crate::profile::Spec;
use crate::superblock::{State, Superblock};

/// The state of every superblock of the drive.
pub struct Superblocks {
    all: Vec<Superblock>,
    /// Superblocks sealed so far.
    pub sealed: u64,
    ordinary: usize,
    /// Pages of one with all bits per cell, and with one.
    pages: [u32; 2],
    /// Wear of an erase after use with one bit per cell, in 1/256 of one after use with all.
    cycle_weight_256: u32,
    /// Wear of all before the drive was made, in erases.
    worn: u32,
}

persist!(Superblocks: all, sealed; given: ordinary, pages, cycle_weight_256, worn);

impl Superblocks {
    pub fn new(spec: &Spec) -> Superblocks {
        let slc = spec.slc_cache;
        Superblocks {
            all: Vec::new(),
            sealed: 0,
            ordinary: spec.geometry.ordinary_superblocks() as usize,
            pages: [spec.geometry.superblock_pages, slc.map_or(0, |slc| slc.superblock_pages)],
            cycle_weight_256: slc.map_or(0, |slc| slc.cycle_weight_256),
            worn: spec.history.cycles,
        }
    }

    /// True if a drive of this profile has the same static superblocks.
    pub fn fits(&self, spec: &Spec) -> bool {
        self.ordinary == spec.geometry.ordinary_superblocks() as usize
    }

    /// Frees all and counts them as erased; those that were given up stay so, and wear stays.
    pub fn clear(&mut self, superblocks: u32, good: u32) {
        let old = std::mem::take(&mut self.all);
        self.all = (0..superblocks)
            .map(|index| {
                let was = old.get(index as usize);
                let given_up = was.is_some_and(|s| s.state == State::Bad);
                Superblock {
                    state: if index < good && !given_up { State::Free } else { State::Bad },
                    erases: was.map_or(0, |s| s.erases + u32::from(!s.erased)),
                    slc_erases: was.map_or(0, |s| s.slc_erases + u32::from(!s.erased && s.slc)),
                    ..Superblock::FRESH
                }
            })
            .collect();
        self.sealed = 0;
    }

    /// See [`super::Ftl::overwrite`].
    pub fn overwrite(&mut self, index: u32, passes: u32) -> Option<(u32, u32)> {
        let one = self.all.get_mut(index as usize).filter(|s| s.state != State::Bad)?;
        let erases = passes - u32::from(one.erased);
        one.erases += erases;
        one.slc_erases += if one.slc { erases } else { 0 };
        one.erased = false;
        Some((self.pages[usize::from(one.slc)], erases))
    }

    #[inline(always)]
    pub fn all(&self) -> &[Superblock] {
        &self.all
    }

    /// All but those of the static SLC cache.
    #[inline(always)]
    pub fn ordinary(&self) -> &[Superblock] {
        &self.all[..self.ordinary]
    }

    pub fn of_static_cache(&self) -> &[Superblock] {
        &self.all[self.ordinary..]
    }

    #[inline(always)]
    pub fn get(&self, index: u32) -> &Superblock {
        &self.all[index as usize]
    }

    #[inline(always)]
    pub fn get_mut(&mut self, index: u32) -> &mut Superblock {
        &mut self.all[index as usize]
    }

    pub fn all_mut(&mut self) -> &mut [Superblock] {
        &mut self.all
    }

    /// True if a superblock belongs to the static SLC cache.
    pub fn is_static(&self, index: u32) -> bool {
        index as usize >= self.ordinary
    }

    /// First address of a superblock.
    #[inline(always)]
    pub fn begin_of(&self, index: u32) -> u32 {
        index * self.pages[0]
    }

    /// Pages of a superblock as it is used now.
    #[inline(always)]
    pub fn pages_of(&self, index: u32) -> u32 {
        self.pages[usize::from(self.all[index as usize].slc)]
    }

    /// Pages that a superblock counts for while it is free.
    pub fn counts_free(&self, index: u32) -> u64 {
        if self.is_static(index) { 0 } else { u64::from(self.pages[0]) }
    }

    /// Pages of all that are not bad, without those of the static SLC cache.
    pub fn usable_pages(&self) -> u64 {
        let good = self.ordinary().iter().filter(|s| s.state != State::Bad).count();
        good as u64 * u64::from(self.pages[0])
    }

    /// Seals superblock `index`, which is full and may become a victim.
    pub fn seal(&mut self, index: u32) {
        let s = &mut self.all[index as usize];
        (s.state, s.sealed) = (State::Sealed, self.sealed);
        self.sealed += 1;
    }

    /// Wear of a superblock, in erases after use with all bits per cell.
    pub fn cycles(&self, index: u32) -> u32 {
        let s = self.get(index);
        self.weighted(s.erases, s.slc_erases)
    }

    /// Its wear after the next erase.
    pub fn cycles_after_erase(&self, index: u32) -> u32 {
        let s = self.get(index);
        self.weighted(s.erases + 1, s.slc_erases + u32::from(s.slc))
    }

    /// Wear of all.
    pub fn cycles_of_all(&self) -> Vec<u32> {
        (0..self.all.len() as u32).map(|index| self.cycles(index)).collect()
    }

    /// Wears superblocks on by `times` times their wear since it was `since`, evenly over those
    /// that wore since it was `began`, separately for the static SLC cache; returns each one's wear
    /// before and after.
    pub fn wear_on(&mut self, began: &[u32], since: &[u32], times: f64) -> Vec<Range<u32>> {
        let mut worn: Vec<_> = self.cycles_of_all().into_iter().map(|c| c..c).collect();
        for part in [0..self.ordinary, self.ordinary..self.all.len()] {
            let turned = |i: &usize| worn[*i].start > began[*i] && self.all[*i].state != State::Bad;
            let turned: Vec<usize> = part.filter(turned).collect();
            let whole: u32 = turned.iter().map(|&i| worn[i].start - since[i]).sum();
            let share = f64::from(whole) * times / turned.len().max(1) as f64;
            for (place, index) in turned.into_iter().enumerate() {
                // Rounded so that they add up.
                let erases = (share * (place + 1) as f64) as u64 - (share * place as f64) as u64;
                self.all[index].erases += erases as u32;
                worn[index].end += erases as u32;
            }
        }
        worn
    }

    fn weighted(&self, erases: u32, slc_erases: u32) -> u32 {
        let slc = (u64::from(slc_erases) * u64::from(self.cycle_weight_256)) >> 8;
        self.worn + erases - slc_erases + slc as u32
    }
}
