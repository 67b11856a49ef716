//! Enumerations whose variants have words in files and results.

/// Defines an enumeration with `ALL`, its variants in order, `name`, the word of one, and
/// `from_name`.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// All, in the order of their codes in results.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// The word for it in files and results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// What a word stands for.
            #[must_use]
            pub fn from_name(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|one| one.name() == word)
            }
        }
    };
}
