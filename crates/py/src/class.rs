//! Macro for Python classes with read-only fields: each field once, with its type, doc comment and
//! value.

/// Defines a class whose fields Python can read, and its constructor `new`: first the arguments and
/// statements of `new`, then the fields.
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
