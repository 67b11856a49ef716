//! Unit tests of `ata/identify.rs`, with its private items in reach.

use super::*;

#[test]
fn names_and_size_lie_where_hosts_look() {
    let page = Identify {
        serial: "S1".to_owned(),
        firmware: "FW".to_owned(),
        model: "MODEL".to_owned(),
        sectors: 1_000_215_216,
        queue_depth: 32,
        has_write_cache: true,
        has_trim: true,
    }
    .page();
    assert_eq!(&page[20..24], b"1S  ");
    assert_eq!(&page[54..60], b"OMED L");
    assert_eq!(page[200..208], 1_000_215_216_u64.to_le_bytes());
    assert_eq!(page[120..124], 0x0fff_ffff_u32.to_le_bytes());
    assert_eq!((page[150], page[338]), (31, 1));
    assert_eq!(page.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)), 0);
}
