//! Classes of Python that hold what the core says: each field once, with its type, its words and
//! its value.

/// A class whose fields Python reads, and `new`, which makes it: first what `new` takes and
/// computes, then the fields.
macro_rules! class {
    (
        $(#[$of_class:meta])*
        $name:ident($($argument:tt)*) { $($before:tt)* }
        $($(#[$words:meta])* $field:ident: $type:ty = $value:expr,)*
    ) => {
        $(#[$of_class])*
        pub(crate) struct $name { $($(#[$words])* $field: $type,)* }

        impl $name {
            pub(crate) fn new($($argument)*) -> pyo3::PyResult<$name> {
                $($before)*
                Ok($name { $($field: $value,)* })
            }
        }
    };
}
