//! Handshake: greeting, the client's options, the server's answers.

use super::bytes::{u16_at, u32_at, u64_at};

const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

const FLAG_FIXED_NEWSTYLE: u16 = 1;
const FLAG_NO_ZEROES: u16 = 2;

/// Chooses an export in the old way: the answer cannot report an error.
pub const EXPORT_NAME: u32 = 1;
/// Ends the handshake.
pub const ABORT: u32 = 2;
/// Asks for a list of the exports.
pub const LIST: u32 = 3;
/// Asks for TLS.
pub const STARTTLS: u32 = 5;
/// Asks about an export.
pub const INFO: u32 = 6;
/// Chooses an export.
pub const GO: u32 = 7;
/// Asks for structured replies.
pub const STRUCTURED_REPLY: u32 = 8;
/// Asks which metadata contexts are available.
pub const LIST_META_CONTEXT: u32 = 9;
/// Chooses metadata contexts.
pub const SET_META_CONTEXT: u32 = 10;

/// Metadata context that distinguishes data from holes.
pub const BASE_ALLOCATION: &str = "base:allocation";

const REP_ACK: u32 = 1;
const REP_SERVER: u32 = 2;
const REP_INFO: u32 = 3;
const REP_META_CONTEXT: u32 = 4;
const REP_ERROR: u32 = 1 << 31;

const INFO_EXPORT: u16 = 0;
const INFO_NAME: u16 = 1;
const INFO_BLOCK_SIZE: u16 = 3;

/// Bytes of an option's header.
pub const OPTION_BYTES: usize = 16;

/// Longest string of the protocol, in bytes.
const STRING_MAX: usize = 4096;

/// Reason for which an option is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// Unknown option.
    Unsupported = 1,
    /// Not allowed here.
    Policy = 2,
    /// Malformed, or not allowed at this point.
    Invalid = 3,
    /// Allowed only after TLS.
    TlsRequired = 5,
    /// No such export.
    Unknown = 6,
}

/// Errors that end a handshake at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// Flags that the server did not offer.
    Flags,
    /// Wrong magic number: not an option.
    Magic,
}

/// The client's flags, which answer the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFlags {
    /// True if the client knows the fixed newstyle: options other than [`EXPORT_NAME`], and their
    /// answers.
    pub is_fixed: bool,
    /// True if the client expects no padding after the answer to [`EXPORT_NAME`].
    pub no_zeroes: bool,
}

impl ClientFlags {
    /// Parses the flags.
    ///
    /// # Errors
    /// Unknown flags.
    pub fn parse(bytes: [u8; 4]) -> Result<ClientFlags, HandshakeError> {
        let flags = u32::from_be_bytes(bytes);
        let known = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        if flags & !known != 0 {
            return Err(HandshakeError::Flags);
        }
        let has = |flag| flags & u32::from(flag) != 0;
        Ok(ClientFlags { is_fixed: has(FLAG_FIXED_NEWSTYLE), no_zeroes: has(FLAG_NO_ZEROES) })
    }
}

/// Header of an option; `length` bytes of data follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// Number of the option.
    pub option: u32,
    /// Bytes of the option's data.
    pub length: u32,
}

impl OptionHeader {
    /// Parses a header.
    pub fn parse(bytes: &[u8; OPTION_BYTES]) -> Result<OptionHeader, HandshakeError> {
        if u64_at(bytes, 0) != IHAVEOPT {
            return Err(HandshakeError::Magic);
        }
        Ok(OptionHeader { option: u32_at(bytes, 8), length: u32_at(bytes, 12) })
    }
}

/// Data of [`INFO`] and [`GO`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Go<'a> {
    /// The export's name.
    pub name: &'a str,
    /// True if the client also asks for the export's name.
    pub wants_name: bool,
    /// True if the client also asks for the block sizes.
    pub wants_block_sizes: bool,
}

impl<'a> Go<'a> {
    /// Parses the data.
    pub fn parse(data: &'a [u8]) -> Result<Go<'a>, OptionError> {
        let (name, rest) = string(data)?;
        let (count, kinds) = rest.split_at_checked(2).ok_or(OptionError::Invalid)?;
        if kinds.len() != 2 * usize::from(u16_at(count, 0)) {
            return Err(OptionError::Invalid);
        }
        let wants = |kind| kinds.chunks(2).any(|k| u16_at(k, 0) == kind);
        let (wants_name, wants_block_sizes) = (wants(INFO_NAME), wants(INFO_BLOCK_SIZE));
        Ok(Go { name, wants_name, wants_block_sizes })
    }
}

/// Data of [`LIST_META_CONTEXT`] and [`SET_META_CONTEXT`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaQuery<'a> {
    /// The export's name.
    pub name: &'a str,
    /// Names of the requested metadata contexts.
    pub queries: Vec<&'a str>,
}

impl<'a> MetaQuery<'a> {
    /// Parses the data.
    pub fn parse(data: &'a [u8]) -> Result<MetaQuery<'a>, OptionError> {
        let (name, rest) = string(data)?;
        let (count, mut rest) = rest.split_at_checked(4).ok_or(OptionError::Invalid)?;
        let mut queries = Vec::new();
        // Each query takes at least four bytes, so the length of the data bounds the loop.
        for _ in 0..u32_at(count, 0) {
            let (query, left) = string(rest)?;
            queries.push(query);
            rest = left;
        }
        if rest.is_empty() { Ok(MetaQuery { name, queries }) } else { Err(OptionError::Invalid) }
    }
}

/// Reads a 32-bit length and that many bytes of UTF-8; returns the string and the remaining bytes.
fn string(data: &[u8]) -> Result<(&str, &[u8]), OptionError> {
    let (length, rest) = data.split_at_checked(4).ok_or(OptionError::Invalid)?;
    let length = u32_at(length, 0) as usize;
    if length > STRING_MAX {
        return Err(OptionError::Invalid);
    }
    let (text, rest) = rest.split_at_checked(length).ok_or(OptionError::Invalid)?;
    Ok((std::str::from_utf8(text).map_err(|_| OptionError::Invalid)?, rest))
}

/// Block sizes of an export, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Requests are multiples of this size.
    pub minimum: u32,
    /// Multiples of this size perform best.
    pub preferred: u32,
    /// Longest payload.
    pub maximum: u32,
}

/// Appends the server's greeting.
pub fn greeting(out: &mut Vec<u8>) {
    out.extend(NBDMAGIC.to_be_bytes());
    out.extend(IHAVEOPT.to_be_bytes());
    out.extend((FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
}

/// Appends an answer to `option` with `data`.
pub fn option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

/// Appends an answer that refuses the option; `text` is for people.
pub fn option_error(out: &mut Vec<u8>, option: u32, error: OptionError, text: &str) {
    option_reply(out, option, REP_ERROR | error as u32, text.as_bytes());
}

/// Appends an answer that accepts the option, or ends its list.
pub fn reply_ack(out: &mut Vec<u8>, option: u32) {
    option_reply(out, option, REP_ACK, &[]);
}

/// Appends an export, in answer to [`LIST`].
pub fn reply_server(out: &mut Vec<u8>, name: &str) {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    option_reply(out, LIST, REP_SERVER, &data);
}

fn reply_info(out: &mut Vec<u8>, option: u32, kind: u16, data: &[u8]) {
    let data = [&kind.to_be_bytes(), data].concat();
    option_reply(out, option, REP_INFO, &data);
}

/// Appends size and flags of the export, in answer to [`INFO`] or [`GO`].
pub fn reply_export(out: &mut Vec<u8>, option: u32, bytes: u64, flags: u16) {
    let data = [&bytes.to_be_bytes()[..], &flags.to_be_bytes()].concat();
    reply_info(out, option, INFO_EXPORT, &data);
}

/// Appends the export's name.
pub fn reply_name(out: &mut Vec<u8>, option: u32, name: &str) {
    reply_info(out, option, INFO_NAME, name.as_bytes());
}

/// Appends the export's block sizes.
pub fn reply_block_sizes(out: &mut Vec<u8>, option: u32, sizes: BlockSizes) {
    let numbers = [sizes.minimum, sizes.preferred, sizes.maximum];
    reply_info(out, option, INFO_BLOCK_SIZE, &numbers.map(u32::to_be_bytes).concat());
}

/// Appends a metadata context and its number.
pub fn reply_meta_context(out: &mut Vec<u8>, option: u32, id: u32, name: &str) {
    let data = [&id.to_be_bytes()[..], name.as_bytes()].concat();
    option_reply(out, option, REP_META_CONTEXT, &data);
}

/// Appends the answer to [`EXPORT_NAME`].
pub fn export_reply(out: &mut Vec<u8>, bytes: u64, flags: u16, client: ClientFlags) {
    out.extend(bytes.to_be_bytes());
    out.extend(flags.to_be_bytes());
    if !client.no_zeroes {
        out.extend([0; 124]);
    }
}
