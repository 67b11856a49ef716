//! Features of Get Features and Set Features.
//!
//! Sources: NVM Express base specification 2.0, Set Features and Feature Identifiers Supported and
//! Effects; OCP Datacenter NVMe SSD specification 2.0 (C0h, C2h, C5h).

use crate::codes::codes;

codes! {
    /// Features that drivebay's controller supports.
    Feature {
        Arbitration = 0x01,
        PowerManagement = 0x02,
        TemperatureThreshold = 0x04,
        ErrorRecovery = 0x05,
        VolatileWriteCache = 0x06,
        NumberOfQueues = 0x07,
        InterruptCoalescing = 0x08,
        InterruptVector = 0x09,
        WriteAtomicity = 0x0a,
        AsyncEvents = 0x0b,
        AutonomousTransitions = 0x0c,
        Timestamp = 0x0e,
        KeepAliveTimer = 0x0f,
        HostBehavior = 0x16,
        CommandSetProfile = 0x19,
        Placement = 0x1d,
        PlacementEvents = 0x1e,
        HostIdentifier = 0x81,
        ReservationMask = 0x82,
        ReservationPersistence = 0x83,
        OcpErrorInjection = 0xc0,
        OcpFailureMode = 0xc2,
        OcpLatencyMonitor = 0xc5,
    }

    /// Value that Get Features returns (bits 10:8 of command dword 10).
    Select {
        Current = 0,
        Default = 1,
        Saved = 2,
        Capabilities = 3,
    }
}

/// Effects: the scope of a feature or command is a namespace.
pub const SCOPE_NAMESPACE: u32 = 1 << 20;
/// Effects: the scope is a controller.
pub const SCOPE_CONTROLLER: u32 = 1 << 21;
/// Effects: the scope is an endurance group.
const SCOPE_GROUP: u32 = 1 << 23;
/// Effects: the scope is the subsystem.
pub const SCOPE_SUBSYSTEM: u32 = 1 << 25;

/// The form of a feature's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bits of dword 11 that are stored; 0 if the value is sent as data.
    pub mask: u32,
    /// Bytes of data, if the value is sent as data.
    pub bytes: u16,
    /// True if the host may ask to save the value, which outlasts resets in any case.
    pub is_saveable: bool,
    /// Entry in the feature effects log, without the bit "supported".
    pub effects: u32,
}

impl Feature {
    /// Returns the form of the feature's value.
    pub fn shape(self) -> Shape {
        use Feature as F;
        let number = |mask| Shape { mask, bytes: 0, is_saveable: false, effects: SCOPE_CONTROLLER };
        let data = |bytes| Shape { mask: 0, bytes, is_saveable: false, effects: SCOPE_CONTROLLER };
        let shared = |bytes| Shape { mask: 0, bytes, is_saveable: true, effects: SCOPE_SUBSYSTEM };
        match self {
            F::Arbitration => number(0xffff_ff07),
            F::PowerManagement => number(0xff),
            F::ErrorRecovery | F::InterruptCoalescing => number(0xffff),
            F::VolatileWriteCache | F::WriteAtomicity => number(1),
            F::InterruptVector => number(1 << 16),
            F::TemperatureThreshold | F::NumberOfQueues | F::AsyncEvents | F::KeepAliveTimer => {
                number(u32::MAX)
            }
            F::ReservationMask => number(0xe),
            F::ReservationPersistence => Shape { effects: SCOPE_NAMESPACE, ..number(1) },
            F::CommandSetProfile => number(0),
            F::Placement => Shape { is_saveable: true, effects: SCOPE_GROUP, ..number(0) },
            F::PlacementEvents => Shape { effects: SCOPE_NAMESPACE, ..number(0) },
            F::AutonomousTransitions => Shape { mask: 1, ..data(256) },
            F::HostBehavior => data(512),
            F::HostIdentifier => Shape { mask: 1, ..data(16) },
            F::Timestamp => shared(8),
            F::OcpErrorInjection => Shape { mask: 0xff, ..shared(4096) },
            F::OcpFailureMode => Shape { mask: 3 << 30, ..shared(0) },
            F::OcpLatencyMonitor => shared(4096),
        }
    }
}
