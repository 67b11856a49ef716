//! In-flight commands: accepted from a session and not completed, each with the event that it waits
//! for.
//!
//! A command first waits in the backlog while all queue slots of the drive are taken, then at the
//! drive (which keeps its tag), then in a heap until its completion is due, and last for a sync of
//! the store.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::{Index, IndexMut};

use drivebay_units::Nanos;
use slab::Slab;

use crate::request::{Completion, Request, SessionId, Status};
use crate::store::SyncId;

/// Time that never comes.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);

/// Command in flight.
pub(crate) struct InflightCommand {
    pub session: SessionId,
    pub request: Request,
    /// Number among all requests, by which the store and its undo log identify the command.
    pub number: u64,
    pub status: Status,
    /// Arrival time on the drive's clock.
    pub arrived: Nanos,
    /// Arrival time on the host's clock.
    pub arrived_host: Nanos,
    /// Additional latency by a fault.
    pub extra: Nanos,
    /// Sync of the store that the command waits for.
    pub sync: Option<SyncId>,
    /// True if a flush of the drive follows before the command completes.
    pub flush_follows: bool,
    /// True if the command takes one of the drive's queue slots.
    is_on_drive: bool,
}

impl InflightCommand {
    pub fn new(session: SessionId, request: Request, number: u64) -> InflightCommand {
        InflightCommand {
            session,
            request,
            number,
            status: Status::Ok,
            arrived: Nanos::ZERO,
            arrived_host: Nanos::ZERO,
            extra: Nanos::ZERO,
            sync: None,
            flush_follows: false,
            is_on_drive: false,
        }
    }
}

/// All commands in flight, by their tag.
#[derive(Default)]
pub(crate) struct InflightCommands {
    commands: Slab<InflightCommand>,
    /// Due time, number in the order of scheduling, and tag.
    due: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    scheduled: u64,
    /// Commands that are due, but whose sync of the store has not completed.
    unsynced: Vec<(Nanos, u32)>,
    /// Commands for which the drive has no queue slot.
    backlog: VecDeque<u32>,
    on_drive: u32,
    on_drive_max: u32,
}

impl InflightCommands {
    /// Creates a table for a drive with `on_drive_max` queue slots.
    pub fn new(on_drive_max: u32) -> InflightCommands {
        InflightCommands { on_drive_max, ..InflightCommands::default() }
    }

    pub fn len(&self) -> usize {
        self.commands.len()
    }

    pub fn insert(&mut self, command: InflightCommand) -> u32 {
        u32::try_from(self.commands.insert(command)).expect("bounded by the limits of the sessions")
    }

    /// Ends a command.
    pub fn complete(&mut self, tag: u32) -> Completion {
        let command = self.commands.remove(tag as usize);
        let InflightCommand { session, request, status, .. } = command;
        Completion { session, request, status }
    }

    /// Drops all commands: they never complete.
    pub fn clear(&mut self) {
        *self = InflightCommands { scheduled: self.scheduled, ..Self::new(self.on_drive_max) };
    }

    /// Returns true if the drive has a queue slot for the command; otherwise the command is put
    /// into the backlog.
    pub fn admit(&mut self, tag: u32) -> bool {
        let has_slot = self.on_drive < self.on_drive_max;
        if !has_slot {
            self.backlog.push_back(tag);
        }
        has_slot
    }

    /// Records that the drive has accepted the command.
    pub fn enter_drive(&mut self, tag: u32) {
        self[tag].is_on_drive = true;
        self.on_drive += 1;
    }

    /// Records that the command has left the drive, if it was there.
    pub fn leave_drive(&mut self, tag: u32) {
        if std::mem::take(&mut self[tag].is_on_drive) {
            self.on_drive -= 1;
        }
    }

    /// Takes the next command of the backlog, if the drive has a queue slot for it.
    pub fn next_of_backlog(&mut self) -> Option<u32> {
        if self.on_drive < self.on_drive_max { self.backlog.pop_front() } else { None }
    }

    /// Makes the command due at `at`.
    pub fn schedule(&mut self, at: Nanos, tag: u32) {
        self.scheduled += 1;
        self.due.push(Reverse((at, self.scheduled, tag)));
    }

    /// Due time of the next command, unless that time never comes.
    pub fn next_due(&self) -> Option<Nanos> {
        self.due.peek().map(|&Reverse((at, ..))| at).filter(|&at| at < NEVER)
    }

    /// Takes the next command that is due by `until`.
    pub fn take_due(&mut self, until: Nanos) -> Option<(Nanos, u32)> {
        self.next_due().filter(|&at| at <= until)?;
        self.due.pop().map(|Reverse((at, _, tag))| (at, tag))
    }

    /// Adds a command that was due at `at`, but whose sync has not completed.
    pub fn await_sync(&mut self, at: Nanos, tag: u32) {
        self.unsynced.push((at, tag));
    }

    /// Takes the next command whose sync has completed; `result` returns the result of a sync.
    pub fn take_synced(
        &mut self,
        result: impl Fn(SyncId) -> Option<Result<(), ()>>,
    ) -> Option<(Nanos, u32)> {
        for i in 0..self.unsynced.len() {
            let (at, tag) = self.unsynced[i];
            if let Some(result) = self[tag].sync.and_then(&result) {
                if result.is_err() {
                    self[tag].status = Status::Internal;
                }
                self.unsynced.remove(i);
                return Some((at, tag));
            }
        }
        None
    }
}

impl Index<u32> for InflightCommands {
    type Output = InflightCommand;

    fn index(&self, tag: u32) -> &InflightCommand {
        &self.commands[tag as usize]
    }
}

impl IndexMut<u32> for InflightCommands {
    fn index_mut(&mut self, tag: u32) -> &mut InflightCommand {
        &mut self.commands[tag as usize]
    }
}
