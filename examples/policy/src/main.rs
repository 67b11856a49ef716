//! Policies beside each other: `cargo run --release -p drivebay-policy-example`.
//!
//! With the name of one policy: only that one's steady random writes, for
//! `valgrind --tool=callgrind --toggle-collect='*small::uniform*'`.

use drivebay_drive::Spec;
use drivebay_policy_example::small::{filled, hot_and_cold, spec, uniform, write_amplification};
use drivebay_policy_example::{CostAgeTimes, Greedy, Windowed};

/// Name of a policy, and the drive with it.
type Named = (&'static str, fn() -> Spec);

const POLICIES: &[Named] = &[
    ("greedy", || spec("greedy")),
    ("greedy-by-trait", || spec("greedy").with_policy(Greedy)),
    ("fifo", || spec("fifo")),
    ("cost-benefit", || spec("cost-benefit")),
    ("windowed-16", || spec("greedy").with_policy(Windowed { window: 16 })),
    ("windowed-64", || spec("greedy").with_policy(Windowed { window: 64 })),
    ("cost-age-times", || spec("greedy").with_policy(CostAgeTimes)),
];

fn main() {
    let only = std::env::args().nth(1);
    if let Some(name) = only {
        let known = POLICIES.iter().find(|(known, _)| *known == name);
        let Some((_, drive)) = known else {
            let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
            eprintln!("error: no such policy as {name}\nhint: one of {}", names.join(", "));
            std::process::exit(2);
        };
        let outcome = uniform(&mut filled(drive()), 2.0);
        println!("{} I/Os", outcome.after.commands - outcome.before.commands);
        return;
    }
    println!("{:<16} {:>18} {:>18}", "write amplif. of", "uniform", "90 % to a tenth");
    for (name, drive) in POLICIES {
        let mut device = filled(drive());
        uniform(&mut device, 3.0);
        let even = write_amplification(&mut device, |device| drop(uniform(device, 1.0)));
        hot_and_cold(&mut device, 5.0);
        let skewed = write_amplification(&mut device, |device| hot_and_cold(device, 2.0));
        println!("{name:<16} {even:>18.3} {skewed:>18.3}");
    }
}
