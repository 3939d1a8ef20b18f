//! `[public]` and `[private]`: where the service listens, and `[[client]]`: machines that are known by a certificate.

use super::toml_file::text_of;
use crate::cors::Cors;
use crate::proxies::Networks;
use crate::role::Role;
use crate::tls::{ClientCertificate, TlsFiles};
use rustls_pki_types::DnsName;
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The prefix of the path of a Unix socket.
const UNIX: &str = "unix:";
/// The most bytes of that path that systems accept.
const MAX_SOCKET_PATH: usize = if cfg!(target_vendor = "apple") { 103 } else { 107 };

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Listener {
    /// Address and port, or the path of a socket.
    pub listen: ListenAddress,
    /// The permissions of the socket.
    #[serde(default, deserialize_with = "mode")]
    pub socket_mode: Option<u32>,
    /// The chain of certificates, as PEM; with it the connection is TLS.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// Its private key, as PEM.
    #[serde(default)]
    pub certificate_key: Option<PathBuf>,
    /// The certificate of the authority that signs the certificates of clients.
    #[serde(default)]
    pub client_authority: Option<PathBuf>,
    /// Whether a client without a certificate is refused.
    #[serde(default)]
    pub require_client_certificate: bool,
    /// The reverse proxies that are believed about the addresses of their clients.
    #[serde(default)]
    pub trusted_proxies: Networks,
    /// Whether they begin each connection with a header of the PROXY protocol.
    #[serde(default)]
    pub proxy_protocol: bool,
    /// The origins whose pages may read; for the public listener.
    #[serde(default)]
    pub cors: Cors,
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Address and port; port 0 is any free port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(UNIX) {
            Some("") => Err("`unix:` needs the path of a socket, such as `unix:/run/evertally/private.sock`".into()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                format!(
                    "`{text}` is not an address with a port, such as `127.0.0.1:8801`, or a socket, such as \
                     `unix:/run/evertally/private.sock`"
                )
            }),
        }
    }
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text_of(from, "an address in quotes")?.parse().map_err(de::Error::custom)
    }
}

/// Permissions of a socket, as `chmod` takes them. Without those of its owner, the service could not be asked.
fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let text = text_of(from, "a mode in quotes")?;
    // The standard library would also read a sign.
    let is_octal = matches!(text.len(), 3 | 4) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| is_octal && *mode <= 0o777 && mode & 0o600 == 0o600);
    let invalid = || {
        de::Error::custom(format!(
            "`{text}` is not a mode, such as \"0660\": three or four octal digits, and its owner may read and write"
        ))
    };
    mode.map(Some).ok_or_else(invalid)
}

impl Listener {
    /// Whether only programs on this machine can reach it.
    pub(crate) fn is_local(&self) -> bool {
        match &self.listen {
            ListenAddress::Tcp(address) => address.ip().is_loopback(),
            ListenAddress::Unix(_) => true,
        }
    }

    /// The files of its TLS, if it has a certificate.
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            chain: self.certificate.clone()?,
            key: self.certificate_key.clone()?,
            authority: self.client_authority.clone(),
            requires_client: self.require_client_certificate,
            protocols: &[b"h2", b"http/1.1"],
        })
    }

    /// The paths in it.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let socket = match &mut self.listen {
            ListenAddress::Unix(path) => Some(path),
            ListenAddress::Tcp(_) => None,
        };
        let files = [&mut self.certificate, &mut self.certificate_key, &mut self.client_authority];
        files.into_iter().flatten().chain(socket)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        check_tls(self.certificate.as_ref(), self.certificate_key.as_ref(), self.client_authority.as_ref())?;
        if self.require_client_certificate && self.client_authority.is_none() {
            return Err("require-client-certificate needs client-authority = \"FILE\"".into());
        }
        if self.socket_mode.is_some() && matches!(self.listen, ListenAddress::Tcp(_)) {
            return Err("socket-mode is for a socket: listen = \"unix:PATH\"".into());
        }
        if let ListenAddress::Unix(path) = &self.listen
            && path.as_os_str().len() > MAX_SOCKET_PATH
        {
            let (shown, bytes) = (path.display(), path.as_os_str().len());
            return Err(format!(
                "the path of the socket, {shown}, has {bytes} bytes, and this system accepts at most \
                 {MAX_SOCKET_PATH}: choose a shorter path"
            ));
        }
        if self.proxy_protocol && self.trusted_proxies.is_empty() {
            return Err(
                "proxy-protocol needs the addresses of the proxies: add trusted-proxies = [\"10.0.0.7\"]".into()
            );
        }
        Ok(())
    }
}

/// Checks that the files of a listener's TLS are complete.
pub(super) fn check_tls(
    certificate: Option<&PathBuf>,
    key: Option<&PathBuf>,
    client_authority: Option<&PathBuf>,
) -> Result<(), String> {
    if certificate.is_some() != key.is_some() {
        return Err("certificate and certificate-key go together".into());
    }
    match client_authority.is_some() && certificate.is_none() {
        true => Err("client-authority needs TLS: add certificate and certificate-key".into()),
        false => Ok(()),
    }
}

/// Checks that a certificate can have an alternative name: a DNS name, or with a colon a URI.
pub(super) fn check_certificate_name(name: &str) -> Result<(), String> {
    let needs = "a DNS name of its certificate, such as shop.example, or a URI, such as spiffe://shop.example/till";
    let Some((scheme, rest)) = name.split_once(':') else {
        let is_dns = DnsName::try_from(name.strip_prefix("*.").unwrap_or(name)).is_ok();
        return if is_dns { Ok(()) } else { Err(format!("no certificate has this name; give {needs}")) };
    };
    if ["dns", "uri", "ip", "email"].iter().any(|kind| scheme.eq_ignore_ascii_case(kind)) {
        return match scheme.to_ascii_lowercase().as_str() {
            "dns" | "uri" => Err(format!("write the name without `{scheme}:`, as in `{rest}`")),
            _ => Err(format!("only DNS names and URIs of certificates are known; give {needs}")),
        };
    }
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
    // A host with a port has the form of a URI, but is not meant as one.
    let is_port = rest.bytes().all(|c| c.is_ascii_digit());
    let is_uri = is_scheme && !is_port && rest.bytes().all(|c| c.is_ascii_graphic());
    if is_uri { Ok(()) } else { Err(format!("no certificate has this name; give {needs}")) }
}

/// A machine that is known by its certificate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClientConfig {
    /// A DNS name, or with a colon a URI, among the alternative names of the certificate.
    pub name: String,
    /// Its roles, in the words of tokens.
    #[serde(deserialize_with = "roles")]
    pub roles: Vec<Role>,
}

fn roles<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Role>, D::Error> {
    let words = Vec::<String>::deserialize(from)?;
    words.iter().map(|word| word.parse().map_err(de::Error::custom)).collect()
}

impl ClientConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { name, roles } = self;
        check_certificate_name(name).map_err(|problem| format!("[[client]] name = \"{name}\": {problem}"))?;
        match roles.is_empty() {
            true => Err(format!("[[client]] `{name}` has no roles: give roles = [\"write:STREAM\"]")),
            false => Ok(()),
        }
    }

    /// The first client that a certificate belongs to.
    pub(crate) fn find<'c>(all: &'c [Self], certificate: &ClientCertificate) -> Option<&'c Self> {
        all.iter().find(|client| certificate.has_name(&client.name))
    }
}
