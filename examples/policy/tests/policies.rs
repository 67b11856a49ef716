//! What a policy from outside must be: the core's own where it is the same rule, and repeatable.

use drivebay_drive::{Choice, Counters, Spec, VictimPolicy};
use drivebay_policy_example::small::{filled, spec, uniform};
use drivebay_policy_example::{CostAgeTimes, Greedy, Windowed};

fn counters(spec: Spec) -> Counters {
    let mut device = filled(spec);
    uniform(&mut device, 0.6);
    device.counters()
}

#[test]
fn a_rule_of_the_core_written_outside_gives_the_same_drive() {
    let greedy = counters(spec("greedy"));
    assert!(greedy.copied_pages > 100_000, "garbage collection has been at work");
    assert_eq!(counters(spec("fifo").with_policy(Greedy)), greedy);
    assert_eq!(counters(spec("fifo").with_policy(Windowed { window: usize::MAX })), greedy);
    let fifo = counters(spec("fifo"));
    assert_eq!(counters(spec("greedy").with_policy(Windowed { window: 1 })), fifo);
    assert_ne!(greedy, fifo);
}

#[test]
fn a_copied_drive_goes_on_with_the_same_policy() {
    let mut drive = filled(spec("greedy").with_policy(CostAgeTimes));
    let mut copy = drive.duplicate().expect("memory");
    uniform(&mut drive, 0.3);
    uniform(&mut copy, 0.3);
    assert_eq!(drive.counters(), copy.counters());
    assert_ne!(counters(spec("greedy").with_policy(CostAgeTimes)), counters(spec("greedy")));
}

/// Chooses what is not to be had.
#[derive(Debug)]
struct Wrong;

impl VictimPolicy for Wrong {
    fn choose(&self, _: Choice<'_>) -> Option<u32> {
        Some(u32::MAX)
    }
}

#[test]
#[should_panic(expected = "Wrong chose Some(4294967295), which is not among the candidates")]
fn a_wrong_choice_is_called_by_its_name() {
    counters(spec("greedy").with_policy(Wrong));
}
