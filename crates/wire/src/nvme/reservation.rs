//! Reservations: types, and what their commands and their log page carry.
//!
//! Source: NVM Express base specification 2.0, Reservations (8.19), Reservation Report, Reservation
//! Notification.

use zerocopy::little_endian::{U16, U32, U64};

use super::layout::layout;
use crate::codes::codes;

codes! {
    /// Who may do what while hosts hold a reservation (RTYPE).
    ReservationType {
        WriteExclusive = 1,
        ExclusiveAccess = 2,
        WriteExclusiveRegistrants = 3,
        ExclusiveAccessRegistrants = 4,
        WriteExclusiveAll = 5,
        ExclusiveAccessAll = 6,
    }
}

impl ReservationType {
    /// Whether others may not read either.
    pub fn excludes_reads(self) -> bool {
        use ReservationType as R;
        matches!(self, R::ExclusiveAccess | R::ExclusiveAccessRegistrants | R::ExclusiveAccessAll)
    }

    /// Whether all registrants may do what the holder may.
    pub fn admits_registrants(self) -> bool {
        !matches!(self, ReservationType::WriteExclusive | ReservationType::ExclusiveAccess)
    }

    /// Whether all registrants hold it.
    pub fn is_of_all(self) -> bool {
        matches!(self, ReservationType::WriteExclusiveAll | ReservationType::ExclusiveAccessAll)
    }
}

codes! {
    /// What hosts are told of in the Reservation Notification log.
    ReservationNotice {
        RegistrationPreempted = 1,
        Released = 2,
        Preempted = 3,
    }
}

layout! { 64:
    /// Reservation Report in its extended form: its head, behind which is a
    /// [`RegisteredController`] for each.
    pub struct ReservationReport {
        /// Changes when registrations change.
        pub generation: U32,
        /// See [`ReservationType`]; 0 where there is no reservation.
        pub kind: u8,
        /// Controllers that follow.
        pub controllers: U16,
        #[doc(hidden)]
        pub reserved_7: [u8; 2],
        /// Whether all of it outlasts a loss of power.
        pub persists: u8,
        #[doc(hidden)]
        pub reserved_10: [[u8; 27]; 2],
    }

    64:
    /// A controller of a host that is registered.
    pub struct RegisteredController {
        /// Its identifier; all ones where the host has none at present.
        pub controller: U16,
        /// Bit 0: its host holds the reservation.
        pub status: u8,
        #[doc(hidden)]
        pub reserved_3: [u8; 5],
        /// The host's key.
        pub key: U64,
        /// The host's identifier.
        pub host: [u8; 16],
        #[doc(hidden)]
        pub reserved_32: [u8; 32],
    }

    64:
    /// Reservation Notification: one notice.
    pub struct ReservationNotification {
        /// Number of the notice; 0 where there is none.
        pub count: U64,
        /// See [`ReservationNotice`].
        pub kind: u8,
        /// Notices that are there besides.
        pub more: u8,
        #[doc(hidden)]
        pub reserved_10: [u8; 2],
        /// The namespace.
        pub nsid: U32,
        #[doc(hidden)]
        pub reserved_16: [[u8; 24]; 2],
    }
}
