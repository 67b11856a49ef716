//! Synthesizes a trace, and prints its statistics and the time that it took: `synth light 1.0`.

use std::time::Instant;

use drivebay_trace::{Profile, Stats, Synth};

fn main() {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_else(|| "light".into());
    let scale: f64 = words.next().map_or(1.0, |word| word.parse().expect("a scale"));
    let profile = || Profile::parse(Profile::text(&name).expect("a name")).expect("a profile");
    let begin = Instant::now();
    let mut synth = Synth::new(profile(), scale, 1).expect("a scale in bounds");
    let mut ios = 0;
    while let Some(block) = synth.next_block() {
        ios += block.len();
    }
    let took = begin.elapsed().as_secs_f64();
    eprintln!("{ios} requests in {took:.2} s, {:.1} ns each", took * 1e9 / ios as f64);
    let mut synth = Synth::new(profile(), scale, 1).expect("a scale in bounds");
    let mut stats = Stats::default();
    while let Some(block) = synth.next_block() {
        stats.add(block).expect("one device");
    }
    println!("{}", serde_json::to_string_pretty(&stats.info()).expect("numbers and names"));
}
