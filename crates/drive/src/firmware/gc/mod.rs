//! Garbage collection and folding: copying valid pages out of a victim, behind writes, in the
//! background, in idle time, or in the foreground, while only the reserve is left.
//!
//! One loop copies for all of them ([`Gc::copy_while`]); what each may take says its caller, behind
//! writes the ledger (`pacing.rs`). Which superblock is emptied is the victim policy's choice
//! (`firmware/ftl/victims.rs`). Copies use the flash core, dies, channels and the write buffer like
//! any other work, so what they cost is what they occupy.

mod pacing;

use drivebay_units::Nanos;

use crate::events::Trigger;
use crate::firmware::backend::BackEnd;
use crate::firmware::controller::Controller;
use crate::io::DeviceError;
use crate::persist::{StateError, persist};
use crate::profile::{Idle, Spec};
use crate::superblock::{HOST, Purpose, Source};
use pacing::Ledger;

/// How the flash core works on copies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Core {
    /// Commands wait behind it: one copy after the other, as soon as the buffer has room.
    Busy,
    /// It has no command: only what a copy costs is work, not the wait for room.
    Idle,
    /// Another core does it, beside commands.
    Beside,
    /// As [`Core::Busy`], but only commands of the reclaim group wait behind it.
    OfGroup,
}

/// What each reclaim group has to itself, where there are several.
struct OfGroups {
    /// Of all but the current one.
    parked: Vec<(Ledger, Nanos)>,
    /// Until when its copies take it.
    until: Vec<Nanos>,
}

persist!(OfGroups: parked, until);

/// What is copied, and how.
#[derive(Clone, Copy)]
struct Job {
    purpose: Purpose,
    trigger: Trigger,
    core: Core,
}

/// What a step of copying came to; nothing before the first.
#[derive(Clone, Copy, Default)]
pub struct Step {
    /// Pages copied; none: the victim was given back.
    pub pages: u32,
    /// Pages given back, in 1/65536.
    given: u64,
    /// Time of the core, its wait for the buffer included.
    took: Nanos,
    /// Superblocks given back so far.
    retired: u32,
}

/// Garbage collection's pace and progress.
pub struct Gc {
    ledger: Ledger,
    /// No write is admitted before this: the end of the newest round.
    writes_from: Nanos,
    idle: Option<Idle>,
    /// How long the flash core has no command until it works for itself; none if it never does.
    idle_after: Option<Nanos>,
    /// When the data copied so far is in the controller.
    data_ready: Nanos,
    /// Since when the flash core has had no command, if it is known to have none.
    idle_since: Option<Nanos>,
    copied_pages: u64,
    groups: Option<Box<OfGroups>>,
}

persist!(Gc: ledger, writes_from, data_ready, idle_since, copied_pages, groups; given: idle, idle_after);

impl Gc {
    pub fn new(spec: &Spec) -> Gc {
        Gc {
            ledger: Ledger::new(spec.pacing, spec.background),
            writes_from: Nanos::ZERO,
            idle: spec.idle,
            idle_after: spec.idle_after,
            data_ready: Nanos::ZERO,
            idle_since: None,
            copied_pages: 0,
            groups: (spec.streams.groups > 1).then(|| {
                let ledger = || (Ledger::new(spec.pacing, spec.background), Nanos::ZERO);
                Box::new(OfGroups {
                    parked: (0..spec.streams.groups).map(|_| ledger()).collect(),
                    until: vec![Nanos::ZERO; spec.streams.groups],
                })
            }),
        }
    }

    /// Makes a reclaim group the current one.
    pub fn enter(&mut self, group: usize, flash: &mut BackEnd) {
        let before = flash.ftl().group();
        let Some(groups) = self.groups.as_mut().filter(|_| before != group) else { return };
        for place in [before, group] {
            let (ledger, data_ready) = &mut groups.parked[place];
            std::mem::swap(ledger, &mut self.ledger);
            std::mem::swap(data_ready, &mut self.data_ready);
        }
        flash.ftl_mut().enter(group);
    }

    /// Until when copies take a reclaim group, of a drive with several.
    pub fn takes_until(&self, group: usize) -> Nanos {
        self.groups.as_ref().map_or(Nanos::ZERO, |groups| groups.until[group])
    }

    /// Copies may begin then, as far as the cores are concerned: commands wait behind them.
    #[inline(always)]
    fn free_at(&self, flash: &BackEnd, controller: &mut Controller) -> Nanos {
        let at = controller.ftl_core().free_at();
        self.groups.as_ref().map_or(at, |groups| at.max(groups.until[flash.ftl().group()]))
    }

    /// Who copies, where one core would be busy with it.
    #[inline(always)]
    fn core(&self) -> Core {
        if self.groups.is_some() { Core::OfGroup } else { Core::Busy }
    }

    /// Forgets what is under way, as after a power cut.
    pub fn restart(&mut self, spec: &Spec) {
        *self = Gc { copied_pages: self.copied_pages, ..Gc::new(spec) };
    }

    /// Whether what it has overdrawn can be.
    pub fn check(&self) -> Result<(), StateError> {
        let Some(groups) = &self.groups else { return self.ledger.check() };
        groups.parked.iter().try_for_each(|(ledger, _)| ledger.check())?;
        self.ledger.check()
    }

    /// Pages copied so far, by folding as well.
    pub fn copied_pages(&self) -> u64 {
        self.copied_pages
    }

    /// Runs behind a host command that wrote `pages`, if free space is low enough; `backpressure`:
    /// the write buffer fills.
    ///
    /// # Errors
    /// [`DeviceError::Policy`].
    #[inline(always)]
    pub fn follow_write(
        &mut self,
        pages: u64,
        backpressure: bool,
        flash: &mut BackEnd,
        controller: &mut Controller,
    ) -> Result<(), DeviceError> {
        if self.ledger.starts_at(Self::free_pages(flash))
            && let Some(pages) = self.ledger.due(pages)
        {
            self.run(pages, self.ledger.may_defer() && !backpressure, flash, controller);
            return flash.check_plugin();
        }
        Ok(())
    }

    /// Since when writes may be admitted, as far as copies are concerned.
    pub fn writes_from(&self) -> Nanos {
        self.writes_from
    }

    /// Whether free space is so low that it runs behind writes.
    pub fn runs(&self, flash: &BackEnd) -> bool {
        self.ledger.starts_at(Self::free_pages(flash))
    }

    /// Of the current reclaim group.
    #[inline(always)]
    fn free_pages(flash: &BackEnd) -> u64 {
        let ftl = flash.ftl();
        if ftl.has_groups() { ftl.free_in_group() } else { ftl.free_pages() }
    }

    /// Runs behind a read that was decoded: a superblock that waits to be refreshed is moved.
    pub fn refresh(&mut self, flash: &mut BackEnd, controller: &mut Controller) {
        if flash.ftl().must_collect() {
            if let Some(group) = flash.ftl().suggested_group() {
                self.enter(group, flash);
            }
            self.run(1, false, flash, controller);
        }
    }

    #[inline(never)]
    fn run(
        &mut self,
        host_pages: u64,
        deferred: bool,
        flash: &mut BackEnd,
        controller: &mut Controller,
    ) {
        if flash.is_read_only() {
            return;
        }
        let free = Self::free_pages(flash);
        // Padding takes space as the host's pages do.
        let pages = host_pages + flash.take_padding();
        let pace = flash.ftl_mut().pace(pages, self.ledger.own(free));
        let had_debt = self.ledger.has_debt();
        self.ledger.add_debt(pages, controller.costs().gc_duty, pace);
        if deferred {
            return self.run_deferred(had_debt, flash, controller);
        }
        match self.core() {
            // Apart, so that a copy of a drive with one group does not ask.
            Core::OfGroup => self.run_in_group(flash, controller),
            _ => self.run_as(Core::Busy, flash, controller),
        }
    }

    #[cold]
    #[inline(never)]
    fn run_in_group(&mut self, flash: &mut BackEnd, controller: &mut Controller) {
        self.run_as(Core::OfGroup, flash, controller);
    }

    /// Copies what is due behind a command.
    #[inline(always)]
    fn run_as(&mut self, core: Core, flash: &mut BackEnd, controller: &mut Controller) {
        let job = Job { purpose: Purpose::Collection, trigger: Trigger::Behind, core };
        let from = self.free_at(flash, controller);
        self.copy_while(job, from, flash, controller, |gc, flash, at, step| {
            gc.ledger.spend(step.took, step.given);
            (gc.ledger.allows() && !flash.no_room_to_copy()).then_some(at)
        });
        self.ledger.settle();
    }

    /// Copies what is due in the background or in a round.
    #[cold]
    #[inline(never)]
    fn run_deferred(&mut self, had_debt: bool, flash: &mut BackEnd, controller: &mut Controller) {
        let job =
            Job { purpose: Purpose::Collection, trigger: Trigger::Behind, core: Core::Beside };
        let from = controller.ftl_core().free_at();
        self.ledger.defer(had_debt, from);
        self.copy_while(job, from, flash, controller, |gc, flash, at, step| {
            let goes_on = gc.ledger.copies_in_background(u64::from(step.pages), step.given);
            (goes_on && !flash.no_room_to_copy()).then_some(at)
        });
        let Some(pages) = self.ledger.round_due(flash.ftl().given_per_copy(job.purpose)) else {
            return;
        };
        let (first, last) = (flash.copies_taken(), self.copied_pages + pages);
        self.copy_while(job, from, flash, controller, |gc, flash, at, step| {
            gc.ledger.spend_in_round(step.given);
            (gc.copied_pages < last && !flash.no_room_to_copy()).then_some(at)
        });
        self.writes_from = flash.copies_programmed_at(first..flash.copies_taken());
    }

    /// Copies flash page by flash page, and gives victims back, as long as `next` says from when on
    /// to go on, by when the core is done and what the step before came to. False if there is no
    /// victim.
    ///
    /// When flash is the limit, a busy core waits, and the host behind it.
    #[inline(always)]
    fn copy_while(
        &mut self,
        job: Job,
        from: Nanos,
        flash: &mut BackEnd,
        controller: &mut Controller,
        mut next: impl FnMut(&mut Gc, &mut BackEnd, Nanos, Step) -> Option<Nanos>,
    ) -> bool {
        let Job { purpose, trigger, core } = job;
        let (mut at, mut step) = (from, Step::default());
        while let Some(begin) = next(self, flash, at, step) {
            let purpose = match purpose {
                // With no room but for the rest of the victim behind writes, that one goes on,
                // whatever it gives.
                Purpose::Idle if !flash.ftl().has_room_beside_victim() => Purpose::Collection,
                _ => purpose,
            };
            if let Some(source) = flash.ftl_mut().next_source(purpose) {
                let given = u64::from(source.pages) * flash.ftl().given_per_copy(purpose);
                let stream = flash.ftl_mut().begin_copy(&source);
                let copies_from = begin.max(flash.buffer_free_at(stream));
                let cost = self.copy(source, stream, copies_from, trigger, flash, controller);
                let took = copies_from.after(cost).since(begin);
                match core {
                    Core::Busy => controller.ftl_core().gc(took),
                    Core::Idle => controller.ftl_core().gc_from(copies_from, cost),
                    Core::Beside => {}
                    Core::OfGroup => {
                        let group = flash.ftl().group();
                        self.take_group(group, begin.after(took), cost, controller);
                    }
                }
                step = Step { pages: source.pages, given, took, ..step };
                at = if core == Core::Beside { from } else { begin.after(took) };
            } else if flash.ftl().victim_is_done(purpose) {
                let given = flash.ftl().given_by_empty(purpose);
                flash.retire_victim(purpose, begin, trigger);
                step = Step { pages: 0, given, took: Nanos::ZERO, retired: step.retired + 1 };
            } else {
                return false;
            }
        }
        true
    }

    /// Copies take a reclaim group until then, and so much of a core's work.
    #[cold]
    fn take_group(&mut self, group: usize, until: Nanos, cost: Nanos, controller: &mut Controller) {
        controller.ftl_core().work_beside(cost);
        if let Some(groups) = &mut self.groups {
            groups.until[group] = until;
        }
    }

    /// Copies what is valid in a flash page to a stream; returns what it costs the core.
    #[inline(always)]
    fn copy(
        &mut self,
        source: Source,
        stream: usize,
        at: Nanos,
        trigger: Trigger,
        flash: &mut BackEnd,
        controller: &Controller,
    ) -> Nanos {
        // Pages are programmed in order: none before the data of all before it has come.
        self.data_ready = self.data_ready.max(flash.read_source(&source, at, trigger));
        flash.relocate(source, stream, at, at.max(self.data_ready));
        self.copied_pages += u64::from(source.pages);
        controller.costs().copy(source.extents, source.pages)
    }

    /// Collects in the foreground, superblock by superblock, while `lacks` says so of as many as
    /// were emptied; returns when the host may go on.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`] if there is no victim; [`DeviceError::Policy`].
    fn make_room(
        &mut self,
        flash: &mut BackEnd,
        controller: &mut Controller,
        lacks: impl Fn(&BackEnd, u32) -> bool,
    ) -> Result<Nanos, DeviceError> {
        if !lacks(flash, 0) {
            return Ok(Nanos::ZERO);
        }
        let (purpose, trigger) = (Purpose::Collection, Trigger::Foreground);
        let job = Job { purpose, trigger, core: self.core() };
        let from = self.free_at(flash, controller);
        let mut retired = 0;
        let found = self.copy_while(job, from, flash, controller, |_, flash, at, step| {
            let begins = std::mem::replace(&mut retired, step.retired) != step.retired;
            let stops = begins && (flash.check_plugin().is_err() || !lacks(flash, retired));
            (!stops).then_some(at)
        });
        flash.check_plugin()?;
        if found { Ok(self.free_at(flash, controller)) } else { Err(DeviceError::NoSpace) }
    }

    /// Runs in the foreground until more than the reserve is free, or by a quantum until the host
    /// has room behind its copies; returns when the host may go on.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`], [`DeviceError::Policy`].
    pub fn run_to_reserve(
        &mut self,
        flash: &mut BackEnd,
        controller: &mut Controller,
    ) -> Result<Nanos, DeviceError> {
        let quantum = self.ledger.foreground_victims();
        self.make_room(flash, controller, |flash, emptied| {
            let has_room = emptied >= quantum && flash.ftl().room_to_last(HOST) > 0;
            !has_room && flash.ftl().free_superblocks() <= flash.reserve()
        })
    }

    /// Folds while `next` says so, by what the step before came to; commands wait behind it.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`], [`DeviceError::Policy`].
    pub fn fold_while(
        &mut self,
        trigger: Trigger,
        flash: &mut BackEnd,
        controller: &mut Controller,
        mut next: impl FnMut(&BackEnd, Step) -> bool,
    ) -> Result<(), DeviceError> {
        let job = Job { purpose: Purpose::Folding, trigger, core: Core::Busy };
        let mut before = Step::default();
        while next(flash, before) {
            self.make_room(flash, controller, |flash, _| !flash.may_copy_beside_reserve())?;
            let from = controller.ftl_core().free_at();
            let mut is_first = true;
            let found = self.copy_while(job, from, flash, controller, |_, _, at, step| {
                before = step;
                std::mem::take(&mut is_first).then_some(at)
            });
            if !found {
                break;
            }
        }
        Ok(())
    }

    /// Moves what a failed die held, page by page when each is due, up to `until`; commands wait
    /// behind it.
    pub fn rebuild_until(
        &mut self,
        until: Nanos,
        flash: &mut BackEnd,
        controller: &mut Controller,
    ) {
        while flash.stripes().due() <= until {
            let lacks = |flash: &BackEnd, _| !flash.may_copy_beside_reserve();
            if flash.is_read_only() || self.make_room(flash, controller, lacks).is_err() {
                return flash.stop_moving();
            }
            let due = flash.stripes().due().max(controller.ftl_core().free_at());
            let Some(source) = flash.next_to_move() else { return };
            let stream = flash.ftl_mut().begin_copy(&source);
            let from = due.max(flash.buffer_free_at(stream));
            let cost = self.copy(source, stream, from, Trigger::Behind, flash, controller);
            controller.ftl_core().gc_from(from, cost);
            flash.note_moved(source.pages, from);
        }
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

    /// Collects garbage while the flash core has no command until `until`, as the profile allows.
    ///
    /// Nothing happens in idle time by itself: the next command, or the end of the idle time, asks
    /// for what has been done by then. A copy that has begun is finished, and a command that comes
    /// waits for it.
    pub fn run_until(&mut self, until: Nanos, flash: &mut BackEnd, controller: &mut Controller) {
        let Some(idle) = self.idle else { return };
        let from = self.idle_since(controller).after(idle.after);
        for group in 0..flash.ftl().streams().groups {
            self.enter(group, flash);
            self.copy_idle(Purpose::Idle, from, until, flash, controller, |flash| {
                Self::free_pages(flash) < idle.free && !flash.no_room_to_copy()
            });
        }
    }

    /// Folds while the flash core has no command, from `from` to `until`.
    pub fn fold_until(
        &mut self,
        from: Nanos,
        until: Nanos,
        flash: &mut BackEnd,
        controller: &mut Controller,
    ) {
        let may_copy = |flash: &BackEnd| flash.may_copy_beside_reserve();
        self.copy_idle(Purpose::Folding, from, until, flash, controller, may_copy);
    }

    fn copy_idle(
        &mut self,
        purpose: Purpose,
        from: Nanos,
        until: Nanos,
        flash: &mut BackEnd,
        controller: &mut Controller,
        may_copy: impl Fn(&BackEnd) -> bool,
    ) {
        let core = if self.groups.is_some() { Core::OfGroup } else { Core::Idle };
        let job = Job { purpose, trigger: Trigger::Idle, core };
        let from = from.max(self.free_at(flash, controller));
        self.copy_while(job, from, flash, controller, |_, flash, at, _| {
            if at >= until || !may_copy(flash) {
                return None;
            }
            let begin = at.max(flash.copies_free_at());
            (begin < until).then_some(begin)
        });
    }
}
