//! A log-linear histogram: exact counts in bins at most 1.6 % wide.
//!
//! As in fio and HdrHistogram, values under 64 have bins of their own, and every octave above has
//! 64 equal bins, so a bin's width is at most 1/64 of its lower edge. Histograms merge by adding
//! counts.

const SUB_BITS: u32 = 6;
const SUB_BINS: usize = 1 << SUB_BITS;
const BINS: usize = (64 - SUB_BITS as usize + 1) * SUB_BINS;

/// Counts of values in nanoseconds.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
}

/// A bin with a count above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Lowest value of the bin.
    pub low: u64,
    /// Lowest value above the bin; `u64::MAX` for the last bin.
    pub high: u64,
    /// Number of values in the bin.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BINS].into_boxed_slice() }
    }
}

impl Histogram {
    /// Counts a value. Cost: 1 increment.
    #[inline(always)]
    pub fn record(&mut self, value: u64) {
        self.counts[index(value)] += 1;
    }

    /// Returns all bins with a count, in ascending order.
    pub fn bins(&self) -> impl Iterator<Item = Bin> + '_ {
        self.counts.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(i, &count)| Bin {
            low: edge(i),
            high: if i + 1 == BINS { u64::MAX } else { edge(i + 1) },
            count,
        })
    }
}

#[inline(always)]
fn index(value: u64) -> usize {
    if value < SUB_BINS as u64 {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() - SUB_BITS;
    ((octave as usize + 1) << SUB_BITS) + ((value >> octave) as usize & (SUB_BINS - 1))
}

fn edge(index: usize) -> u64 {
    if index < SUB_BINS {
        return index as u64;
    }
    let octave = (index >> SUB_BITS) - 1;
    ((SUB_BINS + (index & (SUB_BINS - 1))) as u64) << octave
}

#[cfg(test)]
#[path = "../tests/unit/histogram.rs"]
mod tests;
