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
    /// Its alternative names that are DNS names. Its common name is not one of them: an authority that is constrained
    /// to some names may still sign any common name.
    dns_names: Vec<String>,
    /// Those that are URIs. They are kept apart, because constraints of DNS names do not apply to them.
    uris: Vec<String>,
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
        let dns_names = leaf.valid_dns_names().map(str::to_owned).collect();
        let uris = leaf.valid_uri_names().map(str::to_owned).collect();
        let expiry = chain.iter().map(|certificate| not_after(certificate).unwrap_or(i64::MIN)).min()?;
        Some(Self { dns_names, uris, expiry, authority })
    }

    /// Whether it has a name. One with a colon is a URI, and any other a DNS name, which is compared without case: an
    /// authority that may not sign a DNS name could otherwise sign a URI that reads like it.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        match name.contains(':') {
            true => self.uris.iter().any(|own| own == name),
            false => self.dns_names.iter().any(|own| own.eq_ignore_ascii_case(name)),
        }
    }

    /// Whether it is still valid: connections may last longer than certificates and authorities.
    pub(crate) fn is_valid(&self) -> bool {
        let (current, at_handshake) = &self.authority;
        Timestamp::now().as_second() <= self.expiry && current.load(Ordering::Acquire) == *at_handshake
    }
}

#[cfg(test)]
impl ClientCertificate {
    /// One with some names, of the first authority of a listener.
    pub(crate) fn with_names(dns_names: &[&str], uris: &[&str], authority: &Arc<AtomicU64>) -> Self {
        let [dns_names, uris] = [dns_names, uris].map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Self { dns_names, uris, expiry: i64::MAX, authority: (Arc::clone(authority), 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_no_dns_name() {
        let certificate =
            ClientCertificate::with_names(&["Shop.Example"], &["oper.example", "urn:a:B"], &Arc::default());
        assert!(certificate.has_name("shop.example") && certificate.has_name("urn:a:B"));
        for other in ["oper.example", "OPER.example", "urn:a:b", "", "example"] {
            assert!(!certificate.has_name(other), "{other}");
        }
    }
}
