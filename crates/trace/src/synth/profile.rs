//! Profiles of synthesized traces: published statistics, and chosen values where those are silent.
//!
//! The three profiles are the TOML files in this folder; each number there has its source. A
//! changed copy can replace them, which is how `scripts/refit_traces.py` sets the free parameters.

use drivebay_units::Rng;
use serde::Deserialize;

use crate::error::TraceError;
use crate::stats::TABLE_KIB;

/// Largest request that a profile may have.
const BYTES_MAX: u64 = 16 << 20;
/// Most sequential streams of one kind: so many stay among the last [`crate::STREAMS`].
pub(crate) const STREAMS_MAX: usize = 8;

/// A profile as read from its file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name on the command line.
    pub name: String,
    /// Title for readers.
    pub title: String,
    /// Statistics of the trace as they were published.
    pub published: Published,
    /// Chosen values for the whole trace.
    pub chosen: Chosen,
    /// Phases in order.
    pub phases: Vec<Phase>,
}

/// Published statistics, in the units of their tables.
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
    /// Mean depth, if the printed value is possible.
    pub depth_mean: Option<f64>,
    /// Sequential I/Os in percent.
    pub sequential_percent: f64,
    /// Longest idle interval.
    pub idle_ms_max: u64,
}

/// Values that the statistics leave open.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// Mean depth above 32, if no mean was published.
    pub deep_mean: Option<f64>,
    /// Sizes below 4 KiB in bytes, with equal shares.
    pub small_bytes: Vec<u64>,
    /// Sizes outside the table, KiB.
    pub other_kib: Vec<u64>,
    /// Odds of being sequential, from 64 KiB on, relative to smaller ones.
    pub sequential_if_large: f64,
    /// Odds of being in deep groups, from 64 KiB on, relative to smaller ones.
    pub deep_if_large: f64,
    /// Odds of being in deep groups, for writes relative to reads.
    pub deep_if_write: f64,
    /// Share of a group's I/Os that are like the previous one, percent.
    pub alike_percent: f64,
    /// Share of random I/Os that a sequential stream continues, percent.
    pub seek_percent: f64,
    /// Size of the system's files, which all phases use; half of them are only read.
    pub system_gb: f64,
    /// Share of random I/Os that go to the system's files, percent.
    pub system_percent: f64,
    /// Share of random reads that go to files which the trace does not write, percent.
    pub old_percent: f64,
    /// Size from which writes that continue no other begin a file, KiB; smaller ones change files
    /// in place.
    pub file_kib: u64,
    /// Time between the arrivals of a group, nanoseconds.
    pub spacing_ns: u64,
    /// Fixed time per I/O of the recorded drive.
    pub recorded_us: f64,
    /// Data rate of the recorded drive.
    pub recorded_mb_per_s: f64,
    /// Mean time from a group's end to the next group without a pause, microseconds.
    pub gap_us: f64,
    /// Groups followed by a pause, per 10,000.
    pub pauses_per_10000: u64,
    /// Mean length of a pause before it is cut, milliseconds.
    pub pause_ms: f64,
}

/// A period with one kind of activity. Factors are odds relative to the whole trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Activity that the phase stands for.
    pub name: String,
    /// Reason for the phase's numbers.
    pub why: String,
    /// Share of all I/Os, percent.
    pub io_percent: f64,
    /// Odds of reads.
    #[serde(default = "neutral_odds")]
    pub reads: f64,
    /// Odds of I/Os from 64 KiB on.
    #[serde(default = "neutral_odds")]
    pub large: f64,
    /// Odds of sequential I/Os.
    #[serde(default = "neutral_odds")]
    pub sequential: f64,
    /// Odds of groups of four and more.
    #[serde(default = "neutral_odds")]
    pub deep: f64,
    /// Size of its own data; half of it is old files, which are only read.
    pub data_gb: f64,
    /// Size of the hot part.
    pub hot_gb: f64,
    /// Share of its random I/Os that go to the hot part, percent.
    pub hot_percent: f64,
    /// Parallel sequential streams of each kind.
    pub streams: usize,
    /// True if its own data are images and databases, where large writes are also in place.
    #[serde(default)]
    pub in_place: bool,
    /// Length of gaps, relative to the whole trace.
    #[serde(default = "neutral_odds")]
    pub gaps: f64,
    /// Number of pauses, relative to the whole trace.
    #[serde(default = "neutral_odds")]
    pub pauses: f64,
}

fn neutral_odds() -> f64 {
    1.0
}

const FILES: [(&str, &str); 3] = [
    ("destroyer", include_str!("destroyer.toml")),
    ("heavy", include_str!("heavy.toml")),
    ("light", include_str!("light.toml")),
];

impl Profile {
    /// Names of the built-in profiles.
    #[must_use]
    pub fn names() -> [&'static str; FILES.len()] {
        FILES.map(|(name, _)| name)
    }

    /// Returns the text of a built-in profile.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn text(name: &str) -> Result<&'static str, TraceError> {
        let text = FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        text.ok_or_else(|| {
            let problem = format!("'{name}' is unknown; must be {}", Profile::names().join(", "));
            TraceError::file("trace", problem, "drivebay trace synth light --out light.csv")
        })
    }

    /// Parses and checks a profile.
    ///
    /// # Errors
    /// The first problem of the profile.
    pub fn parse(text: &str) -> Result<Profile, TraceError> {
        let profile: Profile = toml::from_str(text).map_err(|error| {
            let problem = error.to_string().replace('\n', " ");
            let hint = "compare it with crates/trace/src/synth/light.toml";
            TraceError::file("profile", problem, hint)
        })?;
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), TraceError> {
        let rules = self.published_rules().into_iter().chain(self.chosen_rules());
        let broken = rules.chain(self.phase_rules()).find(|(.., holds)| !holds);
        let Some((field, allowed, _)) = broken else { return Ok(()) };
        let problem = format!("{field} is not allowed; must be {allowed}");
        let place = format!("profile {}", self.name);
        Err(TraceError::file(&place, problem, "change it in the profile"))
    }

    fn published_rules(&self) -> [Rule; 3] {
        let p = &self.published;
        let counts = [p.reads, p.writes].iter().all(|count| (1..=1 << 40).contains(count));
        let are_shares = |shares: &[f64]| {
            shares.iter().all(|share| (0.0..=100.0).contains(share))
                && shares.iter().sum::<f64>() <= 100.5
        };
        let shares = are_shares(&p.size_percent) && are_shares(&p.depth_percent);
        let sequential = (1.0..100.0).contains(&p.sequential_percent);
        [
            ("published.reads or writes", "1 to 2^40", counts),
            (
                "published.size_percent or depth_percent",
                "shares, together up to 100",
                shares && p.depth_percent[0] > 0.0,
            ),
            ("published.sequential_percent", "1 to 99", sequential),
        ]
    }

    fn chosen_rules(&self) -> [Rule; 8] {
        let c = &self.chosen;
        let is_small = |&bytes: &u64| bytes > 0 && bytes < 4096 && bytes % 512 == 0;
        let small = (1..=8).contains(&c.small_bytes.len()) && c.small_bytes.iter().all(is_small);
        let is_other = |kib: &u64| {
            *kib > 0 && kib * 1024 <= BYTES_MAX && kib.is_multiple_of(4) && !TABLE_KIB.contains(kib)
        };
        let other = (2..=16).contains(&c.other_kib.len()) && c.other_kib.iter().all(is_other);
        let odds = [c.sequential_if_large, c.deep_if_large, c.deep_if_write];
        let times = [c.recorded_us, c.gap_us, c.pause_ms];
        let times = times.iter().all(|time| (0.0..=1e6).contains(time));
        let percents = [c.alike_percent, c.seek_percent, c.system_percent, c.old_percent];
        let percents = percents.iter().all(|percent| (0.0..=100.0).contains(percent));
        let speed = (1.0..=1e6).contains(&c.recorded_mb_per_s);
        [
            ("chosen.small_bytes", "one to eight multiples of 512 below 4096", small),
            ("chosen.other_kib", "two to sixteen multiples of 4 that are not in the table", other),
            ("chosen.file_kib", "0 to 16384", c.file_kib <= BYTES_MAX >> 10),
            ("odds", ODDS, odds.iter().all(are_odds)),
            ("chosen times", "0 to a million", times && c.spacing_ns <= 1_000_000),
            ("chosen.recorded_mb_per_s", "1 to a million", speed),
            ("chosen percentages", "0 to 100", percents),
            ("chosen.system_gb", "0.01 to 100000", (0.01..=1e5).contains(&c.system_gb)),
        ]
    }

    fn phase_rules(&self) -> [Rule; 4] {
        let odds = |phase: &Phase| {
            [phase.reads, phase.large, phase.sequential, phase.deep].iter().all(are_odds)
        };
        let sane = |phase: &Phase| {
            phase.io_percent > 0.0
                && (0.01..=1e5).contains(&phase.data_gb)
                && (0.001..=phase.data_gb / 2.0).contains(&phase.hot_gb)
                && (0.0..=100.0).contains(&phase.hot_percent)
                && (1..=STREAMS_MAX).contains(&phase.streams)
                && (0.0..=1e3).contains(&phase.gaps)
                && (0.0..=1e3).contains(&phase.pauses)
        };
        let sum: f64 = self.phases.iter().map(|phase| phase.io_percent).sum();
        [
            ("phases", "1 to 16", (1..=16).contains(&self.phases.len())),
            ("odds", ODDS, self.phases.iter().all(odds)),
            (
                "a phase's sizes, streams or percentages",
                "like those of the other phases",
                self.phases.iter().all(sane),
            ),
            ("io_percent of the phases", "100 in total", (sum - 100.0).abs() <= 0.01),
        ]
    }
}

/// A field or fields, the allowed values, and whether the profile has one of them.
type Rule = (&'static str, &'static str, bool);

const ODDS: &str = "0.001 to 1000";

fn are_odds(odds: &f64) -> bool {
    (1e-3..=1e3).contains(odds)
}

/// Converts a share in percent to units of 2^-32, for [`is_drawn`].
pub(crate) fn part(percent: f64) -> u64 {
    (percent / 100.0 * 2f64.powi(32)).round() as u64
}

/// Returns true with probability `part`, in units of 2^-32. Cost: one draw.
#[inline(always)]
pub(crate) fn is_drawn(part: u64, rng: &mut Rng) -> bool {
    rng.next_u64() >> 32 < part
}
