//! NVMe over TCP: reading PDUs from a byte stream and writing PDUs to it.
//!
//! Source: NVMe over Fabrics 1.1, section 7.4 (TCP transport; TP 8000). A PDU consists of a header,
//! whose length depends on the type, and optionally the header's digest, padding, data, and the
//! data's digest. A decoder needs the whole PDU in its buffer and borrows the data from it. The
//! caller limits memory by `data_bytes_max`: a longer PDU is refused as soon as its first eight
//! bytes are known.

use crc32c::crc32c;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use super::entry::{Cqe, Sqe};
use super::layout::layout;
use crate::codes::codes;

/// Bytes of the common part of all headers.
pub const HEADER_BYTES: usize = 8;
const DIGEST_BYTES: usize = 4;
/// Bytes of an initialization PDU.
const INIT_BYTES: usize = 128;
/// Largest data alignment that a host may ask for, in dwords minus one: 128 bytes.
pub const ALIGNMENT_MAX: u8 = 31;
/// Bytes of the short headers.
const SHORT_BYTES: usize = 24;
/// Bytes of a command capsule's header.
const COMMAND_BYTES: usize = 72;
/// Bytes of a faulty PDU that a termination request quotes at most.
const TERM_DATA_MAX: usize = 128;

/// Flag: a header digest follows.
const FLAG_HEADER_DIGEST: u8 = 1;
/// Flag: a data digest follows.
const FLAG_DATA_DIGEST: u8 = 1 << 1;
/// Flag of a data PDU: last PDU of a transfer.
pub const FLAG_LAST: u8 = 1 << 2;
/// Flag of a data PDU to the host: replaces a completion without error and result.
pub const FLAG_SUCCESS: u8 = 1 << 3;

codes! {
    /// PDU types.
    PduType {
        IcReq = 0,
        IcResp = 1,
        HostTerm = 2,
        ControllerTerm = 3,
        Command = 4,
        Response = 5,
        DataToController = 6,
        DataToHost = 7,
        R2t = 9,
    }
}

impl PduType {
    /// Bytes of the header.
    #[inline]
    pub fn header_bytes(self) -> usize {
        match self {
            PduType::IcReq | PduType::IcResp => INIT_BYTES,
            PduType::Command => COMMAND_BYTES,
            _ => SHORT_BYTES,
        }
    }

    /// True if the PDU has neither digests nor negotiated padding.
    #[inline]
    fn is_bare(self) -> bool {
        use PduType as P;
        matches!(self, P::IcReq | P::IcResp | P::HostTerm | P::ControllerTerm)
    }

    fn may_carry_data(self) -> bool {
        use PduType as P;
        matches!(
            self,
            P::Command | P::DataToController | P::DataToHost | P::HostTerm | P::ControllerTerm
        )
    }
}

/// Digests and data alignment that both sides agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// True if headers have a digest.
    pub header: bool,
    /// True if data has a digest.
    pub data: bool,
    /// Alignment of data in dwords minus one, at most 31.
    alignment: u8,
}

impl Digests {
    /// Reads the field of an initialization PDU.
    pub const fn from_bits(bits: u8) -> Digests {
        Digests { header: bits & 1 != 0, data: bits & 2 != 0, alignment: 0 }
    }

    /// Sets the data alignment that the other side requests in its initialization PDU; at most 31.
    pub fn aligned(self, alignment: u8) -> Digests {
        Digests { alignment, ..self }
    }

    /// Returns the offset of data after a header that ends at `head`.
    fn data_offset(self, head: usize) -> usize {
        head.next_multiple_of(4 * (usize::from(self.alignment) + 1))
    }

    /// Returns the field of an initialization PDU.
    pub fn bits(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }
}

layout! {
    /// Common part of all headers.
    struct Common: 8 {
        pub kind: u8,
        pub flags: u8,
        pub header_bytes: u8,
        pub data_offset: u8,
        pub pdu_bytes: U32,
    }

    /// Fields of an initialization request or response.
    pub struct InitPdu: 8 {
        /// Version of the PDU format; 0.
        pub version: U16,
        /// Data alignment that the sender requests, in dwords minus one; at most 31.
        pub alignment: u8,
        /// See [`Digests`].
        pub digests: u8,
        /// Request: R2Ts that may be outstanding for a command, minus one. Response: most bytes of
        /// a data PDU to the controller.
        pub max: U32,
    }

    /// Fields of a data PDU and of a Ready to Transfer.
    pub struct DataPdu: 16 {
        /// Identifier of the command that owns the data.
        pub cid: U16,
        /// Transfer tag, which the controller chooses; not used in data to the host.
        pub tag: U16,
        /// Offset in the command's data.
        pub offset: U32,
        /// Number of bytes.
        pub bytes: U32,
        [reserved: U32],
    }

    /// Fields of a termination request.
    pub struct TermPdu: 16 {
        /// See [`FaultKind`].
        pub status: U16,
        /// Details: the offset of the wrong field, or the wrong digest.
        pub information: U32,
        [reserved: [u8; 10]],
    }
}

/// Data of a PDU, borrowed from the decoder's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Bytes of the part in this PDU.
    pub bytes: &'a [u8],
    /// True if the digest was wrong: the command fails, the connection continues.
    pub is_damaged: bool,
}

/// Protocol data unit of NVMe/TCP, by type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pdu<'a> {
    /// Initialize Connection Request.
    IcReq(InitPdu),
    /// Initialize Connection Response.
    IcResp(InitPdu),
    /// The host ends the connection.
    HostTerm(TermPdu),
    /// The controller ends the connection.
    ControllerTerm(TermPdu),
    /// Command, with or without data in the capsule.
    Command(&'a Sqe, Data<'a>),
    /// Completion.
    Response(Cqe),
    /// Data to the controller; the flag can be [`FLAG_LAST`].
    DataToController(DataPdu, u8, Data<'a>),
    /// Data to the host; the flags can be [`FLAG_LAST`] and [`FLAG_SUCCESS`].
    DataToHost(DataPdu, u8, Data<'a>),
    /// The controller is ready for data.
    R2t(DataPdu),
}

/// Reason for which a connection must end; sent in a termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Fatal error status of the termination request.
    pub kind: FaultKind,
    /// Offset of the wrong field in the header, or the wrong digest.
    pub information: u32,
}

/// Kinds of faults and their codes in a termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FaultKind {
    /// A header field has an invalid value.
    InvalidHeaderField = 1,
    /// The PDU is not allowed at this point.
    Sequence = 2,
    /// The header's digest is wrong.
    HeaderDigest = 3,
    /// Data that the controller did not ask for.
    DataOutOfRange = 4,
    /// More data than allowed.
    DataLimitExceeded = 5,
    /// Unsupported parameter.
    UnsupportedParameter = 6,
}

impl Fault {
    /// Fault of a header field with this offset.
    pub fn field(place: u32) -> Fault {
        Fault { kind: FaultKind::InvalidHeaderField, information: place }
    }

    /// Fault of another kind, without details.
    pub fn new(kind: FaultKind) -> Fault {
        Fault { kind, information: 0 }
    }
}

/// Decoder of PDUs in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    /// Digests that both sides agreed on.
    pub digests: Digests,
    /// Most data of a PDU, in bytes.
    pub data_bytes_max: u32,
}

impl Decoder {
    /// Returns the PDU at the start of `buffer` and its length; `None` while it is incomplete.
    ///
    /// # Errors
    /// [`Fault`]: the rest of the stream cannot be parsed.
    #[inline]
    pub fn decode<'a>(&self, buffer: &'a [u8]) -> Result<Option<(Pdu<'a>, usize)>, Fault> {
        let Ok((common, _)) = Common::ref_from_prefix(buffer) else { return Ok(None) };
        let kind = PduType::from_code(common.kind).ok_or(Fault::field(0))?;
        let header_bytes = kind.header_bytes();
        if usize::from(common.header_bytes) != header_bytes {
            return Err(Fault::field(2));
        }
        let digests = if kind.is_bare() { Digests::default() } else { self.digests };
        let head = header_bytes + DIGEST_BYTES * usize::from(digests.header);
        let whole = common.pdu_bytes.get() as usize;
        let (data, tail) = data_place(kind, *common, head, whole, digests)?;
        if data.len() > self.data_max(kind) {
            return Err(Fault::new(FaultKind::DataLimitExceeded));
        }
        if (common.flags & FLAG_HEADER_DIGEST != 0) != digests.header
            || (common.flags & FLAG_DATA_DIGEST != 0) != (tail > 0)
        {
            return Err(Fault::field(1));
        }
        if buffer.len() < head {
            return Ok(None);
        }
        if digests.header && digest_at(buffer, header_bytes) != crc32c(&buffer[..header_bytes]) {
            let given = digest_at(buffer, header_bytes);
            return Err(Fault { kind: FaultKind::HeaderDigest, information: given });
        }
        if buffer.len() < whole {
            return Ok(None);
        }
        let bytes = &buffer[data.clone()];
        let is_damaged = tail > 0 && digest_at(buffer, data.end) != crc32c(bytes);
        let pdu =
            parse(kind, &buffer[HEADER_BYTES..header_bytes], common.flags, bytes, is_damaged)?;
        Ok(Some((pdu, whole)))
    }

    fn data_max(&self, kind: PduType) -> usize {
        if kind.is_bare() { TERM_DATA_MAX } else { self.data_bytes_max as usize }
    }
}

/// Returns the range of a PDU's data, and the number of digest bytes after it.
#[inline]
fn data_place(
    kind: PduType,
    common: Common,
    head: usize,
    whole: usize,
    digests: Digests,
) -> Result<(std::ops::Range<usize>, usize), Fault> {
    if whole < head {
        return Err(Fault::field(4));
    }
    if whole == head {
        return Ok((head..head, 0));
    }
    if !kind.may_carry_data() {
        return Err(Fault::field(4));
    }
    let tail = DIGEST_BYTES * usize::from(digests.data);
    let begin = if kind.is_bare() { head } else { usize::from(common.data_offset) };
    // With data of zero length it would be ambiguous if a digest follows.
    if begin < head || begin + tail >= whole {
        return Err(Fault::field(3));
    }
    Ok((begin..whole - tail, tail))
}

fn digest_at(buffer: &[u8], place: usize) -> u32 {
    U32::read_from_prefix(&buffer[place..]).map_or(0, |(value, _)| value.get())
}

#[inline]
fn parse<'a>(
    kind: PduType,
    fields: &'a [u8],
    flags: u8,
    bytes: &'a [u8],
    is_damaged: bool,
) -> Result<Pdu<'a>, Fault> {
    let data = Data { bytes, is_damaged };
    Ok(match kind {
        PduType::IcReq => Pdu::IcReq(take(fields)?),
        PduType::IcResp => Pdu::IcResp(take(fields)?),
        PduType::HostTerm => Pdu::HostTerm(take(fields)?),
        PduType::ControllerTerm => Pdu::ControllerTerm(take(fields)?),
        PduType::Command => {
            let (sqe, _) = Sqe::ref_from_prefix(fields).map_err(|_| Fault::field(2))?;
            Pdu::Command(sqe, data)
        }
        PduType::Response => Pdu::Response(take(fields)?),
        PduType::R2t => Pdu::R2t(take(fields)?),
        PduType::DataToController | PduType::DataToHost => {
            let head: DataPdu = take(fields)?;
            if head.bytes.get() as usize != bytes.len() {
                return Err(Fault::field(16));
            }
            let flags = flags & (FLAG_LAST | FLAG_SUCCESS);
            match kind {
                PduType::DataToController => Pdu::DataToController(head, flags, data),
                _ => Pdu::DataToHost(head, flags, data),
            }
        }
    })
}

fn take<T: FromBytes>(fields: &[u8]) -> Result<T, Fault> {
    T::read_from_prefix(fields).map(|(value, _)| value).map_err(|_| Fault::field(2))
}

/// Appends a PDU to `out`.
///
/// # Panics
/// If the data is too long for a PDU, 4 GiB: a bug of the caller.
#[inline]
pub fn encode(out: &mut Vec<u8>, pdu: &Pdu<'_>, digests: Digests) {
    let none = &[][..];
    let (kind, flags, fields, data) = match pdu {
        Pdu::IcReq(init) => (PduType::IcReq, 0, init.as_bytes(), none),
        Pdu::IcResp(init) => (PduType::IcResp, 0, init.as_bytes(), none),
        Pdu::HostTerm(term) => (PduType::HostTerm, 0, term.as_bytes(), none),
        Pdu::ControllerTerm(term) => (PduType::ControllerTerm, 0, term.as_bytes(), none),
        Pdu::Command(sqe, data) => (PduType::Command, 0, sqe.as_bytes(), data.bytes),
        Pdu::Response(cqe) => (PduType::Response, 0, cqe.as_bytes(), none),
        Pdu::DataToController(head, flags, data) => {
            (PduType::DataToController, *flags, head.as_bytes(), data.bytes)
        }
        Pdu::DataToHost(head, flags, data) => {
            (PduType::DataToHost, *flags, head.as_bytes(), data.bytes)
        }
        Pdu::R2t(r2t) => (PduType::R2t, 0, r2t.as_bytes(), none),
    };
    let digests = if kind.is_bare() { Digests::default() } else { digests };
    put_head(out, kind, flags, fields, data.len(), digests);
    out.extend_from_slice(data);
    if digests.data && !data.is_empty() {
        out.extend_from_slice(&crc32c(data).to_le_bytes());
    }
}

/// Appends a PDU with data to the host; `fill` appends the number of bytes that `head` specifies.
///
/// # Errors
/// Errors of `fill`; `out` is then unchanged.
///
/// # Panics
/// As [`encode`].
#[inline]
pub fn encode_data_with<E>(
    out: &mut Vec<u8>,
    head: &DataPdu,
    flags: u8,
    digests: Digests,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let (begin, bytes) = (out.len(), head.bytes.get() as usize);
    put_head(out, PduType::DataToHost, flags, head.as_bytes(), bytes, digests);
    let data = out.len();
    if let Err(why) = fill(out) {
        out.truncate(begin);
        return Err(why);
    }
    assert_eq!(out.len(), data + bytes, "the header has said how many");
    if digests.data && bytes > 0 {
        let digest = crc32c(&out[data..]);
        out.extend_from_slice(&digest.to_le_bytes());
    }
    Ok(())
}

#[inline(always)]
fn put_head(
    out: &mut Vec<u8>,
    kind: PduType,
    flags: u8,
    fields: &[u8],
    data_bytes: usize,
    digests: Digests,
) {
    let data_digest = digests.data && data_bytes > 0;
    let header_bytes = kind.header_bytes();
    let head = header_bytes + DIGEST_BYTES * usize::from(digests.header);
    let is_aligned = data_bytes > 0 && !kind.is_bare();
    let begin = if is_aligned { digests.data_offset(head) } else { head };
    let whole = begin + data_bytes + DIGEST_BYTES * usize::from(data_digest);
    let more = if digests.header { FLAG_HEADER_DIGEST } else { 0 }
        | if data_digest { FLAG_DATA_DIGEST } else { 0 };
    let common = Common {
        kind: kind as u8,
        flags: flags | more,
        header_bytes: header_bytes as u8,
        data_offset: if is_aligned { begin as u8 } else { 0 },
        pdu_bytes: u32::try_from(whole).expect("callers split long data").into(),
    };
    let mut header = [0; INIT_BYTES + DIGEST_BYTES];
    debug_assert!(begin <= header.len(), "the largest alignment is that of the longest header");
    let rest = header[..header_bytes].split_at_mut(HEADER_BYTES);
    rest.0.copy_from_slice(common.as_bytes());
    rest.1[..fields.len()].copy_from_slice(fields);
    if digests.header {
        let digest = crc32c(&header[..header_bytes]);
        header[header_bytes..head].copy_from_slice(&digest.to_le_bytes());
    }
    out.reserve(whole);
    out.extend_from_slice(&header[..begin]);
}

impl DataPdu {
    /// Header fields for a part of a command's data.
    pub fn new(cid: u16, tag: u16, offset: u32, bytes: u32) -> DataPdu {
        let (cid, tag) = (cid.into(), tag.into());
        DataPdu { cid, tag, offset: offset.into(), bytes: bytes.into(), ..DataPdu::default() }
    }
}

impl TermPdu {
    /// Termination request for this fault.
    pub fn new(fault: Fault) -> TermPdu {
        TermPdu {
            status: (fault.kind as u16).into(),
            information: fault.information.into(),
            ..TermPdu::default()
        }
    }
}
