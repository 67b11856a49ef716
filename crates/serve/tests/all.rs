//! The protocols and the engine, tested from outside, as one binary.

mod ahci_pci;
mod contract;
mod memory_drive;
mod namespaces;
mod nbd;
mod nvme_access;
mod nvme_commands;
mod nvme_host;
mod nvme_pci;
mod nvme_placement;
mod nvme_reservations;
mod nvme_tcp;
mod nvme_zones;
mod nvme_zones_walk;
mod order;
mod pci_machine;
mod prop_ahci;
mod prop_nbd;
mod prop_power;
mod readme;
mod restart;
mod several;
mod snapshots;
mod support;
