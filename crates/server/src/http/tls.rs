//! TLS with certificate files that may be renewed while the service runs: a separate thread reads them again, and
//! handshakes use the last certificate read.

mod validity;

use evertally_declare::error::{Context, Result, failure, usage};
use rustls::ServerConfig;
use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// How often the files are checked.
pub(super) const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The current certificate of a listener.
#[derive(Debug)]
pub(super) struct CertificateReloader {
    chain: PathBuf,
    key: PathBuf,
    pair: RwLock<Arc<CertifiedKey>>,
    /// When the files that were read last were modified.
    of: Mutex<[Option<SystemTime>; 2]>,
}

/// A TLS acceptor for the certificate in these files, and the handle that checks whether they were renewed.
///
/// # Errors
/// If they cannot be read, or do not belong together.
pub(super) fn acceptor(chain: &Path, key: &Path) -> Result<(tokio_rustls::TlsAcceptor, Arc<CertificateReloader>)> {
    let (of, pair) = (Mutex::new(times(chain, key)), RwLock::new(read(chain, key)?));
    let renewed = Arc::new(CertificateReloader { chain: chain.to_owned(), key: key.to_owned(), pair, of });
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failure)?;
    let mut config =
        builder.with_no_client_auth().with_cert_resolver(Arc::clone(&renewed) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((Arc::new(config).into(), renewed))
}

/// Checks that a certificate and its key can be read and belong together.
///
/// # Errors
/// If not.
pub(crate) fn check(chain: &Path, key: &Path) -> Result<()> {
    read(chain, key).map(drop)
}

fn read(chain: &Path, key: &Path) -> Result<Arc<CertifiedKey>> {
    let shown = chain.display();
    let certificates = CertificateDer::pem_file_iter(chain).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|e| usage(format!("cannot read the certificates {shown}: {e}")))?;
    let secret = PrivateKeyDer::from_pem_file(key)
        .map_err(|e| usage(format!("cannot read the key of the certificate, {}: {e}", key.display())))?;
    let pair = CertifiedKey::new(certificates, any_supported_type(&secret).map_err(failure)?);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(Arc::new(pair)),
        Err(error) => Err(failure(error)).context(format_args!("{shown} and {} do not belong together", key.display())),
    }
}

fn times(chain: &Path, key: &Path) -> [Option<SystemTime>; 2] {
    [chain, key].map(|path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok())
}

impl CertificateReloader {
    /// When the current certificate expires, in seconds since 1970; `None` if that cannot be read.
    pub(super) fn expiry(&self) -> Option<i64> {
        let pair = Arc::clone(&self.pair.read().unwrap_or_else(PoisonError::into_inner));
        validity::not_after(pair.cert.first()?)
    }

    /// Reads the files again if they have changed. It may wait for the disk.
    pub(super) fn look(&self) {
        let mut known = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let of = times(&self.chain, &self.key);
        if of == *known {
            return;
        }
        match read(&self.chain, &self.key) {
            Ok(pair) => {
                *self.pair.write().unwrap_or_else(PoisonError::into_inner) = pair;
                *known = of;
            }
            // The files may be half written: the old certificate stays in use until the new one is complete.
            Err(error) => tracing::warn!(error = %error, "the renewed certificate cannot be used"),
        }
    }
}

impl ResolvesServerCert for CertificateReloader {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.pair.read().unwrap_or_else(PoisonError::into_inner)))
    }
}
