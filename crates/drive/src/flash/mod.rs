//! The media: dies and channels of flash, or cells that are written in place.

pub mod in_place;
pub mod nand;
