//! Explanation of a state: the commands around its cut, what happened to each, and which flush was
//! missing.

use serde::Serialize;

use crate::model::{Damage, Effect, Lost};
use crate::recording::{CrashError, Event, NEVER, Op, PAGE_SECTORS};
use crate::rules::{Kind, Standard};
use crate::states::{State, States};

/// Events shown before a cut if nothing is lost.
const BEFORE: u32 = 20;
/// Writes named after a cut.
const LATER: usize = 32;

/// Explanation of a state.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// Name of the state.
    pub state: String,
    /// Time of the cut, nanoseconds of the recording.
    pub cut_ns: u64,
    /// Last mark before the cut.
    pub mark: Option<String>,
    /// Damage to a present part: its kind, first sector and number of sectors (0 if unwritten).
    pub damage: Option<(Kind, u64, u64)>,
    /// Events from the first command with a lost unit to the cut.
    pub events: Vec<Line>,
    /// First sectors of the first writes that were submitted after the cut.
    pub later: Vec<u64>,
}

/// A command or a mark.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// Time of its submission, or of the mark, nanoseconds.
    pub at_ns: u64,
    /// Text of the mark.
    pub mark: Option<String>,
    /// Number of the command in the recording.
    pub number: Option<u32>,
    /// Operation of the command.
    pub op: Option<Op>,
    /// True with Force Unit Access.
    pub fua: bool,
    /// First sector of 512 B.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Time of its completion, if before the cut.
    pub completed_ns: Option<u64>,
    /// Lost units.
    pub lost_units: usize,
    /// All units of the command.
    pub units: usize,
    /// Reason why the lost units were not safe.
    pub why: Option<Why>,
}

/// Reason why a write was not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The write had not completed.
    InFlight,
    /// No flush was submitted after the write had completed.
    NoFlush,
    /// The flush was submitted before the write had completed, so it does not cover the write.
    FlushTooEarly,
    /// A flush was submitted, but had not completed.
    FlushInFlight,
    /// A flush has completed, but the drive ignored it.
    FlushIgnored,
}

impl States {
    /// Returns the explanation of a state.
    ///
    /// # Errors
    /// There is no such state.
    pub fn timeline(&self, state: &State) -> Result<Timeline, CrashError> {
        let (cut, Lost { damage, .. }) = self.resolve(state)?;
        let recording = self.recording();
        let lost = self.lost_units(state)?;
        let first = lost.first().map_or(cut.event.saturating_sub(BEFORE), |&(_, command)| {
            recording.commands[command as usize].submitted
        });
        let events = recording.events[first as usize..=cut.event as usize].iter();
        let events = events.filter_map(|&event| match event {
            Event::Completed(_) => None,
            Event::Mark(number) => {
                let (at, text) = &recording.marks[number as usize];
                Some(Line { at_ns: *at, mark: Some(text.clone()), ..Line::default() })
            }
            Event::Submitted(number) => {
                let command = &recording.commands[number as usize];
                let units = self.model.units.partition_point(|unit| unit.command < number);
                let units = self.model.units[units..].iter();
                let is_lost = |&&(_, command_number): &&(u32, u32)| command_number == number;
                let lost_units = lost.iter().filter(is_lost).count();
                Some(Line {
                    at_ns: command.submitted_ns,
                    number: Some(number),
                    op: Some(command.op),
                    fua: command.fua,
                    lba: command.lba,
                    sectors: command.sectors,
                    completed_ns: (command.completed <= cut.event).then_some(command.completed_ns),
                    lost_units,
                    units: units.take_while(|unit| unit.command == number).count(),
                    why: (lost_units > 0).then(|| self.why(number, cut.event)),
                    ..Line::default()
                })
            }
        });
        let damage = damage.map(|Damage { kind, unit }| {
            let effects: Vec<_> = match kind {
                Kind::Unwritten => Vec::new(),
                _ => self.model.effects_of(unit).iter().map(Effect::sectors).collect(),
            };
            let mut first = effects.first().map_or(0, |sectors| sectors.0);
            let mut end = effects.last().map_or(0, |sectors| sectors.1);
            if kind == Kind::Unreadable && self.rules().standard == Some(Standard::Ata) {
                first -= first % PAGE_SECTORS;
                end = first + PAGE_SECTORS;
            }
            (kind, first, end - first)
        });
        let later = recording.commands.iter().filter(|command| command.submitted > cut.event);
        let later = later.filter(|command| command.op == Op::Write).take(LATER);
        Ok(Timeline {
            state: state.to_string(),
            cut_ns: recording.time_of(recording.events[cut.event as usize]),
            mark: self.mark_of(state).map(str::to_owned),
            damage,
            events: events.collect(),
            later: later.map(|command| command.lba).collect(),
        })
    }

    /// Reason why a command's data was not safe at an event.
    fn why(&self, number: u32, event: u32) -> Why {
        let commands = &self.recording().commands;
        let completed = commands[number as usize].completed;
        if completed == NEVER || completed > event {
            return Why::InFlight;
        }
        let flushes =
            commands.iter().filter(|flush| flush.op == Op::Flush && flush.submitted <= event);
        let (after, before): (Vec<_>, Vec<_>) =
            flushes.partition(|flush| flush.submitted > completed);
        if after.iter().any(|flush| flush.completed <= event) {
            Why::FlushIgnored
        } else if !after.is_empty() {
            Why::FlushInFlight
        } else if before.iter().any(|flush| flush.completed > completed) {
            Why::FlushTooEarly
        } else {
            Why::NoFlush
        }
    }
}
