//! Configuration space of the device, and where things lie in its one BAR.
//!
//! Sources: PCI Local Bus 3.0, section 6; PCI Express 3.0, section 7.8; vendor and device from the
//! profile. The virtual machine's own software keeps what the guest writes to BARs and MSI-X; what is
//! written here is kept where the masks allow it.

/// Bytes of configuration space.
pub(super) const CONFIG_BYTES: usize = 256;
/// Bytes of BAR 0: registers, doorbells, MSI-X table, MSI-X pending bits, a page each.
pub(super) const BAR_BYTES: u64 = 0x4000;
/// Where the doorbells begin.
pub(super) const DOORBELLS: u64 = 0x1000;
/// Where the MSI-X table begins.
pub(super) const MSIX_TABLE: u64 = 0x2000;
const MSIX_PENDING: u32 = 0x3000;

const POWER: usize = 0x40;
const EXPRESS: usize = 0x60;
const MSIX: usize = 0xb0;

/// Configuration space.
pub(super) struct Config {
    bytes: [u8; CONFIG_BYTES],
    /// Bits that can be written.
    mask: [u8; CONFIG_BYTES],
}

impl Config {
    /// Of a device with so many MSI-X vectors.
    pub fn new([vendor, device]: [u16; 2], vectors: u16) -> Config {
        let mut config = Config { bytes: [0; CONFIG_BYTES], mask: [0; CONFIG_BYTES] };
        config.put(0x00, &vendor.to_le_bytes());
        config.put(0x02, &device.to_le_bytes());
        // Memory, bus master, interrupt disable; status: a list of capabilities.
        config.writable(0x04, &0x0406_u16.to_le_bytes());
        config.put(0x06, &0x0010_u16.to_le_bytes());
        // Mass storage, non-volatile memory, NVMe.
        config.put(0x08, &[1, 0x02, 0x08, 0x01]);
        // BAR 0: memory, 64 bits.
        config.put(0x10, &[0x04]);
        config.writable(0x10, &(!(BAR_BYTES - 1)).to_le_bytes());
        config.put(0x2c, &vendor.to_le_bytes());
        config.put(0x2e, &device.to_le_bytes());
        config.put(0x34, &[POWER as u8]);
        config.writable(0x3c, &[0xff]);
        // Power management 1.2; the state is kept over D3.
        config.put(POWER, &[0x01, EXPRESS as u8, 0x03, 0x00, 0x08, 0x00]);
        config.writable(POWER + 4, &[0x03]);
        config.express();
        config.msix(vectors);
        config
    }

    /// An endpoint of version 2, 8 GT/s, four lanes.
    fn express(&mut self) {
        self.put(EXPRESS, &[0x10, MSIX as u8, 0x02, 0x00]);
        // Payload of 256 bytes; role-based error reporting.
        self.put(EXPRESS + 0x04, &0x0000_8001_u32.to_le_bytes());
        self.writable(EXPRESS + 0x08, &0x7fff_u16.to_le_bytes());
        // Speed 3, width 4, ASPM L1.
        self.put(EXPRESS + 0x0c, &(3_u32 | 4 << 4 | 2 << 10).to_le_bytes());
        self.writable(EXPRESS + 0x10, &0x0143_u16.to_le_bytes());
        self.put(EXPRESS + 0x12, &(3_u16 | 4 << 4).to_le_bytes());
        // Speeds 1 to 3.
        self.put(EXPRESS + 0x2c, &0x0000_000e_u32.to_le_bytes());
    }

    fn msix(&mut self, vectors: u16) {
        self.put(MSIX, &[0x11, 0x00]);
        self.put(MSIX + 2, &(vectors - 1).to_le_bytes());
        self.writable(MSIX + 2, &0xc000_u16.to_le_bytes());
        self.put(MSIX + 4, &(MSIX_TABLE as u32).to_le_bytes());
        self.put(MSIX + 8, &MSIX_PENDING.to_le_bytes());
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn writable(&mut self, at: usize, mask: &[u8]) {
        self.mask[at..at + mask.len()].copy_from_slice(mask);
    }

    /// Reads; zeros beyond the end.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (i, byte) in into.iter_mut().enumerate() {
            *byte = self.bytes.get(offset as usize + i).copied().unwrap_or(0);
        }
    }

    /// Writes what can be written.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        for (i, &byte) in from.iter().enumerate() {
            let at = offset as usize + i;
            if let (Some(old), Some(mask)) = (self.bytes.get_mut(at), self.mask.get(at)) {
                *old = *old & !mask | byte & mask;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_finds_an_nvme_drive_with_its_size_and_capabilities() {
        let mut config = Config::new([0x144d, 0xa802], 9);
        let mut word = [0; 4];
        config.read(0, &mut word);
        assert_eq!(word, [0x4d, 0x14, 0x02, 0xa8]);
        config.read(8, &mut word);
        assert_eq!(word[1..], [0x02, 0x08, 0x01]);
        config.write(0x10, &[0xff; 8]);
        config.read(0x10, &mut word);
        assert_eq!(u32::from_le_bytes(word), !(BAR_BYTES as u32 - 1) | 4);
        // The list of capabilities ends, with MSI-X in it.
        let (mut at, mut ids) = ([0; 1], Vec::new());
        config.read(0x34, &mut at);
        while at[0] != 0 && ids.len() < 10 {
            let mut head = [0; 2];
            config.read(u64::from(at[0]), &mut head);
            ids.push(head[0]);
            at[0] = head[1];
        }
        assert_eq!(ids, [0x01, 0x10, 0x11]);
        config.read(0xfffe, &mut word);
        assert_eq!(word, [0; 4]);
    }
}
