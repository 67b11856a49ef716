//! redb: commits with immediate durability, its default, with which the file grows.
use std::io::Write;

use redb::*; // traits that differ between its releases

const ROWS: TableDefinition<u32, &[u8]> = TableDefinition::new("rows");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Database::create("db")?;
    if std::env::args().nth(1).as_deref() == Some("work") {
        for n in 1..=20u32 {
            let transaction = db.begin_write()?;
            transaction.open_table(ROWS)?.insert(n, vec![n as u8; 150_000].as_slice())?;
            transaction.commit()?;
            println!("mark {n}");
            std::io::stdout().flush()?;
            std::io::stdin().read_line(&mut String::new())?;
        }
        return Ok(());
    }
    let promised: u64 = std::env::var("DRIVEBAY_MARK")?.parse().unwrap_or(0);
    let found = match db.begin_read()?.open_table(ROWS) {
        Ok(table) => {
            let found = table.len()?;
            for n in 1..=found as u32 {
                if table.get(n)?.is_none_or(|value| value.value() != vec![n as u8; 150_000]) {
                    println!("row {n} is missing or damaged");
                    std::process::exit(1);
                }
            }
            found
        }
        Err(_) => 0,
    };
    println!("{promised} rows were promised, {found} are there");
    std::process::exit((found < promised) as i32)
}
