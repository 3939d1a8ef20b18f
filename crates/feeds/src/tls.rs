//! Encrypted connections.

use evertally_declare::error::{Context, Result, failure, usage};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::path::Path;
use std::sync::Arc;

/// The configuration of clients that trust the public authorities, or only the one in a file.
///
/// # Errors
/// If the file cannot be read, or has no certificate.
pub(crate) fn client(authority: Option<&Path>) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = authority {
        let shown = path.display();
        let pem = std::fs::read(path).context(format_args!("cannot read {shown}"))?;
        let found: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|e| usage(format!("{shown}: {e}")))?;
        if found.is_empty() {
            return Err(usage(format!("{shown} contains no certificate")));
        }
        for certificate in found {
            roots.add(certificate).map_err(|e| usage(format!("{shown}: {e}")))?;
        }
    } else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(failure)?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
