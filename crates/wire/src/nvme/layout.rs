//! Macro for structures with the memory layout of their specification.

/// Defines structures of little-endian fields; the size in bytes follows the name. Reserved fields,
/// and fields that drivebay leaves at zero, stand in brackets. The structures can be read from
/// bytes without conversion; their default is all zeros. (Arrays of more than 32 elements have no
/// `Default`.)
macro_rules! layout {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident: $bytes:literal {
        $($(#[$about:meta])* $(pub $field:ident: $kind:ty)? $([$gap:ident: $unused:ty])?,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::KnownLayout,
            zerocopy::Immutable,
            zerocopy::Unaligned,
        )]
        #[repr(C)]
        $vis struct $name {
            $($(#[$about])* $(pub $field: $kind)? $(#[doc(hidden)] pub $gap: $unused)?,)*
        }

        impl Default for $name {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        const _: () = assert!(size_of::<$name>() == $bytes);
    )*};
}

/// Returns a structure's bytes.
pub fn bytes_of(structure: &(impl zerocopy::IntoBytes + zerocopy::Immutable)) -> Vec<u8> {
    structure.as_bytes().to_vec()
}

pub(super) use layout;
