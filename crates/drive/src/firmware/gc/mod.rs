//! Garbage collection and folding: copies of valid pages out of a victim, after writes, in the
//! background, in idle time, or in the foreground while only the reserve is left.
//!
//! One loop makes all copies ([`Gc::copy_while`]). The caller sets the budget of each, after writes
//! the ledger (`pacing.rs`). The victim policy chooses the superblock (`firmware/ftl/victims.rs`).
//! Copies use the flash core, dies, channels and the write buffer like any other work, so they cost
//! the time that they occupy. Everything else of the drive is reached through a port (`port.rs`).

mod pacing;
pub mod port;

use drivebay_units::Nanos;

use crate::events::Trigger;
use crate::firmware::controller::Controller;
use crate::io::DeviceError;
use crate::persist::{StateError, persist};
use crate::profile::{Idle, Spec};
use crate::superblock::{Purpose, Source};
use pacing::Ledger;
use port::{GcPort, Need, NextStep, PacePort};

/// Kind of core time that copies take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Core {
    /// Commands wait for it: one copy after the other, as soon as the buffer has space.
    Busy,
    /// No command is there: only the cost of a copy is work, not the wait for space.
    Idle,
    /// Another core copies, in parallel with commands.
    Beside,
    /// As [`Core::Busy`], but only commands of the reclaim group wait for it.
    OfGroup,
}

/// State of each reclaim group, on drives with several.
struct OfGroups {
    /// Ledger and `data_ready` of each group but the current one.
    parked: Vec<(Ledger, Nanos)>,
    /// Time until which its copies take a group.
    until: Vec<Nanos>,
}

persist!(OfGroups: parked, until);

/// Purpose, trigger and core of copies.
#[derive(Clone, Copy)]
struct Job {
    purpose: Purpose,
    trigger: Trigger,
    core: Core,
}

/// Result of the last copy step; empty before the first.
#[derive(Clone, Copy, Default)]
pub struct Step {
    /// Pages copied; 0 if the victim was retired.
    pub pages: u32,
    /// Pages reclaimed, in 1/65536.
    given: u64,
    /// Time of the core, with its wait for the buffer.
    took: Nanos,
    /// Superblocks retired so far.
    retired: u32,
}

/// Pace and progress of garbage collection.
pub struct Gc {
    ledger: Ledger,
    /// End of the newest round: no write is admitted before.
    writes_from: Nanos,
    idle: Option<Idle>,
    /// Time without a command after which the flash core works for itself; none if it never does.
    idle_after: Option<Nanos>,
    /// Time when the data copied so far is in the controller.
    data_ready: Nanos,
    /// Beginning of the time without a command, if it is known to have begun.
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
    pub fn enter<P: GcPort>(&mut self, group: usize, port: &mut P) {
        let before = port.group();
        let Some(groups) = self.groups.as_mut().filter(|_| before != group) else { return };
        for place in [before, group] {
            let (ledger, data_ready) = &mut groups.parked[place];
            std::mem::swap(ledger, &mut self.ledger);
            std::mem::swap(data_ready, &mut self.data_ready);
        }
        port.enter(group);
    }

    /// Time until which copies take a reclaim group, on drives with several.
    pub fn takes_until(&self, group: usize) -> Nanos {
        self.groups.as_ref().map_or(Nanos::ZERO, |groups| groups.until[group])
    }

    /// Time when copies may begin, as far as the cores are concerned; commands wait for them.
    #[inline(always)]
    fn free_at<P: GcPort>(&self, port: &P, controller: &mut Controller) -> Nanos {
        let at = controller.ftl_core().free_at();
        self.groups.as_ref().map_or(at, |groups| at.max(groups.until[port.group()]))
    }

    /// Core that copies while commands wait.
    #[inline(always)]
    fn core(&self) -> Core {
        if self.groups.is_some() { Core::OfGroup } else { Core::Busy }
    }

    /// Forgets copies under way, as after a power cut.
    pub fn restart(&mut self, spec: &Spec) {
        *self = Gc { copied_pages: self.copied_pages, ..Gc::new(spec) };
    }

    /// Checks the debts that were read back.
    pub fn check(&self) -> Result<(), StateError> {
        let Some(groups) = &self.groups else { return self.ledger.check() };
        groups.parked.iter().try_for_each(|(ledger, _)| ledger.check())?;
        self.ledger.check()
    }

    /// Pages copied so far, folding included.
    pub fn copied_pages(&self) -> u64 {
        self.copied_pages
    }

    /// Runs after a host command that wrote `pages`, if free space is low enough. `backpressure`:
    /// the write buffer fills.
    ///
    /// # Errors
    /// [`DeviceError::Policy`].
    #[inline(always)]
    pub fn follow_write<P: PacePort>(
        &mut self,
        pages: u64,
        backpressure: bool,
        port: &mut P,
        controller: &mut Controller,
    ) -> Result<(), DeviceError> {
        if self.ledger.starts_at(port.free_pages())
            && let Some(pages) = self.ledger.due(pages)
        {
            self.run(pages, self.ledger.may_defer() && !backpressure, port, controller);
            return port.check_policy();
        }
        Ok(())
    }

    /// Time from which writes may be admitted, as far as copies are concerned.
    pub fn writes_from(&self) -> Nanos {
        self.writes_from
    }

    /// True if free space is so low that collection runs after writes.
    pub fn runs<P: PacePort>(&self, port: &P) -> bool {
        self.ledger.starts_at(port.free_pages())
    }

    /// Moves a superblock of this group that waits to be refreshed, after a read was decoded.
    pub fn refresh<P: PacePort>(
        &mut self,
        group: usize,
        port: &mut P,
        controller: &mut Controller,
    ) {
        self.enter(group, port);
        self.run(1, false, port, controller);
    }

    #[inline(never)]
    fn run<P: PacePort>(
        &mut self,
        host_pages: u64,
        deferred: bool,
        port: &mut P,
        controller: &mut Controller,
    ) {
        let own = self.ledger.own(port.free_pages());
        let Some((pages, pace)) = port.pace(host_pages, own) else { return };
        let had_debt = self.ledger.has_debt();
        self.ledger.add_debt(pages, controller.costs().gc_duty, pace);
        if deferred {
            return self.run_deferred(had_debt, port, controller);
        }
        match self.core() {
            // A function of its own, so that copies of a drive with one group do not ask.
            Core::OfGroup => self.run_in_group(port, controller),
            _ => self.run_as(Core::Busy, port, controller),
        }
    }

    #[cold]
    #[inline(never)]
    fn run_in_group<P: PacePort>(&mut self, port: &mut P, controller: &mut Controller) {
        self.run_as(Core::OfGroup, port, controller);
    }

    /// Makes the copies that are due after a command.
    #[inline(always)]
    fn run_as<P: PacePort>(&mut self, core: Core, port: &mut P, controller: &mut Controller) {
        let job = Job { purpose: Purpose::Collection, trigger: Trigger::Behind, core };
        let from = self.free_at(port, controller);
        self.copy_while(job, from, port, controller, |gc, port, at, step| {
            gc.ledger.spend(step.took, step.given);
            (gc.ledger.allows() && port.has(Need::Copy)).then_some(at)
        });
        self.ledger.settle();
    }

    /// Makes the copies that are due in the background or in a round.
    #[cold]
    #[inline(never)]
    fn run_deferred<P: PacePort>(
        &mut self,
        had_debt: bool,
        port: &mut P,
        controller: &mut Controller,
    ) {
        let job =
            Job { purpose: Purpose::Collection, trigger: Trigger::Behind, core: Core::Beside };
        let from = controller.ftl_core().free_at();
        self.ledger.defer(had_debt, from);
        self.copy_while(job, from, port, controller, |gc, port, at, step| {
            let goes_on = gc.ledger.copies_in_background(u64::from(step.pages), step.given);
            (goes_on && port.has(Need::Copy)).then_some(at)
        });
        let Some(pages) = self.ledger.round_due(port.reclaimed_per_copy(job.purpose)) else {
            return;
        };
        let (first, last) = (port.copies_taken(), self.copied_pages + pages);
        self.copy_while(job, from, port, controller, |gc, port, at, step| {
            gc.ledger.spend_in_round(step.given);
            (gc.copied_pages < last && port.has(Need::Copy)).then_some(at)
        });
        self.writes_from = port.copies_programmed_at(first..port.copies_taken());
    }

    /// Copies flash page by flash page, and retires victims. Before each step, `next` returns when
    /// it begins, or `None` to stop; it is given the time when the core is done and the result of
    /// the last step. Returns false if there is no victim.
    ///
    /// Where flash is the limit, a busy core waits, and the host waits for it.
    #[inline(always)]
    fn copy_while<P: GcPort>(
        &mut self,
        job: Job,
        from: Nanos,
        port: &mut P,
        controller: &mut Controller,
        mut next: impl FnMut(&mut Gc, &mut P, Nanos, Step) -> Option<Nanos>,
    ) -> bool {
        let Job { purpose, trigger, core } = job;
        let (mut at, mut step) = (from, Step::default());
        while let Some(begin) = next(self, port, at, step) {
            let purpose = match purpose {
                // Without space beyond the rest of the victim after writes, that victim goes on,
                // whatever it gains.
                Purpose::Idle if !port.has(Need::CopyBesideVictim) => Purpose::Collection,
                _ => purpose,
            };
            match port.next_step(purpose) {
                NextStep::Copy { source, stream, reclaimed } => {
                    let copies_from = begin.max(port.free_at(Some(stream)));
                    let cost = self.copy(source, stream, copies_from, trigger, port, controller);
                    let took = copies_from.after(cost).since(begin);
                    match core {
                        Core::Busy => controller.ftl_core().gc(took),
                        Core::Idle => controller.ftl_core().gc_from(copies_from, cost),
                        Core::Beside => {}
                        Core::OfGroup => {
                            let group = port.group();
                            self.take_group(group, begin.after(took), cost, controller);
                        }
                    }
                    step = Step { pages: source.pages, given: reclaimed, took, ..step };
                    at = if core == Core::Beside { from } else { begin.after(took) };
                }
                NextStep::Retire { reclaimed } => {
                    port.retire_victim(purpose, begin, trigger);
                    let retired = step.retired + 1;
                    step = Step { pages: 0, given: reclaimed, took: Nanos::ZERO, retired };
                }
                NextStep::Nothing => return false,
            }
        }
        true
    }

    /// Keeps a reclaim group busy with copies until then, and counts the core's work.
    #[cold]
    fn take_group(&mut self, group: usize, until: Nanos, cost: Nanos, controller: &mut Controller) {
        controller.ftl_core().work_beside(cost);
        if let Some(groups) = &mut self.groups {
            groups.until[group] = until;
        }
    }

    /// Copies the valid pages of a flash page to a stream; returns the cost for the core.
    #[inline(always)]
    pub fn copy<P: GcPort>(
        &mut self,
        source: Source,
        stream: usize,
        at: Nanos,
        trigger: Trigger,
        port: &mut P,
        controller: &Controller,
    ) -> Nanos {
        port.copy(source, stream, at, trigger, &mut self.data_ready);
        self.copied_pages += u64::from(source.pages);
        controller.costs().copy(source.extents, source.pages)
    }

    /// Collects in the foreground, superblock by superblock, while `lacks` returns true for the
    /// number of superblocks emptied; returns when the host may go on.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`] if there is no victim; [`DeviceError::Policy`].
    fn make_room<P: GcPort>(
        &mut self,
        port: &mut P,
        controller: &mut Controller,
        lacks: impl Fn(&P, u32) -> bool,
    ) -> Result<Nanos, DeviceError> {
        if !lacks(port, 0) {
            return Ok(Nanos::ZERO);
        }
        let (purpose, trigger) = (Purpose::Collection, Trigger::Foreground);
        let job = Job { purpose, trigger, core: self.core() };
        let from = self.free_at(port, controller);
        let mut retired = 0;
        let found = self.copy_while(job, from, port, controller, |_, port, at, step| {
            let begins = std::mem::replace(&mut retired, step.retired) != step.retired;
            let stops = begins && (port.check_policy().is_err() || !lacks(port, retired));
            (!stops).then_some(at)
        });
        port.check_policy()?;
        if found { Ok(self.free_at(port, controller)) } else { Err(DeviceError::NoSpace) }
    }

    /// Collects in the foreground until more than the reserve is free, or by a quantum until the
    /// host has space after its copies; returns when the host may go on.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`], [`DeviceError::Policy`].
    pub fn run_to_reserve<P: GcPort>(
        &mut self,
        port: &mut P,
        controller: &mut Controller,
    ) -> Result<Nanos, DeviceError> {
        let quantum = self.ledger.foreground_victims();
        self.make_room(port, controller, |port, emptied| {
            let goes_on = emptied >= quantum && port.has(Need::HostPage);
            !goes_on && !port.has(Need::Superblock)
        })
    }

    /// Collects in the foreground until a flash page can be copied without the reserve.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`], [`DeviceError::Policy`].
    pub fn make_room_to_copy<P: GcPort>(
        &mut self,
        port: &mut P,
        controller: &mut Controller,
    ) -> Result<Nanos, DeviceError> {
        self.make_room(port, controller, |port, _| !port.has(Need::CopyBesideReserve))
    }

    /// Folds while `next` returns true for the result of the last step; commands wait for it.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`], [`DeviceError::Policy`].
    pub fn fold_while<P: GcPort>(
        &mut self,
        trigger: Trigger,
        port: &mut P,
        controller: &mut Controller,
        mut next: impl FnMut(&P, Step) -> bool,
    ) -> Result<(), DeviceError> {
        let job = Job { purpose: Purpose::Folding, trigger, core: Core::Busy };
        let mut before = Step::default();
        while next(port, before) {
            self.make_room_to_copy(port, controller)?;
            let from = controller.ftl_core().free_at();
            let mut is_first = true;
            let found = self.copy_while(job, from, port, controller, |_, _, at, step| {
                before = step;
                std::mem::take(&mut is_first).then_some(at)
            });
            if !found {
                break;
            }
        }
        Ok(())
    }

    /// True if the drive works while no command is there.
    pub fn works_when_idle(&self) -> bool {
        self.idle_after.is_some()
    }

    /// True if the flash core may have been idle for so long until `at` that it worked for itself.
    #[inline(always)]
    pub fn may_have_idled(&self, at: Nanos, controller: &Controller) -> bool {
        self.idle_after.is_some_and(|after| {
            self.idle_since.is_some() || controller.work().1.after(after) <= at
        })
    }

    /// Notes that a command reaches the flash core.
    pub fn end_idle(&mut self) {
        self.idle_since = None;
    }

    /// Beginning of the time without a command on the flash core.
    pub fn idle_since(&mut self, controller: &Controller) -> Nanos {
        *self.idle_since.get_or_insert(controller.work().1)
    }

    /// Collects garbage while the flash core has no command until `until`, as the profile allows.
    ///
    /// Idle time has no events of its own: the next command, or the end of the idle time, asks for
    /// the work done by then. A copy that has begun is finished, and a command that comes waits for
    /// it.
    pub fn run_until<P: PacePort>(
        &mut self,
        until: Nanos,
        port: &mut P,
        controller: &mut Controller,
    ) {
        let Some(idle) = self.idle else { return };
        let from = self.idle_since(controller).after(idle.after);
        for group in 0..self.groups.as_ref().map_or(1, |groups| groups.until.len()) {
            self.enter(group, port);
            self.copy_idle(Purpose::Idle, from, until, port, controller, |port| {
                port.free_pages() < idle.free && port.has(Need::Copy)
            });
        }
    }

    /// Folds while the flash core has no command, from `from` to `until`.
    pub fn fold_until<P: GcPort>(
        &mut self,
        from: Nanos,
        until: Nanos,
        port: &mut P,
        controller: &mut Controller,
    ) {
        let may_copy = |port: &P| port.has(Need::CopyBesideReserve);
        self.copy_idle(Purpose::Folding, from, until, port, controller, may_copy);
    }

    fn copy_idle<P: GcPort>(
        &mut self,
        purpose: Purpose,
        from: Nanos,
        until: Nanos,
        port: &mut P,
        controller: &mut Controller,
        may_copy: impl Fn(&P) -> bool,
    ) {
        let core = if self.groups.is_some() { Core::OfGroup } else { Core::Idle };
        let job = Job { purpose, trigger: Trigger::Idle, core };
        let from = from.max(self.free_at(port, controller));
        self.copy_while(job, from, port, controller, |_, port, at, _| {
            if at >= until || !may_copy(port) {
                return None;
            }
            let begin = at.max(port.free_at(None));
            (begin < until).then_some(begin)
        });
    }
}
