//! Handshake of a connection: options, until one chooses the export.

use std::sync::Arc;

use drivebay_units::refuse_if;
use rustls::ServerConfig;

use crate::memory_limit::MemoryLimit;
use crate::namespace::{Namespace, NamespaceTable};
use drivebay_wire::nbd::{self as wire, BlockSizes, ClientFlags, Go, MetaQuery, OptionError};

/// The drive's sectors have 512 B, its map has pages of 4 KiB.
const BLOCK_SIZES: BlockSizes =
    BlockSizes { minimum: 512, preferred: 4096, maximum: wire::MAX_PAYLOAD };

/// Namespace of a drive as NBD clients see it.
#[derive(Clone, Debug)]
pub struct Export {
    /// Name of the drive; with several namespaces it includes the namespace's number, `NAME/2`.
    pub name: String,
    /// Number of the drive.
    pub drive: usize,
    /// Namespace, with its size, which may change, and its write protection.
    pub namespace: Arc<Namespace>,
}

impl Export {
    /// Returns the exports of a drive.
    pub fn for_drive(name: &str, drive: usize, namespaces: &NamespaceTable) -> Vec<Export> {
        let is_alone = namespaces.iter().count() == 1;
        let of_one = |(nsid, namespace): (u32, &Arc<Namespace>)| Export {
            name: if is_alone { name.to_owned() } else { format!("{name}/{nsid}") },
            drive,
            namespace: Arc::clone(namespace),
        };
        namespaces.iter().map(of_one).collect()
    }

    fn flags(&self) -> u16 {
        wire::export_flags(self.namespace.is_read_only)
    }
}

/// Exports and settings that a server offers to NBD clients.
#[derive(Clone, Debug)]
pub struct Exports {
    /// TLS configuration; if present, TLS is required.
    pub tls: Option<Arc<ServerConfig>>,
    /// Memory limit of the connections.
    pub memory: MemoryLimit,
    /// Exports in the order of the drives; a client that names none gets the first.
    pub all: Vec<Export>,
}

impl Exports {
    /// Returns the number of the export with this name; the name of a drive means its first export.
    fn find(&self, name: &str) -> Option<usize> {
        let of_drive = |export: &Export| export.name.split('/').next() == Some(name);
        match name {
            "" => Some(0),
            _ => self.all.iter().position(|export| export.name == name || of_drive(export)),
        }
    }

    /// True if a client may have to move to another drive's event loop.
    pub(super) fn are_of_several_drives(&self) -> bool {
        self.all.iter().any(|export| export.drive != 0)
    }

    fn known(&self, name: &str) -> Answer<usize> {
        self.find(name).ok_or((OptionError::Unknown, "no such export"))
    }
}

/// Longest data of an option. The longest sensible one names a few contexts of at most 4 KiB.
pub const OPTION_MAX: u32 = 64 << 10;

/// Number of the only metadata context.
pub const ALLOCATION_ID: u32 = 1;

/// Options that client and server have negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// True if replies are structured.
    pub structured: bool,
    /// Export for which the client may ask for `base:allocation`.
    pub allocation_of: Option<usize>,
}

/// Next step after an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Another option.
    Option,
    /// Requests to the export with this number.
    Transmission(usize),
    /// Start of TLS.
    Tls,
    /// End of the connection.
    End,
}

/// Handshake of a client.
pub struct Handshake {
    pub client: ClientFlags,
    pub negotiated: Negotiated,
    /// True if TLS is required.
    pub tls_required: bool,
}

impl Handshake {
    /// Answers an option.
    pub fn option(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &Exports,
        out: &mut Vec<u8>,
    ) -> After {
        if !self.client.is_fixed && option != wire::EXPORT_NAME {
            // The client would not understand an answer.
            return After::End;
        }
        if option == wire::ABORT {
            wire::reply_ack(out, option);
            return After::End;
        }
        if self.tls_required && option != wire::STARTTLS {
            // This option has no negative answer.
            if option == wire::EXPORT_NAME {
                return After::End;
            }
            wire::option_error(out, option, OptionError::TlsRequired, "TLS first");
            return After::Option;
        }
        let answer = match option {
            wire::EXPORT_NAME => return self.export_name(data, exports, out),
            wire::LIST | wire::STRUCTURED_REPLY if !data.is_empty() => {
                Err((OptionError::Invalid, "carries no data"))
            }
            wire::LIST => {
                exports.all.iter().for_each(|export| wire::reply_server(out, &export.name));
                wire::reply_ack(out, option);
                Ok(())
            }
            wire::STRUCTURED_REPLY => {
                self.negotiated.structured = true;
                wire::reply_ack(out, option);
                Ok(())
            }
            wire::STARTTLS => return self.start_tls(data, out),
            wire::INFO | wire::GO => match go(option, data, exports, out) {
                Ok(number) if option == wire::GO => return After::Transmission(number),
                other => other.map(|_| ()),
            },
            wire::LIST_META_CONTEXT | wire::SET_META_CONTEXT => {
                self.meta_context(option, data, exports, out)
            }
            _ => Err((OptionError::Unsupported, "not supported")),
        };
        if let Err((error, text)) = answer {
            wire::option_error(out, option, error, text);
        }
        After::Option
    }

    fn export_name(&self, data: &[u8], exports: &Exports, out: &mut Vec<u8>) -> After {
        let Some(number) = str::from_utf8(data).ok().and_then(|name| exports.find(name)) else {
            return After::End;
        };
        let export = &exports.all[number];
        wire::export_reply(out, export.namespace.bytes(), export.flags(), self.client);
        After::Transmission(number)
    }

    fn start_tls(&self, data: &[u8], out: &mut Vec<u8>) -> After {
        let refused = match (self.tls_required, data.is_empty()) {
            (true, true) => {
                wire::reply_ack(out, wire::STARTTLS);
                return After::Tls;
            }
            (true, false) => (OptionError::Invalid, "carries no data"),
            (false, _) => (OptionError::Policy, "not offered, or active already"),
        };
        wire::option_error(out, wire::STARTTLS, refused.0, refused.1);
        After::Option
    }

    fn meta_context(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &Exports,
        out: &mut Vec<u8>,
    ) -> Answer {
        let query = MetaQuery::parse(data).map_err(invalid)?;
        let set = option == wire::SET_META_CONTEXT;
        if set {
            self.negotiated.allocation_of = None;
        }
        refuse_if(!self.negotiated.structured, (OptionError::Invalid, "structured replies first"))?;
        let number = exports.known(query.name)?;
        let all = !set && (query.queries.is_empty() || query.queries.contains(&"base:"));
        if all || query.queries.contains(&wire::BASE_ALLOCATION) {
            // The number has no meaning in a list.
            let id = if set { ALLOCATION_ID } else { 0 };
            wire::reply_meta_context(out, option, id, wire::BASE_ALLOCATION);
            if set {
                self.negotiated.allocation_of = Some(number);
            }
        }
        wire::reply_ack(out, option);
        Ok(())
    }
}

type Answer<T = ()> = Result<T, (OptionError, &'static str)>;

fn invalid(error: OptionError) -> (OptionError, &'static str) {
    (error, "its data is invalid")
}

/// Answers INFO or GO; returns the export's number.
fn go(option: u32, data: &[u8], exports: &Exports, out: &mut Vec<u8>) -> Answer<usize> {
    let go = Go::parse(data).map_err(invalid)?;
    let number = exports.known(go.name)?;
    let export = &exports.all[number];
    wire::reply_export(out, option, export.namespace.bytes(), export.flags());
    if go.wants_name {
        wire::reply_name(out, option, &export.name);
    }
    if go.wants_block_sizes {
        wire::reply_block_sizes(out, option, BLOCK_SIZES);
    }
    wire::reply_ack(out, option);
    Ok(number)
}
