//! Features: what Get Features and Set Features name.
//!
//! Source: NVM Express base specification 1.4, section 5.21.1; keep-alive: section 7.12.

use crate::codes::codes;

codes! {
    /// Features that drivebay's controller knows.
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
        KeepAliveTimer = 0x0f,
        HostIdentifier = 0x81,
    }
}

codes! {
    /// Which value Get Features returns (bits 10:8 of command dword 10).
    Select {
        Current = 0,
        Default = 1,
        Saved = 2,
        Capabilities = 3,
    }
}
