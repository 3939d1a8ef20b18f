//! `[[syslog]]`: listeners for messages of syslog.

use super::TimeSpan;
use super::listener::{check_certificate_name, check_tls};
use super::toml_file::text_of;
use crate::proxies::Networks;
use crate::tls::TlsFiles;
use serde::{Deserialize, Deserializer, de};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A listener for syslog over TCP or TLS.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SyslogConfig {
    /// Address and port.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// The stream that receives the messages.
    pub stream: String,
    /// The addresses that may connect.
    #[serde(default)]
    pub from: Networks,
    /// The chain of certificates, as PEM; with it the connection is TLS.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// Its private key, as PEM.
    #[serde(default)]
    pub certificate_key: Option<PathBuf>,
    /// The certificate of the authority whose clients may connect; others are refused.
    #[serde(default)]
    pub client_authority: Option<PathBuf>,
    /// The names of clients of that authority that may connect; all of them if there is none.
    #[serde(default)]
    pub clients: Vec<String>,
    /// The time zone of messages that name none.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// The most bytes of a message.
    #[serde(default = "message_bytes")]
    pub message_bytes: usize,
    /// The most connections.
    #[serde(default = "connections")]
    pub connections: usize,
    /// How long a connection may send nothing.
    #[serde(default = "idle")]
    pub idle: TimeSpan,
    /// A file for messages that cannot be accepted; without it they are counted and dropped.
    #[serde(default)]
    pub aside: Option<PathBuf>,
    /// The most bytes of that file: senders decide how much is refused.
    #[serde(default = "aside_bytes")]
    pub aside_bytes: u64,
}

/// The most bytes that a message can be allowed to have: a cell of a row has no more.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = text_of(from, "an address in quotes, such as \"127.0.0.1:6514\"")?;
    let invalid = |_| de::Error::custom(format!("`{text}` is not an address with a port, such as `127.0.0.1:6514`"));
    text.parse().map_err(invalid)
}

fn utc() -> String {
    "UTC".to_owned()
}

fn message_bytes() -> usize {
    MAX_MESSAGE_BYTES
}

fn connections() -> usize {
    1000
}

fn idle() -> TimeSpan {
    TimeSpan(3600 * 1_000_000)
}

fn aside_bytes() -> u64 {
    64 << 20
}

impl SyslogConfig {
    /// The paths in it.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let own = [&mut self.certificate, &mut self.certificate_key, &mut self.client_authority, &mut self.aside];
        own.into_iter().flatten()
    }

    /// The files of its TLS, if it has a certificate.
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            chain: self.certificate.clone()?,
            key: self.certificate_key.clone()?,
            authority: self.client_authority.clone(),
            requires_client: self.client_authority.is_some(),
            protocols: &[],
        })
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let what = format!("[[syslog]] at {}", self.listen);
        check_tls(self.certificate.as_ref(), self.certificate_key.as_ref(), self.client_authority.as_ref())
            .map_err(|problem| format!("{what}: {problem}"))?;
        if !self.clients.is_empty() && self.client_authority.is_none() {
            return Err(format!("{what}: clients are named by their certificates: add client-authority = \"FILE\""));
        }
        for name in &self.clients {
            check_certificate_name(name).map_err(|problem| format!("{what}: clients, `{name}`: {problem}"))?;
        }
        if self.from.is_empty() && self.client_authority.is_none() && !self.listen.ip().is_loopback() {
            return Err(format!(
                "{what}: anyone who reaches this address could send events, since syslog has no token: name the \
                 senders, as in from = [\"10.0.0.0/8\"], or give client-authority"
            ));
        }
        if jiff::tz::TimeZone::get(&self.time_zone).is_err() {
            return Err(format!("{what}: `{}` is not a time zone, such as \"Europe/Berlin\"", self.time_zone));
        }
        if !(480..=MAX_MESSAGE_BYTES).contains(&self.message_bytes) {
            return Err(format!("{what}: message-bytes is between 480 and {MAX_MESSAGE_BYTES}"));
        }
        if self.connections == 0 || self.idle.0 <= 0 {
            return Err(format!("{what}: connections and idle are greater than 0"));
        }
        Ok(())
    }
}
