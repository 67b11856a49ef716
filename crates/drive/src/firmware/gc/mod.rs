//! Garbage collection: copying valid pages out of a victim, behind writes, in idle time, or in the
//! foreground, while only the reserve is left.
//!
//! How much runs behind a write is `pacing.rs`'s decision; which superblock is emptied, the victim
//! policy's (`firmware/ftl/victims.rs`). Copies use the flash core, dies, channels and the write buffer like any other
//! work, so what they cost is what they occupy.

mod background;
mod pacing;

use drivebay_units::Nanos;

use crate::events::Trigger;
use crate::firmware::backend::Flash;
use crate::firmware::controller::Controller;
use crate::io::DeviceError;
use crate::persist::{StateError, persist};
use crate::profile::{Idle, PAGES_MAX, Spec};
use crate::superblock::Source;
use background::Background;
use pacing::Pacing;

/// Garbage collection's pace and progress.
#[derive(Debug)]
pub struct Gc {
    pacing: Pacing,
    /// Where it is put off while the write buffer has room.
    background: Option<Box<Background>>,
    idle: Option<Idle>,
    /// How long the flash core has no command until it works for itself; none if it never does.
    idle_after: Option<Nanos>,
    /// When the data copied so far is in the controller.
    data_ready: Nanos,
    /// Since when the flash core has had no command, if it is known to have none.
    idle_since: Option<Nanos>,
    copied_pages: u64,
}

persist!(Gc: pacing, background, data_ready, idle_since, copied_pages; given: idle, idle_after);

impl Gc {
    pub fn new(spec: &Spec) -> Gc {
        Gc {
            pacing: Pacing::new(spec.pacing),
            background: spec.background.map(|spec| Box::new(Background::new(spec))),
            idle: spec.idle,
            idle_after: spec.idle_after,
            data_ready: Nanos::ZERO,
            idle_since: None,
            copied_pages: 0,
        }
    }

    /// Forgets what is under way, as after a power cut.
    pub fn restart(&mut self, spec: &Spec) {
        *self = Gc { copied_pages: self.copied_pages, ..Gc::new(spec) };
    }

    /// Whether what it has overdrawn can be.
    pub fn check(&self) -> Result<(), StateError> {
        self.pacing.check()?;
        self.background.iter().try_for_each(|background| background.check())
    }

    /// Pages copied so far, by folding as well.
    pub fn copied_pages(&self) -> u64 {
        self.copied_pages
    }

    /// Runs behind a host command that wrote `pages`, if free space is low enough; `pressed`: the write buffer fills.
    ///
    /// # Errors
    /// [`DeviceError::Policy`].
    #[inline(always)]
    pub fn follow_write(
        &mut self,
        pages: u64,
        pressed: bool,
        flash: &mut Flash,
        controller: &mut Controller,
    ) -> Result<(), DeviceError> {
        if self.pacing.starts_at(flash.ftl().free_pages())
            && let Some(pages) = self.pacing.due(pages)
        {
            match self.background.take_if(|_| !pressed) {
                Some(background) => self.put_off(background, pages, flash, controller),
                None => self.run(pages, flash, controller),
            }
            return flash.check_plugin();
        }
        Ok(())
    }

    /// Since when writes may be let in, as far as copies are concerned.
    pub fn writes_from(&self) -> Nanos {
        self.background.as_ref().map_or(Nanos::ZERO, |background| background.writes_from())
    }

    /// Whether free space is so low that it runs behind writes.
    pub fn runs(&self, flash: &Flash) -> bool {
        self.pacing.starts_at(flash.ftl().free_pages())
    }

    /// Runs behind a read that was decoded: a superblock that waits to be refreshed is moved.
    pub fn refresh(&mut self, flash: &mut Flash, controller: &mut Controller) {
        if flash.ftl().must_collect() {
            self.run(1, flash, controller);
        }
    }

    #[inline(never)]
    fn run(&mut self, host_pages: u64, flash: &mut Flash, controller: &mut Controller) {
        if flash.is_read_only() {
            return;
        }
        let free = flash.ftl().free_pages();
        // Padding takes space as the host's pages do.
        let pages = host_pages + flash.take_padding();
        let pace = flash.ftl_mut().pace(pages, self.pacing.own(free));
        let mut budget = self.pacing.budget(pages, controller.costs().gc_duty, pace);
        let begin = controller.flash_core().free_at();
        let mut at = begin;
        while budget.is_left() {
            let Some((given, end)) = self.copy_next(at, flash, controller) else { break };
            budget.spend(end.since(at), given);
            at = end;
        }
        self.pacing.settle(budget);
        controller.flash_core().gc(at.since(begin));
    }

    /// Owes what the host's pages take, and copies what is due in the background or in a round.
    #[inline(never)]
    fn put_off(
        &mut self,
        mut background: Box<Background>,
        host_pages: u64,
        flash: &mut Flash,
        controller: &mut Controller,
    ) {
        if !flash.is_read_only() {
            let free = flash.ftl().free_pages();
            let pages = (host_pages + flash.take_padding()).min(PAGES_MAX);
            let pace = flash.ftl_mut().pace(pages, self.pacing.own(free));
            let at = controller.flash_core().free_at();
            background.owe((pages * pace.gain_256) << 8, at);
            while background.copies_by(at) {
                let before = self.copied_pages;
                let Some((given, _)) = self.copy_next(at, flash, controller) else { break };
                background.note_copies(self.copied_pages - before, given);
            }
            if let Some(pages) = background.round_due(flash.ftl().given_per_copy()) {
                let (first, last) = (flash.copies_taken(), self.copied_pages + pages);
                while self.copied_pages < last {
                    let Some((given, _)) = self.copy_next(at, flash, controller) else { break };
                    background.note_round_copy(given);
                }
                background.note_round(flash.copies_programmed_at(first..flash.copies_taken()));
            }
        }
        self.background = Some(background);
    }

    /// Copies the victim's next flash page, not before `at`, as soon as the buffer has room: when flash is
    /// the limit, the core waits, and the host behind it. Returns how much that gives, in 1/65536 pages, and
    /// when the core is done; none if there is no victim. An empty victim is given back without a copy; the next
    /// one is not chosen before more is owed, as it may be empty by then.
    #[inline(always)]
    fn copy_next(
        &mut self,
        at: Nanos,
        flash: &mut Flash,
        controller: &Controller,
    ) -> Option<(u64, Nanos)> {
        if flash.no_room_to_copy() {
            return None;
        }
        loop {
            match flash.ftl_mut().next_source() {
                Some(source) => {
                    let given = u64::from(source.pages) * flash.ftl().given_per_copy();
                    let begin = at.max(flash.buffer_free_at(flash.ftl().gc_stream()));
                    let cost = self.copy(source, begin, Trigger::Behind, flash, controller);
                    return Some((given, begin.after(cost)));
                }
                None if flash.ftl().victim_is_done() => {
                    let given = flash.ftl().given_by_empty();
                    flash.retire_victim(at, Trigger::Behind);
                    if given > 0 {
                        return Some((given, at));
                    }
                }
                None => return None,
            }
        }
    }

    /// Copies what is valid in a flash page; returns what it costs the core.
    #[inline(always)]
    pub fn copy(
        &mut self,
        source: Source,
        at: Nanos,
        trigger: Trigger,
        flash: &mut Flash,
        controller: &Controller,
    ) -> Nanos {
        // Pages are programmed in order: none before the data of all before it has come.
        self.data_ready = self.data_ready.max(flash.read_source(&source, at, trigger));
        flash.relocate(source, at, at.max(self.data_ready));
        self.copied_pages += u64::from(source.pages);
        controller.costs().copy(source.extents, source.pages)
    }

    /// Copies what is left of the victim, or a new one, without a pause.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`] if there is no victim.
    pub fn run_superblock(
        &mut self,
        flash: &mut Flash,
        controller: &mut Controller,
    ) -> Result<(), DeviceError> {
        let stream = flash.ftl().gc_stream();
        loop {
            match flash.ftl_mut().next_source() {
                Some(source) => {
                    let begin = controller.flash_core().free_at();
                    let wait = flash.buffer_free_at(stream).since_or_zero(begin);
                    let begin = begin.after(wait);
                    let cost = self.copy(source, begin, Trigger::Foreground, flash, controller);
                    controller.flash_core().gc(wait.after(cost));
                }
                None if flash.ftl().victim_is_done() => {
                    let at = controller.flash_core().free_at();
                    flash.retire_victim(at, Trigger::Foreground);
                    return flash.check_plugin();
                }
                None => return Err(DeviceError::NoSpace),
            }
        }
    }

    /// Runs in the foreground until more than the reserve is free; returns when the host may go on.
    ///
    /// # Errors
    /// As [`Gc::run_superblock`].
    pub fn run_to_reserve(
        &mut self,
        flash: &mut Flash,
        controller: &mut Controller,
    ) -> Result<Nanos, DeviceError> {
        let mut end = Nanos::ZERO;
        while flash.ftl().free_superblocks() <= flash.reserve() {
            self.run_superblock(flash, controller)?;
            end = controller.flash_core().free_at();
        }
        Ok(end)
    }

    /// Whether the drive works while nothing is asked of it.
    pub fn works_when_idle(&self) -> bool {
        self.idle_after.is_some()
    }

    /// Whether the flash core may have been idle for so long until `at` that it worked for itself.
    #[inline(always)]
    pub fn may_have_idled(&self, at: Nanos, controller: &Controller) -> bool {
        self.idle_after.is_some_and(|after| {
            self.idle_since.is_some() || controller.work().1.after(after) <= at
        })
    }

    /// A command reaches the flash core.
    pub fn end_idle(&mut self) {
        self.idle_since = None;
    }

    /// Since when the flash core has had no command.
    pub fn idle_since(&mut self, controller: &Controller) -> Nanos {
        *self.idle_since.get_or_insert(controller.work().1)
    }

    /// Runs while the flash core has no command until `until`, as the profile allows.
    ///
    /// Nothing happens in idle time by itself: the next command, or the end of the idle time, asks for what
    /// has been done by then. A copy that has begun is finished, and a command that comes waits for it.
    pub fn run_until(&mut self, until: Nanos, flash: &mut Flash, controller: &mut Controller) {
        let Some(idle) = self.idle else {
            return;
        };
        let from = self.idle_since(controller).after(idle.after);
        let mut at = from.max(controller.flash_core().free_at());
        let stream = flash.ftl().gc_stream();
        while at < until && flash.ftl().free_pages() < idle.free {
            if flash.no_room_to_copy() {
                return;
            }
            at = at.max(flash.buffer_free_at(stream));
            if at >= until {
                return;
            }
            // With no room but for the rest of the victim behind writes, that one goes on, whatever it gives.
            let beside = flash.ftl().has_room_beside_victim();
            if beside {
                flash.ftl_mut().swap_idle_victim();
            }
            let cost = self.copy_in_idle_time(at, flash, controller);
            if beside {
                flash.ftl_mut().swap_idle_victim();
            }
            let Some(cost) = cost else { return };
            at = at.after(cost);
        }
    }

    /// Copies the victim's next flash page, or gives it back; returns what it costs the core, or none if there is no
    /// victim.
    fn copy_in_idle_time(
        &mut self,
        at: Nanos,
        flash: &mut Flash,
        controller: &mut Controller,
    ) -> Option<Nanos> {
        match flash.ftl_mut().next_source() {
            Some(source) => {
                let cost = self.copy(source, at, Trigger::Idle, flash, controller);
                controller.flash_core().gc_from(at, cost);
                Some(cost)
            }
            None if flash.ftl().victim_is_done() => {
                flash.retire_victim(at, Trigger::Idle);
                Some(Nanos::ZERO)
            }
            None => None,
        }
    }
}
