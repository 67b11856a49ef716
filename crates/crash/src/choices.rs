//! Possible losses of a power cut: independent choices of how many units of each chain are present.
//!
//! A chain is the sequence of versions of a page; the last present version is its content. A unit
//! that covers part of a page, or several pages, is a chain by itself, because units above and
//! below it stay visible. Left out: if two units are separate chains, the upper may hide the lower;
//! such choices are counted as two, and merged during enumeration.

use std::io;

use drivebay_units::Rng;

use crate::model::{Cut, Lost, Model, weight};

/// Units in order of submission, of which the last present one is visible.
type Chain = Vec<u32>;

/// A page that volatile units may change.
struct Page {
    page: u64,
    /// Summand in the hash if all of its volatile units are lost.
    without: u128,
    /// Its volatile unit, if there is only one, and the summand if that unit is present.
    only: Option<(u32, u128)>,
}

/// All choices of a cut.
pub(crate) struct Choices<'m> {
    model: &'m Model,
    cut: Cut,
    /// Volatile units in order of submission, by command.
    pub commands: Vec<Vec<u32>>,
    /// Per unit, starting with the cut's first one: index of its command in `commands`.
    places: Vec<u32>,
    chains: Vec<Chain>,
    pages: Vec<Page>,
}

impl<'m> Choices<'m> {
    pub fn new(model: &'m Model, cut: Cut) -> io::Result<Choices<'m>> {
        let mut commands: Vec<Vec<u32>> = Vec::new();
        let mut places = vec![0; (cut.units.1 - cut.units.0) as usize];
        let mut touched = Vec::new();
        for unit in model.volatile(&cut) {
            let command = |unit: u32| model.units[unit as usize].command;
            match commands.last_mut() {
                Some(last) if command(last[0]) == command(unit) => last.push(unit),
                _ => commands.push(vec![unit]),
            }
            places[(unit - cut.units.0) as usize] = commands.len() as u32 - 1;
            touched.extend(model.effects_of(unit).iter().map(|effect| (effect.page, unit)));
        }
        touched.sort_unstable();
        let all = Lost::all(&cut);
        let pages = touched.chunk_by(|a, b| a.0 == b.0).map(|versions| {
            let page = versions[0].0;
            let summand =
                |lost: &Lost| io::Result::Ok(weight(page, model.content(page, cut.event, lost)?));
            let only = match versions {
                &[(_, unit)] => Some((unit, summand(&Lost::default())?)),
                _ => None,
            };
            Ok(Page { page, without: summand(&all)?, only })
        });
        let pages = pages.collect::<io::Result<_>>()?;
        let chains = chains(model, &touched);
        Ok(Choices { model, cut, commands, places, chains, pages })
    }

    /// Index in `commands` of a volatile unit's command.
    pub fn place(&self, unit: u32) -> u32 {
        self.places[(unit - self.cut.units.0) as usize]
    }

    /// Number of choices; `None` if it exceeds 64 bits.
    pub fn count(&self) -> Option<u64> {
        let ways = self.chains.iter().map(|chain| chain.len() as u64 + 1);
        ways.into_iter().try_fold(1u64, u64::checked_mul)
    }

    /// Returns the loss that keeps the first `done` units of each chain.
    fn lost(&self, done: impl Fn(usize, &Chain) -> usize) -> Lost {
        let mut lost = Lost::all(&self.cut);
        lost.is_lost.fill(false);
        for (number, chain) in self.chains.iter().enumerate() {
            for &unit in &chain[done(number, chain)..] {
                lost.is_lost[(unit - lost.first) as usize] = true;
            }
        }
        lost
    }

    /// Returns the loss of all units except `present` ones; units hidden below a present one do not
    /// count as lost.
    pub fn all_but(&self, present: impl Fn(u32) -> bool) -> Lost {
        self.lost(|_, chain| {
            chain.iter().rposition(|&unit| present(unit)).map_or(0, |last| last + 1)
        })
    }

    /// Returns the choice with a number below [`Choices::count`].
    pub fn numbered(&self, mut number: u64) -> Lost {
        let digits: Vec<usize> = (self.chains.iter())
            .map(|chain| {
                let ways = chain.len() as u64 + 1;
                let digit = number % ways;
                number /= ways;
                digit as usize
            })
            .collect();
        self.lost(|chain, _| digits[chain])
    }

    /// Returns a random choice that loses units of about an eighth, half, or seven eighths of the
    /// chains.
    pub fn random(&self, seed: u64) -> Lost {
        let mut rng = Rng::new(seed);
        let touched = [1, 4, 7][rng.below(3) as usize];
        let digits: Vec<usize> = (self.chains.iter())
            .map(|chain| match rng.below(8) < touched {
                true => rng.below(chain.len() as u64) as usize,
                false => chain.len(),
            })
            .collect();
        self.lost(|chain, _| digits[chain])
    }

    /// Returns the difference between a loss's hash and the hash of the state in which all units
    /// are lost.
    pub fn hash(&self, lost: &Lost) -> io::Result<u128> {
        // Garbage in sectors without data counts as a difference by itself.
        let is_unwritten = lost.is_unwritten();
        let damage = lost.damage.filter(|_| !is_unwritten);
        let mut sum = u128::from(is_unwritten);
        for &Page { page, without, only } in &self.pages {
            let with = match only {
                Some((unit, _)) if lost.contains(unit) => continue,
                Some((unit, with)) if damage.is_none_or(|damage| damage.unit != unit) => with,
                _ => weight(page, self.model.content(page, self.cut.event, lost)?),
            };
            sum = sum.wrapping_add(with).wrapping_sub(without);
        }
        Ok(sum)
    }
}

/// Returns a chain for each page, and one for each unit that covers part of a page or shares a page
/// with such a unit. `touched`: pages and units, sorted.
fn chains(model: &Model, touched: &[(u64, u32)]) -> Vec<Chain> {
    let is_single = |unit: u32| {
        let effects = model.effects_of(unit);
        effects.len() == 1 && effects[0].is_whole()
    };
    let mut chains = Vec::new();
    for versions in touched.chunk_by(|a, b| a.0 == b.0) {
        let units = versions.iter().map(|&(_, unit)| unit);
        if units.clone().all(is_single) {
            chains.push(units.collect());
        } else {
            let begins = |unit: &u32| model.effects_of(*unit)[0].page == versions[0].0;
            chains.extend(units.filter(begins).map(|unit| vec![unit]));
        }
    }
    chains
}
