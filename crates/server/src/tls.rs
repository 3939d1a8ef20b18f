//! TLS with files that may be renewed while the service runs: a separate thread reads them again, and handshakes use
//! the last files that could be used together.

mod client;
mod validity;

pub(crate) use client::ClientCertificate;

use evertally_declare::error::{Context, PipelineError, Result, failure, usage};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tokio_rustls::TlsAcceptor;

/// How often the files are checked.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The files of a listener with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The chain of certificates.
    pub(crate) chain: PathBuf,
    /// The private key.
    pub(crate) key: PathBuf,
    /// The authority of client certificates; without it, clients need none.
    pub(crate) authority: Option<PathBuf>,
    /// Whether a handshake without a client certificate is refused.
    pub(crate) requires_client: bool,
    /// The protocols that are offered, the preferred one first.
    pub(crate) protocols: &'static [&'static [u8]],
}

/// The TLS of a listener.
pub(crate) struct ReloadingTls {
    files: TlsFiles,
    current: RwLock<Current>,
    /// When the files that were read last were modified.
    of: Mutex<[Option<SystemTime>; 3]>,
    /// Counts the authorities of client certificates: a certificate of an earlier one is not accepted any more.
    authorities: Arc<AtomicU64>,
}

#[derive(Clone)]
struct Current {
    config: Arc<ServerConfig>,
    expiry: Option<i64>,
    authority: Option<Vec<u8>>,
}

impl TlsFiles {
    /// Checks that the files can be read and belong together.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn check(&self) -> Result<()> {
        self.read().map(drop)
    }

    fn read(&self) -> Result<Current> {
        let pair = pair(&self.chain, &self.key)?;
        let expiry = pair.cert.first().and_then(|first| validity::not_after(first));
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(failure)?;
        let authority = match &self.authority {
            Some(path) => Some(std::fs::read(path).map_err(|e| authority_unreadable(path, e))?),
            None => None,
        };
        let builder = match (&self.authority, &authority) {
            (Some(path), Some(pem)) => builder.with_client_cert_verifier(self.verifier(path, pem, provider)?),
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
        config.alpn_protocols = self.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        if authority.is_some() {
            // A resumed session would not verify its client certificate again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Current { config: Arc::new(config), expiry, authority })
    }

    fn verifier(&self, path: &Path, pem: &[u8], provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|e| authority_unreadable(path, e))?;
            roots.add(certificate).map_err(|e| authority_unreadable(path, e))?;
        }
        if roots.is_empty() {
            return Err(authority_unreadable(path, "it contains no certificate"));
        }
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        if !self.requires_client {
            builder = builder.allow_unauthenticated();
        }
        builder.build().map_err(|e| authority_unreadable(path, e))
    }

    fn times(&self) -> [Option<SystemTime>; 3] {
        let modified = |path: &PathBuf| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        [modified(&self.chain), modified(&self.key), self.authority.as_ref().and_then(modified)]
    }
}

fn authority_unreadable(path: &Path, why: impl std::fmt::Display) -> PipelineError {
    usage(format!("cannot read the authority of client certificates, {}: {why}", path.display()))
}

fn pair(chain: &Path, key: &Path) -> Result<CertifiedKey> {
    let shown = chain.display();
    let certificates = CertificateDer::pem_file_iter(chain).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|e| usage(format!("cannot read the certificates {shown}: {e}")))?;
    let secret = PrivateKeyDer::from_pem_file(key)
        .map_err(|e| usage(format!("cannot read the key of the certificate, {}: {e}", key.display())))?;
    let pair = CertifiedKey::new(certificates, any_supported_type(&secret).map_err(failure)?);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(pair),
        Err(error) => Err(failure(error)).context(format_args!("{shown} and {} do not belong together", key.display())),
    }
}

impl ReloadingTls {
    /// Reads the files.
    ///
    /// # Errors
    /// If they cannot be read, or do not belong together.
    pub(crate) fn new(files: TlsFiles) -> Result<Arc<Self>> {
        let (of, current) = (Mutex::new(files.times()), RwLock::new(files.read()?));
        Ok(Arc::new(Self { files, current, of, authorities: Arc::default() }))
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An acceptor for the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current().config)
    }

    /// When the current certificate expires, in seconds since 1970; `None` if that cannot be read.
    pub(crate) fn expiry(&self) -> Option<i64> {
        self.current().expiry
    }

    /// A number that changes with the authority of client certificates.
    pub(crate) fn authorities(&self) -> (Arc<AtomicU64>, u64) {
        (Arc::clone(&self.authorities), self.authorities.load(Ordering::Acquire))
    }

    /// Reads the files again if they have changed. It may wait for the disk.
    pub(crate) fn look(&self) {
        let mut known = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let of = self.files.times();
        if of == *known {
            return;
        }
        match self.files.read() {
            Ok(read) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                if current.authority != read.authority {
                    self.authorities.fetch_add(1, Ordering::AcqRel);
                }
                *current = read;
                *known = of;
            }
            // The files may be half written: the old certificate stays in use until the new one is complete.
            Err(error) => tracing::warn!(error = %error, "the renewed certificate cannot be used"),
        }
    }
}
