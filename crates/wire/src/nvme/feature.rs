//! Features: what Get Features and Set Features name.
//!
//! Source: NVM Express base specification 1.4, section 5.21.1; keep-alive: section 7.12.

macro_rules! features {
    ($($(#[$doc:meta])* $variant:ident = $value:literal,)*) => {
        /// A feature that drivebay's controller knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Feature { $($(#[$doc])* $variant = $value,)* }

        impl Feature {
            /// All of them.
            pub const ALL: &[Feature] = &[$(Feature::$variant,)*];

            /// From its identifier.
            #[must_use]
            pub fn of(code: u8) -> Option<Feature> {
                match code { $($value => Some(Feature::$variant),)* _ => None }
            }
        }
    };
}

features! {
    /// Arbitration.
    Arbitration = 0x01,
    /// Power Management.
    PowerManagement = 0x02,
    /// Temperature Threshold.
    TemperatureThreshold = 0x04,
    /// Error Recovery.
    ErrorRecovery = 0x05,
    /// Volatile Write Cache.
    VolatileWriteCache = 0x06,
    /// Number of Queues.
    NumberOfQueues = 0x07,
    /// Interrupt Coalescing.
    InterruptCoalescing = 0x08,
    /// Interrupt Vector Configuration.
    InterruptVector = 0x09,
    /// Write Atomicity Normal.
    WriteAtomicity = 0x0a,
    /// Asynchronous Event Configuration.
    AsyncEvents = 0x0b,
    /// Keep Alive Timer.
    KeepAliveTimer = 0x0f,
    /// Host Identifier.
    HostIdentifier = 0x81,
}

/// Which value Get Features asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// The present one.
    Current,
    /// That after manufacture.
    Default,
    /// That after the next reset.
    Saved,
    /// What can be done with it.
    Capabilities,
}

impl Select {
    /// From bits 10:8 of command dword 10.
    #[must_use]
    pub fn of(cdw10: u32) -> Option<Select> {
        match cdw10 >> 8 & 7 {
            0 => Some(Select::Current),
            1 => Some(Select::Default),
            2 => Some(Select::Saved),
            3 => Some(Select::Capabilities),
            _ => None,
        }
    }
}
