//! Random writes on a filled catalog drive, a line per interval: `pacing NAME [key=value ...] [+variant] [secs=N] [span=75] [kib=4] [every=60]`.
use drivebay_drive::{Device, Spec, whole_profile};
use drivebay_run::{Control, Pattern, Stop, Workload, run};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let name = &words[0];
    let get = |key: &str, or: f64| {
        words
            .iter()
            .find_map(|w| w.strip_prefix(&format!("{key}=")).map(|v| v.parse().unwrap()))
            .unwrap_or(or)
    };
    fn whole(folder: &str, name: &str) -> toml::Table {
        let text = std::fs::read_to_string(format!("{folder}/{name}.toml")).unwrap();
        let own: toml::Table = text.parse().unwrap();
        let named = |key| own.get(key).and_then(toml::Value::as_str);
        let under = match (named("base"), named("host")) {
            (Some(base), _) => whole(folder, base),
            (None, Some(host)) => whole("hosts", host),
            (None, None) => return own,
        };
        whole_profile(&under.to_string(), &text).unwrap()
    }
    let mut table = whole("drives", name);
    fn set(table: &mut toml::Table, name: &str, value: toml::Value) {
        let (path, key) = name.rsplit_once('.').unwrap();
        let mut t = table;
        for part in path.split('.') {
            t = t.entry(part).or_insert_with(|| toml::Table::new().into()).as_table_mut().unwrap();
        }
        let mut leaf = toml::Table::new();
        leaf.insert("value".into(), value);
        leaf.insert("source".into(), "guess: set".into());
        t.insert(key.into(), leaf.into());
    }
    let variants = table.remove("variants");
    for w in &words {
        if let Some(v) = w.strip_prefix('+') {
            for (k, leaf) in variants.as_ref().unwrap()[v].as_table().unwrap() {
                if k != "title" {
                    set(&mut table, k, leaf["value"].clone());
                }
            }
        }
        if let Some((k, v)) = w.split_once('=')
            && k.contains('.')
        {
            let parsed: toml::Table = format!("v = {v}")
                .parse()
                .unwrap_or_else(|_| format!("v = \"{v}\"").parse().unwrap());
            set(&mut table, k, parsed["v"].clone());
        }
    }
    let scale = get("scale", 1.0);
    if scale > 1.0 {
        let c = table["drive"]["capacity_sectors"]["value"].as_integer().unwrap();
        set(&mut table, "drive.capacity_sectors", ((c as f64 / scale) as i64 / 256 * 256).into());
        let d = table["nand"]["pages_per_block"]["value"].as_integer().unwrap();
        set(&mut table, "nand.pages_per_block", (d / scale as i64).into());
        let num = |v: &toml::Value| v.as_float().unwrap_or_else(|| v.as_integer().unwrap() as f64);
        let e = num(&table["nand"]["erase_us"]["value"]) / scale;
        set(&mut table, "nand.erase_us", e.into());
        for k in ["threshold_mb", "target_mb"] {
            let v = num(&table["gc"][k]["value"]) / scale;
            set(&mut table, &format!("gc.{k}"), v.into());
        }
        if table["gc"].get("idle").is_some() {
            let v = num(&table["gc"]["idle"]["free_mb"]["value"]) / scale;
            set(&mut table, "gc.idle.free_mb", v.into());
        }
        if table["gc"].get("foreground").is_some() {
            let v = num(&table["gc"]["foreground"]["start_mb"]["value"]) / scale;
            let w = num(&table["gc"]["foreground"]["stop_mb"]["value"])
                - num(&table["gc"]["foreground"]["start_mb"]["value"])
                + v;
            set(&mut table, "gc.foreground.start_mb", v.into());
            set(&mut table, "gc.foreground.stop_mb", w.into());
        }
    }
    let spec = Spec::from_toml(&table.to_string()).unwrap_or_else(|e| panic!("{e}"));
    let g = spec.geometry;
    let user = spec.capacity_bytes();
    let span = (user as f64 * get("span", 100.0) / 100.0) as u64 / 131072 * 131072;
    let mut device = Device::new(spec, get("seed", 1.0) as u64).expect("memory");
    let mut seed = 0;
    let mut go = |pattern, block: u64, span: u64, stop, read_percent| {
        let load = Workload {
            pattern,
            read_percent,
            block_bytes: block,
            block_bytes_max: None,
            compressible_percent: 0,
            queue_depth: get("qd", 32.0) as u32,
            offsets: Default::default(),
            streams: Default::default(),
            queues: 1,
            arbitration: Default::default(),
            span_start_bytes: 0,
            span_bytes: span,
            stop,
        };
        seed += 1;
        let out = run(&mut device, &load, seed, &Control::default()).expect("a possible load");
        let (a, b) = (out.before, out.after);
        if block == 131072 && seed == 1 {
            device.idle_until(device.now().after(drivebay_units::Nanos::secs(1800)));
        }
        (
            out.recorder.rows.iter().map(|s| s.reads + s.writes).collect::<Vec<_>>(),
            a,
            b,
            device.ftl().free_pages(),
            device.now(),
        )
    };
    let fill = go(
        Pattern::Sequential,
        131072,
        user / 131072 * 131072,
        Stop { duration_s: None, bytes: Some(user / 131072 * 131072), stable: None },
        0,
    );
    println!(
        "{name}: filled at {:.1} s, superblock {} pages, spare {} MB",
        fill.4.0 as f64 / 1e9,
        g.superblock_pages,
        (g.usable_pages() - u64::from(g.user_pages)) * 4096 / 1_000_000
    );
    let every = get("every", 60.0);
    let mut left = get("secs", 3600.0);
    let start = std::time::Instant::now();
    let mut total = 0;
    let mut series = Vec::new();
    let t0 = fill.4;
    while left > 0.0 {
        let (s, a, b, free, now) = go(
            Pattern::Random,
            (get("kib", 4.0) * 1024.0) as u64,
            span,
            Stop { duration_s: Some(every), bytes: None, stable: None },
            get("reads", 0.0) as u32,
        );
        left -= every;
        total += b.commands - a.commands;
        let h = (b.host_pages - a.host_pages).max(1);
        println!(
            "{:6.0} s {:9.0} IOPS  A {:6.2}  free {:6} MB  {:4.1} C stage {}",
            now.since(t0).0 as f64 / 1e9,
            (b.commands - a.commands) as f64 / every,
            (b.placed_pages - a.placed_pages) as f64 / h as f64,
            free * 4096 / 1_000_000,
            b.temperature_c,
            b.throttle_stage
        );
        series.extend(s);
    }
    println!(
        "{:.1} s real, {:.2} M IO/s",
        start.elapsed().as_secs_f64(),
        total as f64 / start.elapsed().as_secs_f64() / 1e6
    );
    if words.iter().any(|w| w == "series") {
        println!("{series:?}");
    }
    let tail: Vec<f64> = series.iter().rev().take(400).map(|&x| x as f64).collect();
    let m = tail.iter().sum::<f64>() / tail.len() as f64;
    let sd = (tail.iter().map(|x| (x - m).powi(2)).sum::<f64>() / tail.len() as f64).sqrt();
    println!(
        "{}",
        series.iter().rev().take(60).map(|x| x.to_string()).collect::<Vec<_>>().join(" ")
    );
    let min = tail.iter().fold(f64::MAX, |a, &b| a.min(b));
    println!("last {} s: mean {m:.0} sd {sd:.0} min {min:.0}", tail.len());
}
