//! atomicwrites: a file that was replaced has the new content, and each file is whole.
use std::io::Write;

use atomicwrites::{AllowOverwrite, AtomicFile};

fn main() {
    if std::env::args().nth(1).as_deref() == Some("work") {
        for n in 1..=10 {
            for name in [format!("./file-{n}"), "./current".to_string()] {
                AtomicFile::new(name.as_str(), AllowOverwrite)
                    .write(|file| file.write_all(format!("{n}\n").repeat(1500).as_bytes()))
                    .unwrap();
            }
            println!("mark {n}");
            std::io::stdout().flush().unwrap();
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        return;
    }
    let promised: u32 = std::env::var("DRIVEBAY_MARK").unwrap().parse().unwrap_or(0);
    let whole = |name: &str| -> Option<u32> {
        let text = std::fs::read_to_string(name).ok()?;
        let n = text.lines().next().and_then(|line| line.parse().ok()).unwrap_or(0);
        if n == 0 || text != format!("{n}\n").repeat(1500) {
            println!("{name} is torn: {} bytes", text.len());
            std::process::exit(1);
        }
        Some(n)
    };
    (1..=10).for_each(|n| {
        whole(&format!("./file-{n}"));
    });
    let found = whole("./current").unwrap_or(0);
    println!("version {promised} was promised, {found} is there");
    std::process::exit((found < promised) as i32);
}
