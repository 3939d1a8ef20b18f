//! `[public]` and `[private]`: where the service listens.

use crate::cors::Cors;
use crate::proxies::TrustedProxies;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Listener {
    /// Address and port; port 0 is any free port.
    pub listen: SocketAddr,
    /// The chain of certificates, as PEM; with it the connection is TLS.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// Its private key, as PEM.
    #[serde(default)]
    pub certificate_key: Option<PathBuf>,
    /// The reverse proxies that are believed about the addresses of their clients.
    #[serde(default)]
    pub trusted_proxies: TrustedProxies,
    /// The origins whose pages may read; for the public listener.
    #[serde(default)]
    pub cors: Cors,
}
