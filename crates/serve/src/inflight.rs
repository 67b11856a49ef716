//! In-flight commands: taken from a session and not completed, and what each of them waits for.
//!
//! A command waits in the backlog while the drive carries as many as it can, then at the drive
//! (which keeps its tag), then in a heap until its completion is due, and at last for a sync of the
//! store.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::{Index, IndexMut};

use drivebay_units::Nanos;
use slab::Slab;

use crate::request::{Completion, Request, SessionId, Status};
use crate::store::SyncId;

/// A time that does not come.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);

/// One command in flight.
pub(crate) struct InflightCommand {
    pub session: SessionId,
    pub request: Request,
    /// Counts all requests; the store and its undo log know the command by it.
    pub number: u64,
    pub status: Status,
    /// When it arrived, on the drive's clock.
    pub arrived: Nanos,
    /// The same on the host's.
    pub arrived_host: Nanos,
    /// Additional latency by a fault.
    pub extra: Nanos,
    /// The sync of the store that it waits for.
    pub sync: Option<SyncId>,
    /// A flush of the drive follows before it completes.
    pub flush_follows: bool,
    /// Takes one of the queue slots that the drive has.
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
    /// When due, in which order they were scheduled, tag.
    due: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    scheduled: u64,
    /// Due, but the store's file is not synced yet.
    unsynced: Vec<(Nanos, u32)>,
    /// Beyond what the drive carries.
    backlog: VecDeque<u32>,
    on_drive: u32,
    on_drive_max: u32,
}

impl InflightCommands {
    /// For a drive that carries at most `on_drive_max` commands.
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

    /// Whether the drive has a queue slot for the command; otherwise it waits in the backlog.
    pub fn admit(&mut self, tag: u32) -> bool {
        let has_slot = self.on_drive < self.on_drive_max;
        if !has_slot {
            self.backlog.push_back(tag);
        }
        has_slot
    }

    /// The drive has accepted the command.
    pub fn enter_drive(&mut self, tag: u32) {
        self[tag].is_on_drive = true;
        self.on_drive += 1;
    }

    /// The command has left the drive, if it was there.
    pub fn leave_drive(&mut self, tag: u32) {
        if std::mem::take(&mut self[tag].is_on_drive) {
            self.on_drive -= 1;
        }
    }

    /// The next command of the backlog, if the drive has a queue slot for it.
    pub fn next_of_backlog(&mut self) -> Option<u32> {
        if self.on_drive < self.on_drive_max { self.backlog.pop_front() } else { None }
    }

    /// The command is due at `at`.
    pub fn schedule(&mut self, at: Nanos, tag: u32) {
        self.scheduled += 1;
        self.due.push(Reverse((at, self.scheduled, tag)));
    }

    /// When the next command is due, unless that time does not come.
    pub fn next_due(&self) -> Option<Nanos> {
        self.due.peek().map(|&Reverse((at, ..))| at).filter(|&at| at < NEVER)
    }

    /// The next command that is due by `until`.
    pub fn take_due(&mut self, until: Nanos) -> Option<(Nanos, u32)> {
        self.next_due().filter(|&at| at <= until)?;
        self.due.pop().map(|Reverse((at, _, tag))| (at, tag))
    }

    /// The command was due at `at`, but its sync has not completed.
    pub fn await_sync(&mut self, at: Nanos, tag: u32) {
        self.unsynced.push((at, tag));
    }

    /// The next command that waited for a sync which has completed; `result` looks it up.
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
