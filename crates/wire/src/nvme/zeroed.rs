//! Defaults of large structures.

/// The default of these structures is all zeros; arrays of more than 32 elements have no `Default`.
macro_rules! zeroed {
    ($($name:ident)*) => {$(
        impl Default for $name {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }
    )*};
}

pub(super) use zeroed;
