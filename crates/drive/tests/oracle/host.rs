//! The host and the link of the oracle: the profile's costs, command by command and packet by
//! packet.

use std::collections::VecDeque;

use drivebay_drive::RawSpec;

fn ns(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

/// Costs of a command in the driver, in nanoseconds.
pub struct Driver {
    pub software: u64,
    /// Registers and lock.
    pub queue: u64,
    /// Time from the register write until the command is in the controller.
    pub fetch: u64,
    /// Time from the controller to the program.
    pub completion: u64,
}

impl Driver {
    pub fn new(raw: &RawSpec) -> Driver {
        let nvme = raw.host_interface.protocol.value == "nvme";
        let driver = if nvme { &raw.host.nvme } else { &raw.host.ahci };
        let driver = driver.as_ref().expect("the host has a driver");
        let round_trip = ns(raw.host.slot.round_trip_us.value);
        let mut queue = ns(driver.serial_us.value);
        for _ in 0..driver.register_reads.value {
            queue += ns(driver.register_read_us.value);
        }
        for _ in 0..driver.register_writes.value {
            queue += ns(driver.register_write_us.value);
        }
        Driver {
            software: ns(driver.software_us.value),
            queue,
            fetch: round_trip / 2 + if nvme { round_trip } else { 2 * round_trip },
            completion: round_trip / 2 + ns(driver.interrupt_us.value),
        }
    }
}

/// A PCIe 3.0 link, packet by packet, in picoseconds.
pub struct Packets {
    round_trip: u64,
    lanes: u64,
    payload: u64,
    overhead: u64,
    request: u64,
    completion: u64,
    /// Times at which the tags are free again, in order.
    tags: VecDeque<u64>,
    /// Time at which the wire from the host is free.
    free: u64,
}

impl Packets {
    pub fn new(raw: &RawSpec) -> Packets {
        let (link, slot) = (&raw.link, &raw.host.slot);
        let tags = link.read_tags.as_ref().map_or(32, |tags| tags.value);
        Packets {
            round_trip: ns(slot.round_trip_us.value) * 1000,
            lanes: link.lanes.value.min(slot.lanes.value),
            payload: link.payload_bytes.value.min(slot.payload_bytes.value),
            overhead: link.packet_overhead_bytes.value,
            request: slot.read_request_bytes.value,
            completion: slot.read_completion_bytes.value,
            tags: (0..tags).map(|_| 0).collect(),
            free: 0,
        }
    }

    /// Picoseconds of a packet on the wire: 8 GT/s per lane, 130 bits for 128.
    fn wire(&self, bytes: u64) -> u64 {
        bytes * 8 * 130 * 1000 / (8 * 128 * self.lanes)
    }

    /// Nanoseconds in which the drive writes `bytes` to the host.
    pub fn written(&self, bytes: u64) -> u64 {
        let mut time = 0;
        let mut left = bytes;
        while left > 0 {
            let payload = left.min(self.payload);
            time += self.wire(payload + self.overhead);
            left -= payload;
        }
        (time + 500) / 1000
    }

    /// Fetches `bytes` from the host at `now`; returns the arrival of the first and the last of
    /// them.
    pub fn fetch_data(&mut self, now: u64, bytes: u64) -> (u64, u64) {
        let mut first = None;
        let mut left = bytes;
        while left > 0 {
            let tag = self.tags.pop_front().expect("there are tags");
            let asked = tag.max(now * 1000);
            let mut of_request = left.min(self.request);
            left -= of_request;
            self.free = self.free.max(asked + self.round_trip);
            first.get_or_insert(self.free);
            while of_request > 0 {
                let payload = of_request.min(self.completion);
                self.free += self.wire(payload + 20);
                of_request -= payload;
            }
            self.tags.push_back(self.free);
        }
        (first.expect("a write has data") / 1000, (self.free + 500) / 1000)
    }
}
