//! The media: dies and channels of flash, or cells that are written in place.

pub mod dies;
pub mod in_place;
