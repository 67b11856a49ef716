//! NBD: the fixed newstyle handshake, and the transmission phase with simple and structured replies.
//!
//! Source: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. All numbers are
//! big-endian. Names are the document's, without the prefix.
//! Left out: the old style of handshake, extended headers, resizing, payloads in BLOCK_STATUS.

mod handshake;
mod transmission;

pub use handshake::{
    ABORT, BASE_ALLOCATION, BlockSizes, ClientFlags, EXPORT_NAME, GO, Go, HandshakeError, INFO,
    LIST, LIST_META_CONTEXT, MetaQuery, OPTION_BYTES, OptionError, OptionHeader, SET_META_CONTEXT,
    STARTTLS, STRUCTURED_REPLY, export_reply, greeting, option_error, option_reply, reply_ack,
    reply_block_sizes, reply_export, reply_meta_context, reply_name, reply_server,
};
pub use transmission::{
    Command, Error, MAX_PAYLOAD, REQUEST_BYTES, Request, RequestError, StatusExtent, export_flags,
    simple_reply, structured_block_status, structured_data, structured_error, structured_none,
};

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
