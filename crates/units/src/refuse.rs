//! Refusal of wrong input in one line.

/// Returns `error` if the input is wrong: `refuse_if(length > MAX, Error::TooLong)?`.
#[inline(always)]
pub fn refuse_if<E>(is_wrong: bool, error: E) -> Result<(), E> {
    if is_wrong { Err(error) } else { Ok(()) }
}
