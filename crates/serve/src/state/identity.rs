//! Identity of a served drive: serial number, NQN and EUI-64.
//!
//! Hosts treat controllers with the same NQN and serial, and namespaces with the same EUI-64, as
//! paths to one drive: Linux's multipath merges them, and writes to one go to the other. So each
//! served drive has a unique identity: the user's, the one saved next to its state, or a random
//! one. It is saved next to the state, in `STATE.identity`, from the first start on, as a server
//! that is killed writes no state. A refused start saves none.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::ServeError;
use crate::state::sidecar;

/// Name of the file next to the state.
const NAME: &str = "identity";
/// Prefix of the NQNs of served drives.
const NQN_PREFIX: &str = "nqn.2026-11.localhost.drivebay";

/// Identity of a served drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveIdentity {
    /// Serial number, 1 to 20 printable ASCII characters.
    pub serial: String,
    /// NVMe Qualified Name of the subsystem.
    pub nqn: String,
    /// EUI-64 of the first namespace, 16 hexadecimal digits.
    pub eui64: String,
}

/// Parts of the identity that the user specifies.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdentityOptions {
    /// Serial number.
    pub serial: Option<String>,
    /// NQN of the subsystem.
    pub nqn: Option<String>,
    /// EUI-64 of the namespace.
    pub eui64: Option<String>,
}

/// Error for a file that cannot be read or written.
fn unusable(path: &Path, why: io::Error) -> ServeError {
    let path = path.display();
    let hint = format!("to give the drive a new one: rm {path}");
    ServeError::machine(format!("the identity in {path}: {why}"), hint)
}

impl DriveIdentity {
    /// Derives the identity from a serial number, for a drive of this profile and maker (OUI).
    pub fn of_serial(serial: &str, profile: &str, oui: u32) -> DriveIdentity {
        // FNV-1a, 64 bits.
        let digest = serial.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        // Never all zeros, which would mean no identifier.
        let eui64 = u64::from(oui) << 40 | digest >> 24 | 1;
        let nqn = format!("{NQN_PREFIX}:{profile}:{}", serial.to_ascii_lowercase());
        DriveIdentity { serial: serial.to_owned(), nqn, eui64: format!("{eui64:016x}") }
    }

    /// Chooses the identity: from the user's options, from the file next to `state`, or at random.
    /// Writes nothing.
    pub fn choose(
        options: &IdentityOptions,
        state: Option<&Path>,
        profile: &str,
        oui: u32,
    ) -> Result<DriveIdentity, ServeError> {
        let kept = state.map(DriveIdentity::beside).transpose()?.flatten();
        let mut identity = match (kept, &options.serial) {
            (Some(kept), _) => kept,
            (None, Some(serial)) => DriveIdentity::of_serial(serial, profile, oui),
            (None, None) => DriveIdentity::of_serial(&random_serial()?, profile, oui),
        };
        let given = [&options.serial, &options.nqn, &options.eui64];
        let fields = [&mut identity.serial, &mut identity.nqn, &mut identity.eui64];
        for (field, given) in fields.into_iter().zip(given) {
            if let Some(given) = given {
                field.clone_from(given);
            }
        }
        identity.check()?;
        Ok(identity)
    }

    /// Loads the identity next to `state`, if there is one.
    fn beside(state: &Path) -> Result<Option<DriveIdentity>, ServeError> {
        let path = sidecar::path(state, NAME);
        sidecar::load(&path).map_err(|why| unusable(&path, why))
    }

    /// Saves the identity next to `state`, unless it is there already.
    pub(crate) fn keep_beside(&self, state: &Path) -> Result<(), ServeError> {
        if DriveIdentity::beside(state)?.as_ref() == Some(self) {
            return Ok(());
        }
        let path = sidecar::path(state, NAME);
        sidecar::save(&path, self).map_err(|why| unusable(&path, why))
    }

    fn check(&self) -> Result<(), ServeError> {
        let DriveIdentity { serial, nqn, eui64 } = self;
        let refuse = |option, given: &str, must: &str, example: &str| {
            let what = format!("{option} {given}: must {must}");
            Err(ServeError::refused(what, format!("{option} {example}")))
        };
        if !(1..=20).contains(&serial.len()) || !serial.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return refuse("--serial", serial, "be 1 to 20 printable ASCII characters", "DB0001");
        }
        if !nqn.starts_with("nqn.") || nqn.len() > 223 {
            let must = "begin with nqn. and have at most 223 characters";
            return refuse("--nqn", nqn, must, &format!("{NQN_PREFIX}:db0001"));
        }
        let is_hex = eui64.len() == 16 && eui64.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || self.eui64_bytes(1) == [0; 8] {
            let must = "be 16 hexadecimal digits, not all 0";
            return refuse("--eui64", eui64, must, "0025385b71b00001");
        }
        Ok(())
    }

    /// EUI-64 of a namespace as bytes, counted up from the first namespace's; zeros (no identifier)
    /// if that one is invalid.
    pub(crate) fn eui64_bytes(&self, nsid: u32) -> [u8; 8] {
        let of_first = u64::from_str_radix(&self.eui64, 16).unwrap_or(0);
        of_first.wrapping_add(u64::from(nsid.saturating_sub(1))).to_be_bytes()
    }
}

fn random_serial() -> io::Result<String> {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes[2..])?;
    Ok(format!("DRIVEBAY{:012X}", u64::from_be_bytes(bytes)))
}

#[cfg(test)]
#[path = "../../tests/unit/state_identity.rs"]
mod tests;
