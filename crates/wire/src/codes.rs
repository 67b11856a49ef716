//! Enumerations whose variants have codes on the wire.

/// Defines an enumeration with the functions `of`, from a code, and `ALL`.
macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the specification's names")]
        pub enum $name { $($variant = $value,)* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// From its code.
            #[inline]
            pub fn of(code: u8) -> Option<$name> {
                match code { $($value => Some($name::$variant),)* _ => None }
            }
        }
    };
}

pub(crate) use codes;
