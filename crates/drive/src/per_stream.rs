//! An element per write stream at a fixed place, so that the loops of copies and programs need no
//! bounds check.

use std::ops::{Deref, DerefMut, Index, IndexMut};

/// Maximum number of write streams of a drive: 64 placement handles (`profile/schema.rs`), and
/// copies of each.
pub const STREAMS_MAX: usize = 128;

/// An element per write stream of the drive; the other elements are unused defaults.
pub struct PerStream<T> {
    all: [T; STREAMS_MAX],
    count: usize,
}

const _: () = assert!(STREAMS_MAX.is_power_of_two(), "an index is masked");

impl<T: Default> PerStream<T> {
    /// Creates elements for `count` streams with `make`.
    pub fn new(count: usize, make: impl Fn() -> T) -> PerStream<T> {
        assert!(count <= STREAMS_MAX, "a drive has at most {STREAMS_MAX} write streams");
        let all = |stream| if stream < count { make() } else { T::default() };
        PerStream { all: std::array::from_fn(all), count }
    }
}

impl<T> Deref for PerStream<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.all[..self.count]
    }
}

impl<T> DerefMut for PerStream<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.all[..self.count]
    }
}

impl<T> Index<usize> for PerStream<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, stream: usize) -> &T {
        debug_assert!(stream < self.count);
        &self.all[stream % STREAMS_MAX]
    }
}

impl<T> IndexMut<usize> for PerStream<T> {
    #[inline(always)]
    fn index_mut(&mut self, stream: usize) -> &mut T {
        debug_assert!(stream < self.count);
        &mut self.all[stream % STREAMS_MAX]
    }
}
