//! Reservations: types, and data of their commands and their log page.
//!
//! Source: NVM Express base specification 2.0, Reservations (8.19), Reservation Report, Reservation
//! Notification.

use zerocopy::little_endian::{U16, U32, U64};

use super::layout::layout;
use crate::codes::codes;

codes! {
    /// Reservation types (RTYPE): access rights of hosts while a reservation is held.
    ReservationType {
        WriteExclusive = 1,
        ExclusiveAccess = 2,
        WriteExclusiveRegistrants = 3,
        ExclusiveAccessRegistrants = 4,
        WriteExclusiveAll = 5,
        ExclusiveAccessAll = 6,
    }

    /// Notice types of the Reservation Notification log.
    ReservationNotice {
        RegistrationPreempted = 1,
        Released = 2,
        Preempted = 3,
    }
}

impl ReservationType {
    /// True if other hosts may not read either.
    pub fn excludes_reads(self) -> bool {
        use ReservationType as R;
        matches!(self, R::ExclusiveAccess | R::ExclusiveAccessRegistrants | R::ExclusiveAccessAll)
    }

    /// True if all registrants have the holder's access rights.
    pub fn admits_registrants(self) -> bool {
        !matches!(self, ReservationType::WriteExclusive | ReservationType::ExclusiveAccess)
    }

    /// True if all registrants hold the reservation.
    pub fn is_of_all(self) -> bool {
        matches!(self, ReservationType::WriteExclusiveAll | ReservationType::ExclusiveAccessAll)
    }
}

layout! {
    /// Header of Reservation Report in its extended form; a [`RegisteredController`] follows for
    /// each registered controller.
    pub struct ReservationReport: 64 {
        /// Generation, which changes when registrations change.
        pub generation: U32,
        /// See [`ReservationType`]; 0 without a reservation.
        pub kind: u8,
        /// Number of controllers that follow.
        pub controllers: U16,
        [reserved_7: [u8; 2]],
        /// 1 if registrations and reservation outlast a loss of power.
        pub persists: u8,
        [reserved_10: [[u8; 27]; 2]],
    }

    /// Controller of a registered host.
    pub struct RegisteredController: 64 {
        /// Controller identifier; all ones if the host has none at present.
        pub controller: U16,
        /// Bit 0: the host holds the reservation.
        pub status: u8,
        [reserved_3: [u8; 5]],
        /// The host's key.
        pub key: U64,
        /// The host's identifier.
        pub host: [u8; 16],
        [reserved_32: [u8; 32]],
    }

    /// Notice of the Reservation Notification log.
    pub struct ReservationNotification: 64 {
        /// Number of the notice; 0 if the log is empty.
        pub count: U64,
        /// See [`ReservationNotice`].
        pub kind: u8,
        /// Number of further notices in the log.
        pub more: u8,
        [reserved_10: [u8; 2]],
        /// The namespace.
        pub nsid: U32,
        [reserved_16: [[u8; 24]; 2]],
    }
}
