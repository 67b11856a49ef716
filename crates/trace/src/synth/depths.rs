//! Group sizes that reproduce the published shares of queue depth.
//!
//! I/Os arrive in groups: each group arrives when nothing is outstanding, completely before its
//! first I/O is done. The k-th I/O of a group then sees depth k, and the share of I/Os at depth k
//! is proportional to the number of groups with at least k I/Os, so the table determines the
//! groups. This requires shares that fall with the depth, which all three tables have. Within a
//! bucket the shares fall linearly, half way towards its neighbours; above 32 they fall linearly to
//! zero, as far as the mean depth requires. Left out: a constant depth, two or three I/Os at a time
//! over a long period; it becomes as many groups of two or three, which a drive sees as slightly
//! more bursty.

use drivebay_units::Rng;

use super::profile::Profile;
use crate::error::TraceError;

/// Number of group kinds: 1; 2-3; 4-32; above.
pub(crate) const POOLS: usize = 4;
/// I/Os of the largest group.
pub(crate) const GROUP_MAX: usize = 4096;
const BUCKETS: [(usize, usize); 7] = [(1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, 20), (21, 32)];
const DEEP: usize = 33;

/// The groups of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// Share of all I/Os in these groups.
    pub io_share: f64,
    /// Mean number of I/Os per group.
    pub mean: f64,
    /// Sizes, each with the cumulative share of groups in units of 2^-64.
    sizes: Vec<(u32, u64)>,
    /// Position of the next group on the scale of shares; it moves evenly over the scale.
    place: u64,
}

impl Groups {
    /// Returns the size of the next group; sizes occur in proportion to their shares, as evenly as
    /// possible.
    #[inline]
    pub(crate) fn draw(&mut self) -> u32 {
        // 2^64 over the golden ratio: the additive recurrence of lowest discrepancy.
        self.place = self.place.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let at = self.sizes.partition_point(|&(_, upto)| upto < self.place);
        self.sizes[at.min(self.sizes.len() - 1)].0
    }
}

pub(crate) fn pools(profile: &Profile, rng: &mut Rng) -> Result<[Groups; POOLS], TraceError> {
    let shares = per_depth(profile)?;
    let bounds = [1, 3, DEEP - 1, GROUP_MAX];
    let mut from = 1;
    Ok(bounds.map(|to| {
        let groups = groups(&shares, from..=to.min(shares.len()), rng.next_u64());
        from = to + 1;
        groups
    }))
}

fn groups(shares: &[f64], sizes: std::ops::RangeInclusive<usize>, place: u64) -> Groups {
    let share = |depth: usize| shares.get(depth - 1).copied().unwrap_or(0.0);
    let counts: Vec<(usize, f64)> =
        sizes.map(|size| (size, (share(size) - share(size + 1)).max(0.0))).collect();
    let total: f64 = counts.iter().map(|(_, count)| count).sum();
    let io_share: f64 = counts.iter().map(|&(size, count)| size as f64 * count).sum();
    let mut upto = 0.0;
    let table = counts.iter().filter(|(_, count)| *count > 0.0).map(|&(size, count)| {
        upto += count / total;
        // Saturates at 2^64 - 1 for the last size.
        (size as u32, (upto * 2f64.powi(64)) as u64)
    });
    let sizes: Vec<_> = table.collect();
    let mean = if total > 0.0 { io_share / total } else { 1.0 };
    let sizes = if sizes.is_empty() { vec![(1, u64::MAX)] } else { sizes };
    Groups { io_share, mean, sizes, place }
}

/// Shares of I/Os at depth 1, 2, 3 and so on; they fall, and their sum is 1.
fn per_depth(profile: &Profile) -> Result<Vec<f64>, TraceError> {
    let published = &profile.published;
    let sum: f64 = published.depth_percent.iter().sum();
    let width = |(from, to): (usize, usize)| (to - from + 1) as f64;
    let means: Vec<f64> = BUCKETS
        .iter()
        .zip(&published.depth_percent)
        .map(|(&bucket, percent)| percent / sum / width(bucket))
        .collect();
    let deep_share = published.depth_percent[7] / sum;
    if !means.is_sorted_by(|a, b| a >= b) {
        let problem =
            "depth_percent per depth must fall with the depth, as groups cannot give anything else";
        return Err(TraceError::file(&profile.name, problem, "check the table"));
    }
    let mut shares = Vec::with_capacity(GROUP_MAX);
    for (i, &bucket) in BUCKETS.iter().enumerate() {
        let before = if i == 0 { means[0] } else { means[i - 1] };
        let after = means.get(i + 1).copied().unwrap_or(0.0);
        let fall = (before - means[i]).min(means[i] - after);
        for depth in bucket.0..=bucket.1 {
            let along = (depth as f64 - (bucket.0 + bucket.1) as f64 / 2.0) / width(bucket);
            shares.push(means[i] - fall * along);
        }
    }
    if deep_share > 0.0 {
        let upto_32: f64 =
            shares.iter().zip(1..).map(|(share, depth)| share * f64::from(depth)).sum();
        let mean = match (published.depth_mean, profile.chosen.deep_mean) {
            (Some(mean), None) => (mean - upto_32) / deep_share,
            (None, Some(mean)) => mean,
            _ => {
                let problem = "one of published.depth_mean and chosen.deep_mean must be given";
                return Err(TraceError::file(&profile.name, problem, "give one of them"));
            }
        };
        deep(&mut shares, deep_share, mean).ok_or_else(|| {
            TraceError::file(&profile.name, "no groups have that mean depth", "check it")
        })?;
    }
    Ok(shares)
}

/// Adds depths from 33 on, falling linearly to zero, with this sum and mean.
fn deep(shares: &mut Vec<f64>, share: f64, mean: f64) -> Option<()> {
    // Weights n, n-1, ..., 1 have their mean (n - 1) / 3 after the first.
    let count = (3.0 * (mean - DEEP as f64) + 1.0).round();
    if !(2.0..=(GROUP_MAX - DEEP) as f64).contains(&count) {
        return None;
    }
    let unit = share / (count * (count + 1.0) / 2.0);
    let last = shares[DEEP - 2];
    (unit * count <= last).then(|| {
        shares.extend((1..=count as u32).rev().map(|weight| unit * f64::from(weight)));
    })
}

#[cfg(test)]
#[path = "../../tests/unit/synth_depths.rs"]
mod tests;
