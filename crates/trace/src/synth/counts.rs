//! Number of I/Os of each kind in a trace: the published totals, spread over phases and groups.
//!
//! A cell is a combination of phase, pool of groups, direction, size, and sequential or not. Odds
//! from the profile are the first guess; they are scaled in turn until all published totals hold
//! (iterative proportional fitting: Deming and Stephan, 1940), which keeps the odds ratios. Only +,
//! -, x and / are used, so every platform gets the same counts.

use super::depths::{Groups, POOLS};
use super::profile::Profile;
use crate::error::TraceError;
use crate::stats::TABLE_KIB;

/// Smallest size that counts as large.
const LARGE_BYTES: u64 = 65_536;
const ROUNDS: usize = 400;
/// Largest relative error of a total that is accepted before rounding.
const ERROR_MAX: f64 = 1e-4;

/// A kind of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub bytes: u32,
    pub write: bool,
    pub sequential: bool,
}

/// Counts per phase, pool and class.
pub(crate) struct RequestCounts {
    pub classes: Vec<Class>,
    /// `counts[phase][pool][class]`.
    pub counts: Vec<[Vec<u64>; POOLS]>,
}

/// A size, and its share of all I/Os.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    share: f64,
}

pub(crate) fn request_counts(
    profile: &Profile,
    pools: &[Groups; POOLS],
    reads: u64,
    writes: u64,
) -> Result<RequestCounts, TraceError> {
    let sizes = sizes(profile)?;
    let read_share = read_shares(profile, &sizes)?;
    let ios = (reads + writes) as f64;
    let mut classes = Vec::new();
    for write in [false, true] {
        for bytes in sizes.iter().map(|size| size.bytes as u32) {
            classes.extend([false, true].map(|sequential| Class { bytes, write, sequential }));
        }
    }
    // Totals per direction and size; the random and the sequential class of a size share one.
    let of_kind = |share: fn(f64) -> f64| {
        sizes.iter().zip(&read_share).map(move |(size, &read)| size.share * ios * share(read))
    };
    let totals = of_kind(|read| read).chain(of_kind(|read| 1.0 - read));
    let mut cells = Cells::new(profile, &classes);
    let sequential = profile.published.sequential_percent / 100.0;
    let wanted = Totals {
        class_pairs: totals.collect(),
        sequential: [ios * (1.0 - sequential), ios * sequential],
        pools: std::array::from_fn(|pool| pools[pool].io_share * ios),
        phases: profile.phases.iter().map(|phase| phase.io_percent / 100.0 * ios).collect(),
    };
    let error = cells.fit(&wanted);
    if error > ERROR_MAX {
        let problem = format!("its statistics and odds cannot be met together (error {error:.1e})");
        return Err(TraceError::file(&profile.name, problem, "use milder odds"));
    }
    let counts = cells.rounded(reads, writes);
    Ok(RequestCounts { classes, counts })
}

/// Sizes with their shares; sizes that the table leaves out make up the remaining share and the
/// printed volume.
fn sizes(profile: &Profile) -> Result<Vec<Size>, TraceError> {
    let (published, chosen) = (&profile.published, &profile.chosen);
    let mut sizes: Vec<Size> = Vec::new();
    let small = published.size_percent[0] / 100.0 / chosen.small_bytes.len() as f64;
    sizes.extend(chosen.small_bytes.iter().map(|&bytes| Size { bytes, share: small }));
    let table = TABLE_KIB.iter().zip(&published.size_percent[1..]);
    sizes.extend(table.map(|(kib, percent)| Size { bytes: kib * 1024, share: percent / 100.0 }));
    let ios = (published.reads + published.writes) as f64;
    let mean = (published.read_gib + published.written_gib) * 2f64.powi(30) / ios;
    let known: f64 = sizes.iter().map(|size| size.share).sum();
    let other = 1.0 - known;
    let bytes: f64 = sizes.iter().map(|size| size.share * size.bytes as f64).sum();
    let other_mean = (mean - bytes) / other;
    // Mix of weights that fall with the size and weights that grow with it, so that the mean is
    // met.
    let normalized = |weight: fn(f64) -> f64| {
        let weights: Vec<f64> =
            chosen.other_kib.iter().map(|&kib| weight(kib as f64 * 1024.0)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect::<Vec<_>>()
    };
    let (falling, growing) = (normalized(|bytes| 1.0 / bytes), normalized(|bytes| bytes));
    let mean_of = |weights: &[f64]| -> f64 {
        weights.iter().zip(&chosen.other_kib).map(|(w, &kib)| w * kib as f64 * 1024.0).sum()
    };
    let (low, high) = (mean_of(&falling), mean_of(&growing));
    let mix = (other_mean - low) / (high - low);
    if !(0.0..=1.0).contains(&mix) {
        let problem = format!(
            "the sizes outside the table must have a mean normalized {other_mean:.0} bytes for the \
             printed volume; other_kib allows {low:.0} to {high:.0}"
        );
        return Err(TraceError::file(&profile.name, problem, "change chosen.other_kib"));
    }
    for (i, &kib) in chosen.other_kib.iter().enumerate() {
        let weight = falling[i] * (1.0 - mix) + growing[i] * mix;
        sizes.push(Size { bytes: kib * 1024, share: other * weight });
    }
    Ok(sizes)
}

/// Share of reads for each size: 1 / (1 + a (1 + b s^2)), s in units of 64 KiB, with a and b such
/// that number and volume of the reads are as published. If reads are larger than writes, reads and
/// writes are exchanged.
fn read_shares(profile: &Profile, sizes: &[Size]) -> Result<Vec<f64>, TraceError> {
    let published = &profile.published;
    let (reads, writes) = (published.reads as f64, published.writes as f64);
    let (read_mean, write_mean) = (published.read_gib / reads, published.written_gib / writes);
    let swapped = read_mean > write_mean;
    let (few, mean) = if swapped { (writes, write_mean) } else { (reads, read_mean) };
    let wanted_share = few / (reads + writes);
    let wanted_mean = mean * 2f64.powi(30);
    let share = |a: f64, b: f64, size: &Size| {
        let s = size.bytes as f64 / 65_536.0;
        1.0 / (1.0 + a * (1.0 + b * s * s))
    };
    let sums = |a: f64, b: f64| {
        sizes.iter().fold((0.0, 0.0), |(count, bytes), size| {
            let part = size.share * share(a, b, size);
            (count + part, bytes + part * size.bytes as f64)
        })
    };
    let a_of = |b: f64| bisect(1e-12, 1e12, |a| sums(a, b).0 > wanted_share);
    let mean_at = |b: f64| {
        let (count, bytes) = sums(a_of(b), b);
        bytes / count
    };
    let b = bisect(1e-9, 1e9, |b| mean_at(b) > wanted_mean);
    if (mean_at(b) / wanted_mean - 1.0).abs() > 1e-6 {
        let problem = "the printed volumes of reads and writes cannot be met with these sizes";
        return Err(TraceError::file(&profile.name, problem, "check published.read_gib"));
    }
    let a = a_of(b);
    let shares = sizes.iter().map(|size| share(a, b, size));
    Ok(shares.map(|share| if swapped { 1.0 - share } else { share }).collect())
}

/// Point where `below` changes from true to false, found by geometric bisection.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}

struct Totals {
    class_pairs: Vec<f64>,
    sequential: [f64; 2],
    pools: [f64; POOLS],
    phases: Vec<f64>,
}

/// `values[(phase * POOLS + pool) * classes + class]`.
struct Cells {
    values: Vec<f64>,
    phases: usize,
    classes: usize,
}

impl Cells {
    fn new(profile: &Profile, classes: &[Class]) -> Cells {
        let chosen = &profile.chosen;
        let mut values = Vec::new();
        for phase in &profile.phases {
            for pool in 0..POOLS {
                for class in classes {
                    let large = u64::from(class.bytes) >= LARGE_BYTES;
                    let deep = pool >= 2;
                    let odds = [
                        (!class.write, phase.reads),
                        (large, phase.large),
                        (class.sequential, phase.sequential),
                        (deep, phase.deep),
                        (class.sequential && large, chosen.sequential_if_large),
                        (deep && large, chosen.deep_if_large),
                        (deep && class.write, chosen.deep_if_write),
                    ];
                    values.push(odds.iter().filter(|(is, _)| *is).map(|(_, odds)| odds).product());
                }
            }
        }
        Cells { values, phases: profile.phases.len(), classes: classes.len() }
    }

    /// Scales to each set of totals in turn; returns the largest remaining error.
    fn fit(&mut self, wanted: &Totals) -> f64 {
        let classes = self.classes;
        let mut error = 0.0f64;
        for _ in 0..ROUNDS {
            error = [
                self.scale(&wanted.phases, |i| i / (classes * POOLS)),
                self.scale(&wanted.sequential, |i| i % 2),
                self.scale(&wanted.pools, |i| i / classes % POOLS),
                self.scale(&wanted.class_pairs, |i| i % classes / 2),
            ]
            .into_iter()
            .fold(0.0, f64::max);
            if error < ERROR_MAX / 100.0 {
                break;
            }
        }
        error
    }

    fn scale(&mut self, wanted: &[f64], key: impl Fn(usize) -> usize) -> f64 {
        let mut sums = vec![0.0; wanted.len()];
        for (i, value) in self.values.iter().enumerate() {
            sums[key(i)] += value;
        }
        let factors: Vec<f64> = sums
            .iter()
            .zip(wanted)
            .map(|(&sum, &wanted)| if sum > 0.0 { wanted / sum } else { 1.0 })
            .collect();
        for (i, value) in self.values.iter_mut().enumerate() {
            *value *= factors[key(i)];
        }
        factors
            .iter()
            .map(|factor| if *factor > 0.0 { (factor - 1.0).abs() } else { 0.0 })
            .fold(0.0, f64::max)
    }

    /// Rounds to whole numbers. Errors are carried from cell to cell, so that each run of cells of
    /// one class, then of one size, keeps its sum, and reads and writes are exact.
    fn rounded(&self, reads: u64, writes: u64) -> Vec<[Vec<u64>; POOLS]> {
        let empty = || std::array::from_fn(|_| vec![0; self.classes]);
        let mut counts: Vec<[Vec<u64>; POOLS]> = (0..self.phases).map(|_| empty()).collect();
        let half = self.classes / 2;
        for (range, total) in [(0..half, reads), (half..self.classes, writes)] {
            let (mut exact, mut given) = (0.0f64, 0u64);
            let mut largest = (0.0, 0, 0, 0);
            for class in range {
                for place in 0..self.phases * POOLS {
                    let (phase, pool) = (place / POOLS, place % POOLS);
                    let value = self.values[place * self.classes + class];
                    exact += value;
                    let upto = (exact + 0.5) as u64;
                    counts[phase][pool][class] = upto - given;
                    given = upto;
                    if value > largest.0 {
                        largest = (value, phase, pool, class);
                    }
                }
            }
            // Any rest from floating point goes to the fullest cell.
            let (_, phase, pool, class) = largest;
            let cell = &mut counts[phase][pool][class];
            *cell = (*cell + total).saturating_sub(given);
        }
        counts
    }
}
