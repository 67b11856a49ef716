//! Profiles that come with the crate: for examples, tests and first steps.
//!
//! They have all values of profiles in `drives/` of the drivebay repository, which has more drives
//! and the figures that each was compared with, and are copies of files in its `hosts/`.
//! `tests/test_packages.py` compares them.

/// Samsung SM951 512 GB with AHCI firmware, in [`WINDOWS_8_1_Z97`].
pub const SM951_AHCI_512: &str = include_str!("../samples/sm951-ahci-512.toml");

/// Samsung SM951 256 GB with NVMe firmware; its base is [`SM951_AHCI_512`].
pub const SM951_NVME_256: &str = include_str!("../samples/sm951-nvme-256.toml");

/// Desktop of 2014 with Windows 8.1.
pub const WINDOWS_8_1_Z97: &str = include_str!("../samples/windows-8.1-z97.toml");
