//! SurrealKV: transactions with immediate durability, enough of them that tables are compacted.
use std::io::Write;

use surrealkv::{Durability, TreeBuilder};

fn value(n: u32) -> Vec<u8> {
    (0..4000).map(|at| (n * (at | 1) >> 3) as u8).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tree = TreeBuilder::new()
        .with_path("db".into())
        .with_max_memtable_size(64 * 1024)
        .with_level_count(3)
        .build()
        .map_err(|why| {
            println!("the database does not open: {why}");
            why
        })?;
    if std::env::args().nth(1).as_deref() == Some("work") {
        for n in 1..=150 {
            let mut transaction = tree.begin()?;
            transaction.set_durability(Durability::Immediate);
            transaction.set(format!("{:04}", n % 40).as_bytes(), &value(n))?;
            transaction.commit().await?;
            println!("mark {n}");
            std::io::stdout().flush()?;
            std::io::stdin().read_line(&mut String::new())?;
        }
        std::process::exit(0); // as a program that is killed
    }
    let promised: u32 = std::env::var("DRIVEBAY_MARK")?.parse().unwrap_or(0);
    for n in promised.saturating_sub(39).max(1)..=promised {
        let found = tree.begin()?.get(format!("{:04}", n % 40).as_bytes());
        match found {
            Ok(Some(found)) if found == value(n) || found == value(n + 40) => {}
            Ok(_) => {
                println!("key {n} was promised and is not there");
                std::process::exit(1)
            }
            Err(why) => {
                println!("key {n} cannot be read: {why}");
                std::process::exit(1)
            }
        }
    }
    std::process::exit(0)
}
