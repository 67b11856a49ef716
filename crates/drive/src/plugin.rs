//! A policy plug-in in a drive: its state, its inputs, and the checks of its answers.
//!
//! Without a plug-in, the drive pays one comparison per victim, per superblock opened, per read
//! with retries and per command after which garbage collection runs, and nothing else. A plug-in's
//! answer is checked; after an answer that is not allowed the drive decides by itself, and the
//! command ends with an error. The translation layer has one plug-in. If the plug-in schedules
//! reads, the dies have another instance with its own state: a flash controller's scheduler does
//! not share the memory of the translation layer.

use std::sync::Arc;

use drivebay_units::{Nanos, Rng};

use crate::io::DeviceError;
use crate::persist::persist;
use crate::policy_plugin::{
    Decides, Decisions, DieRead, DriveView, HostWrite, NONE, PACE_MAX, Pace, PluginSpec,
    PolicyPlugin, RetriedRead, SuperblockView,
};
use crate::profile::Spec;
use crate::superblock::{COLD, HOST, State, Superblock};

/// A plug-in with its state.
#[derive(Debug)]
pub struct Plugin {
    code: Arc<dyn PolicyPlugin>,
    /// Decisions that it makes.
    pub decides: Decides,
    drive: DriveView,
    state: Vec<u64>,
    all: Vec<SuperblockView>,
    seed: u64,
    pub decisions: Decisions,
    /// Number of victims without a gain since the last one with a gain.
    gained_nothing: usize,
    /// Error of an answer that was not allowed.
    failed: Option<DeviceError>,
}

persist!(Plugin: state, seed, decisions; given: code, decides, drive, all, gained_nothing, failed);

impl Plugin {
    /// Creates the plug-in of the profile; `None` if it has none.
    pub fn new(spec: &Spec, rng: &Rng) -> Option<Box<Plugin>> {
        let PluginSpec { code, drive, state_words } = spec.plugin.clone()?;
        let mut plugin = Box::new(Plugin {
            decides: code.decides(),
            code,
            drive,
            state: vec![0; state_words],
            all: vec![SuperblockView::default(); drive.superblocks as usize],
            seed: rng.fork("plugin").next_u64(),
            decisions: Decisions::default(),
            gained_nothing: 0,
            failed: None,
        });
        plugin.start();
        Some(plugin)
    }

    /// Initializes the state for flash that is new or empty.
    pub fn start(&mut self) {
        self.state.fill(0);
        self.code.start(&mut self.state, &self.drive, self.seed);
    }

    /// Returns an error if an answer was not allowed: later results are not results of this policy.
    #[inline]
    pub fn check(&self) -> Result<(), DeviceError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, decision: &'static str, answer: u64, allowed: &'static str) {
        let policy = self.code.name().to_owned();
        self.failed = Some(DeviceError::Policy { policy, decision, answer, allowed });
    }

    /// Sets the free space for the next decision.
    pub fn see_free(&mut self, pages: u64, superblocks: usize) {
        (self.drive.free_pages, self.drive.free_superblocks) = (pages, superblocks as u32);
    }

    /// Updates the view of each superblock and marks candidates of the present decision; returns
    /// the first candidate. Cost: one pass over all superblocks.
    fn see_superblocks(
        &mut self,
        blocks: &[Superblock],
        valid: &[u32],
        sealed: u64,
        may_choose: impl Fn(&Superblock, u32) -> bool,
    ) -> Option<u32> {
        let mut first = None;
        let seen = blocks.iter().zip(valid);
        for (i, (view, (s, &valid))) in (0..).zip(self.all.iter_mut().zip(seen)) {
            let candidate = may_choose(s, valid);
            *view = SuperblockView {
                age: if s.state == State::Sealed { sealed - s.sealed } else { 0 },
                valid,
                erases: s.erases,
                state: s.state as u32,
                stream: u32::from(s.stream),
                candidate: u32::from(candidate),
                reserved: 0,
            };
            if candidate {
                first = first.or(Some(i));
            }
        }
        first
    }

    /// Returns the answer if it is a candidate of the last view; otherwise the run ends with the
    /// error.
    fn candidate(&mut self, decision: &'static str, answer: u32) -> Option<u32> {
        let seen = self.all.get(answer as usize);
        if seen.is_some_and(|view| view.candidate != 0) {
            return Some(answer);
        }
        self.fail(decision, answer.into(), "the number of a candidate");
        None
    }

    /// Chooses the victim if there is a candidate: one of the candidates, or a full superblock, as
    /// in a circular log, but not as many full ones in a row as there are superblocks. After
    /// another answer it is the first candidate, and the run ends with the error.
    ///
    /// Cost: one pass over all superblocks and one call, per victim.
    pub fn choose_victim(
        &mut self,
        blocks: &[Superblock],
        valid: &[u32],
        sealed: u64,
    ) -> Option<u32> {
        let pages = self.drive.superblock_pages;
        let gains = |s: &Superblock, valid| s.state == State::Sealed && valid < pages;
        let first = self.see_superblocks(blocks, valid, sealed, gains)?;
        let candidates = self.all.iter().filter(|view| view.candidate != 0);
        let alike =
            candidates.map(|view| view.valid).all(|valid| valid == self.all[first as usize].valid);
        self.decisions.victims += 1;
        self.decisions.victims_alike += u64::from(alike);
        let answer = self.code.choose_victim(&mut self.state, &self.drive, &self.all);
        let full =
            |view: &SuperblockView| view.state == State::Sealed as u32 && view.valid == pages;
        if self.all.get(answer as usize).is_some_and(full) && self.gained_nothing < self.all.len() {
            self.gained_nothing += 1;
            return Some(answer);
        }
        self.gained_nothing = 0;
        self.candidate("choose_victim", answer).or(Some(first))
    }

    /// Chooses a sealed superblock whose data is to be moved so that its flash also wears, or none.
    ///
    /// Cost: as of `choose_victim`, per victim.
    pub fn level_wear(&mut self, blocks: &[Superblock], valid: &[u32], sealed: u64) -> Option<u32> {
        let movable = |s: &Superblock, _| s.state == State::Sealed && !s.slc;
        self.see_superblocks(blocks, valid, sealed, movable)?;
        self.decisions.levelings += 1;
        let answer = self.code.level_wear(&mut self.state, &self.drive, &self.all);
        if answer == NONE {
            return None;
        }
        let moved = self.candidate("level_wear", answer);
        self.decisions.levelings_moved += u64::from(moved.is_some());
        moved
    }

    /// Chooses the free superblock that is opened next; `own` is the drive's own choice.
    ///
    /// Cost: as of `choose_victim`, per superblock opened.
    pub fn open_superblock(
        &mut self,
        blocks: &[Superblock],
        valid: &[u32],
        sealed: u64,
        own: u32,
    ) -> u32 {
        self.see_superblocks(blocks, valid, sealed, |s, _| s.state == State::Free);
        let answer = self.code.open_superblock(&mut self.state, &self.drive, &self.all);
        let next = self.candidate("open_superblock", answer).unwrap_or(own);
        self.decisions.opens += 1;
        self.decisions.opens_changed += u64::from(next != own);
        next
    }

    /// Decides how long a read that meets a program or an erase waits for them, from the moment
    /// defined in [`DieRead`].
    pub fn schedule_read(&mut self, read: &DieRead) -> Nanos {
        let waits = match self.code.schedule_read(&mut self.state, &self.drive, read) {
            0 => 0,
            1 => read.running_ns,
            2 => read.all_ns,
            answer => {
                self.fail("schedule_read", answer.into(), "0, 1 or 2");
                0
            }
        };
        self.decisions.die_reads += 1;
        self.decisions.die_reads_delayed += u64::from(waits > 0);
        Nanos(waits)
    }

    /// Decides if the data of a superblock is moved after a read that needed retries.
    pub fn read_retried(&mut self, read: &RetriedRead) -> bool {
        let answer = self.code.read_retried(&mut self.state, &self.drive, read);
        if answer > 1 {
            self.fail("read_retried", answer.into(), "0 or 1");
        }
        self.decisions.retried += 1;
        self.decisions.retried_moved += u64::from(answer == 1);
        answer == 1
    }

    /// Chooses the host's stream of a write.
    pub fn place_write(&mut self, write: &HostWrite) -> Result<usize, DeviceError> {
        self.decisions.writes += 1;
        match self.code.place_write(&mut self.state, &self.drive, write) {
            0 => Ok(HOST),
            1 => {
                self.decisions.writes_second += 1;
                Ok(COLD)
            }
            answer => {
                self.fail("place_write", answer.into(), "0 or 1");
                self.check().map(|()| HOST)
            }
        }
    }

    /// Sets the pace after a command of `pages` pages; `own` is the drive's own choice.
    pub fn pace(&mut self, pages: u64, own: Pace) -> Pace {
        let mut pace = own;
        self.code.set_pace(&mut self.state, &self.drive, pages, &mut pace);
        let Pace { gain_256, duty_256 } = pace;
        self.decisions.paces += 1;
        self.decisions.paces_changed +=
            u64::from((gain_256, duty_256) != (own.gain_256, own.duty_256));
        let most = gain_256.max(duty_256);
        if most > PACE_MAX {
            self.fail("set_pace", most, "at most 2^20");
            return own;
        }
        pace
    }
}
