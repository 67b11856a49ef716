//! Unit tests of `distribution.rs`, with access to its private items.

use super::*;

/// Compares with the law itself, for exponents below, at and above 1.
#[test]
fn ranks_follow_zipfs_law() {
    const COUNT: u64 = 1_000;
    const DRAWS: u64 = 400_000;
    for theta in [0.2, 0.9, 0.999_999_999, 1.0, 1.2, 3.0] {
        let zipf = Zipf::new(theta, COUNT);
        let mut rng = Rng::new(7);
        let mut counts = vec![0u64; COUNT as usize];
        for _ in 0..DRAWS {
            counts[zipf.draw(&mut rng) as usize] += 1;
        }
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-theta);
        let sum: f64 = (0..COUNT as usize).map(weight).sum();
        for range in [0..1, 1..2, 2..5, 5..20, 20..100, 100..1_000] {
            let share: f64 = range.clone().map(weight).sum::<f64>() / sum;
            let expected = share * DRAWS as f64;
            let count: u64 = counts[range.clone()].iter().sum();
            // Five standard deviations of a binomial count.
            let allowed = 5.0 * (expected * (1.0 - share)).sqrt() + 1.0;
            assert!(
                (count as f64 - expected).abs() < allowed,
                "{theta} {range:?}: {count}, not {expected}"
            );
        }
    }
}

#[test]
fn zones_get_their_shares_of_accesses_and_stay_within_their_bounds() {
    let offsets: Offsets = "zoned:80/20:0/30:20/50".parse().expect("allowed");
    let skew = Skew::new(&offsets, 1_000).expect("it is skewed");
    let mut rng = Rng::new(2);
    let mut counts = [0u32; 3];
    for _ in 0..100_000 {
        let block = skew.draw(&mut rng);
        counts[if block < 200 { 0 } else { usize::from(block >= 500) + 1 }] += 1;
        assert!(block < 1_000);
    }
    assert_eq!(counts[1], 0);
    assert!((f64::from(counts[0]) / 1e5 - 0.8).abs() < 0.006, "{counts:?}");
}

#[test]
fn scattered_zones_get_their_shares_and_cover_the_span() {
    let offsets: Offsets = "zoned-scattered:0/60:100/40".parse().expect("allowed");
    let skew = Skew::new(&offsets, 1_000).expect("it is skewed");
    let mut rng = Rng::new(2);
    let mut drawn = [0u32; 1_000];
    for _ in 0..100_000 {
        drawn[skew.draw(&mut rng) as usize] += 1;
    }
    assert_eq!(drawn.iter().filter(|&&times| times > 0).count(), 400);
    for tenth in drawn.chunks(100) {
        let used = tenth.iter().filter(|&&times| times > 0).count();
        assert!((20..=60).contains(&used), "40 of each hundred blocks, not {used}");
    }
}

#[test]
fn invalid_distributions_are_refused_with_the_allowed_form() {
    for text in [
        "zipf",
        "zipf:0",
        "zipf:nan",
        "zipf:6",
        "zipf:1/0",
        "zipf:1/4097",
        "zipf:1/",
        "zoned:",
        "zoned:50/50",
        "zoned:100/0:0/100",
        "zoned:60/50:60/50",
        "zoned:-1/50:101/50",
        "open-zones:",
        "open-zones:0/4",
        "open-zones:4/4",
        "open-zones:1/65537",
        "pareto:0.2",
        "uniform:1",
        "uniform:",
        "sprandom:0",
        "",
    ] {
        let refused = text.parse::<Offsets>().expect_err(text);
        assert!(refused.starts_with(&format!("'{text}' is not allowed; must be ")), "{refused}");
    }
    for text in [
        "uniform",
        "permutation",
        "permutation-repeated",
        "zipf:0.9",
        "zipf:1/64",
        "zoned:80/20:20/80",
        "zoned-scattered:0/60:100/40",
        "open-zones:4/93",
        "sprandom:7.5",
    ] {
        let offsets: Offsets = text.parse().expect(text);
        assert_eq!(offsets.to_string(), text);
    }
    assert_eq!("zipf:1.2".parse(), Ok(Offsets::Zipf { theta: 1.2, ranks: 1 }));
    assert_eq!("zipf:1/64".parse(), Ok(Offsets::Zipf { theta: 1.0, ranks: 64 }));
}

/// The most popular hundredth of the blocks gets the same share as the most popular hundredth of 64
/// times as many blocks: 0.70 by the law for a million blocks, compared with 0.57 for a 64th of
/// them with one rank each.
#[test]
fn a_block_with_several_ranks_is_as_popular_as_their_sum() {
    const BLOCKS: u64 = 15_625;
    const DRAWS: u64 = 400_000;
    let harmonic = |n: u64| (1..=n).map(|k| 1.0 / k as f64).sum::<f64>();
    for ranks in [1, 64] {
        let offsets: Offsets = format!("zipf:1/{ranks}").parse().expect("allowed");
        let skew = Skew::new(&offsets, BLOCKS).expect("it is skewed");
        let mut rng = Rng::new(2);
        let mut counts = vec![0u64; BLOCKS as usize];
        for _ in 0..DRAWS {
            counts[skew.draw(&mut rng) as usize] += 1;
        }
        counts.sort_unstable_by_key(|&count| u64::MAX - count);
        let top: u64 = counts[..BLOCKS as usize / 100].iter().sum();
        let expected = harmonic(BLOCKS / 100 * ranks) / harmonic(BLOCKS * ranks);
        let share = top as f64 / DRAWS as f64;
        assert!((share - expected).abs() < 0.005, "{ranks}: {share}, not {expected}");
    }
}
