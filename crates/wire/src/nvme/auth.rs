//! Messages of DH-HMAC-CHAP, which Authentication Send and Receive carry.
//!
//! Source: NVM Express base specification 2.0, In-band Authentication. The caller parses the fields
//! of variable length after each header: a response, a challenge, a public value.

use zerocopy::little_endian::{U16, U32};

use super::layout::layout;
use crate::codes::codes;

/// Security protocol of these commands, in the highest byte of dword 10, followed by its two
/// specific bytes.
pub const SECURITY_PROTOCOL: u32 = 0xe9_01_01_00;

codes! {
    /// Message types.
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

layout! {
    /// Common header of all messages.
    pub struct AuthHead: 6 {
        /// 0 for a message common to all protocols, 1 for a message of DH-HMAC-CHAP.
        pub kind: u8,
        /// See [`AuthId`].
        pub id: u8,
        [reserved_2: [u8; 2]],
        /// Number of the authentication exchange.
        pub transaction: U16,
    }

    /// First message of the host, with one protocol.
    pub struct AuthNegotiate: 72 {
        /// Common header.
        pub head: AuthHead,
        /// Nonzero if the exchange must also produce keys for TLS.
        pub secure_channel: u8,
        /// Number of protocols that follow.
        pub protocols: u8,
        /// First protocol: 1 for DH-HMAC-CHAP.
        pub protocol: u8,
        [reserved_9: u8],
        /// Number of hashes that the host supports.
        pub hashes: u8,
        /// Number of groups that the host supports.
        pub groups: u8,
        /// Identifiers of the hashes; those of the groups start at byte 30.
        pub ids: [u8; 60],
    }

    /// Challenge of the controller; a challenge value follows and, except in the null group, a
    /// public value.
    pub struct AuthChallenge: 16 {
        /// Common header.
        pub head: AuthHead,
        /// Bytes of the challenge value.
        pub hash_bytes: u8,
        [reserved_7: u8],
        /// Hash: 1 for SHA-256, 2 for SHA-384, 3 for SHA-512.
        pub hash: u8,
        /// Group: 1 to 5 for ffdhe2048, 3072, 4096, 6144, 8192; 0 for the null group.
        pub group: u8,
        /// Bytes of the public value.
        pub group_bytes: U16,
        /// Sequence number of the challenge.
        pub number: U32,
    }

    /// Reply of the host; a response, a challenge value and, except in the null group, a public
    /// value follow.
    pub struct AuthReply: 16 {
        /// Common header.
        pub head: AuthHead,
        /// Bytes of the response and of the challenge value.
        pub hash_bytes: u8,
        [reserved_7: u8],
        /// 1 if the host also challenges the controller.
        pub is_valid: u8,
        [reserved_9: u8],
        /// Bytes of the public value.
        pub group_bytes: U16,
        /// Sequence number of the challenge.
        pub number: U32,
    }

    /// Confirmation of the controller that the host is authenticated; a response follows if the
    /// host sent a challenge.
    pub struct AuthSuccess: 16 {
        /// Common header.
        pub head: AuthHead,
        /// Bytes of the response.
        pub hash_bytes: u8,
        [reserved_7: u8],
        /// 1 if a response follows.
        pub is_valid: u8,
        [reserved_9: [u8; 7]],
    }

    /// Message that ends the exchange with a failure.
    pub struct AuthFailure: 8 {
        /// Common header.
        pub head: AuthHead,
        /// Reason code; 1: authentication failed.
        pub reason: u8,
        /// Explanation code.
        pub explanation: u8,
    }
}
