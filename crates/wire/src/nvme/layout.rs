//! Macro for structures with the memory layout of their specification.

/// Defines structures of little-endian fields without gaps; the size in bytes follows the name.
/// They can be read from bytes without conversion; their default is all zeros. (Arrays of more than
/// 32 elements have no `Default`.)
macro_rules! layout {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident: $bytes:literal $fields:tt)*) => {$(
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
        $vis struct $name $fields

        impl Default for $name {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        const _: () = assert!(size_of::<$name>() == $bytes);
    )*};
}

pub(super) use layout;
