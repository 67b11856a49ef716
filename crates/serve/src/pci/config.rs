//! Configuration space of the device, and its only BAR.
//!
//! Sources: PCI Local Bus 3.0, section 6; PCI Express 3.0, section 7.8; vendor and device from the
//! profile. The virtual machine itself stores the guest's writes to BARs and interrupt
//! capabilities; other writes are stored here, as far as the masks allow it.

/// Bytes of configuration space.
pub(crate) const CONFIG_BYTES: usize = 256;

const POWER: usize = 0x40;
const EXPRESS: usize = 0x60;
const INTERRUPTS: usize = 0xb0;

/// Interrupt mechanism of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interrupts {
    /// MSI-X: number of vectors; offsets of table and pending bits in the BAR.
    MsiX { vectors: u16, table: u32, pending: u32 },
    /// MSI with one vector.
    Msi,
}

/// Parameters that differ between devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Vendor and device ID.
    pub ids: [u16; 2],
    /// Programming interface, subclass, class.
    pub class: [u8; 3],
    /// Number of its BAR.
    pub bar: u32,
    /// Size of its BAR, a power of two.
    pub bar_bytes: u64,
    /// True if the BAR may be above 4 GiB.
    pub is_wide: bool,
    /// Interrupt mechanism that the device offers.
    pub interrupts: Interrupts,
}

/// Configuration space.
pub(crate) struct Config {
    bytes: [u8; CONFIG_BYTES],
    /// Writable bits.
    mask: [u8; CONFIG_BYTES],
}

impl Config {
    /// Configuration space of a device after power-on.
    pub fn new(layout: &Layout) -> Config {
        let [vendor, device] = layout.ids;
        let mut config = Config { bytes: [0; CONFIG_BYTES], mask: [0; CONFIG_BYTES] };
        config.put(0x00, &vendor.to_le_bytes());
        config.put(0x02, &device.to_le_bytes());
        // Command: memory, bus master, interrupt disable; status: a list of capabilities.
        config.writable(0x04, &0x0406_u16.to_le_bytes());
        config.put(0x06, &0x0010_u16.to_le_bytes());
        config.put(0x08, &[1]);
        config.put(0x09, &layout.class);
        let (bar, mask) = (0x10 + 4 * layout.bar as usize, !(layout.bar_bytes - 1));
        if layout.is_wide {
            config.put(bar, &[0x04]);
            config.writable(bar, &mask.to_le_bytes());
        } else {
            config.writable(bar, &(mask as u32).to_le_bytes());
        }
        config.put(0x2c, &vendor.to_le_bytes());
        config.put(0x2e, &device.to_le_bytes());
        config.put(0x34, &[POWER as u8]);
        config.writable(0x3c, &[0xff]);
        // Power management 1.2; the state survives D3.
        config.put(POWER, &[0x01, EXPRESS as u8, 0x03, 0x00, 0x08, 0x00]);
        config.writable(POWER + 4, &[0x03]);
        config.express();
        match layout.interrupts {
            Interrupts::MsiX { vectors, table, pending } => config.msix(vectors, table, pending),
            Interrupts::Msi => config.msi(),
        }
        config
    }

    /// Endpoint of version 2, 8 GT/s, four lanes.
    fn express(&mut self) {
        self.put(EXPRESS, &[0x10, INTERRUPTS as u8, 0x02, 0x00]);
        // Payload of 256 bytes; role-based error reporting; function level reset.
        self.put(EXPRESS + 0x04, &0x1000_8001_u32.to_le_bytes());
        self.writable(EXPRESS + 0x08, &0x7fff_u16.to_le_bytes());
        // Speed 3, width 4, ASPM L1.
        self.put(EXPRESS + 0x0c, &(3_u32 | 4 << 4 | 2 << 10).to_le_bytes());
        self.writable(EXPRESS + 0x10, &0x0143_u16.to_le_bytes());
        self.put(EXPRESS + 0x12, &(3_u16 | 4 << 4).to_le_bytes());
        // Speeds 1 to 3.
        self.put(EXPRESS + 0x2c, &0x0000_000e_u32.to_le_bytes());
    }

    fn msix(&mut self, vectors: u16, table: u32, pending: u32) {
        self.put(INTERRUPTS, &[0x11, 0x00]);
        self.put(INTERRUPTS + 2, &(vectors - 1).to_le_bytes());
        self.writable(INTERRUPTS + 2, &0xc000_u16.to_le_bytes());
        self.put(INTERRUPTS + 4, &table.to_le_bytes());
        self.put(INTERRUPTS + 8, &pending.to_le_bytes());
    }

    /// One vector, addresses of 64 bits.
    fn msi(&mut self) {
        self.put(INTERRUPTS, &[0x05, 0x00, 0x80, 0x00]);
        self.writable(INTERRUPTS + 2, &0x0071_u16.to_le_bytes());
        self.writable(
            INTERRUPTS + 4,
            &[0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        );
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn writable(&mut self, at: usize, mask: &[u8]) {
        self.mask[at..at + mask.len()].copy_from_slice(mask);
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the writable bits. Returns true if the guest resets the function by this write.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> bool {
        for (i, &byte) in from.iter().enumerate() {
            let at = offset as usize + i;
            if let (Some(old), Some(mask)) = (self.bytes.get_mut(at), self.mask.get(at)) {
                *old = *old & !mask | byte & mask;
            }
        }
        let control = (EXPRESS as u64 + 0x09).checked_sub(offset);
        control.and_then(|at| from.get(at as usize)).is_some_and(|byte| byte & 0x80 != 0)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/pci_config.rs"]
mod tests;
