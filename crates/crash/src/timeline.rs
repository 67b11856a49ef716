//! What led to a state: the commands around its cut, what became of each, and which flush was
//! missing.

use serde::Serialize;

use crate::recording::{CrashError, Event, NEVER, Op};
use crate::states::{State, States};

/// Events before a cut that are told where nothing is lost.
const BEFORE: u32 = 20;

/// What led to a state.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// The state's name.
    pub state: String,
    /// When the power is cut, nanoseconds of the recording.
    pub cut_ns: u64,
    /// The last mark before.
    pub mark: Option<String>,
    /// From the first command of which something is lost to the cut.
    pub events: Vec<Line>,
}

/// A command or a mark.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// When it was submitted or made, nanoseconds.
    pub at_ns: u64,
    /// A mark's text.
    pub mark: Option<String>,
    /// The command's number in the recording.
    pub number: Option<u32>,
    /// What it does.
    pub op: Option<Op>,
    /// Force Unit Access.
    pub fua: bool,
    /// First sector of 512 B.
    pub lba: u64,
    /// How many sectors.
    pub sectors: u64,
    /// When it completed, if that was before the cut.
    pub completed_ns: Option<u64>,
    /// Units that are lost.
    pub lost_units: usize,
    /// All of its units.
    pub units: usize,
    /// Why what is lost was not safe.
    pub why: Option<Why>,
}

/// Why a write was not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It had not completed.
    InFlight,
    /// No flush was submitted after it had completed.
    NoFlush,
    /// A flush was submitted before it had completed, and covers it not.
    FlushTooEarly,
    /// A flush was submitted, and had not completed.
    FlushInFlight,
    /// A flush has completed, which the drive ignored.
    FlushIgnored,
}

impl States {
    /// What led to a state.
    ///
    /// # Errors
    /// There is no such state.
    pub fn timeline(&self, state: &State) -> Result<Timeline, CrashError> {
        let (cut, _) = self.resolve(state)?;
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
                Some(Line { mark: Some(text.clone()), ..Line::at(*at) })
            }
            Event::Submitted(number) => {
                let command = &recording.commands[number as usize];
                let units = self.model.units.partition_point(|unit| unit.command < number);
                let units = self.model.units[units..].iter();
                let is_lost = |&&(_, of): &&(u32, u32)| of == number;
                let lost_units = lost.iter().filter(is_lost).count();
                Some(Line {
                    number: Some(number),
                    op: Some(command.op),
                    fua: command.fua,
                    lba: command.lba,
                    sectors: command.sectors,
                    completed_ns: (command.completed <= cut.event).then_some(command.completed_ns),
                    lost_units,
                    units: units.take_while(|unit| unit.command == number).count(),
                    why: (lost_units > 0).then(|| self.why(number, cut.event)),
                    ..Line::at(command.submitted_ns)
                })
            }
        });
        let cut_ns = match recording.events[cut.event as usize] {
            Event::Submitted(number) => recording.commands[number as usize].submitted_ns,
            Event::Completed(number) => recording.commands[number as usize].completed_ns,
            Event::Mark(number) => recording.marks[number as usize].0,
        };
        let mark = self.mark_of(state).map(str::to_owned);
        Ok(Timeline { state: state.to_string(), cut_ns, mark, events: events.collect() })
    }

    /// Why a command's data was not safe at an event.
    fn why(&self, number: u32, event: u32) -> Why {
        let commands = &self.recording().commands;
        let completed = commands[number as usize].completed;
        if completed == NEVER || completed > event {
            return Why::InFlight;
        }
        let flushes = commands.iter().filter(|one| one.op == Op::Flush && one.submitted <= event);
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

impl Line {
    fn at(at_ns: u64) -> Line {
        Line {
            at_ns,
            mark: None,
            number: None,
            op: None,
            fua: false,
            lba: 0,
            sectors: 0,
            completed_ns: None,
            lost_units: 0,
            units: 0,
            why: None,
        }
    }
}
