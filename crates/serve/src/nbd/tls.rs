//! Server certificate, which a client may check, from PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ServeError;

/// Loads a configuration with this certificate chain and its private key; clients need no
/// certificate.
pub fn config(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, ServeError> {
    let error = |file: &Path, why: &dyn std::fmt::Display| {
        let hint = "both files must be PEM: openssl req -x509 -nodes -newkey rsa:2048 -keyout key.pem -out cert.pem -subj /CN=localhost";
        ServeError::refused(format!("{}: {why}", file.display()), hint)
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|why| error(cert, &why))?;
    if chain.is_empty() {
        return Err(error(cert, &"no certificate in it"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|why| error(key, &why))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| error(cert, &why))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|why| error(key, &why))?;
    Ok(Arc::new(config))
}
