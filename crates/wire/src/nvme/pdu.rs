//! NVMe over TCP: PDUs, taken from and put into a stream of bytes.
//!
//! Source: NVMe over Fabrics 1.1, section 7.4 (TCP transport; TP 8000). A PDU is a header of fixed
//! length by its type, optionally the header's digest, padding, data, and the data's digest. A
//! decoder needs the whole PDU in its buffer and lends the data out of it: the caller bounds memory
//! through `data_bytes_max`, beyond which a PDU is refused from its first eight bytes.

use crc32c::crc32c;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use super::entry::{Cqe, Sqe};
use super::layout::layout;
use crate::codes::codes;

/// Bytes of the part that all headers begin with.
pub const HEADER_BYTES: usize = 8;
const DIGEST_BYTES: usize = 4;
/// Bytes of an initialization PDU.
const INIT_BYTES: usize = 128;
/// Most alignment of data that a host may ask for, dwords less one: 128 bytes.
pub const ALIGNMENT_MAX: u8 = 31;
/// Bytes of headers with a few fields.
const SHORT_BYTES: usize = 24;
/// Bytes of a command capsule's header.
const COMMAND_BYTES: usize = 72;
/// A termination request carries at most so much of the PDU it complains of.
const TERM_DATA_MAX: usize = 128;

/// Flag: a header digest follows.
const FLAG_HEADER_DIGEST: u8 = 1;
/// Flag: a data digest follows.
const FLAG_DATA_DIGEST: u8 = 1 << 1;
/// Flag of data: the last PDU of a transfer.
pub const FLAG_LAST: u8 = 1 << 2;
/// Flag of data to the host: stands for a completion without error or result.
pub const FLAG_SUCCESS: u8 = 1 << 3;

codes! {
    /// Types of PDUs.
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
    /// Bytes of its header.
    #[inline]
    pub fn header_bytes(self) -> usize {
        match self {
            PduType::IcReq | PduType::IcResp => INIT_BYTES,
            PduType::Command => COMMAND_BYTES,
            _ => SHORT_BYTES,
        }
    }

    /// Neither digests nor negotiated padding.
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

/// What both sides agreed on: digests, and where data begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Of headers.
    pub header: bool,
    /// Of data.
    pub data: bool,
    /// To a multiple of which data is padded: dwords less one, at most 31.
    alignment: u8,
}

impl Digests {
    /// From the field of an initialization PDU.
    pub const fn of(bits: u8) -> Digests {
        Digests { header: bits & 1 != 0, data: bits & 2 != 0, alignment: 0 }
    }

    /// With data where the other side wants it, by its field of the initialization; at most 31.
    pub fn aligned(self, alignment: u8) -> Digests {
        Digests { alignment, ..self }
    }

    /// Where data begins behind a header that ends at `head`.
    fn data_offset(self, head: usize) -> usize {
        head.next_multiple_of(4 * (usize::from(self.alignment) + 1))
    }

    /// As that field.
    pub fn bits(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }
}

layout! { 8:
    /// What all headers begin with.
    struct Common {
        kind: u8,
        flags: u8,
        header_bytes: u8,
        data_offset: u8,
        pdu_bytes: U32,
    }
}

layout! { 8:
    /// Fields of an initialization request or response.
    pub struct InitPdu {
        /// Version of the format; 0.
        pub version: U16,
        /// Data alignment that the sender wants, in dwords less one; at most 31.
        pub alignment: u8,
        /// See [`Digests`].
        pub digests: u8,
        /// Request: R2Ts outstanding for a command, less one. Response: bytes of a data PDU to the
        /// controller, at most.
        pub max: U32,
    }
}

layout! { 16:
    /// Fields of a data PDU, and of a Ready to Transfer.
    pub struct DataPdu {
        /// Identifier of the command that the data belongs to.
        pub cid: U16,
        /// The controller's name for this transfer; not used in data to the host.
        pub tag: U16,
        /// Place in the command's data.
        pub offset: U32,
        /// Bytes.
        pub bytes: U32,
        reserved: U32,
    }
}

layout! { 16:
    /// Fields of a termination request.
    pub struct TermPdu {
        /// See [`FaultKind`].
        pub status: U16,
        /// What exactly; the place of the wrong field, or the wrong digest.
        pub information: U32,
        reserved: [u8; 10],
    }
}

/// Data of a PDU, lent from the decoder's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Bytes of the part that this PDU carries.
    pub bytes: &'a [u8],
    /// Their digest was wrong: the command fails, the connection lives.
    pub is_damaged: bool,
}

/// A protocol data unit of NVMe/TCP, by type.
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
    /// A command, with data in the capsule or without.
    Command(&'a Sqe, Data<'a>),
    /// A completion.
    Response(Cqe),
    /// Data to the controller; the flags are [`FLAG_LAST`].
    DataToController(DataPdu, u8, Data<'a>),
    /// Data to the host; the flags are [`FLAG_LAST`] and [`FLAG_SUCCESS`].
    DataToHost(DataPdu, u8, Data<'a>),
    /// The controller is ready for data.
    R2t(DataPdu),
}

/// Why a connection cannot go on; sent in a termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The fatal error status of the termination request.
    pub kind: FaultKind,
    /// The wrong field's place in the header, or the wrong digest.
    pub information: u32,
}

/// Kinds of faults, with the code of a termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FaultKind {
    /// A header's field has a wrong value.
    InvalidHeaderField = 1,
    /// A PDU that may not come now.
    Sequence = 2,
    /// The header's digest is wrong.
    HeaderDigest = 3,
    /// Data that was not asked for.
    DataOutOfRange = 4,
    /// More data than allowed.
    DataLimitExceeded = 5,
    /// A parameter that is not supported.
    UnsupportedParameter = 6,
}

impl Fault {
    /// A field of the header is wrong.
    pub fn field(place: u32) -> Fault {
        Fault { kind: FaultKind::InvalidHeaderField, information: place }
    }

    /// Any other kind, without more to say.
    pub fn of(kind: FaultKind) -> Fault {
        Fault { kind, information: 0 }
    }
}

/// Takes PDUs from a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    /// Agreed on.
    pub digests: Digests,
    /// Most data of one PDU, bytes.
    pub data_bytes_max: u32,
}

impl Decoder {
    /// The PDU at the beginning of `buffer` and its length; `None` if it is not there as a whole
    /// yet.
    ///
    /// # Errors
    /// [`Fault`]: the stream cannot be understood any further.
    #[inline]
    pub fn decode<'a>(&self, buffer: &'a [u8]) -> Result<Option<(Pdu<'a>, usize)>, Fault> {
        let Ok((common, _)) = Common::ref_from_prefix(buffer) else { return Ok(None) };
        let kind = PduType::of(common.kind).ok_or(Fault::field(0))?;
        let header_bytes = kind.header_bytes();
        if usize::from(common.header_bytes) != header_bytes {
            return Err(Fault::field(2));
        }
        let digests = if kind.is_bare() { Digests::default() } else { self.digests };
        let head = header_bytes + DIGEST_BYTES * usize::from(digests.header);
        let whole = common.pdu_bytes.get() as usize;
        let (data, tail) = data_place(kind, *common, head, whole, digests)?;
        if data.len() > self.data_max(kind) {
            return Err(Fault::of(FaultKind::DataLimitExceeded));
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

/// Where the data of a PDU lies, and how many bytes of digest follow it.
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
    // Data of zero length would make the digest's presence ambiguous.
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

/// Puts a PDU at the end of `out`.
///
/// # Panics
/// When data is longer than a PDU can say, 4 GiB: a bug of the caller.
#[inline]
pub fn encode(out: &mut Vec<u8>, pdu: &Pdu<'_>, digests: Digests) {
    let none = &[][..];
    match pdu {
        Pdu::IcReq(init) => put(out, PduType::IcReq, 0, init.as_bytes(), none, digests),
        Pdu::IcResp(init) => put(out, PduType::IcResp, 0, init.as_bytes(), none, digests),
        Pdu::HostTerm(term) => put(out, PduType::HostTerm, 0, term.as_bytes(), none, digests),
        Pdu::ControllerTerm(term) => {
            put(out, PduType::ControllerTerm, 0, term.as_bytes(), none, digests);
        }
        Pdu::Command(sqe, data) => {
            put(out, PduType::Command, 0, sqe.as_bytes(), data.bytes, digests);
        }
        Pdu::Response(cqe) => put(out, PduType::Response, 0, cqe.as_bytes(), none, digests),
        Pdu::DataToController(head, flags, data) => {
            put(out, PduType::DataToController, *flags, head.as_bytes(), data.bytes, digests);
        }
        Pdu::DataToHost(head, flags, data) => {
            put(out, PduType::DataToHost, *flags, head.as_bytes(), data.bytes, digests);
        }
        Pdu::R2t(r2t) => put(out, PduType::R2t, 0, r2t.as_bytes(), none, digests),
    }
}

/// Puts data to the host at the end of `out`, as many bytes as `head` says, which `fill` appends.
///
/// # Errors
/// Those of `fill`; `out` is as before then.
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

#[inline]
fn put(out: &mut Vec<u8>, kind: PduType, flags: u8, fields: &[u8], data: &[u8], digests: Digests) {
    let digests = if kind.is_bare() { Digests::default() } else { digests };
    put_head(out, kind, flags, fields, data.len(), digests);
    out.extend_from_slice(data);
    if digests.data && !data.is_empty() {
        out.extend_from_slice(&crc32c(data).to_le_bytes());
    }
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
    /// Data of a command.
    pub fn new(cid: u16, tag: u16, offset: u32, bytes: u32) -> DataPdu {
        let (cid, tag) = (cid.into(), tag.into());
        DataPdu { cid, tag, offset: offset.into(), bytes: bytes.into(), ..DataPdu::default() }
    }
}

impl TermPdu {
    /// The connection ends for this reason.
    pub fn new(fault: Fault) -> TermPdu {
        TermPdu {
            status: (fault.kind as u16).into(),
            information: fault.information.into(),
            ..TermPdu::default()
        }
    }
}
