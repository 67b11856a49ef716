//! Enumerations whose variants have names in files and results.

/// Defines an enumeration with `ALL` (its variants in order), `name` (the name of a variant) and
/// `from_name`.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// All variants, in the order of their codes in results.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// Name in files and results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// Returns the variant with this name.
            #[must_use]
            pub fn from_name(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|variant| variant.name() == word)
            }
        }
    };
}
