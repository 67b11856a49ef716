//! Structures that lie in memory as their specification has them.

/// Structures of little-endian fields without gaps, each of the size that stands before it: taken
/// from bytes as they are, and zeros by default. (Arrays of more than 32 elements have no
/// `Default`.)
macro_rules! layout {
    ($($bytes:literal: $(#[$meta:meta])* $vis:vis struct $name:ident $fields:tt)*) => {$(
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
