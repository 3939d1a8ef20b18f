//! The certificate of a client.

use super::ReloadingTls;
use super::validity::not_after;
use jiff::Timestamp;
use rustls::ServerConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The certificate that a client has proven to be its own, signed by the authority of the listener.
#[derive(Clone, Debug)]
pub(crate) struct ClientCertificate {
    /// Its alternative names that are DNS names or URIs. Its common name is not one of them: an authority that is
    /// constrained to some names may still sign any common name.
    names: Vec<String>,
    /// When it, or the first certificate of its chain, expires, in seconds since 1970.
    expiry: i64,
    /// The authority of the listener, and its number at the handshake.
    authority: (Arc<AtomicU64>, u64),
}

impl ClientCertificate {
    /// The authority of a listener, to be noted before a handshake.
    pub(crate) fn authority(tls: &ReloadingTls) -> (Arc<AtomicU64>, u64) {
        tls.authorities()
    }

    /// The certificate of a connection, if its client has one.
    pub(crate) fn of(connection: &ServerConnection, authority: (Arc<AtomicU64>, u64)) -> Option<Self> {
        let chain = connection.peer_certificates()?;
        let leaf = webpki::EndEntityCert::try_from(chain.first()?).ok()?;
        let dns = leaf.valid_dns_names().map(str::to_ascii_lowercase);
        let names = dns.chain(leaf.valid_uri_names().map(str::to_owned)).collect();
        let expiry = chain.iter().map(|certificate| not_after(certificate).unwrap_or(i64::MIN)).min()?;
        Some(Self { names, expiry, authority })
    }

    /// Whether it has a name. DNS names are compared without case.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name || (!own.contains(':') && own.eq_ignore_ascii_case(name)))
    }

    /// Whether it is still valid: connections may last longer than certificates and authorities.
    pub(crate) fn is_valid(&self) -> bool {
        let (current, at_handshake) = &self.authority;
        Timestamp::now().as_second() <= self.expiry && current.load(Ordering::Acquire) == *at_handshake
    }
}
