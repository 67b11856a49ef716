//! The persistence model: the period in which each part of a write is volatile, by the drive's
//! rules.
//!
//! A unit is present or lost as a whole. It is volatile from its submission on, and becomes durable
//! by one of these events:
//!
//! - a flush completes that was submitted after the unit's command had completed;
//! - its command completes, with FUA or on a drive with power-loss protection;
//! - later commands have completed whose data exceeds the write buffer: the unit was destaged.
//!
//! On a drive that ignores flushes only the last one applies. A page contains its durable and its
//! present units in order of submission, which is the order in which the server applied them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;

use drivebay_units::{Rng, SECTOR_BYTES};
use xxhash_rust::xxh3::xxh3_128;

use crate::recording::{Event, NEVER, Op, PAGE_BYTES, PAGE_SECTORS, Recording, ZEROS};
use crate::rules::{Kind, Rules, Standard};

/// Part of a command that is present or lost as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub command: u32,
    /// Event of its submission.
    pub submitted: u32,
    /// Event that makes it durable; [`NEVER`] if it stays volatile.
    pub durable: u32,
    /// Its first effect in [`Model::effects`], and the number of its effects.
    pub first: u32,
    pub effects: u32,
}

/// Change of a page by a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    pub unit: u32,
    pub page: u64,
    /// Range of changed sectors within the page.
    from: u8,
    until: u8,
    block: u32,
}

impl Effect {
    /// First sector, and the one after the last.
    pub fn sectors(&self) -> (u64, u64) {
        let first = self.page * PAGE_SECTORS;
        (first + u64::from(self.from), first + u64::from(self.until))
    }

    /// True if it covers the whole page, so that nothing below it is visible.
    pub fn is_whole(&self) -> bool {
        self.from == 0 && u64::from(self.until) == PAGE_SECTORS
    }
}

/// Damage to a unit that is present; the unit is 0 for [`Kind::Unwritten`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub kind: Kind,
    pub unit: u32,
}

/// Lost volatile units of a cut, and the damage to a present one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub first: u32,
    pub is_lost: Vec<bool>,
    pub damage: Option<Damage>,
}

impl Lost {
    /// Returns the loss of all units of a cut.
    pub fn all(cut: &Cut) -> Lost {
        let (first, end) = cut.units;
        Lost { first, is_lost: vec![true; (end - first) as usize], damage: None }
    }

    pub fn contains(&self, unit: u32) -> bool {
        unit.checked_sub(self.first).is_some_and(|at| self.is_lost.get(at as usize) == Some(&true))
    }

    pub fn units(&self) -> impl Iterator<Item = u32> {
        (self.first..).zip(&self.is_lost).filter(|&(_, &is_lost)| is_lost).map(|(unit, _)| unit)
    }

    /// True if it leaves garbage in sectors without data.
    pub fn is_unwritten(&self) -> bool {
        self.damage.is_some_and(|damage| damage.kind == Kind::Unwritten)
    }
}

/// A point in time for a power cut, after `event`. The next event makes a unit durable, or is a
/// mark, or does not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub event: u32,
    /// Last mark before the cut, as the number from 1 of the first mark with the same text; 0 if
    /// there is none.
    pub mark: u32,
    /// First unit that may be volatile, and first unit that was not submitted.
    pub units: (u32, u32),
}

/// A recording with its units and cuts.
pub(crate) struct Model {
    pub recording: Recording,
    pub rules: Rules,
    pub units: Vec<Unit>,
    pub effects: Vec<Effect>,
    pub cuts: Vec<Cut>,
    /// Effects of each page, in order of submission.
    pub pages: HashMap<u64, Vec<u32>>,
}

impl Model {
    /// Creates the model. With `after`, cuts begin at the first mark with this text.
    pub fn new(recording: Recording, rules: Rules, after: Option<&str>) -> Model {
        let (units, cuts) = (Vec::new(), Vec::new());
        let mut model =
            Model { recording, rules, units, effects: Vec::new(), cuts, pages: HashMap::new() };
        let first_units = model.split();
        let grows = model.find_durable(&first_units);
        model.find_cuts(&grows, after);
        model
    }

    /// Splits commands into units; returns the first unit of each command, and the number of all
    /// units.
    fn split(&mut self) -> Vec<u32> {
        // Pages with data; zeroing any other page changes nothing.
        let mut known: BTreeMap<u64, ()> =
            self.recording.base.keys().map(|&page| (page, ())).collect();
        let mut firsts = Vec::with_capacity(self.recording.commands.len() + 1);
        for number in 0..self.recording.commands.len() {
            firsts.push(self.units.len() as u32);
            let command = self.recording.commands[number].clone();
            let (lba, end) = (command.lba, command.lba + command.sectors);
            if command.op == Op::Write {
                let mut atomic = self.rules.atomic_sectors();
                if self.rules.standard == Some(Standard::Nvme) && command.sectors <= atomic {
                    atomic = end; // one part, wherever it begins
                }
                let mut at = lba;
                while at < end {
                    let until = ((at / atomic + 1) * atomic).min(end);
                    let data = |page: u64| command.blocks + (page - lba / PAGE_SECTORS) as usize;
                    self.add_unit(number);
                    for page in at / PAGE_SECTORS..until.div_ceil(PAGE_SECTORS) {
                        known.insert(page, ());
                        let block = self.recording.data[data(page)];
                        self.add_effect(page, (at, until), block);
                    }
                    at = until;
                }
            } else if command.op != Op::Flush {
                // Zeroing only changes the map, and may be half done.
                let middle = ((lba + end) / 2 / PAGE_SECTORS * PAGE_SECTORS).clamp(lba, end);
                for (at, until) in [(lba, middle), (middle, end)] {
                    let pages = at / PAGE_SECTORS..until.div_ceil(PAGE_SECTORS);
                    let pages: Vec<u64> = known.range(pages).map(|(&page, ())| page).collect();
                    if at < until && !pages.is_empty() {
                        self.add_unit(number);
                        for page in pages {
                            self.add_effect(page, (at, until), ZEROS);
                        }
                    }
                }
            }
        }
        firsts.push(self.units.len() as u32);
        firsts
    }

    /// Kinds of damage to a unit that the rules allow.
    pub fn kinds(&self, unit: u32) -> &'static [Kind] {
        let command = &self.recording.commands[self.units[unit as usize].command as usize];
        match self.rules.standard {
            _ if command.op != Op::Write => &[],
            None => &[],
            Some(Standard::Nvme) if command.sectors <= self.rules.atomic_sectors() => &[],
            Some(Standard::Disk) => &[Kind::Unreadable],
            Some(_) => &[Kind::Garbage, Kind::Sheared, Kind::Unreadable],
        }
    }

    /// Returns the kind of damage to a unit's data, if any.
    fn damage_to(&self, unit: u32, lost: &Lost) -> Option<Kind> {
        let damage = lost.damage?;
        let command = self.units[unit as usize].command as usize;
        let is_damaged = match damage.kind {
            Kind::Unwritten => self.recording.commands[command].op == Op::Discard,
            _ => unit == damage.unit,
        };
        is_damaged.then_some(damage.kind)
    }

    fn add_unit(&mut self, command: usize) {
        self.units.push(Unit {
            command: command as u32,
            submitted: self.recording.commands[command].submitted,
            durable: NEVER,
            first: self.effects.len() as u32,
            effects: 0,
        });
    }

    /// Adds the change of a page by the newest unit.
    fn add_effect(&mut self, page: u64, (at, until): (u64, u64), block: u32) {
        let first = page * PAGE_SECTORS;
        let within = |lba: u64| lba.clamp(first, first + PAGE_SECTORS) - first;
        let (from, until) = (within(at) as u8, within(until) as u8);
        let unit = self.units.len() as u32 - 1;
        self.units.last_mut().expect("just added").effects += 1;
        self.pages.entry(page).or_default().push(self.effects.len() as u32);
        self.effects.push(Effect { unit, page, from, until, block });
    }

    /// Finds the event by which each unit becomes durable; returns for each event whether it makes
    /// any unit durable.
    fn find_durable(&mut self, firsts: &[u32]) -> Vec<bool> {
        let Model { recording, rules, units, .. } = self;
        let mut grows = vec![false; recording.events.len()];
        // Completed commands that are volatile, with the bytes completed up to and including each.
        let mut waiting: VecDeque<(u32, u64)> = VecDeque::new();
        let mut completed_bytes = 0;
        for event in 0..recording.events.len() as u32 {
            let Event::Completed(number) = recording.events[event as usize] else { continue };
            let command = &recording.commands[number as usize];
            let mut becomes_durable = |number: u32| {
                let range = firsts[number as usize] as usize..firsts[number as usize + 1] as usize;
                grows[event as usize] |= !range.is_empty();
                units[range].iter_mut().for_each(|unit| unit.durable = event);
            };
            if command.op == Op::Flush {
                let covers = |&(number, _): &(u32, u64)| {
                    recording.commands[number as usize].completed < command.submitted
                };
                while !rules.ignores_flush && waiting.front().is_some_and(covers) {
                    becomes_durable(waiting.pop_front().expect("looked at").0);
                }
            } else if rules.protected || command.fua && !rules.ignores_flush {
                becomes_durable(number);
            } else {
                if command.op == Op::Write {
                    completed_bytes += command.sectors * SECTOR_BYTES;
                }
                waiting.push_back((number, completed_bytes));
                let is_destaged =
                    |&(_, until): &(u32, u64)| until + rules.buffer_bytes <= completed_bytes;
                while waiting.front().is_some_and(is_destaged) {
                    becomes_durable(waiting.pop_front().expect("looked at").0);
                }
            }
        }
        grows
    }

    fn find_cuts(&mut self, grows: &[bool], after: Option<&str>) {
        let events = &self.recording.events;
        let (mut mark, mut oldest, mut submitted) = (0, 0, 0);
        let mut begun = after.is_none();
        let mut texts: HashMap<&str, u32> = HashMap::new();
        for (event, &what) in events.iter().enumerate() {
            match what {
                Event::Mark(number) => {
                    let text = self.recording.marks[number as usize].1.as_str();
                    mark = *texts.entry(text).or_insert(number + 1);
                    begun |= Some(text) == after;
                }
                Event::Submitted(number) => {
                    let belongs = |unit: &&Unit| unit.command == number;
                    submitted += self.units[submitted..].iter().take_while(belongs).count();
                }
                Event::Completed(_) => {}
            }
            let next = events.get(event + 1);
            let is_cut = next.is_none_or(|next| matches!(next, Event::Mark(_)) || grows[event + 1]);
            while oldest < submitted && self.units[oldest].durable <= event as u32 {
                oldest += 1;
            }
            if begun && is_cut {
                let units = (oldest as u32, submitted as u32);
                self.cuts.push(Cut { event: event as u32, mark, units });
            }
        }
    }

    /// Returns the units that are volatile at a cut, in order of submission.
    pub fn volatile(&self, cut: &Cut) -> impl Iterator<Item = u32> {
        let event = cut.event;
        (cut.units.0..cut.units.1).filter(move |&unit| self.units[unit as usize].durable > event)
    }

    pub fn effects_of(&self, unit: u32) -> &[Effect] {
        let Unit { first, effects, .. } = self.units[unit as usize];
        &self.effects[first as usize..(first + effects) as usize]
    }

    /// Returns the visible effects on a page at an event, for a given loss: those that cover part
    /// of the page or are damaged, newest first, and the block below them, if there is one.
    fn layers(&self, page: u64, event: u32, lost: &Lost) -> (Vec<u32>, Option<u32>) {
        let mut parts = Vec::new();
        let all = self.pages.get(&page).map_or(&[][..], Vec::as_slice);
        let unit = |&effect: &u32| &self.units[self.effects[effect as usize].unit as usize];
        let known = all.partition_point(|effect| unit(effect).submitted <= event);
        for effect in all[..known].iter().rev() {
            let what = &self.effects[*effect as usize];
            if unit(effect).durable > event && lost.contains(what.unit) {
                continue;
            }
            if what.is_whole() && self.damage_to(what.unit, lost).is_none() {
                return (parts, Some(what.block));
            }
            parts.push(*effect);
        }
        (parts, self.recording.base.get(&page).copied())
    }

    /// Reads a page as of an event, for a given loss of volatile units.
    pub fn read(
        &self,
        page: u64,
        event: u32,
        lost: &Lost,
        into: &mut [u8; PAGE_BYTES],
    ) -> io::Result<()> {
        let (parts, below) = self.layers(page, event, lost);
        self.recording.read_block(below.unwrap_or(ZEROS), into)?;
        if below.is_none() && lost.is_unwritten() {
            fill_with_garbage(page, into);
        }
        let mut part = [0; PAGE_BYTES];
        for &effect in parts.iter().rev() {
            let Effect { unit, from, until, block, .. } = self.effects[effect as usize];
            let [mut from, mut until] =
                [from, until].map(|sector| usize::from(sector) * SECTOR_BYTES as usize);
            self.recording.read_block(block, &mut part)?;
            let damage = self.damage_to(unit, lost);
            if damage == Some(Kind::Sheared) {
                until = from + (until - from) / 2;
            } else if let Some(kind) = damage {
                // Two kinds are two states, also where a file shows both as garbage.
                let seed = page ^ u64::from(unit) << 32 ^ (kind as u64) << 24;
                fill_with_garbage(seed, &mut part);
            }
            if damage == Some(Kind::Unreadable) && self.rules.standard == Some(Standard::Ata) {
                (from, until) = (0, PAGE_BYTES);
            }
            into[from..until].copy_from_slice(&part[from..until]);
        }
        Ok(())
    }

    /// Hash of the page that [`Model::read`] returns; 0 for zeros.
    pub fn content(&self, page: u64, event: u32, lost: &Lost) -> io::Result<u128> {
        let (parts, below) = self.layers(page, event, lost);
        if parts.is_empty() && (below.is_some() || !lost.is_unwritten()) {
            return Ok(self.recording.hash(below.unwrap_or(ZEROS)));
        }
        let mut bytes = [0; PAGE_BYTES];
        self.read(page, event, lost, &mut bytes)?;
        Ok(if bytes == [0; PAGE_BYTES] { 0 } else { xxh3_128(&bytes) })
    }
}

/// Fills a page with bytes that no program wrote, the same ones for the same seed.
fn fill_with_garbage(seed: u64, page: &mut [u8; PAGE_BYTES]) {
    let mut rng = Rng::new(seed);
    page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&rng.next_u64().to_le_bytes()));
}

/// Summand of a page with this content in a state's hash.
pub(crate) fn weight(page: u64, content: u128) -> u128 {
    if content == 0 {
        return 0;
    }
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&content.to_le_bytes());
    bytes[16..].copy_from_slice(&page.to_le_bytes());
    xxh3_128(&bytes)
}
