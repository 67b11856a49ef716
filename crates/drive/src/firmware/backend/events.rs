//! Events of superblocks, while they are kept.

use drivebay_units::Nanos;

use super::BackEnd;
use crate::events::{Event, EventKind, EventLog, Events, SuperblockState, Trigger};
use crate::superblock::{Purpose, Source, State};

impl BackEnd {
    /// Begins to keep the first `limit` events, and how busy dies and channels are.
    pub fn keep_events(&mut self, limit: usize) {
        self.events = Some(Box::new(EventLog::new(limit)));
        self.path.nand.keep_activity(self.path.now());
    }

    /// Returns what was kept, and ends keeping.
    pub fn take_events(&mut self) -> Option<Events> {
        let (events, dropped) = self.events.take()?.finish();
        let flash = *self.path.nand.take_activity()?;
        let superblocks = self.ftl.superblock_states().collect();
        Some(Events { events, dropped, flash, superblocks })
    }

    #[cold]
    #[inline(never)]
    pub(super) fn note(&mut self, kind: EventKind, superblock: u32, begin: Nanos, end: Nanos) {
        let event = Event { kind, begin, end: Some(end), ..self.event_of(superblock) };
        self.events.iter_mut().for_each(|log| log.add(event));
    }

    /// Notes that pages of a victim are about to be copied.
    #[cold]
    #[inline(never)]
    pub(super) fn note_copy(&mut self, source: Source, at: Nanos, trigger: Trigger) {
        // What is moved of a failed die empties no superblock.
        if self.ftl.superblock(source.superblock).state != State::Victim {
            return;
        }
        let event = self.victim_event(source.superblock, at, trigger);
        let copied_4k = source.pages << self.geometry.unit_shift;
        self.events.iter_mut().for_each(|log| log.note_copy(copied_4k, event));
    }

    #[cold]
    #[inline(never)]
    pub(super) fn note_retired(&mut self, purpose: Purpose, at: Nanos, trigger: Trigger) {
        let event = self.victim_event(self.ftl.victim_cycles(purpose).0, at, trigger);
        let event = Event { end: Some(at), ..event };
        self.events.iter_mut().for_each(|log| log.note_retired(event));
    }

    fn victim_event(&self, superblock: u32, begin: Nanos, trigger: Trigger) -> Event {
        let slc = self.ftl.superblock(superblock).slc;
        let kind = if slc { EventKind::Fold } else { EventKind::Collection };
        Event { kind, begin, trigger: Some(trigger), ..self.event_of(superblock) }
    }

    fn event_of(&self, superblock: u32) -> Event {
        let SuperblockState { valid_pages, erases, slc, .. } =
            self.ftl.superblock_state(superblock);
        Event {
            kind: EventKind::Open,
            begin: Nanos::ZERO,
            end: None,
            superblock,
            valid_pages,
            copied_pages: 0,
            erases,
            slc,
            trigger: None,
        }
    }
}
