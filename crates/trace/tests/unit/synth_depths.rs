//! Unit tests of `synth/depths.rs`, with its private items in reach.

use super::*;

#[test]
fn groups_give_the_table_back() {
    for name in Profile::names() {
        let profile = Profile::parse(Profile::text(name).unwrap()).unwrap();
        let pools = pools(&profile, &mut Rng::new(1)).unwrap();
        assert!((pools.iter().map(|pool| pool.io_share).sum::<f64>() - 1.0).abs() < 1e-9);
        let mut at_depth = vec![0u64; GROUP_MAX];
        for mut pool in pools {
            for _ in 0..(pool.io_share / pool.mean * 4e6) as u64 {
                at_depth[..pool.draw() as usize].iter_mut().for_each(|count| *count += 1);
            }
        }
        let total: u64 = at_depth.iter().sum();
        let buckets = BUCKETS.iter().copied().chain([(DEEP, GROUP_MAX)]);
        for ((from, to), percent) in buckets.zip(profile.published.depth_percent) {
            let got = at_depth[from - 1..to].iter().sum::<u64>() as f64 / total as f64 * 100.0;
            assert!((got - percent).abs() < 0.1, "{name} {from}-{to}: {got} for {percent}");
        }
    }
}
