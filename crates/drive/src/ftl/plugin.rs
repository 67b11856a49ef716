//! A policy plug-in in a drive: its state, what it is told, and what becomes of its answers.
//!
//! Without one the drive pays one comparison per victim, per command behind which garbage collection runs, and none
//! else. A plug-in's answer is checked; after one that is not allowed the drive goes on by itself, and the command ends
//! with an error.

use std::sync::Arc;

use drivebay_units::Rng;

use crate::io::DeviceError;
use crate::persist::persist;
use crate::policy_plugin::{
    Decides, Decisions, DriveView, HostWrite, PACE_MAX, Pace, PluginSpec, PolicyPlugin,
    SuperblockView,
};
use crate::spec::Spec;
use crate::superblock::{COLD, HOST, State, Superblock};

/// A plug-in in a drive, with its state.
#[derive(Debug)]
pub struct Plugin {
    code: Arc<dyn PolicyPlugin>,
    decides: Decides,
    drive: DriveView,
    state: Vec<u64>,
    all: Vec<SuperblockView>,
    seed: u64,
    decisions: Decisions,
    /// It has given an answer that is not allowed.
    failed: Option<DeviceError>,
}

persist!(Plugin: state, seed, decisions; given: code, decides, drive, all, failed);

impl Plugin {
    /// None, unless the profile has one.
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
            failed: None,
        });
        plugin.start();
        Some(plugin)
    }

    /// The drive's flash is as new, or holds nothing.
    pub fn start(&mut self) {
        self.state.fill(0);
        self.code.start(&mut self.state, &self.drive, self.seed);
    }

    /// Which decisions it takes.
    #[inline]
    pub fn decides(&self) -> Decides {
        self.decides
    }

    pub fn decisions(&self) -> Decisions {
        self.decisions
    }

    /// An error, once an answer was not allowed: nothing after it is a result of this policy.
    #[inline]
    pub fn check(&self) -> Result<(), DeviceError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, decision: &'static str, answer: u64, allowed: &'static str) {
        let policy = self.code.name().to_owned();
        self.failed = Some(DeviceError::Policy { policy, decision, answer, allowed });
    }

    /// Notes the free space that the next decision sees.
    pub fn see_free(&mut self, pages: u64, superblocks: usize) {
        (self.drive.free_pages, self.drive.free_superblocks) = (pages, superblocks as u32);
    }

    /// The victim, if there is a candidate. After an answer that is none of them it is the first of them: the
    /// run ends with the error.
    ///
    /// Cost: one pass over all superblocks and one call, per victim.
    pub fn choose_victim(
        &mut self,
        blocks: &[Superblock],
        valid: &[u32],
        sealed: u64,
    ) -> Option<usize> {
        let (mut first, mut least, mut most) = (None, u32::MAX, 0);
        for (i, (view, (s, &valid))) in
            self.all.iter_mut().zip(blocks.iter().zip(valid)).enumerate()
        {
            let full = s.state == State::Sealed;
            let candidate = full && valid < self.drive.superblock_pages;
            *view = SuperblockView {
                age: if full { sealed - s.sealed } else { 0 },
                valid,
                erases: s.erases,
                state: s.state as u32,
                stream: u32::from(s.stream),
                candidate: u32::from(candidate),
                reserved: 0,
            };
            if candidate {
                first = first.or(Some(i));
                (least, most) = (least.min(valid), most.max(valid));
            }
        }
        let first = first?;
        self.decisions.victims += 1;
        self.decisions.victims_alike += u64::from(least == most);
        let answer = self.code.choose_victim(&mut self.state, &self.drive, &self.all);
        let is_candidate = |i: usize| {
            blocks.get(i).is_some_and(|s| s.state == State::Sealed)
                && valid[i] < self.drive.superblock_pages
        };
        if is_candidate(answer as usize) {
            return Some(answer as usize);
        }
        self.fail("choose_victim", answer.into(), "the number of a candidate");
        Some(first)
    }

    /// The host's stream of a write.
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

    /// The pace behind a command that took `pages`, where the drive itself would have `own`.
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
