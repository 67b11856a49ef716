//! Unit tests of `victim_policies.rs`, with its private items in reach.

use super::*;

#[test]
fn every_policy_finds_a_victim_as_long_as_any_superblock_gains() {
    let record = |sealed| Superblock { state: State::Sealed, sealed, ..Superblock::FRESH };
    let blocks: Vec<_> = (0..40).map(record).collect();
    for policy in VICTIM_POLICIES {
        for gains in 0..40 {
            let mut valid = vec![64; 40];
            valid[gains] = 63;
            let sealed = Sealed { blocks: &blocks, valid: &valid, seals: 40, pages: 64 };
            let victim = (policy.choose)(&sealed, 4, &mut Rng::new(1));
            assert!(victim.is_some(), "{}: superblock {gains} gains", policy.word);
        }
    }
}
