//! Messages of DH-HMAC-CHAP, which Authentication Send and Receive carry.
//!
//! Source: NVM Express base specification 2.0, In-band Authentication. What follows a head, of
//! lengths that it tells, is the caller's: a response, a challenge, a public value.

use zerocopy::little_endian::{U16, U32};

use super::layout::layout;
use crate::codes::codes;

/// The security protocol of these commands, in the highest byte of dword 10, with its two specific
/// bytes.
pub const SECURITY_PROTOCOL: u32 = 0xe9_01_01_00;

codes! {
    /// Which message it is.
    AuthId {
        Negotiate = 0x00,
        Challenge = 0x01,
        Reply = 0x02,
        Success1 = 0x03,
        Success2 = 0x04,
        Failure2 = 0xf0,
        Failure1 = 0xf1,
    }
}

layout! { 6:
    /// What each message begins with.
    pub struct AuthHead {
        /// 0: a message of all protocols; 1: one of this.
        pub kind: u8,
        /// Of [`AuthId`].
        pub id: u8,
        #[doc(hidden)]
        pub reserved_2: [u8; 2],
        /// Number of the exchange.
        pub transaction: U16,
    }
}

layout! { 72:
    /// The host's first message, with one protocol.
    pub struct AuthNegotiate {
        /// What each message begins with.
        pub head: AuthHead,
        /// Whether keys for TLS are to come of it.
        pub secure_channel: u8,
        /// Protocols that follow.
        pub protocols: u8,
        /// The first one: 1 for DH-HMAC-CHAP.
        pub protocol: u8,
        #[doc(hidden)]
        pub reserved_9: u8,
        /// Hashes that the host knows.
        pub hashes: u8,
        /// Groups that it knows.
        pub groups: u8,
        /// Their identifiers; those of groups from byte 30 on.
        pub ids: [u8; 60],
    }
}

layout! { 16:
    /// The controller's challenge: a value and, but in the null group, a public value follow.
    pub struct AuthChallenge {
        /// What each message begins with.
        pub head: AuthHead,
        /// Bytes of the value.
        pub hash_bytes: u8,
        #[doc(hidden)]
        pub reserved_7: u8,
        /// The hash, from 1 on: SHA-256, SHA-384, SHA-512.
        pub hash: u8,
        /// The group, from 1 on: ffdhe2048, 3072, 4096, 6144, 8192; 0 for the null group.
        pub group: u8,
        /// Bytes of the public value.
        pub group_bytes: U16,
        /// Number of the challenge.
        pub number: U32,
    }
}

layout! { 16:
    /// The host's reply: a response, a challenge's value and, but in the null group, a public value
    /// follow.
    pub struct AuthReply {
        /// What each message begins with.
        pub head: AuthHead,
        /// Bytes of the response, and of the value.
        pub hash_bytes: u8,
        #[doc(hidden)]
        pub reserved_7: u8,
        /// Whether it challenges the controller.
        pub is_valid: u8,
        #[doc(hidden)]
        pub reserved_9: u8,
        /// Bytes of the public value.
        pub group_bytes: U16,
        /// Number of the challenge.
        pub number: U32,
    }
}

layout! { 16:
    /// The controller takes the host for who it is; a response follows if it was challenged.
    pub struct AuthSuccess {
        /// What each message begins with.
        pub head: AuthHead,
        /// Bytes of a response.
        pub hash_bytes: u8,
        #[doc(hidden)]
        pub reserved_7: u8,
        /// Whether there is one.
        pub is_valid: u8,
        #[doc(hidden)]
        pub reserved_9: [u8; 7],
    }
}

layout! { 8:
    /// The exchange ends.
    pub struct AuthFailure {
        /// What each message begins with.
        pub head: AuthHead,
        /// 1: it has failed.
        pub reason: u8,
        /// Why.
        pub explanation: u8,
    }
}
