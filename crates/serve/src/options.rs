//! What is served, and how: the document that a server starts from. Each option is described once,
//! in `python/drivebay/serving/options.py`, for the command line, its file and the library; here it
//! has its type. A key that is not known is refused.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::clock::{Pace, TimeScale};
use crate::faults::Fault;
use crate::identity::IdentityOptions;
use crate::namespace::NamespaceOptions;
use crate::power_cut::{AfterCut, PowerCutPlan};
use crate::precondition::Precondition;
use crate::store::{HostDurability, PowerCutLoss};

/// A server and its drives.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Document {
    /// Where it listens, and what the drives share.
    pub server: Options,
    /// The drives, in the order of their profiles, which come beside this.
    pub drives: Vec<DriveOptions>,
}

/// Where a server listens, and what its drives share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Where NBD clients connect: `unix:PATH` or `HOST:PORT`.
    pub nbd: Vec<String>,
    /// Where NVMe/TCP hosts connect: `HOST:PORT`.
    pub nvme_tcp: Vec<String>,
    /// Certificate chain and key for TLS, PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Where the control socket is: `unix:PATH`.
    pub control: Option<String>,
    /// Most bytes of memory for data, snapshots and buffers, of all drives together.
    pub memory_max_bytes: u64,
}

/// A drive to be served, and how. Without more it is new, with its data in memory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriveOptions {
    /// Its name: of its NBD export, and for the control socket.
    pub name: String,
    /// Of all that is drawn at random.
    pub seed: u64,
    /// Whether it refuses all that changes data.
    #[serde(rename = "read_only")]
    pub is_read_only: bool,
    /// Its parts, as hosts see them; without any it is one.
    pub namespaces: Vec<NamespaceOptions>,
    /// Where a virtual machine connects for a PCIe device: the path of a socket.
    pub vfio_user: Option<PathBuf>,
    /// Whether each namespace is a block device of this machine.
    pub ublk: bool,
    /// The file with the data; without it the data is in memory.
    pub data: Option<PathBuf>,
    /// What flushes make of that file.
    pub host_durability: HostDurability,
    /// The image that new data begins with; it is not written to.
    pub image: Option<PathBuf>,
    /// The file of the drive's state: read at the start if it exists, written at an orderly end.
    pub state: Option<PathBuf>,
    /// The new file in which all commands are recorded with their data.
    pub record: Option<PathBuf>,
    /// What was done to the drive before; one with a state stays as it is.
    pub precondition: Precondition,
    /// How the server meets the model's times.
    pub pace: Pace,
    /// How fast the drive's clock runs.
    #[serde(deserialize_with = "text")]
    pub time_scale: TimeScale,
    /// When the power is cut.
    #[serde(deserialize_with = "some_text")]
    pub power_cut: Option<PowerCutPlan>,
    /// What hosts meet after a power cut.
    #[serde(deserialize_with = "text")]
    pub after_cut: AfterCut,
    /// What a power cut takes.
    pub loss: PowerCutLoss,
    /// Faults to inject.
    pub faults: Vec<Fault>,
    /// The file of the secret that hosts over NVMe/TCP must know.
    pub dhchap_secret: Option<PathBuf>,
    /// The file of the secret by which it proves to them who it is.
    pub dhchap_ctrl_secret: Option<PathBuf>,
    /// The drive's identity, as far as it is given.
    pub identity: IdentityOptions,
}

impl DriveOptions {
    /// A new drive with its data in memory.
    pub fn new(name: &str) -> DriveOptions {
        DriveOptions { name: name.to_owned(), seed: 1, ..DriveOptions::default() }
    }
}

/// A value that is written as a text.
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
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Document, String> {
        serde_json::from_str(text).map_err(|why| why.to_string())
    }

    #[test]
    fn what_is_left_out_is_usual() {
        let document = read(r#"{"drives": [{"name": "one", "power_cut": "ios=3"}]}"#);
        let drive = &document.expect("known keys").drives[0];
        assert_eq!(drive.power_cut, Some(PowerCutPlan::Requests(3)));
        assert_eq!((drive.pace, drive.time_scale), (Pace::Hybrid, TimeScale::default()));
    }

    #[test]
    fn unknown_keys_and_values_are_refused_in_words() {
        for (text, said) in [
            (r#"{"drive": []}"#, "unknown field `drive`"),
            (r#"{"server": {"ndb": []}}"#, "unknown field `ndb`"),
            (r#"{"drives": [{"read-only": true}]}"#, "unknown field `read-only`"),
            (r#"{"drives": [{"pace": "fast"}]}"#, "unknown variant `fast`"),
            (r#"{"drives": [{"time_scale": "0"}]}"#, "--time-scale 0: must be"),
            (r#"{"drives": [{"after_cut": "never"}]}"#, "--after-cut never: must be"),
            (r#"{"drives": [{"faults": [{"kind": "hang", "for": 1}]}]}"#, "unknown field `for`"),
        ] {
            let why = read(text).expect_err(text);
            assert!(why.contains(said), "{text}: {why}");
        }
    }
}
