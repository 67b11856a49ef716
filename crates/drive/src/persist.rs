//! Saved state: written to a stream, read back, copied in memory.
//!
//! The data of a part is either given by the profile (sizes, times, costs) or has changed since:
//! its state. [`persist!`] names the fields of both kinds. A field in neither list does not
//! compile, so none can be forgotten. State is read into a fresh drive of the same profile: the
//! profile has set all sizes beforehand, and the stream determines neither sizes nor costs. Format:
//! the fields in the order of their lists, little-endian, without names; lists of variable length
//! begin with their length. Files, checksums and compression are not known here.

use std::collections::{BTreeSet, VecDeque};
use std::io::{Error, Read, Write};
use std::ops::Range;

use drivebay_units::{Nanos, Rng};

use crate::per_stream::PerStream;
use crate::stage::{STAGE_COUNT, Stages};

/// Maximum entries of a list of variable length: more than any profile's superblocks or buffer.
const ENTRIES_MAX: u64 = 1 << 22;

/// Latest time that a saved drive may contain: 36 years.
pub const TIME_MAX: u64 = 1 << 60;

/// Reason why a state cannot be read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The stream ended early or could not be read.
    #[error("the drive's state cannot be read: {0}")]
    Stream(#[from] Error),
    /// The machine has not enough memory for the drive.
    #[error("{0}")]
    Memory(String),
    /// The stream is not a state of a drive of this profile.
    #[error("this is no state of such a drive: {0}")]
    Wrong(String),
}

/// Returns an error unless `holds`.
pub fn ensure(holds: bool, what: &str) -> Result<(), StateError> {
    if holds { Ok(()) } else { Err(StateError::Wrong(what.to_owned())) }
}

/// A part with state that can be written, read back and copied.
pub trait Persist {
    /// Writes the state.
    fn save(&self, out: &mut dyn Write) -> Result<(), Error>;
    /// Reads the state of another part into this one, which has the same size.
    fn load(&mut self, from: &mut dyn Read) -> Result<(), StateError>;
    /// Copies the state of another part of the same size.
    fn copy_from(&mut self, other: &Self);
}

/// Lists the fields that are state, then those that the profile gives: `persist!(Fifo: free_at)`,
/// `persist!(WriteBuffer: next, ready; given: mask)`.
macro_rules! persist {
    ($type:ty: $($field:ident),+ $(; given: $($given:ident),+)?) => {
        impl $crate::persist::Persist for $type {
            fn save(&self, out: &mut dyn std::io::Write) -> Result<(), std::io::Error> {
                let Self { $($field,)+ $($($given: _,)+)? } = self;
                $($crate::persist::Persist::save($field, out)?;)+
                Ok(())
            }
            fn load(
                &mut self,
                from: &mut dyn std::io::Read,
            ) -> Result<(), $crate::persist::StateError> {
                let Self { $($field,)+ $($($given: _,)+)? } = self;
                $($crate::persist::Persist::load($field, from)?;)+
                Ok(())
            }
            fn copy_from(&mut self, other: &Self) {
                let Self { $($field,)+ $($($given: _,)+)? } = self;
                $($crate::persist::Persist::copy_from($field, &other.$field);)+
            }
        }
    };
}

/// Lists the variants of a part of which the profile chooses one; the state is that of this
/// variant: `persist_variant!(Media: PageMapped, InPlace)`.
macro_rules! persist_variant {
    ($type:ty: $($variant:ident),+ $(; without state: $($empty:ident),+)?) => {
        impl $crate::persist::Persist for $type {
            fn save(&self, out: &mut dyn std::io::Write) -> Result<(), std::io::Error> {
                match self {
                    $(Self::$variant(part) => part.save(out),)+
                    $($(Self::$empty)|+ => Ok(()),)?
                }
            }
            fn load(
                &mut self,
                from: &mut dyn std::io::Read,
            ) -> Result<(), $crate::persist::StateError> {
                match self {
                    $(Self::$variant(part) => part.load(from),)+
                    $($(Self::$empty)|+ => Ok(()),)?
                }
            }
            fn copy_from(&mut self, other: &Self) {
                match (self, other) {
                    $((Self::$variant(part), Self::$variant(other)) => part.copy_from(other),)+
                    _ => {}
                }
            }
        }
    };
}

/// Lists all variants of an enumeration: `persist_words!(Op: Read, Write)`.
macro_rules! persist_words {
    ($type:ty: $($word:ident),+) => {
        impl $crate::persist::Persist for $type {
            fn save(&self, out: &mut dyn std::io::Write) -> Result<(), std::io::Error> {
                match self {
                    $(Self::$word)|+ => (*self as u8).save(out),
                }
            }
            fn load(
                &mut self,
                from: &mut dyn std::io::Read,
            ) -> Result<(), $crate::persist::StateError> {
                let mut code = 0u8;
                code.load(from)?;
                let word = [$(Self::$word),+].into_iter().find(|word| *word as u8 == code);
                $crate::persist::ensure(word.is_some(), stringify!($type))?;
                *self = word.unwrap_or(*self);
                Ok(())
            }
            fn copy_from(&mut self, other: &Self) {
                *self = *other;
            }
        }
    };
}

pub(crate) use {persist, persist_variant, persist_words};

/// Implements [`Persist`] for numbers.
macro_rules! persist_numbers {
    ($($type:ty),+) => {$(
        impl Persist for $type {
            fn save(&self, out: &mut dyn Write) -> Result<(), Error> {
                out.write_all(&self.to_le_bytes())
            }
            fn load(&mut self, from: &mut dyn Read) -> Result<(), StateError> {
                let mut bytes = [0; size_of::<$type>()];
                from.read_exact(&mut bytes)?;
                *self = <$type>::from_le_bytes(bytes);
                Ok(())
            }
            fn copy_from(&mut self, other: &Self) {
                *self = *other;
            }
        }
    )+};
}

persist_numbers!(u8, u32, u64, i64);

/// Implements [`Persist`] for types that are written as numbers, and checked when read.
macro_rules! persist_as {
    ($type:ty as $number:ty, $to:expr, $back:expr) => {
        impl Persist for $type {
            fn save(&self, out: &mut dyn Write) -> Result<(), Error> {
                let to: fn(&$type) -> $number = $to;
                to(self).save(out)
            }
            fn load(&mut self, from: &mut dyn Read) -> Result<(), StateError> {
                let back: fn($number) -> Option<$type> = $back;
                let mut number = <$number>::default();
                number.load(from)?;
                *self = back(number).ok_or_else(|| {
                    StateError::Wrong(format!("{number:?} as {}", stringify!($type)))
                })?;
                Ok(())
            }
            fn copy_from(&mut self, other: &Self) {
                self.clone_from(other);
            }
        }
    };
}

persist_as!(bool as u8, |x| u8::from(*x), |n| (n < 2).then_some(n == 1));
persist_as!(usize as u64, |x| *x as u64, |n| usize::try_from(n).ok());
persist_as!(f64 as u64, |x| x.to_bits(), |n| Some(f64::from_bits(n)).filter(|x| x.is_finite()));
persist_as!(Nanos as u64, |x| x.0, |n| (n <= TIME_MAX).then_some(Nanos(n)));
persist_as!(Rng as [u64; 4], |x| x.state(), Rng::from_state);
persist_as!(Stages as [u64; STAGE_COUNT], |x| x.0, |n| Some(Stages(n)));

/// Implements [`Persist`] for sequences of fixed length.
macro_rules! persist_each {
    ($type:ty, $($generics:tt)+) => {
        impl<$($generics)+> Persist for $type {
            fn save(&self, out: &mut dyn Write) -> Result<(), Error> {
                self.iter().try_for_each(|entry| entry.save(out))
            }
            fn load(&mut self, from: &mut dyn Read) -> Result<(), StateError> {
                self.iter_mut().try_for_each(|entry| entry.load(from))
            }
            fn copy_from(&mut self, other: &Self) {
                let (len, others) = (self.iter().len(), other.iter().len());
                assert_eq!(len, others, "the same profile sized both");
                self.iter_mut().zip(other.iter()).for_each(|(entry, other)| entry.copy_from(other));
            }
        }
    };
}

persist_each!([T; N], T: Persist, const N: usize);
persist_each!(Vec<T>, T: Persist);
persist_each!(PerStream<T>, T: Persist);
// The profile decides if an optional part is present.
persist_each!(Option<Box<T>>, T: Persist);

impl<T: Persist> Persist for Box<T> {
    fn save(&self, out: &mut dyn Write) -> Result<(), Error> {
        (**self).save(out)
    }
    fn load(&mut self, from: &mut dyn Read) -> Result<(), StateError> {
        (**self).load(from)
    }
    fn copy_from(&mut self, other: &Self) {
        (**self).copy_from(other);
    }
}

/// Implements [`Persist`] for a value that may be absent; `persist_sometimes!(Nanos)` for
/// `Option<Nanos>`.
macro_rules! persist_sometimes {
    ($type:ty) => {
        impl $crate::persist::Persist for Option<$type> {
            fn save(&self, out: &mut dyn std::io::Write) -> Result<(), std::io::Error> {
                self.is_some().save(out)?;
                self.iter().try_for_each(|value| value.save(out))
            }
            fn load(
                &mut self,
                from: &mut dyn std::io::Read,
            ) -> Result<(), $crate::persist::StateError> {
                let mut present = false;
                present.load(from)?;
                *self = present.then(<$type>::default);
                self.iter_mut().try_for_each(|value| value.load(from))
            }
            fn copy_from(&mut self, other: &Self) {
                self.clone_from(other);
            }
        }
    };
}

pub(crate) use persist_sometimes;
persist_sometimes!(Nanos);

/// Implements [`Persist`] for collections of variable length.
macro_rules! persist_list {
    ($type:ty, $($generics:tt)+) => {
        impl<$($generics)+> Persist for $type {
            fn save(&self, out: &mut dyn Write) -> Result<(), Error> {
                (self.len() as u64).save(out)?;
                self.iter().try_for_each(|entry| entry.save(out))
            }
            fn load(&mut self, from: &mut dyn Read) -> Result<(), StateError> {
                let mut len = 0u64;
                len.load(from)?;
                ensure(len <= ENTRIES_MAX, &format!("a list of {len} entries"))?;
                self.clear();
                // Memory is allocated as entries arrive, not for the announced number.
                for _ in 0..len {
                    let mut entry = T::default();
                    entry.load(from)?;
                    self.extend([entry]);
                }
                Ok(())
            }
            fn copy_from(&mut self, other: &Self) {
                self.clone_from(other);
            }
        }
    };
}

persist_list!(VecDeque<T>, T: Persist + Default + Clone);
persist_list!(BTreeSet<T>, T: Persist + Default + Clone + Ord);

impl<A: Persist, B: Persist> Persist for (A, B) {
    fn save(&self, out: &mut dyn Write) -> Result<(), Error> {
        self.0.save(out)?;
        self.1.save(out)
    }
    fn load(&mut self, from: &mut dyn Read) -> Result<(), StateError> {
        self.0.load(from)?;
        self.1.load(from)
    }
    fn copy_from(&mut self, other: &Self) {
        self.0.copy_from(&other.0);
        self.1.copy_from(&other.1);
    }
}

persist!(Range<u64>: start, end);
