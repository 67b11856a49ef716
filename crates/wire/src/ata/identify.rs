//! IDENTIFY DEVICE: 256 words of identity and features.
//!
//! Source: ACS-3, table 45. Other words are 0.

/// Values that differ between drives.
#[derive(Clone, Debug, Default)]
pub struct Identify {
    /// Serial number, at most 20 ASCII characters.
    pub serial: String,
    /// Firmware revision, at most 8 characters.
    pub firmware: String,
    /// Model name, at most 40 characters.
    pub model: String,
    /// Number of sectors of 512 B.
    pub sectors: u64,
    /// Largest number of queued commands, 1 to 32.
    pub queue_depth: u8,
    /// True if the write cache is on.
    pub has_write_cache: bool,
    /// True if sectors read as zeros after TRIM.
    pub has_trim: bool,
}

impl Identify {
    /// Returns the 512 bytes of the page.
    pub fn page(&self) -> [u8; 512] {
        let mut words = [0_u16; 256];
        words[0] = 0x0040;
        text(&mut words[10..20], &self.serial);
        text(&mut words[23..27], &self.firmware);
        text(&mut words[27..47], &self.model);
        words[47] = 0x8001;
        // LBA and DMA supported; words 64 to 70 and 88 are valid.
        (words[49], words[50], words[53]) = (0x0f00, 0x4000, 0x0006);
        let short = self.sectors.min(0x0fff_ffff) as u32;
        (words[60], words[61]) = (short as u16, (short >> 16) as u16);
        // Multiword DMA 0 to 2, PIO 3 and 4 at 120 ns.
        (words[63], words[64]) = (0x0007, 0x0003);
        words[65..69].fill(120);
        // TRIM is deterministic and reads as zeros.
        words[69] = if self.has_trim { 1 << 14 | 1 << 5 } else { 0 };
        words[75] = u16::from(self.queue_depth - 1);
        // Link speeds 1.5, 3 and 6 Gbit/s, and queueing. Current speed: 6 Gbit/s.
        (words[76], words[77]) = (1 << 8 | 0x000e, 3 << 1);
        // ATA8-ACS and ACS-2; the minor version is not reported.
        words[80] = 0x03f0;
        // SMART, write cache, look-ahead; 48-bit addresses, FLUSH CACHE and FLUSH CACHE EXT, write
        // FUA; words 83, 84 and 87 are valid.
        words[82] = 1 | 1 << 5 | 1 << 6;
        words[83] = 1 << 14 | 1 << 13 | 1 << 12 | 1 << 10;
        words[84] = 1 << 14 | 1 << 6;
        words[85] = 1 | u16::from(self.has_write_cache) << 5 | 1 << 6;
        words[86] = 1 << 13 | 1 << 12 | 1 << 10;
        words[87] = 1 << 14 | 1 << 6;
        // Ultra DMA modes 0 to 6; the highest is selected.
        words[88] = 0x407f;
        for (i, word) in words[100..104].iter_mut().enumerate() {
            *word = (self.sectors >> (16 * i)) as u16;
        }
        // At most one block of ranges per TRIM.
        (words[105], words[169]) = (1, u16::from(self.has_trim));
        // Logical sectors of 512 B on physical sectors of 4 KiB.
        words[106] = 1 << 14 | 1 << 13 | 3;
        // Not a rotating medium.
        words[217] = 1;
        words[222] = 1 << 12 | 0x7f;
        let mut page = [0; 512];
        for (bytes, word) in page.chunks_exact_mut(2).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        page[510] = 0xa5;
        checksummed(page)
    }
}

/// Writes ASCII text into words, the first of two characters in the high byte.
fn text(words: &mut [u16], text: &str) {
    let mut bytes = text.bytes().chain(std::iter::repeat(b' '));
    for word in words {
        let pair = [bytes.next(), bytes.next()].map(|byte| byte.expect("it never ends"));
        *word = u16::from_be_bytes(pair);
    }
}

/// Sets the last byte so that the sum of all bytes is 0.
pub fn checksummed(mut page: [u8; 512]) -> [u8; 512] {
    page[511] = page[..511].iter().fold(0_u8, |sum, &byte| sum.wrapping_sub(byte));
    page
}

#[cfg(test)]
#[path = "../../tests/unit/ata_identify.rs"]
mod tests;
