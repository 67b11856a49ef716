//! The handshake of a connection: options until one chooses the export.

use std::sync::Arc;

use rustls::ServerConfig;

use drivebay_wire::nbd::{self as wire, BlockSizes, ClientFlags, Go, MetaQuery, OptionError};

/// Sectors of 512 B are the drive's; the map has pages of 4 KiB.
const BLOCK_SIZES: BlockSizes =
    BlockSizes { minimum: 512, preferred: 4096, maximum: wire::MAX_PAYLOAD };

/// The drive as NBD clients see it.
#[derive(Clone, Debug)]
pub struct Export {
    /// TLS is offered, and then required.
    pub tls: Option<Arc<ServerConfig>>,
    /// The drive's name.
    pub name: String,
    /// Its capacity, bytes.
    pub bytes: u64,
}

/// Longest data of an option. The longest sensible one names a few contexts of 4 KiB at most.
pub const OPTION_MAX: u32 = 64 << 10;

/// Metadata contexts have numbers; there is one.
pub const ALLOCATION_ID: u32 = 1;

/// What client and server have agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Replies are structured.
    pub structured: bool,
    /// `base:allocation` may be asked for.
    pub allocation: bool,
}

/// What comes after an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Another option.
    Option,
    /// Requests.
    Transmission,
    /// TLS begins.
    Tls,
    /// Nothing.
    End,
}

/// One client's handshake.
pub struct Handshake {
    pub client: ClientFlags,
    pub agreed: Agreed,
    /// TLS is offered, and then required.
    pub tls_required: bool,
}

impl Handshake {
    /// Answers one option.
    pub fn option(
        &mut self,
        option: u32,
        data: &[u8],
        export: &Export,
        out: &mut Vec<u8>,
    ) -> After {
        if option == wire::ABORT {
            wire::reply_ack(out, option);
            return After::End;
        }
        if self.tls_required && option != wire::STARTTLS {
            // This one has no answer that says no.
            if option == wire::EXPORT_NAME {
                return After::End;
            }
            wire::option_error(out, option, OptionError::TlsRequired, "TLS first");
            return After::Option;
        }
        let answer = match option {
            wire::EXPORT_NAME => return self.export_name(data, export, out),
            wire::LIST => list(data, export, out),
            wire::STARTTLS => return self.start_tls(data, out),
            wire::INFO | wire::GO => match self.go(option, data, export, out) {
                Ok(()) if option == wire::GO => return After::Transmission,
                other => other,
            },
            wire::STRUCTURED_REPLY => self.structured_reply(data, out),
            wire::LIST_META_CONTEXT | wire::SET_META_CONTEXT => {
                self.meta_context(option, data, export, out)
            }
            _ => Err((OptionError::Unsupported, "not known here")),
        };
        if let Err((error, text)) = answer {
            wire::option_error(out, option, error, text);
        }
        After::Option
    }

    fn export_name(&self, data: &[u8], export: &Export, out: &mut Vec<u8>) -> After {
        if !std::str::from_utf8(data).is_ok_and(|name| is_ours(name, export)) {
            return After::End;
        }
        wire::export_reply(out, export.bytes, wire::export_flags(), self.client);
        After::Transmission
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

    fn go(&mut self, option: u32, data: &[u8], export: &Export, out: &mut Vec<u8>) -> Answer {
        let go = Go::parse(data).map_err(invalid)?;
        known(go.name, export)?;
        wire::reply_export(out, option, export.bytes, wire::export_flags());
        if go.wants_name {
            wire::reply_name(out, option, &export.name);
        }
        if go.wants_block_sizes {
            wire::reply_block_sizes(out, option, BLOCK_SIZES);
        }
        wire::reply_ack(out, option);
        Ok(())
    }

    fn structured_reply(&mut self, data: &[u8], out: &mut Vec<u8>) -> Answer {
        if !data.is_empty() {
            return Err((OptionError::Invalid, "carries no data"));
        }
        self.agreed.structured = true;
        wire::reply_ack(out, wire::STRUCTURED_REPLY);
        Ok(())
    }

    fn meta_context(
        &mut self,
        option: u32,
        data: &[u8],
        export: &Export,
        out: &mut Vec<u8>,
    ) -> Answer {
        let query = MetaQuery::parse(data).map_err(invalid)?;
        let set = option == wire::SET_META_CONTEXT;
        if set {
            self.agreed.allocation = false;
        }
        if !self.agreed.structured {
            return Err((OptionError::Invalid, "structured replies first"));
        }
        known(query.name, export)?;
        let all = !set && (query.queries.is_empty() || query.queries.contains(&"base:"));
        if all || query.queries.contains(&wire::BASE_ALLOCATION) {
            // In a list the number means nothing.
            let id = if set { ALLOCATION_ID } else { 0 };
            wire::reply_meta_context(out, option, id, wire::BASE_ALLOCATION);
            self.agreed.allocation |= set;
        }
        wire::reply_ack(out, option);
        Ok(())
    }
}

type Answer = Result<(), (OptionError, &'static str)>;

fn invalid(error: OptionError) -> (OptionError, &'static str) {
    (error, "its data is not understood")
}

fn list(data: &[u8], export: &Export, out: &mut Vec<u8>) -> Answer {
    if !data.is_empty() {
        return Err((OptionError::Invalid, "carries no data"));
    }
    wire::reply_server(out, &export.name);
    wire::reply_ack(out, wire::LIST);
    Ok(())
}

fn is_ours(name: &str, export: &Export) -> bool {
    name.is_empty() || name == export.name
}

fn known(name: &str, export: &Export) -> Answer {
    if is_ours(name, export) { Ok(()) } else { Err((OptionError::Unknown, "no such export")) }
}
