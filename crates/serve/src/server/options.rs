//! Options of a server and its drives: the document that a server starts from.
//! `python/drivebay/serving/options.py` documents each option for the command line, its file and
//! the library; this file defines the types. Unknown keys are refused.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::faults::Fault;
use crate::faults::power_cut::{AfterCut, PowerCutPlan};
use crate::namespace::NamespaceOptions;
use crate::pacing::clock::{Pace, TimeScale};
use crate::server::precondition::Precondition;
use crate::state::identity::IdentityOptions;
use crate::store::{HostDurability, PowerCutLoss};

/// Server and its drives.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Document {
    /// Addresses, and settings that the drives share.
    pub server: Options,
    /// Drives, in the order of their profiles, which are passed separately.
    pub drives: Vec<DriveOptions>,
}

/// Addresses of a server, and settings that its drives share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Addresses for NBD clients: `unix:PATH` or `HOST:PORT`.
    pub nbd: Vec<String>,
    /// Addresses for NVMe/TCP hosts: `HOST:PORT`.
    pub nvme_tcp: Vec<String>,
    /// Certificate chain and key for TLS, PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Address of the control socket: `unix:PATH`.
    pub control: Option<String>,
    /// Most bytes of memory for data, snapshots and buffers, of all drives together.
    pub memory_max_bytes: u64,
}

/// Options of a served drive. By default it is new, with its data in memory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriveOptions {
    /// Name of its NBD export, and for the control socket.
    pub name: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// True if the drive refuses all commands that change data.
    #[serde(rename = "read_only")]
    pub is_read_only: bool,
    /// Namespaces; by default one for the whole drive.
    pub namespaces: Vec<NamespaceOptions>,
    /// Path of the socket to which a virtual machine connects for a PCIe device.
    pub vfio_user: Option<PathBuf>,
    /// True if each namespace is a block device of this machine.
    pub ublk: bool,
    /// File with the data; by default the data is in memory.
    pub data: Option<PathBuf>,
    /// Effect of flushes on that file.
    pub host_durability: HostDurability,
    /// Image with the initial content of new data; it is not written to.
    pub image: Option<PathBuf>,
    /// File of the drive's state: read at the start if it exists, written at an orderly end.
    pub state: Option<PathBuf>,
    /// New file in which all commands are recorded with their data.
    pub record: Option<PathBuf>,
    /// True to record no data, but reads as well.
    pub requests_only: bool,
    /// Preconditioning of a new drive; not applied to a saved state.
    pub precondition: Precondition,
    /// Method by which the server keeps the model's times.
    pub pace: Pace,
    /// Speed of the drive's clock.
    #[serde(deserialize_with = "text")]
    pub time_scale: TimeScale,
    /// Time of the power cut.
    #[serde(deserialize_with = "some_text")]
    pub power_cut: Option<PowerCutPlan>,
    /// Behaviour after a power cut, as hosts see it.
    #[serde(deserialize_with = "text")]
    pub after_cut: AfterCut,
    /// Data that a power cut loses.
    pub loss: PowerCutLoss,
    /// Faults to inject.
    pub faults: Vec<Fault>,
    /// File of the secret that hosts over NVMe/TCP must know.
    pub dhchap_secret: Option<PathBuf>,
    /// File of the secret by which the drive proves its identity to hosts.
    pub dhchap_ctrl_secret: Option<PathBuf>,
    /// Parts of the drive's identity that the user specifies.
    pub identity: IdentityOptions,
}

impl DriveOptions {
    /// A new drive with its data in memory.
    pub fn new(name: &str) -> DriveOptions {
        DriveOptions { name: name.to_owned(), seed: 1, ..DriveOptions::default() }
    }
}

/// Parses a value that is written as a string.
fn text<'de, T, D>(given: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(given)?.parse().map_err(Error::custom)
}

fn some_text<'de, T, D>(given: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    text(given).map(Some)
}

#[cfg(test)]
#[path = "../../tests/unit/server_options.rs"]
mod tests;
