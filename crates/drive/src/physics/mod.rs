//! What the media and the case suffer: heat, power, wear and errors, and how blocks differ.

pub mod network;
pub mod power;
pub mod reliability;
pub mod thermal;
pub mod variation;
