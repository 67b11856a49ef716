//! NBD: the fixed newstyle handshake, and the transmission phase with simple and structured
//! replies.
//!
//! Source: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. All numbers are
//! big-endian. Names are the document's, without the prefix. Left out: the old style of handshake,
//! extended headers, resizing, payloads in BLOCK_STATUS.

mod bytes;
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
