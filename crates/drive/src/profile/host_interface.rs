//! The command interface: protocol, queues, and the time for a command to reach the controller.
//!
//! Source: Intel on NVMe (quoted by AnandTech, "Testing SATA Express", 2014): an NVMe command is
//! one fetch of 64 bytes from the host's memory, an AHCI command takes two, one after the other
//! (header and table). A register write and a completion with its interrupt cross the link one way,
//! half of its round trip.

use drivebay_units::Nanos;

use super::key::{Key, SpecError};
use super::schema::RawSpec;

/// Maximum number of modelled submission queues.
pub const QUEUES_MAX: usize = 128;

/// The protocol of the command interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SATA with native command queuing: one queue, one transfer at a time in either direction.
    Sata,
    /// AHCI over PCIe: one queue.
    Ahci,
    /// NVMe.
    Nvme,
}

impl Protocol {
    /// Sequential reads of the host's memory that bring a command to the controller.
    fn fetches(self) -> u64 {
        if self == Protocol::Nvme { 1 } else { 2 }
    }
}

/// Queues of the command interface, and times between host and controller.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// Maximum number of submission queues of the drive.
    pub queues_max: u32,
    /// Maximum number of commands in the controller; others wait in their submission queues.
    pub commands_max: Option<u32>,
    /// Time from the register write until the command is in the controller.
    pub fetch: Nanos,
    /// Time from the controller to the completion and its interrupt in the host.
    pub completion: Nanos,
}

pub(super) fn check_protocol(raw: &RawSpec) -> Result<(Protocol, u32), SpecError> {
    let i = &raw.host_interface;
    let protocol = match i.protocol.value.as_str() {
        "nvme" => Protocol::Nvme,
        "ahci" => Protocol::Ahci,
        _ => Protocol::Sata,
    };
    let bound = if protocol == Protocol::Nvme { 65_536 } else { 32 };
    i.queue_depth_max.check("host_interface.queue_depth_max", (1..=bound).into())?;
    Ok((protocol, i.queue_depth_max.value as u32))
}

/// Derives the interface for a link with this round trip.
pub(super) fn check_interface(
    raw: &RawSpec,
    protocol: Protocol,
    round_trip: Nanos,
) -> Result<Interface, SpecError> {
    let i = &raw.host_interface;
    let high = if protocol == Protocol::Nvme { QUEUES_MAX as u64 } else { 1 };
    i.queues_max.check("host_interface.queues_max", (1..=high).into())?;
    if protocol != Protocol::Nvme && i.commands_max.is_some() {
        let hint = "leave it out; host_interface.queue_depth_max limits an AHCI or SATA drive";
        let (name, given) = ("host_interface.commands_max", &i.protocol.value);
        return Err(SpecError::out(name, given, "left out unless the protocol is nvme", hint));
    }
    i.commands_max.check("host_interface.commands_max", (8..=1024).into())?;
    let one_way = Nanos(round_trip.0 / 2);
    Ok(Interface {
        queues_max: i.queues_max.as_ref().map_or(1, |most| most.value) as u32,
        commands_max: i.commands_max.as_ref().map(|most| most.value as u32),
        fetch: one_way.after(round_trip.times(protocol.fetches())),
        completion: one_way,
    })
}
