//! What a synthesized trace is made from: published statistics, and what was chosen where they are
//! silent.
//!
//! The three profiles are the TOML files beside this one; each number there has its source. A
//! changed copy can be given in their place, which is how `scripts/refit_traces.py` sets the free
//! parameters.

use drivebay_units::Rng;
use serde::Deserialize;

use crate::error::SynthError;

/// Largest request that a profile may ask for.
const BYTES_MAX: u64 = 16 << 20;
/// Most sequential streams of one kind: that many stay among the last [`crate::STREAMS`].
pub(crate) const STREAMS_MAX: usize = 8;

/// A profile, as its file says it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is called on the command line.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Statistics of the trace as they were published.
    pub published: Published,
    /// What was chosen for the whole trace.
    pub chosen: Chosen,
    /// What is done one after the other.
    pub phases: Vec<Phase>,
}

/// The published statistics, in the units of their tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Volume read, GiB (printed as GB; why GiB: docs/adr/0010).
    pub read_gib: f64,
    /// Volume written, GiB.
    pub written_gib: f64,
    /// Shares of I/Os in percent: below 4 KiB, then 4, 8, 16, 32, 64 and 128 KiB.
    pub size_percent: [f64; 7],
    /// Shares of I/Os in percent by depth: 1, 2, 3, 4-5, 6-10, 11-20, 21-32, above.
    pub depth_percent: [f64; 8],
    /// Mean depth, where what was printed is possible.
    pub depth_mean: Option<f64>,
    /// Sequential I/Os in percent.
    pub sequential_percent: f64,
    /// Idle intervals are cut to this.
    pub idle_ms_max: u64,
}

/// What the statistics leave open.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// Mean depth above 32, where no mean was published.
    pub deep_mean: Option<f64>,
    /// Sizes below 4 KiB, bytes, equally often.
    pub small_bytes: Vec<u64>,
    /// Sizes that the table leaves out, KiB.
    pub other_kib: Vec<u64>,
    /// Odds of being sequential, from 64 KiB on, against smaller ones.
    pub sequential_if_large: f64,
    /// Odds of coming in deep groups, from 64 KiB on, against smaller ones.
    pub deep_if_large: f64,
    /// The same for writes against reads.
    pub deep_if_write: f64,
    /// Share of a group's I/Os that are like the one before, percent.
    pub alike_percent: f64,
    /// Share of random I/Os from which a sequential stream goes on, percent.
    pub seek_percent: f64,
    /// Files of the system, which all phases use: size; a half is only read.
    pub system_gb: f64,
    /// And the share of random I/Os that goes there, percent.
    pub system_percent: f64,
    /// Share of random reads that go to files which the trace does not write, percent.
    pub old_percent: f64,
    /// Writes from this size on that do not go on from one begin a file, KiB; smaller ones change
    /// files in place.
    pub file_kib: u64,
    /// Between the arrivals of a group, nanoseconds.
    pub spacing_ns: u64,
    /// The drive recorded on: fixed time per I/O.
    pub recorded_us: f64,
    /// And its data rate.
    pub recorded_mb_per_s: f64,
    /// Mean time from a group's end to the next group, microseconds, where there is no pause.
    pub gap_us: f64,
    /// Groups followed by a pause, in 10,000.
    pub pauses_per_10000: u64,
    /// Mean length of a pause before it is cut, milliseconds.
    pub pause_ms: f64,
}

/// A period of work of one kind. Factors are odds: 1 is as the whole trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The activity that the phase stands for.
    pub name: String,
    /// Why the phase has these numbers.
    pub why: String,
    /// Share of all I/Os, percent.
    pub io_percent: f64,
    /// Odds of reads.
    #[serde(default = "one")]
    pub reads: f64,
    /// Odds of I/Os from 64 KiB on.
    #[serde(default = "one")]
    pub large: f64,
    /// Odds of sequential I/Os.
    #[serde(default = "one")]
    pub sequential: f64,
    /// Odds of groups of four and more.
    #[serde(default = "one")]
    pub deep: f64,
    /// Its own data; a half is old files, which are only read.
    pub data_gb: f64,
    /// The hot part of them.
    pub hot_gb: f64,
    /// Share of its random I/Os that go to the hot part, percent.
    pub hot_percent: f64,
    /// Sequential streams side by side, of each kind.
    pub streams: usize,
    /// Whether its own data are images and databases, in which also large writes fall in place.
    #[serde(default)]
    pub in_place: bool,
    /// Length of gaps, of the trace's.
    #[serde(default = "one")]
    pub gaps: f64,
    /// Number of pauses, of the trace's.
    #[serde(default = "one")]
    pub pauses: f64,
}

fn one() -> f64 {
    1.0
}

const FILES: [(&str, &str); 3] = [
    ("destroyer", include_str!("destroyer.toml")),
    ("heavy", include_str!("heavy.toml")),
    ("light", include_str!("light.toml")),
];

impl Profile {
    /// Names of the profiles that come with the program.
    #[must_use]
    pub fn names() -> [&'static str; FILES.len()] {
        FILES.map(|(name, _)| name)
    }

    /// The file of a profile that comes with the program.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn text(name: &str) -> Result<&'static str, SynthError> {
        let found = FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        found.ok_or_else(|| {
            let problem = format!("'{name}' is unknown; must be {}", Profile::names().join(", "));
            SynthError::new("trace", problem, "drivebay trace synth light --out light.csv")
        })
    }

    /// Reads and checks a profile.
    ///
    /// # Errors
    /// On the first thing that is wrong.
    pub fn parse(text: &str) -> Result<Profile, SynthError> {
        let profile: Profile = toml::from_str(text).map_err(|error| {
            let problem = error.to_string().replace('\n', " ");
            SynthError::new("profile", problem, "compare it with crates/trace/src/synth/light.toml")
        })?;
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), SynthError> {
        let refuse = |field: &str, allowed: &str| {
            let problem = format!("{field} is not allowed; must be {allowed}");
            Err(SynthError::new(&format!("profile {}", self.name), problem, "change it there"))
        };
        let p = &self.published;
        let shares = |shares: &[f64]| {
            shares.iter().all(|share| (0.0..=100.0).contains(share))
                && shares.iter().sum::<f64>() <= 100.5
        };
        if !(1..=1 << 40).contains(&p.reads) || !(1..=1 << 40).contains(&p.writes) {
            return refuse("published.reads or writes", "1 to 2^40");
        }
        if !shares(&p.size_percent) || !shares(&p.depth_percent) || p.depth_percent[0] <= 0.0 {
            return refuse("published.size_percent or depth_percent", "shares, together up to 100");
        }
        if !(1.0..100.0).contains(&p.sequential_percent) {
            return refuse("published.sequential_percent", "1 to 99");
        }
        let c = &self.chosen;
        let small = |&bytes: &u64| bytes > 0 && bytes < 4096 && bytes % 512 == 0;
        if c.small_bytes.is_empty() || c.small_bytes.len() > 8 || !c.small_bytes.iter().all(small) {
            return refuse("chosen.small_bytes", "one to eight multiples of 512 below 4096");
        }
        let other = |&kib: &u64| kib > 0 && kib * 1024 <= BYTES_MAX && kib % 4 == 0;
        let taken = [4, 8, 16, 32, 64, 128];
        if !(2..=16).contains(&c.other_kib.len())
            || !c.other_kib.iter().all(|kib| other(kib) && !taken.contains(kib))
        {
            return refuse(
                "chosen.other_kib",
                "two to sixteen multiples of 4, none of the table's",
            );
        }
        if c.file_kib > BYTES_MAX >> 10 {
            return refuse("chosen.file_kib", "0 to 16384");
        }
        let odds = [c.sequential_if_large, c.deep_if_large, c.deep_if_write];
        let of_phases = |f: fn(&Phase) -> [f64; 4]| self.phases.iter().flat_map(f).collect();
        let more: Vec<f64> =
            of_phases(|phase| [phase.reads, phase.large, phase.sequential, phase.deep]);
        if !odds.iter().chain(&more).all(|odds| (1e-3..=1e3).contains(odds)) {
            return refuse("odds", "0.001 to 1000");
        }
        let times = [c.recorded_us, c.gap_us, c.pause_ms];
        if !times.iter().all(|time| (0.0..=1e6).contains(time)) || c.spacing_ns > 1_000_000 {
            return refuse("chosen times", "0 to a million");
        }
        if !(1.0..=1e6).contains(&c.recorded_mb_per_s) {
            return refuse("chosen.recorded_mb_per_s", "1 to a million");
        }
        let percents = [c.alike_percent, c.seek_percent, c.system_percent, c.old_percent];
        if !percents.iter().all(|percent| (0.0..=100.0).contains(percent)) {
            return refuse("chosen percentages", "0 to 100");
        }
        if self.phases.is_empty() || self.phases.len() > 16 {
            return refuse("phases", "1 to 16");
        }
        let sane = |phase: &Phase| {
            phase.io_percent > 0.0
                && (0.01..=1e5).contains(&phase.data_gb)
                && (0.001..=phase.data_gb / 2.0).contains(&phase.hot_gb)
                && (0.0..=100.0).contains(&phase.hot_percent)
                && (1..=STREAMS_MAX).contains(&phase.streams)
                && (0.0..=1e3).contains(&phase.gaps)
                && (0.0..=1e3).contains(&phase.pauses)
        };
        if !self.phases.iter().all(sane) || !(0.01..=1e5).contains(&c.system_gb) {
            return refuse("a phase's sizes, streams or percentages", "as in the others");
        }
        let sum: f64 = self.phases.iter().map(|phase| phase.io_percent).sum();
        if (sum - 100.0).abs() > 0.01 {
            return refuse("io_percent of the phases", "100 together");
        }
        Ok(())
    }
}

/// A share in percent as a part of 2^32, for [`is_drawn`].
pub(crate) fn part(percent: f64) -> u64 {
    (percent / 100.0 * 2f64.powi(32)).round() as u64
}

/// True as often as `part` says. Cost: a draw.
#[inline(always)]
pub(crate) fn is_drawn(part: u64, rng: &mut Rng) -> bool {
    rng.next_u64() >> 32 < part
}
