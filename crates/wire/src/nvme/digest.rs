//! The digests of NVMe over TCP: CRC-32C (Castagnoli), as iSCSI has them (RFC 3720 appendix B.4).

/// CRC-32C of these bytes.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}
