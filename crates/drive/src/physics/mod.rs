//! Physics of media and case: heat, power, wear and errors, and variation between blocks.

pub mod network;
pub mod power;
pub mod reliability;
pub mod thermal;
pub mod variation;
