//! DH-HMAC-CHAP: a host proves that it knows a secret, and so does the drive on request.
//!
//! Sources: NVM Express base specification 2.0, In-band Authentication (messages, responses,
//! transformed secrets); RFC 7919 (groups); behaviour of Linux's host: at most 4,096 bytes per
//! message, identifiers of groups from byte 30 of their list on. Every queue authenticates
//! separately, before all other commands. The controller uses the first hash that a host offers,
//! and its first group, preferring groups other than the null group. Exponents have 512 bits, twice
//! what RFC 7919 requires for the largest group. Left out: secure channel concatenation, which
//! needs TLS. Numbers are not computed in constant time: this keeps strangers out of a test
//! machine, no more.

use std::path::Path;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use drivebay_units::refuse_if;
use drivebay_wire::nvme::{
    AuthChallenge, AuthFailure, AuthHead, AuthId, AuthNegotiate, AuthReply, AuthSuccess, Status,
};
use num_bigint::BigUint;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::ServeError;

/// Hashes, by identifier from 1 on.
const HASHES: [(&digest::Algorithm, hmac::Algorithm); 3] = [
    (&digest::SHA256, hmac::HMAC_SHA256),
    (&digest::SHA384, hmac::HMAC_SHA384),
    (&digest::SHA512, hmac::HMAC_SHA512),
];
/// Groups of RFC 7919, by identifier from 1 on: bits of the prime, and the term in its formula.
const GROUPS: [(u64, u32); 5] =
    [(2048, 560_316), (3072, 2_625_351), (4096, 5_736_041), (6144, 15_705_020), (8192, 10_965_728)];
/// Offset of the group identifiers in a list that begins with the hash identifiers.
const GROUP_IDS: usize = 30;
const EXPONENT_BYTES: usize = 64;
/// Reasons for which an exchange failed.
const FAILED: u8 = 1;
const CONCATENATION: u8 = 3;
const HASH_UNUSABLE: u8 = 4;
const GROUP_UNUSABLE: u8 = 5;
const PAYLOAD: u8 = 6;
const MESSAGE: u8 = 7;

/// Secret in nvme-cli's format: `DHHC-1:HASH:BASE64:`, of the key and its checksum.
#[derive(Clone)]
struct Secret {
    key: Vec<u8>,
    /// Hash that transforms the secret; `None` if it is used unchanged.
    transform: Option<hmac::Algorithm>,
}

impl Secret {
    /// Parses a secret. The error message does not contain the text.
    fn parse(text: &str) -> Result<Secret, &'static str> {
        let rest = text.trim().strip_prefix("DHHC-1:").ok_or("it does not begin with DHHC-1:")?;
        let (hash, rest) = rest.split_once(':').ok_or("it has no hash")?;
        let transform = match hash {
            "00" => None,
            "01" | "02" | "03" => Some(HASHES[usize::from(hash.as_bytes()[1] - b'1')].1),
            _ => return Err("its hash is not 00 to 03"),
        };
        let mut key = BASE64_STANDARD
            .decode(rest.strip_suffix(':').ok_or("it does not end with a colon")?)
            .map_err(|_| "the part after the hash is not base64")?;
        let length = key.len().saturating_sub(4);
        refuse_if(![32, 48, 64].contains(&length), "its key has not 32, 48 or 64 bytes")?;
        let checksum = crc32fast::hash(&key[..length]).to_le_bytes();
        refuse_if(checksum != key[length..], "its checksum is wrong")?;
        key.truncate(length);
        Ok(Secret { key, transform })
    }

    fn load(option: &str, path: &Path) -> Result<Secret, ServeError> {
        let hint = "nvme gen-dhchap-key generates a secret; store that line in a file";
        let wrong = |why: &dyn std::fmt::Display| format!("{option} {}: {why}", path.display());
        let text =
            std::fs::read_to_string(path).map_err(|why| ServeError::machine(wrong(&why), hint))?;
        Secret::parse(&text).map_err(|why| ServeError::refused(wrong(&why), hint))
    }

    /// Returns the key for the host or subsystem with this name.
    fn key_for(&self, nqn: &str) -> Vec<u8> {
        let Some(hash) = self.transform else { return self.key.clone() };
        mac(hash, &self.key, &[nqn.as_bytes(), b"NVMe-over-Fabrics"])
    }
}

/// Secrets of a drive: one that hosts must prove, and one that it proves to them.
pub(crate) struct Secrets {
    host: Secret,
    controller: Option<Secret>,
}

impl Secrets {
    /// Loads the files of `--dhchap-secret` and `--dhchap-ctrl-secret`.
    pub fn load(host: &Path, controller: Option<&Path>) -> Result<Secrets, ServeError> {
        let controller = controller.map(|path| Secret::load("--dhchap-ctrl-secret", path));
        let host = Secret::load("--dhchap-secret", host)?;
        Ok(Secrets { host, controller: controller.transpose()? })
    }
}

/// State of an exchange.
enum Step {
    Idle,
    /// The host must receive a challenge with this hash and group.
    Challenge {
        hash: u8,
        group: u8,
    },
    /// The host has received the challenge.
    Challenged(Challenge),
    /// The host is authenticated; it receives the proof that it asked for, if it did.
    Success {
        proof: Option<Vec<u8>>,
        hash_bytes: u8,
    },
    /// The host checks the proof.
    Proved,
    Failure(u8),
}

struct Challenge {
    hash: u8,
    group: u8,
    value: Vec<u8>,
    number: u32,
    exponent: BigUint,
}

/// Authentication of one queue.
pub(super) struct Authentication {
    secrets: Arc<Secrets>,
    host_nqn: String,
    subsystem_nqn: String,
    transaction: u16,
    step: Step,
    is_done: bool,
}

impl Authentication {
    /// Begins the authentication of a queue between this host and this subsystem.
    pub fn new(secrets: &Arc<Secrets>, host_nqn: &str, subsystem_nqn: &str) -> Authentication {
        Authentication {
            secrets: Arc::clone(secrets),
            host_nqn: host_nqn.to_owned(),
            subsystem_nqn: subsystem_nqn.to_owned(),
            transaction: 0,
            step: Step::Idle,
            is_done: false,
        }
    }

    /// True if the queue may be used.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Handles a message of the host.
    pub fn take(&mut self, message: &[u8]) -> Result<(), Status> {
        let (AuthHead { kind, id, transaction, .. }, _) =
            AuthHead::read_from_prefix(message).map_err(|_| Status::INVALID_FIELD.dnr())?;
        let transaction = transaction.get();
        let step = std::mem::replace(&mut self.step, Step::Idle);
        let next = match (AuthId::from_code(id), step) {
            (Some(AuthId::Negotiate), _) if kind == 0 => {
                (self.transaction, self.is_done) = (transaction, false);
                negotiate(message)
            }
            (Some(AuthId::Failure2), _) => {
                self.is_done = false;
                return Ok(());
            }
            _ if transaction != self.transaction => Err(MESSAGE),
            (Some(AuthId::Reply), Step::Challenged(challenge)) => self.reply(&challenge, message),
            (Some(AuthId::Success2), Step::Proved) => {
                self.is_done = true;
                return Ok(());
            }
            _ => Err(MESSAGE),
        };
        self.step = next.unwrap_or_else(Step::Failure);
        Ok(())
    }

    /// Returns the message that the host receives.
    pub fn give(&mut self) -> Result<Vec<u8>, Status> {
        let (step, message) = match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Challenge { hash, group } => {
                let challenge = Challenge::new(hash, group).ok_or(Status::INTERNAL_ERROR)?;
                let message = challenge.message(self.transaction);
                (Step::Challenged(challenge), message)
            }
            Step::Success { proof, hash_bytes } => {
                self.is_done = proof.is_none();
                let step = if self.is_done { Step::Idle } else { Step::Proved };
                let head = AuthSuccess {
                    head: head(1, AuthId::Success1, self.transaction),
                    hash_bytes,
                    is_valid: proof.is_some().into(),
                    ..AuthSuccess::default()
                };
                (step, [head.as_bytes(), &proof.unwrap_or_default()].concat())
            }
            Step::Failure(why) => {
                let message = AuthFailure {
                    head: head(0, AuthId::Failure1, self.transaction),
                    reason: FAILED,
                    explanation: why,
                };
                (Step::Idle, message.as_bytes().to_vec())
            }
            Step::Idle | Step::Challenged(_) | Step::Proved => {
                return Err(Status::COMMAND_SEQUENCE.dnr());
            }
        };
        self.step = step;
        Ok(message)
    }

    /// Handles the host's response to a challenge, and the host's own challenge, if it wants a
    /// proof of the drive.
    fn reply(&self, challenge: &Challenge, message: &[u8]) -> Result<Step, u8> {
        let (head, rest) = AuthReply::read_from_prefix(message).map_err(|_| PAYLOAD)?;
        let hash_bytes = challenge.value.len();
        let values = 2 * hash_bytes + usize::from(head.group_bytes.get());
        refuse_if(usize::from(head.hash_bytes) != hash_bytes || rest.len() < values, PAYLOAD)?;
        let (response, rest) = rest.split_at(hash_bytes);
        let (value, rest) = rest.split_at(hash_bytes);
        let public = &rest[..head.group_bytes.get().into()];
        let session = challenge.session_key(public)?;
        let (host, own) = (self.host_nqn.as_str(), self.subsystem_nqn.as_str());
        let respond = |key: &[u8], value: &[u8], number: u32, role: &str, from: &str, to: &str| {
            let value = challenge.augment(value, session.as_deref());
            let (number, transaction) = (number.to_le_bytes(), self.transaction.to_le_bytes());
            let parts: [&[u8]; 8] = [
                &value,
                &number,
                &transaction,
                // No secure channel.
                &[0],
                role.as_bytes(),
                from.as_bytes(),
                &[0],
                to.as_bytes(),
            ];
            mac(HASHES[usize::from(challenge.hash) - 1].1, key, &parts)
        };
        let key = self.secrets.host.key_for(host);
        let expected = respond(&key, &challenge.value, challenge.number, "HostHost", host, own);
        refuse_if(response != expected, FAILED)?;
        let proof = match (head.is_valid, &self.secrets.controller) {
            (0, _) => None,
            (_, None) => return Err(FAILED),
            (_, Some(secret)) => {
                let (key, number) = (secret.key_for(own), head.number.get());
                Some(respond(&key, value, number, "Controller", own, host))
            }
        };
        Ok(Step::Success { proof, hash_bytes: hash_bytes as u8 })
    }
}

fn head(kind: u8, id: AuthId, transaction: u16) -> AuthHead {
    AuthHead { kind, id: id as u8, transaction: transaction.into(), ..AuthHead::default() }
}

fn negotiate(message: &[u8]) -> Result<Step, u8> {
    let (head, _) = AuthNegotiate::read_from_prefix(message).map_err(|_| PAYLOAD)?;
    refuse_if(head.secure_channel != 0, CONCATENATION)?;
    let counts = [head.hashes, head.groups].map(usize::from);
    // One or more protocols, the first of which is DH-HMAC-CHAP.
    let is_known = head.protocols > 0 && head.protocol == 1;
    refuse_if(!is_known || counts.iter().any(|&count| count > GROUP_IDS), PAYLOAD)?;
    let ids = |from: usize, count: usize| head.ids[from..from + count].iter().copied();
    let known = |most: usize| move |&id: &u8| usize::from(id) <= most;
    let hash = ids(0, counts[0]).find(|&id| id > 0 && known(HASHES.len())(&id));
    let groups = || ids(GROUP_IDS, counts[1]).filter(known(GROUPS.len()));
    let group = groups().find(|&id| id > 0).or_else(|| groups().next());
    Ok(Step::Challenge { hash: hash.ok_or(HASH_UNUSABLE)?, group: group.ok_or(GROUP_UNUSABLE)? })
}

impl Challenge {
    fn new(hash: u8, group: u8) -> Option<Challenge> {
        let random = SystemRandom::new();
        let mut value = vec![0; HASHES[usize::from(hash) - 1].0.output_len()];
        let (mut number, mut exponent) = ([0; 4], [0; EXPONENT_BYTES]);
        random.fill(&mut value).ok()?;
        random.fill(&mut number).ok()?;
        random.fill(&mut exponent).ok()?;
        let number = u32::from_le_bytes(number).max(1);
        Some(Challenge { hash, group, value, number, exponent: BigUint::from_bytes_be(&exponent) })
    }

    /// Returns the prime of its group, and its bytes; `None` for the null group.
    fn prime(&self) -> Option<(BigUint, usize)> {
        let &(bits, term) = GROUPS.get(usize::from(self.group).checked_sub(1)?)?;
        Some((prime(bits, term), bits as usize / 8))
    }

    fn message(&self, transaction: u16) -> Vec<u8> {
        let public = self.prime().map_or(Vec::new(), |(prime, bytes)| {
            padded(&BigUint::from(2_u8).modpow(&self.exponent, &prime), bytes)
        });
        let head = AuthChallenge {
            head: head(1, AuthId::Challenge, transaction),
            hash_bytes: self.value.len() as u8,
            hash: self.hash,
            group: self.group,
            group_bytes: (public.len() as u16).into(),
            number: self.number.into(),
            ..AuthChallenge::default()
        };
        [head.as_bytes(), &self.value, &public].concat()
    }

    /// Session key of both sides after the exchange of public values; `None` in the null group.
    fn session_key(&self, public: &[u8]) -> Result<Option<Vec<u8>>, u8> {
        let Some((prime, bytes)) = self.prime() else {
            return if public.is_empty() { Ok(None) } else { Err(PAYLOAD) };
        };
        let value = BigUint::from_bytes_be(public);
        let one = BigUint::from(1_u8);
        refuse_if(public.len() != bytes || value <= one || value >= &prime - &one, PAYLOAD)?;
        Ok(Some(padded(&value.modpow(&self.exponent, &prime), bytes)))
    }

    /// Returns the challenge to answer: combined with the session key, if there is one.
    fn augment(&self, value: &[u8], session: Option<&[u8]>) -> Vec<u8> {
        let (hash, of_hash) = HASHES[usize::from(self.hash) - 1];
        let augmented = |key| mac(of_hash, digest::digest(hash, key).as_ref(), &[value]);
        session.map_or(value.to_vec(), augmented)
    }
}

/// Returns the prime of RFC 7919 with these bits: 2^b - 2^(b-64) + (floor(2^(b-130) e) + term) 2^64
/// - 1.
fn prime(bits: u64, term: u32) -> BigUint {
    const GUARD: u64 = 64;
    let one = BigUint::from(1_u8);
    // Euler's number as the sum of 1/k!, with spare bits.
    let mut part = &one << (bits - 130 + GUARD);
    let (mut e, mut k) = (BigUint::default(), 1_u32);
    while part > BigUint::default() {
        e += &part;
        part /= k;
        k += 1;
    }
    (&one << bits) - (&one << (bits - 64)) + (((e >> GUARD) + term) << 64_u32) - one
}

/// Returns the number in this many bytes, with leading zeros.
fn padded(number: &BigUint, bytes: usize) -> Vec<u8> {
    let digits = number.to_bytes_be();
    [vec![0; bytes - digits.len()], digits].concat()
}

fn mac(hash: hmac::Algorithm, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hash, key));
    parts.iter().for_each(|part| context.update(part));
    context.sign().as_ref().to_vec()
}

#[cfg(test)]
#[path = "../../../tests/unit/nvme_tcp_auth.rs"]
mod tests;
