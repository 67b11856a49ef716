//! redb: transactions of ten rows each, with immediate durability, its default.
use redb::{Database, TableDefinition};

const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let commits: u64 = std::env::args().nth(1).ok_or("the number of commits")?.parse()?;
    let db = Database::create("db")?;
    for number in 0..commits {
        let transaction = db.begin_write()?;
        {
            let mut table = transaction.open_table(ROWS)?;
            for row in 0..10 {
                let key = (number * 10 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                table.insert(key, [number as u8; 100].as_slice())?;
            }
        }
        transaction.commit()?;
    }
    Ok(())
}
