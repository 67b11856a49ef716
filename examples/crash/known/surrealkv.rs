//! SurrealKV: transactions with immediate durability, enough of them that tables are compacted: what
//! was flushed long ago must be readable.
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
        for n in 1..=200 {
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
    // Each key was written twice before the first cut, so that it has some version, also where the
    // last commit is lost (0.21.1 loses one commit of each memtable if the process is killed).
    for key in 0..40 {
        match tree.begin()?.get(format!("{key:04}").as_bytes()) {
            Ok(Some(found)) if (0..6).any(|round| found == value(key + 40 * round)) => {}
            Ok(_) => {
                println!("key {key} has no version that was written");
                std::process::exit(1)
            }
            Err(why) => {
                println!("key {key} cannot be read: {why}");
                std::process::exit(1)
            }
        }
    }
    std::process::exit(0)
}
