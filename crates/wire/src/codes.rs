//! Macro for enumerations whose variants have codes on the wire.

/// Defines enumerations, each with `from_code`, which returns the variant of a code, and `ALL`.
macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident { $($variant:ident = $value:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the specification's names")]
        pub enum $name { $($variant = $value,)* }

        impl $name {
            /// All variants.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// Returns the variant with this code; `None` if the code is unknown.
            #[inline]
            pub fn from_code(code: u8) -> Option<$name> {
                match code { $($value => Some($name::$variant),)* _ => None }
            }
        }
    )*};
}

pub(crate) use codes;
