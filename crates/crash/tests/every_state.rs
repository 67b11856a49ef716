//! Tests that exactly the states of a naive interpretation of the rules are enumerated.

use std::collections::BTreeSet;

use drivebay_crash::Rules;
use proptest::prelude::*;
use tempfile::tempdir;

use crate::support::{Step, bytes_of, flush, record, rules, states, write};

const PAGES: u64 = 4;
type Seen = BTreeSet<(Option<String>, Vec<u8>)>;

/// A part of a command: its sectors and fill byte, and whether it is durable.
struct Part {
    sectors: std::ops::Range<u64>,
    fill: u8,
    command: usize,
    durable: bool,
}

/// Computes the allowed states by brute force: at each event, each subset of the volatile parts.
fn naive(steps: &[Step], rules: &Rules) -> Seen {
    let mut seen = Seen::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut mark = None;
    let mut waiting: Vec<usize> = Vec::new();
    // Commands in order of completion, and for each flush those completed when it was submitted.
    let mut completed: Vec<usize> = Vec::new();
    let mut covers: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (number, step) in steps.iter().enumerate() {
        let mut add = |from: u64, until: u64, fill| {
            if from < until {
                parts.push(Part { sectors: from..until, fill, command: number, durable: false });
            }
        };
        match step {
            &Step::Write { lba, sectors, fill, .. } => {
                let mut at = lba;
                while at < lba + sectors {
                    let until = ((at / 8 + 1) * 8).min(lba + sectors);
                    add(at, until, fill);
                    at = until;
                }
                waiting.push(number);
            }
            &Step::Discard { lba, sectors } => {
                let middle = ((2 * lba + sectors) / 2 / 8 * 8).clamp(lba, lba + sectors);
                add(lba, middle, 0);
                add(middle, lba + sectors, 0);
                waiting.push(number);
            }
            Step::Flush => {
                covers[number].clone_from(&completed);
                waiting.push(number);
            }
            &Step::Complete(which) if which < waiting.len() => {
                let command = waiting.remove(which);
                let safe = match steps[command] {
                    Step::Flush if rules.ignores_flush => vec![],
                    Step::Flush => covers[command].clone(),
                    Step::Write { fua: true, .. } if !rules.ignores_flush => vec![command],
                    _ if rules.protected => vec![command],
                    _ => vec![],
                };
                completed.push(command);
                for part in parts.iter_mut().filter(|part| safe.contains(&part.command)) {
                    part.durable = true;
                }
            }
            Step::Complete(_) => continue,
            Step::Mark(text) => mark = Some(text.clone()),
        }
        let volatile: Vec<usize> = (0..parts.len()).filter(|&n| !parts[n].durable).collect();
        for subset in 0..1u32 << volatile.len() {
            let is_present = |n: usize| {
                let place = volatile.iter().position(|&index| index == n);
                place.is_none_or(|place| subset >> place & 1 == 1)
            };
            let mut bytes = vec![0; 4096 * PAGES as usize];
            for part in (0..parts.len()).filter(|&n| is_present(n)).map(|n| &parts[n]) {
                let range = part.sectors.start as usize * 512..part.sectors.end as usize * 512;
                bytes[range].fill(part.fill);
            }
            seen.insert((mark.clone(), bytes));
        }
    }
    seen
}

fn step() -> impl Strategy<Value = Step> {
    let range = (0..PAGES * 8, 1..=12u64).prop_map(|(lba, n)| (lba, n.min(PAGES * 8 - lba)));
    let page = (0..PAGES).prop_map(|page| (page * 8, 8));
    let sectors = prop_oneof![1 => range, 3 => page];
    prop_oneof![
        4 => (sectors.clone(), 1..4u8, prop::bool::weighted(0.2)).prop_map(|((lba, sectors), fill, fua)| {
            Step::Write { lba, sectors, fill, fua }
        }),
        1 => sectors.prop_map(|(lba, sectors)| Step::Discard { lba, sectors }),
        2 => Just(Step::Flush),
        6 => (0..2usize).prop_map(Step::Complete),
        1 => Just(Step::Mark("a".into())),
        1 => Just(Step::Mark("b".into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn exactly_what_the_rules_allow_is_enumerated(
        steps in prop::collection::vec(step(), 1..14),
        protected in any::<bool>(),
        ignores_flush in any::<bool>(),
    ) {
        let folder = tempdir().expect("a folder");
        let rules = Rules { protected, ignores_flush, ..rules() };
        let path = record(&folder, PAGES * 8, &steps);
        let states = states(&path, rules);
        let (enumerated, coverage) = states.enumerate(1 << 20, 1).expect("readable");
        let shown = bytes_of(&folder, &states, &enumerated);
        let distinct: Seen = shown.iter().cloned().collect();
        prop_assert_eq!(distinct.len(), shown.len(), "equal states are merged");
        prop_assert_eq!(coverage.cuts_exhausted, coverage.cuts);
        let mut wanted = naive(&steps, &rules);
        // Without a mark or command there is no event, and so no cut.
        wanted.retain(|_| !enumerated.is_empty());
        prop_assert_eq!(distinct, wanted);
    }
}

#[test]
fn data_beyond_the_buffer_is_durable() {
    let folder = tempdir().expect("a folder");
    let steps = [write(0, 1), write(1, 1), write(2, 1), write(3, 1)].concat();
    let path = record(&folder, PAGES * 8, &steps);
    let states = states(&path, Rules { buffer_bytes: 8192, ignores_flush: true, ..rules() });
    let (enumerated, _) = states.enumerate(100, 1).expect("readable");
    let shown = bytes_of(&folder, &states, &enumerated);
    let holes = |bytes: &[u8]| (0..4).filter(|page| bytes[page * 4096] == 0).collect::<Vec<_>>();
    let gaps: BTreeSet<Vec<usize>> = shown.iter().map(|(_, bytes)| holes(bytes)).collect();
    assert!(gaps.contains(&vec![2, 3]) && gaps.contains(&vec![0, 1, 2, 3]));
    // Page 0 is durable once pages 1 and 2 have completed after it.
    assert!(!gaps.contains(&vec![0]), "{gaps:?}");
}

#[test]
fn a_sample_is_bounded_and_repeatable_and_contains_the_full_loss() {
    let folder = tempdir().expect("a folder");
    let writes = (0..PAGES).flat_map(|page| write(page, 1));
    let again = (0..40).flat_map(|n| write(n % PAGES, 2 + n as u8));
    let steps: Vec<Step> = writes.chain(flush()).chain(again).collect();
    let path = record(&folder, PAGES * 8, &steps);
    let states = states(&path, rules());
    let (sample, coverage) = states.enumerate(50, 7).expect("readable");
    assert_eq!(sample, states.enumerate(50, 7).expect("readable").0);
    assert_ne!(sample, states.enumerate(50, 8).expect("readable").0);
    assert_eq!((sample.len(), coverage.states), (50, 50));
    // Two cuts: 2^4 choices before the flush, and 11 versions of each of four pages after it.
    assert!((coverage.choices_log2 - (16f64 + 11f64.powi(4)).log2()).abs() < 1e-9);
    let shown = bytes_of(&folder, &states, &sample);
    assert!(shown.iter().any(|(_, bytes)| bytes[..16384].iter().all(|&byte| byte == 1)));
}
